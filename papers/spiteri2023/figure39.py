"""Figures 3.9, 3.12 and 3.13: images of which the embedded laws are sure, and unsure."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from .weights import DIGITS, METHODS, labels_of, of_weights, show, weights_of

BINS = 9  # of the weights in the first of two laws
SHOWN = (1, 5, 9)  # bins
PICTURES = 9  # of each kind


def bins_of(rows: pd.DataFrame, method: str) -> pd.DataFrame:
    """K = 2: the bin of every image's weight in the first law, and its digit."""
    weights = weights_of(rows, 2, method).iloc[:, 0]
    edges = np.linspace(weights.min(), weights.max(), BINS + 1)[1:-1]
    return pd.DataFrame(
        {"bin": 1 + np.digitize(weights, edges), "label": labels_of(weights.index)},
        index=weights.index,
    )


def unsure(weights: pd.DataFrame) -> np.ndarray:
    """K = 3: images whose three nearest, themselves among them, are three different digits."""
    nearest = NearestNeighbors(n_neighbors=3).fit(weights).kneighbors(weights)[1]
    labels = labels_of(weights.index)[nearest]
    return weights.index.to_numpy()[[len(set(three)) == 3 for three in labels.tolist()]]


def central(weights: pd.DataFrame, digit: int) -> np.ndarray:
    """K = 3: images of a digit, the nearest to the mean of its weights first."""
    some = weights[labels_of(weights.index) == digit]
    return some.index.to_numpy()[np.argsort(((some - some.mean()) ** 2).sum(axis=1))]


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """How many images are in each bin, and how many of which digit; and how many are unsure."""
    return pd.DataFrame([line for method in METHODS for line in of_method(rows, method)])


def of_method(rows: pd.DataFrame, method: str) -> list[dict]:
    found = {}
    if 2 in set(rows.K):
        bins = bins_of(rows, method)
        found |= {f"K = 2, bin {place}": part.label for place, part in bins.groupby("bin")}
    if 3 in set(rows.K):
        found["K = 3, unsure"] = pd.Series(labels_of(unsure(weights_of(rows, 3, method))))
    return [
        {"method": method, "what": what, "images": len(labels)}
        | {f"of {digit}": int((labels == digit).sum()) for digit in DIGITS[3]}
        | {"published": "pictures"}
        for what, labels in found.items()
    ]


def kinds(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Images to show, by kind, from the spectral fit."""
    shown = {}
    if 2 in set(rows.K):
        bins = bins_of(rows, "spectral")
        shown |= {f"K = 2\nbin {b}": bins.index[bins.bin == b].to_numpy() for b in SHOWN}
    if 3 in set(rows.K):
        weights = weights_of(rows, 3, "spectral")
        shown |= {f"K = 3\nsurely {digit}": central(weights, digit) for digit in DIGITS[3]}
        shown["K = 3\nunsure"] = unsure(weights)
    return shown


def figure(rows: pd.DataFrame) -> Figure:
    """A line of images for each kind."""
    shown, images = kinds(rows), load_digits().data
    picture = Figure(figsize=(PICTURES + 1.2, 1.05 * len(shown)), layout="constrained")
    panels = picture.subplots(len(shown), PICTURES)
    for line, (name, found) in zip(panels, shown.items(), strict=True):
        some = [images[i] for i in found[:PICTURES]]
        for ax, image in zip(line, some + [None] * (PICTURES - len(some)), strict=True):
            show(ax, image)
        line[0].text(-0.35, 0.5, name, ha="right", va="center", transform=line[0].transAxes)
    return picture


EXPERIMENTS = [
    of_weights(
        "spiteri2023-figure39",
        "Figures 3.9, 3.12 and 3.13",
        "Images that the weights are sure of, and unsure.",
        summary,
        figure,
        "K = 2: nine bins of equal width of the weight in the law of 2; K = 3: images nearest to "
        "the mean weights of their digit, and those whose three nearest show three digits. "
        "Pictures: the spectral fit.",
    )
]

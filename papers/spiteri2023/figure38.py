"""Figures 3.8, 3.10 and 3.11: the weights of images in the embedded laws."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .weights import DIGITS, METHODS, labels_of, measure, of_weights, weights_of

COLOURS = {2: "#0072B2", 4: "#009E73", 7: "#D55E00"}
BINS = 40
PUBLISHED = {(3, "spectral"): 0.925}  # by neighbours; MNIST, rows of the sequence split


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """How well the weights tell digits apart."""
    return pd.DataFrame(
        [
            {
                "K": K,
                "method": method,
                "images": len(weights_of(rows, K, method)),
                "neighbours": measure(rows, K, method, "neighbours"),
                "published": PUBLISHED.get((K, method), np.nan),
                "two rows on": measure(rows, K, method, "two rows on"),
                "filter, training rows": measure(rows, K, method, "filter"),
            }
            for K in sorted(rows.K.unique())
            for method in METHODS
        ]
    )


def figure(rows: pd.DataFrame) -> Figure:
    """Histograms of each weight by digit, then pairs of weights; a line for each model."""
    Ks = sorted(rows.K.unique())
    picture = Figure(figsize=(16, 3.4 * len(Ks)), layout="constrained")
    for line, K in zip(picture.subplots(len(Ks), 6, squeeze=False), Ks, strict=True):
        weights = weights_of(rows, K, "spectral")
        labels, names = labels_of(weights.index), list(weights)
        for ax, name in zip(line, names, strict=False):
            histogram(ax, weights[name], labels, K)
        for ax, pair in zip(line[K:], combinations(names, 2), strict=False):
            scatter(ax, weights, pair, labels, K)
        for ax in line:
            ax.set_visible(ax.has_data())
    handles, digits = line[0].get_legend_handles_labels()  # of the most digits
    picture.legend(handles, digits, title="digit", loc="outside right upper", frameon=False)
    return picture


def histogram(ax, values: pd.Series, labels: np.ndarray, K: int) -> None:
    edges = np.linspace(values.min(), values.max(), BINS + 1)
    for digit in DIGITS[K]:
        some = values.to_numpy()[labels == digit]
        ax.hist(some, edges, color=COLOURS[digit], alpha=0.6, label=str(digit))
    ax.set(title=f"K = {K}, law of {values.name[1:]}", xlabel="n × weight", ylabel="images")


def scatter(ax, weights: pd.DataFrame, pair: tuple[str, str], labels, K: int) -> None:
    for digit in DIGITS[K]:
        some = weights[labels == digit]
        ax.plot(some[pair[0]], some[pair[1]], ".", color=COLOURS[digit], ms=4, alpha=0.7)
    ax.set(title=f"K = {K}", xlabel=f"in the law of {pair[0][1:]}")
    ax.set(ylabel=f"in the law of {pair[1][1:]}")
    ax.grid(alpha=0.3)


EXPERIMENTS = [
    of_weights(
        "spiteri2023-figure38",
        "Figures 3.8, 3.10 and 3.11",
        "Weights of images in the embedded law of each state.",
        summary,
        figure,
        "Pictures: Algorithm 1, whose weight of y_{t+2} is a function of y_t: they show the digit "
        "of y_t. “neighbours”: the digit by five neighbours among 70% of the images, for the rest "
        "(the thesis splits rows, so that an image can be on both sides); “two rows on”: the "
        "digit of the row that the weight belongs to, rows split.",
    )
]

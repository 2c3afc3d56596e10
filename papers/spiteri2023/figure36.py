"""Figures 3.6 and 3.7: the mean image of each state."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from .weights import DIGITS, METHODS, SIDE, labels_of, of_weights, show, weights_of


def means_of(rows: pd.DataFrame, K: int, method: str) -> pd.DataFrame:
    """Mean images of the first run: a row of pixels for each digit."""
    some = rows[(rows.K == K) & (rows.method == method) & (rows.what == "mean")]
    some = some[some.seed == rows.seed.min()]
    return some.pivot_table(index="digit", columns="pixel", values="value")


def true_mean(digit: int) -> np.ndarray:
    """Of all images of a digit, each with mean 0 and variance 1."""
    images, labels = load_digits(return_X_y=True)
    some = images[labels == digit]
    some = some - some.mean(axis=1, keepdims=True)
    return (some / some.std(axis=1, keepdims=True)).mean(axis=0)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """How near each mean image is to that of all images of the digit."""
    return pd.DataFrame(
        [
            {
                "K": K,
                "method": method,
                "digit": digit,
                "correlation with the digit's mean": np.corrcoef(mean, true_mean(digit))[0, 1],
                "root mean squared difference": np.mean((mean - true_mean(digit)) ** 2) ** 0.5,
                "published": "a picture",
            }
            for K in sorted(rows.K.unique())
            for method in METHODS
            for digit, mean in means_of(rows, K, method).iterrows()
        ]
    )


def figure(rows: pd.DataFrame) -> Figure:
    """A column for each state: two images of the digit, the mean of all, and of each method."""
    Ks = sorted(rows.K.unique())
    columns = [(K, digit) for K in Ks for digit in DIGITS[K]]
    names = ["an image", "another", "mean of all", *METHODS]
    picture = Figure(figsize=(1.5 * len(columns) + 1.2, 1.5 * len(names)), layout="constrained")
    panels = picture.subplots(len(names), len(columns))
    images = load_digits().data
    for line, (K, digit) in zip(panels.T, columns, strict=True):
        seen = weights_of(rows, K, "spectral").index
        two = images[seen[labels_of(seen) == digit][:2]]
        means = [means_of(rows, K, method).loc[digit].to_numpy() for method in METHODS]
        for ax, image in zip(line, [*two, true_mean(digit), *means], strict=True):
            show(ax, image)
        line[0].set_title(f"K = {K}: {digit}", fontsize=9)
    for ax, name in zip(panels[:, 0], names, strict=True):
        ax.text(-1.5, SIDE / 2, name, ha="right", va="center", fontsize=9)
    return picture


EXPERIMENTS = [
    of_weights(
        "spiteri2023-figure36",
        "Figures 3.6 and 3.7",
        "What is seen in each state, on average.",
        summary,
        figure,
        "Columns: the models of two and of three digits.",
    )
]

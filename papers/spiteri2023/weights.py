"""Embedded laws of digits: what Figures 3.6 to 3.13 are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import kernelmean as km
from kernelmean.app.reproduce import Experiment
from kernelmean.datasets import HMMData

from .hidden import FIRST_SEED, PAPER, accuracy

DIGITS = {2: (2, 7), 3: (2, 4, 7)}
ROWS = 20_000
TRAINING = 0.7  # of the images, in the test of nearest neighbours
NEIGHBOURS = 5
METHODS = {"spectral": False, "default": True}  # refine
SIDE = 8  # pixels


def run(seed: int, K: int, n: int = ROWS) -> list[dict]:
    """Of both methods the weights of every image, mean images, and accuracies."""
    data = km.datasets.make_digit_hmm(K, n, random_state=seed)
    found = []
    for method, refine in METHODS.items():
        model = km.KernelHMM(K, refine=refine, random_state=seed).fit(data.X)
        found += [{"method": method, **row} for row in of_model(model, data, seed)]
    return found


def of_model(model: Any, data: HMMData, seed: int) -> list[dict]:
    digits = DIGITS[model.n_components_]
    weights = by_image(model, data)
    order = matched(weights)
    named = weights.set_axis([f"w{digits[k]}" for k in order], axis=1).sort_index(axis=1)
    means = np.asarray(model.emissions_.mean())[np.argsort(order)]
    measured = {
        "neighbours": by_neighbours(named, seed),
        "filter": accuracy(model.filter(data.X), data.states),
    }
    return [
        *({"what": "image", "image": image, **w} for image, w in named.to_dict("index").items()),
        *(
            {"what": "mean", "digit": digit, "pixel": pixel, "value": value}
            for digit, mean in zip(digits, means, strict=True)
            for pixel, value in enumerate(mean)
        ),
        *({"what": what, "value": value} for what, value in measured.items()),
    ]


def by_image(model: Any, data: HMMData) -> pd.DataFrame:
    """n times the weight of every image that was seen, a column for each state.

    Rows that show one image have one weight in the spectral fit, which is a function of y; of the
    default it is their mean.
    """
    weights = len(data.X) * np.asarray(model.emissions_.weights).T
    return pd.DataFrame(weights).groupby(data.images).mean()


def labels_of(images) -> np.ndarray:
    """Digits on images of the collection."""
    return load_digits(return_X_y=True)[1][np.asarray(images, dtype=int)]


def matched(weights: pd.DataFrame) -> np.ndarray:
    """Which digit each state is, by place: the weights of its images are largest."""
    means = weights.groupby(labels_of(weights.index)).mean()
    return linear_sum_assignment(means.to_numpy().T, maximize=True)[1]


def by_neighbours(weights: pd.DataFrame, seed: int) -> float:
    """Share of 30% of the images whose digit their neighbours among the others name.

    Neighbours are those in the space of weights. The thesis splits the rows of the sequence, and
    then the same image can be on both sides.
    """
    labels = labels_of(weights.index)
    mixed = np.random.default_rng([seed, 1]).permutation(len(weights))
    known, asked = np.split(mixed, [round(TRAINING * len(mixed))])
    model = KNeighborsClassifier(min(NEIGHBOURS, len(known)))
    model.fit(weights.to_numpy()[known], labels[known])
    return float(model.score(weights.to_numpy()[asked], labels[asked]))


def weights_of(rows: pd.DataFrame, K: int, method: str) -> pd.DataFrame:
    """The weights in the first run, by image."""
    some = rows[(rows.K == K) & (rows.method == method) & (rows.what == "image")]
    some = some[some.seed == rows.seed.min()]
    table = some.set_index("image")[[f"w{digit}" for digit in DIGITS[K]]]
    return table.set_axis(table.index.astype(int))


def measure(rows: pd.DataFrame, K: int, method: str, what: str) -> float:
    """The mean over runs of one of the accuracies."""
    some = (rows.K == K) & (rows.method == method) & (rows.what == what)
    return float(rows[some].value.mean())


def own_digit(rows: pd.DataFrame, K: int, method: str) -> float:
    """Share of the images whose largest weight is that of their own digit."""
    weights = weights_of(rows, K, method)
    named = np.array(DIGITS[K])[weights.to_numpy().argmax(axis=1)]
    return float(np.mean(named == labels_of(weights.index)))


def show(ax, image) -> None:
    """An image and nothing around it; None leaves the place empty."""
    ax.axis("off")
    if image is not None:
        ax.imshow(np.reshape(image, (SIDE, SIDE)), cmap="gray_r")


def of_weights(name: str, item: str, title: str, summary, figure, notes: str) -> Experiment:
    """One sequence each for two and for three digits; all these figures share it."""
    return Experiment(
        name=name,
        paper=PAPER,
        item=item,
        title=title,
        run=run,
        summary=summary,
        figure=figure,
        grid=[{"K": 2}, {"K": 3}],
        quick=[{"K": 2, "n": 600}, {"K": 3, "n": 600}],
        runs=1,
        first_seed=FIRST_SEED,
        seconds=15,
        quick_runs=1,
        notes=f"scikit-learn's images of 8 by 8 pixels in place of MNIST; {ROWS:,} rows. {notes}",
    )

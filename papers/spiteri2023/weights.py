"""Embedded laws of digits: what Figures 3.6 to 3.13 are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import kernelmean as km
from kernelmean.datasets import HMMData

from ..reproduce import Experiment
from .hidden import FIRST_SEED, PAPER, accuracy

DIGITS = {2: (2, 7), 3: (2, 4, 7)}
ROWS = 20_000
TRAINING = 0.7  # of the rows, in the test of nearest neighbours
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
    digits, order = DIGITS[model.n_components_], matched(model, data)
    by_row = row_weights(model, data)[:, order]
    names = [f"w{digit}" for digit in digits]
    by_image = pd.DataFrame(by_row, columns=names).groupby(data.images).mean()
    means = np.asarray(model.emissions_.mean())[order]
    measured = {
        "neighbours": by_neighbours(by_image.to_numpy(), labels_of(by_image.index), seed),
        "filter": accuracy(model.filter(data.X), data.states),
    }
    if not model.refine:
        measured["two rows on"] = by_neighbours(by_row[:-2], data.states[2:], seed)
    return [
        *({"what": "image", "image": i, **w} for i, w in by_image.to_dict("index").items()),
        *(
            {"what": "mean", "digit": digit, "pixel": pixel, "value": value}
            for digit, mean in zip(digits, means, strict=True)
            for pixel, value in enumerate(mean)
        ),
        *({"what": what, "value": value} for what, value in measured.items()),
    ]


def matched(model: Any, data: HMMData) -> np.ndarray:
    """Which state each digit is: their mean images are nearest."""
    off = cdist(data.model.means, np.asarray(model.emissions_.mean()), "sqeuclidean")
    return linear_sum_assignment(off)[1]


def row_weights(model: Any, data: HMMData) -> np.ndarray:
    """n times the weights (n, K) of the laws: after EM those of the rows, else `paper_weights`."""
    if model.refine:
        return len(data.X) * np.asarray(model.emissions_.weights).T
    return paper_weights(model, data.X)


def paper_weights(model: Any, X: np.ndarray) -> np.ndarray:
    """n times WDΘL of Algorithm 1 from the laws O = Φ₃WDΘL, in coordinates.

    W spans the leading eigenvectors of K₁K₃, so that the weight *of* y_{t+2} is a function of y_t,
    u(y_t)ᵀ diag(1/σ) VᵀO with the singular functions of C₁₃ = UΣVᵀ. Row t here has this one. The
    library's own weights (of the same O, less its part beyond V) have a smaller norm.
    """
    Phi = np.asarray(model.features_.transform(X))
    O = Phi.T @ np.asarray(model.emissions_.weights).T
    K = O.shape[1]
    U, sigma, Vt = np.linalg.svd(Phi[:-2].T @ Phi[2:] / (len(X) - 2))
    return Phi @ (U[:, :K] / sigma[:K] @ (Vt[:K] @ O))


def labels_of(images) -> np.ndarray:
    """Digits on images of the collection."""
    return load_digits(return_X_y=True)[1][np.asarray(images, dtype=int)]


def by_neighbours(weights: np.ndarray, labels: np.ndarray, seed: int) -> float:
    """Share of 30% of the rows whose label their neighbours among the others name."""
    mixed = np.random.default_rng([seed, 1]).permutation(len(weights))
    known, asked = np.split(mixed, [round(TRAINING * len(mixed))])
    model = KNeighborsClassifier(NEIGHBOURS).fit(weights[known], labels[known])
    return float(model.score(weights[asked], labels[asked]))


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

"""Table 3.1: hidden digits, with scikit-learn's images of 8 by 8 pixels in place of MNIST."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km
from kernelmean.chains import markov
from kernelmean.datasets import HMMData
from kernelmean.kernels import median_lengthscale

from ..reproduce import Experiment
from .hidden import FIRST_SEED, PAPER, RUNS, TEST, accuracy, errors, gaussian, sizes_below

PUBLISHED = pd.read_csv(Path(__file__).with_name("published_hidden.csv"))
SIZES = (5000, 10_000, 20_000)
SHARES = {  # of each digit's images: to learn from, and to test with
    "shared": ((0.0, 1.0), (0.0, 1.0)),
    "apart": ((0.0, 0.8), (0.8, 1.0)),
}
HMMLEARN = 5000  # most rows that EM with normal laws is given
FACTORS = (1, 2, 4, 8)  # of the median distance
SELECTIONS = {"none": "spectral, by prediction", "validation": "spectral, by labels"}
METHODS = {  # and their colours, of Okabe and Ito
    "default": "#D55E00",
    "default, forward": "#E69F00",
    "spectral": "#0072B2",
    SELECTIONS["none"]: "#56B4E9",
    SELECTIONS["validation"]: "#009E73",
    "GaussianHMM": "#CC79A7",
}
GRID = [
    {"K": K, "n": n, "images": images}
    for n in SIZES
    for images in SHARES
    if images == "shared" or n != 10_000
    for K in (2, 3, 4)
]


class Draw(NamedTuple):
    """Three sequences."""

    train: HMMData
    validation: HMMData
    test: HMMData


def draw(seed: int, K: int, n: int, images: str = "shared") -> Draw:
    """To learn from and to choose with: some images; to test with: all or others."""
    learned, tested = SHARES[images]

    def sequence(n: int, share, part: int) -> HMMData:
        rng = np.random.default_rng([seed, part])
        return km.datasets.make_digit_hmm(K, n, share=share, random_state=rng)

    return Draw(sequence(n, learned, 0), sequence(TEST, learned, 1), sequence(TEST, tested, 2))


def run(seed: int, K: int, n: int, images: str = "shared") -> list[dict]:
    """Both errors of every model."""
    given = draw(seed, K, n, images)
    X = given.train.X
    default = km.KernelHMM(K, random_state=seed).fit(X)
    rows = [row("default", default, given)]
    rows.append(row("default, forward", default.set_params(inference="forward"), given))
    rows.append(row("spectral", km.KernelHMM(K, refine=False, random_state=seed).fit(X), given))
    if n <= HMMLEARN:
        rows.append(row("GaussianHMM", gaussian(K, X, seed), given))
    if images == "shared":
        rows += selected(given, seed)
    return rows


def row(method: str, model: Any, given: Draw, factor: float = 1.0) -> dict:
    return {"method": method, "factor": factor, **errors(model, given.train, given.test)}


def selected(given: Draw, seed: int) -> list[dict]:
    """The thesis's two ways to choose the bandwidth, and the fit, on validation rows (3.6.5)."""
    K, X, check = given.train.model.n_states, given.train.X, given.validation
    lengthscale = median_lengthscale(X)
    kernels = {factor: km.Gaussian(factor * lengthscale) for factor in FACTORS}
    fits = [
        (factor, km.KernelHMM(K, kernel, refine=False, random_state=seed).fit(X))
        for factor, kernel in kernels.items()
    ]
    by_prediction = min(fits, key=lambda fit: prediction_error(fit[1], check.X))
    by_labels = max(fits, key=lambda fit: accuracy(fit[1].filter(check.X), check.states))
    return [
        row(SELECTIONS["none"], by_prediction[1], given, by_prediction[0]),
        row(SELECTIONS["validation"], by_labels[1], given, by_labels[0]),
    ]


def prediction_error(model: km.KernelHMM, X: np.ndarray) -> float:
    """Mean of ‖y_{t+1} − E[y_{t+1} | y_1, ..., y_t]‖²."""
    chain = markov.Chain(model.startprob_, model.transmat_)
    p = markov.predicted(model.filter(X), chain, [slice(0, len(X))])
    return float(np.mean((X - p @ model.emissions_.mean())[1:] ** 2))


# ---------------------------------------------------------------- the table
def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over runs, and the thesis's numbers, which are of MNIST."""
    keys = ["images", "K", "n", "method"]
    parts = dict(list(rows.groupby(keys)))
    order = [
        (images, K, n, method)
        for images in SHARES
        for K in sorted(rows.K.unique())
        for n in sorted(rows.n.unique())
        for method in METHODS
    ]
    return pd.DataFrame(
        [
            {
                **dict(zip(keys, key, strict=True)),
                "runs": len(parts[key]),
                "accuracy": parts[key].accuracy.mean(),
                "median": parts[key].accuracy.median(),
                "lowest": parts[key].accuracy.min(),
                "TMSE": parts[key].tmse.mean(),
                "bandwidth / median": parts[key].factor.median(),
                "published": published(*key),
            }
            for key in order
            if key in parts
        ]
    )


def published(images: str, K: int, n: int, method: str) -> float:
    """Accuracy on MNIST with one image in training and test, chosen in the same way."""
    chosen = {name: labels for labels, name in SELECTIONS.items()}
    here = (K == PUBLISHED.K) & (n == PUBLISHED.n) & (chosen.get(method) == PUBLISHED.labels)
    found = PUBLISHED[here].accuracy
    return float(found.iloc[0]) if len(found) and images == "shared" else float("nan")


def figure(rows: pd.DataFrame) -> Figure:
    """Accuracy over n, a column for each K, shared images above."""
    kinds = [images for images in SHARES if images in set(rows.images)]
    Ks = sorted(rows.K.unique())
    means = rows.groupby(["images", "K", "method", "n"]).accuracy.mean()
    picture = Figure(figsize=(4 * len(Ks) + 1, 3.4 * len(kinds) + 0.8), layout="constrained")
    panels = picture.subplots(len(kinds), len(Ks), squeeze=False, sharey=True, sharex=True)
    for line, images in zip(panels, kinds, strict=True):
        for ax, K in zip(line, Ks, strict=True):
            for method in METHODS:
                if (images, K, method) in means.index.droplevel("n"):
                    values = means[images, K, method]
                    style = "o:" if "by" in method else "o-"  # often upon “spectral”
                    ax.plot(values, style, color=METHODS[method], label=method, ms=4)
            ax.set(title=f"K = {K}, images {images}", ylabel="accuracy")
            sizes_below(ax, sorted(rows.n.unique()))
            ax.label_outer()
            ax.grid(alpha=0.3)
    handles, names = panels[0][0].get_legend_handles_labels()
    picture.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    return picture


def of_digits(name: str, item: str, grid: list[dict], seconds: float) -> Experiment:
    """Both share the runs that both have."""
    return Experiment(
        name=name,
        paper=PAPER,
        item=item,
        title="Hidden digits named from images of them.",
        run=run,
        summary=summary,
        figure=figure,
        grid=grid,
        quick=[{"K": K, "n": 300, "images": images} for K, images in ((2, "shared"), (3, "apart"))],
        runs=RUNS,
        first_seed=FIRST_SEED,
        seconds=seconds,
        quick_runs=1,
        notes="Published numbers are of MNIST, and of a thesis that chooses the bandwidth (and one "
        "of five fits) on validation rows: by the error of the predicted next image, or by labels. "
        "Images “apart”: none of those tested has been learned from.",
    )


EXPERIMENTS = [
    of_digits(
        "spiteri2023-digits",
        "Table 3.1 at n = 5,000",
        [setting for setting in GRID if setting["n"] == SIZES[0]],
        seconds=75,
    ),
    of_digits("spiteri2023-table31", "Table 3.1", GRID, seconds=250),
]

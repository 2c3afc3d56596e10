"""Draws, the points where densities are compared, and the two errors of the thesis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import ttest_ind, ttest_rel

import kernelmean as km
from kernelmean.datasets import DensityData

PAPER = "Spiteri (2023)"
FIRST_SEED = 31000  # no choice in the code was made by looking at these seeds
RUNS = 20
POINTS = 1000  # over the range of the observed y
SIDE = 60  # of the grid, where Y has two columns
ROWS = 50  # of the observed x
NAMES = {
    "beta": "Beta",
    "bimodal": "Bimodal",
    "cauchy": "Cauchy",
    "dirichlet": "Dirichlet",
    "linear": "Linear",
    "toeplitz": "Linear Toeplitz",
    "mixture": "Mixture",
    "mvn": "MVN",
    "nonlinear1": "Nonlinear type 1",
    "nonlinear2": "Nonlinear type 2",
    "triangle": "Gaussian triangle",
}
NEAR = np.linspace(-6.0, 6.0, 1001)  # standard deviations around x, for the Cauchy design


def draw(seed: int, model: str, n: int, **settings) -> DensityData:
    """One draw of a model; None leaves a setting at its default."""
    given = {name: value for name, value in settings.items() if value is not None}
    return km.datasets.make_conditional_density(model, n, random_state=seed, **given)


def observed(X: np.ndarray, rows: int, seed: int) -> np.ndarray:
    """Rows of X drawn without replacement."""
    some = np.random.default_rng(seed).choice(len(X), min(rows, len(X)), replace=False)
    return X[some]


def grid(Y: np.ndarray, points: int = POINTS, side: int = SIDE) -> np.ndarray:
    """Even points over the range of the observed y; a square of them for two columns."""
    low, high = Y.min(axis=0), Y.max(axis=0)
    if len(low) == 1:
        return np.linspace(low, high, points)
    axes = [np.linspace(a, b, side) for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(low))


def errors(estimate: np.ndarray, truth: np.ndarray) -> dict[str, np.ndarray]:
    """max |p̂ − p| and the mean of (p̂ − p)² over y, for every x."""
    off = estimate - truth
    return {"mad": np.abs(off).max(axis=1), "mse": np.mean(off**2, axis=1)}


def on_range(model, data: DensityData, at: np.ndarray) -> dict[str, np.ndarray]:
    """Errors at the rows `at` over the range of the observed y."""
    Y = grid(data.Y)
    return errors(model.pdf(Y, at, paired=False), data.density(Y, at, paired=False))


def near_x(model, data: DensityData, at: np.ndarray) -> dict[str, np.ndarray]:
    """Errors within six standard deviations of x, where Y = x + N(0, 1)."""
    pairs = [
        (model.pdf(NEAR + x[0], [x], paired=False), data.density(NEAR + x[0], [x], paired=False))
        for x in at
    ]
    return errors(*(np.concatenate(both) for both in zip(*pairs, strict=True)))


def two_samples(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Student's t and p; negative where ours are smaller."""
    test = ttest_ind(ours, theirs)
    return float(test.statistic), float(test.pvalue)


def paired(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Student's t of the differences; negative where ours are smaller."""
    return float(ttest_rel(ours, theirs).statistic) if len(ours) > 1 else float("nan")

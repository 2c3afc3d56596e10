"""What is compared: the library's default, the thesis's own estimator, KCDE and CDO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

import kernelmean as km
from kernelmean.comparators import KCDE, ConditionalDensityOperator
from kernelmean.kernels import median_lengthscale

REG = 0.001  # λ in the comparison with KCDE
REG_ILLUSTRATION = 0.1  # λ in Figure 2.2
LENGTHSCALES = np.logspace(-2, 1, 8)  # of the grid, relative to the median distance of X
BANDWIDTHS = np.logspace(-2, 0, 7)  # and of Y
EVALUATIONS = 50  # of the score after the grid


def default(X: np.ndarray, Y: np.ndarray) -> km.ConditionalDensity:
    """Everything chosen by the library."""
    return km.ConditionalDensity().fit(X, Y)


def kmde(X: np.ndarray, Y: np.ndarray) -> km.ConditionalDensity:
    """The thesis's estimator: λ = 0.001, one lengthscale and one bandwidth by the score (2.11)."""
    starts = [start for factor in LENGTHSCALES for start in _scores(X, Y, factor)]
    _, lengthscale, bandwidth = min(starts)
    model = plain(X, Y, lengthscale, bandwidth, REG)

    def score(u: np.ndarray) -> float:
        return model.loo_score(lengthscale=float(np.exp(u[0])), bandwidth=float(np.exp(u[1])))

    found = minimize(
        score,
        np.log([lengthscale, bandwidth]),
        method="Nelder-Mead",
        options={"maxfev": EVALUATIONS, "initial_simplex": _simplex(lengthscale, bandwidth)},
    )
    return plain(X, Y, *np.exp(found.x).tolist(), REG)


def _scores(X: np.ndarray, Y: np.ndarray, factor: float) -> list[tuple[float, float, float]]:
    """The score, lengthscale and bandwidth at one lengthscale of the grid."""
    lengthscale, unit = float(factor * median_lengthscale(X)), median_lengthscale(Y)
    bandwidths = [float(unit * f) for f in BANDWIDTHS]
    model = plain(X, Y, lengthscale, bandwidths[0], REG)
    return [(model.loo_score(bandwidth=b), lengthscale, b) for b in bandwidths]


def _simplex(lengthscale: float, bandwidth: float) -> np.ndarray:
    """Steps of half the grid's."""
    steps = 0.5 * np.log([LENGTHSCALES[1] / LENGTHSCALES[0], BANDWIDTHS[1] / BANDWIDTHS[0]])
    return np.log([lengthscale, bandwidth]) + np.vstack([np.zeros(2), np.diag(steps)])


def kmde_median(X: np.ndarray, Y: np.ndarray, reg: float = REG) -> km.ConditionalDensity:
    """The thesis's estimator with the median lengthscale: only the bandwidth is by the score."""
    lengthscale, unit = median_lengthscale(X), median_lengthscale(Y)
    model = plain(X, Y, lengthscale, unit, reg)

    def score(u: np.ndarray) -> float:
        return model.loo_score(bandwidth=float(np.exp(u[0])))

    start = min((np.log([unit * f]) for f in BANDWIDTHS), key=score)
    step = 0.5 * np.log(BANDWIDTHS[1] / BANDWIDTHS[0])
    options = {"maxfev": EVALUATIONS, "initial_simplex": [start, start + step]}
    found = minimize(score, start, method="Nelder-Mead", options=options)
    return plain(X, Y, lengthscale, float(np.exp(found.x[0])), reg)


def kmde_medians(X: np.ndarray, Y: np.ndarray) -> km.ConditionalDensity:
    """The thesis's comparison with CDO to the letter: median distances for both kernels."""
    return plain(X, Y, median_lengthscale(X), median_lengthscale(Y), REG)


def plain(
    X: np.ndarray, Y: np.ndarray, lengthscale: float, bandwidth: float, reg: float
) -> km.ConditionalDensity:
    """w(x) = (K_X + nλI)⁻¹l(x) and nothing else: isotropic Gaussian kernels, all given."""
    return km.ConditionalDensity(
        km.Gaussian(lengthscale), bandwidth, reg, intercept=False, location=False
    ).fit(X, Y)


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "default": default,
    "thesis": kmde,
    "KCDE": lambda X, Y: KCDE().fit(X, Y),
}
TRIANGLE_METHODS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "default": default,
    "thesis": kmde_median,
    "thesis, λ = 0.1": lambda X, Y: kmde_median(X, Y, REG_ILLUSTRATION),
    "thesis, medians": kmde_medians,
    "CDO": lambda X, Y: ConditionalDensityOperator().fit(X, Y),
}
COLOURS = {  # Okabe and Ito
    "truth": "black",
    "default": "#D55E00",
    "thesis": "#0072B2",
    "thesis, λ = 0.1": "#56B4E9",
    "thesis, medians": "#E69F00",
    "KCDE": "#009E73",
    "CDO": "#CC79A7",
}

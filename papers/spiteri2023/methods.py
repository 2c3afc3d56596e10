"""What is compared: the library's default, the thesis's own estimator, KCDE and CDO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

import kernelmean as km
from kernelmean.comparators import KCDE, ConditionalDensityOperator
from kernelmean.densities.search import DensitySearch
from kernelmean.kernels import median_lengthscale
from kernelmean.regression.bandwidth import with_bandwidth

REG = 0.001  # λ in the comparison with KCDE
REG_ILLUSTRATION = 0.1  # λ in Figure 2.2
BANDWIDTHS = np.logspace(-2, 0, 7)  # of the grid, relative to the median distance of Y
EVALUATIONS = 50  # of the score after the grid
POLISH = 25  # of the score after the library's search


def default(X: np.ndarray, Y: np.ndarray) -> km.ConditionalDensity:
    """Everything chosen by the library."""
    return km.ConditionalDensity().fit(X, Y)


def kmde(X: np.ndarray, Y: np.ndarray) -> km.ConditionalDensity:
    """The thesis's estimator: λ = 0.001, one lengthscale and one bandwidth by the score (2.11)."""
    lengthscale = median_lengthscale(X)
    start = with_bandwidth("gaussian", None, Y, "kernel_y")
    search = DensitySearch(km.Gaussian(lengthscale), start, X, Y, intercept=False, reg=REG)
    search.draft()
    bandwidth = search.factor * np.asarray(start.lengthscale)
    return polished(X, Y, float(lengthscale * search.scales[0]), bandwidth)


def polished(
    X: np.ndarray, Y: np.ndarray, lengthscale: float, bandwidth: np.ndarray
) -> km.ConditionalDensity:
    """From what the search found with few landmarks to the lowest score with many."""
    model = plain(X, Y, lengthscale, tuple(bandwidth.tolist()), REG)

    def score(u: np.ndarray) -> float:
        a, b = np.exp(u)
        return model.loo_score(lengthscale=a * lengthscale, bandwidth=tuple(b * bandwidth))

    options = {"maxfev": POLISH, "initial_simplex": [[0, 0], [-0.2, 0], [0, -0.2]]}
    a, b = np.exp(minimize(score, [0, 0], method="Nelder-Mead", options=options).x)
    return plain(X, Y, float(a * lengthscale), tuple((b * bandwidth).tolist()), REG)


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
    X: np.ndarray,
    Y: np.ndarray,
    lengthscale: float,
    bandwidth: float | tuple[float, ...],
    reg: float,
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

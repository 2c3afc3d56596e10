"""Searches on a line and in a box: a regulariser on the log scale, lengthscales by descent."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize, minimize_scalar

from . import arrays
from .stages import evaluated

CLEAR = 2.0  # standard errors
SLACK = 0.5  # standard errors that a larger bandwidth or λ may cost


def mean_and_error(terms: np.ndarray) -> tuple[float, float]:
    """The mean of terms, one a row, and its standard error."""
    return float(terms.mean()), float(terms.std() / len(terms) ** 0.5)


def largest(rows: Callable[[float], np.ndarray], best: float, step: float, limit: float) -> float:
    """How far the argument can grow from the best, in steps, at no clear cost.

    `rows` are the terms of the mean that `best` minimises; the mean of their differences may be up
    to half a standard error. The argument stays below 10**limit.
    """
    at_best = rows(best)
    while best * step <= 10.0**limit:
        worse, error = mean_and_error(rows(best * step) - at_best)
        if worse > SLACK * error:
            break
        best *= step
    return best


def descend(
    loss: Callable, start: np.ndarray, bounds: list | None, steps: int, tol: float = 1e-7
) -> np.ndarray:
    """The end of a few steps of L-BFGS on a loss that returns its slope too."""

    def told(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = loss(u)
        return evaluated(value), slope

    options: Any = {"maxiter": steps, "ftol": tol}
    found: Any = minimize(told, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return found.x


DECADES = (-10.0, 1.0)  # range of log10 reg, relative to the kernel's mean diagonal
POINTS = 23  # of the grid that brackets the minimum
SEARCH_ROWS = 10_000  # rows whose leave-one-out errors a search over regularisers looks at


def minimise_log10(
    loss: Callable[[float], float],
    low: float,
    high: float,
    points: int = POINTS,
    heaviest: bool = False,
    precision: float | None = None,
    size: float = 1.0,
) -> tuple[float, float]:
    """Minimise `loss(10**u)` over u in [low, high]: a grid, then Brent's method in its best cell.

    Parameters
    ----------
    heaviest : bool
        Of several local minima take the one with the largest argument, provided it has 95% of
        the improvement that the lowest has over the heaviest regulariser. A loss measured on
        few rows is nearly flat, and bumpy, where there is too little regularisation.
    precision : float, optional
        Of the minimiser's logarithm; None is 1e-4.
    size : float
        What arguments of the loss are multiples of: `loss(size * 10**u)`.

    Returns
    -------
    (argument, value) : the minimiser (not its logarithm) and the loss there
    """

    def at(u: float) -> float:
        value = float(loss(10.0 ** float(u) * size))
        return evaluated(value if math.isfinite(value) else math.inf)

    grid = np.linspace(low, high, points)
    values = np.array([at(u) for u in grid])
    best = _heaviest_minimum(values) if heaviest else int(np.argmin(values))
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, points - 1)]
    found = minimize_scalar(
        at, bounds=bracket, method="bounded", options={"xatol": precision or 1e-4}
    )
    if found.fun < values[best]:
        return float(10.0**found.x) * size, float(found.fun)
    return float(10.0 ** grid[best]) * size, float(values[best])


def _heaviest_minimum(values: np.ndarray) -> int:
    """Index of the last local minimum that is good enough."""
    enough = values[-1] - 0.95 * (values[-1] - values.min())
    padded = np.concatenate([[np.inf], values, [np.inf]])
    local = (values <= padded[:-2]) & (values <= padded[2:]) & (values <= enough)
    return int(np.flatnonzero(local)[-1])


def standard_error(rows) -> float:
    """Standard error of a sum of independent terms."""
    return float(rows.shape[0] ** 0.5 * arrays.namespace(rows).std(rows))


def heaviest_within(
    loss: Callable[[float], float], start: float, bound: float, high: float
) -> float:
    """Largest argument reached from `start` while the loss stays below `bound`.

    Searches up to 10**high: a walk of a tenth of a decade, then the root in the last step.
    """
    low = math.log10(start)
    while low < high:
        step = min(low + 0.1, high)
        if not loss(10.0**step) <= bound:  # NaN is above it
            low = brentq(lambda u: loss(10.0**u) - bound, low, step, xtol=1e-3)
            break
        low = step
    return 10.0**low

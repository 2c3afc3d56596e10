"""Choosing among fits of a `KernelStateSpace` by rows held back."""

from __future__ import annotations

import warnings
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ..chains.model import observed
from ..core import arrays
from ..core.checks import NumericalWarning, check_choice, check_positive
from ..core.progress import track
from ..core.threads import one_thread
from ..kernels import fitted_kernel

if TYPE_CHECKING:
    from .kernel_state_space import KernelStateSpace

SCORES = ("likelihood", "mse")
SCALES = (0.125, 0.25, 0.5, 1.0)
WIDTHS = (0.5, 1.0, 2.0)
GUARDS = (0.25, 1.0, 4.0)


def tune(
    model: KernelStateSpace,
    X,
    X_val,
    lengths,
    lengths_val,
    scales,
    widths,
    guards,
    penalties,
    score,
    n_jobs,
    verbose,
) -> KernelStateSpace:
    """See `KernelStateSpace.tune`."""
    check_choice(score, "score", SCORES)
    penalties = [model.penalty] if penalties is None else list(penalties)
    if not observed(X_val, "X_val")[1].any():
        raise ValueError("X_val has no row without NaN; observations are needed")
    if scales is None:
        scales = (1.0,) if model.refine else SCALES
    plain = clone(model).fit(X, lengths)
    grid = [
        {"scale": scale, "width": width, "guard": guard, "penalty": penalty}
        for scale, width, guard, penalty in product(
            _factors(scales, "scales"),
            _factors(widths, "widths"),
            _factors(guards, "guards"),
            penalties,
        )
    ]
    jobs = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_candidate)(plain, point, X, lengths, X_val, lengths_val, score) for point in grid
    )
    found = list(track(jobs, total=len(grid), description="fits", verbose=verbose))
    tuned = max(found, key=lambda pair: pair[1])[0]
    tuned.tuning_ = [
        {**point, score: float(abs(value) if score == "mse" else value)}
        for point, (_, value) in zip(grid, found, strict=True)
    ]
    return tuned


def _factors(values, name: str) -> list[float]:
    factors = [check_positive(value, name) for value in values]
    if not factors:
        raise ValueError(f"{name} is empty; positive numbers are needed")
    return factors


def _candidate(
    plain: KernelStateSpace, point: dict[str, Any], X, lengths, X_val, lengths_val, score
) -> tuple[KernelStateSpace, float]:
    """A fit, and how well it does on the rows held back: the larger the better."""
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # troubles are seen in the score
        fitted = clone(plain).set_params(**_settings(plain, point)).fit(X, lengths)
        if score == "likelihood":
            _, seen = observed(X_val, "X_val")
            return fitted, float(np.mean(fitted.log_predictive(X_val, lengths_val)[seen]))
        return fitted, -prediction_error(fitted, X_val, lengths_val)


def _settings(plain: KernelStateSpace, point: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a fit, where the grid is relative to those that the plain fit has chosen."""
    width = point["width"]
    given = plain.bandwidth_
    bandwidth = None if given is None else tuple(width * np.atleast_1d(given))
    if bandwidth is not None and len(bandwidth) == 1:
        bandwidth = bandwidth[0]
    return {
        "kernel": plain.kernel_.scaled(point["scale"]),
        "kernel_x": fitted_kernel(plain.kernel_x, plain.nodes_).scaled(point["scale"]),
        "bandwidth": bandwidth,
        "guard": tuple(point["guard"] * np.array(plain.guard_)),
        "penalty": point["penalty"],
    }


def prediction_error(model: KernelStateSpace, X, lengths) -> float:
    """Mean of ‖y_t − E[y_t | y_1, ..., y_{t-1}]‖² over the rows that are there."""
    points, seen = observed(X, "X_val")
    off = arrays.to_numpy(points - model.predict(X, lengths))[seen]
    return float((off * off).sum(axis=1).mean())

"""Choosing among fits of a hidden chain by rows held back, whatever is fitted."""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np

from ..core import arrays, checks
from ..core.progress import in_processes
from ..core.threads import one_thread
from .rows import observed

Judge = Callable[[Any], float]  # of a fitted estimator: the larger the better


def best_fit(
    at: Callable[..., Any], grid: list[dict], name: str, X, lengths, judge: Judge, n_jobs, verbose
) -> Any:
    """The best of the estimators `at` some points, fitted; `tuning_` has what each was judged."""
    tasks = [(at(**point), X, lengths, judge) for point in grid]
    found = list(in_processes(_judged, tasks, n_jobs, "fits", verbose))
    best = max(found, key=itemgetter(1))[0]
    scores = [abs(score) if name == "mse" else score for _, score in found]
    best.tuning_ = [point | {name: score} for point, score in zip(grid, scores, strict=True)]
    return best


def _judged(candidate, X, lengths, judge: Judge) -> tuple[Any, float]:
    with one_thread(), checks.hushed():  # troubles are seen in the score
        fitted = candidate.fit(X, lengths)
        return fitted, judge(fitted)


def factors(values, name: str) -> list[float]:
    """Positive numbers, one at least."""
    found = [checks.check_positive(value, name) for value in values]
    if not found:
        raise ValueError(f"{name} is empty; positive numbers are needed")
    return found


def next_error(fitted, X, lengths) -> float:
    """−mean ‖y_t − E[y_t | y_1, ..., y_{t-1}]‖² over the rows held back that are there."""
    points, seen = observed(X, "X_val")
    off = arrays.to_numpy(points - fitted.one_step(X, lengths))[seen]
    return -float((off * off).sum(axis=1).mean())


def next_likelihood(fitted, X, lengths) -> float:
    """Mean log p(y_t | y_1, ..., y_{t-1}) over the rows held back that are there."""
    _, seen = observed(X, "X_val")
    return float(np.mean(fitted.log_predictive(X, lengths)[seen]))

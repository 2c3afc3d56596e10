"""Choosing among fits of a state-space model by rows held back."""

from functools import partial
from itertools import product
from typing import Any

from sklearn.base import clone

from ..chains.rows import observed
from ..chains.search import best_fit, factors, next_error, next_likelihood
from ..core.checks import check_choice

SCORES: dict[str, Any] = {"likelihood": next_likelihood, "mse": next_error}
SCALES = (0.125, 0.25, 0.5, 1.0)
WIDTHS = (0.5, 1.0, 2.0)
GUARDS = (0.25, 1.0, 4.0)


def tune(
    model, X, X_val, lengths, lengths_val, scales, widths, guards, penalties, score, n_jobs, verbose
) -> Any:
    """The best of fits of `model` around one with its own settings.

    See `KernelStateSpace.tune`. The model has `fit`, `near`, `log_predictive` and `one_step`.
    """
    check_choice(score, "score", SCORES)
    if not observed(X_val, "X_val")[1].any():
        raise ValueError("X_val has no row without NaN; observations are needed")
    if scales is None:
        scales = (1.0,) if model.refine else SCALES
    plain = clone(model).fit(X, lengths)
    values = [factors(scales, "scales"), factors(widths, "widths"), factors(guards, "guards")]
    names = ("scale", "width", "guard", "penalty")
    grid = [dict(zip(names, point, strict=True)) for point in product(*values, penalties)]
    judge = partial(SCORES[score], X=X_val, lengths=lengths_val)
    return best_fit(plain.near, grid, score, X, lengths, judge, n_jobs, verbose)

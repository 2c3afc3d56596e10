"""Kernels from what a user writes: names, scikit-learn objects, functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core import arrays
from ..core.checks import check_choice
from ..core.moments import canonical_order, evenly
from ..core.saving import is_sklearn_kernel
from .base import NAMED, TUNED, Kernel
from .columns import OnColumns
from .other import FromFunction, FromSklearn
from .radial import MEDIAN_ROWS, Gaussian, Matern, _Radial

__all__ = ["as_kernel", "on_columns"]


def as_kernel(kernel, *, name: str = "kernel", columnwise: bool = False) -> Kernel:
    """A `Kernel` from a Kernel, a name, a scikit-learn kernel object or a Gram-matrix callable.

    Parameters
    ----------
    kernel : Kernel, str, scikit-learn kernel or callable
        A name is that of a class in lower case: "gaussian" for `Gaussian()`. A callable takes two
        arrays of points and returns their Gram matrix.
    name : str
        The argument's name, for messages.
    columnwise : bool
        Whether a kernel given by name has one lengthscale per column.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        return _named(kernel, name, columnwise)
    if is_sklearn_kernel(kernel):
        return _from_sklearn(kernel)
    if callable(kernel) and not isinstance(kernel, type):
        return FromFunction(kernel)
    raise ValueError(
        f"{name} is {kernel!r}; a kernelmean Kernel, one of {list(NAMED)}, a scikit-learn kernel "
        "or a function returning the Gram matrix is needed"
    )


def _named(kernel: str, name: str, columnwise: bool) -> Kernel:
    if kernel == "precomputed":
        raise ValueError(f"{name}: for a precomputed Gram matrix pass kernelmean.Precomputed(gram)")
    kind = NAMED[check_choice(kernel, name, NAMED)]
    return kind(columnwise=columnwise) if issubclass(kind, _Radial) else kind()


def is_tuned(kernel) -> bool:
    """Whether it was asked for by a name whose lengthscales are searched."""
    return isinstance(kernel, str) and kernel in TUNED


def _from_sklearn(kernel: Any) -> Kernel:
    """RBF and Matérn become ours, with their densities and spectra; others are wrapped."""
    from sklearn.gaussian_process import kernels

    if type(kernel) is kernels.RBF or getattr(kernel, "nu", None) == np.inf:
        return Gaussian(kernel.length_scale)
    if type(kernel) is kernels.Matern:
        return Matern(kernel.nu, kernel.length_scale)
    return FromSklearn(kernel)


def fitted_kernel(
    kernel,
    X,
    *,
    names: Sequence[str] | None = None,
    name: str = "kernel",
    columnwise: bool = False,
    in_units: bool | np.ndarray = False,
    argument: str = "X",
) -> Kernel:
    """The kernel an estimator uses: column names bound to numbers, lengthscale fixed by `X`.

    With `in_units` one asked for by name takes distances of columns over their standard deviations,
    and their units do not matter; these times some numbers, if it is an array, one a column.
    """
    found = as_kernel(kernel, name=name, columnwise=columnwise).bind(names)
    if in_units is not False and isinstance(kernel, str) and isinstance(found, _Radial):
        found = _in_units(found, X, argument, in_units)
    found = found.resolve(X, argument)
    check_size(found, X, argument)
    return found


def _in_units(kernel: _Radial, X, argument: str, times: bool | np.ndarray) -> Kernel:
    """At the median distance between columns over their deviations, whatever the rows' order."""
    xp = arrays.namespace(X)
    few = arrays.take(X, canonical_order(X)[evenly(X.shape[0], MEDIAN_ROWS)], axis=0)
    if X.shape[1] == 1:
        return kernel.resolve(few, argument)
    spread, still = xp.std(X, axis=0), xp.max(X, axis=0) == xp.min(X, axis=0)
    units = xp.where(still | (spread == 0.0), xp.ones_like(spread), spread)
    units = units * arrays.like(times, units) if isinstance(times, np.ndarray) else units
    return kernel.resolve(few / units, argument).scaled(arrays.to_numpy(units))


def check_size(kernel: Kernel, X, name: str = "X") -> None:
    """A kernel that is zero on every row (a linear one on zeros, say) can learn nothing."""
    if float(arrays.namespace(X).max(kernel.diag_of(X))) <= 0:
        raise ValueError(f"{name} gives {kernel!r} no size: k(x, x) is 0 for every row")


def on_columns(parts: Mapping[Any, Any]) -> OnColumns:
    """Product kernel whose factors each look at their own columns.

    Parameters
    ----------
    parts : mapping from columns to kernel
        A key is a column number, a column name (for estimators fitted on DataFrames), or a tuple
        of these; a value is anything `as_kernel` takes.

    Examples
    --------
    >>> import kernelmean as km
    >>> k = km.on_columns({0: km.Gaussian(1.0), 1: km.Delta()})
    >>> k([[0.0, 1.0]], [[0.0, 1.0], [0.0, 2.0]])
    array([[1., 0.]])
    """
    if not isinstance(parts, Mapping) or not parts:
        raise ValueError(f"parts is {parts!r}; a mapping from columns to kernels is needed")
    listed = tuple(
        (cols if isinstance(cols, tuple) else (cols,), as_kernel(k)) for cols, k in parts.items()
    )
    used = [c for cols, _ in listed for c in cols]
    if not all(cols for cols, _ in listed):
        raise ValueError("parts has an empty tuple among its keys; each kernel needs a column")
    if len(set(used)) != len(used):
        raise ValueError(f"parts uses a column more than once: {used}")
    bad = [c for c in used if isinstance(c, bool) or not isinstance(c, int | np.integer | str)]
    bad += [c for c in used if isinstance(c, int | np.integer) and c < 0]
    if bad:
        raise ValueError(f"parts has keys {bad}; column numbers from 0, or names, are needed")
    return OnColumns(listed)

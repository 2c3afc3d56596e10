"""Arrays of any library behind one door: which namespace, conversions, weights, distances."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_cupy_array
from scipy.spatial.distance import cdist

from .checks import Array, as_rows

EPS = float(np.finfo(np.float64).eps)
NUMPY = array_namespace(np.empty(0))


def namespace(*arrays) -> Any:
    """The array library of the arguments (None and plain numbers are passed over)."""
    if {*map(type, arrays)} == {np.ndarray}:
        return NUMPY  # what follows would say, without its checks: this is called in inner loops
    return array_namespace(*[a for a in arrays if hasattr(a, "shape")])


def to_numpy(X) -> np.ndarray:
    """A NumPy copy or view of any array."""
    if isinstance(X, np.ndarray):
        return X
    if hasattr(X, "detach"):
        X = X.detach().cpu()
    elif is_cupy_array(X):  # which come here when they are told to, only
        return X.get()
    return np.from_dlpack(X) if hasattr(X, "__dlpack__") else np.asarray(X)


def as_columns(X, d: int, name: str, where: str, names=None, **how: bool) -> np.ndarray:
    """`checks.as_rows` as a NumPy array; `how` is `as_points`'s."""
    return to_numpy(as_rows(X, d, name, where, names, **how))


def like(A: np.ndarray, X) -> Array:
    """NumPy array `A` in the library, and on the device, of `X`; in single precision as X is."""
    if isinstance(X, np.ndarray):
        return A.astype(np.float32) if X.dtype == np.float32 else A
    return namespace(X).asarray(A, device=getattr(X, "device", None))


def take(A, rows, axis: int) -> Array:
    """Rows (or columns) of `A` by number."""
    if isinstance(A, np.ndarray):
        return A[rows] if axis == 0 else A[:, rows]
    numbers = rows if type(rows) is type(A) else like(np.asarray(rows), A)
    return namespace(A).take(A, numbers, axis=axis)


def row_major(A) -> Array:
    """The same with each row in one piece of memory: rows are picked quicker."""
    return np.ascontiguousarray(A) if isinstance(A, np.ndarray) else A


def weigh(weights, values) -> Array:
    """Σ_i w_i v_i over the last axis of `weights` and the first of `values`."""
    if values.ndim == 1 or weights.ndim == 1:
        summed = namespace(weights).tensordot(weights, values, axes=1)
        return summed[()] if summed.ndim == 0 else summed
    return weights @ values


def at_least(A, least: float) -> Array:
    """max(a, least) of every entry."""
    return np.maximum(A, least) if isinstance(A, np.ndarray) else namespace(A).clip(A, least, None)


def logs(A) -> Array:
    """Logarithms; −∞ of zero, and of what rounding left below."""
    A = at_least(A, 0.0)
    with np.errstate(divide="ignore"):
        return namespace(A).log(A)


def slices(n: int, size: int) -> Iterator[slice]:
    """Of n rows, at most `size` in each."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def still(X) -> Array:
    """Which columns are constant: rounding can leave them a deviation."""
    xp = namespace(X)
    return xp.max(X, axis=0) == xp.min(X, axis=0)


def units(X) -> Array:
    """Standard deviations of the columns, and one for those that have none."""
    xp = namespace(X)
    spread = xp.std(X, axis=0)
    return xp.where(still(X) | (spread == 0.0), 1.0, spread)


def exp_in_place(A) -> Array:
    """exp(A), reusing the memory of `A` where the library can."""
    if isinstance(A, np.ndarray):
        with np.errstate(under="ignore"):  # far apart is zero, whatever the caller's settings
            return np.exp(A, out=A)
    return A.exp_() if hasattr(A, "exp_") else namespace(A).exp(A)


def sq_dists(X, Y) -> Array:
    """Squared Euclidean distances (n, m); by differences, so that offsets cost no digits.

    In single precision where X and Y are.

    From ten columns on a matrix product takes over, provided centring leaves the squared norms
    small enough (1e4) for the cancellation to stay below 1e-11.
    """
    if X.shape[1] >= 10:
        centre = X[:1, :]
        X0, Y0 = X - centre, Y - centre
        xp = namespace(X)
        x2, y2 = xp.sum(X0 * X0, axis=-1), xp.sum(Y0 * Y0, axis=-1)
        if float(xp.max(x2)) < 1e4 and float(xp.max(y2)) < 1e4:
            D = X0 @ Y0.T
            D *= -2.0
            D += x2[:, None]
            D += y2[None, :]
            return xp.clip(D, 0.0, None)
    if isinstance(X, np.ndarray) and X.dtype != np.float32:
        return cdist(X, Y, "sqeuclidean") if X.shape[1] > 1 else (X - Y.T) ** 2
    return sum((X[:, j, None] - Y[None, :, j]) ** 2 for j in range(X.shape[1]))

"""Kernels from what a user writes: names, scikit-learn objects, functions, columns of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import mul
from typing import Any

import numpy as np

from ..core import Array, arrays, checks
from ..core.moments import canonical_order, evenly
from ..core.parameters import with_values
from ..core.saving import is_sklearn_kernel
from ..core.wild import usual_spread
from .base import NAMED, TUNED, Kernel
from .radial import MEDIAN_ROWS, Gaussian, Matern, _Radial

__all__ = ["as_kernel", "on_columns"]


@dataclass(frozen=True)
class OnColumns(Kernel):
    """The product of kernels that each look at columns of their own; made by `on_columns`."""

    parts: tuple[tuple[tuple, Kernel], ...]

    def _own(self) -> dict[str, Kernel]:
        return {",".join(map(str, cols)): k for cols, k in self.parts}

    def with_params(self, **changes: Any) -> OnColumns:
        kernels = (self._own() | with_values(self, changes)).values()
        return on_columns(dict(zip((cols for cols, _ in self.parts), kernels, strict=True)))

    def resolve(self, X, name: str = "X") -> Kernel:
        return self._map(lambda cols, k: k.resolve(self._take(X, cols), name))

    def scaled(self, factor) -> Kernel:
        return self._sized("scaled", np.asarray(factor, dtype=float))

    def bind(self, names) -> Kernel:
        return OnColumns(tuple((_bind(cols, names), k) for cols, k in self.parts))

    def _each(self, name: str, *tables: Array) -> list:
        """What a method of every kernel answers for its columns of some tables."""
        mine = ([self._take(X, cols) for X in tables] for cols, _ in self.parts)
        return [getattr(k, name)(*some) for (_, k), some in zip(self.parts, mine, strict=True)]

    def spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return self._drawn("spectrum", n, d, rng)

    def noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        self._check_all(d)
        return self._drawn("noise", n, d, rng)

    def _drawn(self, name: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        drawn = np.zeros((n, d))
        for cols, k in self.parts:
            drawn[:, list(cols)] = getattr(k, name)(n, len(cols), rng)
        return drawn

    def gram_of(self, X, Y) -> Array:
        return reduce(mul, self._each("gram_of", X, Y))

    def derivative_of(self, X, Y, column: int) -> Array:
        factors = self._each("gram_of", X, Y)
        for i, (cols, k) in enumerate(self.parts):
            if column in cols:
                mine, theirs = self._take(X, cols), self._take(Y, cols)
                factors[i] = k.derivative_of(mine, theirs, cols.index(column))
                return reduce(mul, factors)
        return arrays.namespace(X).zeros_like(factors[0])

    def diag_of(self, X) -> Array:
        return reduce(mul, self._each("diag_of", X))

    def smoothing(self, bandwidth) -> Kernel:
        return self._sized("smoothing", bandwidth)

    def _sized(self, name: str, sizes) -> Kernel:
        """By what a method of every kernel makes of its own of some sizes, or of the one of all."""
        if np.ndim(sizes) == 0:
            return self._map(lambda cols, k: getattr(k, name)(sizes))
        return self._map(lambda cols, k: getattr(k, name)(tuple(sizes[c] for c in cols)))

    def log_normaliser(self, d: int) -> float:
        self._check_all(d)
        return sum(k.log_normaliser(len(cols)) for cols, k in self.parts)

    def _check_all(self, d: int) -> None:
        """Along a column that no kernel looks at there is no density, and nothing to draw."""
        if missing := {*range(d)} - {c for cols, _ in self.parts for c in cols}:
            raise ValueError(
                f"{self!r} looks at none of the columns {sorted(missing)}, and has no law of them"
            )

    def lines(self, d: int) -> list[bool]:
        without = {c for cols, k in self.parts if not k.lined for c in cols}
        return [j not in without for j in range(d)]

    def is_product(self) -> bool:
        return all(len(cols) == 1 or k.is_product() for cols, k in self.parts)

    def on(self, columns: Sequence[int], d: int) -> Kernel:
        parts = []
        for cols, kernel in self.parts:
            kept = [i for i, c in enumerate(cols) if c in columns]
            if kept:
                places = tuple(list(columns).index(cols[i]) for i in kept)
                parts.append((places, kernel.on(kept, len(cols))))
        if not parts:
            raise ValueError(f"{self!r} looks at none of the columns {list(columns)}")
        (places, alone), *rest = parts
        whole = not rest and places == tuple(range(len(columns)))
        return alone if whole else OnColumns(tuple(parts))

    def self_convolved(self, d: int) -> Kernel:
        return self._map(lambda cols, k: k.self_convolved(len(cols)))

    @property
    def roams(self) -> bool:
        return all(k.roams for _, k in self.parts)

    @property
    def _gaussian(self) -> bool:  # type: ignore[override]
        return all(k._gaussian for _, k in self.parts)

    def lift(self, X) -> Array:
        return arrays.namespace(X).concat(self._each("lift", X), axis=1)

    def _lifted(self, U, d: int) -> list[Array]:
        """The columns of U that each kernel lifts points to."""
        stops = np.cumsum([part.shape[1] for part in self._each("lift", np.zeros((1, d)))]).tolist()
        return [U[..., i:j] for i, j in pairwise([0, *stops])]

    def land(self, U, total, X) -> Array:
        parts = zip(self.parts, self._lifted(U, X.shape[1]), strict=True)
        return self._put(X, [k.land(u, total, self._take(X, cols)) for (cols, k), u in parts])

    def project(self, X) -> Array:
        return self._put(X, self._each("project", X))

    def clipped(self, X, low, high) -> Array:
        return self._put(X, self._each("clipped", X, low[None, :], high[None, :]))

    def _put(self, X, values: Sequence[Array]) -> Array:
        """`X` with the columns of each part replaced."""
        columns = [X[:, j : j + 1] for j in range(X.shape[1])]
        for (cols, _), new in zip(self.parts, values, strict=True):
            for i, c in enumerate(cols):
                columns[c] = new[:, i : i + 1]
        return arrays.namespace(X).concat(columns, axis=1)

    def spread_of(self, spread: np.ndarray, lifted: np.ndarray) -> np.ndarray:
        spread = spread.copy()
        parts = self._lifted(lifted, spread.shape[-1])
        for (cols, k), part in zip(self.parts, parts, strict=True):
            spread[..., list(cols)] = k.spread_of(spread[..., list(cols)], part)
        return spread

    def _map(self, change: Callable[[tuple, Kernel], Kernel]) -> OnColumns:
        return OnColumns(tuple((cols, change(cols, k)) for cols, k in self.parts))

    def _take(self, X, cols: tuple) -> Array:
        named = [c for c in cols if isinstance(c, str)]
        if named:
            raise ValueError(f"columns {named} are names, but the points are a plain array")
        if max(cols) >= X.shape[1]:
            raise ValueError(f"column {max(cols)} is asked for, but the points have {X.shape[1]}")
        return arrays.take(X, list(cols), axis=1)


def _bind(cols: tuple, names: Sequence[str] | None) -> tuple:
    if names is None:
        return cols
    missing = [c for c in cols if isinstance(c, str) and c not in names]
    if missing:
        raise ValueError(f"kernel names columns {missing}, but the data have {list(names)}")
    return tuple(names.index(c) if isinstance(c, str) else c for c in cols)


class _Foreign(Kernel):
    """Somebody else's, of which no more than Gram matrices are known."""

    def diag_of(self, X) -> Array:
        # each small block has it, and 32 rows keep the waste small
        xp = arrays.namespace(X)
        parts = (X[some, :] for some in arrays.slices(X.shape[0], 32))
        return xp.concat([xp.linalg.diagonal(self.gram_of(part, part)) for part in parts])


@dataclass(frozen=True)
class FromFunction(_Foreign):
    """A callable returning the Gram matrix, f(X, Y) -> (n, m), as a kernel."""

    function: Callable

    boxed = False  # which of its points are far apart only the function knows

    def gram_of(self, X, Y) -> Array:
        return _check_gram(self.function(X, Y), X, Y, "the kernel function")


@dataclass(frozen=True)
class FromSklearn(_Foreign):
    """A scikit-learn kernel object (sklearn.gaussian_process.kernels) as a kernel.

    Noise (`WhiteKernel`) is no part of it: it has no value between points, and what it adds to the
    diagonal is what the regulariser λ of an estimator is.
    """

    kernel: Any

    def gram_of(self, X, Y) -> Array:
        K = self.kernel(arrays.to_numpy(X), arrays.to_numpy(Y))
        return arrays.like(_check_gram(K, X, Y, type(self.kernel).__name__), X)


def _check_gram(K, X, Y, who: str) -> Array:
    """Somebody else's Gram matrix: of the right shape, and finite."""
    if tuple(getattr(K, "shape", ())) != (X.shape[0], Y.shape[0]):
        raise ValueError(
            f"{who} returned shape {getattr(K, 'shape', None)} for {X.shape[0]} and {Y.shape[0]} "
            "points; their Gram matrix is needed"
        )
    xp = arrays.namespace(K)
    if not bool(xp.all(xp.isfinite(K))):
        raise ValueError(f"{who} returned NaN or inf; a finite Gram matrix is needed")
    return K


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
    kind = NAMED[checks.check_choice(kernel, name, NAMED)]
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

    With `in_units` one asked for by name takes distances of columns over their standard deviations
    (those of all but a few wild rows), and their units do not matter; these times some numbers, if
    it is an array, one a column.
    """
    found = as_kernel(kernel, name=name, columnwise=columnwise).bind(names)
    by_name = in_units is not False and isinstance(kernel, str)
    if by_name and isinstance(found, _Radial) and found.boxed:  # an angle has its own unit
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
    size, spread = xp.max(xp.abs(X), axis=0), usual_spread(X)
    units = xp.where(arrays.still(X), size, spread)  # of what is constant its own size
    units = xp.where(units**2 > 0.0, units, xp.ones_like(units))
    units = units * arrays.like(times, units) if isinstance(times, np.ndarray) else units
    return kernel.resolve(few / units, argument).scaled(arrays.to_numpy(units))


def gaussian_along_lines(kernel: Kernel) -> Kernel:
    """A Gaussian kernel in place of it, where there are lines."""
    if isinstance(kernel, OnColumns):
        return kernel._map(lambda _, k: gaussian_along_lines(k))
    return Gaussian(columnwise=True) if kernel.lined else kernel


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

"""Sums and products of kernels, and products over columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import mul
from typing import Any

import numpy as np

from ..core import arrays
from ..core.checks import Array
from .base import Kernel


@dataclass(frozen=True)
class OnColumns(Kernel):
    """The product of kernels that each look at columns of their own; made by `on_columns`."""

    parts: tuple[tuple[tuple, Kernel], ...]

    def resolve(self, X, name: str = "X") -> Kernel:
        return self._map(lambda cols, k: k.resolve(self._take(X, cols), name))

    def scaled(self, factor) -> Kernel:
        factor = np.asarray(factor, dtype=float)
        if factor.ndim == 0:
            return self._map(lambda cols, k: k.scaled(factor))
        return self._map(lambda cols, k: k.scaled(factor[list(cols)]))

    def bind(self, names) -> Kernel:
        return OnColumns(tuple((_bind(cols, names), k) for cols, k in self.parts))

    def _each(self, name: str, *tables: Array) -> list:
        """What a method of every kernel answers for its columns of some tables."""
        mine = ([self._take(X, cols) for X in tables] for cols, _ in self.parts)
        return [getattr(k, name)(*some) for (_, k), some in zip(self.parts, mine, strict=True)]

    def spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return self._drawn("spectrum", n, d, rng)

    def noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
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
        if bandwidth is None or np.ndim(bandwidth) == 0:
            return self._map(lambda cols, k: k.smoothing(bandwidth))
        return self._map(lambda cols, k: k.smoothing(tuple(bandwidth[c] for c in cols)))

    def log_normaliser(self, d: int) -> float:
        return sum(k.log_normaliser(len(cols)) for cols, k in self.parts)

    def distribution(self, X, Y) -> Array:
        return self._alone().distribution(X, Y)

    def reach(self, mass: float) -> float | None:
        return self._alone().reach(mass)

    def turn(self) -> float | None:
        return self._alone().turn()

    def _alone(self) -> Any:
        """The kernel of a single column, where there is no other; else what all kernels say."""
        (cols, kernel), *rest = self.parts
        return super() if rest or cols != (0,) else kernel

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
        if len(cols) == 1:
            return X[:, cols[0] : cols[0] + 1]
        xp = arrays.namespace(X)
        return xp.stack([X[:, c] for c in cols], axis=1)


def _bind(cols: tuple, names: Sequence[str] | None) -> tuple:
    if names is None:
        return cols
    missing = [c for c in cols if isinstance(c, str) and c not in names]
    if missing:
        raise ValueError(f"kernel names columns {missing}, but the data have {list(names)}")
    return tuple(names.index(c) if isinstance(c, str) else c for c in cols)

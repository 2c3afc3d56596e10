"""Sums and products of kernels, and products over columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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

    def spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        frequencies = np.zeros((n, d))
        for cols, k in self.parts:
            frequencies[:, list(cols)] = k.spectrum(n, len(cols), rng)
        return frequencies

    def gram_of(self, X, Y) -> Array:
        (cols, k), *rest = self.parts
        K = k.gram_of(self._take(X, cols), self._take(Y, cols))
        for cols, k in rest:
            K = K * k.gram_of(self._take(X, cols), self._take(Y, cols))
        return K

    def derivative_of(self, X, Y, column: int) -> Array:
        if not any(column in cols for cols, _ in self.parts):
            return arrays.namespace(X).zeros_like(X[:, :1] * Y[:, 0][None, :])
        factors = []
        for cols, k in self.parts:
            mine, theirs = self._take(X, cols), self._take(Y, cols)
            if column in cols:
                factors.append(k.derivative_of(mine, theirs, cols.index(column)))
            else:
                factors.append(k.gram_of(mine, theirs))
        return math.prod(factors[1:], start=factors[0])

    def diag_of(self, X) -> Array:
        diagonals = [k.diag_of(self._take(X, cols)) for cols, k in self.parts]
        return math.prod(diagonals[1:], start=diagonals[0])

    def smoothing(self, bandwidth) -> Kernel:
        if bandwidth is None or np.ndim(bandwidth) == 0:
            return self._map(lambda cols, k: k.smoothing(bandwidth))
        return self._map(lambda cols, k: k.smoothing(tuple(bandwidth[c] for c in cols)))

    def log_normaliser(self, d: int) -> float:
        return sum(k.log_normaliser(len(cols)) for cols, k in self.parts)

    def distribution(self, X, Y) -> Array:
        kernel = self._alone()
        return super().distribution(X, Y) if kernel is None else kernel.distribution(X, Y)

    def reach(self, mass: float) -> float | None:
        kernel = self._alone()
        return None if kernel is None else kernel.reach(mass)

    def is_product(self) -> bool:
        return all(len(cols) == 1 or k.is_product() for cols, k in self.parts)

    def turn(self) -> float | None:
        kernel = self._alone()
        return None if kernel is None else kernel.turn()

    def _alone(self) -> Kernel | None:
        """The kernel of a single column, where there is no other."""
        (cols, kernel), *rest = self.parts
        return None if rest or cols != (0,) else kernel

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

    def noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        noise = np.zeros((n, d))
        for cols, k in self.parts:
            noise[:, list(cols)] = k.noise(n, len(cols), rng)
        return noise

    @property
    def _gaussian(self) -> bool:  # type: ignore[override]
        return all(k._gaussian for _, k in self.parts)

    def lift(self, X) -> Array:
        lifted = [k.lift(self._take(X, cols)) for cols, k in self.parts]
        return arrays.namespace(X).concat(lifted, axis=1)

    def land(self, U, total, X) -> Array:
        landed, start = [], 0
        for cols, k in self.parts:
            mine = self._take(X, cols)
            stop = start + k.lift(mine[:1, :]).shape[1]
            landed.append(k.land(U[:, start:stop], total, mine))
            start = stop
        return self._put(X, landed)

    def project(self, X) -> Array:
        return self._put(X, [k.project(self._take(X, cols)) for cols, k in self.parts])

    def clipped(self, X, low, high) -> Array:
        def part(cols: tuple, kernel: Kernel) -> Array:
            return kernel.clipped(*(self._take(A, cols) for A in (X, low[None, :], high[None, :])))

        return self._put(X, [part(*each) for each in self.parts])

    def _put(self, X, values: Sequence[Array]) -> Array:
        """`X` with the columns of each part replaced."""
        columns = [X[:, j : j + 1] for j in range(X.shape[1])]
        for (cols, _), new in zip(self.parts, values, strict=True):
            for i, c in enumerate(cols):
                columns[c] = new[:, i : i + 1]
        return arrays.namespace(X).concat(columns, axis=1)

    def spread_of(self, spread: np.ndarray, lifted: np.ndarray) -> np.ndarray:
        spread, start = spread.copy(), 0
        for cols, k in self.parts:
            mine = spread[..., list(cols)]
            stop = start + k.lift(np.zeros((1, len(cols)))).shape[1]
            spread[..., list(cols)] = k.spread_of(mine, lifted[..., start:stop])
            start = stop
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

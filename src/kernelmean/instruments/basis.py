"""What a structural function is written in: coordinates beside an intercept or a plane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core import arrays
from ..core.checks import Array
from ..core.moments import block_rows, row_blocks
from ..core.saving import Saveable
from ..features.base import FeatureMap


def trend_inverse(second: np.ndarray, n: int) -> np.ndarray:
    """(T̂ᵀT̂/n + δI)⁻¹, δ = 1/n for every column of unit variance and none for the constant.

    Without it a trend that the instruments do not move at all would be estimated from rounding.
    """
    penalty = np.full(second.shape[0], 1.0 / n)
    penalty[:1] = 0.0
    return np.linalg.inv(second + np.diag(penalty))


@dataclass(frozen=True)
class Polynomial(Saveable):
    """Columns [1, u, u², …]: powers of the standardised columns u, without interactions.

    `powers` is 0 for no columns at all, 1 for the constant, 2 for a plane, ….
    """

    powers: int
    middle: Array
    spread: Array

    @classmethod
    def of(cls, points, powers: int) -> Polynomial:
        """Standardised by the mean and deviation of `points`."""
        xp = arrays.namespace(points)
        spread = xp.std(points, axis=0)
        spread = xp.where(spread > 0, spread, xp.ones_like(spread))
        return cls(powers, xp.mean(points, axis=0), spread)

    @property
    def width(self) -> int:
        return 1 + (self.powers - 1) * self.middle.shape[0] if self.powers else 0

    def __call__(self, points) -> Array:
        xp = arrays.namespace(points)
        u = (points - self.middle) / self.spread
        one = xp.ones((points.shape[0], 1), dtype=u.dtype, device=getattr(u, "device", None))
        columns = [one, *(u**k for k in range(1, self.powers))]
        return xp.concat(columns, axis=1)[:, : self.width]

    def derivative(self, points, column: int) -> Array:
        """∂/∂x_column of every column, (n, width)."""
        xp = arrays.namespace(points)
        u = (points[:, column : column + 1] - self.middle[column]) / self.spread[column]
        mine = xp.asarray(np.arange(self.middle.shape[0]) == column, dtype=u.dtype)[None, :]
        slopes = [k * u ** (k - 1) / self.spread[column] * mine for k in range(1, self.powers)]
        return xp.concat([xp.zeros_like(u), *slopes], axis=1)[:, : self.width]


class Bare(FeatureMap):
    """No coordinates: the trend alone, as in two-stage least squares."""

    rank_ = 0

    def _fit_transform(self, X) -> Array:
        return self._transform(X)

    def _transform(self, X) -> Array:
        return X[:, :0]

    def derivative_of(self, X, column: int) -> Array:
        return X[:, :0]


@dataclass(frozen=True)
class Basis(Saveable):
    """Coordinates [trend, φ(x)]: a polynomial, then a feature map."""

    polynomial: Polynomial
    features: FeatureMap

    @property
    def trends(self) -> int:
        """Number of columns before those of the feature map."""
        return self.polynomial.width

    @property
    def width(self) -> int:
        return self.trends + self.features.rank_

    def by_blocks(self, function: Callable, points) -> Array:
        """`function` of blocks of the points, whose coordinates fit in memory, put together."""
        blocks = row_blocks(points, rows=block_rows(self.width))
        return arrays.namespace(points).concat([function(block) for (block,) in blocks])

    def numbers(self, points: np.ndarray) -> np.ndarray:
        """Coordinates, as NumPy's array, of points that are one, whatever the basis was made of."""
        return arrays.to_numpy(self.transform(arrays.like(points, self.polynomial.middle)))

    def transform(self, points) -> Array:
        Phi = self.features.transform(points)
        if not self.trends:
            return Phi
        return arrays.namespace(Phi).concat([self.polynomial(points), Phi], axis=1)

    def derivative(self, points, column: int) -> Array:
        """∂/∂x_column of every coordinate, (n, width)."""
        slopes = [part.derivative(points, column) for part in (self.polynomial, self.features)]
        return arrays.namespace(points).concat(slopes, axis=1)

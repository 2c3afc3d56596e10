"""A fitted conditional density, as a value: points, weights as functions of x, and a move."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from ..core import Array, Saveable, arrays, checks
from ..core.moments import Order, canonical_order, evenly, shares
from ..core.solves import kept
from ..embedding.embedding import MeanEmbedding
from ..embedding.move import Bend, Move, Wide
from ..features.base import FeatureMap
from ..kernels import Kernel
from ..regression.smoother import Smoother, with_ones
from ..regression.support import Support
from .laws import MovedLaws
from .location import Location
from .search import DensityScore
from .standard import Standard

TINY = 1e-300
OUTSIDE = "laws are those at the nearest point of its box, around a mean that goes on as a line"


@dataclass(frozen=True)
class Fit(Saveable):
    """What a fitted conditional density consists of."""

    X: Array
    points: Array
    kernel_x: Kernel
    kernel_y: Any  # its lengthscale is the bandwidth
    features: FeatureMap
    smoother: Smoother
    reg: float
    score: float
    scales: np.ndarray
    intercept: bool
    location: Location | Standard | None
    exact: bool
    spread: Array  # standard deviations of the columns of y
    # a file of an earlier version has none of these, and laws that know no bounds
    support: Support | None = None
    longest: float = math.inf  # kernel part of the weights of a training row, squared
    wide: Wide | None = None
    gain: tuple[float, float] | None = None  # log density over that of a line with normal errors
    gathered: Array | None = None  # sums over rows elsewhere, beside their nodes, the points
    bend: Bend | None = None  # of y: points and laws before it are on the bent scale
    outcomes: Array | None = None  # of the rows of X, where points are nodes
    kept: np.ndarray | None = None  # numbers of the rows of X, where points are nodes
    drawn: np.ndarray | None = None  # by what densities have residuals nearer to their mean

    def in_order(self, order: Order, X) -> Self:
        """The fit to sorted rows, with the rows X as they came."""
        order.renumber(self.features)
        if self.gathered is not None:
            return replace(self, kept=order.sorted(evenly(self.smoother.n, X.shape[0])))
        smoother = replace(self.smoother, P=order.back(self.smoother.P))
        return replace(self, X=X, points=checks.frozen(order.back(self.points)), smoother=smoother)

    def laws(self, points) -> MovedLaws:
        """At rows of X."""
        m = MeanEmbedding.of_parts(self.points, self.left(points), self.right, self.kernel_y)
        return MovedLaws(m.carrying(self.bandwidth), self.moves(points), self.wide, self.drawn)

    @property
    def bandwidth(self) -> tuple[float, ...]:
        """γ of each column of y."""
        return tuple(np.broadcast_to(self.kernel_y.lengthscale, self.points.shape[1]).tolist())

    def moves(self, points) -> Move:
        """Of laws at rows of X."""
        if self.location is None:
            return Move(bend=self.bend)
        return Move(arrays.to_numpy(self.location(points)), self.location.widths(points), self.bend)

    def left_out(self, limit: int) -> tuple[MovedLaws, np.ndarray]:
        """Laws of some rows, at most `limit`, each from the others; and those rows.

        Without a move: where a law lies is taken from its row, which is then its residual; on a
        bent scale, where it matters where that is, from the mean learned with the row.
        """
        some = canonical_order(self.X)[evenly(self.smoother.P.shape[0], limit)]
        P = arrays.take(self.smoother.P, some, axis=0)
        points = arrays.to_numpy(arrays.take(self.own_points("conformalize"), some, axis=0))
        right = self.right if self.intercept else self.right[:, 1:]  # without the ones
        W = arrays.to_numpy(P * (self.smoother.shrink(self.reg) / self.smoother.n) @ right.T)
        h = arrays.to_numpy(self.smoother.leverage(self.reg, P))
        if self.gathered is None:
            W[np.arange(len(some)), some] = 0.0
        else:
            W -= h[:, None] * shares(arrays.to_numpy(self.points)[:, 0], points[:, 0])
        W /= kept(h)[:, None]
        m = MeanEmbedding.of_parts(self.points, arrays.like(W, self.points), None, self.kernel_y)
        move = Move() if self.bend is None else self.moves(arrays.take(self.X, some, axis=0))
        return MovedLaws(m, move, self.wide, self.drawn), move(points)

    def own_points(self, what: str) -> Array:
        """Outcomes, or residuals, of the rows of X."""
        if self.gathered is None:
            return self.points
        if self.outcomes is None:
            raise ValueError(
                f"{what} needs outcomes of rows, which a file of an older version lacks"
            )
        return self.outcomes

    def score_at(self, smoother: Smoother, kernel: Any, what: str) -> DensityScore:
        """The score with other parameters."""
        cells = None if self.gathered is None else (self.points, self.gathered)
        return DensityScore.on(smoother, self.own_points(what), kernel, cells, self.exact)

    @cached_property
    def right(self) -> Array:
        """The weights of any x are left(x) rightᵀ."""
        if self.gathered is not None:
            return self.gathered
        return self.smoother.P if self.intercept else with_ones(self.smoother.P)

    def outside(self, points) -> np.ndarray:
        """Which points are outside that box."""
        if self.support is None:
            return np.zeros(points.shape[0], dtype=bool)
        return self.support.outside(points, self.kernel_x, OUTSIDE)

    def _shortened(self, left) -> Array:
        """Weights whose kernel part is longer than at any training row, made as long as there.

        In a gap between the rows they could be of any size, of both signs.
        """
        if math.isinf(self.longest):
            return left
        xp = arrays.namespace(left)
        by = xp.sqrt(self.longest / xp.clip(kernel_part(left, self.smoother), self.longest, None))
        return xp.concat([left[:, :1], left[:, 1:] * by[:, None]], axis=1)

    def left(self, points) -> Array:
        """Where weights sum to nothing, far from the data, they are replaced by equal ones."""
        near = points if self.support is None else self.support.nearest(points, self.kernel_x)
        left = self.smoother.left(self.features.transform(near), self.reg)
        if self.intercept:
            return self._shortened(left)
        xp = arrays.namespace(left)
        total = left @ xp.sum(self.right[:, 1:], axis=0)
        lost = xp.astype(xp.abs(total) < 1e-12, left.dtype)
        if bool(xp.any(lost > 0)):
            checks.warn_numerical(
                f"weights are zero at {checks.counted(int(xp.sum(lost)), 'row')} of X, so far from "
                "the data; the marginal density is given there"
            )
        return xp.concat([(lost / self.smoother.n)[:, None], left * (1.0 - lost)[:, None]], axis=1)


def kernel_part(left, smoother: Smoother) -> Array:
    """Σ_j (w_j − 1/n)² of weights left Pᵀ that sum to one, (m,)."""
    values = arrays.namespace(left).clip(smoother.grid.values, 0.0, None)
    return (left[:, 1:] ** 2) @ (smoother.n * values)


def longest(smoother: Smoother, reg: float) -> float:
    """The largest of them at a training row."""
    left = smoother.P * (smoother.shrink(reg) / smoother.n)[None, :]
    return max(float(arrays.namespace(left).max(kernel_part(left, smoother))), TINY)

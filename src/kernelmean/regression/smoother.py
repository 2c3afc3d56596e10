"""Ridge regression on coordinates, beside an intercept that is not penalised, for every λ at once.

Whatever is regressed, row x has the weights w_j(x) = 1/n + (φ(x) − φ̄)ᵀ(C + λI)⁻¹(φ_j − φ̄)/n, C the
covariance of the coordinates; they sum to one. Without the intercept these are the weights
φ(x)ᵀ(ΦᵀΦ/n + λI)⁻¹φ_j/n of a conditional mean embedding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ..core import Array, Moments, Saveable, arrays, solves


@dataclass(frozen=True)
class Smoother(Saveable):
    """Rows in the eigenbasis of their second moments: the hat matrix is H(λ) = P diag(s(λ)) Pᵀ/n.

    Attributes
    ----------
    P : array of shape (n, r)
        The rows, or some of `total`; with an intercept, the first column is one.
    grid : EigenGrid
        Of ΦᵀΦ/n, or of the covariance.
    centre : array of shape (r − 1,) or None
        φ̄, with an intercept.
    """

    P: Array
    grid: solves.EigenGrid
    centre: Array | None
    total: int | None = None

    @classmethod
    def of(cls, Phi, intercept: bool, weights=None) -> Smoother:
        """From coordinates (n, r), which are not kept; weights have mean one."""
        centre = arrays.namespace(Phi).mean(weighed(Phi, weights), axis=0) if intercept else None
        Phi = Phi if centre is None else Phi - centre
        half = weighed(Phi, weights, 0.5)
        grid = solves.EigenGrid.of(half.T @ half / Phi.shape[0])
        P = Phi @ grid.vectors
        return cls(P if centre is None else with_ones(P), grid, centre)

    @classmethod
    def among(cls, Phi, intercept: bool, every: Moments) -> Smoother:
        """Of some rows, in the eigenbasis of the moments "x" and "xx" of all."""
        centre, second = every.mean("x") if intercept else None, every.mean("xx")
        if centre is not None:
            second = second - centre[:, None] * centre[None, :]
        bare = cls(Phi[:0, ...], solves.EigenGrid.of(second), centre, every.n)
        return replace(bare, P=bare.rotated(Phi))

    @cached_property
    def _roots(self) -> dict[float, Array]:
        """R with RᵀR = (C + λI)⁻¹, by λ."""
        return {}

    @property
    def n(self) -> int:
        return int(self.P.shape[0]) if self.total is None else self.total

    def alone(self) -> Smoother:
        """Without its rows."""
        return replace(self, P=self.P[:0, ...], total=self.n)

    def projected(self, cross, mean) -> Array:
        """PᵀΨ/n from ΦᵀΨ/n and the means of Ψ."""
        if self.centre is None:
            return self.grid.vectors.T @ cross
        own = self.grid.vectors.T @ (cross - self.centre[:, None] * mean[None, :])
        return arrays.namespace(own).concat([mean[None, :], own], axis=0)

    def rotated(self, Phi) -> Array:
        """Coordinates of new points in the same basis."""
        if self.centre is None:
            return Phi @ self.grid.vectors
        return with_ones((Phi - self.centre) @ self.grid.vectors)

    def shrink(self, reg: float) -> Array:
        """s(λ): 1/(value + λ), and 1 for the intercept."""
        own = self.grid.shrink(reg)
        if self.centre is None:
            return own
        return arrays.namespace(own).concat([arrays.namespace(own).ones_like(own[:1]), own])

    def leverage(self, reg: float, P=None) -> Array:
        """H_ii, (n,), of all rows or of those given."""
        P = self.P if P is None else P
        return (P * P) @ (self.shrink(reg) / self.n)

    def leverage_at(self, Phi, reg: float) -> Array:
        """The same of any rows, from their coordinates."""
        if Phi.shape[0] < Phi.shape[1]:  # a factor would take longer
            return self.leverage(reg, self.rotated(Phi))
        R = self._roots.get(reg)
        if R is None:  # the last one is kept: a filter asks again at every step
            R = solves.triangle((self.grid.shrink(reg) ** 0.5)[:, None] * self.grid.vectors.T)
            self._roots.clear()
            self._roots[reg] = R
        off = Phi if self.centre is None else Phi - self.centre
        half = solves.times_transposed(off, R, lower=False)
        return (arrays.namespace(Phi).sum(half * half, axis=1) + (self.centre is not None)) / self.n

    def left(self, Phi, reg: float) -> Array:
        """The weights of new points are this times Pᵀ."""
        return self.rotated(Phi) * (self.shrink(reg) / self.n)[None, :]


def weighed(rows, weights, power: float = 1.0) -> Array:
    """Each row times a power of its weight; None is one for all."""
    return rows if weights is None else weights[:, None] ** power * rows


def with_ones(P) -> Array:
    """P with a first column of ones."""
    xp = arrays.namespace(P)
    return xp.concat([xp.ones_like(P[:, :1]), P], axis=1)

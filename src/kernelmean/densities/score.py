"""The leave-one-out score of a conditional density, in closed form (MATH §8).

M = (1/n) Σ_i [ ∫ q⁻ⁱ(y|x_i)² dy − 2 q⁻ⁱ(y_i|x_i) ] estimates the integrated squared error, up to a
constant (Spiteri 2023, eq. 2.11). With w⁻ⁱ the weights learned without row i, the hat matrix gives
w⁻ⁱ_j = H_ij/(1 − H_ii), so in coordinates Ψ of Y, K̄_γ = Ψ₁Ψ₁ᵀ and K̄_γ ∗ K̄_γ = Ψ₂Ψ₂ᵀ,

    c_i = (F_i − H_ii ψ_i)/(1 − H_ii),  F = HΨ,   M = (1/n) Σ_i [ ‖c²_i‖² − 2 ψ¹_i·c¹_i ].
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..core import arrays
from ..core.checks import Array, hushed
from ..core.moments import evenly
from ..features.landmarks import Exact, Nystroem
from ..kernels import Kernel
from ..regression.leave_one_out import SAFE
from ..regression.lengthscales import Scaled, residuals_left_out
from ..regression.smoother import Smoother

FINE = 1e-7  # of the trace, in coordinates of Y
COARSE = 1e-4  # the same, while scales are searched
MOST = 1000  # coordinates of Y


@dataclass(frozen=True)
class Target:
    """Coordinates of Y under the smoothing kernel and under its self-convolution."""

    narrow: Array
    wide: Array

    def __iter__(self) -> Iterator[Array]:
        yield from (self.narrow, self.wide)

    @classmethod
    def of(cls, Y, kernel: Kernel, tol: float = FINE, exact: bool = False) -> Target:
        """For a smoothing kernel whose lengthscale is the bandwidth."""
        features = Exact() if exact else Nystroem(tol=tol, max_rank=MOST)
        kernels = kernel, kernel.self_convolved(Y.shape[1])
        with hushed():  # a rank that is used up loses nothing but precision
            return cls(*(_normalised(features.fit_transform(Y, k), k, Y) for k in kernels))

    @classmethod
    def on(cls, landmarks: np.ndarray, Y: np.ndarray, kernel: Kernel) -> Target:
        """In coordinates of landmarks that were chosen for a bandwidth which is no larger."""
        kernels, same = (kernel, kernel.self_convolved(Y.shape[1])), np.zeros(Y.shape[1])
        Psi = [Scaled(k, Y, landmarks=landmarks)(same) for k in kernels]
        return cls(*(_normalised(P, k, Y) for P, k in zip(Psi, kernels, strict=True)))

    def take(self, rows: np.ndarray) -> Target:
        """That of some of the rows."""
        return Target(*(arrays.take(Psi, rows, axis=0) for Psi in self))


def _normalised(Psi, kernel: Kernel, Y) -> Array:
    """Ψ with ΨΨᵀ the Gram matrix of the normalised kernel."""
    Psi *= math.exp(-0.5 * kernel.log_normaliser(Y.shape[1]))
    return Psi


@dataclass(frozen=True)
class DensityScore:
    """M as a function of λ, over some of the rows."""

    smoother: Smoother
    P: Array  # those rows
    target: Target  # of those rows
    C: tuple[Array, ...]  # PᵀΨ/n of both targets, over all rows
    cross: tuple[Array, ...]  # P ∘ (ΨCᵀ)
    norms: tuple[Array, ...]  # ‖ψ_i‖²
    root: Array  # C of the wide target, or as few columns that have the same C Cᵀ

    @classmethod
    def of(cls, smoother: Smoother, target: Target) -> DensityScore:
        C = tuple(smoother.P.T @ Psi / smoother.n for Psi in target)
        return cls._at(smoother, smoother.P, target, C)

    @classmethod
    def on(
        cls, smoother: Smoother, points, kernel: Kernel, cells: tuple | None = None, exact=False
    ) -> DensityScore:
        """At points, learned from them; or from all rows, whose sums in cells stand at nodes."""
        if cells is None:
            return cls.of(smoother, Target.of(points, kernel, exact=exact))
        (nodes, sums), m = cells, points.shape[0]
        every = Target.of(np.concatenate([points, nodes]), kernel)
        B = sums if smoother.centre is not None else sums[:, 1:]
        C = tuple(B.T @ Psi[m:] / smoother.n for Psi in every)
        return cls._at(smoother, smoother.P, every.take(np.arange(m)), C)

    @classmethod
    def _at(cls, smoother: Smoother, P, target: Target, C: tuple) -> DensityScore:
        cross = tuple(P * (Psi @ c.T) for Psi, c in zip(target, C, strict=True))
        xp, wide = arrays.namespace(P), C[1]
        norms = tuple(xp.sum(Psi * Psi, axis=1) for Psi in target)
        root = wide if wide.shape[1] <= wide.shape[0] else xp.linalg.qr(wide.T)[1].T
        return cls(smoother, P, target, C, cross, norms, root)

    def thinned(self, limit: int) -> DensityScore:
        """The score at evenly spaced rows, at most `limit` of them, learned from all."""
        if self.P.shape[0] <= limit:
            return self
        rows = evenly(self.P.shape[0], limit)
        P = arrays.take(self.P, rows, axis=0)
        return self._at(self.smoother, P, self.target.take(rows), self.C)

    def __call__(self, reg: float) -> float:
        return float(arrays.namespace(self.P).mean(self.rows(reg)))

    def rows(self, reg: float) -> Array:
        """Each row's term of M, (n,)."""
        xp = arrays.namespace(self.P)
        shrink = self.smoother.shrink(reg)
        h = self.smoother.leverage(reg, self.P)
        left = arrays.at_least(1.0 - h, 1e-10)
        fitted = self.P * shrink[None, :]
        if float(xp.min(left)) < SAFE:
            return self._near_interpolation(fitted, h, left)
        at_own = self._at_own(shrink, h, left)
        squared = xp.sum((fitted @ self.root) ** 2, axis=1)
        squared += h * (h * self.norms[1] - 2 * (self.cross[1] @ shrink))
        return arrays.at_least(squared, 0.0) / left**2 - 2 * at_own

    def own(self, reg: float) -> Array:
        """q⁻ⁱ(y_i|x_i), (n,)."""
        h = self.smoother.leverage(reg, self.P)
        left = arrays.at_least(1.0 - h, 1e-10)
        return self._at_own(self.smoother.shrink(reg), h, left)

    def _at_own(self, shrink, h, left) -> Array:
        return (self.cross[0] @ shrink - h * self.norms[0]) / left

    def _near_interpolation(self, fitted, h, left) -> Array:
        """The same from c_i itself, whose square would have lost its digits."""
        xp = arrays.namespace(h)
        narrow, wide = (
            (fitted @ C - h[:, None] * Psi) / left[:, None]
            for C, Psi in zip(self.C, self.target, strict=True)
        )
        return xp.sum(wide * wide, axis=1) - 2 * xp.sum(self.target.narrow * narrow, axis=1)


def density_loss(Phi, reg: float, target: Target, intercept: bool):
    """M with its gradients with respect to Φ and λ."""
    (n, r), Psi = target.narrow.shape, np.hstack([target.narrow, target.wide])
    off, pullback = residuals_left_out(Phi, Psi, reg, intercept)
    c = Psi - off
    own, wide = target.narrow, c[:, r:]
    value = ((wide**2).sum() - 2 * (own * c[:, :r]).sum()) / n
    return float(value), *pullback(np.hstack([2 * own, -2 * wide]) / n)

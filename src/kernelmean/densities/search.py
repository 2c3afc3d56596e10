"""The score of a conditional density, left out row by row in closed form (MATH §8), and its search.

M = (1/n) Σ_i [ ∫ q⁻ⁱ(y|x_i)² dy − 2 q⁻ⁱ(y_i|x_i) ] estimates the integrated squared error, up to a
constant (Spiteri 2023, eq. 2.11). With w⁻ⁱ the weights learned without row i, the hat matrix gives
w⁻ⁱ_j = H_ij/(1 − H_ii), so in coordinates Ψ of Y, K̄_γ = Ψ₁Ψ₁ᵀ and K̄_γ ∗ K̄_γ = Ψ₂Ψ₂ᵀ,

    c_i = (F_i − H_ii ψ_i)/(1 − H_ii),  F = HΨ,   M = (1/n) Σ_i [ ‖c²_i‖² − 2 ψ¹_i·c¹_i ].
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core import Array, arrays
from ..core.minimise import descend, largest, minimise_log10
from ..core.moments import evenly
from ..embedding.embedding import MeanEmbedding
from ..embedding.move import Wide
from ..features.landmarks import Exact, Nystroem, quietly
from ..kernels import Kernel
from ..regression.bandwidth import FIRST, with_bandwidth
from ..regression.leave_one_out import SAFE
from ..regression.lengthscales import SCALE_DECADES, Scaled, residuals_left_out, tie_of, tied
from ..regression.pairs import BandwidthScore, Pairs
from ..regression.smoother import Smoother
from .laws import MovedLaws
from .location import DIGITS, RANK

FINE = 1e-7  # of the trace, in coordinates of Y
COARSE = 1e-4  # the same, while scales are searched
MOST = 1000  # coordinates of Y
DRAFT_RANK = 50  # landmarks of X, on few rows
ROUNDS = 2  # on few rows; each chooses landmarks and the bandwidth afresh
STEPS, TOL = 20, 1e-6  # of L-BFGS in a round
REGS = (-7.0, 2.0)  # of log10 λ
START = -3.0
ROUGH_MASS = 0.01  # error of the mass of a law, where log densities are compared
LATER = 0.25  # then around the last one: few rows have far minima too
PRECISION = 3e-3  # in the logarithm of the bandwidth
BANDWIDTH_STEP = 10**0.04  # towards larger bandwidths


class Target(NamedTuple):
    """Coordinates of Y under the smoothing kernel and under its self-convolution, normalised."""

    narrow: Array
    wide: Array

    @classmethod
    def of(cls, Y, kernel: Kernel, tol: float = FINE, exact: bool = False) -> Target:
        """For a smoothing kernel whose lengthscale is the bandwidth."""
        features = Exact() if exact else Nystroem(tol=tol, max_rank=MOST)
        d = Y.shape[1]
        both = (kernel, kernel.self_convolved(d))
        return cls(*(quietly(features, Y, k) * math.exp(-0.5 * k.log_normaliser(d)) for k in both))

    def take(self, rows: np.ndarray) -> Target:
        """That of some of the rows."""
        return Target(*(arrays.take(Psi, rows, axis=0) for Psi in self))


class DensityScore:
    """M as a function of λ, over some of the rows: those of the smoother, and of the target.

    Attributes
    ----------
    C : tuple of arrays
        PᵀΨ/n of both targets, over all rows.
    cross, norms : tuples of arrays
        P ∘ (ΨCᵀ), ‖ψ_i‖².
    root : array
        C of the wide target, or as few columns that have the same C Cᵀ.
    """

    def __init__(self, smoother: Smoother, target: Target, C: tuple[Array, ...] = ()):
        P = smoother.P
        self.smoother, self.P, self.target = smoother, P, target
        self.C = C or tuple(P.T @ Psi / smoother.n for Psi in target)
        self.cross = tuple(P * (Psi @ c.T) for Psi, c in zip(target, self.C, strict=True))
        xp, wide = arrays.namespace(P), self.C[1]
        self.norms = tuple(xp.sum(Psi * Psi, axis=1) for Psi in target)
        self.root = wide if wide.shape[1] <= wide.shape[0] else xp.linalg.qr(wide.T)[1].T

    @classmethod
    def on(
        cls, smoother: Smoother, points, kernel: Kernel, cells: tuple | None = None, exact=False
    ) -> DensityScore:
        """At points, learned from them; or from all rows, whose sums in cells stand at nodes."""
        if cells is None:
            return cls(smoother, Target.of(points, kernel, exact=exact))
        (nodes, sums), m = cells, points.shape[0]
        every = Target.of(np.concatenate([points, nodes]), kernel)
        B = sums if smoother.centre is not None else sums[:, 1:]
        C = tuple(B.T @ Psi[m:] / smoother.n for Psi in every)
        return cls(smoother, every.take(np.arange(m)), C)

    def thinned(self, limit: int) -> DensityScore:
        """The score at evenly spaced rows, at most `limit` of them, learned from all."""
        if self.P.shape[0] <= limit:
            return self
        rows, n = evenly(self.P.shape[0], limit), self.smoother.n
        some = replace(self.smoother, P=arrays.take(self.P, rows, axis=0), total=n)
        return DensityScore(some, self.target.take(rows), self.C)

    def __call__(self, reg: float) -> float:
        return float(arrays.namespace(self.P).mean(self.rows(reg)))

    def rows(self, reg: float) -> Array:
        """Each row's term of M, (n,)."""
        xp = arrays.namespace(self.P)
        shrink, h, left, own = self._left_out(reg)
        fitted = self.P * shrink[None, :]
        if float(xp.min(left)) < SAFE:
            return self._near_interpolation(fitted, h, left)
        squared = xp.sum((fitted @ self.root) ** 2, axis=1)
        squared += h * (h * self.norms[1] - 2 * (self.cross[1] @ shrink))
        return arrays.at_least(squared, 0.0) / left**2 - 2 * own

    def own(self, reg: float) -> Array:
        """q⁻ⁱ(y_i|x_i), (n,)."""
        return self._left_out(reg)[-1]

    def _left_out(self, reg: float) -> tuple[Array, ...]:
        """s(λ), the leverages, what they leave of one, and q⁻ⁱ(y_i|x_i)."""
        shrink, h = self.smoother.shrink(reg), self.smoother.leverage(reg)
        left = arrays.at_least(1.0 - h, 1e-10)
        return shrink, h, left, (self.cross[0] @ shrink - h * self.norms[0]) / left

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


class DensitySearch:
    """Scales of the lengthscales of X, λ and the bandwidth in turns.

    Parameters
    ----------
    kernel_x, kernel_y : Kernel
        That of Y at bandwidths proportional to those sought.
    X, Y : arrays of shape (n, d_x), (n, d_y)
        At most a few thousand rows.
    intercept : bool
    free : bool
        Whether the lengthscales move.
    sought : bool
        Whether the bandwidth moves.
    reg : float, optional
        None is sought.
    rank : int
        Most landmarks.

    Attributes
    ----------
    factor : float
        Of the bandwidth, in that of kernel_y.
    tie : float
        Between the scales of columns.
    """

    def __init__(
        self, kernel_x: Kernel, kernel_y: Any, X: np.ndarray, Y: np.ndarray, intercept: bool,
        free: bool = True, sought: bool = True, reg: float | None = None, rank: int = RANK,
    ):  # fmt: skip
        self.kernel_x, self.kernel_y, self.X, self.Y = kernel_x, kernel_y, X, Y
        self.intercept, self.free, self.sought, self.reg = intercept, free, sought, reg
        self.factor, self.tie, self._scaled = 1.0, np.inf, Scaled(kernel_x, X, rank)
        self._targets: dict[float, Target] = {}  # by factor of the bandwidth
        d = X.shape[1]
        middle, reach = (0.5 * np.log10(d), SCALE_DECADES) if free else (0.0, 0.0)
        log_reg = START if reg is None else float(np.log10(max(reg, 1e-12)))
        self._u = np.append(np.full(d, middle), log_reg)
        bounds_of_reg = REGS if reg is None else (log_reg, log_reg)
        self._bounds = [(middle - reach, middle + reach)] * d + [bounds_of_reg]

    def further(self, X: np.ndarray, Y: np.ndarray) -> DensitySearch:
        """The same search, as far as it has come, once on more rows; the bandwidth last.

        Scales of columns may part; the bandwidth is a multiple of Silverman's, which falls with the
        number of rows.
        """
        k = with_bandwidth(self.kernel_y, None, Y, "kernel_y") if self.sought else self.kernel_y
        asked = self.intercept, self.free, self.sought, self.reg
        other = DensitySearch(self.kernel_x, k, X, Y, *asked)
        other._u, other.factor = self._u, self.factor
        other.tie = tie_of(X.shape[1], len(X))
        other._scaled.choose(other._u[:-1])
        other._choose_reg()
        other._descend()
        other._settle()
        return other

    @property
    def scales(self) -> np.ndarray:
        """Factors of the lengthscales of X."""
        return 10.0 ** self._u[:-1]

    def draft(self, rounds: int | None = None) -> DensitySearch:
        """Itself, after λ from all of its range; landmarks, bandwidth, a descent, in rounds."""
        for turn in range(rounds or ROUNDS):
            self._scaled.choose(self._u[:-1])
            if turn == 0:
                self._choose_reg()
            self._choose_bandwidth(turn)
            self._descend()
        return self

    def score(self) -> float:
        """The score at the parameters as they stand."""
        self._scaled.choose(self._u[:-1])
        return self._by_bandwidth()(self.factor)

    def log_densities(self) -> np.ndarray:
        """Of rows left out, with a share of a wide law."""
        self._scaled.choose(self._u[:-1])
        smoother, reg = self._smoothing()
        own = DensityScore(smoother, self._target()).own(reg)
        kernel = self.kernel_y.scaled(self.factor)
        left = smoother.P * (smoother.shrink(reg) / smoother.n)
        laws = MovedLaws(MeanEmbedding.of_parts(self.Y, left, smoother.P, kernel))
        p = np.maximum(own, 0.0) / laws.whole(ROUGH_MASS)
        return Wide.of(self.Y).chosen(p, self.Y).log_mixed(p, self.Y)

    def _settle(self) -> None:
        """The largest bandwidth whose score is not clearly worse than the best.

        The score is flat, and noisy, towards small bandwidths: its minimum is too small more often
        than too large. Up to half a standard error of the difference is given for a larger one.
        """
        if not self.sought:
            return
        self._choose_bandwidth(ROUNDS)
        smoother, reg = self._smoothing()

        def rows(factor: float) -> np.ndarray:
            return DensityScore(smoother, self._target(factor)).rows(reg)

        limit = float(np.log10(self.factor)) + FIRST[1]
        self.factor = largest(rows, self.factor, BANDWIDTH_STEP, limit)

    def _smoothing(self) -> tuple[Smoother, float]:
        """By X, and λ, as they stand."""
        return Smoother.of(self._scaled(self._u[:-1]), self.intercept), float(10.0 ** self._u[-1])

    @cached_property
    def _pairs(self) -> Pairs:
        return Pairs(self.Y, self.kernel_y)

    def _by_bandwidth(self) -> BandwidthScore:
        return BandwidthScore.of_rows(self._pairs, self.kernel_y, *self._smoothing())

    def _choose_reg(self) -> None:
        """λ from all of its range: a descent does not leave the plateau of large ones."""
        if self.reg is None:
            score = DensityScore(self._smoothing()[0], self._target())
            self._u[-1] = _rounded(minimise_log10(score, *REGS, 10, precision=0.1)[0])

    def _choose_bandwidth(self, turn: int) -> None:
        """From all of its range, then around the last one."""
        if self.sought:
            around, points = (FIRST, 9) if turn == 0 else ((-LATER, LATER), 2)
            low, high = (float(np.log10(self.factor) + u) for u in around)
            found, _ = minimise_log10(self._by_bandwidth(), low, high, points, precision=PRECISION)
            self.factor = float(10.0 ** _rounded(found))

    def _target(self, factor: float | None = None) -> Target:
        """At another bandwidth, or at the one that stands."""
        factor = self.factor if factor is None else factor
        if factor not in self._targets:
            self._targets[factor] = Target.of(self.Y, self.kernel_y.scaled(factor), COARSE)
        return self._targets[factor]

    def _descend(self) -> None:
        if not self.free and self.reg is not None:
            return
        target = self._target()
        size = float((target.wide**2).sum(axis=1).mean())

        def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
            reg = 10.0 ** u[-1]
            value, on_Phi, on_reg = density_loss(self._scaled(u[:-1]), reg, target, self.intercept)
            price, slope = tied(u[:-1], self._scaled.pullback(on_Phi) / size, self.tie)
            return value / size + price, np.append(slope, np.log(10) * reg * on_reg / size)

        self._u = descend(loss, self._u, self._bounds, STEPS, TOL).round(DIGITS)


def _rounded(value: float) -> float:
    return round(math.log10(value), DIGITS)

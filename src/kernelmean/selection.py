"""Search for regularisers and lengthscale scales that minimise a closed-form loss."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from . import linalg
from ._validation import Array, NumericalWarning
from .features import Nystroem
from .moments import evenly
from .persistence import Saveable

DECADES = (-10.0, 1.0)  # range of log10 reg, relative to the kernel's mean diagonal
SCALES = (-1.0, 1.0)  # range of log10 scale of a lengthscale
ALONE = 1e-7  # 1 − leverage whose square is lost in the rounding of a squared residual
SAFE = 1e-5  # 1 − leverage above which the sum of all rows loses nothing to rounding
POINTS = 23  # of the grid that brackets the minimum
SEARCH_ROWS = 10_000  # rows whose leave-one-out errors a search over regularisers looks at
FOLDS = 5
SCALE_ROWS = 1_000  # rows that a search over lengthscales looks at


def minimise_log10(
    loss: Callable[[float], float],
    low: float,
    high: float,
    points: int = POINTS,
    heaviest: bool = False,
    coarse: Callable[[float], float] | None = None,
    precision: float | None = None,
) -> tuple[float, float]:
    """Minimise `loss(10**u)` over u in [low, high]: a grid, then Brent's method in its best cell.

    Parameters
    ----------
    heaviest : bool
        Of several local minima take the one with the largest argument, provided it has 95% of
        the improvement that the lowest has over the heaviest regulariser. A loss measured on
        few rows is nearly flat, and bumpy, where there is too little regularisation.
    coarse : callable, optional
        A cheaper loss for the grid.
    precision : float, optional
        Of the minimiser's logarithm; None is 1e-4, or 1e-2 with a cheaper loss for the grid.

    Returns
    -------
    (argument, value) : the minimiser (not its logarithm) and the loss there
    """

    def at(u: float, loss: Callable[[float], float] = loss) -> float:
        return _finite(loss(10.0 ** float(u)))

    grid = np.linspace(low, high, points)
    values = np.array([at(u, coarse or loss) for u in grid])
    best = _heaviest_minimum(values) if heaviest else int(np.argmin(values))
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, points - 1)]
    if precision is None:
        precision = 1e-4 if coarse is None else 1e-2
    found = minimize_scalar(at, bounds=bracket, method="bounded", options={"xatol": precision})
    corner = values[best] if coarse is None else at(grid[best])
    if found.fun < corner:
        return float(10.0**found.x), float(found.fun)
    return float(10.0 ** grid[best]), float(corner)


def _heaviest_minimum(values: np.ndarray) -> int:
    """Index of the last local minimum that is good enough."""
    enough = values[-1] - 0.95 * (values[-1] - values.min())
    padded = np.concatenate([[np.inf], values, [np.inf]])
    local = (values <= padded[:-2]) & (values <= padded[2:]) & (values <= enough)
    return int(np.flatnonzero(local)[-1])


def _finite(value) -> float:
    value = float(value)
    return value if np.isfinite(value) else np.inf


def best_scale(kernel_x, points_x, Psi) -> float:
    """Scale of the lengthscales of `kernel_x`, in `SCALES`, by the leave-one-out loss.

    Candidates are compared on at most 1,000 rows, in coarse coordinates (trace to 1e-4, rank
    200), each at its own best λ.
    """
    n = points_x.shape[0]
    rows = evenly(n, SCALE_ROWS)
    points, targets = linalg.take(points_x, rows, axis=0), linalg.take(Psi, rows, axis=0)

    def loss(scale: float) -> float:
        with warnings.catch_warnings():  # a candidate's rank is nobody's concern
            warnings.simplefilter("ignore", NumericalWarning)
            features = Nystroem(tol=1e-4, max_rank=200)
            Phi = features.fit_transform(points, kernel_x.scaled(scale))
        grid = linalg.EigenGrid.of(Phi.T @ Phi / Phi.shape[0])
        return LeaveOneOut.of(Phi, targets, grid).best()[1]

    return minimise_log10(loss, *SCALES, points=9)[0]


@dataclass(frozen=True)
class LeaveOneOut(Saveable):
    """Vector-valued leave-one-out loss of a weighted ridge regression of Ψ on Φ, for every λ.

    L(λ) = Σ_i d_i ‖[(I − H)Ψ]_i‖² / (1 − H_ii)², H = Φ(ΦᵀDΦ + λI)⁻¹ΦᵀD, D = diag(d), d_i = 1/n
    when no weights are given (λ held fixed while a row is out). With ΦᵀDΦ = Q diag(s) Qᵀ and
    P = ΦQ, one value costs n r² operations.
    """

    grid: linalg.EigenGrid
    P: Array  # rows in the eigenbasis, (n, r)
    cross: Array  # P ∘ (Ψ Cᵀ) with C = PᵀDΨ, (n, r)
    inner: Array  # C Cᵀ, (r, r)
    norms: Array  # ‖ψ_i‖², (n,)
    d: Array

    @classmethod
    def of(cls, Phi, Psi, grid: linalg.EigenGrid, d=None) -> LeaveOneOut:
        P = Phi @ grid.vectors
        norms = linalg.namespace(Phi).sum(Psi * Psi, axis=-1)
        if d is None:
            d = linalg.namespace(Phi).full_like(norms, 1.0 / P.shape[0])
        C = P.T @ (d[:, None] * Psi)
        return cls(grid, P, P * (Psi @ C.T), C @ C.T, norms, d)

    def __call__(self, reg: float) -> float:
        xp = linalg.namespace(self.P)
        shrink = self.grid.shrink(reg)
        left = self._left(shrink)
        if float(xp.min(left)) < SAFE:
            return float(xp.sum(self.rows(reg)))
        # Σ w_i p_iᵀ D C Cᵀ D p_i: a symmetric product of the rows, half the work of each row's own
        w = self.d / left**2
        S = xp.sqrt(w)[:, None] * self.P
        fitted = shrink @ ((self.inner * (S.T @ S)) @ shrink)
        return max(float(w @ self.norms - 2 * (w @ (self.cross @ shrink)) + fitted), 0.0)

    def rows(self, reg: float) -> Array:
        """Each row's part of the loss, (n,)."""
        xp = linalg.namespace(self.P)
        shrink = self.grid.shrink(reg)
        fitted = (self.P * shrink[None, :]) @ self.inner
        fitted *= self.P
        squared = self.norms - 2 * (self.cross @ shrink) + fitted @ shrink
        left = self._left(shrink)
        own = xp.clip(squared, 0.0, None) / left**2
        # a row that is fitted by itself alone is predicted by nothing: not by rounding either
        return self.d * xp.where(left < ALONE, xp.maximum(own, self.norms), own)

    def _left(self, shrink) -> Array:
        """1 − leverage, kept above zero."""
        xp = linalg.namespace(self.P)
        return xp.clip(1.0 - self.d * ((self.P * self.P) @ shrink), 1e-10, None)

    def best(self, one_se: bool = False, coarse: int | None = None) -> tuple[float, float]:
        """The minimising λ, within `DECADES` of the trace of ΦᵀDΦ, and its loss.

        With `one_se`, the largest λ whose loss is within one standard error of the minimum; with
        `coarse`, the minimum is bracketed by the loss over that many rows.
        """
        size = float(linalg.namespace(self.P).sum(self.grid.values))
        few = self.thinned(SEARCH_ROWS)
        rough = None if coarse is None else self.thinned(coarse)
        bracket = None if rough is None else lambda r: rough(r * size)
        reg, loss = minimise_log10(lambda r: few(r * size), *DECADES, coarse=bracket)
        if one_se:
            slack = standard_error(few.rows(reg * size))
            reg = heaviest_within(lambda r: few(r * size), reg, loss + slack, DECADES[1])
        return reg * size, self(reg * size)

    def thinned(self, limit: int) -> LeaveOneOut:
        """The loss over evenly spaced rows, at most `limit` of them."""
        n = self.P.shape[0]
        if n <= limit:
            return self
        rows = evenly(n, limit)
        P, cross = (linalg.take(A, rows, axis=0) for A in (self.P, self.cross))
        norms, d = (linalg.take(a, rows, axis=0) for a in (self.norms, self.d))
        return LeaveOneOut(self.grid, P, cross, self.inner, norms, d)


def standard_error(rows) -> float:
    """Standard error of a sum of independent terms."""
    return float(rows.shape[0] ** 0.5 * linalg.namespace(rows).std(rows))


def heaviest_within(
    loss: Callable[[float], float], start: float, bound: float, high: float
) -> float:
    """Largest argument reached from `start` while the loss stays below `bound`.

    Searches up to 10**high: a walk of a tenth of a decade, then the root in the last step.
    """
    low = math.log10(start)
    while low < high:
        step = min(low + 0.1, high)
        if _finite(loss(10.0**step)) > bound:
            low = brentq(lambda u: loss(10.0**u) - bound, low, step, xtol=1e-3)
            break
        low = step
    return 10.0**low


def choose_by_folds(Phi, beta, Psi, rule: str, balance: bool) -> float:
    """Regulariser of kernel Bayes' rule by K-fold validation on the training pairs.

    Held-out risk Σ_a Σ_{i∈a} β⁺_i ‖ψ_i − μ^{(−a)}(x_i)‖², the posterior learned without fold a; or
    (`balance`) Fukumizu 2013 §4.2, Σ_a ‖avg_{i∈a} μ^{(−a)}(x_i) − avg_{i∈a} ψ_i‖², averages
    weighted by the shares of the rows under the prior.
    """
    xp = linalg.namespace(Phi)
    size = float(xp.abs(beta) @ xp.sum(Phi * Phi, axis=-1))
    power = 1 if rule == "importance" else 2  # δ is on the scale of C²
    folds = [_Fold.of(Phi, beta, Psi, rule, a) for a in range(FOLDS)]

    def loss(reg: float) -> float:
        return sum(fold.loss(reg * size**power, balance) for fold in folds)

    low, high = (bound * power for bound in DECADES)
    return minimise_log10(loss, low, high)[0] * size**power


@dataclass(frozen=True)
class _Fold:
    """One fold's posteriors for every regulariser, from the eigenbasis of the other folds."""

    rule: str
    values: Array
    P: Array  # held-out rows in that basis
    target: Array  # Σ_i p_i β_i ψ_i over the other folds
    Psi: Array
    d: Array

    @classmethod
    def of(cls, Phi, beta, Psi, rule: str, a: int) -> _Fold:
        xp = linalg.namespace(Phi)
        rows = np.arange(a, Phi.shape[0], FOLDS)
        rest = np.setdiff1d(np.arange(Phi.shape[0]), rows)
        d = xp.clip(beta, 0.0, None)
        share = linalg.take(d if rule == "importance" else beta, rest, axis=0)
        kept_mass = float(xp.sum(xp.clip(share, 0.0, None)))
        share = share * (float(xp.sum(d)) / kept_mass if kept_mass > 0 else 1.0)
        kept, Psi_kept = linalg.take(Phi, rest, axis=0), linalg.take(Psi, rest, axis=0)
        right = share[:, None] * kept
        values, vectors = xp.linalg.eigh(kept.T @ right)
        return cls(
            rule,
            values,
            linalg.take(Phi, rows, axis=0) @ vectors,
            vectors.T @ (right.T @ Psi_kept),
            linalg.take(Psi, rows, axis=0),
            linalg.take(d, rows, axis=0),
        )

    def loss(self, reg: float, balance: bool) -> float:
        xp = linalg.namespace(self.P)
        shrink = _filter(self.values, reg, self.rule)
        off = self.Psi - (self.P * shrink[None, :]) @ self.target
        if balance:
            mass = float(xp.sum(self.d))
            return float(xp.sum((self.d @ off) ** 2)) / mass**2 if mass > 0 else 0.0
        return float(self.d @ xp.sum(off * off, axis=-1))


def _filter(values, reg: float, rule: str) -> Array:
    """1/(c + λ), or c/(c² + δ) for the squared rule."""
    xp = linalg.namespace(values)
    if rule == "importance":
        return 1.0 / (xp.clip(values, 0.0, None) + reg)
    return linalg.squared_filter(values, reg)

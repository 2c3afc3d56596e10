"""The two stages of kernel instrumental-variable regression, as solves of small matrices.

Rows come in groups. A group knows whether its rows taught the first stage (then their embeddings
leave the row itself out) and whether they have a part in the second. The three ways of sharing
rows differ in nothing else:

- the jackknife: one group, in both stages;
- a split: one group in stage 1, another in stage 2;
- K folds: K groups, each with a first stage learned from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

from . import linalg
from ._validation import Array, check_positive
from .features import FeatureMap
from .moments import Moments, accumulate, block_rows, evenly, row_blocks
from .persistence import Saveable
from .scales import trend_inverse
from .selection import DECADES, SEARCH_ROWS, LeaveOneOut, heaviest_within, minimise_log10

FLAT = 1e-4  # relative difference of causal losses that says nothing
LOSS_COST = 4e8  # rows × rank² of one value of the stage-1 loss
FEWEST = 2_000  # rows of it, whatever the rank
COARSE = 1_000  # rows that bracket λ
GRID = 45  # of a regulariser's bracketing search: each value costs r² operations
KEPT = 2**26  # floats of coordinates that are kept between passes over the rows: 512 MiB


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
        xp = linalg.namespace(points)
        spread = xp.std(points, axis=0)
        spread = xp.where(spread > 0, spread, xp.ones_like(spread))
        return cls(powers, xp.mean(points, axis=0), spread)

    @property
    def width(self) -> int:
        return 1 + (self.powers - 1) * self.middle.shape[0] if self.powers else 0

    def __call__(self, points) -> Array:
        xp = linalg.namespace(points)
        u = (points - self.middle) / self.spread
        one = xp.ones((points.shape[0], 1), dtype=u.dtype, device=getattr(u, "device", None))
        columns = [one, *(u**k for k in range(1, self.powers))]
        return xp.concat(columns, axis=1)[:, : self.width]

    def derivative(self, points, column: int) -> Array:
        """∂/∂x_column of every column, (n, width)."""
        xp = linalg.namespace(points)
        u = (points[:, column : column + 1] - self.middle[column]) / self.spread[column]
        mine = xp.asarray(np.arange(self.middle.shape[0]) == column, dtype=u.dtype)[None, :]
        slopes = [k * u ** (k - 1) / self.spread[column] * mine for k in range(1, self.powers)]
        return xp.concat([xp.zeros_like(u), *slopes], axis=1)[:, : self.width]


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

    def transform(self, points) -> Array:
        Phi = self.features.transform(points)
        if not self.trends:
            return Phi
        return linalg.namespace(Phi).concat([self.polynomial(points), Phi], axis=1)

    def derivative(self, points, column: int) -> Array:
        """∂/∂x_column of every coordinate, (n, width)."""
        slopes = [part.derivative(points, column) for part in (self.polynomial, self.features)]
        return linalg.namespace(points).concat(slopes, axis=1)


@dataclass
class Group:
    """Rows that play the same part, in coordinates: blocks of (Φ, Θ, y, M).

    M, the embeddings of the rows by a first stage, are there once `stage` is. Coordinates are kept
    between passes where they fit in memory, and computed again otherwise.
    """

    basis_x: Basis
    basis_z: Basis
    X: Array
    Z: Array
    y: Array
    own: bool = True  # the stage 1 that embeds the rows was learned from them, among others
    teaches: bool = True  # some stage 1 is learned from them
    outcome: bool = True  # stage 2 is learned from them
    stage: Any = None  # the FirstStage that embeds the rows

    def __post_init__(self) -> None:
        self._kept: list | None = None
        self._embedded: list | None = None
        self._keep = self.n * (self.basis_x.width + self.basis_z.width) <= KEPT

    @property
    def n(self) -> int:
        return self.Z.shape[0]

    def blocks(self) -> Iterator[tuple]:
        if self._kept is not None:
            yield from self._kept
            return
        kept = []
        rows = block_rows(self.basis_x.width + self.basis_z.width)
        for X, Z, y in row_blocks(self.X, self.Z, self.y, rows=rows):
            block = self.basis_x.transform(X), self.basis_z.transform(Z), y
            if self._keep:
                kept.append(block)
            yield block
        self._kept = kept if self._keep else None

    def embedded(self) -> Iterator[tuple]:
        """Blocks with M."""
        if self._embedded is not None:
            yield from self._embedded
            return
        kept = []
        for Phi, Theta, y in self.blocks():
            block = Phi, Theta, y, self.stage.rows(Phi, Theta, self.own)
            if self._keep:
                kept.append(block)
            yield block
        self._embedded = kept if self._keep else None

    def total(self, names: list[str], columns: Callable[..., dict]) -> Moments:
        """Sums over all rows of products of the columns that `columns(Φ, Θ, y, M)` gives.

        Before there is a first stage, M is None.
        """
        if self.stage is None:
            return accumulate(((*block, None) for block in self.blocks()), names, columns)
        return accumulate(self.embedded(), names, columns)

    def mean_norm(self) -> float:
        """Mean of k(x, x), part of the stage-1 loss on these rows."""
        diagonal = self.basis_x.features.kernel_._diag(self.X)
        return float(linalg.namespace(diagonal).mean(diagonal))

    def few(self, limit: int) -> tuple:
        """(Φ, Θ, y) at evenly spaced rows, at most `limit`."""
        if self.n <= limit and self._kept is not None:
            parts = zip(*self._kept, strict=True)
            return tuple(_stacked(list(part)) for part in parts)
        rows = evenly(self.n, limit)
        X, Z, y = (linalg.take(part, rows, axis=0) for part in (self.X, self.Z, self.y))
        return self.basis_x.transform(X), self.basis_z.transform(Z), y

    def few_embedded(self, limit: int) -> tuple:
        """(Φ, Θ, y, M) at the same rows."""
        if self.n <= limit and self._embedded is not None:
            parts = zip(*self._embedded, strict=True)
            return tuple(_stacked(list(part)) for part in parts)
        Phi, Theta, y = self.few(limit)
        return Phi, Theta, y, self.stage.rows(Phi, Theta, self.own)


# ------------------------------------------------------------------------------ stage 1
@dataclass(frozen=True)
class FirstStage(Saveable):
    """z ↦ E[(t, φ)(X) | z] = Eᵀθ(z), with what the leverage of a row needs.

    E = (ΘᵀΘ/n + λI)⁻¹ΘᵀΦ/n, root rootᵀ = (ΘᵀΘ/n + λI)⁻¹/n.
    """

    E: Array
    root: Array

    @classmethod
    def of(cls, grid: linalg.EigenGrid, cross, reg: float, n: int) -> FirstStage:
        shrink = grid.shrink(reg)
        E = grid.vectors @ (shrink[:, None] * (grid.vectors.T @ cross))
        return cls(E, grid.vectors * (shrink / n) ** 0.5)

    def rows(self, Phi, Theta, own: bool) -> Array:
        """M: embeddings at the rows, (n, width); rows it was learned from are left out in turn.

        M_i = (F_i − h_iφ_i)/(1 − h_i), F_i = Eᵀθ_i, h_i = θ_iᵀ(ΘᵀΘ/n + λI)⁻¹θ_i/n.
        """
        F = Theta @ self.E
        if not own:
            return F
        hat = self.hat(Theta)[:, None]
        return (F - hat * Phi) / (1.0 - hat)

    def hat(self, Theta) -> Array:
        xp = linalg.namespace(Theta)
        return xp.clip(xp.sum((Theta @ self.root) ** 2, axis=1), 0.0, 1.0 - 1e-10)


def first_moments(groups: list[Group]) -> Moments:
    """ΘᵀΘ and ΘᵀΦ over the rows that teach stage 1."""
    parts = [g.total(["zz", "zx"], lambda x, z, y, m: {"x": x, "z": z}) for g in groups]
    return _merged(parts)


def jackknife_stage(groups: list[Group], reg) -> tuple[FirstStage, float, float]:
    """Stage 1 on all rows of the groups, with λ and its leave-one-out loss."""
    moments = first_moments(groups)
    grid = linalg.EigenGrid.of(moments.mean("zz"))
    cross = moments.mean("zx")
    loss = _leave_one_out(groups, grid, cross, moments.n)
    if reg is None:
        reg = loss.best(coarse=COARSE)[0]
    else:
        reg = check_positive(reg, "reg_stage1", zero=True)
    value = loss(reg) * moments.n / loss.P.shape[0]  # a mean over the rows looked at
    return FirstStage.of(grid, cross, reg, moments.n), reg, value


def _leave_one_out(groups, grid, cross, n: int) -> LeaveOneOut:
    """Σ‖φ_i − F_i‖²/(1 − h_i)²/n over a few rows, the moments being those of all; trends apart."""
    rows = int(min(SEARCH_ROWS, max(FEWEST, LOSS_COST / cross.shape[0] ** 2)))
    few = [g.few(rows // len(groups)) for g in groups]
    trends = groups[0].basis_x.trends
    xp = linalg.namespace(grid.values)
    Phi, Theta = (_stacked([part[i] for part in few]) for i in (0, 1))
    Phi = Phi[:, trends:]
    C = grid.vectors.T @ cross[:, trends:]
    P = Theta @ grid.vectors
    norms = xp.sum(Phi * Phi, axis=1)
    return LeaveOneOut(grid, P, P * (Phi @ C.T), C @ C.T, norms, xp.full_like(norms, 1.0 / n))


@dataclass(frozen=True)
class SplitStage1:
    """z ↦ E[φ(X) | z] for every λ: with ΘᵀΘ/n = Q diag(s) Qᵀ, E = A D Qᵀ, D = 1/(s + λ).

    Its loss on other rows, (1/m) Σ ‖φ(x̃) − Eθ(z̃)‖², is a quadratic in the diagonal of D:
    (1/m) Σ k(x̃, x̃) − 2 cᵀd + dᵀGd.
    """

    grid: linalg.EigenGrid
    cross: Array
    constant: float
    c: Array
    G: Array
    n: int

    @classmethod
    def of(cls, first: Moments, second: Moments, group: Group) -> SplitStage1:
        """Learned from the moments `first`; its loss is measured on `second`, those of `group`."""
        grid, trends = linalg.EigenGrid.of(first.mean("zz")), group.basis_x.trends
        Q, cross = grid.vectors, first.mean("zx")
        A = Q.T @ cross[:, trends:]
        c = linalg.namespace(A).sum(A * (Q.T @ second.mean("zx")[:, trends:]), axis=1)
        G = (A @ A.T) * (Q.T @ second.mean("zz") @ Q)
        return cls(grid, cross, group.mean_norm(), c, G, first.n)

    def __call__(self, reg: float) -> float:
        d = self.grid.shrink(reg)
        return float(self.constant - 2 * self.c @ d + d @ self.G @ d)

    def stage(self, reg: float) -> FirstStage:
        return FirstStage.of(self.grid, self.cross, reg, self.n)


def split_stages(groups: list[Group], reg) -> tuple[list[FirstStage], float, float]:
    """Stage 1 for each group from the others (of two groups: for the second, from the first)."""
    moments = [first_moments([g]) for g in groups]
    if groups[0].outcome:
        rest = [_merged(moments[:a] + moments[a + 1 :]) for a in range(len(groups))]
        stages = [SplitStage1.of(*three) for three in zip(rest, moments, groups, strict=True)]
    else:
        stages = [SplitStage1.of(moments[0], moments[1], groups[1])]
    share = [m.n for m in moments[-len(stages) :]]

    def loss(reg: float) -> float:
        return sum(s(reg) * n for s, n in zip(stages, share, strict=True)) / sum(share)

    reg, value = choose(reg, "reg_stage1", loss, _trace(stages[0].grid))
    return [s.stage(reg) for s in stages], reg, value


# ------------------------------------------------------------------------------ stage 2
@dataclass(frozen=True)
class SecondStage:
    """Ridge of y on M for every ξ, the trend's columns apart (they are not penalised).

    With the trend first, A = MᵀM/m in blocks: B = A_tt⁻¹A_tk, S = A_kk − A_ktB = R diag(s) Rᵀ. In
    the directions G = [I, −BR; 0, R] the penalised A is block diagonal, (A_tt, s + ξ), so that one
    eigendecomposition serves every ξ. (A_tt has 1/m added for each trend column but the constant.)
    """

    grid: linalg.EigenGrid
    G: Array
    start: Array  # coefficients of the trend's directions
    inverse: Array  # A_tt⁻¹
    c: Array  # right-hand side in the other directions
    size: float  # trace of A_kk, what ξ is measured by: S may be no more than its rounding

    @classmethod
    def of(cls, second, target, trends: int, m: int) -> SecondStage:
        """From MᵀM/m, Mᵀy/m and the number of trend columns."""
        xp = linalg.namespace(second)
        inverse = linalg.like(trend_inverse(linalg.to_numpy(second[:trends, :trends]), m), second)
        B = inverse @ second[:trends, trends:]
        S = second[trends:, trends:] - second[trends:, :trends] @ B
        grid = linalg.EigenGrid.of(0.5 * (S + S.T))
        R = grid.vectors
        top = xp.concat([linalg.like(np.eye(trends), second), -B @ R], axis=1)
        low = xp.concat([linalg.like(np.zeros((R.shape[0], trends)), second), R], axis=1)
        c = R.T @ (target[trends:] - B.T @ target[:trends])
        size = float(xp.sum(xp.linalg.diagonal(second)[trends:]))
        return cls(grid, xp.concat([top, low]), inverse @ target[:trends], inverse, c, size)

    @property
    def trends(self) -> int:
        return self.inverse.shape[0]

    def along(self, reg: float) -> Array:
        """Coefficients in the directions G."""
        return linalg.namespace(self.c).concat([self.start, self.grid.shrink(reg) * self.c])

    def coefficients(self, reg: float) -> Array:
        return self.G @ self.along(reg)

    def covariance(self, reg: float, scores) -> Array:
        """A⁻¹ Ω A⁻¹ for Ω given in the original coordinates."""
        left = self.inverse_at(reg)
        return left @ scores @ left.T

    def inverse_at(self, reg: float) -> Array:
        """A⁻¹ = G diag(A_tt⁻¹, 1/(s + ξ)) Gᵀ."""
        p = self.trends
        head, tail = self.G[:, :p], self.G[:, p:]
        return head @ self.inverse @ head.T + (tail * self.grid.shrink(reg)) @ tail.T


@dataclass(frozen=True)
class CausalLeaveOneOut:
    """(1/n) Σ(y_i − h⁻ⁱ(x_i))² for every ξ, from rows in the directions G (MATH §7)."""

    stage: SecondStage
    m: int
    XR: Array
    MR: Array
    MM: Array  # MR²
    XM: Array  # XR MR
    u: Array
    w: Array
    g0: Array
    x0: Array

    @classmethod
    def of(cls, stage: SecondStage, Phi, M, y, m: int) -> CausalLeaveOneOut:
        xp, p = linalg.namespace(M), stage.trends
        MG, XG = M @ stage.G, Phi @ stage.G
        T, X = MG[:, :p], XG[:, :p]
        pull = T @ stage.inverse
        g0, x0 = xp.sum(pull * T, axis=1) / m, xp.sum(pull * X, axis=1) / m
        u, w = y - T @ stage.start, y - X @ stage.start
        XR, MR = XG[:, p:], MG[:, p:]
        return cls(stage, m, XR, MR, MR * MR, XR * MR, u, w, g0, x0)

    def __call__(self, reg: float) -> float:
        errors = self.errors(reg)
        return float(errors @ errors) / errors.shape[0]

    def errors(self, reg: float) -> Array:
        """y_i − h⁻ⁱ(x_i)."""
        xp, d = linalg.namespace(self.u), self.stage.grid.shrink(reg)
        b = d * self.stage.c
        left = 1.0 - self.g0 - self.MM @ d / self.m
        r = (self.u - self.MR @ b) / xp.clip(left, 1e-10, None)
        return self.w - self.XR @ b + (self.x0 + self.XM @ d / self.m) * r


def held_out_loss(stage: SecondStage, group: Group) -> Callable[[float], float]:
    """(1/n) Σ(y − h(x))² on a group of rows, for every ξ: a quadratic in the coefficients."""
    moments = group.total(["xx", "xy", "yy"], lambda x, z, y, m: {"x": x, "y": y[:, None]})
    inner = stage.G.T @ moments.mean("xx") @ stage.G
    target = stage.G.T @ moments.mean("xy")[:, 0]
    constant = float(moments.mean("yy")[0, 0])

    def loss(reg: float) -> float:
        b = stage.along(reg)
        return float(constant - 2 * target @ b + b @ inner @ b)

    return loss


def choose(reg, name: str, loss: Callable, size: float, heaviest: bool = True):
    """The regulariser given, or the minimiser of the loss; and the loss there.

    Unless it is the `heaviest` of several minima, it is the heaviest whose loss is within 1e-4 of
    the least: where a loss is flat, nothing speaks for a variance without bound.
    """
    if reg is not None:
        reg = check_positive(reg, name, zero=True)
        return reg, loss(reg)
    size = max(size, linalg.EPS)

    def relative(r: float) -> float:
        return loss(r * size)

    reg, value = minimise_log10(relative, *DECADES, points=GRID, heaviest=heaviest)
    if not heaviest:
        reg = heaviest_within(relative, reg, value * (1 + FLAT), DECADES[1])
        value = relative(reg)
    return reg * size, value


def _trace(grid: linalg.EigenGrid) -> float:
    return float(linalg.namespace(grid.values).sum(grid.values))


def _stacked(blocks: list[Array]) -> Array:
    return blocks[0] if len(blocks) == 1 else linalg.namespace(blocks[0]).concat(blocks)


def _merged(parts: list[Moments]) -> Moments:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.merge(part)
    return whole


def second_moments(learners: list[Group]) -> Moments:
    """MᵀM and Mᵀy over the rows of stage 2."""
    columns = lambda x, z, y, m: {"m": m, "y": y[:, None]}  # noqa: E731
    return _merged([g.total(["mm", "my"], columns) for g in learners])


def causal_leave_one_out(stage: SecondStage, learners: list[Group], m: int) -> CausalLeaveOneOut:
    """The causal loss over a few of the complete rows.

    Where no row is complete (two samples), regressors are not known beside outcomes, and the
    embedding has to stand for them.
    """
    complete = [g for g in learners if g.teaches] or learners
    parts: list[list] = [[], [], []]
    for group in complete:
        Phi, _, y, M = group.few_embedded(SEARCH_ROWS // len(complete))
        for part, rows in zip(parts, (Phi if group.teaches else M, M, y), strict=True):
            part.append(rows)
    Phi, M, y = (_stacked(part) for part in parts)
    return CausalLeaveOneOut.of(stage, Phi, M, y, m)


def influence(groups: list[Group], coef, n: int, m: int) -> Array:
    """Ω = Σ s_i² M_iM_iᵀ: what the rows' multipliers do to the normal equations of stage 2.

    s_i = (y_i − M_iᵀb)/m for a row of stage 2, less (φ_i − M_i)ᵀb/n for one that teaches stage 1:
    for a row in both, with n = m, the structural residual (y_i − φ_iᵀb)/n.
    """

    def scores(outcome: bool, teaches: bool) -> Callable[..., dict]:
        def columns(Phi, Theta, y, M) -> dict:
            fitted = M @ coef
            s = (y - fitted) / m if outcome else 0.0 * y
            if teaches:
                s = s - (Phi @ coef - fitted) / n
            return {"s": M * s[:, None]}

        return columns

    return _merged([g.total(["ss"], scores(g.outcome, g.teaches)) for g in groups]).sums["ss"]


def moment_test(groups: list[Group], coef, reg: float) -> float:
    """p-value of E[y − h(X) | Z] = 0 for the h that was fitted.

    With residuals r_i and instruments whitened by stage 1, w_i = (ΘᵀΘ/n + λI)^{-1/2}θ_i, the
    statistic ‖n^{-1/2} Σ r_iw_i‖² is under the hypothesis a sum of χ²₁ weighted by the eigenvalues
    of V = (1/n) Σ r_i²w_iw_iᵀ. A multiple of χ² with the same mean tr V and variance 2 tr V² gives
    the p-value. The fit has minimised such moments on the same rows, which makes the test
    conservative, except where regularisation has biased the fit: that it sees.
    """

    def columns(Phi, Theta, y, M) -> dict:
        return {"z": Theta, "r": Theta * (y - Phi @ coef)[:, None]}

    moments = _merged([g.total(["zz", "r", "rr"], columns) for g in groups])
    grid = linalg.EigenGrid.of(moments.mean("zz"))
    floor = max(reg, 1e-6 * float(linalg.namespace(grid.values).sum(grid.values)))
    whiten = grid.vectors * grid.shrink(floor) ** 0.5
    g = linalg.to_numpy(moments.sums["r"] @ whiten)
    V = linalg.to_numpy(whiten.T @ moments.mean("rr") @ whiten)
    return weighted_chi2(float(g @ g) / moments.n, V)


def weighted_chi2(statistic: float, V: np.ndarray) -> float:
    """P(zᵀz > statistic) for z ~ N(0, V), by the scaled χ² with the same mean and variance."""
    mean, spread = float(np.trace(V)), 2 * float((V * V).sum())
    if spread == 0:
        return 1.0
    return float(chi2.sf(statistic * 2 * mean / spread, 2 * mean**2 / spread))

"""Stage one: the embedding of regressors given instruments, and its regulariser."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from ..core import arrays, solves
from ..core.checks import Array
from ..core.minimise import DECADES, SEARCH_ROWS, minimise_log10
from ..core.moments import Moments
from ..core.rows import put_together
from ..core.saving import Saveable
from ..regression.leave_one_out import LeaveOneOut
from .groups import Group, merged

LOSS_COST = 4e8  # rows × rank² of one value of the stage-1 loss
FEWEST = 2_000  # rows of it, whatever the rank
COARSE = 500  # rows that bracket λ
GRID = 45  # of a regulariser's bracketing search: each value costs r² operations


@dataclass(frozen=True)
class FirstStage(Saveable):
    """z ↦ E[(t, φ)(X) | z] = Eᵀθ(z), with what the leverage of a row needs.

    E = (ΘᵀΘ/n + λI)⁻¹ΘᵀΦ/n, rootᵀroot = (ΘᵀΘ/n + λI)⁻¹/n, upper triangular.
    """

    E: Array
    root: Array

    @classmethod
    def of(cls, grid: solves.EigenGrid, cross, reg: float, n: int) -> FirstStage:
        shrink = grid.shrink(reg)
        E = grid.vectors @ (shrink[:, None] * (grid.vectors.T @ cross))
        return cls(E, solves.triangle((grid.vectors * (shrink / n) ** 0.5).T))

    def rows(self, Phi, Theta, own: bool) -> Array:
        """M: embeddings at the rows, (n, width); rows it was learned from are left out in turn.

        M_i = (F_i − h_iφ_i)/(1 − h_i), F_i = Eᵀθ_i, h_i = θ_iᵀ(ΘᵀΘ/n + λI)⁻¹θ_i/n.
        """
        F = Theta @ self.E
        if own:
            hat = self.hat(Theta)[:, None]
            F -= hat * Phi
            F /= 1.0 - hat
        return F

    def hat(self, Theta) -> Array:
        xp, half = arrays.namespace(Theta), solves.times_transposed(Theta, self.root, lower=False)
        return xp.clip(xp.vecdot(half, half), 0.0, 1.0 - 1e-10)


def embed(groups: list[Group], reg: float | None, split: str) -> tuple[float, float, int]:
    """Give every group the stage 1 that embeds its rows; λ, its loss and the rows learned from."""
    teachers = [g for g in groups if g.teaches]
    if all(g.own for g in teachers) and split != "share":
        stage, reg, loss = jackknife_stage(teachers, reg)
        stages = [stage] * len(groups)
    else:
        stages, reg, loss = split_stages(groups, reg)
    for group, stage in zip(groups, itertools.cycle(stages), strict=False):
        group.stage = stage
    return reg, loss, sum(g.n for g in teachers)


def jackknife_stage(groups: list[Group], reg) -> tuple[FirstStage, float, float]:
    """Stage 1 on all rows of the groups, with λ and its leave-one-out loss."""
    moments = merged(group.moments for group in groups)
    grid = solves.EigenGrid.of(moments.mean("zz"))
    cross = moments.mean("zx")
    loss = _leave_one_out(groups, grid, cross, moments.n)
    if not groups[0].basis_z.features.rank_:
        reg = reg or 0.0  # least squares
    reg = loss.best(coarse=COARSE)[0] if reg is None else float(reg)
    value = loss(reg) * moments.n / loss.P.shape[0]  # a mean over the rows looked at
    return FirstStage.of(grid, cross, reg, moments.n), reg, value


def _leave_one_out(groups, grid, cross, n: int) -> LeaveOneOut:
    """Σ‖φ_i − F_i‖²/(1 − h_i)²/n over a few rows, the moments being those of all; trends apart."""
    rows = int(min(SEARCH_ROWS, max(FEWEST, LOSS_COST / cross.shape[0] ** 2)))
    Phi, Theta, *_ = put_together([g.few(rows // len(groups)) for g in groups])
    trends = groups[0].basis_x.trends
    if trends == cross.shape[1]:
        trends = 1  # of a plane alone: its slopes
    Phi = Phi[:, trends:]
    return LeaveOneOut.of(Theta, Phi, grid, n=n, C=grid.vectors.T @ cross[:, trends:])


@dataclass(frozen=True)
class SplitStage1:
    """z ↦ E[φ(X) | z] for every λ: with ΘᵀΘ/n = Q diag(s) Qᵀ, E = A D Qᵀ, D = 1/(s + λ).

    Its loss on other rows, (1/m) Σ ‖φ(x̃) − Eθ(z̃)‖², is a quadratic in the diagonal of D:
    (1/m) Σ k(x̃, x̃) − 2 cᵀd + dᵀGd.
    """

    grid: solves.EigenGrid
    cross: Array
    constant: float
    c: Array
    G: Array
    n: int

    @classmethod
    def of(cls, first: Moments, second: Moments, group: Group) -> SplitStage1:
        """Learned from the moments `first`; its loss is measured on `second`, those of `group`."""
        grid, trends = solves.EigenGrid.of(first.mean("zz")), group.basis_x.trends
        Q, cross = grid.vectors, first.mean("zx")
        A = Q.T @ cross[:, trends:]
        c = arrays.namespace(A).sum(A * (Q.T @ second.mean("zx")[:, trends:]), axis=1)
        G = (A @ A.T) * (Q.T @ second.mean("zz") @ Q)
        return cls(grid, cross, group.mean_norm(), c, G, first.n)

    def __call__(self, reg: float) -> float:
        d = self.grid.shrink(reg)
        return float(self.constant - 2 * self.c @ d + d @ self.G @ d)


def split_stages(groups: list[Group], reg) -> tuple[list[FirstStage], float, float]:
    """Stage 1 for each group from the others (of two groups: for the second, from the first)."""
    moments = [g.moments for g in groups]
    if groups[0].outcome:
        rest = [merged(moments[:a] + moments[a + 1 :]) for a in range(len(groups))]
        stages = [SplitStage1.of(*three) for three in zip(rest, moments, groups, strict=True)]
    else:
        stages = [SplitStage1.of(moments[0], moments[1], groups[1])]
    share = [m.n for m in moments[-len(stages) :]]

    def loss(reg: float) -> float:
        return sum(s(reg) * n for s, n in zip(stages, share, strict=True)) / sum(share)

    values = stages[0].grid.values
    reg, value = choose(reg, loss, float(arrays.namespace(values).sum(values)))
    return [FirstStage.of(s.grid, s.cross, reg, s.n) for s in stages], reg, value


def choose(reg: float | None, loss: Callable, size: float) -> tuple[float, float]:
    """The regulariser given, or the heaviest of several minimisers of the loss; its loss."""
    if reg is not None:
        return float(reg), loss(reg)
    size = max(size, arrays.EPS)
    reg, value = minimise_log10(lambda r: loss(r * size), *DECADES, points=GRID, heaviest=True)
    return reg * size, value

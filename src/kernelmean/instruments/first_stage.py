"""Stage one: the embedding of regressors given instruments, and its regulariser."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ..core import Array, arrays, solves
from ..core.minimise import DECADES, SEARCH_ROWS, minimise_log10
from ..core.rows import put_together
from ..regression.leave_one_out import LeaveOneOut
from .groups import Group, merged

LOSS_COST = 4e8  # rows × rank² of one value of the stage-1 loss
FEWEST = 2_000  # rows of it, whatever the rank
COARSE = 500  # rows that bracket λ
GRID = 45  # of a regulariser's bracketing search: each value costs r² operations


class Learned(NamedTuple):
    """What stage 1 is learned from: ΘᵀΘ/n in its eigenbasis, ΘᵀΦ/n and n."""

    grid: solves.EigenGrid
    cross: Array
    n: int

    @classmethod
    def of(cls, groups: Iterable[Group]) -> Learned:
        """The rows of all groups."""
        moments = merged(group.moments for group in groups)
        return cls(solves.EigenGrid.of(moments.mean("zz")), moments.mean("zx"), moments.n)


class FirstStage:
    """z ↦ E[(t, φ)(X) | z] = Eᵀθ(z), with what the leverage of a row needs.

    E = (ΘᵀΘ/n + λI)⁻¹ΘᵀΦ/n; in `roots`, RᵀR = (ΘᵀΘ/n + λI)⁻¹/n. Lines, columns of Φ, may have a λ
    of their `own`; exogenous regressors tell θ → `exogenous`ᵀθ by themselves; `known` are columns
    that are functions of the instruments. Both are told by the `kinds` of a group.
    """

    def __init__(
        self, learned: Learned, reg: float, own: float | None, kinds, exogenous=None, taken=None
    ):
        grid, n, regs = learned.grid, learned.n, (reg,) if own is None else (own, reg)
        cross = grid.vectors.T @ learned.cross
        embeds = [grid.vectors @ (grid.shrink(r)[:, None] * cross) for r in regs]
        self.E, self.own, (self.lines, _, self.known) = embeds[-1], own, kinds
        if own is not None:
            self.E = self._either(self.lines, embeds[0], self.E)
        self.roots = [_root(grid, r, n) for r in regs]
        self.exogenous: list[Array] = []  # the same of what these regressors tell
        if exogenous is not None:
            second = (grid.vectors * grid.values) @ grid.vectors.T
            told = solves.EigenGrid.of(exogenous.T @ second @ exogenous)
            self.exogenous = [_root(told, r, n) @ exogenous.T for r in regs]
        self.taken = [] if taken is None else [_root(taken, r, n) for r in regs]  # by stage 2

    def rows(self, Phi, Theta, own: bool, wholly: bool = False) -> Array:
        """M: embeddings at the rows, (n, width); rows it was learned from are left out in turn.

        M_i = (F_i − h_iφ_i)/(1 − h_i), F_i = Eᵀθ_i; h_i as `hats` has it.
        """
        M = Theta @ self.E
        if own:
            hats = [hat[:, None] for hat in self.hats(Phi, Theta, wholly)]
            hat = hats[-1] if self.own is None else self._either(self.lines, hats[0], hats[-1])
            M -= hat * Phi
            M /= 1.0 - hat
        return self._either(self.known, Phi, M) if self.known else M

    def _either(self, columns: list[int], A, B) -> Array:
        """A in some columns of Φ, B in the others."""
        some = np.isin(np.arange(self.E.shape[1]), columns).astype(float)
        return arrays.namespace(A).where(arrays.like(some, A) > 0.5, A, B)

    def hats(self, Phi, Theta, wholly: bool = False) -> list[Array]:
        """h_i = θ_iᵀ(ΘᵀΘ/n + λI)⁻¹θ_i/n for each λ, less what exogenous regressors have of it.

        These are instruments, too: what is left out beyond the share of the others would draw M
        away from x (Ackerberg and Devereux 2009, improved jackknife). Stage 2 takes that share out
        again, as far as its `known` columns go: no more is kept than they have, by the same λ.
        `wholly` leaves it in.
        """
        xp, hats = arrays.namespace(Theta), []
        for i, root in enumerate(self.roots):
            half = solves.times_transposed(Theta, root, lower=False)
            hat = xp.vecdot(half, half)
            if self.exogenous and not wholly:
                half = Theta @ self.exogenous[i].T
                share = xp.vecdot(half, half)
                if self.taken:
                    half = some(Phi, self.known) @ self.taken[i].T
                    share = xp.minimum(share, xp.vecdot(half, half))
                hat = hat - share
            hats.append(xp.clip(hat, 0.0, 1.0 - 1e-10))
        return hats


def _root(grid: solves.EigenGrid, reg: float, n: int) -> Array:
    return solves.triangle((grid.vectors * (grid.shrink(reg) / n) ** 0.5).T)


def some(A, columns: slice | list[int]) -> Array:
    """Columns of an array."""
    return A[:, columns] if isinstance(columns, slice) else arrays.take(A, columns, axis=1)


def embed(groups: list[Group], reg: float | None, split: str) -> tuple[float, float, int]:
    """Give every group the stage 1 that embeds its rows; λ, its loss and the rows learned from."""
    teachers = [g for g in groups if g.teaches]
    if not groups[0].basis_z.features.rank_:
        reg = reg or 0.0  # least squares
    if split in ("loo", "samples"):
        stage, reg, loss = jackknife_stage(teachers, reg)
        stages = [stage] * len(groups)
        if split == "samples":
            stage.known, stage.taken = [], []
    else:
        stages, reg, loss = split_stages(groups, reg)
    for group, stage in zip(groups, itertools.cycle(stages), strict=False):
        group.stage = stage
    return reg, loss, sum(g.n for g in teachers)


def jackknife_stage(
    groups: list[Group], reg: float | None, own: float | None = None
) -> tuple[FirstStage, float, float]:
    """Stage 1 on all rows of the groups, with λ and its leave-one-out loss.

    The loss, Σ‖φ_i − F_i‖²/(1 − h_i)²/n, is of a few rows, its moments those of all.
    """
    learned, (lines, curves, _) = Learned.of(groups), groups[0].kinds
    grid, cross, n = learned
    few = int(min(SEARCH_ROWS, max(FEWEST, LOSS_COST / groups[0].basis_x.width ** 2)))
    Phi, Theta, *_ = put_together([g.few(few // len(groups)) for g in groups])

    def best(columns, reg: float | None) -> tuple[float, float]:
        told, C = some(Phi, columns), some(cross, columns)
        loss = LeaveOneOut(Theta, told, grid, n=n, C=grid.vectors.T @ C)
        reg, value = loss.best(coarse=COARSE) if reg is None else (float(reg), loss(reg))
        return reg, value * n / Theta.shape[0]  # a mean over the rows looked at

    own = best(lines, None)[0] if lines and reg is None else own
    reg, value = best(curves, reg)
    alone = groups[0].part.exogenous(groups[0].basis_z)
    taken = None
    if groups[0].kinds[2]:
        columns = some(Phi, groups[0].kinds[2])
        taken = solves.EigenGrid.of(columns.T @ columns / columns.shape[0])
    return FirstStage(learned, reg, own, groups[0].kinds, alone, taken), reg, value


def split_loss(learned: Learned, group: Group, columns) -> Callable[[float], float]:
    """The loss of an E[φ(X) | z] on the rows of a group, which it was not learned from.

    With ΘᵀΘ/n = Q diag(s) Qᵀ, E = A D Qᵀ, D = diag(d), d = 1/(s + λ): (1/m) Σ ‖φ(x̃) − Eθ(z̃)‖² is
    (1/m) Σ k(x̃, x̃) − 2 cᵀd + dᵀGd.
    """
    Q, own = learned.grid.vectors, group.moments
    A, other = (Q.T @ some(cross, columns) for cross in (learned.cross, own.mean("zx")))
    c = arrays.namespace(A).sum(A * other, axis=1)
    G = (A @ A.T) * (Q.T @ own.mean("zz") @ Q)
    return quadratic(group.mean_norm(columns), c, G, learned.grid.shrink)


def quadratic(constant: float, linear, square, at: Callable) -> Callable[[float], float]:
    """The regulariser's loss, constant − 2 linearᵀb + bᵀ square b, b what `at` gives for it."""

    def loss(reg: float) -> float:
        b = at(reg)
        return float(constant - 2 * linear @ b + b @ square @ b)

    return loss


def split_stages(groups: list[Group], reg) -> tuple[list, float, float]:
    """Stage 1 for each group from the others (of two groups: for the second, from the first)."""
    kinds = lines, curves, _ = groups[0].kinds
    if groups[0].outcome:
        firsts = [Learned.of(other for other in groups if other is not own) for own in groups]
    else:
        firsts, groups = [Learned.of(groups[:1])], groups[1:]
    n, spread = sum(group.n for group in groups), firsts[0].grid.values

    def best(columns, reg: float | None) -> tuple[float, float]:
        pairs = zip(firsts, groups, strict=True)
        losses = [(split_loss(learned, group, columns), group.n) for learned, group in pairs]
        size = float(arrays.namespace(spread).sum(spread))
        return choose(reg, lambda r: sum(loss(r) * m for loss, m in losses) / n, size)

    own = best(lines, None)[0] if lines and reg is None else None
    reg, value = best(curves, reg)
    return [FirstStage(learned, reg, own, kinds) for learned in firsts], reg, value


def choose(reg: float | None, loss: Callable, size: float) -> tuple[float, float]:
    """The regulariser given, or the heaviest of several minimisers of the loss; its loss."""
    if reg is not None:
        return float(reg), loss(reg)
    size = max(size, arrays.EPS)
    return minimise_log10(loss, *DECADES, points=GRID, heaviest=True, size=size)

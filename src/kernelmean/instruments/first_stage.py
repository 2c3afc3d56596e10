"""Stage one: the embedding of regressors given instruments, and its regulariser."""

import itertools
from collections.abc import Callable, Sequence

from ..core import Array, Moments, arrays, solves
from ..core.minimise import DECADES, SEARCH_ROWS, minimise_log10
from ..core.rows import put_together
from ..regression.leave_one_out import LeaveOneOut
from .groups import Group, merged

LOSS_COST = 4e8  # rows × rank² of one value of the stage-1 loss
FEWEST = 2_000  # rows of it, whatever the rank
COARSE = 500  # rows that bracket λ
GRID = 45  # of a regulariser's bracketing search: each value costs r² operations


class FirstStage:
    """z ↦ E[(t, φ)(X) | z] = Eᵀθ(z), with what the leverage of a row needs.

    E = (ΘᵀΘ/n + λI)⁻¹ΘᵀΦ/n; in `roots`, RᵀR = (ΘᵀΘ/n + λI)⁻¹/n. Lines, columns of Φ, may have a λ
    of their `own`; exogenous regressors tell θ → `exogenous`ᵀθ by themselves; `known` are columns
    that are functions of the instruments.
    """

    def __init__(
        self,
        grid: solves.EigenGrid,
        cross,
        n: int,
        reg: float,
        lines: list[int],
        own: float | None,
        exogenous=None,
        known: Sequence[int] = (),
    ):
        regs = (reg,) if own is None else (own, reg)
        embeds = [grid.vectors @ (grid.shrink(r)[:, None] * (grid.vectors.T @ cross)) for r in regs]
        self.E, self.lines, self.own, self.known = embeds[-1], lines, own, list(known)
        if own is not None:
            self.E[:, lines] = embeds[0][:, lines]
        self.roots = [_root(grid, r, n) for r in regs]
        self.exogenous: list[Array] = []  # the same of what these regressors tell
        if exogenous is not None:
            second = (grid.vectors * grid.values) @ grid.vectors.T
            told = solves.EigenGrid.of(exogenous.T @ second @ exogenous)
            self.exogenous = [_root(told, r, n) @ exogenous.T for r in regs]

    def rows(self, Phi, Theta, own: bool, wholly: bool = False) -> Array:
        """M: embeddings at the rows, (n, width); rows it was learned from are left out in turn.

        M_i = (F_i − h_iφ_i)/(1 − h_i), F_i = Eᵀθ_i; h_i as `hats` has it.
        """
        M = Theta @ self.E
        if own:
            hats = [hat[:, None] for hat in self.hats(Theta, wholly)]
            hat = hats[-1]
            if self.own is not None:
                hat = hat * arrays.namespace(M).ones_like(M)
                hat[:, self.lines] = hats[0]
            M -= hat * Phi
            M /= 1.0 - hat
        if self.known:
            M[:, self.known] = Phi[:, self.known]
        return M

    def hats(self, Theta, wholly: bool = False) -> list[Array]:
        """h_i = θ_iᵀ(ΘᵀΘ/n + λI)⁻¹θ_i/n for each λ, less what exogenous regressors have of it.

        These are instruments, too: what is left out beyond the share of the others would draw M
        away from x (Ackerberg and Devereux 2009, improved jackknife). `wholly` leaves it in.
        """
        xp, hats = arrays.namespace(Theta), []
        for i, root in enumerate(self.roots):
            half = solves.times_transposed(Theta, root, lower=False)
            hat = xp.vecdot(half, half)
            if self.exogenous and not wholly:
                half = Theta @ self.exogenous[i].T
                hat = hat - xp.vecdot(half, half)
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
    if all(g.own for g in teachers) and split != "share":
        stage, reg, loss = jackknife_stage(teachers, reg)
        stages = [stage] * len(groups)
        if split == "samples":
            stage.known = []
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
    moments, basis = merged(group.moments for group in groups), groups[0].basis_x
    grid, cross, n = solves.EigenGrid.of(moments.mean("zz")), moments.mean("zx"), moments.n
    few = int(min(SEARCH_ROWS, max(FEWEST, LOSS_COST / basis.width**2)))
    Phi, Theta, *_ = put_together([g.few(few // len(groups)) for g in groups])

    def best(columns, reg: float | None) -> tuple[float, float]:
        told, C = some(Phi, columns), some(cross, columns)
        loss = LeaveOneOut(Theta, told, grid, n=n, C=grid.vectors.T @ C)
        reg, value = loss.best(coarse=COARSE) if reg is None else (float(reg), loss(reg))
        return reg, value * n / Theta.shape[0]  # a mean over the rows looked at

    lines, curves, known = groups[0].kinds
    own = best(lines, None)[0] if lines and reg is None else own
    reg, value = best(curves, reg)
    alone = groups[0].part.exogenous(groups[0].basis_z)
    return FirstStage(grid, cross, n, reg, lines, own, alone, known), reg, value


def split_loss(
    grid: solves.EigenGrid, first: Moments, second: Moments, group: Group, columns
) -> Callable[[float], float]:
    """The loss of an E[φ(X) | z] learned from `first` on other rows, a group of moments `second`.

    With ΘᵀΘ/n = Q diag(s) Qᵀ, E = A D Qᵀ, D = diag(d), d = 1/(s + λ): (1/m) Σ ‖φ(x̃) − Eθ(z̃)‖² is
    (1/m) Σ k(x̃, x̃) − 2 cᵀd + dᵀGd.
    """
    Q = grid.vectors
    A, other = (Q.T @ some(moments.mean("zx"), columns) for moments in (first, second))
    c = arrays.namespace(A).sum(A * other, axis=1)
    G = (A @ A.T) * (Q.T @ second.mean("zz") @ Q)
    return quadratic(group.mean_norm(columns), c, G, grid.shrink)


def quadratic(constant: float, linear, square, at: Callable) -> Callable[[float], float]:
    """The regulariser's loss, constant − 2 linearᵀb + bᵀ square b, b what `at` gives for it."""

    def loss(reg: float) -> float:
        b = at(reg)
        return float(constant - 2 * linear @ b + b @ square @ b)

    return loss


def split_stages(groups: list[Group], reg) -> tuple[list, float, float]:
    """Stage 1 for each group from the others (of two groups: for the second, from the first)."""
    moments, (lines, curves, known) = [g.moments for g in groups], groups[0].kinds
    if groups[0].outcome:
        firsts = [merged(moments[:a] + moments[a + 1 :]) for a in range(len(groups))]
    else:
        firsts, moments, groups = moments[:1], moments[1:], groups[1:]
    grids = [solves.EigenGrid.of(first.mean("zz")) for first in firsts]
    sides = list(zip(grids, firsts, moments, groups, strict=True))
    n = sum(second.n for second in moments)

    def best(columns, reg: float | None) -> tuple[float, float]:
        losses = [(split_loss(*side, columns), side[2].n) for side in sides]
        size = float(arrays.namespace(grids[0].values).sum(grids[0].values))
        return choose(reg, lambda r: sum(loss(r) * m for loss, m in losses) / n, size)

    own = best(lines, None)[0] if lines and reg is None else None
    reg, value = best(curves, reg)
    told = reg, lines, own, None, known
    stages = [FirstStage(grid, one.mean("zx"), one.n, *told) for grid, one, *_ in sides]
    return stages, reg, value


def choose(reg: float | None, loss: Callable, size: float) -> tuple[float, float]:
    """The regulariser given, or the heaviest of several minimisers of the loss; its loss."""
    if reg is not None:
        return float(reg), loss(reg)
    size = max(size, arrays.EPS)
    return minimise_log10(loss, *DECADES, points=GRID, heaviest=True, size=size)

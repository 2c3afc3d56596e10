"""Search for the shape of two kernels: one lengthscale scale per column, by gradient descent.

A `Scaled` map holds landmarks fixed while the kernel's lengthscales move, so that the coordinates
Φ are smooth in the scales; `pullback` carries a gradient with respect to Φ back to them. The search
alternates between the two stages of instrumental-variable regression:

1. the scales of the instruments and λ descend on the leave-one-out loss of stage 1,
2. the scales of several regressors and ξ descend on the causal leave-one-out loss of stage 2.

Stage 1 is a regression, which prediction errors judge fairly. The causal loss is not such a judge
of anything in stage 1: under confounding it is lowest where stage 1 reproduces the regressors. In
stage 2 it is trusted with one column beside another: a single scale, the trend and ξ are chosen by
`judges`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.minimise import descend
from ..core.moments import evenly
from ..core.progress import Verbose, track
from ..core.solves import kept, small_inverse
from ..kernels import Kernel
from ..regression.lengthscales import (
    REG_DECADES,
    ROWS_PER_SCALE,
    SCALE_DECADES,
    Scaled,
    stage1_loss,
)
from .basis import Polynomial, trend_penalty
from .choice import Pair

START = -4.0  # log10 of λ and ξ
ROWS = (400, 1000)  # of the rounds: each chooses landmarks afresh
STEPS = 25  # of L-BFGS in a descent


@dataclass(frozen=True)
class Side:
    """What is asked for along (X, C), or along (Z, C)."""

    kernel: Kernel | None  # at the lengthscales that the search starts from; None: all is straight
    plain: Polynomial  # what stands beside it, of degree 0
    tuned: bool  # whether lengthscales are searched
    reg: float | None  # of the stage that they are searched by: ξ for (X, C), λ for (Z, C)

    def at(self, scales: np.ndarray) -> Any:
        """The kernel at these lengthscales, where they are searched."""
        return self.kernel.scaled(scales) if self.kernel and self.tuned else self.kernel


def seek_scales(
    sides: Sequence[Side], trend: int | None, data: Sequence[np.ndarray], rows: Sequence[int],
    verbose: Verbose, blind: bool = True,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Scales of the lengthscales of both kernels, in rounds on so many of the rows (X, Z, y).

    Columns that have no kernel get the scale ∞.
    """
    at: Pair = (None, None)
    limits = [*(min(limit, len(data[2]) // 2) for limit in rows[:-1]), rows[-1]]
    for limit in track(limits, description="Lengthscales", verbose=verbose):
        *points, target = (part[evenly(len(part), limit)] for part in data)
        x, z = (Moving.of(*side, trend) for side in zip(sides, points, at, strict=True))
        y = (target - target.mean()) / (target.std() or 1.0)
        at = searched(x, z, y, sides[0].plain.width - 1, blind)
    scales = tuple(side.plain.scales for side in sides)
    for own, u, side in zip(scales, at, sides, strict=True):
        own[side.plain.bent] = 10.0 ** u[:-1]
    return scales


@dataclass
class Moving:
    """The kernel of one side, whose scales move, beside columns that have none.

    Parameters
    ----------
    scaled : Scaled, optional
        None where every column is straight.
    beside : array of shape (n, p)
        The trend: columns before the kernel's coordinates.
    free : bool
        Whether scales move, or the regulariser of the stage only.
    reg : float, optional
        A regulariser that does not move.
    u : array, optional
        log10 of scales and regulariser, from which to go on. Otherwise √d times the lengthscale of
        every column: k at a typical pair is then that of one column.
    """

    scaled: Scaled | None
    beside: np.ndarray
    free: bool = True
    reg: float | None = None
    u: Any = None

    @classmethod
    def of(cls, side: Any, points: np.ndarray, u: np.ndarray | None, trend: int | None) -> Moving:
        """The columns of points that bend, beside a trend in all of them."""
        bent, kernel = side.plain.bent, side.kernel
        scaled = kernel and Scaled(kernel.on(bent, points.shape[1]), points[:, bent])
        return cls(scaled, side.plain.with_degree(trend)(points), side.tuned, side.reg, u)

    def __post_init__(self) -> None:
        d = self.scaled.points.shape[1] if self.scaled else 0
        middle, reach = (0.5 * np.log10(max(d, 1)), SCALE_DECADES) if self.free else (0.0, 0.0)
        of_reg, log_reg = REG_DECADES, START
        if self.reg is not None:
            log_reg = float(np.log10(max(self.reg, 10.0 ** REG_DECADES[0])))
            of_reg = log_reg, log_reg
        self.bounds = [(middle - reach, middle + reach)] * d + [of_reg]
        if self.u is None:
            self.u = np.append(np.full(d, middle), log_reg)

    def columns(self, u: np.ndarray) -> np.ndarray:
        """The trend and the kernel's coordinates."""
        return np.hstack([self.beside, self.curves(u)])

    def curves(self, u: np.ndarray) -> np.ndarray:
        """The kernel's coordinates."""
        return self.scaled(u[:-1]) if self.scaled else self.beside[:, :0]

    def slope(self, on_columns: np.ndarray, on_reg: float, u: np.ndarray) -> np.ndarray:
        """In u, of a loss with these gradients with respect to the columns and the regulariser."""
        on_Phi = on_columns[:, self.beside.shape[1] :]
        moved = self.scaled.pullback(on_Phi) if self.scaled else np.empty(0)
        return np.append(moved, on_reg * 10.0 ** u[-1] * np.log(10.0))

    def descend(self, loss: Callable) -> None:
        """L-BFGS on the logarithm of the loss; with few rows the scales keep in step."""
        in_step = len(self.beside) < ROWS_PER_SCALE * (len(self.u) - 1)

        def log_loss(u) -> Any:
            value, slope = loss(u)
            if in_step:
                slope[:-1] = slope[:-1].mean()
            value = max(value, 1e-300)
            return np.log(value), slope / value

        self.u = descend(log_loss, self.u, self.bounds, STEPS, 1e-6)


def searched(x: Moving, z: Moving, y: np.ndarray, lines: int = 0, blind: bool = True) -> Pair:
    """Scales of the instruments, then of the regressors, as far as they are free.

    Stage 1 is judged by the kernel's coordinates of regressors, and by `lines` columns of their
    trend after the constant. Where only exogenous ones bend nothing is `blind`.
    """
    for side in (x, z):
        if side.scaled:
            side.scaled.choose(side.u[:-1])
    z.descend(first_loss(x, z, lines))
    if x.free and len(x.u) > 2:  # one scale is left to the grid
        x.descend(second_loss(x, z, y, blind))
    return x.u, z.u


def first_loss(x: Moving, z: Moving, lines: int = 0) -> Callable:
    """Of stage 1 with its slope, by the scales of instruments and λ."""
    Phi = np.hstack([x.beside[:, 1 : 1 + lines], x.curves(x.u)])

    def loss(u):
        value, on_Theta, on_reg = stage1_loss(z.columns(u), Phi, 10.0 ** u[-1])
        return value, z.slope(on_Theta, on_reg, u)

    return loss


def second_loss(x: Moving, z: Moving, y: np.ndarray, blind: bool = True) -> Callable:
    """Of stage 2 with its slope, by the scales of regressors and ξ: causal, or else projected."""
    jack, p = Jackknife(z.columns(z.u), 10.0 ** z.u[-1]), x.beside.shape[1]

    def loss(u):
        Psi = x.columns(u)
        penalty = np.full(Psi.shape[1], 10.0 ** u[-1])
        penalty[:p] = trend_penalty(p, len(Psi))
        value, on_Psi, on_each = causal_loss(Psi, y, penalty, jack, blind)
        return value, x.slope(on_Psi, on_each[p:].sum(), u)

    return loss


class Jackknife:
    """M = J Φ: leave-one-out embeddings of any columns, for instruments and λ held fixed."""

    def __init__(self, Theta: np.ndarray, reg: float):
        n = Theta.shape[0]
        self.Theta = Theta
        self.NT = small_inverse(Theta.T @ Theta / n, reg) @ Theta.T / n  # (ΘᵀΘ/n + λI)⁻¹Θᵀ/n
        self.hat = (Theta * self.NT.T).sum(1)[:, None]

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        return (self.Theta @ (self.NT @ columns) - self.hat * columns) / kept(self.hat)

    def adjoint(self, columns: np.ndarray) -> np.ndarray:
        """Jᵀ of the columns."""
        scaled = columns / kept(self.hat)
        return self.Theta @ (self.NT @ scaled) - self.hat * scaled


def causal_loss(Psi, y, penalty: np.ndarray, jack: Jackknife, blind: bool = True):
    """(1/n) Σ(y_i − h⁻ⁱ(x_i))² with its gradients with respect to Ψ and each column's penalty.

    With M = JΨ, N = (MᵀM/n + diag(penalty))⁻¹ and b = N Mᵀy/n:
    e_i = y_i − ψ_iᵀb + (ψ_iᵀNM_i/n) r_i, r_i = (y_i − M_iᵀb)/(1 − M_iᵀNM_i/n).
    Unless it is `blind`, of M_i for ψ_i, where e_i is r_i: the projected loss.
    """
    n, M = len(Psi), jack(Psi)
    Psi = Psi if blind else M
    N = small_inverse(M.T @ M / n + np.diag(penalty), 0.0)
    v = M.T @ y / n
    b = N @ v
    MN, PN = M @ N, Psi @ N
    left = kept((MN * M).sum(1) / n)
    r = (y - M @ b) / left
    pull = (PN * M).sum(1) / n
    e = y - Psi @ b + pull * r

    on_e = 2 * e / n
    on_s = on_e * r / n  # ψᵀNM
    on_r0 = on_e * pull / left  # y − Mb
    on_q = on_r0 * r / n  # MᵀNM
    on_b = -(Psi.T @ on_e) - M.T @ on_r0
    on_N = (on_s[:, None] * Psi + on_q[:, None] * M).T @ M + np.outer(on_b, v)
    on_A = -N @ (0.5 * (on_N + on_N.T)) @ N
    on_Psi = on_s[:, None] * MN - np.outer(on_e, b)
    on_M = on_s[:, None] * PN + 2 * on_q[:, None] * MN - np.outer(on_r0, b)
    on_M += np.outer(y, N @ on_b) / n + (2 / n) * (M @ on_A)
    if not blind:
        on_Psi, on_M = 0.0, on_M + on_Psi
    return float(e @ e) / n, on_Psi + jack.adjoint(on_M), on_A.diagonal()

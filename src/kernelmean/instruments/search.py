"""Search for the shape of two kernels: one lengthscale scale per column, by gradient descent.

A `Scaled` map holds landmarks fixed while the kernel's lengthscales move, so that the coordinates
Φ are smooth in the scales; `pullback` carries a gradient with respect to Φ back to them. `Search`
alternates between the two stages of instrumental-variable regression:

1. the scales of the instruments and λ descend on the leave-one-out loss of stage 1,
2. the scales of several regressors and ξ descend on the causal leave-one-out loss of stage 2.

Stage 1 is a regression, which prediction errors judge fairly. The causal loss is not such a judge
of anything in stage 1: under confounding it is lowest where stage 1 reproduces the regressors. In
stage 2 it is trusted with one column beside another: a single scale, the trend and ξ are chosen by
`judges`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.minimise import descend
from ..core.moments import evenly
from ..core.progress import Verbose, track
from ..core.solves import kept, small_inverse
from ..regression.lengthscales import (
    REG_DECADES,
    SCALE_DECADES,
    Scaled,
    stage1_loss,
    tie_of,
    tied,
)
from .basis import Polynomial, trend_penalty

START = -4.0  # log10 of λ and ξ
ROWS = (400, 1000)  # of the rounds: each chooses landmarks afresh
STEPS = 25  # of L-BFGS in a descent

Pair = tuple[Any, Any]  # of regressors (X, C) and of instruments (Z, C)


def seek_scales(
    kernels: Pair,
    data: tuple[np.ndarray, np.ndarray, np.ndarray],
    beside: tuple[Polynomial, Polynomial],
    free: tuple[bool, bool],
    regs: Pair,
    rows: Sequence[int],
    verbose: Verbose,
) -> tuple[np.ndarray, np.ndarray]:
    """Scales of the lengthscales of both kernels, in rounds on so many of the rows (X, Z, y).

    `beside` are the polynomials beside the kernels; `free` says which scales move. Columns that
    have no kernel get the scale ∞.
    """
    at: Pair = (None, None)
    limits = [*(min(limit, len(data[2]) // 2) for limit in rows[:-1]), rows[-1]]
    for limit in track(limits, description="Lengthscales", verbose=verbose):
        X, Z, target = (part[evenly(len(part), limit)] for part in data)
        at = Search(
            _scaled(kernels[0], X, beside[0]),
            _scaled(kernels[1], Z, beside[1]),
            beside[0](X),
            beside[1](Z),
            (target - target.mean()) / (target.std() or 1.0),
            free,
            regs,
            at,
            beside[0].once,
        ).found()
    found = beside[0].scales, beside[1].scales
    for scales, u, polynomial in zip(found, at, beside, strict=True):
        scales[polynomial.bent] = 10.0 ** u[:-1]
    return found


def _scaled(kernel, points: np.ndarray, beside: Polynomial) -> Scaled:
    """Coordinates of the columns that have a kernel."""
    return Scaled(kernel.on(beside.bent, points.shape[1]), points[:, beside.bent])


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


def causal_loss(Psi, y, penalty: np.ndarray, jack: Jackknife):
    """(1/n) Σ(y_i − h⁻ⁱ(x_i))² with its gradients with respect to Ψ and each column's penalty.

    With M = JΨ, N = (MᵀM/n + diag(penalty))⁻¹ and b = N Mᵀy/n:
    e_i = y_i − ψ_iᵀb + (ψ_iᵀNM_i/n) r_i, r_i = (y_i − M_iᵀb)/(1 − M_iᵀNM_i/n).
    """
    n, M = len(Psi), jack(Psi)
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
    return float(e @ e) / n, on_Psi + jack.adjoint(on_M), on_A.diagonal()


@dataclass
class Search:
    """Scales of regressors and instruments, by descent on the loss of either stage.

    Parameters
    ----------
    regressors, instruments : Scaled
    T, U : arrays of shape (n, p), (n, q)
        The trends: columns beside the kernel's coordinates, in stage 2 and in stage 1.
    y : array of shape (n,)
    free : pair of bool
        Whether scales of regressors and of instruments move, or the regularisers only.
    regs : pair of float, optional
        ξ and λ that do not move.
    at : pair of arrays, optional
        log10 of scales and regularisers, from which to go on.
    lines : int
        How many of T, after the constant, stage 1 is judged by beside the kernel's coordinates.
    """

    regressors: Scaled
    instruments: Scaled
    T: np.ndarray
    U: np.ndarray
    y: np.ndarray
    free: tuple[bool, bool] = (True, True)
    regs: Pair = (None, None)
    at: Pair = (None, None)
    lines: int = 0

    def found(self) -> tuple[np.ndarray, np.ndarray]:
        """Scales of the instruments, then of the regressors, as far as they are free."""
        sides = zip((self.regressors, self.instruments), self.free, self.regs, self.at, strict=True)
        ux, uz = (_start(*side) if at is None else at for *side, at in sides)
        self.regressors.choose(ux[:-1])
        self.instruments.choose(uz[:-1])
        uz = self._descend(self._first(ux), uz, 1)
        if self.free[0] and len(ux) > 2:  # one scale is left to the grid
            ux = self._descend(self._second(uz), ux, 0)
        return ux, uz

    def _first(self, ux: np.ndarray) -> Callable:
        lines, q = self.T[:, 1 : 1 + self.lines], self.U.shape[1]
        Phi = np.hstack([lines, self.regressors(ux[:-1])])

        def loss(u):
            Theta = np.hstack([self.U, self.instruments(u[:-1])])
            value, on_Theta, on_reg = stage1_loss(Theta, Phi, 10.0 ** u[-1])
            return value, self._gradient(self.instruments, on_Theta[:, q:], on_reg, u)

        return loss

    def _second(self, uz: np.ndarray) -> Callable:
        Theta = np.hstack([self.U, self.instruments(uz[:-1])])
        jack, p = Jackknife(Theta, 10.0 ** uz[-1]), self.T.shape[1]

        def loss(u):
            Psi = np.hstack([self.T, self.regressors(u[:-1])])
            penalty = np.full(Psi.shape[1], 10.0 ** u[-1])
            penalty[:p] = trend_penalty(p, len(Psi))
            value, on_Psi, on_each = causal_loss(Psi, self.y, penalty, jack)
            return value, self._gradient(self.regressors, on_Psi[:, p:], on_each[p:].sum(), u)

        return loss

    @staticmethod
    def _gradient(scaled: Scaled, on_Phi, on_reg: float, u) -> np.ndarray:
        return np.append(scaled.pullback(on_Phi), on_reg * 10.0 ** u[-1] * np.log(10.0))

    def _descend(self, loss: Callable, start: np.ndarray, side: int) -> np.ndarray:
        """L-BFGS on the logarithm of the loss; with few rows the scales keep in step."""
        d = len(start) - 1
        tie = tie_of(d, len(self.y), 0.0)

        def log_loss(u) -> Any:
            value, slope = loss(u)
            _, scales = tied(u[:-1], slope[:-1], tie)
            value = max(value, 1e-300)
            return np.log(value), np.append(scales, slope[-1]) / value

        return descend(log_loss, start, _bounds(d, self.free[side], self.regs[side]), STEPS, 1e-6)


def _start(scaled: Scaled, free: bool, reg: float | None) -> np.ndarray:
    """√d times the lengthscale of every column: k at a typical pair is then that of one column."""
    d = scaled.points.shape[1]
    return np.append(np.full(d, 0.5 * np.log10(d) if free else 0.0), _log_reg(reg))


def _bounds(d: int, free: bool, reg: float | None) -> list[tuple[float, float]]:
    """Of the scales, around where they start, and of the regulariser."""
    middle, reach = (0.5 * np.log10(d), SCALE_DECADES) if free else (0.0, 0.0)
    of_reg = REG_DECADES if reg is None else (_log_reg(reg), _log_reg(reg))
    return [(middle - reach, middle + reach)] * d + [of_reg]


def _log_reg(reg: float | None) -> float:
    return START if reg is None else float(np.log10(max(reg, 10.0 ** REG_DECADES[0])))

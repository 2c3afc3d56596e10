"""Search for regularisers and lengthscale scales that minimise a closed-form loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from . import linalg
from ._validation import Array

DECADES = (-10.0, 1.0)  # range of log10 reg, relative to the kernel's mean diagonal
SCALES = (-1.0, 1.0)  # range of log10 scale of a lengthscale
POINTS = 23  # of the grid that brackets the minimum


def minimise_log10(
    loss: Callable[[float], float],
    low: float,
    high: float,
    points: int = POINTS,
    heaviest: bool = False,
) -> tuple[float, float]:
    """Minimise `loss(10**u)` over u in [low, high]: a grid, then Brent's method in its best cell.

    Parameters
    ----------
    heaviest : bool
        Of several local minima take the one with the largest argument, provided it has 95% of
        the improvement that the lowest has over the heaviest regulariser. A loss measured on
        few rows is nearly flat, and bumpy, where there is too little regularisation.

    Returns
    -------
    (argument, value) : the minimiser (not its logarithm) and the loss there
    """
    grid = np.linspace(low, high, points)
    values = np.array([_finite(loss(10.0**u)) for u in grid])
    best = _heaviest_minimum(values) if heaviest else int(np.argmin(values))
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, points - 1)]
    found = minimize_scalar(
        lambda u: _finite(loss(10.0**u)), bounds=bracket, method="bounded", options={"xatol": 1e-4}
    )
    if found.fun < values[best]:
        return float(10.0**found.x), float(found.fun)
    return float(10.0 ** grid[best]), float(values[best])


def _heaviest_minimum(values: np.ndarray) -> int:
    """Index of the last local minimum that is good enough."""
    enough = values[-1] - 0.95 * (values[-1] - values.min())
    padded = np.concatenate([[np.inf], values, [np.inf]])
    local = (values <= padded[:-2]) & (values <= padded[2:]) & (values <= enough)
    return int(np.flatnonzero(local)[-1])


def _finite(value) -> float:
    value = float(value)
    return value if np.isfinite(value) else np.inf


@dataclass(frozen=True)
class LeaveOneOut:
    """Vector-valued leave-one-out loss of a ridge regression of Ψ on Φ, for every λ at once.

    L(λ) = (1/n) Σ_i ‖[(I − H)Ψ]_i‖² / (1 − H_ii)², H = Φ(ΦᵀΦ + nλI)⁻¹Φᵀ (nλ held fixed while a
    row is out). With ΦᵀΦ/n = Q diag(s) Qᵀ and P = ΦQ, one value costs n r² operations.
    """

    grid: linalg.EigenGrid
    P: Array  # rows in the eigenbasis, (n, r)
    cross: Array  # p_iᵀ (PᵀΨ/n) ψ_i before shrinking, elementwise: P * (Ψ Cᵀ), (n, r)
    inner: Array  # C Cᵀ with C = PᵀΨ/n, (r, r)
    norms: Array  # ‖ψ_i‖², (n,)

    @classmethod
    def of(cls, Phi, Psi, grid: linalg.EigenGrid) -> LeaveOneOut:
        P = Phi @ grid.vectors
        C = P.T @ Psi / P.shape[0]
        return cls(grid, P, P * (Psi @ C.T), C @ C.T, (Psi * Psi).sum(-1))

    def __call__(self, reg: float) -> float:
        xp = linalg.namespace(self.P)
        shrink, n = self.grid.shrink(reg), self.P.shape[0]
        fitted = (self.P * shrink[None, :]) @ self.inner
        fitted *= self.P
        squared = self.norms - 2 * (self.cross @ shrink) + fitted @ shrink
        left = 1.0 - (self.P * self.P) @ shrink / n
        # a row that fits only itself says nothing about others: its leverage must stay below one
        left = xp.clip(left, 1e-10, None)
        return float(xp.mean(xp.clip(squared, 0.0, None) / left**2))

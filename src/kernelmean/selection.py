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
        if d is None:
            d = (Psi * Psi).sum(-1) * 0.0 + 1.0 / P.shape[0]
        C = P.T @ (d[:, None] * Psi)
        return cls(grid, P, P * (Psi @ C.T), C @ C.T, (Psi * Psi).sum(-1), d)

    def __call__(self, reg: float) -> float:
        xp = linalg.namespace(self.P)
        shrink = self.grid.shrink(reg)
        fitted = (self.P * shrink[None, :]) @ self.inner
        fitted *= self.P
        squared = self.norms - 2 * (self.cross @ shrink) + fitted @ shrink
        left = 1.0 - self.d * ((self.P * self.P) @ shrink)
        # a row that fits only itself says nothing about others: its leverage must stay below one
        left = xp.clip(left, 1e-10, None)
        return float(xp.sum(self.d * xp.clip(squared, 0.0, None) / left**2))

    def best(self) -> tuple[float, float]:
        """The minimising λ, relative to the trace of ΦᵀDΦ within `DECADES`, and its loss."""
        size = float(linalg.namespace(self.P).sum(self.grid.values))
        reg, loss = minimise_log10(lambda r: self(r * size), *DECADES)
        return reg * size, loss

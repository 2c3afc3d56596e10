"""How far the instruments move a regressor: leave-one-out R² and the linear F statistic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..kernels import Kernel, Linear
from ..regression.conditional import ConditionalEmbedding

ROWS = 10_000  # the diagnostics look at no more rows than this


@dataclass(frozen=True)
class FirstStage:
    """A regressor x given the instruments Z and the exogenous columns C.

    Attributes
    ----------
    x, fitted : array of shape (n,)
        The regressor, and E[x | Z, C] by kernel ridge regression.
    r2 : float
        Share of the variance of x predicted from Z and C, each row left out in turn.
    r2_exogenous : float
        The same from C alone; 0 without exogenous columns.
    f : float
        F statistic of Z in the linear regression of x on 1, Z and C.
    """

    x: np.ndarray
    fitted: np.ndarray
    r2: float
    r2_exogenous: float
    f: float

    @classmethod
    def of(
        cls, x: np.ndarray, Z: np.ndarray, C: np.ndarray, kernel: str | Kernel = "gaussian"
    ) -> FirstStage:
        """Measure, on a sample of the rows where there are very many.

        Parameters
        ----------
        x : array of shape (n,)
        Z : array of shape (n, d_z)
        C : array of shape (n, d_c)
            With no columns where there is no exogenous column.
        kernel : str or Kernel
        """
        if len(x) > ROWS:
            rows = np.random.default_rng(0).choice(len(x), ROWS, replace=False)
            x, Z, C = x[rows], Z[rows], C[rows]
        r2, fitted = _ridge(np.hstack([Z, C]), x, kernel)
        r2_exogenous = _ridge(C, x, kernel)[0] if C.shape[1] else 0.0
        return cls(x, fitted, r2, r2_exogenous, _f_statistic(x, Z, C))


def _ridge(inputs: np.ndarray, x: np.ndarray, kernel: str | Kernel) -> tuple[float, np.ndarray]:
    mean, variance = x.mean(), x.var()
    model = ConditionalEmbedding(kernel, Linear()).fit(inputs, x - mean)
    return max(0.0, 1 - model.loo_score_ / variance), model.predict(inputs) + mean


def _f_statistic(x: np.ndarray, Z: np.ndarray, C: np.ndarray) -> float:
    base = np.hstack([np.ones((len(x), 1)), C])
    small, rank_small = _residual(x, base)
    large, rank_large = _residual(x, np.hstack([base, Z]))
    if rank_large == rank_small or rank_large >= len(x):
        return 0.0
    return float((small - large) / (rank_large - rank_small) / (large / (len(x) - rank_large)))


def _residual(x: np.ndarray, columns: np.ndarray) -> tuple[float, int]:
    scaled = columns / np.linalg.norm(columns, axis=0)
    coef, _, rank, _ = np.linalg.lstsq(scaled, x, rcond=None)
    return float(np.sum((x - scaled @ coef) ** 2)), int(rank)

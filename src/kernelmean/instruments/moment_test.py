"""Whether residuals are orthogonal to the instruments."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from ..core import arrays, solves
from ..core.moments import Moments


def moment_test(moments: Moments, reg: float) -> float:
    """p-value of E[y − h(X) | Z] = 0 for the h that was fitted.

    With residuals r_i and instruments whitened by stage 1, w_i = (ΘᵀΘ/n + λI)^{-1/2}θ_i, the
    statistic ‖n^{-1/2} Σ r_iw_i‖² is under the hypothesis a sum of χ²₁ weighted by the eigenvalues
    of V = (1/n) Σ r_i²w_iw_iᵀ. A multiple of χ² with the same mean tr V and variance 2 tr V² gives
    the p-value. The fit has minimised such moments on the same rows, which makes the test
    conservative, except where regularisation has biased the fit: that it sees. `moments` are
    those of `residual_sums`: of θ_i, as "z", and of r_iθ_i, as "r".
    """
    grid = solves.EigenGrid.of(moments.mean("zz"))
    floor = max(reg, 1e-6 * float(arrays.namespace(grid.values).sum(grid.values)))
    whiten = grid.vectors * grid.shrink(floor) ** 0.5
    g = arrays.to_numpy(moments.sums["r"] @ whiten)
    V = arrays.to_numpy(whiten.T @ moments.mean("rr") @ whiten)
    return weighted_chi2(float(g @ g) / moments.n, V)


def weighted_chi2(statistic: float, V: np.ndarray) -> float:
    """P(zᵀz > statistic) for z ~ N(0, V), by the scaled χ² with the same mean and variance."""
    mean, spread = float(np.trace(V)), 2 * float((V * V).sum())
    if spread == 0:
        return 1.0
    return float(chi2.sf(statistic * 2 * mean / spread, 2 * mean**2 / spread))

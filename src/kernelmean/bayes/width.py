"""The bandwidth of posteriors by weighted pairs: the score of pairs left out, under the prior."""

from __future__ import annotations

import numpy as np

from ..core import arrays
from ..core.minimise import minimise_log10
from ..core.moments import evenly
from ..densities.bandwidth import FIRST, spread_ties, with_bandwidth
from ..densities.pairs import BandwidthScore, Pairs
from ..kernels import Kernel
from ..regression.smoother import Smoother

ROWS = 500  # pairs that are left out, of those with a share
NARROW = 1.0  # decades below the search for a density: posteriors are narrower than priors


def width_of(kernel: Kernel, points, Phi, shares, reg: float) -> tuple[float, ...] | None:
    """γ n^{2/((d+4)(d+6))}, where γ minimises Σ_i β_i [∫ q⁻ⁱ(z|x_i)² dz − 2 q⁻ⁱ(z_i|x_i)].

    The errors of densities are least at widths of order n^{−1/(d+4)}, those of their slopes, and so
    of modes, at n^{−1/(d+6)}. None for kernels that have no density, and latents without spread.

    Parameters
    ----------
    kernel : of latents, its lengthscale replaced by the bandwidth
    points, Phi, shares : latents (n, d), coordinates of observations (n, r), β (n,)
    reg : λ
    """
    beta = arrays.to_numpy(shares)
    told = np.flatnonzero(beta > 0)
    some = told[evenly(len(told), ROWS)]
    Z, Phi, beta = arrays.to_numpy(points)[some], arrays.to_numpy(Phi)[some], beta[some]
    try:
        start = with_bandwidth(kernel, None, Z, "kernel_z") if kernel.boxed else None
    except ValueError:
        start = None
    if start is None:
        return None
    roots = np.sqrt(beta / beta.mean())
    smoother = Smoother.of(roots[:, None] * Phi, intercept=False)
    score = BandwidthScore.of(Pairs.of(spread_ties(Z), start), start, smoother, reg, roots)
    best, _ = minimise_log10(score, FIRST[0] - NARROW, FIRST[1], precision=0.01)
    n, d = len(told), Z.shape[1]
    rate = (len(some) / n) ** (1 / (d + 4)) * n ** (2 / ((d + 4) * (d + 6)))
    return tuple(np.broadcast_to(start.scaled(best * rate).lengthscale, d).tolist())

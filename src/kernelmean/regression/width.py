"""The bandwidth of laws by weighted pairs: the score of pairs left out, with their shares."""

from typing import Any

import numpy as np

from ..core import arrays
from ..core.checks import hushed
from ..core.minimise import CLEAR, mean_and_error, minimise_log10
from ..core.moments import evenly
from ..embedding.embedding import MeanEmbedding
from ..kernels import Gaussian, Gaussian4, Kernel
from .bandwidth import FIRST, spread_ties, with_bandwidth
from .pairs import BandwidthScore, Pairs
from .smoother import Smoother

FEWEST = 10  # pairs with a share: fewer say nothing of a bandwidth
ROWS = 500  # pairs that are left out, of those with a share
JUDGES = 250  # of these, whose modes are compared
STARTS = 3  # of modes that are compared, by what lies within
NEAR = 2.0  # bandwidths
FLAT = 1.9  # times as wide a kernel of order four is
NARROW = 1.0  # decades below the search for a density: posteriors are narrower than priors


def smoothing(kernel: Kernel, width: tuple[float, ...] | None) -> dict[str, Any]:
    """The bandwidth of laws that are carried by a Gaussian kernel, and the kernel of densities.

    In one column one of order four, about twice as wide: it has less noise at tops, of which the
    highest is the mode, and bends them no more. On six posteriors of two humps the error of
    densities stays (total variation .191 and .190), and modes at 95% of the top of the exact
    density or more go from 57 to 68%.
    """
    if width is None or len(width) > 1 or not isinstance(kernel, Gaussian):
        return {"bandwidth": width}
    return {"bandwidth": (FLAT * width[0],), "smooth": Gaussian4(1.0)}


def width_of(
    kernel: Kernel, points, Phi, shares, reg: float, intercept: bool = False
) -> tuple[float, ...] | None:
    """γ n^{2/((d+4)(d+6))}, where γ minimises Σ_i β_i [∫ q⁻ⁱ(z|x_i)² dz − 2 q⁻ⁱ(z_i|x_i)].

    The errors of densities are least at widths of order n^{−1/(d+4)}, those of their slopes, and so
    of modes, at n^{−1/(d+6)}. None where modes by the kernel of latents, at the scale of all,
    are clearly nearer to latents left out: in many columns tops of densities are noise. And for
    kernels that have no density, latents without spread, and fewer than ten pairs.

    Parameters
    ----------
    kernel : of latents
    points, Phi, shares : latents (n, d), coordinates of observations (n, r), β (n,)
    reg : λ
    intercept : of the regression of laws on coordinates
    """
    beta = arrays.to_numpy(shares)
    told = np.flatnonzero(beta > 0)
    if not kernel.boxed or len(told) < FEWEST:
        return None
    some = told[evenly(len(told), ROWS)]
    Z, Phi, beta = arrays.to_numpy(points)[some], arrays.to_numpy(Phi)[some], beta[some]
    try:
        start = with_bandwidth(kernel, None, Z, "kernel_z")
    except ValueError:
        return None
    roots = np.sqrt(beta / beta.mean())
    smoother = Smoother.of(roots[:, None] * Phi, intercept)
    score = BandwidthScore.of(Pairs.of(spread_ties(Z), start), start, smoother, reg, roots)
    best, _ = minimise_log10(score, FIRST[0] - NARROW, FIRST[1], precision=0.01)
    n, d = len(told), Z.shape[1]
    rate = (len(some) / n) ** (1 / (d + 4)) * n ** (2 / ((d + 4) * (d + 6)))
    local: Any = start.scaled(best * rate)
    judges = evenly(len(Z), JUDGES)
    W = (smoother.P[judges] * smoother.shrink(reg)) @ (roots[:, None] * smoother.P).T
    W[np.arange(len(judges)), judges] = 0.0  # posteriors of pairs left out
    near = local.scaled(NEAR)

    def hits(k: Any) -> np.ndarray:
        modes = MeanEmbedding.of_parts(Z, W, None, k).carrying(k.lengthscale).mode(STARTS)
        return roots[judges] ** 2 * np.diag(near.gram_of(Z[judges], modes))

    with hushed():  # far from all others pairs left out have no law
        gain, error = mean_and_error(hits(kernel) - hits(local))
    if gain > CLEAR * error:
        return None
    return tuple(np.broadcast_to(local.lengthscale, d).tolist())

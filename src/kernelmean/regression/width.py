"""The bandwidth of laws by weighted pairs: the score of pairs left out, with their shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import arrays
from ..core.checks import hushed
from ..core.minimise import CLEAR, mean_and_error, minimise_log10
from ..core.moments import evenly
from ..embedding.embedding import MeanEmbedding
from ..kernels import Gaussian, Gaussian4, Kernel
from .bandwidth import FIRST, spread_ties, with_bandwidth
from .pairs import SAFE, BandwidthScore, Pairs
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
    left = LeftOut.of(Phi, shares, reg, intercept)
    return None if left is None else left.width(kernel, points)


@dataclass(frozen=True)
class LeftOut:
    """Pairs that are left out, each from the regression of the others.

    Attributes
    ----------
    rows : array of shape (m,)
        Those of the pairs.
    count : int
        Pairs with a share.
    roots : array of shape (m,)
        Of their shares, over the mean of these.
    smoother, reg : the regression
    """

    rows: np.ndarray
    count: int
    roots: np.ndarray
    smoother: Smoother
    reg: float

    @classmethod
    def of(cls, Phi, shares, reg: float, intercept: bool = False) -> LeftOut | None:
        beta = arrays.to_numpy(shares)
        told = np.flatnonzero(beta > 0)
        if len(told) < FEWEST:
            return None
        rows = told[evenly(len(told), ROWS)]
        roots = np.sqrt(beta[rows] / beta[rows].mean())
        smoother = Smoother.of(roots[:, None] * arrays.to_numpy(Phi)[rows], intercept)
        return cls(rows, len(told), roots, smoother, float(reg))

    def some(self, points) -> np.ndarray:
        return arrays.to_numpy(points)[self.rows]

    def best(self, kernel: Kernel, points) -> Any:
        """The kernel with the least score; None for latents that have no density."""
        Z = self.some(points)
        if not kernel.boxed:
            return None
        try:
            start = with_bandwidth(kernel, None, Z, "kernel_z")
        except ValueError:
            return None
        pairs = Pairs.of(spread_ties(Z), start)
        score = BandwidthScore.of(pairs, start, self.smoother, self.reg, self.roots)
        return start.scaled(minimise_log10(score, FIRST[0] - NARROW, FIRST[1], precision=0.01)[0])

    def weights(self, rows: np.ndarray) -> np.ndarray:
        """Of the law of each of these rows, without it: (k, m)."""
        P, shrink = self.smoother.P, self.smoother.shrink(self.reg)
        W = (P[rows] * shrink) @ (self.roots[:, None] * P).T
        W[np.arange(len(rows)), rows] = 0.0
        return W

    def losses(self, kernel: Any, points) -> np.ndarray:
        """∫ q⁻ⁱ(z|x_i)² dz − 2 q⁻ⁱ(z_i|x_i), (m,)."""
        Z, m = self.some(points), len(self.rows)
        rest = np.maximum(1.0 - self.smoother.leverage(self.reg), SAFE)
        W = self.weights(np.arange(m)) / (m * self.roots * rest)[:, None]
        Z = spread_ties(Z)
        own = (W * kernel.density_of(Z, Z)).sum(axis=1)
        return ((W @ kernel.self_convolved(Z.shape[1]).density_of(Z, Z)) * W).sum(axis=1) - 2 * own

    def width(self, kernel: Kernel, points, modes: bool = True) -> tuple[float, ...] | None:
        """`width_of`; without `modes` these are not compared."""
        local = self.best(kernel, points)
        if local is None:
            return None
        n, d = self.count, points.shape[1]
        rate = (len(self.rows) / n) ** (1 / (d + 4)) * n ** (2 / ((d + 4) * (d + 6)))
        local = local.scaled(rate)
        if modes and self.modes_better(kernel, local, self.some(points)):
            return None
        return tuple(np.broadcast_to(local.lengthscale, d).tolist())

    def nearer(self, kernel: Kernel, residuals, points) -> bool:
        """Whether densities by residuals are clearly nearer, in mean square, to these pairs.

        Each with the bandwidth that is best for it. The score is that of `width_of`, by its rows.
        Not where a column has few values, which points that were moved have no more.
        """
        if any(len(np.unique(z)) ** 2 <= len(z) for z in self.some(points).T):
            return False
        kernels = [self.best(kernel, Z) for Z in (points, residuals)]
        if None in kernels:
            return False
        both = zip(kernels, (points, residuals), strict=True)
        before, after = (self.losses(k, Z) for k, Z in both)
        gain, error = mean_and_error(self.roots**2 * (before - after))
        return gain > CLEAR * error

    def broad(self, kernel: Kernel, width, points) -> bool:
        """Whether modes by the kernel as it is are clearly nearer to these than at `width`."""
        if width is None:
            return False
        Z = self.some(points)
        return self.modes_better(kernel, with_bandwidth(kernel, width, Z, "kernel_z"), Z)

    def modes_better(self, kernel: Kernel, local: Any, Z: np.ndarray) -> bool:
        """Whether modes by the one kernel are clearly nearer to rows left out."""
        judges = evenly(len(Z), JUDGES)
        W, near = self.weights(judges), local.scaled(NEAR)

        def hits(k: Any) -> np.ndarray:
            modes = MeanEmbedding.of_parts(Z, W, None, k).carrying(k.lengthscale).mode(STARTS)
            return self.roots[judges] ** 2 * np.diag(near.gram_of(Z[judges], modes))

        with hushed():  # far from all others pairs left out have no law
            gain, error = mean_and_error(hits(kernel) - hits(local))
        return gain > CLEAR * error

"""The bandwidth of laws by weighted pairs: the score of pairs left out, with their shares."""

from typing import Any, NamedTuple

import numpy as np

from ..core import arrays, checks
from ..core.minimise import CLEAR, mean_and_error, minimise_log10
from ..core.moments import evenly, numbered
from ..embedding.embedding import MeanEmbedding
from ..embedding.move import Wide
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
LESS = (-4.0, 0.0)  # decades, in which λ of laws is sought below that of means
MANY = 200  # pairs, from which on it is: of fewer laws get too narrow
SHARE = 0.01  # of a wide law in all others: scores of draws and quantiles stay
NARROW = 1.0  # decades below the search for a density: posteriors are narrower than priors


class Told(NamedTuple):
    """What pairs left out tell of laws.

    Attributes
    ----------
    width : tuple of float or None
        γ n^{2/((d+4)(d+6))}, where γ minimises Σ_i β_i [∫ q⁻ⁱ(z|x_i)² dz − 2 q⁻ⁱ(z_i|x_i)]. The
        errors of densities are least at widths of order n^{−1/(d+4)}, those of their slopes, and so
        of modes, at n^{−1/(d+6)}. None for kernels that have no density, latents without spread,
        and fewer than ten pairs.
    broad : bool
        Whether modes by the kernel of latents, at the scale of all, are clearly nearer to latents
        left out: in many columns tops of densities are noise.
    residuals : array of shape (n, d) or None
        Whose laws these are, if not of the latents as they are.
    reg : float or None
        λ of the weights in laws, if less than in means: that with the least score. A mean is of few
        numbers, and learned best by flatter weights than a law of several humps.
    wide : Wide or None
        A law of which all others take a hundredth, so that no row is without density.
    """

    width: tuple[float, ...] | None = None
    broad: bool = False
    residuals: Any = None
    reg: float | None = None
    wide: Wide | None = None

    def known(self, kernel: Kernel) -> dict[str, Any]:
        """What laws carry; where a Gaussian kernel carries them, also the kernel of densities.

        In one column one of order four, about twice as wide: it has less noise at tops, of which
        the highest is the mode, and bends them no more. On six posteriors of two humps the error
        of densities stays (total variation .191 and .190), and modes at 95% of the top of the
        exact density or more go from 57 to 68%.
        """
        known: dict[str, Any] = {"broad": self.broad, "steps": True, "wide": self.wide}
        if self.width is None or len(self.width) > 1 or not isinstance(kernel, Gaussian):
            return known | {"bandwidth": self.width}
        return known | {"bandwidth": (FLAT * self.width[0],), "smooth": Gaussian4(1.0)}


def told(
    kernel: Kernel, points, residuals, Phi, shares, reg: float,
    intercept=False, free=False, copies=None,
) -> Told:  # fmt: skip
    """What pairs left out tell of laws of the points, or of residuals where these are better.

    Parameters
    ----------
    kernel : of latents
    points, Phi, shares : latents (n, d), coordinates of observations (n, r), β (n,)
    residuals : (n, d), of the latents; or None
    reg : λ
    intercept : of the regression of laws on coordinates
    free : whether λ of laws may be less
    copies : how often each pair is there, (n,), one after the other; or None
    """
    beta = arrays.to_numpy(shares)
    if np.sum(beta > 0) < FEWEST:
        return Told()
    return LeftOut(Phi, beta, reg, intercept, copies).told(kernel, points, residuals, free)


class LeftOut:
    """Pairs that are left out, each from the regression of the others; copies count as one.

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

    def __init__(self, Phi, beta: np.ndarray, reg: float, intercept: bool, copies=None):
        if copies is not None:  # the first of them has the shares of all
            first = np.unique(numbered(copies), return_index=True)[1]
            each, beta = beta * copies, np.zeros_like(beta)
            beta[first] = each[first]
        told = np.flatnonzero(beta > 0)
        self.rows, self.count, self.reg = told[evenly(len(told), ROWS)], len(told), float(reg)
        self.roots = np.sqrt(beta[self.rows] / beta[self.rows].mean())
        rows = self.roots[:, None] * arrays.to_numpy(Phi)[self.rows]
        self.smoother = Smoother.of(rows, intercept)

    def told(self, kernel: Kernel, points, residuals, free: bool) -> Told:
        """By the points, or by residuals where laws of these are clearly better."""
        found = self.searched(kernel, points, free)
        if found is None:
            return Told()
        best = None
        if residuals is not None and not has_few_values(found[0]):
            best = self.searched(kernel, residuals)
        if best is None or not self.clear(self.losses(*found) - self.losses(*best)):
            best, residuals = found, None
        Z, local, reg = best
        n, d = self.count, Z.shape[1]
        local = local.scaled((len(Z) / n) ** (1 / (d + 4)) * n ** (2 / ((d + 4) * (d + 6))))
        width = tuple(np.broadcast_to(local.lengthscale, d).tolist())
        less = None if reg == self.reg else reg
        broad = self.modes_better(kernel, local, Z, reg)
        wide = Wide.of(Z, SHARE, self.roots**2)
        return Told(width, broad, residuals, less, wide)

    def searched(self, kernel: Kernel, points, free=False) -> tuple[np.ndarray, Any, float] | None:
        """Their points, the kernel and λ with the least score: None where there is no density."""
        Z = arrays.to_numpy(points)[self.rows]
        if not kernel.boxed:
            return None
        try:
            start = with_bandwidth(kernel, None, Z, "kernel_z")
        except ValueError:
            return None
        pairs, reg = Pairs(spread_ties(Z), start), self.reg

        def score(reg: float) -> BandwidthScore:
            return BandwidthScore.of_rows(pairs, start, self.smoother, reg, self.roots)

        def best(reg: float) -> float:
            return minimise_log10(score(reg), FIRST[0] - NARROW, FIRST[1], precision=0.01)[0]

        factor = best(reg)
        if free and self.count >= MANY and not has_few_values(Z):
            reg *= minimise_log10(lambda s: score(s * self.reg)(factor), *LESS, 9, precision=0.1)[0]
            factor = best(reg)
        return Z, start.scaled(factor), reg

    def weights(self, rows: np.ndarray, reg: float) -> np.ndarray:
        """Of the law of each of these rows, without it: (k, m)."""
        P, shrink = self.smoother.P, self.smoother.shrink(reg)
        W = (P[rows] * shrink) @ (self.roots[:, None] * P).T
        W[np.arange(len(rows)), rows] = 0.0
        return W

    def losses(self, Z: np.ndarray, kernel: Any, reg: float) -> np.ndarray:
        """∫ q⁻ⁱ(z|x_i)² dz − 2 q⁻ⁱ(z_i|x_i), (m,)."""
        Z, m = spread_ties(Z), len(Z)
        rest = np.maximum(1.0 - self.smoother.leverage(reg), SAFE)
        W = self.weights(np.arange(m), reg) / (m * self.roots * rest)[:, None]
        own = (W * kernel.density_of(Z, Z)).sum(axis=1)
        return ((W @ kernel.self_convolved(Z.shape[1]).density_of(Z, Z)) * W).sum(axis=1) - 2 * own

    def modes_better(self, kernel: Kernel, local: Any, Z: np.ndarray, reg: float) -> bool:
        """Whether modes by the one kernel are clearly nearer to rows left out."""
        judges = evenly(len(Z), JUDGES)
        W, near = self.weights(judges, reg), local.scaled(NEAR)

        def hits(k: Any) -> np.ndarray:
            modes = MeanEmbedding.of_parts(Z, W, None, k).carrying(k.lengthscale).mode(STARTS)
            return np.diag(near.gram_of(Z[judges], modes))

        with checks.hushed():  # far from all others pairs left out have no law
            return self.clear(hits(kernel) - hits(local), judges)

    def clear(self, gains: np.ndarray, rows=slice(None)) -> bool:
        """Whether these rows gain clearly, by their shares."""
        gain, error = mean_and_error(self.roots[rows] ** 2 * gains)
        return gain > CLEAR * error


def has_few_values(Z) -> bool:
    """Whether a column has: rows that were moved have no more."""
    return any(len(np.unique(z)) ** 2 <= len(z) for z in arrays.to_numpy(Z).T)

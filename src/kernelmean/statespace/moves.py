"""Smooth transitions between nodes."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from ..chains.markov import Chain, transitions
from ..core import arrays
from .latent import Latent

REGS = 10.0 ** np.arange(-6.0, 3.0)  # of the regression of x' on x
BEND = 0.7  # lengthscale of its function, in standard coordinates
NEAR = 0.5  # and of the local mean of squared residuals
SOME = 1e-3  # weight of all residuals in each of these


@dataclass(frozen=True)
class SmoothMoves:
    """P_ij = (N_ij + c g_ij)/(N_i + c), g_i = N(f(x_i), s²(x_i)): a smooth transition as a prior.

    N_ij are the expected numbers of transitions. f is a ridge regression of x' on x, linear apart
    from a penalised function of an RKHS, its λ by generalised cross-validation; s², for each
    dimension, the local mean of squared residuals.
    """

    latent: Latent
    strength: float

    def __call__(self, alpha, gamma, chain: Chain, sequences) -> Chain:
        """The M-step of `baumwelch.climb`."""
        return self.from_counts(transitions(alpha, gamma, chain, sequences))

    def from_counts(self, counts: np.ndarray) -> Chain:
        """The chain with these expected numbers of transitions."""
        return Chain.counted(counts + self.strength * self.smooth(counts))

    def smooth(self, counts: np.ndarray) -> np.ndarray:
        """g, (m, m)."""
        z, mass = self.latent.standard, counts.sum(axis=1)
        sums, total = counts @ z, counts @ z**2
        seen = np.maximum(mass, np.finfo(float).tiny)[:, None]
        inside = (total - sums**2 / seen).sum()  # about the mean of each node
        f = self.regression(mass, sums / seen, inside)
        off = total - 2 * f * sums + f**2 * mass[:, None]
        around = self._near @ mass + SOME * mass.sum()
        variances = (self._near @ off + SOME * off.sum(axis=0)) / around[:, None]
        variances = np.maximum(variances, self.latent.spacing**2)
        square = ((z - f[:, None]) ** 2 / variances[:, None]).sum(axis=2)
        square -= square.min(axis=1, keepdims=True)
        g = np.exp(-0.5 * square) * self._volume
        return g / g.sum(axis=1, keepdims=True)

    def regression(self, mass: np.ndarray, means: np.ndarray, inside: float) -> np.ndarray:
        """f at the nodes, by weighted ridge: min Σ_i N_i ‖m_i − f(x_i)‖² + λ‖f₂‖², f₂ not linear.

        λ minimises log RSS − 2 log(1 − df/n), with RSS that of single transitions. At every node
        one more transition is imagined, to where a straight line leads: what no data hold back
        would run off the nodes, and stay at the last ones.
        """
        D, d = self._design, means.shape[1]
        line = D[:, : 1 + d]
        own = line.T * mass
        slope = np.linalg.pinv(own @ line, rcond=1e-12, hermitian=True) @ (own @ means)
        means = (mass[:, None] * means + line @ slope) / (mass + 1)[:, None]
        mass = mass + 1
        n, weighted = mass.sum(), mass[:, None] * D
        penalty = np.r_[np.zeros(1 + d), np.ones(D.shape[1] - 1 - d)]
        second = D.T @ weighted + 1e-9 * n * np.eye(len(penalty))
        s, W = scipy.linalg.eigh(np.diag(penalty), second)  # Wᵀ second W = I
        left, right = D @ W, W.T @ (weighted.T @ means)
        best, found = np.inf, means
        for reg in REGS:
            shrunk = 1 / (1 + reg * np.maximum(s, 0.0))
            f, df = left @ (shrunk[:, None] * right), shrunk.sum()
            rss = (mass[:, None] * (means - f) ** 2).sum() + inside
            score = np.log(max(rss, np.finfo(float).tiny)) - 2 * np.log(max(1 - df / n, 1e-3))
            if score < best:
                best, found = score, f
        return found

    @cached_property
    def _design(self) -> np.ndarray:
        """1, x, and coordinates of a Gaussian kernel: (m, 1 + d + r)."""
        z = self.latent.standard
        values, vectors = np.linalg.eigh(_bumps(z, BEND))
        keep = values > 1e-7 * values[-1]
        return np.c_[np.ones(len(z)), z, vectors[:, keep] * np.sqrt(values[keep])]

    @cached_property
    def _near(self) -> np.ndarray:
        return _bumps(self.latent.standard, NEAR)

    @cached_property
    def _volume(self) -> np.ndarray:
        """Of the space around each node, up to a factor."""
        return 1 / _bumps(self.latent.standard, 2 * self.latent.spacing).sum(axis=1)


def _bumps(z: np.ndarray, width: float) -> np.ndarray:
    return np.exp(-0.5 * arrays.sq_dists(z, z) / width**2)

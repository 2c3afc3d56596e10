"""Regression adjustment: parameters of simulations near the data seen, moved to these by lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..densities.location import Location, LocationSearch
from ..embedding.embedding import MeanEmbedding
from ..features.landmarks import Nystroem
from ..kernels import Gaussian, fitted_kernel
from ..regression.smoother import with_ones
from ..regression.support import Support
from .scores import NormalScores

RANK = 300  # landmarks of the smooth mean
NEAREST, LEAST = 0.5, 20  # share of the simulations that lines look at, and to each coefficient
RIDGE = 1e-3  # on slopes
GROWS = 3.0  # a logarithm of variances changes by no more
OUTSIDE = "the posterior is that of the nearest data in the range of what was simulated"


@dataclass(frozen=True)
class Adjustment:
    """p(θ | x) by local lines in s(x) = m(x)/σ, all in normal scores.

    m is a smooth mean of the parameters and of their squares, a line and a kernel part, and σ what
    it leaves: of a parameter whose sign the data cannot tell, only the square is seen. With
    Epanechnikov weights around s(x), lines for θ and for the logarithms of what they leave: θ_i
    goes to ℓ(s(x)) + (θ_i − ℓ(s_i)) v(s(x))/v(s_i).

    Attributes
    ----------
    prior, data : NormalScores
    m : Location
    Z : array of shape (n, p)
        Scores of the parameters.
    S : array of shape (n, 2p)
        m without its own row, in σ.
    seen : Support

    References
    ----------
    Beaumont, Zhang, Balding (2002); Blum and François (2010); Fearnhead and Prangle (2012),
    Constructing summary statistics for ABC: semi-automatic ABC.
    """

    prior: NormalScores
    data: NormalScores
    m: Location
    Z: np.ndarray
    S: np.ndarray
    seen: Support

    @classmethod
    def of(cls, prior: NormalScores, theta: np.ndarray, data: np.ndarray) -> Adjustment:
        scores, Z = NormalScores.of(data), prior(theta)
        U = scores(data)
        moments = np.hstack([Z, Z**2])
        search = LocationSearch(fitted_kernel("gaussian", U, columnwise=True), U, moments)
        search.round()
        m = search.location(U, moments, Nystroem(max_rank=RANK))
        return cls(prior, scores, m, Z, (moments - m.residuals) / _spread(m), Support.of(data))

    def law(self, row: np.ndarray) -> MeanEmbedding:
        """Of the parameters, given data (1, q): a batch of one."""
        Z, w = self.moved(self.m(self.data(row)) / _spread(self.m))
        Z, width = smoothed(Z, w)
        low, points, high = (self.prior.back(z) for z in (Z - width, Z, Z + width))
        range_ = np.array([np.ptp(q) for _, q in self.prior.knots])
        bandwidth = tuple(np.maximum(0.5 * w @ (high - low), 1e-9 * range_).tolist())
        outside = self.seen.outside(row, Gaussian(), OUTSIDE)
        law = MeanEmbedding(points, w[None], Gaussian(bandwidth))
        return law.carrying(bandwidth, extrapolated=outside)

    def moved(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores of parameters near the summaries s, one row, moved there, and their weights."""
        distance = ((self.S - s) ** 2).sum(axis=1)
        n, k = self.S.shape
        nearest = np.argsort(distance, kind="stable")[: max(int(NEAREST * n), LEAST * (k + 1))]
        w = np.maximum(1 - distance[nearest] / distance[nearest[-1]], 1e-9)
        A = with_ones(self.S[nearest] - s)
        penalty = RIDGE * w.sum() * (np.arange(k + 1) > 0)
        solve = np.linalg.solve((A.T * w) @ A + np.diag(penalty), A.T * w)
        line = solve @ self.Z[nearest]
        own = np.clip((A * solve.T).sum(axis=1), None, 0.5)  # a line is drawn to its own rows
        left = (self.Z[nearest] - A @ line) / (1 - own)[:, None]
        size = solve @ np.log(left**2 + 1e-300)
        grown = np.exp(0.5 * np.clip(size[0] - A @ size, -GROWS, GROWS))
        return line[0] + left * grown, w / w.sum()


def _spread(m: Location) -> np.ndarray:
    return np.maximum(m.residuals.std(axis=0), 1e-12)


def smoothed(Z: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points, and the width of a kernel in each column, that keep the mean and covariance of Z.

    Widths follow the spread of a column given the others, which a correlation makes narrow.
    """
    mean, p = w @ Z, Z.shape[1]
    off = Z - mean
    C = (off.T * w) @ off + 1e-12 * np.eye(p)
    alone = 1 / np.sqrt(np.diag(np.linalg.inv(C)))  # spread of a column given the others
    most = 0.5 * np.linalg.eigvalsh(C / np.outer(alone, alone))[0]
    h2 = min((4 / (p + 2) * w @ w) ** (2 / (p + 4)), most)  # Silverman's rule for 1/Σw² rows
    inner, outer = np.linalg.cholesky(C - h2 * np.diag(alone**2)), np.linalg.cholesky(C)
    return mean + off @ np.linalg.solve(outer.T, inner.T), h2**0.5 * alone

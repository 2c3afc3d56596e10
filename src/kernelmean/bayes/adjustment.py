"""Regression adjustment: parameters of simulations near the data seen, moved to these by lines."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from ..core.minimise import CLEAR
from ..core.moments import normal_bandwidth
from ..densities.location import Location, LocationSearch
from ..embedding.embedding import MeanEmbedding
from ..features.landmarks import Nystroem
from ..kernels import Gaussian, fitted_kernel
from ..regression.support import Support
from .scores import NormalScores

RANK = 300  # landmarks of the smooth mean
SHARE = 0.5  # of the simulations, that lines look at
LEAST, FLAT = 40, 4  # to each coefficient, and of those as many that say a size to be the same
RIDGE = 1e-3  # on slopes
STEPS = 5  # of Newton, for sizes
ACCEPTED = 0.05  # of the simulations, by rejection
GROWS = 1.5  # a logarithm of sizes changes by no more
OUTSIDE = "the posterior is that of the nearest data in the range of what was simulated"


class Summaries:
    """Smooth means of those columns that data tell, over the spread of what they leave.

    Attributes
    ----------
    mean : Location
    told : array of shape (k,)
        Columns clearly nearer to it, without their own row, than to their mean.
    size : array of shape (k,)
    rows : array of shape (n, k)
        At each row that it was learned from, without it.
    """

    def __init__(self, search: LocationSearch, U: np.ndarray, Y: np.ndarray):
        self.mean = Location.on(search.design(U, Nystroem(max_rank=RANK)), Y)
        left = self.mean.residuals
        gain = (Y - Y.mean(axis=0)) ** 2 - left**2
        self.told = np.flatnonzero(gain.mean(axis=0) > CLEAR * gain.std(axis=0) / len(Y) ** 0.5)
        self.size = np.maximum(left.std(axis=0), 1e-12)[self.told]
        self.rows = (Y - left)[:, self.told] / self.size

    def __call__(self, u: np.ndarray) -> np.ndarray:
        return self.mean(u)[:, self.told] / self.size


@dataclass(frozen=True)
class Adjustment:
    """p(θ | x) by local lines in s(x), all in normal scores.

    Summaries s are smooth means given x, a line and a kernel part each, over the spread of what
    they leave: of the parameters, and of the sizes of what those leave, all that x tells (of a
    parameter whose sign it cannot tell only a size). With Epanechnikov weights around s(x), lines
    for θ and for the logarithms log v of the sizes of what they leave: θ_i goes to
    ℓ(s(x)) + (θ_i − ℓ(s_i)) v(s(x))/v(s_i). They look at half of the rows.

    Attributes
    ----------
    prior, data : NormalScores
    summaries : tuple of Summaries
        Of the parameters, and of the sizes; none where parameters or data are all the same.
    Z : array of shape (n, p)
        Scores of the parameters.
    S : array of shape (n, k)
        Summaries of each row from the others.
    seen : Support
    lines : bool
        False is rejection: the nearest as they are.

    References
    ----------
    Beaumont, Zhang, Balding (2002); Blum and François (2010); Fearnhead and Prangle (2012),
    Constructing summary statistics for ABC: semi-automatic ABC.
    """

    prior: NormalScores
    data: NormalScores
    summaries: tuple[Summaries, ...]
    Z: np.ndarray
    S: np.ndarray
    seen: Support
    lines: bool = True

    @classmethod
    def of(cls, prior: NormalScores, theta: np.ndarray, data: np.ndarray) -> Self:
        scores, Z = NormalScores.of(data), prior(theta)
        U, Y = scores(data), np.hstack([Z, Z**2])
        parts: tuple[Summaries, ...] = ()
        varied = np.ptp(Y, axis=0) > 0
        if varied.any() and np.ptp(U, axis=0).any():
            search = LocationSearch(fitted_kernel("gaussian", U, columnwise=True), U, Y[:, varied])
            means = Summaries(search, U, Z)
            size = np.abs(means.mean.residuals)
            parts = means, Summaries(search, U, NormalScores.of(size)(size))
        S = np.hstack([Z[:, :0], *(part.rows for part in parts)])
        return cls(prior, scores, parts, Z, S, Support.of(data))

    def at(self, row: np.ndarray) -> MeanEmbedding:
        """Of the parameters, given data (1, q): a batch of one."""
        points, w, width = self._points(self.tells(row))
        return law_given(row, self.seen, points, w, tuple(width.tolist()))

    def _points(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Parameters, given summaries, one row, with weights and the bandwidth of their density."""
        Z, w = self.moved(s) if self.lines else self.unmoved(s)
        Z, width = smoothed(Z, w)
        low, points, high = (self.prior.back(z) for z in (Z - width, Z, Z + width))
        range_ = np.array([np.ptp(q) for _, q in self.prior.knots])
        return points, w, np.maximum(0.5 * w @ (high - low), 1e-9 * range_)

    def tells(self, row: np.ndarray) -> np.ndarray:
        """Summaries of data (m, q)."""
        u = self.data(row)
        return np.hstack([u[:, :0], *(part(u) for part in self.summaries)])

    def moved(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores of parameters near the summaries s, one row, moved there, and their weights."""
        least = LEAST * (max(self.S.shape[1], self.Z.shape[1]) + 1)
        nearest, w = self._near(s, max(int(SHARE * len(self.S)), least))
        A = np.column_stack([np.ones(len(nearest)), self.S[nearest] - s])  # no S: nothing told
        return along_lines(A, self.Z[nearest], w), w / w.sum()

    def unmoved(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores of parameters nearest to the summaries s, one row, and their weights."""
        nearest, w = self._near(s, max(int(ACCEPTED * len(self.S)), LEAST))
        return self.Z[nearest], w / w.sum()

    def _near(self, s: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The nearest rows, nearest first, and Epanechnikov weights."""
        distance = ((self.S - s) ** 2).sum(axis=1)
        nearest = np.argsort(distance, kind="stable")[:count]
        far = max(distance[nearest[-1]], 1e-300)  # none, where x tells nothing
        return nearest, np.maximum(1 - distance[nearest] / far, 1e-9)

    def score_samples(self, data: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """log p(θ_i | x_i) of rows, (n,)."""
        found = np.empty(len(theta))
        for i, s in enumerate(self.tells(data)):
            points, w, width = self._points(s[None])
            found[i] = logsumexp(norm.logpdf(theta[i], points, width).sum(axis=1), b=w)
        return found


def law_given(row, seen: Support, points, w, bandwidth: tuple[float, ...]) -> MeanEmbedding:
    """Of weighted parameters, a batch of one; a word if the data are not like those seen."""
    outside = seen.outside(row, Gaussian(), OUTSIDE)
    law = MeanEmbedding(points, w[None], Gaussian(bandwidth))
    return law.carrying(bandwidth, extrapolated=outside)


def along_lines(A: np.ndarray, Z: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Rows Z moved to where all columns of A but the first, which is one, are zero.

    By weighted lines for their mean and for the logarithms of the sizes of what these leave of
    each row, drawn without it. Sizes by Newton's steps for log v, from the same everywhere:
    E|left| = v, with no more weight on outliers than they have there.
    """
    slopes, second = np.diag(np.arange(A.shape[1]) > 0), (A.T * w) @ A
    solve = np.linalg.solve(second + RIDGE * w.sum() * slopes, A.T * w)
    line = solve @ Z
    own = np.clip((A * solve.T).sum(axis=1), None, 0.5)  # a line is drawn to its own rows
    left = (Z - A @ line) / (1 - own)[:, None]
    away, flat, size = np.abs(left), FLAT * len(line) * slopes, np.zeros_like(line)
    size[0] = np.log(np.maximum(w @ away / w.sum(), 1e-150))
    for _ in range(STEPS):
        slope = (A.T * w) @ (away * np.exp(-A @ size) - 1) - flat @ size
        size += np.clip(np.linalg.solve(second + flat, slope), -0.5, 0.5)
    return line[0] + left * np.exp(np.clip(size[0] - A @ size, -GROWS, GROWS))


def smoothed(Z: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points, and the width of a kernel in each column, that keep the mean and covariance of Z.

    Widths follow the spread of a column given the others, which a correlation makes narrow.
    """
    mean, p = w @ Z, Z.shape[1]
    off = Z - mean
    C = (off.T * w) @ off + 1e-12 * np.eye(p)
    alone = 1 / np.sqrt(np.diag(np.linalg.inv(C)))  # spread of a column given the others
    most = 0.5 * np.linalg.eigvalsh(C / np.outer(alone, alone))[0]
    h2 = min(normal_bandwidth(1 / (w @ w), p) ** 2, most)
    inner, outer = np.linalg.cholesky(C - h2 * np.diag(alone**2)), np.linalg.cholesky(C)
    return mean + off @ np.linalg.solve(outer.T, inner.T), h2**0.5 * alone

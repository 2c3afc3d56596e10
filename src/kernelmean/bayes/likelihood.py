"""Posteriors by a likelihood that is learned: a conditional density given the parameters."""

import numpy as np
from scipy.special import logsumexp

from ..core.checks import hushed
from ..core.moments import evenly
from ..densities import ConditionalDensity, EmbeddedDensity
from ..densities.laws import MovedLaws
from ..embedding.embedding import MeanEmbedding
from ..regression.support import Support
from .adjustment import law_given
from .scores import NormalScores
from .truncation import Draws

ROWS = 2500  # of more simulations so many are learned from
JUDGE, BLOCK = 1000, 5000  # draws of the prior that judge, and those weighed together
FEWEST, ENOUGH = 20, 3000  # draws that weights are worth: less is made wider, more not weighed
LEAST = 1e-3  # of the largest weight: less is dropped


class Likelihood:
    """p(θ | x) = p̂(x | θ) π(θ)/Z(x), with Z(x) the mean of p̂(x | θ_j) over draws θ_j of π.

    Noise has often one shape wherever θ is, also where the posterior is bent or in parts.

    Attributes
    ----------
    model : ConditionalDensity
        p̂, of the data given the parameters.
    prior : NormalScores
    draws : Draws
        Of the prior, where the simulations are.
    seen : Support
        Of the data.
    """

    def __init__(self, prior: NormalScores, draws: Draws, theta, data):
        self.prior, self.draws = prior, draws
        some, self.seen = evenly(len(theta), ROWS), Support.of(data)
        self.model = ConditionalDensity().fit(theta[some], data[some])

    def at(self, row: np.ndarray) -> MeanEmbedding:
        """Of the parameters, given data (1, q): a batch of one, on draws of the prior."""
        with hushed():  # the outermost draws may be beyond all simulations
            near, w = self._weighed(row)
        kept = np.flatnonzero(w > LEAST)
        points, w = near[kept], w[kept] / w[kept].sum()
        return law_given(row, self.seen, points, w, _bandwidth(points, w))

    def _weighed(self, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draws of the prior that are not far from what data say, and their weights."""
        bound = np.empty(0)
        while len(bound) < len(self.draws.theta) and _worth(bound) < ENOUGH:
            some = self.draws.theta[len(bound) : len(bound) + BLOCK]
            bound = np.append(bound, self._laws(some).log_bound(row))
        near = self.draws.theta[: len(bound)][_weights(bound) > LEAST]
        return near, _weights(self._told(near, row)[:, 0])

    def _laws(self, theta: np.ndarray) -> MovedLaws:
        laws = self.model.at(theta)
        return laws if isinstance(laws, MovedLaws) else MovedLaws(laws)

    def _told(self, theta: np.ndarray, data: np.ndarray) -> np.ndarray:
        """log p̂(x | θ) of every θ at all data, (m, k), as well as weights need it."""
        own = np.broadcast_to(data, (len(theta), *data.shape))
        return self._laws(theta).log_density_each(own)

    def score_samples(self, data: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """log p(θ_i | x_i), (n,), with θ_i for one more draw: few draws know no narrow posterior.

        For the prior's density the product of its columns'.
        """
        own = np.asarray(self.model.score_samples(theta, data))
        with hushed():
            every = np.vstack([self._told(self.draws.theta[:JUDGE], data), own])
        Z = logsumexp(every, axis=0) - np.log(len(every))
        return own + self.prior.log_density(theta) - self.draws.log_share - Z


def _bandwidth(points: np.ndarray, w: np.ndarray) -> tuple[float, ...]:
    """By the leave-one-out score, of `ENOUGH` of the points at even steps of the weights' sums."""
    steps = (np.arange(ENOUGH) + 0.5) / ENOUGH
    which, count = np.unique(np.searchsorted(np.cumsum(w), steps), return_counts=True)
    which = np.minimum(which, len(w) - 1)
    return tuple(EmbeddedDensity(wide=0.0).fit(points[which], None, count).bandwidth_.tolist())


def _weights(log_w: np.ndarray) -> np.ndarray:
    """Over the largest; powers of them where too few count: without noise, as draws can tell."""
    least = min(FEWEST, np.isfinite(log_w).sum() / 2)
    while _worth(log_w) < least:
        log_w = 0.5 * log_w
    return np.exp(log_w - log_w.max())


def _worth(log_w: np.ndarray) -> float:
    """How many draws with equal weights are worth as much, (Σw)²/Σw²."""
    if not len(log_w):
        return 0.0
    return float(np.exp(2 * logsumexp(log_w) - logsumexp(2 * log_w)))

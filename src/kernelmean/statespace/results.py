"""What a state-space model returns: latent laws, forecasts, a belief that is carried on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..chains.results import RegimeBelief, RegimeForecast
from ..core import arrays
from ..core.checks import Array
from ..embedding.embedding import MeanEmbedding

if TYPE_CHECKING:
    from .kernel_state_space import KernelStateSpace

MANY = 5000  # points of a law, from which on neighbours are taken together for quantiles,
FINE = 16  # where they are nearer than one part in so many of the bandwidth


def gathered(laws: MeanEmbedding, column: int, width: float) -> MeanEmbedding:
    """One column of a batch of laws; of many points, those very near each other as one."""
    laws = laws.marginal([column])
    if laws.points.shape[0] <= MANY:
        return laws
    y = arrays.to_numpy(laws.points)[:, 0]
    _, cell = np.unique(np.floor(y * (FINE / width)), return_inverse=True)
    centres = np.bincount(cell, y) / np.bincount(cell)
    order = np.argsort(cell, kind="stable")
    starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
    weights = np.add.reduceat(arrays.to_numpy(laws.weights)[:, order], starts, axis=1)
    points = arrays.like(centres[:, None], laws.points)
    return MeanEmbedding.of_parts(points, arrays.like(weights, points), None, laws.kernel)


class NodeModel:
    """A learned model as one to draw from: between nodes, mixtures of the laws at the nodes.

    Has the verbs of `particlefilter.StateSpace`, which the particle filter and
    `particlefilter.as_particles_model` take. Draws of a law with negative weights are by rejection
    (Lemma 4.7 of the thesis, with ρ/(Mq) for its q/(Mρ)).

    Parameters
    ----------
    model : KernelStateSpace
    """

    def __init__(self, model: KernelStateSpace):
        self._model, self._latent = model, model._space.latent
        self._means = arrays.to_numpy(model.emissions_.mean())

    def draw_first(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n states of the stationary law, (n, n_latent)."""
        return self._near(rng.choice(len(self._means), n, p=self._model.startprob_), rng)

    def draw_next(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One next state of every row of `x`, (N, n_latent)."""
        upto = np.cumsum(self._latent.shares(x) @ self._model.transmat_, axis=1)
        return self._near((upto < rng.random((len(x), 1)) * upto[:, -1:]).sum(axis=1), rng)

    def log_emission(self, Y: np.ndarray, x: np.ndarray) -> np.ndarray:
        """log p(y_i | x_j), (m, N)."""
        logb = self._model._log_densities(arrays.like(Y, self._model.emissions_.points))
        top = logb.max(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            return np.log(np.exp(logb - top) @ self._latent.shares(x).T) + top

    def draw_emission(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One observation of every row of `x`, (N, d)."""
        upto = np.cumsum(self._latent.shares(x), axis=1)
        states = (upto < rng.random((len(x), 1)) * upto[:, -1:]).sum(axis=1)
        return self._model._drawn_from(states, rng)

    def mean_emission(self, x: np.ndarray) -> np.ndarray:
        """E[y | x] of every row of `x`, (N, d)."""
        return self._latent.shares(x) @ self._means

    def _near(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        nodes = np.minimum(states, len(self._means) - 1)
        x = self._model.nodes_[nodes]
        return x + self._model.latent_bandwidth_ * rng.standard_normal(x.shape)


@dataclass(frozen=True, repr=False)
class LatentResult:
    """Laws of the latent state of every row: one of many equivalent representations.

    Means and units are conventions; in one dimension ranks are not, up to reversal.

    Attributes
    ----------
    embeddings : MeanEmbedding
        Batch of n laws on the nodes.
    mean, variance : arrays of shape (n, n_latent)
    """

    embeddings: MeanEmbedding
    mean: Array
    variance: Array

    @property
    def probabilities(self) -> Array:
        """Of the nodes, (n, m)."""
        return self.embeddings.weights

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Central interval of every latent coordinate, (n, n_latent) each; its ends are nodes."""
        return self.embeddings.interval(level)

    def __len__(self) -> int:
        return int(self.mean.shape[0])

    def __repr__(self) -> str:
        return f"LatentResult({len(self)} rows, {self.mean.shape[1]} latent)"


@dataclass(frozen=True, repr=False)
class StateForecast(RegimeForecast):
    """Beliefs about what comes after the observations, step by step.

    Attributes
    ----------
    states : array of shape (steps, m)
        Probabilities of the nodes; several sequences follow each other.
    observations : MeanEmbedding
        Batch of embedded laws of the observations.
    bandwidth : float, tuple or None
        Of the emission densities, which quantiles of the forecasts share.
    """

    def __repr__(self) -> str:
        return f"StateForecast({len(self)} steps, {self.states.shape[1]} nodes)"


class LatentBelief(RegimeBelief):
    """Probabilities of the nodes, to which observations are fed one at a time.

    Made by `KernelStateSpace.start`. `predict` and `update` change it, and return it; `copy`
    keeps a version.
    """

    _model: KernelStateSpace

    @property
    def latent(self) -> np.ndarray:
        """Mean of the latent state, (n_latent,)."""
        return self._probabilities @ self._model.nodes_

    def copy(self) -> LatentBelief:
        """A belief that later steps of this one leave alone."""
        return LatentBelief(self._model, self._probabilities)

    def __repr__(self) -> str:
        return f"LatentBelief(latent={np.round(self.latent, 3).tolist()})"

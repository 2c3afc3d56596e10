"""What a hidden Markov model returns: forecasts, and a belief that is carried on row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core.checks import Array
from ..embedding.embedding import MeanEmbedding

if TYPE_CHECKING:
    from .model import MarkovModel


@dataclass(frozen=True, repr=False)
class RegimeForecast:
    """Beliefs about what comes after the observations, step by step.

    Attributes
    ----------
    states : array of shape (steps, K)
        Probabilities of the states; several sequences follow each other.
    observations : MeanEmbedding
        Batch of embedded laws of the observations, Σ_k P(x = k) μ_k.
    bandwidth : float, tuple or None
        Of the emission densities, which quantiles of the forecasts share; 0 where densities are
        of variates: quantiles are then those of weighted rows.
    """

    states: Array
    observations: MeanEmbedding
    bandwidth: float | tuple[float, ...] | None

    @property
    def mean(self) -> Array:
        """Expected observations, (steps, d)."""
        return self.observations.mean()

    def density(self, Y) -> Array:
        """Densities of the observation of every step at the rows of `Y`, (steps, m)."""
        return self.observations.density(Y, self.bandwidth or None)

    def quantile(self, q) -> Array:
        """Quantiles of every column of the observations, (steps, d) for one level."""
        return self.observations.quantile(q, self.bandwidth)

    def interval(self, level: float = 0.95, kind: str = "central") -> tuple[Array, Array]:
        """Interval of every column of the observations: lower and upper ends, (steps, d) each."""
        return self.observations.interval(level, self.bandwidth, kind)

    def __len__(self) -> int:
        return int(self.states.shape[0])

    def __repr__(self) -> str:
        return f"RegimeForecast({len(self)} steps, {self.states.shape[1]} states)"


class RegimeBelief:
    """Probabilities of the states, to which observations are fed one at a time.

    Made by `start` of a model. `predict` and `update` change it, and return it; `copy` keeps a
    version.
    """

    def __init__(self, model: MarkovModel, probabilities: np.ndarray):
        self._model, self._probabilities = model, probabilities

    @property
    def probabilities(self) -> Array:
        """P(state = k), (K,)."""
        return self._probabilities.copy()

    def predict(self) -> RegimeBelief:
        """One step on in time."""
        self._probabilities = self._probabilities @ self._model.transmat_
        return self

    def update(self, x) -> RegimeBelief:
        """What the observation `x`, shape (d,), says about the state; NaN says nothing."""
        self._probabilities = self._model._updated(self._probabilities, x)
        return self

    @property
    def mean(self) -> Array:
        """Expected observation, (d,)."""
        return self.observation.mean()

    @property
    def observation(self) -> MeanEmbedding:
        """The embedded law of the observation."""
        return self._model._mixture(self._probabilities[None])[0]

    def copy(self) -> RegimeBelief:
        """A belief that later steps of this one leave alone."""
        return RegimeBelief(self._model, self._probabilities)

    def __repr__(self) -> str:
        return f"RegimeBelief({np.round(self._probabilities, 3).tolist()})"

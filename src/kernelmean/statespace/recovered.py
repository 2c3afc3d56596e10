"""A fitted model as particles see it: densities and draws recovered from embeddings."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.checks import check_positive
from ..embedding import positive_part
from ..embedding.embedding import MeanEmbedding


@dataclass(frozen=True)
class RecoveredModel:
    """M(x, ·) ∝ max(Σ_j w̃_j(x) k̄(x_j, ·), 0), O(x, ·) ∝ max(Σ_i w_i(x) k̄(y_i, ·), 0).

    Weights may have both signs: densities are positive parts, made to integrate to one, and draws
    are by rejection, from the positive weights.

    Attributes
    ----------
    stationary : MeanEmbedding
        Nodes and their weights: the law of the states.
    transition : callable
        Maps states (N, d_x) to a batch of N embeddings of the next state, of any points.
    emission : callable
        Maps states (N, d_x) to a batch of N embeddings of the observation.
    bandwidths : tuple of float
        γ of the densities of states and of observations.

    Notes
    -----
    A draw q⁺ of the positive weights, of total W, is kept with probability max(q, 0)/(W q⁺); the
    thesis prints the inverse. `mean_emission` is the mean of the embedding itself, Σ_i w_i(x) y_i:
    it takes no density.

    References
    ----------
    Spiteri (2023), sections 4.4.5 and 4.5, Lemma 4.7; MATH §8, §12.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelmean as km
    >>> from kernelmean.statespace.recovered import RecoveredModel
    >>> data = km.datasets.make_state_space("linear", 400, random_state=0)
    >>> move = km.ConditionalEmbedding().fit(data.states[:-1], data.states[1:])
    >>> emit = km.ConditionalEmbedding().fit(data.states, data.X)
    >>> model = RecoveredModel(km.MeanEmbedding(data.states), move.at, emit.at, (0.3, 0.3))
    >>> x = np.full((500, 1), 1.0)
    >>> bool(abs(model.draw_next(x, np.random.default_rng(0)).mean() - 0.95) < 0.3)
    True
    """

    stationary: MeanEmbedding
    transition: Callable[[np.ndarray], MeanEmbedding]
    emission: Callable[[np.ndarray], MeanEmbedding]
    bandwidths: tuple[float, float]

    def __post_init__(self):
        for width, name in zip(self.bandwidths, ("states", "observations"), strict=True):
            check_positive(width, f"bandwidths, of {name},")

    def draw_first(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n states: a step from nodes, drawn by their weights, (n, d_x)."""
        chances = np.maximum(self.stationary.weights, 0.0)
        rows = rng.choice(len(chances), size=n, p=chances / chances.sum())
        return self.draw_next(self.stationary.points[rows], rng)

    def draw_next(self, x, rng: np.random.Generator) -> np.ndarray:
        """One next state of every row of `x`, (N, d_x)."""
        return _one_of_each(self.transition(x).normalised(), self.bandwidths[0], rng)

    def draw_emission(self, x, rng: np.random.Generator) -> np.ndarray:
        """One observation of every row of `x`, (N, d_y)."""
        return _one_of_each(self.emission(x).normalised(), self.bandwidths[1], rng)

    def log_emission(self, Y, x) -> np.ndarray:
        """log p(y_i | x_j), (m, N): of positive parts, as the thesis has it, with no level off."""
        law, width = self.emission(x).normalised(), self.bandwidths[1]
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(law.density(Y, width, signed=True), 0.0))
        return logs.T - np.log1p(law.negative_mass(width)[0])

    def mean_emission(self, x) -> np.ndarray:
        """E[y | x] of every row of `x`, (N, d_y)."""
        return self.emission(x).normalised().mean()


def _one_of_each(m: MeanEmbedding, bandwidth: float, rng) -> np.ndarray:
    """One draw from each member of a batch: one proposal at a time for those that lack it."""
    kernel = m.kernel.smoothing(bandwidth)
    level = np.zeros(len(m))
    return positive_part.rejection(m.members(), kernel, level, 1, rng, spare=False)[:, 0]

"""What a state-space model returns: latent laws, forecasts, a belief that is carried on."""

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from ..chains.emission import one_or_each
from ..chains.markov import one_of
from ..chains.model import FittedChain
from ..chains.results import Batch, RegimeBelief, RegimeForecast, as_observation
from ..chains.rows import as_input_row, gaps_in
from ..core import Array, Labels, arrays
from ..core.moments import normal_bandwidth
from ..core.old_names import attribute
from ..embedding.embedding import MeanEmbedding
from .backbone import AS_IT_IS, FittedBackbone, Transform
from .guard import FAR, WIDE
from .latent import Latent
from .shifted import ENOUGH, MANY, ShiftedLaw


def latent_names(d: int) -> tuple[str, ...]:
    """x, or x0, x1, ...."""
    return tuple(Labels().named(d, "x"))


@dataclass(frozen=True)
class NodeModel:
    """A learned model as one to draw from: between nodes, mixtures of the laws at the nodes.

    Has the verbs of `particles.StateSpace`, which the particle filter and `as_particles_model`
    take. Draws of a law with negative weights are by rejection (Lemma 4.7 of the thesis, with
    ρ/(Mq) for its q/(Mρ)).

    Attributes
    ----------
    model : FittedChain
    latent : Latent
    """

    model: FittedChain
    latent: Latent

    @cached_property
    def means(self) -> np.ndarray:
        """E[y | x = node], (m, d)."""
        return arrays.to_numpy(self.model.emissions.mean())

    def draw_first(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n states of the stationary law, (n, n_latent)."""
        states = rng.choice(len(self.latent.nodes), n, p=self.model.chain.startprob)
        return self._near(states, rng)

    def draw_next(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One next state of every row of `x`, (N, n_latent)."""
        return self._near(one_of(self.latent.shares(x) @ self.model.chain.transmat, rng), rng)

    def log_emission(self, Y: np.ndarray, x: np.ndarray) -> np.ndarray:
        """log p(y_i | x_j), (m, N)."""
        logb = self.model.log_densities(arrays.like(Y, self.model.emissions.points))
        top = logb.max(axis=1, keepdims=True)
        return arrays.logs(np.exp(logb - top) @ self.latent.shares(x).T) + top

    def draw_emission(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One observation of every row of `x`, (N, d)."""
        return self.model.draw_from(one_of(self.latent.shares(x), rng), rng)

    def mean_emission(self, x: np.ndarray) -> np.ndarray:
        """E[y | x] of every row of `x`, (N, d)."""
        return self.latent.shares(x) @ self.means

    def _near(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        x = self.latent.nodes[states]
        return x + self.latent.jitter * rng.standard_normal(x.shape)


@dataclass(frozen=True, repr=False)
class LatentResult(Batch):
    """Laws of the latent state of every row: one of many equivalent representations.

    Means and units are conventions; in one dimension ranks are not, up to reversal. Ends of
    intervals are nodes.

    Attributes
    ----------
    embedding : MeanEmbedding
        Batch of n laws on the nodes.
    labels : Labels
        Names of the latent coordinates, and the index of the rows.
    moments : (array, array), optional
        Means and variances of particles, (n, n_latent) each; None is those of the embedding.
    """

    embedding: MeanEmbedding
    labels: Labels
    moments: tuple[Array, Array] | None = None
    embeddings = attribute("embeddings", "embedding")

    def mean(self) -> Array:
        """E x, (n, n_latent)."""
        return self.embedding.mean() if self.moments is None else self.moments[0]

    def variance(self) -> Array:
        """Of every latent coordinate, (n, n_latent)."""
        return self.embedding.std() ** 2 if self.moments is None else self.moments[1]

    def std(self) -> Array:
        """Standard deviation of every latent coordinate, (n, n_latent)."""
        return self.variance() ** 0.5

    @property
    def probabilities(self) -> Array:
        """Of the nodes, (n, m)."""
        return self.embedding.weights

    def __getitem__(self, index) -> Any:
        some, told = super().__getitem__(index), self.moments
        return some if told is None else replace(some, moments=tuple(part[index] for part in told))

    def __repr__(self) -> str:
        latent = f"{self.embedding.points.shape[1]} latent"
        return f"LatentResult({self.embedding.batch or 1} rows, {latent})"


@dataclass(frozen=True, repr=False)
class StateForecast(RegimeForecast):
    """Laws of observations, from probabilities of the nodes: of those to come, or given the rows.

    Attributes
    ----------
    chain : FittedChain
    states : array of shape (n, m)
        Probabilities of the nodes.
    labels : Labels
        Names of the columns, and dates or numbers of the steps.
    """

    stands_for = "nodes"
    many = MANY

    def at(self, rows) -> Self:
        """The old name of `[rows]`."""
        warnings.warn("at(rows) of forecasts is now [rows]", FutureWarning, stacklevel=2)
        return self[rows]

    def mean(self) -> Array:
        """E y, (n, d)."""
        means = self.chain.emissions.mean()
        return arrays.like(self.states, means) @ means


@dataclass(frozen=True, repr=False)
class LineForecast(ShiftedLaw, StateForecast):
    """The same beside a backbone: `embedding` is of the innovations, which a line moves."""

    shift: np.ndarray = field(kw_only=True)
    extra: np.ndarray = field(kw_only=True)
    transform: Transform = AS_IT_IS

    many = ENOUGH
    by_row = ("states", "shift", "extra")

    def log_guarded(self, Z: np.ndarray) -> np.ndarray:
        """log-density of each law at its own row, (n,), beside a share of a wide normal law.

        `Z` are the rows, transformed. As the guard of the states has it: never that of zero,
        however far the row.
        """
        laws, widths, d = self.embedding, self._widths(), Z.shape[1]
        each, p, off = self.chain.emissions, arrays.to_numpy(self.states), Z - self.shift
        means, stds = (arrays.to_numpy(one) for one in (each.mean(), each.std()))
        if self.chain.variates is not None:  # which have no widths of the columns
            usual = normal_bandwidth(laws.points.shape[0], d) * (p @ stds)
            widths = np.where(widths > usual / 10, widths, usual)
        mean = p @ means
        wide = WIDE**2 * (p @ (stds**2 + means**2) - mean**2 + widths**2)
        far = (off - mean) ** 2 / wide + np.log(2 * np.pi * wide)
        near, weights = np.empty(len(Z)), arrays.to_numpy(laws.weights)
        for k, width in enumerate(map(one_or_each, widths)):
            kernel, some = laws.kernel.smoothing(width), np.flatnonzero(~np.isnan(off[k])).tolist()
            points = arrays.take(laws.points, some, axis=1)
            heights = kernel.on(some, d).density_of(self._like(off[[k]][:, some]), points)
            near[k] = (arrays.to_numpy(heights) @ weights[k])[0]
        near = np.log1p(-FAR) + arrays.logs(near)
        guarded = np.logaddexp(near, np.log(FAR) - 0.5 * np.nansum(far, axis=1))
        return guarded + self.transform.slope(Z)


class LatentBelief(RegimeBelief):
    """Probabilities of the nodes, to which observations are fed one at a time.

    Made by `KernelStateSpace.start`. `predict` and `update` change it, and return it; `copy`
    keeps a version.
    """

    def __init__(self, model: FittedChain, prior, labels: Labels, nodes: np.ndarray):
        super().__init__(model, prior, labels)
        self._nodes = nodes

    @property
    def latent(self) -> np.ndarray:
        """Mean of the latent state, (n_latent,)."""
        return self.probabilities @ self._nodes

    def __repr__(self) -> str:
        return f"LatentBelief(latent={np.round(self.latent, 3).tolist()})"


class LineBelief(ShiftedLaw, LatentBelief):
    """The same beside a backbone."""

    def __init__(self, *known, line: FittedBackbone, inputs, names):
        super().__init__(*known)
        self._line_names = names
        self._line, self.transform, self._past = line, line.transform, line.first
        self._told: Any = None  # the row, and what is known of its own part
        self._expect(inputs)

    def predict(self, inputs=None) -> Self:
        """One step on in time; `inputs`, (k,), are those of the next row."""
        inputs = as_input_row(inputs, self._line.n_inputs, self._line_names)
        if self._told is None:
            self.update(np.full(len(self._known), np.nan))
        self._past, self._told = self._line.moved(self._past, *self._told), None
        self._expect(inputs)
        super().predict()
        return self

    def update(self, x) -> Self:
        """What the observation `x`, shape (d,), says about the state; NaN says nothing."""
        point, seen = as_observation(x, self.chain.emissions.points, self.labels.columns)
        gaps = gaps_in(np.atleast_1d(arrays.to_numpy(x))[None])
        z = self.transform.along(np.where(gaps, np.nan, arrays.to_numpy(point)))[0]
        usual = 0.0 if seen[0] else arrays.to_numpy(self.embedding.mean())
        self._told = z, self._known + usual
        settled = self._line.settled(np.diag(self.extra)[None])[0]
        super().update(arrays.like(np.where(settled, z - self.shift, np.nan), point))
        return self

    def _expect(self, inputs) -> None:
        """What the line says of the row to come."""
        past = self._past
        self._known = self._line.known(np.array([past.time]), inputs)[0]
        self.shift = self._known + past.mean[0]
        self.extra = np.diag(past.cov)[: len(self.shift)].copy()

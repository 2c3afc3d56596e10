"""What a hidden Markov model returns: forecasts, and a belief that is carried on row by row."""

from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from ..core import Array, Interval, Labels, arrays, checks
from ..core.moments import block_rows
from ..core.old_names import attribute
from ..embedding.embedding import MeanEmbedding
from ..embedding.law import Law
from ..kernels import Delta, OnColumns
from .markov import moved
from .mixtures import mixed_quantiles
from .model import FittedChain, draws
from .rows import as_input_row, gaps_in, observed_like


class Batch(Law):
    """Laws that can be counted, taken one by one, and in part: dataclasses with `labels`."""

    by_row: ClassVar[tuple[str, ...]] = ("embedding",)  # what each law has its own of

    def __len__(self) -> int:
        return len(self.embedding)

    def __getitem__(self, index) -> Any:
        """One of the laws, whose answers are without the axis of a batch; or a smaller batch."""
        chosen = np.arange(len(self))[index]
        own = {name: _some(getattr(self, name), chosen) for name in self.by_row}
        batch: Any = self  # a dataclass, below
        return replace(batch, labels=self.labels.at(chosen, len(self)), **own)


def _some(values: Any, chosen: np.ndarray) -> Any:
    if isinstance(values, tuple):
        return tuple(values[i] for i in chosen)
    one = chosen.ndim == 0 or isinstance(values, MeanEmbedding)
    return values[chosen.tolist()] if one else arrays.take(values, chosen, axis=0)


class StatesLaw(Law):
    """Mixtures of the laws of states, a `chain` whose `states` have these probabilities.

    Quantiles share the bandwidth of the emission densities.
    """

    chain: FittedChain
    states: Array
    many: ClassVar[float] = np.inf  # points, from which on neighbours are taken together

    @property
    def _smoothing(self):
        """The same; else the default of each column, and none where it holds values of a table."""
        if self.bandwidth is not None:
            return self.bandwidth
        kernel, d = self.embedding.kernel, self.embedding.points.shape[1]
        apart = isinstance(kernel, OnColumns)
        each = [kernel.on([j], d) if apart else kernel for j in range(d)]
        return tuple(0.0 if isinstance(own, Delta) else None for own in each)

    def interval(self, level: float = 0.95, kind: str = "central") -> Interval:
        """`Interval(lower, upper)` of every column, (m, d) each; `kind` as for `MeanEmbedding`."""
        if kind != "central":  # of the density, as `density` has it
            return self.embedding.interval(level, kind, self._smoothing or None)
        level = checks.check_level(level)
        return Interval.between(self.quantile([(1 - level) / 2, (1 + level) / 2]))

    def sample(self, n: int, random_state=None) -> Array:
        """n draws of every law, (m, n, d)."""
        rng = checks.generator(random_state)
        if self.embedding.batch is None:
            return draws(self.embedding, n, rng, self.bandwidth)
        xp = arrays.namespace(self.embedding.points)
        laws = [self.embedding[k] for k in range(len(self.embedding))]
        return xp.stack([draws(law, n, rng, self.bandwidth) for law in laws])

    def quantile(self, q) -> Array:
        """Quantiles of every column: (m, d) for a number, (m, len(q), d) for a list."""
        chain, one = self.chain, self.states.ndim == 1
        if chain.spread is None or not (widths := self._widths()).any():
            return super().quantile(q)
        points, states = chain.emissions.points, np.atleast_2d(arrays.to_numpy(self.states))
        blocks = arrays.slices(len(states), block_rows(points.shape[0]))
        found = [mixed_quantiles(chain, states[b], q, widths[b], self.many) for b in blocks]
        return found[0][0] if one else arrays.namespace(points).concat(found, axis=0)

    def _widths(self) -> np.ndarray:
        """Bandwidths of all laws and columns, (m, d)."""
        shape = np.atleast_2d(self.states).shape[0], self.chain.emissions.points.shape[1]
        return np.broadcast_to(np.asarray(self.chain.spread), shape)


@dataclass(frozen=True, repr=False)
class RegimeForecast(StatesLaw, Batch):
    """Laws of the observations that come after those given, step by step.

    Attributes
    ----------
    chain : FittedChain
    states : array of shape (steps, K)
        Probabilities of the states; several sequences follow each other.
    labels : Labels
        Names of the columns, and dates or numbers of the steps.
    """

    chain: FittedChain
    states: Array
    labels: Labels = field(default_factory=Labels)

    stands_for: ClassVar = "states"
    by_row: ClassVar[tuple[str, ...]] = ("states",)
    observations = attribute("observations", "embedding")

    @cached_property
    def embedding(self) -> MeanEmbedding:
        """Batch of embedded laws, Σ_k P(x = k) μ_k."""
        return self.chain.mixture(arrays.to_numpy(self.states))

    @property
    def bandwidth(self):  # type: ignore[override]
        """Of the emission densities; 0, that of weighted rows, where these are of variates."""
        return self.chain.spread

    def __len__(self) -> int:  # without the embedding, which is of steps by points
        return self.states.shape[0] if self.states.ndim == 2 else len(self.embedding)

    def __repr__(self) -> str:
        steps, states = np.atleast_2d(self.states).shape
        return f"{type(self).__name__}({steps} steps, {states} {self.stands_for})"


def as_prior(prior, K: int) -> np.ndarray:
    """Probabilities of K states."""
    p = arrays.to_numpy(checks.as_floats(prior, "prior"))
    if not (p.shape == (K,) and p.min() >= 0 and abs(p.sum() - 1) < 1e-6):
        raise ValueError(f"prior is {prior!r}; {K} probabilities that sum to one are needed")
    return p / p.sum()


def as_observation(x, points: Array, names=None) -> tuple[Array, np.ndarray]:
    """One observation as a row, (1, d), and whether it is there; `points` are of training."""
    checks.check_order(checks.as_row(x), names, "x", "the training data")
    x = checks.as_floats(x, "x")
    x = x[None] if x.ndim == 0 else x
    if x.ndim != 1:
        raise ValueError(f"x has shape {tuple(x.shape)}; one observation, (d,), is needed")
    return observed_like(x[None, :], "x", points)


class RegimeBelief(StatesLaw):
    """Probabilities of the states, to which observations are fed one at a time.

    A law of the observation: that of the row just seen after `update`, of the next one after
    `predict`. Made by `start` of a model. `predict` and `update` change it, and return it; `copy`
    keeps a version.
    """

    observation = attribute("observation", "embedding")

    def __init__(self, model: FittedChain, prior, labels: Labels, input_names=None):
        self.chain, self.bandwidth, self.labels = model, model.spread, labels
        self._input_names = input_names
        start = model.chain.startprob
        self.states = start if prior is None else as_prior(prior, len(start))

    @property
    def probabilities(self) -> Array:
        """P(state = k), (K,)."""
        return self.states.copy()

    def predict(self, inputs=None) -> Self:
        """One step on in time; `inputs`, (k,), are those of the next row, where they drive it."""
        chain = self.chain.chain
        moves = chain.into(as_input_row(inputs, chain.n_inputs, self._input_names))
        self.states = moved(self.states[None], moves)[0]
        return self

    def update(self, x) -> Self:
        """What the observation `x`, shape (d,), says about the state; NaN says nothing."""
        point, seen = as_observation(x, self.chain.emissions.points, self.labels.columns)
        gaps = None if seen.all() else gaps_in(np.atleast_1d(arrays.to_numpy(x))[None])
        self.states = self.chain.updated(self.states, point, seen, gaps)
        return self

    @property
    def embedding(self) -> MeanEmbedding:
        """The embedded law of the observation."""
        return self.chain.mixture(self.states[None])[0]

    def copy(self) -> Self:
        """A belief that later steps of this one leave alone."""
        return copy(self)

    def __repr__(self) -> str:
        return f"RegimeBelief({np.round(self.states, 3).tolist()})"

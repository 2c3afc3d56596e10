"""A fitted chain with embedded laws, as a value: what filters, smooths, forecasts and draws."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from ..core import Array, arrays
from ..embedding.embedding import MeanEmbedding
from . import markov
from .emission import EmissionsByState, Laws, SignedEmissions
from .markov import Chain
from .model_bayes import ModelBayes
from .rows import Rows
from .variates import Variates

LEAST = 1e-9  # weight of a row in the part of a law that is no guard


@dataclass(frozen=True)
class FittedChain:
    """x_t a chain on K states, y_t from the law of its state.

    Attributes
    ----------
    chain : Chain
    emissions : MeanEmbedding
        Batch of the K embedded laws.
    laws : Emissions, SignedEmissions or EmissionsByState
        Their densities.
    bandwidth : float, tuple or None
        Of the densities; the geometric mean, where each state has its own.
    variates : Variates or None
        Functions of y that the densities are of; None is y itself.
    rule : ModelBayes or None
        Kernel Bayes' rule, where that filters; None is Bayes' rule with the densities.
    """

    chain: Chain
    emissions: MeanEmbedding
    laws: Laws
    bandwidth: float | tuple[float, ...] | None
    variates: Variates | None = None
    rule: ModelBayes | None = None

    @property
    def spread(self) -> float | tuple[float, ...] | None:
        """The bandwidth that quantiles share: 0 where densities are of variates."""
        return self.bandwidth if self.variates is None else 0.0

    def reordered(self, order: np.ndarray) -> FittedChain:
        """State k becomes what state order[k] was."""
        chain, laws = self.chain.reordered(order), self.laws.reordered(order)
        rule = self.rule and self.rule.reordered(order)
        return replace(self, chain=chain, emissions=self.emissions[order], laws=laws, rule=rule)

    # ------------------------------------------------------------ states

    def along(self, rows: Rows) -> Chain:
        """The chain along some rows, whose inputs may drive it."""
        return self.chain.along(rows.inputs)

    def filtered(self, rows: Rows) -> np.ndarray:
        """P(x_t = k | y_1, ..., y_t), (n, K)."""
        if self.rule is None:
            return markov.filtered(self.log_emissions(rows), self.along(rows), rows.sequences)[0]
        shares = self.rule.shares_of(rows.points, rows.seen)
        told = None if rows.gaps is None else self.log_emissions(rows)
        return self.rule.filtered(shares, self.along(rows), rows.sequences, told)

    def smoothed(self, rows: Rows) -> np.ndarray:
        """P(x_t = k | all y of the sequence), (n, K)."""
        return markov.smoothed(self.filtered(rows), self.along(rows), rows.sequences)

    def predicted(self, rows: Rows) -> np.ndarray:
        """P(x_t = k | y_1, ..., y_{t-1}), (n, K)."""
        return markov.predicted(self.filtered(rows), self.along(rows), rows.sequences)

    def updated(self, prior: np.ndarray, point, seen: np.ndarray, gaps=None) -> np.ndarray:
        """Probabilities of the states after one observation, (K,)."""
        after = replace(self, chain=Chain(prior, self.chain.transmat))
        return after.filtered(Rows.of(point, seen, [slice(0, 1)], gaps))[0]

    def ahead(self, rows: Rows, steps: int, inputs=None) -> np.ndarray:
        """P(x_{T+h} = k | y_1, ..., y_T), h = 1, ..., steps, sequence by sequence.

        `inputs` of these rows, where they drive the chain, lie below each other likewise.
        """
        states = [self.filtered(rows)[[s.stop - 1 for s in rows.sequences]]]
        for h in range(steps):
            given = None if inputs is None else inputs[h::steps]
            states.append(markov.moved(states[-1], self.chain.into(given)))
        return np.stack(states[1:], axis=1).reshape(-1, states[0].shape[1])

    # ------------------------------------------------------------ observations

    def log_densities(self, points) -> np.ndarray:
        """log f_k of every row, (n, K)."""
        return self.laws.log_density(points if self.variates is None else self.variates(points))

    def log_emissions(self, rows: Rows) -> np.ndarray:
        """The same; of the columns that are there, and 0 where a row is missing."""
        logb = self.log_densities(rows.points)
        logb[~rows.seen] = 0.0
        if self.marginals:
            for numbers, columns, points in rows.parts:
                logb[numbers] = self.marginal(columns).log_density(points)
        return logb

    @property
    def marginals(self) -> bool:
        """Whether the laws of some of the columns are known."""
        return self.variates is None and not self.laws.guard.n_values

    def marginal(self, columns: list[int]) -> Laws:
        """Densities of some columns."""
        laws, guard = self.kernel_part.marginal(columns), self.laws.guard.marginal(columns)

        def of_states(width) -> SignedEmissions:
            some = tuple(width[j] for j in columns) if isinstance(width, tuple) else width
            return SignedEmissions(laws, some, guard)

        if not isinstance(self.laws, EmissionsByState):
            return of_states(self.spread)
        widths = self.laws.widths
        each = (of_states(w).reordered(np.array([k])) for k, w in enumerate(widths))
        return EmissionsByState(tuple(each), widths)

    def width(self, k: int) -> float | tuple[float, ...] | None:
        """The bandwidth of a state; 0 where densities are of variates."""
        if isinstance(self.laws, EmissionsByState) and self.variates is None:
            return self.laws.widths[k]
        return self.spread

    def log_predictive(self, rows: Rows) -> np.ndarray:
        """log p(y_t | y_1, ..., y_{t-1}), (n,)."""
        logb = self.log_emissions(rows)
        if self.rule is None:
            return markov.filtered(logb, self.along(rows), rows.sequences)[1]
        return logsumexp(logb, b=self.predicted(rows), axis=1)

    def mixture(self, states: np.ndarray) -> MeanEmbedding:
        """Σ_k P(x = k) μ_k for rows of probabilities."""
        left, _ = self.emissions.factors
        return self.emissions.reweighted(arrays.like(states, self.emissions.points) @ left)

    @property
    def guarded(self) -> bool:
        """Whether guards have a large share of the laws of y itself."""
        return self.variates is None and self.laws.guard.large

    @property
    def kernel_part(self) -> MeanEmbedding:
        """The emissions without the points that stand for a guard."""
        count = self.laws.guard.imagined * len(self.laws.guard.counts)
        if not (self.guarded and count):
            return self.emissions
        left = arrays.to_numpy(self.emissions.weights)
        rows = np.arange(left.shape[1]) < left.shape[1] - count
        left = (left + LEAST) * rows  # of a law that is all guard, too
        return self.emissions.reweighted(arrays.like(left, self.emissions.points))

    def draw(self, n: int, rng: np.random.Generator, inputs=None) -> tuple[Array, np.ndarray]:
        """A sequence of observations, (n, d), and of states, (n,)."""
        states = markov.draw(self.chain.along(inputs), n, rng)
        return arrays.like(self.draw_from(states, rng), self.emissions.points), states

    def paths(self, start: np.ndarray, n: int, steps: int, rng: np.random.Generator) -> np.ndarray:
        """Observations after states of the law `start`, (n, steps, d)."""
        states = np.empty((n, steps), dtype=int)
        now = rng.choice(len(start), n, p=start / start.sum())
        for t in range(steps):
            states[:, t] = now = markov.one_of(self.chain.transmat[now], rng)
        return self.draw_from(states.ravel(), rng).reshape(n, steps, -1)

    def draw_from(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An observation of each of some states."""
        X = np.empty((len(states), self.emissions.points.shape[1]))
        for k in np.unique(states):
            here = np.flatnonzero(states == k)
            law = self.emissions[int(k)]
            X[here] = arrays.to_numpy(draws(law, len(here), rng, self.width(int(k))))
            guard = self.laws.guard
            if self.variates is None and guard.whitening is not None:  # a large share
                normal = here[rng.random(len(here)) < guard.share[k]]
                X[normal] = guard.draws(int(k), len(normal), rng)
        return X


def draws(law: MeanEmbedding, n: int, rng: np.random.Generator, bandwidth) -> Array:
    """n draws from the density of a law; without a bandwidth (0), of its points by their weights.

    Points are drawn so where densities are of variates: y itself has none.
    """
    if bandwidth != 0.0:
        return law.sample(n, rng, bandwidth)
    weights = np.maximum(arrays.to_numpy(law.weights), 0.0)
    rows = rng.choice(len(weights), n, p=weights / weights.sum())
    return arrays.take(law.points, rows, axis=0)

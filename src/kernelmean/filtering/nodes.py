"""A filter whose laws are conditional densities: the training states are the nodes of a chain."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core import arrays
from ..core.checks import Array, frozen
from ..densities import fit as densities
from ..embedding.embedding import MeanEmbedding
from ..kernels import Kernel
from .laws import LawsAt, Standard, StateLaw
from .machine import Recursion, Step

NODES = 1_000
ABSURD = 12.0  # log density below that of the most surprising training row, of a collapse
BLOCK = 200  # observations whose densities are formed together


@dataclass(frozen=True, eq=False)
class NodeMachine(Recursion):
    """Bayes' rule on weights of the nodes z_j, with learned densities p(z'|z) and p(x|z).

    The nodes are draws of p(z'|z_i) at the training states, which are fewer and end sooner.

    - predict: w'_j = Σ_i w_i K_ij, K_ij ∝ p(z_j|z_i) / Σ_l p(z_j|z_l), rows summing to one: the
      nodes are draws of the law that the densities in the denominator average to;
    - update: w_j ∝ w'_j p(x|z_j);
    - smooth: the backward pass of that chain, v_i = w_i Σ_j K_ij s_j / w'_j.

    Attributes
    ----------
    points : array of shape (N, d_z)
        The nodes.
    points_x : array of shape (N, d_x)
        A draw of what is observed at each.
    transition : array of shape (N, N)
        K.
    observing : Fit
        p(x|z), of `ConditionalDensity`,
    least : float
        Log density of the training observation that is least likely at its own state.
    standard : Standard, optional
        What x is standardised by, where `observing` is a law of the standardised one.
    """

    points: Array
    points_x: Array
    kernel_x: Kernel
    kernel_z: Kernel
    transition: np.ndarray
    observing: densities.Fit
    least: float
    standard: Standard | None = None

    @classmethod
    def of(cls, X, Z, pairs, kernel_x: Kernel, kernel_z: Kernel, limit: int) -> NodeMachine:
        """From observations and states, and the rows (earlier, later) of the transitions."""
        earlier, later = pairs
        moving, seeing = StateLaw.of(Z[earlier], Z[later]), StateLaw.of(Z, X)
        least = float(np.min(seeing.at(Z).log_density_of_pairs(X)))
        rng, rows = np.random.default_rng(0), evenly_again(len(Z), limit)
        points = frozen(moving.at(Z[rows]).sample(rng))
        transition = chain_of(moving.at(points).log_density(points))
        told = frozen(seeing.at(points).sample(rng))
        both = seeing.density, least, seeing.standard
        return cls(points, told, kernel_x, kernel_z, transition, *both)

    def state(self) -> dict[str, Any]:
        """Its fields, without what is formed on first use."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def _laws(self) -> LawsAt:
        """Of an observation, at each node."""
        return StateLaw(self.observing, self.standard).at(self.points)

    # ------------------------------------------------------------ one step

    def first(self, prior: MeanEmbedding) -> Step:
        """Weights in proportion to the prior's density at the nodes over their own."""
        if prior.points is self.points:
            return self._step(arrays.to_numpy(prior.weights), "start")
        K = arrays.to_numpy(self.kernel_z(self.points, prior.points))
        near = K @ np.maximum(arrays.to_numpy(prior.weights), 0.0)
        density = arrays.to_numpy(self.kernel_z(self.points)).mean(axis=1)
        return self._step(near / density, "start")

    def everywhere(self) -> MeanEmbedding:
        """The law of the nodes."""
        n = len(self.points)
        return MeanEmbedding.of_parts(self.points, np.full(n, 1.0 / n), None, self.kernel_z)

    def predicted(self, step: Step) -> Step:
        """One step on in time."""
        told = self._step(step.belief @ self.transition, "predicted")
        return replace(told, previous=step.mean)

    def observed(self, step: Step, x, supervision=None) -> Step:
        """The step after one observation, (1, d_x); supervision is refused before it comes here."""
        return self._updated(replace(step, collapsed=False), self.log_densities(x)[:, 0])

    def log_densities(self, X) -> np.ndarray:
        """log p(x|z_j) of all nodes and some observations, (N, m)."""
        parts = [self._laws.log_density(X[i : i + BLOCK]) for i in range(0, len(X), BLOCK)]
        return np.concatenate(parts, axis=1)

    def _updated(self, step: Step, log_density: np.ndarray) -> Step:
        """Bayes' rule; an observation unlike any seen in training changes nothing."""
        top = float(log_density.max())
        if top < self.least - ABSURD:
            return replace(step, collapsed=True)
        return self._step(step.belief * np.exp(log_density - top), "updated")

    def smoothed(self, step: Step, later: Step) -> Step:
        """A filtered step once the belief about the next one is known."""
        ahead = np.maximum(step.belief @ self.transition, np.finfo(float).tiny)
        revised = self._step(step.belief * (self.transition @ (later.belief / ahead)), "smoothed")
        return replace(revised, collapsed=step.collapsed)

    def _step(self, weights: np.ndarray, kind: str) -> Step:
        """Weights in proportion to these; all the same where they come to nothing."""
        total = weights.sum()
        w = weights / total if total > 0 else np.full(len(weights), 1.0 / len(weights))
        return Step(w, np.concatenate([[1.0], w @ self.points]), kind, w)

    # ------------------------------------------------------------ many steps

    def advance(self, first: Step, points, missing, sequences, supervise=None) -> list[Step]:
        """All sequences, one after the other."""
        seen = np.flatnonzero(~np.asarray(missing))
        column = dict(zip(seen.tolist(), range(len(seen)), strict=True))
        told = self.log_densities(points[seen]) if len(seen) else np.empty((len(self.points), 0))
        steps: list[Step] = []
        for sequence in sequences:
            for t in range(sequence.start, sequence.stop):
                step = first if t == sequence.start else self.predicted(steps[-1])
                steps.append(self._updated(step, told[:, column[t]]) if t in column else step)
        return steps

    # ------------------------------------------------------------ what steps stand for

    def embed(self, steps) -> MeanEmbedding:
        """The batch of embeddings of the states."""
        W = np.stack([step.belief for step in steps])
        return MeanEmbedding.of_parts(self.points, W, None, self.kernel_z)

    def observations(self, steps) -> MeanEmbedding:
        """The batch of embeddings of what is observed then: each node has its observation."""
        W = np.stack([step.belief for step in steps])
        return MeanEmbedding.of_parts(self.points_x, W, None, self.kernel_x)


def evenly_again(n: int, limit: int) -> np.ndarray:
    """Numbers of evenly spaced rows, twice each but `limit` at most in all."""
    return np.linspace(0, n - 1, min(2 * n, limit)).round().astype(int)


def chain_of(log_density) -> np.ndarray:
    """Transition probabilities between nodes from log p(z_j|z_i), (N, N)."""
    found = arrays.to_numpy(log_density)
    K = np.exp(found - found.max(axis=0))
    K /= K.sum(axis=0)
    total = K.sum(axis=1, keepdims=True)
    return np.where(total > 0, K / np.maximum(total, np.finfo(float).tiny), 1.0 / len(K))

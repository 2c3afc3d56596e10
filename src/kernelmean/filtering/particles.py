"""A filter on densities by particles, of states for which nodes would be too far apart."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..core import arrays
from ..core.moments import evenly, normal_bandwidth
from ..densities.standard import NormalErrors
from ..embedding.embedding import MeanEmbedding
from ..embedding.positive_part import Even, at_levels
from ..kernels import Kernel
from .laws import Laws, LawsAt, StateLaw
from .machine import Step
from .nodes import NodeMachine, nodes_of

PARTICLES, QUICK = 1_024, 256  # that follow a belief; while ways are compared
SMOOTHED = 500  # of those a step later, by which one is smoothed,
HARDLY = 1e-3  # and weights, times their number, that are not
REACH = 0.5  # of Silverman's rule for the particles, by which laws are widened there
ANEW, SHARE = 0.05, 1e-3  # share of them that begin anew, and what these weigh together


class ParticleMachine(NodeMachine):
    """Bayes' rule on particles that move by p(z'|z) and are weighed by p(x|z).

    Laws narrower than the way between nodes would have to reach for the next ones, and a belief
    would spread with each step. Draws do not: nodes say only where answers stand, each particle
    counting at the node that is nearest.

    - predict: particles are drawn in proportion to their weights, and from the law of each its
      successor, by even draws of both: Sobol's, particles in the order of a curve through all
      (Gerber & Chopin 2015). A few begin anew anywhere, with next to no weight, and find a track
      that was lost;
    - update: w_i ∝ w_i p(x|z_i);
    - smooth: v_i ∝ w_i Σ_j S_ij s_j / Σ_j S_ij p_j, S_ij = p(z'_j|z_i) / Σ_k w_k p(z'_j|z_k), p and
      s the weights of the particles a step later, before and after what was seen from then on; what
      leads to none of them as the nearest that does. Laws are widened by half of what Silverman's
      rule smooths particles by (`reaching`).

    What is drawn at a step depends on the belief and on its age alone. Errors that are not normal
    are drawn at random.

    Attributes
    ----------
    moving : StateLaw
        p(z'|z).
    count : int
        Particles after a step.
    low, high : arrays of shape (d_z,)
        The box that they stay in.
    """

    def __init__(self, laws: Laws, kernel_x: Kernel, kernel_z: Kernel, points, count: int, rng):
        super().__init__(laws, kernel_x, kernel_z, points, None, rng)
        self.moving = replace(laws.moving, mean=None, size=None)
        self.count = count
        self.low, self.high = laws.box

    @cached_property
    def _drawn(self) -> np.ndarray:
        """Weights of particles that have moved, and of those that begin anew."""
        n, anew = self.count, round(ANEW * self.count)
        weights = np.repeat([1.0 / n, SHARE / max(1, anew)], [n, anew])
        return weights / weights.sum()

    @cached_property
    def _tables(self) -> tuple[StateLaw, StateLaw]:
        """How states move, and what is seen of them, with errors that are not normal on a grid."""
        seeing = StateLaw(self.observing, self.standard)
        return self.moving.tabled(self._tree.data), seeing.tabled(self._tree.data)

    @property
    def counts(self) -> dict[str, float]:
        return {**super().counts, "particles": self.count}

    # ------------------------------------------------------------ one step

    def first(self, prior: MeanEmbedding) -> Step:
        """The points of the prior are the particles."""
        points = self._inner(arrays.to_numpy(prior.points))
        return self._on(points, np.maximum(arrays.to_numpy(prior.weights), 0.0), "start", 0)

    def _on(self, points, weights, kind: str, age: int) -> Step:
        """Particles with weights in proportion to these; all the same where they are nothing."""
        total = weights.sum()
        w = weights / total if total > 0 else np.full(len(weights), 1.0 / len(weights))
        read = np.concatenate([[1.0], w @ points * self.units + self.middle])
        return Step(w, read, kind, partial(self._told, points, w), cloud=points, age=age)

    def predicted(self, step: Step) -> Step:
        """One step on in time."""
        rng, n = np.random.default_rng(step.age), self.count
        even: Any = Even(n, 1 + step.cloud.shape[1], rng)
        levels = even.take(1)[:, 0]
        drawn = at_levels(step.belief, along_a_curve(step.cloud), levels)
        parents, which = np.unique(drawn, return_inverse=True)
        moving, _ = self._tables
        draws = even if isinstance(moving.density, NormalErrors) else rng
        moved = moving.at(step.cloud[parents]).sample(draws, which)[levels.argsort()]
        anew = self._tree.data[rng.integers(len(self.points), size=len(self._drawn) - n)]
        points = np.concatenate([np.clip(moved, self.low, self.high), anew])
        told = self._on(points, self._drawn, "predicted", step.age + 1)
        return replace(told, previous=step.mean)

    def coordinates(self, X) -> np.ndarray:
        """Observations in the units of the laws."""
        return self._seen(X)

    def _one(self, step: Step, x: np.ndarray) -> Step:
        laws = self._tables[1].at(step.cloud)
        return super()._one(step, laws.log_density(x[None])[:, 0])

    def _weighed(self, step: Step, weights: np.ndarray, kind: str) -> Step:
        return replace(self._on(step.cloud, weights, kind, step.age), collapsed=step.collapsed)

    def smoothed(self, step: Step, later: Step) -> Step:
        """A filtered step once the belief about the next one is known."""
        w, drawn = step.belief, self._drawn
        some, many = evenly(len(drawn), SMOOTHED), w * len(w) > HARDLY
        own, told = step.cloud[many], later.cloud[some]  # as they were drawn from the step
        S = reaching(self.moving.normal.at(own), later.cloud[: self.count]).log_density(told)
        S -= S.max(axis=0)
        np.exp(S, out=S)
        S /= w[many] @ S
        before, after = (S @ belief[some] for belief in (drawn, later.belief))
        led = before > 0
        ratios, factor = after[led] / before[led], np.ones_like(w)
        factor[many] = ratios[cKDTree(own[led]).query(own)[1]]
        return self._weighed(step, w * factor, "smoothed")


def along_a_curve(points: np.ndarray) -> np.ndarray:
    """Their order on Morton's curve through the ranks of the columns: neighbours stay near.

    The bits of the ranks, first bits first, those of all columns in turn.
    """
    n = len(points)
    ranks = points.argsort(axis=0).argsort(axis=0)
    bits = ranks[:, None] >> np.arange(n.bit_length())[::-1, None] & 1
    return np.lexsort(np.packbits(bits.reshape(n, -1).astype(bool), axis=1).T[::-1])


def reaching(laws: LawsAt, cloud: np.ndarray) -> LawsAt:
    """Normal laws N(m, D(LLᵀ + h²C)D), C being the covariance of particles in units of a typical D.

    Where states follow from each other, places from speeds, say, a particle would else be led to
    by its parent alone: going back, all would soon be children of one.
    """
    assert isinstance(laws.laws, NormalErrors)
    n, d = cloud.shape
    off = (cloud - cloud.mean(axis=0)) * np.exp(-laws.log_size.mean(axis=0))
    width, root = REACH * normal_bandwidth(n, d), laws.laws.root
    cov = root @ root.T + width**2 / n * off.T @ off
    return replace(laws, laws=NormalErrors(np.linalg.cholesky(cov)))


def machine_of(laws: Laws, kernel_x: Kernel, kernel_z: Kernel, limit, quick: bool) -> NodeMachine:
    """A machine of these laws: a chain on nodes, or particles where nodes would be too many."""
    rng = np.random.default_rng(0)
    points, sizes = nodes_of(laws, limit, quick, rng)
    if sizes is not None:
        return NodeMachine(laws, kernel_x, kernel_z, points, sizes, rng)
    count = limit or (QUICK if quick else PARTICLES)
    return ParticleMachine(laws, kernel_x, kernel_z, points, count, rng)

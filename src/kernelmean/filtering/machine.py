"""The fitted recursion of a filter, as a value: what a belief becomes at each step."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from ..core import Array, Saveable, arrays, checks, solves
from ..embedding.embedding import MeanEmbedding
from ..features.base import FeatureMap
from ..features.landmarks import Further, Landmarks
from ..kernels import Gaussian, Kernel
from .steps import COLLAPSE, FADED, Covariances, Importance, Squared, Transition


@dataclass(frozen=True)
class Step:
    """The belief at one time, and how its weights on the training states are formed if asked."""

    belief: Array  # m, (r,)
    read: Array  # Σ_i w_i [1, z_i], (1 + d,)
    kind: str  # "start", "predicted", "updated" or "smoothed"
    formed: Callable[[], Array] | None = None  # w, (n,); None where the belief holds them
    collapsed: bool = False
    further: tuple[Array, Array] | None = None  # points other than the training states, weights
    previous: Array | None = None  # mean of the step before a prediction, (d,)
    cloud: Any = None  # particles that the belief weighs, (m, d),
    age: int = 0  # and how often they moved

    @property
    def mean(self) -> Array:
        """Σ_i w_i z_i / Σ_i w_i, shape (d,)."""
        return self.read[1:] / self.read[0]

    @property
    def weights(self) -> Array:
        """w on the training states or nodes, (n,)."""
        return self.belief if self.formed is None else self.formed()

    @property
    def scaled(self) -> Array:
        """The belief with weights that sum to one."""
        return self.belief / self.read[0]


class Recursion(Saveable, ABC):
    """What a fitted filter consists of: a belief's way from one step to the next, and back."""

    points: Array
    points_x: Array
    kernel_x: Kernel
    kernel_z: Kernel
    guided: Callable[..., Step]  # of the rule that can be supervised
    share: Any = None  # of the law of the training states, at each point; None is the same at all
    blur: tuple[float, ...] | None = None  # of distribution functions of the states, by column

    @abstractmethod
    def first(self, prior: MeanEmbedding) -> Step:
        """The belief `prior` as a step."""

    @abstractmethod
    def predicted(self, step: Step) -> Step:
        """One step on in time."""

    @abstractmethod
    def coordinates(self, X) -> Array:
        """What an update needs to know of observations, a row each."""

    @abstractmethod
    def updated(self, steps: list[Step], coordinates) -> list[Step]:
        """Each step after an observation; those that collapse keep the prediction."""

    @abstractmethod
    def smoothed(self, step: Step, later: Step) -> Step:
        """A filtered step once the belief about the next one is known."""

    @abstractmethod
    def observations(self, steps: Sequence[Step]) -> MeanEmbedding:
        """The batch of embeddings of what is observed then."""

    @property
    def usual(self) -> Array:
        """Weights of the law of the training states, (n,)."""
        n, xp = self.points.shape[0], arrays.namespace(self.points)
        return xp.full_like(self.points[:, 0], 1.0 / n) if self.share is None else self.share

    def everywhere(self) -> MeanEmbedding:
        """The law of the training states."""
        return MeanEmbedding.of_parts(self.points, self.usual, None, self.kernel_z)

    def advance(
        self, first: Step, points, missing, sequences, supervise: Callable | None = None
    ) -> list[Step]:
        """All sequences, side by side, one time after the other.

        `supervise` maps row number, observation and prediction to the supervision, or None.
        """
        coordinates = self.coordinates(points)
        steps: list[Any] = [None] * points.shape[0]
        for t in range(max(s.stop - s.start for s in sequences)):
            rows = [s.start + t for s in sequences if s.start + t < s.stop]
            for i in rows:
                steps[i] = first if t == 0 else self.predicted(steps[i - 1])
            plain = []
            for i in (i for i in rows if not missing[i]):
                told = supervise and supervise(i, points[i, :], steps[i])
                if told is None:
                    plain.append(i)
                else:
                    steps[i] = self.guided(steps[i], points[i, :], coordinates[i, :], told)
            if plain:
                some = arrays.take(coordinates, plain, axis=0)
                news = self.updated([steps[i] for i in plain], some)
                for i, step in zip(plain, news, strict=True):
                    steps[i] = step
        return steps

    def track(self, X, sequences: list[slice]) -> list[Step]:
        """The same without gaps, from the law of the training states."""
        first = self.first(self.everywhere())
        return self.advance(first, X, np.zeros(X.shape[0], bool), sequences)

    def backward(self, steps: list[Step], sequences: list[slice]) -> list[Step]:
        """Every step given all of its sequence, from filtered ones."""
        steps = list(steps)
        for sequence in sequences:
            for i in range(sequence.stop - 2, sequence.start - 1, -1):
                steps[i] = self.smoothed(steps[i], steps[i + 1])
        return steps

    def ahead(self, step: Step, count: int) -> list[Step]:
        """The next predictions."""
        return [step := self.predicted(step) for _ in range(count)]

    def embed(self, steps: Sequence[Step]) -> MeanEmbedding:
        """The batch of embeddings of the states."""
        points, xp = self.points, arrays.namespace(self.points)
        W = xp.stack([step.weights for step in steps])
        further, weights = _further(steps)
        if further:
            points = xp.concat([points, *further], axis=0)
            W = xp.concat([W, arrays.like(weights, W)], axis=1)
        smooth = None if self.blur is None else Gaussian(1.0)
        return MeanEmbedding.of_parts(points, W, None, self.kernel_z).carrying(smooth=smooth)


@dataclass(frozen=True, eq=False)
class Machine(Recursion):
    """What a fitted filter consists of, and the steps of its recursion (MATH §6)."""

    transition: Transition
    rule: Importance | Squared
    smoother: Importance
    points_x: Array
    points: Array
    kernel_x: Kernel
    kernel_z: Kernel
    features_x: FeatureMap
    features_z: FeatureMap
    reg_prior: float
    reg_transition: float

    @cached_property
    def mass(self) -> Array:
        """Σ_i β_i of a belief m is `mass` @ m."""
        return arrays.namespace(self.points).sum(self.rule.shares.Q, axis=0) @ self.rule.shares.gain

    def with_regs(self, reg: float, back: float) -> Self:
        """The same with other regularisers of the update and of the backward pass."""
        rule, smoother = replace(self.rule, reg=reg), replace(self.smoother, reg=back)
        return replace(self, rule=rule, smoother=smoother)

    # ------------------------------------------------------------ one step

    def first(self, prior: MeanEmbedding) -> Step:
        """The belief `prior`, on points of its own, as a step."""
        xp = arrays.namespace(self.points)
        read = xp.concat([prior.total()[None], prior.apply_weights(prior.points)])
        if prior.points is self.points:
            belief = prior.apply_weights(self.rule.shares.Q)
            return Step(belief, read, "start", partial(getattr, prior, "weights"))
        belief = prior.apply_weights(self.features_z.transform(prior.points))
        if float(self.mass @ belief) < FADED * float(read[0]):
            checks.warn_numerical(
                "prior lies where there are few training states or none: the filter cannot "
                "follow it there",
            )
        nothing, further = partial(xp.zeros_like, self.points[:, 0]), (prior.points, prior.weights)
        return Step(belief, read, "start", nothing, further=further)

    def coordinates(self, X) -> Array:
        """φ(x)."""
        return self.features_x.transform(X)

    def predicted(self, step: Step) -> Step:
        """m ← Vm: one step on in time."""
        m = self.restored(step.belief)
        read = m @ self.transition.outlook
        if not float(read[0]) > COLLAPSE:  # a state that nothing ever followed: anything may
            return replace(self.first(self.everywhere()), previous=step.mean)
        weights = partial(self.transition.weights, m)
        return Step(self.transition.operator @ m, read, "predicted", weights, previous=step.mean)

    def restored(self, m) -> Array:
        """A belief whose mass has faded over many steps without news, brought back to one."""
        mass = float(self.mass @ m)
        if mass >= FADED:
            return m
        return m / mass if mass > 1e-9 else arrays.namespace(m).mean(self.rule.shares.Q, axis=0)

    def updated(self, steps: list[Step], coordinates) -> list[Step]:
        """By kernel Bayes' rule."""
        news = zip(steps, self.rule([step.belief for step in steps], coordinates), strict=True)
        return [self.believe(step, u, read) for step, (u, read) in news]

    def smoothed(self, step: Step, later: Step) -> Step:
        """A filtered step once the belief about the next one is known."""
        return self.back(step)(later, self.smoother.reg)

    def back(self, step: Step) -> Callable[[Step, float], Step]:
        """What a filtered step becomes, by the smoothed step after it and a regulariser.

        What the later belief says beyond the prediction is carried back; where it says nothing,
        the filtered step stays as it is.
        """
        law, ahead = Covariances(self.smoother, step.belief), self.predicted(step).scaled
        xp, r, mass = arrays.namespace(ahead), step.belief.shape[0], step.read[0]

        def revised(later: Step, reg: float) -> Step:
            u, read = law.carried(later.scaled - ahead, reg)
            if not bool(xp.all(xp.isfinite(read))):
                return step
            return replace(
                step,
                belief=step.belief + mass * read[:r],
                read=step.read + mass * read[r:],
                kind="smoothed",
                formed=partial(self._revised, step, mass * u),
            )

        return revised

    def _revised(self, step: Step, u) -> Array:
        """Weights of a filtered step, and what `u` adds to them."""
        return step.weights + Covariances(self.smoother, step.belief).weights(u)

    def believe(self, step: Step, u, read, further=None) -> Step:
        """The step with the weights that `u` stands for, unless they come to nothing."""
        r = step.belief.shape[0]
        if float(read[r]) > COLLAPSE and math.isfinite(float(read @ read)):
            weights = partial(self.rule.weights, step.belief, u)
            return Step(read[:r], read[r:], "updated", weights, further=further)
        return replace(step, collapsed=True)

    def guided(self, step: Step, x, phi, supervision) -> Step:
        """An update with the supervision's rows below the training pairs (Song 2016, eq. 14)."""
        x_s, z_s, strength = supervision
        rule: Any = self.rule
        Phi, Phi_s = rule.Phi, self.features_x.transform(x_s)
        if isinstance(self.features_x, Landmarks):
            further = Further(self.features_x, x_s, Phi_s)
            Phi, Phi_s = further.padded(Phi), further.Phi_s
            phi = further.widened(x[None, :], phi[None, :])[0, :]
        d = rule.kept(step.belief)
        second = Phi.T @ (d[:, None] * Phi) + Phi_s.T @ (strength[:, None] * Phi_s)
        u = solves.ridge(second, rule.reg).solve(phi)
        w, w_s = d * (Phi @ u), strength * (Phi_s @ u)
        read = w @ rule.readout + w_s @ readout(self.features_z.transform(z_s), z_s)
        return self.believe(step, u[: rule.Phi.shape[1]], read, (z_s, w_s))

    def observations(self, steps: Sequence[Step]) -> MeanEmbedding:
        """The batch of embeddings of what is observed then, by the shares of the training pairs."""
        beliefs = arrays.namespace(self.points).stack([step.belief for step in steps])
        left = beliefs @ self.rule.shares.gain
        return MeanEmbedding.of_parts(self.points_x, left, self.rule.shares.Q, self.kernel_x)


def readout(Q, points) -> Array:
    """Rows [q(z_i), 1, z_i], from which an update reads the new belief, its mass and its mean."""
    xp = arrays.namespace(Q)
    return xp.concat([Q, xp.ones_like(points[:, :1]), points], axis=1)


def _further(steps: Sequence[Step]) -> tuple[list[Array], np.ndarray]:
    """Points of supervision or a prior, and their weights, which they have at their own steps."""
    own = [(i, *step.further) for i, step in enumerate(steps) if step.further is not None]
    parts = {id(points): points for _, points, _ in own}  # a prior's points are shared
    ends = np.cumsum([0, *(points.shape[0] for points in parts.values())])
    starts = dict(zip(parts, ends[:-1], strict=True))
    weights = np.zeros((len(steps), ends[-1]))
    for i, points, w in own:
        start = starts[id(points)]
        weights[i, start : start + points.shape[0]] = arrays.to_numpy(w)
    return list(parts.values()), weights

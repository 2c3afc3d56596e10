"""What a filter returns: beliefs at each time, whole tracks of them, and forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from . import linalg
from ._validation import Array
from .embedding import MeanEmbedding

if TYPE_CHECKING:
    from .filtering import KernelBayesFilter


@dataclass(frozen=True)
class Step:
    """The belief at one time, and what its weights on the training states are made of.

    kind "start": `origin` holds the weights on the training states, `further` those on other
    points; "predicted": from the belief `origin`; "updated":
    kernel Bayes' rule with the prediction `origin`; "smoothed": the backward rule with the
    filtered belief `origin`. In the last two the weights follow from `origin` and `u`.
    """

    belief: Array  # m, (r,)
    read: Array  # Σ_i w_i [1, z_i], (1 + d,)
    kind: str
    origin: Array
    u: Array | None = None
    collapsed: bool = False
    further: tuple[Array, Array] | None = None  # points other than the training states, weights
    previous: Array | None = None  # mean of the step before a prediction, (d,)

    @property
    def mean(self) -> Array:
        """Σ_i w_i z_i / Σ_i w_i, shape (d,)."""
        return self.read[1:] / self.read[0]

    def collapse(self) -> Step:
        """The same belief, marked as one that an observation should have changed."""
        return replace(self, collapsed=True)


class FilterResult:
    """Beliefs about the state, one per row of the observations.

    Attributes
    ----------
    mean : array of shape (n, d_z)
        Σ_i w_i z_i / Σ_i w_i. (For angles or rotations use `embeddings.mode()`.)
    collapsed : bool array of shape (n,)
        Observations unlike any seen in training: the prediction was kept.
    missing : bool array of shape (n,)
        Rows with NaN: likewise.
    """

    def __init__(self, model: KernelBayesFilter, steps: Sequence[Step], missing: np.ndarray):
        self._model, self._steps = model, tuple(steps)
        self.mean = linalg.namespace(model.points_).stack([step.mean for step in steps])
        self.collapsed = np.array([step.collapsed for step in steps])
        self.missing = missing

    @cached_property
    def embeddings(self) -> MeanEmbedding:
        """A batch of n embeddings on the training states (and any supervision's), formed once."""
        return embed(self._model, self._steps)

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Central interval of each state: lower and upper ends, (n, d_z) each."""
        return self.embeddings.interval(level)

    def __len__(self) -> int:
        return len(self._steps)

    def __repr__(self) -> str:
        flags = f"{int(self.collapsed.sum())} collapsed, {int(self.missing.sum())} missing"
        return f"FilterResult({len(self)} steps, {self.mean.shape[1]} state(s), {flags})"


@dataclass(frozen=True, repr=False)
class Forecast:
    """Beliefs about what comes after the observations, step by step.

    Attributes
    ----------
    embeddings : MeanEmbedding
        Batch of beliefs about the states; several trajectories follow each other.
    observations : MeanEmbedding
        Batch of beliefs about the observations, on the training observations.
    """

    embeddings: MeanEmbedding
    observations: MeanEmbedding

    @cached_property
    def mean(self) -> Array:
        """Expected states, (steps, d_z)."""
        return self.embeddings.mean()

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Central interval of each state: lower and upper ends, (steps, d_z) each."""
        return self.embeddings.interval(level)

    def __len__(self) -> int:
        return len(self.embeddings)

    def __repr__(self) -> str:
        return f"Forecast({len(self)} steps, {self.embeddings.points.shape[1]} state(s))"


class Belief:
    """A belief about the state that observations are fed to one at a time.

    Made by `KernelBayesFilter.start`. `predict` and `update` change it, and return it; `copy`
    keeps a version.
    """

    def __init__(self, model: KernelBayesFilter, step: Step):
        self._model, self._step = model, step

    def predict(self) -> Belief:
        """One step on in time."""
        self._step = self._model._predicted(self._step)
        return self

    def update(self, x, supervision=None) -> Belief:
        """What the observation `x`, shape (d_x,), says about the state; NaN says nothing.

        Parameters
        ----------
        x : array of shape (d_x,)
        supervision : tuple (x_s, z_s, strength), optional
            As for `KernelBayesFilter.filter`.
        """
        self._step = self._model._observed(self._step, x, supervision)
        return self

    def copy(self) -> Belief:
        """A belief that later steps of this one leave alone."""
        return Belief(self._model, self._step)

    @property
    def mean(self) -> Array:
        """Expected state, (d_z,)."""
        return self._step.mean

    @property
    def previous(self) -> Array | None:
        """Expected state one step before, if this is a prediction that nothing was added to."""
        return self._step.previous

    @property
    def collapsed(self) -> bool:
        """Whether the last observation was unlike any seen in training."""
        return self._step.collapsed

    @property
    def embedding(self) -> MeanEmbedding:
        """The belief as an embedding, with all its answers (density, interval, sample, ...)."""
        return embed(self._model, [self._step])[0]

    def __repr__(self) -> str:
        return f"Belief(mean={linalg.to_numpy(self.mean).round(4).tolist()}, {self._step.kind})"


def embed(model: KernelBayesFilter, steps: Sequence[Step]) -> MeanEmbedding:
    """The batch of embeddings that the steps stand for."""
    kinds = np.array([step.kind for step in steps])
    parts, rows = [], []
    for kind in np.unique(kinds):
        members = np.flatnonzero(kinds == kind)
        parts.append(_weights(model, str(kind), [steps[int(i)] for i in members]))
        rows.append(members)
    xp = linalg.namespace(model.points_)
    W = linalg.take(xp.concat(parts, axis=0), np.argsort(np.concatenate(rows)), axis=0)
    return _with_further(model, W, steps)


def _weights(model: KernelBayesFilter, kind: str, steps: list[Step]) -> Array:
    """Weights (len(steps), n) of steps of one kind."""
    xp = linalg.namespace(model.points_)
    origin = xp.stack([step.origin for step in steps])
    if kind == "start":
        return origin
    if kind == "predicted":
        return model._transition.weights(origin)
    rule: Any = model._rule if kind == "updated" else model._smoother
    return rule.weights(origin, xp.stack([step.u for step in steps]))


def _with_further(model: KernelBayesFilter, W, steps: Sequence[Step]) -> MeanEmbedding:
    """Points of supervision or prior below the training states, with weight at their own step."""
    others = [(i, *step.further) for i, step in enumerate(steps) if step.further is not None]
    if not others:
        return MeanEmbedding._of(model.points_, W, None, model.kernel_z_)
    xp = linalg.namespace(W)
    parts = {id(points): points for _, points, _ in others}  # a prior's points are shared
    counts = [points.shape[0] for points in parts.values()]
    starts = dict(zip(parts, np.cumsum([0, *counts[:-1]]), strict=True))
    extra = np.zeros((len(steps), sum(counts)))
    for i, points, weights in others:
        start = starts[id(points)]
        extra[i, start : start + points.shape[0]] = linalg.to_numpy(weights)
    points = xp.concat([model.points_, *parts.values()], axis=0)
    W = xp.concat([W, linalg.like(extra, W)], axis=1)
    return MeanEmbedding._of(points, W, None, model.kernel_z_)

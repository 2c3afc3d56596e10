"""The fitted recursion of a filter, as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import arrays
from ..core.checks import Array
from ..embedding.embedding import MeanEmbedding

if TYPE_CHECKING:
    from .kernel_bayes_filter import KernelBayesFilter


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


def embed(model: KernelBayesFilter, steps: Sequence[Step]) -> MeanEmbedding:
    """The batch of embeddings that the steps stand for."""
    kinds = np.array([step.kind for step in steps])
    parts, rows = [], []
    for kind in np.unique(kinds):
        members = np.flatnonzero(kinds == kind)
        parts.append(_weights(model, str(kind), [steps[int(i)] for i in members]))
        rows.append(members)
    xp = arrays.namespace(model.points_)
    W = arrays.take(xp.concat(parts, axis=0), np.argsort(np.concatenate(rows)), axis=0)
    return _with_further(model, W, steps)


def _weights(model: KernelBayesFilter, kind: str, steps: list[Step]) -> Array:
    """Weights (len(steps), n) of steps of one kind."""
    xp = arrays.namespace(model.points_)
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
        return MeanEmbedding.of_parts(model.points_, W, None, model.kernel_z_)
    xp = arrays.namespace(W)
    parts = {id(points): points for _, points, _ in others}  # a prior's points are shared
    counts = [points.shape[0] for points in parts.values()]
    starts = dict(zip(parts, np.cumsum([0, *counts[:-1]]), strict=True))
    extra = np.zeros((len(steps), sum(counts)))
    for i, points, weights in others:
        start = starts[id(points)]
        extra[i, start : start + points.shape[0]] = arrays.to_numpy(weights)
    points = xp.concat([model.points_, *parts.values()], axis=0)
    W = xp.concat([W, arrays.like(extra, W)], axis=1)
    return MeanEmbedding.of_parts(points, W, None, model.kernel_z_)

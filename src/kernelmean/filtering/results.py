"""What a filter returns: beliefs at each time, whole tracks of them, and forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..core import arrays
from ..core.checks import Array
from ..embedding.embedding import MeanEmbedding
from .machine import Step, embed

if TYPE_CHECKING:
    from .kernel_bayes_filter import KernelBayesFilter


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
        self.mean = arrays.namespace(model.points_).stack([step.mean for step in steps])
        self.collapsed = np.array([step.collapsed for step in steps])
        self.missing = missing

    @cached_property
    def embeddings(self) -> MeanEmbedding:
        """A batch of n embeddings on the training states (and any supervision's), formed once."""
        return embed(self._model, self._steps)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
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

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
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
        return f"Belief(mean={arrays.to_numpy(self.mean).round(4).tolist()}, {self._step.kind})"

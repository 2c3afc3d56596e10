"""What a filter returns: beliefs at each time, whole tracks of them, and forecasts."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from ..chains.results import Batch, as_observation
from ..core import Array, Interval, Labels, arrays
from ..core.moments import block_rows
from ..core.old_names import attribute
from ..embedding.embedding import MeanEmbedding
from ..embedding.law import Law
from . import inputs
from .machine import Recursion, Step

COPIES = 8  # of the weights of some steps, in a block


class _States(Law):
    """Laws of the state."""

    machine: Recursion
    stem = "z"

    @property
    def _smoothing(self):
        """Over cells each node is a normal law."""
        return super()._smoothing if self.machine.blur is None else self.machine.blur


@dataclass(frozen=True, repr=False, eq=False)
class _Steps(_States, Batch):
    """A batch of laws of the state, one a step."""

    machine: Recursion
    steps: tuple[Step, ...]
    labels: Labels = field(kw_only=True)
    by_row: ClassVar[tuple[str, ...]] = ("steps",)
    embeddings = attribute("embeddings", "embedding")

    @cached_property
    def embedding(self) -> MeanEmbedding:
        """A batch of embeddings on the machine's points (and any supervision's), formed once."""
        return self.machine.embed(self.steps)

    def mean(self) -> Array:
        """Σ_i w_i z_i / Σ_i w_i, (m, d_z). (For angles or rotations use `mode()`.)"""
        read = arrays.namespace(self.machine.points).stack([step.read for step in self.steps])
        return read[:, 1:] / read[:, :1]

    def interval(self, level: float = 0.95, kind: str = "central") -> Interval:
        """As of any law; weights are formed for some steps at a time."""
        every = [super(_Steps, some).interval(level, kind) for some in self._parts()]
        return Interval(*map(self._joined, zip(*every, strict=True)))

    def quantile(self, q) -> Array:
        """Likewise."""
        return self._joined([super(_Steps, some).quantile(q) for some in self._parts()])

    def std(self) -> Array:
        """Likewise."""
        return self._joined([super(_Steps, some).std() for some in self._parts()])

    def cov(self) -> Array:
        """Likewise."""
        return self._joined([super(_Steps, some).cov() for some in self._parts()])

    def _joined(self, every: Sequence[Array]) -> Array:
        return arrays.namespace(self.machine.points).concat(list(every), axis=0)

    def _parts(self) -> list[Self]:
        """The same laws, so few at a time that their weights take little memory."""
        rows = block_rows(COPIES * self.machine.points.shape[0])
        return [self[some] for some in arrays.slices(len(self), rows)]

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index) -> Any:
        """One of the laws, as a belief that can be carried on; or a smaller batch."""
        chosen = np.arange(len(self))[index]
        if chosen.ndim == 0:
            return Belief(self.machine, self.steps[chosen], self.labels.at(chosen, len(self)))
        return super().__getitem__(chosen)


@dataclass(frozen=True, repr=False, eq=False)
class FilterResult(_Steps):
    """Beliefs about the state, one per row of the observations: a batch of n laws.

    Attributes
    ----------
    embedding : MeanEmbedding
    collapsed : bool array of shape (n,)
        Observations unlike any seen in training: the prediction was kept.
    missing : bool array of shape (n,)
        Rows with NaN: likewise.
    """

    missing: np.ndarray
    by_row = ("steps", "missing")

    @property
    def collapsed(self) -> np.ndarray:
        """Observations unlike any seen in training, (n,)."""
        return np.array([step.collapsed for step in self.steps])

    def __repr__(self) -> str:
        flags = f"{int(self.collapsed.sum())} collapsed, {int(self.missing.sum())} missing"
        return f"FilterResult({len(self)} steps, {self.machine.points.shape[1]} state(s), {flags})"


@dataclass(frozen=True, repr=False, eq=False)
class Observations(Batch):
    """A batch of laws of what is observed.

    Attributes
    ----------
    embedding : MeanEmbedding
        On the training observations, or on draws at the nodes of densities.
    """

    embedding: MeanEmbedding
    labels: Labels
    stem = "x"


@dataclass(frozen=True, repr=False, eq=False)
class Forecast(_Steps):
    """Beliefs about the states after the observations, step by step: a batch of laws.

    Several trajectories follow each other.

    Attributes
    ----------
    embedding : MeanEmbedding
    observations : Observations
        Laws of what will be observed.
    """

    labels_x: Labels

    @cached_property
    def observations(self) -> Observations:
        """The laws of the observations."""
        return Observations(self.machine.observations(self.steps), self.labels_x)

    def __repr__(self) -> str:
        return f"Forecast({len(self)} steps, {self.machine.points.shape[1]} state(s))"


class Belief(_States):
    """A belief about the state that observations are fed to one at a time: a single law.

    Made by `KernelBayesFilter.start`. `predict` and `update` change it, and return it; `copy`
    keeps a version.
    """

    def __init__(self, machine: Recursion, step: Step, labels: Labels = Law.labels, names_x=None):
        self.machine, self.step, self.labels, self._names_x = machine, step, labels, names_x

    def predict(self) -> Self:
        """One step on in time."""
        self.step = self.machine.predicted(self.step)
        return self

    def update(self, x, supervision=None) -> Self:
        """What the observation `x`, shape (d_x,), says about the state; NaN says nothing.

        Parameters
        ----------
        x : array of shape (d_x,)
        supervision : tuple (x_s, z_s, strength), optional
            As for `KernelBayesFilter.filter`.
        """
        point, seen = as_observation(x, self.machine.points_x, self._names_x)
        names = self._names_x, self.labels.columns
        given = None if supervision is None else inputs.pairs(self.machine, supervision, *names)
        step = replace(self.step, collapsed=False)
        if seen[0]:
            (step,) = self.machine.advance(step, point, ~seen, [slice(0, 1)], lambda *_: given)
        self.step = step
        inputs.warn_of_collapse([self.step])
        return self

    def copy(self) -> Self:
        """A belief that later steps of this one leave alone."""
        return copy(self)

    def mean(self) -> Array:
        """Expected state, (d_z,)."""
        return self.step.mean

    @property
    def previous(self) -> Array | None:
        """Expected state one step before, if this is a prediction that nothing was added to."""
        return self.step.previous

    @property
    def collapsed(self) -> bool:
        """Whether the last observation was unlike any seen in training."""
        return self.step.collapsed

    @property
    def embedding(self) -> MeanEmbedding:
        """The belief as an embedding on the machine's points: training states, or nodes."""
        return self.machine.embed([self.step])[0]

    def __repr__(self) -> str:
        mean = arrays.to_numpy(self.mean()).round(4).tolist()
        return f"Belief(mean={mean}, {self.step.kind})"

"""Rows that play one part, and the same in coordinates, kept or made again block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from ..core import arrays
from ..core.checks import Array, as_points, as_vector
from ..core.moments import Moments, accumulate, evenly, row_blocks
from ..core.rows import Rows, put_together
from .basis import Basis

BLOCK = 2**21  # floats of a block: of many rows there are several, for as many threads
KEPT = 2**26  # floats of coordinates that are kept between passes over the rows: 512 MiB


@dataclass(frozen=True)
class Part:
    """Rows that play the same part."""

    X: Array
    Z: Array
    y: Array
    own: bool = True  # the stage 1 that embeds the rows was learned from them, among others
    teaches: bool = True  # some stage 1 is learned from them
    outcome: bool = True  # stage 2 is learned from them

    @property
    def n(self) -> int:
        return self.y.shape[0]

    def few(self, limit: int) -> tuple:
        """(X, Z, y) at evenly spaced rows, at most `limit`."""
        rows = evenly(self.y.shape[0], limit)
        return tuple(arrays.take(column, rows, axis=0) for column in (self.X, self.Z, self.y))

    def thinned(self, limit: int) -> Part:
        """The same part with evenly spaced rows only, at most `limit`."""
        X, Z, y = self.few(limit)
        return Part(X, Z, y, self.own, self.teaches, self.outcome)

    def group(self, basis_x: Basis, basis_z: Basis, middle: float) -> Group:
        """The rows in coordinates, outcomes less `middle`."""
        return Group(self, basis_x, basis_z, middle)


@dataclass(frozen=True)
class FarPart(Part):
    """Rows that are elsewhere; X, Z and y are evenly spaced ones among them, here.

    `rows` holds blocks of (X, y, Z, C), as they were given.
    """

    rows: Rows = field(kw_only=True)

    @property
    def n(self) -> int:
        return self.rows.n

    def group(self, basis_x: Basis, basis_z: Basis, middle: float) -> FarGroup:
        return FarGroup(self, basis_x, basis_z, middle)


@dataclass
class Group:
    """A part in coordinates: blocks of (Φ, Θ, y, M), outcomes less `middle`.

    M, the embeddings of the rows by a first stage, are None until `stage` is there. Coordinates are
    kept between passes where they fit in memory, and computed again otherwise.
    """

    part: Part
    basis_x: Basis
    basis_z: Basis
    middle: float = 0.0
    stage: Any = None  # the FirstStage that embeds the rows
    keep: bool = True  # coordinates, where they fit in memory

    def __post_init__(self) -> None:
        self.own, self.teaches = self.part.own, self.part.teaches
        self.outcome, self.n = self.part.outcome, self.part.n
        self.keep &= self.n * (self.basis_x.width + self.basis_z.width) <= KEPT
        self._kept: list | None = None

    def blocks(self) -> Iterator[tuple]:
        kept = []
        for Phi, Theta, y, M in self._kept or self._coordinates():
            block = Phi, Theta, y, self._embedded(Phi, Theta) if M is None else M
            if self.keep:
                kept.append(block)
            yield block
        self._kept = kept if self.keep else None

    def _coordinates(self) -> Iterator[tuple]:
        rows, part = max(BLOCK // (self.basis_x.width + self.basis_z.width), 64), self.part
        for X, Z, y in row_blocks(part.X, part.Z, part.y, rows=rows):
            yield self.basis_x.transform(X), self.basis_z.transform(Z), y - self.middle, None

    def _embedded(self, Phi, Theta) -> Array | None:
        return None if self.stage is None else self.stage.rows(Phi, Theta, self.own)

    def total(self, names: list[str], columns: Callable[..., dict]) -> Moments:
        """Sums over all rows of products of the columns that `columns(Φ, Θ, y, M)` gives."""
        return accumulate(self.blocks(), names, columns)

    def mean_norm(self) -> float:
        """Mean of k(x, x), part of the stage-1 loss on these rows."""
        diagonal = self.basis_x.features.kernel_.diag_of(self.part.X)
        return float(arrays.namespace(diagonal).mean(diagonal))

    def few(self, limit: int) -> tuple:
        """(Φ, Θ, y, M) at evenly spaced rows, at most `limit`."""
        if self.n <= limit and self._kept is not None:
            return tuple(put_together(part) for part in zip(*self.blocks(), strict=True))
        X, Z, y = self.part.few(limit)
        Phi, Theta = self.basis_x.transform(X), self.basis_z.transform(Z)
        return Phi, Theta, y - self.middle, self._embedded(Phi, Theta)


class FarGroup(Group):
    """A group whose coordinates are made, and summed, where the rows are."""

    part: FarPart

    def total(self, names: list[str], columns: Callable[..., dict]) -> Moments:
        given = self.basis_x, self.basis_z, self.middle, self.stage, self.own
        return self.part.rows.reduce(_sums, given, names, columns)


def _sums(block: tuple, given: tuple, names: list[str], columns) -> Moments:
    basis_x, basis_z, middle, stage, own = given
    X, Z, y = _checked(*block)
    here = Group(Part(X, Z, y, own), basis_x, basis_z, middle, stage, keep=False)
    return here.total(names, columns)


def _checked(X, y, Z, C) -> tuple:
    """Regressors, instruments and outcomes of a block, all finite."""
    exogenous = [] if C is None else [as_points(C, "C")]
    X, y, Z = as_points(X, "X"), as_vector(y, "y"), as_points(Z, "Z")
    join = arrays.namespace(X).concat
    return join([X, *exogenous], axis=1), join([Z, *exogenous], axis=1), y


def merged(parts: Iterable[Moments]) -> Moments:
    """The moments of all rows together."""
    return reduce(Moments.merge, parts)


def summed(groups: list[Group], names: list[str], columns: Callable[..., dict]) -> Moments:
    """`Group.total` over several groups."""
    return merged(group.total(names, columns) for group in groups)

"""Rows that play one part, and the same in coordinates, kept or made again block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np

from ..core import arrays
from ..core.checks import Array, as_points, as_vector
from ..core.minimise import SEARCH_ROWS
from ..core.moments import Moments, accumulate, block_rows, evenly, row_blocks
from ..core.rows import Rows, put_together
from ..core.threads import streamed
from .basis import Basis

KEPT = 2**26  # floats of coordinates that are kept: 512 MiB
COPIES = 8  # of a block's coordinates that fit in 64 MiB, where there is no device to keep busy
LOOKED_AT = 5 * (SEARCH_ROWS - 1) + 1  # rows of very many, whose every fifth are the few


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
        """(X, Z, y) at evenly spaced rows, at most `limit`, of those looked at."""
        looked_at = evenly(self.y.shape[0], LOOKED_AT)
        rows = looked_at[evenly(len(looked_at), limit)]
        return tuple(arrays.take(column, rows, axis=0) for column in (self.X, self.Z, self.y))

    def thinned(self, limit: int) -> Part:
        """The same part with evenly spaced rows only, at most `limit`."""
        if self.n <= limit:
            return self
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
    """A part in coordinates: Φ, Θ, outcomes y less `middle`, and embeddings M by a first stage.

    A pass over all rows gives `moments`. What is no product of coordinates is of the rows
    `looked_at`. Where these are not all, they tell what coefficients a second pass is to be made
    with. Their coordinates are kept where they fit in memory; their M are None until `stage` is
    there.
    """

    part: Part
    basis_x: Basis
    basis_z: Basis
    middle: float = 0.0
    stage: Any = None  # the FirstStage that embeds the rows
    through: Moments | None = None  # of the second pass
    nearly: Any = None  # the coefficients that it was made with

    def __post_init__(self) -> None:
        self.own, self.teaches = self.part.own, self.part.teaches
        self.outcome, self.n = self.part.outcome, self.part.n
        self.width = self.basis_x.width + self.basis_z.width
        self._kept: list | None = None

    @cached_property
    def looked_at(self) -> Part:
        """All rows, where their coordinates can be kept, or evenly spaced ones."""
        return self.part if self.n * self.width <= KEPT else self.part.thinned(LOOKED_AT)

    def blocks(self) -> Iterator[tuple]:
        """(Φ, Θ, y, M) of the rows looked at."""
        kept, keep = [], self.looked_at.n * self.width <= KEPT
        for Phi, Theta, y, M in self._kept or self._coordinates(self.looked_at):
            block = Phi, Theta, y, self._embedded(Phi, Theta) if M is None else M
            if keep:
                kept.append(block)
            yield block
        self._kept = kept if keep else None

    def _coordinates(self, part: Part) -> Iterator[tuple]:
        wide = COPIES * self.width if isinstance(part.X, np.ndarray) else self.width
        pieces = row_blocks(part.X, part.Z, part.y, rows=block_rows(wide))
        return streamed(lambda piece: self._transformed(*piece), pieces)

    def _transformed(self, X, Z, y) -> tuple:
        return self.basis_x.transform(X), self.basis_z.transform(Z), y - self.middle, None

    def _embedded(self, Phi, Theta) -> Array | None:
        return None if self.stage is None else self.stage.rows(Phi, Theta, self.own)

    @cached_property
    def moments(self) -> Moments:
        """ΘᵀΘ, ΘᵀΦ, Θᵀy and yᵀy of all rows."""
        columns = lambda x, z, y, m: {"x": x, "z": z, "y": y[:, None]}  # noqa: E731
        return self.total(["zz", "zx", "zy", "yy"], columns)

    def total(self, names: list[str], columns: Callable[..., dict]) -> Moments:
        """Sums over all rows of products of the columns that `columns(Φ, Θ, y, None)` gives."""
        whole = self.looked_at is self.part
        return accumulate(self.blocks() if whole else self._coordinates(self.part), names, columns)

    def estimated(self, names: list[str], columns: Callable[..., dict]) -> Moments:
        """The same of columns of (Φ, Θ, y, M), as the rows looked at tell them."""
        return accumulate(self.blocks(), names, columns).scaled_to(self.n)

    def mean_norm(self) -> float:
        """Mean of k(x, x), part of the stage-1 loss on these rows."""
        diagonal = self.basis_x.features.kernel_.diag_of(self.part.X)
        return float(arrays.namespace(diagonal).mean(diagonal))

    def few(self, limit: int) -> tuple:
        """(Φ, Θ, y, M) at evenly spaced rows, at most `limit`."""
        if self.looked_at.n <= limit and self._kept is not None:
            return tuple(put_together(part) for part in zip(*self.blocks(), strict=True))
        X, Z, y = self.part.few(limit)
        Phi, Theta = self.basis_x.transform(X), self.basis_z.transform(Z)
        return Phi, Theta, y - self.middle, self._embedded(Phi, Theta)


class FarGroup(Group):
    """A group whose coordinates are made, and summed, where the rows are."""

    part: FarPart

    @cached_property
    def looked_at(self) -> Part:
        """Those that are here."""
        return self.part.thinned(LOOKED_AT)

    def total(self, names: list[str], columns: Callable[..., dict]) -> Moments:
        given = self.basis_x, self.basis_z, self.middle
        return self.part.rows.reduce(_sums, given, names, columns)


def _sums(block: tuple, given: tuple, names: list[str], columns) -> Moments:
    X, Z, y = _checked(*block)
    here = Group(Part(X, Z, y), *given)
    return accumulate(here._coordinates(here.part), names, columns)


def _checked(X, y, Z, C) -> tuple:
    """Regressors, instruments and outcomes of a block, all finite."""
    exogenous = [] if C is None else [as_points(C, "C")]
    X, y, Z = as_points(X, "X"), as_vector(y, "y"), as_points(Z, "Z")
    join = arrays.namespace(X).concat
    return join([X, *exogenous], axis=1), join([Z, *exogenous], axis=1), y


def merged(parts: Iterable[Moments]) -> Moments:
    """The moments of all rows together."""
    return reduce(Moments.merge, parts)


def moments_of(groups: Iterable[Group]) -> Moments:
    """Those of all rows of the groups."""
    return merged(group.moments for group in groups)

"""Rows of one group in coordinates, kept or made again block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..core import arrays
from ..core.checks import Array
from ..core.moments import Moments, accumulate, block_rows, evenly, row_blocks
from .basis import Basis

KEPT = 2**26  # floats of coordinates that are kept between passes over the rows: 512 MiB


@dataclass
class Group:
    """Rows that play the same part, in coordinates: blocks of (Φ, Θ, y, M).

    M, the embeddings of the rows by a first stage, are there once `stage` is. Coordinates are kept
    between passes where they fit in memory, and computed again otherwise.
    """

    basis_x: Basis
    basis_z: Basis
    X: Array
    Z: Array
    y: Array
    own: bool = True  # the stage 1 that embeds the rows was learned from them, among others
    teaches: bool = True  # some stage 1 is learned from them
    outcome: bool = True  # stage 2 is learned from them
    stage: Any = None  # the FirstStage that embeds the rows

    def __post_init__(self) -> None:
        self._kept: list | None = None
        self._embedded: list | None = None
        self._keep = self.n * (self.basis_x.width + self.basis_z.width) <= KEPT

    @property
    def n(self) -> int:
        return self.Z.shape[0]

    def blocks(self) -> Iterator[tuple]:
        if self._kept is not None:
            yield from self._kept
            return
        kept = []
        rows = block_rows(self.basis_x.width + self.basis_z.width)
        for X, Z, y in row_blocks(self.X, self.Z, self.y, rows=rows):
            block = self.basis_x.transform(X), self.basis_z.transform(Z), y
            if self._keep:
                kept.append(block)
            yield block
        self._kept = kept if self._keep else None

    def embedded(self) -> Iterator[tuple]:
        """Blocks with M."""
        if self._embedded is not None:
            yield from self._embedded
            return
        kept = []
        for Phi, Theta, y in self.blocks():
            block = Phi, Theta, y, self.stage.rows(Phi, Theta, self.own)
            if self._keep:
                kept.append(block)
            yield block
        self._embedded = kept if self._keep else None

    def total(self, names: list[str], columns: Callable[..., dict]) -> Moments:
        """Sums over all rows of products of the columns that `columns(Φ, Θ, y, M)` gives.

        Before there is a first stage, M is None.
        """
        if self.stage is None:
            return accumulate(((*block, None) for block in self.blocks()), names, columns)
        return accumulate(self.embedded(), names, columns)

    def mean_norm(self) -> float:
        """Mean of k(x, x), part of the stage-1 loss on these rows."""
        diagonal = self.basis_x.features.kernel_.diag_of(self.X)
        return float(arrays.namespace(diagonal).mean(diagonal))

    def few(self, limit: int) -> tuple:
        """(Φ, Θ, y) at evenly spaced rows, at most `limit`."""
        if self.n <= limit and self._kept is not None:
            parts = zip(*self._kept, strict=True)
            return tuple(_stacked(list(part)) for part in parts)
        rows = evenly(self.n, limit)
        X, Z, y = (arrays.take(part, rows, axis=0) for part in (self.X, self.Z, self.y))
        return self.basis_x.transform(X), self.basis_z.transform(Z), y

    def few_embedded(self, limit: int) -> tuple:
        """(Φ, Θ, y, M) at the same rows."""
        if self.n <= limit and self._embedded is not None:
            parts = zip(*self._embedded, strict=True)
            return tuple(_stacked(list(part)) for part in parts)
        Phi, Theta, y = self.few(limit)
        return Phi, Theta, y, self.stage.rows(Phi, Theta, self.own)


def _stacked(blocks: list[Array]) -> Array:
    return blocks[0] if len(blocks) == 1 else arrays.namespace(blocks[0]).concat(blocks)


def _merged(parts: list[Moments]) -> Moments:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.merge(part)
    return whole

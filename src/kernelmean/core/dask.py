"""Rows that Dask holds: blocks are worked on where they are, and small matrices come here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import dask
import dask.array as da
import numpy as np

from .checks import check_lengths, hushed, is_dask
from .interval import Interval
from .rows import (
    FAN,
    Rows,
    length,
    merged,
    merged_of,
    numbered,
    taken,
    unless_empty,
)

GRAPH = "100 MB"  # of matrices that may travel with the work: beyond it Dask warns


class DaskRows(Rows):
    """Aligned blocks of several tables, each computed where it is.

    `blocks` are tuples of one delayed array for each of the tables, or None; `sizes` their numbers
    of rows, NaN where they are not known; `likes` has an empty pandas table for each that has names
    of columns, else None; `widths` their shapes without the rows.
    """

    def __init__(
        self, blocks: list[tuple], sizes: tuple, likes: list, widths: list, names: tuple[str, ...]
    ):
        self.blocks, self.sizes, self.names, self._alone = blocks, sizes, names, False
        self.likes, self.widths = likes, widths

    @classmethod
    def aligned(cls, **tables) -> DaskRows:
        """From arrays and tables of Dask (others may join them), all in the blocks of the first.

        Several tables can be aligned when their rows are counted. Where they are not, that takes
        a pass over them.
        """
        given = {name: table for name, table in tables.items() if table is not None}
        arrays = {name: _as_array(table, name, len(given) > 1) for name, table in given.items()}
        (first, lead), *others = arrays.items()
        for name, array in others:
            check_lengths(lead.shape[0], array.shape[0], first, name)
        delayed = {}
        for name, array in arrays.items():
            whole = array.rechunk((lead.chunks[0], *[-1] * (array.ndim - 1)))
            delayed[name] = whole.to_delayed(optimize_graph=False).ravel()
        sizes = lead.chunks[0]
        filled = [i for i, size in enumerate(sizes) if size != 0] or [0]
        blocks = [
            tuple(delayed[name][i] if name in given else None for name in tables) for i in filled
        ]
        likes = [_names_of(table) for table in tables.values()]
        widths = [arrays[name].shape[1:] if name in given else None for name in tables]
        return cls(blocks, tuple(sizes[i] for i in filled), likes, widths, tuple(tables))

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Numbers of rows of the blocks; a pass over them where they are not known."""
        if not np.isnan(self.sizes).any():
            return self.sizes
        lengths = [dask.delayed(length)(block) for block in self.blocks]
        return dask.compute(*lengths)

    def _taken(self, wanted: dict[int, np.ndarray]) -> tuple:
        task = dask.delayed(partial(_on_named, taken, self.likes), traverse=False)
        return dask.compute(*(task(i, self.blocks[i], w, self.names) for i, w in wanted.items()))

    def map(self, function: Callable, *given) -> Any:
        """`function(block, *given)` for every block, to be computed; what is given travels once."""
        shared = [dask.delayed(item, pure=False, traverse=False) for item in given]
        task = dask.delayed(partial(_on_named, function, self.likes), traverse=False)
        return [task(i, block, *shared) for i, block in enumerate(self.blocks)]

    def reduce(self, function: Callable, *given, merge: Callable = merged) -> Any:
        """The values merged in a tree, where they are."""
        sums = self.map(partial(unless_empty, function), *given)
        together = dask.delayed(partial(merged_of, merge))
        while len(sums) > 1:
            sums = [together(sums[i : i + FAN]) for i in range(0, len(sums), FAN)]
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": GRAPH}):
            return sums[0].compute()

    def answers(self, function: Callable, *given) -> Any:
        """Dask arrays in the blocks of the tables, still to be computed.

        What is wrong with the columns is said now, what is wrong with the numbers when they are
        read.
        """
        one = tuple(map(_example, self.likes, self.widths))
        with hushed():
            shown = function(one, *given)
        found = self.map(partial(_answered, function, one), *given)
        if not isinstance(shown, Interval):
            return self._array(found, shown)
        return Interval(*(self._array([b[i] for b in found], part) for i, part in enumerate(shown)))

    def _array(self, parts: list, shown) -> da.Array:
        shape = shown.shape[1:]
        return da.concatenate(
            [
                da.from_delayed(part, shape=(size, *shape), dtype=np.float64)
                for part, size in zip(parts, self.sizes, strict=True)
            ]
        )


def _on_named(function: Callable, likes: list, i: int, block: tuple, *given):
    tables = tuple(_named(like, part) for like, part in zip(likes, block, strict=True))
    return numbered(function, i, tables, *given)


def _answered(function: Callable, one: tuple, block: tuple, *given):
    """Where a block has no rows, its answers have none: those of an example, less its row."""
    if len(block[0]):
        return function(block, *given)
    shown = function(one, *given)
    return tuple(part[:0] for part in shown) if isinstance(shown, Interval) else shown[:0]


def _example(like, width):
    """A row that has the columns of the table."""
    return None if width is None else _named(like, np.ones((1, *width)))


def _as_array(table, name: str, count: bool) -> Any:
    """A Dask array, its rows counted if asked for."""
    if _is_frame(table):
        return table.to_dask_array(lengths=True if count else None)
    if not is_dask(table):
        table = da.from_array(np.asarray(table))
    if table.ndim == 0:
        raise ValueError(f"{name} has 0 dimensions; rows are needed")
    if count and np.isnan(table.shape[0]):
        return table.copy().compute_chunk_sizes()
    return table


def _is_frame(table) -> bool:
    return is_dask(table) and hasattr(table, "to_dask_array")


def _names_of(table):
    """A pandas table without rows, when the table has names of columns."""
    if _is_frame(table):
        import pandas as pd

        one = table.ndim == 1
        return pd.Series(name=table.name) if one else pd.DataFrame(columns=table.columns)
    return table.iloc[:0] if hasattr(table, "iloc") else None


def _named(like, values):
    """With the names of a pandas table that is `like` it."""
    if like is None or values is None:
        return values
    names = {"columns": like.columns} if values.ndim == 2 else {"name": like.name}
    return type(like)(values, **names)

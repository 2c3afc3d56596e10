"""Rows that Dask holds: blocks are worked on where they are, and small matrices come here."""

import contextlib
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from operator import getitem
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from .checks import check_lengths, hushed, is_dask
from .interval import ends, of_ends
from .moments import FAN
from .rows import Rows, length, numbered

with contextlib.suppress(ImportError):  # its settings are there before one of them is changed
    import distributed  # noqa: F401

GRAPH = "100 MB"  # of matrices that may travel with the work: beyond it Dask warns


class DaskRows(Rows):
    """Aligned blocks of several tables, each computed where it is.

    Tasks are written into one graph, whose size is that of the blocks: a `delayed` for each of
    them would carry all of it. What tables have in common is made once.

    `arrays` are in the same blocks, or None; `filled` are the numbers of the blocks that have rows,
    `sizes` their numbers of rows, NaN where they are not known; `likes` has an empty pandas table
    for each that has names of columns, else None.
    """

    ordered = True

    def __init__(self, **tables):
        """From arrays and tables of Dask (others may join them), all in the blocks of the first.

        Several tables can be aligned when their rows are counted. Where they are not, that takes
        a pass over them.
        """
        given = {name: table for name, table in tables.items() if table is not None}
        arrays = {name: _as_array(table, name, len(given) > 1) for name, table in given.items()}
        (first, lead), *others = arrays.items()
        for name, array in others:
            check_lengths(lead.shape[0], array.shape[0], first, name)
        for name, array in arrays.items():
            arrays[name] = array.rechunk((lead.chunks[0], *[-1] * (array.ndim - 1)))
        self.arrays = [arrays.get(name) for name in tables]
        self.likes = [_names_of(table) for table in tables.values()]
        self.names, self._alone = tuple(tables), False
        self.filled = [i for i, size in enumerate(lead.chunks[0]) if size != 0] or [0]
        self.sizes = tuple(lead.chunks[0][i] for i in self.filled)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Numbers of rows of the blocks; a pass over them where they are not known."""
        if not np.isnan(self.sizes).any():
            return self.sizes
        return tuple(self.map(length))

    def _each(self, task: Callable, own: dict[int, tuple] | None = None, merge=None) -> Iterator:
        """Where the blocks are; with `merge` all in a tree, to one value."""
        layer = self._layer(task, own=own)
        tasks: dict[str, tuple] = {}
        keys = list(layer.dask.layers[layer.key])
        while merge is not None and len(keys) > 1:
            groups = [keys[i : i + FAN] for i in range(0, len(keys), FAN)]
            keys = [f"{layer.key}-{len(tasks) + i}" for i in range(len(groups))]
            tasks |= {key: (merge, part) for key, part in zip(keys, groups, strict=True)}
        tasks[whole := f"{layer.key}-all"] = (list, keys)
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": GRAPH}):
            return iter(_after([layer], tasks, whole).compute())

    def _layer(self, task: Callable, own: dict[int, tuple] | None = None) -> Delayed:
        """The task, which travels once, of the blocks, or of those with arguments of their own."""
        name, shared = f"rows-{uuid4().hex}", dask.delayed(task, pure=False, traverse=False)
        tasks: dict[Any, tuple] = {}
        for i, block in enumerate(self.filled):
            if own is None or i in own:
                keys = [a if a is None else _key(a.name, block, a.ndim) for a in self.arrays]
                more = () if own is None else own[i]
                tasks[name, i] = (_on_named, shared.key, self.likes, i, keys, *more)
        return _after([*(a for a in self.arrays if a is not None), shared], tasks, name)

    def answers(self, function: Callable, *given) -> Any:
        """Dask arrays in the blocks of the tables, still to be computed.

        What is wrong with the columns is said now, what is wrong with the numbers when they are
        read.
        """
        rows = (a if a is None else np.ones((1, *a.shape[1:])) for a in self.arrays)
        one = tuple(map(_named, self.likes, rows))
        with hushed():
            shown = function(one, *given)
        layer = self._layer(partial(_answered, function, one, given))
        return of_ends([self._array(layer, i, part) for i, part in enumerate(ends(shown))])

    def _array(self, layer: Delayed, part: int, shown) -> da.Array:
        name, chunks = f"{layer.key}-{part}", (self.sizes, *((d,) for d in shown.shape[1:]))
        of = enumerate(layer.dask.layers[layer.key])
        tasks = {_key(name, i, len(chunks)): (getitem, key, part) for i, key in of}
        return da.Array(_after([layer], tasks, name).dask, name, chunks, dtype=np.float64)


def _after(collections: list, tasks: dict, key: str) -> Delayed:
    """The graph that goes on with these tasks: the value of that named `key`, if there is one."""
    return Delayed(key, HighLevelGraph.from_collections(key, tasks, collections), layer=key)


def _key(name: str, i: int, ndim: int) -> tuple:
    return (name, i, *[0] * (ndim - 1))


def _on_named(task: Callable, likes: list, i: int, block: list, *own) -> Any:
    return task(i, tuple(map(_named, likes, block)), *own)


def _answered(function: Callable, one: tuple, given: tuple, i: int, block: tuple) -> tuple:
    """Where a block has no rows, its answers have none: those of an example, less its row."""
    rows = len(block[0])
    answer = numbered(function, i, block if rows else one, *given)
    return tuple(part[:rows] for part in ends(answer))


def _as_array(table, name: str, count: bool) -> Any:
    """A Dask array, its rows counted if asked for."""
    if hasattr(table, "to_dask_array"):
        return table.to_dask_array(lengths=True if count else None)
    if not is_dask(table):
        table = da.from_array(np.asarray(table))
    if table.ndim == 0:
        raise ValueError(f"{name} has 0 dimensions; rows are needed")
    if count and np.isnan(table.shape[0]):
        return table.copy().compute_chunk_sizes()
    return table


def _names_of(table):
    """A pandas table without rows, when the table has names of columns."""
    table = table._meta if hasattr(table, "to_dask_array") else table
    return table.iloc[:0] if hasattr(table, "iloc") else None


def _named(like, values):
    """With the names of a pandas table that is `like` it."""
    if like is None or values is None:
        return values
    names = {"columns": like.columns} if values.ndim == 2 else {"name": like.name}
    return type(like)(values, **names)

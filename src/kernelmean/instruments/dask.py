"""Rows that are elsewhere: fits and predictions on Dask arrays and DataFrames.

A fit passes over the rows only to add up products of their coordinates (`moments.py`). So blocks
are summed where they are, the sums are merged in a tree, and small matrices come here. The kernels,
their lengthscales and the landmarks are chosen from evenly spaced rows, which come here too: the
same rows that a fit in memory looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dask
import dask.array as da
import numpy as np

from ..core.checks import as_points, as_vector, check_lengths
from ..core.moments import Moments, evenly
from .basis import Basis
from .groups import Group, Part, merged, stacked
from .rows import is_dask, kind_of

FAN = 8  # sums that are merged at a time
GRAPH = "100 MB"  # of matrices that may travel with the work: beyond it Dask warns


@dataclass(frozen=True)
class Rows:
    """Aligned blocks of several tables, each computed where it is.

    Attributes
    ----------
    blocks : list of tuples
        One delayed array for each of the tables, or None.
    sizes : tuple
        Numbers of rows of the blocks; NaN where they are not known.
    likes : list
        An empty pandas table for each that has names of columns, else None.
    """

    blocks: list[tuple]
    sizes: tuple
    likes: list

    @classmethod
    def of(cls, **tables) -> Rows:
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
            delayed[name] = whole.to_delayed().ravel()
        sizes = lead.chunks[0]
        filled = [i for i, size in enumerate(sizes) if size != 0] or [0]
        return cls(
            [tuple(delayed[name][i] if name in given else None for name in tables) for i in filled],
            tuple(sizes[i] for i in filled),
            [_names_of(table) for table in tables.values()],
        )

    @property
    def n(self) -> int:
        return sum(self.sizes)

    def few(self, limit: int) -> list:
        """At most `limit` evenly spaced rows of each table, here."""
        rows = evenly(self.n, limit)
        starts = np.cumsum([0, *self.sizes])
        bounds = np.searchsorted(rows, starts)
        pieces = [
            dask.delayed(_taken)(rows[i:j] - start, *block)
            for block, start, i, j in zip(self.blocks, starts, bounds, bounds[1:], strict=False)
            if j > i or self.n == 0
        ]
        columns = zip(*dask.compute(*pieces), strict=True)
        return [_named(like, stacked(c)) for like, c in zip(self.likes, columns, strict=True)]

    def part(self, X, Z, y) -> DaskPart:
        """All rows, of which some are here."""
        return DaskPart(X, Z, y, rows=self)

    def map(self, function: Callable, *given) -> list:
        """`function(block, *given)` for every block, to be computed; what is given travels once."""
        shared = [dask.delayed(item, pure=False, traverse=False) for item in given]
        return [dask.delayed(function)(block, *shared) for block in self.blocks]


def _as_array(table, name: str, count: bool):
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


def _taken(rows: np.ndarray, *block) -> tuple:
    return tuple(None if part is None else np.asarray(part)[rows] for part in block)


def _named(like, values):
    """With the names of a pandas table that is `like` it."""
    if like is None or values is None:
        return values
    names = {"columns": like.columns} if values.ndim == 2 else {"name": like.name}
    return type(like)(values, **names)


# ---------------------------------------------------------------------------------------- fitting
def rows_to_fit(split, X, y, Z, C) -> Rows:
    """The rows of a fit in aligned blocks; the jackknife is the one way of sharing them there."""
    if kind_of(split) != "loo":
        raise ValueError(
            f'split is {split!r}, but Dask arrays are fitted with split="loo" only; or fit on rows '
            "in memory, X.compute()"
        )
    return Rows.of(X=X, y=y, Z=Z, C=C)


@dataclass(frozen=True)
class DaskPart(Part):
    """Rows in Dask's blocks; X, Z and y are evenly spaced ones among them, here.

    `rows` holds blocks of (X, y, Z, C), as they were given.
    """

    rows: Rows = field(kw_only=True)

    @property
    def n(self) -> int:
        return self.rows.n

    def thinned(self, limit: int) -> Part:
        return Part(*self.few(limit))

    def group(self, basis_x: Basis, basis_z: Basis, middle: float) -> DaskGroup:
        return DaskGroup(self, basis_x, basis_z, middle)


class DaskGroup(Group):
    """A group in Dask's blocks: coordinates are made, and summed, where the rows are."""

    part: DaskPart

    def total(self, names: list[str], columns: Callable[..., dict]) -> Moments:
        given = (self.basis_x, self.basis_z, self.middle, self.stage), names, columns
        sums = self.part.rows.map(_sums, *given)
        while len(sums) > 1:
            sums = [dask.delayed(merged)(sums[i : i + FAN]) for i in range(0, len(sums), FAN)]
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": GRAPH}):
            return sums[0].compute()


def _sums(block: tuple, given: tuple, names: list[str], columns) -> Moments:
    basis_x, basis_z, middle, stage = given
    here = Group(Part(*_checked(*block)), basis_x, basis_z, middle, stage, keep=False)
    return here.total(names, columns)


def _checked(X, y, Z, C) -> tuple:
    """Regressors, instruments and outcomes of a block, all finite."""
    exogenous = [] if C is None else [as_points(C, "C")]
    X, y, Z = as_points(X, "X"), as_vector(y, "y"), as_points(Z, "Z")
    return np.hstack([X, *exogenous]), np.hstack([Z, *exogenous]), y


# -------------------------------------------------------------------------------------- predicting
def lazily(estimator: Any, X, C=None):
    """`estimator.predict(X, C)` as a Dask array of shape (m,), still to be computed.

    What is wrong with the columns is said now, what is wrong with the numbers when they are read.
    """
    rows = Rows.of(X=X, C=C)
    estimator.regressors(*(_example(t, like) for t, like in zip((X, C), rows.likes, strict=True)))
    parts = rows.map(_predicted, estimator, rows.likes)
    return da.concatenate(
        [
            da.from_delayed(part, shape=(size,), dtype=np.float64)
            for part, size in zip(parts, rows.sizes, strict=True)
        ]
    )


def _example(table, like):
    """A row that has the columns of the table."""
    return None if table is None else _named(like, np.ones((1, *table.shape[1:])))


def _predicted(block: tuple, estimator, likes: list) -> np.ndarray:
    if len(block[0]) == 0:
        return np.empty(0)
    tables = (_named(like, part) for like, part in zip(likes, block, strict=True))
    return estimator.predict(*tables)

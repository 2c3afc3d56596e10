"""Rows anywhere: tables in blocks that are read when they are needed, where they are.

A fit passes over all rows only to add up products of their coordinates (`moments`), and chooses
what it chooses from a few evenly spaced ones. So it needs three things of its rows: a `few` of
them, a function of every block (`map`), and sums of such functions in an order that the number of
threads or workers does not change (`reduce`). Here they are for arrays, memory maps, tables, files
and chunks; `core.dask` has them for what Dask holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from . import arrays, checks
from .extras import require
from .interval import ends, of_ends
from .moments import FAN, Moments, block_rows, evenly, row_blocks
from .threads import streamed

STEP = 50_000  # rows of a block of an array
NO_BLOCKS = "there are no rows; at least one block of rows is needed"


def merged(one, other):
    """Both together."""
    return one.merge(other)


class Rows(checks.FarAway):
    """A table whose rows are read block by block, each time they are needed.

    Estimators that are sums over rows take it in place of an array (the guide's page on rows says
    which), as they take arrays and DataFrames of Dask. Nothing is read until then.

    Parameters
    ----------
    source : array, memory map, DataFrame, path or iterable
        A path names a Parquet file, a folder of such files, or is a pattern, ``data/*.parquet``
        (extra `app`). An iterable gives blocks (arrays, DataFrames, or tuples of aligned ones), the
        same ones whenever it is gone through: a list, or an object with `__iter__`; not a
        generator, which ends after one pass.
    step : int
        Rows of a block of an array or DataFrame.
    dtype : "float32" or "float64"
        What answers about these rows are given in. Rows are read as they are kept, and worked on in
        double precision.

    Raises
    ------
    TypeError
        For what cannot be read again, or is of Dask, which estimators take as it is.
    ValueError
        For another `dtype`.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> data = km.datasets.make_iv_sigmoid(1000, random_state=0)
    >>> table = km.Rows(np.column_stack([data.X, data.Z, data.y]), step=300)
    >>> iv = km.KernelIV(tune_lengthscale=False).fit(table[:, :1], table[:, 2], table[:, 1:2])
    >>> [block.shape for block in iv.predict(table[:, :1])]
    [(300,), (300,), (300,), (100,)]
    >>> single = km.Rows(data.X, step=300, dtype="float32")
    >>> {block.dtype.name for block in iv.predict(single)}
    {'float32'}
    """

    names: tuple[str, ...] = ()  # of the tables of a block, where they are arguments

    def __init__(self, source, step: int = STEP, dtype="float64"):
        name = str(getattr(dtype, "__name__", dtype))
        told = checks.check_choice(name, "dtype", ("float32", "float64"))
        blocks = _source(source, checks.check_count(step, "step"))
        self._tables: tuple = (_Table(blocks, dtype=told),)
        self._alone = True

    @classmethod
    def _of(cls, tables: Iterable, alone: bool = False, names: tuple[str, ...] = ()) -> Rows:
        made = cls.__new__(cls)
        made._tables, made._alone, made.names = tuple(tables), alone, names
        return made

    def __getitem__(self, key) -> Rows:
        """Columns: by name, `rows["age"]` or `rows[["age", "sex"]]`; of arrays `rows[:, :2]`.

        Of blocks that are tuples `rows[0]` is the first of their tables.
        """
        picked = (replace(table, picks=(*table.picks, key)) for table in self._tables)
        return Rows._of(picked, self._alone)

    def __iter__(self) -> Iterator:
        """The blocks."""
        return self.map(_itself)

    def __repr__(self) -> str:
        return f"Rows({', '.join(type(t.source).__name__ for t in self._tables if t)})"

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of rows of the blocks; of chunks after they were gone through once."""
        return next(t.source for t in self._tables if t).sizes

    @property
    def n(self) -> int:
        """The number of rows."""
        return sum(self.counts)

    @property
    def counts(self) -> tuple[int, ...]:
        """The same; Dask does not always know sizes before it has counted."""
        return self.sizes

    def few(self, limit: int) -> Any:
        """At most `limit` rows, evenly spaced: the same ones whatever the blocks."""
        return self.take(evenly(self.n, limit))

    def take(self, rows: np.ndarray) -> Any:
        """Rows by their numbers, which ascend."""
        if not self.counts:
            raise ValueError(NO_BLOCKS)
        starts = np.cumsum([0, *self.counts])
        pieces = itertools.pairwise(np.searchsorted(rows, starts))
        every = {b: rows[i:j] - starts[b] for b, (i, j) in enumerate(pieces)}
        own = {b: (some, self.names) for b, some in every.items() if len(some) or not self.n}
        found = self._each(partial(numbered, taken), own)
        columns = [put_together(parts) for parts in zip(*found, strict=True)]
        return columns[0] if self._alone else columns

    def map(self, function: Callable, *given) -> Iterator:
        """`function(block, *given)` of every block, in order; blocks are worked on in threads."""
        return self._each(partial(_applied, function, self._alone, given))

    def reduce(self, function: Callable, *given, merge: Callable = merged) -> Any:
        """The values of `function(block, *given)` merged, eight at a time, in a fixed order.

        Parameters
        ----------
        function : callable
            From a block to what can be merged, `Moments` say.
        *given
            Handed to it.
        merge : callable
            Of two values; otherwise the first one's method `merge`.
        """
        task = partial(_applied, partial(unless_empty, function), self._alone, given)
        parts = self._each(task, merge=partial(merged_of, merge))
        return _in_tree((part for part in parts if part is not None), merge)

    def in_slices(self, function: Callable, width: int, *given) -> Any:
        """`function(*tables, *given)` of slices that fit in memory `width` columns wide, merged."""
        return self.reduce(_sliced, self.names, width, function, *given)

    def partial(self, *names: str, **maps) -> Moments:
        """Sums over these rows of coordinates and of their products.

        Those of rows on other machines are merged with them: `here.merge(there)`; `Moments` can be
        pickled.

        Parameters
        ----------
        *names : str
            "x" for Σφ_x, "yx" for Σφ_yφ_xᵀ, …; one letter for each of `maps`.
        **maps : feature map or None
            What has `transform` and `rank_`; None is the rows themselves. Where blocks are tuples,
            pairs of the number of a table and a map.

        Returns
        -------
        Moments

        Examples
        --------
        >>> import numpy as np, kernelmean as km
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> here, there = km.Rows(X[:40]), km.Rows(X[40:])
        >>> both = here.partial("xx", x=None).merge(there.partial("xx", x=None))
        >>> both.n, np.allclose(both.sums["xx"], X.T @ X)
        (100, True)
        """
        pairs = {key: m if isinstance(m, tuple) else (0, m) for key, m in maps.items()}
        width = sum(m.rank_ for _, m in pairs.values() if m is not None)
        return self.in_slices(_moments, width, names, pairs)

    def answers(self, function: Callable, *given) -> Rows:
        """`function(block, *given)` of every block, computed whenever it is read."""
        told = next(t.dtype for t in self._tables if t)
        task = partial(_in_single, function) if told == "float32" else function
        return Rows._of([_Table(_Mapped(self, task, given))], alone=True)

    @property
    def ordered(self) -> bool:
        """Whether rows follow each other, and are read here; those of Spark do not, and are not."""
        return all(getattr(t.source, "ordered", True) for t in self._tables if t)

    def _each(self, task: Callable, own: dict[int, tuple] | None = None, merge=None) -> Iterator:
        """task(number, block) of the blocks; in threads where they are read here.

        Or task(number, block, *own[number]) of some. With `merge`, of a list, workers may hand back
        values that they merged.
        """
        if self.ordered:
            every = own or {}
            told = ((i, read, every.get(i, ())) for i, read in self.handles(own))
            return streamed(lambda item: task(item[0], item[1](), *item[2]), told)
        source = next(t.source for t in self._tables if t)
        sent = [t and replace(t, source=None) for t in self._tables]
        return source.each(partial(_on_picked, task, sent), own, merge)

    def handles(self, some: Container | None = None) -> Iterator[tuple[int, Callable]]:
        """Number of every block, and what reads it."""
        sources = {id(t.source): t.source for t in self._tables if t}
        opened = [source.handles(self._columns(source)) for source in sources.values()]
        for i, handles in enumerate(zip(*opened, strict=True)):
            if some is None or i in some:
                yield i, partial(self._read, dict(zip(sources, handles, strict=True)))

    def _columns(self, source) -> list[str] | None:
        """Names of the columns that are read of a source; None for all."""
        first = [t.picks[0] if t.picks else None for t in self._tables if t and t.source is source]
        if not all(isinstance(key, str | list) for key in first):
            return None
        names = ([key] if isinstance(key, str) else list(key or ()) for key in first)
        return list(dict.fromkeys(itertools.chain(*names)))

    def _read(self, handles: dict) -> tuple:
        read = {key: handle() for key, handle in handles.items()}
        return tuple(t and t.of(read[id(t.source)]) for t in self._tables)


def _itself(block):
    return block


def _in_single(function: Callable, *given) -> Any:
    answers = ends(function(*given))
    if hasattr(answers[0], "astype"):
        return of_ends([part.astype("float32") for part in answers])
    xp = arrays.namespace(answers[0])
    return of_ends([xp.astype(part, xp.float32) for part in answers])


def _applied(function: Callable, alone: bool, given: tuple, i: int, block: tuple):
    return numbered(function, i, block[0] if alone else block, *given)


def _sliced(block, names: tuple[str, ...], width: int, function: Callable, *given) -> Any:
    tables = block if isinstance(block, tuple) else (block,)
    names = names or tuple(f"table {i} of rows" for i in range(len(tables)))
    pairs = zip(tables, names, strict=True)
    points = (checks.as_points(table, name) for table, name in pairs if table is not None)
    slices = row_blocks(*points, rows=block_rows(width))
    return reduce(merged, streamed(lambda some: function(*some, *given), slices))


def _moments(*given) -> Moments:
    *points, names, maps = given
    values = {
        key: points[i] if m is None else m.transform(points[i]) for key, (i, m) in maps.items()
    }
    return Moments(*names).add(**values)


def unless_empty(function: Callable, block, *given):
    """function(block, *given), or None where the block has no rows."""
    return function(block, *given) if length(block) else None


def numbered(function: Callable, i: int, block, *given):
    """function(block, *given); what is wrong with a block is said with its number."""
    try:
        return function(block, *given)
    except ValueError as err:
        raise ValueError(f"{err} (in block {i})") from err


def merged_of(merge: Callable, parts: Iterable) -> Any:
    """All of them, one after the other, but for those of blocks without rows."""
    some = [part for part in parts if part is not None]
    return reduce(merge, some) if some else None


def _in_tree(parts: Iterator, merge: Callable) -> Any:
    """Merged eight at a time, level by level, as they come: no more than ten of each are kept."""
    while len(ahead := list(itertools.islice(parts, 2))) > 1:
        parts = _by_eights(itertools.chain(ahead, parts), merge)
    if not ahead:
        raise ValueError(NO_BLOCKS)
    return ahead[0]


def _by_eights(parts: Iterator, merge: Callable) -> Iterator:
    while some := list(itertools.islice(parts, FAN)):
        yield merged_of(merge, some)


def joined(**tables) -> Rows:
    """One `Rows` of tuples of tables, in the blocks of the first; None where there is no table."""
    name, lead = next((name, t) for name, t in tables.items() if isinstance(t, Rows))
    parts = (_as_part(table, key, name, lead) for key, table in tables.items())
    return Rows._of(parts, names=tuple(tables))


def _as_part(table, key: str, name: str, lead: Rows) -> _Table | None:
    """A table of other rows than those of `lead` is joined by their order, so they are counted."""
    part = table._tables[0] if isinstance(table, Rows) else None
    if table is None or (part and part.source is lead._tables[0].source):
        return part
    if not (lead.ordered and (part is None or table.ordered)):
        raise ValueError(
            f"{name} or {key} is of a DataFrame of Spark, whose rows have no order to join others "
            "by; both have to be columns of one km.Rows(frame)"
        )
    if part is None:
        table = table if hasattr(table, "iloc") else np.asarray(table)
        checks.check_lengths(lead.n, len(table), name, key)
        return _Table(_Chunks(_Slices(table, np.cumsum([0, *lead.sizes]).tolist())))
    if part.source.sizes != lead.sizes:
        checks.check_lengths(lead.n, sum(part.source.sizes), name, key)
        raise ValueError(
            f"{key} has blocks of other sizes than {name}; take both from one Rows, of blocks "
            "that are tuples or have columns"
        )
    return part


# ------------------------------------------------------------------------------ where blocks are
@dataclass(frozen=True)
class _Table:
    """Columns of a source: what is picked of each of its blocks."""

    source: Any
    picks: tuple = ()
    dtype: str = "float64"

    def of(self, block) -> Any:
        return reduce(_picked, self.picks, block)


def _picked(block, key) -> Any:
    rows = not isinstance(key, tuple) or key[0] != slice(None)
    if rows and isinstance(block, np.ndarray):
        raise TypeError(f"rows[{key!r}] of arrays; columns are rows[:, 0] or rows[:, :2]")
    try:
        return block[key]
    except KeyError as err:
        raise ValueError(f"rows[{key!r}] is asked for; blocks have other columns: {err}") from err


def _on_picked(task: Callable, tables: list, i: int, block, *own) -> Any:
    return task(i, tuple(t and t.of(block) for t in tables), *own)


@dataclass(frozen=True)
class _Slices:
    """An array, a memory map or a DataFrame, which stay where they are."""

    table: Any
    bounds: Sequence[int]

    def __iter__(self) -> Iterator:
        for i, j in itertools.pairwise(self.bounds):
            yield self.table.iloc[i:j] if hasattr(self.table, "iloc") else self.table[i:j, ...]


@dataclass(frozen=True)
class _Chunks:
    """What gives the same blocks whenever it is gone through."""

    chunks: Iterable

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(length(chunk) for chunk in self.chunks)

    def handles(self, columns) -> Iterator[Callable]:
        return (partial(_itself, chunk) for chunk in self.chunks)


def length(chunk) -> int:
    """Rows of a block."""
    return len(chunk[0] if isinstance(chunk, tuple) else chunk)


@dataclass(frozen=True)
class _Parquet:
    """Groups of rows of Parquet files, by name of the file."""

    paths: tuple[str, ...]

    @cached_property
    def groups(self) -> tuple[tuple[str, int, int], ...]:
        """Path, number and rows of each."""
        parquet = _parquet()
        found = []
        for path in self.paths:
            told = parquet.ParquetFile(path).metadata
            found += [(path, g, told.row_group(g).num_rows) for g in range(told.num_row_groups)]
        return tuple(found)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(n for _, _, n in self.groups)

    def handles(self, columns) -> Iterator[Callable]:
        return (partial(_row_group, path, g, columns) for path, g, _ in self.groups)


def _parquet() -> Any:
    return require("pyarrow.parquet", "reading Parquet files", "pip install 'kernelmean[app]'")


def _row_group(path: str, group: int, columns):
    file = _parquet().ParquetFile(path)
    missing = sorted(set(columns or ()) - set(file.schema_arrow.names))
    if missing:
        raise ValueError(f"{path} has no columns {missing}; it has {file.schema_arrow.names}")
    return file.read_row_group(group, columns=columns).to_pandas()


class _Mapped:
    """A function of the blocks of other rows."""

    def __init__(self, rows: Rows, function: Callable, given: tuple):
        self.rows, self.ordered = rows, rows.ordered
        self.task = partial(_applied, function, rows._alone, given)

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.rows.sizes

    def handles(self, columns) -> Iterator[Callable]:
        answer = self.task
        return (partial(lambda i, read: answer(i, read()), *item) for item in self.rows.handles())

    def each(self, task: Callable, own: dict | None, merge: Callable | None) -> Iterator:
        return self.rows._each(partial(_after, task, self.task), own, merge)


def _after(task: Callable, answer: Callable, i: int, block: tuple, *own) -> Any:
    return task(i, answer(i, block), *own)


def _source(source, step: int) -> Any:
    if isinstance(source, str | Path):
        if not (files := parquet_files(str(source))):
            raise ValueError(f"source is {str(source)!r}, where there is no Parquet file")
        return _Parquet(files)
    if hasattr(source, "mapInArrow"):
        from .spark import SparkTable

        return SparkTable(source)
    if checks.is_dask(source):
        raise TypeError("source is of Dask; estimators take Dask arrays and DataFrames as they are")
    if hasattr(source, "iloc") or (hasattr(source, "shape") and hasattr(source, "dtype")):
        n = len(source)
        return _Chunks(_Slices(source, [*range(0, max(n, 1), step), n]))
    if isinstance(source, Iterator):
        raise TypeError(
            f"source is a {type(source).__name__}, which can be read once only; a list, or an "
            "object whose __iter__ starts anew, is needed"
        )
    # a table of Polars, as a dictionary, would be gone through column by column
    if not hasattr(source, "__iter__") or hasattr(source, "iter_rows") or hasattr(source, "keys"):
        raise TypeError(
            f"source is a {type(source).__name__}; an array, a DataFrame of pandas, a path or an "
            "iterable of blocks is needed"
        )
    return _Chunks(source)


def parquet_files(path: str) -> tuple[str, ...]:
    """Those of a folder, or of a pattern, by name."""
    whole = Path(path)
    files = whole.rglob("*.parquet") if whole.is_dir() else whole.parent.glob(whole.name)
    return tuple(sorted(map(str, files)))


# ------------------------------------------------------------------------------------ some rows
def taken(block: tuple, rows: np.ndarray, names: tuple[str, ...]) -> tuple:
    """Some rows of every table of a block; where tables have names, of finite numbers."""
    some = tuple(None if part is None else _take(part, rows) for part in block)
    for name, part in zip(names, some, strict=False):
        if part is not None:
            checks.check_finite(checks.as_floats(part, name), name)
    return some


def _take(part, rows: np.ndarray):
    if isinstance(part, tuple):
        return tuple(_take(one, rows) for one in part)
    return part.iloc[rows] if hasattr(part, "iloc") else np.asarray(part)[rows]


def put_together(parts) -> Any:
    """Blocks of rows put together; None where they are None."""
    if len(parts) == 1 or parts[0] is None:
        return parts[0]
    if isinstance(parts[0], tuple):
        return tuple(map(put_together, zip(*parts, strict=True)))
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    shapes = sorted({part.shape[1:] for part in parts})
    if len(shapes) > 1:
        raise ValueError(f"blocks have rows of different shapes, {shapes}")
    return arrays.namespace(parts[0]).concat(list(parts))

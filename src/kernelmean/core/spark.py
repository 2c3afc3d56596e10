"""Rows that Spark holds: partitions are worked on where they are, and small matrices come here."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, groupby
from typing import Any

from .moments import FAN

VALUES = "block long, value binary"  # numbers of blocks, and what was pickled of each


@dataclass(frozen=True)
class SparkTable:
    """A DataFrame of Spark, a block a partition that has rows.

    All columns are read in every pass: which rows are in which partition may depend on columns.
    """

    frame: Any
    ordered = False

    @cached_property
    def filled(self) -> dict[int, int]:
        """Rows of the partitions that have some, by the number of the partition."""
        return dict(_told(self.frame.mapInArrow(partial(_worked, _size), VALUES).collect()))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.filled.values())

    def each(self, task: Callable, own: dict | None, merge: Callable | None) -> Iterator:
        """As `Rows._each`; with `merge` all merged to one value."""
        counted = enumerate(self.filled.items())
        every = {p: (i, n, (own or {}).get(i, ())) for i, (p, n) in counted}
        wanted = {p: known for p, known in every.items() if own is None or known[0] in own}
        done = self.frame.mapInArrow(partial(_worked, partial(_same, task, wanted)), VALUES)
        groups = len(every)
        while merge is not None and groups > 1:
            groups = -(-groups // FAN)
            eights = done.repartition(groups, (done["block"] / FAN).cast("long"))
            done = eights.mapInArrow(partial(_together, merge), VALUES)
        whole = own is None and merge is None
        rows = done.toLocalIterator(prefetchPartitions=True) if whole else done.collect()
        return (value for _, value in _told(rows))


def _told(rows) -> Iterator[tuple[int, Any]]:
    """Numbers and values; what was wrong with a block is raised here."""
    for number, pickled in rows:
        value = pickle.loads(pickled)
        if isinstance(value, ValueError):
            raise value
        yield number, value


def _worked(task: Callable, batches: Iterator) -> Iterator:
    """The batches of a partition, together: task(number of the partition, table)."""
    import pyarrow as pa
    from pyspark import TaskContext

    number, read = TaskContext.get().partitionId(), list(batches)
    if sum(batch.num_rows for batch in read):
        try:
            given = task(number, pa.Table.from_batches(read).to_pandas())
        except ValueError as err:
            given = number, err
        if given is not None:
            yield _record(*given)


def _size(number: int, table) -> tuple[int, int]:
    return number, len(table)


def _same(task: Callable, wanted: dict, number: int, table) -> tuple[int, Any] | None:
    """What a task says of a block, if it is asked for and as it was when rows were counted."""
    if number not in wanted:
        return None
    i, rows, own = wanted[number]
    if len(table) != rows:
        raise ValueError(
            f"source is a DataFrame of Spark with {rows} rows in block {i} when they were counted, "
            f"but {len(table)} now; DataFrame.persist() keeps it as it is"
        )
    return i, task(i, table, *own)


def _together(merge: Callable, batches: Iterator) -> Iterator:
    """Values of eight blocks merged, in the order of their numbers; some such eights."""
    rows = (zip(*batch.to_pydict().values(), strict=True) for batch in batches)
    found = sorted(chain.from_iterable(rows))
    for number, eight in groupby(found, lambda pair: pair[0] // FAN):
        values = [pickle.loads(pickled) for _, pickled in eight]
        wrong = (value for value in values if isinstance(value, ValueError))
        yield _record(number, next(wrong, None) or merge(values))


def _record(number: int, value) -> Any:
    """A row of `VALUES`."""
    import pyarrow as pa

    made = {"block": pa.array([number]), "value": pa.array([pickle.dumps(value)], pa.binary())}
    return pa.RecordBatch.from_pydict(made)

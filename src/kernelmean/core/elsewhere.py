"""The door for rows that are elsewhere: tables made one, and answers given block by block."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from .checks import FarAway, is_dask
from .rows import Rows, joined


def is_far(*tables) -> bool:
    """Whether any of the tables has its rows elsewhere."""
    return any(isinstance(table, FarAway) or is_dask(table) for table in tables)


def aligned(**tables) -> Rows:
    """One `Rows` of tuples of tables (None where there is none), in the blocks of the first.

    What is in memory is cut as the others are. What is of Dask goes with what is of Dask or in
    memory.
    """
    if not any(map(is_dask, tables.values())):
        return joined(**tables)
    mixed = [name for name, table in tables.items() if isinstance(table, Rows)]
    if mixed:
        raise ValueError(f"{mixed[0]} is a Rows, but others are of Dask; make them all one kind")
    from .dask import DaskRows

    return DaskRows(**tables)


def few_of(limit: int, **tables) -> tuple:
    """The rows, None where no table has them elsewhere; then the tables, of these `limit` rows."""
    if not is_far(*tables.values()):
        return None, *tables.values()
    rows = aligned(**tables)
    return rows, *rows.few(limit)


def by_blocks(*names: str, tables: tuple[str, ...] = ("X",)) -> Callable[[type], type]:
    """A class whose methods `names` answer, for rows that are elsewhere, in their blocks.

    For tables of Dask with Dask arrays in the same chunks, for a `Rows` with a `Rows` of answers:
    what is wrong with columns is said now, what is wrong with numbers when they are read.
    """

    def wrapped(cls: type) -> type:
        for name in names:
            setattr(cls, name, _in_blocks(getattr(cls, name), tables))
        return cls

    return wrapped


def in_blocks(estimator, name: str, tables: dict, others: dict) -> Any:
    """What a method answers for aligned tables, and other arguments, block by block.

    What blocks have in common, a method `before_blocks` of the estimator finds once.
    """
    if hasattr(estimator, "before_blocks"):
        estimator.before_blocks(**others)
    return aligned(**tables).answers(_answer, estimator, name, tuple(tables), others)


def _in_blocks(method: Callable, tables: tuple[str, ...]) -> Callable:
    signature = inspect.signature(method)

    @wraps(method)
    def inside(self, *args, **kwargs):
        if not is_far(*args, *kwargs.values()):
            return method(self, *args, **kwargs)
        given = signature.bind(self, *args, **kwargs).arguments
        far = {name: given[name] for name in tables if name in given}
        others = {name: given[name] for name in list(given)[1:] if name not in far}
        if is_far(*others.values()):  # which the method refuses by name
            return method(self, *args, **kwargs)
        return in_blocks(self, method.__name__, far, others)

    return inside


def _answer(block: tuple, estimator, name: str, tables: tuple, others: dict):
    return getattr(estimator, name)(**dict(zip(tables, block, strict=True)), **others)

"""Names of columns and the index of rows: a value made once at the door, given back at the end."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import to_numpy
from .checks import column_names
from .extras import require
from .saving import Saveable


@dataclass(frozen=True)
class Labels(Saveable):
    """Of a table: the names of its columns and the index of its rows, where it has them."""

    columns: tuple[str, ...] | None = None
    index: Any = None

    @classmethod
    def of(cls, X, columns: Sequence[str] | None = None) -> Labels:
        """Those of a DataFrame or Series, or other columns beside its index; arrays have none."""
        names = column_names(X) if columns is None else columns
        index = getattr(X, "index", None) if hasattr(X, "iloc") else None
        return cls(None if names is None else tuple(names), index)

    @classmethod
    def known_to(cls, estimator) -> Labels:
        """Names of the columns that an estimator was fitted to."""
        return cls.of(None, getattr(estimator, "feature_names_in_", None))

    def state(self) -> dict[str, Any]:
        """What is saved: an index may hold anything, and stays behind."""
        return {"columns": self.columns}

    def at(self, rows, n: int) -> Labels:
        """Of some of n laws; a single one has no index, nor have those that it does not number."""
        if not np.arange(n)[rows].size:
            raise ValueError(f"the index picks none of the {n} laws; one at least is needed")
        fits = self.index is not None and len(self.index) == n and np.ndim(self.index[rows]) == 1
        return Labels(self.columns, self.index[rows] if fits else None)

    def of_columns(self, chosen: Sequence[int]) -> Labels:
        """Of some of the columns."""
        names = None if self.columns is None else tuple(self.columns[j] for j in chosen)
        return Labels(names, self.index)

    def ahead(self, steps: int) -> Labels:
        """Of the rows that follow: dates where the index is regular, numbers otherwise.

        None where the calendar has no such hour, or ends.
        """
        if self.index is None or len(self.index) == 0:
            return Labels(self.columns)
        index = as_dates(self.index)
        last, frequency = index[-1], getattr(index, "freq", None) or _regular(index)
        if frequency is not None:
            with suppress(ValueError):
                return Labels(self.columns, _following(index, frequency, steps))
        elif isinstance(last, int | np.integer | float) and (gap := _gap(index)):
            start = float(last) if isinstance(last, float) else int(last)
            later = start + gap * np.arange(1, steps + 1)
            return Labels(self.columns, pandas().Index(later, name=index.name))
        return Labels(self.columns)

    def named(self, d: int, stem: str = "y") -> list[str]:
        """d names: the table's own, or `stem`, or `stem0`, `stem1`, ..."""
        if self.columns is not None and len(self.columns) == d:
            return list(self.columns)
        return [stem] if d == 1 else [f"{stem}{j}" for j in range(d)]

    def frame(self, parts: Mapping[str, Any], stem: str = "y", extrapolated=None):
        """A DataFrame of arrays (m, d): columns `name` + suffix, those of one name side by side.

        And `extrapolated`, where it is known. No two may have one name.
        """
        arrays = {suffix: to_numpy(part) for suffix, part in parts.items()}
        tables = {suffix: a.reshape(len(a), -1) for suffix, a in arrays.items()}
        n, d = next(iter(tables.values())).shape
        told = [
            (f"{name}{suffix}", table[:, j])
            for j, name in enumerate(self.named(d, stem))
            for suffix, table in tables.items()
        ]
        told += [] if extrapolated is None else [("extrapolated", extrapolated)]
        names = [name for name, _ in told]
        if again := [name for name in names if names.count(name) > 1]:
            raise ValueError(
                f"two columns of the table of answers would be called {again[0]!r}, as one of the "
                "data is; another name of it in fit is needed"
            )
        own = self.index is not None and len(self.index) == n
        return pandas().DataFrame(dict(told), index=self.index if own else None)


def as_dates(index) -> Any:
    """Python's dates, or those of Arrow, as an index that knows its frequency; others as it is."""
    if getattr(index, "inferred_type", "") in ("date", "datetime", "datetime64"):
        with suppress(ValueError):  # of years that some versions have not
            return pandas().DatetimeIndex(index)
    return index


def _regular(index):
    """The frequency of dates that have one, as on the 15th of every month, or None."""
    if not hasattr(type(index), "inferred_freq") or len(index) < 3:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a string here, an offset in pandas 4
        found = pandas().tseries.frequencies.to_offset(index.inferred_freq)
    if found is None and hasattr(index, "month"):
        gaps = {*np.diff(12 * index.year + index.month)}
        if len(gaps) == len({*zip(index.day, index.time, strict=True)}) == 1:
            return pandas().DateOffset(months=int(*gaps))
    return found


def _gap(index) -> float:
    """By how much numbers grow from row to row; where they do not by the same 1, or 0 of floats."""
    kind = getattr(index.dtype, "kind", "O")
    if kind == "f":  # years, say, of a table that was read as floats
        steps = np.diff(index.to_numpy(dtype=float))
        return float(steps[0]) if len(steps) and np.allclose(steps, steps[0], 1e-9, 0) else 0
    whole = kind in "iu" and not index.hasnans
    gaps = set(np.diff(index.to_numpy(dtype=int)).tolist()) if whole else set()
    return max(1, *gaps) if len(gaps) == 1 else 1


def _following(index, frequency, steps: int):
    """The dates or periods after those of an index, as one of its kind and frequency."""
    found = pandas().Index([index[-1] + frequency * k for k in range(1, steps + 1)])
    if hasattr(type(found), "inferred_freq"):
        found.freq = frequency
    return found.rename(index.name)


def law_frame(law, labels: Labels, level: float, stem: str = "y"):
    """Mean (the column's own name), `_std`, `_lower`, `_upper` of every column; `extrapolated`."""
    lower, upper = law.interval(level)
    told = {"": law.mean(), "_std": law.std(), "_lower": lower, "_upper": upper}
    parts = {suffix: np.atleast_2d(to_numpy(part)) for suffix, part in told.items()}
    return labels.frame(parts, stem, law.extrapolated)


def pandas() -> Any:
    """The library, which is only needed where tables are asked for."""
    return require("pandas", "a table", "pip install pandas")

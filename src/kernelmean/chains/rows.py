"""Observations in the order of time: which are there, their sequences, and known inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core import Array, arrays, checks
from ..core.sequences import check_forward, check_sequences

STRETCHES = 20  # of some of the rows, from all over the sequences


@dataclass(frozen=True)
class Rows:
    """Observations, which of them are there, and the sequences that they form.

    Attributes
    ----------
    points : array of shape (n, d)
    seen : bool array of shape (n,)
    sequences : list of slice
    used : bool array of shape (n,)
        Rows that are learned from; the others are missing to EM.
    gaps : bool array of shape (n, d), optional
        Entries that are missing, where rows that are there in part say something as well.
    inputs : array of shape (n, p), optional
        What drives the step into each row.
    """

    points: Array
    seen: np.ndarray
    sequences: list[slice]
    used: np.ndarray
    gaps: np.ndarray | None = None
    inputs: np.ndarray | None = None

    @classmethod
    def of(cls, points, seen: np.ndarray, sequences: list[slice], gaps=None, inputs=None) -> Rows:
        """All rows seen are used."""
        return cls(points, seen, sequences, seen, gaps, inputs)

    @cached_property
    def parts(self) -> list[tuple[np.ndarray, list[int], Array]]:
        """Rows that lack the same columns, the columns that are there, and what is in these."""
        if self.gaps is None:
            return []
        partly = np.flatnonzero(self.gaps.any(axis=1) & ~self.gaps.all(axis=1))
        patterns, pattern = np.unique(self.gaps[partly], axis=0, return_inverse=True)
        found = []
        for k, gaps in enumerate(patterns):
            rows, columns = partly[pattern.reshape(-1) == k], np.flatnonzero(~gaps)
            points = arrays.take(arrays.take(self.points, rows, axis=0), columns, axis=1)
            found.append((rows, columns.tolist(), points))
        return found

    @property
    def missing(self) -> np.ndarray:
        """Whether each entry is, (n, d) or (n, 1)."""
        return ~self.seen[:, None] if self.gaps is None else self.gaps

    def weights(self, gamma: np.ndarray) -> np.ndarray:
        """γ of the rows seen, zero where they are not used."""
        if self.used.all():
            return gamma
        return np.where(self.used[self.seen, None], gamma[self.seen], 0.0)

    def halves(self, pieces: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows seen in every other of some stretches, and those in the others."""
        n = int(self.seen.sum())
        odd = np.zeros(len(self.seen), dtype=bool)
        odd[self.seen] = np.arange(n) * min(pieces, n) // n % 2 == 1
        return odd, self.seen & ~odd

    @property
    def there(self) -> Array:
        """The rows seen."""
        if self.seen.all():
            return self.points
        return arrays.take(self.points, np.flatnonzero(self.seen), axis=0)

    def stretches(self, limit: int, pieces: int = STRETCHES) -> tuple[np.ndarray, Rows]:
        """Numbers of about `limit` rows in stretches over the whole, and these rows."""
        if len(self.seen) <= limit:
            return np.arange(len(self.seen)), self
        longest = max(2, limit // pieces)
        parts = [
            slice(start, min(start + longest, s.stop))
            for s in self.sequences
            for start in range(s.start, s.stop, longest)
        ]
        enough = max(1, round(limit * len(parts) / len(self.seen)))
        chosen = np.unique(np.linspace(0, len(parts) - 1, enough).round().astype(int))
        return self.at([parts[i] for i in chosen])

    def at(self, parts: list[slice]) -> tuple[np.ndarray, Rows]:
        """Numbers of the rows of some stretches, and these rows, each stretch a sequence."""
        numbers = np.concatenate([np.arange(s.start, s.stop) for s in parts])
        sequences = check_sequences([s.stop - s.start for s in parts], len(numbers))
        told = (None if a is None else a[numbers] for a in (self.gaps, self.inputs))
        points = arrays.take(self.points, numbers, axis=0)
        return numbers, Rows.of(points, self.seen[numbers], sequences, *told)


def observed(X, name: str, min_rows: int = 1) -> tuple[Array, np.ndarray]:
    """Rows of numbers, and which of them are whole; gaps in the others are filled from one."""
    points = checks.as_points(X, name, min_rows=min_rows, one_d=False, gaps=True)
    xp = arrays.namespace(points)
    gaps = xp.isnan(points)
    seen = ~arrays.to_numpy(xp.any(gaps, axis=1))
    if seen.all():
        return points, seen
    first = points[int(np.argmax(seen)), :] if seen.any() else xp.zeros_like(points[0, :])
    return xp.where(gaps, first[None, :], points), seen


def observed_like(X, name: str, known: Array) -> tuple[Array, np.ndarray]:
    """Rows with the columns of the `known` points of training, and which of them are whole."""
    points, seen = observed(X, name)
    if name != "X":  # scikit-learn has words of its own for X
        checks.check_columns(points, known.shape[1], name, "the training data")
    checks.check_library(points, known, name)
    return points, seen


def gaps_in(X) -> np.ndarray:
    """Whether each entry is missing."""
    return np.isnan(arrays.to_numpy(checks.as_points(X, "X", one_d=False, gaps=True)))


# ------------------------------------------------------------ what is known beforehand


def check_aligned(X, inputs) -> None:
    """Two tables have one index."""
    tables = hasattr(X, "iloc") and hasattr(inputs, "iloc")
    if tables and not X.index.equals(inputs.index):
        raise ValueError("inputs has another index than X; rows of the same times are needed")


def as_inputs(
    inputs, n: int, count: int | None, name: str = "inputs", known: list[str] | None = None
) -> np.ndarray | None:
    """Known inputs of n rows, the columns that there were in fitting."""
    names = checks.column_names(inputs)
    if names is not None and known is not None and names != known:
        raise ValueError(f"{name} has the columns {names}; those of fitting are {known}")
    if count == 0 or (count is None and inputs is None):
        if inputs is not None:
            raise ValueError(f"{name} were given, and none in fitting")
        return None
    if inputs is None:
        raise ValueError(f"{name} is None; the model was fitted with {count} of them")
    found = arrays.to_numpy(checks.as_points(inputs, name))
    if found.shape[0] != n:
        raise ValueError(f"{name} has {checks.counted(found.shape[0], 'row')}; {n} are needed")
    if count is not None:
        checks.check_columns(found, count, name, "those of fitting")
    return found


def as_input_row(inputs, count: int, known: list[str] | None) -> np.ndarray | None:
    """The same of one row: numbers, (k,), or a Series or table that names them."""
    row = checks.as_row(inputs)
    row = row if row is None or np.ndim(row) == 2 else np.atleast_2d(np.asarray(row))
    return as_inputs(row, 1, count, known=known)


# ------------------------------------------------------------ what a fitted estimator is asked of


def rows_like(estimator, X, lengths=None, inputs=None) -> Rows:
    """Rows like those of training; a missing one is filled, and not `seen`."""
    points = points_like(estimator, X, "X")
    X = checks.as_table(X)
    checks.note_columns(estimator, X, reset=False)
    check_aligned(X, inputs)
    gaps, n = None if points[1].all() else gaps_in(X), len(points[1])
    sequences = check_sequences(lengths, n)
    check_forward(X, sequences)
    return Rows.of(*points, sequences, gaps, inputs_like(estimator, inputs, n))


def inputs_like(estimator, inputs, n: int, name: str = "inputs") -> np.ndarray | None:
    """Known inputs of n rows, like those of fitting."""
    return as_inputs(inputs, n, estimator.inputs_, name, estimator.input_names_)


def points_like(estimator, X, name: str) -> tuple[Array, np.ndarray]:
    """Points with the columns of the training data, and which of them are whole."""
    check_is_fitted(estimator)
    return observed_like(X, name, estimator.emissions_.points)

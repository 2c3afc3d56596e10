"""Values of y that repeat: the part of each smooth law that stands for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core import Line, Saveable, arrays
from .laws import MovedLaws

SHARE, FEWEST = 0.01, 5  # of the rows, and in number, from which on a repeated value is an atom
NEAR, APART = 10, 4.0  # values at either side; deviations of their counts by which it stands out
LEVELS = 200  # quantiles of each law that cells are cut from
NAMED = 3  # atoms of a column in a summary


@dataclass(frozen=True)
class Atoms(Saveable):
    """Atoms v of columns of y, each with a cell [a, b] of the line whose mass is P(y = v | x).

    With F̄ the mean over the rows of the smooth distribution functions, F the empirical one,

        a = min(F̄⁻¹(F(v−)), v),    b = max(F̄⁻¹(F(v)), v),

    neither beyond the atoms beside it:
    on average over the rows an atom has the probability that it has in the data, at each x that
    of its cell there. Where all of y are atoms (counts, ratings) these are the cut points of an
    ordered regression.

    Attributes
    ----------
    columns : array of int of shape (k,)
    values, shares, low, high : array of shape (k,)
        Ascending within a column; a is −∞ at the smallest value of all, b is ∞ at the largest.
    """

    columns: np.ndarray
    values: np.ndarray
    shares: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def found(cls, Y: np.ndarray) -> Atoms | None:
        """Values that repeat in rows (n, d), with cells that hold nothing but them."""
        parts = []
        for j, column in enumerate(Y.T):
            values, count = np.unique(column, return_counts=True)
            atom = count >= max(SHARE * len(column), FEWEST)
            if count[atom].sum() < len(column) / 2:  # not counts: rounding alone repeats values
                atom &= count >= _by_rounding(count)
            below, size = (np.cumsum(count) - count)[atom] / len(column), count[atom] / len(column)
            parts.append([np.full(len(size), j), values[atom], size, below, below + size])
        columns, *rest = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(columns.astype(int), *rest) if len(columns) else None

    def cut(self, laws: MovedLaws) -> Atoms:
        """With cells, which were shares of the rows until now, from laws at some of the rows."""
        every = arrays.to_numpy(laws.quantile((np.arange(LEVELS) + 0.5) / LEVELS))
        low, high = np.empty((2, len(self.values)))
        for j in np.unique(self.columns):
            mine, smooth = self.columns == j, every[..., j].ravel()
            v, ends = self.values[mine], [self.low[mine], np.minimum(self.high[mine], 1.0)]
            a, b = np.quantile(smooth, ends)
            low[mine] = np.clip(a, np.append(-np.inf, v[:-1]), v)
            high[mine] = np.clip(b, v, np.append(v[1:], np.inf))
        low = np.where(self.low <= 0, -np.inf, low)
        high = np.where(self.high >= 1 - 1e-12, np.inf, high)
        return replace(self, low=low, high=high)

    def snapped(self, Y: np.ndarray) -> np.ndarray:
        """Y (..., d), with what is in a cell at its atom."""
        return self._in_cells(Y, self.values, self.values)

    def edges(self, Y: np.ndarray) -> np.ndarray:
        """Where smooth distribution functions are those at Y (..., d): ends of cells, in cells."""
        return self._in_cells(Y, self.low, self.high)

    def _in_cells(self, Y: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """`before` where Y is in a cell, before its atom, and `after` from there on."""
        found = Y.copy()
        for j in np.unique(self.columns):
            mine, y = np.flatnonzero(self.columns == j), Y[..., j]
            past = np.searchsorted(self.values[mine], y, "right")
            left, right = mine[np.maximum(past - 1, 0)], mine[np.minimum(past, len(mine) - 1)]
            is_left, is_right = past > 0, past < len(mine)
            into = np.where(is_right & (y >= self.low[right]), before[right], y)
            found[..., j] = np.where(is_left & (y <= self.high[left]), after[left], into)
        return found

    def lines(self, names: Sequence[str]) -> list[Line]:
        """For summaries: the atoms of each column, the most frequent first."""
        found = []
        for j in np.unique(self.columns):
            mine = np.flatnonzero(self.columns == j)
            most = mine[np.argsort(-self.shares[mine], kind="stable")]
            text = ", ".join(f"{self.values[k]:.4g} ({self.shares[k]:.0%})" for k in most[:NAMED])
            more = f" and {len(most) - NAMED} more" if len(most) > NAMED else ""
            found.append(Line(f"repeated values of {names[j]}", self.values[mine], text + more))
        return found


def _by_rounding(count: np.ndarray) -> np.ndarray:
    """How often each value may repeat by chance, where the values beside it repeat as they do."""
    values, rows = (np.convolve(c, np.ones(2 * NEAR + 1))[NEAR:-NEAR] for c in (count > 0, count))
    usual = (rows - count) / np.maximum(values - 1, 1)
    return usual + APART * np.sqrt(usual)

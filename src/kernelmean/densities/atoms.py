"""Values of y that repeat: the part of each smooth law that stands for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core import Line, Saveable, arrays
from .laws import MovedLaws

SHARE, FEWEST = 0.01, 5  # of the rows, and in number, from which on a repeated value is an atom
NEAR, APART = 10, 4.0  # values at either side; deviations of their counts by which it stands out
LEVELS = 200  # quantiles of each law that cells are cut from
FAR = 1e200  # where cells end that have no end
NAMED = 3  # atoms of a column in a summary


@dataclass(frozen=True)
class Atoms(Saveable):
    """Atoms v of columns of y, each with a cell [a, b] of the line whose mass is P(y = v | x).

    With F̄ the mean over the rows of the smooth distribution functions, F the empirical one,

        a = F̄⁻¹(F(v−)),    b = F̄⁻¹(F(v)):

    on average over the rows an atom has the probability that it has in the data, at each x that of
    its cell there. Where all of y are atoms (counts, ratings) these are the cut points of an
    ordered regression. What is between two cells comes between the two atoms, to values that were
    seen there: where the mass of an atom was smoothed to, they would have none otherwise.

    Attributes
    ----------
    columns : array of int of shape (k,)
    values, shares, low, high : array of shape (k,)
        Ascending within a column; a is −∞ at the smallest value of all, b is ∞ at the largest.
    before, after : array of shape (k,), or None
        The nearest values that were seen beside each. A file of an earlier version has none: what
        is in no cell then stays where it is.
    """

    columns: np.ndarray
    values: np.ndarray
    shares: np.ndarray
    low: np.ndarray
    high: np.ndarray
    before: np.ndarray | None = None
    after: np.ndarray | None = None

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
            beside = np.r_[values[:1], values[:-1]][atom], np.r_[values[1:], values[-1:]][atom]
            parts.append([np.full(len(size), j), values[atom], size, below, below + size, *beside])
        columns, *rest = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(columns.astype(int), *rest) if len(columns) else None

    def cut(self, laws: MovedLaws) -> Atoms:
        """With cells, which were shares of the rows until now, from laws at some of the rows."""
        every = arrays.to_numpy(laws.quantile((np.arange(LEVELS) + 0.5) / LEVELS))
        low, high = np.empty((2, len(self.values)))
        for j in np.unique(self.columns):
            mine, smooth = self.columns == j, every[..., j].ravel()
            shares = self.low[mine], np.minimum(self.high[mine], 1.0)
            low[mine], high[mine] = np.quantile(smooth, shares)
        low = np.where(self.low <= 0, -np.inf, low)
        high = np.where(self.high >= 1 - 1e-12, np.inf, high)
        return replace(self, low=low, high=high)

    def snapped(self, Y: np.ndarray) -> np.ndarray:
        """T of Y (..., d), which takes what is in a cell to its atom."""
        return self._through(Y, lambda ends, at: (ends, at))

    def edges(self, Y: np.ndarray) -> np.ndarray:
        """Where smooth distribution functions are those at Y: the largest y with T(y) ≤ Y."""
        found = self._through(Y, lambda ends, at: (at, ends))
        return np.where(np.abs(found) < FAR, found, np.copysign(np.inf, found))

    def _through(self, Y: np.ndarray, way: Callable) -> np.ndarray:
        """T, or its inverse, by lines from knot to knot; Y itself beyond them.

        Knots are at the ends of cells. Just outside of one T is where it is, or as near to that as
        may be from the atom to the next value seen. From the outermost ends it comes back to Y
        within as much as it was off.
        """
        found = Y.copy()
        before, after = (self.low if self.before is None else self.before), self.after
        after = self.high if after is None else after
        for j in np.unique(self.columns):
            mine, y = self.columns == j, Y[..., j]
            v, a, b = self.values[mine], self.low[mine].clip(-FAR), self.high[mine].clip(None, FAR)
            left = a.clip(np.minimum(before[mine], v), v)
            right = b.clip(v, np.maximum(after[mine], v))
            first = left[0] + min(2 * (a[0] - left[0]), left[0] - a[0])
            last = right[-1] + max(2 * (b[-1] - right[-1]), right[-1] - b[-1])
            ends = np.stack([a, a, b, b], axis=1).ravel()
            at = np.stack([left, v, v, right], axis=1).ravel()
            knots, to = way(np.r_[first, ends, last], np.r_[first, at, last])
            found[..., j] = np.where((y < first) | (y > last), y, np.interp(y, knots, to))
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

"""Where an answer rests on data: the box of the training rows, and the nearest point of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from ..core import Array, Saveable, arrays, checks
from ..kernels import Kernel

FAR = 0.1  # widths of the box beyond it, which are said


@dataclass(frozen=True)
class Support(Saveable):
    """The box of the training rows, in the columns that a kernel takes for numbers.

    Attributes
    ----------
    low, high : array of shape (d,)
    """

    low: Array
    high: Array

    @classmethod
    def of(cls, X, *_) -> Support:
        """Of rows (n, d), the first of several tables."""
        xp = arrays.namespace(X)
        return cls(xp.min(X, axis=0), xp.max(X, axis=0))

    def merge(self, other: Support) -> Support:
        """The box around both."""
        xp = arrays.namespace(self.low)
        return Support(xp.minimum(self.low, other.low), xp.maximum(self.high, other.high))

    def widened(self, share: float) -> Support:
        """By so many of its widths at every end."""
        margin = share * (self.high - self.low)
        return Support(self.low - margin, self.high + margin)

    def nearest(self, X, kernel: Kernel) -> Array:
        """The nearest rows of the box, continuous in X, (m, d)."""
        checks.check_library(X, self.low, "X")
        return kernel.clipped(X, self.low, self.high)

    def outside(self, X, kernel: Kernel, what: str) -> np.ndarray:
        """Which rows are outside, (m,).

        With one warning, which says what that means, where any is by more than a tenth of the
        range of the data.
        """
        far = _differ(X, self.widened(FAR).nearest(X, kernel))
        if far.any():
            checks.warn_numerical(
                f"X has {far.sum()} row(s) outside the training data, row {np.flatnonzero(far)[0]} "
                f"first: {what}"
            )
        return _differ(X, self.nearest(X, kernel))


def nearest_of(X: np.ndarray, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """So many of the rows (n, d) that are nearest to each of X (m, d), by ranges of the columns.

    Their distances and their numbers, (m, count) each.
    """
    width = np.ptp(rows, axis=0)
    width = np.where(width > 0, width, 1.0)
    return KDTree(rows / width).query(X / width, k=np.arange(1, count + 1))


def _differ(X, Y) -> np.ndarray:
    return np.any(arrays.to_numpy(X) != arrays.to_numpy(Y), axis=1)

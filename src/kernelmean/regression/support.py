"""Where an answer rests on data: the box of the training rows, and the nearest point of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import arrays
from ..core.checks import Array, warn_numerical
from ..core.saving import Saveable
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
    def of(cls, X) -> Support:
        """Of rows (n, d)."""
        xp = arrays.namespace(X)
        return cls(xp.min(X, axis=0), xp.max(X, axis=0))

    @property
    def width(self) -> Array:
        """Of each column."""
        return self.high - self.low

    def nearest(self, X, kernel: Kernel) -> Array:
        """The nearest rows of the box, continuous in X, (m, d)."""
        return kernel.clipped(X, self.low, self.high)

    def around(self, X, kernel: Kernel, widths: float) -> Array:
        """The same for a box that is larger on all sides by so many of its widths."""
        return kernel.clipped(X, self.low - widths * self.width, self.high + widths * self.width)

    def outside(self, X, kernel: Kernel) -> np.ndarray:
        """Which rows are outside, (m,)."""
        return _differ(X, self.nearest(X, kernel))

    def warn(self, X, kernel: Kernel, what: str) -> None:
        """One warning where rows are outside by more than a tenth of the range of the data."""
        far = _differ(X, self.around(X, kernel, FAR))
        if far.any():
            warn_numerical(
                f"X has {far.sum()} row(s) outside the training data, row {np.flatnonzero(far)[0]} "
                f"first: {what}",
                stacklevel=5,
            )


def _differ(X, Y) -> np.ndarray:
    return np.any(arrays.to_numpy(X) != arrays.to_numpy(Y), axis=1)

"""A bent scale of y, on which a skewed or long-tailed law is an ordinary one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.saving import Saveable


@dataclass(frozen=True)
class Bend(Saveable):
    """B(y) = s arsinh((y − c)/s) of each column, going on along its tangents beyond the data.

    Between a line (s far above the spread of y) and a logarithm (s far below y − c). Towards far y
    it is a line, so that no law on the original scale explodes.

    Attributes
    ----------
    centre, scale : array of shape (d,)
        c and s.
    low, high : array of shape (d,)
        The ends of the data.
    gain : tuple of float
        Log density of rows left out over that of a straight scale in the trial that chose it, a
        row, and its standard error.
    """

    centre: np.ndarray
    scale: np.ndarray
    low: np.ndarray
    high: np.ndarray
    gain: tuple[float, float] = (0.0, 0.0)

    def __call__(self, Y: np.ndarray) -> np.ndarray:
        """B at rows (..., d)."""
        near = np.clip(Y, self.low, self.high)
        u = (near - self.centre) / self.scale
        return self.scale * np.arcsinh(u) + (Y - near) / np.sqrt(1.0 + u * u)

    transform = __call__  # for sums over rows

    @property
    def rank_(self) -> int:
        return len(self.scale)

    def back(self, Z: np.ndarray) -> np.ndarray:
        """B⁻¹ at rows (..., d)."""
        near = np.clip(Z, self(self.low), self(self.high))
        u = np.sinh(near / self.scale)
        return self.centre + self.scale * u + (Z - near) * np.sqrt(1.0 + u * u)

    def log_steepness(self, Y: np.ndarray) -> np.ndarray:
        """log B′ of each column at rows (..., d): log p(y) is log p_B(B(y)) and its sum."""
        u = (np.clip(Y, self.low, self.high) - self.centre) / self.scale
        return -0.5 * np.log1p(u * u)

    @property
    def bent(self) -> np.ndarray:
        """Which columns are bent at all, (d,)."""
        return self.scale < 10.0 * (self.high - self.low)

    def on(self, columns) -> Bend:
        """That of one column, or of several."""
        j = np.atleast_1d(columns)
        return Bend(self.centre[j], self.scale[j], self.low[j], self.high[j], self.gain)

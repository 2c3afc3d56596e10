"""Columns made standard normal by their quantiles: coordinates without bounds or heavy tails."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import norm


@dataclass(frozen=True)
class NormalScores:
    """z_j = Φ⁻¹(F_j(x_j)), F_j the distribution of column j; between knots a line.

    Attributes
    ----------
    knots : tuple of arrays of shape (2, k)
        Of each column: scores, and the quantiles that have them.
    """

    knots: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, X: np.ndarray) -> NormalScores:
        """From draws (n, d)."""
        return cls(tuple(_knots(x) for x in X.T))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Scores of rows (m, d); beyond the draws those of the nearest."""
        return np.column_stack(
            [np.interp(x, q, z) for x, (z, q) in zip(X.T, self.knots, strict=True)]
        )

    def back(self, Z: np.ndarray) -> np.ndarray:
        """Rows with these scores, within the range of the draws."""
        return NormalScores(tuple(knots[::-1] for knots in self.knots))(Z)

    def log_density(self, X: np.ndarray) -> np.ndarray:
        """Of rows (m, d), (m,), with independent columns: Σ_j log φ(z_j) dz_j/dx_j."""
        found = norm.logpdf(self(X)).sum(axis=1)
        for x, (z, q) in zip(X.T, self.knots, strict=True):
            cell = np.clip(np.searchsorted(q, x) - 1, 0, len(q) - 2)
            found += np.log(np.diff(z)[cell] / np.diff(q)[cell])
        return found


def _knots(x: np.ndarray) -> np.ndarray:
    """Values with the scores of the middles of their shares."""
    values, counts = np.unique(x, return_counts=True)
    z = ndtri((np.cumsum(counts) - 0.5 * counts) / len(x))
    knots = math.isqrt(len(x))  # so many draws from one to the next: noise is not in the map
    if len(values) <= knots:
        return np.stack([z, values])
    even = np.linspace(z[0], z[-1], knots)
    return np.stack([even, np.interp(even, z, values)])

"""What stands beside a law far from its data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.special import ndtr

from ..chains.emission import NARROWEST, Guard

SPAN = 8.0  # standard deviations that the law of the noise is tabulated over,
BINS = 800  # in so many steps,
SHAPE_WIDTH = 0.6  # smoothed by this times n^(-1/5),
CELLS = 8  # of a grid to a standard deviation
IMAGINED = 64  # points that stand for it in an embedding
FAR, WIDE = 1e-4, 4.0  # and with this share of a wide normal law
GRID = SPAN * (2 * np.arange(BINS) + 1 - BINS) / BINS  # the middles of the steps


# ------------------------------------------------------------ what is left where data end


@dataclass(frozen=True)
class ShapedGuard(Guard):
    """g_k(y) = g((y − mean_k)/s)/s: one law of the noise for all states, columns independent.

    Attributes
    ----------
    shape : array of shape (d, bins)
        g of each column on an even grid over ±`SPAN`, where s is one.
    """

    shape: np.ndarray = field(kw_only=True)
    imagined = IMAGINED

    @property
    def large(self) -> bool:
        """In several columns; in one, bandwidths are narrow beside it, and its points will do."""
        return self.means.shape[1] > 1

    def along(self, j: int, y: np.ndarray, extra: float) -> tuple[np.ndarray, np.ndarray]:
        """Distribution functions and densities of one column, (K, m), with a variance added."""
        size = self.variances[0, j] ** 0.5
        width = max(extra**0.5 / size, 2 * SPAN / BINS)  # of a step, where nothing is added
        grid = GRID * (1 + width)
        off = (grid[: BINS // 2] - GRID[:, None]) / width  # up to the middle: the rest mirrors it
        mass = self.shape[j] / self.shape[j].sum()
        u = (y - self.means[:, [j]]) / size
        both = np.stack([mass, mass[::-1]])
        below, beyond = both @ ndtr(off)
        left, right = both @ np.exp(-0.5 * off**2) / np.sqrt(2 * np.pi)
        F = np.interp(u, grid, np.append(below, 1.0 - beyond[::-1]))
        f = np.interp(u, grid, np.append(left, right[::-1]))
        return F, f / (width * size)

    def nodes(self, j: int, extra: float) -> np.ndarray:
        """Of a grid along one column that holds nearly all of the mass."""
        size = (self.variances[0, j] + extra) ** 0.5
        low, high = self.means[:, j].min() - SPAN * size, self.means[:, j].max() + SPAN * size
        return np.linspace(low, high, round((high - low) / size * CELLS) + 1)

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """(m, K)."""
        total = np.zeros((len(points), len(self.counts)))
        for j, table in enumerate(self.shape):
            width = self.variances[0, j] ** 0.5
            if width > 0:
                off = (points[:, j, None] - self.means[:, j]) / width
                total += _log_noise(table, off) - np.log(width)
        return total

    def marginal(self, columns: list[int]) -> ShapedGuard:
        """That of some columns."""
        return replace(super().marginal(columns), shape=self.shape[columns])  # type: ignore

    def points(self) -> np.ndarray:
        """`IMAGINED` points of equal weight with the mean and the variances of each law.

        Returns
        -------
        array of shape (K, IMAGINED, d)
            Quantiles of the noise, combined at random where there are several columns.
        """
        levels = (np.arange(IMAGINED) + 0.5) / IMAGINED
        upto = [np.cumsum(table) / max(table.sum(), np.finfo(float).tiny) for table in self.shape]
        z = np.stack([np.interp(levels, u, GRID) for u in upto], axis=1)
        z = np.random.default_rng(0).permuted(z, axis=0) if z.shape[1] > 1 else z
        z = (z - z.mean(axis=0)) / np.maximum(z.std(axis=0), np.finfo(float).tiny)
        return self.means[:, None] + z * np.sqrt(self.variances)[:, None]


@dataclass(frozen=True)
class LinearGuard:
    """y = c + Bx + e, where e has the law of all residuals: it counts as so many rows a node.

    Called with rows and the weights of the nodes in them, as `Guard.of` is. Where no observation
    has been, its mean goes on in a straight line.
    """

    nodes: np.ndarray
    strength: float

    def __call__(self, points: np.ndarray, weights: np.ndarray, spread, discrete: bool) -> Guard:
        if discrete:
            return replace(Guard.of(points, weights, spread, discrete), strength=self.strength)
        counts, rows = weights.sum(axis=0), weights.sum(axis=1)
        n = max(counts.sum(), np.finfo(float).tiny)
        x, centre = self.nodes - counts @ self.nodes / n, rows @ points / n
        y = points - centre
        Sxx, Sxy = (counts[:, None] * x).T @ x / n, x.T @ (weights.T @ y) / n
        B = np.linalg.pinv(Sxx, rcond=1e-10, hermitian=True) @ Sxy
        left = np.maximum(rows @ y**2 / n - (B * Sxy).sum(axis=0), NARROWEST * spread)
        means = centre + x @ B
        columns = zip(points.T, means.T, left**0.5, strict=True)
        shape = np.stack([_shape(y, m, s, weights) for y, m, s in columns])
        variances = np.tile(left, (len(x), 1))
        return ShapedGuard(counts, means, variances, 0, self.strength, shape=shape)


def _log_noise(table: np.ndarray, off: np.ndarray) -> np.ndarray:
    """log g, between the entries of its table: never zero, however far."""
    logs = np.log(table + FAR * np.exp(-0.5 * (GRID / WIDE) ** 2))
    place = np.clip((off - GRID[0]) * (BINS / (2 * SPAN)), 0.0, BINS - 1)
    left = np.minimum(place.astype(np.intp), BINS - 2)
    inside = logs[left] + (place - left) * np.diff(logs)[left]
    beyond = np.abs(off) > GRID[-1]
    if beyond.any():
        inside[beyond] = np.log(FAR) - 0.5 * (off[beyond] / WIDE) ** 2
    return inside - np.log1p(FAR * WIDE * np.sqrt(2 * np.pi))


def _shape(y: np.ndarray, means: np.ndarray, s: float, weights: np.ndarray) -> np.ndarray:
    """Density of (y_i − mean_j)/s under weights w_ij, on the grid: a smoothed histogram."""
    if s == 0:
        return np.zeros(BINS)
    bins = np.clip(((y[:, None] - means) / s + SPAN) * (BINS / (2 * SPAN)), 0, BINS - 1)
    counts = np.bincount(bins.astype(int).ravel(), weights.ravel(), minlength=BINS)
    step, n = 2 * SPAN / BINS, max(counts.sum(), 1.0)
    return gaussian_filter1d(counts, SHAPE_WIDTH * n**-0.2 / step, mode="constant") / (n * step)

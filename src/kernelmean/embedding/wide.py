"""A wide law that others take a share of, so that no density is zero."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from ..core.saving import Saveable

WIDTH = 1.5  # of the Laplace law, in mean absolute deviations: its tails outreach those of the data
MOST = 0.5  # share
TAIL = 1e-8  # of its mass, left out beyond its nodes
CELLS = 4  # to a scale: of its share, 1e-5


@dataclass(frozen=True)
class Wide(Saveable):
    """A share of a product of Laplace laws: (1 − a) p(y) + a Π_c exp(−|y_c − m_c|/s_c)/(2 s_c).

    Attributes
    ----------
    share : float
        a, in (0, 1).
    centre, scale : array of shape (d,)
        The medians m of the data; s is 1.5 times the mean distance from them.
    """

    share: float
    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, share: float = MOST, weights: np.ndarray | None = None) -> Wide:
        """Around points (n, d), which may have weights (n,), none below zero."""
        lower, upper = (
            np.quantile(A, 0.5, axis=0, weights=weights, method="inverted_cdf")
            for A in (points, -points)
        )
        centre = (lower - upper) / 2  # a median that turns with the points
        scale = WIDTH * np.average(np.abs(points - centre), axis=0, weights=weights)
        return cls(share, centre, np.where(scale > 0, scale, 1.0))

    def chosen(self, p: np.ndarray, points: np.ndarray, weights: np.ndarray | None = None) -> Wide:
        """With the share that maximises Σ log of the mixture, given densities p of rows left out.

        At least one row in n is its: less cannot be told from none. Rows may have weights.
        """
        g = np.exp(self.log_density(points))

        def loss(u: float) -> float:
            a = math.exp(u)
            with np.errstate(divide="ignore"):
                return -float(np.average(np.log((1.0 - a) * p + a * g), weights=weights))

        least = min(1.0 / len(points), MOST / 2)
        bounds = math.log(least), math.log(MOST)
        found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3})
        return Wide(math.exp(found.x), self.centre, self.scale)

    def log_density(self, Y: np.ndarray) -> np.ndarray:
        """log of the Laplace law, without its share, at rows (..., d)."""
        away = np.abs((Y - self.centre) / self.scale).sum(axis=-1)
        return -away - float(np.log(2.0 * self.scale).sum())

    def mixed(self, p: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """(1 − a) p + a times the Laplace law at rows (..., d), p being densities there, (...)."""
        return (1.0 - self.share) * p + self.share * np.exp(self.log_density(Y))

    def log_mixed(self, p: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Its logarithm, finite also where floats have no number so small."""
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(self.mixed(p, Y)), math.log(self.share) + self.log_density(Y))

    def distribution(self, y: np.ndarray) -> np.ndarray:
        """∫ up to y of the Laplace law of one column."""
        u = (y - self.centre[0]) / self.scale[0]
        tail = 0.5 * np.exp(-np.abs(u))
        return np.where(u < 0, tail, 1.0 - tail)

    def on(self, columns) -> Wide:
        """That of one column, or of several."""
        j = np.atleast_1d(columns)
        return Wide(self.share, self.centre[j], self.scale[j])

    def nodes(self) -> np.ndarray:
        """Of a grid that holds all but 1e-8 of the mass of one column; its peak is one."""
        far = math.log(1.0 / TAIL)
        half = np.linspace(0.0, far, math.ceil(far * CELLS) + 1)
        return self.centre[0] + self.scale[0] * np.concatenate([-half[:0:-1], half])

    def replace_some(self, draws: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws (..., d) of another law, a share of them from this one instead."""
        own = rng.laplace(self.centre, self.scale, size=draws.shape)
        return np.where(rng.random((*draws.shape[:-1], 1)) < self.share, own, draws)

"""What laws go through: members moved, each in its own way, a bent scale, a share of a wide law."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from ..core import Array, Saveable, arrays

WIDTH = 1.5  # of the Laplace law, in mean absolute deviations: its tails outreach those of the data
MOST = 0.5  # share
TAIL = 1e-8  # of its mass, left out beyond its nodes
CELLS = 4  # to a scale: of its share, 1e-5


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

    def __call__(self, Y) -> Array:
        """B at rows (..., d), of any library."""
        rows = arrays.to_numpy(Y)
        near = np.clip(rows, self.low, self.high)
        u = (near - self.centre) / self.scale
        return arrays.like(self.scale * np.arcsinh(u) + (rows - near) / np.sqrt(1.0 + u * u), Y)

    def back(self, Z) -> Array:
        """B⁻¹ at rows (..., d)."""
        rows = arrays.to_numpy(Z)
        near = np.clip(rows, self(self.low), self(self.high))
        u = np.sinh(near / self.scale)
        return arrays.like(self.centre + self.scale * u + (rows - near) * np.sqrt(1.0 + u * u), Z)

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
        return _at(self, np.atleast_1d(columns))


@dataclass(frozen=True)
class Move(Saveable):
    """e ↦ y = B⁻¹(shift_b + width_b e) of members b, in every column.

    Rows are (m, d), a row of each member, or (m, k, d); for all members alike also (1, k, d).

    Attributes
    ----------
    shift, widths : array of shape (m, d) or None
        None is zero, or one.
    bend : Bend or None
        B; None leaves what it is given.
    """

    shift: np.ndarray | None = None
    widths: np.ndarray | None = None
    bend: Bend | None = None

    @property
    def common(self) -> bool:
        """Whether all members are moved alike."""
        return self.shift is None and self.widths is None

    @property
    def idle(self) -> bool:
        """Whether nothing is moved."""
        return self.common and self.bend is None

    def of(self, members) -> Move:
        """Those of some members."""
        return _at(self, members)

    def on(self, columns) -> Move:
        """That of one column, or of several."""
        bend = self.bend and self.bend.on(columns)
        return replace(_at(self, (..., np.atleast_1d(columns))), bend=bend)

    def straight(self, E: np.ndarray) -> np.ndarray:
        """shift + width e, on the bent scale."""
        E = E if self.widths is None else E * _beside(self.widths, E)
        return E if self.shift is None else E + _beside(self.shift, E)

    def __call__(self, E: np.ndarray) -> np.ndarray:
        """y."""
        E = self.straight(E)
        return E if self.bend is None else self.bend.back(E)

    def back(self, Y: np.ndarray) -> np.ndarray:
        """e."""
        Y = Y if self.bend is None else self.bend(Y)
        Y = Y if self.shift is None else Y - _beside(self.shift, Y)
        return Y if self.widths is None else Y / _beside(self.widths, Y)

    def steepness(self, Y: np.ndarray) -> Any:
        """log |de/dy| of every column at rows of y: log p(y) is that of e and the sum."""
        found: Any = 0.0 * Y if self.bend is None else self.bend.log_steepness(Y)
        return found if self.widths is None else found - np.log(_beside(self.widths, Y))


def _at(value: Any, at) -> Any:
    """The same of some members, or columns, of all its arrays."""
    return replace(value, **{k: a[at] for k, a in vars(value).items() if isinstance(a, np.ndarray)})


def _beside(each: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """As rows are shaped."""
    return each if rows.ndim == each.ndim else each[:, None, :]


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
            return -float(np.average(arrays.logs((1.0 - a) * p + a * g), weights=weights))

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
        return np.maximum(arrays.logs(self.mixed(p, Y)), self.log_least(Y))

    def log_least(self, Y: np.ndarray) -> np.ndarray:
        """log of its share alone at rows (..., d)."""
        return math.log(self.share) + self.log_density(Y)

    def distribution(self, y: np.ndarray) -> np.ndarray:
        """∫ up to y of the Laplace law of one column."""
        u = (y - self.centre[0]) / self.scale[0]
        tail = 0.5 * np.exp(-np.abs(u))
        return np.where(u < 0, tail, 1.0 - tail)

    def on(self, columns) -> Wide:
        """That of one column, or of several."""
        return _at(self, np.atleast_1d(columns))

    def moved(self, shift: np.ndarray, widths: np.ndarray | None = None) -> Wide:
        """Made wider, then moved: by the mean where points are each by its own, (n, d)."""
        scale, shift = 1.0 if widths is None else widths, np.atleast_2d(shift).mean(axis=0)
        return Wide(self.share, self.centre * scale + shift, self.scale * scale)

    def nodes(self) -> np.ndarray:
        """Of a grid that holds all but 1e-8 of the mass of one column; its peak is one."""
        far = math.log(1.0 / TAIL)
        half = np.linspace(0.0, far, math.ceil(far * CELLS) + 1)
        return self.centre[0] + self.scale[0] * np.concatenate([-half[:0:-1], half])

    def replace_some(self, draws: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws (..., d) of another law, a share of them from this one instead."""
        own = rng.laplace(self.centre, self.scale, size=draws.shape)
        return np.where(rng.random((*draws.shape[:-1], 1)) < self.share, own, draws)

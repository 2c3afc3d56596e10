"""Densities on the nodes of a grid, as parabolas between them: levels, quantiles, regions, modes.

Within a cell F is the cubic that meets F and its slope q at both ends, so that q is a parabola
there, whose positive part has a closed form. Where q has one sign its mass in the cell is the
difference of F: exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..core import Array, arrays
from .move import Move, Wide

STEPS = 60  # of bisection, to the last bit of a float, and of Newton's method
BRACKETS = 4  # nodes around which the shortest interval is sought: kernels may have kinks
GOLDEN_STEPS = 40  # to 1e-8 of the mass between two nodes, where the length is flat


def divisor(mass: np.ndarray) -> np.ndarray:
    """A mass to divide by: where there is none at all, 0/1 = 0."""
    return np.where(mass > 0, mass, 1.0)


def height_of_one(over: Callable, members: int) -> np.ndarray:
    """c ≥ 0 of each member above which mass one is left, or all where that is less, by Newton.

    `over` is told c and tells ∫ max(q − c, 0) and the length of {q > c}. The mass falls with c,
    ever more slowly: no step from below goes too far.
    """
    c = np.zeros(members)
    for _ in range(STEPS):
        mass, length = over(c)
        if (mass <= 1.0 + 1e-12).all():
            break
        c += np.maximum(mass - 1.0, 0.0) / divisor(length)
    return c


class Level(NamedTuple):
    """What makes signed densities q proper: max(q − c, 0)/mass, of each member of a batch.

    With c = 0 the positive part, scaled: no density is where it is not. Of all densities the
    nearest to q in mean square is that with the c at which the mass is one: it is no farther than
    q from any density, that of the truth among them. Then c = 0 only where max(q, 0) has no more.

    References
    ----------
    Spiteri (2023), eq. 2.7. Glad, Hjort, Ushakov (2003), Correction of density estimators that are
    not densities.
    """

    height: np.ndarray
    mass: np.ndarray

    def proper(self, q: Array) -> Array:
        """Densities from tables (batch, ...) of q."""
        along = (-1, *(1,) * (q.ndim - 1))
        c, mass = (arrays.like(a.reshape(along), q) for a in (self.height, divisor(self.mass)))
        return arrays.at_least(q - c, 0.0) / mass


class Gridded:
    """Tables of a block of members: q and F at nodes t, common (nodes,) or of each (b, nodes)."""

    def __init__(self, t: np.ndarray, q: np.ndarray, F: np.ndarray):
        self.nodes, self.q, self.F = t, q, F
        self.t = np.broadcast_to(t, q.shape)
        self.width = np.broadcast_to(np.diff(t), q[:, 1:].shape)
        change = np.diff(F, axis=1)
        self.mean = change / self.width
        above, rows, cells, mixed = self._cut(np.zeros((len(q), 1)))
        self.mass = mass = np.where(above, change, 0.0)
        mass[rows, cells] = self.width[rows, cells] * mixed.area(1.0)
        self.to = np.concatenate([np.zeros((len(q), 1)), np.cumsum(mass, axis=1)], axis=1)
        self.whole = self.to[:, -1:]
        self.negative = np.maximum(self.whole[:, 0] - change.sum(axis=1), 0.0)

    def over(self, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∫ max(q − c, 0), and the length of {q > c}, for a height c of each member, (b,)."""
        above, rows, cells, mixed = self._cut(c[:, None])
        width = self.width[rows, cells]
        area = np.where(above, (self.mean - c[:, None]) * self.width, 0.0).sum(axis=1)
        area += np.bincount(rows, width * mixed.area(1.0), minlength=len(c))
        length = np.where(above, self.width, 0.0).sum(axis=1)
        return area, length + np.bincount(rows, width * mixed.length(), minlength=len(c))

    def level(self) -> tuple[np.ndarray, np.ndarray]:
        """The heights above which mass one is left, and that mass, (b,) each."""
        c = height_of_one(self.over, len(self.q))
        return c, self.over(c)[0]

    def lowered(self, height: np.ndarray) -> Gridded:
        """Of q − c, for a height c of each member, (b,)."""
        c = height[:, None]
        return Gridded(self.nodes, self.q - c, self.F - c * (self.t - self.t[:, :1]))

    def mixed(self, wide: Wide) -> Gridded:
        """Positive parts, of integral one, that leave a share to the wide law.

        Nodes and masses of cells are exact; a parabola in a cell where q changes sign is not.
        """
        q, F = np.maximum(self.q, 0.0) / divisor(self.whole), self.to / divisor(self.whole)
        F = (1 - wide.share) * F + wide.share * wide.distribution(self.nodes)
        return Gridded(self.nodes, wide.mixed(q, self.nodes[:, None]), F)

    def moved(self, move: Move) -> Gridded:
        """Positive parts where the nodes are moved to."""
        y = move(np.broadcast_to(self.nodes, self.q.shape))
        return Gridded(y, np.maximum(self.q, 0.0) * np.exp(move.steepness(y)), self.to)

    def _cut(self, height: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, _Parabolas]:
        """Cells above a height (b, 1); those where the parabola is on both sides; what it is there.

        With both ends above, it can only dip below if its mean is under a third of their sum.
        """
        high = self.q >= height
        left, right = high[:, :-1], high[:, 1:]
        above = left & right & (self._sag >= height)
        below = ~(left | right) & (self._sag <= height)
        rows, cells = np.nonzero(~(above | below))
        return above, rows, cells, self._parabolas(rows, cells, height[rows, 0])

    @cached_property
    def _sag(self) -> np.ndarray:
        """Three means less both ends, (b, cells)."""
        return 3 * self.mean - self.q[:, :-1] - self.q[:, 1:]

    def _parabolas(self, rows, cells, height=0.0) -> _Parabolas:
        q0, q1 = self.q[rows, cells] - height, self.q[rows, cells + 1] - height
        return _Parabolas(q0, q1, self.mean[rows, cells] - height)

    def _rows(self) -> np.ndarray:
        return np.arange(len(self.q))[:, None]

    # ------------------------------------------------------------ functions of points

    def _at(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The cells of points, and where in them, from 0 to 1; the ends stand for the outside."""
        cells = np.clip(np.searchsorted(self.nodes, y) - 1, 0, len(self.nodes) - 2)
        start, end = self.nodes[cells], self.nodes[cells + 1]
        return cells, np.clip((y - start) / (end - start), 0.0, 1.0)

    def height(self, y: np.ndarray) -> np.ndarray:
        """The positive part of q."""
        cells, s = self._at(y)
        value = self._parabolas(self._rows(), cells).value(s)
        inside = (y >= self.nodes[0]) & (y <= self.nodes[-1])
        return np.where(inside, np.maximum(value, 0.0), 0.0)

    def pdf(self, y: np.ndarray) -> np.ndarray:
        return self.height(y) / divisor(self.whole)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        cells, s = self._at(y)
        rows = self._rows()
        part = self.width[rows, cells] * self._parabolas(rows, cells).area(s)
        below = self.to[rows, cells] + part
        return np.minimum(below / divisor(self.whole), 1.0)

    # ------------------------------------------------------------ functions of probabilities

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return self._invert(u * self.whole)

    def _cell(self, mass: np.ndarray) -> np.ndarray:
        """The cell in which the mass so far reaches `mass`, row by row.

        One search for all rows: each is moved to a range of its own.
        """
        total, away = divisor(self.whole), 2.0 * self._rows()
        table = (self.to / total + away).ravel()
        at = np.searchsorted(table, (mass / total + away).ravel()).reshape(mass.shape)
        nodes = self.q.shape[1]
        return np.clip(at - self._rows() * nodes - 1, 0, nodes - 2)

    def _invert(self, mass: np.ndarray) -> np.ndarray:
        """Where the mass so far reaches `mass`, (b, k)."""
        cells, rows = self._cell(mass), np.broadcast_to(self._rows(), mass.shape)
        missing = (mass - self.to[rows, cells]) / self.width[rows, cells]
        parabolas = self._parabolas(rows.ravel(), cells.ravel())
        s = parabolas.solve(missing.ravel()).reshape(mass.shape)
        return self.t[rows, cells] + self.width[rows, cells] * s

    def shortest(self, level: float) -> np.ndarray:
        """From the best nodes, by golden section on the mass to the left, to the best point."""
        need = level * self.whole
        low, high = self._bracket(need)
        golden = 0.5 * (np.sqrt(5.0) - 1.0)

        def length(u):
            return self._invert(u + need) - self._invert(u)

        for _ in range(GOLDEN_STEPS):
            a, b = high - golden * (high - low), low + golden * (high - low)
            left = length(a) <= length(b)
            low, high = np.where(left, low, a), np.where(left, b, high)
        best = np.take_along_axis(high, np.argmin(length(high), axis=1)[:, None], axis=1)
        return self._invert(np.concatenate([best, best + need], axis=1))

    def _bracket(self, need: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masses left of the shortest interval: those of the nodes beside each of the best."""
        upto = self.to + need
        cells = self._cell(upto)
        rows = self._rows()
        share = (upto - self.to[rows, cells]) / divisor(self.mass[rows, cells])
        end = self.t[rows, cells] + self.width[rows, cells] * np.clip(share, 0.0, 1.0)
        length = np.where(upto <= self.whole, end - self.t, np.inf)
        best = np.argsort(length, axis=1)[:, :BRACKETS]
        low = self.to[rows, np.maximum(best - 1, 0)]
        high = self.to[rows, np.minimum(best + 1, self.q.shape[1] - 1)]
        return low, np.minimum(high, self.whole - need)

    def threshold(self, level: float) -> np.ndarray:
        low, high = np.zeros((len(self.q), 1)), np.max(self.q, axis=1, keepdims=True)
        high = np.maximum(high, np.max(self.mean, axis=1, keepdims=True))
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            much = self.mass_above(middle)[:, None] >= level
            low, high = np.where(much, middle, low), np.where(much, high, middle)
            if np.all(high - low <= 1e-10 * high):
                break
        return low[:, 0]

    def mass_above(self, height: np.ndarray) -> np.ndarray:
        """The share of ∫ q that is over {q > c}, for a height c (b, 1) of each member, (b,)."""
        area, length = self.over(height[:, 0])
        return (area + height[:, 0] * length) / divisor(self.whole[:, 0])

    def regions(self, level: float) -> list[np.ndarray]:
        height = self.threshold(level)[:, None]
        above, rows, cells, mixed = self._cut(height)
        low, high = mixed.pieces()
        whole_rows, whole_cells = np.nonzero(above)
        member = np.concatenate([np.tile(rows, 3), whole_rows])
        whole = self.t[whole_rows, whole_cells], self.t[whole_rows, whole_cells + 1]
        start = np.concatenate([self._between(rows, cells, low), whole[0]])
        end = np.concatenate([self._between(rows, cells, high), whole[1]])
        return _join(member, start, end, len(self.q))

    def _between(self, rows: np.ndarray, cells: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Points at shares s (3, cells) of their cells; the ends of a cell are the nodes."""
        inside = self.t[rows, cells] + s * self.width[rows, cells]
        return np.where(s == 1.0, self.t[rows, cells + 1], inside).ravel()

    def mode(self) -> np.ndarray:
        """The highest node, or the peak of the parabola on either side of it."""
        best = np.argmax(self.q, axis=1)[:, None]
        cells = np.clip(best + np.array([-1, 0]), 0, self.width.shape[1] - 1)
        peak, height = self._parabolas(self._rows(), cells).peak()
        which = np.argmax(height, axis=1)[:, None]
        cell, s = (np.take_along_axis(a, which, axis=1)[:, 0] for a in (cells, peak))
        rows = self._rows()[:, 0]
        return self.t[rows, cell] + s * self.width[rows, cell]


def _join(member: np.ndarray, start: np.ndarray, end: np.ndarray, n: int) -> list[np.ndarray]:
    """Intervals that touch, of the same member, as one: (k, 2) for each of n members."""
    some = end > start
    member, start, end = member[some], start[some], end[some]
    order = np.lexsort((start, member))
    member, start, end = member[order], start[order], end[order]
    fresh = (member[1:] != member[:-1]) | (start[1:] > end[:-1])
    first = np.flatnonzero(np.append(True, fresh))[: len(member)]
    last = np.flatnonzero(np.append(fresh, True))[: len(member)]
    ends = np.stack([start[first], end[last]], axis=1)
    return np.split(ends, np.searchsorted(member[first], np.arange(1, n)))


class _Parabolas:
    """p(s) = a s² + b s + c on [0, 1], with given ends and mean: the slope of a cubic.

    It is cut at its two roots; a root outside is at 1.
    """

    def __init__(self, left: np.ndarray, right: np.ndarray, mean: np.ndarray):
        self.a, self.b = 3 * (left + right) - 6 * mean, 6 * mean - 4 * left - 2 * right
        self.c = left

    @cached_property
    def cuts(self) -> np.ndarray:
        """0, the roots and 1, (4, ...)."""
        with np.errstate(all="ignore"):  # no root is infinite or no number
            root = np.sqrt(self.b * self.b - 4 * self.a * self.c)
            u = -0.5 * (self.b + np.copysign(root, self.b))
            roots = np.stack([self.c / u, u / self.a])
            roots = np.where((roots > 0) & (roots < 1), roots, 1.0)
        low, high = np.minimum(*roots), np.maximum(*roots)
        return np.stack([np.zeros_like(low), low, high, np.ones_like(low)])

    @cached_property
    def positive(self) -> np.ndarray:
        """Whether p is positive in each of the three pieces, (3, ...)."""
        return self.value(0.5 * (self.cuts[1:] + self.cuts[:-1])) > 0

    def value(self, s) -> np.ndarray:
        return (self.a * s + self.b) * s + self.c

    def _integral(self, s) -> np.ndarray:
        return ((self.a / 3 * s + 0.5 * self.b) * s + self.c) * s

    def area(self, s) -> np.ndarray:
        """∫_0^s max(p, 0)."""
        upto = self._integral(np.minimum(self.cuts, s))
        return np.where(self.positive, np.diff(upto, axis=0), 0.0).sum(axis=0)

    def length(self) -> np.ndarray:
        """The length of {p > 0}."""
        return np.where(self.positive, np.diff(self.cuts, axis=0), 0.0).sum(axis=0)

    def pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends (3, ...) of {p > 0}; equal where a piece is not positive."""
        low, high = self.cuts[:-1], self.cuts[1:]
        return low, np.where(self.positive, high, low)

    def peak(self) -> tuple[np.ndarray, np.ndarray]:
        """Where p is largest in [0, 1], and how large."""
        with np.errstate(all="ignore"):
            top = -self.b / (2 * self.a)
        top = np.where((self.a < 0) & (top > 1e-9) & (top < 1), top, 0.0)
        top = np.where(self.value(1.0) > self.value(top), 1.0, top)
        return top, self.value(top)

    def solve(self, area: np.ndarray) -> np.ndarray:
        """The first s with ∫_0^s max(p, 0) = area: Newton, and bisection where that leaves."""
        s = np.clip(area / divisor(self.area(1.0)), 0.0, 1.0)
        low, high = np.zeros_like(s), np.ones_like(s)
        for _ in range(STEPS):
            excess = self.area(s) - area
            low, high = np.where(excess < 0, s, low), np.where(excess < 0, high, s)
            with np.errstate(all="ignore"):
                new = s - excess / np.maximum(self.value(s), 0.0)
            new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
            step, s = np.abs(new - s), new
            if not (step > 1e-13).any():
                break
        return s

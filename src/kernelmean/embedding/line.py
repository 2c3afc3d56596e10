"""Densities on the line from signed weights: made proper, inverted and drawn from, many at once.

The density q(y) = Σ_i w_i k̄(x_i, y) of every member of a batch and its integral F, exact by the
kernel's own distribution function, are tabulated on one grid. Within a cell F is the cubic that
meets F and its slope q at both ends, so that q is a parabola there, whose positive part has a
closed form. Where q has one sign its mass in the cell is the difference of F: exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ..core import arrays
from ..core.checks import as_levels, check_choice, check_level, warn_numerical
from ..core.moments import BLOCK_FLOATS, evenly
from ..core.threads import side_by_side
from ..kernels import Gaussian, Kernel
from .move import Move
from .weighted import WeightedPoints
from .wide import Wide

T = TypeVar("T")
STILL = Move()
CELLS_PER_WIDTH = 8
FEWEST_PER_WIDTH = 2  # less than this is said; 1e-4 of a point's weight
MAX_CELLS = 2**14
TABLE_FLOATS = 2**25  # a table of more rows than 2,048 has fewer cells, though not below 2,048
POINT_NODES = 1024  # so few points are nodes themselves where the kernel may have a kink there
TAIL = 1e-8  # of each point's mass, left out beyond the grid
NEGLIGIBLE = 1e-16  # of its mass: beyond, the kernel is taken for zero
ONE_SIGMA = 0.31731050786291415  # mass of a normal distribution beyond one standard deviation
NODES = 64  # nodes of the grid that meet the kernel together
MEMBER_FLOATS = 2**17  # entries of the tables of a block of members
STEPS = 60  # of bisection: to the last bit of a float
BRACKETS = 4  # nodes around which the shortest interval is sought: kernels may have kinks
GOLDEN_STEPS = 40  # to 1e-8 of the mass between two nodes, where the length is flat


class Line:
    """Proper densities max(q, 0)/∫max(q, 0) of a batch of embeddings of one column.

    Answers are NumPy arrays with a row per member. Cells are an eighth of a bandwidth wide where a
    point is within reach. Distribution functions are exact at nodes, but for the mass of cells in
    which q changes sign. Both that and what is between nodes have the error of the cubic: for each
    point, of its weight, 4e-7 (Gaussian), 5e-7 (Laplace), 3e-6 (Matérn, ν = 1.5), 3e-5 (ν = 0.8; a
    spike below that), and 1e-4 (Laplace, more than 1,024 points, which are then not nodes).

    Parameters
    ----------
    m : WeightedPoints
        A batch, of one column; its weights need not sum to one.
    bandwidth : float or sequence of float, optional
        γ; None is the kernel's own lengthscale.
    move : Move, optional
        The densities are those of moved members. Nodes are moved where heights count.
    wide : Wide, optional
        Every member takes its share of that law, before it is moved.

    Warns
    -----
    NumericalWarning
        If 16,384 cells (fewer for more than 2,048 independent rows of weights) leave less than two
        to a bandwidth, at a range of 8,000 bandwidths; gaps without points count nothing.
    """

    def __init__(
        self, m: WeightedPoints, bandwidth=None, move: Move = STILL, wide: Wide | None = None
    ):
        self.m, self.kernel, self.wide = m.normalised(), m.kernel.smoothing(bandwidth), wide
        self.move = move
        x = arrays.to_numpy(m.points)[:, 0]
        order = np.argsort(x, kind="stable")
        self._left, rows = ordered_factors(self.m, order)
        rank = len(x) if rows is None else rows.shape[1]
        self.grid = _grid(x[order], self.kernel, rank, () if wide is None else wide.nodes())
        self._tables = _tables(self.kernel, x[order], rows, rank, self.grid)

    # ------------------------------------------------------------ masses

    @cached_property
    def negative_mass(self) -> np.ndarray:
        """∫ max(−q, 0), (batch,)."""
        return self._each(self._signed, lambda cells: cells.negative)

    @cached_property
    def normaliser(self) -> np.ndarray:
        """∫ max(q, 0) = ∫ q + ∫ max(−q, 0), (batch,)."""
        return arrays.to_numpy(self.m.total()) + self.negative_mass

    # ------------------------------------------------------------ functions of points

    def pdf(self, y: np.ndarray) -> np.ndarray:
        """Densities (batch, m) at points common to all, (m,), or each member's own, (batch, m).

        At common points and without a shift exact, otherwise by the parabola of the cell: to about
        1e-4 of its height.
        """
        if self.move.idle and y.ndim == 1:
            q = self.m.smooth(arrays.like(y[:, None], self.m.points), self.kernel.density)
            p = np.maximum(arrays.to_numpy(q), 0.0) / _whole(self.normaliser)[:, None]
            return p if self.wide is None else self.wide.mixed(p, y[:, None])
        y, e = self._inward(y)
        p = self._each(self._signed, _Cells.pdf, e)
        p = p if self.wide is None else self.wide.mixed(p, e[..., None])
        return p * np.exp(self.move.steepness(y))

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """Distribution functions (batch, m) at points (m,) or (batch, m)."""
        return self._each(self._proper, _Cells.cdf, self._inward(y)[1])

    # ------------------------------------------------------------ functions of probabilities

    def quantile(self, levels) -> np.ndarray:
        """Quantiles (batch, k) at levels common to all, (k,), or each member's own, (batch, k).

        Levels 0 and 1 are the ends of the grid, beyond which 1e-8 of the mass is left out.
        """
        levels = np.broadcast_to(levels, (len(self.m), np.shape(levels)[-1]))
        return self.move(self._each(self._proper, _Cells.quantile, levels))

    def shortest(self, level: float) -> np.ndarray:
        """Ends (batch, 2) of the narrowest interval of mass `level`."""
        return self._points(lambda cells: cells.shortest(level))

    def threshold(self, level: float) -> np.ndarray:
        """The height c at which {y : p(y) ≥ c} has mass `level`, (batch,)."""
        return self._each(
            self._own, lambda cells: cells.threshold(level) / _whole(cells.whole[:, 0])
        )

    def regions(self, level: float) -> list[np.ndarray]:
        """{y : p(y) ≥ c} of mass `level`: disjoint intervals (k, 2) for each member."""
        blocks = self._blocks(lambda rows: self._own(rows).regions(level))
        found = [region for block in blocks for region in block]
        if self.move.common or self.move.bend is not None:
            return found
        return [self.move.of([b])(ends[None])[0] for b, ends in enumerate(found)]

    def mass_above(self, y: np.ndarray) -> np.ndarray:
        """Mass of {z : p(z) > p(y)}, y (batch, 1) a point of each member, (batch,)."""
        y, e = self._inward(y)
        heights = self._each(self._proper, _Cells.height, e)
        if self.move.bend is not None:
            heights = heights * np.exp(self.move.steepness(y))
        return self._each(self._own, _Cells.mass_above, heights)

    def mode(self) -> np.ndarray:
        """Where the density is highest, (batch,)."""
        return self._points(lambda cells: cells.mode()[:, None])[:, 0]

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """`n` draws from each member, by the inverse of its distribution function, (batch, n)."""
        return self.quantile(rng.random((len(self.m), n)))

    # ------------------------------------------------------------ inside

    def _blocks(self, answer: Callable[[slice], T]) -> list[T]:
        """Answers for members whose tables fit in the processor's cache, side by side."""
        step = max(1, MEMBER_FLOATS // len(self.grid))
        return side_by_side(answer, (slice(i, i + step) for i in range(0, len(self.m), step)))

    def _signed(self, rows: slice) -> _Cells:
        q, F = (t[rows] if self._left is None else self._left[rows] @ t for t in self._tables)
        return _Cells(self.grid, q, F)

    def _proper(self, rows: slice) -> _Cells:
        """Densities, with the share of the wide law."""
        cells = self._signed(rows)
        return cells if self.wide is None else cells.mixed(self.wide)

    def _own(self, rows: slice) -> _Cells:
        """Tables on the scale of y: before any move, unless the scale is bent."""
        cells, move = self._proper(rows), self.move.of(rows)
        return cells if move.bend is None else cells.moved(move)

    def _each(self, tables: Callable, answer: Callable, *aligned: np.ndarray) -> np.ndarray:
        """Answers of the tables of a block, `_own` where these depend on how high densities are."""
        blocks = self._blocks(lambda rows: answer(tables(rows), *(a[rows] for a in aligned)))
        return np.concatenate(blocks)

    def _points(self, answer: Callable) -> np.ndarray:
        found = self._each(self._own, answer)
        return found if self.move.bend is not None else self.move(found)

    def _inward(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points of every member, (batch, k), and where they were before any move."""
        y = np.broadcast_to(y, (len(self.m), y.shape[-1]))
        return y, self.move.back(y)


def quantiles(lines: Iterable[Any], q) -> np.ndarray:
    """Of every column, (batch, d) for a number, (batch, k, d) for a list."""
    levels = as_levels(q)
    found = np.stack([line.quantile(np.atleast_1d(levels)) for line in lines], axis=-1)
    return found[:, 0] if levels.ndim == 0 else found


def ends(lines: Iterable[Any], level: float, kind: str) -> np.ndarray:
    """Of the central or the shortest interval of every column, (batch, 2, d)."""
    level = check_level(level)
    if check_choice(kind, "kind", ["central", "shortest"]) == "central":
        return quantiles(lines, [(1 - level) / 2, (1 + level) / 2])
    return np.stack([line.shortest(level) for line in lines], axis=-1)


def _whole(mass: np.ndarray) -> np.ndarray:
    """A mass to divide by: where there is none at all, 0/1 = 0."""
    return np.where(mass > 0, mass, 1.0)


# ---------------------------------------------------------------- the grid and its tables


def ordered_factors(
    m: WeightedPoints, order: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Weights in the order of the points as left rowsᵀ, None being the identity.

    The tables have a row per column of `left`: as few as there are members, points, or features.
    """
    members = m.members()
    left, right = members.factors
    if right is not None and len(left) > right.shape[1]:
        return left, right[order]
    weights = members.weights
    if len(left) < len(order):
        return None, weights.T[order]
    return weights[:, order], None


def _grid(x: np.ndarray, kernel: Kernel, rank: int, more: Any) -> np.ndarray:
    """Nodes at most an eighth of a bandwidth apart wherever a point is near; gaps are one cell.

    And `more`, of another law.
    """
    width = reach(kernel, ONE_SIGMA)
    low, high = spans(x, kernel)
    if not (high > low).all():
        raise ValueError(
            f"bandwidth is too small ({width:.3g}) for points as large as {np.abs(x).max():.3g}: "
            "floats there are further apart"
        )
    limit = int(np.clip(TABLE_FLOATS // rank, 2048, MAX_CELLS))
    step = max(width / CELLS_PER_WIDTH, float((high - low).sum()) / limit)
    if step > width / FEWEST_PER_WIDTH:
        warn_numerical(
            f"the points span so many bandwidths that {limit} cells are {step / width:.2g} "
            "bandwidths each: probabilities are rough where single points matter; a larger "
            "bandwidth would help"
        )
    nodes = _pieces(low, high, np.ceil((high - low) / step).astype(int))
    nodes = nodes[evenly(len(nodes), 2 * limit)]
    distinct = np.unique(x)
    smooth = isinstance(kernel, Gaussian) or len(distinct) > POINT_NODES
    points = distinct[:0] if smooth else distinct
    nodes = np.sort(np.concatenate([nodes, points, more]))
    return nodes[np.append(np.diff(nodes) > 1e-3 * step, True)]


def spans(x: np.ndarray, kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the disjoint intervals within reach of sorted points."""
    far = reach(kernel, TAIL)
    gaps = np.flatnonzero(np.diff(x) > 2 * far)
    low = x[np.concatenate([[0], gaps + 1])] - far
    return low, x[np.concatenate([gaps, [len(x) - 1]])] + far


def reach(kernel: Kernel, mass: float) -> float:
    """Distance beyond which the kernel of one column holds `mass`."""
    far = kernel.reach(mass)
    if far is None:
        raise ValueError(
            f"{kernel!r} has no distribution function on the line; Gaussian, Laplace or Matern is "
            "needed"
        )
    return far


def _pieces(low: np.ndarray, high: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Evenly spaced nodes from each `low` to its `high`, one more than cells."""
    nodes = cells + 1
    number = np.arange(nodes.sum()) - np.repeat(np.cumsum(nodes) - nodes, nodes)
    return np.repeat(low, nodes) + number * np.repeat((high - low) / cells, nodes)


def _tables(
    kernel: Kernel, x: np.ndarray, rows: np.ndarray | None, rank: int, grid: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Σ_i rows_i k̄(x_i, t) and its integral at the nodes t, for sorted points.

    Points out of reach add nothing to the one, and to the other their weight once passed.
    """
    q, F = np.zeros((rank, len(grid))), np.zeros((rank, len(grid)))
    far, behind = reach(kernel, NEGLIGIBLE), 0
    passed, step = np.zeros((rank, 1)), BLOCK_FLOATS // NODES  # points whose kernel fits in memory
    for start in range(0, len(grid), NODES):
        block = slice(start, start + NODES)
        first, last = np.searchsorted(x, [grid[block][0] - far, grid[block][-1] + far])
        passed += _weigh(rows, slice(behind, first), np.ones((first - behind, 1)), rank)
        F[:, block], behind = passed, first
        for i in range(first, last, step):
            near = slice(i, min(i + step, last))
            X, T = x[near, None], grid[block, None]
            q[:, block] += _weigh(rows, near, kernel.density(X, T), rank)
            F[:, block] += _weigh(rows, near, kernel.distribution(X, T), rank)
    return q, F


def _weigh(rows: np.ndarray | None, near: slice, K: np.ndarray, rank: int) -> np.ndarray:
    """Σ_i rows_i K_i over the points `near`."""
    if rows is not None:
        return rows[near].T @ K
    spread = np.zeros((rank, K.shape[1]))
    spread[near] = K
    return spread


# ---------------------------------------------------------------- a block of members


class _Cells:
    """Tables of a block of members: q and F at nodes t, common (nodes,) or of each (b, nodes)."""

    def __init__(self, t: np.ndarray, q: np.ndarray, F: np.ndarray):
        self.nodes, self.q = t, q
        self.t = np.broadcast_to(t, q.shape)
        self.width = np.broadcast_to(np.diff(t), q[:, 1:].shape)
        change = np.diff(F, axis=1)
        self.mean = change / self.width
        mixed, above = self._mixed(np.zeros((len(q), 1)))
        mass = np.where(above, change, 0.0)
        rows, cells = np.nonzero(mixed)
        mass[rows, cells] = self.width[rows, cells] * self._parabolas(rows, cells).area(1.0)
        self.mass = mass
        self.to = np.concatenate([np.zeros((len(q), 1)), np.cumsum(mass, axis=1)], axis=1)
        self.whole = self.to[:, -1:]
        self.negative = np.maximum(self.whole[:, 0] - change.sum(axis=1), 0.0)

    def mixed(self, wide: Wide) -> _Cells:
        """Positive parts, of integral one, that leave a share to the wide law.

        Nodes and masses of cells are exact; a parabola in a cell where q changes sign is not.
        """
        q, F = np.maximum(self.q, 0.0) / _whole(self.whole), self.to / _whole(self.whole)
        a = wide.share
        return _Cells(
            self.nodes,
            wide.mixed(q, self.nodes[:, None]),
            (1 - a) * F + a * wide.distribution(self.nodes),
        )

    def moved(self, move: Move) -> _Cells:
        """Positive parts where the nodes are moved to."""
        y = move(np.broadcast_to(self.nodes, self.q.shape))
        return _Cells(y, np.maximum(self.q, 0.0) * np.exp(move.steepness(y)), self.to)

    def _mixed(self, height: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cells where the parabola is not on one side of a height (b, 1), and those above it.

        With both ends above, it can only dip below if its mean is under a third of their sum.
        """
        high = self.q >= height
        left, right = high[:, :-1], high[:, 1:]
        above = left & right & (self._sag >= height)
        below = ~(left | right) & (self._sag <= height)
        return ~(above | below), above

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
        return self.height(y) / _whole(self.whole)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        cells, s = self._at(y)
        rows = self._rows()
        part = self.width[rows, cells] * self._parabolas(rows, cells).area(s)
        below = self.to[rows, cells] + part
        return np.minimum(below / _whole(self.whole), 1.0)

    # ------------------------------------------------------------ functions of probabilities

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return self._invert(u * self.whole)

    def _cell(self, mass: np.ndarray) -> np.ndarray:
        """The cell in which the mass so far reaches `mass`, row by row.

        One search for all rows: each is moved to a range of its own.
        """
        total, away = _whole(self.whole), 2.0 * self._rows()
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
        share = (upto - self.to[rows, cells]) / _whole(self.mass[rows, cells])
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
        mixed, above = self._mixed(height)
        mass = np.where(above, self.mass, 0.0).sum(axis=1)
        rows, cells = np.nonzero(mixed)
        c = height[rows, 0]
        over = self._parabolas(rows, cells, c)
        part = self.width[rows, cells] * (over.area(1.0) + c * over.length())
        mass += np.bincount(rows, part, minlength=len(mass))
        return mass / _whole(self.whole[:, 0])

    def regions(self, level: float) -> list[np.ndarray]:
        height = self.threshold(level)[:, None]
        mixed, above = self._mixed(height)
        rows, cells = np.nonzero(mixed)
        low, high = self._parabolas(rows, cells, height[rows, 0]).pieces()
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
        s = np.clip(area / _whole(self.area(1.0)), 0.0, 1.0)
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

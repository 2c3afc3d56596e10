"""Densities on the line from signed weights: made proper, inverted and drawn from, many at once.

The density q(y) = Σ_i w_i k̄(x_i, y) of every member of a batch and its integral F, exact by the
kernel's own distribution function, are tabulated on one grid, on which `gridded` answers.
"""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ..core import arrays, checks
from ..core.moments import BLOCK_FLOATS, evenly
from ..core.threads import side_by_side
from ..kernels import Gaussian, Kernel
from .gridded import Gridded, Level
from .move import Move, Wide
from .weighted import WeightedPoints

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


class Line:
    """Proper densities max(q − c, 0)/∫max(q − c, 0) of a batch of embeddings of one column.

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
    nearest : bool
        Take off the c that leaves mass one, not none.

    Warns
    -----
    NumericalWarning
        If 16,384 cells (fewer for more than 2,048 independent rows of weights) leave less than two
        to a bandwidth, at a range of 8,000 bandwidths; gaps without points count nothing.
    """

    def __init__(
        self, m: WeightedPoints, bandwidth=None, move: Move = STILL,
        wide: Wide | None = None, nearest: bool = False,
    ):  # fmt: skip
        self.m, self.kernel = m.normalised(), m.kernel.smoothing(bandwidth).on([0], 1)
        self.move, self.wide, self.nearest = move, wide, nearest
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
    def level(self) -> Level:
        """c of each member, none without negative weights, and ∫ max(q − c, 0)."""
        if not (self.nearest and self.m.is_signed()):
            total = arrays.to_numpy(self.m.total())
            return Level(np.zeros(len(self.m)), total + self.negative_mass)
        blocks = self._blocks(lambda rows: self._signed(rows).level())
        return Level(*np.concatenate(blocks, axis=1))

    # ------------------------------------------------------------ functions of points

    def pdf(self, y: np.ndarray) -> np.ndarray:
        """Densities (batch, m) at points common to all, (m,), or each member's own, (batch, m).

        At common points and without a shift exact, otherwise by the parabola of the cell: to about
        1e-4 of its height.
        """
        if self.move.idle and y.ndim == 1:
            q = self.m.smooth(arrays.like(y[:, None], self.m.points), self.kernel.density)
            p = self.level.proper(arrays.to_numpy(q))
            return p if self.wide is None else self.wide.mixed(p, y[:, None])
        y, e = self._inward(y)
        p = self._each(self._lowered, Gridded.pdf, e)
        p = p if self.wide is None else self.wide.mixed(p, e[..., None])
        return p * np.exp(self.move.steepness(y))

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """Distribution functions (batch, m) at points (m,) or (batch, m)."""
        return self._each(self._proper, Gridded.cdf, self._inward(y)[1])

    # ------------------------------------------------------------ functions of probabilities

    def quantile(self, levels) -> np.ndarray:
        """Quantiles (batch, k) at levels common to all, (k,), or each member's own, (batch, k).

        Levels 0 and 1 are the ends of the grid, beyond which 1e-8 of the mass is left out.
        """
        levels = np.broadcast_to(levels, (len(self.m), np.shape(levels)[-1]))
        return self.move(self._each(self._proper, Gridded.quantile, levels))

    def shortest(self, level: float) -> np.ndarray:
        """Ends (batch, 2) of the narrowest interval of mass `level`."""
        return self._points(lambda cells: cells.shortest(level))

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
        heights = self._each(self._proper, Gridded.height, e)
        if self.move.bend is not None:
            heights = heights * np.exp(self.move.steepness(y))
        return self._each(self._own, Gridded.mass_above, heights)

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
        return side_by_side(answer, arrays.slices(len(self.m), step))

    def _signed(self, rows: slice) -> Gridded:
        q, F = (t[rows] if self._left is None else self._left[rows] @ t for t in self._tables)
        return Gridded(self.grid, q, F)

    def _lowered(self, rows: slice) -> Gridded:
        cells = self._signed(rows)
        return cells.lowered(self.level.height[rows]) if self.nearest else cells

    def _proper(self, rows: slice) -> Gridded:
        """Densities, with the share of the wide law."""
        cells = self._lowered(rows)
        return cells if self.wide is None else cells.mixed(self.wide)

    def _own(self, rows: slice) -> Gridded:
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
    levels = checks.as_levels(q)
    found = np.stack([line.quantile(np.atleast_1d(levels)) for line in lines], axis=-1)
    return found[:, 0] if levels.ndim == 0 else found


def ends(lines: Iterable[Any], level: float, kind: str) -> np.ndarray:
    """Of the central or the shortest interval of every column, (batch, 2, d)."""
    level = checks.check_level(level)
    if checks.check_choice(kind, "kind", ["central", "shortest"]) == "central":
        return quantiles(lines, [(1 - level) / 2, (1 + level) / 2])
    return np.stack([line.shortest(level) for line in lines], axis=-1)


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
        checks.warn_numerical(
            f"the points span so many bandwidths that {limit} cells are {step / width:.2g} "
            "bandwidths each: probabilities are rough where single points matter; a larger "
            "bandwidth would help"
        )
    nodes, _ = pieces(low, high, np.ceil((high - low) / step).astype(int), 0.0)
    nodes = np.sort(np.append(nodes, high))
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


def pieces(
    low: np.ndarray, high: np.ndarray, cells: np.ndarray, offset: float
) -> tuple[np.ndarray, ...]:
    """Nodes at a share `offset` of so many cells from each `low` to its `high`; and the cells."""
    width = np.repeat((high - low) / cells, cells)
    number = np.arange(cells.sum()) - np.repeat(np.cumsum(cells) - cells, cells)
    return np.repeat(low, cells) + (number + offset) * width, width


def _tables(
    kernel: Kernel, x: np.ndarray, rows: np.ndarray | None, rank: int, grid: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Σ_i rows_i k̄(x_i, t) and its integral at the nodes t, for sorted points.

    Points out of reach add nothing to the one, and to the other their weight once passed.
    """
    q, F = np.zeros((rank, len(grid))), np.zeros((rank, len(grid)))
    far, behind = reach(kernel, NEGLIGIBLE), 0
    passed, step = np.zeros((rank, 1)), BLOCK_FLOATS // NODES  # points whose kernel fits in memory
    for block in arrays.slices(len(grid), NODES):
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

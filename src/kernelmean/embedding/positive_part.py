"""A signed density q made proper, by its positive part or that above a level c, and its draws.

∫ max(q − c, 0) = ∫ q − ∫ min(q, c): mass one is left where ∫ min(q, c) = 0, and at c = 0 that
integral is minus the negative mass. It is none without negative weights, a sum over a grid on the
line, around a circle and in the plane, and elsewhere a mean over draws.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
from scipy.special import gammaincinv, ndtri
from scipy.stats import qmc

from ..core import arrays, checks
from ..core.moments import BLOCK_FLOATS, block_rows, row_blocks
from ..kernels import CorrelatedGaussian, Gaussian, Kernel
from .gridded import Level, divisor, height_of_one
from .line import NEGLIGIBLE, ONE_SIGMA, Line, ordered_factors, pieces, reach, spans
from .weighted import WeightedPoints

MASS_ERROR = 3e-4  # standard error aimed at, for a density of mass one
SOBOL_BITS = 30
REPLICATES = 8  # of a set of draws, from which the standard error is seen
FIRST_DRAWS, MANY_DRAWS, MOST_DRAWS = 2**9, 2**14, 2**16  # in each replicate
POWER = 1.6  # the error of draws falls as size^(−1/1.6): measured
MOST_WORK = 2**27  # kernel evaluations in each replicate: fewer draws beyond 8,192 points
LITTLE_WORK = 2**21  # more than many draws below 128 points
TINY = 1e-100  # products with numbers near the smallest floats are slow, squares of others zero
ROUGH = 1e-3  # a standard error that is said
PROPOSALS = 100  # for each draw wanted, before rejection gives up
CIRCLE_NODES = (2**10, 2**16)
PLANE_CELLS = (2, 4, 8, 16)  # to a bandwidth; the first where a rough answer will do
OFFSETS = (0.25, 0.75)  # of two grids, in cells
PLANE_WORK = 2**36  # products of points, features (or members) and nodes of the second grid
TABLE_FLOATS = 2**23  # of q of as many members as are solved for together
CACHED_FLOATS = 2**15  # of q that are summed together
MOST_NODES = 2**25  # of a grid in the plane
ROUGH_NODES = 2**15  # where a rough answer will do, which draws give at less cost

Table = tuple[np.ndarray, np.ndarray]  # q of members at nodes (b, k), and their weights (k,)


def has_line(m: WeightedPoints) -> bool:
    """Whether the points are numbers and the kernel has a distribution function."""
    return m.points.shape[1] == 1 and m.kernel.on([0], 1).reach(NEGLIGIBLE) is not None


def negative_mass(
    m: WeightedPoints, bandwidth, aim: float = MASS_ERROR
) -> tuple[np.ndarray, np.ndarray]:
    """∫ max(−q, 0) of each member of a batch, and the standard errors (0 where not by draws)."""
    nothing = np.zeros(len(m))
    if not m.is_signed():
        return nothing, nothing
    if has_line(m):
        return Line(m, bandwidth).negative_mass, nothing
    _, below, error = _integrated(m, bandwidth, aim, nearest=False)
    return np.maximum(-below, 0.0), error


def level(m: WeightedPoints, bandwidth, nearest: bool, aim: float = MASS_ERROR) -> Level:
    """For each member of a batch of sum one; c = 0, unless the nearest densities are wanted."""
    if has_line(m):
        return Line(m, bandwidth, nearest=nearest).level
    height, below, _ = _integrated(m, bandwidth, aim, nearest)
    return Level(height, arrays.to_numpy(m.total()) - below)


# ---------------------------------------------------------------- integrals of min(q, c)


@dataclass(frozen=True)
class _Rule:
    """Sets of nodes for ∫ min(q, c): their mean is taken, and how far they are from it is seen.

    Attributes
    ----------
    sizes : sequence of int
        Ever finer ones, met until the error of every member is small enough.
    nodes : callable
        How many nodes there are of a size.
    tables : callable
        Members and a size to a table for each set.
    power : float
        The error falls as size^(−1/power): sizes too small for half of the members are left out.
        0 leaves out none.
    """

    sizes: Sequence[int]
    nodes: Callable[[int], int]
    tables: Callable[[WeightedPoints, int], list[Table]]
    power: float = 0.0


def _integrated(
    m: WeightedPoints, bandwidth, aim: float, nearest: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """c of each member (0, unless it is that of mass one), ∫ min(q, c), and standard errors."""
    m, steepness = _on_axes(m, bandwidth)
    rule = _rule(m, aim)
    height, below, error = np.zeros((3, len(m)))
    signed = [m.kernel.dips | (w < -TINY).any(axis=1) for w in m.weight_blocks()]
    due, some = 0.0, np.flatnonzero(np.concatenate(signed))
    for size in rule.sizes:
        if size < due:
            continue
        for (rows,) in row_blocks(some, rows=max(1, TABLE_FLOATS // rule.nodes(size))):
            tables, total = rule.tables(m[rows], size), m[rows].total()
            if nearest:
                height[rows] = _height(tables, total)
            found = _below(tables, height[rows], total)
            below[rows] = found.mean(axis=0)
            error[rows] = found.std(axis=0, ddof=len(found) > 1) / math.sqrt(len(found))
        off = error / (aim * (1.0 + np.abs(below)))
        some = some[off[some] > 1.0]
        if not len(some):
            break
        due = min(size * np.median(off[some]) ** rule.power, rule.sizes[-1])
    rough = error > max(aim, ROUGH) * (1.0 + np.abs(below))
    if rough.any():
        checks.warn_numerical(
            f"the mass of {rough.sum()} densities is known to a standard error of "
            f"{error.max():.1g} only: a larger bandwidth makes it smaller",
        )
    return steepness * height, below, error


def _below(tables: list[Table], c: np.ndarray, total: np.ndarray) -> np.ndarray:
    """∫ min(q, c) of each member by each set of nodes, (sets, b).

    Less what the set has ∫ q wrong by, `total` being right, as far as the two go together.
    """
    each = np.empty((4, len(tables), len(c)))
    for k, (q, v) in enumerate(tables):
        for some in arrays.slices(len(q), max(1, CACHED_FLOATS // len(v))):
            own, low = q[some], np.minimum(q[some], c[some, None])
            a, b, squares = low @ v, own @ v, v * v
            together = (low * own) @ squares - a * b / len(v)
            each[:, k, some] = a, b, together, own**2 @ squares - b * b / len(v)
    a, b, together, alone = each
    return a - together.mean(axis=0) / divisor(alone.mean(axis=0)) * (b - total)


def _height(tables: list[Table], total: np.ndarray) -> np.ndarray:
    """c ≥ 0 with ∫ max(q − c, 0) = 1."""

    def over(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        length = np.mean([(q > c[:, None]) @ v for q, v in tables], axis=0)
        return total - _below(tables, c, total).mean(axis=0), length

    return height_of_one(over, len(total))


def _on_axes(m: WeightedPoints, bandwidth) -> tuple[WeightedPoints, float]:
    """With the kernel of densities, on axes of no correlation; q there is q here over a factor."""
    kernel, points = m.kernel.smoothing(bandwidth), m.points
    if not isinstance(kernel, CorrelatedGaussian):
        return WeightedPoints(points, *m.factors, kernel), 1.0
    unit, d = Gaussian(1.0), points.shape[1]
    steepness = math.exp(unit.log_normaliser(d) - kernel.log_normaliser(d))
    return WeightedPoints(kernel.in_units(points), *m.factors, unit), steepness


def _rule(m: WeightedPoints, aim: float) -> _Rule:
    if m.points.shape[1] == 1 and m.kernel.on([0], 1).turn() is not None:
        return _around(m.kernel.on([0], 1))
    columns = _two_columns(m, MOST_NODES if aim <= MASS_ERROR else ROUGH_NODES)
    return _by_draws(m) if columns is None else _in_the_plane(m, columns, aim)


def _around(kernel: Kernel) -> _Rule:
    """The trapezoidal rule over a period, a dozen nodes to a bandwidth."""
    turn, origin = float(kernel.turn() or 0.0), np.zeros((1, 1))
    height = float(kernel.density(origin, origin)[0, 0])
    n = int(np.clip(32 * turn * height, *CIRCLE_NODES))
    nodes = np.arange(n)[:, None] * (turn / n)

    def tables(m: WeightedPoints, size: int) -> list[Table]:
        return [(m.smooth(nodes, kernel.density), np.full(n, turn / n))]

    return _Rule([n], lambda size: n, tables)


# ---------------------------------------------------------------- the plane


def _two_columns(m: WeightedPoints, most: int) -> list[Kernel] | None:
    """The factors of a kernel of the plane, where a grid has not too many nodes."""
    if m.points.shape[1] != 2 or not m.kernel.is_product():
        return None
    columns = [m.kernel.on([j], 2) for j in (0, 1)]
    if any(k.reach(NEGLIGIBLE) is None for k in columns):
        return None
    rank = min(len(m), len(m.points) if m.factors[1] is None else m.factors[1].shape[1])
    nodes = _grid_nodes(m, columns, PLANE_CELLS[1])
    work = float(rank) * len(m.points) * nodes
    return columns if work <= PLANE_WORK and nodes <= most else None


def _grid_nodes(m: WeightedPoints, columns: list[Kernel], cells: int) -> int:
    """How many nodes a grid in the plane has."""
    each = zip(m.points.T, columns, strict=True)
    return math.prod(len(even_nodes(x, k, cells, 0.5)[0]) for x, k in each)


def _in_the_plane(m: WeightedPoints, columns: list[Kernel], aim: float) -> _Rule:
    """Sums over two grids half a cell apart; cells are halved for members that need it."""
    finer, right = PLANE_CELLS[aim <= MASS_ERROR :], cast(Any, m.factors[1])
    nodes = {cells: _grid_nodes(m, columns, cells) for cells in finer}
    sizes = [cells for cells in finer if nodes[cells] <= MOST_NODES]

    @lru_cache(maxsize=2)
    def features(cells: int, offset: float) -> Table:
        """Of the right factor of the weights, in place of members."""
        return _on_grid(WeightedPoints(m.points, right.T, None, m.kernel), columns, cells, offset)

    def tables(some: WeightedPoints, cells: int) -> list[Table]:
        rank, left = len(m) if right is None else right.shape[1], some.factors[0]
        if rank >= len(m) or rank * nodes[cells] > TABLE_FLOATS:
            return [_on_grid(some, columns, cells, offset) for offset in OFFSETS]
        return [(left @ q, v) for q, v in (features(cells, offset) for offset in OFFSETS)]

    return _Rule(sizes, lambda cells: 2 * nodes[cells], tables)


def _on_grid(m: WeightedPoints, columns: list[Kernel], cells: int, offset: float) -> Table:
    """A strip of the grid, as wide as the kernel there fits in memory, at a time.

    Line by line of it, by the points near that line.
    """
    order = np.argsort(m.points[:, 0], kind="stable")
    x, y = m.points[order, :1], m.points[order, 1:]
    factors: tuple[Any, Any] = ordered_factors(m, order)
    left, rows = factors if factors[1] is not None else (None, factors[0].T)
    (across, height), (along, width) = (
        even_nodes(z[:, 0], k, cells, offset) for z, k in zip((x, y), columns, strict=True)
    )
    far, table = reach(columns[0], NEGLIGIBLE), np.empty((len(m), len(across), len(along)))
    for strip in arrays.slices(len(along), block_rows(len(x))):
        K = columns[1].density_of(y, along[strip, None])
        K[K < TINY] = 0.0
        for i, at in enumerate(across):
            near = slice(*np.searchsorted(x[:, 0], [at - far, at + far]))
            q = (rows[near] * columns[0].density_of(x[near], np.array([[at]]))).T @ K[near]
            table[:, i, strip] = q if left is None else left @ q
    return table.reshape(len(m), -1), np.outer(height, width).ravel()


def even_nodes(x: np.ndarray, kernel: Kernel, cells: int, offset: float) -> tuple[np.ndarray, ...]:
    """Nodes at a share `offset` of cells near points, so many to a bandwidth, and the cells."""
    low, high = spans(np.sort(x), kernel)
    some = np.ceil((high - low) * cells / reach(kernel, ONE_SIGMA)).astype(int)
    return pieces(low, high, some, offset)


# ---------------------------------------------------------------- importance sampling


def _by_draws(m: WeightedPoints) -> _Rule:
    """Draws from a mixture ρ of the kernel at the points: ∫ min(q, c) = E_ρ[min(q, c)/ρ]."""
    little, much = (work // len(m.points) for work in (LITTLE_WORK, MOST_WORK))
    most = max(FIRST_DRAWS, min(max(MANY_DRAWS, little), much, MOST_DRAWS))
    doubled = range(int(math.log2(FIRST_DRAWS)), int(math.log2(most)) + 1)
    return _Rule([2**k for k in doubled], lambda draws: REPLICATES * draws, _replicates, POWER)


def _replicates(m: WeightedPoints, draws: int) -> list[Table]:
    """One set of draws for all members: rarest where no weight of any is large."""
    squares = np.zeros(len(m.points))
    for w in m.weight_blocks():
        squares += (w**2).sum(axis=0)
    shares = np.sqrt(squares)
    shares /= shares.sum()
    return [_replicate(m, shares, draws, seed) for seed in range(REPLICATES)]


def _replicate(m: WeightedPoints, shares: np.ndarray, draws: int, seed: int) -> Table:
    (n, d), kernel = m.points.shape, m.kernel
    even: Any = Even(draws, 2 * d + 1, seed)
    order = np.argsort(m.points[:, 0], kind="stable")
    rows = at_levels(shares, order, even.take(1)[:, 0])
    Y = kernel.project(m.points[rows] + kernel.noise(draws, d, even))
    parts = []
    for (block,) in row_blocks(Y, rows=block_rows(max(n, len(m)))):
        K = kernel.density(m.points, block)
        parts.append((m.apply_weights(K), shares @ K))
    q, rho = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
    return q, 1.0 / (draws * rho)


def at_levels(weights: np.ndarray, order: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The row at each level, from 0 to 1, of the sum of weights in that order."""
    upto = np.cumsum(weights[order])
    return order[np.searchsorted(upto[:-1], levels * upto[-1])]


class Even:
    """In place of a random generator: draws that fill space evenly, by Sobol's sequence.

    Each request takes columns that none has had before. All are moved by the same random digits,
    so that each draw is uniform, and replicates with different seeds are independent.

    References
    ----------
    Owen (2003), Quasi-Monte Carlo sampling, §5; Sobol' (1967).
    """

    def __init__(self, n: int, columns: int, seed: int | np.random.Generator):
        self._rng = np.random.default_rng(seed)
        points = qmc.Sobol(columns, scramble=False).random_base2((n - 1).bit_length())[:n]
        digits = (points * 2.0**SOBOL_BITS).astype(np.int64)
        moved = digits ^ self._rng.integers(2**SOBOL_BITS, size=columns)
        self._left = (moved + 0.5) / 2.0**SOBOL_BITS

    def take(self, columns: int) -> np.ndarray:
        """The next columns, uniform on [0, 1]."""
        taken, self._left = self._left[:, :columns], self._left[:, columns:]
        return taken

    def standard_normal(self, size: tuple[int, int]) -> np.ndarray:
        return ndtri(self.take(size[1]))

    def gamma(self, shape: float, size: tuple[int, int]) -> np.ndarray:
        return gammaincinv(shape, self.take(size[1]))

    def vonmises(self, mu: float, kappa: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        return self._rng.vonmises(mu, kappa, size)  # at random: its inverse is slow


# ---------------------------------------------------------------- rejection sampling


def rejection(
    m: WeightedPoints, kernel: Kernel, height: np.ndarray, n: int, rng, spare: bool = True
) -> np.ndarray:
    """`n` draws ∝ max(q − c, 0) from each member of a batch, c its `height`, (batch, n, d).

    With `spare`, a dozen proposals or more at a time, which pays where many draws are wanted.
    """
    blocks = row_blocks(np.arange(len(m)), height, rows=block_rows(len(m.points)))
    each = (_draws(m.points, m[some].weights, c, kernel, n, rng, spare) for some, c in blocks)
    return np.concatenate([*each])


def _draws(points, weights, height, kernel: Kernel, n: int, rng, spare: bool) -> np.ndarray:
    """Propose for all members that lack draws, keep what is accepted, and again."""
    drawn, have = np.empty((len(weights), n, points.shape[1])), np.zeros(len(weights), dtype=int)
    tried, lacking = 0, np.arange(len(weights))
    while len(lacking) and tried < PROPOSALS * (n + 16):
        missing = n - int(have[lacking].min())
        most = BLOCK_FLOATS // (len(lacking) * len(points))
        size = max(1, min(2 * missing + 16 if spare else missing, most))
        proposed = _propose(points, weights[lacking], kernel, size, rng)
        luck = rng.random(proposed.shape[:2])
        for part in arrays.slices(size, missing):
            rows = np.flatnonzero(have[lacking] < n)
            if not len(rows):  # the chances of the rest do not matter
                break
            own, some = lacking[rows], proposed[rows, part]
            kept = luck[rows, part] < _chance(points, weights[own], height[own], kernel, some)
            place = have[own, None] + np.cumsum(kept, axis=1) - 1
            who, which = np.nonzero(kept & (place < n))
            drawn[own[who], place[who, which]] = some[who, which]
            have[own] = np.minimum(n, have[own] + kept.sum(axis=1))
        tried, lacking = tried + size, np.flatnonzero(have < n)
    return _complete(drawn, have, lacking, points, weights, kernel, rng)


def _propose(points: np.ndarray, weights: np.ndarray, kernel: Kernel, size: int, rng) -> np.ndarray:
    """Draws from the positive weights of each member, smoothed by the kernel, (b, size, d)."""
    upto = np.cumsum(np.maximum(weights, 0.0), axis=1)
    if not (upto[:, -1] > 0).all():
        raise ValueError("the embedding has no positive weight, so its density is nowhere positive")
    # one search for all members, each moved to a range of its own; the last bits are left out, as
    # they would round into the next range
    away = 2.0 * np.arange(len(weights))[:, None]
    u = rng.random((len(weights), size)) * (1 - 1e-9) + away
    at = np.searchsorted((upto / upto[:, -1:] + away).ravel(), u.ravel(), side="right")
    rows = at % weights.shape[1]
    noise = kernel.noise(len(rows), points.shape[1], rng)
    return kernel.project(points[rows] + noise).reshape(len(weights), size, -1)


def _chance(points, weights, height, kernel: Kernel, proposed) -> np.ndarray:
    """max(q − c, 0)/q⁺ = 1 − min(1, (q⁻ + c)/q⁺) at the proposals of each member, (b, size)."""
    if not (weights < 0).any():
        return np.ones(proposed.shape[:2])
    K = kernel.density(proposed.reshape(-1, points.shape[1]), points)
    K = K.reshape(*proposed.shape[:2], len(points))
    above, below = (K @ np.maximum(w, 0.0)[:, :, None] for w in (weights, -weights))
    below = below + height[:, None, None]
    return 1.0 - np.minimum(1.0, below / above)[:, :, 0]


def _complete(drawn, have, lacking, points, weights, kernel, rng) -> np.ndarray:
    """The rest from the positive weights, where almost every proposal was rejected."""
    if not len(lacking):
        return drawn
    checks.warn_numerical(
        "rejection sampling gave up: the density is almost all cancellation; the rest of the "
        "draws are from the positive weights",
    )
    n = drawn.shape[1]
    rest = _propose(points, weights[lacking], kernel, n, rng)
    missing = np.arange(n) >= have[lacking, None]
    drawn[lacking] = np.where(missing[:, :, None], rest, drawn[lacking])
    return drawn

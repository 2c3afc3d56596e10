"""The positive part of a signed density q: how much mass it has, and draws from it.

∫ max(q, 0) = ∫ q + ∫ max(−q, 0), and the last, the negative mass, is none without negative weights,
a sum over a grid on the line, around a circle and in the plane, and elsewhere a mean over draws.
"""

import math
from typing import Any

import numpy as np
from scipy.special import gammaincinv, ndtri
from scipy.stats import qmc

from ..core.checks import warn_numerical
from ..core.moments import BLOCK_FLOATS, block_rows, row_blocks
from ..kernels import CorrelatedGaussian, Gaussian, Kernel
from .line import NEGLIGIBLE, ONE_SIGMA, Line, ordered_factors, reach, spans
from .weighted import WeightedPoints

MASS_ERROR = 3e-4  # standard error aimed at, for a positive part of mass one
SOBOL_BITS = 30
REPLICATES = 8  # of a set of draws, from which the standard error is seen
FIRST_DRAWS, MOST_DRAWS = 2**9, 2**14  # in each replicate
MOST_WORK = 2**27  # kernel evaluations in each replicate: fewer draws beyond 8,192 points
TINY = 1e-100  # products with numbers near the smallest floats are slow, squares of others zero
ROUGH = 1e-3  # a standard error that is said
PROPOSALS = 100  # for each draw wanted, before rejection gives up
CIRCLE_NODES = (2**10, 2**16)
PLANE_CELLS = (2, 4, 8, 16)  # to a bandwidth; the first where a rough answer will do
PLANE_WORK = 2**36  # products of points, features (or members) and nodes of the second grid


def is_signed(m: WeightedPoints) -> bool:
    """Whether any member may be negative somewhere: by its weights, or by the kernel."""
    return m.kernel.dips or any((w < 0).any() for w in m.weight_blocks())


def has_line(m: WeightedPoints) -> bool:
    """Whether the points are numbers and the kernel has a distribution function."""
    return m.points.shape[1] == 1 and m.kernel.reach(NEGLIGIBLE) is not None


def negative_mass(
    m: WeightedPoints, bandwidth, aim: float = MASS_ERROR
) -> tuple[np.ndarray, np.ndarray]:
    """∫ max(−q, 0) of each member of a batch, and the standard errors (0 where not by draws)."""
    kernel = m.kernel.smoothing(bandwidth)
    nothing = np.zeros(len(m))
    if not is_signed(m):
        return nothing, nothing
    if has_line(m):
        return Line(m, bandwidth).negative_mass, nothing
    if m.points.shape[1] == 1 and kernel.turn() is not None:
        return _around(m, kernel), nothing
    if isinstance(kernel, CorrelatedGaussian):  # the mass is the same on other axes
        points, kernel = kernel.in_units(m.points), Gaussian(1.0)
        m = WeightedPoints.of_parts(points, *m.factors, kernel)
    columns = _two_columns(m, kernel)
    return _by_draws(m, kernel, aim) if columns is None else _in_the_plane(m, columns, aim)


def _around(m: WeightedPoints, kernel: Kernel) -> np.ndarray:
    """The trapezoidal rule over a period, a dozen nodes to a bandwidth."""
    turn, origin = float(kernel.turn() or 0.0), np.zeros((1, 1))
    height = float(kernel.density(origin, origin)[0, 0])
    n = int(np.clip(32 * turn * height, *CIRCLE_NODES))
    nodes = np.arange(n)[:, None] * (turn / n)
    total = np.zeros(len(m))
    for (block,) in row_blocks(nodes, rows=block_rows(max(m.points.shape[0], len(m)))):
        total += np.maximum(-m.apply_weights(kernel.density(m.points, block)), 0.0).sum(axis=1)
    return total * (turn / n)


# ---------------------------------------------------------------- the plane


def _two_columns(m: WeightedPoints, kernel: Kernel) -> list[Kernel] | None:
    """The factors of a kernel of the plane, where a grid does not cost too much."""
    if m.points.shape[1] != 2 or not kernel.is_product():
        return None
    columns = [kernel.on([j], 2) for j in (0, 1)]
    if any(k.reach(NEGLIGIBLE) is None for k in columns):
        return None
    nodes = [
        len(even_nodes(x, k, PLANE_CELLS[1], 0.5)[0])
        for x, k in zip(m.points.T, columns, strict=True)
    ]
    rank = min(len(m), len(m.points) if m.factors[1] is None else m.factors[1].shape[1])
    work = float(rank) * len(m.points) * math.prod(nodes)
    return columns if work <= PLANE_WORK else None


def _in_the_plane(
    m: WeightedPoints, columns: list[Kernel], aim: float
) -> tuple[np.ndarray, np.ndarray]:
    """Sums over two grids half a cell apart: their mean, and how far they are from it.

    Cells are halved for members that need it.
    """
    mass, error, some = np.zeros(len(m)), np.zeros(len(m)), np.arange(len(m))
    for cells in PLANE_CELLS[aim <= MASS_ERROR :]:
        one, other = (_sum_over_grid(m[some], columns, cells, offset) for offset in (0.25, 0.75))
        mass[some], error[some] = 0.5 * (one + other), 0.5 * np.abs(one - other)
        some = some[error[some] > aim * (1.0 + mass[some])]
        if not len(some):
            break
    return mass, error


def _sum_over_grid(
    m: WeightedPoints, columns: list[Kernel], cells: int, offset: float
) -> np.ndarray:
    """A strip of the grid, as wide as the kernel there fits in memory, at a time.

    Line by line of it, by the points near that line.
    """
    order = np.argsort(m.points[:, 0], kind="stable")
    x, y = m.points[order, :1], m.points[order, 1:]
    factors: tuple[Any, Any] = ordered_factors(m, order)
    left, rows = factors if factors[1] is not None else (None, factors[0].T)
    across, along = (
        even_nodes(z[:, 0], k, cells, offset) for z, k in zip((x, y), columns, strict=True)
    )
    far, total = reach(columns[0], NEGLIGIBLE), np.zeros(len(m))
    for t, width in row_blocks(*along, rows=block_rows(len(x))):
        K = columns[1].density(y, t[:, None])
        K[K < TINY] = 0.0
        for at, height in zip(*across, strict=True):
            near = slice(*np.searchsorted(x[:, 0], [at - far, at + far]))
            q = (rows[near] * columns[0].density(x[near], np.array([[at]]))).T @ K[near]
            q = q if left is None else left @ q
            total -= height * (np.minimum(q, 0.0, out=q) @ width)
    return total


def even_nodes(
    x: np.ndarray, kernel: Kernel, cells: int, offset: float
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes at a share `offset` of cells near points, so many to a bandwidth, and the cells."""
    low, high = spans(np.sort(x), kernel)
    some = np.ceil((high - low) * cells / reach(kernel, ONE_SIGMA)).astype(int)
    width = np.repeat((high - low) / some, some)
    number = np.arange(some.sum()) - np.repeat(np.cumsum(some) - some, some)
    return np.repeat(low, some) + (number + offset) * width, width


# ---------------------------------------------------------------- importance sampling


def _by_draws(m: WeightedPoints, kernel: Kernel, aim: float) -> tuple[np.ndarray, np.ndarray]:
    """Twice as many draws until every member's standard error is small enough."""
    mass, error = np.zeros(len(m)), np.zeros(len(m))
    some = np.flatnonzero(np.concatenate([(w < -TINY).any(axis=1) for w in m.weight_blocks()]))
    draws = FIRST_DRAWS
    most = max(FIRST_DRAWS, min(MOST_DRAWS, MOST_WORK // len(m.points)))
    while len(some) and draws <= most:
        mass[some], error[some] = _average(m[some], kernel, draws)
        some = some[error[some] > aim * (1.0 + mass[some])]
        draws *= 2
    rough = error > max(aim, ROUGH) * (1.0 + mass)
    if rough.any():
        warn_numerical(
            f"the integral of the positive part of {rough.sum()} densities is known to a standard "
            f"error of {error.max():.1g} only: a larger bandwidth makes it smaller",
        )
    return mass, error


def _average(m: WeightedPoints, kernel: Kernel, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """E_ρ[max(−q, 0)/ρ] over draws from a mixture ρ of the kernel at points of negative weight.

    The constant of the kernel is in both and cancels.
    """
    squares = np.zeros(len(m.points))
    for w in m.weight_blocks():
        squares += (np.minimum(w, 0.0) ** 2).sum(axis=0)
    shares = np.sqrt(squares)  # one set of draws for all members: rarest where none needs them
    shares /= shares.sum()
    means = [_replicate(m, kernel, shares, draws, seed) for seed in range(REPLICATES)]
    spread = np.std(means, axis=0, ddof=1)
    return np.mean(means, axis=0), spread / math.sqrt(REPLICATES)


def _replicate(m: WeightedPoints, kernel: Kernel, shares, draws: int, seed: int) -> np.ndarray:
    n, d = m.points.shape
    even: Any = Even(draws, 2 * d + 1, seed)
    order = np.argsort(m.points[:, 0], kind="stable")
    upto = np.cumsum(shares[order])
    rows = order[np.minimum(np.searchsorted(upto, even.take(1)[:, 0] * upto[-1]), n - 1)]
    Y = kernel.project(m.points[rows] + kernel.noise(draws, d, even))
    total = np.zeros(len(m))
    for (block,) in row_blocks(Y, rows=block_rows(max(n, len(m)))):
        K = kernel.gram_of(m.points, block)
        total += (np.maximum(-m.apply_weights(K), 0.0) / (shares @ K)).sum(axis=1)
    return total / draws


class Even:
    """In place of a random generator: draws that fill space evenly, by Sobol's sequence.

    Each request takes columns that none has had before. All are moved by the same random digits,
    so that each draw is uniform, and replicates with different seeds are independent.

    References
    ----------
    Owen (2003), Quasi-Monte Carlo sampling, §5; Sobol' (1967).
    """

    def __init__(self, n: int, columns: int, seed: int):
        self._rng = np.random.default_rng(seed)
        digits = (qmc.Sobol(columns, scramble=False).random(n) * 2.0**SOBOL_BITS).astype(np.int64)
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
    m: WeightedPoints, kernel: Kernel, n: int, rng: np.random.Generator, spare: bool = True
) -> np.ndarray:
    """`n` draws from each member of a batch, (batch, n, d).

    With `spare`, a dozen proposals or more at a time, which pays where many draws are wanted.
    """
    blocks = m.weight_blocks()
    return np.concatenate([_draws(m.points, w, kernel, n, rng, spare) for w in blocks])


def _draws(points, weights: np.ndarray, kernel: Kernel, n: int, rng, spare: bool) -> np.ndarray:
    """Propose for all members that lack draws, keep what is accepted, and again."""
    drawn, have = np.empty((len(weights), n, points.shape[1])), np.zeros(len(weights), dtype=int)
    tried, lacking = 0, np.arange(len(weights))
    while len(lacking) and tried < PROPOSALS * (n + 16):
        missing = n - int(have[lacking].min())
        most = BLOCK_FLOATS // (len(lacking) * len(points))
        size = max(1, min(2 * missing + 16 if spare else missing, most))
        proposed = _propose(points, weights[lacking], kernel, size, rng)
        kept = rng.random(proposed.shape[:2]) < _chance(points, weights[lacking], kernel, proposed)
        place = have[lacking, None] + np.cumsum(kept, axis=1) - 1
        who, which = np.nonzero(kept & (place < n))
        drawn[lacking[who], place[who, which]] = proposed[who, which]
        have[lacking] = np.minimum(n, have[lacking] + kept.sum(axis=1))
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


def _chance(points: np.ndarray, weights: np.ndarray, kernel: Kernel, proposed) -> np.ndarray:
    """max(q, 0)/q⁺ = 1 − min(1, q⁻/q⁺) at the proposals of each member, (b, size)."""
    if not (weights < 0).any():
        return np.ones(proposed.shape[:2])
    K = kernel.gram_of(proposed.reshape(-1, points.shape[1]), points)
    K = K.reshape(*proposed.shape[:2], len(points))
    above, below = (K @ np.maximum(w, 0.0)[:, :, None] for w in (weights, -weights))
    return 1.0 - np.minimum(1.0, below / above)[:, :, 0]


def _complete(drawn, have, lacking, points, weights, kernel, rng) -> np.ndarray:
    """The rest from the positive weights, where almost every proposal was rejected."""
    if not len(lacking):
        return drawn
    warn_numerical(
        "rejection sampling gave up: the density is almost all cancellation; the rest of the "
        "draws are from the positive weights",
    )
    n = drawn.shape[1]
    rest = _propose(points, weights[lacking], kernel, n, rng)
    missing = np.arange(n) >= have[lacking, None]
    drawn[lacking] = np.where(missing[:, :, None], rest, drawn[lacking])
    return drawn

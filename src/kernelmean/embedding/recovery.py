"""From embeddings back to points and numbers: covariance, bandwidth, columns, preimage, herding."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core import Array, arrays, checks
from ..core.moments import block_rows, normal_bandwidth, row_blocks
from ..kernels import Kernel
from .line import Line, quantiles
from .move import Move, Wide
from .weighted import WeightedPoints

FIXED_POINT_STEPS = 200
MODE_FLOATS = 2**20  # entries of the Gram matrix between starts and points, at a time


def covariance(m: WeightedPoints) -> Array:
    """Covariance of a normalised embedding, projected on positive semidefinite matrices.

    In standard deviations of the points, so that no column's unit matters, nor rounds another off.
    """
    xp = arrays.namespace(m.points)
    centre = xp.mean(m.points, axis=0)  # about the middle of the points, to keep digits
    unit = arrays.units(m.points)
    P = (m.points - centre) / unit
    n, d = P.shape
    second = m.apply_weights(xp.reshape(P[:, :, None] * P[:, None, :], (n, d * d)))
    mean = m.apply_weights(P)
    C = xp.reshape(second, (*mean.shape[:-1], d, d)) - mean[..., :, None] * mean[..., None, :]
    values, vectors = xp.linalg.eigh(0.5 * (C + xp.matrix_transpose(C)))
    scaled = unit[:, None] * vectors * xp.clip(values, 0.0, None)[..., None, :] ** 0.5
    return scaled @ xp.matrix_transpose(scaled)


def default_bandwidth(m: WeightedPoints) -> tuple[float, ...]:
    """Silverman's rule with the embedding's own spread and effective number of points.

    The spread is half the distance between the 16% and 84% quantiles: weights of both signs can
    leave a variance of zero, or less, where the distribution is wide.
    """
    m = m.normalised().members()[:100]  # which stand for all
    n, d = m.points.shape
    low, high = (quantiles(lines(m, 0.0), q) for q in (0.159, 0.841))
    effective = 1.0 / np.maximum((m.weights**2).sum(-1), np.finfo(float).tiny)
    effective = np.clip(effective, 1.0, n)[:, None]
    lifted = arrays.to_numpy(m.kernel.lift(m.points))
    around = m.kernel.spread_of(0.5 * (high - low), m.weights @ lifted)
    rule = normal_bandwidth(effective, d) * around
    # an embedding with no spread left is narrow, but not of width zero
    spread = np.where(arrays.still(m.points), 0.0, m.points.std(axis=0))
    spread = m.kernel.spread_of(spread, lifted.mean(axis=0))
    scale = np.where(spread > 0, spread, getattr(m.kernel, "lengthscale", 1.0))
    return tuple(np.maximum(np.median(rule, axis=0), 1e-3 * scale).tolist())


def lines(
    m: WeightedPoints, bandwidth, nearest: bool = False, wide: Wide | None = None,
    moves: np.ndarray | None = None,
) -> Iterator[Any]:  # fmt: skip
    """The distributions of each column: a `Line`, or `_Steps` without a bandwidth.

    Each member may be moved by its own, (batch, d).
    """
    every, d = m.members(), m.points.shape[1]
    for j, width in enumerate(_bandwidths(bandwidth, d)):
        move = Move(None if moves is None else moves[:, [j]])
        if width == 0:
            yield _Steps(every, j, move)
        else:
            column = WeightedPoints(every.points[:, [j]], *every.factors, m.kernel.on([j], d))
            own = default_bandwidth(column) if width is None else width
            yield Line(column, own, move, wide and wide.on(j), nearest)


def _bandwidths(bandwidth, d: int) -> list[float | None]:
    given = [bandwidth] * d if np.ndim(bandwidth) == 0 else np.asarray(bandwidth).tolist()
    each = [b if b is None else checks.check_positive(b, "bandwidth", zero=True) for b in given]
    if len(each) != d:
        raise ValueError(f"bandwidth has {len(each)} entries; one number, or {d}, is needed")
    return each


class _Steps:
    """Distribution functions of one column of weighted points, rearranged to increase."""

    def __init__(self, members: WeightedPoints, column: int, move: Move):
        x = members.points[:, column]
        self.members, self.move, self.order = members, move, np.argsort(x, kind="stable")
        self.last = np.flatnonzero(np.append(np.diff(x[self.order]) > 0, True))  # of equal points
        self.x = x[self.order][self.last]

    def _rows(self) -> Iterator[np.ndarray]:
        """Of each member, the values at the sorted points."""
        for weights in self.members.weight_blocks():
            yield from np.sort(np.cumsum(weights[:, self.order], axis=1)[:, self.last], axis=1)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """(batch, m)."""
        shift = np.zeros((len(self.members), 1)) if self.move.shift is None else self.move.shift
        at = (np.searchsorted(self.x + s, y, side="right") for s in shift)
        found = [np.append(0.0, F)[i] for F, i in zip(self._rows(), at, strict=True)]
        return np.clip(found, 0.0, 1.0)

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """(batch, k)."""
        at = np.stack([np.searchsorted(F, levels - 1e-12) for F in self._rows()])
        return self.move(self.x[np.minimum(at, len(self.x) - 1)])

    def shortest(self, level: float) -> np.ndarray:
        """There is none without a density."""
        raise ValueError(
            "bandwidth is 0; shortest intervals and regions are those of a density: a positive "
            "number, or None for the default, is needed"
        )

    regions = shortest


# ---------------------------------------------------------------- points that represent it


def preimage(m: WeightedPoints, n_starts: int) -> Array:
    """The point nearest to each embedding in the RKHS."""
    left, _ = m.factors
    left = left if m.batch is not None else left[None, :]
    blocks = row_blocks(left, rows=block_rows(m.points.shape[0]))
    parts = [_modes(m.reweighted(some), n_starts) for (some,) in blocks]
    found = arrays.namespace(m.points).concat(parts)
    return found if m.batch is not None else found[0, :]


def _modes(m: WeightedPoints, n_starts: int) -> Array:
    """Modes of as many members as there may be distances to all points in memory."""
    xp, kernel = arrays.namespace(m.points), m.kernel
    distance = kernel.diag_of(m.points)[None, :] - 2 * m(m.points)
    nearest = xp.argsort(distance, axis=-1)[:, : min(n_starts, m.points.shape[0])]
    if kernel.pull(m.points[:1, :], m.points[:1, :]) is None:
        return kernel.project(xp.take(m.points, nearest[:, 0], axis=0))
    rows = max(1, MODE_FLOATS // (m.points.shape[0] * nearest.shape[1]))
    blocks = row_blocks(m.weights, nearest, rows=rows)
    return xp.concat([_best(kernel, m.points, weights, near) for weights, near in blocks])


def _best(kernel: Kernel, points, weights, nearest) -> Array:
    """For each row of `weights` the best of its starts and of the fixed points they lead to."""
    xp = arrays.namespace(points)
    starts = kernel.project(xp.take(points, xp.reshape(nearest, (-1,)), axis=0))
    ends = _fixed_points(kernel, points, weights, starts)
    # both are sorted by member, each with a row per start
    scores = [_distances(kernel, points, weights, X) for X in (starts, ends)]
    best = arrays.to_numpy(xp.argmin(xp.concat(scores, axis=1), axis=1))
    both = [xp.reshape(X, (*nearest.shape, points.shape[1])) for X in (starts, ends)]
    candidates = xp.reshape(xp.concat(both, axis=1), (-1, points.shape[1]))
    return arrays.take(candidates, 2 * nearest.shape[1] * np.arange(len(best)) + best, axis=0)


def _distances(kernel: Kernel, points, weights, X) -> Array:
    """‖k(x, ·) − μ_b‖² up to the constant ‖μ_b‖², (batch, starts), each member at its own rows."""
    xp = arrays.namespace(X)
    K = xp.reshape(kernel.gram_of(X, points), (weights.shape[0], -1, points.shape[0]))
    values = xp.reshape(K @ weights[:, :, None], (weights.shape[0], -1))
    return xp.reshape(kernel.diag_of(X), values.shape) - 2 * values


def _fixed_points(kernel: Kernel, points, weights, X) -> Array:
    """Iterate x ← Σ w_i g(x_i, x) x_i / Σ w_i g(x_i, x) from each row of X, all rows together.

    On a manifold the sum is taken of the lifted points, and the quotient is their projection.
    """
    xp, lifted = arrays.namespace(X), kernel.lift(points)
    rows, found = np.arange(X.shape[0]), np.array(arrays.to_numpy(X))
    member = rows // (X.shape[0] // weights.shape[0])
    for _ in range(FIXED_POINT_STEPS):
        G = kernel.pull(X, points) * arrays.take(weights, member[rows], axis=0)
        new = kernel.land(G @ lifted, xp.sum(G, axis=1)[:, None], X)
        new = xp.where(xp.isfinite(new), new, X)
        found[rows] = arrays.to_numpy(new)
        old, lift = kernel.lift(X), kernel.lift(new)
        moving = xp.any(xp.abs(lift - old) > 1e-10 * (1 + xp.abs(old)), axis=1)
        left = np.flatnonzero(arrays.to_numpy(moving))
        rows, X = rows[left], arrays.take(new, left, axis=0)
        if not len(rows):
            break
    return arrays.like(found, points)


def herd(m: WeightedPoints, n: int) -> Array:
    """Kernel herding over the embedding's own points."""
    checks.check_count(n, "n")
    every = [m] if m.batch is None else [m[i] for i in range(len(m))]
    chosen = [arrays.take(m.points, _herd_rows(one, n), axis=0) for one in every]
    return chosen[0] if m.batch is None else arrays.namespace(m.points).stack(chosen)


def _herd_rows(m: WeightedPoints, n: int) -> list[int]:
    target = arrays.to_numpy(m(m.points))
    chosen: list[int] = []
    covered = np.zeros_like(target)  # Σ_s k(x_s, ·)
    for t in range(n):
        chosen.append(int(np.argmax(target - covered / (t + 1))))
        latest = arrays.take(m.points, chosen[-1:], axis=0)
        covered += arrays.to_numpy(m.kernel.gram_of(latest, m.points))[0]
    return chosen

"""Points that represent an embedding: modes by fixed points, herding."""

from __future__ import annotations

import numpy as np

from ..core import arrays
from ..core.checks import Array, check_count
from ..core.moments import block_rows, row_blocks
from ..kernels import Kernel
from .weighted import WeightedPoints

FIXED_POINT_STEPS = 200
MODE_FLOATS = 2**20  # entries of the Gram matrix between starts and points, at a time


def mode(m: WeightedPoints, n_starts: int) -> Array:
    """The point nearest to each embedding in the RKHS."""
    left, _ = m.factors
    blocks = row_blocks(
        left if m.batch is not None else left[None, :], rows=block_rows(m.points.shape[0])
    )
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
    rows = np.arange(X.shape[0])
    member = rows // (X.shape[0] // weights.shape[0])
    done = []
    for _ in range(FIXED_POINT_STEPS):
        G = kernel.pull(X, points) * arrays.take(weights, member[rows], axis=0)
        new = kernel.land(G @ lifted, xp.sum(G, axis=1)[:, None], X)
        new = xp.where(xp.isfinite(new), new, X)
        moving = arrays.to_numpy(_moved(kernel.lift(X), kernel.lift(new)))
        stopped, left = np.flatnonzero(~moving), np.flatnonzero(moving)
        done.append((rows[stopped], arrays.take(new, stopped, axis=0)))
        rows, X = rows[left], arrays.take(new, left, axis=0)
        if not len(rows):
            break
    done.append((rows, X))
    order = np.argsort(np.concatenate([numbers for numbers, _ in done]))
    return arrays.take(xp.concat([found for _, found in done]), order, axis=0)


def _moved(old, new) -> Array:
    xp = arrays.namespace(old)
    return xp.any(xp.abs(new - old) > 1e-10 * (1 + xp.abs(old)), axis=1)


def herd(m: WeightedPoints, n: int) -> Array:
    """Kernel herding over the embedding's own points."""
    check_count(n, "n")
    xp = arrays.namespace(m.points)
    if m.batch is None:
        return arrays.take(m.points, _herd_rows(m, n), axis=0)
    return xp.stack([arrays.take(m.points, _herd_rows(m[i], n), axis=0) for i in range(len(m))])


def _herd_rows(m: WeightedPoints, n: int) -> list[int]:
    target = arrays.to_numpy(m(m.points))
    chosen: list[int] = []
    covered = np.zeros_like(target)  # Σ_s k(x_s, ·)
    for t in range(n):
        chosen.append(int(np.argmax(target - covered / (t + 1))))
        latest = arrays.take(m.points, chosen[-1:], axis=0)
        covered += arrays.to_numpy(m.kernel.gram_of(latest, m.points))[0]
    return chosen

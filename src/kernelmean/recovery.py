"""From embeddings back to points and numbers: moments, quantiles, samples, preimage, herding."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from . import linalg
from ._validation import (
    Array,
    NumericalWarning,
    as_floats,
    check_count,
    check_positive,
    generator,
)
from .moments import block_rows, row_blocks

if TYPE_CHECKING:
    from .embedding import MeanEmbedding
    from .kernels import Kernel

FIXED_POINT_STEPS = 200
MODE_FLOATS = 2**20  # entries of the Gram matrix between starts and points, at a time
SAMPLE_ROUNDS = 100


def covariance(m: MeanEmbedding) -> Array:
    """Covariance of a normalised embedding, projected on positive semidefinite matrices."""
    xp = linalg.namespace(m.points)
    centre = xp.mean(m.points, axis=0)  # about the middle of the points, to keep digits
    P = m.points - centre
    n, d = P.shape
    second = m.apply_weights(xp.reshape(P[:, :, None] * P[:, None, :], (n, d * d)))
    mean = m.mean() - centre
    C = xp.reshape(second, (*mean.shape[:-1], d, d)) - mean[..., :, None] * mean[..., None, :]
    values, vectors = xp.linalg.eigh(0.5 * (C + xp.matrix_transpose(C)))
    scaled = vectors * xp.clip(values, 0.0, None)[..., None, :]
    return scaled @ xp.matrix_transpose(vectors)


def default_bandwidth(m: MeanEmbedding) -> tuple[float, ...]:
    """Silverman's rule with the embedding's own spread and effective number of points.

    The spread is half the distance between the 16% and 84% quantiles: weights of both signs can
    leave a variance of zero, or less, where the distribution is wide.
    """
    m = _few(m.normalised())
    d = m.points.shape[1]
    low, high = (linalg.to_numpy(quantile(m, q)) for q in (0.159, 0.841))
    effective = 1.0 / np.maximum((linalg.to_numpy(m.weights) ** 2).sum(-1), np.finfo(float).tiny)
    effective = np.clip(effective, 1.0, m.points.shape[0])[..., None]
    power = 1.0 / (d + 4)
    points, lifted = linalg.to_numpy(m.points), linalg.to_numpy(m.kernel._lift(m.points))
    around = m.kernel._spread(0.5 * (high - low), linalg.to_numpy(m.weights) @ lifted)
    rule = np.atleast_2d((4.0 / (d + 2)) ** power * around * effective**-power)
    # an embedding with no spread left is narrow, but not of width zero
    spread = m.kernel._spread(points.std(axis=0), lifted.mean(axis=0))
    scale = np.where(spread > 0, spread, getattr(m.kernel, "lengthscale", 1.0))
    return tuple(np.maximum(np.median(rule, axis=0), 1e-3 * scale).tolist())


def _few(m: MeanEmbedding) -> MeanEmbedding:
    """A hundred members of a large batch stand for all."""
    return m if m.batch is None else m[slice(0, min(100, m.batch))]


def quantile(m: MeanEmbedding, q) -> Array:
    """Quantiles per column of a normalised embedding."""
    levels = _levels(q)
    points = linalg.to_numpy(m.points)
    members = m if m.batch is not None else m._of(m.points, m._left[None, :], m._right, m.kernel)
    columns = [_quantiles(members, column, np.atleast_1d(levels)) for column in points.T]
    values = np.stack(columns, axis=-1)  # (batch, k, d)
    values = values[:, 0] if levels.ndim == 0 else values
    return linalg.like(values if m.batch is not None else values[0], m.points)


def _levels(q) -> np.ndarray:
    levels = as_floats(q, "q")
    if levels.ndim > 1 or not np.all((levels >= 0) & (levels <= 1)):
        raise ValueError(f"q is {q!r}; a number between 0 and 1, or a list of them, is needed")
    return levels


def _quantiles(members: MeanEmbedding, x: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles (batch, k) of one column: invert the rearranged distribution function."""
    order = np.argsort(x, kind="stable")
    step = max(1, block_rows(len(x)))
    found = []
    for i in range(0, len(members), step):
        weights = linalg.to_numpy(members[i : min(i + step, len(members))].weights)
        F = np.sort(np.cumsum(weights[:, order], axis=1), axis=1)
        at = np.stack([np.searchsorted(row, levels - 1e-12) for row in F])
        found.append(x[order][np.minimum(at, len(x) - 1)])
    return np.concatenate(found)


def interval(m: MeanEmbedding, level: float) -> tuple[Array, Array]:
    """Central interval per column of a normalised embedding."""
    if check_positive(level, "level") >= 1:
        raise ValueError(f"level is {level}; a number between 0 and 1 is needed")
    both = quantile(m, [(1 - level) / 2, (1 + level) / 2])
    return both[..., 0, :], both[..., 1, :]


def sample(m: MeanEmbedding, n: int, random_state, bandwidth) -> Array:
    """Draws from the positive part of a normalised embedding's density."""
    check_count(n, "n")
    rng = generator(random_state)
    bandwidth = default_bandwidth(m) if bandwidth is None else bandwidth
    kernel = m.kernel._bandwidth(bandwidth)
    if m.batch is None:
        return linalg.like(_sample_one(m, n, rng, kernel), m.points)
    draws = [_sample_one(m[i], n, rng, kernel) for i in range(len(m))]
    return linalg.like(np.stack(draws), m.points)


def _sample_one(m: MeanEmbedding, n: int, rng: np.random.Generator, kernel) -> np.ndarray:
    points, weights = linalg.to_numpy(m.points), linalg.to_numpy(m.weights)
    positive = np.clip(weights, 0.0, None)
    if not positive.any():
        raise ValueError("the embedding has no positive weight, so its density is nowhere positive")
    negative = np.clip(-weights, 0.0, None)
    kept: list[np.ndarray] = []
    missing = n
    for _ in range(SAMPLE_ROUNDS):
        size = 2 * missing + 16
        rows = rng.choice(len(points), size=size, p=positive / positive.sum())
        proposed = kernel._project(points[rows] + kernel._noise(size, points.shape[1], rng))
        K = kernel._gram(points, proposed)
        accept = 1.0 - np.minimum(1.0, (negative @ K) / (positive @ K))
        kept.append(proposed[rng.random(size) < accept])
        missing = n - sum(map(len, kept))
        if missing <= 0:
            return np.concatenate(kept)[:n]
    warnings.warn(
        "rejection sampling ran out of rounds: the density is almost all cancellation; the rest "
        "are drawn from the positive weights",
        NumericalWarning,
        stacklevel=4,
    )
    return np.concatenate([*kept, proposed])[:n]


def mode(m: MeanEmbedding, n_starts: int) -> Array:
    """The point nearest to each embedding in the RKHS."""
    check_count(n_starts, "n_starts")
    members = m if m.batch is not None else m._of(m.points, m._left[None, :], m._right, m.kernel)
    blocks = row_blocks(members._left, rows=block_rows(m.points.shape[0]))
    parts = [_modes(m._of(m.points, left, m._right, m.kernel), n_starts) for (left,) in blocks]
    found = linalg.namespace(m.points).concat(parts)
    return found if m.batch is not None else found[0, :]


def _modes(m: MeanEmbedding, n_starts: int) -> Array:
    """Modes of as many members as there may be distances to all points in memory."""
    xp, kernel = linalg.namespace(m.points), m.kernel
    distance = kernel._diag(m.points)[None, :] - 2 * m(m.points)
    nearest = xp.argsort(distance, axis=-1)[:, :n_starts]
    if kernel._pull(m.points[:1, :], m.points[:1, :]) is None:
        return kernel._project(xp.take(m.points, nearest[:, 0], axis=0))
    rows = max(1, MODE_FLOATS // (m.points.shape[0] * nearest.shape[1]))
    blocks = row_blocks(m.weights, nearest, rows=rows)
    return xp.concat([_best(kernel, m.points, weights, near) for weights, near in blocks])


def _best(kernel: Kernel, points, weights, nearest) -> Array:
    """For each row of `weights` the best of its starts and of the fixed points they lead to."""
    xp = linalg.namespace(points)
    starts = kernel._project(xp.take(points, xp.reshape(nearest, (-1,)), axis=0))
    ends = _fixed_points(kernel, points, weights, starts)
    # both are sorted by member, each with a row per start
    scores = [_distances(kernel, points, weights, X) for X in (starts, ends)]
    best = linalg.to_numpy(xp.argmin(xp.concat(scores, axis=1), axis=1))
    both = [xp.reshape(X, (*nearest.shape, points.shape[1])) for X in (starts, ends)]
    candidates = xp.reshape(xp.concat(both, axis=1), (-1, points.shape[1]))
    return linalg.take(candidates, 2 * nearest.shape[1] * np.arange(len(best)) + best, axis=0)


def _distances(kernel: Kernel, points, weights, X) -> Array:
    """‖k(x, ·) − μ_b‖² up to the constant ‖μ_b‖², (batch, starts), each member at its own rows."""
    xp = linalg.namespace(X)
    K = xp.reshape(kernel._gram(X, points), (weights.shape[0], -1, points.shape[0]))
    values = xp.reshape(K @ weights[:, :, None], (weights.shape[0], -1))
    return xp.reshape(kernel._diag(X), values.shape) - 2 * values


def _fixed_points(kernel: Kernel, points, weights, X) -> Array:
    """Iterate x ← Σ w_i g(x_i, x) x_i / Σ w_i g(x_i, x) from each row of X, all rows together.

    On a manifold the sum is taken of the lifted points, and the quotient is their projection.
    """
    xp, lifted = linalg.namespace(X), kernel._lift(points)
    rows = np.arange(X.shape[0])
    member = rows // (X.shape[0] // weights.shape[0])
    done = []
    for _ in range(FIXED_POINT_STEPS):
        G = kernel._pull(X, points) * linalg.take(weights, member[rows], axis=0)
        new = kernel._land(G @ lifted, xp.sum(G, axis=1)[:, None], X)
        new = xp.where(xp.isfinite(new), new, X)
        moving = linalg.to_numpy(_moved(kernel._lift(X), kernel._lift(new)))
        stopped, left = np.flatnonzero(~moving), np.flatnonzero(moving)
        done.append((rows[stopped], linalg.take(new, stopped, axis=0)))
        rows, X = rows[left], linalg.take(new, left, axis=0)
        if not len(rows):
            break
    done.append((rows, X))
    order = np.argsort(np.concatenate([numbers for numbers, _ in done]))
    return linalg.take(xp.concat([found for _, found in done]), order, axis=0)


def _moved(old, new) -> Array:
    xp = linalg.namespace(old)
    return xp.any(xp.abs(new - old) > 1e-10 * (1 + xp.abs(old)), axis=1)


def herd(m: MeanEmbedding, n: int) -> Array:
    """Kernel herding over the embedding's own points."""
    check_count(n, "n")
    xp = linalg.namespace(m.points)
    if m.batch is None:
        return linalg.take(m.points, _herd_rows(m, n), axis=0)
    return xp.stack([linalg.take(m.points, _herd_rows(m[i], n), axis=0) for i in range(len(m))])


def _herd_rows(m: MeanEmbedding, n: int) -> list[int]:
    target = linalg.to_numpy(m(m.points))
    chosen: list[int] = []
    covered = np.zeros_like(target)  # Σ_s k(x_s, ·)
    for t in range(n):
        chosen.append(int(np.argmax(target - covered / (t + 1))))
        latest = linalg.take(m.points, chosen[-1:], axis=0)
        covered += linalg.to_numpy(m.kernel._gram(latest, m.points))[0]
    return chosen

"""From embeddings back to points and numbers: covariance, preimage, herding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import linalg
from ._validation import Array, check_count

if TYPE_CHECKING:
    from .embedding import MeanEmbedding

FIXED_POINT_STEPS = 200


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


def mode(m: MeanEmbedding, n_starts: int) -> Array:
    """The point nearest to each embedding in the RKHS."""
    check_count(n_starts, "n_starts")
    if m.batch is None:
        return _mode_of_one(m, n_starts)
    xp = linalg.namespace(m.points)
    return xp.stack([_mode_of_one(m[i], n_starts) for i in range(len(m))])


def _mode_of_one(m: MeanEmbedding, n_starts: int) -> Array:
    xp = linalg.namespace(m.points)
    best = xp.argsort(_distance(m, m.points))[:n_starts]
    starts = xp.take(m.points, best, axis=0)
    candidates = xp.concat([starts, _fixed_points(m, starts)])
    return candidates[int(xp.argmin(_distance(m, candidates))), :]


def _distance(m: MeanEmbedding, X) -> Array:
    """‖k(x, ·) − μ‖² up to the constant ‖μ‖²."""
    return m.kernel._diag(X) - 2 * m(X)


def _fixed_points(m: MeanEmbedding, X) -> Array:
    """Iterate x ← Σ w_i g(x_i, x) x_i / Σ w_i g(x_i, x) from each row of X, all rows together."""
    xp = linalg.namespace(X)
    weights, new = m.weights, X
    for _ in range(FIXED_POINT_STEPS):
        pull = m.kernel._pull(m.points, X)
        if pull is None:
            return X
        G = pull.T * weights
        total = xp.sum(G, axis=1)[:, None]
        # a start whose denominator vanishes stays where it is
        stuck = xp.abs(total) < 1e-12
        new = xp.where(stuck, X, (G @ m.points) / xp.where(stuck, 1.0, total))
        if bool(xp.all(xp.abs(new - X) <= 1e-10 * (1 + xp.abs(X)))):
            break
        X = new
    return xp.where(xp.isfinite(new), new, X)


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

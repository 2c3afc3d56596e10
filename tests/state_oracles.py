"""State-space models the slow way: loops over nodes and rows, augmented least squares.

Nothing here imports kernelmean. K nodes z (K, d) in coordinates of mean zero and covariance I.
"""

from __future__ import annotations

from dataclasses import dataclass

import hmm_oracles as slow
import numpy as np
from scipy.stats import norm

Array = np.ndarray


def bump(z: Array, width: float) -> Array:
    """exp(-|z_i - z_j|^2 / (2 width^2)), entry by entry."""
    K = len(z)
    return np.array(
        [[np.exp(-0.5 * np.sum((z[i] - z[j]) ** 2) / width**2) for j in range(K)] for i in range(K)]
    )


def nearest_distance(z: Array) -> float:
    """Median distance to the nearest other node."""
    K = len(z)
    return float(
        np.median([min(np.linalg.norm(z[i] - z[j]) for j in range(K) if j != i) for i in range(K)])
    )


# ------------------------------------------------------------------------------- transitions
def smooth_regression(z: Array, counts: Array, bend: float, regs: Array) -> tuple[Array, float]:
    """Penalised regression of x' on x over all pairs, each with its count: f at the nodes, lambda.

    min sum_ij N_ij |z_j - f(z_i)|^2 + lambda |f_2|^2, f = 1, z (free) + f_2 of a Gaussian RKHS;
    lambda minimises log RSS - 2 log(1 - df/n). One more pair at each node goes to where the line of
    all counted pairs leads. Least squares on the pairs stacked on the penalty.
    """
    K, d = z.shape
    i, j = (a.ravel() for a in np.indices((K, K)))
    root, straight = np.sqrt(counts.ravel()), np.column_stack([np.ones(K), z])
    line = np.linalg.lstsq(root[:, None] * straight[i], root[:, None] * z[j], rcond=1e-12)[0]
    i, targets = np.append(i, np.arange(K)), np.concatenate([z[j], straight @ line])
    root = np.append(root, np.ones(K))
    L = np.linalg.cholesky(bump(z, bend) + 1e-13 * np.eye(K))  # rows: coordinates of an RKHS
    design = np.column_stack([np.ones(K), z, L])
    free, n, rows = 1 + d, counts.sum() + K, len(root)
    scores, fits = [], []
    for reg in regs:
        below = np.sqrt(reg) * np.eye(free + K)[free:]
        A = np.concatenate([root[:, None] * design[i], below])
        b = np.concatenate([root[:, None] * targets, np.zeros((K, d))])
        theta = np.linalg.lstsq(A, b, rcond=1e-14)[0]
        f = design @ theta
        rss = np.sum(root[:, None] ** 2 * (targets - f[i]) ** 2)
        hat = A[:rows] @ np.linalg.pinv(A, rcond=1e-14)[:, :rows]
        scores.append(np.log(rss) - 2 * np.log(1 - np.trace(hat) / n))
        fits.append(f)
    best = int(np.argmin(scores))
    return fits[best], float(regs[best])


@dataclass(frozen=True)
class Widths:
    """Of the local mean of squares, its floor, and the volume of a node."""

    bend: float
    near: float
    some: float
    regs: Array


def smooth_transition(z: Array, counts: Array, w: Widths) -> Array:
    """g_ij ~ N(z_j; f(z_i), s^2(z_i)) times the volume of node j, normalised: loops."""
    K, d = z.shape
    f, _ = smooth_regression(z, counts, w.bend, w.regs)
    gap, near = nearest_distance(z), bump(z, w.near)
    volume = 1 / bump(z, 2 * gap).sum(axis=1)
    off = np.array([sum(counts[i, j] * (z[j] - f[i]) ** 2 for j in range(K)) for i in range(K)])
    mass = counts.sum(axis=1)
    g = np.zeros((K, K))
    for i in range(K):
        local = sum((near[i, k] + w.some) * off[k] for k in range(K))
        s2 = np.maximum(local / sum((near[i, k] + w.some) * mass[k] for k in range(K)), gap**2)
        for j in range(K):
            g[i, j] = volume[j] * np.prod(norm.pdf(z[j], f[i], np.sqrt(s2)))
    return g / g.sum(axis=1, keepdims=True)


# ------------------------------------------------------------------------------- emissions
@dataclass(frozen=True)
class LinearNoise:
    """y = c + Bx + s e by weighted least squares on all (row, node) pairs; the law of e a KDE."""

    means: Array  # (K, d_y)
    scale: Array  # (d_y,)
    residuals: Array  # (n K, d_y), in units of the scale
    weights: Array  # (n K,), of sum one
    width: float

    @classmethod
    def of(cls, z: Array, Y: Array, gamma: Array, smoothing: float) -> LinearNoise:
        n, K = gamma.shape
        i, k = (a.ravel() for a in np.indices((n, K)))
        root = np.sqrt(gamma.ravel())[:, None]
        design = np.column_stack([np.ones(K), z])
        theta = np.linalg.lstsq(root * design[k], root * Y[i], rcond=None)[0]
        means = design @ theta
        w = gamma.ravel() / gamma.sum()
        off = Y[i] - means[k]
        scale = np.sqrt(w @ off**2)
        return cls(means, scale, off / scale, w, smoothing * gamma.sum() ** -0.2)

    def density(self, Y: Array, share: float, wide: float) -> Array:
        """(m, K): product over columns of the noise law, by a kernel estimate.

        With a bump of height `share` and width `wide` for what is far away.
        """
        total = 1 + share * wide * (2 * np.pi) ** 0.5
        out = np.ones((len(Y), len(self.means)))
        for a in range(len(Y)):
            for k in range(len(self.means)):
                for j, s in enumerate(self.scale):
                    e = (Y[a, j] - self.means[k, j]) / s
                    near = self.weights @ norm.pdf(e, self.residuals[:, j], self.width)
                    out[a, k] *= (near + share * np.exp(-0.5 * (e / wide) ** 2)) / (total * s)
        return out


def left_out(Y: Array, gamma: Array, guard: Array, strength: float, h: float) -> Array:
    """f_k(y_i) = (sum_{s != i} gamma_sk phi_h(y_i - y_s) + c g_k(y_i))/(N_k - gamma_ik + c)."""
    n, K = gamma.shape
    out = np.zeros((n, K))
    for i in range(n):
        for k in range(K):
            others = [s for s in range(n) if s != i]
            near = sum(gamma[s, k] * np.prod(norm.pdf(Y[i], Y[s], h)) for s in others)
            total = sum(gamma[s, k] for s in others)
            out[i, k] = (near + strength * guard[i, k]) / (total + strength)
    return out


# ------------------------------------------------------------------------------- EM
def em_step(
    Y: Array,
    z: Array,
    gamma: Array,
    p: Array,
    Q: Array,
    h: float,
    c: tuple,
    w: Widths,
    noise: tuple,
) -> tuple:
    """One step of EM over all paths of one sequence: new gamma, start law, Q, log p(y) before it.

    c: rows that the guards of a node count as, of emissions and of transitions; noise: its
    smoothing, and the share and the width of what is far away.
    """
    guard = LinearNoise.of(z, Y, gamma, noise[0]).density(Y, *noise[1:])
    b = left_out(Y, gamma, guard, c[0], h)
    paths = slow.Paths.of(p, Q, np.log(b))
    moves = paths.moves
    new = moves + c[1] * smooth_transition(z, moves, w)
    new /= new.sum(axis=1, keepdims=True)
    return paths.marginals, slow.stationary(new), new, float(np.log(paths.evidence))


# ------------------------------------------------------------------------------- filters
@dataclass(frozen=True)
class Filter:
    """The forward and backward recursions of one sequence, row by row; `b` (n, K) densities."""

    prior: Array
    alpha: Array
    gamma: Array
    loglik: Array

    @classmethod
    def of(cls, p: Array, Q: Array, b: Array) -> Filter:
        n = len(b)
        prior, alpha, total = np.zeros_like(b), np.zeros_like(b), np.zeros(n)
        for t in range(n):
            prior[t] = p if t == 0 else alpha[t - 1] @ Q
            joint = prior[t] * b[t]
            total[t] = joint.sum()
            alpha[t] = joint / total[t]
        beta = np.ones_like(b)
        for t in range(n - 2, -1, -1):
            beta[t] = Q @ (b[t + 1] * beta[t + 1])
            beta[t] /= beta[t].max()
        gamma = alpha * beta
        return cls(prior, alpha, gamma / gamma.sum(axis=1, keepdims=True), np.log(total))

"""Conditional densities the slow way: n real refits, dense systems, and quadrature.

Nothing here imports kernelmean. With an intercept the weights solve the bordered system

    [K + nλI  1] [w]   [k(x)]
    [1ᵀ       0] [μ] = [1   ],

which is ridge regression on 1 and φ(x), the coefficient of 1 not penalised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from oracles import integral_radial, rows
from scipy import integrate, optimize

Array = np.ndarray
PROFILES: dict[str, Callable] = {  # of a number; of an array with exp=np.exp
    "gaussian": lambda r, exp=math.exp: exp(-(r**2) / 2),
    "laplace": lambda r, exp=math.exp: exp(-r),
    "matern": lambda r, exp=math.exp: (1 + math.sqrt(3) * r) * exp(-math.sqrt(3) * r),
    "gaussian4": lambda r, exp=math.exp: (3 - r**2) / 2 * exp(-(r**2) / 2),
}


# ------------------------------------------------------------------------------------ weights
def weights(K: Array, k: Array, n_lam: float, intercept: bool) -> Array:
    """One row of weights for each column of k."""
    n = len(K)
    if not intercept:
        return np.linalg.solve(K + n_lam * np.eye(n), k).T
    ones = np.ones((n, 1))
    bordered = np.block([[K + n_lam * np.eye(n), ones], [ones.T, np.zeros((1, 1))]])
    return np.linalg.solve(bordered, np.vstack([k, np.ones((1, k.shape[1]))]))[:n].T


def weights_without(i: int, K: Array, n_lam: float, intercept: bool) -> Array:
    """The weights at x_i learned from the other rows, nλ as it was; a zero in place of row i."""
    keep = np.arange(len(K)) != i
    w = np.zeros(len(K))
    w[keep] = weights(K[np.ix_(keep, keep)], K[keep][:, [i]], n_lam, intercept)[0]
    return w


# ------------------------------------------------------------------------- smoothing kernels
def unit_mass(profile: str) -> float:
    """∫ f(|t|) dt."""
    return integral_radial(PROFILES[profile], 1)


def smooth(profile: str, a: Array, b: Array, gamma: Array) -> float:
    """A product over columns of f(|a_j - b_j|/γ_j) of integral one."""
    gamma = np.broadcast_to(gamma, np.shape(a))
    return math.prod(_bump(profile, s, t, g) for s, t, g in zip(a, b, gamma, strict=True))


def _bump(profile: str, s: float, t: float, g: float) -> float:
    return PROFILES[profile](abs(s - t) / g) / (_MASS[profile] * g)


def overlap(profile: str, a: Array, b: Array, gamma: Array) -> float:
    """∫ k̄(a, u) k̄(b, u) du, column by column."""
    gamma = np.broadcast_to(gamma, np.shape(a))
    return math.prod(
        _overlap_of_column(profile, float(s), float(t), float(g))
        for s, t, g in zip(a, b, gamma, strict=True)
    )


@cache
def _overlap_of_column(profile: str, s: float, t: float, g: float) -> float:
    def product(u: float) -> float:
        return _bump(profile, s, u, g) * _bump(profile, t, u, g)

    cuts = [min(s, t) - 40 * g, min(s, t) - 5 * g, *sorted([s, t]), max(s, t) + 5 * g]
    cuts.append(max(s, t) + 40 * g)
    return sum(
        integrate.quad(product, a, b, epsabs=1e-13, epsrel=1e-11)[0]
        for a, b in zip(cuts, cuts[1:], strict=False)
        if b > a
    )


def table(f: Callable, profile: str, Y: Array, gamma: Array) -> Array:
    """f of all pairs of rows, a symmetric matrix."""
    Y, n = rows(Y), len(Y)
    T = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            T[i, j] = T[j, i] = f(profile, Y[i], Y[j], gamma)
    return T


# ------------------------------------------------------------------------------------- scores
def score_by_refits(
    K: Array, Y: Array, gamma: Array, lam: float, profile: str, intercept: bool
) -> float:
    """M = (1/n) Σ_i [∫ q⁻ⁱ(y|x_i)² dy - 2 q⁻ⁱ(y_i|x_i)], every q⁻ⁱ learned anew."""
    n = len(K)
    A, B = table(smooth, profile, Y, gamma), table(overlap, profile, Y, gamma)
    W = [weights_without(i, K, n * lam, intercept) for i in range(n)]
    return float(np.mean([w @ B @ w - 2 * A[i] @ w for i, w in enumerate(W)]))


def score_by_quadrature(
    K: Array, y: Array, gamma: float, lam: float, profile: str, intercept: bool
) -> float:
    """The same for one column, ∫ q² of the sum and not of its pairs."""
    n, terms = len(K), []
    for i in range(n):
        w = weights_without(i, K, n * lam, intercept)
        q = signed(w, y, gamma, profile)
        cuts = [min(y) - 40 * gamma, *np.sort(y), max(y) + 40 * gamma]
        square = sum(
            integrate.quad(lambda u, q=q: q(u) ** 2, a, b, epsabs=1e-12, limit=200)[0]
            for a, b in zip(cuts, cuts[1:], strict=False)
        )
        terms.append(square - 2 * q(y[i]))
    return float(np.mean(terms))


def density_score(w: Array, X: Array, gamma: Array, profile: str = "gaussian") -> float:
    """Σ_ij w_i w_j (k̄∗k̄)(x_i, x_j) - 2 Σ_i w_i Σ_{j≠i} w_j/(1 - w_i) k̄(x_i, x_j)."""
    total = 0.0
    for i in range(len(X)):
        for j in range(len(X)):
            total += w[i] * w[j] * overlap(profile, X[i], X[j], gamma)
            if i != j:
                total -= 2 * w[i] * w[j] / (1 - w[i]) * smooth(profile, X[i], X[j], gamma)
    return total


def residuals_by_refits(K: Array, Y: Array, n_lam: float) -> Array:
    """y_i - m⁻ⁱ(x_i) of ridge regression with a free intercept."""
    return np.array(
        [Y[i] - weights_without(i, K, n_lam, intercept=True) @ Y for i in range(len(K))]
    )


# ---------------------------------------------------------------------------------- densities
def signed(w: Array, y: Array, gamma: float, profile: str = "gaussian") -> Callable:
    """q(u) = Σ w_j k̄(y_j, u), of one column."""
    f = PROFILES[profile]
    return lambda u: (
        f(np.abs(np.asarray(u)[..., None] - y) / gamma, np.exp) @ w / (_MASS[profile] * gamma)
    )


def recovered(w: Array, y: Array, gamma: float, profile: str = "gaussian") -> Callable:
    """max(q, 0)/∫ max(q, 0), the integral cut at the points and at the roots of q."""
    q = signed(w, y, gamma, profile)
    grid = np.unique(np.concatenate([np.arange(min(y) - 40 * gamma, max(y), gamma / 3), y]))
    grid = np.unique(np.concatenate([grid, max(y) + gamma * np.arange(0, 40, 1 / 3)]))
    turns = np.flatnonzero(q(grid[:-1]) * q(grid[1:]) < 0)
    roots = [optimize.brentq(q, grid[i], grid[i + 1], xtol=1e-13) for i in turns]
    cuts = np.unique(np.concatenate([grid, roots]))
    total = sum(
        integrate.fixed_quad(q, s, t, n=8)[0]
        for s, t in zip(cuts, cuts[1:], strict=False)
        if q(0.5 * (s + t)) > 0
    )
    return lambda u: np.maximum(q(u), 0.0) / total


_MASS = {profile: unit_mass(profile) for profile in PROFILES}

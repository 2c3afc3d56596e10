"""Slow and obvious instrumental-variable regression: every row left out is a real refit.

Coordinates are eigenvectors of Gram matrices and every ridge is `numpy.linalg.lstsq` on stacked
rows, so that nothing is shared with the code under test. Penalties are on sums of squares: a
regulariser λ per sample enters as nλ, with the n of *all* rows also while a row is out.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelmean as km

Array = np.ndarray


def roots(kernel, X: Array, *others: Array) -> list[Array]:
    """Coordinates Φ of X with ΦΦᵀ = K, and of other points: k(·, X) V s^{-1/2}."""
    s, V = np.linalg.eigh(kernel(X))
    keep = s > 1e-12 * s.max()
    A = V[:, keep] / np.sqrt(s[keep])
    return [kernel(points, X) @ A for points in (X, *others)]


def polynomial(degree: int | None, reference: Array, points: Array) -> Array:
    """1, u_1, …, u_d, u_1², …: u standardised by the reference rows; nothing for None."""
    n, d = points.shape
    if degree is None:
        return np.zeros((n, 0))
    columns = [np.ones(n)]
    for power in range(1, degree + 1):
        for j in range(d):
            middle, spread = reference[:, j].mean(), reference[:, j].std()
            columns.append(((points[:, j] - middle) / spread) ** power)
    return np.column_stack(columns)


def ridge(A: Array, B: Array, penalties: Array) -> Array:
    """argmin ‖B − AC‖² + Σ_j p_j ‖C_j‖² by least squares on stacked rows."""
    more = np.diag(np.sqrt(penalties))
    zeros = np.zeros((len(penalties), *B.shape[1:]))
    return np.linalg.lstsq(np.vstack([A, more]), np.concatenate([B, zeros]), rcond=None)[0]


def stage1(Theta: Array, Phi: Array, lam: float, n: int) -> Array:
    """Coefficients of the regression of Φ on Θ."""
    return ridge(Theta, Phi, np.full(Theta.shape[1], n * lam))


def left_out_embeddings(Theta: Array, Phi: Array, lam: float) -> Array:
    """Row i: stage 1 learned from all rows but i, at θ_i."""
    n = len(Phi)
    rows = []
    for i in range(n):
        others = np.arange(n) != i
        rows.append(Theta[i] @ stage1(Theta[others], Phi[others], lam, n))
    return np.array(rows)


def middle(y: Array, degree: int | None) -> float:
    """Mean outcome, which an intercept takes up before stage 1 can shrink its embedding."""
    return 0.0 if degree is None else float(np.mean(y))


def alone(columns: Array) -> Array:
    """What a ridge of 1e-6 on the other columns leaves of each one's variance, and of itself."""
    left = []
    for j in range(columns.shape[1]):
        own, rest = columns[:, j] - columns[:, j].mean(), np.delete(columns, j, axis=1)
        rest = rest - rest.mean(0)
        b = ridge(rest, own, np.full(rest.shape[1], 1e-6 * len(own)))
        left.append(np.mean((own - rest @ b) ** 2) + 1e-6 * (1 + b @ b))
    return np.array(left)


def slope_costs(degree: int | None, d: int, Phi: Array | None) -> Array:
    """Of the columns after an intercept: what is their own of lines, one of powers."""
    costs = np.ones(0 if degree is None else d * degree)
    if Phi is not None and d > 1 and len(costs):
        costs[:d] = alone(Phi[:, 1 : 1 + d])
    return costs


def stage2(
    M: Array, y: Array, xi: float, degree: int | None, d: int, m: int, Phi: Array | None = None
) -> Array:
    """Ridge of y on M: an intercept is free, the slopes cost what they are by themselves."""
    free, costs = 0 if degree is None else 1, slope_costs(degree, d, Phi)
    penalties = np.full(M.shape[1], m * xi)
    penalties[:free], penalties[free : free + len(costs)] = 0.0, costs
    return ridge(M, y, penalties)


def causal_errors(
    Phi, M, y, xi: float, degree: int | None, d: int, known: Array | bool = True
) -> Array:
    """y_i − h⁻ⁱ(x_i): stage 2 refitted without row i, M being held fixed.

    Slopes cost what is their own in the rows `known`, in Φ if True, or one each.
    """
    m, told = len(y), Phi if known is True else None if known is False else known
    errors = []
    for i in range(m):
        others = np.arange(m) != i
        b = stage2(M[others], y[others], xi, degree, d, m, told)
        errors.append(y[i] - Phi[i] @ b)
    return np.array(errors)


class Dense:
    """Jackknife kernel IV at fixed regularisers, refit by refit."""

    def __init__(self, kernel_x, kernel_z, X, y, Z, lam, xi, degree):
        self.kernel_x, self.X, self.degree, self.d = kernel_x, X, degree, X.shape[1]
        self.T, (phi,) = polynomial(degree, X, X), roots(kernel_x, X)
        (theta,) = roots(kernel_z, Z)
        self.Phi = np.hstack([self.T, phi])
        self.Theta = np.hstack([polynomial(degree, Z, Z), theta])
        self.M = left_out_embeddings(self.Theta, self.Phi, lam)
        self.middle = middle(y, degree)
        self.y, self.xi = y - self.middle, xi
        self.b = stage2(self.M, self.y, xi, degree, self.d, len(y), self.Phi)

    @property
    def trends(self) -> int:
        return self.T.shape[1]

    def coordinates(self, points) -> Array:
        phi = roots(self.kernel_x, self.X, points)[1]
        return np.hstack([polynomial(self.degree, self.X, points), phi])

    def predict(self, points) -> Array:
        return self.coordinates(points) @ self.b + self.middle

    def loss1(self) -> float:
        """Of the kernel's coordinates: a trend is no part of it."""
        return float(np.mean(np.sum((self.Phi - self.M)[:, self.trends :] ** 2, axis=1)))

    def loss2(self) -> float:
        errors = causal_errors(self.Phi, self.M, self.y, self.xi, self.degree, self.d)
        return float(np.mean(errors**2))


def left_hand_side(
    M: Array, xi: float, degree: int | None, d: int, Phi: Array | None = None
) -> Array:
    """A = MᵀM/m + penalties: nothing on an intercept, cost/m on slopes, ξ on the rest."""
    penalties = np.full(M.shape[1], xi)
    if degree is not None:
        costs = slope_costs(degree, d, Phi)
        penalties[0], penalties[1 : 1 + len(costs)] = 0.0, costs / len(M)
    return M.T @ M / len(M) + np.diag(penalties)


def noise_covariance(A: Array, scores: list[Array]) -> Array:
    """Σ_i (A⁻¹s_i)(A⁻¹s_i)ᵀ: every row by hand."""
    return sum(np.outer(v, v) for v in (np.linalg.solve(A, s) for s in scores))


def bias_covariance(A: Array, b: Array, xi: float, trends: int) -> Array:
    """ξ²A⁻¹PA⁻¹τ² with P the penalised coordinates, τ² = 2‖b‖²/df."""
    own = slice(trends, None)
    S = A[own, own] - A[own, :trends] @ np.linalg.solve(A[:trends, :trends], A[:trends, own])
    df = len(S) - xi * np.trace(np.linalg.inv(S))  # S holds ξ already
    pull = xi * np.linalg.inv(A)[:, own]
    return pull @ pull.T * (2 * b[own] @ b[own] / max(df, 1.0))


def weighted_chi2_tail(statistics, V: Array, draws: int = 400_000, seed: int = 0) -> list[float]:
    """P(zᵀz > statistic), z ~ N(0, V), for each of some, by drawing."""
    s = np.clip(np.linalg.eigvalsh(V), 0, None)
    squares = np.random.default_rng(seed).standard_normal((draws, len(s))) ** 2
    sums = squares @ s
    return [float(np.mean(sums > statistic)) for statistic in statistics]


def slopes(loss, u: Array, step: float = 1e-5) -> Array:
    """Central finite differences of a function of a vector."""
    out = np.zeros(len(u))
    for j in range(len(u)):
        e = np.zeros(len(u))
        e[j] = step
        out[j] = (loss(u + e) - loss(u - e)) / (2 * step)
    return out


def assert_same(ours: km.KernelIV, theirs: km.KernelIV, tol: float = 1e-8) -> None:
    """Two fits of the same rows, however these are kept."""
    for name in ("coef_", "covariance_", "scales_x_", "scales_z_"):
        one, other = getattr(ours, name), getattr(theirs, name)
        assert_allclose(one, other, rtol=0, atol=tol * np.abs(other).max(), err_msg=name)
    for name in ("reg_stage1_", "reg_stage2_", "loss_stage1_", "loss_stage2_"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=tol, err_msg=name)
    assert ours.specification_p_ == pytest.approx(theirs.specification_p_, abs=tol)
    assert (ours.trend_, ours.n_stage1_, ours.n_stage2_) == (
        theirs.trend_,
        theirs.n_stage1_,
        theirs.n_stage2_,
    )

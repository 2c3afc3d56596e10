"""Kernel Bayes' rule the slow way: dense textbook formulas, real refits, tables, closed forms.

Nothing here imports kernelmean. Formulas are those of the papers with the corrections of the errata
page (shares β that sum to about one, so that λ and δ are on the scale of the operator).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

Array = np.ndarray


# ------------------------------------------------------------------------------- weights (MATH 5)
def importance_weights(K: Array, k: Array, beta: Array, lam: float) -> Array:
    """Xu 2022, Algorithm 1: √D (√D K √D + λI)⁻¹ √D k, D = diag(max(β, 0)); one row per column of
    k.
    """
    root = np.sqrt(np.maximum(beta, 0))
    inner = root[:, None] * K * root[None, :] + lam * np.eye(len(K))
    return (root[:, None] * np.linalg.solve(inner, root[:, None] * k)).T


def thresholding_weights(K: Array, k: Array, beta: Array, lam: float) -> Array:
    """Song 2016, Proposition 2: (K + λΛ⁺)⁻¹ k, Λ⁺ = diag(1/β⁺); rows with β ≤ 0 are discarded."""
    keep = beta > 0
    inner = K[np.ix_(keep, keep)] + lam * np.diag(1 / beta[keep])
    W = np.zeros((k.shape[1], len(K)))
    W[:, keep] = np.linalg.solve(inner, k[keep]).T
    return W


def squared_weights(K: Array, k: Array, beta: Array, delta: float) -> Array:
    """Fukumizu 2013, eq. 14: ΛK((ΛK)² + δI)⁻¹Λk, Λ = diag(β)."""
    L = np.diag(beta)
    inner = np.linalg.matrix_power(L @ K, 2) + delta * np.eye(len(K))
    return (L @ K @ np.linalg.solve(inner, L @ k)).T


def bayes_weights(rule: str, *arguments) -> Array:
    return {"importance": importance_weights, "squared": squared_weights}[rule](*arguments)


# ----------------------------------------------------------------- choosing the regulariser
def weighted_loo_by_refits(K_x: Array, K_z: Array, beta: Array, lam: float) -> Array:
    """Terms β⁺_i ‖k(z_i,·) − Σ_j w^{-i}_j(x_i) k(z_j,·)‖², row i really left out, λ held fixed."""
    n, d = len(K_x), np.maximum(beta, 0)
    terms = np.zeros(n)
    for i in range(n):
        rest = np.arange(n) != i
        w = importance_weights(K_x[np.ix_(rest, rest)], K_x[rest, i][:, None], d[rest], lam)[0]
        terms[i] = d[i] * _distance(w, K_z, rest, i)
    return terms


def heldout_loss(
    rule: str, K_x: Array, K_z: Array, beta: Array, reg: float, folds: int = 5
) -> float:
    """Σ_a Σ_{i∈a} β⁺_i ‖k(z_i,·) − μ^{(−a)}(x_i)‖², every fifth row a fold."""
    total = 0.0
    for held, rest, W in _fold_weights(rule, K_x, beta, reg, folds):
        for i, w in zip(held, W, strict=True):
            total += max(beta[i], 0) * _distance(w, K_z, rest, i)
    return total


def balance_loss(
    rule: str, K_x: Array, K_z: Array, beta: Array, reg: float, folds: int = 5
) -> float:
    """Fukumizu 2013, §4.2: Σ_a ‖avg_{i∈a} μ^{(−a)}(x_i) − avg_{i∈a} k(z_i,·)‖², averages by β⁺."""
    total, d = 0.0, np.maximum(beta, 0)
    for held, rest, W in _fold_weights(rule, K_x, beta, reg, folds):
        share = d[held] / d[held].sum()
        signed = np.zeros(len(K_z))  # the difference, as weights on all latents
        signed[rest] += share @ W
        signed[held] -= share
        total += signed @ K_z @ signed
    return float(total)


def _fold_weights(rule: str, K_x: Array, beta: Array, reg: float, folds: int):
    """Held-out rows, the others, and the posterior weights on the others at the held-out rows.

    The others' shares are scaled up to the positive mass of all, so that reg keeps its meaning.
    """
    n, d = len(K_x), np.maximum(beta, 0)
    for a in range(folds):
        held, rest = np.flatnonzero(np.arange(n) % folds == a), np.arange(n) % folds != a
        shares = beta[rest] * d.sum() / d[rest].sum()
        W = bayes_weights(rule, K_x[np.ix_(rest, rest)], K_x[np.ix_(rest, held)], shares, reg)
        yield held, np.flatnonzero(rest), W


def _distance(w: Array, K: Array, rows: Array, i: int) -> float:
    """‖k(z_i,·) − Σ_j w_j k(z_j,·)‖² over `rows`."""
    return float(K[i, i] - 2 * w @ K[rows, i] + w @ K[np.ix_(rows, rows)] @ w)


# ----------------------------------------------------------------------- relative density ratio
def relative_ratio(K: Array, n: int, alpha: Array, eta: float, a: float) -> Array:
    """The minimiser of (1−a)/(2n) Σ r(z_i)² + (a/2) Σ α_j r(u_j)² − Σ α_j r(u_j) + (η/2)‖r‖².

    K is the Gram matrix of the n denominator rows, then the numerator's points; the answer is r at
    all of them. With c = ((1−a)/n, aα) and m = Σ α_j k(u_j, ·),
    r = (Φᵀdiag(c)Φ + ηI)⁻¹ m = (m − Φᵀ diag(c) (K diag(c) + ηI)⁻¹ m(·))/η.
    """
    c = np.concatenate([np.full(n, (1 - a) / n), a * alpha])
    m = K[:, n:] @ alpha
    return (m - (K * c) @ np.linalg.solve(K * c + eta * np.eye(len(K)), m)) / eta


def relative_loo_by_refits(
    Phi: Array, U: Array, alpha: Array, eta: float, a: float
) -> tuple[Array, Array]:
    """Terms of (1−a)/(2n) Σ r^{-i}(z_i)² and of Σ α_j ((a/2) r^{-j}(u_j)² − r^{-j}(u_j)).

    Explicit features (rows). Without denominator row i: its term leaves the second moment.
    Without numerator row j: its term leaves the second moment, and the others' mean is divided by
    the mass 1 − α_j that is left.
    """
    n, r = Phi.shape
    m, A = alpha @ U, (1 - a) * Phi.T @ Phi / n + a * U.T @ np.diag(alpha) @ U + eta * np.eye(r)
    at_z = [p @ np.linalg.solve(A - (1 - a) * np.outer(p, p) / n, m) for p in Phi]
    at_u = [
        u @ np.linalg.solve(A - a * w * np.outer(u, u), m - w * u) / (1 - w)
        for u, w in zip(U, alpha, strict=True)
    ]
    at_z, at_u = np.array(at_z), np.array(at_u)
    return (1 - a) / (2 * n) * at_z**2, alpha * (a / 2 * at_u**2 - at_u)


# ------------------------------------------------------------------------------------- finite sets
@dataclass(frozen=True)
class Table:
    """A latent with three values, an observation with four, and a prior apart from P(z)."""

    p_z = np.array([0.5, 0.3, 0.2])
    p_x_given_z = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.4, 0.1]])
    prior = np.array([0.2, 0.2, 0.6])

    def pairs(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        z = rng.choice(3, size=n, p=self.p_z)
        x = np.array([rng.choice(4, p=self.p_x_given_z[value]) for value in z])
        return x[:, None].astype(float), z[:, None].astype(float)


def posterior_table(likelihood: Array, prior: Array) -> Array:
    """P(z | x) for every x (rows) by Bayes' rule; likelihood[z, x] = P(x | z)."""
    joint = prior[:, None] * likelihood
    return (joint / joint.sum(axis=0)).T


def counted_likelihood(x: Array, z: Array) -> Array:
    """P(x | z) by counting."""
    counts = np.zeros((3, 4))
    np.add.at(counts, (z.ravel().astype(int), x.ravel().astype(int)), 1)
    return counts / counts.sum(axis=1, keepdims=True)


# ---------------------------------------------------------------------------------- closed forms
@dataclass(frozen=True)
class GaussianModel:
    """Fukumizu 2013, §5.1: (Z, X) ~ N((1, 0), V), and a prior N(0, V_ZZ/2) on Z."""

    V: Array

    @classmethod
    def draw(cls, d: int, rng: np.random.Generator) -> GaussianModel:
        A = rng.normal(size=(2 * d, 2 * d))
        return cls(A.T @ A + 2 * np.eye(2 * d))

    @property
    def d(self) -> int:
        return len(self.V) // 2

    def pairs(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """(X, Z) from the training law."""
        d = self.d
        both = rng.multivariate_normal(np.repeat([1.0, 0.0], d), self.V, size=n)
        return both[:, d:], both[:, :d]

    def prior(self, n: int, rng: np.random.Generator) -> Array:
        return rng.multivariate_normal(np.zeros(self.d), self.V[: self.d, : self.d] / 2, size=n)

    def observe(self, Z: Array, rng: np.random.Generator) -> Array:
        """x = B(z − 1) + noise, the likelihood of the training law."""
        B, S = self._likelihood()
        return (Z - 1) @ B.T + rng.multivariate_normal(np.zeros(self.d), S, size=len(Z))

    def posterior(self, X: Array) -> tuple[Array, Array]:
        """Means (one row per observation) and the covariance, which does not depend on it."""
        B, S = self._likelihood()
        P = self.V[: self.d, : self.d] / 2
        gain = P @ B.T @ np.linalg.inv(B @ P @ B.T + S)
        return (X + B.sum(axis=1)) @ gain.T, P - gain @ B @ P

    def ratio(self, Z: Array) -> Array:
        """Prior density over training density."""
        C = self.V[: self.d, : self.d]
        top = stats.multivariate_normal(np.zeros(self.d), C / 2)
        return np.exp(top.logpdf(Z) - stats.multivariate_normal(np.ones(self.d), C).logpdf(Z))

    def mass(self, X: Array, lower: Array, upper: Array) -> Array:
        """Exact posterior probability of [lower, upper], per observation and column."""
        mean, covariance = self.posterior(X)
        law = stats.norm(mean, np.sqrt(np.diag(covariance)))
        return law.cdf(upper) - law.cdf(lower)

    def _likelihood(self) -> tuple[Array, Array]:
        d, V = self.d, self.V
        B = V[d:, :d] @ np.linalg.inv(V[:d, :d])
        return B, V[d:, d:] - B @ V[:d, d:]


def normal_mean_posterior(observed: Array, sd: float, prior_sd: float = 1.0) -> tuple[float, float]:
    """Mean and sd of θ given observed_i ~ N(θ, sd²) and θ ~ N(0, prior_sd²)."""
    precision = len(observed) / sd**2 + 1 / prior_sd**2
    return float(np.sum(observed) / sd**2 / precision), float(precision**-0.5)


def rejection_abc(theta: Array, data: Array, observed: Array, share: float) -> Array:
    """Mean of the `share` of the parameters whose data are nearest to each observed row."""
    keep = max(1, round(share * len(theta)))
    nearest = [np.argsort(np.linalg.norm(data - x, axis=1))[:keep] for x in observed]
    return np.array([theta[rows].mean(axis=0) for rows in nearest])

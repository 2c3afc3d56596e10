"""Hidden Markov models the slow way: sums over paths, n x n kernel matrices, loops over rows.

Nothing here imports kernelmean. Tables are of a chain with start law p, transition matrix Q and
log-densities (or logarithms of probabilities) `logb` of each row in each state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
from scipy.optimize import least_squares

Array = np.ndarray
Gram = Callable[[Array, Array], Array]


# ------------------------------------------------------------------------------- sums over paths
@dataclass(frozen=True)
class Paths:
    """All K^T paths of one sequence, and p(path, y) of each."""

    states: Array
    joint: Array

    @classmethod
    def of(cls, p: Array, Q: Array, logb: Array) -> Paths:
        T, K = logb.shape
        states = np.array(list(product(range(K), repeat=T)))
        joint = p[states[:, 0]] * np.prod(Q[states[:, :-1], states[:, 1:]], axis=1)
        return cls(states, joint * np.exp(logb[np.arange(T), states].sum(axis=1)))

    @property
    def evidence(self) -> float:
        """p(y)."""
        return float(self.joint.sum())

    @property
    def marginals(self) -> Array:
        """P(x_t = k | y), (T, K)."""
        K = self.states.max() + 1
        rows = [[self.joint[self.states[:, t] == k].sum() for k in range(K)] for t in self.times]
        return np.array(rows) / self.evidence

    @property
    def moves(self) -> Array:
        """Sum over t of P(x_t = i, x_{t+1} = j | y), (K, K)."""
        K = self.states.max() + 1
        total = np.zeros((K, K))
        for t in self.times[:-1]:
            np.add.at(total, (self.states[:, t], self.states[:, t + 1]), self.joint)
        return total / self.evidence

    @property
    def times(self) -> range:
        return range(self.states.shape[1])

    @property
    def best(self) -> tuple[float, Array]:
        """log p(path, y) of the most probable path, and the path."""
        i = int(np.argmax(self.joint))
        return float(np.log(self.joint[i])), self.states[i]


def filtered(p: Array, Q: Array, logb: Array) -> Array:
    """P(x_t = k | y_1, ..., y_t): the last marginal of every beginning."""
    return np.stack([Paths.of(p, Q, logb[: t + 1]).marginals[-1] for t in range(len(logb))])


def log_predictive(p: Array, Q: Array, logb: Array) -> Array:
    """log p(y_t | y_1, ..., y_{t-1}) as differences of log p(y_1, ..., y_t)."""
    total = [np.log(Paths.of(p, Q, logb[: t + 1]).evidence) for t in range(len(logb))]
    return np.diff([0.0, *total])


def baum_welch_step(p: Array, Q: Array, table: Array, y: Array, more: float, prior: float) -> tuple:
    """One step of EM on a sequence of values (-1: missing): Q, table and log p(y) before it.

    `more` is added to each expected transition, `prior` to each expected value.
    """
    K, V = table.shape
    logb = np.where(y[:, None] >= 0, np.log(table.T[y]), 0.0)
    paths = Paths.of(p, Q, logb)
    moves = paths.moves + more
    counts = np.full((K, V), prior)
    for row, value in zip(paths.marginals, y, strict=True):
        if value >= 0:
            counts[:, value] += row
    rows = [m / m.sum(axis=1, keepdims=True) for m in (moves, counts)]
    return *rows, np.log(paths.evidence)


# ------------------------------------------------------------------------------- finite models
@dataclass(frozen=True)
class FiniteHMM:
    """A chain in its stationary law with values 0, ..., V - 1; `table` (K, V)."""

    Q: Array
    table: Array

    @classmethod
    def random(cls, K: int, V: int, seed: int) -> FiniteHMM:
        """States that stay more often than not, laws that overlap."""
        rng = np.random.default_rng(seed)
        Q = 0.5 * np.eye(K) + 0.5 * rng.dirichlet(np.ones(K), size=K)
        table = 0.5 * np.eye(K, V) + 0.5 * rng.dirichlet(np.ones(V), size=K)
        return cls(Q, table)

    @property
    def law(self) -> Array:
        """The stationary law: any row of Q^(2^10)."""
        return np.linalg.matrix_power(self.Q, 2**10)[0]

    @property
    def pairs(self) -> Array:
        """P(y_1 = a, y_2 = b)."""
        return self.table.T @ np.diag(self.law) @ self.Q @ self.table

    @property
    def skips(self) -> Array:
        """P(y_1 = a, y_3 = c)."""
        return self.table.T @ np.diag(self.law) @ self.Q @ self.Q @ self.table

    @property
    def triples(self) -> Array:
        """P(y_1 = a, y_2 = b, y_3 = c)."""
        E = self.table
        return np.einsum("i,ij,jk,ia,jb,kc->abc", self.law, self.Q, self.Q, E, E, E)

    def draw(self, n: int, seed: int) -> tuple[Array, Array]:
        """Values and states."""
        rng = np.random.default_rng(seed)
        levels, jumps = np.cumsum(self.Q, axis=1)[:, :-1], rng.random(n)
        states = [int(np.searchsorted(np.cumsum(self.law)[:-1], jumps[0]))]
        for u in jumps[1:]:
            states.append(int(np.searchsorted(levels[states[-1]], u)))
        values = np.cumsum(self.table, axis=1)[states, :-1] < rng.random(n)[:, None]
        return values.sum(axis=1), np.array(states)


def matching(truth: Array, found: Array) -> Array:
    """The order of the columns of `found` in which they are nearest to those of `truth`."""
    orders = permutations(range(truth.shape[1]))
    return np.array(min(orders, key=lambda p: np.abs(truth - found[:, list(p)]).sum()))


# ------------------------------------------------------------------------------- Spiteri 2023
@dataclass(frozen=True)
class DenseSpectral:
    """Algorithm 1: B = W D UO are weights on the third rows of the triples, (n - 2, K).

    With U1 the left and U the right singular functions of C13, all B(U theta_i) diagonalised
    together, and UO = Theta^T L (the page of errata). The mean is over all rows, C12 over all
    pairs; the first estimate of the stationary law is put on the simplex before it divides.
    """

    Q: Array
    law: Array
    B: Array
    third: Array  # rows that B weighs
    values: Array  # singular values of C13

    @classmethod
    def of(cls, Y: Array, gram: Gram, K: int, Theta: Array) -> DenseSpectral:
        G = gram(Y, Y)
        n = len(Y) - 2
        first, middle, third = slice(0, n), slice(1, n + 1), slice(2, n + 2)
        values, W = np.linalg.eig(G[first, first] @ G[third, third] / n**2)
        lead = np.argsort(-values.real)[:K]
        W, sigma = W[:, lead].real, values.real[lead] ** 0.5
        D = np.diag(np.diag(W.T @ G[third, third] @ W) ** -0.5)
        V = W @ D  # U = Phi_3 V
        V1 = G[third, third] @ V / (n * sigma)  # U1 = C13 U / sigma = Phi_1 V1
        left = V1.T @ G[first, first]
        B = []
        for theta in Theta:
            scale = np.diag(G[middle, third] @ V @ theta)
            B.append(left @ scale @ G[third, third] @ V / n @ np.diag(1 / sigma))
        R = jointly_diagonal(np.array(B))
        L = np.array([np.diag(np.linalg.inv(R) @ b @ R) for b in B])
        UO = Theta.T @ L
        mean = V.T @ G[third, :].mean(axis=1)
        rough = simplex(np.linalg.solve(UO, mean))
        c12 = V.T @ G[third, :-1] @ G[1:, third] @ V / (len(Y) - 1)
        Q = np.linalg.inv(UO @ np.diag(rough)) @ c12 @ np.linalg.inv(UO.T)
        Q = np.array([simplex(q) for q in Q])
        return cls(Q, stationary(Q), V @ UO, Y[third], sigma)

    def law_at(self, gram: Gram, y: Array) -> Array:
        """<O_k, k(y, .)>, (m, K)."""
        return gram(y, self.third) @ self.B


def real_eigenvectors(b: Array) -> Array | None:
    """The eigenvectors of one matrix, None where they are complex (NumPy 2.5 types all as such)."""
    vectors = np.linalg.eig(b)[1]
    return None if np.iscomplex(vectors).any() else vectors.real


def jointly_diagonal(B: Array) -> Array:
    """The R of least off-diagonal squares of R^-1 B_i R, of unit columns: Levenberg-Marquardt."""
    K = B.shape[1]
    off = ~np.eye(K, dtype=bool)

    def residual(entries):
        R = entries.reshape(K, K)
        R = R / np.linalg.norm(R, axis=0)
        return (np.linalg.inv(R) @ B @ R)[:, off].ravel()

    starts = [V.ravel() for V in map(real_eigenvectors, B) if V is not None]
    found = [
        least_squares(residual, s, jac="3-point", xtol=1e-15, ftol=1e-15, gtol=1e-15)
        for s in starts
    ]
    R = min(found, key=lambda f: f.cost).x.reshape(K, K)
    return R / np.linalg.norm(R, axis=0)


def simplex(v: Array) -> Array:
    """The nearest point of the simplex, by bisection on the threshold."""
    low, high = v.min() - 1, v.max()
    for _ in range(200):
        mid = (low + high) / 2
        low, high = (mid, high) if np.maximum(v - mid, 0).sum() > 1 else (low, mid)
    return np.maximum(v - high, 0)


def stationary(Q: Array) -> Array:
    """The left eigenvector of eigenvalue one."""
    values, vectors = np.linalg.eig(Q.T)
    law = vectors[:, np.argmin(np.abs(values - 1))].real
    return law / law.sum()


def kernel_bayes(N: Array, Ny: Array, prior: Array, reg: float) -> Array:
    """eq. 3.7: Lambda N (Lambda N + lambda I)^-1 N^-1 N(y)."""
    Lambda = np.diag(prior)
    return Lambda @ N @ np.linalg.inv(Lambda @ N + reg * np.eye(len(N))) @ np.linalg.inv(N) @ Ny


def kernel_bayes_filter(N: Array, evaluations: Array, p: Array, Q: Array, reg: float) -> Array:
    """Algorithm 2, with N^-1 at the first step too; weights as probabilities between the steps.

    A row of NaN is missing.
    """
    rows, prior = [], p
    for Ny in evaluations:
        alpha = prior
        if not np.isnan(Ny).any():
            w = np.maximum(kernel_bayes(N, Ny, prior, reg), 0.0)
            alpha = w / w.sum() if w.sum() > 0 else prior
        rows.append(alpha)
        prior = Q.T @ alpha
    return np.array(rows)


# ------------------------------------------------------------------------------- densities
def emission_densities(
    Y: Array, X: Array, gamma: Array, density: Gram, left_out: Array | None = None
) -> Array:
    """f_k at the rows of Y by loops: (sum_s gamma_sk density(Y, X_s) + normal_k(Y))/(N_k + 1).

    `left_out` (m, n) says which rows of X each row of Y does without (its normal density keeps
    them).
    """
    m, K = len(Y), gamma.shape[1]
    k = density(Y, X)
    out = np.zeros((m, K))
    for j in range(K):
        share = gamma[:, j] / gamma[:, j].sum()
        mean = (share[:, None] * X).sum(axis=0)
        var = (share[:, None] * (X - mean) ** 2).sum(axis=0)
        for i in range(m):
            kept = np.ones(len(X), dtype=bool) if left_out is None else ~left_out[i]
            near = np.sum(gamma[kept, j] * k[i, kept])
            normal = np.prod(np.exp(-((Y[i] - mean) ** 2) / (2 * var)) / (2 * np.pi * var) ** 0.5)
            out[i, j] = (near + normal) / (gamma[kept, j].sum() + 1)
    return out

"""Kernel filters with n × n Gram matrices, as appendix A.1 has them: what the paper timed.

Corrected as in docs/errata.md: (G_{YY₊})_ij = k(y_i, y_{j+1}). All n pairs enter the rule, and
the n − 1 transitions between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve

import kernelmean as km

# (Gram matrix of observations, k_X(x), shares β of the prior, δ) → weights
Rule = Callable[[np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]


def squared(G: np.ndarray, k: np.ndarray, beta: np.ndarray, delta: float) -> np.ndarray:
    """KBR: ΛG((ΛG)² + δI)⁻¹Λk."""
    A = beta[:, None] * G
    return A @ solve(A @ A + delta * np.eye(len(k)), beta * k)


def thresholded(G: np.ndarray, k: np.ndarray, beta: np.ndarray, delta: float) -> np.ndarray:
    """pKBR: (G + δΛ⁺)⁻¹k on the rows with positive shares, eq. (13)."""
    active = beta > 0
    weights = np.zeros(len(k))
    weights[active] = solve(
        G[np.ix_(active, active)] + np.diag(delta / beta[active]), k[active], assume_a="pos"
    )
    return weights


@dataclass
class DenseFilter:
    """KBR and pKBR filters; kRegBayes when a step comes with supervision."""

    X: np.ndarray
    Z: np.ndarray
    kernel_x: km.Gaussian
    kernel_z: km.Gaussian
    reg: float
    reg_prior: float
    reg_transition: float
    rule: Rule

    def __post_init__(self) -> None:
        n, (before, after) = len(self.Z), (self.Z[:-1], self.Z[1:])
        ratio = cho_factor(self.kernel_z(self.Z) + n * self.reg_prior * np.eye(n))
        moves = cho_factor(self.kernel_z(before) + (n - 1) * self.reg_transition * np.eye(n - 1))
        self.gram = self.kernel_x(self.X)
        self.first = cho_solve(ratio, self.kernel_z(self.Z).mean(axis=1))
        # shares β of the next step from the embedding now, known by its values at z_1 … z_{n-1}
        self.from_values = cho_solve(ratio, cho_solve(moves, self.kernel_z(after, self.Z)).T)
        self.from_weights = self.from_values @ self.kernel_z(before, self.Z)

    def track(self, X: np.ndarray, supervision: tuple | None = None) -> np.ndarray:
        """Normalised filtered means of the states, (steps, d_z).

        `supervision` is (X_s, Z_s, strength) with a row and a number for each step; the first is
        not used.
        """
        beta, means = self.first, []
        for t, (x, k) in enumerate(zip(X, self.kernel_x(X, self.X), strict=True)):
            if supervision is None or t == 0:
                weights = self.rule(self.gram, k, beta, self.reg)
                means.append(weights @ self.Z / weights.sum())
                beta = self.from_weights @ weights
            else:
                mean, beta = self.supervised(x, k, beta, *(s[t] for s in supervision))
                means.append(mean)
        return np.array(means)

    def supervised(self, x, k, beta, x_s, z_s, strength) -> tuple[np.ndarray, np.ndarray]:
        """kRegBayes, eq. (14)-(16): the pair (x_s, z_s) joins the training pairs for this step."""
        x_s, z_s = x_s[None], z_s[None]
        row = self.kernel_x(x_s, self.X)
        G = np.block([[self.gram, row.T], [row, self.kernel_x(x_s)]])
        k = np.append(k, self.kernel_x(x_s, x[None]))
        weights = self.rule(G, k, np.append(beta, strength), self.reg)
        mean = (weights[:-1] @ self.Z + weights[-1] * z_s[0]) / weights.sum()
        extra = self.from_values @ self.kernel_z(self.Z[:-1], z_s)[:, 0]
        return mean, self.from_weights @ weights[:-1] + weights[-1] * extra

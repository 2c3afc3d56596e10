"""Algorithm 3 of the thesis to the letter: T×T weight matrices, coordinate descent, Adam.

Two things differ from the print: the gradients, which are those of the printed loss, and step 8,
which updates the second matrix. `printed_gradient` has the formulas of Lemma 4.6 as they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Matrices = tuple[np.ndarray, np.ndarray]
Gradient = Callable[[np.ndarray], np.ndarray]
OUTER, INNER, DELTA = 10, 500, 0.5  # section 4.6.2


@dataclass(frozen=True)
class DenseStateSpace:
    """The loss (4.7) in W and W̃, by Lemma 4.5.

    Parameters
    ----------
    K_Y, K_X : arrays of shape (T, T)
        Gram matrices of the observations, in the order of time, and of the latent points.
    penalty : (float, float)
        λ₁ and λ₂.
    """

    K_Y: np.ndarray
    K_X: np.ndarray
    penalty: tuple[float, float] = (1.0, 1.0)

    @property
    def T(self) -> int:
        return len(self.K_Y)

    def start(self, delta: float = DELTA) -> Matrices:
        """W = W̃ = (K_X + TδI)⁻¹, which takes the rows of both matrices for pairs."""
        W = np.linalg.inv(self.K_X + self.T * delta * np.eye(self.T))
        return W, W.copy()

    def loss(self, W: np.ndarray, Wt: np.ndarray) -> float:
        return sum(self.terms(W, Wt))

    def terms(self, W: np.ndarray, Wt: np.ndarray) -> tuple[float, float, float]:
        """The three parts, each with its weight."""
        T, K_Y, Z = self.T, self.K_Y, self.model(W, Wt)
        K_1, K_2 = K_Y[:-1], K_Y[1:]
        pairs = (
            np.sum(K_1[:, :-1] * K_2[:, 1:]) / (T - 1) ** 2
            - 2 / (T - 1) * np.sum(K_1 * (K_2 @ Z.T))
            + np.sum((K_Y @ Z) * (Z @ K_Y))
        )
        off_y, off_x = 1 - W @ self.total, 1 - Wt @ self.total
        first, second = self.penalty
        emission = first * off_y @ K_Y @ off_y / T**2
        return pairs, emission, second * off_x @ self.K_X @ off_x / T**2

    def model(self, W: np.ndarray, Wt: np.ndarray) -> np.ndarray:
        """Z̃ = W K_X K_X W̃ᵀ K_X Wᵀ/T."""
        return W @ self.inner(Wt) @ W.T

    def inner(self, Wt: np.ndarray) -> np.ndarray:
        """B = K_X K_X W̃ᵀ K_X/T."""
        return self.squared @ Wt.T @ self.K_X / self.T

    @cached_property
    def squared(self) -> np.ndarray:
        """K_X K_X."""
        return self.K_X @ self.K_X

    @cached_property
    def crossed(self) -> np.ndarray:
        """K_{YY₁}K_{Y₂Y}/(T−1)."""
        return self.K_Y[:, :-1] @ self.K_Y[1:] / (self.T - 1)

    @cached_property
    def total(self) -> np.ndarray:
        """K_X 1."""
        return self.K_X.sum(axis=1)

    def slope(self, Z: np.ndarray) -> np.ndarray:
        """G = 2K_Y Z̃ K_Y − 2/(T−1) K_{YY₁}K_{Y₂Y}, the derivative of the first part in Z̃."""
        return 2 * (self.K_Y @ Z @ self.K_Y - self.crossed)

    def gradient_of_W(self, Wt: np.ndarray) -> Gradient:
        """W ↦ GWBᵀ + GᵀWB − 2λ₁/T² K_Y(1 − WK_X1)1ᵀK_X, W̃ held (in place of eq. 4.9)."""
        B = self.inner(Wt)

        def gradient(W: np.ndarray) -> np.ndarray:
            WB = W @ B
            G = self.slope(WB @ W.T)
            mean = np.outer(self.K_Y @ (1 - W @ self.total), self.total)
            return G @ (W @ B.T) + G.T @ WB - 2 * self.penalty[0] / self.T**2 * mean

        return gradient

    def gradient_of_Wt(self, W: np.ndarray) -> Gradient:
        """W̃ ↦ K_XWᵀGᵀWK_XK_X/T − 2λ₂/T² K_X(1 − W̃K_X1)1ᵀK_X, W held (in place of eq. 4.10)."""
        left, right = W @ self.squared, self.K_X @ W.T

        def gradient(Wt: np.ndarray) -> np.ndarray:
            G = self.slope(left @ Wt.T @ right / self.T)
            mean = np.outer(self.K_X @ (1 - Wt @ self.total), self.total)
            return right @ G.T @ left / self.T - 2 * self.penalty[1] / self.T**2 * mean

        return gradient


def printed_gradient(dense: DenseStateSpace, W: np.ndarray, Wt: np.ndarray) -> Matrices:
    """Equations (4.9) and (4.10) as printed; they are not the derivatives of the loss."""
    T, K_Y, K_X, one = dense.T, dense.K_Y, dense.K_X, np.ones((dense.T, dense.T))
    Z, B = dense.model(W, Wt), dense.inner(Wt)
    A = -2 * dense.crossed + K_Y @ (Z + Z.T) @ K_Y
    C, D = (-2 / T**2 * K @ one @ K_X for K in (K_Y, K_X))
    on_W = (A + A.T) @ W @ (B + B.T) + dense.penalty[0] * (C + 2 / T**2 * K_Y @ W @ K_X @ one @ K_X)
    on_Wt = K_X @ W.T @ A.T @ W @ K_X @ K_X / T + dense.penalty[1] * (
        D + 2 / T**2 * K_X @ Wt @ K_X @ one @ K_X
    )
    return on_W, on_Wt


def adam(
    gradient: Gradient,
    theta: np.ndarray,
    steps: int,
    stepsize: float,
    tol: float,
) -> np.ndarray:
    """Kingma and Ba (2014), stopped where ‖gradient‖ falls below n·tol, n the rows of `theta`."""
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for step in range(1, steps + 1):
        slope = gradient(theta)
        if np.linalg.norm(slope) < len(theta) * tol:
            break
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        mean, spread = first / (1 - 0.9**step), np.sqrt(second / (1 - 0.999**step))
        theta = theta - stepsize * mean / (spread + 1e-8)
    return theta


def descend(
    dense: DenseStateSpace,
    W: np.ndarray,
    Wt: np.ndarray,
    *,
    n_outer: int = OUTER,
    n_inner: int = INNER,
    stepsize: float = 1e-3,
    tol: float = 1e-9,
) -> Iterator[Matrices]:
    """Steps 4 to 9: W and W̃ in turn; the pair after every outer step."""
    for _ in range(n_outer):
        W = adam(dense.gradient_of_W(Wt), W, n_inner, stepsize, tol)
        Wt = adam(dense.gradient_of_Wt(W), Wt, n_inner, stepsize, tol)
        yield W, Wt

"""Lengthscales of a regression by its closed-form leave-one-out loss."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from ..core.arrays import EPS
from ..core.solves import add_to_diagonal, kept, small_inverse
from ..features.landmarks import Nystroem, quietly
from ..kernels import Kernel

SCALE_DECADES = 1.5  # a scale stays within 10**±1.5 of where it starts
REG_DECADES = (-9.0, 1.0)  # of λ and ξ, relative to the kernel's mean diagonal
ROWS_PER_SCALE = 10  # fewer can be fitted by scales of their own, whatever is left out
RANK = 120  # landmarks of the search
JITTER = 1e-8  # of the landmarks' Gram matrix, relative to its diagonal


@dataclass
class Scaled:
    """Coordinates Φ = K_{·L}R⁻ᵀ, RRᵀ = K_LL + jitter, as a function of log10 scales."""

    kernel: Kernel
    points: np.ndarray
    rank: int = RANK
    landmarks: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))  # none before `choose`

    def choose(self, u: np.ndarray) -> None:
        """Landmarks for the kernel at these scales, to a trace of 1e-6."""
        features = Nystroem(tol=1e-6, max_rank=self.rank)
        quietly(features, self.points, self.kernel.scaled(10.0**u))
        self.landmarks = features.landmarks_

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """Φ, (n, r), at log10 scales u."""
        kernel = self.kernel.scaled(10.0**u)
        own = kernel.gram_of(self.landmarks, self.landmarks)
        jittered = add_to_diagonal(own, JITTER * own.diagonal().mean())
        root = scipy.linalg.cholesky(jittered, lower=True, check_finite=False)
        # n rows are multiplied by R⁻¹ two or three times faster than R is solved for them
        inverse = scipy.linalg.lapack.dtrtri(root, lower=1)[0]
        K = kernel.gram_of(self.points, self.landmarks)
        Phi = K @ inverse.T
        self._state = kernel, inverse, Phi, K, own
        return Phi

    def pullback(self, G: np.ndarray) -> np.ndarray:
        """∂/∂u of a loss whose gradient with respect to Φ, at the last u, is G."""
        kernel, inverse, Phi, K, own = self._state
        # dK_LL enters through the Cholesky factor: its adjoint is R⁻ᵀ ⌊−GᵀΦ⌋ R⁻¹, where ⌊·⌋ keeps
        # the lower triangle and half the diagonal
        half = np.tril(-G.T @ Phi)
        half[np.diag_indices_from(half)] *= 0.5
        on_gram = inverse.T @ half @ inverse
        slope = kernel.scale_gradient(self.points, self.landmarks, G @ inverse, K)
        slope += kernel.scale_gradient(self.landmarks, self.landmarks, on_gram, own)
        return slope * np.log(10.0)


def residuals_left_out(Theta, Psi, reg: float, intercept: bool) -> tuple[np.ndarray, Callable]:
    """(ψ_i − F_i)/(1 − h_i), each row predicted by a ridge regression on the others.

    F = Θ(ΘᵀΘ/n + λI)⁻¹ΘᵀΨ/n, h_i = θ_iᵀ(ΘᵀΘ/n + λI)⁻¹θ_i/n. With an intercept, which is not
    penalised, both Θ and Ψ are centred and h_i is larger by 1/n.

    Returns
    -------
    off : array of shape (n, r)
    pullback : callable
        From the gradient of a loss with respect to `off` to those with respect to Θ and λ.
    """
    n = Theta.shape[0]
    if intercept:
        Theta, Psi = Theta - Theta.mean(0), Psi - Psi.mean(0)
    N = small_inverse(Theta.T @ Theta / n, reg)
    C = Theta.T @ Psi / n
    NC, TN = N @ C, Theta @ N
    left = kept(np.einsum("ij,ij->i", TN, Theta) / n + intercept / n)[:, None]
    off = (Psi - Theta @ NC) / left

    def pullback(on_off: np.ndarray) -> tuple[np.ndarray, float]:
        on_fit = -on_off / left
        on_hat = -np.einsum("ij,ij->i", on_fit, off)[:, None]
        on_NC = Theta.T @ on_fit
        on_N = on_NC @ C.T + Theta.T @ (on_hat * Theta) / n
        SN = 0.5 * (on_N + on_N.T) @ N  # what reaches Θ'Θ/n is −N(SN)
        on_Theta = on_hat * TN
        on_Theta -= TN @ SN
        on_Theta *= 2 / n
        on_Theta += on_fit @ NC.T + Psi @ (N @ on_NC / n).T
        if intercept:
            on_Theta -= on_Theta.mean(0)
        return on_Theta, -float(np.einsum("ij,ij->", N, SN))

    return off, pullback


def stage1_loss(Theta, Phi, reg: float, intercept: bool = False) -> tuple[float, np.ndarray, float]:
    """The mean square of `residuals_left_out` with its gradients with respect to Θ and λ."""
    off, pullback = residuals_left_out(Theta, Phi, reg, intercept)
    return float((off * off).sum()) / len(off), *pullback(off * (2 / len(off)))


def about_means(weights, *tables: np.ndarray) -> list:
    """Tables of rows less their means, times the roots of weights; and how gradients go back."""
    if weights is None:
        return [*(A - A.mean(0) for A in tables), lambda G: G - G.mean(0)]
    root, n = np.sqrt(weights)[:, None], len(weights)

    def back(G: np.ndarray) -> np.ndarray:
        return root * G - weights[:, None] * ((root * G).sum(0) / n)

    return [*(root * (A - weights @ A / n) for A in tables), back]


def evidence_loss(Theta, Y, reg: float, weights=None) -> tuple[float, np.ndarray, float]:
    """−(1/n) log p(Y), up to a constant, with its gradients with respect to Θ and λ.

    Y's columns, centred, are N(0, σ_j²(I + ΘΘᵀ/(nλ))), Θ centred and σ_j² as is best:
    Σ_j ½ log(y_jᵀr_j/n) + (d/2n) log det(A/λ + I), A = ΘᵀΘ/n, r what the ridge regression leaves
    (Rasmussen and Williams 2006, eq. 5.8). Weights w_i, of mean one, are of rows whose noise has
    the variance σ_j²/w_i: both are centred by them and multiplied with √w_i.
    """
    (n, d), r = Y.shape, Theta.shape[1]
    Theta, Y, back = about_means(weights, Theta, Y)
    A = Theta.T @ Theta / n
    N = small_inverse(A, reg)
    NC = N @ (Theta.T @ Y / n)
    left = Y - Theta @ NC
    squares = np.maximum((Y * left).sum(0), EPS * (Y * Y).sum(0))  # beyond rounding, positive
    volume = np.linalg.slogdet(A + reg * np.eye(r))[1] - r * np.log(reg)
    on_Theta = (d / n**2) * (Theta @ N) - (left / squares) @ NC.T
    on_reg = 0.5 * n * (NC**2 / squares).sum() + 0.5 * d / n * (np.trace(N) - r / reg)
    value = 0.5 * np.log(squares / n).sum() + 0.5 * d / n * volume
    return float(value), back(on_Theta), float(on_reg)


def tied(u: np.ndarray, slope: np.ndarray, tie: float) -> tuple[float, np.ndarray]:
    """The price of log10 scales u that differ, tie · Σ(u_j − ū)², and the slope of all with it.

    With an infinite tie the scales keep in step.
    """
    if np.isinf(tie):
        return 0.0, np.full_like(slope, slope.mean())
    apart = u - u.mean()
    return tie * float(apart @ apart), slope + 2 * tie * apart


def tie_of(scales: int, n: int) -> float:
    """How strongly so many scales are tied in the search on n rows.

    Many scales are found by searching, and what the search was glad of is not there in other rows:
    with fewer than ten rows to each they keep in step.
    """
    return 1.0 / n if n >= ROWS_PER_SCALE * scales else np.inf

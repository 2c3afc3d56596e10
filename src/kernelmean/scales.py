"""Search for one lengthscale scale per column by gradient descent on a closed-form loss.

A `Scaled` map holds landmarks fixed while the kernel's lengthscales move, so that the coordinates
Φ are smooth in the scales; `pullback` carries a gradient with respect to Φ back to them. `Search`
alternates between the two stages of instrumental-variable regression:

1. the scales of the instruments and λ descend on the leave-one-out loss of stage 1,
2. the scales of the regressors and ξ descend on the causal leave-one-out loss of stage 2.

Stage 1 is a regression, which prediction errors judge fairly. The causal loss is not such a judge
of anything in stage 1: under confounding it is lowest where stage 1 reproduces the regressors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from . import linalg
from ._validation import NumericalWarning
from .features import Nystroem
from .kernels import Kernel

TUNABLE = ("gaussian", "laplace", "matern", "periodic")  # names that get tuned lengthscales
SCALE_DECADES = 1.5  # a scale stays within 10**±1.5 of where it starts
REG_DECADES = (-9.0, 1.0)  # of λ and ξ, relative to the kernel's mean diagonal
START = -4.0  # log10 of λ and ξ
ROUNDS = 4  # each chooses landmarks afresh
STEPS = 25  # of L-BFGS in a round
ROWS_PER_SCALE = 10  # fewer can be fitted by scales of their own, whatever is left out
TIES = (np.inf, 10.0, 1.0, 0.1)  # tried between the scales of columns, times the number of rows
RANK = 120  # landmarks of the search
JITTER = 1e-8  # of the landmarks' Gram matrix, relative to its diagonal


@dataclass
class Scaled:
    """Coordinates Φ = K_{·L}R⁻ᵀ, RRᵀ = K_LL + jitter, as a function of log10 scales."""

    kernel: Kernel
    points: np.ndarray
    rank: int = RANK
    landmarks: np.ndarray = field(init=False)

    def choose(self, u: np.ndarray) -> None:
        """Landmarks for the kernel at these scales, to a trace of 1e-6."""
        with warnings.catch_warnings():  # a rank that is used up loses nothing but precision
            warnings.simplefilter("ignore", NumericalWarning)
            features = Nystroem(tol=1e-6, max_rank=self.rank)
            self.landmarks = features.fit(self.points, self.kernel.scaled(10.0**u)).landmarks_

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """Φ, (n, r), at log10 scales u."""
        kernel = self.kernel.scaled(10.0**u)
        K = kernel._gram(self.landmarks, self.landmarks)
        K[np.diag_indices_from(K)] += JITTER * K.diagonal().mean()
        root = scipy.linalg.cholesky(K, lower=True, check_finite=False)
        cross = kernel._gram(self.points, self.landmarks)
        Phi = _solve(root, cross.T).T
        self._state = kernel, root, Phi
        return Phi

    def pullback(self, G: np.ndarray) -> np.ndarray:
        """∂/∂u of a loss whose gradient with respect to Φ, at the last u, is G."""
        kernel, root, Phi = self._state
        on_cross = _solve(root, G.T, transposed=True).T
        # dK_LL enters through the Cholesky factor: its adjoint is R⁻ᵀ ⌊−GᵀΦ⌋ R⁻¹, where ⌊·⌋ keeps
        # the lower triangle and half the diagonal
        half = np.tril(-G.T @ Phi)
        half[np.diag_indices_from(half)] *= 0.5
        on_gram = _solve(root, _solve(root, half.T, transposed=True).T, transposed=True)
        slope = kernel.scale_gradient(self.points, self.landmarks, on_cross)
        slope += kernel.scale_gradient(self.landmarks, self.landmarks, on_gram)
        return slope * np.log(10.0)


def stage1_loss(Theta, Phi, reg: float, intercept: bool = False) -> tuple[float, np.ndarray, float]:
    """(1/n) Σ‖φ_i − F_i‖²/(1 − h_i)² with its gradients with respect to Θ and λ.

    F = Θ(ΘᵀΘ/n + λI)⁻¹ΘᵀΦ/n, h_i = θ_iᵀ(ΘᵀΘ/n + λI)⁻¹θ_i/n. With an intercept, which is not
    penalised, both Θ and Φ are centred and h_i is larger by 1/n.
    """
    n = Theta.shape[0]
    if intercept:
        Theta, Phi = Theta - Theta.mean(0), Phi - Phi.mean(0)
    N = small_inverse(Theta.T @ Theta / n, reg)
    C = Theta.T @ Phi / n
    NC, TN = N @ C, Theta @ N
    left = kept((TN * Theta).sum(1) / n + (1 / n if intercept else 0.0))
    off = (Phi - Theta @ NC) / left[:, None]
    on_fit = off * (-2 / n / left[:, None])
    on_hat = (2 / n) * (off * off).sum(1) / left
    on_NC = Theta.T @ on_fit
    on_N = on_NC @ C.T + Theta.T @ (on_hat[:, None] * Theta) / n
    on_A = -N @ (0.5 * (on_N + on_N.T)) @ N
    on_Theta = on_fit @ NC.T + (2 / n) * (on_hat[:, None] * TN + Theta @ on_A)
    on_Theta += Phi @ (N @ on_NC).T / n
    if intercept:
        on_Theta -= on_Theta.mean(0)
    return float((off * off).sum()) / n, on_Theta, float(np.trace(on_A))


@dataclass(frozen=True)
class Jackknife:
    """M = J Φ: leave-one-out embeddings of any columns, for instruments and λ held fixed."""

    Theta: np.ndarray
    NT: np.ndarray  # (ΘᵀΘ/n + λI)⁻¹Θᵀ/n
    hat: np.ndarray

    @classmethod
    def of(cls, Theta: np.ndarray, reg: float) -> Jackknife:
        n = Theta.shape[0]
        NT = small_inverse(Theta.T @ Theta / n, reg) @ Theta.T / n
        return cls(Theta, NT, (Theta * NT.T).sum(1))

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        left = kept(self.hat)[:, None]
        return (self.Theta @ (self.NT @ columns) - self.hat[:, None] * columns) / left

    def adjoint(self, columns: np.ndarray) -> np.ndarray:
        """Jᵀ of the columns."""
        scaled = columns / kept(self.hat)[:, None]
        return self.Theta @ (self.NT @ scaled) - self.hat[:, None] * scaled


@dataclass(frozen=True)
class Trend:
    """Unpenalised columns T beside Φ: what they take away from both, for T̂ = JT held fixed."""

    T: np.ndarray
    fitted: np.ndarray
    inverse: np.ndarray  # (T̂ᵀT̂/n + δI)⁻¹

    @classmethod
    def of(cls, T: np.ndarray, jack: Jackknife) -> Trend:
        fitted = jack(T)
        return cls(T, fitted, trend_inverse(fitted.T @ fitted / len(T), len(T)))

    def slopes(self, M: np.ndarray) -> np.ndarray:
        """(T̂ᵀT̂/n + δI)⁻¹T̂ᵀM/n."""
        return self.inverse @ (self.fitted.T @ M) / len(M)

    def off_fitted(self, columns: np.ndarray) -> np.ndarray:
        """The symmetric P = I − T̂(T̂ᵀT̂/n + δI)⁻¹T̂ᵀ/n of the columns."""
        return columns - self.fitted @ self.slopes(columns)

    def adjoint_slopes(self, on_Phi: np.ndarray) -> np.ndarray:
        """Gradient with respect to M of −T slopes(M), given that with respect to the product."""
        return -self.fitted @ (self.inverse @ (self.T.T @ on_Phi)) / len(on_Phi)


def trend_inverse(second: np.ndarray, n: int) -> np.ndarray:
    """(T̂ᵀT̂/n + δI)⁻¹, δ = 1/n for every column of unit variance and none for the constant.

    Without it a trend that the instruments do not move at all would be estimated from rounding.
    """
    penalty = np.full(second.shape[0], 1.0 / n)
    penalty[:1] = 0.0
    return np.linalg.inv(second + np.diag(penalty))


def causal_loss(Phi, y, xi: float, jack: Jackknife, trend: Trend):
    """(1/n) Σ(y_i − h⁻ⁱ(x_i))² with its gradients with respect to Φ and ξ.

    With the trend taken out of M = JΦ and of Φ, N = (S + ξI)⁻¹ and b = N Mᵀy/n:
    e_i = w_i − φ_iᵀb + (x0_i + φ_iᵀNM_i/n) r_i, r_i = (u_i − M_iᵀb)/(1 − g0_i − M_iᵀNM_i/n).
    """
    n = Phi.shape[0]
    raw = jack(Phi)
    M, Phi = trend.off_fitted(raw), Phi - trend.T @ trend.slopes(raw)
    a = trend.slopes(y)
    u, w = y - trend.fitted @ a, y - trend.T @ a
    g0 = (trend.fitted @ trend.inverse * trend.fitted).sum(1) / n
    x0 = (trend.T @ trend.inverse * trend.fitted).sum(1) / n

    N = small_inverse(raw.T @ M / n, xi)
    v = M.T @ y / n
    b = N @ v
    MN, PN = M @ N, Phi @ N
    left = kept(g0 + (MN * M).sum(1) / n)
    r = (u - M @ b) / left
    pull = x0 + (PN * M).sum(1) / n
    e = w - Phi @ b + pull * r

    on_e = 2 * e / n
    on_s = on_e * r / n  # φᵀNM
    on_r0 = on_e * pull / left  # u − Mb
    on_q = on_r0 * r / n  # MᵀNM
    on_b = -(Phi.T @ on_e) - M.T @ on_r0
    on_v = N @ on_b
    on_N = Phi.T @ (on_s[:, None] * M) + M.T @ (on_q[:, None] * M) + np.outer(on_b, v)
    on_A = -N @ (0.5 * (on_N + on_N.T)) @ N
    on_Phi = on_s[:, None] * MN - np.outer(on_e, b)
    on_M = on_s[:, None] * PN + 2 * on_q[:, None] * MN - np.outer(on_r0, b)
    on_M += np.outer(y, on_v) / n
    on_raw = trend.off_fitted(on_M) + (2 / n) * (M @ on_A) + trend.adjoint_slopes(on_Phi)
    return float(e @ e) / n, on_Phi + jack.adjoint(on_raw), float(np.trace(on_A))


@dataclass
class Search:
    """Scales of regressors and instruments, by descent on the two leave-one-out losses.

    Parameters
    ----------
    regressors, instruments : Scaled
    T, U : arrays of shape (n, p), (n, q)
        The trends: columns beside the kernel's coordinates, in stage 2 and in stage 1.
    y : array of shape (n,)
    free_x, free_z : bool
        Whether the scales move, or the regularisers only.
    lam, xi : float, optional
        Regularisers that are given do not move.
    """

    regressors: Scaled
    instruments: Scaled
    T: np.ndarray
    U: np.ndarray
    y: np.ndarray
    free_x: bool = True
    free_z: bool = True
    lam: float | None = None
    xi: float | None = None

    def __post_init__(self) -> None:
        self._ux = _start(self.regressors, self.free_x, self.xi)
        self._uz = _start(self.instruments, self.free_z, self.lam)

    def round(self) -> None:
        """Landmarks for the scales as they stand, then a descent of each stage."""
        self.regressors.choose(self._ux[:-1])
        self.instruments.choose(self._uz[:-1])
        self._uz = self._descend(self._first(self._ux), self._uz, self.free_z, self.lam)
        self._ux = self._descend(self._second(self._uz), self._ux, self.free_x, self.xi)

    @property
    def scales(self) -> tuple[np.ndarray, np.ndarray]:
        """Of regressors and of instruments, as factors of the lengthscales."""
        return 10.0 ** self._ux[:-1], 10.0 ** self._uz[:-1]

    def _first(self, ux: np.ndarray) -> Callable:
        Phi, q = self.regressors(ux[:-1]), self.U.shape[1]

        def loss(u):
            Theta = np.hstack([self.U, self.instruments(u[:-1])])
            value, on_Theta, on_reg = stage1_loss(Theta, Phi, 10.0 ** u[-1])
            return value, self._gradient(self.instruments, on_Theta[:, q:], on_reg, u)

        return loss

    def _second(self, uz: np.ndarray) -> Callable:
        Theta = np.hstack([self.U, self.instruments(uz[:-1])])
        jack = Jackknife.of(Theta, 10.0 ** uz[-1])
        trend = Trend.of(self.T, jack)

        def loss(u):
            value, on_Phi, on_reg = causal_loss(
                self.regressors(u[:-1]), self.y, 10.0 ** u[-1], jack, trend
            )
            return value, self._gradient(self.regressors, on_Phi, on_reg, u)

        return loss

    @staticmethod
    def _gradient(scaled: Scaled, on_Phi, on_reg: float, u) -> np.ndarray:
        return np.append(scaled.pullback(on_Phi), on_reg * 10.0 ** u[-1] * np.log(10.0))

    @staticmethod
    def _descend(loss: Callable, start: np.ndarray, free: bool, reg: float | None) -> np.ndarray:
        """L-BFGS on the logarithm of the loss."""

        def log_loss(u) -> Any:
            value, slope = loss(u)
            return np.log(max(value, 1e-300)), slope / max(value, 1e-300)

        return descend(log_loss, start, _bounds(len(start) - 1, free, reg), STEPS, 1e-6)


def tied(u: np.ndarray, slope: np.ndarray, tie: float) -> tuple[float, np.ndarray]:
    """The price of log10 scales u that differ, tie · Σ(u_j − ū)², and the slope of all with it.

    With an infinite tie the scales keep in step.
    """
    if np.isinf(tie):
        return 0.0, np.full_like(slope, slope.mean())
    apart = u - u.mean()
    return tie * float(apart @ apart), slope + 2 * tie * apart


def best_tie(
    descend_on: Callable, held_out: Callable, start: np.ndarray, scales: int, n: int
) -> float:
    """How strongly scales are tied, by what is found on half of the rows for the other half.

    Parameters
    ----------
    descend_on : callable
        (rows, start, tie) to the parameters found on those rows.
    held_out : callable
        (parameters, rows learned from, other rows) to the loss on the other rows.
    start : array
        Parameters with scales in step.
    scales, n : int
        How many scales and rows there are.

    Returns
    -------
    tie : float
        Infinite where scales of their own do not pay, or there are fewer than ten rows to each;
        otherwise for a loss of all rows.
    """
    if n < ROWS_PER_SCALE * scales:
        return np.inf
    order = np.random.default_rng(0).permutation(n)
    losses = np.zeros(len(TIES))
    for some, rest in [(order[: n // 2], order[n // 2 :]), (order[n // 2 :], order[: n // 2])]:
        u = start
        for i, tie in enumerate(TIES):
            u = descend_on(some, u, tie / len(some))
            losses[i] += held_out(u, some, rest)
    return TIES[int(np.argmin(losses))] / n


def descend(
    loss: Callable, start: np.ndarray, bounds: list, steps: int, tol: float = 1e-7
) -> np.ndarray:
    """The end of a few steps of L-BFGS on a loss that returns its slope too."""
    options: Any = {"maxiter": steps, "ftol": tol}
    found: Any = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return found.x


def _start(scaled: Scaled, free: bool, reg: float | None) -> np.ndarray:
    """√d times the lengthscale of every column: k at a typical pair is then that of one column."""
    d = scaled.points.shape[1]
    return np.append(np.full(d, 0.5 * np.log10(d) if free else 0.0), _log_reg(reg))


def _bounds(d: int, free: bool, reg: float | None) -> list[tuple[float, float]]:
    """Of the scales, around where they start, and of the regulariser."""
    middle, reach = (0.5 * np.log10(d), SCALE_DECADES) if free else (0.0, 0.0)
    of_reg = REG_DECADES if reg is None else (_log_reg(reg), _log_reg(reg))
    return [(middle - reach, middle + reach)] * d + [of_reg]


def _log_reg(reg: float | None) -> float:
    return START if reg is None else float(np.log10(max(reg, 10.0 ** REG_DECADES[0])))


def small_inverse(second: np.ndarray, reg: float) -> np.ndarray:
    """(second + reg I)⁻¹ of a small matrix, for the many products an adjoint takes."""
    A = linalg.add_to_diagonal(0.5 * (second + second.T), reg)
    root, failed = scipy.linalg.lapack.dpotrf(A, lower=1)
    if not failed:
        lower = np.tril(scipy.linalg.lapack.dpotri(root, lower=1)[0])
        return lower + np.tril(lower, -1).T
    values, vectors = linalg.eigh(A)
    return (vectors / np.maximum(values, 1e-14 * values[-1])) @ vectors.T


def kept(leverage: np.ndarray) -> np.ndarray:
    """1 − leverage, kept above rounding."""
    return np.maximum(1.0 - leverage, 1e-10)


def _solve(root: np.ndarray, B: np.ndarray, transposed: bool = False) -> np.ndarray:
    return scipy.linalg.solve_triangular(
        root, B, lower=True, trans=1 if transposed else 0, check_finite=False
    )

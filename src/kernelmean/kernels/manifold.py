"""Kernels on angles and on rotations, whose preimages are angles and rotations again."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import i0e

from ..core import Array, arrays, checks
from .base import Kernel, Lengthscale
from .radial import Gaussian, _pick, _positive, check_lengthscale, median_lengthscale

__all__ = ["Periodic", "Rotation"]

ROTATION_TOLERANCE = 1e-2  # in A Aᵀ = I: matrices printed with two decimals still pass


@dataclass(frozen=True)
class Periodic(Gaussian, named=True, tuned=True):
    """k(x, x') = exp(−2 Σ_j sin²(π(x_j − x'_j)/p_j) / ℓ_j²), for angles.

    The Gaussian kernel of the points (cos 2πx/p, sin 2πx/p) on the unit circle, so that ℓ is a
    length there: near 0 it is an angle in radians, and opposite points are 2 apart. Its density
    is that of von Mises, with concentration 1/ℓ². The mode of an embedding is an angle in [0, p);
    its mean, covariance and quantiles are those of the numbers, which know of no circle.

    Parameters
    ----------
    lengthscale : "median", float or sequence of float
        ℓ; the median is that of the distances ‖(cos, sin) − (cos', sin')‖.
    period : float or sequence of float
        p, in the units of the data: 2π for radians, 360 for degrees, 24 for hours of the day; a
        sequence gives one per column.
    columnwise : bool
        Whether "median" means one median per column.

    References
    ----------
    MacKay (1998), Introduction to Gaussian processes; Mardia and Jupp (2000), Directional
    statistics, §3.5.

    Examples
    --------
    >>> import kernelmean as km
    >>> km.Periodic(lengthscale=1.0, period=24)([[23.0]], [[1.0], [11.0]]).round(4)
    array([[0.8746, 0.1353]])
    """

    # dataclass fields of the base come first; period follows lengthscale in the signature
    def __init__(
        self,
        lengthscale: Lengthscale = "median",
        period: float | Sequence[float] = 2 * math.pi,
        columnwise: bool = False,
    ):
        super().__init__(lengthscale, columnwise)
        object.__setattr__(self, "period", _positive(period, "period"))

    period: float | tuple[float, ...] = 2 * math.pi
    boxed = lined = False

    def resolve(self, X, name: str = "X") -> Kernel:
        X = self.checked(X, name)
        d = self._periods(X.shape[1]).size
        if self.lengthscale != "median":
            return self
        U = self.lift(X)
        if not self.columnwise:
            return replace(self, lengthscale=median_lengthscale(U, name=name))
        circles = (arrays.take(U, [j, j + d], axis=1) for j in range(d))
        medians: list[Any] = [
            median_lengthscale(u, name=f"column {j} of {name}") for j, u in enumerate(circles)
        ]
        return replace(self, lengthscale=tuple(medians))

    def _periods(self, d: int) -> np.ndarray:
        periods = np.asarray(self.period)
        if periods.ndim and len(periods) != d:
            raise ValueError(f"period has {len(periods)} entries but the points have {d} columns")
        return np.broadcast_to(periods, d)

    def lift(self, X) -> Array:
        xp = arrays.namespace(X)
        angle = X * arrays.like(2 * math.pi / self._periods(X.shape[1]), X)
        return xp.concat([xp.cos(angle), xp.sin(angle)], axis=1)

    def land(self, U, total, X) -> Array:
        xp, d = arrays.namespace(U), X.shape[1]
        turn = xp.atan2(U[:, d:], U[:, :d]) / (2 * math.pi)
        turn = xp.where(turn < 0, turn + 1.0, turn)
        turn = xp.where(turn < 1, turn, 0.0)  # an angle just below zero rounds to a full turn
        return turn * arrays.like(self._periods(d) + 0.0, U)

    def project(self, X) -> Array:
        return self.land(self.lift(X), None, X)

    def in_units(self, X) -> Array:
        U, d = self.lift(X), X.shape[1]
        halves = [super(Periodic, self).in_units(half) for half in (U[:, :d], U[:, d:])]
        return arrays.namespace(X).concat(halves, axis=1)

    def scale_gradient(self, X, Y, W, K=None) -> np.ndarray:
        slopes = super().scale_gradient(X, Y, W, K)  # of the cosines and of the sines
        return slopes[: X.shape[1]] + slopes[X.shape[1] :]

    def derivative_of(self, X, Y, column: int) -> Array:
        # k = exp(−Σ_j (1 − cos Δ_j)/ℓ_j²), Δ_j = 2π(x_j − y_j)/p_j
        turn = 2 * math.pi / float(self._periods(X.shape[1])[column])
        angle = turn * (Y[:, column][None, :] - X[:, column][:, None])
        concentration = float(self._concentrations(X.shape[1])[column])
        return self.gram_of(X, Y) * arrays.namespace(X).sin(angle) * (turn * concentration)

    def spread_of(self, spread: np.ndarray, lifted: np.ndarray) -> np.ndarray:
        # the circular standard deviation √(−2 log R), at most that of the uniform distribution
        cos, sin = np.split(lifted, 2, axis=-1)
        R = np.clip(np.hypot(cos, sin), 0.1, 1.0)
        return np.minimum(np.sqrt(-2 * np.log(R)), math.pi / math.sqrt(3))

    def _concentrations(self, d: int) -> np.ndarray:
        return np.broadcast_to(self._resolved("normalise"), d) ** -2.0

    def log_normaliser(self, d: int) -> float:
        # ∫ exp(κ(cos u − 1)) du = 2π e^{−κ} I₀(κ)
        return float(np.log(self._periods(d) * i0e(self._concentrations(d))).sum())

    distribution, reach = Kernel.distribution, Kernel.reach  # a circle has no lower end

    def turn(self) -> float | None:
        return float(self._periods(1)[0])

    def on(self, columns: Sequence[int], d: int) -> Kernel:
        periods = _pick(self.period, columns)
        return replace(self, lengthscale=_pick(self.lengthscale, columns), period=periods)

    def self_convolved(self, d: int) -> Kernel:
        return _VonMisesTwice(self.lengthscale, self.period)

    def spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        # the Fourier coefficients e^{−κ} I_m(κ) are the chances that two Poisson counts of mean
        # κ/2 differ by m
        counts = rng.poisson(self._concentrations(d) / 2, size=(2, n, d))
        return (counts[0] - counts[1]) * (2 * math.pi / self._periods(d))

    def noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        angle = rng.vonmises(0.0, self._concentrations(d), size=(n, d))
        return angle * (self._periods(d) / (2 * math.pi))


class _VonMisesTwice(Periodic):
    """The density of a sum of two von Mises angles, ∝ Π_j I₀(2κ_j |cos(π(x_j − x'_j)/p_j)|)."""

    def gram_of(self, X, Y) -> Array:
        A, B = (arrays.to_numpy(P) * (math.pi / self._periods(P.shape[1])) for P in (X, Y))
        K = np.ones((len(A), len(B)))
        for j, kappa in enumerate(self._concentrations(A.shape[1])):
            z = 2 * kappa * np.abs(np.cos(A[:, j, None] - B[None, :, j]))
            K *= i0e(z) / i0e(2 * kappa) * np.exp(z - 2 * kappa)
        return arrays.like(K, X)

    def log_normaliser(self, d: int) -> float:
        kappa = self._concentrations(d)
        return float(np.log(self._periods(d) * i0e(kappa) ** 2 / i0e(2 * kappa)).sum())


@dataclass(frozen=True)
class Rotation(Kernel, named=True):
    """k(A, B) = exp(−‖A − B‖²_F / (2ℓ²)) for rotation matrices.

    The Gaussian kernel of the chordal distance, ‖A − B‖_F = 2√2 sin(θ/2) for rotations of space
    an angle θ apart. Points are rotation matrices, shape (n, 3, 3), or their rows laid end to
    end, shape (n, 9), which is what estimators take. The mode of an embedding is a rotation; its
    mean is the mean of the matrices, which is none. `Frobenius(rotations=True)` is the kernel
    tr(A Bᵀ) on rotations.

    Parameters
    ----------
    lengthscale : "median" or float
        ℓ; the median is that of the distances ‖A − B‖_F.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> half_turn = np.diag([1.0, -1.0, -1.0])
    >>> km.Rotation(lengthscale=2.0)(np.stack([np.eye(3), half_turn])).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    lengthscale: str | float = "median"
    _gaussian = True
    boxed = False

    def __post_init__(self) -> None:
        check_lengthscale(self, checks.check_positive)

    def resolve(self, X, name: str = "X") -> Kernel:
        X = self.checked(X, name)
        chordal: Any = Gaussian(self.lengthscale).resolve(X, name)
        return replace(self, lengthscale=chordal.lengthscale)

    def scaled(self, factor) -> Kernel:
        chordal: Any = Gaussian(self.lengthscale).scaled(factor)
        return replace(self, lengthscale=chordal.lengthscale)

    def spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return Gaussian(self.lengthscale).spectrum(n, d, rng)

    def checked(self, X, name: str) -> Array:
        return rotation_points(X, name)

    def gram_of(self, X, Y) -> Array:
        return Gaussian(self.lengthscale).gram_of(X, Y)

    def land(self, U, total, X) -> Array:
        return nearest_rotations(U)

    def project(self, X) -> Array:
        return nearest_rotations(X)


def flat_matrices(X, name: str) -> Array:
    """Matrices (n, p, q) with their rows laid end to end, (n, pq)."""
    if getattr(X, "ndim", 2) == 3:
        X = arrays.namespace(X).reshape(X, (X.shape[0], X.shape[1] * X.shape[2]))
    return checks.as_points(X, name)


def rotation_points(X, name: str) -> Array:
    """Rotation matrices as rows of numbers; anything else is refused."""
    X = flat_matrices(X, name)
    p = math.isqrt(X.shape[1])
    if p * p != X.shape[1] or p < 2:
        raise ValueError(
            f"{name} has {checks.counted(X.shape[1], 'column')}; rotation matrices with their rows "
            "laid end to end, 9 columns for those of space, are needed"
        )
    A = arrays.to_numpy(X).reshape(-1, p, p)
    off = np.abs(A @ A.transpose(0, 2, 1) - np.eye(p)).max(axis=(1, 2))
    bad = np.flatnonzero((off > ROTATION_TOLERANCE) | (np.linalg.det(A) < 0))
    if len(bad):
        raise ValueError(
            f"{name} has {len(bad)} row(s) that are no rotation, the first being row {bad[0]}: its "
            f"{p} x {p} matrix A needs A Aᵀ = I (found {off[bad[0]]:.2g} off) and det A = 1 (found "
            f"{np.linalg.det(A[bad[0]]):.2g})"
        )
    return X


def nearest_rotations(M) -> Array:
    """argmax_R tr(R Mᵀ) over rotations R, for each row of `M`: U diag(1, ..., ±1) Vᵀ of its SVD."""
    xp, p = arrays.namespace(M), math.isqrt(M.shape[1])
    U, _, Vt = xp.linalg.svd(xp.reshape(M, (-1, p, p)), full_matrices=False)
    turned = xp.linalg.det(U @ Vt)[:, None, None]
    U = xp.concat([U[:, :, : p - 1], U[:, :, p - 1 :] * turned], axis=2)
    return xp.reshape(U @ Vt, (-1, p * p))

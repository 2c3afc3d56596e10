"""Gaussian kernels for densities: one that leans as the data do, one of order four."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import ndtr

from ..core import Array, arrays
from ..core.moments import correlations
from .base import Kernel
from .radial import Gaussian, _Radial

__all__ = ["CorrelatedGaussian", "Gaussian4"]


@dataclass(frozen=True)
class CorrelatedGaussian(Gaussian):
    """k(x, x') = exp(−½ uᵀR⁻¹u), u_j = (x_j − x'_j)/ℓ_j: as a density, correlated noise.

    Parameters
    ----------
    lengthscale : "median", float or sequence of float
        ℓ, in the units of the data; a sequence gives one per column.
    columnwise : bool
        Whether "median" means one median per column.
    correlation : sequence of sequences of float, (d, d)
        R, a correlation matrix that is positive definite. Empty is none.

    Raises
    ------
    ValueError
        If `correlation` is no such matrix.

    Examples
    --------
    >>> import kernelmean as km
    >>> k = km.CorrelatedGaussian(1.0, correlation=((1.0, 0.9), (0.9, 1.0)))
    >>> k([[0.0, 0.0]], [[1.0, 1.0], [1.0, -1.0]]).round(4)
    array([[0.5908, 0.    ]])
    """

    correlation: tuple[tuple[float, ...], ...] = ()

    _gaussian = False  # no product over columns
    scale_gradient = Kernel.scale_gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        R = np.asarray(self.correlation, dtype=float)
        whole = R.ndim == 2 and R.shape[0] == R.shape[1] and bool((np.diag(R) == 1.0).all())
        if len(R) and not (whole and (R == R.T).all() and np.linalg.eigvalsh(R)[0] > 0):
            raise ValueError(
                f"correlation is {self.correlation!r}; a symmetric, positive definite matrix with "
                "ones on its diagonal is needed"
            )
        object.__setattr__(self, "correlation", tuple(map(tuple, R.tolist())))

    @classmethod
    def of(cls, X: np.ndarray, lengthscale, weights: np.ndarray | None = None) -> Self:
        """With the correlations of the columns of X, none of which may be constant.

        Rows may have weights (n,), none below zero.
        """
        C = np.cov(X.T, aweights=weights)
        spread = C.diagonal() ** 0.5
        n = len(X) if weights is None else weights.sum() ** 2 / (weights**2).sum()
        R = correlations(n * C / np.outer(spread, spread), n)
        return cls(lengthscale, correlation=(R + R.T) / 2)

    @cached_property
    def _root(self) -> np.ndarray:
        """L with LLᵀ = R."""
        return np.linalg.cholesky(np.asarray(self.correlation))

    @cached_property
    def _inverse(self) -> np.ndarray:
        """L⁻¹."""
        return np.linalg.inv(self._root)

    @property
    def narrowness(self) -> float:
        """Smallest half-axis of the ellipse {u : uᵀR⁻¹u = 1}."""
        if not self.correlation:
            return 1.0
        return float(np.linalg.eigvalsh(np.asarray(self.correlation))[0]) ** 0.5

    def in_units(self, X) -> Array:
        return self._straight(super().in_units(X))

    def _straight(self, U) -> Array:
        if not self.correlation:
            return U
        if len(self.correlation) != U.shape[1]:
            raise ValueError(
                f"correlation has {len(self.correlation)} columns but the points have {U.shape[1]}"
            )
        return U @ arrays.like(self._inverse.T, U)

    def pull(self, X, Y) -> Array | None:
        return self.gram_of(X, Y)

    def derivative_of(self, X, Y, column: int) -> Array:
        scale = np.broadcast_to(self._resolved("differentiate"), X.shape[1])
        back = self._straight(arrays.like(np.eye(X.shape[1])[[column]] / scale[column], X))[0, :]
        slope = (self.in_units(Y) @ back)[None, :] - (self.in_units(X) @ back)[:, None]
        return self.gram_of(X, Y) * slope

    def _log_volume(self, d: int) -> float:
        own = np.log(np.diag(self._root)).sum() if self.correlation else 0.0
        return super()._log_volume(d) + float(own)

    def on(self, columns: Sequence[int], d: int) -> Kernel:
        kernel = Gaussian(self.lengthscale, self.columnwise).on(columns, d)
        if len(columns) < 2 or not self.correlation:
            return kernel
        R = np.asarray(self.correlation)[np.ix_(columns, columns)]
        return CorrelatedGaussian(kernel.lengthscale, correlation=R)  # type: ignore[attr-defined, arg-type]

    def _unit_spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        drawn = super()._unit_spectrum(n, d, rng)
        return drawn @ self._inverse if self.correlation else drawn

    def _unit_noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        drawn = super()._unit_noise(n, d, rng)
        return drawn @ self._root.T if self.correlation else drawn


@dataclass(frozen=True)
class Gaussian4(_Radial, named=True):
    """k(x, x') = Π_j (1 − t_j²/3) exp(−t_j²/2), t = (x − x')/ℓ: a smoothing kernel of order four.

    Its density ½(3 − t²)φ(t) has a second moment of zero, so that the bias of a density smoothed
    with it is of order ℓ⁴, not ℓ²; it dips below zero beyond √3 ℓ. It is positive definite, and
    smooths densities of one column.

    Parameters
    ----------
    lengthscale : "median", float or sequence of float
        ℓ; a sequence gives one per column.
    columnwise : bool
        Whether "median" means one median per column.

    References
    ----------
    Wand and Jones (1995), Kernel smoothing, §2.8; Spiteri (2023), §2.5 names it as future work.

    Examples
    --------
    >>> import kernelmean as km
    >>> km.Gaussian4(lengthscale=1.0)([[0.0]], [[1.0], [2.0]]).round(4)
    array([[ 0.4044, -0.0451]])
    """

    dips = True
    _apart = True

    def _profile(self, sq) -> Array:
        return (1.0 - sq / 3.0) * arrays.namespace(sq).exp(-0.5 * sq)

    def log_normaliser(self, d: int) -> float:
        _check_line(self, d)
        return super().log_normaliser(1)

    def _log_volume(self, d: int) -> float:
        return 0.5 * math.log(2 * math.pi) + math.log(2.0 / 3.0)

    def _below(self, t) -> Array:
        # Φ(t) + t φ(t)/2
        peak = arrays.namespace(t).exp(-0.5 * t * t) / math.sqrt(2 * math.pi)
        return arrays.like(ndtr(arrays.to_numpy(t)), t) + 0.5 * t * peak

    def reach(self, mass: float) -> float | None:
        # in the tails t²/2 times the Gaussian's mass
        wider: Any = Gaussian(self._resolved("cut")).reach(mass)
        return wider if mass > 0.01 else 1.1 * wider

    def self_convolved(self, d: int) -> Kernel:
        _check_line(self, d)
        return _Gaussian4Twice(self.lengthscale, self.columnwise)


def _check_line(kernel: Kernel, d: int) -> None:
    if d != 1:
        raise ValueError(f"{kernel!r} smooths densities of one column; there are {d}")


@dataclass(frozen=True)
class _Gaussian4Twice(_Radial):
    """Gaussian4 convolved with itself: (27/16 − 7t²/16 + t⁴/64) exp(−t²/4), scaled to one at 0.

    The spectrum is (1 + ω²/2)² exp(−ω²), so that it is g − g″ + g⁗/4 with g normal of variance 2.
    """

    _apart = True

    def _profile(self, sq) -> Array:
        return (1.0 - 7.0 / 27.0 * sq + sq * sq / 108.0) * arrays.namespace(sq).exp(-0.25 * sq)

    def _log_volume(self, d: int) -> float:
        return 0.5 * math.log(4 * math.pi) - math.log(27.0 / 16.0)

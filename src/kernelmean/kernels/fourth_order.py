"""Smoothing kernels of higher order, with less bias where a density is smooth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy.special import ndtr

from ..core import arrays
from ..core.checks import Array
from .base import Kernel
from .radial import Gaussian, _Radial

__all__ = ["Gaussian4"]


@dataclass(frozen=True)
class Gaussian4(_Radial, named=True):
    """k(x, x') = Π_j (1 − t_j²/3) exp(−t_j²/2), t = (x − x')/ℓ: a smoothing kernel of order four.

    Its density ½(3 − t²)φ(t) has no second moment, so that the bias of a density smoothed with it
    is of order ℓ⁴, not ℓ²; it dips below zero beyond √3 ℓ. It is positive definite, and smooths
    densities of one column.

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

    def _by_columns(self) -> bool:
        return True

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

    def _by_columns(self) -> bool:
        return True

    def _profile(self, sq) -> Array:
        return (1.0 - 7.0 / 27.0 * sq + sq * sq / 108.0) * arrays.namespace(sq).exp(-0.25 * sq)

    def _log_volume(self, d: int) -> float:
        return 0.5 * math.log(4 * math.pi) - math.log(27.0 / 16.0)

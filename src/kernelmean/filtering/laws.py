"""The laws of a filter on densities: p(z'|z) and p(x|z), whose width may vary with z."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import arrays
from ..core.checks import Array
from ..core.moments import evenly
from ..core.saving import Saveable
from ..densities import fit as densities
from ..densities.conditional_density import ConditionalDensity
from ..densities.laws import MovedLaws
from ..densities.location import Location, LocationSearch
from ..features.landmarks import Nystroem
from ..kernels import fitted_kernel

SMALLEST = 0.02  # quantile of |y − m(x)| below which its logarithm is that of the quantile
STEP = (-0.5, 1.5)  # of log s: in normal samples the mean of (r²/s² − 1)/2 is zero
JUDGED = 500  # rows left out by which the two laws are compared


@dataclass(frozen=True)
class Standard(Saveable):
    """y ↦ (y − m(x))/s(x), m and log s each a line and a kernel part."""

    where: Location
    size: Location

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray) -> tuple[Standard, np.ndarray, np.ndarray]:
        """From rows; and their (y − m)/s and log s, each from the fit without its own row.

        log s is regressed on log |y − m|, which outliers hardly move, and goes one step of
        Fisher's scoring for normal errors from there, which uses the rows better.
        """
        where = _regressed(X, Y)
        off = arrays.to_numpy(where.residuals)
        size = np.maximum(np.abs(off), np.quantile(np.abs(off), SMALLEST, axis=0))
        told = np.log(np.maximum(size, 1e-100))
        log_s = told - _regressed(X, told).residuals
        square = (off / np.exp(log_s)) ** 2
        told = log_s + np.clip(0.5 * (square / square.mean(axis=0) - 1.0), *STEP)
        scale = _regressed(X, told)
        log_s = told - scale.residuals
        return cls(where, scale), off / np.exp(log_s), log_s

    def __call__(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """m and log s of rows, (n, d) each."""
        return arrays.to_numpy(self.where(X)), arrays.to_numpy(self.size(X))


def _regressed(X: np.ndarray, Y: np.ndarray) -> Location:
    search = LocationSearch(fitted_kernel("gaussian", X), X, Y)
    search.round()
    return search.location(X, Y, Nystroem(max_rank=densities.TUNED_RANK))


@dataclass(frozen=True)
class StateLaw:
    """p(y|x): that of `ConditionalDensity`, or of the standardised y where rows left out say so."""

    density: densities.Fit
    standard: Standard | None = None

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray) -> StateLaw:
        """The one under which rows left out are likelier, by more than a standard error."""
        plain = cls(ConditionalDensity().fit(X, Y).fit_)
        standard, Y, log_s = Standard.of(X, Y)
        if not standard.size.explains:
            return plain
        scaled = cls(ConditionalDensity().fit(X, Y).fit_, standard)
        gain = scaled._left_out() - log_s.sum(axis=1)[evenly(len(Y), JUDGED)] - plain._left_out()
        return scaled if gain.mean() > gain.std() / len(gain) ** 0.5 else plain

    def _left_out(self) -> np.ndarray:
        laws, rows = self.density.left_out(JUDGED)
        return arrays.to_numpy(laws.log_density_of_pairs(rows))

    def at(self, X) -> LawsAt:
        """The laws at rows of X."""
        laws = self.density.laws(X).dense()
        zero = np.zeros((len(laws), laws.embedding.points.shape[1]))
        return LawsAt(laws, *((zero, zero) if self.standard is None else self.standard(X)))


@dataclass(frozen=True)
class LawsAt:
    """Laws of (y − m)/s, with m and log s of each, (N, d); of y itself where these are zero."""

    laws: MovedLaws
    middle: np.ndarray
    log_size: np.ndarray

    def log_density(self, Y: Array) -> np.ndarray:
        """log p of all laws at all rows, (N, m)."""
        own = (Y[None] - self.middle[:, None]) / np.exp(self.log_size)[:, None]
        return self.laws.log_density_each(own) - self.log_size.sum(axis=1)[:, None]

    def log_density_of_pairs(self, Y: Array) -> np.ndarray:
        """log p of law b at row b, (N,)."""
        own = (Y - self.middle) / np.exp(self.log_size)
        found = arrays.to_numpy(self.laws.log_density_of_pairs(own))
        return found - self.log_size.sum(axis=1)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """A draw from each, (N, d)."""
        found = arrays.to_numpy(self.laws.sample(1, rng))[:, 0]
        return self.middle + found * np.exp(self.log_size)

"""The laws of a filter on densities: p(z'|z) and p(x|z), around a mean, as wide as z says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from ..core import arrays
from ..core.checks import Array
from ..core.minimise import mean_and_error
from ..core.moments import evenly
from ..core.saving import Saveable
from ..densities import fit as densities
from ..densities.bandwidth import spread_ties, with_bandwidth
from ..densities.conditional_density import ConditionalDensity
from ..densities.laws import MovedLaws
from ..densities.location import Beside, Location, LocationSearch
from ..densities.search import DensitySearch
from ..features.base import FeatureMap
from ..features.landmarks import Nystroem
from ..kernels import fitted_kernel
from ..regression.lengthscales import evidence_loss
from ..regression.smoother import Smoother

SMALLEST = 0.02  # quantile of |y − m(x)| below which its logarithm is that of the quantile
STEP = (-0.5, 1.5)  # of log s: in normal samples the mean of (r²/s² − 1)/2 is zero
JUDGED = 500  # rows left out by which laws are compared
BLOCK = 2**22  # log densities that are formed together


class EvidenceSearch(LocationSearch):
    """Scales by the evidence, which does not take luck with the rows left out for smoothness."""

    def judged(self, Theta, Y: np.ndarray, reg: float) -> tuple[float, np.ndarray, float]:
        return evidence_loss(Theta, Y, reg)

    def tie(self) -> float:
        return 1.0 / len(self.Y)

    def location(self, X, Y, features: FeatureMap) -> Location:
        """m as found, λ too."""
        scales, size = self.found
        return Location.of(X, Y, self.kernel.scaled(scales), features, size, reg=self.reg)


def _regressed(X: np.ndarray, Y: np.ndarray) -> Location:
    """m by ridge regression: a line and a kernel part, a line, or the mean of y alone.

    The simplest that leaves no clearly larger errors in rows left out.
    """
    search = EvidenceSearch(fitted_kernel("gaussian", X), X, Y)
    line = Location.of(X, Y, fitted_kernel("linear", X), Nystroem(), 1.0)
    search.round()
    curve = search.location(X, Y, Nystroem(max_rank=densities.TUNED_RANK))
    gain = ((line.residuals**2 - curve.residuals**2) / Y.var(axis=0)).sum(axis=1)
    found = curve if clearly(gain) else line
    if found.explains:
        return found
    mean, n = Y.mean(axis=0), len(Y)
    none, off = 0.0 * found.coef, (Y - mean) * (n / (n - 1))
    return replace(found, intercept=mean, coef=none, residuals=off, beyond=None)


@dataclass(frozen=True)
class NormalErrors(Saveable):
    """N(0, LLᵀ)."""

    root: np.ndarray  # L

    @classmethod
    def of(cls, E: np.ndarray) -> NormalErrors:
        """As wide as these errors about zero."""
        second = E.T @ E / len(E)
        dust = 1e-12 * np.trace(second) * np.eye(len(second))
        return cls(np.linalg.cholesky(second + dust))

    def log_density_each(self, E: np.ndarray) -> np.ndarray:
        """log p of rows (..., d)."""
        d = len(self.root)
        flat = scipy.linalg.solve_triangular(self.root, E.reshape(-1, d).T, lower=True)
        size = np.log(np.diag(self.root)).sum() + 0.5 * d * np.log(2 * np.pi)
        return (-0.5 * (flat**2).sum(axis=0) - size).reshape(E.shape[:-1])

    log_density_of_pairs = log_density_each

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n draws, (n, d)."""
        return rng.standard_normal((n, len(self.root))) @ self.root.T


@dataclass(frozen=True)
class Standard(Saveable):
    """y ↦ (y − m(x))/s(x), m and log s each a line and a kernel part; s = 1 without a `size`.

    s is larger by √(1 + v(x)) for what is not known of m: v = h(x) + (k(x, x) − ‖φ(x)‖²)/nλ, the
    variance of a Gaussian process over that of its noise, h the leverage. Of a row left out
    1 + v is 1/(1 − h).
    """

    where: Location
    size: Location | None
    known: Smoother | None = None  # of `where`, without its rows; a file of earlier has none

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray) -> tuple[Standard, np.ndarray]:
        """From rows; and their (y − m)/s, each from the fit without its own row.

        log s is regressed on log |y − m|, which outliers hardly move, and goes one step of
        Fisher's scoring for normal errors from there, which uses the rows better. It varies if
        rows left out are clearly more likely so.
        """
        where = replace(_regressed(X, Y), beyond=None)  # nodes end, and what is unknown counts
        smoother = Smoother.of(Beside(where.line, where.features).transform(X), intercept=True)
        sure = np.sqrt(np.maximum(1.0 - smoother.leverage(where.reg), 1e-3))[:, None]
        off = arrays.to_numpy(where.residuals) * (sure if where.explains else 1.0)
        known = smoother.alone() if where.explains else None
        size = np.maximum(np.abs(off), np.quantile(np.abs(off), SMALLEST, axis=0))
        told = np.log(np.maximum(size, 1e-100))
        log_s = told - _regressed(X, told).residuals
        square = (off / np.exp(log_s)) ** 2
        told = log_s + np.clip(0.5 * (square / square.mean(axis=0) - 1.0), *STEP)
        scale = _regressed(X, told)
        log_s = told - scale.residuals
        own = off / np.exp(log_s)
        gain = NormalErrors.of(own).log_density_each(own) - log_s.sum(axis=1)
        if scale.explains and clearly(gain - NormalErrors.of(off).log_density_each(off)):
            return cls(where, scale, known), own
        return cls(where, None, known), off

    def __call__(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """m and log s of rows, (n, d) each."""
        middle = arrays.to_numpy(self.where(X))
        log_s = np.zeros_like(middle) if self.size is None else self.size(X)
        return middle, log_s + 0.5 * np.log1p(self._unknown(X))[:, None]

    def _unknown(self, X: np.ndarray) -> np.ndarray:
        """v(x) of rows, (n,)."""
        if self.known is None:
            return np.zeros(len(X))
        Phi, reg = Beside(self.where.line, self.where.features).transform(X), self.where.reg
        own = self.where.features.kernel_.diag_of(X)
        lost = np.maximum(own - (Phi[:, X.shape[1] :] ** 2).sum(axis=1), 0.0)
        return self.known.leverage(reg, self.known.rotated(Phi)) + lost / (self.known.n * reg)


def clearly(gain: np.ndarray) -> bool:
    """Whether a mean is above zero by more than its standard error."""
    mean, error = mean_and_error(gain)
    return mean > error


@dataclass(frozen=True)
class StateLaw:
    """p(y|x): that of the standardised y is normal, or a `ConditionalDensity` if rows say so."""

    density: NormalErrors | densities.Fit
    standard: Standard | None = None  # a file of an earlier version may have none

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray) -> StateLaw:
        """A density in place of the normal law where rows left out are clearly likelier so."""
        standard, E = Standard.of(X, Y)
        normal, some = NormalErrors.of(E), evenly(len(E), JUDGED)
        few, errors = X[some], spread_ties(E[some])
        kernel_y = with_bandwidth(fitted_kernel("gaussian", E), None, errors, "kernel_y")
        rough = DensitySearch(fitted_kernel("gaussian", X), kernel_y, few, errors, intercept=True)
        rough.draft(rounds=1)
        if clearly(rough.log_densities() - normal.log_density_each(errors)):
            return cls(ConditionalDensity(location=False).fit(X, E).fit_, standard)
        return cls(normal, standard)

    def at(self, X) -> LawsAt:
        """The laws at rows of X."""
        laws: Any = self.density
        if not isinstance(laws, NormalErrors):
            laws = laws.laws(X).dense()
        if self.standard is None:
            zero = np.zeros((len(X), laws.embedding.points.shape[1]))
            return LawsAt(laws, zero, zero)
        return LawsAt(laws, *self.standard(X))


@dataclass(frozen=True)
class LawsAt:
    """Laws of (y − m)/s, with m and log s of each, (N, d)."""

    laws: NormalErrors | MovedLaws
    middle: np.ndarray
    log_size: np.ndarray

    def of(self, rows: np.ndarray) -> LawsAt:
        """Some of them, where they differ by m and s alone."""
        return LawsAt(self.laws, self.middle[rows], self.log_size[rows])

    def log_density(self, Y: Array) -> np.ndarray:
        """log p of all laws at all rows, (N, m)."""
        found = np.empty((len(self.middle), len(Y)))
        step = max(1, BLOCK // max(1, self.middle.size))
        for i in range(0, len(Y), step):
            own = (Y[None, i : i + step] - self.middle[:, None]) / np.exp(self.log_size)[:, None]
            found[:, i : i + step] = self.laws.log_density_each(own)
        return found - self.log_size.sum(axis=1)[:, None]

    def log_density_of_pairs(self, Y: Array) -> np.ndarray:
        """log p of law b at row b, (N,)."""
        own = (Y - self.middle) / np.exp(self.log_size)
        found = arrays.to_numpy(self.laws.log_density_of_pairs(own))
        return found - self.log_size.sum(axis=1)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """A draw from each, (N, d)."""
        if isinstance(self.laws, NormalErrors):
            found = self.laws.sample(len(self.middle), rng)
        else:
            found = arrays.to_numpy(self.laws.sample(1, rng))[:, 0]
        return self.middle + found * np.exp(self.log_size)

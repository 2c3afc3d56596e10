"""Where a conditional law lies and how wide it is there: y ↦ (y − m(x))/s(x)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from ..core import Array, Saveable, arrays
from ..embedding.move import Bend
from ..features.base import Bare
from ..features.landmarks import Nystroem
from ..kernels import Kernel, fitted_kernel, gaussian_along_lines
from ..regression.lengthscales import tie_of
from ..regression.smoother import Smoother
from ..regression.support import Support
from .bending import Bent
from .location import TUNED_RANK, Design, Location, LocationSearch, Weights, clearly

SMALLEST = 0.02  # quantile of |y − m(x)| below which its logarithm is that of the quantile
STEP = (-0.5, 1.5)  # of log s: in normal samples the mean of (r²/s² − 1)/2 is zero
TINY = 1e-100
ALONE = 3.0  # size of a line without a kernel: what it tells exactly, λ shall not hide
NOTICED = 0.1  # of log s
WIDEST = 2.0  # deviations of y, that laws far from the data may reach


def searched(
    X: np.ndarray, Y: np.ndarray, begin=1.0, like: Kernel | None = None, bend: Bend | None = None
) -> LocationSearch:
    """With a Gaussian kernel, whose scales part more easily, but not with few rows.

    Along what has no lines with `like` itself. On a bent scale of X, if one is given.
    """
    kernel = "gaussian" if like is None else gaussian_along_lines(like)
    fitted = fitted_kernel(kernel, X if bend is None else bend(X), columnwise=True)
    fitted = fitted.scaled(np.broadcast_to(begin, X.shape[1]))
    fitted = fitted if bend is None else Bent(fitted, bend)
    return LocationSearch(fitted, X, Y, tie=tie_of(X.shape[1], len(Y)))


class Forms:
    """What is regressed on: a line, or a line and a kernel part, with the scales and λ found."""

    def __init__(self, X: np.ndarray, search: LocationSearch):
        self.line = Design(X, search.kernel, Bare(), ALONE)
        self.curve, self.reg = search.design(X, Nystroem(max_rank=TUNED_RANK)), search.reg


def regressed(forms: Forms, Y: np.ndarray) -> Location:
    """m by ridge regression: each column a line, or a line and a kernel part if clearly nearer.

    That is where it leaves clearly smaller errors in rows left out.
    """
    simple, other = Location.on(forms.line, Y), Location.on(forms.curve, Y, forms.reg)
    gain = simple.residuals**2 - other.residuals**2
    straight = np.array([not clearly(of_column) for of_column in gain.T])
    return simple if straight.all() else other.along(simple, straight)


def log_sizes(off: np.ndarray) -> np.ndarray:
    """log |y − m| of residuals (n, d), the smallest of them taken for larger."""
    size = np.abs(off)
    return np.log(np.maximum(np.maximum(size, np.quantile(size, SMALLEST, axis=0)), TINY))


@dataclass(frozen=True)
class NormalErrors(Saveable):
    """N(0, LLᵀ)."""

    root: np.ndarray  # L

    @classmethod
    def of(cls, E: np.ndarray, more: float = 0.0) -> NormalErrors:
        """As wide as these errors about zero, with so much more variance in each column."""
        second = E.T @ E / len(E)
        size = np.diag(second)  # columns may be copies of others
        dust = 1e-12 * np.where(size > 0, size, max(size.max(), TINY))
        return cls(np.linalg.cholesky(second + np.diag(dust + more)))

    def log_density_each(self, E: np.ndarray) -> np.ndarray:
        """log p of rows (..., d)."""
        d = len(self.root)
        flat = scipy.linalg.solve_triangular(self.root, E.reshape(-1, d).T, lower=True)
        size = np.log(np.diag(self.root)).sum() + 0.5 * d * np.log(2 * np.pi)
        return (-0.5 * (flat**2).sum(axis=0) - size).reshape(E.shape[:-1])

    def log_density_apart(self, middle, log_size, Y: np.ndarray) -> np.ndarray:
        """log p of m + s e, of all rows m and log s (N, d), at rows of Y, (N, len(Y))."""
        size, square = np.exp(-log_size), np.zeros((len(middle), len(Y)))
        for row in np.linalg.inv(self.root):  # (L⁻¹(y − m)/s)², by products of matrices
            slope = row * size
            off = slope @ Y.T
            off -= (slope * middle).sum(axis=1, keepdims=True)
            off *= off
            square += off
        level = (np.log(np.diag(self.root)) + log_size + 0.5 * np.log(2 * np.pi)).sum(axis=1)
        square *= -0.5
        return square - level[:, None]

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n draws, (n, d)."""
        return rng.standard_normal((n, len(self.root))) @ self.root.T


def spread(forms: Forms | None, off: np.ndarray) -> tuple[Location | None, np.ndarray]:
    """g, None where it is zero, as without forms; and g at the rows, each from a fit without it.

    A regression of log |y − m|, which outliers hardly move, goes one step of Fisher's scoring for
    normal errors from there, which uses the rows better. It is taken if rows left out are clearly
    more likely so.
    """
    if forms is None:
        return None, 0.0 * off
    told = log_sizes(off)
    log_s = told - regressed(forms, told).residuals
    log_s -= log_s.mean(axis=0)  # so that units stay
    square = (off / np.exp(log_s)) ** 2
    told = log_s + np.clip(0.5 * (square / square.mean(axis=0) - 1.0), *STEP)
    size = regressed(forms, told)
    log_s = told - size.residuals
    gain = as_normal(off / np.exp(log_s), log_s) - as_normal(off, 0.0 * off)
    return (size.bare(), log_s) if size.explains and clearly(gain) else (None, 0.0 * off)


def as_normal(standard: np.ndarray, log_s: np.ndarray) -> np.ndarray:
    """log p of residuals e^log_s times these, which are taken for normal, (n,)."""
    return NormalErrors.of(standard).log_density_each(standard) - log_s.sum(axis=1)


@dataclass(frozen=True)
class Standard(Saveable):
    """y ↦ (y − m(x))/s(x), log s(x) = g(x) + z(x), g a line and a kernel part.

    z = log(1 + v)/2 is what is not known of m: v(x) = h(x) + (k(x, x) − ‖φ(x)‖²)/nλ, the variance
    of a Gaussian process over that of its noise, h the leverage; of a row left out 1 + v is
    1/(1 − h).

    Attributes
    ----------
    where : Location
        m; its residuals are standardised, each by a fit without its own row.
    size : Location or None
        g; None is zero.
    known : Smoother or None
        Of m, without its rows; None for z = 0. A file of an earlier version has none.
    seen : float
        The largest z of a row.
    least, most : array of shape (d_y,) or None
        That g, and log s, can be.
    """

    where: Location
    size: Location | None
    known: Smoother | None = None
    seen: float = 0.0
    most: np.ndarray | None = None
    least: np.ndarray | float = -np.inf

    @classmethod
    def of(
        cls, where: Location, X: np.ndarray, Y: np.ndarray | None, forms: Forms | None
    ) -> tuple[Standard, np.ndarray]:
        """From m and rows among those that it was learned from; and log s of each, left out.

        Without their Y, s has no upper bound. `forms` are those of X.
        """
        z = arrays.to_numpy(where.doubt)
        off = arrays.to_numpy(where.residuals) * np.exp(-z)
        size, log_s = spread(forms, off)
        off, least = off / np.exp(log_s), log_s.min(axis=0)
        log_s = log_s + z
        most = None
        if Y is not None:
            widest = np.log(WIDEST * Y.std(axis=0) / np.maximum(off.std(axis=0), TINY))
            most = np.maximum(log_s.max(axis=0), widest)
        excess = where.excess
        if excess is not None:
            excess = excess / arrays.like(np.exp(log_s), excess)
        off = arrays.like(off, where.residuals)
        standard = replace(where.bare(), residuals=off, excess=excess)
        return cls(standard, size, where.smoother, float(z.max()), most, least), log_s

    @classmethod
    def weighed(
        cls, learn: Callable[[Weights | None], Location], X: np.ndarray, Y: np.ndarray,
        forms: Forms | None,
    ) -> tuple[Standard, np.ndarray]:  # fmt: skip
        """The same, m learned again with weights 1/s² if rows left out are clearly likelier so."""
        plain, log_s = cls.of(learn(None), X, Y, forms)
        if plain.size is None:
            return plain, log_s
        found, again = cls.of(learn(Weights(plain.size, X)), X, Y, forms)
        gain = as_normal(arrays.to_numpy(found.where.residuals), again)
        gain -= as_normal(arrays.to_numpy(plain.where.residuals), log_s)
        return (found, again) if clearly(gain) else (plain, log_s)

    @property
    def points(self) -> Array:
        """Standardised residuals of the outcomes as they came."""
        return self.where.points

    @property
    def rank(self) -> int:
        """Coordinates of a row that are formed together, one after the other."""
        return max(self.where.rank, 0 if self.size is None else self.size.rank)

    @property
    def varies(self) -> bool:
        """Whether s does."""
        return self.size is not None or self.seen > NOTICED

    def bare(self) -> Standard:
        """What answers need."""
        return replace(self, where=self.where.bare())

    def within(self, support: Support) -> Standard:
        """The same where data are elsewhere too."""
        return replace(self, where=self.where.within(support))

    def __call__(self, X) -> Array:
        """m(x), (m, d_y)."""
        return self.where(X)

    def log_size(self, X) -> np.ndarray:
        """log s(x), (m, d_y)."""
        return self._bounded(X, 0.5 * np.log1p(self._unknown(X)))

    def widths(self, X) -> np.ndarray:
        """s(x), (m, d_y)."""
        return np.exp(self.log_size(X))

    def left_out(self, X, Y) -> Array:
        """Standardised residuals of any rows that m was learned from, (n, d_y)."""
        off, z = replace(self.where, smoother=self.known).apart(X, Y)
        return off / arrays.like(np.exp(self._bounded(X, arrays.to_numpy(z)[:, None])), off)

    def _bounded(self, X, z: np.ndarray) -> np.ndarray:
        """g(x) + z, (n, d_y)."""
        X = arrays.to_numpy(X)
        g = 0.0 if self.size is None else np.maximum(self.size(X), self.least)
        log_s = g + np.broadcast_to(z, (len(X), self.where.coef.shape[1]))
        return log_s if self.most is None else np.minimum(log_s, self.most)

    def _unknown(self, X) -> np.ndarray:
        """v(x) of rows, (n, 1) or (n, d_y)."""
        return replace(self.where, smoother=self.known).unknown(X)

"""Emission laws of a hidden Markov model: embeddings whose weights are probabilities of states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln
from scipy.stats import chi2, norm
from scipy.stats import t as student

from ..core import Array, Saveable, arrays
from ..core.moments import correlations, normal_bandwidth
from ..core.threads import side_by_side
from ..embedding.embedding import MeanEmbedding
from ..features.base import FeatureMap
from ..kernels import Delta, Kernel
from .moments import Coordinates, KernelSums, for_sums

RANK = 2000  # landmarks of the smoothing kernel,
LOST = 1e-4  # and the share of its trace beyond them: the guard stands in for that
CACHED = 2**17  # numbers of rows and states that are worked on together, in the processor's cache
ATOM = 0.01  # share of the rows from which on a repeated value is an atom of the law
ROUNDING = 1e-7  # of the spread of rows: distances below are equal rows
NARROWEST = 1e-3  # of a column's variance, the least that the guard's may be
FINEST = 0.4  # of the steps that values are in, the least bandwidth of one state: a value in steps
# of Δ then has a density of no more than its share over Δ, however few others its state has
SHARES = (0.5, 0.9, 0.98)  # of a normal law in each law, one after the other
TURNS = 3  # in which laws of t are fitted, from normal ones
LARGE, TINY = 300.0, 1e-200  # of a log-height, and of a density: beyond, logarithms are added
LOG_2PI = float(np.log(2 * np.pi))
REACH = 5.5  # standard deviations that grids of normal laws reach,
NODES = 120  # in so many steps


def can_smooth(kernel: Kernel, points) -> bool:
    """Whether the kernel has an integral of one, and its width a meaning along every column."""
    try:
        kernel.log_normaliser(points.shape[1])
    except ValueError:
        return False
    return True


def smoothing_kernel(kernel: Kernel, points) -> Kernel:
    """The kernel that spreads an observation out, as wide as the median distance of the data.

    (One that has a lengthscale for each column stays as it is.) Where most rows are equal but for
    rounding that is nothing, and a share of the spread of all is taken.
    """
    if not isinstance(getattr(kernel, "lengthscale", None), float):
        return kernel
    found: Any = replace(kernel, lengthscale="median").resolve(points)  # type: ignore[type-var]
    least = ROUNDING * float(arrays.to_numpy(points).std(axis=0).max())
    return replace(found, lengthscale=max(found.lengthscale, least))


def steps_of(points: np.ndarray) -> np.ndarray:
    """Median distances of neighbouring values in each column: the unit of counts and of ticks."""
    gaps = [np.diff(np.unique(column)) for column in points.T]
    real = [gap[gap > ROUNDING * column.std()] for gap, column in zip(gaps, points.T, strict=True)]
    return np.array([np.median(gap) if len(gap) else 0.0 for gap in real])


def spreads_of(points: np.ndarray) -> np.ndarray:
    """Variances of columns, so large that the least of a guard is that of rounding."""
    return np.maximum(points.var(axis=0), steps_of(points) ** 2 / (12 * NARROWEST))


def no_finer(kernel: Any, points: np.ndarray) -> Kernel:
    """The kernel, at least as wide as the steps that values are in, if it has a lengthscale."""
    if (width := getattr(kernel, "lengthscale", None)) is None:
        return kernel
    each = FINEST * steps_of(points)
    widths = np.maximum(width, each if np.ndim(width) else each.min())
    return replace(kernel, lengthscale=one_or_each(np.atleast_1d(widths)))


def one_or_each(widths: np.ndarray) -> float | tuple[float, ...]:
    """A bandwidth as one number, or as one for each column."""
    found = tuple(float(w) for w in widths)
    return found[0] if len(found) == 1 else found


def rule_of_thumb(n: int, d: int) -> float:
    """Silverman's bandwidth for normal data, in median distances.

    The squared distance of two of them has twice a χ² law of d degrees.
    """
    return float(normal_bandwidth(n, d) / (2.0 * chi2.median(d)) ** 0.5)


# ------------------------------------------------------------ the laws


@dataclass(frozen=True)
class Emissions(Saveable):
    """f_k(y) = (N_k Σ_s w_sk k̄(y_s, y) + c g_k(y))/(N_k + c), w_·k = γ_·k/N_k, N_k = Σ_s γ_sk.

    γ_sk is the probability that row s was emitted in state k, k̄ the smoothing kernel. g_k, the
    guard, is a normal density which counts as c observations (one, and of the same mean and
    variances, unless another rule is given): it is all that is left far from the data. For a
    `Delta` kernel g is uniform on the values seen.

    Attributes
    ----------
    features : FeatureMap
        Coordinates φ of k̄ up to its height.
    coefficients : array of shape (r, K)
        Σ_s γ_sk φ(y_s).
    guard : Guard
    log_height : float
        log k̄(y, y).
    """

    features: FeatureMap
    coefficients: Array
    guard: Guard
    log_height: float

    def reordered(self, order: np.ndarray) -> Emissions:
        """With the states renumbered."""
        coefficients = arrays.take(self.coefficients, order, axis=1)
        return replace(self, coefficients=coefficients, guard=self.guard.reordered(order))

    def log_density(self, points) -> np.ndarray:
        """log f_k(y) for every row, (m, K)."""
        kernel_part = Coordinates(self.features, points, None).project(self.coefficients)
        return self.guard.mixed(kernel_part, arrays.to_numpy(points), self.log_height)


@dataclass(frozen=True)
class Guard(Saveable):
    """One normal density per state; or one over the number of values.

    Attributes
    ----------
    counts : array of shape (K,)
        N_k.
    means, variances : arrays of shape (K, d)
    n_values : int
        Distinct values of discrete data; 0 for the normal densities.
    strength : float or array of shape (K,)
        c, the number of observations that it counts as.
    whitening : array of shape (K, d, d), optional
        W of each state with WᵀW the inverse of its covariance; None: columns are independent.
    degrees : float, optional
        ν of laws of t in place of normal ones, with `whitening` of the scale.
    """

    counts: np.ndarray
    means: np.ndarray
    variances: np.ndarray
    n_values: int
    strength: float | np.ndarray = 1.0
    whitening: np.ndarray | None = None
    degrees: float | None = None

    imagined: ClassVar[int] = 0  # points that stand for each in embeddings

    @property
    def share(self) -> np.ndarray:
        """c/(N_k + c), (K,)."""
        return self.strength / (self.strength + self.counts)

    @property
    def large(self) -> bool:
        """Whether that is more than what is left far from the data."""
        return self.whitening is not None

    def along(self, j: int, y: np.ndarray, extra: float) -> tuple[np.ndarray, np.ndarray]:
        """Distribution functions and densities of one column, (K, m), with a variance added."""
        size, law = self._size(j, extra), self._law
        off = (y - self.means[:, [j]]) / size
        return law.cdf(off), law.pdf(off) / size

    def nodes(self, j: int, extra: float) -> np.ndarray:
        """Of a grid along one column that holds nearly all of the mass."""
        off = self._law.ppf(norm.cdf(np.linspace(-REACH, REACH, NODES)))
        return (self.means[:, [j]] + self._size(j, extra) * off).ravel()

    @property
    def _law(self) -> Any:
        return norm if self.degrees is None else student(self.degrees)

    def _size(self, j: int, extra: float) -> np.ndarray:
        back = np.linalg.inv(self.whitening)[:, j, :]  # type: ignore[arg-type]
        return np.sqrt((back**2).sum(axis=1) + extra)[:, None]

    def reordered(self, order: np.ndarray) -> Guard:
        """With the states renumbered."""
        return replace(self, **{name: value[order] for name, value in self.by_state.items()})

    @property
    def by_state(self) -> dict[str, Any]:
        """What each state has its own of: all arrays."""
        return {name: a for name, a in vars(self).items() if isinstance(a, np.ndarray)}

    @classmethod
    def of(cls, points: np.ndarray, weights: np.ndarray, spread, discrete: bool) -> Guard:
        """From rows and the weights (u, K) of the states in them; `spread` of each column."""
        counts = weights.sum(axis=0)
        share = weights.T / np.maximum(counts, np.finfo(float).tiny)[:, None]
        centre = points.mean(axis=0)
        off = points - centre
        means = share @ off
        variances = np.maximum(share @ off**2 - means**2, NARROWEST * spread)
        means += centre
        return cls(counts, means, variances, len(points) if discrete else 0)

    @classmethod
    def joined(cls, guards: Sequence[Guard]) -> Guard:
        """Of all the states of several, under the same rule."""
        every = [guard.by_state for guard in guards]
        together: dict[str, Any] = {
            name: np.concatenate([own[name] for own in every]) for name in every[0]
        }
        return replace(guards[0], **together)

    def marginal(self, columns: list[int]) -> Guard:
        """That of some columns."""
        whitening = self.whitening
        if whitening is not None:
            joint = np.linalg.inv(np.swapaxes(whitening, 1, 2) @ whitening)
            some = joint[:, columns][:, :, columns]
            whitening = np.linalg.inv(np.linalg.cholesky(some))
        means, variances = self.means[:, columns], self.variances[:, columns]
        return replace(self, means=means, variances=variances, whitening=whitening)

    def draws(self, k: int, n: int, rng: np.random.Generator) -> np.ndarray:
        """n rows of the law of state k, columns dependent."""
        back = np.linalg.inv(self.whitening[k])  # type: ignore[index]
        off = rng.standard_normal((n, len(back))) @ back.T
        if self.degrees is not None:
            off /= np.sqrt(rng.chisquare(self.degrees, (n, 1)) / self.degrees)
        return self.means[k] + off

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """(m, K); columns that do not vary at all say nothing."""
        if self.n_values:
            return np.full((len(points), len(self.counts)), -np.log(self.n_values))
        if self.whitening is not None:
            return np.stack([self._joint(points, k) for k in range(len(self.counts))], axis=1)
        columns = np.flatnonzero(self.variances.min(axis=0) > 0)
        total = np.zeros((len(points), len(self.counts)))
        for j in columns:
            off = (points[:, j, None] - self.means[:, j]) ** 2 / self.variances[:, j]
            total -= 0.5 * (off + np.log(self.variances[:, j]) + LOG_2PI)
        return total

    def _joint(self, points: np.ndarray, k: int) -> np.ndarray:
        """That of one state, columns dependent."""
        W = self.whitening[k]  # type: ignore[index]
        size, d, far = np.log(np.diag(W)).sum(), W.shape[0], self.off(points, k)
        if (nu := self.degrees) is None:
            return size - 0.5 * (far + d * LOG_2PI)
        both = nu + d
        height = gammaln(both / 2) - gammaln(nu / 2) - d / 2 * np.log(nu * np.pi)
        return size + height - both / 2 * np.log1p(far / nu)

    def off(self, points: np.ndarray, k: int) -> np.ndarray:
        """Squared distances from the mean of state k, in its own scale."""
        return (((points - self.means[k]) @ self.whitening[k].T) ** 2).sum(axis=1)  # type: ignore

    def mixed(
        self, kernel_part: np.ndarray, points: np.ndarray, log_height: float, counts=None
    ) -> np.ndarray:
        """log((kernel part · height + c g)/(N + c)); N may be other counts than the guard's.

        The kernel part may be negative by rounding.
        """
        counts = self.counts if counts is None else counts
        log_guard = self.log_density(points) + np.log(self.strength)
        if log_height < LARGE:
            total = np.maximum(kernel_part, 0.0) * np.exp(log_height) + np.exp(log_guard)
            if total.min() > TINY:
                return np.log(total / (counts + self.strength))
        log_kernel = arrays.logs(kernel_part) + log_height
        return np.logaddexp(log_kernel, log_guard) - np.log(counts + self.strength)


@dataclass(frozen=True)
class SignedEmissions(Saveable):
    """f_k(y) = (N_k max(q_k(y), 0)/∫max(q_k, 0) + g_k(y))/(N_k + 1), q_k of weights of any sign.

    The laws of the spectral fit alone (thesis, §3.4.1; MATH §8).

    Attributes
    ----------
    embeddings : MeanEmbedding
        Batch of K.
    bandwidth : float, tuple or None
        None is Silverman's rule.
    guard : Guard
    """

    embeddings: MeanEmbedding
    bandwidth: float | tuple[float, ...] | None
    guard: Guard

    @classmethod
    def of(cls, embeddings: MeanEmbedding, bandwidth, counts: np.ndarray) -> SignedEmissions:
        """Of laws that stand for as many observations as `counts` says."""
        points = arrays.to_numpy(embeddings.points)
        weights = np.maximum(arrays.to_numpy(embeddings.weights), 0.0).T
        weights *= counts / np.maximum(weights.sum(axis=0), np.finfo(float).tiny)
        guard = Guard.of(points, weights, points.var(axis=0), isinstance(embeddings.kernel, Delta))
        if guard.n_values:
            guard = replace(guard, n_values=len(np.unique(points, axis=0)))
        return cls(embeddings, bandwidth, guard)

    def reordered(self, order: np.ndarray) -> SignedEmissions:
        """With the states renumbered."""
        laws, guard = self.embeddings[order], self.guard.reordered(order)
        return replace(self, embeddings=laws, guard=guard)

    @cached_property
    def _counts(self) -> np.ndarray:
        """N_k/∫ max(q_k, 0), (K,): in several columns an integral, found once."""
        negative = arrays.to_numpy(self.embeddings.negative_mass(self.bandwidth)[0])
        return self.guard.counts / (1.0 + negative)

    def log_density(self, points) -> np.ndarray:
        """log f_k(y) for every row, (m, K)."""
        q = arrays.to_numpy(self.embeddings.density(points, self.bandwidth, signed=True)).T
        return self.guard.mixed(q * self._counts, arrays.to_numpy(points), 0.0)


@dataclass(frozen=True)
class EmissionsByState(Saveable):
    """Laws of one state each, with a bandwidth of its own.

    Attributes
    ----------
    parts : tuple of Emissions or SignedEmissions
    widths : tuple
        The bandwidths.
    """

    parts: tuple[Emissions | SignedEmissions, ...]
    widths: tuple[Any, ...]

    @cached_property
    def guard(self) -> Guard:
        """That of all states."""
        return Guard.joined([part.guard for part in self.parts])

    def reordered(self, order: np.ndarray) -> EmissionsByState:
        """With the states renumbered."""
        parts, widths = (tuple(each[k] for k in order) for each in (self.parts, self.widths))
        return EmissionsByState(parts, widths)

    def log_density(self, points) -> np.ndarray:
        """log f_k(y) for every row, (m, K)."""
        return np.hstack([part.log_density(points) for part in self.parts])


Laws = Emissions | SignedEmissions | EmissionsByState


@dataclass(frozen=True)
class Shrunken:
    """Makes guards that have a share of each law: what the law is shrunk towards.

    A normal law with the mean and covariance of the state's rows; correlations are shrunk to what
    they are within states on the whole, as if d of the rows had these. Or, with `degrees` ν, a law
    of t: rows count (ν + d)/(ν + δ²), δ their distance in its scale (Kent, Tyler, Vardi 1994).
    """

    share: float
    degrees: float | None = None

    def __call__(self, points: np.ndarray, weights: np.ndarray, spread, discrete: bool) -> Guard:
        guard = Guard.of(points, weights, spread, discrete)
        if discrete or not (guard.variances > 0).all():
            return guard
        found = replace(guard, whitening=whitenings(guard, points, weights))
        for _ in range(TURNS) if self.degrees else ():
            far = np.stack([found.off(points, k) for k in range(len(guard.counts))], axis=1)
            near = weights * (self.degrees + points.shape[1]) / (self.degrees + far)
            found = Guard.of(points, near, spread, discrete)
            found = replace(found, whitening=whitenings(found, points, near))
        strength = np.maximum(guard.counts * (self.share / (1.0 - self.share)), 1.0)
        return replace(found, counts=guard.counts, strength=strength, degrees=self.degrees)


def whitenings(guard: Guard, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Inverses of the Cholesky factors of covariances, (K, d, d)."""
    size, second = np.sqrt(guard.variances), []
    for mean, sd, own in zip(guard.means, size, weights.T, strict=True):
        off = (points - mean) / sd
        second.append((off * own[:, None]).T @ off)
    common = correlations(sum(second), guard.counts.sum())
    each = [correlations(S, N, common) for S, N in zip(second, guard.counts, strict=True)]
    return np.linalg.inv(np.linalg.cholesky(np.stack(each))) / size[:, None]


GuardRule = Callable[[np.ndarray, np.ndarray, np.ndarray, bool], Guard]
Marginals = Callable[[list[int], Array], np.ndarray]  # of columns, and rows of these: (m, K)


# ------------------------------------------------------------ learning them


class Smoothing:
    """Training rows in the coordinates of a smoothing kernel: from γ to densities, both ways.

    Each row's density leaves out what the row itself brings (and rows equal to it, unless that
    value makes up one percent of the rows or more: an atom of the law). Else small bandwidths
    would only repeat what the probabilities of its state were before.

    Attributes
    ----------
    kernel : Kernel
        k̄ at its bandwidth.
    coordinates : Coordinates
        Of the distinct rows.
    points : array of shape (u, d)
        The distinct rows.
    row : int array of shape (n,), or slice(None)
        Which distinct row each row is; all of them where no two are equal.
    atom : bool array of shape (u,)
    discrete : bool
        Whether all rows are values of a table.
    guard_of : callable
        Makes the guard from rows, weights of the states in them, (u, K), the spread of each
        column, and whether the data are discrete.
    """

    def __init__(self, points, kernel: Kernel, guard_of: GuardRule = Guard.of):
        self.kernel, self.guard_of, rows = kernel, guard_of, arrays.to_numpy(points)
        self.discrete, self._marginals = isinstance(kernel, Delta), dict[tuple, Coordinates]()
        self.points, found, count = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        self.row: np.ndarray | slice = found.reshape(-1)
        if len(count) == len(rows):  # in the order of the rows, so that nothing is looked up
            self.points, self.row = rows, slice(None)
        self.atom = count >= max(ATOM * len(rows), 2) if not self.discrete else count > 0
        self._spread = spreads_of(self.points)
        self.coordinates = for_sums(arrays.like(self.points, points), kernel, RANK, LOST)

    def guarded(self, rule: GuardRule) -> Smoothing:
        """With another rule for the guard."""
        other = copy(self)
        other.guard_of = rule
        return other

    @property
    def bare(self) -> Smoothing:
        """Without the kernel: densities are the guards', times the share that these have."""
        none = arrays.like(np.empty((len(self.points), 0)), self.coordinates.points)
        other = copy(self)
        other.coordinates = Coordinates(self.coordinates.features, self.coordinates.points, none)
        return other

    @cached_property
    def log_height(self) -> float:
        """log k̄(y, y)."""
        return -self.kernel.log_normaliser(self.points.shape[1])

    def emissions(self, gamma: np.ndarray) -> Emissions:
        """The laws given the probabilities of the states, (n, K)."""
        return self._emissions(self._gathered(gamma))

    def log_densities(self, gamma: np.ndarray) -> np.ndarray:
        """log f_k of every row, from the others' γ: (n, K)."""
        weights = self._gathered(gamma)
        laws = self._emissions(weights)
        everything = self.coordinates.project(laws.coefficients)
        own, n, step = self.coordinates.squares, len(gamma), max(1, CACHED // gamma.shape[1])

        def of_some(some: slice) -> np.ndarray:
            at = some if isinstance(self.row, slice) else self.row[some]
            mine = np.where(self.atom[at, None], gamma[some], weights[at])
            mine = np.zeros_like(mine) if self.discrete else mine
            kernel_part = everything[at] - mine * own[at, None]
            left = np.maximum(laws.guard.counts - mine, 0.0)
            return laws.guard.mixed(kernel_part, self.points[at], self.log_height, left)

        return np.concatenate(side_by_side(of_some, arrays.slices(n, step)))

    def marginals(self, gamma: np.ndarray) -> Marginals:
        """What says log f_k of some columns of other rows."""
        weights = self._gathered(gamma)
        guard = self._guard(weights)

        def of_some(columns: list[int], points: Array) -> np.ndarray:
            kernel = self.kernel.on(columns, self.points.shape[1])
            if points.shape[0] <= RANK:  # fewer than landmarks might be
                sums = KernelSums(kernel, arrays.take(self.coordinates.points, columns, axis=1))
                part = Coordinates(sums, points, None).project(weights)  # type: ignore
            else:
                coordinates = self._on(tuple(columns), kernel)
                part = coordinates.features.times(points, coordinates.gather(weights))
            guarded, height = guard.marginal(columns), -kernel.log_normaliser(len(columns))
            return guarded.mixed(arrays.to_numpy(part), arrays.to_numpy(points), height)

        return of_some

    def _on(self, columns: tuple[int, ...], kernel: Kernel) -> Coordinates:
        """Coordinates of some columns."""
        if columns not in self._marginals:
            points = arrays.take(self.coordinates.points, columns, axis=1)
            self._marginals[columns] = Coordinates.by_landmarks(points, kernel, RANK, LOST)
        return self._marginals[columns]

    def _emissions(self, weights: np.ndarray) -> Emissions:
        total = self.coordinates.gather(weights)
        return Emissions(self.coordinates.features, total, self._guard(weights), self.log_height)

    def _guard(self, weights: np.ndarray) -> Guard:
        return self.guard_of(self.points, weights, self._spread, self.discrete)

    def _gathered(self, gamma: np.ndarray) -> np.ndarray:
        """Σ of γ over the rows equal to each distinct one, (u, K)."""
        if isinstance(self.row, slice):
            return gamma
        u = len(self.points)
        return np.stack([np.bincount(self.row, column, minlength=u) for column in gamma.T], axis=1)


@dataclass(frozen=True)
class SmoothingByState:
    """A `Smoothing` for each state; `kernel` is the one that their bandwidths are multiples of."""

    kernel: Kernel
    parts: tuple[Smoothing, ...]

    def guarded(self, rule: GuardRule) -> SmoothingByState:
        """With another rule for the guards."""
        return replace(self, parts=tuple(part.guarded(rule) for part in self.parts))

    def emissions(self, gamma: np.ndarray) -> EmissionsByState:
        """The laws given the probabilities of the states, (n, K)."""
        widths = tuple(getattr(part.kernel, "lengthscale", None) for part in self.parts)
        laws = tuple(part.emissions(gamma[:, [k]]) for k, part in enumerate(self.parts))
        return EmissionsByState(laws, widths)

    def log_densities(self, gamma: np.ndarray) -> np.ndarray:
        """As `Smoothing.log_densities`."""
        return np.hstack([p.log_densities(gamma[:, [k]]) for k, p in enumerate(self.parts)])

    def marginals(self, gamma: np.ndarray) -> Marginals:
        """As `Smoothing.marginals`."""
        each = [p.marginals(gamma[:, [k]]) for k, p in enumerate(self.parts)]
        return lambda columns, points: np.hstack([one(columns, points) for one in each])


AnySmoothing = Smoothing | SmoothingByState


def smoothing_of(points, kernel: Kernel, widths: Sequence[float] | None) -> AnySmoothing:
    """Of rows, at one bandwidth, or at such multiples of it by state."""
    if widths is None:
        return Smoothing(points, kernel)
    each = [no_finer(kernel.scaled(w), arrays.to_numpy(points)) for w in widths]
    return SmoothingByState(kernel, tuple(Smoothing(points, one) for one in each))


def own_widths(points: np.ndarray, weights: np.ndarray) -> tuple[float, ...]:
    """What each state's bandwidth is by Silverman's rule, in their geometric mean.

    From rows and the weights (n, K) of the states in them: s_k N_k^{−1/(d+4)}, s_k the geometric
    mean of the columns' standard deviations; no column counts as constant in one state only.
    """
    guard = Guard.of(points, weights, spreads_of(points), False)
    varies = (guard.variances > 0).all(axis=0)
    size = np.log(guard.variances[:, varies]).mean(axis=1) / 2
    size = size - np.log(np.maximum(guard.counts, 1.0)) / (points.shape[1] + 4)
    return tuple(np.exp(size - size.mean()).tolist())

"""Sums over neighbouring rows in coordinates: what spectral learning and the order need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import add
from typing import Any

import numpy as np

from ..core import Array, Rows, Saveable, arrays, checks
from ..core.moments import block_rows, evenly
from ..core.rows import merged
from ..core.sequences import firsts, links
from ..core.threads import side_by_side
from ..features.base import FeatureMap
from ..features.landmarks import Nystroem, quietly
from ..kernels import Delta, Kernel


def whitened(moments: Moments, r: int, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """Directions (r', q) that whiten the q ≤ r leading ones, and the C₁₂ of these, centred.

    Centred exactly, on the means of the first and of the second of two neighbours: where the
    variance is small, what a row more or less does to the mean would count as a correlation.
    """
    values, vectors = np.linalg.eigh(moments.second - np.outer(moments.mean, moments.mean))
    lead = np.argsort(values)[::-1][:r]
    lead = lead[values[lead] > floor * values.max()]
    white = vectors[:, lead] / values[lead] ** 0.5
    centred = moments.pairs - np.outer(moments.earlier, moments.later)
    return white, white.T @ centred @ white


SMALLER = 8  # times than blocks elsewhere: each is a task of a core
LANDMARK_ROWS = 20_000  # that landmarks are chosen among
ENDS = slice(2), slice(-2, None)  # of rows that others may follow, or precede
SAMPLE, WHOLE = 256, 4096  # rows that say how near rows are, and of what Gram matrices are kept
KEPT = 2**27  # floats of coordinates that are kept (1 GiB); beyond, they are made block by block


@dataclass(frozen=True)
class Coordinates:
    """φ of the rows of `points`: all kept, or made anew for each use.

    Where they are not kept, sums over them and their products come from the kernel itself.
    """

    features: FeatureMap
    points: Array
    kept: Array | None

    @classmethod
    def of(cls, features: FeatureMap, points) -> Coordinates:
        """All kept if they fit in 1 GiB."""
        small = points.shape[0] * features.rank_ <= KEPT
        return cls(features, points, features.transform(points) if small else None)

    @classmethod
    def by_landmarks(cls, points, kernel: Kernel, rank: int, tol: float = 1e-6) -> Coordinates:
        """Nyström's, landmarks among evenly spaced rows; a trace that is lost is no news.

        The guard of the laws stands in for what the landmarks do not reach.
        """
        n, features = points.shape[0], Nystroem(tol=tol, max_rank=rank)
        whole = n <= LANDMARK_ROWS
        some = points if whole else arrays.take(points, evenly(n, LANDMARK_ROWS), axis=0)
        Phi = quietly(features, some, kernel)
        return cls(features, points, Phi if whole else None)

    def __getitem__(self, rows: slice) -> Array:
        if self.kept is not None:
            return self.kept[rows, :]
        return self.features.transform(self.points[rows, :])

    def by_blocks(self, of: Callable[[slice, Array], Any]) -> list:
        """What `of` says of numbers of rows and their coordinates, block by block."""
        return side_by_side(lambda rows: of(rows, self[rows]), self._blocks())

    def _blocks(self) -> Iterator[slice]:
        n, step = self.points.shape[0], block_rows(SMALLER * self.features.rank_)
        return (slice(i, min(i + step, n)) for i in range(0, max(n, 1), step))

    def run(self, of: Callable, seen: np.ndarray, first: np.ndarray) -> Run:
        """Sums `of` the coordinates."""

        def part(rows: slice, Phi: Array) -> Run:
            return Run(of, Phi, seen[rows], first[rows])

        return reduce(merged, self.by_blocks(part))

    def gather(self, weights: np.ndarray) -> Array:
        """Φᵀ times weights of the rows, (n, k): as wᵀΦ, which takes half the time."""
        given = arrays.like(weights, self.points)

        def of_some(rows: slice) -> Array:
            if self.kept is None:
                return self.features.sums(self.points[rows, :], given[rows, :])
            return (given[rows, :].T @ self.kept[rows, :]).T

        return reduce(add, side_by_side(of_some, self._blocks()))

    def project(self, directions) -> np.ndarray:
        """Φ times a matrix (r, k), likewise."""
        D = arrays.like(directions, self.points)

        def of_some(rows: slice) -> np.ndarray:
            if self.kept is None:
                return arrays.to_numpy(self.features.times(self.points[rows, :], D))
            return arrays.to_numpy((D.T @ self.kept[rows, :].T).T)

        return np.concatenate(side_by_side(of_some, self._blocks()))

    @cached_property
    def squares(self) -> np.ndarray:
        """φᵀφ of each row."""
        return np.concatenate(self.by_blocks(lambda _, Phi: arrays.to_numpy(Phi**2).sum(axis=1)))


@dataclass(frozen=True)
class KernelSums(Saveable):
    """Σ_s w_s k(y_s, ·), from weights of all rows: where landmarks would be hardly fewer.

    Attributes
    ----------
    kernel : Kernel
    points : array of shape (n, d)
    """

    kernel: Kernel
    points: Array

    @property
    def rank_(self) -> int:
        """How many numbers say a sum."""
        return self.points.shape[0]

    def times(self, X, coef) -> Array:
        """Its value at the rows of `X`."""
        return self.kernel.gram_of(X, self.points) @ coef


@dataclass(frozen=True)
class OwnCoordinates(Coordinates):
    """Rows by the kernel itself: `kept` is their Gram matrix, and weights say their own sum."""

    features: Any  # KernelSums

    def gather(self, weights: np.ndarray) -> Array:
        """The weights, (n, k)."""
        return arrays.like(weights, self.points)

    def project(self, directions) -> np.ndarray:
        """K times a matrix (n, k): the Gram matrix is its own transpose."""
        return arrays.to_numpy(super().gather(arrays.to_numpy(directions)))

    @cached_property
    def squares(self) -> np.ndarray:
        """k(y, y) of each row."""
        return arrays.to_numpy(self.features.kernel.diag_of(self.points))


def for_sums(points, kernel: Kernel, rank: int, tol: float) -> Coordinates:
    """By landmarks, or by the kernel itself where these would be more than a quarter of the rows.

    Which are ~3^d/E k(y, y')² where that is far from one, in d columns.
    """
    n, d = points.shape
    if d > 1 and SAMPLE < n <= WHOLE and not isinstance(kernel, Delta):
        some = arrays.take(points, evenly(n, SAMPLE), axis=0)
        near = (arrays.to_numpy(kernel.gram_of(some, some)) ** 2).mean() - 1 / SAMPLE
        if n * near < 4 * 3**d:
            sums = KernelSums(kernel, points)
            return OwnCoordinates(sums, points, kernel.gram_of(points, points))
    return Coordinates.by_landmarks(points, kernel, rank, tol)


@dataclass(frozen=True)
class FarCoordinates(Coordinates):
    """Of rows that are elsewhere; `points` are some of them.

    Attributes
    ----------
    rows : Rows
        Of tuples: observations and, where there are several sequences, whether one begins there.
    """

    rows: Rows

    def run(self, of: Callable, seen: np.ndarray, first: np.ndarray) -> Run:
        """Sums over all rows, those of each block made where it is."""
        return self.rows.reduce(_run_of, self.features, of)


def _run_of(block: tuple, features: FeatureMap, of: Callable) -> Run:
    points = checks.as_points(block[0], "X", one_d=False)
    seen = np.ones(points.shape[0], dtype=bool)
    first = np.asarray(block[1], dtype=bool) if len(block) > 1 else ~seen
    return Coordinates(features, points, None).run(of, seen, first)


class Run:
    """Rows of aligned arrays that follow each other: sums over them, and the two at either end.

    Attributes
    ----------
    of : callable
        From rows to a tuple of sums over them, over neighbours and over triples.
    sums : tuple
    head, tail : tuple of arrays
    """

    def __init__(self, of: Callable, *rows):
        self.of, self.sums = of, of(*rows)
        self.head, self.tail = (tuple(a[side, ...] for a in rows) for side in ENDS)

    def merge(self, other: Run) -> Run:
        """Both: with the pairs and triples that go on from the one to the other."""
        whole, middle = copy(self), self.of(*_joined(self.tail, other.head))
        apart = self.of(*self.tail), self.of(*other.head)
        terms = zip(self.sums, other.sums, middle, *apart, strict=True)
        whole.sums = tuple(a + b + (both - one - two) for a, b, both, one, two in terms)
        whole.head = tuple(a[:2, ...] for a in _joined(self.head, other.head))
        whole.tail = tuple(a[-2:, ...] for a in _joined(self.tail, other.tail))
        return whole


def _joined(earlier: tuple, later: tuple) -> list:
    return [arrays.namespace(a).concat([a, b], axis=0) for a, b in zip(earlier, later, strict=True)]


# ------------------------------------------------------------ moments


class Moments:
    """Means over rows, pairs and triples of rows that follow each other; some are not `seen`.

    Attributes
    ----------
    mean : array of shape (r,)
        E φ(Y).
    second, pairs, skips : arrays of shape (r, r)
        C₁₁ = E φ(Y)φ(Y)ᵀ, C₁₂ = E φ(Y_1)φ(Y_2)ᵀ over neighbours, and C₁₃ over triples.
    earlier, later : arrays of shape (r,)
        Means of the first and of the second of two neighbours.
    n_pairs, n_triples : int
    steps : tuple of bool arrays of shape (n,)
        Whether each row is observed, and whether a sequence begins with it.
    """

    def __init__(self, coordinates: Coordinates, seen: np.ndarray, sequences):
        first = firsts(sequences, len(seen))
        *sums, n, pairs, triples = coordinates.run(_terms, seen, first).sums
        counts = (n, n, pairs, triples, pairs, pairs)
        means = (total / count for total, count in zip(sums, counts, strict=True))
        self.mean, self.second, self.pairs, self.skips, self.earlier, self.later = means
        self.n_pairs, self.n_triples, self.steps = int(pairs), int(triples), (seen, first)

    def third(self, coordinates: Coordinates, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """T_abc = E (φ(Y_1)ᵀu¹_a)(φ(Y_2)ᵀu_b)(φ(Y_3)ᵀu_c), u¹ and u the columns given."""
        both = np.concatenate([left, right], axis=1)
        (T,) = coordinates.run(partial(_third, left.shape[1], both), *self.steps).sums
        return T / self.n_triples


def _terms(Phi, seen: np.ndarray, first: np.ndarray) -> tuple:
    """Sums that `Moments` are means of, and how many there are."""
    uses = seen, *links(seen, first)
    products = (_product(Phi, use, lag) for lag, use in enumerate(uses))
    ends = (_sum(Phi[rows, :], uses[1]) for rows in (slice(-1), slice(1, None)))
    return _sum(Phi, seen), *products, *ends, *(use.sum() for use in uses)


def _third(K: int, by, Phi, seen: np.ndarray, first: np.ndarray) -> tuple[np.ndarray]:
    """Σ a¹_t ⊗ a_{t+1} ⊗ a_{t+2}, (K, K, K), of rows [a¹, a] = Φ `by`."""
    A, (_, use) = arrays.to_numpy(Phi @ arrays.like(by, Phi)), links(seen, first)
    one, two, three = (A[i : i + len(use)][use] for i in range(3))
    return (np.einsum("ta,tb,tc->abc", one[:, :K], two[:, K:], three[:, K:], optimize=True),)


def _sum(Phi, use: np.ndarray) -> np.ndarray:
    return arrays.to_numpy(arrays.like(use.astype(float), Phi) @ Phi)


def _product(Phi, use: np.ndarray, lag: int) -> np.ndarray:
    """Σ_t φ_t φ_{t+lag}ᵀ over the rows t to use."""
    earlier, later = Phi[: len(use), :], Phi[lag : lag + len(use), :]
    if not use.all():
        later = later * arrays.like(use.astype(float), Phi)[:, None]
    return arrays.to_numpy(earlier.T @ later)


def numerical_rank(sigma: np.ndarray) -> int:
    """How many singular values are more than rounding."""
    return int((sigma > len(sigma) * arrays.EPS * 10 * sigma[0]).sum())

"""Sums over neighbouring rows in coordinates: what spectral learning and the order need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..core import arrays
from ..core.checks import Array
from ..core.moments import block_rows
from ..core.sequences import neighbours, triples_of
from ..features.base import FeatureMap


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


KEPT = 2**27  # floats of coordinates that are kept (1 GiB); beyond, they are made block by block


@dataclass(frozen=True)
class Coordinates:
    """φ of the rows of `points`: all kept if they fit in 1 GiB, else made anew for each use."""

    features: FeatureMap
    points: Array
    kept: Array | None

    @classmethod
    def of(cls, features: FeatureMap, points) -> Coordinates:
        small = points.shape[0] * features.rank_ <= KEPT
        return cls(features, points, features.transform(points) if small else None)

    def reordered(self, points, order: np.ndarray) -> Coordinates:
        """Of the same rows in another order, `points`."""
        kept = self.kept
        return Coordinates(
            self.features, points, None if kept is None else arrays.take(kept, order, axis=0)
        )

    def __getitem__(self, rows: slice) -> Array:
        if self.kept is not None:
            return self.kept[rows, :]
        return self.features.transform(self.points[rows, :])

    def blocks(self, overlap: int = 0) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows, each with as many rows more as it shares with the next."""
        n, step = self.points.shape[0], block_rows(self.features.rank_)
        for start in range(0, max(n - overlap, 1), step):
            rows = slice(start, min(start + step + overlap, n))
            yield rows, self[rows]

    def gather(self, weights: np.ndarray) -> Array:
        """Φᵀ times weights of the rows, (n, k)."""
        parts = [Phi.T @ arrays.like(weights[rows], Phi) for rows, Phi in self.blocks()]
        return sum(parts[1:], start=parts[0])

    def project(self, directions) -> np.ndarray:
        """Φ times a matrix (r, k)."""
        D = arrays.like(directions, self.points)
        return np.concatenate([arrays.to_numpy(Phi @ D) for _, Phi in self.blocks()])


# ------------------------------------------------------------ moments


@dataclass(frozen=True)
class Moments:
    """Means over rows, pairs and triples of rows that follow each other.

    Attributes
    ----------
    mean : array of shape (r,)
        E φ(Y).
    second, pairs, skips : arrays of shape (r, r)
        C₁₁ = E φ(Y)φ(Y)ᵀ, C₁₂ = E φ(Y_1)φ(Y_2)ᵀ over neighbours, and C₁₃ over triples.
    earlier, later : arrays of shape (r,)
        Means of the first and of the second of two neighbours.
    triples : bool array of shape (n - 2,)
        Whether rows t, t+1, t+2 are of one sequence, and observed.
    n_pairs : int
    """

    mean: np.ndarray
    second: np.ndarray
    pairs: np.ndarray
    skips: np.ndarray
    earlier: np.ndarray
    later: np.ndarray
    triples: np.ndarray
    n_pairs: int

    @classmethod
    def of(cls, coordinates: Coordinates, seen: np.ndarray, sequences) -> Moments:
        """Sums over blocks of rows; rows that are not `seen` are left out."""
        linked, triples = neighbours(seen, sequences), triples_of(seen, sequences)
        sums: list[np.ndarray] = []
        for rows, Phi in coordinates.blocks(overlap=2):
            start, m = rows.start, Phi.shape[0]
            own = m if rows.stop == len(seen) else m - 2  # rows that no later block counts
            here, pair = seen[start : start + own], linked[start : start + min(own, m - 1)]
            terms = [
                _sum(Phi[:own, :], here),
                _product(Phi, here, 0),
                _product(Phi, pair, 1),
                _product(Phi, triples[start : start + m - 2], 2),
                _sum(Phi[: len(pair), :], pair),
                _sum(Phi[1 : 1 + len(pair), :], pair),
            ]
            sums = terms if not sums else [x + y for x, y in zip(sums, terms, strict=True)]
        n, n_pairs, n_triples = (int(rows.sum()) for rows in (seen, linked, triples))
        counts = (n, n, n_pairs, n_triples, n_pairs, n_pairs)
        mean, second, pairs, skips, earlier, later = (
            total / count for total, count in zip(sums, counts, strict=True)
        )
        return cls(mean, second, pairs, skips, earlier, later, triples, n_pairs)

    def third(self, coordinates: Coordinates, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """T_abc = E (φ(Y_1)ᵀu¹_a)(φ(Y_2)ᵀu_b)(φ(Y_3)ᵀu_c), u¹ and u the columns given."""
        K = left.shape[1]
        both = arrays.like(np.concatenate([left, right], axis=1), coordinates.points)
        T = np.zeros((K, K, K))
        for rows, Phi in coordinates.blocks(overlap=2):
            A = arrays.to_numpy(Phi @ both)
            use = self.triples[rows.start : rows.stop - 2]
            first, second, third = A[:-2, :K][use], A[1:-1, K:][use], A[2:, K:][use]
            for b in range(K):
                T[:, b, :] += first.T @ (second[:, b, None] * third)
        return T / self.triples.sum()


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

"""Feature maps: points become rows of coordinates whose inner products are those of the RKHS."""

import math
from collections.abc import Callable
from functools import partial, reduce
from operator import add

import numpy as np
from sklearn.base import clone

from ..core import Array, Rows, arrays, checks, solves
from ..core.minimise import SEARCH_ROWS
from ..core.moments import block_rows, evenly, row_blocks
from ..core.threads import side_by_side
from ..kernels import Kernel
from .base import FeatureMap

FEW = 256  # rows whose Gram matrix stays in cache: pivoted whole, in a fifth of the time
FINER = 10.0  # tolerance of landmarks that blocks propose, as a share of the one asked for
CACHED = 8192  # columns per block when adding landmarks: the working set stays in cache
CACHED_SHARE = 32  # of a block: likewise, where its coordinates are made


class Landmarks(FeatureMap):
    """φ(x) = L⁻¹ k_S(x), with S rows of the data and L Lᵀ = K_SS (MATH §1)."""

    def _keep(self, X, rows: np.ndarray, Phi) -> Array:
        """Store landmarks and factor, given the coordinates of the training rows."""
        xp = arrays.namespace(X)
        self.indices_: np.ndarray | None = rows
        self.landmarks_ = arrays.take(X, rows, axis=0)
        self.factor_ = xp.tril(arrays.take(Phi, rows, axis=0))
        self.rank_ = int(rows.shape[0])
        self._lost(_sum_squares(Phi), float(xp.sum(self.kernel_.diag_of(X))))
        return Phi

    def _lost(self, kept: float, total: float) -> None:
        self.lost_trace_ = max(0.0, 1.0 - kept / total) if total > 0 else 0.0

    def times(self, X, coef) -> Array:
        """φ(x)ᵀ coef, from the kernel itself: coordinates are not formed."""
        at_landmarks = solves.solve_lower(self.factor_, coef, transposed=True)
        return self._each_gram(self._checked(X), lambda K: K @ at_landmarks)

    def sums(self, X, weights) -> Array:
        """Σ_i φ(x_i) w_iᵀ, likewise."""
        X, step = self._checked(X), block_rows(self.rank_ * CACHED_SHARE)
        blocks = row_blocks(X, weights, rows=step)
        terms = (self.kernel_.gram_of(self.landmarks_, some) @ own for some, own in blocks)
        return solves.solve_lower(self.factor_, reduce(add, terms))

    def _each_gram(self, X, times: Callable[[Array], Array]) -> Array:
        """Of Gram matrices of blocks of rows and the landmarks, put together."""
        checks.check_library(X, self.landmarks_, "X")
        rows = block_rows(self.rank_ * (CACHED_SHARE if isinstance(X, np.ndarray) else 1))
        blocks = row_blocks(X, rows=rows)
        parts = [times(self.kernel_.gram_of(block, self.landmarks_)) for (block,) in blocks]
        return parts[0] if len(parts) == 1 else arrays.namespace(X).concat(parts)

    def _transform(self, X) -> Array:
        if X.shape[0] <= self.rank_:
            checks.check_library(X, self.landmarks_, "X")
            return solves.solve_lower(self.factor_, self.kernel_.gram_of(self.landmarks_, X)).T
        # of many rows a product takes half the time of a solve, and is as accurate here
        inverse = solves.solve_lower(self.factor_, arrays.like(np.eye(self.rank_), self.factor_))
        return self._each_gram(X, lambda K: solves.times_transposed(K, inverse))

    def derivative_of(self, X, column: int) -> Array:
        slopes = self.kernel_.derivative_of(X, self.landmarks_, column)
        return solves.solve_lower(self.factor_, slopes.T).T


class Further:
    """Coordinates that points beyond the landmarks add, orthogonal to those of the landmarks.

    One more step of the same Cholesky factorisation: with the residual kernel
    k − φᵀφ at the points s, R Rᵀ, the new coordinates of x are R⁻¹(k_s(x) − Φ_sφ(x)).

    Attributes
    ----------
    points, Phi_p : arrays of shape (p, d), (p, r)
        Pivots among the points, and their old coordinates.
    R : array of shape (p, p)
    Phi_s : array of shape (s, r + p)
        Old and new coordinates of all the points.
    """

    def __init__(self, features: Landmarks, points, Phi_s):
        residual = arrays.to_numpy(features.kernel_.gram_of(points, points) - Phi_s @ Phi_s.T)
        size = float(arrays.namespace(points).max(features.kernel_.diag_of(points)))
        pivots, F = solves.pivoted_cholesky(residual, 10 * (len(residual) * arrays.EPS * size))
        every = points, Phi_s, arrays.like(F, points)
        self.points, self.Phi_p, self.R = (arrays.take(A, pivots, axis=0) for A in every)
        self.Phi_s = arrays.namespace(points).concat(every[1:], axis=1)
        self.features = features

    def widened(self, X, Phi) -> Array:
        """Old and new coordinates of the rows of `X`."""
        K = self.features.kernel_.gram_of(self.points, X) - self.Phi_p @ Phi.T
        return arrays.namespace(X).concat([Phi, solves.solve_lower(self.R, K).T], axis=1)

    def padded(self, Phi) -> Array:
        """Coordinates of points that the landmarks span: nothing new."""
        zeros = arrays.like(np.zeros((Phi.shape[0], self.R.shape[0])), Phi)
        return arrays.namespace(Phi).concat([Phi, zeros], axis=1)


def _sum_squares(Phi) -> float:
    blocks = row_blocks(Phi, rows=block_rows(Phi.shape[1]))
    return sum(float(arrays.namespace(Phi).sum(block**2)) for (block,) in blocks)


class Nystroem(Landmarks):
    """Coordinates from landmarks found by randomly pivoted Cholesky.

    ΦΦᵀ = K_{·S} K_SS⁻¹ K_{S·}, with landmarks drawn in proportion to what the Gram matrix still
    has on its diagonal, and accepted in blocks by rejection, so that the law is that of drawing
    one at a time; of up to 256 rows the one with the most left is next, and none are drawn.
    The Gram matrix of more is never formed: O(n r²) time, O(n r) memory.

    Parameters
    ----------
    tol : float
        Stop when trace(K − ΦΦᵀ) < tol · trace(K).
    max_rank : int
        Most landmarks. If they are used up above `tol`, a `NumericalWarning` says what was lost.
    random_state : int, Generator, RandomState or None
    sample : int or None
        Of rows that are elsewhere (Dask, `Rows`), landmarks are chosen from so many evenly spaced
        ones. None is from all of them, in two rounds: each block proposes landmarks of its own, and
        those of eight blocks at a time are pivoted again. What is lost is measured on all rows
        either way.

    Attributes
    ----------
    landmarks_, indices_ : the landmarks and their row numbers
    factor_ : lower triangular L with L Lᵀ = K_SS
    lost_trace_ : float
        trace(K − ΦΦᵀ) / trace(K).

    References
    ----------
    Chen, Epperly, Tropp, Webber (2022), Randomly pivoted Cholesky; Epperly, Tropp, Webber (2024),
    Embrace rejection (the blocked form).

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> X = np.linspace(0, 1, 500)[:, None]
    >>> Phi = km.Nystroem(tol=1e-10).fit_transform(X, km.Gaussian(0.3))
    >>> Phi.shape[1] < 20, bool(np.abs(Phi @ Phi.T - km.Gaussian(0.3)(X)).max() < 1e-7)
    (True, True)
    """

    sample: int | None = SEARCH_ROWS  # a file of an earlier version has none

    def __init__(self, tol=1e-6, max_rank=1000, random_state=0, sample=SEARCH_ROWS):
        self.tol = tol
        self.max_rank = max_rank
        self.random_state = random_state
        self.sample = sample

    def _fit_far(self, rows: Rows, kernel) -> None:
        limit = SEARCH_ROWS if self.sample is None else checks.check_count(self.sample, "sample")
        with checks.hushed():
            self.fit(rows.few(limit)[0], kernel)
            if self.sample is not None:
                self.indices_ = evenly(rows.n, limit)[self.indices_]
            else:  # the losses of both rounds add up
                finer = clone(self).set_params(tol=self.tol / FINER), self.kernel_
                points = rows.reduce(_proposed, *finer, merge=partial(_pivoted, finer))
                finer[0].fit(points, self.kernel_)
                self.landmarks_, self.factor_ = finer[0].landmarks_, finer[0].factor_
                self.rank_, self.indices_ = finer[0].rank_, None  # of rows that were not numbered
        self._lost(*rows.reduce(_traces, self, merge=add).tolist())
        if self.lost_trace_ > self.tol:
            checks.warn_numerical(
                f"Nystroem has {self.rank_} landmarks, with {self.lost_trace_:.2g} of the trace of "
                f"the Gram matrix of all rows lost, above tol={self.tol:g}; raise sample (None is "
                "all rows), max_rank or tol",
            )

    def _fit_transform(self, X) -> Array:
        tol = checks.check_positive(self.tol, "tol")
        if tol >= 1:
            raise ValueError(f"tol is {tol}; a share of the trace, below 1, is needed")
        max_rank = checks.check_count(self.max_rank, "max_rank")
        if self.sample is not None:
            checks.check_count(self.sample, "sample")
        rng = checks.generator(self.random_state)
        if X.shape[0] <= FEW:
            rows, F, spent = _largest_pivots(X, self.kernel_, tol, max_rank)
        else:
            rows, F, spent = _random_pivots(X, self.kernel_, tol, max_rank, rng)
        Phi = self._keep(X, rows, F.T)
        if spent:
            checks.warn_numerical(
                f"Nystroem stopped at max_rank={max_rank} with {self.lost_trace_:.2g} of the trace "
                f"of the Gram matrix lost, above tol={tol:g}; raise max_rank or tol",
            )
        return Phi


def quietly(features: FeatureMap, X, kernel) -> Array:
    """`fit_transform` without a word: a rank that is used up loses nothing but precision."""
    with checks.hushed():
        return features.fit_transform(X, kernel)


def _proposed(block: tuple, features: Nystroem, kernel: Kernel) -> Array:
    """Landmarks of a block, by pieces, whose coordinates are few numbers."""
    pieces = row_blocks(checks.as_points(block[0], "X"), rows=SEARCH_ROWS)
    found = (clone(features).fit(piece, kernel).landmarks_ for (piece,) in pieces)
    return reduce(partial(_pivoted, (features, kernel)), found)


def _pivoted(how: tuple, one, other) -> Array:
    """Landmarks of two sets of them."""
    features, kernel = how
    return clone(features).fit(arrays.namespace(one).concat([one, other]), kernel).landmarks_


def _traces(block: tuple, features: Nystroem) -> np.ndarray:
    """Of ΦΦᵀ and of K, over the rows of a block."""
    Phi = features.transform(block[0])
    return np.array([_sum_squares(Phi), float(features.kernel_.diag(block[0]).sum())])


def _largest_pivots(X, kernel: Kernel, tol: float, max_rank: int) -> tuple:
    """What `_random_pivots` returns, of few rows: the one with the most left is next."""
    K, diagonal = (arrays.to_numpy(A) for A in (kernel.gram_of(X, X), kernel.diag_of(X)))
    n, trace = K.shape[0], float(K.trace())
    target = trace - (1 - tol) * float(diagonal.sum())  # a diagonal may have what K has not
    floor = max(n * arrays.EPS * float(K.diagonal().max()), target / n)
    rows, F = solves.pivoted_cholesky(K, floor)
    left = trace - np.cumsum((F**2).sum(0))
    enough = min(int(np.searchsorted(-left, -target)) + 1, len(rows))
    rank = min(enough, max_rank)
    Phi = np.ascontiguousarray(F[:, :rank].T)
    return rows[:rank].astype(np.int64), arrays.like(Phi, X), rank < enough


def _random_pivots(X, kernel: Kernel, tol: float, max_rank: int, rng) -> tuple:
    """Landmark rows, transposed coordinates F (r, n), and whether max_rank cut it above tol."""
    n = X.shape[0]
    # what the diagonal of K − FᵀF still holds
    left = np.array(arrays.to_numpy(kernel.diag_of(X)))
    target = tol * float(left.sum())
    floor = n * arrays.EPS * float(left.max())  # below this a pivot is rounding error
    shape = (min(max_rank, n), n)
    F = arrays.namespace(X).empty(shape, dtype=X.dtype, device=getattr(X, "device", None))
    pivots: list[int] = []
    while True:
        weights = np.where(left > floor, left, 0.0)
        rank, remaining = len(pivots), float(weights.sum())
        if remaining <= target or rank == F.shape[0]:
            break
        block = min(max(16, rank), 128)
        proposed = np.searchsorted(np.cumsum(weights) / remaining, rng.random(block))
        new, H = _accept(X, kernel, F[:rank, :], proposed, floor, F.shape[0] - rank, rng)
        if not new.size:  # nothing is left at any proposal: a diagonal that its Gram matrix has not
            left[proposed] = 0.0
            continue
        removed = _add_coordinates(X, kernel, F, rank, new, H)
        # no more of the block than the tolerance asks for
        enough = np.searchsorted(-(remaining - np.cumsum(removed.sum(1))), -target) + 1
        new, removed = new[:enough], removed[:enough, :]
        left = np.maximum(left - removed.sum(0), 0.0)
        left[new] = 0.0
        pivots.extend(new.tolist())
    return np.asarray(pivots, dtype=np.int64), F[: len(pivots), :], remaining > target


def _accept(X, kernel, F, proposed: np.ndarray, floor: float, room: int, rng) -> tuple:
    """The proposals kept, and the block of K − FᵀF at these.

    Each with probability (what it has left now)/(at the block's start).
    """
    points, coords = arrays.take(X, proposed, axis=0), arrays.take(F, proposed, axis=1)
    H = arrays.to_numpy(kernel.gram_of(points, points) - coords.T @ coords)
    left = H.diagonal().copy()
    least = np.maximum(rng.random(len(proposed)) * left, floor).tolist()
    L = np.empty_like(H)  # by rows: coordinates that what is accepted adds to all proposals
    kept: list[int] = []
    for i, bound in enumerate(least):
        if (r := len(kept)) < room and left[i] > bound:
            L[r] = (H[i] - L[:r, i] @ L[:r]) / math.sqrt(left[i])
            left -= L[r] ** 2
            kept.append(i)
    return proposed[kept], H[kept][:, kept]


def _add_coordinates(X, kernel, F, rank: int, new: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Write the rows that landmarks `new` add to F and return their squares, (len(new), n).

    The rows are R⁻¹ (k(S', ·) − F_{S'}ᵀ F), R Rᵀ being the residual `H` at S'; computed in blocks
    of columns that stay in the processor's cache.
    """
    old, stop, R = F[:rank, :], rank + len(new), arrays.like(np.linalg.cholesky(H), F)
    points, coords = arrays.take(X, new, axis=0), arrays.take(old, new, axis=1)

    def write(some: slice) -> None:
        G = kernel.gram_of(points, X[some, :])
        G -= coords.T @ old[:, some]
        F[rank:stop, some] = solves.solve_lower(R, G)

    side_by_side(write, arrays.slices(X.shape[0], CACHED))
    return arrays.to_numpy(F[rank:stop, :] ** 2)


class Exact(Landmarks):
    """Coordinates of full numerical rank: every independent row is a landmark, ΦΦᵀ = K.

    The one place where an n×n matrix is formed: O(n³) time, O(n²) memory. For checks and for
    small data.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> X = np.arange(4.0)[:, None]
    >>> Phi = km.Exact().fit_transform(X, km.Gaussian(1.0))
    >>> bool(np.allclose(Phi @ Phi.T, km.Gaussian(1.0)(X)))
    True
    """

    def _fit_far(self, rows: Rows, kernel) -> None:
        raise ValueError("Exact is of all rows at once, in memory; Nystroem takes rows elsewhere")

    def _fit_transform(self, X) -> Array:
        rows, F = solves.pivoted_cholesky(arrays.to_numpy(self.kernel_.gram_of(X, X)))
        return self._keep(X, rows, arrays.like(F, X))

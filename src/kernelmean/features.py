"""Feature maps: points become rows of coordinates whose inner products are those of the RKHS."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from . import linalg
from ._validation import (
    Array,
    NumericalWarning,
    check_column,
    check_columns,
    check_count,
    check_positive,
    generator,
)
from .kernels import Kernel, as_kernel, check_size
from .moments import block_rows, row_blocks
from .persistence import Saveable

CACHED = 8192  # columns per block when adding landmarks: the working set stays in cache


class FeatureMap(Saveable, BaseEstimator):
    """Points → coordinates φ(x) ∈ R^r with φ(x)ᵀφ(x') ≈ k(x, x').

    Fitted attributes: `kernel_` (resolved), `rank_` (r), `n_features_in_`.
    """

    learns_from_pairs = False  # whether fitting needs what is to be predicted (`Neural`)

    def fit(self, X, kernel="gaussian") -> FeatureMap:
        """Choose the coordinates from the rows of `X`."""
        self.fit_transform(X, kernel)
        return self

    def fit_transform(self, X, kernel="gaussian") -> Array:
        """Choose the coordinates from `X` and return those of its rows, shape (n, r)."""
        kernel = as_kernel(kernel)
        X = kernel._points(X, "X")
        self.kernel_ = kernel.resolve(X)
        self.n_features_in_ = X.shape[1]
        check_size(self.kernel_, X)
        return self._fit_transform(X)

    def transform(self, X) -> Array:
        """Coordinates of the rows of `X`, shape (n, r)."""
        check_is_fitted(self)
        X = self.kernel_._points(X, "X")
        check_columns(X, self.n_features_in_, "X", "the points this map was fitted on")
        return self._transform(X)

    def derivative(self, X, column: int) -> Array:
        """∂φ(x)/∂x_column at the rows of `X`, shape (n, r).

        Raises
        ------
        ValueError
            If the kernel has no derivative in closed form, or the features none at all.
        """
        check_is_fitted(self)
        X = self.kernel_._points(X, "X")
        check_columns(X, self.n_features_in_, "X", "the points this map was fitted on")
        return self._derivative(X, check_column(column, X.shape[1]))

    def _fit_transform(self, X) -> Array:
        raise NotImplementedError

    def _transform(self, X) -> Array:
        raise NotImplementedError

    def _derivative(self, X, column: int) -> Array:
        raise ValueError(f"{type(self).__name__} features have no derivative")


class Landmarks(FeatureMap):
    """φ(x) = L⁻¹ k_S(x), with S rows of the data and L Lᵀ = K_SS (MATH §1)."""

    def _keep(self, X, rows: np.ndarray, Phi) -> Array:
        """Store landmarks and factor, given the coordinates of the training rows."""
        xp = linalg.namespace(X)
        self.indices_ = rows
        self.landmarks_ = linalg.take(X, rows, axis=0)
        self.factor_ = xp.tril(linalg.take(Phi, rows, axis=0))
        self.rank_ = int(rows.shape[0])
        total = float(xp.sum(self.kernel_._diag(X)))
        self.lost_trace_ = max(0.0, 1.0 - _sum_squares(Phi) / total) if total > 0 else 0.0
        return Phi

    def _transform(self, X) -> Array:
        step = block_rows(self.rank_)
        if X.shape[0] <= step:
            return self._transform_block(X)
        blocks = row_blocks(X, rows=step)
        return linalg.namespace(X).concat([self._transform_block(block) for (block,) in blocks])

    def _transform_block(self, X) -> Array:
        return linalg.solve_lower(self.factor_, self.kernel_._gram(self.landmarks_, X)).T

    def _derivative(self, X, column: int) -> Array:
        slopes = self.kernel_._derivative(X, self.landmarks_, column)
        return linalg.solve_lower(self.factor_, slopes.T).T


@dataclass(frozen=True)
class Further:
    """Coordinates that points beyond the landmarks add, orthogonal to those of the landmarks.

    One more step of the same Cholesky factorisation: with the residual kernel
    k − φᵀφ at the points s, R Rᵀ, the new coordinates of x are R⁻¹(k_s(x) − Φ_sφ(x)).
    """

    features: Landmarks
    points: Array  # pivots among the points
    Phi_p: Array  # their old coordinates
    R: Array
    Phi_s: Array  # old and new coordinates of all the points

    @classmethod
    def of(cls, features: Landmarks, points, Phi_s) -> Further:
        residual = linalg.to_numpy(features.kernel_._gram(points, points) - Phi_s @ Phi_s.T)
        floor = (
            len(residual)
            * linalg.EPS
            * float(linalg.namespace(points).max(features.kernel_._diag(points)))
        )
        pivots, F = linalg.pivoted_cholesky(residual, 10 * floor)
        new = linalg.like(F, points)
        return cls(
            features,
            linalg.take(points, pivots, axis=0),
            linalg.take(Phi_s, pivots, axis=0),
            linalg.take(new, pivots, axis=0),
            linalg.namespace(points).concat([Phi_s, new], axis=1),
        )

    def widened(self, X, Phi) -> Array:
        """Old and new coordinates of the rows of `X`."""
        K = self.features.kernel_._gram(self.points, X) - self.Phi_p @ Phi.T
        return linalg.namespace(X).concat([Phi, linalg.solve_lower(self.R, K).T], axis=1)

    def padded(self, Phi) -> Array:
        """Coordinates of points that the landmarks span: nothing new."""
        xp = linalg.namespace(Phi)
        device = getattr(Phi, "device", None)
        zeros = xp.zeros((Phi.shape[0], self.R.shape[0]), dtype=Phi.dtype, device=device)
        return xp.concat([Phi, zeros], axis=1)


def _sum_squares(Phi) -> float:
    blocks = row_blocks(Phi, rows=block_rows(Phi.shape[1]))
    return sum(float(linalg.namespace(Phi).sum(block**2)) for (block,) in blocks)


class Nystroem(Landmarks):
    """Coordinates from landmarks found by randomly pivoted Cholesky.

    ΦΦᵀ = K_{·S} K_SS⁻¹ K_{S·}, with landmarks drawn in proportion to what the Gram matrix still
    has on its diagonal, and accepted in blocks by rejection, so that the law is that of drawing
    one at a time. The Gram matrix is never formed: O(n r²) time, O(n r) memory.

    Parameters
    ----------
    tol : float
        Stop when trace(K − ΦΦᵀ) < tol · trace(K).
    max_rank : int
        Most landmarks. If they are used up above `tol`, a `NumericalWarning` says what was lost.
    random_state : int, Generator, RandomState or None

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

    def __init__(self, tol=1e-6, max_rank=1000, random_state=0):
        self.tol = tol
        self.max_rank = max_rank
        self.random_state = random_state

    def _fit_transform(self, X) -> Array:
        tol = check_positive(self.tol, "tol")
        if tol >= 1:
            raise ValueError(f"tol is {tol}; a share of the trace, below 1, is needed")
        max_rank = check_count(self.max_rank, "max_rank")
        rng = generator(self.random_state)
        rows, F, spent = _random_pivots(X, self.kernel_, tol, max_rank, rng)
        Phi = self._keep(X, rows, F.T)
        if spent:
            warnings.warn(
                f"Nystroem stopped at max_rank={max_rank} with {self.lost_trace_:.2g} of the trace "
                f"of the Gram matrix lost, above tol={tol:g}; raise max_rank or tol",
                NumericalWarning,
                stacklevel=3,
            )
        return Phi


def _random_pivots(X, kernel: Kernel, tol: float, max_rank: int, rng) -> tuple:
    """Landmark rows, transposed coordinates F (r, n), and whether max_rank cut it above tol."""
    n = X.shape[0]
    # what the diagonal of K − FᵀF still holds
    left = np.array(linalg.to_numpy(kernel._diag(X)))
    target = tol * float(left.sum())
    floor = n * linalg.EPS * float(left.max())  # below this a pivot is rounding error
    F = linalg.namespace(X).empty(
        (min(max_rank, n), n), dtype=X.dtype, device=getattr(X, "device", None)
    )
    pivots: list[int] = []
    while True:
        weights = np.where(left > floor, left, 0.0)
        rank, remaining = len(pivots), float(weights.sum())
        if remaining <= target or rank == F.shape[0]:
            break
        block = min(max(16, rank), 128)
        proposed = np.searchsorted(np.cumsum(weights) / remaining, rng.random(block))
        new = _accept(X, kernel, F[:rank, :], proposed, floor, F.shape[0] - rank, rng)
        removed = _add_coordinates(X, kernel, F, rank, new)
        # no more of the block than the tolerance asks for
        enough = np.searchsorted(-(remaining - np.cumsum(removed.sum(1))), -target) + 1
        new, removed = new[:enough], removed[:enough, :]
        left = np.clip(left - removed.sum(0), 0.0, None)
        left[new] = 0.0
        pivots.extend(new)
    return np.asarray(pivots, dtype=np.int64), F[: len(pivots), :], remaining > target


def _accept(X, kernel, F, proposed: np.ndarray, floor: float, room: int, rng) -> list[int]:
    """The proposals kept: each with probability (what it has left now)/(at the block's start)."""
    H = np.array(linalg.to_numpy(_residual(X, kernel, F, proposed)))
    start = H.diagonal().copy()
    accepted: list[int] = []
    for i, u in enumerate(rng.random(len(proposed))):
        if len(accepted) < room and H[i, i] > floor and u * start[i] < H[i, i]:
            column = H[:, i] / math.sqrt(H[i, i])
            H -= np.outer(column, column)
            accepted.append(int(proposed[i]))
    return accepted


def _residual(X, kernel, F, rows) -> Array:
    """The block of K − FᵀF at `rows`."""
    points, coords = linalg.take(X, rows, axis=0), linalg.take(F, rows, axis=1)
    return kernel._gram(points, points) - coords.T @ coords


def _add_coordinates(X, kernel, F, rank: int, new: list[int]) -> np.ndarray:
    """Write the rows that landmarks `new` add to F and return their squares, (len(new), n).

    The rows are R⁻¹ (k(S', ·) − F_{S'}ᵀ F), R Rᵀ being the residual at S'; computed in blocks of
    columns that stay in the processor's cache.
    """
    old, stop = F[:rank, :], rank + len(new)
    R = linalg.namespace(X).linalg.cholesky(_residual(X, kernel, old, new))
    points, coords = linalg.take(X, new, axis=0), linalg.take(old, new, axis=1)
    for i in range(0, X.shape[0], CACHED):
        j = min(i + CACHED, X.shape[0])
        G = kernel._gram(points, X[i:j, :])
        G -= coords.T @ old[:, i:j]
        F[rank:stop, i:j] = linalg.solve_lower(R, G)
    return linalg.to_numpy(F[rank:stop, :] ** 2)


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

    def _fit_transform(self, X) -> Array:
        K = linalg.to_numpy(self.kernel_._gram(X, X))
        rows, F = linalg.pivoted_cholesky(K)
        return self._keep(X, rows, linalg.like(F, X))


class RandomFourier(FeatureMap):
    """φ(x) = √(2/r) [cos ωᵀx, sin ωᵀx], frequencies ω drawn from the kernel's spectrum.

    For Gaussian, Laplace and Matérn kernels, their products, and `on_columns` of these. The error
    of an inner product is of order 1/√r, whatever the dimension of the points.

    Parameters
    ----------
    n_features : int
        r, an even number.
    random_state : int, Generator, RandomState or None

    References
    ----------
    Rahimi and Recht (2007), Random features for large-scale kernel machines.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> X = np.array([[0.0], [1.0]])
    >>> Phi = km.RandomFourier(4000).fit_transform(X, km.Gaussian(1.0))
    >>> bool(np.abs(Phi @ Phi.T - km.Gaussian(1.0)(X)).max() < 0.05)
    True
    """

    def __init__(self, n_features=500, random_state=0):
        self.n_features = n_features
        self.random_state = random_state

    def _fit_transform(self, X) -> Array:
        self.rank_ = check_count(self.n_features, "n_features", minimum=2)
        if self.rank_ % 2:
            raise ValueError(f"n_features is {self.rank_}; an even number (cos, sin) is needed")
        rng = generator(self.random_state)
        frequencies = self.kernel_.spectrum(self.rank_ // 2, X.shape[1], rng)
        self.frequencies_ = linalg.like(frequencies, X)
        return self._transform(X)

    def _transform(self, X) -> Array:
        xp = linalg.namespace(X)
        shape, half = (X.shape[0], self.rank_), self.rank_ // 2
        Phi = xp.empty(shape, dtype=X.dtype, device=getattr(X, "device", None))
        step = block_rows(self.rank_)
        for i in range(0, X.shape[0], step):
            j = min(i + step, X.shape[0])
            phase = X[i:j, :] @ self.frequencies_.T
            Phi[i:j, :half], Phi[i:j, half:] = xp.cos(phase), xp.sin(phase)
        Phi *= math.sqrt(2.0 / self.rank_)
        return Phi

    def _derivative(self, X, column: int) -> Array:
        half = self.rank_ // 2
        Phi, speed = self._transform(X), self.frequencies_[:, column]
        return linalg.namespace(X).concat([-Phi[:, half:] * speed, Phi[:, :half] * speed], axis=1)


def as_feature_map(features) -> FeatureMap:
    """A fresh, unfitted copy of the feature map asked for; None is Nyström to tolerance."""
    if features is None:
        return Nystroem()
    if isinstance(features, FeatureMap):
        return clone(features)
    raise ValueError(
        f"features is {features!r}; None or a kernelmean feature map (Nystroem, Exact, "
        "RandomFourier, Neural) is needed"
    )


def learns_from_pairs(features) -> bool:
    """Whether the features asked for are learned for X, from what is to be predicted."""
    return isinstance(features, FeatureMap) and features.learns_from_pairs


def refuse_lengthscale(features) -> None:
    """Learned features have no lengthscale to tune."""
    if learns_from_pairs(features):
        raise ValueError(
            "tune_lengthscale is True, but learned features have no lengthscale: leave it False"
        )


def as_target_map(features) -> FeatureMap:
    """The map of the variable predicted: features learned for the observation do not fit it."""
    return Nystroem() if learns_from_pairs(features) else as_feature_map(features)


def fit_pairs(features, X, kernel, Z, kernel_z) -> tuple[FeatureMap, Array]:
    """The map of X where Z is to be predicted from it, and the coordinates of the rows of X.

    A map that learns from pairs is trained on them, unless it was trained before.
    """
    own: Any = as_feature_map(features)
    if own.learns_from_pairs and not own.trained:
        own.fit_pairs(X, Z, kernel_z)
    return own, own.fit_transform(X, kernel)

"""Kernels that are not radial: linear, delta, precomputed, and other people's."""

from dataclasses import dataclass
from functools import reduce
from operator import and_

import numpy as np

from ..core import Array, arrays, checks
from .base import Kernel
from .manifold import flat_matrices, nearest_rotations, rotation_points

__all__ = ["Delta", "Frobenius", "Linear", "Precomputed"]


@dataclass(frozen=True)
class Linear(Kernel, named=True):
    """k(x, x') = xᵀx' + offset; the offset plays the part of an intercept.

    Examples
    --------
    >>> import kernelmean as km
    >>> km.Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    offset: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", checks.check_positive(self.offset, "offset", zero=True))

    boxed = False  # who asks for a line wants it to go on

    def gram_of(self, X, Y) -> Array:
        return X @ Y.T + self.offset

    def derivative_of(self, X, Y, column: int) -> Array:
        return arrays.namespace(X).ones_like(X[:, :1]) * Y[:, column][None, :]

    def diag_of(self, X) -> Array:
        return arrays.namespace(X).sum(X * X, axis=-1) + self.offset


@dataclass(frozen=True)
class Frobenius(Kernel, named=True):
    """k(A, B) = tr(A Bᵀ), for matrices such as rotations.

    Points are matrices, shape (n, p, q), or their rows laid end to end, shape (n, pq), which is
    what estimators take.

    Parameters
    ----------
    rotations : bool
        Whether points must be rotation matrices. The mode of an embedding is then the rotation
        nearest to its mean M, argmax_R tr(R Mᵀ), and not just the best of the points.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> km.Frobenius()(np.eye(3)[None])
    array([[3.]])
    """

    rotations: bool = False

    def resolve(self, X, name: str = "X") -> Kernel:
        self.checked(X, name)
        return self

    def checked(self, X, name: str) -> Array:
        return rotation_points(X, name) if self.rotations else flat_matrices(X, name)

    def pull(self, X, Y) -> Array | None:
        return arrays.like(np.ones((X.shape[0], Y.shape[0])), X) if self.rotations else None

    def land(self, U, total, X) -> Array:
        return nearest_rotations(U)

    def project(self, X) -> Array:
        return nearest_rotations(X) if self.rotations else X

    @property
    def boxed(self) -> bool:  # type: ignore[override]
        return not self.rotations

    def gram_of(self, X, Y) -> Array:
        return X @ Y.T

    def diag_of(self, X) -> Array:
        return arrays.namespace(X).sum(X * X, axis=-1)


@dataclass(frozen=True)
class Delta(Kernel, named=True):
    """k(x, x') = 1 if x = x' in every column, else 0: probability tables.

    Its density is taken against counting measure, so it is a probability mass function.

    Examples
    --------
    >>> import kernelmean as km
    >>> km.Delta()([[0], [1]])
    array([[1., 0.],
           [0., 1.]])
    """

    boxed = False

    def gram_of(self, X, Y) -> Array:
        equal = (X[:, j, None] == Y[None, :, j] for j in range(X.shape[1]))
        return arrays.namespace(X).astype(reduce(and_, equal), X.dtype)

    def smoothing(self, bandwidth) -> Kernel:
        return self

    def log_normaliser(self, d: int) -> float:
        return 0.0

    def self_convolved(self, d: int) -> Kernel:
        return self

    def noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return np.zeros((n, d))


class Precomputed(Kernel):
    """k(i, j) = gram[i, j], for objects with no columns (strings, graphs).

    Points are row numbers of `gram`, shape (n,) or (n, 1): training points and new points alike
    must have a row there.

    Parameters
    ----------
    gram : array of shape (N, N)
        A symmetric positive semidefinite matrix over all objects.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> k = km.Precomputed(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> k([0, 1], [1])
    array([[1.],
           [2.]])
    """

    def __init__(self, gram):
        self.gram = checks.as_points(gram, "gram")
        if self.gram.shape[0] != self.gram.shape[1]:
            raise ValueError(f"gram has shape {tuple(self.gram.shape)}; a square one is needed")
        G = arrays.to_numpy(self.gram)
        if not np.allclose(G, G.T, rtol=1e-8, atol=1e-8 * np.abs(G).max()):
            raise ValueError("gram is not symmetric, so it is not the Gram matrix of a kernel")

    def __eq__(self, other) -> bool:
        if not isinstance(other, Precomputed):
            return NotImplemented
        A, B = self.gram, other.gram
        return A is B or np.array_equal(arrays.to_numpy(A), arrays.to_numpy(B))

    def __hash__(self) -> int:
        return hash(self.gram.shape)

    def __repr__(self) -> str:
        return f"Precomputed(<{self.gram.shape[0]} x {self.gram.shape[0]} gram>)"

    def checked(self, X, name: str) -> Array:
        X = checks.as_points(X, name)
        self._rows(X, name)
        return X

    def _rows(self, X, name: str = "X") -> Array:
        xp = arrays.namespace(X)
        rows = xp.astype(xp.clip(X[:, 0], -1.0, float(self.gram.shape[0])), xp.int64)
        whole = X[:, 0] == xp.astype(rows, X.dtype)
        fits = whole & (rows >= 0) & (rows < self.gram.shape[0])
        if X.shape[1] != 1 or not bool(xp.all(fits)):
            raise ValueError(
                f"{name} must hold row numbers of the precomputed Gram matrix, one column of whole "
                f"numbers from 0 to {self.gram.shape[0] - 1}"
            )
        return rows

    boxed = lined = False

    def gram_of(self, X, Y) -> Array:
        xp = arrays.namespace(self.gram)
        return xp.take(xp.take(self.gram, self._rows(X), axis=0), self._rows(Y), axis=1)

    def diag_of(self, X) -> Array:
        xp = arrays.namespace(self.gram)
        return xp.take(xp.linalg.diagonal(self.gram), self._rows(X), axis=0)

"""Small dense solves: where the regulariser meets a matrix, and where array libraries differ.

Every regulariser is per sample: `second` below is a *mean* over rows, ΦᵀΦ/n, and a ridge solve is
(ΦᵀΦ/n + λI)⁻¹ (MATH §0).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg
from array_api_compat import is_numpy_namespace, is_torch_namespace

from .arrays import EPS, at_least, like, namespace, slices
from .checks import Array, warn_numerical
from .saving import Saveable

STRIP = 128  # rows of a triangle that are multiplied at a time


def solve_lower(L, B, transposed: bool = False) -> Array:
    """L⁻¹B for lower triangular L, or L⁻ᵀB."""
    xp = namespace(L, B)
    if is_numpy_namespace(xp) and B.size:
        solved, zero = scipy.linalg.lapack.dtrtrs(L.T, B, lower=0, trans=int(not transposed))
        if zero:
            raise np.linalg.LinAlgError(f"entry {zero} on the diagonal of a triangle is zero")
        return solved
    A = L.T if transposed else L
    if is_torch_namespace(xp):
        columns = B if B.ndim == 2 else B[:, None]
        solved = xp.linalg.solve_triangular(A, columns, upper=transposed)
        return solved if B.ndim == 2 else solved[:, 0]
    return xp.linalg.solve(A, B)


def times_transposed(K, T, lower: bool = True) -> Array:
    """K Tᵀ for triangular T; NumPy's arrays at little more than half the work of a product.

    Large ones by strips of T: in SciPy's product other threads wait for the interpreter.
    """
    if not isinstance(K, np.ndarray) or not K.size:
        return K @ T.T
    if T.shape[0] <= STRIP:
        return scipy.linalg.blas.dtrmm(1.0, T, K.T, lower=lower).T
    product = np.empty((K.shape[0], T.shape[0]))
    for strip in slices(T.shape[0], STRIP):
        filled = slice(strip.stop) if lower else slice(strip.start, None)
        np.matmul(K[:, filled], T[strip, filled].T, out=product[:, strip])
    return product


def triangle(A) -> Array:
    """Upper triangular R with RᵀR = AᵀA."""
    return namespace(A).linalg.qr(A).R


def eigh(A) -> tuple[Array, Array]:
    """Eigenvalues (ascending, clipped at zero) and eigenvectors of a semidefinite matrix."""
    values, vectors = namespace(A).linalg.eigh(A)
    return at_least(values, 0.0), vectors


def pivoted_cholesky(K: np.ndarray, floor: float = -1.0) -> tuple[np.ndarray, np.ndarray]:
    """Pivots S and factor F with K = FFᵀ up to rounding, F[S] lower triangular (LAPACK pstrf).

    Stops at pivots below `floor`, or below n·eps of the largest when that is negative.
    """
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(K, tol=floor, lower=1)
    order = pivots - 1
    F = np.empty((K.shape[0], rank))
    F[order] = np.tril(factor)[:, :rank]
    return order[:rank], F


@dataclass(frozen=True)
class Ridge(Saveable):
    """The solve (A + λI)⁻¹, factored once and applied often.

    Made by `ridge`; `root` is a lower Cholesky factor, or, where that lost rank, the scaled
    eigenvectors V/√s with A⁻¹ = root rootᵀ.
    """

    root: Array
    triangular: bool

    def solve(self, B) -> Array:
        """(A + λI)⁻¹B."""
        if self.triangular and isinstance(self.root, np.ndarray):
            return scipy.linalg.lapack.dpotrs(self.root, B, lower=1)[0] if B.size else B * 1.0
        half = self.half(B)
        return solve_lower(self.root, half, True) if self.triangular else self.root @ half

    def solve_rows(self, rows) -> Array:
        """The same for one row vector, or each of several."""
        return self.solve(rows) if rows.ndim == 1 else self.solve(rows.T).T

    def half(self, B) -> Array:
        """R B with RᵀR = (A + λI)⁻¹, so that the squared column norms are bᵀ(A + λI)⁻¹b."""
        return solve_lower(self.root, B) if self.triangular else self.root.T @ B


def ridge(second, reg: float) -> Ridge:
    """Factor (second + reg·I); Cholesky, or the pseudo-inverse, with a warning, on rank loss."""
    xp = namespace(second)
    A = add_to_diagonal(second, reg)
    try:
        L = xp.linalg.cholesky(A)
        least, largest = xp.min(xp.linalg.diagonal(L)), xp.max(xp.linalg.diagonal(A))
        # a pivot that is rounding error makes a factor that is noise
        if float(least) ** 2 > 10 * EPS * float(largest):
            return Ridge(L, triangular=True)
    except (np.linalg.LinAlgError, RuntimeError):
        pass
    return _pseudo_ridge(A)


def _pseudo_ridge(A) -> Ridge:
    values, vectors = eigh(A)
    keep = int(namespace(A).sum(values > A.shape[0] * EPS * values[-1]))
    warn_numerical(
        f"a system of {A.shape[0]} equations has numerical rank {keep}; the least-norm solution "
        "is used: a larger regulariser makes it unique",
    )
    start = A.shape[0] - keep
    return Ridge(vectors[:, start:] / values[start:] ** 0.5, triangular=False)


def add_to_diagonal(A, value: float) -> Array:
    """A + value·I, in new memory."""
    if not isinstance(A, np.ndarray):
        return A + like(value * np.eye(A.shape[0]), A)
    A = A.copy()
    A.flat[:: A.shape[0] + 1] += value
    return A


def squared_filter(values, reg: float) -> Array:
    """c/(c² + δ), with 0 for 0/0."""
    xp = namespace(values)
    total = values * values + reg
    return values / xp.where(total == 0, 1.0, total)


@dataclass(frozen=True)
class EigenGrid(Saveable):
    """A = Q diag(s) Qᵀ, which serves every regulariser: (A + λI)⁻¹ = Q D Qᵀ, D = 1/(s + λ)."""

    values: Array
    vectors: Array

    @classmethod
    def of(cls, second) -> Self:
        return cls(*eigh(second))

    def shrink(self, reg) -> Array:
        """The diagonal D = 1/(s + λ); directions lost to rounding get 0 when λ is 0.

        Of λ in a column, a row for each.
        """
        xp = namespace(self.values)
        total = self.values + reg
        if not self.values.shape[0]:
            return total
        floor = self.values.shape[0] * EPS * float(self.values[-1])
        lost = total <= floor
        return xp.where(lost, 0.0, 1.0 / xp.where(lost, 1.0, total))

    def path(self, b, regs: np.ndarray) -> Array:
        """(A + λI)⁻¹b for each λ > 0, one a row."""
        return (self.vectors.T @ b / (self.values + regs[:, None])) @ self.vectors.T


def small_inverse(second: np.ndarray, reg: float) -> np.ndarray:
    """(second + reg I)⁻¹ of a small matrix, for the many products an adjoint takes."""
    A = add_to_diagonal(0.5 * (second + second.T), reg)
    root, failed = scipy.linalg.lapack.dpotrf(A, lower=1)
    if not failed:
        lower = np.tril(scipy.linalg.lapack.dpotri(root, lower=1)[0])
        return lower + np.tril(lower, -1).T
    values, vectors = eigh(A)
    return (vectors / np.maximum(values, 1e-14 * values[-1])) @ vectors.T


def kept(leverage: np.ndarray) -> np.ndarray:
    """1 − leverage, kept above rounding."""
    return np.maximum(1.0 - leverage, 1e-10)

"""The spectral method for hidden Markov models, as small matrices of coordinates.

With φ the coordinates of an observation and O (r, K) the embeddings of the K emission laws, the
moments of two and three consecutive observations are products of O and the chain; here the
products are taken apart again.
"""

import numpy as np
from scipy.optimize import least_squares

from ..chains.markov import Chain, nearest_simplex, nearest_stochastic
from ..chains.moments import Moments, numerical_rank
from ..core import arrays

ROUNDS = 100  # of the joint diagonalisation
HUGE = 1e6  # off-diagonals where R cannot be inverted
SMALL = 1e-3  # least stationary probability that the moments are divided by


# ------------------------------------------------------------ the parameters


class SpectralFit:
    """Q, π and O from moments (thesis, Algorithm 1, with UᵀO = ΘᵀL).

    There B(θ_1) of an orthogonal Θ drawn at random is diagonalised; here all B, as well as can be,
    and Θ, which would drop out, is the identity.

    Parameters
    ----------
    moments : Moments
    third : callable
        From U₁ and U, (r, K) each, to the tensor T (see `Moments.third`).
    n_components : int
        K.

    Attributes
    ----------
    embeddings : array of shape (r, K)
        O, the coordinates of the embedded emission laws, in the span of U.
    chain : Chain
        Projected on the transition matrices, and its stationary law.
    singular_values : array
        All those of C₁₃.
    mismatch : float
        Share of Σ_b‖R⁻¹B_bR‖² off the diagonals, which is zero for exact moments.

    Raises
    ------
    ValueError
        If K exceeds the numerical rank of C₁₃, or all third moments are zero.
    """

    def __init__(self, moments: Moments, third, n_components: int):
        K = n_components
        U1, self.singular_values, Vt = np.linalg.svd(moments.skips)
        rank = numerical_rank(self.singular_values)
        if rank < K:
            raise ValueError(
                f"n_components is {K}, but observations two steps apart tell only {rank} states "
                "apart (numerical rank of their cross-covariance); a smaller number is needed"
            )
        U1, U = U1[:, :K], Vt[:K].T
        T = third(U1, U)
        if not T.any():
            raise ValueError(
                f"n_components is {K}, but the kernel sees no row of X as like any other: there is "
                "nothing to learn from (a Delta kernel is for values that are repeated)"
            )
        # B(e_b) = T_{·b·}(U₁ᵀC₁₃U)⁻¹ for all b, U₁ᵀC₁₃U = diag σ; in exact moments
        # B(θ) = (U₁ᵀO₁) diag(O₂ᵀUθ) (U₁ᵀO₁)⁻¹ (Lemma 3.3)
        B = np.moveaxis(T, 1, 0) / self.singular_values[:K]
        R, self.mismatch = diagonaliser(B)
        UO = eigenvalues(R, B)
        self.embeddings, self.chain = U @ UO, chain_of(UO, U, moments)


def chain_of(UO: np.ndarray, U: np.ndarray, moments: Moments) -> Chain:
    """π̃ = (UᵀO)⁻¹Uᵀμ, Q̃ = (UᵀO diag π̃)⁻¹ UᵀC₁₂U (OᵀU)⁻¹, rows on the simplex; π stationary."""
    inverse = np.linalg.pinv(UO)
    rough = np.maximum(nearest_simplex((inverse @ (U.T @ moments.mean))[None])[0], SMALL)
    joint = inverse @ (U.T @ moments.pairs @ U) @ inverse.T  # π_i Q_ij
    return Chain.counted(nearest_stochastic(joint / (rough / rough.sum())[:, None]))


# ------------------------------------------------------------ eigenvectors common to all B


def diagonaliser(B: np.ndarray) -> tuple[np.ndarray, float]:
    """R whose R⁻¹B_bR are as diagonal as can be, all together, and what is left beside.

    Starts at the eigenvectors of the B_b that do best for all. A pair of complex eigenvalues
    (which estimates have where two states are hardly told apart) starts at the real plane it spans.
    """
    starts = [np.eye(len(B)), *map(real_eigenvectors, B)]
    R, left = improve(min(starts, key=lambda R: float((off_diagonal(R, B) ** 2).sum())), B)
    return R, left / max(float((B * B).sum()), np.finfo(float).tiny)


def real_eigenvectors(A: np.ndarray) -> np.ndarray:
    """Eigenvectors of unit length; real and imaginary part in place of a complex pair."""
    values, vectors = np.linalg.eig(A)
    return unit(np.where(values.imag < 0, vectors.imag, vectors.real))


def improve(R: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, float]:
    """Least squares of the off-diagonals, over R(I + E) of unit columns, E_jj = 0."""
    K = len(R)
    free = ~np.eye(K, dtype=bool)

    def moved(E: np.ndarray) -> np.ndarray:
        S = np.eye(K)
        S[free] = E
        return R @ S

    def off(E: np.ndarray) -> np.ndarray:
        return off_diagonal(unit(moved(E)), B)

    def slopes(E: np.ndarray) -> np.ndarray:
        return slopes_of_off_diagonal(moved(E), R, B)[:, free.ravel()]

    E, tight = np.zeros(free.sum()), dict.fromkeys(("ftol", "xtol", "gtol"), 1e-15)
    if len(E):
        E = least_squares(off, E, slopes, method="lm", max_nfev=ROUNDS, **tight).x
    return unit(moved(E)), float((off(E) ** 2).sum())


def unit(R: np.ndarray) -> np.ndarray:
    """With columns of unit length."""
    return R / np.linalg.norm(R, axis=0)


def off_diagonal(R: np.ndarray, B: np.ndarray) -> np.ndarray:
    """What is beside the diagonals of all R⁻¹B_bR."""
    singular = np.linalg.cond(R) > 1 / np.sqrt(arrays.EPS)
    D = np.full_like(B, HUGE) if singular else np.linalg.solve(R[None], B @ R)
    return D[:, ~np.eye(len(R), dtype=bool)].ravel()


def slopes_of_off_diagonal(R: np.ndarray, basis: np.ndarray, B: np.ndarray) -> np.ndarray:
    """How `off_diagonal(unit(R), B)` moves with R = `basis` S, by the entries of S.

    With T the unit columns and D_b = T⁻¹B_bT it is dD_b = D_bG − GD_b, G = T⁻¹dT; dS_ij moves the
    column j of T only, by basis_i less its part along T_j, over the length of R_j.
    """
    K, T, length = len(R), unit(R), np.linalg.norm(R, axis=0)
    D, one = np.linalg.solve(T[None], B @ T), np.eye(K)
    G = (np.linalg.solve(T, basis)[:, :, None] - one[:, None, :] * (basis.T @ T)) / length
    before = np.einsum("baij,cj->bacij", np.tensordot(D, G, axes=1), one)  # dS_ij by i and j
    slopes = before - np.einsum("aij,bjc->bacij", G, D)
    return slopes[:, ~np.eye(K, dtype=bool)].reshape(-1, K * K)


def eigenvalues(R: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The diagonals of R⁻¹B_iR, one row for each i."""
    return np.diagonal(np.linalg.solve(R[None], B @ R), axis1=1, axis2=2)

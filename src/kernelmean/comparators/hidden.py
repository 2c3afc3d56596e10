"""Hidden Markov models that others have proposed, and the errors by which models are compared.

Both models have `fit(X, lengths=None)`, `density`, `filter` and `predict`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..chains import markov
from ..core import arrays, checks
from ..core.extras import require
from ..core.sequences import check_sequences, triples_of

__all__ = ["GaussianHMM", "ProjHMM"]

ROTATIONS = 20  # random ones, of which that with the largest gap is kept
FLOOR = 1e-3  # of a projected density on [0, 1], which may be negative
STARTS = 5  # of EM
ROUNDS, GAIN = 500, 1e-2  # most iterations of EM, and the gain in log-likelihood that ends it


class HiddenComparator(BaseEstimator):
    """What the models share: arguments are checked, densities are filtered with.

    Attributes
    ----------
    transmat_ : array of shape (K, K)
        P(x_{t+1} = j | x_t = i).
    startprob_ : array of shape (K,)
        Its stationary law.
    """

    _fit: Callable[[np.ndarray, list[slice]], np.ndarray]  # the transition matrix
    _log_density: Callable[[np.ndarray], np.ndarray]

    def fit(self, X, lengths=None) -> Any:
        """Estimate the chain and the density of every state.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Observations in the order of time.
        lengths : sequence of int, optional
            Rows of each sequence, where there are several below each other.
        """
        checks.check_count(self.n_components, "n_components")
        points = arrays.to_numpy(checks.as_points(X, "X", min_rows=3))
        checks.note_columns(self, points)
        self.transmat_ = self._fit(points, check_sequences(lengths, len(points)))
        self.startprob_ = markov.stationary(self.transmat_)
        return self

    def density(self, Y) -> np.ndarray:
        """p(y | k) of every row and state, shape (m, K)."""
        return np.exp(self._log_density(self._checked(Y, "Y")))

    def filter(self, X, lengths=None) -> np.ndarray:
        """P(x_t = k | y_1, ..., y_t), shape (n, K)."""
        logs = self._log_density(self._checked(X, "X"))
        chain = markov.Chain(self.startprob_, self.transmat_)
        return markov.filtered(logs, chain, check_sequences(lengths, len(logs)))[0]

    def predict(self, X, lengths=None) -> np.ndarray:
        """The likeliest state of each row, given those before it and itself, shape (n,)."""
        return self.filter(X, lengths).argmax(axis=1)

    def _checked(self, X, name: str) -> np.ndarray:
        check_is_fitted(self)
        return arrays.as_columns(X, self.n_features_in_, name, "the model")


# ---------------------------------------------------------------- projection


class ProjHMM(HiddenComparator):
    """p(y | k) = Σ_m o_mk φ_m(y), by the spectral method from moments of three observations.

    The data, one column, are scaled to [0, 1]. With the empirical l_a = E φ_a(y₁), N_ab =
    E φ_a(y₁)φ_b(y₂), P_ac = E φ_a(y₁)φ_c(y₃) and M_abc = E φ_a(y₁)φ_b(y₂)φ_c(y₃):

    - U: the K leading right singular vectors of P;
    - B(b) = (UᵀPU)⁻¹ UᵀM(·, b, ·)U, and C(k) = Σ_b (UΘ)_bk B(b) with a random rotation Θ;
    - R diagonalises C(1), λ_kj = (R⁻¹C(k)R)_jj, and O = UΘΛ;
    - π̃ is the law nearest to (UᵀO)⁻¹Uᵀl, and Q the transition matrix nearest to
      (UᵀO diag π̃)⁻¹ UᵀNU (OᵀU)⁻¹.

    Of 20 rotations that one is used which keeps the eigenvalues of C(1) farthest apart.

    Parameters
    ----------
    n_components : int
        K.
    basis : {"trigonometric", "histogram"}
        φ: 1 and √2 cos(πmy); or the indicators, times √M, of M intervals.
    n_basis : int
        M.
    random_state : int, Generator or None

    Attributes
    ----------
    coef_ : array of shape (M, K)
        O, of the scaled data.
    transmat_, startprob_ : arrays of shape (K, K), (K,)

    Notes
    -----
    Densities below 0.001 (on the scale of [0, 1]) are set to it, and outside the range of the
    training data a density is that of the nearest end. Complex eigenvalues give way to their real
    parts.

    References
    ----------
    De Castro, Gassiat, Le Corff (2017), Consistent estimation of the filtering and marginal
    smoothing distributions in nonparametric hidden Markov models, Algorithm 1; Lehéricy (2018),
    State-by-state minimax adaptive estimation for nonparametric hidden Markov models.

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.comparators import ProjHMM, matched_accuracy
    >>> data = km.datasets.make_hmm("separated", 20_000, random_state=0)
    >>> model = ProjHMM(2, n_basis=8, random_state=0).fit(data.X)
    >>> matched_accuracy(data.states, model.predict(data.X)) > 0.75
    True
    """

    def __init__(self, n_components, basis="trigonometric", n_basis=10, random_state=None):
        self.n_components = n_components
        self.basis = basis
        self.n_basis = n_basis
        self.random_state = random_state

    def _fit(self, X, sequences) -> np.ndarray:
        self._check_settings(X)
        self._low, self._width = X.min(), np.ptp(X)
        first = np.flatnonzero(triples_of(np.ones(len(X), dtype=bool), sequences))
        Phi = self._functions(X)
        P1, P2, P3 = Phi[first], Phi[first + 1], Phi[first + 2]
        U = np.linalg.svd(P1.T @ P3)[2][: self.n_components].T
        A1, A3 = P1 @ U, P3 @ U
        B = _operators(A1, P2, A3)
        O = self.coef_ = _emissions(B, U, checks.generator(self.random_state))
        return _transitions(U.T @ O, A1.mean(axis=0), A1.T @ (P2 @ U) / len(A1))

    def _check_settings(self, X) -> None:
        checks.check_choice(self.basis, "basis", BASES)
        checks.check_count(self.n_basis, "n_basis", minimum=self.n_components)
        checks.check_columns(X, 1, "X", "the data of ProjHMM")
        if np.ptp(X) == 0:
            raise ValueError("X is constant; a column with different values is needed")

    def _functions(self, X: np.ndarray) -> np.ndarray:
        return BASES[self.basis](np.clip((X - self._low) / self._width, 0, 1), self.n_basis)

    def _log_density(self, X) -> np.ndarray:
        return np.log(np.maximum(self._functions(X) @ self.coef_, FLOOR) / self._width)


def _cosines(x: np.ndarray, M: int) -> np.ndarray:
    """1, √2 cos(πx), ..., √2 cos(π(M − 1)x) of a column x."""
    functions = np.sqrt(2) * np.cos(np.pi * np.arange(M) * x)
    functions[:, 0] = 1
    return functions


def _intervals(x: np.ndarray, M: int) -> np.ndarray:
    """√M where x is in ((m − 1)/M, m/M], else 0."""
    return np.sqrt(M) * (np.maximum(np.ceil(M * x), 1) == np.arange(1, M + 1))


BASES = {"trigonometric": _cosines, "histogram": _intervals}


def _operators(A1: np.ndarray, P2: np.ndarray, A3: np.ndarray) -> np.ndarray:
    """B(b) = (UᵀPU)⁻¹ UᵀM(·, b, ·)U of every b, shape (M, K, K)."""
    n, K = A1.shape
    pairs = (A1[:, :, None] * A3[:, None, :]).reshape(n, K * K)
    return np.linalg.pinv(A1.T @ A3) @ (P2.T @ pairs).reshape(-1, K, K)


def _emissions(B: np.ndarray, U: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """O = UΘΛ, with the Θ of the largest gap between eigenvalues."""
    K = U.shape[1]
    # signs of columns of Θ, which QR does not draw evenly, change nothing in O
    rotations = np.linalg.qr(rng.standard_normal((ROTATIONS, K, K)))[0]
    candidates = [(theta, _eigenvalues(B, U @ theta)) for theta in rotations]
    theta, L = max(candidates, key=lambda found: np.diff(np.sort(found[1][0])).min(initial=np.inf))
    return U @ theta @ L


def _eigenvalues(B: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Λ: in row k those of C(k), as R has it; their real parts, if they are complex."""
    C = np.tensordot(directions.T, B, axes=1)
    R = np.linalg.eig(C[0])[1]
    return np.diagonal(np.linalg.pinv(R) @ C @ R, axis1=1, axis2=2).real


def _transitions(UO: np.ndarray, means: np.ndarray, N: np.ndarray) -> np.ndarray:
    """Q from UᵀO, Uᵀl and UᵀNU."""
    inverse = np.linalg.pinv(UO)
    shares = markov.nearest_simplex((inverse @ means)[None])[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return markov.nearest_stochastic(inverse @ N @ inverse.T / shares[:, None])


# ---------------------------------------------------------------- Gaussian laws


class GaussianHMM(HiddenComparator):
    """p(y | k) = Σ_m w_km N(y; μ_km, diag σ²_km), by EM: hmmlearn's, with the verbs of `ProjHMM`.

    The likeliest of 5 fits that start from different random numbers.

    Parameters
    ----------
    n_components : int
        K.
    n_mix : int
        Gaussians of each state.
    random_state : int, Generator or None

    Attributes
    ----------
    weights_, means_, variances_ : arrays of shape (K, n_mix), (K, n_mix, d), (K, n_mix, d)
    transmat_, startprob_ : arrays of shape (K, K), (K,)

    Raises
    ------
    ImportError
        If the package `hmmlearn` is missing (extra `papers`).

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import kernelmean as km
    >>> from kernelmean.comparators import GaussianHMM, matched_accuracy
    >>> data = km.datasets.make_hmm("separated", 1000, random_state=0)
    >>> if find_spec("hmmlearn"):
    ...     model = GaussianHMM(2, random_state=0).fit(data.X)
    ...     assert matched_accuracy(data.states, model.predict(data.X)) > 0.75
    """

    def __init__(self, n_components, n_mix=1, random_state=None):
        self.n_components = n_components
        self.n_mix = n_mix
        self.random_state = random_state

    def _fit(self, X, sequences) -> np.ndarray:
        checks.check_count(self.n_mix, "n_mix")
        lengths = [s.stop - s.start for s in sequences]
        seeds = checks.generator(self.random_state).integers(2**31, size=STARTS)
        fits = [self._model(int(seed)).fit(X, lengths) for seed in seeds]
        best = max(fits, key=lambda model: model.score(X, lengths))
        self.weights_, self.means_, self.variances_ = _mixtures(best)
        return best.transmat_

    def _model(self, seed: int) -> Any:
        hmm = require("hmmlearn.hmm", "GaussianHMM", 'pip install "kernelmean[papers]"')
        settings = {"n_iter": ROUNDS, "tol": GAIN, "random_state": seed}
        if self.n_mix == 1:
            return hmm.GaussianHMM(self.n_components, "diag", **settings)
        return hmm.GMMHMM(self.n_components, self.n_mix, covariance_type="diag", **settings)

    def _log_density(self, X) -> np.ndarray:
        distances = (X[:, None, None] - self.means_) ** 2 / self.variances_
        logs = -0.5 * np.sum(distances + np.log(2 * np.pi * self.variances_), axis=-1)
        return logsumexp(logs, axis=-1, b=self.weights_)


def _mixtures(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and variances of one of hmmlearn's models."""
    if hasattr(model, "weights_"):
        return model.weights_, model.means_, model.covars_
    variances = np.diagonal(model.covars_, axis1=1, axis2=2)
    return np.ones((len(variances), 1)), model.means_[:, None], variances[:, None]

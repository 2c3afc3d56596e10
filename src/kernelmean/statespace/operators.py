"""Moments of neighbouring observations as a product of two operators: the objective and its fit.

With φ the coordinates of an observation, ψ those of a latent point, U the embedding of y given x
and V that of x' given x, a stationary state-space model has E φ(y_1)φ(y_{1+l})ᵀ =
U C_X (Vᵀ)^l Uᵀ: here U and V are found from the moments on the left (thesis, section 4.4).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..chains.draft import Draft
from ..core import arrays, solves
from .latent import Space
from .pairing import Pairing


class Terms(NamedTuple):
    """The three parts of the loss, each with its weight: moments, emission mean, stationarity."""

    moments: float
    emission: float
    stationarity: float


@dataclass(frozen=True)
class PairFit:
    """Operators that minimise the loss, and the way there.

    Attributes
    ----------
    U : array of shape (r_y, r_x)
        Embeds y given x: coordinates of x to coordinates of the law of y.
    V : array of shape (r_x, r_x)
        Embeds x' given x.
    loss : float
    history : list of Terms
        At the start, and after every iteration.
    converged : bool
    """

    U: np.ndarray
    V: np.ndarray
    loss: float
    history: list[Terms]
    converged: bool


@dataclass(frozen=True)
class PairMoments:
    """L(U, V) = Σ_l ‖C_l − U C_X (Vᵀ)^l Uᵀ‖² + λ₁‖μ_Y − U μ_X‖² + λ₂‖μ_X − V μ_X‖².

    The thesis's loss (eq. 4.7) in coordinates: matrices of the rank of the features, not of the
    number of rows. The thesis has lag 1 only.

    Parameters
    ----------
    lagged : sequence of arrays of shape (r_y, r_y)
        C_l = E φ(y_1)φ(y_{1+l})ᵀ for l = 1, 2, ...
    mean_y : array of shape (r_y,)
        E φ(y).
    second_x : array of shape (r_x, r_x)
        C_X = E ψ(x)ψ(x)ᵀ under the latent law.
    mean_x : array of shape (r_x,)
        E ψ(x).
    penalty : (float, float)
        λ₁ and λ₂.

    References
    ----------
    Spiteri (2023), Lemma 4.5.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.statespace.operators import PairMoments, minimise
    >>> stay = np.array([[0.9, 0.1], [0.1, 0.9]])  # two states, each of which shows itself
    >>> moments = PairMoments([stay / 2], np.full(2, 0.5), np.eye(2) / 2, np.full(2, 0.5), (1, 1))
    >>> fit = minimise(moments, np.eye(2), np.full((2, 2), 0.5))
    >>> fit.converged, bool(fit.loss < 1e-8)
    (True, True)
    """

    lagged: list[np.ndarray]
    mean_y: np.ndarray
    second_x: np.ndarray
    mean_x: np.ndarray
    penalty: tuple[float, float]

    def loss(self, U: np.ndarray, V: np.ndarray) -> float:
        """L(U, V)."""
        return sum(self.terms(U, V))

    def terms(self, U: np.ndarray, V: np.ndarray) -> Terms:
        """The three parts of the loss."""
        return self.evaluate(U, V)[0]

    def gradient(self, U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∂L/∂U and ∂L/∂V.

        Of the moments, with B = C_X (Vᵀ)^l and G = 2(UBUᵀ − C_l): GUBᵀ + GᵀUB for U, and
        Σ_{k<l} (Vᵀ)^k UᵀGᵀU C_X (Vᵀ)^{l−1−k} for V.
        """
        return self.evaluate(U, V)[1:]

    def evaluate(self, U: np.ndarray, V: np.ndarray) -> tuple[Terms, np.ndarray, np.ndarray]:
        """The parts of the loss, and its gradient."""
        first, second = self.penalty
        left_y, left_x = U @ self.mean_x - self.mean_y, V @ self.mean_x - self.mean_x
        on_U = 2 * first * np.outer(left_y, self.mean_x)
        on_V = 2 * second * np.outer(left_x, self.mean_x)
        off, joint = 0.0, self.second_x
        powers = [np.eye(len(V))]  # of Vᵀ
        for C in self.lagged:
            joint = joint @ V.T
            G = U @ joint @ U.T - C
            off += float((G * G).sum())
            G *= 2
            GU, GtU = G @ U, G.T @ U
            on_U += GU @ joint.T + GtU @ joint
            on_power, around = U.T @ GtU @ self.second_x, zip(powers, powers[::-1], strict=True)
            on_V += sum(left @ on_power @ right for left, right in around)
            powers.append(powers[-1] @ V.T)
        terms = Terms(off, first * float(left_y @ left_y), second * float(left_x @ left_x))
        return terms, on_U, on_V


def minimise(
    moments: PairMoments,
    U: np.ndarray,
    V: np.ndarray,
    max_iter: int = 500,
    tol: float = 1e-9,
    known_V: bool = False,
) -> PairFit:
    """The operators of least loss in reach of a start, by L-BFGS.

    Both at once, in the variables US and S⁻¹VS with C_X = S², which are U and V for latent
    coordinates that are orthonormal under the latent law: tens of times fewer steps. (To solve for
    the best V at every U is quicker still, but such a V undoes U, and fits noise.)

    Parameters
    ----------
    moments : PairMoments
    U, V : arrays
        The start; not modified.
    max_iter : int
    tol : float
        Stop when an iteration lowers the loss by less; the moments themselves are of order one.
    known_V : bool
        V stays as it is.
    """
    S, inverse = _roots(moments.second_x)

    def apart(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        US, SVS = theta[: U.size].reshape(U.shape), theta[U.size :].reshape(V.shape)
        return US @ inverse, S @ SVS @ inverse

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        terms, on_U, on_V = moments.evaluate(*apart(theta))
        return sum(terms), _flat(on_U @ inverse, (S @ on_V @ inverse) * (not known_V))

    history = [moments.terms(U, V)]
    found = minimize(
        loss,
        _flat(U @ S, inverse @ V @ S),
        jac=True,
        method="L-BFGS-B",
        callback=lambda theta: history.append(moments.terms(*apart(theta))),
        options={"maxiter": max_iter, "maxfun": 2 * max_iter, "ftol": tol, "gtol": 0.0},
    )
    return PairFit(*apart(found.x), float(found.fun), history, bool(found.status == 0))


def _flat(*arrays: np.ndarray) -> np.ndarray:
    return np.concatenate([a.ravel() for a in arrays])


def _roots(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """S and S⁻¹ with S² = A, symmetric; what is lost to rounding is raised to it."""
    values, vectors = solves.eigh(A)
    values = np.sqrt(np.maximum(values, len(A) * arrays.EPS * values[-1]))
    return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T


# ------------------------------------------------------------ moments


def fit_moments(
    draft: Draft, space: Space, start: Pairing, penalty, max_iter: int, known: bool
) -> PairFit:
    """U and V from pairs of neighbours and of next neighbours, from a pairing on.

    Lag one alone does not tell a model from "y is Markov": the pairing by rank solves it.
    """
    gamma = np.where(draft.rows.seen[:, None], start.gamma, 0.0)
    mass = gamma.sum(axis=0)
    laws = arrays.to_numpy(draft.coordinates.gather(gamma)) / np.maximum(mass, arrays.EPS)
    U = space.operator(laws, mass)
    V = space.operator(space.Psi.T @ start.chain.transmat.T, space.latent.weights)
    m = draft.moments
    moments = PairMoments(
        [m.pairs, m.skips], m.mean, space.second, space.latent.weights @ space.Psi, penalty
    )
    return minimise(moments, U, V, max_iter=max_iter, known_V=known)

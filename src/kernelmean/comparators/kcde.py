"""Kernel conditional density estimation, with its bandwidths by leave-one-out."""

import numpy as np
from scipy.ndimage import minimum_filter
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from ..core.checks import as_each, warn_numerical
from ..core.moments import evenly
from ..kernels import median_lengthscale
from .densities import Expansion, blocks, check_varying, exponents, normal

__all__ = ["KCDE"]

START_ROWS = 1000  # on which the search looks for where to start
GRID_X = np.logspace(-2.5, 1, 15)  # bandwidths there, relative to the median distance of X,
GRID_Y = np.logspace(-2.5, 0, 11)  # and of Y
STARTS = 3  # of the search, at the lowest local minima of the grid
RANGE = np.log(1e5)  # of the search, either way from the median distance
COLLAPSED = 1e-3  # of the median distance: no density is that narrow, ties are
TIES = (
    "bandwidth_y has collapsed: the score falls without bound where rows of Y are equal (rounded "
    "values, repeated rows); give bandwidth_y, or drop repeated rows"
)


class KCDE(Expansion):
    """p(y | x) = Σ w_i(x) N(y; y_i, γ_y² I), w_i(x) ∝ exp(−‖x − x_i‖²/2γ_x²), Σ w_i(x) = 1.

    Kernel conditional density estimation (Nadaraya and Watson) with Gaussian kernels. Bandwidths
    that are not given minimise the leave-one-out estimate of the integrated squared error,

        (1/n) Σ_i {∫ p₋ᵢ(y | x_i)² dy − 2 p₋ᵢ(y_i | x_i)},

    by L-BFGS-B from the lowest points of a grid; an evaluation for n rows costs O(n³). Far from all
    rows the nearest has all the weight.

    Parameters
    ----------
    bandwidth_x, bandwidth_y : float or one per column, optional
        γ_x and γ_y, standard deviations of the kernels.
    columnwise : bool
        Whether every column has a bandwidth of its own, where they are chosen.

    Attributes
    ----------
    bandwidth_x_, bandwidth_y_ : array of shape (d_x,), (d_y,)
    loo_score_ : float
        The leave-one-out score at these bandwidths.

    References
    ----------
    Spiteri (2023), Nonparametric estimation with kernel mean embeddings, eq.
    (2.12), with eq. (2.11) for the score. Fan, Yim (2004), A crossvalidation method for estimating
    conditional densities.

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.comparators import KCDE
    >>> data = km.datasets.make_conditional_density("bimodal", 400, random_state=0)
    >>> model = KCDE().fit(data.X, data.Y)
    >>> at = [[-2.5], [0.0], [2.5]]
    >>> error = model.pdf(at, [[0.5]], paired=False) - data.density(at, [[0.5]])
    >>> bool(abs(error).max() < 0.06)
    True
    """

    def __init__(self, bandwidth_x=None, bandwidth_y=None, columnwise=False):
        self.bandwidth_x = bandwidth_x
        self.bandwidth_y = bandwidth_y
        self.columnwise = columnwise

    def _fit(self, X, Y) -> None:
        gamma_x = _bandwidths(self.bandwidth_x, X.shape[1], "bandwidth_x")
        gamma_y = _bandwidths(self.bandwidth_y, Y.shape[1], "bandwidth_y")
        if gamma_x is None or gamma_y is None:
            gamma_x, gamma_y = _search(X, Y, gamma_x, gamma_y, self.columnwise)
        self.bandwidth_x_, self.bandwidth_y_ = gamma_x, gamma_y
        self.loo_score_ = _loo_score(X, Y, gamma_x, gamma_y)[0]
        self._x, self._y = X, Y

    def _coefficients(self, X) -> np.ndarray:
        return softmax(exponents(X, self._x, self.bandwidth_x_), axis=1)

    def _functions(self, Y) -> np.ndarray:
        return normal(Y, self._y, self.bandwidth_y_)

    def _log_pairs(self, Y, X) -> np.ndarray:
        pieces = []
        for rows in blocks(len(X), len(self._x)):
            E = exponents(X[rows], self._x, self.bandwidth_x_)
            L = E + exponents(Y[rows], self._y, self.bandwidth_y_)
            pieces.append(logsumexp(L, axis=1) - logsumexp(E, axis=1))
        return np.concatenate(pieces) - np.log(np.sqrt(2 * np.pi) * self.bandwidth_y_).sum()


def _bandwidths(value, d: int, name: str) -> np.ndarray | None:
    """One bandwidth per column, from a number, one number per column, or None."""
    return None if value is None else np.broadcast_to(as_each(value, d, name), d).copy()


def _loo_score(
    X: np.ndarray, Y: np.ndarray, gamma_x: np.ndarray, gamma_y: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """The score, and its gradient in the logarithms of the bandwidths of X and of Y.

    With weights w_i that leave row i out, A_jk = N(y_j; y_k, 2γ_y²) and B_ij = N(y_i; y_j, γ_y²),
    it is (1/n) Σ_i {w_iᵀA w_i − 2 w_iᵀB_i}.
    """
    score, slope_x, slope_y = 0.0, np.zeros(X.shape[1]), np.zeros(Y.shape[1])
    for rows in blocks(len(X), len(X)):
        W = _weights_left_out(X, rows, gamma_x)
        smoothed, slopes = _overlaps(W, Y, gamma_y)
        B = normal(Y[rows], Y, gamma_y)
        score += np.sum(W * (smoothed - 2 * B))
        # the derivative in w_i is 2(A w_i − B_i), and that of w_i in its exponents diag(w) − wwᵀ
        pull = 2 * W * (smoothed - B)
        pull -= W * pull.sum(axis=1, keepdims=True)
        slope_x += _spread(X[rows], X, pull) / gamma_x**2
        slope_y += slopes - 2 * (_spread(Y[rows], Y, W * B) / gamma_y**2 - np.sum(W * B))
    return score / len(X), slope_x / len(X), slope_y / len(X)


def _weights_left_out(X: np.ndarray, rows: slice, gamma: np.ndarray) -> np.ndarray:
    """Weights of all rows at some of them, which have none in their own."""
    E = exponents(X[rows], X, gamma)
    E[np.arange(len(E)), np.arange(len(X))[rows]] = -np.inf
    return softmax(E, axis=1)


def _overlaps(W: np.ndarray, Y: np.ndarray, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """WA and the gradient of the sum of W ∘ WA, where A is made in blocks of its columns."""
    smoothed, slopes = np.empty_like(W), np.zeros(len(gamma))
    for columns in blocks(len(Y), len(Y)):
        A = normal(Y, Y[columns], np.sqrt(2) * gamma)
        smoothed[:, columns] = W @ A
        pairs = A * (W.T @ W[:, columns])
        slopes += _spread(Y, Y[columns], pairs) / (2 * gamma**2) - pairs.sum()
    return smoothed, slopes


def _spread(X: np.ndarray, Y: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Σ_ij m_ij (x_ic − y_jc)² of every column c."""
    centre = Y.mean(axis=0)
    X, Y = X - centre, Y - centre
    return np.sum(X**2 * M.sum(axis=1)[:, None] - 2 * X * (M @ Y), axis=0) + M.sum(axis=0) @ Y**2


def _search(X, Y, gamma_x, gamma_y, columnwise: bool) -> tuple[np.ndarray, np.ndarray]:
    """The bandwidths of least score; those that are given stay as they are."""
    unit_x, free_x = _side(X, gamma_x, columnwise, "X")
    unit_y, free_y = _side(Y, gamma_y, columnwise, "Y")
    split = free_x.shape[1]

    def bandwidths(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return unit_x * np.exp(free_x @ t[:split]), unit_y * np.exp(free_y @ t[split:])

    def loss(t: np.ndarray, unit: float) -> tuple[float, np.ndarray]:
        score, slope_x, slope_y = _loo_score(X, Y, *bandwidths(t))
        return score / unit, np.concatenate([slope_x @ free_x, slope_y @ free_y]) / unit

    found = []
    for factor_x, factor_y, score in _starts(X, Y, unit_x, unit_y, split > 0, free_y.size > 0):
        t = np.log([*[factor_x] * split, *[factor_y] * free_y.shape[1]])
        bounds = [(-RANGE, RANGE)] * len(t)
        unit = abs(score) or 1.0  # the search stops by differences relative to one
        found.append(minimize(loss, t, (unit,), "L-BFGS-B", jac=True, bounds=bounds))
        found[-1].fun *= unit
    best = min(found, key=lambda result: result.fun).x
    if (best[split:] < np.log(COLLAPSED)).any():
        warn_numerical(TIES)
    return bandwidths(best)


def _side(X, given, columnwise: bool, name: str) -> tuple[np.ndarray, np.ndarray]:
    """What bandwidths are measured in, and the matrix from the logarithms searched to those of all.

    The unit is the median distance, of columns of variance one if asked.
    """
    d = X.shape[1]
    if given is not None:
        return given, np.empty((d, 0))
    if not columnwise:
        return np.full(d, median_lengthscale(X, name=name)), np.ones((d, 1))
    check_varying(X, name, "bandwidth")
    spread = X.std(axis=0)
    return spread * median_lengthscale(X / spread, name=name), np.eye(d)


def _starts(X, Y, unit_x, unit_y, free_x: bool, free_y: bool) -> list[tuple[float, float, float]]:
    """The lowest local minima of the score on a grid, for some of the rows: factors and score."""
    some = evenly(len(X), START_ROWS)
    X, Y = X[some], Y[some]
    factors_x, factors_y = GRID_X if free_x else np.ones(1), GRID_Y if free_y else np.ones(1)
    widths = [factor * unit_y for factor in factors_y]
    kernels = [(normal(Y, Y, np.sqrt(2) * width), normal(Y, Y, width)) for width in widths]
    scores = []
    for factor in factors_x:
        W = _weights_left_out(X, slice(None), factor * unit_x)
        S = W.T @ W
        scores.append([np.vdot(S, A) - 2 * np.vdot(W, B) for A, B in kernels])
    grid = np.array(scores) / len(X)
    minima = np.argwhere(grid == minimum_filter(grid, 3, mode="nearest"))
    lowest = sorted(minima, key=lambda at: grid[tuple(at)])[:STARTS]
    return [(factors_x[i], factors_y[j], grid[i, j]) for i, j in lowest]

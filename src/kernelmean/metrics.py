"""Errors of quantiles, of hidden Markov models and of volatility forecasts."""

from itertools import permutations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import digamma

from .core import arrays, checks

MOST_STATES = 8  # whose permutations are enumerated


# ---------------------------------------------------------------- errors


def pinball(y, predicted, q) -> np.ndarray:
    """(q − 1{y < ŷ})(y − ŷ) for a predicted q-quantile ŷ: least, on average, at the true one.

    Parameters
    ----------
    y, predicted, q : arrays that broadcast together
        What was seen, the quantiles, and their levels in [0, 1].

    References
    ----------
    Koenker, Bassett (1978), Regression quantiles; Gneiting, Raftery (2007), Strictly proper scoring
    rules. Twice its integral over q is the score `Law.crps`.

    Examples
    --------
    >>> from kernelmean.metrics import pinball
    >>> pinball([1.0, 3.0], [2.0, 2.0], 0.9)
    array([0.1, 0.9])
    """
    y, predicted = checks.as_floats(y, "y"), checks.as_floats(predicted, "predicted")
    levels = checks.as_levels(np.ravel(q)).reshape(np.shape(q))
    off = arrays.to_numpy(y) - arrays.to_numpy(predicted)
    return off * (levels - (off < 0))


def tmse(startprob, transmat, startprob_hat, transmat_hat) -> float:
    """min_τ ‖π − π̂_τ‖² + ‖Q − Q̂_τ‖²_F, over all ways τ to number the states.

    Parameters
    ----------
    startprob, transmat : arrays of shape (K,), (K, K)
        π and Q, of at most 8 states.
    startprob_hat, transmat_hat : arrays of the same shapes
        Their estimates.

    References
    ----------
    Spiteri (2023), Nonparametric estimation with kernel mean embeddings, eq. (3.11).

    Examples
    --------
    >>> from kernelmean.metrics import tmse
    >>> tmse([0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]], [0.6, 0.4], [[0.7, 0.3], [0.2, 0.8]])
    0.04
    """
    pi, Q = _parameters(startprob, transmat, "startprob", "transmat")
    pi_hat, Q_hat = _parameters(startprob_hat, transmat_hat, "startprob_hat", "transmat_hat")
    checks.check_lengths(len(pi), len(pi_hat), "startprob", "startprob_hat")
    orders = (list(order) for order in permutations(range(len(pi))))
    return min(
        float(np.sum((pi - pi_hat[o]) ** 2) + np.sum((Q - Q_hat[np.ix_(o, o)]) ** 2))
        for o in orders
    )


def _parameters(startprob, transmat, first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    pi, Q = checks.as_vector(startprob, first), checks.as_floats(transmat, second)
    K = len(pi)
    if K > MOST_STATES:
        raise ValueError(f"{first} has {K} states; at most {MOST_STATES} can be enumerated")
    if Q.shape != (K, K):
        raise ValueError(f"{second} has shape {Q.shape}; ({K}, {K}), as {first}, is needed")
    return pi, Q


def matched_accuracy(states, predicted) -> float:
    """max_τ (1/n) Σ_t 1[τ(x̂_t) = x_t], over all ways τ to number the states that were predicted.

    Parameters
    ----------
    states, predicted : arrays of int of shape (n,)

    References
    ----------
    Spiteri (2023), Nonparametric estimation with kernel mean embeddings, eq. (3.12).

    Examples
    --------
    >>> from kernelmean.metrics import matched_accuracy
    >>> matched_accuracy([0, 0, 1, 1, 2], [2, 2, 0, 0, 0])
    0.8
    """
    from sklearn.metrics.cluster import contingency_matrix  # a tenth of a second to read

    states, predicted = checks.as_vector(states, "states"), checks.as_vector(predicted, "predicted")
    checks.check_lengths(len(states), len(predicted), "states", "predicted")
    counts = contingency_matrix(states, predicted)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / len(states))


LOG_CHI2 = digamma(0.5) + np.log(2)  # E log v² of a standard normal v


def qlike(variance, squared_return) -> float:
    """Mean of log σ²_t + r²_t/σ²_t: least in expectation where σ²_t = E[r²_t | past].

    Parameters
    ----------
    variance : array of shape (n,), or a number
        Forecasts σ².
    squared_return : array of shape (n,)
        r².

    Returns
    -------
    float

    Notes
    -----
    Mean of r²/σ² − log(r²/σ²) − 1, which is another form, is this less what does not depend on the
    forecast; unlike it, this one allows returns of 0.

    References
    ----------
    Patton (2011), Volatility forecast comparison using imperfect volatility proxies.

    Examples
    --------
    >>> from kernelmean.metrics import qlike
    >>> round(qlike([1.0, 4.0], [1.0, 0.0]), 3)  # (0 + 1 + log 4 + 0)/2
    1.193
    """
    variance, squares = _forecasts(variance, squared_return)
    return float(np.mean(np.log(variance) + squares / variance))


def mse_log_variance(variance, squared_return) -> float:
    """Mean of (log r²_t + 1.27 − log σ²_t)², where E log v² = −1.27 for a standard normal v.

    So log r² + 1.27 has the mean log σ² where returns are normal given σ². Rows with a return of
    0, which has no logarithm, are left out.

    Parameters
    ----------
    variance : array of shape (n,), or a number
        Forecasts σ².
    squared_return : array of shape (n,)
        r².

    Returns
    -------
    float

    Examples
    --------
    >>> from kernelmean.metrics import mse_log_variance
    >>> round(mse_log_variance([1.0, 4.0], [1.0, 0.0]), 3)  # 1.27², of the first row alone
    1.614
    """
    variance, squares = _forecasts(variance, squared_return)
    some = squares > 0
    if not some.any():
        raise ValueError("squared_return has no positive number; at least one is needed")
    return float(np.mean((np.log(squares[some] / variance[some]) - LOG_CHI2) ** 2))


def _forecasts(variance, squared_return) -> tuple[np.ndarray, np.ndarray]:
    squares = arrays.to_numpy(checks.as_vector(squared_return, "squared_return"))
    if np.ndim(variance) == 0:
        variance = np.full(len(squares), variance)
    variance = arrays.to_numpy(checks.as_vector(variance, "variance"))
    checks.check_lengths(len(squares), len(variance), "squared_return", "variance")
    if np.any(variance <= 0):
        raise ValueError(f"variance contains {variance.min()}; positive numbers are needed")
    if np.any(squares < 0):
        raise ValueError(
            f"squared_return contains {squares.min()}; a number of at least 0 is needed"
        )
    return variance, squares

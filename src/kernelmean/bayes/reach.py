"""Observations that few pairs are near: laws there are as wide as those of the nearest pairs.

Of an observation that is alone the regression has one pair to tell from: a law of one point, as if
all were known. With N = (Σk)²/Σk² the number of pairs within the kernel's reach, and K enough of
them, weights are (1 − t)w + tv: t is one up to N = K/2 and zero from K on, and v those of the 5K/4
nearest pairs: even for an eighth of them, then falling with the distance to zero at the last. N is
also at most K times (Σw)²/Σw², which only weights of both signs, an extrapolation, have below one.

Of the farthest observation the nearest pairs lie all to one side. Where such a law lies is told by
the regression, Σwz/Σw, beside which the mean z̄ of the nearest counts as half a pair, and decides
where S = Σw is nearly zero: (S Σwz + bz̄)/(S² + b), b = t(Σw²/2 + .05²). Latents of few values stay
where they are.
"""

import math

import numpy as np

from ..core import Array, arrays
from ..regression.support import nearest_of

ENOUGH = 20  # pairs; of few their root
LEAST = 1e-9  # of the distance of the last pair: ties with it have weights
HALF, NOTHING = 0.5, 0.05  # of a pair; a sum of weights that tells little


def enough(pairs: int) -> int:
    """How many pairs a law is to be of."""
    return min(ENOUGH, math.isqrt(pairs))


def thinness(coordinates, left, right, second, shares) -> np.ndarray:
    """t of observations (m,), by the factors of `bayes_factors`, and the shares of the pairs."""
    d = np.clip(arrays.to_numpy(shares), 0.0, None)
    n, mean = int(np.count_nonzero(d)), arrays.to_numpy(right).sum(axis=0)

    def effective(A) -> np.ndarray:
        """n(Σ d_i u_i)²/Σ d_i u_i² of u = Aφ_i, where d has the sum one."""
        A = arrays.to_numpy(A)
        squares = d.sum() * ((A @ arrays.to_numpy(second)) * A).sum(axis=1)
        return n * (A @ mean) ** 2 / np.where(squares > 0, squares, np.inf)

    N = np.minimum(effective(coordinates), enough(n) * effective(left))
    return np.clip(2.0 - 2.0 * N / max(enough(n), 1), 0.0, 1.0)


def gone_over(t: np.ndarray, near: np.ndarray, pairs: np.ndarray, shares) -> tuple[Array, Array]:
    """Factors of tv, (m, k) and (n + s, k), for the k observations where t is not zero.

    Parameters
    ----------
    t : array of shape (m,)
    near, pairs : arrays of shape (m, d), (n, d)
        Observations.
    shares : array of shape (n + s,)
        Of rows, of which the last are not pairs.
    """
    d = np.clip(arrays.to_numpy(shares), 0.0, None)
    few, told = np.flatnonzero(t), np.flatnonzero(d[: len(pairs)])
    count = min(1 + 5 * enough(len(told)) // 4, len(told))
    distance, which = nearest_of(near[few], pairs[told], count)
    last, first = distance[:, -1:], distance[:, count // 8, None]
    least = LEAST * last + 1e-300
    v = d[told[which]] * np.minimum((last - distance + least) / (last - first + least), 1.0)
    left, right = np.zeros((len(t), len(few))), np.zeros((len(d), len(few)))
    left[few, np.arange(len(few))] = t[few]
    right[told[which], np.arange(len(few))[:, None]] = v / v.sum(axis=1, keepdims=True)
    return arrays.like(left, shares), arrays.like(right, shares)

"""Which observation goes with which latent point, before anything is learned."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.neighbors import KDTree

from . import linalg
from .moments import evenly

ASSIGNED = 2000  # rows that are assigned at once; the time grows with the cube


def sorted_pairs(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The latent point of the same rank as each observation: the monotone map of y to x.

    Parameters
    ----------
    y : array of shape (n, 1)
    x : array of shape (m, 1)
        If m is not n, ranks are scaled: every point goes with about n/m observations.

    Returns
    -------
    array of int of shape (n,)
        Numbers of rows of `x`.

    References
    ----------
    Spiteri (2023), section 4.4.3.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.pairing import sorted_pairs
    >>> sorted_pairs(np.array([[5.0], [-1.0], [2.0]]), np.array([[0.1], [0.2], [0.3]]))
    array([2, 0, 1])
    """
    index = np.empty(len(y), dtype=np.int64)
    index[np.argsort(y[:, 0], kind="stable")] = np.argsort(x[:, 0])[spread(len(y), len(x))]
    return index


def assigned_pairs(y: np.ndarray, x: np.ndarray, limit: int = ASSIGNED) -> np.ndarray:
    """argmin Σ_i ‖z_i − x_{p(i)}‖² over assignments p, both sides centred and whitened.

    The optimal transport of the observations to the latent points, as sorting is for one column.
    Where observations have fewer columns than the latent points, only the first columns of the
    points are compared; where they have more, the leading principal components are.

    Parameters
    ----------
    y : array of shape (n, d_y)
    x : array of shape (m, d_x)
    limit : int
        With more observations, evenly spaced ones are assigned, and the others go with the
        nearest of these.

    Returns
    -------
    array of int of shape (n,)
        Numbers of rows of `x`.
    """
    d = min(y.shape[1], x.shape[1])
    y, x = whitened(y, d), whitened(x[:, :d], d)
    chosen = evenly(len(y), limit)
    points = spread(len(chosen), len(x))
    _, order = linear_sum_assignment(linalg.sq_dists(y[chosen], x[points]))
    if len(chosen) == len(y):
        return points[order]
    return points[order][KDTree(y[chosen]).query(y, return_distance=False)[:, 0]]


def spread(n: int, m: int) -> np.ndarray:
    """n numbers below m in order, each as often as the next."""
    return (2 * np.arange(n) + 1) * m // (2 * n)


def whitened(points: np.ndarray, d: int) -> np.ndarray:
    """The d leading components of centred points, of equal spread; its unit is no matter here.

    All components are turned back to the columns that they came from, so that column j is still
    about column j.
    """
    left, _, Vt = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    return left @ Vt if d == points.shape[1] else left[:, :d]

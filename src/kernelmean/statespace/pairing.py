"""Which observation goes with which latent point, before anything is learned."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import linear_sum_assignment
from scipy.spatial import KDTree
from scipy.special import softmax

from ..chains.rows import Rows
from ..core import arrays
from ..core.moments import evenly
from ..core.sequences import neighbours
from .latent import Latent
from .moves import SmoothMoves

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
    >>> from kernelmean.statespace.pairing import sorted_pairs
    >>> sorted_pairs(np.array([[5.0], [-1.0], [2.0]]), np.array([[0.1], [0.2], [0.3]]))
    array([2, 0, 1])
    """
    index = np.empty(len(y), dtype=np.int64)
    index[np.argsort(y[:, 0], kind="stable")] = np.argsort(x[:, 0])[spread(len(y), len(x))]
    return index


def assigned_pairs(y: np.ndarray, x: np.ndarray, limit: int = ASSIGNED) -> np.ndarray:
    """argmin Σ_i ‖z_i − x_{p(i)}‖² over assignments p, both sides centred and whitened.

    The optimal transport of the observations to the latent points; sorting is that of one column.
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
    if d == 1:
        return sorted_pairs(y, x)
    chosen = evenly(len(y), limit)
    points = spread(len(chosen), len(x))
    _, order = linear_sum_assignment(arrays.sq_dists(y[chosen], x[points]))
    if len(chosen) == len(y):
        return points[order]
    return points[order][KDTree(y[chosen]).query(y)[1]]


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


WINDOWS = (0.0, 2.0, 8.0, 32.0)  # rows over which observations are averaged before they are paired
PAIRED = 1000  # latent points that are paired with observations
AROUND = 8  # rows on either side that canonical variates are of
BLUR = 0.3  # of a pairing, in standard deviations of the latent law


# ------------------------------------------------------------ where to begin


class Pairing:
    """Probabilities of the nodes in each row, as if a function of the observations were x.

    By rank or optimal assignment to π*, of observations averaged over some rows. Where `window` is
    None, of canonical variates of the rows up to each with those after it.

    Attributes
    ----------
    log_shares : array of shape (n, m)
        Their logarithms, up to a constant of the row.
    chain : Chain
        From neighbours.
    """

    def __init__(self, rows: Rows, moves: SmoothMoves, window: float | None, sign: float = 1.0):
        latent, z = moves.latent, moves.latent.standard
        d = z.shape[1]
        signals = variates(rows, d) if window is None else _signals(rows, window, d)
        paired = z[_pairs(sign * signals, latent)]
        self.log_shares = -0.5 * arrays.sq_dists(paired, z) / max(BLUR, latent.spacing) ** 2
        linked, gamma = neighbours(rows.seen, rows.sequences), self.gamma
        self.chain = moves.from_counts(gamma[:-1][linked].T @ gamma[1:][linked])

    @property
    def gamma(self) -> np.ndarray:
        """The probabilities."""
        return softmax(self.log_shares, axis=1)


def variates(rows: Rows, d: int) -> np.ndarray:
    """(n, d): what is linear in the `AROUND` rows up to each, and tells most of those after it.

    The state of a linear model, up to coordinates (Akaike 1976; the subspace estimate).
    """
    Y, past, future = _last_seen(rows), [], []
    for s in rows.sequences:
        at = np.arange(s.start, s.stop)[:, None]
        later = np.minimum(at + np.arange(1, AROUND + 1), s.stop - 1)
        past.append(Y[np.maximum(at - np.arange(AROUND), s.start)].reshape(len(at), -1))
        future.append(Y[later].reshape(len(at), -1))
    white = [_white(np.concatenate(parts)) for parts in (past, future)]
    left = np.linalg.svd(white[0].T @ white[1])[0]
    return white[0] @ left[:, :d]


def _white(X: np.ndarray) -> np.ndarray:
    """Columns of an orthonormal basis of what varies."""
    left, sizes, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return left[:, sizes > 1e-6 * sizes[0]]


def _signals(rows: Rows, window: float, d: int) -> np.ndarray:
    """Observations averaged in time, the last one where one is missing; d columns at least.

    More columns than an observation has come from wider and wider windows.
    """
    Y, columns = _last_seen(rows), list[np.ndarray]()
    while sum(c.shape[1] for c in columns) < d:
        columns.append(_averaged(Y, rows.sequences, window))
        window = 4 * max(window, 1.0)
    return np.concatenate(columns, axis=1)


def _last_seen(rows: Rows) -> np.ndarray:
    """Observations, the last one where one is missing; several columns by their spreads."""
    Y = arrays.to_numpy(rows.points)
    last = np.maximum.accumulate(np.where(rows.seen, np.arange(len(Y)), -1))
    Y = Y[np.where(last >= 0, last, np.argmax(rows.seen))]
    return Y / arrays.units(Y) if Y.shape[1] > 1 else Y


def _averaged(Y: np.ndarray, sequences: list[slice], window: float) -> np.ndarray:
    if window == 0:
        return Y
    parts = [gaussian_filter1d(Y[s], window, axis=0, mode="nearest") for s in sequences]
    return np.concatenate(parts)


def _pairs(signals: np.ndarray, latent: Latent) -> np.ndarray:
    """The node that goes with every row."""
    levels = (np.arange(PAIRED) + 0.5) / PAIRED
    upto = np.cumsum(latent.weights)
    nodes = np.minimum(np.searchsorted(upto, levels), len(upto) - 1)  # of equal weight
    return nodes[assigned_pairs(signals, latent.nodes[nodes])]

"""A line beside kernels: where latents of pairs left out are nearer to the regression with it.

Far from most pairs the regression of kernels goes back to what it has nearest, and from few pairs
it learns a slope slowly. Latents are then those of z − ℓ(x), moved by ℓ at the observation.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..core import arrays
from ..core.checks import Array
from ..densities.location import HARDLY, Slopes

FAR, NEARER = 0.1, 0.9  # of the pairs, farthest out; of the squares they have without a line
PAIRS = 5  # with a share, to a column of observations
OWN = 0.9  # of a pair in its own mean: no residual is made more than ten times larger


class Straight(NamedTuple):
    """ℓ(x), by the pairs with their shares.

    Attributes
    ----------
    lift : callable
        Observations to a scale, whose columns are
    columns : Slopes
        standardised.
    slopes : array of shape (k, d_z)
    """

    lift: Callable[[Array], Array]
    columns: Slopes
    slopes: np.ndarray

    def __call__(self, X) -> Array:
        U = self.columns(self.lift(X))
        return U @ arrays.like(self.slopes, U)


class Left(NamedTuple):
    """Latents less their means given x, each without its own pair.

    Attributes
    ----------
    residuals : array of shape (n, d_z)
    line : Straight or None
        That means are told with.
    """

    residuals: Array
    line: Straight | None


def left_out(latents, factors: tuple[Array, Array], shares, seen, lifts) -> Left:
    """By weights of kernels, `factors`, and beside the line that is best, if it pays.

    Squares of pairs left out, in units of each latent, must be smaller with it; and of the tenth
    that is farthest out smaller by a tenth, where slopes are those of the others: far out a line
    that does not hold is worse than none.

    Parameters
    ----------
    latents : array of shape (n, d_z)
    factors : of the weights of every pair's posterior, (n, r) each
    shares : array of shape (n,)
    seen : array of shape (n, d_x)
        Observations.
    lifts : sequence of callable
        To scales on which there may be a line.
    """
    left, right = map(arrays.to_numpy, factors)
    d = np.clip(arrays.to_numpy(shares), 0.0, None)
    d /= d.sum()
    Z = arrays.to_numpy(latents)
    Z = Z - d @ Z
    units = np.maximum(d @ Z**2, 1e-300)

    def without_own(A: np.ndarray, own) -> np.ndarray:
        rest = 1.0 - np.clip((left * right).sum(axis=1) + own, 0.0, OWN)
        return (A - left @ (right.T @ A)) / rest[:, None]

    def squares(E: np.ndarray, rows) -> float:
        return float((d @ (rows[:, None] * E**2)) @ (1.0 / units))

    best, line, every = without_own(Z, 0.0), None, np.ones(len(d))
    plain = best
    for lift in lifts:
        rows = arrays.to_numpy(lift(seen))
        if np.count_nonzero(d) < PAIRS * rows.shape[1]:
            continue
        columns = Slopes(rows)
        U = columns(rows)
        U = U - d @ U
        away = (U**2).sum(axis=1)
        far = away > np.quantile(away, 1.0 - FAR)
        inner, solve = _solving(U, d * ~far), _solving(U, d)
        own = ((U - left @ (right.T @ U)) * solve.T).sum(axis=1)
        found = without_own(Z - U @ (solve @ Z), own)
        extended = without_own(Z - U @ (inner @ Z), 0.0)
        holds = squares(extended, far) <= NEARER * squares(plain, far)
        if holds and squares(found, every) < squares(best, every):
            best, line = found, Straight(lift, columns, solve @ Z)
    return Left(arrays.like(best, latents), line)


def _solving(U: np.ndarray, d: np.ndarray) -> np.ndarray:
    """What takes latents to their slopes on U, by least squares with shares d, (k, n)."""
    U, root = U - d @ U / d.sum(), np.sqrt(d)
    return np.linalg.pinv(root[:, None] * U, rcond=HARDLY) * root


def as_it_is(X) -> Array:
    """X."""
    return X

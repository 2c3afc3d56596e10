"""A line beside kernels: where latents of pairs left out are nearer to the regression with it.

Far from most pairs the regression of kernels goes back to what it has nearest, and from few pairs
it learns a slope slowly. Latents are then those of z − ℓ(x), moved by ℓ at the observation, also
beyond the pairs. Slopes are those of the far pairs, which count by their squared distance from the
middle: there the line decides, in the middle kernels tell what it leaves.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core import Array, arrays
from ..densities.bending import Bent
from ..densities.location import HARDLY, Slopes
from ..kernels import Kernel

FAR, NEARER = 0.1, 0.9  # of the pairs, farthest out; of the squares they have without a line
SMALLER = 0.98  # of the squares of all
PAIRS = 5  # with a share, to a column of observations
TAIL, LONGER = 0.1, 4.0  # of the latents at either end; how much farther a line goes
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


def left_out(
    latents, factors: tuple[Array, Array], shares, seen, lifts, copies=None
) -> tuple[Array, Straight | None]:
    """Latents less their means, each without its own pair, (n, d_z); the line of these means.

    Means are of weights of kernels; beside a line if squares of pairs left out, in units of each
    latent, are a fiftieth smaller so, and those of the tenth that is farthest out a tenth, where
    slopes are those of the other pairs: far out a line that does not hold is worse than none.

    Parameters
    ----------
    latents : array of shape (n, d_z)
    factors : of the weights of every pair's posterior, (n, r) each
    shares : array of shape (n,)
    seen : array of shape (n, d_x)
        Observations.
    lifts : sequence of callable
        To scales on which there may be a line.
    copies : array of shape (n,), optional
        How often a pair is there: all of them are left out together.
    """
    left, right, Z = (arrays.to_numpy(A) for A in (*factors, latents))
    d, own = np.clip(arrays.to_numpy(shares), 0.0, None), (left * right).sum(axis=1)
    Z = Z - d @ Z / d.sum()
    units = np.maximum(d @ Z**2, 1e-300)

    def without_own(A: np.ndarray, more=0.0) -> np.ndarray:
        theirs = (own + more) * (1.0 if copies is None else copies)
        return (A - left @ (right.T @ A)) / (1.0 - np.clip(theirs, 0.0, OWN))[:, None]

    def squares(E: np.ndarray, rows=slice(None)) -> float:
        return float(d[rows] @ (E[rows] ** 2 / units).sum(axis=1))

    plain = best = without_own(Z)
    least, line = SMALLER * squares(plain), None
    for lift in lifts:
        rows = arrays.to_numpy(lift(seen))
        if np.count_nonzero(d) < PAIRS * rows.shape[1]:
            continue
        columns = Slopes(rows)
        U = columns(rows)
        U -= d @ U / d.sum()
        away = (U**2).sum(axis=1)
        far = away > np.quantile(away, 1.0 - FAR)
        inner, solve = (_solving(U, some) for some in (np.where(far, 0.0, d), d * away))
        holds = squares(without_own(Z - U @ (inner @ Z)), far) <= NEARER * squares(plain, far)
        more = ((U - left @ (right.T @ U)) * solve.T).sum(axis=1)
        found = without_own(Z - U @ (solve @ Z), more)
        if holds and squares(found) < least:
            best, least, line = found, squares(found), Straight(lift, columns, solve @ Z)
    return arrays.like(best, latents), line


def _solving(U: np.ndarray, d: np.ndarray) -> np.ndarray:
    """What takes latents to their slopes on U, by least squares with shares d, (k, n)."""
    U, root = U - d @ U / d.sum(), np.sqrt(d)
    return np.linalg.pinv(root[:, None] * U, rcond=HARDLY) * root


def room(latents) -> Array:
    """The least and largest latents, (2, d_z), that a line may tell: farther where tails are long.

    With e the way from the last tenth to the end and m that from the median to this tenth, they
    are 4e²/m beyond the ends: of uniform latents a tenth of their range, of normal ones some
    deviations, of long-tailed ones many times their range.
    """
    Z = arrays.to_numpy(latents)
    least, tenth, median, ninth, most = np.quantile(Z, [0.0, TAIL, 0.5, 1.0 - TAIL, 1.0], axis=0)
    ends, e = np.array([least, most]), np.array([least - tenth, most - ninth])
    m = np.array([median - tenth, ninth - median])
    return arrays.like(ends + LONGER * e * np.abs(e) / np.maximum(m, 1e-100), latents)


def scales(kernel: Kernel) -> list[Callable[[Array], Array]]:
    """Lifts of observations to scales on which there may be a line: straight, and the kernel's.

    A bent one goes on so beyond the pairs, where the kernel's own goes along a tangent.
    """
    if not isinstance(kernel, Bent):
        return [kernel.lift]
    bend = replace(kernel.bend, low=np.array(-np.inf), high=np.array(np.inf))
    return [kernel.kernel.lift, replace(kernel, bend=bend).lift]

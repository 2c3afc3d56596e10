"""A mean that outliers of y do not decide: they are moved nearer while it is sought and learned."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..core import Array, Rows, arrays
from ..embedding.move import Bend
from ..features.landmarks import Nystroem
from ..regression.lengthscales import residuals_left_out
from .location import RANK, Design, Location, LocationSearch, Weights

APART = 8.0  # root mean squares of most residuals, beyond which one is an outlier's
MOST = 0.95  # what most are
TURNS = 6  # searches, each with outliers as near as the last one says
SAME = 0.03  # of a spread


@dataclass(frozen=True)
class Clip:
    """Of y at x: `nearer`."""

    where: Location  # m
    most: np.ndarray  # b, (d_y,)

    def __call__(self, X, Y) -> Array:
        """Outcomes at rows of X."""
        return arrays.like(nearer(arrays.to_numpy(Y), self.where(arrays.to_numpy(X)), self.most), Y)


def nearer(Y: np.ndarray, m: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Outcomes within reach as they are; those beyond go back to m, where they are from 2b on."""
    off = Y - m
    with np.errstate(invalid="ignore"):  # of what is infinite
        back = np.sign(off) * np.clip(2 * most - np.abs(off), 0.0, most)
    return np.where(np.abs(off) > most, m + back, Y)


def reach(off: np.ndarray) -> np.ndarray:
    """b of residuals, (d_y,): infinite where most rows are met exactly, which tells of no size."""
    size = np.sqrt(np.sort(off**2, axis=0)[: int(MOST * len(off))].mean(axis=0))
    return np.where(size > 0, APART * size, np.inf)


def within(off: np.ndarray, most: np.ndarray) -> np.ndarray:
    """|residuals| in shares of b, and one at most."""
    return np.minimum(np.abs(off) / most, 1.0)


class MeanSearch(LocationSearch):
    """The search of a mean, begun again with outliers moved nearer, until none is moved any more.

    The first search stands if it leaves less, where outliers count as no more than far: large
    outcomes that x tells are none.
    """

    clip: Clip | None = None

    def __init__(
        self, kernel, X: np.ndarray, Y: np.ndarray, start: LocationSearch | None = None,
        free: bool = True, weights: Weights | None = None,
    ):  # fmt: skip
        super().__init__(kernel, X, Y, start, free, weights)
        plain, found = self._left_out(Y), (self._u, self.Y)
        far = np.abs(plain) > reach(plain)
        if not far.any():
            return
        middle = np.median(Y, axis=0)
        near = np.where(far, nearer(Y, middle, reach(Y - middle)), Y)
        for _ in range(TURNS):
            super().__init__(kernel, X, near, start, free, weights)
            off = self._left_out(near) + (Y - near)
            design, most = self.design(X, Nystroem(max_rank=RANK)), reach(off)
            where = Location.on(design, near, self.reg, weights=weights)
            self.clip = Clip(where.bare(), most)
            last, near = near, self.clip(X, Y)
            if np.allclose(near, last, rtol=0, atol=SAME * Y.std(axis=0)):
                break
        if within(plain, most).sum() < within(off, most).sum():
            self._u, self.Y = found
            self.clip = None  # they are where x says

    def further(self, X: np.ndarray, Y: np.ndarray, weights: Weights | None) -> MeanSearch:
        """The same on other rows, begun where this one ended."""
        return MeanSearch(self.kernel, X, Y, self, self.free, weights)

    def mean(
        self, design: Design, Y, bend: Bend | None = None, rows: Rows | None = None,
        weights: Weights | None = None,
    ) -> Location:  # fmt: skip
        """m as found, in given coordinates; outliers among `rows` stay where they are."""
        if self.clip is None or rows is not None:
            return Location.on(design, Y, None, bend, rows, weights)
        near = self.clip(design.X, Y)
        return replace(Location.on(design, near, None, bend, weights=weights), excess=Y - near)

    def _left_out(self, Y: np.ndarray) -> np.ndarray:
        """What the mean found leaves of each row without its own."""
        if not self.free:  # nothing was searched
            self.scaled.choose(self._u[: self.d])
        size = 10.0 ** self._u[self.d]
        Theta = np.hstack([size * self.line, self.scaled(self._u[: self.d])])
        return residuals_left_out(Theta, Y, self.reg, True)[0]

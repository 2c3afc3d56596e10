"""Simulating where the posterior is: the prior cut to boxes that a first look allows.

Between rounds nothing but the support of the prior changes, so that no weights are needed and the
density of the prior need not be known (Deistler, Gonçalves, Macke 2022, truncated proposals).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from ..core.checks import warn_numerical
from .scores import NormalScores

CUT = 0.005  # of the posterior at each end of a column, and
WIDER = 2.0  # times as far from the median
PART, CLOSER = 100, 0.5  # draws in a part; of the share of one box, if parts have boxes
MOST = 1000  # parameters drawn from the prior for each one wanted
TRIED, DRAWS = 400_000, 100_000  # of the prior, for those where simulations are; of these
ENOUGH = 1000  # of these at least, to be weighed


@dataclass(frozen=True)
class Box:
    """Parameters whose normal scores are between two corners, of one box or of any of several.

    Attributes
    ----------
    prior : NormalScores
    centre, half : arrays of shape (boxes, p)
    """

    prior: NormalScores
    centre: np.ndarray
    half: np.ndarray

    @classmethod
    def around(cls, prior: NormalScores, draws: np.ndarray) -> Box:
        """All but `CUT` of draws (k, p) at either end, and as far again; of parts by themselves."""
        low, high = np.swapaxes([_corners(Z) for Z in _parts(prior(draws))], 0, 1)
        return cls(prior, 0.5 * (low + high), np.maximum(0.5 * (high - low), 1e-12))

    def stretch(self, theta: np.ndarray) -> np.ndarray:
        """How many times as large it must be to hold each row, (m,)."""
        Z, boxes = self.prior(theta), zip(self.centre, self.half, strict=True)
        return np.min([np.abs((Z - centre) / half).max(axis=1) for centre, half in boxes], axis=0)


def _corners(Z: np.ndarray) -> np.ndarray:
    low, middle, high = np.quantile(Z, [CUT, 0.5, 1 - CUT], axis=0)
    return np.array([middle - WIDER * (middle - low), middle + WIDER * (high - middle)])


def _share(Z: np.ndarray) -> float:
    """Of the prior, in the box of these scores, with independent columns."""
    return float(np.diff(ndtr(_corners(Z)), axis=0).prod())


def _parts(Z: np.ndarray) -> list[np.ndarray]:
    """Scores, on the sides of a cut and these again, while their boxes hold half of that of all."""
    cuts = [_sides(Z, z) for z in Z.T] if len(Z) >= 2 * PART else []
    shares = [sum(map(_share, sides)) for sides in cuts]
    if not cuts or min(shares) >= CLOSER * _share(Z):
        return [Z]
    one, other = cuts[int(np.argmin(shares))]
    return _parts(one) + _parts(other)


def _sides(Z: np.ndarray, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cut where the means of a column on both sides explain most of it."""
    Z, sums = Z[np.argsort(column, kind="stable")], np.cumsum(np.sort(column - column.mean()))
    left = np.arange(PART, len(Z) - PART + 1)
    cut = left[np.argmax(sums[left - 1] ** 2 / (left * (len(Z) - left)))]
    return Z[:cut], Z[cut:]


@dataclass(frozen=True)
class Draws:
    """Draws (n, p) of the prior where simulations are, and the logarithm of its share there."""

    theta: np.ndarray
    log_share: float

    @classmethod
    def of(cls, draw: Callable[[int], np.ndarray], box: Box | None, larger: float) -> Draws:
        """Up to `DRAWS`, of `TRIED`, in a multiple of a box; without one anywhere."""
        if box is None:
            return cls(draw(DRAWS), 0.0)
        theta = draw(TRIED)
        inside = theta[box.stretch(theta) <= larger]
        return cls(inside[:DRAWS], float(np.log(max(len(inside), 1) / TRIED)))


def draw_inside(draw: Callable[[int], np.ndarray], box: Box, n: int) -> tuple[np.ndarray, float]:
    """n draws from the prior in the box, or in the least multiple of it with n of `MOST` n; that.

    A multiple of a box has the prior's law inside as well.
    """
    theta, tried = draw(n), n
    away = box.stretch(theta)
    while np.sum(away <= 1) < n and tried < MOST * n:
        more = draw(min(MOST * n - tried, max(10_000, 4 * n)))
        tried += len(more)
        theta, away = np.concatenate([theta, more]), np.append(away, box.stretch(more))
        inside = np.flatnonzero(away <= 1)[:n]
        nearest = inside if len(inside) == n else np.argsort(away, kind="stable")[:n]
        theta, away = theta[nearest], away[nearest]
    if away.max() > 1:
        warn_numerical(
            f"{np.sum(away <= 1)} of {tried:,} draws from the prior lie where the posterior is, "
            f"for {n} simulations: the {n} nearest are taken; a narrower prior needs fewer draws"
        )
    return theta, max(1.0, float(away.max()))

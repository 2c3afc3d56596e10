"""Simulating where the posterior is: the prior cut to a box that a first look allows.

Between rounds nothing but the support of the prior changes, so that no weights are needed and the
density of the prior need not be known (Deistler, Gonçalves, Macke 2022, truncated proposals).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.checks import warn_numerical
from .scores import NormalScores

CUT = 0.005  # of the posterior at each end of a column, and
WIDER = 2.0  # times as far from the median
MOST = 1000  # parameters drawn from the prior for each one wanted
TRIED, DRAWS = 400_000, 100_000  # of the prior, for those where simulations are; of these
ENOUGH = 1000  # of these at least, to be weighed


@dataclass(frozen=True)
class Box:
    """Parameters whose normal scores are between two corners."""

    prior: NormalScores
    centre: np.ndarray
    half: np.ndarray

    @classmethod
    def around(cls, prior: NormalScores, draws: np.ndarray) -> Box:
        """All but `CUT` of draws (k, p) at either end, and as far again."""
        low, middle, high = np.quantile(prior(draws), [CUT, 0.5, 1 - CUT], axis=0)
        low, high = middle - WIDER * (middle - low), middle + WIDER * (high - middle)
        return cls(prior, 0.5 * (low + high), np.maximum(0.5 * (high - low), 1e-12))

    def stretch(self, theta: np.ndarray) -> np.ndarray:
        """How many times as large it must be to hold each row, (m,)."""
        return np.abs((self.prior(theta) - self.centre) / self.half).max(axis=1)


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

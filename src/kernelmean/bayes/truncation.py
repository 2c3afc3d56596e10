"""Simulating where the posterior is: the prior cut to the parameters that a first look allows.

Between rounds nothing but the support of the prior changes, so that no weights are needed and the
density of the prior need not be known (Deistler, Gonçalves, Macke 2022, truncated proposals).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core import arrays
from ..core.checks import warn_numerical
from ..embedding.embedding import MeanEmbedding

Region = Callable[[np.ndarray], np.ndarray]

DRAWS = 2000  # that show where a posterior lies
CUT = 1e-3  # share of it that may be lost, of one twice as smooth
WIDER = 2.0
MOST = 200  # parameters drawn from the prior for each one wanted


def allowed(law: MeanEmbedding, rng: np.random.Generator) -> Region:
    """Which parameters the posterior, smoothed `WIDER`, holds in its densest share 1 − `CUT`."""
    wide = law.carrying(tuple((WIDER * np.asarray(law.bandwidth)).tolist()))
    drawn = arrays.to_numpy(wide.sample(DRAWS, rng))
    least = np.quantile(arrays.to_numpy(wide.density(drawn, signed=True)), CUT)
    low, high = drawn.min(axis=0), drawn.max(axis=0)

    def inside(theta: np.ndarray) -> np.ndarray:
        found = ((theta >= low) & (theta <= high)).all(axis=1)
        if found.any():  # a box is quicker to look into
            density = wide.density(arrays.like(theta[found], law.points), signed=True)
            found[found] = arrays.to_numpy(density) >= least
        return found

    return inside


def draw_within(draw: Callable[[int], np.ndarray], inside: Region, n: int) -> np.ndarray:
    """n draws from the prior that are inside, or as many as are found among `MOST` n."""
    found: list[np.ndarray] = []
    have = tried = 0
    while have < n and tried < MOST * n:
        theta = draw(min(MOST * n - tried, max(1000, 4 * n)))
        found.append(theta[inside(theta)])
        have, tried = have + len(found[-1]), tried + len(theta)
    if have < n:
        warn_numerical(
            f"{have} of {tried:,} draws from the prior lie where the posterior is, for {n} "
            "simulations: draw from a narrower prior, or in fewer rounds"
        )
    return np.concatenate(found)[:n]

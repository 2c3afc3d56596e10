"""Levels of intervals and regions corrected by rows left out, so that they hold what they say."""

import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ..core import Array, Interval, Saveable, arrays, checks
from ..core.threads import doors
from .laws import MovedLaws

TIES = 1e-9  # of the largest level: so much are those of equal rows apart


@doors()
@dataclass(frozen=True)
class ConformalDensity(Saveable):
    """Intervals and regions that hold with the probability they say, whatever the density is.

    With F, p the distribution functions and densities at m rows (x_i, y_i) that these were not
    learned from,

        a_i = max_c abs(2 F_c(y_ic; x_i) − 1),    r_i = P(p(Y; x_i) > p(y_i; x_i)),

    are the levels of the interval and of the highest-density region that just hold y_i. At a level
    1 − α the intervals are those of the density at the level a_(k), and regions those at r_(k), the
    k-th smallest, k = ⌈(m + 1)(1 − α)⌉. A new row that is exchangeable with the m is held with a
    probability from 1 − α to 1 − α + 1/(m + 1) (the latter without ties): on average over x, not
    at each. With several columns of y the interval is a box that holds all at once, and r_i is
    −p(y_i | x_i).

    Attributes
    ----------
    density : ConditionalDensity
    intervals, regions : array of shape (m,)
        a_i and r_i, sorted.
    split : bool
        Whether the m rows had no part in the fit. Otherwise they are those of the fit, each left
        out of the weights at its own x but not of the choice of λ, bandwidth and lengthscales:
        nothing is lost to calibration, but what is said above holds nearly, not exactly.

    References
    ----------
    Vovk, Gammerman, Shafer (2005); Chernozhukov, Wüthrich, Zhu (2021), Distributional conformal
    prediction (a); Izbicki, Shimizu, Stern (2022), CD-split and HPD-split (r).

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> data = km.datasets.make_conditional_density("bimodal", 900, random_state=0)
    >>> X, y = data.X, data.Y[:, 0]
    >>> model = km.ConditionalDensity().fit(X[:300], y[:300])
    >>> conformal = model.conformalize(X[300:600], y[300:600])
    >>> bool(conformal.contains(X[600:], y[600:], 0.9).mean() > 0.85)
    True
    """

    density: Any  # ConditionalDensity
    intervals: np.ndarray = field(repr=False)
    regions: np.ndarray = field(repr=False)
    split: bool

    @classmethod
    def of(cls, density, laws: MovedLaws, Y, split: bool) -> Self:
        """From laws of rows left out, and the rows Y (m, d) as the laws have them."""
        F = arrays.to_numpy(laws.cdf(Y, paired=True))
        intervals = np.abs(2 * F - 1).max(axis=1)
        return cls(density, np.sort(intervals), np.sort(_region_levels(laws, Y)), split)

    def predict_interval(self, X, level: float = 0.95) -> Interval:
        """`Interval(lower, upper)` of each row of X, arrays like y; infinite if m is too small."""
        a = _corrected(self.intervals, level)
        laws = self.density._laws(X)
        if a >= 1:
            everywhere = laws.mean() * 0.0 + math.inf
            ends = Interval(-everywhere, everywhere)
        else:
            ends = laws.interval(max(a, 1e-12))
        return Interval(*map(self.density._outward, ends))

    def predict_region(self, X, level: float = 0.95) -> list[np.ndarray]:
        """For each row of X disjoint intervals (k, 2), of one column of y."""
        r = _corrected(self.regions, level)
        laws = self.density._laws(X)
        if r >= 1:
            return [np.array([[-np.inf, np.inf]])] * len(laws)
        return laws.region(max(r, 1e-12))

    def contains(self, X, y, level: float = 0.95) -> Array:
        """Whether the regions hold the rows of y, (m,) booleans; any number of columns."""
        laws = self.density._laws(X)
        return _region_levels(laws, laws.rows(y)) <= _corrected(self.regions, level)


def _region_levels(laws: MovedLaws, Y) -> np.ndarray:
    if Y.shape[1] > 1:
        return -arrays.to_numpy(laws.density_of_pairs(Y))
    return laws.mass_above(Y)


def _corrected(levels: np.ndarray, level: float) -> float:
    """The ⌈(m + 1) level⌉-th smallest; infinite, with a warning, where there are fewer.

    And a little more: rows like the one at the limit are held, however they round.
    """
    k = math.ceil((len(levels) + 1) * checks.check_level(level) - 1e-9)
    if k <= len(levels):
        return float(levels[k - 1] + TIES * np.abs(levels).max())
    checks.warn_numerical(
        f"{len(levels)} rows cannot assure a level of {level:g}, so everything is held: at least "
        f"{math.ceil(level / (1 - level) - 1e-9)} are needed"
    )
    return math.inf

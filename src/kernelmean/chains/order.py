"""The number of states by canonical correlations, and the papers' rules."""

from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Self

import numpy as np

from ..core.checks import check_positive
from .moments import Moments, numerical_rank, whitened

METHODS = ("correlations", "threshold", "elbow", "ratio", "likelihood")
MAX_COMPONENTS = 10
RANKS = (3, 6, 12, 24)  # numbers of coordinates that are tried
EXTREME = 3.2724  # 99.9% quantile of the Tracy-Widom law of order one
# by coordinates that both ways in time are averaged in: how far beyond the edge, in units of
# m^(-1/6), the largest correlation of noise is in one draw of 100 (r = 2), and of 200 (simulated)
BOTH_WAYS = {1: 1.81, 2: 1.62, 6: 1.87}
# least variance of a coordinate, as a share of the largest: small ones are of a few extreme rows
FLOORS = (1e-2, 1e-3, 1e-4, 1e-5)


class Order(int):
    """A number of hidden states that remembers how it was found.

    Attributes
    ----------
    method : str
    singular_values : array
        Those of the cross-covariance of consecutive observations, in descending order.
    correlations : array
        Canonical correlations of consecutive observations ("correlations").
    threshold : float or None
        What singular values or correlations were compared with.
    scores : dict
        Held-out log-likelihood of a row, by number of states ("likelihood").
    errors : dict
        Standard error of what each is below the best.
    """

    method: str
    singular_values: np.ndarray
    correlations: np.ndarray = np.empty(0)
    threshold: float | None = None
    scores: dict[int, float] = {}  # noqa: RUF012
    errors: dict[int, float] = {}  # noqa: RUF012

    def __new__(cls, value: int, method: str = "", singular_values=(), **more: Any) -> Self:
        order = super().__new__(cls, value)
        vars(order).update(more, method=method, singular_values=singular_values)
        return order

    def to_frame(self) -> Any:
        """Held-out scores by number of states, a DataFrame: what AIC and BIC are read for.

        `score` is the mean log-likelihood of a row held out (the larger the better), `behind` what
        it is below the best, `error` the standard error of that.
        """
        best = max(self.scores.values(), default=0.0)
        rows = [(K, s, best - s, self.errors.get(K)) for K, s in self.scores.items()]
        import pandas as pd

        frame = pd.DataFrame(rows, columns=["states", "score", "behind", "error"])
        return frame.set_index("states")


@dataclass(frozen=True)
class Spectrum:
    """What the rules look at.

    Attributes
    ----------
    moments : Moments
    most : int
        Most states that are looked for.
    ranked : tuple of Moments
        Those of the ranks of the columns, which correlations are taken of if there (see
        `Draft.ranked`).
    """

    moments: Moments
    most: int
    ranked: tuple[Moments, ...] = ()

    @property
    def limit(self) -> int:
        """The same, but for the numerical rank of what the spectral method takes apart."""
        return min(self.most, numerical_rank(np.linalg.svd(self.moments.skips, compute_uv=False)))

    @property
    def singular_values(self) -> np.ndarray:
        """Of C₁₂, descending."""
        return np.linalg.svd(self.moments.pairs, compute_uv=False)

    def by_threshold(self, constant: float) -> Order:
        """#{i : σ_i(C₁₂) > C √(log n/n)} (thesis, Theorem 3.2)."""
        sigma, n = self.singular_values, self.moments.n_pairs
        bound = float(check_positive(constant, "constant") * (np.log(n) / n) ** 0.5)
        count = int((sigma > bound).sum())
        return Order(min(max(count, 1), self.limit), "threshold", sigma, threshold=bound)

    def by_elbow(self) -> Order:
        """The point of the largest curvature of the singular values (Kneedle; thesis, §3.5)."""
        sigma = self.singular_values
        return Order(min(knee(sigma[: max(2 * self.limit, 3)]), self.limit), "elbow", sigma)

    def by_ratio(self) -> Order:
        """argmax_i σ_i/σ_{i+1}, over singular values that are not rounding."""
        sigma = self.singular_values
        real = sigma[: numerical_rank(sigma)][: self.limit + 1]
        count = 1 + int(np.argmax(real[:-1] / real[1:])) if len(real) > 1 else 1
        return Order(count, "ratio", sigma)

    def by_correlations(self) -> Order:
        """One more than the canonical correlations that chance does not explain.

        Consecutive observations of K states have at most K − 1 canonical correlations other than
        zero: C₁₂ less the product of the means has rank K − 1, whatever it is multiplied with.
        Taken in the leading r coordinates of the data (r = 3, 6, 12, 24) they have all the same
        noise, which singular values have not: the largest squared correlation of m coordinates
        that have nothing to do with each other is, times n, like the largest eigenvalue of a
        Wishart matrix (m, m), with the Tracy-Widom law (Johnstone 2001). Correlations are counted
        as long as they are beyond its 99.9% quantile, for each r, and the largest count is taken.
        A chain of two states is the same backwards in time, one of more often nearly: then
        (C₁₂ + C₁₂ᵀ)/2 has the same correlations and half of the noise, and counts at r = 2 and 6.
        Ranks of the columns have no extreme rows, which would be like further states. Of a single
        column the two coordinates are its level and its spread, each of which counts alone too:
        states often differ in nothing else.
        Coordinates of less than one percent of the largest variance are left out, for they are
        those of a few extreme rows, unless all others are correlated.
        """
        main, *shapes = self.ranked or (self.moments,)
        known = [counted(m, r, FLOORS[0], BOTH_WAYS[r]) for m in shapes for r in m.mean.shape]
        both = (6,) if shapes else (2, 6)
        for floor in FLOORS:
            found = [counted(main, r, floor) for r in RANKS]
            found += [counted(main, r, floor, BOTH_WAYS[r]) for r in both]
            best = max(found, key=itemgetter(0))
            if best[0] <= len(best[1]):
                break  # or else every one of the coordinates is correlated: there may be more
        count, correlations, bound = max([best, *known], key=itemgetter(0))
        told = {"correlations": correlations, "threshold": bound}
        return Order(min(count, self.limit), "correlations", self.singular_values, **told)


def knee(values: np.ndarray) -> int:
    """At which of some falling numbers, counted from 1, their curve bends most (Kneedle).

    The first that is farther than its neighbours below the straight line from the first to the
    last, and farther by the step of that line than what follows, before it is farther yet.
    """
    n, top = len(values), 0
    below = (values.max() - values) / (np.ptp(values) or 1.0) - np.linspace(0, 1, n)
    for i in range(1, n):
        if below[i] >= below[i - 1]:
            top = i
        elif below[i] < below[top] - 1 / (n - 1):
            return top + 1
    return 1


def counted(
    moments: Moments, r: int, floor: float, beyond: float | None = None
) -> tuple[int, np.ndarray, float]:
    """The order by r coordinates, their correlations, and the first bound not exceeded."""
    M = whitened(moments, r, floor)[1]
    correlations = np.linalg.svd(M if beyond is None else (M + M.T) / 2, compute_uv=False)
    left = len(correlations) - np.arange(len(correlations))
    bounds = noise_bound(left, moments.n_pairs, beyond)
    above = correlations > bounds
    count = len(above) if above.all() else int(np.argmin(above))
    return count + 1, correlations, float(bounds[min(count, len(bounds) - 1)])


def noise_bound(m, n: int, beyond: float | None = None):
    """99.9% quantile of the largest canonical correlation of m and m coordinates of pure noise.

    Where both ways in time are averaged, as far `beyond` the edge as is told (see `BOTH_WAYS`).
    """
    if beyond is not None:
        return ((2 * m - 1) ** 0.5 + beyond * m ** (-1 / 6)) / n**0.5
    side = (m - 0.5) ** 0.5
    centre, scale = 4 * side**2, 2 * side * (2 / side) ** (1 / 3)
    return ((centre + EXTREME * scale) / n) ** 0.5

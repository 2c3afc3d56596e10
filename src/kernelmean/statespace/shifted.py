"""Laws of observations where a line says how far the laws of the innovations are moved."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..chains.emission import one_or_each
from ..chains.results import StatesLaw
from ..core import Array, Interval, arrays, checks
from .backbone import AS_IT_IS, Transform

LEVELS = (np.arange(200) + 0.5) / 200  # of the quantiles that stand for a law in other units
ENOUGH = 500  # points of a law that a line moves, from which on neighbours are taken together
MANY = 5000  # for quantiles, and of one that none moves
BEYOND = 0.01  # of a law, for which it is said that it is cut
DRAWS = 2000  # that a probability of several columns is counted in


class ShiftedLaw(StatesLaw):
    """y = T⁻¹(shift + e + w), e by an embedding and w ~ N(0, extra): as the line has it.

    Attributes
    ----------
    shift, extra : arrays of shape (m, d), or (d,) of a single law
        Of each law; variances of w, which widens the bandwidth.
    transform : Transform
    """

    shift: np.ndarray
    extra: np.ndarray
    transform: Transform = AS_IT_IS

    @property
    def extrapolated(self) -> np.ndarray | None:
        """Which laws reach beyond what is believed, (m,), or None where none does.

        There a hundredth of a law of logarithms is beyond ten times the largest row of training,
        and ten times its own middle: what is more is taken for that.
        """
        if self.transform.name != "log":
            return None
        ends = np.log(arrays.to_numpy(self.quantile(1 - BEYOND)))
        found = (ends >= self.transform.limit(self.shift) - 1e-9).any(axis=-1)
        return found if found.any() else None

    def mean(self) -> Array:
        """E y, (m, d)."""
        if self.transform.name is not None:
            return self.quantile(LEVELS).mean(axis=-2)
        return super().mean() + self._like(self.shift)

    def std(self) -> Array:
        """Standard deviation of every column, (m, d)."""
        if self.transform.name is not None:
            return self.quantile(LEVELS).std(axis=-2)
        return (super().std() ** 2 + self._like(self.extra)) ** 0.5

    def cov(self) -> Array:
        """Covariance of the columns, (m, d, d)."""
        cov = arrays.to_numpy(super().cov())
        cov = cov + self.extra[..., None] * np.eye(cov.shape[-1])  # independent between columns
        if self.transform.name is None:
            return self._like(cov)
        own = np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))
        own = arrays.to_numpy(self.std()) / np.maximum(own, np.finfo(float).tiny)
        return self._like(cov * own[..., None, :] * own[..., :, None])

    def quantile(self, q) -> Array:
        """Quantiles of every column: (d,) for a number, (len(q), d) for a list."""
        shift = self.shift[..., None, :] if np.ndim(q) else self.shift
        return self._back(arrays.to_numpy(super().quantile(q)), shift)

    def interval(self, level: float = 0.95, kind: str = "central") -> Interval:
        """`Interval(lower, upper)` of every column, (m, d) each; `kind` as for `MeanEmbedding`."""
        central = checks.check_choice(kind, "kind", ["central", "shortest"]) == "central"
        count = max(1, round(checks.check_level(level) * len(LEVELS)))
        if central or count == len(LEVELS):  # which leaves no choice
            return super().interval(level)
        points = np.sort(arrays.to_numpy(self.quantile(LEVELS)), axis=-2)
        widths = points[..., count:, :] - points[..., :-count, :]
        at = widths.argmin(axis=-2)[..., None, :]
        ends = [np.take_along_axis(points, at + k, axis=-2)[..., 0, :] for k in (0, count)]
        return Interval(*map(self._like, ends))

    def density(self, Y) -> Array:
        """Density of every law at the rows of `Y`, (m, len(Y))."""
        return np.exp(self.log_density(Y))

    def log_density(self, Y) -> Array:
        """log of `density`: −∞ at values that the transform has none of."""
        checks.check_order(Y, self.labels.columns, "Y", "the law")
        Y = arrays.to_numpy(self.embedding.checked(Y))
        Z = self.transform(Y)
        within = np.isfinite(Z).all(axis=1)
        Z = np.where(within[:, None], Z, 0.0)
        found = [
            arrays.to_numpy(law.log_density(self._like(Z - shift), width))
            for law, shift, width in self._each()
        ]
        logs = np.where(within, np.stack(found) + self.transform.slope(Z), -np.inf)
        return self._like(logs if self.embedding.batch is not None else logs[0])

    def probability(self, event: Callable) -> Array:
        """P(event), in [0, 1], (m,): `event` maps points (n, d) to booleans (n,)."""
        points = arrays.to_numpy(self._points())
        found = checks.happens(event, points.reshape(-1, points.shape[-1]))
        return found.reshape(points.shape[:-1]).mean(axis=-1)

    def sample(self, n: int, random_state=None) -> Array:
        """n draws of every law, (m, n, d)."""
        rng = checks.generator(random_state)
        drawn = arrays.to_numpy(super().sample(n, rng))
        shift, spread = self.shift[..., None, :], np.sqrt(self.extra)[..., None, :]
        return self._back(drawn + spread * rng.standard_normal(drawn.shape), shift)

    def mode(self) -> Array:
        """The most typical point, (m, d); beside logarithms or roots of those that stand for it."""
        own = self._back(arrays.to_numpy(super().mode()), self.shift)
        if self.transform.name is None:
            return own
        parts = [arrays.to_numpy(part) for part in (self._points(), own[..., None, :])]
        tried = np.concatenate(parts, axis=-2)
        each: Any = self if own.ndim == 2 else [self]
        laws = zip(each, tried.reshape(-1, *tried.shape[-2:]), strict=True)
        found = [at[np.argmax(arrays.to_numpy(law.log_density(at)))] for law, at in laws]
        return self._like(np.reshape(found, own.shape))

    # ------------------------------------------------------------ inside

    def _like(self, values) -> Array:
        # not of the embedding, which is of steps by points
        return arrays.like(np.asarray(arrays.to_numpy(values)), self.chain.emissions.points)

    def _back(self, innovations: np.ndarray, shift: np.ndarray) -> Array:
        """Values of the observations, as far as they are believed."""
        most = self.transform.limit(shift)
        return self._like(self.transform.back(np.minimum(innovations + shift, most)))

    def _points(self) -> Array:
        """Points of equal weight that stand for each law: quantiles, or draws of many columns.

        Draws are the same whichever laws stand beside.
        """
        if self.shift.shape[-1] == 1:
            return self.quantile(LEVELS)
        if self.shift.ndim == 1:
            return self.sample(DRAWS, 0)
        batch: Any = self
        return self._like([arrays.to_numpy(law.sample(DRAWS, 0)) for law in batch])

    def _each(self):
        """Each law of the innovation, its shift, and its bandwidths."""
        whole = self.embedding.batch is None
        laws = [self.embedding] if whole else [self.embedding[k] for k in range(len(self.shift))]
        widths = map(one_or_each, self._widths())
        return zip(laws, np.atleast_2d(self.shift), widths, strict=True)

    def _widths(self) -> np.ndarray:
        """Bandwidths of all laws and columns, (m, d)."""
        own = 0.0 if self.bandwidth is None else np.asarray(self.bandwidth)
        return np.sqrt(own**2 + np.atleast_2d(self.extra))

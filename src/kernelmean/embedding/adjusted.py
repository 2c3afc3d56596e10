"""Posteriors by weighted pairs: their means, and the laws that residuals have around these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ..core import arrays
from ..core.checks import Array
from ..core.interval import Interval
from .embedding import MeanEmbedding


class Posterior(MeanEmbedding):
    """Weights of either sign on latents; their mean stays in the box of these."""

    def mean(self) -> Array:
        xp, found = arrays.namespace(self._points), super().mean()
        low, high = xp.min(self._points, axis=0), xp.max(self._points, axis=0)
        return xp.minimum(xp.maximum(found, low), high)


class Adjusted(Posterior):
    """One whose law is that of weighted residuals, moved to its mean.

    What says how a law lies around its mean (quantiles, densities, draws, modes, spreads) is of
    these: points are z_i − m(x_i) + m(x), m the mean that the pairs tell. Expectations, and
    distances of embeddings, are of the latents as they are.
    """

    _residuals: MeanEmbedding
    _broad = False  # whether modes are those by the kernel, not at the bandwidth

    @classmethod
    def of(cls, law: MeanEmbedding, residuals) -> Adjusted:
        """The same laws, with residuals (n, d) of their points."""
        m = cls.__new__(cls)
        around = MeanEmbedding.of_parts(residuals, *law.factors, law.kernel)
        vars(m).update(vars(law), _residuals=around)
        return m

    @property
    def _shift(self) -> Array:
        return self.mean() - self._residuals.mean()

    def _each(self, answer: Callable) -> Any:
        """Answers by points moved, which differ from one member to the next."""
        if self.batch is None:
            return answer(self._residuals.moved(self._shift))
        return [answer(self._residuals[b].moved(shift)) for b, shift in enumerate(self._shift)]

    def _stacked(self, answer: Callable) -> Array:
        found = self._each(answer)
        return found if self.batch is None else arrays.namespace(self._points).stack(found)

    # ------------------------------------------------------------ the same of other members

    def with_tops(self, broad: bool) -> Self:
        """The same with modes by the kernel itself, or at the bandwidth."""
        return self.altered(_broad=broad)

    def carrying(self, *known, **named) -> MeanEmbedding:
        found = super().carrying(*known, **named)
        return found.altered(_residuals=self._residuals.carrying(*known, **named))

    def reweighted(self, left) -> Adjusted:
        return self.altered(_left=left, _residuals=self._residuals.reweighted(left))

    def marginal(self, columns) -> Self:
        found: Any = super().marginal(columns)
        return found.altered(_residuals=self._residuals.marginal(columns))

    def moved(self, shift, widths: np.ndarray | None = None) -> MeanEmbedding:
        found = super().moved(shift, widths)
        return found.altered(_residuals=self._residuals.moved(0.0, widths))

    def tilted_by(self, tilt) -> MeanEmbedding:
        """Of the latents as they are."""
        return MeanEmbedding.of_parts(self._points, *self.factors, self._kernel).tilted_by(tilt)

    # ------------------------------------------------------------ answers

    def cov(self) -> Array:
        return self._residuals.cov()

    def negative_mass(self, bandwidth=None, error: float = 3e-4) -> tuple[Array, Array]:
        return self._residuals.negative_mass(bandwidth, error)

    def density(self, Y, bandwidth=None, signed: bool = False) -> Array:
        return self._stacked(lambda m: m.density(Y, bandwidth, signed))

    def cdf(self, Y, bandwidth="own") -> Array:
        return self._stacked(lambda m: m.cdf(Y, bandwidth))

    def region(self, level: float = 0.95, bandwidth=None) -> Array | list[Array]:
        return self._each(lambda m: m.region(level, bandwidth))

    def quantile(self, q, bandwidth="own") -> Array:
        found, shift = self._residuals.quantile(q, bandwidth), self._shift
        return found + (shift[..., None, :] if np.ndim(q) else shift)

    def interval(self, level: float = 0.95, bandwidth="own", kind: str = "central") -> Interval:
        return Interval(
            *(end + self._shift for end in self._residuals.interval(level, bandwidth, kind))
        )

    def sample(self, n: int, random_state=None, bandwidth=None) -> Array:
        return self._residuals.sample(n, random_state, bandwidth) + self._shift[..., None, :]

    def mode(self, n_starts: int = 10) -> Array:
        m = self._residuals.altered(_bandwidth=None) if self._broad else self._residuals
        return m.mode(n_starts) + self._shift

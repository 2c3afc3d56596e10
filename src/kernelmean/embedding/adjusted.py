"""Posteriors by weighted pairs: their means, and the laws that residuals have around these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from ..core import Array, arrays
from .embedding import MeanEmbedding, tilts


def in_box(found, points) -> Array:
    """Rows, or the nearest in the box of the points."""
    xp = arrays.namespace(points)
    return xp.minimum(xp.maximum(found, xp.min(points, axis=0)), xp.max(points, axis=0))


class Posterior(MeanEmbedding):
    """Weights of either sign on latents; their mean stays in the box of these."""

    def mean(self) -> Array:
        return in_box(super().mean(), self._points)


class Adjusted(MeanEmbedding):
    """A posterior whose law is that of weighted residuals, moved to its mean.

    What says how a law lies around its mean (quantiles, probabilities, densities, draws, modes,
    spreads) is of these: points are z_i − m(x_i) + m(x), m the mean that the pairs tell.
    Expectations, and distances of embeddings, are of the latents as they are.
    """

    _residuals: MeanEmbedding
    _moves: np.ndarray  # of the residuals of each law, (d,) or (batch, d)
    _off: np.ndarray | None = None  # the same of means; a file of an earlier version has none

    @classmethod
    def of(cls, law: MeanEmbedding, residuals, means, left) -> Adjusted:
        """The same laws around means (batch, d): of residuals (n, d), with left for their weights.

        A law is moved as far as residuals with its own weights are from its mean.
        """
        m = cls.__new__(cls)
        around = MeanEmbedding.of_parts(residuals, left, law.factors[1], law.kernel)
        own = MeanEmbedding.of_parts(residuals, *law.factors, law.kernel)
        moves, off = (arrays.to_numpy(means - one.mean()) for one in (own, around))
        vars(m).update(vars(law), _residuals=around, _moves=moves, _off=off)
        return m

    @property
    def _shift(self) -> Array:
        return arrays.like(self._moves, self._points)

    @property
    def _of_means(self) -> np.ndarray:
        return self._moves if self._off is None else self._off

    def _stacked(self, answer: Callable) -> Array:
        """Answers by points moved, which differ from one member to the next."""
        if self.batch is None:
            return answer(self._residuals.moved(self._shift))
        each = (self._residuals[b].moved(shift) for b, shift in enumerate(self._shift))
        return arrays.namespace(self._points).stack([answer(law) for law in each])

    def _lines(self, bandwidth, moves: np.ndarray | None = None) -> Iterator[Any]:
        return self._residuals._lines(bandwidth, np.atleast_2d(self._moves))

    # ------------------------------------------------------------ the same of other members

    def carrying(self, *known, **named) -> MeanEmbedding:
        found = super().carrying(*known, **named)
        return found.altered(_residuals=self._residuals.carrying(*known, **named))

    def __getitem__(self, index) -> Adjusted:
        found: Any = super().__getitem__(index)
        moves, off = self._moves[index], self._of_means[index]
        return found.altered(_residuals=self._residuals[index], _moves=moves, _off=off)

    def marginal(self, columns) -> Self:
        found: Any = super().marginal(columns)
        columns = np.atleast_1d(columns)
        moves, off = self._moves[..., columns], self._of_means[..., columns]
        return found.altered(_residuals=self._residuals.marginal(columns), _moves=moves, _off=off)

    def moved(self, shift, widths: np.ndarray | None = None) -> MeanEmbedding:
        found = super().moved(shift, widths)
        scale, shift = 1.0 if widths is None else widths, arrays.to_numpy(shift)
        moves, off = self._moves * scale + shift, self._of_means * scale + shift
        return found.altered(_residuals=self._residuals.moved(0.0, widths), _moves=moves, _off=off)

    def tilted(self, factor: Callable) -> MeanEmbedding:
        tilt = self._stacked(lambda m: tilts(factor, m.points))
        return super().tilted(factor).altered(_residuals=self._residuals.tilted_by(tilt))

    # ------------------------------------------------------------ answers

    def mean(self) -> Array:
        return self._residuals.mean() + arrays.like(self._of_means, self._points)

    def cov(self) -> Array:
        return self._residuals.cov()

    def probability(self, event: Callable) -> Array:
        return self._stacked(lambda m: m.probability(event))

    def negative_mass(self, bandwidth=None, error: float = 3e-4) -> tuple[Array, Array]:
        return self._residuals.negative_mass(bandwidth, error)

    def density(self, Y, bandwidth=None, signed: bool = False) -> Array:
        Y = self.checked(Y)
        q = self._stacked(lambda m: m.density(Y, bandwidth, signed=True))
        return q if signed else self.proper(q, Y, bandwidth)

    def proper(self, q, Y, bandwidth=None) -> Array:
        return self._residuals.proper(q, self._before(Y), bandwidth)

    def _log_least(self, Y) -> np.ndarray | None:
        return self._residuals._log_least(self._before(Y))

    def _before(self, Y) -> np.ndarray:
        """Rows, (m, d), where they were before each law was moved."""
        return arrays.to_numpy(Y) - self._moves[..., None, :]

    def sample(self, n: int, random_state=None, bandwidth=None) -> Array:
        return self._residuals.sample(n, random_state, bandwidth) + self._shift[..., None, :]

    def mode(self, n_starts: int = 10) -> Array:
        return self._residuals.mode(n_starts) + self._shift

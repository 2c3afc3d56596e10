"""Scores of laws at what was seen, from their quantiles."""

from inspect import isfunction
from typing import Any

import numpy as np

from .. import metrics
from ..core import Array, Labels, arrays, checks

LEVELS = 256  # of the quantiles that a score takes


class Scored:
    """Pinball losses and CRPS of whatever has `quantile`."""

    labels: Any = Labels()

    def __init_subclass__(cls, **more: Any) -> None:
        """In public methods what is too small for a number is zero, whatever NumPy was told."""
        super().__init_subclass__(**more)
        for name, method in [*vars(cls).items()]:
            if isfunction(method) and not name.startswith("_"):
                setattr(cls, name, np.errstate(under="ignore")(method))

    def quantile(self, q) -> Array:
        """Quantiles of every column: (m, d) for a number, (m, len(q), d) for a list."""
        raise NotImplementedError

    def pinball(self, Y, q) -> Array:
        """`metrics.pinball` of the quantiles of law b at row b of Y, (m, d) or (m, len(q), d).

        One law meets every row of Y.
        """
        checks.check_order(Y, self.labels.columns, "Y", "the law")
        quantiles = self.quantile(np.atleast_1d(q))
        predicted = arrays.to_numpy(quantiles)
        rows = arrays.as_columns(Y, predicted.shape[-1], "Y", "the law")
        if predicted.ndim == 3:
            checks.check_lengths(len(predicted), len(rows), "the laws", "Y")
        losses = metrics.pinball(rows[:, None, :], predicted, np.atleast_1d(q)[:, None])
        return arrays.like(losses if np.ndim(q) else losses[:, 0], quantiles)

    def crps(self, Y) -> Array:
        """∫ (F(t) − 1{y ≤ t})² dt of law b at row b of Y, per column, (m, d).

        The continuous ranked probability score, an error in units of y: twice the integral of
        the pinball losses over all levels, here by 256 of them, to about 1e-4 of its value where
        quantiles are smooth, a few 1e-3 where they are steps of some tens of points.
        """
        t = (np.arange(LEVELS) + 0.5) / LEVELS  # denser towards 0 and 1, where quantiles are steep
        weights = np.pi / LEVELS * np.sin(np.pi * t)
        losses = self.pinball(Y, np.sin(0.5 * np.pi * t) ** 2)
        return arrays.like(np.einsum("k,mkd->md", weights, arrays.to_numpy(losses)), losses)

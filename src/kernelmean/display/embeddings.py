"""Embeddings: their density, and the choice of their regulariser."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..core.arrays import to_numpy
from ..core.checks import as_points
from ..embedding.embedding import MeanEmbedding
from ..regression.conditional import ConditionalEmbedding
from .base import Display, grid_between
from .style import CURVE, DATA, PLAIN


@dataclass
class EmbeddingDisplay(Display):
    """The density of a one-dimensional embedding, with its weighted points beneath.

    Examples
    --------
    >>> import kernelmean as km
    >>> m = km.MeanEmbedding([0.0, 1.0, 3.0])
    >>> km.display.EmbeddingDisplay.from_embedding(m).grid.shape
    (400,)
    """

    grid: np.ndarray
    density: np.ndarray
    points: np.ndarray
    weights: np.ndarray

    @classmethod
    def from_embedding(
        cls, m: MeanEmbedding, bandwidth: float | None = None, n_grid: int = 400
    ) -> Self:
        """Evaluate the density over the range of the points and a little beyond."""
        if not isinstance(m, MeanEmbedding) or m.batch is not None:
            raise ValueError(f"m is {m!r}; a single law is drawn: one of a batch is m[0]")
        points = to_numpy(as_points(m.points, "m"))
        if points.shape[1] != 1:
            raise ValueError(f"m has points in {points.shape[1]} dimensions; one is needed")
        margin = 0.25 * float(np.ptp(points)) or 1.0
        grid = grid_between(points.min() - margin, points.max() + margin, n_grid)
        density = to_numpy(m.density(grid[:, None], bandwidth))
        return cls(grid, density, points[:, 0], to_numpy(m.weights))

    def _draw(self, ax) -> None:
        ax.plot(self.grid, self.density, color=CURVE, lw=2)
        ax.fill_between(self.grid, self.density, color=CURVE, alpha=0.15)
        largest = np.abs(self.weights).max() or 1.0
        height = 0.15 * self.density.max() * self.weights / largest
        ax.vlines(self.points, 0, height, color=DATA, lw=0.8)
        ax.axhline(0, color=DATA, lw=0.5)
        ax.set(xlabel="points", ylabel="density")


@dataclass
class LeaveOneOutDisplay(Display):
    """The leave-one-out loss of a conditional embedding along the regulariser.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> c = km.ConditionalEmbedding().fit(X, np.sin(6 * X[:, 0]))
    >>> km.display.LeaveOneOutDisplay.from_estimator(c).regs.shape
    (60,)
    """

    regs: np.ndarray
    losses: np.ndarray
    reg: float
    loss: float

    @classmethod
    def from_estimator(cls, estimator: ConditionalEmbedding, n_grid: int = 60) -> Self:
        """Evaluate the loss on a grid of regularisers."""
        regs = 10.0 ** grid_between(-10, 1, n_grid)
        return cls(regs, estimator.loo_score(regs), estimator.reg_, estimator.loo_score_)

    def _draw(self, ax) -> None:
        ax.loglog(self.regs, self.losses, color=CURVE)
        ax.plot([self.reg], [self.loss], "o", color=PLAIN, label=f"reg = {self.reg:.2g}")
        ax.set(xlabel="regulariser", ylabel="leave-one-out loss")
        ax.legend(frameon=False)

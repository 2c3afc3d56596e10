"""Displays, in scikit-learn's manner: build with `from_estimator`, draw with `plot(ax)`.

Needs matplotlib, which the extra `app` brings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._validation import as_points, as_vector
from .conditional import ConditionalEmbedding
from .embedding import MeanEmbedding
from .instrument import KernelIV
from .linalg import to_numpy

CURVE, PLAIN, DATA = "#0b5394", "#b45f06", "#888888"


def _axes(ax) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(6, 4), layout="constrained")[1]


@dataclass
class StructuralCurveDisplay:
    """A structural function along one regressor, against plain kernel ridge and the data.

    Attributes
    ----------
    grid : array of shape (m,)
        Values of the regressor.
    structural, plain : array of shape (m,)
        KernelIV and kernel ridge of y on the same regressors. The curves differ where the noise
        is confounded with the regressor.
    x, y : array of shape (n,)
        The data.
    x_name, y_name : str

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_iv_sigmoid(400, random_state=0)
    >>> iv = km.KernelIV().fit(data.X, data.y, data.Z)
    >>> display = km.display.StructuralCurveDisplay.from_estimator(iv, data.X, data.y)
    >>> display.grid.shape
    (200,)
    """

    grid: np.ndarray
    structural: np.ndarray
    plain: np.ndarray
    x: np.ndarray
    y: np.ndarray
    x_name: str = "x"
    y_name: str = "y"
    ax_: Any = None

    @classmethod
    def from_estimator(
        cls, estimator: KernelIV, X, y, *, C=None, column: int = 0, n_grid: int = 200
    ) -> StructuralCurveDisplay:
        """Curves along one column of the regressors, the others held at their medians.

        Parameters
        ----------
        estimator : fitted KernelIV
        X, y, C : the data, as given to `fit`
        column : int
            Column of (X, C) to move, between its 2.5% and 97.5% quantiles.
        n_grid : int
        """
        check_is_fitted(estimator)
        points = estimator._check_new(X, C)
        y = as_vector(y, "y", n=len(points))
        if not isinstance(column, int) or not 0 <= column < points.shape[1]:
            raise ValueError(
                f"column is {column!r}; a column number from 0 to {points.shape[1] - 1} is needed"
            )
        x = points[:, column]
        grid = np.linspace(np.quantile(x, 0.025), np.quantile(x, 0.975), n_grid)
        path = np.tile(np.median(points, axis=0), (n_grid, 1))
        path[:, column] = grid
        plain = ConditionalEmbedding(estimator.kernel_x_, "linear", features=estimator.features)
        names = [*getattr(estimator, "feature_names_in_", []), *(estimator._names_c or [])]
        return cls(
            grid,
            estimator._evaluate(path),
            plain.fit(points, y).predict(path),
            x,
            y,
            names[column] if names else f"x[{column}]",
            estimator.target_name_,
        )

    def plot(self, ax=None, *, data: bool = True) -> StructuralCurveDisplay:
        """Draw on `ax` (a new one when left out); returns self, with `ax_` set."""
        self.ax_ = ax = _axes(ax)
        if data:
            inside = (self.x >= self.grid[0]) & (self.x <= self.grid[-1])
            ax.plot(self.x[inside], self.y[inside], ".", color=DATA, ms=3, alpha=0.5, label="data")
        ax.plot(self.grid, self.structural, color=CURVE, lw=2, label="structural (KernelIV)")
        ax.plot(self.grid, self.plain, "--", color=PLAIN, lw=1.5, label="plain kernel ridge")
        ax.set(xlabel=self.x_name, ylabel=self.y_name)
        ax.legend(frameon=False)
        return self


@dataclass
class EmbeddingDisplay:
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
    ax_: Any = None

    @classmethod
    def from_embedding(
        cls, m: MeanEmbedding, bandwidth: float | None = None, n_grid: int = 400
    ) -> EmbeddingDisplay:
        """Evaluate the density over the range of the points and a little beyond."""
        if m.batch is not None:
            raise ValueError(f"m is a batch of {m.batch} embeddings; draw one of them: m[0]")
        points = to_numpy(as_points(m.points, "m"))
        if points.shape[1] != 1:
            raise ValueError(f"m has points in {points.shape[1]} dimensions; one is needed")
        margin = 0.25 * float(np.ptp(points)) or 1.0
        grid = np.linspace(points.min() - margin, points.max() + margin, n_grid)
        density = to_numpy(m.density(grid[:, None], bandwidth))
        return cls(grid, density, points[:, 0], to_numpy(m.weights))

    def plot(self, ax=None) -> EmbeddingDisplay:
        """Draw on `ax` (a new one when left out); returns self, with `ax_` set."""
        self.ax_ = ax = _axes(ax)
        ax.plot(self.grid, self.density, color=CURVE, lw=2)
        ax.fill_between(self.grid, np.clip(self.density, 0, None), color=CURVE, alpha=0.15)
        largest = np.abs(self.weights).max() or 1.0
        height = 0.15 * self.density.max() * self.weights / largest
        ax.vlines(self.points, 0, height, color=DATA, lw=0.8)
        ax.axhline(0, color=DATA, lw=0.5)
        ax.set(xlabel="points", ylabel="density")
        return self


@dataclass
class LeaveOneOutDisplay:
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
    ax_: Any = None

    @classmethod
    def from_estimator(
        cls, estimator: ConditionalEmbedding, n_grid: int = 60
    ) -> LeaveOneOutDisplay:
        """Evaluate the loss on a grid of regularisers."""
        check_is_fitted(estimator)
        regs = np.logspace(-10, 1, n_grid)
        loss = estimator._loo()
        losses = np.array([loss(float(reg)) for reg in regs])
        return cls(regs, losses, estimator.reg_, estimator.loo_score_)

    def plot(self, ax=None) -> LeaveOneOutDisplay:
        """Draw on `ax` (a new one when left out); returns self, with `ax_` set."""
        self.ax_ = ax = _axes(ax)
        ax.loglog(self.regs, self.losses, color=CURVE)
        ax.plot([self.reg], [self.loss], "o", color=PLAIN, label=f"reg = {self.reg:.2g}")
        ax.set(xlabel="regulariser", ylabel="leave-one-out loss")
        ax.legend(frameon=False)
        return self

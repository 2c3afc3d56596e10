"""Structural functions: curves that instruments identify."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.arrays import to_numpy
from ..core.checks import as_vector, check_column
from ..instruments.inference import confidence_limits, ridge_coefficients
from ..instruments.kernel_iv import KernelIV
from .base import Display, along
from .style import CURVE, DATA, DRAWN, PLAIN, legend_above, literal


@dataclass
class StructuralCurveDisplay(Display):
    """A structural function along one regressor with its confidence band, beside plain regression.

    `plot(data=False)` leaves the data out.

    Attributes
    ----------
    grid : array of shape (m,)
        Values of the regressor.
    structural, plain : array of shape (m,)
        KernelIV, and kernel ridge of y on the same coordinates (or None). The curves differ where
        the noise is confounded with the regressor.
    band : array of shape (m, 2), or None
        Limits that hold along the whole curve at once.
    x, y : array of shape (n,)
        The data.
    x_name, y_name : str
    level : float
        Of the band.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_iv_sigmoid(400, random_state=0)
    >>> iv = km.KernelIV().fit(data.X, data.y, data.Z)
    >>> display = km.display.StructuralCurveDisplay.from_estimator(iv, data.X, data.y)
    >>> display.grid.shape, display.band.shape
    ((200,), (200, 2))
    """

    grid: np.ndarray
    structural: np.ndarray
    plain: np.ndarray | None
    band: np.ndarray | None
    x: np.ndarray
    y: np.ndarray
    x_name: str = "x"
    y_name: str = "y"
    level: float = 0.95

    @classmethod
    def from_estimator(
        cls,
        estimator: KernelIV,
        X=None,
        y=None,
        *,
        C=None,
        column: int | str = 0,
        n_grid: int = 200,
        level: float = 0.95,
    ) -> Self:
        """Curves along one column of the regressors, the others held at their medians.

        Parameters
        ----------
        estimator : fitted KernelIV
        X, y, C : the data, as given to `fit`
            What the estimator keeps of them (at most 10,000 rows) when left out. After
            `from_formula` a table alone will do.
        column : int or str
            Column of (X, C) to move, between its 2.5% and 97.5% quantiles: number or name.
        n_grid : int
        level : float
            Of the band.
        """
        check_is_fitted(estimator)
        points, outcome = _data(estimator, X, y, C)
        names = estimator.roles_.regressors
        number = check_column(column, names)
        grid, path = along(points, number, n_grid)
        rows, coef = estimator.basis_x_.transform(path), estimator.coef_
        known = not np.isnan(outcome).any()  # two samples may have no row of x and y
        ridge = ridge_coefficients(estimator.basis_x_, points, outcome) if known else None
        curves = to_numpy(rows @ coef), None if ridge is None else to_numpy(rows) @ ridge
        ends = confidence_limits(rows, coef, estimator.band_covariance_, level, simultaneous=True)
        band, data = np.column_stack([*map(to_numpy, ends)]), (points[:, number], outcome)
        return cls(grid, *curves, band, *data, names[number], estimator.target_name_, level)

    def _draw(self, ax, data: bool = True) -> None:
        if data and not np.isnan(self.y).all():
            self._draw_data(ax)
        if self.band is not None:
            percent = f"{100 * self.level:g}% band"
            ax.fill_between(self.grid, *self.band.T, color=CURVE, alpha=0.18, lw=0, label=percent)
        ax.plot(self.grid, self.structural, color=CURVE, lw=2, label="structural (KernelIV)")
        if self.plain is not None:
            ax.plot(self.grid, self.plain, "--", color=PLAIN, lw=1.5, label="plain kernel ridge")
        ax.set(xlabel=literal(self.x_name), ylabel=literal(self.y_name))
        legend_above(ax)

    def _draw_data(self, ax) -> None:
        """At most 2,000 of the points above the grid."""
        inside = np.flatnonzero((self.x >= self.grid[0]) & (self.x <= self.grid[-1]))
        keep = inside[:: len(inside) // DRAWN + 1]
        ax.plot(self.x[keep], self.y[keep], ".", color=DATA, ms=3, alpha=0.5, label="data")


def _data(estimator: KernelIV, X, y, C) -> tuple[np.ndarray, np.ndarray]:
    """Regressors and outcomes: those given, or those that the estimator keeps."""
    if X is None and y is None:
        points, _, outcome = estimator.sample_
        return to_numpy(points), to_numpy(outcome)
    if y is None and estimator.design_ is not None:
        y = estimator.design_.outcome(X)
    points = to_numpy(estimator.regressors(X, C))
    return points, to_numpy(as_vector(y, "y", n=len(points)))

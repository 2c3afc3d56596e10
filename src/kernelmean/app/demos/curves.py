"""A structural curve with its band, beside plain regression and the straight line of 2SLS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...datasets import IVTable
from ...display import CURVE, DATA, PLAIN
from ...instruments.inference import Estimate, ridge_coefficients
from ...instruments.kernel_iv import KernelIV

LEVEL = 0.95


@dataclass(frozen=True)
class Curves:
    """Structural and plain curves of a table along its endogenous column.

    Attributes
    ----------
    at : array of shape (m,)
        Values of the endogenous column; exogenous columns are at their medians.
    structural, plain : array of shape (m,)
        By KernelIV, and by kernel ridge in the same coordinates.
    band : array of shape (m, 2)
        Limits that hold along the whole structural curve.
    model : KernelIV
    medians : array of shape (d_c,)
        Of the exogenous columns.
    """

    at: np.ndarray
    structural: np.ndarray
    plain: np.ndarray
    band: np.ndarray
    model: KernelIV
    medians: np.ndarray

    def slope(self, low: float, high: float) -> Estimate:
        """Average slope of the structural curve between two values, with limits."""
        names = self.model.roles_.regressors
        ends = [pd.DataFrame([[x, *self.medians]], columns=names) for x in (high, low)]
        change = self.model.contrast(*ends, level=LEVEL)
        width = high - low
        return Estimate(
            "slope",
            value=float(change.value[0]) / width,
            error=float(change.error[0]) / width,
            low=float(change.low[0]) / width,
            high=float(change.high[0]) / width,
            level=LEVEL,
        )

    def plain_slope(self, low: float, high: float) -> float:
        """The same of plain kernel ridge."""
        ends = np.interp([low, high], self.at, self.plain)
        return float((ends[1] - ends[0]) / (high - low))


def structural_curves(table: IVTable, at: np.ndarray, **parameters) -> Curves:
    """Fit KernelIV to a table of one endogenous column, with these parameters."""
    model = KernelIV(**parameters).fit(table.X, table.target, table.Z, table.C)
    columns = [*table.x, *table.c]
    medians = table.frame[list(table.c)].median().to_numpy()
    rows = pd.DataFrame([[x, *medians] for x in at], columns=columns)
    points, outcome = table.frame[columns].to_numpy(), table.target.to_numpy()
    plain = ridge_coefficients(model.basis_x_, points, outcome)
    return Curves(
        at,
        model.predict(rows),
        model.basis_x_.transform(rows.to_numpy()) @ plain,
        np.column_stack(model.predict_interval(rows, level=LEVEL)),
        model,
        medians,
    )


def two_stage_least_squares(table: IVTable) -> tuple[float, float]:
    """The textbook's straight line: coefficient of the endogenous column, standard error."""
    from linearmodels.iv import IV2SLS

    ones = pd.DataFrame({"const": np.ones(len(table.frame))})
    exogenous = ones if table.C is None else ones.join(table.C)
    fit = IV2SLS(table.target, exogenous, table.X, table.Z).fit(cov_type="robust")
    return float(fit.params[table.x[0]]), float(fit.std_errors[table.x[0]])


def draw(axes: Any, table: IVTable, curves: Curves, line: float) -> None:
    """The data, the curves with the band, and the straight line of 2SLS."""
    x, y = table.X.to_numpy()[:, 0], table.target.to_numpy()
    keep = np.random.default_rng(0).permutation(len(x))[:2000]
    inside = keep[(x[keep] >= curves.at[0]) & (x[keep] <= curves.at[-1])]
    axes.plot(x[inside], y[inside], ".", color=DATA, ms=5, alpha=0.55, mew=0, rasterized=True)
    axes.fill_between(curves.at, *curves.band.T, color=CURVE, alpha=0.15, lw=0)
    axes.plot(curves.at, curves.structural, color=CURVE, lw=2.2, label="structural (KernelIV)")
    axes.plot(curves.at, curves.plain, "--", color=PLAIN, lw=1.6, label="plain kernel ridge")
    middle = float(np.median(x))
    straight = np.interp(middle, curves.at, curves.structural) + line * (curves.at - middle)
    axes.plot(curves.at, straight, ":", color="#222222", lw=1.4, label="straight line (2SLS)")
    axes.legend(frameon=False, fontsize=9)
    margin = 0.1 * np.ptp(y)
    axes.set_ylim(y.min() - margin, y.max() + margin)

"""A structural curve with its band, beside plain regression and the straight line of 2SLS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...datasets import IVTable
from ...display import StructuralCurveDisplay
from ...instruments.inference import Estimate
from ...instruments.kernel_iv import KernelIV
from ..report import Figure

LEVEL = 0.95


@dataclass(frozen=True)
class Curves:
    """Structural and plain curves of a table along its endogenous column, and a straight line.

    Attributes
    ----------
    table : IVTable
    model : KernelIV
    display : StructuralCurveDisplay
        Exogenous columns are at their medians.
    line, error : float
        The textbook's straight line: coefficient, standard error.
    """

    table: IVTable
    model: KernelIV
    display: StructuralCurveDisplay
    line: float
    error: float

    @classmethod
    def of(cls, table: IVTable, **parameters: Any) -> Curves:
        """Fit KernelIV to a table of one endogenous column, with these parameters."""
        X, y = table.X, table.target
        model = KernelIV(**parameters).fit(X, y, table.Z, table.C)
        display = StructuralCurveDisplay.from_estimator(model, X, y, C=table.C, level=LEVEL)
        return cls(table, model, display, *two_stage_least_squares(table))

    def slope(self, low: float, high: float) -> Estimate:
        """Average slope of the structural curve between two values, with limits."""
        medians = self.table.frame[list(self.table.c)].median().to_numpy()
        columns = [*self.table.x, *self.table.c]
        ends = [pd.DataFrame([[x, *medians]], columns=columns) for x in (high, low)]
        change = self.model.contrast(*ends, level=LEVEL)
        parts = {name: getattr(change, name)[0] for name in ("value", "error", "low", "high")}
        return Estimate(
            "slope", level=LEVEL, **{n: float(v) / (high - low) for n, v in parts.items()}
        )

    def plain_slope(self, low: float, high: float) -> float:
        """The same of plain kernel ridge."""
        assert self.display.plain is not None
        ends = np.interp([low, high], self.display.grid, self.display.plain)
        return float((ends[1] - ends[0]) / (high - low))

    def figure(self, name: str, caption: str, **labels: Any) -> Figure:
        """The data, the curves with the band, and the straight line through the median."""
        d = self.display
        middle = float(np.median(d.x))
        straight = np.interp(middle, d.grid, d.structural) + self.line * (d.grid - middle)

        def plot(axes: Any) -> None:
            d.plot(axes)
            axes.plot(d.grid, straight, ":", color="#222222", lw=1.4, label="straight line (2SLS)")
            axes.legend(frameon=False, fontsize=9)
            axes.set(**labels)

        return Figure(name, caption, plot)


def two_stage_least_squares(table: IVTable) -> tuple[float, float]:
    """The textbook's straight line: coefficient of the endogenous column, standard error."""
    from linearmodels.iv import IV2SLS

    ones = pd.DataFrame({"const": np.ones(len(table.frame))})
    exogenous = ones if table.C is None else ones.join(table.C)
    fit = IV2SLS(table.target, exogenous, table.X, table.Z).fit(cov_type="robust")
    return float(fit.params[table.x[0]]), float(fit.std_errors[table.x[0]])

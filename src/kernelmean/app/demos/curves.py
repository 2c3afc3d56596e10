"""A structural curve over many random divisions of the rows between the two stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...conditional import ConditionalEmbedding
from ...datasets import IVTable
from ...display import CURVE, DATA, PLAIN
from ...instrument import KernelIV
from ...kernels import Kernel, Linear
from ...progress import track


@dataclass(frozen=True)
class Curves:
    """Structural curves of a table, by KernelIV, beside plain kernel ridge.

    Attributes
    ----------
    at : array of shape (m,)
        Values of the endogenous column; exogenous columns are at their medians.
    splits : array of shape (s, m)
        One curve for each random division.
    plain : array of shape (m,)
    """

    at: np.ndarray
    splits: np.ndarray
    plain: np.ndarray

    @property
    def median(self) -> np.ndarray:
        """The median over the divisions, point by point."""
        return np.median(self.splits, axis=0)

    @property
    def middle(self) -> np.ndarray:
        """The range of the middle 80% of the divisions, shape (2, m)."""
        return np.quantile(self.splits, [0.1, 0.9], axis=0)

    def slope(self, low: float, high: float) -> tuple[float, float]:
        """Average slope between two values: median KernelIV curve, plain kernel ridge."""
        return slope(self.at, self.median, low, high), slope(self.at, self.plain, low, high)


def slope(at: np.ndarray, curve: np.ndarray, low: float, high: float) -> float:
    """Average slope of a curve between two values of its argument."""
    ends = np.interp([low, high], at, curve)
    return float((ends[1] - ends[0]) / (high - low))


def structural_curves(
    table: IVTable,
    at: np.ndarray,
    seeds: Sequence[int],
    *,
    kernel_x: str | Kernel = "gaussian",
    kernel_z: str | Kernel = "gaussian",
) -> Curves:
    """Fit KernelIV once for each seed, on the outcome less its mean."""
    centre = float(table.target.mean())
    rows = _at_medians(table, at)
    splits = []
    for seed in track(seeds, description="  random divisions"):
        model = KernelIV(kernel_x, kernel_z, random_state=seed)
        model.fit(table.X, table.target - centre, table.Z, table.C)
        splits.append(model.predict(rows) + centre)
    plain = ConditionalEmbedding(model.kernel_x_, Linear())
    plain.fit(table.frame[list(rows.columns)], table.target - centre)
    return Curves(at, np.array(splits), plain.predict(rows) + centre)


def _at_medians(table: IVTable, at: np.ndarray) -> pd.DataFrame:
    columns = [*table.x, *table.c]
    rows = pd.DataFrame([table.frame[columns].median()] * len(at), index=range(len(at)))
    return rows.assign(**{table.x[0]: at})


def two_stage_least_squares(table: IVTable) -> tuple[float, float]:
    """The textbook's straight line: coefficient of the endogenous column, standard error."""
    from linearmodels.iv import IV2SLS

    ones = pd.DataFrame({"const": np.ones(len(table.frame))})
    exogenous = ones if table.C is None else ones.join(table.C)
    fit = IV2SLS(table.target, exogenous, table.X, table.Z).fit(cov_type="robust")
    return float(fit.params[table.x[0]]), float(fit.std_errors[table.x[0]])


def draw(axes: Any, table: IVTable, curves: Curves, line: float) -> None:
    """The data, the curves with the spread over divisions, and the straight line of 2SLS."""
    x, y = table.X.to_numpy()[:, 0], table.target.to_numpy()
    keep = np.random.default_rng(0).permutation(len(x))[:2000]
    inside = keep[(x[keep] >= curves.at[0]) & (x[keep] <= curves.at[-1])]
    axes.plot(x[inside], y[inside], ".", color=DATA, ms=5, alpha=0.55, mew=0, rasterized=True)
    axes.fill_between(curves.at, *curves.middle, color=CURVE, alpha=0.15, lw=0)
    axes.plot(curves.at, curves.median, color=CURVE, lw=2.2, label="structural (KernelIV)")
    axes.plot(curves.at, curves.plain, "--", color=PLAIN, lw=1.6, label="plain kernel ridge")
    middle = float(np.median(x))
    straight = np.interp(middle, curves.at, curves.median) + line * (curves.at - middle)
    axes.plot(curves.at, straight, ":", color="#222222", lw=1.4, label="straight line (2SLS)")
    axes.legend(frameon=False, fontsize=9)

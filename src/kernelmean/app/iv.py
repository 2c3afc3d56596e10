"""`kernelmean iv`: what is estimated from the table, in numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from .._validation import NumericalWarning
from ..conditional import ConditionalEmbedding
from ..display import StructuralCurveDisplay
from ..instrument import KernelIV
from ..kernels import Kernel, Linear
from .errors import UserError, refusals
from .firststage import FirstStage

SMALLEST = 20  # rows
UNITS = (
    "The linear kernel minds the units of the columns, and these lie far from zero or differ much "
    "in size: subtract the mean of each column and divide by its standard deviation first."
)
DRAWN = 2_000  # points in a figure, at most
PREDICTION, PLAIN = "prediction", "plain_ridge"  # columns of predictions.csv


@dataclass(frozen=True)
class Columns:
    """Which columns play which part."""

    y: str
    x: list[str]
    z: list[str]
    c: list[str]

    def roles(self) -> dict[str, list[str]]:
        """The columns behind each option of the command line."""
        return {"--y": [self.y], "--x": self.x, "--z": self.z, "--c": self.c}

    @property
    def regressors(self) -> list[str]:
        """The columns h is a function of."""
        return [*self.x, *self.c]


@dataclass(frozen=True)
class Analysis:
    """A fitted structural function with everything the summary and the page say about it.

    Attributes
    ----------
    frame : DataFrame
        The rows used.
    columns : Columns
    model : KernelIV
        Fitted to y − `centre`.
    plain : ConditionalEmbedding
        Kernel ridge regression of y − `centre` on the same regressors.
    centre : float
        The mean of y. Ridge pulls towards zero; taking the mean away makes that the average.
    notes : tuple of str
        Numerical trouble on the way.
    """

    frame: pd.DataFrame
    columns: Columns
    model: KernelIV
    plain: ConditionalEmbedding
    centre: float
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, frame: pd.DataFrame, columns: Columns, *, kernel: str, split: float, seed: int
    ) -> Analysis:
        """Fit both stages, and plain kernel ridge for comparison."""
        check_rows(frame, columns)
        y, X, Z, C = parts(frame, columns)
        kernel_x, kernel_z = named(kernel, frame[columns.regressors]), named(kernel, _beside(Z, C))
        with refusals(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NumericalWarning)
            model = KernelIV(kernel_x, kernel_z, split=split, random_state=seed)
            model.fit(X, y - y.mean(), Z, C)
            plain = ConditionalEmbedding(model.kernel_x_, Linear())
            plain.fit(frame[columns.regressors], y - y.mean())
        notes = [str(w.message) for w in caught]
        notes += [UNITS] if kernel == "linear" and uneven(frame.drop(columns=columns.y)) else []
        return cls(frame, columns, model, plain, float(y.mean()), tuple(dict.fromkeys(notes)))

    def predict(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The structural function and plain kernel ridge at new rows, one column each."""
        points = rows[self.columns.regressors]
        with refusals():
            h = {PREDICTION: self.model.predict(points), PLAIN: self.plain.predict(points)}
        return pd.DataFrame(h, index=rows.index) + self.centre

    def predictions(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows, with both predictions beside them."""
        return rows.join(self.predict(rows).rename(columns=lambda name: _free(name, rows)))

    def partial(self, column: str, values: Any) -> pd.DataFrame:
        """Both functions along one column, the others held at their medians."""
        medians = self.frame[self.columns.regressors].median()
        rows = pd.DataFrame([medians] * len(values), index=pd.Index(values, name=column))
        return self.predict(rows.assign(**{column: rows.index}))

    def display(self, column: str) -> StructuralCurveDisplay:
        """The curve between the 2.5% and 97.5% quantiles of the column, in the units of y."""
        x, y = self.frame[column], self.frame[self.columns.y]
        grid = np.linspace(x.quantile(0.025), x.quantile(0.975), 200)
        curve, keep = self.partial(column, grid), sample(len(x))
        return StructuralCurveDisplay(
            grid,
            curve[PREDICTION].to_numpy(),
            curve[PLAIN].to_numpy(),
            x.to_numpy()[keep],
            y.to_numpy()[keep],
            column,
            self.columns.y,
        )

    @cached_property
    def first_stages(self) -> dict[str, FirstStage]:
        """How far the instruments move each endogenous column."""
        _, _, Z, C = parts(self.frame, self.columns)
        exogenous = np.empty((len(self.frame), 0)) if C is None else C.to_numpy()
        return {
            x: FirstStage.of(self.frame[x].to_numpy(), Z.to_numpy(), exogenous)
            for x in self.columns.x
        }

    @cached_property
    def scores(self) -> tuple[float, float]:
        """R² of the structural function and of plain kernel ridge, on the rows used."""
        y, fits = self.frame[self.columns.y], self.predict(self.frame)
        errors = fits.sub(y, axis=0).pow(2).sum() / ((y - y.mean()) ** 2).sum()
        return float(1 - errors[PREDICTION]), float(1 - errors[PLAIN])

    @property
    def support(self) -> int:
        """How many different values the instruments take together."""
        return len(self.frame[self.columns.z].drop_duplicates())


def parts(frame: pd.DataFrame, columns: Columns) -> tuple[Any, Any, Any, Any]:
    """y, X, Z, C (None where there are no exogenous columns)."""
    C = frame[columns.c] if columns.c else None
    return frame[columns.y], frame[columns.x], frame[columns.z], C


def named(kernel: str, points: pd.DataFrame) -> str | Kernel:
    """The kernel of that name; the linear one with an intercept as large as the columns."""
    if kernel != "linear":
        return kernel
    return Linear(offset=float((points.to_numpy() ** 2).sum(axis=1).mean()))


def uneven(points: pd.DataFrame) -> bool:
    """Whether columns lie far from zero, or differ much in size."""
    spread = points.std()
    return bool((points.mean().abs() > 3 * spread).any() or spread.max() > 10 * spread.min())


def check_rows(frame: pd.DataFrame, columns: Columns) -> None:
    """Refuse what no estimate can come of."""
    if len(frame) < SMALLEST:
        raise UserError(f"{len(frame)} complete rows are left; at least {SMALLEST} are needed")
    constant = [c for c in frame.columns if frame[c].nunique() == 1]
    if constant:
        raise UserError(
            f"column {constant[0]!r} has the same value, {frame[constant[0]].iloc[0]:g}, "
            "in every row; leave it out"
        )


def _beside(Z: pd.DataFrame, C: pd.DataFrame | None) -> pd.DataFrame:
    return Z if C is None else pd.concat([Z, C], axis=1)


def _free(name: str, rows: pd.DataFrame) -> str:
    while name in rows.columns:
        name += "_"
    return name


def sample(n: int) -> np.ndarray:
    """Row numbers for a figure: a figure of a million points is a large grey spot."""
    return np.random.default_rng(0).permutation(n)[:DRAWN]

"""`kernelmean iv`: what is estimated from the table, in numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..core.checks import NumericalWarning
from ..core.moments import block_rows, row_blocks
from ..display import StructuralCurveDisplay
from ..instruments.formula import Design, names_of, read_formula
from ..instruments.inference import (
    WEAK,
    Endogeneity,
    Estimate,
    Strength,
    confidence_limits,
    ridge_coefficients,
)
from ..instruments.kernel_iv import KernelIV
from ..instruments.rows import kind_of
from ..kernels import Kernel, Linear
from .errors import UserError, refusals
from .firststage import FirstStage
from .tables import Table, complete, split_names

SMALLEST = 20  # rows
UNITS = (
    "The linear kernel minds the units of the columns, and these lie far from zero or differ much "
    "in size: subtract the mean of each column and divide by its standard deviation first."
)
DRAWN = 2_000  # points in a figure, at most
LEVEL = 0.95  # of bands and limits
PREDICTION, PLAIN = "prediction", "plain_ridge"  # columns of predictions.csv
LOW, HIGH = "prediction_low", "prediction_high"


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
class Settings:
    """How the model is fitted: the parameters of `KernelIV` that the command has options for."""

    kernel: str = "gaussian"
    split: str | float | int = "loo"
    trend: str | int | None = "auto"
    tune: bool | None = None
    seed: int = 0

    @property
    def centred(self) -> bool:
        """Whether the outcome's mean is taken away: the model has no intercept of its own."""
        share = kind_of(self.split) == "share"
        return self.trend is None or (self.trend == "auto" and share)

    def model(self, kernel_x: str | Kernel, kernel_z: str | Kernel) -> KernelIV:
        """The estimator, not fitted."""
        tune = "auto" if self.tune is None else self.tune
        return KernelIV(
            kernel_x,
            kernel_z,
            split=self.split,
            trend=self.trend,
            tune_lengthscale=tune,
            random_state=self.seed,
        )


@dataclass(frozen=True)
class Data:
    """The rows used, as columns of numbers.

    Attributes
    ----------
    frame : DataFrame
        With `split="samples"` the outcome, or the regressors, may be missing.
    columns : Columns
    design : Design or None
        How a formula makes the columns; None where they are those of the file.
    """

    frame: pd.DataFrame
    columns: Columns
    design: Design | None = None

    @classmethod
    def read(cls, table: Table, columns: Columns, gaps: bool, drop_missing: bool) -> Data:
        """Columns by name."""
        if not gaps:
            return cls(table.numbers(columns.roles(), drop_missing), columns)
        frame = table.numbers_with_gaps(columns.roles())
        whole = complete(frame[[*columns.z, *columns.c]], table.path, drop_missing)
        return cls(frame.loc[whole.index], columns)

    @classmethod
    def by_formula(cls, table: Table, formula: str, gaps: bool, drop_missing: bool) -> Data:
        """Columns that a formula makes."""
        with refusals():
            names = names_of(formula)
            used = table.frame[table.asked_for({"--formula": names["all"]})]
            whole = used[names["instruments"]] if gaps else used
            used = used.loc[complete(whole, table.path, drop_missing).index]
            design, y, X, Z, C = read_formula(formula, used, gaps=gaps)
        blocks = [y, X, Z] if C is None else [y, X, Z, C]
        columns = Columns(str(y.name), list(X), list(Z), [] if C is None else list(C))
        return cls(pd.concat(blocks, axis=1), columns, design)

    def own(self, table: Table) -> pd.DataFrame:
        """The rows used, as they stand in the file."""
        if self.design is None:
            return self.frame
        return table.frame.loc[self.frame.index, names_of(self.design.formula)["all"]]

    def rows(self, table: Table, drop_missing: bool) -> pd.DataFrame:
        """The rows of another file to predict for."""
        if self.design is None:
            return table.numbers({"--x": self.columns.x, "--c": self.columns.c}, drop_missing)
        names = names_of(self.design.formula)["regressors"]
        rows = table.frame[table.asked_for({"--formula": names})]
        return complete(rows, table.path, drop_missing)

    def regressors(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The columns h is a function of, made from rows of a file."""
        if self.design is None:
            return rows[self.columns.regressors]
        with refusals():
            X, C = self.design.regressors(rows)
        return X if C is None else X.join(C)


@dataclass(frozen=True)
class Analysis:
    """A fitted structural function with everything the summary and the page say about it.

    Attributes
    ----------
    data : Data
    settings : Settings
    model : KernelIV
        Fitted to y − `centre`.
    plain : array of shape (width,), or None
        Coefficients of kernel ridge regression in the same coordinates, of y − `centre`; None
        where no row has both regressors and outcome.
    centre : float
        The mean of y where the model has no intercept, so that ridge pulls towards the average;
        otherwise 0.
    notes : tuple of str
        Numerical trouble on the way.
    """

    data: Data
    settings: Settings
    model: KernelIV
    plain: np.ndarray | None
    centre: float
    notes: tuple[str, ...]

    @classmethod
    def of(cls, data: Data, settings: Settings) -> Analysis:
        """Fit both stages, and plain kernel ridge for comparison."""
        frame, columns = data.frame, data.columns
        check_rows(frame)
        y, X, Z, C = parts(frame, columns)
        kernel_x = named(settings.kernel, frame[columns.regressors])
        kernel_z = named(settings.kernel, frame[[*columns.z, *columns.c]])
        centre = float(y.mean()) if settings.centred else 0.0
        with refusals(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NumericalWarning)
            model = settings.model(kernel_x, kernel_z).fit(X, y - centre, Z, C)
        model.design_ = data.design
        notes = [str(w.message) for w in caught]
        inputs = frame.drop(columns=columns.y)
        notes += (
            [UNITS] if settings.kernel == "linear" and not model.trend_ and uneven(inputs) else []
        )
        plain = _ridge(model, frame, columns, centre)
        return cls(data, settings, model, plain, centre, tuple(dict.fromkeys(notes)))

    @property
    def frame(self) -> pd.DataFrame:
        """The rows used."""
        return self.data.frame

    @property
    def columns(self) -> Columns:
        """The part that each column plays."""
        return self.data.columns

    def predict(self, points: pd.DataFrame) -> pd.DataFrame:
        """The structural function with limits at each row, and plain kernel ridge.

        NaN where a regressor is missing.
        """
        known = points[self.columns.regressors].dropna()
        pieces = [
            self._evaluate(block, simultaneous=False)
            for (block,) in row_blocks(known.to_numpy(), rows=block_rows(self.model.basis_x_.width))
        ]
        return pd.concat(pieces).set_axis(known.index).reindex(points.index)

    def _evaluate(self, points: np.ndarray, simultaneous: bool) -> pd.DataFrame:
        model = self.model
        rows = model.basis_x_.transform(points)
        limits = confidence_limits(rows, model.coef_, model.covariance_, LEVEL, simultaneous)
        h = {PREDICTION: rows @ model.coef_, LOW: limits.lower, HIGH: limits.upper}
        if self.plain is not None:
            h[PLAIN] = rows @ self.plain
        return pd.DataFrame(h) + self.centre

    def predictions(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows of a file, with the predictions beside them."""
        found = self.predict(self.data.regressors(rows))
        return rows.join(found.rename(columns=lambda name: _free(name, rows)))

    def partial(self, column: str, values: Any) -> pd.DataFrame:
        """Both functions along one column, the others at their medians; the band holds at once."""
        medians = self.frame[self.columns.regressors].median()
        rows = pd.DataFrame([medians] * len(values), index=pd.Index(values, name=column))
        rows = rows.assign(**{column: rows.index})
        return self._evaluate(rows.to_numpy(), simultaneous=True).set_axis(rows.index)

    def display(self, column: str) -> StructuralCurveDisplay:
        """The curve between the 2.5% and 97.5% quantiles of the column, in the units of y."""
        x, y = self.frame[column], self.frame[self.columns.y]
        grid = np.linspace(x.quantile(0.025), x.quantile(0.975), 200)
        curve, keep = self.partial(column, grid), sample(len(x))
        return StructuralCurveDisplay(
            grid,
            curve[PREDICTION].to_numpy(),
            None if self.plain is None else curve[PLAIN].to_numpy(),
            curve[[LOW, HIGH]].to_numpy(),
            x.to_numpy()[keep],
            y.to_numpy()[keep],
            column,
            self.columns.y,
            LEVEL,
        )

    # ------------------------------------------------------------ tests and effects

    @cached_property
    def effects(self) -> dict[str, Estimate]:
        """The average derivative in each endogenous column, where the kernel has one."""
        try:
            return {
                x: self.model.average_derivative(column=j, level=LEVEL)
                for j, x in enumerate(self.columns.x)
            }
        except ValueError:  # Laplace's has none
            return {}

    @cached_property
    def strength(self) -> Strength:
        """How far the instruments move the endogenous columns, in the model's first stage."""
        return self.model.first_stage()

    @property
    def weak(self) -> list[str]:
        """Endogenous columns whose instruments are weak."""
        return [x for x, f in zip(self.columns.x, self.strength.f, strict=True) if f < WEAK]

    @cached_property
    def endogeneity(self) -> Endogeneity | None:
        """Whether regression would have done; None without rows to regress on."""
        return None if self.plain is None else self.model.endogeneity_test()

    @cached_property
    def first_stages(self) -> dict[str, FirstStage]:
        """What a regression of each endogenous column on the instruments finds."""
        known = self.frame.dropna(subset=self.columns.x)
        _, X, Z, C = parts(known, self.columns)
        exogenous = np.empty((len(known), 0)) if C is None else C.to_numpy()
        return {x: FirstStage.of(X[x].to_numpy(), Z.to_numpy(), exogenous) for x in X}

    @cached_property
    def scores(self) -> tuple[float, float]:
        """R² of the structural function and of plain kernel ridge, on the complete rows."""
        known = self.frame.dropna()
        y, fits = known[self.columns.y], self.predict(known)
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


def _ridge(model: KernelIV, frame: pd.DataFrame, columns: Columns, centre: float) -> Any:
    """Coefficients of plain kernel ridge, where there are complete rows."""
    known = frame.dropna()
    if len(known) < SMALLEST:
        return None
    points, y = known[columns.regressors].to_numpy(), known[columns.y].to_numpy()
    return ridge_coefficients(model.basis_x_, points, y - centre)


def named(kernel: str, points: pd.DataFrame) -> str | Kernel:
    """The kernel of that name; the linear one with an intercept as large as the columns."""
    if kernel != "linear":
        return kernel
    return Linear(offset=float((points.dropna().to_numpy() ** 2).sum(axis=1).mean()))


def uneven(points: pd.DataFrame) -> bool:
    """Whether columns lie far from zero, or differ much in size."""
    spread = points.std()
    return bool((points.mean().abs() > 3 * spread).any() or spread.max() > 10 * spread.min())


def check_rows(frame: pd.DataFrame) -> None:
    """Refuse what no estimate can come of."""
    if len(frame) < SMALLEST:
        raise UserError(f"{len(frame)} complete rows are left; at least {SMALLEST} are needed")
    constant = [c for c in frame.columns if frame[c].nunique() == 1]
    if constant:
        raise UserError(
            f"column {constant[0]!r} has the same value, {frame[constant[0]].mean():g}, "
            "in every row; leave it out"
        )


def columns_asked(
    y: str | None, x: str | None, z: str | None, c: str | None, formula: str | None
) -> Columns | None:
    """The columns of the options; None where a formula stands in their place."""
    given = {"--y": y, "--x": x, "--z": z, "--c": c}
    if formula is not None:
        named = [option for option, text in given.items() if text is not None]
        if named:
            raise UserError(f"--formula stands in place of {' and '.join(named)}; give one of them")
        return None
    for option in ("--y", "--x", "--z"):
        if given[option] is None:
            raise UserError(f"Missing option '{option}'.")
    return Columns(str(y).strip(), *(split_names(given[o], o) for o in ("--x", "--z", "--c")))


def read_split(text: str) -> str | float | int:
    """`--split`: loo, samples, a share in (0, 1) or a number of folds."""
    if text in ("loo", "samples"):
        return text
    value = int(text) if text.isdigit() else _float(text)
    if not (value >= 2 if isinstance(value, int) else 0.05 <= value <= 0.95):
        raise UserError(
            f"--split is {text!r}; loo, samples, a share from 0.05 to 0.95 or a number of folds "
            "such as 5 is needed"
        )
    return value


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def read_trend(text: str) -> str | int | None:
    """`--trend`: auto, none or a degree."""
    if text in ("auto", "none"):
        return "auto" if text == "auto" else None
    if not text.isdigit():
        raise UserError(f"--trend is {text!r}; auto, none or a degree such as 1 is needed")
    return int(text)


def _free(name: str, rows: pd.DataFrame) -> str:
    while name in rows.columns:
        name += "_"
    return name


def sample(n: int) -> np.ndarray:
    """Row numbers for a figure: a figure of a million points is a large grey spot."""
    return np.random.default_rng(0).permutation(n)[:DRAWN]

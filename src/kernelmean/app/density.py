"""`kernelmean density`: the distribution of some columns given others, in numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ..core.checks import NumericalWarning
from ..core.progress import Verbose
from ..densities.bandwidth import silverman
from ..densities.conditional_density import ConditionalDensity
from ..display.densities import medians
from .errors import UserError, refusals
from .tables import split_names

SMALLEST = 20  # rows
VARIED = 3  # columns of x that representative rows vary, at most
FEW = 6  # different values of a column, up to which each is looked at
SPIKES = 0.1  # of Silverman's bandwidth: below, a density is spikes
BELOW = 0.01  # of the mass below zero, from which it is said
ONE, SEVERAL = (0.1, 0.25, 0.5, 0.75, 0.9), (0.1, 0.9)  # quantiles of representative rows


@dataclass(frozen=True)
class Settings:
    """How the model is fitted.

    Attributes
    ----------
    kernel : str
        On the columns conditioned on.
    bandwidth : tuple of float, or None
        One for each column of y, or one for all.
    level : float
        Of the intervals.
    """

    kernel: str = "gaussian"
    bandwidth: tuple[float, ...] | None = None
    level: float = 0.95

    def model(self, verbose: Verbose) -> ConditionalDensity:
        """The estimator, not fitted."""
        given = self.bandwidth
        one = given[0] if given is not None and len(given) == 1 else given
        return ConditionalDensity(self.kernel, one, verbose=verbose)


@dataclass(frozen=True)
class Rows:
    """What is conditioned on.

    Attributes
    ----------
    frame : DataFrame
        Values of the columns, indexed by what each row is called.
    labels : tuple of str
        The same at length, for pictures; empty where the values say it.
    chosen : bool
        Whether the rows were chosen here, to stand for the data.
    """

    frame: pd.DataFrame
    labels: tuple[str, ...] = ()
    chosen: bool = False

    @property
    def middle(self) -> int:
        """The row to speak of first: that of the medians, or else the first."""
        return (
            list(self.frame.index).index("50%") if self.chosen and "50%" in self.frame.index else 0
        )

    @classmethod
    def representative(cls, x: pd.DataFrame) -> Rows:
        """Quantiles of a single column; of several, the medians, and one of them high or low."""
        if x.shape[1] == 1:
            return cls._distinct(x, {f"{100 * q:g}%": {x.columns[0]: q} for q in ONE})
        moved = {
            f"{name} at {100 * q:g}%": {name: q} for name in x.columns[:VARIED] for q in SEVERAL
        }
        return cls._distinct(x, {"medians": {}, **moved})

    @classmethod
    def _distinct(cls, x: pd.DataFrame, quantiles: dict[str, dict[str, float]]) -> Rows:
        """Each column at the quantile given, or its median; rows that are the same once."""
        middle = dict(zip(x.columns, medians(x.to_numpy()), strict=True))
        rows = {
            label: {**middle, **{c: _quantile(x[c], q) for c, q in at.items()}}
            for label, at in quantiles.items()
        }
        frame = pd.DataFrame.from_dict(rows, orient="index")
        middle_first = sorted(frame.index, key=lambda label: label != "50%")  # which name stays
        distinct = frame.loc[middle_first].drop_duplicates().index
        frame = frame.loc[frame.index.isin(distinct)]
        labels = [_values(frame.loc[label, list(quantiles[label])]) for label in frame.index]
        return cls(frame, tuple(text or "medians" for text in labels), True)


def _quantile(column: pd.Series, q: float) -> float:
    return float(np.quantile(column, q, method="inverted_cdf"))


def _values(row: pd.Series) -> str:
    return ", ".join(f"{name} = {value:.4g}" for name, value in row.items())


@dataclass(frozen=True)
class Densities:
    """A conditional density with its answers.

    Attributes
    ----------
    data : DataFrame
        The rows it is learned from.
    y, x : list of str
    rows : Rows
        Where it is asked.
    settings : Settings
    model : ConditionalDensity
    caught : list of str
        Numerical trouble on the way.
    """

    data: pd.DataFrame
    y: list[str]
    x: list[str]
    rows: Rows
    settings: Settings
    model: ConditionalDensity
    caught: list[str]

    @classmethod
    def of(
        cls,
        data: pd.DataFrame,
        y: list[str],
        x: list[str],
        at: pd.DataFrame | None = None,
        settings: Settings | None = None,
        verbose: Verbose = False,
    ) -> Densities:
        """Learn from the rows of `data`; ask at those of `at`, or at representative ones."""
        settings = settings or Settings()
        check_rows(data, y, settings)
        with refusals(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NumericalWarning)
            model = settings.model(verbose).fit(data[x], target(data, y))
            rows = Rows.representative(data[x]) if at is None else Rows(at[x])
            found = cls(data, y, x, rows, settings, model, [])
            found.table, found.inside, found.narrowing  # noqa: B018  (computed once, here)
        found.caught.extend(dict.fromkeys(str(w.message) for w in caught))
        return found

    @property
    def X(self) -> pd.DataFrame:
        """The columns conditioned on, in the rows learned from."""
        return self.data[self.x]

    @property
    def target(self) -> pd.DataFrame | pd.Series:
        """What the model was fitted to."""
        return target(self.data, self.y)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Values of x, and mean, median, intervals and mode of each y, one row per question."""
        X, level = self.rows.frame, self.settings.level
        central = self.model.predict_interval(X, level)
        shortest = self.model.predict_interval(X, level, "shortest")
        answers = {
            "mean": self.model.predict(X),
            "median": self.model.predict_quantile(X, 0.5),
            "lower": central[0],
            "upper": central[1],
            "shortest_lower": shortest[0],
            "shortest_upper": shortest[1],
        }
        if len(self.y) == 1:  # of several columns together a mode says little about each
            answers["mode"] = self.model.mode(X)
        columns = {
            f"{name}_{what}": np.reshape(values, (len(X), -1))[:, j]
            for j, name in enumerate(self.y)
            for what, values in answers.items()
        }
        return X.assign(**columns)

    @cached_property
    def inside(self) -> np.ndarray:
        """Share of the rows learned from in their interval, for each y."""
        lower, upper = self._own
        observed = self.data[self.y].to_numpy()
        return ((lower <= observed) & (observed <= upper)).mean(axis=0)

    @cached_property
    def narrowing(self) -> np.ndarray:
        """Median width of the intervals over that of all rows together, for each y."""
        lower, upper = self._own
        tails = [(1 - self.settings.level) / 2, (1 + self.settings.level) / 2]
        low, high = np.quantile(self.data[self.y].to_numpy(), tails, axis=0)
        return np.median(upper - lower, axis=0) / np.where(high > low, high - low, np.nan)

    @cached_property
    def _own(self) -> tuple[np.ndarray, np.ndarray]:
        ends = self.model.predict_interval(self.X, self.settings.level)
        lower, upper = (np.reshape(end, (len(self.data), -1)) for end in ends)
        return lower, upper

    @cached_property
    def notes(self) -> list[str]:
        """What the reader must not overlook in this very data set."""
        return [*self.caught, *self._spiky(), *self._cut(), *self._beyond()]

    def _spiky(self) -> list[str]:
        smooth = silverman(self.model.points_)
        out = []
        for name, width, rule in zip(self.y, self.model.bandwidth_, smooth, strict=True):
            distinct = self.data[name].nunique()
            if width < SPIKES * rule and distinct < 0.9 * len(self.data):
                out.append(
                    f"{name} repeats itself ({distinct:,} different values in {len(self.data):,} "
                    f"rows), and its density is spikes at the values that repeat (bandwidth "
                    f"{width:.2g}). For a smooth one give --bandwidth, such as {rule:.2g}."
                )
        return out

    def _cut(self) -> list[str]:
        """Columns that stop at zero, where densities do not."""
        zeros = np.zeros((1, len(self.y)))
        F = np.reshape(self.model.cdf(zeros, self.rows.frame, paired=False), (-1, len(self.y)))
        out = []
        for name, most in zip(self.y, F.max(axis=0), strict=True):
            least = self.data[name].min()
            if least >= 0 and most > BELOW:
                remedy = f" The logarithm of {name} has no such edge." if least > 0 else ""
                out.append(
                    f"No row has {name} below zero, yet up to {100 * most:.0f}% of its density "
                    f"lies there: a smooth density does not stop at an edge.{remedy}"
                )
        return out

    def _beyond(self) -> list[str]:
        low, high = self.X.min(), self.X.max()
        far = ((self.rows.frame < low) | (self.rows.frame > high)).any(axis=1)
        if not far.any():
            return []
        return [
            f"{far.sum()} of {len(far)} rows asked for lie outside the range of the data (row "
            f"{far.index[far][0]} first): their answers are guesses."
        ]


def target(data: pd.DataFrame, y: list[str]) -> pd.DataFrame | pd.Series:
    """One column, or several."""
    return data[y[0]] if len(y) == 1 else data[y]


def read_bandwidth(text: str | None) -> tuple[float, ...] | None:
    """'0.5' or '0.5,2' as numbers."""
    if text is None:
        return None
    try:
        widths = tuple(float(part) for part in split_names(text, "--bandwidth"))
    except ValueError:
        widths = ()
    if not widths or not all(0 < w < np.inf for w in widths):
        raise UserError(
            f"--bandwidth is {text!r}; a positive number is needed, or one for each column of --y"
        )
    return widths


def check_rows(data: pd.DataFrame, y: Sequence[str], settings: Settings) -> None:
    """Enough rows, columns that vary, and as many bandwidths as columns."""
    if len(data) < SMALLEST:
        raise UserError(f"{len(data)} rows are too few; at least {SMALLEST} are needed")
    for name in data:
        if data[name].nunique() == 1:
            raise UserError(
                f"column {name!r} is {data[name].iloc[0]:g} in every row; leave it out: a column "
                "that never changes tells nothing"
            )
    if settings.bandwidth is not None and len(settings.bandwidth) not in (1, len(y)):
        raise UserError(
            f"--bandwidth has {len(settings.bandwidth)} numbers for {len(y)} column(s) of --y; one "
            "is needed, or one for each"
        )

"""`kernelmean filter`: hidden states followed through a file of observations, in numbers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ..core.checks import NumericalWarning
from ..core.progress import Verbose
from ..core.sequences import check_sequences
from ..core.threads import one_thread
from ..filtering.kernel_bayes_filter import KernelBayesFilter
from ..filtering.results import FilterResult, Forecast
from ..kernels import Gaussian
from .errors import UserError, refusals
from .tables import Table

SMALLEST = 20  # rows of training
TUNED = 1000  # rows of training up to which settings are searched without being asked for
SHORTEST = 10  # rows of a trajectory whose tail can be held out


@dataclass(frozen=True)
class Rows:
    """Rows of a file in the order of time.

    Attributes
    ----------
    frame : DataFrame
        Numbers only, indexed by the row of the file.
    lengths : list of int
        Rows of each trajectory.
    names : list of str
        What each trajectory is called; empty where the file is not divided.
    """

    frame: pd.DataFrame
    lengths: list[int]
    names: list[str]

    @classmethod
    def of(cls, frame: pd.DataFrame, table: Table, sequence: str | None) -> Rows:
        """`frame` in trajectories: a new one where `sequence` changes, or a row was left out."""
        begins = np.diff(frame.index.to_numpy(), prepend=-1) != 1
        if sequence is None:
            return cls(frame, _lengths(begins), [])
        label = table.frame[sequence].loc[frame.index]
        begins |= _changes(label, table, sequence)
        return cls(frame, _lengths(begins), [str(v) for v in label[begins]])

    @property
    def slices(self) -> list[slice]:
        """The rows of each trajectory."""
        return check_sequences(self.lengths, len(self.frame))


def _lengths(begins: np.ndarray) -> list[int]:
    return np.diff(np.flatnonzero(begins), append=len(begins)).tolist()


def _changes(label: pd.Series, table: Table, sequence: str) -> np.ndarray:
    """Whether another trajectory begins at each row; its rows must be together."""
    if label.isna().any():
        row = label.index[label.isna()][0]
        raise UserError(
            f"column {sequence!r} of {table.path} (asked for by --sequence) is empty in row {row}"
        )
    begins = (label != label.shift()).to_numpy()
    firsts = label[begins]
    again = firsts[firsts.duplicated()]
    if len(again):
        raise UserError(
            f"the rows of {sequence} {again.iloc[0]} in {table.path} are not together: they begin "
            f"again in row {again.index[0]}; sort the file by {sequence!r}, then by time"
        )
    return begins


@dataclass(frozen=True)
class Settings:
    """What to do.

    Attributes
    ----------
    states, observed : list of str
    sequence : str or None
        The column that tells trajectories apart.
    rule : str
    smooth : bool
    horizon : int
        Steps to forecast.
    level : float
        Of the intervals.
    tune : bool or None
        None searches for settings where the training file is small enough.
    """

    states: list[str]
    observed: list[str]
    sequence: str | None = None
    rule: str = "importance"
    smooth: bool = False
    horizon: int = 0
    level: float = 0.95
    tune: bool | None = None

    def read(self, train: Table, test: Table, drop_missing: bool) -> tuple[Rows, Rows]:
        """The rows of both files; in `test` values may be missing, and the states too."""
        apart = {} if self.sequence is None else {"--sequence": [self.sequence]}
        seen = {"--observe": self.observed}
        wanted = {"--state": self.states, **seen}
        train.asked_for({**wanted, **apart})
        test.asked_for({**seen, **apart})
        known = [name for name in self.states if name in test.frame.columns]
        past = train.numbers(wanted, drop_missing)
        now = test.numbers_with_gaps({**seen, "--state": known})
        return Rows.of(past, train, self.sequence), Rows.of(now, test, self.sequence)


@dataclass(frozen=True)
class Tracks:
    """States followed through the observations of a file.

    Attributes
    ----------
    settings : Settings
    train, test : Rows
    model : KernelBayesFilter
    filtered : FilterResult
    smoothed : FilterResult or None
    ahead : Forecast or None
    caught : tuple of str
        Numerical trouble on the way.
    """

    settings: Settings
    train: Rows
    test: Rows
    model: KernelBayesFilter
    filtered: FilterResult
    smoothed: FilterResult | None
    ahead: Forecast | None
    caught: tuple[str, ...]

    @classmethod
    def of(cls, settings: Settings, train: Rows, test: Rows, model: KernelBayesFilter) -> Tracks:
        """Follow the states of `test` with a fitted model."""
        X = test.frame[settings.observed]
        with refusals(), one_thread(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NumericalWarning)
            filtered = model.filter(X, test.lengths)
        with refusals(), one_thread(), warnings.catch_warnings():  # said once already
            warnings.simplefilter("ignore", NumericalWarning)
            smoothed = model.smooth(X, test.lengths) if settings.smooth else None
            steps = settings.horizon
            ahead = model.forecast(X, steps, test.lengths) if steps else None
        said = tuple(dict.fromkeys(str(w.message) for w in caught))
        return cls(settings, train, test, model, filtered, smoothed, ahead, said)

    @cached_property
    def truth(self) -> np.ndarray | None:
        """The states of the test file, (n, d), NaN where unknown; None where there are none."""
        known = self.test.frame.reindex(columns=self.settings.states).to_numpy()
        return None if np.isnan(known).all() else known

    @cached_property
    def results(self) -> dict[str, FilterResult]:
        """By what they are called."""
        both = {"filtered": self.filtered, "smoothed": self.smoothed}
        return {name: result for name, result in both.items() if result is not None}

    @cached_property
    def intervals(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Lower and upper ends, (n, d) each, by what they are called."""
        return {name: r.interval(self.settings.level) for name, r in self.results.items()}

    @cached_property
    def table(self) -> pd.DataFrame:
        """Mean and interval of each state, one row per observation."""
        columns: dict[str, np.ndarray] = {}
        for name, result in self.results.items():
            suffix = "" if name == "filtered" else "_smoothed"
            lower, upper = self.intervals[name]
            answers = {"mean": result.mean(), "lower": lower, "upper": upper}
            columns |= by_column(self.settings.states, answers, suffix)
        flags = {"missing": self.filtered.missing, "collapsed": self.filtered.collapsed}
        frame = pd.DataFrame({**columns, **flags}, index=self.test.frame.index)
        return self._named(frame, np.repeat(np.arange(len(self.test.lengths)), self.test.lengths))

    @cached_property
    def forecasts(self) -> pd.DataFrame:
        """Mean and interval of each state and observation at the steps after each trajectory."""
        ahead, level = self.ahead, self.settings.level
        assert ahead is not None
        count, steps = len(self.test.lengths), self.settings.horizon
        columns: dict[str, np.ndarray] = {"step": np.tile(np.arange(1, steps + 1), count)}
        for names, m in (
            (self.settings.states, ahead),
            (self.settings.observed, ahead.observations),
        ):
            lower, upper = m.interval(level)
            answers = {"mean": m.mean(), "lower": lower, "upper": upper}
            columns |= by_column(names, answers)
        return self._named(pd.DataFrame(columns), np.repeat(np.arange(count), steps))

    def _named(self, frame: pd.DataFrame, trajectory: np.ndarray) -> pd.DataFrame:
        """The table with the name of each row's trajectory in front."""
        if self.settings.sequence is None:
            return frame
        frame.insert(0, self.settings.sequence, [self.test.names[i] for i in trajectory])
        return frame

    @cached_property
    def errors(self) -> pd.DataFrame | None:
        """Root mean squared errors and coverage of each state known in the test file."""
        if self.truth is None:
            return None
        rivals = {"line": self._line(), "mean": np.broadcast_to(self._average(), self.truth.shape)}
        means = {name: r.mean() for name, r in self.results.items()}
        rows = {name: rmse(m, self.truth) for name, m in {**means, **rivals}.items()}
        for name, (lower, upper) in self.intervals.items():
            inside = np.where(np.isnan(self.truth), np.nan, 0.0)
            inside += (lower <= self.truth) & (self.truth <= upper)
            rows[f"{name} inside"] = average(inside)
        return pd.DataFrame(rows, index=self.settings.states).dropna()

    def _average(self) -> np.ndarray:
        return self.train.frame[self.settings.states].mean().to_numpy()

    def _line(self) -> np.ndarray:
        """Straight lines from each observation alone; the average where that brings no news."""
        past, X = self.train.frame, self.test.frame[self.settings.observed].to_numpy()
        X = np.where(self.filtered.collapsed[:, None], np.nan, X)
        inputs = past[self.settings.observed].to_numpy()
        middle, level = inputs.mean(axis=0), self._average()
        targets = past[self.settings.states].to_numpy() - level
        slopes = np.linalg.lstsq(inputs - middle, targets, rcond=None)[0]
        return level + np.nan_to_num((X - middle) @ slopes)

    @cached_property
    def outside(self) -> pd.Series:
        """Share of the test rows outside the range of training, by observed column."""
        past, now = (rows.frame[self.settings.observed] for rows in (self.train, self.test))
        return ((now < past.min()) | (now > past.max())).mean()

    @property
    def partial(self) -> int:
        """Rows with some of the observed columns, which count as missing."""
        gone = self.test.frame[self.settings.observed].isna()
        return int((gone.any(axis=1) & ~gone.all(axis=1)).sum())


def learn(settings: Settings, train: Rows, verbose: Verbose = True) -> KernelBayesFilter:
    """The filter, with its settings searched for where that is asked for or quick."""
    if len(train.frame) < SMALLEST:
        raise UserError(
            f"{len(train.frame)} rows to learn from are too few; at least {SMALLEST} are needed"
        )
    X, Z = train.frame[settings.observed], train.frame[settings.states]
    with refusals(), warnings.catch_warnings():  # what is wrong with the rows will be seen there
        warnings.simplefilter("ignore", NumericalWarning)
        states = Gaussian(columnwise=True).resolve(Z.to_numpy(), "--state").scaled(0.5)
        model = KernelBayesFilter(settings.rule, Gaussian(columnwise=True), states)
        if to_tune(settings, train):
            with one_thread():
                return model.tune(X, Z, train.lengths, verbose=verbose)
        return model.fit(X, Z, train.lengths)


def to_tune(settings: Settings, train: Rows) -> bool:
    """Whether to search for settings: as asked, or where it is quick."""
    short = max(train.lengths) < SHORTEST
    if settings.tune and short:
        raise UserError(
            f"--tune holds out the end of each trajectory, and the longest has {max(train.lengths)}"
            f" rows; {SHORTEST} are needed (or --no-tune)"
        )
    return len(train.frame) <= TUNED and not short if settings.tune is None else settings.tune


def by_column(
    names: Sequence[str], answers: Mapping[str, np.ndarray], suffix: str = ""
) -> dict[str, np.ndarray]:
    """Columns a_mean, a_lower, ... for each name, from arrays of shape (n, len(names))."""
    return {
        f"{name}{suffix}_{what}": values[:, j]
        for j, name in enumerate(names)
        for what, values in answers.items()
    }


def rmse(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Root mean squared error of each column over the rows where the truth is known."""
    return np.sqrt(average((found - truth) ** 2))


def average(values: np.ndarray) -> np.ndarray:
    """Mean of each column over what is known; NaN where nothing is."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0)

"""`kernelmean hmm`: hidden regimes of a series, in numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ..chains.order import MAX_COMPONENTS, METHODS, Order, Spectrum, choose_order
from ..chains.results import RegimeForecast
from ..core.checks import NumericalWarning
from ..core.progress import Verbose
from ..hmm.estimate_order import estimate_order
from ..hmm.kernel_hmm import KernelHMM
from .errors import UserError, refusals
from .filter import Rows, by_column
from .tables import Table

SMALLEST = 50  # rows
QUICK = ("correlations", "threshold", "elbow", "ratio")  # rules that need no fit
CONSTANT = 0.3  # of the threshold, as `estimate_order` has it
RARE = 30  # rows of a state, below which its law is hardly known
FEW = 5  # entries into a state, below which its duration is hardly known


@dataclass(frozen=True)
class Settings:
    """What to do.

    Attributes
    ----------
    columns : list of str
    states : int or str
        Their number, or the rule that estimates it.
    sequence, time : str or None
        The columns that tell sequences apart, and that name the rows.
    inference : str
    refine : bool
        Whether EM follows the spectral method.
    horizon : int
        Rows to forecast.
    level : float
        Of the intervals.
    seed : int
    """

    columns: list[str]
    states: int | str = "correlations"
    sequence: str | None = None
    time: str | None = None
    inference: str = "kbr"
    refine: bool = True
    horizon: int = 0
    level: float = 0.95
    seed: int = 0

    def read(self, table: Table) -> Series:
        """The rows of a file; values may be missing."""
        apart = {"--sequence": self.sequence, "--time": self.time}
        roles = {option: [name] for option, name in apart.items() if name is not None}
        table.asked_for({"--columns": self.columns, **roles})
        frame = table.numbers_with_gaps({"--columns": self.columns})
        rows = Rows.of(frame, table, self.sequence)
        check_rows(frame, table)
        return Series(rows, None if self.time is None else read_times(table, self.time, rows))

    def model(self, n_components: int, verbose: Verbose) -> KernelHMM:
        """The estimator, not fitted."""
        return KernelHMM(
            n_components,
            refine=self.refine,
            inference=self.inference,
            random_state=self.seed,
            verbose=verbose,
        )


@dataclass(frozen=True)
class Series:
    """Observations in the order of time.

    Attributes
    ----------
    rows : Rows
    times : array of numbers or dates, or None
    """

    rows: Rows
    times: np.ndarray | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """The observations."""
        return self.rows.frame

    @property
    def lengths(self) -> list[int]:
        """Rows of each sequence."""
        return self.rows.lengths

    def by_row(
        self, columns: dict[str, np.ndarray], time: str | None, sequence: str | None
    ) -> pd.DataFrame:
        """A table of answers about every row, with its time and the name of its sequence."""
        frame = pd.DataFrame(columns, index=self.frame.index)
        if time is not None:
            frame.insert(0, time, self.times)
        return self._named(frame, sequence, np.repeat(np.arange(len(self.lengths)), self.lengths))

    def by_step(
        self, columns: dict[str, np.ndarray], steps: int, sequence: str | None
    ) -> pd.DataFrame:
        """A table of answers about the rows after each sequence."""
        count = len(self.lengths)
        frame = pd.DataFrame({"step": np.tile(np.arange(1, steps + 1), count), **columns})
        return self._named(frame, sequence, np.repeat(np.arange(count), steps))

    def _named(self, frame: pd.DataFrame, column: str | None, sequence) -> pd.DataFrame:
        """The table with the name of each row's sequence in front."""
        if column is not None:
            frame.insert(0, column, [self.rows.names[i] for i in sequence])
        return frame


@dataclass(frozen=True)
class Regimes:
    """A hidden Markov model with its answers about the rows it was learned from.

    Attributes
    ----------
    settings : Settings
    series : Series
    order : Order or None
        How the number of states was estimated; None where it was given.
    orders : dict
        What each of the quick rules says.
    model : KernelHMM
    smoothed, filtered : arrays of shape (n, K)
        Probabilities given all of the sequence, and given the rows up to each.
    path : int array of shape (n,)
        The most probable path.
    log_predictive : array of shape (n,)
        log p(row | rows before).
    ahead : RegimeForecast or None
    caught : tuple of str
        Numerical trouble on the way.
    """

    settings: Settings
    series: Series
    order: Order | None
    orders: dict[str, Order]
    model: KernelHMM
    smoothed: np.ndarray
    filtered: np.ndarray
    path: np.ndarray
    log_predictive: np.ndarray
    ahead: RegimeForecast | None
    caught: tuple[str, ...]

    @classmethod
    def of(cls, settings: Settings, series: Series, verbose: Verbose = False) -> Regimes:
        """Choose the number of states, learn the model, and ask it about the rows."""
        X, lengths, steps = series.frame, series.lengths, settings.horizon
        with refusals(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NumericalWarning)
            orders = quick_orders(X, lengths)
            order = chosen(settings, series, orders)
            number = settings.states if order is None else order
            model = settings.model(int(number), verbose).fit(X, lengths)
            answers = (
                model.predict_proba(X, lengths),
                model.filter(X, lengths),
                model.decode(X, lengths)[1],
                model.log_predictive(X, lengths),
                model.forecast(X, steps, lengths) if steps else None,
            )
        said = tuple(dict.fromkeys(str(w.message) for w in caught))
        return cls(settings, series, order, orders, model, *answers, said)

    @property
    def n_states(self) -> int:
        """K."""
        return self.model.n_components_

    @property
    def seen(self) -> np.ndarray:
        """Rows with all columns, (n,)."""
        return self.series.frame.notna().all(axis=1).to_numpy()

    @cached_property
    def likely(self) -> np.ndarray:
        """The most probable state of each row, (n,)."""
        return self.smoothed.argmax(axis=1)

    @cached_property
    def table(self) -> pd.DataFrame:
        """States and probabilities, one row per observation."""
        numbers = range(self.n_states)
        columns = {
            "state": self.likely,
            "path": self.path,
            **{f"probability_{k}": self.smoothed[:, k] for k in numbers},
            **{f"filtered_{k}": self.filtered[:, k] for k in numbers},
            "log_predictive": np.where(self.seen, self.log_predictive, np.nan),
            "missing": ~self.seen,
        }
        return self.series.by_row(columns, self.settings.time, self.settings.sequence)

    @cached_property
    def forecasts(self) -> pd.DataFrame:
        """States, and mean and interval of each column, at the rows after each sequence."""
        ahead = self.ahead
        assert ahead is not None
        lower, upper = ahead.interval(self.settings.level)
        answers = {"mean": ahead.mean(), "lower": lower, "upper": upper}
        columns = {
            **{f"probability_{k}": ahead.states[:, k] for k in range(self.n_states)},
            **by_column(self.settings.columns, answers),
        }
        return self.series.by_step(columns, self.settings.horizon, self.settings.sequence)

    @cached_property
    def laws(self) -> dict[str, np.ndarray]:
        """Mean and interval of each column in each state, (K, d) each."""
        laws = self.model.emissions_
        lower, upper = laws.interval(self.settings.level, self.model.bandwidth_)
        return {"mean": laws.mean(), "lower": lower, "upper": upper}

    @property
    def stays(self) -> np.ndarray:
        """Rows that each state lasts on average, 1/(1 − Q_kk)."""
        with np.errstate(divide="ignore"):
            return 1 / (1 - self.model.transmat_.diagonal())

    @cached_property
    def entries(self) -> np.ndarray:
        """How often the most probable path enters each state."""
        begins = np.diff(self.path, prepend=-1) != 0
        begins[[s.start for s in self.series.rows.slices]] = True
        return np.bincount(self.path[begins], minlength=self.n_states)

    @cached_property
    def gains(self) -> np.ndarray:
        """log p(row | rows before) − log p(row), for the rows that are there."""
        f = self.model.density(self.series.frame[self.seen]) @ self.model.startprob_
        return self.log_predictive[self.seen] - np.log(f)

    @cached_property
    def notes(self) -> list[str]:
        """What the reader must not overlook in this very series."""
        found = [
            self._many(),
            self._unfinished(),
            self._memoryless(),
            self._rare(),
            self._fleeting(),
        ]
        return [*self.caught, *(text for text in [*found, self._partial()] if text)]

    def _many(self) -> str:
        if self.order is None or self.order < MAX_COMPONENTS:
            return ""
        return (
            f"The rule finds {MAX_COMPONENTS} states, the most that it looks for. A series whose "
            "state moves continuously has no number of states; a few still tell its main regimes "
            "apart: give their number with --states, or compare numbers by held-out likelihood "
            "with --states likelihood."
        )

    def _unfinished(self) -> str:
        return "" if self.model.converged_ else "EM stopped before it had settled."

    def _memoryless(self) -> str:
        gains = self.gains
        if self.n_states > 1 and gains.mean() > 2 * gains.std() / len(gains) ** 0.5:
            return ""
        return (
            "The past tells nothing: rows in any other order would be described as well. There "
            "is no sign of states that persist or follow each other."
        )

    def _rare(self) -> str:
        rows = self.smoothed[self.seen].sum(axis=0)
        rare = [f"state {k} ({rows[k]:.0f})" for k in np.flatnonzero(rows < RARE)]
        if not rare:
            return ""
        return f"Few rows belong to {' and '.join(rare)}: what such a state emits is hardly known."

    def _fleeting(self) -> str:
        few = [f"state {k} ({self.entries[k]})" for k in np.flatnonzero(self.entries < FEW)]
        if not few or self.n_states == 1:
            return ""
        return (
            f"The most probable path enters few times into {' and '.join(few)}: how long it lasts "
            "and where it leads is hardly known."
        )

    def _partial(self) -> str:
        gone = self.series.frame.isna()
        some = int((gone.any(axis=1) & ~gone.all(axis=1)).sum())
        if not some:
            return ""
        return (
            f"{some:,} of {len(gone):,} rows have some of the columns and not others; they count "
            "as missing."
        )


# ---------------------------------------------------------------- the number of states


def read_states(text: str) -> int | str:
    """A number of states, or the rule that estimates it."""
    if text == "auto":
        return Settings.states
    if text in METHODS:
        return text
    if text.isdecimal() and int(text) > 0:
        return int(text)
    rules = ", ".join(METHODS)
    raise UserError(
        f"--states is {text!r}; a number of states is needed, or auto, or one of {rules}"
    )


def quick_orders(X: pd.DataFrame, lengths: list[int]) -> dict[str, Order]:
    """What the rules say that look at the moments alone."""
    spectrum = Spectrum(KernelHMM().draft(X, lengths).moments, MAX_COMPONENTS)
    return {rule: choose_order(spectrum, rule, CONSTANT) for rule in QUICK}


def chosen(settings: Settings, series: Series, orders: dict[str, Order]) -> Order | None:
    """The number of states by the rule asked for; None where the number is given."""
    rule = settings.states
    if isinstance(rule, int):
        return None
    if rule in orders:
        return orders[rule]
    return estimate_order(series.frame, series.lengths, method=rule, random_state=settings.seed)


# ---------------------------------------------------------------- the file


def check_rows(frame: pd.DataFrame, table: Table) -> None:
    """Enough rows, and columns that vary."""
    whole = len(frame.dropna())
    if whole < SMALLEST:
        raise UserError(f"{whole} rows without gaps are too few; at least {SMALLEST} are needed")
    for name in frame:
        if frame[name].nunique() == 1:
            raise UserError(f"column {name!r} of {table.path} never changes; leave it out")


def read_times(table: Table, name: str, rows: Rows) -> np.ndarray:
    """Numbers or dates, which must not go back within a sequence."""
    column = table.frame[name]
    if not pd.api.types.is_numeric_dtype(column):
        column = pd.to_datetime(column, errors="coerce", format="mixed")
    asked = f"column {name!r} of {table.path} (asked for by --time)"
    if column.isna().any():
        row = column.index[column.isna()][0]
        value = table.frame[name][row]
        raise UserError(f"{asked} is {str(value)!r} in row {row}; a number or a date is needed")
    times = column.to_numpy()
    for s in rows.slices:
        back = np.flatnonzero(times[s][1:] < times[s][:-1])
        if len(back):
            row = column.index[s][back[0] + 1]
            raise UserError(f"{asked} goes back in row {row}; sort the file by time")
    return times

"""`kernelmean ssm`: a series forecast by a state-space model learned from it, in numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from sklearn.base import clone

from ..core.checks import NumericalWarning
from ..core.progress import Verbose
from ..core.sequences import check_sequences
from ..statespace.kernel_state_space import KernelStateSpace
from ..statespace.results import LatentResult, StateForecast
from .errors import refusals
from .filter import Rows, average, by_column, rmse
from .hmm import Series, check_rows, read_times
from .tables import Table

HELD_OUT = 0.2  # of each sequence: rows at its end
SHORTEST = 20  # rows held out, below which they tell nothing
APART = 0.1  # distance between coverage and level that is worth a word
RIVALS = ("AR(1)", "no change", "mean")


@dataclass(frozen=True)
class Settings:
    """What to do.

    Attributes
    ----------
    columns : list of str
    sequence, time : str or None
        The columns that tell sequences apart, and that name the rows.
    n_latent : int
    inference : str
    refine : bool
        Whether EM follows the moments.
    log_squares : bool
        Whether the model is of log y² in place of y.
    tune : bool
        Whether settings are searched for.
    horizon : int
        Rows to forecast.
    level : float
        Of the intervals.
    seed : int
    """

    columns: list[str]
    sequence: str | None = None
    time: str | None = None
    n_latent: int = 1
    inference: str = "nodes"
    refine: bool = True
    log_squares: bool = False
    tune: bool = False
    horizon: int = 0
    level: float = 0.95
    seed: int = 0

    def read(self, table: Table) -> Series:
        """The rows of a file; values may be missing."""
        apart = {"--sequence": self.sequence, "--time": self.time}
        roles = {option: [name] for option, name in apart.items() if name is not None}
        table.asked_for({"--columns": self.columns, **roles})
        frame = table.numbers_with_gaps({"--columns": self.columns})
        frame = log_squares(frame) if self.log_squares else frame
        rows = Rows.of(frame, table, self.sequence)
        check_rows(frame, table)
        return Series(rows, None if self.time is None else read_times(table, self.time, rows))

    @property
    def names(self) -> list[str]:
        """What the model is of."""
        return [f"log {name}²" if self.log_squares else name for name in self.columns]

    def model(self, verbose: Verbose) -> KernelStateSpace:
        """The estimator, not fitted."""
        return KernelStateSpace(
            self.n_latent,
            refine=self.refine,
            inference=self.inference,
            random_state=self.seed,
            verbose=verbose,
        )


def log_squares(frame: pd.DataFrame) -> pd.DataFrame:
    """log y² of every column; missing where y is 0."""
    squares = frame.where(frame != 0) ** 2
    return np.log(squares).rename(columns=lambda name: f"log {name}²")


@dataclass(frozen=True)
class Trial:
    """Forecasts of the rows at the end of each sequence, by models that have not seen them.

    Attributes
    ----------
    model : KernelStateSpace
        Learned from the rows before.
    first, n : int
        Rows learned from, and rows held out.
    truth : DataFrame
        The rows judged: held out and whole, as are those before them.
    forecasts : dict
        By what they are called: the model's first, then `RIVALS`.
    lower, upper : arrays
        Intervals of the model.
    """

    model: KernelStateSpace
    first: int
    n: int
    truth: pd.DataFrame
    forecasts: dict[str, np.ndarray]
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, settings: Settings, series: Series, verbose: Verbose) -> Trial | None:
        """Learn from the first rows of each sequence; None where they are too few."""
        frame, lengths = series.frame, series.lengths
        held = ends(lengths)
        past, before = frame[~held], parts(lengths)[0]
        whole = frame.notna().all(axis=1).to_numpy()
        judged = held & whole & np.r_[False, whole[:-1]]
        if judged.sum() < SHORTEST or whole[~held].sum() < SHORTEST:
            return None
        model = learn(settings, past, before, verbose)
        forecasts = {"state space": model.predict(frame, lengths)}
        forecasts |= rivals(frame, lengths, ~held)
        lower, upper = model.predict_interval(frame, settings.level, lengths)
        found = {name: f[judged] for name, f in forecasts.items()}
        count = int((held & whole).sum())
        return cls(model, len(past), count, frame[judged], found, lower[judged], upper[judged])

    @cached_property
    def errors(self) -> pd.DataFrame:
        """Root mean squared errors by column and forecast, and coverage."""
        truth = self.truth.to_numpy()
        rows = {name: rmse(f, truth) for name, f in self.forecasts.items()}
        inside = (self.lower <= truth) & (truth <= self.upper)
        return pd.DataFrame({**rows, "inside": average(inside.astype(float))}, self.truth.columns)

    @property
    def rival(self) -> str:
        """The best of `RIVALS`, by errors relative to those of the mean."""
        return (self.errors[list(RIVALS)].T / self.errors["mean"]).mean(axis=1).idxmin()

    def gain(self, rival: str) -> tuple[np.ndarray, np.ndarray]:
        """By how much the squared errors of a rival are larger: mean and standard error, (d,)."""
        truth = self.truth.to_numpy()
        off = (self.forecasts[rival] - truth) ** 2 - (self.forecasts["state space"] - truth) ** 2
        return off.mean(axis=0), off.std(axis=0) / len(off) ** 0.5


@dataclass(frozen=True)
class Forecasts:
    """A state-space model with its answers about the rows it was learned from.

    Attributes
    ----------
    settings : Settings
    series : Series
    trial : Trial or None
    model : KernelStateSpace
        Learned from all rows.
    mean, lower, upper : arrays of shape (n, d)
        Of each row, from those before it.
    filtered, smoothed : LatentResult
    log_predictive : array of shape (n,)
    ahead : StateForecast or None
    caught : list
        Warnings of numerical trouble on the way.
    """

    settings: Settings
    series: Series
    trial: Trial | None
    model: KernelStateSpace
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    filtered: LatentResult
    smoothed: LatentResult
    log_predictive: np.ndarray
    ahead: StateForecast | None
    caught: list[warnings.WarningMessage]

    @classmethod
    def of(cls, settings: Settings, series: Series, verbose: Verbose = False) -> Forecasts:
        """Judge the model on rows held out, learn it from all, and ask it about the rows."""
        X, lengths, steps = series.frame, series.lengths, settings.horizon
        with refusals(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NumericalWarning)
            trial = Trial.of(settings, series, verbose)
            model = settings.model(verbose) if trial is None else clone(trial.model)
            model.set_params(verbose=verbose).fit(X, lengths)
            lower, upper = model.predict_interval(X, settings.level, lengths)
            return cls(
                settings,
                series,
                trial,
                model,
                model.predict(X, lengths),
                lower,
                upper,
                model.filter(X, lengths),
                model.smooth(X, lengths),
                model.log_predictive(X, lengths),
                model.forecast(X, steps, lengths) if steps else None,
                caught,
            )

    @property
    def seen(self) -> np.ndarray:
        """Rows with all columns, (n,)."""
        return self.series.frame.notna().all(axis=1).to_numpy()

    @cached_property
    def volatility(self) -> np.ndarray:
        """√E[y² | rows before] of every row, (n, d), where the model is of log y²."""
        return expected(self.model, np.exp, self.series.frame, self.series.lengths) ** 0.5

    @cached_property
    def table(self) -> pd.DataFrame:
        """Forecasts and latent states, one row per observation."""
        answers = {"mean": self.mean, "lower": self.lower, "upper": self.upper}
        columns = by_column(self.settings.names, answers)
        if self.settings.log_squares:
            columns |= by_column(self.settings.columns, {"volatility": self.volatility})
        for name, law in (("filtered", self.filtered), ("smoothed", self.smoothed)):
            for k in range(self.settings.n_latent):
                columns[f"{name}_{k}"] = law.mean()[:, k]
        columns["log_predictive"] = np.where(self.seen, self.log_predictive, np.nan)
        columns["missing"] = ~self.seen
        return self.series.by_row(columns, self.settings.time, self.settings.sequence)

    @cached_property
    def forecasts(self) -> pd.DataFrame:
        """Mean and interval of each column at the rows after each sequence."""
        ahead = self.ahead
        assert ahead is not None
        lower, upper = ahead.interval(self.settings.level)
        answers = {"mean": ahead.mean(), "lower": lower, "upper": upper}
        columns = by_column(self.settings.names, answers)
        if self.settings.log_squares:
            squares = ahead.states @ self.model.emissions_.expectation(np.exp)
            columns |= by_column(self.settings.columns, {"volatility": squares**0.5})
        return self.series.by_step(columns, self.settings.horizon, self.settings.sequence)

    @cached_property
    def notes(self) -> list[str]:
        """What the reader must not overlook in this very series."""
        said = dict.fromkeys(str(w.message) for w in self.caught)
        found = [self._unfinished(), self._untried(), *self._beaten(), self._level()]
        return [*said, *(text for text in [*found, self._partial()] if text)]

    def _unfinished(self) -> str:
        return "" if self.model.converged_ else "The fit stopped before it had settled."

    def _untried(self) -> str:
        if self.trial is not None:
            return ""
        return (
            "There are too few rows without gaps to hold some out: how good the forecasts are is "
            "not known."
        )

    def _beaten(self) -> list[str]:
        """Where the best of the rivals is as good, or nearly."""
        if self.trial is None:
            return []
        gain, error = self.trial.gain(self.trial.rival)
        columns, rival = self.trial.truth.columns, SAID[self.trial.rival]
        behind, near = columns[gain <= 0], columns[(gain > 0) & (gain < 2 * error)]
        found = []
        if len(behind):
            found.append(
                f"For {' and '.join(behind)}, {rival} is as good or better on the held-out rows: "
                "where only the mean is of interest, take that."
            )
        if len(near):
            found.append(
                f"The forecasts of {' and '.join(near)} are better than {rival}, but by no more "
                f"than the noise of {len(self.trial.truth):,} held-out rows."
            )
        return found

    def _level(self) -> str:
        level = self.settings.level
        if self.trial is None or (abs(self.trial.errors["inside"] - level) <= APART).all():
            return ""
        shares = ", ".join(f"{100 * v:.0f}%" for v in self.trial.errors["inside"])
        return (
            f"The {100 * level:g}% intervals hold {shares} of the held-out rows: they are not to "
            "be taken at their word here."
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


SAID = {
    "AR(1)": "a straight line through the row before",
    "no change": "the row before, unchanged",
    "mean": "the mean of earlier rows",
}


def expected(
    model: KernelStateSpace, function: Callable[[np.ndarray], np.ndarray], X, lengths=None
) -> np.ndarray:
    """E[function(y_t) | y_1, ..., y_{t-1}] of every row, (n, ...)."""
    probabilities = model.filter(X, lengths).probabilities @ model.transmat_
    prior = np.vstack([model.startprob_, probabilities[:-1]])
    prior[[s.start for s in check_sequences(lengths, len(prior))]] = model.startprob_
    return prior @ model.emissions_.expectation(function)


# ---------------------------------------------------------------- rows held out


def parts(lengths: list[int]) -> tuple[list[int], list[int]]:
    """Rows of each sequence to learn from, and those at its end."""
    last = [int(HELD_OUT * n) for n in lengths]
    return [n - k for n, k in zip(lengths, last, strict=True)], [k for k in last if k]


def ends(lengths: list[int]) -> np.ndarray:
    """Whether a row is at the end of its sequence, (n,)."""
    first = parts(lengths)[0]
    return np.concatenate([np.arange(n) >= count for n, count in zip(lengths, first, strict=True)])


def learn(
    settings: Settings, past: pd.DataFrame, lengths: list[int], verbose: Verbose
) -> KernelStateSpace:
    """A model of the first rows; to tune it, their ends are held out in their turn."""
    model = settings.model(verbose)
    if not settings.tune:
        return model.fit(past, lengths)
    held, (before, after) = ends(lengths), parts(lengths)
    tuned = model.set_params(verbose=False).tune(
        past[~held], past[held], before, after, verbose=verbose
    )
    fitted = clone(tuned).fit(past, lengths)
    fitted.tuning_ = tuned.tuning_
    return fitted


def rivals(frame: pd.DataFrame, lengths: list[int], past: np.ndarray) -> dict[str, np.ndarray]:
    """One-step forecasts learned from the rows of `past`; NaN after a row that is not whole."""
    before = frame.groupby(np.repeat(np.arange(len(lengths)), lengths)).shift().to_numpy()
    Y, ones = frame.to_numpy(), np.ones((len(frame), 1))
    inputs = np.hstack([ones, before])
    pairs = past & ~np.isnan(np.hstack([inputs, Y])).any(axis=1)
    slopes = np.linalg.lstsq(inputs[pairs], Y[pairs], rcond=None)[0]
    mean = np.nanmean(Y[past], axis=0)
    return dict(zip(RIVALS, (inputs @ slopes, before, np.broadcast_to(mean, Y.shape)), strict=True))

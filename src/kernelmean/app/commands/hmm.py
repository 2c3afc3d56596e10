"""`kernelmean hmm`: hidden regimes of a series."""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from ...chains.order import MAX_COMPONENTS, METHODS, Order
from ...chains.results import RegimeForecast
from ...core.minimise import SEARCH_ROWS, mean_and_error
from ...core.rows import Rows as Every
from ...display import EmissionDisplay, HistoryDisplay, RegimeDisplay, SpectrumDisplay
from ...display.regimes import state_names
from ...hmm.estimate_order import estimate_order
from ...hmm.kernel_hmm import KernelHMM
from .. import series, words
from ..command import Command, Data, option, typed
from ..errors import noted
from ..report import Fact, Figure, Grid, Numbers, Report, account, analysis
from ..series import COLUMNS, Rows
from ..tables import ROW
from ..words import names, number, percent

SAY = words.Texts("hmm")
QUICK = ("correlations", "threshold", "elbow", "ratio")  # rules that need no fit
RARE = 30  # rows of a state, below which its law is hardly known
FEW = 5  # entries into a state, below which its duration is hardly known


InferenceName = StrEnum("InferenceName", ["kbr", "forward"])


def read_states(text: str) -> int | str:
    """A number of states, or the rule that estimates it."""
    rules = {"auto": "correlations", **dict(zip(METHODS, METHODS, strict=True))}
    return int(text) if text.isdecimal() and int(text) > 0 else rules[text]


@dataclass(frozen=True)
class Settings(series.Settings):
    """What to do."""

    states: Annotated[Any, typed(SAY, "--states", read_states, "NUMBER")] = "correlations"
    inference: Annotated[InferenceName, option(SAY, "--inference")] = InferenceName.kbr
    refine: Annotated[bool, option(series.SAY, "--refine/--no-refine", "--tune/--no-tune")] = True

    say = SAY

    def in_blocks(self, data: Path) -> tuple[Rows, Every]:
        """The last rows of a file, to be asked about, and all of them, to learn from."""
        self.refuse_blocks(self.refine or self.sequence is not None or self.time is not None)
        every = self.blocks(data, {"--columns": self.columns})
        numbers = np.arange(max(0, every.n - SEARCH_ROWS), every.n)
        last = every.take(numbers).set_axis(pd.Index(numbers + 1, name=ROW))
        return Rows(last, [len(last)], []), every

    def model(self, n_components: int) -> KernelHMM:
        """The estimator, not fitted."""
        return KernelHMM(n_components, inference=self.inference.value, **self.how)


class Regimes:
    """A hidden Markov model with its answers about the rows it was learned from.

    Attributes
    ----------
    settings : Settings
    rows : Rows
    order : Order or None
        How the number of states was estimated; None where it was given.
    orders : dict
        What each of the quick rules says.
    model : KernelHMM
    n_states : int
        K.
    n : int
        Rows it was learned from.
    smoothed, filtered : arrays of shape (n, K)
        Probabilities given all of the sequence, and given the rows up to each.
    shares : array of shape (K,)
        Of the rows in each state; of a state that came late less than in the long run.
    path : int array of shape (n,)
        The most probable path.
    log_predictive : array of shape (n,)
        log p(row | rows before).
    ahead : RegimeForecast or None
    caught : list of str
        Numerical trouble on the way.
    """

    def __init__(self, settings: Settings, rows: Rows, every: Every | None = None):
        """Choose the number of states, learn from the rows or from `every`, and ask about them."""
        self.settings, self.rows = settings, rows
        X, lengths, steps = rows.frame, rows.lengths, settings.forecast
        self.n = len(X) if every is None else every.n
        asked = (X, lengths, rows.inputs)
        given = asked if every is None else (every[settings.columns],)
        with noted() as self.caught:
            self.orders = {rule: estimate_order(X, lengths, method=rule) for rule in QUICK}
            self.order = chosen(settings, rows, self.orders)
            number = settings.states if self.order is None else self.order
            self.model = model = settings.model(number).fit(*given)
            self.n_states = model.n_components_
            self.smoothed, self.filtered = model.predict_proba(*asked), model.filter(*asked)
            self.shares = self.smoothed.mean(axis=0)
            self.path = model.decode(X, lengths, inputs=rows.inputs)[1]
            self.log_predictive = model.log_predictive(*asked)
            known = lengths, rows.inputs, rows.inputs_ahead
            self.ahead: Any = model.forecast(X, steps, *known) if steps else None
            if self.n > len(X):
                self.caught.append(SAY("last", some=f"{len(X):,}", n=f"{self.n:,}"))

    @cached_property
    def table(self) -> pd.DataFrame:
        """States and probabilities, one row per observation."""
        columns = {
            "state": self.smoothed.argmax(axis=1),
            "path": self.path,
            **series.numbered("probability", self.smoothed),
            **series.numbered("filtered", self.filtered),
            "log_predictive": np.where(self.rows.whole, self.log_predictive, np.nan),
            "missing": ~self.rows.whole,
        }
        return self.rows.by_row(columns)

    @cached_property
    def forecasts(self) -> pd.DataFrame:
        """States, and mean and interval of each column, at the rows after each sequence."""
        ahead, s = self.ahead, self.settings
        columns = series.numbered("probability", ahead.states)
        columns |= series.by_column(s.columns, series.with_ends(ahead, s.level))
        return self.rows.by_step(columns, s.forecast)

    @property
    def stays(self) -> np.ndarray:
        """Rows that each state lasts on average, 1/(1 − Q_kk)."""
        with np.errstate(divide="ignore"):
            return 1 / (1 - self.model.transmat_.diagonal())

    @cached_property
    def entries(self) -> np.ndarray:
        """How often the most probable path enters each state."""
        begins = np.diff(self.path, prepend=-1) != 0
        begins[[s.start for s in self.rows.slices]] = True
        return np.bincount(self.path[begins], minlength=self.n_states)

    @cached_property
    def gains(self) -> np.ndarray:
        """log p(row | rows before) − log p(row), for the rows that are there."""
        f = self.model.density(self.rows.frame[self.rows.whole]) @ self.model.startprob_
        return (self.log_predictive[self.rows.whole] - np.log(f)).round(12)

    @cached_property
    def notes(self) -> list[str]:
        """What the reader must not overlook in this very series."""
        rows, entries = self.smoothed[self.rows.whole].sum(axis=0), self.entries
        told, error = mean_and_error(self.gains)  # by the past, beyond chance or not
        rare = [f"state {k} ({rows[k]:.0f})" for k in np.flatnonzero(rows < RARE)]
        few = [f"state {k} ({entries[k]})" for k in np.flatnonzero(entries < FEW)]
        found = {
            "many": self.order is not None and self.order >= MAX_COMPONENTS,
            "unfinished": not self.model.converged_,
            "memoryless": not (self.n_states > 1 and told > 2 * error),
            "alone": self.orders["correlations"] == 1 == self.n_states,
            "rare": bool(rare),
            "fleeting": bool(few) and self.n_states > 1,
        }
        said = SAY.those(found, most=MAX_COMPONENTS, rare=names(rare), few=names(few))
        counts = SAY("parts") if self.model.chain_.marginals else SAY("no_parts")
        partial = self.rows.partial(self.settings.columns, count=counts)
        return [*self.caught, *said, *partial]


def chosen(settings: Settings, rows: Rows, orders: dict[str, Order]) -> Order | None:
    """The number of states by the rule asked for; None where the number is given."""
    rule = settings.states
    if isinstance(rule, int):
        return None
    how = {"method": rule, "random_state": settings.seed}
    return orders.get(rule) or estimate_order(rows.frame, rows.lengths, **how)


LONGEST = 10_000  # rows of a sequence drawn
SENTENCES = 4  # on single states
RULES = SAY.content["rules"]  # how each rule counts, for readers


# ---------------------------------------------------------------- words


def headline(a: Regimes) -> str:
    """One sentence for each of the first states, and one on where the file ends."""
    said = [
        SAY("state" if stay <= a.n else "kept", k=k, share=percent(p), stay=number(stay, 2))
        for k, (p, stay) in enumerate(zip(a.shares, a.stays, strict=True))
    ]
    last = a.filtered[-1]
    return " ".join([*said[:SENTENCES], SAY("end", k=last.argmax(), share=percent(last.max()))])


def facts(a: Regimes) -> list[Fact]:
    """What the summary of the model leaves out."""
    told, error = mean_and_error(a.gains)
    values = {
        "Rows": a.rows.amount(),
        "States": f"{a.n_states}",
        "What the past tells": f"{number(told)} ± {number(error, 2)}",
    }
    chosen = "Given." if a.order is None else f"Chosen by {a.order.method}. {RULES[a.order.method]}"
    return SAY.facts(values, missing=int((~a.rows.whole).sum()), chosen=chosen)


# ---------------------------------------------------------------- tables


def states(a: Regimes) -> Grid:
    """How often each state holds, for how long, and what it emits."""
    columns: list[tuple[str, Any]] = [
        ("state", [str(k) for k in range(a.n_states)]),
        ("share of rows", [f"{100 * share:.1f}%" for share in a.shares]),
        ("in the long run", [f"{100 * share:.1f}%" for share in a.model.startprob_]),
        ("rows at a time", [number(s) if s <= a.n else "all" for s in a.stays]),
        ("entered", [f"{count:,}" for count in a.entries]),
    ]
    s, m = a.settings, a.model
    emitted = RegimeForecast(m.chain_, np.eye(a.n_states))
    laws = series.by_column(s.columns, series.with_ends(emitted, s.level))
    columns += series.with_intervals(pd.DataFrame(laws), s.columns[:COLUMNS], s.level)
    return Grid.of(columns, "The states, from the most to the least frequent in the long run")


def chain(a: Regimes) -> Grid:
    """Transition probabilities."""
    rows = _steps("state ", a.model.transmat_)
    return Grid(_header(a), rows, "Where the next row's state is, given this row's")


def at_inputs(a: Regimes) -> list[Grid]:
    """Transition probabilities where each input is low and high."""
    inputs = a.rows.inputs
    if inputs is None or not a.model.slopes_.any():
        return []
    middle, ends = inputs.mean(), inputs.quantile([0.1, 0.9])
    rows = []
    for name in inputs:
        known = pd.concat([middle, middle], axis=1).T.assign(**{name: ends[name].to_numpy()})
        for end, Q in zip(known[name], a.model.transitions(known), strict=True):
            rows += _steps(f"{name} at {number(end)}, state ", Q)
    return [Grid(_header(a), rows, SAY("at_inputs"))]


def _header(a: Regimes) -> list[str]:
    return ["from", *(f"to state {k}" for k in range(a.n_states))]


def _steps(start: str, Q: np.ndarray) -> list[list[str]]:
    return [[f"{start}{k}", *(f"{100 * p:.1f}%" for p in row)] for k, row in enumerate(Q)]


def orders(a: Regimes) -> list[Fact]:
    """What the rules say of the number of states: rule, number, how it counts."""
    found = a.orders if a.order is None else a.orders | {a.order.method: a.order}
    return [(f"By {name}", str(int(order)), RULES[name]) for name, order in found.items()]


def forecast(a: Regimes) -> Grid:
    """Probabilities of the states, and means and intervals of the columns, after the file."""
    more = {f"state {k}": (f"probability_{k}", percent) for k in range(a.n_states)}
    return series.forecast_grid(a.forecasts, a.settings.level, a.settings.columns[:COLUMNS], more)


# ---------------------------------------------------------------- figures


def regimes(a: Regimes) -> list[Figure]:
    """The states over time, for the first sequences."""
    names = list(a.settings.columns) if len(a.settings.columns) <= COLUMNS else []
    caption = SAY("probabilities", above=SAY.content["above"] if names else "The ")

    def plot(panels: Any, i: int, part: slice) -> None:
        seen = a.rows.frame[names].to_numpy()[part]
        drawn = a.rows.axis[part], a.smoothed[part], seen, names, state_names(a.model)
        RegimeDisplay(*drawn, [slice(0, len(seen))]).plot(panels)
        panels[-1].set_xlabel(a.rows.title)

    return series.for_each(a.rows, "states", caption, plot, len(names) + 1, LONGEST)


def emission(a: Regimes, name: str) -> Figure:
    """The density of a column in each state."""
    display = EmissionDisplay.from_estimator(a.model, column=name)
    plot = replace(display, shares=a.shares, observed=a.rows.frame[name].to_numpy()).plot
    return Figure(f"emission-{name}", SAY("emission", name=name), plot)


def spectrum(a: Regimes) -> Figure:
    """What speaks for a number of states."""
    order = a.orders["correlations"] if a.order is None else a.order
    given = f"{a.n_states} was given. " if a.order is None else ""
    caption = f"{given}By {order.method}: {int(order)}. {RULES[order.method]}"
    return Figure("spectrum", caption, SpectrumDisplay.from_order(order).plot, 3.4)


def history(a: Regimes) -> list[Figure]:
    """How EM climbed, where it took more than one step."""
    if len(a.model.history_) < 2:
        return []
    return [Figure("history", SAY("climb"), HistoryDisplay.from_estimator(a.model).plot, 2.8)]


def forecast_figures(a: Regimes) -> list[Figure]:
    """The last rows of the first sequences, then the forecast, above the states."""

    def states(axes: Any, times: np.ndarray, before: slice, after: slice) -> None:
        shares = np.vstack([a.filtered[before], a.ahead.states[after]])
        nothing, one = np.empty((len(times), 0)), [slice(0, len(times))]
        RegimeDisplay(times, shares, nothing, [], state_names(a.model), one).plot(axes)

    caption = SAY("forecast", level=words.level_words(a.settings.level))
    names, known = a.settings.columns[:COLUMNS], {"series": a.rows.frame.to_numpy()}
    return series.forecast_figures(a, a.rows, caption, names, known, below=states)


# ---------------------------------------------------------------- report


def report(a: Regimes, source: str) -> Report:
    """The answer."""
    s = a.settings
    return analysis(
        SAY,
        f"{names(s.columns)}: {a.n_states} hidden state{'s' if a.n_states > 1 else ''}",
        f"Hidden Markov model · {source} · {a.n:,} rows",
        [headline(a)],
        a.notes,
        {
            "The states over time": regimes(a),
            "What each state emits": [*(emission(a, x) for x in s.columns[:COLUMNS]), states(a)],
            "How they follow each other": [chain(a), *at_inputs(a)],
            "What comes next": [] if a.ahead is None else [*forecast_figures(a), forecast(a)],
            "How many states": [spectrum(a), Numbers(orders(a))],
        },
        [*account(SAY, a.model.summary, facts(a)), *history(a)],
        [series.code(SAY, s, source, level=s.level)],
        series.files("states", a),
    )


def run(settings: Settings, data: Data) -> Report:
    """Hidden regimes of a series: their number, laws and order, and what comes next.

    Rows are in the order of time. An empty field is a missing observation.

    Writes states.csv, forecast.csv, model.km and report.html into the folder --out.
    """
    s = settings
    in_blocks = s.chunksize is not None and s.inputs is None
    s.refuse({"--no-refine": s.inputs is not None and not s.refine})
    rows, every = s.in_blocks(data) if in_blocks else (s.read(s.table(data)), None)
    with s.stage("Learning the states and how they follow each other", bars=True):
        a = Regimes(s, rows, every)
    with s.stage("Asking about every row"):
        return report(a, data.name)


COMMAND = Command("hmm", Settings, run)

"""`kernelmean hmm`: hidden regimes of a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, partial
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from ...chains.order import MAX_COMPONENTS, METHODS, Order
from ...chains.results import RegimeForecast
from ...core.progress import Verbose
from ...display import CURVE, PLAIN, EmissionDisplay, HistoryDisplay, RegimeDisplay, SpectrumDisplay
from ...hmm.estimate_order import estimate_order
from ...hmm.kernel_hmm import KernelHMM
from .. import report as blocks
from .. import series, words
from ..command import (
    Command,
    Data,
    Names,
    Refine,
    SequenceColumn,
    Shared,
    Steps,
    TimeColumn,
    columns,
)
from ..errors import UserError, noted
from ..report import Fact, Figure, Grid, Report, Section
from ..series import COLUMNS, DRAWN, Rows
from ..words import names, number, percent

QUICK = ("correlations", "threshold", "elbow", "ratio")  # rules that need no fit
RARE = 30  # rows of a state, below which its law is hardly known
FEW = 5  # entries into a state, below which its duration is hardly known


InferenceName = StrEnum("InferenceName", ["kbr", "forward"])


def read_states(text: str) -> int | str:
    """A number of states, or the rule that estimates it."""
    if text == "auto":
        return "correlations"
    if text in METHODS:
        return text
    if text.isdecimal() and int(text) > 0:
        return int(text)
    rules = ", ".join(METHODS)
    raise UserError(
        f"--states is {text!r}; a number of states is needed, or auto, or one of {rules}"
    )


@dataclass(frozen=True)
class Settings(Shared):
    """What to do."""

    columns: Annotated[Names, columns("--columns", "Column(s) observed")]
    states: Annotated[
        Any,
        typer.Option(
            parser=read_states,
            metavar="NUMBER",
            help="Number of hidden states; auto estimates it, as do the rules correlations (which "
            "is auto), threshold, elbow, ratio, and likelihood (slow).",
        ),
    ] = "correlations"
    sequence: SequenceColumn = None
    time: TimeColumn = None
    forecast: Steps = 0
    inference: Annotated[
        InferenceName, typer.Option(help="Kernel Bayes' rule, or Bayes' rule with densities.")
    ] = InferenceName.kbr
    refine: Refine = True

    def model(self, n_components: int, verbose: Verbose) -> KernelHMM:
        """The estimator, not fitted."""
        return KernelHMM(
            n_components,
            refine=self.refine,
            inference=self.inference.value,
            random_state=self.seed,
            verbose=verbose,
        )


@dataclass(frozen=True)
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
    smoothed, filtered : arrays of shape (n, K)
        Probabilities given all of the sequence, and given the rows up to each.
    path : int array of shape (n,)
        The most probable path.
    log_predictive : array of shape (n,)
        log p(row | rows before).
    ahead : RegimeForecast or None
    caught : list of str
        Numerical trouble on the way.
    """

    settings: Settings
    rows: Rows
    order: Order | None
    orders: dict[str, Order]
    model: KernelHMM
    smoothed: np.ndarray
    filtered: np.ndarray
    path: np.ndarray
    log_predictive: np.ndarray
    ahead: RegimeForecast | None
    caught: list[str]

    @classmethod
    def of(cls, settings: Settings, rows: Rows, verbose: Verbose = False) -> Regimes:
        """Choose the number of states, learn the model, and ask it about the rows."""
        X, lengths, steps = rows.frame, rows.lengths, settings.forecast
        with noted() as said:
            orders = {rule: estimate_order(X, lengths, method=rule) for rule in QUICK}
            order = chosen(settings, rows, orders)
            number = settings.states if order is None else order
            model = settings.model(int(number), verbose).fit(X, lengths)
            answers = (
                model.predict_proba(X, lengths),
                model.filter(X, lengths),
                model.decode(X, lengths)[1],
                model.log_predictive(X, lengths),
                model.forecast(X, steps, lengths) if steps else None,
            )
        return cls(settings, rows, order, orders, model, *answers, said)

    @property
    def n_states(self) -> int:
        """K."""
        return self.model.n_components_

    @cached_property
    def likely(self) -> np.ndarray:
        """The most probable state of each row, (n,)."""
        return self.smoothed.argmax(axis=1)

    @cached_property
    def table(self) -> pd.DataFrame:
        """States and probabilities, one row per observation."""
        words.numbers = range(self.n_states)
        columns = {
            "state": self.likely,
            "path": self.path,
            **{f"probability_{k}": self.smoothed[:, k] for k in words.numbers},
            **{f"filtered_{k}": self.filtered[:, k] for k in words.numbers},
            "log_predictive": np.where(self.rows.whole, self.log_predictive, np.nan),
            "missing": ~self.rows.whole,
        }
        return self.rows.by_row(columns)

    @cached_property
    def forecasts(self) -> pd.DataFrame:
        """States, and mean and interval of each column, at the rows after each sequence."""
        ahead = self.ahead
        assert ahead is not None
        lower, upper = ahead.interval(self.settings.level)
        answers = {"mean": ahead.mean, "lower": lower, "upper": upper}
        columns = {
            **{f"probability_{k}": ahead.states[:, k] for k in range(self.n_states)},
            **series.by_column(self.settings.columns, answers),
        }
        return self.rows.by_step(columns, self.settings.forecast)

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
        begins[[s.start for s in self.rows.slices]] = True
        return np.bincount(self.path[begins], minlength=self.n_states)

    @cached_property
    def gains(self) -> np.ndarray:
        """log p(row | rows before) − log p(row), for the rows that are there."""
        f = self.model.density(self.rows.frame[self.rows.whole]) @ self.model.startprob_
        return self.log_predictive[self.rows.whole] - np.log(f)

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
        partial = self.rows.partial(self.settings.columns)
        return [*self.caught, *(text for text in found if text), *partial]

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
        rows = self.smoothed[self.rows.whole].sum(axis=0)
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


def chosen(settings: Settings, rows: Rows, orders: dict[str, Order]) -> Order | None:
    """The number of states by the rule asked for; None where the number is given."""
    rule = settings.states
    if isinstance(rule, int):
        return None
    if rule in orders:
        return orders[rule]
    return estimate_order(rows.frame, rows.lengths, method=rule, random_state=settings.seed)


LONGEST = 10_000  # rows of a sequence drawn
SENTENCES = 4  # on single states

CAVEATS = (
    "States are what makes the past useful for the future: each is a law of its own that persists, "
    "or has its own successors. They are not causes, and have no name but the one you give them.",
    "Where a state moves continuously, a chain cuts it into steps, and their number is a matter of "
    "how fine one looks.",
    "The chain is taken to follow the same rules from the first row to the last, at equal "
    "intervals of time.",
    "Probabilities and forecasts take the model for the truth: they do not carry the uncertainty "
    "of what was learned, which is large for states that were entered a few times.",
    series.PARTIAL,
)

RULES = {  # how each rule counts, for readers
    "correlations": "Canonical correlations of consecutive rows beyond what chance explains.",
    "threshold": "Singular values of their cross-covariance beyond 0.3 √(log n/n).",
    "elbow": "The point of largest curvature of the singular values.",
    "ratio": "The largest ratio of a singular value to the next.",
    "likelihood": "The fewest states whose log-likelihood of held-out rows is near the largest.",
}


# ---------------------------------------------------------------- words


def count_words(a: Regimes) -> str:
    """'3 hidden states'."""
    return f"{a.n_states} hidden state{'s' if a.n_states > 1 else ''}"


def headline(a: Regimes) -> str:
    """One sentence for each of the first states, and one on where the file ends."""
    said = [
        f"State {k} holds in {percent(share)} of the rows, {number(stay, 2)} at a time on average."
        for k, (share, stay) in enumerate(zip(a.model.startprob_, a.stays, strict=True))
    ]
    last = a.filtered[-1]
    end = f"The file ends in state {last.argmax()} with probability {percent(last.max())}."
    return " ".join([*said[:SENTENCES], end])


def facts(a: Regimes) -> list[Fact]:
    """Every number of the fit: its name, its value, what it means."""
    m, gain = a.model, a.gains.mean()
    error = a.gains.std() / len(a.gains) ** 0.5
    return [
        ("Rows", a.rows.amount(), f"{int((~a.rows.whole).sum()):,} of them missing."),
        ("States", *_count(a)),
        (
            "Kernel",
            words.kernel_words(m.kernel_, a.settings.columns),
            "Embeds the rows. Lengthscales are in the units of the columns.",
        ),
        ("Learned by", *_learning(a)),
        (
            "Bandwidth",
            words.bandwidth_words(m.bandwidth_),
            "Of the densities, in the units of the columns.",
        ),
        ("Inference", *_inference(a)),
        (
            "What the past tells",
            f"{number(gain)} ± {number(error, 2)}",
            "How much more log-likelihood a row has given the rows before it than without them: "
            "the use of knowing the state. In the very rows learned from.",
        ),
    ]


def _count(a: Regimes) -> tuple[str, str]:
    if a.order is None:
        return f"{a.n_states}", "Given."
    return f"{a.n_states}", f"Chosen by {a.order.method}. {RULES[a.order.method]}"


def _learning(a: Regimes) -> tuple[str, str]:
    if not a.settings.refine:
        return "moments", "The spectral method alone, from three consecutive rows at a time."
    end = "settled" if a.model.converged_ else "was stopped"
    return (
        f"EM, iterations: {len(a.model.history_)}",
        f"When it {end}. It starts from the spectral method and at random; the laws of the states "
        "stay embeddings.",
    )


def _inference(a: Regimes) -> tuple[str, str]:
    if a.settings.inference == "forward":
        return "by densities", "Bayes' rule with the densities of the states."
    return (
        f"kernel Bayes' rule, λ = {number(a.model.reg_)}",
        "From the embedded laws of the states, without their densities. A larger λ trusts an "
        "observation less.",
    )


# ---------------------------------------------------------------- tables


def states(a: Regimes) -> Grid:
    """How often each state holds, for how long, and what it emits."""
    columns = [
        ("state", [str(k) for k in range(a.n_states)]),
        ("share of rows", [f"{100 * share:.1f}%" for share in a.model.startprob_]),
        ("rows at a time", [number(stay) for stay in a.stays]),
        ("entered", [f"{count:,}" for count in a.entries]),
    ]
    laws = pd.DataFrame(series.by_column(a.settings.columns, a.laws))
    columns += series.with_intervals(laws, a.settings.columns[:COLUMNS], a.settings.level)
    return Grid.of(columns, "The states, from the most to the least frequent")


def chain(a: Regimes) -> Grid:
    """Transition probabilities."""
    header = ["from", *(f"to state {k}" for k in range(a.n_states))]
    rows = [
        [f"state {k}", *(f"{100 * p:.1f}%" for p in row)] for k, row in enumerate(a.model.transmat_)
    ]
    return Grid(header, rows, "Where the next row's state is, given this row's")


def orders(a: Regimes) -> list[Fact]:
    """What the rules say of the number of states: rule, number, how it counts."""
    found = dict(a.orders)
    if a.order is not None:
        found[a.order.method] = a.order
    return [(f"By {name}", str(int(order)), RULES[name]) for name, order in found.items()]


def forecast(a: Regimes) -> Grid:
    """Probabilities of the states, and means and intervals of the columns, after the file."""

    def shares(k: int, part: pd.DataFrame) -> list[str]:
        return [percent(p) for p in part[f"probability_{k}"]]

    more = [(f"state {k}", partial(shares, k)) for k in range(a.n_states)]
    return series.forecast_grid(a.forecasts, a.settings.level, a.settings.columns, more)


# ---------------------------------------------------------------- figures


def regimes(a: Regimes) -> list[Figure]:
    """The states over time, for the first sequences."""
    whole = RegimeDisplay.from_estimator(
        a.model, a.rows.frame, times=a.rows.axis, lengths=a.rows.lengths
    )
    return [_regimes(a, i, part(whole, s)) for i, s in enumerate(a.rows.slices[:DRAWN])]


def part(display: RegimeDisplay, rows: slice) -> RegimeDisplay:
    """A display of some rows, the last `LONGEST` at most."""
    rows = series.last(rows, LONGEST)
    fields = ("times", "probabilities", "series")
    kept: dict[str, Any] = {name: getattr(display, name)[rows] for name in fields}
    return replace(display, **kept, sequences=[slice(0, rows.stop - rows.start)])


def _regimes(a: Regimes, i: int, display: RegimeDisplay) -> Figure:
    def plot(panels: Sequence[Any]) -> None:
        display.plot(panels)
        panels[-1].set_xlabel(a.settings.time or "row")

    above = "Above: each row in the colour of its most probable state. Below: the "
    caption = (
        f"{a.rows.which(i, LONGEST)}{above if display.names else 'The '}probabilities of the "
        "states, given the whole file."
    )
    return Figure.stacked(f"states-{i}", caption, plot, len(display.names) + 1)


def emission(a: Regimes, name: str) -> Figure:
    """The density of a column in each state."""
    display = EmissionDisplay.from_estimator(a.model, a.rows.frame, column=name)
    caption = (
        f"Density of {name} in each state, with the share of the rows that are in it; dashed: all "
        "states together. The histogram is of the data."
    )
    return Figure(f"emission-{name}", caption, display.plot)


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
    caption = "EM: the mean log-likelihood of a row, each row left out of the laws it is judged by."
    return [Figure("history", caption, HistoryDisplay.from_estimator(a.model).plot, 2.8)]


def forecast_figure(a: Regimes, i: int) -> Figure:
    """What comes after sequence `i`: its last rows, then the forecast."""
    shown, steps = a.settings.columns[:COLUMNS], a.settings.forecast
    after = a.forecasts.iloc[i * steps : (i + 1) * steps]

    def draw(panels: Sequence[Any], before: slice, now: np.ndarray) -> None:
        for axes, name in zip(panels, shown, strict=False):
            seen = a.rows.frame[name].iloc[before]
            axes.plot(now, seen, color=CURVE, lw=1.2, marker=".", label="observed")
            series.band(axes, after, name, after["step"], PLAIN, "forecast")
        _draw_states(panels[-1], a, before, now, after)

    caption = (
        f"Above: mean and central {words.level_words(a.settings.level)} interval of what comes "
        "next. Below: probabilities of the states, given the rows up to then."
    )
    return series.forecast_figure(a.rows, i, shown, draw, caption, more=1)


def _draw_states(axes, a: Regimes, before: slice, now: np.ndarray, after: pd.DataFrame) -> None:
    named = [f"state {k}" for k in range(a.n_states)]
    ahead = after[[f"probability_{k}" for k in range(a.n_states)]].to_numpy()
    times, shares = np.r_[now, after["step"]], np.vstack([a.filtered[before], ahead])
    nothing = np.empty((len(times), 0))
    RegimeDisplay(times, shares, nothing, [], named, [slice(0, len(times))]).plot(axes)
    axes.axvline(0.5, color="white", lw=1.5)


# ---------------------------------------------------------------- report

ABOUT = (
    "A chain that is not seen moves from state to state, and each row is drawn from the law of the "
    "state it finds. States, laws and their order were learned from the rows alone; no family of "
    "distributions is assumed."
)


def report(a: Regimes, source: str) -> Report:
    """The answer."""
    emitted = [emission(a, name) for name in a.settings.columns[:COLUMNS]]
    return Report(
        title=f"{names(a.settings.columns)}: {count_words(a)}",
        subtitle=f"Hidden Markov model · {source} · {len(a.rows.frame):,} rows",
        lead=[blocks.Prose(headline(a)), *blocks.found(a.notes)],
        sections=[
            Section("The states over time", regimes(a)),
            Section("What each state emits", [*emitted, states(a)]),
            Section("How they follow each other", [chain(a)]),
            *_next(a),
            Section("How many states", [spectrum(a), blocks.Numbers(orders(a))]),
            blocks.caveats(CAVEATS),
            blocks.fit_in_numbers(facts(a), *history(a)),
            blocks.using(blocks.Prose(f"{ABOUT} {series.KEPT}"), blocks.Code(_snippet(a, source))),
        ],
        files={
            "states.csv": a.table.to_csv(index_label="row"),
            **({} if a.ahead is None else {"forecast.csv": a.forecasts.to_csv(index=False)}),
            words.MODEL: a.model.save,
        },
    )


def _next(a: Regimes) -> list[Section]:
    if a.ahead is None:
        return []
    drawn = [forecast_figure(a, i) for i in range(min(DRAWN, len(a.rows.lengths)))]
    return [Section("What comes next", [*drawn, forecast(a)])]


def _snippet(a: Regimes, source: str) -> str:
    return words.loading(
        f"rows = {words.reading(source, a.settings.columns)}",
        "model.predict_proba(rows)  # given all rows; filter: given those before",
        f"model.forecast(rows, 5).interval({a.settings.level:g})",
        "",
        "belief = model.start()  # one row at a time",
        "belief.update(rows.iloc[0]).probabilities",
        "belief.predict().mean",
    )


def run(settings: Settings, data: Data) -> Report:
    """Hidden regimes of a series: their number, laws and order, and what comes next.

    Rows are in the order of time. An empty field is a missing observation.

    Writes states.csv, forecast.csv, model.km and report.html into the folder --out.
    """
    s = settings
    rows = series.read_series(s, s.table(data), s.columns, s.sequence, s.time)
    with s.stage("Learning the states and how they follow each other", bars=True):
        a = Regimes.of(s, rows, not s.quiet)
    with s.stage("Asking about every row"):
        return report(a, data.name)


COMMAND = Command("hmm", Settings, run)

"""`kernelmean filter`: hidden states followed through a file of observations."""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from ...core.checks import hushed
from ...display import SpreadDisplay, TrackDisplay
from ...filtering.held_out import warn_if_as_near
from ...filtering.kernel_bayes_filter import KernelBayesFilter
from ...filtering.nodes import NodeMachine
from .. import series, words
from ..command import Command, Names, columns, option
from ..errors import noted
from ..report import Block, Fact, Figure, Grid, Prose, Report, account, analysis
from ..series import APART, Ordered, Rows, by_column, covered, rmse, straight, with_ends
from ..tables import Table, check_sample
from ..words import level_words, names, number, percent

SAY = words.Texts("filter")
TUNED = 1000  # rows of training up to which settings are searched without being asked for
SHORTEST = 10  # rows of a trajectory whose tail can be held out

RuleName = StrEnum("RuleName", ["importance", "squared"])


@dataclass(frozen=True)
class Settings(Ordered):
    """What to do."""

    state: Annotated[Names, columns("--state", "Column(s) to follow")]
    observe: Annotated[Names, columns("--observe", "Column(s) observed")]
    smooth: Annotated[bool, option(SAY, "--smooth")] = False
    rule: Annotated[RuleName | None, option(SAY, "--rule")] = None
    tune: Annotated[bool | None, option(SAY, "--tune/--no-tune")] = None
    densities: Annotated[bool, option(SAY, "--densities")] = False

    say = SAY

    def read(self, train: Table, test: Table) -> tuple[Rows, Rows]:
        """The rows of both files; in `test` values may be missing, and the states too.

        Where `train` has no times its rows are taken in their order.
        """
        wanted = {"--state": self.state, "--observe": self.observe}
        seen = {**wanted, "--state": [name for name in self.state if name in test.frame.columns]}
        time = self.time if self.time in train.frame else None
        train.asked_for({**wanted, **replace(self, time=time).apart})
        test.asked_for({**seen, **self.apart})
        past, now = train.numbers(wanted, self.drop_missing), test.numbers_with_gaps(seen)
        check_sample(past, "rows to learn from")
        of_train = Rows.of(past, train, self.sequence, time)
        return of_train, Rows.of(now, test, self.sequence, self.time)


class Tracks:
    """States followed through the observations of a file.

    Attributes
    ----------
    settings : Settings
    train, test : Rows
    truth : array of shape (n, d), or None
        The states of the test file, NaN where unknown.
    model : KernelBayesFilter
        Fitted.
    filtered : FilterResult
    results : dict
        That and, where it was asked for, the smoothed one, by what they are called.
    answers : dict
        Their means, lower and upper ends, (n, d) each.
    ahead : Forecast or None
    caught : list of str
        Numerical trouble on the way.
    """

    def __init__(self, settings: Settings, train: Rows, test: Rows, model: KernelBayesFilter):
        """Follow the states of `test`."""
        self.settings, self.train, self.test, self.model = settings, train, test, model
        known = test.frame.reindex(columns=settings.state).to_numpy()
        self.truth = None if np.isnan(known).all() else known
        X, steps = test.frame[settings.observe], settings.forecast
        with noted() as self.caught:
            warn_if_as_near(model.held_out_)
            self.filtered = model.filter(X, test.lengths)
        self.results = {"filtered": self.filtered}
        with hushed():
            if settings.smooth:
                self.results["smoothed"] = model.smooth(X, test.lengths)
            self.ahead: Any = model.forecast(X, steps, test.lengths) if steps else None
        self.answers = {name: with_ends(r, settings.level) for name, r in self.results.items()}

    @property
    def by_densities(self) -> bool:
        """Whether they were taken, which choose everything themselves."""
        return isinstance(self.model.machine_, NodeMachine)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Mean and interval of each state, one row per observation."""
        columns: dict[str, np.ndarray] = {}
        for name, answer in self.answers.items():
            suffix = "" if name == "filtered" else "_smoothed"
            columns |= by_column(self.settings.state, answer, suffix)
        flags = {"missing": self.filtered.missing, "collapsed": self.filtered.collapsed}
        return self.test.by_row({**columns, **flags})

    @cached_property
    def forecasts(self) -> pd.DataFrame:
        """Mean and interval of each state and observation at the steps after each trajectory."""
        ahead, s = self.ahead, self.settings
        columns = by_column(s.state, with_ends(ahead, s.level))
        columns |= by_column(s.observe, with_ends(ahead.observations, s.level))
        return self.test.by_step(columns, s.forecast)

    @cached_property
    def errors(self) -> pd.DataFrame | None:
        """Root mean squared errors and coverage of each state known in the test file."""
        if self.truth is None:
            return None
        truth, found = self.truth, self.answers
        rows = {name: rmse(answer["mean"], truth) for name, answer in found.items()}
        rows |= {"line": rmse(self._line(), truth), "mean": rmse(self._average(), truth)}
        for name, answer in found.items():
            rows[f"{name} inside"] = covered(answer["lower"], answer["upper"], truth)
        return pd.DataFrame(rows, index=self.settings.state).dropna()

    def _average(self) -> np.ndarray:
        return self.train.frame[self.settings.state].mean().to_numpy()

    def _line(self) -> np.ndarray:
        """Straight lines from each observation alone; the average where that brings no news."""
        s = self.settings
        X, Z = (self.train.frame[names].to_numpy() for names in (s.observe, s.state))
        found = straight(X, Z, self.test.frame[s.observe].to_numpy())
        silent = np.isnan(found).any(axis=1) | self.filtered.collapsed
        return np.where(silent[:, None], self._average(), found)


def learn(settings: Settings, train: Rows) -> KernelBayesFilter:
    """The filter, with its settings searched for where that is asked for or quick."""
    X, Z = train.frame[settings.observe], train.frame[settings.state]
    search, rule = to_tune(settings, train), settings.rule or RuleName.importance
    asked = "densities" if settings.densities else "kbr" if settings.rule else None
    model = KernelBayesFilter(rule.value, inference=asked)
    with hushed():  # what is wrong with the rows will be seen there
        if search:
            return model.tune(X, Z, train.lengths, verbose=settings.told)
        return model.fit(X, Z, train.lengths)


def to_tune(settings: Settings, train: Rows) -> bool:
    """Whether to search for settings: as asked, or where it is quick."""
    of_the_rule = bool(settings.tune or settings.rule)
    longest, told = max(train.lengths), settings.densities
    short = longest < SHORTEST
    clashes = {"--densities": of_the_rule and told, "--tune": bool(settings.tune and short)}
    settings.refuse(clashes, longest=longest, needed=SHORTEST)
    if settings.tune is None:
        return len(train.frame) <= TUNED and not short and not told
    return settings.tune


LONGEST = 400  # rows of a sequence drawn
OUTSIDE = 0.05  # share of rows outside the range of training that is worth a word


# ---------------------------------------------------------------- words


def facts(a: Tracks) -> list[Fact]:
    """What the summary of the model leaves out."""
    tried = getattr(a.model, "tuning_", ())
    values = {
        "Rows to learn from": a.train.amount("trajectories"),
        "Rows followed": a.test.amount("trajectories"),
        "Settings": f"best of {len(tried):,}" if tried else "defaults",
    }
    left = max(0.0, min((row["error"] for row in tried), default=0.0))
    how = "tuned" if tried else "densities" if a.by_densities else "untuned"
    searched = SAY(how, left=percent(left))
    missing, collapsed = (int(v.sum()) for v in (a.filtered.missing, a.filtered.collapsed))
    return SAY.facts(values, missing=missing, collapsed=collapsed, searched=searched)


def notes(a: Tracks) -> list[str]:
    """What the reader must not overlook in these very files."""
    nothing = a.filtered.missing.all()
    gaps = [SAY("nothing")] if nothing else a.test.partial(a.settings.observe, "observed columns")
    past, now = (rows.frame[a.settings.observe] for rows in (a.train, a.test))
    outside = ((now < past.min()) | (now > past.max())).mean()
    far = [f"{k} {percent(share)}" for k, share in outside[outside > OUTSIDE].items()]
    strangers = [SAY("strangers", listed=", ".join(far))] if far else []
    seen = a.settings.state + a.settings.observe
    same = a.test.frame.reindex(columns=seen).equals(a.train.frame[seen])
    return [
        *a.caught,
        *([SAY("same")] if same else []),
        *words.some_of(a.train.frame, a.train.frame),
        *a.train.said,
        *gaps,
        *strangers,
        *_errors_notes(a),
        *words.edges(a.train.frame[a.settings.state], a.table),
    ]


def _errors_notes(a: Tracks) -> list[str]:
    """Where straight lines do as well, and where intervals do not hold."""
    if a.errors is None:
        return []
    out, level = [], a.settings.level
    better = [str(n) for n, row in a.errors.iterrows() if row["line"] < 0.98 * row["filtered"]]
    if better:
        settled = a.by_densities or hasattr(a.model, "tuning_")
        advice = "" if settled else " Try `--tune`."
        out.append(SAY("rivals", better=names(better), advice=advice))
    for name, share in a.errors["filtered inside"].items():
        if abs(share - level) > APART:
            word, said = "narrow" if share < level else "wide", percent(share)
            out.append(SAY("coverage", level=level_words(level), name=name, share=said, word=word))
    return out


# ---------------------------------------------------------------- tables


def errors(a: Tracks) -> list[Block]:
    """Errors of each state where the test file knows it, beside two rivals."""
    table, level = a.errors, level_words(a.settings.level)
    if table is None or a.truth is None:
        return []
    titles = {name: name for name in a.results}
    titles |= {"line": "straight line", "mean": "average of training"}
    columns = [("RMSE of", list(table.index))]
    columns += [(title, [*map(number, table[name])]) for name, title in titles.items()]
    columns += [(f"{n} in {level}", [*map(percent, table[f"{n} inside"])]) for n in a.results]
    known = int((~np.isnan(a.truth)).any(axis=1).sum())
    grid = Grid.of(columns, "Errors where the state is known")
    return [grid, Prose(SAY("errors", known=known, level=level))]


def answers(a: Tracks) -> Grid:
    """Means and intervals at the last rows, or at the last row of each trajectory."""
    if len(a.test.lengths) == 1:
        part = a.table.tail(words.SHOWN)
        where = f"the last {words.amount(part)}"
    else:
        ends = [s.stop - 1 for s in a.test.slices[: words.SHOWN]]
        part, where = a.table.iloc[ends], "the last row of each trajectory"
    columns: list = [("row", [str(i) for i in part.index])]
    named = part.columns[: len([*filter(None, a.test.labels)])]
    columns += [(str(name), list(part[name].astype(str))) for name in named]
    for name in a.settings.state:
        columns += series.with_intervals(part, [name], a.settings.level)
        if a.settings.smooth:
            (_, smoothed), _ = series.with_intervals(part, [f"{name}_smoothed"], a.settings.level)
            columns += [(f"{name}, smoothed", smoothed)]
    flags = ["missing", "collapsed"]
    if part[flags].any(axis=None):
        columns += [("", np.select([part[flag] for flag in flags], flags, ""))]
    return Grid.of(columns, f"Where the states are: {where}")


def forecast(a: Tracks) -> Grid:
    """Means and intervals of states and observations, after the file."""
    names = [*a.settings.state, *a.settings.observe]
    return series.forecast_grid(a.forecasts, a.settings.level, names)


# ---------------------------------------------------------------- figures


def figures(a: Tracks) -> list[Figure]:
    """The track and its spread, for the first trajectories."""
    level, rows = a.settings.level, a.test
    name = "smoothed" if a.settings.smooth else "filtered"
    known = "" if a.truth is None else ", and the state itself where it is known"
    caption = SAY("track", what=name, level=level_words(level), known=known)

    def plot(panels: Any, i: int, part: slice) -> None:
        shared: dict[str, Any] = {"level": level, "times": rows.axis[part]}
        drawn = {which: result[part] for which, result in a.results.items()}
        truth = None if a.truth is None else a.truth[part]
        track = TrackDisplay.from_result(drawn[name], truth, **shared)
        track.plot(panels[:-1], label=f"{name} mean")
        for line, (which, result) in zip(("-", "--"), drawn.items(), strict=False):
            label = which if len(drawn) > 1 else None
            SpreadDisplay.from_result(result, **shared).plot(panels[-1], label=label, ls=line)
        panels[-2].set_xlabel("")
        panels[-1].set(xlabel=rows.title, ylabel="relative width")
        if rows.times is None:
            panels[-1].xaxis.get_major_locator().set_params(integer=True)

    return series.for_each(rows, "track", caption, plot, len(a.settings.state) + 1, LONGEST)


def forecast_figures(a: Tracks) -> list[Figure]:
    """The last rows of the first trajectories, then the forecast."""
    caption, known = SAY("forecast", level=level_words(a.settings.level)), a.answers["filtered"]
    return series.forecast_figures(a, a.test, caption, a.settings.state, known, label="filtered")


# ---------------------------------------------------------------- report


def headline(a: Tracks) -> str:
    """Where the file ends, and how far off the track was where that is known."""
    row = a.table.iloc[-1]
    said = []
    for name in a.settings.state:
        mean, low, high = words.numbers([row[f"{name}_{end}"] for end in series.ENDS])
        said.append(f"{name} is {mean} ({low} to {high})")
    return SAY("headline", said=names(said), level=level_words(a.settings.level))


def report(a: Tracks, source: str) -> Report:
    """The answer."""
    s = a.settings
    one = f"[{', '.join('...' for _ in s.observe)}]"
    return analysis(
        SAY,
        f"{names(s.state)}, followed through {names(s.observe)}",
        f"Kernel Bayes filter · {source} · {words.amount(a.test.frame)}",
        [headline(a)],
        notes(a),
        {
            "The track": [*figures(a), answers(a)],
            "How far from the truth": errors(a),
            "What comes next": [] if a.ahead is None else [*forecast_figures(a), forecast(a)],
        },
        account(SAY, a.model.summary, facts(a)),
        [SAY.code("code", rows=words.some_rows(s.observe), level=s.level, one=one)],
        series.files("track", a),
    )


Train = Annotated[Path, typer.Argument(help=SAY("options", "TRAIN"), show_default=False)]
Test = Annotated[Path, typer.Argument(help=SAY("options", "TEST"), show_default=False)]


def run(settings: Settings, train: Train, test: Test) -> Report:
    """Follow hidden states through observations, learned from examples in order of time.

    An empty field in TEST is a missing observation.

    Errors are shown where TEST has the states too.

    Writes track.csv, forecast.csv, model.km and report.html into the folder --out.
    """
    past, now = settings.read(settings.table(train), settings.table(test))
    with settings.stage("Learning how the states move and are seen", bars=True):
        model = learn(settings, past)
    with settings.stage("Following the states"):
        return report(Tracks(settings, past, now, model), test.name)


COMMAND = Command("filter", Settings, run)

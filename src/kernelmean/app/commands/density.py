"""`kernelmean density`: the distribution of some columns given others."""

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from ...core.checks import hushed
from ...densities.conditional_density import ConditionalDensity
from ...display import ConditionalDensityDisplay, DensityContourDisplay, DensityMapDisplay
from ...display.base import medians
from ...regression.bandwidth import silverman
from .. import words
from ..command import GAUSSIAN, Command, Data, KernelName, Names, Shared, columns, option, typed
from ..errors import UserError, noted
from ..report import Block, Fact, Figure, Grid, Numbers, Report, account, analysis
from ..series import by_column
from ..tables import answered, check_sample, split_names
from ..words import names, number, percent

DRAWN = 7  # rows in a picture
PANELS = 6  # of contours
COLUMNS = 4  # of x in a table; more would not fit on a line
MAPS = 6  # pictures along single columns
SAY = words.Texts("density")
VARIED = 3  # columns of x that representative rows vary, at most
FEW = 6  # different values of a column, up to which each is looked at
SPIKES = 0.1  # of Silverman's bandwidth: below, a density is spikes
BELOW = 0.01  # of the mass below zero, from which it is said
ENDS = "mean", "median", "lower", "upper", "shortest_lower", "shortest_upper", "mode"
ONE, SEVERAL = (0.1, 0.25, 0.5, 0.75, 0.9), (0.1, 0.9)  # quantiles of representative rows


def read_bandwidth(text: str) -> float | tuple[float, ...]:
    """'0.5' or '0.5,2' as a number or numbers."""
    widths = tuple(float(part) for part in split_names(text, "--bandwidth"))
    if not all(0 < w < np.inf for w in widths):
        raise ValueError
    return widths[0] if len(widths) == 1 else widths


@dataclass(frozen=True)
class Settings(Shared):
    """Columns, and how the model is fitted."""

    y: Annotated[Names, columns("--y", "Column(s) to describe")]
    x: Annotated[Names, columns("--x", "Column(s) known")]
    kernel: Annotated[KernelName, option(SAY, "--kernel")] = GAUSSIAN
    bandwidth: Annotated[Any, typed(SAY, "--bandwidth", read_bandwidth)] = None
    tune: Annotated[bool | None, option(SAY, "--tune/--no-tune")] = None
    say = SAY

    def model(self) -> ConditionalDensity:
        """The estimator, not fitted."""
        search = "auto" if self.tune is None else self.tune
        how: dict[str, Any] = {"tune_lengthscale": search, "verbose": self.told}
        return ConditionalDensity(self.kernel.value, self.bandwidth, **how)


def middle(rows: pd.DataFrame) -> int:
    """The row to speak of first: that of the medians, or else the first."""
    labels = list(rows.index)
    return labels.index("50%") if "50%" in labels else 0


def representative(x: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Quantiles of a single column; of several, the medians, and one of them high or low.

    Rows by what they are called, and, for pictures, the same at length.
    """
    if x.shape[1] == 1:
        moves = {f"{100 * q:g}%": {x.columns[0]: q} for q in ONE}
    else:
        some = [(name, q) for name in x.columns[:VARIED] for q in SEVERAL]
        moves = {"medians": {}} | {f"{c} at {100 * q:g}%": {c: q} for c, q in some}
    held = dict(zip(x.columns, medians(x.to_numpy()), strict=True))
    quantile = partial(np.quantile, method="inverted_cdf")
    rows = {
        label: held | {c: float(quantile(x[c], q)) for c, q in at.items()}
        for label, at in moves.items()
    }
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame = words.distinct(frame, "50%")
    labels = [words.values_words(frame.loc[label, list(moves[label])]) for label in frame.index]
    return frame, [text or "medians" for text in labels]


class Densities:
    """A conditional density with its answers.

    Attributes
    ----------
    data : DataFrame
        The rows it is learned from; of those read in blocks, some.
    every : DataFrame or Rows
        The rows it is learned from, all of them.
    settings : Settings
    x, y : list of str
        Columns known, and described.
    level : str
        Of the intervals, in words.
    rows : DataFrame
        Where it is asked, by what each row is called.
    labels : list of str
        What rows chosen here are called in pictures; empty where they were given.
    model : ConditionalDensity
    table : DataFrame
        The answers at these rows, as from `at`.
    own : DataFrame
        How good the intervals are at the rows of `data`.
    shown : DataFrame
        The rows in pictures: copies once, where the model counts them once.
    target : DataFrame or Series
        What the model was fitted to, of the rows shown.
    caught : list of str
        Numerical trouble on the way.
    """

    def __init__(
        self, data: pd.DataFrame, settings: Settings, at: pd.DataFrame | None = None, every=None
    ):
        """Learn from the rows of `data`, or all; ask at those of `at`, or representative ones."""
        check_sample(data)
        self.data, self.every, self.settings = data, data if every is None else every, settings
        self.x, self.y, self.level = settings.x, settings.y, words.level_words(settings.level)
        with noted() as self.caught:
            self.model = settings.model().fit(self.every[self.x], target(self.every, self.y))
            chosen = representative(data[self.x]) if at is None else (at[self.x], [])
            self.rows, self.labels = chosen
            self.table = self.at(self.rows)
            self.own = self._inside()
        once = data.drop_duplicates([*self.x, *self.y])
        self.shown = once if len(once) == len(self.model.points_x_) else data
        self.target = target(self.shown, self.y)

    def at(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Values of x, and mean, median, intervals and mode of each y, one row per question."""
        X = rows[self.x]
        answers = {"mean": self.model.predict(X), "median": self.model.predict_quantile(X, 0.5)}
        for start, kind in {"": "central", "shortest_": "shortest"}.items():
            lower, upper = self.model.predict_interval(X, self.settings.level, kind)
            answers |= {f"{start}lower": lower, f"{start}upper": upper}
        if len(self.y) == 1:  # of several columns together a mode says little about each
            answers["mode"] = self.model.mode(X)
        columns = by_column(self.y, answers)
        return X.assign(**columns, extrapolated=self.model.fit_.outside(X.to_numpy()))

    def _inside(self) -> pd.DataFrame:
        """For each y: the share of the rows learned from inside their interval, and its width.

        That is the median over the rows, by the width of the interval of all rows together.
        """
        y, level = self.data[self.y], self.settings.level
        ends = self.model.predict_interval(self.data[self.x], level)
        lower, upper = (np.reshape(end, y.shape) for end in ends)
        low, high = y.quantile((1 - level) / 2), y.quantile((1 + level) / 2)
        width = np.median(upper - lower, axis=0) / (high - low).where(high > low)
        return pd.DataFrame({"inside": ((lower <= y) & (y <= upper)).mean(), "width": width})

    @cached_property
    def notes(self) -> list[str]:
        """What the reader must not overlook in this very data set."""
        said = words.some_of(self.data, self.every)
        return [*said, *words.of_file(self.caught, self.rows.index), *self._spiky(), *self._cut()]

    @property
    def piled(self) -> str:
        """What becomes of values that repeat."""
        if (atoms := self.model.atoms_) is None:
            return SAY("smooth")
        return SAY("atoms", names=names([self.y[j] for j in np.unique(atoms.columns)]))

    def _spiky(self) -> list[str]:
        out, n = [], len(self.data)
        rules = silverman(self.model.fit_.own_points("the report"))
        for name, width, rule in zip(self.y, self.model.bandwidth_, rules, strict=True):
            distinct = self.data[name].nunique()
            if width < SPIKES * rule and distinct < 0.9 * n:
                out.append(SAY("spiky", name=name, distinct=distinct, n=n, width=width, rule=rule))
        return out

    def _cut(self) -> list[str]:
        """Columns that stop at zero, where densities do not."""
        below, out = np.full((1, len(self.y)), np.nextafter(0.0, -1.0)), []
        with hushed():
            F = self.model.cdf(below, self.rows, paired=False).reshape(-1, len(self.y))
        for name, most in zip(self.y, F.max(axis=0), strict=True):
            least = self.data[name].min()
            if least >= 0 and most > BELOW:
                remedy = " " + SAY("remedy", name=name) if least > 0 else ""
                out.append(SAY("cut", name=name, most=percent(most), remedy=remedy))
        return out


def target(data: Any, y: list[str]) -> Any:
    """One column, or several."""
    return data[y[0]] if len(y) == 1 else data[y]


# ---------------------------------------------------------------- words


def headline(a: Densities, name: str) -> str:
    """One sentence: where a column lies at the first row, and what knowing x has brought."""
    row, share = a.table.iloc[middle(a.rows)], a.own.loc[name, "width"]
    ends = {"middle": "median", "low": "lower", "high": "upper"}
    texts = words.numbers([row[f"{name}_{end}"] for end in ends.values()])
    told = ""
    if not np.isnan(share):
        told = " " + SAY("told" if share < 1 else "untold", x=names(a.x), share=percent(share))
    known = {"where": _where(a), "name": name, "level": a.level, "told": told}
    return SAY("headline", **known, **dict(zip(ends, texts, strict=True)))


def _where(a: Densities) -> str:
    if not a.labels:
        return f"In row {a.rows.index[0]}"
    if len(a.x) > 1:
        return f"With {names(a.x)} at their medians"
    return f"With {a.x[0]} at {number(a.rows.iloc[middle(a.rows), 0])}"


def intervals(a: Densities) -> list[Fact]:
    """How good the intervals are, and how much narrower than without x."""
    rows: list[Fact] = []
    for name, inside, share in a.own.itertuples():
        width = "unknown" if np.isnan(share) else percent(share)
        rows += [(f"Rows inside their {a.level} interval, {name}", percent(inside), SAY("inside"))]
        rows += [(f"Width of the intervals, {name}", width, SAY("width", name=name))]
    return rows


def answers(a: Densities, name: str) -> Grid:
    """Mean, median and intervals of one column at the first rows."""
    part = a.table.iloc[: words.SHOWN]
    ends = ENDS if len(a.y) == 1 else ENDS[:-1]
    c = words.cells(part[[f"{name}_{end}" for end in ends]])
    shown = a.x if len(a.x) <= COLUMNS else []
    grid: list[tuple[str, Any]] = [("Row", [str(label) for label in part.index])]
    grid += [(x, [*map(words.given, part[x])]) for x in shown]
    grid += [("Mean", c[:, 0]), ("Median", c[:, 1])]
    grid += [(f"{a.level} interval", [f"{r[2]} to {r[3]}" for r in c])]
    grid += [("Shortest", [f"{r[4]} to {r[5]}" for r in c])]
    grid += [("Mode", c[:, 6])] if len(a.y) == 1 else []
    return Grid.of(grid, f"{name} given {names(a.x)}{words.first_of(a.table)}")


# ---------------------------------------------------------------- figures


def _labels(a: Densities, rows: pd.DataFrame) -> list[str] | None:
    if a.labels:
        return a.labels[: len(rows)]
    return [f"row {label}" for label in rows.index] if len(a.x) > 2 else None


def _rest(a: Densities) -> str:
    """What the labels of representative rows leave out."""
    return " " + SAY("rest") if a.labels and len(a.x) > 1 else ""


def ridges(
    a: Densities, name: str, rows: pd.DataFrame, labels: Any, file: str, held: str
) -> Figure:
    """The density of one column at some rows."""
    display = ConditionalDensityDisplay.from_estimator(
        a.model, rows, a.target, output=a.y.index(name), level=a.settings.level, labels=labels
    )
    caption = SAY("ridges", name=name, level=a.level, held=held)
    return Figure(file, caption, display.plot, height=1.0 + 0.62 * len(rows))


def along(a: Densities, column: str, name: str) -> Figure:
    """The density of one outcome as one column moves: a map, or ridges where it has few values."""
    values, file = np.unique(a.data[column]), f"along-{column}-{name}"
    display = DensityMapDisplay.from_estimator(
        a.model, a.shown[a.x], a.target, column=column, output=a.y.index(name)
    )
    others = words.values_words(display.held)
    held = " " + SAY("held", others=others) if others else ""
    if len(values) <= FEW:
        rows = pd.DataFrame({**display.held, column: values})[a.x]
        return ridges(a, name, rows, None, file, held)
    return Figure(file, SAY("map", name=name, column=column, held=held), display.plot)


def contours(a: Densities, pair: tuple[str, str]) -> Figure:
    """The density of two outcomes together at the first rows."""
    rows = a.rows.iloc[:PANELS]
    display = DensityContourDisplay.from_estimator(
        a.model, rows, a.target, outputs=pair, labels=_labels(a, rows)
    )
    across = min(len(rows), 3)
    down = -(-len(rows) // across)
    height, width = 0.4 + 2.4 * down, 6.8 if across > 1 else 4.4
    caption = SAY("contours", first=pair[0], second=pair[1], rest=_rest(a))
    name = f"contours-{pair[0]}-{pair[1]}"
    return Figure(name, caption, display.plot, height, width, (down, across), "xy")


# ---------------------------------------------------------------- report


def report(a: Densities, source: str, asked: Any = None) -> Report:
    """The answer; `asked` are rows that are read in blocks, to be answered about."""
    shown: list[Block] = []
    first = a.rows.iloc[:DRAWN]
    with hushed():
        for name in a.y:
            at_rows = ridges(a, name, first, _labels(a, first), f"density-{name}", _rest(a))
            shown += [at_rows, answers(a, name)]
        shown += [contours(a, pair) for pair in list(combinations(a.y, 2))[:3]]
        pairs = [(column, name) for name in a.y for column in a.x][:MAPS]
        moved = [along(a, column, name) for column, name in pairs]
    return analysis(
        SAY,
        f"{names(a.y)} given {names(a.x)}",
        f"Conditional density · {source} · {words.amount(a.every)}",
        [headline(a, name) for name in a.y],
        a.notes,
        {"The densities": [*shown, Numbers(intervals(a))], "Along each column": moved},
        account(SAY, a.model.summary),
        [SAY.code("code", rows=words.some_rows(a.x), level=a.settings.level), fitting(a, source)],
        {**answered("density", asked, a.at, a.table), words.MODEL: a.model.save},
        SAY.all("caveats", piled=a.piled),
    )


def fitting(a: Densities, source: str) -> str:
    """What to type to fit and draw the same."""
    model = a.settings.model().set_params(verbose=False)
    data = f"data[{a.x!r}], data[{a.y[0] if len(a.y) == 1 else a.y!r}]"
    rows = words.reading(source, [*a.y, *a.x], a.settings.sep, a.settings.decimal)
    known = {"rows": rows, "model": model, "data": data, "column": repr(a.x[0])}
    return SAY.content["fitting"].strip().format_map(known)


At = Annotated[Path | None, option(SAY, "--at")]


def run(settings: Settings, data: Data, at: At = None) -> Report:
    """The whole distribution of Y given X: densities, quantiles and intervals.

    Writes density.csv, model.km and report.html into the folder --out.
    """
    s, known = settings, {"--x": settings.x}
    taken = {"extrapolated", *(f"{y}_{end}" for y in s.y for end in ENDS)}
    if both := [name for name in s.x if name in taken]:
        raise UserError(SAY("taken", name=both[0]))
    frame, every = s.numbers(data, {"--y": s.y, **known})
    rows, asked = (None, None) if at is None else s.numbers(at, known, first=True)
    with s.stage("Learning the distribution", bars=True):
        a = Densities(frame, s, rows, every)
    with s.stage("Asking it"):
        return report(a, data.name, asked)


COMMAND = Command("density", Settings, run)

"""Rows in the order of time: sequences, tables of answers about them, and what is said of both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd

from .. import display
from ..core.sequences import check_sequences
from ..display.base import fan, times_ahead
from . import tables, words
from .command import Names, Shared, columns, option
from .dates import form_of, read_dates, written
from .errors import UserError
from .report import Figure, Grid

FEW = 50  # rows below which it is said that there are few
DRAWN = 3  # sequences drawn
COLUMNS = 4  # drawn, or in a table
ABSENT, LONG = 0.1, 1.5  # share of steps of time, up to which those of so many usual ones are told
APART = 0.1  # distance between coverage and level that is worth a word
BEFORE, AFTER = 40, 400  # rows drawn before a forecast, and of it

ENDS = ("mean", "lower", "upper")

SAY = words.Texts("series")


@dataclass(frozen=True)
class Rows:
    """Rows of a file in the order of time.

    Attributes
    ----------
    frame : DataFrame
        Numbers only, indexed by the row of the file.
    lengths : list of int
        Rows of each sequence.
    names : list of str
        What each sequence is called; empty where the file is not divided.
    times : array of numbers or dates, or None
    labels : tuple of (str or None, str or None)
        The columns that tell sequences apart, and that name the rows.
    inputs : DataFrame, optional
        What is known of every row beforehand.
    inputs_ahead : DataFrame, optional
        The same of the rows to come, of which nothing else is known.
    later : array of numbers or dates, optional
        Their times.
    said : list of str
        What to say of the rows: of a column that seems to be the time, and goes back, or stands
        still, of rows left out, and of sequences that end there.
    form : str or None
        How dates are written in the file, and so in tables.
    """

    frame: pd.DataFrame
    lengths: list[int]
    names: list[str]
    times: np.ndarray | None = None
    labels: tuple[str | None, str | None] = (None, None)
    inputs: pd.DataFrame | None = None
    inputs_ahead: pd.DataFrame | None = None
    later: np.ndarray | None = None
    said: list[str] = field(default_factory=list)
    form: str | None = None

    @classmethod
    def of(
        cls, frame: pd.DataFrame, table: tables.Table, sequence: str | None, time: str | None = None
    ) -> Self:
        """`frame` in sequences: a new one where `sequence` changes, or a row was left out."""
        begins = np.diff(frame.index.to_numpy(), prepend=-1) != 1
        names = []
        if sequence is not None:
            label = table.frame[sequence].loc[frame.index]
            begins |= _changes(label, table, sequence)
            names = [str(v) for v in label[begins]]
        rows = cls(frame, np.diff(np.flatnonzero(begins), append=len(begins)).tolist(), names)
        if time is None:
            return replace(rows, labels=(sequence, None), said=_backwards(table, rows))
        times = read_times(table, time, rows)
        form = form_of(table.frame[time].loc[frame.index], times)
        rows = replace(rows, times=times, form=form, labels=(sequence, time))
        doubled = _doubled(table.frame[time].loc[frame.index], times, rows.slices)
        return replace(rows, said=[*doubled, *_stops(rows)])

    def knowing(self, inputs: pd.DataFrame, steps: int) -> Self:
        """With the inputs of every row; those to come stand after each sequence, without more."""
        inputs = inputs.loc[self.frame.index]
        if not steps:
            return replace(self, inputs=inputs)
        gone = self.frame.isna().all(axis=1).to_numpy()
        stops = [s.stop - int(np.argmin(np.append(gone[s][::-1], False))) for s in self.slices]
        least = min(s.stop - stop for s, stop in zip(self.slices, stops, strict=True))
        if least < steps:
            raise UserError(SAY("ahead", steps=steps, found=least))
        starts = [s.start for s in self.slices]
        past = np.concatenate([*map(np.arange, starts, stops)])
        ahead = np.concatenate([np.arange(stop, stop + steps) for stop in stops])
        known: dict[str, Any] = {"inputs": inputs.iloc[past], "inputs_ahead": inputs.iloc[ahead]}
        if self.times is not None:
            known |= {"times": self.times[past], "later": self.times[ahead]}
        lengths = np.subtract(stops, starts).tolist()
        return replace(self, frame=self.frame.iloc[past], lengths=lengths, **known)

    def after(self, i: int, steps: int) -> np.ndarray:
        """Times, or numbers, of the rows after a sequence."""
        if self.later is None:
            return times_ahead(self.axis[self.slices[i]], steps)
        return np.split(self.later, len(self.lengths))[i][:steps]

    @property
    def slices(self) -> list[slice]:
        """The rows of each sequence."""
        return check_sequences(self.lengths, len(self.frame))

    @property
    def whole(self) -> np.ndarray:
        """Rows with all columns, (n,)."""
        return self.frame.notna().all(axis=1).to_numpy()

    @property
    def title(self) -> str:
        """What the horizontal axis is called."""
        return self.labels[1] or "row"

    @property
    def axis(self) -> np.ndarray:
        """What is on the horizontal axis: times, or numbers of rows."""
        return self.frame.index.to_numpy() if self.times is None else self.times

    def amount(self, what: str = "sequences") -> str:
        """'200', or '200 in 3 sequences'."""
        n, count = len(self.frame), len(self.lengths)
        return f"{n:,}" if count == 1 else f"{n:,} in {count:,} {what}"

    def which(self, i: int, longest: int | None = None) -> str:
        """'site a. The last 300 rows. ', at the head of a caption."""
        named = f"{self.labels[0]} {self.names[i]}. " if self.labels[0] else ""
        cut = longest is not None and self.lengths[i] > longest
        return named + (f"The last {longest:,} rows. " if cut else "")

    def by_row(self, columns: Mapping[str, np.ndarray]) -> pd.DataFrame:
        """A table of answers about every row, with its time and the name of its sequence."""
        return self._named(pd.DataFrame(columns, index=self.frame.index), self.times, self.lengths)

    def by_step(self, columns: Mapping[str, np.ndarray], steps: int) -> pd.DataFrame:
        """A table of answers about the rows after each sequence, with the times these will have."""
        count, times = len(self.lengths), self.times
        frame = pd.DataFrame({"step": np.tile(np.arange(1, steps + 1), count), **columns})
        if times is not None:
            times = np.concatenate([self.after(i, steps) for i in range(count)])
        return self._named(frame, times, [steps] * count)

    def _named(self, frame: pd.DataFrame, times: Any, lengths: list[int]) -> pd.DataFrame:
        sequence, time = self.labels
        if times is not None:
            times = times if self.form is None else written(times, self.form)
            frame.insert(0, tables.free_name(str(time), frame), times)
        if sequence is not None:
            frame.insert(0, sequence, np.repeat(self.names, lengths))
        return frame

    def partial(
        self, columns: Sequence[str], what: str = "columns", count: str = "they count as missing"
    ) -> list[str]:
        """What to say of rows that have some of the columns."""
        gone = self.frame[list(columns)].isna()
        some = int((gone.any(axis=1) & ~gone.all(axis=1)).sum())
        if not some or gone.any(axis=1).all():
            return self.said
        return [*self.said, SAY("some", some=some, n=len(gone), what=what, count=count)]


# ---------------------------------------------------------------- the file


@dataclass(frozen=True, kw_only=True)
class Ordered(Shared):
    """The options of commands on rows in the order of time."""

    sequence: Annotated[str | None, option(SAY, "--sequence")] = None
    time: Annotated[str | None, option(SAY, "--time")] = None
    forecast: Annotated[int, option(SAY, "--forecast", "--horizon", min=0, max=100_000)] = 0

    @property
    def apart(self) -> dict[str, list[str]]:
        """The columns that tell sequences apart, and that name the rows."""
        given = {"--sequence": self.sequence, "--time": self.time}
        return {name: [column] for name, column in given.items() if column is not None}


@dataclass(frozen=True)
class Settings(Ordered):
    """The options of commands that learn from a series alone."""

    columns: Annotated[Names, columns("--columns", "Column(s) observed")]
    inputs: Annotated[Names | None, columns("--inputs", SAY("options", "inputs"))] = None
    refine: Annotated[bool, option(SAY, "--refine/--no-refine")] = True

    @property
    def how(self) -> dict[str, Any]:
        """What estimators of chains are told alike."""
        return {"refine": self.refine, "random_state": self.seed, "verbose": self.told}

    def changed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """What is learned from, made of the columns."""
        return frame

    def read(self, table: tables.Table) -> Rows:
        """The rows of a file; an empty field is a missing value."""
        table.asked_for({"--columns": self.columns, **self.apart})
        frame = table.numbers_with_gaps({"--columns": self.columns})
        tables.refuse_empty(frame)
        frame = self.changed(frame)
        frame = frame.dropna() if self.drop_missing else frame
        if self.inputs is None:
            rows = Rows.of(frame, table, self.sequence, self.time)
        else:
            table.asked_for({"--columns": self.columns, "--inputs": self.inputs})
            if self.drop_missing and self.forecast:
                raise UserError(SAY("to_come"))
            inputs = table.numbers({"--inputs": self.inputs}, self.drop_missing)
            frame = frame[frame.index.isin(inputs.index)]
            rows = Rows.of(frame, table, self.sequence, self.time).knowing(inputs, self.forecast)
        frame.attrs[words.LEFT_OUT] = len(table.frame) - len(frame)
        n = rows.whole.sum()
        tables.check_sample(frame, "rows without gaps", n)
        few = [SAY("few", n=n)] if n < FEW else []
        pieces = len(rows.lengths)
        cut = [SAY("cut", pieces=pieces)] if pieces > max(len({*rows.names}), 1) else []
        return replace(rows, said=[*rows.said, *words.some_of(frame, frame), *cut, *few])


def _changes(label: pd.Series, table: tables.Table, sequence: str) -> np.ndarray:
    """Whether another sequence begins at each row; its rows must be together."""
    if label.isna().any():
        row = label.index[label.isna()][0]
        raise UserError(SAY("unnamed", name=sequence, path=table.path, row=row))
    begins = (label != label.shift()).to_numpy()
    firsts = label[begins]
    again = firsts[firsts.duplicated()]
    if len(again):
        known = {"value": again.iloc[0], "row": again.index[0]}
        raise UserError(SAY("apart", name=sequence, path=table.path, **known))
    return begins


def read_times(table: tables.Table, name: str, rows: Rows) -> np.ndarray:
    """Numbers or dates, which must not go back within a sequence."""
    column = read_dates(table.frame[name].loc[rows.frame.index])
    asked = f"column {name!r} of {table.path} (asked for by --time)"
    if column.isna().any():
        row = column.index[column.isna()][0]
        value = table.frame[name][row]
        raise UserError(f"{asked} is {str(value)!r} in row {row}; a number or a date is needed")
    back = [row for s in rows.slices for row in _above(column.iloc[s])]
    if back:
        several = "" if rows.names else "; of several series, say by --sequence which is which"
        raise UserError(f"{asked} goes back in row {back[0]}; sort the file by time{several}")
    times = column.to_numpy()
    whole = times.dtype.kind == "f" and np.array_equal(times, np.round(times))
    return times.astype(int) if whole else times  # years of a column that had gaps, say


def _above(times: pd.Series, how: Callable = np.less) -> list[Any]:
    """The rows that are before the one above them, or the same."""
    return list(times.index[1:][how(times.to_numpy()[1:], times.to_numpy()[:-1])])


def _doubled(written: pd.Series, times: Any, slices: list[slice]) -> list[str]:
    """What to say where a few rows have the time of the row above."""
    times = pd.Series(times, written.index)
    again = [row for s in slices for row in _above(times.iloc[s], np.equal)]
    if not 0 < 2 * len(again) < len(times):
        return []
    known = {"row": again[0], "value": written[again[0]], "count": len(again)}
    return [SAY("doubled", name=written.name, **known)]


def _stops(rows: Rows) -> list[str]:
    """What to say of times that most rows share with the one above: no forecast has a date then.

    Or where time goes on by more than a step in a few places: rows are absent there. In many, as
    over weekends, that is its way; and a month may have 28 days or 31.
    """
    steps = np.concatenate([np.diff(rows.axis[s]).astype(float) for s in rows.slices])
    if len(steps) <= 2 * (steps == 0).sum():
        return [SAY("still", name=rows.title)] if len(steps) else []
    before = np.concatenate([rows.frame.index[s][:-1] for s in rows.slices])
    gone = steps > LONG * np.median(steps)
    if not 0 < gone.sum() <= ABSENT * len(gone):
        return []
    return [SAY("absent", name=rows.title, row=int(before[gone][0]), count=int(gone.sum()))]


def _backwards(table: tables.Table, rows: Rows) -> list[str]:
    """What to say where nobody named the time, and a column of dates, or one called so, goes back.

    Of rows that are in another order no forecast means anything; the newest first are refused.
    """
    whole = rows.slices if rows.names else [slice(0, len(rows.frame))]
    for name, every in table.frame.items():
        column = every.loc[rows.frame.index]
        if pd.api.types.is_numeric_dtype(column):
            looks = str(name).lower() in ("time", "date", "year")
        else:
            looks = column.astype(str).str.match(tables.DATE).all()
        if not looks or name in rows.frame:
            continue
        times = read_dates(column)
        back = [_above(times.iloc[s]) for s in whole]
        if all(len(b) == s.stop - s.start - 1 > 0 for b, s in zip(back, whole, strict=True)):
            known = {"first": column.iloc[0], "last": column.iloc[-1]}
            rows_of = {"row": column.index[0], "end": column.index[-1]}
            raise UserError(SAY("newest", name=name, path=table.path, **known, **rows_of))
        if any(back):
            first = next(filter(None, back))[0]
            return [SAY("back", name=name, path=table.path, row=first)]
        if doubled := _doubled(column, times, whole):
            return doubled
    return []


# ---------------------------------------------------------------- answers


def by_column(
    names: Sequence[str], answers: Mapping[str, np.ndarray], suffix: str = ""
) -> dict[str, np.ndarray]:
    """Columns a_mean, a_lower, ... for each name, from arrays of shape (n, len(names))."""
    return {
        f"{name}{suffix}_{what}": np.reshape(values, (len(values), -1))[:, j]
        for j, name in enumerate(names)
        for what, values in answers.items()
    }


def numbered(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Columns name_0, name_1, ... of an array (n, k)."""
    return {f"{name}_{k}": column for k, column in enumerate(values.T)}


def with_ends(law: Any, level: float) -> dict[str, np.ndarray]:
    """Mean and interval of a law."""
    lower, upper = law.interval(level)
    return {"mean": law.mean(), "lower": lower, "upper": upper}


def straight(inputs: np.ndarray, targets: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Straight lines by least squares, with an intercept, at other inputs."""
    middle, level = inputs.mean(axis=0), targets.mean(axis=0)
    slopes = np.linalg.lstsq(inputs - middle, targets - level, rcond=None)[0]
    return level + (at - middle) @ slopes


def covered(lower: np.ndarray, upper: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Share of what is known of each column that is in its interval."""
    return average(np.where(np.isnan(truth), np.nan, (lower <= truth) & (truth <= upper)))


def rmse(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Root mean squared error of each column over the rows where the truth is known."""
    return np.sqrt(average((found - truth) ** 2))


def average(values: np.ndarray) -> np.ndarray:
    """Mean of each column over what is known; NaN where nothing is."""
    return pd.DataFrame(values).mean().to_numpy()


def counts(frame: pd.DataFrame) -> np.ndarray:
    """Columns of whole numbers, none of them below 0."""
    return (frame.isna() | (frame >= 0) & (frame % 1 == 0)).all().to_numpy()


def with_intervals(
    table: pd.DataFrame, names: Sequence[str], level: float
) -> list[tuple[str, Sequence[str]]]:
    """Columns of a grid: mean and interval of each name."""
    out: list[tuple[str, Sequence[str]]] = []
    for name in names:
        mean, lower, upper = words.cells(table[[f"{name}_{end}" for end in ENDS]]).T
        ends = [f"{low} to {high}" for low, high in zip(lower, upper, strict=True)]
        out += [(name, list(mean)), (f"{words.level_words(level)} interval", ends)]
    return out


def forecast_grid(
    table: pd.DataFrame, level: float, names: Sequence[str], more: Mapping[str, tuple] = {}
) -> Grid:
    """What comes after the file: the step, columns of `more` by title, and means with intervals."""
    part = table.head(words.SHOWN)
    front = list(table.columns[: list(table.columns).index("step") + 1])
    texts = part[front].astype(str).fillna("")
    columns: list[tuple[str, Any]] = [(name, list(texts[name])) for name in front]
    columns += [(title, [*map(form, part[name])]) for title, (name, form) in more.items()]
    columns += with_intervals(part, names, level)
    last = "each sequence" if (table["step"] == 1).sum() > 1 else "the file"
    return Grid.of(columns, f"After the end of {last}{words.first_of(table)}")


def forecast_figures(
    a: Any,
    rows: Rows,
    caption: str,
    names: Sequence[str],
    known: Mapping[str, np.ndarray],
    *,
    file: str = "forecast",
    longest: int = BEFORE,
    label: str = "",
    least: Any = -np.inf,
    below: Callable[..., Any] | None = None,
) -> list[Figure]:
    """What comes after the first sequences, with their last rows; `below` draws one panel more.

    Parameters
    ----------
    a : the answers
    rows : Rows
    caption : str
    names : sequence of str
        Of the first columns of the law, which are drawn.
    known : mapping
        Of `series`, `mean`, `lower` and `upper` what there is, (n, d) each.
    file : str
    longest : int
        Rows of a sequence, at most.
    label : str
        Of the means.
    least : array of shape (d,), optional
        Below which nothing is drawn of what comes next.
    below : callable, optional
        Takes axes, times, and which rows are before and which answers after.
    """
    s, k = a.settings, len(names)
    steps = min(s.forecast, AFTER)
    more = f" The first {AFTER} rows of {s.forecast:,}." if s.forecast > AFTER else ""
    unknown = np.full((len(rows.frame), k), np.nan)
    past = [known.get(name, unknown)[:, :k] for name in ("series", *ENDS)]
    ends = np.empty((5, 0, k))
    if a.ahead is not None:
        ends = np.maximum(fan(a.ahead, s.level), least)[..., :k]

    def plot(panels: Any, i: int, part: slice) -> None:
        after = slice(i * s.forecast, i * s.forecast + steps)
        times = rows.axis[part]
        later = rows.after(i, steps)
        seen, one = [values[part] for values in past], [slice(0, len(times))]
        shown = display.ForecastDisplay(times, *seen, later, ends[:, after], [*names], s.level, one)
        shown.plot(panels[:k], label=label)
        if below is not None:
            below(panels[k], np.r_[times, later], part, after)
        panels[k - 1].set_xlabel("")
        panels[-1].set_xlabel(rows.title)

    count = k + (below is not None)
    return for_each(rows, file, f"{caption}{more}", plot, count, longest, each=2.1)


def for_each(
    rows: Rows, file: str, caption: str, plot: Callable, count: int, longest: int, each=1.9
) -> list[Figure]:
    """A figure of each of the first sequences, of its last rows: `plot(panels, i=…, part=…)`."""

    def figure(i: int, rest: slice) -> Figure:
        part = slice(max(rest.start, rest.stop - longest), rest.stop)
        text = f"{rows.which(i, longest)}{caption}"
        one, height = partial(plot, i=i, part=part), 1.0 + each * count
        return Figure(f"{file}-{i}", text, one, height, shape=(count, 1), shared="x")

    return [figure(i, rest) for i, rest in enumerate(rows.slices[:DRAWN])]


def code(say: words.Texts, s: Settings, source: str, changed: str = "", **known: Any) -> str:
    """What to type to ask more; `changed` are lines after those that read the columns."""
    read = partial(words.reading, source, sep=s.sep, decimal=s.decimal)
    rows, inputs = read(s.columns) + changed, read(s.inputs or [])
    key, of, last = "code" if s.inputs is None else "code_inputs", "", "inputs.tail(5)"
    if s.sequence is not None:
        rows += f"\nwhich = {read(s.sequence)}"
        rows += "\nlengths = which.groupby(which, sort=False).size()"
        of, last = ", lengths", "inputs.groupby(which, sort=False).tail(5)"
    return say.code(key, rows=rows, inputs=inputs, of=of, last=last, **known)


def files(name: str, a: Any) -> dict[str, Any]:
    """NAME.csv, what comes next, and the model."""
    ahead = None if a.ahead is None else tables.to_csv(a.forecasts, rows=False)
    return {f"{name}.csv": tables.to_csv(a.table), "forecast.csv": ahead, words.MODEL: a.model.save}

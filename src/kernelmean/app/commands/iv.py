"""`kernelmean iv`: the effect of X on Y by way of instruments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score

from ...core import Interval, Rows
from ...core.moments import block_rows, evenly, how_often, row_blocks
from ...display import CURVE, DATA, DRAWN, StructuralCurveDisplay
from ...instruments import inference
from ...instruments.columns import CATEGORY, Roles, check_repeated
from ...instruments.formula import Design, names_of, read_formula
from ...instruments.groups import kind_of
from ...instruments.kernel_iv import KernelIV
from ...kernels import Linear
from ...regression.conditional import ConditionalEmbedding
from .. import tables, words
from ..command import Command, Data, KernelName, Names, Shared, columns, option, typed
from ..errors import UserError, noted
from ..report import Block, Fact, Figure, Grid, Numbers, Prose, Report, account, analysis
from ..words import level_words, names, number, p_words, signed

SAY = words.Texts("iv")
LEVELS = (0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95)
FEW = 10  # different values of the instruments
DRAWN_ALONG = 4  # pictures of an effect
MEASURED = 10_000  # rows that a picture of the first stage is of, at most
PREDICTION, PLAIN = "prediction", "plain_ridge"  # columns of predictions.csv
TRENDS = {"auto": "auto", "none": None, **{str(k): k for k in range(11)}}  # by what is typed
LOW, HIGH = "prediction_lower", "prediction_upper"


def read_split(text: str) -> str | float | int:
    """`--split`: loo, samples, a share in (0, 1) or a number of folds."""
    if text in ("loo", "samples"):
        return text
    value = int(text) if text.isdecimal() else float(text)
    if not (value >= 2 if isinstance(value, int) else 0.05 <= value <= 0.95):
        raise ValueError
    return value


def read_kernel(text: str) -> str | dict[str, str]:
    """`--kernel`: a name, or column=form by commas, where "*" stands for all other columns."""
    if text in KernelName.__members__:
        return text
    pairs = dict(part.rpartition("=")[::2] for part in tables.split_names(text, "--kernel"))
    if "" in pairs or not {*pairs.values()} <= {*KernelName, CATEGORY}:
        raise ValueError
    return pairs


@dataclass(frozen=True)
class Settings(Shared):
    """Which columns play which part, and how the model is fitted."""

    y: Annotated[Names | None, columns("--y", "Outcome")] = None
    x: Annotated[Names | None, columns("--x", "Endogenous column(s)")] = None
    z: Annotated[Names | None, columns("--z", "Instrument(s)")] = None
    c: Annotated[Names | None, columns("--c", "Exogenous column(s)")] = None
    formula: Annotated[str | None, option(SAY, "--formula")] = None
    clusters: Annotated[Names | None, columns("--clusters", "Labels of rows sharing noise")] = None
    kernel: Annotated[Any, typed(SAY, "--kernel", read_kernel, "KERNEL")] = "gaussian"
    split: Annotated[Any, typed(SAY, "--split", read_split, "SPLIT")] = "loo"
    trend: Annotated[Any, typed(SAY, "--trend", TRENDS.__getitem__, "DEGREE")] = "auto"
    tune: Annotated[bool | None, option(SAY, "--tune/--no-tune")] = None
    say = SAY

    @property
    def searched(self) -> bool:
        """Whether lengthscales are searched."""
        return kind_of(self.split) != "share" if self.tune is None else self.tune

    def model(self) -> KernelIV:
        """The estimator, not fitted; without an intercept only where none is asked for."""
        trend = 0 if kind_of(self.split) == "share" and self.trend == "auto" else self.trend
        kernel_z = "auto" if isinstance(self.kernel, dict) else self.kernel
        tune = "auto" if self.tune is None else self.tune
        how = {"split": self.split, "random_state": self.seed}
        return KernelIV(self.kernel, kernel_z, trend=trend, tune_lengthscale=tune, **how)

    def columns(self) -> Roles:
        """The columns of the options."""
        given = {"--y": self.y, "--x": self.x, "--z": self.z}
        for name, asked in given.items():
            if not asked:
                raise UserError(f"Missing option '{name}'.")
        y, x, z = (tuple(asked or ()) for asked in given.values())
        if len(y) > 1:
            raise UserError(SAY("outcomes", found=", ".join(y)))
        return Roles(y[0], x, z, tuple(self.c or ()), "xzc")

    def rows(self, data: Path) -> Used:
        """The rows of a file that are used."""
        whole = self.formula is not None or self.clusters is not None
        self.refuse_blocks(self.split != "loo" or whole)
        if self.chunksize is not None:
            columns = self.columns()
            return Used(*self.numbers(data, by_option(columns, "yxzc")), columns)
        table = self.table(data)
        used = self.used(table)
        if self.clusters is None:
            return used
        labels = table.asked_for({"--clusters": self.clusters})
        if len(labels) > 1:
            raise UserError(SAY("labels", found=", ".join(labels)))
        return replace(used, clusters=table.frame.loc[used.frame.index, labels[0]])

    def used(self, table: tables.Table) -> Used:
        """The rows of a table that are used."""
        gaps = self.split == "samples"  # in outcomes, or in regressors
        formula = self.spelled(table)
        if formula is not None:
            return Used.by_formula(table, formula, gaps, self.drop_missing)
        columns = self.columns()
        frame = table.numbers_with_gaps(by_option(columns, "yxzc"))
        tables.refuse_empty(frame)
        whole = columns.instruments if gaps else None
        frame = tables.complete(frame, table.path, self.drop_missing, whole)
        return Used(frame, frame, columns)

    def spelled(self, table: tables.Table) -> str | None:
        """The formula, or that of the columns where some that are to be categories hold text."""
        if self.formula is not None:
            given = [o for o in ("y", "x", "z", "c") if getattr(self, o) is not None]
            if given:
                options = " and ".join(f"--{o}" for o in given)
                raise UserError(f"--formula stands in place of {options}; give one of them")
            return self.formula
        columns = self.columns()
        forms = self.kernel if isinstance(self.kernel, dict) else {}
        terms, texts = {}, 0
        for name in table.asked_for(by_option(columns, "yxzc")):
            column, plain = table.frame[name], name.isidentifier() and not iskeyword(name)
            terms[name] = name if plain else f"`{name}`"
            if forms.get(name) == CATEGORY and not pd.api.types.is_numeric_dtype(column):
                check_repeated(name, column.nunique(), len(column))
                terms[name], texts = f"C({terms[name]})", texts + 1
        x, z, c = (" + ".join(map(terms.__getitem__, s)) for s in (columns.x, columns.z, columns.c))
        return f"{terms[columns.y]} ~ {c or 1} + [{x} ~ {z}]" if texts else None

    def asked_of(self, used: Used, at: Path | None) -> Any:
        """The rows to predict for: those of a file, or those used, as they stand in theirs."""
        if at is None:
            return used.all if used.source is None else used.source
        if used.design is None:
            return self.numbers(at, by_option(used.columns, "xc"), first=True)[1]
        table = self.table(at)
        option = "--x and --c" if self.formula is None else "--formula"
        rows = table.frame[table.asked_for({option: used.needed})]
        return tables.complete(rows, at, self.drop_missing)


def by_option(columns: Roles, sides: str) -> dict[str, list[str]]:
    """The columns behind some options of the command line."""
    every = {"y": [columns.y], "x": columns.x, "z": columns.z, "c": columns.c}
    return {f"--{side}": list(every[side]) for side in sides}


@dataclass(frozen=True)
class Used:
    """The rows used, as columns of numbers.

    Attributes
    ----------
    frame : DataFrame
        With `split="samples"` the outcome, or the regressors, may be missing.
    all : DataFrame or Rows
        What is learned from: the frame, or the rows of a file read in blocks, which has some.
    columns : Roles
        The part that each column plays.
    design : Design or None
        How a formula makes the columns; None where they are those of the file.
    source : DataFrame, optional
        The rows used, in the columns of the file that a formula is about.
    clusters : Series, optional
        Labels of the rows used.
    """

    frame: pd.DataFrame
    all: Any
    columns: Roles
    design: Design | None = None
    source: pd.DataFrame | None = None
    clusters: pd.Series | None = None

    @classmethod
    def by_formula(cls, table: tables.Table, formula: str, gaps: bool, drop_missing: bool) -> Used:
        """Columns that a formula makes."""
        names = names_of(formula)
        used = table.frame[table.asked_for({"--formula": names["all"]})]
        tables.refuse_empty(used)
        whole = names["instruments"] if gaps else None
        used = tables.complete(used, table.path, drop_missing, whole)
        design, y, X, Z, C = read_formula(formula, used, gaps=gaps)
        frame = pd.concat([y, X, Z, C], axis=1)  # which leaves out what is None
        frame.attrs |= used.attrs
        columns = Roles(str(y.name), tuple(X), tuple(Z), () if C is None else tuple(C), "xzc")
        return cls(frame, frame, columns, design, used.loc[frame.index])

    @property
    def needed(self) -> list[str]:
        """The columns of a file to predict for."""
        if self.design is None:
            return self.columns.regressors
        return names_of(self.design.formula)["regressors"]

    def regressors(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The columns h is a function of, made from rows of a file."""
        if self.design is None:
            return rows[self.columns.regressors]
        return pd.concat(self.design.regressors(rows), axis=1)  # without C where that is None


class Analysis:
    """A fitted structural function with everything the summary and the page say about it.

    Attributes
    ----------
    data : Used
    frame : DataFrame
        The rows used.
    known : DataFrame
        Those of them that have the endogenous columns.
    whole : DataFrame
        Those of them that have all columns.
    medians : Series
        Of the regressors, among their own values: an indicator stays 0 or 1.
    columns : Roles
        The part that each column plays.
    settings : Settings
    level : float
        Of bands and limits.
    model : KernelIV
    plain : array of shape (width,), or None
        Coefficients of kernel ridge regression in the same coordinates; None where no row has both
        regressors and outcome.
    notes : list of str
        Numerical trouble on the way.
    """

    def __init__(self, data: Used, settings: Settings):
        """Fit both stages, and plain kernel ridge for comparison."""
        tables.check_sample(data.frame, "complete rows")
        self.data, self.frame, self.columns = data, data.frame, data.columns
        self.settings, self.level = settings, settings.level
        self.known = self.frame.dropna(subset=list(self.columns.x))
        self.medians = self.frame[self.columns.regressors].quantile(0.5, interpolation="lower")
        y, X, Z, C = parts(data.all, self.columns)
        with noted() as self.notes:
            self.model = settings.model().fit(X, y, Z, C, data.clusters)
        self.model.design_ = data.design
        self.plain, self.whole = None, self.frame.dropna()
        if len(self.whole) >= tables.SMALLEST:
            seen, y = self.whole[self.columns.regressors].to_numpy(), self.whole[self.columns.y]
            self.plain = inference.ridge_coefficients(self.model.basis_x_, seen, y.to_numpy())

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
        about = model.coef_, model.band_covariance_, self.level, simultaneous
        limits = inference.confidence_limits(rows, *about)
        h = {PREDICTION: rows @ model.coef_, LOW: limits.lower, HIGH: limits.upper}
        plain = {} if self.plain is None else {PLAIN: rows @ self.plain}
        return pd.DataFrame(h | plain)

    def predictions(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows of a file, with the predictions beside them."""
        X = self.data.regressors(rows)
        known = X.dropna()
        if isinstance(self.settings.kernel, dict):
            self.model.basis_x_.polynomial.check(known.to_numpy(), self.columns.regressors)
        outside = pd.Series(self.model.fit_.outside(known.to_numpy()), known.index)
        found = self.predict(X).assign(extrapolated=outside.reindex(X.index, fill_value=False))
        return rows.join(found.rename(columns=lambda name: tables.free_name(name, rows)))

    def partial(self, column: str, values: Any) -> pd.DataFrame:
        """Both functions along one column, the others at their medians; the band holds at once."""
        rows = pd.DataFrame([self.medians] * len(values), index=pd.Index(values, name=column))
        rows = rows.assign(**{column: rows.index})
        return self._evaluate(rows.to_numpy(), simultaneous=True).set_axis(rows.index)

    def ends(self, column: str) -> tuple[float, float] | None:
        """The two values of a column that has no more."""
        values = np.unique(self.frame[column].dropna())
        return (float(values[0]), float(values[1])) if len(values) == 2 else None

    def effect(
        self, column: str, ends: tuple[float, float], along: str, values: np.ndarray
    ) -> Interval:
        """What a column does from end to end, along another; the limits hold at once."""
        rows = pd.DataFrame([self.medians] * len(values)).assign(**{along: values})
        m = self.model
        low, high = (m.basis_x_.transform(rows.assign(**{column: e}).to_numpy()) for e in ends)
        about = m.coef_, m.contrast_covariance_, self.level, True
        return inference.confidence_limits(high - low, *about)

    def display(self, column: str) -> StructuralCurveDisplay:
        """The curve between the 2.5% and 97.5% quantiles of the column, in the units of y."""
        how = {"column": column, "level": self.level}
        return StructuralCurveDisplay.from_estimator(self.model, **how)

    def grid(self, column: str) -> np.ndarray:
        """Where a column is drawn."""
        low, high = self.frame[column].quantile([0.025, 0.975])
        return np.linspace(low, high, 200)

    # ------------------------------------------------------------ tests and effects

    @cached_property
    def effects(self) -> dict[str, inference.Estimate]:
        """The average derivative in each endogenous column, where the kernel has one."""
        slope = partial(self.model.average_derivative, level=self.level)
        try:
            found = {x: slope(column=x) for x in self.columns.x}
            return {x: e for x, e in found.items() if np.isfinite(e.value)}  # categories have none
        except ValueError:  # Laplace's has none
            return {}

    @cached_property
    def strength(self) -> inference.Strength:
        """How far the instruments move the endogenous columns, in the model's first stage."""
        return self.model.first_stage()

    @cached_property
    def endogeneity(self) -> inference.Endogeneity | None:
        """Whether regression would have done; None without rows to regress on."""
        return None if self.plain is None else self.model.endogeneity_test()

    def first_stage(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """An endogenous column x, and E[x | Z, C] by kernel ridge regression, at some rows."""
        some = self.known.iloc[evenly(len(self.known), MEASURED)]
        x, inputs = some[column].to_numpy(), some[self.columns.instruments].to_numpy()
        return x, ConditionalEmbedding("gaussian", Linear()).fit(inputs, x).predict(inputs)


def parts(frame: Any, columns: Roles) -> tuple[Any, Any, Any, Any]:
    """y, X, Z, C (None where there are no exogenous columns)."""
    X, Z, C = (frame[list(side)] if side else None for side in (columns.x, columns.z, columns.c))
    return frame[columns.y], X, Z, C


# ---------------------------------------------------------------- words


def facts(a: Analysis) -> list[Fact]:
    """What the summary of the model leaves out."""
    if a.plain is None:
        return []
    y, fits = a.whole[a.columns.y], a.predict(a.whole)
    names = {"R² of the structural curve": PREDICTION, "R² of plain kernel ridge": PLAIN}
    return SAY.facts({name: number(r2_score(y, fits[column])) for name, column in names.items()})


def strength(a: Analysis) -> list[Fact]:
    """What the first stage says about each endogenous column."""
    rows: list[Fact] = []
    s: Any = a.strength
    told = zip(a.columns.x, s.partial_r2, s.linear, s.f, s.df, strict=True)
    what = "what the exogenous columns leave of its variance" if a.columns.c else "its variance"
    together = "" if a.data.clusters is None else " and noise that goes together in clusters"
    for x, r2, f, curved, df in told:
        said = {"df": number(df, 2), "weak": inference.WEAK, "f": number(curved)}
        counted = SAY("first_f", together=together, **said)
        rows += [(f"First-stage R² of {x}", number(r2), SAY("first_r2", what=what))]
        rows += [(f"First-stage F of {x}", number(f), counted)]
    return rows


def tests(a: Analysis) -> list[Fact]:
    """What the data say about the assumptions, test by test."""
    p, values, differ = a.model.specification_p_, {}, ""
    if a.endogeneity is not None:
        values["Would regression have done? p-value"] = p_words(a.endogeneity.p_value)
        differ = SAY("differ" if a.endogeneity.p_value < 0.05 else "same")
    if np.isfinite(p):
        values["Do the instruments contradict the curve? p-value"] = p_words(p)
    contradict = "This is the case here." if p < 0.05 else "There is no sign of it."
    return SAY.facts(values, differ=differ, contradict=contradict)


def effects(a: Analysis) -> list[Grid]:
    """Average derivatives with their limits; none for a kernel without derivatives."""
    if not a.effects:
        return []
    rows = [
        (x, *words.numbers([e.value, e.error, e.low, e.high]), p_words(e.p_value))
        for x, e in a.effects.items()
    ]
    start = f"{level_words(a.level)} from"
    header = ["Column", "Average slope", "Standard error", start, "to", "p-value"]
    caption = f"How {a.columns.y} moves with each column, on average over the rows"
    return [Grid(header, rows, caption)]


def warnings_of(a: Analysis) -> list[str]:
    """What the reader must not overlook in this very data set."""
    p, support = a.model.specification_p_, len(a.frame[list(a.columns.z)].drop_duplicates())
    weak = [x for x, f in zip(a.columns.x, a.strength.larger, strict=True) if f < inference.WEAK]
    y = [a.columns.y]
    each = how_often(a.whole.drop(columns=y), a.whole[y]) if len(a.whole) else None
    # not alike by chance, and not of a table copied as a whole, of which the fit takes one
    copies = a.frame.duplicated().sum() if each is not None and np.ptp(each) else 0
    found = {
        "weak": bool(weak),
        "fewer": len(a.columns.z) < len(a.columns.x),
        "contradicted": p < 0.05,
        "few": support <= FEW,
        "alone_twice": a.plain is None,
        "copies": copies > 0,
    }
    known = {
        "columns": names(weak),
        "endogenous": names(a.columns.x),
        "weak": inference.WEAK,
        "p": p_words(p),
        "support": support,
        "copies": copies,
        "n": len(a.frame),
    }
    return [*words.some_of(a.frame, a.data.all), *a.notes, *SAY.those(found, **known)]


def caveats(a: Analysis) -> list[str]:
    """What holds for every analysis of this kind."""
    divided = kind_of(a.settings.split) in ("share", "folds")
    return SAY.all("caveats", level=level_words(a.level)) + [SAY("divided")] * divided


def headline(a: Analysis, column: str) -> str:
    """One sentence: what moving the column does, by each method."""
    low, high = a.frame[column].quantile([0.1, 0.9])
    ends = a.partial(column, [low, high])
    change = ends.iloc[1] - ends.iloc[0]
    average, e = "", a.effects.get(column)
    if e is not None:
        limits = {"value": signed(e.value), "low": signed(e.low), "high": signed(e.high)}
        average = " " + SAY("average", level=level_words(a.level), **limits)
    if (along := a.model.fit_.differs_along) and column in a.columns.x:
        average += " " + SAY("differs", along=names(along))
    others = "" if len(a.columns.regressors) == 1 else SAY("others")
    plain = "" if a.plain is None else SAY("plain", change=signed(change[PLAIN]))
    moved = {"x": column, "low": words.given(low), "high": words.given(high)}
    curve = {"y": a.columns.y, "change": signed(change[PREDICTION])}
    return SAY("headline", others=others, plain=plain, average=average, **moved, **curve)


def _design(a: Analysis) -> str:
    c = a.columns
    held = " " + SAY("held", c=names(c.c, code=True)) if c.c else ""
    if (labels := a.data.clusters) is not None:
        told = {"labels": names([str(labels.name)], code=True), "n": labels.nunique()}
        held += " " + SAY("clustered", **told)
    x, z = names(c.x, code=True), names(c.z, code=True)
    return SAY("design", x=x, y=c.y, z=z, are="s are" if len(c.z) > 1 else " is", held=held)


# ---------------------------------------------------------------- figures


def curve_figure(a: Analysis, column: str) -> Figure:
    """The structural curve along one column, against plain kernel ridge and the data."""
    display = a.display(column)
    seen = "" if display.plain is None else SAY("seen")
    known = {"x": column, "y": a.columns.y, "level": level_words(a.level)}
    fit, own, straight = a.model.fit_, len(a.columns.x), ""
    if fit.band is not None and fit.draft.straight(own) and (fit.draft.bare or fit.basis.first):
        c = names(a.columns.c, code=True)
        how = SAY("aside", c=c) if fit.basis.first else SAY("squares")
        straight = " " + SAY("straight", how=how)
    caption = SAY("curve", seen=seen, held=straight + _held(a, column), **known)
    return Figure(f"curve-{column}", caption, display.plot)


def _held(a: Analysis, *moved: str) -> str:
    """At which values the other columns are held, at the end of a caption."""
    others = a.medians.drop(list(moved))
    return " " + SAY("medians", held=words.values_words(others)) if len(others) else ""


def effect_figure(a: Analysis, column: str, ends: tuple[float, float], along: str) -> Figure:
    """What a column of two values does, as an exogenous one moves."""
    grid = a.grid(along)
    found = a.effect(column, ends, along, grid)

    def plot(axes: Any) -> None:
        axes.fill_between(grid, found.lower, found.upper, color=CURVE, alpha=0.15, lw=0)
        axes.plot(grid, (found.lower + found.upper) / 2, color=CURVE, lw=2)
        axes.axhline(0, color=DATA, lw=0.8)
        axes.set(xlabel=along, ylabel=f"effect on {a.columns.y}")

    low, high = map(words.given, ends)
    known = {"x": column, "y": a.columns.y, "along": along, "low": low, "high": high}
    caption = SAY("effect", level=level_words(a.level), held=_held(a, column, along), **known)
    return Figure(f"effect-{column}-{along}", caption, plot)


def first_stage_figure(a: Analysis, column: str) -> Figure:
    """The regressor against its single instrument, or against what the instruments predict."""
    x, fitted = a.first_stage(column)
    some = evenly(len(x), DRAWN)  # of a million points is a large grey spot
    alone = len(a.columns.z) == 1 and not a.columns.c and len(x) == len(a.known)
    across = a.known[a.columns.z[0]].to_numpy() if alone else fitted
    order = np.argsort(across)
    labels = (a.columns.z[0], column) if alone else (f"{column}, predicted", f"{column}, observed")

    def plot(axes: Any) -> None:
        axes.plot(across[some], x[some], ".", color=DATA, ms=3, alpha=0.5)
        axes.plot(across[order], fitted[order], color=CURVE, lw=2)
        axes.set(xlabel=labels[0], ylabel=labels[1])

    given = "the instruments and the exogenous columns" if a.columns.c else "the instruments"
    caption = SAY("against" if alone else "predicted", x=column, given=given)
    return Figure(f"first-stage-{column}", caption, plot, 3.4)


def curve_table(a: Analysis, column: str) -> Grid:
    """The curve at a few quantiles of the column."""
    at = words.distinct(a.frame[column].quantile(list(LEVELS), "lower"), 0.5)
    table = a.partial(column, at.to_numpy())
    header = ["Quantile", column, "Structural", "From", "To"]
    if a.plain is not None:
        table["difference"] = table[PREDICTION] - table[PLAIN]
        header += ["Plain ridge", "Difference"]
    quantiles = [f"{100 * level:.0f}%" for level in at.index]
    texts = [quantiles, words.numbers(at), *words.cells(table).T]
    caption = f"{a.columns.y} at quantiles of {column}, with limits for these {len(at)} at once"
    return Grid(header, list(zip(*texts, strict=True)), f"{caption} ({level_words(a.level)})")


# ---------------------------------------------------------------- report


def report(a: Analysis, source: str, rows: Any = None) -> Report:
    """The answer, with predictions for `rows` of a file."""
    asked = a.frame if rows is None else rows
    curves: list[Block] = []
    for column in a.columns.x:
        ends, along = a.ends(column), a.columns.c[:DRAWN_ALONG]
        if ends is not None and along:
            curves += [effect_figure(a, column, ends, other) for other in along]
        else:
            curves += [curve_figure(a, column)]
        curves += [curve_table(a, column)]
    stages = [first_stage_figure(a, column) for column in a.columns.x]
    return analysis(
        SAY,
        f"The effect of {names(a.columns.x)} on {a.columns.y}",
        f"Kernel instrumental-variable regression · {source} · {words.amount(a.data.all)}",
        [*(headline(a, column) for column in a.columns.x), _design(a)],
        warnings_of(a),
        {
            "The structural curve": [*curves, *effects(a)],
            "The first stage": [Prose(SAY("first_stage")), *stages, Numbers(strength(a))],
            "What the data say about the assumptions": [Numbers(t) for t in [tests(a)] if t],
        },
        _numbers(a),
        [SAY.code("code", rows=words.some_rows(a.data.needed), level=a.level)],
        {**tables.answered("predictions", asked, a.predictions), words.MODEL: a.model.save},
        caveats(a),
    )


def _numbers(a: Analysis) -> list[Numbers]:
    """The fit in numbers, but for the lines on single columns: their slopes are by the curve."""
    found = SAY("searched" if a.settings.searched else "medial")
    said = partial(a.model.summary, level=a.level)
    told = account(SAY, said, facts(a), found=found)
    return [block for block in told if [name for name, *_ in block.rows] != list(a.effects)]


At = Annotated[Path | None, option(SAY, "--at")]


def run(settings: Settings, data: Data, at: At = None) -> Report:
    """The effect of X on Y when something unseen drives both, by way of instruments Z.

    Writes predictions.csv, model.km and report.html into the folder --out.
    """
    used = settings.rows(data)
    rows = settings.asked_of(used, at)
    with settings.stage("Fitting both stages", bars=isinstance(used.all, Rows)):
        a = Analysis(used, settings)
    with settings.stage("Measuring the first stage, and testing the assumptions"):
        return report(a, data.name, rows)


COMMAND = Command("iv", Settings, run)

"""`kernelmean ssm`: a series forecast by a state-space model learned from it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from sklearn.base import clone

from ...chains.rows import rows_like
from ...core.checks import hushed
from ...display import ObservationDisplay, TraceDisplay, TransitionDisplay
from ...statespace.kernel_state_space import KernelStateSpace
from ...statespace.options import Backbone
from .. import series, tables, words
from ..command import Command, Data, option, typed
from ..errors import noted
from ..report import Block, Fact, Figure, Grid, Prose, Report, account, analysis
from ..series import APART, COLUMNS, Rows, covered, rmse, straight
from ..words import names, number, percent

SAY = words.Texts("ssm")
HELD_OUT = 0.2  # of each sequence: rows at its end
SHORTEST = 20  # rows held out, below which they tell nothing
RIVALS = ("AR(1)", "no change", "mean")
DIMENSIONS = {"auto": "auto", **{str(size): size for size in range(1, 11)}}  # by what is typed


InferenceName = StrEnum("InferenceName", ["nodes", "particles", "kbr"])
TrendName = StrEnum("TrendName", ["auto", "n", "c", "ct", "drift"])
TransformName = StrEnum("TransformName", ["auto", "none", "log", "sqrt"])


@dataclass(frozen=True)
class Settings(series.Settings):
    """What to do."""

    latent_dim: Annotated[Any, typed(SAY, "--latent-dim", DIMENSIONS.__getitem__, "NUMBER")] = 1
    season: Annotated[int | None, option(SAY, "--season", min=2)] = None
    trend: Annotated[TrendName, option(SAY, "--trend")] = TrendName.auto
    transform: Annotated[TransformName, option(SAY, "--transform")] = TransformName.auto
    log_squares: Annotated[bool, option(SAY, "--log-squares")] = False
    tune: Annotated[bool, option(SAY, "--tune/--no-tune")] = False
    inference: Annotated[InferenceName, option(SAY, "--inference")] = InferenceName.nodes
    paths: Annotated[int, option(SAY, "--paths", min=0, max=100_000)] = 0

    say = SAY

    @property
    def names(self) -> list[str]:
        """What the model is of."""
        return [f"log {name}²" if self.log_squares else name for name in self.columns]

    def changed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """log y² of every column where asked for; missing where y is 0."""
        if not self.log_squares:
            return frame
        return np.log(frame.where(frame != 0) ** 2).set_axis(self.names, axis=1)

    @property
    def line(self) -> dict[str, Any]:
        """What is asked of a line."""
        transform = None if self.transform == "none" else self.transform.value
        asked = {"season": self.season, "trend": self.trend.value, "transform": transform}
        return {name: v for name, v in asked.items() if v != getattr(Backbone, name)}

    @property
    def backbone(self) -> Backbone | str | None:
        """A line of which something is asked, or one that the fit may take."""
        if self.log_squares:  # volatility is a state's
            return None
        return Backbone(**self.line) if self.line else "auto"

    def model(self) -> KernelStateSpace:
        """The estimator, not fitted."""
        how = {"inference": self.inference.value, "backbone": self.backbone, **self.how}
        return KernelStateSpace(self.latent_dim, **how)


@dataclass(frozen=True)
class Trial:
    """Forecasts of the rows at the end of each sequence, by models that have not seen them.

    Attributes
    ----------
    model : KernelStateSpace
        Learned from the rows before.
    n : int
        Rows held out.
    truth : DataFrame
        The rows judged: held out and whole, as are those before them.
    forecasts : dict
        By what they are called: the model's first, then `RIVALS`.
    lower, upper : arrays
        Intervals of the model.
    """

    model: KernelStateSpace
    n: int
    truth: pd.DataFrame
    forecasts: dict[str, np.ndarray]
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, settings: Settings, rows: Rows) -> Self | None:
        """Learn from the first rows of each sequence; None where they are too few."""
        frame, lengths, whole, inputs = rows.frame, rows.lengths, rows.whole, rows.inputs
        held = ends(lengths)
        past, before = frame[~held], parts(lengths)[0]
        judged = held & whole & np.r_[False, whole[:-1]]
        if judged.sum() < SHORTEST or whole[~held].sum() < SHORTEST:
            return None
        try:
            model = learn(settings, past, before, None if inputs is None else inputs[~held])
        except ValueError:  # too few for a season, say, of which all rows hold enough
            return None
        forecasts = {"state space": model.predict(frame, lengths, inputs)}
        forecasts |= rivals(frame, lengths, ~held)
        lower, upper = model.predict_interval(frame, settings.level, lengths, inputs)
        found = {name: f[judged] for name, f in forecasts.items()}
        count = int((held & whole).sum())
        return cls(model, count, frame[judged], found, lower[judged], upper[judged])

    @cached_property
    def errors(self) -> pd.DataFrame:
        """Root mean squared errors by column and forecast, and coverage."""
        truth = self.truth.to_numpy()
        rows = {name: rmse(f, truth) for name, f in self.forecasts.items()}
        rows["inside"] = covered(self.lower, self.upper, truth)
        return pd.DataFrame(rows, self.truth.columns)

    @property
    def rival(self) -> str:
        """The best of `RIVALS`, by errors relative to those of the mean."""
        return (self.errors[list(RIVALS)].T / self.errors["mean"]).mean(axis=1).idxmin()

    def gain(self, rival: str) -> tuple[np.ndarray, np.ndarray]:
        """By how much the squared errors of a rival are larger: mean and standard error, (d,)."""
        truth = self.truth.to_numpy()
        off = (self.forecasts[rival] - truth) ** 2 - (self.forecasts["state space"] - truth) ** 2
        return off.mean(axis=0), off.std(axis=0) / len(off) ** 0.5

    def notes(self, level: float) -> list[str]:
        """Where a rival is as good, or nearly, and where the intervals do not hold."""
        gain, error = self.gain(self.rival)
        columns, inside = self.truth.columns, self.errors["inside"]
        behind, near = columns[gain <= 0], columns[(gain > 0) & (gain < 2 * error)]
        apart = (abs(inside - level) > APART).any()
        known = {
            "behind": names(behind),
            "near": names(near),
            "rival": SAY("rivals", self.rival),
            "n": len(self.truth),
            "level": words.level_words(level),
            "shares": ", ".join(percent(v) for v in inside),
        }
        return SAY.those({"behind": len(behind), "near": len(near), "apart": apart}, **known)


class Forecasts:
    """A state-space model with its answers about the rows it was learned from.

    Attributes
    ----------
    settings : Settings
    rows : Rows
    trial : Trial or None
    model : KernelStateSpace
        Learned from all rows.
    least : array of shape (d,)
        0 of a column that counts something, below which nothing of it is told.
    mean, lower, upper : arrays of shape (n, d)
        Of each row, from those before it.
    filtered, smoothed : LatentResult
    log_predictive : array of shape (n,)
    ahead : StateForecast or None
    paths : list of arrays of shape (n, steps, d)
        Ways that each sequence may go on.
    caught : list of str
        Numerical trouble on the way.
    """

    def __init__(self, settings: Settings, rows: Rows):
        """Judge the model on rows held out, learn it from all, and ask it about the rows."""
        self.settings, self.rows = settings, rows
        X, steps, known = rows.frame, settings.forecast, (rows.lengths, rows.inputs)
        with noted() as self.caught:
            with settings.stage("Learning without the rows held out", bars=True), hushed():
                self.trial = Trial.of(settings, rows)
            model = settings.model() if self.trial is None else clone(self.trial.model)
            with settings.stage("Learning from all rows", bars=True):
                self.model = model.set_params(verbose=settings.told).fit(X, *known)
            self.least = np.where(series.counts(X), 0.0, -np.inf)
            told = model.predict(X, *known), *model.predict_interval(X, settings.level, *known)
            self.mean, self.lower, self.upper = (np.maximum(part, self.least) for part in told)
            self.filtered, self.smoothed = model.filter(X, *known), model.smooth(X, *known)
            self.log_predictive = model.log_predictive(X, *known)
            after = *known, rows.inputs_ahead
            self.ahead: Any = model.forecast(X, steps, *after) if steps else None
            self.paths = [*self._drawn()]

    def _drawn(self) -> Iterator[np.ndarray]:
        s, rows, rng = self.settings, self.rows, np.random.default_rng(self.settings.seed)
        for i, part in enumerate(rows.slices if s.paths else []):
            here, ahead = rows.inputs, rows.inputs_ahead
            if here is not None and ahead is not None:
                here, ahead = here[part], ahead[i * s.forecast : (i + 1) * s.forecast]
            known = s.forecast, s.paths, None, rng, here, ahead
            yield np.maximum(self.model.sample_paths(rows.frame[part], *known), self.least)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Forecasts and latent states, one row per observation."""
        answers = {"mean": self.mean, "lower": self.lower, "upper": self.upper}
        columns = series.by_column(self.settings.names, answers)
        if self.settings.log_squares:
            squares = expected(self.model, np.exp, self.rows.frame, self.rows.lengths)
            columns |= series.by_column(self.settings.columns, {"volatility": squares**0.5})
        columns |= series.numbered("filtered", self.filtered.mean())
        columns |= series.numbered("smoothed", self.smoothed.mean())
        judged = self.rows.frame.notna().any(axis=1) if self.takes_parts else self.rows.whole
        columns["log_predictive"] = np.where(judged, self.log_predictive, np.nan)
        columns["missing"] = ~self.rows.whole
        return self.rows.by_row(columns)

    @cached_property
    def forecasts(self) -> pd.DataFrame:
        """Mean and interval of each column at the rows after each sequence."""
        answers = series.with_ends(self.ahead, self.settings.level)
        answers = {end: np.maximum(part, self.least) for end, part in answers.items()}
        columns = series.by_column(self.settings.names, answers)
        if self.settings.log_squares:
            squares = self.ahead.states @ self.model.emissions_.expectation(np.exp)
            columns |= series.by_column(self.settings.columns, {"volatility": squares**0.5})
        return self.rows.by_step(columns, self.settings.forecast)

    @property
    def takes_parts(self) -> bool:
        """Whether rows that have some of the columns have a density."""
        return self.model.chain_.marginals and self.settings.inference != "particles"

    @property
    def ways(self) -> pd.DataFrame:
        """How each sequence may go on, drawn: one path below the other."""
        steps = self.rows.by_step({}, self.settings.forecast)
        drawn = np.concatenate(self.paths, axis=1)
        every = pd.concat([steps] * len(drawn), ignore_index=True)
        values = drawn.reshape(len(every), -1)
        every = every.assign(**series.by_column(self.settings.names, {"drawn": values}))
        every.insert(0, "path", np.repeat(np.arange(1, len(drawn) + 1), len(steps)))
        return every

    @cached_property
    def notes(self) -> list[str]:
        """What the reader must not overlook in this very series."""
        said = [] if self.model.converged_ else [SAY("unfinished")]
        said += [SAY("untried")] if self.trial is None else self.trial.notes(self.settings.level)
        counts = self.rows.frame.columns[(self.lower == self.least).any(axis=0)]
        said += [SAY("counts", names=names(counts))] if len(counts) else []
        said += words.edges(self.rows.frame, self.table if self.ahead is None else self.forecasts)
        used = self.takes_parts or self.model.backbone_ is not None
        counts = {"count": SAY("parts")} if used else {}
        partial = self.rows.partial(self.rows.frame.columns, **counts)
        caught = words.of_file(self.caught, self.rows.frame.index)
        return [*caught, *said, *partial]


def expected(model: KernelStateSpace, function: Callable, X, lengths=None) -> np.ndarray:
    """E[function(y_t) | y_1, ..., y_{t-1}] of every row, (n, ...), where y has no backbone."""
    rows = rows_like(model, X, lengths)
    return model.chain_.predicted(rows) @ model.emissions_.expectation(function)


# ---------------------------------------------------------------- rows held out


def parts(lengths: list[int], season: int = 1) -> tuple[list[int], list[int]]:
    """Rows of each sequence to learn from, whole seasons of them, and those at its end."""
    first = [n - int(HELD_OUT * n) for n in lengths]
    first = [n - n % season or n for n in first]
    return first, [n - k for n, k in zip(lengths, first, strict=True) if n > k]


def ends(lengths: list[int], season: int = 1) -> np.ndarray:
    """Whether a row is at the end of its sequence, (n,)."""
    first = parts(lengths, season)[0]
    return np.concatenate([np.arange(n) >= count for n, count in zip(lengths, first, strict=True)])


def learn(
    settings: Settings, past: pd.DataFrame, lengths: list[int], inputs: pd.DataFrame | None
) -> KernelStateSpace:
    """A model of the first rows; to tune it, their ends are held out in their turn."""
    model = settings.model()
    if not settings.tune:
        return model.fit(past, lengths, inputs)
    season = settings.season or 1  # rows held out begin where it does
    held, (before, after) = ends(lengths, season), parts(lengths, season)
    tuned = model.set_params(verbose=False).tune(
        past[~held], past[held], before, after, verbose=settings.told
    )
    fitted = clone(tuned).fit(past, lengths)
    fitted.tuning_ = tuned.tuning_
    return fitted


def rivals(frame: pd.DataFrame, lengths: list[int], past: np.ndarray) -> dict[str, np.ndarray]:
    """One-step forecasts learned from the rows of `past`; NaN after a row that is not whole."""
    before = frame.groupby(np.repeat(np.arange(len(lengths)), lengths)).shift().to_numpy()
    Y = frame.to_numpy()
    pairs = past & ~np.isnan(before + Y).any(axis=1)
    line, mean = straight(before[pairs], Y[pairs], before), np.nanmean(Y[past], axis=0)
    return dict(zip(RIVALS, (line, before, np.broadcast_to(mean, Y.shape)), strict=True))


LONGEST = 300  # rows of a sequence drawn
LATENT = 2  # coordinates drawn


# ---------------------------------------------------------------- words


def headline(a: Forecasts) -> str:
    """One sentence on how well held-out rows were forecast."""
    if a.trial is None:
        return ""
    said = [SAY("headline")]
    for name, row in a.trial.errors.iloc[:COLUMNS].iterrows():
        ours, line, same = (number(row[which]) for which in ("state space", "AR(1)", "no change"))
        said.append(SAY("error", name=name, ours=ours, line=line, same=same))
    return " ".join(said)


def facts(a: Forecasts) -> list[Fact]:
    """What the summary of the model leaves out."""
    trial = a.trial
    tried = None if trial is None else getattr(trial.model, "tuning_", None)
    values = {
        "Rows": a.rows.amount(),
        "Rows held out": None if trial is None else f"{trial.n:,}",
        "Settings": "defaults" if tried is None else f"best of {len(tried):,}",
        "Guard": f"{a.model.guard_[0]:,.0f} rows" if a.settings.refine else None,
    }
    judged = 0 if trial is None else len(trial.truth)
    searched = SAY("untuned" if tried is None else "tuned")
    known = {"missing": int((~a.rows.whole).sum()), "share": percent(HELD_OUT)}
    return SAY.facts(values, judged=judged, searched=searched, **known)


# ---------------------------------------------------------------- tables


def accuracy(a: Forecasts) -> list[Block]:
    """Errors of the forecasts of held-out rows, by column."""
    if a.trial is None:
        return []
    rivals = list(a.trial.forecasts)
    rows = [
        (name, *map(number, row[rivals]), f"{100 * row['inside']:.1f}%")
        for name, row in a.trial.errors.iterrows()
    ]
    header = ["", *rivals, f"in {words.level_words(a.settings.level)} interval"]
    caption = f"Root mean squared errors over {len(a.trial.truth):,} held-out rows"
    return [Grid(header, rows, caption), Prose(SAY("rivalry"))]


def forecast(a: Forecasts) -> Grid:
    """Means and intervals of the columns, after the file."""
    spread = a.settings.columns[:COLUMNS] if a.settings.log_squares else []
    more = {f"volatility of {name}": (f"{name}_volatility", number) for name in spread}
    return series.forecast_grid(a.forecasts, a.settings.level, a.settings.names[:COLUMNS], more)


# ---------------------------------------------------------------- figures


def drawn(a: Forecasts) -> list[Figure]:
    """The first sequences with their forecasts."""
    s = a.settings
    after = " " + SAY("after") if s.forecast else ""
    caption = SAY("series", level=words.level_words(s.level), after=after)
    known = {"series": a.rows.frame.to_numpy()}
    known |= {"mean": a.mean, "lower": a.lower, "upper": a.upper}
    how: dict[str, Any] = {"file": "series", "longest": LONGEST, "label": "forecast one row ahead"}
    how["least"] = a.least
    return series.forecast_figures(a, a.rows, caption, s.names[:COLUMNS], known, **how)


def laws(model: KernelStateSpace, columns: Any) -> Figure:
    """How the first latent coordinates move, and what they show of themselves."""
    shown = range(min(model.nodes_.shape[1], LATENT))
    displays: list[Any] = [TransitionDisplay.from_estimator(model, latent=k) for k in shown]
    seen = partial(ObservationDisplay.from_estimator, model)
    displays += [seen(column=name, latent=k) for name in columns for k in shown]

    def plot(panels) -> None:
        for law, axes in zip(displays, panels, strict=False):
            law.plot(axes)

    down = -(-len(displays) // 2)
    beside = "" if model.backbone_ is None else " " + SAY("beside")
    return Figure("laws", SAY("laws") + beside, plot, height=3.3 * down, shape=(down, 2))


def trace(a: Forecasts) -> Figure:
    """How the model was learned."""
    steps = TraceDisplay.from_estimator(a.model)
    climbs = bool(len(steps.values))
    caption = SAY("climb" if climbs else "loss")
    return Figure("trace", caption, steps.plot, height=3.0, shape=(1, 1 + climbs))


# ---------------------------------------------------------------- report


def report(a: Forecasts, source: str) -> Report:
    """The answer."""
    s, imports, changed = a.settings, "", ""
    if s.log_squares:
        imports = "import numpy as np\n"
        changed = f"\nrows = np.log(rows.where(rows != 0) ** 2)\nrows.columns = {s.names!r}"
    return analysis(
        SAY,
        f"{names(s.names)}, one row ahead and beyond",
        f"State-space model · {source} · {len(a.rows.frame):,} rows",
        [headline(a)],
        a.notes,
        {
            "The series and its forecasts": drawn(a),
            "What comes next": [forecast(a)] if a.ahead is not None else [],
            "How good the forecasts are": accuracy(a),
            "What was learned": [laws(a.model, s.names[:COLUMNS])],
        },
        [*account(SAY, a.model.summary, facts(a)), trace(a)],
        [series.code(SAY, s, source, changed, imports=imports, level=s.level)],
        {
            **series.files("track", a),
            "paths.csv": tables.to_csv(a.ways, rows=False) if a.paths else None,
        },
    )


def run(settings: Settings, data: Data) -> Report:
    """Forecasts of a series by a state-space model without families of distributions.

    Rows are in the order of time. An empty field is a missing observation.

    Writes track.csv, forecast.csv, paths.csv, model.km and report.html into the folder --out.
    """
    s, inputs = settings, settings.inputs is not None
    s.refuse({"--tune": s.tune and inputs, "--paths": s.paths > 0 and not s.forecast})
    if given := ", ".join([*(f"--{name}" for name in s.line), *["--inputs"] * inputs]):
        s.refuse({"--no-refine": not s.refine, "--log-squares": s.log_squares}, given=given)
    a = Forecasts(s, s.read(s.table(data)))
    with s.stage("Asking about every row"):
        return report(a, data.name)


COMMAND = Command("ssm", Settings, run)

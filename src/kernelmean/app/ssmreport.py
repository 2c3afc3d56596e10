"""`kernelmean ssm`: the forecasts in words, figures, a page and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..display import ForecastDisplay, ObservationDisplay, TraceDisplay, TransitionDisplay
from ..display.states import following
from .densityreport import names
from .files import write_text
from .filterreport import below_each_other, percent
from .ivreport import MODEL, again, kernel_words
from .page import (
    STYLE,
    Block,
    Bullets,
    Code,
    Figure,
    Grid,
    Note,
    Numbers,
    Page,
    Prose,
    Section,
    number,
    numbers,
)
from .ssm import HELD_OUT, Forecasts, Trial

SHOWN = 12  # rows in a table
DRAWN = 3  # sequences drawn
LONGEST = 300  # rows of a sequence drawn
COLUMNS = 4  # drawn, or in a table
LATENT = 2  # coordinates drawn

CAVEATS = (
    "The latent state is what makes the past useful for the future. It has no unit and no "
    "direction: any one-to-one function of it explains the rows as well. Forecasts do not depend "
    "on which it is.",
    "The rows are taken to follow the same rules from the first to the last, at equal intervals "
    "of time. Trends and seasons are not looked for: remove them first.",
    "Nothing is known of states that the series has not visited: beyond the range of the data the "
    "laws go on as a straight line with noise of the same kind.",
    "Forecasts take the model for the truth: they do not carry the uncertainty of what was "
    "learned.",
    "A row with any of the columns missing counts as missing altogether.",
)

INFERENCES = {
    "nodes": ("on nodes", "Bayes' rule with the learned densities, on points of the latent space."),
    "particles": ("particles", "A particle filter with the learned densities."),
}


# ---------------------------------------------------------------- words


def headline(a: Forecasts) -> str:
    """One sentence on how well held-out rows were forecast."""
    if a.trial is None:
        return ""
    errors = a.trial.errors
    said = [
        f"{name}: {number(float(row['state space']))}, against {number(float(row['AR(1)']))} for "
        f"AR(1) and {number(float(row['no change']))} for no change."
        for name, row in errors.iloc[:COLUMNS].iterrows()
    ]
    return f"Root mean squared error of forecasts one row ahead, on rows held out. {' '.join(said)}"


def facts(a: Forecasts) -> list[tuple[str, str, str]]:
    """Every number of the fit: its name, its value, what it means."""
    m = a.model
    return [
        ("Rows", _amount(a), f"{int((~a.seen).sum()):,} of them missing."),
        *_held_out(a.trial),
        (
            "Latent state",
            f"{m.n_latent}-dimensional, {len(m.nodes_):,} nodes",
            "The law of the states is chosen to be normal; which law does not matter.",
        ),
        (
            "Kernel",
            kernel_words(m.kernel_, a.settings.names),
            "Embeds the rows. Lengthscales are in the units of the columns.",
        ),
        ("Learned by", *_learning(a)),
        ("Settings", *_search(a)),
        ("Bandwidth", _bandwidth(a), "Of the densities, in the units of the columns."),
        *_guard(a),
        ("Inference", *_inference(a)),
        (
            "Log-likelihood of a row",
            number(float(a.log_predictive[a.seen].mean())),
            "Mean log p(row | rows before), in the very rows learned from.",
        ),
    ]


def _amount(a: Forecasts) -> str:
    n, count = len(a.series.frame), len(a.series.lengths)
    return f"{n:,}" if count == 1 else f"{n:,} in {count:,} sequences"


def _held_out(trial: Trial | None) -> list[tuple[str, str, str]]:
    if trial is None:
        return []
    return [
        (
            "Rows held out",
            f"{trial.n:,}",
            f"The last {percent(HELD_OUT)} of each sequence, forecast by a model of the rest; "
            f"{len(trial.truth):,} that follow a row without gaps are judged. The model of this "
            "page was then learned from all rows.",
        )
    ]


def _learning(a: Forecasts) -> tuple[str, str]:
    if not a.settings.refine:
        return "moments", "Of neighbouring rows and of next neighbours, alone."
    end = "settled" if a.model.converged_ else "was stopped"
    return (
        f"EM, iterations: {len(a.model.history_)}",
        f"When it {end}. It starts from moments of neighbouring rows; the laws stay embeddings.",
    )


def _search(a: Forecasts) -> tuple[str, str]:
    tried = getattr(a.trial.model, "tuning_", None) if a.trial is not None else None
    if tried is None:
        return "defaults", "`--tune` searches for better ones by forecasts of rows held back."
    return f"best of {len(tried):,}", "By the likelihood of rows held back, before those judged."


def _bandwidth(a: Forecasts) -> str:
    width = a.model.bandwidth_
    if width is None:
        return "by rule of thumb"
    return ", ".join(number(float(w)) for w in np.unique(np.asarray(width, dtype=float)))


def _guard(a: Forecasts) -> list[tuple[str, str, str]]:
    if not a.settings.refine:
        return []
    return [
        (
            "Guard",
            f"{a.model.guard_[0]:,.0f} rows",
            "As how many rows a straight line with the same noise everywhere counts in the law of "
            "a row given the state. Chosen by rows held back; large where that says it all.",
        )
    ]


def _inference(a: Forecasts) -> tuple[str, str]:
    if a.settings.inference == "kbr":
        return (
            f"kernel Bayes' rule, λ = {number(a.model.reg_)}",
            "From the embedded laws, without their densities.",
        )
    return INFERENCES[a.settings.inference]


# ---------------------------------------------------------------- tables


def accuracy(trial: Trial, level: float) -> Grid:
    """Errors of the forecasts of held-out rows, by column."""
    errors = trial.errors
    rivals = list(trial.forecasts)
    rows = [
        (name, *numbers(row[rivals], 3), f"{100 * row['inside']:.1f}%")
        for name, row in errors.iterrows()
    ]
    header = ["", *rivals, f"in {percent(level)} interval"]
    return Grid(header, rows, f"Root mean squared errors over {len(trial.truth):,} held-out rows")


def forecast(a: Forecasts) -> Grid:
    """Means and intervals of the columns, after the file."""
    part = a.forecasts.head(SHOWN)
    front = ["step"] if a.settings.sequence is None else [a.settings.sequence, "step"]
    header, columns = list(front), [[str(v) for v in part[name]] for name in front]
    for name in a.settings.names[:COLUMNS]:
        header += [name, f"{percent(a.settings.level)} interval"]
        columns += _mean_and_interval(part, name)
    if a.settings.log_squares:
        for name in a.settings.columns[:COLUMNS]:
            header += [f"volatility of {name}"]
            columns += [numbers(part[f"{name}_volatility"])]
    more = f" (the first {SHOWN} of {len(a.forecasts):,} rows)" if len(a.forecasts) > SHOWN else ""
    return Grid(header, list(zip(*columns, strict=True)), f"After the end of the file{more}")


def _mean_and_interval(part: pd.DataFrame, name: str) -> list[list[str]]:
    cells = np.reshape(
        numbers(np.concatenate([part[f"{name}_{w}"] for w in ("mean", "lower", "upper")])), (3, -1)
    )
    return [list(cells[0]), [f"{low} to {high}" for low, high in cells[1:].T]]


# ---------------------------------------------------------------- figures


def series(a: Forecasts) -> list[Figure]:
    """The first sequences with their forecasts."""
    slices = a.series.rows.slices[:DRAWN]
    return [_series_figure(a, i, _display(a, i, s)) for i, s in enumerate(slices)]


def _display(a: Forecasts, i: int, s: slice) -> ForecastDisplay:
    """The last rows of a sequence, and what follows."""
    rows = slice(max(s.start, s.stop - LONGEST), s.stop)
    times = a.series.frame.index.to_numpy() if a.series.times is None else a.series.times
    steps = a.settings.horizon
    return ForecastDisplay(
        times[rows],
        a.series.frame.to_numpy()[rows],
        a.mean[rows],
        a.lower[rows],
        a.upper[rows],
        following(times[rows], steps),
        _fan(a)[:, i * steps : (i + 1) * steps],
        a.settings.names,
        a.settings.level,
        [slice(0, rows.stop - rows.start)],
    )


def _fan(a: Forecasts) -> np.ndarray:
    if a.ahead is None:
        return np.empty((5, 0, len(a.settings.names)))
    (low, high), (inner_low, inner_high) = (a.ahead.interval(v) for v in (a.settings.level, 0.5))
    return np.stack([low, inner_low, a.ahead.mean(), inner_high, high])


def _series_figure(a: Forecasts, i: int, display: ForecastDisplay) -> Figure:
    shown = min(len(display.names), COLUMNS)
    columns = slice(0, shown)
    kept = {
        name: getattr(display, name)[..., columns]
        for name in ("series", "mean", "lower", "upper", "ahead")
    }
    drawing, panels = below_each_other(shown)
    drawing.set_figheight(1.2 + 2.1 * shown)
    replace(display, **kept, names=display.names[columns]).plot(panels)
    panels[-1].set_xlabel(a.settings.time or "row")
    last = f"The last {LONGEST:,} rows. " if a.series.lengths[i] > LONGEST else ""
    after = (
        " After the end: what comes next, with that interval and the central half."
        if a.settings.horizon
        else ""
    )
    caption = (
        f"{_which(a, i)}{last}Each row (dots) with its mean and central "
        f"{percent(a.settings.level)} interval given the rows before it.{after}"
    )
    return Figure(drawing, caption, f"series-{i}")


def _which(a: Forecasts, i: int) -> str:
    return f"{a.settings.sequence} {a.series.rows.names[i]}. " if a.settings.sequence else ""


def laws(a: Forecasts) -> Figure:
    """How the first latent coordinates move, and what they show of themselves."""
    shown = range(min(a.model.n_latent, LATENT))
    displays: list[Any] = [TransitionDisplay.from_estimator(a.model, latent=k) for k in shown]
    displays += [
        ObservationDisplay.from_estimator(a.model, column=name, latent=k)
        for name in a.settings.names[:COLUMNS]
        for k in shown
    ]
    down = -(-len(displays) // 2)
    drawing, panels = _panels(down, 2, height=3.3 * down)
    for axes in panels[len(displays) :]:
        axes.set_axis_off()
    for display, axes in zip(displays, panels, strict=False):
        display.plot(axes)
    caption = (
        "Where the latent state goes, and what it shows of itself: darker is likelier, the line is "
        "the mean. On the dashed line the state would stay as it is."
    )
    return Figure(drawing, caption, "laws")


def trace(a: Forecasts) -> Figure:
    """How the model was learned."""
    display = TraceDisplay.from_estimator(a.model)
    drawing, panels = _panels(1, 1 + bool(len(display.values)), height=3.0)
    display.plot(panels)
    climb = (
        " Right: the mean log-likelihood of a row by iteration of EM, each row left out of the "
        "laws it is judged by."
        if len(display.values)
        else ""
    )
    caption = f"Left: the loss of the moments that the fit starts from, and its terms.{climb}"
    return Figure(drawing, caption if climb else caption.removeprefix("Left: "), "trace")


def _panels(down: int, across: int, height: float) -> tuple[Any, np.ndarray]:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawing

    with mpl.rc_context(STYLE):
        drawing = Drawing(figsize=(6.8, height), layout="constrained")
        return drawing, np.ravel(drawing.subplots(down, across))


# ---------------------------------------------------------------- page


def report(a: Forecasts, source: str, command: Sequence[str]) -> Page:
    """The page."""
    said = headline(a)
    return Page(
        title=f"{names(a.settings.names)}, one row ahead and beyond",
        subtitle=f"State-space model · {source} · {len(a.series.frame):,} rows",
        lead=[
            Prose(
                "A state that is not seen moves from row to row, and each row is drawn from a law "
                "that depends on it. How the state moves, and what it shows of itself, were "
                "learned from the rows alone; no family of distributions is assumed for either."
            ),
            *([Prose(said)] if said else []),
            *(Note(text) for text in a.notes),
        ],
        sections=[
            Section("The series and its forecasts", series(a)),
            *_next(a),
            *_accuracy(a),
            Section("What was learned", [laws(a)]),
            Section("The fit in numbers", [Numbers(facts(a)), trace(a)]),
            Section("Before you rely on it", [Bullets(CAVEATS)]),
            Section("Using the model", [Code(_snippet(a, source)), *again(command)]),
        ],
    )


def _next(a: Forecasts) -> list[Section]:
    return [] if a.ahead is None else [Section("What comes next", [forecast(a)])]


def _accuracy(a: Forecasts) -> list[Section]:
    if a.trial is None:
        return []
    blocks: list[Block] = [
        accuracy(a.trial, a.settings.level),
        Prose(
            "Forecasts of each row from the rows before it, by models that were learned from "
            "earlier rows only. AR(1) is a straight line through the row before, by least squares; "
            "no change is the row before itself; mean is that of the earlier rows."
        ),
    ]
    return [Section("How good the forecasts are", blocks)]


def _snippet(a: Forecasts, source: str) -> str:
    reader = "read_parquet" if source.endswith((".parquet", ".pq")) else "read_csv"
    imports = "import pandas as pd, kernelmean as km\n"
    rows = f"rows = pd.{reader}({source!r})[{a.settings.columns!r}]\n"
    if a.settings.log_squares:
        imports = f"import numpy as np, {imports.removeprefix('import ')}"
        rows += "rows = np.log(rows.where(rows != 0) ** 2)\n"
        rows += f"rows.columns = {a.settings.names!r}\n"
    return (
        f"{imports}\nmodel = km.load({MODEL!r})\n{rows}"
        "model.predict(rows)  # each row from those before it\n"
        f"model.forecast(rows, 5).interval({a.settings.level:g})\n\n"
        "belief = model.start()  # one row at a time\n"
        "belief.update(rows.iloc[0]).predict().mean()"
    )


def outputs(a: Forecasts, page: Page) -> dict[str, Callable[[Path], None]]:
    """The files of the command, as functions of the path to write to."""
    texts: dict[str, Any] = {"track.csv": a.table.to_csv(index_label="row")}
    if a.ahead is not None:
        texts["forecast.csv"] = a.forecasts.to_csv(index=False)
    writers = {name: partial(write_text, text=text) for name, text in texts.items()}
    html = page.html()
    return {**writers, MODEL: a.model.save, "report.html": partial(write_text, text=html)}

"""`kernelmean filter`: the tracks in words, figures, a page and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..display import CURVE, PLAIN, SpreadDisplay, TrackDisplay
from .files import write_text
from .filter import Tracks
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

SHOWN = 12  # rows in a table
DRAWN = 3  # trajectories drawn
LONGEST = 400  # rows of a trajectory drawn
BEFORE = 40  # rows drawn before a forecast
OUTSIDE = 0.05  # share of rows outside the range of training that is worth a word
APART = 0.1  # distance between coverage and level that is worth a word

CAVEATS = (
    "The answer rests on the training file: the states must move there as they do in the test "
    "file, be seen through observations of the same kind, and at the same interval of time.",
    "States that the training file never visits cannot be found. Observations unlike any in it are "
    "passed over, and the prediction is kept until they look familiar again.",
    "What spoils an observation is taken to be new at each step. Where the same error lasts for "
    "many steps (a sensor with an offset, a poll that is repeated), intervals are too narrow.",
    "A row with any observed column missing counts as missing altogether.",
)


# ---------------------------------------------------------------- words


def percent(share: float) -> str:
    """'90%'."""
    return f"{100 * share:.0f}%"


def facts(a: Tracks) -> list[tuple[str, str, str]]:
    """Every number of the fit: its name, its value, what it means."""
    m, s = a.model, a.settings
    return [
        ("Rows to learn from", _amount(a.train), "With states and observations side by side."),
        (
            "Rows followed",
            _amount(a.test),
            f"{int(a.filtered.missing.sum()):,} of them missing, "
            f"{int(a.filtered.collapsed.sum()):,} unlike any of the training file.",
        ),
        ("Settings", *_search(a)),
        (
            "Kernel on the observations",
            kernel_words(m.kernel_x_, s.observed),
            "Lengthscales are in the units of the columns: points closer than this look alike.",
        ),
        ("Kernel on the states", kernel_words(m.kernel_z_, s.states), "The same for the states."),
        (
            "Regulariser of the update",
            number(m.reg_),
            "Per row. Larger trusts an observation less.",
        ),
        (
            "Regulariser of the prior, η",
            number(m.reg_prior_),
            "Per row. By the leave-one-out score of the ratio between a prediction and the "
            "training states.",
        ),
        (
            "Regulariser of the dynamics, λ'",
            number(m.reg_transition_),
            "Per row. By the leave-one-out error of the next state.",
        ),
        *_backwards(a),
    ]


def _amount(rows) -> str:
    if len(rows.lengths) == 1:
        return f"{len(rows.frame):,}"
    return f"{len(rows.frame):,} in {len(rows.lengths):,} trajectories"


def _search(a: Tracks) -> tuple[str, str]:
    tried = getattr(a.model, "tuning_", None)
    if tried is None:
        return "defaults", (
            "Medians and leave-one-out scores. `--tune` searches for better ones by tracking."
        )
    left = max(0.0, min(row["error"] for row in tried))
    return f"best of {len(tried):,}", (
        f"Tracking the end of the training file, held out, left {percent(left)} of the variance "
        "of the states unexplained."
    )


def _backwards(a: Tracks) -> list[tuple[str, str, str]]:
    if a.smoothed is None:
        return []
    reg = number(a.model.reg_smoother_)
    return [("Regulariser of the way back", reg, "Per row. Of the smoother's backward pass.")]


def notes(a: Tracks) -> list[str]:
    """What the reader must not overlook in these very files."""
    return [*a.caught, *_gaps(a), *_strangers(a), *_rivals(a), *_coverage(a)]


def _gaps(a: Tracks) -> list[str]:
    if a.filtered.missing.all():
        return ["No row has all observed columns: the track is a prediction throughout."]
    if a.partial:
        return [
            f"{a.partial:,} of {len(a.test.frame):,} rows have some of the observed columns and "
            "not others; they count as missing."
        ]
    return []


def _strangers(a: Tracks) -> list[str]:
    far = a.outside[a.outside > OUTSIDE]
    if far.empty:
        return []
    listed = ", ".join(f"{name} {percent(share)}" for name, share in far.items())
    return [
        f"Observations leave the range of the training file (share of rows: {listed}). What they "
        "say there is extrapolated."
    ]


def _rivals(a: Tracks) -> list[str]:
    if a.errors is None:
        return []
    better = [n for n, row in a.errors.iterrows() if row["line"] < 0.98 * row["filtered"]]
    if not better:
        return []
    advice = "" if hasattr(a.model, "tuning_") else " Try `--tune`."
    return [
        f"For {' and '.join(map(str, better))}, straight lines from the observations alone have "
        f"the smaller error: what the filter learned of the dynamics did not help here.{advice}"
    ]


def _coverage(a: Tracks) -> list[str]:
    if a.errors is None:
        return []
    level, out = a.settings.level, []
    for name, share in a.errors["filtered inside"].items():
        if abs(share - level) > APART:
            word = "narrow" if share < level else "wide"
            out.append(
                f"The {percent(level)} intervals of {name} hold {percent(share)} of the states "
                f"known: they are too {word} for this file."
            )
    return out


# ---------------------------------------------------------------- tables


def errors(a: Tracks) -> Grid:
    """Errors of each state where the test file knows it, beside two rivals."""
    table = a.errors
    assert table is not None
    names = [*a.results, "line", "mean"]
    words = {"line": "straight line", "mean": "average of training"}
    header = ["RMSE of", *(words.get(name, name) for name in names)]
    header += [f"{name} in {percent(a.settings.level)}" for name in a.results]
    rows = []
    for state, row in table.iterrows():
        shares = [percent(row[f"{name} inside"]) for name in a.results]
        rows.append([str(state), *(number(row[name]) for name in names), *shares])
    return Grid(header, rows, "Errors where the state is known")


def answers(a: Tracks) -> Grid:
    """Means and intervals at the last rows, or at the last row of each trajectory."""
    if len(a.test.lengths) == 1:
        part, where = a.table.tail(SHOWN), f"the last {min(SHOWN, len(a.table))} rows"
    else:
        ends = [s.stop - 1 for s in a.test.slices[:SHOWN]]
        part, where = a.table.iloc[ends], "the last row of each trajectory"
    header, columns = ["row"], [[str(i) for i in part.index]]
    if a.settings.sequence is not None:
        header, columns = [*header, a.settings.sequence], [*columns, list(part.iloc[:, 0])]
    for name in a.settings.states:
        header += [name, f"{percent(a.settings.level)} interval"]
        columns += _mean_and_interval(part, name)
        if a.smoothed:
            header += [f"{name}, smoothed"]
            columns += _mean_and_interval(part, f"{name}_smoothed")[:1]
    if part[["missing", "collapsed"]].any(axis=None):
        header += [""]
        columns += [[_flag(row) for _, row in part.iterrows()]]
    rows = list(zip(*columns, strict=True))
    return Grid(header, rows, f"Where the states are: {where}")


def _flag(row) -> str:
    return "missing" if row["missing"] else "collapsed" if row["collapsed"] else ""


def _mean_and_interval(part, name: str) -> list[list[str]]:
    values = part[[f"{name}_mean", f"{name}_lower", f"{name}_upper"]].to_numpy()
    cells = np.reshape(numbers(values.ravel()), values.shape)
    return [list(cells[:, 0]), [f"{low} to {high}" for low, high in cells[:, 1:]]]


def forecast(a: Tracks) -> Grid:
    """Means and intervals of the states after the end of the file."""
    part = a.forecasts.head(SHOWN)
    front = ["step"] if a.settings.sequence is None else [a.settings.sequence, "step"]
    header, columns = list(front), [[str(v) for v in part[name]] for name in front]
    for name in a.settings.states:
        header += [name, f"{percent(a.settings.level)} interval"]
        columns += _mean_and_interval(part, name)
    for name in a.settings.observed:
        header += [name]
        columns += _mean_and_interval(part, name)[:1]
    more = f" (the first {SHOWN} of {len(a.forecasts):,} rows)" if len(a.forecasts) > SHOWN else ""
    return Grid(header, list(zip(*columns, strict=True)), f"After the end of the file{more}")


# ---------------------------------------------------------------- figures


def figures(a: Tracks) -> list[Figure]:
    """The track and its spread, for the first trajectories."""
    shared: dict[str, Any] = {
        "level": a.settings.level,
        "times": a.test.frame.index.to_numpy(),
        "lengths": a.test.lengths,
    }
    name = "smoothed" if a.smoothed else "filtered"
    track = TrackDisplay.from_result(a.results[name], a.truth, **shared)
    spreads = {n: SpreadDisplay.from_result(r, **shared) for n, r in a.results.items()}
    return [
        _track_figure(a, i, name, part(track, s), {n: part(d, s) for n, d in spreads.items()})
        for i, s in enumerate(a.test.slices[:DRAWN])
    ]


def part(display: Any, rows: slice) -> Any:
    """A display of some rows of its track, the last `LONGEST` at most."""
    rows = slice(max(rows.start, rows.stop - LONGEST), rows.stop)
    fields = ("times", "mean", "lower", "upper", "width", "missing", "collapsed", "truth")
    cut = {
        name: getattr(display, name)[rows]
        for name in fields
        if getattr(display, name, None) is not None
    }
    return replace(display, **cut, sequences=[slice(0, rows.stop - rows.start)])


def _track_figure(a: Tracks, i: int, name: str, track: Any, spreads: dict[str, Any]) -> Figure:
    drawing, panels = below_each_other(len(a.settings.states) + 1)
    track.plot(panels[:-1], label=f"{name} mean")
    for line, (which, spread) in zip(("-", "--"), spreads.items(), strict=False):
        spread.plot(panels[-1], label=which if len(spreads) > 1 else None, ls=line)
    for axes in panels:
        axes.set_xlabel("")
    panels[-1].set(xlabel="row", ylabel="relative width")
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    last = f"The last {LONGEST:,} rows. " if a.test.lengths[i] > LONGEST else ""
    caption = (
        f"{_which(a, i)}{last}Above: {name} mean of each state with its central "
        f"{percent(a.settings.level)} interval"
        + ("" if a.truth is None else ", and the state itself where it is known")
        + ". Below: the width of the interval, as a share of that of all training states (1: "
        "nothing is known). Shaded steps brought no news: an observation is missing or, marked ×, "
        "unlike any of the training file."
    )
    return Figure(drawing, caption, f"track-{i}")


def _which(a: Tracks, i: int) -> str:
    return f"{a.settings.sequence} {a.test.names[i]}. " if a.settings.sequence else ""


def forecast_figure(a: Tracks, i: int) -> Figure:
    """What comes after trajectory `i`: its last rows, then the forecast."""
    s, steps = a.test.slices[i], a.settings.horizon
    rows = slice(max(s.start, s.stop - BEFORE), s.stop)
    before = a.table.iloc[rows]
    after = a.forecasts.iloc[i * steps : (i + 1) * steps]
    now = np.arange(rows.start - s.stop + 1, 1)
    drawing, panels = below_each_other(len(a.settings.states))
    for axes, name in zip(panels, a.settings.states, strict=True):
        _draw_band(axes, now, before, name, color=CURVE, label="filtered")
        _draw_band(axes, after["step"], after, name, color=PLAIN, label="forecast")
        axes.set_ylabel(name)
    panels[0].legend(frameon=False, fontsize=8)
    panels[-1].set_xlabel("rows after the last")
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    caption = f"{_which(a, i)}Means and central {percent(a.settings.level)} intervals."
    return Figure(drawing, caption, f"forecast-{i}")


def _draw_band(axes, t, table, name: str, *, color: str, label: str) -> None:
    mean, lower, upper = (table[f"{name}_{what}"] for what in ("mean", "lower", "upper"))
    axes.fill_between(t, lower, upper, color=color, alpha=0.2, lw=0)
    axes.plot(t, mean, color=color, lw=1.8, label=label, marker="." if len(mean) == 1 else None)


def below_each_other(count: int) -> tuple[Any, np.ndarray]:
    """A drawing of panels that share their horizontal axis; nothing global is touched."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawing

    with mpl.rc_context(STYLE):
        drawing = Drawing(figsize=(6.8, 1.0 + 1.9 * count), layout="constrained")
        return drawing, np.ravel(drawing.subplots(count, sharex=True))


# ---------------------------------------------------------------- page


def report(a: Tracks, source: str, command: Sequence[str]) -> Page:
    """The page."""
    states, observed = " and ".join(a.settings.states), " and ".join(a.settings.observed)
    return Page(
        title=f"{states}, followed through {observed}",
        subtitle=f"Kernel Bayes filter · {source} · {len(a.test.frame):,} rows",
        lead=[
            Prose(
                "Where the hidden states are at each step, given the observations up to it"
                + (" (filtered) and those after it too (smoothed)" if a.smoothed else "")
                + ". Both how the states move and how they are observed were learned from rows "
                "with the states in sight: no model is written down anywhere."
            ),
            *(Note(text) for text in notes(a)),
        ],
        sections=[
            Section("The track", [*figures(a), answers(a)]),
            *_further_sections(a),
            Section("The fit in numbers", [Numbers(facts(a))]),
            Section("Before you rely on it", [Bullets(CAVEATS)]),
            Section("Using the model", [Code(_snippet(a)), *again(command)]),
        ],
    )


def _further_sections(a: Tracks) -> list[Section]:
    found = []
    if a.errors is not None:
        found.append(Section("How far from the truth", [errors(a), _explained(a)]))
    if a.ahead is not None:
        drawn: list[Block] = [forecast_figure(a, i) for i in range(min(DRAWN, len(a.test.lengths)))]
        found.append(Section("What comes next", [*drawn, forecast(a)]))
    return found


def _explained(a: Tracks) -> Prose:
    assert a.truth is not None
    known = int((~np.isnan(a.truth)).any(axis=1).sum())
    return Prose(
        f"Root mean squared errors over the {known:,} rows of the test file whose states are "
        "known; the filter did not see them. The straight line is least squares on the "
        "observations of the same row, without memory (the average of the training states where "
        f"they are missing or collapsed). The last columns: how many of the states lie inside the "
        f"{percent(a.settings.level)} intervals."
    )


def _snippet(a: Tracks) -> str:
    columns = ", ".join(f"{c!r}: [...]" for c in a.settings.observed)
    one = ", ".join(c for c in a.settings.observed)
    return (
        "import pandas as pd, kernelmean as km\n\n"
        f"model = km.load({MODEL!r})\n"
        f"track = model.filter(pd.DataFrame({{{columns}}}))  # or smooth\n"
        f"track.mean(), track.interval({a.settings.level})\n\n"
        "belief = model.start()  # observations one at a time\n"
        f"belief.update([{one}]).mean()\n"
        "belief.predict().mean()"
    )


def outputs(a: Tracks, page: Page) -> dict[str, Callable[[Path], None]]:
    """The files of the command, as functions of the path to write to."""
    texts = {"track.csv": a.table.to_csv(index_label="row")}
    if a.ahead is not None:
        texts["forecast.csv"] = a.forecasts.to_csv(index=False)
    writers = {name: partial(write_text, text=text) for name, text in texts.items()}
    html = page.html()
    return {**writers, MODEL: a.model.save, "report.html": partial(write_text, text=html)}

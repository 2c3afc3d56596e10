"""`kernelmean hmm`: the regimes in words, figures, a page and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..display import CURVE, PLAIN, EmissionDisplay, HistoryDisplay, RegimeDisplay, SpectrumDisplay
from .densityreport import names
from .files import write_text
from .filterreport import below_each_other, percent
from .hmm import Regimes
from .ivreport import MODEL, again, kernel_words
from .page import (
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
    canvas,
    number,
    numbers,
)

SHOWN = 12  # rows in a table
DRAWN = 3  # sequences drawn
LONGEST = 10_000  # rows of a sequence drawn
BEFORE = 40  # rows drawn before a forecast
COLUMNS = 4  # drawn, or in a table
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
    "A row with any of the columns missing counts as missing altogether.",
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
        f"State {k} holds in {percent(share)} of the rows, {number(float(stay), 2)} at a time on "
        "average."
        for k, (share, stay) in enumerate(zip(a.model.startprob_, a.stays, strict=True))
    ]
    last = a.filtered[-1]
    end = f"The file ends in state {last.argmax()} with probability {percent(last.max())}."
    return " ".join([*said[:SENTENCES], end])


def facts(a: Regimes) -> list[tuple[str, str, str]]:
    """Every number of the fit: its name, its value, what it means."""
    m, gain = a.model, a.gains.mean()
    error = a.gains.std() / len(a.gains) ** 0.5
    return [
        ("Rows", _amount(a), f"{int((~a.seen).sum()):,} of them missing."),
        ("States", *_count(a)),
        (
            "Kernel",
            kernel_words(m.kernel_, a.settings.columns),
            "Embeds the rows. Lengthscales are in the units of the columns.",
        ),
        ("Learned by", *_learning(a)),
        ("Bandwidth", _bandwidth(a), "Of the densities, in the units of the columns."),
        ("Inference", *_inference(a)),
        (
            "What the past tells",
            f"{number(float(gain))} ± {number(float(error), 2)}",
            "How much more log-likelihood a row has given the rows before it than without them: "
            "the use of knowing the state. In the very rows learned from.",
        ),
    ]


def _amount(a: Regimes) -> str:
    n, count = len(a.series.frame), len(a.series.lengths)
    return f"{n:,}" if count == 1 else f"{n:,} in {count:,} sequences"


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


def _bandwidth(a: Regimes) -> str:
    width = a.model.bandwidth_
    if width is None:
        return "by rule of thumb"
    each = np.broadcast_to(np.asarray(width, dtype=float), len(a.settings.columns))
    return ", ".join(number(float(w)) for w in np.unique(each))


def _inference(a: Regimes) -> tuple[str, str]:
    if a.settings.inference == "forward":
        return "by densities", "Bayes' rule with the densities of the states."
    return (
        f"kernel Bayes' rule, λ = {number(float(a.model.reg_))}",
        "From the embedded laws of the states, without their densities. A larger λ trusts an "
        "observation less.",
    )


# ---------------------------------------------------------------- tables


def states(a: Regimes) -> Grid:
    """How often each state holds, for how long, and what it emits."""
    shown = a.settings.columns[:COLUMNS]
    header = ["state", "share of rows", "rows at a time", "entered"]
    columns: list[Sequence[str]] = [
        [str(k) for k in range(a.n_states)],
        [f"{100 * share:.1f}%" for share in a.model.startprob_],
        [number(float(stay)) for stay in a.stays],
        [f"{count:,}" for count in a.entries],
    ]
    for j, name in enumerate(shown):
        header += [f"{name}: mean", f"{percent(a.settings.level)} interval"]
        columns += _mean_and_interval(*(a.laws[what][:, j] for what in ("mean", "lower", "upper")))
    rows = list(zip(*columns, strict=True))
    return Grid(header, rows, "The states, from the most to the least frequent")


def _mean_and_interval(mean, lower, upper) -> list[list[str]]:
    cells = np.reshape(numbers([*mean, *lower, *upper]), (3, -1))
    ends = zip(cells[1], cells[2], strict=True)
    return [list(cells[0]), [f"{low} to {high}" for low, high in ends]]


def chain(a: Regimes) -> Grid:
    """Transition probabilities."""
    header = ["from", *(f"to state {k}" for k in range(a.n_states))]
    rows = [
        [f"state {k}", *(f"{100 * p:.1f}%" for p in row)] for k, row in enumerate(a.model.transmat_)
    ]
    return Grid(header, rows, "Where the next row's state is, given this row's")


def orders(a: Regimes) -> list[tuple[str, str, str]]:
    """What the rules say of the number of states: rule, number, how it counts."""
    found = dict(a.orders)
    if a.order is not None:
        found[a.order.method] = a.order
    return [(f"By {name}", str(int(order)), RULES[name]) for name, order in found.items()]


def forecast(a: Regimes) -> Grid:
    """Probabilities of the states, and means and intervals of the columns, after the file."""
    part = a.forecasts.head(SHOWN)
    front = ["step"] if a.settings.sequence is None else [a.settings.sequence, "step"]
    header, columns = list(front), [[str(v) for v in part[name]] for name in front]
    for k in range(a.n_states):
        header += [f"state {k}"]
        columns += [[percent(p) for p in part[f"probability_{k}"]]]
    for name in a.settings.columns[:COLUMNS]:
        header += [name, f"{percent(a.settings.level)} interval"]
        columns += _mean_and_interval(*(part[f"{name}_{w}"] for w in ("mean", "lower", "upper")))
    more = f" (the first {SHOWN} of {len(a.forecasts):,} rows)" if len(a.forecasts) > SHOWN else ""
    return Grid(header, list(zip(*columns, strict=True)), f"After the end of the file{more}")


# ---------------------------------------------------------------- figures


def regimes(a: Regimes) -> list[Figure]:
    """The states over time, for the first sequences."""
    whole = RegimeDisplay.from_estimator(
        a.model, a.series.frame, times=_times(a), lengths=a.series.lengths
    )
    return [_regime_figure(a, i, part(whole, s)) for i, s in enumerate(_sequences(a)[:DRAWN])]


def _times(a: Regimes) -> np.ndarray:
    index = a.series.frame.index.to_numpy()
    return index if a.series.times is None else a.series.times


def _sequences(a: Regimes) -> list[slice]:
    return a.series.rows.slices


def part(display: RegimeDisplay, rows: slice) -> RegimeDisplay:
    """A display of some rows, the last `LONGEST` at most."""
    rows = slice(max(rows.start, rows.stop - LONGEST), rows.stop)
    return replace(
        display,
        times=display.times[rows],
        probabilities=display.probabilities[rows],
        series=display.series[rows],
        sequences=[slice(0, rows.stop - rows.start)],
    )


def _regime_figure(a: Regimes, i: int, display: RegimeDisplay) -> Figure:
    drawing, panels = below_each_other(len(display.names) + 1)
    display.plot(panels)
    panels[-1].set_xlabel(a.settings.time or "row")
    last = f"The last {LONGEST:,} rows. " if a.series.lengths[i] > LONGEST else ""
    above = (
        "Above: each row in the colour of its most probable state. Below: the "
        if display.names
        else "The "
    )
    caption = f"{_which(a, i)}{last}{above}probabilities of the states, given the whole file."
    return Figure(drawing, caption, f"states-{i}")


def _which(a: Regimes, i: int) -> str:
    return f"{a.settings.sequence} {a.series.rows.names[i]}. " if a.settings.sequence else ""


def emissions(a: Regimes) -> list[Figure]:
    """The densities of the first columns in each state."""
    return [_emission_figure(a, name) for name in a.settings.columns[:COLUMNS]]


def _emission_figure(a: Regimes, name: str) -> Figure:
    drawing, axes = canvas()
    EmissionDisplay.from_estimator(a.model, a.series.frame, column=name).plot(axes)
    caption = (
        f"Density of {name} in each state, with the share of the rows that are in it; dashed: all "
        "states together. The histogram is of the data."
    )
    return Figure(drawing, caption, f"emission-{name}")


def spectrum(a: Regimes) -> Figure:
    """What speaks for a number of states."""
    order = a.orders["correlations"] if a.order is None else a.order
    drawing, axes = canvas(height=3.4)
    display = SpectrumDisplay.from_order(order)
    display.plot(axes)
    given = f"{a.n_states} was given. " if a.order is None else ""
    caption = f"{given}By {order.method}: {int(order)}. {RULES[order.method]}"
    return Figure(drawing, caption, "spectrum")


def history(a: Regimes) -> Figure:
    """How EM climbed."""
    drawing, axes = canvas(height=2.8)
    HistoryDisplay.from_estimator(a.model).plot(axes)
    caption = "EM: the mean log-likelihood of a row, each row left out of the laws it is judged by."
    return Figure(drawing, caption, "history")


def forecast_figure(a: Regimes, i: int) -> Figure:
    """What comes after sequence `i`: its last rows, then the forecast."""
    s, steps, shown = _sequences(a)[i], a.settings.horizon, a.settings.columns[:COLUMNS]
    before = a.series.frame.iloc[max(s.start, s.stop - BEFORE) : s.stop]
    after = a.forecasts.iloc[i * steps : (i + 1) * steps]
    now = np.arange(1 - len(before), 1)
    drawing, panels = below_each_other(len(shown) + 1)
    for axes, name in zip(panels, shown, strict=False):
        axes.plot(now, before[name], color=CURVE, lw=1.2, marker=".", label="observed")
        _draw_band(axes, after, name)
        axes.set_ylabel(name)
    panels[0].legend(frameon=False, fontsize=8)
    _draw_states(panels[-1], a, s, now, after)
    caption = (
        f"{_which(a, i)}Above: mean and central {percent(a.settings.level)} interval of what comes "
        "next. Below: probabilities of the states, given the rows up to then."
    )
    return Figure(drawing, caption, f"forecast-{i}")


def _draw_band(axes, after, name: str) -> None:
    mean, lower, upper = (after[f"{name}_{what}"] for what in ("mean", "lower", "upper"))
    axes.fill_between(after["step"], lower, upper, color=PLAIN, alpha=0.2, lw=0)
    axes.plot(after["step"], mean, color=PLAIN, lw=1.8, label="forecast", marker=".")


def _draw_states(axes, a: Regimes, rows: slice, now: np.ndarray, after) -> None:
    ahead = after[[f"probability_{k}" for k in range(a.n_states)]].to_numpy()
    display = RegimeDisplay(
        np.concatenate([now, after["step"]]),
        np.vstack([a.filtered[rows][-len(now) :], ahead]),
        np.empty((len(now) + len(ahead), 0)),
        [],
        [f"state {k}" for k in range(a.n_states)],
        [slice(0, len(now) + len(ahead))],
    )
    display.plot(axes)
    axes.axvline(0.5, color="white", lw=1.5)
    axes.set_xlabel("rows after the last")
    axes.xaxis.get_major_locator().set_params(integer=True)


# ---------------------------------------------------------------- page


def report(a: Regimes, source: str, command: Sequence[str]) -> Page:
    """The page."""
    return Page(
        title=f"{names(a.settings.columns)}: {count_words(a)}",
        subtitle=f"Hidden Markov model · {source} · {len(a.series.frame):,} rows",
        lead=[
            Prose(
                "A chain that is not seen moves from state to state, and each row is drawn from "
                "the law of the state it finds. The states, their laws and how they follow each "
                "other were learned from the rows alone; no family of distributions is assumed."
            ),
            Prose(headline(a)),
            *(Note(text) for text in a.notes),
        ],
        sections=[
            Section("The states over time", regimes(a)),
            Section("What each state emits", [*emissions(a), states(a)]),
            Section("How they follow each other", [chain(a)]),
            *_next(a),
            Section("How many states", [spectrum(a), Numbers(orders(a))]),
            Section("The fit in numbers", [Numbers(facts(a)), *_climb(a)]),
            Section("Before you rely on it", [Bullets(CAVEATS)]),
            Section("Using the model", [Code(_snippet(a, source)), *again(command)]),
        ],
    )


def _climb(a: Regimes) -> list[Block]:
    return [history(a)] if len(a.model.history_) > 1 else []


def _next(a: Regimes) -> list[Section]:
    if a.ahead is None:
        return []
    drawn = [forecast_figure(a, i) for i in range(min(DRAWN, len(a.series.lengths)))]
    return [Section("What comes next", [*drawn, forecast(a)])]


def _snippet(a: Regimes, source: str) -> str:
    reader = "read_parquet" if source.endswith((".parquet", ".pq")) else "read_csv"
    return (
        "import pandas as pd, kernelmean as km\n\n"
        f"model = km.load({MODEL!r})\n"
        f"rows = pd.{reader}({source!r})[{a.settings.columns!r}]\n"
        "model.predict_proba(rows)  # given all rows; filter: given those before\n"
        f"model.forecast(rows, 5).interval({a.settings.level:g})\n\n"
        "belief = model.start()  # one row at a time\n"
        "belief.update(rows.iloc[0]).probabilities\n"
        "belief.predict().mean()"
    )


def outputs(a: Regimes, page: Page) -> dict[str, Callable[[Path], None]]:
    """The files of the command, as functions of the path to write to."""
    texts: dict[str, Any] = {"states.csv": a.table.to_csv(index_label="row")}
    if a.ahead is not None:
        texts["forecast.csv"] = a.forecasts.to_csv(index=False)
    writers = {name: partial(write_text, text=text) for name, text in texts.items()}
    html = page.html()
    return {**writers, MODEL: a.model.save, "report.html": partial(write_text, text=html)}

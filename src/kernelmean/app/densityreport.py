"""`kernelmean density`: the distributions in words, figures, a page and files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from ..core.checks import NumericalWarning
from ..display import ConditionalDensityDisplay, DensityContourDisplay, DensityMapDisplay
from ..kernels import Linear
from .density import FEW, Densities
from .files import write_text
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
    canvas,
    number,
    numbers,
)

SHOWN = 12  # rows in a table
DRAWN = 7  # rows in a picture
PANELS = 6  # of contours
COLUMNS = 4  # of x in a table; more would not fit on a line
MAPS = 6  # pictures along single columns

CAVEATS = (
    "These are distributions of what was observed, not effects: they tell what to expect where x "
    "has a value, not what would happen if x were set to it.",
    "Intervals are estimates of where new rows fall. They do not carry the uncertainty of the "
    "estimate itself, which is large where few rows are alike.",
    "Away from the data the density returns to that of all rows together.",
    "A density is smooth: probability piled up at single values (zeros, rounded numbers) is spread "
    "over a bandwidth around them.",
    "Weights may be negative; the density is the positive part of their sum, of area one.",
)


# ---------------------------------------------------------------- words


def names(columns: Sequence[str]) -> str:
    """'a, b and c'."""
    *first, last = columns
    return f"{', '.join(first)} and {last}" if first else last


def percent(a: Densities) -> str:
    """The level of the intervals."""
    return f"{100 * a.settings.level:g}%"


def headline(a: Densities, name: str) -> str:
    """One sentence: where a column lies at the first row, and what knowing x has brought."""
    row = a.table.iloc[a.rows.middle]
    what = ("median", "lower", "upper")
    middle, low, high = numbers([row[f"{name}_{end}"] for end in what])
    share = a.narrowing[a.y.index(name)]
    return (
        f"{_where(a)}, half of {name} lies below {middle}, and {percent(a)} between {low} and "
        f"{high}.{_told(a, share)}"
    )


def _told(a: Densities, share: float) -> str:
    """What knowing x brings; nothing where all rows have (nearly) the same y."""
    if np.isnan(share):
        return ""
    return (
        f" Knowing {names(a.x)} makes the interval of a typical row {100 * share:.0f}% as wide as "
        "one for all rows."
    )


def _where(a: Densities) -> str:
    if not a.rows.chosen:
        return f"In row {a.rows.frame.index[0]}"
    if len(a.x) > 1:
        return f"With {names(a.x)} at their medians"
    return f"With {a.x[0]} at {number(float(a.rows.frame.iloc[a.rows.middle, 0]))}"


def facts(a: Densities) -> list[tuple[str, str, str]]:
    """Every number of the fit: its name, its value, what it means."""
    m = a.model
    chosen = "Given." if a.settings.bandwidth else "Chosen by the leave-one-out score."
    around = "residuals" if m.location_ is not None else names(a.y)
    widths = ", ".join(f"{y} {number(float(w))}" for y, w in zip(a.y, m.bandwidth_, strict=True))
    return [
        ("Rows", number(len(a.data)), "Rows of the file that were used."),
        ("Form", *_form(a)),
        (
            "Bandwidth",
            widths,
            f"By how much each point of {around} is smeared out, in the units of the column. "
            f"{chosen}",
        ),
        (
            "Kernel on x",
            kernel_words(m.kernel_x_, a.x),
            "Weights are straight lines in each column."
            if isinstance(m.kernel_x_, Linear)
            else "Lengthscales are in the units of the columns: rows closer than this share their "
            "density. Each was searched from the median distance between two rows: a long one says "
            "that the column matters little to the shape.",
        ),
        ("Rank", number(m.features_.rank_), "Landmark rows that stand for all in the kernel."),
        (
            "Regulariser, λ",
            number(m.reg_),
            "Per row. Chosen by the leave-one-out score. Larger is closer to one density for all.",
        ),
        (
            "Leave-one-out score",
            number(m.loo_score_),
            "Integrated squared error up to a constant, each row left out in turn; lower is "
            "better, in the units of one over y.",
        ),
        *_intervals(a),
    ]


def _form(a: Densities) -> tuple[str, str]:
    if a.model.location_ is not None:
        return (
            "around a smooth mean",
            f"Of two forms compared, the better: {names(a.x)} mostly move {names(a.y)}, so the "
            "density is that of the distance from a smooth mean, and changes in shape as well.",
        )
    if a.settings.bandwidth:
        return (
            "of the column itself",
            "No mean is taken away first: that is only tried where the bandwidth is chosen.",
        )
    return (
        "of the column itself",
        "Of two forms compared, the better: taking away a smooth mean first would not help.",
    )


def _intervals(a: Densities) -> list[tuple[str, str, str]]:
    rows = []
    for name, inside, share in zip(a.y, a.inside, a.narrowing, strict=True):
        rows += [
            (
                f"Rows inside their {percent(a)} interval, {name}",
                f"{100 * inside:.0f}%",
                "Of the rows learned from; of new rows somewhat fewer.",
            ),
            (
                f"Width of the intervals, {name}",
                "unknown" if np.isnan(share) else f"{100 * share:.0f}%",
                f"Their median, beside the width over all rows: how much x tells of {name}.",
            ),
        ]
    return rows


def answers(a: Densities, name: str) -> Grid:
    """Mean, median and intervals of one column at the first rows."""
    part = a.table.iloc[:SHOWN]
    ends = ["mean", "median", "lower", "upper", "shortest_lower", "shortest_upper"]
    ends += ["mode"] if len(a.y) == 1 else []
    values = part[[f"{name}_{end}" for end in ends]].to_numpy()
    cells = np.reshape(numbers(values.ravel()), values.shape)
    # a column named like a row would stand twice: the row's name is shown only where it says more
    shown = a.x if len(a.x) <= COLUMNS else []
    header = ["Row", *shown, "Mean", "Median", f"{percent(a)} interval", "Shortest"]
    header += ["Mode"] if len(a.y) == 1 else []
    rows = [
        (
            str(label),
            *(f"{x:.5g}".replace("-", "−") for x in part.loc[label, shown]),
            *c[:2],
            f"{c[2]} to {c[3]}",
            f"{c[4]} to {c[5]}",
            *c[6:],
        )
        for label, c in zip(part.index, cells, strict=True)
    ]
    more = f" (the first {SHOWN} of {len(a.table):,} rows)" if len(a.table) > SHOWN else ""
    return Grid(header, rows, f"{name} given {names(a.x)}{more}")


# ---------------------------------------------------------------- figures


def ridges(a: Densities, name: str) -> Figure:
    """The density of one column at the first rows."""
    rows = a.rows.frame.iloc[:DRAWN]
    labels = list(a.rows.labels[:DRAWN]) or None
    if labels is None and len(a.x) > 2:
        labels = [f"row {label}" for label in rows.index]
    return _ridges(a, name, rows, labels, f"density-{name}", _rest(a))


def _rest(a: Densities) -> str:
    """What the labels of representative rows leave out."""
    named_only = a.rows.chosen and len(a.x) > 1
    return " What a label does not name is at its median." if named_only else ""


def _ridges(a: Densities, name: str, rows: pd.DataFrame, labels, file: str, held: str) -> Figure:
    display = ConditionalDensityDisplay.from_estimator(
        a.model, rows, a.target, output=a.y.index(name), level=a.settings.level, labels=labels
    )
    drawing, axes = canvas(height=1.0 + 0.62 * len(rows))
    display.plot(axes)
    caption = (
        f"Density of {name}, with its median (line) and central {percent(a)} interval (dark). "
        f"Ticks are the rows of the data most alike.{held}"
    )
    return Figure(drawing, caption, file)


def along(a: Densities, column: str, name: str) -> Figure:
    """The density of one outcome as one column moves: a map, or ridges where it has few values."""
    values = np.unique(a.data[column])
    file = f"along-{column}-{name}"
    display = DensityMapDisplay.from_estimator(
        a.model, a.X, a.target, column=column, output=a.y.index(name)
    )
    held = _held(display.held)
    if len(values) <= FEW:
        rows = pd.DataFrame({**display.held, column: values})[a.x]
        return _ridges(a, name, rows, None, file, held)
    drawing, axes = canvas()
    display.plot(axes)
    caption = (
        f"{name} along {column}: the darker, the denser. Lines are quantiles, half of the rows "
        f"below the thick one; dots are the data.{held}"
    )
    return Figure(drawing, caption, file)


def _held(others: dict[str, float]) -> str:
    if not others:
        return ""
    listed = "; ".join(f"{c} = {number(v)}" for c, v in others.items())
    return f" Other columns are held at their medians: {listed}. In the data they are not."


def contours(a: Densities, pair: tuple[str, str]) -> Figure:
    """The density of two outcomes together at the first rows."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawing

    rows = a.rows.frame.iloc[:PANELS]
    labels = list(a.rows.labels[:PANELS]) or None
    if labels is None and len(a.x) > 2:
        labels = [f"row {label}" for label in rows.index]
    display = DensityContourDisplay.from_estimator(
        a.model, rows, a.target, outputs=pair, labels=labels
    )
    across = min(len(rows), 3)
    down = -(-len(rows) // across)
    with mpl.rc_context(STYLE):
        width = 6.8 if across > 1 else 4.4
        drawing = Drawing(figsize=(width, 0.4 + 2.4 * down), layout="constrained")
        panels = drawing.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    display.plot(panels)
    caption = (
        f"{pair[0]} and {pair[1]} together: the smallest regions that hold 50%, 80% and 95% of the "
        f"density. Dots are the rows of the data most alike.{_rest(a)}"
    )
    return Figure(drawing, caption, f"contours-{pair[0]}-{pair[1]}")


# ---------------------------------------------------------------- page and files


def report(a: Densities, source: str, command: Sequence[str]) -> Page:
    """The page."""
    with warnings.catch_warnings():  # said once already
        warnings.simplefilter("ignore", NumericalWarning)
        return _page(a, source, command)


def _page(a: Densities, source: str, command: Sequence[str]) -> Page:
    found: list[Block] = []
    for name in a.y:
        found += [ridges(a, name), answers(a, name)]
    found += [contours(a, pair) for pair in list(combinations(a.y, 2))[:3]]
    pairs = [(column, name) for name in a.y for column in a.x][:MAPS]
    return Page(
        title=f"{names(a.y)} given {names(a.x)}",
        subtitle=f"Conditional density · {source} · {len(a.data):,} rows",
        lead=[
            Prose(
                f"Not only where {names(a.y)} lies on average, but how it is spread, whether it is "
                f"skewed, and whether it has more than one peak, as {names(a.x)} change: learned "
                "from the rows, with no family of distributions assumed."
            ),
            *(Prose(headline(a, name)) for name in a.y),
            *(Note(text) for text in a.notes),
        ],
        sections=[
            Section("The densities", found),
            Section("Along each column", [along(a, column, name) for column, name in pairs]),
            Section("The fit in numbers", [Numbers(facts(a))]),
            Section("Before you rely on it", [Bullets(CAVEATS)]),
            Section("Using the model", _using(a, source, command)),
        ],
    )


def _using(a: Densities, source: str, command: Sequence[str]) -> list[Block]:
    return [
        Prose(
            "The model of this page, for new rows. The file keeps the rows it learned from: do not "
            "send it where the data may not go."
        ),
        Code(_loading(a)),
        Prose("The same from the data:"),
        Code(_fitting(a, source)),
        *again(command),
    ]


def _loading(a: Densities) -> str:
    return (
        "import pandas as pd, kernelmean as km\n\n"
        f"model = km.load({MODEL!r})\n"
        f"rows = pd.DataFrame({{{', '.join(f'{c!r}: [...]' for c in a.x)}}})\n"
        "model.predict_quantile(rows, [0.1, 0.5, 0.9])\n"
        f"model.predict_interval(rows, {a.settings.level:g}, 'shortest')\n"
        "model.sample(rows, 1000, random_state=0)"
    )


def _fitting(a: Densities, source: str) -> str:
    kernel, widths = a.settings.kernel, a.settings.bandwidth
    options = [] if kernel == "gaussian" else [repr(kernel)]
    if widths is not None:
        options.append(f"bandwidth={widths[0] if len(widths) == 1 else list(widths)}")
    reader = "read_parquet" if source.endswith((".parquet", ".pq")) else "read_csv"
    y = repr(a.y[0]) if len(a.y) == 1 else repr(a.y)
    data = f"data[{a.x!r}], data[{y}]"
    return (
        "import pandas as pd, kernelmean as km\n\n"
        f"data = pd.{reader}({source!r}).dropna(subset={[*a.y, *a.x]!r})\n"
        f"model = km.ConditionalDensity({', '.join(options)}).fit({data})\n"
        f"km.display.DensityMapDisplay.from_estimator(model, {data}, column={a.x[0]!r}).plot()"
    )


def outputs(a: Densities, page: Page) -> dict[str, Callable[[Path], None]]:
    """The files of the command, as functions of the path to write to."""
    table, html = a.table.to_csv(index_label="row"), page.html()
    return {
        "density.csv": lambda path: write_text(path, table),
        MODEL: a.model.save,
        "report.html": lambda path: write_text(path, html),
    }

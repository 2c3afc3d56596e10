"""`kernelmean iv`: the analysis in words, figures, a page and files."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ..display import CURVE, DATA
from ..instruments.formula import names_of
from ..instruments.inference import WEAK
from ..instruments.rows import kind_of
from ..kernels import Kernel, Linear
from .files import write_text
from .iv import LEVEL, PLAIN, PREDICTION, Analysis, sample
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

LEVELS = (0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95)
FEW = 10  # different values of the instruments
MODEL = "model.km"


# ---------------------------------------------------------------- words

LEARNS = "Stage 1 learns how the regressors depend on the instruments; stage 2"
STAGES = {
    "loo": f"{LEARNS} learns the outcome from what stage 1 predicts. Every row serves both, and "
    "is left out of its own prediction.",
    "share": f"{LEARNS}, on other rows, learns the outcome from what stage 1 predicts.",
    "folds": f"{LEARNS} learns the outcome from what stage 1, learned without the rows of the same "
    "fold, predicts.",
    "samples": f"{LEARNS} learns the outcome from what stage 1 predicts. Rows without an outcome "
    "serve stage 1 alone, rows without regressors stage 2 alone.",
}
SHARE_LOSSES = ("on the rows of stage 2", "on the rows of stage 1")
OWN_LOSSES = ("at rows left out in turn", "at rows left out in turn")


def facts(a: Analysis) -> list[tuple[str, str, str]]:
    """Every number of the fit: its name, its value, what it means."""
    m, kind = a.model, kind_of(a.settings.split)
    losses = SHARE_LOSSES if kind == "share" else OWN_LOSSES
    return [
        ("Rows", number(len(a.frame)), "Rows of the file that were used."),
        ("Rows in stage 1 and stage 2", f"{m.n_stage1_:,} and {m.n_stage2_:,}", STAGES[kind]),
        *_kernel_facts(a),
        (
            "Regulariser of stage 1, λ",
            number(m.reg_stage1_),
            f"Per row. Chosen to predict the regressors best {losses[0]}.",
        ),
        (
            "Regulariser of stage 2, ξ",
            number(m.reg_stage2_),
            f"Per row. Chosen to predict the outcome best {losses[1]}. Larger is smoother.",
        ),
        (
            "Loss of stage 1",
            number(m.loss_stage1_),
            "Mean squared distance, in the feature space of the kernel, between the regressors and "
            f"their prediction, {losses[0]}.",
        ),
        (
            "Loss of stage 2",
            number(m.loss_stage2_),
            f"Mean squared error of the outcome {losses[1]}. The variance of {a.columns.y} is "
            f"{number(float(a.frame[a.columns.y].var(ddof=0)))}.",
        ),
        *_score_facts(a),
    ]


def _kernel_facts(a: Analysis) -> list[tuple[str, str, str]]:
    m = a.model
    searched = any((scales != 1).any() for scales in (m.scales_x_, m.scales_z_))
    each = (
        "Each was searched from the median distance between two rows: a long one says that the "
        "column matters little, or in a straight line."
        if searched
        else "Each is the median distance between two rows."
    )
    straight = "A straight line in each column, with an intercept."
    beside = {None: "none", 0: "an intercept", 1: "a plane"}
    return [
        (
            "Kernel on the regressors",
            kernel_words(m.kernel_x_, a.columns.regressors),
            straight
            if isinstance(m.kernel_x_, Linear)
            else "Lengthscales are in the units of the columns: points closer than this look "
            f"alike. {each}",
        ),
        (
            "Kernel on the instruments",
            kernel_words(m.kernel_z_, [*a.columns.z, *a.columns.c]),
            "The same for the instruments"
            + (" and the exogenous columns." if a.columns.c else "."),
        ),
        (
            "Trend beside the kernel",
            beside.get(m.trend_, f"a polynomial of degree {m.trend_}"),
            "A part of the curve that is not regularised; predictions far from the data follow it.",
        ),
    ]


def _score_facts(a: Analysis) -> list[tuple[str, str, str]]:
    if a.plain is None:
        return []
    iv, plain = a.scores
    return [
        (
            "R² of the structural curve",
            number(iv),
            "Share of the variance of the outcome it accounts for. It is not a measure of success: "
            "the curve gives up the part of the fit that confounding would explain.",
        ),
        ("R² of plain kernel ridge", number(plain), "For comparison; regression maximises this."),
    ]


def strength(a: Analysis) -> list[tuple[str, str, str]]:
    """What the first stage says about each endogenous column."""
    given = "the instruments and the exogenous columns" if a.columns.c else "the instruments"
    rows = []
    for x, f, df in zip(a.columns.x, a.strength.f, a.strength.df, strict=True):
        stage = a.first_stages[x]
        alone = (
            f" The exogenous columns alone: {number(stage.r2_exogenous)}." if a.columns.c else ""
        )
        rows += [
            (
                f"First-stage R² of {x}",
                number(stage.r2),
                f"Share of its variance predicted from {given}, each row left out in turn.{alone}",
            ),
            (
                f"First-stage F of {x}",
                number(float(f)),
                f"Of the instruments, on {number(float(df), 2)} degrees of freedom that they add "
                f"to stage 1. Below {WEAK:.0f} they count as weak by the usual rule of thumb. In a "
                f"linear first stage F is {number(stage.f)}.",
            ),
        ]
    return rows


def tests(a: Analysis) -> list[tuple[str, str, str]]:
    """What the data say about the assumptions, test by test."""
    p = a.model.specification_p_
    rows = []
    if a.endogeneity is not None:
        differ = a.endogeneity.p_value < 0.05
        rows.append(
            (
                "Would regression have done? p-value",
                p_words(a.endogeneity.p_value),
                "Small where the structural curve differs from plain regression by more than "
                "chance. "
                + (
                    "It does here: the regressors are confounded."
                    if differ
                    else "It does not here, which is no proof that regression is right: with "
                    "instruments of this strength a difference may go unnoticed."
                ),
            )
        )
    if np.isfinite(p):
        rows.append(
            (
                "Do the instruments contradict the curve? p-value",
                p_words(p),
                "Small where what the curve leaves unexplained still moves with the instruments: "
                "the curve is too stiff or too smooth, or an instrument acts on the outcome by "
                "itself. " + ("This is the case here." if p < 0.05 else "There is no sign of it."),
            )
        )
    return rows


def effects(a: Analysis) -> Grid | None:
    """Average derivatives with their limits; none for a kernel without derivatives."""
    if not a.effects:
        return None
    rows = [
        (x, *numbers([e.value, e.error, e.low, e.high]), p_words(e.p_value))
        for x, e in a.effects.items()
    ]
    percent = f"{100 * LEVEL:g}%"
    header = ["Column", "Average slope", "Standard error", f"{percent} from", "to", "p-value"]
    return Grid(header, rows, f"How {a.columns.y} moves with each column, on average over the rows")


def kernel_words(kernel: Kernel, names: Sequence[str]) -> str:
    """'Gaussian: price 0.42, day 1.00', from a kernel with one lengthscale per column."""
    scale = getattr(kernel, "lengthscale", None)
    if scale is None:
        return type(kernel).__name__
    each = np.broadcast_to(np.asarray(scale, dtype=float), len(names))
    listed = ", ".join(f"{n} {number(float(s))}" for n, s in zip(names, each, strict=True))
    return f"{type(kernel).__name__}: {listed}"


def warnings_of(a: Analysis) -> list[str]:
    """What the reader must not overlook in this very data set."""
    out = list(a.notes)
    if a.weak:
        out.append(
            f"The instruments are weak for {' and '.join(a.weak)} (first-stage F below "
            f"{WEAK:.0f}): the curve is then mostly the regulariser's choice, either flat or drawn "
            "towards plain regression, and the limits given may be too narrow."
        )
    if a.model.specification_p_ < 0.05:
        out.append(
            f"The instruments contradict the curve (p-value {p_words(a.model.specification_p_)}): "
            "what it leaves unexplained still moves with them. Another kernel or trend may help, "
            "unless an instrument acts on the outcome by itself."
        )
    if a.support <= FEW:
        out.append(
            f"The instruments take only {a.support} different values together. Data fix at most "
            "that many averages of the curve (for given exogenous columns); its shape in between "
            "is the regulariser's choice."
        )
    if a.plain is None:
        out.append(
            "No row has both regressors and outcome, so there is no plain regression to compare "
            "with."
        )
    return out


def caveats(a: Analysis) -> list[str]:
    """What holds for every analysis of this kind."""
    out = [
        "That an instrument acts on the outcome only through the regressors cannot be tested with "
        "these data. It is an assumption about the world, and the curve is only as good as it is.",
        "Weak instruments move the regressors little. The regularisers then flatten the curve, "
        "and a flat curve must not be read as the absence of an effect.",
        "Smoothness is chosen by how well the curve predicts the outcomes as observed, the rule of "
        "Singh et al. (2019). Where confounding is strong this leans towards plain regression: the "
        "true difference between the two curves may be larger than the one drawn.",
        f"The band is meant to hold the whole curve at once, in {100 * LEVEL:g}% of such data "
        "sets, where the instruments are valid and not weak. The limits of an average slope are "
        "meant for that number alone.",
        "Nothing is known beyond the data: curves are drawn between the 2.5% and 97.5% quantiles, "
        "and away from the data every prediction returns to the trend.",
    ]
    if kind_of(a.settings.split) in ("share", "folds"):
        out.append(
            "The rows were divided at random. With few rows another `--seed` gives a visibly "
            "different curve; `--split loo` does not depend on chance."
        )
    return out


def headline(a: Analysis, column: str) -> str:
    """One sentence: what moving the column does, by each method."""
    low, high = a.frame[column].quantile([0.1, 0.9])
    ends = a.partial(column, [low, high])
    change = ends.iloc[1] - ends.iloc[0]
    others = "" if len(a.columns.regressors) == 1 else ", everything else held at its median,"
    plain = (
        "" if a.plain is None else f", and by {signed(change[PLAIN])} according to plain regression"
    )
    return (
        f"Moving {column} from {number(float(low))} to {number(float(high))} (its 10% and 90% "
        f"quantiles){others} changes {a.columns.y} by {signed(change[PREDICTION])} according to "
        f"the structural curve{plain}.{_average(a, column)}"
    )


def _average(a: Analysis, column: str) -> str:
    e = a.effects.get(column)
    if e is None:
        return ""
    low, high = (signed(end) for end in (e.low, e.high))
    return (
        f" Its slope, averaged over the rows, is {signed(e.value)} ({100 * LEVEL:g}% limits: {low} "
        f"to {high})."
    )


def p_words(p: float) -> str:
    """A p-value: nobody needs its exponent."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def signed(value: float) -> str:
    """A change, with its sign."""
    return number(float(value)) if value <= 0 else f"+{number(float(value))}"


# ---------------------------------------------------------------- figures and page


def curve_figure(a: Analysis, column: str) -> Figure:
    """The structural curve along one column, against plain kernel ridge and the data."""
    drawing, axes = canvas()
    a.display(column).plot(axes)
    others = [c for c in a.columns.regressors if c != column]
    medians = a.frame[others].median()
    held = "; ".join(f"{c} = {number(float(v))}" for c, v in medians.items())
    caption = (
        f"{a.columns.y} as a function of {column}: what would happen if {column} were set (solid, "
        f"with a band that holds along the whole curve with {100 * LEVEL:g}% confidence)"
        + (
            ", and what is seen when it is merely observed (dashed)."
            if a.plain is not None
            else "."
        )
        + (f" Other columns are held at their medians: {held}." if others else "")
    )
    return Figure(drawing, caption, f"curve-{column}")


def first_stage_figure(a: Analysis, column: str) -> Figure:
    """The regressor against its single instrument, or against what the instruments predict."""
    stage = a.first_stages[column]
    keep = sample(len(stage.x))
    drawing, axes = canvas(height=3.4)
    known = a.frame.dropna(subset=a.columns.x)
    if len(a.columns.z) == 1 and not a.columns.c and len(stage.x) == len(known):
        z = known[a.columns.z[0]].to_numpy()
        order = np.argsort(z)
        axes.plot(z[keep], stage.x[keep], ".", color=DATA, ms=3, alpha=0.5)
        axes.plot(z[order], stage.fitted[order], color=CURVE, lw=2)
        axes.set(xlabel=a.columns.z[0], ylabel=column)
        caption = (
            f"First stage: {column} against the instrument, with its mean given the instrument."
        )
    else:
        ends = [stage.fitted.min(), stage.fitted.max()]
        axes.plot(stage.fitted[keep], stage.x[keep], ".", color=DATA, ms=3, alpha=0.5)
        axes.plot(ends, ends, color=CURVE, lw=1.5)
        axes.set(xlabel=f"{column}, predicted", ylabel=f"{column}, observed")
        given = "the instruments and the exogenous columns" if a.columns.c else "the instruments"
        caption = (
            f"First stage: {column} against its prediction from {given}. The wider the points "
            "spread sideways along the line, the more there is to learn from."
        )
    return Figure(drawing, caption, f"first-stage-{column}")


def curve_table(a: Analysis, column: str) -> Grid:
    """The curve at a few quantiles of the column."""
    at = a.frame[column].quantile(list(LEVELS)).drop_duplicates()
    table = a.partial(column, at.to_numpy())
    header = ["Quantile", column, "Structural", "From", "To"]
    if a.plain is not None:
        table["difference"] = table[PREDICTION] - table[PLAIN]
        header += ["Plain ridge", "Difference"]
    values = np.reshape(numbers(table.to_numpy().ravel()), table.shape)
    rows = [
        (f"{100 * level:.0f}%", x, *cells)
        for level, x, cells in zip(at.index, numbers(at), values, strict=True)
    ]
    percent = f"{100 * LEVEL:g}%"
    caption = f"{a.columns.y} at quantiles of {column}, with limits for these {len(at)} at once"
    return Grid(header, rows, f"{caption} ({percent})")


def report(a: Analysis, source: str, command: Sequence[str]) -> Page:
    """The page."""
    y, x = a.columns.y, " and ".join(a.columns.x)
    curves: list[Block] = []
    for column in a.columns.x:
        curves += [curve_figure(a, column), curve_table(a, column)]
    average = effects(a)
    curves += [] if average is None else [average]
    stages = [first_stage_figure(a, column) for column in a.columns.x]
    return Page(
        title=f"The effect of {x} on {y}",
        subtitle=f"Kernel instrumental-variable regression · {source} · {len(a.frame):,} rows",
        lead=[
            *(Prose(headline(a, column)) for column in a.columns.x),
            Prose(_design(a)),
            *(Note(text) for text in warnings_of(a)),
        ],
        sections=[
            Section("The structural curve", curves),
            Section("The first stage", [Prose(FIRST_STAGE), *stages, Numbers(strength(a))]),
            *(
                [Section("What the data say about the assumptions", [Numbers(tests(a))])]
                * bool(tests(a))
            ),
            Section("The fit in numbers", [Numbers(facts(a))]),
            Section("Before you rely on it", [Bullets(caveats(a))]),
            Section("Using the model", [Prose(_loading(a)), Code(_snippet(a)), *again(command)]),
        ],
    )


FIRST_STAGE = (
    "Instruments are of use as far as they move the regressor. What they move is the part of its "
    "variation that is free of confounding, and the only part the curve is learned from."
)


def _design(a: Analysis) -> str:
    c = a.columns
    are = "s are" if len(c.z) > 1 else " is"
    held = f" Held fixed, because they may act on both: {_names(c.c)}." if c.c else ""
    return (
        f"Something unseen may drive both {_names(c.x)} and `{c.y}`, so regressing one on the "
        f"other mixes its effect with theirs. The instrument{are} {_names(c.z)}, assumed to act "
        f"on `{c.y}` only through {_names(c.x)}.{held}"
    )


def _names(columns: Sequence[str]) -> str:
    quoted = [f"`{c}`" for c in columns]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _loading(a: Analysis) -> str:
    keeps = "The file keeps up to 10,000 rows of the data, for averages and tests."
    if not a.settings.centred:
        return f"The model predicts, and knows everything on this page. {keeps}"
    return (
        f"The model was fitted to `{a.columns.y}` less its mean, {number(a.centre, 6)}, so that "
        "regularisation pulls towards the average and not towards zero. Add the mean to its "
        f"predictions. {keeps}"
    )


def _snippet(a: Analysis) -> str:
    columns = a.columns.regressors
    if a.data.design is not None:
        columns = names_of(a.data.design.formula)["regressors"]
    mean = f" {'-' if a.centre < 0 else '+'} {abs(a.centre)!r}" if a.settings.centred else ""
    return (
        "import pandas as pd, kernelmean as km\n\n"
        f"model = km.load({MODEL!r})\n"
        f"rows = pd.DataFrame({{{', '.join(f'{c!r}: [...]' for c in columns)}}})\n"
        f"model.predict(rows){mean}\n"
        "model.predict_interval(rows)\n"
        "print(model.summary())"
    )


def again(command: Sequence[str]) -> list[Block]:
    """How to make the page again."""
    return [Prose("The command that made this page:"), Code(shlex.join(command))] if command else []


# ---------------------------------------------------------------- files


def outputs(a: Analysis, rows: pd.DataFrame, page: Page) -> dict[str, Callable[[Path], None]]:
    """The files of the command, as functions of the path to write to."""
    table, html = a.predictions(rows).to_csv(index_label="row"), page.html()
    return {
        "predictions.csv": lambda path: write_text(path, table),
        MODEL: a.model.save,
        "report.html": lambda path: write_text(path, html),
    }

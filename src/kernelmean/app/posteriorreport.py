"""`kernelmean posterior`: the posteriors in words, figures, a page and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..display import CURVE, PLAIN
from .files import write_text
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
    number,
    numbers,
)
from .posterior import Posteriors

SHOWN = 12  # rows in a table
DRAWN = 3  # rows drawn

CAVEATS = (
    "The answer rests on the pairs: they must follow the relation between latent and observation "
    "that holds for the new rows, and cover the latents that the prior allows.",
    "A new observation far from those of the pairs is extrapolated: its posterior returns to what "
    "similar observations allow, and may be far too narrow or too wide.",
    "Intervals hold each latent by itself. They covered between 85% and 95% of the truth at a "
    "level of 90% in simulations from Gaussian models with 1,000 pairs; your data may be harder.",
    "Weights may be negative; densities are drawn from their positive part.",
)


def facts(a: Posteriors) -> list[tuple[str, str, str]]:
    """Every number of the fit: its name, its value, what it means."""
    reg_prior, reg = a.regularisers
    prior = "that of the pairs" if a.prior is None else f"{len(a.prior):,} samples"
    return [
        ("Pairs", number(len(a.pairs)), "Examples of a latent and its observation."),
        ("Prior", prior, "What is believed of the latents before anything is observed."),
        (
            "Kernel on the observations",
            kernel_words(a.model.kernel_x_, a.observed),
            "Lengthscales are in the units of the columns: points closer than this look alike. "
            "Each is the median distance between two rows.",
        ),
        (
            "Kernel on the latents",
            kernel_words(a.model.kernel_z_, a.latent),
            "The same for the latents.",
        ),
        (
            "Regulariser of the prior, η",
            "given" if reg_prior is None else number(reg_prior),
            "Per pair. Chosen by the leave-one-out score of the ratio between prior and pairs.",
        ),
        (
            "Regulariser of the posterior",
            number(reg),
            "Chosen by leave-one-out errors: the largest within one standard error of the best."
            if a.model.rule == "importance"
            else "Chosen by the errors on pairs held out.",
        ),
    ]


def answers(a: Posteriors) -> Grid:
    """Mean and interval of each latent at the first rows."""
    percent = f"{100 * a.level:.0f}%"
    header = ["Row"]
    columns: list[list[str]] = [[str(i) for i in a.table.index[:SHOWN]]]
    for name in a.latent:
        part = a.table[[f"{name}_mean", f"{name}_lower", f"{name}_upper"]].iloc[:SHOWN]
        cells = np.reshape(numbers(part.to_numpy().ravel()), part.shape)
        columns += [list(cells[:, 0]), [f"{low} to {high}" for low, high in cells[:, 1:]]]
        header += [name, f"{percent} interval"]
    more = f" (the first {SHOWN} of {len(a.rows):,} rows)" if len(a.rows) > SHOWN else ""
    rows = list(zip(*columns, strict=True))
    return Grid(header, rows, f"Posterior means and {percent} intervals{more}")


def marginals(a: Posteriors, row: int) -> Figure:
    """Posterior and prior density of each latent at one row."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawing

    from .page import STYLE

    with mpl.rc_context(STYLE):
        width = min(6.8, 3.4 * len(a.latent)) if len(a.latent) > 1 else 5.4
        across = min(len(a.latent), 2)
        down = -(-len(a.latent) // across)
        drawing = Drawing(figsize=(width, 2.6 * down), layout="constrained")
        panels = np.ravel(drawing.subplots(down, across, squeeze=False))
    for axes, name in zip(panels, a.latent, strict=False):
        _draw_marginal(axes, a, row, name)
    for axes in panels[len(a.latent) :]:
        axes.set_axis_off()
    panels[0].legend(frameon=False, fontsize=8)
    label = a.rows.index[row]
    seen = ", ".join(f"{c} = {number(float(v))}" for c, v in a.rows[a.observed].iloc[row].items())
    caption = (
        f"Row {label}: {seen}. Posterior density of each latent (solid), its prior (dashed), and "
        f"the central {100 * a.level:.0f}% interval (shaded)."
    )
    return Figure(drawing, caption, f"posterior-{label}")


def _draw_marginal(axes, a: Posteriors, row: int, name: str) -> None:
    grid, after, before = a.marginal(row, name)
    low, high = (a.table[f"{name}_{end}"].iloc[row] for end in ("lower", "upper"))
    axes.plot(grid, after, color=CURVE, lw=2, label="posterior")
    axes.plot(grid, before, "--", color=PLAIN, lw=1.2, label="prior")
    inside = (grid >= low) & (grid <= high)
    axes.fill_between(grid[inside], after[inside], color=CURVE, alpha=0.15)
    axes.set(xlabel=name, yticks=[])
    axes.set_ylim(bottom=0)


def report(a: Posteriors, source: str, command: Sequence[str]) -> Page:
    """The page."""
    latent, observed = " and ".join(a.latent), " and ".join(a.observed)
    figures: list[Block] = [marginals(a, row) for row in range(min(DRAWN, len(a.rows)))]
    return Page(
        title=f"{latent} given {observed}",
        subtitle=f"Kernel Bayes' rule · {source} · {len(a.pairs):,} pairs",
        lead=[
            Prose(
                "What is known of the latent columns once the others are observed, learned from "
                "examples of both: no likelihood is written down anywhere."
            ),
            *(Note(text) for text in a.notes),
        ],
        sections=[
            Section("The posteriors", [answers(a), *figures]),
            Section("The fit in numbers", [Numbers(facts(a))]),
            Section("Before you rely on it", [Bullets(CAVEATS)]),
            Section("Using the model", [Code(_snippet(a)), *again(command)]),
        ],
    )


def _snippet(a: Posteriors) -> str:
    prior = "" if a.prior is None else ", prior=samples"
    return (
        "import pandas as pd, kernelmean as km\n\n"
        f"model = km.load({MODEL!r})\n"
        f"rows = pd.DataFrame({{{', '.join(f'{c!r}: [...]' for c in a.observed)}}})\n"
        f"posterior = model.posterior(rows{prior})\n"
        f"posterior.mean(), posterior.interval({a.level})"
    )


def outputs(a: Posteriors, page: Page) -> dict[str, Callable[[Path], None]]:
    """The files of the command, as functions of the path to write to."""
    table, html = a.table.to_csv(index_label="row"), page.html()
    return {
        "posterior.csv": lambda path: write_text(path, table),
        MODEL: a.model.save,
        "report.html": lambda path: write_text(path, html),
    }

"""Figures 2.4 to 2.7: densities of one column, true and estimated, at several x."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ..reproduce import Experiment
from .errors import FIRST_SEED, PAPER, draw, grid, observed
from .methods import COLOURS, METHODS, TRIANGLE_METHODS
from .triangle import ROWS, XS

PANELS = 10
POINTS = 400
NAMES = dict.fromkeys(["truth", *METHODS, *TRIANGLE_METHODS])  # in the order they are drawn


def run(seed: int, model: str, n: int = 1000, d: int | None = None) -> list[dict]:
    """Densities over the range of the observed y at ten of the observed x."""
    data = draw(seed, model, n, d=d)
    return table_of(data, chosen(data.X, seed), METHODS)


def chosen(X: np.ndarray, seed: int) -> np.ndarray:
    """Ten of the observed x, a single column in its order."""
    at = observed(X, PANELS, seed)
    return np.sort(at, axis=0) if at.shape[1] == 1 else at


def run_triangle(seed: int, n: int = ROWS) -> list[dict]:
    """Densities of Y given (x, z = 0)."""
    data = draw(seed, "triangle", n, given=("x", "z"))
    return table_of(data, np.array([[x, 0.0] for x in XS]), TRIANGLE_METHODS)


def table_of(data, at: np.ndarray, methods: dict) -> list[dict]:
    """A row for each panel and y, a column for each method."""
    Y = grid(data.Y, POINTS)
    tables = {"truth": data.density(Y, at, paired=False)}
    for name, fit in methods.items():
        tables[name] = fit(data.X, data.Y).pdf(Y, at, paired=False)
    return [
        {"panel": i, "at": label(x), "y": float(y)}
        | {name: table[i, j] for name, table in tables.items()}
        for i, x in enumerate(at)
        for j, y in enumerate(Y[:, 0].round(6))
    ]


def label(x: np.ndarray) -> str:
    """x in short: of more than two columns, the three largest entries, counted from one."""
    if len(x) <= 2:
        return "x = " + ", ".join(f"{value:.2f}" for value in x)
    largest = np.argsort(-x)[:3]
    return ", ".join(f"$x_{{{j + 1}}}$ = {x[j]:.2f}" for j in largest)


def estimates(rows: pd.DataFrame) -> list[str]:
    return [name for name in NAMES if name in rows and name != "truth"]


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """The MAD of each method at each x, and its mean over x."""
    methods = estimates(rows)
    off = rows[methods].sub(rows.truth, axis=0).abs()
    mad = off.groupby([rows.seed, rows.panel]).max().groupby("panel").mean()
    mad.insert(0, "at", rows.groupby("panel")["at"].first())
    mad.loc[len(mad)] = {"at": "mean over x"} | dict(mad[methods].mean())
    mad["lowest"] = mad[methods].idxmin(axis=1)
    return mad.assign(published="a picture")


def figure(rows: pd.DataFrame) -> Figure:
    """A panel for each x, of the first seed."""
    one = rows[rows.seed == rows.seed.min()]
    panels = list(one.groupby("panel"))
    columns = 5 if len(panels) > 4 else 4
    lines = -(-len(panels) // columns)
    picture = Figure(figsize=(3.1 * columns, 2.7 * lines + 0.5), layout="constrained")
    axes = picture.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flat
    for ax, (_, part) in zip(axes, panels, strict=False):
        for place, name in enumerate(["truth", *estimates(rows)]):
            width, order = (2.4, 2.0) if name == "truth" else (1.2, 3 - place / 100)
            ax.plot(part.y, part[name], color=COLOURS[name], lw=width, label=name, zorder=order)
        ax.set_title(part["at"].iloc[0], fontsize=9)
        ax.grid(alpha=0.3)
    handles, names = axes[0].get_legend_handles_labels()
    picture.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    return picture


def of_curves(name: str, item: str, title: str, seconds: float, run=run, **design) -> Experiment:
    """One draw, one picture."""
    return Experiment(
        name=name,
        paper=PAPER,
        item=item,
        title=title,
        run=run,
        summary=summary,
        figure=figure,
        grid=[design],
        quick=[{**design, "n": 100}],
        runs=1,
        first_seed=FIRST_SEED,
        seconds=seconds,
        quick_runs=1,
        notes="MAD over 400 points of the range of the observed y. The picture is of the first "
        "seed.",
    )


EXPERIMENTS = [
    of_curves(
        "spiteri2023-figure24",
        "Figure 2.4",
        "Densities of Y given (x, z = 0), Gaussian triangle.",
        20,
        run_triangle,
    ),
    of_curves(
        "spiteri2023-figure25",
        "Figure 2.5",
        "Densities of Y at ten of the observed x, bimodal model.",
        8,
        model="bimodal",
    ),
    *(
        of_curves(
            f"spiteri2023-figure{figure}",
            f"Figure 2.{figure - 20}",
            f"Densities of Y at ten of the observed x, Dirichlet model, d = {d}.",
            15,
            model="dirichlet",
            d=d,
        )
        for figure, d in ((26, 4), (27, 10))
    ),
]

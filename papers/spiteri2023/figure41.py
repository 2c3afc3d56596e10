"""Figure 4.1 and what it shows in numbers: one-step forecasts of models 18 to 20."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km

from ..reproduce import Experiment
from . import algorithm3
from .dynamics import (
    COLOURS,
    DEFAULT,
    FIRST_SEED,
    LEVEL,
    METHODS,
    MODELS,
    PAPER,
    ROWS,
    RUNS,
    THESIS,
    TRUE,
    draw,
    run,
)
from .errors import paired

PUBLISHED = "pictures: the trend is captured, the extremes are not"
SHOWN = {TRUE: "the exact filter", DEFAULT: "default", THESIS: "thesis"}


# ---------------------------------------------------------------- errors
def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over runs by model and method."""
    parts = {key: part.set_index("seed") for key, part in rows.groupby(["design", "n", "method"])}
    order = [(d, n, m) for d in MODELS for n in sorted(rows.n.unique()) for m in METHODS]
    return pd.DataFrame(
        [
            {
                "model": MODELS[design],
                "n": n,
                "method": method,
                **in_short(*(parts[design, n, m] for m in (method, TRUE, DEFAULT))),
                "published": PUBLISHED,
            }
            for design, n, method in order
            if (design, n, method) in parts
        ]
    )


def in_short(part: pd.DataFrame, truth: pd.DataFrame, ours: pd.DataFrame) -> dict:
    """Ratios are of the same run; t of our default's errors against these, below 0 if smaller."""
    ratio = part.mse / truth.mse
    return {
        "runs": len(part),
        "MSE": part.mse.mean(),
        "ratio to exact": ratio.mean(),
        "standard error": ratio.std() / len(ratio) ** 0.5,
        "worst ratio": ratio.max(),
        "t of the default": paired(ours.mse.loc[part.index], part.mse),
        f"in {LEVEL:.0%} interval": mean_of(part, "coverage"),
        "log-density below exact": mean_of(part, "gap"),
        "seconds of fit": mean_of(part, "seconds"),
    }


def mean_of(part: pd.DataFrame, column: str) -> float:
    """NaN where the method has no such number."""
    return float(part[column].mean()) if column in part else np.nan


def figure(rows: pd.DataFrame) -> Figure:
    """Every run's error over that of the exact filter, a panel for each model."""
    designs = [d for d in MODELS if d in set(rows.design)]
    methods = [m for m in METHODS if m != TRUE and m in set(rows.method)]
    picture = Figure(figsize=(12, 0.9 + 0.38 * len(methods)), layout="constrained")
    panels = picture.subplots(1, len(designs), squeeze=False, sharey=True)[0]
    for ax, design in zip(panels, designs, strict=True):
        wide = rows[rows.design == design].pivot_table(index="seed", columns="method", values="mse")
        ratios = wide.div(wide[TRUE], axis=0)
        for place, method in enumerate(methods):
            values = ratios[method]
            ax.plot(
                values, np.full(len(values), place), "o", color=COLOURS[method], ms=4, alpha=0.6
            )
            ax.plot(values.mean(), place, "|", color="black", ms=14, mew=1.5)
        ax.axvline(1.0, color="black", lw=0.8)
        ax.set(title=MODELS[design], xscale="log", xlabel="MSE over that of the exact filter")
        ticks = [t for t in (1, 1.2, 1.5, 2, 3, 5) if t <= 1.1 * float(ratios.max(axis=None))]
        ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
        ax.set_xticks([], minor=True)
        ax.grid(alpha=0.3)
    panels[0].set_yticks(range(len(methods)), methods)
    panels[0].invert_yaxis()
    return picture


# ---------------------------------------------------------------- forecasts of all rows
def run41(seed: int, design: str, n: int) -> list[dict]:
    """Every row, and what is forecast of it."""
    data = draw(seed, design, n)
    X = data.X
    model = km.KernelStateSpace(random_state=seed).fit(X[:n])
    low, high = model.predict_interval(X, LEVEL)
    columns = {
        "y": X,
        TRUE: data.model.predict(X),
        DEFAULT: model.predict(X),
        THESIS: algorithm3.tuned(X[:n], seed).predict(X)[0],
        "low": low,
        "high": high,
    }
    return pd.DataFrame({name: column[:, 0] for name, column in columns.items()}).to_dict("records")


def summary41(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean squared errors of rows learned from, and of rows after them."""
    return pd.DataFrame(
        [
            {
                "model": MODELS[design],
                "n": n,
                "rows": name,
                "variance of y": some.y.var(ddof=0),
                **{f"MSE, {shown}": np.mean((some.y - some[m]) ** 2) for m, shown in SHOWN.items()},
                f"in {LEVEL:.0%} interval": some.y.between(some.low, some.high).mean(),
                "published": PUBLISHED,
            }
            for design in MODELS
            for n, part in rows[(rows.design == design) & (rows.seed == rows.seed.min())].groupby(
                "n"
            )
            for name, some in (("learned from", part[:n]), ("after", part[n:]))
        ]
    )


def figure41(rows: pd.DataFrame) -> Figure:
    """The last rows learned from and all later ones, of the first run."""
    rows = rows[rows.seed == rows.seed.min()]
    designs = [d for d in MODELS if d in set(rows.design)]
    picture = Figure(figsize=(12, 3.4 * len(designs)), layout="constrained")
    for ax, design in zip(
        picture.subplots(len(designs), squeeze=False)[:, 0], designs, strict=True
    ):
        part = rows[rows.design == design].reset_index(drop=True)
        n = int(part.n.iloc[0])
        part = part[max(0, 2 * n - len(part)) :]  # as many rows before as after
        ax.fill_between(
            part.index,
            part.low,
            part.high,
            color=COLOURS[DEFAULT],
            alpha=0.15,
            lw=0,
            label=f"default, {LEVEL:.0%}",
        )
        ax.plot(part.y, ".", color="#444444", ms=3, label="observed")
        for method, name in SHOWN.items():
            style = "--" if method == TRUE else "-"
            ax.plot(part[method], style, color=COLOURS[method], lw=1.2, label=name)
        ax.axvline(n - 0.5, color="black", lw=0.8, ls=":")
        ax.set(title=MODELS[design], ylabel="y", xlim=(part.index[0], part.index[-1]))
    ax.set_xlabel("t; learned from the rows to the left of the dotted line")
    handles, names = ax.get_legend_handles_labels()
    picture.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    return picture


# ---------------------------------------------------------------- registered
GRID = [{"design": design, "n": ROWS} for design in MODELS]
QUICK = [{"design": design, "n": 150} for design in MODELS]
NOTES = (
    "Learned from the first 1,000 rows, judged by the next 200 (thesis: 800, 200 to choose by, "
    "200). “thesis” is its loss from its start, minimised by L-BFGS; λ and the number of steps are "
    "chosen on the last 200 of the 1,000 rows; states are filtered on 141 nodes. Every other "
    "method learns from all 1,000."
)

EXPERIMENTS = [
    Experiment(
        name="spiteri2023-forecasts",
        paper=PAPER,
        item="Figure 4.1, in numbers",
        title="One-step forecasts beside those of the true law, models 18 to 20.",
        run=run,
        summary=summary,
        figure=figure,
        grid=GRID,
        quick=QUICK,
        runs=RUNS,
        first_seed=FIRST_SEED,
        seconds=110,
        quick_runs=1,
        notes=NOTES + " Seconds are processor time.",
    ),
    Experiment(
        name="spiteri2023-figure41",
        paper=PAPER,
        item="Figure 4.1",
        title="Forecasts of all rows.",
        run=run41,
        summary=summary41,
        figure=figure41,
        grid=GRID,
        quick=QUICK,
        runs=1,
        first_seed=FIRST_SEED,
        seconds=25,
        quick_runs=1,
        notes=NOTES,
    ),
]

"""Figures 3.4 and 3.5: the number of states, by several rules."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km

from ..reproduce import Experiment
from .hidden import FIRST_SEED, MODELS, PAPER, RUNS, STATES, sizes_below

SIZES = (5000, 20_000, 50, 100, 200, 500, 1000, 2000, 10_000)
CONSTANTS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)  # C of the threshold
LENGTHSCALE = 0.2  # of the one Gaussian kernel for all of them
LEADING = 100  # singular values in which the thesis looks for an elbow
ELBOW = f"elbow of {LEADING}"
RULES = {  # and their colours, of Okabe and Ito
    "correlations": "#D55E00",
    ELBOW: "#0072B2",
    "elbow": "#56B4E9",
    "ratio": "#009E73",
}
THRESHOLDS = {f"C = {c:g}": c for c in CONSTANTS}
PUBLISHED = "curves rise with n"


def run(seed: int, design: str, n: int) -> list[dict]:
    """The number of states that every rule finds."""
    X = km.datasets.make_hmm(design, n, random_state=seed).X
    kernel = km.Gaussian(LENGTHSCALE)
    found = {
        "correlations": km.estimate_order(X),
        "elbow": km.estimate_order(X, method="elbow"),
        "ratio": km.estimate_order(X, method="ratio"),
        ELBOW: km.estimate_order(X, method="elbow", kernel=kernel, max_components=LEADING // 2),
    } | {
        name: km.estimate_order(X, method="threshold", constant=c, kernel=kernel)
        for name, c in THRESHOLDS.items()
    }
    return [{"rule": rule, "order": int(order)} for rule, order in found.items()]


def shares(rows: pd.DataFrame, rules) -> pd.DataFrame:
    """Share of the runs in which a rule is right: a row for each model and n, a column a rule."""
    right = rows.order == rows.design.map(STATES)
    some = rows.assign(right=right.astype(float))[rows.rule.isin(list(rules))]
    wide = some.pivot_table(index=["design", "n"], columns="rule", values="right")
    return wide.reindex(columns=list(rules))


def table(rows: pd.DataFrame, rules) -> pd.DataFrame:
    wide = shares(rows, rules)
    runs = rows.groupby(["design", "n"]).seed.nunique()
    return pd.DataFrame(
        [
            {
                "model": MODELS[design],
                "states": STATES[design],
                "n": n,
                "runs": runs[design, n],
                **values,
                "published": PUBLISHED,
            }
            for design in MODELS
            if design in wide.index
            for n, values in zip(
                wide.loc[design].index, wide.loc[design].to_dict("records"), strict=True
            )
        ]
    )


def summary34(rows: pd.DataFrame) -> pd.DataFrame:
    """Of thresholds C √(log n/n)."""
    return table(rows, THRESHOLDS)


def summary35(rows: pd.DataFrame) -> pd.DataFrame:
    """Of rules that have no constant."""
    return table(rows, RULES)


def figure34(rows: pd.DataFrame) -> Figure:
    """A curve for each C, a panel for each model."""
    greys = [str(0.75 - 0.15 * i) for i in range(len(THRESHOLDS))]
    return curves(rows, dict(zip(THRESHOLDS, greys, strict=True)))


def figure35(rows: pd.DataFrame) -> Figure:
    """A curve for each rule, a panel for each model."""
    return curves(rows, RULES)


def curves(rows: pd.DataFrame, colours: dict[str, str]) -> Figure:
    wide = shares(rows, colours)
    picture = Figure(figsize=(12, 4.2), layout="constrained")
    designs = [d for d in MODELS if d in wide.index]
    panels = picture.subplots(1, len(designs), squeeze=False, sharey=True)[0]
    for ax, design in zip(panels, designs, strict=True):
        for place, (rule, colour) in enumerate(colours.items()):
            values = wide.loc[design][rule]
            width = 3.2 - 0.5 * place  # curves that lie on each other stay visible
            ax.plot(values.index, values, "o-", color=colour, label=rule, lw=width, ms=4)
        ax.set(title=f"{MODELS[design]}, K = {STATES[design]}", ylim=(-0.05, 1.05))
        sizes_below(ax, sorted(rows.n.unique()))
        ax.grid(alpha=0.3)
    panels[0].set_ylabel("share of runs that find K")
    handles, names = panels[0].get_legend_handles_labels()
    picture.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    return picture


def of_orders(name: str, item: str, title: str, summary, figure, notes: str) -> Experiment:
    """Both figures share their runs."""
    return Experiment(
        name=name,
        paper=PAPER,
        item=item,
        title=title,
        run=run,
        summary=summary,
        figure=figure,
        grid=[{"design": design, "n": n} for n in SIZES for design in MODELS],
        quick=[{"design": design, "n": 200} for design in MODELS],
        runs=RUNS,
        first_seed=FIRST_SEED,
        seconds=8,
        quick_runs=1,
        notes=notes,
    )


EXPERIMENTS = [
    of_orders(
        "spiteri2023-figure34",
        "Figure 3.4",
        "The number of states by a threshold C √(log n/n) of singular values.",
        summary34,
        figure34,
        f"Gaussian kernel of lengthscale {LENGTHSCALE}; the thesis prints neither this nor its C. "
        "Share of runs in which the rule is right.",
    ),
    of_orders(
        "spiteri2023-figure35",
        "Figure 3.5",
        "The number of states by rules that have no constant.",
        summary35,
        figure35,
        f"“{ELBOW}” is the thesis's: Kneedle on {LEADING} singular values. “correlations” is the "
        "default. Share of runs in which the rule is right.",
    ),
]

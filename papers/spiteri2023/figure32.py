"""Figures 3.2 and 3.3: errors of the chain and of the filter for growing n."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ..reproduce import Experiment
from .errors import paired
from .hidden import FIRST_SEED, METHODS, MODELS, PAPER, PROJECTION, RUNS, TRUE, run, sizes_below

SIZES = (5000, 20_000, 500, 1000, 2000, 10_000)  # those of the goals come first
LARGE = (200_000, 1_000_000)
KEYS = ["design", "n"]
GRID = [{"design": design, "n": n} for n in SIZES for design in MODELS]
PUBLISHED = {  # the thesis has no numbers, only curves
    "tmse": {
        "separated": "KernelHMM below ProjHMM",
        "overlapping": "both poor",
        "unbounded": "KernelHMM lowest beyond 10,000",
    },
    "accuracy": dict.fromkeys(MODELS, "KernelHMM + KBR highest"),
}
NAMES = {"tmse": "TMSE", "accuracy": "accuracy"}
SHOWN = {  # one chain has two filters
    "tmse": [method for method in METHODS if method != TRUE and "forward" not in method],
    "accuracy": list(METHODS),
}


# ---------------------------------------------------------------- tables
def best_bases(rows: pd.DataFrame, error: str) -> pd.DataFrame:
    """Of ProjHMM only the number of cosines with the best mean, for each model and n."""
    keys = [*KEYS, "method", "basis"]
    means = rows.groupby(keys)[error].mean()
    if error == "accuracy":
        means = -means
    best = means.groupby(keys[:-1]).idxmin().tolist()
    return rows[pd.MultiIndex.from_frame(rows[keys]).isin(best)]


def table(rows: pd.DataFrame, error: str) -> pd.DataFrame:
    """Means over runs by model, n and method."""
    rows = best_bases(rows, error)
    order = [(d, n, m) for d in MODELS for n in sorted(rows.n.unique()) for m in METHODS]
    parts = dict(list(rows.groupby([*KEYS, "method"])))
    return pd.DataFrame(
        [
            {
                "model": MODELS[design],
                "n": n,
                "method": named(method, parts[design, n, method]),
                "runs": len(parts[design, n, method]),
                **COLUMNS[error](parts[design, n, method], parts[design, n, TRUE]),
                "published": PUBLISHED[error][design],
            }
            for design, n, method in order
            if (design, n, method) in parts and method in SHOWN[error]
        ]
    )


def named(method: str, part: pd.DataFrame) -> str:
    """The method, with the number of cosines that was best."""
    if method == PROJECTION:
        return f"{method}, M = {part.basis.iloc[0]}"
    return method


def of_filter(part: pd.DataFrame, truth: pd.DataFrame) -> dict:
    """The accuracy, and what it is short of that of the filter that knows the law."""
    ours, best = (frame.set_index("seed").accuracy for frame in (part, truth))
    short = best - ours
    return {
        "accuracy": ours.mean(),
        "lowest": ours.min(),
        "below true filter": short.mean(),
        "standard error": short.std() / len(short) ** 0.5,
    }


def of_chain(part: pd.DataFrame, truth: pd.DataFrame) -> dict:
    tmse = part.tmse
    return {"TMSE": tmse.mean(), "median": tmse.median(), "highest": tmse.max()}


COLUMNS = {"accuracy": of_filter, "tmse": of_chain}


def summary32(rows: pd.DataFrame) -> pd.DataFrame:
    """Errors of π and Q."""
    return table(rows, "tmse")


def summary33(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of the filters."""
    return table(rows, "accuracy")


def summary_short(rows: pd.DataFrame) -> pd.DataFrame:
    """Both errors of our default, and paired tests against the normal laws."""
    parts = dict(list(best_bases(rows, "accuracy").groupby(KEYS)))
    return pd.DataFrame(
        [
            {"model": MODELS[design], "n": n, **in_short(parts[design, n])}
            for design in MODELS
            for n in sorted(rows.n.unique())
            if (design, n) in parts
        ]
    )


def in_short(part: pd.DataFrame) -> dict:
    of = dict(list(part.groupby("method")))
    others = (TRUE, "spectral", PROJECTION, "GaussianHMM")
    return {
        "runs": len(of["default"]),
        **of_filter(of["default"], of[TRUE]),
        "TMSE": of["default"].tmse.mean(),
        "highest TMSE": of["default"].tmse.max(),
        **{f"accuracy of {m}": of[m].accuracy.mean() if m in of else np.nan for m in others},
        "t against GaussianHMM": against(of, "GaussianHMM"),
        "published": "KernelHMM + KBR highest",
    }


def against(of: dict[str, pd.DataFrame], other: str) -> float:
    """Paired t of accuracies; positive where our default is better."""
    if other not in of:
        return np.nan
    ours, theirs = (of[method].set_index("seed").accuracy for method in ("default", other))
    return paired(ours, theirs.loc[ours.index])


# ---------------------------------------------------------------- pictures
def figure32(rows: pd.DataFrame) -> Figure:
    """Mean TMSE over n, a panel for each model."""
    return curves(rows, "tmse")


def figure33(rows: pd.DataFrame) -> Figure:
    """Mean accuracy over n, a panel for each model."""
    return curves(rows, "accuracy")


def curves(rows: pd.DataFrame, error: str) -> Figure:
    picture = Figure(figsize=(12, 4.2), layout="constrained")
    means = best_bases(rows, error).groupby(["design", "method", "n"])[error].mean()
    designs = [d for d in MODELS if d in set(rows.design)]
    panels = picture.subplots(1, len(designs), squeeze=False)[0]
    for ax, design in zip(panels, designs, strict=True):
        for method in SHOWN[error]:
            if (design, method) in means.index.droplevel("n"):
                curve(ax, means[design, method], method)
        ax.set(title=MODELS[design], ylabel=NAMES[error])
        sizes_below(ax, sorted(rows.n.unique()))
        if error == "tmse":
            ax.set_yscale("log")
        ax.grid(alpha=0.3)
    handles, names = panels[0].get_legend_handles_labels()
    picture.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    return picture


def curve(ax, values: pd.Series, method: str) -> None:
    style = {"ls": "--", "marker": ""} if method == TRUE else {"marker": "o", "markersize": 4}
    ax.plot(values.index, values, color=METHODS[method], label=method, **style)


# ---------------------------------------------------------------- registered
NOTES = (
    "Thesis: Algorithm 1, which is “spectral” here. ProjHMM has the number of cosines, of 5 to 20, "
    "with the best mean on the test rows themselves, as in the thesis. GaussianHMM is hmmlearn's, "
    "the likeliest of five fits."
)


def of_models(name: str, item: str, title: str, summary, figure, sizes, seconds, runs=RUNS):
    """Experiments that share their runs wherever they have sizes in common."""
    return Experiment(
        name=name,
        paper=PAPER,
        item=item,
        title=title,
        run=run,
        summary=summary,
        figure=figure,
        grid=[setting for setting in [*GRID, *LARGE_GRID] if setting["n"] in sizes],
        quick=[{"design": design, "n": 300} for design in MODELS],
        runs=runs,
        first_seed=FIRST_SEED,
        seconds=seconds,
        quick_runs=1,
        notes=NOTES,
    )


LARGE_GRID = [{"design": design, "n": n} for n in LARGE for design in MODELS]
EXPERIMENTS = [
    of_models(
        "spiteri2023-filtering",
        "Figures 3.2 and 3.3 at n = 5,000 and 20,000",
        "What the filter is short of the one that knows the law, and errors of the chain.",
        summary_short,
        figure33,
        SIZES[:2],
        90,
    ),
    of_models(
        "spiteri2023-figure32",
        "Figure 3.2",
        "Total squared error of the stationary law and the transition matrix.",
        summary32,
        figure32,
        SIZES,
        150,
    ),
    of_models(
        "spiteri2023-figure33",
        "Figure 3.3",
        "Share of hidden states that filters name.",
        summary33,
        figure33,
        SIZES,
        150,
    ),
    of_models(
        "spiteri2023-large",
        "Figures 3.2 and 3.3, continued",
        "Both errors at n = 200,000 and 1,000,000, which n × n matrices do not reach.",
        summary_short,
        figure33,
        LARGE,
        600,
        runs=1,
    ),
]

"""Figure 2.8: both errors on the Beta model."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from ..reproduce import Experiment
from . import trials
from .errors import FIRST_SEED, PAPER, RUNS, two_samples
from .methods import METHODS


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Quartiles over all x, and how often a draw alone prefers a method to KCDE."""
    return pd.DataFrame(
        [of_method(rows, method, error) for error in ("mad", "mse") for method in METHODS]
    )


def of_method(rows: pd.DataFrame, method: str, error: str) -> dict:
    values = rows[rows.method == method][error]
    return {
        "error": error.upper(),
        "method": method,
        "runs": rows.seed.nunique(),
        "mean": values.mean(),
        **{f"q{q}": values.quantile(q / 100) for q in (25, 50, 75)},
        "draws below KCDE, p < 0.05": share_below(rows, method, error),
        "published lower": "KMDE",
    }


def share_below(rows: pd.DataFrame, method: str, error: str) -> float:
    """Share of the draws in which the test over x finds a lower error than that of KCDE."""
    tests = [
        two_samples(part[part.method == method][error], part[part.method == "KCDE"][error])
        for _, part in rows.groupby("seed")
    ]
    return sum(t < 0 and p < trials.LEVEL for t, p in tests) / len(tests)


def figure(rows: pd.DataFrame) -> Figure:
    """A box for each method, of all x of all draws."""
    picture = Figure(figsize=(8, 3.6), layout="constrained")
    for ax, error in zip(picture.subplots(1, 2), ("mad", "mse"), strict=True):
        trials.boxes(ax, rows, error, list(METHODS))
        ax.set(title=f"{error.upper()}, Beta(0.1, 0.1)", ylim=(0, None))
    return picture


EXPERIMENTS = [
    Experiment(
        name="spiteri2023-figure28",
        paper=PAPER,
        item="Figure 2.8",
        title="Errors of the density of Y given x on the Beta model, over x.",
        run=trials.of_points,
        summary=summary,
        figure=figure,
        grid=[{"model": "beta"}],
        quick=[{"model": "beta", "n": 100, "rows": 5}],
        runs=RUNS,
        first_seed=FIRST_SEED,
        seconds=8,
        quick_runs=1,
        notes="Boxes are over 50 of the observed x in each draw.",
    )
]

"""Beyond the paper: what confidence bands cover, and what tests of a fit find."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km

from ..reproduce import Experiment
from . import trials

LEVEL = 0.95
EDGE = 0.05  # share of the range, at each end, that bands are not judged on
POINTS = 91


def run(seed: int, design: str, n: int) -> dict:
    """Whether the simultaneous band holds everywhere; the share of points the other holds at."""
    data = trials.DESIGNS[design](n, random_state=seed)
    model = km.KernelIV().fit(data.X, data.y, data.Z, data.C)
    grid = inner(data)
    truth = data.truth(grid)
    band = model.predict_interval(grid, level=LEVEL)
    points = model.predict_interval(grid, level=LEVEL, simultaneous=False)
    return {
        "simultaneous": float(inside(band, truth).all()),
        "pointwise": float(inside(points, truth).mean()),
        "half_width": float((band.upper - band.lower).mean() / 2),
        "specification": float(model.specification_p_ >= 0.05),
    }


def inner(data: km.datasets.IVData) -> np.ndarray:
    """An even grid away from the edges; with several columns, 200 rows of the data that are."""
    if data.C is None:
        return np.linspace(EDGE, 1 - EDGE, POINTS)[:, None]
    rows = np.hstack([data.X, data.C])
    low, high = np.quantile(rows, [EDGE, 1 - EDGE], axis=0)
    return rows[((rows >= low) & (rows <= high)).all(axis=1)][:200]


def inside(limits: tuple[np.ndarray, np.ndarray], truth: np.ndarray) -> np.ndarray:
    return (limits[0] <= truth) & (truth <= limits[1])


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Shares over the draws, with the standard error of the simultaneous one."""
    groups = rows.groupby(["design", "n"], sort=False)
    table = groups[["simultaneous", "pointwise", "specification"]].mean()
    table.insert(0, "runs", groups.size())
    table["s.e."] = np.sqrt(table.simultaneous * (1 - table.simultaneous) / table.runs)
    table["half width, median"] = groups.half_width.median()
    return table.reset_index()


def figure(rows: pd.DataFrame) -> Figure:
    """Shares covered, beside what is claimed."""
    table = summary(rows)
    picture = Figure(figsize=(7, 3.5), layout="constrained")
    ax = picture.subplots()
    at = np.arange(len(table))
    ax.bar(at - 0.18, table.simultaneous, 0.34, yerr=2 * table["s.e."], label="whole band")
    ax.bar(at + 0.18, table.pointwise, 0.34, label="points of pointwise limits")
    ax.axhline(LEVEL, color="black", lw=1, ls="--", label="claimed")
    labels = [f"{row.design}, {row.n:,}" for row in table.itertuples()]
    ax.set_xticks(at, labels)
    ax.set(ylabel="share covered", ylim=(0.5, 1.02))
    ax.legend(frameon=False, loc="lower right")
    return picture


EXPERIMENTS = [
    Experiment(
        name="singh2019-coverage",
        paper=trials.PAPER,
        item="beyond the paper",
        title="Coverage of KernelIV's confidence bands.",
        run=run,
        summary=summary,
        figure=figure,
        grid=[
            {"design": "linear", "n": 2000},
            {"design": "sigmoid", "n": 2000},
            {"design": "demand", "n": 1000},
        ],
        quick=[{"design": "sigmoid", "n": 500}],
        runs=200,
        first_seed=7000,
        seconds=10,
        notes=(
            "Bands of 95%, judged between the 5% and 95% points of every column. Seeds 7000 and up "
            "were not used for anything else."
        ),
    )
]

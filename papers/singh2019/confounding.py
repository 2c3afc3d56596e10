"""Beyond the paper: strong confounding, where choosing by predictions leans towards regression."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km

from ..reproduce import Experiment
from . import trials

CURVES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "line": lambda p: -2 * p,
    "parabola": lambda p: -2 * p + 0.5 * p**2,
    "tanh": lambda p: -3 * np.tanh(p),
    "sine": lambda p: 2 * np.sin(2 * p),
}
GRID = np.linspace(-2.5, 2.5, 101)[:, None]
MODELS: dict[str, dict] = {
    "default": {},
    "intercept": {"trend": 0},
    "plane": {"trend": 1},
    "split": {"split": 0.5},
}


def run(seed: int, curve: str, n: int, strength: float) -> list[dict]:
    """Squared error and slope of every model: y = h(p) + strength·e, p = z + e + 0.3u."""
    rng = np.random.default_rng(seed)
    z, e, u = rng.standard_normal((3, n))
    p, h = (z + e + 0.3 * u)[:, None], CURVES[curve]
    y, truth = h(p[:, 0]) + strength * e, h(GRID[:, 0])
    rows = []
    for name, settings in MODELS.items():
        model = km.KernelIV(**settings).fit(p, y, z[:, None])
        found = model.predict(GRID)
        rows.append(
            {
                "model": name,
                "mse": float(np.mean((found - truth) ** 2)),
                "slope": float(np.polyfit(GRID[:, 0], found, 1)[0]),
                "specification": model.specification_p_,
            }
        )
    return rows


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Medians over the draws, beside the slope of the truth."""
    groups = rows.groupby(["curve", "strength", "n", "model"], sort=False)
    table = groups[["mse", "slope", "specification"]].median().reset_index()
    truth = {name: np.polyfit(GRID[:, 0], h(GRID[:, 0]), 1)[0] for name, h in CURVES.items()}
    table["true slope"] = table["curve"].map(truth)
    table.insert(4, "runs", groups.size().to_numpy())
    return table


def figure(rows: pd.DataFrame) -> Figure:
    """Squared errors by model, a panel for each structural function."""
    curves = list(dict.fromkeys(rows["curve"]))
    picture = Figure(figsize=(3 * len(curves), 3.6), layout="constrained")
    panels = picture.subplots(1, len(curves), squeeze=False)[0]
    for ax, curve in zip(panels, curves, strict=True):
        mine = rows[rows["curve"] == curve]
        ax.boxplot([mine[mine.model == m].mse for m in MODELS], tick_labels=list(MODELS))
        ax.set(yscale="log", title=curve, ylabel="mean squared error")
        ax.tick_params(axis="x", rotation=30)
    return picture


EXPERIMENTS = [
    Experiment(
        name="singh2019-confounding",
        paper=trials.PAPER,
        item="beyond the paper",
        title="Strong confounding: the default beside fits with and without a line.",
        run=run,
        summary=summary,
        figure=figure,
        grid=[{"curve": curve, "n": n, "strength": 3.0} for curve in CURVES for n in (500, 2000)],
        quick=[{"curve": "line", "n": 500, "strength": 3.0}],
        runs=40,
        first_seed=7000,
        seconds=20,
        notes="Medians. Plain regression has slope −0.5 on the line, where the truth has −2.",
    )
]

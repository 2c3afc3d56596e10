"""Figure 11: what the lengthscale of the regressors' kernel matters, on the sigmoid design."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km

from ..reproduce import Experiment
from . import boxes, trials

N = 1000
LENGTHSCALES = ["median", 0.2, 0.4, 0.6, 0.8, 1.0]
GRID = [{"lengthscale": lengthscale} for lengthscale in LENGTHSCALES]


def run(seed: int, lengthscale: str | float) -> dict:
    """Log10 MSE of KernelIV with this lengthscale for the regressors."""
    data = trials.sample(seed, "sigmoid", N, None)
    kernel = "gaussian" if lengthscale == "median" else km.Gaussian(lengthscale)
    model = km.KernelIV(kernel, split=0.5).fit(data.X, data.y, data.Z)
    return {
        "log10_mse": trials.log10_mse(model.predict(data.grid), data.truth(data.grid)),
        "used": float(np.squeeze(model.kernel_x_.lengthscale)),
    }


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Ours, beside what the paper compares with: the median rule, and the next best algorithm."""
    sigmoid = trials.PUBLISHED[(trials.PUBLISHED.design == "sigmoid") & (trials.PUBLISHED.n == N)]
    means = sigmoid.set_index("algorithm").log10_mse_mean
    values = rows.pivot(index="seed", columns="lengthscale", values="log10_mse")[LENGTHSCALES]
    table = pd.DataFrame(
        {
            "lengthscale": LENGTHSCALES,
            "used": rows.groupby("lengthscale").used.mean()[LENGTHSCALES].to_numpy(),
            "runs": len(values),
            "mean": values.mean().to_numpy(),
            "std": values.std().to_numpy(),
            "above the median rule": values.sub(values["median"], axis=0).mean().to_numpy(),
            "published, next best": means.drop("KernelIV").min(),
        }
    )
    table["published mean"] = np.where(table.lengthscale == "median", means["KernelIV"], np.nan)
    return table


def figure(rows: pd.DataFrame) -> Figure:
    """A box for every lengthscale, and the published one of the median rule."""
    picture = Figure(figsize=(7, 4), layout="constrained")
    ax = picture.subplots()
    theirs = trials.published("sigmoid", np.nan, N, "KernelIV")
    boxes.box(ax, -0.06, boxes.published_box(theirs), "none", "KernelIV")
    for x, lengthscale in enumerate(LENGTHSCALES):
        ours = rows[rows.lengthscale == lengthscale].log10_mse
        boxes.box(ax, x, boxes.trial_box(ours), boxes.COLOURS["KernelIV"], "KernelIV")
    ax.set_xticks(range(len(LENGTHSCALES)), [str(value) for value in LENGTHSCALES])
    ax.set(xlabel="lengthscale (empty box: published)", ylabel="log10 MSE", title="sigmoid, 1,000")
    ax.grid(axis="y", alpha=0.3)
    return picture


EXPERIMENTS = [
    Experiment(
        name="singh2019-figure11",
        paper=trials.PAPER,
        item="Figure 11",
        title="Error of KernelIV on the sigmoid design with other lengthscales.",
        run=run,
        summary=summary,
        figure=figure,
        grid=GRID,
        quick=GRID,
        runs=trials.RUNS,
        first_seed=trials.FIRST_SEED,
        seconds=0.5,
        notes=(
            "Fixed lengthscales of the Gaussian kernel on X, beside the median of the distances. "
            "The paper gives the other boxes as a picture only."
        ),
    )
]

"""The two samples published with the authors' replication files, with the authors' conventions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km

from ..reproduce import Experiment
from . import trials

DATA = Path(__file__).parents[2] / "tests" / "data"
FILES = {"sigmoid": "kiv_sigmoid_n1000.csv", "demand": "kiv_demand_rho0.5_n1000.csv"}
COLUMNS = {"sigmoid": ("x", "z", []), "demand": ("p", "c", ["t", "s"])}  # x, z, exogenous
SIMULATORS = {"sigmoid": km.datasets.make_iv_sigmoid, "demand": km.datasets.make_iv_demand}
PUBLISHED = {
    ("sigmoid", "mse"): 0.042656,
    ("sigmoid", "lambda"): 0.040054,
    ("sigmoid", "xi"): 0.0016197,
    ("sigmoid", "loss_stage1"): 0.268443,
    ("sigmoid", "loss_stage2"): 0.996597,
    ("demand", "mse"): 7244.7,
}
QUANTITIES = ["mse", "lambda", "xi", "loss_stage1", "loss_stage2"]


def run(seed: int, draw: str) -> list[dict]:
    """Fit KernelIV as the authors do; one row of numbers, then rows with a curve to draw."""
    frame = pd.read_csv(DATA / FILES[draw])
    x, z, c = COLUMNS[draw]
    simulated = SIMULATORS[draw](2, random_state=0)  # for its structural function and grid
    iv = km.KernelIV(
        kernel_x=km.Gaussian(lengthscales(frame[[x, *c]])),
        kernel_z=km.Gaussian(lengthscales(frame[[z, *c]])),
        features=km.Exact(),
        split=0.5,
    )
    iv.fit(frame[[x]].to_numpy(), frame.y.to_numpy(), frame[[z]].to_numpy(), exogenous(frame, c))
    fitted = {
        "mse": np.mean((iv.predict(simulated.grid) - simulated.truth(simulated.grid)) ** 2),
        "lambda": iv.reg_stage1_ * iv.n_stage1_,  # the authors' ridge is K_ZZ + lambda I
        "xi": iv.reg_stage2_,
        "loss_stage1": iv.loss_stage1_,
        "loss_stage2": iv.loss_stage2_,
    }
    line = slice_of(draw)
    curve = np.column_stack([axis(draw), simulated.truth(line), iv.predict(line)])
    names = ("position", "truth", "estimate")
    return [fitted, *[dict(zip(names, map(float, point), strict=True)) for point in curve]]


def exogenous(frame: pd.DataFrame, names: list[str]) -> np.ndarray | None:
    return frame[names].to_numpy() if names else None


def lengthscales(frame: pd.DataFrame) -> list[float]:
    """Per column, the median of all n² distances, the zeros of the diagonal among them."""
    columns = frame.to_numpy().T
    return [float(np.median(np.abs(column[:, None] - column))) for column in columns]


def axis(draw: str) -> np.ndarray:
    return np.linspace(0, 1, 101) if draw == "sigmoid" else np.linspace(0, 10, 101)


def slice_of(draw: str) -> np.ndarray:
    """Points along x, or along the time of year at price 17.5 and sentiment 4."""
    a = axis(draw)
    if draw == "sigmoid":
        return a[:, None]
    return np.column_stack([np.full_like(a, 17.5), a, np.full_like(a, 4)])


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    fits = rows.dropna(subset="mse").set_index("draw")
    keys = [(draw, quantity) for draw in fits.index for quantity in QUANTITIES]
    frame = pd.DataFrame(keys, columns=["draw", "quantity"])
    frame["ours"] = [fits.at[key] for key in keys]
    frame["published"] = [PUBLISHED.get(key, np.nan) for key in keys]
    frame["relative difference"] = frame.ours / frame.published - 1
    return frame


def figure(rows: pd.DataFrame) -> Figure:
    """The structural function and its estimate."""
    picture = Figure(figsize=(9, 3.6), layout="constrained")
    draws = list(dict.fromkeys(rows.draw))
    labels = {"sigmoid": "x", "demand": "time of year, at price 17.5 and sentiment 4"}
    for ax, draw in zip(picture.subplots(1, len(draws), squeeze=False)[0], draws, strict=True):
        curve = rows[(rows.draw == draw) & rows.position.notna()]
        ax.plot(curve.position, curve.truth, color="black", linestyle="--", label="truth")
        ax.plot(curve.position, curve.estimate, color="#D55E00", label="KernelIV")
        ax.set(title=f"{draw} draw", xlabel=labels[draw], ylabel="h")
        ax.legend(frameon=False)
    return picture


EXPERIMENTS = [
    Experiment(
        name="singh2019-draws",
        paper=trials.PAPER,
        item="replication files",
        title="KernelIV on the two published samples, against the authors' own numbers.",
        run=run,
        summary=summary,
        figure=figure,
        grid=[{"draw": "sigmoid"}, {"draw": "demand"}],
        quick=[{"draw": "sigmoid"}, {"draw": "demand"}],
        runs=1,
        first_seed=0,
        seconds=2,
        deterministic=True,
        notes=(
            "The authors' conventions: medians over all pairs with the diagonal's zeros, stage 1 "
            "on the first half of the rows, ridge K + lambda I in stage 1 and m xi in stage 2."
        ),
    )
]

"""Figure 2.3: KMDE against CDO on the Gaussian triangle."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from ..reproduce import Experiment
from . import trials, triangle
from .errors import FIRST_SEED, PAPER, RUNS, paired, two_samples
from .methods import TRIANGLE_METHODS


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean errors of every method, and tests against CDO over draws."""
    return pd.DataFrame(
        [
            {"error": error.upper(), "x": x, **against_cdo(part, method, error)}
            for error in ("mad", "mse")
            for x, part in rows.groupby("x", sort=False)
            for method in TRIANGLE_METHODS
        ]
    )


def against_cdo(part: pd.DataFrame, method: str, error: str) -> dict:
    wide = part.pivot_table(index="seed", columns="method", values=error)
    ours, theirs = wide[method], wide["CDO"]
    tested = method != "CDO" and len(wide) > 1
    return {
        "method": method,
        "runs": len(wide),
        "mean": ours.mean(),
        "median": ours.median(),
        "paired t": paired(ours, theirs) if tested else float("nan"),
        "two-sample p": two_samples(ours, theirs)[1] if tested else float("nan"),
        "draws below CDO": (ours < theirs).mean(),
        "published lower": "KMDE",
    }


def figure(rows: pd.DataFrame) -> Figure:
    """A column for each x; above the MAD, below the MSE."""
    picture = Figure(figsize=(13, 6), layout="constrained")
    panels = picture.subplots(2, len(triangle.XS), sharex=True)
    for line, error in zip(panels, ("mad", "mse"), strict=True):
        for ax, (x, part) in zip(line, rows.groupby("x", sort=False), strict=True):
            trials.boxes(ax, part, error, list(TRIANGLE_METHODS))
            ax.set(title=f"{error.upper()}, x = {x:g}", ylim=(0, None))
            ax.tick_params(axis="x", labelsize=8)
    return picture


EXPERIMENTS = [
    Experiment(
        name="spiteri2023-figure23",
        paper=PAPER,
        item="Figure 2.3",
        title="Errors of the density of Y given (x, z = 0), Gaussian triangle.",
        run=triangle.given_xz,
        summary=summary,
        figure=figure,
        grid=[{}],
        quick=[{"n": 150}],
        runs=RUNS,
        first_seed=FIRST_SEED,
        seconds=20,
        quick_runs=1,
        notes="The thesis makes 100 draws (--runs 100) and shows boxes only.",
    )
]

"""Figure 3.1: densities of the observations in each state, model 12."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km
from kernelmean.kernels import median_lengthscale

from ..reproduce import Experiment
from .hidden import FIRST_SEED, METHODS, MODELS, PAPER, RUNS, draw

POINTS = 201  # over [0, 1]
BANDWIDTH = 0.5  # of the spectral fit, in median distances
SHOWN = ("default", "spectral")


def run(seed: int, design: str = "separated", n: int = 5000) -> list[dict]:
    """The densities over [0, 1], states numbered as in the truth."""
    data, _ = draw(seed, design, n)
    # a density without bound has none at 0 and 1
    inside = np.linspace(0, 1, POINTS + 2)[1:-1]
    truth = np.exp(data.model.log_density(inside[:, None]))
    found = {method: aligned(density, truth) for method, density in estimates(data, seed, inside)}
    return [
        {"state": k, "y": y, "truth": truth[i, k]}
        | {method: values[i, k] for method, values in found.items()}
        for k in range(truth.shape[1])
        for i, y in enumerate(inside.round(6))
    ]


def estimates(data, seed: int, y: np.ndarray):
    """Densities at y by the default, and by Algorithm 1 with the thesis's bandwidth."""
    K, bandwidth = data.model.n_states, BANDWIDTH * median_lengthscale(data.X)
    default = km.KernelHMM(K, random_state=seed)
    thesis = km.KernelHMM(K, refine=False, bandwidth=bandwidth, random_state=seed)
    for method, model in zip(SHOWN, (default, thesis), strict=True):
        yield method, model.fit(data.X).density(y[:, None])


def aligned(density: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Columns in the order in which they are nearest to the truth."""
    orders = (list(order) for order in permutations(range(truth.shape[1])))
    return min((density[:, o] for o in orders), key=lambda d: float(((d - truth) ** 2).sum()))


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Largest and integrated squared error of each density, means over runs."""
    return pd.DataFrame(
        [
            {
                "state": state + 1,
                "method": method,
                "runs": part.seed.nunique(),
                "MAD": off.abs().groupby(part.seed).max().mean(),
                "integrated squared error": (off**2).groupby(part.seed).mean().mean(),
                "published": "a picture",
            }
            for state, part in rows.groupby("state")
            for method in SHOWN
            for off in [part[method] - part.truth]
        ]
    )


def figure(rows: pd.DataFrame) -> Figure:
    """The first run in strong lines, the others faint; a panel for each method."""
    picture = Figure(figsize=(10, 4), layout="constrained")
    first = rows.seed.min()
    for ax, method in zip(picture.subplots(1, 2, sharey=True), SHOWN, strict=True):
        for (_, seed), part in rows.groupby(["state", "seed"]):
            faint = {} if seed == first else {"alpha": 0.25, "lw": 0.8}
            ax.plot(part.y, part[method], color=METHODS[method], **faint)
        for _, part in rows[rows.seed == first].groupby("state"):
            ax.plot(part.y, part.truth, "k--", lw=1.5)
        ax.set(title=f"{method} (dashed: truth)", xlabel="y", ylabel="density")
        ax.label_outer()
        ax.grid(alpha=0.3)
    return picture


EXPERIMENTS = [
    Experiment(
        name="spiteri2023-figure31",
        paper=PAPER,
        item="Figure 3.1",
        title=f"Densities of the observations in each state, {MODELS['separated']}.",
        run=run,
        summary=summary,
        figure=figure,
        grid=[{}],
        quick=[{"n": 300}],
        runs=RUNS,
        first_seed=FIRST_SEED,
        seconds=3,
        quick_runs=1,
        notes="5,000 rows. “spectral”: Algorithm 1, with half the median distance as bandwidth. "
        "The first run in strong lines.",
    )
]

"""Section 5: running times of KBR, pKBR and kRegBayes filters, as printed and in coordinates."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km

from ..reproduce import Experiment
from ..tracking import scaled_kernels, timed
from .dense import DenseFilter, squared, thresholded
from .figure1 import (
    FIRST_SEED,
    PAPER,
    angle,
    angle_errors,
    clock,
    kernel_angles,
    on_circle,
    sequences,
)

DENSE, OURS = "n × n matrices", "coordinates"
PUBLISHED = {"KBR": 3667.4, "pKBR": 601.3, "kRegBayes": 677.5}  # seconds, 50 data sets


def run(seed: int, n: int, tests: int, dense_steps: int) -> list[dict]:
    """Seconds per step of each filter, both ways, and how far apart their angles are."""
    train, _, test = sequences(seed, n, tests)
    Z = on_circle(train.theta)
    settings = {
        **scaled_kernels(0.5, train.X, Z),
        "reg_prior": 1e-3,
        "reg": 2e-3,
        "reg_transition": 1e-3,
    }
    rows = []
    for method, rule, dense_rule, supervision in (
        ("KBR", "squared", squared, None),
        ("pKBR", "importance", thresholded, None),
        ("kRegBayes", "importance", thresholded, clock(test, 0.01)),
    ):
        ours = km.KernelBayesFilter(rule=rule, **settings).fit(train.X, Z)
        dense = DenseFilter(train.X, Z, rule=dense_rule, **settings)
        found, seconds = timed(kernel_angles, ours, test, {"supervision": supervision})
        means, slow = timed(dense.track, test.X[:dense_steps], supervision)
        apart = float(angle_errors(found[:dense_steps], angle(means)).max() ** 0.5)
        for way, time in ((OURS, seconds / tests), (DENSE, slow / dense_steps)):
            rows.append({"way": way, "method": method, "seconds": time, "radians apart": apart})
    return rows


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Milliseconds per step, relative to pKBR as the paper's are."""
    means = rows.groupby(["n", "way", "method"]).seconds.mean()
    return pd.DataFrame(
        [
            {
                "n": n,
                "way": way,
                "method": method,
                "runs": part.seed.nunique(),
                "milliseconds per step": 1000 * means[n, way, method],
                "time / pKBR": means[n, way, method] / means[n, way, "pKBR"],
                "published time / pKBR": PUBLISHED[method] / PUBLISHED["pKBR"],
                f"faster than {DENSE}": means[n, DENSE, method] / means[n, way, method],
                "radians apart": part["radians apart"].max(),
            }
            for (n, way, method), part in rows.groupby(["n", "way", "method"], sort=False)
        ]
    )


def figure(rows: pd.DataFrame) -> Figure:
    """Milliseconds per step."""
    picture = Figure(figsize=(6, 3.6), layout="constrained")
    ax = picture.subplots()
    table = summary(rows)
    for place, (way, colour) in enumerate({DENSE: "#0072B2", OURS: "#D55E00"}.items()):
        part = table[table.way == way].drop_duplicates("method", keep="last")
        places = [i + 0.4 * place for i in range(len(part))]
        ax.bar(places, part["milliseconds per step"], width=0.4, color=colour, label=way)
    ax.set_xticks([i + 0.2 for i in range(len(part))], part.method)
    ax.set(ylabel="milliseconds per step", yscale="log")
    ax.grid(alpha=0.3, axis="y")
    ax.legend(frameon=False)
    return picture


EXPERIMENTS = [
    Experiment(
        name="song2016-times",
        paper=PAPER,
        item="Section 5, running times",
        title="Time of a step of KBR, pKBR and kRegBayes, with n × n matrices and in coordinates.",
        run=run,
        summary=summary,
        figure=figure,
        grid=[{"n": 1000, "tests": 200, "dense_steps": 30}],
        quick=[{"n": 200, "tests": 20, "dense_steps": 5}],
        runs=5,
        first_seed=FIRST_SEED,
        seconds=10,
        quick_runs=1,
        notes=(
            "One thread. The paper's seconds are the total of 50 data sets: 3667.4, 601.3, 677.5. "
            "Lengthscales are half the median, λ_T = 0.001, δ_T = 2 λ_T, μ_T = 0.01."
        ),
    )
]

"""Figure 4: filtering two dynamics, error by length of training; EKF and UKF know the dynamics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km
from kernelmean.datasets import Trajectory

from .. import tracking
from ..reproduce import Experiment
from .settings import FIRST_SEED, PAPER

# lengths of training, and what the tuned default holds out: folds, or a share where that is slow
SIZES = {100: 5, 200: 5, 500: 0.2, 1000: 0.2, 2000: 0.2}
# β, of the median lengthscales; the paper does not print its candidates
SCALES = (0.5, 0.7, 1.0)
EPSILONS = (1e-5, 1e-4, 1e-3, 1e-2)
STEPS = 300  # of the held-out half on which candidates are tried
DYNAMICS = ("rotation", "oscillation")  # (a), (b)
PUBLISHED = {
    "rotation": {"EKF": "as UKF", "UKF": "as EKF", "KBR": "slightly above EKF"},
    "oscillation": {"EKF": "as UKF", "UKF": "as EKF", "KBR": "below EKF from T = 200"},
}


def run(
    seed: int, dynamics: str, n: int, tests: int, particles: int, validation: float = 5
) -> list[dict]:
    """Squared error of the state by every filter on the same sequences."""
    train, test = tracking.sequences(seed, n, tests, dynamics, "fukumizu")
    tracks = [
        *tracking.known_law(test, seed, particles),
        tracking.learned("KBR", kbr(train).filter, test),
        *tracking.tuned_default(train, test, validation),
    ]
    return tracking.as_rows(tracks, test.Z)


def kbr(train: Trajectory) -> km.KernelBayesFilter:
    """The paper's filter, tuned by its procedure: learned on one half, compared on the other."""
    tail = len(train.X) // 2
    return tracking.best_on_tail(list(candidates(train)), train.X, train.Z, tail, STEPS)


def candidates(train: Trajectory) -> Iterator[km.KernelBayesFilter]:
    for scale, eps in product(SCALES, EPSILONS):
        yield km.KernelBayesFilter(
            rule="squared",
            **tracking.scaled_kernels(scale, train.X, train.Z),
            reg_prior=eps,
            reg=2 * eps,
            reg_transition=eps,
        )


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Error beside the particle filter's and KBR's."""
    return tracking.summary(rows, ["dynamics", "n"], "KBR", published)


def published(case: dict, method: str) -> str:
    return PUBLISHED[case["dynamics"]].get(method, "")


def figure(rows: pd.DataFrame) -> Figure:
    return tracking.figure(summary(rows), ["dynamics"])


EXPERIMENTS = [
    Experiment(
        name="fukumizu2013-figure4",
        paper=PAPER,
        item="Figure 4",
        title="Filtering a rotation (a) and an oscillating one (b): error by length of training.",
        run=run,
        summary=summary,
        figure=figure,
        grid=[
            {"dynamics": name, "n": n, "tests": 200, "particles": 5000, "validation": validation}
            for name in DYNAMICS
            for n, validation in SIZES.items()
        ],
        quick=[{"dynamics": "oscillation", "n": 100, "tests": 40, "particles": 500}],
        runs=30,
        first_seed=FIRST_SEED,
        seconds=120,
        quick_runs=1,
        notes=(
            "Squared errors are summed over the two coordinates and averaged over 200 steps of a "
            "sequence of its own. EKF, UKF and the particle filter are given the dynamics. KBR: "
            "the squared rule, its lengthscale factor and ε chosen on the second half, δ = 2ε. The "
            "default holds out five folds in turn, or the last fifth from T = 500 on. The paper "
            "shows a figure without numbers."
        ),
    )
]

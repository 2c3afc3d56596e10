"""What Figure 4 of Fukumizu 2013 and Figure 2 of Xu 2022 share: error by length of training."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.base import clone

import kernelmean as km
from kernelmean.datasets import Trajectory, make_rotation

from . import filters
from .fukumizu2013.gaussian import squared_error
from .fukumizu2013.tables import lower

LEVEL = 0.9  # of the intervals whose coverage is counted
TRUTH = "particle filter"
OURS = "default, tuned"
SMOOTHED = "default, tuned, smoothed"
STYLES = {
    "EKF": {"color": "#888888", "linestyle": "--"},
    "UKF": {"color": "#444444", "linestyle": ":"},
    "UKF, α = 0.001": {"color": "#BBBBBB", "linestyle": ":"},
    TRUTH: {"color": "#000000", "linestyle": "-."},
    "KBR": {"color": "#0072B2"},
    "Original": {"color": "#0072B2"},
    "IW": {"color": "#D55E00"},
    OURS: {"color": "#009E73"},
    SMOOTHED: {"color": "#56B4E9"},
}


def sequences(seed: int, n: int, tests: int, dynamics: str, design: str) -> list[Trajectory]:
    """Training and test sequence, independent of each other."""
    return [
        make_rotation(length, dynamics, design, random_state=[seed, part])
        for part, length in enumerate((n, tests))
    ]


# ---------------------------------------------------------------- methods
Track = tuple[str, np.ndarray, float, float]  # method, states (n, d), seconds, coverage


def known_law(test: Trajectory, seed: int, particles: int) -> Iterator[Track]:
    """Filters that are given the law of the test sequence, and learn nothing."""
    model, X = test.model, test.X
    start = filters.first_moments(model)
    methods: dict[str, Callable[[], np.ndarray]] = {
        "EKF": lambda: filters.extended_kalman(model, X, *start),
        "UKF": lambda: filters.unscented_kalman(model, X, *start),
        "UKF, α = 0.001": lambda: filters.unscented_kalman(model, X, *start, spread=1e-3),
        TRUTH: lambda: filters.particle_means(model, X, np.random.default_rng(seed), particles),
    }
    for name, run in methods.items():
        states, seconds = timed(run)
        yield name, states, seconds, np.nan


def tuned_default(train: Trajectory, test: Trajectory, validation: float = 5) -> Iterator[Track]:
    """The package's own choice of every parameter of the rule, filtering and smoothing."""
    rule = km.KernelBayesFilter(inference="kbr")
    tuned = rule.tune(train.X, train.Z, validation=validation, n_jobs=1)
    yield learned(OURS, tuned.filter, test)
    yield learned(SMOOTHED, tuned.smooth, test)


def learned(name: str, run: Callable, test: Trajectory) -> Track:
    """The track by a kernel filter's `filter` or `smooth`."""
    result, seconds = timed(run, test.X)
    low, high = result.interval(LEVEL)
    inside = (low - test.Z <= 0) & (high - test.Z >= 0)
    return name, result.mean(), seconds, float(inside.mean())


def timed(function: Callable, *args) -> tuple[Any, float]:
    """What it returns, and the seconds it took."""
    begin = time.perf_counter()
    return function(*args), time.perf_counter() - begin


def as_rows(tracks: Iterable[Track], Z: np.ndarray) -> list[dict]:
    return [
        {"method": name, "mse": squared_error(states, Z), "seconds": seconds, "coverage": covered}
        for name, states, seconds, covered in tracks
    ]


# ---------------------------------------------------------------- choice on held-out steps
def scaled_kernels(scale: float, X, Z) -> dict[str, km.Gaussian]:
    """Gaussian kernels with the median lengthscales times `scale`."""
    return {
        "kernel_x": km.Gaussian().resolve(X).scaled(scale),
        "kernel_z": km.Gaussian().resolve(Z).scaled(scale),
    }


def best_on_tail(
    candidates: list[km.KernelBayesFilter], X, Z, tail: int, steps: int | None = None
) -> km.KernelBayesFilter:
    """The candidate that tracks the last `tail` rows best after learning from the rows before them.

    It is fitted to all rows in the end. `steps` bounds the number of rows it is tried on.
    """
    held = slice(len(X) - tail, len(X) - tail + (steps or tail))

    def error(candidate: km.KernelBayesFilter) -> float:
        fitted = clone(candidate).fit(X[:-tail], Z[:-tail])
        with warnings.catch_warnings():  # a candidate that collapses shows it in its error
            warnings.simplefilter("ignore", km.NumericalWarning)
            return squared_error(fitted.filter(X[held]).mean(), Z[held])

    return min(candidates, key=error).fit(X, Z)


# ---------------------------------------------------------------- table and figure
def summary(rows: pd.DataFrame, cases: list[str], ours: str, published: Callable) -> pd.DataFrame:
    """Mean error of every method, beside those of the particle filter and of `ours`.

    `cases` are the columns of settings that tell one case from another; `published(case, method)`
    is what is known of it.
    """
    return pd.DataFrame(
        [
            describe(dict(zip(cases, case, strict=True)), part, method, ours, published)
            for case, part in rows.groupby(cases, sort=False)
            for method in dict.fromkeys(part.method)
        ]
    )


def describe(case: dict, part: pd.DataFrame, method: str, ours: str, published: Callable) -> dict:
    columns = part.set_index(["seed", "method"])
    errors = columns.mse.unstack()
    mine = errors[method]
    return {
        **case,
        "method": method,
        "runs": len(mine),
        "mse": mine.mean(),
        "standard error": mine.sem(),
        "mse / particle filter": mine.mean() / errors[TRUTH].mean(),
        f"mse / {ours}": mine.mean() / errors[ours].mean(),
        f"p ({ours} lower)": lower(errors[ours], mine),
        "p (default lower)": lower(errors[OURS], mine),
        f"{LEVEL:.0%} interval covers": columns.coverage.unstack()[method].mean(),
        "seconds": columns.seconds.unstack()[method].mean(),
        "published": published(case, method),
    }


def figure(table: pd.DataFrame, panels: list[str]) -> Figure:
    """Error by length of training, a panel for each combination of the columns `panels`."""
    cases = list(table.groupby(panels, sort=False))
    picture = Figure(figsize=(4 * len(cases) + 2.5, 4.2), layout="constrained")
    axes = picture.subplots(1, len(cases), squeeze=False)[0]
    for ax, (case, part) in zip(axes, cases, strict=True):
        for method, rows in part.groupby("method", sort=False):
            style = {"label": method, "marker": "o", "markersize": 4, **STYLES[method]}
            ax.errorbar(rows.n, rows.mse, yerr=rows["standard error"], **style)
        ax.set(title=", ".join(case), xlabel="length of training")
        ax.grid(alpha=0.3)
    axes[0].set(ylabel="mean squared error of the state")
    handles, labels = axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside right upper", frameon=False)
    return picture

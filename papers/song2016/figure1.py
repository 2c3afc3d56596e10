"""Figure 1: a hidden angle seen through a flower; KBR, pKBR, kRegBayes, EKF and UKF."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km
from kernelmean.datasets import Trajectory, make_hidden_angle

from .. import filters
from ..fukumizu2013.tables import lower
from ..reproduce import Experiment
from ..tracking import scaled_kernels, timed

PAPER = "Song, Zhu, Ren (2016)"
FIRST_SEED = 20160
SCALES = (0.25, 0.5, 1.0)  # of the median lengthscales
EPSILONS = (1e-5, 1e-4, 1e-3, 1e-2)  # λ_T, with δ_T = 2 λ_T
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)  # μ_T, beside the Σβ ≈ 1 of the training pairs
MARKS = (1, 2, 5, 10, 20, 50, 100, 200)  # steps up to which errors are averaged
STYLES = {
    "EKF": {"color": "#888888", "linestyle": "--"},
    "UKF": {"color": "#444444", "linestyle": ":"},
    "particle filter": {"color": "#000000", "linestyle": "-."},
    "KBR": {"color": "#0072B2"},
    "pKBR": {"color": "#D55E00"},
    "kRegBayes": {"color": "#009E73"},
    "kRegBayes, at the predicted angle": {"color": "#56B4E9"},
    "pKBR, first angle known": {"color": "#E69F00"},
    "default, tuned": {"color": "#CC79A7"},
}
PUBLISHED = {"KBR": "above pKBR", "pKBR": "above kRegBayes", "kRegBayes": "below KBR and pKBR"}


def run(seed: int, n: int, tests: int, particles: int) -> list[dict]:
    """Mean squared error of the angle up to each marked step, for every filter."""
    train, valid, test = sequences(seed, n, tests)
    return [
        {"method": name, "step": mark, "mse": float(errors[:mark].mean()), "seconds": seconds}
        for name, angles, seconds in tracks(train, valid, test, particles, seed)
        for errors in [angle_errors(angles, test.theta)]
        for mark in MARKS
        if mark <= tests
    ]


def sequences(seed: int, n: int, tests: int) -> list[Trajectory]:
    """Training, validation and test sequences."""
    return [
        make_hidden_angle(length, random_state=[seed, part])
        for part, length in enumerate((n, tests, tests))
    ]


def angle_errors(found: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Squared distances on the circle."""
    return ((found - theta + np.pi) % (2 * np.pi) - np.pi) ** 2


def on_circle(theta: np.ndarray) -> np.ndarray:
    """(cos θ, sin θ): the states that kernel filters see, so that 0 and 2π are one angle."""
    return np.column_stack([np.cos(theta), np.sin(theta)])


def angle(Z: np.ndarray) -> np.ndarray:
    return np.arctan2(Z[..., 1], Z[..., 0])


# ---------------------------------------------------------------- methods
def tracks(
    train: Trajectory, valid: Trajectory, test: Trajectory, particles: int, seed: int
) -> Iterator[tuple[str, np.ndarray, float]]:
    """Name, angles of the test sequence, and the seconds they took."""
    for name, follow in known_law(test, particles, seed):
        yield name, *timed(follow)
    kbr, pkbr = (tuned(rule, train, valid) for rule in ("squared", "importance"))
    rule = km.KernelBayesFilter(inference="kbr")
    default = rule.tune(train.X, on_circle(train.theta), n_jobs=1)
    for name, filter_ in (("KBR", kbr), ("pKBR", pkbr), ("default, tuned", default)):
        yield name, *timed(kernel_angles, filter_, test)
    known = {"prior": on_circle(test.theta[:1])}
    yield "pKBR, first angle known", *timed(kernel_angles, pkbr, test, known)
    for name, supervision in (
        ("kRegBayes", clock),
        ("kRegBayes, at the predicted angle", at_predicted_angle),
    ):
        strength = best_strength(pkbr, supervision, valid)
        given = {"supervision": supervision(test, strength)}
        yield name, *timed(kernel_angles, pkbr, test, given)


def known_law(test: Trajectory, particles: int, seed: int) -> Iterator[tuple[str, Callable]]:
    """Filters that are given the dynamics and the first angle, as in the paper."""
    model, X, start = test.model, test.X, (test.Z[0], 1e-6 * np.eye(1))

    def particle_angles() -> np.ndarray:
        first = np.repeat(test.Z[:1], particles, axis=0)
        Z, w = filters.particle_filter(model, X, np.random.default_rng(seed), first=first)
        return np.angle(np.sum(w * np.exp(1j * Z[..., 0]), axis=1))

    yield "EKF", lambda: filters.extended_kalman(model, X, *start)[:, 0]
    yield "UKF", lambda: filters.unscented_kalman(model, X, *start)[:, 0]
    yield "particle filter", particle_angles


def kernel_angles(filter_, data: Trajectory, given: dict | None = None) -> np.ndarray:
    """Filtered angles; a filter may be given a prior or supervision."""
    with warnings.catch_warnings():  # a collapsed step shows in the error
        warnings.simplefilter("ignore", km.NumericalWarning)
        return angle(filter_.filter(data.X, **(given or {})).mean())


def clock(data: Trajectory, strength: float) -> tuple:
    """The paper's supervision: where noise-free dynamics lead from the first angle."""
    theta = data.theta[0] + 0.4 * np.arange(len(data.X))
    strengths = np.full(len(theta), strength)
    strengths[0] = 0
    return data.model.emission(theta[:, None]), on_circle(theta), strengths


def at_predicted_angle(data: Trajectory, strength: float) -> Callable:
    """Supervision at the predicted angle: a clock that is set anew at every step."""

    def at(step: int, x: np.ndarray, belief) -> tuple | None:
        if step == 0:
            return None
        theta = angle(np.asarray(belief.mean())).reshape(1, 1)
        return data.model.emission(theta), on_circle(theta[:, 0]), strength

    return at


# ---------------------------------------------------------------- choices by validation
def tuned(rule: str, train: Trajectory, valid: Trajectory) -> km.KernelBayesFilter:
    """Lengthscale factor and λ_T with the least error on the validation sequence."""
    return min(
        (c.fit(train.X, on_circle(train.theta)) for c in candidates(rule, train)),
        key=lambda fitted: validation_error(fitted, valid),
    )


def candidates(rule: str, train: Trajectory) -> Iterator[km.KernelBayesFilter]:
    for scale, eps in product(SCALES, EPSILONS):
        kernels = scaled_kernels(scale, train.X, on_circle(train.theta))
        yield km.KernelBayesFilter(
            rule=rule, **kernels, reg_prior=eps, reg=2 * eps, reg_transition=eps
        )


def best_strength(fitted, supervision: Callable, valid: Trajectory) -> float:
    """μ_T with the least error on the validation sequence."""

    def error(strength: float) -> float:
        return validation_error(fitted, valid, {"supervision": supervision(valid, strength)})

    return min(STRENGTHS, key=error)


def validation_error(fitted, valid: Trajectory, given: dict | None = None) -> float:
    return float(angle_errors(kernel_angles(fitted, valid, given), valid.theta).mean())


# ---------------------------------------------------------------- table and figure
def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Running error at the marked steps, beside pKBR's."""
    return pd.DataFrame(
        [
            describe(part, method, n)
            for n, part in rows.groupby("n", sort=False)
            for method in STYLES
        ]
    )


def describe(part: pd.DataFrame, method: str, n: int) -> dict:
    errors = part.pivot_table(index="seed", columns=["method", "step"], values="mse")
    ours, pkbr, last = errors[method], errors["pKBR"], part.step.max()
    return {
        "n": n,
        "method": method,
        "runs": len(ours),
        "mse": ours[last].mean(),
        "standard error": ours[last].sem(),
        "mse / pKBR": ours[last].mean() / pkbr[last].mean(),
        "p (lower than pKBR)": lower(ours[last], pkbr[last]),
        **{f"to step {step}": ours[step].mean() for step in ours if step < last},
        "seconds": part[part.method == method].seconds.mean(),
        "published": PUBLISHED.get(method, ""),
    }


def figure(rows: pd.DataFrame) -> Figure:
    """Running error against steps, a panel for each length of training."""
    sizes = list(rows.groupby("n", sort=False))
    picture = Figure(figsize=(4 * len(sizes) + 3, 4.2), layout="constrained")
    axes = picture.subplots(1, len(sizes), squeeze=False, sharey=True)[0]
    for ax, (n, part) in zip(axes, sizes, strict=True):
        groups = part.groupby(["method", "step"]).mse
        for method, style in STYLES.items():
            means, spread = groups.mean()[method], groups.sem()[method]
            ax.errorbar(means.index, means, yerr=spread, label=method, marker="o", ms=4, **style)
        ax.set(title=f"n = {n}", xlabel="steps", xscale="log", yscale="log", ylim=(1e-3, 5))
        ax.grid(alpha=0.3)
    axes[0].set(ylabel="running mean squared error of the angle")
    handles, labels = axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside right upper", frameon=False)
    return picture


EXPERIMENTS = [
    Experiment(
        name="song2016-figure1",
        paper=PAPER,
        item="Figure 1",
        title="A hidden angle seen through a flower: running error of six filters.",
        run=run,
        summary=summary,
        figure=figure,
        grid=[{"n": n, "tests": 200, "particles": 5000} for n in (100, 1000)],
        quick=[{"n": 100, "tests": 20, "particles": 500}],
        runs=30,
        first_seed=FIRST_SEED,
        seconds=100,
        quick_runs=1,
        notes=(
            "Squared distances on the circle, in radians, averaged over the steps so far. EKF, "
            "UKF, the particle filter and kRegBayes know the dynamics and the first angle. "
            "Lengthscale factor and λ_T (δ_T = 2 λ_T), then μ_T, are chosen on a validation "
            "sequence. The paper has n = 1,000, and a figure without numbers."
        ),
    ),
]

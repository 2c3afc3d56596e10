"""What Figures 5 and 6 share: tracking a state by pictures, with kernels and with networks."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.base import clone

import kernelmean as km

from .. import filters, tracking
from ..fukumizu2013.gaussian import squared_error
from ..fukumizu2013.tables import lower
from .figure2 import leave_one_out
from .film import RUN_IN, Design, Film

TORCH = find_spec("torch") is not None
READ = "what is shown, known"
STYLES = {
    "Original": {"color": "#0072B2"},
    "IW": {"color": "#D55E00"},
    "default": {"color": "#009E73"},
    "IW (NN)": {"color": "#CC79A7"},
    "LSTM": {"color": "#E69F00"},
    READ: {"color": "#000000", "linestyle": ":"},
}
COMPARED = ("IW", "IW (NN)", "Original")

SIZES = (100, 200, 400)  # the paper's end at 900
TESTS, RUNS = 200, 6
FIRST_SEED = 20250  # those from 20220 on were seen with a grid of β that lacked 1/4
SCALES = (0.25, 0.5, 1.0, 2.0)  # β, of the median lengthscales
REGS = (1e-4, 1e-3, 1e-2, 1e-1)  # λ; δ = λ² of the squared rule weighs an eigenvalue alike
LEARNED_REGS = (1e-3, 1e-2, 1e-1, 1.0)  # λ for learned features
EPOCHS = {"IW (NN)": 40, "LSTM": 100}  # at most: a quarter of them without progress is the end
NEED_TORCH = tuple(EPOCHS)
PARTICLES = 1000
NOTES = (
    "Squared errors are summed over the two coordinates and averaged over 200 steps of another "
    f"film. Sizes are reduced: the paper has n up to 900 and 30 runs. {READ!r} is a particle "
    "filter that is told the dynamics and what every picture shows. IW (NN) and LSTM need "
    "PyTorch (pip install 'kernelmean[nn]') and are left out without it."
)


# ---------------------------------------------------------------- films
@lru_cache(maxsize=1)
def films(design: Design, seed: int, n: int, tests: int) -> tuple[Film, Film]:
    """A film to learn from, and one to track, independent of each other."""
    return Film.of(design, n, [seed, 0]), Film.of(design, RUN_IN + tests, [seed, 1])


# ---------------------------------------------------------------- methods
def measured(design: Design, method: str, seed: int, n: int, tests: int, epochs: int) -> dict:
    """Squared error of the state after the run-in, and the seconds to learn and track."""
    train, test = films(design, seed, n, tests)
    begin = time.perf_counter()
    if method == READ:
        states = read(design, test, seed)
    elif method in NEED_TORCH:
        states = by_networks(method, train, test, epochs, seed)
    else:
        states = filtered(tuned(method, train), test)
    seconds = time.perf_counter() - begin
    return {"mse": squared_error(states[RUN_IN:], test.Z[RUN_IN:]), "seconds": seconds}


def read(design: Design, test: Film, seed: int) -> np.ndarray:
    """Particle filter that is told what each picture shows, and the dynamics: no one can do better.

    What a picture shows is the walk's observation: the state with its noise.
    """
    rng = np.random.default_rng([seed, 2])
    particles, weights = filters.particle_filter(test.walk.model, test.walk.X, rng, PARTICLES)
    return np.einsum("tp,tpd->td", weights, design.states(particles))


def tuned(method: str, train: Film) -> km.KernelBayesFilter:
    """The filter with its settings chosen on the tail of the training film."""
    if method == "default":
        return km.KernelBayesFilter().fit(train.X, train.Z)
    if method == "IW":
        models = candidates(train, "importance", REGS)
    else:
        models = candidates(train, "squared", [reg**2 for reg in REGS])
    return tracking.best_on_tail(list(models), train.X, train.Z, train.tail)


def candidates(train: Film, rule: str, regs, features=None) -> Iterator[km.KernelBayesFilter]:
    """Every β and λ."""
    kernel_x, kernel_z = km.Gaussian().resolve(train.X), km.Gaussian().resolve(train.Z)
    for scale in SCALES:
        states = kernel_z.scaled(scale)
        eta = leave_one_out(train.Z, states)
        for reg in regs:
            yield km.KernelBayesFilter(
                rule=rule,
                kernel_x=kernel_x.scaled(scale),
                kernel_z=states,
                reg_prior=eta,
                reg=reg,
                reg_transition=eta,
                features=features,
            )


def filtered(model: km.KernelBayesFilter, test: Film) -> np.ndarray:
    with warnings.catch_warnings():  # unlike any picture seen: the prediction is kept, and counts
        warnings.simplefilter("ignore", km.NumericalWarning)
        return model.filter(test.X).mean()


def by_networks(method: str, train: Film, test: Film, epochs: int, seed: int) -> np.ndarray:
    """The methods that learn features of the pictures, with one thread as all others."""
    from . import networks

    with networks.one_thread():
        if method == "LSTM":
            return networks.lstm(train, test, epochs, patience(epochs), seed)
        return filtered(with_learned_features(train, epochs, seed), test)


def with_learned_features(train: Film, epochs: int, seed: int) -> km.KernelBayesFilter:
    """β and λ by features learned before the tail; then features learned from all pictures.

    Features that had seen the tail would make a small λ look good there.
    """
    neural = km.Neural(
        image_shape=train.shape,
        training=km.Training(max_epochs=epochs, patience=patience(epochs)),
        device="cpu",
        random_state=seed,
    )
    head = clone(neural).fit_pairs(train.X[: -train.tail], train.Z[: -train.tail])
    models = list(candidates(train, "importance", LEARNED_REGS, features=head))
    best = tracking.best_on_tail(models, train.X, train.Z, train.tail)
    return best.set_params(features=neural).fit(train.X, train.Z)


def patience(epochs: int) -> int:
    return max(1, epochs // 4)


def grid(sizes, tests: int, epochs: dict[str, int]) -> list[dict]:
    """An element for every method, but for those that need PyTorch where it is not installed."""
    return [
        {"n": n, "tests": tests, "method": method}
        | ({"epochs": epochs[method]} if method in NEED_TORCH else {})
        for n, method in product(sizes, STYLES)
        if TORCH or method not in NEED_TORCH
    ]


# ---------------------------------------------------------------- table and figure
def summary(rows: pd.DataFrame, published: dict[str, str]) -> pd.DataFrame:
    """Mean errors and Wilcoxon's signed-rank tests; a method left out has a row that says so."""
    return pd.DataFrame(
        [
            {**describe(n, part, method), "published": published.get(method, "")}
            for n, part in rows.groupby("n", sort=False)
            for method in STYLES
        ]
    )


def describe(n: int, rows: pd.DataFrame, method: str) -> dict:
    table = rows.pivot(index="seed", columns="method")
    errors = table["mse"]
    if method not in errors:
        return {"n": n, "method": left_out(method), "runs": 0}
    mine = errors[method]
    return {
        "n": n,
        "method": method,
        "runs": len(mine),
        "mse": mine.mean(),
        "standard error": mine.sem(),
        **{f"p ({k} lower)": lower(errors[k], mine) for k in COMPARED if k in errors},
        "seconds": table["seconds"][method].mean(),
    }


def left_out(method: str) -> str:
    return f"{method}: left out" + (", needs PyTorch" if method in NEED_TORCH else "")


def figure(rows: pd.DataFrame, design: Design) -> Figure:
    """Error by length of training, and a few pictures as the filters get them."""
    picture = Figure(figsize=(8.5, 5.2), layout="constrained")
    axes = picture.subplot_mosaic([["errors"], ["views"]], height_ratios=[4, 1])
    errors = rows.groupby(["method", "n"]).mse.agg(["mean", "sem"])
    for method, style in STYLES.items():
        if method in errors.index:
            part = errors.loc[method]
            marks = {"label": method, "marker": "o", "markersize": 4, **style}
            axes["errors"].errorbar(part.index, part["mean"], yerr=part["sem"], **marks)
        else:
            axes["errors"].plot([], [], " ", label=left_out(method))
    axes["errors"].set(xlabel="length of training", ylabel="mean squared error", yscale="log")
    axes["errors"].grid(alpha=0.3, which="both")
    picture.legend(loc="outside right upper", frameon=False)
    show_views(axes["views"], Film.of(design, 8, [0, 0]))
    return picture


def show_views(ax, film: Film) -> None:
    views = np.moveaxis(film.X.reshape(-1, *film.shape), 1, 3).clip(0, 1)
    ax.imshow(np.hstack([np.pad(view, ((0, 0), (0, 2), (0, 0))) for view in views]), cmap="gray")
    ax.axis("off")

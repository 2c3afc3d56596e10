"""State-space models 18 to 20: draws, the models compared, and the errors of their forecasts."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

import kernelmean as km
from kernelmean.adapters.particles import as_particles_model
from kernelmean.comparators import AutoRegression, LaggedRidge
from kernelmean.datasets import StateSpaceData
from kernelmean.statespace.particles import bootstrap, forecast_quantile

from . import algorithm3

PAPER = "Spiteri (2023)"
FIRST_SEED = 34000  # no choice in the code was made by looking at these seeds
RUNS = 10
ROWS, TEST = 1000, 200  # learned from, and judged by; the thesis: 800 and 200 to choose by, 200
PARTICLES = 500
LEVEL = 0.9
TAILS = (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)
MODELS = {"linear": "Model 18", "bimodal": "Model 19", "volatility": "Model 20"}
TRUE, DEFAULT, THESIS, START = "true law, exact", "default", "thesis", "thesis, start"
MOMENTS, RIDGE, PACKAGE = "moments", "LaggedRidge", "true law, package particles"
COLOURS = {  # of Okabe and Ito
    TRUE: "black",
    "true law, particles": "#666666",
    PACKAGE: "#999999",
    DEFAULT: "#D55E00",
    "default, kbr": "#E69F00",
    "default, particles": "#8B5A2B",  # the yellow of these authors is too faint for dots
    MOMENTS: "#0072B2",
    THESIS: "#56B4E9",
    START: "#A6D8F2",
    "AR(1)": "#CC79A7",
    RIDGE: "#009E73",
}
METHODS = tuple(COLOURS)


@dataclass(frozen=True)
class Forecasts:
    """Of every row from those before it.

    Attributes
    ----------
    mean : array of shape (n, 1)
    log : array of shape (n,) or None
        Log-density of the observation.
    ends : pair of arrays (n, 1) or None
        Of the interval of level `LEVEL`.
    seconds : float or None
        Processor time of the fit.
    """

    mean: np.ndarray
    log: np.ndarray | None = None
    ends: tuple[np.ndarray, np.ndarray] | None = None
    seconds: float | None = None


def draw(seed: int, design: str, n: int, test: int = TEST) -> StateSpaceData:
    """One sequence: rows to learn from, then rows to judge by."""
    return km.datasets.make_state_space(design, n + test, random_state=seed)


def forecasts(data: StateSpaceData, n: int, seed: int) -> Iterator[tuple[str, Forecasts]]:
    """What every method says, learned from the first n rows, and its name."""
    X, train, law = data.X, data.X[:n], data.model
    seed += 10**6  # particles shall not be drawn from the numbers that the data were
    yield TRUE, exact(law, X)
    yield "true law, particles", by_particles(law, X, seed)
    if find_spec("particles"):
        yield PACKAGE, by_package(law, X, seed)
    ours = km.KernelStateSpace(inference="kbr", random_state=seed)
    model, seconds = fitted(ours, train)
    yield "default, kbr", of_model(model, X, seconds)
    yield DEFAULT, of_model(model.set_params(inference="nodes"), X, seconds)
    model.set_params(inference=km.Particles(PARTICLES))
    yield "default, particles", of_model(model, X, seconds)
    moments = fitted(km.KernelStateSpace(refine=False, random_state=seed), train)
    yield MOMENTS, of_model(moments[0], X, moments[1])
    yield START, of_laws(algorithm3.first(train, seed), X)
    start = time.process_time()
    laws = algorithm3.tuned(train, seed)
    yield THESIS, of_laws(laws, X, time.process_time() - start)
    for name, regression in (("AR(1)", AutoRegression()), (RIDGE, LaggedRidge())):
        model, seconds = fitted(regression, train)
        yield name, Forecasts(model.predict(X), seconds=seconds)


def fitted(model, X) -> tuple:
    """The model and the time it took; of the processor, which others' work leaves alone."""
    start = time.process_time()
    return model.fit(X), time.process_time() - start


def exact(law, X: np.ndarray) -> Forecasts:
    ends = law.forecast_interval(X, LEVEL)
    return Forecasts(law.predict(X), law.log_predictive(X), (ends[:, :1], ends[:, 1:]))


def of_model(model: km.KernelStateSpace, X: np.ndarray, seconds: float) -> Forecasts:
    with warnings.catch_warnings():  # rows out of the range that was learned from count too
        warnings.simplefilter("ignore", km.NumericalWarning)
        ends = model.predict_interval(X, LEVEL)
        return Forecasts(model.predict(X), model.log_predictive(X), ends, seconds)


def by_particles(law, X: np.ndarray, seed: int) -> Forecasts:
    """The bootstrap filter."""
    seen, whole, rng = np.ones(len(X), dtype=bool), [slice(0, len(X))], np.random.default_rng(seed)
    found = bootstrap(law, X, seen, whole, PARTICLES, rng, keep=True)
    ends = forecast_quantile(law, found, TAILS, rng)
    return Forecasts(found.mean, found.loglik, (ends[:, 0], ends[:, 1]))


def by_package(law, X: np.ndarray, seed: int) -> Forecasts:
    """The same by the package `particles`."""
    from particles import SMC
    from particles.state_space_models import Bootstrap

    np.random.seed(seed)  # noqa: NPY002 (it resamples by the global generator)
    model = Bootstrap(ssm=as_particles_model(law, seed), data=X)
    run = SMC(fk=model, N=PARTICLES, resampling="systematic", ESSrmin=0.5)
    means, weights = [], np.full(PARTICLES, 1 / PARTICLES)
    for _ in run:
        # particles have moved; their weights are those before y_t, even again if resampled
        moved = np.full(PARTICLES, 1 / PARTICLES) if run.rs_flag else weights
        means.append(moved @ law.mean_emission(np.reshape(run.X, (PARTICLES, -1))))
        weights = run.W
    return Forecasts(np.array(means))


def of_laws(laws: algorithm3.Laws, X: np.ndarray, seconds: float | None = None) -> Forecasts:
    return Forecasts(*laws.predict(X), seconds=seconds)


# ---------------------------------------------------------------- errors
def run(seed: int, design: str, n: int) -> list[dict]:
    """Errors of every method on the last rows."""
    data = draw(seed, design, n)
    y, found = data.X[n:], dict(forecasts(data, n, seed))
    best = found[TRUE].log[n:]
    return [{"method": name, **errors(y, n, best, f)} for name, f in found.items()]


def errors(y: np.ndarray, n: int, best: np.ndarray, found: Forecasts) -> dict[str, float]:
    """Mean squared error, share inside the interval, mean log-density below the true law's."""
    said = {"mse": float(np.mean((y - found.mean[n:]) ** 2))}
    if found.ends is not None:
        low, high = (end[n:] for end in found.ends)
        said["coverage"] = float(np.mean((low <= y) & (y <= high)))
    if found.log is not None:
        said["gap"] = float(np.mean(best - found.log[n:]))
    if found.seconds is not None:
        said["seconds"] = found.seconds
    return said

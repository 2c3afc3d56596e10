"""Posteriors of simulators from others' examples, beside regression-adjusted and rejection ABC.

Where no exact posterior is known, draws θ_1 … θ_m are judged at the parameter θ* that made the data
by the energy score (1/m)Σ‖θ_j − θ*‖ − ½ E‖θ_j − θ_k‖, in standard deviations of the prior: on
average least for the exact posterior, above which it is by half of the energy distance. That tells
less of the draws than of θ*; so there is the energy distance, too, to the posterior by regression
adjustment of the nearest 1% of 200,000 simulations, in its standard deviations. Held is the share
of columns of data sets whose central 90% interval holds θ*. "default" is
`simulate_posterior`, in rounds for each data set; "density" the same for all data sets at once;
"pairs" is `KernelBayes`, rejection and regression take the nearest 1% and 10% of the simulations;
all have n of them.

Designs: ELFI's MA(2) and Ricker, the M/G/1 queue (Blum and François 2010), g-and-k (Allingham et
al. 2009), pyABC's conversion reaction, sbibm's SIR and Gaussian linear uniform, heights (abcpy), an
event's rate from one count, a scale from few draws, a bound, a count of trials, the sign that data
do not tell. A part: `PYTHONPATH=benchmarks python -c "from bench_abc import compare;
compare(['M/G/1'], 1000, 24, 100)"`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from _harness import Table, arguments
from bench_posteriors import DRAWS, adjusted, energy, near, sir_prior
from scipy.spatial.distance import cdist, pdist
from scipy.special import ndtr

import kernelmean as km


class Design(NamedTuple):
    """Functions of a generator: parameters, and data or summaries of them."""

    prior: Callable
    simulate: Callable


def uniform(*ends: tuple[float, float]) -> Callable:
    low, high = np.transpose(ends)
    return lambda n, rng: rng.uniform(low, high, size=(n, len(low)))


# ---------------------------------------------------------------- designs
def ma2_prior(n: int, rng) -> np.ndarray:
    """In the triangle of invertible ones."""
    found = uniform((-2, 2), (-1, 1))(8 * n, rng)
    return found[(found[:, 0] + found[:, 1] > -1) & (found[:, 0] - found[:, 1] < 1)][:n]


def ma2(theta, rng) -> np.ndarray:
    """Autocovariances of lags one and two of a hundred steps."""
    e = rng.normal(size=(len(theta), 102))
    x = e[:, 2:] + theta[:, :1] * e[:, 1:-1] + theta[:, 1:] * e[:, :-2]
    return np.column_stack([(x[:, lag:] * x[:, : 100 - lag]).mean(axis=1) for lag in (1, 2)])


def ricker(theta, rng) -> np.ndarray:
    """Log r, σ, φ: mean, spread, zeros and autocorrelation of fifty counts."""
    r, sigma, phi = np.exp(theta[:, 0]), theta[:, 1], theta[:, 2]
    size, seen = np.ones(len(theta)), []
    for _ in range(50):
        size = r * size * np.exp(-size + sigma * rng.normal(size=len(theta)))
        seen.append(rng.poisson(phi * size))
    x = np.stack(seen, axis=1)
    off = x - x.mean(axis=1, keepdims=True)
    variance = (off**2).mean(axis=1) + 1e-12
    lags = [(off[:, k:] * off[:, :-k]).mean(axis=1) / variance for k in (1, 2, 3)]
    return np.column_stack([x.mean(axis=1), np.sqrt(variance), (x == 0).sum(axis=1), *lags])


def queue_prior(n: int, rng) -> np.ndarray:
    return uniform((0, 10), (0, 10), (0, 1 / 3))(n, rng)


def queue(theta, rng) -> np.ndarray:
    """Least service, its range, rate of arrivals: log quantiles of fifty times between leavings."""
    low, extra, rate = theta.T[:, :, None]
    service = low + extra * rng.random((len(theta), 50))
    arrived = np.cumsum(rng.exponential(1, (len(theta), 50)) / rate, axis=1)
    left, gaps = np.zeros(len(theta)), []
    for i in range(50):
        gone = np.maximum(left, arrived[:, i]) + service[:, i]
        gaps.append(gone - left)
        left = gone
    return np.log(np.quantile(gaps, [0, 0.25, 0.5, 0.75, 1], axis=0).T)


def g_and_k(theta, rng) -> np.ndarray:
    """Seven octiles of a hundred draws."""
    A, B, g, k = theta.T[:, :, None]
    z = rng.normal(size=(len(theta), 100))
    x = A + B * (1 + 0.8 * np.tanh(g * z / 2)) * (1 + z * z) ** k * z
    return np.quantile(x, np.arange(1, 8) / 8, axis=1).T


def conversion(theta, rng) -> np.ndarray:
    """A turns to B and back: B at ten times."""
    a, b = theta.T[:, :, None]
    t = np.linspace(0, 30, 10)
    return a / (a + b) * (1 - np.exp(-(a + b) * t)) + 0.02 * rng.normal(size=(len(theta), 10))


def sir(theta, rng) -> np.ndarray:
    """Ten counts of a thousand tested over 160 days."""
    beta, gamma = theta.T
    S, infected, seen = np.full(len(theta), 1e6 - 1), np.ones(len(theta)), []
    for step in range(1600):
        new, gone = 0.1 * beta * S * infected / 1e6, 0.1 * gamma * infected
        S, infected = S - new, infected + new - gone
        if step % 160 == 159:
            seen.append(infected / 1e6)
    return rng.binomial(1000, np.clip(np.stack(seen, axis=1), 0, 1)).astype(float)


def heights(theta, rng) -> np.ndarray:
    """Mean and variance of fifty normal draws."""
    x = theta[:, :1] + theta[:, 1:] * rng.normal(size=(len(theta), 50))
    return np.column_stack([x.mean(axis=1), x.var(axis=1)])


def square(theta, rng) -> np.ndarray:
    return theta**2 + 0.3 * rng.normal(size=theta.shape)


DESIGNS = {
    "MA(2)": Design(ma2_prior, ma2),
    "Ricker": Design(uniform((3, 5), (0, 0.6), (5, 15)), ricker),
    "M/G/1": Design(queue_prior, queue),
    "g-and-k": Design(uniform((0, 10), (0, 10), (0, 10), (0, 2)), g_and_k),
    "conversion": Design(uniform((0, 0.4), (0, 0.4)), conversion),
    "SIR": Design(sir_prior, sir),
    "linear uniform": Design(
        uniform(*10 * [(-1, 1)]), lambda t, rng: t + np.sqrt(0.1) * rng.normal(size=t.shape)
    ),
    "heights": Design(uniform((150, 200), (1, 25)), heights),
    "rate": Design(
        lambda n, rng: rng.exponential(3, (n, 1)), lambda t, rng: rng.poisson(t).astype(float)
    ),
    "scale": Design(
        lambda n, rng: np.exp(2 * rng.normal(size=(n, 1))),
        lambda t, rng: (t * rng.normal(size=(len(t), 3))) ** 2,
    ),
    "bound": Design(
        uniform((0, 1)), lambda t, rng: (t * rng.random((len(t), 5))).max(axis=1, keepdims=True)
    ),
    "edge": Design(uniform((0, 1)), lambda t, rng: t + 0.5 * rng.normal(size=t.shape)),
    "trials": Design(
        lambda n, rng: rng.integers(1, 31, (n, 1)).astype(float),
        lambda t, rng: rng.binomial(t.astype(int), 0.4).astype(float),
    ),
    "sign": Design(lambda n, rng: rng.normal(size=(n, 1)), square),
    "probit": Design(
        lambda n, rng: rng.normal(size=(n, 2)),
        lambda t, rng: rng.binomial(20, ndtr(t @ [[1, 1, 1], [-1, 0, 1]])).astype(float),
    ),
}


# ---------------------------------------------------------------- methods: draws at each row
def default(design: Design, n: int, rows, seed: int) -> np.ndarray:
    laws = (
        km.simulate_posterior(*design, row, n, batch_size=n, random_state=seed + i)
        for i, row in enumerate(rows)
    )
    return np.stack([law.sample(DRAWS, 0).reshape(DRAWS, -1) for law in laws])


def density(design: Design, n: int, rows, seed: int) -> np.ndarray:
    laws = km.simulate_posterior(*design, rows, n, batch_size=n, random_state=seed)
    return laws.sample(DRAWS, 0)


def pairs(design: Design, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    theta = design.prior(n, rng)
    return theta, design.simulate(theta, rng)


def kernel_bayes(design: Design, n: int, rows, seed: int, rule: str = "importance") -> np.ndarray:
    theta, X = pairs(design, n, seed)
    return km.KernelBayes(rule).fit(X, theta).posterior(rows).sample(DRAWS, 0)


def regression(design: Design, n: int, rows, seed: int) -> np.ndarray:
    theta, X = pairs(design, n, seed)
    rng = np.random.default_rng(seed)
    return np.stack([adjusted(theta, X, x, 0.1, rng) for x in rows])


def rejection(design: Design, n: int, rows, seed: int) -> np.ndarray:
    theta, X = pairs(design, n, seed)
    rng = np.random.default_rng(seed)
    return np.stack([theta[rng.choice(near(X, x, 0.01)[0], DRAWS)] for x in rows])


METHODS: dict[str, Callable] = {
    "default": default,
    "density": density,
    "pairs": kernel_bayes,
    "regression": regression,
    "rejection": rejection,
}


# ---------------------------------------------------------------- the judge
def energy_scores(draws, theta, unit) -> np.ndarray:
    """Of the draws (m, k, p) for each data set at its parameter (m, p)."""
    both = list(zip(draws / unit, theta / unit, strict=True))
    return np.array([cdist(P, t[None]).mean() - 0.5 * pdist(P).mean() for P, t in both])


def reference(design: Design, rows, rng, many: int = 200_000) -> list[np.ndarray]:
    """Draws at each row by regression adjustment of the nearest 1% of so many simulations."""
    parts = [design.prior(20_000, rng) for _ in range(many // 20_000)]
    X = np.concatenate([design.simulate(part, rng) for part in parts])
    return [adjusted(np.concatenate(parts), X, x, 0.01, rng) for x in rows]


def compare(
    names: list[str], n: int, datasets: int, first: int, methods: list[str] | None = None
) -> None:
    """Mean scores and distances; how far above those of regression, in errors of the difference."""
    heads = "score", "over", "t", "distance", "over", "t", "held", "worst score"
    table = Table(
        f"{n:,} simulations, {datasets} data sets from seed {first} on; over: of regression",
        *["design        ", "method    ", *heads],
    )
    for name in names:
        design, rng = DESIGNS[name], np.random.default_rng(first)
        unit = design.prior(10_000, np.random.default_rng(0)).std(axis=0)
        theta = design.prior(datasets, rng)
        rows, found = design.simulate(theta, rng), {}
        exact = reference(design, rows, np.random.default_rng([first, 1]))
        for method in dict.fromkeys(["regression", *(methods or METHODS)]):
            draws = METHODS[method](design, n, rows, first)
            scores = energy_scores(draws, theta, unit)
            far = np.array([energy(*both) for both in zip(exact, draws, strict=True)])
            found[method] = scores, far
            low, high = np.quantile(draws, [0.05, 0.95], axis=1)
            held = float(((low <= theta) & (theta <= high)).mean())
            pairs = zip(found[method], found["regression"], strict=True)
            told = [cell for pair in pairs for cell in beside(*pair)]
            table.row(name, method, *told, held, scores.max())


def beside(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float, float]:
    """The mean, over the mean of theirs, and the difference in its standard errors."""
    by = ours - theirs
    t = by.mean() / max(by.std() / np.sqrt(len(by)), 1e-12)
    return ours.mean(), ours.mean() / theirs.mean(), t


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if arguments(__doc__).quick:
        compare(["trials", "edge"], 500, 4, 0)
    else:
        compare(list(DESIGNS), 1_000, 24, 0)

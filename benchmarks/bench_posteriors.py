"""`simulate_posterior` beside regression-adjusted and rejection ABC on the same simulations.

Designs with exact posteriors: Two Moons, the Gaussian linear model and the Gaussian mixture of
sbibm (Lueckmann et al. 2021), and θ² seen with noise. C2ST is the accuracy, over folds, of sbibm's
classifier in telling draws from the exact posterior (.5: it cannot); energy distances are of
columns over their exact standard deviations. Observations are drawn from the prior predictive.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from _harness import Table, arguments, measure
from scipy.spatial.distance import cdist
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neural_network import MLPClassifier

import kernelmean as km

DRAWS = 1000


@dataclass(frozen=True)
class Design:
    """Functions of a generator: parameters, data, and draws from the exact posterior."""

    prior: Callable
    simulate: Callable
    exact: Callable


# ---------------------------------------------------------------- designs
def moon(n: int, rng) -> np.ndarray:
    angle, radius = rng.uniform(-np.pi / 2, np.pi / 2, n), rng.normal(0.1, 0.01, n)
    return np.column_stack([radius * np.cos(angle) + 0.25, radius * np.sin(angle)])


def two_moons(theta, rng) -> np.ndarray:
    a, b = theta.T / np.sqrt(2)
    return moon(len(theta), rng) + np.column_stack([-np.abs(a + b), b - a])


def two_moons_exact(x, n: int, rng) -> np.ndarray:
    """Both roots of x = p + f(θ), for many p, where they are in the prior's square."""
    off = x - moon(20 * n, rng)
    u, v = off[off[:, 0] <= 0].T
    u = np.where(rng.random(len(u)) < 0.5, u, -u)
    found = np.column_stack([u - v, u + v]) / np.sqrt(2)
    return found[(np.abs(found) <= 1).all(axis=1)][:n]


def mixture(x, n: int, rng) -> np.ndarray:
    """N(x, 1) and N(x, .01) alike, in the prior's square."""
    found = x + np.where(rng.random(4 * n) < 0.5, 1.0, 0.1)[:, None] * rng.normal(size=(4 * n, 2))
    return found[(np.abs(found) <= 10).all(axis=1)][:n]


def square_exact(x, n: int, rng) -> np.ndarray:
    grid = np.linspace(-1, 1, 20_001)
    weight = np.exp(-0.5 * ((x[0] - grid**2) / 0.02) ** 2)
    return rng.choice(grid, n, p=weight / weight.sum())[:, None]


def square(side: float, d: int) -> Callable:
    return lambda n, rng: rng.uniform(-side, side, size=(n, d))


ROOT = np.sqrt(0.1)
DESIGNS = {
    "two moons": Design(square(1, 2), two_moons, two_moons_exact),
    "Gaussian linear": Design(
        lambda n, rng: ROOT * rng.normal(size=(n, 10)),
        lambda theta, rng: theta + ROOT * rng.normal(size=theta.shape),
        lambda x, n, rng: x / 2 + np.sqrt(0.05) * rng.normal(size=(n, 10)),
    ),
    "Gaussian mixture": Design(
        square(10, 2),
        lambda t, rng: (
            t + np.where(rng.random(len(t)) < 0.5, 1.0, 0.1)[:, None] * rng.normal(size=t.shape)
        ),
        mixture,
    ),
    "square": Design(
        square(1, 1), lambda t, rng: t**2 + 0.02 * rng.normal(size=t.shape), square_exact
    ),
}


# ---------------------------------------------------------------- methods: draws at each row
def ours(design: str, n: int, rows, method: str) -> np.ndarray:
    d = DESIGNS[design]
    settings = {"method": method, "batch_size": n, "random_state": 0}
    return km.simulate_posterior(d.prior, d.simulate, rows, n, **settings).sample(DRAWS, 0)


def pairs(design: str, n: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(0)
    theta = DESIGNS[design].prior(n, rng)
    return theta, DESIGNS[design].simulate(theta, rng), rng


def rejection(design: str, n: int, rows, share: float = 0.01) -> np.ndarray:
    theta, X, rng = pairs(design, n)
    return np.stack([theta[rng.choice(_near(X, x, share)[0], DRAWS)] for x in rows])


def regression(design: str, n: int, rows, share: float = 0.1) -> np.ndarray:
    """Local linear and heteroscedastic (Beaumont et al. 2002; Blum and François 2010)."""
    theta, X, rng = pairs(design, n)
    return np.stack([_adjusted(theta, X, x, share, rng) for x in rows])


def _near(X, x, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The nearest rows, and their Epanechnikov weights."""
    distance = np.sqrt((((X - x) / X.std(axis=0)) ** 2).sum(axis=1))
    rows = np.argsort(distance)[: max(int(share * len(X)), 5 * (X.shape[1] + 1))]
    return rows, np.maximum(1 - (distance[rows] / distance[rows[-1]]) ** 2, 1e-12)


def _adjusted(theta, X, x, share: float, rng) -> np.ndarray:
    rows, w = _near(X, x, share)
    A = np.column_stack([np.ones(len(rows)), (X[rows] - x) / X.std(axis=0)])
    solve = np.linalg.pinv((A.T * w) @ A) @ (A.T * w)
    mean = solve @ theta[rows]
    off = theta[rows] - A @ mean
    spread = solve @ np.log(off**2 + 1e-300)
    grown = np.exp(0.5 * np.clip(spread[0] - A @ spread, -4, 4))
    return (mean[0] + off * grown)[rng.choice(len(rows), DRAWS, p=w / w.sum())]


METHODS: dict[str, tuple] = {
    "density": (ours, "density"),
    "conditional": (ours, "conditional"),
    "regression ABC": (regression,),
    "rejection ABC": (rejection,),
}


# ---------------------------------------------------------------- judges
def c2st(exact, drawn) -> float:
    mean, sd, d = exact.mean(axis=0), exact.std(axis=0), exact.shape[1]
    rows = (np.concatenate([exact, drawn]) - mean) / sd
    which = np.repeat([0, 1], [len(exact), len(drawn)])
    network = MLPClassifier((10 * d, 10 * d), max_iter=10_000, random_state=1)
    folds = KFold(5, shuffle=True, random_state=1)
    return float(cross_val_score(network, rows, which, cv=folds).mean())


def energy(exact, drawn) -> float:
    P, Q = (rows / exact.std(axis=0) for rows in (exact, drawn))
    n, m = len(P), len(Q)
    within = cdist(P, P).sum() / (n * (n - 1)) + cdist(Q, Q).sum() / (m * (m - 1))
    return float(2 * cdist(P, Q).mean() - within)


def compare(sizes: list[int], observations: int, designs: list[str]) -> None:
    table = Table(
        f"Means over {observations} observations, {DRAWS} draws each",
        *["design          ", "n", "method        ", "seconds", "C2ST", "energy"],
    )
    for name in designs:
        rng = np.random.default_rng(1)
        design = DESIGNS[name]
        rows = design.simulate(design.prior(observations, rng), rng)
        exact = [design.exact(x, DRAWS, rng) for x in rows]
        for n in sizes:
            for method, (function, *given) in METHODS.items():
                found = measure(function, name, n, rows, *given, repeats=1)
                both = list(zip(exact, found.result, strict=True))
                judged = [float(np.mean([f(*pair) for pair in both])) for f in (c2st, energy)]
                table.row(name, n, method, found.seconds, *judged)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if arguments(__doc__).quick:
        compare([500], 2, ["square"])
    else:
        compare([1_000, 10_000], 10, list(DESIGNS))

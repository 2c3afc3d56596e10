"""`simulate_posterior` beside NPE, regression-adjusted and rejection ABC on the same simulations.

Designs with exact posteriors: Two Moons, the Gaussian linear models and the Gaussian mixture of
sbibm (Lueckmann et al. 2021), and θ² seen with noise; with draws by tempering from likelihoods:
its SLCP, Bernoulli GLM (with a stimulus of our own), epidemic (SIR) and Lotka-Volterra. "default"
makes its n simulations in rounds for each observation; NPE is amortised, as installed (`pip install
sbi`; a row that says so where it is not). A part: `PYTHONPATH=benchmarks python -c "from
bench_posteriors import compare; compare([1000], 10, ['slcp'], ['default', 'NPE'])"`. C2ST is the
accuracy, over folds, of sbibm's classifier in telling draws from the exact posterior (.5: it
cannot); energy distances are of columns over their exact standard deviations. Observations are
drawn from the prior predictive.

With sbibm's own observations and reference draws, of a checkout of it: `PYTHONPATH=benchmarks
python -c "from bench_posteriors import sbibm; sbibm('sbibm', ['two_moons'], range(1, 11), 1000)"`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from _harness import Table, arguments, measure
from scipy.spatial.distance import cdist
from scipy.stats import norm
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


def tempered(
    prior: Callable, log_prior: Callable, log_likelihood: Callable, times: int = 2
) -> Callable:
    """Draws from π(θ) p(x | θ), by particles that random walks move while x comes to count."""

    def exact(x, n: int, rng) -> np.ndarray:
        many = times * n
        theta, power = prior(many, rng), 0.0
        found = log_likelihood(theta, x)
        while power < 1:
            step = 1 - power
            while _worth(step * found) < many / 2:
                step *= 0.8
            w = np.exp(step * (found - found.max()))
            kept = rng.choice(many, many, p=w / w.sum())
            theta, found, power = theta[kept], found[kept], power + step
            for size in 2.4 / theta.shape[1] ** 0.5 * np.tile([1.0, 0.4, 0.1], 10):
                walk = np.linalg.cholesky(np.cov(theta.T) + 1e-12 * np.eye(theta.shape[1])).T
                new = theta + size * rng.normal(size=theta.shape) @ walk
                now = log_likelihood(new, x)
                more = power * (now - found) + log_prior(new) - log_prior(theta)
                taken = np.log(rng.random(many)) < more
                theta, found = np.where(taken[:, None], new, theta), np.where(taken, now, found)
        return theta[rng.choice(many, n, replace=False)]

    return exact


def _worth(log_w: np.ndarray) -> float:
    w = np.exp(log_w - log_w.max())
    return w.sum() ** 2 / (w @ w)


def within(side: float) -> Callable:
    """Log of the prior of `square`, up to a constant."""
    return lambda theta: np.where((np.abs(theta) <= side).all(axis=1), 0.0, -np.inf)


def slcp(theta, rng) -> np.ndarray:
    """Four draws of N((θ₁, θ₂), Σ), deviations θ₃² and θ₄², correlation tanh θ₅."""
    e, rho = rng.normal(size=(len(theta), 4, 2)), np.tanh(theta[:, 4:])
    e[..., 1] = rho * e[..., 0] + np.sqrt(1 - rho**2) * e[..., 1]
    return (theta[:, None, :2] + theta[:, None, 2:4] ** 2 * e).reshape(-1, 8)


def slcp_log(theta, x) -> np.ndarray:
    spread, rho = theta[:, 2:4] ** 2 + 1e-6, np.tanh(theta[:, 4])
    a, b = np.moveaxis((x.reshape(4, 2) - theta[:, None, :2]) / spread[:, None], 2, 0)
    left = 1 - rho**2 + 1e-12
    squares = (a**2 + b**2 - 2 * rho[:, None] * a * b).sum(axis=1) / left
    return -0.5 * squares - 4 * np.log(spread).sum(axis=1) - 2 * np.log(left)


STIMULUS = np.random.default_rng(42).normal(size=108)
SEEN = np.column_stack([np.ones(100), *(STIMULUS[8 - lag : 108 - lag] for lag in range(9))])
BENT = np.eye(9) - np.eye(9, k=-1)
SMOOTH = np.zeros((10, 10))  # precision: an offset, and a filter with small second differences
SMOOTH[0, 0], F = 0.5, BENT @ BENT + np.diag(np.sqrt(np.arange(9) / 9))
SMOOTH[1:, 1:] = F.T @ F


def glm(theta, rng) -> np.ndarray:
    """What is sufficient of a hundred spikes or none: Vᵀy."""
    return (rng.random((len(theta), 100)) < 1 / (1 + np.exp(-theta @ SEEN.T))) @ SEEN


def glm_prior(n: int, rng) -> np.ndarray:
    return np.linalg.solve(np.linalg.cholesky(SMOOTH).T, rng.normal(size=(10, n))).T


def solved(slope: Callable, u: np.ndarray, length: float, steps: int) -> list[np.ndarray]:
    """u' = slope(u) at ten times so far apart, by Runge and Kutta."""
    seen, h = [u], length / steps
    for _ in range(9):
        for _ in range(steps):
            k1 = slope(u)
            k2 = slope(u + h / 2 * k1)
            k3 = slope(u + h / 2 * k2)
            u = u + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(u + h * k3))
        seen.append(u)
    return seen


def preys(theta) -> np.ndarray:
    """Logarithms of preys, then predators, at ten times."""
    a, b, c, d = theta.T

    def slope(u) -> np.ndarray:
        prey, predator = np.exp(np.minimum(u, 50))
        return np.stack([a - b * predator, d * prey - c])

    seen = solved(slope, np.tile(np.log([[30.0], [1.0]]), len(theta)), 2.1, 20)
    found = np.clip(np.stack(seen, axis=2), np.log(1e-10), np.log(1e4))
    return found.transpose(1, 0, 2).reshape(-1, 20)


LOGS = np.array([-0.125, -3.0, -0.125, -3.0])


def preys_exact(x, n: int, rng) -> np.ndarray:
    """In logarithms of parameters."""
    draws = tempered(
        lambda m, rng: LOGS + 0.5 * rng.normal(size=(m, 4)),
        lambda u: -2 * ((u - LOGS) ** 2).sum(axis=1),
        lambda u, x: -50 * ((np.log(x) - preys(np.exp(np.clip(u, -9, 3)))) ** 2).sum(axis=1),
    )
    return np.exp(draws(x, n, rng))


MEANS, SPREADS = np.log([0.4, 0.125]), np.array([0.5, 0.2])  # of logarithms: contacts, recovery


def sir_prior(n: int, rng) -> np.ndarray:
    return np.exp(MEANS + SPREADS * rng.normal(size=(n, 2)))


def infected(theta) -> np.ndarray:
    """Shares of a million who are ill at ten times, 17 days apart."""
    b, g = theta.T

    def slope(u) -> np.ndarray:
        return np.stack([-b * u[0] * u[1], b * u[0] * u[1] - g * u[1]])

    seen = solved(slope, np.tile([[1 - 1e-6], [1e-6]], len(theta)), 17.0, 68)
    return np.clip(np.stack([u[1] for u in seen], axis=1), 1e-300, 1 - 1e-16)


def epidemic_log(u, x) -> np.ndarray:
    p = infected(np.exp(u))
    return (x * np.log(p) + (1000 - x) * np.log1p(-p)).sum(axis=1)


def epidemic_exact(x, n: int, rng) -> np.ndarray:
    """In logarithms of parameters."""
    draws = tempered(
        lambda m, rng: MEANS + SPREADS * rng.normal(size=(m, 2)),
        lambda u: -0.5 * (((u - MEANS) / SPREADS) ** 2).sum(axis=1),
        epidemic_log,
    )
    return np.exp(draws(x, n, rng))


def inside(x, n: int, rng) -> np.ndarray:
    """N(x, .1) in the prior's square."""
    ends = (np.array([-1, 1])[:, None] - x) / ROOT
    low, high = norm.cdf(ends)
    return x + ROOT * norm.ppf(low + (high - low) * rng.random((n, len(x))))


ROOT = np.sqrt(0.1)
DESIGNS = {
    "two moons": Design(square(1, 2), two_moons, two_moons_exact),
    "Gaussian linear": Design(
        lambda n, rng: ROOT * rng.normal(size=(n, 10)),
        lambda theta, rng: theta + ROOT * rng.normal(size=theta.shape),
        lambda x, n, rng: x / 2 + np.sqrt(0.05) * rng.normal(size=(n, 10)),
    ),
    "Gaussian linear uniform": Design(
        square(1, 10), lambda theta, rng: theta + ROOT * rng.normal(size=theta.shape), inside
    ),
    "epidemic": Design(
        sir_prior,
        lambda theta, rng: rng.binomial(1000, infected(theta)).astype(float),
        epidemic_exact,
    ),
    "slcp": Design(square(3, 5), slcp, tempered(square(3, 5), within(3), slcp_log, 20)),
    "Bernoulli GLM": Design(
        glm_prior,
        glm,
        tempered(
            glm_prior,
            lambda theta: -0.5 * np.einsum("ij,jk,ik->i", theta, SMOOTH, theta),
            lambda theta, x: theta @ x - np.logaddexp(0, theta @ SEEN.T).sum(axis=1),
        ),
    ),
    "Lotka-Volterra": Design(
        lambda n, rng: np.exp(LOGS + 0.5 * rng.normal(size=(n, 4))),
        lambda theta, rng: np.exp(preys(theta) + 0.1 * rng.normal(size=(len(theta), 20))),
        preys_exact,
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


def default(design: str, n: int, rows) -> np.ndarray:
    return np.stack([ours(design, n, row, None).reshape(DRAWS, -1) for row in rows])


def npe(design: str, n: int, rows) -> np.ndarray:
    """sbi's, trained once; draws outside of a square prior are drawn again, by sbi."""
    import torch
    from sbi.inference import NPE
    from sbi.utils import BoxUniform

    torch.set_num_threads(1)
    torch.manual_seed(0)
    theta, X, _ = pairs(design, n)
    tensors = [torch.tensor(A, dtype=torch.float32) for A in (theta, X, rows)]
    side = float(np.ceil(np.abs(theta).max()))
    box = BoxUniform(-side * torch.ones(theta.shape[1]), side * torch.ones(theta.shape[1]))
    learner = NPE(prior=box, show_progress_bars=False)
    learner.append_simulations(*tensors[:2]).train(show_train_summary=False)
    posterior, quiet = learner.build_posterior(), {"show_progress_bars": False}
    return np.stack([posterior.sample((DRAWS,), x=x[None], **quiet).numpy() for x in tensors[2]])


def pairs(design: str, n: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(0)
    theta = DESIGNS[design].prior(n, rng)
    return theta, DESIGNS[design].simulate(theta, rng), rng


def rejection(design: str, n: int, rows, share: float = 0.01) -> np.ndarray:
    theta, X, rng = pairs(design, n)
    return np.stack([theta[rng.choice(near(X, x, share)[0], DRAWS)] for x in rows])


def regression(design: str, n: int, rows, share: float = 0.1) -> np.ndarray:
    """Local linear and heteroscedastic (Beaumont et al. 2002; Blum and François 2010)."""
    theta, X, rng = pairs(design, n)
    return np.stack([adjusted(theta, X, x, share, rng) for x in rows])


def near(X, x, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The nearest rows, and their Epanechnikov weights."""
    distance = np.sqrt((((X - x) / X.std(axis=0)) ** 2).sum(axis=1))
    rows = np.argsort(distance)[: max(int(share * len(X)), 5 * (X.shape[1] + 1))]
    far = max(distance[rows[-1]], 1e-300)
    return rows, np.maximum(1 - (distance[rows] / far) ** 2, 1e-12)


def adjusted(theta, X, x, share: float, rng) -> np.ndarray:
    rows, w = near(X, x, share)
    A = np.column_stack([np.ones(len(rows)), (X[rows] - x) / X.std(axis=0)])
    solve = np.linalg.pinv((A.T * w) @ A) @ (A.T * w)
    mean = solve @ theta[rows]
    off = theta[rows] - A @ mean
    spread = solve @ np.log(off**2 + 1e-300)
    grown = np.exp(0.5 * np.clip(spread[0] - A @ spread, -4, 4))
    return (mean[0] + off * grown)[rng.choice(len(rows), DRAWS, p=w / w.sum())]


METHODS: dict[str, tuple] = {
    "default": (default,),
    "NPE": (npe,),
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


def compare(sizes: list[int], observations: int, designs: list[str], methods: list[str]) -> None:
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
            for method in methods:
                if method == "NPE" and not find_spec("sbi"):
                    table.row(name, n, method, "skipped:", "pip", "install sbi")
                    continue
                function, *given = METHODS[method]
                found = measure(function, name, n, rows, *given, repeats=1)
                both = list(zip(exact, found.result, strict=True))
                judged = [float(np.mean([f(*pair) for pair in both])) for f in (c2st, energy)]
                table.row(name, n, method, found.seconds, *judged)


NAMES = {
    "gaussian_linear_uniform": "Gaussian linear uniform",
    "gaussian_mixture": "Gaussian mixture",
    "sir": "epidemic",
    "two_moons": "two moons",
    "gaussian_linear": "Gaussian linear",
    "slcp": "slcp",
    "lotka_volterra": "Lotka-Volterra",
}


def sbibm(checkout: str, tasks: list[str], observations: Iterable[int], n: int) -> None:
    """The default at each observation of sbibm, beside the first of its reference draws."""
    headings = "task           ", "n", "observation", "seconds", "C2ST", "energy"
    table = Table(f"sbibm's observations and references, {DRAWS} draws each", *headings)
    for task in tasks:
        for i in observations:
            files = Path(checkout, "sbibm", "tasks", task, "files", f"num_observation_{i}")
            x, exact = (
                np.loadtxt(files / name, delimiter=",", skiprows=1, ndmin=2)
                for name in ("observation.csv", "reference_posterior_samples.csv.bz2")
            )
            found = measure(default, NAMES[task], n, x, repeats=1)
            pair = exact[:DRAWS], found.result[0]
            table.row(task, n, i, found.seconds, c2st(*pair), energy(*pair))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if arguments(__doc__).quick:
        compare([500], 2, ["square"], list(METHODS))
    else:
        compare([1_000, 10_000], 10, list(DESIGNS), list(METHODS))

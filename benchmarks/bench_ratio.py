"""DensityRatio against dense KuLSIF, ratios that are known, and logistic regressions."""

from __future__ import annotations

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from _harness import Measured, Table, arguments, measure, ratio, rmse
from scipy.stats import beta, expon, gamma, laplace, multivariate_normal, norm, t
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import kernelmean as km
from kernelmean.bayes.density_ratio import FewRows
from kernelmean.core.minimise import DECADES, minimise_log10
from kernelmean.kernels import median_lengthscale

MEAN, SPREAD = 0.5, 0.8  # q = N(0.5, 0.8² I) over p = N(0, I), both in two dimensions


# ---------------------------------------------------------------- the data
def truth(Z) -> np.ndarray:
    q = multivariate_normal([MEAN, MEAN], SPREAD**2)
    return q.pdf(Z) / multivariate_normal([0, 0]).pdf(Z)


def two_samples(n: int) -> tuple[np.ndarray, np.ndarray]:
    """n rows of p (the denominator) and n of q."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 2)), MEAN + SPREAD * rng.standard_normal((n, 2))


def two_samples_and_reg(n: int, reg: float) -> tuple:
    return *two_samples(n), reg


def new_rows() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((1000, 2))


# ---------------------------------------------------------------- the jobs: (ratio, reg)
def ours(Z, U) -> tuple[np.ndarray, float]:
    r = km.DensityRatio(km.Gaussian()).fit(Z, U)
    return r.predict(new_rows()), r.reg_


def dense_tuned(Z, U) -> tuple[np.ndarray, float]:
    """The same leave-one-out score over n x n matrices, for every η from one eigendecomposition."""
    kernel, n, ell = km.Gaussian().resolve(Z), len(Z), len(U)
    s, Q = np.linalg.eigh(kernel(Z) / n)
    s, V = np.clip(s, 0, None), kernel(U, Z) @ Q / np.sqrt(n)
    g, own = V.mean(axis=0), kernel(U).mean(axis=1)

    def score(reg: float) -> float:
        d = 1 / (s + reg)
        at_z = np.sqrt(n) * (Q @ (d * g)) / np.clip(1 - (Q * Q) @ (d * s), 1e-10, None)
        at_u = (own - V @ (d * g)) / reg
        self_u = (1 - (V * V) @ d) / reg
        return 0.5 * np.mean(at_z**2) - np.mean((ell * at_u - self_u) / (ell - 1))

    size = float(s.sum())
    reg = minimise_log10(lambda r: score(r * size), *DECADES)[0] * size
    weights = Q @ (g / (s + reg)) / np.sqrt(n)
    return _evaluate(kernel, Z, U, weights, reg), reg


def dense_once(Z, U, reg: float) -> tuple[np.ndarray, float]:
    """β = (K + nηI)⁻¹g at an η that somebody else has found."""
    kernel, n = km.Gaussian().resolve(Z), len(Z)
    K = kernel(Z)
    K[np.diag_indices(n)] += n * reg
    weights = np.linalg.solve(K, kernel(Z, U).mean(axis=1))
    return _evaluate(kernel, Z, U, weights, reg), reg


def _evaluate(kernel, Z, U, weights, reg: float) -> np.ndarray:
    """r = (m − k_Z(·)ᵀβ)/η, floored at zero (Kanamori 2012, Theorem 1)."""
    points = new_rows()
    return np.clip((kernel(points, U).mean(axis=1) - kernel(points, Z) @ weights) / reg, 0, None)


# ---------------------------------------------------------------- the table
def speed(sizes: list[int], tuned_up_to: int, dense_up_to: int) -> None:
    spread = truth(new_rows()).std()
    table = Table(
        f"Fit n + n rows and evaluate 1,000 (the true ratio has standard deviation {spread:.2f}); "
        "the dense method without tuning is given the reg of the first",
        *["n", "method             ", "seconds", "over ours", "peak MB", "reg"],
        *["error", "max diff"],
    )
    for n in sizes:
        first = measure(ours, n, setup=two_samples)
        fits = {"DensityRatio, tuned": first}
        if n <= tuned_up_to:
            fits["dense, tuned"] = measure(dense_tuned, n, setup=two_samples)
        if n <= dense_up_to:
            given = n, first.result[1]
            fits["dense, one solve"] = measure(dense_once, *given, setup=two_samples_and_reg)
        for method, fit in fits.items():
            table.row(n, method, *_cells(fit, first))


def _cells(fit: Measured, first: Measured) -> list:
    estimate, reg = fit.result
    difference = float(np.max(np.abs(estimate - first.result[0])))
    slower = ratio(fit.seconds, first.seconds)
    return [fit.seconds, slower, fit.peak_mb, reg, rmse(estimate, truth(new_rows())), difference]


# ---------------------------------------------------------------- other pairs of laws
def _ring(rng: np.random.Generator, n: int) -> np.ndarray:
    angle, radius = rng.uniform(0, 2 * np.pi, n), 2 + 0.15 * rng.standard_normal(n)
    return np.c_[radius * np.cos(angle), radius * np.sin(angle)]


def _on_ring(Z: np.ndarray) -> np.ndarray:
    radius = np.hypot(*Z.T)
    return norm(2, 0.15).pdf(radius) / (2 * np.pi * radius) / multivariate_normal([0, 0], 2).pdf(Z)


PAIRS = {  # draws of p, draws of q, q/p
    "two humps of .3 over a uniform law": (
        lambda rng, n: rng.uniform(-4, 4, (n, 1)),
        lambda rng, n: rng.choice([-2.0, 2.0], (n, 1)) + 0.3 * rng.standard_normal((n, 1)),
        lambda Z: 4 * (norm(-2, 0.3).pdf(Z[:, 0]) + norm(2, 0.3).pdf(Z[:, 0])),
    ),
    "half as wide, shifted, two columns": (
        lambda rng, n: rng.standard_normal((n, 2)),
        lambda rng, n: 1 + 0.5 * rng.standard_normal((n, 2)),
        lambda Z: multivariate_normal([1, 1], 0.25).pdf(Z) / multivariate_normal([0, 0]).pdf(Z),
    ),
    "normal over t with 3 degrees": (
        lambda rng, n: rng.standard_t(3, (n, 1)),
        lambda rng, n: rng.standard_normal((n, 1)),
        lambda Z: norm.pdf(Z[:, 0]) / t(3).pdf(Z[:, 0]),
    ),
    "lognormal": (
        lambda rng, n: np.exp(0.5 * rng.standard_normal((n, 1))),
        lambda rng, n: np.exp(0.4 + 0.4 * rng.standard_normal((n, 1))),
        lambda Z: norm(0.4, 0.4).pdf(np.log(Z[:, 0])) / norm(0, 0.5).pdf(np.log(Z[:, 0])),
    ),
    "one of three columns": (
        lambda rng, n: rng.standard_normal((n, 3)),
        lambda rng, n: rng.standard_normal((n, 3)) * [0.7, 1, 1] + [0.7, 0, 0],
        lambda Z: norm(0.7, 0.7).pdf(Z[:, 0]) / norm.pdf(Z[:, 0]),
    ),
    "between two humps": (
        lambda rng, n: rng.choice([-2.0, 2.0], (n, 1)) + rng.standard_normal((n, 1)),
        lambda rng, n: rng.standard_normal((n, 1)),
        lambda Z: 2 * norm.pdf(Z[:, 0]) / (norm(-2).pdf(Z[:, 0]) + norm(2).pdf(Z[:, 0])),
    ),
    "a shift of one of eight columns": (
        lambda rng, n: rng.standard_normal((n, 8)),
        lambda rng, n: rng.standard_normal((n, 8)) + 0.5 * np.eye(8)[0],
        lambda Z: np.exp(0.5 * Z[:, 0] - 0.125),
    ),
    "a ring": (lambda rng, n: 2**0.5 * rng.standard_normal((n, 2)), _ring, _on_ring),
}


def shapes(sizes, seeds) -> None:
    """Mean squared errors over that of zero, at defaults and at the median lengthscale.

    At odd seeds q has half as many rows as p.
    """
    table = Table("relative squared error", f"{'pair':>35}", "       n", "default", "median")
    for name, (of_p, of_q, true) in PAIRS.items():
        for n in sizes:
            errors = []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                Z, U = of_p(rng, n), of_q(rng, n // 2 if seed % 2 else n)
                new = of_p(rng, 4000)
                r = true(new)
                plain = Z.std(axis=0) * median_lengthscale(Z / Z.std(axis=0))
                kernels = "gaussian", km.Gaussian(tuple(plain.tolist()))
                found = (km.DensityRatio(k).fit(Z, U).predict(new) for k in kernels)
                errors.append([np.mean((f - r) ** 2) / np.mean(r**2) for f in found])
            table.row(name, n, *np.mean(errors, axis=0))


# ---------------------------------------------------------------- beside logistic regression
def normals(d: int, mean, spread=1.0, of_p=(0.0, 1.0)) -> tuple:
    """Two normal laws of d columns that do not depend on each other."""
    p, q = norm(*of_p), norm(mean, spread)
    return (
        lambda rng, n: p.rvs((n, d), rng),
        lambda rng, n: np.broadcast_to(mean, d) + spread * rng.standard_normal((n, d)),
        lambda Z: np.prod(q.pdf(Z) / p.pdf(Z), axis=1),
    )


def selected(X: np.ndarray, bump: bool) -> tuple:
    """Rows of a table, and of those along its first component (after Huang and others 2006)."""
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    along = X @ np.linalg.svd(X, full_matrices=False)[2][0]
    along = (along - along.min()) / np.ptp(along)
    likely = np.exp(-0.5 * ((along - 0.35) / 0.15) ** 2)
    likely = likely if bump else np.where(along > np.median(along), 1.0, 0.3)
    likely /= likely.mean()
    known = dict(zip(map(tuple, X), likely, strict=True))
    return (
        lambda rng, n: X[rng.choice(len(X), n)],
        lambda rng, n: X[rng.choice(len(X), n, p=likely / likely.sum())],
        lambda Z: np.array([known[tuple(z)] for z in Z]),
    )


TABLES = {
    "diabetes": load_diabetes().data,
    "wine": load_wine().data,
    "cancer": load_breast_cancer().data[:, :10],
}
OTHERS = {  # of densratio, Sugiyama and others 2008, 2013, Nguyen and others 2010, Kanamori 2009
    "densratio, one column": normals(1, 1.0, 8**-0.5, (1.0, 0.5)),
    "densratio, two columns": normals(2, 1.0, 8**-0.5, (1.0, 0.5)),
    "half as wide, two deviations off": normals(1, 2.0, 0.25, (1.0, 0.5)),
    "the same law": normals(2, 0.0),
    "narrower": normals(1, 0.0, 0.6),
    "wider": normals(1, 0.0, 1.2),
    "shifted": normals(1, 0.5),
    "five columns, all shifted": normals(5, 0.3),
    "five columns, one shifted": normals(5, np.eye(5)[0]),
    "ten columns, one shifted": normals(10, np.eye(10)[0]),
    "normal over Laplace": (
        lambda rng, n: rng.laplace(size=(n, 1)),
        lambda rng, n: rng.standard_normal((n, 1)),
        lambda Z: (norm.pdf(Z) / laplace.pdf(Z))[:, 0],
    ),
    "gamma over exponential": (
        lambda rng, n: rng.exponential(size=(n, 1)),
        lambda rng, n: rng.gamma(2, 0.5, (n, 1)),
        lambda Z: (gamma(2, scale=0.5).pdf(Z) / expon.pdf(Z))[:, 0],
    ),
    "correlated over not": (
        lambda rng, n: rng.standard_normal((n, 2)),
        lambda rng, n: rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], n),
        lambda Z: (
            multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]]).pdf(Z)
            / multivariate_normal([0, 0]).pdf(Z)
        ),
    ),
    "beta over uniform, three columns": (
        lambda rng, n: rng.random((n, 3)),
        lambda rng, n: rng.beta(2, 2, (n, 3)),
        lambda Z: beta(2, 2).pdf(Z).prod(axis=1),
    ),
} | {
    f"{name}, {'a bump' if bump else 'a half'}": selected(X, bump)
    for name, X in TABLES.items()
    for bump in (True, False)
}


def logistic(degree: int):
    """Odds of scikit-learn's cross-validated regression, as one would write it."""

    def ratio_at(Z, U, new) -> np.ndarray:
        model = make_pipeline(
            StandardScaler(),
            PolynomialFeatures(degree, include_bias=False),
            StandardScaler(),
            LogisticRegressionCV(
                Cs=np.geomspace(1e-3, 1e3, 7), scoring="neg_log_loss", max_iter=500
            ),
        )
        model.fit(np.vstack([Z, U]), np.repeat([0, 1], [len(Z), len(U)]))
        of_q = model.predict_proba(new)[:, 1]
        return of_q / (1 - of_q) * len(Z) / len(U)

    return ratio_at


@contextmanager
def kernels_alone():
    with patch.object(FewRows, "beside_odds", lambda few, kernel: (None, np.nan)):
        yield


def rivals(sizes, seeds) -> None:
    """Relative squared error: kernels alone, at defaults, and logistic regressions."""
    ways = ["alone", "default", "of columns", "of squares"]
    table = Table("relative squared error", f"{'pair':>35}", "       n", *ways, "with odds")
    for name, (of_p, of_q, true) in (PAIRS | OTHERS).items():
        for n in sizes:
            errors = []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                Z, U, new = of_p(rng, n), of_q(rng, n), of_p(rng, 4000)
                r = true(new)
                with kernels_alone():
                    alone = km.DensityRatio().fit(Z, U).predict(new)
                model = km.DensityRatio().fit(Z, U)
                found = [alone, model.predict(new), *(logistic(k)(Z, U, new) for k in (1, 2))]
                own = [np.mean((f - r) ** 2) / np.mean(r**2) for f in found]
                errors.append([*own, model.odds_ is not None])
            table.row(name, n, *np.mean(errors, axis=0))


if __name__ == "__main__":
    if arguments(__doc__).quick:
        speed([1_000], tuned_up_to=1_000, dense_up_to=1_000)
    else:
        speed([500, 1_000, 2_000, 5_000, 20_000, 100_000], tuned_up_to=2_000, dense_up_to=5_000)

"""DensityRatio, tuned by leave-one-out, against dense KuLSIF and a known ratio of Gaussians."""

from __future__ import annotations

import numpy as np
from _harness import Measured, Table, arguments, measure, ratio, rmse
from scipy.stats import multivariate_normal, norm, t

import kernelmean as km
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


if __name__ == "__main__":
    if arguments(__doc__).quick:
        speed([1_000], tuned_up_to=1_000, dense_up_to=1_000)
    else:
        speed([500, 1_000, 2_000, 5_000, 20_000, 100_000], tuned_up_to=2_000, dense_up_to=5_000)

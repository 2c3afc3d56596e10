"""DensityRatio, tuned by leave-one-out, against dense KuLSIF and a known ratio of Gaussians."""

from __future__ import annotations

import numpy as np
from _harness import Measured, Table, arguments, measure, ratio, rmse
from scipy.stats import multivariate_normal

import kernelmean as km
from kernelmean.core.minimise import DECADES, minimise_log10

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
    r = km.DensityRatio().fit(Z, U)
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


if __name__ == "__main__":
    if arguments(__doc__).quick:
        speed([1_000], tuned_up_to=1_000, dense_up_to=1_000)
    else:
        speed([500, 1_000, 2_000, 5_000, 20_000, 100_000], tuned_up_to=2_000, dense_up_to=5_000)

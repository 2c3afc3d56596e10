"""KernelBayes against the dense rules, and against the exact posterior of a Gaussian model."""

from __future__ import annotations

import numpy as np
from _harness import Measured, Table, arguments, measure, ratio, rmse
from scipy.linalg import solve

import kernelmean as km

NOISE, PRIOR = 0.5, 0.6  # standard deviations of the observation, and of the prior
GIVEN = {"reg": 1e-3, "reg_prior": 1e-3}


# ---------------------------------------------------------------- the data
def pairs(n: int, observations: int, d: int = 2) -> tuple[np.ndarray, ...]:
    """n pairs z ~ N(0, I), x = z + noise; samples of the prior N(0.5, PRIOR²); new observations."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, d))
    X = Z + NOISE * rng.standard_normal((n, d))
    prior = 0.5 + PRIOR * rng.standard_normal((500, d))
    latent = 0.5 + PRIOR * rng.standard_normal((observations, d))
    return X, Z, prior, latent + NOISE * rng.standard_normal((observations, d))


def exact(x) -> np.ndarray:
    return 0.5 + PRIOR**2 / (PRIOR**2 + NOISE**2) * (x - 0.5)


# ---------------------------------------------------------------- the jobs: posterior means
def ours(X, Z, prior, x, rule: str, given: bool) -> np.ndarray:
    settings = GIVEN if given else {}
    return km.KernelBayes(rule, **settings).fit(X, Z).predict(x, prior=prior)


def again(model: km.KernelBayes, prior, x) -> np.ndarray:
    """Conditioning alone, on pairs learned beforehand: what another prior costs."""
    return model.predict(x, prior=prior)


def learned(n: int, observations: int, rule: str) -> tuple:
    X, Z, prior, x = pairs(n, observations)
    return km.KernelBayes(rule, **GIVEN).fit(X, Z), prior, x


def dense(X, Z, prior, x, rule: str, given: bool) -> np.ndarray:
    """Fukumizu 2013, eq. 13-14, or Xu 2022, Algorithm 1, on the scale Σβ ≈ 1; settings given."""
    kernel_x, kernel_z, n = km.Gaussian().resolve(X), km.Gaussian().resolve(Z), len(X)
    K = kernel_z(Z)
    K[np.diag_indices(n)] += n * GIVEN["reg_prior"]
    beta = solve(K, kernel_z(Z, prior).mean(axis=1), assume_a="pos")
    G, k = kernel_x(X), kernel_x(X, x)
    if rule == "squared":
        B = beta[:, None] * G
        W = B @ solve(B @ B + GIVEN["reg"] * np.eye(n), beta[:, None] * k)
    else:
        root = np.sqrt(np.maximum(beta, 0))
        A = root[:, None] * G * root
        A[np.diag_indices(n)] += GIVEN["reg"]
        W = root[:, None] * solve(A, root[:, None] * k, assume_a="pos")
    return (W.T @ Z) / W.sum(axis=0)[:, None]


def job(n: int, observations: int, rule: str, given: bool) -> tuple:
    return *pairs(n, observations), rule, given


# ---------------------------------------------------------------- the tables
def against_dense(sizes: list[int], observations: int) -> None:
    table = Table(
        f"Fit n pairs and give {observations:,} posterior means, both with the same regularisers",
        *["n", "rule      ", "fit + posterior s", "posterior s", "dense s", "dense / both"],
        *["dense / posterior", "ours MB", "dense MB", "max diff", "error"],
    )
    for n in sizes:
        for rule in ("importance", "squared"):
            fast = measure(ours, n, observations, rule, True, setup=job)
            slow = measure(dense, n, observations, rule, True, setup=job)
            truth = exact(pairs(n, observations)[-1])
            gap = float(np.max(np.abs(fast.result - slow.result)))
            next_one = measure(again, n, observations, rule, setup=learned)
            times = [job.seconds for job in (fast, next_one, slow)]
            ratios = [ratio(slow.seconds, job.seconds) for job in (fast, next_one)]
            memory = [fast.peak_mb, slow.peak_mb]
            table.row(n, rule, *times, *ratios, *memory, gap, _error(fast, truth))


def tuned(sizes: list[tuple[int, int]]) -> None:
    table = Table(
        "Everything chosen from the data (the posterior mean has standard deviation "
        f"{exact(pairs(10, 2000)[-1]).std():.2f})",
        *["n", "observations", "rule      ", "seconds", "peak MB", "error"],
    )
    for n, observations in sizes:
        for rule in ("importance", "squared"):
            fit = measure(ours, n, observations, rule, False, setup=job, repeats=1)
            error = _error(fit, exact(pairs(n, observations)[-1]))
            table.row(n, observations, rule, fit.seconds, fit.peak_mb, error)


def _error(fit: Measured, truth) -> float:
    return rmse(fit.result, truth)


if __name__ == "__main__":
    if arguments(__doc__).quick:
        against_dense([1_000], 100)
        tuned([(1_000, 1_000)])
    else:
        against_dense([1_000, 2_000, 5_000], 100)
        tuned([(1_000, 1_000), (5_000, 10_000), (20_000, 1_000), (100_000, 1_000)])

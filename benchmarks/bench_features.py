"""Nystroem and random Fourier features: time, memory, and how much of the Gram matrix is lost."""

from __future__ import annotations

import warnings

import numpy as np
from _harness import Table, arguments, measure, ratio
from scipy.linalg import solve_triangular
from sklearn.datasets import load_diabetes, load_digits
from sklearn.kernel_approximation import Nystroem as UniformNystroem
from sklearn.preprocessing import StandardScaler

import kernelmean as km

NEVER = 1e-15  # a tolerance that is not reached: the rank is what max_rank says
CACHED = 8192


# ---------------------------------------------------------------- the jobs
def gaussian_rows(n: int, rank: int) -> tuple:
    return np.random.default_rng(0).standard_normal((n, 3)), rank


def random_pivots(X, rank: int, kernel="gaussian", seed: int = 0) -> float:
    """Relative trace lost with landmarks from randomly pivoted Cholesky."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", km.NumericalWarning)  # the rank is cut on purpose
        features = km.Nystroem(tol=NEVER, max_rank=rank, random_state=seed).fit(X, kernel)
    return features.lost_trace_


def uniform(X, rank: int, kernel="gaussian", seed: int = 0) -> float:
    """Relative trace lost with scikit-learn's uniformly drawn landmarks."""
    lengthscale = km.as_kernel(kernel).resolve(X).lengthscale
    features = UniformNystroem(
        gamma=0.5 / lengthscale**2, n_components=rank, random_state=seed
    ).fit_transform(X)
    return 1 - float(np.vdot(features, features)) / len(X)


def empty_coordinates(n: int, rank: int) -> tuple:
    return (np.random.default_rng(0).standard_normal((rank, n)),)


def products_only(F) -> None:
    """F_Sᵀ F and the triangular solve for blocks of 16, 16, 32, 64, 128, 128, ... landmarks."""
    done = 0
    while done < len(F):
        stop = min(done + min(max(16, done), 128), len(F))
        coords, R = F[:done, : stop - done].T.copy(), np.eye(stop - done)
        for i in range(0, F.shape[1], CACHED):
            G = coords @ F[:done, i : i + CACHED]
            F[done:stop, i : i + CACHED] = solve_triangular(R, G, lower=True, check_finite=False)
        done = stop


def fourier(X, n_features: int) -> float:
    """Root mean squared error of the inner products among the first 500 rows."""
    Phi = km.RandomFourier(n_features).fit_transform(X, "gaussian")[:500]
    K = km.Gaussian().resolve(X)(X[:500])
    return float(np.sqrt(np.mean((Phi @ Phi.T - K) ** 2)))


def trace_errors(rank: int, seeds: int) -> dict[str, tuple[float, float]]:
    """Mean relative trace lost by (random pivots, uniform landmarks), for every data set."""
    return {name: _trace_errors(rows(), rank, seeds) for name, rows in DATASETS.items()}


def _trace_errors(X, rank: int, seeds: int) -> tuple[float, float]:
    pairs = [(random_pivots(X, rank, seed=s), uniform(X, rank, seed=s)) for s in range(seeds)]
    ours, theirs = np.mean(pairs, axis=0).tolist()
    return ours, theirs


# ---------------------------------------------------------------- the data
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def clustered() -> np.ndarray:
    """Ten clusters; the largest has half the rows, the smallest about two in a thousand."""
    centres = rng().uniform(-10, 10, (10, 3))
    sizes = (2000 * 0.5 ** np.arange(1, 11)).astype(int)
    return np.repeat(centres, sizes, axis=0) + 0.5 * rng().standard_normal((sizes.sum(), 3))


DATASETS = {
    "uniform": lambda: rng().uniform(size=(2000, 3)),
    "Gaussian": lambda: rng().standard_normal((2000, 3)),
    "clustered": clustered,
    "heavy tails": lambda: rng().standard_t(2, (2000, 3)),
    "diabetes": lambda: StandardScaler().fit_transform(load_diabetes().data),
    "digits": lambda: load_digits().data,
}


# ---------------------------------------------------------------- the tables
def nystroem_for_growing_n(sizes: list[int], rank: int) -> None:
    table = Table(
        f"Nystroem at rank {rank} on n x 3 Gaussian rows, beside the matrix products it contains",
        *["n", "seconds", "products", "ratio", "peak MB", "lost trace", "sklearn s", "lost there"],
    )
    for n in sizes:
        ours = measure(random_pivots, n, rank, setup=gaussian_rows)
        products = measure(products_only, n, rank, setup=empty_coordinates)
        theirs = measure(uniform, n, rank, setup=gaussian_rows)
        slower = ratio(ours.seconds, products.seconds)
        head = n, ours.seconds, products.seconds, slower, ours.peak_mb, ours.result
        table.row(*head, theirs.seconds, theirs.result)


def trace_error_at_equal_rank(rank: int, seeds: int) -> None:
    table = Table(
        f"Relative trace lost at rank {rank}, mean of {seeds} seeds",
        *["dataset    ", "random pivots", "sklearn uniform", "uniform/ours"],
    )
    for name, (ours, theirs) in measure(trace_errors, rank, seeds, repeats=1).result.items():
        table.row(name, ours, theirs, ratio(theirs, ours))


def fourier_for_growing_n(sizes: list[int], n_features: int) -> None:
    table = Table(
        f"RandomFourier, {n_features} features of n x 3 rows; error of the inner products",
        *["n", "seconds", "peak MB", "rms error"],
    )
    for n in sizes:
        fit = measure(fourier, n, n_features, setup=gaussian_rows)
        table.row(n, fit.seconds, fit.peak_mb, fit.result)


if __name__ == "__main__":
    quick = arguments(__doc__).quick
    nystroem_for_growing_n([5_000] if quick else [5_000, 20_000, 100_000], 200 if quick else 500)
    trace_error_at_equal_rank(100, seeds=2 if quick else 20)
    fourier_for_growing_n([10_000] if quick else [10_000, 100_000], 500)

"""KernelHMM beside the n x n matrices of the thesis, ProjHMM and hmmlearn, for growing n."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from _harness import Measured, Table, arguments, measure, ratio
from scipy.sparse.linalg import LinearOperator, eigs
from scipy.spatial.distance import cdist

import kernelmean as km
from kernelmean.chains import markov
from kernelmean.comparators import GaussianHMM, ProjHMM, matched_accuracy, tmse
from kernelmean.kernels import median_lengthscale

TEST = 1000  # rows that are filtered
TARGETS = {
    ("spectral", 20_000): "under 1 s",
    ("spectral", 1_000_000): "under 60 s, 3,000 MB",
    ("refined", 100_000): "under 60 s",
}


@dataclass(frozen=True)
class Fit:
    """Errors of a chain, and of the filter."""

    tmse: float
    accuracy: float | None


# ---------------------------------------------------------------- jobs: fit, then filter TEST rows
def draw(design: str, n: int) -> tuple:
    data = km.datasets.make_hmm(design, n, random_state=0)
    return data, data.model.sample(TEST, 1)


def spectral(data, test) -> Fit:
    K = data.model.n_states
    return judged(km.KernelHMM(K, refine=False, random_state=0).fit(data.X), test)


def refined(data, test) -> Fit:
    return judged(km.KernelHMM(data.model.n_states, random_state=0).fit(data.X), test)


def projected(data, test) -> Fit:
    return judged(ProjHMM(data.model.n_states, random_state=0).fit(data.X), test)


def normal(data, test) -> Fit:
    return judged(GaussianHMM(data.model.n_states, random_state=0).fit(data.X), test)


def judged(model, test) -> Fit:
    found = np.asarray(model.filter(test.X)).argmax(axis=1)
    return Fit(
        _error(test, model.startprob_, model.transmat_), matched_accuracy(test.states, found)
    )


def _error(test, startprob, transmat) -> float:
    return tmse(test.model.startprob, test.model.transmat, startprob, transmat)


def dense(data, test) -> Fit:
    """Algorithm 1 with n x n kernel matrices, with U₁ᵀ where it prints Uᵀ (errata), Θ = I.

    Eigenvectors of K₁K₃ are those of an iterative solver, as the thesis says.
    """
    X, K, n = data.X, data.model.n_states, len(data.X) - 2
    G = cdist(X, X, "sqeuclidean")
    G *= -0.5 / median_lengthscale(X) ** 2
    np.exp(G, out=G)
    V, V1, sigma = leading(G[:n, :n], G[2:, 2:], K)
    left, middle, right = G[:n, :n] @ V1, G[1:-1, 2:] @ V, G[2:, 2:] @ V
    B = [left.T @ (middle[:, [b]] * right) / (n * sigma) for b in range(K)]
    R = np.linalg.eig(B[0])[1].real
    UO = np.array([np.diag(np.linalg.solve(R, b @ R)) for b in B])
    pi = np.linalg.solve(UO, V.T @ G[2:].mean(axis=1))
    pairs = V.T @ (G[2:, :-1] @ (G[1:, 2:] @ V)) / (n + 1)
    moves = np.linalg.solve(UO, np.linalg.solve(UO, pairs.T).T)
    Q = markov.nearest_stochastic(moves / pi[:, None])
    return Fit(_error(test, markov.stationary(Q), Q), None)


def leading(K1, K3, K: int) -> tuple:
    """V, V₁, σ: of C₁₃ = Φ₁Φ₃ᵀ/n the singular functions U = Φ₃V and U₁ = Φ₁V₁, and values."""
    n = len(K1)
    product = LinearOperator((n, n), matvec=lambda w: K1 @ (K3 @ w) / n**2)
    values, W = eigs(product, k=K, v0=np.ones(n))
    order = np.argsort(-values.real)
    sigma, W = values.real[order] ** 0.5, W.real[:, order]
    V = W / np.sum(W * (K3 @ W), axis=0) ** 0.5
    return V, K3 @ V / (n * sigma), sigma


# ---------------------------------------------------------------- regimes beside normal laws
def regimes(kind: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """States that last, and rows: two levels in two columns, calm and wild, or three levels."""
    K, stay = {"levels": (2, 0.9), "wild": (2, 0.95), "wild t": (2, 0.95), "three": (3, 0.92)}[kind]
    rng, moves = np.random.default_rng(seed), np.full((K, K), (1 - stay) / (K - 1))
    np.fill_diagonal(moves, stay)
    states = [int(rng.integers(K))]
    for _ in range(n - 1):
        states.append(int(rng.choice(K, p=moves[states[-1]])))
    size, level, d = {
        "levels": ([1, 1.5], [0, 2], 2),
        "wild": ([0.7, 2], [0, 0], 1),
        "wild t": ([0.6, 1.6], [0, 0], 1),
        "three": ([0.6, 1, 0.7], [-2, 0, 2], 1),
    }[kind]
    noise = rng.standard_t(3, size=(n, d)) if kind == "wild t" else rng.normal(size=(n, d))
    s = np.array(states)
    return s, noise * np.array(size)[s][:, None] + np.array(level)[s][:, None]


def beside_normal(sizes, draws: int, first: int, kinds=("levels", "wild", "three", "wild t")):
    """States right, and log density of a new row, less those of hmmlearn, best of five starts."""
    from hmmlearn.hmm import GaussianHMM as Normal

    for kind in kinds:
        for n in sizes:
            gains = []
            for seed in range(first, first + draws):
                states, X = regimes(kind, n + 2000, seed)
                K, (known, new) = states.max() + 1, np.split(X, [n])
                fits = [Normal(K, "full", n_iter=100, random_state=i).fit(known) for i in range(5)]
                both = (
                    km.KernelHMM(K, random_state=0).fit(known),
                    max(fits, key=lambda fit: fit.score(known)),
                )
                ours, theirs = (
                    (
                        matched_accuracy(states[n:], model.predict_proba(new).argmax(axis=1)),
                        model.score(new) / 2000,
                    )
                    for model in both
                )
                gains.append(np.subtract(ours, theirs))
            print(f"{kind:8s} {n:6d}", *np.mean(gains, axis=0).round(4), flush=True)


# ---------------------------------------------------------------- the tables
JOBS = {
    "spectral": spectral,
    "refined": refined,
    "n x n": dense,
    "ProjHMM": projected,
    "hmmlearn": normal,
}


def grow(design: str, sizes: dict[int, tuple[str, ...]]) -> None:
    """A table of all jobs, for each n those that are named."""
    table = Table(
        f"{design} design: fit n rows and filter {TEST:,} others",
        *["        n", "    job", "seconds", "over ours", " peak MB", "    TMSE", "accuracy"],
        "              target",
    )
    for n, names in sizes.items():
        runs: dict[str, Measured] = {}
        for name in names:
            runs[name] = run = measure(JOBS[name], design, n, setup=draw, repeats=repeats(n))
            over = ratio(run.seconds, runs[names[0]].seconds)
            fit, target = run.result, TARGETS.get((name, n), "")
            table.row(n, name, run.seconds, over, run.peak_mb, fit.tmse, fit.accuracy, target)


def repeats(n: int) -> int:
    return 1 if n > 20_000 else 3


if __name__ == "__main__":
    every = tuple(JOBS)
    if arguments(__doc__).quick:
        grow("separated", {500: every})
    else:
        quick = tuple(name for name in JOBS if name != "n x n")
        sizes = {
            1000: every,
            5000: every,
            20_000: quick,
            100_000: ("spectral", "refined", "ProjHMM"),
            1_000_000: ("spectral", "ProjHMM"),
        }
        grow("separated", sizes)
        grow("overlapping", {5000: quick, 20_000: quick})

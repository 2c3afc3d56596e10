"""Wall time of whole fits as installed, and with one BLAS thread, each in a fresh process.

python benchmarks/bench_threads.py [--quick] [--against SRC]

SRC is the src folder of another checkout. Nothing is exported for the first figure. An error stands
beside each time, so that a faster fit that is a worse one shows. Runs of all kinds are interleaved;
medians are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

HERE = Path(__file__).resolve()
SEED = 71


def demand(n: int) -> Callable:
    def job(km) -> tuple[Callable, Callable]:
        data = km.datasets.make_iv_demand(n, random_state=SEED)
        fit = lambda: km.KernelIV().fit(data.X, data.y, Z=data.Z, C=data.C)  # noqa: E731
        return fit, lambda model: np.mean((model.predict(data.grid) - data.truth(data.grid)) ** 2)

    return job


def sigmoid(km) -> tuple[Callable, Callable]:
    data = km.datasets.make_iv_sigmoid(5000, random_state=SEED)
    fit = lambda: km.KernelIV().fit(data.X, data.y, Z=data.Z)  # noqa: E731
    return fit, lambda model: np.mean((model.predict(data.grid) - data.truth(data.grid)) ** 2)


def pairs(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(n, 3))
    mean = np.sin(X[:, 0]) + X[:, 1]
    return X, mean, mean + 0.3 * rng.normal(size=n) * (1 + (X[:, 2] > 0))


def density(columns: int) -> Callable:
    def job(km) -> tuple[Callable, Callable]:
        X, _, y = pairs(1000)
        X = X[:, :columns]
        return lambda: km.ConditionalDensity().fit(X, y), lambda model: -model.score(X, y)

    return job


def posterior(km) -> tuple[Callable, Callable]:
    X, _, y = pairs(10_000)
    fit = lambda: km.KernelBayes().fit(X[:, :1], y)  # noqa: E731

    def both():
        model = fit()
        model.predict(X[:1000, :1])
        return model

    return both, lambda model: np.mean((model.predict(X[:1000, :1]) - np.sin(X[:1000, 0])) ** 2)


def regression(km) -> tuple[Callable, Callable]:
    X, mean, y = pairs(5000)
    fit = lambda: km.ConditionalEmbedding(tune_lengthscale=True).fit(X, y)  # noqa: E731
    return fit, lambda model: np.mean((model.predict(X) - mean) ** 2)


def regimes(n: int) -> Callable:
    def job(km) -> tuple[Callable, Callable]:
        X = km.datasets.make_hmm("separated", n, random_state=SEED).X
        return lambda: km.KernelHMM(2, random_state=0).fit(X), lambda model: -model.score(X)

    return job


def states(km) -> tuple[Callable, Callable]:
    X = km.datasets.make_state_space("volatility", 1000, random_state=SEED).X
    fit = lambda: km.KernelStateSpace(random_state=0).fit(X)  # noqa: E731
    return fit, lambda model: -np.mean(model.log_predictive(X))


JOBS = {
    "KernelIV, demand, 1,000": demand(1000),
    "KernelIV, demand, 5,000": demand(5000),
    "KernelIV, sigmoid, 5,000": sigmoid,
    "ConditionalDensity, 1,000 x 1": density(1),
    "ConditionalDensity, 1,000 x 3": density(3),
    "ConditionalEmbedding, tuned, 5,000 x 3": regression,
    "KernelBayes, 10,000, and 1,000 predictions": posterior,
    "KernelHMM, 2,000": regimes(2000),
    "KernelHMM, 5,000": regimes(5000),
    "KernelHMM, 20,000": regimes(20_000),
    "KernelStateSpace, 1,000": states,
}


def child(name: str) -> None:
    """One fit, its time and error as JSON."""
    import kernelmean as km

    warnings.simplefilter("ignore")
    fit, error = JOBS[name](km)
    start = time.perf_counter()
    model = fit()
    print(json.dumps([time.perf_counter() - start, float(error(model))]))


def run(name: str, source: Path, one: bool) -> list[float]:
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    environment |= {"PYTHONPATH": str(source)} | ({"OMP_NUM_THREADS": "1"} if one else {})
    command = [sys.executable, str(HERE), "--job", name]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(shown.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="one run instead of three")
    parser.add_argument("--against", type=Path, help="src folder of another checkout")
    options = parser.parse_args()
    if options.job:
        child(options.job)
        return
    here = HERE.parents[1] / "src"
    ways = {"as installed": (here, False), "one thread": (here, True)}
    if options.against:
        ways["other, as installed"] = (options.against.resolve(), False)
    for name in JOBS:
        runs: dict[str, list] = {way: [] for way in ways}
        for _ in range(1 if options.quick else 3):
            for way, how in ways.items():
                runs[way].append(run(name, *how))
        told = [
            f"{way} {median(t for t, _ in found):.2f} s (error {found[0][1]:.4g})"
            for way, found in runs.items()
        ]
        print(f"{name}: {'; '.join(told)}", flush=True)


if __name__ == "__main__":
    main()

"""The most memory that answers about many rows allocate, beside what a whole table would take.

`python benchmarks/memory.py`: MiB at the peak, by `tracemalloc`, which sees NumPy's arrays and not
pages of a memory map that are in use.
"""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

import kernelmean as km


def peak(name: str, whole: int, job) -> Any:
    """What a job gives; the most that it allocated is printed beside floats of a `whole` table."""
    tracemalloc.start()
    answer = job()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"{name:60} {most / 2**20:7.0f} MiB of {8 * whole / 2**20:6.0f}", flush=True)
    return answer


def autoregressive(n: int) -> tuple[np.ndarray, np.ndarray]:
    """States and noisy observations."""
    rng, z = np.random.default_rng(0), np.zeros(n)
    for t in range(1, n):
        z[t] = 0.9 * z[t - 1] + 0.3 * rng.normal()
    return z[:, None], (z + 0.3 * rng.normal(size=n))[:, None]


def state_space() -> None:
    X = autoregressive(5000)[1]
    em = km.EM(n_init=1, max_iter=1)
    model = km.KernelStateSpace(backbone=None, em=em, random_state=0).fit(X)
    whole = len(X) * len(X)
    peak("KernelStateSpace.predict_interval, 5,000 rows", whole, lambda: model.predict_interval(X))


def filtering() -> None:
    z, x = autoregressive(4000)
    result = km.KernelBayesFilter(reg=0.05).fit(x, z).filter(x[:2000])
    peak("FilterResult.interval, 4,000 rows, 2,000 steps", 4000 * 2000, result.interval)


def mapped() -> None:
    n, rng = 1_000_000, np.random.default_rng(0)
    z, e = rng.normal(size=(n, 2)), rng.normal(size=n)
    table = np.column_stack([z[:, 0] + 0.5 * e, np.sin(z[:, 0]) + 0.7 * e, z])
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "table.npy", table)
        table = np.load(Path(folder) / "table.npy", mmap_mode="r")
        for name, T in {"a memory map": table, "km.Rows of it": km.Rows(table)}.items():
            iv, X = km.KernelIV(tune_lengthscale=False), T[:, :1]
            fit = f"KernelIV.fit, 1,000,000 rows of {name}"
            peak(fit, 4 * n, lambda iv=iv, X=X, T=T: iv.fit(X, T[:, 1], T[:, 2:]))
            peak(f"predict, {name}", n, lambda iv=iv, X=X: sum(map(np.sum, iv.predict(X))))


if __name__ == "__main__":
    state_space()
    filtering()
    mapped()

"""Fits on a GPU (PyTorch, CUDA; double precision) beside the same fits in NumPy on the processors.

Rows are on the device before the clock starts and answers come back before it stops; the first fit
of each kind, which loads the libraries of the device, is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from _harness import Table, arguments

import kernelmean as km
from kernelmean.core.arrays import to_numpy


# ---------------------------------------------------------------- the data
def rows(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x moved by z and by what moves y; y = sin x + noise, of two columns each."""
    rng = np.random.default_rng(0)
    Z, hidden = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
    X = Z + 0.5 * hidden + 0.3 * rng.normal(size=(n, 2))
    return X, np.sin(X).sum(axis=1) + hidden[:, 0] + 0.1 * rng.normal(size=n), Z


# ---------------------------------------------------------------- the jobs
def exact(X, y, Z):
    """Every pair of rows: (K + nλI)⁻¹y."""
    kernel = km.Gaussian(1.0)
    return km.ConditionalEmbedding(kernel, kernel, reg=1e-4, features=km.Exact()).fit(X, y)


def embedding(X, y, Z):
    return km.ConditionalEmbedding(features=km.Nystroem(max_rank=500, tol=1e-8)).fit(X, y)


def instruments(X, y, Z):
    return km.KernelIV(tune_lengthscale=False).fit(X, y, Z)


def bayes(X, y, Z):
    return km.KernelBayes().fit(X, Z)


JOBS: dict[Callable, list[int]] = {
    exact: [2_000, 10_000],
    embedding: [10_000, 100_000],
    instruments: [10_000, 1_000_000],
    bayes: [10_000, 100_000],
}


# ---------------------------------------------------------------- the table
def seconds(job: Callable, tables: tuple, asked) -> tuple[float, np.ndarray]:
    """Of a fit and its predictions, and these."""
    started = time.perf_counter()
    answer = to_numpy(job(*tables).predict(asked))
    return time.perf_counter() - started, answer


def speed(jobs: dict[Callable, list[int]]) -> None:
    table = Table(
        f"A fit and 1,000 predictions; {torch.cuda.get_device_name()}",
        *["job         ", "n", "NumPy, s", "CUDA, s", "ratio", "max diff"],
    )
    for job, sizes in jobs.items():
        for n in sizes:
            here = rows(n)
            there = tuple(torch.asarray(A, device="cuda") for A in here)
            few = tuple(A[:500] for A in there)
            seconds(job, few, few[0])
            (ours, expected), (theirs, found) = (
                seconds(job, tables, tables[2][:1000] if job is bayes else tables[0][:1000])
                for tables in (here, there)
            )
            off = float(np.abs(found - expected).max())
            table.row(job.__name__, n, ours, theirs, ours / theirs, off)


if __name__ == "__main__":
    quick = arguments(__doc__).quick
    speed({job: sizes[:1] for job, sizes in JOBS.items()} if quick else JOBS)

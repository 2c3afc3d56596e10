"""Two whole fits in turn, in two threads, in two processes: what the lock leaves of two cores."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from statistics import median

from _harness import Table, arguments
from wall_jobs import JOBS

NAMES = ["KernelIV, demand, 5,000", "ConditionalDensity, 1,000 x 3", "KernelHMM, 5,000"]


def fit(name: str, seed: int) -> float:
    """Seconds of one fit."""
    work = JOBS[name].ours(JOBS[name].data(seed))
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def wall(each: Callable, name: str) -> float:
    """Of the fits of two seeds, data included."""
    start = time.perf_counter()
    list(each(fit, [name, name], [71, 72]))
    return time.perf_counter() - start


def compare(runs: int) -> None:
    table = Table("medians", f"{'job':>30}", "in turn, s", "two threads", "two processes")
    spawned = ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    with ThreadPoolExecutor(2) as threads, spawned as processes:
        for name in NAMES:
            ways = map, threads.map, processes.map
            for each in ways:
                wall(each, name)  # imports, first
            turn, *both = (median(times) for times in zip(
                *([wall(each, name) for each in ways] for _ in range(runs)), strict=True
            ))  # fmt: skip
            table.row(name, turn, *(f"x {turn / seconds:.2f}" for seconds in both))


if __name__ == "__main__":
    quick = arguments(__doc__).quick
    compare(1 if quick else 5)

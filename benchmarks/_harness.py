"""Time, peak memory and result of a job run in a process of its own; and tables of plain text.

A job is a function at the top of a script: a fresh process imports the script and calls it, so no
job inherits another's memory, warm caches or threads.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import kernelmean as km

ENOUGH = 10.0  # seconds after which a job is not repeated
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Measured:
    """Best time, peak memory above that of the imports alone, and what the job returned."""

    seconds: float
    peak_mb: float
    result: Any


def measure(function: Callable, *args, setup: Callable | None = None, repeats: int = 3) -> Measured:
    """Run `function(*args)`, or `function(*setup(*args))` with an untimed setup, on its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_run, function, args, setup, repeats).result()


def _run(function: Callable, args: tuple, setup: Callable | None, repeats: int) -> Measured:
    imports = peak_mb()  # this process has imported the script and done nothing else
    inputs = args if setup is None else setup(*args)
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < ENOUGH:
        start = _clock()
        result = function(*inputs)
        seconds.append(_clock() - start)
    return Measured(min(seconds), peak_mb() - imports, result)


def _clock() -> float:
    # one thread is timed by the processor, which the work of others on the machine leaves alone;
    # several only by the clock on the wall
    alone = os.environ[THREADS[0]] == "1"
    return time.process_time() if alone else time.perf_counter()


def peak_mb(*users: int) -> float:
    """Most memory, of this process or of `users` of `resource.getrusage`."""
    # Linux passes the parent's peak on to a child, so the parent must do no heavy work itself
    unit = 1 if platform.system() == "Darwin" else 1024
    users = users or (resource.RUSAGE_SELF,)
    return max(resource.getrusage(user).ru_maxrss for user in users) * unit / 1e6


def arguments(story: str) -> argparse.Namespace:
    """`--quick` and `--threads`; the threads are those of the processes that will be started."""
    parser = argparse.ArgumentParser(description=story)
    parser.add_argument("--quick", action="store_true", help="small sizes, under 20 seconds")
    parser.add_argument("--threads", type=int, default=1, help="BLAS threads (default 1)")
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(THREADS, str(options.threads)))
    print(f"{story}\n{machine(options.threads)}", flush=True)
    return options


def machine(threads: int) -> str:
    """One line that says where, and beside how much other work, the numbers were taken."""
    load = os.getloadavg()[0]
    return (
        f"{_processor()}, {os.cpu_count()} cores, {threads} thread(s), load {load:.1f} at the "
        f"start; kernelmean {km.__version__}, NumPy {np.__version__}"
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


class Table:
    """An aligned table that prints every row as soon as it is known."""

    def __init__(self, title: str, *columns: str):
        self.widths = [max(len(name), 8) for name in columns]
        print(f"\n{title}")
        self.row(*columns)

    def row(self, *cells) -> None:
        """One row: numbers get three digits, None is a dash, text stays as it is."""
        texts = [_text(cell) for cell in cells]
        pairs = zip(texts, self.widths, strict=True)
        print("  ".join(f"{text:>{width}}" for text, width in pairs), flush=True)


def ratio(top: float, bottom: float) -> str:
    """How many times `bottom` fits into `top`."""
    value = top / bottom
    return f"{value:,.0f}x" if value >= 10 else f"{value:.2g}x"


def rmse(estimate, truth) -> float:
    """Root mean squared difference."""
    return float(np.sqrt(np.mean((np.asarray(estimate) - truth) ** 2)))


def _text(cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)

"""Workers killed in the middle of each pass of fits, on one cluster: the same answer to the bit.

`python benchmarks/kill_workers.py [--rounds 1] [--only WORD] [--pass WORD]`: two processes of one
thread. A pass is a graph that a fit computes, and is named by what asked for it; in every fit one
process gets SIGKILL in one of its passes, a third to two thirds through, and is started again by
its nanny. Choices are made on 300 rows, so that all that is summed over rows elsewhere is in play
on few rows.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import threading
import time

import dask
import dask.array as da
import distributed
import numpy as np
from dask.delayed import Delayed

import kernelmean as km

ROWS, CHUNK, LIMIT = 1200, 100, 300
TRIES = 5  # where a pass was over before its process was to be killed
SETTINGS = {
    "scheduler": "distributed",
    "distributed.scheduler.allowed-failures": 50,
    # after 15 s a cluster would close the nanny of a worker that a busy machine is slow to start
    "distributed.deploy.lost-worker-timeout": "600s",
}
LOOK = ["regression.conditional", "bayes.density_ratio", "bayes.kernel_bayes"]
LOOK += [f"densities.{name}" for name in ("cells", "conditional_density", "embedded_density")]


def slowly(block: np.ndarray) -> np.ndarray:
    time.sleep(0.03)
    return block


def table(seed: int, d: int):
    A = np.random.default_rng(seed).normal(size=(ROWS, d))
    lazy = da.from_array(A, chunks=(CHUNK, d))
    return lazy.map_blocks(slowly, dtype=float, meta=np.empty((0, d)))


X, Z = table(0, 2), table(1, 2)
y = (np.sin(X[:, 0]) + 0.3 * Z[:, 0]).rechunk(CHUNK)


def fixed(location: bool):
    return km.ConditionalDensity(bandwidth=0.3, location=location, tune_lengthscale=False)


JOBS = {
    "ConditionalEmbedding": lambda: km.ConditionalEmbedding().fit(X, y).coef_,
    "DensityRatio": lambda: km.DensityRatio().fit(X, np.zeros((5, 2)) + 0.1).coef_,
    "KernelIV": lambda: km.KernelIV(tune_lengthscale=False).fit(X, y, X + Z).coef_,
    "ConditionalDensity": lambda: fixed(True).fit(X, y).fit_.gathered,
    "EmbeddedDensity": lambda: km.EmbeddedDensity().fit(X[:, :1]).embedding_.weights,
    "KernelBayes": lambda: km.KernelBayes().fit(X, y).predict(np.eye(2)),
    "KernelHMM": lambda: km.KernelHMM(2, refine=False, random_state=0).fit(y[:, None]).transmat_,
}


class Passes:
    """What is computed, in order: names and seconds; in pass `number` a process is killed."""

    def __init__(self, cluster: distributed.LocalCluster):
        self.cluster, self.compute = cluster, Delayed.compute
        Delayed.compute = lambda *args, **kwargs: self.one(*args, **kwargs)

    def of(self, job, number: int | None = None, after: float = 0.0):
        self.names, self.seconds, self.within = [], [], False
        self.number, self.after = number, after
        return job()

    def one(self, *args, **kwargs):
        killer = threading.Timer(self.after, self.kill)
        if len(self.names) == self.number:
            killer.start()
        self.names.append(asked_by())
        start = time.perf_counter()
        found = self.compute(*args, **kwargs)
        self.seconds.append(time.perf_counter() - start)
        killer.cancel()
        return found

    def kill(self) -> None:
        alive = [nanny.pid for nanny in self.cluster.workers.values() if nanny.pid]
        os.kill(alive[-1], signal.SIGKILL)
        self.within = True


def asked_by() -> str:
    """The innermost function under way that belongs to a fit, not to its rows."""
    frame = sys._getframe(1)
    while not (name := frame.f_globals["__name__"]).startswith("kernelmean") or ".core." in name:
        frame = frame.f_back
    return f"{name.removeprefix('kernelmean.')}.{frame.f_code.co_name}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="fits whose names have this")
    parser.add_argument("--pass", dest="where", default="", help="passes whose names have this")
    given, rng = parser.parse_args(), np.random.default_rng(0)
    for name in LOOK:
        importlib.import_module(f"kernelmean.{name}").SEARCH_ROWS = LIMIT
    workers = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    within, same = [], []
    with (
        dask.config.set(SETTINGS),
        distributed.LocalCluster(**workers) as cluster,
        distributed.Client(cluster) as client,
    ):
        passes = Passes(cluster)
        for name, job in JOBS.items():
            if given.only not in name:
                continue
            passes.of(job)  # once to warm up
            whole = passes.of(job)
            names, seconds = passes.names, passes.seconds
            for i in given.rounds * [i for i, told in enumerate(names) if given.where in told]:
                told = f"{name:22} pass {i + 1} of {len(names)}, {names[i]:40}"
                for _ in range(TRIES):
                    found = passes.of(job, i, rng.uniform(1 / 3, 2 / 3) * seconds[i])
                    same.append(np.array_equal(found, whole))
                    within.append(passes.within)
                    print(f"{told} killed within: {within[-1]}  same: {same[-1]}", flush=True)
                    client.wait_for_workers(2)
                    if passes.within:
                        break
    print(f"{sum(same)} of {len(same)} the same to the bit, {sum(within)} killed within a pass")


if __name__ == "__main__":
    main()

"""Workers killed in the middle of fits, again and again on one cluster: the same answer to the bit.

`python benchmarks/kill_workers.py [--kills 20]`: two processes of one thread; in every fit one of
them gets SIGKILL at a random moment, and is started again by its nanny. Choices are made on 300
rows, so that all that is summed over rows elsewhere is in play on few rows.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import threading
import time

import dask
import dask.array as da
import distributed
import numpy as np

import kernelmean as km

ROWS, CHUNK, LIMIT = 1200, 100, 300
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


def kill(cluster: distributed.LocalCluster, after: float, killed: list[int]) -> None:
    """One of the workers, a while after it was asked for."""
    time.sleep(after)
    alive = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
    os.kill(alive[-1], signal.SIGKILL)
    killed.append(alive[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    kills, rng = parser.parse_args().kills, np.random.default_rng(0)
    for name in LOOK:
        importlib.import_module(f"kernelmean.{name}").SEARCH_ROWS = LIMIT
    workers = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        dask.config.set(SETTINGS),
        distributed.LocalCluster(**workers) as cluster,
        distributed.Client(cluster) as client,
    ):
        whole, took, same = {}, {}, []
        for name, job in JOBS.items():
            start = time.perf_counter()
            whole[name], took[name] = job(), time.perf_counter() - start
        for i in range(kills):
            name, killed = list(JOBS)[i % len(JOBS)], []
            args = cluster, rng.uniform(0, 0.9) * took[name], killed
            killer = threading.Thread(target=kill, args=args)
            killer.start()
            found = JOBS[name]()
            within = bool(killed)
            killer.join()
            same.append(np.array_equal(found, whole[name]))
            print(f"{i:3} {name:22} killed within: {within}  same: {same[-1]}", flush=True)
            client.wait_for_workers(2)
    print(f"{sum(same)} of {kills} the same to the bit")


if __name__ == "__main__":
    main()

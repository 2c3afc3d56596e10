"""Rows that are made as they are read: time and memory of fits beside plain sums of products.

`python benchmarks/bench_rows.py [--quick] [--rows 1e6 1e7] [--only WORD] [--cluster]`: processor
seconds, rows per second, and the most memory that a process had. Rows are made by a formula (four
columns: x, y, and two instruments), in blocks of 100,000, so that nothing but the sums is kept;
making them is timed too. With `--cluster` they are Dask arrays of a LocalCluster of two processes
of 1.5 GB and one thread each; seconds are those of all three processes together.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import time

import dask
import dask.array as da
import numpy as np

import kernelmean as km

STEP = 100_000


class Lazy:
    """Blocks (x, y, z) made when they are read: the same ones in every pass."""

    def __init__(self, n: int):
        self.n = n

    def __iter__(self):
        return map(self.block, self.starts)

    @property
    def starts(self) -> range:
        return range(0, self.n, STEP)

    def block(self, start: int) -> tuple:
        rng, m = np.random.default_rng([7, start]), min(STEP, self.n - start)
        z, e, noise = rng.normal(size=(m, 2)), rng.normal(size=m), rng.normal(size=(m, 2))
        x = z[:, 0] + 0.5 * z[:, 1] + 0.5 * e + 0.3 * noise[:, 0]
        return x[:, None], np.sin(x) + 0.7 * e + 0.2 * noise[:, 1], z

    def arrays(self) -> list:
        """x, y, z as Dask arrays."""
        made = [dask.delayed(self.block)(start) for start in self.starts]
        sizes = [min(STEP, self.n - start) for start in self.starts]
        return [
            da.concatenate(
                [
                    da.from_delayed(block[i], (m, *shape), float)
                    for block, m in zip(made, sizes, strict=True)
                ]
            )
            for i, shape in enumerate([(1,), (), (2,)])
        ]


def read(rows):
    if isinstance(rows, km.Rows):
        return sum(len(block[0]) for block in rows)
    return sum(column.sum() for column in rows).compute()


def embedding(rows):
    return km.ConditionalEmbedding().fit(rows[2], rows[0])


def structural(rows):
    return km.KernelIV(tune_lengthscale=False).fit(rows[0], rows[1], rows[2])


def density(rows):
    return km.ConditionalDensity().fit(rows[2], rows[1])


def points(rows):
    return km.EmbeddedDensity().fit(rows[0])


def bayes(rows):
    return km.KernelBayes().fit(rows[2], rows[1])


def hidden(rows):
    return km.KernelHMM(2, refine=False, random_state=0).fit(rows[0])


def ratio(rows):
    return km.DensityRatio().fit(rows[2], np.random.default_rng(0).normal(0.3, 1, (2000, 2)))


def landmarks(rows):
    return km.Nystroem(tol=1e-4).fit(rows[2], km.Gaussian(1.0))


def all_landmarks(rows):
    return km.Nystroem(tol=1e-4, sample=None).fit(rows[2], km.Gaussian(1.0))


def products(rows, columnwise: bool = False):
    """ΦᵀΦ of z by Dask's own product, in coordinates that are given."""
    z = Lazy(rows.n).arrays()[2] if isinstance(rows, km.Rows) else rows[2]
    kernel = km.Gaussian(columnwise=columnwise)
    map_ = km.Nystroem().fit(np.asarray(z.blocks[0])[:10_000], kernel)
    Phi = z.map_blocks(map_.transform, chunks=(z.chunks[0], (map_.rank_,)), dtype=float)
    return (Phi.T @ Phi).compute()


def rough(rows):
    iv = km.KernelIV(tune_lengthscale=False, features=km.Nystroem(tol=1e-3))
    return iv.fit(rows[0], rows[1], rows[2])


JOBS = {
    "reading (making) the rows": read,
    "Dask: ΦᵀΦ, 66 coordinates": products,
    "Dask: ΦᵀΦ, 144 coordinates": lambda rows: products(rows, columnwise=True),
    "Nystroem": landmarks,
    "Nystroem(sample=None)": all_landmarks,
    "DensityRatio": ratio,
    "ConditionalEmbedding": embedding,
    "KernelIV": structural,
    "KernelIV(features=Nystroem(tol=1e-3))": rough,
    "ConditionalDensity": density,
    "EmbeddedDensity": points,
    "KernelBayes": bayes,
    "KernelHMM(refine=False)": hidden,
}


def spent() -> tuple[float, float]:
    """Processor seconds of this process so far, and the most memory it had, in MiB."""
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextlib.contextmanager
def everywhere(cluster: bool):
    """What tells `spent` of every process at work."""
    if not cluster:
        with dask.config.set(scheduler="synchronous"):
            yield lambda: [spent()]
        return
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="1.5GB", dashboard_address=None
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield lambda: [spent(), *client.run(spent).values()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--only", default="", help="jobs whose names have this")
    parser.add_argument("--cluster", action="store_true")
    given = parser.parse_args()
    print(f"{'rows':>12} {'job':40} {'seconds':>8} {'rows/s':>11} {'MiB':>6}")
    sizes = [100_000] if given.quick else map(int, given.rows)
    jobs = {name: job for name, job in JOBS.items() if given.only in name}
    with everywhere(given.cluster) as told:
        for n in sizes:
            for name, job in jobs.items():
                start = sum(seconds for seconds, _ in told())
                job(Lazy(n).arrays() if given.cluster else km.Rows(Lazy(n)))
                took = sum(seconds for seconds, _ in told()) - start
                memory = max(most for _, most in told())
                print(f"{n:12,} {name:40} {took:8.1f} {n / took:11,.0f} {memory:6.0f}", flush=True)


if __name__ == "__main__":
    main()

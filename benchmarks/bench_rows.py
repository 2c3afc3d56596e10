"""Rows that are made as they are read: time and memory of fits beside plain sums of products.

`python benchmarks/bench_rows.py [--quick] [--rows 1e6 1e7] [--only WORD]`: processor seconds of
this process, rows per second, and the most memory it had. Rows are made by a formula (four columns:
x, y, and two instruments), in blocks of 100,000, so that nothing but the sums is kept; making them
is timed too.
"""

from __future__ import annotations

import argparse
import resource
import time

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


def read(rows: km.Rows) -> int:
    return sum(len(block[0]) for block in rows)


def embedding(rows: km.Rows):
    return km.ConditionalEmbedding().fit(rows[2], rows[0])


def structural(rows: km.Rows):
    return km.KernelIV(tune_lengthscale=False).fit(rows[0], rows[1], rows[2])


def density(rows: km.Rows):
    return km.ConditionalDensity().fit(rows[2], rows[1])


def points(rows: km.Rows):
    return km.EmbeddedDensity().fit(rows[0])


def bayes(rows: km.Rows):
    return km.KernelBayes().fit(rows[2], rows[1])


def hidden(rows: km.Rows):
    return km.KernelHMM(2, refine=False, random_state=0).fit(rows[0])


def ratio(rows: km.Rows):
    return km.DensityRatio().fit(rows[2], np.random.default_rng(0).normal(0.3, 1, (2000, 2)))


def landmarks(rows: km.Rows):
    return km.Nystroem(tol=1e-4).fit(rows[2], km.Gaussian(1.0))


def all_landmarks(rows: km.Rows):
    return km.Nystroem(tol=1e-4, sample=None).fit(rows[2], km.Gaussian(1.0))


def products(rows: km.Rows):
    """What a pass of `DensityRatio` sums, by Dask's own product, coordinates given."""
    import dask
    import dask.array as da

    lazy = Lazy(rows.n)
    map_ = km.Nystroem().fit(rows[2].few(10_000), km.Gaussian(1.0))
    blocks = [dask.delayed(lazy.block)(start)[2] for start in lazy.starts]
    sizes = [min(STEP, rows.n - start) for start in lazy.starts]
    z = da.concatenate(
        [da.from_delayed(b, (m, 2), float) for b, m in zip(blocks, sizes, strict=True)]
    )
    Phi = z.map_blocks(map_.transform, chunks=(z.chunks[0], (map_.rank_,)), dtype=float)
    with dask.config.set(scheduler="synchronous"):
        return (Phi.T @ Phi).compute()


JOBS = {
    "reading (making) the rows": read,
    "Dask array product, coordinates given": products,
    "Nystroem": landmarks,
    "Nystroem(sample=None)": all_landmarks,
    "DensityRatio": ratio,
    "ConditionalEmbedding": embedding,
    "KernelIV": structural,
    "ConditionalDensity": density,
    "EmbeddedDensity": points,
    "KernelBayes": bayes,
    "KernelHMM(refine=False)": hidden,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--only", default="", help="jobs whose names have this")
    given = parser.parse_args()
    print(f"{'rows':>12} {'job':40} {'seconds':>8} {'rows/s':>11} {'MiB':>6}")
    for n in [100_000] if given.quick else map(int, given.rows):
        for name, job in ((name, job) for name, job in JOBS.items() if given.only in name):
            start = time.process_time()
            job(km.Rows(Lazy(n)))
            took = time.process_time() - start
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{n:12,} {name:40} {took:8.1f} {n / took:11,.0f} {memory:6.0f}", flush=True)


if __name__ == "__main__":
    main()

"""Pairs of parameters and data, simulated in rounds: the next ones where a posterior lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import arrays, checks
from ..core.progress import Verbose, in_processes
from .scores import NormalScores
from .truncation import Box, Draws, draw_inside

PRIOR = 10_000  # draws that its normal scores are learned from
DRAWS = 2000  # that show where a posterior lies
MOST_FAILED = 0.9  # of the runs of a simulator


@dataclass(frozen=True)
class Source:
    """Where pairs of parameters and data come from."""

    prior_sampler: Callable
    simulator: Callable
    batch_size: int | None
    n_jobs: int
    rng: np.random.Generator
    verbose: Verbose

    def parameters(self, n: int) -> np.ndarray:
        """n draws from the prior, (n, p)."""
        theta = checks.as_points(self.prior_sampler(n, self.rng), "prior_sampler(n, rng)")
        checks.check_lengths(n, theta.shape[0], "n", "prior_sampler(n, rng)")
        return theta

    def pairs(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of the parameters whose runs gave numbers, with data (n, q) simulated from them.

        p(θ | x) of a run that gave numbers is as it is among these. One generator per chunk, so
        that the answer is the same for any n_jobs.
        """
        batched = self.batch_size is not None
        chunk = checks.check_count(self.batch_size, "batch_size") if batched else 100
        starts = range(0, len(theta), chunk)
        jobs = [
            (self.simulator, theta[i : i + chunk], child, batched)
            for i, child in zip(starts, self.rng.spawn(len(starts)), strict=True)
        ]
        told = in_processes(_run, jobs, self.n_jobs, "simulating", self.verbose)
        rows = [row for part in told for row in part]
        widths = sorted({len(row) for row in rows})
        if len(widths) > 1:
            raise ValueError(
                f"simulator(theta, rng) returned {widths[0]} numbers and {widths[-1]} numbers; "
                "every call must return as many"
            )
        data = np.stack(rows)
        ran = np.isfinite(data).all(axis=1)
        failed = f"simulator(theta, rng) returned NaN or inf for {np.sum(~ran)} of {len(data)}"
        if len(data) - ran.sum() > MOST_FAILED * len(data):
            raise ValueError(
                f"{failed} parameters, first for {theta[~ran][0].tolist()}; numbers for one in "
                f"{1 / (1 - MOST_FAILED):.0f} or more are needed"
            )
        if not ran.all():
            checks.warn_numerical(f"{failed} parameters, which are left out")
        theta, data = theta[ran], data[ran]
        return theta, checks.as_points(data, "simulator(theta, rng)")


@dataclass(frozen=True)
class Simulated:
    """Parameters (n, p) and data (n, q) of a prior, inside a multiple of a box after a round.

    `whole` says that no run failed: those of which p(x | θ) may be learned.
    """

    source: Source
    theta: np.ndarray
    data: np.ndarray
    prior: Any = None  # its `NormalScores`, where there are rounds or ways
    box: Box | None = None
    larger: float = 1.0
    whole: bool = True

    @classmethod
    def by(cls, source: Source, n: int) -> Simulated:
        """Of n parameters of the prior."""
        theta, data = source.pairs(source.parameters(n))
        return cls(source, theta, data, whole=len(theta) == n)

    def scored(self) -> Simulated:
        """With the normal scores of the prior."""
        return replace(self, prior=NormalScores.of(self.source.parameters(PRIOR)))

    def draws(self) -> Draws:
        """Of the prior, where simulations are."""
        return Draws.of(self.source.parameters, self.box, self.larger)

    def near(self, law: Any, n: int) -> Simulated:
        """With n more in a box around draws of a law, and without those outside.

        The law is told its bandwidth, by which it leaves no share to a wide law.
        """
        drawn = arrays.to_numpy(law.sample(DRAWS, self.source.rng, law.bandwidth))
        box = Box.around(self.prior, drawn.reshape(DRAWS, -1))
        fresh, larger = draw_inside(self.source.parameters, box, n)
        kept, ran = box.stretch(self.theta) <= larger, self.source.pairs(fresh)
        pairs = zip((self.theta, self.data), ran, strict=True)
        theta, data = (np.concatenate([old[kept], new]) for old, new in pairs)
        whole = self.whole and len(ran[0]) == n
        return replace(self, theta=theta, data=data, box=box, larger=larger, whole=whole)


def _run(simulator: Callable, theta: np.ndarray, rng, batched: bool) -> Sequence[np.ndarray]:
    """Data of one chunk, b times (q,)."""
    if batched:
        data = checks.as_floats(simulator(theta, rng), "simulator(theta, rng)")
        if data.ndim not in (1, 2) or data.shape[0] != len(theta):
            raise ValueError(
                f"simulator(theta, rng) returned shape {data.shape} for {len(theta)} parameters; "
                f"({len(theta)}, q) is needed"
            )
        return data.reshape(len(theta), -1)
    what = "simulator(theta, rng)"
    rows = [np.atleast_1d(checks.as_floats(simulator(t, rng), what)) for t in theta]
    if any(row.ndim > 1 for row in rows):
        raise ValueError(
            f"simulator(theta, rng) returned shape {rows[0].shape} for one parameter; (q,) is "
            "needed (or give batch_size)"
        )
    return rows

"""Ways to a posterior from simulations, and the choice by simulations left out near the data."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.checks import warn_numerical
from ..core.minimise import CLEAR, mean_and_error
from ..core.moments import evenly
from ..core.progress import Verbose
from ..densities import ConditionalDensity
from ..densities.rival import line
from .adjustment import Adjustment
from .likelihood import Likelihood
from .rounds import Simulated
from .scores import NormalScores
from .truncation import ENOUGH, Draws

ADJUSTED, NEAREST = "regression adjustment", "the nearest simulations as they are"
LIKELIHOOD, DENSITY = "a likelihood that is learned", "a density"
MOST_OUT, WIDE = 200, 0.02  # simulations that choose, and the prior's share in what they say
MOST_IN = 1500  # simulations that they are told from
COLUMNS, FEW = 5, 3  # kernel densities of more parameters, of more data, are mostly smoothing


WAYS: dict[str, Callable[[Simulated], Any]] = {
    ADJUSTED: lambda known: Adjustment.of(known.prior, known.theta, known.data),
    NEAREST: lambda known: replace(WAYS[ADJUSTED](known), lines=False),
    LIKELIHOOD: lambda known: Likelihood(known.prior, known.draws(), known.theta, known.data),
    DENSITY: lambda known: ConditionalDensity().fit(known.data, known.theta),
}


def best(known: Simulated, row: np.ndarray, verbose: Verbose) -> tuple[Callable, Any]:
    """The way with the highest log densities of pairs left out, and what it learned of others.

    Those left out are near `row`. A likelihood is tried where the data are few numbers, and no run
    failed; where they are many a density, if lines do no good.
    """
    out, rest = _left_out(known.data, row)
    theta, data = known.theta[out], known.data[out]
    wide = np.log(WIDE) + known.prior.log_density(theta)
    scores: dict[str, np.ndarray] = {}
    learned: dict[str, Any] = {}

    def judge(way: str, one: Any) -> float:
        learned[way], told = one, one.score_samples(data, theta)
        scores[way] = np.logaddexp(np.log(1 - WIDE) + told, wide)
        return scores[way].mean()

    known = replace(known, theta=known.theta[rest], data=known.data[rest])
    lines = WAYS[ADJUSTED](known)  # serves both
    lines_help = judge(ADJUSTED, lines) > judge(NEAREST, replace(lines, lines=False))
    if known.theta.shape[1] <= COLUMNS and np.ptp(known.theta, axis=0).all():
        few = known.whole and known.data.shape[1] <= FEW
        varied = np.ptp(known.data, axis=0)
        draws = known.draws() if few else Draws(known.theta[:0], 0.0)
        if len(draws.theta) >= ENOUGH and varied.all():
            judge(LIKELIHOOD, Likelihood(known.prior, draws, known.theta, known.data))
        elif varied.any() and not lines_help:
            judge(DENSITY, WAYS[DENSITY](known))
    first, second, *_ = sorted(scores, key=lambda way: -scores[way].mean())
    found = mean_and_error(scores[first] - scores[second])
    if verbose is True:
        print(f"{first}, beside {second}: {line(found).text}", file=sys.stderr)
    if first == NEAREST and found[0] > CLEAR * found[1]:
        warn_numerical(
            "nothing that was learned of the simulations does as well as the parameters of the "
            "nearest ones as they are, which are the posterior: rejection, with too wide a law. "
            "Fewer summaries, or more simulations, are needed"
        )
    return WAYS[first], learned[first]


def _left_out(data: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every other one of the nearer half, as many as choose; and the rest."""
    scores = NormalScores.of(data)
    order = np.argsort(((scores(data) - scores(row)) ** 2).sum(axis=1), kind="stable")
    out = order[: len(order) // 2 : 2][:MOST_OUT]
    rest = np.setdiff1d(np.arange(len(data)), out)
    return out, rest[evenly(len(rest), MOST_IN)]

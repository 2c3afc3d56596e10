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
from .scores import NormalScores
from .truncation import Draws

NAMES = {
    "adjusted": "regression adjustment",
    "nearest": "the nearest simulations as they are",
    "likelihood": "a likelihood that is learned",
    "density": "a density",
}
MOST_OUT, WIDE = 200, 0.02  # simulations that choose, and the prior's share in what they say
MOST_IN = 1500  # simulations that they are told from
COLUMNS, FEW = 5, 3  # kernel densities of more parameters, of more data, are mostly smoothing


def best(
    prior: NormalScores, draw: Callable[[], Draws], theta, data, row: np.ndarray, verbose: Verbose
) -> Any:
    """What is learned of the pairs in the way with the highest log densities of those left out.

    Those are near `row`. A likelihood is tried where the data are few numbers; where they are many
    a density, if lines do no good. `draw` makes draws of the prior where the simulations are.
    """

    def adjusted(theta, data) -> Adjustment:
        return Adjustment.of(prior, theta, data)

    def nearest(theta, data) -> Adjustment:
        return replace(adjusted(theta, data), lines=False)

    def likelihood(theta, data) -> Likelihood:
        return Likelihood.of(prior, draws, theta, data)

    out, rest = _left_out(data, row)
    wide = np.log(WIDE) + prior.log_density(theta[out])
    scores: dict[Callable, np.ndarray] = {}

    def judge(way: Callable, learned: Any) -> float:
        told = learned.score_samples(data[out], theta[out])
        scores[way] = np.logaddexp(np.log(1 - WIDE) + told, wide)
        return scores[way].mean()

    known = theta[rest], data[rest]
    lines = adjusted(*known)  # serves both
    lines_help = judge(adjusted, lines) > judge(nearest, replace(lines, lines=False))
    if theta.shape[1] <= COLUMNS and np.ptp(theta[rest], axis=0).all():
        draws = draw() if data.shape[1] <= FEW else Draws(theta[:0], 0.0)
        varied = np.ptp(data[rest], axis=0)
        if draws.enough and varied.all():
            judge(likelihood, likelihood(*known))
        elif varied.any() and not lines_help:
            judge(density, density(*known))
    first, second, *_ = sorted(scores, key=lambda way: -scores[way].mean())
    found = mean_and_error(scores[first] - scores[second])
    if verbose is True:
        told = f"{NAMES[first.__name__]}, beside {NAMES[second.__name__]}"
        print(f"{told}: {line(found).text}", file=sys.stderr)
    if first is nearest and found[0] > CLEAR * found[1]:
        warn_numerical(
            "nothing that was learned of the simulations does as well as the parameters of the "
            "nearest ones as they are, which are the posterior: rejection, with too wide a law. "
            "Fewer summaries, or more simulations, are needed"
        )
    return first(theta, data)


def density(theta, data) -> ConditionalDensity:
    """Of the parameters, given the data."""
    return ConditionalDensity().fit(data, theta)


def _left_out(data: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every other one of the nearer half, as many as choose; and the rest."""
    scores = NormalScores.of(data)
    order = np.argsort(((scores(data) - scores(row)) ** 2).sum(axis=1), kind="stable")
    out = order[: len(order) // 2 : 2][:MOST_OUT]
    rest = np.setdiff1d(np.arange(len(data)), out)
    return out, rest[evenly(len(rest), MOST_IN)]

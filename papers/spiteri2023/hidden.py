"""Hidden Markov models 12 to 14: draws, the models compared, and their two errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

import kernelmean as km
from kernelmean.comparators import GaussianHMM, ProjHMM, matched_accuracy, tmse
from kernelmean.datasets import HMMData

PAPER = "Spiteri (2023)"
FIRST_SEED = 33000  # no choice in the code was made by looking at these seeds
RUNS = 10
TEST = 1000  # rows on which states are filtered
BASES = range(5, 21)  # numbers of cosines
HMMLEARN = 20_000  # most rows that EM with normal laws is given
MODELS = {
    "separated": "Model 12",
    "overlapping": "Model 13",
    "unbounded": "Model 14",
}
STATES = {"separated": 2, "overlapping": 3, "unbounded": 2}
TRUE, PROJECTION = "true filter", "ProjHMM"
METHODS = {  # and their colours, of Okabe and Ito
    TRUE: "black",
    "default": "#D55E00",
    "default, forward": "#E69F00",
    "spectral": "#0072B2",
    "spectral, forward": "#56B4E9",
    PROJECTION: "#009E73",
    "GaussianHMM": "#CC79A7",
}


def draw(seed: int, design: str, n: int, test: int = TEST) -> tuple[HMMData, HMMData]:
    """A sequence to learn from, and another one to filter."""
    data = km.datasets.make_hmm(design, n, random_state=seed)
    return data, data.model.sample(test, np.random.default_rng([seed, 1]))


def run(seed: int, design: str, n: int) -> list[dict]:
    """Both errors of every model; of ProjHMM for every number of cosines."""
    data, test = draw(seed, design, n)
    truth = test.model.filter(test.X)
    rows = [{"method": TRUE, "basis": 0, "accuracy": accuracy(truth, test.states), "tmse": 0.0}]
    for method, basis, model in fitted(data, seed):
        rows.append({"method": method, "basis": basis, **errors(model, data, test)})
    return rows


def fitted(data: HMMData, seed: int) -> Iterator[tuple[str, int, Any]]:
    """Every model as it comes, its name, and its number of cosines (0: it has none)."""
    K, X = data.model.n_states, data.X
    for name, refine in (("default", True), ("spectral", False)):
        model = km.KernelHMM(K, refine=refine, random_state=seed).fit(X)
        yield name, 0, model
        yield f"{name}, forward", 0, model.set_params(inference="forward")
    for basis in BASES:
        yield PROJECTION, basis, ProjHMM(K, n_basis=basis, random_state=seed).fit(X)
    if len(X) <= HMMLEARN:
        yield "GaussianHMM", 0, gaussian(K, X, seed)


def gaussian(K: int, X: np.ndarray, seed: int) -> GaussianHMM:
    """hmmlearn's; that EM ends where rounding does is no news."""
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    return GaussianHMM(K, random_state=seed).fit(X)


def errors(model: Any, data: HMMData, test: HMMData) -> dict[str, float]:
    """Accuracy of the filter (3.12), total squared error of π and Q (3.11)."""
    chain = data.model
    return {
        "accuracy": accuracy(model.filter(test.X), test.states),
        "tmse": tmse(chain.startprob, chain.transmat, model.startprob_, model.transmat_),
    }


def sizes_below(ax, sizes) -> None:
    """Ticks at the n that there are, on a logarithmic axis."""
    ax.set(xlabel="n", xscale="log")
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes], rotation=45, ha="right", minor=False)
    ax.set_xticks([], minor=True)


def accuracy(probabilities: np.ndarray, states: np.ndarray) -> float:
    """Share of the steps whose likeliest state is right, states numbered as suits best."""
    return matched_accuracy(states, probabilities.argmax(axis=1))

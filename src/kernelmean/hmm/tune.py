"""Choosing among fits of a `KernelHMM` by data held back, with or without the states in sight."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from ..chains import markov
from ..core import arrays
from ..core.checks import NumericalWarning, as_vector, check_count, check_lengths, check_positive
from ..core.progress import Verbose, track
from ..core.threads import one_thread

if TYPE_CHECKING:
    from .kernel_hmm import KernelHMM

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)


def tune(
    model: KernelHMM,
    X,
    X_val,
    states,
    lengths,
    lengths_val,
    scales,
    n_fits,
    n_jobs,
    verbose: Verbose,
) -> KernelHMM:
    """See `KernelHMM.tune`."""
    check_count(n_fits, "n_fits")
    factors = [check_positive(scale, "scales") for scale in scales]
    if not factors:
        raise ValueError("scales is empty; multiples of the lengthscale are needed")
    if states is not None:
        states = arrays.to_numpy(as_vector(states, "states"))
        check_lengths(len(X_val), len(states), "X_val", "states")
    kernel = model._draft(X, lengths).kernel
    if kernel.scaled(2.0) == kernel:
        factors = [1.0]  # there is no lengthscale
    seeds = np.random.SeedSequence(_entropy(model.random_state)).generate_state(n_fits)
    grid = [(scale, int(seed)) for scale in factors for seed in seeds]
    jobs = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_candidate)(
            model, kernel.scaled(scale), seed, X, lengths, X_val, lengths_val, states
        )
        for scale, seed in grid
    )
    found = list(track(jobs, total=len(grid), description="fits", verbose=verbose))
    best = max(range(len(grid)), key=lambda i: found[i][1])
    name = "mse" if states is None else "accuracy"
    tuned = found[best][0]
    tuned.tuning_ = [
        {"scale": scale, "random_state": seed, name: abs(score)}
        for (scale, seed), (_, score) in zip(grid, found, strict=True)
    ]
    if states is not None:
        order = matched(
            states,
            arrays.to_numpy(tuned.filter(X_val, lengths_val)).argmax(axis=1),
            tuned.n_components_,
        )[0]
        tuned._renumber(order)
    return tuned


def _entropy(random_state: Any) -> int | None:
    if random_state is None:
        return None
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(np.random.default_rng(random_state).integers(2**31))


def _candidate(
    model: KernelHMM, kernel, seed: int, X, lengths, X_val, lengths_val, states
) -> tuple[KernelHMM, float]:
    """A fit, and how well it does on the data held back: the larger the better."""
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # troubles are seen in the score
        fitted = clone(model).set_params(kernel=kernel, random_state=seed).fit(X, lengths)
        if states is None:
            return fitted, -prediction_error(fitted, X_val, lengths_val)
        found = arrays.to_numpy(fitted.filter(X_val, lengths_val)).argmax(axis=1)
        return fitted, matched(states, found, fitted.n_components_)[1]


def prediction_error(model: KernelHMM, X, lengths) -> float:
    """Mean of ‖y_t − E[y_t | y_1, ..., y_{t-1}]‖² over the rows that are there."""
    points, seen, sequences = model._given(X, lengths)
    alpha, _ = model._filtered(points, seen, sequences)
    p = markov.predicted(alpha, model._chain, sequences)
    means = arrays.to_numpy(model.emissions_.mean())
    off = (arrays.to_numpy(points) - p @ means)[seen]
    return float((off * off).sum(axis=1).mean())


def matched(states: np.ndarray, found: np.ndarray, K: int) -> tuple[np.ndarray, float]:
    """Which of the model's states is each label, in order of the labels, and the accuracy.

    States that no label is left for come last.
    """
    labels, rows = np.unique(states, return_inverse=True)
    counts = np.zeros((len(labels), K))
    np.add.at(counts, (rows, found), 1)
    label, state = linear_sum_assignment(counts, maximize=True)
    rest = np.setdiff1d(np.arange(K), state)
    return np.concatenate([state, rest]), float(counts[label, state].sum() / len(states))

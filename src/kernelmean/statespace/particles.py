"""Particle filters: state-space models by weighted draws of the state, many sequences at a time.

A model needs only draws and emission densities (`StateSpace`), so it may be a simulator, or laws
recovered from embeddings (`RecoveredModel`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..chains import markov
from ..core.checks import as_levels, check_count

ENOUGH = 0.5  # share of effective particles below which they are resampled


class StateSpace(Protocol):
    """x_1 ~ π, x_{t+1} ~ M(x_t, ·), y_t ~ O(x_t, ·): what filters ask of a model.

    Rows are points: of the state, (N, d_x), and of observations, (m, d_y).
    """

    def draw_first(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n states from π, (n, d_x)."""

    def draw_next(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One next state of every row of `x`, (N, d_x)."""

    def log_emission(self, Y: np.ndarray, x: np.ndarray) -> np.ndarray:
        """log p(y_i | x_j), (m, N)."""

    def draw_emission(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One observation of every row of `x`, (N, d_y)."""

    def mean_emission(self, x: np.ndarray) -> np.ndarray:
        """E[y | x] of every row of `x`, (N, d_y)."""


# ------------------------------------------------------------ filtering


@dataclass(frozen=True)
class ParticleResult:
    """What a particle filter says about every row, before and after seeing it.

    Attributes
    ----------
    mean : array of shape (n, d_y)
        E[y_t | y_1, ..., y_{t-1}].
    loglik : array of shape (n,)
        log p(y_t | y_1, ..., y_{t-1}): 0 where y_t is missing, -inf where no particle explains it.
    ess : array of shape (n,)
        Effective number of particles, 1/Σw², after y_t.
    state_mean, state_variance : arrays of shape (n, d_x)
        Of x_t given y_1, ..., y_t.
    degenerate : bool array of shape (n,)
        Whether no particle explains y_t, which then says nothing: weights stay what they were.
    particles : array of shape (n, N, d_x) or None
        Where the particles of every row are; None unless they were to be kept.
    prior, weights : arrays of shape (n, N) or None
        Of the particles, before and after y_t.
    """

    mean: np.ndarray
    loglik: np.ndarray
    ess: np.ndarray
    state_mean: np.ndarray
    state_variance: np.ndarray
    degenerate: np.ndarray
    particles: np.ndarray | None = None
    prior: np.ndarray | None = None
    weights: np.ndarray | None = None


def bootstrap(
    model: StateSpace,
    Y: np.ndarray,
    seen: np.ndarray,
    sequences: list[slice],
    n_particles: int,
    rng: np.random.Generator,
    keep: bool = False,
) -> ParticleResult:
    """x_t,i ~ M(x_{t-1,i}, ·), w_t,i ∝ w_{t-1,i} p(y_t | x_t,i): the bootstrap filter.

    Particles are resampled systematically, before they move, where fewer than half of them are
    effective. All sequences take a step at the same time.

    Parameters
    ----------
    model : StateSpace
    Y : array of shape (n, d_y)
    seen : bool array of shape (n,)
        Rows that are not missing; others are only predicted.
    sequences : list of slice
        Rows of each sequence.
    n_particles : int
        N, of each sequence.
    rng : numpy Generator
    keep : bool
        Keep particles and weights of all rows, n N (d_x + 2) numbers.

    Returns
    -------
    ParticleResult

    References
    ----------
    Gordon, Salmond, Smith (1993); Chopin, Papaspiliopoulos (2020), An introduction to sequential
    Monte Carlo, Algorithm 10.3; Spiteri (2023), section 4.5.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelmean as km
    >>> from kernelmean.statespace.particles import bootstrap
    >>> data = km.datasets.make_state_space("linear", 50, random_state=0)
    >>> seen, whole = np.ones(50, dtype=bool), [slice(0, 50)]
    >>> found = bootstrap(data.model, data.X, seen, whole, 2000, np.random.default_rng(0))
    >>> bool(abs(found.mean - data.model.predict(data.X)).max() < 0.3)  # the exact filter
    True
    """
    check_count(n_particles, "n_particles")
    steps = list(_steps(sequences))
    x, weights = np.empty((0, n_particles, 0)), np.empty((0, n_particles))
    found: list[tuple] = []
    for rows in steps:
        if found:
            x, prior = _resampled(x[: len(rows)], weights[: len(rows)], rng)
            x = _each(lambda x: model.draw_next(x, rng), x)
        else:
            x = model.draw_first(len(rows) * n_particles, rng).reshape(len(rows), n_particles, -1)
            prior = np.full(x.shape[:2], 1 / n_particles)
        mean = _average(prior, _each(model.mean_emission, x))
        weights, loglik, lost = _updated(model, Y[rows], seen[rows], x, prior)
        centre = _average(weights, x)
        spread = _average(weights, (x - centre[:, None]) ** 2)
        law = (mean, loglik, _effective(weights), centre, spread, lost)
        found.append((*law, x, prior, weights) if keep else law)
    back = np.argsort(np.concatenate(steps))
    return ParticleResult(*(np.concatenate(parts)[back] for parts in zip(*found, strict=True)))


def _steps(sequences: list[slice]) -> Iterator[np.ndarray]:
    """Row numbers that are met at the same time, those of longer sequences first."""
    starts, lengths = np.array([(s.start, s.stop - s.start) for s in sequences]).T
    order = np.argsort(-lengths, kind="stable")
    for t in range(lengths.max()):
        yield starts[order][lengths[order] > t] + t


def _each(function: Callable, x: np.ndarray) -> np.ndarray:
    """A function of points (N, d) of all particles of all sequences, (S, N, ...)."""
    return function(x.reshape(-1, x.shape[2])).reshape(*x.shape[:2], -1)


def _average(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Σ_i w_i v_i of each sequence, (S, d)."""
    return (weights[:, None] @ values)[:, 0]


def _effective(weights: np.ndarray) -> np.ndarray:
    """1/Σw²."""
    return 1.0 / (weights**2).sum(axis=1)


def _updated(model: StateSpace, Y, seen, x, prior) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights after y_t, its log-likelihood, and whether no particle explains it."""
    logs = np.zeros(prior.shape)
    for s in np.flatnonzero(seen):  # each observation meets the particles of its own sequence
        logs[s] = model.log_emission(Y[s : s + 1], x[s])[0]
    logs[np.isnan(logs)] = -np.inf
    weights, loglik = markov.posterior_in_logs(prior, logs)
    return weights, np.where(seen, loglik, 0.0), np.isneginf(loglik)


# ------------------------------------------------------------ resampling


def systematic(weights: np.ndarray, u: np.ndarray) -> np.ndarray:
    """A_j = min{i : w_1 + ... + w_i > (j + u)/N}, j = 0, ..., N − 1: even draws by their weights.

    Particle i is taken ⌊N w_i⌋ or ⌈N w_i⌉ times, N w_i times on average.

    Parameters
    ----------
    weights : array of shape (S, N)
        Laws, whose rows sum to one up to rounding.
    u : array of shape (S,)
        Uniform on [0, 1).

    Returns
    -------
    int array of shape (S, N)
        Numbers of the particles taken, in increasing order.

    References
    ----------
    Carpenter, Clifford, Fearnhead (1999), Improved particle filter for nonlinear problems.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.statespace.particles import systematic
    >>> systematic(np.array([[0.5, 0.0, 0.3, 0.2]]), np.array([0.1]))
    array([[0, 0, 2, 2]])
    """
    N = weights.shape[1]
    upto = np.cumsum(weights, axis=1)
    upto /= upto[:, -1:]
    taken = np.ceil(N * upto - u[:, None]).astype(int)
    taken[upto >= 1.0] = N  # where N − u rounds to N − 1
    counts = np.diff(taken, axis=1, prepend=0)
    return np.repeat(np.tile(np.arange(N), len(weights)), counts.ravel()).reshape(weights.shape)


def _resampled(x: np.ndarray, weights: np.ndarray, rng) -> tuple[np.ndarray, np.ndarray]:
    """Particles and weights, equal weights where too few of the particles were effective."""
    x, weights, N = x.copy(), weights.copy(), weights.shape[1]
    few = np.flatnonzero(_effective(weights) < ENOUGH * N)
    taken = systematic(weights[few], rng.random(len(few)))
    x[few] = np.take_along_axis(x[few], taken[:, :, None], axis=1)
    weights[few] = 1 / N
    return x, weights


# ------------------------------------------------------------ forecasts


def forecast_quantile(
    model: StateSpace, result: ParticleResult, q, rng: np.random.Generator
) -> np.ndarray:
    """Quantiles of every y_t given y_1, ..., y_{t-1}: those of weighted draws y_t,i ~ O(x_t,i, ·).

    Parameters
    ----------
    model : StateSpace
    result : ParticleResult
        With the particles kept.
    q : float or sequence of float
        Levels.
    rng : numpy Generator

    Returns
    -------
    array of shape (n, d_y), or (n, k, d_y) for k levels

    Examples
    --------
    >>> import numpy as np
    >>> import kernelmean as km
    >>> from kernelmean.statespace.particles import bootstrap, forecast_quantile
    >>> data = km.datasets.make_state_space("linear", 200, random_state=0)
    >>> rng = np.random.default_rng(0)
    >>> seen, whole = np.ones(200, dtype=bool), [slice(0, 200)]
    >>> found = bootstrap(data.model, data.X, seen, whole, 1000, rng, keep=True)
    >>> ends = forecast_quantile(data.model, found, [0.05, 0.95], rng)
    >>> bool(abs(((ends[:, 0] <= data.X) & (data.X <= ends[:, 1])).mean() - 0.9) < 0.05)
    True
    """
    if result.particles is None or result.prior is None:
        raise ValueError("result has no particles; bootstrap(..., keep=True) is needed")
    levels = as_levels(q)
    draws = _each(lambda x: model.draw_emission(x, rng), result.particles)
    weights = np.broadcast_to(result.prior[:, :, None], draws.shape)
    found = np.quantile(draws, levels, axis=1, weights=weights, method="inverted_cdf")
    return np.moveaxis(found, 0, 1) if levels.ndim else found

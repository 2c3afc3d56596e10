"""Particle filters: state-space models by weighted draws of the state, many sequences at a time.

A model needs only draws and emission densities (`StateSpace`), so it may be a simulator, or laws
recovered from embeddings (`RecoveredModel`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from . import markov, positive, recovery
from ._validation import as_levels, check_count, check_positive, generator
from .embedding import MeanEmbedding

ENOUGH = 0.5  # share of effective particles below which they are resampled
CELLS = 8  # to a bandwidth: log-densities to a few 1e-4


class StateSpace(Protocol):
    """x_1 ~ π, x_{t+1} ~ M(x_t, ·), y_t ~ O(x_t, ·): what filters ask of a model.

    Rows are points: of the state, (N, d_x), and of observations, (m, d_y).
    """

    def draw_first(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n states from π, (n, d_x)."""
        ...

    def draw_next(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One next state of every row of `x`, (N, d_x)."""
        ...

    def log_emission(self, Y: np.ndarray, x: np.ndarray) -> np.ndarray:
        """log p(y_i | x_j), (m, N)."""
        ...

    def draw_emission(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One observation of every row of `x`, (N, d_y)."""
        ...

    def mean_emission(self, x: np.ndarray) -> np.ndarray:
        """E[y | x] of every row of `x`, (N, d_y)."""
        ...


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
    >>> from kernelmean.particlefilter import bootstrap
    >>> data = km.datasets.make_state_space("linear", 50, random_state=0)
    >>> seen, whole = np.ones(50, dtype=bool), [slice(0, 50)]
    >>> found = bootstrap(data.model, data.X, seen, whole, 2000, np.random.default_rng(0))
    >>> bool(abs(found.mean - data.model.predict(data.X)).max() < 0.3)  # the exact filter
    True
    """
    check_count(n_particles, "n_particles")
    steps = list(_steps(sequences))
    x = np.empty((0, n_particles, 0))
    weights = np.empty((0, n_particles))
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
        law = (mean, loglik, _effective(weights), *_moments(weights, x), lost)
        found.append((*law, x, prior, weights) if keep else law)
    return ParticleResult(*(_in_place(steps, parts) for parts in zip(*found, strict=True)))


def _steps(sequences: list[slice]) -> Iterator[np.ndarray]:
    """Row numbers that are met at the same time, those of longer sequences first."""
    starts, lengths = np.array([(s.start, s.stop - s.start) for s in sequences]).T
    order = np.argsort(-lengths, kind="stable")
    for t in range(lengths.max()):
        yield starts[order][lengths[order] > t] + t


def _in_place(steps: list[np.ndarray], parts: Sequence[np.ndarray]) -> np.ndarray:
    """Answers for the rows of each step, in the order of rows."""
    return np.concatenate(parts)[np.argsort(np.concatenate(steps))]


def _each(function: Callable, x: np.ndarray) -> np.ndarray:
    """A function of points (N, d) of all particles of all sequences, (S, N, ...)."""
    return function(x.reshape(-1, x.shape[2])).reshape(*x.shape[:2], -1)


def _average(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Σ_i w_i v_i of each sequence, (S, d)."""
    return (weights[:, None] @ values)[:, 0]


def _moments(weights: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = _average(weights, x)
    return mean, _average(weights, (x - mean[:, None]) ** 2)


def _effective(weights: np.ndarray) -> np.ndarray:
    """1/Σw²."""
    return 1.0 / (weights**2).sum(axis=1)


def _updated(model: StateSpace, Y, seen, x, prior) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights after y_t, its log-likelihood, and whether no particle explains it."""
    logs = np.zeros(prior.shape)
    for s in np.flatnonzero(seen):  # each observation meets the particles of its own sequence
        logs[s] = model.log_emission(Y[s : s + 1], x[s])[0]
    logs[np.isnan(logs)] = -np.inf
    weights, loglik = markov._posterior_in_logs(prior, logs)
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
    >>> from kernelmean.particlefilter import systematic
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
    >>> from kernelmean.particlefilter import bootstrap, forecast_quantile
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
    found = _weighted_quantiles(draws, result.prior, np.atleast_1d(levels))
    return found[:, 0] if levels.ndim == 0 else found


def _weighted_quantiles(draws: np.ndarray, weights: np.ndarray, levels) -> np.ndarray:
    """The first of the draws (n, N, d), by size, up to which weights come to q: (n, k, d)."""
    order = np.argsort(draws, axis=1)
    upto = np.cumsum(np.take_along_axis(weights[:, :, None], order, axis=1), axis=1)
    upto /= upto[:, -1:]
    at = np.stack([(upto < q).sum(axis=1) for q in levels], axis=1)
    return np.take_along_axis(np.take_along_axis(draws, order, axis=1), at, axis=1)


def ahead(
    model: StateSpace, x: np.ndarray, weights: np.ndarray, steps: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """x_{t+h} ~ M(x_{t+h-1}, ·), y_{t+h} ~ O(x_{t+h}, ·), h = 1, ..., steps: draws of the future.

    Parameters
    ----------
    model : StateSpace
    x : array of shape (N, d_x)
        Particles of the last row.
    weights : array of shape (N,)
        After its observation.
    steps : int
    rng : numpy Generator

    Returns
    -------
    states : array of shape (steps, N, d_x)
        Of equal weight. Means of `model.mean_emission` there vary less than those of draws.
    observations : array of shape (steps, N, d_y)

    Examples
    --------
    >>> import numpy as np
    >>> import kernelmean as km
    >>> from kernelmean.particlefilter import ahead
    >>> model = km.datasets.make_state_space("linear", 2, random_state=0).model
    >>> start, equal = np.full((4000, 1), 2.0), np.full(4000, 1 / 4000)
    >>> states, observations = ahead(model, start, equal, 3, np.random.default_rng(0))
    >>> observations.shape, states.mean(axis=1)[:, 0].round(1)  # 2 · 0.95^h
    ((3, 4000, 1), array([1.9, 1.8, 1.7]))
    """
    check_count(steps, "steps")
    x = x[systematic(weights[None], rng.random(1))[0]]
    states = []
    for _ in range(steps):
        x = model.draw_next(x, rng)
        states.append(x)
    return np.stack(states), np.stack([model.draw_emission(x, rng) for x in states])


# ------------------------------------------------------------ models recovered from embeddings


@dataclass(frozen=True)
class RecoveredModel:
    """M(x, ·) ∝ max(Σ_j w̃_j(x) k̄(x_j, ·), 0), O(x, ·) ∝ max(Σ_i w_i(x) k̄(y_i, ·), 0).

    Weights may have both signs: densities are positive parts, made to integrate to one, and draws
    are by rejection, from the positive weights.

    Attributes
    ----------
    stationary : MeanEmbedding
        Nodes and their weights: the law of the states.
    transition : callable
        Maps states (N, d_x) to a batch of N embeddings of the next state, of any points.
    emission : callable
        Maps states (N, d_x) to a batch of N embeddings of the observation.
    bandwidths : tuple of float
        γ of the densities of states and of observations.

    Notes
    -----
    A draw q⁺ of the positive weights, of total W, is kept with probability max(q, 0)/(W q⁺); the
    thesis prints the inverse. `mean_emission` is the mean of the embedding itself, Σ_i w_i(x) y_i:
    it takes no density.

    References
    ----------
    Spiteri (2023), sections 4.4.5 and 4.5, Lemma 4.7; MATH §8, §12.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelmean as km
    >>> from kernelmean.particlefilter import RecoveredModel
    >>> data = km.datasets.make_state_space("linear", 400, random_state=0)
    >>> move = km.ConditionalEmbedding().fit(data.states[:-1], data.states[1:])
    >>> emit = km.ConditionalEmbedding().fit(data.states, data.X)
    >>> model = RecoveredModel(km.MeanEmbedding(data.states), move.at, emit.at, (0.3, 0.3))
    >>> x = np.full((500, 1), 1.0)
    >>> bool(abs(model.draw_next(x, np.random.default_rng(0)).mean() - 0.95) < 0.3)
    True
    """

    stationary: MeanEmbedding
    transition: Callable[[np.ndarray], MeanEmbedding]
    emission: Callable[[np.ndarray], MeanEmbedding]
    bandwidths: tuple[float, float]

    def __post_init__(self):
        for width, name in zip(self.bandwidths, ("states", "observations"), strict=True):
            check_positive(width, f"bandwidths, of {name},")

    def draw_first(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n states: a step from nodes, drawn by their weights, (n, d_x)."""
        chances = np.maximum(self.stationary.weights, 0.0)
        rows = rng.choice(len(chances), size=n, p=chances / chances.sum())
        return self.draw_next(self.stationary.points[rows], rng)

    def draw_next(self, x, rng: np.random.Generator) -> np.ndarray:
        """One next state of every row of `x`, (N, d_x)."""
        return _one_of_each(self.transition(x).normalised(), self.bandwidths[0], rng)

    def draw_emission(self, x, rng: np.random.Generator) -> np.ndarray:
        """One observation of every row of `x`, (N, d_y)."""
        return _one_of_each(self.emission(x).normalised(), self.bandwidths[1], rng)

    def log_emission(self, Y, x) -> np.ndarray:
        """log p(y_i | x_j), (m, N)."""
        return _log_densities(self.emission(x).normalised(), Y, self.bandwidths[1]).T

    def mean_emission(self, x) -> np.ndarray:
        """E[y | x] of every row of `x`, (N, d_y)."""
        return self.emission(x).normalised().mean()


def _log_densities(m: MeanEmbedding, Y, bandwidth: float) -> np.ndarray:
    """`recovery.log_density` of a batch that is met once: tables would cost ten times as much."""
    if not (positive.is_signed(m) and positive.has_line(m)):
        return recovery.log_density(m, Y, bandwidth)
    with np.errstate(divide="ignore"):
        log_height = np.log(np.maximum(m.density(Y, bandwidth, signed=True), 0.0))
    return log_height - np.log1p(_negative_mass(m, bandwidth))[:, None]


def _negative_mass(m: MeanEmbedding, bandwidth: float) -> np.ndarray:
    """∫ max(−q, 0) of each member on the line: a sum over nodes, `CELLS` to a bandwidth."""
    nodes, widths = positive._even_nodes(
        np.sort(m.points[:, 0]), m.kernel._bandwidth(bandwidth), CELLS, 0.5
    )
    return np.maximum(-m.density(nodes[:, None], bandwidth, signed=True), 0.0) @ widths


def _one_of_each(m: MeanEmbedding, bandwidth: float, rng) -> np.ndarray:
    """One draw from each member of a batch: one proposal at a time for those that lack it."""
    m, kernel = positive.members(m), m.kernel._bandwidth(bandwidth)
    return np.concatenate([_accepted(m.points, w, kernel, rng) for w in positive.weight_blocks(m)])


def _accepted(points: np.ndarray, weights: np.ndarray, kernel, rng) -> np.ndarray:
    # `positive.rejection` proposes a dozen for each draw, which pays if many are wanted of each
    drawn, lacking = np.empty((len(weights), 1, points.shape[1])), np.arange(len(weights))
    for _ in range(positive.PROPOSALS):
        proposed = positive._propose(points, weights[lacking], kernel, 1, rng)
        chance = positive._chance(points, weights[lacking], kernel, proposed)[:, 0]
        kept = rng.random(len(lacking)) < chance
        drawn[lacking[kept]] = proposed[kept]
        lacking = lacking[~kept]
        if not len(lacking):
            break
    have = np.ones(len(weights), dtype=int)
    have[lacking] = 0
    return positive._complete(drawn, have, lacking, points, weights, kernel, rng)[:, 0]


# ------------------------------------------------------------ the package `particles`


def as_particles_model(model: StateSpace, random_state: Any = None) -> Any:
    """The same model for the package `particles`: a StateSpaceModel with laws PX0, PX and PY.

    Its algorithms that draw states but need no transition density run on it, as bootstrap filters
    and smoothing by genealogies do.

    Parameters
    ----------
    model : StateSpace
    random_state : int, Generator or None
        For what the model draws. The package itself resamples by NumPy's global generator.

    Returns
    -------
    particles.state_space_models.StateSpaceModel
        States and observations of one column are arrays of shape (N,), as usual there. A row of
        data that holds NaN is missing.

    Raises
    ------
    ImportError
        If the package is missing.

    References
    ----------
    Chopin, Papaspiliopoulos (2020), An introduction to sequential Monte Carlo.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import kernelmean as km
    >>> from kernelmean.particlefilter import as_particles_model
    >>> data = km.datasets.make_state_space("linear", 20, random_state=0)
    >>> if find_spec("particles"):
    ...     import particles
    ...     from particles.state_space_models import Bootstrap
    ...
    ...     law = Bootstrap(ssm=as_particles_model(data.model, 0), data=data.X)
    ...     run = particles.SMC(fk=law, N=1000)
    ...     run.run()
    ...     assert abs(run.logLt - data.model.log_predictive(data.X).sum()) < 1
    """
    try:
        from particles.distributions import ProbDist
        from particles.state_space_models import StateSpaceModel
    except ImportError as err:
        raise ImportError(
            "as_particles_model needs particles: pip install --no-deps particles, and numba and "
            "joblib (particles 0.4 asks for numpy 1, but runs on numpy 2)"
        ) from err
    rng = generator(random_state)
    first = model.draw_first(1, np.random.default_rng(0))
    d_x, d_y = first.shape[1], model.mean_emission(first).shape[1]

    class Law(ProbDist):
        def __init__(self, dim, draw, log_density=None):
            self.dim, self._draw, self._log_density = dim, draw, log_density

        def rvs(self, size=None):
            drawn = self._draw(1 if size is None else size)
            return drawn[:, 0] if self.dim == 1 else drawn

        def logpdf(self, x):
            return super().logpdf(x) if self._log_density is None else self._log_density(x)

    class Model(StateSpaceModel):
        def PX0(self):
            return Law(d_x, lambda n: model.draw_first(n, rng))

        def PX(self, t, xp):
            xp = np.reshape(xp, (-1, d_x))
            return Law(d_x, lambda n: model.draw_next(_repeated(xp, n), rng))

        def PY(self, t, xp, x):
            x = np.reshape(x, (-1, d_x))
            return Law(
                d_y,
                lambda n: model.draw_emission(_repeated(x, n), rng),
                lambda y: _log_density(model, np.reshape(y, (1, d_y)), x),
            )

    return Model()


def _repeated(x: np.ndarray, n: int) -> np.ndarray:
    """The law of one state is drawn from n times, those of n states once each."""
    return np.broadcast_to(x, (n, x.shape[1]))


def _log_density(model: StateSpace, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """log p(y | x_j), 0 where y is missing."""
    return np.zeros(len(x)) if np.isnan(y).any() else model.log_emission(y, x)[0]

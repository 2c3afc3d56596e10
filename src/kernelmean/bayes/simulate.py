"""Likelihood-free inference: a posterior from a prior to draw from and a simulator to run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.base import clone

from ..core import arrays, checks
from ..core.parameters import called
from ..core.progress import Verbose, in_processes
from ..core.threads import one_thread
from ..densities import ConditionalDensity
from ..densities.laws import MovedLaws
from ..embedding.embedding import MeanEmbedding
from ..kernels import Gaussian, as_kernel
from ..regression.conditional import ConditionalEmbedding
from ..regression.support import Support
from .adjustment import Adjustment
from .fit import REACH
from .kernel_bayes import KernelBayes
from .scores import NormalScores
from .truncation import Box, Draws, draw_inside
from .ways import best

METHODS: dict[str, type] = {
    "density": ConditionalDensity,
    "conditional": ConditionalEmbedding,
    "bayes": KernelBayes,
}

LEAST = 20  # simulations in a round
ROUNDS, FIRST = 4, 100  # rounds where none are asked for, if each has so many simulations
PRIOR = 10_000  # draws that its normal scores are learned from
DRAWS = 2000  # that show where a posterior lies


@one_thread()
def simulate_posterior(
    prior_sampler: Callable,
    simulator: Callable,
    observed,
    n: int = 2000,
    *,
    method: str | None = None,
    model=None,
    ratio: Callable | None = None,
    rounds: int | None = None,
    batch_size: int | None = None,
    n_jobs: int = 1,
    random_state=None,
    verbose: Verbose = False,
) -> MeanEmbedding | MovedLaws:
    """Posterior of a simulator's parameters given observed data, without a likelihood.

    Draws parameters from the prior, runs the simulator on each, and conditions the pairs, which
    are draws of the joint law, on the observed data: p(θ | x) ∝ Σ_j w_j(x) k̄_γ(θ_j, θ).

    - None, for one data set and n ≥ 400: in rounds, the last in the way that gives the parameters
      of simulations left out before, near the data, the highest log densities: by regression
      adjustment, in normal scores of parameters (by the prior) and data: of the means of the
      parameters and of their squares as the data say them, local lines and local scales; of at most
      three numbers and five parameters by a likelihood, which is a conditional density of the data
      given the parameters, at draws of the prior; of more numbers by "density", where lines do no
      good; or, with a warning, by the nearest simulations as they are. Otherwise it is "density".
    - `method="density"`: as a conditional density. Lengthscales, λ and the bandwidth γ are those
      with the least closed-form score, so that every answer is at the posterior's own scale.
    - `method="conditional"`: as a conditional mean embedding, tuned for posterior expectations.
    - `method="bayes"`: by kernel Bayes' rule, with a second sample of the prior.

    Parameters
    ----------
    prior_sampler : callable
        `prior_sampler(n, rng)` returns n parameters, shape (n,) or (n, p).
    simulator : callable
        `simulator(theta, rng)` returns the data (or summaries of them), shape (q,), for one
        parameter of shape (p,); with `batch_size`, (b, q) for parameters (b, p).
    observed : array of shape (q,) or (batch, q)
        One data set gives a single embedding, rows give a batch.
    n : int
        Number of simulations.
    method : {"density", "conditional", "bayes"}, optional
        None is that of the model given, or else as above.
    model : ConditionalDensity, ConditionalEmbedding or KernelBayes, optional
        Unfitted; None is `ConditionalDensity()`, or, with one lengthscale per column of the data,
        `ConditionalEmbedding`, scaled by leave-one-out, or `KernelBayes`, at its medians.
    ratio : callable, optional
        Of the prior meant to the one that `prior_sampler` draws from: maps parameters (n, p) to
        (n,), up to a constant. The posterior is multiplied by it.
    rounds : int, optional
        The n simulations are made in so many parts. After each, the prior is cut to a box around
        where the posterior so far is, twice as far from the median as all but a hundredth of it, or
        around each of its parts; what was simulated outside is left out. For one data set. None is
        4 where no method is given, looked at by adjustment, before the last one in the way that is
        then best, and otherwise 1.
    batch_size : int, optional
        Parameters per simulator call, for simulators written over arrays.
    n_jobs : int
        Processes to simulate in, by joblib (-1: all cores). The answer does not depend on it.
    random_state : int, Generator, RandomState or None
    verbose : bool or callable
        Progress of the simulations; True also says which way was best, and by how much.

    Returns
    -------
    MeanEmbedding or MovedLaws
        On the simulated parameters, on these moved to the observed data, on further draws of the
        prior (a likelihood), or, where a location explains much of them, on residuals; all have
        the bandwidth of the densities.

    References
    ----------
    Fukumizu, Song, Gretton (2013), section 4.4; Beaumont, Zhang, Balding (2002), Approximate
    Bayesian computation in population genetics (parameters moved by regression); Blum,
    François (2010); Deistler, Gonçalves, Macke (2022), Truncated proposals; MATH §3, §8.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> posterior = km.simulate_posterior(
    ...     lambda n, rng: rng.normal(0, 1, n),  # the prior of a mean
    ...     lambda mean, rng: rng.normal(mean[0], 1, 10).mean(keepdims=True),
    ...     observed=[1.0],
    ...     random_state=0,
    ... )
    >>> posterior.mean().round(1)  # exactly 10/11
    array([0.9])
    """
    model, given = _model(method, model), method is not None or model is not None
    observed = checks.as_floats(observed, "observed")
    one = observed.ndim < 2
    rows = checks.as_points(observed.reshape(1, -1) if one else observed, "observed")
    n = checks.check_count(n, "n", minimum=5)
    asked = None if rounds is None else _check_rounds(rounds, model, observed, n)
    open_ = one and not given and n >= FIRST * (asked or ROUNDS)
    for name, f in (("prior_sampler", prior_sampler), ("simulator", simulator)):
        called(f, name)
    rng = checks.generator(random_state)
    source = Source(prior_sampler, simulator, batch_size, n_jobs, rng, verbose)
    parts = np.array_split(np.arange(n), asked or (ROUNDS if open_ else 1))
    first, *later = map(len, parts)
    theta, data = source.pairs(source.parameters(first))
    _check_data(data, rows)
    learn: Callable[..., MeanEmbedding | MovedLaws] = partial(_by_model, model, source, rows)
    box, larger, way = None, 1.0, None
    if open_ or later:
        prior = NormalScores.of(source.parameters(PRIOR))

    def draw() -> Draws:
        return Draws.of(source.parameters, box, larger)

    def chosen() -> tuple:
        return best(prior, draw, theta, data, rows, verbose)

    for turn, count in enumerate(later, 1):
        if not open_:
            laws = learn(theta, data)
        elif turn < len(later):
            laws = Adjustment.of(prior, theta, data).at(rows)
        else:
            way, learned = chosen()
            laws = learned.at(rows)
        law = laws[0]  # with a bandwidth told, it leaves no share to a wide law
        drawn = arrays.to_numpy(law.sample(DRAWS, source.rng, law.bandwidth))
        box = Box.around(prior, drawn.reshape(DRAWS, -1))
        fresh, larger = draw_inside(source.parameters, box, count)
        kept = box.stretch(theta) <= larger
        pairs = zip((theta, data), source.pairs(fresh), strict=True)
        theta, data = (np.concatenate([old[kept], new]) for old, new in pairs)
    if open_:
        laws = (way or chosen()[0])(theta, data).at(rows)
    else:
        laws = learn(theta, data)
    laws = laws if ratio is None else laws.tilted(ratio)
    return laws[0] if one else laws


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
        """The parameters with data (n, q) simulated from them.

        One generator per chunk, so that the answer is the same for any n_jobs.
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
        failed = np.flatnonzero(~np.isfinite(data).all(axis=1))
        if len(failed):
            raise ValueError(
                f"simulator(theta, rng) returned NaN or inf for {len(failed)} of {len(data)} "
                f"parameters, first for {theta[failed[0]].tolist()}; numbers are needed: a run "
                "that fails can return some and say so in one more"
            )
        return theta, checks.as_points(data, "simulator(theta, rng)")


def _by_model(model, source: Source, rows, theta, data) -> MeanEmbedding | MovedLaws:
    """The posterior at each row, or at the nearest not far from the data, by a fresh model."""
    model = clone(model).fit(data, theta)
    rows = Support.of(data).widened(REACH).nearest(rows, Gaussian())
    if isinstance(model, KernelBayes):
        return model.posterior(rows, prior=source.parameters(len(theta)))
    return model.at(rows)


def _check_data(data: np.ndarray, rows: np.ndarray) -> None:
    if not np.ptp(data, axis=0).any():
        raise ValueError(
            f"simulator(theta, rng) returned {data[0].tolist()} for each of {len(data)} "
            "parameters; data that depend on them are needed"
        )
    if rows.shape[1] != data.shape[1]:
        raise ValueError(
            f"observed has {rows.shape[1]} numbers but the simulator returns {data.shape[1]}"
        )


def _check_rounds(rounds, model, observed, n: int) -> int:
    rounds = checks.check_count(rounds, "rounds")
    if rounds > 1 and not (isinstance(model, ConditionalDensity) and observed.ndim < 2):
        raise ValueError(
            f"rounds is {rounds}; more than one need method='density' and one data set observed"
        )
    if rounds > 1 and n < LEAST * rounds:
        raise ValueError(
            f"n is {n} in {rounds} rounds; {LEAST} simulations or more each are needed"
        )
    return rounds


def _model(method: str | None, model):
    """A model of the kind that the method needs."""
    if method is None:
        method = next((m for m, kind in METHODS.items() if isinstance(model, kind)), "density")
    kind = METHODS[checks.check_choice(method, "method", METHODS)]
    if model is not None:
        if not isinstance(model, kind):
            raise ValueError(
                f"model is {type(model).__name__}; method={method!r} needs a {kind.__name__}"
            )
        return model
    kernel = as_kernel("gaussian", columnwise=True)
    if method == "conditional":
        return ConditionalEmbedding(kernel, tune_lengthscale=True, intercept=False)
    return KernelBayes(kernel_x=kernel) if method == "bayes" else ConditionalDensity()


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

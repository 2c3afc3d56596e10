"""Likelihood-free inference: a posterior from a prior to draw from and a simulator to run."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from sklearn.base import clone

from ..core import checks
from ..core.parameters import called
from ..core.progress import Verbose
from ..core.threads import one_thread
from ..densities import ConditionalDensity
from ..densities.laws import MovedLaws
from ..embedding.embedding import MeanEmbedding
from ..kernels import Gaussian, as_kernel
from ..regression.conditional import ConditionalEmbedding
from ..regression.support import Support
from .fit import REACH
from .kernel_bayes import KernelBayes
from .rounds import Simulated, Source
from .ways import ADJUSTED, WAYS, best

METHODS: dict[str, type] = {
    "density": ConditionalDensity,
    "conditional": ConditionalEmbedding,
    "bayes": KernelBayes,
}

LEAST = 20  # simulations in a round
ROUNDS, FIRST = 4, 100  # rounds where none are asked for, if each has so many simulations


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
        parameter of shape (p,); with `batch_size`, (b, q) for parameters (b, p). Runs that return
        NaN or inf are left out, with a warning; the posterior knows that what was observed ran.
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
    first, *later = map(len, np.array_split(np.arange(n), asked or (ROUNDS if open_ else 1)))
    known = Simulated.by(source, first)
    _check_data(known.data, rows)
    if isinstance(model, ConditionalDensity):
        _check_parameters(known.theta)
    if open_:
        laws = _in_the_best_way(known.scored(), later, rows, verbose)
    else:
        laws = _in_one_way(known, later, partial(_by_model, model, rows))
    laws = laws if ratio is None else laws.tilted(ratio)
    return laws[0] if one else laws


def _in_the_best_way(
    known: Simulated, counts: Sequence[int], rows: np.ndarray, verbose: Verbose
) -> MeanEmbedding | MovedLaws:
    """Rounds looked at by adjustment, the last one in the way that is then best, as all of them."""
    for count in counts[:-1]:
        known = known.near(WAYS[ADJUSTED](known).at(rows)[0], count)
    way, learned = best(known, rows, verbose)
    if counts:
        known = known.near(learned.at(rows)[0], counts[-1])
    return way(known).at(rows)


def _in_one_way(
    known: Simulated, counts: Sequence[int], learn: Callable[[Simulated], MeanEmbedding | MovedLaws]
) -> MeanEmbedding | MovedLaws:
    known = known.scored() if counts else known
    for count in counts:
        known = known.near(learn(known)[0], count)
    return learn(known)


def _by_model(model, rows: np.ndarray, known: Simulated) -> MeanEmbedding | MovedLaws:
    """The posterior at each row, or at the nearest not far from the data, by a fresh model."""
    model = clone(model).fit(known.data, known.theta)
    rows = Support.of(known.data).widened(REACH).nearest(rows, Gaussian())
    if isinstance(model, KernelBayes):
        again = known.source.parameters(len(known.theta)) if known.whole else known.theta
        return model.posterior(rows, prior=again)
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


def _check_parameters(theta: np.ndarray) -> None:
    still = np.flatnonzero(np.ptp(theta, axis=0) == 0).tolist()
    if still:
        raise ValueError(
            f"prior_sampler(n, rng): columns {still} are constant, and have no density; leave what "
            "is fixed to the simulator"
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

"""Likelihood-free inference: a posterior from a prior to draw from and a simulator to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from ..core.checks import as_floats, as_points, check_choice, check_count, check_lengths, generator
from ..core.progress import Verbose, track
from ..core.threads import at_one_thread
from ..densities import ConditionalDensity
from ..densities.laws import MovedLaws
from ..embedding.embedding import MeanEmbedding
from ..kernels import as_kernel
from ..regression.conditional import ConditionalEmbedding
from .kernel_bayes import KernelBayes
from .truncation import allowed, draw_within

METHODS: dict[str, type] = {
    "density": ConditionalDensity,
    "conditional": ConditionalEmbedding,
    "bayes": KernelBayes,
}

LEAST = 20  # simulations in a round


@at_one_thread
def simulate_posterior(
    prior_sampler: Callable,
    simulator: Callable,
    observed,
    n: int = 2000,
    *,
    method: str | None = None,
    model=None,
    ratio: Callable | None = None,
    rounds: int = 1,
    batch_size: int | None = None,
    n_jobs: int = 1,
    random_state=None,
    verbose: Verbose = False,
) -> MeanEmbedding | MovedLaws:
    """Posterior of a simulator's parameters given observed data, without a likelihood.

    Draws parameters from the prior, runs the simulator on each, and conditions the pairs, which
    are draws of the joint law, on the observed data: p(θ | x) ∝ Σ_j w_j(x) k̄_γ(θ_j, θ).

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
        None is that of the model given, or else "density".
    model : ConditionalDensity, ConditionalEmbedding or KernelBayes, optional
        Unfitted; None is `ConditionalDensity()`, or, with one lengthscale per column of the data,
        `ConditionalEmbedding`, scaled by leave-one-out, or `KernelBayes`, at its medians.
    ratio : callable, optional
        Of the prior meant to the one that `prior_sampler` draws from: maps parameters (n, p) to
        (n,), up to a constant. The posterior is multiplied by it.
    rounds : int
        The n simulations are made in so many parts. After each, the prior is cut to where the
        posterior so far is (all but a thousandth of it, smoothed twice as much); what was
        simulated outside is left out. For one data set, by densities.
    batch_size : int, optional
        Parameters per simulator call, for simulators written over arrays.
    n_jobs : int
        Processes to simulate in, by joblib (-1: all cores). The answer does not depend on it.
    random_state : int, Generator, RandomState or None
    verbose : bool or callable
        Progress of the simulations.

    Returns
    -------
    MeanEmbedding or MovedLaws
        On the simulated parameters, or, where a location explains much of them, on residuals
        moved to the observed data; both have the bandwidth of the densities.

    References
    ----------
    Fukumizu, Song, Gretton (2013), section 4.4; Beaumont, Zhang, Balding (2002), Approximate
    Bayesian computation in population genetics (parameters moved by regression); MATH §3, §8.

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
    model, observed = _model(method, model), as_floats(observed, "observed")
    rows = as_points(observed if observed.ndim > 1 else observed.reshape(1, -1), "observed")
    n = check_count(n, "n", minimum=5)
    rounds = _check_rounds(rounds, model, observed, n)
    for name, f in (("prior_sampler", prior_sampler), ("simulator", simulator)):
        _check_callable(f, name)
    rng = generator(random_state)
    source = Source(prior_sampler, simulator, batch_size, n_jobs, rng, verbose)
    first, *later = (len(part) for part in np.array_split(np.arange(n), rounds))
    theta, data = source.pairs(source.parameters(first))
    laws = _condition(model, theta, data, rows, source, ratio)
    for count in later:
        inside = allowed(laws[0], rng)
        kept = inside(theta)
        fresh = draw_within(source.parameters, inside, count)
        if len(fresh) < LEAST:
            break
        new = source.pairs(fresh)
        theta, data = (
            np.concatenate([a[kept], b]) for a, b in zip((theta, data), new, strict=True)
        )
        laws = _condition(model, theta, data, rows, source, ratio)
    return laws[0] if observed.ndim < 2 else laws


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
        theta = as_points(self.prior_sampler(n, self.rng), "prior_sampler(n, rng)")
        check_lengths(n, theta.shape[0], "n", "prior_sampler(n, rng)")
        return theta

    def pairs(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The parameters with data (n, q) simulated from them.

        One generator per chunk, so that the answer is the same for any n_jobs.
        """
        batched = self.batch_size is not None
        chunk = check_count(self.batch_size, "batch_size") if batched else 100
        starts = range(0, len(theta), chunk)
        jobs = [
            (self.simulator, theta[i : i + chunk], child, batched)
            for i, child in zip(starts, self.rng.spawn(len(starts)), strict=True)
        ]
        if self.n_jobs == 1:
            told = track(jobs, description="simulating", verbose=self.verbose)
            parts = [_run(*job) for job in told]
        else:
            from joblib import Parallel, delayed

            work = (delayed(_run)(*job) for job in jobs)
            found = Parallel(n_jobs=self.n_jobs, return_as="generator")(work)
            parts = list(track(found, len(jobs), "simulating", self.verbose))
        _check_widths(part.shape[1] for part in parts)
        return theta, as_points(np.concatenate(parts), "simulator(theta, rng)")


def _condition(model, theta, data, rows, source: Source, ratio) -> MeanEmbedding | MovedLaws:
    """The posterior at each row, by a fresh model of the pairs."""
    if rows.shape[1] != data.shape[1]:
        raise ValueError(
            f"observed has {rows.shape[1]} numbers but the simulator returns {data.shape[1]}"
        )
    model = clone(model).fit(data, theta)
    if isinstance(model, KernelBayes):
        laws = model.posterior(rows, prior=source.parameters(len(theta)))
    else:
        laws = model.at(rows)
    return laws if ratio is None else laws.tilted(ratio)


def _check_rounds(rounds, model, observed, n: int) -> int:
    rounds = check_count(rounds, "rounds")
    if rounds > 1 and not (isinstance(model, ConditionalDensity) and observed.ndim < 2):
        raise ValueError(
            f"rounds is {rounds}; more than one need method='density' and one data set observed"
        )
    if rounds > 1 and n < LEAST * rounds:
        raise ValueError(
            f"n is {n} in {rounds} rounds; {LEAST} simulations or more each are needed"
        )
    return rounds


def _check_callable(f, name: str) -> None:
    if not callable(f):
        raise ValueError(f"{name} is {f!r}; a function is needed")


def _model(method: str | None, model):
    """A model of the kind that the method needs."""
    if method is None:
        method = next((m for m, kind in METHODS.items() if isinstance(model, kind)), "density")
    kind = METHODS[check_choice(method, "method", METHODS)]
    if model is not None:
        if not isinstance(model, kind):
            raise ValueError(
                f"model is {type(model).__name__}; method={method!r} needs a {kind.__name__}"
            )
        return model
    kernel = as_kernel("gaussian", columnwise=True)
    if method == "conditional":
        return ConditionalEmbedding(kernel, "gaussian", tune_lengthscale=True)
    return KernelBayes(kernel_x=kernel) if method == "bayes" else ConditionalDensity()


def _run(simulator: Callable, theta: np.ndarray, rng, batched: bool) -> np.ndarray:
    """Data of one chunk, (b, q)."""
    if batched:
        data = as_floats(simulator(theta, rng), "simulator(theta, rng)")
        if data.ndim not in (1, 2) or data.shape[0] != len(theta):
            raise ValueError(
                f"simulator(theta, rng) returned shape {data.shape} for {len(theta)} parameters; "
                f"({len(theta)}, q) is needed"
            )
        return data.reshape(len(theta), -1)
    rows = [np.atleast_1d(as_floats(simulator(t, rng), "simulator(theta, rng)")) for t in theta]
    if any(row.ndim > 1 for row in rows):
        raise ValueError(
            f"simulator(theta, rng) returned shape {rows[0].shape} for one parameter; (q,) is "
            "needed (or give batch_size)"
        )
    _check_widths(len(row) for row in rows)
    return np.stack(rows)


def _check_widths(widths: Iterable[int]) -> None:
    found = sorted(set(widths))
    if len(found) > 1:
        raise ValueError(
            f"simulator(theta, rng) returned {found[0]} numbers and {found[-1]} numbers; every "
            "call must return as many"
        )

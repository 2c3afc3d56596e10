"""Likelihood-free inference: a posterior from a prior to draw from and a simulator to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

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

METHODS: dict[str, type] = {
    "density": ConditionalDensity,
    "conditional": ConditionalEmbedding,
    "bayes": KernelBayes,
}


@at_one_thread
def simulate_posterior(
    prior_sampler: Callable,
    simulator: Callable,
    observed,
    n: int = 2000,
    *,
    method: str | None = None,
    model=None,
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
    model = _model(method, model)
    n = check_count(n, "n", minimum=5)
    _check_callable(prior_sampler, "prior_sampler")
    _check_callable(simulator, "simulator")
    observed = as_floats(observed, "observed")
    rows = as_points(observed if observed.ndim > 1 else observed.reshape(1, -1), "observed")
    rng = generator(random_state)
    theta = draw(prior_sampler, n, rng)
    data = simulate(simulator, theta, batch_size, n_jobs, rng, verbose)
    if rows.shape[1] != data.shape[1]:
        raise ValueError(
            f"observed has {rows.shape[1]} numbers but the simulator returns {data.shape[1]}"
        )
    model.fit(data, theta)
    if isinstance(model, KernelBayes):
        posterior = model.posterior(rows, prior=draw(prior_sampler, n, rng))
    else:
        posterior = model.at(rows)
    return posterior[0] if observed.ndim < 2 else posterior


def _check_callable(f, name: str) -> None:
    if not callable(f):
        raise ValueError(f"{name} is {f!r}; a function is needed")


def _model(method: str | None, model):
    """A fresh model of the kind that the method needs."""
    if method is None:
        method = next((m for m, kind in METHODS.items() if isinstance(model, kind)), "density")
    kind = METHODS[check_choice(method, "method", METHODS)]
    if model is not None:
        if not isinstance(model, kind):
            raise ValueError(
                f"model is {type(model).__name__}; method={method!r} needs a {kind.__name__}"
            )
        return clone(model)
    kernel = as_kernel("gaussian", columnwise=True)
    if method == "conditional":
        return ConditionalEmbedding(kernel, "gaussian", tune_lengthscale=True)
    return KernelBayes(kernel_x=kernel) if method == "bayes" else ConditionalDensity()


def draw(prior_sampler: Callable, n: int, rng) -> np.ndarray:
    """n parameters from the prior, (n, p)."""
    theta = as_points(prior_sampler(n, rng), "prior_sampler(n, rng)")
    check_lengths(n, theta.shape[0], "n", "prior_sampler(n, rng)")
    return theta


def simulate(simulator, theta, batch_size, n_jobs, rng, verbose) -> np.ndarray:
    """Data (n, q): one generator per chunk, so that the answer is the same for any n_jobs."""
    batched = batch_size is not None
    chunk = check_count(batch_size, "batch_size") if batched else 100
    starts = range(0, len(theta), chunk)
    jobs = [
        (simulator, theta[i : i + chunk], child, batched)
        for i, child in zip(starts, rng.spawn(len(starts)), strict=True)
    ]
    if n_jobs == 1:
        parts = [_run(*job) for job in track(jobs, description="simulating", verbose=verbose)]
    else:
        from joblib import Parallel, delayed

        results = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_run)(*j) for j in jobs)
        parts = list(track(results, len(jobs), "simulating", verbose))
    _check_widths(part.shape[1] for part in parts)
    return as_points(np.concatenate(parts), "simulator(theta, rng)")


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

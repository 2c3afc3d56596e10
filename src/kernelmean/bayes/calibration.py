"""Simulation-based calibration: do posteriors hold the parameters that made their data?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ..core import arrays, checks
from ..core.progress import Verbose
from .rounds import Source
from .simulate import simulate_posterior

MOST_BINS, LEAST_IN_BIN = 20, 10
LEVELS = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class Calibration:
    """Ranks of the parameters that made the data among draws from their posteriors.

    Attributes
    ----------
    ranks : array of shape (m, p)
        Of each of p parameters in m data sets: how many draws are below the true one, 0 … `draws`.
        If posteriors are right, all are as probable.
    draws : int
        Draws from each posterior.
    """

    ranks: np.ndarray
    draws: int

    @property
    def shares(self) -> np.ndarray:
        """Ranks as shares of the posterior below the true parameter, in (0, 1), (m, p)."""
        return (self.ranks + 0.5) / (self.draws + 1)

    def coverage(self, level: float = 0.95) -> np.ndarray:
        """Share of data sets whose central interval holds the true parameter, (p,).

        A rank that the interval ends in counts for the part of it that is inside.
        """
        inside = checks.check_level(level) * (self.draws + 1) / 2
        off = np.abs(self.ranks - 0.5 * self.draws)
        return np.clip(inside - off + 0.5, 0.0, 1.0).mean(axis=0)

    @property
    def chi2_pvalue(self) -> np.ndarray:
        """Of Pearson's test that the ranks are uniform, in at most 20 bins, (p,)."""
        m, values = len(self.ranks), self.draws + 1
        bins = int(np.clip(m // LEAST_IN_BIN, 2, min(MOST_BINS, values)))
        expected = m * np.bincount(np.arange(values) * bins // values) / values
        found = [np.bincount(r * bins // values, minlength=bins) for r in self.ranks.T]
        return np.array([stats.chisquare(f, expected).pvalue for f in found])

    @property
    def ecdf_pvalue(self) -> np.ndarray:
        """Of the largest distance between the ranks' distribution function and even steps, (p,)."""
        m, values = len(self.ranks), self.draws + 1
        even = np.arange(1, values + 1) / values
        F = [np.bincount(r, minlength=values).cumsum() / m for r in self.ranks.T]
        return np.array([stats.kstwo.sf(np.abs(f - even).max(), m) for f in F])

    @property
    def pvalue(self) -> float:
        """That of the least `ecdf_pvalue`, by Bonferroni: at most so probable if all is right."""
        return float(min(1.0, self.ecdf_pvalue.min() * self.ranks.shape[1]))

    def to_frame(self, levels: Sequence[float] = LEVELS):
        """A pandas DataFrame, a row for each parameter: p-values, and the coverage per level."""
        import pandas as pd

        columns = {"chi2_pvalue": self.chi2_pvalue, "ecdf_pvalue": self.ecdf_pvalue}
        columns |= {f"coverage_{100 * level:g}": self.coverage(level) for level in levels}
        return pd.DataFrame(columns, index=[f"theta{j}" for j in range(self.ranks.shape[1])])


def simulation_based_calibration(
    prior_sampler: Callable,
    simulator: Callable,
    n: int = 2000,
    *,
    datasets: int = 300,
    draws: int = 99,
    method: str | None = None,
    model=None,
    batch_size: int | None = None,
    n_jobs: int = 1,
    random_state=None,
    verbose: Verbose = False,
) -> Calibration:
    """Check `simulate_posterior` on data sets whose parameters are known.

    Parameters θ* ~ prior make data x*; the posterior at x*, learned from n other simulations,
    gives L draws, and the rank of θ*_j among them is uniform on 0 … L if the posterior is right.
    A heap of low and high ranks means posteriors that are too narrow, in the middle too wide, at
    one end ones that lie on the other side. It says that posteriors hold on average over the
    prior, not that they do at one observation, nor that they are sharp: the prior itself passes.
    All data sets share one fit, so that without a method it is the density that is checked, not
    regression adjustment, whose rounds are for one data set.

    Parameters
    ----------
    prior_sampler, simulator, n, method, model, batch_size, n_jobs, verbose
        As for `simulate_posterior`.
    datasets : int
        Data sets made from fresh parameters, and conditioned on.
    draws : int
        L, from each posterior. L + 1 should be a multiple of 20, for bins of the same width.
    random_state : int, Generator, RandomState or None

    Returns
    -------
    Calibration
        `ranks`, `coverage(level)`, `chi2_pvalue`, `ecdf_pvalue`, `pvalue`, `to_frame()`; drawn by
        `display.CalibrationDisplay.from_calibration`.

    Raises
    ------
    ValueError
        As `simulate_posterior`, and for fewer than 20 data sets.

    References
    ----------
    Talts, Betancourt, Simpson, Vehtari, Gelman (2018), Validating Bayesian inference algorithms
    with simulation-based calibration; Säilynoja, Bürkner, Vehtari (2022) (distribution functions).

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> found = km.simulation_based_calibration(
    ...     lambda n, rng: rng.normal(0, 1, n),
    ...     lambda mean, rng: rng.normal(mean[0], 1, 10).mean(keepdims=True),
    ...     n=500,
    ...     datasets=100,
    ...     random_state=0,
    ... )
    >>> bool(found.pvalue > 0.01)
    True
    """
    datasets = checks.check_count(datasets, "datasets", minimum=20)
    draws = checks.check_count(draws, "draws", minimum=9)
    rng = checks.generator(random_state)
    source = Source(prior_sampler, simulator, batch_size, n_jobs, rng, verbose=False)
    theta, observed = source.pairs(source.parameters(datasets))
    laws = simulate_posterior(
        prior_sampler, simulator, observed, n, method=method, model=model,
        batch_size=batch_size, n_jobs=n_jobs, random_state=rng, verbose=verbose,
    )  # fmt: skip
    drawn = arrays.to_numpy(laws.sample(draws, rng))
    return Calibration((drawn < theta[:, None, :]).sum(axis=1), draws)

"""`kernelmean posterior`: latents given observations, from examples, in numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ..bayes.kernel_bayes import KernelBayes
from ..core.checks import NumericalWarning
from ..embedding.embedding import MeanEmbedding
from ..kernels import Gaussian
from .errors import UserError, refusals

SMALLEST = 20  # pairs


@dataclass(frozen=True)
class Posteriors:
    """Posteriors of the latents at new observations.

    Attributes
    ----------
    pairs : DataFrame
        The examples: latents and observations side by side.
    latent, observed : list of str
    rows : DataFrame
        The observations conditioned on.
    prior : DataFrame or None
        Samples of the prior; None is the latents of the examples.
    model : KernelBayes
    embedding : MeanEmbedding
        One posterior per row.
    level : float
        Of the intervals.
    notes : tuple of str
        Numerical trouble on the way.
    """

    pairs: pd.DataFrame
    latent: list[str]
    observed: list[str]
    rows: pd.DataFrame
    prior: pd.DataFrame | None
    model: KernelBayes
    embedding: MeanEmbedding
    level: float
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        pairs: pd.DataFrame,
        latent: list[str],
        observed: list[str],
        rows: pd.DataFrame,
        prior: pd.DataFrame | None,
        *,
        rule: str = "importance",
        level: float = 0.95,
    ) -> Posteriors:
        """Learn from the pairs and condition on the rows."""
        if len(pairs) < SMALLEST:
            raise UserError(f"{len(pairs)} pairs are too few; at least {SMALLEST} are needed")
        kernel = Gaussian(columnwise=True)
        with refusals(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NumericalWarning)
            model = KernelBayes(rule, kernel_x=kernel, kernel_z=kernel)
            model.fit(pairs[observed], pairs[latent])
            given = None if prior is None else prior[latent].to_numpy()
            embedding = model.posterior(rows[observed], given)
        notes = tuple(dict.fromkeys(str(w.message) for w in caught))
        return cls(pairs, latent, observed, rows, prior, model, embedding, level, notes)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Mean, standard deviation, median and interval of each latent, one row per observation."""
        lower, upper = self.embedding.interval(self.level)
        answers = {
            "mean": self.embedding.mean(),
            "sd": np.sqrt(np.diagonal(self.embedding.cov(), axis1=-2, axis2=-1)),
            "median": self.embedding.quantile(0.5),
            "lower": lower,
            "upper": upper,
        }
        columns = {
            f"{name}_{what}": values[:, j]
            for j, name in enumerate(self.latent)
            for what, values in answers.items()
        }
        return pd.DataFrame(columns, index=self.rows.index)

    @cached_property
    def regularisers(self) -> tuple[float | None, float]:
        """η and λ (or δ) used."""
        given = None if self.prior is None else self.prior[self.latent].to_numpy()
        with warnings.catch_warnings():  # said once already
            warnings.simplefilter("ignore", NumericalWarning)
            return self.model.regularisers(given)

    def marginal(self, row: int, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A grid of one latent with the densities of its posterior and its prior."""
        j = self.latent.index(name)
        source = self.pairs if self.prior is None else self.prior
        before = MeanEmbedding(source[name].to_numpy(), kernel=Gaussian(1.0))
        after = MeanEmbedding(
            self.embedding.points[:, j], self.embedding[row].weights, Gaussian(1.0)
        )
        low, high = source[name].quantile([0.005, 0.995])
        grid = np.linspace(low, high, 300)
        return grid, _proper(after, grid), _proper(before, grid)


def _proper(m: MeanEmbedding, grid: np.ndarray) -> np.ndarray:
    """A density, of integral one over the grid."""
    density = m.density(grid[:, None])
    area = np.trapezoid(density, grid)
    return density / area if area > 0 else density

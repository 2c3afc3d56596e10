"""Kernel Bayes' rule by a density: p(z | x) ∝ r(z) q(z | x), r the ratio of the prior."""

from typing import Any

import numpy as np

from ..core import Array, arrays, checks
from ..core.minimise import CLEAR, mean_and_error
from ..core.stages import stage
from ..densities import ConditionalDensity
from ..densities.laws import MovedLaws
from ..embedding.embedding import MeanEmbedding
from ..embedding.move import Wide
from ..kernels import Gaussian, Gaussian4, Kernel
from ..regression.width import FLAT
from .density_ratio import DensityRatio
from .prior import Ratio

ROWS = 500  # that are left out
NOTHING = 1e-200  # a ratio that is zero, where a law has to be divided by something


@stage("density")
def density_of(asked: Any, X, Z) -> ConditionalDensity:
    """q, by the kernel of X, λ and features that are asked for."""
    if still := np.flatnonzero(arrays.to_numpy(arrays.still(asked.points_))).tolist():
        raise ValueError(f"Z: columns {still} are constant; rule='density' needs them to vary")
    tune = "auto" if isinstance(asked.kernel_x, str) else asked.tune_lengthscale
    anywhere = asked.ratio is None or callable(asked.ratio) or isinstance(asked.ratio, DensityRatio)
    return ConditionalDensity(
        asked.kernel_x,
        reg=asked.reg,
        features=asked.features,
        location="auto" if anywhere else False,  # r is known at the latents alone
        tune_lengthscale=tune,
    ).fit(X, Z)


def flatter(model: ConditionalDensity) -> tuple[Kernel, Wide] | None:
    """A kernel with a flatter top, and a wide law with the share that is best beside it.

    Of order four, and about twice as wide, it has less noise at tops, of which the highest is the
    mode, and bends them no more. Densities, quantiles, modes and draws are all by it. None where
    rows left out are clearly less likely by it, where y has several columns, a kernel that was
    asked for, or values that repeat, and where nothing was left to the rows.
    """
    fit = model.fit_
    kernel, one = fit.kernel_y, fit.points.shape[1] == 1
    if not (one and fit.wide and isinstance(kernel, Gaussian) and model.atoms_ is None):
        return None
    laws, y = fit.left_out(ROWS)
    kernel = Gaussian4(FLAT * float(model.bandwidth_[0]))
    p = arrays.to_numpy(laws.smoothed(kernel, None).density_of_pairs(y))
    e, steepness = laws.move.back(y), laws.move.steepness(y).sum(axis=1)
    p = p / np.exp(steepness)
    wide = fit.wide.chosen(p, e)
    theirs = arrays.to_numpy(laws.log_density_of_pairs(y))
    by, error = mean_and_error(wide.log_mixed(p, e) + steepness - theirs)
    return None if by < -CLEAR * error else (kernel, wide)


def reweighted(laws: MeanEmbedding | MovedLaws, ratio: Ratio) -> MeanEmbedding | MovedLaws:
    """The laws of the pairs, times the ratio of the prior to the latents of the pairs."""
    against = []

    def factor(z) -> Array:  # even where the ratio is zero for the whole of a law
        found = ratio.floored(z)
        against.append(not bool(arrays.namespace(found).any(found > 0)))
        return found + NOTHING

    laws = laws.tilted(factor)
    if n := sum(against):
        checks.warn_numerical(
            f"{n} of the posteriors are where the prior has nothing: they are those without "
            "the prior, and not to be trusted"
        )
    return laws

"""A kernel with a flatter top for the densities of posteriors, unless rows left out object.

A kernel of order four, about twice as wide, has less noise at tops, of which the highest is the
mode, and bends them no more. Densities, quantiles, modes and draws are all by it.
"""

import numpy as np

from ..core import arrays
from ..core.minimise import CLEAR, mean_and_error
from ..densities import ConditionalDensity
from ..embedding.move import Wide
from ..kernels import Gaussian, Gaussian4, Kernel
from ..regression.width import FLAT

ROWS = 500  # that are left out


def flatter(model: ConditionalDensity) -> tuple[Kernel, Wide] | None:
    """The kernel, and a wide law with the share that is best beside it.

    None where rows left out are clearly less likely by it, where y has several columns, a kernel
    that was asked for, or values that repeat, and where nothing was left to the rows.
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

"""The estimators that those of the library are compared with.

Of instruments: regression, 2SLS, sieves, smoothing, networks; all have `fit(X, y, Z, C=None)` and
`predict(X, C=None)`, with arguments as in `KernelIV`. Of conditional densities: all have
`fit(X, Y)` and `pdf(Y, X)`, as `ConditionalDensity`.
"""

from .instruments import (
    DeepIV,
    KernelReg,
    SieveIV,
    SmoothIV,
    TwoStageLeastSquares,
    mixture_log_density,
)
from .kcde import KCDE
from .leastsquares import LeastSquaresCDE
from .mixture import MixtureDensityNetwork
from .operator import ConditionalDensityOperator

__all__ = [
    "KCDE",
    "ConditionalDensityOperator",
    "DeepIV",
    "KernelReg",
    "LeastSquaresCDE",
    "MixtureDensityNetwork",
    "SieveIV",
    "SmoothIV",
    "TwoStageLeastSquares",
    "mixture_log_density",
]

"""The estimators that those of the library are compared with.

Of instruments: regression, 2SLS, sieves, smoothing, networks; all have `fit(X, y, Z, C=None)` and
`predict(X, C=None)`, with arguments as in `KernelIV`. Of conditional densities: all have
`fit(X, Y)` and `pdf(Y, X)`, as `ConditionalDensity`. Of hidden Markov models: both have
`fit(X, lengths=None)`, `density(Y)`, `filter(X, lengths=None)` and `predict(X, lengths=None)`;
`tmse` and `matched_accuracy` are the errors that do not depend on how states are numbered.
"""

from .hidden import GaussianHMM, ProjHMM, matched_accuracy, tmse
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
    "GaussianHMM",
    "KernelReg",
    "LeastSquaresCDE",
    "MixtureDensityNetwork",
    "ProjHMM",
    "SieveIV",
    "SmoothIV",
    "TwoStageLeastSquares",
    "matched_accuracy",
    "mixture_log_density",
    "tmse",
]

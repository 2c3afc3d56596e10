"""The estimators that those of the library are compared with.

Of instruments: regression, 2SLS, sieves, smoothing, networks; all have `fit(X, y, Z, C=None)` and
`predict(X, C=None)`, with arguments as in `KernelIV`. Of conditional densities: all have
`fit(X, Y)` and `pdf(Y, X)`, as `ConditionalDensity`. Of hidden Markov models: both have
`fit(X, lengths=None)`, `density(Y)`, `filter(X, lengths=None)` and `predict(X, lengths=None)`;
`tmse` and `matched_accuracy` are the errors that do not depend on how states are numbered. Of
state-space models: `AutoRegression` and `LaggedRidge` have `fit(X)` and `predict(X)`, `Garch` has
`fit(r)` and `forecast_variance(r)`, and `particle_predict` filters with a given law; `qlike` and
`mse_log_variance` are errors of forecasts of a variance.
"""

from ..metrics import matched_accuracy, mse_log_variance, qlike, tmse
from .hidden import *
from .instruments import *
from .kcde import *
from .leastsquares import *
from .mixture import *
from .networks import *
from .operator import *
from .statespace import *

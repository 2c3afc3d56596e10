"""What state-space models are compared with: lagged regressions, GARCH, the true law's particles.

The regressions have `fit(X)` and `predict(X)`, which forecasts every row from those before it.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.signal import lfilter
from sklearn.base import BaseEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.utils.validation import check_is_fitted

from ..core import arrays, checks
from ..core.checks import as_points, as_vector, check_choice, check_count, generator
from ..core.extras import require
from ..core.parameters import count, either
from ..core.sequences import check_sequences
from ..statespace.particles import bootstrap

__all__ = ["AutoRegression", "Garch", "LaggedRidge", "particle_predict"]

LAGS = (1, 2, 3, 5, 8)  # among which LaggedRidge chooses
ALPHAS = (0.001, 0.01, 0.1, 1.0)
GAMMAS = tuple(10 ** np.arange(-2.5, 1.5, 0.5))  # divided by the number of lags
FEWEST = 10  # returns of which GARCH is estimated
APP = 'pip install "kernelmean[app]"'

# ---------------------------------------------------------------- lagged regressions


class LaggedComparator(BaseEstimator):
    """What the regressions on y_{t-1}, ..., y_{t-p} share.

    A lag before the first row is the training mean.
    """

    _fit: Callable[[np.ndarray], None]  # of a standardised series
    _predict: Callable[[np.ndarray], np.ndarray]

    def fit(self, X) -> Any:
        """Regress every row but the first p on the p rows before it.

        Parameters
        ----------
        X : array or DataFrame of shape (n, 1)
            Observations in the order of time.
        """
        points = _one_column(X)
        checks.note_columns(self, points)
        self._mean, self._scale = points.mean(), points.std() or 1.0
        self._fit((points[:, 0] - self._mean) / self._scale)
        return self

    def predict(self, X) -> np.ndarray:
        """The forecast of every row from those before it, shape (n, 1)."""
        check_is_fitted(self)
        forecasts = self._predict((_one_column(X)[:, 0] - self._mean) / self._scale)
        return (self._mean + self._scale * forecasts)[:, None]


def _one_column(X) -> np.ndarray:
    return arrays.as_columns(X, 1, "X", "a lagged regression")


def _lagged(y: np.ndarray, count: int) -> np.ndarray:
    """Columns y_{t-1}, ..., y_{t-count}, with 0 before the first row."""
    padded = np.concatenate([np.zeros(count), y[:-1]])
    return np.lib.stride_tricks.sliding_window_view(padded, count)[:, ::-1]


def _check_lags(count: int, n: int, fewest: int) -> None:
    if n < count + fewest:
        raise ValueError(f"X has {n} rows; at least {count + fewest} are needed for {count} lags")


class AutoRegression(LaggedComparator):
    """y_t = c + Σ_k a_k y_{t-k} + noise, by least squares: statsmodels' AutoReg.

    Parameters
    ----------
    n_lags : int

    Attributes
    ----------
    coef_ : array of shape (n_lags,)
        a.
    intercept_ : float
        c.

    Raises
    ------
    ImportError
        If the package `statsmodels` is missing (extra `app`).

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import kernelmean as km
    >>> from kernelmean.comparators import AutoRegression
    >>> data = km.datasets.make_state_space("linear", 1200, random_state=0)
    >>> if find_spec("statsmodels"):
    ...     forecasts = AutoRegression().fit(data.X[:1000]).predict(data.X)
    ...     # the best forecast has 0.94
    ...     assert 0.9 < ((data.X - forecasts)[1000:] ** 2).mean() < 1.3
    """

    def __init__(self, n_lags=1):
        self.n_lags = n_lags

    def _fit(self, y) -> None:
        AutoReg = require("statsmodels.tsa.ar_model", "AutoRegression", APP).AutoReg
        lags = check_count(self.n_lags, "n_lags")
        _check_lags(lags, len(y), lags + 2)
        self._shift, *weights = AutoReg(y, lags).fit().params
        self.coef_ = np.array(weights)
        self.intercept_ = self._scale * self._shift + self._mean * (1 - self.coef_.sum())

    def _predict(self, y) -> np.ndarray:
        return self._shift + _lagged(y, self.n_lags) @ self.coef_


class LaggedRidge(LaggedComparator):
    """y_t = h(y_{t-1}, ..., y_{t-p}) + noise, with h by Gaussian kernel ridge regression.

    p, the ridge and the lengthscale are those with the least squared error of one-step forecasts
    on the later of the folds of `TimeSeriesSplit`, all of them over the same rows.

    Parameters
    ----------
    n_lags : int or "cv"
        p; "cv" chooses among 1, 2, 3, 5 and 8.
    n_splits : int
        Folds.

    Attributes
    ----------
    n_lags_ : int
    search_ : GridSearchCV
        That of these lags.

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.comparators import LaggedRidge
    >>> data = km.datasets.make_state_space("bimodal", 400, random_state=0)
    >>> model = LaggedRidge(1, n_splits=3).fit(data.X[:300])
    >>> errors = (data.X - model.predict(data.X))[300:]
    >>> bool((errors**2).mean() < 0.5 * data.X.var())
    True
    """

    def __init__(self, n_lags="cv", n_splits=5):
        self.n_lags = n_lags
        self.n_splits = n_splits

    def _fit(self, y) -> None:
        check_count(self.n_splits, "n_splits", minimum=2)
        either(count(), "cv")(self.n_lags, "n_lags")
        candidates = LAGS if self.n_lags == "cv" else (self.n_lags,)
        _check_lags(max(candidates), len(y), 2 * (self.n_splits + 1))
        rows = slice(max(candidates), None)  # the same for all, so that errors compare
        searches = {
            p: _search(p, self.n_splits).fit(_lagged(y, p)[rows], y[rows]) for p in candidates
        }
        self.n_lags_ = max(searches, key=lambda p: searches[p].best_score_)
        self.search_ = searches[self.n_lags_]

    def _predict(self, y) -> np.ndarray:
        return self.search_.predict(_lagged(y, self.n_lags_))


def _search(lags: int, splits: int) -> GridSearchCV:
    grid = {"alpha": ALPHAS, "gamma": np.divide(GAMMAS, lags)}
    folds = TimeSeriesSplit(splits)
    return GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=folds, scoring="neg_mean_squared_error")


# ---------------------------------------------------------------- volatility


class Garch(BaseEstimator):
    """r_t = μ + σ_t v_t, σ²_t = ω + α (r_{t-1} − μ)² + β σ²_{t-1}, by maximum likelihood.

    GARCH(1, 1) with normal v, as the package `arch` fits it.

    Parameters
    ----------
    mean : {"constant", "zero"}
        Whether μ is estimated or 0.

    Attributes
    ----------
    mu_, omega_, alpha_, beta_ : float
    variance_ : float
        Of the training returns: σ² of the first row.

    Raises
    ------
    ImportError
        If the package `arch` is missing (extra `app`).

    References
    ----------
    Bollerslev (1986), Generalized autoregressive conditional heteroskedasticity.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import numpy as np
    >>> from kernelmean.comparators import Garch, qlike
    >>> rng = np.random.default_rng(0)
    >>> r = np.exp(np.sin(np.arange(2000) / 50)) * rng.standard_normal(2000)
    >>> if find_spec("arch"):
    ...     variance = Garch("zero").fit(r[:1500]).forecast_variance(r)
    ...     assert qlike(variance[1500:], r[1500:] ** 2) < qlike(r.var(), r[1500:] ** 2)
    """

    def __init__(self, mean="constant"):
        self.mean = mean

    def fit(self, r) -> Self:
        """Estimate from returns of shape (n,), in the order of time."""
        arch = require("arch", "Garch", APP)
        check_choice(self.mean, "mean", ["constant", "zero"])
        returns = arrays.to_numpy(as_vector(r, "r"))
        if len(returns) < FEWEST:
            raise ValueError(f"r has {len(returns)} rows; at least {FEWEST} are needed")
        if np.ptp(returns) == 0:
            raise ValueError("r is constant; returns with different values are needed")
        self.variance_ = float(returns.var())
        scale, kind = self.variance_**0.5, {"mean": self.mean, "vol": "GARCH", "p": 1, "q": 1}
        model = arch.arch_model(returns / scale, **kind, rescale=False)
        found = model.fit(disp="off", show_warning=False).params
        self.mu_, self.omega_ = found.get("mu", 0.0) * scale, found["omega"] * self.variance_
        self.alpha_, self.beta_ = found["alpha[1]"], found["beta[1]"]
        return self

    def forecast_variance(self, r) -> np.ndarray:
        """σ²_t of every row, from the rows before it, shape (n,)."""
        check_is_fitted(self)
        shocks = (arrays.to_numpy(as_vector(r, "r")) - self.mu_) ** 2
        news = self.omega_ + self.alpha_ * shocks[:-1]
        later = lfilter([1.0], [1.0, -self.beta_], news, zi=[self.beta_ * self.variance_])[0]
        return np.append(self.variance_, later)


# ---------------------------------------------------------------- the true law's particles


def particle_predict(model, X, n_particles=500, *, lengths=None, random_state=None) -> np.ndarray:
    """Σ_i W_i E[y_t | x_i], x_i ~ p(x_t | x_{t-1,i}): forecasts of a bootstrap particle filter.

    That of `statespace.particles`. For others of the package `particles` there is
    `adapters.particles.as_particles_model`.

    Parameters
    ----------
    model : object
        `draw_first(n, rng)`, `draw_next(x, rng)`, `log_emission(Y, x)` and `mean_emission(x)`, as
        `ScalarStateSpace` has them.
    X : array of shape (n, d)
        Observations; rows of NaN are missing.
    n_particles : int
    lengths : sequence of int, optional
        Rows of each sequence, where there are several below each other.
    random_state : int, Generator or None

    Returns
    -------
    array of shape (n, d)
        The forecast of every row from those before it.

    References
    ----------
    Gordon, Salmond, Smith (1993), Novel approach to nonlinear/non-Gaussian Bayesian state
    estimation; Chopin, Papaspiliopoulos (2020), An introduction to sequential Monte Carlo.

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.comparators import particle_predict
    >>> data = km.datasets.make_state_space("linear", 50, random_state=0)
    >>> forecasts = particle_predict(data.model, data.X, 500, random_state=0)
    >>> bool(abs(forecasts - data.model.predict(data.X)).max() < 0.5)  # the exact filter
    True
    """
    points, rng = arrays.to_numpy(as_points(X, "X", gaps=True)), generator(random_state)
    seen, sequences = ~np.isnan(points).any(axis=1), check_sequences(lengths, len(points))
    return bootstrap(model, points, seen, sequences, n_particles, rng).mean

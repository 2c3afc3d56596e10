"""Quantiles for MAPIE: intervals of a conditional density, conformalised with rows of their own."""

from __future__ import annotations

from sklearn.base import BaseEstimator, RegressorMixin

from ..core.checks import check_level
from ..densities.conditional_density import ConditionalDensity


class Quantile(RegressorMixin, BaseEstimator):
    """The quantile of a fitted conditional density, as a regressor.

    Parameters
    ----------
    density : ConditionalDensity
        Fitted to one outcome.
    level : float
        Of the quantile.
    """

    def __init__(self, density, level):
        self.density = density
        self.level = level

    def fit(self, X, y) -> Quantile:
        """Fit the density."""
        self.density.fit(X, y)
        return self

    def predict(self, X):
        """The quantile at each row, (n,)."""
        return self.density.predict_quantile(X, self.level)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self.density, "bandwidth_")


def quantiles(density: ConditionalDensity, confidence_level: float = 0.9) -> list[Quantile]:
    """The three prefit regressors that MAPIE's `ConformalizedQuantileRegressor` asks for.

    Parameters
    ----------
    density : ConditionalDensity
        Fitted to one outcome, on other rows than those that will conformalise it.
    confidence_level : float
        That of the regressor.

    Returns
    -------
    list of Quantile
        Lower end, upper end, median.

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.adapters.mapie import quantiles
    >>> data = km.datasets.make_conditional_density("bimodal", 100, random_state=0)
    >>> density = km.ConditionalDensity(bandwidth=0.3, reg=1e-3).fit(data.X, data.Y[:, 0])
    >>> [round(q.level, 2) for q in quantiles(density, 0.9)]
    [0.05, 0.95, 0.5]
    """
    check_level(confidence_level, "confidence_level")
    tail = (1 - confidence_level) / 2
    return [Quantile(density, level) for level in (tail, 1 - tail, 0.5)]

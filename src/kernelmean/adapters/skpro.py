"""`ConditionalDensity` as a probabilistic regressor of skpro."""

from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from ..core.extras import require
from ..densities.conditional_density import ConditionalDensity

Base: Any = require("skpro.regression.base", __name__, "pip install skpro").BaseProbaRegressor

LEVELS = 200  # quantiles that stand for a law


class ConditionalDensityRegressor(Base):
    """The law of y given x, as skpro's distribution objects.

    `predict_proba` is skpro's `Empirical`, at 200 evenly spaced quantiles of each law: means,
    quantiles, intervals and CRPS are those of the density up to that grid.

    Parameters
    ----------
    density : ConditionalDensity, optional
        None is `ConditionalDensity()`.

    Attributes
    ----------
    density_ : ConditionalDensity
        Fitted; for densities themselves ask `density_.pdf(Y, X)`.

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.adapters.skpro import ConditionalDensityRegressor
    >>> engel = km.datasets.load_engel()
    >>> density = km.ConditionalDensity(bandwidth=50.0, reg=1e-3)
    >>> model = ConditionalDensityRegressor(density).fit(engel.X, engel.target.to_frame())
    >>> model.predict_interval(engel.X.head(1), coverage=0.9).shape
    (1, 2)
    """

    _tags: ClassVar = {"capability:multioutput": False, "capability:missing": False}

    def __init__(self, density=None):
        self.density = density
        super().__init__()

    def _fit(self, X, y) -> Self:
        given = {} if self.density is None else self.density.get_params(deep=False)
        self._columns = list(y.columns)
        self.density_ = ConditionalDensity(**given).fit(X.to_numpy(), y.to_numpy()[:, 0])
        return self

    def _predict(self, X) -> pd.DataFrame:
        mean = self.density_.predict(X.to_numpy())
        return pd.DataFrame(mean, index=X.index, columns=self._columns)

    def _predict_quantiles(self, X, alpha) -> pd.DataFrame:
        columns = pd.MultiIndex.from_product([self._columns, alpha])
        found = self.density_.predict_quantile(X.to_numpy(), list(alpha))
        return pd.DataFrame(np.reshape(found, (len(X), -1)), index=X.index, columns=columns)

    def _predict_proba(self, X) -> Any:
        from skpro.distributions import Empirical

        levels = (np.arange(LEVELS) + 0.5) / LEVELS
        found = np.reshape(self.density_.predict_quantile(X.to_numpy(), levels), (len(X), -1))
        rows = pd.MultiIndex.from_product([range(LEVELS), X.index])
        points = pd.DataFrame(found.T.ravel(), index=rows, columns=self._columns)
        return Empirical(points, index=X.index, columns=pd.Index(self._columns))

    @classmethod
    def get_test_params(cls, parameter_set="default") -> list[dict[str, Any]]:
        """For skpro's own checks: quick ones."""
        return [{"density": ConditionalDensity(bandwidth=b, reg=0.1)} for b in (0.5, 1.0)]

"""`DensityRatio` as a reweighting step of skada's pipelines for shifted domains."""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..bayes.density_ratio import DensityRatio
from ..core.extras import require

Base: Any = require("skada._reweight", __name__, "pip install skada").BaseReweightAdapter
utils = require("skada.utils", __name__, "pip install skada")


class DensityRatioAdapter(Base):
    """Weights of source rows by how much likelier they are in the target.

    Parameters
    ----------
    ratio : DensityRatio, optional
        None is `DensityRatio()`; with `relative` the weights are bounded.

    Attributes
    ----------
    ratio_ : DensityRatio
        Fitted to the rows of the source, as denominator, and of the target.
    """

    def __init__(self, ratio=None):
        super().__init__()
        self.ratio = ratio

    def fit(self, X, y=None, *, sample_domain=None) -> Self:
        """Learn the ratio; `y` is not looked at."""
        X, sample_domain = utils.check_X_domain(X, sample_domain)
        source, target = utils.source_target_split(X, sample_domain=sample_domain)
        given = {} if self.ratio is None else self.ratio.get_params(deep=False)
        self.ratio_ = DensityRatio(**given).fit(source, target)
        return self

    def compute_weights(self, X, y=None, *, sample_domain=None, **params) -> np.ndarray:
        """The ratio at rows of the source, 0 at those of the target."""
        check_is_fitted(self)
        X, sample_domain = utils.check_X_domain(X, sample_domain, allow_source=True)
        source = utils.extract_source_indices(sample_domain)
        weights = np.zeros(len(X))
        weights[source] = np.maximum(self.ratio_.predict(X[source]), 0.0)
        return weights

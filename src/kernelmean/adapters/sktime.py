"""`KernelStateSpace` as a forecaster of sktime."""

from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from ..core.extras import require
from ..statespace.kernel_state_space import KernelStateSpace

Base: Any = require("sktime.forecasting.base", __name__, "pip install sktime").BaseForecaster


class StateSpaceForecaster(Base):
    """Forecasts with intervals, by a state-space model without families of distributions.

    Parameters
    ----------
    model : KernelStateSpace, optional
        None is `KernelStateSpace()`.

    Attributes
    ----------
    model_ : KernelStateSpace
        Fitted; for filters, smoothers and sample paths ask it.

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.adapters.sktime import StateSpaceForecaster
    >>> forecaster = StateSpaceForecaster(km.KernelStateSpace(random_state=0))
    >>> forecaster.get_tag("capability:pred_int")
    True
    """

    _tags: ClassVar = {
        "y_inner_mtype": "pd.Series",
        "capability:exogenous": False,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:missing_values": True,
        "capability:update": True,
        "requires-fh-in-fit": False,
    }
    _config: ClassVar = {"remember_data": False}  # `_seen` is all that is remembered

    def __init__(self, model=None):
        self.model = model
        super().__init__()

    def _fit(self, y, X, fh) -> Self:
        self._seen = y
        given = {} if self.model is None else self.model.get_params(deep=False)
        self.model_ = KernelStateSpace(**given).fit(y.to_numpy()[:, None])
        return self

    def _update(self, y, X=None, update_params=True) -> Self:
        seen = y.combine_first(self._seen)
        if update_params:
            return self._fit(seen, X, None)
        self._seen = seen  # the laws stay, and go on from the new rows
        return self

    def _ahead(self, fh) -> tuple[Any, np.ndarray, pd.Index]:
        """Laws of the rows after the last, which of them are asked for, and their names."""
        steps = fh.to_relative(self.cutoff).to_numpy().astype(int)
        laws = self.model_.forecast(self._seen.to_numpy()[:, None], int(steps.max()))
        return laws, steps - 1, fh.to_absolute(self.cutoff).to_pandas()

    def _predict(self, fh, X) -> pd.Series:
        laws, which, index = self._ahead(fh)
        return pd.Series(laws.mean()[which, 0], index=index, name=self._seen.name)

    def _predict_quantiles(self, fh, X, alpha) -> pd.DataFrame:
        laws, which, index = self._ahead(fh)
        found = np.column_stack([np.reshape(laws.quantile(a), (-1,))[which] for a in alpha])
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        return pd.DataFrame(found, index=index, columns=columns)

    @classmethod
    def get_test_params(cls, parameter_set="default") -> list[dict[str, Any]]:
        """For sktime's own checks: quick ones."""
        return [{"model": KernelStateSpace(backbone=None, bandwidth=0.5, random_state=0)}]

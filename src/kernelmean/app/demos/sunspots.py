"""Sunspots: a cycle that no two times is the same."""

import numpy as np

from ..commands.ssm import HELD_OUT
from ..report import Block, Numbers
from ..series import rmse
from ..words import Texts
from .job import Tables

SAY = Texts("sunspots")
LAGS = 15  # of an autoregression, at most


def tables() -> Tables:
    """One row a year, 1700 to 2008."""
    from statsmodels.datasets import sunspots

    frame = sunspots.load_pandas().data.astype({"YEAR": int})
    return {"sunspots.csv": frame.rename(columns={"YEAR": "year", "SUNACTIVITY": "sunspots"})}


def beside(made: Tables) -> list[Block]:
    """An autoregression whose order is chosen by AIC on the years before."""
    from statsmodels.tsa.ar_model import AutoReg, ar_select_order

    y = made["sunspots.csv"]["sunspots"].to_numpy()
    n = len(y) - int(HELD_OUT * len(y))
    lags = ar_select_order(y[:n], LAGS, ic="aic").ar_lags
    params = AutoReg(y[:n], lags).fit().params
    past = np.column_stack([np.ones(len(y) - n), *(y[n - k : len(y) - k] for k in lags)])
    (error,) = rmse(past @ params, y[n:])
    name = "Autoregression, order by AIC"
    return [Numbers(SAY.facts({name: f"{error:.1f}"}, lags=len(lags), n=len(y) - n))]

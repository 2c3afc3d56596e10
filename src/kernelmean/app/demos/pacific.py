"""El Niño: how warm the Pacific will be in half a year, and how sure one can be."""

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import QuantileRegressor

from ...densities.conditional_density import ConditionalDensity
from ...metrics import pinball
from ..report import Block, Grid
from ..words import Texts, percent
from .job import Tables

SAY = Texts("pacific")
AHEAD = 6  # months
TRAINING = 0.7  # of the months
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
KNOWN = ["now", "change", "winter", "spring"]


def tables() -> Tables:
    """One row a month, 1950 to 2010; the season is the place of the month on a circle."""
    from statsmodels.datasets import elnino

    t = elnino.load_pandas().data.iloc[:, 1:].to_numpy().ravel()
    angle = 2 * np.pi * (np.arange(len(t)) % 12) / 12
    columns = {
        "in_half_a_year": t[AHEAD:],
        "now": t[:-AHEAD],
        "change": np.diff(t, prepend=t[0])[:-AHEAD],
        "winter": np.cos(angle)[:-AHEAD].round(6),
        "spring": np.sin(angle)[:-AHEAD].round(6),
    }
    return {"pacific.csv": pd.DataFrame(columns)}


def beside(made: Tables) -> list[Block]:
    """Quantiles of the last months by those who have seen the ones before."""
    frame = made["pacific.csv"]
    n = int(TRAINING * len(frame))
    X, y = frame[KNOWN], frame["in_half_a_year"]
    season = pd.get_dummies(np.round(np.arctan2(X["spring"], X["winter"]), 3)).astype(float)
    line = season.join(X[["now", "change"]]).set_axis(range(season.shape[1] + 2), axis=1)
    found = {
        "Conditional density": ConditionalDensity()
        .fit(X[:n], y[:n])
        .predict_quantile(X[n:], LEVELS),
        "Straight lines, one for each month of the year": _each(_straight, line, y, n),
        "Boosted trees": _each(_boosted, X, y, n),
    }
    rows = [[name, *_judged(Q, y[n:].to_numpy())] for name, Q in found.items()]
    header = ["", "pinball loss", "in 90% interval", "its width"]
    return [Grid(header, rows, SAY("rivals", n=len(y) - n))]


def _straight(q: float) -> QuantileRegressor:
    return QuantileRegressor(quantile=q, alpha=0.0, solver="highs")


def _boosted(q: float) -> GradientBoostingRegressor:
    return GradientBoostingRegressor(loss="quantile", alpha=q, max_depth=2, random_state=0)


def _each(model, X: pd.DataFrame, y: pd.Series, n: int) -> np.ndarray:
    return np.column_stack([model(q).fit(X[:n], y[:n]).predict(X[n:]) for q in LEVELS])


def _judged(Q: np.ndarray, y: np.ndarray) -> list[str]:
    loss = pinball(y[:, None], Q, LEVELS).mean()
    inside = (Q[:, 0] <= y) & (y <= Q[:, -1])
    return [f"{loss:.3f}", percent(inside.mean()), f"{(Q[:, -1] - Q[:, 0]).mean():.1f} °C"]

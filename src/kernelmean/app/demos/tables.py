"""The tables of the demo, by the name of their file, and how others do on them."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from ...comparators import AutoRegression, TwoStageLeastSquares
from ...core.extras import require
from ...datasets import load_influenza, load_savings, load_schooling, simulate_sir
from ...densities.conditional_density import ConditionalDensity
from ...metrics import pinball
from ..commands.ssm import HELD_OUT
from ..report import Block, Grid, Numbers
from ..series import rmse
from ..words import Texts, minus, percent

Tables = Mapping[str, pd.DataFrame]

# ---------------------------------------------------------------- instruments


def schooling() -> Tables:
    """One row a man."""
    return {"schooling.csv": load_schooling().frame}


def textbook_schooling(made: Tables, say: Texts) -> list[Block]:
    """The straight line of the textbook."""
    line = effect(made["schooling.csv"], "educ", "nearc4", ["age", "black", "south", "smsa"], 3)
    return [Numbers(say.facts({"Two-stage least squares": line}))]


def savings() -> Tables:
    """One row a household."""
    return {"savings.csv": load_savings().frame}


def textbook_savings(made: Tables, say: Texts) -> list[Block]:
    """One number for all households, with and without the instrument."""
    frame = made["savings.csv"]
    values = {
        "Two-stage least squares": effect(frame, "p401k", "e401k", ["inc", "age"]),
        "Least squares, without an instrument": effect(frame, "p401k", "p401k", ["inc", "age"]),
    }
    return [Numbers(say.facts(values))]


def effect(frame: pd.DataFrame, x: str, z: str, c: list[str], digits: int = 1) -> str:
    """'9.4 ± 7.2': a coefficient by two-stage least squares, with its 95% limits."""
    known = None if not c else frame[c]
    line = TwoStageLeastSquares().fit(frame[[x]], frame.iloc[:, 0], frame[[z]], known)
    error = line.results_.std_errors.iloc[-1]  # of x, which stands last
    return minus(f"{line.coef_[0]:.{digits}f} ± {1.96 * error:.{digits}f}")


# ---------------------------------------------------------------- series

LAGS = 15  # of an autoregression, at most


def sunspots() -> Tables:
    """One row a year, 1700 to 2008."""
    from statsmodels.datasets import sunspots

    frame = sunspots.load_pandas().data.astype({"YEAR": int})
    return {"sunspots.csv": frame.rename(columns={"YEAR": "year", "SUNACTIVITY": "sunspots"})}


def autoregression(made: Tables, say: Texts) -> list[Block]:
    """An autoregression whose order is chosen by AIC on the years before."""
    from statsmodels.tsa.ar_model import ar_select_order

    y = made["sunspots.csv"][["sunspots"]].to_numpy()
    n = len(y) - int(HELD_OUT * len(y))
    lags = len(ar_select_order(y[:n], LAGS, ic="aic").ar_lags)
    (error,) = rmse(AutoRegression(lags).fit(y[:n]).predict(y)[n:], y[n:])
    name = "Autoregression, order by AIC"
    return [Numbers(say.facts({name: f"{error:.1f}"}, lags=lags, n=len(y) - n))]


def sp500() -> Tables:
    """One row a day, 1999 to 2018: the log return in percent."""
    data = require("arch.data.sp500", "the prices of the index", 'pip install "kernelmean[app]"')
    returns = 100 * np.log(data.load()["Adj Close"]).diff().dropna()
    return {"sp500.csv": returns.rename("return").rename_axis("day").reset_index()}


# ---------------------------------------------------------------- the Pacific

AHEAD = 6  # months
TRAINING = 0.7  # of the months
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
KNOWN = ["now", "change", "winter", "spring"]


def pacific() -> Tables:
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


def quantiles(made: Tables, say: Texts) -> list[Block]:
    """Quantiles of the last months by those who have seen the ones before."""
    from sklearn.ensemble import GradientBoostingRegressor as Boosting
    from sklearn.linear_model import QuantileRegressor

    frame = made["pacific.csv"]
    n = int(TRAINING * len(frame))
    X, y = frame[KNOWN], frame["in_half_a_year"]
    season = pd.get_dummies(np.round(np.arctan2(X["spring"], X["winter"]), 3)).astype(float)
    line = season.join(X[["now", "change"]]).set_axis(range(season.shape[1] + 2), axis=1)
    straight = [QuantileRegressor(quantile=q, alpha=0.0, solver="highs") for q in LEVELS]
    boosted = [Boosting(loss="quantile", alpha=q, max_depth=2, random_state=0) for q in LEVELS]
    density = ConditionalDensity().fit(X[:n], y[:n])
    found = {
        "Conditional density": density.predict_quantile(X[n:], LEVELS),
        "Straight lines, one for each month of the year": _each(straight, line, y, n),
        "Boosted trees": _each(boosted, X, y, n),
    }
    rows = [[name, *judged(Q, y[n:].to_numpy())] for name, Q in found.items()]
    header = ["", "pinball loss", "in 90% interval", "its width"]
    return [Grid(header, rows, say("rivals", n=len(y) - n))]


def _each(models: list, X: pd.DataFrame, y: pd.Series, n: int) -> np.ndarray:
    return np.column_stack([model.fit(X[:n], y[:n]).predict(X[n:]) for model in models])


def judged(Q: np.ndarray, y: np.ndarray) -> list[str]:
    """Pinball loss, coverage and width of quantiles of `LEVELS`."""
    loss = pinball(y[:, None], Q, LEVELS).mean()
    inside = (Q[:, 0] <= y) & (y <= Q[:, -1])
    return [f"{loss:.3f}", percent(inside.mean()), f"{(Q[:, -1] - Q[:, 0]).mean():.1f} °C"]


# ---------------------------------------------------------------- influenza

SIMULATIONS = 1000
SEEN = ["peak", "middle_day", "spread", "boy_days"]


def influenza() -> Tables:
    """Simulated epidemics with their rates, and the one that was observed."""
    outbreak, rng = load_influenza(), np.random.default_rng(0)
    beta, gamma = (np.array([1.8, 0.5]) * np.exp(0.5 * rng.standard_normal((SIMULATIONS, 2)))).T
    counts = simulate_sir(np.column_stack([beta, gamma]), rng, outbreak.population)
    rates = pd.DataFrame({"infected_by_each": beta / gamma, "days_ill": 1 / gamma})
    school = outline(outbreak.in_bed[None, :])
    return {"epidemics.csv": rates.join(outline(counts)), "school.csv": school}


def outline(counts: np.ndarray) -> pd.DataFrame:
    """An epidemic in four numbers; counts on the scale of their square roots."""
    day = np.arange(1, counts.shape[1] + 1)
    total = np.maximum(counts.sum(axis=1), 1)
    middle = counts @ day / total
    spread = np.sqrt(np.maximum(counts @ day**2 / total - middle**2, 0))
    numbers = [np.sqrt(counts.max(axis=1)), middle, spread, np.sqrt(counts.sum(axis=1))]
    return pd.DataFrame(np.column_stack(numbers), columns=SEEN).round(6)


# ---------------------------------------------------------------- by name

# The quickest first: its picture is there while the others are at work.
JOBS: dict[str, tuple[Callable[[], Tables], Callable[[Tables, Texts], list[Block]] | None]] = {
    "schooling": (schooling, textbook_schooling),
    "savings": (savings, textbook_savings),
    "sunspots": (sunspots, autoregression),
    "pacific": (pacific, quantiles),
    "influenza": (influenza, None),
    "sp500": (sp500, None),
}

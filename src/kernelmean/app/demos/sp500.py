"""S&P 500: the kinds of days that a stock market has, and what each looks like."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ...chains.order import MAX_COMPONENTS, Order
from ...core.progress import track
from ...display import EmissionDisplay, RegimeDisplay, SpectrumDisplay
from ...hmm.estimate_order import estimate_order
from ...hmm.kernel_hmm import KernelHMM
from ..errors import hushed
from ..report import Block, Fact, Figure, Grid, Note, Numbers, Prose, Section
from ..words import Texts, minus, percent
from . import yours

TITLE = "S&P 500: calm and turbulent markets"
SAY = Texts("sp500")
RETURN = "return, percent"
TRAINING = 0.7  # of the days
LEVEL = 0.9
STATES, FEW = (2, 3, 4), (2,)  # numbers of states compared
SHOWN = 3  # states of the model on the page, where it was fitted
NAMES = {2: ("calm", "turbulent"), 3: ("calm", "restless", "turbulent")}
RIVALS = (2, 3)  # regimes of the normal laws; more take minutes
ITERATIONS = 50  # of EM, where the normal laws begin


def load_returns() -> pd.DataFrame:
    """Daily log returns of the S&P 500 index in percent, 1999 to 2018."""
    try:
        from arch.data import sp500
    except ImportError as err:
        raise ImportError(
            'the prices come with the package arch: pip install "kernelmean[app]"'
        ) from err
    prices = sp500.load()["Adj Close"]
    return (100 * np.log(prices).diff().dropna()).rename(RETURN).to_frame()


def dated(returns: pd.DataFrame) -> pd.DataFrame:
    """The returns as they would stand in a file."""
    return returns.set_axis(["return"], axis=1).rename_axis("date").reset_index()


@dataclass(frozen=True)
class Normals:
    """A hidden Markov model with normal laws (Hamilton 1989), calmest first.

    Attributes
    ----------
    means, sds : arrays of shape (K,)
    log_predictive : array
        log p(return | returns before) of the days held out.
    """

    means: np.ndarray
    sds: np.ndarray
    log_predictive: np.ndarray


def normal_regimes(returns: pd.Series, n: int, K: int) -> Normals:
    """Regimes with a mean and a variance each, by maximum likelihood on the first n days."""
    from statsmodels.tsa.api import MarkovRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of days that are not evenly spaced, and of convergence
        shape = {"k_regimes": K, "trend": "c", "switching_variance": True}
        params = MarkovRegression(returns[:n], **shape).fit(em_iter=ITERATIONS, disp=False).params
        found = MarkovRegression(returns, **shape).filter(params).llf_obs[n:]
    means = np.array([params[f"const[{k}]"] for k in range(K)])
    sds = np.sqrt([params[f"sigma2[{k}]"] for k in range(K)])
    order = np.argsort(sds)
    return Normals(means[order], sds[order], found)


def garch(returns: pd.Series, n: int) -> np.ndarray:
    """log p(return | returns before) by GARCH(1,1) with t errors, learned on the first n days."""
    from arch import arch_model

    model = arch_model(returns, vol="GARCH", dist="t")
    params = model.fit(last_obs=returns.index[n], disp="off").params
    nu, sd = params["nu"], model.fix(params).conditional_volatility[n:]
    scale = sd * np.sqrt((nu - 2) / nu)
    return stats.t.logpdf(returns[n:], nu, params["mu"], scale)


@dataclass(frozen=True)
class Market:
    """The returns, and what was learned from their first part.

    Attributes
    ----------
    returns : DataFrame
    n : int
        Days learned from.
    order : Order
    models : dict
        `KernelHMM` by number of states.
    normals : dict
        `Normals` by number of states.
    garch : array
    """

    returns: pd.DataFrame
    n: int
    order: Order
    models: dict[int, KernelHMM]
    normals: dict[int, Normals]
    garch: np.ndarray

    @classmethod
    def of(cls, returns: pd.DataFrame, numbers: tuple[int, ...]) -> Market:
        """Learn from the first days, with several numbers of states."""
        n = round(TRAINING * len(returns))
        past, column = returns[:n], returns[RETURN]
        models, normals = {}, {}
        for K in track(numbers, description="  learning regimes"):
            with hushed():
                models[K] = KernelHMM(K, random_state=0).fit(past)
            if K in RIVALS:
                normals[K] = normal_regimes(column, n, K)
        return cls(returns, n, estimate_order(past), models, normals, garch(column, n))

    @property
    def shown(self) -> int:
        """The number of states on the page."""
        return min(SHOWN, max(self.models))

    @property
    def model(self) -> KernelHMM:
        """The model on the page."""
        return self.models[self.shown]

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the central interval of the return in each state."""
        lower, upper = self.model.emissions_.interval(LEVEL, self.model.bandwidth_)
        return lower[:, 0], upper[:, 0]

    @property
    def calmest(self) -> np.ndarray:
        """The states, the one with the narrowest interval first."""
        lower, upper = self.interval
        return np.argsort(upper - lower)

    @property
    def labels(self) -> list[str]:
        """What the states are called."""
        named = dict(zip(self.calmest, NAMES[self.shown], strict=True))
        return [named[k] for k in range(self.shown)]

    @cached_property
    def held_out(self) -> dict[int, np.ndarray]:
        """log p(return | returns before) of the days after, by number of states."""
        return {K: m.log_predictive(self.returns)[self.n :] for K, m in self.models.items()}

    @property
    def one_normal(self) -> np.ndarray:
        """The same by one normal law, without memory."""
        past, after = self.returns[RETURN][: self.n], self.returns[RETURN][self.n :]
        return stats.norm.logpdf(after, past.mean(), past.std())


# ---------------------------------------------------------------- the job


def run(quick: bool) -> Section:
    """Regimes of the market, and how well they tell the days after."""
    m = Market.of(load_returns(), FEW if quick else STATES)
    seen, first, last = (f"{day:%B %Y}" for day in m.returns.index[[m.n - 1, m.n, -1]])
    spectrum = SpectrumDisplay.from_order(m.order)
    blocks: list[Block] = [
        Prose(SAY("question", seen=seen, first=first, last=last)),
        _regimes(m),
        Numbers(_lines(m)),
        _densities(m),
        _table(m),
        Note(_verdict(m)),
        Figure("sp500-order", SAY("order"), spectrum.plot, 2.8),
        Prose(SAY("source")),
        *yours(
            "hmm returns.csv --columns return --time date --states 2",
            {"returns.csv": dated(m.returns)},
        ),
    ]
    return Section(TITLE, blocks)


def _lines(m: Market) -> list[Fact]:
    lower, upper = m.interval
    stays = 1 / (1 - m.model.transmat_.diagonal())
    values: dict[str, Any] = {
        f"{m.labels[k].capitalize()} days": (
            minus(f"{percent(m.model.startprob_[k])}, {lower[k]:.1f}% to {upper[k]:.1f}%"),
            SAY("spell", level=percent(LEVEL), days=stays[k]),
        )
        for k in m.calmest
    }
    more = " or more" if m.order >= MAX_COMPONENTS else ""
    values["Number of states"] = f"{int(m.order)}{more}"
    return SAY.facts(values)


def _regimes(m: Market) -> Figure:
    times = m.returns.index
    display = RegimeDisplay.from_estimator(m.model, m.returns, times=times, labels=m.labels)

    def plot(panels: Any) -> None:
        display.plot(panels)
        for axes in panels:
            axes.axvline(times[m.n], color="#222222", lw=1, ls=":")
        panels[-1].set_xlabel("")

    return Figure.stacked("sp500-regimes", SAY("regimes"), plot, 2)


def _densities(m: Market) -> Figure:
    display = EmissionDisplay.from_estimator(m.model, m.returns[: m.n], labels=m.labels)
    rival, y = m.normals[m.shown], display.grid

    def plot(axes: Any) -> None:
        display.plot(axes)
        for mean, sd in zip(rival.means, rival.sds, strict=True):
            axes.plot(y, stats.norm.pdf(y, mean, sd), ":", color="#222222", lw=1)

    return Figure("sp500-densities", SAY("densities"), plot, 3.4)


def _table(m: Market) -> Grid:
    found = [
        *((f"{K} regimes, any law", m.held_out[K]) for K in m.models),
        *((f"{K} regimes, normal laws", n.log_predictive) for K, n in m.normals.items()),
        ("GARCH(1,1), t errors", m.garch),
        ("One normal law", m.one_normal),
    ]
    rows = [(name, _mean(values)) for name, values in found]
    return Grid(
        ["", "log-likelihood"],
        rows,
        f"Mean over the {len(m.garch):,} days held out, each given those before; higher is better",
    )


def _mean(values: np.ndarray) -> str:
    return minus(f"{values.mean():.3f}")


def _verdict(m: Market) -> str:
    """Who won, whoever it was."""
    gaps = m.held_out[m.shown] - m.normals[m.shown].log_predictive
    gap, error = gaps.mean(), gaps.std() / len(gaps) ** 0.5
    side = "more" if gap > 0 else "less"
    ahead = m.garch.mean() - max(values.mean() for values in m.held_out.values())
    words = [SAY("gap", K=m.shown, gap=abs(gap), error=error, side=side)]
    return " ".join([*words, SAY("garch", ahead=ahead)] if ahead > 0 else words)

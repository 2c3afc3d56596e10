"""S&P 500: how volatile tomorrow will be, by a state-space model of log squared returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ...comparators import Garch, mse_log_variance, qlike
from ...display import CURVE, DATA, PLAIN, TRUTH, ForecastDisplay
from ...display.style import legend_above, time_axis
from ...statespace.kernel_state_space import KernelStateSpace
from ..commands.ssm import expected, laws
from ..errors import hushed
from ..report import Block, Fact, Figure, Grid, Note, Numbers, Prose, Section
from ..words import Texts, minus, percent
from . import yours
from .sp500 import RETURN, TRAINING, dated, load_returns

TITLE = "S&P 500: how volatile tomorrow will be"
DAYS = 1_000  # in the file beside the page
SAY = Texts("volatility")
LEVEL = 0.9
QUICK = 1500  # days learned from
DECAY = 0.94  # of the moving average: RiskMetrics
AHEAD = 60  # days
BEFORE = 250  # days drawn before what comes next
MONTH = 21  # days whose mean difference counts as one, in standard errors
OURS = "State space, log r²"
GARCH = "GARCH(1,1)"
AVERAGE = "Moving average (RiskMetrics)"
NONE = "Constant"
GJR = "GJR-GARCH (knows the sign)"


@dataclass(frozen=True)
class Volatility:
    """The returns, and forecasts of their squares by models of the first part.

    Attributes
    ----------
    returns : DataFrame
    n : int
        Days learned from.
    model : KernelStateSpace
        Of log r².
    variances : dict
        E[r² | days before] of all days, by the name of the model.
    """

    returns: pd.DataFrame
    n: int
    model: KernelStateSpace
    variances: dict[str, np.ndarray]

    @classmethod
    def of(cls, returns: pd.DataFrame, quick: bool) -> Volatility:
        """Learn from the first days."""
        n = round(TRAINING * len(returns))
        r = centred(returns[RETURN].to_numpy(), n)
        X = logs(r)
        model = learn(X[max(0, n - QUICK) if quick else 0 : n])
        variances = {
            OURS: calibrated(expected(model, lambda Y: np.exp(Y[:, 0]), X), r, n),
            GARCH: Garch().fit(r[:n]).forecast_variance(r),
            AVERAGE: moving_average(r, n),
            NONE: np.full(len(r), (r[:n] ** 2).mean()),
            GJR: gjr(r, n),
        }
        return cls(returns, n, model, variances)

    @cached_property
    def squares(self) -> np.ndarray:
        """r², less the mean of the training days, of all days."""
        return centred(self.returns[RETURN].to_numpy(), self.n) ** 2

    def qlike(self, name: str) -> float:
        """Of the days held out."""
        return qlike(self.variances[name][self.n :], self.squares[self.n :])

    def mse(self, name: str) -> float:
        """Of the logarithm of the variance, on the days held out."""
        return mse_log_variance(self.variances[name][self.n :], self.squares[self.n :])

    @property
    def gap(self) -> tuple[float, float]:
        """QLIKE of GARCH less ours, and its standard error from means of months."""
        ours, theirs = (
            np.log(v[self.n :]) + self.squares[self.n :] / v[self.n :]
            for v in (self.variances[OURS], self.variances[GARCH])
        )
        whole = len(ours) // MONTH * MONTH
        months = (theirs - ours)[:whole].reshape(-1, MONTH).mean(axis=1)
        return float((theirs - ours).mean()), float(months.std() / len(months) ** 0.5)


def centred(r: np.ndarray, n: int) -> np.ndarray:
    """Returns less the mean of the first n."""
    return r - r[:n].mean()


def logs(r: np.ndarray) -> np.ndarray:
    """log r², (n, 1); a day without any change is a missing one."""
    return np.log(np.where(r == 0, np.nan, r**2))[:, None]


def learn(X: np.ndarray) -> KernelStateSpace:
    """The model."""
    with hushed():
        return KernelStateSpace(random_state=0, backbone=None).fit(X)


def calibrated(variance: np.ndarray, r: np.ndarray, n: int) -> np.ndarray:
    """Forecasts times the constant with the least QLIKE on the first n days."""
    return variance * np.mean(r[:n] ** 2 / variance[:n])


def moving_average(r: np.ndarray, n: int) -> np.ndarray:
    """v_t = 0.94 v_{t−1} + 0.06 r²_{t−1}."""
    variance = np.empty(len(r))
    variance[0] = (r[:n] ** 2).mean()
    for t in range(1, len(r)):
        variance[t] = DECAY * variance[t - 1] + (1 - DECAY) * r[t - 1] ** 2
    return variance


def gjr(r: np.ndarray, n: int) -> np.ndarray:
    """σ² of GARCH in which a fall counts for more than a rise (Glosten et al. 1993)."""
    from arch import arch_model

    model = arch_model(r[:n], mean="Constant", vol="GARCH", p=1, o=1, q=1, rescale=False)
    mu, omega, alpha, gamma, beta = model.fit(disp="off", show_warning=False).params
    news = (alpha + gamma * (r < mu)) * (r - mu) ** 2
    variance = np.empty(len(r))
    variance[0] = r[:n].var()
    for t in range(1, len(r)):
        variance[t] = omega + news[t - 1] + beta * variance[t - 1]
    return variance


# ---------------------------------------------------------------- the job


def run(quick: bool) -> Section:
    """Volatility of the market, one day ahead."""
    v = Volatility.of(load_returns(), quick)
    seen, first, last = (f"{day:%B %Y}" for day in v.returns.index[[v.n - 1, v.n, -1]])
    blocks: list[Block] = [
        Prose(SAY("question", seen=seen, first=first, last=last)),
        _picture(v),
        Numbers(_lines(v)),
        _table(v),
        Note(_verdict(v)),
        _laws(v),
        _ahead(v),
        Prose(SAY("source")),
        *yours(
            "ssm volatility.csv --columns return --time date --log-squares --forecast 20",
            {"volatility.csv": dated(v.returns[-DAYS:])},
        ),
    ]
    return Section(TITLE, blocks)


def _lines(v: Volatility) -> list[Fact]:
    gap, error = v.gap
    values = {
        "QLIKE of the days held out": f"{v.qlike(OURS):.3f}, GARCH(1,1) {v.qlike(GARCH):.3f}",
        "Error of log σ²": f"{v.mse(OURS):.2f}, GARCH(1,1) {v.mse(GARCH):.2f}",
        "Guard": f"{v.model.guard_[0]:,.0f} days",
    }
    return SAY.facts(values, n=len(v.squares) - v.n, gap=minus(f"{gap:.3f}"), error=error)


def _picture(v: Volatility) -> Figure:
    times, r = v.returns.index.to_numpy(), v.squares**0.5
    ours, garch = v.variances[OURS] ** 0.5, v.variances[GARCH] ** 0.5

    def plot(panels: Any) -> None:
        above, below = panels
        above.plot(times, r, ".", color=DATA, ms=3, alpha=0.5, mew=0, rasterized=True)
        above.plot([], [], ".", color=DATA, label="size of the return")
        above.set(ylabel="percent", ylim=(0, 6))
        below.plot(times, garch, color=PLAIN, lw=0.8, label="GARCH(1,1)")
        below.set(ylabel="percent, logarithmic", yscale="log", yticks=[0.5, 1, 2, 4])
        below.set_yticks([], minor=True)
        below.set_yticklabels(["0.5", "1", "2", "4"])
        for axes in panels:
            axes.plot(times, ours, color=CURVE, lw=1, label="state space")
            axes.axvline(times[v.n], color=TRUTH, lw=1, ls=":")
            axes.margins(x=0)
            legend_above(axes)
        time_axis(below, times)
        below.set_xlabel("")

    return Figure.stacked("volatility", SAY("picture"), plot, 2)


def _table(v: Volatility) -> Grid:
    rows = [(name, minus(f"{v.qlike(name):.3f}"), f"{v.mse(name):.2f}") for name in v.variances]
    caption = f"Over the {len(v.squares) - v.n:,} days held out; lower is better"
    return Grid(["", "QLIKE", "error of log σ²"], rows, caption)


def _verdict(v: Volatility) -> str:
    """Who won, whoever it was."""
    gap, error = v.gap
    who = "the state-space model" if gap > 0 else "GARCH(1,1)"
    near = abs(gap) <= 2 * error
    words = [SAY("level") if near else SAY("won", who=who, gap=abs(gap), error=error)]
    if v.qlike(GJR) < min(v.qlike(OURS), v.qlike(GARCH)):
        words.append(SAY("sign", gjr=minus(f"{v.qlike(GJR):.3f}")))
    return " ".join(words)


def _laws(v: Volatility) -> Figure:
    shown = laws(v.model, [0])

    def plot(panels: Any) -> None:
        shown.plot(panels)
        panels[0].set(xlabel="state today", ylabel="state tomorrow")
        panels[1].set(xlabel="state", ylabel="log r²")

    return replace(shown, name="volatility-laws", caption=SAY("laws"), plot=plot)


def _ahead(v: Volatility) -> Figure:
    days = v.returns.index[-4 * BEFORE :]
    X = logs(centred(v.returns[RETURN].to_numpy(), v.n))[-4 * BEFORE :]
    whole = ForecastDisplay.from_estimator(v.model, X, steps=AHEAD, times=days, level=LEVEL)

    def plot(axes: Any) -> None:
        whole.plot(axes)
        axes.set(ylabel="log r²", xlabel="", xlim=(days[-BEFORE], whole.ahead_times[-1]))

    caption = SAY("ahead", before=BEFORE, steps=AHEAD, level=percent(LEVEL))
    return Figure("volatility-ahead", caption, plot, 3.4)

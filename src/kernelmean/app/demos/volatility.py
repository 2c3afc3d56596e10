"""S&P 500: how volatile tomorrow will be, by a state-space model of log squared returns."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ...comparators import Garch, mse_log_variance, qlike
from ...core.checks import NumericalWarning
from ...display import ForecastDisplay, ObservationDisplay, TransitionDisplay
from ...display.style import legend_above, time_axis
from ...statespace.kernel_state_space import KernelStateSpace
from ..filterreport import below_each_other
from ..page import STYLE, Figure, Grid, Note, Numbers, Prose, Section, canvas
from ..ssm import expected
from .job import Job, Result
from .sp500 import RETURN, TRAINING, load_returns

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        return KernelStateSpace(random_state=0).fit(X)


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


def run(quick: bool) -> Result:
    """Volatility of the market, one day ahead."""
    v = Volatility.of(load_returns(), quick)
    lines = _lines(v)
    return Result([(name, value) for name, value, _ in lines], _section(v, lines))


def _lines(v: Volatility) -> list[tuple[str, str, str]]:
    gap, error = v.gap
    return [
        (
            "QLIKE of the days held out",
            f"{v.qlike(OURS):.3f}, GARCH(1,1) {v.qlike(GARCH):.3f}",
            f"Mean of log σ² + r²/σ² over {len(v.squares) - v.n:,} days, each forecast from those "
            f"before. Lower is better; the difference is {_signed(gap)} ± {error:.3f}.",
        ),
        (
            "Error of log σ²",
            f"{v.mse(OURS):.2f}, GARCH(1,1) {v.mse(GARCH):.2f}",
            "Mean of (log r² + 1.27 − log σ²)². Most of it is the noise of a single day, about "
            "4.9.",
        ),
        (
            "Guard",
            f"{v.model.guard_[0]:,.0f} days",
            "As how many days the model counts a straight line with the same noise everywhere, in "
            "the law of log r² given the state. Chosen by training days held back: with many, it "
            "can foretell markets calmer than any it has seen.",
        ),
    ]


def _signed(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def _section(v: Volatility, lines: list) -> Section:
    first, last = (f"{day:%B %Y}" for day in v.returns.index[[v.n, -1]])
    return Section(
        "S&P 500: how volatile tomorrow will be",
        [
            Prose(
                "The volatility of a market moves continuously and is never seen: all there is to "
                "go by is the size of each day's return. A state-space model of log r² learns how "
                "volatility moves and how a day's return scatters around it, with no family of "
                "distributions for either. From each day's forecast law comes the expected square "
                "of tomorrow's return, E[r² | past], as a mean over the weighted training days, "
                "times one constant that makes it right on average over these. It was learned "
                f"from the days up to {v.returns.index[v.n - 1]:%B %Y}; those from {first} to "
                f"{last} are new."
            ),
            _picture(v),
            Numbers(lines),
            _table(v),
            Note(_verdict(v)),
            _laws(v),
            _ahead(v),
            Prose(
                "Returns of the section before (`arch.data.sp500`), less their mean over the "
                "training days. The GARCH models are those of the package arch, by maximum "
                "likelihood with normal errors."
            ),
        ],
    )


def _picture(v: Volatility) -> Figure:
    drawing, (above, below) = below_each_other(2)
    times, r = v.returns.index.to_numpy(), v.squares**0.5
    above.plot(times, r, ".", color="#888888", ms=3, alpha=0.5, mew=0, rasterized=True)
    above.plot([], [], ".", color="#888888", label="size of the return")
    above.plot(times, v.variances[OURS] ** 0.5, color="#0b5394", lw=1, label="state space")
    above.set(ylabel="percent", ylim=(0, 6))
    below.plot(times, v.variances[OURS] ** 0.5, color="#0b5394", lw=1, label="state space")
    below.plot(times, v.variances[GARCH] ** 0.5, color="#b45f06", lw=0.8, label="GARCH(1,1)")
    below.set(ylabel="percent, logarithmic", yscale="log", yticks=[0.5, 1, 2, 4])
    below.set_yticks([], minor=True)
    below.set_yticklabels(["0.5", "1", "2", "4"])
    for axes in (above, below):
        axes.axvline(times[v.n], color="#222222", lw=1, ls=":")
        axes.margins(x=0)
        legend_above(axes)
    time_axis(below, times)
    below.set_xlabel("")
    caption = (
        "Above: the size of each day's return, and the volatility that the days before foretell. "
        "Below: the same beside GARCH. What lies right of the dotted line was not learned from."
    )
    return Figure(drawing, caption, "volatility")


def _table(v: Volatility) -> Grid:
    rows = [(name, _signed(v.qlike(name)), f"{v.mse(name):.2f}") for name in v.variances]
    caption = f"Over the {len(v.squares) - v.n:,} days held out; lower is better"
    return Grid(["", "QLIKE", "error of log σ²"], rows, caption)


def _verdict(v: Volatility) -> str:
    """Who won, whoever it was."""
    gap, error = v.gap
    if abs(gap) <= 2 * error:
        words = ["State space and GARCH(1,1) are level, within the noise of the days held out."]
    else:
        ahead = "the state-space model" if gap > 0 else "GARCH(1,1)"
        words = [f"By QLIKE {ahead} is ahead, by {abs(gap):.3f} ± {error:.3f}."]
    if v.qlike(GJR) < min(v.qlike(OURS), v.qlike(GARCH)):
        words.append(
            f"A GARCH model that knows the sign of a return is better than both "
            f"({_signed(v.qlike(GJR))}): falls make markets nervous, and log r² does not tell "
            "them from rises."
        )
    return " ".join(words)


def _laws(v: Volatility) -> Figure:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawing

    with mpl.rc_context(STYLE):
        drawing = Drawing(figsize=(6.8, 3.3), layout="constrained")
        left, right = drawing.subplots(1, 2)
    TransitionDisplay.from_estimator(v.model).plot(left)
    ObservationDisplay.from_estimator(v.model).plot(right)
    left.set(xlabel="state today", ylabel="state tomorrow")
    right.set(xlabel="state", ylabel="log r²")
    caption = (
        "Left: where the state goes from one day to the next; on the dashed line it stays. Right: "
        "the law of log r² in each state. The long tail downwards is that of days on which next to "
        "nothing happened."
    )
    return Figure(drawing, caption, "volatility-laws")


def _ahead(v: Volatility) -> Figure:
    drawing, axes = canvas(height=3.4)
    last = v.returns.index[-BEFORE:]
    X = logs(centred(v.returns[RETURN].to_numpy(), v.n))
    whole = ForecastDisplay.from_estimator(
        v.model, X[-4 * BEFORE :], steps=AHEAD, times=v.returns.index[-4 * BEFORE :]
    )
    whole.plot(axes)
    axes.set(ylabel="log r²", xlabel="", xlim=(last[0], whole.ahead_times[-1]))
    caption = f"The last {BEFORE} days, each with its 90% interval, and the {AHEAD} that follow."
    return Figure(drawing, caption, "volatility-ahead")


JOB = Job("S&P 500: how volatile tomorrow will be", run)

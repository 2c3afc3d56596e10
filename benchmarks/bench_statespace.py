"""KernelStateSpace for growing n, beside lagged regressions; the loss of the thesis by two ways."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import series_data
from _harness import Measured, Table, arguments, measure, ratio

import kernelmean as km
from kernelmean.comparators import AutoRegression, LaggedRidge
from kernelmean.statespace.operators import minimise

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the papers stand beside this folder
from papers.spiteri2023 import adam, algorithm3

TEST = 1000  # rows that are forecast
TARGETS = {
    ("default", 1000): "under 3 s (fit)",
    ("default", 50_000): "under 60 s (fit)",
}
MOST = 1000  # of L-BFGS's iterations
STEPSIZE = 1e-5  # of Adam


# --------------------------------------------------------------- jobs: fit, then forecast TEST rows
def draw(design: str, n: int) -> tuple:
    data = km.datasets.make_state_space(design, n, random_state=0)
    return data, data.model.sample(TEST, 1)


def default(data, test) -> float:
    return error(km.KernelStateSpace(random_state=0).fit(data.X), test)


def moments(data, test) -> float:
    return error(km.KernelStateSpace(refine=False, random_state=0).fit(data.X), test)


def autoregression(data, test) -> float:
    return error(AutoRegression().fit(data.X), test)


def ridge(data, test) -> float:
    return error(LaggedRidge().fit(data.X), test)


def exact(data, test) -> float:
    return error(test.model, test)


def error(model, test) -> float:
    """Mean squared error over that of the exact filter."""
    ours, best = (((test.X - m.predict(test.X)) ** 2).mean() for m in (model, test.model))
    return float(ours / best)


JOBS = {
    "default": default,
    "moments": moments,
    "LaggedRidge": ridge,
    "AR(1)": autoregression,
    "exact filter": exact,
}


def grow(sizes: dict[tuple[str, int], tuple[str, ...]]) -> None:
    """A table of all jobs, for each design and n those that are named."""
    table = Table(
        f"Fit n rows and forecast {TEST:,} others; error: MSE over that of the exact filter",
        *["    design", "        n", "         job", "seconds", "over ours", " peak MB", "error"],
        "                      target",
    )
    for (design, n), names in sizes.items():
        runs: dict[str, Measured] = {}
        for name in names:
            runs[name] = run = measure(JOBS[name], design, n, setup=draw, repeats=repeats(n))
            over, target = ratio(run.seconds, runs[names[0]].seconds), TARGETS.get((name, n), "")
            table.row(design, n, name, run.seconds, over, run.peak_mb, run.result, target)


def repeats(n: int) -> int:
    return 1 if n > 5000 else 3


# ---------------------------------------------------------------- series, beside simple rivals
AHEAD, ORIGINS = 12, 25  # rows ahead, forecast from so many places


def autoregression_by_aic(y: np.ndarray, n: int, season: int):
    """Statsmodels' AutoReg with a constant, dummies of the season, and the order of least AIC."""
    from statsmodels.tsa.ar_model import AutoReg, ar_select_order

    how = {"seasonal": bool(season), "period": season or None}
    lags = ar_select_order(y[:n], int(12 * (n / 100) ** 0.25), ic="aic", **how).ar_lags or 0
    params = AutoReg(y[:n], lags, **how).fit().params

    def ahead(t, steps):
        return AutoReg(y[:t], lags, **how).predict(params, start=t, end=t + steps - 1)

    return AutoReg(y, lags, **how).predict(params, start=n, end=len(y) - 1), ahead


def components(y: np.ndarray, n: int, season: int):
    """Statsmodels' UnobservedComponents: a level, or a level and a slope, by AIC."""
    from statsmodels.api import tsa

    fits = [
        tsa.UnobservedComponents(y[:n], level, seasonal=season or None).fit(disp=0, maxiter=200)
        for level in ("local level", "local linear trend")
    ]
    best = min(fits, key=lambda fit: fit.aic)
    one = best.apply(y).get_prediction(start=n).predicted_mean
    return one, lambda t, steps: best.apply(y[:t]).forecast(steps)


def naive(y: np.ndarray, n: int, season: int):
    """The row before, or that of the last season."""
    k = season or 1
    return y[n - k : -k], lambda t, steps: y[t - k + np.arange(steps) % k]


SIMPLE = {"AutoReg": autoregression_by_aic, "components": components, "no change": naive}


def beside(found: dict) -> None:
    """Squared errors of the last 30% of each series, relative to the best rival's."""
    table = Table(
        "Series: fit 70%, forecast the rest; squared error over that of the best simple rival",
        *["             series", "    one ahead", "inside 90%", "12 ahead", "inside 90%"],
        *["   best rival", "                               backbone", "  seconds"],
    )
    for name, (y, season) in found.items():
        n, Y = int(0.7 * len(y)), y[:, None]
        origins = np.linspace(n, len(y) - AHEAD, ORIGINS).astype(int)
        last = np.stack([y[t : t + AHEAD] for t in origins])
        rivals = {}
        for rival, forecasts in SIMPLE.items():
            one, ahead = forecasts(y, n, season)
            far = np.stack([ahead(t, AHEAD) for t in origins])
            rivals[rival] = ((one - y[n:]) ** 2).mean(), ((far - last) ** 2).mean()
        begun = time.process_time()
        line = km.Backbone(season=season) if season else "auto"
        m = km.KernelStateSpace(backbone=line).fit(Y[:n])
        seconds = time.process_time() - begun
        low, high = m.predict_interval(Y, 0.9)
        laws = [m.forecast(Y[:t], AHEAD) for t in origins]
        ends = np.stack([law.interval(0.9) for law in laws])[..., 0]
        inside = (ends[:, 0] <= last) & (last <= ends[:, 1])
        far = np.stack([law.mean()[:, 0] for law in laws])
        best = [min(errors[k] for errors in rivals.values()) for k in (0, 1)]
        which = min(rivals, key=lambda rival: rivals[rival][0])
        form = m.backbone_ and m.backbone_.form
        told = "none" if form is None else f"{form.order}, d={form.difference}, θ={form.memory:g}"
        change = "" if form is None else f", {m.backbone_.transform.name or 'as it is'}"
        table.row(
            name,
            ((Y - m.predict(Y))[n:] ** 2).mean() / best[0],
            ((low <= Y) & (high >= Y))[n:].mean(),
            ((far - last) ** 2).mean() / best[1],
            inside.mean(),
            which,
            told + change,
            seconds,
        )


# ---------------------------------------------------------------- the loss of the thesis
@dataclass(frozen=True)
class Descent:
    """Where a minimiser ended, and after how many steps."""

    loss: float
    steps: int


def problem_of(T: int, *given) -> tuple:
    """The start that both share, and no matrix of either."""
    X = km.datasets.make_state_space("linear", T, random_state=0).X
    return algorithm3.Problem.of(X, 0), *given


def by_adam(problem, outer: int, inner: int) -> Descent:
    dense = problem.dense
    *_, last = adam.descend(
        dense, *dense.start(), n_outer=outer, n_inner=inner, stepsize=STEPSIZE, tol=0.0
    )
    return Descent(dense.loss(*last), 2 * outer * inner)


def enough(T: int, goal: float) -> tuple:
    """The problem anew, and the number of L-BFGS's iterations that bring the loss to a goal."""
    problem = problem_of(T)[0]
    fit = minimise(problem.moments, *problem.start(), max_iter=MOST, tol=0.0)
    losses = np.sum(fit.history, axis=1)
    return replace(problem), int(np.argmax(losses <= goal)) or MOST


def by_lbfgs(problem, steps: int) -> Descent:
    fit = minimise(problem.moments, *problem.start(), max_iter=steps, tol=0.0)
    return Descent(fit.loss, steps)


def descend(T: int, outer: int, inner: int) -> None:
    table = Table(
        f"linear design: the loss of Algorithm 3 at T = {T}, from the same start",
        *["                minimiser", "   steps", "seconds", "over ours", " peak MB", "    loss"],
    )
    adam = measure(by_adam, T, outer, inner, setup=problem_of, repeats=1)
    lbfgs = measure(by_lbfgs, T, adam.result.loss, setup=enough)
    for name, run in (("L-BFGS, coordinates", lbfgs), ("Adam, T x T", adam)):
        found, over = run.result, ratio(run.seconds, lbfgs.seconds)
        table.row(name, found.steps, run.seconds, over, run.peak_mb, found.loss)


if __name__ == "__main__":
    if arguments(__doc__).quick:
        grow({("linear", 200): ("default", "moments", "AR(1)", "exact filter")})
        descend(60, 1, 100)
    else:
        every = tuple(JOBS)
        ours = ("default", "moments", "exact filter")
        grow(
            {("linear", n): every if n == 1000 else ours for n in (1000, 5000, 20_000, 50_000)}
            | {(design, 1000): every for design in ("bimodal", "volatility")}
        )
        descend(300, 10, 500)
        beside(series_data.known() | series_data.drawn(0))
        beside(series_data.others() | series_data.drawn(11) | series_data.drawn(12))

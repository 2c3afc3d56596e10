"""Figures 4.2 and 4.3: what happens to the forecasts while the loss is minimised."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km
from kernelmean.datasets import StateSpaceData

from ..reproduce import Experiment
from .adam import INNER, OUTER, adam
from .algorithm3 import Laws, Problem
from .dynamics import DEFAULT, FIRST_SEED, MODELS, PAPER, TEST, draw

ADAM, LBFGS, EM = "Adam, T × T", "L-BFGS, coordinates", "EM (default)"
ROWS = 300  # learned from: n × n matrices take 10,000 steps
VALIDATION = 200
PAUSE = 100  # steps between two looks at Adam
ITERATIONS = (1, 2, 3, 5, 8, 13, 20, 35, 60, 100, 200, 350, 600, 1000)
STEPSIZE = 1e-5
PARTS = {"train": "#0072B2", "validation": "#E69F00", "test": "#D55E00"}
TERMS = {"loss": "black", "moments": "#0072B2", "emission": "#009E73", "stationarity": "#CC79A7"}
LOOKS = (400, 5000, 10_000)  # steps of the thesis's pictures


def run(seed: int, design: str, n: int, steps: int) -> list[dict]:
    """Errors of the forecasts, over those of the exact filter, and parts of the loss."""
    data = draw(seed, design, n, VALIDATION + TEST)
    problem = Problem.of(data.X[:n], seed)
    best = squares(data.model.predict(data.X), data, n)
    traces = {ADAM: by_adam(problem, steps), LBFGS: problem.descend(ITERATIONS)}
    rows = [
        {
            "method": name,
            "step": step,
            **over(laws.predict(data.X)[0], data, n, best),
            **terms(laws),
        }
        for name, trace in traces.items()
        for step, laws in trace
    ]
    model = km.KernelStateSpace(random_state=seed).fit(data.X[:n])
    return [*rows, {"method": EM, "step": 0, **over(model.predict(data.X), data, n, best)}]


def by_adam(problem: Problem, steps: int) -> Iterator[tuple[int, Laws]]:
    """Algorithm 3, with a look after every `PAUSE` steps, at which Adam begins anew."""
    dense = problem.dense
    W, Wt = dense.start()
    yield 0, problem.laws(W, Wt)
    for step in range(PAUSE, steps + 1, PAUSE):
        if (step - 1) // INNER % 2 == 0:
            W = adam(dense.gradient_of_W(Wt), W, PAUSE, STEPSIZE, 0.0)
        else:
            Wt = adam(dense.gradient_of_Wt(W), Wt, PAUSE, STEPSIZE, 0.0)
        yield step, problem.laws(W, Wt)


def squares(forecasts: np.ndarray, data: StateSpaceData, n: int) -> dict[str, float]:
    """Mean squared errors of the three parts of the sequence."""
    off = np.split((data.X[:, 0] - forecasts[:, 0]) ** 2, [n, n + VALIDATION])
    return {part: float(e.mean()) for part, e in zip(PARTS, off, strict=True)}


def over(forecasts: np.ndarray, data: StateSpaceData, n: int, best: dict) -> dict[str, float]:
    return {part: e / best[part] for part, e in squares(forecasts, data, n).items()}


def terms(laws: Laws) -> dict[str, float]:
    parts = laws.problem.dense.terms(laws.W, laws.Wt)
    return dict(zip(TERMS, (sum(parts), *parts), strict=True))


# ---------------------------------------------------------------- table and picture
def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """At the start, at the steps that the thesis shows, at the lowest validation error."""
    return pd.DataFrame(
        [
            {
                "model": MODELS[design],
                "method": method,
                "at": at,
                "step": row.step,
                **{f"MSE over exact, {part}": row[part] for part in PARTS},
                "loss": row.loss,
                "published": "errors rise at once, then fall",
            }
            for (design, method), part in first_run(rows).groupby(["design", "method"], sort=False)
            for at, row in looked_at(part)
        ]
    )


def first_run(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows.seed == rows.seed.min()]


def looked_at(part: pd.DataFrame) -> list[tuple[str, pd.Series]]:
    if len(part) == 1:
        return [("end", part.iloc[0])]
    some = [(f"{step:,} steps", part[part.step == step]) for step in LOOKS]
    return [
        ("start", part.iloc[0]),
        *((name, found.iloc[0]) for name, found in some if len(found)),
        ("best on validation", part.loc[part[part.step > 0].validation.idxmin()]),
        ("end", part.iloc[-1]),
    ]


def figure(rows: pd.DataFrame) -> Figure:
    """A line for each model and method: errors and parts of the loss over steps."""
    rows = first_run(rows)
    lines = [
        (design, method)
        for design in MODELS
        for method in (ADAM, LBFGS)
        if len(rows[(rows.design == design) & (rows.method == method)])
    ]
    picture = Figure(figsize=(11, 2.9 * len(lines)), layout="constrained")
    panels = picture.subplots(len(lines), 2, squeeze=False)
    for line, (design, method) in zip(panels, lines, strict=True):
        some = rows[rows.design == design]
        part = some[some.method == method].set_index("step")
        final = some[some.method == EM].test.iloc[0]
        draw_errors(line[0], part, final)
        for name, colour in TERMS.items():
            line[1].plot(part[name], color=colour, label=name, lw=1.2)
        line[1].set(yscale="log", ylabel="parts of the loss")
        line[0].set_title(f"{MODELS[design]}, {method}")
        for ax in line:
            steps_below(ax, method)
            ax.legend(fontsize=8, frameon=False, ncols=2)
            ax.grid(alpha=0.3)
    return picture


def draw_errors(ax, part: pd.DataFrame, final: float) -> None:
    for name, colour in PARTS.items():
        ax.plot(part[name], color=colour, label=name, lw=1.2)
    ax.axhline(final, color="black", ls="--", lw=1, label=f"{DEFAULT}, test")
    ax.set(yscale="log", ylabel="MSE over exact")
    top = math.ceil(part[list(PARTS)].max(axis=None))
    ticks = [t for t in (1, 2, 3, 5, 10, 20, 50) if t <= top]
    ax.set_yticks(ticks, [str(t) for t in ticks])
    ax.set_yticks([], minor=True)


def steps_below(ax, method: str) -> None:
    ax.set_xlabel("steps")
    if method == LBFGS:
        ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(left=0)


# ---------------------------------------------------------------- registered
STEPS = 2 * OUTER * INNER
EXPERIMENTS = [
    Experiment(
        name="spiteri2023-figure42",
        paper=PAPER,
        item="Figures 4.2 and 4.3",
        title="Errors of the forecasts and parts of the loss while it is minimised.",
        run=run,
        summary=summary,
        figure=figure,
        grid=[{"design": design, "n": ROWS, "steps": STEPS} for design in ("linear", "bimodal")],
        quick=[{"design": "linear", "n": 60, "steps": 400}],
        runs=1,
        first_seed=FIRST_SEED,
        seconds=220,
        quick_runs=1,
        notes=f"{ROWS} rows learned from (thesis: 800), {VALIDATION} of validation, {TEST} of "
        f"test. Adam: Algorithm 3 with gradients of its loss, step size {STEPSIZE:g}, 500 steps "
        "for either matrix in turn, begun anew after every look. L-BFGS: the same loss from the "
        "same start. The dashed line is the default of this package, which takes ten steps of "
        "another loss and then EM.",
    )
]

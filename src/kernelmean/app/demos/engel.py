"""Engel's households: the whole distribution of food spending given income."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.linear_model import QuantileRegressor

from ...core.checks import NumericalWarning
from ...datasets import OutcomeTable, load_engel
from ...densities.conditional_density import ConditionalDensity
from ...display import TRUTH, ConditionalDensityDisplay, DensityMapDisplay
from ..page import Figure, Note, Numbers, Prose, Section, canvas, number
from .job import Job, Result

LEVEL = 0.9
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
ENDS = [LEVELS[0], LEVELS[-1]]
INCOMES = (500.0, 1000.0, 1500.0)
FOLDS, FEW = 5, 2


@dataclass(frozen=True)
class HeldOut:
    """How the intervals did at households left out: shares inside, and mean widths."""

    inside: float
    width: float
    lines_inside: float
    lines_width: float
    folds: int


def run(quick: bool) -> Result:
    """Densities of food spending given income, beside quantile regression."""
    table = load_engel()
    model = fitted(table.X, table.target)
    lines = _lines(model, held_out(table, FEW if quick else FOLDS))
    return Result([(name, value) for name, value, _ in lines], _section(table, model, lines))


def fitted(X: pd.DataFrame, y: pd.Series) -> ConditionalDensity:
    """The model, with nothing set by hand."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        return ConditionalDensity().fit(X, y)


def straight_quantiles(X: pd.DataFrame, y: pd.Series, at: pd.DataFrame, levels) -> np.ndarray:
    """Linear quantile regression (Koenker and Bassett 1978), (rows of at, levels)."""
    lines = (QuantileRegressor(quantile=q, alpha=0.0, solver="highs").fit(X, y) for q in levels)
    return np.stack([line.predict(at) for line in lines], axis=1)


def held_out(table: OutcomeTable, folds: int) -> HeldOut:
    """Both kinds of intervals at households that neither was shown."""
    X, y = table.X, table.target
    fold = np.random.default_rng(0).permutation(len(X)) % folds
    ends, lines = np.empty((2, len(X), 2))
    for k in range(folds):
        inner, outer = fold != k, fold == k
        model = fitted(X[inner], y[inner])
        ends[outer] = np.stack(model.predict_interval(X[outer], LEVEL), axis=1)
        lines[outer] = straight_quantiles(X[inner], y[inner], X[outer], ENDS)
    return HeldOut(*_did(ends, y), *_did(lines, y), folds)


def _did(ends: np.ndarray, y: pd.Series) -> tuple[float, float]:
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    return float(inside.mean()), float((ends[:, 1] - ends[:, 0]).mean())


def _lines(model: ConditionalDensity, out: HeldOut) -> list[tuple[str, str, str]]:
    at = pd.DataFrame({"income": INCOMES})
    low, middle, high = model.predict_quantile(at, [0.05, 0.5, 0.95]).T
    rows = [
        (
            f"Food at an income of {number(x, 4)}",
            f"{number(float(m))} ({number(float(a))} to {number(float(b))})",
            f"Francs a year: the median, and the central {100 * LEVEL:.0f}%.",
        )
        for x, a, m, b in zip(INCOMES, low, middle, high, strict=True)
    ]
    return [
        *rows,
        (
            f"Households left out, inside their {100 * LEVEL:.0f}% interval",
            f"{100 * out.inside:.0f}%, {number(out.width)} wide",
            f"In {out.folds} folds, each predicted from the others; the mean width is in francs.",
        ),
        (
            "The same for straight quantile lines",
            f"{100 * out.lines_inside:.0f}%, {number(out.lines_width)} wide",
            "Linear quantile regression (scikit-learn), which takes the lines to be straight: here "
            "they nearly are.",
        ),
    ]


def _section(table: OutcomeTable, model: ConditionalDensity, lines: list) -> Section:
    return Section(
        "Engel's households: not the mean, but the whole distribution",
        [
            Prose(
                "Richer households spend more on food. But the mean hides what Engel's data are "
                "known for: poor households all spend about the same share, while among the richer "
                "ones spending differs widely. A conditional density shows this at every income, "
                "and gives any quantile, interval or sample from it, with no family of "
                "distributions assumed."
            ),
            _map(table, model),
            _ridges(table, model),
            Numbers(lines),
            Note(
                "There are few households above 1,500 francs, and the wiggles there are those of a "
                "dozen families. The straight lines know better only because the truth happens to "
                "be near a line."
            ),
            Prose(f"{table.description} {table.source}"),
        ],
    )


def _map(table: OutcomeTable, model: ConditionalDensity) -> Figure:
    drawing, axes = canvas()
    display = DensityMapDisplay.from_estimator(model, table.X, table.target, levels=LEVELS)
    display.plot(axes)
    at = pd.DataFrame({"income": display.grid_x})
    straight = straight_quantiles(table.X, table.target, at, [*ENDS, 0.5])
    axes.plot(display.grid_x, straight, "--", color=TRUTH, lw=1.0)
    axes.set(xlabel="income (francs)", ylabel="spent on food (francs)")
    caption = (
        "Spending on food along income: the darker, the denser. Lines are quantiles; the dashed "
        "ones are linear quantile regression at 5%, 50% and 95%. Dots are households; the poorest "
        "and richest 2.5% lie outside the frame."
    )
    return Figure(drawing, caption, "engel-map")


def _ridges(table: OutcomeTable, model: ConditionalDensity) -> Figure:
    at = pd.DataFrame({"income": INCOMES})
    drawing, axes = canvas(height=2.8)
    labels = [f"income {x:,.0f}" for x in INCOMES]
    ConditionalDensityDisplay.from_estimator(
        model, at, table.target, level=LEVEL, labels=labels
    ).plot(axes)
    axes.set_xlabel("spent on food (francs)")
    caption = (
        f"Densities at three incomes, with median and central {100 * LEVEL:.0f}%. Ticks are the "
        "thirty households of the most similar income."
    )
    return Figure(drawing, caption, "engel-densities")


JOB = Job("Engel's households: the whole distribution of food spending", run)

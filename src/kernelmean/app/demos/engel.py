"""Engel's households: the whole distribution of food spending given income."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import QuantileRegressor

from ...datasets import OutcomeTable, load_engel
from ...densities.conditional_density import ConditionalDensity
from ...display import TRUTH, DensityMapDisplay
from ..command import Names
from ..commands.density import Densities, Settings, ridges
from ..errors import hushed
from ..report import Block, Fact, Figure, Note, Numbers, Prose, Section
from ..words import Texts, number, percent
from . import yours

TITLE = "Engel's households: the whole distribution of food spending"
LEVEL = 0.9
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
ENDS = [LEVELS[0], LEVELS[-1]]
INCOMES = (500.0, 1000.0, 1500.0)
FOLDS, FEW = 5, 2
SAY = Texts("engel")


def run(quick: bool) -> Section:
    """Densities of food spending given income, beside quantile regression."""
    table = load_engel()
    y = str(table.target.name)
    at = pd.DataFrame({"income": INCOMES}, index=[f"{x:,.0f}" for x in INCOMES])
    with hushed():
        a = Densities.of(
            table.X.join(table.target), Settings(Names([y]), Names(table.X), level=LEVEL), at
        )
        labels = [f"income {x}" for x in at.index]
        blocks: list[Block] = [
            Prose(SAY("question")),
            density_map(a, table),
            ridges(a, y, at, labels, "engel-densities", ""),
            Numbers(facts(a, table, FEW if quick else FOLDS)),
            Note(SAY("few")),
            Prose(f"{table.description} {table.source}"),
            *yours(
                f"density engel.csv --y {y} --x income --level {LEVEL}",
                {"engel.csv": table.X.join(table.target)},
            ),
        ]
    return Section(TITLE, blocks)


def straight_quantiles(X: pd.DataFrame, y: pd.Series, at: pd.DataFrame, levels) -> np.ndarray:
    """Linear quantile regression (Koenker and Bassett 1978), (rows of at, levels)."""
    lines = (QuantileRegressor(quantile=q, alpha=0.0, solver="highs").fit(X, y) for q in levels)
    return np.stack([line.predict(at) for line in lines], axis=1)


def held_out(table: OutcomeTable, folds: int) -> list[str]:
    """How the intervals, and then straight lines, do at households that neither was shown."""
    X, y = table.X, table.target
    fold = np.random.default_rng(0).permutation(len(X)) % folds
    ends, lines = np.empty((2, len(X), 2))
    for k in range(folds):
        inner, outer = fold != k, fold == k
        model = ConditionalDensity().fit(X[inner], y[inner])
        ends[outer] = np.stack(model.predict_interval(X[outer], LEVEL), axis=1)
        lines[outer] = straight_quantiles(X[inner], y[inner], X[outer], ENDS)
    return [_did(found, y) for found in (ends, lines)]


def _did(ends: np.ndarray, y: pd.Series) -> str:
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    return f"{percent(inside.mean())}, {number((ends[:, 1] - ends[:, 0]).mean())} wide"


def facts(a: Densities, table: OutcomeTable, folds: int) -> list[Fact]:
    """Spending at a few incomes, and how good the intervals are."""
    y, level = a.y[0], percent(LEVEL)
    told = [[number(row[f"{y}_{end}"]) for end in ("median", "lower", "upper")]
            for _, row in a.table.iterrows()]  # fmt: skip
    values: dict[str, Any] = {
        f"Food at an income of {x}": (f"{m} ({low} to {high})", SAY("food", level=level))
        for x, (m, low, high) in zip(a.table.index, told, strict=True)
    }
    ours, lines = held_out(table, folds)
    values["Households left out, inside their interval"] = ours
    values["The same for straight quantile lines"] = lines
    return SAY.facts(values, level=level, folds=folds)


def density_map(a: Densities, table: OutcomeTable) -> Figure:
    """The density along income, with straight quantile lines."""
    display = DensityMapDisplay.from_estimator(a.model, table.X, table.target, levels=LEVELS)
    at = pd.DataFrame({"income": display.grid_x})
    straight = straight_quantiles(table.X, table.target, at, [*ENDS, 0.5])

    def plot(axes: Any) -> None:
        display.plot(axes)
        axes.plot(display.grid_x, straight, "--", color=TRUTH, lw=1.0)
        axes.set(xlabel="income (francs)", ylabel="spent on food (francs)")

    return Figure("engel-map", SAY("map"), plot)

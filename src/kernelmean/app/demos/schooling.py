"""Returns to schooling: what a year at school does to wages, by way of colleges nearby."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...datasets import IVTable, load_schooling
from ...kernels import Gaussian, Kernel, Linear, on_columns
from ..firststage import FirstStage
from ..page import Figure, Note, Numbers, Prose, Section, canvas, number
from .curves import Curves, draw, structural_curves, two_stage_least_squares
from .job import Job, Result

LOW, HIGH = 8.0, 16.0  # years between which the return is averaged


def run(quick: bool) -> Result:
    """Wages and schooling: the return to a year, and how little the instruments say."""
    table = standardised(load_schooling())
    at = np.linspace(8.0, 18.0, 101)
    curves = structural_curves(
        table, at, range(3 if quick else 21), kernel_x=partially_linear(table)
    )
    line, error = two_stage_least_squares(table)
    stage = FirstStage.of(*(part.to_numpy() for part in (table.X["educ"], table.Z, table.C)))
    lines = _returns(curves, line, error)
    return Result(
        [(name, value) for name, value, _ in lines], _section(table, curves, line, lines, stage)
    )


def partially_linear(table: IVTable) -> Kernel:
    """h(x, c) = f(x) + cᵀβ: a curve in schooling that the exogenous columns only shift."""
    return on_columns({table.x[0]: Gaussian()}) + on_columns({table.c: Linear()})


def standardised(table: IVTable) -> IVTable:
    """Exogenous columns in standard units, so that one regulariser suits them all."""
    C = table.frame[list(table.c)]
    frame = table.frame.assign(**((C - C.mean()) / C.std()))
    return replace(table, frame=frame)


def _returns(curves: Curves, line: float, error: float) -> list[tuple[str, str, str]]:
    iv, plain = curves.slope(LOW, HIGH)
    spread = curves.splits
    each = np.array([np.interp([LOW, HIGH], curves.at, row) for row in spread])
    low, high = np.quantile((each[:, 1] - each[:, 0]) / (HIGH - LOW), [0.1, 0.9])
    return [
        (
            "Return to a year, KernelIV",
            f"{100 * iv:.1f}%",
            f"Average slope of the median curve between {LOW:.0f} and {HIGH:.0f} years of school. "
            f"The middle 80% of the divisions: {100 * low:.1f}% to {100 * high:.1f}%.",
        ),
        (
            "Return to a year, plain kernel ridge",
            f"{100 * plain:.1f}%",
            "The same slope when wages are simply regressed on schooling and the other columns.",
        ),
        (
            "Return to a year, straight line (2SLS)",
            f"{100 * line:.1f}% ± {100 * error:.1f}%",
            "Two-stage least squares with the same instrument, with its standard error.",
        ),
    ]


def _section(
    table: IVTable, curves: Curves, line: float, lines: list, stage: FirstStage
) -> Section:
    return Section(
        "Schooling: what a year at school does to wages",
        [
            Prose(
                "Men with more schooling earn more. But whoever finds school easy may also find "
                "work easy, so part of the difference is not the school's doing. Growing up near a "
                "college makes schooling cheaper; if it does nothing else to wages, once age, race "
                "and place are given, it tells how wages move when only schooling does."
            ),
            _figure(table, curves, line),
            Numbers([*lines, *_first_stage(stage)]),
            Note(
                "The instrument is a single indicator that barely moves schooling. It fixes one "
                "contrast, between boys who grew up near a college and boys who did not, and one "
                "contrast cannot pin down a curve: what is drawn is mostly the regulariser's "
                "choice. The straight line takes all of it for its slope, with a margin of error "
                "that includes almost everything. This data set is here to show what that looks "
                "like."
            ),
            Prose(
                "Schooling enters through a Gaussian kernel and the other columns through a linear "
                "one, so they shift the curve without bending it. Age stands in for experience, "
                "which is made from schooling."
            ),
            Prose(f"{table.description} {table.source}"),
        ],
    )


def _figure(table: IVTable, curves: Curves, line: float) -> Figure:
    drawing, axes = canvas()
    draw(axes, table, curves, line)
    low, high = np.quantile(table.target, [0.01, 0.99])
    axes.set(xlabel="years of schooling", ylabel="log hourly wage (cents)", ylim=(low, high))
    caption = (
        f"Wages and schooling of {len(table.frame):,} men in 1976, other columns at their medians. "
        f"The band holds the middle 80% of {len(curves.splits)} random divisions of the rows "
        "between the two stages; the curve is their median. The 2SLS line is drawn through the "
        "curve at the median; the highest and lowest 1% of the wages lie outside the frame."
    )
    return Figure(drawing, caption, "schooling")


def _first_stage(stage: FirstStage) -> list[tuple[str, str, str]]:
    gain = stage.r2 - stage.r2_exogenous
    return [
        (
            "First stage: gain in R², F",
            f"{100 * gain:.2f}%, {number(stage.f)}",
            "The share of the variance of schooling that the instrument predicts beyond the "
            "exogenous columns (leave-one-out), and its F; an instrument with F near 10 is on the "
            "brink of weak.",
        )
    ]


JOB = Job("Schooling: what a year at school does to wages", run)

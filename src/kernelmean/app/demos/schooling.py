"""Returns to schooling: what a year at school does to wages, by way of colleges nearby."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...datasets import IVTable, load_schooling
from ...kernels import Gaussian, on_columns
from ..page import Figure, Note, Numbers, Prose, Section, canvas, number
from .curves import LEVEL, Curves, draw, structural_curves, two_stage_least_squares
from .job import Job, Result

LOW, HIGH = 8.0, 16.0  # years between which the return is averaged


def run(quick: bool) -> Result:
    """Wages and schooling: the return to a year, and how little the instruments say."""
    table = standardised(load_schooling())
    # h(x, c) = f(x) + cᵀβ: the exogenous columns shift the curve by their straight lines alone
    kernel_x = on_columns({table.x[0]: Gaussian()})
    curves = structural_curves(table, np.linspace(8.0, 18.0, 101), kernel_x=kernel_x, trend=1)
    line, error = two_stage_least_squares(table)
    lines = _returns(curves, line, error)
    return Result([(name, value) for name, value, _ in lines], _section(table, curves, line, lines))


def standardised(table: IVTable) -> IVTable:
    """Exogenous columns in standard units, so that one regulariser suits them all."""
    C = table.frame[list(table.c)]
    frame = table.frame.assign(**((C - C.mean()) / C.std()))
    return replace(table, frame=frame)


def _returns(curves: Curves, line: float, error: float) -> list[tuple[str, str, str]]:
    iv = curves.slope(LOW, HIGH)
    return [
        (
            "Return to a year, KernelIV",
            f"{100 * iv.value:.1f}% ± {100 * iv.error:.1f}%",
            f"Average slope of the curve between {LOW:.0f} and {HIGH:.0f} years of school, with "
            f"its standard error; {100 * LEVEL:g}% limits {100 * iv.low:.1f}% and "
            f"{100 * iv.high:.1f}%.",
        ),
        (
            "Return to a year, plain kernel ridge",
            f"{100 * curves.plain_slope(LOW, HIGH):.1f}%",
            "The same slope when wages are simply regressed on schooling and the other columns.",
        ),
        (
            "Return to a year, straight line (2SLS)",
            f"{100 * line:.1f}% ± {100 * error:.1f}%",
            "Two-stage least squares with the same instrument, with its standard error.",
        ),
    ]


def _section(table: IVTable, curves: Curves, line: float, lines: list) -> Section:
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
            Numbers([*lines, *_first_stage(curves)]),
            Note(
                "The instrument is a single indicator that barely moves schooling. It fixes one "
                "contrast, between boys who grew up near a college and boys who did not, and one "
                "contrast cannot pin down a curve: its bends are mostly the regulariser's choice. "
                "Where instruments are as weak as this, errors and bands of every method come out "
                "too small. This data set is here to show what that looks like."
            ),
            Prose(
                "Schooling enters through a Gaussian kernel beside a straight line, the other "
                "columns through straight lines alone, so they shift the curve without bending it. "
                "Age stands in for experience, which is made from schooling."
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
        f"The band is meant to hold the whole curve with {100 * LEVEL:g}% confidence, which takes "
        "an instrument stronger than this one. The 2SLS line is drawn through the curve at the "
        "median; the highest and lowest 1% of the wages lie outside the frame."
    )
    return Figure(drawing, caption, "schooling")


def _first_stage(curves: Curves) -> list[tuple[str, str, str]]:
    strength = curves.model.first_stage()
    return [
        (
            "First stage: partial R², F",
            f"{100 * strength.partial_r2[0]:.2f}%, {number(float(strength.f[0]))}",
            "The share of the variance of schooling that the instrument explains beyond the "
            "exogenous columns, and its F; below 10 an instrument is weak.",
        )
    ]


JOB = Job("Schooling: what a year at school does to wages", run)

"""Returns to schooling: what a year at school does to wages, by way of colleges nearby."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...datasets import IVTable, load_schooling
from ...kernels import Gaussian, on_columns
from ..report import Block, Fact, Note, Numbers, Prose, Section
from ..words import Texts, level_words, number
from .curves import LEVEL, Curves

TITLE = "Schooling: what a year at school does to wages"
LOW, HIGH = 8.0, 16.0  # years between which the return is averaged
SAY = Texts("schooling")


def run(quick: bool) -> Section:
    """Wages and schooling: the return to a year, and how little the instruments say."""
    table = standardised(load_schooling())
    # h(x, c) = f(x) + cᵀβ: the exogenous columns shift the curve by their straight lines alone
    curves = Curves.of(table, kernel_x=on_columns({table.x[0]: Gaussian()}), trend=1)
    ends = tuple(np.quantile(table.target, [0.01, 0.99]))
    labels = {"xlabel": "years of schooling", "ylabel": "log hourly wage (cents)", "ylim": ends}
    caption = SAY("curve", men=len(table.frame), level=level_words(LEVEL))
    blocks: list[Block] = [
        Prose(SAY("question")),
        curves.figure("schooling", caption, **labels),
        Numbers(returns(curves)),
        Note(SAY("weak")),
        Prose(SAY("how")),
        Prose(f"{table.description} {table.source}"),
    ]
    return Section(TITLE, blocks)


def standardised(table: IVTable) -> IVTable:
    """Exogenous columns in standard units, so that one regulariser suits them all."""
    C = table.frame[list(table.c)]
    frame = table.frame.assign(**((C - C.mean()) / C.std()))
    return replace(table, frame=frame)


def returns(curves: Curves) -> list[Fact]:
    """Slopes by each method, and what the first stage says."""
    iv, strength = curves.slope(LOW, HIGH), curves.model.first_stage()
    values = {
        "Return to a year, KernelIV": f"{share(iv.value)} ± {share(iv.error)}",
        "Return to a year, plain kernel ridge": share(curves.plain_slope(LOW, HIGH)),
        "Return to a year, straight line (2SLS)": f"{share(curves.line)} ± {share(curves.error)}",
        "First stage: partial R², F": f"{100 * strength.partial_r2[0]:.2f}%, "
        f"{number(strength.f[0])}",
    }
    limits = f"{share(iv.low)} and {share(iv.high)}"
    return SAY.facts(values, low=LOW, high=HIGH, level=level_words(LEVEL), limits=limits)


def share(value: float) -> str:
    """'7.5%'."""
    return f"{100 * value:.1f}%"

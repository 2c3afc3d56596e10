"""Returns to schooling: what a year at school does to wages, by way of colleges nearby."""

from __future__ import annotations

import numpy as np

from ...datasets import load_schooling
from ..report import Block, Code, Fact, Note, Numbers, Prose, Section
from ..words import Texts, level_words, number
from .curves import LEVEL, Curves

TITLE = "Schooling: what a year at school does to wages"
LOW, HIGH = 8.0, 16.0  # years between which the return is averaged
FORMS = dict.fromkeys(("black", "south", "smsa"), "linear")  # indicators shift the curve
SAY = Texts("schooling")


def run(quick: bool) -> Section:
    """Wages and schooling: the return to a year, and how little the instruments say."""
    table = load_schooling()
    curves = Curves.of(table, kernel_x=FORMS)
    ends = tuple(np.quantile(table.target, [0.01, 0.99]))
    labels = {"xlabel": "years of schooling", "ylabel": "log hourly wage (cents)", "ylim": ends}
    caption = SAY("curve", men=len(table.frame), level=level_words(LEVEL))
    blocks: list[Block] = [
        Prose(SAY("question")),
        curves.figure("schooling", caption, **labels),
        Numbers(returns(curves)),
        Note(SAY("weak")),
        Prose(SAY("how")),
        Code(SAY.content["command"].strip().format(forms=typed(FORMS))),
        Prose(f"{table.description} {table.source}"),
    ]
    return Section(TITLE, blocks)


def returns(curves: Curves) -> list[Fact]:
    """Slopes by each method, and what the first stage says."""
    iv, strength = curves.model.average_derivative(level=LEVEL), curves.model.first_stage()
    values = {
        "Return to a year, KernelIV": f"{share(iv.value)} ± {share(iv.error)}",
        "Return to a year, plain kernel ridge": share(curves.plain_slope(LOW, HIGH)),
        "Return to a year, straight line (2SLS)": f"{share(curves.line)} ± {share(curves.error)}",
        "First stage: partial R², F": f"{100 * strength.partial_r2[0]:.2f}%, "
        f"{number(strength.f[0])}",
    }
    limits = f"{share(iv.low)} and {share(iv.high)}"
    return SAY.facts(values, low=LOW, high=HIGH, level=level_words(LEVEL), limits=limits)


def typed(forms: dict[str, str]) -> str:
    """As the command line takes them."""
    return ",".join(f"{column}={form}" for column, form in forms.items())


def share(value: float) -> str:
    """'7.5%'."""
    return f"{100 * value:.1f}%"

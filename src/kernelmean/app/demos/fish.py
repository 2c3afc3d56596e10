"""The Fulton fish market: what a price does to demand, with the weather as instrument."""

from __future__ import annotations

import numpy as np

from ...datasets import IVTable, load_fulton_fish
from ..ivreport import p_words
from ..page import Figure, Note, Numbers, Prose, Section, canvas, number
from .curves import LEVEL, Curves, draw, structural_curves, two_stage_least_squares
from .job import Job, Result

LOW, HIGH = 0.1, 0.9  # quantiles of the price between which slopes are averaged


def run(quick: bool) -> Result:
    """Demand for whiting: elasticities and the demand curve."""
    table = load_fulton_fish()
    low, high = table.frame["lavgprc"].quantile([0.025, 0.975])
    curves = structural_curves(table, np.linspace(float(low), float(high), 100))
    line, error = two_stage_least_squares(table)
    lines = _elasticities(table, curves, line, error)
    return Result([(name, value) for name, value, _ in lines], _section(table, curves, line, lines))


def _elasticities(
    table: IVTable, curves: Curves, line: float, error: float
) -> list[tuple[str, str, str]]:
    low, middle, high = table.frame["lavgprc"].quantile([LOW, 0.5, HIGH])
    whole, cheap, dear = (
        curves.slope(*ends) for ends in ((low, high), (low, middle), (middle, high))
    )
    return [
        (
            "Elasticity of demand, KernelIV",
            f"{slope_words(whole.value)} ± {whole.error:.2f}",
            f"Average slope of the curve between the 10% and 90% quantiles of the price, "
            f"{np.exp(low):.2f} and {np.exp(high):.2f} dollars a pound, with its standard error: a "
            f"price 1% higher sells {abs(whole.value):.2f}% less fish.",
        ),
        (
            "… when fish is cheap / dear",
            f"{slope_words(cheap.value)} ± {cheap.error:.2f} / "
            f"{slope_words(dear.value)} ± {dear.error:.2f}",
            f"The same below and above the median price, {np.exp(middle):.2f} dollars.",
        ),
        (
            "Elasticity, plain kernel ridge",
            slope_words(curves.plain_slope(low, high)),
            "The same slope when quantity is simply regressed on price.",
        ),
        (
            "Elasticity, straight line (2SLS)",
            f"{slope_words(line)} ± {error:.2f}",
            "Two-stage least squares with the same instruments, with its standard error.",
        ),
    ]


def slope_words(value: float) -> str:
    """An elasticity: two decimals are more than enough for these data."""
    return f"{value:.2f}".replace("-", "−")


def _section(table: IVTable, curves: Curves, line: float, lines: list) -> Section:
    return Section(
        "Fish: what a price does to demand",
        [
            Prose(
                "Does fish sell less when it is dear? A regression of quantity on price cannot "
                "tell: on days when New York wants fish, both are high, so the slope mixes demand "
                "with supply. But storms at sea keep the boats in and make fish dear for reasons "
                "that have nothing to do with appetite. The height of the waves over the days "
                "before is the instrument."
            ),
            _figure(table, curves, line),
            Numbers([*lines, *_first_stage(curves)]),
            Note(
                f"{len(table.frame)} days are few: the band says how little they fix of the "
                "curve. It leaves room for the straight line, and for a demand that hardly falls; "
                "the average slope is what these data know best."
            ),
            Prose(f"{table.description} {table.source}"),
        ],
    )


def _figure(table: IVTable, curves: Curves, line: float) -> Figure:
    drawing, axes = canvas()
    draw(axes, table, curves, line)
    axes.set(xlabel="log price (dollars a pound)", ylabel="log quantity (pounds a day)")
    caption = (
        "Demand for whiting at the Fulton fish market, 97 days of 1991 and 1992. The band is meant "
        f"to hold the whole curve with {100 * LEVEL:g}% confidence. The 2SLS line is drawn through "
        "the curve at the median price."
    )
    return Figure(drawing, caption, "fish")


def _first_stage(curves: Curves) -> list[tuple[str, str, str]]:
    strength = curves.model.first_stage()
    return [
        (
            "First stage: partial R², F",
            f"{strength.partial_r2[0]:.2f}, {number(float(strength.f[0]))}",
            "Waves explain this share of the variance of the price; F above 10 means the "
            "instruments are not weak.",
        ),
        (
            "Would regression have done? p-value",
            p_words(curves.model.endogeneity_test().p_value),
            "Small where the two curves differ by more than chance.",
        ),
    ]


JOB = Job("Fish: what a price does to demand", run)

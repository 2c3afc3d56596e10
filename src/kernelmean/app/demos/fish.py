"""The Fulton fish market: what a price does to demand, with the weather as instrument."""

from __future__ import annotations

import numpy as np

from ...datasets import IVTable, load_fulton_fish
from ..firststage import FirstStage
from ..page import Figure, Note, Numbers, Prose, Section, canvas, number
from .curves import Curves, draw, slope, structural_curves, two_stage_least_squares
from .job import Job, Result

LOW, HIGH = 0.1, 0.9  # quantiles of the price between which slopes are averaged


def run(quick: bool) -> Result:
    """Demand for whiting: elasticities and the demand curve."""
    table = load_fulton_fish()
    price = table.frame["lavgprc"]
    low, high = price.quantile([0.025, 0.975])
    at = np.linspace(float(low), float(high), 100)
    curves = structural_curves(table, at, range(5 if quick else 41))
    line, error = two_stage_least_squares(table)
    stage = FirstStage.of(price.to_numpy(), table.Z.to_numpy(), np.empty((len(price), 0)))
    lines = _elasticities(table, curves, line, error)
    return Result(
        [(name, value) for name, value, _ in lines], _section(table, curves, line, lines, stage)
    )


def _elasticities(
    table: IVTable, curves: Curves, line: float, error: float
) -> list[tuple[str, str, str]]:
    low, middle, high = table.frame["lavgprc"].quantile([LOW, 0.5, HIGH])
    whole, plain = curves.slope(low, high)
    cheap, dear = (
        slope(curves.at, curves.median, *ends) for ends in ((low, middle), (middle, high))
    )
    return [
        (
            "Elasticity of demand, KernelIV",
            slope_words(whole),
            f"Average slope of the median curve between the 10% and 90% quantiles of the price, "
            f"{np.exp(low):.2f} and {np.exp(high):.2f} dollars a pound: a price 1% higher sells "
            f"{abs(whole):.2f}% less fish.",
        ),
        (
            "… when fish is cheap / dear",
            f"{slope_words(cheap)} / {slope_words(dear)}",
            f"The same below and above the median price, {np.exp(middle):.2f} dollars.",
        ),
        (
            "Elasticity, plain kernel ridge",
            slope_words(plain),
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


def _section(
    table: IVTable, curves: Curves, line: float, lines: list, stage: FirstStage
) -> Section:
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
            Numbers([*lines, *_first_stage(stage)]),
            Note(
                f"{len(table.frame)} days are few, and half of them go to each stage: another "
                "random division gives another curve (the shaded band), and regularisation pulls "
                "all of them towards a flat line. Read the slope as a cautious one: the straight "
                "line, which has only two numbers to learn, comes out steeper."
            ),
            Prose(f"{table.description} {table.source}"),
        ],
    )


def _figure(table: IVTable, curves: Curves, line: float) -> Figure:
    drawing, axes = canvas()
    draw(axes, table, curves, line)
    axes.set(xlabel="log price (dollars a pound)", ylabel="log quantity (pounds a day)")
    caption = (
        "Demand for whiting at the Fulton fish market, 97 days of 1991 and 1992. The band holds "
        f"the middle 80% of {len(curves.splits)} random divisions of the days between the two "
        "stages; the curve is their median. The 2SLS line is drawn through the curve at the median "
        "price."
    )
    return Figure(drawing, caption, "fish")


def _first_stage(stage: FirstStage) -> list[tuple[str, str, str]]:
    return [
        (
            "First stage: R², F",
            f"{stage.r2:.2f}, {number(stage.f)}",
            "Waves predict this share of the variance of the price (leave-one-out); F above 10 "
            "means the instruments are not weak.",
        )
    ]


JOB = Job("Fish: what a price does to demand", run)

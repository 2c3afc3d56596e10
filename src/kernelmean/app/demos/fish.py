"""The Fulton fish market: what a price does to demand, with the weather as instrument."""

from __future__ import annotations

import numpy as np

from ...datasets import load_fulton_fish
from ...instruments.inference import Estimate
from ..report import Block, Fact, Note, Numbers, Prose, Section
from ..words import Texts, level_words, minus, number, p_words
from . import yours
from .curves import LEVEL, Curves

TITLE = "Fish: what a price does to demand"
QUANTILES = (0.1, 0.5, 0.9)  # of the price, between which slopes are averaged
SAY = Texts("fish")


def run(quick: bool) -> Section:
    """Demand for whiting: elasticities and the demand curve."""
    table = load_fulton_fish()
    curves = Curves.of(table)
    labels = {"xlabel": "log price (dollars a pound)", "ylabel": "log quantity (pounds a day)"}
    blocks: list[Block] = [
        Prose(SAY("question")),
        curves.figure("fish", SAY("curve", level=level_words(LEVEL)), **labels),
        Numbers(elasticities(curves)),
        Note(SAY("few", days=len(table.frame))),
        Prose(f"{table.description} {table.source}"),
        *yours(
            f"iv fish.csv --y {table.y} --x {','.join(table.x)} --z {','.join(table.z)}",
            {"fish.csv": table.frame},
        ),
    ]
    return Section(TITLE, blocks)


def elasticities(curves: Curves) -> list[Fact]:
    """Slopes by each method, and what the first stage says."""
    low, middle, high = curves.table.frame["lavgprc"].quantile(list(QUANTILES))
    whole = curves.slope(low, high)
    cheap, dear = curves.slope(low, middle), curves.slope(middle, high)
    strength = curves.model.first_stage()
    values = {
        "Elasticity of demand, KernelIV": slope(whole),
        "… when fish is cheap / dear": f"{slope(cheap)} / {slope(dear)}",
        "Elasticity, plain kernel ridge": minus(f"{curves.plain_slope(low, high):.2f}"),
        "Elasticity, straight line (2SLS)": minus(f"{curves.line:.2f} ± {curves.error:.2f}"),
        "First stage: partial R², F": f"{strength.partial_r2[0]:.2f}, {number(strength.f[0])}",
        "Would regression have done? p-value": p_words(curves.model.endogeneity_test().p_value),
    }
    dollars = dict(zip(("low", "middle", "high"), np.exp([low, middle, high]), strict=True))
    return SAY.facts(values, less=abs(whole.value), **dollars)


def slope(found: Estimate) -> str:
    """An elasticity: two decimals are more than enough for these data."""
    return minus(f"{found.value:.2f} ± {found.error:.2f}")

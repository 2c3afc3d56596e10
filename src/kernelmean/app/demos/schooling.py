"""Returns to schooling: what a year at school does to wages, by way of colleges nearby."""

from ...datasets import load_schooling
from ..report import Block, Numbers
from ..words import Texts
from .job import Tables
from .savings import effect

SAY = Texts("schooling")


def tables() -> Tables:
    """One row a man."""
    return {"schooling.csv": load_schooling().frame}


def beside(made: Tables) -> list[Block]:
    """The straight line of the textbook."""
    line = effect(made["schooling.csv"], "educ", "nearc4", ["age", "black", "south", "smsa"], 3)
    return [Numbers(SAY.facts({"Two-stage least squares": line}))]

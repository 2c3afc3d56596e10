"""Returns to schooling: what a year at school does to wages, by way of colleges nearby."""

from __future__ import annotations

from ...datasets import load_schooling
from .job import Job, Tables

TABLE = load_schooling
COLUMNS = "age,agesq,black,smsa,south,smsa66"


def tables() -> Tables:
    """One row a man."""
    return {"schooling.csv": load_schooling().frame}


JOB = Job(
    "schooling",
    "Schooling: what a year at school does to wages",
    tables,
    "",
    ["curve-educ"],
)

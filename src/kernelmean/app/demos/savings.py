"""A savings plan: what it adds to a household's wealth, along its income."""

import pandas as pd

from ...datasets import load_savings
from ..report import Block, Numbers
from ..words import Texts, minus
from .job import Tables

SAY = Texts("savings")


def tables() -> Tables:
    """One row a household."""
    return {"savings.csv": load_savings().frame}


def beside(made: Tables) -> list[Block]:
    """One number for all households, with and without the instrument."""
    frame = made["savings.csv"]
    values = {
        "Two-stage least squares": effect(frame, "p401k", "e401k", ["inc", "age"]),
        "Least squares, without an instrument": effect(frame, "p401k", "p401k", ["inc", "age"]),
    }
    return [Numbers(SAY.facts(values))]


def effect(frame: pd.DataFrame, x: str, z: str, c: list[str], digits: int = 1) -> str:
    """'9.4 ± 7.2': a coefficient by two-stage least squares, with its 95% limits."""
    from linearmodels.iv import IV2SLS

    exogenous = frame[c].assign(constant=1.0)
    fit = IV2SLS(frame.iloc[:, 0], exogenous, frame[x], frame[z]).fit(cov_type="robust")
    return minus(f"{fit.params[x]:.{digits}f} ± {1.96 * fit.std_errors[x]:.{digits}f}")

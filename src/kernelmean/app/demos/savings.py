"""A savings plan: what it adds to a household's wealth, along its income."""

from __future__ import annotations

import numpy as np

from ...datasets import load_savings
from ..report import Block, Numbers
from ..words import Texts, minus
from .job import Job, Tables

SAY = Texts("savings")


def tables() -> Tables:
    """One row a household."""
    return {"savings.csv": load_savings().frame}


def beside(made: Tables) -> list[Block]:
    """One number for all households: two-stage least squares, and plain least squares."""
    frame = made["savings.csv"]
    values = {
        "Two-stage least squares": _slope(frame, "e401k"),
        "Least squares, without an instrument": _slope(frame, "p401k"),
    }
    return [Numbers(SAY.facts(values))]


def _slope(frame, instrument: str) -> str:
    """'9.4 ± 3.6': the coefficient with its 95% limits, robust to uneven variance."""
    ones = np.ones(len(frame))
    X, Z = (
        np.column_stack([frame[name], ones, frame["inc"], frame["age"]])
        for name in ("p401k", instrument)
    )
    fitted = Z @ np.linalg.lstsq(Z, X, rcond=None)[0]
    inverse = np.linalg.inv(fitted.T @ X)
    coef = inverse @ (fitted.T @ frame["nettfa"])
    scores = fitted * (frame["nettfa"] - X @ coef).to_numpy()[:, None]
    error = (inverse @ (scores.T @ scores) @ inverse.T)[0, 0] ** 0.5
    return minus(f"{coef[0]:.1f} ± {1.96 * error:.1f}")


JOB = Job(
    "savings",
    "A savings plan: whom does it make richer?",
    tables,
    "iv savings.csv --y nettfa --x p401k --z e401k --c inc,age",
    ["effect-p401k-inc", "effect-p401k-age"],
    beside,
)

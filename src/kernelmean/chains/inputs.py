"""What is known beforehand of every row, checked."""

from __future__ import annotations

import numpy as np

from ..core import arrays
from ..core.checks import as_points, check_columns


def check_aligned(X, inputs) -> None:
    """Two tables have one index."""
    tables = hasattr(X, "iloc") and hasattr(inputs, "iloc")
    if tables and not X.index.equals(inputs.index):
        raise ValueError("inputs has another index than X; rows of the same times are needed")


def as_inputs(inputs, n: int, count: int | None, name: str = "inputs") -> np.ndarray | None:
    """Known inputs of n rows, as many columns as there were in fitting."""
    if count == 0 or (count is None and inputs is None):
        if inputs is not None:
            raise ValueError(f"{name} were given, and none in fitting")
        return None
    if inputs is None:
        raise ValueError(f"{name} is None; the model was fitted with {count} of them")
    found = arrays.to_numpy(as_points(inputs, name))
    if found.shape[0] != n:
        raise ValueError(f"{name} has {found.shape[0]} rows; {n} are needed")
    if count is not None:
        check_columns(found, count, name, "those of fitting")
    return found

"""The two ends of an interval."""

from __future__ import annotations

from typing import NamedTuple

from .checks import Array


class Interval(NamedTuple):
    """Lower and upper ends, arrays of the shape of what they are ends of."""

    lower: Array
    upper: Array

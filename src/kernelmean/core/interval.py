"""The two ends of an interval."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from .checks import Array


class Interval(NamedTuple):
    """Lower and upper ends, arrays of the shape of what they are ends of."""

    lower: Array
    upper: Array

    @classmethod
    def between(cls, ends: Array) -> Self:
        """Of both, which lie along the last axis but one, (..., 2, d)."""
        return cls(ends[..., 0, :], ends[..., 1, :])


def ends(answer) -> tuple:
    """Both ends of an interval; alone, what is none."""
    return answer if isinstance(answer, Interval) else (answer,)


def of_ends(parts: Sequence) -> Any:
    """The interval between two, or the one."""
    return Interval(*parts) if len(parts) > 1 else parts[0]

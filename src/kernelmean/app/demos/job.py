"""What a job of `kernelmean demo` is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..page import Section


@dataclass(frozen=True)
class Result:
    """What a job found.

    Parameters
    ----------
    lines : sequence of (name, value)
        The numbers for the terminal.
    section : Section
        Its part of the page.
    """

    lines: Sequence[tuple[str, str]]
    section: Section


@dataclass(frozen=True)
class Job:
    """A small piece of work on real data.

    Parameters
    ----------
    title : str
    run : callable
        Takes `quick` (a bool: do less), returns a `Result`.
    """

    title: str
    run: Callable[[bool], Result]

"""Mistakes of the user: one line on stderr, exit code 2, no traceback."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class UserError(Exception):
    """Something the user can put right; the message says how."""


@contextmanager
def refusals(prefix: str = "") -> Iterator[None]:
    """Turn the library's `ValueError`s about the data into a `UserError`."""
    try:
        yield
    except ValueError as err:
        raise UserError(f"{prefix}{err}") from err


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """'; did you mean a or b?' where there are close matches, whatever their case."""
    by_lower = {k.lower(): k for k in known}
    close = [by_lower[m] for m in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)]
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""

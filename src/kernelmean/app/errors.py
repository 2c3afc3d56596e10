"""Mistakes of the user: one line on stderr, exit code 2, no traceback. Trouble: a sentence."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

from ..core.checks import NumericalWarning, hushed


class UserError(Exception):
    """Something the user can put right; the message says how."""

    code = 2  # of the process


class Interrupted(UserError):
    """The user's own doing; the message says what is finished."""

    code = 130


@contextmanager
def refusals(arguments: Mapping[str, str]) -> Iterator[None]:
    """Turn the library's `ValueError`s about the data into a `UserError`.

    What the library calls its `arguments` (patterns) is said in the words of the command line.
    """
    try:
        yield
    except ValueError as err:
        text = str(err)
        for pattern, word in arguments.items():
            text = re.sub(pattern, word, text)
        raise UserError(text) from err


@contextmanager
def noted() -> Iterator[list[str]]:
    """Numerical trouble as a list of sentences that is full at the end."""
    said: list[str] = []
    with hushed(False), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NumericalWarning)
        yield said
    said.extend(dict.fromkeys(f"{str(w.message).rstrip('.')}." for w in caught))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """'; did you mean a or b?' where there are close matches, whatever their case."""
    by_lower = {k.lower(): k for k in known}
    close = [by_lower[m] for m in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)]
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""

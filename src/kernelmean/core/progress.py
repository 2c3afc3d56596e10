"""Progress of long work: a bar, plain lines, a callback, or silence."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import partial
from importlib.util import find_spec
from numbers import Integral

from joblib import Parallel, delayed

from .parameters import progress as check_progress

Verbose = bool | Callable[[int, int | None], None]


def track(
    iterable: Iterable,
    total: int | None = None,
    description: str = "",
    verbose: Verbose = True,
) -> Iterator:
    """Yield from `iterable`, telling how far it is.

    Parameters
    ----------
    iterable : iterable
    total : int, optional
        Number of items; taken from `len` where there is one.
    description : str
    verbose : bool or callable
        True shows a rich progress bar (plain lines on stderr where rich is missing), False
        nothing; a callable is called as `verbose(done, total)` after each item.

    Examples
    --------
    >>> from kernelmean.core.progress import track
    >>> seen = []
    >>> list(track("ab", verbose=lambda done, total: seen.append((done, total))))
    ['a', 'b']
    >>> seen
    [(1, 2), (2, 2)]
    """
    check_progress(verbose, "verbose")
    if total is None and isinstance(iterable, Sized):
        total = len(iterable)
    if callable(verbose):
        return _counted(iterable, total, verbose)
    if not verbose:
        return iter(iterable)
    if find_spec("rich") is None:
        return _counted(iterable, total, partial(_say, description))
    return _bar(iterable, total, description)


def in_processes(
    function: Callable, tasks: Sequence[tuple], n_jobs, description: str, verbose: Verbose
) -> Iterator:
    """function(*task) of every task, in order, in `n_jobs` processes, as joblib counts them."""
    if n_jobs is not None and not (isinstance(n_jobs, Integral) and n_jobs):
        raise ValueError(f"n_jobs is {n_jobs!r}; a whole number other than 0, or None, is needed")
    work = (delayed(function)(*task) for task in tasks)
    found = Parallel(n_jobs=n_jobs, return_as="generator")(work)
    return track(found, len(tasks), description, verbose)


def _bar(iterable: Iterable, total: int | None, description: str) -> Iterator:
    from rich.console import Console
    from rich.progress import track as rich_track

    console = Console(stderr=True)
    yield from rich_track(iterable, description=description, total=total, console=console)


def _counted(iterable: Iterable, total: int | None, callback: Callable) -> Iterator:
    for done, item in enumerate(iterable, start=1):
        yield item
        callback(done, total)


def _say(description: str, done: int, total: int | None) -> None:
    of = "" if total is None else f"/{total}"
    print(f"{description} {done}{of}", file=sys.stderr)

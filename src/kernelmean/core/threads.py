"""How work is shared between cores: BLAS at one thread, independent parts in threads of ours.

NumPy's and SciPy's wheels each bring an OpenBLAS with a pool of its own, whose threads spin while
the other's work. A fit makes thousands of small calls to both in turn, so that with default
settings most of its time is waiting. Work that passes the door of an estimator therefore runs with
BLAS at one thread, and what is independent in it runs side by side.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ContextDecorator
from contextvars import ContextVar, copy_context
from functools import cache, partial
from inspect import isfunction
from itertools import chain, islice
from threading import Event, Lock, get_ident
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from .stages import timed

T = TypeVar("T")
WORTH = 0.01  # seconds that a task takes: shorter ones wait for the interpreter more than they gain
BLAS = ("blas", "mkl_rt", "blis")  # in the paths of libraries that have one


class _Door(ContextDecorator):
    """BLAS at one thread from where the first thread of the user's comes in until the last leaves.

    threadpoolctl lets no other thread than the one that lowered the number raise it again, unless
    it is told that this one is done.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._first = Lock(), 0, 0
        self._before: list[int] | None = None  # threads of each library outside, while inside

    def __call__(self, function: Any) -> Any:
        """And what is too small for a number is zero, whatever the caller's settings."""
        return super().__call__(np.errstate(under="ignore")(function))

    def __enter__(self) -> None:
        self._pass(1)

    def __exit__(self, *error) -> None:
        self._pass(-1)

    def _pass(self, step: int) -> None:
        """In (1) or out (-1); by Ctrl-C on the way, wherever it comes, out."""
        counted = 0
        try:
            with self._lock:
                self._inside += step
                counted = step
                self._limit()
        except BaseException:
            with self._lock:
                self._inside += min(step, 0) - counted
                self._limit()
            raise

    def _limit(self) -> None:
        """As many threads as the count says, though the last time may have been cut short."""
        libs = _controller().lib_controllers
        if self._inside and self._before is None:
            self._before = [lib.num_threads for lib in libs]
            for lib in libs:
                lib.set_num_threads(1)
            self._first = get_ident() if self._before != [lib.num_threads for lib in libs] else 0
        elif not self._inside and self._before is not None:
            _done(force=self._first not in (0, get_ident()))
            for lib, number in zip(libs, self._before, strict=True):
                lib.set_num_threads(number)
            self._before = None
            _done()


def _done(force: bool = False) -> None:
    """Other threads may set limits from now on."""
    for lib in _controller().lib_controllers:
        if hasattr(lib, "clear_controlling_thread"):  # threadpoolctl 3.8
            lib.clear_controlling_thread(force=force)


@cache
def _controller():
    """One for the process: to find the libraries takes milliseconds, to use it microseconds."""
    import scipy.linalg  # noqa: F401  its BLAS must be loaded to be found
    from threadpoolctl import ThreadpoolController

    class Blas(ThreadpoolController):
        """It asks the hundreds of other libraries of a process for no more than their paths."""

        def _make_controller_from_path(self, filepath, *more):
            if any(name in filepath for name in BLAS):
                super()._make_controller_from_path(filepath, *more)

    return Blas()


_DOOR = _Door()


def one_thread() -> _Door:
    """One BLAS thread for what is inside; also a decorator."""
    return _DOOR


def doors(*names: str) -> Callable[[type[T]], type[T]]:
    """A class whose methods `names`, or all public ones, run with one BLAS thread, `fit` timed."""

    def wrapped(cls: type[T]) -> type[T]:
        public = [k for k, v in vars(cls).items() if isfunction(v) and not k.startswith("_")]
        for name in names or public:
            method = vars(cls)[name]
            setattr(cls, name, _DOOR(timed(method) if name == "fit" else method))
        return cls

    return wrapped


_SHARE: ContextVar[int] = ContextVar("cores that a task may use", default=0)
_STOP: ContextVar[Event] = ContextVar("whether tasks of tasks are wanted no more")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def streamed(
    task: Callable, items: Iterable, n_jobs: int | None = None, worth: float = WORTH
) -> Iterator:
    """task(item) of every item, in order, in as many threads as cores (or `n_jobs`).

    Items are done where they are until one has taken `worth` seconds; 0 says that all are long. No
    more items are taken than are worked on. What a task raises comes out as it would from a loop:
    the first failure in order. Tasks that call this again share the cores between them. Where the
    answers are wanted no more (Ctrl-C), they stop.
    """
    workers, rest = n_jobs or _SHARE.get() or cores(), iter(items)
    inside = _STOP.get(None)
    for item in rest if worth or workers == 1 else ():
        began = perf_counter()
        yield _wanted(inside, task, item)
        if workers > 1 and perf_counter() - began > worth:
            break
    ahead = list(islice(rest, workers))
    if len(ahead) < 2:
        yield from map(partial(_wanted, inside, task), ahead)
        return
    share, stop = max(1, workers // len(ahead)), inside or Event()
    with one_thread(), ThreadPoolExecutor(workers) as pool:
        waiting: deque = deque()
        try:
            for item in chain(ahead, rest):
                waiting.append(pool.submit(copy_context().run, _sharing, share, stop, task, item))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            if inside is None:  # a failure inside would otherwise stop those ahead of it
                stop.set()


def _sharing(share: int, stop: Event, task: Callable, item) -> Any:
    _SHARE.set(share)
    _STOP.set(stop)
    return _wanted(stop, task, item)


def _wanted(stop: Event | None, task: Callable, item) -> Any:
    if stop is not None and stop.is_set():
        raise CancelledError
    return task(item)


def side_by_side(
    task: Callable, items: Iterable, n_jobs: int | None = None, worth: float = WORTH
) -> list[Any]:
    """The list of `streamed`."""
    return list(streamed(task, items, n_jobs, worth))

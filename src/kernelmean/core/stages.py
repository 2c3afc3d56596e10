"""Where the time of a fit goes: seconds by stage on the estimator, lines on stderr if asked for."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from math import inf
from time import perf_counter


@dataclass
class _Stage:
    """One stage of one fit: losses evaluated, and the least of them."""

    owner: str
    seconds: dict[str, float]  # of all stages of the fit
    told: bool
    count: int = 0
    least: float = inf

    def end(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        if self.told:
            tried = f", {self.count} evaluations, least loss {self.least:.6g}" if self.count else ""
            print(f"{self.owner}: {name}{tried}, {seconds:.2f} s", file=sys.stderr)


_UNDER_WAY: ContextVar[_Stage | None] = ContextVar("stage", default=None)
_LINES: ContextVar[bool] = ContextVar("lines", default=True)


@contextmanager
def within(variable: ContextVar, value) -> Iterator[None]:
    """The variable has this value inside, in this thread and in those that work for it."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def without_lines() -> AbstractContextManager[None]:
    """Fits inside say nothing of their stages, whatever their `verbose`; bars stay."""
    return within(_LINES, False)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """What is done inside is a stage of the fit under way; also a decorator.

    Examples
    --------
    >>> from kernelmean.core.stages import stage, timed
    >>> class Model:
    ...     @timed
    ...     def fit(self):
    ...         with stage("search"):
    ...             return self
    >>> list(Model().fit().fit_time_)
    ['search', 'total']
    """
    around, start = _UNDER_WAY.get(), perf_counter()
    if around is None:
        yield
        return
    own = _Stage(around.owner, around.seconds, around.told)
    with within(_UNDER_WAY, own):
        yield
    own.end(name, perf_counter() - start)


def evaluated(loss: float) -> float:
    """The loss, counted among the evaluations of the stage under way."""
    own = _UNDER_WAY.get()
    if own is not None:
        own.count, own.least = own.count + 1, min(own.least, float(loss))
    return loss


def timed(fit: Callable) -> Callable:
    """A method `fit` that leaves `fit_time_` on its estimator: wall seconds by stage, and in total.

    Stages that run side by side in threads may add up to more than the total. Where it fails, or
    is interrupted, the estimator is what it was before.
    """

    @wraps(fit)
    def inside(self, *args, **kwargs):
        seconds: dict[str, float] = {}
        told = kwargs.get("verbose", getattr(self, "verbose", False)) is True and _LINES.get()
        whole, before = _Stage(type(self).__name__, seconds, told), dict(vars(self))
        try:
            with within(_UNDER_WAY, whole), stage("total"):
                fitted = fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        self.fit_time_ = seconds
        return fitted

    return inside

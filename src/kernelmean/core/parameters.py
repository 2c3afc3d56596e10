"""What the parameters of an estimator may be: one table each, from which the messages come.

An estimator declares `ALLOWED = {"rule": choice("importance", "squared"), "reg": positive()}`
and calls `check_parameters(self)` where `fit` begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .checks import check_choice, check_count, check_level, check_positive

Rule = Callable[[Any, str], Any]


def choice(*words: str) -> Rule:
    """One of a few words."""
    return lambda value, name: check_choice(value, name, words)


def positive(zero: bool = False) -> Rule:
    """A finite positive number, or zero when that has a meaning."""
    return lambda value, name: check_positive(value, name, zero=zero)


def count(minimum: int = 1) -> Rule:
    """A whole number."""
    return lambda value, name: check_count(value, name, minimum=minimum)


def probability(value, name: str) -> None:
    """A number between 0 and 1, neither of them."""
    check_level(value, name)


def share(value, name: str) -> None:
    """A number from 0 up to 1, without 1."""
    if check_positive(value, name, zero=True) >= 1:
        raise ValueError(f"{name} is {value}; a number in [0, 1) is needed")


def auto(value, name: str) -> None:
    """True, False, or left to the fit."""
    if value != "auto" and not isinstance(value, bool):
        raise ValueError(f'{name} is {value!r}; "auto", True or False is needed')


def flag(value, name: str) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; True or False is needed")


def instance(*classes: type) -> Rule:
    """An object of one of the classes."""

    def rule(value, name: str) -> None:
        if not isinstance(value, classes):
            needed = " or ".join(f"a {cls.__name__}" for cls in classes)
            raise ValueError(f"{name} is {value!r}; {needed} is needed")

    return rule


def either(rule: Rule, *also: Any) -> Rule:
    """What `rule` says, or one of the values `also`."""

    def wider(value, name: str) -> None:
        if any(value is a or (type(value) is type(a) and value == a) for a in also):
            return
        try:
            rule(value, name)
        except ValueError as err:
            raise ValueError(f"{err} (or {', '.join(map(repr, also))})") from None

    return wider


def optional(rule: Rule, *also: Any) -> Rule:
    """None, one of the values `also`, or what `rule` says."""
    return either(rule, None, *also)


def each(rule: Rule) -> Rule:
    """What `rule` says of a number, or of every entry of a tuple or list."""

    def every(value, name: str) -> None:
        for entry in value if isinstance(value, tuple | list) else (value,):
            rule(entry, name)

    return every


def check_parameters(estimator, allowed: Mapping[str, Rule] | None = None) -> None:
    """Every parameter in the estimator's table."""
    for name, rule in (estimator.ALLOWED if allowed is None else allowed).items():
        rule(getattr(estimator, name), name)

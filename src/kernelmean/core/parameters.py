"""What the parameters of an estimator may be: one table each, from which the messages come.

An estimator declares `ALLOWED = {"rule": choice("importance", "squared"), "reg": positive()}`
and calls `check_parameters(self)` where `fit` begins.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from .checks import check_choice, check_count, check_level, check_positive, warn_caller
from .saving import Saveable

Rule = Callable[[Any, str], Any]


def choice(*words: str) -> Rule:
    """One of a few words."""
    return lambda value, name: check_choice(value, name, words)


def positive(zero: bool = False) -> Rule:
    """A finite positive number, or zero when that has a meaning."""
    return lambda value, name: check_positive(value, name, zero=zero)


def count(minimum: int = 1, maximum: float = math.inf) -> Rule:
    """A whole number."""
    return lambda value, name: check_count(value, name, minimum=minimum, maximum=maximum)


def share(value, name: str) -> None:
    """A number from 0 up to 1, without 1."""
    if check_positive(value, name, zero=True) >= 1:
        raise ValueError(f"{name} is {value}; a number in [0, 1) is needed")


def needed(what: str, fits: Callable[[Any], bool]) -> Rule:
    """What fits; of anything else it is said what is needed."""

    def rule(value, name: str) -> None:
        if not fits(value):
            raise ValueError(f"{name} is {value!r}; {what} is needed")

    return rule


probability = check_level  # between 0 and 1, neither of them
flag = needed("True or False", lambda value: isinstance(value, bool))
called = needed("a function", callable)
progress = needed("True, False or a function", lambda value: isinstance(value, int | Callable))


def either(rule: Rule, *also: Any) -> Rule:
    """What `rule` says, or one of the values `also`."""

    def wider(value, name: str) -> None:
        given = int(value) if isinstance(value, np.integer) else value
        if any(given is a or (type(given) is type(a) and given == a) for a in also):
            return
        try:
            rule(value, name)
        except ValueError as err:
            if not str(err).startswith(f"{name} "):  # of a field of options
                raise
            more = f"{str(err)[:-1]}, " if " (or " in str(err) else f"{err} (or "
            raise ValueError(f"{more}{', '.join(map(repr, also))})") from None

    return wider


auto = either(flag, "auto")


def optional(rule: Rule, *also: Any) -> Rule:
    """None, one of the values `also`, or what `rule` says."""
    return either(rule, None, *also)


def each(rule: Rule) -> Rule:
    """What `rule` says of a number, or of every entry of a tuple or list."""

    def every(value, name: str) -> None:
        for entry in value if isinstance(value, tuple | list) else (value,):
            rule(entry, name)

    return every


def check_parameters(estimator, prefix: str = "") -> None:
    """Every parameter in the estimator's table, and `verbose`, which means the same everywhere."""
    progress(getattr(estimator, "verbose", False), "verbose")
    for name, rule in estimator.ALLOWED.items():
        rule(getattr(estimator, name), prefix + name)


# ------------------------------------------------------------ parameters that hold parameters


class Value(Saveable):
    """Parameters in one that do not change, but others can be made of them: kernels, options."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` those of its parts too, such as `left__lengthscale`.

        Examples
        --------
        >>> import kernelmean as km
        >>> (km.Linear() * km.Gaussian(2.0)).get_params()["right__lengthscale"]
        2.0
        """
        own = self._own()
        parts = ((k, v.get_params()) for k, v in own.items() if deep and isinstance(v, Value))
        return own | {f"{k}__{inner}": v for k, held in parts for inner, v in held.items()}

    def with_params(self: Any, **changes: Any) -> Any:
        """Another with some parameters changed, under the names of `get_params`.

        Raises
        ------
        ValueError
            If there is no such parameter.

        Examples
        --------
        >>> import kernelmean as km
        >>> (km.Linear() * km.Gaussian(2.0)).with_params(right__lengthscale=3.0)
        Linear(offset=0.0) * Gaussian(lengthscale=3.0, columnwise=False)
        """
        return replace(self, **with_values(self, changes))

    def _own(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)} if is_dataclass(self) else {}

    def __sklearn_clone__(self) -> Self:
        return self


class Estimator(Saveable, BaseEstimator):
    """One of scikit-learn's, some of whose parameters are values."""

    def set_params(self, **params: Any) -> Self:
        """Change parameters, those of parts by names such as `kernel_x__lengthscale`.

        A kernel is replaced by another: the one given stays as it is.
        """
        return super().set_params(**with_values(self, params))


def with_values(holder: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """Changes of what values hold as the values that they make."""
    known = holder.get_params(deep=False)
    for key in sorted(changes):  # values themselves before what they hold
        name, _, inner = key.partition("__")
        if name not in known:
            check_choice(name, f"the parameter of {holder!r}", known)
        value = changes.get(name, known[name])
        if inner and isinstance(value, Value):
            changes[name] = value.with_params(**{inner: changes.pop(key)})
        elif inner and not hasattr(value, "set_params"):
            raise ValueError(f"{name} is {value!r}; what has a {inner} is needed for {key}")
    return changes


class Options(Value):
    """Some parameters of an estimator in one: frozen dataclasses, each with its `ALLOWED`."""

    ALLOWED: ClassVar[Mapping[str, Rule]] = {}

    def filled(self: Any, **defaults: Any) -> Any:
        """With these in place of what is None."""
        return replace(self, **{k: v for k, v in defaults.items() if getattr(self, k) is None})

    def __repr__(self: Any) -> str:
        given = [f for f in fields(self) if getattr(self, f.name) != f.default]
        inside = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in given)
        return f"{type(self).__name__}({inside})"


def options(*classes: type[Options], without: tuple[str, ...] = ()) -> Rule:
    """Options of one of the classes, each field as its table allows, some of them not at all."""
    names = " or ".join(f"a {cls.__name__}" for cls in classes)
    of_one = needed(names, lambda value: isinstance(value, classes))

    def rule(value, name: str) -> None:
        of_one(value, name)
        check_parameters(value, prefix=f"{name}.")
        for field in without:
            if getattr(value, field) is not None:
                raise ValueError(f"{name}.{field} is not an option of this estimator; None is")

    return rule


def as_options(value, name: str, words: Mapping[str, type[Options]]) -> Any:
    """Options given by a word, which stands for their defaults, or as they are."""
    if isinstance(value, tuple(words.values())):
        return value
    return words[check_choice(value, name, words)]()


def standing_for(find: Callable[[Any], Options]) -> Rule:
    """What stands for options, as `find` knows, each field of them as its table allows."""
    return lambda value, name: check_parameters(find(value), prefix=f"{name}.")


Change = Callable[[Any, Any], Any]


def moved(**moves: tuple[str, Change]) -> Callable[[type], type]:
    """Class decorator: old keywords work for one version, with a `FutureWarning`.

    `moves` has, for each of them, the parameter that it is part of now, and the function that
    makes this parameter's new value of the one it has and of the keyword's.
    """

    def moving(method: Callable) -> Callable:
        @wraps(method)
        def inside(estimator, *args, **given):
            old = {name: given.pop(name) for name in moves if name in given}
            found = method(estimator, *args, **given)
            for name, value in old.items():
                parameter, made = moves[name]
                setattr(estimator, parameter, made(getattr(estimator, parameter), value))
            if old:
                names = ", ".join(f"{name}=" for name in old)
                now = dict.fromkeys(moves[name][0] for name in old)
                new = ", ".join(f"{name}={getattr(estimator, name)!r}" for name in now)
                warn_caller(f"{names} moved: give {new}", FutureWarning)
            return found

        return inside

    def decorate(cls: Any) -> Any:
        cls.__init__, cls.set_params = moving(cls.__init__), moving(cls.set_params)
        return cls

    return decorate


def into(make: Callable[[Any], Any], field: str) -> Change:
    """A `Change` that sets a field of the options that `make` finds in the parameter's value.

    Options of another kind, which have no such field, stay as they are.
    """

    def change(current: Any, value: Any) -> Any:
        found = make(current)
        return replace(found, **{field: value}) if hasattr(found, field) else current

    return change


def with_old_keywords(cls: type, state: dict[str, Any]) -> dict[str, Any]:
    """The state of today of an estimator that was saved with the keywords of its time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        parameters = vars(cls(**{k: v for k, v in state.items() if k.strip("_") == k}))
    return parameters | {k: v for k, v in state.items() if k.strip("_") != k}

"""Which columns play which part, and how each enters: by a kernel, in a line, or as a category."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..core import Array, Saveable, arrays, checks
from ..kernels.named import as_kernel, on_columns
from .basis import few_values
from .groups import Part, equal_columns, together

LINEAR, CATEGORY, OTHERS = "linear", "category", "*"


@dataclass(frozen=True)
class Roles(Saveable):
    """Names of the columns by their part: x0, x1, … where a table had none.

    Attributes
    ----------
    y : str
        Outcome.
    x, z, c : tuple of str
        Endogenous regressors, instruments, exogenous regressors.
    named : str
        Those of "xzc" whose names are the tables' own.
    """

    y: str
    x: tuple[str, ...]
    z: tuple[str, ...]
    c: tuple[str, ...]
    named: str

    @classmethod
    def of(cls, y: str, **sides: tuple[list[str] | None, int]) -> Self:
        """From the tables' own names (or None) and numbers of columns, of x, z and c."""
        named = "".join(side for side, (own, _) in sides.items() if own)
        names = {
            side: tuple(own or (f"{side}{j}" for j in range(count)))
            for side, (own, count) in sides.items()
        }
        return cls(y, named=named, **names)

    @property
    def regressors(self) -> list[str]:
        """Names of the columns of (X, C)."""
        return [*self.x, *self.c]

    @property
    def instruments(self) -> list[str]:
        """Names of the columns of (Z, C)."""
        return [*self.z, *self.c]

    def for_kernel(self, side: str) -> list[str] | None:
        """Names by which a kernel on (X, C), or on (Z, C), may ask for columns."""
        return [*getattr(self, side), *self.c] if side in self.named else None

    def asked(self, estimator, X, C=None, name: str = "X") -> Array:
        """Rows of (X, C) that a fitted estimator is asked about, together or side by side."""
        if self.c and C is None:
            return self._joined(X, name)
        points = checks.as_new_points(estimator, X, name)
        return points if C is None else self._beside(points, C)

    def _joined(self, X, name: str) -> Array:
        """(X, C) from one table: by name where there are names, otherwise in this order."""
        names = self.regressors
        known = {"x", "c"} <= set(self.named) and len(set(names)) == len(names)
        if known and checks.column_names(X) is not None:
            X = _pick(X, names, name)
        points = checks.as_points(X, name, one_d=False)
        if points.shape[1] != len(names):
            raise ValueError(
                f"{name} has {checks.counted(points.shape[1], 'column')}; {len(names)} are needed: "
                f"{len(self.x)} of X and {len(self.c)} of C (or pass C separately)"
            )
        return points

    def _beside(self, points: Array, C) -> Array:
        """(X, C) from rows of X and a table of C."""
        if "c" in self.named and checks.column_names(C) is not None:
            C = _pick(C, list(self.c), "C")
        C = checks.as_points(C, "C", n=points.shape[0])
        checks.check_columns(C, len(self.c), "C", "the training C")
        return arrays.namespace(points).concat([points, C], axis=1)


@dataclass(frozen=True)
class Forms:
    """The form of each column of one side, (X, C) or (Z, C): a kernel, or one of the two words.

    Or the `single` kernel that was given for all of them.
    """

    each: tuple[Any, ...]
    single: bool = False

    def those(self, word: str) -> list[int]:
        """Numbers of the columns of this form."""
        forms = () if self.single else self.each
        return [j for j, form in enumerate(forms) if isinstance(form, str) and form == word]

    @property
    def bent(self) -> list[int]:
        """Numbers of the columns with a kernel."""
        plain = {*self.those(LINEAR), *self.those(CATEGORY)}
        return [j for j in range(len(self.each)) if j not in plain]

    @property
    def used(self) -> list[Any]:
        """The kernels as they were given."""
        return [self.each[j] for j in self.bent]

    def kernel(self, name: str) -> Any:
        """The product over columns, those of one form together; None without a kernel."""
        if self.single:
            return self.each[0]
        alike: dict[Any, list[int]] = {}
        for j in self.bent:
            alike.setdefault(self.each[j], []).append(j)
        given = {tuple(c): as_kernel(k, name=name, columnwise=True) for k, c in alike.items()}
        return on_columns(given) if given else None

    def levels(self, parts: list[Part], side: str, names: Sequence[str]) -> tuple[tuple, ...]:
        """Each category's column, and the values it takes, the most frequent first.

        The others have indicators: whichever it is by number, ridges would hold a rare one more.
        """
        points, found = together(parts, side), []
        for j in self.those(CATEGORY):
            if points.shape[0] < sum(part.n for part in parts):
                raise ValueError(
                    f"column {names[j]!r} is to be a category, but its rows are Dask's, where not "
                    "all levels are known; make columns of 0 and 1 of it"
                )
            values, counts = np.unique(arrays.to_numpy(points[:, j]), return_counts=True)
            check_repeated(names[j], len(values), points.shape[0])
            often = values[np.argsort(-counts, kind="stable")]
            found.append((j, tuple(map(float, often))))
        return tuple(found)

    def directions(self, parts: list[Part], side: str, names: Sequence[str], own: int) -> int:
        """How many slopes and shifts the first `own` columns have, where none bends."""
        levels = self.levels(parts, side, names)
        return own + sum(len(values) - 2 for j, values in levels if j < own)


def check_repeated(name: str, count: int, n: int) -> None:
    """Refuse a category whose values hardly repeat."""
    if 2 * count > n:
        raise ValueError(
            f"column {name!r} is to be a category, but takes {count} different values in {n} rows; "
            "at most half as many are needed"
        )


def forms_of(kernel_x, kernel_z, roles: Roles, parts: list[Part]) -> tuple[Forms, Forms]:
    """Of the regressors and of the instruments.

    What `kernel_x` says of a column by name holds for it as an instrument, too, unless `kernel_z`
    says otherwise. "auto" are Gaussian kernels, or straight lines where no regressor bends, and
    there is one for each slope and shift of the endogenous ones: fewer do not tell these apart.
    """
    shared = _by_name(kernel_x, roles.regressors, roles.z, "kernel_x")
    forms = _form_of_each(shared, kernel_x, roles.regressors)
    if isinstance(kernel_z, str) and kernel_z == "auto":
        asked = forms.directions(parts, "X", roles.regressors, len(roles.x))
        kernel_z = "gaussian" if forms.bent or asked > len(roles.z) else LINEAR
    own = _by_name(kernel_z, roles.instruments, (), "kernel_z")
    told = own
    if own is not None or (shared is not None and isinstance(kernel_z, str)):
        given = shared or {}
        exogenous = {name: given[OTHERS] for name in roles.c if OTHERS in given}
        named = {name: form for name, form in given.items() if name != OTHERS}
        told = exogenous | named | ({OTHERS: kernel_z} if own is None else own)
    return forms, _form_of_each(told, kernel_z, roles.instruments)


def refuse_twice(roles: Roles, X: np.ndarray, Z: np.ndarray, C: np.ndarray) -> None:
    """Refuse regressors that are exogenous columns, too, and instruments that all are."""
    for i, j in equal_columns(X, C):
        raise ValueError(
            f"column {roles.x[i]!r} of X is column {roles.c[j]!r} of C; a regressor is either "
            "endogenous or exogenous"
        )
    if len({i for i, _ in equal_columns(Z, C)}) == len(roles.z):
        raise ValueError(
            f"columns {list(roles.z)} of Z are columns of C, each; an instrument is needed that is "
            "none of the exogenous regressors, which are instruments anyway"
        )


def without_constants(x: Forms, z: Forms, X, own: int) -> tuple[Forms, Forms]:
    """The forms, but a line along each exogenous column of one value, where there is one."""
    constant = {j for j in x.bent if j >= own and arrays.still(X)[j]}
    if not constant:
        return x, z
    return _on_both_sides([LINEAR if j in constant else f for j, f in enumerate(x.each)], z, own)


def _on_both_sides(each: Sequence[Any], z: Forms, own: int) -> tuple[Forms, Forms]:
    """These of regressors; exogenous ones, after the first `own`, have theirs as instruments."""
    exogenous = tuple(each[own:])
    return Forms(tuple(each)), Forms(z.each[: len(z.each) - len(exogenous)] + exogenous)


def plainer_forms(x: Forms, z: Forms, X, own: int, told: int) -> list[tuple[Forms, Forms]]:
    """Of all columns, where some bend less: those of few values, then all exogenous ones.

    Lines along regressors of one or two values, and along the first `own`, the endogenous ones,
    where instruments have `told` no more than as many directions; categories of exogenous ones that
    have few more values; and lines along the other exogenous ones, too; or along all endogenous
    ones instead. Without those in which no column, or every one, bends.
    """

    def form(j: int, given: Any, straight: bool, line: bool) -> Any:
        if j not in x.bent:
            return given
        values, few = len(few_values(X[:, j])), j < own and (line or told <= own)
        if values > 2 and j >= own:
            return CATEGORY
        return LINEAR if values in (1, 2) or few or (j >= own and straight) else given

    found: list[tuple[Forms, Forms]] = []
    for how in ((False, False), (True, False), (False, True)):
        each = [form(j, given, *how) for j, given in enumerate(x.each)]
        forms = _on_both_sides(each, z, own)
        if 0 < len(forms[0].bent) < len(x.bent) and forms[1].bent and forms not in found:
            found.append(forms)
    return found


def _by_name(asked, names: Sequence[str], more: Sequence[str], argument: str) -> dict | None:
    """The mapping with names in place of numbers; None where there is no mapping."""
    if isinstance(asked, str) and asked == LINEAR:
        return {OTHERS: LINEAR}
    if not isinstance(asked, Mapping):
        return None
    told: dict[str, Any] = {}
    for key, form in asked.items():
        if isinstance(key, int | np.integer) and 0 <= key < len(names):
            told[names[int(key)]] = form
            continue
        # a category of a formula, C(region), is several columns: C(region)[T.north], …
        starts = tuple(f"{called}[" for called in (key, f"C({key})", f"C(`{key}`)"))
        mine = [n for n in (*names, *more) if n == key or n.startswith(starts)]
        if key != OTHERS and not mine:
            raise ValueError(
                f'{argument} speaks of column {key!r}; one of {[*names, *more]}, or "*" for all '
                "others, is needed"
            )
        told |= dict.fromkeys(mine, form) if key != OTHERS else {OTHERS: form}
    return told


def _form_of_each(told: dict | None, whole, names: Sequence[str]) -> Forms:
    if told is None:
        return Forms((whole,) * len(names), single=True)
    return Forms(tuple(told.get(name, told.get(OTHERS, "gaussian")) for name in names))


def _pick(X, names: list[str], name: str):
    """The columns a model was fitted on, from a table that may hold more, in any order."""
    checks.refuse_far(X, name)
    X = checks.as_table(X)
    known = checks.column_names(X) or []
    missing = [c for c in names if c not in known]
    if missing:
        raise ValueError(f"{name} lacks the columns {missing}; the model was fitted on {names}")
    return X.set_axis(known, axis=1)[names]

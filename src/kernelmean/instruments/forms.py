"""How each column enters: by a kernel, in a straight line, or as a category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import arrays
from ..kernels.base import Kernel
from ..kernels.named import as_kernel, on_columns
from .groups import Part
from .roles import Roles
from .rows import together

LINEAR, CATEGORY, OTHERS = "linear", "category", "*"
LEVELS = 10  # different values of a column, and rows for each, that may be categories unasked


@dataclass(frozen=True)
class Forms:
    """The form of each column of one side, (X, C) or (Z, C): a kernel, or one of the two words."""

    each: tuple[Any, ...]

    def those(self, word: str) -> list[int]:
        """Numbers of the columns of this form."""
        return [j for j, form in enumerate(self.each) if isinstance(form, str) and form == word]

    @property
    def bent(self) -> list[int]:
        """Numbers of the columns with a kernel."""
        plain = {*self.those(LINEAR), *self.those(CATEGORY)}
        return [j for j in range(len(self.each)) if j not in plain]

    def kernel(self, name: str) -> Kernel | None:
        """The product over columns, those of one form together; None without a kernel."""
        alike: dict[Any, list[int]] = {}
        for j in self.bent:
            alike.setdefault(self.each[j], []).append(j)
        given = {tuple(c): as_kernel(k, name=name, columnwise=True) for k, c in alike.items()}
        return on_columns(given) if given else None

    def levels(self, parts: list[Part], side: str, names: Sequence[str]) -> tuple[tuple, ...]:
        """Each category's column, and the values it takes."""
        points, found = together(parts, side), []
        for j in self.those(CATEGORY):
            if points.shape[0] < sum(part.n for part in parts):
                raise ValueError(
                    f"column {names[j]!r} is to be a category, but its rows are Dask's, where not "
                    "all levels are known; make columns of 0 and 1 of it"
                )
            values = np.unique(arrays.to_numpy(points[:, j]))
            if 2 * len(values) > points.shape[0]:
                raise ValueError(
                    f"column {names[j]!r} is to be a category, but takes {len(values)} different "
                    f"values in {points.shape[0]} rows; at most half as many are needed"
                )
            found.append((j, tuple(map(float, values))))
        return tuple(found)


def forms_of(kernel_x, kernel_z, roles: Roles) -> tuple[Forms | None, Forms | None]:
    """Of the regressors and of the instruments; None where the kernel is given for all columns.

    What `kernel_x` says of a column by name holds for it as an instrument, too, unless `kernel_z`
    says otherwise.
    """
    asked = _by_name(kernel_x, roles.regressors, roles.z, "kernel_x")
    own = _by_name(kernel_z, roles.instruments, (), "kernel_z")
    if asked is None and own is None:
        return None, None
    if not isinstance(kernel_z, str | Mapping):
        return _form_of_each(asked, roles.regressors), None
    rest = kernel_z if isinstance(kernel_z, str) else (own or {}).get(OTHERS, "gaussian")
    shared = asked or {}
    exogenous = {name: shared[OTHERS] for name in roles.c if OTHERS in shared}
    told = {OTHERS: rest, **exogenous, **_without_others(shared), **_without_others(own or {})}
    return _form_of_each(asked, roles.regressors), _form_of_each(told, roles.instruments)


def plainer_forms(kernel_x, kernel_z, X, Z, exogenous: int) -> list[tuple[Forms, Forms]]:
    """Of all columns, where some bend less: those of few values, then all exogenous ones.

    Lines along regressors of two values, categories of exogenous ones that have few more; and lines
    along the other exogenous ones, too. Without those in which no column, or every one, bends.
    """
    n, d = X.shape

    def form(j: int, otherwise) -> Any:
        values = len(np.unique(X[:, j]))
        few = j >= d - exogenous and values <= min(LEVELS, n // LEVELS)
        return LINEAR if values == 2 else CATEGORY if few else otherwise

    found: list[tuple[Forms, Forms]] = []
    for controls in (kernel_x, LINEAR):
        own = [kernel_x] * (d - exogenous) + [controls] * exogenous
        each = tuple(map(form, range(d), own))
        forms = Forms(each), Forms((kernel_z,) * (Z.shape[1] - exogenous) + each[d - exogenous :])
        if 0 < len(forms[0].bent) < d and forms[1].bent and forms not in found:
            found.append(forms)
    return found


def _by_name(asked, names: Sequence[str], more: Sequence[str], argument: str) -> dict | None:
    """The mapping with names in place of numbers; None where there is no mapping."""
    if not isinstance(asked, Mapping):
        return None
    told: dict[str, Any] = {}
    for key, form in asked.items():
        if isinstance(key, int | np.integer) and 0 <= key < len(names):
            told[names[int(key)]] = form
            continue
        # a category of a formula, C(region), is several columns: C(region)[T.north], …
        mine = [n for n in (*names, *more) if n == key or n.startswith(f"{key}[")]
        if key != OTHERS and not mine:
            raise ValueError(
                f'{argument} speaks of column {key!r}; one of {[*names, *more]}, or "*" for all '
                "others, is needed"
            )
        told |= dict.fromkeys(mine, form) if key != OTHERS else {OTHERS: form}
    return told


def _without_others(told: dict) -> dict:
    return {name: form for name, form in told.items() if name != OTHERS}


def _form_of_each(told: dict | None, names: Sequence[str]) -> Forms | None:
    if told is None:
        return None
    return Forms(tuple(told.get(name, told.get(OTHERS, "gaussian")) for name in names))

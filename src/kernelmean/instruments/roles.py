"""Which columns play which part: told by the tables of a fit, found again in new ones."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import arrays
from ..core.checks import Array, as_points, check_lengths, column_names
from ..core.saving import Saveable


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
    def of(cls, y: str, **sides: tuple[list[str] | None, int]) -> Roles:
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

    def joined(self, X) -> Array:
        """(X, C) from one table: by name where there are names, otherwise in this order."""
        names = self.regressors
        known = {"x", "c"} <= set(self.named) and len(set(names)) == len(names)
        if known and column_names(X) is not None:
            X = _pick(X, names, "X")
        points = as_points(X, "X", one_d=False)
        if points.shape[1] != len(names):
            raise ValueError(
                f"X has {points.shape[1]} columns; {len(names)} are needed: {len(self.x)} of X and "
                f"{len(self.c)} of C (or pass C separately)"
            )
        return points

    def beside(self, points: Array, C) -> Array:
        """(X, C) from rows of X and a table of C."""
        if "c" in self.named and column_names(C) is not None:
            C = _pick(C, list(self.c), "C")
        C = as_points(C, "C")
        if C.shape[1] != len(self.c):
            raise ValueError(
                f"C has {C.shape[1]} columns, but KernelIV was fitted with {len(self.c)}"
            )
        check_lengths(points.shape[0], C.shape[0], "X", "C")
        return arrays.namespace(points).concat([points, C], axis=1)


def _pick(X, names: list[str], name: str):
    """The columns a model was fitted on, from a table that may hold more, in any order."""
    X = X.to_frame() if hasattr(X, "to_frame") else X
    known = column_names(X) or []
    missing = [c for c in names if c not in known]
    if missing:
        raise ValueError(f"{name} lacks the columns {missing}; the model was fitted on {names}")
    return X.set_axis(known, axis=1)[names]

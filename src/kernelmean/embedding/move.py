"""How the members of a batch are moved, each in its own way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.saving import Saveable
from .bend import Bend


@dataclass(frozen=True)
class Move(Saveable):
    """e ↦ y = B⁻¹(shift_b + width_b e) of members b, in every column.

    Rows are (m, d), a row of each member, or (m, k, d); for all members alike also (1, k, d).

    Attributes
    ----------
    shift, widths : array of shape (m, d) or None
        None is zero, or one.
    bend : Bend or None
        B; None leaves what it is given.
    """

    shift: np.ndarray | None = None
    widths: np.ndarray | None = None
    bend: Bend | None = None

    @property
    def common(self) -> bool:
        """Whether all members are moved alike."""
        return self.shift is None and self.widths is None

    @property
    def idle(self) -> bool:
        """Whether nothing is moved."""
        return self.common and self.bend is None

    def of(self, members) -> Move:
        """Those of some members."""
        return replace(self, shift=_of(self.shift, members), widths=_of(self.widths, members))

    def on(self, columns) -> Move:
        """That of one column, or of several."""
        at = (..., np.atleast_1d(columns))
        bend = None if self.bend is None else self.bend.on(columns)
        return Move(_of(self.shift, at), _of(self.widths, at), bend)

    def straight(self, E: np.ndarray) -> np.ndarray:
        """shift + width e, on the bent scale."""
        E = E if self.widths is None else E * _beside(self.widths, E)
        return E if self.shift is None else E + _beside(self.shift, E)

    def __call__(self, E: np.ndarray) -> np.ndarray:
        """y."""
        E = self.straight(E)
        return E if self.bend is None else self.bend.back(E)

    def back(self, Y: np.ndarray) -> np.ndarray:
        """e."""
        Y = Y if self.bend is None else self.bend(Y)
        Y = Y if self.shift is None else Y - _beside(self.shift, Y)
        return Y if self.widths is None else Y / _beside(self.widths, Y)

    def steepness(self, Y: np.ndarray) -> Any:
        """log |de/dy| of every column at rows of y: log p(y) is that of e and the sum."""
        found: Any = 0.0 * Y if self.bend is None else self.bend.log_steepness(Y)
        return found if self.widths is None else found - np.log(_beside(self.widths, Y))


def _of(each: np.ndarray | None, at) -> np.ndarray | None:
    return None if each is None else each[at]


def _beside(each: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """As rows are shaped."""
    return each if rows.ndim == each.ndim else each[:, None, :]

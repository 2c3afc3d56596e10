"""Sums over rows of functions of their outcome: outcomes gathered in cells narrower than a kernel.

Σ_j p_j k̄_γ(y_j, ·) of rows without number is that of nodes which are a sixteenth of γ apart, every
row shared between the two beside it: sums and means are kept, and variances grow by less than
γ²/1000. Of two columns the nodes are a quarter of γ apart, every row shared between four, and
variances grow by less than γ²/60.
"""

from __future__ import annotations

import itertools
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ..core import Moments, Rows, arrays
from ..core.minimise import SEARCH_ROWS
from ..features.base import FeatureMap
from ..kernels import CorrelatedGaussian
from ..regression.smoother import Smoother, with_ones
from ..regression.support import Support
from .location import Location

FINE = 1 / 16  # of the bandwidth, from node to node
IN_MEMORY = 50_000  # rows that are looked at one by one
UNITS = np.array([1, 1j])  # along which columns are counted


def enough(rows: Rows | None, d: int, name: str, most: int = 1) -> Rows | None:
    """The rows, or None where those looked at in memory are all of them.

    Raises
    ------
    ValueError
        Where there are more, of more columns than `most`: nearly every row is a cell of its own.
    """
    if rows is None or rows.n <= SEARCH_ROWS:
        return None
    if d > most:
        raise ValueError(
            f"{name} has {d} columns and {rows.n:,} rows, which are elsewhere: beyond "
            f"{SEARCH_ROWS:,} rows cells are of {most} at most; rows.few(10_000)"
        )
    return rows


def to_be_summed(X, Y) -> bool:
    """Whether rows in memory are so many that sums over them do, and cells hold their outcomes."""
    return isinstance(X, np.ndarray) and len(X) > IN_MEMORY and Y.shape[1] == 1


class Cells:
    """Sums of P, (n, r), at some of the nodes 0, ±step, ±2 step, … that outcomes (n, d) lie beside.

    Attributes
    ----------
    step : array of shape (d,)
        Along one column, or two.
    nodes : array of shape (m,)
        Their numbers, ascending; complex numbers where there are two columns.
    sums : array of shape (m, r)
    """

    def __init__(self, step: np.ndarray, Y: np.ndarray, P: np.ndarray):
        below = np.floor(Y / step)
        above = Y / step - below
        corners = np.array(list(itertools.product((0, 1), repeat=len(step))))[:, None, :]
        shares = np.where(corners, above, 1.0 - above).prod(axis=2).ravel()
        numbers = (below + corners) @ UNITS[: len(step)]
        numbers = numbers if len(step) > 1 else numbers.real
        self.step, (self.nodes, at) = step, np.unique(numbers, return_inverse=True)
        rows = np.tile(np.arange(len(Y)), len(corners))
        self.sums = csr_matrix((shares, (at.ravel(), rows))) @ P

    def merge(self, other: Cells) -> Cells:
        """Those of both."""
        both, nodes = copy(self), np.concatenate([self.nodes, other.nodes])
        both.nodes, at = np.unique(nodes, return_inverse=True)
        both.sums = np.zeros((len(both.nodes), self.sums.shape[1]))
        np.add.at(both.sums, at, np.concatenate([self.sums, other.sums]))
        return both

    @property
    def points(self) -> np.ndarray:
        """The nodes, (m, d)."""
        return np.stack([self.nodes.real, self.nodes.imag][: len(self.step)], axis=1) * self.step


def width(kernel: Any, d: int) -> np.ndarray:
    """Of cells along each column, by the bandwidths, or by how narrow a kernel that leans is."""
    narrow = kernel.narrowness if isinstance(kernel, CorrelatedGaussian) else 1.0
    return FINE * 4 ** (d - 1) * narrow * np.broadcast_to(kernel.lengthscale, (d,))


def weighted(rows: Rows, kernel: Any, d: int) -> Cells:
    """Of one column or two, and the weights of the rows if there are any."""
    return rows.in_slices(_weights_of, 4**d, width(kernel, d))


def _weights_of(X, *given) -> Cells:
    *weights, step = given
    return Cells(step, arrays.to_numpy(X), weights[0] if weights else np.ones((len(X), 1)))


class Sums(NamedTuple):
    """What a conditional density is of, over rows.

    Attributes
    ----------
    moments : Moments
        Of φ(x), as "x".
    cells : Cells
        Of (1, φ(x)), by outcomes or by residuals.
    support : Support
    """

    moments: Moments
    cells: Cells
    support: Support

    @classmethod
    def of(
        cls, rows: Rows, kernel: Any, features: FeatureMap, location: Location | None, bend
    ) -> Sums:
        """A pass over the rows; outcomes are on a bent scale if there is one."""
        wide = features.rank_ + (0 if location is None else location.rank)
        return rows.in_slices(_sums_of, wide, width(kernel, 1), features, location, bend)

    def merge(self, other: Sums) -> Sums:
        """Those of both."""
        pairs: Any = zip(self, other, strict=True)
        return Sums(*(one.merge(two) for one, two in pairs))

    def along(self, smoother: Smoother) -> tuple[np.ndarray, np.ndarray]:
        """Nodes, and sums in their cells of (1, P), P the rows in the basis of the smoother."""
        counts, own = np.hsplit(self.cells.sums, [1])
        if smoother.centre is not None:
            own = own - counts * smoother.centre
        return self.cells.points, np.hstack([counts, own @ smoother.grid.vectors])


def _sums_of(X, Y, step: np.ndarray, features: FeatureMap, location: Location | None, bend) -> Sums:
    Phi = features.transform(X)
    Y = Y if bend is None else bend(Y)
    e = Y if location is None else location.left_out(X, Y)
    return Sums(Moments("x", "xx").add(x=Phi), Cells(step, e, with_ones(Phi)), Support.of(X))

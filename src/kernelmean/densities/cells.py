"""Sums over rows of functions of their outcome: outcomes gathered in cells narrower than a kernel.

Σ_j p_j k̄_γ(y_j, ·) of rows without number is that of nodes which are a sixteenth of γ apart, every
row shared between the two beside it: sums and means are kept, and variances grow by less than
γ²/1000.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ..core import arrays
from ..core.minimise import SEARCH_ROWS
from ..core.rows import Rows
from ..embedding.bend import Bend
from ..features.base import FeatureMap
from ..regression.smoother import Smoother, with_ones
from .location import Location

FINE = 1 / 16  # of the bandwidth, from node to node


def enough(rows: Rows | None, d: int, name: str) -> Rows | None:
    """The rows, or None where those looked at in memory are all of them.

    Raises
    ------
    ValueError
        Where there are more, of several columns.
    """
    if rows is None or rows.n <= SEARCH_ROWS:
        return None
    if d > 1:
        raise ValueError(
            f"{name} has {d} columns and {rows.n:,} rows, which are elsewhere: beyond "
            f"{SEARCH_ROWS:,} rows only the densities of a single column are sums; rows.few(10_000)"
        )
    return rows


@dataclass(frozen=True)
class Cells:
    """Sums at some of the nodes 0, ±step, ±2 step, …

    Attributes
    ----------
    step : float
    nodes : array of shape (m,)
        Their numbers, ascending.
    sums : array of shape (m, r)
    """

    step: float
    nodes: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(cls, step: float, y: np.ndarray, P: np.ndarray) -> Cells:
        """Of outcomes (n,) and what is summed, (n, r)."""
        below = np.floor(y / step)
        above = (y / step - below)[None, :]
        nodes, at = np.unique(np.stack([below, below + 1]), return_inverse=True)
        shares = np.concatenate([1.0 - above, above]).ravel()
        rows = np.tile(np.arange(len(y)), 2)
        return cls(step, nodes, csr_matrix((shares, (at.ravel(), rows))) @ P)

    def merge(self, other: Cells) -> Cells:
        """Those of both."""
        nodes, at = np.unique(np.concatenate([self.nodes, other.nodes]), return_inverse=True)
        sums = np.zeros((len(nodes), self.sums.shape[1]))
        np.add.at(sums, at, np.concatenate([self.sums, other.sums]))
        return Cells(self.step, nodes, sums)

    @property
    def points(self) -> np.ndarray:
        """The nodes, (m, 1)."""
        return (self.nodes * self.step)[:, None]


def width(kernel: Any) -> float:
    """Of cells, by the bandwidth of the one column."""
    return FINE * float(np.ravel(kernel.lengthscale)[0])


def weighted(rows: Rows, kernel: Any) -> Cells:
    """Of a column, and its weights if there are any."""
    return rows.in_slices(_weights_of, 1, width(kernel))


def _weights_of(X, *given) -> Cells:
    *weights, step = given
    return Cells.of(step, arrays.to_numpy(X)[:, 0], weights[0] if weights else np.ones_like(X))


def laws(
    rows: Rows,
    kernel: Any,
    features: FeatureMap,
    smoother: Smoother,
    location: Location | None,
    bend: Bend | None,
) -> Cells:
    """Of outcomes, or of residuals, on a bent scale if there is one; summed are ones and P."""
    given = width(kernel), features, smoother.alone(), location, bend
    return rows.in_slices(_laws_of, features.rank_, *given)


def _laws_of(
    X, Y, step: float, features: FeatureMap, smoother: Smoother, location: Location | None, bend
) -> Cells:
    P = smoother.rotated(features.transform(X))
    Y = Y if bend is None else bend.transform(Y)
    e = Y if location is None else location.left_out(X, Y)
    return Cells.of(step, e[:, 0], with_ones(P) if smoother.centre is None else P)

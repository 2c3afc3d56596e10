"""Sums over rows of functions of their outcome: outcomes gathered in cells narrower than a kernel.

Σ_j p_j k̄_γ(y_j, ·) of rows without number is that of nodes which are a sixteenth of γ apart, every
row shared between the two beside it: sums and means are kept, and variances grow by less than
γ²/1000.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ..core import arrays
from ..core.checks import as_points, as_vector
from ..core.minimise import SEARCH_ROWS
from ..core.moments import block_rows, row_blocks
from ..core.rows import Rows, merged
from ..features.base import FeatureMap
from ..regression.smoother import Smoother, with_ones
from .location import LeftOut

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
    return rows.reduce(_weights_of, width(kernel))


def _weights_of(block: tuple, step: float) -> Cells:
    y = arrays.to_numpy(as_points(block[0], "X"))[:, 0]
    w = block[1] if len(block) > 1 else None
    P = np.ones(len(y)) if w is None else arrays.to_numpy(as_vector(w, "sample_weight", n=len(y)))
    return Cells.of(step, y, P[:, None])


def laws(
    rows: Rows, kernel: Any, features: FeatureMap, smoother: Smoother, errors: LeftOut | None
) -> Cells:
    """Of outcomes, or of residuals; summed are ones and P."""
    return rows.reduce(_laws_of, width(kernel), features, smoother.alone(), errors)


def _laws_of(
    block: tuple, step: float, features: FeatureMap, smoother: Smoother, errors: LeftOut | None
) -> Cells:
    tables = (arrays.to_numpy(as_points(A, name)) for A, name in zip(block, "Xy", strict=True))
    parts = []
    for X, Y in row_blocks(*tables, rows=block_rows(features.rank_)):
        P = smoother.rotated(features.transform(X))
        e = Y if errors is None else errors(X, Y)
        parts.append(Cells.of(step, e[:, 0], with_ones(P) if smoother.centre is None else P))
    return reduce(merged, parts)

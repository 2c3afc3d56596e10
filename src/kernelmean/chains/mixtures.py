"""Quantiles of mixtures of the laws of states, by column: rows smoothed, guards as they are."""

from dataclasses import replace

import numpy as np

from ..core import Array, arrays
from ..core.threads import side_by_side
from ..embedding.embedding import MeanEmbedding
from ..embedding.gridded import Gridded
from ..embedding.line import CELLS_PER_WIDTH, MEMBER_FLOATS, Line, quantiles
from .model import FittedChain

ALIKE = 0.02  # relative distance of two bandwidths that are taken for one
FINE = 16  # points are taken together where nearer than one part in so many of the bandwidth
NEAR = 1e-3  # of a cell of the grid, within which nodes are one; of a bandwidth, a column is still


def mixed_quantiles(
    chain: FittedChain, states: np.ndarray, q, widths: np.ndarray, many: float
) -> Array:
    """Of laws Σ_k P(x = k) f_k, (m, d) or (m, len(q), d): for P (m, K) and bandwidths (m, d).

    A guard with a large share has it here as in the densities, no wider than it is: what stands for
    it among the points of the embeddings is left out. Of more than `many` points neighbours are
    taken together.
    """
    columns: list[np.ndarray] = []
    for j, width in enumerate(widths.T):
        least = (NEAR * width.min()) ** 2  # of a column that is not constant
        guarded = chain.guarded and chain.laws.guard.variances[:, j].min() >= least
        laws = chain.kernel_part if guarded else chain.emissions
        laws, parts = gathered(laws, j, float(width.min()), many), []
        cell = np.round(np.log(np.maximum(width, np.finfo(float).tiny)) / ALIKE)
        alike = [np.flatnonzero(cell == c) for c in np.unique(cell)]
        for rows in alike:
            h = float(width[rows].mean())
            if guarded:
                line = Guarded(chain, laws, j, h, states[rows])
                parts.append(quantiles([line], q))
            else:
                mixture = replace(chain, emissions=laws).mixture(states[rows])
                parts.append(arrays.to_numpy(mixture.quantile(q, h)))
        columns.append(np.concatenate(parts)[np.argsort(np.concatenate(alike))])
    return arrays.like(np.concatenate(columns, axis=-1), chain.emissions.points)


class Guarded:
    """Mixtures of laws of states along one column, each N_k/(N_k + c) of rows and the guard."""

    def __init__(self, chain: FittedChain, laws: MeanEmbedding, j: int, width: float, states):
        guard, line, own = chain.laws.guard, Line(laws, width), chain.bandwidth
        own = own[j] if isinstance(own, tuple) else own or 0.0
        extra = max(width**2 - own**2, 0.0)
        nodes = np.union1d(line.grid, guard.nodes(j, extra))
        self.nodes = nodes[np.append(np.diff(nodes) > NEAR * width / CELLS_PER_WIDTH, True)]
        share = guard.share[:, None]
        F, f = guard.along(j, self.nodes, extra)
        self.q = (1 - share) * line.pdf(self.nodes) + share * f
        self.F = (1 - share) * line.cdf(self.nodes) + share * F
        self.states = states

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """Quantiles (m, k) of all mixtures."""

        def of(some: slice) -> np.ndarray:
            cells = Gridded(self.nodes, self.states[some] @ self.q, self.states[some] @ self.F)
            return cells.quantile(np.broadcast_to(levels, (len(cells.q), levels.size)))

        step = max(1, MEMBER_FLOATS // len(self.nodes))
        return np.concatenate(side_by_side(of, arrays.slices(len(self.states), step)))


def gathered(laws: MeanEmbedding, column: int, width: float, many: float) -> MeanEmbedding:
    """One column of a batch of laws; of many points, those very near each other as one."""
    laws = laws.marginal([column])
    if laws.points.shape[0] <= many or not width > 0:
        return laws
    y = arrays.to_numpy(laws.points)[:, 0]
    _, cell = np.unique(np.floor(y * (FINE / width)), return_inverse=True)
    centres = np.bincount(cell, y) / np.bincount(cell)
    weights = np.stack([np.bincount(cell, w) for w in arrays.to_numpy(laws.weights)])
    points = arrays.like(centres[:, None], laws.points)
    return MeanEmbedding.of_parts(points, arrays.like(weights, points), None, laws.kernel)

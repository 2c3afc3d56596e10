"""A filter whose laws are conditional densities: the training states are the nodes of a chain."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from ..core import arrays
from ..core.checks import frozen
from ..core.moments import evenly
from ..core.saving import Saveable
from ..densities.standard import NormalErrors, Standard
from ..embedding.embedding import MeanEmbedding
from ..kernels import Kernel
from .laws import Laws, LawsAt, StateLaw
from .machine import Recursion, Step

NODES = 500  # of one state; cells of two
LEAST, MOST, OF_ROW = 1_000, 6_000, 60  # of draws, to a row; as many as the narrower laws are
PAIRS, REACHED = 1e6, 300  # so many may follow each other, and may follow each, at least
BEYOND = 2.0, 0.25  # of the range, on both sides, of nodes of one column and of several
GOLDEN = (1 + 5**0.5) / 2
SLANT = np.array([[GOLDEN, 1.0], [-1.0, GOLDEN]]) / (1 + GOLDEN**2) ** 0.5  # of a grid
CELLS = 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.35, 0.25, 0.18, 0.12, 0.09  # their width, of that of laws
# below half of that they are where a sensor tells more: so many, where so much wider paths would go
SEEN, WIDER = 2_000, (1.0, 1.25, 1.5)
LOOKED = 100  # observations of which it is asked
BLUR = 0.2  # of a cell's width: distribution functions over cells go up over so much
STEPS = 20, 100  # of the paths that they are drawn from; between them a third of the rows
TIMES, DRAWN = 8, 16_000  # draws of which one is kept, and all of them at most
NOTHING = 1e-9  # of a row's largest transition
FAR = 5.5  # standard deviations: what is there comes to nothing
FEW = 3.0  # nodes that an observation leaves: intervals mean nothing then
NEAREST = 2  # of the nodes, to which a law has to reach
BLOCK = 2**16  # transitions that are looked at together
THIN = 0.25  # share of transitions below which the others are not kept
ABSURD = 12.0  # log density below that of the most surprising training row, of a collapse


class NodeMachine(Recursion):
    """Bayes' rule on weights of the nodes z_j, with learned densities p(z'|z) and p(x|z).

    The nodes of one column are evenly spaced among the training states, and wider apart beyond;
    those of two are cells of a slanted grid where paths by p(z'|z) go, if it is as wide as these;
    others are drawn from such paths, evenly, the more the narrower it is.

    - predict: w'_j = Σ_i w_i K_ij, rows summing to one, K_ij ∝ p(z_j|z_i) times the size of the
      cell of j, or over Σ_l p(z_j|z_l) where the nodes are draws of what these densities average
      to;
    - update: w_j ∝ w'_j p(x|z_j);
    - smooth: the backward pass of that chain, v_i = w_i Σ_j K_ij s_j / w'_j.

    Attributes
    ----------
    points : array of shape (N, d_z)
        The nodes.
    points_x : array of shape (N, d_x)
        A draw of what is observed at each.
    transition : array of shape (N, N), or Sparse
        K.
    observing : NormalErrors or Fit
        p(x|z), of a standardised x.
    least : float
        Log density of the training observation that is least likely at its own state.
    standard : Standard, optional
        What x is standardised by.
    share : array of shape (N,), optional
        Of the law of the training states, at each node; None is the same at all.
    units_x, units : arrays of shape (d_x,) and (d_z,), or 1
        Standard deviations of observations and states, in units of which the laws are,
    middle_x, middle : arrays of shape (d_x,) and (d_z,), or 0
        and means, from which they count.
    blur : tuple of float, optional
        By how much distribution functions over cells of the plane are smoothed, by column.
    """

    # a file of an earlier version may have none of these
    standard: Standard | None = None
    units_x: np.ndarray | float = 1.0
    units: np.ndarray | float = 1.0
    middle_x: np.ndarray | float = 0.0
    middle: np.ndarray | float = 0.0

    def __init__(self, laws: Laws, kernel_x: Kernel, kernel_z: Kernel, limit, quick: bool):
        self.kernel_x, self.kernel_z = kernel_x, kernel_z
        (self.middle_x, self.units_x), (self.middle, self.units) = laws.units
        moving, seeing, X, Z = laws.moving, laws.seeing, laws.X, laws.Z
        self.observing, self.standard = seeing.density, seeing.standard
        self.least = float(np.min(seeing.at(Z).log_density_of_pairs(X)))
        rng = np.random.default_rng(0)
        told = seeing, X[evenly(len(X), LOOKED)]
        points, sizes = nodes_of(moving, told, Z, limit, quick, rng)
        if sizes is None:
            self.transition = chain_near(widened(moving.at(points), points), points)
        else:
            self.transition = thinned(chain_of(moving.at(points).log_density(points), sizes))
            onward = moving.at(Z[evenly(len(Z), LEAST)]).log_density(points)
            self.share = chain_of(onward, sizes).mean(axis=0)
            if Z.shape[1] == 2:
                self.blur = tuple(BLUR * sizes[0] ** 0.5 * self.units)
        self.points = frozen(points * self.units + self.middle)
        self.points_x = frozen(seeing.at(points).sample(rng) * self.units_x + self.middle_x)

    @cached_property
    def _laws(self) -> LawsAt:
        """Of an observation, at each node."""
        return StateLaw(self.observing, self.standard).at(self._inner(self.points))

    def _inner(self, points) -> np.ndarray:
        """States in the units of the laws."""
        return (points - self.middle) / self.units

    # ------------------------------------------------------------ one step

    def first(self, prior: MeanEmbedding) -> Step:
        """Each point of the prior gives its weight to the node that is nearest."""
        weights = arrays.to_numpy(prior.weights)
        if prior.points is self.points:
            return self._step(weights, "start")
        own = self._inner(arrays.to_numpy(prior.points))
        near = cKDTree(self._inner(self.points)).query(own)[1]
        told = np.bincount(near, np.maximum(weights, 0.0), len(self.points))
        return self._step(told, "start")

    def predicted(self, step: Step) -> Step:
        """One step on in time."""
        told = self._step(step.belief @ self.transition, "predicted")
        return replace(told, previous=step.mean)

    def coordinates(self, X) -> np.ndarray:
        """log p(x|z_j) of some observations and all nodes, (m, N)."""
        return self._laws.log_density((X - self.middle_x) / self.units_x).T

    def updated(self, steps: list[Step], coordinates) -> list[Step]:
        """Bayes' rule; an observation unlike any seen in training changes nothing."""
        return [self._one(*pair) for pair in zip(steps, coordinates, strict=True)]

    def _one(self, step: Step, log_density: np.ndarray) -> Step:
        top = float(log_density.max())
        if top < self.least - ABSURD:
            return replace(step, collapsed=True)
        return self._step(step.belief * np.exp(log_density - top), "updated")

    def smoothed(self, step: Step, later: Step) -> Step:
        """A filtered step once the belief about the next one is known."""
        ahead = np.maximum(step.belief @ self.transition, np.finfo(float).tiny)
        revised = self._step(step.belief * (self.transition @ (later.belief / ahead)), "smoothed")
        return replace(revised, collapsed=step.collapsed)

    def _step(self, weights: np.ndarray, kind: str) -> Step:
        """Weights in proportion to these; the usual ones where they come to nothing."""
        total = weights.sum()
        w = weights / total if total > 0 else self.usual
        return Step(w, np.concatenate([[1.0], w @ self.points]), kind)

    def observations(self, steps) -> MeanEmbedding:
        """The batch of embeddings of what is observed then: each node has its observation."""
        W = np.stack([step.belief for step in steps])
        return MeanEmbedding.of_parts(self.points_x, W, None, self.kernel_x)


def nodes_of(
    moving: StateLaw, told: tuple[StateLaw, np.ndarray], Z, limit: int | None, quick: bool, rng
) -> tuple[np.ndarray, np.ndarray | None]:
    """The nodes and the sizes of their cells; None if they are draws.

    Of one column half of them are among the training states, a quarter further on either side. Of
    several they are where paths from evenly spaced states go. Of draws one of
    several neighbours is kept, so that nodes are drawn from the same law but lie evenly.

    `told` are observations with their law.
    """
    low, high = Z.min(axis=0), Z.max(axis=0)
    further = BEYOND[Z.shape[1] > 1] * (high - low)
    box = low - further, high + further
    if Z.shape[1] == 1:
        ends = np.concatenate([box[0], low, high, box[1]])
        points = np.interp(np.linspace(0.0, 1.0, limit or NODES), [0.0, 0.25, 0.75, 1.0], ends)
        return points[:, None], np.gradient(points)

    steps = int(np.clip(len(Z) // 3, *STEPS))

    def some(n: int) -> np.ndarray:
        at, found = Z[np.linspace(0, len(Z) - 1, -(-n // steps)).round().astype(int)], []
        for _ in range(steps):
            at = np.clip(moving.at(at).sample(rng), *box)
            found.append(at)
        return np.concatenate(found)[:n]

    if Z.shape[1] == 2:
        draws = some(min(TIMES * (limit or NODES), DRAWN))
        points, size = cells(draws, moving.narrowest(Z), told, limit)
        if points is not None:
            return points, np.full(len(points), size)
    n = limit or LEAST
    if not limit and not quick and isinstance(moving.density, NormalErrors):
        n = min(enough(moving, some(LEAST // 4)), max(LEAST, OF_ROW * len(Z)))
    return np.array(one_of_each(some(max(n, min(TIMES * n, DRAWN))), n, rng)), None


def cells(
    draws: np.ndarray, width: float, told: tuple[StateLaw, np.ndarray], limit: int | None
) -> tuple[np.ndarray | None, float]:
    """Middles of the cells of a grid that draws of the plane are in, and the area of one.

    None if cells as wide as laws are too many. They are narrower, by half at most: sums over them
    are next to integrals; and narrower still while observations leave hardly more than one. The
    grid is slanted, no two nodes share a coordinate, and so quantiles of one column do not jump by
    the width of a cell.
    """
    points, area, (seeing, X) = None, 0.0, told
    wider = np.concatenate([part * draws for part in WIDER])
    for side in width * np.array(CELLS):
        found = np.unique(np.floor(draws @ SLANT / side), axis=0)
        if side < width / 2 or len(found) > (limit or NODES):
            if points is None or limit:
                break
            left = chain_of(seeing.at(points).log_density(X).T, np.ones(len(points)))
            if np.median(1.0 / (left * left).sum(axis=1)) >= FEW:
                break
            found = np.unique(np.floor(wider @ SLANT / side), axis=0)
            if len(found) > SEEN:
                break
        points, area = (found + 0.5) * side @ SLANT.T, side**2
    return points, area


def enough(moving: StateLaw, few: np.ndarray) -> int:
    """So many draws that a node has many successors: few are near any other if laws are narrow."""
    told = moving.at(few).log_density(few)
    near = np.mean(told > told.max(axis=1, keepdims=True) + np.log(NOTHING))
    return int(np.clip(max((PAIRS / near) ** 0.5, REACHED / near), LEAST, MOST))


def one_of_each(points: np.ndarray, n: int, rng) -> list[np.ndarray]:
    """A draw from each of n groups of neighbours, as large as each other."""
    if n == 1:
        return [points[rng.integers(len(points))]]
    order = np.argsort(points[:, np.argmax(points.std(axis=0))])
    few, part = n // 2, len(points) * (n // 2) // n
    below, above = points[order[:part]], points[order[part:]]
    return one_of_each(below, few, rng) + one_of_each(above, n - few, rng)


def chain_of(log_density: np.ndarray, sizes: np.ndarray | None = None) -> np.ndarray:
    """Transition probabilities between nodes from log p(z_j|z_i), (N, N).

    Of nodes with cells of these sizes, or else drawn from what these densities average to.
    """
    K = log_density - log_density.max(axis=0 if sizes is None else 1, keepdims=True)
    np.exp(K, out=K)
    K *= 1.0 / K.sum(axis=0) if sizes is None else sizes
    total = K.sum(axis=1, keepdims=True)
    K /= np.maximum(total, np.finfo(float).tiny)
    K[total[:, 0] == 0] = 1.0 / len(K)
    return K


def widened(laws: LawsAt, points: np.ndarray) -> LawsAt:
    """At least as wide as half of the way from the middle to the second nearest node.

    Where states follow each other more exactly beliefs would stay on a node, or leave the path.
    """
    errors: Any = laws.laws
    normal = isinstance(errors, NormalErrors)
    own = np.linalg.norm(errors.root, axis=1) if normal else errors.embedding.points.std(axis=0)
    width = np.exp(laws.log_size) * own
    far = cKDTree(points).query(laws.middle, min(NEAREST, len(points)))[0].reshape(len(points), -1)
    more = 0.5 * np.log1p((0.5 * far[:, -1:] / width) ** 2)
    return replace(laws, log_size=laws.log_size + more)


def chain_near(laws: LawsAt, points: np.ndarray) -> np.ndarray | Sparse:
    """Transition probabilities between nodes that were drawn, next to nothing left out.

    Of normal laws that is what is more than `FAR` standard deviations away. A law that no node is
    near to is that of the nearest, in its own standard deviations.
    """
    normal: Any = laws.laws
    if not isinstance(normal, NormalErrors):
        return thinned(chain_of(laws.log_density(points)))
    n, by = len(points), np.linalg.inv(normal.root)
    step, found = max(1, BLOCK // n), []
    for start in range(0, n, step):
        some = slice(start, start + step)
        size, square = np.exp(-laws.log_size[some]), np.zeros((1, n))
        for row in by:  # (L⁻¹(y − m)/s)², a product of matrices
            slope = row * size
            off = slope @ points.T - (slope * laws.middle[some]).sum(axis=1, keepdims=True)
            square = square + off * off
        i, j = np.nonzero(square <= np.maximum(square.min(axis=1, keepdims=True), FAR**2))
        found.append((i + start, j, -0.5 * square[i, j] - laws.log_size[some].sum(axis=1)[i]))
    i, j, told = map(np.concatenate, zip(*found, strict=True))
    # never zero: what a law has at one node is all that it has
    share = np.exp(np.maximum(told - told.max(), -600.0))
    sparse = Sparse(csr_array((share / np.bincount(j, share, n)[j], (i, j)), shape=(n, n)))
    return sparse.rows.toarray() if len(i) > THIN * n**2 else sparse


class Sparse(Saveable):
    """A square matrix of few numbers, those of SciPy's rows, which sum to one."""

    __array_ufunc__ = None  # an array @ this is asked here

    def __init__(self, K: csr_array):
        self.data = K.data / np.repeat(K.sum(axis=1), np.diff(K.indptr))
        self.indices, self.indptr = K.indices, K.indptr

    @cached_property
    def rows(self) -> csr_array:
        n = len(self.indptr) - 1
        return csr_array((self.data, self.indices, self.indptr), shape=(n, n))

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        return self.rows @ v

    def __rmatmul__(self, v: np.ndarray) -> np.ndarray:
        return v @ self.rows


def thinned(K: np.ndarray) -> np.ndarray | Sparse:
    """Without what is next to nothing, if that is most."""
    kept = NOTHING * K.max(axis=1, keepdims=True) < K
    return K if kept.mean() > THIN else Sparse(csr_array(np.where(kept, K, 0.0)))

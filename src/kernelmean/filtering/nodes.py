"""A filter whose laws are conditional densities: the training states are the nodes of a chain."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from ..core import Saveable, arrays, checks
from ..core.moments import evenly
from ..densities.standard import Standard
from ..embedding.embedding import MeanEmbedding
from ..kernels import Kernel
from .laws import Laws, LawsAt, StateLaw
from .machine import Recursion, Step

NODES = 500  # of one state; cells of two
DRAWS, LEAST = 4_000, 1_000  # of several; while ways are compared
GOLDEN = (1 + 5**0.5) / 2
SLANT = np.array([[GOLDEN, 1.0], [-1.0, GOLDEN]]) / (1 + GOLDEN**2) ** 0.5  # of a grid
CELLS = 0.95 ** np.arange(48)  # their width, of that of laws
# below half of that they are where a sensor tells more: so many, where so much wider paths would go
SEEN, WIDER = 2_000, (1.0, 1.25, 1.5)
LOOKED = 100  # observations of which it is asked
BLUR = 0.2  # of a cell's width: distribution functions over cells go up over so much
STEPS = 20, 100  # of the paths that they are drawn from; between them a third of the rows
TIMES, EACH = 32, 4  # as many draws as cells, lest there are holes; so many of each law
OBSERVED = 4_000  # draws of observations, at all nodes together
NOTHING = 1e-9  # of a row's largest transition
FEW = 3.0  # nodes that an observation leaves: intervals mean nothing then
THIN = 0.25  # share of transitions below which the others are not kept
FOLLOWED, ROUNDS = 200, 3  # rows by which it is asked how much an observation counts
ABSURD = 12.0  # log density below that of the most surprising training row, of a collapse


class NodeMachine(Recursion):
    """Bayes' rule on weights of the nodes z_j, with learned densities p(z'|z) and p(x|z).

    The nodes of one column are evenly spaced among the training states, and wider apart beyond;
    those of two are cells of a slanted grid where paths by p(z'|z) go, if it is as wide as these
    (else, and of more columns, see `particles.ParticleMachine`).

    - predict: w'_j = Σ_i w_i K_ij, rows summing to one, K_ij ∝ p(z_j|z_i) times the size of the
      cell of j;
    - update: w_j ∝ w'_j p(x|z_j)^a, a = 1 unless errors last (`counting`);
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
        Standard deviations of observations and states, in units of which the laws are (0 of a
        column of observations that is constant, and says nothing),
    middle_x, middle : arrays of shape (d_x,) and (d_z,), or 0
        and means, from which they count.
    blur : tuple of float, optional
        By how much distribution functions over cells of the plane are smoothed, by column.
    power : float
        a.
    """

    # a file of an earlier version may have none of these
    standard: Standard | None = None
    units_x: np.ndarray | float = 1.0
    units: np.ndarray | float = 1.0
    middle_x: np.ndarray | float = 0.0
    middle: np.ndarray | float = 0.0
    power: float = 1.0

    def __init__(self, laws: Laws, kernel_x: Kernel, kernel_z: Kernel, points, sizes, rng):
        self.kernel_x, self.kernel_z = kernel_x, kernel_z
        (self.middle_x, self.units_x), (self.middle, self.units) = laws.units
        moving, seeing, X, Z = laws.moving, laws.seeing, laws.X, laws.Z
        self.observing, self.standard = seeing.density, seeing.standard
        self.least = float(np.min(seeing.at(Z).log_density_of_pairs(X)))
        if sizes is not None:
            self.transition = thinned(chain_of(moving.at(points).log_density(points), sizes))
            onward = moving.at(Z[evenly(len(Z), LEAST)]).log_density(points)
            self.share = chain_of(onward, sizes).mean(axis=0)
            if Z.shape[1] == 2:
                self.blur = tuple(BLUR * sizes[0] ** 0.5 * self.units)
        self.points = checks.frozen(points * self.units + self.middle)
        self.points_x = checks.frozen(self._outer(seeing.at(points).sample(rng)))

    @cached_property
    def _laws(self) -> LawsAt:
        """Of an observation, at each node."""
        return StateLaw(self.observing, self.standard).at(self._inner(self.points))

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self._inner(self.points))

    def _inner(self, points) -> np.ndarray:
        """States in the units of the laws."""
        return (points - self.middle) / self.units

    def _seen(self, X) -> np.ndarray:
        """Observations in the units of the laws, but for columns that say nothing."""
        units = np.broadcast_to(self.units_x, X.shape[1])
        return (X - self.middle_x)[:, units > 0] / units[units > 0]

    def _outer(self, drawn: np.ndarray) -> np.ndarray:
        """Observations drawn from the laws, in their own units."""
        units = np.broadcast_to(self.units_x, np.shape(self.middle_x) or drawn.shape[1])
        found = np.zeros((len(drawn), len(units)))
        found[:, units > 0] = drawn
        return found * units + self.middle_x

    @property
    def counts(self) -> dict[str, float]:
        """What a summary says of its size, and of observations whose errors last."""
        part = {"an observation counts as": round(self.power, 2)} if self.power < 1 else {}
        return {"nodes": len(self.points)} | part

    # ------------------------------------------------------------ one step

    def first(self, prior: MeanEmbedding) -> Step:
        """Each point of the prior gives its weight to the node that is nearest."""
        points, weights = (arrays.to_numpy(A) for A in (prior.points, prior.weights))
        return self._step(self._told(self._inner(points), np.maximum(weights, 0.0)), "start")

    def _told(self, points, weights) -> np.ndarray:
        """Weights of the nodes, each point counting at the nearest, (N,)."""
        return np.bincount(self._tree.query(points)[1], weights, len(self.points))

    def predicted(self, step: Step) -> Step:
        """One step on in time."""
        told = self._step(step.belief @ self.transition, "predicted")
        return replace(told, previous=step.mean)

    def coordinates(self, X) -> np.ndarray:
        """log p(x|z_j) of some observations and all nodes, (m, N)."""
        return self._laws.log_density(self._seen(X)).T

    def updated(self, steps: list[Step], coordinates) -> list[Step]:
        """Bayes' rule; an observation unlike any seen in training changes nothing."""
        return [self._one(*pair) for pair in zip(steps, coordinates, strict=True)]

    def _one(self, step: Step, log_density: np.ndarray) -> Step:
        top = float(log_density.max())
        if top < self.least - ABSURD:
            return replace(step, collapsed=True)
        weights = step.belief * np.exp(self.power * (log_density - top))
        return self._weighed(step, weights, "updated")

    def smoothed(self, step: Step, later: Step) -> Step:
        """A filtered step once the belief about the next one is known."""
        ahead = np.maximum(step.belief @ self.transition, np.finfo(float).tiny)
        factor = self.transition @ (later.belief / ahead)
        return self._weighed(step, step.belief * factor, "smoothed")

    def _weighed(self, step: Step, weights: np.ndarray, kind: str) -> Step:
        """The same step with other weights."""
        return replace(self._step(weights, kind), collapsed=step.collapsed)

    def _step(self, weights: np.ndarray, kind: str) -> Step:
        """Weights in proportion to these; the usual ones where they come to nothing."""
        total = weights.sum()
        w = weights / total if total > 0 else self.usual
        return Step(w, np.concatenate([[1.0], w @ self.points]), kind)

    def counting(self, laws: Laws) -> Self:
        """With observations that count as (1 − c)/(1 + c) of one each, as errors last.

        A belief keeps a share k of its variance at an update, and so that share of what it knew. Of
        errors with correlation r to the next it sums, at correlation s of states, those of ages
        0, 1, ... with weights (ks)^age: `share_of_new(ksr)`. k is of beliefs about training rows,
        pooled, and depends on what these count.
        """
        X, P = self._outer(laws.X[:FOLLOWED]), self._inner(self.points)

        def spread(steps: list[Step]) -> float:
            W = np.stack([step.weights for step in steps])
            return float(np.maximum(W @ P**2 - (W @ P) ** 2, 0.0).sum())

        for _ in range(ROUNDS):
            steps = self.track(X, [slice(0, len(X))])
            ahead = [self.predicted(step) for step in steps[:-1]]
            kept = spread(steps[1:]) / max(spread(ahead), np.finfo(float).tiny)
            self.power = share_of_new(laws.lasting * min(1.0, kept))
        return self

    @cached_property
    def _observed(self) -> np.ndarray:
        """Draws of what is observed at each node, one after the other: of one a mean is off."""
        which = np.repeat(np.arange(len(self.points)), max(1, OBSERVED // len(self.points)))
        drawn = self._laws.sample(np.random.default_rng(0), which)
        return checks.frozen(self._outer(drawn))

    def observations(self, steps) -> MeanEmbedding:
        """The batch of embeddings of what is observed then: each node has its draws."""
        each = len(self._observed) // len(self.points)
        W = np.repeat(np.stack([step.weights for step in steps]) / each, each, axis=1)
        return MeanEmbedding.of_parts(self._observed, W, None, self.kernel_x)


def share_of_new(c: float) -> float:
    """Variance of Σ k^t e_t of new errors over that of errors of correlation c/k.

    It is (1 − c)/(1 + c) whatever k is, for weights and correlations go with age alike.
    """
    return (1.0 - c) / (1.0 + c)


def nodes_of(
    laws: Laws, limit: int | None, quick: bool, rng
) -> tuple[np.ndarray, np.ndarray | None]:
    """The nodes and the sizes of their cells; None if they are draws.

    Of one column half of them are among the training states, a quarter further on either side. Of
    several they are where paths from evenly spaced states go.
    """
    moving, Z, box = laws.moving, laws.Z, laws.box
    if Z.shape[1] == 1:
        ends = np.array([box[0], Z.min(axis=0), Z.max(axis=0), box[1]])[:, 0]
        points = np.interp(np.linspace(0.0, 1.0, limit or NODES), [0.0, 0.25, 0.75, 1.0], ends)
        return points[:, None], np.gradient(points)

    steps = int(np.clip(len(Z) // 3, *STEPS))

    def some(n: int, each: int = 1) -> np.ndarray:
        m, found = -(-n // (steps * each)), []
        at, which = Z[np.linspace(0, len(Z) - 1, m).round().astype(int)], np.repeat(range(m), each)
        for _ in range(steps):
            found.append(np.clip(moving.at(at).sample(rng, which), *box))
            at = found[-1][::each]
        return np.concatenate(found)[:n]

    if Z.shape[1] == 2:
        draws = some(TIMES * (limit or NODES), EACH)
        told = laws.seeing, laws.X[evenly(len(Z), LOOKED)]
        points, size = cells(draws, moving.narrowest(Z), told, limit)
        if points is not None:
            return points, np.full(len(points), size)
    return some(limit or (LEAST if quick else DRAWS)), None


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
    wider = np.concatenate([part * draws[::EACH] for part in WIDER])  # of the paths alone
    for side in width * CELLS:
        found = visited(draws, side)
        if side < width / 2 or len(found) > (limit or NODES):
            if points is None or limit:
                break
            left = chain_of(seeing.at(points).log_density(X).T, np.ones(len(points)))
            if np.median(1.0 / (left * left).sum(axis=1)) >= FEW:
                break
            found = visited(wider, side)
            if len(found) > SEEN:
                break
        points, area = (found + 0.5) * side @ SLANT.T, side**2
    return points, area


def visited(draws: np.ndarray, side: float) -> np.ndarray:
    """Numbers of the cells that they are in, (N, 2)."""
    found = np.unique(np.floor(draws @ SLANT / side) @ [1.0, 1j])
    return np.column_stack([found.real, found.imag])


def chain_of(log_density: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Transition probabilities between nodes with cells of these sizes, (N, N).

    From log p(z_j|z_i).
    """
    K = np.exp(log_density - log_density.max(axis=1, keepdims=True)) * sizes
    return K / K.sum(axis=1, keepdims=True)


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

"""The laws of a filter on densities: p(z' − z|z) and p(x|z), around a mean, as wide as z says.

Where states go round, what comes next depends on the direction in which they are seen from their
mean rather than on how far off they are: a kernel of places alone has to learn that anew at every
distance. So the directions of two states stand beside them if the evidence is larger so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.ndimage import map_coordinates
from scipy.spatial import cKDTree

from ..core import Array, Saveable, arrays
from ..core.moments import evenly
from ..densities import fit as densities
from ..densities.conditional_density import ConditionalDensity
from ..densities.laws import MovedLaws
from ..densities.location import LocationSearch
from ..densities.search import DensitySearch
from ..densities.standard import (
    TINY,
    Forms,
    NormalErrors,
    Standard,
    clearly,
    log_sizes,
    regressed,
    searched,
)
from ..kernels import fitted_kernel
from ..regression.bandwidth import spread_ties, with_bandwidth
from ..regression.lengthscales import ROWS_PER_SCALE

SHAPED = 1_000  # rows of which the law of standardised errors is learned, if it is not normal
BEYOND = 2.0, 0.25  # of the range, on both sides, that one state and several are followed
JUDGED = 500  # rows left out by which laws are compared
BLOCK = 2**22  # log densities that are formed together
SHARED = 200  # rows from which on what all choose serves some of them; fewer choose too well
ROUND = 0.3, 0.3, 3.0, 3.0  # spreads of directions and places: where the search of scales begins
TABLED = 200  # states of a table of laws
CELLS_OF = {1: (0.1, 1_000), 2: (0.5, 100)}  # of so many columns: in bandwidths, and at most
OUTSIDE = 1e-3  # share of points on either side, beyond which, by some bandwidths, it does not go
LASTS = 4.0  # correlation of an error with the next, times √n, beyond which errors last
ALIKE = 0.125  # chance that two rows share the value of a state, above which it stands for a kind


@dataclass(frozen=True)
class StateLaw(Saveable):
    """p(y|x): that of the standardised y is normal, or a `ConditionalDensity` if rows say so."""

    density: NormalErrors | densities.Fit | Tabled
    standard: Standard | None = None  # a file of an earlier version may have none
    turning: bool = False  # whether directions of x stand beside it
    change: bool = False  # whether the law is that of y − x
    mean: Any = None  # the searches of m and of s: while fitting
    size: Any = None

    @classmethod
    def of(
        cls, X: np.ndarray, Y: np.ndarray, moving: bool = False, like: StateLaw | None = None
    ) -> StateLaw:
        """A density in place of the normal law where rows left out are clearly likelier so.

        With `moving`, states X become Y: what is learned is the change, so that where little is
        known states stay, and do not go back to their mean; and directions stand beside two states
        where the evidence is larger so. What is searched for or compared is as in a law that it is
        to be `like`.
        """
        change = moving and not arrays.still(Y - X).any()
        Y = Y - X if change else Y
        turning, mean = sought(X, Y, moving) if like is None else (like.turning, like.mean)
        X = directed(X) if turning else X
        # nodes end, and what is unknown counts
        where = replace(regressed(Forms(X, mean), Y), beyond=None)
        off = where.residuals * np.exp(-arrays.to_numpy(where.doubt))
        size = searched(X, log_sizes(off)) if like is None else like.size
        standard, _ = Standard.of(where, X, None, Forms(X, size))
        E = standard.where.residuals
        density: Any = NormalErrors.of(E)
        kernel = None if like is None else getattr(like.density, "kernel_x", None)
        if kernel or (like is None and is_odd(density, X, E)):
            some = evenly(len(X), SHAPED)
            odd = ConditionalDensity(kernel or "gaussian", location=False)
            density = odd.fit(X[some], E[some]).fit_
        return cls(density, standard, turning, change, mean, size)

    @property
    def normal(self) -> StateLaw:
        """With a normal law of the same mean squares."""
        density: Any = self.density
        if isinstance(density, NormalErrors):
            return self
        return replace(self, density=NormalErrors.of(arrays.to_numpy(density.points)))

    def tabled(self, states: np.ndarray) -> StateLaw:
        """For many particles at a time; as it is, if normal or no table holds it."""
        density: Any = self.density
        if isinstance(density, NormalErrors) or density.points.shape[1] > len(CELLS_OF):
            return self
        table = Tabled(density, directed(states) if self.turning else states)
        return self if table.coarse else replace(self, density=table, mean=None, size=None)

    @property
    def errors(self) -> np.ndarray:
        """Standardised, of the rows learned from; right after learning."""
        assert self.standard is not None
        return arrays.to_numpy(self.standard.where.residuals)

    def narrowest(self, X: np.ndarray) -> float:
        """Standard deviation of the laws, in the direction and at the column where it is least.

        At the rows of X in the middle; right after learning.
        """
        E, log_size = self.errors, np.median(self.at(X).log_size, axis=0)
        return float(np.linalg.norm(E * np.exp(log_size), -2) / len(E) ** 0.5)

    def at(self, X) -> LawsAt:
        """The laws at rows of X."""
        laws: Any = self.density
        start, X = X if self.change else 0.0, directed(X) if self.turning else X
        if isinstance(laws, Tabled):
            laws = laws.at(X)
        elif not isinstance(laws, NormalErrors):
            laws = laws.laws(X).dense()
        if self.standard is None:
            zero = np.zeros((len(X), laws.embedding.points.shape[1]))
            return LawsAt(laws, zero, zero)
        return LawsAt(laws, start + self.standard(X), self.standard.log_size(X))


class Laws:
    """How states move and what is seen of them, in units of their own.

    Attributes
    ----------
    units : list of two pairs of arrays
        Middles and standard deviations of observations, and of states; 0 where they are constant.
    X, Z : arrays of shape (n, d_x) and (n, d_z)
        Observations and states in these units, without columns of observations that are constant.
    moving, seeing : StateLaw
    lasting : float
        Correlation of errors of observations with the next, times that of states; 0 where either
        may be chance.
    """

    X: np.ndarray

    def __init__(self, X: np.ndarray, Z: np.ndarray, pairs, like: Laws | None = None):
        """From rows of both, and the rows (earlier, later) of the transitions.

        Observations that repeat, counts or what is rounded, are spread: a law that is narrow at
        each of them would tell apart states that it cannot. So are states that are rounded, whose
        changes would else be none or a step. Units, and what is searched for, are as in laws of
        many rows that they are to be `like`.
        """
        like = None if like is None or len(like.X) < SHARED else like
        earlier, later = pairs
        still = [arrays.still(A) for A in (X, Z)]
        own = [
            (np.where(s, A[0], A.mean(axis=0)), np.where(s, 0.0, A.std(axis=0)))
            for A, s in zip((X, Z), still, strict=True)
        ]
        self.units: list[tuple[np.ndarray, np.ndarray]] = like.units if like else own
        (middle_x, unit_x), (middle, unit) = self.units
        vary = unit_x > 0
        if still[0][vary].any():
            raise ValueError("a column of X is constant here, and varies elsewhere")
        X, Z = (X - middle_x)[:, vary] / unit_x[vary], (Z - middle) / unit
        Z = np.where([repeats(z) and moves_smoothly(z) for z in Z.T], spread_ties(Z), Z)
        self.X, self.Z = X, Z
        self.moving = StateLaw.of(Z[earlier], Z[later], True, getattr(like, "moving", None))
        self.seeing = StateLaw.of(Z, spread_ties(X), like=getattr(like, "seeing", None))
        r, s = (correlated(A, earlier, later) for A in (self.seeing.errors, Z))
        self.lasting = r * s if min(r, s) > LASTS / len(earlier) ** 0.5 else 0.0

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Where states are followed."""
        low, high = self.Z.min(axis=0), self.Z.max(axis=0)
        further = BEYOND[len(low) > 1] * (high - low)
        return low - further, high + further


def correlated(A: np.ndarray, earlier, later) -> float:
    """Correlation of a row with the next, on average over columns."""
    each = ((B - B.mean(axis=0)) / arrays.units(B) for B in (A[earlier], A[later]))
    return float(np.prod([*each], axis=0).mean())


def repeats(z: np.ndarray) -> bool:
    """Whether values of a state are mostly met again."""
    return len(np.unique(z)) <= len(z) / 2


def moves_smoothly(z: np.ndarray) -> bool:
    """Whether a state has values that do not repeat, or no more than by rounding.

    Two rows share one of k labels with chance 1/k or more, and more than p² where a share p of the
    rows is at one value; of what is rounded to steps h, normal and of deviation σ, .28 h/σ.
    """
    counts = np.unique(z, return_counts=True)[1]
    return not repeats(z) or bool((counts / len(z) @ counts) / len(z) <= ALIKE)


def sought(X: np.ndarray, Y: np.ndarray, turning: bool) -> tuple[bool, LocationSearch]:
    """Whether directions stand beside X, and scales of the mean."""
    searches = {False: searched(X, Y)}
    if turning and X.shape[1] == 2 and len(X) >= len(ROUND) * ROWS_PER_SCALE:
        searches[True] = searched(directed(X), Y, ROUND)
    return min(searches.items(), key=lambda found: found[1].loss)


def is_odd(normal: NormalErrors, X: np.ndarray, E: np.ndarray) -> bool:
    """Whether rows left out are clearly likelier by a density than by a normal law."""
    some = evenly(len(E), JUDGED)
    few, errors = X[some], spread_ties(E[some])
    kernel_y = with_bandwidth(fitted_kernel("gaussian", E), None, errors, "kernel_y")
    rough = DensitySearch(fitted_kernel("gaussian", X), kernel_y, few, errors, intercept=True)
    rough.draft(rounds=1)
    return clearly(rough.log_densities() - normal.log_density_each(errors))


def directed(X: np.ndarray) -> np.ndarray:
    """(x/|x|, x)."""
    size = np.linalg.norm(X, axis=1, keepdims=True)
    return np.hstack([X / np.maximum(size, TINY), X])


@dataclass(frozen=True)
class LawsAt:
    """Laws of (y − m)/s, with m and log s of each, (N, d)."""

    laws: NormalErrors | MovedLaws | TabledAt
    middle: np.ndarray
    log_size: np.ndarray

    def log_density(self, Y: Array) -> np.ndarray:
        """log p of all laws at all rows, (N, m)."""
        if isinstance(self.laws, NormalErrors):
            return self.laws.log_density_apart(self.middle, self.log_size, Y)
        found = np.empty((len(self.middle), len(Y)))
        step = max(1, BLOCK // max(1, self.middle.size))
        for i in range(0, len(Y), step):
            own = (Y[None, i : i + step] - self.middle[:, None]) / np.exp(self.log_size)[:, None]
            found[:, i : i + step] = self.laws.log_density_each(own)
        return found - self.log_size.sum(axis=1)[:, None]

    def log_density_of_pairs(self, Y: Array) -> np.ndarray:
        """log p of law b at row b, (N,)."""
        own = (Y - self.middle) / np.exp(self.log_size)
        return self.laws.log_density_each(own[:, None])[:, 0] - self.log_size.sum(axis=1)

    def sample(self, rng: np.random.Generator, which=slice(None)) -> np.ndarray:
        """A draw from each, (N, d), or from those asked for."""
        middle, size = self.middle[which], np.exp(self.log_size[which])
        if isinstance(self.laws, NormalErrors):
            found = self.laws.sample(len(middle), rng)
        else:
            found = arrays.to_numpy(self.laws[which].sample(1, rng))[:, 0]
        return middle + found * size


class Tabled:
    """p(e|z) on a grid of e, at some states z: of what many particles are weighed by, or move by.

    Each has the law of the state that is nearest. Between nodes log p goes on in lines, beyond
    them as that of the wide law that each law has a share of.
    """

    def __init__(self, density: densities.Fit, states: np.ndarray):
        points, width = arrays.to_numpy(density.points), np.array(density.bandwidth)
        ends = np.quantile(points, [OUTSIDE, 1.0 - OUTSIDE], axis=0)
        low, high = ends + np.outer([-4.0, 4.0], width)
        cell, most = CELLS_OF[len(width)]
        some = np.minimum(np.ceil((high - low) / (cell * width)).astype(int) + 1, most)
        self.low, self.high, self.cell, self.shape = low, high, (high - low) / (some - 1), some
        self.coarse = bool((self.cell > width).any())  # humps may be between nodes
        self.tree = cKDTree(states[evenly(len(states), TABLED)])
        laws = density.laws(self.tree.data)
        self.wide: Any = laws.wide
        self.nodes = np.indices(some).reshape(len(some), -1).T
        self.kernels = MovedLaws(laws.embedding, laws.move, None, laws.drawn)

    @property
    def grid(self) -> np.ndarray:
        """The nodes, (G, d)."""
        return self.low + self.nodes * self.cell

    @cached_property
    def table(self) -> np.ndarray:
        """log p of each law at all nodes."""
        p = arrays.to_numpy(self.kernels.density(self.grid))
        return self.wide.log_mixed(p, self.grid).reshape(-1, *self.shape)

    @cached_property
    def upto(self) -> np.ndarray:
        """Shares of the nodes that go before in each law, moved to a range of its own."""
        upto = np.cumsum(arrays.to_numpy(self.kernels.density(self.grid)), axis=1)
        return (upto / upto[:, -1:] + 2.0 * np.arange(len(upto))[:, None]).ravel()

    def at(self, Z: np.ndarray) -> TabledAt:
        """The laws at rows of Z."""
        return TabledAt(self, self.tree.query(Z)[1])


@dataclass(frozen=True)
class TabledAt:
    """Laws of a table, by the number of the state that each is of."""

    of: Tabled
    member: np.ndarray

    def __getitem__(self, which) -> TabledAt:
        return replace(self, member=self.member[which])

    def log_density_each(self, E: np.ndarray) -> np.ndarray:
        """log p of law b at rows of its own, E[b] of shape (k, d): (m, k)."""
        of = self.of
        near = np.clip(E, of.low, of.high)
        member = np.broadcast_to(self.member[:, None, None], (*E.shape[:2], 1))
        at = np.concatenate([member, (near - of.low) / of.cell], axis=-1)
        found = map_coordinates(of.table, np.moveaxis(at, -1, 0), order=1, mode="nearest")
        return found + of.wide.log_density(E) - of.wide.log_density(near)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n draws of each, (m, n, d): nodes by inversion, then evenly in their cells."""
        u = rng.random((len(self.member), n)) * (1 - 1e-9) + 2.0 * self.member[:, None]
        node = np.searchsorted(self.of.upto, u, side="right") % len(self.of.nodes)
        place = self.of.nodes[node] + rng.random((*u.shape, len(self.of.cell))) - 0.5
        return self.of.wide.replace_some(self.of.low + place * self.of.cell, rng)

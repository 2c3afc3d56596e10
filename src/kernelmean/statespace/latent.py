"""The latent space of a state-space model: its law, the points for it, and their coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import softmax
from scipy.stats import norm, qmc

from ..chains.markov import Chain
from ..core import Saveable, arrays, checks, solves
from ..core.moments import shares
from ..features.landmarks import Nystroem
from ..kernels import Kernel

NODES = (51, 120, 200)  # by default, in one, two, and three or more dimensions
JITTER = 0.3  # bandwidth of the transition density between nodes, in their spacing
REACH = 4.5  # of the nodes of a normal law, in standard deviations
WIDER = 1.2  # the law that they are drawn from in several dimensions, relative to it
DRAWS = 20_000  # of a user's sampler, or of a simulator
FOLLOWED = 400  # transitions simulated from each node
BURN_IN = 300  # steps of a simulator until its law no longer changes
CHAINS = 2000  # run side by side
RIDGE = 1e-6  # of the operators, relative to the second moment of the latent coordinates
RATIO_RIDGE = 1e-3  # of the ratio of a transition density to the stationary one
TAIL, MARGIN = 5e-4, 0.1  # nodes reach a margin of the range beyond these quantiles of draws


@dataclass(frozen=True)
class Latent(Saveable):
    """Nodes x_j and masses π_j: the latent law π* is Σ_j π_j δ(x_j).

    For a normal law the nodes reach beyond where the mass is: a new sequence may go where the
    training sequence has not been.

    Attributes
    ----------
    nodes : array of shape (m, d)
    weights : array of shape (m,)
        π.
    """

    nodes: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, law: str | Callable, d: int, m: int | None, rng: np.random.Generator) -> Latent:
        """Of a law given by its name, or by a sampler (n, rng) -> (n, d)."""
        m = NODES[min(d, 3) - 1] if m is None else m
        if callable(law):
            return cls._drawn(check_draws(law(DRAWS, rng), (DRAWS, d), "latent"), m, "latent")
        if law == "uniform":
            nodes = (np.arange(m)[:, None] + 0.5) / m if d == 1 else _spaced(m, d)
            return cls(nodes, np.full(m, 1 / m))
        if d == 1:
            nodes = np.linspace(-REACH, REACH, m)[:, None]
            return cls(nodes, softmax(-0.5 * nodes[:, 0] ** 2))
        nodes = WIDER * norm.ppf(_spaced(m, d))
        squares = (nodes**2).sum(axis=1)
        return cls(nodes, softmax(-0.5 * squares * (1 - WIDER**-2)))

    @classmethod
    def _drawn(cls, draws: np.ndarray, m: int, name: str) -> Latent:
        """From a sample: evenly spaced nodes in one dimension, equally likely ones in more."""
        if arrays.still(draws).any():
            raise ValueError(f"{name} returned draws that are all the same; a law is needed")
        if draws.shape[1] > 1:
            nodes, counts = np.unique(draws[:m], axis=0, return_counts=True)
            return cls(nodes, counts / counts.sum())
        low, high = np.quantile(draws, [TAIL, 1 - TAIL])
        if low == high:
            low, high = draws.min(), draws.max()
        margin = MARGIN * (high - low)
        nodes = np.linspace(low - margin, high + margin, m)[:, None]
        blank = cls(nodes, np.full(m, 1 / m))
        weights = blank.shares(draws).mean(axis=0) + arrays.EPS
        return cls(nodes, weights / weights.sum())

    @classmethod
    def simulated(cls, move: Callable, x: np.ndarray, m: int | None, rng) -> Latent:
        """Of the stationary law of a simulator (x, rng) -> x', from where it starts."""
        draws = [x]
        for _ in range(BURN_IN + DRAWS // len(x) - 1):
            draws.append(check_draws(move(draws[-1].copy(), rng), x.shape, "transition"))
        m = NODES[min(x.shape[1], 3) - 1] if m is None else m
        return cls._drawn(np.concatenate(draws[BURN_IN:]), m, "transition")

    @cached_property
    def standard(self) -> np.ndarray:
        """The nodes in coordinates of mean zero and covariance I."""
        off = self.nodes - self.weights @ self.nodes
        return off @ _inverse_root((self.weights[:, None] * off).T @ off)

    @cached_property
    def spacing(self) -> float:
        """Median distance of a node to the nearest other one, in standard coordinates."""
        distances = arrays.sq_dists(self.standard, self.standard)
        np.fill_diagonal(distances, np.inf)
        return float(np.median(distances.min(axis=1)) ** 0.5)

    @property
    def jitter(self) -> float:
        """Bandwidth of the transition density between nodes."""
        return JITTER * self.spacing * float(self.nodes.std(axis=0).max())

    def shares(self, x: np.ndarray) -> np.ndarray:
        """Points as masses on the nodes, (n, m): between its two neighbours, or on the nearest."""
        if self.nodes.shape[1] > 1:
            nearest = arrays.sq_dists(x, self.nodes).argmin(axis=1)
            return np.eye(len(self.nodes))[nearest]
        nodes = self.nodes[:, 0]
        return shares(nodes, np.clip(x[:, 0], nodes[0], nodes[-1]))

    def chain_of(self, move: Callable, rng: np.random.Generator) -> Chain:
        """The chain on the nodes of a simulator (x, rng) -> x', by following it from each."""
        x = np.repeat(self.nodes, FOLLOWED, axis=0)
        there = self.shares(check_draws(move(x.copy(), rng), x.shape, "transition"))
        return Chain.counted(there.reshape(len(self.nodes), FOLLOWED, -1).sum(axis=1))


# ------------------------------------------------------------ with coordinates


class Space(Saveable):
    """The latent space: nodes, and their coordinates ψ.

    Attributes
    ----------
    latent : Latent
    features : FeatureMap
    """

    def __init__(self, latent: Latent, kernel: Kernel):
        self.latent = latent
        self.features = Nystroem(max_rank=len(latent.nodes)).fit(latent.nodes, kernel)

    @cached_property
    def Psi(self) -> np.ndarray:
        """Coordinates of the nodes, (m, r)."""
        return self.features.transform(self.latent.nodes)

    @cached_property
    def second(self) -> np.ndarray:
        """C_X = Σ_j π_j ψ_j ψ_jᵀ."""
        return (self.latent.weights[:, None] * self.Psi).T @ self.Psi

    def operator(self, laws: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """The operator that takes ψ_j to the j-th column of `laws`: least squares, by mass."""
        weighted = mass[:, None] * self.Psi
        S = weighted.T @ self.Psi
        return solves.ridge(S, RIDGE * np.trace(S)).solve(weighted.T @ laws.T).T

    def interpolation(self, x: np.ndarray) -> np.ndarray:
        """a_j(x), (N, m): what is linear in ψ(x) is Σ_j a_j(x) times its values at the nodes."""
        each = np.eye(len(self.Psi))
        return self.features.transform(x) @ self.operator(each, self.latent.weights).T

    def shares(self, x) -> np.ndarray:
        """Shares of the nodes in points of the latent space, (k, m)."""
        d = self.latent.nodes.shape[1]
        x = arrays.as_columns(x, d, "x", "the latent space", one_d=d == 1)
        # in between two nodes shares are never negative
        return self.latent.shares(x) if d == 1 else self.interpolation(x)

    def chain_of(self, V: np.ndarray) -> Chain:
        """P_ij ∝ π_j max(ψ_jᵀ(C_X + λI)⁻¹Vψ_i, 0): the ratio to π* of the density of Vψ_i."""
        ridge = solves.ridge(self.second, RATIO_RIDGE * np.trace(self.second))
        ratio = np.maximum(ridge.solve(V @ self.Psi.T).T @ self.Psi.T, 0.0)
        return Chain.counted((ratio + arrays.EPS) * self.latent.weights)


# ------------------------------------------------------------ what both stand on


def check_draws(x, shape: tuple[int, ...], name: str) -> np.ndarray:
    """What a user's function returned, as an array of the shape that was asked for."""
    x = arrays.to_numpy(checks.as_floats(x, f"what {name} returned"))
    if x.ndim == 1 and shape[1] == 1:
        x = x[:, None]
    if x.shape != shape:
        raise ValueError(f"{name} returned an array of shape {x.shape}; {shape} is needed")
    if not (np.abs(x) < checks.LARGEST).all():
        raise ValueError(f"{name} returned NaN, infinity or numbers beyond {checks.LARGEST:g}")
    return x


def _spaced(m: int, d: int) -> np.ndarray:
    """Evenly spread points of the unit cube, the same at every call."""
    return qmc.Halton(d, scramble=True, rng=0).random(m)


def _inverse_root(S: np.ndarray) -> np.ndarray:
    """S^(-1/2), with what has no variance left out."""
    values, vectors = np.linalg.eigh(S)
    keep = values > 1e-10 * max(values[-1], np.finfo(float).tiny)
    inverse = np.where(keep, 1 / np.sqrt(np.where(keep, values, 1.0)), 0.0)
    return (vectors * inverse) @ vectors.T

"""Learning a `KernelStateSpace`: pairs, moments of neighbours, and EM on the nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.ndimage import gaussian_filter1d

from . import linalg
from .baumwelch import Climb, Effort, Refinement, Rows
from .emission import Smoothing
from .features import FeatureMap, Nystroem
from .hmmfit import Draft, Settings, in_space, on_all, searching
from .kernels import Gaussian, Kernel
from .latent import Latent, LinearGuard, SmoothMoves
from .markov import Chain, stationary
from .pairing import assigned_pairs, sorted_pairs
from .pairmoments import PairFit, PairMoments, minimise
from .persistence import Saveable
from .spectral import neighbours
from .variates import Variates

WINDOWS = (0.0, 2.0, 8.0, 32.0)  # rows over which observations are averaged before they are paired
PAIRED = 1000  # latent points that are paired with observations
BLUR = 0.3  # of a pairing, in standard deviations of the latent law
RIDGE = 1e-6  # of the operators, relative to the second moment of the latent coordinates
RATIO_RIDGE = 1e-3  # of the ratio of a transition density to the stationary one
SEARCHED = 5000  # rows that starts, bandwidths and guards are compared on
# the log-likelihood falls where the λ of the transitions changes
EFFORT = Effort(short=12, finalists=1, half_iter=8, patience=6)
STRONGER = 10.0  # from one strength of the emission guard to the next that is tried,
STRENGTHS = 2  # so many times


@dataclass(frozen=True)
class Space(Saveable):
    """The latent space: nodes, and their coordinates ψ.

    Attributes
    ----------
    latent : Latent
    features : FeatureMap
    """

    latent: Latent
    features: FeatureMap

    @classmethod
    def of(cls, latent: Latent, kernel: Kernel) -> Space:
        return cls(latent, Nystroem(max_rank=len(latent.nodes)).fit(latent.nodes, kernel))

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
        return linalg.ridge(S, RIDGE * np.trace(S)).solve(weighted.T @ laws.T).T

    def interpolation(self, x: np.ndarray) -> np.ndarray:
        """a_j(x), (N, m): what is linear in ψ(x) is Σ_j a_j(x) times its values at the nodes."""
        weighted = self.latent.weights[:, None] * self.Psi
        ridge = linalg.ridge(self.second, RIDGE * np.trace(self.second))
        return self.features.transform(x) @ ridge.solve(weighted.T)

    def chain_of(self, V: np.ndarray) -> Chain:
        """P_ij ∝ π_j max(ψ_jᵀ(C_X + λI)⁻¹Vψ_i, 0): the ratio to π* of the density of Vψ_i."""
        ridge = linalg.ridge(self.second, RATIO_RIDGE * np.trace(self.second))
        ratio = np.maximum(ridge.solve(V @ self.Psi.T).T @ self.Psi.T, 0.0)
        transmat = (ratio + linalg.EPS) * self.latent.weights
        transmat /= transmat.sum(axis=1, keepdims=True)
        return Chain(stationary(transmat), transmat)


# ------------------------------------------------------------ where to begin


@dataclass(frozen=True)
class Pairing:
    """Probabilities of the nodes in each row, as if a function of the observations were x.

    Attributes
    ----------
    log_shares : array of shape (n, m)
        Their logarithms, up to a constant of the row.
    chain : Chain
        From neighbours.
    """

    log_shares: np.ndarray
    chain: Chain

    @classmethod
    def of(cls, rows: Rows, moves: SmoothMoves, window: float, sign: float = 1.0) -> Pairing:
        """By rank or optimal assignment to π*, of observations averaged over some rows."""
        latent = moves.latent
        z = latent.standard
        paired = z[_pairs(sign * _signals(rows, window, z.shape[1]), latent)]
        log_shares = -0.5 * linalg.sq_dists(paired, z) / max(BLUR, latent.spacing) ** 2
        linked = neighbours(rows.seen, rows.sequences)
        gamma = _normalised(log_shares)
        counts = gamma[:-1][linked].T @ gamma[1:][linked]
        return cls(log_shares, moves.from_counts(counts))

    @property
    def gamma(self) -> np.ndarray:
        """The probabilities."""
        return _normalised(self.log_shares)


def _normalised(logs: np.ndarray) -> np.ndarray:
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def _signals(rows: Rows, window: float, d: int) -> np.ndarray:
    """Observations averaged in time, the last one where one is missing; d columns at least.

    More columns than an observation has come from wider and wider windows.
    """
    Y = linalg.to_numpy(rows.points)
    last = np.maximum.accumulate(np.where(rows.seen, np.arange(len(Y)), -1))
    Y = Y[np.where(last >= 0, last, np.argmax(rows.seen))]
    columns = [_averaged(Y, rows.sequences, window)]
    while sum(c.shape[1] for c in columns) < d:
        window = 4 * max(window, 1.0)
        columns.append(_averaged(Y, rows.sequences, window))
    return np.concatenate(columns, axis=1)


def _averaged(Y: np.ndarray, sequences: list[slice], window: float) -> np.ndarray:
    if window == 0:
        return Y
    parts = [gaussian_filter1d(Y[s], window, axis=0, mode="nearest") for s in sequences]
    return np.concatenate(parts)


def _pairs(signals: np.ndarray, latent: Latent) -> np.ndarray:
    """The node that goes with every row."""
    levels = (np.arange(PAIRED) + 0.5) / PAIRED
    upto = np.cumsum(latent.weights)
    nodes = np.minimum(np.searchsorted(upto, levels), len(upto) - 1)  # of equal weight
    pair = sorted_pairs if signals.shape[1] == latent.nodes.shape[1] == 1 else assigned_pairs
    return nodes[pair(signals, latent.nodes[nodes])]


# ------------------------------------------------------------ moments


def fit_moments(
    draft: Draft, space: Space, start: Pairing, penalty, max_iter: int, known: bool
) -> PairFit:
    """U and V from pairs of neighbours and of next neighbours, from a pairing on.

    Lag one alone does not tell a model from "y is Markov": the pairing by rank solves it.
    """
    gamma = np.where(draft.rows.seen[:, None], start.gamma, 0.0)
    mass = gamma.sum(axis=0)
    laws = linalg.to_numpy(draft.coordinates.gather(gamma)) / np.maximum(mass, linalg.EPS)
    U = space.operator(laws, mass)
    V = space.operator(space.Psi.T @ start.chain.transmat.T, space.latent.weights)
    m = draft.moments
    moments = PairMoments(
        [m.pairs, m.skips], m.mean, space.second, space.latent.weights @ space.Psi, penalty
    )
    return minimise(moments, U, V, max_iter=max_iter, known_V=known)


# ------------------------------------------------------------ likelihood


@dataclass(frozen=True)
class Learner:
    """What is needed to refine the laws on the nodes by EM.

    Attributes
    ----------
    draft : Draft
    latent : Latent
    variates : Variates or None
        Of the observations, that densities are of.
    guard : (float, float)
        Rows that the linear guards of emissions and of transitions count as, over all nodes.
    chain : Chain or None
        Known transitions.
    settings : Settings
    """

    draft: Draft
    latent: Latent
    variates: Variates | None
    guard: tuple[float, float]
    chain: Chain | None
    settings: Settings

    @cached_property
    def moves(self) -> SmoothMoves:
        return SmoothMoves(self.latent, self.guard[1] / len(self.latent.nodes))

    @property
    def maximise(self) -> Callable:
        """The M-step of the chain; one that is known stays."""
        return self.moves if self.chain is None else lambda alpha, gamma, chain, sequences: chain

    @property
    def guard_of(self) -> LinearGuard:
        return LinearGuard(self.latent.standard, self.guard[0] / len(self.latent.nodes))

    def pairings(self) -> list[Pairing]:
        """By averages over more and more rows; with known transitions, both ways round."""
        signs = (1.0,) if self.chain is None else (1.0, -1.0)
        found = [
            Pairing.of(self.draft.rows, self.moves, window, sign)
            for window in WINDOWS[: self.settings.n_init]
            for sign in signs
        ]
        return found if self.chain is None else [replace(p, chain=self.chain) for p in found]

    def refine(self, starts) -> tuple[Climb, Smoothing]:
        """EM on some rows from all starts, (log-densities, chain), then on all rows."""
        rows = in_space(self.draft.rows, self.variates)
        kernel = self.draft.kernel if self.variates is None else Gaussian()
        rules = {"guard_of": self.guard_of, "maximise": self.maximise, "effort": EFFORT}
        numbers, search = searching(rows, kernel, self.settings, SEARCHED, **rules)
        found, factor = search.begun([(logb[numbers], chain) for logb, chain in starts])
        if search.searched:
            factor, score = search.over_bandwidths(found, factor)
            search, factor = self._guarded(search, found, factor, score), search.narrowed(factor)
            found = search.at(search.smoothing(factor), found)
        return on_all(search, rows, found, factor, self.settings)

    def _guarded(self, search: Refinement, found: Climb, factor: float, score) -> Refinement:
        """With the emission guard as strong as rows held out like it best: as given, or more so."""
        best, guard = search, self.guard_of
        for _ in range(STRENGTHS):
            guard = replace(guard, strength=STRONGER * guard.strength)
            other = replace(search, guard_of=guard)
            value = other.held_out(factor, found)
            if value <= score:
                break
            best, score = other, value
        return best

"""The latent space of a state-space model: its law, and the points that stand for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.ndimage import gaussian_filter1d
from scipy.stats import norm, qmc

from . import linalg
from ._validation import LARGEST, as_floats
from .emission import NARROWEST, Guard
from .markov import Chain, stationary, transitions
from .persistence import Saveable

LAWS = ("normal", "uniform")
NODES = (51, 120, 200)  # by default, in one, two, and three or more dimensions
REACH = 4.5  # of the nodes of a normal law, in standard deviations
WIDER = 1.2  # the law that they are drawn from in several dimensions, relative to it
DRAWS = 20_000  # of a user's sampler, or of a simulator
FOLLOWED = 400  # transitions simulated from each node
BURN_IN = 300  # steps of a simulator until its law no longer changes
CHAINS = 2000  # run side by side
TAIL, MARGIN = 5e-4, 0.1  # nodes reach a margin of the range beyond these quantiles of draws
SPAN = 8.0  # standard deviations that the law of the noise is tabulated over,
BINS = 800  # in so many steps,
SHAPE_WIDTH = 0.6  # smoothed by this times n^(-1/5),
IMAGINED = 64  # points that stand for it in an embedding
FAR, WIDE = 1e-4, 4.0  # and with this share of a wide normal law
REGS = 10.0 ** np.arange(-6.0, 3.0)  # of the regression of x' on x
BEND = 0.7  # lengthscale of its function, in standard coordinates
NEAR = 0.5  # and of the local mean of squared residuals
SOME = 1e-3  # weight of all residuals in each of these


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
            return cls(nodes, _shares(-0.5 * nodes[:, 0] ** 2))
        nodes = WIDER * norm.ppf(_spaced(m, d))
        squares = (nodes**2).sum(axis=1)
        return cls(nodes, _shares(-0.5 * squares * (1 - WIDER**-2)))

    @classmethod
    def _drawn(cls, draws: np.ndarray, m: int, name: str) -> Latent:
        """From a sample: evenly spaced nodes in one dimension, equally likely ones in more."""
        if (draws.max(axis=0) == draws.min(axis=0)).any():
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
        weights = blank.shares(draws).mean(axis=0) + linalg.EPS
        return cls(nodes, weights / weights.sum())

    @classmethod
    def simulated(cls, move: Callable, x: np.ndarray, m: int | None, rng) -> Latent:
        """Of the stationary law of a simulator (x, rng) -> x', from where it starts."""
        for _ in range(BURN_IN):
            x = check_draws(move(x.copy(), rng), x.shape, "transition")
        draws = [x]
        for _ in range(DRAWS // len(x) - 1):
            draws.append(check_draws(move(draws[-1].copy(), rng), x.shape, "transition"))
        m = NODES[min(x.shape[1], 3) - 1] if m is None else m
        return cls._drawn(np.concatenate(draws), m, "transition")

    @cached_property
    def standard(self) -> np.ndarray:
        """The nodes in coordinates of mean zero and covariance I."""
        off = self.nodes - self.weights @ self.nodes
        return off @ _inverse_root((self.weights[:, None] * off).T @ off)

    @cached_property
    def spacing(self) -> float:
        """Median distance of a node to the nearest other one, in standard coordinates."""
        distances = linalg.sq_dists(self.standard, self.standard)
        np.fill_diagonal(distances, np.inf)
        return float(np.median(distances.min(axis=1)) ** 0.5)

    def shares(self, x: np.ndarray) -> np.ndarray:
        """Points as masses on the nodes, (n, m): between its two neighbours, or on the nearest."""
        if self.nodes.shape[1] > 1:
            nearest = linalg.sq_dists(x, self.nodes).argmin(axis=1)
            return np.eye(len(self.nodes))[nearest]
        nodes, x = self.nodes[:, 0], x[:, 0]
        left = np.clip(np.searchsorted(nodes, x) - 1, 0, len(nodes) - 2)
        gap = np.maximum(nodes[left + 1] - nodes[left], np.finfo(float).tiny)
        right = np.clip((x - nodes[left]) / gap, 0.0, 1.0)
        shares = np.zeros((len(x), len(nodes)))
        rows = np.arange(len(x))
        shares[rows, left] = 1 - right
        shares[rows, left + 1] += right
        return shares

    def chain_of(self, move: Callable, rng: np.random.Generator) -> Chain:
        """The chain on the nodes of a simulator (x, rng) -> x', by following it from each."""
        x = np.repeat(self.nodes, FOLLOWED, axis=0)
        shares = self.shares(check_draws(move(x.copy(), rng), x.shape, "transition"))
        transmat = shares.reshape(len(self.nodes), FOLLOWED, -1).mean(axis=1)
        return Chain(stationary(transmat), transmat)


def check_draws(x, shape: tuple[int, ...], name: str) -> np.ndarray:
    """What a user's function returned, as an array of the shape that was asked for."""
    x = linalg.to_numpy(as_floats(x, f"what {name} returned"))
    if x.ndim == 1 and shape[1] == 1:
        x = x[:, None]
    if x.shape != shape:
        raise ValueError(f"{name} returned an array of shape {x.shape}; {shape} is needed")
    if not (np.abs(x) < LARGEST).all():
        raise ValueError(f"{name} returned NaN, infinity or numbers beyond {LARGEST:g}")
    return x


# ------------------------------------------------------------ what is left where data end


@dataclass(frozen=True)
class ShapedGuard(Guard):
    """g_k(y) = g((y − mean_k)/s)/s: one law of the noise for all states, columns independent.

    Attributes
    ----------
    shape : array of shape (d, bins)
        g of each column on an even grid over ±`SPAN`, where s is one.
    """

    shape: np.ndarray = field(kw_only=True)

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """(m, K)."""
        total = np.zeros((len(points), len(self.counts)))
        for j, table in enumerate(self.shape):
            width = self.variances[0, j] ** 0.5
            if width > 0:
                off = (points[:, j, None] - self.means[:, j]) / width
                total += _log_noise(table, off) - np.log(width)
        return total

    def points(self) -> np.ndarray:
        """`IMAGINED` points of equal weight with the mean and the variances of each law.

        Returns
        -------
        array of shape (K, IMAGINED, d)
            Quantiles of the noise, combined at random where there are several columns.
        """
        levels = (np.arange(IMAGINED) + 0.5) / IMAGINED
        grid = SPAN * (2 * np.arange(BINS) + 1 - BINS) / BINS
        upto = [np.cumsum(table) / max(table.sum(), np.finfo(float).tiny) for table in self.shape]
        z = np.stack([np.interp(levels, u, grid) for u in upto], axis=1)
        z = np.random.default_rng(0).permuted(z, axis=0) if z.shape[1] > 1 else z
        z = (z - z.mean(axis=0)) / np.maximum(z.std(axis=0), np.finfo(float).tiny)
        return self.means[:, None] + z * np.sqrt(self.variances)[:, None]


@dataclass(frozen=True)
class LinearGuard:
    """y = c + Bx + e, where e has the law of all residuals: it counts as so many rows a node.

    Called with rows and the weights of the nodes in them, as `Guard.of` is. Where no observation
    has been, its mean goes on in a straight line.
    """

    nodes: np.ndarray
    strength: float

    def __call__(self, points: np.ndarray, weights: np.ndarray, spread, discrete: bool) -> Guard:
        if discrete:
            return replace(Guard.of(points, weights, spread, discrete), strength=self.strength)
        counts, rows = weights.sum(axis=0), weights.sum(axis=1)
        n = max(counts.sum(), np.finfo(float).tiny)
        x, centre = self.nodes - counts @ self.nodes / n, rows @ points / n
        y = points - centre
        Sxx, Sxy = (counts[:, None] * x).T @ x / n, x.T @ (weights.T @ y) / n
        B = np.linalg.pinv(Sxx, rcond=1e-10, hermitian=True) @ Sxy
        left = np.maximum(rows @ y**2 / n - (B * Sxy).sum(axis=0), NARROWEST * spread)
        means = centre + x @ B
        shape = np.stack(
            [_shape(points[:, j], means[:, j], s, weights) for j, s in enumerate(left**0.5)]
        )
        variances = np.tile(left, (len(x), 1))
        return ShapedGuard(counts, means, variances, 0, self.strength, shape=shape)


def _log_noise(table: np.ndarray, off: np.ndarray) -> np.ndarray:
    """log g, between the entries of its table: never zero, however far."""
    grid = SPAN * (2 * np.arange(BINS) + 1 - BINS) / BINS
    logs = np.log(table + FAR * np.exp(-0.5 * (grid / WIDE) ** 2))
    at = (off + SPAN) * (BINS / (2 * SPAN)) - 0.5
    low = np.clip(at, 0, BINS - 2).astype(int)
    inside = logs[low] + (at - low) * np.diff(logs)[low]
    beyond = np.abs(off) > grid[-1]
    if beyond.any():
        inside[beyond] = np.log(FAR) - 0.5 * (off[beyond] / WIDE) ** 2
    return inside - np.log1p(FAR * WIDE * np.sqrt(2 * np.pi))


def _shape(y: np.ndarray, means: np.ndarray, s: float, weights: np.ndarray) -> np.ndarray:
    """Density of (y_i − mean_j)/s under weights w_ij, on the grid: a smoothed histogram."""
    if s == 0:
        return np.zeros(BINS)
    bins = np.clip(((y[:, None] - means) / s + SPAN) * (BINS / (2 * SPAN)), 0, BINS - 1)
    counts = np.bincount(bins.astype(int).ravel(), weights.ravel(), minlength=BINS)
    step, n = 2 * SPAN / BINS, max(counts.sum(), 1.0)
    return gaussian_filter1d(counts, SHAPE_WIDTH * n**-0.2 / step, mode="constant") / (n * step)


@dataclass(frozen=True)
class SmoothMoves:
    """P_ij = (N_ij + c g_ij)/(N_i + c), g_i = N(f(x_i), s²(x_i)): a smooth transition as a prior.

    N_ij are the expected numbers of transitions. f is a ridge regression of x' on x, linear apart
    from a penalised function of an RKHS, its λ by generalised cross-validation; s², for each
    dimension, the local mean of squared residuals.
    """

    latent: Latent
    strength: float

    def __call__(self, alpha, gamma, chain: Chain, sequences) -> Chain:
        """The M-step of `baumwelch.climb`."""
        return self.from_counts(transitions(alpha, gamma, chain, sequences))

    def from_counts(self, counts: np.ndarray) -> Chain:
        """The chain with these expected numbers of transitions."""
        transmat = counts + self.strength * self.smooth(counts)
        transmat /= transmat.sum(axis=1, keepdims=True)
        return Chain(stationary(transmat), transmat)

    def smooth(self, counts: np.ndarray) -> np.ndarray:
        """g, (m, m)."""
        z, mass = self.latent.standard, counts.sum(axis=1)
        sums = counts @ z
        total = counts @ z**2
        seen = np.maximum(mass, np.finfo(float).tiny)[:, None]
        inside = (total - sums**2 / seen).sum()  # about the mean of each node
        f = self.regression(mass, sums / seen, inside)
        off = total - 2 * f * sums + f**2 * mass[:, None]
        near = self._near
        variances = (near @ off + SOME * off.sum(axis=0)) / (near @ mass + SOME * mass.sum())[
            :, None
        ]
        variances = np.maximum(variances, self.latent.spacing**2)
        square = ((z - f[:, None]) ** 2 / variances[:, None]).sum(axis=2)
        square -= square.min(axis=1, keepdims=True)
        g = np.exp(-0.5 * square) * self._volume
        return g / g.sum(axis=1, keepdims=True)

    def regression(self, mass: np.ndarray, means: np.ndarray, inside: float) -> np.ndarray:
        """f at the nodes, by weighted ridge: min Σ_i N_i ‖m_i − f(x_i)‖² + λ‖f₂‖², f₂ not linear.

        λ minimises log RSS − 2 log(1 − df/n), with RSS that of single transitions. At every node
        one more transition is imagined, to where a straight line leads: what no data hold back
        would run off the nodes, and stay at the last ones.
        """
        D, d = self._design, means.shape[1]
        line, imagined = D[:, : 1 + d], mass + 1
        slope = _least_squares(line, mass, means)
        means = (mass[:, None] * means + line @ slope) / imagined[:, None]
        mass = imagined
        n = max(mass.sum(), np.finfo(float).tiny)
        weighted = mass[:, None] * D
        penalty = np.r_[np.zeros(1 + d), np.ones(D.shape[1] - 1 - d)]
        second = D.T @ weighted + 1e-9 * n * np.eye(len(penalty))
        s, W = scipy.linalg.eigh(np.diag(penalty), second)  # Wᵀ second W = I
        left, right = D @ W, W.T @ (weighted.T @ means)
        best, found = np.inf, means
        for reg in REGS:
            shrunk = 1 / (1 + reg * np.maximum(s, 0.0))
            f, df = left @ (shrunk[:, None] * right), shrunk.sum()
            rss = (mass[:, None] * (means - f) ** 2).sum() + inside
            score = np.log(max(rss, np.finfo(float).tiny)) - 2 * np.log(max(1 - df / n, 1e-3))
            if score < best:
                best, found = score, f
        return found

    @cached_property
    def _design(self) -> np.ndarray:
        """1, x, and coordinates of a Gaussian kernel: (m, 1 + d + r)."""
        z = self.latent.standard
        values, vectors = np.linalg.eigh(_bumps(z, BEND))
        keep = values > 1e-7 * values[-1]
        return np.c_[np.ones(len(z)), z, vectors[:, keep] * np.sqrt(values[keep])]

    @cached_property
    def _near(self) -> np.ndarray:
        return _bumps(self.latent.standard, NEAR)

    @cached_property
    def _volume(self) -> np.ndarray:
        """Of the space around each node, up to a factor."""
        return 1 / _bumps(self.latent.standard, 2 * self.latent.spacing).sum(axis=1)


def _least_squares(D: np.ndarray, mass: np.ndarray, targets: np.ndarray) -> np.ndarray:
    weighted = D * mass[:, None]
    return np.linalg.pinv(weighted.T @ D, rcond=1e-12, hermitian=True) @ (weighted.T @ targets)


def _bumps(z: np.ndarray, width: float) -> np.ndarray:
    return np.exp(-0.5 * linalg.sq_dists(z, z) / width**2)


def _inverse_root(S: np.ndarray) -> np.ndarray:
    """S^(-1/2), with what has no variance left out."""
    values, vectors = np.linalg.eigh(S)
    keep = values > 1e-10 * max(values[-1], np.finfo(float).tiny)
    inverse = np.where(keep, 1 / np.sqrt(np.where(keep, values, 1.0)), 0.0)
    return (vectors * inverse) @ vectors.T


def _shares(log_weights: np.ndarray) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def _spaced(m: int, d: int) -> np.ndarray:
    """Evenly spread points of the unit cube, the same at every call."""
    return qmc.Halton(d, scramble=True, rng=0).random(m)

"""EM for a hidden Markov model whose emission laws are embeddings of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.ndimage import uniform_filter1d

from ..core import arrays
from ..core.progress import Verbose, track
from ..core.stages import stage
from ..kernels import Delta, Kernel
from .emission import AnySmoothing, Guard, GuardRule, Laws, own_widths, rule_of_thumb, smoothing_of
from .markov import Chain, filtered, predicted, smoothed, transitions
from .rows import Rows

FIRST_STEPS = 3  # iterations in which the log-likelihood may fall
PSEUDO = 1e-3  # transitions of each kind that are taken as seen beside those expected
LENGTHS = (1, 1, 8, 1, 64, 1)  # mean durations of states, in random starts
TILT = 1.5  # of a random start, in standard deviations of the coordinates
STEP = 2.0  # between two bandwidths
WIDEST, NARROWEST = 2.0, 1 / 8  # bandwidths tried, relative to Silverman's
STRETCHES = 20  # of rows, every other of which is held out
MANY = 20_000  # rows from which on a single step is for all of them
FEWEST = 2 * STRETCHES  # rows from which on a bandwidth is sought


@dataclass(frozen=True)
class Effort:
    """How far EM goes.

    Attributes
    ----------
    short : tuple of int
        Iterations of a start, round by round; the better half goes on to the next.
    half_iter : int
        Iterations on half of the rows, when the rest judges a bandwidth.
    more : int
        The same, from where the half came at the bandwidth next to it.
    """

    short: tuple[int, ...] = (5, 5, 10)
    half_iter: int = 30
    more: int = 10


@dataclass(frozen=True)
class Climb:
    """Where EM has come to.

    Attributes
    ----------
    gamma : array of shape (n, K)
        Probabilities of the states, from which the emission laws are made.
    chain : Chain
    loglik : array, one number per row used
        log p(y_t | y_1, ..., y_{t-1}), the row itself left out of the emission laws.
    history : list of float
        Their mean, by iteration.
    converged : bool
    logb : array of shape (n, K)
        log f_k of all rows, by the laws of those used.
    """

    gamma: np.ndarray
    chain: Chain
    loglik: np.ndarray
    history: list[float]
    converged: bool
    logb: np.ndarray

    @property
    def value(self) -> float:
        """Mean log-likelihood of a row."""
        return float(self.loglik.mean())


def maximised(alpha, gamma, chain: Chain, sequences) -> Chain:
    """The chain with the expected transitions, started in its stationary law."""
    return Chain.counted(transitions(alpha, gamma, chain, sequences) + PSEUDO)


def expectation(smoothing: AnySmoothing, rows: Rows, gamma, chain: Chain) -> tuple:
    """α of all rows, log-likelihoods of those used, and log-densities of all."""
    logb = log_emissions(smoothing, rows, gamma)
    told = np.where((rows.seen & ~rows.used)[:, None], 0.0, logb)
    alpha, loglik = filtered(told, chain.along(rows.inputs), rows.sequences)
    return alpha, loglik[rows.used], logb


def log_emissions(smoothing: AnySmoothing, rows: Rows, gamma) -> np.ndarray:
    """log f_k of all rows by the laws of those used; 0 for those that are missing.

    Rows that are there in part are judged by the columns that they have.
    """
    logb, weights = np.zeros_like(gamma), rows.weights(gamma)
    logb[rows.seen] = smoothing.log_densities(weights)
    if rows.parts:
        told = smoothing.marginals(weights)
        for numbers, columns, points in rows.parts:
            logb[numbers] = told(columns, points)
    return logb


def begin(logb: np.ndarray, chain: Chain, sequences) -> np.ndarray:
    """γ for log-densities and a chain that are given."""
    alpha, _ = filtered(logb, chain, sequences)
    return smoothed(alpha, chain, sequences)


def random_starts(variates: np.ndarray, K: int, count: int, rng: np.random.Generator):
    """Log-densities linear in the variates with random slopes, and a chain to begin with.

    Some are smooth in time, of chains that stay: states that last long have laws that overlap,
    and no row alone tells them apart.
    """
    for i in range(count):
        length = LENGTHS[i % len(LENGTHS)]
        A = uniform_filter1d(variates, length, axis=0)
        scale = np.maximum(A.std(axis=0), np.finfo(float).tiny)
        slopes = rng.standard_normal((A.shape[1], K)) / A.shape[1] ** 0.5
        yield TILT * ((A - A.mean(axis=0)) / scale) @ slopes, lasting(K, length)


def lasting(K: int, length: int) -> Chain:
    """States as likely as each other, drawn anew after `length` rows on average."""
    transmat = np.full((K, K), 1 / (K * length)) + (1 - 1 / length) * np.eye(K)
    return Chain(np.full(K, 1 / K), transmat)


# ------------------------------------------------------------ the search


@dataclass
class Refinement:
    """Several starts, then the bandwidth, on some rows; then all rows.

    Parameters
    ----------
    rows : Rows
    kernel : Kernel
        Smoothing kernel, a median distance wide.
    bandwidth : float, optional
        In units of `kernel`; None searches.
    max_iter, tol
        Of EM.
    verbose : bool or callable
        Progress over the starts, see `progress.track`,
    task : str
        and what it says of them.
    guard_of, maximise : callable
        The rules for the guard of the emission laws and for the chain.
    effort : Effort
    widths : tuple of float, optional
        Multiples of the bandwidth by state, once the states are known.
    made : dict
        The smoothing of these rows made last, by its bandwidth. Of other rows there are others.
    """

    rows: Rows
    kernel: Kernel
    bandwidth: float | None
    max_iter: int
    tol: float
    verbose: Verbose
    guard_of: GuardRule = Guard.of
    maximise: Callable[..., Chain] = maximised
    effort: Effort = Effort()
    widths: tuple[float, ...] | None = None
    task: str = "starting points"
    made: dict[tuple, AnySmoothing] = field(default_factory=dict)

    def smoothing(self, bandwidth: float) -> AnySmoothing:
        """The rows seen, at a bandwidth relative to the kernel's."""
        key = bandwidth, self.widths
        if key not in self.made:
            kernel = self.kernel.scaled(bandwidth)
            self.made.clear()  # each may be a Gram matrix for each state
            self.made[key] = smoothing_of(self.rows.there, kernel, self.widths)
        return self.made[key].guarded(self.guard_of)

    def on(self, rows: Rows) -> Refinement:
        """The search on other rows."""
        return self if rows is self.rows else replace(self, rows=rows, made={})

    def begun_on(self, few: Refinement, starts, bare: bool = False) -> Climb:
        """The same carried on, from starts on some of the rows.

        By guards alone, if `bare`.
        """
        first = replace(few, guard_of=self.guard_of)
        smoothing: Any = first.smoothing(first.factor)
        how = smoothing.bare if bare else smoothing
        best = first._continued(how, first.best_start(how, starts))
        if few.rows is not self.rows:
            laws = smoothing.emissions(best.gamma[few.rows.seen])
            best = self.carried_on(laws, best, self.smoothing(first.factor))
        return best

    @property
    def factor(self) -> float:
        """The first bandwidth: the one that was given, or half of Silverman's."""
        return 0.5 * self._thumb if self.bandwidth is None else self.bandwidth

    @property
    def searched(self) -> bool:
        """Whether there is a bandwidth to look for."""
        few = self.rows.seen.sum() < FEWEST
        return not (self.bandwidth is not None or isinstance(self.kernel, Delta) or few)

    @property
    def _thumb(self) -> float:
        return rule_of_thumb(int(self.rows.seen.sum()), self.rows.points.shape[1])

    def carried_on(self, laws: Laws, found: Climb, smoothing: AnySmoothing) -> Climb:
        """EM on these rows from laws and a chain found on others; of very many, one step."""
        rows, along = self.rows, found.chain.along(self.rows.inputs)
        logb = laws.log_density(rows.points)
        logb[~rows.seen] = 0.0
        alpha, loglik = filtered(logb, along, rows.sequences)
        gamma = smoothed(alpha, along, rows.sequences)
        if len(rows.seen) <= MANY:
            return self.climb(smoothing, gamma, found.chain, self.max_iter)
        chain = self.maximise(alpha, gamma, along, rows.sequences)
        return replace(found, gamma=gamma, chain=chain, loglik=loglik[rows.seen], logb=logb)

    @stage("starts of EM")
    def best_start(self, smoothing: AnySmoothing, starts) -> Climb:
        """A few iterations from every start, more from the better half, and so on; the best."""
        first, *onwards = self.effort.short
        climbs = [
            self.climb(smoothing, begin(logb, chain, self.rows.sequences), chain, first)
            for logb, chain in track(starts, description=self.task, verbose=self.verbose)
        ]
        for steps in onwards:
            climbs.sort(key=lambda c: -c.value)
            kept = climbs[: -(-len(climbs) // 2)]
            climbs = [self._continued(smoothing, c, steps) for c in kept]
        return max(climbs, key=lambda c: c.value)

    def _continued(self, smoothing: AnySmoothing, c: Climb, steps: int | None = None) -> Climb:
        """The climb carried on, with the history of both (but for steps that were undone)."""
        if c.converged:
            return c
        more = self.resumed(smoothing, c, steps)
        before = [value for value in c.history if value < more.history[0]]
        return replace(more, history=before + more.history)

    def resumed(self, smoothing: AnySmoothing, c: Climb, steps: int | None = None) -> Climb:
        """A climb from where one ended, at another bandwidth, say."""
        return self.climb(smoothing, c.gamma, c.chain, steps or self.max_iter)

    def climb(self, smoothing: AnySmoothing, gamma, chain: Chain, max_iter: int) -> Climb:
        """Laws and chain from γ, γ from these, until the mean log-likelihood settles.

        The emission laws are not the maximisers of a likelihood (that would be a sum of spikes) but
        embeddings, smoothed; with them an iteration can, rarely, lower the log-likelihood by a
        little. Before it does it ends. (In its first steps, away from a start that is no model yet,
        it begins anew instead.)
        """
        rows, best = self.rows, None
        for i in range(max_iter):
            alpha, loglik, logb = expectation(smoothing, rows, gamma, chain)
            gain = np.inf if best is None else loglik.mean() - best.value
            if best is not None and gain <= 0 and i > FIRST_STEPS:
                return replace(best, converged=True)
            history = [*(best.history if best and gain > 0 else ()), float(loglik.mean())]
            settled = bool(gain < self.tol and i > FIRST_STEPS)
            best = Climb(gamma, chain, loglik, history, settled, logb)
            if best.converged or i == max_iter - 1:
                break
            along = chain.along(rows.inputs)
            gamma = smoothed(alpha, along, rows.sequences)
            chain = self.maximise(alpha, gamma, along, rows.sequences)
        assert best is not None
        return best

    @stage("bandwidths")
    def over_bandwidths(
        self, first: Climb, factor: float, held: HeldOut | None = None
    ) -> tuple[float, HeldOut]:
        """The bandwidth of the best held-out log-likelihood, from the first one outwards; both.

        The first one where none is looked for. What was `held` out there may be known.
        """
        found = {factor: held or self.held_out(factor, first)}
        for step in (1 / STEP, STEP) if self.searched else ():
            h = factor
            while NARROWEST <= h * step / self._thumb <= WIDEST and found[h].total == max(
                held.total for held in found.values()
            ):
                h *= step
                found[h] = self.held_out(h, first, found[h / step])
        best = max(found, key=lambda h: found[h].total)
        return best, found[best]

    def by_state(
        self, first: Climb, factor: float, held: HeldOut, worth: float
    ) -> tuple[Refinement, float, HeldOut]:
        """With a bandwidth for each state, if rows held out gain more than it is worth."""
        if first.gamma.shape[1] == 1:
            return self, factor, held
        weights = self.rows.weights(first.gamma)
        widths = own_widths(arrays.to_numpy(self.rows.there), weights)
        own = replace(self, widths=widths)
        told = own.held_out(factor, first, held)
        if told.total <= held.total + worth:
            return self, factor, held
        return own, *own.over_bandwidths(first, factor, told)

    def guarded(
        self, rules: Iterable[GuardRule], first: Climb, factor: float, held: HeldOut, worth=0.0
    ) -> tuple[Refinement, HeldOut]:
        """With one guard after the other, as long as rows held out gain more than it is worth."""
        best = self
        for rule in rules:
            other = replace(self, guard_of=rule)
            value = other.held_out(factor, first, held)
            if value.total <= held.total + worth:
                break
            best, held = other, value
        return best, held

    def narrowed(self, bandwidth: float) -> float:
        """The best on half of the rows is a little too wide for all of them; one given stays."""
        if self.bandwidth is not None:
            return bandwidth
        return bandwidth * 0.5 ** (1 / (self.rows.points.shape[1] + 4))

    def held_out(self, bandwidth: float, first: Climb, near: HeldOut | None = None) -> HeldOut:
        """Forecasts of the rows seen, by laws and chains from every other stretch of rows.

        EM on a half sets out from `first`, or from that half of `near`, and ends at once if it is
        far behind there.
        """
        smoothing, rows, steps = self.smoothing(bandwidth), self.rows, self.effort.half_iter
        loglik = np.zeros(len(rows.seen))
        starts, climbs = [first, first], list[Climb]()
        if near is not None:
            starts, steps = near.climbs, self.effort.more
        for used, start in zip(rows.halves(STRETCHES), starts, strict=True):
            half, there = replace(self, rows=replace(rows, used=used)), rows.seen & ~used
            climbs.append(half.climb(smoothing, start.gamma, start.chain, steps))
            loglik[there] = known(half.rows, climbs[-1])[1][there]
        return HeldOut(loglik, climbs)


@dataclass(frozen=True)
class HeldOut:
    """One-step forecasts of rows by laws and chains that have not seen them.

    Attributes
    ----------
    loglik : array of shape (n,)
        log p(y_t | y_1, ..., y_{t-1}); 0 for rows not seen.
    climbs : list of Climb
        On the halves.
    """

    loglik: np.ndarray
    climbs: list[Climb]

    @property
    def total(self) -> float:
        """Σ_t log p(y_t | y_1, ..., y_{t-1}) of the rows seen."""
        return float(self.loglik.sum())

    def mean(self, rows: Rows) -> np.ndarray:
        """E[y_t | y_1, ..., y_{t-1}], (n, d): of these rows, whatever densities are of."""
        found = np.zeros(rows.points.shape)
        for used, learned in zip(rows.halves(STRETCHES), self.climbs, strict=True):
            there = rows.seen & ~used
            found[there] = forecast(replace(rows, used=used), learned)[there]
        return found


def known(rows: Rows, learned: Climb) -> tuple[np.ndarray, np.ndarray]:
    """α and log-likelihoods of all rows, by the laws of the rows used, never their own."""
    return filtered(learned.logb, learned.chain.along(rows.inputs), rows.sequences)


def forecast(rows: Rows, learned: Climb) -> np.ndarray:
    """Means of all rows given those before, by the same laws."""
    weights = rows.weights(learned.gamma)
    means = weights.T @ arrays.to_numpy(rows.there)
    means /= np.maximum(weights.sum(axis=0), np.finfo(float).tiny)[:, None]
    chain = learned.chain.along(rows.inputs)
    return predicted(known(rows, learned)[0], chain, rows.sequences) @ means

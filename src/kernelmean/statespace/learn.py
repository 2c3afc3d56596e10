"""Learning a `KernelStateSpace`: pairs, moments of neighbours, and EM on the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, product
from typing import Any, cast

import numpy as np

from ..chains import draft as drafts
from ..chains.draft import Draft, Settings, embedded, in_space, of_moments, on_all, searching
from ..chains.em import STRETCHES, Climb, Effort
from ..chains.emission import SHARES, Guard, Shrunken, Smoothing
from ..chains.markov import Chain
from ..chains.model import FittedChain
from ..chains.rows import Rows
from ..chains.variates import Variates
from ..core import arrays
from ..core.checks import frozen
from ..core.stages import stage
from ..embedding.embedding import MeanEmbedding
from ..kernels import Delta, Gaussian, fitted_kernel
from .backbone import FittedBackbone
from .contest import BOTH, STATES, Contest, Held, Rival
from .guard import LinearGuard, ShapedGuard
from .latent import CHAINS, Latent
from .lines import FEWEST, Found, clear, search
from .moves import SmoothMoves
from .operators import PairFit, fit_moments
from .options import Backbone, KernelRule, Particles
from .pairing import WINDOWS, Pairing
from .space import Space

SEARCHED = 2000  # rows that starts, bandwidths and guards are compared on
ON_ALL = 6  # iterations on all rows after these: more gain less than .001 nats a row
# the log-likelihood falls where the λ of the transitions changes
EFFORT = Effort(short=(5,), finalists=1, half_iter=4, more=2, patience=6)
TOLD = 10  # steps of L-BFGS on the moments beside EM: soon after, it fits their noise
ENOUGH = 0.5  # sum of the weights of a law, as a share of that of the positive ones
STRONGER = (10.0, 100.0)  # multiples of the emission guard's strength, tried one after the other


# ------------------------------------------------------------ from what is asked for to a fit


@dataclass(frozen=True)
class Fit(drafts.Fit):
    """What a fitted state-space model consists of."""

    space: Space
    start: PairFit  # by the moments
    guard: tuple[float, float]
    U: np.ndarray
    V: np.ndarray
    backbone: FittedBackbone | None = None
    rivals: dict[str, Rival] = field(default_factory=dict)
    tried: dict[int, float] = field(default_factory=dict)  # log-likelihoods by dimension

    @property
    def without_memory(self) -> Fit:
        """States drawn anew at every row."""
        start = self.chain.chain.startprob
        chain = Chain(start, np.tile(start, (len(start), 1)))
        V = self.space.operator(self.space.Psi.T @ chain.transmat.T, start)
        return replace(self, chain=replace(self.chain, chain=chain), V=V)


@dataclass(frozen=True)
class Candidate:
    """States as a search on some rows found them, and how they are learned from all rows."""

    held: Any  # Held, or None where moments are all
    learned: Callable[[], Fit]
    tried: dict[int, float] = field(default_factory=dict)

    @stage("states")
    def fit(self) -> Fit:
        """Learned from all rows."""
        return replace(self.learned(), tried=self.tried)


@dataclass(frozen=True)
class Plan(drafts.Plan):
    """What is asked of a state-space model."""

    laws: list[Any]  # Normal, each of another dimension
    inference: Any
    backbone: Any
    drafted: Callable[[np.ndarray, np.ndarray, list[int]], Draft]

    def fit(self, draft: Draft, rng: np.random.Generator, inputs=None) -> Fit:
        """Of the series itself, of what a line leaves of it, or the line without states."""
        spaces = [self.space(law, rng) for law in self.laws]
        found = self.line(draft, spaces[0][1], inputs)
        if found is None:
            return cast(Candidate, self.states(draft, spaces)).fit()
        rows = draft.rows
        points = arrays.like(found.innovations, rows.points)
        left = self.drafted(points, found.usable, [s.stop - s.start for s in rows.sequences])
        contest = Contest.of(rows, found, self.without_states(left))
        if self.backbone == "auto" and inputs is None:
            plain = self.states(draft, spaces, contest.hopeless)
            if plain is not None and contest.with_states(plain.held):
                return replace(plain.fit(), rivals=contest.rivals)
        both = cast(Candidate, self.states(left, spaces, of=BOTH))
        helps, other = contest.with_both(both.held), both.fit()
        other = other if helps else other.without_memory
        chain = other.chain
        far = chain.chain.startprob @ arrays.to_numpy(chain.emissions.mean())
        return replace(other, backbone=found.line.centred(far), rivals=contest.rivals)

    def without_states(self, draft: Draft) -> Held:
        """Rows as draws of one law; nearly a normal one, where they are too few for a bandwidth."""
        rows = draft.rows
        how, effort = self.settings(draft, None), Effort(half_iter=1, more=1)
        numbers, search = searching(rows, draft.kernel, how, SEARCHED, effort=effort)
        one = np.ones((len(numbers), 1))
        start = search.start_at(one, Chain(np.ones(1), np.ones((1, 1))))
        factor, held = search.over_bandwidths(start, search.factor)
        if not search.searched:
            held = search.guarded(map(Shrunken, SHARES), start, factor, held)[1]
        return Held(numbers, held)

    @stage("backbone")
    def line(self, draft: Draft, known: Chain | None, inputs) -> Found | None:
        """The line that is tried; None where it has no place: states are then of y itself."""
        if self.backbone is None:
            if inputs is not None:
                raise ValueError("inputs were given, and backbone is None, which takes them")
            return None
        rows, given = draft.rows, self.backbone != "auto" or inputs is not None
        if not given and (
            not self.refine
            or known is not None
            or isinstance(self.inference, KernelRule)
            or isinstance(draft.kernel, Delta)
            or rows.seen.sum() < FEWEST
            or self.variates(draft) is not None
        ):
            return None
        if not self.refine:
            raise ValueError(
                "refine is False, and a backbone or inputs are given: whether states help beside "
                "a line is judged by rows held out, which only refine=True has"
            )
        options = Backbone() if self.backbone == "auto" else self.backbone
        Y = arrays.to_numpy(rows.points)
        found = search(options, Y, rows.seen, rows.sequences, inputs)
        if given and found is None:
            raise ValueError(
                f"X has too few rows, {rows.seen.sum()}, for backbone={options!r}: the first half "
                "of a series has to teach a line, so that it needs about three seasons, and six "
                "rows for a lag"
            )
        return found

    @stage("states")
    def states(
        self, draft: Draft, spaces, hopeless: float = -np.inf, of: str = STATES
    ) -> Candidate | None:
        """Of the fewest dimensions, unless rows held out are clearly likelier with more."""
        best: Candidate | None = None
        tried: dict[int, float] = {}
        for space, known in spaces:
            found = self.of_dimension(draft, space, known, hopeless, of)
            if len(spaces) == 1:
                return found
            if found is None or found.held is None:
                continue
            logs = found.held.forecasts.loglik
            seen = draft.rows.seen[found.held.numbers]
            tried[space.latent.nodes.shape[1]] = float(logs[seen].mean())
            if best is not None and not clear(logs - best.held.forecasts.loglik):
                break
            best = found
        return best and replace(best, tried=tried)

    def of_dimension(
        self, draft: Draft, space: Space, known: Chain | None, hopeless: float, of: str
    ) -> Candidate | None:
        """Pairings, and EM from each of these, or their moments; None where EM is hopeless."""
        variates, guard = self.variates(draft), np.atleast_1d(self.em.guard)
        guards, settings = (float(guard[0]), float(guard[-1])), self.settings(draft, variates)
        learner = Learner(draft, space.latent, variates, guards, known, settings, of)
        # EM takes nothing from the moments, which are told all the same
        most, steps = (1, TOLD) if self.refine else (None, self.em.max_iter)
        fits = [
            fit_moments(draft, space, p, self.em.penalty, steps, known is not None)
            for p in islice(learner.pairings(draft.rows), most)
        ]
        best = min(fits, key=lambda fit: fit.loss)
        if not self.refine:
            return Candidate(None, lambda: self.by_moments(learner, space, best))
        refined = learner.refine(hopeless)
        if refined is None:
            return None
        held, learned = refined
        return Candidate(held, lambda: self.by_em(learner, space, best, *learned()))

    def space(self, law, rng: np.random.Generator) -> tuple[Space, Chain | None]:
        """The nodes, and the chain on them if the transition is known."""
        latent, known = Latent.of(law.law, law.d, law.nodes, rng), None
        if law.transition is not None:
            begin = latent.nodes[rng.choice(len(latent.nodes), CHAINS, p=latent.weights)]
            latent = Latent.simulated(law.transition, begin, law.nodes, rng)
            known = latent.chain_of(law.transition, rng)
        return Space.of(latent, fitted_kernel(law.kernel, latent.nodes)), known

    def variates(self, draft: Draft) -> Variates | None:
        """What densities are of; particles need those of the columns themselves."""
        particles = isinstance(self.inference, Particles)
        if particles and self.em.directions not in ("auto", 0):
            raise ValueError(
                f"directions is {self.em.directions}, and inference is 'particles', which need "
                "densities of y itself: directions=0"
            )
        return drafts.space_of(draft, 0 if particles else self.em.directions)

    def by_em(
        self, learner: Learner, space: Space, best: PairFit, climbed: Climb, smoothing: Smoothing
    ) -> Fit:
        """Laws whose weights are the probabilities of the nodes in the rows."""
        draft, seen = learner.draft, learner.draft.rows.seen
        gamma, plain = climbed.gamma[seen], learner.variates is None
        laws = smoothing.emissions(gamma)
        chain = FittedChain(
            climbed.chain,
            embedded_rows(draft.rows.there, gamma, laws.guard, plain, draft.kernel),
            laws,
            getattr(smoothing.kernel, "lengthscale", None),
            learner.variates,
        )
        chain = self.with_rule(chain, draft, climbed.gamma)
        strength = round(float(laws.guard.strength) * len(space.latent.nodes), 6)
        U = space.operator(embedded(draft, climbed.gamma, 1.0)[1], gamma.sum(axis=0))
        V = space.operator(space.Psi.T @ climbed.chain.transmat.T, climbed.chain.startprob)
        guard, history = (strength, learner.guard[1]), np.array(climbed.history)
        return Fit(chain, draft, history, climbed.converged, space, best, guard, U, V)

    def by_moments(self, learner: Learner, space: Space, best: PairFit) -> Fit:
        """The laws that the moments say."""
        draft = learner.draft
        laws = normalised(draft.weighted_rows(best.U @ space.Psi.T))
        states = learner.chain or space.chain_of(best.V)
        bandwidth = learner.settings.bandwidth
        chain = of_moments(draft, learner.variates, laws, states, bandwidth)
        chain = self.with_rule(chain, draft, chain.smoothed(draft.rows))
        rest = space, best, learner.guard, best.U, best.V
        return Fit(chain, draft, np.empty(0), best.converged, *rest)

    def with_rule(self, chain: FittedChain, draft: Draft, gamma: np.ndarray) -> FittedChain:
        """With kernel Bayes' rule, if that filters."""
        if not isinstance(self.inference, KernelRule):
            return chain
        return replace(chain, rule=self.rule(draft, gamma, chain.chain))


def embedded_rows(points, gamma: np.ndarray, guard: Guard, plain: bool, kernel) -> MeanEmbedding:
    """Laws of y given a node: rows, weighted by its probability in them, and the guard.

    The guard has points of its own where densities are of y itself (`plain`).
    """
    weights = gamma.T
    if guard.n_values:  # the guard is uniform on the values
        _, value, count = np.unique(
            arrays.to_numpy(points), axis=0, return_inverse=True, return_counts=True
        )
        weights = weights + guard.strength / (guard.n_values * count[value.reshape(-1)])
    elif plain and isinstance(guard, ShapedGuard):
        extra = guard.points()
        count, extra = extra.shape[1], extra.reshape(-1, extra.shape[2])
        points = arrays.namespace(points).concat([points, arrays.like(extra, points)])
        own = np.kron(np.eye(len(weights)), np.full(count, guard.strength / count))
        weights = np.concatenate([weights, own], axis=1)
    weights = weights + arrays.EPS / weights.shape[1]  # where no row has been
    weights /= weights.sum(axis=1, keepdims=True)
    points = frozen(points)
    return MeanEmbedding.of_parts(points, arrays.like(weights, points), None, kernel)


def normalised(laws: MeanEmbedding) -> MeanEmbedding:
    """Weights of each law that sum to one: without the negative ones, where these are too many."""
    weights = arrays.to_numpy(laws.weights)
    positive = np.maximum(weights, 0.0)
    much = weights.sum(axis=1) >= ENOUGH * positive.sum(axis=1)
    weights = np.where(much[:, None], weights, positive)
    weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return MeanEmbedding.of_parts(laws.points, arrays.like(weights, laws.points), None, laws.kernel)


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
    of : str
        What the states are of, for whoever looks at the progress.
    """

    draft: Draft
    latent: Latent
    variates: Variates | None
    guard: tuple[float, float]
    chain: Chain | None
    settings: Settings
    of: str = STATES

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

    def pairings(self, rows: Rows) -> Iterator[Pairing]:
        """By averages over more and more rows; with known transitions, both ways round.

        In several dimensions the last is by what the rows up to each say of those after it.
        """
        signs = (1.0,) if self.chain is None else (1.0, -1.0)
        windows: list[float | None] = list(WINDOWS[: self.settings.n_init])
        if self.latent.nodes.shape[1] > 1 and len(windows) > 1:
            windows[-1] = None
        for window, sign in product(windows, signs):
            found = Pairing.of(rows, self.moves, window, sign)
            yield found if self.chain is None else replace(found, chain=self.chain)

    def refine(
        self, hopeless: float = -np.inf
    ) -> tuple[Held, Callable[[], tuple[Climb, Smoothing]]] | None:
        """EM on some rows from all pairings of these, and how it goes on on all rows.

        None if the best start ends at a mean log-likelihood that is `hopeless`.
        """
        rows = in_space(self.draft.rows, self.variates)
        kernel = self.draft.kernel if self.variates is None else Gaussian()
        task = f"starts of EM, {self.of} (n_latent={self.latent.nodes.shape[1]})"
        laws = {"guard_of": self.guard_of, "maximise": self.maximise}
        numbers, search = searching(
            rows, kernel, self.settings, SEARCHED, **laws, effort=EFFORT, task=task
        )
        few = self.draft.rows.stretches(SEARCHED, STRETCHES)[1]
        found = search.best_start([(p.log_shares, p.chain) for p in self.pairings(few)])
        if found.value < hopeless:
            return None
        factor, held = search.over_bandwidths(found, search.factor)
        if search.searched:
            guard = self.guard_of
            stronger = (replace(guard, strength=s * guard.strength) for s in STRONGER)
            search, held = search.guarded(stronger, found, factor, held)
        if self.settings.bandwidth is None:
            factor = search.narrowed(factor)

        def learned() -> tuple[Climb, Smoothing]:
            begun = search.anew(search.smoothing(factor), found)
            few = replace(search, max_iter=min(search.max_iter, ON_ALL))
            climbed, smoothing = on_all(few, rows, begun, factor, self.settings)
            return replace(climbed, converged=begun.converged), smoothing

        return Held(numbers, held), learned

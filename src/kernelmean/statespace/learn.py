"""Learning a `KernelStateSpace`: pairs, moments of neighbours, and EM on the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, product
from typing import Any

import numpy as np

from ..chains import draft as drafts
from ..chains.draft import Draft, embedded, in_space, on_all, row_laws
from ..chains.em import Climb, Effort, HeldOut
from ..chains.emission import SHARES, Guard, Shrunken, Smoothing, can_smooth
from ..chains.markov import Chain
from ..chains.model import FittedChain
from ..chains.rows import Rows, as_inputs, gaps_in
from ..chains.variates import Variates
from ..core import Array, arrays, checks
from ..core.sequences import check_sequences
from ..core.stages import stage
from ..core.wild import without_wild
from ..densities.standard import clearly
from ..embedding.embedding import MeanEmbedding
from ..kernels import Delta, as_kernel, fitted_kernel
from .backbone import FittedBackbone
from .contest import BOTH, SEARCHED, STATES, Contest, Rival
from .gaps import WHOLE, drawn, hardly_whole, tells
from .guard import LinearGuard, ShapedGuard
from .latent import CHAINS, Latent, Space
from .lines import CLEAR, FEWEST, Found, search
from .moves import SmoothMoves
from .operators import PairFit, fit_moments
from .options import Backbone, KernelRule, Particles
from .pairing import WINDOWS, Pairing

ON_ALL = 6  # iterations on all rows after these: more gain less than .001 nats a row
EFFORT = Effort(short=(5,), half_iter=4, more=2)
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
class Plan(drafts.Plan):
    """What is asked of a state-space model."""

    laws: list[Any]  # Normal, each of another dimension
    inference: Any
    backbone: Any

    def observed(self, X, lengths, inputs) -> tuple[Array, np.ndarray]:
        """With gaps filled, where few triples of rows in a row are whole."""
        points, seen = super().observed(X, lengths, inputs)
        sequences = check_sequences(lengths, len(seen))
        if not hardly_whole(seen, sequences) or isinstance(as_kernel(self.kernel), Delta):
            return points, seen
        Y = np.where(gaps_in(X), np.nan, arrays.to_numpy(points))
        if not tells(Y):
            return points, seen
        checks.warn_numerical(
            f"fewer than {WHOLE:.0%} of three rows in a row of X are without NaN, and models are "
            "learned from such: gaps are filled first, by draws of a linear model of X"
        )
        known, season = as_inputs(inputs, len(seen), None), getattr(self.backbone, "season", None)
        Y = drawn(Y, sequences, known, season or 0, np.random.default_rng(0))
        return arrays.like(Y, points), np.ones_like(seen)

    def believed(self, points, seen: np.ndarray, sequences: list[slice]) -> np.ndarray:
        """All but a few that are wildly off."""
        return without_wild(points, seen, sequences)

    def fit(self, draft: Draft, rng: np.random.Generator, inputs=None) -> Fit:
        """Of the series itself, of what a line leaves of it, or the line without states."""
        spaces = [self.space(law, rng) for law in self.laws]
        found = self.line(draft, spaces[0][1], inputs)
        if found is None:
            return self.states(draft, spaces).fit()
        rows = draft.rows
        points = arrays.like(found.innovations, rows.points)
        lengths = [s.stop - s.start for s in rows.sequences]
        left = self.drafted(points, found.usable, lengths, draft.names)
        by_errors = self.variates(draft) is not None
        contest = Contest(rows, left.rows, found, self.without_states(left), by_errors)
        if self.backbone == "auto" and inputs is None:
            plain = self.states(draft, spaces)
            if contest.with_states(plain.found.held):
                return replace(plain.fit(), rivals=contest.rivals)
        both = self.states(left, spaces, of=BOTH)
        helps, other = contest.with_both(both.found.held), both.fit()
        other = other if helps else other.without_memory
        chain = other.chain
        far = chain.chain.startprob @ arrays.to_numpy(chain.emissions.mean())
        return replace(other, backbone=found.line.centred(far), rivals=contest.rivals)

    def without_states(self, draft: Draft) -> HeldOut:
        """Rows as draws of one law; nearly a normal one, where they are too few for a bandwidth."""
        search = self.search(draft, None, SEARCHED, effort=Effort(half_iter=1, more=1))
        one, alone = np.ones((len(search.rows.seen), 1)), Chain(np.ones(1), np.ones((1, 1)))
        start = Climb(one, alone, np.empty(0), [], False, one)
        factor, held = search.over_bandwidths(start, search.factor)
        if not search.searched:
            held = search.guarded(map(Shrunken, SHARES), start, factor, held)[1]
        return held

    @stage("backbone")
    def line(self, draft: Draft, known: Chain | None, inputs) -> Found | None:
        """The line that is tried; None where it has no place: states are then of y itself."""
        if self.backbone is None:
            if inputs is not None:
                raise ValueError("inputs were given, and backbone is None, which takes them")
            return None
        rows, given = draft.rows, self.backbone != "auto" or inputs is not None
        smooth = can_smooth(draft.kernel, rows.points)
        if not given and (
            not self.refine
            or known is not None
            or isinstance(self.inference, KernelRule)
            or isinstance(draft.kernel, Delta)
            or not smooth
            or rows.seen.sum() < FEWEST
        ):
            return None
        if not self.refine:
            raise ValueError(
                "refine is False, and a backbone or inputs are given: whether states help beside "
                "a line is judged by rows held out, which only refine=True has"
            )
        if not smooth:
            raise ValueError(
                f"kernel is {draft.kernel!r}, and a backbone or inputs are given: innovations need "
                "a kernel that can smooth them, Gaussian, Laplace or Matern"
            )
        options = Backbone() if self.backbone == "auto" else self.backbone
        Y = arrays.to_numpy(rows.points)
        found = search(options, Y, rows.seen, rows.sequences, inputs, given)
        if found is None:
            raise ValueError(
                f"X has too few rows, {rows.seen.sum()}, for backbone={options!r}: the first half "
                "of a series has to teach a line, so that it needs two seasons and eight rows at "
                "least, four more for a lag of each column, and two for an input"
            )
        return found

    def states(self, draft: Draft, spaces, of: str = STATES) -> Learner:
        """Of the fewest dimensions, unless rows held out are clearly likelier with more."""
        tried: dict[int, float] = {}
        n = draft.rows.stretches(SEARCHED)[1].seen.sum()
        best, *more = [Learner(self, draft, space, known, of, tried) for space, known in spaces]
        for one in [best, *more] if more else ():
            held = one.found.held
            enough = bool(tried) and not clearly(held.loglik - best.found.held.loglik, CLEAR)
            tried[one.space.latent.nodes.shape[1]] = held.total / n
            if enough:
                break
            best = one
        return best

    def space(self, law, rng: np.random.Generator) -> tuple[Space, Chain | None]:
        """The nodes, and the chain on them if the transition is known."""
        latent, known = Latent.of(law.law, law.d, law.nodes, rng), None
        if law.transition is not None:
            begin = latent.nodes[rng.choice(len(latent.nodes), CHAINS, p=latent.weights)]
            latent = Latent.simulated(law.transition, begin, law.nodes, rng)
            known = latent.chain_of(law.transition, rng)
        return Space(latent, fitted_kernel(law.kernel, latent.nodes)), known

    def variates(self, draft: Draft) -> Variates | None:
        """What densities are of; particles need those of the columns themselves."""
        particles = isinstance(self.inference, Particles)
        if particles and self.em.directions not in ("auto", 0):
            raise ValueError(
                f"directions is {self.em.directions}, and inference is 'particles', which need "
                "densities of y itself: directions=0"
            )
        return drafts.space_of(draft, 0 if particles else self.em.directions)

    def with_rule(self, chain: FittedChain, draft: Draft, gamma: np.ndarray) -> FittedChain:
        """With kernel Bayes' rule, if that filters."""
        if not isinstance(self.inference, KernelRule):
            return chain
        return replace(chain, rule=self.rule(draft, gamma, chain.chain))


# ------------------------------------------------------------ states of one dimension


@dataclass(frozen=True)
class Learner:
    """Laws on the nodes of a latent space, by EM or by moments.

    Attributes
    ----------
    plan : Plan
    draft : Draft
    space : Space
    known : Chain or None
        Transitions, where these are known.
    of : str
        What the states are of, for whoever looks at the progress.
    tried : dict
        Log-likelihoods by dimension, where several are compared.
    """

    plan: Plan
    draft: Draft
    space: Space
    known: Chain | None
    of: str = STATES
    tried: dict[int, float] = field(default_factory=dict)

    @cached_property
    def variates(self) -> Variates | None:
        """Of the observations, that densities are of."""
        return self.plan.variates(self.draft)

    @property
    def guard(self) -> tuple[float, float]:
        """Rows that the linear guards of emissions and of transitions count as, over all nodes."""
        guard = np.atleast_1d(self.plan.em.guard)
        return float(guard[0]), float(guard[-1])

    @cached_property
    def moves(self) -> SmoothMoves:
        latent = self.space.latent
        return SmoothMoves(latent, self.guard[1] / len(latent.nodes))

    @property
    def maximise(self) -> Callable:
        """The M-step of the chain; one that is known stays."""
        return self.moves if self.known is None else lambda alpha, gamma, chain, sequences: chain

    def pairings(self, rows: Rows) -> Iterator[Pairing]:
        """By averages over more and more rows; with known transitions, both ways round.

        In several dimensions the last is by what the rows up to each say of those after it.
        """
        signs = (1.0,) if self.known is None else (1.0, -1.0)
        windows: list[float | None] = list(WINDOWS[: self.plan.em.n_init])
        if self.space.latent.nodes.shape[1] > 1 and len(windows) > 1:
            windows[-1] = None
        for window, sign in product(windows, signs):
            found = Pairing(rows, self.moves, window, sign)
            found.chain = self.known or found.chain
            yield found

    @stage("states")
    def fit(self) -> Fit:
        """Laws of all rows by EM from each pairing, or by their moments."""
        em, refine = self.plan.em, self.plan.refine
        # EM takes nothing from the moments, which are told all the same
        most, steps = (1, TOLD) if refine else (None, em.max_iter)
        some, known = islice(self.pairings(self.draft.rows), most), self.known is not None
        fits = [fit_moments(self.draft, self.space, p, em.penalty, steps, known) for p in some]
        best = min(fits, key=lambda fit: fit.loss)
        return self.by_em(best) if refine else self.by_moments(best)

    @cached_property
    @stage("states")
    def found(self) -> drafts.Found:
        """EM on some rows from all pairings of these."""
        latent = self.space.latent
        guard = LinearGuard(latent.standard, self.guard[0] / len(latent.nodes))
        task = f"starting points, {self.of}, dimension {latent.nodes.shape[1]}"
        rules = {"guard_of": guard, "maximise": self.maximise, "effort": EFFORT, "task": task}
        search = self.plan.search(self.draft, self.variates, SEARCHED, **rules)
        few = self.draft.rows.stretches(SEARCHED)[1]
        starts = [(p.log_shares, p.chain) for p in self.pairings(few)]
        climb = search.best_start(search.smoothing(search.factor), starts)
        factor, held = search.over_bandwidths(climb, search.factor)
        if search.searched:
            stronger = (replace(guard, strength=s * guard.strength) for s in STRONGER)
            search, held = search.guarded(stronger, climb, factor, held)
        return drafts.Found(self.variates, search, climb, factor, held)

    def settled(self) -> tuple[Climb, Smoothing]:
        """EM at what was chosen, and a little of it on all rows."""
        search, begun = self.found.search, self.found.whole
        few = replace(search, max_iter=min(search.max_iter, ON_ALL))
        rows = in_space(self.draft.rows, self.variates)
        climbed, smoothing = on_all(few, rows, begun, search.narrowed(self.found.factor))
        return replace(climbed, converged=begun.converged), smoothing

    def by_em(self, best: PairFit) -> Fit:
        """Laws whose weights are the probabilities of the nodes in the rows."""
        draft, space, seen = self.draft, self.space, self.draft.rows.seen
        climbed, smoothing = self.settled()
        gamma, plain = climbed.gamma[seen], self.variates is None
        laws = smoothing.emissions(gamma)
        rows = embedded_rows(draft.rows.there, gamma, laws.guard, plain, draft.kernel)
        width = getattr(smoothing.kernel, "lengthscale", None)
        chain = FittedChain(climbed.chain, rows, laws, width, self.variates)
        chain = self.plan.with_rule(chain, draft, climbed.gamma)
        strength = round(float(laws.guard.strength) * len(space.latent.nodes), 6)
        U = space.operator(embedded(draft, climbed.gamma, 1.0)[1], gamma.sum(axis=0))
        V = space.operator(space.Psi.T @ climbed.chain.transmat.T, climbed.chain.startprob)
        guard, history = (strength, self.guard[1]), np.array(climbed.history)
        rest = space, best, guard, U, V
        return Fit(chain, draft, history, climbed.converged, *rest, tried=self.tried)

    def by_moments(self, best: PairFit) -> Fit:
        """The laws that the moments say."""
        draft, space = self.draft, self.space
        laws = normalised(draft.weighted_rows(best.U @ space.Psi.T))
        states = self.known or space.chain_of(best.V)
        chain = self.plan.of_moments(draft, self.variates, laws, states)
        chain = self.plan.with_rule(chain, draft, chain.smoothed(draft.rows))
        rest = space, best, self.guard, best.U, best.V
        return Fit(chain, draft, np.empty(0), best.converged, *rest)


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
    some = arrays.EPS / weights.shape[1]  # where no row has been
    return row_laws(points, weights + some, kernel)


def normalised(laws: MeanEmbedding) -> MeanEmbedding:
    """Weights of each law that sum to one: without the negative ones, where these are too many."""
    weights = arrays.to_numpy(laws.weights)
    positive = np.maximum(weights, 0.0)
    much = weights.sum(axis=1) >= ENOUGH * positive.sum(axis=1)
    weights = np.where(much[:, None], weights, positive)
    weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return MeanEmbedding.of_parts(laws.points, arrays.like(weights, laws.points), None, laws.kernel)

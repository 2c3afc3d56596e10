"""From a draft to a fitted chain: starts, refinement by EM, the regulariser of the filter.

`KernelHMM.fit`, in its order:

1. `chains.draft`: rows, coordinates and moments of neighbours (`Draft`); `Plan.fit` has the rest;
2. `chains.order`: the number of states, where it is not given;
3. `hmm.spectral`: chain and laws from moments, without EM the answer (`Plan.of_moments`);
4. `refine`: EM (`chains.em`) on some rows, from that and from random starts; then by rows held out
   the bandwidth, one for each state, shares of normal laws, and whether inputs drive the chain
   (`chains.driven`); then EM on all rows (`chains.draft.on_all`);
5. `Plan.climbed`: laws from probabilities of states (`chains.emission`), λ of kernel Bayes' rule
   (`chains.draft.choose_bayes`), all in a `chains.model.FittedChain`, which answers all that is
   asked later, by the recursions of `chains.markov`.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..chains import draft as drafts
from ..chains import em
from ..chains.draft import COLUMNS, POINTS, Draft, in_space, on_all
from ..chains.driven import driven
from ..chains.em import Climb, random_starts
from ..chains.emission import SHARES, AnySmoothing, Guard, Shrunken, SmoothingByState, can_smooth
from ..chains.markov import Chain, filtered, predicted
from ..chains.model import FittedChain
from ..chains.model_bayes import ModelBayes
from ..chains.moments import Coordinates, FarCoordinates, Moments
from ..chains.order import MAX_COMPONENTS, Order, Spectrum
from ..chains.rows import Rows, gaps_in
from ..chains.variates import Variates
from ..core import arrays, checks
from ..core.elsewhere import aligned, is_far
from ..core.sequences import check_sequences, firsts
from ..core.stages import stage
from ..kernels import Delta
from .spectral import SpectralFit
from .tune import order_by

PIECES = 200  # stretches of rows elsewhere, which choices are made on
SOME = 1e-12  # weight of a row in a law, at the least
WORTH = 1.0  # least gain in log-likelihood for a share,
OWN = 5.0  # and for a bandwidth of each state
CONSTANT = 0.3  # C of the rule by a threshold
SEARCHED = 4_000  # rows that bandwidths are compared on
WIDE = 20  # columns up to which densities may be of these
FEWEST = 100  # rows from which on it is asked of what densities are
FAR = 30.0  # log-likelihood by which a way may be behind before it is looked into
STARTED = 1_000  # rows that starts are compared on, and spaces where densities may be in several
# what laws are shrunk towards, more and more: normal laws, and those of t with four degrees
TOWARDS = {degrees: [Shrunken(share, degrees) for share in SHARES] for degrees in (None, 4.0)}


@dataclass(frozen=True)
class Fit(drafts.Fit):
    """What a fitted hidden Markov model consists of."""

    singular_values: np.ndarray
    order: Order | None  # how the number of states was estimated
    held_out: dict[str, float]  # log-likelihoods of a row, of what was taken and of normal laws


@dataclass(frozen=True)
class Plan(drafts.Plan):
    """What is asked of a hidden Markov model."""

    n_components: int | str | None
    by_rule: bool  # whether kernel Bayes' rule filters
    random_state: Any

    def draft(self, X, lengths=None, inputs=None) -> Draft:
        """Some of the rows are there in part. Of those elsewhere some stretches, moments of all."""
        if is_far(X):
            return self.far(X, lengths)
        draft = super().draft(X, lengths)
        whole = draft.rows.seen.all() or isinstance(draft.kernel, Delta)
        return draft if whole else replace(draft, rows=replace(draft.rows, gaps=gaps_in(X)))

    def far(self, X, lengths) -> Draft:
        """Of rows that are elsewhere: some stretches of them, and the moments of all."""
        if self.refine:
            raise ValueError(
                "refine is True, but EM goes along all rows, forwards and backwards, many times; "
                "refine=False learns from sums over rows, wherever they are"
            )
        every = aligned(X=X)
        if not every.ordered:
            raise ValueError(
                "X is of a DataFrame of Spark, whose rows have no order, but here they have to "
                "follow each other"
            )
        sequences, seen = check_sequences(lengths, every.n), np.broadcast_to(True, every.n)
        if lengths is not None:
            every = aligned(X=X, first=firsts(sequences, every.n).astype(np.uint8))
        whole = Rows.of(np.empty((every.n, 0)), seen, sequences)
        which, some = whole.stretches(POINTS, PIECES)
        few = self.draft(every.take(which)[0], [s.stop - s.start for s in some.sequences])
        own, rows = few.coordinates, few.rows
        coordinates = FarCoordinates(own.features, own.points, own.kept, every)
        moments = Moments(coordinates, rows.seen, rows.sequences)
        return replace(few, coordinates=coordinates, moments=moments, own=False)

    def fit(self, draft: Draft, rng: np.random.Generator, inputs=None) -> Fit:
        """Order, variates, the spectral method, EM; states from the most to the least frequent."""
        draft = replace(draft, rows=replace(draft.rows, inputs=inputs))
        spectrum = Spectrum(draft.moments, MAX_COMPONENTS)
        order = self.order(spectrum, draft)
        spaces = self.spaces(draft)
        found = spectral(draft, int(order or self.n_components or 1))
        if self.refine:
            space, climbed, smoothing, compared = refine(self, draft, spaces, found, rng)
            chain = self.climbed(draft, space, climbed, smoothing)
            history, converged = np.array(climbed.history), climbed.converged
        else:
            # on the edge of the simplex a state would never be left: once in all rows, at the least
            least = np.maximum(found.chain.transmat, 1 / draft.moments.n_pairs)
            found.chain = Chain.counted(least)
            laws = draft.weighted_rows(found.embeddings)
            chain = self.of_moments(draft, spaces[0], laws, found.chain)
            chain = replace(chain, rule=self.predicting(draft, found))
            history, converged, compared = np.empty(0), True, {}
        chain = chain.reordered(np.argsort(-chain.chain.startprob, kind="stable"))
        values = spectrum.singular_values
        return Fit(chain, draft, history, converged, values, order, compared)

    def spaces(self, draft: Draft) -> list[Variates | None]:
        """What densities may be of: of some columns their variates, or these themselves (None)."""
        space, points = drafts.space_of(draft, self.em.directions, some=True), draft.rows.there
        known = self.em.directions != "auto" or self.bandwidth is not None or not self.refine
        unfit = points.shape[1] > WIDE or points.shape[0] < FEWEST
        if known or unfit or space is None or space.features is None:
            return [space]
        smooth = can_smooth(draft.kernel, points) and not isinstance(draft.kernel, Delta)
        full = smooth and Variates.of_columns(arrays.to_numpy(points)) is None
        return [space, None] if full else [space]

    def order(self, spectrum: Spectrum, draft: Draft) -> Order | None:
        """How the number of states is estimated; None where it is given."""
        asked = "correlations" if self.n_components is None else self.n_components
        if not isinstance(asked, str):
            return asked if isinstance(asked, Order) else None
        found = order_by(asked, self, draft, spectrum, CONSTANT)
        if asked == "correlations" and found == MAX_COMPONENTS:
            checks.warn_numerical(
                f"n_components is None, and no number up to {MAX_COMPONENTS} explains the "
                f"correlations of consecutive rows: {MAX_COMPONENTS} is used. Give a number, "
                'or choose one by estimate_order(X, method="likelihood")',
            )
        return found

    def climbed(self, draft: Draft, space, climbed: Climb, smoothing: AnySmoothing) -> FittedChain:
        """Laws whose weights are the probabilities of the states in the rows."""
        gamma = climbed.gamma[draft.rows.seen]
        # a state that died is like all others together
        embedded = drafts.row_laws(draft.rows.there, gamma.T + SOME, draft.kernel)
        width = getattr(smoothing.kernel, "lengthscale", None)
        laws = embedded, smoothing.emissions(gamma), width, space
        # densities that are largely normal, or have bandwidths of their own, filter themselves:
        # they say more than embeddings by one kernel
        own = isinstance(smoothing, SmoothingByState) or isinstance(smoothing.guard_of, Shrunken)
        rule = self.rule(draft, climbed.gamma, climbed.chain) if self.reg or not own else None
        return FittedChain(climbed.chain, *laws, rule)

    def predicting(self, draft: Draft, found: SpectralFit) -> ModelBayes:
        """Kernel Bayes' rule with the λ given, or the one that predicts best."""
        if self.reg is None:
            return choose_reg(draft, found)
        return ModelBayes(draft.coordinates.features, found.embeddings, float(self.reg))


# ------------------------------------------------------------ its steps


@stage("moments")
def spectral(draft: Draft, n_components: int) -> SpectralFit:
    """The spectral method's answer."""
    third = partial(draft.moments.third, draft.coordinates)
    return SpectralFit(draft.moments, third, n_components)


@dataclass(frozen=True)
class Found(drafts.Found):
    """What was found by rows held out, and how likely they are by simple laws."""

    normal: float = -np.inf  # of laws all but normal, or of t; else these are far behind

    @property
    def compared(self) -> dict[str, float]:
        """Log-likelihoods of a row held out, of the densities taken and of the simple ones."""
        if self.held is None:
            return {}
        n = int(self.search.rows.seen.sum())
        return {"taken": self.held.total / n, "normal": self.normal / n}

    def told(self, some: Rows) -> float:
        """Σ_t log p(y_t | y_1, ..., y_{t-1})/p(y_t) of rows held out: what the past tells of them.

        What it tells of variates, those of the rows not held out, is a bound on that of columns.
        """
        total = 0.0
        for used, learned in zip(some.halves(em.STRETCHES), self.held.climbs, strict=True):
            learned = self.on_half(some, used, learned)
            known = filtered(learned.logb, learned.chain, some.sequences)[1]
            alone = logsumexp(learned.logb, b=learned.chain.startprob, axis=1)
            total += float((known - alone)[some.seen & ~used].sum())
        return total

    def on_half(self, some: Rows, used: np.ndarray, learned: Climb) -> Climb:
        """Where EM comes to on half of the rows, with variates of these."""
        if self.space is None or self.space.features is None:
            return learned
        coordinates = Coordinates.of(self.space.features, some.points)
        with np.errstate(invalid="ignore", divide="ignore"):  # few rows may have no triples
            moments = Moments(coordinates, used, some.sequences)
        space = Variates.of(coordinates.features, moments, self.space.directions.shape[1])
        rows = replace(in_space(some, space), used=used)
        search = replace(self.search, rows=rows, made={})
        return search.resumed(search.smoothing(self.factor), learned)


@stage("EM")
def refine(
    plan: Plan, draft: Draft, spaces, fit: SpectralFit, rng
) -> tuple[Variates | None, Climb, AnySmoothing, dict[str, float]]:
    """EM from several starts on some rows, then on all from where that ended.

    Where densities may be in several spaces, in the one in which the past tells most.
    """
    limit = SEARCHED if len(spaces) == 1 else STARTED
    numbers, some = draft.rows.stretches(limit)
    numbers = numbers[some.stretches(STARTED)[0]]
    begun = starts(draft, fit, numbers, plan.em.n_init, rng)
    every = [searched(plan, draft, space, begun, limit) for space in spaces]
    found = every[0] if len(every) == 1 else max(every, key=lambda one: one.told(some))
    return found.space, *settled(found, draft), found.compared


def searched(plan: Plan, draft: Draft, space: Variates | None, begun: list, limit: int) -> Found:
    """EM in one space on some rows, and what rows held out choose.

    Two ways lead there, each with its own best start: from embeddings towards normal laws (or laws
    of t, where these are likelier), and from those towards embeddings. That by which rows are
    likelier, held out and by EM on all of them, is taken; the second is not looked into where it is
    far behind by rows left out one at a time.
    """
    search = plan.search(draft, space, limit)
    few = search.on(search.rows.stretches(STARTED)[1])
    many = search.searched and draft.rows.points.shape[1] > COLUMNS
    first = Shrunken(SHARES[0]) if many else Guard.of  # nothing is near in many columns
    climb = replace(search, guard_of=first).begun_on(few, begun)
    if not search.searched:
        return Found(space, search, climb, few.factor)
    h, held = search.over_bandwidths(climb, few.factor)
    kernel, h, held = search.by_state(climb, h, held, OWN)
    for laws in TOWARDS.values():
        kernel, held = kernel.guarded(laws, climb, h, held, WORTH)
    found = Found(space, kernel, climb, h, held)

    *nearer, whole = TOWARDS[getattr(kernel.guard_of, "degrees", None)]
    back = replace(search, guard_of=whole)
    last = begun[::-2]  # half of the starts, with those of states that last
    climb = back.begun_on(few, last, bare=True)
    if climb.loglik.sum() < found.climb.loglik.sum() - FAR:
        return found
    held = back.held_out(h, climb)
    normal = held.total
    back, held = back.guarded(reversed(nearer), climb, h, held)
    ways = replace(found, normal=normal), Found(space, back, climb, h, held, normal)
    # the halves that rows are held out from climb anew, and do not see where EM on all ends
    return max(ways, key=lambda way: way.held.total + way.whole.loglik.sum())


def settled(found: Found, draft: Draft):
    """EM at what was chosen, driven by inputs as far as they help, and on all rows."""
    search, climb, factor = found.search, found.climb, found.factor
    if found.held is not None:
        climb, factor = found.whole, search.narrowed(factor)
    rows = in_space(draft.rows, found.space)
    if rows.inputs is not None:
        search, climb = driven(search, factor, climb, rows.inputs)
    return on_all(search, rows, climb, factor)


def starts(draft: Draft, fit: SpectralFit, numbers, n_init: int, rng) -> list:
    """The spectral fit, and random ones: log-densities of some rows, and a chain."""
    K = len(fit.chain.startprob)
    points = arrays.take(draft.rows.points, numbers, axis=0)
    spectral = (np.log(draft.density_ratios(fit.embeddings, points)), fit.chain)
    variates = Variates.of(draft.coordinates.features, draft.moments, 2 * K + 1)
    A = arrays.to_numpy(variates(points))
    return [spectral, *random_starts(A, K, n_init - 1, rng)]


def choose_reg(draft: Draft, fit: SpectralFit) -> ModelBayes:
    """The λ whose predictions of the next observation's features have the least squared error.

    ‖φ(y_{t+1}) − O p_{t+1}‖² = k(y, y) − 2 N(y_{t+1})ᵀp_{t+1} + p_{t+1}ᵀ N p_{t+1}.
    """
    _, few = draft.rows.stretches(drafts.TUNED)
    features, O = draft.coordinates.features, fit.embeddings
    evaluations, gram = ModelBayes(features, O, 1.0).evaluations(few.points), O.T @ O

    def error(alpha: np.ndarray) -> float:
        p = predicted(alpha, fit.chain, few.sequences)
        off = -2 * (evaluations * p).sum(axis=1) + ((p @ gram) * p).sum(axis=1)
        return off[few.seen].sum()

    return drafts.best_rule(features, O, few, fit.chain, error)[1]

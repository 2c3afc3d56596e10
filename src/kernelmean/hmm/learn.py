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
from scipy.ndimage import median_filter
from scipy.special import logsumexp

from ..chains import draft as drafts
from ..chains import em
from ..chains.draft import COLUMNS, POINTS, Draft, in_space, on_all
from ..chains.driven import driven
from ..chains.em import Climb, Refinement, random_starts
from ..chains.emission import SHARES, AnySmoothing, Guard, Shrunken, SmoothingByState, can_smooth
from ..chains.markov import Chain, predicted
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
TAILS = 4.0
TOWARDS = {degrees: [Shrunken(share, degrees) for share in SHARES] for degrees in (None, TAILS)}
# rows around an outlier, times that it is as far as others, distances of quartiles, share of rows
AROUND, GAP, LEAST, MOST = 5, 2.0, 4.0, 0.05


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
            chain = replace(chain, rule=choose_reg(draft, found, self.reg))
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
            known = em.known(some, learned)[1]
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

    Ways lead there, each with its own best start: from embeddings towards normal laws (or laws of
    t, where these are likelier), and from those towards embeddings. That by which rows are
    likelier, held out and by EM on all of them, is taken. Where rows are outliers, on which the
    others may have spent a state, one is from laws of t, begun on the rest.
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

    tails = getattr(kernel.guard_of, "degrees", None)
    begin = {tails: few}
    if tails is None and (rest := usual(few.rows)) is not few.rows:
        begin[TAILS] = few.on(rest)
    back = [returned(search, found, degrees, few, begun) for degrees, few in begin.items()]
    if not any(back):
        return found
    ways = [found, *filter(None, back)]
    normal = max(way.normal for way in ways)
    ways = [replace(way, normal=normal) for way in ways]
    # the halves that rows are held out from climb anew, and do not see where EM on all ends
    return max(ways, key=lambda way: way.held.total + way.whole.loglik.sum())


def returned(
    search: Refinement, found: Found, degrees: float | None, few: Refinement, begun: list
) -> Found | None:
    """From laws all but normal, or of t, towards embeddings; None where that is far behind."""
    *nearer, whole = TOWARDS[degrees]
    back = replace(search, guard_of=whole)
    last = begun[::-2]  # half of the starts, with those of states that last
    climb = back.begun_on(few, last, bare=True)
    if climb.loglik.sum() < found.climb.loglik.sum() - FAR:
        return None
    held = back.held_out(found.factor, climb)
    normal = held.total
    back, held = back.guarded(reversed(nearer), climb, found.factor, held)
    return Found(found.space, back, climb, found.factor, held, normal)


def usual(rows: Rows) -> Rows:
    """The rows, a few missing that are far from all others and alone: outliers, and no state.

    How far each is beyond the quartiles, in their distances; or from the median of five rows around
    where that is less: what lasts for three rows may be a state, however rare. Tails have no gap:
    outliers are two rows or more that are twice as far as the next.
    """
    points = arrays.to_numpy(rows.there)
    low, high = np.quantile(points, (0.25, 0.75), axis=0)
    off = np.maximum(low - points, points - high)
    off = np.minimum(off, np.abs(points - median_filter(points, (AROUND, 1))))
    size = np.where(high > low, high - low, np.inf)
    far = (off / size).max(axis=1)
    last = np.sort(far)[-int(MOST * len(far)) - 2 :]
    gaps = np.flatnonzero(last[1:-1] > np.maximum(GAP * last[:-2], LEAST))
    if not len(gaps):
        return rows
    seen = rows.seen.copy()
    seen[rows.seen] = far <= last[gaps[0]]
    return replace(rows, seen=seen, used=rows.used & seen)


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


def choose_reg(draft: Draft, fit: SpectralFit, reg: float | None = None) -> ModelBayes:
    """The λ given, or whose predictions of the next observation have the least squared error.

    Of features, ‖φ(y_{t+1}) − O p_{t+1}‖² = k(y, y) − 2 N(y_{t+1})ᵀp_{t+1} + p_{t+1}ᵀ N p_{t+1}.
    """
    rule = ModelBayes(draft.coordinates.features, fit.embeddings, float(reg or 1.0))
    if reg is not None:
        return rule
    _, few = draft.rows.stretches(drafts.TUNED)
    evaluations = rule.evaluations(few.points)

    def error(alpha: np.ndarray) -> float:
        p = predicted(alpha, fit.chain, few.sequences)
        off = -2 * (evaluations * p).sum(axis=1) + ((p @ rule.gram) * p).sum(axis=1)
        return off[few.seen].sum()

    return drafts.best_rule(rule, few, fit.chain, error)[1]

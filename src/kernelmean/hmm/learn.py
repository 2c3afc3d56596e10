"""From a draft to a fitted chain: starts, refinement by EM, the regulariser of the filter.

`KernelHMM.fit`, in its order:

1. `chains.draft`: rows, coordinates and moments of neighbours (`Draft`); `Plan.fit` has the rest;
2. `chains.order`: the number of states, where it is not given;
3. `hmm.spectral`: chain and laws from moments, without EM the answer (`chains.draft.of_moments`);
4. `refine`: EM (`chains.em`) on some rows, from that and from random starts; then by rows held out
   the bandwidth, one for each state, shares of normal laws, and whether inputs drive the chain
   (`chains.driven`); then EM on all rows (`chains.draft.on_all`);
5. `Plan.climbed`: laws from probabilities of states (`chains.emission`), λ of kernel Bayes' rule
   (`chains.draft.choose_bayes`), all in a `chains.model.FittedChain`, which answers all that is
   asked later, by the recursions of `chains.markov`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..chains import draft as drafts
from ..chains.draft import STRETCHES, Draft, Settings, in_space, of_moments, on_all, searching
from ..chains.driven import driven
from ..chains.em import AnySmoothing, Climb, random_starts
from ..chains.emission import SHARES, Shrunken, SmoothingByState
from ..chains.markov import predicted
from ..chains.model import FittedChain
from ..chains.model_bayes import ModelBayes
from ..chains.order import MAX_COMPONENTS, Order, Spectrum, choose_order
from ..chains.variates import Variates
from ..core import arrays
from ..core.checks import frozen, warn_numerical
from ..core.stages import stage
from ..embedding.embedding import MeanEmbedding
from ..kernels import Gaussian
from .spectral import SpectralFit, fit_spectral

SOME = 1e-12  # weight of a row in a law, at the least
WORTH = 1.0  # least gain in log-likelihood for a share,
OWN = 5.0  # and for a bandwidth of each state
CONSTANT = 0.3  # C of the rule by a threshold
STARTED = 2_000  # rows that starts are compared on
PREDICTED = 2_000  # rows that λ is chosen on without EM


@dataclass(frozen=True)
class Fit(drafts.Fit):
    """What a fitted hidden Markov model consists of."""

    singular_values: np.ndarray
    order: Order | None  # how the number of states was estimated


@dataclass(frozen=True)
class Plan(drafts.Plan):
    """What is asked of a hidden Markov model."""

    n_components: int | str | None

    def fit(self, draft: Draft, rng: np.random.Generator) -> Fit:
        """Order, variates, the spectral method, EM; states from the most to the least frequent."""
        spectrum = Spectrum(draft.moments, MAX_COMPONENTS)
        order = self.order(spectrum, draft)
        space = drafts.space_of(draft, self.em.directions, some=True)
        settings = self.settings(draft, space)
        found = spectral(draft, int(order or self.n_components or 1), rng)
        if self.refine:
            climbed, smoothing = refine(draft, space, found, settings, rng)
            chain = self.climbed(draft, space, climbed, smoothing)
            history, converged = np.array(climbed.history), climbed.converged
        else:
            laws = draft.weighted_rows(found.embeddings)
            chain = of_moments(draft, space, laws, found.chain, settings.bandwidth)
            chain = replace(chain, rule=self.predicting(draft, found))
            history, converged = np.empty(0), True
        chain = chain.reordered(np.argsort(-chain.chain.startprob, kind="stable"))
        return Fit(chain, draft, history, converged, spectrum.singular_values, order)

    def order(self, spectrum: Spectrum, draft: Draft) -> Order | None:
        """How the number of states is estimated; None where it is given."""
        asked = self.n_components
        if asked is None or asked == "correlations":
            return estimated(replace(spectrum, ranked=draft.ranked))
        if isinstance(asked, str):
            return choose_order(spectrum, asked, CONSTANT)
        return asked if isinstance(asked, Order) else None

    def climbed(self, draft: Draft, space, climbed: Climb, smoothing: AnySmoothing) -> FittedChain:
        """Laws whose weights are the probabilities of the states in the rows."""
        gamma = climbed.gamma[draft.rows.seen]
        weights = gamma.T + SOME  # a state that died is like all others together
        weights /= weights.sum(axis=1, keepdims=True)
        points = frozen(draft.rows.there)
        return FittedChain(
            climbed.chain,
            MeanEmbedding.of_parts(points, arrays.like(weights, points), None, draft.kernel),
            smoothing.emissions(gamma),
            getattr(smoothing.kernel, "lengthscale", None),
            space,
            None if self.told(smoothing) else self.rule(draft, climbed.gamma, climbed.chain),
        )

    def told(self, smoothing: AnySmoothing) -> bool:
        """Whether densities filter: they say more than embeddings by one kernel.

        That is, where they are largely normal, or have bandwidths of their own.
        """
        own = isinstance(smoothing, SmoothingByState)
        return self.reg is None and (own or isinstance(smoothing.guard_of, Shrunken))

    def predicting(self, draft: Draft, found: SpectralFit) -> ModelBayes:
        """Kernel Bayes' rule with the λ given, or the one that predicts best."""
        if self.reg is None:
            return choose_reg(draft, found)
        return ModelBayes(draft.coordinates.features, found.embeddings, float(self.reg))


def estimated(spectrum: Spectrum) -> Order:
    """The number of states by canonical correlations."""
    found = choose_order(spectrum, "correlations", 1.0)
    if found == MAX_COMPONENTS:
        warn_numerical(
            f"n_components is None, and no number up to {MAX_COMPONENTS} explains the "
            f"correlations of consecutive rows: {MAX_COMPONENTS} is used. Give a number, "
            'or choose one by estimate_order(X, method="likelihood")',
        )
    return found


# ------------------------------------------------------------ its steps


@stage("moments")
def spectral(draft: Draft, n_components: int, rng: np.random.Generator) -> SpectralFit:
    """The spectral method's answer."""

    def third(left, right):
        return draft.moments.third(draft.coordinates, left, right)

    return fit_spectral(draft.moments, third, n_components, rng)


@stage("EM")
def refine(
    draft: Draft, space: Variates | None, fit: SpectralFit, settings: Settings, rng
) -> tuple[Climb, AnySmoothing]:
    """EM from several starts on some rows, then on all from where that ended."""
    rows = in_space(draft.rows, space)
    numbers, search = searching(rows, draft.kernel if space is None else Gaussian(), settings)
    some, few = search.rows.stretches(STARTED, STRETCHES)
    begun = starts(draft, fit, numbers[some], settings.n_init, rng)
    found, factor = search.begun_on(few, begun)
    if search.searched:
        factor, held = search.over_bandwidths(found, factor)
        search, factor, held = search.by_state(found, factor, held, OWN)
        search, _ = search.guarded(map(Shrunken, SHARES), found, factor, held, WORTH)
        factor = search.narrowed(factor)
        found = search.anew(search.smoothing(factor), found)
        shrunken = isinstance(search.guard_of, Shrunken) and not search.widths
        if shrunken:  # other starts may lead higher with other laws
            again, _ = replace(search, bandwidth=factor).begun_on(few, begun)
            found = max(found, again, key=lambda c: c.value)
    if rows.inputs is not None:
        search, found = driven(search, factor, found, rows.inputs)
    return on_all(search, rows, found, factor, settings)


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
    _, few = draft.rows.stretches(PREDICTED, STRETCHES)
    features, O = draft.coordinates.features, fit.embeddings
    evaluations, gram = ModelBayes(features, O, 1.0).evaluations(few.points), O.T @ O

    def error(alpha: np.ndarray) -> float:
        p = predicted(alpha, fit.chain, few.sequences)
        off = -2 * (evaluations * p).sum(axis=1) + ((p @ gram) * p).sum(axis=1)
        return off[few.seen].sum()

    return drafts.best_rule(features, O, few, fit.chain, error)[1]

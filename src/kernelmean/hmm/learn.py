"""From a draft to a fitted chain: starts, refinement by EM, the regulariser of the filter."""

from __future__ import annotations

import numpy as np

from ..chains.draft import REGS, STRETCHES, Draft, Settings, in_space, on_all, searching
from ..chains.em import Climb, random_starts
from ..chains.emission import Smoothing
from ..chains.markov import predicted
from ..chains.model_bayes import ModelBayes
from ..chains.variates import Variates
from ..kernels import Gaussian
from .spectral import SpectralFit, fit_spectral

PREDICTED = 2_000  # and without


def spectral(draft: Draft, n_components: int, rng: np.random.Generator) -> SpectralFit:
    """The spectral method's answer."""

    def third(left, right):
        return draft.moments.third(draft.coordinates, left, right)

    return fit_spectral(draft.moments, third, n_components, rng)


def refine(
    draft: Draft, space: Variates | None, fit: SpectralFit, settings: Settings, rng
) -> tuple[Climb, Smoothing]:
    """EM from several starts on some rows, then on all from where that ended."""
    rows = in_space(draft.rows, space)
    numbers, search = searching(rows, draft.kernel if space is None else Gaussian(), settings)
    found, factor = search(starts(draft, fit, numbers, settings.n_init, rng))
    return on_all(search, rows, found, factor, settings)


def starts(draft: Draft, fit: SpectralFit, numbers, n_init: int, rng) -> list:
    """The spectral fit, and random ones: log-densities of some rows, and a chain."""
    K = len(fit.chain.startprob)
    spectral = (np.log(draft.density_ratios(fit.embeddings)[numbers]), fit.chain)
    variates = Variates.of(draft.coordinates.features, draft.moments, 2 * K + 1)
    A = draft.coordinates.project(variates.directions)[numbers]
    return [spectral, *random_starts(A, K, n_init - 1, rng)]


def choose_reg(draft: Draft, fit: SpectralFit) -> ModelBayes:
    """The λ whose predictions of the next observation's features have the least squared error.

    ‖φ(y_{t+1}) − O p_{t+1}‖² = k(y, y) − 2 N(y_{t+1})ᵀp_{t+1} + p_{t+1}ᵀ N p_{t+1}.
    """
    _, few = draft.rows.stretches(PREDICTED, STRETCHES)
    features, O = draft.coordinates.features, fit.embeddings
    rule = ModelBayes(features, O, 1.0)
    evaluations, shares = rule.evaluations(few.points), rule.shares_of(few.points, few.seen)
    losses = []
    for reg in rule.size * REGS:
        alpha = ModelBayes(features, O, float(reg)).filtered(shares, fit.chain, few.sequences)
        p = predicted(alpha, fit.chain, few.sequences)
        off = -2 * (evaluations * p).sum(axis=1) + ((p @ rule.gram) * p).sum(axis=1)
        losses.append(off[few.seen].sum())
    return ModelBayes(features, O, float(rule.size * REGS[int(np.argmin(losses))]))

"""Judging fits of a hidden Markov model: by states in sight, and by rows held out."""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..chains.order import Order, Spectrum
from ..core import arrays, checks
from ..core.minimise import mean_and_error

TRAINING = 0.7  # share of every sequence that the order is judged from, the rest held out
PATIENCE = 2  # numbers of states tried beyond the best
SLACK = 0.5  # standard errors of the held-out log-likelihood that fewer states may cost


@dataclass(frozen=True)
class Named:
    """Share of the rows held back whose states the filter names right, numbered as suits best."""

    X: Any
    lengths: Any
    states: np.ndarray

    def __call__(self, fitted) -> float:
        return self.matched(fitted)[1]

    def matched(self, fitted) -> tuple[np.ndarray, float]:
        """Which of the model's states is each label, in order of the labels, and the accuracy.

        States that no label is left for come last.
        """
        alpha = arrays.to_numpy(fitted.filter(self.X, self.lengths))
        labels, rows = np.unique(self.states, return_inverse=True)
        counts = np.zeros((len(labels), alpha.shape[1]))
        np.add.at(counts, (rows, alpha.argmax(axis=1)), 1)
        label, state = linear_sum_assignment(counts, maximize=True)
        rest = np.setdiff1d(np.arange(alpha.shape[1]), state)
        accuracy = float(counts[label, state].sum() / len(self.states))
        return np.concatenate([state, rest]), accuracy


# ------------------------------------------------------------ the number of states


def order_by(method: str, plan, draft, spectrum: Spectrum, constant: float) -> Order:
    """The number of states by any of the rules."""
    if method == "likelihood":
        return by_likelihood(plan, draft, spectrum)
    ranked = draft.ranked if method == "correlations" else ()  # the other rules take no ranks
    known = (constant,) if method == "threshold" else ()
    return getattr(replace(spectrum, ranked=ranked), f"by_{method}")(*known)


def by_likelihood(plan, draft, spectrum: Spectrum) -> Order:
    """The smallest number whose held-out log-likelihood is within half a standard error."""
    rows = draft.rows
    cuts = [s.start + max(1, round(TRAINING * (s.stop - s.start))) for s in rows.sequences]
    early = [slice(s.start, cut) for s, cut in zip(rows.sequences, cuts, strict=True)]
    late = [slice(cut, s.stop) for s, cut in zip(rows.sequences, cuts, strict=True) if cut < s.stop]
    (_, past), (_, future) = rows.at(early), rows.at(late)
    there = future.seen if future.gaps is None else ~future.gaps.all(axis=1)
    if not there.any():
        raise ValueError(
            f"X has no row without NaN after the first {TRAINING:.0%} of its sequences; numbers of "
            "states are judged by likelihood there"
        )
    lengths = [cut - s.start for s, cut in zip(rows.sequences, cuts, strict=True)]
    few = replace(plan.drafted(past.points, past.seen, lengths, draft.names), rows=past)
    told: dict[int, np.ndarray] = {}
    for K in range(1, spectrum.limit + 1):
        rng = checks.generator(deepcopy(plan.random_state))  # the same for every K
        try:
            chain = replace(plan, n_components=K).fit(few, rng).chain
        except ValueError:  # the rows tell no more states apart
            if told:
                break
            raise
        chain = chain if plan.by_rule else replace(chain, rule=None)
        told[K] = chain.log_predictive(future)[there]
        best = max(told, key=lambda k: np.mean(told[k]))
        if K - best >= PATIENCE:
            break
    loss = {K: told[best] - values for K, values in told.items()}
    scores = {K: float(values.mean()) for K, values in told.items()}
    errors = {K: mean_and_error(off)[1] for K, off in loss.items()}
    enough = min(K for K in loss if loss[K].mean() <= SLACK * errors[K])
    return Order(enough, "likelihood", spectrum.singular_values, scores=scores, errors=errors)

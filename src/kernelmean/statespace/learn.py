"""Learning a `KernelStateSpace`: pairs, moments of neighbours, and EM on the nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from ..chains.draft import Draft, Settings, in_space, on_all, searching
from ..chains.em import Climb, Effort, Refinement
from ..chains.emission import Smoothing
from ..chains.markov import Chain
from ..chains.variates import Variates
from ..kernels import Gaussian
from .guard import LinearGuard
from .latent import Latent
from .moves import SmoothMoves
from .pairing import WINDOWS, Pairing

SEARCHED = 5000  # rows that starts, bandwidths and guards are compared on
# the log-likelihood falls where the λ of the transitions changes
EFFORT = Effort(short=12, finalists=1, half_iter=8, patience=6)
STRONGER = 10.0  # from one strength of the emission guard to the next that is tried,
STRENGTHS = 2  # so many times


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

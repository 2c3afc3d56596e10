"""Which of several structural functions is believed: three judges, none of which decides alone.

- The *causal loss*, (1/n) Σ(y_i − h⁻ⁱ(x_i))², is large where h explodes; under confounding it is
  pulled towards the regression of y on X.
- The *evidence*, log p(y | Z) where h is a Gaussian process, has no such pull, and in directions
  that instruments do not see it asks for what the prior expects; it overstates differences where
  the prior is not a good one.

- The *controlled loss* is the causal one of what of y − h(x) does not go with x − E[x | z], in a
  straight line whose slope may go with u = E[x | z], by u/(1 + |u|) and u²/(1 + u²): noise that
  grows with the instruments, or away from their middle, has such a slope. Where confounding works
  through these residuals, as in a triangular model, it has no pull and far less noise; where it
  does not, it is not worse than the causal loss.

The evidence of d > 1 scales that were searched is less 3(d − 1): on straight truths the search
alone takes it up by about 2d, however many the rows. So is that of a line beside powers of
exogenous columns up to the d-th: a cube that chance prefers by less is far off where rows are few.

So: of all whose causal loss is at most twice the least those within three units of the best
evidence are admissible, or within twelve where there is a straight line to stand in for them; of
those the one whose controlled loss times the square of the causal loss is least is taken.

The *projected loss*, (1/n) Σ(y_i − E[h⁻ⁱ(X) | z_i])², tells what is gained over least squares.

A straight line is taken before that, but it goes a share of the way to those whose controlled loss
is smaller (of all, where p < 10⁻⁵): (−log₁₀ p − .3)/3, nothing from p = ½ on, all of it from
1/2000 down. p is the least
of tests of the line (`bend`) which take no variances for equal, as the evidence does, and no better
stage 1 for a bend. Doubtful curves of a straight truth cost the share's square, and half the way to
the right curve leaves a quarter of what the line is off. Where few rows carry the bend (`Choice`)
it is less.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from scipy.special import softmax

WILD = 2.0  # times the least causal loss: beyond it a function explodes
BEHIND = 3.0  # units of log evidence
TEMPER = 4.0  # what evidence is divided by beside a line, for it overstates
DOUBT, SURE = 0.3, 3.3  # digits of a p-value that object to a line, and that refuse it
REFUSED = 1e-5  # p-value of a line below which it goes, whatever the controlled loss
OPTIMISM = 3.0  # units of log evidence that a scale, or power, beyond the first gains by chance


@dataclass(frozen=True)
class Judged:
    """What the judges say of candidates."""

    causal: np.ndarray  # (candidates,): mean squares; zeros where no row has both X and y
    controlled: np.ndarray  # the same
    projected: np.ndarray  # (candidates, n): squares, row by row
    evidence: np.ndarray  # (candidates,)
    bare: np.ndarray  # (candidates,): whether it is two-stage least squares

    @classmethod
    def together(cls, several: Iterable[Judged]) -> Judged:
        """The candidates of all."""
        parts = [[getattr(one, field.name) for field in fields(cls)] for one in several]
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def fair(self, some: np.ndarray | None = None) -> np.ndarray:
        """Numbers of the candidates, or of some of them, that do not explode beside the others."""
        some = np.arange(len(self.causal)) if some is None else some
        return some[self.causal[some] <= WILD * self.causal[some].min()]

    def admissible(self, behind: float = BEHIND) -> np.ndarray:
        """Numbers of the fair candidates within so many units of the best evidence."""
        fair = self.fair()
        return fair[self.evidence[fair] >= self.evidence[fair].max() - behind]

    def weights(self) -> np.ndarray:
        """Posterior probabilities of the fair candidates, tempered; 0 of the others."""
        fair, weights = self.fair(), np.zeros(len(self.causal))
        weights[fair] = softmax(self.evidence[fair] / TEMPER)
        return weights

    def best(self, left: np.ndarray | None = None) -> int:
        """Number of the candidate that is taken of some, or of those that are admissible."""
        left = self.admissible() if left is None else left
        worth = self.controlled[left] * self.causal[left] ** 2
        return int(left[np.lexsort((-self.evidence[left], worth))[0]])

    def likeliest(self, some: np.ndarray, sure: bool = True) -> int:
        """Of lines along endogenous columns, the likeliest: least squares, unless it is `sure`.

        Then a kernel of more evidence and no larger projected loss, too. Where no bend is free
        nothing is blind: prediction judges curves of exogenous columns fairly, and the causal loss
        would draw the slope to regression, by curves too smooth for the others.
        """
        losses, bare = self.projected.mean(1), some[self.bare[some]]
        if len(bare):
            plain = int(bare[self.evidence[bare].argmax()])
            some = some[~self.bare[some] & (losses[some] <= losses[plain])] if sure else bare
            some = np.append(some, plain)
        else:
            some = some[losses[some] <= WILD * losses[some].min()]
        return int(some[self.evidence[some].argmax()])

    def beside(self, plain: int, chance: float, bends: np.ndarray) -> tuple[int, float]:
        """What `bends`, and how far they send a line towards it; or the line, as it is.

        Of a line that is surely refused the controlled loss is not asked: where e goes with x in a
        way that its controls do not take up, a bend costs more than it gains there.
        """
        wide = self.admissible(BEHIND * TEMPER)
        others = wide[bends[wide]]
        if chance >= REFUSED:
            others = others[self.controlled[others] < self.controlled[plain]]
        share = doubt(chance)
        return (self.best(others), share) if len(others) and share > 0 else (plain, 1.0)


def doubt(chance: float) -> float:
    """How far a test of that p-value sends what is simple: 0 and less not at all, 1 all the way."""
    return (-float(np.log10(max(chance, np.finfo(float).tiny))) - DOUBT) / (SURE - DOUBT)

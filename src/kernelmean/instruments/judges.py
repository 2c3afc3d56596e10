"""Which of several structural functions is believed: four judges, none of which decides alone.

- The *causal loss*, (1/n) Σ(y_i − h⁻ⁱ(x_i))², is large where h explodes; under confounding it is
  pulled towards the regression of y on X.
- The *projected loss*, (1/n) Σ(y_i − E[h⁻ⁱ(X) | z_i])², has no such pull, for E[y | Z] is
  E[h(X) | Z], but it is blind in directions of h that the instruments do not see.
- The *evidence*, log p(y | Z) where h is a Gaussian process, has no pull either, and in directions
  that are not seen it asks for what the prior expects; it overstates differences where the prior is
  not a good one.

- The *controlled loss* is the causal one of what of y − h(x) does not go with x − E[x | z], in a
  straight line. Where confounding works through these residuals, as in a triangular model, it has
  no pull and far less noise; where it does not, it is not worse than the causal loss.

The evidence of d > 1 scales that were searched is less 3(d − 1): on straight truths the search
alone takes it up by about 2d, however many the rows.

So: of all whose causal loss is at most twice the least, and whose projected loss is not clearly
above the least (a paired t over the rows), those within three units of the best evidence are
admissible, of several scales only those of more than a straight line has; of those whose
controlled loss is within the noise of the least, and at most twice as large, the one of least
causal loss is taken.

A straight line is taken before that unless judges object, and a test (`bend`) that takes no
variances for equal, as the evidence does, and no better stage 1 for a bend:

- evidence 200d/n units above the line's own (n are rows, but at most 25 for each different value of
  the instruments), and a quarter against a plane, or p < .003, by the test. What is taken then has
  more evidence than the line or no larger controlled loss, which is not clearly larger either;
- or a controlled loss below the line's own, t/3 − log₁₀ p > 2.5 or t > √n/3, of a candidate whose
  tempered evidence is admissible (t less log(200d/n) where rows are few). Where instruments are
  weak x − E[x | z] is nearly x, and the controlled loss does not object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from scipy.special import softmax

from .bend import Bend

WILD = 2.0  # times the least causal loss: beyond it a function explodes
CLEAR = 2.5  # t of a difference between projected losses
BEND = 0.25  # units of log evidence against a plane
DIGITS = 2.5  # of a p-value that is beyond doubt
WORTH = 3.0  # t of a difference between controlled losses that counts for one of them
LARGE = 1 / 3  # mean of a difference between controlled losses over its deviation: no mere pull
BEHIND = 3.0  # units of log evidence
NEAR = 1.5  # t of a difference between controlled losses
FEW = 200.0  # rows a column, below which objections to a straight line have to be stronger
OPTIMISM = 3.0  # units of log evidence that a scale beyond the first gains by being searched
TEMPER = 4.0  # what evidence is divided by, for it overstates

Errors = np.ndarray | list[np.ndarray]


@dataclass(frozen=True)
class Judged:
    """What the judges say of candidates."""

    causal: np.ndarray  # (candidates,); zeros where no row has both regressors and outcome
    projected: Errors  # squared, of each candidate, row by row
    controlled: Errors  # the same
    evidence: np.ndarray  # (candidates,)
    bare: np.ndarray  # (candidates,): whether it is two-stage least squares
    searched: np.ndarray  # (candidates,): whether several scales were searched for it

    @classmethod
    def together(cls, several: Iterable[Judged]) -> Judged:
        """The candidates of all; errors, which are large, are not copied."""
        parts = list(several)
        causal, evidence, bare, searched = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("causal", "evidence", "bare", "searched")
        )
        projected = list(chain(*(part.projected for part in parts)))
        controlled = list(chain(*(part.controlled for part in parts)))
        return cls(causal, projected, controlled, evidence, bare, searched)

    @cached_property
    def fair(self) -> np.ndarray:
        """Numbers of the candidates that neither loss refuses."""
        return self._fair(np.arange(len(self.causal)))

    def _fair(self, some: np.ndarray) -> np.ndarray:
        tame = some[self.causal[some] <= WILD * self.causal[some].min()]
        return self._among(tame, lambda some: _unbeaten(self.projected, some, CLEAR))

    def admissible(self, behind: float = BEHIND) -> np.ndarray:
        """Numbers of the fair candidates within so many units of the best evidence."""
        near = lambda some: self.evidence[some] >= self.evidence[some].max() - behind  # noqa: E731
        return self._among(self.fair, near)

    def _among(self, some: np.ndarray, holds: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Of some, who holds among all, or with a kernel among those that have one.

        The first stage of least squares is another, with less noise in y − E[h(X) | z].
        """
        own = some[~self.bare[some]]
        groups = (group[holds(group)] for group in (some, own) if len(group))
        return np.unique(np.concatenate(list(groups)))

    def weights(self) -> np.ndarray:
        """Posterior probabilities of the fair candidates, tempered; 0 of the others."""
        fair, weights = self.fair, np.zeros(len(self.causal))
        weights[fair] = softmax(self.evidence[fair] / TEMPER)
        return weights

    def best(
        self,
        plain: int | None = None,
        columns: float = 0.0,
        weak: bool = False,
        bend: Bend = Bend(),  # noqa: B008
    ) -> int:
        """Number of the candidate that is taken; a `plain` one among them is a straight line."""
        left = self.admissible()
        if plain is not None:
            left = self._beside(plain, left, FEW * columns, weak, bend)
        clean = _sums(self.controlled, left)
        left = left[_unbeaten(self.controlled, left, NEAR) & (clean <= WILD * clean.min())]
        return int(left[np.lexsort((-self.evidence[left], self.causal[left]))[0]])

    def likeliest(self, some: np.ndarray) -> int:
        """Of some by evidence: least squares, or, where the losses refuse them, with a kernel.

        Where no bend is free nothing is blind, and the causal loss would only draw to regression.
        """
        fair = self._fair(some)
        bare = fair[self.bare[fair]]
        return int(max(bare if len(bare) else fair, key=lambda k: self.evidence[k]))

    def _beside(
        self, plain: int, left: np.ndarray, needed: float, weak: bool, bend: Bend
    ) -> np.ndarray:
        """Who may be taken in place of a straight line, or that line alone where none objects."""
        above = self.evidence - self.evidence[plain]
        clean = _sums(self.controlled, range(len(above)))
        errors, line = self.controlled[plain], np.array([plain])
        digits = -np.log10(max(bend.chance, np.finfo(float).tiny))
        if above[self.fair].max() > needed and (bend.evidence > BEND or digits > DIGITS):
            prefer = ~self.searched & (clean <= clean[plain])
            left = left[(above[left] > 0) | prefer[left]]
            no_worse = [weak or paired_t(self.controlled[k], errors) <= CLEAR for k in left]
            return left[no_worse] if any(no_worse) else line
        far = BEHIND * TEMPER
        others = np.setdiff1d(self.admissible(far), [plain])
        others = others[above[others] >= -far]
        if weak or not len(others):
            return line
        t = paired_t(errors, self.controlled[others[clean[others].argmin()]])
        t -= np.log(max(needed, 1.0))
        seen = t > LARGE * len(errors) ** 0.5 or (t > 0 and t / WORTH + digits > DIGITS)
        return others if seen else line


def _sums(errors: Errors, some: Iterable[int]) -> np.ndarray:
    return np.array([errors[k].sum() for k in some])


def _unbeaten(errors: Errors, some: np.ndarray, t: float) -> np.ndarray:
    """Which of some have a mean at most t standard errors of the difference above the least."""
    least = errors[some[_sums(errors, some).argmin()]]
    return np.array([paired_t(errors[k], least) <= t for k in some])


def paired_t(errors: np.ndarray, other: np.ndarray) -> float:
    """t statistic of the mean difference between terms and other terms."""
    gaps = errors - other
    n, mean = len(gaps), gaps.sum() / len(gaps)
    variance = max(gaps @ gaps / n - mean**2, 0.0)
    return float(mean / max((variance / n) ** 0.5, np.finfo(float).tiny))

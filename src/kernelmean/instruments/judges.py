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

A straight line is taken before that unless a judge objects: evidence more than one unit above its
own, or 200d/n where rows are few (n are rows, but at most 25 for each different value of the
instruments), and then what is taken has more evidence than the line or no larger controlled loss,
for what objects may be another line, the best instruments' and not a bend; or a controlled loss
clearly below its own, t > 2.5 + log(200d/n), of a candidate whose tempered evidence is admissible.
Where instruments are weak x − E[x | z] is nearly x, and the controlled loss does not object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from scipy.special import softmax

WILD = 2.0  # times the least causal loss: beyond it a function explodes
CLEAR = 2.5  # t of a difference between projected losses
BEHIND = 3.0  # units of log evidence
NEAR = 1.5  # t of a difference between controlled losses
FEW = 200.0  # rows a column, below which objections to a straight line have to be stronger
OPTIMISM = 3.0  # units of log evidence that a scale beyond the first gains by being searched
TEMPER = 4.0  # what evidence is divided by, for it overstates


@dataclass(frozen=True)
class Judged:
    """What the judges say of candidates; squared errors are of shape (candidates, rows)."""

    causal: np.ndarray  # (candidates,); zeros where no row has both regressors and outcome
    projected: np.ndarray  # squared errors, row by row
    controlled: np.ndarray  # squared errors, row by row
    evidence: np.ndarray  # (candidates,)
    bare: np.ndarray  # (candidates,): whether it is two-stage least squares
    searched: np.ndarray  # (candidates,): whether several scales were searched for it

    @classmethod
    def together(cls, several: Iterable[Judged]) -> Judged:
        """The candidates of all."""
        names, parts = [field.name for field in fields(cls)], list(several)
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @cached_property
    def fair(self) -> np.ndarray:
        """Numbers of the candidates that neither loss refuses."""
        tame = np.flatnonzero(self.causal <= WILD * self.causal.min())
        return self._among(tame, lambda some: _unbeaten(self.projected[some], CLEAR))

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

    def best(self, plain: int | None = None, columns: float = 0.0, weak: bool = False) -> int:
        """Number of the candidate that is taken; a `plain` one among them is a straight line."""
        left = self.admissible()
        if plain is not None:
            left = self._beside(plain, left, FEW * columns, weak)
        clean = self.controlled[left].mean(1)
        left = left[_unbeaten(self.controlled[left], NEAR) & (clean <= WILD * clean.min())]
        return int(left[np.lexsort((-self.evidence[left], self.causal[left]))[0]])

    def likeliest(self, some: np.ndarray) -> int:
        """Of some by evidence: least squares, or, where the losses refuse them, with a kernel.

        Where no bend is free nothing is blind, and the causal loss would only draw to regression.
        """
        few = Judged(*(getattr(self, field.name)[some] for field in fields(self)))
        bare = few.fair[few.bare[few.fair]]
        return int(some[max(bare if len(bare) else few.fair, key=lambda k: few.evidence[k])])

    def _beside(self, plain: int, left: np.ndarray, needed: float, weak: bool) -> np.ndarray:
        """Who may be taken in place of a straight line, or that line alone where none objects."""
        above = self.evidence - self.evidence[plain]
        clean = self.controlled.mean(1)
        if above[self.fair].max() > max(needed, 1.0):
            prefer = ~self.searched & (clean <= clean[plain])
            return left[(above[left] > 0) | prefer[left]]
        far = BEHIND * TEMPER
        others = np.setdiff1d(self.admissible(far), [plain])
        others = others[above[others] >= -far]
        if weak or not len(others):
            return np.array([plain])
        t = paired_t(self.controlled[plain], self.controlled[others[clean[others].argmin()]])
        return others if t > CLEAR + np.log(max(needed, 1.0)) else np.array([plain])


def _unbeaten(errors: np.ndarray, t: float) -> np.ndarray:
    """Whose mean is at most t standard errors of the difference above the least."""
    return paired_t(errors, errors[errors.mean(1).argmin()]) <= t


def paired_t(errors: np.ndarray, other: np.ndarray) -> np.ndarray:
    """t statistics of mean differences between rows of terms and other terms, (candidates,)."""
    gaps = errors - other
    n, mean = gaps.shape[-1], gaps.mean(axis=-1)
    variance = np.einsum("...i,...i->...", gaps, gaps) / n - mean**2
    return mean / np.maximum((np.maximum(variance, 0.0) / n) ** 0.5, np.finfo(float).tiny)

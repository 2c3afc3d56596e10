"""Which of several structural functions is believed: three judges, none of which decides alone.

- The *causal loss*, (1/n) Σ(y_i − h⁻ⁱ(x_i))², is large where h explodes; under confounding it is
  pulled towards the regression of y on X.
- The *projected loss*, (1/n) Σ(y_i − E[h⁻ⁱ(X) | z_i])², has no such pull, for E[y | Z] is
  E[h(X) | Z], but it is blind in directions of h that the instruments do not see.
- The *evidence*, log p(y | Z) where h is a Gaussian process, has no pull either, and in directions
  that are not seen it asks for what the prior expects; it overstates differences where the prior is
  not a good one.

So: of all whose causal loss is at most twice the least, and whose projected loss is not clearly
above the least (a paired t over the rows), those within three units of the best evidence are
admissible; the one of least causal loss is taken. With fewer than 200 rows a column a straight line
is taken before that, unless the best evidence is 200d/n units above its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

WILD = 2.0  # times the least causal loss: beyond it a function explodes
CLEAR = 2.5  # t of a difference between projected losses
BEHIND = 3.0  # units of log evidence
FEW = 200.0  # rows a column, below which a straight line is preferred
TEMPER = 2.0  # what evidence is divided by, for it overstates


@dataclass(frozen=True)
class Judged:
    """What the judges say of candidates; squared errors are of shape (candidates, rows)."""

    causal: np.ndarray  # (candidates,); zeros where no row has both regressors and outcome
    projected: np.ndarray  # squared errors, row by row
    evidence: np.ndarray  # (candidates,)

    @classmethod
    def together(cls, several: Iterable[Judged]) -> Judged:
        """The candidates of all."""
        parts = zip(*((j.causal, j.projected, j.evidence) for j in several), strict=True)
        return cls(*(np.concatenate(part) for part in parts))

    def fair(self) -> np.ndarray:
        """Numbers of the candidates that neither loss refuses."""
        tame = np.flatnonzero(self.causal <= WILD * self.causal.min())
        errors = self.projected[tame]
        return tame[paired_t(errors, errors[errors.mean(1).argmin()]) <= CLEAR]

    def admissible(self) -> np.ndarray:
        """Numbers of the candidates that no judge refuses."""
        fair = self.fair()
        return fair[self.evidence[fair] >= self.evidence[fair].max() - BEHIND]

    def weights(self) -> np.ndarray:
        """Posterior probabilities of the fair candidates, tempered; 0 of the others."""
        fair, weights = self.fair(), np.zeros(len(self.causal))
        weights[fair] = softmax(self.evidence[fair] / TEMPER)
        return weights

    def best(self, plain: int | None = None, columns: int = 1) -> int:
        """Number of the candidate that is taken.

        The `plain` one is, unless the evidence objects: with few rows a column it has to be strong.
        """
        left, fair = self.admissible(), self.fair()
        enough = FEW * columns / self.projected.shape[1]
        if enough > 1 and plain is not None and plain in fair:
            left_behind = self.evidence[fair].max() - self.evidence[plain]
            left = np.array([plain]) if left_behind <= enough else left
        return int(left[np.lexsort((-self.evidence[left], self.causal[left]))[0]])


def paired_t(errors: np.ndarray, other: np.ndarray) -> np.ndarray:
    """t statistics of mean differences between rows of terms and other terms, (candidates,)."""
    gaps = errors - other
    spread = gaps.std(axis=-1) / gaps.shape[-1] ** 0.5
    return gaps.mean(axis=-1) / np.maximum(spread, np.finfo(float).tiny)

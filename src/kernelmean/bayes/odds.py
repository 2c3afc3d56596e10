"""A density ratio by odds: a logistic regression of which of two samples a row is of.

Where the two laws differ as normal ones do, this is the whole ratio, at a rate that kernels cannot
have. Elsewhere it says too much where there is little, so that it is a start for kernels, and no
more than that: where rows left out are better told with it.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core import Array, Saveable, arrays

PENALTIES = (1e-3, 1e-2, 0.1, 1.0, 10.0)  # scikit-learn's C that are tried, from smooth to free
FOLDS = 5
FEW_VALUES = 20  # of a sample, at most, that are no copies
ROWS = 5  # of the denominator that the ratio counts, at least, for each coefficient
LOST = 0.5  # standard errors of the log likelihood of rows left out that a smoother one may lose
LARGEST = 300.0  # of log odds


@dataclass(frozen=True)
class Odds(Saveable):
    """r₀(z) = min(exp(b + sᵀa + sᵀQs), r_max), with s = (z − centre)/spread.

    Attributes
    ----------
    centre, spread : arrays of shape (d,)
    slopes : array of shape (d,)
        a.
    bends : array of shape (d, d)
        Q, upper triangular; zero where squares and products tell nothing more.
    start : float
        b.
    most : float
        The largest of r₀ at rows of the denominator: beyond them nothing bounds it.
    """

    centre: np.ndarray
    spread: np.ndarray
    slopes: np.ndarray
    bends: np.ndarray
    start: float
    most: float = np.inf
    rank_: ClassVar = 1  # as of coordinates, for sums over rows

    def __call__(self, Z) -> Array:
        """r₀ of m rows, shape (m,)."""
        xp = arrays.namespace(Z)
        centre, spread, a, Q = (
            arrays.like(part, Z) for part in (self.centre, self.spread, self.slopes, self.bends)
        )
        S = (Z - centre) / spread
        told = xp.exp(xp.clip(self.start + S @ a + xp.sum((S @ Q) * S, axis=1), None, LARGEST))
        return xp.clip(told, None, self.most)

    def transform(self, Z) -> Array:
        """The same as a column."""
        return self(Z)[:, None]


class Logistic(NamedTuple):
    """How the odds are learned: scikit-learn's C, and whether with squares and products."""

    C: float
    squares: bool

    def size(self, d: int) -> int:
        """Coefficients and the constant, of d columns."""
        return 1 + d + self.squares * d * (d + 1) // 2

    def odds(self, Z: np.ndarray, U: np.ndarray) -> Odds | None:
        """r₀ from n rows of p and l rows of q.

        None where it rests on fewer than five rows a coefficient: rows of p count, by their r₀, as
        many as (Σr₀)²/Σr₀².
        """
        (n, d), l = Z.shape, U.shape[0]
        S, centre, spread = _standardised(np.vstack([Z, U]))
        learned = self._model().fit(self._terms(S), np.repeat([0, 1], [n, l]))
        w, bends = learned.coef_[0], np.zeros((d, d))
        if self.squares:
            bends[np.triu_indices(d)] = w[d:]
        odds = Odds(centre, spread, w[:d], bends, float(learned.intercept_[0]) - math.log(l / n))
        at_z = odds(Z)
        few = at_z.sum() ** 2 < ROWS * self.size(d) * (at_z @ at_z)
        return None if few else replace(odds, most=float(at_z.max()))

    def left_out(self, S: np.ndarray, of_q: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """The log of r₀ at n + l rows, each without the fifth of the rows that it is of."""
        F, log_ratio = self._terms(S), np.empty(len(S))
        for out in (fold == k for k in range(FOLDS)):
            learned = self._model().fit(F[~out], of_q[~out])
            left = np.bincount(of_q[~out], minlength=2)
            log_ratio[out] = learned.decision_function(F[out]) - np.log(left[1] / left[0])
        return log_ratio

    def _model(self) -> Any:
        from sklearn.linear_model import LogisticRegression  # a tenth of a second, once

        return LogisticRegression(C=self.C, tol=1e-6, max_iter=1000)

    def _terms(self, S: np.ndarray) -> np.ndarray:
        i, j = np.triu_indices(S.shape[1])
        return np.hstack([S, S[:, i] * S[:, j]]) if self.squares else S


def best_odds(Z: np.ndarray, U: np.ndarray) -> tuple[Logistic, np.ndarray, np.ndarray] | None:
    """What is learned from rows in canonical order, and r₀ at them, each left out, (n,) and (l,).

    With the strongest penalty that loses next to nothing of the likelihood of rows left out.
    """
    (n, d), l = Z.shape, U.shape[0]
    ways = [Logistic(C, squares) for C in PENALTIES for squares in (False, True)]
    ways = [way for way in ways if ROWS * way.size(d) <= min(n, l)]
    if not ways:
        return None
    both = stacked(Z, U)
    found = [way.left_out(*both) for way in ways]
    sign, prior = np.repeat([1.0, -1.0], [n, l]), math.log(l / n)
    best = _smoothest([np.logaddexp(0.0, sign * (log + prior)) for log in found])
    if (odds := ways[best].odds(Z, U)) is None:
        return None
    out = np.minimum(np.exp(np.minimum(found[best], LARGEST)), odds.most)
    return ways[best], out[:n], out[n:]


def stacked(Z: np.ndarray, U: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Standardised rows of both samples, which are of q, and the fifths that are left out."""
    rows, of_q = np.vstack([Z, U]), np.repeat([0, 1], [Z.shape[0], U.shape[0]])
    return _standardised(rows)[0], of_q, _folds(rows, Z.shape[0])


def _folds(rows: np.ndarray, n: int) -> np.ndarray:
    """Which fifth each row is of: copies are of one, unless rows of a sample are a few values."""
    each = [len(np.unique(some, axis=0)) for some in (rows[:n], rows[n:])]
    if min(each) < FEW_VALUES:
        return np.append(np.arange(n), np.arange(len(rows) - n)) % FOLDS
    return np.unique(rows, axis=0, return_inverse=True)[1].ravel() % FOLDS


def _smoothest(losses: list[np.ndarray]) -> int:
    """The first, of those from smooth to free, that is about as good as the best."""
    least = min(losses, key=np.sum)
    worse = (loss - least for loss in losses)
    return next(i for i, w in enumerate(worse) if w.sum() <= LOST * w.std() * len(w) ** 0.5)


def _standardised(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, their centre and spread; a constant column is zero."""
    centre, spread = rows.mean(axis=0), arrays.units(rows)
    return (rows - centre) / spread, centre, spread

"""What estimators of a conditional density share.

All have `fit(X, Y)`, `pdf(Y, X, paired=None)`, `score_samples(X, Y)` and `score`, as
`ConditionalDensity`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..core import arrays, checks

CELLS = 4_000_000  # numbers in a block of rows of an n × n matrix
LARGEST = 5000  # rows for which n × n systems are solved, and smoothers formed


class DensityComparator(BaseEstimator):
    """What the estimators share: arguments are checked, rows are paired or crossed."""

    _fit: Callable[[np.ndarray, np.ndarray], None]
    _log_pairs: Callable[[np.ndarray, np.ndarray], np.ndarray]  # log p(y|x)

    def fit(self, X, Y) -> Any:
        """Estimate p(y | x).

        Parameters
        ----------
        X : array or DataFrame of shape (n, d_x)
        Y : array, Series or DataFrame of shape (n,) or (n, d_y)

        Raises
        ------
        ValueError
            If anything is malformed, constant or non-finite.
        """
        points, values = map(arrays.to_numpy, checks.as_pairs(self, X, Y, "Y", min_rows=4))
        self._outputs = values.shape[1]
        self._fit(points, values)
        return self

    def pdf(self, Y, X, paired: bool | None = None) -> np.ndarray:
        """p(y_i | x_i), shape (n,).

        Parameters
        ----------
        Y : array or DataFrame of shape (n,) or (n, d_y)
        X : array or DataFrame of shape (n, d_x)
        paired : bool, optional
            False: a table with a row for each x, shape (len(X), len(Y)).
        """
        Y, X = self._checked(Y, X)
        if checks.pairs_wanted(len(Y), len(X), paired):
            return np.exp(self._log_pairs(Y, X))
        return self._table(Y, X)

    def score_samples(self, X, Y) -> np.ndarray:
        """log p(y | x) of pairs of rows, shape (n,); −inf where the density is zero."""
        Y, X = self._checked(Y, X)
        checks.check_lengths(len(X), len(Y), "X", "Y")
        return self._log_pairs(Y, X)

    def score(self, X, Y) -> float:
        """Mean of `score_samples`."""
        return float(np.mean(self.score_samples(X, Y)))

    def _checked(self, Y, X) -> tuple[np.ndarray, np.ndarray]:
        points = arrays.to_numpy(checks.as_new_points(self, X))
        return arrays.as_columns(Y, self._outputs, "Y", "the model"), points

    def _table(self, Y: np.ndarray, X: np.ndarray) -> np.ndarray:
        repeated = (np.broadcast_to(x, (len(Y), len(x))) for x in X)
        return np.exp([self._log_pairs(Y, rows) for rows in repeated])


class Expansion(DensityComparator):
    """p(y | x) = Σ_j a_j(x) f_j(y), where that is positive."""

    _coefficients: Callable[[np.ndarray], np.ndarray]
    _functions: Callable[[np.ndarray], np.ndarray]

    def _table(self, Y, X) -> np.ndarray:
        functions = len(self._functions(Y[:1])[0])
        table = np.empty((len(X), len(Y)))
        for rows in blocks(len(X), functions):
            A = self._coefficients(X[rows])
            for columns in blocks(len(Y), functions):
                table[rows, columns] = A @ self._functions(Y[columns]).T
        return np.maximum(table, 0)

    def _log_pairs(self, Y, X) -> np.ndarray:
        slices = blocks(len(X), len(self._functions(Y[:1])[0]))
        sums = [np.sum(self._coefficients(X[b]) * self._functions(Y[b]), axis=1) for b in slices]
        return arrays.logs(np.concatenate(sums))


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Slices of the rows of a matrix, of bounded size."""
    return arrays.slices(rows, max(1, CELLS // columns))


def given(value, name: str, default) -> Any:
    """A positive parameter, or what stands for None."""
    return default if value is None else checks.check_positive(value, name)


def check_varying(X: np.ndarray, name: str, what: str) -> None:
    """Refuse a constant column, of which there is no such thing."""
    if (np.ptp(X, axis=0) == 0).any():
        raise ValueError(f"{name} has a constant column, which has no {what}; drop it")


def exponents(X: np.ndarray, Y: np.ndarray, bandwidth) -> np.ndarray:
    """−½ Σ_c (x_c − y_c)²/γ_c² of every pair of rows."""
    return -0.5 * arrays.sq_dists(X / bandwidth, Y / bandwidth)


def gaussian(X: np.ndarray, Y: np.ndarray, bandwidth) -> np.ndarray:
    """exp(−½ Σ_c (x_c − y_c)²/γ_c²) of every pair of rows."""
    return np.exp(exponents(X, Y, bandwidth))


def normal(X: np.ndarray, Y: np.ndarray, bandwidth: np.ndarray) -> np.ndarray:
    """N(x; y, diag γ²) of every pair of rows, with one γ per column."""
    return gaussian(X, Y, bandwidth) / np.prod(np.sqrt(2 * np.pi) * bandwidth)

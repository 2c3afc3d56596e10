"""What every feature map promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..core.checks import Array, check_column, check_columns
from ..core.elsewhere import aligned, by_blocks, is_far
from ..core.minimise import SEARCH_ROWS
from ..core.rows import Rows
from ..core.saving import Saveable
from ..core.summary import Block, Line
from ..kernels import as_kernel, check_size


@by_blocks("transform", "derivative")
class FeatureMap(Saveable, BaseEstimator):
    """Points → coordinates φ(x) ∈ R^r with φ(x)ᵀφ(x') ≈ k(x, x').

    Fitted attributes: `kernel_` (resolved), `rank_` (r), `n_features_in_`.
    """

    learns_from_pairs = False  # whether fitting needs what is to be predicted (`Neural`)

    def fit(self, X, kernel="gaussian") -> FeatureMap:
        """Choose the coordinates from the rows of `X`; of rows elsewhere, from a few of them."""
        if is_far(X):
            self._fit_far(aligned(X=X), kernel)
        else:
            self.fit_transform(X, kernel)
        return self

    def fit_transform(self, X, kernel="gaussian") -> Array:
        """Choose the coordinates from `X` and return those of its rows, shape (n, r)."""
        if is_far(X):
            return self.fit(X, kernel).transform(X)
        kernel = as_kernel(kernel)
        X = kernel.checked(X, "X")
        self.kernel_ = kernel.resolve(X)
        self.n_features_in_ = X.shape[1]
        check_size(self.kernel_, X)
        return self._fit_transform(X)

    def transform(self, X) -> Array:
        """Coordinates of the rows of `X`, shape (n, r)."""
        check_is_fitted(self)
        X = self.kernel_.checked(X, "X")
        check_columns(X, self.n_features_in_, "X", "the points this map was fitted on")
        return self._transform(X)

    def derivative(self, X, column: int) -> Array:
        """∂φ(x)/∂x_column at the rows of `X`, shape (n, r).

        Raises
        ------
        ValueError
            If the kernel has no derivative in closed form, or the features none at all.
        """
        check_is_fitted(self)
        X = self.kernel_.checked(X, "X")
        check_columns(X, self.n_features_in_, "X", "the points this map was fitted on")
        return self.derivative_of(X, check_column(column, X.shape[1]))

    def block(self, heading: str, names: Sequence[str]) -> Block:
        """For summaries: the kernel, its lengthscale along each column, how many coordinates."""
        kernel: Any = self.kernel_
        scale = getattr(kernel, "lengthscale", None)
        if scale is None:
            lines = [Line("kernel", kernel, repr(kernel))]
        else:
            each = np.broadcast_to(np.asarray(scale, dtype=float), len(names)).tolist()
            lines = [Line("kernel", kernel, type(kernel).__name__)]
            lines += [
                Line.of(f"lengthscale of {name}", s) for name, s in zip(names, each, strict=True)
            ]
        return Block(heading, [*lines, Line("coordinates", self.rank_, f"{self.rank_:,}")])

    def _fit_far(self, rows: Rows, kernel) -> None:
        self.fit_transform(rows.few(SEARCH_ROWS)[0], kernel)

    def _fit_transform(self, X) -> Array:
        raise NotImplementedError

    def _transform(self, X) -> Array:
        raise NotImplementedError

    def derivative_of(self, X, column: int) -> Array:
        raise ValueError(f"{type(self).__name__} features have no derivative")

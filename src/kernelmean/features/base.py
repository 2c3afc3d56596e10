"""What every feature map promises; none, and coordinates of two beside each other."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.utils import TransformerTags
from sklearn.utils.validation import check_is_fitted

from ..core import Array, Block, Labels, Line, Rows, arrays, checks
from ..core.elsewhere import aligned, by_blocks, is_far
from ..core.labels import pandas
from ..core.minimise import SEARCH_ROWS
from ..core.parameters import Estimator
from ..core.summary import kernel_lines
from ..kernels import Kernel, as_kernel, check_size


@by_blocks("transform", "derivative")
class FeatureMap(Estimator):
    """Points → coordinates φ(x) ∈ R^r with φ(x)ᵀφ(x') ≈ k(x, x').

    Fitted attributes: `kernel_` (resolved), `rank_` (r), `n_features_in_`.
    """

    _transform: Callable[[Any], Array]  # of points that were checked
    learns_from_pairs = False  # whether fitting needs what is to be predicted (`Neural`)

    def fit(self, X, y=None, kernel="gaussian") -> Self:
        """Choose the coordinates from the rows of `X`; of rows elsewhere, from a few of them.

        Parameters as for `fit_transform`.
        """
        if is_far(X):
            new = copy(self)
            new._fit_far(aligned(X=X), y if _is_kernel(y) else kernel)
            self.__dict__ = new.__dict__
        else:
            self.fit_transform(X, y, kernel)
        return self

    def fit_transform(self, X, y=None, kernel="gaussian") -> Any:
        """Choose the coordinates from `X` and return those of its rows, shape (n, r).

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
        y : ignored
            For pipelines. A kernel may stand here, which then need not be named.
        kernel : Kernel, str, scikit-learn kernel or callable
            The Gaussian stands at the median distance.
        """
        if is_far(X):
            return self.fit(X, y, kernel).transform(X)
        chosen: Any = as_kernel(y if _is_kernel(y) else kernel)
        points, new = chosen.checked(X, "X"), copy(self)
        new._match_names(X, reset=True)
        new.kernel_ = chosen.resolve(points)
        new.n_features_in_ = points.shape[1]
        check_size(new.kernel_, points)
        Phi = new._fit_transform(points)
        self.__dict__ = new.__dict__  # when whole: what is refused or stopped leaves the last
        return self._contained(Phi, X)

    def transform(self, X) -> Any:
        """Coordinates of the rows of `X`, shape (n, r)."""
        return self._contained(self._transform(self._checked(X)), X)

    @property
    def parts(self) -> tuple["FeatureMap", ...]:
        """Maps whose coordinates these are, one after the other."""
        return (self,)

    def times(self, X, coef) -> Array:
        """φ(x)ᵀ coef at the rows of `X`, shape (n, q), for coef of shape (r, q)."""
        return self.transform(X) @ coef

    def sums(self, X, weights) -> Array:
        """Σ_i φ(x_i) w_iᵀ over the rows of `X`, shape (r, q), for weights of shape (n, q)."""
        return self.transform(X).T @ weights

    def _checked(self, X) -> Array:
        check_is_fitted(self)
        points = self.kernel_.checked(X, "X")
        self._match_names(X, reset=False)
        checks.check_columns(points, self.n_features_in_, "X", "the points this map was fitted on")
        return points

    def _match_names(self, X, reset: bool) -> None:
        """Keep the names of columns, or compare them with those kept."""
        unnamed = type(X) is np.ndarray and not hasattr(self, "feature_names_in_")
        unnamed = unnamed and (reset or X.shape[1:] == (self.n_features_in_,))
        if not unnamed and len(getattr(X, "shape", ())) == 2:
            checks.note_columns(self, X, reset=reset)

    # ------------------------------------------------------------ as a step of a pipeline

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags()
        return tags

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Names of the coordinates: nystroem0, nystroem1, …."""
        check_is_fitted(self)
        stem = type(self).__name__.lower()
        return np.array([f"{stem}{i}" for i in range(self.rank_)], dtype=object)

    def set_output(self, *, transform=None) -> Self:
        """What `transform` returns: "default", an array, or "pandas", a DataFrame.

        scikit-learn's global setting is not asked: estimators build on arrays.
        """
        if transform is not None:
            checks.check_choice(transform, "transform", ("default", "pandas"))
            self._sklearn_output_config = {"transform": transform}  # what `clone` copies
        return self

    def _contained(self, Phi: Array, X) -> Any:
        if getattr(self, "_sklearn_output_config", {}).get("transform") != "pandas":
            return Phi
        index, names = Labels.of(X).index, self.get_feature_names_out()
        return pandas().DataFrame(arrays.to_numpy(Phi), index, names)

    def derivative(self, X, column: int) -> Array:
        """∂φ(x)/∂x_column at the rows of `X`, shape (n, r).

        Raises
        ------
        ValueError
            If the kernel has no derivative in closed form, or the features none at all.
        """
        X = self._checked(X)
        return self.derivative_of(X, checks.check_column(column, X.shape[1]))

    def block(self, heading: str, names: Sequence[str]) -> Block:
        """For summaries: the kernel, its lengthscale along each column, how many coordinates."""
        lines = kernel_lines(self.kernel_, names)
        return Block(heading, [*lines, Line("coordinates", self.rank_, f"{self.rank_:,}")])

    def _fit_far(self, rows: Rows, kernel) -> None:
        self.fit_transform(rows.few(SEARCH_ROWS)[0], kernel=kernel)

    def _fit_transform(self, X) -> Array:
        return self._transform(X)  # where there is nothing to choose

    def derivative_of(self, X, column: int) -> Array:
        raise ValueError(f"{type(self).__name__} features have no derivative")


def _is_kernel(y) -> bool:
    return isinstance(y, str | Kernel) or callable(y)


class Bare(FeatureMap):
    """No coordinates: what stands beside them is all, as in two-stage least squares."""

    rank_ = 0

    def _transform(self, X) -> Array:
        return X[:, :0]

    def derivative_of(self, X, column: int) -> Array:
        return X[:, :0]


class Beside(FeatureMap):
    """[φ₁(x), φ₂(x)], coordinates of k₁ + k₂, from two fitted maps."""

    def __init__(self, first: FeatureMap, second: FeatureMap):
        self.first, self.second = first, second
        self.kernel_, self.rank_ = first.kernel_ + second.kernel_, first.rank_ + second.rank_
        self.n_features_in_ = second.n_features_in_

    @property
    def lost_trace_(self) -> float:
        """Of the Gram matrix of either, the larger share; of landmarks."""
        return max(part.lost_trace_ for part in self.parts)

    @property
    def parts(self) -> tuple[FeatureMap, ...]:
        return self.first, self.second

    def _transform(self, X) -> Array:
        return arrays.namespace(X).concat([part.transform(X) for part in self.parts], axis=1)

    def derivative_of(self, X, column: int) -> Array:
        slopes = [part.derivative(X, column) for part in self.parts]
        return arrays.namespace(X).concat(slopes, axis=1)

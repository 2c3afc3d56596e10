"""Coordinates of one map beside those of another: what adds up is written in both."""

from ..core import Array, arrays
from .base import FeatureMap


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

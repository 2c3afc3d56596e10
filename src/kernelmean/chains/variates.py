"""Canonical variates: the few functions of an observation that its neighbours know about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import arrays
from ..core.checks import Array
from ..core.saving import Saveable
from ..features.base import FeatureMap
from .moments import Moments, whitened

LEADING = 24  # coordinates of the data that variates are sought among, and
LEAST = 1e-2  # their least variance, as a share of the largest


@dataclass(frozen=True)
class Variates(Saveable):
    """s(y) = Wᵀ(φ(y) − E φ), uncorrelated and of variance one, most correlated in time.

    W whitens the leading coordinates and takes the left singular vectors of [M, Mᵀ], M the
    whitened cross-covariance of neighbours: what the next, or the last, observation tells.

    Attributes
    ----------
    features : FeatureMap
        φ.
    centre : array of shape (r,)
    directions : array of shape (r, m)
        W.
    """

    features: FeatureMap
    centre: np.ndarray
    directions: np.ndarray

    @classmethod
    def of(cls, features: FeatureMap, moments: Moments, count: int) -> Variates:
        """At most `count` of them."""
        white, M = whitened(moments, LEADING, LEAST)
        U = np.linalg.svd(np.concatenate([M, M.T], axis=1))[0]
        return cls(features, moments.mean, white @ U[:, :count])

    def __call__(self, points) -> Array:
        """s of every row, (n, m)."""
        W = arrays.like(self.directions, points)
        return self.features.transform(points) @ W - arrays.like(
            self.centre @ self.directions, points
        )

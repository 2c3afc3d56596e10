"""Canonical variates: the few functions of an observation that its neighbours know about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import Array, Saveable, arrays
from ..features.base import FeatureMap
from .moments import Moments, whitened

LEADING = 24  # coordinates of the data that variates are sought among, and
TOLD = 1e-8  # share of a column's variance that lines in others leave of a copy
LEAST = 1e-2  # their least variance, as a share of the largest


@dataclass(frozen=True)
class Variates(Saveable):
    """s(y) = Wᵀ(φ(y) − E φ), uncorrelated and of variance one, most correlated in time.

    W whitens the leading coordinates and takes the left singular vectors of [M, Mᵀ], M the
    whitened cross-covariance of neighbours: what the next, or the last, observation tells.

    Attributes
    ----------
    features : FeatureMap, optional
        φ; None is y itself, of which W takes some columns.
    centre : array of shape (r,)
    directions : array of shape (r, m)
        W.
    """

    features: FeatureMap | None
    centre: np.ndarray
    directions: np.ndarray

    @classmethod
    def of(cls, features: FeatureMap, moments: Moments, count: int) -> Variates:
        """At most `count` of them."""
        white, M = whitened(moments, LEADING, LEAST)
        U = np.linalg.svd(np.concatenate([M, M.T], axis=1))[0]
        return cls(features, moments.mean, white @ U[:, :count])

    @classmethod
    def of_columns(cls, points: np.ndarray) -> Variates | None:
        """The columns that no line in those before them tells; None if these are all.

        Densities of rows in a plane have no bandwidth: the smaller, the likelier the rows.
        """
        off = points - points[0]
        R = np.linalg.qr(off - off.mean(axis=0))[1]
        own, left = (R**2).sum(axis=0), np.zeros(R.shape[1])
        left[: len(R)] = np.diag(R) ** 2
        kept = left > TOLD * own
        return None if kept.all() else cls(None, np.zeros(len(own)), np.eye(len(own))[:, kept])

    def __call__(self, points) -> Array:
        """s of every row, (n, m)."""
        W = arrays.like(self.directions, points)
        found = points if self.features is None else self.features.transform(points)
        return found @ W - arrays.like(self.centre @ self.directions, points)

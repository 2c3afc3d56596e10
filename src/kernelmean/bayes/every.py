"""Kernel Bayes' rule of pairs that are elsewhere: sums over all of them, a pass for each prior.

1. Every pair has d = r(z), the ratio of the prior to the latents of the pairs, or max(d, 0).
2. Sums over pairs: d φφᵀ, d φψᵀ and d φ[z, 1]ᵀ, φ and ψ the coordinates of x and z.
3. The posterior's weights are those of `bayes_factors`, with the first for ΦᵀDΦ, and its mean is
   left Σ d φzᵀ / left Σ d φ. λ minimises the leave-one-out loss with the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..core import Array, Moments, Rows, arrays
from ..features.base import FeatureMap
from ..features.landmarks import Further


class Every(NamedTuple):
    """Means over all pairs, weighted by the ratio.

    Attributes
    ----------
    n : int
    second : array of shape (r, r)
        Of φφᵀ.
    cross : array of shape (r, r_z)
        Of φψᵀ.
    told : array of shape (r, d_z + 1)
        Of φ[z, 1]ᵀ.
    """

    n: int
    second: Array
    cross: Array
    told: Array

    @classmethod
    def of(cls, rows: Rows, maps: tuple[FeatureMap, FeatureMap], ratio: Callable) -> Every:
        """A pass over the pairs; `ratio` has the floor that the rule asks for."""
        moments = rows.in_slices(_tilted, sum(map_.rank_ for map_ in maps), *maps, ratio)
        return cls(moments.n, *(moments.mean(name) for name in moments.names))

    def beside(self, Phi, shares, told, further: Further | None) -> Every:
        """With further rows, and the coordinates they add."""
        second, own = self.second, self.told
        if further is not None:
            second = further.padded(further.padded(second).T)
            own = further.padded(own.T).T
        D = shares[:, None]
        own = own + Phi.T @ (D * told)
        return self._replace(second=second + Phi.T @ (D * Phi), told=own)


def _tilted(X, Z, features_x: FeatureMap, features_z: FeatureMap, ratio: Callable) -> Moments:
    xp, Phi = arrays.namespace(Z), features_x.transform(X)
    told = xp.concat([Z, xp.ones_like(Z[:, :1])], axis=1)
    blocks = {"a": ratio(Z)[:, None] * Phi, "x": Phi, "q": features_z.transform(Z), "t": told}
    return Moments("ax", "aq", "at").add(**blocks)

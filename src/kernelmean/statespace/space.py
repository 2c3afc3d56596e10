"""Coordinates of observations and of the latent law, together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..chains.markov import Chain, stationary
from ..core import arrays, solves
from ..core.saving import Saveable
from ..features.base import FeatureMap
from ..features.landmarks import Nystroem
from ..kernels import Kernel
from .latent import Latent

RIDGE = 1e-6  # of the operators, relative to the second moment of the latent coordinates
RATIO_RIDGE = 1e-3  # of the ratio of a transition density to the stationary one


@dataclass(frozen=True)
class Space(Saveable):
    """The latent space: nodes, and their coordinates ψ.

    Attributes
    ----------
    latent : Latent
    features : FeatureMap
    """

    latent: Latent
    features: FeatureMap

    @classmethod
    def of(cls, latent: Latent, kernel: Kernel) -> Space:
        return cls(latent, Nystroem(max_rank=len(latent.nodes)).fit(latent.nodes, kernel))

    @cached_property
    def Psi(self) -> np.ndarray:
        """Coordinates of the nodes, (m, r)."""
        return self.features.transform(self.latent.nodes)

    @cached_property
    def second(self) -> np.ndarray:
        """C_X = Σ_j π_j ψ_j ψ_jᵀ."""
        return (self.latent.weights[:, None] * self.Psi).T @ self.Psi

    def operator(self, laws: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """The operator that takes ψ_j to the j-th column of `laws`: least squares, by mass."""
        weighted = mass[:, None] * self.Psi
        S = weighted.T @ self.Psi
        return solves.ridge(S, RIDGE * np.trace(S)).solve(weighted.T @ laws.T).T

    def interpolation(self, x: np.ndarray) -> np.ndarray:
        """a_j(x), (N, m): what is linear in ψ(x) is Σ_j a_j(x) times its values at the nodes."""
        weighted = self.latent.weights[:, None] * self.Psi
        ridge = solves.ridge(self.second, RIDGE * np.trace(self.second))
        return self.features.transform(x) @ ridge.solve(weighted.T)

    def chain_of(self, V: np.ndarray) -> Chain:
        """P_ij ∝ π_j max(ψ_jᵀ(C_X + λI)⁻¹Vψ_i, 0): the ratio to π* of the density of Vψ_i."""
        ridge = solves.ridge(self.second, RATIO_RIDGE * np.trace(self.second))
        ratio = np.maximum(ridge.solve(V @ self.Psi.T).T @ self.Psi.T, 0.0)
        transmat = (ratio + arrays.EPS) * self.latent.weights
        transmat /= transmat.sum(axis=1, keepdims=True)
        return Chain(stationary(transmat), transmat)

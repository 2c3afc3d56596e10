"""The Gaussian model of section 5.1, which Xu et al. (2022) and Figure 3 use again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class GaussianModel:
    """Latent Z and observation X, (Z, X) ~ N((0, 1), V), with the prior N(0, V_ZZ/2) on Z.

    The paper calls them X and Y; the letters here are those of the package.
    """

    V: Array

    @classmethod
    def draw(cls, d: int, rng: np.random.Generator, share: float = 1.0) -> GaussianModel:
        """V = share AᵀA + 2I with A (2d × 2d) of standard normals; Xu et al. have share 1/(2d)."""
        A = rng.standard_normal((2 * d, 2 * d))
        return cls(share * A.T @ A + 2 * np.eye(2 * d))

    @property
    def d(self) -> int:
        return len(self.V) // 2

    @property
    def blocks(self) -> tuple[Array, Array, Array]:
        """V_ZZ, V_XZ and V_XX."""
        d = self.d
        return self.V[:d, :d], self.V[d:, :d], self.V[d:, d:]

    @property
    def likelihood(self) -> tuple[Array, Array]:
        """H and R of X | z ~ N(1 + Hz, R)."""
        V_zz, V_xz, V_xx = self.blocks
        H = np.linalg.solve(V_zz, V_xz.T).T
        return H, V_xx - H @ V_xz.T

    @property
    def posterior(self) -> tuple[Array, Array]:
        """G and C of Z | x ~ N(G(x − 1), C) under the prior N(0, V_ZZ/2)."""
        (H, R), prior = self.likelihood, self.blocks[0] / 2
        G = np.linalg.solve(H @ prior @ H.T + R, H @ prior).T
        return G, prior - G @ H @ prior

    def posterior_mean(self, X: Array) -> Array:
        """Row by row, E[Z | x]."""
        return (X - 1) @ self.posterior[0].T

    def ratio(self, Z: Array) -> Array:
        """Density of the prior over that of Z in the pairs: 2^(d/2) exp(−zᵀV_ZZ⁻¹z / 2)."""
        squared = np.sum(Z * np.linalg.solve(self.blocks[0], Z.T).T, axis=1)
        return np.exp((self.d * np.log(2) - squared) / 2)

    # ------------------------------------------------------------ draws

    def pairs(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Observations (n, d) and latents (n, d) from the joint law."""
        both = rng.multivariate_normal(np.zeros(2 * self.d), self.V, n, method="cholesky")
        return both[:, self.d :] + 1, both[:, : self.d]

    def prior(self, n: int, rng: np.random.Generator) -> Array:
        """Latents from N(0, V_ZZ/2)."""
        return rng.multivariate_normal(np.zeros(self.d), self.blocks[0] / 2, n, method="cholesky")

    def simulate(self, Z: Array, rng: np.random.Generator) -> Array:
        """One observation for each row of Z."""
        H, R = self.likelihood
        noise = rng.multivariate_normal(np.zeros(self.d), R, len(Z), method="cholesky")
        return 1 + Z @ H.T + noise

    def observations(self, n: int, rng: np.random.Generator) -> Array:
        """The points conditioned on: N(0, V_XX), although E X = 1 in the model."""
        return rng.multivariate_normal(np.zeros(self.d), self.blocks[2], n, method="cholesky")


def squared_error(estimate: Array, truth: Array) -> float:
    """Mean over the rows of the squared Euclidean norm of the error."""
    return float(np.mean(np.sum((estimate - truth) ** 2, axis=1)))


def identity(points: Array) -> Array:
    """The function whose posterior expectation is asked for."""
    return points

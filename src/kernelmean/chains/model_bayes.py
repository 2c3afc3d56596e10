"""Kernel Bayes' rule from a model: no pairs of states and observations, only embedded laws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..core import Saveable, arrays
from ..features.base import FeatureMap
from .markov import Chain, carried, posterior_in_logs

RANK_LOSS = 1e-10  # of the Gram matrix of the laws: below, two laws are one
NOTHING = 1e-12  # mass of weights, of one, from which on an observation has said something


@dataclass(frozen=True)
class ModelBayes(Saveable):
    """α = ΛN(ΛN + λI)⁻¹N⁻¹N(y), Λ = diag(prior), N = OᵀO, N(y) = Oᵀφ(y).

    Here N⁻¹N(y) are the weights that make up φ(y), as well as can be, of the embedded laws O. For
    λ → 0 they are the posterior, whatever the prior; for λ → ∞ the posterior, normalised, is
    prior times N(y): Bayes' rule with the densities smoothed by the kernel.

    Weights are what they are in the paper's rule; as probabilities (which is what a filter goes
    on with) they are clipped at zero and normalised.

    Attributes
    ----------
    features : FeatureMap
    embeddings : array of shape (r, K)
        O.
    reg : float
        λ.

    References
    ----------
    Spiteri (2023), eq. 3.7 and Algorithm 2, with N⁻¹ at the first step too (MATH §12).
    """

    features: FeatureMap
    embeddings: np.ndarray
    reg: float

    def reordered(self, order: np.ndarray) -> ModelBayes:
        """With the states renumbered."""
        return replace(self, embeddings=self.embeddings[:, order])

    @cached_property
    def gram(self) -> np.ndarray:
        """N, (K, K)."""
        return self.embeddings.T @ self.embeddings

    def evaluations(self, points) -> np.ndarray:
        """N(y) for every row, (m, K)."""
        O = arrays.like(self.embeddings, points)
        return arrays.to_numpy(self.features.transform(points) @ O)

    def shares(self, evaluations: np.ndarray) -> np.ndarray:
        """N⁻¹N(y), (m, K)."""
        return evaluations @ np.linalg.pinv(self.gram, rcond=RANK_LOSS, hermitian=True)

    def shares_of(self, points, seen: np.ndarray) -> np.ndarray:
        """N⁻¹N(y) of every row, NaN for those that are not `seen`."""
        shares = self.shares(self.evaluations(points))
        shares[~seen] = np.nan
        return shares

    def weights(self, prior: np.ndarray, shares: np.ndarray, reg=None) -> np.ndarray:
        """α for rows of priors and of N⁻¹N(y), (m, K); `reg` may be another λ for each row."""
        joint = prior[:, :, None] * self.gram  # ΛN
        reg = self.reg if reg is None else reg[:, None, None]
        system = joint + reg * np.eye(len(self.gram))
        return (joint @ np.linalg.solve(system, shares[:, :, None]))[:, :, 0]

    def posterior(self, prior: np.ndarray, shares: np.ndarray, reg=None) -> np.ndarray:
        """The weights as probabilities; NaN in `shares`, or weights of nothing: the prior."""
        known = np.where(np.isnan(shares[:, :1]), 0.0, shares)
        alpha = np.maximum(self.weights(prior, known, reg), 0.0)
        mass = alpha.sum(axis=1, keepdims=True)
        least = NOTHING * self.size / (self.size + (self.reg if reg is None else reg[:, None]))
        return np.where(mass > least, alpha / np.maximum(mass, least), prior)

    @cached_property
    def size(self) -> float:
        """Mean squared norm of the laws, which λ is to be compared with."""
        return float(np.trace(self.gram)) / len(self.gram)

    def filtered(self, shares: np.ndarray, chain: Chain, sequences, logb=None) -> np.ndarray:
        """P(x_t | y_1, ..., y_t) for rows of N⁻¹N(y_t); rows of NaN are missing.

        Their log-densities `logb` say what is there of them, where it is given.
        """
        return self.compared(np.array([self.reg]), shares, chain, sequences, logb)[0]

    def compared(self, regs, shares: np.ndarray, chain: Chain, sequences, logb=None) -> np.ndarray:
        """The same for several λ, which are run side by side, (len(regs), n, K)."""
        (n, K), count = shares.shape, len(regs)
        copies = [slice(s.start + n * i, s.stop + n * i) for i in range(count) for s in sequences]
        told = np.hstack([shares, np.zeros_like(shares) if logb is None else logb])
        inputs = np.column_stack([np.tile(told, (count, 1)), np.repeat(regs, n)])
        Q = chain.transmat if chain.transmat.ndim == 2 else np.tile(chain.transmat, (count, 1, 1))

        def posterior(prior, row):
            missing = np.isnan(row[:, 0])
            if missing.any() and logb is not None:
                likely = posterior_in_logs(prior, row[:, K : 2 * K])[0]
                prior = np.where(missing[:, None], likely, prior)
            return self.posterior(prior, row[:, :K], row[:, 2 * K])

        priors = carried(posterior, inputs, Q, chain.startprob, copies)
        return posterior(priors, inputs).reshape(count, n, -1)

"""The leave-one-out score as a function of the bandwidth, from sums over pairs of rows.

With W_ij = H_ij/(1 − H_ii), i ≠ j, the weights that rows left out have, and S = WᵀW/n,

    M(γ) = Σ_jk S_jk (k̄_γ ∗ k̄_γ)(y_j − y_k) − (2/n) Σ_jk W_jk k̄_γ(y_j − y_k).

Of points with weights w, S = wwᵀ, and W_ij/n = w_i w_j/(1 − w_i).

Kernels of the distance alone are the same for all pairs that are equally far apart, so S and W are
summed once over the pairs in each of some thousand narrow cells, and a bandwidth costs no more than
the kernel at as many points.
"""

import math
from typing import Any, Self

import numpy as np
from scipy.spatial.distance import pdist, squareform

from ..kernels import Gaussian, Kernel, Periodic
from .leave_one_out import SAFE
from .smoother import Smoother

CELL = 0.01  # width of a cell, relative to the distance
NEAR = 0.002  # of the kernel's lengthscale: cells do not get narrower below


class Pairs:
    """Pairs j < k of n rows, as shares of two neighbouring cells; the first is at zero.

    Attributes
    ----------
    differences : array of shape (cells, d)
        For which the kernel is evaluated.
    cell, share : array of shape (n(n − 1)/2,)
        The lower one, and the share of the one above.
    """

    def __init__(self, Y: np.ndarray, kernel: Any):
        """By their distance in units of the kernel's lengthscale; all by themselves if need be."""
        self.n, d = Y.shape
        apart = d > 1 and kernel.is_product() and not isinstance(kernel, Gaussian)
        if apart or isinstance(kernel, Periodic):
            j, k = np.triu_indices(self.n, 1)
            zero, self.cell = np.zeros((1, d)), np.arange(1, len(j) + 1)
            self.share = np.zeros(len(j))
            self.differences = np.vstack([zero, Y[j] - Y[k], zero])
            return
        apart = pdist(kernel.in_units(Y))
        step = np.eye(d)[0] * np.broadcast_to(kernel.lengthscale, d)
        step /= np.linalg.norm(kernel.in_units(step[None]))
        self.cell = cell = (np.arcsinh(apart / NEAR) / CELL).astype(int)
        at = NEAR * np.sinh(CELL * np.arange(cell.max() + 2))
        self.share = (apart - at[cell]) / (at[cell + 1] - at[cell])
        self.differences = np.outer(at, step)

    def sums(self, A: np.ndarray) -> np.ndarray:
        """Σ A_jk of a symmetric matrix over the pairs in each cell, in either order."""
        pairs = squareform(A, checks=False)
        size, above = len(self.differences), pairs * self.share
        total = np.bincount(self.cell, pairs - above, size)
        total[1:] += np.bincount(self.cell, above, size)[:-1]
        total[0] += 0.5 * np.trace(A)
        return 2 * total


class BandwidthScore:
    """M for the kernel of Y times a factor, by the two sums over pairs."""

    def __init__(self, pairs: Pairs, kernel: Kernel, narrow: np.ndarray, wide: np.ndarray):
        self.narrow, self.wide = pairs.sums(narrow), pairs.sums(wide)
        self.kernel, self.differences = kernel, pairs.differences

    @classmethod
    def of_points(cls, points: np.ndarray, weights: np.ndarray, kernel: Kernel) -> Self:
        left = 1.0 - weights
        own = weights / np.where(left == 0, 1.0, left)
        narrow = 0.5 * (np.outer(own, weights) + np.outer(weights, own))
        np.fill_diagonal(narrow, 0.0)
        return cls(Pairs(points, kernel), kernel, narrow, np.outer(weights, weights))

    @classmethod
    def of_rows(
        cls, pairs: Pairs, kernel: Kernel, smoother: Smoother, reg: float, sizes=1.0
    ) -> Self:
        """Of a smoother of rows; where these were made so many times larger, (n,), by that.

        By the roots of their weights, in a weighted regression: M is a weighted mean then.
        """
        P, shrink = smoother.P, smoother.shrink(reg) / pairs.n
        h = smoother.leverage(reg)
        left = np.maximum(1.0 - h, SAFE)  # below, H D² H would lose its digits
        H = (P * shrink) @ P.T
        narrow = H * (0.5 / left + 0.5 / left[:, None])
        np.fill_diagonal(narrow, 0.0)
        # with D = diag(1/(1 − h)), WᵀW is HD²H − D²diag(h)H − HD²diag(h) + D²diag(h)²
        Q, own = P / left[:, None], h / left**2
        wide = (P * shrink) @ (Q.T @ Q) @ (P * shrink).T - H * (own + own[:, None])
        wide[np.diag_indices_from(wide)] += own * h
        weight = sizes * np.reshape(sizes, (-1, 1)) / pairs.n
        return cls(pairs, kernel, weight * narrow, weight * wide)

    def __call__(self, factor: float) -> float:
        kernel, d = self.kernel.scaled(factor), self.differences.shape[1]

        def mean(weights: np.ndarray, kernel: Kernel) -> float:
            values = kernel.gram_of(self.differences, self.differences[:1])[:, 0]
            return math.exp(-kernel.log_normaliser(d)) * float(weights @ values)

        return mean(self.wide, kernel.self_convolved(d)) - 2 * mean(self.narrow, kernel)

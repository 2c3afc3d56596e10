"""The thesis's state-space model: Algorithm 3 in coordinates, and forecasts from its densities.

`adam.py` has the T×T matrices. Here the same loss, from the same start, is minimised by L-BFGS in
the coordinates of low-rank features, and taken back to W and W̃.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.stats import norm

import kernelmean as km
from kernelmean.chains import markov
from kernelmean.kernels import Kernel, median_lengthscale
from kernelmean.statespace.operators import PairMoments, minimise
from kernelmean.statespace.pairing import sorted_pairs

from .adam import DELTA, DenseStateSpace, Matrices

WIDTH = 0.25  # bandwidth of the densities, in median distances (section 4.6.2)
NODES = np.linspace(-3.5, 3.5, 141)  # of the latent states in the filter
HEIGHTS = 600  # values of y at which emission densities are integrated
FLOOR = 1e-10  # of densities: an observation that nothing explains says nothing
PENALTIES = (0.1, 1.0, 10.0)  # λ₁ = λ₂, of which validation rows choose,
ITERATIONS = (5, 13, 30, 100, 500)  # as of these
VALIDATION = 0.2  # share of the training rows


@dataclass(frozen=True)
class Problem:
    """Steps 1 to 3: observations, latent points of the same ranks, and the loss.

    Attributes
    ----------
    Y, X : arrays of shape (T, 1)
        In the order of time.
    kernels : (Kernel, Kernel)
        Of the observations and of the latent points.
    penalty : float
        λ₁ = λ₂.
    """

    Y: np.ndarray
    X: np.ndarray
    kernels: tuple[Kernel, Kernel]
    penalty: float = 1.0

    @classmethod
    def of(cls, Y: np.ndarray, seed: int) -> Problem:
        """X from N(0, 1), sorted as Y is; Gaussian kernels, of the median distances."""
        x = np.random.default_rng([seed, 3]).standard_normal(Y.shape)
        X = x[sorted_pairs(Y, x)]
        return cls(Y, X, (km.Gaussian(median_lengthscale(Y)), km.Gaussian(median_lengthscale(X))))

    @cached_property
    def dense(self) -> DenseStateSpace:
        """The loss in T×T matrices."""
        K_Y, K_X = (k(Z, Z) for k, Z in zip(self.kernels, (self.Y, self.X), strict=True))
        return DenseStateSpace(np.asarray(K_Y), np.asarray(K_X), (self.penalty, self.penalty))

    @cached_property
    def coordinates(self) -> Matrices:
        """Φ and Ψ."""
        pairs = zip((self.Y, self.X), self.kernels, strict=True)
        Phi, Psi = (np.asarray(km.Nystroem().fit_transform(Z, kernel)) for Z, kernel in pairs)
        return Phi, Psi

    @cached_property
    def moments(self) -> PairMoments:
        """The loss in coordinates."""
        Phi, Psi = self.coordinates
        C = Phi[:-1].T @ Phi[1:] / (len(Phi) - 1)
        means, second = (Phi.mean(axis=0), Psi.mean(axis=0)), Psi.T @ Psi / len(Psi)
        return PairMoments([C], means[0], second, means[1], (self.penalty, self.penalty))

    def laws(self, W: np.ndarray, Wt: np.ndarray) -> Laws:
        return Laws(self, W, Wt)

    def start(self) -> Matrices:
        """U = ΦᵀΨ(ΨᵀΨ + TδI)⁻¹ and V = ΨᵀΨ(ΨᵀΨ + TδI)⁻¹."""
        Phi, Psi = self.coordinates
        second = Psi.T @ Psi
        inverse = np.linalg.inv(second + len(Psi) * DELTA * np.eye(len(second)))
        return Phi.T @ Psi @ inverse, second @ inverse

    def descend(self, iterations: Sequence[int]) -> Iterator[tuple[int, Laws]]:
        """The start (0), and what L-BFGS has after so many iterations, each on from the last."""
        Phi, Psi = self.coordinates
        W, Wt = self.dense.start()
        yield 0, self.laws(W, Wt)
        first = U, V = self.start()
        done, left, right = 0, np.linalg.pinv(Phi.T), np.linalg.pinv(Psi)
        for upto in iterations:
            fit = minimise(self.moments, U, V, max_iter=upto - done, tol=0.0)
            done, U, V = upto, fit.U, fit.V
            yield (
                upto,
                self.laws(W + left @ (U - first[0]) @ right, Wt + right.T @ (V - first[1]) @ right),
            )


@dataclass(frozen=True)
class Laws:
    """ĝ(y|x) = Σ_i (W l_x)_i k̄(y_i, y) and f̂(x'|x) = Σ_i (W̃ l_x)_i l̄(x_i, x'), positive parts.

    The states are filtered on `NODES`, where the thesis has 500 particles.
    """

    problem: Problem
    W: np.ndarray
    Wt: np.ndarray

    def emission(self, y, x) -> np.ndarray:
        """ĝ, (number of y, number of x)."""
        given = self.problem
        heights = _bumps(y, given.Y, given.kernels[0]) @ self.W @ self._at(x)
        grid = self._heights
        whole = np.maximum(_bumps(grid, given.Y, given.kernels[0]) @ self.W @ self._at(x), 0.0)
        return np.maximum(heights, 0.0) / np.maximum(whole.sum(axis=0) * (grid[1] - grid[0]), FLOOR)

    def transition(self, x, x_next) -> np.ndarray:
        """f̂, (number of x, number of x'), each row a law on the x', which are evenly spaced."""
        given = self.problem
        f = _bumps(x_next, given.X, given.kernels[1]) @ self.Wt @ self._at(x)
        f = np.maximum(f, FLOOR).T
        return f / (f.sum(axis=1, keepdims=True) * (x_next[1] - x_next[0]))

    @cached_property
    def chain(self) -> markov.Chain:
        """From N(0, 1) on the nodes."""
        first = norm.pdf(NODES)
        step = NODES[1] - NODES[0]
        return markov.Chain(first / first.sum(), self.transition(NODES, NODES) * step)

    def predict(self, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E[y_t | y_1, ..., y_{t-1}], (n, 1), and log p(y_t | y_1, ..., y_{t-1})."""
        whole = [slice(0, len(Y))]
        logs = np.log(np.maximum(self.emission(Y[:, 0], NODES), FLOOR))
        alpha, loglik = markov.filtered(logs, self.chain, whole)
        grid = self._heights
        means = (grid[1] - grid[0]) * grid @ self.emission(grid, NODES)
        return markov.predicted(alpha, self.chain, whole) @ means[:, None], loglik

    def _at(self, x) -> np.ndarray:
        """l_x, a column for each x."""
        return np.asarray(self.problem.kernels[1](self.problem.X, np.reshape(x, (-1, 1))))

    @cached_property
    def _heights(self) -> np.ndarray:
        Y = self.problem.Y
        beyond = 4 * WIDTH * self.problem.kernels[0].lengthscale
        return np.linspace(Y.min() - beyond, Y.max() + beyond, HEIGHTS)


def _bumps(at, points: np.ndarray, kernel) -> np.ndarray:
    return norm.pdf(np.reshape(at, (-1, 1)), points[:, 0], WIDTH * kernel.lengthscale)


def first(X: np.ndarray, seed: int) -> Laws:
    """Of the start, with all rows."""
    problem = Problem.of(X, seed)
    return problem.laws(*problem.dense.start())


def tuned(X: np.ndarray, seed: int) -> Laws:
    """Learned from the first rows with the λ and the iterations that suit the last ones best."""
    T = round((1 - VALIDATION) * len(X))
    problem = Problem.of(X[:T], seed)
    candidates = [
        laws
        for penalty in PENALTIES
        for count, laws in replace(problem, penalty=penalty).descend(ITERATIONS)
        if count > 0
    ]
    return min(candidates, key=lambda laws: float(np.mean((laws.predict(X)[0] - X)[T:] ** 2)))

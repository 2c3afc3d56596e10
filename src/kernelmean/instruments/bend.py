"""Whether a plane is contradicted: a test of curves beside it that asks for no equal variances.

Where h is a plane, or beside curves of exogenous columns a line, e = y − h(x) has mean zero given
the instruments, whatever else it is. So has c, the mean of R_i e_i for what instruments tell, R, of
the directions of h beyond that, and its covariance is Ω/n, Ω the mean of R_iR_iᵀe_i²: nothing is
asked of the variances of e, nor of how well stage 1 explains x, which the evidence of stage 2 takes
for a merit of h.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.stats import chi2

from .basis import trend_penalty

SQUARES = 50.0  # times the squared p-value of squares counts as that of curves
PRODUCTS = 20.0  # times that of products does
FREE = np.array([np.finfo(float).eps])  # ξ of what has no prior


@dataclass(frozen=True)
class Plane:
    """What is tested: columns of h, their embeddings, and what holds each in stage 2."""

    X: np.ndarray
    T: np.ndarray
    held: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, T: np.ndarray) -> Plane:
        """Held by δ."""
        return cls(X, T, trend_penalty(X.shape[1], len(X)))

    def beside(self, known: tuple[np.ndarray, np.ndarray] | None) -> Plane:
        """The same beside functions of the instruments, and what holds them."""
        if known is None:
            return self
        more, held = known
        X, T = (np.hstack([columns, more]) for columns in (self.X, self.T))
        return Plane(X, T, np.append(self.held, held))


def chance_of_squares(plane: Plane, R: np.ndarray, y: np.ndarray) -> float:
    """50p² of a plane beside squares of columns, or products, embedded in R; 1 without these.

    It is a test in one direction a column, where few rows show a parabola, and as often small by
    chance as it says; that of curves is the least of many.
    """
    if not R.shape[1]:
        return 1.0
    return SQUARES * chance_of_plane(plane, R, y, FREE) ** 2


def chance_of_products(plane: Plane, R: np.ndarray, y: np.ndarray, noise, wald: float) -> float:
    """20p of a plane beside powers and products that leave this noise; p is not below Wald's.

    Their directions are many, and tails long: by either test alone lines were refused at p < .001.
    Where products are there p is far smaller.
    """
    return PRODUCTS * max(chance_of_plane(plane, R, y, FREE, noise), wald)


def chance_of_plane(
    plane: Plane, R: np.ndarray, y: np.ndarray, regs: np.ndarray, noise: np.ndarray | None = None
) -> float:
    """The least p-value over ξ, from the plane and the embeddings of columns beyond it.

    With b ~ N(0, σ²/(nξ)), c has the covariance (Ω + σ²m²/ξ)/n, m the means of R². In the
    directions in which both are diagonal n^½c is N(0, 1 + g): the Bayes factor of curves to the
    plane is a function of Σwz, z its squares and w = g/(1 + g), which is nearly a multiple of χ² of
    its mean and variance. Of Ω correlations are shrunk, as k of n rows tell them. `noise` is what
    stands for e in it: what another h leaves of y, which has no bend of the plane's in it.
    """
    X, T, n = plane.X, plane.T, len(y)
    cross = X.T @ T / n + np.diag(plane.held)
    e = y - X @ np.linalg.solve(cross.T, T.T @ y / n)
    R = R - T @ np.linalg.solve(cross, X.T @ R / n)
    noise, k = e if noise is None else noise, R.shape[1]
    scores = R * noise[:, None]
    size = np.maximum((scores * scores).mean(0), np.finfo(float).tiny) ** 0.5
    scores /= size
    sizes = (noise @ noise / n) ** 0.5 * (R * R).mean(0) / size  # σm in units of the scores
    shared = (scores.T @ scores + k * np.eye(k)) / (n + k)
    shares, U = eigh(np.diag(sizes**2), shared)
    z = n * ((R.T @ e / n / size) @ U) ** 2
    g = np.maximum(shares, 0.0) / np.maximum(regs, np.finfo(float).tiny)[:, None]
    w = g / (1.0 + g)
    return float(weighted_chi2(w @ z, w.sum(1), (w * w).sum(1)).min())


def weighted_chi2(statistic, total, squares) -> np.ndarray:
    """P(Σ v χ²₁ > statistic), Σv the total, by the multiple of χ² with its mean and variance."""
    tiny = np.finfo(float).tiny
    total, squares = np.maximum(total, tiny), np.maximum(squares, tiny)
    return chi2.sf(statistic * total / squares, np.maximum(total**2 / squares, tiny))

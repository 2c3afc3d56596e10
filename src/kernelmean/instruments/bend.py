"""Whether a plane is contradicted: a test of curves beside it that asks for no equal variances.

Where h is a plane, e = y − h(x) has mean zero given the instruments, whatever else it is. So has
c_j, the mean of R_ij e_i for what instruments tell, R, of each direction of h beyond the plane, and
its variance is Ω_j/n, Ω_j the mean of R_ij² e_i²: nothing is asked of the variances of e, nor of
how well stage 1 explains x, which the evidence of stage 2 takes for a merit of h.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from .basis import trend_penalty


class Bend(NamedTuple):
    """How far a plane is contradicted by the curves that contradict it most."""

    evidence: float = -np.inf  # log of the Bayes factor of curves to the plane
    chance: float = 1.0  # p-value

    @classmethod
    def of(cls, plane: tuple, R: np.ndarray, y: np.ndarray, regs: np.ndarray) -> Bend:
        """At each ξ, from columns of the plane, their embeddings, and those of what is beyond it.

        Of b_j ~ N(0, σ²/(nξ)) c_j has the variance (1 + g_j) Ω_j/n, g_j = σ²m_j²/(ξΩ_j), m_j the
        mean of R_j². Σ w_j nc_j²/Ω_j, w = g/(1 + g), is nearly a multiple of χ² of its mean and
        variance.
        """
        (X, T), n = plane, len(y)
        tiny, trends = np.finfo(float).tiny, X.shape[1]
        cross = X.T @ T / n + np.diag(trend_penalty(trends, n))
        e = y - X @ np.linalg.solve(cross.T, T.T @ y / n)
        R = R - T @ np.linalg.solve(cross, X.T @ R / n)
        own, squares = e * e, R * R
        omega = np.maximum(own @ squares / n, tiny)
        z = (e @ R) ** 2 / (n * omega)
        g = own.mean() * squares.mean(0) ** 2 / omega / np.maximum(regs, tiny)[:, None]
        w = g / (1.0 + g)
        mean, half = (np.maximum(part.sum(1), tiny) for part in (w, w * w))
        chance = chi2.sf(w @ z * mean / half, np.maximum(mean**2 / half, tiny))
        return cls(float((w @ z - np.log1p(g).sum(1)).max()) / 2, float(chance.min()))

    @classmethod
    def strongest(cls, several: Iterable[Bend]) -> Bend:
        """Of several sets of curves, or of none."""
        evidence, chance = zip(cls(), *several, strict=True)
        return cls(max(evidence), min(chance))

"""A density ratio at rows that had no part in it: its leave-one-out score, in closed form."""

import math
from typing import Any, NamedTuple

from ..core import Array, arrays, solves
from ..core.minimise import DECADES, minimise_log10
from ..core.moments import canonical_order, evenly

SCORE_ROWS = 5_000  # that are left out, one by one, in the score


def sampled_equally(alpha) -> bool:
    """Whether weights are equal, as those of a sample are."""
    xp = arrays.namespace(alpha)
    return bool(xp.all(xp.abs(alpha - alpha[0]) < 1e-12 * xp.abs(alpha[0])))


class Beside(NamedTuple):
    """r₀ that kernels are added to: r(z) = r₀(z) + φ(z)ᵀ(A + ηI)⁻¹(m − m₀).

    Attributes
    ----------
    at_z, at_u : arrays of shape (n,), (l,)
        At rows of p and of q.
    first : array of shape (r,)
        m₀, the mean of r₀φ over p.
    square : float
        That of r₀².
    """

    at_z: Array
    at_u: Array
    first: Array
    square: float


class RatioLeftOut:
    """J(η) = (1−a)/(2n) Σ r^{-i}(z_i)² + (a/2) Σ_j α_j r^{-j}(u_j)² − Σ_j α_j r^{-j}(u_j).

    Every row is left out of its own estimate, by rank-one updates of A + ηI:
    r^{-i}(z_i) = r(z_i)/(1 − (1−a) φ_iᵀ(A+ηI)⁻¹φ_i/n), and, with v_j = φ_jᵀ(A+ηI)⁻¹φ_j,
    r^{-j}(u_j) = (r(u_j) − α_j v_j) / ((1 − α_j)(1 − a α_j v_j)); beside r₀ this is so of the part
    that m has in r(u_j).
    Equal weights are taken for a sample of the numerator; any others for the numerator itself,
    of which nothing is left out (a point with its weight is then part of a distribution, and
    without it there would be another one). Copies of a row are left out together: c times 1/n
    and c times α_j stand for these then. Of more than 5,000 rows the score is that of evenly
    spaced ones, each left out of an estimate from all the others.

    Parameters
    ----------
    Phi, second : coordinates of the denominator rows (n, r) and their mean second moment
    U, alpha : coordinates (l, r) of the numerator's points, and their weights
    share : a of the relative ratio
    n : rows that `second` is a mean over, where Phi has some of them only
    beside : r₀, of a ratio that is not a relative one; None is zero
    copies : how often each row of Phi is there, and each of U
    """

    def __init__(
        self,
        Phi,
        second,
        U,
        alpha,
        share: float = 0.0,
        n: int | None = None,
        beside: Beside | None = None,
        copies: tuple[Any, Any] = (None, None),
    ):
        self.share, self.n, self.A = share, n or Phi.shape[0], second
        if share:
            self.A = (1 - share) * second + share * (U.T @ (alpha[:, None] * U))
        self.size = float(arrays.namespace(second).linalg.trace(second))  # mean k(z, z)
        self.grid = solves.EigenGrid.of(self.A)
        Q, sampled = self.grid.vectors, sampled_equally(alpha)
        nothing = Beside(0.0 * Phi[:, 0], 0.0 * U[:, 0], 0.0 * second[:, 0], 0.0)
        at_z, at_u, first, square = beside or nothing
        self.left = alpha @ U - first
        self.known = 0.5 * float(square) - float(alpha @ at_u)  # of J, whatever η is
        self.m, self.rest = (alpha @ U) @ Q, self.left @ Q  # in the eigenbasis of A, as rows are
        out = alpha if sampled else 0.0 * alpha
        of_z, of_u = (
            arrays.namespace(at).ones_like(at) if c is None else arrays.like(c.astype(float), at)
            for c, at in zip(copies, (at_z, at_u), strict=True)
        )
        held = evenly(Phi.shape[0], SCORE_ROWS)
        Phi, at_z, of_z = (arrays.take(A, held, axis=0) for A in (Phi, at_z, of_z))
        if sampled and U.shape[0] > SCORE_ROWS:
            some = canonical_order(U)[evenly(U.shape[0], SCORE_ROWS)]
            U, out, at_u, of_u = (arrays.take(A, some, axis=0) for A in (U, out, at_u, of_u))
            alpha = out * (alpha.shape[0] / SCORE_ROWS)
        self.at_z, self.at_u, self.alpha = at_z, at_u, alpha
        self.of_z, self.of_u = of_z, of_u
        self.out = out * of_u  # of the numerator, with each of its rows
        self.P, self.V = Phi @ Q, U @ Q
        self.P2, self.V2 = self.P * self.P, self.V * self.V  # leverages for every η

    def values(self, reg: float) -> tuple[Array, Array, Array, Array]:
        """The ratio at rows of p and of q, each left out of its own; then with nothing left out."""
        xp, out, shrink = arrays.namespace(self.P), self.out, self.grid.shrink(reg)
        r_z = self.at_z + self.P @ (shrink * self.rest)
        r_u = self.at_u + self.V @ (shrink * self.rest)
        of_m, v = self.V @ (shrink * self.m), self.V2 @ shrink
        left = 1.0 - (1 - self.share) * self.of_z * (self.P2 @ shrink) / self.n
        # a numerator of one point has nothing left when that point is out
        rest = xp.where(xp.abs(1.0 - out) < 1e-12, 1.0, 1.0 - out)
        without = (of_m - out * v) / (rest * xp.clip(1 - self.share * out * v, 1e-10, None))
        return r_z / xp.clip(left, 1e-10, None), r_u - of_m + without, r_z, r_u

    def coefficients(self, reg: float) -> Array:
        """(A + ηI)⁻¹(m − m₀), shape (r,)."""
        return solves.ridge(self.A, reg).solve(self.left)

    def rows(self, at_z, at_u) -> tuple[Array, Array]:
        """The terms of J, of rows of p and of q."""
        return 0.5 * (1 - self.share) * at_z**2, 0.5 * self.share * at_u**2 - at_u

    def score(self, reg: float) -> float:
        """J(η): estimates with nothing left out are of the moments of all rows, the rest of few."""
        c = self.grid.shrink(reg) * self.rest
        at_z, at_u, r_z, r_u = self.values(reg)
        (out_z, out_u), (in_z, in_u) = self.rows(at_z, at_u), self.rows(r_z, r_u)
        of_z = arrays.namespace(self.P).mean(out_z - in_z)
        within = self.known + 0.5 * (self.grid.values @ (c * c)) - self.rest @ c
        return float(within + of_z + self.alpha @ (out_u - in_u))

    def best(self) -> float:
        """The η of the least score; below κ/n, κ = mean k(z, z), only where rows clearly say so.

        From η = κ/n on, φ_iᵀ(A + ηI)⁻¹φ_i/n is at most one half, as A is at least φ_iφ_iᵀ/n: no row
        makes more than half of its own estimate. Below, the score can be the mean of a few large
        terms and its minimum the wildest ratio, so what is gained has to exceed its standard error.
        """
        free, most = self.least(DECADES[0]), float(arrays.namespace(self.P).max(self.of_z)) / self.n
        if free >= self.size * most:
            return free
        safe = self.least(math.log10(most))
        gain, error = self.gain(self.careful_rows(free), self.careful_rows(safe))
        return free if gain > error else safe

    def least(self, low: float) -> float:
        """The η of the least score, of those from a multiple of κ on."""
        return minimise_log10(self.score, low, DECADES[1], size=self.size)[0]

    def careful_rows(self, reg: float) -> tuple[Array, Array]:
        """As if p had had a row at each row of q.

        Otherwise a ratio that explodes where p has none makes q likelier, and nothing is against.
        """
        at_z, at_u, _, _ = self.values(reg)
        more = self.of_u * (self.V2 @ self.grid.shrink(reg)) / self.n
        return self.rows(at_z, at_u / (1.0 + more))

    def gain(self, ours, theirs) -> tuple[float, float]:
        """How far J of careful rows is below that of others, and its standard error."""
        xp = arrays.namespace(self.P)
        z, u = (b - a for a, b in zip(ours, theirs, strict=True))
        off_z, off_u = (z - xp.mean(z)) ** 2, (u - xp.mean(u)) ** 2
        error = float(xp.mean(self.of_z * off_z)) / z.shape[0]
        error += float((self.out**2 / self.of_u) @ off_u)
        return float(xp.mean(z) + self.alpha @ u), error**0.5

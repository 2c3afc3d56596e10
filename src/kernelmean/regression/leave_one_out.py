"""Search for regularisers and lengthscale scales that minimise a closed-form loss."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from ..core import Array, Saveable, arrays, solves
from ..core.minimise import DECADES, heaviest_within, minimise_log10, standard_error
from ..core.moments import canonical_order, evenly
from ..features.landmarks import Nystroem, quietly

SCALES = (-1.0, 1.0)  # range of log10 scale of a lengthscale
ALONE = 1e-7  # 1 − leverage whose square is lost in the rounding of a squared residual
SAFE = 1e-5  # 1 − leverage above which the sum of all rows loses nothing to rounding
SCALE_ROWS = 1_000  # rows that a search over lengthscales looks at
ROWS = 1_000  # whose leverages a search for λ looks at
ROUNDING = 1e-9  # of a loss
WALL = 1e6  # finite, as the search takes differences
PRECISION = 3e-3  # in the logarithm of λ
SCALE_PRECISION = 1e-3  # in that of a scale
PAIRED = 2.0  # standard errors of a difference of losses that a larger λ may cost


def tuned(kernel_x, points_x, kernel_y, points_y, Psi, copies, intercept: bool = False) -> Any:
    """`kernel_x` with a scale of its lengthscales, in `SCALES`, by leave-one-out losses of y.

    They are those of its coordinates Ψ and, where y are numbers, of y itself. The scale has their
    least product: where one falls by a tenth the other may grow by a tenth, whatever their units.
    Of both the first is no larger than without the scale.
    """
    targets = [Psi, standardised(points_y)] if kernel_y.roams else [Psi]
    losses = losses_of_kernels(points_x, targets, intercept, copies)
    most = (1 + ROUNDING) * losses(kernel_x)[0] if len(targets) > 1 else math.inf

    def product(scale: float) -> float:
        found = losses(kernel_x.scaled(scale))
        return math.prod(found) * (1.0 if found[0] <= most else WALL)

    scale, _ = minimise_log10(product, *SCALES, points=9, precision=SCALE_PRECISION)
    return kernel_x.scaled(scale)


def losses_of_kernels(
    points_x, targets: Sequence[Array], intercept=False, copies=None
) -> Callable[[Any], list[float]]:
    """The leave-one-out losses of regressing each of the targets by one kernel of X or another.

    They are compared on at most 1,000 rows, in coarse coordinates (trace to 1e-4, rank 200), each
    at its own best λ, for which half of the leverages are looked at.
    """
    rows = canonical_order(points_x)[evenly(points_x.shape[0], SCALE_ROWS)]
    points, *targets = (arrays.take(A, rows, axis=0) for A in (points_x, *targets))
    targets = [centred(T) if intercept else T for T in targets]
    copies = None if copies is None else copies[rows]

    def losses(kernel) -> list[float]:
        Phi = quietly(Nystroem(tol=1e-4, max_rank=200), points, kernel)
        Phi = centred(Phi) if intercept else Phi
        grid = solves.EigenGrid.of(Phi.T @ Phi / Phi.shape[0])
        each = (LeaveOneOut(Phi, T, grid, free=float(intercept), copies=copies) for T in targets)
        return [one.best(coarse=len(rows) // 2)[1] for one in each]

    return losses


def centred(rows) -> Array:
    """Less their mean."""
    return rows - arrays.namespace(rows).mean(rows, axis=0)


def standardised(rows) -> Array:
    """The same over their standard deviations."""
    return centred(rows) / arrays.units(rows)


class LeaveOneOut(Saveable):
    """Vector-valued leave-one-out loss of a weighted ridge regression of Ψ on Φ, for every λ.

    L(λ) = Σ_i d_i ‖[(I − H)Ψ]_i‖² / (1 − H_ii)², H = Φ(ΦᵀDΦ + λI)⁻¹ΦᵀD, D = diag(d), d_i = 1/n
    when no weights are given (λ held fixed while a row is out). With ΦᵀDΦ = Q diag(s) Qᵀ and
    P = ΦQ, one value costs n r² operations, or n r q of q < r/2 columns of Ψ.

    Parameters
    ----------
    Phi, Psi : arrays of shape (n, r), (n, q)
    grid : of ΦᵀDΦ
    d : array of shape (n,), optional
    n, C : optional
        Number of all rows, of which these are some, and QᵀΦᵀDΨ of all.
    free : float
        1 where rows are centred, beside an intercept that is not penalised.
    copies : array of shape (n,), optional
        How often a row is there: all of them are left out together.
    """

    # a file of an earlier version has none of these
    some, C, free, copies = False, None, 0.0, None

    def __init__(
        self, Phi, Psi, grid: solves.EigenGrid, d=None, *, n=None, C=None, free=0.0, copies=None
    ):
        xp, P = arrays.namespace(Phi), Phi @ grid.vectors
        self.grid, self.P, self.free, self.copies = grid, P, free, copies
        self.norms = xp.sum(Psi * Psi, axis=-1)
        self.d = xp.full_like(self.norms, 1.0 / (n or P.shape[0])) if d is None else d
        C = P.T @ (self.d[:, None] * Psi) if C is None else C
        self.cross, self.inner = P * (Psi @ C.T), C @ C.T
        self.some = n is not None and n > P.shape[0]
        self.C = C if 2 * C.shape[1] <= C.shape[0] else None  # where its columns are few

    def __call__(self, reg: float) -> float:
        return max(self._sum(reg, lambda left: 1.0), 0.0)

    def _sum(self, reg: float, share: Callable) -> float:
        """The rows' parts times a share of each, which depends on what its leverage leaves of one.

        Where leverages are near one the squares that `_squares` sums are lost in rounding.
        """
        xp, shrink = arrays.namespace(self.P), self.grid.shrink(reg)
        left = self._left(shrink)
        if float(xp.min(left)) < SAFE:
            return float(xp.sum(share(left) * self.rows(reg)))
        return self._squares(self.d * share(left) / left**2, shrink)

    def _squares(self, w, shrink) -> float:
        """Σ w_i ‖[(I − H)Ψ]_i‖²; of many columns by a symmetric product, half the work of rows."""
        if self.C is not None:
            fitted = w @ self._fitted(shrink)
        else:
            S = arrays.namespace(w).sqrt(w)[:, None] * self.P
            fitted = shrink @ ((self.inner * (S.T @ S)) @ shrink)
        return float(w @ self.norms - 2 * (w @ (self.cross @ shrink)) + fitted)

    def _fitted(self, shrink) -> Array:
        """‖[HΨ]_i‖², (n,)."""
        xp, Q = arrays.namespace(self.P), self.P * shrink[None, :]
        if self.C is not None:
            return xp.sum((Q @ self.C) ** 2, axis=1)
        return xp.sum((Q @ self.inner) * Q, axis=1)

    def rows(self, reg: float) -> Array:
        """Each row's part of the loss, (n,)."""
        xp = arrays.namespace(self.P)
        shrink = self.grid.shrink(reg)
        squared = self.norms - 2 * (self.cross @ shrink) + self._fitted(shrink)
        left = self._left(shrink)
        own = xp.maximum(squared, arrays.EPS * self.norms) / left**2  # no less than its rounding
        # a row fitted by itself alone is predicted by nothing, or by the others' mean: no better
        alone = self.norms / (1.0 - self.free * self.d) ** 2
        return self.d * xp.where(left < ALONE, xp.maximum(own, alone), own)

    def _left(self, shrink) -> Array:
        """1 − leverage, kept above zero."""
        own = self.d if self.copies is None else self.d * arrays.like(self.copies, self.d)
        return arrays.at_least(1.0 - own * (self.free + (self.P * self.P) @ shrink), 1e-10)

    def best(self, one_se=False, paired=False, coarse: int = ROWS) -> tuple[float, float]:
        """The minimising λ, within `DECADES` of the trace of ΦᵀDΦ, and its loss.

        With `one_se`, the largest λ whose loss is within one standard error of the minimum; if
        `paired`, within two of the difference, which noise that both have does not widen. Of more
        than `coarse` rows the search takes the loss of `estimate`.
        """
        size = float(arrays.namespace(self.P).sum(self.grid.values))
        loss = self.estimate(coarse)
        precision = None if loss is self else PRECISION
        reg, least = minimise_log10(lambda r: loss(r * size), *DECADES, precision=precision)
        if one_se:
            few = self.thinned(coarse)
            alike = 1.0 if self.copies is None else np.mean(arrays.to_numpy(self.copies))
            scale = float(alike * self.d.shape[0] / few.d.shape[0]) ** 0.5  # copies say it once
            at_best = few.rows(reg * size)

            def excess(r: float) -> float:
                terms = PAIRED * (few.rows(r * size) - at_best) if paired else at_best
                return loss(r * size) - least - scale * standard_error(terms)

            reg = heaviest_within(excess, reg, 0.0, DECADES[1])
        return reg * size, self(reg * size)

    def estimate(self, limit: int) -> Callable[[float], float]:
        """The loss, from moments of all rows and what leaving out changes at `limit` of them.

        Σ d_i ‖[(I − H)Ψ]_i‖² = Σ d_i ‖ψ_i‖² − 2 tr(SCCᵀ) + tr(S²diag(s)CCᵀ), S = diag(1/(s + λ)),
        is in nearly all of the loss, and in nearly all of its noise over rows.
        """
        few = self.thinned(limit)
        if few is self:
            return self
        xp = arrays.namespace(self.P)
        own, every = xp.linalg.diagonal(self.inner), float(self.d @ self.norms)
        scale = self.P.shape[0] / few.P.shape[0]
        if self.some:  # moments of all rows are not those of these
            linear, square = self.d @ self.cross, self.inner * ((self.d * self.P.T) @ self.P)

        def loss(reg: float) -> float:
            shrink = self.grid.shrink(reg)
            if self.some:
                within = every + float(shrink @ (square @ shrink - 2 * linear))
            else:
                within = every + float(own @ (shrink * (shrink * self.grid.values - 2.0)))
            return max(within + scale * few._sum(reg, lambda left: 1.0 - left**2), 0.0)

        return loss

    def thinned(self, limit: int) -> Self:
        """The loss over evenly spaced rows, at most `limit` of them."""
        n = self.P.shape[0]
        if n <= limit:
            return self
        rows, few = evenly(n, limit), copy(self)
        for name in ("P", "cross", "norms", "d"):
            setattr(few, name, arrays.take(getattr(self, name), rows, axis=0))
        few.copies, few.some = None if self.copies is None else self.copies[rows], False
        return few

"""Density ratios by kernel least squares (KuLSIF), plain and relative."""

from __future__ import annotations

import math
from typing import ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..core import Array, Block, Line, Moments, Saveable, Summary, arrays, solves
from ..core.checks import as_points, column_names, hushed, note_columns
from ..core.elsewhere import by_blocks, few_of
from ..core.minimise import DECADES, SEARCH_ROWS, minimise_log10
from ..core.moments import Order, canonical_order, evenly
from ..core.parameters import check_parameters, optional, positive, share
from ..core.threads import doors
from ..embedding.embedding import MeanEmbedding, as_one_embedding
from ..embedding.law import names_like
from ..features.choose import as_feature_map
from ..features.landmarks import Nystroem
from ..kernels import Kernel, fitted_kernel, is_tuned

SCORE_ROWS = 5_000  # that are left out, one by one, in the score
SCALES = (2.0, 0.5, 0.25, 0.125)  # of the median lengthscale, that are tried
SCALE_ROWS = 1_000  # that lengthscales are compared on


@by_blocks("predict", tables=("Z",))
@doors("fit", "predict")
class DensityRatio(Saveable, BaseEstimator):
    """r(z) ≈ q(z)/p(z) from rows z_i ~ p and an embedding m of q: r(z) = φ(z)ᵀ(A + ηI)⁻¹m.

    A = ΦᵀΦ/n for the plain ratio. With `relative` = a > 0 the a-relative ratio
    q/(a q + (1 − a) p), bounded by 1/a, is estimated: A = (1 − a) ΦᵀΦ/n + a Σ_j α_j φ(u_j)φ(u_j)ᵀ.

    Parameters
    ----------
    kernel : Kernel, str, scikit-learn kernel or callable
        Its median lengthscale is taken over the denominator; by name, distances are of columns
        over their standard deviations there, and where η is chosen the lengthscale is 2, 1/2, 1/4
        or 1/8 of the median if rows left out clearly say so.
    reg : float, optional
        η, per sample. None takes the minimiser of the closed-form leave-one-out score, below
        mean k(z, z)/n only if clearly (a numerator with unequal weights counts as known: nothing
        of it is left out).
    features : FeatureMap, optional
        None is `Nystroem()`.
    relative : float
        a, in [0, 1).
    verbose : bool
        Tell each stage of `fit`, what was tried in it, and how long it took.

    Attributes
    ----------
    weights_ : array of shape (n,)
        β_i = r(z_i)/n at the denominator rows before flooring: near one in sum.
    reg_, loo_score_ : float
    kernel_, features_ : the kernel and coordinates used
    coef_ : array of shape (r,)

    References
    ----------
    Kanamori, Suzuki, Sugiyama (2012); Yamada et al. (2011) for the relative ratio; MATH §4.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> rng = np.random.default_rng(0)
    >>> p, q = rng.normal(0, 1, (2000, 1)), rng.normal(0.5, 1, (2000, 1))
    >>> ratio = km.DensityRatio().fit(p, q)
    >>> bool(ratio.predict([[1.0]]) > ratio.predict([[-1.0]]))
    True
    """

    ALLOWED: ClassVar = {"reg": optional(positive(zero=True)), "relative": share}
    verbose: bool = False  # a file of an earlier version has none

    def __init__(self, kernel="gaussian", reg=None, features=None, relative=0.0, verbose=False):
        self.kernel = kernel
        self.reg = reg
        self.features = features
        self.relative = relative
        self.verbose = verbose

    def fit(self, denominator, numerator) -> DensityRatio:
        """Learn q/p.

        Parameters
        ----------
        denominator : array of shape (n, d)
            Samples of p. Those of Dask, and `Rows`, are summed where they are; kernel, coordinates
            and η are chosen on 10,000 evenly spaced ones, to which `weights_` belong.
        numerator : array of shape (l, d) or MeanEmbedding
            Samples of q, or a single embedding of it (weights of either sign).
        """
        check_parameters(self)
        rows, denominator = few_of(SEARCH_ROWS, denominator=denominator)
        Z = as_points(denominator, "denominator", min_rows=2)
        note_columns(self, denominator)
        self.kernel_ = fitted_kernel(
            self.kernel, Z, names=column_names(denominator), in_units=True, argument="denominator"
        )
        order = Order.of(Z)
        m = as_one_embedding(numerator, self.kernel_, "numerator", Z.shape[1], "denominator")
        self.features_, share = as_feature_map(self.features), float(self.relative)
        if self.reg is None and is_tuned(self.kernel):
            self.kernel_ = tuned(self.kernel_, order.sorted(Z), m, share)
        Phi = self.features_.fit_transform(order.sorted(Z), self.kernel_)
        order.renumber(self.features_)
        U = self.features_.transform(m.points)
        every = Moments("xx").add(x=Phi) if rows is None else rows.partial("xx", x=self.features_)
        left_out = RatioLeftOut(Phi, every.mean("xx"), U, m.weights, share, every.n)
        self.reg_ = left_out.best() if self.reg is None else float(self.reg)
        self.coef_ = solves.ridge(left_out.A, self.reg_).solve(m.weights @ U)
        self.loo_score_ = left_out.score(self.reg_)
        self.weights_ = order.back(Phi @ self.coef_) / Phi.shape[0]
        return self

    def predict(self, Z) -> Array:
        """r(z) floored at zero, shape (m,)."""
        check_is_fitted(self)
        Z = as_points(Z, "Z")
        found, expected = Z.shape[1], self.features_.n_features_in_
        if found != expected:
            raise ValueError(
                f"Z has {found} columns but the denominator has {expected} (X has {found} "
                f"features, but {type(self).__name__} is expecting {expected} features as input)"
            )
        values = self.features_.transform(Z) @ self.coef_
        return arrays.namespace(values).clip(values, 0.0, None)

    def summary(self) -> Summary:
        """The fit in words and numbers: rows, kernel, η."""
        check_is_fitted(self)
        n = int(self.weights_.shape[0])
        lines = [
            Line.chosen("reg (η)", self.reg_, self.reg),
            Line.of("leave-one-out score", self.loo_score_),
            Line.of("mean ratio over the denominator", float(self.weights_.sum())),
        ]
        return Summary(
            "Density ratio",
            [
                Block("Data", [Line("rows of the denominator", n, f"{n:,}")]),
                self.features_.block("Kernel", names_like(self, self.features_.n_features_in_)),
                Block("Fit", lines),
            ],
        )


def tuned(kernel: Kernel, Z, m: MeanEmbedding, share: float) -> Kernel:
    """At another multiple of its lengthscale, if rows left out clearly prefer that ratio."""
    Z = arrays.take(Z, evenly(Z.shape[0], SCALE_ROWS), axis=0)
    if _sampled(m.weights):
        some = canonical_order(m.points)[evenly(m.points.shape[0], SCALE_ROWS)]
        m = MeanEmbedding(arrays.take(m.points, some, axis=0), kernel=kernel)

    def told(scale: float) -> tuple[RatioLeftOut, tuple[Array, Array]]:
        features = Nystroem(tol=1e-4, max_rank=200)
        with hushed():  # a candidate's rank is nobody's concern
            Phi = features.fit_transform(Z, kernel.scaled(scale))
        U = features.transform(m.points)
        left_out = RatioLeftOut(Phi, Phi.T @ Phi / Phi.shape[0], U, m.weights, share)
        return left_out, left_out.careful_rows(left_out.best())

    left_out, own = told(1.0)
    gains = {scale: left_out.gain(told(scale)[1], own) for scale in SCALES}
    best = max(gains, key=lambda scale: gains[scale][0])
    return kernel.scaled(best) if gains[best][0] > gains[best][1] else kernel


def _sampled(alpha) -> bool:
    """Whether weights are equal, as those of a sample are."""
    xp = arrays.namespace(alpha)
    return bool(xp.all(xp.abs(alpha - alpha[0]) < 1e-12 * xp.abs(alpha[0])))


class RatioLeftOut:
    """J(η) = (1−a)/(2n) Σ r^{-i}(z_i)² + (a/2) Σ_j α_j r^{-j}(u_j)² − Σ_j α_j r^{-j}(u_j).

    Every row is left out of its own estimate, by rank-one updates of A + ηI:
    r^{-i}(z_i) = r(z_i)/(1 − (1−a) φ_iᵀ(A+ηI)⁻¹φ_i/n), and, with v_j = φ_jᵀ(A+ηI)⁻¹φ_j,
    r^{-j}(u_j) = (r(u_j) − α_j v_j) / ((1 − α_j)(1 − a α_j v_j)).
    Equal weights are taken for a sample of the numerator; any others for the numerator itself,
    of which nothing is left out (a point with its weight is then part of a distribution, and
    without it there would be another one). Of more than 5,000 rows the score is that of evenly
    spaced ones, each left out of an estimate from all the others.

    Parameters
    ----------
    Phi, second : coordinates of the denominator rows (n, r) and their mean second moment
    U, alpha : coordinates (l, r) of the numerator's points, and their weights
    share : a of the relative ratio
    n : rows that `second` is a mean over, where Phi has some of them only
    """

    def __init__(self, Phi, second, U, alpha, share: float = 0.0, n: int | None = None):
        self.share, self.n, self.A = share, n or Phi.shape[0], second
        if share:
            self.A = (1 - share) * second + share * (U.T @ (alpha[:, None] * U))
        self.size = float(arrays.namespace(second).linalg.trace(second))  # mean k(z, z)
        self.grid = solves.EigenGrid.of(self.A)
        Q, sampled = self.grid.vectors, _sampled(alpha)
        self.m = (alpha @ U) @ Q  # the numerator, and the rows below, in the eigenbasis of A
        out = alpha if sampled else 0.0 * alpha
        Phi = arrays.take(Phi, evenly(Phi.shape[0], SCORE_ROWS), axis=0)
        if sampled and U.shape[0] > SCORE_ROWS:
            some = canonical_order(U)[evenly(U.shape[0], SCORE_ROWS)]
            U, out = arrays.take(U, some, axis=0), arrays.take(out, some, axis=0)
            alpha = out * (alpha.shape[0] / SCORE_ROWS)
        self.alpha, self.out = alpha, out  # what is left out with each row of the numerator
        self.P, self.V = Phi @ Q, U @ Q
        self.P2, self.V2 = self.P * self.P, self.V * self.V  # leverages for every η

    def values(self, reg: float) -> tuple[Array, Array, Array, Array]:
        """The ratio at rows of p and of q, each left out of its own; then with nothing left out."""
        xp, out, shrink = arrays.namespace(self.P), self.out, self.grid.shrink(reg)
        r_z, r_u = self.P @ (shrink * self.m), self.V @ (shrink * self.m)
        v = self.V2 @ shrink
        left = 1.0 - (1 - self.share) * (self.P2 @ shrink) / self.n
        # a numerator of one point has nothing left when that point is out
        rest = xp.where(xp.abs(1.0 - out) < 1e-12, 1.0, 1.0 - out)
        at_u = (r_u - out * v) / (rest * xp.clip(1 - self.share * out * v, 1e-10, None))
        return r_z / xp.clip(left, 1e-10, None), at_u, r_z, r_u

    def rows(self, at_z, at_u) -> tuple[Array, Array]:
        """The terms of J, of rows of p and of q."""
        return 0.5 * (1 - self.share) * at_z**2, 0.5 * self.share * at_u**2 - at_u

    def score(self, reg: float) -> float:
        """J(η): estimates with nothing left out are of the moments of all rows, the rest of few."""
        c = self.grid.shrink(reg) * self.m
        at_z, at_u, r_z, r_u = self.values(reg)
        (out_z, out_u), (in_z, in_u) = self.rows(at_z, at_u), self.rows(r_z, r_u)
        of_z = arrays.namespace(self.P).mean(out_z - in_z)
        within = 0.5 * (self.grid.values @ (c * c)) - self.m @ c
        return float(within + of_z + self.alpha @ (out_u - in_u))

    def best(self) -> float:
        """The η of the least score; below κ/n, κ = mean k(z, z), only where rows clearly say so.

        From η = κ/n on, φ_iᵀ(A + ηI)⁻¹φ_i/n is at most one half, as A is at least φ_iφ_iᵀ/n: no row
        makes more than half of its own estimate. Below, the score can be the mean of a few large
        terms and its minimum the wildest ratio, so what is gained has to exceed its standard error.
        """
        free = self.least(DECADES[0])
        if free >= self.size / self.n:
            return free
        safe = self.least(-math.log10(self.n))
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
        return self.rows(at_z, at_u / (1.0 + self.V2 @ self.grid.shrink(reg) / self.n))

    def gain(self, ours, theirs) -> tuple[float, float]:
        """How far J of careful rows is below that of others, and its standard error."""
        xp = arrays.namespace(self.P)
        z, u = (b - a for a, b in zip(ours, theirs, strict=True))
        error = float(xp.var(z)) / z.shape[0] + float(xp.var(u) * (self.out @ self.out))
        return float(xp.mean(z) + self.alpha @ u), error**0.5

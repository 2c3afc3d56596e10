"""Density ratios by kernel least squares (KuLSIF), plain and relative."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, Self

from sklearn.utils.validation import check_is_fitted

from ..core import Array, Block, Line, Moments, Rows, Summary, arrays
from ..core.checks import as_points, check_order, column_names, counted, note_columns
from ..core.elsewhere import by_blocks, few_of
from ..core.minimise import SEARCH_ROWS
from ..core.moments import Order, canonical_order, copies, evenly
from ..core.parameters import Estimator, check_parameters, optional, positive, share
from ..core.threads import doors
from ..embedding.embedding import MeanEmbedding, as_one_embedding
from ..embedding.law import names_like
from ..features.choose import as_feature_map
from ..features.landmarks import Nystroem, quietly
from ..kernels import Kernel, fitted_kernel, is_tuned
from .left_out import Beside, RatioLeftOut, sampled_equally
from .odds import Logistic, Odds, best_odds

SCALES = (2.0, 0.5, 0.25, 0.125)  # of the median lengthscale, that are tried
SCALE_ROWS = 1_000  # that lengthscales are compared on
FEWEST = 5  # rows of a numerator: fewer do not say how surely one ratio is nearer than another


@by_blocks("predict", tables=("Z",))
@doors("fit", "predict")
class DensityRatio(Estimator):
    """r(z) ≈ q(z)/p(z) from rows z_i ~ p and an embedding m of q: r(z) = φ(z)ᵀ(A + ηI)⁻¹m.

    A = ΦᵀΦ/n for the plain ratio. Where η and the lengthscale are chosen it starts from the odds r₀
    of a logistic regression, of which sample a row is of, if rows left out clearly are nearer so:
    r(z) = r₀(z) + φ(z)ᵀ(A + ηI)⁻¹(m − m₀), m₀ the mean of r₀φ over p. With `relative` = a > 0 the
    a-relative ratio q/(a q + (1 − a) p), bounded by 1/a, is estimated:
    A = (1 − a) ΦᵀΦ/n + a Σ_j α_j φ(u_j)φ(u_j)ᵀ.

    Parameters
    ----------
    kernel : Kernel, str, scikit-learn kernel or callable
        Its median lengthscale is taken over the denominator; by name, distances are of columns
        over their standard deviations there, and where η is chosen the lengthscale is 2, 1/2, 1/4
        or 1/8 of the median if rows left out clearly say so (five of the numerator, or more).
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
    odds_ : callable or None
        r₀, of columns or of their squares and products too, and at most what it is at rows of p.
        None where kernels alone are about as near, a kernel or η is given, the ratio is relative,
        the numerator is no sample, or rows are angles.
    odds_gain_ : float
        By how much J of rows left out is smaller with it; nan where it is not tried, or would rest
        on fewer than five rows a coefficient.

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
    verbose: bool = False  # a file of an earlier version has none, nor odds
    odds_: Odds | None = None
    odds_gain_: float = math.nan

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
        names, d = column_names(denominator), Z.shape[1]
        self.kernel_ = fitted_kernel(
            self.kernel, Z, names=names, in_units=True, argument="denominator"
        )
        order = Order.of(Z)
        m = as_one_embedding(numerator, self.kernel_, "numerator", d, "denominator", names)
        self.features_, share = as_feature_map(self.features), float(self.relative)
        rows_z, self.odds_, self.odds_gain_ = order.sorted(Z), None, math.nan
        if self.reg is None and is_tuned(self.kernel):
            few = FewRows.of(rows_z, m, share)
            self.kernel_ = few.tuned(self.kernel_)
            way, self.odds_gain_ = few.beside_odds(self.kernel_)
            self.odds_ = way and way.odds(arrays.to_numpy(rows_z), arrays.to_numpy(m.points))
        Phi = self.features_.fit_transform(rows_z, self.kernel_)
        order.renumber(self.features_)
        U = self.features_.transform(m.points)
        every = self._sums(Phi, rows_z, rows)
        beside = self._beside(every, rows_z, m.points)
        alone = rows is None and self.reg is None  # given one, every row is left out by itself
        each = (copies(rows_z), copies(m.points)) if alone else (None, None)
        left_out = RatioLeftOut(Phi, every.mean("xx"), U, m.weights, share, every.n, beside, each)
        self.reg_ = left_out.best() if self.reg is None else float(self.reg)
        self.coef_ = left_out.coefficients(self.reg_)
        self.loo_score_ = left_out.score(self.reg_)
        self.weights_ = order.back(self._values(rows_z, Phi)) / Phi.shape[0]
        return self

    def _sums(self, Phi, Z, rows: Rows | None) -> Moments:
        names = ("xx",) if self.odds_ is None else ("xx", "xr", "rr")
        if rows is not None:
            return rows.partial(*names, x=self.features_, r=self.odds_)
        return Moments(*names).add(x=Phi, r=Phi if self.odds_ is None else self.odds_.transform(Z))

    def _beside(self, every: Moments, Z, points) -> Beside | None:
        if self.odds_ is None:
            return None
        first, square = every.mean("xr")[:, 0], every.mean("rr")[0, 0]
        return Beside(self.odds_(Z), self.odds_(points), first, square)

    def predict(self, Z) -> Array:
        """r(z) floored at zero, shape (m,)."""
        check_is_fitted(self)
        check_order(Z, getattr(self, "_columns", None), "Z", "the denominator")
        Z = as_points(Z, "Z")
        found, expected = Z.shape[1], self.features_.n_features_in_
        if found != expected:
            raise ValueError(
                f"Z has {counted(found, 'column')}, the denominator {expected} (X has {found} "
                f"features, but {type(self).__name__} is expecting {expected} features as input)"
            )
        values = self._values(Z, self.features_.transform(Z))
        return arrays.namespace(values).clip(values, 0.0, None)

    def _values(self, Z, Phi) -> Array:
        values = Phi @ self.coef_
        return values if self.odds_ is None else values + self.odds_(Z)

    def summary(self) -> Summary:
        """The fit in words and numbers: rows, kernel, η."""
        check_is_fitted(self)
        n = int(self.weights_.shape[0])
        lines = [
            Line.chosen("reg (η)", self.reg_, self.reg),
            Line.of("leave-one-out score", self.loo_score_),
            Line.of("mean ratio over the denominator", float(self.weights_.sum())),
        ]
        if not math.isnan(self.odds_gain_):
            kept = "they are the start" if self.odds_ else "kernels are alone"
            told = f" of the score, gained by the odds of a logistic regression: {kept}"
            lines.append(Line.of("on rows left out", self.odds_gain_, told))
        return Summary(
            "Density ratio",
            [
                Block("Data", [Line("rows of the denominator", n, f"{n:,}")]),
                self.features_.block("Kernel", names_like(self, self.features_.n_features_in_)),
                Block("Fit", lines),
            ],
        )


class FewRows(NamedTuple):
    """Up to 1,000 rows of each sample: kernels, and odds beside them, are compared on these."""

    Z: Array
    m: MeanEmbedding
    share: float
    copies: tuple[Any, Any]  # how often each row is there, of either

    @classmethod
    def of(cls, Z, m: MeanEmbedding, share: float) -> Self:
        """Evenly spaced ones, in their canonical order, of Z that is in its own."""
        Z = arrays.take(Z, evenly(Z.shape[0], SCALE_ROWS), axis=0)
        if sampled_equally(m.weights):
            some = canonical_order(m.points)[evenly(m.points.shape[0], SCALE_ROWS)]
            m = MeanEmbedding(arrays.take(m.points, some, axis=0), kernel=m.kernel)
        return cls(Z, m, share, (copies(Z), copies(m.points)))

    def tuned(self, kernel: Kernel) -> Kernel:
        """At another multiple of its lengthscale, if rows left out clearly prefer that ratio."""
        if sampled_equally(self.m.weights) and self.m.points.shape[0] < FEWEST:
            return kernel
        own = self._left_out(*self._coordinates(kernel))
        rows = own.careful_rows(own.best())
        gains = {}
        for scale in SCALES:
            other = self._left_out(*self._coordinates(kernel.scaled(scale)))
            gains[scale] = own.gain(other.careful_rows(other.best()), rows)
        best = max(gains, key=lambda scale: gains[scale][0])
        return kernel.scaled(best) if gains[best][0] > gains[best][1] else kernel

    def beside_odds(self, kernel: Kernel) -> tuple[Logistic | None, float]:
        """How odds are learned if rows left out clearly prefer kernels beside them; J's gain.

        There are none where the numerator is no sample, the ratio relative, or rows are angles.
        """
        if self.share or not kernel.lined or not sampled_equally(self.m.weights):
            return None, math.nan
        found = best_odds(arrays.to_numpy(self.Z), arrays.to_numpy(self.m.points))
        if found is None:
            return None, math.nan
        at_z, at_u = (arrays.like(at, self.Z) for at in found[1:])
        Phi, U = self._coordinates(kernel)
        beside = Beside(at_z, at_u, at_z @ Phi / Phi.shape[0], at_z @ at_z / Phi.shape[0])
        alone, both = self._left_out(Phi, U), self._left_out(Phi, U, beside)
        gain, error = alone.gain(*(r.careful_rows(r.best()) for r in (both, alone)))
        return found[0] if gain > error else None, gain

    def _coordinates(self, kernel: Kernel) -> tuple[Array, Array]:
        features = Nystroem(tol=1e-4, max_rank=200)
        return quietly(features, self.Z, kernel), features.transform(self.m.points)

    def _left_out(self, Phi, U, beside: Beside | None = None) -> RatioLeftOut:
        second = Phi.T @ Phi / Phi.shape[0]
        weights = self.m.weights
        return RatioLeftOut(Phi, second, U, weights, self.share, None, beside, self.copies)

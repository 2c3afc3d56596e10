"""Conditional mean embeddings: operators x ↦ μ_{Y|x} that compose and apply to embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..core import Array, Interval, Labels, Moments, Rows, Saveable, arrays, checks, solves
from ..core.elsewhere import by_blocks, few_of
from ..core.minimise import SEARCH_ROWS
from ..core.moments import Order, how_often
from ..core.parameters import Estimator, auto, check_parameters, flag, optional, positive
from ..core.summary import Block, Line, Summary
from ..core.threads import doors
from ..embedding.embedding import MeanEmbedding, as_embedding
from ..embedding.law import interval_like_target, like_target, names_like
from ..features.choose import as_target_map, fit_pairs, kernel_of, refuse_lengthscale
from .leave_one_out import LeaveOneOut, tuned
from .smoother import with_ones
from .support import Support
from .width import Told, told

OUTSIDE = "answers are those at the nearest point of its box"


class ConditionalOperator(Saveable):
    """What every fitted map x ↦ MeanEmbedding can do, written in terms of `at` and `apply`."""

    def at(self, X) -> MeanEmbedding:
        """The batch of embeddings of Y given each row of `X`."""
        raise NotImplementedError

    def apply(self, m) -> MeanEmbedding:
        """The sum rule: the embedding of Y when X has the distribution `m`."""
        raise NotImplementedError

    def weights(self, X) -> Array:
        """w(x) for each row of `X`, shape (batch, n)."""
        return self.at(X).weights

    def expectation(self, f: Callable, X) -> Array:
        """Σ_i w_i(x) f(y_i), not normalised: (batch,) or (batch, k).

        Parameters
        ----------
        f : callable
            Maps points (n, d) to (n,) or (n, k).
        X : array of shape (batch, d)
        """
        return self.at(X).expectation(f)

    def predict(self, X) -> Array:
        """Σ_i w_i(x) y_i, not normalised: kernel ridge regression of Y on X."""
        m = self.at(X)
        return m.apply_weights(m.points)

    def __matmul__(self, first: ConditionalOperator) -> Composition:
        """`second @ first`: x ↦ the embedding of Z, through Y (E_{Z|Y} E_{Y|X})."""
        if not isinstance(first, ConditionalOperator):
            return NotImplemented
        return Composition(self, first)


@by_blocks("predict", "predict_interval", "predict_quantile")
@doors("fit", "at", "apply", "predict", "predict_interval", "predict_quantile")
@dataclass(eq=False, repr=False)
class ConditionalEmbedding(ConditionalOperator, MultiOutputMixin, RegressorMixin, Estimator):
    """μ_{Y|x} = Σ_i w_i(x) k(y_i, ·), w(x) = (K_X + nλI)⁻¹ k_X(x).

    In coordinates w(x) = Φ(ΦᵀΦ + nλI)⁻¹φ(x), and the operator is E = ΨᵀΦ(ΦᵀΦ + nλI)⁻¹. With an
    intercept, which is not penalised, coordinates of X are less their mean φ̄, and weights
    1/n + Φ(ΦᵀΦ + nλI)⁻¹(φ(x) − φ̄) sum to one.

    Parameters
    ----------
    kernel_x, kernel_y : Kernel, str, scikit-learn kernel or callable
        By name, distances are of columns over their standard deviations, so that units do not
        matter. What is chosen by leave-one-out suits whole laws of y, as weights on rows; with
        `kernel_y="linear"` it suits their means, where only `predict` is asked for. Where y has
        little noise, laws of `ConditionalDensity` are several times sharper.
    reg : float, optional
        λ, per sample. None takes the minimiser of the closed-form leave-one-out loss.
    features : FeatureMap, optional
        Coordinates for X and for Y; None is `Nystroem()`.
    tune_lengthscale : bool
        Also choose a scale for the lengthscales of `kernel_x`, in [0.1, 10]: where the same loss,
        times that of means of y, is least, and itself no larger than unscaled. Laws alone ask for
        shorter ones, by which means can be much farther off.
    intercept : bool or "auto"
        Without one, laws and means are drawn towards zero by λ: with y far from zero `predict` can
        be off by many standard deviations of y. "auto" is the published form if `reg` is given.
    verbose : bool
        Tell each stage of `fit`, what was tried in it, and how long it took.

    Attributes
    ----------
    reg_ : float
    loo_score_ : float
        Leave-one-out loss (1/n) Σ_i ‖ψ(y_i) − μ^{-i}_{Y|x_i}‖² at `reg_`.
    kernel_x_, kernel_y_ : Kernel
    features_x_, features_y_ : FeatureMap
    intercept_ : bool
    operator_ : array of shape (r_y, r_x)
        E in coordinates; with an intercept, of φ(x) − φ̄ to ψ − ψ̄.
    points_x_, points_ : arrays of shape (n, d_x), (n, d_y)
        The training pairs; of rows that are elsewhere, 10,000 evenly spaced ones.
    coef_ : array of shape (r_x, d_y)
        Of the mean of Y: (ΦᵀΦ/n + λI)⁻¹ΦᵀY/n.
    target_names_ : list of str or None
        Names of the columns of a table y.

    References
    ----------
    Song, Huang, Smola, Fukumizu (2009); Grünewälder et al. (2012); MATH §3.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (300, 1))
    >>> Y = X[:, 0] ** 2 + 0.1 * rng.standard_normal(300)
    >>> c = km.ConditionalEmbedding().fit(X, Y)
    >>> c.predict([[0.0], [1.0]]).round(1)
    array([0., 1.])
    """

    ALLOWED: ClassVar = {
        "reg": optional(positive(zero=True)),
        "tune_lengthscale": flag,
        "intercept": auto,
    }
    was: ClassVar = {"intercept": False}
    intercept_ = False  # a file of an earlier version has none of these
    _centre: tuple | None = field(default=None, init=False)  # means of Φ and Y
    target_names_: list[str] | None = field(default=None, init=False)
    _support: Support | None = field(default=None, init=False)
    coef_: Array | None = field(default=None, init=False)
    _sums: tuple | None = field(default=None, init=False)
    _told: tuple | None = field(default=None, init=False)  # of laws, once it was sought
    _order: Order = field(default=Order(), init=False)  # of rows of Φ and Ψ

    kernel_x: Any = "gaussian"
    kernel_y: Any = "gaussian"
    reg: float | None = None
    features: Any = None
    tune_lengthscale: bool = False
    intercept: Any = "auto"
    verbose: bool = False

    def fit(self, X, y) -> ConditionalEmbedding:
        """Learn the operator from pairs.

        Arrays and DataFrames of Dask, and `Rows`, are summed where they are: kernels, coordinates
        and λ are chosen on 10,000 evenly spaced rows, the operator and `predict` are of all. The
        weights of laws (`at`, intervals, quantiles) are on those 10,000.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d_x)
        y : array or DataFrame of shape (n,) or (n, d_y)
            The conditioned variable Y.

        Raises
        ------
        ValueError
            On malformed, non-finite or constant input, fewer than two rows, or a negative `reg`.
        """
        rows, X, y = few_of(SEARCH_ROWS, X=X, y=y)
        check_parameters(self)
        self.points_x_, self.points_ = pairs = checks.as_pairs(self, X, y)
        self.one_output_ = checks.as_floats(y, "y").ndim == 1
        self.target_names_ = checks.column_names(y)
        self._order = Order.of(*pairs)
        points_x, points_y = map(self._order.sorted, pairs)
        kernel_x = kernel_of(self.kernel_x, points_x, checks.column_names(X), "X")
        self.kernel_y_ = kernel_of(self.kernel_y, points_y, self.target_names_, "y")
        self.intercept_ = self.reg is None if self.intercept == "auto" else bool(self.intercept)
        self.features_y_ = as_target_map(self.features)
        Psi = self.features_y_.fit_transform(points_y, self.kernel_y_)
        if self.tune_lengthscale:
            refuse_lengthscale(self.features)
            known = points_x, self.kernel_y_, points_y, Psi, how_often(points_x, points_y)
            kernel_x = tuned(kernel_x, *known, self.intercept_)
        self.features_x_, Phi = fit_pairs(
            self.features, points_x, kernel_x, points_y, self.kernel_y_
        )
        self.kernel_x_ = self.features_x_.kernel_
        self._order.renumber(self.features_x_, self.features_y_)
        self._support = Support.of(points_x) if rows is None else rows.in_slices(Support.of, 1)
        self._told = None
        self._solve(Phi, Psi, self._moments(rows, Phi, Psi, points_y))
        return self

    def at(self, X) -> MeanEmbedding:
        """The batch of embeddings μ_{Y|x} for the rows of `X`.

        Outside the box that the training rows fill, those at the nearest point of it: kernels go
        to zero there, unevenly, and weights divided by their sum would be of any size. They are
        flagged (`extrapolated`), and warned of where that is by a tenth of the width of the box.
        Densities, draws and modes have the bandwidth of laws of rows left out, as posteriors of
        `KernelBayes` do, and a hundredth of a wide law, so that log densities are finite; modes
        unless those by `kernel_y` are clearly nearer to those rows.

        Parameters
        ----------
        X : array or DataFrame of shape (batch, d_x)

        Returns
        -------
        MeanEmbedding
            A batch on the training points of Y.
        """
        law, labels = self._law(X), Labels.of(X, self.target_names_)
        if self._told is None:
            rows = self._order.sorted(self.points_), None, self._Phi, np.ones(self._Phi.shape[0])
            copies = self._copies()
            self._told = told(self.kernel_y_, *rows, self.reg_, self.intercept_, copies=copies)
        known = Told(*self._told).known(self.kernel_y_)  # of a file, a tuple
        return law.carrying(labels=labels, extrapolated=law.extrapolated, **known)

    def _law(self, X) -> MeanEmbedding:
        """As far as expectations and quantiles need it."""
        Phi, outside = self._coordinates(X)
        law = self._embed(Phi, arrays.namespace(Phi).ones_like(Phi[:, :1]))
        return law.carrying(extrapolated=outside)

    def _coordinates(self, X) -> tuple[Array, np.ndarray | None]:
        """Of the nearest points of the box, and which rows are outside."""
        points, outside = checks.as_new_points(self, X), None
        if self._support is not None:
            outside = self._support.outside(points, self.kernel_x_, OUTSIDE)
            points = self._support.nearest(points, self.kernel_x_)
        return self.features_x_.transform(points), outside

    def apply(self, m) -> MeanEmbedding:
        """Sum rule: E applied to a prior, Σ_i w_i k(y_i, ·) with w = Σ_j α_j w(u_j).

        Parameters
        ----------
        m : MeanEmbedding or array of samples
            Distribution of X: one or a batch, weights of either sign.
        """
        check_is_fitted(self)
        d, names = self.n_features_in_, Labels.known_to(self).columns
        m = as_embedding(m, self.kernel_x_, "m", d, "the training X", names)
        Phi = self.features_x_.transform(m.points)
        mass = m.apply_weights(arrays.namespace(Phi).ones_like(Phi[:, :1]))
        found = self._embed(m.apply_weights(Phi), mass)
        labels = replace(Labels.of(None, self.target_names_), index=m.labels.index)
        return found.carrying(labels=labels, extrapolated=m.extrapolated)

    def predict(self, X) -> Array:
        """Σ_i w_i(x) y_i, the conditional mean without normalisation, (batch,) or (batch, d_y).

        Equal to kernel ridge regression with penalty nλ (`KernelRidge(alpha=n * reg)`), with an
        intercept that of y less its mean on centred coordinates; outside the box of the data to
        that at its nearest point. Without an intercept `at(X).mean()` divides by Σ_i w_i(x) too.
        """
        if self.coef_ is None:
            return like_target(super().predict(X), self.one_output_)
        Phi, _ = self._coordinates(X)
        x, y = self._centre or (0.0, 0.0)
        return like_target((Phi - x) @ self.coef_ + y, self.one_output_)

    def predict_interval(self, X, level: float = 0.95) -> Interval:
        """`Interval(lower, upper)` of each column of y with probability `level`, arrays like y.

        Between quantiles of the weighted training points: no smoothing.
        """
        return interval_like_target(self._law(X), level, self.one_output_)

    def predict_quantile(self, X, q) -> Array:
        """Quantiles of the weighted training points: (batch,), or (batch, k) for several levels.

        With d_y behind if y had columns.
        """
        return like_target(self._law(X).quantile(q), self.one_output_)

    def score(self, X, y, sample_weight=None) -> float:
        """R² of `predict`, its average over the columns of y."""
        check_is_fitted(self)
        checks.check_order(y, self.target_names_, "y", "the training y")
        return super().score(X, checks.as_points(y, "y"), sample_weight)

    def loo_score(self, reg):
        """Leave-one-out loss at another λ, or at each of several, an array as long as `reg`."""
        loss = self.leave_one_out()
        if isinstance(reg, list | tuple) or np.ndim(reg):
            return np.array([loss(checks.check_positive(value, "reg")) for value in reg])
        return loss(checks.check_positive(reg, "reg"))

    def leave_one_out(self) -> LeaveOneOut:
        """The leave-one-out loss as a function of λ."""
        check_is_fitted(self)
        Phi, Psi = self._Phi, self._Psi
        n = Phi.shape[0]
        # a file of an earlier version has no sums
        n, second, cross = self._sums or (n, Phi.T @ Phi / n, Phi.T @ Psi / n)
        grid = solves.EigenGrid.of(second)
        C, free = grid.vectors.T @ cross, float(self.intercept_)
        return LeaveOneOut(Phi, Psi, grid, n=n, C=C, free=free, copies=self._copies())

    def _copies(self) -> np.ndarray | None:
        return how_often(*map(self._order.sorted, (self.points_x_, self.points_)))

    def summary(self) -> Summary:
        """The fit in words and numbers: rows, kernels, λ."""
        check_is_fitted(self)
        n, d = self.points_.shape
        targets = Labels.of(None, self.target_names_).named(d)
        fit = [
            Line.chosen("reg (λ)", self.reg_, self.reg),
            Line("intercept", self.intercept_, "yes" if self.intercept_ else "no"),
            Line.of("leave-one-out loss", self.loo_score_),
        ]
        blocks = [
            Block("Data", [Line("rows", n, f"{n:,}")]),
            self.features_x_.block("Kernel on X", names_like(self, self.points_x_.shape[1])),
            self.features_y_.block("Kernel on y", targets),
            Block("Fit", fit),
        ]
        return Summary("Conditional mean embedding of " + ", ".join(targets), blocks)

    # ------------------------------------------------------------ inside

    def _moments(self, rows: Rows | None, Phi, Psi, points_y) -> Moments:
        """Sums over all rows, of which Φ and Ψ may be a few."""
        names = "x", "y", "t", "xx", "xy", "xt"
        if rows is not None:
            return rows.partial(*names, x=self.features_x_, y=(1, self.features_y_), t=(1, None))
        return Moments(*names).add(x=Phi, y=Psi, t=points_y)

    def _solve(self, Phi, Psi, moments: Moments) -> None:
        """E = ΨᵀΦ(ΦᵀΦ + nλI)⁻¹, λ given or chosen by leave-one-out."""
        x, y, t, second, cross, means = (moments.mean(name) for name in moments.names)
        self._Phi, self._Psi, self._centre = Phi, Psi, None
        if self.intercept_:
            self._Phi, self._Psi, self._centre = Phi - x, Psi - y, (x, t)
            second, cross, means = (
                own - x[:, None] * mean for own, mean in ((second, x), (cross, y), (means, t))
            )
        self._sums = moments.n, second, cross  # that the loss is of
        loss = self.leave_one_out()
        self.reg_, value = loss.best() if self.reg is None else (float(self.reg), loss(self.reg))
        self.loo_score_ = value * moments.n / Phi.shape[0]  # a mean over the rows looked at
        self._ridge = solves.ridge(second, self.reg_)
        self.operator_, self.coef_ = self._ridge.solve(cross).T, self._ridge.solve(means)

    def _embed(self, coordinates, mass) -> MeanEmbedding:
        """Embedding with weights Φ(ΦᵀΦ + nλI)⁻¹u for coordinates u of X (one, or a batch)."""
        n, right = self._Phi.shape[0], self._order.back(self._Phi)
        if self._centre is None:
            left = self._ridge.solve_rows(coordinates) / n
        else:
            off = self._ridge.solve_rows(coordinates - mass * self._centre[0])
            left = arrays.namespace(off).concat([mass, off], axis=-1) / n
            right = with_ones(right)
        return MeanEmbedding.of_parts(self.points_, left, right, self.kernel_y_)


class Composition(ConditionalOperator):
    """`second @ first`, x ↦ second.apply(first.at(x)) (Spiteri 2023, Lemma 4.3)."""

    def __init__(self, second: ConditionalOperator, first: ConditionalOperator):
        self.second = second
        self.first = first

    def at(self, X) -> MeanEmbedding:
        return self.second.apply(self.first.at(X))

    def apply(self, m) -> MeanEmbedding:
        return self.second.apply(self.first.apply(m))

    def __repr__(self) -> str:
        return f"{self.second!r} @ {self.first!r}"

"""Conditional densities from conditional mean embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core import arrays
from ..core.checks import (
    Array,
    as_floats,
    as_levels,
    as_points,
    check_choice,
    check_columns,
    check_count,
    check_lengths,
    check_level,
    check_positive,
    check_target,
    column_names,
    frozen,
    generator,
)
from ..core.moments import block_rows, row_blocks
from ..core.progress import track
from ..core.saving import Saveable
from ..embedding.embedding import MeanEmbedding
from ..embedding.line import Line
from ..features.choose import as_feature_map, learns_from_pairs
from ..kernels import Kernel, Periodic, fitted_kernel
from ..regression.lengthscales import TUNABLE
from ..regression.smoother import Smoother
from .bandwidth import with_bandwidth
from .fit import Draft, Fit, Plan
from .score import DensityScore, Target
from .search import ROUNDS

EVALUATIONS = 2**28  # of the kernel, beyond which densities of pairs are interpolated
LOWEST = 1e-6  # a density in a mean of logarithms is no less, per standard deviation of y


class ConditionalDensity(Saveable, BaseEstimator):
    """p(y | x) = max(q, 0)/∫max(q, 0), q(y | x) = Σ_j w_j(x) k̄_γ(y_j, y)/Σ_j w_j(x).

    w(x) = (K_X + nλI)⁻¹k_X(x) are the weights of the conditional mean embedding, k̄_γ is the
    smoothing kernel, of integral one, with the bandwidth γ. Bandwidth, lengthscales and λ minimise
    the leave-one-out score in closed form, M = (1/n) Σ_i [∫ q⁻ⁱ(y|x_i)² dy − 2 q⁻ⁱ(y_i|x_i)].

    When λ is chosen, two things are added to the estimator of the thesis. An intercept, which is
    not penalised: weights sum to one, and what a large λ leaves is the marginal density, not
    nothing. And, where it has the smaller score, a location: the density is that of residuals
    around a smooth mean m(x), q(y | x) = Σ_j w_j(x) k̄_γ(e_j, y − m(x)), with the leave-one-out
    residuals e_j = y_j − m⁻ʲ(x_j). Where x mostly moves Y, as it does in regression, a
    distribution that moves along need not be learned anew at every x. Outside the data neither
    says anything: there the weights are those of no x at all, and the mean goes on as a line.

    Parameters
    ----------
    kernel_x : Kernel, str, scikit-learn kernel or callable
        By name: a product over columns, each with a lengthscale of its own.
    bandwidth : float or sequence of float, optional
        γ, or one per column of Y; around a location, that of the residuals. None is the largest
        multiple of Silverman's rule whose score is within half a standard error of the best,
        sought on at most 1,500 evenly spaced rows (values of y that repeat drawn apart); it falls
        from there at the rate n^{−1/(d_y+4)}.
    reg : float, optional
        λ, per sample; None is chosen by the score.
    features : FeatureMap, optional
        Coordinates of X; None is `Nystroem()`.
    kernel_y : Kernel or str
        The smoothing kernel (Gaussian, Laplace or Matern); a lengthscale of its own is replaced by
        the bandwidth. "gaussian4", of order four, is for one smooth column of Y: errors were 6 to
        16% smaller on eight simulated models.
    intercept : "auto" or bool
        "auto" is True where λ is chosen, False where it is given.
    location : "auto" or bool
        "auto" compares both where λ and the bandwidth are chosen, and is False where one is given.
    tune_lengthscale : "auto" or bool
        Whether the lengthscales of X are scaled: all by one factor, or each column by its own, as
        loosely tied to the others as what is found on half of the rows says for the other half
        (ten rows a column are needed for that). "auto" does so for
        kernels given by name, where λ is chosen.
    verbose : bool or callable
        Show the progress of the search.

    Attributes
    ----------
    bandwidth_ : array of shape (d_y,)
    reg_ : float
    loo_score_ : float
        M at the parameters used, with nλ held fixed while a row is out; around a location, of the
        density of the residuals.
    kernel_x_, kernel_y_, features_ : as used
    scales_ : array of shape (d_x,)
        Lengthscales found, as multiples of the medians.
    intercept_ : bool
    location_ : Location or None
        The smooth mean m, a function of rows of X.
    points_x_, points_ : arrays of shape (n, d_x), (n, d_y)
        X, and Y or its residuals.
    target_names_ : list of str or None
        Names of the columns of a table y.

    References
    ----------
    Spiteri (2023), chapter 2: eq. 2.10, 2.11; Fan and Yim (2004), A crossvalidation method for
    estimating conditional densities; Hyndman, Bashtannyk, Grunwald (1996), Estimating and
    visualizing conditional densities (densities around a mean); MATH §8.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> data = km.datasets.make_conditional_density("bimodal", 500, random_state=0)
    >>> model = km.ConditionalDensity().fit(data.X, data.Y[:, 0])
    >>> y = np.linspace(-7, 7, 201)
    >>> p = model.pdf(y, [[0.5]])  # two modes, at -2.5 and 2.5
    >>> bool(np.abs(p - data.density(y, [[0.5]])).max() < 0.06)
    True
    >>> lower, upper = model.interval([[0.0], [1.0]], 0.9)
    >>> lower.shape
    (2,)
    """

    _fit: Fit

    def __init__(
        self,
        kernel_x="gaussian",
        bandwidth=None,
        reg=None,
        features=None,
        *,
        kernel_y="gaussian",
        intercept="auto",
        location="auto",
        tune_lengthscale="auto",
        verbose=False,
    ):
        self.kernel_x = kernel_x
        self.bandwidth = bandwidth
        self.reg = reg
        self.features = features
        self.kernel_y = kernel_y
        self.intercept = intercept
        self.location = location
        self.tune_lengthscale = tune_lengthscale
        self.verbose = verbose

    def fit(self, X, y) -> ConditionalDensity:
        """Learn the conditional density of y given X.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d_x)
        y : array or DataFrame of shape (n,) or (n, d_y)

        Raises
        ------
        ValueError
            On malformed, non-finite or constant input, fewer than five rows, or parameters out of
            range.
        """
        points_x, points_y = self._check_pairs(X, y)
        plan = self._plan(points_x, points_y, column_names(X))
        drafts = [plan.draft(points_x, points_y, where) for where in self._locations()]
        best = self._search([draft for draft in drafts if draft is not None])
        self._adopt(plan.finish(best, points_x, points_y))
        return self

    # ------------------------------------------------------------ densities

    def pdf(self, Y, X, paired: bool | None = None) -> Array:
        """p(y | x).

        Parameters
        ----------
        Y : array of shape (m,) or (m, d_y)
        X : array of shape (batch, d_x)
        paired : bool, optional
            True: p(y_i | x_i), shape (m,). False: a table with a row for each x, shape (batch, m).
            None: pairs if there are as many y as x, otherwise a table.
        """
        Y, left, shift, paired = self._check_both(Y, X, paired)
        values = self._pairs(Y, left, shift) if paired else self._table(Y, left, shift)
        return arrays.like(values, self.points_)

    def score_samples(self, X, y) -> Array:
        """log p(y_i | x_i), shape (m,); −∞ where the positive part of q is zero."""
        p = arrays.to_numpy(self.pdf(y, X, paired=True))
        with np.errstate(divide="ignore"):
            return arrays.like(np.log(p), self.points_)

    def score(self, X, y) -> float:
        """Mean log density of pairs.

        A density counts as at least 1e-6 in units of standard deviations of the training y: the
        positive part can be zero where data fall, once in a while.
        """
        p = arrays.to_numpy(self.pdf(y, X, paired=True))
        spread = arrays.to_numpy(self._fit.spread)
        return float(np.mean(np.log(np.maximum(p, LOWEST / np.prod(spread)))))

    def cdf(self, Y, X, paired: bool | None = None) -> Array:
        """P(Y_j ≤ y_j | x) of each column: (m,) or (batch, m), with d_y behind if y had columns.

        Parameters as for `pdf`. With several columns, those of the recovered marginals.
        """
        Y, left, shift, paired = self._check_both(Y, X, paired)
        columns = [
            line.cdf(Y[:, [j]])[:, 0] if paired else line.cdf(Y[:, j])
            for j, line in enumerate(self._lines(left, shift))
        ]
        return self._outward(np.stack(columns, axis=-1))

    # ------------------------------------------------------------ answers

    def at(self, X) -> MeanEmbedding:
        """The conditional mean embeddings Σ_j w_j(x) k_γ(y_j, ·), a batch.

        Around a location every x has points of its own, so that only one x can be asked at a time.
        """
        left, shift = self._given(X)
        m = self._embedding(left)
        if shift is None:
            return m
        if left.shape[0] != 1:
            raise ValueError(
                f"X has {left.shape[0]} rows, but around a location each x has points of its own: "
                "ask for one row at a time, or fit with location=False"
            )
        points = m.points + arrays.like(shift, m.points)
        return MeanEmbedding.of_parts(points, *m.factors, m.kernel)

    def weights(self, X) -> Array:
        """w_j(x), shape (batch, n); they belong to `points_`."""
        return self._embedding(self._given(X)[0]).weights

    def predict(self, X) -> Array:
        """The conditional mean Σ_j w_j(x) y_j / Σ_j w_j(x), (batch,) or (batch, d_y)."""
        left, shift = self._given(X)
        mean = arrays.to_numpy(self._embedding(left).mean())
        return self._outward(mean if shift is None else mean + shift)

    def quantile(self, X, q) -> Array:
        """Conditional quantiles of each column: (batch,) or, for several levels, (batch, k).

        With d_y behind if y had columns.

        Parameters
        ----------
        X : array of shape (batch, d_x)
        q : float or sequence of float in [0, 1]
        """
        levels = as_levels(q)
        lines = self._lines(*self._given(X))
        found = np.stack([line.quantile(np.atleast_1d(levels)) for line in lines], axis=-1)
        return self._outward(found[:, 0] if levels.ndim == 0 else found)

    def interval(self, X, level: float = 0.95, kind: str = "central") -> tuple[Array, Array]:
        """Intervals of each column with probability `level`, each end as `quantile(X, 0.5)`.

        Parameters
        ----------
        X : array of shape (batch, d_x)
        level : float in (0, 1)
        kind : {"central", "shortest"}
            As much probability on either side, or the narrowest interval.
        """
        level = check_level(level)
        if check_choice(kind, "kind", ["central", "shortest"]) == "central":
            both = self.quantile(X, [(1 - level) / 2, (1 + level) / 2])
            return both[:, 0, ...], both[:, 1, ...]
        ends = np.stack([m.shortest(level) for m in self._lines(*self._given(X))], axis=-1)
        return self._outward(ends[:, 0]), self._outward(ends[:, 1])

    def region(self, X, level: float = 0.95) -> list[np.ndarray]:
        """Highest-density regions: for each x disjoint intervals (k, 2) of probability `level`."""
        check_is_fitted(self)
        if len(self.bandwidth_) > 1:
            raise ValueError(f"y has {len(self.bandwidth_)} columns; regions are for one column")
        (line,) = self._lines(*self._given(X))
        return line.regions(check_level(level))

    def mode(self, X) -> Array:
        """Where the density is highest, (batch,) or (batch, d_y)."""
        left, shift = self._given(X)
        if len(self.bandwidth_) == 1:
            (line,) = self._lines(left, shift)
            return self._outward(line.mode()[:, None])
        found = arrays.to_numpy(self._embedding(left).mode())
        return self._outward(found if shift is None else found + shift)

    def sample(self, X, n: int = 1, random_state=None) -> Array:
        """Draws from the conditional densities, (batch, n) or (batch, n, d_y).

        In one column by the inverse of the distribution function, otherwise by rejection.
        """
        check_count(n, "n")
        rng = generator(random_state)
        left, shift = self._given(X)
        if len(self.bandwidth_) == 1:
            (line,) = self._lines(left, shift)
            return self._outward(line.sample(n, rng)[..., None])
        draws = arrays.to_numpy(self._embedding(left).sample(n, rng, self._own_bandwidth))
        return self._outward(draws if shift is None else draws + shift[:, None, :])

    def loo_score(self, bandwidth=None, reg=None, lengthscale=None) -> float:
        """M at other parameters; those left out are as fitted.

        Parameters
        ----------
        bandwidth : float or sequence of float, optional
        reg : float, optional
        lengthscale : float or sequence of float, optional
            Of `kernel_x_`.
        """
        check_is_fitted(self)
        fit, points = self._fit, self.points_
        kernel = with_bandwidth(
            fit.kernel_y, fit.kernel_y.lengthscale if bandwidth is None else bandwidth,
            arrays.to_numpy(points), "kernel_y",
        )  # fmt: skip
        reg = fit.reg if reg is None else check_positive(reg, "reg", zero=True)
        smoother = fit.smoother
        if lengthscale is not None:
            features = as_feature_map(self.features)
            kernel_x = with_lengthscale(fit.kernel_x, lengthscale)
            Phi = features.fit_transform(self.points_x_, kernel_x)
            smoother = Smoother.of(Phi, self.intercept_)
        return DensityScore.of(smoother, Target.of(points, kernel, exact=fit.exact))(reg)

    # ------------------------------------------------------------ inside

    def _check_pairs(self, X, y) -> tuple[Array, Array]:
        points_x = as_points(X, "X", min_rows=5, one_d=False)
        validate_data(self, X, skip_check_array=True)
        check_target(y)
        points_y = as_points(y, "y")
        check_lengths(points_x.shape[0], points_y.shape[0], "X", "y")
        self._one_output, self.target_names_ = as_floats(y, "y").ndim == 1, column_names(y)
        for name in ("intercept", "location", "tune_lengthscale"):
            value = getattr(self, name)
            if value != "auto" and not isinstance(value, bool):
                raise ValueError(f'{name} is {value!r}; "auto", True or False is needed')
        return frozen(points_x), frozen(points_y)

    def _plan(self, X, Y, names) -> Plan:
        kernel_x = fitted_kernel(
            self.kernel_x,
            X,
            names=names,
            name="kernel_x",
            columnwise=isinstance(self.kernel_x, str),
        )
        kernel_y = with_bandwidth(self.kernel_y, 1.0, Y, "kernel_y")  # refuses what cannot smooth
        if isinstance(kernel_y, Periodic):
            raise ValueError(
                f"kernel_y is {kernel_y!r}; densities of angles are those of EmbeddedDensity or of "
                "an embedding: a Gaussian, Laplace or Matern kernel is needed"
            )
        reg = None if self.reg is None else check_positive(self.reg, "reg", zero=True)
        chosen = reg is None
        tune: Any = self.tune_lengthscale
        if tune == "auto":
            named = isinstance(self.kernel_x, str) and self.kernel_x in TUNABLE
            tune = chosen and named and not learns_from_pairs(self.features)
        intercept = chosen if self.intercept == "auto" else bool(self.intercept)
        choice = len(self._locations()) > 1
        return Plan(kernel_x, kernel_y, self.bandwidth, reg, self.features, intercept, tune, choice)

    def _locations(self) -> list[bool]:
        """Whether to try without a location, with one, or both."""
        if self.location == "auto":
            return [False, True] if self.reg is None and self.bandwidth is None else [False]
        return [bool(self.location)]

    def _search(self, drafts: list[Draft]) -> Draft:
        """Half of the rounds for each draft, and the rest for the better one."""
        best = drafts[0]
        if best.search.idle:
            return best
        for number in track(range(ROUNDS), description="Scales", verbose=self.verbose):
            if number == ROUNDS // 2:
                if len(drafts) > 1:
                    best = min(drafts, key=lambda draft: draft.search.score())
                drafts = [best]
                best.search.choose_columns()
            for draft in drafts:
                draft.search.round()
        best.search.settle()
        return best

    def _adopt(self, fit: Fit) -> None:
        self._fit = fit
        self.kernel_x_, self.kernel_y_, self.features_ = fit.kernel_x, fit.kernel_y, fit.features
        self.scales_, self.intercept_, self.location_ = fit.scales, fit.intercept, fit.location
        self.points_x_, self.points_ = fit.X, fit.points
        self.reg_, self.loo_score_ = fit.reg, fit.score
        d = fit.points.shape[1]
        self.bandwidth_ = np.broadcast_to(np.asarray(fit.kernel_y.lengthscale), (d,)).copy()

    @property
    def _own_bandwidth(self) -> tuple[float, ...]:
        return tuple(self.bandwidth_.tolist())

    def _given(self, X) -> tuple[Array, np.ndarray | None]:
        """For rows of X: what gives their weights, and how far their densities are moved."""
        check_is_fitted(self)
        points = as_points(X, "X", one_d=False)
        validate_data(self, X, reset=False, skip_check_array=True)
        fit = self._fit
        left = fit.left(points)
        shift = None if fit.location is None else arrays.to_numpy(fit.location(points))
        return left, shift

    def _embedding(self, left) -> MeanEmbedding:
        return MeanEmbedding.of_parts(self.points_, left, self._fit.right, self.kernel_y_)

    def _lines(self, left, shift) -> Iterator[Line]:
        """The densities of each column."""
        m = self._embedding(left)
        d = self.points_.shape[1]
        for j in range(d):
            own = m if d == 1 else m.marginal([j])
            yield Line(own, None, None if shift is None else shift[:, j])

    def _check_both(self, Y, X, paired) -> tuple[np.ndarray, Array, np.ndarray | None, bool]:
        left, shift = self._given(X)
        Y = arrays.to_numpy(as_points(Y, "Y"))
        check_columns(Y, self.points_.shape[1], "Y", "the training y")
        if paired not in (None, True, False):
            raise ValueError(f"paired is {paired!r}; None, True or False is needed")
        paired = len(Y) == left.shape[0] if paired is None else paired
        if paired:
            check_lengths(left.shape[0], len(Y), "X", "Y")
        return Y, left, shift, paired

    def _table(self, Y: np.ndarray, left, shift) -> np.ndarray:
        if len(self.bandwidth_) == 1:
            (line,) = self._lines(left, shift)
            return line.pdf(Y[:, 0])
        m = self._embedding(left)
        if shift is None:
            return arrays.to_numpy(m.density(arrays.like(Y, self.points_), self._own_bandwidth))
        moved = (Y[None, :, :] - shift[:, None, :]).reshape(-1, Y.shape[1])
        q = self._smooth(moved, np.repeat(np.arange(len(shift)), len(Y)), left)
        return np.maximum(q.reshape(len(shift), -1), 0.0) / self._whole(left)[:, None]

    def _pairs(self, Y: np.ndarray, left, shift) -> np.ndarray:
        moved = Y if shift is None else Y - shift
        if len(self.bandwidth_) == 1 and len(Y) * self.points_.shape[0] > EVALUATIONS:
            (line,) = self._lines(left, shift)
            return line.pdf(Y)[:, 0]
        q = self._smooth(moved, np.arange(len(Y)), left)
        return np.maximum(q, 0.0) / self._whole(left)

    def _smooth(self, Y: np.ndarray, member: np.ndarray, left) -> np.ndarray:
        """q of the member's weights at each row of Y, normalised to Σw = 1."""
        m = self._embedding(left).normalised()
        L, P, points = (arrays.to_numpy(A) for A in (*m.factors, self.points_))
        parts = []
        for rows, who in row_blocks(Y, member, rows=block_rows(len(points))):
            K = self.kernel_y_.density(points, rows)
            parts.append(np.einsum("ir,ri->i", L[who], P.T @ K))
        return np.concatenate(parts)

    def _whole(self, left) -> np.ndarray:
        """∫ max(q, 0) for each member."""
        if len(self.bandwidth_) == 1:
            (line,) = self._lines(left, None)
            return line.normaliser
        mass, _ = self._embedding(left).negative_mass(self._own_bandwidth)
        return 1.0 + arrays.to_numpy(mass)

    def _outward(self, values: np.ndarray) -> Array:
        """Without the column axis when y had none."""
        return arrays.like(values[..., 0] if self._one_output else values, self.points_)


def with_lengthscale(kernel: Any, lengthscale) -> Kernel:
    """The same kernel with another lengthscale."""
    if not hasattr(kernel, "lengthscale"):
        raise ValueError(f"lengthscale is given, but {kernel!r} has none")
    return replace(kernel, lengthscale=lengthscale)

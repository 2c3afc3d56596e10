"""What a fitted structural function says, and how surely: bands, slopes, contrasts, tests."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import f as fisher
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from ..core import Array, Interval, Labels, Saveable, arrays, checks, solves
from ..core.elsewhere import in_blocks, is_far
from ..core.minimise import DECADES, SEARCH_ROWS, minimise_log10
from ..core.moments import block_rows, evenly, row_blocks
from ..core.threads import doors
from ..regression.leave_one_out import centred, standardised
from .basis import Basis
from .bend import weighted_chi2
from .choice import rows_of
from .clusters import Clusters, error_of_mean, share_of, summed
from .first_stage import jackknife_stage
from .fit import StructuralFit
from .groups import Group, Part
from .second_stage import CausalLeaveClustersOut, CausalLeaveOneOut, SecondStage

DRAWS = 2000  # of the multiplier bootstrap
WEAK = 10.0  # F below which an instrument is called weak (Staiger and Stock 1997)
CARRIED = 10.0  # rows that have to carry it
ROUNDING = 1e-12  # of squared slopes
ALIKE = 1e-7  # of a deviation: what is left of an instrument that others tell


@dataclass(frozen=True)
class Estimate(Saveable):
    """A number, or several, with standard error and confidence limits.

    Attributes
    ----------
    name : str
        What was estimated.
    value, error, low, high : float, or arrays of shape (m,)
    level : float
        Of the limits.
    """

    name: str
    value: Any
    error: Any
    low: Any
    high: Any
    level: float

    @property
    def p_value(self) -> Any:
        """Of the hypothesis that the value is zero, two-sided."""
        p = 2 * norm.sf(np.abs(self.value) / np.maximum(self.error, np.finfo(float).tiny))
        return float(p) if np.ndim(p) == 0 else p

    def __str__(self) -> str:
        if np.ndim(self.value):
            return f"{self.name}: {len(self.value)} values"
        limits = f"{100 * self.level:g}% [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.name}: {self.value:.4g} (s.e. {self.error:.3g}), {limits}"


@dataclass(frozen=True)
class Strength(Saveable):
    """How far the instruments move each endogenous regressor, beyond what C explains.

    Attributes
    ----------
    names : list of str
        Endogenous regressors.
    partial_r2 : array of shape (d_x,)
        Share of what C leaves unexplained that stage 1 explains, in sample.
    f : array of shape (d_x,)
        The F statistic of that, with the trace of 2H − H² as degrees of freedom.
    df : array of shape (d_x,)
        Degrees of freedom that the instruments add.
    rows : array of shape (d_x,)
        How many rows carry that, (Σm²)²/Σm⁴ of what the instruments move each row by: n where all
        are moved as far, n/3 where normally, 3 where an indicator of three rows does it. F says
        nothing of so few, robust or not: neither they nor their noise average out.
    linear : array of shape (d_x,)
        F of a straight line in Z beside C, robust to unequal variances: Wald's statistic by the
        number of instruments (linearmodels reports the statistic itself).
    """

    names: list[str]
    partial_r2: np.ndarray
    f: np.ndarray
    df: np.ndarray
    rows: np.ndarray | None = None
    linear: np.ndarray | None = None

    @property
    def larger(self) -> np.ndarray:
        """The larger F of each regressor: that of curves is spread over degrees of freedom."""
        return self.f if self.linear is None else np.maximum(self.f, self.linear)

    @property
    def weak(self) -> bool:
        """Whether for some regressor both F are below 10."""
        return bool((self.larger < WEAK).any())

    @property
    def carried(self) -> list[str]:
        """For each regressor what is to be said where few rows carry the F."""
        rows = np.full(len(self.names), np.inf) if self.rows is None else self.rows
        return [f" (carried by few rows, about {r:.0f})" if r < CARRIED else "" for r in rows]

    def __str__(self) -> str:
        rows = zip(self.names, self.partial_r2, self.f, self.df, self.carried, strict=True)
        words = [f"{n}: partial R² {r:.3f}, F {f:.1f} on {d:.1f} df{c}" for n, r, f, d, c in rows]
        if self.linear is not None:
            words = [f"{w}, of a line {f:.1f}" for w, f in zip(words, self.linear, strict=True)]
        return "; ".join(words) + (" (weak: below 10)" if self.weak else "")


@dataclass(frozen=True)
class AndersonRubin(Saveable):
    """Slopes of a straight line that the instruments do not refuse, however weak they are.

    Attributes
    ----------
    name : str
        The endogenous regressor.
    intervals : tuple of (float, float)
        One interval; two rays, or the whole line, where instruments are weak; none where they
        refuse every straight line.
    level : float
    """

    name: str
    intervals: tuple[tuple[float, float], ...]
    level: float

    def __str__(self) -> str:
        parts = [f"[{low:.4g}, {high:.4g}]" for low, high in self.intervals]
        return f"{100 * self.level:g}% {' or '.join(parts) or 'none: lines are refused'}"


@dataclass(frozen=True)
class Endogeneity(Saveable):
    """Distance between the structural function and the regression, and its p-value.

    Attributes
    ----------
    distance : float
        Root mean square of h(x_i) − regression(x_i) over the rows.
    p_value : float
        Of the hypothesis that the regressors are exogenous, when both estimate the same function.
    """

    distance: float
    p_value: float

    def __str__(self) -> str:
        distance = f"root mean square distance from the regression {self.distance:.4g}"
        return f"{distance}, p = {self.p_value:.3g}"


@doors()
class StructuralInference:
    """Confidence, slopes and tests of a fitted `KernelIV`.

    `covariance_` has two parts, V + B. V = A⁻¹ΩA⁻¹ is the covariance over the noise of both
    stages, so that draws from N(0, V) are those of a Gaussian multiplier bootstrap of the rows'
    influence A⁻¹M_iê_i. B is for the smoothing bias. Where a fit was chosen from several it is of
    D, the mean over these of (h − ĥ)²: 4V + ¼D where ξ was chosen, which balances bias and noise,
    1½D where it was not. Limits of h about least squares have 10D (`band_covariance_`); averages of
    slopes over the training rows, in which most of the bias is gone, ¼D there and V + ¼D about what
    bends. Along endogenous columns of three values B is at least what makes contrasts no surer than
    those of a shift for each value, if instruments tell these apart. Where there was nothing to
    choose from B is the spread ξ²A⁻²τ² of −ξA⁻¹b when b ~ N(0, τ²I), with τ² = 2‖b‖²/df: twice the
    mean square of the fitted coordinates, for these are shrunk.
    """

    design_: Any
    regressors: Any
    _fit: StructuralFit

    @property
    def fit_(self) -> StructuralFit:
        """What was fitted, as a value."""
        check_is_fitted(self)
        return self._fit

    def predict_interval(self, X, C=None, *, level=0.95, simultaneous=True) -> Interval:
        """Confidence limits of h at new regressors, h(x) ± c s(x), s² = φ(x)ᵀ(V + B)φ(x).

        Parameters
        ----------
        X, C : as in `predict`
        level : float
            Of confidence, in (0, 1).
        simultaneous : bool
            Whether the band is to hold at all rows of X at once (c is a quantile of the largest
            |deviation|/s, by multiplier bootstrap) or at each of them (a normal quantile).

        Returns
        -------
        Interval
            Lower and upper limits, arrays of shape (m,).
        """
        if is_far(X, C):
            if simultaneous:
                raise ValueError(
                    "simultaneous is True, for which the coordinates of all rows are needed here; "
                    "rows that are elsewhere have limits with simultaneous=False"
                )
            how = {"level": level, "simultaneous": False}
            return in_blocks(self, "predict_interval", {"X": X, "C": C}, how)
        rows = self._coordinates(X, C)
        return confidence_limits(rows, self.fit_.coef, self.band_covariance_, level, simultaneous)

    @property
    def band_covariance_(self) -> Array:
        """Of `coef_`, for limits of h: `covariance_`, with more of D about least squares."""
        return self.fit_.covariance if self.fit_.band is None else self.fit_.band

    @property
    def contrast_covariance_(self) -> Array:
        """Of `coef_`, for contrasts: of two values of X they are the slopes of a line."""
        X = self.fit_.sample[0][:, : len(self.fit_.roles.x)]
        return self._mean_covariance if len(np.unique(X, axis=0)) == 2 else self.fit_.covariance

    @property
    def _mean_covariance(self) -> Array:
        """Of `coef_`, for averages of slopes."""
        return self.fit_.covariance if self.fit_.mean is None else self.fit_.mean

    def to_frame(self, X, C=None, *, level=0.95, simultaneous=True):
        """h with its limits as a DataFrame: the outcome's name, `_lower`, `_upper`; X's index.

        `extrapolated` are rows outside the training data, in columns not asked to be straight.
        """
        points, fit = self.regressors(X, C), self.fit_
        outside, rows = fit.outside(points), self._rows(points)
        about = fit.coef, self.band_covariance_, level, simultaneous
        lower, upper = confidence_limits(rows, *about)
        parts = {"": rows @ fit.coef, "_lower": lower, "_upper": upper}
        return Labels((fit.roles.y,), Labels.of(X).index).frame(parts, extrapolated=outside)

    def derivative(self, X, C=None, *, column=None) -> Array:
        """∂h/∂x_column at new regressors, in closed form.

        Along a column of few values (two, or at most ten with ten rows for each) it is the slope of
        the line between the neighbours of each; what a curve does in between is not told.

        Parameters
        ----------
        X, C : as in `predict`
        column : int or str, optional
            Of (X, C), by number or name. None gives all columns.

        Returns
        -------
        array of shape (m,), or (m, columns) when `column` is None and there are several; NaN along
        a category

        Raises
        ------
        ValueError
            If the kernel has no derivative (Laplace, Delta) and values are not few, or the column
            does not exist.
        """
        columns = range(len(self.fit_.roles.regressors)) if column is None else [column]
        points = self.regressors(X, C)
        slopes = [self._slopes(points, j) @ self.fit_.coef for j in columns]
        return slopes[0] if len(slopes) == 1 else arrays.namespace(slopes[0]).stack(slopes, axis=1)

    def derivative_interval(
        self, X, C=None, *, column=0, level=0.95, simultaneous=True
    ) -> Interval:
        """Confidence limits of `derivative`, each of shape (m,); see `predict_interval`."""
        rows = self._slopes(self.regressors(X, C), column)
        return confidence_limits(rows, self.fit_.coef, self.fit_.covariance, level, simultaneous)

    def average_derivative(self, X=None, C=None, *, column=0, level=0.95) -> Estimate:
        """Mean of ∂h/∂x_column over a population of regressors, with its standard error.

        The error counts the rows as a sample: the variance of ∂h/∂x over them adds its share. That
        of other rows than the training rows, which may be few, has all of the bias of h in it.

        Parameters
        ----------
        X, C : arrays, optional
            Rows to average over; the training rows when there are none.
        column : int or str
            Of (X, C), by number or name.
        level : float

        Returns
        -------
        Estimate
        """
        fit, names = self.fit_, self.fit_.roles.regressors
        points = arrays.like(fit.sample[0], fit.coef) if X is None else self.regressors(X, C)
        rows = self._slopes(points, column)
        values, few = arrays.to_numpy(rows @ fit.coef), rows.shape[0]
        n, clusters = (max(fit.sizes), fit.clusters) if X is None else (few, None)
        spread = error_of_mean(values, clusters) ** 2 * share_of(few, n, clusters)
        name = f"average derivative in {names[checks.check_column(column, names)]}"
        mean = arrays.namespace(rows).mean(rows, axis=0)
        covariance = self._mean_covariance if X is None else fit.covariance
        return _estimate(name, mean, fit.coef, covariance, level, spread)

    def contrast(self, X1, X0, C=None, *, level=0.95) -> Estimate:
        """h(x1) − h(x0), row by row, with standard errors; of two values of x, those of a slope.

        Parameters
        ----------
        X1, X0 : arrays of shape (m, d_x), or (m, d_x + d_c)
        C : array of shape (m, d_c), optional
            The same for both.
        level : float
            Of the limits, which hold row by row.
        """
        one, zero = self._coordinates(X1, C, "X1"), self._coordinates(X0, C, "X0")
        checks.check_lengths(one.shape[0], zero.shape[0], "X1", "X0")
        return _estimate("contrast", one - zero, self.fit_.coef, self.contrast_covariance_, level)

    def first_stage(self) -> Strength:
        """How strong the instruments are: an F statistic for each endogenous regressor.

        F = ((SSE₀ − SSE)/(df − df₀))/(SSE/(n − df)), ridge regressions of x_j on the instruments'
        coordinates with λ, df = tr(2H − H²); subscript 0 has Z frozen at its mean, so that C alone
        explains. At least one degree of freedom is counted. `linear` is that of a regression on the
        instruments as they are, by the scores of clusters where there are some: F is less by as
        much as these take from it. Where both are below 10, the estimate is biased and its
        confidence limits can be far too narrow (Staiger and Stock 1997). They look at the linear
        movement of X: a structural function that bends asks for more.
        """
        fit = self.fit_
        (X, Z, _), basis, d = fit.sample, fit.draft.bases[1], len(fit.roles.x)
        targets = X[:, :d] - X[:, :d].mean(0)
        frozen, own = Z.copy(), slice(len(fit.roles.z))
        frozen[:, own] = Z[:, own].mean(0)
        reg = fit.regs[0] if fit.reg_lines is None else fit.reg_lines
        rest, df = _ridge_rest(basis.numbers(Z), targets, reg)
        rest0, df0 = _ridge_rest(basis.numbers(frozen), targets, reg)
        sse, sse0 = (rest**2).sum(0), (rest0**2).sum(0)
        gain, extra = np.maximum(sse0 - sse, 0.0), max(df - df0, 1.0)
        per_row = sse / (len(X) - df) if len(X) > df else np.full(d, np.inf)
        n = max(fit.sizes[0], len(X))
        f = gain * (n / len(X)) / extra / np.maximum(per_row, np.finfo(float).tiny)
        rows = rows_of(rest0 - rest) * n / len(X)
        share = gain / np.maximum(sse0, np.finfo(float).tiny)
        beside = np.column_stack([np.ones(len(X)), X[:, d:]])
        line = np.array([robust_f(beside, Z[:, own], x, fit.clusters) for x in targets.T])
        line /= share_of(len(X), n, fit.clusters)
        if fit.clusters is not None:
            alone = np.array([robust_f(beside, Z[:, own], x) for x in targets.T]) * n / len(X)
            f *= np.minimum(line / np.maximum(alone, np.finfo(float).tiny), 1.0)
        return Strength(list(fit.roles.x), share, f, np.full(d, extra), rows, line)

    @property
    def params(self):
        """Average derivatives over the training rows, by regressor, as a pandas Series."""
        return self._estimates(0.95)["value"].rename("parameter")

    def conf_int(self, level=0.95):
        """Their limits, a DataFrame with columns `lower` and `upper`."""
        found = self._estimates(level)
        return found[["low", "high"]].set_axis(["lower", "upper"], axis=1)

    def _estimates(self, level: float):
        import pandas as pd

        names = self.fit_.roles.regressors
        found = [vars(self.average_derivative(column=j, level=level)) for j in range(len(names))]
        return pd.DataFrame(found, index=names)

    def anderson_rubin(self, *, level=0.95) -> AndersonRubin:
        """Slopes θ for which y − θx, given C, does not go with the instruments; one regressor.

        {θ : (uᵀPu/k)/(uᵀ(I − P)u/(n − k − p)) ≤ F quantile}, u = y − θx and P the projection on
        Z, both less their regression on (1, C); p is the rank of (1, C), and k what Z adds to it.
        The level holds with instruments of any strength where the effect is a straight line and,
        of several instruments, the noise as large whatever they are (Anderson and Rubin 1949).
        With one, w, it is {θ : (wᵀu)² ≤ F quantile · Σw²u²}: noise may grow with it, and go
        together in clusters. Of the rows the model keeps, at most 10,000.
        """
        fit, level = self._complete("anderson_rubin"), checks.check_level(level)
        (X, Z, y), roles = fit.sample, fit.roles
        if len(roles.x) > 1:
            raise ValueError(
                f"anderson_rubin needs one endogenous regressor; here are {len(roles.x)} "
                f"regressors, {list(roles.x)}"
            )
        C, Z = centred(X[:, 1:]), standardised(Z[:, : len(roles.z)])
        controls, pair = np.column_stack([np.ones(len(y)), C]), np.column_stack([X[:, 0], y])
        less, p = unexplained(controls, pair)
        left, every = unexplained(np.column_stack([controls, Z]), pair)
        k, spare = every - p, len(y) - every
        if not k or not spare:  # nothing is left to refuse a slope by
            return AndersonRubin(roles.x[0], ((-np.inf, np.inf),), level)
        if k > 1:
            if fit.clusters is not None:
                raise ValueError(
                    f"anderson_rubin of rows in clusters needs one instrument; here are {k}, "
                    f"{list(roles.z)}"
                )
            bound = fisher.ppf(level, k, spare) * k / spare
            form = less.T @ less - (1.0 + bound) * left.T @ left
        else:
            U = orthonormal(unexplained(controls, Z)[0])[:, :1]
            moved, noise = (U.T @ less)[0], summed(U * less, fit.clusters)
            free = spare if fit.clusters is None else fit.clusters.n - 1
            form = np.outer(moved, moved) - fisher.ppf(level, 1, free) * noise.T @ noise
        return AndersonRubin(roles.x[0], _not_above_zero(form), level)

    def endogeneity_test(self) -> Endogeneity:
        """Whether regression would have done: distance of h from kernel ridge, with a p-value.

        Residuals r of the ridge regression of y on the same coordinates are regressed on the
        instruments' side: d = A⁻¹Mᵀr/n is the step from regression to the structural function, free
        of the difference in their smoothing. Its mean square over the rows, dᵀ(ΦᵀΦ/n)d, is compared
        with its law under exogeneity, a sum of weighted χ²₁ (Durbin, Wu, Hausman).
        """
        fit = self._complete("endogeneity_test")
        X, Z, y = (arrays.like(part, fit.coef) for part in fit.sample)
        rows = Part(X, Z, y, improved=fit.improved)
        group = Group(rows, *fit.draft.bases)
        group.stage, *_ = jackknife_stage([group], fit.regs[0], fit.reg_lines)
        Phi, _, y, M = map(arrays.to_numpy, group.few(rows.n))
        return endogeneity(fit.basis, Phi, M, y, fit.regs[1], fit.clusters)

    def _complete(self, name: str) -> StructuralFit:
        """The fit, for a test of rows with both X and y."""
        if np.isnan(self.fit_.specification_p):
            raise ValueError(f"{name} needs rows with X and y; in these samples none has both")
        return self.fit_

    def _coordinates(self, X, C, name: str = "X") -> Array:
        points = self.regressors(X, C, name=name)
        self.fit_.outside(points)  # which warns
        return self._rows(points)

    def _rows(self, points) -> Array:
        basis = self.fit_.basis
        return basis.by_blocks(basis.transform, points)

    def _slopes(self, points, column) -> Array:
        """∂/∂x_column of every coordinate at the points, (m, width); NaN along a category."""
        checks.check_library(points, self.fit_.coef, "X")
        basis, j = self.fit_.basis, checks.check_column(column, self.fit_.roles.regressors)
        if j in dict(basis.polynomial.categories) and j not in self.fit_.draft.bent(0):
            return arrays.namespace(points).full_like(self._rows(points), np.nan)
        return basis.by_blocks(lambda block: basis.derivative(block, j), points)


def unexplained(columns: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, int]:
    """What a linear regression on the columns leaves of the targets, and their rank."""
    norms = np.linalg.norm(columns, axis=0)  # 0 of an indicator that no row looked at has
    scaled = columns / np.where(norms > 0, norms, 1.0)
    coef, _, rank, _ = np.linalg.lstsq(scaled, targets, rcond=None)
    return targets - scaled @ coef, int(rank)


def orthonormal(columns: np.ndarray) -> np.ndarray:
    """Directions of what others have left of columns in deviations."""
    U, spread, _ = np.linalg.svd(columns, full_matrices=False)
    return U[:, spread > ALIKE * len(columns) ** 0.5]


def robust_f(
    columns: np.ndarray, more: np.ndarray, target: np.ndarray, clusters: Clusters | None = None
) -> float:
    """F of more columns beside the first: Wald's statistic by the rows' scores, by k."""
    left, p = unexplained(columns, np.column_stack([standardised(more), target]))
    U, x = orthonormal(left[:, :-1]), left[:, -1]
    (n, k), b = U.shape, x @ U
    if not k or n <= p + k or not x.any():
        return 0.0
    e = x - U @ b
    scores = summed(U * e[:, None], clusters)
    values, V = np.linalg.eigh(scores.T @ scores)
    # directions of a few rows that all have one x show no noise: theirs is that of all rows
    equal = max(float(e @ e) / (n - p - k), arrays.EPS * float(x @ x) / n)
    values[values < equal * k / (n + k)] = equal
    return float((V.T @ b) ** 2 @ (1.0 / values)) / k


def _not_above_zero(form: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Intervals of θ in which (θ, −1) form (θ, −1)ᵀ ≤ 0."""
    (a, b), (_, c) = form.tolist()
    apart = b * b - a * c
    if a <= 0 and apart <= 0:
        return ((-np.inf, np.inf),)
    if apart < -ROUNDING * b * b:
        return ()
    root = max(apart, 0.0) ** 0.5  # of a line without noise that is all rounding
    low, high = sorted(((b - root) / a, (b + root) / a))
    return ((low, high),) if a > 0 else ((-np.inf, low), (high, np.inf))


def endogeneity(
    basis: Basis, Phi, M, y, xi: float, clusters: Clusters | None = None
) -> Endogeneity:
    """The test of `KernelIV.endogeneity_test`, from rows in coordinates and their embeddings."""
    n, held = len(y), basis.held(Phi)
    second = Phi.T @ Phi / n
    regression, reg = plain_regression(basis, Phi, y, clusters)
    residual = y - Phi @ regression.coefficients(reg)
    target = M.T @ residual / n
    A_inv = SecondStage(M.T @ M / n, target, basis.trends, n, held=held).inverse_at(xi)
    d = A_inv @ target
    # d is linear in y: what row i of it does, given that the regression sees the row too
    pulled = M - Phi @ (regression.inverse_at(reg) @ (Phi.T @ M) / n)
    scores = summed((pulled * residual[:, None]) @ A_inv / n, clusters)
    half = _root(second)
    statistic, V = float(d @ second @ d), half @ (scores.T @ scores) @ half
    return Endogeneity(statistic**0.5, float(weighted_chi2(statistic, np.trace(V), (V * V).sum())))


def plain_regression(
    basis: Basis, Phi, y, clusters: Clusters | None = None
) -> tuple[SecondStage, float]:
    """Ridge regression of y on the coordinates, and its λ, of least leave-one-out loss."""
    n, held = Phi.shape[0], basis.held(Phi)
    stage = SecondStage(Phi.T @ Phi / n, Phi.T @ y / n, basis.trends, n, held=held)
    loss = CausalLeaveOneOut(stage, Phi, Phi, y)  # with M = Φ nothing is instrumented
    if clusters is not None:
        loss = CausalLeaveClustersOut(stage, Phi, Phi, y, None, clusters)
    return stage, minimise_log10(loss, *DECADES, size=stage.size)[0]


def ridge_coefficients(basis: Basis, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Kernel ridge of y in the coordinates of a structural function, from evenly spaced rows."""
    rows = evenly(len(X), SEARCH_ROWS)
    stage, reg = plain_regression(basis, arrays.to_numpy(basis.transform(X[rows])), y[rows])
    return stage.coefficients(reg)


def confidence_limits(rows, coef, covariance, level: float, simultaneous: bool) -> Interval:
    """(value − c s, value + c s) for the linear functionals in `rows`."""
    level, root = checks.check_level(level), arrays.to_numpy(rows) @ _root(covariance)
    error = np.sqrt((root**2).sum(1))
    factor = _sup_quantile(root, error, level) if simultaneous else norm.ppf(0.5 + level / 2)
    value = arrays.to_numpy(rows @ coef)
    return Interval(*(arrays.like(value + c * error, rows) for c in (-factor, factor)))


def _sup_quantile(root: np.ndarray, error: np.ndarray, level: float) -> float:
    """Quantile of max |root z|/error over the rows, z ~ N(0, I): at least the pointwise one."""
    draws = np.random.default_rng(0).standard_normal((root.shape[1], DRAWS))
    largest = np.zeros(DRAWS)
    for R, s in row_blocks(root, np.maximum(error, np.finfo(float).tiny), rows=block_rows(DRAWS)):
        np.maximum(largest, np.abs(R @ draws / s[:, None]).max(0), out=largest)
    return max(float(np.quantile(largest, level)), float(norm.ppf(0.5 + level / 2)))


def _estimate(name: str, rows, coef, covariance, level: float, extra: float = 0.0) -> Estimate:
    """Of one linear functional (width,), or of several, with `extra` in their variance."""
    level = checks.check_level(level)
    value = arrays.to_numpy(rows @ coef)
    error = np.sqrt(((arrays.to_numpy(rows) @ _root(covariance)) ** 2).sum(-1) + extra)
    reach = norm.ppf(0.5 + level / 2) * error
    found: Any = value, error, value - reach, value + reach, level
    return Estimate(name, *(map(float, found) if rows.ndim == 1 else found))


def _root(covariance) -> np.ndarray:
    """R = Rᵀ with RR the covariance: with eigenvectors alone, draws would depend on their signs."""
    values, vectors = solves.eigh(arrays.to_numpy(covariance))
    return (vectors * values**0.5) @ vectors.T


def _ridge_rest(Theta, targets, reg: float) -> tuple[np.ndarray, float]:
    """Residuals of ridge regressions, and tr(2H − H²)."""
    n = len(Theta)
    grid = solves.EigenGrid.of(Theta.T @ Theta / n)
    hat = grid.values * grid.shrink(reg)
    fitted = Theta @ (grid.vectors * grid.shrink(reg)) @ (grid.vectors.T @ (Theta.T @ targets) / n)
    return targets - fitted, float((2 * hat - hat**2).sum())

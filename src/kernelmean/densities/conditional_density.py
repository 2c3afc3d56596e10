"""Conditional densities from conditional mean embeddings."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..core import Array, Block, Interval, Labels, Line, Rows, Summary, arrays, checks
from ..core.elsewhere import by_blocks, few_of
from ..core.minimise import SEARCH_ROWS
from ..core.moments import Order, canonical_order, evenly, once
from ..core.old_names import attribute
from ..core.parameters import Estimator, auto, check_parameters, either, optional, positive, share
from ..core.progress import track
from ..core.threads import doors
from ..embedding.embedding import MeanEmbedding
from ..embedding.law import names_like
from ..features.choose import as_feature_map, learns_from_pairs
from ..kernels import Periodic, fitted_kernel, is_tuned
from ..regression.bandwidth import bandwidth_lines, with_bandwidth
from ..regression.smoother import Smoother
from . import bending, rival
from .atoms import Atoms
from .cells import enough, to_be_summed
from .conformal import ConformalDensity
from .fit import Fit
from .laws import MovedLaws
from .plan import Plan
from .standard import Standard

CALIBRATION_ROWS = 2_000  # of the fit, that are left out to calibrate
ATOM_ROWS = 300  # whose laws cells of atoms are cut from
LOWEST = 1e-6  # a density in a mean of logarithms is no less, per standard deviation of y


@by_blocks("predict", "predict_interval", "predict_quantile", "mode")
@by_blocks("pdf", "cdf", tables=("Y", "X"))
@by_blocks("score_samples", tables=("X", "y"))
@doors()
@dataclass(eq=False, repr=False)
class ConditionalDensity(MultiOutputMixin, RegressorMixin, Estimator):
    """p(y | x) ∝ max(q, 0), q(y | x) = Σ_j w_j(x) k̄_γ(y_j, y)/Σ_j w_j(x).

    w(x) = (K_X + nλI)⁻¹k_X(x) are the weights of the conditional mean embedding, k̄_γ is the
    smoothing kernel, of integral one, with the bandwidth γ. Bandwidth, lengthscales and λ minimise
    the leave-one-out score in closed form, M = (1/n) Σ_i [∫ q⁻ⁱ(y|x_i)² dy − 2 q⁻ⁱ(y_i|x_i)].

    When λ is chosen, six things are added to the estimator of the thesis. An intercept, which is
    not penalised: weights sum to one, and what a large λ leaves is the marginal density, not
    nothing. A location, where it explains y and rows left out are not clearly less likely with it:
    the density is that of residuals around a smooth mean m(x),
    q(y | x) = Σ_j w_j(x) k̄_γ(e_j, y − m(x)), with the leave-one-out residuals
    e_j = y_j − m⁻ʲ(x_j). Where x mostly moves Y, as it does in regression,
    a distribution that moves along need not be learned anew at every x. Widths, where rows left out
    are clearly more likely with them: residuals are over s(x), a smooth function of x that also
    grows with what is not known of m. Where the bandwidth is chosen, too, Gaussian kernels stand
    at residuals drawn towards their mean by (1 − γ²/σ²)^½, σ² their variance, so that laws are
    no wider than they are; moments are of residuals as they came. A bent scale, where y is
    skewed or has long tails: the density is that of B(y) = s arsinh((y − c)/s), a logarithm where s
    is small, times B′(y); c and s are those under which rows left out of a regression are most
    likely, by .05 a row and three standard errors at least, otherwise y stays as it is. All answers
    are on the scale of y. Around a location, where a column of X has a long tail (more than 4.5
    spreads from the median c, s half of what two thirds of the rows span), kernels by name take
    distances on that bent scale, or on one from the other end of the column, if Y is likelier so.
    And a small share of a wide law, so that no density is zero: where q is not positive nothing was
    seen, which is not to say that nothing can be.

    Values of y that repeat (one row in a hundred, and five at least: zeros, counts, ratings) are
    atoms where λ and the bandwidth are chosen. Each has the mass of a cell of the line about it, so
    cut that on average over x it is as frequent as in the data: quantiles, ends of intervals, modes
    and draws within a cell are at its atom, those between two cells between the two atoms, and
    distribution functions step at atoms, so that P(y = v | x) is cdf(v) − cdf(v′), v′ < v near v.
    Densities, regions and the laws of `at` stay smooth.

    Outside the data, beyond the box that the rows of X fill, weights are those at the nearest point
    of the box, and the mean goes on with the slope of the least-squares line through its values at
    the rows. In the box its distance from that line is kept within its range at the rows, and
    weights are no longer (in the sense of Σ(w_j − 1/n)²) than at a row. So answers are continuous
    in x and grow no faster than a line. Laws say for which x they are `extrapolated`; a
    `NumericalWarning` does where that is by more than a tenth of the width of the box. Angles,
    categories, linear kernels and kernels of one's own know no box.

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
        A bent scale is looked for where "auto" compares; True and False leave y as it is.
    tune_lengthscale : "auto" or bool
        Whether the lengthscales of X are scaled: all by one factor, or, with ten rows a column,
        each column by its own, loosely tied to the others. "auto" does so for kernels given by
        name, where λ is chosen.
    wide : "auto" or float in [0, 1)
        Share a of a wide law (Laplace, 1.5 mean deviations of Y, or of the residuals, about their
        median) in every density: p = (1 − a) max(q, 0)/∫max(q, 0) + a·wide. "auto" is the share
        that maximises the log density of rows left out, between 1/n and a half, where λ is chosen,
        and 0 where it is given.
    verbose : bool or callable
        Show the progress of the search.

    Attributes
    ----------
    bandwidth_ : array of shape (d_y,)
    reg_ : float
    loo_score_ : float
        M at the parameters used, with nλ held fixed while a row is out; around a location, of the
        density of the residuals. Without an intercept, of Σ_j w_j k̄_γ as it stands, not over Σ w.
    kernel_x_, kernel_y_, features_ : as used
    scales_ : array of shape (d_x,)
        Lengthscales found, as multiples of the medians.
    intercept_ : bool
    wide_ : float
        Share of the wide law.
    location_ : Location, Standard or None
        The smooth mean m, a function of rows of X. A `Standard` also has `widths`, a function s of
        rows of X: `points_` are (y − m)/s then, and `bandwidth_` is that of laws where s is one;
        m has weights 1/s² if rows left out are likelier so.
    bend_ : Bend or None
        The bent scale B, a function of rows of y, with its inverse `back`; `location_`, `points_`,
        `bandwidth_` and `loo_score_` are on it.
    atoms_ : Atoms or None
        Values of y that repeat, and the cells of the line whose mass is theirs.
    points_x_, points_ : arrays of shape (n, d_x), (n, d_y)
        X, and Y or its residuals; of rows that are summed 10,000 of X, and the nodes that sums
        over Y are gathered at.
    target_names_ : list of str or None
        Names of the columns of a table y.

    References
    ----------
    Spiteri (2023), chapter 2: eq. 2.10, 2.11; Fan and Yim (2004), A crossvalidation method for
    estimating conditional densities; Hyndman, Bashtannyk, Grunwald (1996), Estimating and
    visualizing conditional densities (densities around a mean); Silverman (1986), Density
    estimation, §6.4 (points drawn together); MATH §8.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> data = km.datasets.make_conditional_density("bimodal", 500, random_state=0)
    >>> model = km.ConditionalDensity().fit(data.X, data.Y[:, 0])
    >>> y = np.linspace(-7, 7, 201)
    >>> p = model.pdf(y, [[0.5]], paired=False)  # two modes, at -2.5 and 2.5
    >>> bool(np.abs(p - data.density(y, [[0.5]])).max() < 0.06)
    True
    >>> lower, upper = model.predict_interval([[0.0], [1.0]], 0.9)
    >>> lower.shape
    (2,)
    """

    ALLOWED: ClassVar = {
        "reg": optional(positive(zero=True)),
        "wide": either(share, "auto"),
        **dict.fromkeys(("intercept", "location", "tune_lengthscale"), auto),
    }
    was: ClassVar = {"wide": 0.0}
    wide_ = 0.0  # a file of an earlier version has none of these
    bend_ = None
    atoms_ = None

    kernel_x: Any = "gaussian"
    bandwidth: Any = None
    reg: float | None = None
    features: Any = None
    _: KW_ONLY
    kernel_y: Any = "gaussian"
    intercept: Any = "auto"
    location: Any = "auto"
    tune_lengthscale: Any = "auto"
    wide: Any = "auto"
    verbose: Any = False

    def fit(self, X, y) -> Self:
        """Learn the conditional density of y given X.

        Arrays and DataFrames of Dask, and `Rows`, are summed where they are, and so are more than
        50,000 rows in memory: kernels and bandwidth are chosen on 10,000 evenly spaced rows, λ by
        the score of 4,000 left out of all. Beyond 10,000 rows elsewhere y has a single column.

        Where everything is chosen and the table repeats rows (the same X and y, not for want of
        other values of y), each counts once, with a `NumericalWarning`.

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
        rows, X, y = few_of(SEARCH_ROWS, X=X, y=y)
        points_x, points_y = self._check_pairs(X, y)
        rows = enough(rows, points_y.shape[1], "y")
        if rows is None and self._choice:
            points_x, points_y = once(points_x, points_y)
        order = canonical_order(points_x, points_y)
        rows_x, rows_y = (arrays.take(A, order, axis=0) for A in (points_x, points_y))
        if rows is None and to_be_summed(rows_x, rows_y):
            order = order[evenly(len(order), SEARCH_ROWS)]
            rows, rows_x, rows_y = few_of(SEARCH_ROWS, X=Rows(rows_x, step=SEARCH_ROWS), y=rows_y)
        plan, bent = self._plan(rows_x, rows_y, checks.column_names(X)).bent(rows_x, rows_y)
        for draft in track([plan.draft(rows_x, bent)], description="Search", verbose=self.verbose):
            fit = plan.finish(plan.refined(draft, rows_x, bent), rows_x, bent, rows)
        self._adopt(fit.in_order(Order(order), points_x))
        chosen = self.reg is None and self.bandwidth is None
        self.atoms_ = Atoms.found(arrays.to_numpy(rows_y)) if chosen else None
        if self.atoms_ is not None:
            some = evenly(rows_x.shape[0], ATOM_ROWS)
            self.atoms_ = self.atoms_.cut(fit.laws(arrays.take(rows_x, some, axis=0)))
        return self

    @property
    def fit_(self) -> Fit:
        """What was fitted, as a value."""
        check_is_fitted(self)
        return self._fit

    # ------------------------------------------------------------ densities

    def pdf(self, Y, X, paired: bool | None = None) -> Array:
        """p(y_i | x_i), shape (m,).

        Parameters
        ----------
        Y : array of shape (m,) or (m, d_y)
        X : array of shape (m, d_x)
        paired : bool, optional
            False: a table with a row for each x, shape (len(X), len(Y)).
        """
        laws, Y, paired = self._asked(Y, X, paired)
        return laws.density_of_pairs(Y) if paired else laws.density(Y)

    def score_samples(self, X, y) -> Array:
        """log p(y_i | x_i), shape (m,); finite, but −∞ where `wide` is 0 and p is zero."""
        laws, rows = self._pairs(X, y)
        return laws.log_density_of_pairs(rows)

    def score(self, X, y) -> float:
        """Mean log density of pairs.

        Without a wide law a density counts as at least 1e-6 in units of standard deviations of the
        training y: the positive part can be zero where data fall, once in a while.
        """
        checks.refuse_far(X, "X")
        found = arrays.to_numpy(self.score_samples(X, y))
        if self._fit.wide is None:
            lowest = LOWEST / np.prod(arrays.to_numpy(self._fit.spread))
            found = np.maximum(found, np.log(lowest))
        return float(np.mean(found))

    def cdf(self, Y, X, paired: bool | None = None) -> Array:
        """P(Y_j ≤ y_j | x) of each column: (m,), or a table, with d_y behind if y had columns.

        Parameters as for `pdf`. With several columns, those of the recovered marginals.
        """
        laws, Y, paired = self._asked(Y, X, paired)
        if self.atoms_ is None:
            return self._outward(laws.cdf(Y, paired))
        edges = self.atoms_.edges(Y)
        known = laws.cdf(np.where(np.isfinite(edges), edges, Y), paired)
        F = arrays.to_numpy(known)
        F = np.where(edges == -np.inf, 0.0, np.where(edges == np.inf, 1.0, F))
        return self._outward(arrays.like(F, known))

    # ------------------------------------------------------------ answers

    def at(self, X) -> MeanEmbedding | MovedLaws:
        """The laws of y given each row of X, a batch, with the bandwidth of the densities.

        Returns
        -------
        MeanEmbedding or MovedLaws
            Σ_j w_j(x) k_γ(y_j, ·); around a location, where every x has points of its own, the
            weighted residuals and where each law lies. Both answer `mean`, `std`, `cov`,
            `interval`, `quantile`, `density`, `log_density`, `probability`, `sample`, `mode` and
            `to_frame`.
        """
        laws = self._laws(X)
        m, move = laws.embedding, laws.move
        if laws.wide or laws.drawn is not None or move.bend is not None:
            return laws
        if move.shift is None:
            return m
        if len(laws) > 1:
            return laws
        widths = None if move.widths is None else move.widths[0]
        return m.moved(arrays.like(move.shift, m.points), widths)

    def weights(self, X) -> Array:
        """w_j(x), shape (batch, n); they belong to `points_`."""
        return self._laws(X).weights

    def predict(self, X) -> Array:
        """The conditional mean Σ_j w_j(x) y_j / Σ_j w_j(x), (batch,) or (batch, d_y)."""
        return self._outward(self._laws(X).mean())

    def predict_quantile(self, X, q) -> Array:
        """Conditional quantiles of each column: (batch,) or, for several levels, (batch, k).

        With d_y behind if y had columns.

        Parameters
        ----------
        X : array of shape (batch, d_x)
        q : float or sequence of float in [0, 1]
        """
        return self._outward(self._snapped(self._laws(X).quantile(q)))

    def predict_interval(self, X, level: float = 0.95, kind: str = "central") -> Interval:
        """`Interval(lower, upper)` of each column with probability `level`, arrays like y.

        Parameters
        ----------
        X : array of shape (batch, d_x)
        level : float in (0, 1)
        kind : {"central", "shortest"}
            As much probability on either side, or the narrowest interval.
        """
        ends = self._laws(X).interval(level, kind)
        return Interval(*(self._outward(self._snapped(end)) for end in ends))

    quantile = attribute("quantile", "predict_quantile")
    interval = attribute("interval", "predict_interval")

    def region(self, X, level: float = 0.95) -> list[np.ndarray]:
        """Highest-density regions: for each x disjoint intervals (k, 2) of probability `level`."""
        return self._laws(X).region(level)

    def conformalize(self, X=None, y=None) -> ConformalDensity:
        """Intervals and regions that hold what they say, by rows that had no part in the fit.

        Parameters
        ----------
        X, y : as for `fit`
            Rows that the model has not seen. Without them, the rows of the fit, each left out of
            the weights at its own x (at most 2,000, evenly spaced); nearly as good.

        Returns
        -------
        ConformalDensity
        """
        if X is None and y is None:
            return ConformalDensity.of(self, *self.fit_.left_out(CALIBRATION_ROWS), split=False)
        return ConformalDensity.of(self, *self._pairs(X, y), split=True)

    def mode(self, X) -> Array:
        """Where the density is highest, (batch,) or (batch, d_y)."""
        return self._outward(self._snapped(self._laws(X).mode()))

    def sample(self, X, n: int = 1, random_state=None) -> Array:
        """Draws from the conditional densities, (batch, n) or (batch, n, d_y).

        In one column by the inverse of the distribution function, otherwise by rejection.
        """
        return self._outward(self._snapped(self._laws(X).sample(n, random_state)))

    def loo_score(self, bandwidth=None, reg=None, lengthscale=None) -> float:
        """M at other parameters; those left out are as fitted.

        Parameters
        ----------
        bandwidth : float or sequence of float, optional
        reg : float, optional
        lengthscale : float or sequence of float, optional
            Of `kernel_x_`.
        """
        fit, points = self.fit_, self.points_
        bandwidth = fit.kernel_y.lengthscale if bandwidth is None else bandwidth
        kernel = with_bandwidth(fit.kernel_y, bandwidth, arrays.to_numpy(points), "kernel_y")
        reg = fit.reg if reg is None else checks.check_positive(reg, "reg", zero=True)
        smoother = fit.smoother
        if lengthscale is not None:
            if fit.gathered is not None:
                raise ValueError("lengthscale is for fits whose rows are here; here are their sums")
            if not hasattr(fit.kernel_x, "lengthscale"):
                raise ValueError(f"lengthscale is given, but {fit.kernel_x!r} has none")
            kernel_x = bending.resized(fit.kernel_x, lengthscale)
            Phi = as_feature_map(self.features).fit_transform(self.points_x_, kernel_x)
            smoother = Smoother.of(Phi, self.intercept_)
        return fit.score_at(smoother, kernel, "loo_score")(reg)

    def summary(self) -> Summary:
        """The fit in words and numbers: rows, kernels, bandwidth, λ."""
        n, d, bend = self.fit_.smoother.n, self.points_.shape[1], self.bend_
        columns = names_like(self, self.n_features_in_)
        targets = Labels.of(None, self.target_names_).named(d)
        what = "residuals around a smooth mean" if self.location_ else "y itself"
        if isinstance(self.location_, Standard):
            what += ", as wide as x says"
        data = [Line("rows", n, f"{n:,}"), Line("density of", what, what)]
        smoothing = [Line("kernel", self.kernel_y_, type(self.kernel_y_).__name__)]
        smoothing += bandwidth_lines(self.bandwidth_, targets, self.bandwidth)
        smoothing += [] if self.atoms_ is None else self.atoms_.lines(targets)
        gain = self._fit.gain
        fit = [
            Line.chosen("reg (λ)", self.reg_, self.reg),
            Line("intercept", self.intercept_, "yes" if self.intercept_ else "no"),
            Line.chosen("share of a wide law", self.wide_, None if gain else 0.0),
            Line.of("leave-one-out score", self.loo_score_),
        ]
        fit += [] if gain is None else [rival.line(gain)]
        blocks = [Block("Data", data), self.features_.block("Kernel on X", columns)]
        blocks += bending.bends_block(self.kernel_x_, columns)
        blocks += [] if bend is None else [Block("Bent scale of y", bending.lines(bend, targets))]
        blocks += [Block("Smoothing of y", smoothing), Block("Fit", fit)]
        return Summary("Conditional density of " + ", ".join(targets), blocks)

    # ------------------------------------------------------------ inside

    def _check_pairs(self, X, y) -> tuple[Array, Array]:
        check_parameters(self)
        pairs = checks.as_pairs(self, X, y, min_rows=5)
        self._one_output = checks.as_floats(y, "y").ndim == 1
        self.target_names_ = checks.column_names(y)
        return pairs

    def _plan(self, X, Y, names) -> Plan:
        by_name = isinstance(self.kernel_x, str)
        kernel_x = fitted_kernel(self.kernel_x, X, names=names, name="kernel_x", columnwise=by_name)
        kernel_y = with_bandwidth(self.kernel_y, self.bandwidth, arrays.to_numpy(Y), "kernel_y")
        if isinstance(kernel_y, Periodic):
            raise ValueError(
                f"kernel_y is {kernel_y!r}; densities of angles are those of EmbeddedDensity or of "
                "an embedding: a Gaussian, Laplace or Matern kernel is needed"
            )
        reg = None if self.reg is None else float(self.reg)
        chosen, tune = reg is None, self.tune_lengthscale
        if tune == "auto":
            tune = chosen and is_tuned(self.kernel_x) and not learns_from_pairs(self.features)
        intercept = chosen if self.intercept == "auto" else bool(self.intercept)
        location = None if self._choice else self.location is True
        wide = (None if chosen else 0.0) if self.wide == "auto" else float(self.wide)
        leans = chosen and self.bandwidth is None and Y.shape[1] > 1 and self.kernel_y == "gaussian"
        return Plan(
            kernel_x, kernel_y, self.bandwidth, reg, self.features, intercept, tune, location, wide,
            leans,
        )  # fmt: skip

    @property
    def _choice(self) -> bool:
        """Whether all is left to the rows."""
        return self.location == "auto" and self.reg is None and self.bandwidth is None

    def _adopt(self, fit: Fit) -> None:
        self._fit = fit
        self.kernel_x_, self.kernel_y_, self.features_ = fit.kernel_x, fit.kernel_y, fit.features
        self.scales_, self.intercept_, self.location_ = fit.scales, fit.intercept, fit.location
        self.points_x_, self.points_, self.bend_ = fit.X, fit.points, fit.bend
        self.wide_ = 0.0 if fit.wide is None else fit.wide.share
        self.reg_, self.loo_score_ = fit.reg, fit.score
        self.bandwidth_ = np.array(fit.bandwidth)

    def _laws(self, X) -> MovedLaws:
        """For rows of X: their weights, and how far their densities are moved."""
        points = checks.as_new_points(self, X)
        labels, outside = Labels.of(X, self.target_names_), self._fit.outside(points)
        return self._fit.laws(points).carrying(self._fit.bandwidth, labels, outside)

    def _asked(self, Y, X, paired: bool | None) -> tuple[MovedLaws, np.ndarray, bool]:
        """The laws at X, rows y, and whether these are pairs."""
        laws = self._laws(X)
        rows = laws.rows(Y)
        return laws, rows, checks.pairs_wanted(len(rows), len(laws), paired)

    def _pairs(self, X, y) -> tuple[MovedLaws, np.ndarray]:
        """The laws at X, and a row of y for each."""
        laws = self._laws(X)
        rows = laws.rows(y, "y")
        checks.check_lengths(len(laws), len(rows), "X", "y")
        return laws, rows

    def _snapped(self, values: Array) -> Array:
        """Rows (..., d) of y, at an atom where they are in its cell."""
        if self.atoms_ is None:
            return values
        return arrays.like(self.atoms_.snapped(arrays.to_numpy(values)), values)

    def _outward(self, values: Array) -> Array:
        """Without the column axis when y had none."""
        return values[..., 0] if self._one_output else values

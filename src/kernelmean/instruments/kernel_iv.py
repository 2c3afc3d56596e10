"""Kernel instrumental-variable regression: the structural function behind confounded data."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core import arrays
from ..core.checks import (
    Array,
    as_floats,
    as_points,
    as_vector,
    check_count,
    check_lengths,
    check_positive,
    check_target,
    column_names,
)
from ..core.minimise import SEARCH_ROWS
from ..core.moments import block_rows, evenly, row_blocks
from ..core.progress import track
from ..core.saving import Saveable
from ..core.summary import Summary
from ..features.base import FeatureMap
from ..features.choose import as_feature_map, learns_from_pairs
from ..features.landmarks import Nystroem
from ..kernels import Kernel, Precomputed, fitted_kernel
from ..regression.lengthscales import TUNABLE, Scaled
from .basis import Basis, Polynomial
from .first_stage import choose, jackknife_stage, split_stages
from .formula import Design, read_formula
from .groups import Group
from .inference import StructuralInference, bias_spread, slopes_differ
from .moment_test import moment_test
from .rows import Part, is_dask, kind_of, share, thinned_parts, together
from .search import ROUNDS, Search
from .second_stage import (
    SecondStage,
    causal_leave_one_out,
    held_out_loss,
    influence,
    second_moments,
)
from .summary import account

SEARCH_COST = 4e7  # rows × ranks of a step of the search over lengthscales
FEWEST = 1000  # rows of the search, whatever the ranks
LEVEL = 0.05  # of the test that the instruments do not contradict a fit
FINE = 1e-8  # of the trace: landmarks where lengthscales are tuned


class KernelIV(StructuralInference, Saveable, RegressorMixin, BaseEstimator):
    """Structural function h in Y = h(X) + e, E[e | Z] = 0, by two-stage kernel ridge regression.

    Stage 1 learns E[φ(X) | Z = z] = F(z), stage 2 regresses y on it: h(x) = φ(x)ᵀb,
    b = (MᵀM/n + ξI)⁻¹Mᵀy/n. In the default, jackknife kernel IV, every row serves both stages:
    row i of M is the embedding learned without it, M_i = (F_i − h_iφ_i)/(1 − h_i), and ξ minimises
    the causal leave-one-out loss (1/n) Σ(y_i − h⁻ⁱ(x_i))², as do the lengthscales of the
    regressors, while λ and the lengthscales of the instruments minimise the leave-one-out loss of
    stage 1.

    Parameters
    ----------
    kernel_x, kernel_z : Kernel, str, scikit-learn kernel or callable
        Kernels on the regressors (X, C) and on the instruments (Z, C). By name: a product over
        columns, each with a lengthscale of its own.
    reg_stage1, reg_stage2 : float, optional
        λ and ξ, per sample. None chooses them by the losses above; under a split, by the paper's
        causal validation: λ minimises the stage-1 loss on the stage-2 rows, ξ minimises
        (1/n) Σ (y_i − h(x_i))² on the stage-1 rows, and of several local minima the one with most
        regularisation is taken.
    split : "loo", float, int or "samples"
        "loo" is the jackknife. A share in (0, 1) of the rows goes to stage 1 and the rest to
        stage 2, as in the paper (0.5). A number K ≥ 2 of folds: the embeddings of each fold are
        learned from the other folds. "samples": two samples in one table; rows where y is NaN
        serve stage 1 only, rows where X is NaN stage 2 only, complete rows (if any) serve both.
    features : FeatureMap, optional
        Coordinates for regressors and for instruments; None is `Nystroem()`, ten times closer in
        norm where lengthscales are tuned, for these come out long and λ, ξ small.
    random_state : int, Generator or None
        Shuffles the rows before they are split or folded; None keeps them in order.
    trend : "auto", None or int
        Polynomial of this degree in each column beside the kernel, without interactions, not
        penalised in stage 2: 0 is an intercept, 1 a plane. "auto" fits both and takes the plane,
        unless the intercept has the smaller causal loss and is not contradicted: neither by the
        instruments (`specification_p_` below 0.05) nor by its slopes in X differing from those of
        the plane's fit; with fewer than ten rows a column, 0; for a share, None, as in the paper.
    tune_lengthscale : "auto" or bool
        Whether one scale per column, of the regressors and of the instruments, is searched from
        the median lengthscale. "auto" does so for kernels given by name, but not for a share.
    verbose : bool
        Show the progress of the search.

    Attributes
    ----------
    coef_ : array of shape (width,)
        Coefficients of the trend and of the kernel's coordinates, `basis_x_`.
    covariance_ : array of shape (width, width)
        Of `coef_`: by the influence of every row on both stages, and the spread of the smoothing
        bias (see `predict_interval`).
    reg_stage1_, reg_stage2_, loss_stage1_, loss_stage2_ : float
        λ, ξ and the two validation losses.
    trend_ : int or None
        Degree of the trend.
    specification_p_ : float
        p-value of E[y − h(X) | Z] = 0 for the h fitted. A small one says that something other
        than noise is left: too stiff a kernel, too much regularisation, or a bad instrument.
    kernel_x_, kernel_z_, features_x_, features_z_ : as used
    scales_x_, scales_z_ : arrays of shape (d_x + d_c,), (d_z + d_c,)
        Lengthscales found, as multiples of those the kernels started from.
    n_stage1_, n_stage2_ : int
    design_ : Design or None
        How columns are made from a table, after `from_formula`.

    References
    ----------
    Singh, Sahani, Gretton (2019), Kernel instrumental variable regression, Algorithms 1 and 2;
    Angrist, Imbens, Krueger (1999), Jackknife instrumental variables estimation; MATH §7.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_iv_sigmoid(1000, random_state=0)
    >>> iv = km.KernelIV().fit(data.X, data.y, data.Z)
    >>> error = ((iv.predict(data.grid) - data.truth(data.grid)) ** 2).mean()
    >>> bool(error < 0.05)
    True
    """

    coef_: Array
    covariance_: Array

    def __init__(
        self,
        kernel_x="gaussian",
        kernel_z="gaussian",
        reg_stage1=None,
        reg_stage2=None,
        split="loo",
        features=None,
        random_state=None,
        trend="auto",
        tune_lengthscale="auto",
        verbose=False,
    ):
        self.kernel_x = kernel_x
        self.kernel_z = kernel_z
        self.reg_stage1 = reg_stage1
        self.reg_stage2 = reg_stage2
        self.split = split
        self.features = features
        self.random_state = random_state
        self.trend = trend
        self.tune_lengthscale = tune_lengthscale
        self.verbose = verbose

    def fit(self, X, y, Z=None, C=None) -> KernelIV:
        """Estimate the structural function.

        Arrays and DataFrames of Dask (extra `dask`; `split="loo"`) are summed where they are: only
        small matrices and 10,000 evenly spaced rows come here. Six passes are made over the rows;
        `X.persist()` keeps them at hand.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d_x)
            Regressors, confounded with the noise.
        y : array or Series of shape (n,)
            Outcome.
        Z : array or DataFrame of shape (n, d_z)
            Instruments: related to X, and to y only through X.
        C : array or DataFrame of shape (n, d_c), optional
            Exogenous regressors, which also serve as instruments.

        Raises
        ------
        ValueError
            If Z is missing, or anything is malformed, non-finite or constant.
        """
        rows = None
        if is_dask(X, y, Z, C):
            from .dask import DaskPart, rows_to_fit

            rows = rows_to_fit(self.split, X, y, Z, C)
            X, y, Z, C = rows.few(SEARCH_ROWS)
        self._check_parameters()
        regressors, y, instruments = self._check_data(X, y, Z, C)
        self.design_: Design | None = None
        parts = share(self.split, self.random_state, regressors, instruments, y)
        if rows is not None:
            parts = [DaskPart(regressors, instruments, y, rows=rows)]
        names_c = column_names(C)
        names = _joined(column_names(X), names_c), _joined(column_names(Z), names_c)
        self._names = names
        if self.trend == "auto" and kind_of(self.split) != "share":
            return self._fit_best(parts)
        return self._fit_parts(parts)

    @classmethod
    def from_formula(cls, formula, data, **parameters) -> KernelIV:
        """A fitted model, its columns made from a table by a formula.

        Parameters
        ----------
        formula : str
            "y ~ controls + [regressors ~ instruments]", as in linearmodels. Controls serve as
            instruments too. The intercept is the model's own: constant columns are left out, and
            `0 +` is refused. Text has to be called categorical, C(region); log, poly, bs and
            NumPy's elementwise functions (np.sqrt) may stand in it.
        data : DataFrame
            Without missing values in the columns used (with `split="samples"`, those of the
            outcome and the regressors may be missing).
        **parameters
            Those of the estimator.

        Returns
        -------
        KernelIV
            Fitted. Its methods take tables with the formula's columns in place of X and C.

        Examples
        --------
        >>> import kernelmean as km
        >>> fish = km.datasets.load_fulton_fish().frame
        >>> iv = km.KernelIV.from_formula("ltotqty ~ [lavgprc ~ wave2 + wave3]", fish)
        >>> iv.predict(fish.head(2)).shape
        (2,)
        """
        gaps = kind_of(parameters.get("split", "loo")) == "samples"
        design, y, X, Z, C = read_formula(formula, data, gaps=gaps)
        model = cls(**parameters).fit(X, y, Z, C)
        model.design_ = design
        return model

    def _fit_best(self, parts: list[Part]) -> KernelIV:
        """With an intercept, or a plane: the smaller causal loss that the instruments allow."""
        few = thinned_parts(parts, SEARCH_ROWS)
        if not self._plane_fits(few):
            return self._adopt(self._trial(0, parts))
        level = self._trial(0, few)
        plane = self._trial(1, few, like=level)
        differ = slopes_differ(plane, level, self.n_features_in_)
        contradicted = level.specification_p_ < LEVEL or differ < LEVEL
        best = level if level.loss_stage2_ <= plane.loss_stage2_ and not contradicted else plane
        return self._adopt(best if few is parts else best._solve(parts))

    def _trial(self, degree: int, parts: list[Part], like: KernelIV | None = None) -> KernelIV:
        """A fit with a trend of this degree; coordinates that are not tuned are those of `like`."""
        trial = clone(self).set_params(trend=degree)
        trial._names = self._names
        return trial._fit_parts(parts, like)

    def _adopt(self, trial: KernelIV) -> KernelIV:
        parameters = self.get_params(deep=False)
        for name, value in vars(trial).items():
            if name not in parameters:
                setattr(self, name, value)
        return self

    def _plane_fits(self, parts: list[Part]) -> bool:
        """Whether there are rows enough, and numbers, for a line in every column."""
        n = sum(part.y.shape[0] for part in parts)
        columns = max(parts[0].X.shape[1], parts[0].Z.shape[1])
        indexed = isinstance(self.kernel_x, Precomputed) or isinstance(self.kernel_z, Precomputed)
        return n >= 10 * columns and not indexed

    def _fit_parts(self, parts: list[Part], like: KernelIV | None = None) -> KernelIV:
        few = thinned_parts(parts, SEARCH_ROWS)
        self._choose_kernels(few, *self._names)
        self._choose_coordinates(few, like)
        return self._solve(parts)

    def _solve(self, parts: list[Part]) -> KernelIV:
        """Both stages on these rows, in the coordinates chosen."""
        few = thinned_parts(parts, SEARCH_ROWS)
        # an intercept takes up the mean of y, which then need not pass through stage 1
        middle = _mean_outcome(few) if self._powers else 0.0
        groups = [part.group(self.basis_x_, self.basis_z_, middle) for part in parts]
        self._solve_stage1(groups)
        self._solve_stage2(groups)
        known = groups if kind_of(self.split) != "samples" else _complete(groups)
        self.specification_p_ = np.nan
        if known:
            self.specification_p_ = moment_test(known, self.coef_, self.reg_stage1_)
        if self._powers:
            first, rest = self.coef_[:1], self.coef_[1:]
            self.coef_ = arrays.namespace(first).concat([first + middle, rest])
        if kind_of(self.split) == "samples":
            few = _complete(few) or [part for part in few if part.teaches]
        self.sample_ = _sample(few)
        return self

    def predict(self, X, C=None) -> Array:
        """h at new regressors, shape (m,); of Dask, to be computed, for regressors of Dask.

        Parameters
        ----------
        X : array or DataFrame of shape (m, d_x), or (m, d_x + d_c)
        C : array or DataFrame of shape (m, d_c), optional
            Exogenous regressors, when the model was fitted with some. They may instead be the
            last columns of X (columns of a DataFrame are found by name).
        """
        check_is_fitted(self)
        if is_dask(X, C):
            from .dask import lazily

            return lazily(self, X, C)
        return self._evaluate(self._check_new(X, C))

    def _evaluate(self, points) -> Array:
        parts = [
            self.basis_x_.transform(block) @ self.coef_
            for (block,) in row_blocks(points, rows=block_rows(self.basis_x_.width))
        ]
        return arrays.namespace(points).concat(parts)

    @property
    def features_x_(self) -> FeatureMap:
        """Coordinates of the regressors' kernel."""
        return self.basis_x_.features

    @property
    def features_z_(self) -> FeatureMap:
        """Coordinates of the instruments' kernel."""
        return self.basis_z_.features

    # ------------------------------------------------------------ kernels and coordinates

    def _choose_kernels(self, parts: list[Part], names_x, names_z) -> None:
        """Kernels at the lengthscales they start from, then at those found."""
        known = [p for p in parts if p.teaches or kind_of(self.split) != "samples"]
        X, Z = together(known, "X"), together(parts, "Z")
        starts = (
            fitted_kernel(self.kernel_x, X, names=names_x, **_as("kernel_x", "X, C")),
            fitted_kernel(self.kernel_z, Z, names=names_z, **_as("kernel_z", "Z, C")),
        )
        none = self.trend is None or self.trend == "auto"  # "auto" comes here for a share only
        self.trend_ = None if none else check_count(self.trend, "trend", minimum=0)
        self._powers = 0 if self.trend_ is None else self.trend_ + 1
        self.scales_x_, self.scales_z_ = self._search(*starts, parts)
        self.kernel_x_ = starts[0].scaled(self.scales_x_) if self._tunes[0] else starts[0]
        self.kernel_z_ = starts[1].scaled(self.scales_z_) if self._tunes[1] else starts[1]

    @property
    def _tunes(self) -> tuple[bool, bool]:
        """Whether the lengthscales of the regressors, and of the instruments, are searched."""
        if self.tune_lengthscale != "auto":
            return bool(self.tune_lengthscale), bool(self.tune_lengthscale)
        if kind_of(self.split) == "share" or learns_from_pairs(self.features):
            return False, False
        x, z = (isinstance(k, str) and k in TUNABLE for k in (self.kernel_x, self.kernel_z))
        return x, z

    def _search(self, kernel_x: Kernel, kernel_z: Kernel, parts: list[Part]) -> tuple:
        """Scales of the lengthscales, searched on evenly spaced complete rows."""
        ones = np.ones(parts[0].X.shape[1]), np.ones(parts[0].Z.shape[1])
        complete = parts if kind_of(self.split) != "samples" else _complete(parts)
        if not any(self._tunes) or not complete:
            return ones
        data = [arrays.to_numpy(together(complete, name)) for name in ("X", "Z", "y")]
        X, Z, y = _thinned(data, _search_rows(kernel_x, kernel_z, data))
        search = Search(
            Scaled(kernel_x, X),
            Scaled(kernel_z, Z),
            Polynomial.of(X, self._powers)(X),
            Polynomial.of(Z, self._powers)(Z),
            _standard(y),
            *self._tunes,
            self.reg_stage1,
            self.reg_stage2,
        )
        for _ in track(range(ROUNDS), description="Lengthscales", verbose=self.verbose):
            search.round()
        return search.scales

    def _choose_coordinates(self, parts: list[Part], like: KernelIV | None) -> None:
        """Landmarks among the rows that teach stage 1."""
        teachers = [p for p in parts if p.teaches]
        for side, kernel, tuned in [
            ("x", self.kernel_x_, self._tunes[0]),
            ("z", self.kernel_z_, self._tunes[1]),
        ]:
            points = together(teachers, side.upper())
            if like is not None and not tuned:
                features = getattr(like, f"features_{side}_")
            else:
                features = self._feature_map(tuned).fit(points, kernel)
            basis = Basis(Polynomial.of(points, self._powers), features)
            setattr(self, f"basis_{side}_", basis)

    def _feature_map(self, tuned: bool) -> FeatureMap:
        """What was asked for; landmarks are closer together where lengthscales were tuned."""
        if self.features is None and tuned:
            return Nystroem(tol=FINE)
        return as_feature_map(self.features)

    # ------------------------------------------------------------ the two stages

    def _solve_stage1(self, groups: list[Group]) -> None:
        """The stage 1 that embeds each group, λ and its loss."""
        teachers = [g for g in groups if g.teaches]
        self.n_stage1_ = sum(g.n for g in teachers)
        if all(g.own for g in teachers) and kind_of(self.split) != "share":
            stage, reg, loss = jackknife_stage(teachers, self.reg_stage1)
            stages = [stage]
        else:
            stages, reg, loss = split_stages(groups, self.reg_stage1)
        self.reg_stage1_, self.loss_stage1_ = reg, loss
        if len(stages) < len(groups):
            stages = stages * len(groups)
        for group, stage in zip(groups, stages, strict=True):
            group.stage = stage

    def _solve_stage2(self, groups: list[Group]) -> None:
        learners = [g for g in groups if g.outcome]
        moments = second_moments(learners)
        self.n_stage2_ = m = moments.n
        stage = SecondStage.of(
            moments.mean("mm"), moments.mean("my")[:, 0], self.basis_x_.trends, m
        )
        by_share = kind_of(self.split) == "share"
        if by_share:
            loss = held_out_loss(stage, groups[0])
        else:
            loss = causal_leave_one_out(stage, learners, m)
        self.reg_stage2_, self.loss_stage2_ = choose(
            self.reg_stage2, "reg_stage2", loss, stage.size, heaviest=by_share
        )
        self.coef_ = stage.coefficients(self.reg_stage2_)
        scores = influence(groups, self.coef_, self.n_stage1_, m)
        noise = stage.covariance(self.reg_stage2_, scores)
        self.covariance_ = noise + bias_spread(stage, self.reg_stage2_, self.coef_)

    def score(self, X, y, C=None, sample_weight=None) -> float:
        """R² of the structural function.

        It is not a measure of success: where noise is confounded with X, the true h has a smaller
        one than plain regression.
        """
        return float(r2_score(y, self.predict(X, C), sample_weight=sample_weight))

    def summary(self) -> Summary:
        """An account of the fit: a text, which shows as a table in a notebook."""
        check_is_fitted(self)
        return account(self)

    def plot(self, X=None, y=None, *, C=None, column=0, level=0.95, ax=None):
        """The structural function along one column, with its band, plain regression and the data.

        Parameters
        ----------
        X, y, C, column, level
            As for `display.StructuralCurveDisplay.from_estimator`.
        ax : matplotlib Axes, optional

        Returns
        -------
        StructuralCurveDisplay
        """
        from ..display import StructuralCurveDisplay

        options = {"C": C, "column": column, "level": level}
        return StructuralCurveDisplay.from_estimator(self, X, y, **options).plot(ax)

    # ------------------------------------------------------------ the door

    def _check_parameters(self) -> None:
        """What is wrong with them is said before the long search."""
        for name in ("reg_stage1", "reg_stage2"):
            if getattr(self, name) is not None:
                check_positive(getattr(self, name), name, zero=True)
        as_feature_map(self.features)
        if isinstance(self.trend, str) and self.trend != "auto":
            raise ValueError(f'trend is {self.trend!r}; "auto", None or a degree is needed')
        if self.trend is not None and self.trend != "auto":
            check_count(self.trend, "trend", minimum=0)
        if self.tune_lengthscale != "auto" and not isinstance(self.tune_lengthscale, bool):
            raise ValueError(
                f'tune_lengthscale is {self.tune_lengthscale!r}; "auto", True or False is needed'
            )

    def _check_data(self, X, y, Z, C) -> tuple[Array, Array, Array]:
        gaps = kind_of(self.split) == "samples"
        points = as_points(X, "X", min_rows=4, one_d=False, gaps=gaps)
        validate_data(self, X, skip_check_array=True)
        check_target(y)
        self.target_name_ = (column_names(y) or ["y"])[0]
        y = _outcome(y, points.shape[0], gaps)
        if Z is None:
            raise ValueError(
                "Z is None; instruments are needed. For a regression without instruments use "
                "ConditionalEmbedding or scikit-learn's KernelRidge"
            )
        parts = {"Z": as_points(Z, "Z")}
        if C is not None:
            parts["C"] = as_points(C, "C")
        for name, part in parts.items():
            check_lengths(points.shape[0], part.shape[0], "X", name)
        self._names_c = column_names(C)
        self._columns_c = parts["C"].shape[1] if "C" in parts else 0
        exogenous = [parts["C"]] if "C" in parts else []
        join = arrays.namespace(points).concat
        return join([points, *exogenous], axis=1), y, join([parts["Z"], *exogenous], axis=1)

    def _check_new(self, X, C) -> Array:
        if self.design_ is not None and column_names(X) is not None:
            X, C = self.design_.regressors(X, C)
        if self._columns_c == 0 or C is not None:
            points = as_points(X, "X", one_d=False)
            validate_data(self, X, reset=False, skip_check_array=True)
            return points if C is None else self._append_exogenous(points, C)
        names = column_names(X)
        if names is not None and self._names_c and hasattr(self, "feature_names_in_"):
            X = _pick(X, [*self.feature_names_in_, *self._names_c], "X")
        points = as_points(X, "X", one_d=False)
        expected = self.n_features_in_ + self._columns_c
        if points.shape[1] != expected:
            raise ValueError(
                f"X has {points.shape[1]} columns; {expected} are needed: {self.n_features_in_} of "
                f"X and {self._columns_c} of C (or pass C separately)"
            )
        return points

    def _append_exogenous(self, points, C) -> Array:
        if self._names_c and column_names(C) is not None:
            C = _pick(C, self._names_c, "C")
        C = as_points(C, "C")
        if C.shape[1] != self._columns_c:
            raise ValueError(
                f"C has {C.shape[1]} columns, but KernelIV was fitted with {self._columns_c}"
            )
        check_lengths(points.shape[0], C.shape[0], "X", "C")
        return arrays.namespace(points).concat([points, C], axis=1)


def _as(name: str, argument: str) -> dict:
    return {"name": name, "columnwise": True, "argument": f"({argument})"}


def _joined(names, names_c) -> list[str] | None:
    """Names of two sets of columns side by side; placeholders keep unnamed ones in place."""
    return None if names is None else [*names, *(names_c or [])]


def _outcome(y, n: int, gaps: bool) -> Array:
    if as_floats(y, "y").ndim == 2:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: use y.ravel()",
            DataConversionWarning,
            stacklevel=4,
        )
    return as_vector(y, "y", n=n, gaps=gaps)


def _pick(X, names: list[str], name: str):
    """The columns a model was fitted on, from a table that may hold more, in any order."""
    X = X.to_frame() if hasattr(X, "to_frame") else X
    known = column_names(X) or []
    missing = [c for c in names if c not in known]
    if missing:
        raise ValueError(f"{name} lacks the columns {missing}; the model was fitted on {names}")
    X = X.set_axis(known, axis=1)
    return X[names]


def _standard(y: np.ndarray) -> np.ndarray:
    """Mean zero, and variance one unless it is constant."""
    return (y - y.mean()) / (y.std() or 1.0)


def _mean_outcome(parts: list[Part]) -> float:
    """Mean of y over the rows where it is known."""
    y = together([part for part in parts if part.outcome] or parts, "y")
    return float(arrays.namespace(y).mean(y))


def _sample(parts: list[Part]) -> tuple:
    """Rows (X, Z, y), for averages and tests after the fit."""
    return tuple(arrays.to_numpy(together(parts, name)) for name in ("X", "Z", "y"))


def _complete(parts: list) -> list:
    """Those whose rows have regressors and outcomes."""
    return [part for part in parts if part.teaches and part.outcome]


def _search_rows(kernel_x: Kernel, kernel_z: Kernel, data: list) -> int:
    """As many rows as keep a step of the search cheap: fewer where the kernels have high rank."""
    ranks = []
    for kernel, points in zip((kernel_x, kernel_z), data, strict=False):
        scaled = Scaled(kernel, _thinned([points], FEWEST)[0])
        scaled.choose(np.zeros(points.shape[1]))
        ranks.append(scaled.landmarks.shape[0])
    return min(SEARCH_ROWS, max(FEWEST, int(SEARCH_COST / (ranks[0] * ranks[1]))))


def _thinned(data: list, limit: int) -> list:
    """Evenly spaced rows of each array, at most `limit`."""
    n = data[0].shape[0]
    if n <= limit:
        return data
    rows = evenly(n, limit)
    return [arrays.take(part, rows, axis=0) for part in data]

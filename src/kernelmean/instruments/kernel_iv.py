"""Kernel instrumental-variable regression: the structural function behind confounded data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sklearn.base import RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted

from ..core import Array, Summary, arrays, checks, old_names
from ..core.elsewhere import by_blocks, few_of, is_far
from ..core.minimise import SEARCH_ROWS
from ..core.moments import once
from ..core.parameters import Estimator, auto, check_parameters, count, optional, positive
from ..core.threads import doors
from ..features.base import FeatureMap
from ..features.choose import as_feature_map, learns_from_pairs
from ..kernels import Kernel, Precomputed, fitted_kernel, is_tuned
from .basis import Polynomial
from .choice import StructuralDraft
from .clusters import Clusters, labels_in
from .columns import (
    LINEAR,
    Forms,
    Roles,
    forms_of,
    plainer_forms,
    refuse_twice,
    without_constants,
)
from .fit import StructuralFit
from .formula import of_class, read_formula
from .groups import LOOKED_AT, Part, kind_of, share, thinned_parts, together
from .inference import StructuralInference
from .plan import Plan
from .search import ROWS, Side
from .summary import account


@by_blocks("predict", "derivative", tables=("X", "C"))
@doors("fit", "predict", "summary")
@dataclass(eq=False, repr=False)
class KernelIV(StructuralInference, RegressorMixin, Estimator):
    """Structural function h in Y = h(X) + e, E[e | Z] = 0, by two-stage kernel ridge regression.

    Stage 1 learns E[φ(X) | Z = z] = F(z), stage 2 regresses y on it: h(x) = φ(x)ᵀb,
    b = (MᵀM/n + ξI)⁻¹Mᵀy/n. In the default, jackknife kernel IV, every row serves both stages:
    row i of M is the embedding learned without it, M_i = (F_i − h_iφ_i)/(1 − h_i). λ and the
    lengthscales of the instruments minimise the leave-one-out loss of stage 1; ξ, the trend and
    the lengthscale of a single regressor are chosen by three judges (causal and controlled
    loss, evidence), those of several by the causal loss (1/n) Σ(y_i − h⁻ⁱ(x_i))².

    Parameters
    ----------
    kernel_x, kernel_z : Kernel, str, scikit-learn kernel, callable or dict
        Kernels on the regressors (X, C) and on the instruments (Z, C). By name: a product over
        columns, each with a lengthscale of its own. A dict gives the form of each column, by name
        or number: a kernel, "linear" (a straight line, which is not penalised; the word alone is
        of all columns) or "category" (a shift for each value), "*" for all other regressors.
        Columns of C keep it as instruments, and `kernel_x` may name columns of Z, too. "auto" are
        Gaussian kernels, or straight lines where no regressor bends and there are enough of these:
        two-stage least squares.
    reg_stage1, reg_stage2 : float, optional
        λ and ξ, per sample. None chooses them as above; under a share, by the paper's
        causal validation: λ minimises the stage-1 loss on the stage-2 rows, ξ minimises
        (1/n) Σ (y_i − h(x_i))² on the stage-1 rows, and of several local minima the one with most
        regularisation is taken.
    split : "loo", float, int or "samples"
        "loo" is the jackknife. A share in (0, 1) of the rows goes to stage 1 and the rest to
        stage 2, as in the paper (0.5). A number K ≥ 2 of folds: the embeddings of each fold are
        learned from the other folds. "samples": two samples in one table; rows where y is NaN
        serve stage 1 only, rows where X is NaN stage 2 only, complete rows (if any) serve both.
    features : FeatureMap, optional
        Coordinates for regressors and for instruments; None is `Nystroem()`, where lengthscales are
        tuned ten times closer in norm (these come out long and λ, ξ small), to 600 landmarks.
    random_state : int, Generator or None
        Shuffles the rows before they are split or folded; None keeps them in order.
    trend : "auto", None or int
        Polynomial of this degree in each column beside the kernel, without interactions, not
        penalised in stage 2: 0 is an intercept, 1 a plane. "auto" tries both, and with tuned
        kernels two-stage least squares in powers of the columns, also with products of X with all
        others, or of C alone, up to the third (after which `reg_stage2_` is as good as infinite,
        4.5e15), along regressors or instruments of two values also with slopes that go with C; and
        columns of few values, and then all of C, as straight lines and categories (an unseen value
        counts as the nearest); powers need three rows a column; for a share, None, as in the paper.
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
        Of `coef_`: by the influence of every row on both stages, and of the smoothing bias, by
        what else could have been chosen (see `predict_interval`).
    reg_stage1_, reg_stage2_, loss_stage1_, loss_stage2_ : float
        λ, ξ and the two validation losses.
    trend_ : int or None
        Degree of the trend.
    specification_p_ : float
        p-value of E[y − h(X) | Z] = 0 for the h fitted. A small one says that something other
        than noise is left: too stiff a kernel, too much regularisation, or a bad instrument. Of
        more than 50,000 rows that are elsewhere it is approximate.
    kernel_x_, kernel_z_, features_x_, features_z_ : as used
    scales_x_, scales_z_ : arrays of shape (d_x + d_c,), (d_z + d_c,)
        Lengthscales found, as multiples of those the kernels started from.
    at_bound_ : dict
        Regressors whose lengthscale is at a bound of its search: "longest" (h hardly bends along
        it) or "shortest" (h may be rougher than the search can follow).
    n_stage1_, n_stage2_ : int
    roles_ : Roles
        Names of the columns, by the part they play.
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

    ALLOWED: ClassVar = {
        "reg_stage1": optional(positive(zero=True)),
        "reg_stage2": optional(positive(zero=True)),
        "split": lambda value, name: kind_of(value),
        "features": lambda value, name: as_feature_map(value),
        "trend": optional(count(0, 10), "auto"),
        "tune_lengthscale": auto,
    }

    kernel_x: Any = "gaussian"
    kernel_z: Any = "auto"
    reg_stage1: float | None = None
    reg_stage2: float | None = None
    split: Any = "loo"
    features: FeatureMap | None = None
    random_state: Any = None
    trend: Any = "auto"
    tune_lengthscale: Any = "auto"
    verbose: bool = False

    def fit(self, X, y, Z=None, C=None, clusters=None) -> KernelIV:
        """Estimate the structural function.

        The walk: this door checks what is given and makes a `Plan` (`columns`, `groups`); the plan
        makes a draft for each trend, lengthscales searched and landmarks chosen (`search`,
        `basis`), and both stages of a draft make a fit (`groups`, `first_stage`,
        `second_stage`). The better one is adopted.

        Arrays and DataFrames of Dask (extra `dask`) and `Rows` are summed where they are
        (`split="loo"`): only small matrices and 50,000 evenly spaced rows come here. That is a
        pass over the rows, sums are another, and of more than 50,000 a third; `X.persist()` keeps
        rows of Dask at hand. Of so many the noise that `covariance_` and `specification_p_` are of
        is that of all rows to within a few percent.

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
        clusters : array or Series of shape (n,), optional
            Labels of rows whose noise may go together: of a firm, a village, a person seen often.
            `covariance_`, and with it limits, standard errors and tests, is of sums of the rows'
            influences within them, times G/(G − 1) of G clusters. What is chosen leaves whole
            clusters out of stage 2, lengthscales are sought on one row of each (200 rows at least),
            and stage 1 leaves out rows; two-stage least squares are the same as without.

        Raises
        ------
        ValueError
            If Z is missing, anything is malformed or non-finite, or a column of X or Z constant
            (which kernel objects allow).
        """
        parts, roles = self._check(X, y, Z, C, clusters)
        return self._adopt(self._plan(parts, roles).fit(parts))

    @of_class  # type: ignore[arg-type]
    def from_formula(cls, formula, data, clusters=None, **parameters) -> KernelIV:
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
        clusters : str or array of shape (n,), optional
            Labels as in `fit`, or the column of `data` that they are in.
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
        if isinstance(clusters, str):
            clusters = labels_in(data, clusters)
        model = cls(**parameters).fit(X, y, Z, C, clusters)
        model.design_ = design
        return model

    def predict(self, X, C=None) -> Array:
        """h at new regressors, shape (m,); to be computed, by blocks, for rows that are elsewhere.

        Warns of rows outside the training data by a tenth of their range; see `to_frame`.

        Parameters
        ----------
        X : array or DataFrame of shape (m, d_x), or (m, d_x + d_c)
        C : array or DataFrame of shape (m, d_c), optional
            Exogenous regressors, when the model was fitted with some. They may instead be the
            last columns of X (columns of a DataFrame are found by name).
        """
        points = self.regressors(X, C)
        self._fit.outside(points)  # which warns
        return self._fit(points)

    def regressors(self, X, C=None, *, name: str = "X") -> Array:
        """Checked rows of (X, C), as the fitted function takes them, shape (m, d_x + d_c).

        Parameters
        ----------
        X, C : as in `predict`
        name : str
            What messages call X.
        """
        check_is_fitted(self)
        if self.design_ is not None and checks.column_names(X) is not None:
            X, C = self.design_.regressors(X, C)
        points = self.roles_.asked(self, X, C, name)
        if isinstance(self.kernel_x, Mapping):
            self.basis_x_.polynomial.check(points, self.roles_.regressors)
        return points

    @property
    def features_x_(self) -> FeatureMap:
        """Coordinates of the regressors' kernel."""
        return self.basis_x_.features

    @property
    def features_z_(self) -> FeatureMap:
        """Coordinates of the instruments' kernel."""
        return self.basis_z_.features

    @property
    def at_bound_(self) -> dict[str, str]:
        """Regressors whose lengthscale is the longest, or the shortest, that was tried."""
        found = zip(self._fit.roles.regressors, self._fit.draft.at_bound(0), strict=True)
        return {name: "longest" if end > 0 else "shortest" for name, end in found if end}

    def score(self, X, y, C=None, sample_weight=None) -> float:
        """R² of the structural function.

        It is not a measure of success: where noise is confounded with X, the true h has a smaller
        one than plain regression.
        """
        from sklearn.metrics import r2_score

        checks.refuse_far(X, "X")
        truth, curve = checks.as_vector(y), self.fit_(self.regressors(X, C))
        return float(r2_score(truth, curve, sample_weight=sample_weight))

    def summary(self, *, level=0.95) -> Summary:
        """An account of the fit, with limits at this level: a text, a table in a notebook."""
        return account(self, self.fit_, level)

    def plot(self, X=None, y=None, *, ax=None, **options) -> Any:
        """Deprecated: `display.StructuralCurveDisplay.from_estimator(…).plot(ax)`.

        Parameters
        ----------
        X, y, **options
            As for `from_estimator`.
        ax : matplotlib Axes, optional
        """
        new = "display", "StructuralCurveDisplay.from_estimator"
        display = old_names.method("KernelIV.plot", *new)
        return display(self, X, y, **options).plot(ax)

    # ------------------------------------------------------------ the door

    def _check(self, X, y, Z, C, clusters) -> tuple[list[Part], Roles]:
        """The rows by the part they play in the stages, the columns by theirs."""
        if clusters is not None and is_far(X, y, Z, C):
            raise ValueError(
                "clusters are given, but these rows are elsewhere, as Dask arrays and Rows are; "
                "fit on rows in memory, X.compute(), or without clusters"
            )
        if is_far(X, y, Z, C) and kind_of(self.split) != "loo":
            raise ValueError(
                f'split is {self.split!r}, but Dask arrays and Rows are fitted with split="loo" '
                "only; or fit on rows in memory, X.compute()"
            )
        rows, X, y, Z, C = few_of(LOOKED_AT, X=X, y=y, Z=Z, C=C)
        check_parameters(self)
        gaps = kind_of(self.split) == "samples"
        points = checks.as_points(X, "X", min_rows=4, one_d=False, gaps=gaps)
        checks.note_columns(self, X)
        checks.check_target(y)
        if checks.as_floats(y, "y").ndim == 2:
            checks.warn_caller(
                "A column-vector y was passed when a 1d array was expected: use y.ravel()",
                DataConversionWarning,
            )
        n = points.shape[0]
        outcome = checks.as_vector(y, "y", n=n, gaps=gaps)
        if Z is None:
            raise ValueError(
                "Z is None; instruments are needed. For a regression without instruments use "
                "ConditionalEmbedding or scikit-learn's KernelRidge"
            )
        instruments = checks.as_points(Z, "Z", n=n)
        exogenous = points[:, :0] if C is None else checks.as_points(C, "C", n=n)
        sides = {"x": (X, points), "z": (Z, instruments), "c": (C, exogenous)}
        names = {side: (checks.column_names(t), part.shape[1]) for side, (t, part) in sides.items()}
        roles = Roles.of((checks.column_names(y) or ["y"])[0], **names)
        refuse_twice(roles, *(arrays.to_numpy(part) for part in (points, instruments, exogenous)))
        join = arrays.namespace(points).concat
        X, Z = (join([part, exogenous], axis=1) for part in (points, instruments))
        told = None if clusters is None else Clusters.of(clusters, n)
        if rows is None and not gaps and n <= SEARCH_ROWS and told is None:
            X, Z, outcome = once(X, Z, outcome, whole=True)
        every = Part(X, Z, outcome, rows=rows, clusters=told)
        return share(self.split, self.random_state, every), roles

    def _plan(self, parts: list[Part], roles: Roles) -> Plan:
        """What is asked for, as these rows allow."""
        few = thinned_parts(parts, SEARCH_ROWS)
        teachers = [part for part in parts if part.teaches]
        forms = forms_of(self.kernel_x, self.kernel_z, roles, teachers)
        told = forms[1].directions(parts, "Z", roles.instruments, len(roles.z))
        if told < len(roles.x):
            checks.warn_numerical(
                f"{len(roles.x)} endogenous regressors, {list(roles.x)}, and {told} instrument(s): "
                "their effects are told apart only as far as these move each in a way that bends "
                "as no other does, which first_stage does not see; limits can be far too narrow"
            )
        plan = self._planned(forms, parts, few, roles)
        if not plan.plainer:
            return plan
        if (plainer := without_constants(*forms, plan.rows[0], len(roles.x))) != forms:
            forms = plainer
            plan = self._planned(forms, parts, few, roles)
        others = plainer_forms(*forms, plan.rows[0], len(roles.x), plan.told)
        planned = [self._planned(forms, few, few, roles) for forms in others]
        return replace(plan, others=[replace(other, rounds=ROWS[:1]) for other in planned])

    def _planned(
        self, forms: tuple[Forms, Forms], parts: list[Part], few: list[Part], roles: Roles
    ) -> Plan:
        """With columns in these forms."""
        known = [part for part in few if part.teaches or part.complete]
        points = together(known, "X"), together(few, "Z")
        regs = self.reg_stage2, self.reg_stage1
        each = zip("xz", points, forms, self._plain(forms, parts, roles), regs, strict=True)
        sides = tuple(
            Side(self._kernel(side, rows, roles, form), plain, self._tuned(form), reg)
            for side, rows, form, plain, reg in each
        )
        trends = self._trends(any(len(form.bent) < len(form.each) for form in forms))
        return Plan(kind_of(self.split), sides, trends, self.features, self.verbose, roles, few)

    def _plain(self, forms: tuple[Forms, Forms], parts: list[Part], roles: Roles) -> tuple:
        """The columns beside either kernel, of degree 0."""
        teachers = thinned_parts([part for part in parts if part.teaches], SEARCH_ROWS)
        sides = zip("XZ", forms, (roles.regressors, roles.instruments), strict=True)
        x, z = (
            Polynomial.of(
                together(teachers, i), 1, form.those(LINEAR), form.levels(parts, i, names)
            )
            for i, form, names in sides
        )
        bent = {*forms[0].bent, *(i for i, _ in parts[0].shared)}
        return replace(x, lines=tuple({*range(len(roles.regressors))} - bent)), z

    def _kernel(self, side: str, points, roles: Roles, form: Forms) -> Kernel | None:
        """At the lengthscale that these points suggest; None where every column is straight."""
        name = f"kernel_{side}"
        if all(isinstance(kernel, str) for kernel in form.used):
            _check_moves(points, getattr(roles, side), side.upper())
        if not form.bent:
            return None
        return fitted_kernel(
            form.kernel(name),
            points,
            names=roles.for_kernel(side),
            name=name,
            columnwise=True,
            argument=f"({side.upper()}, C)",
        )

    def _trends(self, straight: bool) -> tuple[int | None, ...]:
        """The degrees to choose from: a plane needs numbers in every column."""
        if self.trend is None and straight:
            raise ValueError(
                'trend is None, but columns enter in straight lines or as categories; "auto" or a '
                "degree is needed, for they stand beside an intercept"
            )
        if self.trend != "auto":
            return (None if self.trend is None else int(self.trend),)
        if kind_of(self.split) == "share":
            return (0,) if straight else (None,)
        indexed = isinstance(self.kernel_x, Precomputed) or isinstance(self.kernel_z, Precomputed)
        return (0,) if indexed else (0, 1)

    def _tuned(self, form: Forms) -> bool:
        """Whether the lengthscales of one side are searched."""
        if not form.bent or self.tune_lengthscale != "auto":
            return bool(form.bent) and self.tune_lengthscale
        fixed = kind_of(self.split) == "share" or learns_from_pairs(self.features)
        return not fixed and all(map(is_tuned, form.used))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fit")

    def _adopt(self, fit: StructuralFit) -> KernelIV:
        self._fit, self.design_, draft = fit, None, fit.draft
        self.coef_, self.covariance_ = fit.coef, fit.covariance
        self.reg_stage1_, self.reg_stage2_ = fit.regs
        self.loss_stage1_, self.loss_stage2_ = fit.losses
        self.n_stage1_, self.n_stage2_ = fit.sizes
        self.specification_p_, self.sample_ = fit.specification_p, fit.sample
        self.roles_, self.target_name_, self.trend_ = fit.roles, fit.roles.y, draft.trend
        self.kernel_x_, self.kernel_z_ = draft.kernels
        self.scales_x_, self.scales_z_ = draft.scales
        self.basis_x_, self.basis_z_ = draft.bases
        return self

    @classmethod
    def from_version1(cls, state: dict[str, Any]) -> dict[str, Any]:
        """Format version 1 kept what is now a fit and roles attribute by attribute."""
        d_x, d_c = state["n_features_in_"], state.pop("_columns_c")
        d_z = len(state["scales_z_"]) - d_c
        (x, z), c, _ = (state.pop(name) for name in ("_names", "_names_c", "_powers"))
        sides = {"x": (x and x[:d_x], d_x), "z": (z and z[:d_z], d_z), "c": (c, d_c)}
        roles = Roles.of(state["target_name_"], **sides)

        def pair(name: str, one: str = "1", other: str = "2") -> Any:
            return state[f"{name}{one}_"], state[f"{name}{other}_"]

        kernels, scales, bases = (pair(name, "x", "z") for name in ("kernel_", "scales_", "basis_"))
        draft = StructuralDraft(state["trend_"], kernels, scales, bases)
        told: list[Any] = [state["coef_"], state["covariance_"]]
        told += map(pair, ("reg_stage", "loss_stage", "n_stage"))
        told += [state["specification_p_"], state["sample_"]]
        fit = replace(StructuralFit(draft, roles, *told), improved=False)
        return {**state, "roles_": roles, "_fit": fit}


def _check_moves(points, names: Sequence[str], side: str) -> None:
    """No regressor or instrument is a constant; exogenous columns, the last ones, may be."""
    xp = arrays.namespace(points)
    for j, name in enumerate(names):
        if xp.max(points[:, j]) == xp.min(points[:, j]):
            raise ValueError(f"column {name!r} of {side} is constant: nothing is learned from it")

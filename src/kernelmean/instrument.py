"""Kernel instrumental-variable regression: the structural function behind confounded data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from . import linalg
from ._validation import (
    Array,
    as_floats,
    as_points,
    as_vector,
    check_lengths,
    check_positive,
    column_names,
    generator,
)
from .features import as_feature_map
from .kernels import fitted_kernel
from .moments import Moments, accumulate, block_rows, row_blocks
from .persistence import Saveable
from .selection import DECADES, minimise_log10

GRID = 45  # of a regulariser's bracketing search: each value costs r² operations


class KernelIV(Saveable, RegressorMixin, BaseEstimator):
    """Structural function h in Y = h(X) + e, E[e | Z] = 0, by two-stage kernel ridge regression.

    Stage 1 learns the operator z ↦ E[φ(X) | Z = z], E = Φ₁ᵀΘ₁(Θ₁ᵀΘ₁ + nλI)⁻¹; stage 2, on other
    rows, regresses y on its output M = Θ₂Eᵀ: b = (MᵀM/m + ξI)⁻¹Mᵀy₂/m and h(x) = φ(x)ᵀb.

    Parameters
    ----------
    kernel_x, kernel_z : Kernel, str, scikit-learn kernel or callable
        Kernels on the regressors (X, C) and on the instruments (Z, C). By name: a product over
        columns, each with the median lengthscale of its column over all rows.
    reg_stage1, reg_stage2 : float, optional
        λ and ξ, per sample. None is the paper's causal validation: λ minimises the stage-1 loss on
        the stage-2 rows, ξ minimises (1/n) Σ (y_i − h(x_i))² on the stage-1 rows. Of several
        local minima the one with most regularisation is taken.
    split : float
        Share of the rows that go to stage 1.
    features : FeatureMap, optional
        Coordinates for regressors and for instruments; None is `Nystroem()`.
    random_state : int, Generator or None
        Shuffles the rows before they are split; None keeps them in order.

    Attributes
    ----------
    coef_ : array of shape (r_x,)
        b, in the coordinates `features_x_`.
    reg_stage1_, reg_stage2_, loss_stage1_, loss_stage2_ : float
        λ, ξ and the two validation losses.
    kernel_x_, kernel_z_, features_x_, features_z_ : as used
    n_stage1_, n_stage2_ : int

    References
    ----------
    Singh, Sahani, Gretton (2019), Kernel instrumental variable regression, Algorithms 1 and 2;
    MATH §7.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_iv_sigmoid(1000, random_state=0)
    >>> iv = km.KernelIV().fit(data.X, data.y, data.Z)
    >>> error = ((iv.predict(data.grid) - data.truth(data.grid)) ** 2).mean()
    >>> bool(error < 0.2)
    True
    """

    def __init__(
        self,
        kernel_x="gaussian",
        kernel_z="gaussian",
        reg_stage1=None,
        reg_stage2=None,
        split=0.5,
        features=None,
        random_state=None,
    ):
        self.kernel_x = kernel_x
        self.kernel_z = kernel_z
        self.reg_stage1 = reg_stage1
        self.reg_stage2 = reg_stage2
        self.split = split
        self.features = features
        self.random_state = random_state

    def fit(self, X, y, Z=None, C=None) -> KernelIV:
        """Estimate the structural function.

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
        regressors, y, instruments = self._check_data(X, y, Z, C)
        stage1, stage2 = self._split_rows(y.shape[0])
        names = column_names(X), column_names(Z), column_names(C)
        self.kernel_x_ = fitted_kernel(
            self.kernel_x, regressors, names=_joined(names[0], names[2]), **_as("kernel_x", "X, C")
        )
        self.kernel_z_ = fitted_kernel(
            self.kernel_z, instruments, names=_joined(names[1], names[2]), **_as("kernel_z", "Z, C")
        )
        data = regressors, instruments, y
        first = self._first_moments(*(_rows(part, stage1) for part in data))
        second = self._second_moments(*(_rows(part, stage2) for part in data))
        self._solve_stage1(_Stage1.of(first, second))
        self._solve_stage2(_Stage2.of(first, second, self.operator_))
        return self

    def predict(self, X, C=None) -> Array:
        """h at new regressors, shape (m,).

        Parameters
        ----------
        X : array or DataFrame of shape (m, d_x), or (m, d_x + d_c)
        C : array or DataFrame of shape (m, d_c), optional
            Exogenous regressors, when the model was fitted with some. They may instead be the
            last columns of X (columns of a DataFrame are found by name).
        """
        check_is_fitted(self)
        return self._evaluate(self._check_new(X, C))

    def _evaluate(self, points) -> Array:
        step = block_rows(self.features_x_.rank_)
        parts = [
            self.features_x_.transform(block) @ self.coef_
            for (block,) in row_blocks(points, rows=step)
        ]
        return linalg.namespace(points).concat(parts)

    def summary(self) -> str:
        """A plain-text account of the fit."""
        check_is_fitted(self)
        rows = {
            "rows in stage 1 / stage 2": f"{self.n_stage1_} / {self.n_stage2_}",
            "kernel on regressors": f"{self.kernel_x_!r}",
            "kernel on instruments": f"{self.kernel_z_!r}",
            "coordinates (x, z)": f"{self.features_x_.rank_}, {self.features_z_.rank_}",
            "reg_stage1 (lambda)": f"{self.reg_stage1_:.4g}{self._origin(self.reg_stage1)}",
            "reg_stage2 (xi)": f"{self.reg_stage2_:.4g}{self._origin(self.reg_stage2)}",
            "stage-1 loss, on stage-2 rows": f"{self.loss_stage1_:.6g}",
            "stage-2 loss, on stage-1 rows": f"{self.loss_stage2_:.6g}",
        }
        title = f"Kernel instrumental-variable regression of {self.target_name_}"
        width = max(map(len, rows))
        return "\n".join(
            [title, "-" * len(title), *(f"{k:<{width}}  {v}" for k, v in rows.items())]
        )

    # ------------------------------------------------------------ the two stages

    def _first_moments(self, X, Z, y) -> Moments:
        """Choose coordinates on the stage-1 rows; their second moments."""
        self.features_x_, self.features_z_ = map(as_feature_map, (self.features, self.features))
        Phi = self.features_x_.fit_transform(X, self.kernel_x_)
        Theta = self.features_z_.fit_transform(Z, self.kernel_z_)
        blocks = row_blocks(Phi, Theta, y, rows=block_rows(Phi.shape[1] + Theta.shape[1]))
        return accumulate(
            blocks,
            ["xx", "xz", "zz", "xy", "yy"],
            lambda phi, theta, y: {"x": phi, "z": theta, "y": y[:, None]},
        )

    def _second_moments(self, X, Z, y) -> Moments:
        """Second moments of the stage-2 rows in the same coordinates; k(x, x) is summed as "k"."""
        fx, fz = self.features_x_, self.features_z_
        blocks = row_blocks(X, Z, y, rows=block_rows(fx.rank_ + fz.rank_))
        return accumulate(
            blocks,
            ["xz", "zz", "zy", "k"],
            lambda X, Z, y: {
                "x": fx.transform(X),
                "z": fz.transform(Z),
                "y": y[:, None],
                "k": self.kernel_x_.diag(X)[:, None],
            },
        )

    def _solve_stage1(self, stage: _Stage1) -> None:
        self.reg_stage1_, self.loss_stage1_ = _choose(self.reg_stage1, "reg_stage1", stage)
        self.operator_ = stage.operator(self.reg_stage1_)

    def _solve_stage2(self, stage: _Stage2) -> None:
        self.reg_stage2_, self.loss_stage2_ = _choose(self.reg_stage2, "reg_stage2", stage)
        self.coef_ = stage.coefficients(self.reg_stage2_)

    # ------------------------------------------------------------ the door

    def _check_data(self, X, y, Z, C) -> tuple[Array, Array, Array]:
        points = as_points(X, "X", min_rows=4, one_d=False)
        validate_data(self, X, skip_check_array=True)
        if y is None:
            raise ValueError(
                "y is missing: the estimator requires y to be passed, but the target y is None"
            )
        self.target_name_ = (column_names(y) or ["y"])[0]
        y = _outcome(y, points.shape[0])
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
        join = linalg.namespace(points).concat
        return join([points, *exogenous], axis=1), y, join([parts["Z"], *exogenous], axis=1)

    def _split_rows(self, n: int) -> tuple[np.ndarray | slice, np.ndarray | slice]:
        if isinstance(self.split, str):
            raise ValueError(f"split is {self.split!r}; a share of the rows in (0, 1) is needed")
        share = check_positive(self.split, "split")
        self.n_stage1_ = round(share * n)
        self.n_stage2_ = n - self.n_stage1_
        if min(self.n_stage1_, self.n_stage2_) < 2:
            raise ValueError(
                f"split is {share}, which leaves {self.n_stage1_} and {self.n_stage2_} of {n} rows "
                "to the two stages; each needs at least 2 (a share between 0 and 1)"
            )
        if self.random_state is None:
            return slice(0, self.n_stage1_), slice(self.n_stage1_, n)
        order = generator(self.random_state).permutation(n)
        return order[: self.n_stage1_], order[self.n_stage1_ :]

    def _check_new(self, X, C) -> Array:
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
        return linalg.namespace(points).concat([points, C], axis=1)

    def _origin(self, given) -> str:
        return " (causal validation)" if given is None else " (given)"


@dataclass(frozen=True)
class _Stage1:
    """z ↦ E[φ(X) | z] for every λ: with ΘᵀΘ/n = Q diag(s) Qᵀ, E = A D Qᵀ, D = 1/(s + λ).

    Its loss on the stage-2 rows, (1/m) Σ ‖φ(x̃) − Eθ(z̃)‖², is a quadratic in the diagonal of D:
    (1/m) Σ k(x̃, x̃) − 2 cᵀd + dᵀGd.
    """

    grid: linalg.EigenGrid
    A: Array  # Φ₁ᵀΘ₁Q/n, (r_x, r_z)
    constant: float
    c: Array
    G: Array

    @classmethod
    def of(cls, first: Moments, second: Moments) -> _Stage1:
        grid = linalg.EigenGrid.of(first.mean("zz"))
        Q, A = grid.vectors, first.mean("xz") @ grid.vectors
        c = linalg.namespace(A).sum(A * (second.mean("xz") @ Q), axis=0)
        G = (A.T @ A) * (Q.T @ second.mean("zz") @ Q)
        return cls(grid, A, float(second.mean("k")[0]), c, G)

    def __call__(self, reg: float) -> float:
        d = self.grid.shrink(reg)
        return float(self.constant - 2 * self.c @ d + d @ self.G @ d)

    def operator(self, reg: float) -> Array:
        return (self.A * self.grid.shrink(reg)) @ self.grid.vectors.T


@dataclass(frozen=True)
class _Stage2:
    """Ridge of y on M = Θ₂Eᵀ for every ξ: with MᵀM/m = R diag(t) Rᵀ, b = R D Rᵀ Mᵀy/m.

    Its loss on the stage-1 rows, (1/n) Σ (y − φ(x)ᵀb)², is again a quadratic in that diagonal.
    """

    grid: linalg.EigenGrid
    a: Array  # RᵀMᵀy/m
    constant: float
    c: Array
    G: Array

    @classmethod
    def of(cls, first: Moments, second: Moments, E) -> _Stage2:
        grid = linalg.EigenGrid.of(E @ second.mean("zz") @ E.T)
        R = grid.vectors
        a = R.T @ (E @ second.mean("zy")[:, 0])
        c = a * (R.T @ first.mean("xy")[:, 0])
        G = a[:, None] * (R.T @ first.mean("xx") @ R) * a[None, :]
        return cls(grid, a, float(first.mean("yy")[0, 0]), c, G)

    def __call__(self, reg: float) -> float:
        d = self.grid.shrink(reg)
        return float(self.constant - 2 * self.c @ d + d @ self.G @ d)

    def coefficients(self, reg: float) -> Array:
        return self.grid.vectors @ (self.grid.shrink(reg) * self.a)


def _choose(reg, name: str, stage: _Stage1 | _Stage2) -> tuple[float, float]:
    """The regulariser given, or the minimiser of the stage's validation loss."""
    if reg is not None:
        reg = check_positive(reg, name, zero=True)
        return reg, stage(reg)
    size = max(float(linalg.namespace(stage.grid.values).sum(stage.grid.values)), linalg.EPS)
    reg, loss = minimise_log10(lambda r: stage(r * size), *DECADES, points=GRID, heaviest=True)
    return reg * size, loss


def _as(name: str, argument: str) -> dict:
    return {"name": name, "columnwise": True, "argument": f"({argument})"}


def _joined(names, names_c) -> list[str] | None:
    """Names of two sets of columns side by side; placeholders keep unnamed ones in place."""
    return None if names is None else [*names, *(names_c or [])]


def _rows(part, rows: np.ndarray | slice) -> Array:
    """Some rows, by a slice or by numbers."""
    return part[rows, ...] if isinstance(rows, slice) else linalg.take(part, rows, axis=0)


def _outcome(y, n: int) -> Array:
    if as_floats(y, "y").ndim == 2:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: use y.ravel()",
            DataConversionWarning,
            stacklevel=4,
        )
    return as_vector(y, "y", n=n)


def _pick(X, names: list[str], name: str):
    """The columns a model was fitted on, from a table that may hold more, in any order."""
    X = X.to_frame() if hasattr(X, "to_frame") else X
    known = column_names(X) or []
    missing = [c for c in names if c not in known]
    if missing:
        raise ValueError(f"{name} lacks the columns {missing}; the model was fitted on {names}")
    X = X.set_axis(known, axis=1)
    return X[names]

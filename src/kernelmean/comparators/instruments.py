"""The estimators that `KernelIV` is compared with: regression, 2SLS, sieves, smoothing, networks.

All have `fit(X, y, Z, C=None)` and `predict(X, C=None)`, with arguments as in `KernelIV`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy.linalg import khatri_rao, lu_factor, lu_solve
from scipy.optimize import minimize, minimize_scalar
from scipy.special import softmax
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.preprocessing import SplineTransformer
from sklearn.utils.validation import check_is_fitted

from ..core import arrays, checks
from ..core.extras import require
from ..core.solves import EigenGrid, add_to_diagonal
from ..features.landmarks import Nystroem
from ..instruments.columns import Roles
from ..instruments.kernel_iv import KernelIV
from ..kernels import Linear, fitted_kernel
from . import networks
from .densities import LARGEST, check_varying, exponents, given

__all__ = ["DeepIV", "KernelReg", "SieveIV", "SmoothIV", "TwoStageLeastSquares"]

REGS = np.logspace(-10, 0, 101)  # per sample: the candidates of KernelReg
SLOPE_RIDGE = 1e-8  # of local slopes, relative to the local spread of the points
ALPHAS = (1e-10, 1e-1)  # range of SmoothIV's regulariser,
ALPHA_TOL = float(np.finfo(float).eps) ** 0.25  # and the precision of the search, both npregiv's
STEPS = 3_000  # of DeepIV's optimiser in either stage, where `epochs` is None
DECAY_TREATMENT, DECAY_RESPONSE = 1e-4, 1e-3  # ridge on the weights of DeepIV's two networks


class _Comparator(RegressorMixin, BaseEstimator):
    """What the estimators share: arguments are checked, C is joined to X and to Z."""

    _fit: Callable[[np.ndarray, np.ndarray, np.ndarray], None]
    _predict: Callable[[np.ndarray], np.ndarray]

    def fit(self, X, y, Z=None, C=None) -> Any:
        """Estimate h.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d_x)
            Regressors.
        y : array or Series of shape (n,)
            Outcome.
        Z : array or DataFrame of shape (n, d_z)
            Instruments.
        C : array or DataFrame of shape (n, d_c), optional
            Exogenous regressors, which also serve as instruments.

        Raises
        ------
        ValueError
            If Z is missing, or anything is malformed or non-finite.
        """
        points = arrays.to_numpy(checks.as_points(X, "X", min_rows=4, one_d=False))
        checks.note_columns(self, X)
        n, d = points.shape
        y = arrays.to_numpy(checks.as_vector(y, "y", n=n))
        exogenous = points[:, :0] if C is None else arrays.to_numpy(checks.as_points(C, "C", n=n))
        sides = {"x": (checks.column_names(X), d), "c": (checks.column_names(C), len(exogenous.T))}
        self._roles = Roles.of("y", z=(None, 0), **sides)
        instruments = np.hstack([self._instruments(Z, n), exogenous])
        self._fit(np.hstack([points, exogenous]), y, instruments)
        return self

    def predict(self, X, C=None) -> np.ndarray:
        """h at new regressors, shape (m,).

        Parameters
        ----------
        X : array or DataFrame of shape (m, d_x), or (m, d_x + d_c)
        C : array or DataFrame of shape (m, d_c), optional
            Exogenous regressors, when the model was fitted with some. They may instead be the
            last columns of X. Columns with names are found by them.

        Raises
        ------
        ValueError
            If columns are missing, or non-finite.
        """
        check_is_fitted(self)
        return self._predict(arrays.to_numpy(self._roles.asked(self, X, C)))

    def _instruments(self, Z, n: int) -> np.ndarray:
        return arrays.to_numpy(checks.as_points(Z, "Z", n=n))


# ---------------------------------------------------------------- kernel ridge regression


class KernelReg(_Comparator):
    """h = argmin (1/n) Σ (y_i − h(x_i))² + λ‖h‖²: kernel ridge regression, without instruments.

    A Gaussian kernel with the median lengthscale in every column; λ by cross-validation on two
    halves, the rows in order. Confounding biases it: it is the estimate that instruments correct.

    Z is accepted, so that it can stand where the other estimators do, and not used.

    Attributes
    ----------
    coef_ : array of shape (r,)
        Coefficients in the coordinates `features_`, whose error (1e-12 of the trace) is that of
        rounding.
    reg_ : float
        λ, per sample, one of 101 values from 1e-10 to 1.
    kernel_, features_ : as used

    References
    ----------
    Singh, Sahani, Gretton (2019), Kernel instrumental variable regression, appendix A.11.2.

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.comparators import KernelReg
    >>> data = km.datasets.make_iv_sigmoid(1000, random_state=0)
    >>> error = KernelReg().fit(data.X, data.y).predict(data.grid) - data.truth(data.grid)
    >>> bool((error**2).mean() > 0.1)  # confounded: more data would not help
    True
    """

    def _instruments(self, Z, n: int) -> np.ndarray:
        return np.empty((n, 0)) if Z is None else super()._instruments(Z, n)

    def _fit(self, X, y, Z) -> None:
        self.kernel_ = fitted_kernel("gaussian", X, columnwise=True, argument="(X, C)")
        self.features_ = Nystroem(tol=1e-12)
        Phi = self.features_.fit_transform(X, self.kernel_)
        self.reg_ = float(REGS[np.argmin(_two_fold_loss(Phi, y))])
        self.coef_ = _ridge_path(Phi, y, np.array([self.reg_]))[0]

    def _predict(self, X) -> np.ndarray:
        return self.features_.transform(X) @ self.coef_


def _two_fold_loss(Phi: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squared error on one half of the rows after a fit on the other, both ways, for all REGS."""
    half = len(y) // 2
    first, second = slice(None, half), slice(half, None)
    return sum(
        np.sum((y[test, None] - Phi[test] @ _ridge_path(Phi[train], y[train], REGS).T) ** 2, axis=0)
        for train, test in [(first, second), (second, first)]
    )


def _ridge_path(Phi: np.ndarray, y: np.ndarray, regs: np.ndarray) -> np.ndarray:
    """(ΦᵀΦ/n + λI)⁻¹Φᵀy/n for every λ, one a row."""
    return EigenGrid.of(Phi.T @ Phi / len(y)).path(Phi.T @ y / len(y), regs)


# ---------------------------------------------------------------- two-stage least squares


class TwoStageLeastSquares(_Comparator):
    """h(x, c) = b₀ + xᵀb + cᵀg with (b₀, b, g) = (WᵀPW)⁻¹WᵀPy, W = [1, X, C], P onto [1, Z, C].

    The textbook's straight line, computed by the package linearmodels.

    Attributes
    ----------
    coef_ : array of shape (d_x + d_c,)
        b and g.
    intercept_ : float
        b₀.
    results_ : linearmodels.iv.results.IVResults
        With standard errors robust to heteroskedasticity, and tests.

    Raises
    ------
    ImportError
        On `fit`, if linearmodels is missing (extra `iv`).

    References
    ----------
    Theil (1953); any textbook of econometrics, for example Wooldridge, Econometric Analysis of
    Cross Section and Panel Data, chapter 5.

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.comparators import TwoStageLeastSquares
    >>> data = km.datasets.make_iv_linear(10_000, random_state=0)  # h(x) = 4x − 2
    >>> line = TwoStageLeastSquares().fit(data.X, data.y, data.Z)
    >>> bool(abs(line.coef_[0] - 4) < 0.3)
    True
    """

    def _fit(self, X, y, Z) -> None:
        how = 'pip install "kernelmean[iv]"'
        IV2SLS = require("linearmodels.iv", "TwoStageLeastSquares", how).IV2SLS
        X, C = np.split(X, [self.n_features_in_], axis=1)
        Z = Z[:, : Z.shape[1] - C.shape[1]]
        if Z.shape[1] < X.shape[1]:
            raise ValueError(
                f"Z has {checks.counted(Z.shape[1], 'column')} but X has {X.shape[1]}; "
                "at least as many are needed"
            )
        exogenous = np.column_stack([np.ones(len(y)), C])
        self.results_ = IV2SLS(y, exogenous, X, Z).fit(cov_type="robust")
        first, *rest = self.results_.params.to_numpy()  # the constant, C, then X
        self.intercept_ = float(first)
        self.coef_ = np.roll(rest, X.shape[1])

    def _predict(self, X) -> np.ndarray:
        return self.intercept_ + X @ self.coef_


# ---------------------------------------------------------------- sieves


class SieveIV(_Comparator):
    """h = ψᵀb, b = argmin Σ₂ (y_i − θ(z_i)ᵀE b)², E = argmin Σ₁ ‖ψ(x_i) − Eᵀθ(z_i)‖².

    Two-stage least squares in B-spline bases ψ of (X, C) and θ of (Z, C), products over columns,
    with stage 1 (sums Σ₁) on one half of the rows and stage 2 (Σ₂) on the other. With `ridge` both
    stages are regularised, λ and ξ by causal validation: `KernelIV` with linear kernels of the
    bases.

    Parameters
    ----------
    order : int
        Of the splines: pieces are polynomials of degree order − 1 (4 is cubic).
    knots : int
        Interior knots per column, evenly spaced over its range. A column has order + knots basis
        functions; beyond the range they go on as straight lines.
    ridge : bool
    random_state : int, Generator or None
        Shuffles the rows before they are split; None keeps them in order.

    Attributes
    ----------
    coef_ : array of shape ((order + knots)^(d_x + d_c),)
        b; the one of least norm where it is not unique. Without `ridge`.
    iv_ : KernelIV
        The regularised fit on the bases. With `ridge`.

    References
    ----------
    Newey, Powell (2003), Instrumental variable estimation of nonparametric models. Chen,
    Christensen (2018), Optimal sup-norm rates, whose preferred specification is the default. With
    ridge: Singh, Sahani, Gretton (2019), Algorithm 2 and appendix A.11.2.

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.comparators import SieveIV
    >>> data = km.datasets.make_iv_sigmoid(1000, random_state=0)
    >>> sieve = SieveIV(ridge=True).fit(data.X, data.y, data.Z)
    >>> error = ((sieve.predict(data.grid) - data.truth(data.grid)) ** 2).mean()
    >>> bool(error < 0.2)
    True
    """

    def __init__(self, order=4, knots=1, ridge=False, random_state=None):
        self.order = order
        self.knots = knots
        self.ridge = ridge
        self.random_state = random_state

    def _fit(self, X, y, Z) -> None:
        self._basis, instruments = self._spline(X, "(X, C)"), self._spline(Z, "(Z, C)")
        Psi, Theta = _products(self._basis, X), _products(instruments, Z)
        if self.ridge:
            features = Nystroem(tol=1e-12, max_rank=max(Psi.shape[1], Theta.shape[1]))
            how = {"features": features, "random_state": self.random_state}
            self.iv_ = KernelIV(Linear(), Linear(), split=0.5, **how).fit(Psi, y, Theta)
        else:
            first, second = _halves(len(y), self.random_state)
            E = np.linalg.lstsq(Theta[first], Psi[first])[0]
            self.coef_ = np.linalg.lstsq(Theta[second] @ E, y[second])[0]

    def _predict(self, X) -> np.ndarray:
        Psi = _products(self._basis, X)
        return self.iv_.predict(Psi) if self.ridge else Psi @ self.coef_

    def _spline(self, X: np.ndarray, name: str) -> SplineTransformer:
        order = checks.check_count(self.order, "order", minimum=2)
        knots = checks.check_count(self.knots, "knots", minimum=0)
        check_varying(X, name, "spline basis")
        return SplineTransformer(knots + 2, order - 1, extrapolation="linear").fit(X)


def _products(spline: SplineTransformer, X: np.ndarray) -> np.ndarray:
    """Rows ⊗_j ψ_j(x_j): all products of one basis function per column."""
    return reduce(khatri_rao, np.split(spline.transform(X).T, X.shape[1])).T


def _halves(n: int, random_state) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the two stages, as `KernelIV(split=0.5)` divides them."""
    order = np.arange(n) if random_state is None else checks.generator(random_state).permutation(n)
    return order[: round(n / 2)], order[round(n / 2) :]


# ---------------------------------------------------------------- smoothing


class SmoothIV(_Comparator):
    """φ = (αI + T*T)⁻¹T*r with (Tφ)(z) = E[φ(X) | z], r(z) = E[Y | z], (T*f)(x) = E[f(Z) | x].

    Conditional means are kernel regressions with Gaussian kernels, so that T and T* are n × n
    smoothers A and B: φ(x) = b(x)ᵀ(αI + AB)⁻¹Ay, b(x) the weights that B would have at x. As
    R's `npregiv` with the option "Tikhonov", without its second round.

    The bandwidths of A (Y on Z) and B (Ay on X), one per column, minimise the leave-one-out
    squared error; α minimises ‖Aφ₂ − Ay‖²/α, φ₂ = (I + α(αI + BA)⁻¹)(αI + BA)⁻¹BAy being the
    twice iterated solution.

    Parameters
    ----------
    degree : {0, 1}
        0 takes local means (Nadaraya and Watson), 1 fits local straight lines. Lines have no
        bias where h is straight, nor at the edges.
    reg : float, optional
        α; None chooses it within [1e-10, 0.1].

    Attributes
    ----------
    bandwidth_x_, bandwidth_z_ : array
        Standard deviations of the kernels on (X, C) and (Z, C).
    reg_ : float
        α.
    weights_ : array of shape (n,)
        (αI + AB)⁻¹Ay.

    Raises
    ------
    ValueError
        On `fit`, for more than 5,000 rows.

    References
    ----------
    Darolles, Fan, Florens, Renault (2011), Nonparametric instrumental regression. The choice of
    α: Fève, Florens (2010), The practice of non-parametric estimation by solving inverse
    problems, eq. (3.10).

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.comparators import SmoothIV
    >>> data = km.datasets.make_iv_sigmoid(300, random_state=0)
    >>> smooth = SmoothIV().fit(data.X, data.y, data.Z)
    >>> smooth.predict(data.grid).shape
    (1000,)
    """

    def __init__(self, degree=0, reg=None):
        self.degree = degree
        self.reg = reg

    def _fit(self, X, y, Z) -> None:
        if self.degree not in (0, 1):
            raise ValueError(f"degree is {self.degree!r}; 0 or 1 is needed")
        if len(y) > LARGEST:
            raise ValueError(
                f"X has {len(y)} rows; SmoothIV forms n × n matrices and takes at most {LARGEST}: "
                "thin the rows, or use KernelIV"
            )
        self.bandwidth_z_ = _bandwidth(Z, y, self.degree, "(Z, C)")
        A = _smoother(Z, Z, self.bandwidth_z_, self.degree)
        r = A @ y
        self.bandwidth_x_ = _bandwidth(X, r, self.degree, "(X, C)")
        B = _smoother(X, X, self.bandwidth_x_, self.degree)
        self.reg_ = given(self.reg, "reg", None) or _best_alpha(A, B, r)
        self.weights_ = np.linalg.solve(add_to_diagonal(A @ B, self.reg_), r)
        self._points = X

    def _predict(self, X) -> np.ndarray:
        return _smoother(self._points, X, self.bandwidth_x_, self.degree) @ self.weights_


def _bandwidth(X: np.ndarray, y: np.ndarray, degree: int, name: str) -> np.ndarray:
    """One bandwidth per column, by leave-one-out least squares from a rule of thumb."""
    spread = X.std(axis=0)
    check_varying(X, name, "bandwidth")
    n, d = X.shape
    start = np.log(n) / -(4 + d)

    def loss(u: np.ndarray) -> float:
        left_out = _smoother(X, X, spread * np.exp(np.clip(u, -8, 8)), degree, leave_out=True)
        return float(np.mean((y - left_out @ y) ** 2))

    simplex = start + np.vstack([np.zeros(d), np.eye(d)])
    options: Any = {"xatol": 0.02, "fatol": 1e-6 * y.var(), "initial_simplex": simplex}
    found = minimize(loss, simplex[0], method="Nelder-Mead", options=options)
    return spread * np.exp(np.clip(found.x, -8, 8))


def _smoother(
    X: np.ndarray, at: np.ndarray, bandwidth: np.ndarray, degree: int, leave_out: bool = False
) -> np.ndarray:
    """Weights of y_1, ..., y_n in the kernel regression of y on X, one row for each point of `at`.

    With `leave_out` (`at` is X) no point has a weight in its own row.
    """
    E = exponents(at, X, bandwidth)
    if leave_out:
        np.fill_diagonal(E, -np.inf)
    W = softmax(E, axis=1)
    return W if degree == 0 else W * _local_lines(W, X, at)


def _local_lines(W: np.ndarray, X: np.ndarray, at: np.ndarray) -> np.ndarray:
    """e₀ᵀS_i⁻¹(1, x_j − at_i), S_i = Σ_j w_ij (1, x_j − at_i)(1, x_j − at_i)ᵀ, for every i and j.

    A trace of ridge on the slopes keeps S_i invertible where few points have weight.
    """
    centre, spread = X.mean(axis=0), X.std(axis=0)
    F = np.column_stack([np.ones(len(X)), (X - centre) / spread])
    d = F.shape[1]
    S = (W @ (F[:, :, None] * F[:, None, :]).reshape(len(X), -1)).reshape(-1, d, d)
    shift = np.tile(np.eye(d), (len(at), 1, 1))
    shift[:, 0, 1:] = -(at - centre) / spread
    S = shift.transpose(0, 2, 1) @ S @ shift
    slopes = np.arange(1, d)
    S[:, slopes, slopes] += SLOPE_RIDGE * S[:, slopes, slopes].mean(axis=1, keepdims=True)
    return (shift @ np.linalg.solve(S, np.eye(d)[None, :, :1]))[:, :, 0] @ F.T


def _best_alpha(A: np.ndarray, B: np.ndarray, r: np.ndarray) -> float:
    """α of least ‖Aφ₂ − r‖²/α, with φ₂ the twice iterated Tikhonov solution (Fève 2010, 3.10)."""
    BA, Br = B @ A, B @ r

    def loss(alpha: float) -> float:
        factor = lu_factor(add_to_diagonal(BA, alpha), overwrite_a=True)
        once = lu_solve(factor, Br)
        twice = once + alpha * lu_solve(factor, once)
        return float(np.sum((A @ twice - r) ** 2) / alpha)

    found = minimize_scalar(loss, bounds=ALPHAS, method="bounded", options={"xatol": ALPHA_TOL})
    return float(found.x)


# ---------------------------------------------------------------- networks


@dataclass(eq=False, repr=False)
class DeepIV(_Comparator):
    """h = argmin Σ₂ (y_i − ∫h(x, c_i) dF(x | z_i, c_i))², F = argmax Σ₁ log f(x_i | z_i, c_i).

    f is a mixture of Gaussians whose weights, means and (diagonal) spreads a network gives; h is
    another network. Two draws x', x'' from F stand for the integral: (y − h(x'))(y − h(x'')) has
    the square for its expectation, and its gradient that of the square. Stage 1 (Σ₁) is fitted
    on one random half of the rows, stage 2 (Σ₂) on the other.

    Parameters
    ----------
    components : int
        Gaussians in the mixture.
    hidden : tuple of int
        Widths of the hidden layers of either network, with rectified units.
    dropout : float, optional
        Share of the hidden units left out in a step; None is 1000/(1000 + n), at most 1/2, with n
        the rows of a stage.
    epochs : int, optional
        Passes over the rows of a stage; None makes them 3,000 steps.
    batch_size : int
    learning_rate : float
        Of Adam.
    unbiased : bool
        False trains on the mean of (y − h(x'))² and (y − h(x''))², an upper bound.
    random_state : int, Generator or None

    Attributes
    ----------
    treatment_, response_ : torch.nn.Sequential
        The networks for f and for h, on standardised columns.

    Raises
    ------
    ImportError
        On `fit`, if PyTorch is missing (extra `nn`).
    ValueError
        On `fit`, if the training diverges.

    References
    ----------
    Hartford, Lewis, Leyton-Brown, Taddy (2017), Deep IV: a flexible approach for counterfactual
    prediction; defaults are those of their demand experiment. The rows are split as in Singh,
    Sahani, Gretton (2019), appendix A.11.2.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import kernelmean as km
    >>> from kernelmean.comparators import DeepIV
    >>> data = km.datasets.make_iv_sigmoid(200, random_state=0)
    >>> if find_spec("torch"):
    ...     deep = DeepIV(epochs=2).fit(data.X, data.y, data.Z)
    ...     assert deep.predict(data.grid).shape == (1000,)
    """

    components: int = 10
    hidden: Sequence[int] = (128, 64, 32)
    dropout: float | None = None
    epochs: int | None = None
    batch_size: int = 100
    learning_rate: float = 1e-3
    unbiased: bool = True
    random_state: Any = 0

    def _fit(self, X, y, Z) -> None:
        networks.require_torch("DeepIV")
        rng = checks.generator(self.random_state)
        first, second = _halves(len(y), rng)
        self._scale_x, self._scale_y, scale_z = map(networks.Standard, (X, y, Z))
        inputs, outcome, instruments = self._scale_x(X), self._scale_y(y), scale_z(Z)
        with networks.seeded(int(rng.integers(2**31))):
            self._fit_treatment(inputs[first, : self.n_features_in_], instruments[first])
            mixture = networks.evaluate(self.treatment_, instruments[second])
            self._fit_response(inputs[second], outcome[second], mixture)

    def _predict(self, X) -> np.ndarray:
        h = networks.evaluate(self.response_, self._scale_x(X))
        return self._scale_y.undo(h[:, 0].double().numpy())

    def _fit_treatment(self, X, Z) -> None:
        """Stage 1: maximum likelihood."""
        k, d = checks.check_count(self.components, "components"), X.shape[1]
        self.treatment_ = self._network(Z.shape[1], k * (1 + 2 * d), len(Z))

        def loss(rows):
            return -networks.mixture_log_density(self.treatment_(Z[rows]), X[rows], k).mean()

        self._descend(self.treatment_, loss, len(Z), DECAY_TREATMENT)

    def _fit_response(self, X, y, mixture) -> None:
        """Stage 2: two draws from the mixture for every row of a batch."""
        import torch

        C = X[:, self.n_features_in_ :]
        self.response_ = self._network(X.shape[1], 1, len(y))

        def loss(rows):
            twice = rows.repeat(2)
            drawn = networks.draw(mixture[twice], self.components, self.n_features_in_)
            errors = y[twice] - self.response_(torch.cat([drawn, C[twice]], dim=1))[:, 0]
            one, two = errors.split(len(rows))
            return (one * two).mean() if self.unbiased else (errors**2).mean()

        self._descend(self.response_, loss, len(y), DECAY_RESPONSE)

    def _network(self, inputs: int, outputs: int, n: int) -> Any:
        dropout = min(1000 / (1000 + n), 0.5) if self.dropout is None else self.dropout
        return networks.perceptron([inputs, *self.hidden], outputs, dropout)

    def _descend(self, network, loss, n: int, decay: float) -> None:
        size = min(checks.check_count(self.batch_size, "batch_size"), n)
        epochs = max(1, STEPS * size // n) if self.epochs is None else self.epochs
        for _ in networks.passes(network, loss, n, self, epochs, decay, "y"):
            pass

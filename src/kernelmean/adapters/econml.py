"""`KernelIV` behind the verbs of EconML's instrumental-variable estimators.

EconML itself is not needed. What it writes Y, T, X, W, Z is here: outcome, endogenous treatments,
effect modifiers, controls, instruments.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from ..core import Array, Interval, Saveable, Summary, arrays, checks
from ..core.moments import evenly, row_blocks
from ..instruments.inference import confidence_limits
from ..instruments.kernel_iv import KernelIV

CONTROLS = 1000  # rows of W over which effects are averaged


class KernelIVEffect(Saveable):
    """Effects of treatments by kernel instrumental-variable regression, with EconML's verbs.

    E[Y | do(T = t), X = x] = E_W[h(t, x, W)] for the structural function h of `KernelIV` with
    regressors T and exogenous columns (X, W), the mean being over the controls of the sample (at
    most 1,000 evenly spaced rows). The effect of T may be nonlinear: it is a difference of two
    values, or a derivative at one.

    Intervals are pointwise, from the covariance of the coefficients.

    Parameters
    ----------
    **parameters
        Those of `KernelIV`.

    Attributes
    ----------
    model_ : KernelIV
        With regressors T and exogenous columns (X, W).

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_iv_linear(500, random_state=0)
    >>> iv = km.econml.KernelIVEffect().fit(data.y, data.X, Z=data.Z)
    >>> low, high = iv.effect_interval(T0=0.25, T1=0.75)
    >>> bool(low < iv.effect(T0=0.25, T1=0.75) < high)
    True
    """

    was: ClassVar = {"_names": None}

    def __init__(self, **parameters):
        self.parameters = parameters
        KernelIV(**parameters)  # refuses a name that is not one of its parameters

    def fit(self, Y, T, X=None, *, Z=None, W=None, groups=None) -> Self:
        """Estimate the structural function.

        Parameters
        ----------
        Y : array of shape (n,) or (n, 1)
            Outcome.
        T : array of shape (n,) or (n, d_t)
            Treatments, confounded with the noise.
        X : array of shape (n, d_x), optional
            Features by which effects may differ.
        Z : array of shape (n, d_z)
            Instruments.
        W : array of shape (n, d_w), optional
            Controls, over which effects are averaged.
        groups : array of shape (n,), optional
            Labels of rows whose noise may go together: the `clusters` of `KernelIV`.
        """
        treatments = checks.as_points(T, "T")
        n = treatments.shape[0]
        features, controls = (_exogenous(part, name, n) for part, name in ((X, "X"), (W, "W")))
        C = np.hstack([features, controls])
        y = np.ravel(Y) if np.shape(Y) == (n, 1) else Y
        rows = treatments, y, Z, C if C.shape[1] else None
        model = KernelIV(**self.parameters).fit(*rows, clusters=groups)
        self.model_, self._shape = model, (np.shape(Y)[1:], np.shape(T)[1:])
        self._widths = treatments.shape[1], features.shape[1]
        self._names = checks.column_names(X)
        self._controls = controls[evenly(n, CONTROLS)] if controls.shape[1] else controls[:1]
        return self

    def summary(self) -> Summary:
        """An account of the fit: that of `KernelIV`."""
        return self._fitted.summary()

    def effect(self, X=None, *, T0=0, T1=1) -> Array:
        """Effect of going from T0 to T1, shape (m,) (or (m, 1), as Y).

        Parameters
        ----------
        X : array of shape (m, d_x), optional
            Needed if the model was fitted with X.
        T0, T1 : float, or array of shape (m,) or (m, d_t)
        """
        return self._outcome(self._difference(X, T0, T1) @ self.model_.coef_)

    def effect_interval(self, X=None, *, T0=0, T1=1, alpha=0.05) -> Interval:
        """Interval of level 1 − alpha around `effect`, at each row."""
        ends = self._interval(self._difference(X, T0, T1), alpha)
        return Interval(*map(self._outcome, ends))

    def ate(self, X=None, *, T0=0, T1=1) -> Any:
        """Mean of `effect` over the rows of X."""
        return self._outcome(self._average(X, T0, T1) @ self.model_.coef_)[0]

    def ate_interval(self, X=None, *, T0=0, T1=1, alpha=0.05) -> Interval:
        """Interval of level 1 − alpha around `ate`, for the rows of X as given."""
        ends = self._interval(self._average(X, T0, T1), alpha)
        return Interval(*(self._outcome(end)[0] for end in ends))

    def marginal_effect(self, T, X=None) -> Array:
        """Derivative of the outcome in the treatments, at T.

        Shape (m, d_y, d_t), without d_y or d_t where Y or T were vectors.

        Parameters
        ----------
        T : float, or array of shape (m,) or (m, d_t)
        X : array of shape (m, d_x), optional
        """
        return self._jacobian([A @ self.model_.coef_ for A in self._slopes(T, X)])

    def marginal_effect_interval(self, T, X=None, *, alpha=0.05) -> Interval:
        """Interval of level 1 − alpha around `marginal_effect`, for each entry."""
        ends = [self._interval(A, alpha) for A in self._slopes(T, X)]
        return Interval(*map(self._jacobian, zip(*ends, strict=True)))

    def const_marginal_effect(self, X=None):
        """Refused: the effect is not linear in the treatment.

        Raises
        ------
        NotImplementedError
        """
        raise NotImplementedError(
            "const_marginal_effect is the slope of an effect that is linear in T; here the slope "
            "depends on T: use marginal_effect(T, X), or effect(X, T0=..., T1=...)"
        )

    @property
    def _fitted(self) -> KernelIV:
        if not hasattr(self, "model_"):
            raise NotFittedError("this KernelIVEffect is not fitted yet; call fit first")
        return self.model_

    # ------------------------------------------------------------ linear functionals of coef_

    def _difference(self, X, T0, T1) -> Array:
        """Rows a with effect aᵀ coef_."""
        transform, m = self._fitted.basis_x_.transform, _length(X, T0, T1)
        old, new = (self._points(T, X, m) for T in (T0, T1))
        return self._over_controls(transform, *new) - self._over_controls(transform, *old)

    def _average(self, X, T0, T1) -> Array:
        return self._difference(X, T0, T1).mean(axis=0, keepdims=True)

    def _slopes(self, T, X) -> list[Array]:
        """For each treatment, rows a with marginal effect aᵀ coef_."""
        basis = self._fitted.basis_x_
        points = self._points(T, X, _length(X, T))
        return [
            self._over_controls(lambda rows, j=j: basis.derivative(rows, j), *points)
            for j in range(self._widths[0])
        ]

    def _over_controls(self, coordinates, treatments, features) -> Array:
        """Means over the controls of coordinates at (t, x, W)."""
        W, out = self._controls, []
        for t, x in row_blocks(treatments, features, rows=max(1, 2**16 // len(W))):
            each = [np.repeat(part, len(W), axis=0) for part in (t, x)]
            rows = coordinates(np.hstack([*each, np.tile(W, (len(t), 1))]))
            out.append(arrays.to_numpy(rows).reshape(len(t), len(W), -1).mean(axis=1))
        return np.concatenate(out)

    def _points(self, T, X, m: int) -> tuple[Array, Array]:
        """Treatments and features, m rows of each."""
        d_t, d_x = self._widths
        T = np.full((m, d_t), T) if np.ndim(T) == 0 else arrays.to_numpy(checks.as_points(T, "T"))
        features = _exogenous(X, "X", m)
        for name, part, d in [("T", T, d_t), ("X", features, d_x)]:
            checks.check_columns(part, d, name, "the model")
        known, found = self._names, checks.column_names(X)
        if known and found and known != found:
            raise ValueError(f"X has columns {found}; {known}, those of fit, are needed")
        checks.check_lengths(m, T.shape[0], "X", "T")
        return T, features

    def _interval(self, A: Array, alpha: float) -> Interval:
        about = self.model_.coef_, self.model_.contrast_covariance_
        return confidence_limits(A, *about, 1 - alpha, simultaneous=False)

    # ------------------------------------------------------------ shapes

    def _outcome(self, values: Array) -> Array:
        return values.reshape(-1, *self._shape[0])

    def _jacobian(self, columns: Sequence[Array]) -> Array:
        return np.stack(columns, axis=-1).reshape(-1, *self._shape[0], *self._shape[1])


def _exogenous(part, name: str, n: int) -> np.ndarray:
    """Columns of numbers; none for None."""
    if part is None:
        return np.empty((n, 0))
    points = arrays.to_numpy(checks.as_points(part, name))
    checks.check_lengths(n, points.shape[0], "T", name)
    return points


def _length(*parts) -> int:
    """Rows of the first argument that has some, 1 otherwise."""
    return next((np.shape(part)[0] for part in parts if np.ndim(part) > 0), 1)

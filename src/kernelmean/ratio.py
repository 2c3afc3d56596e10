"""Density ratios by kernel least squares (KuLSIF)."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from . import linalg
from ._validation import Array, as_points, check_columns, check_positive, column_names
from .embedding import MeanEmbedding, as_embedding
from .features import as_feature_map
from .kernels import fitted_kernel
from .persistence import Saveable
from .selection import DECADES, minimise_log10


class DensityRatio(Saveable, BaseEstimator):
    """r(z) ≈ q(z)/p(z) from rows z_i ~ p and an embedding m of q: r(z) = φ(z)ᵀ(ΦᵀΦ/n + ηI)⁻¹m.

    Parameters
    ----------
    kernel : Kernel, str, scikit-learn kernel or callable
        Its median lengthscale is taken over the denominator.
    reg : float, optional
        η, per sample. None takes the minimiser of the closed-form leave-one-out score.
    features : FeatureMap, optional
        None is `Nystroem()`.

    Attributes
    ----------
    weights_ : array of shape (n,)
        β_i = r(z_i)/n at the denominator rows before flooring: near one in sum.
    reg_, loo_score_ : float
    kernel_, features_ : the kernel and coordinates used
    coef_ : array of shape (r,)

    References
    ----------
    Kanamori, Suzuki, Sugiyama (2012); MATH §4.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> rng = np.random.default_rng(0)
    >>> p, q = rng.normal(0, 1, (2000, 1)), rng.normal(0.5, 1, (2000, 1))
    >>> ratio = km.DensityRatio().fit(p, q)
    >>> bool(ratio.predict([[1.0]]) > ratio.predict([[-1.0]]))
    True
    """

    def __init__(self, kernel="gaussian", reg=None, features=None):
        self.kernel = kernel
        self.reg = reg
        self.features = features

    def fit(self, denominator, numerator) -> DensityRatio:
        """Learn q/p.

        Parameters
        ----------
        denominator : array of shape (n, d)
            Samples of p.
        numerator : array of shape (l, d) or MeanEmbedding
            Samples of q, or a single embedding of it (weights of either sign).
        """
        Z = as_points(denominator, "denominator", min_rows=2)
        self.kernel_ = fitted_kernel(self.kernel, Z, names=column_names(denominator))
        m = as_embedding(numerator, self.kernel_, "numerator")
        if m.batch is not None:
            raise ValueError(
                f"numerator is a batch of {m.batch} embeddings; a single one is needed"
            )
        check_columns(m.points, Z.shape[1], "numerator", "denominator")
        self.features_ = as_feature_map(self.features)
        Phi = self.features_.fit_transform(Z, self.kernel_)
        second = Phi.T @ Phi / Phi.shape[0]
        self.reg_, self.loo_score_ = self._choose_reg(Phi, second, m)
        coordinates = m.apply_weights(self.features_.transform(m.points))
        self.coef_ = linalg.ridge(second, self.reg_).solve(coordinates)
        self.weights_ = Phi @ self.coef_ / Phi.shape[0]
        return self

    def predict(self, Z) -> Array:
        """r(z) floored at zero, shape (m,)."""
        check_is_fitted(self)
        values = self.features_.transform(as_points(Z, "Z")) @ self.coef_
        return linalg.namespace(values).clip(values, 0.0, None)

    def _choose_reg(self, Phi, second, m: MeanEmbedding) -> tuple[float, float]:
        score = _loo_score(Phi, second, self.features_.transform(m.points), m.weights)
        if self.reg is not None:
            reg = check_positive(self.reg, "reg", zero=True)
            return reg, score(reg)
        size = float(linalg.namespace(second).linalg.trace(second))
        reg, value = minimise_log10(lambda r: score(r * size), *DECADES)
        return reg * size, value


def _loo_score(Phi, second, U, alpha):
    """J(η) = (1/2n)Σ(r^{-i}(z_i))² − Σ_j α_j r^{-j}(u_j), every row left out of its own estimate.

    r^{-i}(z_i) = r(z_i)/(1 − h_i), h_i = φ_iᵀA⁻¹φ_i/n;
    r^{-j}(u_j) = (r(u_j) − α_j φ_jᵀA⁻¹φ_j)/(1 − α_j).
    """
    xp = linalg.namespace(Phi)
    n = Phi.shape[0]
    grid = linalg.EigenGrid.of(second)
    P, V = Phi @ grid.vectors, U @ grid.vectors
    m, P2, V2 = alpha @ V, P * P, V * V
    # a numerator of one point has nothing left when that point is out
    rest = xp.where(xp.abs(1.0 - alpha) < 1e-12, 1.0, 1.0 - alpha)

    def score(reg: float) -> float:
        shrink = grid.shrink(reg)
        left = xp.clip(1.0 - P2 @ shrink / n, 1e-10, None)
        at_z = P @ (shrink * m) / left
        at_u = (V @ (shrink * m) - alpha * (V2 @ shrink)) / rest
        return float(0.5 * xp.mean(at_z * at_z) - xp.sum(alpha * at_u))

    return score

"""Kernel Bayes' rule: posteriors from examples of (observation, latent) and a prior embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from . import linalg
from ._validation import (
    Array,
    as_floats,
    as_points,
    as_vector,
    check_choice,
    check_columns,
    check_lengths,
    check_positive,
    column_names,
    frozen,
)
from .embedding import MeanEmbedding, as_embedding
from .features import as_feature_map
from .kernels import Kernel, fitted_kernel
from .persistence import Saveable
from .ratio import DensityRatio, solve_ratio
from .rules import bayes_factors, positive_shares
from .selection import SCALES, LeaveOneOut, choose_by_folds, minimise_log10

RULES = ("importance", "squared")
SELECTIONS = ("auto", "loo", "loo_min", "heldout", "balance")


class KernelBayes(Saveable, BaseEstimator):
    """Posterior of a latent Z given an observation X, from pairs (x_i, z_i) and a prior on Z.

    The prior m gives each training latent a share β = (K_Z + nηI)⁻¹ m(z_i), near one in sum. With
    φ the coordinates of observations and C = Φᵀ diag(β) Φ, the posterior is Σ_i w_i k(z_i, ·):

    - `rule="importance"`: w = DΦ(ΦᵀDΦ + λI)⁻¹φ(x), D = diag(max(β, 0));
    - `rule="squared"`: w = diag(β)Φ(C² + δI)⁻¹Cφ(x).

    "Importance weighting" (Xu 2022) and "thresholding" (Song 2016) are one estimator: max(β, 0) is
    the floored KuLSIF density ratio divided by n. The pairs may come from any distribution of Z
    that covers the prior; only their likelihood p(x | z) matters.

    Parameters
    ----------
    rule : {"importance", "squared"}
    kernel_x, kernel_z : Kernel, str, scikit-learn kernel or callable
    reg_prior : float, optional
        η, per sample. None takes, for each prior, the largest η within one standard error of the
        least leave-one-out score of the density ratio.
    reg : float, optional
        λ or δ, on the scale of the operator (Σβ ≈ 1). None chooses by `selection`, per prior.
    features : FeatureMap, optional
        Coordinates for X and for Z; None is `Nystroem()`.
    ratio : DensityRatio, callable, array of shape (n,) or None
        Replaces the KuLSIF step: an unfitted `DensityRatio` (relative, another kernel), a function
        z (n, d) → r(z) (n,), or the ratio at the training latents. β = r(z_i)/n.
    selection : {"auto", "loo", "loo_min", "heldout", "balance"}
        How `reg=None` is chosen. "loo": by the closed-form leave-one-out risk under the prior's
        joint law (importance only), the largest λ within one standard error of the least risk,
        the safer choice away from the training observations; "loo_min": the minimiser itself.
        "heldout": the minimiser of the same risk by 5 folds. "balance": Fukumizu 2013 §4.2, the
        average posterior must be the prior. "auto" is "loo", or "heldout" for the squared rule.
    tune_lengthscale : bool
        Also choose a scale in [0.1, 10] for the lengthscales of `kernel_x`, at fit, by the
        leave-one-out loss of regressing Z's features on X.

    Attributes
    ----------
    kernel_x_, kernel_z_, features_x_, features_z_ : as used
    points_ : array of shape (n, d_z)
        Training latents.
    reg_prior_, reg_ : float
        η and λ (or δ) of the latest posterior.

    References
    ----------
    Fukumizu, Song, Gretton (2013), eq. 13-14; Song, Zhu, Ren (2016), Propositions 2 and 3; Xu,
    Chen, Doucet, Gretton (2022), Algorithm 1; MATH §5.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(0, 1, (1000, 1))
    >>> X = Z + 0.5 * rng.normal(0, 1, (1000, 1))
    >>> posterior = km.KernelBayes().fit(X, Z).posterior([[1.0]])
    >>> posterior.mean().round(1)  # exactly 1 / (1 + 0.25)
    array([[0.8]])
    """

    def __init__(
        self,
        rule="importance",
        kernel_x="gaussian",
        kernel_z="gaussian",
        reg_prior=None,
        reg=None,
        features=None,
        ratio=None,
        selection="auto",
        tune_lengthscale=False,
    ):
        self.rule = rule
        self.kernel_x = kernel_x
        self.kernel_z = kernel_z
        self.reg_prior = reg_prior
        self.reg = reg
        self.features = features
        self.ratio = ratio
        self.selection = selection
        self.tune_lengthscale = tune_lengthscale

    def fit(self, X, Z) -> KernelBayes:
        """Learn from pairs of observation and latent.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d_x)
            Observations.
        Z : array or DataFrame of shape (n,) or (n, d_z)
            Latents.
        """
        self._check_settings()
        points_x = as_points(X, "X", min_rows=2, one_d=False)
        validate_data(self, X, skip_check_array=True)
        if Z is None:
            raise ValueError(
                "Z is None; the latents of the training pairs, (n,) or (n, d_z), are needed"
            )
        points_z = as_points(Z, "Z")
        check_lengths(points_x.shape[0], points_z.shape[0], "X", "Z")
        self.one_output_ = as_floats(Z, "Z").ndim == 1
        self.points_ = frozen(points_z)
        self._fit_latents(
            fitted_kernel(
                self.kernel_z, points_z, names=column_names(Z), name="kernel_z", argument="Z"
            )
        )
        self._fit_observations(
            fitted_kernel(self.kernel_x, points_x, names=column_names(X), name="kernel_x"), points_x
        )
        return self

    def posterior(self, X, prior=None, supervision=None) -> MeanEmbedding:
        """The batch of posterior embeddings given each row of `X`.

        Every row shares the factorisation of the prior's system, so thousands of observations
        cost little more than one.

        Parameters
        ----------
        X : array or DataFrame of shape (batch, d_x)
        prior : MeanEmbedding, array of samples (l, d_z), or None
            A single distribution of Z, weights of either sign; None is that of the training
            latents.
        supervision : tuple (x_s, z_s, strength), optional
            Posterior regularisation (kRegBayes): at x_s (s, d_x) the posterior should be near z_s,
            points (s, d_z) or a batch of s embeddings, each with weight `strength` (a number or
            one per row) beside the Σβ ≈ 1 of the data. Importance rule only.

        Returns
        -------
        MeanEmbedding
            Batch on the training latents (and the supervision's points). `expectation` does not
            normalise by the sum of weights; `mean`, `covariance`, `interval`, ... do.
        """
        coordinates = self._coordinates(X)
        beta = self._shares(prior)
        Phi, targets, Psi = self._Phi, self.points_, self._Q
        if supervision is not None:
            Phi, beta, targets, Psi, spread = self._append(supervision, beta)
        self.reg_ = self._choose_reg(Phi, beta, Psi)
        left, right = bayes_factors(Phi, beta, coordinates, self.reg_, self.rule)
        if supervision is not None:
            right = spread(right)
        return MeanEmbedding._of(targets, left, right, self.kernel_z_)

    def weights(self, X, prior=None, supervision=None) -> Array:
        """Weights of the posterior on the training latents, shape (batch, n)."""
        return self.posterior(X, prior, supervision).weights

    def predict(self, X, prior=None, supervision=None) -> Array:
        """Posterior mean Σ w_i z_i / Σ w_i, shape (batch,) or (batch, d_z)."""
        mean = self.posterior(X, prior, supervision).mean()
        return mean[:, 0] if self.one_output_ else mean

    # ------------------------------------------------------------ the two coordinate systems

    def _fit_latents(self, kernel_z: Kernel) -> None:
        self.kernel_z_ = kernel_z
        self.features_z_ = as_feature_map(self.features)
        self._Q = self.features_z_.fit_transform(self.points_, kernel_z)
        self._second_z = self._Q.T @ self._Q / self._Q.shape[0]

    def _fit_observations(self, kernel_x: Kernel, points_x) -> None:
        def loss(scale: float) -> float:
            Phi = as_feature_map(self.features).fit_transform(points_x, kernel_x.scaled(scale))
            grid = linalg.EigenGrid.of(Phi.T @ Phi / Phi.shape[0])
            return LeaveOneOut.of(Phi, self._Q, grid).best()[1]

        if self.tune_lengthscale:
            kernel_x = kernel_x.scaled(minimise_log10(loss, *SCALES, points=9)[0])
        self.kernel_x_ = kernel_x
        self.features_x_ = as_feature_map(self.features)
        self._Phi = self.features_x_.fit_transform(points_x, kernel_x)

    def _coordinates(self, X) -> Array:
        check_is_fitted(self)
        points = as_points(X, "X", one_d=False)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.features_x_.transform(points)

    # ------------------------------------------------------------ the prior

    def _shares(self, prior) -> Array:
        """β at the training latents for a prior: β_i = r(z_i)/n."""
        if prior is None:
            prior = MeanEmbedding._of(self.points_, *self._uniform(), self.kernel_z_)
        d, where = self.points_.shape[1], "the training latents"
        m = as_embedding(prior, self.kernel_z_, "prior", d, where)
        if m.batch is not None:
            raise ValueError(f"prior is a batch of {m.batch} embeddings; a single one is needed")
        n = self.points_.shape[0]
        if self.ratio is None:
            U = self.features_z_.transform(m.points)
            solved = solve_ratio(
                self._Q, self._second_z, U, m, self.reg_prior, name="reg_prior", one_se=True
            )
            coefficients, self.reg_prior_, _ = solved
            return self._Q @ coefficients / n
        return self._given_ratio(m) / n

    def _uniform(self) -> tuple[Array, None]:
        n = self.points_.shape[0]
        xp = linalg.namespace(self.points_)
        device = getattr(self.points_, "device", None)
        return xp.full((n,), 1.0 / n, dtype=xp.float64, device=device), None

    def _given_ratio(self, m: MeanEmbedding) -> Array:
        """The ratio at the training latents by the user's own means."""
        if isinstance(self.ratio, DensityRatio):
            fitted = clone(self.ratio).fit(self.points_, m)
            self.reg_prior_ = fitted.reg_
            return fitted.weights_ * self.points_.shape[0]
        values = self.ratio(self.points_) if callable(self.ratio) else self.ratio
        return as_vector(values, "ratio", n=self.points_.shape[0])

    # ------------------------------------------------------------ posterior regularisation

    def _append(self, supervision, beta) -> tuple:
        """Rows, shares and targets with the supervision's below the training ones.

        The last item spreads weights on supervision rows over the points of their embeddings.
        """
        if self.rule != "importance":
            raise ValueError("supervision needs rule='importance'; this one has 'squared'")
        x_s, z_s, strength = _check_supervision(supervision)
        xp = linalg.namespace(self._Phi)
        Phi_s = self._coordinates(x_s)
        s = Phi_s.shape[0]
        shares = xp.asarray(_each(strength, s), dtype=xp.float64)
        if isinstance(z_s, MeanEmbedding):
            points, A = z_s.points, z_s.weights
            check_lengths(s, A.shape[0] if A.ndim == 2 else 1, "x_s", "z_s")
            A = A if A.ndim == 2 else A[None, :]
        else:
            points, A = as_points(z_s, "z_s"), None
            check_lengths(s, points.shape[0], "x_s", "z_s")
        check_columns(points, self.points_.shape[1], "z_s", "the training latents")
        Psi_s = self.features_z_.transform(points)
        Psi_s = Psi_s if A is None else A @ Psi_s
        n = self.points_.shape[0]

        def spread(right) -> Array:
            if A is None:
                return right
            return xp.concat([right[:n, :], A.T @ right[n:, :]], axis=0)

        return (
            xp.concat([self._Phi, Phi_s], axis=0),
            xp.concat([xp.clip(beta, 0.0, None), shares]),
            xp.concat([self.points_, points], axis=0),
            xp.concat([self._Q, Psi_s], axis=0),
            spread,
        )

    # ------------------------------------------------------------ settings

    def _choose_reg(self, Phi, beta, Psi) -> float:
        if self.reg is not None:
            return check_positive(self.reg, "reg", zero=True)
        how = self.selection
        if how == "auto":
            how = "loo" if self.rule == "importance" else "heldout"
        if not how.startswith("loo"):
            return choose_by_folds(Phi, beta, Psi, self.rule, balance=how == "balance")
        d = positive_shares(beta)
        grid = linalg.EigenGrid.of(Phi.T @ (d[:, None] * Phi))
        return LeaveOneOut.of(Phi, Psi, grid, d).best(one_se=how == "loo")[0]

    def _check_settings(self) -> None:
        check_choice(self.rule, "rule", RULES)
        check_choice(self.selection, "selection", SELECTIONS)
        if self.selection.startswith("loo") and self.rule == "squared":
            raise ValueError(
                f"selection is {self.selection!r}, which has no closed form for rule='squared'; "
                "use 'heldout' or 'balance'"
            )
        for name in ("reg", "reg_prior"):
            if getattr(self, name) is not None:
                check_positive(getattr(self, name), name, zero=True)


def bayes_rule(
    X, Z, prior, x, *, rule="importance", kernel_x="gaussian", kernel_z="gaussian", **settings: Any
) -> MeanEmbedding:
    """Posterior of Z given the observation(s) `x`, in one call.

    Parameters
    ----------
    X, Z : arrays of shape (n, d_x), (n, d_z)
        Training pairs.
    prior : MeanEmbedding, array of samples, or None
    x : array of shape (d_x,) or (batch, d_x)
        One observation gives a single embedding, rows give a batch.
    rule, kernel_x, kernel_z, **settings
        As for `KernelBayes`.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> Z = np.array([[0], [0], [1], [1]])
    >>> X = np.array([[0], [1], [1], [1]])
    >>> prior = km.MeanEmbedding([[0], [1]], weights=[0.5, 0.5], kernel="delta")
    >>> m = km.bayes_rule(
    ...     X, Z, prior, [1], kernel_x="delta", kernel_z="delta", reg=1e-10, reg_prior=1e-10
    ... )
    >>> m([[0.0], [1.0]]).round(3)  # P(Z = 0 | X = 1), P(Z = 1 | X = 1)
    array([0.333, 0.667])
    """
    model = KernelBayes(rule=rule, kernel_x=kernel_x, kernel_z=kernel_z, **settings).fit(X, Z)
    x = as_floats(x, "x")
    return model.posterior(x[None, :], prior)[0] if x.ndim == 1 else model.posterior(x, prior)


def _check_supervision(supervision) -> tuple:
    try:
        x_s, z_s, strength = supervision
    except (TypeError, ValueError) as err:
        raise ValueError(
            "supervision must be a tuple (x_s, z_s, strength): observations, targets, weight"
        ) from err
    return x_s, z_s, strength


def _each(strength, s: int) -> np.ndarray:
    values = np.broadcast_to(np.asarray(strength, dtype=float), (s,))
    for value in values:
        check_positive(float(value), "strength", zero=True)
    return values

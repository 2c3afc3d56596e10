"""Kernel Bayes' rule: posteriors from examples of (observation, latent) and a prior embedding."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..core import Array, Block, Interval, Labels, Line, Summary, arrays, checks
from ..core.elsewhere import by_blocks, few_of
from ..core.minimise import SEARCH_ROWS
from ..core.parameters import Estimator, check_parameters, choice, flag, optional, positive
from ..core.threads import doors
from ..densities import ConditionalDensity
from ..densities.bending import bends_block
from ..densities.conditional_density import LOWEST
from ..densities.laws import MovedLaws
from ..embedding.adjusted import Adjusted, Posterior
from ..embedding.embedding import MeanEmbedding
from ..embedding.law import interval_like_target, like_target, names_like
from ..features.choose import refuse_lengthscale
from .by_density import density_of, flatter, reweighted
from .fit import PairsFit, learn_latents, learn_observations
from .prior import ratio_of
from .supervision import unpack_supervision
from .weighted_pairs import WeightedPairs


@by_blocks("predict", "predict_interval", "predict_quantile")
@doors(
    "fit", "posterior", "regularisers", "weights", "predict", "predict_interval", "predict_quantile"
)
@dataclass(eq=False, repr=False)
class KernelBayes(MultiOutputMixin, RegressorMixin, Estimator):
    """Posterior of a latent Z given an observation X, from pairs (x_i, z_i) and a prior on Z.

    The prior m gives each training latent a share β = (K_Z + nηI)⁻¹ m(z_i), near one in sum. With
    φ the coordinates of observations and C = Φᵀ diag(β) Φ, the posterior is Σ_i w_i k(z_i, ·):

    - `rule="importance"`: w = DΦ(ΦᵀDΦ + λI)⁻¹φ(x), D = diag(max(β, 0));
    - `rule="squared"`: w = diag(β)Φ(C² + δI)⁻¹Cφ(x);
    - `rule="density"`: p(z | x) ∝ r(z) q(z | x), with the `ConditionalDensity` q of the pairs and
      the density ratio r of the prior to their latents, nβ_i = r(z_i).

    "Importance weighting" (Xu 2022) and "thresholding" (Song 2016) are one estimator: max(β, 0) is
    the floored KuLSIF density ratio divided by n. The pairs may come from any distribution of Z
    that covers the prior; only their likelihood p(x | z) matters.

    Parameters
    ----------
    rule : {"importance", "squared", "density"}
        The papers' rules are tuned for posterior expectations, with lengthscales that follow the
        spread of all latents. "density" chooses lengthscales of X, λ and a bandwidth by the score
        of the posterior density: where a posterior is narrow or has several modes, its intervals,
        modes and draws are those of its own scale.
    kernel_x, kernel_z : Kernel, str, scikit-learn kernel or callable
        By name, distances are of columns over their standard deviations, so that units do not
        matter; those of observations on a scale s arsinh((x − c)/s) in columns with long tails, if
        the leave-one-out loss is lower then. For "density", `kernel_x` of the
        `ConditionalDensity`, and the kernel of the ratio.
    reg_prior : float, optional
        η, per sample, of the shares above. None minimises the leave-one-out score of the density
        ratio for each prior; for a sample, and `kernel_z` by name, that is a `DensityRatio` by that
        name: with a lengthscale of its own, and beside odds, where rows left out say so.
    reg : float, optional
        λ or δ, on the scale of the operator (Σβ ≈ 1). None chooses by `selection`, per prior.
    features : FeatureMap, optional
        Coordinates for X and for Z; None is `Nystroem()`. `Neural` features are for X alone: an
        untrained map learns from the pairs (kernel_x is not used), a trained one is used as it is.
    ratio : DensityRatio, callable, array of shape (n,) or None
        Replaces the KuLSIF step: an unfitted `DensityRatio` (relative, another kernel), a function
        z (n, d) → r(z) (n,), or the ratio at the training latents. β = r(z_i)/n.
    selection : {"auto", "loo", "loo_min", "heldout", "balance"}
        How `reg=None` is chosen. "loo": by the closed-form leave-one-out risk under the prior's
        joint law (importance only), the largest λ within one standard error of the least risk,
        the safer choice away from the training observations, or within two of the difference
        where the prior is about that of the training latents (shares are about even, and means of
        features no further apart than those of two samples); "loo_min", or another prior and a
        lengthscale tuned: the minimiser itself.
        "heldout": the minimiser of the same risk by 5 folds. "balance": Fukumizu 2013 §4.2, the
        average posterior must be the prior. "auto" is "loo", or "heldout" for the squared rule.
    tune_lengthscale : bool
        Also choose a scale in [0.1, 10] for the lengthscales of `kernel_x`, at fit: where the
        leave-one-out loss of regressing Z's features on X, times that of Z itself, is least, and
        itself no larger than unscaled.
    verbose : bool
        Tell each stage of `fit`, what was tried in it, and how long it took.

    Attributes
    ----------
    kernel_x_, kernel_z_, features_x_, features_z_ : as used
    points_ : array of shape (n, d_z)
        Training latents.
    latent_names_ : list of str or None
        Names of the columns of a table Z.
    density_ : ConditionalDensity or None
        q of the rule "density".

    The regularisers depend on the prior: `regularisers(prior)` tells which are used.

    References
    ----------
    Fukumizu, Song, Gretton (2013), eq. 13-14; Song, Zhu, Ren (2016), Propositions 2 and 3; Xu,
    Chen, Doucet, Gretton (2022), Algorithm 1; MATH §5.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(0, 1, (2000, 1))
    >>> X = Z + 0.5 * rng.normal(0, 1, (2000, 1))
    >>> posterior = km.KernelBayes().fit(X, Z).posterior([[1.0]])
    >>> posterior.mean().round(1)  # exactly 1 / (1 + 0.25)
    array([[0.8]])
    """

    ALLOWED: ClassVar = {
        "rule": choice("importance", "squared", "density"),
        "selection": choice("auto", "loo", "loo_min", "heldout", "balance"),
        "reg": optional(positive(zero=True)),
        "reg_prior": optional(positive(zero=True)),
        "tune_lengthscale": flag,
    }
    # a file of version 1 has no names
    latent_names_: list[str] | None = field(default=None, init=False)
    density_: ConditionalDensity | None = field(default=None, init=False)  # of the rule "density"
    _flatter: tuple | None = field(default=None, init=False)  # a kernel of densities, a wide law
    _fit: PairsFit | None = field(default=None, init=False)

    rule: str = "importance"
    kernel_x: Any = "gaussian"
    kernel_z: Any = "gaussian"
    reg_prior: float | None = None
    reg: float | None = None
    features: Any = None
    ratio: Any = None
    selection: str = "auto"
    tune_lengthscale: bool = False
    verbose: bool = False

    def before_blocks(self, prior=None, supervision=None, **_) -> None:
        """Find once what depends on the prior alone."""
        self.regularisers(prior, supervision)

    def fit(self, X, Z) -> KernelBayes:
        """Learn from pairs of observation and latent.

        Arrays and DataFrames of Dask, and `Rows`, are summed where they are. Of more than 10,000
        rows, kernels, coordinates and regularisers are chosen on 10,000 evenly spaced ones, which
        carry the weights of posteriors. The operators, and `predict`, are of all: for each prior
        another pass over them, which a model loaded from a file cannot make any more.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d_x)
            Observations.
        Z : array or DataFrame of shape (n,) or (n, d_z)
            Latents.
        """
        self._check_settings()
        given, (rows, X, Z) = (X, Z), few_of(SEARCH_ROWS, X=X, Z=Z)
        rows = rows if rows is not None and rows.n > SEARCH_ROWS else None
        points_x, points = checks.as_pairs(self, X, Z, "Z")
        self.one_output_ = checks.as_floats(Z, "Z").ndim == 1
        self.latent_names_ = names = checks.column_names(Z)
        fit = learn_latents(self, names, points_x, points, rows)
        self.density_, self.points_ = None, points
        if self.rule == "density":
            self.density_ = density_of(self, *given)
            self.density_.target_names_ = self._latent_columns
            self._flatter, self.features_x_ = flatter(self.density_), self.density_.features_
        else:
            fit = learn_observations(self, checks.column_names(X), points_x, fit)
            self.features_x_ = fit.features_x
        self._fit, self.features_z_, self.kernel_z_ = fit, fit.features_z, fit.features_z.kernel_
        self.kernel_x_ = self.features_x_.kernel_
        if rows is not None and self.density_ is None:
            self.regularisers()  # a pass for the prior of the latents
        return self

    def posterior(self, X, prior=None, supervision=None) -> MeanEmbedding | MovedLaws:
        """The batch of posterior embeddings given each row of `X`.

        Every row shares the factorisation of the prior's system, so thousands of observations
        cost little more than one. Where few pairs are within the kernel's reach (fewer than 20, or
        √n) weights go over, continuously, to those of as many nearest pairs, unless `reg` is given;
        such a law lies where the regression says, unless latents have few values. Nor then is
        a line beside kernels in means, which there is if pairs left out are nearer so, and the
        farthest of them too by slopes of the others; a law is moved along it.
        Further from the observations of the pairs than half of their
        range kernels are zero, and posteriors are those at the nearest point that is not so far,
        but for the line, which goes on for four more ranges, as far beyond the latents as their
        tails are long: flagged (`extrapolated`), and warned of.

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
        MeanEmbedding or MovedLaws
            Batch on the training latents (and the supervision's points). `expectation` does not
            normalise by the sum of weights; `mean`, `cov`, `interval`, ... do. The first two are
            of weights of both signs; quantiles are of distribution functions that are made to
            increase, and wider where noise is narrower than `kernel_x`, and `std` is at least what
            a law with these can have. Where densities of pairs left out are clearly better by it,
            the law is regression-adjusted: all but the mean (and expectations) is of latents moved
            by m(x) − m(x_i), m the mean that the pairs tell. Otherwise all but the mean (and
            expectations) is of weights with a λ of its own, where there are 200 pairs and `reg` is
            not given: at most that of means, by the score that follows. Densities, modes and
            draws have the bandwidth γ n^{2/((d+4)(d+6))} in d columns, γ that of the least score
            Σ_i β_i [∫ q⁻ⁱ(z|x_i)² dz − 2 q⁻ⁱ(z_i|x_i)] of pairs left out; in one column, for a
            Gaussian, 1.9 times that for `Gaussian4`. They, and all that has a bandwidth but modes
            of several columns, have a hundredth of a wide law (`MeanEmbedding.density`). Where
            modes by `kernel_z` are clearly nearer to pairs left out, these are the modes. For
            "density" as `ConditionalDensity.at`, in one column with `Gaussian4` too, unless pairs
            left out are clearly less likely by it.
        """
        if self.density_ is not None:
            return self._by_density(X, prior, supervision)
        pairs, back = self._pairs(prior, supervision), self._learned.order.back
        left, around, right, sums, moved, outside = pairs.at(checks.as_new_points(self, X))
        points, right = map(back, (pairs.points, pairs.spread(right)))
        law: MeanEmbedding = Posterior.of_parts(points, left, right, self.kernel_z_)
        found = pairs.told
        if found.residuals is not None or moved:
            residuals = points if found.residuals is None else back(found.residuals)
            law = Adjusted.of(law, residuals, pairs.means(sums), around)
        labels, known = Labels.of(X, self._latent_columns), found.known(self.kernel_z_)
        return law.carrying(labels=labels, extrapolated=outside, **known)

    def _by_density(self, X, prior, supervision) -> Any:
        if supervision is not None:
            unpack_supervision(supervision, "density")
        q: Any = self.density_
        laws = q.at(self._not_far(X))
        if self._flatter is not None:
            laws = laws.smoothed(*self._flatter)
        same = prior is None and self.ratio is None
        return laws if same else reweighted(laws, ratio_of(prior, self._learned, self))

    def _pairs(self, prior, supervision) -> WeightedPairs:
        """With their shares under the prior, and the supervision below them."""
        pairs = WeightedPairs.under(ratio_of(prior, self._learned, self), self._learned, self)
        return pairs if supervision is None else pairs.beside(supervision)

    @property
    def _learned(self) -> PairsFit:
        """The fit; files of earlier versions have its parts."""
        check_is_fitted(self)
        if self._fit is None:
            own = {f.name: f"_{f.name}" for f in fields(PairsFit)}
            parts = {name: getattr(self, at) for name, at in own.items() if at in vars(self)}
            known = self.points_, self.features_z_
            self._fit = PairsFit(*known, features_x=self.features_x_, **parts)
        return self._fit

    def _not_far(self, X) -> Any:
        """X, with the nearest row not so far in place of one from which a line would go astray."""
        points, support = checks.as_new_points(self, X), self._learned.support
        near = points if support is None else support.nearest(points, self.kernel_x_)
        if bool(arrays.namespace(near).all(near == points)):
            return X
        table = checks.as_table(X)
        return type(table)(near, X.index, table.columns) if hasattr(X, "iloc") else near

    def regularisers(self, prior=None, supervision=None) -> tuple[float | None, float]:
        """η and λ (or δ) that `posterior` uses with this prior; η is None for a given ratio."""
        if self.density_ is not None:
            return ratio_of(prior, self._learned, self).reg, self.density_.reg_
        pairs = self._pairs(prior, supervision)
        return pairs.ratio.reg, pairs.reg

    def weights(self, X, prior=None, supervision=None) -> Array:
        """Weights of the posterior on the training latents, shape (batch, n)."""
        return self.posterior(X, prior, supervision).weights

    def predict(self, X, prior=None, supervision=None) -> Array:
        """Posterior means Σ w_i z_i / Σ w_i, shape (batch,) or (batch, d_z); see `posterior`."""
        if self.density_ is not None:
            return like_target(self.posterior(X, prior, supervision).mean(), self.one_output_)
        pairs = self._pairs(prior, supervision)  # means are of all, where posteriors carry some
        sums = pairs.at(checks.as_new_points(self, X), laws=False)[3]
        return like_target(pairs.means(sums), self.one_output_)

    def predict_interval(self, X, level: float = 0.95, prior=None, supervision=None) -> Interval:
        """`Interval(lower, upper)` of each column of Z with probability `level`, arrays like Z."""
        law = self.posterior(X, prior, supervision)
        return interval_like_target(law, level, self.one_output_)

    def predict_quantile(self, X, q, prior=None, supervision=None) -> Array:
        """Posterior quantiles: (batch,), or (batch, k) for several levels.

        With d_z behind if Z had columns.
        """
        return like_target(self.posterior(X, prior, supervision).quantile(q), self.one_output_)

    def score(self, X, Z) -> float:
        """Mean log density of latents at their observations, with the prior of the pairs.

        A density counts as at least 1e-6 in units of standard deviations of the training latents.
        """
        checks.refuse_far(X, "X")
        known = self.points_.shape[1], "Z", "the training latents", self.latent_names_
        laws, rows = self.posterior(X), checks.as_rows(Z, *known)
        checks.check_lengths(len(laws), rows.shape[0], "X", "Z")
        if isinstance(laws, MovedLaws):
            found = arrays.to_numpy(laws.density_of_pairs(rows))
        else:
            signed = [laws[b].density(rows[b : b + 1, :], signed=True) for b in range(len(laws))]
            own = arrays.namespace(rows).stack(signed)
            found = arrays.to_numpy(laws.proper(own, rows[:, None, :]))
        least = LOWEST / np.prod(arrays.to_numpy(arrays.units(self.points_)))
        return float(np.mean(np.log(np.maximum(found, least))))

    def summary(self) -> Summary:
        """The fit in words and numbers: pairs, kernels, regularisers without another prior."""
        reg_prior, reg = self.regularisers()
        n = self.points_.shape[0]
        latents, columns = self._latent_columns, names_like(self, self.n_features_in_)
        lines = [Line.chosen("reg (δ)" if self.rule == "squared" else "reg (λ)", reg, self.reg)]
        if reg_prior is not None:
            lines.insert(0, Line.chosen("reg_prior (η)", reg_prior, self.reg_prior))
        return Summary(
            "Kernel Bayes' rule for " + ", ".join(latents),
            [
                Block("Data", [Line("pairs", n, f"{n:,}"), Line("rule", self.rule, self.rule)]),
                self.features_x_.block("Kernel on X", columns),
                *bends_block(self.kernel_x_, columns),
                self.features_z_.block("Kernel on Z", latents),
                Block("Fit, for the prior of the training latents", lines),
            ],
        )

    @property
    def _latent_columns(self) -> list[str]:
        """Their names."""
        return Labels.of(None, self.latent_names_).named(self.points_.shape[1], "z")

    def _check_settings(self) -> None:
        check_parameters(self)
        if self.tune_lengthscale:
            refuse_lengthscale(self.features)
        if self.selection.startswith("loo") and self.rule == "squared":
            raise ValueError(
                f"selection is {self.selection!r}, which has no closed form for rule='squared'; "
                "use 'heldout' or 'balance'"
            )


def bayes_rule(
    X, Z, prior, x, *, rule="importance", kernel_x="gaussian", kernel_z="gaussian", **settings: Any
) -> MeanEmbedding | MovedLaws:
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
    x = checks.as_floats(x, "x")
    rows = checks.as_points(x[None, :] if x.ndim == 1 else x, "x")
    laws = model.posterior(rows, prior)
    return laws[0] if x.ndim == 1 else laws

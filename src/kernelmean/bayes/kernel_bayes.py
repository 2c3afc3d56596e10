"""Kernel Bayes' rule: posteriors from examples of (observation, latent) and a prior embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ..core import arrays, checks, solves
from ..core.checks import Array
from ..core.elsewhere import by_blocks, few_of
from ..core.interval import Interval
from ..core.labels import Labels
from ..core.minimise import SEARCH_ROWS
from ..core.moments import Order, how_often
from ..core.parameters import check_parameters, choice, flag, optional, positive
from ..core.rows import Rows
from ..core.saving import Saveable
from ..core.stages import stage
from ..core.summary import Block, Line, Summary
from ..core.threads import doors
from ..densities import ConditionalDensity
from ..densities.bending import Bent, bends_block, long_tails
from ..densities.conditional_density import LOWEST
from ..densities.laws import MovedLaws
from ..embedding.adjusted import Adjusted, Posterior, in_box
from ..embedding.embedding import MeanEmbedding, as_one_embedding
from ..embedding.law import interval_like_target, like_target, names_like
from ..features.base import FeatureMap
from ..features.choose import as_target_map, fit_pairs, kernel_of, refuse_lengthscale
from ..features.landmarks import Further, Landmarks
from ..kernels import Kernel
from ..regression.leave_one_out import LeaveOneOut, best_scale, loss_of_kernels
from ..regression.support import Support
from ..regression.width import Told, told
from .density_ratio import DensityRatio, RatioLeftOut
from .every import Every
from .flatter import flatter
from .folds import choose_by_folds
from .reach import gone_over, thinness
from .rules import bayes_factors, covered_shares
from .supervision import each_strength, targets, unpack_supervision

EVEN = 0.9  # effective share of the pairs from which a prior is about that of their latents
REACH = 0.5  # widths of the box of observations, beyond it: kernels still tell more than its edge
OUTSIDE = "posteriors are those at the nearest point of its box, made twice as wide"
SILENT = 1e-20  # of k(x, x) in coordinates: they are rounding
NOTHING = 1e-200  # a ratio that is zero, where a law has to be divided by something
OWN = 0.9  # of a pair in its own mean: no residual is made more than ten times larger
APART = 3.0  # standard deviations beyond which two samples are of different laws


@by_blocks("predict", "predict_interval", "predict_quantile")
@doors(
    "fit", "posterior", "regularisers", "weights", "predict", "predict_interval", "predict_quantile"
)
@dataclass(eq=False, repr=False)
class KernelBayes(Saveable, BaseEstimator):
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
        η, per sample. None minimises, for each prior, the leave-one-out score of the density ratio.
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
        features no further apart than those of two samples); "loo_min", or any lengthscale tuned:
        the minimiser itself.
        "heldout": the minimiser of the same risk by 5 folds. "balance": Fukumizu 2013 §4.2, the
        average posterior must be the prior. "auto" is "loo", or "heldout" for the squared rule.
    tune_lengthscale : bool
        Also choose a scale in [0.1, 10] for the lengthscales of `kernel_x`, at fit, by the
        leave-one-out loss of regressing Z's features on X.
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
    _far: Rows | None = field(default=None, init=False)  # pairs, where `points_` are some of them
    _of_some = False
    _order: Order = field(default=Order(), init=False)  # of rows of coordinates and shares
    _copies: np.ndarray | None = field(default=None, init=False)  # how often each pair is there
    _support: Support | None = field(default=None, init=False)  # a file of version 1 has none
    _seen: Array | None = field(default=None, init=False)  # observations; not in earlier files

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

    def state(self) -> dict[str, Any]:
        gone = {"_far"} if self._of_some else {"_far", "_found"}  # sums over rows stay
        return {name: value for name, value in super().state().items() if name not in gone}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_far": None}

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
        self._far, self._of_some, self.density_ = rows, rows is not None, None
        points_x, self.points_ = pairs = checks.as_pairs(self, X, Z, "Z")
        self.one_output_ = checks.as_floats(Z, "Z").ndim == 1
        self.latent_names_ = names = checks.column_names(Z)
        self._found: dict[str, tuple[tuple, float]] = {}
        self._order = Order.of(*pairs)
        self._fit_latents(names)
        box = Support.of(points_x) if rows is None else rows.in_slices(Support.of, 1)
        self._support = box.widened(REACH)
        if self.rule == "density":
            self._fit_density(*given)
            return self
        self._seen = points_x
        self._fit_observations(self._order.sorted(points_x), checks.column_names(X))
        if rows is not None:
            self.regularisers()  # a pass for the prior of the latents
        return self

    def posterior(self, X, prior=None, supervision=None) -> MeanEmbedding | MovedLaws:
        """The batch of posterior embeddings given each row of `X`.

        Every row shares the factorisation of the prior's system, so thousands of observations
        cost little more than one. Where few pairs are within the kernel's reach (fewer than 20, or
        √n) weights go over, continuously, to those of as many nearest pairs, unless `reg` is given.
        Further from the observations of the pairs than half of their
        range kernels are zero, and posteriors are those at the nearest point that is not so far:
        flagged (`extrapolated`), and warned of.

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
            by m(x) − m(x_i), m the mean that the pairs tell. Densities, modes and
            draws have the bandwidth γ n^{2/((d+4)(d+6))} in d columns, γ that of the least score
            Σ_i β_i [∫ q⁻ⁱ(z|x_i)² dz − 2 q⁻ⁱ(z_i|x_i)] of pairs left out; in one column, for a
            Gaussian, 1.9 times that for `Gaussian4`. Where modes by `kernel_z` are clearly nearer
            to pairs left out, these are the modes. For "density" as `ConditionalDensity.at`, in one
            column with `Gaussian4` too, unless pairs left out are clearly less likely by it.
        """
        law, pairs = self._law(X, prior, supervision)
        if pairs is None:
            return law
        found, outside = self._told(pairs), law.extrapolated
        if found.residuals is not None:
            law = Adjusted.of(law, self._order.back(found.residuals))
        known = found.known(self.kernel_z_)
        return law.carrying(
            labels=Labels.of(X, self._latent_columns), extrapolated=outside, **known
        )

    def _law(self, X, prior, supervision) -> tuple[Any, _Rows | None]:
        """The posteriors, as far as expectations and quantiles need them; the pairs behind them."""
        if self.density_ is not None:
            laws = self.density_.at(self._not_far(X))
            if self._flatter is not None:
                laws = laws.smoothed(*self._flatter)  # type: ignore[union-attr]
            return self._reweighted(laws, prior, supervision), None
        rows, outside, left, right = self._factors(X, prior, supervision)
        points, right = map(self._order.back, (rows.points, rows.spread(right)))
        law = Posterior.of_parts(points, left, right, self.kernel_z_)
        return law.carrying(extrapolated=outside), rows

    def _told(self, rows: _Rows) -> Told:
        """What pairs left out tell of laws, once for each prior; beside supervision of latents."""
        name, pairs = ("told", rows) if rows.pairs is None else ("told of pairs", rows.pairs)
        reg = self._reg(pairs)
        reg = reg**0.5 if self.rule == "squared" else reg  # c/(c² + δ) and 1/(c + √δ) turn at c

        def search() -> Told:
            residuals = self._residuals(pairs) if pairs is rows else None
            return told(self.kernel_z_, pairs.points, residuals, pairs.Phi, pairs.beta, reg)

        return Told(*self._once(name, (pairs.beta, np.array(reg)), search))  # of a file, a tuple

    def _residuals(self, rows: _Rows) -> Array:
        """Latents less their means given x, each without its own pair."""
        second = None if rows.every is None else rows.every.second
        reg, Phi, beta = self._reg(rows), rows.Phi, rows.beta
        left, right, _ = bayes_factors(Phi, beta, Phi, reg, self.rule, second)
        xp = arrays.namespace(Phi)
        shares = xp.clip(beta, 0.0, None)
        off = rows.points - (shares @ rows.points) / xp.sum(shares)
        own = xp.clip(xp.sum(left * right, axis=1), 0.0, OWN)
        return (off - left @ (right.T @ off)) / (1.0 - own)[:, None]

    def _not_far(self, X) -> Any:
        """X, with the nearest row not so far in place of one from which a line would go astray."""
        points = checks.as_new_points(self, X)
        if self._support is None:
            return X
        near = self._support.nearest(points, self.kernel_x_)
        if bool(arrays.namespace(near).all(near == points)):
            return X
        return type(X)(near, X.index, X.columns) if hasattr(X, "iloc") else near

    def _factors(self, X, prior, supervision) -> tuple[_Rows, np.ndarray | None, Array, Array]:
        """The rows behind posteriors, which are outside, and weights on the rows, left rightᵀ."""
        points, rows, outside = checks.as_new_points(self, X), self._rows(prior, supervision), None
        if rows.support is not None:
            outside = rows.support.outside(points, self.kernel_x_, OUTSIDE)
            points = rows.support.nearest(points, self.kernel_x_)
        coordinates = self._coordinates(points, rows)
        second = None if rows.every is None else rows.every.second
        known = rows.Phi, rows.beta, coordinates, self._reg(rows), self.rule, second
        left, right, second = bayes_factors(*known)
        if self._seen is None or not self.kernel_x_.boxed:  # of categories none is nearest
            return rows, outside, left, right
        lost = self._unreached(points, coordinates)
        t = 1.0 * lost
        if self.reg is None:  # who gives λ asks for the weights of the formula
            shares = rows.beta[: self._seen.shape[0]]
            t = np.maximum(t, thinness(coordinates, left, right, second, shares))
        if t.any():
            rows, left, right = self._gone_over(t, points, rows, left, right)
        return rows, lost if outside is None else lost | outside, left, right

    def _gone_over(self, t: np.ndarray, points, rows: _Rows, left, right) -> tuple:
        """Rows and factors where shares t of laws are those of the nearest pairs."""
        seen, r = self._order.sorted(self._seen), left.shape[1]
        near, pairs = (arrays.to_numpy(self.kernel_x_.lift(A)) for A in (points, seen))
        left, right = gone_over(left, right, t, near, pairs, rows.beta)
        if rows.every is None:
            return rows, left, right
        n = len(pairs)
        every = rows.every.with_laws(right[:n, r:], rows.points[:n, :])
        return replace(rows, every=every), left, right

    def _coordinates(self, points, rows: _Rows) -> Array:
        coordinates = self.features_x_.transform(points)
        return coordinates if rows.further is None else rows.further.widened(points, coordinates)

    def _unreached(self, points, coordinates) -> np.ndarray:
        """Which points are in no kernel's reach, with a warning: a gap between far observations."""
        told = arrays.to_numpy(arrays.namespace(coordinates).sum(coordinates**2, axis=1))
        lost = told < SILENT * arrays.to_numpy(self.kernel_x_.diag_of(points))
        if lost.any():
            checks.warn_numerical(
                f"X has {lost.sum()} row(s) where no kernel reaches, row {np.flatnonzero(lost)[0]} "
                "first: posteriors are those of the nearest pairs"
            )
        return lost

    def regularisers(self, prior=None, supervision=None) -> tuple[float | None, float]:
        """η and λ (or δ) that `posterior` uses with this prior; η is None for a given ratio."""
        check_is_fitted(self)
        if self.density_ is not None:
            return self._ratio(self._prior(prior))[2], self.density_.reg_
        rows = self._rows(prior, supervision)
        return rows.reg_prior, self._reg(rows)

    def weights(self, X, prior=None, supervision=None) -> Array:
        """Weights of the posterior on the training latents, shape (batch, n)."""
        return self._law(X, prior, supervision)[0].weights

    def predict(self, X, prior=None, supervision=None) -> Array:
        """Posterior mean Σ w_i z_i / Σ w_i, shape (batch,) or (batch, d_z)."""
        if self._of_some and self.density_ is None:
            rows, _, left, _ = self._factors(X, prior, supervision)
            found = in_box(rows.every.mean(left), self.points_)  # type: ignore[union-attr]
            return like_target(found, self.one_output_)
        return like_target(self._law(X, prior, supervision)[0].mean(), self.one_output_)

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

        A density counts as at least 1e-6 in units of standard deviations of the training latents:
        weights of both signs leave places without any.
        """
        checks.refuse_far(X, "X")
        laws, rows = self.posterior(X), checks.as_points(Z, "Z")
        checks.check_lengths(arrays.to_numpy(laws.mean()).shape[0], rows.shape[0], "X", "Z")
        checks.check_columns(rows, self.points_.shape[1], "Z", "the training latents")
        if isinstance(laws, MovedLaws):
            found = arrays.to_numpy(laws.density_of_pairs(rows))
        else:
            signed = [laws[b].density(rows[b : b + 1], signed=True) for b in range(len(laws))]
            found = arrays.to_numpy(laws.proper(arrays.namespace(rows).stack(signed)))
        spread = arrays.to_numpy(self.points_).std(axis=0)
        least = LOWEST / np.prod(np.where(spread > 0, spread, 1.0))
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

    # ------------------------------------------------------------ the two coordinate systems

    @stage("latents")
    def _fit_latents(self, names: list[str] | None) -> None:
        self.kernel_z_ = kernel_of(self.kernel_z, self._latents, names, "Z")
        self.features_z_ = as_target_map(self.features)
        self._Q = self.features_z_.fit_transform(self._latents, self.kernel_z_)
        self._order.renumber(self.features_z_)
        if self._far is None:
            self._second_z = self._Q.T @ self._Q / self._Q.shape[0]
        else:
            self._second_z = self._far.partial("zz", z=(1, self.features_z_)).mean("zz")

    @stage("observations")
    def _fit_observations(self, points_x, names: list[str] | None) -> None:
        self._copies = how_often(points_x, self._latents)
        kernel_x = self._bent_or_not(points_x, names)
        if self.tune_lengthscale:
            kernel_x = kernel_x.scaled(best_scale(kernel_x, points_x, self._Q, copies=self._copies))
        self.features_x_, self._Phi = fit_pairs(
            self.features, points_x, kernel_x, self._latents, self.kernel_z_
        )
        self._order.renumber(self.features_x_)
        self.kernel_x_ = self.features_x_.kernel_

    def _bent_or_not(self, points_x, names: list[str] | None) -> Kernel:
        """By name, on a bent scale of columns with long tails, if latents are nearer then."""
        kernel = kernel_of(self.kernel_x, points_x, names, "X")
        asked = isinstance(self.kernel_x, str) and self.features is None and kernel.boxed
        bend = long_tails(arrays.to_numpy(points_x)) if asked else None
        if bend is None:
            return kernel
        on_bent = arrays.like(bend(arrays.to_numpy(points_x)), points_x)
        bent = Bent(kernel_of(self.kernel_x, on_bent, names, "X"), bend)
        loss = loss_of_kernels(points_x, self._Q, copies=self._copies)
        return bent if loss(bent) < loss(kernel) else kernel

    @stage("density")
    def _fit_density(self, X, Z) -> None:
        tune = "auto" if isinstance(self.kernel_x, str) else self.tune_lengthscale
        known_at_pairs = not (self.ratio is None or callable(self.ratio) or self._learns_ratio)
        self.density_ = ConditionalDensity(
            self.kernel_x,
            reg=self.reg,
            features=self.features,
            location=False if known_at_pairs else "auto",
            tune_lengthscale=tune,
        ).fit(X, Z)
        self.density_.target_names_ = self._latent_columns
        self._flatter = flatter(self.density_)
        self.features_x_, self.kernel_x_ = self.density_.features_, self.density_.kernel_x_

    def _reweighted(self, laws, prior, supervision) -> MeanEmbedding | MovedLaws:
        """The laws of the pairs, times the ratio of the prior to the latents of the pairs."""
        if supervision is not None:
            raise ValueError("supervision needs rule='importance'; this one has 'density'")
        if prior is None and self.ratio is None:
            return laws
        ratio, against = self._ratio(self._prior(prior))[0], []

        def factor(z) -> Array:  # even where the ratio is zero for the whole of a law
            found = _floored(ratio, z)
            against.append(not bool(arrays.namespace(found).any(found > 0)))
            return found + NOTHING

        laws = laws.tilted(factor)
        if n := sum(against):
            checks.warn_numerical(
                f"{n} of the posteriors are where the prior has nothing: they are those without "
                "the prior, and not to be trusted"
            )
        return laws

    # ------------------------------------------------------------ the prior

    @property
    def _latent_columns(self) -> list[str]:
        """Their names."""
        return Labels.of(None, self.latent_names_).named(self.points_.shape[1], "z")

    @property
    def _latents(self) -> Array:
        """Sorted, as coordinates are."""
        return self._order.sorted(self.points_)

    def _rows(self, prior, supervision) -> _Rows:
        """The pairs with their shares under the prior, and the supervision below them."""
        m = self._prior(prior)
        _, beta, reg_prior = self._ratio(m)
        every = self._every(m) if self._of_some else None
        known = self._Phi, beta, m, self._Q, self._latents, reg_prior, self._support
        rows = _Rows(*known, every=every)
        return rows if supervision is None else self._append(rows, *unpack_supervision(supervision))

    def _every(self, m: MeanEmbedding) -> Every:
        """Sums over all rows, by their shares under the prior."""

        def found() -> Every:
            if self._far is None:
                raise ValueError(
                    "prior is another one than before this model was saved, and its rows are "
                    "elsewhere; a prior is needed that `posterior` was asked for last, or a new fit"
                )
            with checks.hushed():  # `_rows` said what the latents do not cover
                ratio = self._ratio(m)[0]
            ratio = partial(_floored, ratio) if self.rule == "importance" else ratio
            return Every.of(self._far, (self.features_x_, self.features_z_), ratio)

        return Every(*self._once("every", (m.points, m.weights), found))  # of a file, a tuple

    def _prior(self, prior) -> MeanEmbedding:
        if prior is None:
            return MeanEmbedding(self._latents, kernel=self.kernel_z_)
        d, where = self.points_.shape[1], "the training latents"
        return as_one_embedding(prior, self.kernel_z_, "prior", d, where)

    def _ratio(self, m: MeanEmbedding) -> tuple[Callable[[Array], Array], Array, float | None]:
        """r as a function of latents, β_i = r(z_i)/n, and η, which is sought once for a prior."""
        n = self.points_.shape[0]
        U, eta = self.features_z_.transform(m.points), None
        if self.ratio is None:
            eta, second = self.reg_prior, self._second_z
            if eta is None:
                left_out = partial(RatioLeftOut, self._Q, second, U, m.weights)
                eta = self._once("reg_prior", (m.points, m.weights), lambda: left_out().best())
            coefficients = solves.ridge(second, eta).solve(m.weights @ U)
            ratio: Callable[[Array], Array] = partial(_ratio_at, self.features_z_, coefficients)
            beta = self._Q @ coefficients / n
        elif self._learns_ratio:
            fitted = clone(self.ratio).fit(self._latents, m)
            ratio, beta, eta = fitted.predict, fitted.weights_, fitted.reg_
        else:
            found = self.ratio(self.points_) if callable(self.ratio) else self.ratio
            given = checks.as_vector(found, "ratio", n=n)
            ratio = self.ratio if callable(self.ratio) else lambda _: given
            beta = self._order.sorted(given) / n
        shares = covered_shares(beta, _coverage(U, m, self.kernel_z_))
        return ratio if shares is beta else _even, shares, eta

    def _apart(self, m: MeanEmbedding) -> bool:
        """Whether means of features are clearly further apart than those of samples of one law.

        In many columns that is seen long before any ratio is.
        """
        xp = arrays.namespace(self._Q)
        mean = xp.mean(self._Q, axis=0)
        off = m.weights @ self.features_z_.transform(m.points) - mean
        C = self._second_z - mean[:, None] * mean[None, :]
        most = xp.linalg.trace(C) + APART * (2.0 * xp.sum(C * C)) ** 0.5
        return bool(off @ off > (1.0 / self._Q.shape[0] + m.weights @ m.weights) * most)

    @property
    def _learns_ratio(self) -> bool:
        return isinstance(self.ratio, DensityRatio)

    # ------------------------------------------------------------ posterior regularisation

    def _append(self, rows: _Rows, x_s, z_s, strength) -> _Rows:
        """The supervision as further rows, with `strength` for shares."""
        if self.rule != "importance":
            raise ValueError("supervision needs rule='importance'; this one has 'squared'")
        x_s = checks.as_points(x_s, "x_s")
        checks.check_columns(x_s, self.n_features_in_, "x_s", "X")
        Phi, further = rows.Phi, None
        Phi_s = self.features_x_.transform(x_s)
        if isinstance(self.features_x_, Landmarks):
            further = Further(self.features_x_, x_s, Phi_s)
            Phi, Phi_s = further.padded(Phi), further.Phi_s
        points, A = targets(z_s, Phi_s.shape[0])
        checks.check_columns(points, self.points_.shape[1], "z_s", "the training latents")
        Psi_s = self.features_z_.transform(points)
        xp = arrays.namespace(Phi_s)
        shares = arrays.like(each_strength(strength, Phi_s.shape[0]), Phi_s)
        every, reg = rows.every, None
        if every is not None:
            reg = self._reg(rows)
            ones = xp.ones_like(points[:, :1])
            told = xp.concat([points, ones], axis=1)
            every = every.beside(Phi_s, shares, told if A is None else A @ told, further)
        return replace(
            rows,
            every=every,
            reg=reg,
            Phi=xp.concat([Phi, Phi_s], axis=0),
            beta=xp.concat([xp.clip(rows.beta, 0.0, None), shares]),
            Psi=xp.concat([rows.Psi, Psi_s if A is None else A @ Psi_s], axis=0),
            points=xp.concat([rows.points, points], axis=0),
            A=A,
            further=further,
            pairs=rows,
            support=rows.support and rows.support.merge(Support.of(x_s)),
        )

    # ------------------------------------------------------------ settings

    def _once(self, name: str, key: tuple, search: Callable[[], Any]) -> Any:
        """What a search finds, sought anew only where the key is another than the last time."""
        found = self.__dict__.setdefault("_found", {})  # a file has none
        known = found.get(name)
        same = known is not None and all(
            np.array_equal(arrays.to_numpy(a), arrays.to_numpy(b))
            for a, b in zip(known[0], key, strict=True)
        )
        if not same:
            found[name] = key, search()
        return found[name][1]

    def _reg(self, rows: _Rows) -> float:
        known = rows.reg if self.reg is None else self.reg
        if known is not None:
            return float(known)
        if rows.Phi is not self._Phi:  # of supervision nothing is kept
            return self._choose_reg(rows)
        key = rows.beta, self.selection, self.tune_lengthscale
        return self._once("reg", key, lambda: self._choose_reg(rows))

    def _choose_reg(self, rows: _Rows) -> float:
        Phi, beta, Psi, how = rows.Phi, rows.beta, rows.Psi, self.selection
        if how == "auto":
            how = "loo" if self.rule == "importance" else "heldout"
        if not how.startswith("loo"):
            return choose_by_folds(Phi, beta, Psi, self.rule, balance=how == "balance")
        xp, n, C, every = arrays.namespace(beta), None, None, rows.every
        d = xp.clip(beta, 0.0, None)
        even = float(xp.sum(d)) ** 2 > EVEN * d.shape[0] * float(d @ d)  # as they came
        even = even and not self._apart(rows.prior)
        if every is None:
            grid = solves.EigenGrid.of(Phi.T @ (d[:, None] * Phi))
        else:
            n, grid = every.n, solves.EigenGrid.of(every.second)
            d, C = d * (Phi.shape[0] / n), grid.vectors.T @ every.cross
        # a lengthscale tuned to the data leaves no slack for a heavier regulariser
        one_se = how == "loo" and not self.tune_lengthscale
        own = self._copies if Phi is self._Phi else None
        return LeaveOneOut(Phi, Psi, grid, d, n=n, C=C, copies=own).best(one_se, even)[0]

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


@dataclass(frozen=True)
class _Rows:
    """Rows of the regression behind a posterior: the pairs, and any supervision below them."""

    Phi: Array  # coordinates of observations
    beta: Array  # shares
    prior: MeanEmbedding
    Psi: Array  # coordinates of latents
    points: Array  # latents
    reg_prior: float | None
    support: Support | None  # of the observations
    A: Array | None = None  # weights of the supervision's targets on their points
    further: Further | None = None  # coordinates that the supervision adds
    every: Every | None = None  # sums, where the pairs here are some of them
    reg: float | None = None  # where it was chosen already
    pairs: _Rows | None = None  # without the supervision

    def spread(self, right) -> Array:
        """Weights on rows turned into weights on points."""
        if self.A is None:
            return right
        n = right.shape[0] - self.A.shape[0]
        xp = arrays.namespace(right)
        return xp.concat([right[:n, :], self.A.T @ right[n:, :]], axis=0)


def _floored(ratio: Callable, z) -> Array:
    return arrays.namespace(z).clip(ratio(z), 0.0, None)


def _ratio_at(features: FeatureMap, coefficients, z) -> Array:
    return features.transform(z) @ coefficients


def _even(z) -> Array:
    return arrays.namespace(z).ones_like(z[:, 0])


def _coverage(U, m: MeanEmbedding, kernel: Kernel) -> float:
    """Share of the prior's points that the training latents span: Σ|α_j| ‖φ(u_j)‖²/k(u_j, u_j)."""
    xp = arrays.namespace(U)
    size, own = xp.abs(m.weights), kernel.diag_of(m.points)
    if float(xp.sum(size)) == 0:
        return 0.0
    spanned = xp.where(own > 0, xp.sum(U * U, axis=-1) / xp.where(own > 0, own, 1.0), 1.0)
    return float(xp.sum(size * spanned) / xp.sum(size))

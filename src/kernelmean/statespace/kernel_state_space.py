"""State-space models learned from observations alone: no family for the states or the noise."""

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from ..chains.emission import one_or_each
from ..chains.estimator import learn
from ..chains.options import EM, as_em
from ..chains.rows import observed
from ..chains.search import best_fit, factors, next_error, next_likelihood
from ..core import Block, Line, arrays, checks
from ..core.parameters import (
    check_parameters,
    count,
    either,
    flag,
    into,
    moved,
    optional,
    options,
    standing_for,
)
from ..core.progress import Verbose
from ..core.summary import numbers
from ..core.threads import doors
from ..kernels import fitted_kernel
from .answers import SpaceAnswers
from .backbone import FittedBackbone
from .learn import Fit, Plan
from .options import Backbone, as_filter, as_latent

# of EM
DEFAULTS = {"n_init": 3, "max_iter": 60, "tol": 1e-4, "guard": (200.0, 1000.0), "penalty": (1, 1)}
DIMENSIONS = (1, 2, 3)  # that "auto" compares
# of `tune`: how fits are judged, and multiples of what a plain fit has chosen
SCORES: dict[str, Any] = {"likelihood": next_likelihood, "mse": next_error}
SCALES = (0.125, 0.25, 0.5, 1.0)
WIDTHS = (0.5, 1.0, 2.0)
GUARDS = (0.25, 1.0, 4.0)


OLD = {name: ("em", into(as_em, name)) for name in ("directions", "features", *DEFAULTS)} | {
    "n_nodes": ("latent", into(as_latent, "nodes")),
    "kernel_x": ("latent", into(as_latent, "kernel")),
    "transition": ("latent", into(as_latent, "transition")),
    "n_particles": ("inference", into(as_filter, "n")),
    "reg": ("inference", into(as_filter, "reg")),
}


@moved(**OLD)
@doors()
@dataclass(eq=False, repr=False)
class KernelStateSpace(SpaceAnswers):
    """x_{t+1} ~ M(x_t, ·), y_t ~ O(x_t, ·), both unknown: learned from y_1, ..., y_n alone.

    The law π* of the latent states is chosen (any model has an equivalent one with that law), and
    stands on m nodes. With ψ(x) the coordinates of a latent point and φ(y) those of an
    observation, U ψ(x) embeds O(x, ·) and V ψ(x) embeds M(x, ·). Observations and nodes are paired
    by rank. From there EM climbs the predictive likelihood, Σ_t log p(y_t | y_1, ..., y_{t-1}),
    with laws that stay embeddings: the law of y at a node is that of the rows, each weighted by the
    probability of the node in it. Without it (`refine=False`), with the moments
    C₁₂ = E φ(y_1)φ(y_2)ᵀ, C₁₃, C_X = E ψ(x)ψ(x)ᵀ and the means μ_Y, μ_X, L-BFGS minimises

    ‖C₁₂ − U C_X VᵀUᵀ‖² + ‖C₁₃ − U C_X V²ᵀUᵀ‖² + λ₁‖μ_Y − Uμ_X‖² + λ₂‖μ_X − Vμ_X‖².

    Parameters
    ----------
    n_latent : int or "auto"
        Dimension of the latent states. "auto" takes one, two or three: another one only if rows
        held out are clearly likelier.
    latent : {"normal", "uniform"}, callable, Normal, Uniform or Sampled
        π*: standard normal, uniform on the unit cube, or a sampler (n, rng) -> array (n, n_latent).
        As an object it also says how many nodes stand for it, `Normal(2, nodes=120)`, the kernel
        that embeds the states, and a known `transition`.
    refine : bool
        Whether by EM. Without it forecasts are those of the moment fit, which is rarely good: that
        loss has minima that fit the noise of C₁₂.
    random_state : int, Generator or None
        For samplers and particles; the default draws nothing.
    kernel : Kernel, str, scikit-learn kernel or callable
        Embeds the observations. Emission densities are smoothed with a kernel of its family;
        its lengthscale matters for moments and for "kbr". One that cannot smooth (`Linear`, a
        function) has densities of variates, and no backbone.
    inference : {"nodes", "particles", "kbr"}, Particles or KernelRule
        How states are filtered: Bayes' rule with the recovered densities on the nodes (exact, no
        noise); a bootstrap particle filter over these densities, `Particles(500)`; or kernel Bayes'
        rule from the embedded laws, without densities, `KernelRule(reg=None)`.
    bandwidth : float or sequence of float, optional
        Of the emission densities (beside a backbone of its innovations, which may be differences of
        logarithms); None is that of the largest log-likelihood of held-out rows.
    em : EM, optional
        How EM goes: `EM(n_init=3)` pairings that it starts from, `max_iter=60` (of L-BFGS with
        `refine=False`), `tol=1e-4`, the `guard`, and the `penalty` and `features` of the moments.
    backbone : "auto", Backbone or None
        A linear model of the series, whose innovations the states are then learned from. "auto"
        takes states of the series itself, of what the line leaves of it, or the line with
        independent innovations, whichever forecasts rows held out best. `Backbone(season=12)` has
        one in any case; None has none.
    verbose : bool or callable
        Show the progress of EM's starts.

    Attributes
    ----------
    nodes_ : array of shape (m, n_latent)
    node_weights_ : array of shape (m,)
        π*.
    startprob_ : array of shape (m,)
        Stationary law of the learned chain on the nodes. EM starts at π*, but may move away: the
        representation is not unique.
    transmat_ : array of shape (m, m)
        P(x_{t+1} = node j | x_t = node i).
    emissions_ : MeanEmbedding
        Batch of m embedded laws of y given a node: on the rows of training, and on points that
        stand for the guard.
    U_, V_ : arrays of shape (r_y, r_x), (r_x, r_x)
        The operators in coordinates.
    loss_ : float
        Of the moments (beside EM: after a few steps from the first pairing).
    loss_history_ : array of shape (iterations, 3)
        Its three terms: moments, λ₁, λ₂.
    history_ : array
        Mean log-likelihood of a row by iteration of EM, each row left out of the laws it is
        judged by: of the best start, at the bandwidth taken. The iteration with the largest one
        is taken; after it the likelihood of rows left out may fall.
    converged_ : bool
    bandwidth_ : float, tuple or None
        Of the emission densities.
    guard_ : (float, float)
        Rows that the guards count as.
    reg_ : float or None
        λ of kernel Bayes' rule, if that is the inference.
    backbone_ : FittedBackbone or None
        The line, with `form` and `transform`; where there is one, all attributes above are of its
        innovations.
    rivals_ : dict
        By name: how well models forecast the same rows held out, in `loglik` and `rmse`
        (a float, or a list of one for each column).
    dimensions_ : dict
        By dimension that was tried (`n_latent="auto"`): mean log-likelihood of rows held out.
    range_ : array of shape (2, d)
        Least and largest of what the states were learned from; many rows beyond it are told of.
    variates_ : Variates or None
    kernel_, kernel_x_, features_, features_x_ : as used

    Notes
    -----
    The latent states are one of many equivalent representations (Lemmas 4.1 and 4.2): any
    one-to-one function of them does as well. Forecasts of y do not depend on which it is; latent
    means do.

    References
    ----------
    Spiteri (2023), chapter 4; MATH §10.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_state_space("linear", 600, random_state=0)
    >>> model = km.KernelStateSpace().fit(data.X[:500])
    >>> forecasts = model.predict(data.X)[500:]
    >>> forecasts.shape
    (100, 1)
    >>> error = ((data.X[500:] - forecasts) ** 2).mean()
    >>> best = ((data.X - data.model.predict(data.X))[500:] ** 2).mean()  # the true model's
    >>> bool(error < 1.2 * best)
    True
    """

    n_latent: Any = 1
    latent: Any = "normal"
    _: KW_ONLY
    refine: bool = True
    random_state: Any = None
    kernel: Any = "gaussian"
    inference: Any = "nodes"
    bandwidth: Any = None
    em: EM | None = None
    backbone: Any = "auto"
    verbose: Verbose = False

    ALLOWED: ClassVar = {
        "n_latent": either(count(), "auto"),
        "latent": standing_for(as_latent),
        "refine": flag,
        "inference": standing_for(as_filter),
        "em": optional(options(EM)),
        "backbone": optional(either(options(Backbone), "auto")),
    }
    was: ClassVar = {"backbone": None}
    _noun = "State-space model"

    # ------------------------------------------------------------ learning

    def fit(self, X, lengths=None, inputs=None) -> Self:
        """Learn the chain on the nodes, and the law of the observations given each of them.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Observations in the order of time; NaN is missing. Laws are learned from whole rows.
            Where fewer than a fifth of three rows in a row are whole, gaps are filled first, by
            draws of an autoregression given what is there, with a `NumericalWarning`. A few values
            that are further than 30 usual changes from those around them are learned from as if
            missing, likewise.
        lengths : sequence of int, optional
            Rows of each sequence, if there are several below each other.
        inputs : array or DataFrame of shape (n, k), optional
            What is known of every row beforehand: the backbone, which there is then in any case, is
            linear in it. A table has the index of `X`.
        """
        fit: Fit = learn(self, self._plan, X, lengths, inputs)
        self.space_, latent = fit.space, fit.space.latent
        self.nodes_, self.node_weights_ = latent.nodes, latent.weights
        self.features_x_, self.kernel_x_ = fit.space.features, fit.space.features.kernel_
        self.loss_, self.loss_history_ = fit.start.loss, np.array(fit.start.history)
        self.guard_, self.U_, self.V_ = fit.guard, fit.U, fit.V
        self.backbone_, self.rivals_, self.dimensions_ = fit.backbone, fit.rivals, fit.tried
        points = arrays.to_numpy(fit.draft.rows.there)
        self.range_ = np.stack([points.min(axis=0), points.max(axis=0)])
        return self

    @property
    def _plan(self) -> Plan:
        """What is asked for, checked."""
        check_parameters(self)
        way, em = as_filter(self.inference), as_em(self.em).filled(**DEFAULTS)
        learning = em, self.refine, self.bandwidth, getattr(way, "reg", None), self.verbose
        return Plan(self.kernel, em.features, *learning, self._compared, way, self.backbone)

    @property
    def _compared(self) -> list[Any]:
        """The latent laws that are compared."""
        law = as_latent(self.latent)
        if law.d is not None or self.n_latent != "auto":
            return [law.filled(d=self.n_latent)]
        if callable(law.law) or law.transition is not None or not self.refine:
            raise ValueError(
                'n_latent is "auto", which compares dimensions by EM: a number is needed with '
                "refine=False, a sampler for latent, or a known transition"
            )
        return [law.filled(d=d) for d in DIMENSIONS]

    def tune(
        self,
        X,
        X_val,
        lengths=None,
        lengths_val=None,
        *,
        scales=None,
        widths=WIDTHS,
        guards=GUARDS,
        penalties=None,
        score="likelihood",
        n_jobs=None,
        verbose=False,
    ) -> Self:
        """The best of several fits, judged by a validation sequence: a new, fitted model.

        Parameters
        ----------
        X, lengths
            As for `fit`.
        X_val : array or DataFrame of shape (m, d)
            Rows that follow each other, not used in fitting; they begin where a season does, if
            there is one.
        lengths_val : sequence of int, optional
            Rows of each validation sequence.
        scales : sequence of float, optional
            Multiples of the lengthscales of both kernels; None is 1, and without `refine`, where
            they matter most, 1/8, 1/4, 1/2 and 1.
        widths : sequence of float
            Multiples of the bandwidth that a plain fit chooses.
        guards : sequence of float
            Multiples of the guards that a plain fit chooses.
        penalties : sequence of (float, float), optional
            Values of `penalty`; None is the model's.
        score : {"likelihood", "mse"}
            Mean log p(y_t | y_1, ..., y_{t-1}) of the validation rows, or the squared error of
            the one-step forecasts.
        n_jobs : int, optional
            Processes that fit; -1 is one per core.
        verbose : bool or callable
            Show progress, or call `verbose(done, total)`.

        Returns
        -------
        KernelStateSpace
            With `tuning_`, a list of dict that tells what was tried.

        References
        ----------
        Spiteri (2023), section 4.6.

        Examples
        --------
        >>> import kernelmean as km
        >>> X = km.datasets.make_state_space("linear", 400, random_state=0).X
        >>> model = km.KernelStateSpace(em=km.EM(n_init=1)).tune(
        ...     X[:300], X[300:], guards=[0.5, 2], widths=[1]
        ... )
        >>> len(model.tuning_), model.predict(X[300:]).shape
        (2, (100, 1))
        """
        checks.check_choice(score, "score", SCORES)
        if not observed(X_val, "X_val")[1].any():
            raise ValueError("X_val has no row without NaN; observations are needed")
        if scales is None:
            scales = (1.0,) if self.refine else SCALES
        if penalties is None:
            penalties = [as_em(self.em).filled(**DEFAULTS).penalty]
        plain = clone(self).fit(X, lengths)
        values = [factors(scales, "scales"), factors(widths, "widths"), factors(guards, "guards")]
        names = ("scale", "width", "guard", "penalty")
        grid = [dict(zip(names, p, strict=True)) for p in product(*values, penalties)]
        judge = partial(SCORES[score], X=X_val, lengths=lengths_val)
        return best_fit(plain._near, grid, score, X, lengths, judge, n_jobs, verbose)

    def _near(self, scale: float, width: float, guard: float, penalty) -> Self:
        """The model, not fitted, with multiples of the settings that the fit has chosen."""
        latent = as_latent(self.latent)
        kernel_x = fitted_kernel(latent.kernel, self.nodes_).scaled(scale)
        guards, widths = tuple(guard * np.array(self.guard_)), self.bandwidth_
        return clone(self).set_params(
            kernel=self.kernel_.scaled(scale),
            n_latent=self.nodes_.shape[1],
            latent=replace(latent, kernel=kernel_x),
            backbone=self.backbone_ and self.backbone_.options,
            bandwidth=widths and one_or_each(width * np.atleast_1d(widths)),
            em=replace(as_em(self.em), guard=guards, penalty=penalty),
        )

    # ------------------------------------------------------------ in words

    def _blocks(self) -> list[Block]:
        m, d = self.nodes_.shape
        law, way = as_latent(self.latent), as_filter(self.inference)
        said = {"dimension": d, "latent law": law, "nodes": m, "filter": way}
        lines = [Line(name, value, str(value)) for name, value in said.items()]
        of = " and ".join(f"{rows:,.0f}" for rows in self.guard_)
        lines.append(Line("guard of emissions and moves", self.guard_, f"{of} rows"))
        held_out = "log-likelihood of rows held out, dimension"
        lines += [Line.of(f"{held_out} {k}", v) for k, v in self.dimensions_.items()]
        blocks = [Block("Latent states", lines)]
        if self.backbone_ is not None:
            blocks.insert(0, Block("Backbone", _backbone_lines(self.backbone_)))
        if self.rivals_:
            told = [
                Line(name, r, f"log-likelihood {r.loglik:.4g}, error {numbers(r.rmse)}")
                for name, r in sorted(self.rivals_.items(), key=lambda item: -item[1].loglik)
            ]
            blocks.append(Block("Rows held out, one step ahead", told))
        return blocks


def _backbone_lines(line: FittedBackbone) -> list[Line]:
    form, sizes = line.form, (np.diag(line.cov) ** 0.5).squeeze().tolist()
    said = {
        "transform": line.transform.name or "none",
        "order": form.order,
        "difference": form.difference,
        "trend": {"n": "none", "c": "constant", "ct": "constant and time"}.get(form.trend, "drift"),
        "memory of the level": form.memory or "none",
        "season": f"{form.season} rows, by {form.seasonal}" if form.season else "none",
    }
    lines = [Line(name, value, str(value)) for name, value in said.items()]
    return [*lines, Line.of("standard deviation of an innovation", sizes)]

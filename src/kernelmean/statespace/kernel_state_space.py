"""State-space models learned from observations alone: no family for the states or the noise."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from ..chains import markov
from ..chains.draft import SEARCHED, Draft, choose_bayes, embedded, space_of
from ..chains.markov import Chain
from ..chains.model import MarkovModel, mixture
from ..chains.model_bayes import ModelBayes
from ..core import arrays
from ..core.checks import (
    Array,
    as_levels,
    as_points,
    check_choice,
    check_columns,
    check_count,
    check_level,
    check_positive,
    frozen,
    generator,
)
from ..embedding.embedding import MeanEmbedding
from ..kernels import fitted_kernel
from ..statespace import particles, tune
from .guard import ShapedGuard
from .latent import CHAINS, LAWS, Latent
from .learn import Learner
from .operators import PairFit, fit_moments
from .particles import ParticleResult, bootstrap
from .results import LatentBelief, LatentResult, NodeModel, StateForecast, gathered
from .space import Space

INFERENCE = ("nodes", "particles", "kbr")
START_ITER = 10  # of L-BFGS where EM follows: soon after, it fits the noise of the moments
ENOUGH = 0.5  # sum of the weights of a law, as a share of that of the positive ones
JITTER = 0.3  # bandwidth of the transition density between nodes, in their spacing


class KernelStateSpace(MarkovModel):
    """x_{t+1} ~ M(x_t, ·), y_t ~ O(x_t, ·), both unknown: learned from y_1, ..., y_n alone.

    The law π* of the latent states is chosen (any model has an equivalent one with that law), and
    stands on m nodes. With ψ(x) the coordinates of a latent point and φ(y) those of an
    observation, U ψ(x) embeds O(x, ·) and V ψ(x) embeds M(x, ·). One start, by the moments
    C₁₂ = E φ(y_1)φ(y_2)ᵀ, C₁₃, C_X = E ψ(x)ψ(x)ᵀ and the means μ_Y, μ_X, minimises

    ‖C₁₂ − U C_X VᵀUᵀ‖² + ‖C₁₃ − U C_X V²ᵀUᵀ‖² + λ₁‖μ_Y − Uμ_X‖² + λ₂‖μ_X − Vμ_X‖²,

    others pair observations and nodes by rank. EM then climbs the predictive likelihood,
    Σ_t log p(y_t | y_1, ..., y_{t-1}), with laws that stay embeddings: the law of y at a node is
    that of the rows, each weighted by the probability of the node in it.

    Parameters
    ----------
    n_latent : int
        Dimension of the latent states.
    latent : {"normal", "uniform"} or callable
        π*: standard normal, uniform on the unit cube, or a sampler (n, rng) -> array (n, n_latent).
    penalty : (float, float)
        λ₁ and λ₂ of the moments; with `refine=True` they matter for one of the starts only.
    refine : bool
        Whether EM follows the moments. Without it forecasts are those of the moment fit, which
        is rarely good: that loss has minima that fit the noise of C₁₂.
    random_state : int, Generator or None
        For samplers and particles; the default draws nothing.
    kernel : Kernel, str, scikit-learn kernel or callable
        Embeds the observations. Emission densities are smoothed with a kernel of its family;
        its lengthscale matters for moments and for "kbr".
    kernel_x : Kernel or str
        Embeds the latent states.
    transition : callable, optional
        A known M: a simulator (x, rng) -> x', with x and x' of shape (N, n_latent). Only O is
        learned, and π* is the stationary law of M, which is simulated from draws of `latent`.
    inference : {"nodes", "particles", "kbr"}
        How states are filtered: Bayes' rule with the recovered densities on the nodes (exact, no
        noise); a bootstrap particle filter over these densities; or kernel Bayes' rule from the
        embedded laws, without densities.
    bandwidth : float or sequence of float, optional
        Of the emission densities; None is that of the largest log-likelihood of held-out rows.
    guard : float or (float, float)
        Rows that a simple model counts as in the emission laws, and in the transitions, in all
        (divided by m at each node): y linear in x with noise that does not depend on it, and x'
        normal around a smooth function of x. It is what is left where no data have been; more of
        it suits short series and nearly linear ones. In the emission laws it counts 10 or 100
        times as much if that makes held-out rows likelier (unless `bandwidth` is given).
    n_nodes : int, optional
        m; None is 41, 120, 200 in one, two, more dimensions.
    n_particles : int
        Of the particle filter.
    reg : float, optional
        λ of kernel Bayes' rule; None takes the one whose filter is nearest to the smoother.
    features : FeatureMap, optional
        Coordinates of the observations; None is Nyström with at most 300 landmarks.
    directions : "auto" or int
        Number of canonical variates that emission densities are of; see `KernelHMM`.
    n_init : int
        Pairings of observations and nodes that are tried: of y itself, and of averages over more
        and more rows (at most four).
    max_iter : int
        Most iterations of EM; without it, of L-BFGS.
    tol : float
        EM stops when the mean log-likelihood of a row rises by less.
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
        Of the moments, where EM starts (with `refine=False`: at the end).
    loss_history_ : array of shape (iterations, 3)
        Its three terms: moments, λ₁, λ₂.
    history_ : array
        Mean log-likelihood of a row by iteration of EM, each row left out of the laws it is
        judged by: of the best start, at the first bandwidth. The iteration with the largest one
        is taken; after it the likelihood of rows left out may fall.
    converged_ : bool
    bandwidth_ : float, tuple or None
        Of the emission densities.
    guard_ : (float, float)
        Rows that the guards count as.
    reg_ : float or None
        λ of kernel Bayes' rule, if that is the inference.
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

    def __init__(
        self,
        n_latent=1,
        latent="normal",
        penalty=(1, 1),
        refine=True,
        random_state=None,
        *,
        kernel="gaussian",
        kernel_x="gaussian",
        transition=None,
        inference="nodes",
        bandwidth=None,
        guard=(200.0, 1000.0),
        n_nodes=None,
        n_particles=500,
        reg=None,
        features=None,
        directions="auto",
        n_init=4,
        max_iter=60,
        tol=1e-4,
        verbose=False,
    ):
        self.n_latent = n_latent
        self.latent = latent
        self.penalty = penalty
        self.refine = refine
        self.random_state = random_state
        self.kernel = kernel
        self.kernel_x = kernel_x
        self.transition = transition
        self.inference = inference
        self.bandwidth = bandwidth
        self.guard = guard
        self.n_nodes = n_nodes
        self.n_particles = n_particles
        self.reg = reg
        self.features = features
        self.directions = directions
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    # ------------------------------------------------------------ learning

    def fit(self, X, lengths=None) -> KernelStateSpace:
        """Learn the transition and the observation law.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Observations in the order of time. A row with NaN is missing.
        lengths : sequence of int, optional
            Rows of each sequence, if there are several below each other.
        """
        self._check_settings()
        draft = self._accepted(X, lengths)
        few = draft.rows.seen.size <= SEARCHED
        with threadpool_limits(1 if few else None, user_api="blas"):
            self._learn(draft, generator(self.random_state))
        return self

    def tune(
        self,
        X,
        X_val,
        lengths=None,
        lengths_val=None,
        *,
        scales=None,
        widths=tune.WIDTHS,
        guards=tune.GUARDS,
        penalties=None,
        score="likelihood",
        n_jobs=None,
        verbose=False,
    ) -> KernelStateSpace:
        """The best of several fits, judged by a validation sequence: a new, fitted model.

        Parameters
        ----------
        X, lengths
            As for `fit`.
        X_val : array or DataFrame of shape (m, d)
            Rows that follow each other, not used in fitting.
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
        >>> model = km.KernelStateSpace(n_init=1).tune(
        ...     X[:300], X[300:], guards=[0.5, 2], widths=[1]
        ... )
        >>> len(model.tuning_), model.predict(X[300:]).shape
        (2, (100, 1))
        """
        return tune.tune(
            self,
            X,
            X_val,
            lengths,
            lengths_val,
            scales,
            widths,
            guards,
            penalties,
            score,
            n_jobs,
            verbose,
        )

    def _learn(self, draft: Draft, rng: np.random.Generator) -> None:
        latent, known = self._latent_space(rng)
        self.nodes_, self.node_weights_ = latent.nodes, latent.weights
        self.kernel_, self.features_ = draft.kernel, draft.coordinates.features
        self.kernel_x_ = fitted_kernel(self.kernel_x, latent.nodes)
        self._space = Space.of(latent, self.kernel_x_)
        self.features_x_ = self._space.features
        particles = self.inference == "particles" and self.directions == "auto"
        self.variates_ = space_of(draft, 0 if particles else self.directions)
        settings = self._settings(draft)
        learner = Learner(draft, latent, self.variates_, self._guards(), known, settings)
        pairings = learner.pairings()
        iterations = START_ITER if self.refine else self.max_iter
        fits = [
            fit_moments(draft, self._space, p, self.penalty, iterations, known is not None)
            for p in pairings
        ]
        best = min(fits, key=lambda fit: fit.loss)
        self.loss_, self.loss_history_ = best.loss, np.array(best.history)
        if self.refine:
            starts = [(p.log_shares, p.chain) for p in pairings]
            self._learn_by_em(learner, [*starts, self._start_of(draft, best, known)])
        else:
            self._learn_by_moments(learner, best, known)

    def _latent_space(self, rng) -> tuple[Latent, Chain | None]:
        """The nodes, and the chain on them if the transition is known."""
        latent = Latent.of(self.latent, self.n_latent, self.n_nodes, rng)
        if self.transition is None:
            return latent, None
        begin = latent.nodes[rng.choice(len(latent.nodes), CHAINS, p=latent.weights)]
        latent = Latent.simulated(self.transition, begin, self.n_nodes, rng)
        return latent, latent.chain_of(self.transition, rng)

    def _start_of(self, draft: Draft, fit: PairFit, known: Chain | None) -> tuple:
        """Log-densities and the chain that moments say."""
        ratios = draft.density_ratios(fit.U @ self._space.Psi.T)
        return np.log(ratios), known or self._space.chain_of(fit.V)

    def _learn_by_em(self, learner: Learner, starts) -> None:
        climbed, smoothing = learner.refine(starts)
        rows = learner.draft.rows
        gamma = climbed.gamma[rows.seen]
        self._remember(climbed.chain, smoothing.emissions(gamma))
        self.guard_ = (round(self._laws.guard.strength * len(self.nodes_), 6), learner.guard[1])
        self.bandwidth_ = getattr(smoothing.kernel, "lengthscale", None)
        self.emissions_ = self._embedded_rows(rows.there, gamma)
        self.history_, self.converged_ = np.array(climbed.history), climbed.converged
        self._choose_bayes(learner.draft, climbed.gamma, climbed.chain)
        _, laws = embedded(learner.draft, climbed.gamma, 1.0)
        self._operators(laws, gamma.sum(axis=0))

    def _learn_by_moments(self, learner: Learner, fit: PairFit, known: Chain | None) -> None:
        draft, space = learner.draft, self._space
        embeddings = fit.U @ space.Psi.T
        self.emissions_ = laws = normalised(draft.weighted_rows(embeddings))
        self.bandwidth_, self.guard_ = self._given_bandwidth(draft), learner.guard
        chain = known or space.chain_of(fit.V)
        counts = np.maximum(chain.startprob * draft.rows.seen.sum(), 1.0)
        self._remember(chain, self._signed(laws, counts))
        self.history_, self.converged_ = np.empty(0), fit.converged
        logb = self._log_emissions(draft.rows.points, draft.rows.seen)
        alpha, _ = markov.filtered(logb, chain, draft.rows.sequences)
        gamma = markov.smoothed(alpha, chain, draft.rows.sequences)
        self._choose_bayes(draft, gamma, chain)
        self.U_, self.V_ = fit.U, fit.V

    def _embedded_rows(self, points, gamma: np.ndarray) -> MeanEmbedding:
        """Laws of y given a node: rows, weighted by its probability in them, and the guard."""
        guard = self._laws.guard
        weights = gamma.T
        if guard.n_values:  # the guard is uniform on the values
            _, value, count = np.unique(
                arrays.to_numpy(points), axis=0, return_inverse=True, return_counts=True
            )
            weights = weights + guard.strength / (guard.n_values * count[value.reshape(-1)])
        elif self.variates_ is None and isinstance(guard, ShapedGuard):
            extra = guard.points()
            count, extra = extra.shape[1], extra.reshape(-1, extra.shape[2])
            points = arrays.namespace(points).concat([points, arrays.like(extra, points)])
            own = np.kron(np.eye(len(weights)), np.full(count, guard.strength / count))
            weights = np.concatenate([weights, own], axis=1)
        weights = weights + arrays.EPS / weights.shape[1]  # where no row has been
        weights /= weights.sum(axis=1, keepdims=True)
        points = frozen(points)
        return MeanEmbedding.of_parts(points, arrays.like(weights, points), None, self.kernel_)

    def _choose_bayes(self, draft: Draft, gamma: np.ndarray, chain: Chain) -> None:
        self._bayes, self.reg_ = None, None
        if self.inference == "kbr":
            if self.reg is None:
                self._bayes = choose_bayes(draft, gamma, chain)
            else:
                self._bayes = ModelBayes(*embedded(draft, gamma, 1.0), float(self.reg))
            self.reg_ = self._bayes.reg

    def _operators(self, laws: np.ndarray, mass: np.ndarray) -> None:
        """U and V that agree with the laws at the nodes."""
        space = self._space
        self.U_ = space.operator(laws, mass)
        self.V_ = space.operator(space.Psi.T @ self.transmat_.T, self.startprob_)

    def _guards(self) -> tuple[float, float]:
        values = [check_positive(v, "guard") for v in np.atleast_1d(self.guard)]
        return values[0], values[-1]

    def _check_settings(self) -> None:
        check_choice(self.inference, "inference", INFERENCE)
        for name in ("n_latent", "n_particles"):
            check_count(getattr(self, name), name)
        if self.n_nodes is not None:
            check_count(self.n_nodes, "n_nodes", minimum=3)
        if not callable(self.latent):
            check_choice(self.latent, "latent", LAWS)
        if self.transition is not None and not callable(self.transition):
            raise ValueError(
                f"transition is {self.transition!r}; a function (x, rng) -> next x is needed"
            )
        self._check_weights()
        self._check_learning()
        if self.directions not in ("auto", 0) and self.inference == "particles":
            raise ValueError(
                f"directions is {self.directions}, and inference is 'particles', which need "
                "densities of y itself: directions=0"
            )

    def _check_weights(self) -> None:
        if np.shape(self.penalty) != (2,):
            raise ValueError(f"penalty is {self.penalty!r}; two numbers are needed")
        for value in self.penalty:
            check_positive(value, "penalty", zero=True)
        if np.shape(self.guard) not in ((), (1,), (2,)):
            raise ValueError(f"guard is {self.guard!r}; one or two numbers are needed")
        self._guards()

    # ------------------------------------------------------------ states

    def filter(self, X, lengths=None) -> LatentResult:
        """Law of the latent state of every row given the rows up to it.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            A row with NaN is a missing observation.
        lengths : sequence of int, optional
        """
        points, seen, sequences = self._given(X, lengths)
        if self.inference == "particles":
            return self._of_particles(points, seen, sequences)
        return self._latent_result(self._filtered(points, seen, sequences)[0], points)

    def smooth(self, X, lengths=None) -> LatentResult:
        """Law of the latent state of every row given its whole sequence.

        Parameters
        ----------
        X, lengths
            As for `filter`. (With particles too, smoothing is on the nodes.)
        """
        points, seen, sequences = self._given(X, lengths)
        alpha, _ = self._filtered(points, seen, sequences)
        return self._latent_result(markov.smoothed(alpha, self._chain, sequences), points)

    def _of_particles(self, points, seen, sequences) -> LatentResult:
        found = self._particles(points, seen, sequences, keep=True)
        assert found.particles is not None
        assert found.weights is not None
        shares = [self._space.latent.shares(x) for x in found.particles]
        p = np.stack([w @ s for w, s in zip(found.weights, shares, strict=True)])
        laws = self._latent_result(p, points).embeddings
        mean, variance = (arrays.like(a, points) for a in (found.state_mean, found.state_variance))
        return LatentResult(laws, mean, variance)

    def _latent_result(self, p: np.ndarray, like) -> LatentResult:
        mean = p @ self.nodes_
        variance = p @ self.nodes_**2 - mean**2
        nodes = arrays.like(self.nodes_, like)
        laws = MeanEmbedding.of_parts(nodes, arrays.like(p, like), None, self.kernel_x_)
        return LatentResult(
            laws, arrays.like(mean, like), arrays.like(np.maximum(variance, 0), like)
        )

    # ------------------------------------------------------------ observations

    def predict(self, X, lengths=None) -> Array:
        """One-step forecasts E[y_t | y_1, ..., y_{t-1}] of every row, (n, d).

        The first row of a sequence gets the stationary mean. For the rows after those of training
        give both, `predict(X)[n:]`: a series that begins anew knows nothing of what was before.

        Parameters
        ----------
        X, lengths
            As for `filter`.
        """
        points, seen, sequences = self._given(X, lengths)
        if self.inference == "particles":
            return arrays.like(self._particles(points, seen, sequences).mean, points)
        p = self._predicted(points, seen, sequences)
        return arrays.like(p, points) @ self.emissions_.mean()

    def predict_quantile(self, X, q, lengths=None) -> Array:
        """Quantiles of y_t given y_1, ..., y_{t-1}, (n, d) for one level, (n, k, d) for k.

        Parameters
        ----------
        X, lengths
            As for `filter`.
        q : float or sequence of float
            Levels between 0 and 1.
        """
        as_levels(q)
        points, seen, sequences = self._given(X, lengths)
        if self.inference == "particles":
            result = self._particles(points, seen, sequences, keep=True)
            rng = generator(self.random_state)
            ends = particles.forecast_quantile(self.recovered(), result, q, rng)
            return arrays.like(ends, points)
        p = self._predicted(points, seen, sequences)
        if self.bandwidth_ is None or self.variates_ is not None:
            return self._mixture(p).quantile(q, self._spread)
        widths = np.broadcast_to(self.bandwidth_, points.shape[1])
        found = [
            mixture(p, gathered(self.emissions_, j, float(width))).quantile(q, float(width))
            for j, width in enumerate(widths)
        ]
        return arrays.namespace(points).concat(found, axis=-1)

    def predict_interval(self, X, level=0.95, lengths=None) -> tuple[Array, Array]:
        """Central interval of y_t given y_1, ..., y_{t-1}: lower and upper ends, (n, d) each.

        Parameters
        ----------
        X, lengths
            As for `filter`.
        level : float
        """
        level = check_level(level)
        ends = self.predict_quantile(X, [0.5 - level / 2, 0.5 + level / 2], lengths)
        return ends[:, 0, :], ends[:, 1, :]

    def log_predictive(self, X, lengths=None) -> np.ndarray:
        """log p(y_t | y_1, ..., y_{t-1}) for every row, (n,); 0 for a missing one.

        Parameters
        ----------
        X, lengths
            As for `filter`.
        """
        if self.inference != "particles":
            return super().log_predictive(X, lengths)
        points, seen, sequences = self._given(X, lengths)
        return self._particles(points, seen, sequences).loglik

    def forecast(self, X, steps: int, lengths=None) -> StateForecast:
        """Observations 1, ..., `steps` rows after `X`: on the nodes, whatever filtered the state.

        Parameters
        ----------
        X, lengths
            As for `filter`; with several sequences, the forecasts of the first come first.
        steps : int
        """
        found = super().forecast(X, steps, lengths)
        return StateForecast(found.states, found.observations, found.bandwidth)

    def sample(self, n_samples: int = 1, random_state=None) -> tuple[Array, Array]:
        """A sequence of observations, (n, d), and of its latent states on the nodes.

        Parameters
        ----------
        n_samples : int
        random_state : int, Generator or None
            None is the model's own.
        """
        X, states = self._draw(n_samples, random_state)
        return X, arrays.like(self.nodes_[states], X)

    def start(self, prior=None) -> LatentBelief:
        """The belief before the first observation, to be carried on one step at a time.

        After `update` its `mean` is that of the row just seen; `predict` first, for the next one.

        Parameters
        ----------
        prior : array of shape (m,), optional
            Probabilities of the nodes; None is `startprob_`.

        Examples
        --------
        >>> import kernelmean as km
        >>> data = km.datasets.make_state_space("linear", 500, random_state=0)
        >>> belief = km.KernelStateSpace().fit(data.X).start()
        >>> bool(belief.update([4.0]).predict().mean[0] > 2.0)
        True
        """
        check_is_fitted(self)
        return LatentBelief(self, self.startprob_ if prior is None else self._prior(prior))

    # ------------------------------------------------------------ laws

    def emission_at(self, x) -> MeanEmbedding:
        """A batch of embedded laws of y given x: between nodes, mixtures of those at the nodes.

        In several dimensions by regression on ψ(x): weights may be negative.

        Parameters
        ----------
        x : array of shape (k, n_latent)
        """
        return self._mixture(self._interpolated(x))

    def transition_at(self, x) -> MeanEmbedding:
        """A batch of embedded laws of the next state given x, on the nodes (as `emission_at`).

        Parameters
        ----------
        x : array of shape (k, n_latent)
        """
        weights = self._interpolated(x) @ self.transmat_
        return MeanEmbedding.of_parts(frozen(self.nodes_), weights, None, self.kernel_x_)

    def recovered(self) -> NodeModel:
        """The learned model as one to draw from, with densities anywhere in the latent space.

        Returns
        -------
        NodeModel
            With the verbs of `particlefilter.StateSpace`, which the particle filter and
            `as_particles_model` take.
        """
        check_is_fitted(self)
        return NodeModel(self)

    @property
    def latent_bandwidth_(self) -> float:
        """Of the transition density between nodes."""
        check_is_fitted(self)
        return JITTER * self._space.latent.spacing * float(self.nodes_.std(axis=0).max())

    # ------------------------------------------------------------ inside

    @property
    def _spread(self):
        return self.bandwidth_ if self.variates_ is None else 0.0

    def _interpolated(self, x) -> np.ndarray:
        check_is_fitted(self)
        x = arrays.to_numpy(as_points(x, "x", one_d=self.n_latent == 1))
        check_columns(x, self.nodes_.shape[1], "x", "the latent space")
        if self.nodes_.shape[1] == 1:
            return self._space.latent.shares(x)  # in between two nodes, and never negative
        return self._space.interpolation(x)

    def _predicted(self, points, seen, sequences) -> np.ndarray:
        """P(x_t = node | y_1, ..., y_{t-1})."""
        alpha, _ = self._filtered(points, seen, sequences)
        return markov.predicted(alpha, self._chain, sequences)

    def _particles(self, points, seen, sequences, keep: bool = False) -> ParticleResult:
        rng = generator(self.random_state)
        Y = arrays.to_numpy(points)
        return bootstrap(self.recovered(), Y, seen, sequences, self.n_particles, rng, keep)


def normalised(laws: MeanEmbedding) -> MeanEmbedding:
    """Weights of each law that sum to one: without the negative ones, where these are too many."""
    weights = arrays.to_numpy(laws.weights)
    positive = np.maximum(weights, 0.0)
    much = weights.sum(axis=1) >= ENOUGH * positive.sum(axis=1)
    weights = np.where(much[:, None], weights, positive)
    weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return MeanEmbedding.of_parts(laws.points, arrays.like(weights, laws.points), None, laws.kernel)

"""Hidden Markov models whose emission laws are embeddings: no family of distributions."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..chains import markov
from ..chains.estimator import ChainEstimator, learn, renumber
from ..chains.options import EM, as_em
from ..chains.order import METHODS, Order
from ..chains.rows import inputs_like, points_like, rows_like
from ..chains.search import Judge, best_fit, factors, next_error
from ..core import Array, Block, Labels, Line, arrays, checks
from ..core.parameters import (
    check_parameters,
    choice,
    count,
    flag,
    into,
    moved,
    optional,
    options,
    positive,
)
from ..core.progress import Verbose
from ..core.summary import numbers
from ..core.threads import doors
from .learn import Fit, Plan
from .tune import Named

ALGORITHMS = ("viterbi", "map")
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the lengthscale, that `tune` tries
DEFAULTS = {"n_init": 12, "max_iter": 200, "tol": 1e-5}  # of EM


OLD = {name: ("em", into(as_em, name)) for name in ("directions", *DEFAULTS)}


@moved(**OLD)
@doors()
@dataclass(eq=False, repr=False)
class KernelHMM(ChainEstimator):
    """x_t a Markov chain on K states, y_t drawn from the law of its state: all learned from y.

    With μ_k the embedding of the k-th emission law, the moments of consecutive observations are
    E φ(y_t)φ(y_{t+1})ᵀ = Σ_ij π_i Q_ij μ_i μ_jᵀ, and so on; the spectral method solves them for
    the μ_k and the transition matrix Q without any iteration that could end in a local optimum.
    EM then starts there (and at random), with emission laws that stay embeddings: the weights
    are the probabilities of the state in each row.

    Parameters
    ----------
    n_components : int or str, optional
        K, or a method of `estimate_order`, which estimates it; None is "correlations".
    kernel : Kernel, str, scikit-learn kernel or callable
        Embeds the observations. `Delta` makes a discrete model, a probability table per state.
        By name, two or three columns are taken over their standard deviations.
    refine : bool
        Whether EM follows the spectral method.
    inference : {"kbr", "forward"}
        How an observation changes the probabilities of the states: kernel Bayes' rule from the
        embedded laws, or Bayes' rule with the densities recovered from them (as everywhere where
        rows held out ask for laws that are normal, or of t, for the most part).
    random_state : int, Generator or None
        For the starts.
    bandwidth : float or sequence of float, optional
        Of the emission densities; None is that of the largest log-likelihood of held-out rows
        (without EM: Silverman's rule).
    reg : float, optional
        λ of kernel Bayes' rule. None takes the λ, and the lengthscale (the kernel's or a third of
        it), whose filtered probabilities are nearest to the smoothed ones of EM; without EM, the
        λ with the least squared error of the next observation's features.
    features : FeatureMap, optional
        Coordinates for the moments; None is Nyström with at most 300 landmarks.
    em : EM, optional
        How EM goes: its starts, `EM(n_init=12)`, `max_iter=200`, `tol=1e-5`, and `directions`, the
        canonical variates that emission densities are of.
    verbose : bool or callable
        Show the progress of EM's starts.

    Attributes
    ----------
    n_components_ : int
    startprob_ : array of shape (K,)
        The stationary law of the chain. States are numbered from the most to the least frequent.
    transmat_ : array of shape (K, K)
        Q_ij = P(x_{t+1} = j | x_t = i); the average one where inputs drive it.
    emissions_ : MeanEmbedding
        Batch of the K emission laws.
    held_out_ : dict of str to float
        Log-likelihood of a row held out, by the densities "taken" and by "normal" ones (or those of
        t, where likelier), −∞ where they are far behind; empty where rows held out chose nothing.
    singular_values_ : array
        Of the cross-covariance of consecutive observations, by which the order is judged.
    order_ : Order or None
        How K was estimated.
    variates_ : Variates or None
        The function of rows that densities, and so `score`, are of; None is the rows themselves.
    history_ : array
        Mean log-likelihood of a row by iteration of EM, each row left out of the laws it is
        judged by: at the bandwidth taken, from where the best start came.
    converged_ : bool
    bandwidth_ : float, tuple or None
        Of the emission densities; their geometric mean where rows held out gain by one for each
        state (`laws_.widths`; none of these is less than .4 of the steps that values are in).
    reg_ : float or None
        λ as used; None where densities filter.
    kernel_, features_ : as used

    References
    ----------
    Spiteri (2023), chapter 3: Algorithms 1 and 2; De Castro, Gassiat, Le Corff (2017); Benaglia,
    Chauveau, Hunter (2009), An EM-like algorithm for semi- and nonparametric estimation; MATH §9.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_hmm("separated", 3000, random_state=0)
    >>> model = km.KernelHMM(n_components=2, random_state=0).fit(data.X)
    >>> bool(abs(model.transmat_ - data.model.transmat).max() < 0.15)
    True
    >>> new = km.datasets.make_hmm("separated", 500, random_state=1)
    >>> found = model.filter(new.X).argmax(axis=1)
    >>> round(km.comparators.matched_accuracy(new.states, found), 1)
    0.8
    """

    n_components: Any = None
    kernel: Any = "gaussian"
    refine: bool = True
    inference: str = "kbr"
    random_state: Any = None
    _: KW_ONLY
    bandwidth: Any = None
    reg: float | None = None
    features: Any = None
    em: EM | None = None
    verbose: Verbose = False

    ALLOWED: ClassVar = {
        "n_components": optional(count(), *METHODS),
        "refine": flag,
        "inference": choice("kbr", "forward"),
        "reg": optional(positive()),
        "em": optional(options(EM, without=("guard", "penalty", "features"))),
    }
    _noun = "Hidden Markov model"

    # ------------------------------------------------------------ learning

    def fit(self, X, lengths=None, inputs=None) -> Self:
        """Learn the chain and the law of the observations given its state.

        With inputs u, P(x_t = j | x_{t−1} = i, u_t) ∝ exp(a_ij + b_ijᵀz_t), z_t = (u_t − mean)/sd:
        the inputs of a row drive the step into it, and not the law of the observation.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Observations in the order of time. A row with NaN is missing.
        lengths : sequence of int, optional
            Rows of each sequence, if there are several below each other. Each begins in
            `startprob_`, whatever the inputs of its first row.
        inputs : array or DataFrame of shape (n, p), optional
            What is known of every row beforehand, without NaN; a table has the index of `X`. The
            penalty λ/2 Σ b² on the slopes is the one of 30, 5 and 1 by which rows held out gain
            most, or infinite, b = 0, if they gain less than 3 in all. `slopes_` has b.

        Raises
        ------
        ValueError
            If `inputs` has another number of rows than `X`, or NaN, or `refine` is False.

        References
        ----------
        Diebold, Lee, Weinbach (1994), Regime switching with time-varying transition probabilities.

        Examples
        --------
        A level that leaves its state where the input is high:

        >>> import numpy as np
        >>> import kernelmean as km
        >>> rng = np.random.default_rng(0)
        >>> inputs = rng.normal(size=(1000, 1))
        >>> moves = rng.random(1000) < 1 / (1 + np.exp(2 - 2 * inputs[:, 0]))
        >>> X = 2.0 * (np.cumsum(moves) % 2)[:, None] + rng.normal(size=(1000, 1))
        >>> model = km.KernelHMM(2, random_state=0).fit(X, inputs=inputs)
        >>> model.transitions([[-1.0], [1.0]])[:, 0, 1].round(1)
        array([0. , 0.5])
        """
        if inputs is not None and not self.refine:
            raise ValueError("refine is False, and inputs are given, which are learned from by EM")
        fit: Fit = learn(self, self._plan, X, lengths, inputs)
        self.n_components_ = len(self.startprob_)
        self.singular_values_, self.held_out_ = fit.singular_values, fit.held_out
        self._order = None if fit.order is None else {"value": int(fit.order), **vars(fit.order)}
        return self

    @property
    def _plan(self) -> Plan:
        """What is asked for, checked."""
        check_parameters(self)
        em = as_em(self.em).filled(**DEFAULTS)
        asked = em, self.refine, self.bandwidth, self.reg, self.verbose, self.n_components
        return Plan(self.kernel, self.features, *asked, self.inference == "kbr", self.random_state)

    @property
    def order_(self) -> Order | None:
        """How the number of states was estimated; None if it was given."""
        check_is_fitted(self)
        return None if self._order is None else Order(**self._order)

    def tune(
        self,
        X,
        X_val,
        states=None,
        lengths=None,
        lengths_val=None,
        *,
        scales=SCALES,
        n_fits=3,
        n_jobs=None,
        verbose=False,
    ) -> Self:
        """The best of several fits, judged by a validation sequence: a new, fitted model.

        Without labels by the squared error of predicting the next observation; with the states of
        the validation sequence (semi-supervised), by the share of them that the filter names
        right, states numbered as suits best. The model's states are then in the order of the
        labels. No inputs drive the fits.

        Parameters
        ----------
        X, lengths
            As for `fit`.
        X_val : array or DataFrame of shape (m, d)
            Rows that follow each other, not used in fitting.
        states : array of shape (m,), optional
            Labels of these rows.
        lengths_val : sequence of int, optional
            Rows of each validation sequence.
        scales : sequence of float
            Multiples of the lengthscale that are tried.
        n_fits : int
            Fits at each, from different random starts.
        n_jobs : int, optional
            Processes that fit; -1 is one per core.
        verbose : bool or callable
            Show progress, or call `verbose(done, total)`.

        Returns
        -------
        KernelHMM
            With `tuning_`, a list of dict that tells what was tried.

        References
        ----------
        Spiteri (2023), section 3.6.5.

        Examples
        --------
        >>> import kernelmean as km
        >>> data = km.datasets.make_hmm("separated", 1500, random_state=0)
        >>> X, X_val, states = data.X[:1000], data.X[1000:], data.states[1000:]
        >>> model = km.KernelHMM(2, refine=False, random_state=0).tune(X, X_val, states)
        >>> bool((model.predict(X_val) == states).mean() > 0.7)  # states have the labels' numbers
        True
        """
        checks.check_count(n_fits, "n_fits")
        scales = factors(scales, "scales")
        judge: Judge = partial(next_error, X=X_val, lengths=lengths_val)
        if states is not None:
            states = arrays.to_numpy(checks.as_vector(states, "states"))
            checks.check_lengths(len(X_val), len(states), "X_val", "states")
            judge = Named(X_val, lengths_val, states)
        kernel = self._plan.draft(X, lengths).kernel
        if kernel.scaled(2.0) == kernel:
            scales = [1.0]  # there is no lengthscale
        seeds = checks.generator(self.random_state).integers(2**31, size=n_fits)
        grid = [{"scale": scale, "random_state": int(seed)} for scale in scales for seed in seeds]

        def at(scale: float, random_state: int) -> Any:
            return clone(self).set_params(kernel=kernel.scaled(scale), random_state=random_state)

        name = "mse" if states is None else "accuracy"
        tuned = best_fit(at, grid, name, X, lengths, judge, n_jobs, verbose)
        if isinstance(judge, Named):
            renumber(tuned, judge.matched(tuned)[0])
        return tuned

    # ------------------------------------------------------------ states

    def transitions(self, inputs) -> np.ndarray:
        """P(x_t = j | x_{t-1} = i, u_t) for every row of inputs, (n, K, K).

        Parameters
        ----------
        inputs : array or DataFrame of shape (n, p)
            As in `fit`.
        """
        n = 0 if inputs is None else len(inputs)
        return self.chain_.chain.into(inputs_like(self, inputs, n))

    @property
    def slopes_(self) -> np.ndarray:
        """b, (K, K, p): by what log Q_ij rises for a standard deviation of each input.

        Up to what is the same for all j: each state's sum to zero.
        """
        check_is_fitted(self)
        K = self.n_components_
        return np.zeros((K, K, 0)) if self.driven_ is None else self.driven_.slopes

    def filter(self, X, lengths=None, inputs=None) -> Array:
        """P(x_t = k | y_1, ..., y_t) for every row, (n, K).

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            A row of NaN is missing; one with some NaN is judged by its other columns (as in `fit`).
        lengths : sequence of int, optional
        inputs : array or DataFrame of shape (n, p), optional
            As in `fit`, and if there.
        """
        rows = rows_like(self, X, lengths, inputs)
        return arrays.like(self.chain_.filtered(rows), rows.points)

    def smooth(self, X, lengths=None, inputs=None) -> Array:
        """P(x_t = k | all y of the sequence) for every row, (n, K); also `predict_proba`.

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`.
        """
        rows = rows_like(self, X, lengths, inputs)
        return arrays.like(self.chain_.smoothed(rows), rows.points)

    predict_proba = smooth

    def predict(self, X, lengths=None, inputs=None) -> Array:
        """The most probable state of every row given its sequence, (n,).

        (`decode` has the most probable path.)

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`.
        """
        gamma = arrays.to_numpy(self.predict_proba(X, lengths, inputs))
        return arrays.like(gamma.argmax(axis=1), self.emissions_.points)

    def decode(self, X, lengths=None, algorithm="viterbi", inputs=None) -> tuple[float, Array]:
        """A path of states, and its log-probability together with the observations.

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`.
        algorithm : {"viterbi", "map"}
            The path that is most probable as a whole, or the states that are, one by one.

        Returns
        -------
        logprob : float
            log p(path, y), by the emission densities; summed over sequences.
        states : int array of shape (n,)
        """
        checks.check_choice(algorithm, "algorithm", ALGORITHMS)
        rows, chain = rows_like(self, X, lengths, inputs), self.chain_
        logb, along = chain.log_emissions(rows), chain.along(rows)
        if algorithm == "viterbi":
            logprob, states = markov.viterbi(logb, along, rows.sequences)
        else:
            states = chain.smoothed(rows).argmax(axis=1)
            logprob = markov.log_probability(states, logb, along, rows.sequences)
        return float(logprob.sum()), arrays.like(states, rows.points)

    # ------------------------------------------------------------ observations

    def density(self, Y) -> Array:
        """f_k of every state at every row of `Y`, (m, K): densities of y, or of its `variates_`."""
        points, seen = points_like(self, Y, "Y")
        checks.check_order(Y, Labels.known_to(self).columns, "Y", "the training data")
        if not seen.all():
            raise ValueError("Y contains NaN; remove these rows first")
        return arrays.like(np.exp(self.chain_.log_densities(points)), points)

    def score_samples(self, X, lengths=None, inputs=None) -> tuple[float, Array]:
        """`score`, and P(x_t = k | y) for every row (as in hmmlearn)."""
        given = X, lengths, inputs
        return self.score(*given), self.predict_proba(*given)

    def sample(self, n_samples: int = 1, random_state=None, inputs=None) -> tuple[Array, Array]:
        """A sequence of observations, (n, d), and of its states, (n,).

        Parameters
        ----------
        n_samples : int
        random_state : int, Generator or None
            None is the model's own.
        inputs : array or DataFrame of shape (n_samples, p), optional
            As in `fit`, and if there.
        """
        known = inputs_like(self, inputs, checks.check_count(n_samples, "n_samples"))
        rng = checks.generator(self.random_state if random_state is None else random_state)
        X, states = self.chain_.draw(n_samples, rng, known)
        return X, arrays.like(states, X)

    @property
    def monitor_(self) -> Any:
        """How EM went, under hmmlearn's names; log-likelihoods are of a row, not of all rows.

        `history` has their means by iteration, `iter` counts these; EM goes on for `n_iter` at
        most, and ends where a row gains less than `tol`, which is whether it has `converged`.
        """
        check_is_fitted(self)
        em, history = as_em(self.em).filled(**DEFAULTS), self.history_.tolist()
        ended = {"converged": self.converged_, "tol": em.tol, "n_iter": em.max_iter}
        return SimpleNamespace(history=history, iter=len(history), **ended)

    def get_stationary_distribution(self) -> np.ndarray:
        """π with πQ = π, which is `startprob_` (as in hmmlearn)."""
        check_is_fitted(self)
        return self.startprob_.copy()

    # ------------------------------------------------------------ in words, and in files

    def _blocks(self) -> list[Block]:
        means, shares = arrays.to_numpy(self.emissions_.mean()), self.startprob_
        with np.errstate(divide="ignore"):
            stays = 1 / (1 - self.transmat_.diagonal())
        chosen = "given" if self.order_ is None else f"by {self.order_.method}"
        lines = [Line("states", self.n_components_, f"{self.n_components_}, {chosen}")]
        for k, share in enumerate(shares):
            often = f"{100 * share:.3g}% of rows in the long run"
            held = f"{stays[k]:.4g} rows on end" if np.isfinite(stays[k]) else "never left"
            text = f"{often}, {held}, mean {numbers(means[k])}"
            lines.append(Line(f"state {k}", (share, stays[k], means[k]), text))
        held_out = "log-likelihood of a row held out"
        scores = {} if self.order_ is None else self.order_.scores
        for K, score in scores.items():
            lines.append(Line.of(f"{held_out}, {K} states", score))
        if told := getattr(self, "held_out_", None):  # a file of an earlier version has none
            lines.append(Line.of(f"{held_out}, densities taken", told["taken"]))
            behind = Line("normal laws", -np.inf, "far behind by rows left out")
            normal = Line.of(f"{held_out}, normal laws", told["normal"])
            lines.append(normal if np.isfinite(told["normal"]) else behind)
        if self.driven_ is not None:
            names = ", ".join(self.input_names_ or [f"u{i}" for i in range(self.inputs_)])
            use = "drive the transitions" if self.slopes_.any() else "no use for rows held out"
            lines.append(Line("inputs", names, f"{names}: {use}"))
            for with_, score in zip(("without", "with"), self.driven_.held_out, strict=True):
                lines.append(Line.of(f"{held_out}, {with_} inputs", score))
        return [Block("States", lines)]

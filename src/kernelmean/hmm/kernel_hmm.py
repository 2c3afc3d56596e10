"""Hidden Markov models whose emission laws are embeddings: no family of distributions."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from ..chains import markov
from ..chains.draft import SEARCHED, Draft, choose_bayes, embedded, space_of
from ..chains.emission import renumbered
from ..chains.markov import Chain
from ..chains.model import MarkovModel
from ..chains.model_bayes import ModelBayes
from ..chains.moments import Moments
from ..chains.order import MAX_COMPONENTS, Order, Spectrum, choose_order
from ..core import arrays
from ..core.checks import (
    Array,
    NumericalWarning,
    check_choice,
    check_count,
    check_positive,
    frozen,
    generator,
)
from ..embedding.embedding import MeanEmbedding
from ..hmm import tune
from .learn import choose_reg, refine, spectral
from .spectral import SpectralFit

INFERENCE = ("kbr", "forward")
ALGORITHMS = ("viterbi", "map")
SOME = 1e-12  # weight of a row in a law, at the least


class KernelHMM(MarkovModel):
    """x_t a Markov chain on K states, y_t drawn from the law of its state: all learned from y.

    With μ_k the embedding of the k-th emission law, the moments of consecutive observations are
    E φ(y_t)φ(y_{t+1})ᵀ = Σ_ij π_i Q_ij μ_i μ_jᵀ, and so on; the spectral method solves them for
    the μ_k and the transition matrix Q without any iteration that could end in a local optimum.
    EM then starts there (and at random), with emission laws that stay embeddings: the weights
    are the probabilities of the state in each row.

    Parameters
    ----------
    n_components : int, optional
        K; None estimates it (`estimate_order`, method "correlations").
    kernel : Kernel, str, scikit-learn kernel or callable
        Embeds the observations. `Delta` makes a discrete model, a probability table per state.
    refine : bool
        Whether EM follows the spectral method.
    inference : {"kbr", "forward"}
        How an observation changes the probabilities of the states: kernel Bayes' rule from the
        embedded laws, or Bayes' rule with the densities recovered from them.
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
    directions : "auto" or int
        Number of canonical variates that emission densities are taken of: functions of y that are
        uncorrelated, of variance one, and tell most of the next observation. 0 is none: densities
        of y as it is. "auto" is 0 for at most three columns that vary and a kernel that can smooth
        them; otherwise as many as there are correlations beyond noise, three at least.
    n_init : int
        Starts of EM: the spectral fit, and random ones, some of them of states that last.
    max_iter : int
        Most iterations of EM.
    tol : float
        EM stops when the mean log-likelihood of a row rises by less.
    verbose : bool or callable
        Show the progress of EM's starts.

    Attributes
    ----------
    n_components_ : int
    startprob_ : array of shape (K,)
        The stationary law of the chain. States are numbered from the most to the least frequent.
    transmat_ : array of shape (K, K)
        Q_ij = P(x_{t+1} = j | x_t = i).
    emissions_ : MeanEmbedding
        Batch of the K emission laws.
    singular_values_ : array
        Of the cross-covariance of consecutive observations, by which the order is judged.
    order_ : Order or None
        How K was estimated.
    variates_ : Variates or None
        The function of rows that densities, and so `score`, are of; None is the rows themselves.
    history_ : array
        Mean log-likelihood of a row by iteration of EM, each row left out of the laws it is
        judged by: from the start that won, at the bandwidth that starts are compared at.
    converged_ : bool
    bandwidth_ : float, tuple or None
        Of the emission densities.
    reg_ : float
        λ as used.
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

    def __init__(
        self,
        n_components=None,
        kernel="gaussian",
        refine=True,
        inference="kbr",
        random_state=None,
        *,
        bandwidth=None,
        reg=None,
        features=None,
        directions="auto",
        n_init=12,
        max_iter=200,
        tol=1e-5,
        verbose=False,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.refine = refine
        self.inference = inference
        self.random_state = random_state
        self.bandwidth = bandwidth
        self.reg = reg
        self.features = features
        self.directions = directions
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    # ------------------------------------------------------------ learning

    def fit(self, X, lengths=None) -> KernelHMM:
        """Learn the chain and the emission laws.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Observations in the order of time. A row with NaN is missing.
        lengths : sequence of int, optional
            Rows of each sequence, if there are several below each other.
        """
        self._check_settings()
        draft = self._accepted(X, lengths)
        self._choose_order(draft)
        self.kernel_, self.features_ = draft.kernel, draft.coordinates.features
        self.variates_ = space_of(draft, self.directions)
        self._given_bandwidth(draft)  # or an error
        rng = generator(self.random_state)
        few = draft.rows.seen.size <= SEARCHED
        # threads that take turns cost more than they compute
        with threadpool_limits(1 if few else None, user_api="blas"):
            found = spectral(draft, self.n_components_, rng)
            learn = self._learn_by_em if self.refine else self._learn_by_moments
            learn(draft, found, rng)
        self._renumber(np.argsort(-self.startprob_, kind="stable"))
        return self

    def tune(
        self,
        X,
        X_val,
        states=None,
        lengths=None,
        lengths_val=None,
        *,
        scales=tune.SCALES,
        n_fits=3,
        n_jobs=None,
        verbose=False,
    ) -> KernelHMM:
        """The best of several fits, judged by a validation sequence: a new, fitted model.

        Without labels by the squared error of predicting the next observation; with the states of
        the validation sequence (semi-supervised), by the share of them that the filter names
        right, states numbered as suits best. The model's states are then in the order of the
        labels.

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
        return tune.tune(
            self, X, X_val, states, lengths, lengths_val, scales, n_fits, n_jobs, verbose
        )

    def _moments_of(self, X, lengths) -> Moments:
        return self._draft(X, lengths).moments

    def _choose_order(self, draft: Draft) -> None:
        spectrum = Spectrum(draft.moments, MAX_COMPONENTS)
        self.singular_values_, self._order = spectrum.singular_values, None
        found: int | Order = self.n_components or 1
        if self.n_components is None:
            found = choose_order(spectrum, "correlations", 1.0)
            self._order = {"value": int(found), **vars(found)}
            if found == MAX_COMPONENTS:
                warnings.warn(
                    f"n_components is None, and no number up to {MAX_COMPONENTS} explains the "
                    f"correlations of consecutive rows: {MAX_COMPONENTS} is used. Give a number, "
                    'or choose one by estimate_order(X, method="likelihood")',
                    NumericalWarning,
                    stacklevel=3,
                )
        self.n_components_ = int(found)

    @property
    def order_(self) -> Order | None:
        """How the number of states was estimated; None if it was given."""
        check_is_fitted(self)
        return None if self._order is None else Order(**self._order)

    def _learn_by_em(self, draft: Draft, found: SpectralFit, rng) -> None:
        climbed, smoothing = refine(draft, self.variates_, found, self._settings(draft), rng)
        gamma = climbed.gamma[draft.rows.seen]
        self._remember(climbed.chain, smoothing.emissions(gamma))
        weights = gamma.T + SOME  # a state that died is like all others together
        weights /= weights.sum(axis=1, keepdims=True)
        points = frozen(draft.rows.there)
        weights = arrays.like(weights, points)
        self.emissions_ = MeanEmbedding.of_parts(points, weights, None, self.kernel_)
        self.bandwidth_ = getattr(smoothing.kernel, "lengthscale", None)
        self.history_, self.converged_ = np.array(climbed.history), climbed.converged
        if self.reg is None:
            self._bayes = choose_bayes(draft, climbed.gamma, climbed.chain)
        else:
            self._bayes = ModelBayes(*embedded(draft, climbed.gamma, 1.0), self._given_reg())
        self.reg_ = self._bayes.reg

    def _learn_by_moments(self, draft: Draft, found: SpectralFit, rng) -> None:
        self.emissions_ = laws = draft.weighted_rows(found.embeddings)
        rule = choose_reg(draft, found)
        self.reg_ = rule.reg if self.reg is None else self._given_reg()
        self._bayes = replace(rule, reg=self.reg_)
        counts = np.maximum(found.chain.startprob * draft.rows.seen.sum(), 1.0)
        self.bandwidth_ = self._given_bandwidth(draft)
        self._remember(found.chain, self._signed(laws, counts))
        self.history_, self.converged_ = np.empty(0), True

    def _given_reg(self) -> float:
        return check_positive(self.reg, "reg")

    def _check_settings(self) -> None:
        check_choice(self.inference, "inference", INFERENCE)
        if self.n_components is not None:
            check_count(self.n_components, "n_components")
        self._check_learning()

    # ------------------------------------------------------------ states

    def filter(self, X, lengths=None) -> Array:
        """P(x_t = k | y_1, ..., y_t) for every row, (n, K).

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            A row with NaN is a missing observation.
        lengths : sequence of int, optional
        """
        points, seen, sequences = self._given(X, lengths)
        return arrays.like(self._filtered(points, seen, sequences)[0], points)

    def predict_proba(self, X, lengths=None) -> Array:
        """P(x_t = k | all y of the sequence) for every row, (n, K): smoothing.

        Parameters
        ----------
        X, lengths
            As for `filter`.
        """
        points, seen, sequences = self._given(X, lengths)
        alpha, _ = self._filtered(points, seen, sequences)
        return arrays.like(markov.smoothed(alpha, self._chain, sequences), points)

    def predict(self, X, lengths=None) -> Array:
        """The most probable state of every row given its sequence, (n,).

        (`decode` has the most probable path.)

        Parameters
        ----------
        X, lengths
            As for `filter`.
        """
        gamma = arrays.to_numpy(self.predict_proba(X, lengths))
        return arrays.like(gamma.argmax(axis=1), self.emissions_.points)

    def decode(self, X, lengths=None, algorithm="viterbi") -> tuple[float, Array]:
        """A path of states, and its log-probability together with the observations.

        Parameters
        ----------
        X, lengths
            As for `filter`.
        algorithm : {"viterbi", "map"}
            The path that is most probable as a whole, or the states that are, one by one.

        Returns
        -------
        logprob : float
            log p(path, y), by the emission densities; summed over sequences.
        states : int array of shape (n,)
        """
        check_choice(algorithm, "algorithm", ALGORITHMS)
        points, seen, sequences = self._given(X, lengths)
        logb = self._log_emissions(points, seen)
        if algorithm == "viterbi":
            logprob, states = markov.viterbi(logb, self._chain, sequences)
            return float(logprob.sum()), arrays.like(states, points)
        states = arrays.to_numpy(self.predict(X, lengths))
        return self._log_probability(states, logb, sequences), arrays.like(states, points)

    def _log_probability(self, states, logb, sequences) -> float:
        """log p(path, y)."""
        with np.errstate(divide="ignore"):
            log_start, log_moves = np.log(self.startprob_), np.log(self.transmat_)
        moves = log_moves[np.roll(states, 1), states]
        first = [s.start for s in sequences]
        moves[first] = log_start[states[first]]
        return float((moves + logb[np.arange(len(states)), states]).sum())

    # ------------------------------------------------------------ observations

    def density(self, Y) -> Array:
        """f_k of every state at every row of `Y`, (m, K): densities of y, or of its `variates_`."""
        points, _ = self._checked(Y, "Y", gaps=False)
        return arrays.like(np.exp(self._log_densities(points)), points)

    def score_samples(self, X, lengths=None) -> tuple[float, Array]:
        """`score`, and P(x_t = k | y) for every row (as in hmmlearn)."""
        return self.score(X, lengths), self.predict_proba(X, lengths)

    def sample(self, n_samples: int = 1, random_state=None) -> tuple[Array, Array]:
        """A sequence of observations, (n, d), and of its states, (n,).

        Parameters
        ----------
        n_samples : int
        random_state : int, Generator or None
            None is the model's own.
        """
        X, states = self._draw(n_samples, random_state)
        return X, arrays.like(states, X)

    def get_stationary_distribution(self) -> np.ndarray:
        """π with πQ = π, which is `startprob_` (as in hmmlearn)."""
        check_is_fitted(self)
        return self.startprob_

    # ------------------------------------------------------------ inside

    def _renumber(self, order: np.ndarray) -> None:
        """State k becomes what state order[k] was."""
        transmat = self.transmat_[np.ix_(order, order)]
        self._remember(Chain(self.startprob_[order], transmat), self._laws.reordered(order))
        self.emissions_ = renumbered(self.emissions_, order)
        assert self._bayes is not None
        self._bayes = self._bayes.reordered(order)

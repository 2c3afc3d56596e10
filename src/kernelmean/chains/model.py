"""What models with a hidden Markov chain have in common: filters, forecasts, a running belief."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from ..chains import markov
from ..core import arrays
from ..core.checks import (
    Array,
    as_floats,
    as_points,
    as_vector,
    check_columns,
    check_count,
    check_positive,
    column_names,
    generator,
)
from ..core.saving import Saveable
from ..core.sequences import check_sequences
from ..embedding.embedding import MeanEmbedding
from ..kernels import Gaussian
from .draft import Draft, Settings
from .emission import Emissions, SignedEmissions
from .markov import Chain
from .model_bayes import ModelBayes
from .results import RegimeBelief, RegimeForecast
from .variates import Variates


class MarkovModel(Saveable, BaseEstimator):
    """A chain on K states, and embedded laws of the observation given each of them.

    `KernelHMM` learns few states, `KernelStateSpace` takes the points of a latent space for them.
    """

    startprob_: np.ndarray
    transmat_: np.ndarray
    emissions_: MeanEmbedding
    variates_: Variates | None
    bandwidth_: float | tuple[float, ...] | None
    inference: str
    bandwidth: Any
    random_state: Any
    kernel: Any
    features: Any
    refine: bool
    directions: int | str
    reg: float | None
    n_init: int
    max_iter: int
    tol: float
    verbose: Any
    _laws: Emissions | SignedEmissions
    _bayes: ModelBayes | None

    def score(self, X, lengths=None) -> float:
        """log p(y), summed over the rows: Σ_t log p(y_t | y_1, ..., y_{t-1}).

        Of the `variates_` of y, where densities are theirs. With `inference="kbr"` the predictions
        are those of that filter: a score of forecasts, and no likelihood.

        Parameters
        ----------
        X, lengths
            As for `filter`.
        """
        return float(np.sum(self.log_predictive(X, lengths)))

    def log_predictive(self, X, lengths=None) -> np.ndarray:
        """log p(y_t | y_1, ..., y_{t-1}) for every row, (n,); 0 for a missing one.

        Parameters
        ----------
        X, lengths
            As for `filter`.
        """
        points, seen, sequences = self._given(X, lengths)
        alpha, logb = self._filtered(points, seen, sequences)
        if logb is None:
            logb = self._log_emissions(points, seen)
        prior = markov.predicted(alpha, self._chain, sequences)
        return logsumexp(logb, b=prior, axis=1)

    def forecast(self, X, steps: int, lengths=None) -> RegimeForecast:
        """States and observations 1, ..., `steps` rows after `X`.

        Parameters
        ----------
        X, lengths
            As for `filter`; with several sequences, the forecasts of the first come first.
        steps : int
        """
        check_count(steps, "steps")
        points, seen, sequences = self._given(X, lengths)
        alpha, _ = self._filtered(points, seen, sequences)
        ahead = []
        for sequence in sequences:
            p = alpha[sequence.stop - 1]
            for _ in range(steps):
                p = p @ self.transmat_
                ahead.append(p)
        states = np.stack(ahead)
        spread = self.bandwidth_ if self.variates_ is None else 0.0
        return RegimeForecast(arrays.like(states, points), self._mixture(states), spread)

    def start(self, prior=None) -> RegimeBelief:
        """The belief before the first observation, to be carried on one step at a time.

        Parameters
        ----------
        prior : array of shape (K,), optional
            Probabilities of the states; None is `startprob_`.

        Examples
        --------
        >>> import kernelmean as km
        >>> data = km.datasets.make_hmm("separated", 2000, random_state=0)
        >>> belief = km.KernelHMM(2, random_state=0).fit(data.X).start()
        >>> belief.update([0.1]).probabilities.round(1)
        array([1., 0.])
        >>> belief.predict().probabilities.round(1)
        array([0.4, 0.6])
        """
        check_is_fitted(self)
        return RegimeBelief(self, self.startprob_ if prior is None else self._prior(prior))

    def _draw(self, n_samples: int, random_state) -> tuple[Array, np.ndarray]:
        """A sequence of observations, and of states."""
        check_is_fitted(self)
        n = check_count(n_samples, "n_samples")
        rng = generator(self.random_state if random_state is None else random_state)
        states = markov.draw(self._chain, n, rng)
        return arrays.like(self._drawn_from(states, rng), self.emissions_.points), states

    def _drawn_from(self, states: np.ndarray, rng) -> np.ndarray:
        """An observation of each of some states."""
        X = np.empty((len(states), self.emissions_.points.shape[1]))
        for k in np.unique(states):
            here = np.flatnonzero(states == k)
            X[here] = self._drawn(self.emissions_[int(k)], len(here), rng)
        return X

    def _given_bandwidth(self, draft: Draft) -> float | tuple[float, ...] | None:
        """`bandwidth` as one number, or one for each of the d columns that densities are of."""
        columns = draft.rows.points if self.variates_ is None else self.variates_.directions
        d = columns.shape[1]
        if self.bandwidth is None:
            return None
        widths = arrays.to_numpy(as_vector(np.atleast_1d(self.bandwidth), "bandwidth"))
        if len(widths) == 0 or widths.min() <= 0:
            raise ValueError(f"bandwidth is {self.bandwidth!r}; positive numbers are needed")
        if len(widths) not in (1, d):
            raise ValueError(f"bandwidth has {len(widths)} entries; 1 or {d} are needed")
        return float(widths[0]) if len(widths) == 1 else tuple(float(w) for w in widths)

    def _drawn(self, law: MeanEmbedding, n: int, rng) -> np.ndarray:
        """From the density of a law; where densities are of variates, from its weighted rows."""
        if self.variates_ is None:
            return arrays.to_numpy(law.sample(n, rng, self.bandwidth_))
        weights = np.maximum(arrays.to_numpy(law.weights), 0.0)
        rows = rng.choice(len(weights), n, p=weights / weights.sum())
        return arrays.to_numpy(law.points)[rows]

    # ------------------------------------------------------------ inside

    def _accepted(self, X, lengths) -> Draft:
        """The rows to learn from; their columns are what later rows must have."""
        X = X.to_frame() if hasattr(X, "to_frame") else X  # a Series is a table of one column
        draft = self._draft(X, lengths)
        validate_data(self, X, skip_check_array=True)
        return draft

    def _draft(self, X, lengths) -> Draft:
        points, seen = observed(X, "X", min_rows=3)
        if not seen.any():
            raise ValueError("X has no row without NaN; observations are needed")
        return Draft.of(points, seen, lengths, self.kernel, self.features, column_names(X))

    def _settings(self, draft: Draft) -> Settings:
        width = self._given_bandwidth(draft)
        return Settings(width, self.n_init, self.max_iter, self.tol, self.verbose)

    def _signed(self, laws: MeanEmbedding, counts: np.ndarray) -> SignedEmissions:
        """The densities of embedded laws, of variates where densities are theirs."""
        if self.variates_ is not None:
            points = self.variates_(laws.points)
            laws = MeanEmbedding.of_parts(points, *laws.factors, Gaussian().resolve(points))
        return SignedEmissions.of(laws, self.bandwidth_, counts)

    def _remember(self, chain: Chain, laws: Emissions | SignedEmissions) -> None:
        self.startprob_, self.transmat_, self._laws = chain.startprob, chain.transmat, laws

    def _check_learning(self) -> None:
        """What both models are given for EM and for kernel Bayes' rule."""
        for name in ("n_init", "max_iter"):
            check_count(getattr(self, name), name)
        check_positive(self.tol, "tol")
        if self.reg is not None:
            check_positive(self.reg, "reg")
        if not isinstance(self.refine, bool | np.bool_):
            raise ValueError(f"refine is {self.refine!r}; True or False is needed")
        if self.directions != "auto":
            check_count(self.directions, "directions", minimum=0)

    @property
    def _chain(self) -> Chain:
        return Chain(self.startprob_, self.transmat_)

    def _prior(self, prior) -> np.ndarray:
        p = arrays.to_numpy(as_floats(prior, "prior"))
        valid = p.shape == self.startprob_.shape and p.min() >= 0 and abs(p.sum() - 1) < 1e-6
        if not valid:
            K = len(self.startprob_)
            raise ValueError(f"prior is {prior!r}; {K} probabilities that sum to one are needed")
        return p / p.sum()

    def _mixture(self, states: np.ndarray) -> MeanEmbedding:
        """Σ_k P(x = k) μ_k for rows of probabilities."""
        return mixture(states, self.emissions_)

    def _filtered(self, points, seen, sequences) -> tuple[np.ndarray, np.ndarray | None]:
        """α, and the log-densities if they were needed for it."""
        if self.inference != "kbr":
            logb = self._log_emissions(points, seen)
            return markov.filtered(logb, self._chain, sequences)[0], logb
        assert self._bayes is not None
        shares = self._bayes.shares_of(points, seen)
        return self._bayes.filtered(shares, self._chain, sequences), None

    def _updated(self, prior: np.ndarray, x) -> np.ndarray:
        """Probabilities of the states after one observation."""
        x = as_floats(x, "x")
        if x.ndim == 0:
            x = x[None]
        if x.ndim != 1:
            raise ValueError(f"x has shape {tuple(x.shape)}; one observation, (d,), is needed")
        points, seen = self._checked(x[None, :], "x")
        chain = Chain(prior, self.transmat_)
        if self.inference != "kbr":
            logb = self._log_emissions(points, seen)
            return markov.filtered(logb, chain, [slice(0, 1)])[0][0]
        assert self._bayes is not None
        shares = self._bayes.shares_of(points, seen)
        return self._bayes.posterior(prior[None], shares)[0]

    def _log_emissions(self, points, seen) -> np.ndarray:
        logb = self._log_densities(points)
        logb[~seen] = 0.0
        return logb

    def _log_densities(self, points) -> np.ndarray:
        return self._laws.log_density(points if self.variates_ is None else self.variates_(points))

    def _given(self, X, lengths) -> tuple[Array, np.ndarray, list[slice]]:
        check_is_fitted(self)
        points, seen = self._checked(X, "X")
        return points, seen, check_sequences(lengths, points.shape[0])

    def _checked(self, X, name: str, gaps: bool = True) -> tuple[Array, np.ndarray]:
        """Rows like those of training; a missing one is filled, and not `seen`."""
        check_is_fitted(self)
        points, seen = observed(X, name)
        if name == "X":
            X = X.to_frame() if hasattr(X, "to_frame") else X
            validate_data(self, X, skip_check_array=True, reset=False)
        check_columns(points, self.emissions_.points.shape[1], name, "the training data")
        if not gaps and not seen.all():
            raise ValueError(f"{name} contains NaN; remove these rows first")
        return points, seen


def mixture(states: np.ndarray, laws: MeanEmbedding) -> MeanEmbedding:
    """Σ_k P(x = k) μ_k for rows of probabilities: as many embeddings."""
    left, _ = laws.factors
    return laws.reweighted(arrays.like(states, laws.points) @ left)


def observed(X, name: str, min_rows: int = 1) -> tuple[Array, np.ndarray]:
    """Rows of numbers, and which of them are whole; the others are filled with one that is."""
    points = as_points(X, name, min_rows=min_rows, one_d=False, gaps=True)
    xp = arrays.namespace(points)
    gaps = xp.isnan(points)
    seen = ~arrays.to_numpy(xp.any(gaps, axis=1))
    if seen.all():
        return points, seen
    first = points[int(np.argmax(seen)), :] if seen.any() else xp.zeros_like(points[0, :])
    missing = arrays.like(~seen, points)[:, None]
    return xp.where(missing, first[None, :], points), seen

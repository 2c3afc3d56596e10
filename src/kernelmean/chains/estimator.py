"""What estimators with a hidden Markov chain have in common: how they are asked."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..core import Array, Block, Labels, Line, Saveable, Summary, arrays, checks
from ..core.parameters import check_parameters, with_old_keywords
from ..core.sequences import check_forward, check_sequences
from ..core.summary import kernel_lines, numbers
from ..core.threads import doors
from .draft import Draft, Fit
from .driven import DrivenChain
from .emission import EmissionsByState
from .markov import Chain
from .model import FittedChain
from .results import RegimeBelief, RegimeForecast
from .rows import Rows, as_inputs, check_aligned, gaps_in, observed, observed_like


@doors("score", "log_predictive", "one_step", "forecast")
class ChainEstimator(Saveable, BaseEstimator):
    """A chain on K states, and embedded laws of the observation given each of them.

    `KernelHMM` learns few states, `KernelStateSpace` takes the points of a latent space for them.
    """

    inference: Any
    random_state: Any
    kernel: Any
    features: Any
    noun: ClassVar[str]
    # as files from before these were have them
    inputs_ = 0
    input_names_: list[str] | None = None
    driven_: DrivenChain | None = None

    # ------------------------------------------------------------ learning

    def fit_rows(self, X, lengths, inputs) -> Any:
        """The estimator fitted: what `fit` does, whichever kind it is.

        Parameters
        ----------
        X, lengths, inputs
            As for `fit`.
        """
        draft = self.begun(X, lengths)
        check_aligned(X, inputs)
        self.input_names_ = checks.column_names(inputs)
        inputs = as_inputs(inputs, len(draft.rows.seen), None)
        self.inputs_ = 0 if inputs is None else inputs.shape[1]
        self.adopt(self.learned(draft, checks.generator(self.random_state), inputs))
        return self

    def begun(self, X, lengths) -> Draft:
        """Parameters and rows, checked; names of columns are kept."""
        check_parameters(self)
        draft = self.draft(X, lengths)
        checks.note_columns(self, X)
        return draft

    def draft(self, X, lengths=None) -> Draft:
        """Training rows and their moments: what a fit begins with.

        Parameters
        ----------
        X, lengths
            As for `fit`.
        """
        points, seen = observed(X, "X", min_rows=3)
        if not seen.any():
            raise ValueError("X has no row without NaN; observations are needed")
        sequences = check_sequences(lengths, len(seen))
        check_forward(X, sequences)
        seen = self.believed(points, seen, sequences)
        return self.drafted(points, seen, lengths, checks.column_names(X))

    def believed(self, points, seen: np.ndarray, sequences: list[slice]) -> np.ndarray:
        """The rows seen that are learned from."""
        return seen

    def drafted(self, points, seen: np.ndarray, lengths, names=None) -> Draft:
        """Moments of rows that were looked at already."""
        return Draft.of(points, seen, lengths, self.kernel, self.coordinates, names)

    @property
    def coordinates(self) -> Any:
        """The feature map that was asked for."""
        return self.features

    @abstractmethod
    def learned(self, draft: Draft, rng: np.random.Generator, inputs=None) -> Fit:
        """The fit, a value."""

    def adopt(self, fit: Any) -> None:
        """Make a fit the estimator's own."""
        self.adopt_chain(fit.chain)
        self.kernel_, self.features_ = fit.draft.kernel, fit.draft.coordinates.features
        self.history_, self.converged_ = fit.history, fit.converged

    def adopt_chain(self, chain: FittedChain) -> None:
        """Make a chain and its laws the estimator's own."""
        self.startprob_, self.transmat_ = chain.chain.startprob, chain.chain.transmat
        self.driven_ = chain.chain if isinstance(chain.chain, DrivenChain) else None
        self.emissions_, self.laws_, self.rule_ = chain.emissions, chain.laws, chain.rule
        self.bandwidth_, self.variates_ = chain.bandwidth, chain.variates
        self.reg_ = None if chain.rule is None else chain.rule.reg

    @property
    def chain_(self) -> FittedChain:
        """The fitted chain and its laws as a value, which filters as `inference` says."""
        check_is_fitted(self)
        chain = self.driven_ or Chain(self.startprob_, self.transmat_)
        laws = self.emissions_, self.laws_, self.bandwidth_, self.variates_
        return FittedChain(chain, *laws, self.rule_ if self.by_rule else None)

    @property
    @abstractmethod
    def by_rule(self) -> bool:
        """Whether kernel Bayes' rule filters."""

    # ------------------------------------------------------------ asking

    def rows(self, X, lengths=None, inputs=None) -> Rows:
        """Rows like those of training; a missing one is filled, and not `seen`."""
        points = self.points_like(X, "X")
        X = checks.as_table(X)
        checks.note_columns(self, X, reset=False)
        check_aligned(X, inputs)
        gaps, n = None if points[1].all() else gaps_in(X), len(points[1])
        sequences = check_sequences(lengths, n)
        check_forward(X, sequences)
        return Rows.of(*points, sequences, gaps, self.given(inputs, n))

    def given(self, inputs, n: int, name: str = "inputs") -> np.ndarray | None:
        """Known inputs of n rows, like those of fitting.

        Parameters
        ----------
        inputs : array or DataFrame of shape (n, k), optional
        n : int
        name : str
            As messages call them.
        """
        names, known = checks.column_names(inputs), self.input_names_
        if names is not None and known is not None and names != known:
            raise ValueError(f"{name} has the columns {names}; those of fitting are {known}")
        return as_inputs(inputs, n, self.inputs_, name)

    def points_like(self, X, name: str) -> tuple[Array, np.ndarray]:
        """Points with the columns of the training data, and which of them are whole."""
        check_is_fitted(self)
        return observed_like(X, name, self.emissions_.points)

    def score(self, X, lengths=None, inputs=None) -> float:
        """log p(y), summed over the rows: Σ_t log p(y_t | y_1, ..., y_{t-1}).

        Of the `variates_` of y, where densities are theirs. With `inference="kbr"` the predictions
        are those of that filter: a score of forecasts, and no likelihood.

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`.
        """
        return float(np.sum(self.log_predictive(X, lengths, inputs)))

    def log_predictive(self, X, lengths=None, inputs=None) -> np.ndarray:
        """log p(y_t | y_1, ..., y_{t-1}) for every row, (n,); 0 for a missing one.

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`.
        """
        return self.chain_.log_predictive(self.rows(X, lengths, inputs))

    def one_step(self, X, lengths=None, inputs=None) -> Array:
        """Forecasts E[y_t | y_1, ..., y_{t-1}] of every row, (n, d).

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`.
        """
        rows = self.rows(X, lengths, inputs)
        p = self.chain_.predicted(rows)
        return arrays.like(p, rows.points) @ self.emissions_.mean()

    def forecast(self, X, steps: int, lengths=None, inputs=None, inputs_ahead=None) -> Any:
        """Laws of the observations 1, ..., `steps` rows after `X`.

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`; with several sequences, the forecasts of the first come first.
        steps : int
        inputs_ahead : array or DataFrame of shape (steps, k), optional
            Inputs of the rows that are forecast; of several sequences below each other.
        """
        checks.check_count(steps, "steps")
        rows, chain = self.rows(X, lengths, inputs), self.chain_
        known = self.given(inputs_ahead, steps * len(rows.sequences), "inputs_ahead")
        states = arrays.like(chain.ahead(rows, steps, known), rows.points)
        return RegimeForecast(chain, states, labels_ahead(X, rows, steps))

    def draw(self, n_samples: int, random_state, inputs=None) -> tuple[Array, np.ndarray]:
        """A sequence of observations, and numbers of its states."""
        rng = checks.generator(self.random_state if random_state is None else random_state)
        return self.chain_.draw(n_samples, rng, inputs)

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
        belief = RegimeBelief(self.chain_, prior, self.columns)
        belief.input_names = self.input_names_
        return belief

    @property
    def columns(self) -> Labels:
        """Names of the columns of the training data."""
        return Labels.of(None, getattr(self, "feature_names_in_", None))

    # ------------------------------------------------------------ in words

    def summary(self) -> Summary:
        """The fitted model in words and numbers.

        Returns
        -------
        Summary
            A text, which a notebook shows as a table; `table` is a DataFrame.
        """
        check_is_fitted(self)
        d, n = self.n_features_in_, self.emissions_.points.shape[0]
        names = ", ".join(self.columns.named(d))
        data = [Line("columns", names, names), Line("points of the laws", n, f"{n:,}")]
        blocks = [Block("Data", data), *self.blocks(), Block("Learning", self._learning())]
        return Summary(f"{self.noun} of {names}", blocks)

    @abstractmethod
    def blocks(self) -> list[Block]:
        """What the summary says of the states."""

    def _learning(self) -> list[Line]:
        of = "y" if self.variates_ is None else f"{self.variates_.directions.shape[1]} variates"
        steps = len(self.history_)
        by_state = ", times a factor by state" if isinstance(self.laws_, EmissionsByState) else ""
        ended = "converged" if self.converged_ else "stopped before it had settled"
        width = "none" if self.bandwidth_ is None else numbers(self.bandwidth_)
        lines = [
            *kernel_lines(self.kernel_, self.columns.named(self.n_features_in_)),
            Line("densities of", of, of),
            Line("bandwidth", self.bandwidth_, width + by_state),
            Line("iterations of EM", steps, f"{steps}, {ended}" if steps else "none: moments"),
        ]
        if steps:
            lines.append(Line.of("log-likelihood of a row", float(self.history_.max())))
        reg = self.reg_ if self.by_rule else None
        filtering = "densities" if reg is None else "kernel Bayes' rule"
        lines.append(Line("filter by", filtering, filtering))
        if reg is not None:
            lines.append(Line.of("λ of kernel Bayes' rule", reg))
        return lines

    @classmethod
    def from_version1(cls, state: dict[str, Any]) -> dict[str, Any]:
        """The state of today of what version 1 has saved."""
        names = {"_laws": "laws_", "_bayes": "rule_", "_space": "space_"}
        return {names.get(k, k): v for k, v in with_old_keywords(cls, state).items()}


def labels_ahead(X, rows: Rows, steps: int) -> Labels:
    """Names of the columns, and of the steps after one sequence."""
    labels = Labels.of(X)
    return labels.ahead(steps) if len(rows.sequences) == 1 else Labels(labels.columns)

"""What estimators with a hidden Markov chain have in common: how they are asked."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core import Array, Block, Labels, Line, Summary, arrays, checks
from ..core.elsewhere import is_far
from ..core.parameters import Estimator, with_old_keywords
from ..core.summary import kernel_lines, numbers
from ..core.threads import doors
from .driven import DrivenChain
from .emission import EmissionsByState
from .markov import Chain
from .model import FittedChain
from .results import RegimeBelief, RegimeForecast
from .rows import Rows, as_inputs, check_aligned, inputs_like, rows_like


@doors("score", "log_predictive", "one_step", "forecast")
class ChainEstimator(Estimator):
    """A chain on K states, and embedded laws of the observation given each of them.

    `KernelHMM` learns few states, `KernelStateSpace` takes the points of a latent space for them.
    """

    inference: Any
    _noun: ClassVar[str]
    # as files from before these were have them
    inputs_ = 0
    input_names_: list[str] | None = None
    driven_: DrivenChain | None = None

    def _adopt(self, chain: FittedChain) -> None:
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
        return FittedChain(chain, *laws, self.rule_ if self._by_rule else None)

    @property
    def _by_rule(self) -> bool:
        """Whether kernel Bayes' rule filters: by its name, or as options."""
        return self.inference == "kbr" or hasattr(self.inference, "reg")

    # ------------------------------------------------------------ asking

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
        return self.chain_.log_predictive(rows_like(self, X, lengths, inputs))

    def one_step(self, X, lengths=None, inputs=None) -> Array:
        """Forecasts E[y_t | y_1, ..., y_{t-1}] of every row, (n, d).

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`.
        """
        rows = rows_like(self, X, lengths, inputs)
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
        rows, chain = rows_like(self, X, lengths, inputs), self.chain_
        known = inputs_like(self, inputs_ahead, steps * len(rows.sequences), "inputs_ahead")
        states = arrays.like(chain.ahead(rows, steps, known), rows.points)
        return RegimeForecast(chain, states, labels_ahead(X, rows, steps))

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
        return RegimeBelief(self.chain_, prior, Labels.known_to(self), self.input_names_)

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
        names = ", ".join(Labels.known_to(self).named(d))
        data = [Line("columns", names, names), Line("points of the laws", n, f"{n:,}")]
        blocks = [Block("Data", data), *self._blocks(), Block("Learning", _learning(self))]
        return Summary(f"{self._noun} of {names}", blocks)

    @abstractmethod
    def _blocks(self) -> list[Block]:
        """What the summary says of the states."""

    @classmethod
    def from_version1(cls, state: dict[str, Any]) -> dict[str, Any]:
        """The state of today of what version 1 has saved."""
        names = {"_laws": "laws_", "_bayes": "rule_", "_space": "space_"}
        return {names.get(k, k): v for k, v in with_old_keywords(cls, state).items()}


def labels_ahead(X, rows: Rows, steps: int) -> Labels:
    """Names of the columns, and of the steps after one sequence."""
    labels = Labels.of(X)
    return labels.ahead(steps) if len(rows.sequences) == 1 else Labels(labels.columns)


# ------------------------------------------------------------ steps of a fit, and its words


def learn(estimator, plan, X, lengths, inputs) -> Any:
    """The fit of a plan, a value; the estimator makes the chain and its laws its own."""
    draft = plan.draft(X, lengths, inputs)
    far = is_far(X)
    checks.note_columns(estimator, draft.rows.points if far else X)
    if far and draft.names:
        estimator.feature_names_in_ = np.array(draft.names, dtype=object)
    check_aligned(X, inputs)
    estimator.input_names_ = checks.column_names(inputs)
    inputs = as_inputs(inputs, len(draft.rows.seen), None)
    estimator.inputs_ = 0 if inputs is None else inputs.shape[1]
    fit = plan.fit(draft, checks.generator(estimator.random_state), inputs)
    estimator._adopt(fit.chain)
    estimator.kernel_, estimator.features_ = fit.draft.kernel, fit.draft.coordinates.features
    estimator.history_, estimator.converged_ = fit.history, fit.converged
    return fit


def renumber(estimator, order: np.ndarray) -> None:
    """State k becomes what state order[k] was."""
    estimator._adopt(replace(estimator.chain_, rule=estimator.rule_).reordered(order))


def _learning(model) -> list[Line]:
    of = "y" if model.variates_ is None else f"{model.variates_.directions.shape[1]} variates"
    steps = len(model.history_)
    by_state = ", times a factor by state" if isinstance(model.laws_, EmissionsByState) else ""
    ended = "converged" if model.converged_ else "stopped before it had settled"
    width = "none" if model.bandwidth_ is None else numbers(model.bandwidth_)
    lines = [
        *kernel_lines(model.kernel_, Labels.known_to(model).named(model.n_features_in_)),
        Line("densities of", of, of),
        Line("bandwidth", model.bandwidth_, width + by_state),
        Line("iterations of EM", steps, f"{steps}, {ended}" if steps else "none: moments"),
    ]
    if steps:
        lines.append(Line.of("log-likelihood of a row", float(model.history_.max())))
    reg = model.reg_ if model._by_rule else None
    filtering = "densities" if reg is None else "kernel Bayes' rule"
    lines.append(Line("filter by", filtering, filtering))
    if reg is not None:
        lines.append(Line.of("λ of kernel Bayes' rule", reg))
    return lines

"""Kernel Bayes filter: tracking a hidden state with dynamics learned from examples."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from ..chains.rows import observed
from ..core import Array, Block, Interval, Labels, Line, Summary, arrays, checks
from ..core.parameters import Estimator, check_parameters, choice, count, flag, optional, positive
from ..core.sequences import check_forward, check_sequences
from ..core.threads import doors
from ..embedding.law import interval_like_target, like_target, names_like
from . import inputs
from .fit import Plan
from .held_out import learned, warn_if_as_near
from .machine import Machine, Recursion, Step
from .nodes import NodeMachine
from .results import Belief, FilterResult, Forecast
from .tune import tune

REGS = ("reg", "reg_prior", "reg_transition", "reg_smoother")
OF_RULE = ("features_x_", "features_z_", *(f"{name}_" for name in REGS))


@doors(
    "fit", "tune", "filter", "smooth", "forecast", "predict", "predict_interval", "predict_quantile"
)
@dataclass(eq=False, repr=False)
class KernelBayesFilter(Estimator):
    """p(z_t | x_1, ..., x_t) for a hidden state z, learned from trajectories with z in sight.

    With q, φ the coordinates of states and observations, a belief is a vector m and one step is

    - predict: m ← Vm, V = Q₊ᵀQ₋(Q₋ᵀQ₋ + Nλ'I)⁻¹ over consecutive states;
    - shares of the training states in it: β = Q(QᵀQ/n + ηI)⁻¹m/n;
    - update: kernel Bayes' rule (see `KernelBayes`) gives weights w, and m ← Σ_i w_i q(z_i).

    A row of NaN is a missing observation, and one unlike any seen in training (a collapse: Σw
    next to nothing) says nothing either: in both the prediction stays. (Collapse is seen by
    kernels that vanish far away; with coordinates that do not, `RandomFourier` and `Neural`, it
    is chance.) States must stay where the training states were; two densities follow one
    state as far as twice its range beyond.

    Parameters
    ----------
    rule : {"importance", "squared"}
        "importance" touches only training rows with a positive share; a step of "squared" costs
        the same however long the training sequence was.
    kernel_x : Kernel, str, scikit-learn kernel or callable
        For observations. By name, distances are of columns over their standard deviations, and a
        column counts by the share of its variance that states explain, a tenth at least.
    kernel_z : Kernel, str, scikit-learn kernel, callable or None
        For states; by name, of columns over their standard deviations. None is the Gaussian kernel
        at half the median distance: beliefs are narrower than the law of all states, and the
        dynamics are learned through the same kernel.
    reg_prior : float, optional
        η of the shares. None minimises their leave-one-out criterion over typical predictions.
    reg : float, optional
        λ or δ of the update. None takes the largest λ whose leave-one-out risk over typical
        predictions is within one standard error of the least (and δ = λ²).
    reg_transition : float, optional
        λ' of the dynamics. None minimises the leave-one-out loss of predicting the next state.
    features : FeatureMap, optional
        Coordinates for observations and states; None is `Nystroem()`. `Neural` learns features
        of the observations, once, from the training pairs.
    reg_smoother : float, optional
        λ of the backward pass of `smooth`, which has to be large: what it conditions on is an
        estimate. None takes the least error on a stretch of the training record, smoothed; or
        `reg`, if that is below 1e-6 and so asks for exact tables.
    max_active : int, optional
        Most training rows that an update of the importance rule touches; more are thinned by
        systematic sampling. None keeps all. Of densities: nodes, or particles and nodes; None is
        500 nodes of one state, up to 500 of two, or 2,000 where observations tell more than so
        many can; of three and more, and of two that move with little noise, 1,024 particles.
    inference : {"kbr", "densities", "auto"}, optional
        Kernel Bayes' rule, or Bayes' rule with two learned laws, p(z_t | z_{t−1}) and p(x_t | z_t),
        on weights of nodes or particles (MATH §13.8): normal laws or densities around Gaussian
        processes, of two states, where they go round, with their directions from the mean. They are
        nearer to the exact filter and much nearer to the exact smoother, and take longer; they
        choose everything themselves (`rule` and regularisers are not used), need NumPy arrays, and
        cannot be supervised. "auto" takes densities unless the rule tracks training rows held out
        with clearly less error. None is "auto" where that takes seconds: up to 5,000 rows of ten
        columns in all; beyond, and where kernels, features, regularisers or `rule` are given, or
        states are a few labels, it is "kbr". Supervised, it is the rule.

    Attributes
    ----------
    machine_ : Machine
        The fitted recursion, a value.
    reg_, reg_prior_, reg_transition_, reg_smoother_ : float
    kernel_x_, kernel_z_, features_x_, features_z_ : as used
    points_x_, points_ : arrays of shape (n, d_x), (n, d_z)
        Training observations and states; of densities nodes, and what may be seen at each.
    n_rows_ : int
        Rows learned from.
    tuning_ : list of dict
        The candidates that `tune` tried, and their errors; none where it took densities.
    held_out_ : dict
        Squared errors on rows held out (halves of the first 1,000 in turn), in units of each
        state's variance: of the ways compared, and of what is simple, a ridge regression on five
        observations ("ridge", up to 100 columns) and the mean of the states ("mean"). Empty where
        `reg` is given (but by "auto"), of fewer than twelve rows in a row, with `Neural` features.

    References
    ----------
    Fukumizu, Song, Gretton (2013), section 4.3; Song, Zhu, Ren (2016), appendix A.1; Xu, Chen,
    Doucet, Gretton (2022), Algorithm 2; MATH §6.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> rng = np.random.default_rng(0)
    >>> angle = np.cumsum(rng.normal(0.3, 0.1, 200))
    >>> Z = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> X = Z + 0.3 * rng.standard_normal(Z.shape)
    >>> model = km.KernelBayesFilter().fit(X[:100], Z[:100])
    >>> error = model.predict(X[100:]) - Z[100:]
    >>> bool(np.mean(error**2) < 0.5 * 0.3**2)  # less than half of the noise is left
    True
    """

    ALLOWED: ClassVar = {
        "rule": choice("importance", "squared"),
        "inference": optional(choice("kbr", "densities", "auto")),
        **dict.fromkeys(REGS, optional(positive(zero=True))),
        "max_active": optional(count(minimum=2)),
    }
    rule: str = "importance"
    kernel_x: Any = "gaussian"
    kernel_z: Any = None
    reg_prior: Any = None
    reg: Any = None
    reg_transition: Any = None
    features: Any = None
    reg_smoother: Any = None
    max_active: int | None = None
    inference: str | None = None

    # ------------------------------------------------------------ learning

    def fit(self, X, Z, lengths=None, verbose=False) -> Self:
        """Learn from one trajectory, or from several below each other.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d_x)
            Observations, in the order of time.
        Z : array or DataFrame of shape (n,) or (n, d_z)
            States at the same times. A few that are further than 30 usual changes from those
            around them are left out, with a `NumericalWarning`; a trajectory is two there.
        lengths : sequence of int, optional
            Rows of each trajectory; no transition is learned across two of them. Where a row has
            NaN one ends: without that row it is two.
        verbose : bool
            Tell each stage, what was tried in it, and how long it took.
        """
        check_parameters(self)
        flag(verbose, "verbose")
        return self._learned(X, Z, lengths)

    def _learned(self, X, Z, lengths, judged: bool = True) -> Self:
        points_x, points_z, sequences = inputs.record(X, Z, lengths)
        checks.note_columns(self, X)
        self.n_rows_ = points_x.shape[0]
        if all(s.stop - s.start < 2 for s in sequences):
            raise ValueError(
                "lengths has no sequence of two rows or more; a transition needs two in a row"
            )
        plan, names = Plan(**self.get_params(deep=False)), tuple(map(checks.column_names, (X, Z)))
        machine, rule, self.held_out_ = learned(plan, points_x, points_z, sequences, names, judged)
        if self.inference == "auto":
            warn_if_as_near(self.held_out_)
        self._adopt(machine, rule if self.inference is None else None)
        self.one_output_ = checks.as_floats(Z, "Z").ndim == 1
        self.state_names_ = checks.column_names(Z)
        return self

    def tune(
        self, X, Z, lengths=None, validation=5, objective="filter", n_jobs=None, verbose=False
    ) -> Self:
        """A new filter, fitted on all rows, with lengthscales and regularisers chosen by tracking.

        Scales of the lengthscales of `kernel_x` and `kernel_z` and the update's regulariser are
        searched for the least squared error of the filtered mean on training rows held out, in
        units of each state's variance: one after the other, by large steps and then by small
        ones; η and λ' follow their leave-one-out criteria throughout. `reg_smoother` is then
        chosen as by `fit`.

        That is of kernel Bayes' rule. With `inference=None`, where `fit` takes two densities, these
        are what is returned: they choose everything themselves, and nothing is searched.

        Parameters
        ----------
        X, Z, lengths
            As for `fit`.
        validation : int or float
            A number of folds, each a stretch of every trajectory held out in turn; or the share
            of each trajectory, at its end, that is held out (as in the papers). At most 1,000
            rows are tracked in all.
        objective : {"filter", "smooth"}
            Whether the error is that of filtered or of smoothed means. They like different
            settings: smoothing after tuning for filtering can be worse than without tuning.
        n_jobs : int, optional
            Processes that evaluate candidates; -1 is one per core.
        verbose : bool or callable
            Show progress, or call `verbose(done, total)`.

        Returns
        -------
        KernelBayesFilter
            With the choices as its parameters, and `tuning_` telling what was tried, nothing by
            densities.
        """
        check_parameters(self)
        if self.inference == "densities":
            raise ValueError("tune needs inference='kbr' or 'auto'; densities choose by themselves")
        return tune(self, X, Z, lengths, validation, objective, n_jobs, verbose)

    def with_reg(self, reg: float, reg_smoother: float | None = None) -> Self:
        """The same fit with other regularisers of the update and of the backward pass.

        Parameters
        ----------
        reg : float
        reg_smoother : float, optional
            None leaves it as it is.
        """
        check_is_fitted(self)
        other, m = copy.copy(self), self._ruled
        if not isinstance(m, Machine):
            raise ValueError("with_reg needs inference='kbr'; densities have nothing to choose")
        back = m.smoother.reg if reg_smoother is None else reg_smoother
        asked = {"reg": reg, "reg_smoother": back}
        regs = (checks.check_positive(value, name, zero=True) for name, value in asked.items())
        other._adopt(m.with_regs(*regs))
        return other

    def _adopt(self, machine: Recursion, rule: Machine | None = None) -> None:
        """`rule` is for what only kernel Bayes' rule can, where densities were not asked for."""
        self.machine_, self.rule_machine_ = machine, rule
        self.points_x_, self.points_ = machine.points_x, machine.points
        self.kernel_x_, self.kernel_z_ = machine.kernel_x, machine.kernel_z
        if not isinstance(m := self._ruled, Machine):
            for name in OF_RULE:  # of a fit before this one
                self.__dict__.pop(name, None)
            return
        self.features_x_, self.features_z_ = m.features_x, m.features_z
        self.reg_, self.reg_prior_ = m.rule.reg, m.reg_prior
        self.reg_transition_, self.reg_smoother_ = m.reg_transition, m.smoother.reg

    @property
    def _ruled(self) -> Recursion:
        return getattr(self, "rule_machine_", None) or self.machine_

    @classmethod
    def from_version1(cls, state: dict[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in state.items() if not name.startswith("_")}
        if "_rule" in state:
            fields = {name.rstrip("_"): value for name, value in state.items() if name[-1] == "_"}
            fields |= {part: state[f"_{part}"] for part in ("transition", "rule", "smoother")}
            own = Machine.__dataclass_fields__
            kept["machine_"] = Machine(**{k: v for k, v in fields.items() if k in own})
        return kept

    def summary(self) -> Summary:
        """The training data, kernels and regularisers in words and numbers."""
        check_is_fitted(self)
        n, d = self._ruled.points_x.shape
        n = getattr(self, "n_rows_", n)  # a file of an earlier version has none
        names = self._labels(Labels()).named(self.points_.shape[1], "z")
        training = [
            Line("rows", n, f"{n:,}"),
            Line("columns observed", d, f"{d}"),
            Line("states", names, ", ".join(names)),
        ]
        title, told = "Kernel Bayes filter", [Block("Training", training)]
        if held := getattr(self, "held_out_", None):
            marks = {min(held, key=held.get): " (nearest)"}
            errors = [Line.of(name, error, marks.get(name, "")) for name, error in held.items()]
            told.append(Block("Squared error on rows held out, of the variance", errors))
        if isinstance(self.machine_, NodeMachine):
            how = [Line("laws", "densities", "two conditional densities")]
            how += [Line(name, n, f"{n:,}") for name, n in self.machine_.counts.items()]
            return Summary(title, [*told, Block("Filter", how)])
        chosen = {name: " (chosen)" if getattr(self, name) is None else " (given)" for name in REGS}
        regs = [Line.of(name, getattr(self, f"{name}_"), how) for name, how in chosen.items()]
        told += [
            self.features_x_.block("Observations", names_like(self, d)),
            self.features_z_.block("States", names),
            Block(f"Regularisers, {self.rule} rule", regs),
        ]
        return Summary(title, told)

    # ------------------------------------------------------------ tracking

    def filter(self, X, lengths=None, prior=None, supervision=None) -> FilterResult:
        """Beliefs about z_t given x_1, ..., x_t, for every row of `X`.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d_x)
            A row with NaN is a missing observation.
        lengths : sequence of int, optional
            Rows of each trajectory; they are filtered side by side.
        prior : MeanEmbedding, array of samples (l, d_z), or None
            Belief before the first observation; None is the law of the training states, or, by
            particles, that of their nodes.
        supervision : tuple (X_s, Z_s, strength) or callable, optional
            Posterior regularisation (kRegBayes; importance rule): at step t the posterior at the
            observation X_s[t] should be near the state Z_s[t], with weight strength[t] (or one
            number) beside the Σβ ≈ 1 of the data. A callable gets (t, x_t, belief), t counting
            the rows of X and the `Belief` being the prediction (`belief.previous` is the
            estimate one step before), and returns such a tuple of its own, of any number of
            rows, or None.
        """
        machine, steps, missing, _ = self._track(X, lengths, prior, supervision)
        return self._result(X, machine, steps, missing)

    def smooth(self, X, lengths=None, prior=None, supervision=None) -> FilterResult:
        """Beliefs about z_t given all of its trajectory, x_1, ..., x_T.

        Filters forward, then goes back: s_T = m_T, and with d the shares of the training
        transitions in m_t, μ and C the mean and covariance of their later states q₊ᵢ,

        s_t = m_t + Σ_i d_i (q₊ᵢ − μ)ᵀ(C + λI)⁻¹(s_{t+1} − V m_t) q_i,

        so that where nothing is seen later the filtered belief stays as it is (MATH §13.1).

        Parameters
        ----------
        X, lengths, prior, supervision
            As for `filter`.
        """
        machine, steps, missing, sequences = self._track(X, lengths, prior, supervision)
        return self._result(X, machine, machine.backward(steps, sequences), missing)

    def forecast(self, X, steps: int, lengths=None, prior=None) -> Forecast:
        """Beliefs about the states and observations 1, ..., `steps` rows after `X`.

        Parameters
        ----------
        X, lengths, prior
            As for `filter`; with several trajectories, the forecasts of the first come first.
        steps : int
        """
        checks.check_count(steps, "steps")
        machine, track, _, sequences = self._track(X, lengths, prior, None)
        later = Labels.of(X).ahead(steps)
        ahead = [step for s in sequences for step in machine.ahead(track[s.stop - 1], steps)]
        return Forecast(machine, tuple(ahead), later, labels=self._labels(later))

    def predict(self, X, lengths=None, point="mean") -> Array:
        """Filtered point estimates, shape (n,) or (n, d_z).

        Parameters
        ----------
        X, lengths
            As for `filter`.
        point : {"mean", "mode"}
            Posterior mean Σ w_i z_i / Σ w_i; or the preimage (`MeanEmbedding.mode`), which stays
            on the circle or in SO(3) where the kernel does.
        """
        checks.check_choice(point, "point", ("mean", "mode"))
        result = self.filter(X, lengths)
        found = result.mean() if point == "mean" else result.mode()
        return like_target(found, self.one_output_)

    def predict_interval(self, X, level: float = 0.95, lengths=None) -> Interval:
        """Central interval of each filtered state: `Interval(lower, upper)`, shaped like Z.

        Parameters
        ----------
        X, lengths
            As for `filter`.
        level : float
        """
        return interval_like_target(self.filter(X, lengths), level, self.one_output_)

    def predict_quantile(self, X, q, lengths=None) -> Array:
        """Quantiles of each filtered state: like Z for one level, (n, k) or (n, k, d) for k.

        Parameters
        ----------
        X, lengths
            As for `filter`.
        q : float or sequence of float
            Levels in [0, 1].
        """
        return like_target(self.filter(X, lengths).quantile(q), self.one_output_)

    def score(self, X, Z, lengths=None) -> float:
        """R² of the filtered means, averaged over the columns of `Z`."""
        check_is_fitted(self)
        known = self.points_.shape[1], "Z", "the training states", self.state_names_
        truth = arrays.as_columns(Z, *known)
        found = arrays.to_numpy(self.predict(X, lengths))
        checks.check_lengths(found.shape[0], truth.shape[0], "X", "Z")
        return float(r2_score(truth, found.reshape(found.shape[0], -1)))

    def start(self, prior=None) -> Belief:
        """The belief before the first observation, to be carried on one step at a time.

        Parameters
        ----------
        prior : MeanEmbedding, array of samples (l, d_z), or None

        Examples
        --------
        >>> import kernelmean as km
        >>> train = km.datasets.make_rotation(500, random_state=0)
        >>> belief = km.KernelBayesFilter().fit(train.X, train.Z).start()
        >>> belief.update([0.8, 0.8]).mean().round(1)
        array([0.7, 0.7])
        >>> belief.predict().mean().round(1)  # turned by 0.3
        array([0.5, 0.8])
        """
        check_is_fitted(self)
        labels, m = self._labels(Labels()), self.machine_
        first = m.first(inputs.belief(m, prior, labels.columns))
        return Belief(m, first, labels, Labels.known_to(self).columns)

    # ------------------------------------------------------------ inside

    def _track(
        self, X, lengths, prior, supervision
    ) -> tuple[Recursion, list[Step], np.ndarray, list[slice]]:
        """The recursion; filtered steps of all sequences; which rows are missing; the sequences."""
        check_is_fitted(self)
        machine = self.machine_ if supervision is None else self._ruled
        points, seen = observed(X, "X")
        checks.note_columns(self, X, reset=False)
        checks.check_library(points, machine.points_x, "X")
        sequences = check_sequences(lengths, len(seen))
        check_forward(X, sequences)
        names = Labels.known_to(self).columns, self.state_names_
        supervise = _supervisor(machine, supervision, len(seen), names)
        first = machine.first(inputs.belief(machine, prior, self.state_names_))
        steps = machine.advance(first, points, ~seen, sequences, supervise)
        inputs.warn_of_collapse(steps)
        return machine, steps, ~seen, sequences

    def _result(self, X, machine: Recursion, steps: list[Step], missing) -> FilterResult:
        return FilterResult(machine, tuple(steps), missing, labels=self._labels(Labels.of(X)))

    def _labels(self, rows: Labels) -> Labels:
        """Of the states at the times of these rows."""
        return replace(Labels.of(None, self.state_names_), index=rows.index)


def _supervisor(machine: Recursion, supervision, n: int, names) -> Callable | None:
    """Row number, observation, prediction ↦ checked supervision of that step, or None."""
    if supervision is None:
        return None
    inputs.check_supervised(machine)
    if not callable(supervision):
        given = inputs.pairs(machine, supervision, *names)
        checks.check_lengths(n, given[0].shape[0], "X", "X_s")
        return lambda i, x, step: tuple(part[i : i + 1, ...] for part in given)

    def asked(i: int, x, step: Step):
        own = supervision(i, x, Belief(machine, step))
        return None if own is None else inputs.pairs(machine, own, *names)

    return asked

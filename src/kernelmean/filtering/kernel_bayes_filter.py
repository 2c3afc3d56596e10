"""Kernel Bayes filter: tracking a hidden state with dynamics learned from examples."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from ..bayes.supervision import each_strength, unpack_supervision
from ..core import arrays, solves
from ..core.checks import (
    Array,
    NumericalWarning,
    as_floats,
    as_points,
    check_choice,
    check_columns,
    check_count,
    check_lengths,
    check_positive,
    column_names,
    frozen,
)
from ..core.saving import Saveable
from ..core.sequences import check_sequences, consecutive, spread
from ..embedding.embedding import MeanEmbedding, as_embedding
from ..features.choose import as_target_map, fit_pairs
from ..features.landmarks import Further, Landmarks
from ..filtering import settings, tune
from ..kernels import fitted_kernel
from ..regression.leave_one_out import LeaveOneOut
from .machine import Step, embed
from .results import Belief, FilterResult, Forecast
from .steps import COLLAPSE, FADED, Importance, Shares, Squared, Transition

RULES = ("importance", "squared")
POINTS = ("mean", "mode")
ONE_THREAD = 1_000_000  # training coordinates in all, below which one BLAS thread is best
SMOOTHER, EXACT = 0.3, 1e-6  # default reg_smoother; reg below which the default is reg itself


class KernelBayesFilter(Saveable, BaseEstimator):
    """p(z_t | x_1, ..., x_t) for a hidden state z, learned from trajectories with z in sight.

    With q, φ the coordinates of states and observations, a belief is a vector m and one step is

    - predict: m ← Vm, V = Q₊ᵀQ₋(Q₋ᵀQ₋ + Nλ'I)⁻¹ over consecutive states;
    - shares of the training states in it: β = Q(QᵀQ/n + ηI)⁻¹m/n;
    - update: kernel Bayes' rule (see `KernelBayes`) gives weights w, and m ← Σ_i w_i q(z_i).

    A row of NaN is a missing observation, and one unlike any seen in training (a collapse: Σw
    next to nothing) says nothing either: in both the prediction stays. (Collapse is seen by
    kernels that vanish far away; with coordinates that do not, `RandomFourier` and `Neural`,
    nothing collapses.) States must stay where the training states were: nothing is extrapolated.

    Parameters
    ----------
    rule : {"importance", "squared"}
        "importance" touches only training rows with a positive share; a step of "squared" costs
        the same however long the training sequence was.
    kernel_x : Kernel, str, scikit-learn kernel or callable
        For observations.
    kernel_z : Kernel, str, scikit-learn kernel, callable or None
        For states. None is the Gaussian kernel at half the median distance: beliefs are narrower
        than the law of all states, and the dynamics are learned through the same kernel.
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
        estimate. None is 0.3; or `reg`, if that is below 1e-6 and so asks for exact tables.
    max_active : int, optional
        Most training rows that an update of the importance rule touches; more are thinned by
        systematic sampling. None keeps all.

    Attributes
    ----------
    reg_, reg_prior_, reg_transition_, reg_smoother_ : float
    kernel_x_, kernel_z_, features_x_, features_z_ : as used
    points_x_, points_ : arrays of shape (n, d_x), (n, d_z)
        Training observations and states.
    tuning_ : list of dict
        The candidates that `tune` tried, and their errors.

    References
    ----------
    Fukumizu, Song, Gretton (2013), section 4.3; Song, Zhu, Ren (2016), appendix A.1; Xu, Chen,
    Doucet, Gretton (2022), Algorithm 2; MATH §6.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> rng = np.random.default_rng(0)
    >>> angle = np.cumsum(rng.normal(0.3, 0.1, 600))
    >>> Z = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> X = Z + 0.3 * rng.standard_normal(Z.shape)
    >>> model = km.KernelBayesFilter().fit(X[:500], Z[:500])
    >>> error = model.predict(X[500:]) - Z[500:]
    >>> bool(np.mean(error**2) < 0.5 * 0.3**2)  # less than half of the noise is left
    True
    """

    def __init__(
        self,
        rule="importance",
        kernel_x="gaussian",
        kernel_z=None,
        reg_prior=None,
        reg=None,
        reg_transition=None,
        features=None,
        reg_smoother=None,
        max_active=None,
    ):
        self.rule = rule
        self.kernel_x = kernel_x
        self.kernel_z = kernel_z
        self.reg_prior = reg_prior
        self.reg = reg
        self.reg_transition = reg_transition
        self.features = features
        self.reg_smoother = reg_smoother
        self.max_active = max_active

    # ------------------------------------------------------------ learning

    def fit(self, X, Z, lengths=None) -> KernelBayesFilter:
        """Learn from one trajectory, or from several below each other.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d_x)
            Observations, in the order of time.
        Z : array or DataFrame of shape (n,) or (n, d_z)
            States at the same times.
        lengths : sequence of int, optional
            Rows of each trajectory; no transition is learned across two of them.
        """
        self._check_settings()
        points_x = as_points(X, "X", min_rows=2, one_d=False)
        validate_data(self, X, skip_check_array=True)
        if Z is None:
            raise ValueError(
                "Z is None; the states at the times of X, (n,) or (n, d_z), are needed"
            )
        points_z = as_points(Z, "Z")
        check_lengths(points_x.shape[0], points_z.shape[0], "X", "Z")
        sequences = check_sequences(lengths, points_x.shape[0])
        if all(s.stop - s.start < 2 for s in sequences):
            raise ValueError(
                "lengths has no sequence of two rows or more; a transition needs two in a row"
            )
        self.one_output_ = as_floats(Z, "Z").ndim == 1
        self.state_names_ = column_names(Z)
        self.points_x_, self.points_ = frozen(points_x), frozen(points_z)
        self._fit_states(column_names(Z))
        self._fit_dynamics(sequences)
        self._fit_observations(column_names(X))
        return self

    def tune(
        self, X, Z, lengths=None, validation=5, objective="filter", n_jobs=None, verbose=False
    ) -> KernelBayesFilter:
        """A new filter, fitted on all rows, with lengthscales and regularisers chosen by tracking.

        Scales of the lengthscales of `kernel_x` and `kernel_z` and the update's regulariser are
        searched, coarsely and then finely, for the least squared error of the filtered mean on
        training rows held out, in units of each state's variance; η and λ' follow their
        leave-one-out criteria throughout. Then `reg_smoother` is chosen by smoothing these rows.

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
            With the choices as its parameters, and `tuning_` telling what was tried.
        """
        return tune.tune(self, X, Z, lengths, validation, objective, n_jobs, verbose)

    def _fit_states(self, names) -> None:
        self.kernel_z_ = settings.state_kernel(self.kernel_z, self.points_, names)
        self.features_z_ = as_target_map(self.features)
        self._Q = self.features_z_.fit_transform(self.points_, self.kernel_z_)

    def _fit_dynamics(self, sequences: list[slice]) -> None:
        """V, the shares, and the backward rule, over consecutive states."""
        Q, xp = self._Q, arrays.namespace(self._Q)
        earlier, later = consecutive(sequences)
        before, after = arrays.take(Q, earlier, axis=0), arrays.take(Q, later, axis=0)
        reg = self._given("reg_transition")
        if reg is None:
            grid = solves.EigenGrid.of(before.T @ before / len(earlier))
            reg = LeaveOneOut.of(before, after, grid).best()[0]
        self.reg_transition_ = reg
        self._readout = xp.concat([Q, xp.ones_like(self.points_[:, :1]), self.points_], axis=1)
        self._transition = Transition.of(
            spread(before, later, Q), self._readout, len(earlier), self.reg_transition_
        )
        typical = settings.typical_beliefs(Q, self._transition.operator)
        reg = self._given("reg_prior")
        self.reg_prior_ = settings.choose_prior_reg(Q, typical) if reg is None else reg
        self._shares, self._typical = Shares.of(Q, self.reg_prior_), typical
        self._mass = xp.sum(Q, axis=0) @ self._shares.gain
        self._fit_smoother(spread(before, earlier, Q), spread(after, earlier, Q), len(earlier))

    def _fit_smoother(self, before, after, pairs: int) -> None:
        """The importance rule over transitions: later states are what earlier ones are seen by."""
        reg = self._given("reg_smoother")
        if reg is None:
            asked = self._given("reg")
            reg = SMOOTHER if asked is None or asked >= EXACT else asked
        self.reg_smoother_ = reg
        shares = Shares.of(before, self.reg_prior_, pairs)
        self._smoother = Importance(after, shares, self._readout, reg, self.max_active)

    def _fit_observations(self, names) -> None:
        kernel_x = fitted_kernel(self.kernel_x, self.points_x_, names=names, name="kernel_x")
        self.features_x_, Phi = fit_pairs(
            self.features, self.points_x_, kernel_x, self.points_, self.kernel_z_
        )
        self.kernel_x_ = self.features_x_.kernel_
        reg = self._given("reg")
        if reg is None:
            reg = settings.choose_reg(Phi, self._Q, self._shares, self._typical, self.rule)
        self.reg_ = reg
        self._rule: Importance | Squared
        if self.rule == "importance":
            self._rule = Importance(Phi, self._shares, self._readout, self.reg_, self.max_active)
        else:
            self._rule = Squared.of(Phi, self._shares, self._readout, self.reg_)

    def _given(self, name: str) -> float | None:
        value = getattr(self, name)
        return None if value is None else check_positive(value, name, zero=True)

    def _check_settings(self) -> None:
        check_choice(self.rule, "rule", RULES)
        for name in ("reg", "reg_prior", "reg_transition", "reg_smoother"):
            self._given(name)
        if self.max_active is not None:
            check_count(self.max_active, "max_active", minimum=2)

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
            Belief before the first observation; None is the law of the training states.
        supervision : tuple (X_s, Z_s, strength) or callable, optional
            Posterior regularisation (kRegBayes; importance rule): at step t the posterior at the
            observation X_s[t] should be near the state Z_s[t], with weight strength[t] (or one
            number) beside the Σβ ≈ 1 of the data. A callable gets (t, x_t, belief), t counting
            the rows of X and the `Belief` being the prediction (`belief.previous` is the
            estimate one step before), and returns such a tuple of its own, of any number of
            rows, or None.
        """
        steps, missing, _ = self._track(X, lengths, prior, supervision)
        return FilterResult(self, steps, missing)

    def smooth(self, X, lengths=None, prior=None, supervision=None) -> FilterResult:
        """Beliefs about z_t given all of its trajectory, x_1, ..., x_T.

        Filters forward, then goes back: s_T = m_T, and s_t is the importance rule over the
        training transitions, weighed by the filtered belief m_t, with s_{t+1} observed.

        Parameters
        ----------
        X, lengths, prior, supervision
            As for `filter`.
        """
        steps, missing, sequences = self._track(X, lengths, prior, supervision)
        with self._threads():
            for sequence in sequences:
                for i in range(sequence.stop - 2, sequence.start - 1, -1):
                    steps[i] = self._smoothed(steps[i], steps[i + 1])
        return FilterResult(self, steps, missing)

    def forecast(self, X, steps: int, lengths=None, prior=None) -> Forecast:
        """Beliefs about the states and observations 1, ..., `steps` rows after `X`.

        Parameters
        ----------
        X, lengths, prior
            As for `filter`; with several trajectories, the forecasts of the first come first.
        steps : int
        """
        check_count(steps, "steps")
        track, _, sequences = self._track(X, lengths, prior, None)
        ahead = []
        for sequence in sequences:
            step = track[sequence.stop - 1]
            for _ in range(steps):
                step = self._predicted(step)
                ahead.append(step)
        return self._forecast(ahead)

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
        check_choice(point, "point", POINTS)
        result = self.filter(X, lengths)
        values = result.mean if point == "mean" else result.embeddings.mode()
        return values[:, 0] if self.one_output_ else values

    def score(self, X, Z, lengths=None) -> float:
        """R² of the filtered means, averaged over the columns of `Z`."""
        truth = arrays.to_numpy(as_points(Z, "Z"))
        found = arrays.to_numpy(self.predict(X, lengths))
        check_lengths(found.shape[0], truth.shape[0], "X", "Z")
        check_columns(truth, self.points_.shape[1], "Z", "the training states")
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
        >>> belief.update([0.8, 0.8]).mean.round(1)
        array([0.7, 0.7])
        >>> belief.predict().mean.round(1)  # turned by 0.3
        array([0.5, 0.8])
        """
        check_is_fitted(self)
        return Belief(self, self._first(self._prior(prior)))

    # ------------------------------------------------------------ inside: one step

    def _first(self, m: MeanEmbedding) -> Step:
        """The belief `m`, on points of its own, as a step."""
        xp = arrays.namespace(self._Q)
        read = xp.concat([m.total()[None], m.apply_weights(m.points)])
        if m.points is self.points_:
            return Step(m.apply_weights(self._Q), read, "start", m.weights)
        belief = m.apply_weights(self.features_z_.transform(m.points))
        if float(self._mass @ belief) < FADED * float(read[0]):
            warnings.warn(
                "prior lies where there are few training states or none: the filter cannot "
                "follow it there",
                NumericalWarning,
                stacklevel=4,
            )
        nothing = xp.zeros_like(self.points_[:, 0])
        return Step(belief, read, "start", nothing, further=(m.points, m.weights))

    def _predicted(self, step: Step) -> Step:
        m = self._restored(step.belief)
        read = m @ self._transition.outlook
        if not float(read[0]) > COLLAPSE:  # a state that nothing ever followed: anything may
            return replace(self._first(self._prior(None)), previous=step.mean)
        return Step(self._transition.operator @ m, read, "predicted", m, previous=step.mean)

    def _restored(self, m) -> Array:
        """A belief whose mass has faded over many steps without news, brought back to one."""
        mass = float(self._mass @ m)
        if mass >= FADED:
            return m
        xp = arrays.namespace(m)
        return m / mass if mass > 1e-9 else xp.mean(self._Q, axis=0)

    def _updated(self, steps: list[Step], coordinates) -> list[Step]:
        """Each step after an observation; those that collapse keep the prediction."""
        M = arrays.namespace(coordinates).stack([step.belief for step in steps])
        u, read = self._rule(M, coordinates)
        return [self._believe(steps[b], "updated", u[b, :], read[b, :]) for b in range(len(steps))]

    def _smoothed(self, step: Step, later: Step) -> Step:
        u, read = self._smoother(step.belief[None, :], later.belief[None, :])
        return self._believe(step, "smoothed", u[0, :], read[0, :])

    def _believe(self, step: Step, kind: str, u, read, further=None) -> Step:
        """The step with the weights that `u` stands for, unless they come to nothing."""
        xp, r = arrays.namespace(read), self._Q.shape[1]
        if bool(xp.all(xp.isfinite(read))) and float(read[r]) > COLLAPSE:
            collapsed = kind == "smoothed" and step.collapsed
            return Step(read[:r], read[r:], kind, step.belief, u, collapsed, further)
        return step if kind == "smoothed" else step.collapse()

    def _guided(self, step: Step, x, coordinates, supervision) -> Step:
        """An update with the supervision's rows below the training pairs (Song 2016, eq. 14)."""
        x_s, z_s, strength = supervision
        xp, phi = arrays.namespace(coordinates), coordinates
        rule: Any = self._rule
        Phi, Phi_s = rule.Phi, self.features_x_.transform(x_s)
        if isinstance(self.features_x_, Landmarks):
            further = Further.of(self.features_x_, x_s, Phi_s)
            Phi, Phi_s = further.padded(Phi), further.Phi_s
            phi = further.widened(x[None, :], phi[None, :])[0, :]
        d = rule.kept(step.belief)
        second = Phi.T @ (d[:, None] * Phi) + Phi_s.T @ (strength[:, None] * Phi_s)
        u = solves.ridge(second, self.reg_).solve(phi)
        w, w_s = d * (Phi @ u), strength * (Phi_s @ u)
        read_s = xp.concat([self.features_z_.transform(z_s), xp.ones_like(z_s[:, :1]), z_s], axis=1)
        read = w @ rule.readout + w_s @ read_s
        return self._believe(step, "updated", u[: rule.Phi.shape[1]], read, (z_s, w_s))

    def _observed(self, step: Step, x, supervision=None) -> Step:
        """One observation, from a user of `Belief`."""
        x = as_floats(x, "x")
        if x.ndim == 0:
            x = x[None]
        if x.ndim != 1:
            raise ValueError(f"x has shape {tuple(x.shape)}; one observation, (d_x,), is needed")
        points, missing = self._checked(x[None, :], "x")
        step = replace(step, collapsed=False)
        if missing[0]:
            return step
        phi = self.features_x_.transform(points)
        if supervision is None:
            step = self._updated([step], phi)[0]
        else:
            given = self._pairs(supervision)
            step = self._guided(step, points[0, :], phi[0, :], given)
        self._warn(step.collapsed, 1)
        return step

    # ------------------------------------------------------------ inside: whole sequences

    def _track(self, X, lengths, prior, supervision) -> tuple[list[Step], np.ndarray, list[slice]]:
        """All sequences step by step, side by side."""
        check_is_fitted(self)
        points, missing = self._checked(X, "X")
        sequences = check_sequences(lengths, points.shape[0])
        supervise = self._supervisor(supervision, points.shape[0])
        first = self._first(self._prior(prior))
        coordinates = self.features_x_.transform(points)
        steps: list[Any] = [None] * points.shape[0]
        with self._threads():
            self._advance(steps, first, sequences, missing, points, coordinates, supervise)
        self._warn(sum(step.collapsed for step in steps), len(steps))
        return steps, missing, sequences

    def _threads(self) -> threadpool_limits:
        """One BLAS thread for small models: threads that take turns cost more than they compute."""
        small = self._rule.Phi.shape[0] * self._rule.Phi.shape[1] < ONE_THREAD
        return threadpool_limits(1 if small else None, user_api="blas")

    def _advance(self, steps, first, sequences, missing, points, coordinates, supervise) -> None:
        """Fill `steps`, one time after the other."""
        for t in range(max(s.stop - s.start for s in sequences)):
            rows = [s.start + t for s in sequences if s.start + t < s.stop]
            for i in rows:
                steps[i] = first if t == 0 else self._predicted(steps[i - 1])
            self._observe(
                steps, [i for i in rows if not missing[i]], points, coordinates, supervise
            )

    def _observe(self, steps, rows: list[int], points, coordinates, supervise) -> None:
        """Update the steps at `rows`, together where no supervision makes them differ."""
        given = {i: supervise(i, points[i, :], Belief(self, steps[i])) for i in rows}
        plain = [i for i in rows if given[i] is None]
        if plain:
            news = self._updated([steps[i] for i in plain], arrays.take(coordinates, plain, axis=0))
            for i, step in zip(plain, news, strict=True):
                steps[i] = step
        for i in rows:
            if given[i] is not None:
                steps[i] = self._guided(steps[i], points[i, :], coordinates[i, :], given[i])

    def _forecast(self, ahead: list[Step]) -> Forecast:
        """States as predicted; observations by the shares of the training pairs in them."""
        beliefs = arrays.namespace(self._Q).stack([step.belief for step in ahead])
        left = beliefs @ self._shares.gain
        observations = MeanEmbedding.of_parts(self.points_x_, left, self._shares.Q, self.kernel_x_)
        return Forecast(embed(self, ahead), observations)

    # ------------------------------------------------------------ inside: the door

    def _checked(self, X, name: str) -> tuple[Array, np.ndarray]:
        """Observations with missing rows (any NaN in them) filled by a training row."""
        given, X = X, as_floats(X, name)
        if X.ndim != 2:
            as_points(X, name, one_d=False)  # raises, and tells how to reshape
        if name == "X":
            validate_data(self, given, reset=False, skip_check_array=True)
        xp = arrays.namespace(X)
        bad = xp.any(xp.isnan(X), axis=1)
        points = as_points(xp.where(bad[:, None], 0.0, X), name, one_d=False)
        check_columns(points, self.points_x_.shape[1], name, "the training X")
        filler = arrays.like(arrays.to_numpy(self.points_x_[:1, :]), points)
        return xp.where(bad[:, None], filler, points), arrays.to_numpy(bad)

    def _prior(self, prior) -> MeanEmbedding:
        if prior is None:
            n, xp = self.points_.shape[0], arrays.namespace(self.points_)
            weights = xp.full_like(self.points_[:, 0], 1.0 / n)
            return MeanEmbedding.of_parts(self.points_, weights, None, self.kernel_z_)
        d, where = self.points_.shape[1], "the training states"
        m = as_embedding(prior, self.kernel_z_, "prior", d, where)
        if m.batch is not None:
            raise ValueError(f"prior is a batch of {m.batch} embeddings; a single one is needed")
        if float(m.total()) <= 0:
            raise ValueError(f"prior has weights that sum to {float(m.total()):g}; one is needed")
        return m

    def _supervisor(self, supervision, n: int) -> Callable:
        """Row number, observation, belief ↦ checked supervision of that step, or None."""
        if supervision is None:
            return lambda i, x, belief: None
        self._check_supervised()
        if callable(supervision):
            return lambda i, x, belief: self._supervision(supervision(i, x, belief))
        x_s, z_s, strength = self._pairs(supervision)
        check_lengths(n, x_s.shape[0], "X", "X_s")
        return lambda i, x, belief: (x_s[i : i + 1, :], z_s[i : i + 1, :], strength[i : i + 1])

    def _check_supervised(self) -> None:
        if self.rule != "importance":
            raise ValueError("supervision needs rule='importance'; this one has 'squared'")

    def _supervision(self, given) -> tuple[Array, Array, Array] | None:
        return None if given is None else self._pairs(given)

    def _pairs(self, given) -> tuple[Array, Array, Array]:
        """Supervision, checked: observations, states, strengths."""
        self._check_supervised()
        x_s, z_s, strength = unpack_supervision(given)
        x_s, z_s = as_points(x_s, "x_s"), as_points(z_s, "z_s")
        check_columns(x_s, self.points_x_.shape[1], "x_s", "X")
        check_columns(z_s, self.points_.shape[1], "z_s", "the training states")
        check_lengths(x_s.shape[0], z_s.shape[0], "x_s", "z_s")
        return x_s, z_s, arrays.like(each_strength(strength, x_s.shape[0]), x_s)

    def _warn(self, collapsed: int, steps: int) -> None:
        if collapsed:
            warnings.warn(
                f"{int(collapsed)} of {steps} observations are unlike any seen in training (or reg "
                "is too large); the prediction was kept there (see `collapsed`)",
                NumericalWarning,
                stacklevel=4,
            )

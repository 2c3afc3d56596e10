"""What a fitted state-space model answers: states, forecasts, draws, laws."""

from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..chains.estimator import ChainEstimator, labels_ahead
from ..chains.rows import Rows, inputs_like, rows_like
from ..core import Array, Interval, Labels, arrays, checks
from ..core.moments import block_rows
from ..core.threads import doors
from ..embedding.embedding import MeanEmbedding
from . import particles
from .backbone import FittedBackbone
from .course import Course
from .latent import Space
from .options import Particles, as_filter
from .results import (
    LatentBelief,
    LatentResult,
    LineBelief,
    LineForecast,
    NodeModel,
    StateForecast,
    latent_names,
)

OUT = 0.1  # of the range of the training rows, beyond which a row is outside;
DUST = 1e-12  # of the largest value of a column: rounding leaves a constant one innovations
FEW, MANY = 2, 0.05  # that many, and that share of all, are no news


@doors()
class SpaceAnswers(ChainEstimator):
    """The methods of a fitted `KernelStateSpace`."""

    nodes_: np.ndarray
    space_: Space
    kernel_x_: Any
    # as files from before these were have them
    backbone_: FittedBackbone | None = None
    range_: np.ndarray | None = None
    rivals_: dict[str, Any] = {}  # noqa: RUF012
    dimensions_: dict[int, float] = {}  # noqa: RUF012

    # ------------------------------------------------------------ states

    def _course(self, X, lengths=None, inputs=None) -> tuple[Rows, Course | None]:
        """The rows that states are filtered from, and how they lie along the backbone, if any."""
        rows, course = rows_like(self, X, lengths, inputs), None
        size = abs(arrays.to_numpy(rows.points)).max(axis=0)
        if self.backbone_ is not None:
            course = Course(self.chain_, self.backbone_, rows)
            rows, size = course.rows, np.nanmax(abs(course.Z), axis=0, initial=0.0)
        self._look_out(rows, size)
        return rows, course

    def _look_out(self, rows: Rows, size: np.ndarray) -> None:
        """A word where many rows lie where none of training has been, by more than dust."""
        if self.range_ is None or not rows.seen.any():
            return
        margin = np.maximum(OUT * (self.range_[1] - self.range_[0]), DUST * size)
        points = arrays.to_numpy(rows.there)
        low, high = self.range_[0] - margin, self.range_[1] + margin
        out = ((points < low) | (points > high)).any(axis=1)
        if out.sum() > max(FEW, MANY * len(out)):
            what = "rows of X" if self.backbone_ is None else "innovations of X"
            checks.warn_numerical(
                f"{out.sum()} of {len(out)} {what} lie outside the range that was learned from: "
                "forecasts are those of the guard, a straight line"
            )

    def filter(self, X, lengths=None, inputs=None) -> LatentResult:
        """Law of the latent state of every row given the rows up to it.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            NaN is missing. Of a row in part a line takes what is there, and so do states, by its
            marginal laws; where densities are of variates, and by particles, states do not.
        lengths : sequence of int, optional
        inputs : array or DataFrame of shape (n, k), optional
            As in `fit`.
        """
        rows, _ = self._course(X, lengths, inputs)
        if self._by_particles:
            found = self._particles(rows)
            moments = found.state_mean, found.state_variance
            p = self._shares(found.particles, found.weights)
            return self._laws(p, rows, X, tuple(arrays.like(a, rows.points) for a in moments))
        return self._laws(self.chain_.filtered(rows), rows, X)

    def smooth(self, X, lengths=None, inputs=None) -> LatentResult:
        """Law of the latent state of every row given its whole sequence.

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`. (With particles too, smoothing is on the nodes.)
        """
        rows, _ = self._course(X, lengths, inputs)
        return self._laws(self.chain_.smoothed(rows), rows, X)

    def _laws(self, p: np.ndarray, rows: Rows, X, moments=None) -> LatentResult:
        nodes, p = (arrays.like(a, rows.points) for a in (self.nodes_, p))
        laws = MeanEmbedding.of_parts(nodes, p, None, self.kernel_x_)
        labels = Labels(latent_names(self.nodes_.shape[1]), Labels.of(X).index)
        return LatentResult(laws, labels, moments)

    # ------------------------------------------------------------ observations

    def predict(self, X, lengths=None, inputs=None) -> Array:
        """One-step forecasts E[y_t | y_1, ..., y_{t-1}] of every row, (n, d).

        The first row of a sequence gets the mean of the law that sequences begin in. For the rows
        after those of training give both, `predict(X)[n:]`: a series that begins anew knows nothing
        of what was before.

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`.
        """
        return self._laws_of(*self._course(X, lengths, inputs)).mean()

    one_step = predict

    def predict_quantile(self, X, q, lengths=None, inputs=None) -> Array:
        """Quantiles of y_t given y_1, ..., y_{t-1}, (n, d) for one level, (n, k, d) for k.

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`.
        q : float or sequence of float
            Levels between 0 and 1.
        """
        return self._laws_of(*self._course(X, lengths, inputs)).quantile(q)

    def _laws_of(self, rows: Rows, course: Course | None) -> StateForecast:
        """Of every row, given the rows before."""
        p = self._predicted(rows)
        if course is None:
            return StateForecast(self.chain_, p)
        return LineForecast(
            self.chain_, p, shift=course.track.mean, extra=course.extra,
            transform=course.line.transform,
        )  # fmt: skip

    def _predicted(self, rows: Rows) -> np.ndarray:
        """Probabilities of the nodes given the rows before, (n, m)."""
        if not self._by_particles:
            return self.chain_.predicted(rows)
        found = self._particles(rows)
        return self._shares(found.particles, found.prior)

    def predict_interval(self, X, level=0.95, lengths=None, inputs=None) -> Interval:
        """Central interval of y_t given y_1, ..., y_{t-1}: lower and upper ends, (n, d) each.

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`.
        level : float
        """
        return self._laws_of(*self._course(X, lengths, inputs)).interval(level)

    def log_predictive(self, X, lengths=None, inputs=None) -> np.ndarray:
        """log p(y_t | y_1, ..., y_{t-1}) for every row, (n,); 0 for a missing one.

        Of a row in part that of what is there, where `filter` says that states take it.

        Parameters
        ----------
        X, lengths, inputs
            As for `filter`.
        """
        rows, course = self._course(X, lengths, inputs)
        if self._by_particles:
            found = self._particles(rows).loglik
        else:
            found = self.chain_.log_predictive(rows)
        if course is None:
            return found
        there = ~np.isnan(course.Z)
        partly = self.chain_.marginals and not self._by_particles
        told = there.any(axis=1) if partly else there.all(axis=1)
        found = found + np.where(told, course.line.transform.slope(course.Z), 0.0)
        laws = self._laws_of(rows, course)
        unsure = np.flatnonzero(told & rows.missing.all(axis=1))
        step = block_rows(self.emissions_.points.shape[0])
        for some in (unsure[part] for part in arrays.slices(len(unsure), step)):
            found[some] = cast(LineForecast, laws[some]).log_guarded(course.Z[some])
        return found

    def forecast(
        self, X, steps: int, lengths=None, inputs=None, inputs_ahead=None
    ) -> StateForecast:
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
        rows, course = self._course(X, lengths, inputs)
        chain, count = self.chain_, len(rows.sequences)
        known = inputs_like(self, inputs_ahead, steps * count, "inputs_ahead")
        states, labels = chain.ahead(rows, steps), labels_ahead(X, rows, steps)
        p = arrays.like(states, rows.points)
        if course is None:
            return StateForecast(chain, p, labels)
        shift, extra = course.ahead(chain, states.reshape(count, steps, -1), known)
        change = course.line.transform
        return LineForecast(chain, p, labels, shift=shift, extra=extra, transform=change)

    def sample_paths(
        self, X, steps: int, n: int = 100, lengths=None, random_state=None, inputs=None,
        inputs_ahead=None,
    ) -> Array:  # fmt: skip
        """Ways that the series may go on after `X`, drawn: (n, steps, d).

        Parameters
        ----------
        X, steps, inputs, inputs_ahead
            As for `forecast`; one sequence.
        n : int
            How many.
        random_state : int, Generator or None
            None is the model's own.

        Examples
        --------
        >>> import kernelmean as km
        >>> X = km.datasets.make_state_space("linear", 300, random_state=0).X
        >>> model = km.KernelStateSpace(em=km.EM(n_init=1)).fit(X)
        >>> model.sample_paths(X, steps=5, n=20, random_state=0).shape
        (20, 5, 1)
        """
        checks.check_count(steps, "steps")
        checks.check_count(n, "n")
        rows, course = self._course(X, lengths, inputs)
        if len(rows.sequences) != 1:
            raise ValueError(f"lengths has {len(rows.sequences)} entries; one sequence is needed")
        known = inputs_like(self, inputs_ahead, steps, "inputs_ahead")
        rng = checks.generator(self.random_state if random_state is None else random_state)
        chain = self.chain_
        found = chain.paths(chain.filtered(rows)[-1], n, steps, rng)
        if course is not None:
            doubt = course.line.doubt
            found[:, 1:] += rng.standard_normal((n, 1, len(doubt))) @ doubt
            found = course.line.paths(course.track.last[0], found, known, rng)
        return arrays.like(found, rows.points)

    def sample(self, n_samples: int = 1, random_state=None, inputs=None) -> tuple[Array, Array]:
        """A sequence of observations, (n, d), and of its latent states on the nodes.

        Parameters
        ----------
        n_samples : int
        random_state : int, Generator or None
            None is the model's own.
        inputs : array or DataFrame of shape (n_samples, k), optional
            As in `fit`, and if there.
        """
        known = inputs_like(self, inputs, checks.check_count(n_samples, "n_samples"))
        rng = checks.generator(self.random_state if random_state is None else random_state)
        X, states = self.chain_.draw(n_samples, rng)
        if self.backbone_ is not None:
            first, e = self.backbone_.first, arrays.to_numpy(X)[None]
            X = arrays.like(self.backbone_.paths(first, e, known, rng)[0], X)
        return X, arrays.like(self.nodes_[states], X)

    def start(self, prior=None, inputs=None) -> LatentBelief:
        """The belief before the first observation, to be carried on one step at a time.

        After `update` it is the law of the row just seen; `predict` first, for the next one.

        Parameters
        ----------
        prior : array of shape (m,), optional
            Probabilities of the nodes; None is `startprob_`.
        inputs : array of shape (1, k), optional
            Of the first row.

        Examples
        --------
        >>> import kernelmean as km
        >>> X = km.datasets.make_state_space("linear", 300, random_state=0).X
        >>> belief = km.KernelStateSpace(em=km.EM(n_init=1)).fit(X).start()
        >>> bool(belief.update([4.0]).predict().mean()[0] > 2.0)
        True
        """
        first = inputs_like(self, inputs, 1)
        parts = self.chain_, prior, Labels.known_to(self), self.nodes_
        if self.backbone_ is None:
            return LatentBelief(*parts)
        return LineBelief(*parts, line=self.backbone_, inputs=first, names=self.input_names_)

    # ------------------------------------------------------------ laws

    def emission_at(self, x) -> MeanEmbedding:
        """A batch of embedded laws of y given x: between nodes, mixtures of those at the nodes.

        In several dimensions by regression on ψ(x): weights may be negative.

        Parameters
        ----------
        x : array of shape (k, n_latent)
        """
        return self.chain_.mixture(self.space_.shares(x))

    def transition_at(self, x) -> MeanEmbedding:
        """A batch of embedded laws of the next state given x, on the nodes (as `emission_at`).

        Parameters
        ----------
        x : array of shape (k, n_latent)
        """
        check_is_fitted(self)
        weights = self.space_.shares(x) @ self.transmat_
        return MeanEmbedding.of_parts(checks.frozen(self.nodes_), weights, None, self.kernel_x_)

    def recovered(self) -> NodeModel:
        """The learned model as one to draw from, with densities anywhere in the latent space.

        Of a model without a backbone.

        Returns
        -------
        NodeModel
            With the verbs of `particles.StateSpace`, which the particle filter and
            `as_particles_model` take.
        """
        if self.backbone_ is not None:
            raise ValueError(
                "the model has a backbone, beside which states are of its innovations; fit with "
                "backbone=None for one to draw from"
            )
        return NodeModel(self.chain_, self.space_.latent)

    @property
    def latent_bandwidth_(self) -> float:
        """Of the transition density between nodes."""
        check_is_fitted(self)
        return self.space_.latent.jitter

    # ------------------------------------------------------------ inside

    @property
    def _by_particles(self) -> bool:
        return isinstance(as_filter(self.inference), Particles)

    def _particles(self, rows: Rows) -> particles.ParticleResult:
        Y, rng = arrays.to_numpy(rows.points), checks.generator(self.random_state)
        n, model = as_filter(self.inference).n, NodeModel(self.chain_, self.space_.latent)
        return particles.bootstrap(model, Y, rows.seen, rows.sequences, n, rng, True)

    def _shares(self, x, weights) -> np.ndarray:
        """Weighted particles of every row, (n, N, n_latent), as probabilities of the nodes."""
        shares = self.space_.latent.shares
        return np.stack([w @ shares(points) for w, points in zip(weights, x, strict=True)])

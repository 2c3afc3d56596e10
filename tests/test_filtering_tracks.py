"""The kernel Bayes filter in the field: broken sensors, odd shapes, streams, angles, rotations."""

from __future__ import annotations

import copy
import pickle
import warnings
from functools import cache

import filter_oracles as dense
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.transform import Rotation as Turn

import kernelmean as km
from kernelmean.datasets import make_hidden_angle, make_rotation

RULES = ("importance", "squared")
TRAIN, TEST = make_rotation(200, random_state=1000), make_rotation(40, random_state=1001)


@cache
def tracker(rule: str = "importance") -> km.KernelBayesFilter:
    return km.KernelBayesFilter(rule).fit(TRAIN.X, TRAIN.Z)


def quietly(f, *arguments, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", km.NumericalWarning)
        return f(*arguments, **named)


def check_sound(result) -> None:
    """Numbers everywhere: means, flags, weights."""
    assert np.isfinite(result.mean).all()
    assert np.isfinite(result.embeddings.weights).all()
    assert result.collapsed.dtype == result.missing.dtype == bool
    assert len(result) == len(result.mean) == len(result.embeddings)


# ------------------------------------------------------------------------------ broken sensors
STEPS, BROKEN, RECOVERY, PARTS = 35, 12, 20, 5


def simulated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`n` runs of the rotation design, (n, STEPS, 2) each: observations and states."""
    runs = make_rotation(n * (STEPS + 1), random_state=seed)
    both = [a.reshape(n, STEPS + 1, 2)[:, :STEPS] for a in (runs.X, runs.Z)]
    return both[0], both[1]


@cache
def fault_filter(rule: str) -> km.KernelBayesFilter:
    train = make_rotation(300, random_state=1000)
    return km.KernelBayesFilter(rule, features=km.Nystroem(tol=1e-3)).fit(train.X, train.Z)


def with_faults(X: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Each run with one to six faults in its first 12 steps, and the number of steps reached."""
    rng = np.random.default_rng(seed)
    spoiled, reach = X.copy(), np.zeros(len(X), int)
    for i, run in enumerate(X):
        spoiled[i, :BROKEN], reach[i] = dense.spoil(run[:BROKEN], rng, int(rng.integers(1, 7)))
    return spoiled, reach


def errors_after(model, X: np.ndarray, Z: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Squared errors at the 20th, 21st, ... step after the last fault of each run, (n, 4)."""
    n = len(X)
    result = quietly(model.filter, X.reshape(-1, 2), [STEPS] * n)
    check_sound(result)
    error = np.sum((result.mean.reshape(Z.shape) - Z) ** 2, axis=2)
    return error[np.arange(n)[:, None], reach[:, None] + RECOVERY - 1 + np.arange(4)]


def check_recovery(rule: str, n: int, seed: int) -> None:
    """Normal error: mean and 99% quantile are those of the same runs without faults."""
    X, Z = simulated(n, seed)
    broken, reach = with_faults(X, seed)
    normal = errors_after(fault_filter(rule), X, Z, reach)
    after = errors_after(fault_filter(rule), broken, Z, reach)
    slack = 3 * np.std(after - normal) / np.sqrt(n)
    assert after.mean() < 1.02 * normal.mean() + slack
    assert np.quantile(after, 0.99) < 1.05 * np.quantile(normal, 0.99) + slack


@pytest.mark.parametrize("rule", RULES)
def test_two_hundred_runs_with_faults(rule):
    check_recovery(rule, 200, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 2 + PARTS))
@pytest.mark.parametrize("rule", RULES)
def test_ten_thousand_runs_with_faults(rule, seed):
    """Issue 4: 5 parts × 2 rules × 1,000 runs; no exception, no NaN, recovery within 20 steps."""
    check_recovery(rule, 10_000 // (PARTS * len(RULES)), seed)


def test_the_faults_are_of_all_kinds():
    """The battery does what it says: gaps, spikes, frozen stretches, and the rest untouched."""
    X, _ = simulated(300, 1)
    broken, reach = with_faults(X, 1)
    changed = ~np.isclose(broken, X).all(axis=2)
    assert np.isnan(broken).any(axis=2).sum() > 300
    assert (np.abs(broken) == 1e6).all(axis=2).sum() > 100
    still = (broken[:, 1:] == broken[:, :-1]).all(axis=2)
    assert still.sum() > 500
    assert all(not row[r:].any() for row, r in zip(changed, reach, strict=True))
    assert reach.min() >= 1
    assert reach.max() == BROKEN


@pytest.mark.parametrize("rule", RULES)
def test_faults_in_a_smoother_and_a_forecast(rule):
    X, Z = simulated(30, 8)
    broken, _ = with_faults(X, 8)
    rows, lengths, model = broken.reshape(-1, 2), [STEPS] * 30, fault_filter(rule)
    smoothed = quietly(model.smooth, rows, lengths)
    check_sound(smoothed)
    error = np.mean((smoothed.mean.reshape(Z.shape) - Z)[:, BROKEN:-1] ** 2)
    clean = quietly(model.smooth, X.reshape(-1, 2), lengths).mean.reshape(Z.shape)
    assert error < 1.1 * np.mean((clean - Z)[:, BROKEN:-1] ** 2)
    ahead = quietly(model.forecast, broken[:, :BROKEN].reshape(-1, 2), 3, [BROKEN] * 30)
    assert np.isfinite(ahead.mean).all()
    assert np.isfinite(ahead.observations.mean()).all()


@pytest.mark.parametrize("rule", RULES)
def test_faults_in_a_stream(rule):
    """One at a time as all at once, whatever happens."""
    X, _ = simulated(5, 9)
    broken, _ = with_faults(X, 9)
    for run in broken:
        result = quietly(fault_filter(rule).filter, run)
        belief = fault_filter(rule).start()
        for t, x in enumerate(run):
            belief = belief if t == 0 else belief.predict()
            quietly(belief.update, x)
            assert_allclose(belief.mean, result.mean[t], atol=1e-8)
            assert belief.collapsed == result.collapsed[t]


# ------------------------------------------------------------------------------- collapses
@pytest.mark.parametrize("rule", RULES)
class TestCollapse:
    @pytest.mark.parametrize("value", [1e6, -1e6, 50.0, 1e30, 1e40])
    @pytest.mark.parametrize("verb", ["filter", "smooth"])
    def test_a_spike_keeps_the_prediction_and_says_so_once(self, rule, value, verb):
        X, gap = TEST.X.copy(), TEST.X.copy()
        X[[5, 20]], gap[[5, 20]] = value, np.nan
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            spiked = getattr(tracker(rule), verb)(X)
        assert [w.category for w in caught] == [km.NumericalWarning]
        assert "2 of 40" in str(caught[0].message)
        assert caught[0].filename == __file__
        assert_array_equal(np.flatnonzero(spiked.collapsed), [5, 20])
        assert not spiked.missing.any()
        missing = getattr(tracker(rule), verb)(gap)
        assert_allclose(spiked.mean, missing.mean, atol=1e-12)
        assert_allclose(spiked.embeddings.weights, missing.embeddings.weights, atol=1e-12)

    def test_the_warning_counts_all_trajectories(self, rule):
        X = TEST.X.copy()
        X[[0, 39]] = 1e6
        with pytest.warns(km.NumericalWarning, match="2 of 40 observations"):
            result = tracker(rule).filter(X, [10, 30])
        assert_array_equal(np.flatnonzero(result.collapsed), [0, 39])

    def test_clean_data_warn_of_nothing(self, rule):
        for verb in ("filter", "smooth"):
            result = getattr(tracker(rule), verb)(TEST.X)
            assert not result.collapsed.any()
            assert not result.missing.any()
        tracker(rule).forecast(TEST.X, 3)

    def test_nothing_but_spikes(self, rule):
        X = np.full((30, 2), 1e6)
        result = quietly(tracker(rule).smooth, X)
        check_sound(result)
        assert result.collapsed.all()
        assert_allclose(result.mean[0], TRAIN.Z.mean(axis=0), atol=0.1)
        filtered = quietly(tracker(rule).filter, X)
        assert filtered.collapsed.all()
        assert_allclose(filtered.mean[0], TRAIN.Z.mean(axis=0))

    @pytest.mark.parametrize("size", np.linspace(1, 6, 11))
    def test_moderate_outliers_do_not_throw_the_belief_out_of_the_data(self, rule, size):
        X = TEST.X.copy()
        X[20] = size * np.array([1, -1])
        result = quietly(tracker(rule).filter, X)
        assert np.abs(result.mean).max() < 2 * np.abs(TRAIN.Z).max()
        clean = tracker(rule).filter(TEST.X)
        assert_allclose(result.mean[39], clean.mean[39], atol=0.05)

    def test_a_stream_warns_at_the_spike_alone(self, rule):
        belief = tracker(rule).start().update(TEST.X[0]).predict()
        before = belief.mean
        with pytest.warns(km.NumericalWarning, match="1 of 1"):
            belief.update([1e6, 0.0])
        assert belief.collapsed
        assert_array_equal(belief.mean, before)
        assert not belief.predict().collapsed
        belief.update(TEST.X[2])  # warnings are errors here
        assert not belief.collapsed

    def test_a_second_look_at_the_same_time_is_a_new_observation(self, rule):
        """The flag belongs to the last observation."""
        belief = tracker(rule).start()
        quietly(belief.update, [1e6, 0.0])
        belief.update(TEST.X[0])
        assert not belief.collapsed
        assert_allclose(belief.mean, tracker(rule).filter(TEST.X[:1]).mean[0], atol=1e-12)


# ------------------------------------------------------------------------------- gaps, extremes
@pytest.mark.parametrize("rule", RULES)
class TestGaps:
    def test_five_thousand_rows(self, rule):
        """Nothing but predictions: the belief becomes the stationary law and stays."""
        X = np.concatenate([TEST.X, np.full((5000, 2), np.nan), TEST.X])
        result = tracker(rule).filter(X)
        check_sound(result)
        assert result.missing.sum() == 5000
        lost = result.mean[4000:5040]
        assert_allclose(lost, np.broadcast_to(lost[-1], lost.shape), atol=1e-3)
        assert np.linalg.norm(lost[-1] - TRAIN.Z.mean(axis=0)) < 0.2
        total = result.embeddings[4000:5040].total()
        assert (total > 0.05).all()
        assert (total < 1.5).all()
        alone = tracker(rule).filter(TEST.X)
        assert_allclose(result.mean[-20:], alone.mean[-20:], atol=0.05)

    def test_five_thousand_rows_smoothed(self, rule):
        X = np.concatenate([TEST.X[:5], np.full((5000, 2), np.nan), TEST.X[:5]])
        result = tracker(rule).smooth(X)
        check_sound(result)
        assert np.abs(result.mean).max() < 2

    def test_five_thousand_steps_ahead(self, rule):
        ahead = tracker(rule).forecast(TEST.X, 5000)
        assert np.isfinite(ahead.mean).all()
        assert np.isfinite(ahead.observations.mean()).all()
        assert_allclose(ahead.mean[-1], ahead.mean[-100], atol=1e-3)

    @pytest.mark.parametrize("verb", ["filter", "smooth"])
    def test_all_rows_missing(self, rule, verb):
        result = getattr(tracker(rule), verb)(np.full((12, 2), np.nan))
        check_sound(result)
        assert result.missing.all()
        assert_allclose(result.mean[0], TRAIN.Z.mean(axis=0), atol=0.1)

    def test_the_first_row_missing(self, rule):
        X = TEST.X.copy()
        X[0] = np.nan
        result = tracker(rule).filter(X)
        check_sound(result)
        assert_allclose(result.mean[0], TRAIN.Z.mean(axis=0))
        assert_allclose(result.embeddings.weights[0], 1 / 200)
        assert_allclose(result.mean[-1], tracker(rule).filter(TEST.X).mean[-1], atol=0.01)

    @pytest.mark.parametrize("column", [0, 1])
    def test_one_column_missing_is_a_row_missing(self, rule, column):
        X, whole = TEST.X.copy(), TEST.X.copy()
        X[7, column], whole[7] = np.nan, np.nan
        a, b = (tracker(rule).filter(rows) for rows in (X, whole))
        assert_array_equal(a.mean, b.mean)
        assert_array_equal(a.missing, b.missing)

    def test_a_state_without_successor(self, rule):
        """Training ends in a state never seen before: nothing is known of what follows it."""
        z = np.array([0, 1, 0, 1, 1, 0, 0, 1, 2])
        tiny = dict.fromkeys(("reg_prior", "reg_transition", "reg_smoother"), 1e-10)
        reg = 1e-10 if rule == "importance" else 1e-20
        model = km.KernelBayesFilter(rule, "delta", "delta", reg=reg, **tiny).fit(z[:, None], z)
        X = np.array([[1.0], [2.0], [np.nan], [1.0], [np.nan]])
        result = quietly(model.filter, X)
        check_sound(result)
        assert_allclose(result.mean[[0, 1, 3], 0], [1, 2, 1], atol=1e-6)
        check_sound(quietly(model.smooth, X))
        assert np.isfinite(quietly(model.forecast, X[:2], 3).mean).all()
        belief = model.start().update([2.0])
        for _ in range(3):
            assert np.isfinite(quietly(belief.predict).mean).all()

    def test_a_far_state_without_successor(self, rule):
        z = np.append(np.random.default_rng(0).normal(size=50), 100.0)
        model = km.KernelBayesFilter(rule, kernel_z=km.Gaussian(1.0)).fit(z[:, None], z)
        result = quietly(model.smooth, [[0.0], [100.0], [np.nan], [np.nan], [0.1]])
        check_sound(result)
        assert result.mean[-1] == pytest.approx(0.1, abs=0.3)

    def test_a_sequence_of_one_row(self, rule):
        model = tracker(rule)
        filtered, smoothed = (getattr(model, v)(TEST.X[:1]) for v in ("filter", "smooth"))
        check_sound(filtered)
        assert_array_equal(smoothed.mean, filtered.mean)
        assert model.forecast(TEST.X[:1], 2).mean.shape == (2, 2)
        assert model.predict(TEST.X[:1]).shape == (1, 2)

    def test_many_sequences_of_one_row(self, rule):
        """Each is kernel Bayes' rule with the training law for a prior."""
        model = tracker(rule)
        result = model.filter(TEST.X, [1] * 40)
        for i in (0, 20, 39):
            assert_allclose(result.mean[i], model.filter(TEST.X[i : i + 1]).mean[0], atol=1e-10)

    def test_the_first_step_is_kernel_bayes_rule(self, rule):
        model = tracker(rule)
        bayes = km.KernelBayes(
            rule, model.kernel_x_, model.kernel_z_, model.reg_prior_, model.reg_
        ).fit(TRAIN.X, TRAIN.Z)
        assert_allclose(model.predict(TEST.X, [1] * 40), bayes.predict(TEST.X), atol=1e-4)


@pytest.mark.parametrize("rule", RULES)
class TestPriors:
    """A prior that the training states know nothing of is no reason for a NaN."""

    @pytest.mark.parametrize("prior", [[[1e3, 1e3]], [[1e30, 0.0]], [[10.0, 10.0]], [[3.0, 3.0]]])
    @pytest.mark.parametrize("first", ["seen", "missing", "spike"])
    def test_far_away(self, rule, prior, first):
        X = TEST.X.copy()
        if first != "seen":
            X[0] = np.nan if first == "missing" else 1e6
        for verb in ("filter", "smooth"):
            result = quietly(getattr(tracker(rule), verb), X, prior=prior)
            check_sound(result)
            alone = quietly(getattr(tracker(rule), verb), X)
            assert_allclose(result.mean[-1], alone.mean[-1], atol=0.05)
        belief = quietly(tracker(rule).start, prior)
        assert np.isfinite(belief.mean).all()
        assert np.isfinite(quietly(belief.predict).mean).all()

    @pytest.mark.parametrize("total", [0.0, -1.0])
    def test_weights_that_are_no_law_are_refused(self, rule, total):
        prior = km.MeanEmbedding(TRAIN.Z, np.full(200, total / 200), km.Gaussian(1.0))
        for use in (tracker(rule).start, lambda p: tracker(rule).filter(TEST.X, prior=p)):
            with pytest.raises(ValueError, match=r"\bprior\b.*sum"):
                use(prior)

    def test_the_mean_of_the_start_is_that_of_the_prior(self, rule):
        points = np.random.default_rng(0).normal([1.0, 0.5], 0.2, size=(7, 2))
        belief = tracker(rule).start(points)
        assert_allclose(belief.mean, points.mean(axis=0), atol=1e-10)
        assert_allclose(belief.embedding.mean(), belief.mean, atol=1e-10)

    @pytest.mark.parametrize("value", [np.nan, 1e6])
    def test_a_track_starts_where_a_stream_does(self, rule, value):
        points = np.array([[1.2, 0.9], [1.5, 0.9]])
        X = np.array([[value, value], [1.0, 1.0]])
        track = quietly(tracker(rule).filter, X, prior=points)
        belief = quietly(tracker(rule).start(points).update, X[0])
        assert_allclose(track.mean[0], belief.mean, atol=1e-9)
        assert_allclose(track.embeddings(TEST.Z)[0], belief.embedding(TEST.Z), atol=1e-9)
        assert_allclose(track.mean[1], belief.predict().update(X[1]).mean, atol=1e-9)

    def test_its_points_are_kept_once_for_all_trajectories(self, rule):
        """Or two hundred trajectories with a first row missing would fill the memory."""
        X = np.tile(TEST.X[:4], (50, 1))
        X[::4] = np.nan
        points = TEST.Z[:30]
        found = tracker(rule).filter(X, [4] * 50, prior=points)
        assert len(found.embeddings.points) <= 230
        alone = tracker(rule).filter(X[:4], prior=points)
        assert_allclose(found.mean, np.tile(alone.mean, (50, 1)), atol=1e-9)
        assert_allclose(found.embeddings.mean(), found.mean, atol=1e-8)

    def test_none_is_the_training_law(self, rule):
        belief = tracker(rule).start()
        assert_allclose(belief.mean, TRAIN.Z.mean(axis=0))
        assert_allclose(belief.embedding.weights, 1 / 200)
        told = tracker(rule).filter(TEST.X, prior=TRAIN.Z)
        assert_allclose(told.mean, tracker(rule).filter(TEST.X).mean, atol=1e-10)

    def test_a_prior_counts(self, rule):
        """Two opposite points of the circle, with the first observations missing."""
        X = np.concatenate([np.full((3, 2), np.nan), TEST.X])
        results = [tracker(rule).filter(X, prior=[[s, 0.0]]).mean[1] for s in (1.0, -1.0)]
        turned = np.array([np.cos(0.3), np.sin(0.3)])
        assert_allclose(results, [turned, -turned], atol=0.3)


# ------------------------------------------------------------------------------- interfaces
class TestResults:
    def test_shapes_and_names(self):
        result = tracker().filter(TEST.X)
        assert len(result) == 40
        assert result.mean.shape == (40, 2)
        assert result.embeddings.batch == 40
        assert repr(result) == "FilterResult(40 steps, 2 state(s), 0 collapsed, 0 missing)"
        assert_allclose(result.embeddings.mean(), result.mean, atol=1e-8)
        assert result.embeddings is result.embeddings

    def test_the_repr_counts(self):
        X = TEST.X.copy()
        X[3], X[5:7] = 1e6, np.nan
        assert "1 collapsed, 2 missing" in repr(quietly(tracker().filter, X))

    @pytest.mark.parametrize("verb", ["filter", "smooth"])
    def test_answers_of_embeddings(self, verb):
        """All that an embedding can be asked, for a track with every kind of step in it."""
        X = TEST.X[:8].copy()
        X[0], X[3], X[5] = np.nan, np.nan, 1e6
        m = quietly(getattr(tracker(), verb), X).embeddings
        assert m.covariance().shape == (8, 2, 2)
        assert m.density(TEST.Z).shape == (8, 40)
        assert m.mode().shape == (8, 2)
        assert m.sample(3, 0).shape == (8, 3, 2)
        assert m.kernel == tracker().kernel_z_
        assert_array_equal(m.points, TRAIN.Z)

    def test_intervals(self):
        result = tracker().filter(TEST.X)
        lower, upper = result.interval(0.9)
        expected = result.embeddings.interval(0.9)
        assert_array_equal(lower, expected[0])
        assert_array_equal(upper, expected[1])
        inner = result.interval(0.5)
        assert (lower <= inner[0]).all()
        assert (inner[1] <= upper).all()
        covered = (lower <= TEST.Z) & (upper >= TEST.Z)
        assert 0.7 < covered.mean() < 1

    def test_forecasts(self):
        ahead = tracker().forecast(TEST.X, 3)
        assert ahead.embeddings.batch == ahead.observations.batch == 3
        assert_allclose(ahead.mean, ahead.embeddings.mean(), atol=1e-12)
        lower, upper = ahead.interval(0.8)
        assert lower.shape == upper.shape == (3, 2)
        assert (lower < upper).all()
        assert ahead.observations.kernel == tracker().kernel_x_
        assert_array_equal(ahead.observations.points, TRAIN.X)
        assert repr(ahead) == "Forecast(3 steps, 2 state(s))"
        assert len(ahead) == 3
        wide = tracker().forecast(TEST.X, 60).interval(0.9)
        assert np.mean(wide[1][-1] - wide[0][-1]) > 1.5 * np.mean(wide[1][0] - wide[0][0])

    def test_predict_and_score(self):
        model = tracker()
        assert_array_equal(model.predict(TEST.X), model.filter(TEST.X).mean)
        mode = model.predict(TEST.X, point="mode")
        assert_allclose(mode, model.filter(TEST.X).embeddings.mode())
        assert np.mean((mode - TEST.Z) ** 2) < 0.1
        residual = np.sum((model.predict(TEST.X) - TEST.Z) ** 2, axis=0)
        total = np.sum((TEST.Z - TEST.Z.mean(axis=0)) ** 2, axis=0)
        assert model.score(TEST.X, TEST.Z) == pytest.approx(np.mean(1 - residual / total))
        parts = model.score(TEST.X, TEST.Z, lengths=[20, 20])
        assert parts != model.score(TEST.X, TEST.Z)

    def test_results_survive_pickle(self):
        result, ahead = tracker().filter(TEST.X), tracker().forecast(TEST.X, 2)
        again = pickle.loads(pickle.dumps(result))
        assert_array_equal(again.mean, result.mean)
        assert_array_equal(again.embeddings.weights, result.embeddings.weights)
        assert_array_equal(pickle.loads(pickle.dumps(ahead)).mean, ahead.mean)

    def test_nothing_given_is_changed_or_looked_at_again(self):
        X, Z, new = TRAIN.X.copy(), TRAIN.Z.copy(), TEST.X.copy()
        model = km.KernelBayesFilter().fit(X, Z)
        result = model.filter(new)
        expected = result.mean.copy(), result.embeddings.weights.copy()
        X[:], Z[:], new[:] = 7.0, 7.0, 7.0
        assert_array_equal(result.mean, expected[0])
        assert_array_equal(result.embeddings.weights, expected[1])
        assert_array_equal(model.filter(TEST.X).mean, expected[0])

    def test_input_is_left_alone(self):
        X, Z, new = TRAIN.X.copy(), TRAIN.Z.copy(), TEST.X.copy()
        new[3], new[5] = np.nan, 1e6
        kept = new.copy()
        for a in (X, Z, new):
            a.setflags(write=False)
        model = km.KernelBayesFilter().fit(X, Z, [50, 150])
        quietly(model.smooth, new, supervision=(TEST.X, TEST.Z, 0.1))
        quietly(model.forecast, new, 3)
        assert_array_equal(new, kept)

    def test_the_same_twice(self):
        a, b = (km.KernelBayesFilter(max_active=60).fit(TRAIN.X, TRAIN.Z) for _ in range(2))
        assert_array_equal(a.filter(TEST.X).mean, b.filter(TEST.X).mean)
        assert_array_equal(a.filter(TEST.X).mean, a.filter(TEST.X).mean)


class TestBeliefs:
    @pytest.fixture
    def belief(self) -> km.Belief:
        return tracker().start()

    def test_they_change_in_place_and_are_returned(self, belief):
        before = belief.mean
        assert belief.update(TEST.X[0]) is belief
        updated = belief.mean
        assert belief.predict() is belief
        assert not np.allclose(before, updated)
        assert not np.allclose(updated, belief.mean)

    def test_copies_are_independent(self, belief):
        belief.update(TEST.X[0])
        for kept in (belief.copy(), copy.copy(belief), copy.deepcopy(belief)):
            mean, W = kept.mean, kept.embedding.weights
            belief.predict().update(TEST.X[1])
            assert_array_equal(kept.mean, mean)
            assert_array_equal(kept.embedding.weights, W)
            now = belief.mean
            kept.predict()
            assert_array_equal(belief.mean, now)

    def test_two_from_one_start(self, belief):
        other = tracker().start()
        belief.update(TEST.X[0])
        assert_allclose(other.mean, TRAIN.Z.mean(axis=0))

    def test_what_it_tells(self, belief):
        assert belief.mean.shape == (2,)
        assert belief.embedding.batch is None
        assert_allclose(belief.embedding.mean(), belief.mean, atol=1e-9)
        assert belief.previous is None
        updated = belief.update(TEST.X[0]).mean
        assert belief.previous is None
        assert_array_equal(belief.predict().previous, updated)
        assert_allclose(belief.embedding.mean(), belief.mean, atol=1e-9)
        assert repr(belief).startswith("Belief(mean=[")
        assert not belief.collapsed

    def test_a_missing_observation_says_nothing(self, belief):
        belief.update(TEST.X[0]).predict()
        before, W = belief.mean, belief.embedding.weights
        for x in ([np.nan, np.nan], [np.nan, 0.0]):
            assert belief.update(x) is belief
            assert_array_equal(belief.mean, before)
            assert_array_equal(belief.embedding.weights, W)
        assert belief.previous is not None

    def test_a_missing_first_observation_keeps_the_prior(self):
        points = TEST.Z[:5]
        belief = tracker().start(points).update([np.nan, np.nan])
        assert_allclose(belief.mean, points.mean(axis=0), atol=1e-12)
        prior = km.MeanEmbedding(points, kernel=tracker().kernel_z_)
        assert_allclose(belief.embedding(TEST.Z), prior(TEST.Z), atol=1e-12)

    @pytest.mark.parametrize("x", [[0.5, 0.5], (0.5, 0.5), np.float32([0.5, 0.5])])
    def test_observations_of_any_kind(self, belief, x):
        expected = tracker().filter([[0.5, 0.5]]).mean[0]
        assert_allclose(belief.update(x).mean, expected)
        assert_allclose(tracker().start().update(pd.Series(x)).mean, expected)

    def test_a_number_where_there_is_one_column(self):
        model = km.KernelBayesFilter().fit(TRAIN.X[:, :1], TRAIN.Z)
        assert_array_equal(model.start().update(0.5).mean, model.start().update([0.5]).mean)

    def test_it_survives_pickle(self, belief):
        belief.update(TEST.X[0])
        again = pickle.loads(pickle.dumps(belief))
        assert_allclose(again.predict().mean, belief.predict().mean, atol=1e-12)

    def test_predictions_without_end(self, belief):
        """More than the dynamics can carry: mass is restored, the law is the stationary one."""
        belief.update(TEST.X[0])
        for _ in range(3000):
            belief.predict()
        assert np.isfinite(belief.mean).all()
        assert np.linalg.norm(belief.mean - TRAIN.Z.mean(axis=0)) < 0.2
        assert_allclose(belief.update(TEST.X[0]).mean, TEST.Z[0], atol=0.5)


# ------------------------------------------------------------------------------- shapes, tables
class TestTables:
    def test_one_state(self):
        """(n,) comes back as (n,), a column as a column; inside there are two axes always."""
        z = TRAIN.Z[:, 0]
        flat, column = (km.KernelBayesFilter().fit(TRAIN.X, a) for a in (z, z[:, None]))
        assert flat.predict(TEST.X).shape == (40,)
        assert flat.predict(TEST.X, point="mode").shape == (40,)
        assert column.predict(TEST.X).shape == (40, 1)
        assert flat.filter(TEST.X).mean.shape == (40, 1)
        assert_array_equal(flat.predict(TEST.X), column.predict(TEST.X)[:, 0])
        assert flat.score(TEST.X, TEST.Z[:, 0]) == column.score(TEST.X, TEST.Z[:, :1])
        assert flat.forecast(TEST.X, 3).mean.shape == (3, 1)
        assert flat.start().mean.shape == (1,)
        series = km.KernelBayesFilter().fit(TRAIN.X, pd.Series(z, name="u"))
        assert_array_equal(series.predict(TEST.X), flat.predict(TEST.X))
        assert flat.filter(TEST.X, prior=[0.1, 0.2]).mean.shape == (40, 1)
        guided = flat.filter(TEST.X, supervision=(TEST.X, TEST.Z[:, 0], 0.1))
        assert guided.mean.shape == (40, 1)

    def test_frames_are_arrays(self):
        X, Z = pd.DataFrame(TRAIN.X, columns=["a", "b"]), pd.DataFrame(TRAIN.Z, columns=["u", "v"])
        new = pd.DataFrame(TEST.X, columns=["a", "b"], index=range(100, 140))
        new.iloc[3, 0] = np.nan
        model = km.KernelBayesFilter().fit(X, Z)
        result = model.filter(new)
        assert_allclose(result.mean, tracker().filter(new.to_numpy()).mean, atol=1e-10)
        assert_array_equal(np.flatnonzero(result.missing), [3])
        assert_array_equal(model.feature_names_in_, ["a", "b"])
        assert model.score(new, pd.DataFrame(TEST.Z, columns=["u", "v"])) > 0.8
        assert_allclose(
            model.start().update(new.iloc[0]).mean, model.filter(new.iloc[:1]).mean[0], atol=1e-12
        )
        masked = new.astype("Float64")
        assert masked.iloc[3, 0] is pd.NA
        assert_allclose(model.filter(masked).mean, result.mean, atol=1e-10)

    def test_kernels_by_column_name(self):
        X, Z = pd.DataFrame(TRAIN.X, columns=["a", "b"]), pd.DataFrame(TRAIN.Z, columns=["u", "v"])
        by_name = km.KernelBayesFilter(
            kernel_x=km.on_columns({"a": km.Gaussian(0.8), "b": km.Laplace(0.9)}),
            kernel_z=km.on_columns({"u": km.Gaussian(0.6), "v": km.Gaussian(0.7)}),
        ).fit(X, Z)
        by_number = km.KernelBayesFilter(
            kernel_x=km.on_columns({0: km.Gaussian(0.8), 1: km.Laplace(0.9)}),
            kernel_z=km.on_columns({0: km.Gaussian(0.6), 1: km.Gaussian(0.7)}),
        ).fit(TRAIN.X, TRAIN.Z)
        found = by_name.predict(pd.DataFrame(TEST.X, columns=["a", "b"]))
        assert_allclose(found, by_number.predict(TEST.X), atol=1e-10)

    def test_constant_columns_beside_others(self):
        one = np.ones((200, 1))
        X, Z = np.hstack([TRAIN.X, 7 * one]), np.hstack([0.1 * one, TRAIN.Z])
        model = km.KernelBayesFilter().fit(X, Z)
        new = np.hstack([TEST.X, 7 * one[:40]])
        assert_allclose(model.predict(new)[:, 0], 0.1)
        assert np.mean((model.predict(new)[:, 1:] - TEST.Z) ** 2) < 0.1
        assert_allclose(model.smooth(new).mean[:, 0], 0.1)

    def test_a_state_that_never_changes(self):
        with pytest.raises(ValueError, match=r"\bZ\b.*constant"):
            km.KernelBayesFilter().fit(TRAIN.X, np.ones(200))
        model = km.KernelBayesFilter(kernel_z=km.Gaussian(1.0)).fit(TRAIN.X, np.full(200, 3.0))
        assert_allclose(model.predict(TEST.X), 3.0)

    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("n", [2, 3, 5])
    def test_few_rows(self, rule, n):
        model = quietly(km.KernelBayesFilter(rule).fit, TRAIN.X[:n], TRAIN.Z[:n])
        check_sound(quietly(model.smooth, TEST.X))

    @pytest.mark.parametrize("rule", RULES)
    def test_two_rows_repeated(self, rule):
        X, Z = (np.tile(a[:2], (20, 1)) for a in (TRAIN.X, TRAIN.Z))
        model = quietly(km.KernelBayesFilter(rule).fit, X, Z)
        check_sound(quietly(model.smooth, TEST.X))

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda X, Z: (np.where(np.arange(200)[:, None] == 50, 1e6, X), Z),
            lambda X, Z: (X, np.where(np.arange(200)[:, None] == 50, 1e6, Z)),
            lambda X, Z: (X[np.arange(200) // 40], Z[np.arange(200) // 40]),
            lambda X, Z: (X, np.where(np.arange(200) < 150, 0.0, 1.0)),
            lambda X, Z: ((X > 0).astype(float), Z > 0),
            lambda X, Z: (np.hstack([X] * 100), Z),
            lambda X, Z: (X[:60], np.random.default_rng(0).normal(size=(60, 40))),
        ],
        ids=["spike", "wild state", "stuck", "steps", "binary", "200 columns", "40 states"],
    )
    @pytest.mark.parametrize("rule", RULES)
    def test_odd_training_data(self, rule, spoil):
        X, Z = spoil(TRAIN.X, TRAIN.Z)
        model = quietly(km.KernelBayesFilter(rule).fit, X, Z)
        check_sound(quietly(model.smooth, X[:30]))
        assert np.isfinite(quietly(model.forecast, X[:5], 3).mean).all()

    @pytest.mark.parametrize("value", [1e-14, 1e3, 1e12])
    @pytest.mark.parametrize("name", ["reg", "reg_prior", "reg_transition", "reg_smoother"])
    @pytest.mark.parametrize("rule", RULES)
    def test_regularisers_far_out(self, rule, name, value):
        model = km.KernelBayesFilter(rule, **{name: value}).fit(TRAIN.X[:80], TRAIN.Z[:80])
        check_sound(quietly(model.smooth, TEST.X))

    @pytest.mark.parametrize("kernel", ["laplace", "matern", "linear", km.Linear(offset=1.0)])
    @pytest.mark.parametrize("rule", RULES)
    def test_other_kernels(self, rule, kernel):
        model = quietly(km.KernelBayesFilter(rule, kernel, kernel).fit, TRAIN.X, TRAIN.Z)
        check_sound(quietly(model.smooth, TEST.X))

    @pytest.mark.parametrize("scale", [1e-12, 1e12, 1e35])
    @pytest.mark.parametrize("rule", RULES)
    def test_units_do_not_matter(self, rule, scale):
        model = km.KernelBayesFilter(rule).fit(scale * TRAIN.X, scale * TRAIN.Z)
        expected = scale * tracker(rule).predict(TEST.X)
        assert_allclose(model.predict(scale * TEST.X), expected, rtol=1e-4, atol=1e-4 * scale)

    def test_far_from_zero(self):
        model = km.KernelBayesFilter().fit(1e7 + TRAIN.X, TRAIN.Z - 1e7)
        found = model.predict(1e7 + TEST.X) + 1e7
        assert_allclose(found, tracker().predict(TEST.X), atol=1e-3)

    def test_integers_and_single_precision(self):
        X, Z = TRAIN.X.astype(np.float32), TRAIN.Z.astype(np.float32)
        found = km.KernelBayesFilter().fit(X, Z).predict(TEST.X.astype(np.float32))
        assert found.dtype == np.float64
        assert_allclose(found, tracker().predict(TEST.X), atol=1e-3)
        whole = np.arange(60) % 7
        model = quietly(km.KernelBayesFilter().fit, whole[:, None], whole)
        assert np.isfinite(model.predict(whole[:9, None])).all()


# ------------------------------------------------------------------------------- manifolds
def gap(a, b) -> np.ndarray:
    """Distance of two angles around the circle."""
    return np.abs((np.ravel(a) - np.ravel(b) + np.pi) % (2 * np.pi) - np.pi)


class TestManifolds:
    @pytest.mark.parametrize("rule", RULES)
    def test_angles(self, rule):
        train, test = (make_hidden_angle(n, random_state=1000 + n) for n in (400, 100))
        model = km.KernelBayesFilter(rule, kernel_z=km.Periodic(0.5))
        angle = model.fit(train.X, train.theta).predict(test.X, point="mode")
        assert angle.shape == (100,)
        assert ((angle >= -1e-9) & (angle <= 2 * np.pi + 1e-9)).all()
        assert np.mean(gap(angle, test.theta)) < 0.35
        turned = model.fit(train.X, train.theta + 20 * np.pi)  # ten whole turns
        again = turned.predict(test.X, point="mode")
        assert np.quantile(gap(again, angle), 0.9) < 1e-3

    def test_the_angle_may_be_given_as_none_scale(self):
        """The default halves the median lengthscale of any kernel? Only of its own: Gaussian."""
        train = make_hidden_angle(200, random_state=1)
        model = km.KernelBayesFilter(kernel_z="periodic").fit(train.X, train.theta)
        assert model.kernel_z_ == km.Periodic().resolve(train.theta[:, None])

    @staticmethod
    def spinning(n: int, rng) -> tuple[np.ndarray, np.ndarray]:
        """A body that turns about an axis it wobbles on; two of its points are seen, noisily."""
        turn, states = Turn.random(rng=rng), []
        for _ in range(n):
            turn = Turn.from_rotvec([0.1, 0.0, 0.3] + 0.05 * rng.normal(size=3)) * turn
            states.append(turn.as_matrix())
        R = np.array(states)
        seen = np.concatenate([R[:, :, 0], R[:, :, 1]], axis=1)
        return seen + 0.2 * rng.normal(size=seen.shape), R.reshape(n, 9)

    @pytest.mark.parametrize(
        "kernel", [km.Rotation(), km.Frobenius(rotations=True)], ids=["geodesic", "trace"]
    )
    @pytest.mark.parametrize("rule", RULES)
    def test_rotations(self, kernel, rule):
        rng = np.random.default_rng(1000)
        X, Z = self.spinning(400, rng)
        model = km.KernelBayesFilter(rule, kernel_z=kernel)
        model = quietly(model.fit, X[:340], Z[:340])
        found = quietly(model.predict, X[340:], point="mode").reshape(-1, 3, 3)
        assert_allclose(found @ np.swapaxes(found, 1, 2), np.tile(np.eye(3), (60, 1, 1)), atol=1e-8)
        assert_allclose(np.linalg.det(found), 1.0, atol=1e-8)
        truth = Turn.from_matrix(Z[340:].reshape(-1, 3, 3))
        angles = (truth.inv() * Turn.from_matrix(found)).magnitude()
        assert np.median(angles) < 0.35

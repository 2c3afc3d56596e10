"""What the kernel Bayes filter gives back: tracks, beliefs, shapes, tables, angles, rotations."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from filter_cases import DENSE, RULES, TEST, TRAIN, check_sound, quietly, tracker
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.transform import Rotation as Turn
from sklearn.base import clone

import kernelmean as km
from kernelmean.datasets import make_hidden_angle


# ------------------------------------------------------------------------------- interfaces
class TestResults:
    def test_shapes_and_names(self):
        result = tracker().filter(TEST.X)
        assert len(result) == 40
        assert result.mean().shape == (40, 2)
        assert result.embedding.batch == 40
        assert repr(result) == "FilterResult(40 steps, 2 state(s), 0 collapsed, 0 missing)"
        assert_allclose(result.embedding.mean(), result.mean(), atol=1e-8)
        assert result.embedding is result.embedding

    def test_weights_are_formed_for_some_steps_at_a_time(self, monkeypatch):
        whole, result = tracker().filter(TEST.X), tracker().filter(TEST.X)
        monkeypatch.setattr("kernelmean.filtering.results.block_rows", lambda width: 7)
        for ask in ("std", "cov", "interval"):
            assert_allclose(getattr(result, ask)(), getattr(whole, ask)(), atol=1e-12)
        assert "embedding" not in vars(result)  # of all steps and all training states

    def test_columns_of_states_in_another_order_are_refused(self):
        X, Z = pd.DataFrame(TRAIN.X, columns=["a", "b"]), pd.DataFrame(TRAIN.Z, columns=["p", "q"])
        m, other = km.KernelBayesFilter(inference="kbr").fit(X, Z), Z[["q", "p"]]
        law = m.start()
        asked = [
            lambda: m.score(X, other),
            lambda: m.start(other),
            lambda: m.filter(X, prior=other),
            lambda: m.filter(X, supervision=(X, other, 1.0)),
            lambda: m.filter(X, supervision=(X[["b", "a"]], Z, 1.0)),
            lambda: law.update(TEST.X[0], (X[:1], other[:1], 1.0)),
            lambda: law.log_density(other),
            lambda: law.crps(other),
            lambda: m.forecast(X, 1).observations.density(X[["b", "a"]]),
        ]
        for ask in asked:
            with pytest.raises(ValueError, match="the same order is needed"):
                ask()
        assert {"p", "q_lower"} <= set(law.to_frame())

    def test_the_repr_counts(self):
        X = TEST.X.copy()
        X[3], X[5:7] = 1e6, np.nan
        assert "1 collapsed, 2 missing" in repr(quietly(tracker().filter, X))

    @pytest.mark.parametrize("verb", ["filter", "smooth"])
    def test_answers_of_embeddings(self, verb):
        """All that an embedding can be asked, for a track with every kind of step in it."""
        X = TEST.X[:8].copy()
        X[0], X[3], X[5] = np.nan, np.nan, 1e6
        m = quietly(getattr(tracker(), verb), X).embedding
        assert m.cov().shape == (8, 2, 2)
        assert m.density(TEST.Z).shape == (8, 40)
        assert m.mode().shape == (8, 2)
        assert m.sample(3, 0).shape == (8, 3, 2)
        assert m.kernel == tracker().kernel_z_
        assert_array_equal(m.points, TRAIN.Z)

    def test_intervals(self):
        result = tracker().filter(TEST.X)
        lower, upper = result.interval(0.9)
        expected = result.embedding.interval(0.9)
        assert_array_equal(lower, expected[0])
        assert_array_equal(upper, expected[1])
        inner = result.interval(0.5)
        assert (lower <= inner[0]).all()
        assert (inner[1] <= upper).all()
        covered = (lower <= TEST.Z) & (upper >= TEST.Z)
        assert 0.7 < covered.mean() < 1

    def test_forecasts(self):
        ahead = tracker().forecast(TEST.X, 3)
        assert ahead.embedding.batch == ahead.observations.embedding.batch == 3
        assert_allclose(ahead.mean(), ahead.embedding.mean(), atol=1e-12)
        lower, upper = ahead.interval(0.8)
        assert lower.shape == upper.shape == (3, 2)
        assert (lower < upper).all()
        assert ahead.observations.embedding.kernel == tracker().kernel_x_
        assert_array_equal(ahead.observations.embedding.points, TRAIN.X)
        assert repr(ahead) == "Forecast(3 steps, 2 state(s))"
        assert len(ahead) == 3
        wide = tracker().forecast(TEST.X, 60).interval(0.9)
        assert np.mean(wide[1][-1] - wide[0][-1]) > 1.5 * np.mean(wide[1][0] - wide[0][0])

    def test_predict_and_score(self):
        model = tracker()
        assert_array_equal(model.predict(TEST.X), model.filter(TEST.X).mean())
        mode = model.predict(TEST.X, point="mode")
        assert_allclose(mode, model.filter(TEST.X).embedding.mode())
        assert np.mean((mode - TEST.Z) ** 2) < 0.1
        residual = np.sum((model.predict(TEST.X) - TEST.Z) ** 2, axis=0)
        total = np.sum((TEST.Z - TEST.Z.mean(axis=0)) ** 2, axis=0)
        assert model.score(TEST.X, TEST.Z) == pytest.approx(np.mean(1 - residual / total))
        parts = model.score(TEST.X, TEST.Z, lengths=[20, 20])
        assert parts != model.score(TEST.X, TEST.Z)

    def test_results_survive_pickle(self):
        result, ahead = tracker().filter(TEST.X), tracker().forecast(TEST.X, 2)
        again = pickle.loads(pickle.dumps(result))
        assert_array_equal(again.mean(), result.mean())
        assert_array_equal(again.embedding.weights, result.embedding.weights)
        assert_array_equal(pickle.loads(pickle.dumps(ahead)).mean(), ahead.mean())

    def test_nothing_given_is_changed_or_looked_at_again(self):
        X, Z, new = TRAIN.X.copy(), TRAIN.Z.copy(), TEST.X.copy()
        model = km.KernelBayesFilter(inference="kbr").fit(X, Z)
        result = model.filter(new)
        expected = result.mean().copy(), result.embedding.weights.copy()
        X[:], Z[:], new[:] = 7.0, 7.0, 7.0
        assert_array_equal(result.mean(), expected[0])
        assert_array_equal(result.embedding.weights, expected[1])
        assert_array_equal(model.filter(TEST.X).mean(), expected[0])

    @pytest.mark.usefixtures("short_searches")
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

    @pytest.mark.usefixtures("short_searches")
    def test_the_same_twice(self):
        X, Z = TRAIN.X[:100], TRAIN.Z[:100]
        a, b = (km.KernelBayesFilter(max_active=60).fit(X, Z) for _ in range(2))
        assert_array_equal(a.filter(TEST.X).mean(), b.filter(TEST.X).mean())
        assert_array_equal(a.filter(TEST.X).mean(), a.filter(TEST.X).mean())


class TestBeliefs:
    @pytest.fixture
    def belief(self) -> km.Belief:
        return tracker().start()

    def test_they_change_in_place_and_are_returned(self, belief):
        before = belief.mean()
        assert belief.update(TEST.X[0]) is belief
        updated = belief.mean()
        assert belief.predict() is belief
        assert not np.allclose(before, updated)
        assert not np.allclose(updated, belief.mean())

    def test_copies_are_independent(self, belief):
        belief.update(TEST.X[0])
        for kept in (belief.copy(), copy.copy(belief), copy.deepcopy(belief)):
            mean, W = kept.mean(), kept.embedding.weights
            belief.predict().update(TEST.X[1])
            assert_array_equal(kept.mean(), mean)
            assert_array_equal(kept.embedding.weights, W)
            now = belief.mean()
            kept.predict()
            assert_array_equal(belief.mean(), now)

    def test_two_from_one_start(self, belief):
        other = tracker().start()
        belief.update(TEST.X[0])
        assert_allclose(other.mean(), TRAIN.Z.mean(axis=0))

    def test_what_it_tells(self, belief):
        assert belief.mean().shape == (2,)
        assert belief.embedding.batch is None
        assert_allclose(belief.embedding.mean(), belief.mean(), atol=1e-9)
        assert belief.previous is None
        updated = belief.update(TEST.X[0]).mean()
        assert belief.previous is None
        assert_array_equal(belief.predict().previous, updated)
        assert_allclose(belief.embedding.mean(), belief.mean(), atol=1e-9)
        assert repr(belief).startswith("Belief(mean=[")
        assert not belief.collapsed

    def test_a_missing_observation_says_nothing(self, belief):
        belief.update(TEST.X[0]).predict()
        before, W = belief.mean(), belief.embedding.weights
        for x in ([np.nan, np.nan], [np.nan, 0.0]):
            assert belief.update(x) is belief
            assert_array_equal(belief.mean(), before)
            assert_array_equal(belief.embedding.weights, W)
        assert belief.previous is not None

    def test_a_missing_first_observation_keeps_the_prior(self):
        points = TEST.Z[:5]
        belief = tracker().start(points).update([np.nan, np.nan])
        assert_allclose(belief.mean(), points.mean(axis=0), atol=1e-12)
        prior = km.MeanEmbedding(points, kernel=tracker().kernel_z_)
        assert_allclose(belief.embedding(TEST.Z), prior(TEST.Z), atol=1e-12)

    @pytest.mark.parametrize("x", [[0.5, 0.5], (0.5, 0.5), np.float32([0.5, 0.5])])
    def test_observations_of_any_kind(self, belief, x):
        expected = tracker().filter([[0.5, 0.5]]).mean()[0]
        assert_allclose(belief.update(x).mean(), expected)
        assert_allclose(tracker().start().update(pd.Series(x)).mean(), expected)

    @pytest.mark.usefixtures("short_searches")
    def test_a_number_where_there_is_one_column(self):
        model = km.KernelBayesFilter().fit(TRAIN.X[:, :1], TRAIN.Z)
        assert_array_equal(model.start().update(0.5).mean(), model.start().update([0.5]).mean())

    def test_it_survives_pickle(self, belief):
        belief.update(TEST.X[0])
        again = pickle.loads(pickle.dumps(belief))
        assert_allclose(again.predict().mean(), belief.predict().mean(), atol=1e-12)

    def test_predictions_without_end(self, belief):
        """More than the dynamics can carry: mass is restored, the law is the stationary one."""
        belief.update(TEST.X[0])
        for _ in range(3000):
            belief.predict()
        assert np.isfinite(belief.mean()).all()
        assert np.linalg.norm(belief.mean() - TRAIN.Z.mean(axis=0)) < 0.2
        assert_allclose(belief.update(TEST.X[0]).mean(), TEST.Z[0], atol=0.5)


# ------------------------------------------------------------------------------- shapes, tables
class TestTables:
    @pytest.mark.usefixtures("short_searches")
    def test_one_state(self):
        """(n,) comes back as (n,), a column as a column; inside there are two axes always."""
        z = TRAIN.Z[:, 0]
        rule = km.KernelBayesFilter(inference="kbr")
        flat, column = (clone(rule).fit(TRAIN.X, a) for a in (z, z[:, None]))
        assert flat.predict(TEST.X).shape == (40,)
        assert flat.predict(TEST.X, point="mode").shape == (40,)
        assert column.predict(TEST.X).shape == (40, 1)
        assert flat.filter(TEST.X).mean().shape == (40, 1)
        assert_array_equal(flat.predict(TEST.X), column.predict(TEST.X)[:, 0])
        assert flat.score(TEST.X, TEST.Z[:, 0]) == column.score(TEST.X, TEST.Z[:, :1])
        assert flat.forecast(TEST.X, 3).mean().shape == (3, 1)
        assert flat.start().mean().shape == (1,)
        series = rule.fit(TRAIN.X, pd.Series(z, name="u"))
        assert_array_equal(series.predict(TEST.X), flat.predict(TEST.X))
        assert flat.filter(TEST.X, prior=[0.1, 0.2]).mean().shape == (40, 1)
        guided = flat.filter(TEST.X, supervision=(TEST.X, TEST.Z[:, 0], 0.1))
        assert guided.mean().shape == (40, 1)

    def test_frames_are_arrays(self):
        X, Z = pd.DataFrame(TRAIN.X, columns=["a", "b"]), pd.DataFrame(TRAIN.Z, columns=["u", "v"])
        new = pd.DataFrame(TEST.X, columns=["a", "b"], index=range(100, 140))
        new.iloc[3, 0] = np.nan
        model = km.KernelBayesFilter(inference="kbr").fit(X, Z)
        result = model.filter(new)
        assert_allclose(result.mean(), tracker().filter(new.to_numpy()).mean(), atol=1e-10)
        assert_array_equal(np.flatnonzero(result.missing), [3])
        assert_array_equal(model.feature_names_in_, ["a", "b"])
        assert model.score(new, pd.DataFrame(TEST.Z, columns=["u", "v"])) > 0.8
        assert_allclose(
            model.start().update(new.iloc[0]).mean(),
            model.filter(new.iloc[:1]).mean()[0],
            atol=1e-12,
        )
        masked = new.astype("Float64")
        assert masked.iloc[3, 0] is pd.NA
        assert_allclose(model.filter(masked).mean(), result.mean(), atol=1e-10)

    @pytest.mark.slow
    @pytest.mark.usefixtures("short_searches")
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
        assert_allclose(model.smooth(new).mean()[:, 0], 0.1)

    def test_a_state_that_never_changes(self):
        with pytest.raises(ValueError, match=r"\bZ\b.*constant"):
            km.KernelBayesFilter().fit(TRAIN.X, np.ones(200))
        model = km.KernelBayesFilter(kernel_z=km.Gaussian(1.0)).fit(TRAIN.X, np.full(200, 3.0))
        assert_allclose(model.predict(TEST.X), 3.0)

    @pytest.mark.usefixtures("short_searches")
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("n", [2, 3, 5])
    def test_few_rows(self, rule, n):
        model = quietly(km.KernelBayesFilter(rule).fit, TRAIN.X[:n], TRAIN.Z[:n])
        check_sound(quietly(model.smooth, TEST.X))

    @pytest.mark.usefixtures("short_searches")
    @pytest.mark.parametrize("rule", RULES)
    def test_two_rows_repeated(self, rule):
        X, Z = (np.tile(a[:2], (20, 1)) for a in (TRAIN.X, TRAIN.Z))
        model = quietly(km.KernelBayesFilter(rule).fit, X, Z)
        check_sound(quietly(model.smooth, TEST.X))

    @pytest.mark.usefixtures("short_searches")
    @pytest.mark.parametrize(
        "spoil",
        [
            lambda X, Z: (np.where(np.arange(200)[:, None] == 50, 1e6, X), Z),
            lambda X, Z: (X[:80], np.where(np.arange(80)[:, None] == 50, 1e6, Z[:80])),
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
        assert np.isfinite(quietly(model.forecast, X[:5], 3).mean()).all()

    @pytest.mark.parametrize("value", [1e-14, 1e3, 1e12])
    @pytest.mark.parametrize("name", ["reg", "reg_prior", "reg_transition", "reg_smoother"])
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.usefixtures("short_searches")
    def test_regularisers_far_out(self, rule, name, value):
        model = km.KernelBayesFilter(rule, **{name: value}).fit(TRAIN.X[:80], TRAIN.Z[:80])
        check_sound(quietly(model.smooth, TEST.X))

    @pytest.mark.slow
    @pytest.mark.parametrize("kernel", ["laplace", "matern", "linear", km.Linear(offset=1.0)])
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.usefixtures("short_searches")
    def test_other_kernels(self, rule, kernel):
        model = quietly(km.KernelBayesFilter(rule, kernel, kernel).fit, TRAIN.X[:80], TRAIN.Z[:80])
        check_sound(quietly(model.smooth, TEST.X))

    @pytest.mark.parametrize("scale", [1e-12, 1e12, 1e35])
    @pytest.mark.parametrize("rule", RULES)
    def test_units_do_not_matter(self, rule, scale):
        model = km.KernelBayesFilter(rule, inference="kbr")
        model.fit(scale * TRAIN.X, scale * TRAIN.Z)
        expected = scale * tracker(rule).predict(TEST.X)
        assert_allclose(model.predict(scale * TEST.X), expected, rtol=1e-4, atol=1e-4 * scale)

    @pytest.mark.usefixtures("short_searches")
    def test_far_from_zero(self):
        for asked in ({"inference": "kbr"}, DENSE):
            model = km.KernelBayesFilter(**asked)
            near = model.fit(TRAIN.X, TRAIN.Z).predict(TEST.X)
            far = model.fit(1e7 + TRAIN.X, TRAIN.Z - 1e7).predict(1e7 + TEST.X) + 1e7
            assert_allclose(far, near, atol=1e-3)

    def test_integers_and_single_precision(self):
        X, Z = TRAIN.X.astype(np.float32), TRAIN.Z.astype(np.float32)
        model = km.KernelBayesFilter(inference="kbr").fit(X, Z)
        found = model.predict(TEST.X.astype(np.float32))
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
    @pytest.mark.slow
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.usefixtures("short_searches")
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

    def test_a_kernel_that_is_named_keeps_its_median(self):
        """Half the median is for `kernel_z=None` alone."""
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

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "kernel", [km.Rotation(), km.Frobenius(rotations=True)], ids=["geodesic", "trace"]
    )
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.usefixtures("short_searches")  # for a λ of the way back
    def test_rotations(self, kernel, rule):
        rng = np.random.default_rng(1000)
        X, Z = self.spinning(300, rng)
        model = km.KernelBayesFilter(rule, kernel_z=kernel)
        model = quietly(model.fit, X[:240], Z[:240])
        found = quietly(model.predict, X[240:260], point="mode").reshape(-1, 3, 3)
        assert_allclose(found @ np.swapaxes(found, 1, 2), np.tile(np.eye(3), (20, 1, 1)), atol=1e-8)
        assert_allclose(np.linalg.det(found), 1.0, atol=1e-8)
        truth = Turn.from_matrix(Z[240:260].reshape(-1, 3, 3))
        angles = (truth.inv() * Turn.from_matrix(found)).magnitude()
        assert np.median(angles) < 0.35

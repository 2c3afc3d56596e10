"""What a filter takes unasked: densities, unless the rule is clearly nearer on rows held out."""

from __future__ import annotations

import numpy as np
import pytest
from filter_cases import DENSE, quietly, volatility
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelmean as km
from kernelmean.datasets import make_rotation
from kernelmean.filtering.held_out import parted
from kernelmean.filtering.laws import moves_smoothly, repeats


def quadratic(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A state whose square is seen, more or less: its sign is hardly known."""
    rng, Z = np.random.default_rng(seed), np.zeros((n, 1))
    for t in range(1, n):
        Z[t] = 0.9 * Z[t - 1] + 0.45 * rng.standard_normal()
    return Z, Z**2 / 2 + Z / 4 + 0.3 * rng.standard_normal(Z.shape)


def blind(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A state, and noise that knows nothing of it."""
    Z, X = volatility(n, 0.95, 0.25, seed)
    return Z, np.random.default_rng(seed + 1).standard_normal(X.shape)


def off(model, X, Z) -> float:
    return float(np.mean((model.predict(X).reshape(Z.shape) - Z) ** 2))


def counted(X: np.ndarray) -> np.ndarray:
    """Kalman's filter of a count whose steps have variance 2, seen with noise 2."""
    mean, variance, found = 0.0, 0.0, []
    for x in X:
        variance = variance + 2.0
        gain = variance / (variance + 4.0)
        mean, variance = mean + gain * (x - mean), (1 - gain) * variance
        found.append(mean)
    return np.array(found)


@pytest.mark.slow
def test_not_far_above_the_mean_of_the_states():
    errors = []
    for seed in range(6):
        Z, X = quadratic(300, 40 + seed)
        later, seen = quadratic(500, 140 + seed)
        model = km.KernelBayesFilter().fit(X, Z)
        errors.append([quietly(off, model, seen, later), np.mean((later - Z.mean()) ** 2)])
    own, mean = np.mean(errors, axis=0)
    assert own < 1.05 * mean


@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
def test_what_is_asked_for_is_compared_with_what_is_simple_alone():
    Z, X = quadratic(150, 3)
    assert km.KernelBayesFilter(reg=0.01).fit(X, Z).held_out_ == {}
    for asked in ({"inference": "kbr"}, {"inference": "densities"}):
        model = km.KernelBayesFilter(**asked).fit(X, Z)
        assert list(model.held_out_) == [asked["inference"], "ridge", "mean"]
        nearest = min(model.held_out_, key=model.held_out_.get)
        lines = [line for line in model.summary().splitlines() if "(nearest)" in line]
        assert [line.split()[0] for line in lines] == [nearest]
        assert "rows              150" in model.summary()  # not those of the nodes


def test_a_ridge_regression_on_the_last_five_observations():
    X, Z = TestUnasked.TRAIN.X, TestUnasked.TRAIN.Z
    first = parted(X, Z, [slice(0, 40), slice(40, 60)])[0]  # of three parts
    rows = [(13, i) for i in range(13, 40)] + [(46, i) for i in range(46, 60)]
    lagged = [[X[max(start, i - k)] for k in range(5)] for start, i in rows]
    assert_array_equal(first.learn.lagged, np.reshape(lagged, (41, 10)))
    by_hand = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 200)))
    by_hand.fit(first.learn.lagged, first.learn.Z)
    assert_allclose(first.simple()["ridge"], by_hand.predict(first.held.lagged), atol=0.02)
    wide = parted(np.tile(X, 60), Z, [slice(0, 60)])
    assert set(wide[0].simple()) == {"mean"}


def test_where_states_count_from_does_not_decide():
    """States far from zero, as northings or Unix times are, counted as constant: errors were 0."""
    Z, X = quadratic(60, 3)
    near, far = (km.KernelBayesFilter(inference="kbr").fit(X, Z + z) for z in (0.0, 1e9))
    assert far.reg_smoother_ == near.reg_smoother_
    assert list(far.held_out_.values()) == pytest.approx(list(near.held_out_.values()), rel=1e-3)


def test_nothing_seen_is_told():
    Z, X = blind(300, 8)
    with pytest.warns(km.NumericalWarning, match="cannot follow these states"):
        model = km.KernelBayesFilter(inference="auto").fit(X, Z)
    assert "rows held out" in model.summary()


@pytest.fixture(scope="module")
def usual() -> km.KernelBayesFilter:
    return km.KernelBayesFilter().fit(TestUnasked.TRAIN.X, TestUnasked.TRAIN.Z)


@pytest.fixture(scope="module")
def rule() -> km.KernelBayesFilter:
    return km.KernelBayesFilter(inference="kbr").fit(TestUnasked.TRAIN.X, TestUnasked.TRAIN.Z)


class TestUnasked:
    TRAIN, TEST = make_rotation(60, random_state=21), make_rotation(200, random_state=22)

    @pytest.mark.slow
    def test_densities_unless_something_of_the_rule_is_given(self, usual, rule):
        X, Z = self.TRAIN.X, self.TRAIN.Z
        assert set(usual.held_out_) == {"kbr", "densities", "ridge", "mean"}
        dense = km.KernelBayesFilter(**DENSE, max_active=500).fit(X, Z)
        assert_array_equal(usual.predict(self.TEST.X), dense.predict(self.TEST.X))
        assert off(usual, self.TEST.X, self.TEST.Z) < off(rule, self.TEST.X, self.TEST.Z)
        for given in ({"rule": "squared"}, {"kernel_z": km.Gaussian(1.0)}, {"reg_prior": 0.1}):
            assert "densities" not in km.KernelBayesFilter(**given).fit(X, Z).held_out_

    @pytest.mark.usefixtures("short_searches")
    @pytest.mark.parametrize(("columns", "nodes"), [(1, 500), (2, 500), (3, 1000)])
    def test_densities_of_more_states_are_judged_with_more_nodes(self, columns, nodes, monkeypatch):
        tried = {}

        def compared(ways, parts):
            tried.update(ways)  # and the rule is nearer: densities of all rows are not learned
            return {way: np.full(len(Z), float(way != "kbr")) for way in (*ways, "mean")}

        monkeypatch.setattr("kernelmean.filtering.held_out.compared", compared)
        X, Z = np.random.default_rng(0).standard_normal((2, 40, columns))
        km.KernelBayesFilter().fit(X, Z)
        judged = tried["densities"].learned(X, Z, [slice(0, 40)])
        least = 0 if columns == 2 else nodes  # of two they are cells
        assert least <= len(judged.points) <= nodes

    @pytest.mark.slow
    def test_several_hundred_rows_are_judged_likewise(self):
        Z, X = volatility(400, 0.95, 0.3, 5)
        model = km.KernelBayesFilter().fit(X, Z)
        assert len(model.points_) == 500  # nodes
        rule = km.KernelBayesFilter(inference="kbr").fit(X, Z)
        later, seen = volatility(1_000, 0.95, 0.3, 6)
        assert quietly(off, model, seen, later) < quietly(off, rule, seen, later)

    def test_states_that_repeat_have_the_rule(self):
        model = km.KernelBayesFilter().fit(self.TRAIN.X, self.TRAIN.Z.round(0))
        assert "densities" not in model.held_out_

    def test_labels_and_what_is_mostly_zero_repeat(self):
        rng = np.random.default_rng(0)
        for z in (rng.integers(7, size=300), np.maximum(rng.standard_normal(300) - 0.3, 0.0)):
            assert not moves_smoothly(z)
        for z in (rng.normal(10, 1, 300).round(1), rng.poisson(20, 300)):
            assert moves_smoothly(z)
            assert repeats(z)

    @pytest.mark.slow
    def test_a_count_that_leaves_what_was_learned(self):
        """The rule was taken, since its values repeat: 30 times the variance of the states."""
        errors = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            moves = rng.poisson(1.0, 400) - rng.poisson(1.0, 400)
            Z = np.cumsum(moves)[:, None] * 1.0
            X = Z + 2.0 * rng.standard_normal(Z.shape)
            model = km.KernelBayesFilter().fit(X[:200], Z[:200])
            assert model.machine_.counts["nodes"]
            result = model.filter(X[200:])
            lower, upper = result.interval(0.9)
            assert 0.8 < ((lower <= Z[200:]) & (Z[200:] <= upper)).mean() < 0.97
            off = result.mean() - Z[200:]
            errors.append([np.mean(off**2), np.mean((counted(X)[200:] - Z[200:]) ** 2)])
        own, known = np.mean(errors, axis=0)
        assert own < 1.15 * known

    def test_sequences_of_a_row_or_two_are_not_compared(self):
        X, Z = self.TRAIN.X, self.TRAIN.Z
        assert (
            km.KernelBayesFilter().fit(X[:20], Z[:20], lengths=[1] * 10 + [2] * 5).held_out_ == {}
        )

    @pytest.mark.slow
    def test_supervision_and_regularisers_are_those_of_the_rule(self, usual, rule):
        told = {"supervision": (self.TEST.X[:5], self.TEST.Z[:5], 0.5)}
        both = [model.filter(self.TEST.X[:5], **told).mean() for model in (usual, rule)]
        assert_array_equal(*both)
        assert usual.reg_ == rule.reg_
        both = [m.with_reg(0.1).predict(self.TEST.X[:5]) for m in (usual, rule)]
        assert_array_equal(*both)

"""What a filter takes unasked: densities where they are as near, and no more trust than is due."""

from __future__ import annotations

import numpy as np
import pytest
from filter_cases import check_sound, quietly, volatility
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.datasets import make_rotation


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


class TestTrust:
    def test_one_where_the_filter_is_nearer(self):
        train = make_rotation(150, random_state=3)
        model = km.KernelBayesFilter(inference="kbr").fit(train.X, train.Z)
        assert model.machine_.trust == 1.0
        assert set(model.held_out_) == {"kbr", "mean"}
        assert model.held_out_["kbr"] < model.held_out_["mean"]
        assert "trust" not in model.summary()

    def test_little_where_nothing_is_seen(self):
        Z, X = blind(300, 8)
        model = km.KernelBayesFilter().fit(X, Z)
        assert model.machine_.trust < 0.5
        assert "trust" in model.summary()

    @pytest.mark.slow
    def test_not_far_above_the_mean_of_the_states(self):
        errors = []
        for seed in range(6):
            Z, X = quadratic(500, 40 + seed)
            later, seen = quadratic(1_000, 140 + seed)
            model = km.KernelBayesFilter().fit(X, Z)
            errors.append([quietly(off, model, seen, later), np.mean((later - Z.mean()) ** 2)])
        own, mean = np.mean(errors, axis=0)
        assert own < 1.05 * mean

    def test_given_regularisers_are_the_method(self):
        Z, X = blind(200, 7)
        model = km.KernelBayesFilter(reg=0.01).fit(X, Z)
        assert (model.machine_.trust, model.held_out_) == (1.0, {})
        assert km.KernelBayesFilter().fit(X, Z).with_reg(0.01).machine_.trust == 1.0

    @pytest.mark.parametrize("inference", ["kbr", "auto"])
    def test_answers_are_mixtures(self, inference):
        """Means, weights, one observation at a time, smoothing, forecasts."""
        Z, X = blind(120, 11)
        model, whole = (
            quietly(km.KernelBayesFilter(inference=inference).fit, X, Z) for _ in range(2)
        )
        trust, vague = model.machine_.trust, model.machine_.vague.mean
        assert 0.0 <= trust < 1.0
        object.__setattr__(whole.machine_, "trust", 1.0)
        told, found = model.filter(X[:9]), whole.filter(X[:9])
        check_sound(told)
        assert_allclose(told.mean(), trust * found.mean() + (1 - trust) * vague)
        belief = model.start()
        for t, x in enumerate(X[:9]):
            belief = belief.update(x) if t == 0 else belief.predict().update(x)
        assert_allclose(belief.mean(), told.mean()[-1])
        assert_allclose(belief.embedding.weights, told.embedding.weights[-1], atol=1e-12)
        smooth, smoothed = model.smooth(X[:9]).mean(), whole.smooth(X[:9]).mean()
        assert_allclose(smooth, trust * smoothed + (1 - trust) * vague)
        ahead, raw = model.forecast(X[:9], 2).mean(), whole.forecast(X[:9], 2).mean()
        assert_allclose(ahead, trust * raw + (1 - trust) * vague)


class TestUnasked:
    TRAIN, TEST = make_rotation(60, random_state=21), make_rotation(200, random_state=22)

    def test_densities_unless_something_of_the_rule_is_given(self):
        X, Z = self.TRAIN.X, self.TRAIN.Z
        usual = km.KernelBayesFilter().fit(X, Z)
        assert set(usual.held_out_) == {"kbr", "densities", "mean"}
        dense = km.KernelBayesFilter(inference="densities", max_active=500).fit(X, Z)
        assert_array_equal(usual.predict(self.TEST.X), dense.predict(self.TEST.X))
        rule = km.KernelBayesFilter(inference="kbr").fit(X, Z)
        assert off(usual, self.TEST.X, self.TEST.Z) < off(rule, self.TEST.X, self.TEST.Z)
        for given in ({"rule": "squared"}, {"kernel_z": km.Gaussian(1.0)}, {"reg_prior": 0.1}):
            assert "densities" not in km.KernelBayesFilter(**given).fit(X, Z).held_out_

    def test_several_hundred_rows_are_judged_likewise(self):
        Z, X = volatility(400, 0.95, 0.3, 5)
        model = km.KernelBayesFilter().fit(X, Z)
        assert model.held_out_["densities"] < model.held_out_["kbr"]
        assert len(model.points_) == 500  # nodes

    def test_states_that_repeat_have_the_rule(self):
        model = km.KernelBayesFilter().fit(self.TRAIN.X, self.TRAIN.Z.round(0))
        assert "densities" not in model.held_out_

    def test_supervision_and_regularisers_are_those_of_the_rule(self):
        X, Z = self.TRAIN.X, self.TRAIN.Z
        usual = km.KernelBayesFilter().fit(X, Z)
        rule = km.KernelBayesFilter(inference="kbr").fit(X, Z)
        told = {"supervision": (self.TEST.X[:5], self.TEST.Z[:5], 0.5)}
        both = [model.filter(self.TEST.X[:5], **told).mean() for model in (usual, rule)]
        assert_array_equal(*both)
        assert usual.reg_ == rule.reg_
        both = [m.with_reg(0.1).predict(self.TEST.X[:5]) for m in (usual, rule)]
        assert_array_equal(*both)

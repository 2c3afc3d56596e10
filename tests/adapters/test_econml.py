"""`KernelIVEffect`: EconML's verbs and shapes, numbers that are the structural function's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

import kernelmean as km
from kernelmean.adapters.econml import CONTROLS, KernelIVEffect


def sample(n: int, seed: int = 42) -> tuple:
    """Effect (1 + x)(t1 − t0) of the first treatment, confounded; the second does nothing."""
    rng = np.random.default_rng(seed)
    Z, X, W, e = rng.normal(size=(n, 2)), *rng.normal(size=(2, n, 1)), rng.normal(size=n)
    T = Z @ [[1, 0.3], [0.5, 1]] + e[:, None] + 0.3 * rng.normal(size=(n, 2))
    y = (1 + X[:, 0]) * T[:, 0] + W[:, 0] + 2 * e
    return y, T, X, Z, W


@pytest.fixture(scope="module")
def data():
    return sample(400)


@pytest.fixture(scope="module")
def one(data):
    y, T, X, Z, W = data
    return KernelIVEffect().fit(y, T[:, 0], X, Z=Z[:, :1], W=W)


@pytest.fixture(scope="module")
def two(data):
    y, T, X, Z, W = data
    return KernelIVEffect(split=0.5).fit(y[:, None], T, X, Z=Z, W=W)


@pytest.fixture(scope="module")
def plain(data):
    y, T, _, Z, _ = data
    return KernelIVEffect(split=0.5).fit(y, T[:, 0], Z=Z)


def test_effects_are_near_the_truth():
    y, T, X, Z, W = sample(1200)  # the choice needs that many for errors well below the bounds
    one = KernelIVEffect().fit(y, T[:, 0], X, Z=Z[:, :1], W=W)
    x = np.array([[-1.0], [0.0], [1.0]])
    assert_allclose(one.effect(x), [0.0, 1.0, 2.0], atol=0.5)
    low, high = one.effect_interval(x, alpha=0.01)
    assert (low < [0.0, 1.0, 2.0]).all()
    assert (high > [0.0, 1.0, 2.0]).all()
    assert_allclose(one.marginal_effect(0.0, x), [0.0, 1.0, 2.0], atol=0.5)


def test_an_effect_is_a_difference_of_predictions_averaged_over_controls(one, data):
    *_, W = data
    x = [[0.7]]
    ends = [
        one.model_.predict(np.full((400, 1), t), np.hstack([np.full((400, 1), 0.7), W])).mean()
        for t in (0.2, 0.9)
    ]
    assert_allclose(one.effect(x, T0=0.2, T1=0.9), [ends[1] - ends[0]])


def test_without_features_and_controls(plain):
    ends = plain.model_.predict([[0.0], [1.0], [2.0]])
    assert_allclose(plain.effect(), [ends[1] - ends[0]])
    assert_allclose(plain.effect(T0=[0.0, 1.0], T1=[1.0, 2.0]), np.diff(ends))
    assert plain.ate() == pytest.approx(ends[1] - ends[0])


def test_marginal_effects_are_slopes(plain, two):
    step = 1e-5
    slope = plain.effect(T0=0.3 - step, T1=0.3 + step) / (2 * step)
    assert_allclose(plain.marginal_effect(0.3), slope, rtol=1e-6)
    t, x = np.array([[0.1, 0.4]]), [[0.5]]
    got = two.marginal_effect(t, x)
    for j, move in enumerate(step * np.eye(2)):
        slope = two.effect(x, T0=t - move, T1=t + move) / (2 * step)
        assert_allclose(got[:, :, j], slope, rtol=1e-5)


def test_shapes_are_econmls(one, two, plain):
    x = np.zeros((3, 1))
    assert one.effect(x).shape == (3,)
    assert one.marginal_effect(0, x).shape == one.marginal_effect(np.zeros(3), x).shape == (3,)
    assert two.effect(x).shape == two.effect(x, T0=np.zeros((3, 2)), T1=np.ones((3, 2))).shape
    assert two.effect(x).shape == (3, 1)
    assert two.marginal_effect(np.zeros((3, 2)), x).shape == (3, 1, 2)
    assert plain.effect().shape == (1,)
    assert plain.effect(T0=np.zeros(5), T1=1).shape == (5,)
    assert np.ndim(one.ate(x)) == 0
    assert two.ate(x).shape == (1,)
    for low, high in [
        one.effect_interval(x),
        one.marginal_effect_interval(0, x),
        two.marginal_effect_interval(np.zeros((3, 2)), x),
        one.ate_interval(x),
    ]:
        assert np.shape(low) == np.shape(high)
        assert (np.asarray(low) < high).all()


def test_averages(one):
    x = np.array([[-1.0], [0.0], [1.0], [2.0]])
    assert one.ate(x, T1=0.5) == pytest.approx(one.effect(x, T1=0.5).mean())
    low, high = one.ate_interval(x, T1=0.5)
    assert (low + high) / 2 == pytest.approx(one.ate(x, T1=0.5))
    each = np.subtract(*one.effect_interval(x, T1=0.5)[::-1])
    assert high - low <= each.mean()  # errors that differ partly cancel


def test_levels(one):
    x = [[0.5]]
    wide, narrow = (np.ptp(one.effect_interval(x, alpha=a)) for a in (0.01, 0.32))
    assert wide / narrow == pytest.approx(2.5758 / 0.99446, rel=1e-4)


def test_many_controls_are_thinned(data):
    rng = np.random.default_rng(43)
    n = 2 * CONTROLS - 1
    Z, W, e = rng.normal(size=(n, 1)), np.linspace(-1, 1, n)[:, None], rng.normal(size=n)
    T = Z[:, 0] + e
    iv = KernelIVEffect(split=0.5, features=km.Nystroem(max_rank=20, tol=1e-2))
    iv.fit(T + e + W[:, 0], T, Z=Z, W=W)
    assert_allclose(iv._controls, W[::2])


def test_saved_and_loaded(one, tmp_path):
    one.save(tmp_path / "effect.km")
    again = km.load(tmp_path / "effect.km")
    x = [[0.3], [0.4]]
    assert_array_equal(again.effect(x), one.effect(x))
    assert_array_equal(again.marginal_effect_interval(1.0, x), one.marginal_effect_interval(1.0, x))


def test_refusals(one, plain, data):
    y, T, X, _, _ = data
    with pytest.raises(NotImplementedError, match="marginal_effect"):
        one.const_marginal_effect(X)
    with pytest.raises(TypeError, match="n_estimators"):
        KernelIVEffect(n_estimators=3)
    with pytest.raises(NotFittedError, match="call fit"):
        KernelIVEffect().effect()
    with pytest.raises(NotFittedError, match="call fit"):
        KernelIVEffect().summary()
    with pytest.raises(ValueError, match="Z is None"):
        KernelIVEffect().fit(y, T, X)
    with pytest.raises(ValueError, match="X has 0 columns but the model has 1"):
        one.effect()
    with pytest.raises(ValueError, match="X has 1 column but the model has 0"):
        plain.effect(X)
    with pytest.raises(ValueError, match="T has 2 columns"):
        plain.effect(T0=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="T has 4 rows but X has 3"):
        one.effect(np.zeros((3, 1)), T1=np.zeros(4))
    with pytest.raises(ValueError, match="W has 7 rows but T has 400"):
        KernelIVEffect().fit(y, T, X, Z=T, W=X[:7])


def test_a_fit_that_fails_leaves_the_one_before(data):
    y, T, X, Z, W = data
    model = KernelIVEffect(split=0.5).fit(y, T[:, 0], X, Z=Z, W=W)
    before = model.effect(X[:5])
    with pytest.raises(ValueError, match="is constant"):
        model.fit(y[:, None], T, Z=0 * Z)
    assert_array_equal(model.effect(X[:5]), before)


def test_columns_in_another_order_are_refused(data):
    y, T, X, Z, W = data
    table = pd.DataFrame(np.hstack([X, W]), columns=["age", "size"])
    effect = KernelIVEffect(tune_lengthscale=False).fit(y, T[:, 0], table, Z=Z)
    assert_array_equal(effect.effect(table[:3]), effect.effect(table[:3].to_numpy()))
    with pytest.raises(ValueError, match=r"X has columns \['size', 'age'\]; \['age', 'size'\]"):
        effect.effect(table[["size", "age"]])


def test_intervals_of_a_binary_treatment_are_those_of_contrasts():
    """They had the bias of a curve in them: half as wide again."""
    rng = np.random.default_rng(3)
    z, u = rng.standard_normal((2, 300))
    t = (z + u > 0).astype(float)
    y = t + u + 0.3 * rng.standard_normal(300)
    iv = km.econml.KernelIVEffect().fit(y, t, Z=z[:, None])
    found = iv.model_.contrast(np.ones((1, 1)), np.zeros((1, 1)))
    low, high = iv.effect_interval()
    assert_allclose([low[0], high[0]], [found.low[0], found.high[0]], rtol=1e-8)


def test_groups_are_the_clusters_of_the_fit(data):
    y, T, X, Z, _ = data
    groups = np.arange(400) % 50
    straight = {"kernel_x": "linear", "kernel_z": "linear"}
    iv = KernelIVEffect(**straight).fit(y, T[:, 0], X, Z=Z[:, :1], groups=groups)
    own = km.KernelIV(**straight).fit(T[:, :1], y, Z[:, :1], X, groups)
    rows = KernelIVEffect(**straight).fit(y, T[:, 0], X, Z=Z[:, :1])
    assert_array_equal(iv.model_.covariance_, own.covariance_)
    assert not np.allclose(rows.model_.covariance_, own.covariance_, rtol=0.01)

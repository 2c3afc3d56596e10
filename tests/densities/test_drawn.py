"""Residuals drawn together, and rows in memory that are summed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import kernelmean as km
from kernelmean.core.moments import shares

pytestmark = pytest.mark.usefixtures("short_searches")


def line(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    return X, 2 * X[:, 0] + rng.normal(size=n)


@pytest.fixture(scope="module")
def located():
    return km.ConditionalDensity(location=True, wide=0.0).fit(*line(150))


def test_kernels_stand_at_residuals_drawn_together(located):
    new, y = np.array([[-1.0], [0.3]]), np.linspace(-6, 6, 121)
    e, gamma, w = located.points_[:, 0], located.bandwidth_[0], located.weights(new)
    by = np.sqrt(1 - gamma**2 / e.var())
    centres = by * e + (1 - by) * (w @ e)[:, None] + located.location_(new)
    q = np.einsum("bj,bjt->bt", w, norm.pdf(y, centres[:, :, None], gamma))
    p = np.maximum(q, 0) / np.maximum(q, 0).sum(axis=1, keepdims=True) / (y[1] - y[0])
    assert gamma / e.std() > 0.2
    assert_allclose(located.pdf(y, new, paired=False), p, atol=2e-3)
    assert_allclose(located.at(new).density(y[:, None]), p, atol=2e-3)


def test_a_factor_that_is_constant_leaves_laws_as_they_are(located):
    laws, y = located.at([[-1.0], [0.3]]), np.linspace(-6, 6, 121)[:, None]
    tilted = laws.tilted(lambda y: np.full(len(y), 7.0))
    assert_allclose(tilted.density(y), laws.density(y), atol=1e-10)
    assert_allclose(tilted.interval(0.9), laws.interval(0.9), atol=1e-6)


def test_laws_keep_means_and_are_no_wider_than_residuals(located):
    new, y = np.linspace(-1, 1, 9)[:, None], np.linspace(-9, 9, 2001)
    p = located.pdf(y, new, paired=False)
    p /= p.sum(axis=1, keepdims=True)
    mean, spread = p @ y, located.at(new).std()[:, 0]
    assert_allclose(mean, located.predict(new), atol=5e-3)
    variance, by = p @ y**2 - mean**2, 1 - located.bandwidth_[0] ** 2 / located.points_.var()
    assert_allclose(variance, by * spread**2 + located.bandwidth_[0] ** 2, rtol=0.02)
    assert variance.mean() == pytest.approx((spread**2).mean(), rel=0.03)


@pytest.mark.parametrize("given", [{"kernel_y": "laplace"}, {"bandwidth": 0.4}, {"reg": 1.0}])
def test_not_where_a_bandwidth_is_given_or_the_kernel_is_another(given):
    model = km.ConditionalDensity(location=True, **given).fit(*line(40))
    assert model.fit_.drawn is None


def test_rows_in_memory_are_summed(monkeypatch):
    X, y = line(150)
    monkeypatch.setattr("kernelmean.densities.cells.FINE", 1e-3)
    one_by_one = km.ConditionalDensity().fit(X, y)
    monkeypatch.setattr("kernelmean.densities.cells.IN_MEMORY", 100)
    summed = km.ConditionalDensity().fit(X, y)
    order = np.random.default_rng(1).permutation(len(y))
    turned = km.ConditionalDensity().fit(X[order], y[order])
    assert summed.fit_.gathered is not None
    assert_allclose(summed.features_.landmarks_, X[summed.features_.indices_])
    new, levels = np.linspace(-2, 2, 5)[:, None], [0.05, 0.5, 0.95]
    expected = one_by_one.predict_quantile(new, levels)
    assert_allclose(summed.predict_quantile(new, levels), expected, atol=1e-3)
    assert_allclose(turned.predict_quantile(new, levels), expected, atol=1e-3)


def test_shares_keep_means():
    nodes = np.array([-1.0, -0.5, 2.0])
    y = np.array([-1.0, -0.6, 1.0, 2.0])
    found = shares(nodes, y)
    assert_allclose(found.sum(axis=1), 1)
    assert_allclose(found @ nodes, y)
    assert (found >= 0).all()

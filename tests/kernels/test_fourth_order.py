"""The smoothing kernel of order four."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

import kernelmean as km

K = km.Gaussian4(0.7)


def at(kernel, method: str = "density"):
    return lambda y: float(getattr(kernel, method)([[0.2]], [[y]])[0, 0])


def test_moments_are_those_of_order_four():
    """One, no second moment, and a fourth of minus three."""
    moments = [
        quad(lambda y, power: (y - 0.2) ** power * at(K)(y), -9, 9, args=(power,))[0]
        for power in range(5)
    ]
    assert_allclose(moments, [1, 0, 0, 0, -3 * 0.7**4], atol=1e-10)


def test_distribution_function_is_the_integral():
    for y in (-2.0, 0.0, 0.3, 1.5):
        assert at(K, "cdf")(y) == pytest.approx(quad(at(K), -9, y)[0], abs=1e-10)


def test_self_convolution_is_the_integral_of_the_product():
    def product(u, y):
        return at(K)(u) * float(K.density([[u]], [[y]])[0, 0])

    for y in (0.2, 0.9, 2.4, 4.0):
        expected = quad(product, -9, 9, args=(y,))[0]
        assert at(K, "self_convolution")(y) == pytest.approx(expected, abs=1e-10)


def test_is_positive_definite(rng):
    X = rng.normal(size=(60, 2))
    assert np.linalg.eigvalsh(K(X)).min() > -1e-10


def test_recovered_densities_are_proper_although_it_dips(rng):
    m = km.MeanEmbedding(rng.normal(size=40), kernel=K)
    y = np.linspace(-8, 8, 8001)
    p = m.density(y, 0.7)
    assert p.min() >= 0
    assert np.trapezoid(p, y) == pytest.approx(1, abs=1e-5)
    assert m.negative_mass(0.7)[0] == pytest.approx(
        -np.trapezoid(np.minimum(m.density(y, 0.7, signed=True), 0), y), abs=1e-5
    )


def test_draws_follow_the_recovered_density(rng):
    m = km.MeanEmbedding(rng.normal(size=40), kernel=K)
    draws = m.sample(4000, random_state=41, bandwidth=0.7)[:, 0]
    levels = m.cdf(draws, 0.7)[:, 0]
    assert_allclose(np.quantile(levels, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.03)


@pytest.mark.slow
def test_conditional_densities_take_it():
    data = km.datasets.make_conditional_density("bimodal", 500, random_state=50)
    model = km.ConditionalDensity(kernel_y="gaussian4").fit(data.X, data.Y)
    y = np.linspace(-60, 60, 6001)  # the wide law that takes a share has long tails
    p = model.pdf(y, data.X[:20], paired=False)
    assert p.min() >= 0
    assert_allclose(np.trapezoid(p, y, axis=1), 1, atol=1e-4)
    assert np.abs(p - data.density(y, data.X[:20])).max() < 0.1


def test_several_columns_are_refused(rng):
    with pytest.raises(ValueError, match="smooths densities of one column; there are 2"):
        K.density(rng.normal(size=(3, 2)), rng.normal(size=(3, 2)))

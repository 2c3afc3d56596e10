"""The Gaussian kernel whose ellipses lean, against SciPy's normal densities."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import gaussian_kde, multivariate_normal, norm

import kernelmean as km

R = ((1.0, 0.8, -0.3), (0.8, 1.0, 0.1), (-0.3, 0.1, 1.0))
WIDTHS = (0.5, 2.0, 1.0)


@pytest.fixture
def kernel() -> km.CorrelatedGaussian:
    return km.CorrelatedGaussian(WIDTHS, correlation=R)


def covariance() -> np.ndarray:
    return np.asarray(R) * np.outer(WIDTHS, WIDTHS)


def points(n: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 3))


def test_density_is_that_of_correlated_noise(kernel):
    X = points()
    expected = [multivariate_normal(x, covariance()).pdf(X) for x in X]
    assert_allclose(kernel.density(X, X), expected, rtol=1e-10)
    assert_allclose(kernel.self_convolved(3).density(X[:1], X)[0],
                    multivariate_normal(X[0], 2 * covariance()).pdf(X), rtol=1e-10)  # fmt: skip


def test_some_columns_have_their_own_normal_law(kernel):
    X = points()
    two = multivariate_normal(X[0, :2], covariance()[:2, :2])
    assert_allclose(kernel.on([0, 1], 3).density(X[:1, :2], X[:, :2])[0], two.pdf(X[:, :2]))
    one = kernel.on([1], 3)
    assert type(one) is km.Gaussian
    assert_allclose(one.density(X[:1, 1:2], X[:, 1:2])[0], norm(X[0, 1], 2.0).pdf(X[:, 1]))


def test_noise_and_spectrum_have_their_covariances(kernel):
    rng = np.random.default_rng(1)
    drawn = kernel.noise(200_000, 3, rng)
    assert_allclose(np.cov(drawn.T), covariance(), atol=0.03)
    omega = kernel.spectrum(400_000, 3, rng)
    X = points(4)
    estimate = np.cos((X[:, None] - X[None]) @ omega.T).mean(axis=-1)
    assert_allclose(estimate, kernel(X), atol=0.01)


def test_derivative_is_a_difference(kernel):
    X, h = points(), 1e-6
    for j in range(3):
        step = h * np.eye(3)[j]
        # with respect to the first argument, as for all kernels
        difference = (kernel(X + step, X) - kernel(X - step, X)) / (2 * h)
        assert_allclose(kernel.derivative(X, X, j), difference, atol=1e-8)


@pytest.mark.parametrize("bad", [((1.0, 2.0), (2.0, 1.0)), ((1.0, 0.5),), ((2.0, 0.0), (0.0, 1.0))])
def test_what_is_no_correlation_matrix_is_refused(bad):
    with pytest.raises(ValueError, match="positive definite"):
        km.CorrelatedGaussian(1.0, correlation=bad)


def test_other_numbers_of_columns_are_refused(kernel):
    with pytest.raises(ValueError, match="3 columns but the points have 2"):
        km.CorrelatedGaussian(1.0, correlation=R)(np.zeros((2, 2)))


@pytest.mark.parametrize("r", [0.9, 0.999])
def test_densities_of_columns_that_move_together_are_as_good_as_scotts(r):
    """They lost .1 and .75 of log density at 100 rows."""
    L, rng = np.linalg.cholesky([[1, r], [r, 1]]), np.random.default_rng(5)
    X, new = rng.normal(size=(100, 2)) @ L.T, rng.normal(size=(1000, 2)) @ L.T
    model = km.EmbeddedDensity().fit(X)
    assert isinstance(model.embedding_.kernel, km.CorrelatedGaussian)
    scott = gaussian_kde(X.T).logpdf(new.T).mean()
    assert model.score_samples(new).mean() > scott - 0.03
    drawn = model.sample(20_000, random_state=0)
    assert abs(np.corrcoef(drawn.T)[0, 1] - r) < 0.1  # the wide law's share does not lean

"""Laws of residuals around means: weighted points, moved, each law in its own way."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.embedding.adjusted import Adjusted


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(400, 2))
    return Z + 0.1 * rng.normal(size=Z.shape), Z


@pytest.fixture(scope="module")
def law(pairs):
    return km.KernelBayes().fit(*pairs).posterior(pairs[0][:3])


def test_means_and_expectations_are_those_of_the_latents(rng):
    X = rng.uniform(-2, 2, size=(400, 2))  # bent: no line is taken
    Z = np.abs(X) + 0.1 * rng.normal(size=X.shape)
    law = km.KernelBayes().fit(X, Z).posterior(X[:3])
    assert isinstance(law, Adjusted)
    w = law.weights
    assert_allclose(law.mean(), w @ Z / w.sum(axis=1)[:, None])
    assert_allclose(law.expectation(lambda z: z[:, 0]), w @ Z[:, 0])
    assert_allclose(km.KernelBayes().fit(X, Z).predict(X[:3]), law.mean())


def test_spread_is_that_of_the_noise(law):
    assert_allclose(law.std(), 0.1, atol=0.03)
    low, high = law.interval(0.9)
    assert (high - low < 0.45).all()
    assert (high - low > 0.2).all()
    draws = law.sample(500, 0)
    assert_allclose(draws.mean(axis=1), law.mean(), atol=0.05)
    assert_allclose(draws.std(axis=1), 0.1, atol=0.05)


def test_a_batch_answers_as_its_members_do(law):
    Y = law.mean()
    for b, one in enumerate([law[0], law[1], law[2]]):
        assert_allclose(one.mean(), law.mean()[b])
        assert_allclose(one.density(Y), law.density(Y)[b])
        assert_allclose(one.cdf(Y), law.cdf(Y)[b])
        assert_allclose(one.quantile([0.1, 0.9]), law.quantile([0.1, 0.9])[b])
        assert_allclose(one.interval(), np.asarray(law.interval())[:, b])
        assert_allclose(one.mode(), law.mode()[b], atol=1e-3)
        assert_allclose(one.marginal(1).interval()[0], one.interval()[0][1:])
        (region,) = one.marginal(0).region(0.9)
        assert region[0] < one.mean()[0] < region[1]


def test_distribution_functions_and_regions_are_those_of_points_moved(law):
    Y, median = law.mean() + 0.05, law.quantile(0.5)
    for b, moves in enumerate(law._moves):
        one = law._residuals[b].moved(moves)
        for width in ("own", 0.2):
            assert_allclose(law.cdf(Y, width)[b], one.cdf(Y, width), atol=1e-12)
            assert_allclose(law.quantile(0.1, width)[b], one.quantile(0.1, width))
        column = one.marginal(0)
        assert_allclose(law.marginal(0).region(0.9)[b], column.region(0.9))
        assert_allclose(law.marginal(0)[b].region(0.9), column.region(0.9))
        assert (law.cdf(median)[b, b] >= 0.5 - 1e-12).all()  # the step there is taken


def test_probabilities_are_those_of_the_distribution_function(law, pairs):
    beyond = km.KernelBayes().fit(*pairs).posterior([[4.5, -4.5]])  # of all pairs
    for found in (law, beyond):
        at = found.mean()[-1] + 0.02
        below = found.probability(lambda z: z[:, 0] <= at[0])  # noqa: B023
        assert_allclose(below[-1], found.cdf([at])[-1, 0, 0], atol=0.02)
        assert_allclose(found[-1].probability(lambda z: z[:, 0] <= at[0]), below[-1])  # noqa: B023


def test_moves_and_tilts(law):
    far = law[0].moved(np.array([1.0, 0.0]))
    assert_allclose(far.mean() - law[0].mean(), [1.0, 0.0], atol=1e-12)
    assert_allclose(far.quantile(0.5) - law[0].quantile(0.5), [1.0, 0.0], atol=1e-12)


def test_a_tilt_is_of_the_points_where_they_were_moved_to(law):
    """Of a normal law by exp(2z): two variances further, and as wide; of the latents 60 times."""
    by = law.tilted(lambda z: np.exp(2 * z[:, 0]))
    assert_allclose(by.mean() - law.mean(), [[2 * 0.1**2, 0.0]] * 3, atol=0.01)
    assert_allclose(by.std(), 0.1, atol=0.03)
    assert_allclose(by[1].quantile([0.1, 0.9]), by.quantile([0.1, 0.9])[1])
    assert_allclose(by.sample(500, 0).mean(axis=1), by.mean(), atol=0.03)


def test_are_saved(law, tmp_path):
    law.save(tmp_path / "law.km")
    assert_allclose(km.load(tmp_path / "law.km").interval(), law.interval())


def test_pairs_left_out_decide():
    """Two humps around a mean that nothing tells stay where they are."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 1))
    found = km.KernelBayes().fit(z**2 + 0.3 * rng.normal(size=z.shape), z).posterior([[1.0]])
    assert_array_equal(found._residuals.points, found.points)  # by weights of their own
    assert_allclose(found._moves, 0, atol=1e-12)


def test_a_law_by_other_weights_keeps_its_mean(rng):
    """Means are by the first weights, all else by the second, and neither moves the other."""
    Z, W, V = rng.normal(size=(20, 2)), rng.dirichlet(np.ones(20), 3), rng.dirichlet(np.ones(20), 3)
    kernel = km.Gaussian(1.0)
    by, other = (km.MeanEmbedding(Z, w, kernel) for w in (W, V))
    law = Adjusted.of(km.MeanEmbedding.of_parts(Z, W, np.eye(20), kernel), Z, by.mean(), V)
    assert_allclose(law.mean(), by.mean())
    assert_allclose(law[1].mean(), by.mean()[1])
    assert_allclose(law.marginal(1).mean(), by.mean()[:, 1:])
    assert_allclose(law.cov(), other.cov())
    assert_allclose(law.quantile(0.3), other.quantile(0.3))
    assert_allclose(law.moved(1.0, np.array([2.0, 3.0])).mean(), by.mean() * [2, 3] + 1)


def test_few_values_stay_as_they_are():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 5, (500, 1)).astype(float)
    law = km.KernelBayes().fit(z + 0.3 * rng.normal(size=z.shape), z).posterior([[2.0]])
    assert set(np.ravel(law.interval())) <= {0.0, 1.0, 2.0, 3.0, 4.0}

"""Normal scores, regression adjustment, the box that a prior is cut to, and the choice."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import kernelmean as km
from kernelmean.bayes.adjustment import Adjustment, smoothed
from kernelmean.bayes.scores import NormalScores
from kernelmean.bayes.truncation import Box, draw_inside

AS_THEY_ARE = NormalScores(tuple(np.array([[-999.0, 999.0]] * 2) for _ in range(2)))


class TestNormalScores:
    draws = np.random.default_rng(0).uniform(2.0, 5.0, size=(20_000, 1))

    def test_are_those_of_the_distribution(self):
        x = np.array([[2.1], [3.0], [4.7]])
        exact = stats.norm.ppf((x - 2.0) / 3.0)
        assert_allclose(NormalScores.of(self.draws)(x), exact, atol=0.03)

    def test_back_is_the_inverse_in_the_range_and_its_end_beyond(self):
        scores = NormalScores.of(self.draws)
        z = np.linspace(-3, 3, 13)[:, None]
        assert_allclose(scores(scores.back(z)), z, atol=1e-12)
        ends = scores.back(np.array([[-50.0], [50.0]]))
        assert_array_equal(ends[:, 0], [self.draws.min(), self.draws.max()])

    def test_values_that_repeat_have_one_score(self):
        x = np.repeat([0.0, 1.0, 2.0], [50, 30, 20])[:, None]
        found = NormalScores.of(x)(np.array([[0.0], [1.0], [2.0]]))[:, 0]
        assert_allclose(found, stats.norm.ppf([0.25, 0.65, 0.9]))  # the middles of their shares


# ------------------------------------------------------------------------------------ the box
def test_a_box_holds_most_and_as_far_again():
    draws = np.random.default_rng(3).normal(size=(100_000, 2)) * [1.0, 5.0]
    box = Box.around(AS_THEY_ARE, draws)
    assert_allclose(box.half[0], 2 * stats.norm.ppf(0.995) * np.array([1.0, 5.0]), rtol=0.03)
    rows = box.centre + box.half * [[1.0, -1.0], [0.5, -2.0]]
    assert_allclose(box.stretch(rows), [1.0, 2.0])


def test_of_a_law_in_two_parts_each_has_a_box():
    rng = np.random.default_rng(3)
    draws = 0.1 * rng.normal(size=(2000, 2))
    assert len(Box.around(AS_THEY_ARE, draws).centre) == 1
    draws += np.where(rng.random(2000) < 0.2, 1.0, -1.0)[:, None] * [0.5, 1.0]
    box = Box.around(AS_THEY_ARE, draws)
    assert_allclose(box.centre[np.argsort(box.centre[:, 0])], [[-0.5, -1], [0.5, 1]], atol=0.1)
    assert_allclose(box.half, 0.2 * stats.norm.ppf(0.995), rtol=0.25)
    assert (box.stretch(np.array([[0.5, -1.0], [0.0, 0.0]])) > 1).all()


def uniform(rng):
    return lambda n: rng.uniform(-1, 1, (n, 2))


def test_draws_inside_are_the_prior_there():
    box = Box(AS_THEY_ARE, np.array([[0.3, 0.0]]), np.array([[0.1, 0.2]]))
    found, larger = draw_inside(uniform(np.random.default_rng(4)), box, 2000)
    assert larger == 1
    shares = (found - box.centre) / box.half
    assert len(found) == 2000
    assert min(stats.kstest(u, "uniform", args=(-1, 2)).pvalue for u in shares.T) > 1e-3


def test_a_box_grows_where_the_prior_hardly_is():
    box = Box(AS_THEY_ARE, np.array([[0.3, 0.0]]), np.full((1, 2), 1e-4))
    with pytest.warns(km.NumericalWarning, match="draws from the prior"):
        found, larger = draw_inside(uniform(np.random.default_rng(5)), box, 50)
    # fifty of fifty thousand: 1e-3 of the square's area
    assert_allclose(4 * (larger * box.half).prod(), 4e-3, rtol=0.5)
    assert box.stretch(found).max() == pytest.approx(larger)


# -------------------------------------------------------------------------------- adjustment
def test_smoothing_keeps_mean_and_covariance():
    rng = np.random.default_rng(0)
    w = rng.dirichlet(np.ones(300))
    Z = rng.normal(size=(300, 3)) @ [[1, 0.9, 0], [0, 0.2, 0], [0, 0, 5]]
    points, width = smoothed(Z, w)
    assert_allclose(w @ points, w @ Z, atol=1e-12)
    exact = np.cov(Z.T, aweights=w, ddof=0)
    assert_allclose(np.cov(points.T, aweights=w, ddof=0) + np.diag(width**2), exact, atol=1e-9)
    assert width[1] < 0.5 * exact[1, 1] ** 0.5  # narrow, given the first


def test_lines_and_scales_are_undone():
    """θ = 2s + e^{s/2} e exactly: moved to s = 1, 2 + e^{1/2} e."""
    rng = np.random.default_rng(1)
    s, e = rng.uniform(-1, 2, (4000, 1)), rng.normal(size=(4000, 1))
    one = NormalScores((AS_THEY_ARE.knots[0],))
    adjustment = Adjustment(one, one, None, 2 * s + np.exp(s / 2) * e, s, None)
    moved, w = adjustment.moved(np.array([[1.0]]))
    mean = w @ moved[:, 0]
    assert_allclose(mean, 2.0, atol=0.1)
    assert_allclose((w @ (moved[:, 0] - mean) ** 2) ** 0.5, np.exp(0.5), rtol=0.06)


def adjusted_normal(p: int, n: int, seed: int):
    """θ ~ N(0, I), x ~ N(θ, I): exactly N(x/2, I/2)."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n, p))
    prior = NormalScores.of(rng.normal(size=(10_000, p)))
    return Adjustment.of(prior, theta, theta + rng.normal(size=(n, p)))


@pytest.mark.slow
def test_a_linear_normal_model():
    law = adjusted_normal(2, 1000, 6).at(np.array([[1.0, -0.6]]))[0]
    assert_allclose(law.mean(), [0.5, -0.3], atol=0.1)
    drawn = law.sample(4000, 0)
    assert_allclose(np.cov(drawn.T), 0.5 * np.eye(2), atol=0.1)


def test_of_parameters_that_go_together_draws_do_too():
    """x tells their sum, with a noise of .2: draws are not smoothed by the spread of each alone."""
    rng = np.random.default_rng(6)
    theta, scores = rng.normal(size=(1000, 2)), NormalScores.of(rng.normal(size=(10_000, 2)))
    data = theta.sum(axis=1, keepdims=True) + 0.2 * rng.normal(size=(1000, 1))
    law = Adjustment.of(scores, theta, data).at(np.array([[1.0]]))[0]
    assert law.bandwidth == law.kernel.lengthscale
    drawn = law.sample(4000, 0)
    assert drawn.sum(axis=1).std() == pytest.approx(0.2, abs=0.04)
    assert (drawn[:, 0] - drawn[:, 1]).std() == pytest.approx(2**0.5, rel=0.15)


def test_of_a_parameter_without_a_sign_the_size_is_seen():
    """x = |θ| (1 + e/20): the mean of θ given x is zero everywhere, that of θ² is not."""
    rng = np.random.default_rng(9)
    theta, scores = rng.normal(size=(600, 1)), NormalScores.of(rng.normal(size=(10_000, 1)))
    data = np.abs(theta) * (1 + 0.05 * rng.normal(size=theta.shape))
    found = Adjustment.of(scores, theta, data)
    z, w = found.moved(found.tells(np.array([[1.5]])))
    assert w @ np.abs(z[:, 0]) == pytest.approx(1.5, abs=0.15)
    assert w @ (np.abs(np.abs(z[:, 0]) - 1.5) < 0.4) > 0.9
    assert w @ (z[:, 0] > 0) == pytest.approx(0.5, abs=0.1)


def test_data_beyond_those_simulated_are_said():
    with pytest.warns(km.NumericalWarning, match="nearest data"):
        law = adjusted_normal(1, 400, 7).at(np.array([[40.0]]))
    assert law.extrapolated.all()


# ----------------------------------------------------------------------------------- choice
def asked(simulator, observed, n=400, prior=None, **settings):
    prior = prior or (lambda n, rng: rng.uniform(-1, 1, size=n))
    return km.simulate_posterior(
        prior, simulator, observed, n, batch_size=n, random_state=8, **settings
    )


@pytest.mark.slow
def test_adjusted_parameters_are_simulated_in_rounds():
    """The first of six is seen with noise of .05, the rest not at all."""
    drawn = []

    def simulator(theta, rng):
        drawn.append(theta)
        return theta[:, :1] + 0.05 * rng.normal(size=(len(theta), 1))

    law = asked(simulator, [1.0], prior=lambda n, rng: rng.normal(size=(n, 6)))
    assert [len(theta) for theta in drawn] == [100] * 4
    assert np.abs(drawn[-1][:, 0] - 1).max() < 0.5
    found = law.sample(4000, 0)
    assert_allclose(found.mean(axis=0)[0], 1.0, atol=0.02)
    assert_allclose(found.mean(axis=0)[1:], 0.0, atol=0.3)
    assert_allclose(found.std(axis=0), [0.05, *[1.0] * 5], rtol=0.2)


@pytest.mark.slow
def test_many_parameters_keep_their_spread():
    """Six: a density of them smoothed by Silverman's rule would be a quarter too wide."""
    law = asked(
        lambda theta, rng: theta + rng.normal(size=theta.shape),
        np.linspace(-1, 1, 6),
        1000,
        prior=lambda n, rng: rng.normal(size=(n, 6)),
        rounds=1,
    )
    assert_allclose(law.mean(), np.linspace(-0.5, 0.5, 6), atol=0.15)
    assert_allclose(law.sample(4000, 0).std(axis=0), np.full(6, np.sqrt(0.5)), rtol=0.12)

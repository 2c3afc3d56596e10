"""Posteriors by a likelihood that is learned, rejection, and the choice between ways."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import kernelmean as km
from kernelmean.bayes import likelihood, ways
from kernelmean.bayes.adjustment import Adjustment
from kernelmean.bayes.likelihood import Likelihood
from kernelmean.bayes.rounds import Simulated
from kernelmean.bayes.scores import NormalScores
from kernelmean.bayes.truncation import Box, Draws
from kernelmean.densities.laws import MovedLaws

NOISE = 0.1


def test_density_of_normal_scores_is_that_of_the_draws():
    draws = np.random.default_rng(0).exponential(size=(40_000, 2))
    x = np.array([[0.5, 1.0], [2.0, 0.2]])
    assert_allclose(NormalScores.of(draws).log_density(x), -x.sum(axis=1), atol=0.15)


def test_draws_know_the_share_of_the_prior():
    rng = np.random.default_rng(1)
    box = Box(NormalScores((np.array([[-9.0, 9.0]] * 2),)), np.array([[0.2]]), np.array([[0.1]]))
    draws = Draws.of(lambda n: rng.uniform(0, 1, (n, 1)), box, 2.0)
    assert len(draws.theta) == 100_000
    assert 0 <= draws.theta.min() < draws.theta.max() <= 0.4
    assert_allclose(np.exp(draws.log_share), 0.4, atol=5e-3)


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch):
    """A bandwidth from a thousand draws: no assertion is about the last digits of a width."""
    monkeypatch.setattr(likelihood, "ENOUGH", 1000)


@pytest.fixture(scope="module")
def roots():
    """x = θ² + e/10 with θ uniform on (-1, 1)."""
    rng = np.random.default_rng(2)
    prior = lambda n: rng.uniform(-1, 1, (n, 1))  # noqa: E731
    theta = prior(400)
    data = theta**2 + NOISE * rng.normal(size=theta.shape)
    scores = NormalScores.of(prior(10_000))
    return Likelihood(scores, Draws.of(prior, None, 1.0), theta, data)


def test_draws_beyond_all_simulations_are_no_news(roots):
    """Nobody asked for them, so that nobody could act on a warning."""
    wider = copy(roots)
    wider.draws = Draws(np.linspace(-3, 3, 500)[:, None], 0.0)
    theta = np.array([[0.5], [-0.5]])
    assert np.isfinite(wider.score_samples(theta**2, theta)).all()
    assert abs(wider.at(theta[:1] ** 2).mean()[0, 0]) < 0.5


def exact(x: float) -> tuple[np.ndarray, np.ndarray]:
    """A grid and the density there."""
    grid = np.linspace(-1, 1, 4001)
    p = stats.norm.pdf(x, grid**2, NOISE)
    return grid, p / np.trapezoid(p, grid)


@pytest.mark.slow
@pytest.mark.parametrize("x", [0.1, 0.5])
def test_both_roots_are_found(roots, x):
    law, (grid, p) = roots.at(np.array([[x]])), exact(x)
    off = np.abs(law.density(grid[:, None])[0] - p)
    assert 0.5 * np.trapezoid(off, grid) < 0.12  # .07 in the mean of six designs
    lower, upper = law.interval(0.9)
    inside = np.trapezoid(np.where((grid > lower[0, 0]) & (grid < upper[0, 0]), p, 0.0), grid)
    assert 0.86 < inside < 0.95


@pytest.mark.slow
def test_log_densities_of_rows_are_those_of_the_posterior(roots):
    rng = np.random.default_rng(3)
    theta = rng.uniform(-0.9, 0.9, (100, 1))
    data = theta**2 + NOISE * rng.normal(size=theta.shape)
    truth = [np.log(np.interp(t[0], *exact(x[0]))) for t, x in zip(theta, data, strict=True)]
    assert np.mean(roots.score_samples(data, theta) - truth) == pytest.approx(0.0, abs=0.1)


def test_a_bound_of_log_densities_lacks_the_positive_part_alone():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(80, 1))
    Y = np.hstack([X, np.sin(3 * X)]) + 0.1 * rng.normal(size=(80, 2))
    model = km.ConditionalDensity(km.Gaussian(0.3), bandwidth=0.1, reg=1e-3, location=False)
    laws = MovedLaws(model.fit(X, Y).at(X[:6]))
    bound, whole = np.exp(laws.log_bound(Y[:9])), laws.whole()
    assert_allclose(bound, laws.density(Y[:9]) * whole[:, None], rtol=1e-9)
    assert whole.max() > 1.001


def test_the_nearest_are_left_as_they_are():
    S = np.arange(100.0)[:, None]
    one = NormalScores((np.array([[-999.0, 999.0]] * 2),))
    found, w = Adjustment(one, one, None, 2 * S, S, None, lines=False).unmoved(np.array([[50.0]]))
    assert set(found[:, 0]) <= set(range(60, 142, 2))
    assert len(found) == 40
    assert found[w.argmax(), 0] == 100


def test_where_nothing_is_better_than_the_nearest_that_is_said(monkeypatch):
    @dataclass(frozen=True)
    class Stub:
        lines: bool = True

        def score_samples(self, data, theta):
            return np.full(len(data), -5.0 * self.lines)

    monkeypatch.setattr(ways.Adjustment, "of", lambda *_: Stub())
    rng = np.random.default_rng(4)
    theta, data = rng.normal(size=(200, 6)), rng.normal(size=(200, 2))
    known = Simulated(None, theta, data, NormalScores.of(theta))
    with pytest.warns(km.NumericalWarning, match="rejection"):
        _, found = ways.best(known, data[:1], False)
    assert not found.lines


def test_data_that_tell_nothing_leave_the_prior():
    """No summary has anything to say: lines are then means."""
    one = NormalScores((np.array([[-999.0, 999.0]] * 2),))
    Z = np.random.default_rng(5).normal(size=(200, 1))
    found, w = Adjustment(one, one, None, Z, np.empty((200, 0)), None).moved(np.empty((1, 0)))
    assert w @ found[:, 0] == pytest.approx(0.0, abs=0.3)
    assert (w @ found[:, 0] ** 2) ** 0.5 == pytest.approx(1.0, abs=0.2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* draws from the prior")
def test_without_noise_parameters_are_found_again():
    law = km.simulate_posterior(
        lambda n, rng: rng.uniform(-1, 1, (n, 2)),
        lambda t, _: np.column_stack([t[:, 0] + t[:, 1] ** 2, t[:, 1]]),
        [0.2, 0.1],
        400,
        batch_size=400,
        random_state=0,
    )
    assert_allclose(law.mean(), [0.19, 0.1], atol=5e-3)

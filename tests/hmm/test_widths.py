"""A bandwidth for each state, where the states' laws differ in width."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import kernelmean as km
from kernelmean.chains import emission, markov
from kernelmean.chains.emission import (
    EmissionsByState,
    Guard,
    no_finer,
    own_widths,
    spreads_of,
)
from kernelmean.chains.rows import rows_like
from kernelmean.hmm import learn

SIZES = np.array([0.3, 3.0])


def calm_and_wild(n: int, seed: int, d: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Two states that last twenty rows, of one mean, and laws of Laplace."""
    rng = np.random.default_rng(seed)
    chain = markov.Chain(np.full(2, 0.5), np.array([[0.95, 0.05], [0.05, 0.95]]))
    states = markov.draw(chain, n, rng)
    return SIZES[states, None] * rng.laplace(size=(n, d)) / 2**0.5, states


@pytest.fixture(scope="module", autouse=True)
def normal():
    """Laws of t are left out: they would do without widths here. Few landmarks are as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(learn.TOWARDS, 4.0)
        patch.setattr(emission, "LOST", 1e-6)
        yield


@pytest.fixture(scope="module")
def model(normal) -> km.KernelHMM:
    return km.KernelHMM(2, random_state=0).fit(calm_and_wild(500, 0)[0])


def test_widths_follow_the_states(model):
    assert isinstance(model.laws_, EmissionsByState)
    calm, wild = sorted(model.laws_.widths)
    assert 5 < wild / calm < 20  # the laws are ten times as wide as each other
    assert_allclose(np.sqrt(calm * wild), model.bandwidth_)


def test_densities_are_those_of_the_formula(model):
    Y = np.linspace(-8, 8, 81)[:, None]
    laws, points = model.emissions_.weights, model.emissions_.points
    for k, part in enumerate(model.laws_.parts):
        guard, width = part.guard, model.laws_.widths[k]
        kernel = norm.pdf((Y - points[:, 0]) / width) / width @ laws[k]
        normal = norm.pdf(Y[:, 0], guard.means[0, 0], guard.variances[0, 0] ** 0.5)
        share = guard.strength / (guard.strength + guard.counts)
        expected = (1 - share) * kernel + share * normal
        assert_allclose(model.density(Y)[:, k], expected, atol=2e-6)  # Nyström's error


@pytest.mark.slow
def test_better_than_one_for_both(model):
    new, states = calm_and_wild(2000, 1)
    one = km.KernelHMM(2, random_state=0, bandwidth=model.bandwidth_).fit(calm_and_wild(500, 0)[0])
    assert model.score(new) > one.score(new) + 20
    found = model.filter(new).argmax(axis=1)
    assert km.comparators.matched_accuracy(states, found) > 0.9


def test_draws_have_the_width_of_their_state(model):
    X, states = model.sample(4000, random_state=0)
    of = [X[states == k].std() for k in range(2)]
    assert_allclose(sorted(of), SIZES, rtol=0.2)


def test_save_and_load(model, tmp_path):
    model.save(tmp_path / "model.km")
    new = calm_and_wild(50, 2)[0]
    assert_allclose(km.load(tmp_path / "model.km").filter(new), model.filter(new), atol=1e-12)


@pytest.mark.slow
def test_rows_there_in_part_are_judged_by_the_rest():
    """The law of a column is the joint law, integrated over the other."""
    X, _ = calm_and_wild(300, 3, d=2)
    model = km.KernelHMM(2, random_state=0).fit(X)
    assert isinstance(model.laws_, EmissionsByState)
    y = np.array([[0.5, np.nan]])
    found = model.chain_.log_emissions(rows_like(model, y))[0]
    grid = np.linspace(-30, 30, 6001)
    joint = model.density(np.column_stack([np.full(len(grid), 0.5), grid]))
    assert_allclose(np.exp(found), joint.sum(axis=0) * 0.01, rtol=0.01)


def test_own_widths_are_silvermans():
    X, states = calm_and_wild(400, 4, d=2)
    weights = np.eye(2)[states]
    found = np.array(own_widths(X, weights))
    size = np.array([X[states == k].std(axis=0).prod() ** 0.5 for k in range(2)])
    expected = size * weights.sum(axis=0) ** (-1 / 6)
    assert_allclose(found, expected / expected.prod() ** 0.5, rtol=1e-9)


def test_guards_together_are_the_guard_of_all():
    X, states = calm_and_wild(100, 5)
    weights = np.eye(2)[states]
    parts = [Guard.of(X, weights[:, [k]], X.var(axis=0), False) for k in range(2)]
    whole, together = Guard.of(X, weights, X.var(axis=0), False), Guard.joined(parts)
    assert_allclose(together.log_density(X), whole.log_density(X), atol=1e-12)
    assert_allclose(together.counts, whole.counts)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1.0, 0.01])
def test_values_in_steps_make_no_state_of_one_value(step):
    """Counts of .4 and 3 on average: a law of noughts alone, as narrow as they, would be likely."""
    rng = np.random.default_rng(615100)
    chain = markov.Chain(np.full(2, 0.5), np.array([[0.9, 0.1], [0.1, 0.9]]))
    states = markov.draw(chain, 1300, rng)
    X = step * rng.poisson(np.array([0.4, 3.0])[states])[:, None]
    model = km.KernelHMM(2, random_state=0).fit(X[:300])
    assert km.comparators.matched_accuracy(states[300:], model.predict(X[300:])) > 0.9


def test_states_are_no_narrower_than_steps():
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.poisson(3.0, 400) * 0.1, rng.normal(size=400)])
    narrow = no_finer(km.Gaussian((1e-3, 0.02)), points).lengthscale
    assert_allclose(narrow, (0.04, 0.02))
    assert no_finer(km.Gaussian(0.1), points).lengthscale == 0.1  # one of the columns has none
    assert no_finer(km.Delta(), points) == km.Delta()
    # the values that there may be have no more than all of the mass, but for a tenth
    steps = np.arange(-5, 6) * 0.1
    assert 1 < 0.1 * norm.pdf(steps, scale=narrow[0]).sum() < 1.1
    # the least variance of a guard, a thousandth of these, is that of rounding
    assert_allclose(1e-3 * spreads_of(points), [0.01 / 12, 1e-3 * points[:, 1].var()])

"""Rows that are there in part: the law of the columns that they have, against integrals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelmean as km
from kernelmean.chains import emission
from kernelmean.chains.emission import Guard, Shrunken, Smoothing
from kernelmean.chains.markov import Chain, filtered

GRID = np.linspace(-12, 14, 1301)


def draw(n, seed, shape="normal"):
    """Two states that last, two columns that depend on each other."""
    rng = np.random.default_rng(seed)
    states = np.repeat(np.arange(n) % 2, rng.geometric(0.1, n))[:n]
    E = rng.normal(size=(n, 2)) if shape == "normal" else rng.exponential(size=(n, 2)) - 1
    X = E @ np.array([[1.0, 0.6], [0.0, 0.8]]) + states[:, None] * [2.0, -1.0]
    return X, states


@pytest.fixture(scope="module", params=["normal", "skew"])
def model(request):
    X, _ = draw(200, 3, request.param)
    return km.KernelHMM(2, inference="forward", random_state=0, em=km.EM(n_init=3)).fit(X)


def integrated(model, value, column):
    """∫ f_k over the other column, (K,)."""
    points = np.empty((len(GRID), 2))
    points[:, column], points[:, 1 - column] = value, GRID
    return np.trapezoid(model.density(points), GRID, axis=0)


def with_gaps(X, seed=0, share=0.3):
    """One column or the other missing in some rows, both in a few."""
    rng = np.random.default_rng(seed)
    X = X.copy()
    X[rng.random(X.shape) < share] = np.nan
    return X


@pytest.mark.parametrize("column", [0, 1])
def test_marginal_densities_are_integrals(model, column):
    values = np.array([-1.5, 0.3, 2.0])
    found = np.exp(model.chain_.marginal([column]).log_density(values[:, None]))
    want = [integrated(model, value, column) for value in values]
    assert_allclose(found, want, rtol=2e-3)


def test_filter_by_hand(model):
    X = with_gaps(draw(30, 8)[0])
    logb = np.zeros((30, 2))
    for t, row in enumerate(X):
        there = ~np.isnan(row)
        if there.all():
            logb[t] = np.log(model.density(row[None]))[0]
        elif there.any():
            column = int(np.argmax(there))
            logb[t] = np.log(integrated(model, row[column], column))
    chain = Chain(model.startprob_, model.transmat_)
    alpha, loglik = filtered(logb, chain, [slice(0, 30)])
    assert_allclose(model.filter(X), alpha, atol=2e-3)
    assert_allclose(model.log_predictive(X), loglik, atol=5e-3)


@pytest.mark.parametrize("inference", ["kbr", "forward"])
def test_one_row_at_a_time(inference):
    X, _ = draw(150, 5, "skew")
    em = km.EM(n_init=2, max_iter=20)
    model = km.KernelHMM(2, inference=inference, random_state=0, em=em, reg=0.01).fit(X)
    new = with_gaps(X[:25])
    belief, found = model.start(), []
    for row in new:
        found.append(belief.update(row).probabilities)
        belief.predict()
    assert_allclose(found, model.filter(new), atol=1e-9)
    blank = np.where(np.isnan(new).any(axis=1, keepdims=True), np.nan, new)
    assert np.abs(model.filter(new) - model.filter(blank)).max() > 0.01


@pytest.mark.parametrize("rule", [Guard.of, Shrunken(0.5)])
def test_laws_of_some_columns_while_learning(rule):
    X, states = draw(60, 2)
    gamma = np.abs(np.eye(2)[states] - 0.1)
    kernel = km.kernels.Gaussian(0.7)
    found = Smoothing(X, kernel, rule).marginals(gamma)([1], X[:5, 1:])
    part = np.exp(-((X[:, 1] - X[:5, 1:]) ** 2) / (2 * 0.49)) / np.sqrt(2 * np.pi * 0.49) @ gamma
    counts = gamma.sum(axis=0)
    mean = X[:, 1] @ gamma / counts
    variance = X[:, 1] ** 2 @ gamma / counts - mean**2
    normal = np.exp(-((X[:5, 1:] - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    c = counts if rule != Guard.of else 1.0
    assert_allclose(np.exp(found), (part + c * normal) / (counts + c), rtol=1e-6)


def test_laws_of_some_columns_of_many_rows(monkeypatch):
    """By landmarks, as by sums over the rows themselves."""
    X, states = draw(60, 2)
    rows, gamma = np.tile(X[:, 1:], (2, 1)), np.abs(np.eye(2)[states] - 0.1)
    smoothing = Smoothing(X, km.kernels.Gaussian(0.7))
    few = smoothing.marginals(gamma)([1], rows)
    monkeypatch.setattr(emission, "RANK", 60)
    monkeypatch.setattr(emission, "LOST", 1e-12)
    assert_allclose(smoothing.marginals(gamma)([1], rows), few, atol=1e-7)


@pytest.mark.slow
def test_learning_from_partial_rows():
    """What is there of a row tells its state: states and chain are better than without it."""
    X, states = draw(400, 11)
    some = with_gaps(X, 1, 0.4)
    none = np.where(np.isnan(some).any(axis=1, keepdims=True), np.nan, some)
    right = [
        km.comparators.matched_accuracy(
            states, km.KernelHMM(2, random_state=0, em=km.EM(n_init=3)).fit(rows).predict(rows)
        )
        for rows in (some, none)
    ]
    assert right[0] > right[1] + 0.02


@pytest.mark.slow
def test_variates_of_a_partial_row_are_unknown():
    X = np.random.default_rng(0).normal(size=(80, 5))
    X[10:, 0] += 3 * (np.arange(70) // 10 % 2)
    model = km.KernelHMM(2, random_state=0, em=km.EM(n_init=2, max_iter=5)).fit(X)
    some, none = X[:20].copy(), X[:20].copy()
    some[4, 1], none[4] = np.nan, np.nan
    assert_allclose(model.filter(some), model.filter(none))


@pytest.mark.slow
def test_draws_of_regimes_that_are_largely_normal():
    """A draw is from the whole law, its normal share as well: moments are those of `density`."""
    X, _ = draw(300, 3)
    model = km.KernelHMM(2, random_state=0, em=km.EM(n_init=3)).fit(X)
    guard = model.laws_.guard
    assert guard.whitening is not None
    assert guard.strength[0] > guard.counts[0] / 2
    drawn, states = model.sample(40_000, random_state=1)
    X0 = drawn[states == 0]
    points = np.stack(np.meshgrid(GRID[::10], GRID[::10]), axis=-1).reshape(-1, 2)
    mass = model.density(points)[:, 0]
    mean = mass @ points / mass.sum()
    want = (points - mean).T * mass @ (points - mean) / mass.sum()
    assert_allclose(X0.mean(axis=0), mean, atol=0.04)
    assert_allclose(np.cov(X0.T), want, rtol=0.05, atol=0.02)

"""A row of gross error does not take the mean away from the others."""

import numpy as np
import pytest

import kernelmean as km
from kernelmean.densities.outliers import nearer, reach


def drawn(n: int, far: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 2))
    truth = X[:, 0] + np.sin(2 * X[:, 1])
    y = truth + 0.5 * rng.normal(size=n)
    y[0] += far
    return X, y, truth


def test_within_reach_nothing_changes_and_beyond_it_comes_back():
    m, b = np.zeros((5, 1)), np.array([2.0])
    Y = np.array([[-1.0], [2.0], [3.0], [-5.0], [4.0]])
    np.testing.assert_array_equal(nearer(Y, m, b), [[-1.0], [2.0], [1.0], [0.0], [0.0]])
    np.testing.assert_array_equal(nearer(Y, m, np.array([np.inf])), Y)


def test_where_most_rows_are_met_nothing_is_far():
    off = np.zeros((40, 2))
    off[0], off[:, 1] = 7.0, 1.0
    np.testing.assert_array_equal(reach(off), [np.inf, 8.0])


@pytest.mark.parametrize("far", [30.0, -300.0])
def test_the_median_stays_near_the_truth(far):
    X, y, truth = drawn(40, far)
    model = km.ConditionalDensity().fit(X, y)
    assert model.location_ is not None
    off = model.predict_quantile(X, 0.5)[1:] - truth[1:]
    assert np.sqrt(np.mean(off**2)) < 0.5 * truth.std()
    assert np.abs(np.asarray(model.points_)).max() > 0.9 * abs(far)  # the law keeps it


@pytest.mark.slow
def test_units_shifts_and_the_order_of_rows_change_nothing():
    X, y, _ = drawn(60, 30.0)
    levels = [0.1, 0.5, 0.9]
    found = km.ConditionalDensity().fit(X, y).predict_quantile(X, levels)
    moved = km.ConditionalDensity().fit(X, 1000.0 * y - 40.0).predict_quantile(X, levels)
    np.testing.assert_allclose(0.001 * (moved + 40.0), found, atol=0.01 * y[1:].std())
    order = np.random.default_rng(0).permutation(len(y))
    mixed = km.ConditionalDensity().fit(X[order], y[order]).predict_quantile(X, levels)
    np.testing.assert_allclose(mixed, found, atol=0.01 * y[1:].std())

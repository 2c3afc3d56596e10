"""pairing: monotone maps and assignments against brute force, starts against dense formulas."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment

from kernelmean.statespace.pairing import assigned_pairs, sorted_pairs, spread


def cloud(n: int, d: int, seed: int = 40) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.gamma(2.0, size=(n, d)) @ rng.normal(size=(d, d))


def unit(points: np.ndarray) -> np.ndarray:
    """Σ^{-1/2}(x − μ)."""
    covariance = np.atleast_2d(np.cov(points.T, bias=True))
    return (points - points.mean(0)) @ np.linalg.inv(scipy.linalg.sqrtm(covariance)).real


# ------------------------------------------------------------ one column


@pytest.mark.parametrize(("n", "m"), [(30, 30), (30, 10), (31, 7), (10, 30), (1, 5), (5, 1)])
def test_sorted_pairs_are_in_order_and_spread_evenly(rng, n, m):
    y, x = rng.normal(size=(n, 1)), rng.normal(size=(m, 1))
    pairs = sorted_pairs(y, x)
    assert pairs.shape == (n,)
    assert np.all(np.diff(x[pairs[np.argsort(y[:, 0])], 0]) >= 0)
    used = np.bincount(pairs, minlength=m)
    assert used.max() - used.min() <= 1


def test_ranks_are_scaled_to_the_middle(rng):
    """Of three times as many points, every observation goes with the middle one of its three."""
    x = np.arange(9.0)[:, None]
    assert_array_equal(sorted_pairs(np.array([[3.0], [1.0], [2.0]]), x), [7, 1, 4])


def test_sorting_depends_on_the_order_of_neither(rng):
    y, x, p = rng.normal(size=(20, 1)), rng.normal(size=(20, 1)), rng.permutation(20)
    assert_array_equal(sorted_pairs(y[p], x), sorted_pairs(y, x)[p])
    assert_allclose(x[p][sorted_pairs(y, x[p])], x[sorted_pairs(y, x)], rtol=0)
    assert_array_equal(sorted_pairs(np.exp(y), x), sorted_pairs(y, x))


@pytest.mark.parametrize(("n", "m"), [(25, 25), (25, 9), (9, 25)])
def test_the_best_assignment_on_a_line_is_sorting(rng, n, m):
    y = rng.normal(size=(n, 1))
    x = np.sort(rng.normal(size=(m, 1)), axis=0)
    points = spread(n, m)
    _, order = linear_sum_assignment((unit(y) - unit(x)[points].T) ** 2)
    for pairs in (sorted_pairs(y, x), assigned_pairs(y, x)):
        assert_allclose(x[pairs], x[points[order]], rtol=0)


# ------------------------------------------------------------ more columns


@pytest.mark.parametrize("d", [2, 3])
def test_assignments_are_the_best_of_all(d):
    y, x = cloud(6, d), cloud(6, d, seed=41)
    pairs = assigned_pairs(y, x)

    def cost(order) -> float:
        return float(((unit(y) - unit(x)[list(order)]) ** 2).sum())

    assert sorted(pairs) == list(range(6))
    assert_allclose(cost(pairs), min(map(cost, permutations(range(6)))), rtol=1e-10)


@pytest.mark.parametrize(("d_y", "d_x"), [(1, 2), (2, 3), (3, 1), (3, 2)])
def test_different_numbers_of_columns(d_y, d_x):
    y, x = cloud(40, d_y), cloud(40, d_x, seed=41)
    assert sorted(assigned_pairs(y, x)) == list(range(40))


def test_the_first_latent_columns_follow_fewer_observed():
    y, x = cloud(60, 1), np.random.default_rng(41).normal(size=(60, 3))
    assert_array_equal(assigned_pairs(y, x), sorted_pairs(y, x[:, :1]))


def test_the_leading_component_of_more_observed_columns_is_followed():
    rng = np.random.default_rng(40)
    y = rng.normal(size=(60, 1)) @ [[3.0, 4.0]] + 1e-6 * rng.normal(size=(60, 2))
    x = rng.normal(size=(60, 1))
    paired = x[assigned_pairs(y, x), 0]
    assert (
        abs(np.corrcoef(np.argsort(np.argsort(paired)), np.argsort(np.argsort(y[:, 0])))[0, 1])
        > 0.999
    )


def test_where_the_observations_are_and_their_unit_do_not_matter():
    y, x = cloud(50, 2), cloud(50, 2, seed=41)
    assert_array_equal(assigned_pairs(1e3 * y + 1e6, x), assigned_pairs(y, x))


def test_many_rows_go_with_the_nearest_that_were_assigned(rng):
    y, x = rng.normal(size=(1500, 2)), rng.normal(size=(1500, 2))
    pairs = assigned_pairs(y, x, limit=200)
    assert len(np.unique(pairs)) == 200
    assert np.bincount(pairs).max() < 100
    whole = x[assigned_pairs(y, x, limit=1500)]
    assert ((x[pairs] - whole) ** 2).mean() < 0.1
    assert ((x[rng.permutation(pairs)] - whole) ** 2).mean() > 1.5


@pytest.mark.parametrize(("n", "m"), [(30, 10), (10, 30), (200, 30)])
def test_sizes_that_differ_are_used_evenly(n, m):
    used = np.bincount(assigned_pairs(cloud(n, 2), cloud(m, 2, seed=41)), minlength=m)
    assert used.max() - used.min() <= 1


@pytest.mark.parametrize("y", [np.ones((8, 2)), np.column_stack([np.arange(8.0), np.ones(8)])])
def test_columns_without_spread_are_no_trouble(y):
    assert sorted(assigned_pairs(y, cloud(8, 2))) == list(range(8))

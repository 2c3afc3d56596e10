"""linalg: the one file where the regulariser meets n."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

import kernelmean as km
from kernelmean.core import arrays, solves


@pytest.fixture
def second(rng) -> np.ndarray:
    """A second moment Phi'Phi/n of full rank."""
    Phi = rng.normal(size=(40, 6))
    return Phi.T @ Phi / 40


@pytest.mark.parametrize("reg", [0.0, 1e-8, 0.3])
def test_ridge_solves(second, rng, reg):
    B = rng.normal(size=(6, 3))
    expected = np.linalg.solve(second + reg * np.eye(6), B)
    assert_allclose(solves.ridge(second, reg).solve(B), expected, rtol=1e-9)
    assert_allclose(solves.ridge(second, reg).solve(B[:, 0]), expected[:, 0], rtol=1e-9)


@pytest.mark.parametrize("reg", [0.0, 0.3])
def test_half_is_a_square_root_of_the_inverse(second, rng, reg):
    B = rng.normal(size=(6, 3))
    half = solves.ridge(second, reg).half(B)
    assert_allclose(half.T @ half, B.T @ np.linalg.solve(second + reg * np.eye(6), B), rtol=1e-9)


def test_a_primal_ridge_is_the_dual_with_n_lambda(rng):
    """MATH 0: (Phi'Phi/n + lam I)^-1 Phi'y/n = Phi'(K + n lam I)^-1 y."""
    Phi, y, lam = rng.normal(size=(40, 6)), rng.normal(size=40), 0.05
    primal = solves.ridge(Phi.T @ Phi / 40, lam).solve(Phi.T @ y / 40)
    dual = Phi.T @ np.linalg.solve(Phi @ Phi.T + 40 * lam * np.eye(40), y)
    assert_allclose(primal, dual, rtol=1e-9)


def test_rank_loss_warns_and_gives_the_least_norm_solution(rng):
    Phi = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 6))
    second, b = Phi.T @ Phi / 40, Phi.T @ rng.normal(size=40)
    with pytest.warns(km.NumericalWarning, match="rank 3"):
        factor = solves.ridge(second, 0.0)
    assert_allclose(factor.solve(b), np.linalg.pinv(second, rcond=1e-10) @ b, rtol=1e-6, atol=1e-8)


def test_a_factor_that_is_rounding_noise_is_not_trusted():
    """Cholesky succeeds here, with a last pivot of 4e-16: what it solves is noise."""
    second = np.array([[1.0, 1.0], [1.0, 1.0 + 4e-16]])
    np.linalg.cholesky(second)
    with pytest.warns(km.NumericalWarning, match="rank 1"):
        factor = solves.ridge(second, 0.0)
    assert_allclose(factor.solve(np.array([1.0, 1.0 + 1e-9])), [0.5, 0.5], rtol=1e-6)


def test_a_regulariser_makes_rank_loss_harmless(rng):
    Phi = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solves.ridge(Phi.T @ Phi / 40, 1e-6)


def test_the_input_is_not_overwritten(second):
    before = second.copy()
    solves.ridge(second, 0.1), solves.EigenGrid.of(second), solves.add_to_diagonal(second, 1.0)
    assert_allclose(second, before, rtol=0)


@pytest.mark.parametrize("reg", [1e-6, 0.1, 10.0])
def test_one_eigendecomposition_serves_every_regulariser(second, rng, reg):
    grid, b = solves.EigenGrid.of(second), rng.normal(size=6)
    got = grid.vectors @ (grid.shrink(reg) * (grid.vectors.T @ b))
    assert_allclose(got, np.linalg.solve(second + reg * np.eye(6), b), rtol=1e-9)


def test_lost_directions_get_zero_not_infinity():
    grid = solves.EigenGrid.of(np.diag([0.0, 1.0, 2.0]))
    assert_allclose(np.sort(grid.shrink(0.0)), [0.0, 0.5, 1.0])


def test_eigenvalues_of_a_semidefinite_matrix_are_not_negative(rng):
    Phi = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 6))
    values, vectors = solves.eigh(Phi.T @ Phi)
    assert (values >= 0).all()
    assert_allclose(vectors @ np.diag(values) @ vectors.T, Phi.T @ Phi, atol=1e-10)


@pytest.mark.parametrize("rank", [1, 4, 9])
def test_pivoted_cholesky(rng, rank):
    A = rng.normal(size=(9, rank))
    pivots, F = solves.pivoted_cholesky(A @ A.T)
    assert F.shape == (9, rank)
    assert_allclose(F @ F.T, A @ A.T, atol=1e-10)
    assert_allclose(np.triu(F[pivots], 1), 0.0)


@pytest.mark.parametrize("columns", [1, 3, 9, 10, 50])
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_squared_distances(rng, columns, offset):
    X, Y = rng.normal(size=(8, columns)) + offset, rng.normal(size=(5, columns)) + offset
    # by differences below ten columns; by a matrix product on centred points above
    assert_allclose(arrays.sq_dists(X, Y), cdist(X, Y) ** 2, rtol=1e-9)


def test_squared_distances_of_equal_points_are_zero(rng):
    X = rng.normal(size=(8, 20)) + 100
    assert_allclose(arrays.sq_dists(X, X).diagonal(), 0.0, atol=1e-11)


def test_squared_distances_between_far_clusters_of_many_columns(rng):
    X = np.concatenate([rng.normal(size=(4, 20)), 1e6 + rng.normal(size=(4, 20))])
    assert_allclose(arrays.sq_dists(X, X), cdist(X, X) ** 2, rtol=1e-9, atol=1e-9)


def test_solve_lower(rng):
    L, B = np.tril(rng.normal(size=(5, 5))) + 5 * np.eye(5), rng.normal(size=(5, 2))
    assert_allclose(L @ solves.solve_lower(L, B), B, atol=1e-12)


@pytest.mark.parametrize(("n", "size", "counts"), [(0, 3, []), (2, 3, [2]), (7, 3, [3, 3, 1])])
def test_slices_hold_each_row_once(n, size, counts):
    parts = [np.arange(n)[some] for some in arrays.slices(n, size)]
    assert list(map(len, parts)) == counts
    assert [*np.concatenate([*parts, []])] == list(range(n))


def test_a_singular_triangle_is_an_error(rng):
    with pytest.raises(np.linalg.LinAlgError, match="entry 2 .* is zero"):
        solves.solve_lower(np.diag([1.0, 0.0, 2.0]), rng.normal(size=3))


@pytest.mark.parametrize("shape", [(3, 0), (0, 2), (0,)])
def test_solve_lower_of_nothing(shape):
    L = np.eye(shape[0])
    assert solves.solve_lower(L, np.empty(shape)).shape == shape

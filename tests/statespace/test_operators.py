"""pairmoments: the loss against paths, T×T matrices and finite differences; its minimum."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelmean as km
from kernelmean.statespace.operators import PairMoments, Terms, minimise
from papers.spiteri2023 import adam

STAY = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]])
SHOWN = np.array([[0.8, 0.1, 0.1, 0.0], [0.1, 0.7, 0.1, 0.1], [0.0, 0.1, 0.2, 0.7]])


def stationary(transmat: np.ndarray) -> np.ndarray:
    return np.linalg.matrix_power(transmat, 200)[0]


def by_paths(lag: int) -> np.ndarray:
    """P(y_1 = a, y_{1+lag} = b) of the finite model, path by path."""
    start, joint = stationary(STAY), np.zeros((4, 4))
    for path in product(range(3), repeat=lag + 1):
        steps = [STAY[i, j] for i, j in pairwise(path)]
        joint += start[path[0]] * np.prod(steps) * np.outer(SHOWN[path[0]], SHOWN[path[-1]])
    return joint


def finite(lags: int, penalty=(1.0, 1.0)) -> PairMoments:
    """Exact moments of the finite model, in coordinates that tell all its points apart."""
    start = stationary(STAY)
    lagged = [by_paths(lag) for lag in range(1, lags + 1)]
    return PairMoments(lagged, start @ SHOWN, np.diag(start), start, penalty)


def sequence(n: int, seed: int) -> np.ndarray:
    rng, y = np.random.default_rng(seed), np.zeros((n, 1))
    for t in range(1, n):
        y[t] = 0.8 * y[t - 1] + rng.normal()
    return y


class Pair:
    """The same data for both forms of the loss: coordinates and Gram matrices."""

    def __init__(self, features, n=40, seed=40, penalty=(0.7, 1.3), exact=False):
        y, x = sequence(n, seed), np.random.default_rng(seed).normal(size=(n, 1))
        x = np.sort(x, axis=0)[np.argsort(np.argsort(y[:, 0]))]
        kernels = km.Gaussian(1.5), km.Gaussian(1.0)
        self.Phi = features.fit_transform(y, kernels[0])
        self.Psi = features.fit_transform(x, kernels[1])
        if exact:
            self.dense = adam.DenseStateSpace(kernels[0](y, y), kernels[1](x, x), penalty)
        else:
            grams = (A @ A.T for A in (self.Phi, self.Psi))
            self.dense = adam.DenseStateSpace(*grams, penalty)
        C = self.Phi[:-1].T @ self.Phi[1:] / (n - 1)
        means = self.Phi.mean(axis=0), self.Psi.mean(axis=0)
        self.moments = PairMoments([C], means[0], self.Psi.T @ self.Psi / n, means[1], penalty)

    def operators(self, W, Wt):
        """(ΦᵀWΨ, ΨᵀW̃Ψ): the thesis's finite-rank operators in coordinates."""
        return self.Phi.T @ W @ self.Psi, self.Psi.T @ Wt @ self.Psi


# ------------------------------------------------------------ the loss


@pytest.mark.parametrize("lags", [1, 3])
def test_the_true_model_of_a_finite_set_has_no_loss(lags):
    moments = finite(lags)
    assert_allclose(moments.terms(SHOWN.T, STAY.T), (0, 0, 0), atol=1e-30)
    for slope in moments.gradient(SHOWN.T, STAY.T):
        assert_allclose(slope, 0, atol=1e-15)


def test_another_model_of_the_same_pairs_is_told_apart_by_longer_lags(rng):
    """With one lag, many (U, V) reproduce the pairs; V of the true spectrum alone the others."""
    A = np.eye(3) + 0.2 * rng.normal(size=(3, 3))
    joint = np.diag(stationary(STAY)) @ STAY
    U = SHOWN.T @ A
    V = (np.linalg.inv(A) @ joint @ np.linalg.inv(A).T).T / stationary(STAY)
    loose = (0.0, 0.0)
    assert finite(1, loose).loss(U, V) < 1e-28
    assert finite(2, loose).loss(U, V) > 1e-4


def test_the_loss_of_two_points_by_hand():
    moments = PairMoments(
        [np.array([[0.5]])], np.array([2.0]), np.array([[3.0]]), np.array([4.0]), (10.0, 100.0)
    )
    terms = moments.terms(np.array([[1.0]]), np.array([[0.5]]))
    assert terms == Terms((0.5 - 1.5) ** 2, 10 * (2 - 4) ** 2, 100 * (4 - 2) ** 2)
    assert moments.loss(np.array([[1.0]]), np.array([[0.5]])) == sum(terms)


@pytest.mark.parametrize("lags", [1, 2, 4])
def test_the_gradient_passes_finite_differences(rng, lags):
    U, V = rng.normal(size=(4, 3)), 0.5 * rng.normal(size=(3, 3))
    A = rng.normal(size=(20, 3))
    moments = PairMoments(
        list(rng.normal(size=(lags, 4, 4))), rng.normal(size=4), A.T @ A / 20, A.mean(0), (0.3, 2.0)
    )

    def loss(theta):
        return moments.loss(theta[:12].reshape(4, 3), theta[12:].reshape(3, 3))

    theta = np.concatenate([U.ravel(), V.ravel()])
    slope = np.concatenate([g.ravel() for g in moments.gradient(U, V)])
    steps = 1e-5 * np.eye(len(theta))
    central = [(loss(theta + e) - loss(theta - e)) / 2e-5 for e in steps]
    assert_allclose(slope, central, rtol=1e-6, atol=1e-7 * np.abs(slope).max())


# ------------------------------------------------------------ the thesis's matrices


@pytest.mark.parametrize(
    ("features", "exact"),
    [
        (km.Exact(), True),
        (km.Nystroem(tol=1e-13), True),
        (km.Nystroem(tol=1e-3), False),
    ],
    ids=["exact", "to rounding", "low rank"],
)
def test_coordinates_and_T_by_T_matrices_have_the_same_loss(rng, features, exact):
    """The low rank is compared with Gram matrices of that rank."""
    pair = Pair(features, exact=exact)
    for scale in (0.01, 0.1):
        W, Wt = scale * rng.normal(size=(2, 40, 40))
        assert_allclose(
            pair.moments.terms(*pair.operators(W, Wt)), pair.dense.terms(W, Wt), rtol=1e-8
        )


def test_the_dense_loss_is_that_of_sums_over_kernels(rng):
    """Lemma 4.5 without its traces: inner products of the operators' images, term by term."""
    pair = Pair(km.Exact(), n=6, exact=True)
    W, Wt = 0.3 * rng.normal(size=(2, 6, 6))
    K_Y, K_X, Z = pair.dense.K_Y, pair.dense.K_X, np.zeros((6, 6))
    for i in range(6):  # (U ψ(x_i)) ⊗ (U V ψ(x_i)), averaged
        Z += np.outer(W @ K_X[i], W @ K_X @ Wt @ K_X[i]) / 6
    pairs = np.zeros((6, 6))
    pairs[np.arange(5), np.arange(1, 6)] = 1 / 5
    off = pairs - Z
    expected = np.einsum("ij,kl,ik,jl->", off, off, K_Y, K_Y)
    assert_allclose(pair.dense.terms(W, Wt)[0], expected, rtol=1e-10)


def finite_differences(loss, A: np.ndarray) -> np.ndarray:
    slope = np.zeros_like(A)
    for index in np.ndindex(*A.shape):
        step = np.zeros_like(A)
        step[index] = 1e-5
        slope[index] = (loss(A + step) - loss(A - step)) / 2e-5
    return slope


@pytest.fixture
def small(rng):
    pair = Pair(km.Exact(), n=7, exact=True)
    W, Wt = 0.3 * rng.normal(size=(2, 7, 7))
    on_W = finite_differences(lambda A: pair.dense.loss(A, Wt), W)
    on_Wt = finite_differences(lambda A: pair.dense.loss(W, A), Wt)
    return pair.dense, W, Wt, on_W, on_Wt


def test_the_dense_gradients_pass_finite_differences(small):
    dense, W, Wt, on_W, on_Wt = small
    assert_allclose(dense.gradient_of_W(Wt)(W), on_W, rtol=1e-6, atol=1e-6 * np.abs(on_W).max())
    assert_allclose(dense.gradient_of_Wt(W)(Wt), on_Wt, rtol=1e-6, atol=1e-6 * np.abs(on_Wt).max())


def test_the_printed_gradients_do_not(small):
    dense, W, Wt, on_W, on_Wt = small
    for printed, right in zip(adam.printed_gradient(dense, W, Wt), (on_W, on_Wt), strict=True):
        assert np.abs(printed - right).max() > 1e-3 * np.abs(right).max()


def test_the_gradients_are_each_other_by_the_chain_rule(rng):
    """∂L/∂W = Φ (∂L/∂U) Ψᵀ."""
    pair = Pair(km.Exact(), exact=True)
    W, Wt = 0.1 * rng.normal(size=(2, 40, 40))
    on_U, on_V = pair.moments.gradient(*pair.operators(W, Wt))
    dense = pair.dense.gradient_of_W(Wt)(W), pair.dense.gradient_of_Wt(W)(Wt)
    for small, large, left in zip((on_U, on_V), dense, (pair.Phi, pair.Psi), strict=True):
        assert_allclose(
            left @ small @ pair.Psi.T, large, rtol=1e-7, atol=1e-9 * np.abs(large).max()
        )


# ------------------------------------------------------------ the minimum


@pytest.mark.parametrize("lags", [1, 3])
def test_from_a_start_nearby_to_no_loss(rng, lags):
    moments = finite(lags)
    U, V = SHOWN.T + 0.3 * rng.normal(size=(4, 3)), STAY.T + 0.3 * rng.normal(size=(3, 3))
    fit = minimise(moments, U, V, max_iter=2000, tol=1e-16)
    assert fit.loss < 1e-9
    assert_allclose(sum(fit.history[0]), moments.loss(U, V))
    assert_allclose(fit.loss, moments.loss(fit.U, fit.V), rtol=1e-6)
    losses = [sum(terms) for terms in fit.history]
    assert np.all(np.diff(losses) <= 0)


def test_a_start_without_loss_is_left_alone():
    U, V = SHOWN.T.copy(), STAY.T.copy()
    fit = minimise(finite(1), U, V)
    assert fit.converged
    assert_allclose(fit.U, SHOWN.T, atol=1e-12)
    assert_allclose(fit.V, STAY.T, atol=1e-12)


def test_too_few_iterations_are_said_and_inputs_are_kept(rng):
    U, V = rng.normal(size=(4, 3)), rng.normal(size=(3, 3))
    before = U.copy(), V.copy()
    fit = minimise(finite(1), U, V, max_iter=3)
    assert not fit.converged
    assert len(fit.history) == 4
    assert_allclose(U, before[0], rtol=0)
    assert_allclose(V, before[1], rtol=0)


def test_latent_moments_of_deficient_rank_are_no_trouble(rng):
    moments = finite(1)
    wide = PairMoments(
        moments.lagged,
        moments.mean_y,
        np.pad(moments.second_x, (0, 2)),
        np.pad(moments.mean_x, (0, 2)),
        moments.penalty,
    )
    fit = minimise(wide, rng.normal(size=(4, 5)), np.eye(5), max_iter=2000, tol=1e-16)
    assert np.isfinite(fit.U).all()
    assert fit.loss < 1e-9


def test_the_scale_of_latent_coordinates_changes_nothing_but_its_penalty(rng):
    """U and V of linearly transformed coordinates give the same moments."""
    moments, A = finite(2, (1.0, 0.0)), np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    back = np.linalg.inv(A)
    other = PairMoments(
        moments.lagged, moments.mean_y, A @ moments.second_x @ A.T, A @ moments.mean_x, (1.0, 0.0)
    )
    U, V = rng.normal(size=(4, 3)), rng.normal(size=(3, 3))
    assert_allclose(other.terms(U @ back, A @ V @ back), moments.terms(U, V), rtol=1e-10)


# ------------------------------------------------------------ against Adam


@pytest.mark.slow
def test_both_reach_the_same_loss_where_it_is_not_zero():
    """Latent points of two values cannot reproduce the pairs: the least loss is positive."""
    n, y = 20, sequence(20, 41)
    x = (y > np.median(y)).astype(float)
    Phi, Psi = km.Exact().fit_transform(y, km.Gaussian(0.5)), np.hstack([1 - x, x])
    dense = adam.DenseStateSpace(Phi @ Phi.T, Psi @ Psi.T)
    moments = PairMoments(
        [Phi[:-1].T @ Phi[1:] / (n - 1)], Phi.mean(0), Psi.T @ Psi / n, Psi.mean(0), (1.0, 1.0)
    )
    W, Wt = dense.start()
    fit = minimise(moments, Phi.T @ W @ Psi, Psi.T @ Wt @ Psi, 2000, 1e-14)
    assert_allclose(sum(fit.history[0]), dense.loss(W, Wt))
    for stepsize in (3e-3, 1e-3, 3e-4, 1e-4):
        *_, (W, Wt) = adam.descend(dense, W, Wt, n_outer=20, n_inner=100, stepsize=stepsize)
    assert fit.loss > 1e-2
    assert_allclose(dense.loss(W, Wt), fit.loss, rtol=1e-4)


def test_adam_is_that_of_its_paper():
    """Two steps by hand on θ²/2: the first is the stepsize, whatever the slope."""
    theta = adam.adam(lambda t: t, np.array([[3.0]]), 1, 0.1, 0.0)
    assert_allclose(theta, 2.9, rtol=1e-8)
    first, second = 0.9 * 0.1 * 3 + 0.1 * 2.9, 0.999 * 0.001 * 9 + 0.001 * 2.9**2
    step = 0.1 * (first / (1 - 0.81)) / np.sqrt(second / (1 - 0.999**2))
    assert_allclose(adam.adam(lambda t: t, np.array([[3.0]]), 2, 0.1, 0.0), 2.9 - step, rtol=1e-6)


def test_adam_stops_where_it_is_flat():
    theta = np.full((4, 4), 1e-3)
    assert_allclose(adam.adam(lambda t: t, theta, 5, 0.1, 1.0), theta, rtol=0)

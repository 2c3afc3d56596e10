"""The search over lengthscales: gradients against finite differences, losses against the stages'
own in the same coordinates, and what a search may and may not do.
"""

from __future__ import annotations

import iv_oracles as slow
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.core import solves
from kernelmean.instruments import basis, second_stage
from kernelmean.instruments import search as searching
from kernelmean.instruments.choice import StructuralDraft
from kernelmean.regression import lengthscales
from kernelmean.regression.leave_one_out import LeaveOneOut

KERNELS = [
    km.Gaussian(1.1),
    km.Gaussian((0.8, 1.5)),
    km.Gaussian((0.8, 1.5), columnwise=True),
    km.Matern(1.5, 1.2),
    km.Matern(2.5, (0.8, 1.5), columnwise=True),
    km.Matern(0.8, (1.0, 2.0)),
    km.Laplace(1.5, columnwise=True),
    km.Gaussian(1.1) + km.Matern(2.5, 2.0),
    km.Gaussian(1.1) * km.Linear(offset=1.0),
    km.on_columns({0: km.Gaussian(1.0), 1: km.Matern(1.5, 2.0)}),
    km.on_columns({(1, 0): km.Gaussian((1.0, 2.0))}),
]
U = np.array([0.1, -0.2])  # log10 scales at which gradients are checked


def data(n: int = 40, seed: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    Z, V = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    X = Z + 0.5 * V
    return X, np.sin(X[:, 0]) + X[:, 1] + V.sum(axis=1), Z


def columns(degree: int | None, points) -> np.ndarray:
    return basis.Polynomial.of(points, 0 if degree is None else degree + 1)(points)


def scaled(kernel, points, rank: int = 12) -> lengthscales.Scaled:
    found = lengthscales.Scaled(kernel, points, rank)
    found.choose(np.zeros(points.shape[1]))
    return found


def side(kernel, points, degree: int | None = 1, rank: int = 12, **how) -> searching.Moving:
    return searching.Moving(
        lengthscales.Scaled(kernel, points, rank), columns(degree, points), **how
    )


def search(degree: int | None = 1, kernel=None, free=(True, True), at=(None, None)) -> tuple:
    """Both sides, and outcomes."""
    X, y, Z = data()
    kernel = kernel or km.Gaussian((1.0, 1.5), columnwise=True)
    pairs = zip((X, Z), free, at, strict=True)
    return *(side(kernel, A, degree, free=moves, u=u) for A, moves, u in pairs), y - y.mean()


# ------------------------------------------------------------------------------ kernels' slopes
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_scale_gradient(kernel):
    X, _, Z = data(15)
    W = np.random.default_rng(40).normal(size=(15, 9))
    got = kernel.scale_gradient(X, Z[:9], W)
    expected = slow.slopes(lambda s: np.sum(W * kernel.scaled(np.exp(s))(X, Z[:9])), np.zeros(2))
    assert got.shape == (2,)
    assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", [km.Gaussian(0.7), km.Matern(2.5, (0.7, 1.9))])
def test_scale_gradient_far_from_zero(kernel, rng):
    """Times in seconds, say: squares of the columns themselves have no digits left."""
    X, W = rng.normal(size=(30, 2)).round(3), rng.normal(size=(30, 9))
    far = X + 2.0**30
    near = far - 2.0**30  # as they are there, to the bit
    expected = kernel.scale_gradient(near, near[:9], W)
    # points are rounded to 2e-7 lengthscales there
    assert_allclose(kernel.scale_gradient(far, far[:9], W), expected, rtol=1e-5)


def test_scale_gradient_is_zero_without_a_lengthscale():
    X, _, Z = data(10)
    for kernel in (km.Linear(), km.Delta(), km.Linear(offset=2.0) + km.Delta()):
        assert_array_equal(kernel.scale_gradient(X, Z, np.ones((10, 10))), np.zeros(2))


def test_scale_gradient_leaves_its_arguments():
    X, _, Z = data(10)
    W = np.ones((10, 10))
    for kernel in KERNELS:
        kernel.scale_gradient(X, Z, W)
        assert_array_equal(W, 1.0)


# -------------------------------------------------------------------------------- coordinates
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_coordinates_are_those_of_the_kernel(kernel):
    X, _, _ = data(12)
    map_ = scaled(kernel, X, rank=12)
    Phi = map_(U)
    K = kernel.scaled(10.0**U)(X)
    if len(map_.landmarks) == len(X):
        assert_allclose(Phi @ Phi.T, K, atol=1e-4 * K.max())
    at = kernel.scaled(10.0**U)
    L, cross = at(map_.landmarks), at(X, map_.landmarks)
    L[np.diag_indices_from(L)] += 1e-8 * L.diagonal().mean()
    assert_allclose(Phi @ Phi.T, cross @ np.linalg.solve(L, cross.T), atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_pullback(kernel):
    X, _, _ = data()
    map_ = scaled(kernel, X)
    G = np.random.default_rng(40).normal(size=(40, len(map_.landmarks)))
    map_(U)
    got = map_.pullback(G)
    expected = slow.slopes(lambda u: np.sum(G * map_(u)), U)
    assert_allclose(got, expected, rtol=2e-4, atol=1e-4 * np.abs(expected).max())


def test_landmarks_are_rows_and_follow_the_scale():
    X, _, _ = data(200)
    map_ = lengthscales.Scaled(km.Gaussian(1.0), X, 120)
    counts = []
    for u in (0.5, 0.0, -0.5):
        map_.choose(np.full(2, u))
        counts.append(len(map_.landmarks))
        assert all((row == X).all(axis=1).any() for row in map_.landmarks)
    assert counts == sorted(counts)
    assert max(counts) == 120


# -------------------------------------------------------------------------------- stage 1
def directions(loss, A: np.ndarray, slope: np.ndarray, seed: int = 40) -> None:
    """The slope along random directions, against central differences."""
    rng = np.random.default_rng(seed)
    for _ in range(4):
        D = rng.normal(size=A.shape)
        D /= np.linalg.norm(D)
        numeric = (loss(A + 1e-5 * D) - loss(A - 1e-5 * D)) / 2e-5
        assert np.sum(slope * D) == pytest.approx(numeric, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("reg", [1e-3, 1e-1, 10.0])
def test_stage1_gradients(reg):
    rng = np.random.default_rng(40)
    Theta, Phi = rng.normal(size=(30, 6)), rng.normal(size=(30, 4))
    _, on_Theta, on_reg = lengthscales.stage1_loss(Theta, Phi, reg)
    directions(lambda T: lengthscales.stage1_loss(T, Phi, reg)[0], Theta, on_Theta)
    up, down = (lengthscales.stage1_loss(Theta, Phi, reg * f)[0] for f in (1 + 1e-5, 1 - 1e-5))
    assert on_reg == pytest.approx((up - down) / (2e-5 * reg), rel=1e-5)


@pytest.mark.parametrize("reg", [1e-3, 1e-1, 10.0])
def test_stage1_loss_is_that_of_refits_and_of_the_stage(reg):
    rng = np.random.default_rng(40)
    Theta, Phi = rng.normal(size=(30, 6)), rng.normal(size=(30, 4))
    value = lengthscales.stage1_loss(Theta, Phi, reg)[0]
    off = Phi - slow.left_out_embeddings(Theta, Phi, reg)
    assert value == pytest.approx(np.mean(np.sum(off**2, axis=1)), rel=1e-9)
    grid = solves.EigenGrid.of(Theta.T @ Theta / 30)
    assert value == pytest.approx(LeaveOneOut(Theta, Phi, grid)(reg), rel=1e-9)


def test_jackknife_is_linear_and_its_adjoint_the_transpose():
    rng = np.random.default_rng(40)
    Theta, A, B = (rng.normal(size=(30, r)) for r in (6, 4, 4))
    jack = searching.Jackknife(Theta, 0.01)
    assert np.sum(jack(A) * B) == pytest.approx(np.sum(A * jack.adjoint(B)), rel=1e-12)
    assert_allclose(jack(2 * A - B), 2 * jack(A) - jack(B), atol=1e-12)
    assert_allclose(jack(A), slow.left_out_embeddings(Theta, A, 0.01), atol=1e-10)
    # row i of the matrix has nothing at i
    assert_allclose(np.diag(jack(np.eye(30))), 0, atol=1e-12)


# -------------------------------------------------------------------------------- stage 2
def problem(degree: int | None, reg: float = 1e-2) -> tuple:
    """Columns of regressors, outcomes, and the fixed parts of stage 2."""
    X, y, Z = data()
    Theta = np.hstack([columns(degree, Z), scaled(km.Gaussian(1.0), Z)(np.zeros(2))])
    jack = searching.Jackknife(Theta, reg)
    T = columns(degree, X)
    Psi = np.hstack([T, scaled(km.Gaussian(1.2), X)(np.zeros(2))])
    free = basis.trend_penalty(T.shape[1], len(X))

    def penalty(xi: float) -> np.ndarray:
        return np.append(free, np.full(Psi.shape[1] - len(free), xi))

    return Psi, y - y.mean(), jack, penalty


@pytest.mark.parametrize("blind", [True, False])
@pytest.mark.parametrize("degree", [None, 0, 1, 2])
@pytest.mark.parametrize("xi", [1e-4, 1e-2, 1.0])
def test_causal_gradients(xi, degree, blind):
    Psi, y, jack, penalty = problem(degree)
    own = penalty(xi)

    def loss(P, penalty):
        return searching.causal_loss(P, y, penalty, jack, blind)

    _, on_Psi, on_each = loss(Psi, own)
    directions(lambda P: loss(P, own)[0], Psi, on_Psi)
    turn = np.random.default_rng(40).normal(size=len(own)) * xi
    up, down = (loss(Psi, own + f * turn)[0] for f in (1e-5, -1e-5))
    assert on_each @ turn == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("degree", [None, 0, 1, 2])
@pytest.mark.parametrize("xi", [1e-4, 1e-2, 1.0])
def test_causal_loss_is_that_of_refits_and_of_the_stage(xi, degree):
    Psi, y, jack, penalty = problem(degree)
    value, p = (
        searching.causal_loss(Psi, y, penalty(xi), jack)[0],
        columns(degree, data()[0]).shape[1],
    )
    M = jack(Psi)
    errors = slow.causal_errors(Psi, M, y, xi, degree, 2, known=False)
    assert value == pytest.approx(np.mean(errors**2), rel=1e-8)
    projected = searching.causal_loss(Psi, y, penalty(xi), jack, blind=False)[0]
    errors = slow.causal_errors(M, M, y, xi, degree, 2, known=False)
    assert projected == pytest.approx(np.mean(errors**2), rel=1e-8)
    stage = second_stage.SecondStage(M.T @ M / 40, M.T @ y / 40, p, 40)
    loss = second_stage.CausalLeaveOneOut(stage, Psi, M, y)
    assert value == pytest.approx(loss(xi), rel=1e-8)


# -------------------------------------------------------------------------------- the search
@pytest.mark.parametrize("degree", [None, 0, 1, 2])
@pytest.mark.parametrize("kernel", [KERNELS[0], KERNELS[3], KERNELS[7], KERNELS[9]], ids=repr)
def test_gradients_of_both_losses(kernel, degree):
    x, z, y = search(degree, kernel)
    at = np.append(U, -2.0)
    for own in (x, z):
        own.scaled.choose(np.zeros(2))
        own.u = np.array([-0.1, 0.1, -2.5])
    for loss in (searching.first_loss(x, z), searching.second_loss(x, z, y)):
        _, slope = loss(at)
        expected = slow.slopes(lambda u, loss=loss: loss(u)[0], at)
        assert_allclose(slope, expected, rtol=2e-3, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize("degree", [None, 0, 1])
def test_a_search_descends_in_both_stages(degree):
    x, z, y = search(degree)
    ux, uz = searching.searched(x, z, y)
    start = np.append(np.full(2, 0.5 * np.log10(2)), searching.START)
    for own in (x, z):
        own.scaled.choose(start[:-1])
    second = searching.second_loss(x, z, y)
    x.u = start
    first = searching.first_loss(x, z)
    assert first(uz)[0] < first(start)[0]
    assert second(ux)[0] < second(start)[0]


def test_a_search_goes_on_from_where_another_ended():
    once = searching.searched(*search())
    x, z, y = search(at=once)
    twice = searching.searched(x, z, y)
    loss = searching.second_loss(x, z, y)
    assert loss(twice[0])[0] <= loss(once[0])[0] * (1 + 1e-9)


@pytest.mark.slow
def test_scales_and_regularisers_stay_within_bounds():
    X, y, Z = data()
    noise = np.random.default_rng(40).normal(size=X.shape)
    for outcome, regressors in ((y, X), (noise[:, 0], X), (y, noise), (np.zeros(40), X)):
        sides = side(KERNELS[2], regressors), side(KERNELS[2], Z)
        found = searching.searched(*sides, outcome)
        for u in found:
            assert np.isfinite(u).all()
            moved = u[:-1] - 0.5 * np.log10(2)  # the start is √d times the lengthscale
            assert (np.abs(moved) <= lengthscales.SCALE_DECADES + 1e-12).all()
            assert lengthscales.REG_DECADES[0] <= u[-1] <= lengthscales.REG_DECADES[1]


@pytest.mark.parametrize("free", [(True, False), (False, True)])
def test_what_is_not_free_stays(free):
    for moves, u in zip(free, searching.searched(*search(free=free)), strict=True):
        assert (u[:-1] != 0).any() == moves


def test_one_scale_of_regressors_is_left_to_the_judges():
    X, y, Z = data()
    sides = side(km.Gaussian(1.0), X[:, :1]), side(KERNELS[1], Z, rank=lengthscales.RANK)
    ux, uz = searching.searched(*sides, y - y.mean())
    assert_array_equal(ux[:-1], 0.0)
    assert len(set(uz[:-1])) == 2


@pytest.mark.parametrize("d", [1, 4, 12])
def test_the_start_sees_points_in_many_columns(d):
    """k at a typical pair stays of order one; at the medians themselves it is e^(-1.1 d)."""
    X = np.random.default_rng(40).normal(size=(300, d))
    kernel = km.Gaussian(columnwise=True).resolve(X)
    start = side(kernel, X).u[:-1]
    assert np.median(kernel.scaled(10.0**start)(X)) > 0.3


def test_with_few_rows_the_scales_keep_in_step():
    rng = np.random.default_rng(40)
    X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    kernel = km.Gaussian(columnwise=True).resolve(X)
    sides = (side(kernel, X, rank=lengthscales.RANK) for _ in range(2))
    for u in searching.searched(*sides, y):
        assert np.ptp(u[:-1]) < 1e-9


@pytest.mark.slow
def test_a_useless_column_becomes_wide():
    """The regressor that does nothing gets the longer lengthscale, from a common start."""
    rng = np.random.default_rng(40)
    Z, V, other = rng.uniform(-2, 2, size=(500, 1)), rng.normal(size=(500, 1)), rng.normal(size=500)
    X = np.column_stack([Z + 0.3 * V, other])
    y = np.sin(2 * X[:, 0]) + 0.5 * V[:, 0]
    iv = km.KernelIV(trend=0).fit(X[:, :1], y, Z, other)
    assert iv.scales_x_[1] > 5 * iv.scales_x_[0]
    # one scale per column of instruments too: the second is the exogenous regressor itself
    assert iv.scales_z_.shape == (2,)


def test_repeats_exactly():
    one, two = (np.concatenate(searching.searched(*search())) for _ in range(2))
    assert_array_equal(one, two)


def test_kernels_that_cannot_be_scaled_are_left_alone():
    X, y, Z = data()
    for kernel in (km.Linear(), km.as_kernel("delta")):
        iv = km.KernelIV(kernel, trend=0).fit(X, y, Z)
        assert iv.kernel_x_ == kernel
        assert np.isfinite(iv.predict(X)).all()


def test_the_inverse_of_a_singular_matrix_is_finite():
    rng = np.random.default_rng(40)
    A = rng.normal(size=(5, 3)) @ rng.normal(size=(3, 5))
    A = A @ A.T
    assert np.isfinite(solves.small_inverse(A, 0.0)).all()
    assert_allclose(solves.small_inverse(A, 0.1), np.linalg.inv(A + 0.1 * np.eye(5)), rtol=1e-8)


@pytest.mark.parametrize(
    ("scales", "side", "expected"),
    [
        ([10**0.9], 0, [1]),  # a size, which the judges choose
        ([10**-0.9], 0, [-1]),
        ([10**0.6], 0, [0]),
        ([10**0.9], 1, [0]),
        ([10**1.5], 1, [1]),
        ([2**0.5 * 10**1.5, 1.0, np.inf], 0, [1, 0, 0]),
        ([2 * 2**0.5 * 10**1.5, 2**0.5 * 10**-1.5], 0, [1, -1]),
    ],
)
def test_which_lengthscales_are_at_a_bound(scales, side, expected):
    given = np.array(scales)
    draft = StructuralDraft(1, (None, None), (given, given), (None, None))
    assert_array_equal(draft.at_bound(side), expected)


def test_a_function_rougher_than_the_search_is_told():
    x = np.random.default_rng(3).uniform(size=(200, 1))
    model = km.KernelIV().fit(x, np.sin(60 * x[:, 0]), x)
    assert model.at_bound_ == {"x0": "shortest"}
    assert "the shortest tried" in str(model.summary())


def test_landmarks_that_leave_out_much_are_told(monkeypatch):
    d = km.datasets.make_iv_sigmoid(200, random_state=0)
    monkeypatch.setattr("kernelmean.instruments.plan.FINE", km.Nystroem(max_rank=1))
    with pytest.warns(km.NumericalWarning) as told:
        km.KernelIV(trend=0).fit(d.X, d.y, d.Z)
    words = [str(w.message) for w in told]
    assert any("1 landmarks of (X, C) lose 0.0" in text for text in words)
    assert any("1 landmarks of (Z, C) lose 0." in text for text in words)

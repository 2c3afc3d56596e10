"""The leave-one-out score of a conditional density against n real refits and quadrature."""

from __future__ import annotations

from functools import partial

import density_oracles as slow
import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.densities.search import DensityScore, DensitySearch, Target, density_loss
from kernelmean.regression.bandwidth import silverman, spread_ties
from kernelmean.regression.lengthscales import stage1_loss
from kernelmean.regression.smoother import Smoother

SMOOTHING = {
    "gaussian": km.Gaussian(columnwise=True),
    "laplace": km.Laplace(columnwise=True),
    "matern": km.Matern(1.5, columnwise=True),
}
KERNELS = {
    "gaussian": (km.Gaussian(0.8), partial(oracles.gram, oracles.gaussian, lengthscale=0.8)),
    "laplace": (km.Laplace(0.8), partial(oracles.gram, oracles.laplace, lengthscale=0.8)),
    "matern": (
        km.Matern(1.5, 0.8),
        partial(oracles.gram, oracles.matern, lengthscale=0.8, nu=1.5),
    ),
}


def pairs(n: int = 9, seed: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Two columns of each; the second of Y has no more than noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.4 * rng.normal(size=(n, 2))


def mixed(n: int = 14, seed: int = 41) -> tuple[np.ndarray, np.ndarray]:
    """A column of numbers and one of two categories."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), np.arange(n) % 2])
    return X, X[:, 1] * X[:, 0] + 0.3 * rng.normal(size=n)


def dense_features(n: int = 14, r: int = 4, seed: int = 42):
    """Coordinates of X, and a target of one column."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, r)), rng.normal(size=(n, 1))


# ------------------------------------------------------------------------- against real refits
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("profile", list(SMOOTHING))
class TestRefits:
    def fit(self, profile, columns, intercept, features):
        X, Y = pairs()
        kernel, gram = KERNELS[profile]
        model = km.ConditionalDensity(
            kernel, 0.35, 0.02, features, kernel_y=SMOOTHING[profile], intercept=intercept
        )
        return model.fit(X, Y[:, :columns]), X, Y[:, :columns], gram(X, X)

    @pytest.mark.slow
    def test_exact(self, profile, columns, intercept):
        model, X, Y, K = self.fit(profile, columns, intercept, km.Exact())
        expected = slow.score_by_refits(K, Y, 0.35, 0.02, profile, intercept)
        assert_allclose(model.loo_score_, expected, rtol=1e-6)
        assert_allclose(model.loo_score(), model.loo_score_, rtol=1e-12)

    @pytest.mark.slow
    def test_at_other_parameters(self, profile, columns, intercept):
        model, X, Y, K = self.fit(profile, columns, intercept, km.Exact())
        gamma = np.array([0.2, 0.6])[:columns]
        expected = slow.score_by_refits(K, Y, gamma, 0.3, profile, intercept)
        assert_allclose(model.loo_score(bandwidth=gamma, reg=0.3), expected, rtol=1e-6)

    def test_default_features(self, profile, columns, intercept):
        model, X, Y, K = self.fit(profile, columns, intercept, None)
        expected = slow.score_by_refits(K, Y, 0.35, 0.02, profile, intercept)
        assert_allclose(model.loo_score_, expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [False, True])
def test_at_other_lengthscales(intercept):
    X, Y = pairs()
    model = km.ConditionalDensity(
        km.Gaussian(0.8), 0.4, 0.05, km.Exact(), intercept=intercept
    ).fit(X, Y[:, 0])  # fmt: skip
    for lengthscale in (1.7, [0.6, 2.0]):
        K = oracles.gram(oracles.gaussian, X, lengthscale=lengthscale)
        expected = slow.score_by_refits(K, Y[:, 0], 0.4, 0.05, "gaussian", intercept)
        assert_allclose(model.loo_score(lengthscale=lengthscale), expected, rtol=1e-6)
    expected = slow.score_by_refits(K, Y[:, 0], 0.3, 0.5, "gaussian", intercept)
    assert_allclose(model.loo_score(0.3, 0.5, lengthscale), expected, rtol=1e-6)
    assert_allclose(model.loo_score(), model.loo_score_, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("lam", [1e-3, 1e-5, 1e-7, 1e-9])
def test_near_interpolation(intercept, lam):
    """A rough kernel, with which rows hardly depend on others: 1 - h is of the size of nλ."""
    X, Y = pairs(30)
    K = KERNELS["laplace"][1](X, X)
    model = km.ConditionalDensity(
        km.Laplace(0.8), 0.4, lam, km.Exact(), intercept=intercept
    ).fit(X, Y[:, 0])  # fmt: skip
    expected = slow.score_by_refits(K, Y[:, 0], 0.4, lam, "gaussian", intercept)
    assert_allclose(model.loo_score_, expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [False, True])
def test_mixed_columns(intercept):
    X, y = mixed()
    kernel = km.on_columns({0: km.Gaussian(0.8), 1: km.Delta()})
    model = km.ConditionalDensity(kernel, 0.3, 0.02, km.Exact(), intercept=intercept).fit(X, y)
    K = oracles.gram(oracles.gaussian, X[:, 0], lengthscale=0.8)
    K *= oracles.gram(oracles.delta, X[:, 1])
    expected = slow.score_by_refits(K, y, 0.3, 0.02, "gaussian", intercept)
    assert_allclose(model.loo_score_, expected, rtol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("profile", [*SMOOTHING, "gaussian4"])
def test_the_integral_of_the_square_by_quadrature(profile, intercept):
    X, Y = pairs(7)
    kernel, gram = KERNELS["gaussian"]
    model = km.ConditionalDensity(
        kernel, 0.5, 0.05, km.Exact(), kernel_y=profile, intercept=intercept
    ).fit(X, Y[:, 0])  # fmt: skip
    expected = slow.score_by_quadrature(gram(X, X), Y[:, 0], 0.5, 0.05, profile, intercept)
    assert_allclose(model.loo_score_, expected, rtol=1e-6)


@pytest.mark.slow
def test_an_isotropic_smoothing_kernel_of_two_columns():
    """exp(-‖u‖/γ)/(2πγ²), its overlaps by sums over a fine mesh."""
    X, Y = pairs(6)
    gamma, lam = 0.7, 0.05
    K = KERNELS["gaussian"][1](X, X)
    t = np.linspace(-12, 12, 801)
    mesh = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1)
    bumps = np.array([np.exp(-np.linalg.norm(mesh - y, axis=-1) / gamma) for y in Y])
    bumps = bumps.reshape(len(Y), -1) / (2 * np.pi * gamma**2)
    B = bumps @ bumps.T * (t[1] - t[0]) ** 2
    A = np.exp(-np.linalg.norm(Y[:, None] - Y[None], axis=-1) / gamma) / (2 * np.pi * gamma**2)
    W = [slow.weights_without(i, K, 6 * lam, False) for i in range(6)]
    expected = np.mean([w @ B @ w - 2 * A[i] @ w for i, w in enumerate(W)])
    model = km.ConditionalDensity(
        km.Gaussian(0.8), gamma, lam, km.Exact(), kernel_y="laplace"
    ).fit(X, Y)  # fmt: skip
    assert_allclose(model.loo_score_, expected, rtol=1e-3)


@pytest.mark.slow
def test_it_estimates_the_integrated_squared_error():
    """E M = ∫∫ (q - p)² - ∫∫ p²: of many fresh pairs, with the density learned from others."""
    data = km.datasets.make_conditional_density("bimodal", 400, random_state=43)
    fresh = km.datasets.make_conditional_density("bimodal", 4000, random_state=44)
    model = km.ConditionalDensity(location=False, wide=0.0).fit(data.X, data.Y)
    y = np.linspace(-8, 8, 401)
    some = fresh.X[:300]
    q = np.sum(model.weights(some)[:, :, None] * _bumps(model, y)[None], axis=1)
    square = np.trapezoid(q**2, y, axis=1).mean()
    at_own = model.at(fresh.X).density(fresh.Y, tuple(model.bandwidth_), signed=True)
    at_own = at_own[np.arange(4000), np.arange(4000)]
    expected = square - 2 * at_own.mean()
    assert abs(model.loo_score_ - expected) < 3 * 2 * at_own.std() / 400**0.5


def _bumps(model, y):
    u = (model.points_ - y[None, :]) / model.bandwidth_
    return np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi) / model.bandwidth_


# ------------------------------------------------------------------------------- a location
class TestLocation:
    def dense(self, model, X):
        """The Gram matrix of the line and the kernel together, and that with new rows."""
        size_per_column = model.location_.line.factor
        centre = model.location_.line.mean
        ls = model.location_.features.kernel_.lengthscale

        def gram(A, B):
            linear = ((A - centre) * size_per_column) @ ((B - centre) * size_per_column).T
            return linear + oracles.gram(oracles.gaussian, A, B, lengthscale=ls)

        return gram

    @pytest.mark.parametrize("columns", [1, 2])
    @pytest.mark.parametrize("reg", [None, 0.05])
    def test_residuals_by_refits(self, columns, reg):
        X, Y = pairs(30)
        Y = Y[:, :columns]
        model = km.ConditionalDensity(
            reg=reg, features=km.Exact(), location=True, kernel_x="gaussian"
        ).fit(X, Y)  # fmt: skip
        gram = self.dense(model, X)
        expected = slow.residuals_by_refits(gram(X, X), Y, 30 * model.location_.reg)
        assert_allclose(model.points_, expected, atol=1e-6)
        assert_allclose(model.location_.loss, np.mean((expected / Y.std(axis=0)) ** 2), rtol=1e-6)

    def test_the_mean_elsewhere(self):
        X, Y = pairs(30)
        model = km.ConditionalDensity(features=km.Exact(), location=True).fit(X, Y)
        new = np.random.default_rng(45).normal(size=(5, 2))
        gram = self.dense(model, X)
        w = slow.weights(gram(X, X), gram(X, new), 30 * model.location_.reg, intercept=True)
        assert_allclose(model.location_(new), w @ Y, atol=1e-6)

    def test_the_line_is_standardised(self):
        X, Y = pairs(30)
        X = X * [100.0, 0.01] + [5.0, -7.0]
        model = km.ConditionalDensity(km.Gaussian(1.0), 0.3, 0.1, location=True).fit(X, Y[:, 0])
        line = model.location_.line(X)
        assert_allclose(line.mean(axis=0), 0, atol=1e-12)
        assert_allclose(np.sum(line**2, axis=1).mean(), 1.0)
        assert_allclose(line.std(axis=0), 0.5**0.5)

    @pytest.mark.parametrize("intercept", [False, True])
    def test_score_by_refits_of_the_residuals(self, intercept):
        X, Y = pairs()
        model = km.ConditionalDensity(
            km.Gaussian(0.8), 0.3, 0.05, km.Exact(), intercept=intercept, location=True
        ).fit(X, Y[:, 0])  # fmt: skip
        K = KERNELS["gaussian"][1](X, X)
        residuals = slow.residuals_by_refits(self.dense(model, X)(X, X), Y, 9 * model.location_.reg)
        expected = slow.score_by_refits(K, residuals[:, 0], 0.3, 0.05, "gaussian", intercept)
        assert_allclose(model.loo_score_, expected, rtol=1e-5)

    def test_reg_is_the_best_by_leave_one_out(self):
        X, Y = pairs(40)
        model = km.ConditionalDensity(km.Gaussian(0.8), features=km.Exact(), location=True)
        model.fit(X, Y[:, 0])
        K = self.dense(model, X)(X, X)

        def loss(reg):
            return np.mean(slow.residuals_by_refits(K, Y[:, :1], 40 * reg) ** 2) / Y[:, 0].var()

        assert_allclose(model.location_.loss, loss(model.location_.reg), rtol=1e-6)
        others = [loss(10.0**u) for u in np.linspace(-6, 2, 33)]
        assert model.location_.loss <= min(others) * (1 + 1e-4)


# -------------------------------------------------------------------------------- gradients
@pytest.mark.parametrize("intercept", [False, True])
class TestGradients:
    H = 1e-6

    def slopes(self, loss, Phi, reg):
        on_Phi = np.zeros_like(Phi)
        for i in np.ndindex(*Phi.shape):
            step = np.zeros_like(Phi)
            step[i] = self.H
            on_Phi[i] = (loss(Phi + step, reg) - loss(Phi - step, reg)) / (2 * self.H)
        return on_Phi, (loss(Phi, reg + self.H) - loss(Phi, reg - self.H)) / (2 * self.H)

    @pytest.mark.slow
    @pytest.mark.parametrize("columns", [1, 2])
    def test_density_loss(self, intercept, columns):
        Phi, _ = dense_features()
        Y = pairs(14)[1][:, :columns]
        target = Target.of(Y, km.Gaussian(0.4), exact=True)
        value, on_Phi, on_reg = density_loss(Phi, 0.1, target, intercept)
        score = DensityScore(Smoother.of(Phi, intercept), target)
        assert_allclose(value, score(0.1), rtol=1e-10)
        expected = slow.score_by_refits(Phi @ Phi.T, Y, 0.4, 0.1, "gaussian", intercept)
        assert_allclose(value, expected, rtol=1e-6)
        by_Phi, by_reg = self.slopes(
            lambda P, reg: density_loss(P, reg, target, intercept)[0], Phi, 0.1
        )
        assert_allclose(on_Phi, by_Phi, atol=1e-7)
        assert_allclose(on_reg, by_reg, rtol=1e-5)

    def test_stage1_loss(self, intercept):
        Theta, _ = dense_features()
        Y = pairs(14)[1]
        value, on_Theta, on_reg = stage1_loss(Theta, Y, 0.1, intercept)
        W = [slow.weights_without(i, Theta @ Theta.T, 14 * 0.1, intercept) for i in range(14)]
        off = [Y[i] - W[i] @ Y for i in range(14)]
        assert_allclose(value, np.sum(np.square(off)) / 14, rtol=1e-9)
        by_Theta, by_reg = self.slopes(lambda P, r: stage1_loss(P, Y, r, intercept)[0], Theta, 0.1)
        assert_allclose(on_Theta, by_Theta, atol=1e-7)
        assert_allclose(on_reg, by_reg, rtol=1e-5)

    def test_in_the_scales_of_the_search(self, intercept):
        """By way of landmarks and the derivative of the kernel."""
        X, Y = pairs(40)
        search = DensitySearch(
            km.Gaussian((1.0, 1.0), columnwise=True), km.Gaussian(0.3), X, Y[:, :1], intercept
        )
        search._scaled.choose(search._u[:-1])
        target = search._target()

        def loss(u):
            return density_loss(search._scaled(u), 0.05, target, intercept)[0]

        u = np.array([0.1, -0.2])
        _, on_Phi, _ = density_loss(search._scaled(u), 0.05, target, intercept)
        slope = search._scaled.pullback(on_Phi)
        steps = 1e-5 * np.eye(2)
        expected = [(loss(u + s) - loss(u - s)) / 2e-5 for s in steps]
        assert_allclose(slope, expected, rtol=1e-4, atol=1e-8)


# ---------------------------------------------------------------------------------- smoother
@pytest.mark.parametrize("intercept", [False, True])
class TestSmoother:
    def test_weights_and_leverage(self, intercept):
        Phi, _ = dense_features()
        new = np.random.default_rng(46).normal(size=(3, 4))
        smoother = Smoother.of(Phi, intercept)
        for reg in (1e-3, 0.1, 10.0):
            H = slow.weights(Phi @ Phi.T, Phi @ Phi.T, 14 * reg, intercept)
            assert_allclose(smoother.leverage(reg), np.diag(H), atol=1e-10)
            assert_allclose(smoother.leverage_at(Phi, reg), np.diag(H), atol=1e-10)
            expected = slow.weights(Phi @ Phi.T, Phi @ new.T, 14 * reg, intercept)
            assert_allclose(smoother.left(new, reg) @ smoother.P.T, expected, atol=1e-10)

    def test_thinned_scores_are_those_of_the_rows_kept(self, intercept):
        Phi, _ = dense_features(40)
        Y = pairs(40)[1]
        target = Target.of(Y, km.Gaussian(0.4), exact=True)
        score = DensityScore(Smoother.of(Phi, intercept), target)
        rows = np.linspace(0, 39, 9).astype(int)
        assert_allclose(score.thinned(9).rows(0.1), score.rows(0.1)[rows], atol=1e-12)
        assert score.thinned(40) is score


# ------------------------------------------------------------------------------------ ties
class TestTies:
    def test_values_without_ties_stay(self):
        Y = pairs(50)[1]
        assert_array_equal(spread_ties(Y), Y)

    def test_groups_keep_their_centre_and_come_apart(self):
        rng = np.random.default_rng(47)
        Y = np.round(rng.normal(size=(200, 1)), 1)
        spread = spread_ties(Y)
        assert len(np.unique(spread)) == 200
        for value in np.unique(Y):
            assert_allclose(spread[Y[:, 0] == value].mean(), value, atol=1e-12)
        assert_array_equal(np.argsort(np.unique(spread)), np.arange(200))
        values, count = np.unique(Y, return_counts=True)
        single = np.isin(Y, values[count == 1])
        assert_array_equal(spread[single], Y[single])

    def test_rounding_is_undone(self):
        """The spread sample is again nearly the one that was rounded."""
        from scipy.stats import ks_2samp

        y = np.random.default_rng(48).normal(size=(1000, 1))
        spread = spread_ties(np.round(y, 1))
        assert ks_2samp(y[:, 0], spread[:, 0]).statistic < 0.03
        assert abs(spread.std() - y.std()) < 0.02

    def test_columns_apart_and_inputs_unchanged(self):
        Y = np.column_stack([np.arange(30.0), np.repeat([0.0, 1.0, 5.0], 10)])
        before = Y.copy()
        spread = spread_ties(Y)
        assert_array_equal(Y, before)
        assert_array_equal(spread[:, 0], Y[:, 0])
        assert len(np.unique(spread[:, 1])) == 30
        assert_array_equal(spread_ties(Y), spread)

    def test_the_order_of_columns_does_not_matter(self):
        """Columns of the same values, of others, and without ties: each as it was."""
        rng = np.random.default_rng(49)
        Y = np.round(rng.normal(size=(90, 4)) * [1.0, 3.0, 1.0, 9.0], 1)
        Y[:, 2], Y[:, 3] = -Y[:, 0], np.arange(90.0)
        spread = spread_ties(Y)
        for order in ([3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]):
            assert_allclose(spread_ties(Y[:, order]), spread[:, order], rtol=0, atol=1e-12)
        fits = [km.EmbeddedDensity().fit(Y[:, order]) for order in ([0, 1], [1, 0])]
        assert_allclose(fits[0].bandwidth_, np.flip(fits[1].bandwidth_), rtol=1e-9)

    def test_a_constant_column_stays(self):
        assert_array_equal(spread_ties(np.ones((9, 1))), np.ones((9, 1)))


def test_silverman():
    """(4/((d + 2)n))^{1/(d+4)} σ, σ half the range of the middle 68 per cent if that is less."""
    rng = np.random.default_rng(49)
    Y = np.column_stack([rng.normal(size=900), rng.standard_cauchy(900)])
    low, high = np.quantile(Y, [0.159, 0.841], axis=0)
    sigma = [min(Y[:, 0].std(), (high - low)[0] / 2), (high - low)[1] / 2]
    assert_allclose(silverman(Y), (4 / (4 * 900)) ** (1 / 6) * np.array(sigma))
    ends = np.zeros((100, 1))
    ends[0] = 1.0  # the middle has no spread
    assert_allclose(silverman(ends), (4 / 300) ** 0.2 * ends.std())

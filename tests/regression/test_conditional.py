"""Conditional embeddings: dense formulas, real refits, kernel ridge regression, probability
tables.
"""

from __future__ import annotations

import warnings

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge

import kernelmean as km
from kernelmean.core.solves import EigenGrid
from kernelmean.regression.leave_one_out import LeaveOneOut

KX, KY = km.Gaussian(0.8), km.Gaussian(0.6)


def gram_x(X, Y=None) -> np.ndarray:
    return oracles.gram(oracles.gaussian, X, Y, lengthscale=0.8)


def gram_y(X, Y=None) -> np.ndarray:
    return oracles.gram(oracles.gaussian, X, Y, lengthscale=0.6)


def embedding(reg=1e-3, **parameters) -> km.ConditionalEmbedding:
    return km.ConditionalEmbedding(
        **{"kernel_x": KX, "kernel_y": KY, "reg": reg, "features": km.Exact(), **parameters}
    )


@pytest.fixture
def new(rng) -> np.ndarray:
    return rng.normal(size=(9, 2))


class TestHandWorked:
    """Two points a Gaussian distance apart: K = [[1, k], [k, 1]], k = exp(-1/2), n lam = 1."""

    c = km.ConditionalEmbedding(km.Gaussian(1.0), "delta", reg=0.5).fit(
        [[0.0], [1.0]], [10.0, 20.0]
    )
    k = np.exp(-0.5)

    def test_weights(self):
        k = self.k
        # (K + I)^-1 (1, k)' = ((2 - k^2), k) / (4 - k^2), since (K + I)^-1 = [[2, -k], [-k, 2]] /
        # (4 - k^2)
        expected = np.array([[2 - k**2, k], [k, 2 - k**2]]) / (4 - k**2)
        assert_allclose(self.c.weights([[0.0], [1.0]]), expected, rtol=1e-10)

    def test_predict(self):
        k = self.k
        assert_allclose(
            self.c.predict([[0.0]]), [(10 * (2 - k**2) + 20 * k) / (4 - k**2)], rtol=1e-10
        )

    def test_leave_one_out_score(self):
        # without row 1, w = k / 2 on row 2; the y are different symbols: 1 + (k/2)^2
        assert_allclose(self.c.loo_score_, 1 + (self.k / 2) ** 2, rtol=1e-9)


# ---------------------------------------------------------------------------------- dense formulas
@pytest.mark.parametrize("reg", [1e-6, 1e-3, 1.0])
def test_weights_equal_the_dense_formula(xy, new, reg):
    """Issue 2: full-rank coordinates equal dense formulas to 1e-6."""
    X, Y = xy
    expected = oracles.cme_weights(gram_x(X), gram_x(X, new), reg)
    c = embedding(reg).fit(X, Y)
    assert_allclose(c.weights(new), expected, atol=1e-6)
    assert_allclose(c.at(new).weights, expected, atol=1e-6)


def test_values_of_the_embedding(xy, new, rng):
    X, Y = xy
    T = rng.normal(size=(5, 2))
    expected = oracles.cme_weights(gram_x(X), gram_x(X, new), 1e-3) @ gram_y(Y, T)
    assert_allclose(embedding().fit(X, Y).at(new)(T), expected, atol=1e-6)


def test_operator_in_coordinates(xy, new):
    """E phi(x) are the coordinates of the embedding at x."""
    X, Y = xy
    c = embedding().fit(X, Y)
    got = c.features_x_.transform(new) @ c.operator_.T
    assert_allclose(got, c.weights(new) @ c.features_y_.transform(Y), atol=1e-7)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("reg", [1e-6, 1e-3, 1.0])
def test_predict_is_kernel_ridge_regression(xy, new, reg, columns):
    """Issue 2: ConditionalEmbedding(...).predict equals KernelRidge(alpha=n*lam)."""
    X, Y = xy[0], xy[1][:, 0] if columns == 1 else xy[1]
    theirs = KernelRidge(alpha=len(X) * reg, kernel="rbf", gamma=1 / (2 * 0.8**2)).fit(X, Y)
    got = embedding(reg).fit(X, Y).predict(new)
    assert got.shape == theirs.predict(new).shape
    assert_allclose(got, theirs.predict(new), atol=1e-6)


def test_a_linear_kernel_is_ridge_regression(xy, new):
    X, Y = xy
    coef = np.linalg.solve(X.T @ X + len(X) * 0.1 * np.eye(2), X.T @ Y)
    got = km.ConditionalEmbedding("linear", reg=0.1).fit(X, Y).predict(new)
    assert_allclose(got, new @ coef, rtol=1e-8)


def test_mean_is_normalised_and_predict_is_not(xy, new):
    X, Y = xy
    c, W = embedding(0.1).fit(X, Y), oracles.cme_weights(gram_x(X), gram_x(X, new), 0.1)
    assert_allclose(c.predict(new), W @ Y, atol=1e-6)
    assert_allclose(c.at(new).mean(), W @ Y / W.sum(axis=1, keepdims=True), atol=1e-6)


def test_nystroem_to_tolerance_is_close_to_exact():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(400, 1))
    Y = np.sin(2 * X) + 0.2 * rng.normal(size=(400, 1))
    new = np.linspace(-2, 2, 50)[:, None]
    exact, default = (
        km.ConditionalEmbedding(km.Gaussian(0.8), km.Gaussian(0.6), reg=1e-3, features=f).fit(X, Y)
        for f in (km.Exact(), None)
    )
    # lost trace below 1e-6 per point against reg 1e-3: predictions move by less than 1e-3
    assert_allclose(default.predict(new), exact.predict(new), atol=1e-3)
    assert_allclose(default.loo_score_, exact.loo_score_, rtol=1e-3)


def test_random_fourier_features_are_one_code_path(xy, new):
    X, Y = xy
    c = embedding(0.1, features=km.RandomFourier(600)).fit(X, Y)
    # 300 frequencies: kernel values to 0.06 in the mean square
    assert_allclose(c.predict(new), embedding(0.1).fit(X, Y).predict(new), atol=0.3)


# -------------------------------------------------------------------------------- leave-one-out
@pytest.mark.parametrize("kernel_y", [KY, km.Linear(), km.Delta()], ids=repr)
@pytest.mark.parametrize("reg", [1e-5, 1e-2, 1.0])
def test_loo_score_equals_n_real_refits(xy, reg, kernel_y):
    X, Y = xy
    expected = oracles.loo_loss_by_refits(gram_x(X), kernel_y(Y), reg)
    c = embedding(kernel_y=kernel_y).fit(X, Y)
    assert c.loo_score(reg) == pytest.approx(expected, rel=1e-6)
    assert embedding(reg, kernel_y=kernel_y).fit(X, Y).loo_score_ == pytest.approx(
        expected, rel=1e-6
    )


def test_loo_with_a_linear_kernel_is_the_mean_squared_error_of_refits_with_scikit_learn(xy):
    X, y = xy[0], xy[1][:, 0]
    n, errors = len(X), []
    for i in range(n):
        keep = np.arange(n) != i
        ridge = KernelRidge(alpha=n * 0.01, kernel="rbf", gamma=1 / (2 * 0.8**2)).fit(
            X[keep], y[keep]
        )
        errors.append((y[i] - ridge.predict(X[[i]])[0]) ** 2)
    c = embedding(0.01, kernel_y="linear").fit(X, y)
    assert c.loo_score_ == pytest.approx(np.mean(errors), rel=1e-6)


def test_a_table_twice_has_laws_as_wide_as_once(xy):
    """Copies left out by themselves left their copy: densities were spikes at the rows."""
    X, y = xy[0][:50], xy[1][:50]
    once, twice = (
        km.ConditionalEmbedding(reg=0.01).fit(np.repeat(X, k, axis=0), np.repeat(y, k, axis=0))
        for k in (1, 2)
    )
    assert_allclose(twice.at(X[:3]).bandwidth, once.at(X[:3]).bandwidth, rtol=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_reg_none_takes_the_minimiser_of_the_refits(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 1))
    Y = np.sin(3 * X) + (0.05, 0.3, 1.0, 3.0)[seed] * rng.normal(size=(40, 1))
    c = embedding(None, intercept=False).fit(X, Y)
    K, L = gram_x(X), gram_y(Y)
    # smallest loss over 120 refits a decade apart by 1/12: within 0.1% of the continuous minimum
    grid = 10 ** np.linspace(-9, 1, 121)
    best = min(oracles.loo_loss_by_refits(K, L, reg) for reg in grid)
    assert oracles.loo_loss_by_refits(K, L, c.reg_) <= best * (1 + 1e-3)
    assert c.loo_score_ == pytest.approx(c.loo_score(c.reg_), rel=1e-6)


class TestIntercept:
    """Beside it, weights are those of kriging with an unknown mean: a system with a multiplier."""

    @staticmethod
    def kriging(X, new, n, reg):
        K = np.block(
            [[gram_x(X) + n * reg * np.eye(len(X)), np.ones((len(X), 1))], [np.ones(len(X)), 0]]
        )
        k = np.vstack([gram_x(X, new), np.ones(len(new))])
        return np.linalg.solve(K, k)[:-1].T

    @pytest.mark.parametrize("reg", [1e-4, 1e-2, 1.0])
    def test_weights(self, xy, new, reg):
        X, Y = xy
        c = embedding(reg, intercept=True).fit(X, Y)
        inside = np.clip(new, X.min(axis=0), X.max(axis=0))
        w = self.kriging(X, inside, len(X), reg)
        assert_allclose(c.weights(inside), w, atol=1e-8)
        assert_allclose(c.predict(inside), w @ Y, atol=1e-8)
        assert_allclose(c.at(inside).mean(), w @ Y, atol=1e-8)

    @pytest.mark.parametrize("kernel_y", [KY, "linear"])
    def test_loss_is_that_of_regressions_without_each_row(self, xy, kernel_y):
        X, Y = xy[0][:25], xy[1][:25]
        L = gram_y(Y) if kernel_y is KY else Y @ Y.T
        rows, loss = np.arange(25), 0.0
        for i in rows:
            w = np.insert(self.kriging(np.delete(X, i, axis=0), X[[i]], 25, 0.01)[0], i, -1.0)
            loss += w @ L @ w / 25
        c = embedding(0.01, kernel_y=kernel_y, intercept=True).fit(X, Y)
        assert c.loo_score_ == pytest.approx(loss, rel=1e-6)

    def test_a_shift_of_y_shifts_answers(self, xy, new):
        """Without one λ draws them to zero, which may be many standard deviations away."""
        X, Y = xy
        here, there = (km.ConditionalEmbedding().fit(X, Y + by) for by in (0.0, 1e4))
        assert_allclose(there.predict(X) - 1e4, here.predict(X), atol=1e-6)
        assert_allclose(
            there.predict_quantile(X, 0.5) - 1e4, here.predict_quantile(X, 0.5), atol=1e-6
        )

    def test_only_where_reg_is_chosen(self, xy):
        assert km.ConditionalEmbedding().fit(*xy).intercept_
        assert not km.ConditionalEmbedding(reg=0.1).fit(*xy).intercept_
        assert not km.ConditionalEmbedding(intercept=False).fit(*xy).intercept_

    def test_sum_rule(self, xy, rng):
        """Of signed weights of any mass: that of the answer is the same."""
        X, Y = xy
        c = embedding(0.01, intercept=True).fit(X, Y)
        alpha = rng.standard_normal(6)
        found = c.apply(km.MeanEmbedding(X[:6], alpha, c.kernel_x_)).weights
        assert_allclose(found, alpha @ c.weights(X[:6]), atol=1e-10)
        assert_allclose(found.sum(), alpha.sum())

    def test_rows_elsewhere(self, xy, new):
        X, Y = xy
        halves = [(X[:20], X[20:]), (Y[:20], Y[20:])]
        far = km.ConditionalEmbedding(KX, KY).fit(*map(km.Rows, halves))
        near = km.ConditionalEmbedding(KX, KY).fit(X, Y)
        assert_allclose(far.predict(new), near.predict(new), rtol=1e-5)
        assert far.reg_ == pytest.approx(near.reg_, rel=1e-3)


def test_a_number_fixes_reg(xy):
    assert embedding(0.25).fit(*xy).reg_ == 0.25


def test_tune_lengthscale_lowers_the_loo_score():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(150, 1))
    Y = np.sin(6 * X) + 0.1 * rng.normal(size=(150, 1))
    plain = km.ConditionalEmbedding(kernel_y=KY).fit(X, Y)
    tuned = km.ConditionalEmbedding(kernel_y=KY, tune_lengthscale=True).fit(X, Y)
    # the wave is much finer than the median distance: a real gain, not a tie
    assert tuned.loo_score_ < 0.8 * plain.loo_score_
    assert tuned.kernel_x_.lengthscale < plain.kernel_x_.lengthscale
    # what it reports is what it has: a refit at its own choice gives the same number
    again = km.ConditionalEmbedding(tuned.kernel_x_, KY, reg=tuned.reg_, intercept=True).fit(X, Y)
    assert again.loo_score_ == pytest.approx(tuned.loo_score_, rel=1e-6)
    assert_allclose(tuned.predict(X), again.predict(X), atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_tune_lengthscale_never_loses(seed, xy):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(50, 2)), rng.normal(size=(50, 1))
    plain, tuned = (
        km.ConditionalEmbedding(kernel_y=KY, tune_lengthscale=t).fit(X, Y).loo_score_
        for t in (False, True)
    )
    assert tuned <= plain * (1 + 1e-6)


def dense_losses(kernel, X, targets) -> list[float]:
    """Of laws, or means, left out: H = 1/n + C K̃(K̃ + nλI)⁻¹C by n × n matrices, least over λ."""
    C = np.eye(len(X)) - 1 / len(X)
    s, Q = np.linalg.eigh(C @ kernel(X) @ C)
    found = []
    for G in targets:  # Gram matrices of what is regressed
        losses = []
        for nreg in np.geomspace(1e-7, 1, 36) * len(X):
            R = np.eye(len(X)) - 1 / len(X) - (Q * (s / (s + nreg))) @ Q.T
            losses.append(np.mean(np.diag(R @ G @ R) / np.diag(R) ** 2))
        found.append(min(losses))
    return found


def test_tune_lengthscale_weighs_means_beside_laws():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    Y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=40)
    targets = KY(Y[:, None]), np.outer(Y, Y)
    kernel = km.Gaussian(1.0)
    tuned = km.ConditionalEmbedding(kernel, KY, tune_lengthscale=True).fit(X, Y)
    scales = np.geomspace(0.1, 10, 41)
    laws, means = np.transpose([dense_losses(kernel.scaled(s), X, targets) for s in scales])
    product = np.where(laws <= laws[20], laws * means, np.inf)
    best = scales[np.argmin(product)]
    assert tuned.kernel_x_.lengthscale == pytest.approx(best, rel=0.12)  # a step of the grid
    assert abs(np.log(best / scales[np.argmin(laws)])) > 0.2  # by laws alone it is another


def test_tune_lengthscale_takes_no_means_of_categories(xy):
    """Codes that say nothing decide nothing, beside a number as alone."""
    X, Y = xy
    codes, others = np.arange(len(X)) % 4, np.array([0.0, 1000.0, 7.0, -50.0])
    kernel = km.on_columns({0: km.Gaussian(1.0), 1: "delta"})
    a, b = (
        km.ConditionalEmbedding(kernel_y=kernel, tune_lengthscale=True)
        .fit(X, np.column_stack([Y[:, 0], told]))
        .kernel_x_.lengthscale
        for told in (codes, others[codes])
    )
    assert a == pytest.approx(b, rel=1e-9)


# ---------------------------------------------------------------------------- probability tables
@pytest.fixture
def symbols() -> tuple[np.ndarray, np.ndarray]:
    """Five hundred pairs of symbols, every pair of the 4 x 3 table present."""
    rng = np.random.default_rng(0)
    x = rng.integers(4, size=500)
    y = (x + rng.choice(3, p=[0.6, 0.3, 0.1], size=500)) % 3
    return x.astype(float)[:, None], y.astype(float)


def tables(reg=1e-10) -> km.ConditionalEmbedding:
    return km.ConditionalEmbedding("delta", "delta", reg=reg)


def test_delta_tables_are_probability_tables(symbols):
    """Issue 2: to 1e-3 at lambda = 1e-10."""
    x, y = symbols
    expected = oracles.conditional_table(oracles.joint_table(x[:, 0], y, 4, 3))
    c = tables().fit(x, y)
    X, Y = np.arange(4.0)[:, None], np.arange(3.0)[:, None]
    assert_allclose(c.at(X)(Y), expected, atol=1e-3)
    one_hot = lambda y: (y == np.arange(3.0)).astype(float)  # noqa: E731
    assert_allclose(c.expectation(one_hot, X), expected, atol=1e-3)
    assert_allclose(c.predict(X), expected @ np.arange(3.0), atol=1e-3)


def test_delta_on_an_unseen_symbol_has_no_mass(symbols):
    c = tables().fit(*symbols)
    assert_allclose(c.at([[9.0]])(np.arange(3.0)), 0.0, atol=1e-12)
    with pytest.warns(km.NumericalWarning):
        assert np.isfinite(c.at([[9.0]]).mean()).all()


def test_composition_is_the_product_of_tables(symbols):
    """E_{Z|Y} E_{Y|X} = P(y|x) P(z|y), from two separate samples."""
    x, y = symbols
    rng = np.random.default_rng(1)
    y2 = rng.integers(3, size=300).astype(float)
    z2 = (2 * y2 + rng.choice(2, size=300)) % 5
    first, second = tables().fit(x, y), tables().fit(y2[:, None], z2)
    expected = oracles.conditional_table(
        oracles.joint_table(x[:, 0], y, 4, 3)
    ) @ oracles.conditional_table(oracles.joint_table(y2, z2, 3, 5))
    both, X = second @ first, np.arange(4.0)[:, None]
    assert_allclose(both.at(X)(np.arange(5.0)), expected, atol=1e-3)
    assert_allclose(both.predict(X).ravel(), expected @ np.arange(5.0), atol=1e-3)
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    m = km.MeanEmbedding(np.arange(4.0), prior, "delta")
    assert_allclose(both.apply(m)(np.arange(5.0)), prior @ expected, atol=1e-3)


def test_composition_of_three_is_associative(symbols):
    x, y = symbols
    a = tables().fit(x, y)
    b = tables().fit(y[:, None], (y + 1) % 3)
    X = np.arange(4.0)[:, None]
    assert_allclose(
        (b @ (b @ a)).at(X)(np.arange(3.0)), ((b @ b) @ a).at(X)(np.arange(3.0)), atol=1e-9
    )


def test_composition_dense(xy, new, rng):
    """The dense form: weights (L_Y + n lam)^-1 L_YY' w(x) with L the Gram matrix of the middle
    variable.
    """
    X, Y = xy
    Z = Y[:, :1] + 0.1 * rng.normal(size=(30, 1))
    first, second = embedding().fit(X, Y), embedding(kernel_x=KY).fit(Y, Z)
    w1 = oracles.cme_weights(gram_x(X), gram_x(X, new), 1e-3)
    expected = oracles.cme_weights(gram_y(Y), gram_y(Y) @ w1.T, 1e-3)
    assert_allclose((second @ first).at(new).weights, expected, atol=1e-6)


# ------------------------------------------------------------------------------------------ shapes
class TestShapes:
    @pytest.mark.parametrize(
        ("f", "tail"),
        [(lambda y: y[:, 0], ()), (lambda y: np.column_stack([y, y**2, y[:, 0]]), (5,))],
    )
    def test_expectation(self, xy, new, f, tail):
        c = embedding().fit(*xy)
        got = c.expectation(f, new)
        assert got.shape == (9, *tail)
        assert_allclose(got, c.weights(new) @ f(xy[1]), atol=1e-9)
        assert c.expectation(f, new[:1]).shape == (1, *tail)
        one = c.at(new)[0]
        assert np.shape(one.expectation(f)) == tail
        assert_allclose(one.expectation(f), got[0], atol=1e-10)

    def test_at_is_a_batch_on_the_training_points(self, xy, new):
        m = embedding().fit(*xy).at(new)
        assert isinstance(m, km.MeanEmbedding)
        assert len(m) == 9
        assert m.weights.shape == (9, 30)
        assert_array_equal(m.points, xy[1])
        assert m.kernel == KY

    def test_predict_has_the_shape_of_y(self, xy, new):
        X, Y = xy
        assert embedding().fit(X, Y).predict(new).shape == (9, 2)
        assert embedding().fit(X, Y[:, :1]).predict(new).shape == (9, 1)
        assert embedding().fit(X, Y[:, 0]).predict(new).shape == (9,)


def test_the_operator_is_linear_in_the_prior(xy, rng):
    X, Y = xy
    c = embedding().fit(X, Y)
    points, a, b = rng.normal(size=(6, 2)), rng.normal(size=6), rng.normal(size=6)
    m = lambda w: km.MeanEmbedding(points, w, KX)  # noqa: E731
    assert_allclose(
        c.apply(m(2 * a - 3 * b)).weights,
        2 * c.apply(m(a)).weights - 3 * c.apply(m(b)).weights,
        atol=1e-8,
    )


def test_at_a_point_is_the_operator_applied_to_a_point_mass(xy, new):
    c = embedding().fit(*xy)
    mass = km.MeanEmbedding(new[:1], kernel=KX)
    assert_allclose(c.apply(mass).weights, c.at(new[:1]).weights[0], atol=1e-10)


def test_weights_sum_to_about_one_inside_the_data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 1))
    c = km.ConditionalEmbedding(reg=1e-4).fit(X, X[:, 0] ** 2)
    assert_allclose(c.weights(np.linspace(-0.8, 0.8, 9)[:, None]).sum(axis=1), 1.0, atol=0.02)


def test_simulation_based_inference():
    """MATH 3: pairs from the prior predictive, then the embedding is the posterior: N(0,1) prior,
    x = theta + N(0, 1/4).
    """
    rng = np.random.default_rng(0)
    theta = rng.normal(size=3000)
    x = theta + 0.5 * rng.normal(size=3000)
    m = km.ConditionalEmbedding().fit(x[:, None], theta).at([[1.0]])
    # posterior N(0.8, 0.2); 3,000 draws and a bias of smoothing: a few hundredths
    assert_allclose(m.mean(), [[0.8]], atol=0.08)
    assert_allclose(m.cov(), [[[0.2]]], atol=0.06)


# --------------------------------------------------------------------- objects that are not vectors
def test_a_precomputed_kernel_takes_row_numbers(xy):
    """Strings and graphs: thirty objects known by their Gram matrix alone, twenty to train."""
    X, Y = xy
    K = gram_x(X)
    train, new = np.arange(20)[:, None], np.arange(20, 30)[:, None]
    c = embedding(kernel_x=km.Precomputed(K)).fit(train, Y[:20])
    theirs = KernelRidge(alpha=20 * 1e-3, kernel="precomputed").fit(K[:20, :20], Y[:20])
    assert_allclose(c.predict(new), theirs.predict(K[20:, :20]), atol=1e-6)


def test_rotations_with_the_frobenius_kernel():
    """tr(A B') of rotations by a and b is 2 cos(a - b): ridge regression on (cos a, sin a)."""
    rng = np.random.default_rng(0)
    a = rng.uniform(0, 2 * np.pi, size=60)
    R = np.column_stack([np.cos(a), -np.sin(a), np.sin(a), np.cos(a)])
    y = 3 * np.cos(a - 1) + 0.01 * rng.normal(size=60)
    c = km.ConditionalEmbedding("frobenius", "linear", reg=1e-8).fit(R, y)
    assert c.features_x_.rank_ == 2
    assert_allclose(c.predict(R), 3 * np.cos(a - 1), atol=0.01)


# ------------------------------------------------------------------------------- data frames, fits
def test_data_frames(xy, new):
    pd = pytest.importorskip("pandas")
    X, Y = xy
    frame = pd.DataFrame(X, columns=["a", "b"])
    c = embedding().fit(frame, pd.Series(Y[:, 0], name="y"))
    assert_array_equal(c.feature_names_in_, ["a", "b"])
    assert_allclose(
        c.predict(pd.DataFrame(new, columns=["a", "b"])), embedding().fit(X, Y[:, 0]).predict(new)
    )
    with pytest.raises(ValueError, match="(?i)feature names"):
        c.predict(pd.DataFrame(new, columns=["b", "a"]))


def test_columns_named_in_the_kernel(xy, new):
    pd = pytest.importorskip("pandas")
    X, Y = xy
    by_name = km.ConditionalEmbedding(km.on_columns({"a": KX, "b": "linear"}), KY, reg=1e-2)
    by_number = km.ConditionalEmbedding(km.on_columns({0: KX, 1: "linear"}), KY, reg=1e-2)
    frame = pd.DataFrame(X, columns=["a", "b"])
    got = by_name.fit(frame, Y).predict(pd.DataFrame(new, columns=["a", "b"]))
    assert_allclose(got, by_number.fit(X, Y).predict(new))


def test_inputs_are_not_modified_and_fits_repeat(xy, new):
    X, Y = xy
    kept = X.copy(), Y.copy()
    a, b = (km.ConditionalEmbedding(tune_lengthscale=True).fit(X, Y).predict(new) for _ in range(2))
    assert_array_equal(a, b)
    assert_array_equal(X, kept[0])
    assert_array_equal(Y, kept[1])


def test_changing_the_data_after_the_fit_changes_nothing(xy, new):
    X, Y = (a.copy() for a in xy)
    c = embedding().fit(X, Y)
    before = c.predict(new), c.loo_score(0.1)
    X[:], Y[:] = 0.0, 0.0
    assert_allclose(c.predict(new), before[0])
    assert c.loo_score(0.1) == pytest.approx(before[1])


def test_healthy_data_warn_of_nothing(xy, new):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        km.ConditionalEmbedding(tune_lengthscale=True).fit(*xy).predict(new)


def test_reg_zero_interpolates(xy):
    X, Y = xy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", km.NumericalWarning)
        c = embedding(0.0, kernel_x=km.Laplace(1.0)).fit(X, Y)
    assert_allclose(c.predict(X), Y, atol=1e-6)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, "small", True, [1.0]])
def test_bad_regularisers_are_refused(xy, bad):
    with pytest.raises(ValueError, match="reg"):
        embedding(bad).fit(*xy)


def test_not_fitted_is_said(new):
    for verb in ("at", "predict", "weights", "apply"):
        with pytest.raises(ValueError, match="fit"):
            getattr(km.ConditionalEmbedding(), verb)(new)


class TestOutsideTheData:
    X = np.random.default_rng(0).uniform(-2, 2, (100, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * np.random.default_rng(1).standard_normal(100)

    @pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
    def test_that_of_the_nearest_row(self, kernel):
        """Weights of both signs, divided by a sum near zero, had a mean of -20 at x = 10."""
        c = km.ConditionalEmbedding(kernel).fit(self.X, self.y)
        at = np.array([[10.0], [0.0], [-2.5], [1e5], [self.X.max() + 1e-3]])
        with pytest.warns(km.NumericalWarning, match=r"3 row\(s\) outside.*row 0 first") as said:
            laws = c.at(at)
        assert len(said) == 1
        near = at.clip(self.X.min(), self.X.max())
        assert_allclose(laws.weights, c.at(near).weights)
        assert_array_equal(laws.extrapolated, [True, False, True, True, True])
        assert not c.at(near).extrapolated.any()
        pytest.importorskip("pandas")
        assert_array_equal(laws.to_frame()["extrapolated"], laws.extrapolated)

    def test_a_line_goes_on(self):
        c = km.ConditionalEmbedding(km.Linear(), reg=1e-9).fit(self.X, 3.0 * self.X[:, 0])
        assert_allclose(c.predict([[10.0]]), [30.0], rtol=1e-4)


@pytest.mark.slow
def test_a_scale_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1100, 2))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(1100)
    order = rng.permutation(1100)
    scales = [
        km.ConditionalEmbedding(tune_lengthscale=True).fit(X[rows], y[rows]).kernel_x_.lengthscale
        for rows in (np.arange(1100), order)
    ]
    assert_allclose(scales[1], scales[0], rtol=0.01)


@pytest.mark.parametrize(
    "model", [km.ConditionalEmbedding(), km.KernelBayes()], ids=lambda m: type(m).__name__
)
def test_units_of_columns_do_not_matter(model):
    """What matters least may be counted in the largest numbers, and a column may be constant."""
    rng = np.random.default_rng(11)
    X, new = rng.normal(size=(120, 3)), rng.uniform(-1.0, 1.0, size=(40, 3))
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.1 * rng.standard_normal((120, 2))
    X[:, 2] = new[:, 2] = 0.1
    units, of_y = np.array([1e-6, 1.0, 1e9]), np.array([1e9, 1e-9])
    expected = model.fit(X, Y).predict(new)
    assert_allclose(
        model.fit(X * units, Y * of_y).predict(new * units) / of_y, expected, 1e-4, 1e-4
    )
    assert ((expected[:, 0] - np.sin(2 * new[:, 0])) ** 2).mean() < 0.03


def test_a_law_is_never_of_width_zero_beside_a_wide_interval():
    """Signed weights may have no variance where the law is wide."""
    points = np.array([[-4.0], [-1.0], [0.0], [1.0], [4.0]])
    weights = np.array([-0.2, 0.5, 0.4, 0.5, -0.2])
    law = km.MeanEmbedding(points, weights, km.Gaussian(1.0))
    assert weights @ points**2 < (weights @ points) ** 2
    low, high = law.quantile(0.159), law.quantile(0.841)
    assert_allclose(law.std(), 0.5 * (high - low))
    assert law.std() > 0.5


@pytest.mark.parametrize("d", [1, 2])
def test_the_spread_of_a_law_is_one_that_its_interval_allows(d):
    """A law with 16% of it beyond either end of an interval has at least that variance."""
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(300, d))
    law = km.KernelBayes().fit(Z + 0.1 * rng.normal(size=(300, d)), Z).posterior(Z[:80])
    half = 0.5 * (law.quantile(0.841) - law.quantile(0.159))
    least = np.sqrt(2 * 0.159) * half
    assert (law.std() >= least * (1 - 1e-12)).all()
    weights = law.weights / law.weights.sum(axis=1, keepdims=True)
    signed = weights @ law.points**2 - (weights @ law.points) ** 2
    assert (signed < 0.8 * least**2).any()


def test_weights_of_one_sign_have_the_spread_of_their_points(rng):
    points, weights = rng.normal(size=(50, 2)), rng.uniform(size=(4, 50))
    law = km.MeanEmbedding(points, weights, km.Gaussian(1.0))
    assert_allclose(law.std() ** 2, np.diagonal(law.cov(), axis1=1, axis2=2))


def test_a_loss_from_few_rows_is_the_loss_where_these_stand_for_the_others():
    """Every row is there twice, and one of each two is among those whose leverage is looked at."""
    rng = np.random.default_rng(5)
    twice = np.repeat(np.arange(40), 2)
    Phi, Psi = rng.normal(size=(40, 6))[twice], rng.normal(size=(40, 3))[twice]
    d = rng.uniform(0.5, 1.5, 40)[twice] / 80
    loss = LeaveOneOut(Phi, Psi, EigenGrid.of(Phi.T @ (d[:, None] * Phi)), d)
    few = loss.estimate(40)
    assert few is not loss
    assert_allclose([few(reg) for reg in (1e-6, 0.1, 10.0)], [loss(r) for r in (1e-6, 0.1, 10.0)])


def test_a_loss_from_few_of_some_rows_has_no_moments_of_the_others():
    """As above, with as many rows again, of other targets, that only the moments know."""
    rng = np.random.default_rng(6)
    Phi, Psi = rng.normal(size=(120, 6)), rng.normal(size=(120, 3))
    here = np.repeat(np.arange(40), 2)
    every = np.concatenate([here, np.arange(40, 120)])
    grid, n = EigenGrid.of(Phi[every].T @ Phi[every] / 160), 160
    C = grid.vectors.T @ (Phi[every].T @ Psi[every]) / n
    loss = LeaveOneOut(Phi[here], Psi[here], grid, n=n, C=C)
    few = loss.estimate(40)
    assert_allclose([few(reg) for reg in (1e-6, 0.1, 10.0)], [loss(r) for r in (1e-6, 0.1, 10.0)])


@pytest.mark.parametrize("columns", [2, 5])
def test_the_loss_is_that_of_regressions_without_each_row(columns):
    """Of few columns and of many, whose sums are made in another way."""
    rng = np.random.default_rng(7)
    Phi, Psi, reg = rng.normal(size=(30, 6)), rng.normal(size=(30, columns)), 0.2
    loss = LeaveOneOut(Phi, Psi, EigenGrid.of(Phi.T @ Phi / 30))
    errors = []
    for i in range(30):
        P, T = np.delete(Phi, i, 0), np.delete(Psi, i, 0)
        left = Psi[i] - Phi[i] @ np.linalg.solve(P.T @ P + 30 * reg * np.eye(6), P.T @ T)
        errors.append(left @ left)
    assert_allclose(loss(reg), np.mean(errors))
    assert_allclose(loss.rows(reg), np.array(errors) / 30)


def test_with_a_linear_kernel_of_y_a_scale_is_that_of_the_mean():
    """Where the law changes in x much faster than the mean: a scale for laws is short."""
    rng = np.random.default_rng(8)
    X, new = rng.uniform(-3, 3, (400, 1)), np.linspace(-2.8, 2.8, 200)[:, None]
    y = X[:, 0] + (1 + np.sign(np.sin(6 * X[:, 0]))) * rng.standard_normal(400)
    laws, means = (
        km.ConditionalEmbedding(kernel_y=k, tune_lengthscale=True).fit(X, y)
        for k in ("gaussian", "linear")
    )
    off = [np.mean((c.predict(new) - new[:, 0]) ** 2) for c in (laws, means)]
    assert means.kernel_x_.lengthscale > 2 * laws.kernel_x_.lengthscale
    assert off[1] < 0.5 * off[0]


def test_paired_errors_allow_less_than_those_of_the_loss():
    """The least λ, the largest within two paired errors, and within one of the loss itself."""
    rng = np.random.default_rng(5)
    x, noise = rng.normal(size=(200, 1)), rng.normal(size=(200, 1))
    Phi = km.Nystroem().fit_transform(x, km.Gaussian(1.0))
    loss = LeaveOneOut(Phi, np.sin(x) + noise, EigenGrid.of(Phi.T @ Phi / 200))
    least, paired, alone = loss.best()[0], loss.best(True, True)[0], loss.best(True)[0]
    assert least < paired < alone
    apart = loss.rows(paired) - loss.rows(least)
    assert_allclose(apart.sum(), 2 * apart.std() * 200**0.5, rtol=0.02)


@pytest.mark.parametrize("seed", [200002, 200007, 200010])
def test_rounding_does_not_choose_to_interpolate_five_rows(seed):
    Y, X = np.random.default_rng(seed).normal(size=(2, 5, 2))
    reg, *others = (km.ConditionalEmbedding().fit(u * X, Y).reg_ for u in (1.0, 1e3, 1e-3))
    assert_allclose(others, reg)
    assert reg > 1e-3


def test_copies_of_a_row_are_left_out_together(xy):
    X, y = xy[0][:12], xy[1][:12, 0]
    times = np.repeat(np.arange(12), [1, 2, 3] * 4)
    n, errors = len(times), []
    for i in times:
        some = times[times != i]
        ridge = KernelRidge(alpha=n * 0.01, kernel="rbf", gamma=1 / (2 * 0.8**2))
        errors.append((y[i] - ridge.fit(X[some], y[some]).predict(X[[i]])[0]) ** 2)
    c = embedding(0.01, kernel_y="linear").fit(X[times], y[times])
    assert c.loo_score_ == pytest.approx(np.mean(errors), rel=1e-6)


def test_modes_are_at_the_scale_of_laws_and_not_of_all_y():
    """On a ring of radius x, where the kernel of all y sees one heap around the middle."""
    rng = np.random.default_rng(8)
    x, angle = rng.uniform(0.5, 1.5, 400), rng.uniform(-np.pi, np.pi, 400)
    y = np.column_stack([np.cos(angle), np.sin(angle)]) * (x + 0.1 * rng.normal(size=400))[:, None]
    c = km.ConditionalEmbedding().fit(x[:, None], y)
    new = np.linspace(0.6, 1.4, 9)
    laws = c.at(new[:, None])
    assert_allclose(np.linalg.norm(laws.mode(), axis=1), new, atol=0.15)
    assert_allclose(c.predict_quantile(new[:, None], 0.5), laws.carrying().quantile(0.5))
    few = km.ConditionalEmbedding().fit(x[:9, None], y[:9]).at(new[:, None])
    assert few.bandwidth is None


@pytest.mark.parametrize("paired", [False, True])
def test_copies_say_once_how_sure_a_loss_is(paired):
    """One standard error was that of twice as many rows: λ of a table stacked with itself .6."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 80)
    Phi = np.cos(np.outer(x, np.arange(12)))
    Psi = np.c_[np.sin(2 * x) ** 2, np.cos(3 * x)] + 0.3 * rng.standard_normal((80, 2))
    found = []
    for times in (1, 2):
        own, outcomes = np.tile(Phi, (times, 1)), np.tile(Psi, (times, 1))
        grid = EigenGrid.of(own.T @ own / len(own))
        copies = None if times == 1 else np.full(len(own), times)
        loss = LeaveOneOut(own, outcomes, grid, copies=copies)
        found.append(loss.best(one_se=True, paired=paired)[0])
    assert_allclose(*found, rtol=1e-3)

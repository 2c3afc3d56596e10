"""Densities of weighted points: scikit-learn's estimator, the double loop, and brute force."""

from __future__ import annotations

import density_oracles as slow
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate
from scipy.stats import kstest, laplace, norm
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KernelDensity

import kernelmean as km
from kernelmean.core.moments import canonical_order
from kernelmean.densities import embedded_density as module


def points(n: int = 60, d: int = 1, seed: int = 70) -> np.ndarray:
    """Two groups, of unlike width in each column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.array([1.0, 3.0, 0.2])[:d]
    X[::3] += 3.0
    return X


def signed(n: int = 60, seed: int = 71) -> np.ndarray:
    return np.random.default_rng(seed).normal(1.0, 1.5, size=n)


# ------------------------------------------------------------------------------ equal weights
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(("ours", "theirs"), [("gaussian", "gaussian"), ("laplace", "exponential")])
def test_scikit_learn(ours, theirs, d):
    X, new = points(d=d), points(20, d, seed=72)
    mine = km.EmbeddedDensity(ours, bandwidth=0.4).fit(X)
    other = KernelDensity(kernel=theirs, bandwidth=0.4).fit(X)
    assert_allclose(mine.score_samples(new), other.score_samples(new), rtol=1e-9)
    assert_allclose(mine.pdf(new), np.exp(other.score_samples(new)), rtol=1e-9)
    assert_allclose(mine.score(new), other.score(new), rtol=1e-9)


def test_scikit_learn_with_weights():
    X, w = points(d=2), np.abs(signed())
    mine = km.EmbeddedDensity(bandwidth=0.4).fit(X, sample_weight=w)
    other = KernelDensity(bandwidth=0.4).fit(X, sample_weight=w)
    assert_allclose(mine.score_samples(X), other.score_samples(X), rtol=1e-9)


def test_bandwidths_of_columns():
    """Those of scaled data."""
    X, gamma = points(d=2), np.array([0.3, 1.2])
    mine = km.EmbeddedDensity(bandwidth=gamma).fit(X)
    other = KernelDensity(bandwidth=1.0).fit(X / gamma)
    expected = other.score_samples(X / gamma) - np.log(gamma).sum()
    assert_allclose(mine.score_samples(X), expected, rtol=1e-9)
    assert_array_equal(mine.bandwidth_, gamma)


def test_repeated_points_are_weights():
    X, count = points(20), np.random.default_rng(73).integers(1, 4, size=20)
    t = np.linspace(-3, 6, 30)[:, None]
    repeated = km.EmbeddedDensity(bandwidth=0.5).fit(np.repeat(X, count, axis=0))
    weighted = km.EmbeddedDensity(bandwidth=0.5).fit(X, sample_weight=count)
    assert_allclose(weighted.pdf(t), repeated.pdf(t), rtol=1e-10)


# ----------------------------------------------------------------------------------- the score
@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2])
def test_a_table_twice_has_the_bandwidth_of_once(d):
    """A row left out would leave its copy, and the score ask for spikes."""
    X = np.random.default_rng(3).normal(size=(150, d))
    once, twice = (km.EmbeddedDensity().fit(np.repeat(X, k, axis=0)) for k in (1, 2))
    assert_allclose(twice.bandwidth_, once.bandwidth_, rtol=0.02)
    assert twice.loo_score() == pytest.approx(twice.loo_score_)


@pytest.mark.parametrize("profile", ["gaussian", "laplace", "matern", "gaussian4"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_score_by_the_double_loop(profile, weighted):
    X = points(8)
    w = signed(8) if weighted else np.ones(8)
    model = km.EmbeddedDensity(profile, bandwidth=0.5).fit(X, sample_weight=w if weighted else None)
    assert_allclose(model.embedding_.weights, w / w.sum(), rtol=1e-12)
    for gamma in (0.5, 1.3):
        expected = slow.density_score(w / w.sum(), X, gamma, profile)
        assert_allclose(model.loo_score(gamma), expected, rtol=1e-7)
    assert_allclose(model.loo_score_, slow.density_score(w / w.sum(), X, 0.5, profile), rtol=1e-7)


@pytest.mark.slow
def test_the_score_of_two_columns():
    X, w, gamma = points(8, 2), signed(8), np.array([0.5, 1.5])
    model = km.EmbeddedDensity(bandwidth=gamma).fit(X, sample_weight=w)
    assert_allclose(model.loo_score_, slow.density_score(w / w.sum(), X, gamma), rtol=1e-7)


def test_the_score_by_quadrature():
    """∫ q² - (2/n) Σ q⁻ⁱ(x_i), q⁻ⁱ fitted without point i."""
    X = points(30)
    model = km.EmbeddedDensity(bandwidth=0.5).fit(X)
    square = integrate.quad(lambda t: model.pdf([[t]])[0] ** 2, -8, 12, limit=300)[0]
    without = [
        km.EmbeddedDensity(bandwidth=0.5).fit(np.delete(X, i, axis=0)).pdf(X[[i]])[0]
        for i in range(30)
    ]
    assert_allclose(model.loo_score_, square - 2 * np.mean(without), rtol=1e-7)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "matern"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_bandwidth_by_brute_force(kernel, weighted):
    X = points(150)
    w = np.abs(signed(150)) if weighted else None
    model = km.EmbeddedDensity(kernel).fit(X, sample_weight=w)
    gammas = model.bandwidth_ * 10 ** np.linspace(-0.5, 0.5, 101)[:, None]
    scores = [model.loo_score(g) for g in gammas]
    assert model.loo_score_ <= min(scores) + 1e-4 * abs(min(scores))
    assert_allclose(model.loo_score(), model.loo_score_, rtol=1e-12)


def test_columns_share_a_multiple_of_silvermans_rule():
    X = points(200, 2)
    low, high = np.quantile(X, [0.159, 0.841], axis=0)
    silverman = 200 ** (-1 / 6) * np.minimum(X.std(axis=0), (high - low) / 2)
    model = km.EmbeddedDensity().fit(X)
    factors = model.bandwidth_ / silverman
    assert_allclose(factors, factors[0])
    scores = [model.loo_score(f * silverman) for f in factors[0] * np.linspace(0.7, 1.4, 29)]
    assert model.loo_score_ <= min(scores) + 1e-4 * abs(min(scores))


def test_a_kernel_that_may_lean_of_rows_elsewhere():
    """Without correlations it is the plain one, also where rows are counted in cells."""
    X = np.random.default_rng(0).normal(size=(10_100, 2))
    plain, leaning = (
        km.EmbeddedDensity(kernel=kernel).fit(km.Rows(X)).score_samples(X[:9])
        for kernel in (km.Gaussian(1.0), km.CorrelatedGaussian(1.0))
    )
    assert_allclose(leaning, plain, rtol=1e-6)


def test_more_rows_than_the_search_looks_at(monkeypatch):
    monkeypatch.setattr(module, "ROWS", 50)
    X = points(200)
    some = X[canonical_order(X)[np.linspace(0, 199, 50).astype(int)]]
    few, all_rows = km.EmbeddedDensity().fit(some), km.EmbeddedDensity().fit(X)
    silverman = [
        (4 / (3 * len(A))) ** 0.2 * min(A.std(), np.ptp(np.quantile(A, [0.159, 0.841])) / 2)
        for A in (some, X)
    ]
    # both look at multiples of their own rule, so that the bottom of the score is met twice
    expected = few.bandwidth_ * 0.25**0.2
    assert_allclose(all_rows.bandwidth_, expected, rtol=2e-2)
    assert 0.3 < all_rows.bandwidth_[0] / silverman[1] < 3
    fixed = km.EmbeddedDensity(bandwidth=0.5).fit(X)
    thinned = km.EmbeddedDensity(bandwidth=0.5).fit(some)
    assert_allclose(fixed.loo_score_, thinned.loo_score_)
    apart = X - X.T
    square = norm.pdf(apart, scale=0.5 * 2**0.5).mean()
    without = norm.pdf(apart, scale=0.5)[~np.eye(200, dtype=bool)].mean()
    assert_allclose(fixed.loo_score(), square - 2 * without, rtol=1e-9)


# ------------------------------------------------------------------------------ signed weights
@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_weights_of_either_sign(kernel):
    X, w = points(40), np.ones(40)
    w[(X[:, 0] > 0) & (X[:, 0] < 2)] = -1.0
    model = km.EmbeddedDensity(kernel, bandwidth=0.4).fit(X, sample_weight=w)
    p = slow.recovered(w / w.sum(), X[:, 0], 0.4, kernel)
    t = np.linspace(-4, 7, 41)
    expected = np.array([p(u) for u in t])
    assert_allclose(model.pdf(t[:, None]), expected, atol=1e-5)
    with np.errstate(divide="ignore"):
        assert_allclose(np.exp(model.score_samples(t[:, None])), expected, atol=1e-5)
    assert (expected == 0).any()


def test_a_negative_sum_is_divided_out():
    X, w = points(40), signed(40)
    a = km.EmbeddedDensity(bandwidth=0.4).fit(X, sample_weight=w)
    b = km.EmbeddedDensity(bandwidth=0.4).fit(X, sample_weight=-2 * w)
    assert_allclose(a.pdf(X), b.pdf(X), rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_samples(weighted):
    X = points(40)
    model = km.EmbeddedDensity(bandwidth=0.4).fit(X, sample_weight=signed(40) if weighted else None)
    draws = model.sample(3000, random_state=74)
    assert draws.shape == (3000, 1)
    cdf = model.embedding_.cdf
    assert kstest(draws[:, 0], lambda t: cdf(t[:, None], 0.4)[:, 0]).pvalue > 1e-3
    assert_array_equal(model.sample(3000, random_state=74), draws)


def test_samples_of_two_columns():
    model = km.EmbeddedDensity().fit(points(100, 2))
    draws = model.sample(4000, random_state=75)
    fit = model.embedding_
    assert_allclose(draws.mean(axis=0), fit.mean(), atol=0.2)
    expected = fit.cov() + np.diag(model.bandwidth_**2)
    assert_allclose(np.cov(draws.T), expected, rtol=0.15, atol=0.3)


def test_angles():
    """A periodic kernel: integral one over a turn, and nothing lost at its end."""
    X = np.random.default_rng(78).vonmises(3.0, 2.0, size=(200, 1)) % (2 * np.pi)
    model = km.EmbeddedDensity("periodic").fit(X)
    t = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    p = model.pdf(t[:, None])
    assert_allclose(p.mean() * 2 * np.pi, 1.0, atol=1e-6)
    truth = np.exp(2 * np.cos(t - 3)) / (2 * np.pi * np.i0(2.0))
    assert np.abs(p - truth).mean() * 2 * np.pi < 0.3
    assert_allclose(model.pdf([[0.0]]), model.pdf([[2 * np.pi]]), rtol=1e-9)


# ----------------------------------------------------------------------------------- hard data
class TestHardData:
    @pytest.mark.slow
    def test_known_truth(self):
        X = np.random.default_rng(76).normal(size=(1000, 1))
        t = np.linspace(-4, 4, 161)
        off = np.abs(km.EmbeddedDensity().fit(X).pdf(t[:, None]) - norm.pdf(t))
        assert np.trapezoid(off, t) < 0.1

    @pytest.mark.parametrize(("scale", "by"), [(1e-8, 0.0), (1e8, 1e9), (1.0, 1e6), (-2.0, 1.0)])
    def test_equivariance(self, scale, by):
        X = points(100, 2)
        a, b = km.EmbeddedDensity().fit(X), km.EmbeddedDensity().fit(scale * X + by)
        assert_allclose(b.bandwidth_, abs(scale) * a.bandwidth_, rtol=1e-6)
        assert_allclose(b.pdf(scale * X + by) * scale**2, a.pdf(X), rtol=1e-5)
        assert_allclose(b.loo_score_ * scale**2, a.loo_score_, rtol=1e-5)

    def test_permuted_columns(self):
        X = points(100, 3)
        a, b = km.EmbeddedDensity().fit(X), km.EmbeddedDensity().fit(X[:, ::-1])
        assert_allclose(b.bandwidth_, a.bandwidth_[::-1], rtol=1e-6)
        assert_allclose(b.pdf(X[:, ::-1]), a.pdf(X), rtol=1e-5)

    @pytest.mark.parametrize("decimals", [0, 1])
    def test_rounded_points(self, decimals):
        X = 2 * points(300)
        a, b = km.EmbeddedDensity().fit(X), km.EmbeddedDensity().fit(np.round(X, decimals))
        assert_allclose(b.bandwidth_, a.bandwidth_, rtol=0.35)

    def test_an_outlier_and_heavy_tails(self):
        X = points(200)
        plain = km.EmbeddedDensity().fit(X)
        X[0] = 1e6
        model = km.EmbeddedDensity().fit(X)
        assert_allclose(model.bandwidth_, plain.bandwidth_, rtol=0.1)
        heavy = np.random.default_rng(77).standard_cauchy((300, 1))
        t = np.linspace(-4, 4, 81)
        p = km.EmbeddedDensity().fit(heavy).pdf(t[:, None])
        assert_allclose(np.trapezoid(np.abs(p - 1 / (np.pi * (1 + t**2))), t), 0, atol=0.2)

    @pytest.mark.parametrize("n", [2, 3, 5])
    def test_few_rows(self, n):
        X = points(n)
        model = km.EmbeddedDensity().fit(X)
        assert model.bandwidth_[0] > 0
        whole = integrate.quad(
            lambda t: model.pdf([[t]])[0], X.min() - 99, X.max() + 99, limit=500, points=X[:, 0]
        )[0]
        assert_allclose(whole, 1, atol=1e-6)

    def test_all_the_weight_on_one_point(self):
        X = points(10)
        model = km.EmbeddedDensity(bandwidth=0.5).fit(X, sample_weight=np.eye(10)[3])
        t = np.linspace(-2, 2, 9)
        assert_allclose(model.pdf(X[3] + t[:, None]), norm.pdf(t, scale=0.5), rtol=1e-9)
        assert np.isfinite(model.loo_score_)

    def test_far_away(self):
        model = km.EmbeddedDensity().fit(points())
        assert_array_equal(model.pdf([[1e9]]), [0.0])
        assert -1e11 < model.score_samples([[1e9]])[0] < -1e6
        plain = km.EmbeddedDensity(wide=0.0).fit(points())
        assert_array_equal(plain.score_samples([[1e9]]), [-np.inf])


class TestWide:
    """(1 − a) p + a·Laplace, a by the densities of rows left out."""

    def test_the_mixture_and_its_share_by_brute_force(self):
        X = np.random.default_rng(3).standard_t(2, (40, 1))
        model, plain = km.EmbeddedDensity().fit(X), km.EmbeddedDensity(wide=0.0).fit(X)
        middle = np.median(X)
        wide = laplace(middle, 1.5 * np.abs(X - middle).mean())
        a, t = model.wide_, np.linspace(-30, 30, 7)[:, None]
        mixed = (1 - a) * plain.pdf(t) + a * wide.pdf(t[:, 0])
        assert_allclose(model.pdf(t), mixed, rtol=1e-10)
        assert_allclose(model.score_samples(t), np.log(mixed), rtol=1e-10)
        left_out = [
            km.EmbeddedDensity(bandwidth=plain.bandwidth_).fit(np.delete(X, i, 0)).pdf(X[[i]])[0]
            for i in range(40)
        ]
        shares = np.linspace(1 / 40, 0.5, 2001)[:, None]
        likely = np.log((1 - shares) * left_out + shares * wide.pdf(X[:, 0])).sum(axis=1)
        assert_allclose(a, shares[likely.argmax(), 0], atol=5e-4)

    def test_new_rows_of_heavy_tails_are_finite_and_likelier(self):
        rng = np.random.default_rng(5)
        X, new = np.exp(rng.normal(size=(2, 100, 1)))
        plain = KernelDensity(bandwidth=km.EmbeddedDensity().fit(X).bandwidth_[0]).fit(X)
        assert km.EmbeddedDensity().fit(X).score(new) > plain.score(new)

    def test_weights_stand_for_repeated_rows(self):
        X, count = points(30), np.random.default_rng(4).integers(1, 4, 30)
        weighted = km.EmbeddedDensity(wide=0.1, bandwidth=0.5).fit(X, sample_weight=count)
        repeated = km.EmbeddedDensity(wide=0.1, bandwidth=0.5).fit(np.repeat(X, count, axis=0))
        assert_allclose(weighted.pdf(X), repeated.pdf(X))

    def test_draws_follow_it(self):
        X = points(50)
        draws = km.EmbeddedDensity(wide=0.4).fit(X).sample(4000, random_state=0)[:, 0]
        model = km.EmbeddedDensity(wide=0.4).fit(X)
        t = np.linspace(-30, 30, 6001)
        below = np.cumsum(model.pdf(t[:, None])) * 0.01
        assert kstest(draws, lambda x: np.interp(x, t, below)).pvalue > 0.01

    def test_none_where_a_bandwidth_is_given_nor_of_angles(self):
        angles = np.random.default_rng(6).uniform(0, 1, (50, 1))
        assert km.EmbeddedDensity(bandwidth=0.4).fit(points()).wide_ == 0
        assert km.EmbeddedDensity("periodic").fit(angles).wide_ == 0

    @pytest.mark.parametrize("bad", [-0.1, 1.0, "x", None])
    def test_bad_shares_are_refused(self, bad):
        with pytest.raises(ValueError, match="wide"):
            km.EmbeddedDensity(wide=bad).fit(points())


@pytest.mark.parametrize(("narrow", "lean"), [(1e-2, 0.0), (1.0, 0.95)])
def test_rows_without_weight_have_no_part_in_the_bandwidth(narrow, lean):
    rng = np.random.default_rng(0)
    cov = [[1.0, lean * narrow], [lean * narrow, narrow**2]]
    X, fresh = (rng.multivariate_normal([0, 0], cov, n) for n in (200, 1000))
    apart = np.concatenate([X, rng.normal(size=(300, 2))])
    alone = km.EmbeddedDensity().fit(X)
    weighted = km.EmbeddedDensity().fit(apart, sample_weight=np.repeat([2.0, 0.0], [200, 300]))
    assert_allclose(weighted.bandwidth_, alone.bandwidth_, rtol=0.02)
    assert_allclose(weighted.score(fresh) / 1000, alone.score(fresh) / 1000, atol=0.01)


def test_equal_weights_are_none():
    X = points(d=2)
    weighted = km.EmbeddedDensity().fit(X, sample_weight=np.full(len(X), 3.0))
    assert_array_equal(weighted.bandwidth_, km.EmbeddedDensity().fit(X).bandwidth_)


def test_names_inputs_and_lists():
    X, w = points(d=2), signed()
    before = X.copy(), w.copy()
    model = km.EmbeddedDensity().fit(X, sample_weight=w)
    assert_array_equal(X, before[0])
    assert_array_equal(w, before[1])
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = km.EmbeddedDensity().fit(frame, sample_weight=pd.Series(w))
    assert_array_equal(named.feature_names_in_, ["a", "b"])
    assert_array_equal(named.pdf(frame), model.pdf(X))
    assert_array_equal(
        km.EmbeddedDensity().fit(X.tolist(), sample_weight=w.tolist()).pdf(X), model.pdf(X)
    )
    with pytest.raises(ValueError, match="feature names"):
        named.pdf(frame[["b", "a"]])
    p = model.pdf(before[0])
    X[:] = 0.0
    assert_array_equal(model.pdf(before[0]), p)
    assert_array_equal(km.EmbeddedDensity().fit(before[0], sample_weight=w).pdf(before[0]), p)


def test_before_fit():
    model = km.EmbeddedDensity()
    for name, arguments in {
        "pdf": ([[0.0]],),
        "score_samples": ([[0.0]],),
        "score": ([[0.0]],),
        "sample": (),
        "loo_score": (),
    }.items():
        with pytest.raises(NotFittedError):
            getattr(model, name)(*arguments)

"""Conditional densities: dense formulas, quadrature, symmetries and hard data."""

from __future__ import annotations

import math
import warnings
from functools import cache
from itertools import pairwise

import density_oracles as slow
import numpy as np
import oracles
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, laplace, multivariate_normal, norm
from sklearn.exceptions import NotFittedError

import kernelmean as km
from kernelmean.core.moments import canonical_order
from kernelmean.densities import laws as module
from kernelmean.densities import plan, rival

GIVEN = {"bandwidth": 0.3, "reg": 0.01}


def wave(n: int = 80, seed: int = 50, d: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """y is a sine of the first column of X, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)


def within(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Other rows, in the range of those of `wave()`."""
    X, y = wave(n, seed)
    return X.clip(wave()[0].min(), wave()[0].max()), y


def plane(n: int = 80, seed: int = 51) -> tuple[np.ndarray, np.ndarray]:
    """Two columns of y, of different size."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 1))
    noise = rng.normal(size=(n, 2)) @ [[0.3, 2.0], [0.0, 2.0]]
    return X, np.column_stack([np.sin(X[:, 0]), 5 * X[:, 0]]) + noise


NEW = np.array([[-1.0], [0.2], [0.9]])
KINDS = {
    "plain": {**GIVEN, "kernel_x": km.Gaussian(0.5)},
    "rough": {"bandwidth": 0.15, "reg": 1e-5, "kernel_x": km.Gaussian(0.5), "intercept": True},
    "tuned": {"location": False, "wide": 0.0},
    "located": {"location": True, "wide": 0.0},
    "laplace": {"location": True, "kernel_y": "laplace"},
    "matern": {"kernel_y": "matern", "location": False, "wide": 0.2},
    "gaussian4": {"kernel_y": "gaussian4", "location": False},
    "wide": {"location": True, "wide": 0.1},
}


@cache
def fitted(kind: str) -> km.ConditionalDensity:
    return km.ConditionalDensity(**KINDS[kind]).fit(*wave())


@cache
def of_wave(location) -> km.ConditionalDensity:
    return km.ConditionalDensity(location=location).fit(*wave())


@cache
def of_wider_wave() -> km.ConditionalDensity:
    X, y = wave(200)
    return km.ConditionalDensity(location=False).fit(X, 3 * y)


@cache
def fitted_plane(location: bool) -> km.ConditionalDensity:
    return km.ConditionalDensity(location=location, wide=0.0).fit(*plane())


def shift(model, X) -> np.ndarray:
    return np.zeros((len(X), 1)) if model.location_ is None else model.location_(X)


def wide_pdf(model, t, row: int) -> np.ndarray:
    """The Laplace law that each density takes a share of."""
    e = model.points_[:, 0]
    scale = 1.5 * np.abs(e - np.median(e)).mean()
    return laplace.pdf(t, np.median(e) + shift(model, NEW)[row, 0], scale)


def ends(model, row: int) -> np.ndarray:
    """Where a density at NEW[row] may have kinks or bends: its points, and beyond."""
    points = model.points_[:, 0] + shift(model, NEW)[row, 0]
    far = 40 * model.bandwidth_[0] + (20 * points.std() if model.wide_ else 0.0)
    cuts = [points.min() - far, np.median(points), points.max() + far]
    return np.unique(np.concatenate([cuts, points]))


def integral(f, cuts, step: float = 0.1) -> float:
    """Gauss-Legendre between each two cuts, those further apart than `step` cut once more."""
    cuts = np.concatenate(
        [np.linspace(a, b, 2 + int((b - a) / step))[:-1] for a, b in pairwise(cuts)] + [cuts[-1:]]
    )
    t, w = np.polynomial.legendre.leggauss(6)
    half = np.diff(cuts)[:, None] / 2
    nodes = half * t + (cuts[:-1, None] + cuts[1:, None]) / 2
    return float(np.sum(f(nodes.ravel()).reshape(nodes.shape) * w * half))


# --------------------------------------------------------------------- the thesis's estimator
@pytest.mark.slow
@pytest.mark.parametrize("profile", ["gaussian", "laplace", "matern", "gaussian4"])
@pytest.mark.parametrize("lam", [1e-6, 0.03])
def test_the_estimator_of_the_thesis(profile, lam):
    """Eq. 2.10 with dense weights, its positive part divided by its integral (eq. 2.7)."""
    X, y = wave(25)
    model = km.ConditionalDensity(
        km.Gaussian(0.6), bandwidth=0.25, reg=lam, features=km.Exact(), kernel_y=profile
    ).fit(X, y)  # fmt: skip
    assert (model.intercept_, model.location_, model.reg_) == (False, None, lam)
    assert_array_equal(model.bandwidth_, [0.25])
    assert_array_equal(model.points_, y[:, None])
    assert_array_equal(model.points_x_, X)
    K = oracles.gram(oracles.gaussian, X, lengthscale=0.6)
    W = slow.weights(K, oracles.gram(oracles.gaussian, X, NEW, lengthscale=0.6), 25 * lam, False)
    assert_allclose(model.weights(NEW), W, atol=1e-6 * np.abs(W).max())
    t = np.linspace(-3, 3, 31)
    for w, got in zip(W, model.pdf(t, NEW, paired=False), strict=True):
        p = slow.recovered(w, y, 0.25, profile)
        expected = [p(u) for u in t]
        assert_allclose(got, expected, atol=2e-5 * max(expected))


def test_with_an_intercept():
    """Weights of the bordered system, which sum to one."""
    X, y = wave(25)
    model = km.ConditionalDensity(
        km.Gaussian(0.6), 0.25, 1e-3, km.Exact(), intercept=True
    ).fit(X, y)  # fmt: skip
    K = oracles.gram(oracles.gaussian, X, lengthscale=0.6)
    k = oracles.gram(oracles.gaussian, X, NEW, lengthscale=0.6)
    W = slow.weights(K, k, 25 * 1e-3, True)
    assert_allclose(model.weights(NEW), W, atol=1e-8)
    with pytest.warns(km.NumericalWarning, match="X has 2 row.s. outside"):
        assert_allclose(model.weights([[-5.0], [0.0], [100.0]]).sum(axis=1), 1.0)
    p = slow.recovered(W[1], y, 0.25)
    t = np.linspace(-2, 3, 21)
    assert_allclose(model.pdf(t, NEW, paired=False)[1], [p(u) for u in t], atol=1e-5)


def test_weights_of_a_negative_sum():
    """A linear kernel without intercept: where Σw < 0, q is divided by it like elsewhere."""
    X, y = wave(60)
    X = X + 0.5
    model = km.ConditionalDensity(km.Linear(), 0.3, 1e-3, km.Exact()).fit(X, y)
    at = X[[X[:, 0].argmin()]]
    w = slow.weights(X @ X.T, X @ at.T, 60e-3, False)[0]
    assert w.sum() < 0
    p = slow.recovered(w / w.sum(), y, 0.3)
    t = np.linspace(-2, 2, 21)
    assert_allclose(model.pdf(t, at, paired=False)[0], [p(u) for u in t], atol=1e-4)


@pytest.mark.usefixtures("short_searches")
@pytest.mark.slow
def test_given_parameters_are_kept():
    X, y = wave()
    assert_array_equal(km.ConditionalDensity(bandwidth=0.4).fit(X, y).bandwidth_, [0.4])
    model = km.ConditionalDensity(reg=0.2).fit(X, y)
    assert model.reg_ == 0.2
    assert (model.intercept_, model.location_) == (False, None)
    model = km.ConditionalDensity(reg=0.2, intercept=True, location=True).fit(X, y)
    assert model.intercept_
    assert model.location_ is not None
    model = km.ConditionalDensity(km.Gaussian(0.7)).fit(X, y)
    assert model.kernel_x_ == km.Gaussian(0.7)
    assert_array_equal(model.scales_, [1.0])


@pytest.mark.slow
def test_tuned_lengthscales_are_multiples_of_the_medians():
    X, y = wave(300, d=2)
    model = km.ConditionalDensity(location=False).fit(X, y)
    medians = [oracles.median_lengthscale(X[:, j]) for j in range(2)]
    assert_allclose(model.kernel_x_.lengthscale, model.scales_ * medians)
    assert model.scales_[1] > 2 * model.scales_[0]  # the second column is of no use
    plain = km.ConditionalDensity(location=False, tune_lengthscale=False).fit(X, y)
    assert_allclose(plain.kernel_x_.lengthscale, medians)


# ------------------------------------------------------------------------------ what is chosen
@pytest.mark.slow
@pytest.mark.parametrize("location", [False, True])
def test_reg_is_the_largest_within_half_a_standard_error_of_the_best(location):
    X, model = wave()[0], of_wave(location)
    regs = 10 ** np.linspace(-9, 2, 111)
    scores = np.array([model.loo_score(reg=reg) for reg in regs])
    best = regs[np.argmin(scores)]
    assert best <= model.reg_ * 10**0.06  # the grid's nearest may be half a step above
    K = oracles.gram(oracles.gaussian, X, lengthscale=model.kernel_x_.lengthscale)
    rows, gamma = model.points_[:, 0], model.bandwidth_[0]

    def worse(reg):
        return _terms(K, rows, gamma, 80 * reg, "gaussian") - at_best

    at_best = _terms(K, rows, gamma, 80 * best, "gaussian")
    for reg, within in ((model.reg_, True), (model.reg_ * 10**0.5, False)):
        cost = worse(reg)
        error = cost.std() / 80**0.5
        if reg < 100:
            assert (cost.mean() <= 1.1 * 0.5 * error) == within


@pytest.mark.slow
@pytest.mark.parametrize("kernel_y", ["gaussian", "laplace"])
def test_the_bandwidth_is_within_half_a_standard_error_of_the_best(kernel_y):
    X, y = wave(120)
    model = km.ConditionalDensity(kernel_y=kernel_y, location=False).fit(X, y)
    gammas = model.bandwidth_[0] * 10 ** np.linspace(-1, 1, 41)
    scores = np.array([model.loo_score(bandwidth=g) for g in gammas])
    best = gammas[np.argmin(scores)]
    assert best <= model.bandwidth_[0] * 1.05
    K = oracles.gram(oracles.gaussian, X, lengthscale=model.kernel_x_.lengthscale)
    terms = [_terms(K, y, g, model.reg_ * 120, kernel_y) for g in (best, model.bandwidth_[0])]
    worse = terms[1] - terms[0]
    assert worse.mean() <= 1.3 * 0.5 * worse.std() / 120**0.5
    assert_allclose(worse.mean(), model.loo_score_ - scores.min(), atol=1e-3)


def _terms(K, y, gamma, n_lam, profile) -> np.ndarray:
    """Each row's ∫ q⁻ⁱ² - 2 q⁻ⁱ(y_i), by an even mesh."""
    t = np.arange(y.min() - 12 * gamma, y.max() + 12 * gamma, gamma / 20)
    f = slow.PROFILES[profile]
    bumps = lambda u: f(np.abs(y[:, None] - u) / gamma, np.exp) / (slow._MASS[profile] * gamma)  # noqa: E731
    W = np.array([slow.weights_without(i, K, n_lam, True) for i in range(len(y))])
    own = np.sum(W * bumps(y).T, axis=1)
    return np.sum((W @ bumps(t)) ** 2, axis=1) * (t[1] - t[0]) - 2 * own


def test_the_bandwidth_of_more_rows_than_the_search_looks_at(monkeypatch):
    """Parameters of rows evenly spaced in their own order; the bandwidth falls as n^{-1/5}."""
    monkeypatch.setattr(plan, "FEW", 60)
    monkeypatch.setattr(plan, "ROWS", 60)
    X, y = wave(240)
    some = canonical_order(X, y[:, None])[np.linspace(0, 239, 60).astype(int)]
    kernel = km.Gaussian(0.5)
    few = km.ConditionalDensity(kernel, location=False).fit(X[some], y[some])
    all_rows = km.ConditionalDensity(kernel, location=False).fit(X, y)
    assert_allclose(all_rows.bandwidth_, few.bandwidth_ * 0.25**0.2, rtol=1e-3)  # other pivots
    assert all_rows.points_.shape == (240, 1)
    fixed = km.ConditionalDensity(kernel, 0.3, location=False).fit(X, y)
    assert_array_equal(fixed.bandwidth_, [0.3])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "better"), [("linear", True), ("bimodal", False)])
def test_a_location_is_taken_where_it_scores_better(name, better):
    more = {"d": 2} if name == "linear" else {}
    data = km.datasets.make_conditional_density(name, 200, random_state=52, **more)
    scores = {
        location: km.ConditionalDensity(location=location).fit(data.X, data.Y).loo_score_
        for location in (True, False)
    }
    assert (scores[True] < scores[False]) is better
    auto = km.ConditionalDensity().fit(data.X, data.Y)
    assert (auto.location_ is not None) is better
    assert_allclose(auto.loo_score_, min(scores.values()), rtol=1e-3)


# ---------------------------------------------------------------------------------- densities
@pytest.mark.parametrize("kind", KINDS)
class TestOneColumn:
    def test_integral_one_and_never_negative(self, kind):
        model = fitted(kind)
        for row in range(3):
            whole = integral(
                lambda t, x=NEW[[row]]: model.pdf(t, x, paired=False)[0], ends(model, row)
            )
            assert_allclose(whole, 1.0, atol=2e-4)
        assert np.all(model.pdf(np.linspace(-9, 9, 500), NEW, paired=False) >= 0)

    @pytest.mark.slow
    def test_weights_give_the_density(self, kind):
        """Shifted by the location, with the integral by quadrature."""
        model = fitted(kind)
        profile = kind if kind in slow.PROFILES else "gaussian"
        t = np.linspace(-2, 2, 15)
        for row in range(2):
            w, gamma, points = model.weights(NEW)[row], model.bandwidth_[0], model.points_[:, 0]
            if kind in ("located", "wide"):  # drawn towards their mean by what kernels add
                by = (1 - gamma**2 / points.var()) ** 0.5
                points = by * points + (1 - by) * w @ points
            p = slow.recovered(w, points + shift(model, NEW)[row, 0], gamma, profile)
            expected = (1 - model.wide_) * np.array([p(u) for u in t])
            back = (1 - by) * w @ model.points_[:, 0] if kind == "wide" else 0.0
            expected += model.wide_ * wide_pdf(model, t - back, row)
            assert_allclose(
                model.pdf(t, NEW, paired=False)[row], expected, atol=2e-4 * expected.max()
            )
            pairs = model.pdf(t, np.repeat(NEW[[row]], 15, axis=0))
            assert_allclose(pairs, expected, atol=3e-5 * expected.max())

    def test_pairs_and_tables(self, kind):
        model = fitted(kind)
        X, y = within(40, seed=53)
        table, pairs = model.pdf(y, X, paired=False), model.pdf(y, X)
        assert table.shape == (40, 40)
        assert_allclose(np.diag(table), pairs, atol=1e-4 * table.max())
        assert_array_equal(model.pdf(y, X, paired=True), pairs)
        assert model.pdf(y[:7], X, paired=False).shape == (40, 7)
        assert_allclose(np.diag(model.cdf(y, X, paired=False)), model.cdf(y, X), atol=1e-9)

    def test_log_densities(self, kind):
        model = fitted(kind)
        X, y = within(40, seed=53)
        y[0] = 1e4  # where there is nothing
        with np.errstate(divide="ignore"):
            expected = np.log(model.pdf(y, X))
        assert expected[0] == -np.inf
        floor = np.log(1e-6 / wave()[1].std())  # in units of the training y
        if model.wide_:  # beyond the range of floats there is a logarithm still
            e, drawn = model.points_[:, 0], model.fit_.drawn
            back = 0 if drawn is None else 1 - drawn[0]  # to the mean of residuals
            shifted = y[0] - shift(model, X)[0, 0] - back * (model.weights(X[:1]) @ e)[0]
            scale = 1.5 * np.abs(e - np.median(e)).mean()
            away = np.abs(shifted - np.median(e)) / scale
            expected[0] = np.log(model.wide_ / (2 * scale)) - away
            floor = -np.inf
        assert_allclose(model.score_samples(X, y), expected, rtol=1e-12)
        assert_allclose(model.score(X, y), np.mean(np.maximum(expected, floor)))
        assert_allclose(model.score(X[1:], y[1:]), np.mean(np.maximum(expected[1:], floor)))

    def test_the_distribution_function_is_the_integral(self, kind):
        model = fitted(kind)
        y = np.array([-1.5, -0.4, 0.1, 0.5, 2.0])
        got = model.cdf(y, NEW, paired=False)
        assert got.shape == (3, 5)
        for row in range(3):
            cuts = ends(model, row)
            for u, value in zip(y, got[row], strict=True):
                upto = np.append(cuts[cuts < u], u)
                if len(upto) > 1:
                    below = integral(lambda t, x=NEW[[row]]: model.pdf(t, x, paired=False)[0], upto)
                    assert_allclose(value, below, atol=2e-4)
        assert_allclose(model.cdf([-1e3, 1e3], NEW, paired=False), [[0.0, 1.0]] * 3, atol=1e-7)

    def test_quantiles_invert_it(self, kind):
        model = fitted(kind)
        levels = [0.01, 0.1, 0.5, 0.77, 0.99]
        q = model.predict_quantile(NEW, levels)
        assert q.shape == (3, 5)
        assert np.all(np.diff(q, axis=1) > 0)
        for row in range(3):
            assert_allclose(model.cdf(q[row], NEW[[row]], paired=False)[0], levels, atol=1e-7)
        # a product with one level may be rounded by other code of BLAS than that with five
        assert_allclose(model.predict_quantile(NEW, 0.5), q[:, 2], rtol=1e-14)

    def test_intervals_hold_their_mass(self, kind):
        model = fitted(kind)
        for kind_of_interval in ("central", "shortest"):
            low, high = model.predict_interval(NEW, 0.8, kind_of_interval)
            assert low.shape == high.shape == (3,)
            both = np.stack([low, high], axis=1)
            mass = [np.ptp(model.cdf(both[i], NEW[[i]], paired=False)[0]) for i in range(3)]
            assert_allclose(mass, 0.8, atol=1e-6)
        shorter = high - low
        central = model.predict_interval(NEW, 0.8)
        assert_array_equal(central[0], model.predict_quantile(NEW, (1 - 0.8) / 2))
        levels = np.linspace(0, 0.2, 2001)
        every = model.predict_quantile(NEW, levels + 0.8) - model.predict_quantile(NEW, levels)
        assert np.all(shorter <= every.min(axis=1) * (1 + 1e-6))
        assert_allclose(shorter, every.min(axis=1), rtol=5e-3)

    def test_regions_hold_their_mass_above_a_height(self, kind):
        model = fitted(kind)
        for row, region in enumerate(model.region(NEW, 0.7)):
            x = NEW[[row]]
            mass = np.ptp(
                model.cdf(region.ravel(), x, paired=False)[0].reshape(-1, 2), axis=1
            ).sum()
            assert_allclose(mass, 0.7, atol=1e-3)
            assert np.all(np.diff(region.ravel()) > 0)
            heights = model.pdf(region.ravel(), x, paired=False)[0]
            top = model.pdf(model.mode(x), x)[0]
            assert_allclose(heights, heights.mean(), atol=1e-3 * top)
            t = np.linspace(-4, 4, 3001)
            inside = np.any((t[:, None] > region[:, 0]) & (t[:, None] < region[:, 1]), axis=1)
            p = model.pdf(t, x, paired=False)[0]
            assert p[inside].min() >= p[~inside].max() - 2e-3 * top

    def test_modes_are_the_highest_points(self, kind):
        model = fitted(kind)
        found = model.mode(NEW)
        assert found.shape == (3,)
        for row in range(3):
            t = np.sort(np.concatenate([np.linspace(-4, 4, 4001), ends(model, row)]))
            p = model.pdf(t, NEW[[row]], paired=False)[0]
            assert model.pdf(found[[row]], NEW[[row]])[0] >= p.max() * (1 - 1e-3)

    def test_samples_follow_it(self, kind):
        model = fitted(kind)
        draws = model.sample(NEW, 2000, random_state=54)
        assert draws.shape == (3, 2000)
        for row in range(3):
            assert (
                kstest(draws[row], lambda t, x=NEW[[row]]: model.cdf(t, x, paired=False)[0]).pvalue
                > 1e-3
            )
        assert_array_equal(model.sample(NEW, 2000, random_state=54), draws)
        assert not np.array_equal(model.sample(NEW, 2000, random_state=55), draws)
        assert model.sample(NEW).shape == (3, 1)

    def test_the_mean(self, kind):
        model = fitted(kind)
        w = model.weights(NEW)
        expected = (w @ model.points_ / w.sum(axis=1, keepdims=True) + shift(model, NEW))[:, 0]
        assert_allclose(model.predict(NEW), expected, atol=1e-10)

    def test_the_embedding(self, kind):
        model = fitted(kind)
        m = model.at(NEW[:1])
        t = np.linspace(-2, 2, 9)
        p = m.density(t[:, None])
        assert_allclose(p, model.pdf(t, NEW[:1], paired=False), atol=1e-4 * p.max())
        assert_allclose(m.mean()[0], model.predict(NEW[:1]), atol=1e-10)
        assert len(model.at(NEW)) == 3
        assert_allclose(model.at(NEW).mean()[:, 0], model.predict(NEW), atol=1e-10)


@pytest.mark.parametrize("kind", ["rough", "located"])
def test_very_many_pairs_are_interpolated(kind, monkeypatch):
    model, (X, y) = fitted(kind), within(200, seed=53)
    exact = model.pdf(y, X)
    monkeypatch.setattr(module, "EVALUATIONS", 1)
    assert_allclose(model.pdf(y, X), exact, atol=1e-4 * exact.max())


def test_the_mean_of_a_density_that_is_not_negative():
    """∫ y p(y|x) dy; the smoothing kernel adds nothing to it."""
    model = fitted("located")
    assert model.weights(NEW).min() > 0
    for row in range(3):
        mean = integral(
            lambda t, x=NEW[[row]]: t * model.pdf(t, x, paired=False)[0], ends(model, row)
        )
        assert_allclose(mean, model.predict(NEW[[row]])[0], atol=1e-3)


# -------------------------------------------------------------------------------- two columns
@pytest.mark.parametrize("location", [False, True])
class TestTwoColumns:
    AT = np.array([[-1.0], [0.0], [1.2]])

    def mesh(self, model, x):
        lower, upper = model.predict_quantile(x, 0.0)[0], model.predict_quantile(x, 1.0)[0]
        lower, upper = lower - model.bandwidth_, upper + model.bandwidth_
        axes = [np.linspace(a, b, 241) for a, b in zip(lower, upper, strict=True)]
        return axes, np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)

    @pytest.mark.slow
    def test_integral_one_and_marginals(self, location):
        model = fitted_plane(location)
        for x in self.AT[:2, None]:
            (s, t), mesh = self.mesh(model, x)
            p = model.pdf(mesh, x, paired=False)[0].reshape(241, 241)
            assert p.min() >= 0
            assert_allclose(np.trapezoid(np.trapezoid(p, t), s), 1.0, atol=3e-3)

    def test_integral_one_of_pairs(self, location):
        """By Gauss and Legendre's nodes, asked for in pairs; alone a pair is told the same."""
        model = km.ConditionalDensity(
            km.Gaussian(2.0), (0.6, 2.5), 0.1, intercept=True, location=location
        ).fit(*plane(20))  # fmt: skip
        x = self.AT[:1]
        (s, t), _ = self.mesh(model, x)
        u, w = np.polynomial.legendre.leggauss(48)
        axes = [(e[0] + e[-1] + (e[-1] - e[0]) * u) / 2 for e in (s, t)]
        nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        p = model.pdf(nodes, np.repeat(x, len(nodes), axis=0))
        whole = w @ p.reshape(48, 48) @ w * (s[-1] - s[0]) * (t[-1] - t[0]) / 4
        assert_allclose(whole, 1.0, atol=1e-6)
        some = np.linspace(0, len(nodes) - 1, 40).astype(int)
        alone = [model.pdf(nodes[[i]], x)[0] for i in some]
        assert_allclose(alone, p[some], rtol=1e-9, atol=1e-300)

    def test_against_the_formula(self, location):
        """Σ w k̄ of normal laws that lean; the ratio to the density is the same at every y."""
        model = fitted_plane(location)
        x, y = self.AT[[2]], plane(30, seed=55)[1]
        w = model.weights(x)[0]
        points = model.points_
        if location:  # residuals, drawn together
            by = np.sqrt(1 - model.bandwidth_**2 / points.var(axis=0))
            points = by * points + (1 - by) * (w @ points) + model.location_(x)
        lean = np.asarray(model.fit_.kernel_y.correlation)
        cov = lean * np.outer(model.bandwidth_, model.bandwidth_)
        q = np.array([w @ [multivariate_normal(p, cov).pdf(u) for p in points] for u in y])
        got = model.pdf(y, x, paired=False)[0]
        ratio = got[q > 1e-3] / q[q > 1e-3]
        assert_allclose(ratio, ratio[0], rtol=1e-9)
        assert ratio[0] <= 1 + 1e-9
        assert np.all(got[q < 0] == 0)

    def test_pairs_and_tables(self, location):
        model = fitted_plane(location)
        X, Y = plane(30, seed=55)
        table = model.pdf(Y, X, paired=False)
        assert_allclose(np.diag(table), model.pdf(Y, X), rtol=1e-9, atol=1e-12)
        assert_allclose(model.score_samples(X, Y), np.log(model.pdf(Y, X)))
        assert model.pdf(Y[:4], X, paired=False).shape == (30, 4)

    def test_samples_and_marginals(self, location):
        """Each column of the draws follows the distribution function of that column."""
        model = fitted_plane(location)
        draws = model.sample(self.AT, 1500, random_state=56)
        assert draws.shape == (3, 1500, 2)
        for row in range(3):
            for j in range(2):

                def marginal(t, row=row, j=j):
                    both = np.zeros((len(t), 2))
                    both[:, j] = t
                    return model.cdf(both, self.AT[[row]], paired=False)[0, :, j]

                assert kstest(draws[row, :, j], marginal).statistic < 0.06

    def test_shapes(self, location):
        model = fitted_plane(location)
        assert model.predict_quantile(self.AT, 0.3).shape == (3, 2)
        assert model.predict_quantile(self.AT, [0.1, 0.3, 0.5, 0.6]).shape == (3, 4, 2)
        for kind in ("central", "shortest"):
            low, high = model.predict_interval(self.AT, 0.5, kind)
            assert low.shape == high.shape == (3, 2)
            assert np.all(low < high)
        assert model.predict(self.AT).shape == model.mode(self.AT).shape == (3, 2)
        assert model.cdf(np.zeros((5, 2)), self.AT, paired=False).shape == (3, 5, 2)
        assert model.cdf(np.zeros((3, 2)), self.AT).shape == (3, 2)
        with pytest.raises(ValueError, match="y has 2 columns"):
            model.region(self.AT)

    @pytest.mark.slow
    def test_modes(self, location):
        """Nowhere on a mesh is the density much higher."""
        model = fitted_plane(location)
        for x, mode in zip(self.AT[:, None], model.mode(self.AT), strict=True):
            _, mesh = self.mesh(model, x)
            assert model.pdf(mode[None], x)[0] >= 0.999 * model.pdf(mesh, x, paired=False)[0].max()


# ------------------------------------------------------------------------------------- shapes
class TestShapesAndNames:
    def test_one_column_with_and_without_its_axis(self):
        X, y = wave()
        flat, column = (km.ConditionalDensity(**GIVEN).fit(X, v) for v in (y, y[:, None]))
        for name, argument in (
            ("predict_quantile", 0.3),
            ("predict_quantile", [0.1, 0.5]),
            ("sample", 4),
        ):
            a, b = (
                getattr(m, name)(NEW, argument, *([0] * (name == "sample"))) for m in (flat, column)
            )
            assert (*a.shape, 1) == b.shape
            assert_array_equal(a, b[..., 0])
        for name in ("predict", "mode"):
            assert_array_equal(getattr(flat, name)(NEW), getattr(column, name)(NEW)[:, 0])
        assert column.cdf([0.0, 1.0], NEW, paired=False).shape == (3, 2, 1)
        assert_array_equal(flat.pdf(y, X), column.pdf(y[:, None], X))

    def test_lists(self):
        X, y = wave()
        a = km.ConditionalDensity(**GIVEN).fit(X, y)
        b = km.ConditionalDensity(**GIVEN).fit(X.tolist(), y.tolist())
        assert_array_equal(a.pdf(y.tolist(), X.tolist()), b.pdf(y, X))

    def test_tables_and_names(self):
        X, y = wave(d=2)
        frame, series = pd.DataFrame(X, columns=["age", "size"]), pd.Series(y, name="wage")
        kernel = km.on_columns({"age": km.Gaussian(0.5), "size": "laplace"})
        model = km.ConditionalDensity(kernel, **GIVEN).fit(frame, series)
        assert model.target_names_ == ["wage"]
        assert_array_equal(model.feature_names_in_, ["age", "size"])
        by_number = km.on_columns({0: km.Gaussian(0.5), 1: "laplace"})
        plain = km.ConditionalDensity(by_number, **GIVEN).fit(X, y)
        assert plain.target_names_ is None
        assert_array_equal(model.pdf(series, frame), plain.pdf(y, X))
        two = pd.DataFrame({"u": y, "v": X[:, 0]})
        assert km.ConditionalDensity(**GIVEN).fit(frame, two).target_names_ == ["u", "v"]
        with pytest.raises(ValueError, match="feature names"):
            model.pdf(series, frame[["size", "age"]])

    @pytest.mark.usefixtures("short_searches")
    @pytest.mark.slow
    def test_inputs_are_neither_changed_nor_shared(self):
        X, y = wave()
        before = X.copy(), y.copy()
        model = km.ConditionalDensity().fit(X, y)
        p = model.pdf(y, X)
        assert_array_equal(X, before[0])
        assert_array_equal(y, before[1])
        X[:], y[:] = 0.0, 0.0
        assert_array_equal(model.pdf(*reversed(before)), p)

    def test_before_fit(self):
        for name, arguments in {
            "pdf": ([0.0], NEW),
            "cdf": ([0.0], NEW),
            "predict_quantile": (NEW, 0.5),
            "sample": (NEW,),
            "predict": (NEW,),
            "weights": (NEW,),
            "at": (NEW,),
            "predict_interval": (NEW,),
            "region": (NEW,),
            "mode": (NEW,),
            "score": (NEW, [0.0] * 3),
            "score_samples": (NEW, [0.0] * 3),
            "loo_score": (),
        }.items():
            with pytest.raises(NotFittedError):
                getattr(km.ConditionalDensity(), name)(*arguments)


# --------------------------------------------------------------------------------- symmetries
class TestSymmetries:
    T = np.linspace(-2, 2, 21)

    @pytest.mark.usefixtures("short_searches")
    @pytest.mark.slow
    def test_the_same_twice(self):
        X, y = wave(d=2)
        a, b = (km.ConditionalDensity().fit(X, y) for _ in range(2))
        assert_array_equal(a.pdf(y, X), b.pdf(y, X))
        assert (a.reg_, a.loo_score_) == (b.reg_, b.loo_score_)
        state = np.random.get_state()[1].copy()
        a.sample(X, 3)
        km.ConditionalDensity().fit(X, np.round(y, 1))
        assert_array_equal(np.random.get_state()[1], state)

    @pytest.mark.slow
    @pytest.mark.parametrize("location", ["auto", False])
    @pytest.mark.parametrize(("scale", "by"), [(3.0, -7.0), (-1.0, 0.0), (1e-8, 0.0), (1e8, 1e9)])
    def test_rescaled_and_shifted_y(self, scale, by, location):
        (X, y), a = wave(), of_wave(location)
        b = km.ConditionalDensity(location=location).fit(X, scale * y + by)
        size = abs(scale)
        assert_allclose(b.bandwidth_, size * a.bandwidth_, rtol=1e-4)
        assert_allclose(b.loo_score_, a.loo_score_ / size, rtol=1e-4)
        levels = np.array([0.1, 0.4, 0.9])
        expected = scale * a.predict_quantile(NEW, levels if scale > 0 else 1 - levels) + by
        assert_allclose(b.predict_quantile(NEW, levels), expected, atol=1e-3 * size, rtol=1e-12)
        p = a.pdf(self.T, NEW, paired=False)
        got = b.pdf(scale * self.T + by, NEW, paired=False)
        assert_allclose(got * size, p, atol=1e-3 * p.max())

    @pytest.mark.slow
    @pytest.mark.parametrize("scale", [100.0, 1e-7])
    def test_rescaled_and_shifted_x(self, scale):
        X, y = wave(d=2)
        a = km.ConditionalDensity(location=False).fit(X, y)
        b = km.ConditionalDensity(location=False).fit(scale * X + 3 * scale, y)
        assert_allclose(b.bandwidth_, a.bandwidth_, rtol=1e-3)
        p = a.pdf(y, X)
        assert_allclose(b.pdf(y, scale * X + 3 * scale), p, atol=1e-2 * p.max())

    @pytest.mark.slow
    @pytest.mark.parametrize("location", [False, True])
    def test_permuted_columns_of_x(self, location):
        X, y = wave(d=3)
        a = km.ConditionalDensity(location=location).fit(X, y)
        b = km.ConditionalDensity(location=location).fit(X[:, ::-1], y)
        p = a.pdf(y, X)
        assert_allclose(b.pdf(y, X[:, ::-1]), p, atol=1e-2 * p.max())
        assert_allclose(b.loo_score_, a.loo_score_, rtol=1e-3)

    def test_permuted_columns_of_y(self):
        X, Y = plane()
        a, b = (
            fitted_plane(False),
            km.ConditionalDensity(location=False, wide=0.0).fit(X, Y[:, ::-1]),
        )
        assert_allclose(b.bandwidth_, a.bandwidth_[::-1], rtol=1e-3)
        p = a.pdf(Y, X)
        assert_allclose(b.pdf(Y[:, ::-1], X), p, atol=1e-2 * p.max())

    def test_permuted_rows_at_given_parameters(self):
        X, y = wave()
        order = np.random.default_rng(57).permutation(len(y))
        a = km.ConditionalDensity(**GIVEN).fit(X, y)
        b = km.ConditionalDensity(**GIVEN).fit(X[order], y[order])
        assert_allclose(b.loo_score_, a.loo_score_, rtol=1e-5)
        assert_allclose(
            b.pdf(self.T, NEW, paired=False), a.pdf(self.T, NEW, paired=False), atol=1e-4
        )

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "d"), [(60, 1), (120, 2)])
    def test_permuted_rows(self, n, d):
        """Thinned rows, halves and landmarks are chosen from the rows in an order of their own."""
        X, y = wave(n, d=d)
        order = np.random.default_rng(57).permutation(n)
        a = km.ConditionalDensity().fit(X, y)
        b = km.ConditionalDensity().fit(X[order], y[order])
        for name in ("reg_", "bandwidth_", "scales_", "wide_", "loo_score_"):
            assert_allclose(getattr(b, name), getattr(a, name), rtol=1e-6)
        assert_allclose(b.pdf(y, X), a.pdf(y, X), rtol=1e-5)
        assert_allclose(b.weights(X[:3]), a.weights(X[:3])[:, order], atol=1e-8)
        assert_array_equal(b.points_x_, X[order])
        assert_allclose(b.features_.landmarks_, X[order][b.features_.indices_])


# ------------------------------------------------------------------------------- beside a line
@pytest.mark.slow
def test_what_is_gained_over_a_line_with_normal_errors():
    """By refits of the line without each row; and in words."""
    rng = np.random.default_rng(70)
    X = rng.normal(size=(80, 2))
    Y = X @ rng.normal(size=(2, 2)) + rng.normal(size=(80, 2))
    errors = []
    for i in range(80):
        rest = np.arange(80) != i
        line = np.linalg.lstsq(np.column_stack([np.ones(79), X[rest]]), Y[rest], rcond=None)[0]
        errors.append(Y[i] - np.append(1.0, X[i]) @ line)
    S = np.mean([np.outer(e, e) for e in errors], axis=0)
    expected = multivariate_normal(np.zeros(2), S).logpdf(errors)
    assert_allclose(rival.linear_normal(X, Y), expected)
    straight = km.ConditionalDensity(location=True).fit(X, Y[:, 0])
    assert "would do as well" in str(straight.summary())
    bent = km.ConditionalDensity().fit(*wave(150))
    assert "better: log densities of rows left out are higher by" in str(bent.summary())
    given = km.ConditionalDensity(**GIVEN).fit(*wave())
    assert "normal errors" not in str(given.summary())


def test_two_equal_columns_beside_a_row_that_is_far():
    """What is left of a row that decides the line is all there is: its moments have rank one."""
    X = np.repeat([0.0, 1000.0, 0.0, 1.0], [3, 1, 3, 5])[:, None]
    y = np.repeat([-1.6, 2.1], [7, 5])
    found = rival.linear_normal(X, np.column_stack([y, y]))
    assert np.isfinite(found).all()
    assert found[3] == found.min()


# ---------------------------------------------------------------------------------- hard data
def sound(model, X, y) -> None:
    """Finite, non-negative, monotone, of integral one by its own distribution function."""
    p = model.pdf(y, X)
    assert np.all(np.isfinite(p))
    assert np.all(p >= 0)
    q = model.predict_quantile(X[:20], [0.0, 0.05, 0.5, 0.95, 1.0])
    assert np.all(np.isfinite(q))
    assert np.all(np.diff(q, axis=1) >= 0)
    some = np.linspace(q[:, 0], q[:, -1], 9)
    for x, t in zip(X[:3, None], some.T[:3], strict=True):
        below = np.nextafter(t[0], -np.inf)  # at the lowest quantile there may be an atom
        F = model.cdf(np.append(below, t), x, paired=False)[0]
        assert np.all(np.diff(F) >= -1e-12)
        assert_allclose(F[[0, -1]], [0, 1], atol=1e-6)
    assert np.isfinite(model.loo_score_)
    assert np.all(np.isfinite(model.predict(X)))
    assert np.all(np.isfinite(model.mode(X[:5])))


class TestHardData:
    @pytest.mark.usefixtures("short_searches")
    @pytest.mark.parametrize("n", [5, 6, 10])
    @pytest.mark.parametrize("location", ["auto", False, True])
    def test_few_rows(self, n, location):
        X, y = wave(n, seed=58)
        sound(km.ConditionalDensity(location=location).fit(X, y), X, y)

    def test_four_rows(self):
        with pytest.raises(ValueError, match="found 4 sample"):
            km.ConditionalDensity().fit(*wave(4))

    def test_a_constant_column_of_x_tells_nothing(self):
        """An indicator is one in some folds of a cross-validation."""
        X, y = wave()
        beside = np.column_stack([X, np.ones(80)])
        for kernel in ("gaussian", km.Gaussian(1.0)):
            sound(km.ConditionalDensity(kernel).fit(beside, y), beside, y)
        plain, model = of_wave("auto"), km.ConditionalDensity().fit(beside, y)
        assert abs(plain.score(X, y) - model.score(beside, y)) < 0.05

    @pytest.mark.usefixtures("short_searches")
    def test_copies_count_once(self):
        """Rows left out say nothing where their copies stay: λ would be the least there is."""
        X, y = wave(40)
        once = km.ConditionalDensity().fit(X, y)
        with pytest.warns(km.NumericalWarning, match="40 of 80 rows are copies"):
            twice = km.ConditionalDensity().fit(np.tile(X, (2, 1)), np.tile(y, 2))
        assert_allclose(twice.pdf(y, X), once.pdf(y, X), rtol=1e-10)

    def test_a_constant_y(self):
        X, y = wave()
        with pytest.raises(ValueError, match=r"constant.*bandwidth"):
            km.ConditionalDensity().fit(X, np.ones(80))
        with pytest.raises(ValueError, match=r"y: columns \[1\] are constant"):
            km.ConditionalDensity().fit(X, np.c_[y, np.ones(80)])
        model = km.ConditionalDensity(bandwidth=0.5, wide=0.0).fit(X, np.ones(80))
        p = model.pdf([1.0, 1.5], [[0.0]], paired=False)[0]
        assert_allclose(p, norm.pdf([0, 0.5], scale=0.5), rtol=1e-6)

    @pytest.mark.slow
    @pytest.mark.parametrize("decimals", [0, 1])
    def test_rounded_y(self, decimals):
        """As wide as it was before the rounding, nearly, and not a spike at each value."""
        X, y = wave(200)
        y = 3 * y
        smooth = of_wider_wave()
        model = km.ConditionalDensity(location=False).fit(X, np.round(y, decimals))
        sound(model, X, y)
        assert 0.5 < model.bandwidth_[0] / smooth.bandwidth_[0] < 2
        assert abs(model.score(X, y) - smooth.score(X, y)) < 0.1

    def test_rounded_y_around_a_location(self):
        X, y = wave(200)
        model = km.ConditionalDensity(location=True).fit(X, np.round(y, 1))
        smooth = km.ConditionalDensity(location=True).fit(X, y)
        assert 0.5 < model.bandwidth_[0] / smooth.bandwidth_[0] < 2

    def test_y_of_two_values(self):
        X, y = wave(200)
        X_new, y_new = wave(200, seed=59)
        model = km.ConditionalDensity().fit(X, (y > 0).astype(int))
        sound(model, X, (y > 0).astype(float))
        likely = model.cdf(np.full(200, 0.5), X_new) < 0.5
        assert np.mean(likely == (y_new > 0)) > 0.85

    def test_integer_y(self):
        X, y = wave()
        whole = np.round(100 * y).astype(int)
        a = km.ConditionalDensity(bandwidth=20.0, reg=0.01).fit(X, whole)
        b = km.ConditionalDensity(bandwidth=20.0, reg=0.01).fit(X, whole.astype(float))
        assert_array_equal(a.pdf(whole, X), b.pdf(whole.astype(float), X))

    def test_heavy_tails(self):
        X, y = wave(200)
        y = y + np.random.default_rng(60).standard_cauchy(200)
        model = km.ConditionalDensity().fit(X, y)
        sound(model, X, y)
        assert 0.1 < model.bandwidth_[0] < 2
        assert np.all(np.abs(model.predict_quantile(NEW, 0.5)) < 2)

    @pytest.mark.slow
    def test_heavy_tails_of_x(self):
        X = np.random.default_rng(61).standard_cauchy((200, 1))
        y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(62).normal(size=200)
        sound(km.ConditionalDensity().fit(X, y), X, y)

    def test_an_outlier_of_y(self):
        X, y = wave(150)
        y[7] = 1e6
        model = km.ConditionalDensity().fit(X, y)
        sound(model, X, y)
        assert model.bandwidth_[0] < 1
        assert np.all(np.abs(model.predict_quantile(NEW, 0.5) - np.sin(2 * NEW[:, 0])) < 0.6)

    @pytest.mark.slow
    def test_an_outlier_of_x(self):
        X, y = wave(150)
        X[7] = 1e6
        model = km.ConditionalDensity().fit(X, y)
        sound(model, X, y)
        assert np.all(np.abs(model.predict_quantile(NEW, 0.5) - np.sin(2 * NEW[:, 0])) < 0.6)

    @pytest.mark.slow
    def test_far_from_the_origin(self):
        X, y = wave(100)
        a = km.ConditionalDensity().fit(X, y)
        for far, rtol in ((1e5, 1e-4), (1e6, 5e-2)):  # where digits are lost the search may turn
            b = km.ConditionalDensity().fit(X + far, y + far)
            assert_allclose(b.bandwidth_, a.bandwidth_, rtol=rtol)
            assert_allclose(b.score(X + far, y + far), a.score(X, y), atol=1e-2)

    @pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
    def test_two_columns_that_matter_of_twenty_with_five_rows_a_column(self):
        rng = np.random.default_rng(3)
        X = rng.normal(size=(600, 20))
        m = X[:, 0] * X[:, 1]
        y = m + 0.3 * rng.normal(size=600)
        model = km.ConditionalDensity().fit(X[:100], y[:100])
        off = model.predict(X[100:]) - m[100:]
        assert np.mean(off**2) < 0.3  # of a variance of 1; all columns in step leave .9

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
    def test_fifty_columns(self):
        X, y = wave(150, d=50)
        model = km.ConditionalDensity().fit(X, y)
        sound(model, X, y)
        X_new, y_new = wave(300, seed=63, d=50)
        marginal = km.EmbeddedDensity().fit(y[:, None])
        assert model.score(X_new, y_new) > marginal.score(y_new[:, None]) / 300 - 0.1

    @pytest.mark.slow
    def test_x_predicts_y_perfectly(self):
        X, _ = wave(100)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", km.NumericalWarning)
            model = km.ConditionalDensity().fit(X, np.exp(X[:, 0]))
            sound(model, X, np.exp(X[:, 0]))
        inside = np.array([[-0.5], [0.0], [0.5]])
        assert_allclose(model.predict_quantile(inside, 0.5), np.exp(inside[:, 0]), atol=0.05)

    @pytest.mark.slow
    def test_y_is_x(self):
        X, _ = wave(100)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", km.NumericalWarning)
            model = km.ConditionalDensity().fit(X, X[:, 0])
            assert_allclose(model.predict_quantile(NEW, 0.5), NEW[:, 0], atol=0.02)

    @pytest.mark.slow
    def test_y_does_not_depend_on_x(self):
        """Near the kernel density estimate of y, with every x, and near the truth."""
        rng = np.random.default_rng(64)
        X, y = rng.normal(size=(300, 2)), rng.normal(size=300)
        model = km.ConditionalDensity().fit(X, y)
        t = np.linspace(-3, 3, 61)
        p = model.pdf(t, X[:100], paired=False)
        off = np.trapezoid(np.abs(p - norm.pdf(t)), t, axis=1)
        marginal = km.EmbeddedDensity().fit(y[:, None]).pdf(t[:, None])
        between = np.trapezoid(np.abs(p - marginal), t, axis=1)
        assert off.mean() < 0.3
        assert between.mean() < 0.25

    @pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
    @pytest.mark.parametrize("far", [1e2, 1e4, -1e6])
    @pytest.mark.parametrize("location", [False, True])
    def test_far_from_the_data(self, far, location):
        """The law at the nearest row; around a location, moved along a line."""
        X, y = wave()
        model = of_wave(location)
        nearest = X[[np.abs(X[:, 0] - far).argmin()]]
        assert_array_equal(model.weights([[far]]), model.weights(nearest))
        q, near = (model.predict_quantile(x, [0.1, 0.5, 0.9])[0] for x in ([[far]], nearest))
        assert_allclose(np.diff(q), np.diff(near))
        assert np.all(np.abs(q) < 10 + np.abs(far))
        assert_allclose(model.cdf(q, [[far]], paired=False)[0], [0.1, 0.5, 0.9], atol=1e-6)

    @pytest.mark.parametrize("columns", [1, 2])
    def test_far_from_the_data_without_an_intercept(self, columns):
        """No weights are left: pairs and tables agree, nothing is NaN, no RuntimeWarning."""
        X, Y = plane()
        model = km.ConditionalDensity(km.Gaussian(0.5), 0.5, 0.01).fit(X, Y[:, :columns])
        far, at = [[1e4]], np.zeros((1, columns))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", km.NumericalWarning)
            table, pair = model.pdf(at, far, paired=False)[0], model.pdf(at, far)
            assert np.isfinite(table).all()
            assert_allclose(pair, table)
            assert not np.isnan(model.score_samples(far, at)).any()
            assert np.isfinite(model.predict(far)).all()
            assert np.isfinite(model.predict_quantile(far, 0.5)).all()

    def test_a_tuned_fit_without_warnings(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            km.ConditionalDensity().fit(*wave())


# -------------------------------------------------------------------------------- known truth
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
@pytest.mark.parametrize("name", ["bimodal", "beta", "linear"])
def test_known_densities(name):
    """The mean over x of ∫ |p - truth| dy beside another estimator; intervals cover."""
    more, off, covered = {"d": 2} if name == "linear" else {}, [], []
    for seed in (65, 66, 67):
        data = km.datasets.make_conditional_density(name, 300, random_state=seed, **more)
        fresh = km.datasets.make_conditional_density(name, 300, random_state=seed + 10, **more)
        models = km.ConditionalDensity(), km.comparators.KCDE()
        low, high = data.Y.min(), data.Y.max()
        t = np.linspace(low - 0.2 * (high - low), high + 0.2 * (high - low), 401)
        X = fresh.X[:60]
        truth = np.array([fresh.density(t, x[None]).ravel() for x in X])
        off.append([
            np.trapezoid(
                np.abs(model.fit(data.X, data.Y).pdf(t, X, paired=False) - truth), t, axis=1
            ).mean()
            for model in models
        ])  # fmt: skip
        low, high = models[0].predict_interval(fresh.X, 0.8)
        covered.append(np.mean((low < fresh.Y) & (fresh.Y < high)))  # noqa: SIM300
    ours, theirs = np.mean(off, axis=0)
    assert ours < 1.1 * theirs
    assert abs(np.mean(covered) - 0.8) < 0.06  # wider by the bandwidth


@pytest.mark.slow
def test_deviations_that_depend_on_x():
    rng = np.random.default_rng(67)
    X = rng.uniform(0, 1, size=(800, 1))
    y = (0.1 + X[:, 0]) * rng.normal(size=800)
    model = km.ConditionalDensity().fit(X, y)
    low, high = model.predict_interval([[0.1], [0.9]], 0.8)
    assert_allclose(high - low, 2 * norm.ppf(0.9) * np.array([0.2, 1.0]), rtol=0.35)
    assert math.isclose(model.score(X, y), np.mean(model.score_samples(X, y)))


@cache
def means_in_units(of_first: float, of_y: float) -> np.ndarray:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.normal(size=60)
    X = X * [of_first, 1.0]
    return km.ConditionalDensity().fit(X, y * of_y).predict(X)


def test_row_numbers_have_no_line():
    x = np.random.default_rng(0).normal(size=40)
    kernel = km.Precomputed(km.Gaussian(1.0)(x))
    model = km.ConditionalDensity(kernel, location=True).fit(
        np.arange(40)[:, None], np.arange(40.0) + x
    )
    assert (model.location_.line.factor == 0).all()


@pytest.mark.parametrize("others", [0, 1])
def test_a_day_later_the_hour_is_the_same(others):
    """Neither means nor widths go along a line there, also beside a column that is no angle."""
    rng = np.random.default_rng(1)
    hour, n = rng.uniform(0, 24, 150), 150
    turn = 2 * np.pi * hour / 24
    y = np.cos(turn - 0.8) + np.exp(np.cos(turn) - 1.5) * rng.normal(size=n)
    X = np.column_stack([rng.normal(size=(n, others)), hour])
    around = km.Periodic(period=24)
    model = km.ConditionalDensity(
        km.on_columns({0: km.Gaussian(), 1: around}) if others else around
    )
    assert model.fit(X, y).location_.size is not None
    day = np.zeros((3, 1 + others))
    day[:, -1] = 0.0, 6.0, 23.9
    for days in (-24.0, 24.0, 48.0):
        later = day + np.eye(1 + others)[-1] * days
        assert_allclose(model.predict(later), model.predict(day), rtol=1e-6)
        assert_allclose(model.at(later).std(), model.at(day).std(), rtol=1e-6)


@pytest.mark.slow
def test_columns_far_from_zero_do_not_turn_the_search():
    """Of times in seconds lengthscales were sought by slopes of which rounding was most."""
    rng = np.random.default_rng(11)
    far = rng.normal(size=(120, 2)) + 1e8
    near = far - 1e8
    y = np.sin(2 * near[:, 0]) + 0.3 * near[:, 1] + 0.3 * rng.normal(size=120)
    here, there = (km.ConditionalDensity(location=False).fit(X, y) for X in (near, far))
    assert_allclose(there.scales_, here.scales_, rtol=1e-6)
    assert_allclose(there.predict(far[:9]), here.predict(near[:9]), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("units", [(1000.0, 1.0), (1.0, 1000.0), (1 / 3, 7.0)])
def test_units_do_not_turn_the_search(units):
    """Few rows, where λ of the location would otherwise be as small as rounding errors allow."""
    other = means_in_units(*units)
    assert_allclose(other / units[1], means_in_units(1.0, 1.0), atol=1e-7)

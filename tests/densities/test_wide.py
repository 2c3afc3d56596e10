"""A share of a wide law: log densities that are finite by construction."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.stats import kstest, laplace

import kernelmean as km
from kernelmean.embedding.move import Wide

EVEN = {"bandwidth": 0.1, "reg": 1e-3, "intercept": True, "kernel_x": km.Gaussian(0.3)}


def heavy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One row in twenty is far from the curve."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 1))
    far = rng.random(n) < 0.05
    return x, np.sin(3 * x[:, 0]) + np.where(far, 3.0, 0.1) * rng.standard_normal(n)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
def test_the_share_that_rows_left_out_ask_for():
    """Beside refits without each row; the integral of the positive part is not refitted."""
    X, y = heavy(60, 1)
    model = km.ConditionalDensity(**{**EVEN, "reg": None, "location": False, "wide": "auto"})
    model.fit(X, y)
    p = []
    for i in range(60):
        rest = np.arange(60) != i
        reg = model.reg_ * 60 / 59
        part = km.ConditionalDensity(**{**EVEN, "reg": reg}, wide=0.0).fit(X[rest], y[rest])
        p.append(part.pdf(y[[i]], X[[i]])[0])
    g = laplace.pdf(y, np.median(y), 1.5 * np.abs(y - np.median(y)).mean())
    loss = lambda a: -np.log((1 - a) * np.array(p) + a * g).mean()  # noqa: E731
    best = minimize_scalar(loss, bounds=(1 / 60, 0.5), method="bounded").x
    assert_allclose(model.wide_, best, rtol=0.1)


def test_better_in_new_rows_than_without():
    X, y = heavy(200, 2)
    X_new, y_new = heavy(400, 3)
    X_new = X_new.clip(X.min(), X.max())
    found = km.ConditionalDensity(km.Gaussian(0.3), location=False).fit(X, y)
    bare = km.ConditionalDensity(km.Gaussian(0.3), location=False, wide=0.0).fit(X, y)
    assert np.isfinite(found.score_samples(X_new, y_new)).all()
    assert found.score(X_new, y_new) > bare.score(X_new, y_new) + 0.15
    assert 0.01 < found.wide_ < 0.2
    assert bare.wide_ == 0.0


def test_at_least_a_row_and_at_most_a_half():
    points = np.random.default_rng(0).standard_normal((50, 1))
    wide = Wide.of(points)
    g = np.exp(wide.log_density(points))
    assert_allclose(wide.chosen(100 * g, points).share, 1 / 50, rtol=2e-3)
    assert_allclose(wide.chosen(np.zeros(50), points).share, 0.5, rtol=2e-3)
    assert wide.chosen(np.ones(1), points[:1]).share > 0


@pytest.mark.parametrize("columns", [1, 2])
def test_the_law_itself(columns):
    rng = np.random.default_rng(4)
    points = rng.exponential(size=(99, columns)) * [1.0, 5.0][:columns]
    wide = Wide.of(points, 0.25)
    middle = np.median(points, axis=0)
    scale = 1.5 * np.abs(points - middle).mean(axis=0)
    Y = rng.standard_normal((7, columns))
    g = laplace.pdf(Y, middle, scale).prod(axis=1)
    assert_allclose(np.exp(wide.log_density(Y)), g)
    assert_allclose(wide.mixed(np.full(7, 2.0), Y), 1.5 + 0.25 * g)
    assert_allclose(wide.log_mixed(np.zeros(7), Y), np.log(0.25 * g))
    one = wide.on(columns - 1)
    law = laplace(middle[-1], scale[-1])
    assert_allclose(one.distribution(Y[:, 0]), law.cdf(Y[:, 0]))
    assert law.cdf(one.nodes()[[0, -1]]) == pytest.approx([0.0, 1.0], abs=1e-8)
    draws = wide.replace_some(np.full((4000, columns), 1e3), rng)
    own = draws[draws[:, 0] != 1e3]
    assert abs(len(own) / 4000 - 0.25) < 0.03
    assert kstest(own[:, -1], law.cdf).pvalue > 1e-3


def test_two_columns():
    """(1 − a) of the density without it and a of the product of Laplace laws, moved along."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (80, 1))
    Y = np.column_stack([X[:, 0], -X[:, 0]]) + 0.3 * rng.standard_normal((80, 2))
    given = {**EVEN, "location": True}
    bare, found = (km.ConditionalDensity(**given, wide=a).fit(X, Y) for a in (0.0, 0.3))
    e = found.points_
    middle, scale = np.median(e, axis=0), 1.5 * np.abs(e - np.median(e, axis=0)).mean(axis=0)
    g = laplace.pdf(Y - found.location_(X), middle, scale).prod(axis=1)
    assert_allclose(found.pdf(Y, X), 0.7 * bare.pdf(Y, X) + 0.3 * g)
    table = found.at(X).density(Y)
    assert_allclose(np.diag(table), found.pdf(Y, X))
    assert_allclose(found.at(X).log_density(Y), np.log(table))
    draws = found.sample(X[:1], 4000, random_state=0)[0]
    F = lambda t: found.cdf(np.column_stack([t, t]), X[:1], paired=False)[0, :, 0]  # noqa: E731
    assert kstest(draws[:, 0], F).statistic < 0.03


@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
def test_moments_of_one_law_are_those_of_the_batch():
    """Where weights of both signs leave no variance, too: without the wide law."""
    X, y = heavy(30, 7)
    model = km.ConditionalDensity(km.Gaussian(0.1), 0.2, 1e-6, wide=0.4, location=False).fit(X, y)
    X_new = np.linspace(-1.5, 1.5, 60)[:, None]
    laws = model.at(X_new)
    assert (np.einsum("bi,i->b", laws.weights, y**2) < laws.mean()[:, 0] ** 2).any()
    assert_allclose([laws[b].std() for b in range(60)], laws.std())
    assert_allclose([laws[b].cov() for b in range(60)], laws.cov())


@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
def test_columns_that_go_together_have_no_variance_of_rounding():
    """Which of them has a little left was up to the batch: 1e-8 or what quantiles say."""
    X, y = heavy(30, 7)
    X_new, Y, std = np.linspace(-1.5, 1.5, 60)[:, None], np.column_stack([y, 0.883 * y]), []
    for own, bandwidth in ((y, 0.2), (Y, [0.2, 0.883 * 0.2])):
        model = km.ConditionalDensity(km.Gaussian(0.1), bandwidth, 1e-6, location=False)
        std.append(model.fit(X, own).at(X_new).std())
    assert_allclose(std[1], std[0] * [1.0, 0.883], rtol=1e-5)


def test_saved_and_loaded(tmp_path):
    X, y = heavy(80, 6)
    found = km.ConditionalDensity(km.Gaussian(0.3), location=False).fit(X, y)
    found.save(tmp_path / "model.km")
    again = km.load(tmp_path / "model.km")
    assert again.wide_ == found.wide_
    assert_array_equal(again.score_samples(X, y), found.score_samples(X, y))


@pytest.mark.parametrize("wide", [1.0, -0.1, "much"])
def test_refused(wide):
    with pytest.raises(ValueError, match="wide is"):
        km.ConditionalDensity(wide=wide).fit(*heavy(30, 7))

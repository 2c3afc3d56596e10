"""Away from its data a law goes over, continuously, to something that cannot explode."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km


def cubic(n: int = 60, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """A curve whose continuation as learned leaves every bound, with a gap in the middle."""
    rng = np.random.default_rng(seed)
    x = np.sort(np.concatenate([rng.uniform(-2, -1, n // 2), rng.uniform(1, 2, n - n // 2)]))
    return x[:, None], x**3 - x + 0.2 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def model() -> km.ConditionalDensity:
    return km.ConditionalDensity(location=True).fit(*cubic())


def quietly(ask, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", km.NumericalWarning)
        return ask(*arguments)


def test_a_line_outside(model):
    """By the slope of the least-squares line through the fitted values."""
    X, _ = cubic()
    slope, _ = np.polyfit(X[:, 0], model.location_(X)[:, 0], 1)
    low, high = X.min(), X.max()
    width = high - low
    steps = np.array([0.0, 0.01, 0.5, 1.0, 1.7, 1e6])
    for edge, side in ((high, 1.0), (low, -1.0)):
        at = (edge + side * steps * width)[:, None]
        expected = side * slope * steps * width
        means = quietly(model.predict, at)
        assert_allclose(means - means[0], expected, rtol=1e-9, atol=1e-9)
        spread = quietly(model.predict_interval, at).upper - means
        assert_allclose(spread, spread[0], rtol=1e-6)  # the law is that of the nearest point


def test_between_rows_within_their_range(model):
    """In the gap the distance from that line is one that some row has, and so is ‖w − 1/n‖."""
    X, _ = cubic()
    grid = np.linspace(X.min(), X.max(), 501)[:, None]
    line = np.polyfit(X[:, 0], model.location_(X)[:, 0], 1)
    off, at_rows = (model.location_(Z)[:, 0] - np.polyval(line, Z[:, 0]) for Z in (grid, X))
    assert off.max() <= at_rows.max() + 1e-9
    assert off.min() >= at_rows.min() - 1e-9
    rough = km.ConditionalDensity(km.Gaussian(3.0), 0.3, 1e-8, intercept=True).fit(*cubic())
    sizes, most = (((rough.weights(Z) - 1 / 60) ** 2).sum(axis=1) for Z in (grid, X))
    assert sizes.max() <= most.max() * (1 + 1e-6)
    assert_allclose(rough.weights(grid).sum(axis=1), 1.0)


def test_as_learned_at_the_rows(model):
    X, _ = cubic()
    assert_allclose(model.location_(X), model.location_._learned(X))


def test_continuous_at_the_edge_of_the_data():
    rng = np.random.default_rng(8)
    X = rng.uniform(-1, 1, (60, 2))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(60)
    kernel = km.Gaussian(1.0)
    found = km.ConditionalDensity(kernel, 0.1, 0.01, intercept=True, location=True).fit(X, y)
    edge = np.column_stack([np.full(20, X[:, 0].max()), np.linspace(-0.9, 0.9, 20)])
    levels = [0.1, 0.5, 0.9]
    inside, beyond = (
        found.predict_quantile(edge + np.array([by, 0.0]), levels) for by in (0.0, 1e-9)
    )
    assert_allclose(beyond, inside, atol=1e-6)


def test_flagged_and_warned_once(model):
    X, _ = cubic()
    at = np.array([[X.max() + 5.0], [X.max() + 1e-3], [1.5], [X.min() - 0.1]])
    with pytest.warns(km.NumericalWarning, match=r"1 row\(s\) outside.*row 0 first") as said:
        laws = model.at(at)
    assert len(said) == 1
    assert_array_equal(laws.extrapolated, [True, True, False, True])
    assert_array_equal(laws.to_frame()["extrapolated"], laws.extrapolated)
    assert laws[2].extrapolated == np.False_
    with pytest.warns(km.NumericalWarning):
        alone = model.at(at[:1])
    assert_array_equal(alone.extrapolated, [True])


def test_angles_categories_and_rows_of_a_gram_matrix_have_no_edge():
    low, high = np.zeros(2), np.ones(2)
    X = np.array([[3.0, -2.0], [0.5, 0.5]])
    clipped = np.array([[1.0, 0.0], [0.5, 0.5]])
    kernel = km.on_columns({0: km.Periodic(1.0), 1: km.Gaussian(1.0)})
    assert_array_equal(kernel.clipped(X, low, high), [[3.0, 0.0], [0.5, 0.5]])
    assert_array_equal((km.Gaussian(1.0) + km.Laplace(1.0)).clipped(X, low, high), clipped)
    for kernel in (km.Periodic(1.0), km.Delta(), km.Linear(), km.Precomputed(np.eye(4))):
        assert_array_equal(kernel.clipped(X, low, high), X)
    rng = np.random.default_rng(9)
    angle = rng.uniform(0, np.pi, (100, 1))
    y = np.cos(2 * angle[:, 0]) + 0.1 * rng.standard_normal(100)
    one = km.Periodic(0.5, period=np.pi)
    for kernel in (one, one + km.Periodic(0.5, period=np.pi / 2), one * one):
        found = km.ConditionalDensity(kernel, 0.2, 0.01).fit(angle, y)
        assert_allclose(found.predict(angle + 3 * np.pi), found.predict(angle), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 3, 7])
def test_engel(seed):
    """Splits with the two richest households in one half: the error was 965 deviations."""
    table = km.datasets.load_engel()
    X, y = table.frame[["income"]].to_numpy(), table.frame["foodexp"].to_numpy()
    order = np.random.default_rng(seed).permutation(len(y))
    learned, rest = order[:188], order[188:]
    found = km.ConditionalDensity().fit(X[learned], y[learned])
    errors = quietly(found.predict_quantile, X[rest], 0.5) - y[rest]
    assert np.abs(errors).max() < 5 * y[learned].std()


def test_laws_are_functions_too():
    """Σ_j w_j k(e_j + s, y), by hand, also where every law lies somewhere else."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, (60, 1))
    y = np.sin(x) + 0.3 * rng.normal(size=(60, 1))
    model = km.ConditionalDensity(reg=1e-2, bandwidth=0.3, location=True).fit(x, y)
    laws, new = model.at(x[:3]), np.linspace(-1, 1, 4)[:, None]
    points = laws.embedding.points
    for b, found in enumerate(laws(new)):
        off = new - points.T - laws.move.shift[b]
        assert_allclose(found, np.exp(-(off**2) / (2 * 0.3**2)) @ laws.weights[b], atol=1e-10)


@pytest.mark.slow
def test_wider_where_a_function_without_noise_is_not_known():
    """Beyond the data the mean is off by far more than residuals, which are next to nothing."""
    X = np.random.default_rng([97000, 40, 2]).standard_normal((840, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    model = km.ConditionalDensity().fit(X[:40], y[:40])
    outside = quietly(model.at, X[40:]).extrapolated
    found = quietly(model.score_samples, X[40:], y[40:])
    assert found[~outside].mean() > 4.0
    assert found[outside].mean() > -20.0  # -176 where laws are as wide as in the middle
    widths = quietly(model.location_.widths, X[40:])[:, 0]
    assert np.median(widths[outside]) > 3 * np.median(widths[~outside])

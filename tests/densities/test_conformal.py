"""Conformal levels: coverage by counting on data sets, and the same laws from real refits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import datasets

import kernelmean as km

LEVEL, M = 0.9, 60  # rows that calibrate


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Some columns of a data set, the last of them for y, in an order of their own."""
    if name == "friedman":
        X, y = datasets.make_friedman1(400, random_state=0)
    elif name == "heavy":
        rng = np.random.default_rng(1)
        X = rng.normal(size=(400, 2))
        y = X[:, 0] + np.exp(X[:, 1]) * rng.standard_t(2, 400)
    elif name in ("nonlinear2", "dirichlet", "mixture"):
        data = km.datasets.make_conditional_density(name, 400, random_state=2)
        X, y = data.X, data.Y[:, 0]
    else:
        whole = getattr(datasets, f"load_{name}")()
        X, y = whole.data, whole.target
        if name != "diabetes":
            X, y = X[:, 1:], X[:, 0]
    rng = np.random.default_rng(3)
    order = rng.permutation(len(y))
    return X[order, :3], y[order] + 1e-6 * rng.normal(size=len(y))  # without ties


def splits(n: int, first: int):
    """Rows that calibrate and rows that are new, of the same few, 25 times."""
    rng = np.random.default_rng(4)
    for _ in range(25):
        rows = rng.permutation(np.arange(first, min(n, first + 2 * M)))
        yield rows[:M], rows[M:]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
@pytest.mark.parametrize(
    "name",
    [
        *("diabetes", "wine", "breast_cancer", "iris"),
        *("friedman", "heavy", "nonlinear2", "mixture"),
    ],
)
def test_coverage_is_what_was_asked_for_with_a_wrong_model_too(name):
    """Over random splits of the same rows it is k/(m + 1), whatever the bandwidth."""
    X, y = table(name)
    first = len(y) // 3
    model = km.ConditionalDensity(bandwidth=3 * y.std(), reg=0.1, wide=0.1)
    model.fit(X[:first], y[:first])
    held = []
    for calibrate, new in splits(len(y), first):
        conformal = model.conformalize(X[calibrate], y[calibrate])
        lower, upper = conformal.predict_interval(X[new], LEVEL)
        inside = conformal.contains(X[new], y[new], LEVEL)
        held.append([((lower <= y[new]) & (y[new] <= upper)).mean(), inside.mean()])
    expected = math.ceil(LEVEL * (M + 1)) / (M + 1)
    held = np.array(held)
    error = held.std(axis=0) / 5
    assert np.all(np.abs(held.mean(axis=0) - expected) < 4 * error)
    assert np.all(error < 0.02)


@pytest.fixture(scope="module")
def waves():
    data = km.datasets.make_conditional_density("bimodal", 300, random_state=5)
    X, y = data.X, data.Y[:, 0]
    return km.ConditionalDensity().fit(X[:150], y[:150]), X[150:], y[150:]


@pytest.mark.slow
def test_regions_are_where_rows_are_held(waves):
    model, X, y = waves
    conformal = model.conformalize(X[:70], y[:70])
    inside = conformal.contains(X[70:], y[70:], 0.8)
    regions = conformal.predict_region(X[70:], 0.8)
    pairs = zip(regions, y[70:], strict=True)
    by_hand = [bool(((r[:, 0] <= v) & (v <= r[:, 1])).any()) for r, v in pairs]
    assert_array_equal(inside, by_hand)
    assert not inside.all()


def test_levels_are_those_that_just_hold_each_row(waves):
    model, X, y = waves
    conformal = model.conformalize(X[:1], y[:1])
    (a,), (r,) = conformal.intervals, conformal.regions
    ends = np.array(model.predict_interval(X[:1], a))[:, 0]
    assert np.abs(ends - y[0]).min() < 1e-6 * np.ptp(ends)
    (region,) = model.region(X[:1], r)
    assert np.abs(region - y[0]).min() < 1e-6 * np.ptp(region)


def test_the_level_of_a_region_is_the_mass_of_higher_densities(waves):
    model, X, y = waves
    mesh = np.linspace(-20, 20, 200_001)
    p = model.pdf(mesh, X[:3], paired=False)
    at = model.pdf(y[:3], X[:3])
    expected = (p * (p > at[:, None])).sum(axis=1) * (mesh[1] - mesh[0])
    assert_allclose(model.at(X[:3]).mass_above(y[:3]), expected, atol=2e-4)


def test_several_columns_are_held_by_a_box(waves):
    _, X, y = waves
    rng = np.random.default_rng(6)
    Y = np.column_stack([y, y * rng.normal(size=150)])
    model = km.ConditionalDensity(bandwidth=0.5, reg=0.1, wide=0.1).fit(X[:50], Y[:50])
    conformal = model.conformalize(X[50:100], Y[50:100])
    lower, upper = conformal.predict_interval(X[50:100], 0.8)
    assert lower.shape == (50, 2)
    inside = ((lower <= Y[50:100] + 1e-9) & (Y[50:100] - 1e-9 <= upper)).all(axis=1)
    assert inside.sum() == math.ceil(0.8 * 51)
    assert conformal.contains(X[50:100], Y[50:100], 0.8).sum() == math.ceil(0.8 * 51)
    with pytest.raises(ValueError, match="one column"):
        conformal.predict_region(X, 0.8)


@pytest.mark.parametrize("location", [False, True])
def test_rows_left_out_are_not_seen(location):
    """By refits without each row, all that is chosen being given; a location's residuals stay."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(25, 1))
    y = X[:, 0] + 0.3 * rng.normal(size=25)
    model = km.ConditionalDensity(
        km.Gaussian(0.8), 0.3, 0.02, km.Exact(), location=location, wide=0.0
    ).fit(X, y)
    conformal = model.conformalize()
    F = []
    for i in range(25):
        rest = np.delete(np.arange(25), i)
        K = np.exp(-0.5 * (X - X.T) ** 2 / 0.8**2)
        w = np.linalg.solve(K[np.ix_(rest, rest)] + 25 * 0.02 * np.eye(24), K[rest, i])
        points = model.points_[:, 0]
        law = km.MeanEmbedding(points[rest, None], w, km.Gaussian(0.3))
        mesh = np.linspace(-8, 8, 32_001)
        p = np.maximum(law.density(mesh[:, None], 0.3, signed=True), 0.0)
        F.append(p[mesh <= points[i]].sum() / p.sum())
    expected = np.sort(np.abs(2 * np.array(F) - 1))
    assert_allclose(conformal.intervals, expected, atol=2e-3)
    assert not conformal.split


def test_too_few_rows_hold_everything_and_say_so(waves, tmp_path):
    model, X, y = waves
    conformal = model.conformalize(X[:9], y[:9])
    assert np.isfinite(conformal.predict_interval(X, 0.9)).all()
    with pytest.warns(km.NumericalWarning, match="at least 19"):
        lower, upper = conformal.predict_interval(X[:2], 0.95)
    assert_array_equal(lower, -np.inf)
    assert_array_equal(upper, np.inf)
    with pytest.warns(km.NumericalWarning):
        assert_array_equal(conformal.predict_region(X[:1], 0.95)[0], [[-np.inf, np.inf]])
    conformal.save(tmp_path / "c.km")
    again = km.load(tmp_path / "c.km")
    assert_array_equal(again.predict_interval(X, 0.8), conformal.predict_interval(X, 0.8))


def test_rows_like_the_one_at_the_limit_are_held():
    """Few values of x and y: which rows of a batch are asked about decides nothing."""
    rng = np.random.default_rng(8)
    X = rng.integers(0, 3, (160, 1)).astype(float)
    y = rng.poisson(1.0 + X[:, 0]).astype(float)
    model = km.ConditionalDensity(bandwidth=0.5, reg=0.1, wide=0.1).fit(X[:60], y[:60])
    X, y = X[60:], y[60:]
    conformal = model.conformalize(X, y)
    for level in (0.7, 0.9):
        lower, upper = conformal.predict_interval(X, level)
        assert ((lower <= y) & (y <= upper)).sum() >= math.ceil(101 * level)
        assert conformal.contains(X, y, level).sum() >= math.ceil(101 * level)


def test_pairs_must_be_pairs(waves):
    model, X, y = waves
    with pytest.raises(ValueError, match="paired|rows"):
        model.conformalize(X[:4], y[:5])

"""Quantiles of mixtures of states' laws are those of the densities that filter, guards included."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import cumulative_simpson, cumulative_trapezoid, simpson
from scipy.interpolate import CubicSpline
from scipy.stats import norm

import kernelmean as km
from kernelmean.chains.emission import Shrunken
from kernelmean.chains.mixtures import gathered
from kernelmean.chains.rows import rows_like
from kernelmean.statespace.guard import LinearGuard

LEVELS = np.array([0.05, 0.25, 0.5, 0.9])


def regimes(n: int, d: int, degrees: float | None = None, seed: int = 0) -> np.ndarray:
    """Two states, each left with probability .1, and normal laws, or of t."""
    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.random(n) < 0.1) % 2
    noise = rng.normal(size=(n, d)) if degrees is None else rng.standard_t(degrees, size=(n, d))
    return np.array([0.0, 3.0])[states, None] * [1.0, -0.5][:d] + noise @ np.triu(np.ones((d, d)))


def hidden(n: int, d: int, seed: int = 0) -> np.ndarray:
    """A state that goes on at .9, seen with noise in d columns."""
    rng = np.random.default_rng(seed)
    x = np.zeros(n)
    for t in range(1, n):
        x[t] = 0.9 * x[t - 1] + 0.4 * rng.normal()
    return x[:, None] * [1.0, -1.0][:d] + 0.5 * rng.normal(size=(n, d))


MODELS = {
    "regimes": lambda: km.KernelHMM(2, random_state=0).fit(regimes(400, 1)),
    "regimes, two columns": lambda: km.KernelHMM(2, random_state=0).fit(regimes(400, 2)),
    "regimes, laws of t": lambda: km.KernelHMM(2, random_state=0).fit(regimes(400, 2, 3.0, 1)),
    "states, two columns": lambda: km.KernelStateSpace(backbone=None).fit(hidden(300, 2)),
}


@cache
def model(name: str):
    return MODELS[name]()


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_quantiles_are_those_of_the_densities_that_filter(name):
    """Of every column: ∫ Σ_k P(x = k) f_k over what is below it, and over the other column."""
    m = model(name)
    ahead, d = m.forecast(m.emissions_.points[:50], 3), m.n_features_in_
    guard = m.chain_.laws.guard
    assert guard.large
    assert guard.share.min() > 0.3
    assert (guard.degrees is not None) == ("of t" in name)
    p, points = np.asarray(ahead.states), m.emissions_.points
    at, dt = np.linspace(-6.5, 6.5, 1001 if d == 1 else 151, retstep=True)
    units = 0.5 * points.std(axis=0)
    grids = [c + s * np.sinh(at) for c, s in zip(points.mean(axis=0), units, strict=True)]
    slopes = [s * np.cosh(at) * dt for s in units]  # far, and dense in the middle
    mesh = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1)
    f = np.exp(m.chain_.log_densities(mesh.reshape(-1, d))) @ p.T
    f = np.moveaxis(f.reshape(*mesh.shape[:-1], len(p)), -1, 0)
    found = ahead.quantile(LEVELS)
    for j, grid in enumerate(grids):
        own = f if d == 1 else np.tensordot(f, slopes[1 - j], axes=(2 - j, 0))
        F = cumulative_simpson(own * slopes[j], axis=1, initial=0.0)
        assert_allclose(F[:, -1], 1.0, atol=5e-3)
        for row, below in zip(found[:, :, j], F, strict=True):
            assert_allclose(CubicSpline(grid, below)(row), LEVELS, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["regimes, two columns", "states, two columns"])
def test_beliefs_have_the_quantiles_of_predictions(name):
    m, X = model(name), model(name).emissions_.points[:20]
    belief = m.start()
    for x in X:
        belief.update(x).predict()
    ahead = m.forecast(X, 1)
    assert_allclose(belief.quantile(LEVELS), ahead.quantile(LEVELS)[0], rtol=1e-6)
    assert_allclose(belief.interval(0.9), [end[0] for end in ahead.interval(0.9)], rtol=1e-6)
    assert_allclose(ahead[0].quantile(0.3), ahead.quantile(0.3)[0])


@pytest.mark.slow
def test_intervals_of_several_columns_are_not_too_wide():
    """Rows of normal states were in 54% of the halves: their share was smoothed as kernels are."""
    m, new = model("regimes, two columns"), regimes(4000, 2, seed=5)
    law = km.chains.results.RegimeForecast(m.chain_, m.chain_.predicted(rows_like(m, new)))
    for level in (0.5, 0.9):
        lower, upper = law.interval(level)
        assert ((lower <= new) & (new <= upper)).mean() == pytest.approx(level, abs=0.02)


@pytest.mark.parametrize("degrees", [None, 4.0])
@pytest.mark.parametrize("d", [1, 2])
def test_guards_along_a_column_are_marginals_of_the_joint_law(degrees, d):
    rng = np.random.default_rng(3)
    points, weights = rng.normal(size=(200, d)) @ np.triu(np.ones((d, d))), rng.random((200, 3))
    guard = Shrunken(0.5, degrees)(points, weights, points.var(axis=0), False)
    y, grid = np.array([-2.0, 0.1, 1.5]), np.linspace(-60.0, 0.1, 6011)
    for j in range(d):
        F, f = guard.along(j, y, 0.0)
        assert_allclose(np.exp(guard.marginal([j]).log_density(y[:, None])).T, f, rtol=1e-8)
        below = simpson(guard.along(j, grid, 0.0)[1], x=grid, axis=1)
        assert_allclose(F[:, 1], below, rtol=0, atol=1e-4)
    nodes = guard.nodes(0, 0.0).reshape(3, -1)
    assert_allclose(guard.along(0, nodes[1, [0, -1]], 0.0)[0][1], [0, 1], atol=1e-7)


@pytest.mark.parametrize("extra", [0.0, 0.05, 9.0])
def test_a_guard_of_residuals_is_its_density_and_takes_variance_in(extra):
    """Against its own log density, and against what is drawn from it with normal noise."""
    rng = np.random.default_rng(4)
    nodes = np.linspace(-2, 2, 5)[:, None]
    points = rng.exponential(size=(500, 1)) + rng.choice(nodes[:, 0], 500)[:, None]
    weights = norm.pdf(points, nodes[:, 0] + 1, 1.0)
    guard = LinearGuard(nodes, 20.0)(points, weights, points.var(axis=0), False)
    y = np.linspace(-30, 30, 20_001)
    own = np.exp(guard.log_density(y[:, None])).T
    F, f = guard.along(0, y, extra)
    if extra == 0:
        assert_allclose(f, own, atol=0.01 * own.max())
    assert_allclose(cumulative_trapezoid(f, y, axis=1, initial=0.0), F, atol=1e-3)
    below = cumulative_trapezoid(own, y, axis=1, initial=0.0)
    for k in range(5):
        drawn = np.interp(rng.random(40_000), below[k], y) + extra**0.5 * rng.normal(size=40_000)
        some = np.quantile(drawn, LEVELS)
        assert_allclose(np.interp(some, y, F[k]), LEVELS, atol=0.01)


@pytest.mark.slow
def test_a_constant_column_beside_others_is_smoothed_alone():
    """Its guard has no width that a grid could have."""
    X = np.hstack([hidden(200, 1), np.full((200, 1), 3.7)])
    m = km.KernelStateSpace(backbone=None, em=km.EM(n_init=1, directions=0)).fit(X)
    lower, upper = m.forecast(X, 2).interval(0.9)
    assert_allclose((lower + upper)[:, 1] / 2, 3.7, atol=0.01)
    assert ((upper - lower)[:, 1] < 4 * np.max(m.bandwidth_)).all()
    assert ((upper - lower)[:, 0] > 0.5).all()


def test_neighbours_that_are_taken_together_keep_their_weight():
    rng = np.random.default_rng(5)
    laws = km.MeanEmbedding(rng.normal(size=(300, 2)), rng.random((2, 300)), km.Gaussian(0.5))
    few = gathered(laws, 1, 0.5, 100)
    assert few.points.shape[0] < 200
    assert_allclose(few.total(), laws.total())
    assert_allclose(few.mean(), laws.marginal([1]).mean(), atol=0.02)
    assert gathered(laws, 1, 0.5, np.inf).points.shape == (300, 1)

"""A share of a wide law in laws by weighted pairs: every answer with a bandwidth is of the mixture.

Against the density without the share, Laplace laws of SciPy, and dense sums.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

import kernelmean as km
from kernelmean.embedding.adjusted import Adjusted
from kernelmean.embedding.move import Wide
from kernelmean.regression.width import SHARE


def pairs(d: int, n: int = 120, bent: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(17)
    Z = rng.gamma(2.0, size=(n, d))
    X = np.abs(Z - 2) if bent else Z
    return X + 0.2 * rng.normal(size=(n, d)), Z


LAWS = {
    "conditional": lambda X, Z: km.ConditionalEmbedding().fit(X, Z).at(X[:3]),
    "importance": lambda X, Z: km.KernelBayes().fit(X, Z).posterior(X[:3]),
    "squared": lambda X, Z: km.KernelBayes("squared").fit(X, Z).posterior(X[:3]),
}


@pytest.fixture(scope="module", params=[(name, d) for name in LAWS for d in (1, 2)], ids=str)
def laws(request):
    name, d = request.param
    return LAWS[name](*pairs(d, bent=name == "importance"))


def bare(laws: km.MeanEmbedding) -> km.MeanEmbedding:
    """The same laws without the share."""
    plain = laws.altered(_wide=None)
    if isinstance(laws, Adjusted):
        plain = plain.altered(_residuals=laws._residuals.altered(_wide=None))
    return plain


def share_of(laws: km.MeanEmbedding) -> stats.rv_continuous:
    """A Laplace law for each column of each law (m, 1, d), around the points it is of."""
    adjusted = isinstance(laws, Adjusted)
    wide = (laws._residuals if adjusted else laws)._wide
    moves = laws._moves if adjusted else np.zeros((len(laws), len(wide.centre)))
    return stats.laplace((wide.centre + moves)[:, None, :], wide.scale)


def rows(laws: km.MeanEmbedding) -> np.ndarray:
    return np.random.default_rng(3).normal(2.0, 3.0, size=(40, laws.points.shape[1]))


def test_densities_are_of_the_mixture(laws):
    Y = rows(laws)
    mixed = 0.99 * bare(laws).density(Y) + 0.01 * share_of(laws).pdf(Y).prod(axis=-1)
    assert_allclose(laws.density(Y), mixed)
    assert_allclose(laws.log_density(Y), np.log(mixed))
    assert (bare(laws).density(Y) == 0).any()
    assert_allclose(laws[1].density(Y), mixed[1], rtol=1e-3, atol=1e-6)  # masses are by draws
    column = laws.marginal(0)
    mixed = 0.99 * bare(column).density(Y[:, 0]) + 0.01 * share_of(column).pdf(Y[:, :1])[..., 0]
    assert_allclose(column.density(Y[:, 0]), mixed)


def test_log_densities_are_finite_wherever_floats_are(laws):
    unit = laws.points.std(axis=0)
    for far in (50.0, 1e4, 1e12):
        for end in (-far, far):
            Y = laws.mean() + end * unit
            found = laws.log_density(Y)
            centre, scale = share_of(laws).args
            exact = -(np.abs(Y - centre) / scale + np.log(2 * scale)).sum(axis=-1) + np.log(0.01)
            assert_allclose(found, exact)
    assert_array_equal(bare(laws).log_density(Y), -np.inf)


@pytest.mark.slow
def test_the_density_of_all_places_is_one(laws):
    d = laws.points.shape[1]
    if d == 1:
        y = np.concatenate(
            [
                np.linspace(-60, -10, 2001),
                np.linspace(-10, 20, 30_001)[1:-1],
                np.linspace(20, 70, 2001),
            ]
        )
        assert_allclose(integrate.trapezoid(laws.density(y), y), 1.0, atol=2e-5)
        return
    t = np.linspace(-30, 35, 301)
    grid = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
    whole = laws.density(grid).sum(axis=1) * (t[1] - t[0]) ** 2
    assert_allclose(whole, 1.0, atol=5e-3)


@pytest.mark.slow
def test_distribution_functions_are_its_integral(laws):
    column = laws.marginal(0)
    y = np.linspace(-40, 60, 50_001)
    F = integrate.cumulative_trapezoid(column.density(y), y, axis=1, initial=0)
    some, width = y[::125], column.bandwidth
    assert_allclose(column.cdf(some, width)[..., 0], F[:, ::125], atol=3e-5)
    levels = np.array([0.002, 0.05, 0.5, 0.95, 0.998])
    for found, one in zip(column.quantile(levels, width)[..., 0], F, strict=True):
        assert_allclose(np.interp(found, y, one), levels, atol=3e-5)
    for kind in ("central", "shortest"):
        for *ends, one in zip(*column.interval(0.9, kind, width), F, strict=True):
            assert np.diff(np.interp(np.ravel(ends), y, one)) == pytest.approx(0.9, abs=1e-4)
    for pieces, one in zip(column.region(0.9), F, strict=True):
        held = np.diff(np.interp(pieces, y, one), axis=1).sum()
        assert held == pytest.approx(0.9, abs=1e-4)
    if not column._broad:  # modes are by the kernel itself
        top = y[np.diff(F, axis=1).argmax(axis=1)]
        assert_allclose(column.mode()[:, 0], top, atol=3e-3)
    assert_allclose(
        laws.cdf(np.full((1, laws.points.shape[1]), 2.0), laws.bandwidth)[:, 0, 0],
        column.cdf([2.0], width)[:, 0, 0],
        atol=1e-6,
    )


def test_draws_are_of_it(laws):
    draws, d = laws.sample(4000, 5), laws.points.shape[1]
    if d == 1:
        y = np.linspace(-40, 60, 100_001)
        for some, F in zip(draws[..., 0], laws.cdf(y, laws.bandwidth)[..., 0], strict=True):
            assert stats.kstest(some, lambda t, F=F: np.interp(t, y, F)).pvalue > 1e-3

    share, plain = share_of(laws), bare(laws)

    def rare(rows: np.ndarray) -> float:
        """How many rows are where the law without the share has less density than that."""
        p = plain.density(rows.reshape(-1, d)).reshape(len(laws), *rows.shape[:2])
        own = np.stack([p[b, b] for b in range(len(laws))])
        return (own < share.pdf(rows).prod(axis=-1)).mean()

    beyond = rare(share.rvs(draws.shape, random_state=1)), rare(plain.sample(4000, 6))
    expected = SHARE * beyond[0] + (1 - SHARE) * beyond[1]
    assert SHARE * beyond[0] > 2e-3
    error = (2 * expected / draws[..., 0].size) ** 0.5
    assert rare(draws) == pytest.approx(expected, abs=4 * error)


def test_moments_and_steps_are_those_of_the_points(laws):
    plain = bare(laws)
    assert_array_equal(laws.mean(), plain.mean())
    assert_array_equal(laws.cov(), plain.cov())
    assert_array_equal(laws.quantile([0.05, 0.5, 0.95]), plain.quantile([0.05, 0.5, 0.95]))
    assert_array_equal(laws.crps(laws.mean()), plain.crps(laws.mean()))
    assert_array_equal(
        laws.density(rows(laws), signed=True), plain.density(rows(laws), signed=True)
    )
    inside = lambda z: z[:, 0] < 2.0  # noqa: E731
    assert_array_equal(laws.probability(inside), plain.probability(inside))
    assert_array_equal(laws.expectation(inside), plain.expectation(inside))


def test_moves_and_tilts(laws):
    Y, by = rows(laws), np.full(laws.points.shape[1], 2.0)
    far = laws.moved(1.0, by)
    assert_allclose(far.density(2 * Y + 1), laws.density(Y) / by.prod(), rtol=1e-6)
    assert_allclose(laws.moved(by).log_density(Y + by), laws.log_density(Y), rtol=1e-6)
    tilted = laws.tilted(lambda z: np.exp(-z[:, 0]))
    assert_array_equal(tilted.log_density(Y + 1e4), -np.inf)


def test_scores_are_of_the_mixture():
    X, Z = pairs(2)
    model = km.KernelBayes().fit(X, Z)
    each = np.diag(model.posterior(X[:50]).log_density(Z[:50]))
    assert_allclose(model.score(X[:50], Z[:50]), each.mean())


@pytest.mark.parametrize("d", [1, 2])
def test_arrays_of_other_libraries(d):
    strict = pytest.importorskip("array_api_strict")
    X, Z = pairs(d, 80)
    ours = km.ConditionalEmbedding(reg=1e-3).fit(X, Z).at(X[:3])
    theirs = km.ConditionalEmbedding(reg=1e-3)
    theirs = theirs.fit(*map(strict.asarray, (X, Z))).at(strict.asarray(X[:3]))
    Y = np.concatenate([Z[:4], Z[:4] + 1e3])
    for verb in ("density", "log_density"):
        found = getattr(theirs, verb)(strict.asarray(Y))
        assert isinstance(found, type(strict.asarray(Y)))
        assert_allclose(np.asarray(found), getattr(ours, verb)(Y), rtol=1e-6)
    assert_allclose(np.asarray(theirs.sample(5, 0)), ours.sample(5, 0), rtol=1e-6)


def test_saved_and_loaded(tmp_path):
    X, Z = pairs(1, 80)
    for model, ask in (
        (km.ConditionalEmbedding().fit(X, Z), "at"),
        (km.KernelBayes().fit(X, Z), "posterior"),
    ):
        Y = np.linspace(-5, 50, 9)
        told = getattr(model, ask)(X[:3]).log_density(Y)
        model.save(tmp_path / "model.km")
        again = getattr(km.load(tmp_path / "model.km"), ask)(X[:3])
        assert_array_equal(again.log_density(Y), told)
        again.save(tmp_path / "law.km")
        assert_array_equal(km.load(tmp_path / "law.km").log_density(Y), told)


def test_a_wide_law_moves():
    wide = Wide(0.1, np.array([1.0, 2.0]), np.array([1.0, 3.0]))
    moved = wide.moved(np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([2.0, 1.0]))
    assert_allclose(moved.centre, [4.0, 2.0])
    assert_allclose(moved.scale, [2.0, 3.0])
    assert_allclose(wide.moved(np.array(1.0)).centre, [2.0, 3.0])

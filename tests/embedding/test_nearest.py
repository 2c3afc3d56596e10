"""The density nearest to a signed one in mean square, max(q - c, 0): against dense grids."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, optimize, stats

import kernelmean as km
from kernelmean.embedding.line import Line
from kernelmean.kernels import CorrelatedGaussian

WIDTH = 0.4


def law(d: int = 1, members: int | None = None, kernel=None) -> km.MeanEmbedding:
    """As learned by squares: weights of both signs."""
    rng, n = np.random.default_rng(47), 25
    shape = n if members is None else (members, n)
    weights = rng.normal(1 / n, 3 / n, size=shape)
    m = km.MeanEmbedding(rng.normal(size=(n, d)), weights, kernel or km.Gaussian(0.5))
    return m.carrying(steps=True)


def mesh(d: int, half: float, step: float) -> tuple[np.ndarray, float]:
    t = np.arange(-half, half, step)
    return np.stack(np.meshgrid(*[t] * d, indexing="ij"), axis=-1).reshape(-1, d), step**d


def level(q: np.ndarray, cell: float) -> float:
    """c by Brent's method."""
    return optimize.brentq(lambda c: np.maximum(q - c, 0).sum() * cell - 1, 0, q.max())


@pytest.mark.parametrize(
    ("d", "kernel"),
    [
        (1, km.Gaussian(0.5)),
        (1, km.Laplace(0.5)),
        (2, km.Gaussian(0.5)),
        (2, km.Matern(1.5, 0.5)),  # not a product over columns: by draws
    ],
    ids=str,
)
def test_a_level_is_taken_off(d, kernel):
    m = law(d, kernel=kernel)
    grid, cell = mesh(d, 7, 0.002 if d == 1 else 0.04)
    q = m.density(grid, WIDTH, signed=True)
    c = level(q, cell)
    assert c > 5e-3
    p = m.density(grid, WIDTH)
    # the mass is right to 3e-4, or by draws 1e-3, and the level moves by that over its area
    assert_allclose(p, np.maximum(q - c, 0), atol=1e-3 / (cell * (p > 0).sum()))
    assert p.sum() * cell == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_it_is_nearer_in_mean_square_than_the_positive_part(d):
    m, (grid, cell) = law(d), mesh(d, 6, 0.2)
    q, p = m.density(grid, 0.5, signed=True), m.density(grid, 0.5)
    scaled = m.carrying().density(grid, 0.5)
    for each in (p, scaled):
        assert each.sum() * cell == pytest.approx(1, abs=3e-3)
    assert ((p - q) ** 2).sum() < 0.9 * ((scaled - q) ** 2).sum()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_it_is_continuous_where_negative_weights_vanish(d):
    points = np.random.default_rng(50).normal(size=(20, d))
    weights = [np.append(np.full(19, (1 + w) / 19), -w) for w in (0.0, 1e-9, 1e-6)]
    laws = [km.MeanEmbedding(points, w, km.Gaussian(1.0)).carrying(steps=True) for w in weights]
    p = [m.density(points, 0.5) for m in laws]
    assert_array_equal(p[0], laws[0].density(points, 0.5, signed=True))
    assert_allclose(p[1], p[0], atol=1e-7)
    assert_allclose(p[2], p[0], atol=1e-4)


class TestLine:
    """Distribution functions, quantiles, intervals and draws are of that density."""

    Y = np.linspace(-6, 6, 60_001)

    @pytest.fixture
    def m(self):
        return law(members=3)

    @pytest.fixture
    def F(self, m):
        p = m.density(self.Y, WIDTH)
        return integrate.cumulative_trapezoid(p, self.Y, axis=1, initial=0)

    def test_distribution_functions(self, m, F):
        assert_allclose(F[:, -1], 1.0, atol=1e-6)
        assert_allclose(m.cdf(self.Y[::600], WIDTH)[:, :, 0], F[:, ::600], atol=2e-6)

    def test_quantiles(self, m, F):
        levels = np.array([0.001, 0.05, 0.5, 0.95, 0.999])
        for y, one in zip(m.quantile(levels, WIDTH)[:, :, 0], F, strict=True):
            assert_allclose(np.interp(y, self.Y, one), levels, atol=2e-6)

    def test_shortest_intervals_and_regions_hold_their_level(self, m, F):
        lower, upper = m.interval(0.8, "shortest", WIDTH)
        for b, ends in enumerate(m.region(0.8, WIDTH)):
            held = np.interp(ends, self.Y, F[b])
            assert np.diff(held, axis=1).sum() == pytest.approx(0.8, abs=1e-5)
            held = np.interp([lower[b, 0], upper[b, 0]], self.Y, F[b])
            assert np.diff(held)[0] == pytest.approx(0.8, abs=1e-5)
            assert np.diff(ends, axis=1).sum() <= upper[b, 0] - lower[b, 0] + 1e-6

    def test_draws(self, m, F):
        for draws, one in zip(m.sample(4000, 42, WIDTH)[:, :, 0], F, strict=True):
            assert stats.kstest(draws, lambda y, F=one: np.interp(y, self.Y, F)).pvalue > 0.01

    def test_modes_are_where_they_were(self, m):
        assert_allclose(Line(m, WIDTH, nearest=True).mode(), Line(m, WIDTH).mode(), atol=1e-9)

    def test_two_points_of_opposite_sign(self):
        """1.5 N(0, s²) - 0.5 N(1, s²): one hump, cut on both sides where it is c high."""
        m = km.MeanEmbedding([0.0, 1.0], [[1.5, -0.5]], km.Gaussian(1.0))

        def q(y):
            return 1.5 * stats.norm.pdf(y, 0, 0.5) - 0.5 * stats.norm.pdf(y, 1, 0.5)

        def cut(c):
            return [optimize.brentq(lambda y: q(y) - c, a, b) for a, b in ((-5, -0.1), (-0.1, 1))]

        def more(c):
            low, high = cut(c)
            return integrate.quad(q, low, high)[0] - c * (high - low) - 1

        c = optimize.brentq(more, 1e-6, 0.5)
        found = Line(m, 0.5, nearest=True)
        assert found.level.height[0] == pytest.approx(c, abs=1e-6)
        assert_allclose(found.quantile([1e-7, 1 - 1e-7])[0], cut(c), atol=1e-3)


def test_draws_in_the_plane_follow_the_density():
    m, (grid, _) = law(2, members=3), mesh(2, 6, 0.04)
    t, side = np.unique(grid[:, 0]), len(np.unique(grid[:, 0]))
    p = m.density(grid, 0.6).reshape(3, side, side)
    for draws, table in zip(m.sample(3000, 43, 0.6), p, strict=True):
        for column in (0, 1):
            F = integrate.cumulative_trapezoid(table.sum(axis=1 - column), t, initial=0)
            test = stats.kstest(draws[:, column], lambda y, F=F: np.interp(y, t, F / F[-1]))
            assert test.pvalue > 0.01


def test_a_correlated_kernel_has_a_level_on_its_own_axes():
    kernel = CorrelatedGaussian((0.5, 1.0), ((1.0, 0.6), (0.6, 1.0)))
    m, (grid, cell) = law(2, kernel=kernel), mesh(2, 8, 0.04)
    assert m.negative_mass((0.5, 1.0))[0] > 0.05
    assert m.density(grid, (0.5, 1.0)).sum() * cell == pytest.approx(1, abs=1e-3)


def test_angles():
    m = law(kernel=km.Periodic(0.5), members=3)
    t = np.arange(5000) * (2 * np.pi / 5000)
    p = m.density(t, WIDTH)
    assert_allclose(p.sum(axis=1) * (2 * np.pi / 5000), 1.0, atol=1e-5)
    assert (p == 0).any()


def test_symbols():
    """A probability table with a negative entry: each of the others gives half of it."""
    m = km.MeanEmbedding([0.0, 1.0, 2.0], [0.7, 0.5, -0.2], km.Delta()).carrying(steps=True)
    assert_allclose(m.density([0.0, 1.0, 2.0]), [0.6, 0.4, 0.0], atol=1e-3)


@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
def test_weights_that_sum_to_nothing_are_scaled():
    """There is no level where the positive part has less than mass one."""
    m = km.MeanEmbedding([0.0, 2.0], [0.5, -0.5], km.Gaussian(1.0)).carrying(steps=True)
    y = np.linspace(-5, 7, 12_001)
    assert np.trapezoid(m.density(y, 0.5), y) == pytest.approx(1, abs=1e-5)


def without_share(laws: km.MeanEmbedding, Z: np.ndarray) -> np.ndarray:
    """p of densities .99 p + .01 g, g that of Laplace laws around the points, moved as they are."""
    wide = getattr(laws, "_residuals", laws)._wide
    centres = wide.centre + getattr(laws, "_moves", np.zeros((len(laws), Z.shape[1])))
    g = stats.laplace.pdf(Z, centres[:, None, :], wide.scale).prod(axis=-1)
    p = (laws.density(Z) - 0.01 * g) / 0.99
    return np.where(np.abs(p) < 1e-12, 0.0, p)


@pytest.mark.parametrize("d", [1, 2])
def test_posteriors_and_conditional_laws_are_the_nearest(d):
    rng = np.random.default_rng(7)
    Z = rng.normal(size=(200, d))
    X = Z + 0.3 * rng.normal(size=(200, d))
    for laws in (
        km.KernelBayes().fit(X, Z).posterior(X[:30]),
        km.ConditionalEmbedding().fit(X, Z).at(X[:30]),
    ):
        q, p = laws.density(Z, signed=True), without_share(laws, Z)
        off = (q - p)[p > 0]
        assert off.min() > -1e-9
        assert (laws.negative_mass()[0] > 1e-3).any()
        assert all(np.ptp((a - b)[b > 0]) < 1e-9 for a, b in zip(q, p, strict=True))

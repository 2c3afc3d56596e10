"""Densities on the line: against dense grids, quadrature, closed forms and a Kolmogorov test."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, optimize, stats

import kernelmean as km
from kernelmean.embedding import line
from kernelmean.embedding.line import Line
from kernelmean.embedding.move import Move

GAUSSIAN = km.Gaussian(0.4)
# what a cubic in a cell of an eighth of a bandwidth leaves, for a point of weight one; a Laplace
# density has no more than a kink, at a node, while that of nu = 0.8 is no polynomial on either side
ERRORS = {
    GAUSSIAN: 4e-7,
    km.Laplace(0.4): 5e-7,
    km.Matern(2.5, 0.4): 1e-6,
    km.Matern(1.5, 0.4): 3e-6,
    km.Matern(0.8, 0.4): 3e-5,
}
LEVELS = np.linspace(0.001, 0.999, 57)


def signed(kernel=GAUSSIAN, n: int = 60, members: int = 5, seed: int = 40) -> km.MeanEmbedding:
    rng = np.random.default_rng(seed)
    weights = rng.normal(1 / n, 3 / n, size=(members, n))
    return km.MeanEmbedding(rng.normal(size=n), weights, kernel)


def low_rank(n: int = 80, members: int = 9, rank: int = 4) -> km.MeanEmbedding:
    rng = np.random.default_rng(41)
    left, right = rng.normal(0.3, 1, size=(members, rank)), rng.normal(0.3, 1, size=(n, rank))
    return km.MeanEmbedding.of_parts(rng.normal(size=(n, 1)), left, right, GAUSSIAN)


def threshold(found: Line, level: float) -> np.ndarray:
    """The height c at which {y : p(y) >= c} has mass `level`, of each member."""
    cells = found._own(slice(None))
    return cells.threshold(level) / cells.whole[:, 0]


class Dense:
    """The positive part of a density by the trapezoidal rule on very many points."""

    def __init__(self, m: km.MeanEmbedding, low: float, high: float, n: int = 45_001):
        self.y = np.linspace(low, high, n)
        w = m.weights / m.weights.sum(axis=1, keepdims=True)
        q = np.maximum(w @ m.kernel.density(m.points, self.y), 0)
        self.mass = np.trapezoid(q, self.y, axis=1)
        self.p = q / self.mass[:, None]
        self.error = ERRORS[m.kernel] * np.abs(w).sum(axis=1, keepdims=True)
        self.F = integrate.cumulative_trapezoid(self.p, self.y, axis=1, initial=0)


@functools.cache
def dense_of(kernel: km.Kernel) -> Dense:
    return Dense(signed(kernel), -9, 9)


def assert_near(found: np.ndarray, expected: np.ndarray, error: np.ndarray) -> None:
    assert (np.abs(found - expected) <= error).all(), np.abs(found - expected).max()


@pytest.mark.parametrize("kernel", ERRORS, ids=repr)
@pytest.mark.parametrize("x", [0.0, 0.0312])
def test_error_of_a_single_point(kernel, x):
    found = Line(km.MeanEmbedding([x], [[1.0]], kernel))
    y = np.linspace(-4, 4, 4001)
    assert_near(found.cdf(y), kernel.cdf([x], y), ERRORS[kernel])


@pytest.mark.parametrize("kernel", ERRORS, ids=repr)
class TestSignedWeights:
    @pytest.fixture
    def m(self, kernel):
        return signed(kernel)

    @pytest.fixture
    def dense(self, kernel):
        return dense_of(kernel)

    @pytest.mark.slow
    def test_normaliser(self, m, dense):
        found = Line(m)
        assert_near(found.level.mass, dense.mass, dense.error[:, 0])
        assert_near(found.negative_mass, dense.mass - 1, dense.error[:, 0])
        assert found.negative_mass.max() > 0.05

    def test_pdf(self, m, dense):
        y = dense.y[::250]
        assert_near(Line(m).pdf(y), dense.p[:, ::250], dense.error * dense.p[:, ::250])

    def test_cdf(self, m, dense):
        y = dense.y[::250]
        assert_near(Line(m).cdf(y), dense.F[:, ::250], dense.error)

    def test_quantiles_are_the_inverse_of_the_distribution_function(self, m, dense):
        found = Line(m)
        y = found.quantile(LEVELS)
        assert y.shape == (5, len(LEVELS))
        assert_allclose(found.cdf(y), np.broadcast_to(LEVELS, y.shape), atol=1e-12)
        assert (np.diff(y, axis=1) >= 0).all()
        for member in range(5):
            again = np.interp(y[member], dense.y, dense.F[member])
            assert_near(again, LEVELS, dense.error[member])

    def test_shortest_interval_equals_brute_force(self, m, dense):
        ends = Line(m).shortest(0.7)
        held = np.diff(Line(m).cdf(ends), axis=1)[:, 0]
        assert_allclose(held, 0.7, atol=1e-9)
        for (lower, upper), F in zip(ends, dense.F, strict=True):
            highest = np.searchsorted(F, F + 0.7)
            inside = highest < len(F)
            best = (dense.y[highest[inside]] - dense.y[inside]).min()
            assert upper - lower == pytest.approx(best, abs=4e-4)  # two steps of the grid

    def test_region_equals_brute_force(self, m, dense):
        regions, height = Line(m).regions(0.7), threshold(Line(m), 0.7)
        for ends, c, p in zip(regions, height, dense.p, strict=True):
            # the dense grid sees each end to a step of 2e-4, of mass 1e-4
            assert np.trapezoid(np.where(p >= c, p, 0), dense.y) == pytest.approx(0.7, abs=1e-3)
            inside = np.concatenate([[False], p >= c, [False]])
            turns = np.flatnonzero(inside[1:] != inside[:-1]).reshape(-1, 2)
            starts, stops = dense.y[turns[:, 0]], dense.y[turns[:, 1] - 1]
            assert_allclose(ends, np.stack([starts, stops], axis=1), atol=2e-3)

    def test_samples_pass_a_kolmogorov_test(self, m, dense):
        draws = Line(m).sample(4000, np.random.default_rng(42))
        assert draws.shape == (5, 4000)
        for one, F in zip(draws, dense.F, strict=True):
            assert stats.kstest(one, lambda y, F=F: np.interp(y, dense.y, F)).pvalue > 0.01

    def test_mode(self, m, dense):
        found = Line(m)
        height = found.pdf(found.mode())[np.arange(5), np.arange(5)]
        # at the top of the density a step aside costs the square of the step
        assert_allclose(height, dense.p.max(axis=1), rtol=2e-3)


class TestHandWorked:
    """Weights 1.5 at 0 and -0.5 at 1, Gaussian of width s: q changes sign at 1/2 + s^2 log 3."""

    S = 0.5

    @pytest.fixture
    def one(self):
        m = km.MeanEmbedding([0.0, 1.0], [[1.5, -0.5]], km.Gaussian(1.0))
        return Line(m, self.S)

    @property
    def crossing(self) -> float:
        return 0.5 + self.S**2 * math.log(3)

    def F(self, y) -> np.ndarray:
        return 1.5 * stats.norm.cdf(y / self.S) - 0.5 * stats.norm.cdf((y - 1) / self.S)

    def test_mass(self, one):
        negative = self.F(self.crossing) - 1
        assert one.negative_mass[0] == pytest.approx(negative, abs=1e-6)
        assert one.level.mass[0] == pytest.approx(self.F(self.crossing), abs=1e-6)

    def test_distribution_function(self, one):
        y = np.linspace(-2, 3, 101)
        expected = np.minimum(self.F(np.minimum(y, self.crossing)) / self.F(self.crossing), 1)
        assert_allclose(one.cdf(y)[0], expected, atol=1e-6)

    def test_density_is_zero_beyond_the_crossing(self, one):
        assert (one.pdf(np.linspace(self.crossing + 1e-6, 4, 30)) == 0).all()

    def test_quantiles(self, one):
        whole = self.F(self.crossing)
        for u in (0.01, 0.3, 0.5, 0.97):
            y = optimize.brentq(lambda y, u=u: self.F(y) - u * whole, -5, self.crossing)
            assert one.quantile([u])[0, 0] == pytest.approx(y, abs=1e-5)


class TestPositiveWeights:
    def test_of_one_point_it_is_the_normal_distribution(self):
        m = km.MeanEmbedding([3.0], [[2.0]], km.Gaussian(0.7))
        found = Line(m)
        assert_allclose(found.level.mass, 1.0, rtol=1e-12)
        y = np.linspace(0, 6, 61)
        assert_allclose(found.cdf(y)[0], stats.norm.cdf(y, 3, 0.7), atol=5e-7)
        u = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
        assert_allclose(found.quantile(u)[0], stats.norm.ppf(u, 3, 0.7), atol=3e-5)
        assert_allclose(found.mode(), 3.0, atol=1e-9)
        half = stats.norm.ppf(0.95) * 0.7
        assert_allclose(found.shortest(0.9), [[3 - half, 3 + half]], atol=1e-4)
        assert_allclose(found.regions(0.9)[0], [[3 - half, 3 + half]], atol=1e-4)
        assert_allclose(threshold(found, 0.9), stats.norm.pdf(3 + half, 3, 0.7), rtol=1e-4)

    def test_two_far_modes_make_a_region_of_two_intervals(self):
        """Equal halves: each holds 0.45 of its 0.5, so its ends are the 5% and 95% quantiles."""
        m = km.MeanEmbedding([0.0, 10.0], [[0.5, 0.5]], km.Gaussian(1.0))
        z = stats.norm.ppf(0.95)
        assert_allclose(Line(m).regions(0.9)[0], [[-z, z], [10 - z, 10 + z]], atol=1e-4)

    def test_the_shortest_interval_jumps_to_the_higher_of_two_modes(self):
        m = km.MeanEmbedding([0.0, 10.0], [[0.3, 0.7]], km.Gaussian(1.0))
        z = stats.norm.ppf(0.5 + 0.5 / 1.4)  # mass 0.5 out of 0.7
        assert_allclose(Line(m).shortest(0.5), [[10 - z, 10 + z]], atol=1e-4)


class TestHeavyTails:
    @pytest.fixture
    def m(self):
        rng = np.random.default_rng(43)
        x = rng.standard_cauchy(2000)
        return km.MeanEmbedding(x, rng.dirichlet(np.ones(2000), size=3), km.Gaussian(1.0))

    def test_accuracy_holds_far_out(self, m):
        """The range is some 10,000 bandwidths, of which only what is near points is tabulated."""
        h = 0.2
        found, x = Line(m, h), m.points[:, 0]
        assert np.ptp(x) > 5000 * h
        assert len(found.grid) < 2 * line.MAX_CELLS
        order = np.sort(x)
        y = np.concatenate([order[[0, 1, -2, -1]], np.linspace(-5, 5, 41)])
        expected = m.weights @ stats.norm.cdf((y - x[:, None]) / h)
        assert_allclose(found.cdf(y), expected, atol=1e-6)
        assert_allclose(found.level.mass, 1.0, atol=1e-9)
        u = np.array([0.0005, 0.01, 0.5, 0.99, 0.9995])
        for q, w in zip(found.quantile(u), m.weights, strict=True):
            F = w @ stats.norm.cdf((q - x[:, None]) / h)
            assert_allclose(F, u, atol=1e-6)

    def test_a_range_beyond_the_cap_is_said(self):
        rng = np.random.default_rng(44)
        m = km.MeanEmbedding(rng.uniform(0, 1, 4000)[:, None], np.full((1, 4000), 1 / 4000))
        with pytest.warns(km.NumericalWarning, match="bandwidths"):
            found = Line(m, 1e-5)
        # still a distribution function, and exact at the nodes
        assert_allclose(found.cdf(found.grid[[0, -1]])[0], [0, 1], atol=1e-9)
        assert (np.diff(found.quantile(LEVELS)[0]) > 0).all()

    def test_a_bandwidth_below_rounding_is_refused(self):
        m = km.MeanEmbedding([1e20, 1e20], [[0.5, 0.5]], km.Gaussian(1.0))
        with pytest.raises(ValueError, match="bandwidth"):
            Line(m, 1.0)


class TestBatch:
    def everything(self, m: km.MeanEmbedding) -> dict:
        found = Line(m, 0.3)
        y = np.linspace(-3, 3, 41)
        return {
            "normaliser": found.level.mass,
            "pdf": found.pdf(y),
            "cdf": found.cdf(y),
            "quantile": found.quantile(LEVELS),
            "shortest": found.shortest(0.8),
            "threshold": threshold(found, 0.8),
            "mode": found.mode(),
            "regions": np.array([r.sum() for r in found.regions(0.8)]),
        }

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "m", [signed(), low_rank(), low_rank(members=2)], ids=["dense", "low rank", "few"]
    )
    def test_is_its_members(self, m):
        every = self.everything(m)
        for i in range(len(m)):
            one = self.everything(km.MeanEmbedding(m.points, m.weights[[i]], m.kernel))
            for name, value in one.items():
                assert_allclose(every[name][[i]], value, atol=1e-8, err_msg=name)

    def test_more_members_than_points(self):
        m = signed(n=7, members=20)
        every = self.everything(m)
        few = self.everything(m[:3])
        for name, value in few.items():
            assert_allclose(every[name][:3], value, atol=1e-8, err_msg=name)

    @pytest.mark.parametrize("name", ["MEMBER_FLOATS", "BLOCK_FLOATS", "NODES"])
    def test_does_not_depend_on_the_size_of_the_blocks(self, name, monkeypatch):
        m = signed()
        expected, draws = self.everything(m), Line(m).sample(10, np.random.default_rng(45))
        monkeypatch.setattr(line, name, {"NODES": 7, "BLOCK_FLOATS": 640}.get(name, 1))
        for key, value in self.everything(m).items():
            assert_allclose(value, expected[key], atol=1e-8, err_msg=key)
        assert_allclose(Line(m).sample(10, np.random.default_rng(45)), draws, atol=1e-8)

    def test_points_and_levels_of_each_members_own(self):
        m, y = signed(), np.linspace(-2, 2, 11)
        found = Line(m)
        each = np.broadcast_to(y, (5, 11))
        assert_allclose(found.cdf(each), found.cdf(y))
        # off the nodes the density is a parabola there: 1e-4 of its height
        assert_allclose(found.pdf(each), found.pdf(y), atol=1e-4)
        u = np.broadcast_to(LEVELS, (5, len(LEVELS)))
        assert_array_equal(found.quantile(u), found.quantile(LEVELS))

    def test_a_shift_moves_each_member(self):
        m, by = signed(), np.array([0.0, 1.0, -2.0, 30.0, 0.5])
        still, moved = Line(m), Line(m, move=Move(by[:, None]))
        y = np.linspace(-2, 2, 11)
        assert_allclose(moved.quantile(LEVELS), still.quantile(LEVELS) + by[:, None])
        assert_allclose(moved.cdf(y + by[:, None]), still.cdf(y), atol=1e-12)
        assert_allclose(moved.pdf(y + by[:, None]), still.pdf(y), atol=1e-4)
        assert_allclose(moved.cdf(y)[1], still.cdf(y - 1)[1])
        assert_allclose(moved.shortest(0.8), still.shortest(0.8) + by[:, None])
        assert_allclose(moved.mode(), still.mode() + by)
        for a, b, c in zip(moved.regions(0.8), still.regions(0.8), by, strict=True):
            assert_allclose(a, b + c)
        draws = [one.sample(5, np.random.default_rng(46)) for one in (moved, still)]
        assert_allclose(draws[0], draws[1] + by[:, None])


def test_weights_that_are_all_zero_stay_finite():
    with pytest.warns(km.NumericalWarning):
        found = Line(km.MeanEmbedding([0.0, 1.0], [[0.0, 0.0]], km.Gaussian(1.0)))
    assert_array_equal(found.pdf(np.array([0.0])), [[0.0]])
    assert np.isfinite(found.quantile([0.5])).all()


@pytest.mark.parametrize("kernel", [km.Periodic(1.0), km.Delta()], ids=repr)
def test_kernels_off_the_line_are_refused(kernel):
    with pytest.raises(ValueError, match=type(kernel).__name__):
        Line(km.MeanEmbedding([0.0, 1.0], [[0.5, 0.5]], kernel), 0.3)

"""From embeddings back to points: preimages, herding, quantiles and samples."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

import kernelmean as km
from kernelmean.embedding import positive_part, recovery, weighted
from kernelmean.embedding.law import Law

RADIAL = [km.Gaussian(0.7), km.Laplace(0.7), km.Matern(1.5, 0.7), km.Matern(2.5, 0.7)]


def distance(m: km.MeanEmbedding, X: np.ndarray) -> np.ndarray:
    """||k(x, .) - mu||^2 without the constant ||mu||^2."""
    return m.kernel.diag(X) - 2 * m(X)


class TestMode:
    @pytest.mark.parametrize("kernel", RADIAL, ids=repr)
    def test_of_a_point_mass_is_the_point(self, kernel):
        m = km.MeanEmbedding([[1.0, -2.0]], kernel=kernel)
        assert_allclose(m.mode(), [1.0, -2.0], atol=1e-8)

    @pytest.mark.parametrize("kernel", RADIAL, ids=repr)
    def test_of_a_symmetric_pair_inside_one_lengthscale_is_the_middle(self, kernel):
        """Only for kernels that are smooth at zero: the others peak at a point."""
        m = km.MeanEmbedding([[-0.2], [0.2]], kernel=kernel)
        X = np.linspace(-1, 1, 2001)[:, None]
        assert distance(m, m.mode()[None])[0] <= distance(m, X).min() + 1e-6

    def test_of_a_gaussian_cluster_is_its_centre(self):
        rng = np.random.default_rng(0)
        X = rng.normal([3.0, -1.0], 0.5, size=(2000, 2))
        # the sample's mode is known to about 0.5/sqrt(2000) = 0.011 a column, smoothed by the
        # kernel
        assert_allclose(km.MeanEmbedding(X, kernel=km.Gaussian(1.0)).mode(), [3.0, -1.0], atol=0.06)

    def test_is_at_least_as_good_as_a_grid(self):
        rng = np.random.default_rng(1)
        for seed in range(5):
            X, w = rng.normal(size=(15, 1)), rng.normal(size=15)
            m = km.MeanEmbedding(X, w / w.sum(), km.Gaussian(0.4))
            grid = np.linspace(-4, 4, 4001)[:, None]
            x = m.mode()
            assert distance(m, x[None])[0] <= distance(m, grid).min() + 1e-4, seed

    def test_of_two_clusters_is_in_the_larger(self):
        X = np.concatenate([np.linspace(-0.1, 0.1, 30), np.linspace(9.9, 10.1, 20)])
        assert_allclose(km.MeanEmbedding(X, kernel=km.Gaussian(1.0)).mode(), [0.0], atol=1e-3)

    def test_one_fixed_point_step_hand_worked(self):
        """The mode satisfies x = sum w k(x_i,x) x_i / sum w k(x_i,x) (Mika 1999)."""
        X, w = np.array([0.0, 0.3, 0.5]), np.array([0.5, 0.2, 0.3])
        x = km.MeanEmbedding(X, w, km.Gaussian(1.0)).mode()[0]
        g = w * np.exp(-((X - x) ** 2) / 2)
        assert x == pytest.approx(g @ X / g.sum(), abs=1e-6)

    @pytest.mark.parametrize("weights", [[1.0, -1.0], [-0.5, -0.5], [0.0, 0.0], [1e-300, 0.0]])
    def test_a_vanishing_denominator_is_guarded(self, weights):
        m = km.MeanEmbedding([0.0, 50.0], weights, km.Gaussian(0.1))
        assert np.isfinite(m.mode()).all()

    def test_kernels_without_a_fixed_point_give_the_best_of_the_points(self):
        m = km.MeanEmbedding([0.0, 1.0, 2.0], [0.2, 0.5, 0.3], km.Delta())
        assert_array_equal(m.mode(), [1.0])

    def test_a_lengthscale_per_column(self):
        rng = np.random.default_rng(0)
        X = rng.normal([3.0, -100.0], [0.5, 20.0], size=(2000, 2))
        m = km.MeanEmbedding(X, kernel=km.Gaussian((1.0, 40.0)))
        assert_allclose(m.mode(), [3.0, -100.0], atol=2.5)
        assert_allclose(m.mode()[0], 3.0, atol=0.06)

    def test_of_points_far_from_the_origin(self):
        X = 1e6 + np.array([-0.2, 0.0, 0.2])
        assert_allclose(km.MeanEmbedding(X, kernel=km.Gaussian(1.0)).mode() - 1e6, [0.0], atol=1e-4)


def fixed_point(m: km.MeanEmbedding, pull, n_starts: int = 10) -> np.ndarray:
    """The fixed point of Mika et al. (1999) from each of the best points."""
    X, w = m.points, m.weights
    starts = X[np.argsort(distance(m, X), kind="stable")[:n_starts]]
    ends = starts
    for _ in range(200):
        g = w * pull(X, ends).T
        total = g.sum(axis=1, keepdims=True)
        here = np.abs(total) > 1e-12
        ends = np.where(here, g @ X / np.where(here, total, 1.0), ends)
    candidates = np.concatenate([starts, ends])
    return candidates[np.argmin(distance(m, candidates))]


class TestModesOfABatch:
    @pytest.fixture(params=["dense", "low rank"])
    def batch(self, request, rng):
        points = rng.normal(size=(40, 2))
        if request.param == "dense":
            return km.MeanEmbedding(points, rng.normal(0.3, 1, size=(13, 40)), km.Gaussian(0.8))
        left, right = rng.normal(0.3, 1, size=(13, 4)), rng.normal(0.3, 1, size=(40, 4))
        return km.MeanEmbedding.of_parts(points, left, right, km.Gaussian(0.8))

    @pytest.mark.slow
    def test_equal_the_textbook_iteration(self, batch):
        got = batch.mode()
        assert got.shape == (13, 2)
        for i in range(13):
            assert_allclose(got[i], fixed_point(batch[i], batch.kernel), atol=1e-8)

    @pytest.mark.parametrize(
        "kernel",
        [*RADIAL, km.Delta(), km.Linear(), km.Periodic(0.7), km.Gaussian(0.7) + km.Linear()],
        ids=repr,
    )
    def test_are_those_of_the_members(self, batch, kernel):
        m = km.MeanEmbedding(batch.points, batch.weights, kernel)
        assert_allclose(m.mode(), np.stack([m[i].mode() for i in range(13)]), atol=1e-8)

    def test_do_not_depend_on_the_size_of_the_blocks(self, batch, monkeypatch):
        expected = batch.mode()
        monkeypatch.setattr(recovery, "MODE_FLOATS", 3 * 400)  # three members at a time
        assert_allclose(batch.mode(), expected, atol=1e-9)
        monkeypatch.setattr(recovery, "MODE_FLOATS", 1)
        monkeypatch.setattr(weighted, "block_rows", lambda width: 5)
        assert_allclose(batch.mode(), expected, atol=1e-9)

    def test_more_starts_than_points(self, batch):
        assert distance(batch[0], batch[0].mode(100)[None]) <= distance(batch[0], batch.mode()[:1])

    def test_a_batch_of_one(self, batch):
        assert_allclose(batch[slice(0, 1)].mode(), batch[0].mode()[None], atol=1e-9)

    def test_columns_with_kernels_of_their_own_have_a_fixed_point(self, batch):
        """The product over columns of Gaussian kernels is a Gaussian kernel."""
        each = km.on_columns({1: km.Gaussian(0.5), 0: km.Gaussian(2.0)})
        both = km.Gaussian((2.0, 0.5))
        got, expected = (km.MeanEmbedding(batch.points, batch.weights, k) for k in (each, both))
        assert_allclose(got.mode(), expected.mode(), atol=1e-8)


class TestHerd:
    @pytest.mark.parametrize(
        "kernel", [km.Gaussian(0.7), km.Matern(1.5, 0.7), km.Delta()], ids=repr
    )
    def test_equals_brute_force(self, kernel, rng):
        X = rng.normal(size=(30, 2))
        w = rng.uniform(0.5, 1.5, size=30)
        w /= w.sum()
        chosen = oracles.herd_on_candidates(kernel(X), w, 12)
        assert_allclose(km.MeanEmbedding(X, w, kernel).herd(12), X[chosen])

    def test_hand_worked_on_three_letters(self):
        """Delta kernel, probabilities 1/2, 1/3, 1/6: the herd of six has each letter in
        proportion.
        """
        m = km.MeanEmbedding([0.0, 1.0, 2.0], [1 / 2, 1 / 3, 1 / 6], km.Delta())
        letters, counts = np.unique(m.herd(60), return_counts=True)
        assert_array_equal(letters, [0, 1, 2])
        assert_allclose(counts, [30, 20, 10], atol=1)

    def test_mmd_falls_faster_than_that_of_random_samples(self):
        rng = np.random.default_rng(0)
        m = km.MeanEmbedding(rng.normal(size=(500, 2)), kernel=km.Gaussian(1.0))

        def error(X):
            return m.mmd(km.MeanEmbedding(X, kernel=km.Gaussian(1.0)))

        herd = m.herd(64)
        herded = [error(herd[:n]) for n in (4, 16, 64)]
        drawn = [
            np.mean([error(m.points[rng.integers(500, size=n)]) for _ in range(20)])
            for n in (4, 16, 64)
        ]
        assert herded[2] < drawn[2] / 3
        # slope on the log-log scale: -1/2 for samples, about -1 for herding
        slope = np.log(herded[2] / herded[0]) / np.log(16)
        assert slope < -0.75
        assert np.log(drawn[2] / drawn[0]) / np.log(16) == pytest.approx(-0.5, abs=0.12)

    def test_shape_and_repetition(self):
        m = km.MeanEmbedding([[0.0, 1.0]], kernel=km.Gaussian(1.0))
        assert_array_equal(m.herd(3), [[0.0, 1.0]] * 3)

    @pytest.mark.parametrize("bad", [0, -1, 2.5, None, "x"])
    def test_bad_counts_are_refused(self, bad):
        with pytest.raises(ValueError, match="n"):
            km.MeanEmbedding([0.0, 1.0], kernel=km.Gaussian(1.0)).herd(bad)


def test_mode_refuses_bad_numbers_of_starts():
    with pytest.raises(ValueError, match="n_starts"):
        km.MeanEmbedding([0.0, 1.0], kernel=km.Gaussian(1.0)).mode(n_starts=0)


def test_negative_weights_whose_squares_are_zero_are_none(rng):
    X = rng.normal(size=(20, 3))
    w = np.append(np.full(19, 1 / 19), -1e-202)
    m, positive = km.MeanEmbedding(X, w, km.Gaussian(1.0)), km.MeanEmbedding(X[:19], w[:19])
    assert_allclose(m.density(X, 0.5), positive.density(X, 0.5))


class TestQuantile:
    def test_hand_worked(self):
        """Weights 1/2, 1/4, 1/4 at 0, 1, 3: F jumps to 0.5, 0.75, 1."""
        m = km.MeanEmbedding([3.0, 0.0, 1.0], [0.25, 0.5, 0.25], km.Gaussian(1.0))
        got = m.quantile([0.0, 0.3, 0.5, 0.51, 0.75, 0.8, 1.0])
        assert_array_equal(got[:, 0], [0.0, 0.0, 0.0, 1.0, 1.0, 3.0, 3.0])

    def test_equal_weights_are_numpys_inverted_cdf(self, rng):
        X, q = rng.normal(size=(57, 2)), [0.013, 0.1, 0.5, 0.77, 0.99]
        expected = np.quantile(X, q, axis=0, method="inverted_cdf")
        assert_allclose(km.MeanEmbedding(X, kernel=km.Gaussian(1.0)).quantile(q), expected)

    def test_the_scale_of_the_weights_does_not_matter(self, rng):
        X, w = rng.normal(size=20), rng.uniform(size=20)
        a, b = (km.MeanEmbedding(X, s * w, km.Gaussian(1.0)).quantile([0.2, 0.5]) for s in (1, 9))
        assert_array_equal(a, b)

    def test_signed_weights_still_give_increasing_quantiles(self, rng):
        for _ in range(20):
            w = rng.normal(size=30)
            m = km.MeanEmbedding(rng.normal(size=30), w + (1 - w.sum()) / 30, km.Gaussian(1.0))
            assert (np.diff(m.quantile(np.linspace(0, 1, 21))[:, 0]) >= 0).all()

    def test_shapes(self, rng):
        X = rng.normal(size=(30, 2))
        one = km.MeanEmbedding(X, kernel=km.Gaussian(1.0))
        many = km.MeanEmbedding(X, rng.dirichlet(np.ones(30), size=4), km.Gaussian(1.0))
        assert one.quantile(0.5).shape == (2,)
        assert one.quantile([0.1, 0.5, 0.9]).shape == (3, 2)
        assert many.quantile(0.5).shape == (4, 2)
        assert many.quantile([0.1, 0.5, 0.9]).shape == (4, 3, 2)
        assert [b.shape for b in one.interval(0.5)] == [(2,), (2,)]
        assert [b.shape for b in many.interval(0.5)] == [(4, 2), (4, 2)]

    def test_interval_is_two_quantiles(self, rng):
        m = km.MeanEmbedding(rng.normal(size=50), kernel=km.Gaussian(1.0))
        lower, upper = m.interval(0.8)
        assert_allclose([lower, upper], [m.quantile(0.1), m.quantile(0.9)])

    def test_conditional_intervals_cover(self):
        """Y given x is N(sin x, 0.3): the central 80% interval covers about 80% of new draws."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, size=(3000, 1))
        c = km.ConditionalEmbedding().fit(X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=3000))
        new = rng.uniform(-1.8, 1.8, size=(1000, 1))
        y = np.sin(new) + 0.3 * rng.normal(size=(1000, 1))
        lower, upper = c.at(new).interval(0.8)
        # binomial error of 1,000 draws is 0.013; the smoothing of the embedding a few hundredths
        assert np.mean((lower <= y) & (y <= upper)) == pytest.approx(0.8, abs=0.06)

    @pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan, "x", None, [[0.5]], [0.5, 2.0]])
    def test_bad_levels_are_refused(self, bad):
        with pytest.raises(ValueError, match=r"\bq\b"):
            km.MeanEmbedding([0.0, 1.0], kernel=km.Gaussian(1.0)).quantile(bad)

    @pytest.mark.parametrize("bad", [0, 1, -0.1, 1.1, np.nan, "x", None, [0.5]])
    def test_bad_coverages_are_refused(self, bad):
        with pytest.raises(ValueError, match="level"):
            km.MeanEmbedding([0.0, 1.0], kernel=km.Gaussian(1.0)).interval(bad)


class TestSample:
    def test_positive_weights_are_a_mixture(self):
        """Mean sum w x, variance that of the weighted points plus gamma^2."""
        X, w = np.array([[0.0, 1.0], [2.0, -1.0], [5.0, 0.0]]), np.array([0.5, 0.3, 0.2])
        S = km.MeanEmbedding(X, w, km.Gaussian(1.0)).sample(40_000, 0, bandwidth=0.4)
        assert S.shape == (40_000, 2)
        # four standard errors: 4 * 2 / sqrt(40,000) = 0.04 for the mean, more for the variance
        assert_allclose(S.mean(axis=0), oracles.weighted_mean(w, X), atol=0.04)
        expected = oracles.weighted_covariance(w, X) + 0.4**2 * np.eye(2)
        assert_allclose(np.cov(S.T), expected, atol=0.12)

    @pytest.mark.parametrize("kernel", RADIAL, ids=repr)
    def test_signed_weights_follow_the_positive_part_of_the_density(self, kernel):
        """Bins against quadrature of max(q, 0): weights 1.4 at 0 and -0.4 at 0.8."""
        m = km.MeanEmbedding([0.0, 0.8], [1.4, -0.4], kernel)
        S = m.sample(40_000, 0, bandwidth=0.5)[:, 0]
        edges = np.linspace(-6, 6, 6001)
        middles = (edges[1:] + edges[:-1]) / 2
        q = m.density(middles, bandwidth=0.5)
        F = np.concatenate([[0.0], np.cumsum(q)]) / q.sum()
        empirical = np.searchsorted(np.sort(S), edges) / len(S)
        # Kolmogorov-Smirnov: 1.63/sqrt(40,000) = 0.008 at the 1% level, and the tails beyond 6
        assert np.abs(empirical - F).max() < 0.012

    def test_a_seed_repeats_and_another_differs(self, rng):
        m = km.MeanEmbedding(rng.normal(size=(20, 2)), kernel=km.Gaussian(1.0))
        assert_array_equal(m.sample(10, 3), m.sample(10, 3))
        assert np.abs(m.sample(10, 3) - m.sample(10, 4)).max() > 0.01

    def test_a_batch(self, rng):
        m = km.MeanEmbedding([0.0, 10.0], [[1.0, 0.0], [0.0, 1.0]], km.Gaussian(1.0))
        S = m.sample(50, 0, bandwidth=0.1)
        assert S.shape == (2, 50, 1)
        assert_allclose(S.mean(axis=(1, 2)), [0.0, 10.0], atol=0.1)

    def test_symbols_stay_symbols(self):
        m = km.MeanEmbedding([0.0, 1.0, 2.0], [0.5, 0.3, 0.2], km.Delta())
        values, counts = np.unique(m.sample(10_000, 0), return_counts=True)
        assert_array_equal(values, [0, 1, 2])
        assert_allclose(counts / 10_000, [0.5, 0.3, 0.2], atol=0.02)

    def test_kernels_without_a_density_say_so(self):
        with pytest.raises(ValueError, match="(?i)densit"):
            km.MeanEmbedding([0.0, 1.0], kernel="linear").sample(3, 0)

    @pytest.mark.parametrize("bad", [0, -1, 2.5, None, "x"])
    def test_bad_counts_are_refused(self, bad):
        with pytest.raises(ValueError, match=r"\bn\b"):
            km.MeanEmbedding([0.0, 1.0], kernel=km.Gaussian(1.0)).sample(bad)

    @pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
    def test_no_positive_weight_is_said_or_survived(self):
        m = km.MeanEmbedding([0.0, 1.0], [0.0, 0.0], km.Gaussian(1.0))
        try:
            assert np.isfinite(m.sample(3, 0)).all()
        except ValueError as refusal:
            assert "weight" in str(refusal)

    def test_one_point_is_sampled_at_the_point(self):
        S = km.MeanEmbedding([3.0], kernel=km.Gaussian(1.0)).sample(5, 0)
        assert_allclose(S, 3.0, atol=1.0)
        assert np.isfinite(S).all()

    def test_a_batch_by_rejection_follows_each_members_density(self):
        """Three members in the plane; each column against a grid sum of the positive part."""
        m = plane(members=3)
        S = m.sample(3000, 43, bandwidth=0.6)
        assert S.shape == (3, 3000, 2)
        t = np.linspace(-6, 6, 301)
        grid = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
        p = m.density(grid, bandwidth=0.6).reshape(3, 301, 301)
        for draws, table in zip(S, p, strict=True):
            for column in (0, 1):
                F = integrate.cumulative_trapezoid(table.sum(axis=1 - column), t, initial=0)
                test = stats.kstest(draws[:, column], lambda y, F=F: np.interp(y, t, F / F[-1]))
                assert test.pvalue > 0.01

    def test_small_blocks_draw_from_the_same_density(self, monkeypatch):
        m = plane(members=3)
        whole = m.sample(2000, 44, bandwidth=0.6)
        monkeypatch.setattr(positive_part, "BLOCK_FLOATS", 3 * 25 * 40)
        pieces = m.sample(2000, 45, bandwidth=0.6)
        for a, b in zip(whole, pieces, strict=True):
            assert stats.ks_2samp(a[:, 0], b[:, 0]).pvalue > 0.01

    def test_positive_members_keep_every_proposal(self):
        """1/2 at 0, 1/2 at 10 in one member, all at 10 in the other."""
        m = km.MeanEmbedding([[0.0, 0.0], [10.0, 0.0]], [[0.5, 0.5], [0, 1]], km.Gaussian(1.0))
        S = m.sample(2000, 46, bandwidth=0.1)
        assert_allclose((S[:, :, 0] > 5).mean(axis=1), [0.5, 1.0], atol=0.05)

    def test_cancellation_that_is_almost_complete_is_said(self):
        """Weight -1 in front of 1 + 1e-9 at the same place: one proposal in a billion."""
        m = km.MeanEmbedding([[0.0, 0.0]] * 2, [1 + 1e-9, -1.0], km.Gaussian(1.0))
        with pytest.warns(km.NumericalWarning, match="rejection"):
            S = m.sample(3, 0, bandwidth=0.5)
        assert np.isfinite(S).all()


def plane(members: int | None = None, n: int = 25, d: int = 2, kernel=None) -> km.MeanEmbedding:
    rng = np.random.default_rng(47)
    shape = n if members is None else (members, n)
    weights = rng.normal(1 / n, 3 / n, size=shape)
    return km.MeanEmbedding(rng.normal(size=(n, d)), weights, kernel or km.Gaussian(0.5))


def line_batch(kernel=None) -> km.MeanEmbedding:
    return plane(members=3, d=1, kernel=kernel)


PLANE_KERNELS = [
    km.Gaussian(0.5),
    km.Gaussian((0.4, 0.7)),
    km.Matern(1.5, 0.5, columnwise=True),
    km.on_columns({1: km.Gaussian(0.5), 0: km.Laplace(0.5)}),
    km.Matern(1.5, 0.5),  # not a product over columns: by draws
    km.Laplace(0.5),
]


class TestPositivePart:
    @pytest.mark.parametrize("kernel", PLANE_KERNELS, ids=repr)
    def test_integrates_to_one_in_the_plane(self, kernel):
        m = plane(members=3, kernel=kernel)
        t = np.linspace(-9, 9, 361)
        grid = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
        p = m.density(grid, bandwidth=0.5)
        assert (p >= 0).all()
        assert (p == 0).any()
        # three standard errors of 3e-4; the grid is good to a few 1e-4 where a kernel has a peak
        assert_allclose(p.sum(axis=1) * (t[1] - t[0]) ** 2, 1.0, atol=1e-3)
        mass, error = m.negative_mass(0.5)
        assert mass.shape == error.shape == (3,)
        assert (mass > 0.02).all()
        assert (error <= 3e-4 * (1 + mass)).all()

    @pytest.mark.parametrize("aim", [3e-2, 3e-3, 3e-4, 3e-5])
    def test_two_points_of_opposite_sign_are_cut_by_a_line(self, aim, rng):
        """1.5 N(x₁, γ²) − 0.5 N(x₂, γ²) < 0 beyond a line across x₂ − x₁: exact by Φ."""
        points = rng.normal(size=(12, 2, 2))
        width = 0.4
        apart = np.linalg.norm(points[:, 0] - points[:, 1], axis=1) / width
        cut = np.log(3) / apart + apart / 2
        exact = 0.5 * stats.norm.sf(cut - apart) - 1.5 * stats.norm.sf(cut)
        told = [
            km.MeanEmbedding(x, [1.5, -0.5], km.Gaussian(1.0)).negative_mass(width, error=aim)
            for x in points
        ]
        mass, error = np.array(told).T
        assert (error <= aim * (1 + mass)).all()
        assert (np.abs(mass - exact) <= min(aim, 1e-3) * (1 + mass)).all()
        assert exact.max() > 0.4

    @pytest.mark.parametrize("kernel", RADIAL, ids=repr)
    def test_integrates_to_one_on_the_line(self, kernel):
        m = line_batch(kernel)
        y = np.linspace(-25, 25, 50_001)
        p = m.density(y, bandwidth=0.3)
        assert (p >= 0).all()
        assert_allclose(np.trapezoid(p, y, axis=1), 1.0, atol=1e-5)

    def test_in_three_dimensions_draws_agree_with_a_grid(self):
        m = plane(n=12, d=3)
        t = np.arange(-6, 6, 0.15)
        one = [np.exp(-((t - x[:, None]) ** 2) / 0.5) / np.sqrt(0.5 * np.pi) for x in m.points.T]
        q = np.einsum("i,ia,ib,ic->abc", m.weights / m.weights.sum(), *one)
        mass, error = m.negative_mass(0.5)
        assert 0 < error < 3e-4 * (1 + mass)
        # the grid itself is good to 1e-4
        assert mass == pytest.approx(np.maximum(-q, 0).sum() * 0.15**3, abs=4 * error + 1e-4)

    def test_by_draws_and_by_grid_agree(self, monkeypatch):
        m = plane(members=3)
        grid, near = m.negative_mass(0.5)
        monkeypatch.setattr(positive_part, "PLANE_WORK", 0)
        draws, error = m.negative_mass(0.5)
        assert (near < 1e-4).all()
        assert (error > 0).all()
        assert_allclose(draws, grid, atol=4 * error.max() + 1e-4)
        again, _ = m.negative_mass(0.5)
        assert_array_equal(again, draws)  # the draws are always the same

    def test_sizes_that_half_of_the_members_need_more_than_are_left_out(self, monkeypatch):
        """And the answer is that of the last size, from which the others start."""
        m, drawn, replicates = plane(members=5, d=3, n=40), [], positive_part._replicates

        def noted(members, draws):
            drawn.append(draws)
            return replicates(members, draws)

        monkeypatch.setattr(positive_part, "_replicates", noted)
        found, error = m.negative_mass(0.3)
        assert drawn[0] == positive_part.FIRST_DRAWS
        assert 2 <= len(drawn) <= 4 < np.log2(drawn[-1] / drawn[0])
        monkeypatch.setattr(positive_part, "FIRST_DRAWS", drawn[-1])
        alone, least = m.negative_mass(0.3)
        assert_allclose(found, alone, atol=4 * (error + least).max())

    def test_strips_of_the_grid_add_up(self, monkeypatch):
        m = plane(members=3)
        whole = m.negative_mass(0.5)[0]
        monkeypatch.setattr(positive_part, "block_rows", lambda width: 11)
        assert_allclose(m.negative_mass(0.5)[0], whole, rtol=1e-10)

    def test_too_few_draws_are_said(self, monkeypatch):
        monkeypatch.setattr(positive_part, "MOST_DRAWS", 2**9)
        m = plane(members=3, n=200, kernel=km.Laplace(0.5))
        with pytest.warns(km.NumericalWarning, match="standard error"):
            m.negative_mass(0.05)

    @pytest.mark.parametrize("d", [1, 2])
    def test_without_negative_weights_nothing_changes(self, d, rng):
        m = km.MeanEmbedding(rng.normal(size=(30, d)), rng.uniform(size=(4, 30)), km.Gaussian(1.0))
        Y = rng.normal(size=(9, d))
        assert_array_equal(m.density(Y, 0.4), m.density(Y, 0.4, signed=True))
        assert m[0].negative_mass(0.4) == (0.0, 0.0)

    @pytest.mark.parametrize("d", [1, 2])
    def test_is_the_signed_density_over_its_mass(self, d, rng):
        m = plane(d=d)
        Y = rng.normal(size=(40, d))
        q = m.density(Y, 0.4, signed=True)
        mass, _ = m.negative_mass(0.4)
        assert (q < 0).any()
        assert_allclose(m.density(Y, 0.4), np.maximum(q, 0) / (1 + mass))
        with np.errstate(divide="ignore"):
            assert_allclose(m.log_density(Y, 0.4), np.log(np.maximum(q, 0) / (1 + mass)))

    def test_log_density_is_minus_infinity_without_a_warning(self):
        m = km.MeanEmbedding([0.0, 1.0], [1.5, -0.5], km.Gaussian(1.0))
        assert m.log_density([2.0], 0.5)[0] == -np.inf

    def test_features_in_place_of_members(self, monkeypatch, rng):
        """Weights of low rank are summed over a grid by their features, and are the same."""
        x = rng.normal(size=(40, 2))
        left, right = rng.normal(size=(9, 3)), rng.normal(size=(40, 3))
        law = km.MeanEmbedding.of_parts(x, left, right, km.Gaussian(0.4))
        found, _ = law.negative_mass()
        whole = km.MeanEmbedding(x, left @ right.T, km.Gaussian(0.4))
        assert_allclose(found, whole.negative_mass()[0], rtol=1e-10)
        monkeypatch.setattr(positive_part, "TABLE_FLOATS", 1)
        assert_allclose(found, law.negative_mass()[0], rtol=1e-10)

    def test_a_rough_answer_is_by_draws_where_a_grid_is_large(self, monkeypatch, rng):
        """To a hundredth; kernels are narrow beside how far the points are apart."""
        x, W = 6 * rng.normal(size=(60, 2)), rng.normal(0.3, 1.0, size=(5, 60))
        law = km.MeanEmbedding(x, W / W.sum(axis=1, keepdims=True), km.Gaussian(0.3))
        whole, _ = law.negative_mass(0.3)
        monkeypatch.setattr(positive_part, "_on_grid", None)  # is not asked
        rough, error = law.negative_mass(0.3, error=0.01)
        assert (error <= 0.01 * (1 + rough)).all()
        assert_allclose(rough, whole, atol=4 * error.max() + 1e-3)

    @pytest.mark.parametrize("d", [1, 2])
    def test_a_batch_is_its_members(self, d, rng):
        """In the plane by sums over the same grid, on the line over the same cells."""
        m, Y = plane(members=3, d=d), rng.normal(size=(7, d))
        many = m.density(Y, 0.4)
        ones = [km.MeanEmbedding(m.points, w, m.kernel).density(Y, 0.4) for w in m.weights]
        assert_allclose(many, ones, rtol=1e-8, atol=1e-12)

    def test_angles_are_normalised_over_one_turn(self):
        x = line_batch()
        m = km.MeanEmbedding(5 * x.points, x.weights, km.Periodic(0.5, period=24.0))
        hours = np.arange(0, 24, 0.001)
        assert_allclose(m.density(hours, 0.4).sum(axis=1) * 0.001, 1.0, atol=1e-5)
        assert (m.negative_mass(0.4)[0] > 0.001).all()
        alone = km.on_columns({0: km.Periodic(0.5, period=24.0)})
        same = km.MeanEmbedding(m.points, m.weights, alone)
        assert_allclose(same.negative_mass(0.4)[0], m.negative_mass(0.4)[0])

    def test_two_angles_are_normalised_over_the_torus(self):
        m = plane(members=3, kernel=km.Periodic(0.5))
        t = np.arange(120) * (2 * np.pi / 120)
        grid = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
        p = m.density(grid, bandwidth=0.5)
        assert (p == 0).any()
        assert_allclose(p.sum(axis=1) * (2 * np.pi / 120) ** 2, 1.0, atol=1e-3)

    def test_a_number_and_a_symbol(self):
        """Summed over two symbols and integrated over the line."""
        rng = np.random.default_rng(48)
        X = np.column_stack([rng.normal(size=20), rng.integers(2, size=20)])
        kernel = km.on_columns({0: km.Gaussian(0.5), 1: km.Delta()})
        m = km.MeanEmbedding(X, np.where(np.arange(20) % 3, 0.1, -0.1), kernel)
        y = np.linspace(-6, 6, 1201)
        p = [m.density(np.column_stack([y, np.full(1201, s)]), 0.4) for s in (0.0, 1.0)]
        assert m.negative_mass(0.4)[0] > 0.05
        assert np.trapezoid(np.sum(p, axis=0), y) == pytest.approx(1.0, abs=1e-3)

    def test_symbols_are_normalised_over_the_symbols(self):
        """A probability table with a negative entry: draws see only the symbols below zero."""
        m = km.MeanEmbedding([0.0, 1.0, 2.0], [0.7, 0.5, -0.2], km.Delta())
        assert_allclose(m.density([0.0, 1.0, 2.0]), [0.7 / 1.2, 0.5 / 1.2, 0.0], atol=1e-3)


class TestSmoothedAnswers:
    """Column by column, of the recovered density."""

    def test_cdf_is_the_integral_of_the_density(self):
        m = line_batch()
        y = np.linspace(-3, 3, 7)
        F = m.cdf(y, bandwidth=0.3)
        assert F.shape == (3, 7, 1)
        for i in range(2):
            one = m[i]
            t = np.linspace(-8, 3, 22_001)  # y are among them; densities have kinks
            below = integrate.cumulative_trapezoid(one.density(t, 0.3), t, initial=0)
            expected = np.interp(y, t, below)
            assert_allclose(F[i, :, 0], expected, atol=2e-6)

    @pytest.mark.parametrize("bandwidth", [0.3, None, (0.3, 0.6)])
    def test_quantile_inverts_cdf(self, bandwidth):
        m, levels = plane(members=3), [0.01, 0.3, 0.5, 0.99]
        q = m.quantile(levels, bandwidth)
        assert q.shape == (3, 4, 2)
        for i in range(3):
            F = m.cdf(q[i], bandwidth)[i]
            assert_allclose(F, np.stack([levels, levels], axis=1), atol=1e-6)

    def test_are_those_of_the_marginals(self):
        m = plane(members=3, kernel=km.Gaussian((0.4, 0.7)))
        for j, h in enumerate((0.3, 0.6)):
            one = m.marginal(j)
            assert_allclose(m.quantile(0.3, (0.3, 0.6))[:, j], one.quantile(0.3, h)[:, 0])
            assert_allclose(
                m.interval(0.8, "shortest", (0.3, 0.6))[1][:, j],
                one.interval(0.8, "shortest", h)[1][:, 0],
            )

    def test_a_column_may_be_left_unsmoothed(self):
        m = plane(members=3)
        both = m.quantile(0.4, (0.0, 0.3))
        assert_array_equal(both[:, 0], m.quantile(0.4)[:, 0])
        assert_allclose(both[:, 1], m.quantile(0.4, 0.3)[:, 1])

    def test_steps_hand_worked(self):
        """Weights 1/2, 1/4, 1/4 at 0, 1, 3."""
        m = km.MeanEmbedding([3.0, 0.0, 1.0], [0.25, 0.5, 0.25], km.Gaussian(1.0))
        assert_allclose(m.cdf([-1.0, 0.0, 0.5, 1.0, 3.0, 4.0])[:, 0], [0, 0.5, 0.5, 0.75, 1, 1])

    def test_steps_are_rearranged_between_zero_and_one(self):
        """Cumulative sums 0.6, 1.3, 0.9, 1 are sorted, and cut at 1."""
        m = km.MeanEmbedding([0.0, 1.0, 2.0, 3.0], [0.6, 0.7, -0.4, 0.1], km.Gaussian(1.0))
        assert_allclose(m.cdf([0.0, 1.0, 2.0, 3.0])[:, 0], [0.6, 0.9, 1.0, 1.0])

    def test_points_that_are_equal_are_one_step(self):
        """What their weights sum to before the last of them is no value of F."""
        for order in ([0, 1, 2], [1, 2, 0]):
            x, w = np.array([0.0, 0.0, 1.0])[order], np.array([1.5, -1.0, 0.5])[order]
            m = km.MeanEmbedding(x, w, km.Gaussian(1.0))
            assert_allclose(m.cdf([0.0, 1.0])[:, 0], [0.5, 1.0])
            assert_allclose(m.quantile([0.4, 0.9])[:, 0], [0.0, 1.0])

    def test_steps_are_inverted_by_quantile(self):
        m, levels = line_batch(), np.linspace(0.05, 0.95, 19)
        for i in range(3):
            q = m[i].quantile(levels)
            assert (m[i].cdf(q)[:, 0] >= levels - 1e-12).all()
            assert (m[i].cdf(q - 1e-9)[:, 0] <= levels + 1e-12).all()

    @pytest.mark.parametrize("kind", ["central", "shortest"])
    def test_intervals_hold_their_mass(self, kind):
        m = line_batch()
        lower, upper = m.interval(0.8, kind, 0.3)
        assert lower.shape == upper.shape == (3, 1)
        for i in range(3):
            F = m.cdf([lower[i, 0], upper[i, 0]], 0.3)[i, :, 0]
            assert np.diff(F)[0] == pytest.approx(0.8, abs=1e-6)
            if kind == "central":
                assert F[0] == pytest.approx(0.1, abs=1e-6)

    def test_region_is_wider_than_nothing_and_no_wider_than_the_shortest_interval(self):
        m = line_batch()
        lower, upper = m.interval(0.8, "shortest", None)
        regions = m.region(0.8)
        assert isinstance(regions, list)
        # the batch's default bandwidth is one for all: the same in both
        for ends, a, b in zip(regions, lower[:, 0], upper[:, 0], strict=True):
            assert (np.diff(ends.ravel()) > 0).all()
            assert (ends[:, 1] - ends[:, 0]).sum() <= b - a + 1e-6
        assert m[0].region(0.8, 0.3).shape[1] == 2

    @pytest.mark.parametrize("kernel", [km.Periodic(1.0), km.Delta()], ids=repr)
    def test_kernels_without_a_distribution_function_say_so(self, kernel):
        m = km.MeanEmbedding([0.0, 1.0], kernel=kernel)
        assert m.cdf([0.5])[0, 0] == 0.5
        for ask in (
            lambda: m.cdf([0.5], 0.3),
            lambda: m.quantile(0.5, 0.3),
            lambda: m.region(0.5, 0.3),
        ):
            with pytest.raises(ValueError, match=type(kernel).__name__):
                ask()

    @pytest.mark.parametrize("bad", [-1.0, np.nan, "x", True, (0.1, 0.2, 0.3), (0.1, -0.2)])
    def test_bad_bandwidths_are_refused(self, bad):
        m = plane()
        for ask in (
            lambda h: m.quantile(0.5, h),
            lambda h: m.cdf(m.points, h),
            lambda h: m.interval(0.5, bandwidth=h),
            lambda h: m.density(m.points, h),
            lambda h: m.sample(3, bandwidth=h),
        ):
            with pytest.raises(ValueError, match="^bandwidth"):
                ask(bad)

    def test_bad_questions_are_refused(self):
        m, one = plane(), line_batch()
        for ask, name in [
            (lambda: m.interval(0.5, "widest", 0.3), "kind"),
            (lambda: m.interval(0.5, "shortest", 0.0), "bandwidth"),
            (lambda: m.interval(0.5, "shortest", (0.3, 0.0)), "bandwidth"),
            (lambda: m.region(), "columns"),
            (lambda: one.region(1.5), "level"),
            (lambda: one.region(0.5, 0.0), "bandwidth"),
            (lambda: m.cdf([0.0, 1.0]), "Y has 1 column"),
            (lambda: m.cdf([[0.0, np.nan]]), "Y"),
        ]:
            with pytest.raises(ValueError, match=name):
                ask()

    def test_other_array_libraries(self):
        xp = pytest.importorskip("array_api_strict")
        m = line_batch()
        theirs = km.MeanEmbedding(xp.asarray(m.points), xp.asarray(m.weights), m.kernel)
        y = np.linspace(-1, 1, 5)
        for ask in (
            lambda m, y: m.density(y, 0.3),
            lambda m, y: m.log_density(y, 5.0),
            lambda m, y: m.cdf(y, 0.3),
            lambda m, y: m.cdf(y),
            lambda m, y: m.quantile([0.2, 0.5], 0.3),
            lambda m, y: m.interval(0.5, "shortest", 0.3)[0],
            lambda m, y: m.region(0.5, 0.3)[1],
            lambda m, y: m.negative_mass(0.3)[0],
            lambda m, y: m.sample(4, 0),
        ):
            got = ask(theirs, xp.asarray(y))
            assert type(got) is type(xp.asarray(y))
            assert_allclose(np.asarray(got), ask(m, y), atol=1e-9)


class TestMarginal:
    def test_keeps_weights_and_takes_columns_in_order(self):
        m = plane(members=3, d=3, kernel=km.Gaussian((0.4, 0.7, 1.0)))
        both = m.marginal([2, 0])
        assert_array_equal(both.points, m.points[:, [2, 0]])
        assert_array_equal(both.weights, m.weights)
        assert both.kernel == km.Gaussian((1.0, 0.4))
        assert m.marginal(1).kernel == km.Gaussian((0.7,))
        assert plane().marginal(1).kernel == km.Gaussian(0.5)

    def test_integrates_the_joint_density_of_positive_weights(self, rng):
        m = km.MeanEmbedding(rng.normal(size=(20, 2)), kernel=km.Gaussian(0.5))
        t = np.linspace(-9, 9, 721)
        joint = m.density(np.stack([np.full_like(t, 0.3), t], axis=1), 0.4)
        assert m.marginal(0).density([0.3], 0.4)[0] == pytest.approx(np.trapezoid(joint, t))

    def test_of_columns_with_kernels_of_their_own(self):
        kernel = km.on_columns({(2, 0): km.Gaussian((2.0, 0.5)), 1: km.Periodic(1.0, period=24.0)})
        m = plane(d=3, kernel=kernel)
        last = m.marginal([1, 2])
        assert_allclose(
            last.kernel(last.points),
            km.Gaussian(2.0)(m.points[:, [2]]) * km.Periodic(1.0, period=24.0)(m.points[:, [1]]),
        )
        assert m.marginal(1).kernel == km.Periodic(1.0, period=24.0)

    def test_of_angles_keeps_the_period(self):
        m = plane(kernel=km.Periodic((0.5, 0.6), period=(24.0, 360.0)))
        assert m.marginal(1).kernel == km.Periodic((0.6,), period=(360.0,))

    def test_of_other_kernels_is_refused_unless_it_is_all(self):
        m = plane(kernel=km.Linear())
        assert m.marginal([0, 1]).kernel == km.Linear()
        with pytest.raises(ValueError, match="Linear"):
            m.marginal(0)

    @pytest.mark.parametrize("bad", [2, -1, [0, 0], [], [0, 5], 0.5, "x", None])
    def test_bad_columns_are_refused(self, bad):
        with pytest.raises(ValueError, match="columns"):
            plane().marginal(bad)


def test_shortest_intervals_are_those_of_the_density():
    """Laws without a bandwidth, of filters say, asked for one that their verb does not take."""
    rng = np.random.default_rng(0)
    m = km.MeanEmbedding(rng.exponential(size=200), np.full(200, 1 / 200), km.Gaussian(1.0))
    assert m.bandwidth is None
    found = m.interval(0.8, kind="shortest")
    assert_allclose(found, m.interval(0.8, "shortest", None))
    central = m.interval(0.8)
    assert found.upper - found.lower < central.upper - central.lower
    with pytest.raises(ValueError, match="bandwidth is 0; shortest"):
        m.interval(0.8, "shortest", 0.0)
    with pytest.raises(ValueError, match="bandwidth is 'wide'; it must be one of"):
        m.interval(0.8, "shortest", "wide")


@pytest.mark.parametrize("laws", ["ConditionalEmbedding", "KernelBayes"])
def test_shortest_intervals_of_laws_whose_quantiles_are_steps(laws):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (150, 1))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.exponential(size=150)
    model = getattr(km, laws)().fit(X, y)
    law = (model.at if laws == "ConditionalEmbedding" else model.posterior)([[0.5]])
    lower, upper = law.interval(0.8, kind="shortest")
    grid = np.linspace(lower.item(), upper.item(), 2001)
    assert_allclose(np.trapezoid(law.density(grid[:, None])[0], grid), 0.8, atol=2e-3)
    central = law.interval(0.8, bandwidth=None)
    assert (upper - lower < central.upper - central.lower).all()


def test_intervals_take_the_kind_before_the_bandwidth():
    """As laws of estimators do; for one version a bandwidth may stand second, with a warning."""
    m = plane()
    law = LawOf(m)
    for kind in ("central", "shortest"):
        assert_array_equal(law.interval(0.8, kind), m.interval(0.8, kind, 0.3))
        assert_array_equal(m.interval(0.8, kind, 0.3), m.interval(0.8, kind=kind, bandwidth=0.3))
    for old, new in [
        ((0.3,), {"bandwidth": 0.3}),
        ((0.3, "shortest"), {"kind": "shortest", "bandwidth": 0.3}),
        (((0.3, 0.6), "central"), {"bandwidth": (0.3, 0.6)}),
        ((None, "shortest"), {"kind": "shortest", "bandwidth": None}),
        (("own", "shortest"), {"kind": "shortest"}),
    ]:
        with pytest.warns(FutureWarning, match="is now bandwidth="):
            found = m.interval(0.8, *old)
        assert_array_equal(found, m.interval(0.8, **new))


class LawOf(Law):
    """An embedding with a bandwidth, as estimators answer with."""

    bandwidth = 0.3

    def __init__(self, embedding: km.MeanEmbedding):
        self._embedding = embedding

    @property
    def embedding(self) -> km.MeanEmbedding:
        return self._embedding

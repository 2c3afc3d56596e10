"""From embeddings back to points: preimages, herding, quantiles and samples."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean import recovery

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


def preimage(m: km.MeanEmbedding, pull, n_starts: int = 10) -> np.ndarray:
    """The fixed point of Mika et al. (1999) from each of the best points, one start at a time."""
    X, w = m.points, m.weights
    starts = X[np.argsort(distance(m, X), kind="stable")[:n_starts]]
    ends = []
    for x in starts:
        for _ in range(200):
            g = w * pull(X, x[None])[:, 0]
            x = g @ X / g.sum() if abs(g.sum()) > 1e-12 else x
        ends.append(x)
    candidates = np.concatenate([starts, ends])
    return candidates[np.argmin(distance(m, candidates))]


class TestModesOfABatch:
    @pytest.fixture(params=["dense", "low rank"])
    def batch(self, request, rng):
        points = rng.normal(size=(40, 2))
        if request.param == "dense":
            return km.MeanEmbedding(points, rng.normal(0.3, 1, size=(13, 40)), km.Gaussian(0.8))
        left, right = rng.normal(0.3, 1, size=(13, 4)), rng.normal(0.3, 1, size=(40, 4))
        return km.MeanEmbedding._of(points, left, right, km.Gaussian(0.8))

    def test_equal_the_textbook_iteration(self, batch):
        got = batch.mode()
        assert got.shape == (13, 2)
        for i in range(13):
            assert_allclose(got[i], preimage(batch[i], batch.kernel), atol=1e-8)

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
        monkeypatch.setattr(recovery, "block_rows", lambda width: 5)
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
        q = np.maximum(m.density(middles, bandwidth=0.5), 0)
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

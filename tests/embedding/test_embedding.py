"""Mean embeddings: weighted sums against loops, distances against dense formulas, and
immutability.
"""

from __future__ import annotations

import warnings

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km

KERNEL = km.Gaussian(0.8)


def gram(X, Y=None) -> np.ndarray:
    return oracles.gram(oracles.gaussian, X, Y, lengthscale=0.8)


@pytest.fixture
def points(rng) -> np.ndarray:
    return rng.normal(size=(12, 2))


@pytest.fixture
def weights(rng) -> np.ndarray:
    """Signed, summing to one."""
    w = rng.normal(size=12)
    return w + (1 - w.sum()) / 12


@pytest.fixture
def batch(rng) -> np.ndarray:
    W = rng.normal(size=(4, 12))
    return W + (1 - W.sum(axis=1, keepdims=True)) / 12


class TestHandWorked:
    """Half at 0, a quarter each at 1 and 3."""

    m = km.MeanEmbedding([0.0, 1.0, 3.0], [0.5, 0.25, 0.25], kernel=km.Delta())

    def test_mean(self):
        assert_allclose(self.m.mean(), [1.0])

    def test_covariance(self):
        assert_allclose(self.m.cov(), [[1.5]])  # (0 + 1 + 9)/4 - 1

    def test_expectation(self):
        assert_allclose(self.m.expectation(lambda x: x[:, 0] ** 2), 2.5)

    def test_delta_kernel_gives_probabilities(self):
        assert_allclose(self.m([0.0, 1.0, 2.0, 3.0]), [0.5, 0.25, 0.0, 0.25])

    def test_inner_product_is_the_sum_of_squared_probabilities(self):
        assert_allclose(self.m.inner(self.m), 0.25 + 2 / 16)

    def test_mmd_to_a_point_mass(self):
        other = km.MeanEmbedding([0.0], kernel=km.Delta())
        assert_allclose(self.m.mmd(other), np.sqrt(0.5**2 + 2 / 16))


class TestSingle:
    def test_equal_weights_by_default(self, points):
        m = km.MeanEmbedding(points, kernel=KERNEL)
        assert_allclose(m.weights, np.full(12, 1 / 12))
        assert_allclose(m.mean(), points.mean(axis=0))

    def test_evaluation(self, points, weights, rng):
        Y = rng.normal(size=(5, 2))
        expected = [
            sum(w * gram([x], [y])[0, 0] for w, x in zip(weights, points, strict=True)) for y in Y
        ]
        assert_allclose(km.MeanEmbedding(points, weights, KERNEL)(Y), expected, rtol=1e-10)

    def test_mean_and_covariance(self, points, weights):
        m = km.MeanEmbedding(points, weights, KERNEL)
        assert_allclose(m.mean(), oracles.weighted_mean(weights, points), rtol=1e-10)
        assert_allclose(m.cov(), oracles.weighted_covariance(weights, points), atol=1e-10)

    def test_mean_is_normalised_by_the_sum_of_weights(self, points, weights):
        m = km.MeanEmbedding(points, 7 * weights, KERNEL)
        assert_allclose(m.mean(), oracles.weighted_mean(weights, points), rtol=1e-10)
        assert_allclose(m.cov(), oracles.weighted_covariance(weights, points), atol=1e-10)

    def test_expectation_is_not_normalised(self, points, weights):
        m = km.MeanEmbedding(points, 7 * weights, KERNEL)
        assert_allclose(m.expectation(lambda x: np.ones(len(x))), 7.0, rtol=1e-10)

    def test_covariance_with_signed_weights_is_clipped_to_semidefinite(self):
        """Weights -1/2, 2, -1/2 at -2, 0, 2: the raw variance is -4 along x; along y it is left
        alone.
        """
        points = [[-2.0, 0.0], [0.0, -1.0], [0.0, 1.0], [2.0, 0.0]]
        m = km.MeanEmbedding(points, [-0.5, 1.0, 1.0, -0.5], KERNEL)
        assert_allclose(m.cov(), [[0.0, 0.0], [0.0, 2.0]], atol=1e-12)

    @pytest.mark.parametrize("units", [[1.0, 1e3, 1.0], [1e-8, 1.0, 1e8]])
    def test_covariance_with_signed_weights_does_not_depend_on_units(self, rng, units):
        points, w, units = rng.normal(size=(6, 3)), rng.normal(size=(5, 6)), np.array(units)
        w /= w.sum(axis=1, keepdims=True)
        one, other = (km.MeanEmbedding(x, w, km.Gaussian(1.0)) for x in (points, points * units))
        assert_allclose(other.cov() / np.outer(units, units), one.cov(), atol=1e-8)

    def test_covariance_keeps_its_digits_far_from_the_origin(self, rng):
        X = 1e7 + rng.normal(size=(200, 2))
        C = km.MeanEmbedding(X, kernel=KERNEL).cov()
        assert_allclose(C, np.cov((X - 1e7).T, bias=True), rtol=1e-6)

    @pytest.mark.parametrize(
        ("f", "shape"),
        [(lambda x: x[:, 0], ()), (lambda x: np.column_stack([x, x**2, x[:, :1]]), (5,))],
    )
    def test_expectation_shapes(self, points, weights, f, shape):
        got = km.MeanEmbedding(points, weights, KERNEL).expectation(f)
        assert np.shape(got) == shape
        assert_allclose(got, weights @ f(points), rtol=1e-10)

    def test_normalised(self, points, weights):
        m = km.MeanEmbedding(points, 3 * weights, KERNEL).normalised()
        assert isinstance(m, km.MeanEmbedding)
        assert_allclose(m.weights, weights, rtol=1e-10)

    def test_weights_that_sum_to_zero_warn_and_stay_finite(self):
        m = km.MeanEmbedding([0.0, 1.0], [1.0, -1.0], KERNEL)
        with pytest.warns(km.NumericalWarning):
            assert np.isfinite(m.mean()).all()
        with pytest.warns(km.NumericalWarning):
            assert np.isfinite(m.cov()).all()

    def test_density_is_the_weighted_average_of_normal_densities(self, points, weights, rng):
        from scipy.stats import multivariate_normal as normal

        Y = rng.normal(size=(5, 2))
        for scale, gamma in [(1.0, 0.3), (1.0, 0.8), (7.0, 0.3)]:
            cov = gamma**2 * np.eye(2)
            expected = [
                sum(w * normal.pdf(y, x, cov) for w, x in zip(weights, points, strict=True))
                for y in Y
            ]
            m = km.MeanEmbedding(points, scale * weights, KERNEL)
            got = m.density(Y, bandwidth=gamma, signed=True)
            assert_allclose(got, expected, rtol=1e-9)

    def test_density_by_default_follows_silvermans_rule(self, rng):
        """One column: gamma = (4/3)^(1/5) n^(-1/5) sigma, sigma from the middle 68%."""
        X = rng.normal(size=(50, 1))
        low, high = np.quantile(X, [0.159, 0.841], method="inverted_cdf")
        gamma = (4 / 3) ** 0.2 * 50**-0.2 * (high - low) / 2
        m, Y = km.MeanEmbedding(X, kernel=KERNEL), np.linspace(-2, 2, 9)
        assert_allclose(m.density(Y), m.density(Y, bandwidth=gamma), rtol=1e-10)

    def test_density_recovers_the_truth(self):
        X = np.random.default_rng(0).normal(size=5000)
        Y = np.linspace(-2, 2, 9)
        truth = np.exp(-(Y**2) / 2) / np.sqrt(2 * np.pi)
        # kernel density estimate of 5,000 points: two hundredths
        assert_allclose(km.MeanEmbedding(X).density(Y), truth, atol=0.025)

    def test_median_lengthscale_is_that_of_the_points(self, points):
        assert km.MeanEmbedding(points).kernel == km.Gaussian(km.median_lengthscale(points))


class TestGeometry:
    @pytest.fixture
    def other(self, rng) -> tuple[np.ndarray, np.ndarray]:
        return rng.normal(size=(7, 2)) + 0.5, rng.normal(size=7)

    def test_inner(self, points, weights, other):
        U, v = other
        got = km.MeanEmbedding(points, weights, KERNEL).inner(km.MeanEmbedding(U, v, KERNEL))
        assert_allclose(got, weights @ gram(points, U) @ v, rtol=1e-10)

    def test_mmd(self, points, weights, other):
        U, v = other
        w = weights
        squared = w @ gram(points) @ w - 2 * w @ gram(points, U) @ v + v @ gram(U) @ v
        got = km.MeanEmbedding(points, w, KERNEL).mmd(km.MeanEmbedding(U, v, KERNEL))
        assert_allclose(got, np.sqrt(squared), rtol=1e-9)

    def test_mmd_to_itself_is_zero(self, points, weights):
        m = km.MeanEmbedding(points, weights, KERNEL)
        assert_allclose(m.mmd(m), 0.0, atol=1e-7)  # the root of a rounding error of 1e-15

    def test_mmd_of_two_normal_samples_is_near_its_closed_form(self):
        """N(0,1) and N(1,1), l = 1: MMD^2 = 2/sqrt(3) (1 - exp(-1/6))."""
        rng = np.random.default_rng(0)
        a, b = (
            km.MeanEmbedding(rng.normal(size=2000) + s, kernel=km.Gaussian(1.0)) for s in (0, 1)
        )
        # standard error of an MMD of 2,000 points: about 1/sqrt(2000) = 0.022
        assert_allclose(a.mmd(b), np.sqrt(2 / np.sqrt(3) * (1 - np.exp(-1 / 6))), atol=0.07)

    def test_batches(self, points, batch, weights, other):
        U, v = other
        many, one = km.MeanEmbedding(points, batch, KERNEL), km.MeanEmbedding(U, v, KERNEL)
        assert_allclose(many.inner(one), batch @ gram(points, U) @ v, rtol=1e-9)
        assert_allclose(one.inner(many), batch @ gram(points, U) @ v, rtol=1e-9)
        assert_allclose(many.inner(many), batch @ gram(points) @ batch.T, rtol=1e-9)
        assert many.mmd(one).shape == one.mmd(many).shape == (4,)
        assert_allclose(many.mmd(one), [many[i].mmd(one) for i in range(4)], rtol=1e-8)
        assert_allclose(one.mmd(many), many.mmd(one), rtol=1e-8)
        assert many.mmd(many).shape == (4, 4)
        assert_allclose(many.mmd(many).diagonal(), 0.0, atol=1e-6)
        assert_allclose(many.mmd(many)[0, 1], many[0].mmd(many[1]), rtol=1e-8)

    def test_two_batches_of_different_size(self, points, batch):
        many = km.MeanEmbedding(points, batch, KERNEL)
        assert many.mmd(many[:2]).shape == (4, 2)
        assert_allclose(many.mmd(many[:2])[3, 1], many[3].mmd(many[1]), rtol=1e-8)

    def test_other_kernels_are_refused(self, points):
        m, other = (
            km.MeanEmbedding(points, kernel=KERNEL),
            km.MeanEmbedding(points, kernel=km.Gaussian(1.0)),
        )
        for verb in (m.inner, m.mmd):
            with pytest.raises(ValueError, match="kernel"):
                verb(other)

    def test_other_columns_are_refused(self, points):
        with pytest.raises(ValueError, match="column"):
            km.MeanEmbedding(points, kernel=KERNEL).inner(km.MeanEmbedding([0.0], kernel=KERNEL))

    @pytest.mark.parametrize("bad", [None, 3, np.zeros((2, 2)), "m"])
    def test_what_is_no_embedding_is_refused(self, points, bad):
        with pytest.raises(ValueError, match="other"):
            km.MeanEmbedding(points, kernel=KERNEL).inner(bad)


class TestKernelsChosenFromThePoints:
    """MMD of two samples with the kernel asked for alike: the lengthscale is that of both."""

    @pytest.fixture
    def samples(self):
        rng = np.random.default_rng(6)
        return rng.normal(0, 1, (40, 2)), rng.normal(0.5, 2, (30, 2))

    @staticmethod
    def dense(A, B, k) -> float:
        a, b = np.full(len(A), 1 / len(A)), np.full(len(B), 1 / len(B))
        return float(a @ k(A) @ a - 2 * a @ k(A, B) @ b + b @ k(B) @ b)

    @pytest.mark.parametrize("kernel", ["gaussian", km.Laplace(), km.Gaussian(columnwise=True)])
    def test_is_that_of_the_pooled_median(self, samples, kernel):
        A, B = samples
        pooled = km.as_kernel(kernel).resolve(np.vstack(samples))
        m, other = (km.MeanEmbedding(S, kernel=kernel) for S in samples)
        assert m.kernel != other.kernel
        assert_allclose(m.mmd(other) ** 2, self.dense(A, B, pooled), rtol=1e-9)
        assert_allclose(m.inner(other), pooled(A, B).mean(), rtol=1e-12)
        assert m.mmd(other) == pytest.approx(other.mmd(m), rel=1e-12)

    def test_does_not_depend_on_which_comes_first_where_rows_are_drawn(self):
        rng = np.random.default_rng(7)
        m, other = (km.MeanEmbedding(rng.normal(i, 1, (900, 1))) for i in (0, 1))
        assert m.mmd(other) == pytest.approx(other.mmd(m), rel=1e-12)

    def test_is_chosen_again_for_batches(self, samples):
        A, B = samples
        w = np.random.default_rng(8).dirichlet(np.ones(40), size=3)
        many, one = km.MeanEmbedding(A, w), km.MeanEmbedding(B)
        assert_allclose(many.mmd(one), [many[i].mmd(one) for i in range(3)], rtol=1e-9)

    def test_on_columns_by_name(self, samples):
        pd = pytest.importorskip("pandas")
        k = km.on_columns({"b": km.Gaussian(), "a": km.Laplace(1.0)})
        frames = [pd.DataFrame(S, columns=["a", "b"]) for S in samples]
        m, other = (km.MeanEmbedding(f, kernel=k) for f in frames)
        pooled = k.bind(["a", "b"]).resolve(np.vstack(samples))
        assert_allclose(m.mmd(other) ** 2, self.dense(*samples, pooled), rtol=1e-9)

    def test_other_kernels_are_refused(self, samples):
        m = km.MeanEmbedding(samples[0])
        for kernel in (km.Gaussian(1.0), "laplace", m.kernel.scaled(2.0)):
            with pytest.raises(ValueError, match="same resolved kernel"):
                m.mmd(km.MeanEmbedding(samples[1], kernel=kernel))

    def test_survives_a_file(self, samples, tmp_path):
        m, other = (km.MeanEmbedding(S) for S in samples)
        m.save(tmp_path / "m.km")
        assert km.load(tmp_path / "m.km").mmd(other) == m.mmd(other)

    def test_precomputed(self, samples):
        gram = km.Gaussian(1.0)(np.vstack(samples))
        rows = np.arange(40), np.arange(40, 70)
        m, other = (km.MeanEmbedding(r, kernel=km.Precomputed(gram)) for r in rows)
        assert_allclose(m.mmd(other) ** 2, self.dense(*samples, km.Gaussian(1.0)), rtol=1e-9)
        with pytest.raises(ValueError, match="same resolved kernel"):
            m.mmd(km.MeanEmbedding(rows[1], kernel=km.Precomputed(2 * gram)))


class TestBatch:
    def test_a_batch_is_its_members(self, points, batch, rng):
        Y = rng.normal(size=(5, 2))
        many = km.MeanEmbedding(points, batch, KERNEL)
        ones = [km.MeanEmbedding(points, w, KERNEL) for w in batch]
        verbs = {
            "mean": lambda m: m.mean(),
            "covariance": lambda m: m.cov(),
            "values": lambda m: m(Y),
            "density": lambda m: m.density(Y, bandwidth=0.4, signed=True),
            "one expectation": lambda m: m.expectation(lambda x: x[:, 0]),
            "two expectations": lambda m: m.expectation(lambda x: x),
            "normalised": lambda m: m.normalised().weights,
            "mode": lambda m: m.mode(),
            "quantile": lambda m: m.quantile([0.1, 0.5]),
            "interval": lambda m: np.stack(m.interval(0.5), axis=-1),
            "herd": lambda m: m.herd(3),
        }
        for name, verb in verbs.items():
            assert_allclose(
                verb(many), np.stack([verb(m) for m in ones]), rtol=1e-8, atol=1e-10, err_msg=name
            )

    def test_members_can_be_picked(self, points, batch):
        many = km.MeanEmbedding(points, batch, KERNEL)
        assert len(many) == 4
        assert_allclose(many[2].weights, batch[2])
        assert_allclose(many[1:3].weights, batch[1:3])
        assert [m.weights.shape for m in many] == [(12,)] * 4

    def test_a_single_embedding_has_no_members(self, points):
        m = km.MeanEmbedding(points, kernel=KERNEL)
        with pytest.raises(TypeError):
            len(m)
        with pytest.raises(TypeError):
            m[0]

    def test_a_batch_of_one_stays_a_batch(self, points, batch):
        m = km.MeanEmbedding(points, batch[:1], KERNEL)
        assert m.mean().shape == (1, 2)
        assert m.cov().shape == (1, 2, 2)
        assert m(points).shape == (1, 12)


class TestImmutable:
    def test_changing_the_inputs_afterwards_changes_nothing(self, points, weights):
        m = km.MeanEmbedding(points, weights, KERNEL)
        before = m.mean()
        points[0], weights[0] = 100.0, 100.0
        assert_allclose(m.mean(), before)

    @pytest.mark.parametrize("name", ["points", "weights"])
    def test_what_it_hands_out_cannot_change_it(self, points, weights, name):
        m = km.MeanEmbedding(points, weights, KERNEL)
        before = m.mean()
        try:
            getattr(m, name)[0] = 100.0
        except ValueError:  # read-only
            pass
        assert_allclose(m.mean(), before)

    @pytest.mark.parametrize("name", ["points", "weights", "kernel"])
    def test_attributes_cannot_be_set(self, points, name):
        with pytest.raises(AttributeError):
            setattr(km.MeanEmbedding(points, kernel=KERNEL), name, None)

    def test_inputs_are_not_modified(self, points, weights):
        kept = points.copy(), weights.copy()
        m = km.MeanEmbedding(points, 2 * weights, KERNEL)
        m.mean(), m.cov(), m.mode(), m.herd(3), m.normalised(), m.mmd(m), m(points)
        m.quantile(0.5), m.interval(0.5), m.sample(5, 0), m.density(points)
        assert_array_equal(points, kept[0])
        assert_array_equal(weights, kept[1])


def test_one_dimensional_points_are_a_column():
    m = km.MeanEmbedding([0.0, 2.0], kernel=KERNEL)
    assert m.points.shape == (2, 1)
    assert m.mean().shape == (1,)


def test_a_data_frame_keeps_working():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 5.0]})
    m = km.MeanEmbedding(frame, kernel=km.on_columns({"a": km.Gaussian(), "b": km.Gaussian(2.0)}))
    assert_allclose(m.mean(), [1.0, 2.0])
    assert m(frame.to_numpy()).shape == (3,)


def test_many_points_are_summed_in_blocks(rng):
    """More pairs than one block holds: the answer does not change."""
    X, Y = rng.normal(size=(3000, 1)), rng.normal(size=(4000, 1))
    m = km.MeanEmbedding(X, kernel=KERNEL)
    expected = KERNEL(Y, X).mean(axis=1)
    assert_allclose(m(Y), expected, rtol=1e-10)


@pytest.mark.parametrize(
    "weights", [np.ones(3), np.ones((2, 5)), np.ones((2, 2, 2)), [np.nan, 1.0], "w", [1j, 1]]
)
def test_weights_that_do_not_fit_are_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        km.MeanEmbedding([0.0, 1.0], weights, KERNEL)


def test_an_expectation_of_the_wrong_length_is_refused(points):
    with pytest.raises(ValueError, match="f"):
        km.MeanEmbedding(points, kernel=KERNEL).expectation(lambda x: np.ones(3))


def test_no_warnings_on_healthy_input(points, weights):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m = km.MeanEmbedding(points, weights, KERNEL)
        m.mean(), m.cov(), m.mode(), m.herd(5), m.mmd(m)


def test_repr_says_what_it_is(points, batch):
    assert "12" in repr(km.MeanEmbedding(points, kernel=KERNEL))
    assert "4" in repr(km.MeanEmbedding(points, batch, KERNEL))


class TestTilted:
    """Another prior for a posterior: densities multiplied by a factor."""

    POINTS = np.array([[-1.0], [0.0], [2.0]])

    def test_weights_times_factors(self):
        m = km.MeanEmbedding(self.POINTS, [[0.5, 0.25, 0.25], [0.7, 0.5, -0.2]], km.Gaussian(1.0))
        found = m.tilted(lambda x: x[:, 0] + 2.0)
        expected = np.array([[0.5, 0.5, 1.0], [0.7, 1.0, -0.8]])
        assert_allclose(found.weights, expected / expected.sum(axis=1, keepdims=True))
        assert_allclose(found[0].total(), 1.0)
        assert_allclose(m.tilted(lambda x: np.exp(-(x[:, 0] ** 2))).weights.sum(axis=1), 1.0)

    def test_a_constant_does_not_matter_and_keeps_the_bandwidth(self):
        m = km.MeanEmbedding(self.POINTS, [0.5, 0.75, -0.25], km.Gaussian(1.0)).carrying(0.3)
        found = m.tilted(lambda x: np.full(len(x), 7.0))
        assert_allclose(found.weights, m.weights)
        assert found.bandwidth == 0.3

    def test_gaussians_multiply(self):
        """N(0, 1) times exp(x) is N(1, 1) up to a constant."""
        grid = np.linspace(-6, 6, 400)
        m = km.MeanEmbedding(grid, np.exp(-0.5 * grid**2), km.Gaussian(1.0))
        found = m.tilted(lambda x: np.exp(x[:, 0]))
        assert_allclose(found.mean(), [1.0], atol=1e-5)
        assert_allclose(found.std(), [1.0], atol=1e-4)

    def test_weights_that_cancel_are_left_out(self):
        m = km.MeanEmbedding(self.POINTS, [0.5, 0.75, -0.25], km.Gaussian(1.0))
        found = m.tilted(lambda x: np.array([0.1, 0.0, 5.0]))
        assert_allclose(found.weights, [1.0, 0.0, 0.0])

    @pytest.mark.parametrize("bad", [-1.0, np.nan, 0.0])
    def test_refusals(self, bad):
        m = km.MeanEmbedding(self.POINTS, kernel=km.Gaussian(1.0))
        with pytest.raises(ValueError, match="factor"):
            m.tilted(lambda x: np.full(len(x), bad))

    def test_laws_around_a_location_are_tilted_where_they_lie(self, rng):
        X = rng.normal(size=(60, 1))
        Y = 3 * X + rng.normal(size=(60, 1))
        model = km.ConditionalDensity(km.Gaussian(1.0), 0.5, 1e-2, location=True).fit(X, Y)
        rows = np.array([[-1.0], [1.0]])
        both = model.at(rows).tilted(lambda y: np.exp(-0.5 * y[:, 0] ** 2))
        for b in (0, 1):
            one = model.at(rows)[b].tilted(lambda y: np.exp(-0.5 * y[:, 0] ** 2))
            assert_allclose(both.mean()[b], one.mean())
            assert_allclose(both.quantile(0.9)[b], one.quantile(0.9), atol=1e-6)


@pytest.mark.parametrize(("members", "columns"), [(1, 60), (60, 1), (60, 60), (3, 60)])
def test_weights_of_low_rank_sum_as_whole_ones(rng, members, columns):
    left, right = rng.normal(size=(members, 8)), rng.normal(size=(50, 8))
    values = rng.normal(size=(50, columns))
    laws = km.MeanEmbedding.of_parts(rng.normal(size=(50, 2)), left, right, km.Gaussian(1.0))
    assert_allclose(laws.apply_weights(values), left @ right.T @ values, rtol=1e-10, atol=1e-10)
    assert_allclose(laws[0].apply_weights(values), left[0] @ right.T @ values, atol=1e-10)
    assert_allclose(laws.apply_weights(values[:, 0]), left @ right.T @ values[:, 0], atol=1e-10)

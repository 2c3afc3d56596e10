"""Feature maps: inner products of coordinates are kernel values."""

from __future__ import annotations

import re
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigvalsh
from sklearn.datasets import load_digits, make_blobs, make_swiss_roll
from sklearn.gaussian_process import kernels as sk
from sklearn.kernel_approximation import Nystroem as UniformNystroem

import kernelmean as km
from kernelmean.core.summary import kernel_lines
from kernelmean.features.base import Beside


@pytest.fixture(scope="module")
def cloud() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(400, 2))


def maps() -> list:
    return [km.Nystroem(tol=1e-10), km.Exact(), km.RandomFourier(200)]


def test_coordinates_beside_others_are_of_the_sum_of_kernels(cloud):
    one, other = (
        km.Nystroem(tol=1e-8).fit(cloud[:60], kernel=km.on_columns({(j,): km.Gaussian(s)}))
        for j, s in ((0, 0.7), (1, 1.3))
    )
    both = Beside(one, other)
    Phi, X = both.transform(cloud[:50]), cloud[:50]
    assert_allclose(Phi @ Phi.T, one.kernel_(X, X) + other.kernel_(X, X), atol=1e-5)
    assert_allclose(Phi @ Phi.T, both.kernel_(X, X), atol=1e-5)
    for j, step in enumerate(1e-6 * np.eye(2)):
        slopes = (both.transform(X + step) - both.transform(X - step)) / 2e-6
        assert_allclose(both.derivative(X, j), slopes, atol=1e-5)


# ------------------------------------------------------------------------------------ all maps
@pytest.mark.parametrize("make", maps(), ids=lambda m: type(m).__name__)
class TestEveryMap:
    kernel = km.Gaussian(1.0)

    def test_shapes_and_attributes(self, make, cloud):
        Phi = make.fit_transform(cloud, self.kernel)
        assert Phi.shape == (400, make.rank_)
        assert make.transform(cloud[:7]).shape == (7, make.rank_)
        assert make.kernel_ == self.kernel

    def test_transform_of_the_training_rows_is_fit_transform(self, make, cloud):
        Phi = make.fit_transform(cloud, self.kernel)
        # One is built pivot by pivot, the other by one triangular solve with a factor of condition
        # 1e5 to 1e8
        assert_allclose(make.transform(cloud), Phi, atol=1e-5)

    @pytest.mark.parametrize("rows", [2, 60])
    def test_products_with_coordinates(self, make, cloud, rows):
        features = make.fit(cloud, kernel=self.kernel)
        coef = np.random.default_rng(1).normal(size=(features.rank_, 3))
        X = cloud[:rows] + 0.1
        expected = features.transform(X) @ coef
        assert_allclose(features.times(X, coef), expected, atol=1e-6)

    @pytest.mark.parametrize("rows", [2, 60])
    def test_sums_of_coordinates(self, make, cloud, rows):
        features = make.fit(cloud, kernel=self.kernel)
        X, weights = cloud[:rows] + 0.1, np.random.default_rng(1).normal(size=(rows, 3))
        expected = features.transform(X).T @ weights
        assert_allclose(features.sums(X, weights), expected, atol=1e-6)

    def test_fit_returns_the_map_itself(self, make, cloud):
        assert make.fit(cloud, self.kernel) is make

    def test_fitting_again_gives_the_same_numbers(self, make, cloud):
        assert_array_equal(
            make.fit_transform(cloud, self.kernel), make.fit_transform(cloud, self.kernel)
        )

    def test_median_is_resolved(self, make, cloud):
        make.fit(cloud, "gaussian")
        assert make.kernel_ == km.Gaussian().resolve(cloud)

    def test_one_dimensional_input_is_a_column(self, make):
        x = np.linspace(0, 1, 50)
        assert_array_equal(
            make.fit_transform(x, self.kernel), make.fit_transform(x[:, None], self.kernel)
        )

    def test_the_input_is_not_modified(self, make, cloud):
        before = cloud.copy()
        make.fit(cloud, self.kernel).transform(cloud)
        assert_array_equal(cloud, before)

    def test_other_columns_are_refused(self, make, cloud):
        make.fit(cloud, self.kernel)
        with pytest.raises(ValueError, match="X has 5 features, but .* is expecting 2"):
            make.transform(np.ones((3, 5)))

    def test_transform_before_fit_is_refused(self, make):
        from sklearn.base import clone

        with pytest.raises(ValueError, match="fit"):  # NotFittedError is a ValueError
            clone(make).transform(np.ones((3, 2)))

    def test_global_random_state_is_untouched(self, make, cloud):
        np.random.seed(5)
        before = np.random.get_state()[1].copy()
        make.fit(cloud, self.kernel)
        assert_array_equal(np.random.get_state()[1], before)


# ------------------------------------------------------------------------------------ Nystroem
class TestNystroem:
    @pytest.mark.parametrize("columns", [1, 2, 3])
    @pytest.mark.parametrize(
        "kernel", [km.Gaussian(1.0), km.Gaussian(1.0) + km.Linear(1.0)], ids=repr
    )
    def test_reproduces_the_gram_matrix(self, kernel, columns):
        """Issue 2: at tol 1e-10 a Gram matrix to 1e-4."""
        X = np.random.default_rng(columns).normal(size=(500, columns))
        Phi = km.Nystroem(tol=1e-10).fit_transform(X, kernel)
        # trace error < 1e-10 * trace; an entry's error is below the largest diagonal error, below
        # the trace's
        assert np.abs(Phi @ Phi.T - kernel(X)).max() < 1e-4

    def test_rank_on_the_line_is_about_thirteen(self):
        """MATH 1: Gaussian kernel, median lengthscale, one column, tol 1e-6."""
        for seed in range(5):
            X = np.random.default_rng(seed).normal(size=(2000, 1))
            map_ = km.Nystroem(random_state=seed).fit(X, km.Gaussian())
            assert (
                8 <= map_.rank_ <= 20
            )  # proposals are accepted in blocks, so a few more than needed

    @pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
    def test_stops_at_the_tolerance(self, cloud, tol):
        map_ = km.Nystroem(tol=tol).fit(cloud, km.Gaussian(1.0))
        assert map_.lost_trace_ < tol
        assert map_.rank_ < 400

    def test_a_looser_tolerance_gives_fewer_landmarks(self, cloud):
        ranks = [
            km.Nystroem(tol=t).fit(cloud, km.Gaussian(1.0)).rank_ for t in (1e-1, 1e-3, 1e-6, 1e-9)
        ]
        assert ranks == sorted(ranks)
        assert ranks[0] < ranks[-1]

    def test_lost_trace_is_true(self, cloud):
        kernel = km.Gaussian(1.0)
        for tol in (1e-1, 1e-3, 1e-6):
            map_ = km.Nystroem(tol=tol)
            Phi = map_.fit_transform(cloud, kernel)
            true = 1 - np.sum(Phi**2) / np.trace(kernel(cloud))
            assert map_.lost_trace_ == pytest.approx(true, abs=1e-12)

    def test_landmarks_are_rows_of_the_data(self, cloud):
        map_ = km.Nystroem().fit(cloud, km.Gaussian(1.0))
        assert_array_equal(map_.landmarks_, cloud[map_.indices_])
        assert len(set(map_.indices_.tolist())) == map_.rank_

    def test_it_is_the_nystroem_formula(self, cloud):
        """Phi Phi' = K_.S K_SS^-1 K_S. (the projection on the landmarks' span)."""
        kernel = km.Laplace(1.0)  # well conditioned
        map_ = km.Nystroem(tol=0.3)
        Phi = map_.fit_transform(cloud, kernel)
        S = cloud[map_.indices_]
        expected = kernel(cloud, S) @ np.linalg.solve(kernel(S), kernel(S, cloud))
        assert_allclose(Phi @ Phi.T, expected, atol=1e-9)

    def test_new_points_are_projected_on_the_landmarks(self, cloud):
        kernel, new = km.Laplace(1.0), np.random.default_rng(1).normal(size=(20, 2))
        map_ = km.Nystroem(tol=0.3).fit(cloud, kernel)
        S = cloud[map_.indices_]
        expected = kernel(new, S) @ np.linalg.solve(kernel(S), kernel(S, new))
        got = map_.transform(new)
        assert_allclose(got @ got.T, expected, atol=1e-9)

    def test_never_above_the_gram_matrix(self, cloud):
        kernel = km.Matern(1.5, 1.0)
        Phi = km.Nystroem(tol=0.05).fit_transform(cloud, kernel)
        assert eigvalsh(kernel(cloud) - Phi @ Phi.T)[0] > -1e-8

    def test_same_seed_same_numbers(self, cloud):
        a = km.Nystroem(tol=1e-3, random_state=4).fit_transform(cloud, km.Gaussian(1.0))
        b = km.Nystroem(tol=1e-3, random_state=4).fit_transform(cloud, km.Gaussian(1.0))
        assert_array_equal(a, b)

    def test_other_seed_other_landmarks(self, cloud):
        a = km.Nystroem(tol=1e-3, random_state=4).fit(cloud, km.Gaussian(1.0))
        b = km.Nystroem(tol=1e-3, random_state=5).fit(cloud, km.Gaussian(1.0))
        assert set(a.indices_.tolist()) != set(b.indices_.tolist())

    def test_a_generator_is_accepted(self, cloud):
        a = km.Nystroem(tol=1e-3, random_state=np.random.default_rng(4)).fit(
            cloud, km.Gaussian(1.0)
        )
        b = km.Nystroem(tol=1e-3, random_state=4).fit(cloud, km.Gaussian(1.0))
        assert_array_equal(a.indices_, b.indices_)

    def test_max_rank_warns_once_and_says_what_was_lost(self, cloud):
        map_ = km.Nystroem(tol=1e-8, max_rank=10)
        with pytest.warns(km.NumericalWarning, match="max_rank=10") as caught:
            Phi = map_.fit_transform(cloud, km.Gaussian(1.0))
        assert len(caught) == 1
        assert map_.rank_ == 10
        true = 1 - np.sum(Phi**2) / len(cloud)
        assert map_.lost_trace_ == pytest.approx(true)
        numbers = [float(n) for n in re.findall(r"\d+\.?\d*(?:e[-+]?\d+)?", str(caught[0].message))]
        assert any(n == pytest.approx(true, rel=0.06) for n in numbers)  # two significant digits

    def test_no_warning_when_the_tolerance_was_met(self, cloud):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            km.Nystroem(tol=1e-3, max_rank=399).fit(cloud, km.Gaussian(1.0))

    def test_no_warning_when_every_row_is_a_landmark(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            map_ = km.Nystroem(tol=1e-12, max_rank=5).fit(np.arange(5.0), km.Gaussian(0.1))
        assert map_.rank_ == 5
        assert map_.lost_trace_ < 1e-12

    def test_duplicates_are_landmarks_once(self):
        X = np.repeat(np.arange(4.0), 25)
        map_ = km.Nystroem(tol=1e-12)
        Phi = map_.fit_transform(X, km.Gaussian(0.5))
        assert map_.rank_ == 4
        assert_allclose(Phi @ Phi.T, km.Gaussian(0.5)(X), atol=1e-10)

    def test_a_linear_kernel_has_the_rank_of_the_data(self, cloud):
        Phi = km.Nystroem(tol=1e-12).fit_transform(cloud, km.Linear())
        assert Phi.shape[1] == 2
        assert_allclose(Phi @ Phi.T, cloud @ cloud.T, atol=1e-10)

    def test_one_row(self):
        map_ = km.Nystroem()
        assert_allclose(map_.fit_transform([[1.0, 2.0]], km.Gaussian(1.0)) ** 2, [[1.0]])
        assert map_.rank_ == 1

    @pytest.mark.parametrize(
        "bad",
        [
            {"tol": 0.0},
            {"tol": -1e-6},
            {"tol": np.nan},
            {"tol": 1.0},
            {"tol": "x"},
            {"max_rank": 0},
            {"max_rank": 2.5},
            {"max_rank": None},
            {"random_state": "x"},
        ],
    )
    def test_bad_parameters_are_refused_by_name(self, bad, cloud):
        with pytest.raises(ValueError, match=next(iter(bad))):
            km.Nystroem(**bad).fit(cloud, km.Gaussian(1.0))


# ------------------------------------------------------- against uniform landmarks, at equal rank
def _uniform(rng):
    return rng.uniform(size=(600, 2))


def _unbalanced_clusters(rng):
    """One crowd and nine hamlets: uniform landmarks miss the hamlets."""
    sizes = [800] + [8] * 9
    seed = int(rng.integers(2**31))
    return make_blobs(
        sizes, n_features=2, cluster_std=0.3, center_box=(-20, 20), random_state=seed
    )[0]


def _swiss_roll(rng):
    return make_swiss_roll(600, random_state=int(rng.integers(2**31)))[0]


def _heavy_tails(rng):
    return rng.standard_t(2, size=(600, 2))


def _digits(rng):
    return load_digits().data[rng.choice(1797, 600, replace=False)]


@pytest.mark.parametrize(
    "data", [_uniform, _unbalanced_clusters, _swiss_roll, _heavy_tails, _digits]
)
def test_trace_error_is_at_or_below_uniform_landmarks(data):
    """Issue 2, at equal rank, averaged over ten seeds of data and landmarks."""
    ours, theirs, rank = [], [], 40
    for seed in range(10):
        X = data(np.random.default_rng(seed))
        ell = 0.4 * km.median_lengthscale(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", km.NumericalWarning)
            map_ = km.Nystroem(tol=1e-12, max_rank=rank, random_state=seed).fit(X, km.Gaussian(ell))
        assert map_.rank_ == rank
        ours.append(map_.lost_trace_)
        uniform = UniformNystroem(gamma=1 / (2 * ell**2), n_components=rank, random_state=seed)
        theirs.append(1 - np.sum(uniform.fit_transform(X) ** 2) / len(X))
    assert np.mean(ours) <= np.mean(theirs)


def test_close_to_the_best_possible_rank(cloud):
    """Chen et al. 2022: the trace error is within a small factor of the best rank-r
    approximation's.
    """
    kernel = km.Gaussian(0.5)
    values = np.sort(np.linalg.eigvalsh(kernel(cloud)))[::-1]
    errors = []
    for seed in range(10):
        with pytest.warns(km.NumericalWarning):
            map_ = km.Nystroem(tol=1e-12, max_rank=60, random_state=seed).fit(cloud, kernel)
        errors.append(map_.lost_trace_ * len(cloud))
    assert np.mean(errors) < 5 * values[60:].sum()


# --------------------------------------------------------------------------------------- Exact
class TestExact:
    @pytest.mark.parametrize(
        "kernel", [km.Gaussian(1.0), km.Laplace(1.0), km.Matern(1.5, 1.0), km.Linear(1.0)], ids=repr
    )
    def test_reproduces_the_gram_matrix(self, kernel, cloud):
        Phi = km.Exact().fit_transform(cloud, kernel)
        assert_allclose(Phi @ Phi.T, kernel(cloud), atol=1e-8)

    @pytest.mark.parametrize("kernel", [km.Gaussian(1.0), km.Laplace(1.0)], ids=repr)
    def test_new_points_meet_the_training_rows_with_the_kernels_value(self, kernel, cloud):
        """phi(x)'phi(x_i) = k(x, x_i): new points are projected on the span of the data, where x_i
        lives.
        """
        new = np.random.default_rng(1).normal(size=(20, 2))
        map_ = km.Exact()
        Phi = map_.fit_transform(cloud, kernel)
        got = map_.transform(new)
        assert_allclose(got @ Phi[map_.indices_].T, kernel(new, map_.landmarks_), atol=1e-8)
        # the other rows lie in the landmarks' span up to the factor's rounding, 1e-8 in norm
        assert_allclose(got @ Phi.T, kernel(new, cloud), atol=1e-6)

    def test_duplicates_are_landmarks_once(self):
        X = np.repeat(np.arange(4.0), 5)
        map_ = km.Exact()
        Phi = map_.fit_transform(X, km.Gaussian(0.5))
        assert map_.rank_ == 4
        assert_allclose(Phi @ Phi.T, km.Gaussian(0.5)(X), atol=1e-12)

    def test_precomputed(self):
        A = np.random.default_rng(0).normal(size=(30, 5))
        Phi = km.Exact().fit_transform(np.arange(20), km.Precomputed(A @ A.T))
        assert Phi.shape == (20, 5)
        assert_allclose(Phi @ Phi.T, (A @ A.T)[:20, :20], atol=1e-10)


# ------------------------------------------------------------------------------- RandomFourier
SMOOTH = [
    km.Gaussian,
    km.Laplace,
    partial(km.Matern, 1.5),
    partial(km.Matern, 2.5),
    partial(km.Matern, 0.8),
]


class TestRandomFourier:
    @pytest.mark.parametrize("columnwise", [False, True])
    @pytest.mark.parametrize("make", SMOOTH)
    def test_approximates_the_kernel(self, make, columnwise):
        X = np.random.default_rng(0).normal(size=(40, 2))
        kernel = make(lengthscale=(0.7, 1.5), columnwise=columnwise)
        Phi = km.RandomFourier(20_000).fit_transform(X, kernel)
        # 10,000 frequencies: standard error at most 0.01 an entry; five of them for the worst of
        # 780 pairs
        assert np.abs(Phi @ Phi.T - kernel(X)).max() < 0.05

    def test_error_falls_with_the_square_root(self):
        X = np.random.default_rng(0).normal(size=(60, 2))
        kernel = km.Gaussian(0.7)

        def error(n: int) -> float:
            maps = [km.RandomFourier(n, random_state=s).fit_transform(X, kernel) for s in range(10)]
            return np.mean([np.sqrt(np.mean((P @ P.T - kernel(X)) ** 2)) for P in maps])

        # 16 times the features: a quarter of the error; the ratio of two averages of ten is known
        # to 20%
        assert error(100) / error(1600) == pytest.approx(4.0, rel=0.3)
        assert error(1600) < 1 / np.sqrt(800)

    def test_the_diagonal_is_exact(self):
        X = np.random.default_rng(0).normal(size=(40, 2))
        Phi = km.RandomFourier(50).fit_transform(X, km.Laplace(1.0))
        assert_allclose(np.sum(Phi**2, axis=1), 1.0)

    def test_on_columns_and_products(self):
        X = np.random.default_rng(0).normal(size=(40, 3))
        kernel = km.on_columns({0: km.Gaussian(1.0), (1, 2): km.Laplace(1.0) * km.Gaussian(2.0)})
        Phi = km.RandomFourier(20_000).fit_transform(X, kernel)
        assert np.abs(Phi @ Phi.T - kernel(X)).max() < 0.05

    @pytest.mark.parametrize("bad", [0, -2, 3, 2.0, None, "x"])
    def test_bad_numbers_of_features_are_refused(self, bad):
        with pytest.raises(ValueError, match="n_features"):
            km.RandomFourier(bad).fit(np.ones((3, 1)), km.Gaussian(1.0))

    @pytest.mark.parametrize(
        "kernel", [km.Linear(), km.Delta(), km.Gaussian(1.0) + km.Linear()], ids=repr
    )
    def test_kernels_without_a_spectrum_say_so(self, kernel):
        with pytest.raises(ValueError, match="(?i)spectrum|fourier"):
            km.RandomFourier(10).fit(np.arange(3.0), kernel)


@pytest.mark.parametrize("bad", ["nystroem", 5, km.Gaussian(), km.Nystroem])
def test_what_is_no_feature_map_is_refused(bad, xy):
    with pytest.raises(ValueError, match="features"):
        km.ConditionalEmbedding(features=bad).fit(*xy)


def test_scikit_learn_contract():
    from sklearn.base import clone

    map_ = km.Nystroem(tol=1e-3, max_rank=7, random_state=3)
    assert clone(map_).get_params() == {
        "tol": 1e-3,
        "max_rank": 7,
        "random_state": 3,
        "sample": 10_000,
    }
    assert km.RandomFourier().set_params(n_features=10).n_features == 10


def test_a_summary_says_which_kernel_looks_at_which_columns(xy):
    kernel = km.on_columns({(0, 2): km.Gaussian(1 / 3), 1: km.Delta()})
    X = np.column_stack([xy[0], xy[1][:, 0]])
    lines = km.Nystroem().fit(X, kernel).block("Kernel", ["a", "b", "c"]).lines[:3]
    assert [(line.name, line.text) for line in lines] == [
        ("kernel", "Gaussian of a, c; Delta() of b"),
        ("lengthscale of a", "0.3333"),
        ("lengthscale of c", "0.3333"),
    ]


def test_lengthscales_of_a_category_of_many_values_are_one_line():
    names = ["age", *(f"C(shop)[T.{i}]" for i in range(8))]
    lines = kernel_lines(km.Gaussian(np.arange(1.0, 10.0)), names)
    assert [(line.name, line.text) for line in lines] == [
        ("kernel", "Gaussian"),
        ("lengthscale of age", "1"),
        ("lengthscale of C(shop) (9 values)", "2 to 9"),
    ]


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_of_few_rows_the_one_with_the_most_left_is_next(tol):
    """By hand: residuals of the Gram matrix, one pivot after the other, to the tolerance."""
    X, kernel = np.random.default_rng(3).normal(size=(80, 2)), km.Gaussian(0.9)
    K, pivots = kernel(X), []
    while K.trace() > tol * 80:
        i = int(K.diagonal().argmax())
        pivots.append(i)
        K = K - np.outer(K[:, i], K[i]) / K[i, i]
    features = [km.Nystroem(tol, random_state=seed).fit(X, kernel) for seed in (0, 1)]
    for found in features:
        assert found.indices_.tolist() == pivots
        assert_allclose(found.lost_trace_, K.trace() / 80, rtol=1e-6)
    with pytest.warns(km.NumericalWarning, match="max_rank=4"):
        fewer = km.Nystroem(tol, max_rank=4).fit(X, kernel)
    assert fewer.indices_.tolist() == pivots[:4]


class TestNoiseOnTheDiagonal:
    """k(x, x) larger than what points near x have: the residual never falls below the tolerance."""

    X = np.random.default_rng(0).uniform(-2, 2, (150, 1))

    def test_of_scikit_learn(self):
        """Noise has no value between points: it is left out, as λ is there."""
        noisy, smooth = sk.RBF(0.5) + sk.WhiteKernel(0.1), sk.RBF(0.5)
        y = np.sin(self.X[:, 0])
        a, b = (km.ConditionalEmbedding(k).fit(self.X, y) for k in (noisy, smooth))
        assert_allclose(a.predict(self.X), b.predict(self.X))

    def test_a_gram_matrix_without_it(self):
        class Odd(km.kernels.Kernel):
            def gram_of(self, X, Y):
                return km.Gaussian(0.5).gram_of(X, Y)

            def diag_of(self, X):
                return np.full(len(X), 1.1)

        features = km.Nystroem().fit(self.X, Odd())
        assert_allclose(features.lost_trace_, 0.1 / 1.1, rtol=1e-5)
        Phi = features.transform(self.X)
        assert_allclose(Phi @ Phi.T, km.Gaussian(0.5)(self.X), atol=1e-6)


class Stops(km.Kernel):
    """A kernel whose Gram matrix never comes."""

    def gram_of(self, X, Y):
        raise KeyboardInterrupt

    def diag_of(self, X):
        return np.ones(len(X))

    def spectrum(self, n, d, rng):
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["Nystroem", "Exact", "RandomFourier"])
@pytest.mark.parametrize(
    ("settings", "rows", "kernel", "error"),
    [
        ({}, [[0.0, 1.0, np.nan]], km.Gaussian(2.0), ValueError),
        ({}, np.zeros((3, 1)), km.Linear(), ValueError),
        ({}, np.ones((3, 1)), Stops(), KeyboardInterrupt),
        ({"random_state": -1}, np.ones((3, 1)), km.Gaussian(2.0), ValueError),
        ({"tol": 2.0}, np.ones((3, 1)), km.Gaussian(2.0), ValueError),
    ],
    ids=["NaN", "a kernel without size", "Ctrl-C", "a seed", "a tolerance"],
)
def test_a_fit_that_is_refused_or_stopped_leaves_the_one_before(
    name, settings, rows, kernel, error, xy
):
    features, X = getattr(km, name)(), xy[0]
    if not {*settings} <= {*features.get_params()}:
        return
    before = features.fit(X, km.Gaussian(1.0)).transform(X)
    with pytest.raises(error):
        features.set_params(**settings).fit(rows, kernel=kernel)
    assert_array_equal(features.transform(X), before)


def test_nor_does_one_of_rows_elsewhere(xy):
    """The last pass, over all rows, is stopped."""
    features, X, passes = km.Nystroem(), xy[0], []

    class Blocks:
        def __iter__(self):
            passes.append(len(passes))
            yield X[:40] + 1.0
            if len(passes) == stop:
                raise KeyboardInterrupt
            yield X[40:] + 1.0

    stop = 0
    km.Nystroem().fit(km.Rows(Blocks()), kernel=km.Gaussian(2.0))
    stop = 2 * len(passes)
    before = features.fit(X, km.Gaussian(1.0)).transform(X)
    with pytest.raises(KeyboardInterrupt):
        features.fit(km.Rows(Blocks()), kernel=km.Gaussian(2.0))
    assert_array_equal(features.transform(X), before)

"""Laws that every kernel, feature map and rule obeys, whatever its formula."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.spatial.transform
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

import kernelmean as km
from kernelmean.kernels.base import NAMED
from kernelmean.kernels.radial import _Radial

pytestmark = pytest.mark.usefixtures("short_searches")

KERNELS = [
    km.Gaussian(0.8),
    km.Gaussian((0.5, 2.0)),
    km.Gaussian(0.8, columnwise=True),
    km.CorrelatedGaussian((0.5, 2.0), correlation=((1.0, 0.7), (0.7, 1.0))),
    km.Laplace(0.8),
    km.Laplace((0.5, 2.0), columnwise=True),
    km.Matern(1.5, 0.8),
    km.Matern(2.5, 0.8, columnwise=True),
    km.Matern(0.8, 0.8),
    km.Linear(),
    km.Linear(offset=1.0),
    km.Delta(),
    km.Frobenius(),
    km.Gaussian(0.8) + km.Linear(),
    km.Gaussian(0.8) * km.Linear(offset=1.0),
    (km.Gaussian(0.8) + km.Linear()) * km.Laplace(2.0),
    km.on_columns({0: km.Gaussian(0.8), 1: km.Delta()}),
    km.as_kernel(sk.RationalQuadratic()),
    km.as_kernel(lambda A, B: (1 + A @ B.T) ** 3),
    km.Periodic(0.8),
    km.Periodic((0.5, 2.0), period=(1.7, 5.0)),
    km.on_columns({0: km.Gaussian(0.8), 1: km.Periodic(0.8, period=3.5)}),
    km.Rotation(0.8),
    km.Frobenius(rotations=True),
]
SMOOTHING = (km.Gaussian, km.CorrelatedGaussian, km.Laplace, km.Matern)
SMOOTH = [k for k in KERNELS if type(k) in SMOOTHING]
MAPS = [
    km.Nystroem(tol=1e-10),
    km.Nystroem(tol=0.1),
    km.Nystroem(max_rank=5),
    km.Exact(),
    km.RandomFourier(60),
]


SPECTRAL = [*SMOOTH, *(k for k in KERNELS if type(k) in (km.Periodic, km.Rotation))]
PAIRS = [
    (k, m) for k in KERNELS for m in MAPS if k in SPECTRAL or not isinstance(m, km.RandomFourier)
]
PROJECTIONS = [(k, m) for k, m in PAIRS if not isinstance(m, km.RandomFourier)]
FULL_RANK = [(k, m) for k, m in PROJECTIONS if isinstance(m, km.Exact) or m.tol == 1e-10]


def name(thing: object) -> str:
    return re.sub(r" at 0x\w+", "", repr(thing))  # the address of a lambda changes from run to run


@pytest.fixture
def X(request) -> np.ndarray:
    """Forty rows, the last ten repeating the first; the second column takes three values."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=30), rng.integers(3, size=30)])
    return for_kernel(request, np.concatenate([X, X[:10]]))


@pytest.fixture
def Y(request) -> np.ndarray:
    rng = np.random.default_rng(1)
    return for_kernel(request, np.column_stack([rng.normal(size=15), rng.integers(3, size=15)]))


def for_kernel(request, X: np.ndarray) -> np.ndarray:
    """Kernels on rotations get a rotation per row: by the first column about one of three axes."""
    k = request.node.callspec.params["k"]
    if k not in (km.Rotation(0.8), km.Frobenius(rotations=True)):
        return X
    turns = X[:, :1] * np.eye(3)[X[:, 1].astype(int)]
    return scipy.spatial.transform.Rotation.from_rotvec(turns).as_matrix().reshape(-1, 9)


def spectral_scale(K: np.ndarray) -> float:
    return np.abs(K).max() * len(K)


# ----------------------------------------------------------------------------------------- kernels
@pytest.mark.parametrize("k", KERNELS, ids=name)
class TestEveryKernel:
    def test_symmetric(self, k, X, Y):
        assert_allclose(k(X, Y), k(Y, X).T, rtol=1e-12, atol=1e-12)

    def test_positive_semidefinite(self, k, X):
        K = k(X)
        assert np.linalg.eigvalsh((K + K.T) / 2)[0] > -1e-12 * spectral_scale(K)

    def test_one_argument_means_twice_the_same(self, k, X):
        assert_allclose(k(X), k(X, X.copy()), rtol=1e-12, atol=1e-12)

    def test_diag_is_the_diagonal(self, k, X):
        assert_allclose(k.diag(X), np.diag(k(X)), rtol=1e-12)
        assert k.diag(X).shape == (40,)

    def test_rows_do_not_know_each_other(self, k, X, Y):
        assert_allclose(k(X, Y)[7:9, 3:5], k(X[7:9], Y[3:5]), rtol=1e-10, atol=1e-12)

    def test_cauchy_schwarz(self, k, X, Y):
        bound = np.sqrt(np.outer(k.diag(X), k.diag(Y)))
        assert (np.abs(k(X, Y)) <= bound * (1 + 1e-10) + 1e-12).all()

    def test_resolve_of_a_resolved_kernel_is_itself(self, k, X):
        assert k.resolve(X) == k.resolve(X).resolve(X[:5])

    def test_saved_and_loaded(self, k, tmp_path):
        if isinstance(k, km.kernels.FromFunction):
            with pytest.raises(ValueError, match="cannot be saved"):
                k.save(tmp_path / "k.km")
            return
        k.save(tmp_path / "k.km")
        assert km.load(tmp_path / "k.km") == k

    def test_the_gram_of_one_point(self, k, X):
        assert k(X[:1]).shape == (1, 1)

    def test_sum_and_product_close(self, k, X, Y):
        g = km.Gaussian(1.0)
        assert_allclose((k + g)(X, Y), k(X, Y) + g(X, Y), rtol=1e-12)
        assert_allclose((k * g)(X, Y), k(X, Y) * g(X, Y), rtol=1e-12)


@pytest.mark.parametrize("k", SMOOTH, ids=name)
class TestEverySmoothingKernel:
    def test_one_at_zero_and_less_elsewhere(self, k, X):
        K = k(X[:30])
        assert_allclose(np.diag(K), 1.0)
        assert (K <= 1).all()
        assert (K > 0).all()

    def test_moving_both_points_changes_nothing(self, k, X, Y):
        assert_allclose(k(X + 3.0, Y + 3.0), k(X, Y), rtol=1e-9)

    def test_scaled_is_shrinking_the_points(self, k, X, Y):
        assert_allclose(k.scaled(2.0)(X, Y), k(X / 2, Y / 2), rtol=1e-9)
        assert_allclose(k.scaled([2.0, 5.0])(X, Y), k(X / [2, 5], Y / [2, 5]), rtol=1e-9)

    def test_density_scales_with_the_volume(self, k, X, Y):
        """k_bar_{2l}(x, y) = k_bar_l(x/2, y/2) / 2^d."""
        assert_allclose(k.scaled(2.0).density(X, Y), k.density(X / 2, Y / 2) / 4, rtol=1e-9)

    def test_self_convolution_is_a_positive_definite_kernel_below_the_peak(self, k, X):
        C = k.self_convolution(X, X)
        assert_allclose(C, C.T, rtol=1e-9)
        assert np.linalg.eigvalsh((C + C.T) / 2)[0] > -1e-9 * spectral_scale(C)
        assert (
            k.density(X[:1], X[:1])[0, 0] >= C
        ).all()  # an average of k_bar is below its maximum


def test_every_name_is_of_a_kernel_above_on_the_page_and_in_the_help():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "kernels.md").read_text()
    for kind in NAMED.values():
        assert f"| `{kind.__name__}" in page
        assert getattr(km, kind.__name__) is kind
        # Gaussian4 dips below zero, and has its own tests
        assert kind is km.Gaussian4 or kind in map(type, KERNELS)


@dataclass(frozen=True)
class OnlyAProfile(_Radial):
    """What a new kernel with a lengthscale begins as."""

    def _profile(self, sq):
        return 1 / (1 + sq)


def test_a_profile_alone_is_a_kernel_that_says_what_it_lacks():
    k, x = OnlyAProfile(1.0), np.linspace(-1, 1, 12)
    assert_allclose(k([0.0], [1.0]), 0.5)
    assert k.reach(0.1) is None
    for ask in (
        lambda: k.density(x, x),
        lambda: k.cdf(x, x),
        lambda: k.self_convolution(x, x),
        lambda: km.EmbeddedDensity(k).fit(x[:, None]),
        lambda: km.ConditionalDensity(kernel_y=k).fit(x[:, None], x),
        lambda: km.MeanEmbedding(x, kernel=k).sample(3, random_state=0, bandwidth=0.5),
        lambda: km.RandomFourier(20).fit_transform(x[:, None], k),
    ):
        with pytest.raises(ValueError, match=r"^OnlyAProfile\(.*has no|^OnlyAProfile\(.*is not"):
            ask()


# ------------------------------------------------------------------------- kernels x feature maps
def fitted(map_, k, X) -> tuple[object, np.ndarray]:
    map_ = clone(map_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", km.NumericalWarning)  # max_rank=5 says so, rightly
        return map_, map_.fit_transform(X, k)


@pytest.mark.parametrize(("k", "map_"), PAIRS, ids=name)
class TestEveryKernelWithEveryMap:
    def test_transform_of_the_training_rows(self, k, map_, X):
        map_, Phi = fitted(map_, k, X)
        scale = np.sqrt(k.diag(X).max())
        assert Phi.shape == (40, map_.rank_)
        assert_allclose(map_.transform(X), Phi, atol=1e-5 * scale)

    def test_equal_points_have_equal_coordinates(self, k, map_, X):
        _, Phi = fitted(map_, k, X)
        assert_allclose(Phi[30:], Phi[:10], atol=1e-6 * np.sqrt(k.diag(X).max()))

    def test_transform_is_row_by_row(self, k, map_, X, Y):
        map_, _ = fitted(map_, k, X)
        assert_allclose(map_.transform(Y)[4:6], map_.transform(Y[4:6]), atol=1e-9)


@pytest.mark.parametrize(("k", "map_"), PROJECTIONS, ids=name)
def test_landmark_maps_never_exceed_the_kernel(k, map_, X, Y):
    """Coordinates are a projection: Phi Phi' <= K in the Loewner order, on new points too."""
    map_, _ = fitted(map_, k, X)
    both = np.concatenate([X, Y])
    P, K = map_.transform(both), k(both)
    assert np.linalg.eigvalsh(K - P @ P.T)[0] > -1e-7 * spectral_scale(K)


@pytest.mark.parametrize(("k", "map_"), FULL_RANK, ids=name)
def test_full_rank_maps_reproduce_the_gram_matrix(k, map_, X):
    map_, Phi = fitted(map_, k, X)
    assert_allclose(Phi @ Phi.T, k(X), atol=1e-8 * spectral_scale(k(X)))
    assert map_.rank_ <= 30  # repeated rows add nothing


# --------------------------------------------------------------------------------------- embeddings
@pytest.mark.parametrize("k", KERNELS, ids=name)
class TestEveryEmbedding:
    @pytest.fixture
    def weights(self, rng) -> np.ndarray:
        return rng.normal(size=(2, 40))

    def test_linear_in_the_weights(self, k, X, Y, weights):
        a, b = weights
        mix = km.MeanEmbedding(X, 2 * a - 3 * b, k)
        parts = [km.MeanEmbedding(X, w, k) for w in weights]
        size = np.abs(k(X, Y)).max() * 40
        assert_allclose(mix(Y), 2 * parts[0](Y) - 3 * parts[1](Y), atol=1e-12 * size)
        assert_allclose(
            mix.expectation(lambda x: x),
            2 * parts[0].expectation(lambda x: x) - 3 * parts[1].expectation(lambda x: x),
        )

    def test_inner_product_is_symmetric_and_bounded(self, k, X, weights):
        m, v = (km.MeanEmbedding(X, w, k) for w in weights)
        assert_allclose(m.inner(v), v.inner(m), rtol=1e-9, atol=1e-9)
        assert m.inner(v) ** 2 <= m.inner(m) * v.inner(v) * (1 + 1e-9) + 1e-9

    def test_mmd_is_a_distance(self, k, X, weights):
        m, v = (km.MeanEmbedding(X, w, k) for w in weights)
        o = km.MeanEmbedding(X, kernel=k)
        assert_allclose(m.mmd(v), v.mmd(m), rtol=1e-6)
        assert m.mmd(v) <= (m.mmd(o) + o.mmd(v)) * (1 + 1e-9)
        # the root of rounding: 1e-16 times the squared norm
        assert m.mmd(m) <= 1e-6 * np.sqrt(m.inner(m)) + 1e-9

    def test_evaluation_is_the_inner_product_with_a_point(self, k, X, Y, weights):
        m = km.MeanEmbedding(X, weights[0], k)
        assert_allclose(
            m(Y[:1])[0], m.inner(km.MeanEmbedding(Y[:1], kernel=k)), rtol=1e-9, atol=1e-9
        )

    def test_order_of_the_points_does_not_matter(self, k, X, Y, weights):
        order = np.random.default_rng(3).permutation(40)
        m, p = km.MeanEmbedding(X, weights[0], k), km.MeanEmbedding(X[order], weights[0][order], k)
        assert_allclose(m(Y), p(Y), rtol=1e-9, atol=1e-9)
        assert_allclose(m.mean(), p.mean(), rtol=1e-8)

    def test_repeated_points_add_their_weights(self, k, X, Y, weights):
        w = weights[0]
        merged = w[:30].copy()
        merged[:10] += w[30:]
        size = np.abs(k(X, Y)).max() * 40
        assert_allclose(
            km.MeanEmbedding(X, w, k)(Y), km.MeanEmbedding(X[:30], merged, k)(Y), atol=1e-12 * size
        )


# ------------------------------------------------------------------------------- conditional, ratio
@pytest.mark.parametrize("features", [None, km.Exact(), km.Nystroem(tol=0.05)], ids=name)
@pytest.mark.parametrize("k", KERNELS, ids=name)
class TestEveryConditionalEmbedding:
    def fit(self, k, features, X, reg=0.01):
        return km.ConditionalEmbedding(k, km.Gaussian(1.0), reg=reg, features=features).fit(
            X, X[:, 0] ** 2
        )

    def test_linear_in_the_prior(self, k, features, X, Y, rng):
        c = self.fit(k, features, X)
        a, b = rng.normal(size=(2, 15))
        m = lambda w: c.apply(km.MeanEmbedding(Y, w, k)).weights  # noqa: E731
        size = np.abs(m(a)).max() + np.abs(m(b)).max()
        assert_allclose(m(2 * a - 3 * b), 2 * m(a) - 3 * m(b), atol=1e-9 * size)

    def test_a_batch_of_priors_is_its_members(self, k, features, X, Y, rng):
        c, P = self.fit(k, features, X), rng.normal(size=(3, 15))
        many = c.apply(km.MeanEmbedding(Y, P, k)).weights
        ones = np.stack([c.apply(km.MeanEmbedding(Y, p, k)).weights for p in P])
        assert_allclose(many, ones, atol=1e-9 * np.abs(ones).max())

    def test_at_is_apply_to_point_masses(self, k, features, X, Y):
        c = self.fit(k, features, X)
        masses = c.apply(km.MeanEmbedding(Y, np.eye(15), k)).weights
        assert_allclose(c.at(Y).weights, masses, atol=1e-9 * np.abs(masses).max())

    def test_linear_in_the_outcome(self, k, features, X, Y):
        fit = lambda y: km.ConditionalEmbedding(k, "linear", 0.01, features).fit(X, y).predict(Y)  # noqa: E731
        a, b = X[:, 0], X[:, 0] ** 2 + X[:, 1]
        assert_allclose(fit(2 * a - 3 * b), 2 * fit(a) - 3 * fit(b), atol=1e-8)

    def test_more_regularisation_fits_the_training_rows_less(self, k, features, X):
        y = np.sin(2 * X[:, 0])
        errors = [
            np.mean(
                (km.ConditionalEmbedding(k, "linear", r, features).fit(X, y).predict(X) - y) ** 2
            )
            for r in (1e-4, 1e-2, 1.0, 100.0)
        ]
        assert (np.diff(errors) > -1e-10).all()

    def test_leave_one_out_exceeds_the_training_error(self, k, features, X):
        y = np.sin(2 * X[:, 0])
        c = km.ConditionalEmbedding(k, "linear", 1e-2, features).fit(X, y)
        assert c.loo_score_ >= np.mean((c.predict(X) - y) ** 2) - 1e-10


@pytest.mark.parametrize("k", KERNELS, ids=name)
def test_every_density_ratio_is_linear_in_the_numerator(k, X, Y, rng):
    a, b = rng.normal(size=(2, 15))
    w = lambda v: km.DensityRatio(k, reg=0.1).fit(X, km.MeanEmbedding(Y, v, k)).weights_  # noqa: E731
    size = np.abs(w(a)).max() + np.abs(w(b)).max()
    assert_allclose(w(2 * a - 3 * b), 2 * w(a) - 3 * w(b), atol=1e-9 * size)


@pytest.mark.parametrize("k", KERNELS, ids=name)
def test_every_density_ratio_chooses_a_finite_regulariser(k, X, Y):
    r = km.DensityRatio(k).fit(X, Y)
    assert r.reg_ > 0
    assert np.isfinite(r.loo_score_)
    assert np.isfinite(r.predict(Y)).all()
    assert (r.predict(Y) >= 0).all()


@pytest.mark.parametrize("k", KERNELS, ids=name)
def test_every_kernel_serves_in_kernel_iv(k, X):
    y = X[:, 0] + X[:, 1]
    iv = km.KernelIV(k, k).fit(X, y, X + 0.0)
    assert np.isfinite(iv.predict(X)).all()
    assert iv.reg_stage1_ > 0
    assert iv.reg_stage2_ > 0

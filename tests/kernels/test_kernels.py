"""Kernels: values against double loops and scikit-learn, densities against quadrature."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate
from sklearn.gaussian_process import kernels as sk
from sklearn.metrics import pairwise

import kernelmean as km

# Values are sums of a handful of rounding errors on numbers of order one.
TIGHT = {"rtol": 1e-10, "atol": 1e-12}
SCALES = [0.7, (0.5, 2.0, 1.3)]
NUS = [0.5, 1.5, 2.5, 0.8, 3.7]


def points(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def smoothing_kernels(lengthscale: object = 0.7) -> list:
    """Every kernel with a lengthscale, with the oracle of one pair of points."""
    cases = [
        (km.Gaussian(lengthscale), oracles.gaussian),
        (km.Gaussian(lengthscale, columnwise=True), oracles.gaussian),
        (km.Laplace(lengthscale), oracles.laplace),
        (km.Laplace(lengthscale, columnwise=True), oracles.laplace_columnwise),
    ]
    for nu in NUS:
        cases.append((km.Matern(nu, lengthscale), partial(oracles.matern, nu=nu)))
        cases.append(
            (km.Matern(nu, lengthscale, columnwise=True), partial(oracles.matern_columnwise, nu=nu))
        )
    return cases


def ids(thing: object) -> str:
    return repr(thing) if isinstance(thing, km.Kernel) else ""


# ------------------------------------------------------------------------------------------ values
class TestHandWorked:
    """Numbers a reader can check with a pencil: the points 0 and 2 on a line, lengthscale 2."""

    X, Y = np.array([[0.0]]), np.array([[2.0]])

    @pytest.mark.parametrize(
        ("kernel", "value"),
        [
            (km.Gaussian(2.0), math.exp(-1 / 2)),
            (km.Laplace(2.0), math.exp(-1)),
            (km.Matern(0.5, 2.0), math.exp(-1)),
            (km.Matern(1.5, 2.0), (1 + math.sqrt(3)) * math.exp(-math.sqrt(3))),
            (km.Matern(2.5, 2.0), (1 + math.sqrt(5) + 5 / 3) * math.exp(-math.sqrt(5))),
            (km.Linear(), 0.0),
            (km.Linear(offset=3.0), 3.0),
            (km.Delta(), 0.0),
        ],
        ids=ids,
    )
    def test_value(self, kernel, value):
        assert_allclose(kernel(self.X, self.Y), [[value]], **TIGHT)

    def test_linear_is_the_dot_product(self):
        assert_allclose(km.Linear()([[1.0, 2.0]], [[3.0, 4.0], [0.0, -1.0]]), [[11.0, -2.0]])

    def test_delta_is_one_on_equal_rows_only(self):
        gram = km.Delta()([[1, 2], [1, 3]], [[1, 2], [1, 3], [2, 1]])
        assert_array_equal(gram, [[1, 0, 0], [0, 1, 0]])

    def test_frobenius_is_the_trace(self):
        A, B = np.array([[[1.0, 2.0], [3.0, 4.0]]]), np.array([[[0.0, 1.0], [1.0, 0.0]]])
        assert_allclose(km.Frobenius()(A, B), [[5.0]])  # 1*0 + 2*1 + 3*1 + 4*0


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("kernel", "oracle"), smoothing_kernels(), ids=ids)
def test_values_equal_a_double_loop(kernel, oracle, columns):
    X, Y = points(6, columns), points(4, columns, seed=1)
    assert_allclose(kernel(X, Y), oracles.gram(oracle, X, Y, lengthscale=0.7), **TIGHT)


@pytest.mark.parametrize(("kernel", "oracle"), smoothing_kernels(SCALES[1]), ids=ids)
def test_one_lengthscale_per_column(kernel, oracle):
    X, Y = points(6, 3), points(4, 3, seed=1)
    expected = oracles.gram(oracle, X, Y, lengthscale=np.array(SCALES[1]))
    assert_allclose(kernel(X, Y), expected, **TIGHT)


@pytest.mark.parametrize(
    ("kernel", "oracle"),
    [
        (km.Linear(), oracles.linear),
        (km.Linear(offset=2.0), partial(oracles.linear, offset=2.0)),
        (km.Delta(), oracles.delta),
    ],
    ids=ids,
)
def test_linear_and_delta_equal_a_double_loop(kernel, oracle):
    X, Y = points(6, 3).round(), points(4, 3, seed=1).round()
    Y[1] = X[2]
    assert_allclose(kernel(X, Y), oracles.gram(oracle, X, Y), **TIGHT)


@pytest.mark.parametrize("given", [[0.5, 2.0, 1.3], (0.5, 2.0, 1.3), np.array([0.5, 2.0, 1.3])])
def test_lengthscales_come_as_any_sequence(given):
    X = points(5, 3)
    assert_allclose(km.Gaussian(given)(X), km.Gaussian((0.5, 2.0, 1.3))(X))


class TestAgainstScikitLearn:
    X, Y = points(7, 3), points(5, 3, seed=1)

    def test_gaussian(self):
        expected = pairwise.rbf_kernel(self.X, self.Y, gamma=1 / (2 * 0.7**2))
        assert_allclose(km.Gaussian(0.7)(self.X, self.Y), expected, **TIGHT)

    def test_gaussian_with_a_lengthscale_per_column(self):
        expected = sk.RBF([0.5, 2.0, 1.3])(self.X, self.Y)
        assert_allclose(km.Gaussian([0.5, 2.0, 1.3])(self.X, self.Y), expected, **TIGHT)

    @pytest.mark.parametrize("nu", NUS)
    @pytest.mark.parametrize("lengthscale", SCALES)
    def test_matern(self, nu, lengthscale):
        expected = sk.Matern(lengthscale, nu=nu)(self.X, self.Y)
        # scikit-learn adds machine epsilon to distances for general nu
        assert_allclose(km.Matern(nu, lengthscale)(self.X, self.Y), expected, rtol=1e-9, atol=1e-10)

    def test_columnwise_laplace_is_scikit_learns_l1_laplacian(self):
        expected = pairwise.laplacian_kernel(self.X, self.Y, gamma=1 / 0.7)
        assert_allclose(km.Laplace(0.7, columnwise=True)(self.X, self.Y), expected, **TIGHT)

    def test_linear(self):
        assert_allclose(
            km.Linear()(self.X, self.Y), pairwise.linear_kernel(self.X, self.Y), **TIGHT
        )


@pytest.mark.parametrize("nu", [0.3, 0.8, 1.2, 3.7, 10.0])
def test_general_matern_on_the_diagonal_is_exactly_one(nu):
    X = np.vstack(
        [points(4, 2), points(4, 2)]
    )  # duplicated rows: 0 * infinity off the diagonal too
    gram = km.Matern(nu, 0.7)(X)
    assert np.isfinite(gram).all()
    assert_allclose(np.diag(gram), 1.0)
    assert_allclose(gram[:4, 4:].diagonal(), 1.0)


def test_general_matern_far_away_is_zero_not_nan():
    gram = km.Matern(3.7, 1.0)([[0.0]], [[1e4], [1e8], [1e10], [1e30]])
    assert_array_equal(gram, 0.0)


def test_matern_is_continuous_in_nu():
    X, Y = points(6, 2), points(6, 2, seed=1)
    for nu in (0.5, 1.5, 2.5):
        assert_allclose(km.Matern(nu, 1.0)(X, Y), km.Matern(nu + 1e-7, 1.0)(X, Y), atol=1e-6)


@pytest.mark.parametrize("nu", [30.0, 50.3, 100.0, 300.0, 1e4])
def test_matern_of_great_smoothness_is_nearly_gaussian_or_refused(nu):
    """As nu grows Matern tends to the Gaussian, at a rate of 1/nu (measured: 0.23/nu)."""
    X = np.concatenate([np.linspace(0, 4, 200), np.logspace(-8, -1, 30)])
    try:
        gram = km.Matern(nu, 1.0)(X)
    except ValueError as refusal:
        assert "nu" in str(refusal)
        assert nu >= 100
    else:
        assert np.abs(gram - km.Gaussian(1.0)(X)).max() < 1 / nu


@pytest.mark.parametrize("columnwise", [False, True])
def test_matern_one_half_is_laplace(columnwise):
    X = points(6, 2)
    half, laplace = km.Matern(0.5, 0.9, columnwise), km.Laplace(0.9, columnwise)
    assert_allclose(half(X), laplace(X), **TIGHT)


def test_columnwise_is_the_product_of_one_dimensional_kernels():
    X, Y = points(6, 3), points(4, 3, seed=1)
    for kernel in (km.Gaussian, km.Laplace, partial(km.Matern, 1.5), partial(km.Matern, 0.8)):
        whole = kernel(lengthscale=[0.5, 2.0, 1.3], columnwise=True)(X, Y)
        parts = [kernel(lengthscale=s)(X[:, j], Y[:, j]) for j, s in enumerate([0.5, 2.0, 1.3])]
        assert_allclose(whole, math.prod(parts), **TIGHT)


@pytest.mark.parametrize("offset", [1e6, 1e8])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(
    "make", [km.Gaussian, km.Laplace, partial(km.Matern, 1.5), partial(km.Matern, 0.8)]
)
def test_points_far_from_the_origin_keep_their_digits(make, columns, offset):
    """||x||^2 - 2x'y + ||y||^2 would lose every digit here: 1e12 * 1e-16 against (1e-3)^2."""
    spacing = 1e-3 if offset == 1e6 else 1e-1
    X = offset + spacing * np.arange(12.0)[:, None] * np.ones(columns)
    kernel = make(lengthscale=4 * spacing)
    oracle = {km.Gaussian: oracles.gaussian, km.Laplace: oracles.laplace}.get(make)
    oracle = oracle or partial(oracles.matern, nu=make.args[0])
    # The oracle subtracts the same rounded inputs, so only the kernel's own arithmetic is measured.
    # A centre is known to 1e-16 * offset = 1e-4 * spacing**2 / spacing at worst: 1e-6 of a
    # lengthscale.
    assert_allclose(
        kernel(X, X[::-1]), oracles.gram(oracle, X, X[::-1], lengthscale=4 * spacing), atol=1e-6
    )


def test_far_apart_clusters_keep_their_digits():
    """Centring the data is not enough when two clusters lie 1e6 apart."""
    X = np.concatenate([1e-3 * np.arange(5.0), 1e6 + 1e-3 * np.arange(5.0)])
    expected = oracles.gram(oracles.gaussian, X, X, lengthscale=2e-3)
    assert_allclose(km.Gaussian(2e-3)(X), expected, atol=1e-6)


def test_frobenius_equals_numpy_trace(rng):
    A, B = rng.normal(size=(4, 3, 3)), rng.normal(size=(5, 3, 3))
    expected = [[np.trace(a @ b.T) for b in B] for a in A]
    assert_allclose(km.Frobenius()(A, B), expected, **TIGHT)
    assert_allclose(km.Frobenius()(A.reshape(4, 9), B.reshape(5, 9)), expected, **TIGHT)
    assert_allclose(km.Frobenius().diag(A), [np.trace(a @ a.T) for a in A], **TIGHT)


def test_frobenius_of_a_rotation_with_itself_is_the_dimension():
    turn = lambda a: [[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]  # noqa: E731
    R = np.array([turn(a) for a in (0.0, 0.5, 2.0)])
    assert_allclose(km.Frobenius().diag(R), 2.0)
    assert_allclose(km.Frobenius()(R)[0], 2 * np.cos([0.0, 0.5, 2.0]), atol=1e-14)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_precomputed_points_are_row_numbers(rng, shape):
    A = rng.normal(size=(6, 6))
    gram = A @ A.T
    kernel = km.Precomputed(gram)
    i, j = np.array([0, 2, 5]), np.array([1, 2])
    assert_array_equal(kernel(i.reshape(shape), j.reshape(shape)), gram[np.ix_(i, j)])
    assert_array_equal(kernel.diag(i.reshape(shape)), np.diag(gram)[i])


@pytest.mark.parametrize("bad", [[6], [-1], [0.5], [np.nan]])
def test_precomputed_refuses_numbers_that_are_no_row(bad):
    with pytest.raises(ValueError, match="row|NaN"):
        km.Precomputed(np.eye(6))(bad)


@pytest.mark.parametrize(
    "bad", [np.ones((2, 3)), np.array([[1.0, 2.0], [0.0, 1.0]]), np.full((2, 2), np.nan)]
)
def test_precomputed_refuses_what_is_no_gram_matrix(bad):
    with pytest.raises(ValueError, match="gram"):
        km.Precomputed(bad)


# ------------------------------------------------------------------------------------ the algebra
class TestAlgebra:
    X, Y = points(6, 3), points(4, 3, seed=1)
    a, b = km.Gaussian(0.7), km.Matern(1.5, 1.1)

    def test_sum(self):
        assert_allclose(
            (self.a + self.b)(self.X, self.Y), self.a(self.X, self.Y) + self.b(self.X, self.Y)
        )

    def test_product(self):
        assert_allclose(
            (self.a * self.b)(self.X, self.Y), self.a(self.X, self.Y) * self.b(self.X, self.Y)
        )

    def test_diag(self):
        three = self.a + self.b * km.Linear(offset=2.0)
        assert_allclose(three.diag(self.X), np.diag(three(self.X)), **TIGHT)

    def test_on_columns_multiplies_its_parts(self):
        kernel = km.on_columns({0: self.a, (1, 2): self.b})
        X, Y = self.X, self.Y
        expected = self.a(X[:, [0]], Y[:, [0]]) * self.b(X[:, 1:], Y[:, 1:])
        assert_allclose(kernel(X, Y), expected, **TIGHT)
        assert_allclose(kernel.diag(X), np.diag(kernel(X)), **TIGHT)

    def test_on_columns_takes_each_column_with_its_own_median(self):
        kernel = km.on_columns({0: km.Gaussian(), (1, 2): km.Gaussian()}).resolve(self.X)
        la, lb = (oracles.median_lengthscale(P) for P in (self.X[:, 0], self.X[:, 1:]))
        expected = oracles.gram(oracles.gaussian, self.X[:, 0], lengthscale=la) * oracles.gram(
            oracles.gaussian, self.X[:, 1:], lengthscale=lb
        )
        assert_allclose(kernel(self.X), expected, **TIGHT)

    def test_on_columns_mixes_discrete_and_continuous(self):
        X = np.column_stack([self.X[:, 0], [0, 0, 1, 1, 2, 2]])
        kernel = km.on_columns({0: self.a, 1: km.Delta()})
        expected = self.a(X[:, [0]]) * (X[:, 1][:, None] == X[:, 1][None])
        assert_allclose(kernel(X), expected, **TIGHT)

    def test_on_columns_refuses_a_column_that_is_not_there(self):
        with pytest.raises(ValueError, match="column"):
            km.on_columns({0: self.a, 7: self.b})(self.X)

    def test_parts_may_be_named_by_strings(self):
        kernel = km.on_columns({0: "gaussian", (1, 2): "linear"}).resolve(self.X)
        expected = km.Gaussian().resolve(self.X[:, [0]])(self.X[:, [0]]) * (
            self.X[:, 1:] @ self.X[:, 1:].T
        )
        assert_allclose(kernel(self.X), expected, **TIGHT)


# ------------------------------------------------------------------------------- median lengthscale
class TestMedian:
    def test_hand_worked(self):
        # distances between 0, 1, 3: 1, 2, 3
        assert km.median_lengthscale([[0.0], [1.0], [3.0]]) == pytest.approx(2.0)

    @pytest.mark.parametrize("columns", [1, 3])
    def test_is_the_median_over_distinct_pairs(self, columns):
        X = points(40, columns)
        assert km.median_lengthscale(X) == pytest.approx(oracles.median_lengthscale(X), rel=1e-12)

    def test_columnwise_gives_one_per_column(self):
        X = points(40, 3) * [1.0, 10.0, 0.1]
        expected = [oracles.median_lengthscale(X[:, j]) for j in range(3)]
        assert_allclose(km.median_lengthscale(X, columnwise=True), expected, rtol=1e-12)

    def test_one_thousand_rows_use_every_pair(self):
        X = points(1000, 1)
        upper = np.abs(X - X.T)[np.triu_indices(1000, 1)]
        assert km.median_lengthscale(X) == pytest.approx(np.median(upper), rel=1e-12)

    def test_past_one_thousand_rows_a_fixed_subsample(self):
        X = points(3000, 2)
        first = km.median_lengthscale(X)
        assert km.median_lengthscale(X) == first
        # A subsample of 1,000 estimates the median to a few per cent.
        assert first == pytest.approx(
            np.median(np.linalg.norm(X[:1500] - X[1500:], axis=1)), rel=0.05
        )

    def test_subsampling_touches_no_global_random_state(self):
        np.random.seed(3)
        before = np.random.get_state()[1].copy()
        km.median_lengthscale(points(1500, 1))
        assert_array_equal(np.random.get_state()[1], before)

    def test_resolve_fixes_the_median_and_leaves_numbers_alone(self):
        X = points(40, 3)
        assert km.Gaussian().resolve(X) == km.Gaussian(km.median_lengthscale(X))
        assert km.Gaussian(0.3).resolve(X) == km.Gaussian(0.3)
        resolved = km.Laplace(columnwise=True).resolve(X)
        assert_allclose(resolved.lengthscale, km.median_lengthscale(X, columnwise=True))

    def test_resolve_reaches_into_sums_and_products(self):
        X = points(40, 2)
        ell = km.median_lengthscale(X)
        kernel = (km.Gaussian() + km.Linear() * km.Matern(1.5)).resolve(X)
        expected = km.Gaussian(ell) + km.Linear() * km.Matern(1.5, ell)
        assert_allclose(kernel(X), expected(X), **TIGHT)

    @pytest.mark.parametrize("make", [km.Gaussian, km.Laplace, km.Matern])
    def test_constant_data_are_refused(self, make):
        with pytest.raises(ValueError, match="(?i)constant|identical|distinct|median"):
            make().resolve(np.ones((10, 2)))

    def test_a_constant_column_beside_others_has_lengthscale_one(self):
        X = np.column_stack([np.arange(10.0), np.full(10, 0.1)])
        assert km.Gaussian(columnwise=True).resolve(X).lengthscale == (3.0, 1.0)
        with pytest.raises(ValueError, match="X is constant"):
            km.Gaussian(columnwise=True).resolve(X[:, 1:])

    def test_a_rare_indicator_need_not_be_among_the_rows_looked_at(self):
        X = np.column_stack([np.arange(3_000.0), np.arange(3_000) == 1_234])
        assert km.Gaussian(columnwise=True).resolve(X).lengthscale[1] == 1.0

    def test_mostly_duplicated_rows_have_median_zero_and_are_refused_or_handled(self):
        """Over half of the pairs coincide: the answer must be positive, or a clear refusal."""
        X = np.concatenate([np.zeros(50), np.arange(5.0)])
        try:
            assert km.median_lengthscale(X) > 0
        except ValueError as refusal:
            assert "median" in str(refusal) or "lengthscale" in str(refusal)

    def test_one_row_is_refused(self):
        with pytest.raises(ValueError, match="(?i)row|sample|point"):
            km.median_lengthscale([[1.0, 2.0]])

    def test_scaled_multiplies_the_lengthscale(self):
        X = points(20, 2)
        assert_allclose(km.Gaussian(0.5).scaled(3.0)(X), km.Gaussian(1.5)(X), **TIGHT)
        assert_allclose(
            km.Matern(1.5, [0.5, 1.0]).scaled(2.0)(X), km.Matern(1.5, [1.0, 2.0])(X), **TIGHT
        )
        both = (km.Gaussian(0.5) + km.Laplace(1.0)).scaled(2.0)
        assert_allclose(both(X), (km.Gaussian(1.0) + km.Laplace(2.0))(X), **TIGHT)


# ---------------------------------------------------------------------- what may stand for a kernel
class TestAsKernel:
    X, Y = points(7, 2), points(4, 2, seed=1)

    @pytest.mark.parametrize(
        ("name", "kernel"),
        [
            ("gaussian", km.Gaussian()),
            ("laplace", km.Laplace()),
            ("matern", km.Matern()),
            ("linear", km.Linear()),
            ("delta", km.Delta()),
        ],
    )
    def test_names(self, name, kernel):
        resolved = km.as_kernel(name).resolve(self.X)
        assert_allclose(resolved(self.X, self.Y), kernel.resolve(self.X)(self.X, self.Y))

    def test_a_kernel_stays_itself(self):
        assert km.as_kernel(km.Gaussian(0.3)) == km.Gaussian(0.3)

    @pytest.mark.parametrize(
        "theirs",
        [
            sk.RBF(0.7),
            sk.Matern([0.5, 1.2], nu=0.8),
            2.0 * sk.RBF(0.7) + sk.DotProduct(1.0),
            sk.RationalQuadratic(),
        ],
        ids=str,
    )
    def test_scikit_learn_kernels(self, theirs):
        kernel = km.as_kernel(theirs).resolve(self.X)
        assert_allclose(kernel(self.X, self.Y), theirs(self.X, self.Y), **TIGHT)
        assert_allclose(kernel(self.X), theirs(self.X), **TIGHT)
        assert_allclose(kernel.diag(self.X), theirs.diag(self.X), **TIGHT)

    def test_a_callable_returning_the_gram_matrix(self):
        def cubic(A, B):
            return pairwise.polynomial_kernel(A, B, degree=3)

        kernel = km.as_kernel(cubic)
        assert_allclose(kernel(self.X, self.Y), cubic(self.X, self.Y), **TIGHT)
        assert_allclose(kernel.diag(self.X), np.diag(cubic(self.X, self.X)), **TIGHT)

    def test_a_callable_works_inside_the_algebra(self):
        def cubic(A, B):
            return pairwise.polynomial_kernel(A, B, degree=3)

        both = km.Gaussian(0.7) * km.as_kernel(cubic)
        assert_allclose(both(self.X), km.Gaussian(0.7)(self.X) * cubic(self.X, self.X), **TIGHT)

    @pytest.mark.parametrize(
        "bad", [lambda A, B: np.ones(3), lambda A, B: np.full((len(A), len(B)), np.nan)]
    )
    def test_a_callable_that_returns_no_gram_matrix_is_refused(self, bad):
        with pytest.raises(ValueError, match="(?i)kernel|gram"):
            km.as_kernel(bad)(self.X, self.Y)

    @pytest.mark.parametrize("bad", ["gausian", "", None, 3, [km.Gaussian()]])
    def test_what_is_no_kernel_is_refused_and_the_choices_listed(self, bad):
        with pytest.raises(ValueError, match="kernel.*gaussian|gaussian.*kernel"):
            km.as_kernel(bad)


# ------------------------------------------------------------------------------------- as a value
class TestKernelsAreValues:
    def test_equal_parameters_equal_kernels(self):
        assert km.Gaussian(1.0) == km.Gaussian(1.0)
        assert km.Gaussian(1.0) != km.Gaussian(2.0)
        assert km.Gaussian(1.0) != km.Laplace(1.0)
        assert km.Gaussian(1.0) + km.Linear() == km.Gaussian(1.0) + km.Linear()
        assert km.on_columns({0: km.Gaussian(1.0)}) == km.on_columns({0: km.Gaussian(1.0)})

    def test_equality_and_hash_with_a_lengthscale_per_column(self):
        a, b = km.Gaussian(np.array([1.0, 2.0])), km.Gaussian([1.0, 2.0])
        assert a == b
        assert hash(a) == hash(b)

    @pytest.mark.parametrize(
        "kernel",
        [
            km.Gaussian(1.0),
            km.Gaussian() * km.Delta(),
            km.on_columns({0: km.Gaussian(), (1, 2): km.Linear()}),
        ],
        ids=ids,
    )
    def test_hash(self, kernel):
        assert len({kernel, kernel}) == 1

    def test_repr_says_what_it_is(self):
        assert "Matern" in repr(km.Matern(2.5, 0.25))
        assert "2.5" in repr(km.Matern(2.5, 0.25))
        assert "0.25" in repr(km.Matern(2.5, 0.25))

    @pytest.mark.parametrize(
        "kernel",
        [km.Gaussian(0.3), km.Matern(2.5, (0.3, 1.0)), km.Linear(2.0), km.Delta()],
        ids=ids,
    )
    def test_repr_rebuilds_it(self, kernel):
        assert eval(repr(kernel), vars(km.kernels)) == kernel

    def test_frozen(self):
        with pytest.raises(AttributeError):
            km.Gaussian(1.0).lengthscale = 2.0

    @pytest.mark.parametrize(
        "bad", [0.0, -1.0, np.nan, np.inf, "meidan", None, [1.0, -1.0], [], [[1.0]], True]
    )
    def test_bad_lengthscales_are_refused(self, bad):
        with pytest.raises(ValueError, match="lengthscale"):
            km.Gaussian(bad)

    @pytest.mark.parametrize("bad", [0.0, -0.5, np.nan, "x"])
    def test_bad_smoothness_is_refused(self, bad):
        with pytest.raises(ValueError, match="nu"):
            km.Matern(bad)

    def test_a_wrong_number_of_lengthscales_is_refused(self):
        with pytest.raises(ValueError, match="lengthscale"):
            km.Gaussian([1.0, 2.0])(points(3, 3))

    def test_columns_that_differ_are_refused(self):
        with pytest.raises(ValueError, match="column"):
            km.Gaussian(1.0)(points(3, 3), points(3, 2))


def test_one_dimensional_input_is_a_single_column():
    x = np.array([0.0, 1.0, 3.0])
    assert_array_equal(km.Gaussian(1.0)(x), km.Gaussian(1.0)(x[:, None]))
    assert_array_equal(km.Gaussian(1.0).diag(x), np.ones(3))


def test_data_frames_and_series_are_accepted():
    pd = pytest.importorskip("pandas")
    X = points(5, 2)
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert_array_equal(km.Gaussian(1.0)(frame), km.Gaussian(1.0)(X))
    assert_array_equal(km.Gaussian(1.0)(frame["a"]), km.Gaussian(1.0)(X[:, 0]))


def test_inputs_are_not_modified():
    X = points(5, 2) + 1e6
    before = X.copy()
    (
        km.Gaussian(1.0)(X),
        km.Laplace().resolve(X),
        km.Matern(0.8, 1.0)(X),
        km.Gaussian(1.0).density(X, X),
    )
    assert_array_equal(X, before)


# --------------------------------------------------------------------------------------- densities
def density_kernels(lengthscale: object) -> list:
    return [kernel for kernel, _ in smoothing_kernels(lengthscale)]


@pytest.mark.parametrize("kernel", density_kernels(0.7), ids=ids)
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_density_is_the_kernel_times_a_constant(kernel, columns):
    X, Y = points(5, columns), points(4, columns, seed=1)
    ratio = kernel.density(X, Y) / kernel(X, Y)
    assert_allclose(ratio, ratio[0, 0], rtol=1e-10)


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("kernel", [k for k in density_kernels(0.7) if not k.columnwise], ids=ids)
def test_isotropic_density_integrates_to_one(kernel, columns):
    origin = np.zeros((1, columns))

    def along_an_axis(r: float) -> float:
        point = origin.copy()
        point[0, 0] = r
        return kernel.density(origin, point)[0, 0]

    # adaptive quadrature of a smooth function of one variable: limited by the tail cut at 4,000
    # lengthscales
    assert oracles.integral_radial(along_an_axis, columns, scale=0.7) == pytest.approx(
        1.0, abs=1e-7
    )


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("kernel", [k for k in density_kernels(0.7) if k.columnwise], ids=ids)
def test_columnwise_density_integrates_to_one(kernel, columns):
    origin = np.zeros((1, columns))
    total = oracles.integral_box(lambda P: kernel.density(P, origin)[:, 0], 0.7 * 40, columns, n=24)
    # Gauss-Legendre on panels whose ends sit on the kinks; the Bessel functions are not analytic at
    # zero
    assert total == pytest.approx(1.0, abs=2e-5)


@pytest.mark.parametrize(
    "kernel", [km.Gaussian, km.Laplace, partial(km.Matern, 2.5), partial(km.Matern, 0.8)]
)
def test_columnwise_density_in_three_dimensions_is_a_product(kernel):
    """One column is checked by quadrature above; three columns are their product."""
    X, Y, scales = points(5, 3), points(4, 3, seed=1), [0.5, 2.0, 1.3]
    whole = kernel(lengthscale=scales, columnwise=True).density(X, Y)
    parts = [kernel(lengthscale=s).density(X[:, j], Y[:, j]) for j, s in enumerate(scales)]
    assert_allclose(whole, math.prod(parts), rtol=1e-10)


@pytest.mark.parametrize(
    "kernel", [k for k in density_kernels((0.5, 2.0)) if not k.columnwise], ids=ids
)
def test_density_with_a_lengthscale_per_column_integrates_to_one(kernel):
    """Shrinking an axis by l_j divides the volume by l_j."""
    X, Y = points(5, 2), points(4, 2, seed=1)
    unit = kernel.scaled(1.0)
    stretched = type(kernel)(**{**_fields(kernel), "lengthscale": 1.0})
    expected = stretched.density(X / [0.5, 2.0], Y / [0.5, 2.0]) / (0.5 * 2.0)
    assert_allclose(unit.density(X, Y), expected, rtol=1e-10)


def _fields(kernel) -> dict:
    return {name: getattr(kernel, name) for name in kernel.__dataclass_fields__}


def test_gaussian_density_is_the_normal_density():
    from scipy.stats import multivariate_normal

    X, Y = points(5, 2), points(4, 2, seed=1)
    expected = [[multivariate_normal.pdf(y, x, 0.7**2 * np.eye(2)) for y in Y] for x in X]
    assert_allclose(km.Gaussian(0.7).density(X, Y), expected, rtol=1e-10)


@pytest.mark.parametrize("kernel", density_kernels(0.7), ids=ids)
def test_bandwidth_replaces_the_lengthscale(kernel):
    X, Y = points(5, 2), points(4, 2, seed=1)
    wide = type(kernel)(**{**_fields(kernel), "lengthscale": 2.1})
    assert_allclose(kernel.density(X, Y, bandwidth=2.1), wide.density(X, Y), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [k for k in density_kernels(0.7) if k.columnwise], ids=ids)
def test_columnwise_density_integrates_to_one_in_space(kernel):
    total = oracles.integral_box(
        lambda P: kernel.density(P, np.zeros((1, 3)))[:, 0], 0.7 * 40, 3, n=10
    )
    # ten nodes a panel: the Bessel functions of nu = 0.8 are the roughest at zero
    assert total == pytest.approx(1.0, abs=2e-4)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_densities_of_columns_with_kernels_of_their_own_integrate_to_one(columns):
    """A line, a circle and a table: Gauss-Legendre, the trapezoidal rule and a sum."""
    parts = {0: km.Laplace(0.7), 1: km.Periodic(0.6, period=24.0), 2: km.Delta()}
    kernel = km.on_columns({j: parts[j] for j in range(columns)})
    y, weights = _panels([-30, -10, -3, -1, -0.2, 0, 0.2, 1, 3, 10, 30])
    axes = [(y, weights), (np.arange(0, 24, 0.1), np.full(240, 0.1)), (np.arange(3.0), np.ones(3))]
    grid = np.stack(np.meshgrid(*[a for a, _ in axes[:columns]], indexing="ij"), axis=-1)
    volume = math.prod(np.meshgrid(*[w for _, w in axes[:columns]], indexing="ij"))
    point = np.array([[0.0, 23.5, 1.0]])[:, :columns]
    total = kernel.density(grid.reshape(-1, columns), point)[:, 0] @ volume.ravel()
    assert total == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_density_of_angles_integrates_to_one(columns):
    step = np.arange(60) / 60
    grid = np.stack(np.meshgrid(*[step] * columns), axis=-1).reshape(-1, columns) * 24.0
    q = km.Periodic(0.5, period=24.0).density(np.full((1, columns), 1.3), grid)
    assert q.mean() * 24.0**columns == pytest.approx(1.0, abs=1e-12)


# --------------------------------------------------------------------------- distribution functions
EVERY_NU = [
    *density_kernels(0.7),
    *(km.Matern(nu, 0.7) for nu in (0.05, 1.0, 12.3, 19.9, 20.7, 40)),
]


@pytest.mark.parametrize("kernel", EVERY_NU, ids=ids)
def test_cdf_is_the_integral_of_the_density(kernel):
    """Both tails by quadrature in pieces: adaptive where a density may be infinite, at zero."""
    x, cuts = 0.3, np.array([0, 0.02, 0.3, 1, 3, 9, 40, 300])
    nodes, weights = np.polynomial.legendre.leggauss(100)

    def density(u):
        return kernel.density([x], x + np.atleast_1d(u))[0]

    def between(a: float, b: float) -> float:
        if a == 0:
            return integrate.quad(lambda u: density(u)[0], a, b, epsabs=0)[0]
        return (b - a) / 2 * weights @ density((a + b) / 2 + (b - a) / 2 * nodes)

    def beyond(gap: float) -> float:
        return sum(between(gap + a, gap + b) for a, b in zip(cuts, cuts[1:], strict=False))

    for gap in (0.0, 1e-3, 0.2, 0.9, 2.0, 5.0):
        lower, upper = kernel.cdf([x], [x - gap, x + gap])[0]
        assert lower == pytest.approx(beyond(gap), rel=1e-6)
        assert upper == pytest.approx(1 - lower, abs=1e-12)


@pytest.mark.parametrize("kernel", EVERY_NU, ids=ids)
def test_cdf_increases_from_zero_to_one(kernel):
    y = np.concatenate([[-1e6], np.linspace(-20, 20, 801), [1e6]])
    F = kernel.cdf([0.0], y)[0]
    # Struve functions and quadrature meet at a distance: their rounding may differ
    assert (np.diff(F) >= -1e-13).all()
    assert_allclose(F[[0, -1]], [0, 1])


@pytest.mark.parametrize("kernel", density_kernels(0.7), ids=ids)
def test_reach_leaves_out_its_mass(kernel):
    for mass in (0.3, 1e-8):
        far = kernel.reach(mass)
        assert 2 * kernel.cdf([0.0], [-far])[0, 0] == pytest.approx(mass, rel=1e-6)


def test_cdf_takes_a_bandwidth_and_columns_of_one():
    X, Y = points(5, 1), points(4, 1, seed=1)
    expected = km.Matern(1.5, 2.1).cdf(X, Y)
    assert_allclose(km.Matern(1.5, 0.7).cdf(X, Y, bandwidth=2.1), expected)
    assert_allclose(km.on_columns({0: km.Matern(1.5, 2.1)}).cdf(X, Y), expected)
    assert_allclose(km.on_columns({0: km.Matern(1.5)}).cdf(X, Y, bandwidth=2.1), expected)
    assert_allclose(km.Matern(1.5, (2.1,), columnwise=True).cdf(X, Y), expected)


@pytest.mark.parametrize(
    "kernel",
    [
        km.Linear(),
        km.Delta(),
        km.Periodic(1.0),
        km.Gaussian(1.0) + km.Gaussian(2.0),
        km.on_columns({0: km.Delta()}),
        km.as_kernel(lambda X, Y: X @ Y.T),
    ],
    ids=lambda k: type(k).__name__,
)
def test_kernels_without_a_distribution_function_say_so(kernel):
    name = "Delta" if isinstance(kernel, km.kernels.OnColumns) else type(kernel).__name__
    with pytest.raises(ValueError, match=r"\+" if name == "Sum" else name):
        kernel.cdf([0.0, 1.0], [0.5])


def test_cdf_of_several_columns_is_refused():
    with pytest.raises(ValueError, match="2 columns"):
        km.Gaussian(1.0).cdf(points(3, 2), points(3, 2))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, "x"])
def test_bad_bandwidths_are_refused(bad):
    with pytest.raises(ValueError, match="bandwidth"):
        km.Gaussian(1.0).density(points(3, 1), points(3, 1), bandwidth=bad)


def test_a_density_too_large_for_floats_is_refused():
    """(2 pi 0.01^2)^-150 is 1e480."""
    with pytest.raises(ValueError, match="(?i)overflow|large|bandwidth|lengthscale"):
        km.Gaussian(0.01).density(np.zeros((1, 300)), np.zeros((1, 300)))


@pytest.mark.parametrize(
    "kernel", [km.Linear(), km.Frobenius(), km.Precomputed(np.eye(4))], ids=ids
)
def test_kernels_without_a_density_say_so(kernel):
    with pytest.raises(ValueError, match="(?i)densit"):
        kernel.density(np.arange(4.0), np.arange(4.0))


@pytest.mark.parametrize("kernel", density_kernels(0.7), ids=ids)
def test_self_convolution_in_one_dimension(kernel):
    """int k(x,u) k(u,y) du by Gauss-Legendre panels that shrink towards the kinks at x and y."""
    X, Y = np.array([[0.0], [0.3]]), np.array([[0.0], [0.4], [2.0]])
    got = kernel.self_convolution(X, Y)
    steps = np.concatenate([[0], np.logspace(-5, 1.5, 27)])
    for i, x in enumerate(X[:, 0]):
        for j, y in enumerate(Y[:, 0]):
            cuts = np.unique([x + steps, x - steps, y + steps, y - steps])
            u, w = _panels(cuts.tolist())
            product = kernel.density([[x]], u)[0] * kernel.density(u, [[y]])[:, 0]
            assert got[i, j] == pytest.approx(w @ product, rel=1e-6)


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("kernel", [k for k in density_kernels(0.7) if not k.columnwise], ids=ids)
def test_self_convolution_in_more_dimensions(kernel, columns):
    """Over t along the line through x and y and rho across it: surface(d-1) rho^(d-2) dt drho."""
    gap = 0.9
    x, y = np.zeros((1, columns)), np.zeros((1, columns))
    y[0, 0] = gap
    t, wt = _panels(
        [-14, -5, -2, -0.7, -0.2, 0, 0.1, gap / 2, gap - 0.1, gap, gap + 0.2, 1.6, 3, 6, 15]
    )
    rho, wr = _panels([0, 0.02, 0.1, 0.3, 0.8, 2, 5, 14])
    U = np.zeros((len(t) * len(rho), columns))
    U[:, 0], U[:, 1] = np.repeat(t, len(rho)), np.tile(rho, len(t))
    surface = 2.0 if columns == 2 else 2 * math.pi
    weights = surface * np.outer(wt, wr * rho ** (columns - 2)).ravel()
    expected = weights @ (kernel.density(U, x)[:, 0] * kernel.density(U, y)[:, 0])
    # the cone at x and y limits Gauss-Legendre to about 1e-4; rough kernels (nu < 1) are the worst
    assert kernel.self_convolution(x, y)[0, 0] == pytest.approx(expected, rel=1e-3)


def _panels(cuts: list[float], n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    t, w = np.polynomial.legendre.leggauss(n)
    halves = [((b - a) / 2, (a + b) / 2) for a, b in zip(cuts, cuts[1:], strict=False)]
    return np.concatenate([h * t + c for h, c in halves]), np.concatenate(
        [h * w for h, _ in halves]
    )


@pytest.mark.parametrize(
    "kernel", [km.Gaussian, km.Laplace, partial(km.Matern, 1.5), partial(km.Matern, 0.8)]
)
def test_columnwise_self_convolution_is_a_product(kernel):
    X, Y, scales = points(5, 2), points(4, 2, seed=1), [0.5, 2.0]
    whole = kernel(lengthscale=scales, columnwise=True).self_convolution(X, Y)
    parts = [kernel(lengthscale=s).self_convolution(X[:, j], Y[:, j]) for j, s in enumerate(scales)]
    assert_allclose(whole, math.prod(parts), rtol=1e-8)


@pytest.mark.parametrize("kernel", density_kernels(0.7), ids=ids)
def test_self_convolution_takes_a_bandwidth(kernel):
    X, Y = points(5, 2), points(4, 2, seed=1)
    wide = type(kernel)(**{**_fields(kernel), "lengthscale": 2.1})
    got = kernel.self_convolution(X, Y, bandwidth=2.1)
    assert_allclose(got, wide.self_convolution(X, Y), rtol=1e-10)


def test_gaussian_self_convolution_widens_by_root_two():
    """MATH 8: two Gaussians of width g convolve to one of width sqrt(2) g."""
    X, Y = points(5, 2), points(4, 2, seed=1)
    expected = km.Gaussian(1.0).density(X, Y, bandwidth=0.7 * math.sqrt(2))
    assert_allclose(km.Gaussian(0.7).self_convolution(X, Y), expected, rtol=1e-10)


# ---------------------------------------------------------------------------------------- spectra
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("kernel", density_kernels(0.7), ids=ids)
def test_spectrum_gives_the_kernel_back(kernel, columns):
    """Bochner: k(x - y) = E cos(w'(x - y)) over frequencies w drawn from the spectrum."""
    n = 40_000
    frequencies = kernel.spectrum(n, columns, np.random.default_rng(0))
    assert frequencies.shape == (n, columns)
    gaps = points(8, columns)
    estimate = np.cos(gaps @ frequencies.T).mean(axis=1)
    # Monte Carlo error of a cosine: at most 1/sqrt(n) = 0.005 standard deviations; four of them
    assert_allclose(estimate, kernel(gaps, np.zeros((1, columns)))[:, 0], atol=0.02)


# -------------------------------------------------------------------------------------- derivatives
DIFFERENTIABLE = [
    km.Gaussian(0.7),
    km.Gaussian((0.5, 2.0, 1.3)),
    km.Gaussian((0.5, 2.0, 1.3), columnwise=True),
    km.Matern(1.5, 0.7),
    km.Matern(2.5, (0.5, 2.0, 1.3)),
    km.Matern(3.7, 0.7),
    km.Matern(1.5, 0.7, columnwise=True),
    km.Matern(2.5, (0.5, 2.0, 1.3), columnwise=True),
    km.Linear(),
    km.Linear(offset=2.0),
    km.Periodic(0.7, period=3.0),
    km.Periodic((0.5, 2.0, 1.3), period=(3.0, 4.0, 5.0)),
    km.Gaussian(0.7) + km.Linear(offset=1.0),
    km.Gaussian(0.7) * km.Linear(offset=1.0),
    km.Gaussian(0.7) * (km.Matern(1.5, 2.0) + km.Linear()),
    km.on_columns({0: km.Gaussian(0.7), (2, 1): km.Matern(2.5, (0.5, 2.0))}),
    km.on_columns({2: km.Linear(offset=1.0), 0: km.Periodic(0.7, period=3.0)}),
]
ROUGH = [
    km.Laplace(0.7),
    km.Laplace(0.7, columnwise=True),
    km.Matern(0.5, 0.7),
    km.Matern(0.8, 0.7),
]


@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("kernel", DIFFERENTIABLE, ids=ids)
def test_derivative_against_finite_differences(kernel, column):
    X, Y, step = points(6, 3), points(5, 3, seed=1), np.zeros(3)
    step[column] = 1e-5
    expected = (kernel(X + step, Y) - kernel(X - step, Y)) / 2e-5
    got = kernel.derivative(X, Y, column)
    assert got.shape == (6, 5)
    assert_allclose(got, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kernel", DIFFERENTIABLE, ids=ids)
def test_derivative_at_the_point_itself(kernel):
    """A radial kernel is flat at its top."""
    X = points(6, 3)
    own = np.diag(kernel.derivative(X, X, 1))
    assert np.isfinite(own).all()
    if isinstance(kernel, km.Gaussian | km.Matern):
        assert_array_equal(own, np.zeros(6))


@pytest.mark.parametrize(
    "kernel",
    [
        *ROUGH,
        km.Delta(),
        pytest.param(km.as_kernel(lambda X, Y: X @ Y.T), id="function"),
        km.as_kernel(sk.RationalQuadratic(0.7)),
        km.Gaussian(0.7) + km.Laplace(0.7),
        km.on_columns({0: km.Delta(), 1: km.Gaussian(0.7)}),
    ],
    ids=ids,
)
def test_kernels_without_a_derivative_say_so(kernel):
    with pytest.raises(ValueError, match="derivative"):
        kernel.derivative(points(3, 3), points(3, 3), 0)


def test_a_part_without_a_derivative_does_not_matter_for_other_columns():
    kernel = km.on_columns({0: km.Delta(), 1: km.Gaussian(0.7)})
    X = points(4, 2)
    expected = km.Delta()(X[:, :1]) * km.Gaussian(0.7).derivative(X[:, 1:], X[:, 1:], 0)
    assert_allclose(kernel.derivative(X, X, 1), expected, **TIGHT)


def test_derivative_refuses_what_is_no_column():
    X = points(4, 2)
    for bad in (2, -1, 0.5, "price", None, True):
        with pytest.raises(ValueError, match="column"):
            km.Gaussian(0.7).derivative(X, X, bad)
    with pytest.raises(ValueError, match="column"):
        km.Gaussian(0.7).derivative(X, points(4, 3), 0)
    with pytest.raises(ValueError, match="median"):
        km.Gaussian().derivative(X, X, 0)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(
    "kernel", [*smoothing_kernels(0.7), (km.Periodic(0.7, period=3.0), None)], ids=ids
)
def test_scale_gradient_against_finite_differences(kernel, columns):
    kernel = kernel[0]
    X, Y = points(6, columns), points(5, columns, seed=1)
    W = np.random.default_rng(2).normal(size=(6, 5))
    got = kernel.scale_gradient(X, Y, W)
    assert got.shape == (columns,)
    assert_array_equal(kernel.scale_gradient(X, Y, W, kernel(X, Y)), got)
    for j in range(columns):
        up, down = np.ones(columns), np.ones(columns)
        up[j], down[j] = math.exp(1e-5), math.exp(-1e-5)
        slope = np.sum(W * (kernel.scaled(up)(X, Y) - kernel.scaled(down)(X, Y))) / 2e-5
        assert got[j] == pytest.approx(slope, rel=1e-5, abs=1e-7)

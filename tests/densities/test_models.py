"""Models with a known conditional density: draws and densities are those of the thesis."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.linalg import toeplitz
from scipy.special import ndtr
from scipy.stats import beta, cauchy, kstest, multivariate_normal, norm

from kernelmean.datasets import densities, make_conditional_density, make_triangle

ONE_OUTPUT = {
    "beta": {},
    "bimodal": {},
    "dirichlet": {"d": 4},
    "linear": {"d": 3, "sigma": 2.0},
    "toeplitz": {"d": 5},
    "mixture": {},
    "nonlinear1": {},
    "nonlinear2": {},
    "cauchy": {"gamma": 2.5},
}
ALL = {**ONE_OUTPUT, "mvn": {}, "triangle": {}}
T10 = toeplitz(1 - 0.1 * np.arange(10))


def make(model: str, n: int = 2000, seed: int = 40):
    return make_conditional_density(model, n, random_state=seed, **ALL[model])


def first(X):
    return X[:, 0]


def mean9(X):
    x = dict(enumerate(X.T, start=1))
    waves = np.cos(np.pi * x[1] * x[2]) + np.sin(2 * np.pi * x[3] * x[4])
    return waves + x[5] + x[6] + x[7] + x[8] + x[9] ** 2 + x[10] ** 2


def mean10(X):
    x = dict(enumerate(X.T, start=1))
    return x[1] + x[2] + x[3] + x[4] + x[5] + x[6] ** 2 + x[7] ** 2


# mean and standard deviation of Y given X = x, from the text of the thesis
REGRESSIONS = {
    "beta": (first, 0.1),
    "linear": (lambda X: X.sum(axis=1) / 3, 0.1),
    "toeplitz": (lambda X: X.sum(axis=1) / 5, 0.5),
    "mixture": (first, 1.0),
    "nonlinear1": (mean9, 0.5),
    "nonlinear2": (mean10, 0.5),
    "cauchy": (first, 1.0),
}


def three_normals(x):
    return 0.4 * norm.cdf(x, -4, 2) + 0.2 * norm.cdf(x, 0, 0.2) + 0.4 * norm.cdf(x, 4, 1)


# distribution functions of some function of X
INPUTS = {
    "beta": (first, beta(0.1, 0.1).cdf),
    "bimodal": (first, "uniform"),
    "dirichlet": (first, beta(0.1, 0.3).cdf),
    "linear": (lambda X: X.sum(axis=1), norm(0, 2 * np.sqrt(3)).cdf),
    "toeplitz": (
        lambda X: X @ [1, -1, 1, 0, 2],
        norm(
            0,
            np.sqrt(
                np.array([1, -1, 1, 0, 2])
                @ toeplitz([1, 0.775, 0.55, 0.325, 0.1])
                @ [1, -1, 1, 0, 2]
            ),
        ).cdf,
    ),
    "mixture": (first, three_normals),
    "mvn": (first, "norm"),
    "nonlinear1": (lambda X: X.sum(axis=1), norm(0, np.sqrt(T10.sum())).cdf),
    "nonlinear2": (lambda X: X[:, 0] - X[:, 9], norm(0, np.sqrt(2 - 0.2)).cdf),
    "cauchy": (first, cauchy(0, 2.5).cdf),
}


def uniform(sample, cdf="uniform") -> bool:
    return kstest(sample, cdf).pvalue > 1e-3


# ---------------------------------------------------------------- draws
@pytest.mark.parametrize("model", INPUTS)
def test_inputs_have_their_distribution(model):
    of, cdf = INPUTS[model]
    assert uniform(of(make(model).X), cdf)


@pytest.mark.parametrize("model", REGRESSIONS)
def test_outputs_are_normal_about_their_mean(model):
    mean, std = REGRESSIONS[model]
    data = make(model)
    residuals = (data.Y[:, 0] - mean(data.X)) / std
    assert uniform(residuals, "norm")
    assert abs(np.corrcoef(residuals, np.sign(data.X[:, 0] - np.median(data.X[:, 0])))[0, 1]) < 0.1


def test_outputs_of_the_bimodal_and_dirichlet_models_are_mixtures():
    data = make("bimodal")
    x, y = data.X[:, 0], data.Y[:, 0]
    assert uniform(x * norm.cdf(y, -2.5) + (1 - x) * norm.cdf(y, 2.5))
    data = make("dirichlet")
    assert_allclose(data.X.sum(axis=1), 1)
    assert uniform((data.X * norm.cdf(data.Y, [1, 2, 3, 4], 0.1)).sum(axis=1))


def test_the_mvn_model_has_the_covariance_of_the_thesis():
    data = make("mvn", 100_000)
    expected = [[1, 0.9, 0.3], [0.9, 1, 0.3], [0.3, 0.3, 1]]
    assert_allclose(np.cov(np.hstack([data.Y, data.X]).T), expected, atol=0.02)
    assert uniform((data.Y[:, 0] + data.Y[:, 1])[:2000] / np.sqrt(3.8), "norm")


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.2, 0.5])
def test_points_lie_about_the_edges_of_the_triangle(sigma):
    data = make_triangle(3000, sigma=sigma, given=("x", "z"), random_state=40)
    corners = np.array(densities.TRIANGLE)
    lengths = np.linalg.norm(corners - np.roll(corners, -1, axis=0), axis=1)

    def cdf(values, column):
        t = np.linspace(0, 1, 101)[:, None]
        edges = [a + t * (b - a) for a, b in zip(corners, np.roll(corners, -1, 0), strict=True)]
        means = [ndtr((values[:, None] - e[:, column]) / sigma).mean(axis=1) for e in edges]
        return np.average(means, axis=0, weights=lengths)

    x, z, y = *data.X.T, data.Y[:, 0]
    assert uniform(cdf(x, 0))
    assert uniform(cdf(y, 1))
    assert uniform(z / sigma, "norm")
    # the whole law of (x, y): the integral transform of y given (x, z)
    grid = np.linspace(-4, 4, 1001)
    steps = data.density(grid, data.X[:500], paired=False) * (grid[1] - grid[0])
    levels = [np.interp(value, grid, np.cumsum(p)) for value, p in zip(y, steps, strict=False)]
    assert uniform(levels)


@pytest.mark.parametrize("model", ALL)
def test_draws_depend_on_their_seed_alone(model):
    a, b, c = (make(model, 20, seed) for seed in (3, 3, 4))
    assert_array_equal(a.X, b.X)
    assert_array_equal(a.Y, b.Y)
    assert not np.array_equal(a.Y, c.Y)
    assert a.name == model
    before = np.random.get_state()[1].copy()
    make(model, 20, None)
    assert_array_equal(np.random.get_state()[1], before)


# ---------------------------------------------------------------- densities
def integral(density, x, low: float, high: float) -> float:
    """In pieces, for peaks are narrow."""
    points, (nodes, weights) = np.linspace(low, high, 79), np.polynomial.legendre.leggauss(40)
    half = (points[1] - points[0]) / 2
    t = (points[:-1, None] + half * (1 + nodes)).ravel()
    return half * np.tile(weights, 78) @ density(t, [x], paired=False).ravel()


@pytest.mark.parametrize("model", ONE_OUTPUT)
def test_densities_integrate_to_one(model):
    data = make(model, 5)
    for x, y in zip(data.X, data.Y[:, 0], strict=True):
        total = integral(data.density, x, min(y, 0) - 12, max(y, 5) + 12)
        assert total == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("given", [("x", "z"), ("y", "x")])
def test_the_density_of_one_column_of_the_triangle_integrates_to_one(given):
    data = make_triangle(3, given=given, random_state=40)
    for x in data.X:
        assert integral(data.density, x, -4, 4) == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["x", "z", "mvn"])
def test_densities_of_two_columns_integrate_to_one(model):
    data = make("mvn", 3) if model == "mvn" else make_triangle(3, given=model, random_state=40)
    # the trapezoidal rule is exact to rounding for analytic functions that vanish at the ends
    at = np.linspace(-8, 8, 401)
    grid = np.stack(np.meshgrid(at, at), axis=-1).reshape(-1, 2)
    totals = data.density(grid, data.X).sum(axis=1) * (at[1] - at[0]) ** 2
    assert_allclose(totals, 1, atol=1e-8)


@pytest.mark.parametrize("model", REGRESSIONS)
def test_densities_are_normal_about_their_mean(model):
    mean, std = REGRESSIONS[model]
    data = make(model, 50)
    assert_allclose(data.density(data.Y, data.X), norm.pdf(data.Y[:, 0], mean(data.X), std))


def test_the_density_of_the_mvn_model_is_a_ratio():
    data = make("mvn", 50)
    cov = np.array([[1, 0.9, 0.3], [0.9, 1, 0.3], [0.3, 0.3, 1]])
    joint = multivariate_normal(np.zeros(3), cov).pdf(np.hstack([data.Y, data.X]))
    assert_allclose(data.density(data.Y, data.X), joint / norm.pdf(data.X[:, 0]))


def test_the_density_of_the_triangle_is_a_ratio_of_integrals_along_its_edges():
    corners = np.array([[0.0, 0.3, 1.0], [2.0, -1.0, 0.5], [0.0, 1.0, -0.4]])
    data = make_triangle(1, corners, 0.3, ("z", "x"))
    rng = np.random.default_rng(40)
    points = rng.uniform(-1, 2, (6, 3))
    edges = list(zip(corners, np.roll(corners, -1, axis=0), strict=True))

    def integral(v, columns):
        def along(t, a, b):
            return norm.pdf(v[columns], (a + t * (b - a))[columns], 0.3).prod()

        return sum(np.linalg.norm(b - a) * quad(along, 0, 1, args=(a, b))[0] for a, b in edges)

    expected = [integral(v, [0, 1, 2]) / integral(v, [2, 0]) for v in points]
    assert_allclose(data.density(points[:, 1], points[:, [2, 0]]), expected, rtol=1e-6)


def test_an_edge_seen_end_on_is_a_point():
    data = make_triangle(1, [[0, 0, 0], [0, 0, 1], [0, 0, 1]], 0.5, given=("x", "y"))
    at = np.linspace(-2, 3, 7)
    expected = norm.cdf(at / 0.5) - norm.cdf((at - 1) / 0.5)
    assert_allclose(data.density(at, [[0.3, 0.1]])[0], expected)


def test_densities_far_out_are_finite_and_raise_no_warning():
    data = make_triangle(1)
    far = data.density([[0.0, 0.0], [50.0, 0.0]], [[-100.0], [0.0], [100.0], [1e5]])
    assert np.isfinite(far).all()
    # far to the right the points are those about the corner (1, 0, 0)
    assert far[2, 0] > 2
    assert (far[:, 1] == 0).all()
    for model in ONE_OUTPUT:
        data = make(model, 3)
        assert_array_equal(data.density(np.full(3, 1e6), data.X), 0)


@pytest.mark.parametrize("model", ALL)
def test_tables_and_pairs_agree(model):
    data = make(model, 6)
    table = data.density(data.Y[:4], data.X)
    assert table.shape == (6, 4)
    pairs = data.density(data.Y, data.X)
    assert_allclose(np.diag(data.density(data.Y, data.X, paired=False)), pairs)
    assert_allclose(table[2, 3], data.density(data.Y[3:4], data.X[2:3])[0])


# ---------------------------------------------------------------- settings and refusals
@pytest.mark.parametrize("d", [3, 5, 10])
def test_a_toeplitz_matrix_that_rises_from_a_tenth_is_no_covariance(d):
    rising = toeplitz(np.linspace(0.1, 1, d))
    assert np.linalg.eigvalsh(rising).min() < -0.1
    assert np.linalg.eigvalsh(toeplitz(np.linspace(1, 0.1, d))).min() > 0


def test_one_column_of_the_toeplitz_model_has_variance_one():
    assert uniform(make_conditional_density("toeplitz", 2000, d=1, random_state=40).X[:, 0], "norm")


def test_settings_of_the_laws():
    data = make_conditional_density("beta", 2000, random_state=40, alpha=2.0, beta=3.0)
    assert uniform(data.X[:, 0], beta(2, 3).cdf)
    data = make_conditional_density("dirichlet", 2000, d=2, random_state=40, alpha=1.0)
    assert uniform(data.X[:, 0])
    assert make_conditional_density("dirichlet", 5).X.shape == (5, 4)
    assert make_conditional_density("cauchy", 5).X.shape == (5, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_conditional_density("gamma"), "model is 'gamma'; it must be one of"),
        (lambda: make_conditional_density("beta", 0), "n is 0"),
        (lambda: make_conditional_density("linear", d=0), "d is 0"),
        (lambda: make_conditional_density("linear", sigma=-1), "sigma is -1"),
        (lambda: make_conditional_density("mvn", d=2), "d is 2, but model 'mvn' has no settings"),
        (
            lambda: make_conditional_density("beta", d=2),
            r"d is 2, but model 'beta' takes \['alpha'",
        ),
        (lambda: make_conditional_density("cauchy", gamma=0.0), "gamma is 0.0"),
        (lambda: make_conditional_density("beta", random_state="a"), "random_state is 'a'"),
        (lambda: make_triangle(5, [[0, 0, 0], [1, 1, 1]]), r"vertices has shape \(2, 3\)"),
        (lambda: make_triangle(5, np.ones((3, 3))), "vertices are one point"),
        (lambda: make_triangle(5, given=("u",)), "given is 'u'"),
        (lambda: make_triangle(5, given=()), r"given is \(\); one or two of"),
        (lambda: make_triangle(5, given=("x", "x")), r"given is \('x', 'x'\); one or two of"),
        (lambda: make_triangle(5, given="xyz"), "given is 'xyz'; one or two of"),
        (lambda: make_triangle(5, sigma=0.0), "sigma is 0.0"),
        (lambda: make("mvn", 3).density([[1.0]], [[1.0]]), "Y has 1 column but the model has 2"),
        (lambda: make("beta", 3).density([1.0], [[1.0, 2.0]]), "X has 2 columns but the model"),
        (lambda: make("beta", 3).density([1.0, np.nan], [[1.0]]), "Y contains NaN"),
        (lambda: make("beta", 3).density([1.0, 2.0], [[1.0]], paired=True), "Y has 2 rows but X"),
        (lambda: make("bimodal", 3).density([1.0], [[1.5]]), "X has values outside"),
        (lambda: make("dirichlet", 3).density([1.0], [[1.5, -0.5, 0, 0]]), "X has values outside"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()

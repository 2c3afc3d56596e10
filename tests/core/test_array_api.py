"""Other array libraries: what comes in as theirs goes out as theirs, with NumPy's numbers."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from array_api_compat import array_namespace
from chain_options import latent
from numpy.testing import assert_allclose

import kernelmean as km

pytestmark = pytest.mark.usefixtures("short_searches")

strict = pytest.importorskip("array_api_strict")


LIBRARIES = {"array_api_strict": strict.asarray}
if find_spec("torch"):
    import torch

    LIBRARIES["torch"] = torch.as_tensor
    if torch.cuda.is_available():
        LIBRARIES["torch, cuda"] = lambda A: torch.as_tensor(A, device="cuda")
        if find_spec("cupy"):
            import cupy

            LIBRARIES["cupy"] = cupy.asarray


@pytest.fixture(params=LIBRARIES)
def theirs(request):
    """Converts a NumPy array to the library under test."""
    return LIBRARIES[request.param]


@pytest.mark.skipif("torch" in LIBRARIES, reason="torch is installed and every test below uses it")
def test_torch_is_missing():
    """One line in the report, instead of a hundred, that says torch was not tested."""
    pytest.skip("torch is not installed: the tests below run with array_api_strict alone")


def check(got, expected, like, atol: float = 1e-9) -> None:
    """The same library and (up to rounding in another order) the same numbers."""
    assert array_namespace(got) is array_namespace(like), f"came back as {type(got)}"
    assert_allclose(numbers(got), expected, atol=atol, rtol=1e-7)


def numbers(a) -> np.ndarray:
    if hasattr(a, "get"):  # CuPy's
        return a.get()
    return np.asarray(a.detach().cpu()) if hasattr(a, "detach") else np.from_dlpack(a)


KERNELS = [
    km.Gaussian(0.8),
    km.Gaussian((0.5, 2.0), columnwise=True),
    km.Laplace(0.8),
    km.Laplace(0.8, columnwise=True),
    km.Matern(1.5, 0.8),
    km.Matern(2.5, 0.8),
    km.Matern(0.8, 0.8),
    km.Linear(offset=1.0),
    km.Delta(),
    km.Frobenius(),
    km.Periodic(0.8, period=3.0),
    km.Gaussian(0.8) + km.Linear(),
    km.Gaussian(0.8) * km.Linear(offset=1.0),
    km.on_columns({0: km.Gaussian(0.8), 1: km.Delta()}),
]
SMOOTH = [k for k in KERNELS if type(k) in (km.Gaussian, km.Laplace, km.Matern)]


@pytest.fixture
def Y(xy) -> np.ndarray:
    return xy[1][:9]


@pytest.mark.parametrize("k", KERNELS, ids=repr)
class TestKernels:
    def test_gram(self, k, theirs, xy, Y):
        X = theirs(xy[0])
        check(k(X, theirs(Y)), k(xy[0], Y), X)
        check(k(X), k(xy[0]), X)

    def test_diag(self, k, theirs, xy):
        X = theirs(xy[0])
        check(k.diag(X), k.diag(xy[0]), X)


@pytest.mark.parametrize("k", SMOOTH, ids=repr)
def test_densities(k, theirs, xy, Y):
    X = theirs(xy[0])
    check(k.density(X, theirs(Y)), k.density(xy[0], Y), X)
    check(k.self_convolution(X, theirs(Y)), k.self_convolution(xy[0], Y), X)


def test_a_derivative_along_correlated_columns(theirs, xy, Y):
    k, X = km.CorrelatedGaussian(0.8, correlation=((1.0, 0.5), (0.5, 1.0))), theirs(xy[0])
    check(k.derivative(X, theirs(Y), 1), k.derivative(xy[0], Y, 1), X)


def test_precomputed(theirs):
    gram = np.array([[2.0, 1.0], [1.0, 3.0]])
    got = km.Precomputed(theirs(gram))(theirs(np.array([0, 1])), theirs(np.array([1])))
    check(got, [[1.0], [3.0]], theirs(gram))


def test_median_lengthscale_is_a_number(theirs, xy):
    assert km.median_lengthscale(theirs(xy[0])) == pytest.approx(km.median_lengthscale(xy[0]))
    assert km.Gaussian().resolve(theirs(xy[0])) == km.Gaussian().resolve(xy[0])


def test_float32_and_integers_are_taken_in(theirs):
    for dtype in (np.float32, np.int64):
        X = np.array([[0, 1], [2, 3]], dtype=dtype)
        check(km.Gaussian(1.0)(theirs(X)), km.Gaussian(1.0)(X), theirs(X))


@pytest.mark.parametrize(
    "make", [km.Nystroem(tol=1e-6), km.Exact(), km.RandomFourier(40)], ids=repr
)
def test_feature_maps(make, theirs, xy, Y):
    from sklearn.base import clone

    numpy_map, X = clone(make), theirs(xy[0])
    expected = numpy_map.fit_transform(xy[0], km.Gaussian(0.8))
    got = make.fit_transform(X, km.Gaussian(0.8))
    # pivots are the same; the factor amplifies rounding by its condition number
    check(got, expected, X, atol=1e-6)
    check(make.transform(theirs(Y)), numpy_map.transform(Y), X, atol=1e-6)


class TestMeanEmbedding:
    @pytest.fixture(params=[False, True], ids=["single", "batch"])
    def pair(self, request, theirs, xy, rng):
        w = rng.dirichlet(np.ones(30), size=3 if request.param else None)
        k = km.Gaussian(0.8)
        return km.MeanEmbedding(xy[0], w, k), km.MeanEmbedding(theirs(xy[0]), theirs(w), k)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "verb",
        [
            lambda m, Y: m(Y),
            lambda m, Y: m.mean(),
            lambda m, Y: m.cov(),
            lambda m, Y: m.density(Y),
            lambda m, Y: m.quantile(0.3),
            lambda m, Y: m.quantile([0.1, 0.5]),
            lambda m, Y: m.interval(0.5)[0],
            lambda m, Y: m.sample(6, 0),
            lambda m, Y: m.expectation(lambda x: x**2),
            lambda m, Y: m.expectation(lambda x: x[:, 0]),
            lambda m, Y: m.normalised().weights,
            lambda m, Y: m.inner(m),
            lambda m, Y: m.mode(),
            lambda m, Y: m.herd(4),
            lambda m, Y: m.points,
        ],
        ids=[
            "call",
            "mean",
            "covariance",
            "density",
            "quantile",
            "quantiles",
            "interval",
            "sample",
            "expectation_k",
            "expectation",
            "normalised",
            "inner",
            "mode",
            "herd",
            "points",
        ],
    )
    def test_answers(self, pair, verb, theirs, Y):
        ours, other = pair
        check(verb(other, theirs(Y)), verb(ours, Y), theirs(Y), atol=1e-7)

    def test_probability(self, pair, theirs, xy):
        ours, other = pair
        for event in (lambda x: x[:, 0] > 0, lambda x: x[:, 1] <= x[:, 0]):
            check(other.probability(event), ours.probability(event), theirs(xy[0]))

    def test_mmd(self, pair, theirs, xy, Y):
        ours, other = pair
        k = km.Gaussian(0.8)
        expected = ours.mmd(km.MeanEmbedding(Y, kernel=k))
        check(other.mmd(km.MeanEmbedding(theirs(Y), kernel=k)), expected, theirs(Y), atol=1e-7)

    def test_equal_weights(self, theirs, xy):
        m = km.MeanEmbedding(theirs(xy[0]), kernel=km.Gaussian(0.8))
        check(m.weights, np.full(30, 1 / 30), theirs(xy[0]))


@pytest.mark.parametrize("features", [None, km.Exact(), km.RandomFourier(40)], ids=repr)
@pytest.mark.parametrize("reg", [1e-2, None])
class TestConditionalEmbedding:
    @pytest.fixture
    def pair(self, features, reg, theirs, xy):
        make = lambda: km.ConditionalEmbedding(km.Gaussian(0.8), km.Gaussian(0.6), reg, features)  # noqa: E731
        return make().fit(*xy), make().fit(theirs(xy[0]), theirs(xy[1]))

    def test_answers(self, pair, theirs, Y):
        ours, other = pair
        new = theirs(Y)
        check(other.predict(new), ours.predict(Y), new, atol=1e-5)
        check(other.weights(new), ours.weights(Y), new, atol=1e-5)
        check(other.at(new)(new), ours.at(Y)(Y), new, atol=1e-5)
        check(other.at(new).mean(), ours.at(Y).mean(), new, atol=1e-5)
        check(
            other.expectation(lambda y: y[:, 0], new),
            ours.expectation(lambda y: y[:, 0], Y),
            new,
            atol=1e-5,
        )

    def test_choices(self, pair):
        ours, other = pair
        assert other.reg_ == pytest.approx(ours.reg_, rel=1e-2)
        assert other.loo_score_ == pytest.approx(ours.loo_score_, rel=1e-6)

    def test_rules(self, pair, theirs, Y):
        ours, other = pair
        m, t = (
            km.MeanEmbedding(Y, kernel=km.Gaussian(0.8)),
            km.MeanEmbedding(theirs(Y), kernel=km.Gaussian(0.8)),
        )
        check(km.sum_rule(other, t).weights, km.sum_rule(ours, m).weights, theirs(Y), atol=1e-5)
        both = np.hstack([Y, Y])
        check(
            km.product_rule(other, t)(theirs(both)),
            km.product_rule(ours, m)(both),
            theirs(Y),
            atol=1e-5,
        )


@pytest.mark.slow
def test_tuned_lengthscale(theirs, xy):
    ours = km.ConditionalEmbedding(kernel_y=km.Gaussian(0.6), tune_lengthscale=True).fit(*xy)
    other = km.ConditionalEmbedding(kernel_y=km.Gaussian(0.6), tune_lengthscale=True)
    other.fit(theirs(xy[0]), theirs(xy[1]))
    assert other.loo_score_ == pytest.approx(ours.loo_score_, rel=1e-4)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel_x": km.Gaussian(0.8), "bandwidth": 0.4, "reg": 1e-2},
        {"kernel_x": km.Gaussian(0.8), "bandwidth": 0.4, "reg": 1e-2, "location": True},
        {"kernel_x": km.Gaussian(0.8), "location": False, "kernel_y": "laplace"},
        {"kernel_x": km.Gaussian(0.8), "features": km.Exact(), "bandwidth": 0.4},
    ],
    ids=["given", "location", "chosen", "exact"],
)
class TestConditionalDensity:
    @pytest.fixture
    def pair(self, parameters, columns, theirs, xy, once):
        X, Y = xy[0], xy[1][:, :columns]
        make = lambda: km.ConditionalDensity(**parameters)  # noqa: E731
        fits = lambda: (make().fit(X, Y), make().fit(theirs(X), theirs(Y)))  # noqa: E731
        return *once(("density", str(parameters), columns, theirs), fits), Y

    @pytest.mark.slow
    def test_choices(self, pair):
        ours, other, _ = pair
        assert other.loo_score_ == pytest.approx(ours.loo_score_, rel=1e-4)
        assert other.reg_ == pytest.approx(ours.reg_, rel=5e-2)
        assert_allclose(np.asarray(other.bandwidth_), ours.bandwidth_, rtol=1e-3)
        assert other.loo_score(0.5, 0.1) == pytest.approx(ours.loo_score(0.5, 0.1), rel=1e-4)

    @pytest.mark.slow
    def test_answers(self, pair, theirs, xy):
        ours, other, Y = pair
        X, y = xy[0][:6], Y[:6]
        new, at = theirs(X), theirs(y)
        for ask in (
            lambda m, X, y: m.pdf(y, X),
            lambda m, X, y: m.pdf(y, X, paired=False),
            lambda m, X, y: m.cdf(y, X),
            lambda m, X, y: m.score_samples(X, y),
            lambda m, X, y: m.weights(X),
            lambda m, X, y: m.predict(X),
            lambda m, X, y: m.predict_quantile(X, [0.2, 0.5]),
            lambda m, X, y: m.predict_interval(X, 0.5)[0],
            lambda m, X, y: m.predict_interval(X, 0.5, "shortest")[1],
        ):
            check(ask(other, new, at), ask(ours, X, y), new, atol=2e-3)
        for ask in (lambda m, X: m.mode(X), lambda m, X: m.sample(X, 3, 0)):
            assert array_namespace(ask(other, new)) is array_namespace(new)
            assert ask(other, new).shape == ask(ours, X).shape
        assert other.score(new, at) == pytest.approx(ours.score(X, y), abs=1e-2)


@pytest.mark.parametrize("index", [0, -1, [0, 2], np.array([2, 0]), slice(1, 3), np.arange(3) < 2])
def test_some_laws_of_a_batch(index, theirs, xy):
    X, Y = xy[0], xy[1][:, :1]
    ours, other = (
        km.ConditionalDensity(reg=1e-3, bandwidth=0.2, location=True).fit(f(X), f(Y)).at(f(X[:3]))
        for f in (np.asarray, theirs)
    )
    for some, same in (
        (other[index], ours[index]),
        (other.embedding[index], ours.embedding[index]),
    ):
        check(some.mean(), same.mean(), theirs(X))
        for ask in (lambda m: m.quantile([0.2, 0.7]), lambda m: m.interval(0.9).lower):
            check(ask(some), ask(same), theirs(X), atol=1e-6)
        at = [Y[:4], theirs(Y[:4])]
        check(some.density(at[1]), same.density(at[0]), theirs(X), atol=1e-6)
        check(some.log_density(at[1]), same.log_density(at[0]), theirs(X), atol=1e-6)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.parametrize("weighted", [False, True])
def test_embedded_density(kernel, weighted, theirs, xy, Y):
    w = np.random.default_rng(0).normal(1, 1, size=30) if weighted else None
    ours = km.EmbeddedDensity(kernel).fit(xy[0], sample_weight=w)
    other = km.EmbeddedDensity(kernel).fit(
        theirs(xy[0]), sample_weight=None if w is None else theirs(w)
    )
    new = theirs(Y)
    assert other.loo_score_ == pytest.approx(ours.loo_score_, rel=1e-9)
    assert_allclose(np.asarray(other.bandwidth_), ours.bandwidth_, rtol=1e-6)
    check(other.pdf(new), ours.pdf(Y), new)
    check(other.score_samples(new), ours.score_samples(Y), new)
    assert other.score(new) == pytest.approx(ours.score(Y))
    check(other.sample(4, random_state=0), ours.sample(4, random_state=0), new, atol=1e-5)


@pytest.mark.parametrize("inference", ["kbr", "forward"])
@pytest.mark.parametrize("refine", [True, False], ids=["em", "spectral"])
class TestKernelHMM:
    """The same rotation is chosen only up to rounding, and EM goes on from there: 1e-5."""

    @pytest.fixture
    def pair(self, refine, inference, theirs, once):
        data = km.datasets.make_hmm("separated", 150, random_state=40)
        X = data.X.copy()
        X[40] = np.nan
        make = lambda: km.KernelHMM(  # noqa: E731
            2, km.Gaussian(0.4), refine, inference, 0, bandwidth=0.1, em=km.EM(n_init=2, max_iter=8)
        )
        fits = lambda: (make().fit(X, [50, 100]), make().fit(theirs(X), [50, 100]))  # noqa: E731
        return *once(("hmm", refine, inference, theirs), fits), X[30:60]

    @pytest.mark.slow
    def test_states(self, pair, theirs):
        ours, other, X = pair
        new = theirs(X)
        for ask in (
            lambda m, X: m.filter(X),
            lambda m, X: m.predict_proba(X, [10, 20]),
            lambda m, X: m.predict(X),
            lambda m, X: m.decode(X)[1],
            lambda m, X: m.score_samples(X)[1],
            lambda m, X: m.forecast(X, 3).states,
        ):
            check(ask(other, new), ask(ours, X), new, atol=1e-5)
        assert_allclose(other.transmat_, ours.transmat_, atol=1e-5)
        assert other.reg_ == pytest.approx(ours.reg_, rel=1e-4)

    @pytest.mark.slow
    def test_observations(self, pair, theirs):
        ours, other, X = pair
        new = theirs(X)
        for ask in (
            lambda m, X: m.density(X[:5, :]),
            lambda m, X: m.forecast(X, 2).mean(),
            lambda m, X: m.forecast(X, 2).density(X[:5, :]),
            lambda m, X: m.forecast(X, 2).quantile(0.4),
            lambda m, X: m.sample(7, 0)[0],
            lambda m, X: m.emissions_.mean(),
            lambda m, X: m.start().update(X[0, :]).predict().mean(),
        ):
            check(ask(other, new), ask(ours, X), new, atol=1e-4)
        assert other.score(new) == pytest.approx(ours.score(X), abs=1e-3)
        assert_allclose(other.log_predictive(new), ours.log_predictive(X), atol=1e-4)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"refine": False}, {"inference": "kbr"}, {"inference": "particles"}, {"n_latent": 2}],
    ids=["em", "moments", "kbr", "particles", "plane"],
)
class TestKernelStateSpace:
    @pytest.fixture
    def pair(self, parameters, theirs, once):
        X = km.datasets.make_state_space("linear", 150, random_state=40).X.copy()
        X[40] = np.nan
        quick = {"bandwidth": 0.4, "n_nodes": 15, "n_init": 1, "max_iter": 5, "n_particles": 30}
        make = lambda: km.KernelStateSpace(  # noqa: E731
            **latent(random_state=0, **quick, **parameters)
        )
        fits = lambda: (make().fit(X, [50, 100]), make().fit(theirs(X), [50, 100]))  # noqa: E731
        return *once(("states", str(parameters), theirs), fits), X[30:60]

    @pytest.mark.slow
    def test_states(self, pair, theirs):
        ours, other, X = pair
        new = theirs(X)
        for ask in (
            lambda m, X: m.filter(X).probabilities,
            lambda m, X: m.filter(X, [10, 20]).mean(),
            lambda m, X: m.filter(X).interval()[0],
            lambda m, X: m.smooth(X).variance(),
            lambda m, X: m.forecast(X, 3).states,
            lambda m, X: m.sample(7, 0)[1],
        ):
            check(ask(other, new), ask(ours, X), new, atol=1e-5)
        assert_allclose(other.transmat_, ours.transmat_, atol=1e-6)
        states = [m.start().update(x[3, :]).latent for m, x in ((other, new), (ours, X))]
        assert_allclose(states[0], states[1], atol=1e-5)

    @pytest.mark.slow
    def test_observations(self, pair, theirs):
        ours, other, X = pair
        new, x = theirs(X), ours.nodes_[:2]
        for ask in (
            lambda m, X: m.predict(X),
            lambda m, X: m.predict_interval(X)[1],
            lambda m, X: m.predict_quantile(X, [0.2, 0.5]),
            lambda m, X: m.forecast(X, 2).mean(),
            lambda m, X: m.forecast(X, 2).density(X[:5, :]),
            lambda m, X: m.forecast(X, 2).quantile(0.4),
            lambda m, X: m.sample(7, 0)[0],
            lambda m, X: m.emission_at(x).mean(),
            lambda m, X: m.start().update(X[0, :]).predict().mean(),
        ):
            check(ask(other, new), ask(ours, X), new, atol=1e-4)
        assert other.score(new) == pytest.approx(ours.score(X), abs=1e-3)
        assert_allclose(other.log_predictive(new), ours.log_predictive(X), atol=1e-4)


@pytest.mark.parametrize("method", ["correlations", "threshold", "ratio"])
def test_estimate_order(method, theirs):
    X = km.datasets.make_hmm("separated", 500, random_state=40).X
    ours, other = km.estimate_order(X, method=method), km.estimate_order(theirs(X), method=method)
    assert other == ours
    assert_allclose(other.singular_values, ours.singular_values, atol=1e-9)


@pytest.mark.parametrize("reg", [1e-2, None])
def test_density_ratio(reg, theirs, xy, Y):
    X = theirs(xy[0])
    ours = km.DensityRatio(km.Gaussian(0.8), reg).fit(xy[0], Y)
    other = km.DensityRatio(km.Gaussian(0.8), reg).fit(X, theirs(Y))
    check(other.weights_, ours.weights_, X, atol=1e-5)
    check(other.predict(theirs(Y)), ours.predict(Y), X, atol=1e-4)


def test_a_score_of_posteriors(theirs, xy):
    ours, other = (
        km.KernelBayes(reg=1e-2, reg_prior=1e-2).fit(*map(f, xy)) for f in (np.asarray, theirs)
    )
    assert other.score(*map(theirs, xy)) == pytest.approx(ours.score(*xy), abs=1e-6)


class TestKernelIV:
    KERNELS = km.Gaussian(0.8), km.Gaussian(0.8)

    @pytest.fixture
    def rows(self, xy) -> tuple:
        """Regressors, outcome, instruments and an exogenous regressor."""
        X, Y = xy
        return X, Y[:, 0], X + Y, Y[:, 1:]

    @pytest.mark.parametrize("regs", [(1e-2, 1e-2), (None, None)])
    @pytest.mark.parametrize("trend", [None, 0, 2])
    @pytest.mark.parametrize("split", ["loo", 0.5, 3, "samples"])
    def test_fits(self, split, trend, regs, theirs, rows, Y):
        make = lambda: km.KernelIV(*self.KERNELS, *regs, split=split, trend=trend)  # noqa: E731
        ours, other = make().fit(*rows), make().fit(*map(theirs, rows))
        C = rows[3][:9]
        got = other.predict(theirs(Y), theirs(C))
        check(got, ours.predict(Y, C), theirs(Y), atol=1e-4)
        assert other.reg_stage1_ == pytest.approx(ours.reg_stage1_, rel=1e-2)
        for name in ("loss_stage1_", "loss_stage2_", "specification_p_"):
            assert isinstance(getattr(other, name), float)
            assert getattr(other, name) == pytest.approx(getattr(ours, name), rel=1e-2)
        # coordinates in another rotation have another covariance: that of predictions is the same
        at = ours.basis_x_.transform(np.hstack([Y, C]))
        theirs_at = other.basis_x_.transform(theirs(np.hstack([Y, C])))
        spread = theirs_at @ other.covariance_ @ theirs_at.T
        check(spread, at @ ours.covariance_ @ at.T, theirs(Y), atol=1e-4)

    @pytest.mark.slow
    def test_everything_chosen(self, theirs, rows, Y):
        ours, other = km.KernelIV().fit(*rows), km.KernelIV().fit(*map(theirs, rows))
        C = rows[3][:9]
        assert other.trend_ == ours.trend_
        bare = ours._fit.draft.bare  # least squares has no lengthscales, and more than one name
        assert other._fit.draft.bare == bare
        if not bare:
            assert_allclose(other.scales_x_, ours.scales_x_, rtol=1e-4)
        assert isinstance(other.scales_x_, np.ndarray)
        check(other.predict(theirs(Y), theirs(C)), ours.predict(Y, C), theirs(Y), atol=1e-3)
        assert isinstance(other.summary(), str)

    @pytest.mark.slow
    def test_curves_that_add_up(self, theirs):
        rng = np.random.default_rng(1)
        c, (z, v) = rng.uniform(-2, 2, 300), rng.normal(size=(2, 300))
        x = 1.2 * z + 0.5 * np.sin(1.5 * c) + 0.7 * v
        y = abs(x) + 2 * np.sin(2 * c) + v
        rows = x[:, None], y, z[:, None], c[:, None]
        ours, other = km.KernelIV().fit(*rows), km.KernelIV().fit(*map(theirs, rows))
        assert len(ours.basis_x_.features.parts) == 2
        at, beside = rows[0][:30], rows[3][:30]
        found = other.predict(theirs(at), theirs(beside))
        check(found, ours.predict(at, beside), theirs(at), atol=1e-5)
        assert other.average_derivative().error == pytest.approx(ours.average_derivative().error)

    def test_two_samples(self, theirs, rows):
        X, y, Z, _ = (part.copy() for part in rows)
        X[20:], y[:10] = np.nan, np.nan
        make = lambda: km.KernelIV(*self.KERNELS, split="samples", trend=1)  # noqa: E731
        ours, other = make().fit(X, y, Z), make().fit(theirs(X), theirs(y), theirs(Z))
        check(other.predict(theirs(X[:20])), ours.predict(X[:20]), theirs(X), atol=1e-4)

    @pytest.mark.filterwarnings("ignore:X has .* outside the training data")
    def test_inference(self, theirs, rows, Y):
        ours, other = (
            km.KernelIV(*self.KERNELS, trend=1).fit(*data)
            for data in (rows[:3], tuple(map(theirs, rows[:3])))
        )
        new = theirs(Y)
        for simultaneous in (True, False):
            mine = ours.predict_interval(Y, simultaneous=simultaneous)
            yours = other.predict_interval(new, simultaneous=simultaneous)
            for one, other_s in zip(mine, yours, strict=True):
                check(other_s, one, new, atol=1e-3)
        check(other.derivative(new, column=1), ours.derivative(Y, column=1), new, atol=1e-3)
        check(other.derivative(new), ours.derivative(Y), new, atol=1e-3)
        mine, yours = (
            ours.derivative_interval(Y, column=0),
            other.derivative_interval(new, column=0),
        )
        for one, other_s in zip(mine, yours, strict=True):
            check(other_s, one, new, atol=1e-3)
        mine, yours = (iv.average_derivative(column=0) for iv in (ours, other))
        assert yours.value == pytest.approx(mine.value, abs=1e-3)
        assert yours.error == pytest.approx(mine.error, abs=1e-3)
        mine, yours = ours.contrast(Y, Y + 1), other.contrast(new, new + 1)
        assert_allclose(numbers(yours.value), mine.value, atol=1e-3)
        assert other.endogeneity_test().p_value == pytest.approx(
            ours.endogeneity_test().p_value, abs=0.02
        )
        assert_allclose(other.first_stage().f, ours.first_stage().f, rtol=1e-2)

    def test_files(self, theirs, rows, Y, tmp_path):
        iv = km.KernelIV(*self.KERNELS, trend=1).fit(*map(theirs, rows[:3]))
        iv.save(tmp_path / "iv.km")
        again = km.load(tmp_path / "iv.km")
        assert_allclose(again.predict(Y), numbers(iv.predict(theirs(Y))), atol=1e-8)


@pytest.mark.parametrize("rule", ["importance", "squared"])
@pytest.mark.parametrize("features", [None, km.Exact(), km.RandomFourier(20)], ids=repr)
class TestKernelBayesFilter:
    TRAIN, TEST = (km.datasets.make_rotation(n, random_state=n) for n in (40, 10))

    @pytest.fixture
    def pair(self, rule, features, theirs, once):
        kernels = {"kernel_x": km.Gaussian(0.8), "kernel_z": km.Gaussian(0.6)}
        regs = {"reg_prior": 1e-2, "reg_transition": 1e-2}
        settings = {**kernels, **regs, "reg": 1e-2 if rule == "importance" else 1e-4}
        make = lambda: km.KernelBayesFilter(rule, features=features, **settings)  # noqa: E731
        X, Z = self.TRAIN.X, self.TRAIN.Z
        fits = lambda: tuple(make().fit(to(X), to(Z), [15, 25]) for to in (np.asarray, theirs))  # noqa: E731
        return once(("filter", rule, repr(features), theirs), fits)

    @pytest.fixture
    def X(self) -> np.ndarray:
        X = self.TEST.X.copy()
        X[2], X[6, 1] = np.nan, np.nan
        return X

    @pytest.mark.slow
    @pytest.mark.parametrize("verb", ["filter", "smooth"])
    def test_tracks(self, pair, theirs, X, verb):
        ours, other = pair
        a, b = getattr(ours, verb)(X, [4, 6]), getattr(other, verb)(theirs(X), [4, 6])
        check(b.mean(), a.mean(), theirs(X), atol=1e-6)
        check(b.embedding.weights, a.embedding.weights, theirs(X), atol=1e-6)
        for mine, yours in zip(a.interval(), b.interval(), strict=True):
            check(yours, mine, theirs(X), atol=1e-6)
        assert isinstance(b.missing, np.ndarray)
        assert_allclose(b.missing, a.missing)
        assert repr(b) == repr(a)

    @pytest.mark.slow
    def test_forecasts(self, pair, theirs, X):
        a, b = pair[0].forecast(X, 3), pair[1].forecast(theirs(X), 3)
        check(b.mean(), a.mean(), theirs(X), atol=1e-6)
        check(
            b.observations.embedding.weights, a.observations.embedding.weights, theirs(X), atol=1e-6
        )
        check(b.interval()[1], a.interval()[1], theirs(X), atol=1e-6)

    @pytest.mark.slow
    def test_predictions(self, pair, theirs, X):
        check(pair[1].predict(theirs(X)), pair[0].predict(X), theirs(X), atol=1e-6)
        mode = pair[0].predict(X, point="mode")
        check(pair[1].predict(theirs(X), point="mode"), mode, theirs(X), atol=1e-4)
        score = pair[1].score(theirs(self.TEST.X), theirs(self.TEST.Z))
        assert score == pytest.approx(pair[0].score(self.TEST.X, self.TEST.Z), abs=1e-6)

    @pytest.mark.slow
    def test_priors(self, pair, theirs, X):
        points, w = self.TEST.Z[:4], np.array([0.5, 0.3, 0.4, -0.2])
        a = pair[0].filter(X, prior=points).mean()
        check(pair[1].filter(theirs(X), prior=theirs(points)).mean(), a, theirs(X), atol=1e-6)
        mine = km.MeanEmbedding(points, w, km.Gaussian(0.6))
        yours = km.MeanEmbedding(theirs(points), theirs(w), km.Gaussian(0.6))
        a, b = pair[0].smooth(X, prior=mine).mean(), pair[1].smooth(theirs(X), prior=yours).mean()
        check(b, a, theirs(X), atol=1e-6)

    @pytest.mark.slow
    def test_streams(self, pair, theirs, X):
        a, b = (model.start() for model in pair)
        for x in X:
            check(b.update(theirs(x)).mean(), a.update(x).mean(), theirs(X), atol=1e-6)
            check(b.embedding.weights, a.embedding.weights, theirs(X), atol=1e-6)
            check(b.predict().mean(), a.predict().mean(), theirs(X), atol=1e-6)
            check(b.previous, a.previous, theirs(X), atol=1e-6)
        assert repr(b) == repr(a)

    def test_collapses(self, pair, theirs, X, features):
        if isinstance(features, km.RandomFourier):
            pytest.skip("cosines do not vanish far away: a spike is not noticed")
        X[4] = 1e6
        with pytest.warns(km.NumericalWarning, match="1 of 10"):
            a = pair[0].filter(X)
        with pytest.warns(km.NumericalWarning, match="1 of 10"):
            b = pair[1].filter(theirs(X))
        assert b.collapsed.tolist() == a.collapsed.tolist()
        check(b.mean(), a.mean(), theirs(X), atol=1e-6)

    @pytest.mark.slow
    def test_supervision(self, pair, theirs, X, rule):
        if rule == "squared":
            with pytest.raises(ValueError, match="supervision"):
                pair[1].filter(theirs(X), supervision=(theirs(X), theirs(X), 1.0))
            return
        x_s, z_s, strength = self.TEST.X + 0.7, 1.2 * self.TEST.Z, np.linspace(0, 0.2, 10)
        a = pair[0].filter(X, supervision=(x_s, z_s, strength))
        b = pair[1].filter(theirs(X), supervision=(theirs(x_s), theirs(z_s), theirs(strength)))
        check(b.mean(), a.mean(), theirs(X), atol=1e-5)
        check(b.embedding.mean(), a.embedding.mean(), theirs(X), atol=1e-5)
        rows = [theirs(part) for part in (x_s, z_s)]

        def call(t, x, belief):
            return rows[0][t : t + 1, :], rows[1][t : t + 1, :], float(strength[t])

        a = pair[0].smooth(X, supervision=(x_s, z_s, strength)).mean()
        check(pair[1].smooth(theirs(X), supervision=call).mean(), a, theirs(X), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["importance", "squared"])
def test_a_filter_with_everything_chosen(rule, theirs):
    data = km.datasets.make_rotation(40, random_state=0)
    X, Z = data.X, data.Z
    ours = km.KernelBayesFilter(rule, inference="kbr", max_active=20).fit(X, Z)
    other = km.KernelBayesFilter(rule, inference="kbr", max_active=20).fit(theirs(X), theirs(Z))
    for name in ("reg_", "reg_prior_", "reg_transition_", "reg_smoother_"):
        assert isinstance(getattr(other, name), float)
        assert getattr(other, name) == pytest.approx(getattr(ours, name), rel=1e-2)
    check(other.predict(theirs(X)), ours.predict(X), theirs(X), atol=1e-2)


@pytest.mark.slow
def test_a_tuned_filter(theirs):
    data = km.datasets.make_rotation(40, random_state=0)
    model = km.KernelBayesFilter(reg=1e-2, features=km.Nystroem(tol=1e-2))
    ours = model.tune(data.X, data.Z, validation=0.3)
    other = model.tune(theirs(data.X), theirs(data.Z), validation=0.3)
    for name in ("kernel_z", "kernel_x"):  # a median's last digit is the library's
        found = getattr(other, name).lengthscale
        assert found == pytest.approx(getattr(ours, name).lengthscale, rel=1e-14)
    expected = [row["error"] for row in ours.tuning_]
    assert [row["error"] for row in other.tuning_] == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_a_filter_saved_in_one_library_tracks_in_numpy(theirs, tmp_path):
    data = km.datasets.make_rotation(40, random_state=0)
    for rule in ("importance", "squared"):
        model = km.KernelBayesFilter(rule, reg=1e-3).fit(theirs(data.X), theirs(data.Z))
        model.save(tmp_path / "f.km")
        found = km.load(tmp_path / "f.km").smooth(data.X).mean()
        assert_allclose(found, numbers(model.smooth(theirs(data.X)).mean()), atol=1e-8)


def filtered_and_smoothed(X, Z):
    model = km.KernelBayesFilter(inference="kbr").fit(X, Z)
    return array_namespace(X).concat([model.filter(X).mean(), model.smooth(X).mean()])


DEFAULTS = {
    "embedding": lambda X, Z: km.ConditionalEmbedding().fit(X, Z).predict(X),
    "density": lambda X, Z: km.ConditionalDensity().fit(X, Z).at(X).log_density_of_pairs(Z),
    "bayes": lambda X, Z: km.KernelBayes().fit(X, Z).predict(X),
    "ratio": lambda X, Z: km.DensityRatio().fit(X, Z).predict(X),
    "iv": lambda X, Z: km.KernelIV().fit(Z[:, :1], Z[:, 1], X).predict(Z[:, :1]),
    "filter": filtered_and_smoothed,
    "hmm": lambda X, Z: km.KernelHMM(2, random_state=0).fit(X).score_samples(X)[1],
    "state space": lambda X, Z: km.KernelStateSpace(random_state=0).fit(X).filter(X).mean(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFAULTS)
def test_nothing_given(name, theirs):
    """All is chosen from the data: rounding in another order may move a choice a little."""
    data = km.datasets.make_rotation(60, random_state=0)
    expected = DEFAULTS[name](data.X, data.Z)
    check(DEFAULTS[name](theirs(data.X), theirs(data.Z)), expected, theirs(data.X), atol=1e-4)


def test_bad_values_are_refused_by_name(theirs):
    with pytest.raises(ValueError, match="NaN"):
        km.Gaussian(1.0)(theirs(np.array([[np.nan, 1.0]])))
    with pytest.raises(ValueError, match="weights"):
        km.MeanEmbedding(theirs(np.ones((2, 1))), theirs(np.ones(3)), km.Gaussian(1.0))


def test_saving_keeps_the_numbers(theirs, xy, tmp_path):
    """Files hold NumPy arrays, so what comes back is NumPy."""
    c = km.ConditionalEmbedding().fit(theirs(xy[0]), theirs(xy[1]))
    c.save(tmp_path / "c.km")
    assert_allclose(
        km.load(tmp_path / "c.km").predict(xy[0]), numbers(c.predict(theirs(xy[0]))), atol=1e-8
    )


class TestLibrariesThatMeet:
    """What was fitted on arrays of one library says so when it is asked about those of another."""

    @pytest.fixture(params=["ours first", "theirs first"])
    def pair(self, request, theirs, xy):
        here, there = (lambda A: A), theirs
        return (here, there) if request.param == "ours first" else (there, here)

    def test_are_told_apart(self, pair, xy, Y):
        fitted, asked = pair
        X, y = fitted(xy[0]), fitted(xy[1])
        new = asked(Y)
        k = km.Gaussian(0.8)
        conditional = km.ConditionalEmbedding(k, k, 1e-2).fit(X, y)
        bayes = km.KernelBayes(kernel_x=k, kernel_z=k, reg=1e-2, reg_prior=1e-2).fit(X, y)
        density = km.ConditionalDensity(k, 0.5, 1e-2).fit(X, y)
        ratio = km.DensityRatio(k, 1e-2).fit(X, y)
        m = km.MeanEmbedding(X, kernel=k)
        for ask in (
            lambda: conditional.predict(new),
            lambda: conditional.at(new),
            lambda: conditional.apply(new),
            lambda: bayes.posterior(new),
            lambda: bayes.posterior(X[:2, :], prior=new),
            lambda: density.at(new),
            lambda: ratio.predict(new),
            lambda: km.EmbeddedDensity(bandwidth=0.5).fit(X).pdf(new),
            lambda: km.Nystroem().fit(X, k).transform(new),
            lambda: km.RandomFourier(10).fit(X, k).transform(new),
            lambda: m(new),
            lambda: m.density(new),
            lambda: m.mmd(km.MeanEmbedding(new, kernel=k)),
            lambda: km.MeanEmbedding(X, asked(np.full(30, 1 / 30))),
            lambda: km.ConditionalEmbedding().fit(X, asked(xy[1])),
        ):
            with pytest.raises(ValueError, match=r"is of \w+ but .* are of \w+; convert"):
                ask()

"""Laws answer the same verbs whoever made them, estimators the same predictions and summaries."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.core.interval import Interval
from kernelmean.core.summary import Summary

pytestmark = pytest.mark.usefixtures("short_searches")

N, NEW = 80, 5
rng = np.random.default_rng(3)
X = rng.uniform(-1, 1, (N, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.3 * rng.normal(size=(N, 2))


def conditional(X, Y):
    return km.ConditionalEmbedding(reg=1e-2).fit(X, Y)


def bayes(X, Y):
    return km.KernelBayes(reg=1e-2, reg_prior=1e-2).fit(X, Y)


def density(X, Y):
    return km.ConditionalDensity(bandwidth=0.3, reg=1e-2).fit(X, Y)


def located(X, Y):
    return km.ConditionalDensity(bandwidth=0.3, reg=1e-2, location=True).fit(X, Y)


MAKERS = [conditional, bayes, density, located]


def law_of(model, X):
    return model.posterior(X) if isinstance(model, km.KernelBayes) else model.at(X)


@pytest.fixture(scope="module", params=MAKERS, ids=lambda f: f.__name__)
def model(request):
    return request.param(X, Y)


@pytest.fixture(scope="module")
def law(model):
    return law_of(model, X[:NEW])


class TestLaws:
    def test_shapes(self, law):
        shapes = {
            "mean": law.mean(),
            "std": law.std(),
            "mode": law.mode(),
            "lower": law.interval(0.8).lower,
            "quantile": law.quantile(0.3),
        }
        assert {name: a.shape for name, a in shapes.items()} == dict.fromkeys(shapes, (NEW, 2))
        assert law.cov().shape == (NEW, 2, 2)
        assert law.quantile([0.1, 0.2, 0.3]).shape == (NEW, 3, 2)
        assert law.density(Y[:7]).shape == law.log_density(Y[:7]).shape == (NEW, 7)
        assert law.sample(4, random_state=0).shape == (NEW, 4, 2)
        assert law.probability(lambda y: y[:, 0] < 0).shape == (NEW,)
        assert len(law) == NEW

    def test_answers_agree_with_each_other(self, law):
        with np.errstate(divide="ignore"):
            assert_allclose(law.log_density(Y[:7]), np.log(law.density(Y[:7])))
        ends = law.interval(0.8)
        assert isinstance(ends, Interval)
        assert_array_equal(np.stack(ends, axis=1), law.quantile([0.5 - 0.4, 0.5 + 0.4]))
        assert_allclose(law.std() ** 2, np.diagonal(law.cov(), axis1=1, axis2=2), atol=1e-12)

    def test_a_member_is_that_law(self, law):
        one = law[2]
        assert_allclose(one.mean(), law.mean()[2])
        assert_allclose(one.cov(), law.cov()[2], atol=1e-9)
        assert_allclose(one.quantile(0.3), law.quantile(0.3)[2], atol=1e-6)
        if law.bandwidth is not None or one.bandwidth is not None:  # else a batch has a common one
            assert_allclose(one.density(Y[:7]), law.density(Y[:7])[2], atol=2e-3)
        low = lambda y: y[:, 0] < 0  # noqa: E731
        assert_allclose(one.probability(low), law.probability(low)[2], atol=1e-9)

    def test_a_table_with_the_names_and_the_index_that_came_in(self, model):
        pd = pytest.importorskip("pandas")
        days = pd.date_range("2020-01-01", periods=N, tz="UTC")
        frame = pd.DataFrame(X, columns=["a", "b"], index=days)
        named = type(model)(**model.get_params()).fit(frame, pd.DataFrame(Y, columns=["u", "v"]))
        law = law_of(named, frame[:NEW])
        found = law.to_frame(level=0.8)
        flags = [c for c in found if c == "extrapolated"]  # of laws that depend on X
        answers = [name + s for name in "uv" for s in ("", "_std", "_lower", "_upper")]
        assert [*found] == answers + flags
        assert_array_equal(found.index, days[:NEW])
        assert_allclose(found["v"], law.mean()[:, 1])
        assert_allclose(found["u_upper"], law.interval(0.8).upper[:, 0])
        plain = law_of(model, X[:NEW]).to_frame()
        stem = "z" if isinstance(model, km.KernelBayes) else "y"
        assert list(plain)[:2] == [f"{stem}0", f"{stem}0_std"]
        one = law[1].to_frame()
        assert len(one) == 1
        assert list(one) == list(found)

    def test_labels_survive_a_file(self, tmp_path):
        pd = pytest.importorskip("pandas")
        m = km.MeanEmbedding(pd.DataFrame({"u": [0.0, 1.0], "v": [1.0, 3.0]})).marginal(1)
        m.save(tmp_path / "m.km")
        assert next(iter(km.load(tmp_path / "m.km").to_frame())) == "v"


class TestPredictions:
    def test_are_those_of_the_law(self, model, law):
        ends = model.predict_interval(X[:NEW], 0.8)
        assert isinstance(ends, Interval)
        assert_allclose(ends, law.interval(0.8))
        assert_allclose(model.predict_quantile(X[:NEW], [0.1, 0.6]), law.quantile([0.1, 0.6]))

    @pytest.mark.parametrize("make", MAKERS)
    def test_have_the_shape_of_y(self, make):
        model = make(X, Y[:, 0])
        ends = model.predict_interval(X[:NEW])
        assert ends.lower.shape == ends.upper.shape == (NEW,)
        assert_array_equal(ends.upper, model.predict_interval(X[:NEW], 0.95).upper)
        assert model.predict_quantile(X[:NEW], 0.3).shape == (NEW,)
        assert model.predict_quantile(X[:NEW], [0.3, 0.4]).shape == (NEW, 2)

    def test_old_names_say_the_new_ones(self):
        model = density(X, Y)
        with pytest.warns(FutureWarning, match="predict_interval"):
            old = model.interval(X[:NEW], 0.8)
        assert_array_equal(old, model.predict_interval(X[:NEW], 0.8))
        with pytest.warns(FutureWarning, match="predict_quantile"):
            old = model.quantile(X[:NEW], 0.8)
        assert_array_equal(old, model.predict_quantile(X[:NEW], 0.8))


class TestBandwidths:
    @pytest.mark.parametrize("make", [density, located])
    def test_of_the_estimator_go_with_the_law(self, make):
        model = make(X, Y)
        law = model.at(X[:NEW])
        expected = model.pdf(Y[:7], X[:NEW], paired=False)
        assert_allclose(law.density(Y[:7]), expected, rtol=1e-3, atol=1e-6)
        assert_allclose(law.sample(3, 0), model.sample(X[:NEW], 3, 0))

    def test_can_be_had_otherwise(self):
        law = density(X, Y).at(X[:NEW])
        assert law.bandwidth == (0.3, 0.3)
        plain = km.MeanEmbedding(law.points, law.weights, law.kernel)
        assert_array_equal(law.quantile(0.3, bandwidth=0.0), plain.quantile(0.3))
        assert_allclose(plain.quantile(0.3, bandwidth=0.3), law.quantile(0.3), rtol=1e-12)
        with pytest.raises(ValueError, match="bandwidth is 'wide'.*own"):
            law.quantile(0.3, bandwidth="wide")

    def test_of_a_density_estimate(self):
        kde = km.EmbeddedDensity(wide=0.0).fit(Y)
        assert_array_equal(kde.embedding_.density(Y[:7]), kde.pdf(Y[:7]))


class TestPairs:
    def test_are_the_default_and_a_table_is_asked_for(self):
        model = density(X, Y)
        table = model.pdf(Y[:NEW], X[:NEW], paired=False)
        assert_allclose(model.pdf(Y[:NEW], X[:NEW]), np.diagonal(table), atol=1e-9)
        with pytest.raises(ValueError, match="Y has 3 rows but X has 5.*paired=False"):
            model.pdf(Y[:3], X[:NEW], paired=True)

    def test_lengths_that_differ_gave_a_table(self):
        model = density(X, Y)
        with pytest.warns(FutureWarning, match="Y has 3 rows but X has 5.*paired=False"):
            found = model.pdf(Y[:3], X[:NEW])
        assert_array_equal(found, model.pdf(Y[:3], X[:NEW], paired=False))
        with pytest.warns(FutureWarning, match="paired=False"):
            assert model.cdf(Y[:3], X[:NEW]).shape == (NEW, 3, 2)


def ratio():
    return km.DensityRatio().fit(X, Y)


@pytest.mark.parametrize(
    ("fitted", "words"),
    [
        (lambda: conditional(X, Y), ["rows", "80", "lengthscale of x1", "reg (λ)", "(given)"]),
        (lambda: km.ConditionalEmbedding().fit(X, Y), ["reg (λ)", "(chosen)", "y0, y1"]),
        (lambda: bayes(X, Y), ["importance", "reg_prior (η)", "lengthscale of z0"]),
        (lambda: density(X, Y), ["bandwidth of y1", "0.3 (given)", "y itself"]),
        (lambda: located(X, Y), ["residuals around a smooth mean"]),
        (lambda: km.EmbeddedDensity().fit(X), ["Gaussian", "bandwidth of x0", "(chosen)"]),
        (ratio, ["rows of the denominator", "reg (η)"]),
    ],
)
def test_summaries_say_what_was_fitted(fitted, words):
    text = fitted().summary()
    assert isinstance(text, Summary)
    assert [word for word in words if word not in text] == []
    assert "<table>" in text._repr_html_()

"""Laws around a mean that are wider in one place than in another."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor, kernels
from sklearn.linear_model import Ridge

import kernelmean as km
from kernelmean.densities.laws import MovedLaws
from kernelmean.densities.location import Design, Location, Weights
from kernelmean.densities.standard import (
    Forms,
    Standard,
    log_sizes,
    regressed,
    searched,
)
from kernelmean.embedding.move import Move
from kernelmean.features.landmarks import Nystroem
from kernelmean.regression.lengthscales import evidence_loss


def fan(n, seed):
    """y = sin 2x + e^(1.2x − 2.3) ε."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 1))
    return X, (np.sin(2 * X) + 0.1 * np.exp(1.2 * X) * rng.standard_normal((n, 1)))[:, 0]


def exact(X):
    return stats.norm(np.sin(2 * X[:, 0]), 0.1 * np.exp(1.2 * X[:, 0]))


def location_on(X, Y, kernel, features, size: float, **given) -> Location:
    return Location.on(Design(X, kernel, features, size), Y, **given)


@pytest.fixture(scope="module")
def model():
    return km.ConditionalDensity().fit(*fan(400, 0))


@pytest.fixture(scope="module")
def equally_wide():
    return km.ConditionalDensity(location=True).fit(*fan(400, 0))


class TestWidths:
    def test_are_learned(self, model):
        """Where the noise is small what is not known of m is as large."""
        X = np.linspace(-0.9, 1.8, 7)[:, None]
        log_s = model.location_.log_size(X)[:, 0]
        assert_allclose(log_s - log_s.mean(), 1.2 * (X - X.mean())[:, 0], atol=0.4)
        assert_allclose(model.at(X).std()[:, 0], exact(X).std(), rtol=0.4)

    def test_far_away_are_no_narrower_than_at_any_row(self, model):
        """Their logarithm would go on as a line, to laws of no width beside a mean that is far."""
        s = model.location_
        assert np.all(s.log_size(np.array([[-4.0], [-40.0]])) >= s.size(fan(400, 0)[0]).min() - 0.2)

    def test_bring_densities_nearer_to_the_truth(self, model, equally_wide):
        X, y = fan(2000, 1)
        best = exact(X).logpdf(y).mean()
        assert best - model.score(X, y) < 0.5 * (best - equally_wide.score(X, y))

    def test_intervals_hold_everywhere(self, model):
        X, y = fan(4000, 2)
        lower, upper = model.predict_interval(X, 0.9)
        held = (lower <= y) & (y <= upper)
        for low in (-1.0, 0.0, 1.0):
            assert 0.83 < held[(X[:, 0] >= low) & (X[:, 0] < low + 1)].mean() < 0.95

    def test_none_where_laws_are_equally_wide(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 1))
        model = km.ConditionalDensity().fit(X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(300))
        assert isinstance(model.location_, Location)

    def test_units_of_y_turn_out(self, model):
        X, y = fan(400, 0)
        other = km.ConditionalDensity().fit(X, 1000.0 * y - 7.0)
        new, rows = fan(200, 3)
        scores = model.score_samples(new, rows)
        assert_allclose(
            other.score_samples(new, 1000.0 * rows - 7.0), scores - np.log(1000), atol=1e-3
        )

    @pytest.mark.slow
    def test_units_of_x_do_not_matter(self):
        """The scales of widths were sought from distances in the units of the columns."""
        rng = np.random.default_rng(0)
        X, units = rng.normal(size=(200, 3)), np.array([1000.0, 7.0, 0.01])
        y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=200) * (1 + (X[:, 2] > 0))
        one, other = (km.ConditionalDensity().fit(x, y) for x in (X, X * units))
        assert isinstance(one.location_, Standard)
        assert_allclose(other.score_samples(X * units, y), one.score_samples(X, y), atol=1e-6)

    def test_survive_a_file(self, model, tmp_path):
        new, rows = fan(50, 4)
        model.save(tmp_path / "density.km")
        again = km.load(tmp_path / "density.km")
        assert_allclose(again.score_samples(new, rows), model.score_samples(new, rows), rtol=1e-12)

    def test_rows_in_chunks(self, model):
        """Sums over standardised residuals, in cells, are those of rows one by one."""
        X, y = fan(12_000, 5)
        halves = [(X[:7000], y[:7000]), (X[7000:], y[7000:])]
        sums = km.ConditionalDensity().fit(
            km.Rows([x for x, _ in halves]), km.Rows([t for _, t in halves])
        )
        assert isinstance(sums.location_, Standard)
        new, rows = fan(300, 6)
        best = exact(new).logpdf(rows).mean()
        assert abs(best - sums.score(new, rows)) < 0.03

    def test_conformal_levels(self, model):
        X, y = fan(1000, 7)
        held = model.conformalize().contains(X, y, 0.8)
        assert 0.75 < held.mean() < 0.87

    def test_summary_says_so(self, model):
        assert "as wide as x says" in str(model.summary())


class TestWeights:
    """Of squared errors, in the regression that m is."""

    @pytest.fixture
    def learned(self):
        X, y = fan(40, 8)
        size = location_on(X, 1.2 * X, km.Linear(), Nystroem(), 1.0)
        weights = Weights(size, X)
        kernel = km.Gaussian(0.7)
        return (
            X,
            y[:, None],
            weights,
            location_on(X, y[:, None], kernel, Nystroem(), 1.0, weights=weights, reg=1e-3),
        )

    def test_are_one_over_the_square_of_sizes(self, learned):
        X, _, weights, _ = learned
        w = weights(X)
        assert_allclose(w.mean(), 1.0)
        assert_allclose(np.log(w[1:] / w[0]), -2.4 * (X[1:] - X[0])[:, 0], atol=0.02)
        far = weights(np.array([[-50.0], [50.0]]))
        assert_allclose(far, [w.max(), w.min()])

    def test_residuals_and_leverages_are_those_of_regressions_without_each_row(self, learned):
        X, y, weights, m = learned
        Phi, w, rest = m.coordinates(X), weights(X), ~np.eye(40, dtype=bool)

        def ridge(some):
            return Ridge(alpha=40 * 1e-3, tol=1e-12).fit(
                Phi[some], y[some, 0], sample_weight=w[some]
            )

        off = [y[i, 0] - ridge(rest[i]).predict(Phi[[i]])[0] for i in range(40)]
        whole = ridge(np.ones(40, dtype=bool))
        assert_allclose(m(X)[:, 0], whole.predict(Phi), rtol=1e-6, atol=1e-8)
        assert_allclose(m.residuals[:, 0], off, rtol=1e-6, atol=1e-8)
        kept = (y[:, 0] - whole.predict(Phi)) / np.array(off)
        assert_allclose(np.exp(-2.0 * m.doubt[:, 0]), kept, rtol=1e-5)
        assert_allclose(m.loss, (w * np.square(off)).mean() / y.var(), rtol=1e-6)

    def test_rows_elsewhere(self, learned):
        X, y, weights, m = learned
        rows = km.Rows([(X[:15], y[:15]), (X[15:], y[15:])])
        far = location_on(
            X, y, km.Gaussian(0.7), Nystroem(), 1.0, rows=rows, weights=weights, reg=1e-3
        )
        assert_allclose(far.coef, m.coef, rtol=1e-6)
        off, z = far.apart(X, y)
        assert_allclose(off, m.residuals, rtol=1e-6)
        assert_allclose(z, m.doubt[:, 0], rtol=1e-6)

    def test_slopes_of_the_loss(self):
        rng = np.random.default_rng(0)
        Theta, Y, w = (
            rng.standard_normal((12, 3)),
            rng.standard_normal((12, 2)),
            rng.uniform(0, 2, 12),
        )
        w /= w.mean()
        _, on_Theta, on_reg = evidence_loss(Theta, Y, 0.1, w)
        step = 1e-6 * rng.standard_normal((12, 3))
        up, down = (evidence_loss(Theta + e, Y, 0.1, w)[0] for e in (step, -step))
        assert_allclose((up - down) / 2, (on_Theta * step).sum(), rtol=1e-5)
        up, down = (evidence_loss(Theta, Y, 0.1 + e, w)[0] for e in (1e-6, -1e-6))
        assert_allclose((up - down) / 2e-6, on_reg, rtol=1e-5)

    def test_the_mean_is_nearer_where_noise_is_small(self, model, equally_wide):
        """A model of wide laws alone may be off by the noise of elsewhere."""
        X = np.linspace(-1.9, -1.0, 50)[:, None]
        ours, its = (np.abs(m.location_(X) - np.sin(2 * X)).mean() for m in (model, equally_wide))
        assert ours < 0.4 * its


@pytest.mark.slow
def test_deterministic_rows_are_not_wild():
    """y is a function of x: a row where m is not known may be far off, and the law says so."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2400, 3))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    model = km.ConditionalDensity().fit(X[:400], y[:400])
    inside = (np.abs(X) < np.abs(X[:400]).max(axis=0)).all(axis=1)
    assert model.score_samples(X[inside], y[inside]).min() > -20.0  # equally wide −394


def test_laws_of_several_columns():
    """Against the formula Σ_j w_j Π_c k̄_γ((y_c − a_c)/s_c − e_jc)/s_c, all weights positive."""
    rng = np.random.default_rng(0)
    points, w = rng.standard_normal((20, 2)), rng.dirichlet(np.ones(20), 3)
    shift, widths = rng.standard_normal((3, 2)), rng.uniform(0.5, 2.0, (3, 2))
    laws = MovedLaws(km.MeanEmbedding(points, w, km.Gaussian(0.3)), Move(shift, widths))
    Y = rng.standard_normal((3, 2))
    u = (Y[None] - shift[:, None]) / widths[:, None]
    K = stats.norm(0, 0.3).pdf(u[:, :, None, :] - points).prod(axis=-1)
    p = np.einsum("bj,bkj->bk", w, K) / widths.prod(axis=1)[:, None]
    assert_allclose(laws.density(Y), p, rtol=1e-8)
    assert_allclose(laws.density_of_pairs(Y), np.diag(p), rtol=1e-8)
    at = shift[:, None] + widths[:, None] * points
    mean = np.einsum("bj,bjc->bc", w, at)
    off = at - mean[:, None]
    assert_allclose(laws.mean(), mean)
    assert_allclose(laws.cov(), np.einsum("bj,bjc,bjd->bcd", w, off, off))
    assert_allclose(laws[1].mean(), mean[1])
    assert_allclose(laws[1].density(Y, tuple(0.3 * widths[1])), p[1], rtol=1e-8)
    draws = laws.sample(4000, 0)
    assert_allclose(draws.mean(axis=1), mean, atol=0.12)
    steps = stats.norm(0, 0.3).cdf(u[..., None, :] - points)
    assert_allclose(laws.cdf(Y, False), np.einsum("bj,bkjc->bkc", w, steps), atol=1e-4)


def test_sizes_have_a_floor():
    off = np.append(np.linspace(0.1, 1.0, 99), 0.0)[:, None]
    assert_allclose(log_sizes(off).min(), np.log(np.quantile(off, 0.02)))


def test_doubt_is_that_of_a_gaussian_process():
    """z of rows left out, and beyond what the rows have seen, are those of scikit-learn's."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (60, 1))
    Y = np.sin(2 * X) + 0.2 * rng.standard_normal((60, 1))
    where = location_on(X, Y, km.Gaussian(0.8), km.Exact(), 1.0)
    off = where.residuals * np.exp(-where.doubt)
    standard, _ = Standard.of(where, X, None, Forms(X, searched(X, log_sizes(off))))
    line = kernels.ConstantKernel(where.line.factor[0] ** 2, "fixed") * kernels.DotProduct(
        0.0, "fixed"
    )
    own = kernels.RBF(0.8) + line + kernels.ConstantKernel(1e5)  # a free intercept
    noise, shift = 60 * where.reg, where.line.mean

    def process(some):
        return GaussianProcessRegressor(own, alpha=noise, optimizer=None).fit(
            X[some] - shift, Y[some]
        )

    at = np.array([[-4.0], [0.3], [5.0]])
    _, spread = process(slice(None)).predict(at - shift, return_std=True)
    assert_allclose(standard.log_size(at)[:, 0], 0.5 * np.log1p(spread**2 / noise), rtol=1e-2)
    _, spread = process(np.arange(60) != 7).predict(X[[7]] - shift, return_std=True)
    assert_allclose(where.doubt[7, 0], 0.5 * np.log1p(spread[0] ** 2 / noise), rtol=1e-2)


def test_a_dozen_rows_are_too_few_to_say_where_laws_lie():
    """Six slopes and scales of eight rows took one of twelve fits 40 variances away."""
    for seed in (0, 4):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(8, 6)), rng.normal(size=(300, 6))
        y = 1.4 * np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=8)
        model = km.ConditionalDensity().fit(X, y)
        assert model.location_ is None
        with pytest.warns(km.NumericalWarning, match="outside the training data"):
            assert abs(model.predict(new)).max() < 2 * abs(y).max()


@pytest.mark.parametrize("seed", [3, 7, 10, 29])
def test_few_rows_have_noise(seed):
    """Small λ all leave as much in rows left out; under them m knew its values at the rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (24, 2))
    Y = np.sin(X[:, :1]) + 0.5 * rng.standard_normal((24, 1))
    m = location_on(X, Y, km.Gaussian(0.5), km.Exact(), 0.05)
    assert np.exp(-2 * m.doubt).mean() > 0.1  # 1 − h; it was 1e-7


def test_each_column_of_y_is_a_line_or_a_curve():
    """All were curves where one was: of places and speeds each has its own errors."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (120, 2))
    y = np.c_[np.sin(2 * X[:, 0]), X @ [1.0, -0.5], np.zeros(120)]
    Y = y + 0.2 * rng.standard_normal(y.shape)
    forms = Forms(X, searched(X, Y))
    m, line = regressed(forms, Y), Location.on(forms.line, Y)
    curve = Location.on(forms.curve, Y, forms.reg)
    new = np.r_[X, 3.0 * X]
    assert_allclose(m(new), np.c_[curve(new)[:, 0], line(new)[:, 1:]], atol=1e-10)
    for plain, columns in ((curve, [0]), (line, [1, 2])):  # as their leverages have them
        alike = (np.exp(-of.doubt) * of.residuals for of in (m, plain))
        assert_allclose(*(off[:, columns] for off in alike), atol=1e-10)
    assert regressed(forms, Y[:, 1:]).coef.shape == line.coef[:, 1:].shape

"""A bent scale of y: laws on it, and when it is chosen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelmean as km
from kernelmean.densities.bending import Bent, bent_columns
from kernelmean.densities.laws import MovedLaws
from kernelmean.embedding.move import Bend, Move, Wide

BEND = Bend(*(np.array([a]) for a in (0.5, 0.3, 0.4, 6.0)))


def skewed(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 2, (n, 1))
    return X, np.exp(X[:, 0] + 0.5 * rng.standard_normal(n))


def exact_log_density(X, y):
    z = (np.log(y) - X[:, 0]) / 0.5
    return -0.5 * z**2 - np.log(0.5 * np.sqrt(2 * np.pi)) - np.log(y)


class TestBend:
    y = np.linspace(-20.0, 40.0, 3001)[:, None]

    def test_back_is_the_inverse(self):
        assert_allclose(BEND.back(BEND(self.y)), self.y, atol=1e-10)

    def test_steepness_is_the_slope(self):
        h = 1e-5
        slope = (BEND(self.y + h) - BEND(self.y - h)) / (2 * h)
        assert_allclose(np.exp(BEND.log_steepness(self.y)), slope, rtol=1e-4)

    def test_a_line_beyond_the_data(self):
        for far in ([7.0, 8.0, 9.0], [-1.0, -3.0, -5.0]):
            assert_allclose(np.diff(BEND(np.array(far)[:, None]), 2, axis=0), 0.0, atol=1e-12)

    def test_between_a_line_and_a_logarithm(self):
        y = np.linspace(1.0, 5.0, 9)[:, None]
        line, log = (Bend(*(np.array([a]) for a in (0.0, s, 0.9, 6.0))) for s in (1e6, 1e-6))
        assert_allclose(line(y), y, rtol=1e-9)
        assert_allclose(log(y), 1e-6 * np.log(2e6 * y), rtol=1e-9)


WIDTHS = np.array([[0.5], [1.0], [1.6]])


@pytest.fixture(scope="module", params=["bent", "bent, of three widths", "of three widths"])
def laws(request):
    """Three laws with weights of both signs, moved, with a wide share."""
    rng = np.random.default_rng(3)
    points = 0.3 * rng.standard_normal((30, 1))
    weights = rng.uniform(-0.2, 1.0, (3, 30))
    m = km.MeanEmbedding(points, weights / weights.sum(axis=1)[:, None], km.Gaussian(0.2))
    bend = BEND if "bent" in request.param else None
    widths = WIDTHS if "widths" in request.param else None
    shift = np.array([[0.0], [0.3], [0.6]])
    return MovedLaws(m, Move(shift, widths, bend), Wide.of(points, 0.05))


GRID = np.linspace(-15.0, 60.0, 150_001)


@pytest.fixture(scope="module")
def p(laws):
    """One law after the other, before it is moved, at the places that GRID comes from."""
    bend, h = laws.move.bend or (lambda y: y), 1e-5
    z = bend(GRID[:, None])
    slope = (bend(GRID[:, None] + h) - bend(GRID[:, None] - h))[:, 0] / (2 * h)
    widths = np.ones((3, 1)) if laws.move.widths is None else laws.move.widths
    found = []
    for b in range(3):
        e = (z - laws.move.shift[b]) / widths[b]
        own = MovedLaws(laws.embedding, wide=laws.wide).density(e)
        found.append(own[b] * slope / widths[b])
    return np.stack(found)


class TestLaws:
    """Against sums over a fine grid of y, of the density on the scale before times the slope."""

    grid, step = GRID, GRID[1] - GRID[0]

    def test_density(self, laws, p):
        some = slice(28_000, 50_000, 500)
        assert_allclose(laws.density(self.grid[some, None]), p[:, some], rtol=1e-3, atol=1e-6)
        assert_allclose(p.sum(axis=1) * self.step, 1.0, atol=1e-3)
        rows = self.grid[[30_000, 31_000, 33_000], None]
        pairs = laws.density_of_pairs(rows)
        assert_allclose(pairs, np.diag(laws.density(rows)), rtol=1e-3)
        assert_allclose(laws.log_density_of_pairs(rows), np.log(pairs), rtol=1e-10)

    def test_cdf_and_quantiles(self, laws, p):
        F = np.cumsum(p, axis=1) * self.step
        found = laws.quantile([0.1, 0.5, 0.9])[..., 0]
        for b in range(3):
            assert_allclose(np.interp(found[b], self.grid, F[b]), [0.1, 0.5, 0.9], atol=1e-3)
            assert_allclose(laws.cdf(found[b][:, None], False)[b, :, 0], [0.1, 0.5, 0.9], atol=1e-9)

    def test_regions_and_intervals(self, laws, p):
        shortest, central = laws.interval(0.8, "shortest"), laws.interval(0.8)
        assert (shortest.upper - shortest.lower < central.upper - central.lower).all()
        for b, region in enumerate(laws.region(0.8)):
            inside = (
                (self.grid[:, None] > region[:, 0]) & (self.grid[:, None] < region[:, 1])
            ).any(axis=1)
            assert_allclose(p[b, inside].sum() * self.step, 0.8, atol=2e-3)
            assert p[b, inside].min() > 0.99 * p[b, ~inside].max()
            size = np.diff(region).sum()
            assert size <= (shortest.upper - shortest.lower)[b, 0] + 1e-3

    def test_mode_and_mass_above(self, laws, p):
        assert_allclose(laws.mode()[:, 0], self.grid[p.argmax(axis=1)], atol=5e-3)
        y = np.array([[0.4], [1.0], [2.0]])
        above = [
            q[q > np.interp(t, self.grid, q)].sum() * self.step
            for q, t in zip(p, y[:, 0], strict=True)
        ]
        assert_allclose(laws.mass_above(y), above, atol=2e-3)

    def test_moments_and_probabilities_are_those_of_the_points(self, laws):
        widths = np.ones((3, 1)) if laws.move.widths is None else laws.move.widths
        at = laws.embedding.points[None] * widths[:, None] + laws.move.shift[:, None]
        at = (at if laws.move.bend is None else BEND.back(at))[..., 0]
        w = laws.weights
        mean = (w * at).sum(axis=1)
        assert_allclose(laws.mean()[:, 0], mean)
        variance = (w * (at - mean[:, None]) ** 2).sum(axis=1)
        assert_allclose(laws.std()[:, 0] ** 2, variance)
        assert_allclose(laws.cov()[:, 0, 0], variance)
        assert_allclose(laws.probability(lambda y: y[:, 0] > 1.0), (w * (at > 1.0)).sum(axis=1))
        tilted = laws.tilted(lambda y: 1.0 / (1.0 + y[:, 0] ** 2))
        expected = w / (1.0 + at**2)
        assert_allclose(tilted.weights, expected / expected.sum(axis=1)[:, None])
        assert_allclose(tilted.mean()[:, 0], (tilted.weights * at).sum(axis=1))

    def test_draws(self, laws):
        draws = laws.sample(4000, 0)[..., 0]
        for b, F in enumerate(laws.cdf(np.array([[0.7], [1.5]]), False)[..., 0]):
            assert_allclose((draws[b, :, None] < [0.7, 1.5]).mean(axis=0), F, atol=0.03)


@pytest.fixture(scope="module")
def model():
    return km.ConditionalDensity().fit(*skewed(300, 0))


SIDE = np.linspace(-1.0, 6.0, 501)


@pytest.fixture(scope="module")
def pair():
    """Two laws of two columns, moved and bent."""
    rng, width = np.random.default_rng(4), (0.03, 0.1)
    points = rng.normal(0.3, 0.1, (60, 2)) * [1.0, 3.0]
    w = rng.uniform(-0.05, 1.0, (2, 60))
    m = km.MeanEmbedding(points, w / w.sum(axis=1)[:, None], km.Gaussian(width)).carrying(width)
    bend = Bend(*(np.array(a) for a in ([0.0, -1.0], [0.2, 0.8], [0.05, -0.5], [5.0, 6.0])))
    widths = np.array([[0.5, 1.0], [1.0, 0.7]])
    return MovedLaws(m, Move(0.1 * widths, widths, bend))


@pytest.fixture(scope="module")
def table(pair):
    rows = np.stack(np.meshgrid(SIDE, SIDE, indexing="ij"), axis=-1).reshape(-1, 2)
    return pair.density(rows).reshape(2, len(SIDE), -1)


class TestColumns:
    """Against sums over a table of the density of both columns."""

    @pytest.mark.parametrize("j", [0, 1])
    def test_marginals(self, pair, table, j):
        expected = np.trapezoid(table, SIDE, axis=2 - j)
        found = pair.marginal(j).density(SIDE)
        assert_allclose(found, expected, atol=0.01 * expected.max())
        assert_allclose(pair[[1]].marginal([j]).density(SIDE)[0], found[1], atol=1e-9)

    def test_in_another_order(self, pair):
        rows = np.random.default_rng(5).uniform(0.1, 1.0, (5, 2))
        turned = pair.marginal([1, 0]).log_density(rows[:, ::-1])
        assert_allclose(turned, pair.log_density(rows), atol=1e-3)

    @pytest.mark.parametrize("j", [0, 1])
    def test_one_law_has_widths_of_the_scale_it_is_on(self, pair, table, j):
        expected = np.trapezoid(table, SIDE, axis=2 - j)
        for b in range(2):
            found = pair[b].marginal([j]).density(SIDE)
            assert 0.5 * np.trapezoid(np.abs(found - expected[b]), SIDE) < 0.08  # was .18


class TestChoice:
    @pytest.mark.slow
    def test_better_in_new_rows_where_y_is_skewed(self, model):
        X, y = skewed(1000, 1)
        straight = km.ConditionalDensity(location=True).fit(*skewed(300, 0))
        assert model.bend_.bent.all()
        assert straight.bend_ is None
        exact = exact_log_density(X, y).mean()
        assert exact - model.score(X, y) < 0.5 * (exact - straight.score(X, y))

    def test_it_is_in_the_summary(self, model):
        assert "Bent scale of y" in model.summary()

    def test_none_where_y_is_normal(self):
        rng = np.random.default_rng(2)
        X = rng.standard_normal((300, 1))
        assert km.ConditionalDensity().fit(X, X[:, 0] + rng.standard_normal(300)).bend_ is None

    def test_units_of_y(self, model):
        X, y = skewed(300, 0)
        other = km.ConditionalDensity().fit(X, 1e5 * y)
        assert_allclose(other.bend_.scale, 1e5 * model.bend_.scale)
        assert_allclose(other.predict(X[:5]), 1e5 * model.predict(X[:5]), rtol=1e-3)

    def test_outside_the_data_answers_are_a_line(self, model):
        with pytest.warns(km.NumericalWarning, match="outside"):
            far = model.predict_quantile([[3.0], [30.0], [57.0]], 0.5)
        assert_allclose(np.diff(far, 2) / far[-1], 0.0, atol=0.01)
        assert 0 < far[1] < 30 * model.predict([[2.0]])[0]

    def test_saved_and_loaded(self, model, tmp_path):
        model.save(tmp_path / "model")
        again = km.load(tmp_path / "model")
        assert_allclose(again.predict_quantile([[1.0]], 0.9), model.predict_quantile([[1.0]], 0.9))

    def test_conformal(self, model):
        X, y = skewed(1000, 4)
        conformal = model.conformalize()
        inside = conformal.predict_interval(X, 0.9)
        assert 0.85 < ((inside.lower <= y) & (y <= inside.upper)).mean() < 0.95
        assert 0.85 < conformal.contains(X, y, 0.9).mean() < 0.95

    def test_one_of_two_columns(self):
        X, y = skewed(300, 5)
        Y = np.stack([y, X[:, 0] + np.random.default_rng(6).standard_normal(300)], axis=1)
        found = km.ConditionalDensity().fit(X, Y)
        assert found.bend_.bent.tolist() == [True, False]
        assert np.isfinite(found.score_samples(X, Y)).all()
        assert abs(found.sample([[1.0]], 2000, 0)[0].mean(axis=0) - [3.1, 1.0]).max() < 0.4


def far_out(n, seed):
    """x of two columns with long tails; y bends where most rows are."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2, (n, 2))
    t = np.sign(X) * np.log1p(np.abs(X))
    return X, t[:, 0] + np.sin(2 * t[:, 1]) + 0.4 * rng.standard_normal(n)


def decades(n, seed):
    """x of four decades."""
    rng = np.random.default_rng(seed)
    x = 10.0 ** rng.uniform(-2, 2, n)
    return x[:, None], np.log10(x) + 0.3 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def bent():
    return km.ConditionalDensity().fit(*far_out(150, 0))


class TestColumnsOfX:
    """Kernels take distances on a bent scale, where y is likelier so."""

    def test_the_kernel_is_one_of_bent_columns(self, bent):
        X, _ = far_out(9, 1)
        kernel = bent.kernel_x_
        assert isinstance(kernel, Bent)
        z = kernel.bend(X) / np.asarray(kernel.lengthscale)
        expected = np.exp(-0.5 * ((z[:, None] - z) ** 2).sum(axis=-1))
        assert_allclose(kernel(X), expected, rtol=1e-10)
        assert_allclose(kernel.diag(X), 1.0)
        W, step = np.random.default_rng(2).standard_normal((9, 9)), 1e-6
        slopes = kernel.scale_gradient(X, X, W)
        for j in range(2):
            by = np.exp(step * np.eye(2)[j])
            up, down = ((W * kernel.scaled(s)(X)).sum() for s in (by, 1 / by))
            assert_allclose(slopes[j], (up - down) / (2 * step), rtol=1e-5)

    def test_better_in_new_rows(self, bent, monkeypatch):
        X, y = far_out(1000, 3)
        monkeypatch.setattr("kernelmean.densities.plan.bent_columns", lambda *_: [])
        straight = km.ConditionalDensity().fit(*far_out(150, 0))
        low, high = np.quantile(far_out(150, 0)[0], [0.0, 1.0], axis=0)
        inside = (X.clip(low, high) == X).all(axis=1)
        assert bent.score(X[inside], y[inside]) > straight.score(X[inside], y[inside]) + 0.02

    def test_units_of_x(self, bent):
        X, y = far_out(150, 0)
        other = km.ConditionalDensity().fit(X * [1000.0, 0.01] + 5.0, y)
        expected = bent.score_samples(X, y)
        assert_allclose(other.score_samples(X * [1000.0, 0.01] + 5.0, y), expected, atol=1e-4)

    def test_it_is_in_the_summary_and_in_files(self, bent, tmp_path):
        X, y = far_out(150, 0)
        assert "Bent scale of X in that kernel" in bent.summary()
        bent.save(tmp_path / "m")
        assert_allclose(km.load(tmp_path / "m").pdf(y, X), bent.pdf(y, X))
        scale = np.asarray(bent.kernel_x_.lengthscale)
        assert_allclose(bent.loo_score(lengthscale=scale), bent.loo_score_, rtol=1e-3)

    @pytest.mark.slow
    def test_none_without_long_tails_or_where_kernels_or_coordinates_are_given(self):
        X, y = far_out(60, 0)
        short = np.clip(X, *np.quantile(X, [0.1, 0.9], axis=0))
        for model in (
            km.ConditionalDensity().fit(short, y),
            km.ConditionalDensity(km.Gaussian(1.0)).fit(X, y),
            km.ConditionalDensity(features=km.Nystroem()).fit(X, y),
        ):
            assert isinstance(model.kernel_x_, km.Gaussian)

    def test_beside_a_column_of_one_value(self):
        """Which says nothing; where rows that are searched on lack a rare one, too."""
        X, y = far_out(60, 0)
        (kernel, _), *_ = bent_columns(np.column_stack([X, np.full(60, 3.0)]), km.Gaussian(1.0))
        assert_allclose(kernel.bend(np.full((2, 3), 3.0))[:, 2], 0.0)
        model = km.ConditionalDensity().fit(np.column_stack([X, np.full(60, 3.0)]), y)
        known = km.ConditionalDensity().fit(X, y)
        new = far_out(9, 1)[0]
        found = model.predict(np.column_stack([new, np.full(9, 3.0)]))
        assert_allclose(found, known.predict(new), atol=0.1 * y.std())

    def test_sizes_over_four_decades(self):
        """y is a line in the logarithm of x, and as wide everywhere; x is as it is measured."""
        X, y = decades(200, 0)
        new = decades(500, 1)[0].clip(X.min(), X.max())
        model = km.ConditionalDensity().fit(X, y)
        assert model.kernel_x_.bend.centre == X.min()
        off = model.predict_quantile(new, 0.5) - np.log10(new[:, 0])
        assert np.sqrt(np.mean(off**2)) < 0.09  # .20 on a scale that bends at the median

    @pytest.mark.slow
    def test_widths_over_four_decades(self):
        """Errors grow with x to 1, and no further: a wave of widths had quantiles at 4 times y."""
        rng = np.random.default_rng(2)
        X = decades(300, 2)[0]
        new = decades(500, 3)[0].clip(X.min(), X.max())
        y = X[:, 0] * np.exp(0.3 * rng.standard_normal(300))
        upper = km.ConditionalDensity().fit(X, y).predict_quantile(new, 0.95) / new[:, 0]
        large = new[:, 0] > 10.0
        assert np.quantile(upper[large], 0.9) < 2.5  # exp(.3 · 1.645) is 1.64

    def test_a_scale_from_an_end_is_for_one_tail(self):
        """In units and from either side; where both sides are long, about the median."""
        x, both = decades(200, 0)[0], np.random.default_rng(0).standard_t(1.5, (200, 1))
        kernel = km.Gaussian((1.0,))
        (found, _), (other, _) = (bent_columns(a * x + 5.0, kernel)[1] for a in (10.0, -10.0))
        assert_allclose(found.bend(10.0 * x + 5.0), 10.0 * bent_columns(x, kernel)[1][0].bend(x))
        assert_allclose(other.bend(5.0 - 10.0 * x), -found.bend(10.0 * x + 5.0), atol=1e-9)
        assert_allclose(other.lengthscale, found.lengthscale)
        assert len(bent_columns(both, kernel)) == 1

    def test_angles_are_not_bent(self):
        X, _ = far_out(60, 0)
        assert bent_columns(X, km.Gaussian(1.0))
        assert bent_columns(X, km.Periodic()) == []

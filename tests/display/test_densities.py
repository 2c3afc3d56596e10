"""Displays of conditional densities: their numbers are the model's, drawn with the Agg backend."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import kernelmean as km

plt = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("short_searches_throughout")
Ridges = km.display.ConditionalDensityDisplay
Map = km.display.DensityMapDisplay
Contours = km.display.DensityContourDisplay


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(40)
    X = rng.uniform(size=(150, 2))
    Y = X[:, :1] + 0.3 * rng.normal(size=(150, 2)) * (0.5 + X[:, :1])
    return X, Y


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "located"])
def one(request, data):
    X, Y = data
    options = {"bandwidth": 0.1, "reg": 1e-2, "location": request.param}
    return km.ConditionalDensity(**options).fit(X, Y[:, 0])


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "located"])
def two(request, data):
    options = {"bandwidth": 0.1, "reg": 1e-2, "location": request.param}
    return km.ConditionalDensity(**options).fit(*data)


AT = np.array([[0.2, 0.5], [0.8, 0.5]])


def test_rows_that_the_model_counts_once_may_be_given_as_to_fit(data):
    X, Y = (np.vstack([part, part]) for part in data)
    with pytest.warns(km.NumericalWarning, match="150 of 300 rows are copies"):
        model = km.ConditionalDensity().fit(X[:, :1], Y[:, 0])
    assert Ridges.from_estimator(model, [[0.2]], Y[:, 0]).near is None
    assert len(Map.from_estimator(model, X[:, :1], Y[:, 0]).x) == 300
    with pytest.raises(ValueError, match="y has 301 rows"):
        Ridges.from_estimator(model, [[0.2]], np.arange(301.0))


class TestRidges:
    def test_densities_are_those_of_the_model(self, one):
        display = Ridges.from_estimator(one, AT)
        p = one.pdf(display.grid, AT, paired=False)
        # means over cells, beside values at their middle
        assert_allclose(display.densities, p, atol=1e-3 * p.max())
        areas = np.trapezoid(display.densities, display.grid, axis=1)
        assert np.all((areas > 0.99) & (areas <= 1.0))

    def test_medians_and_intervals_are_those_of_the_model(self, one):
        display = Ridges.from_estimator(one, AT, level=0.8)
        lower, upper = one.predict_interval(AT, 0.8)
        assert_allclose(display.lower, lower)
        assert_allclose(display.upper, upper)
        assert_allclose(display.median, one.predict_quantile(AT, 0.5))

    def test_a_column_of_several_is_its_marginal(self, two, data):
        display = Ridges.from_estimator(two, AT, data[1], output=1)
        for x, p in zip(AT, display.densities, strict=True):
            marginal = two.at(x[None]).marginal(1)
            other = marginal.density(display.grid, bandwidth=two.bandwidth_[1])[0]
            assert_allclose(p, other, atol=2e-3 * other.max())

    def test_ticks_are_the_rows_most_alike(self, one, data):
        X, Y = data
        display = Ridges.from_estimator(one, AT, Y[:, 0], near=7)
        gaps = np.linalg.norm((X - AT[0]) / X.std(axis=0), axis=1)
        assert set(display.near[0]) == set(Y[np.argsort(gaps)[:7], 0])

    def test_labels_name_what_differs(self, one):
        assert Ridges.from_estimator(one, AT).labels == ["x0 = 0.2", "x0 = 0.8"]
        assert Ridges.from_estimator(one, AT[:1]).labels == ["x0 = 0.2, x1 = 0.5"]
        assert Ridges.from_estimator(one, AT, labels=["a", "b"]).labels == ["a", "b"]

    def test_plot(self, one, data):
        _, ax = plt.subplots()
        display = Ridges.from_estimator(one, AT, data[1][:, 0])
        assert display.plot(ax) is display
        assert display.ax_ is ax
        assert [t.get_text() for t in ax.get_yticklabels()] == display.labels
        assert ax.get_xlabel() == "y"

    def test_names_come_from_tables(self, data):
        pd = pytest.importorskip("pandas")
        X, y = pd.DataFrame(data[0], columns=["age", "dose"]), pd.Series(data[1][:, 0], name="size")
        model = km.ConditionalDensity(bandwidth=0.1, reg=1e-2).fit(X, y)
        display = Ridges.from_estimator(model, X.iloc[:2], y)
        assert display.labels[0] == f"age = {X.age[0]:.4g}, dose = {X.dose[0]:.4g}"
        assert display.plot().ax_.get_xlabel() == "size"
        assert Ridges.from_estimator(model, X.iloc[:2], output="size").y_name == "size"
        along = Map.from_estimator(model, X, y, column="dose")
        assert (along.x_name, along.y_name, list(along.held)) == ("dose", "size", ["age"])


class TestMap:
    def test_density_and_curves_are_those_of_the_model(self, one, data):
        X, Y = data
        display = Map.from_estimator(one, X, Y[:, 0], column=1, levels=[0.1, 0.9], n_grid=40)
        path = np.column_stack([np.full(40, np.sort(X[:, 0])[74]), display.grid_x])
        assert_allclose(display.curves, one.predict_quantile(path, [0.1, 0.9]))
        p = one.pdf(display.grid_y, path, paired=False)
        assert_allclose(display.density, p, atol=0.02 * p.max())
        assert display.held == {"x0": np.sort(X[:, 0])[74]}
        assert_array_equal(display.grid_x[[0, -1]], np.quantile(X[:, 1], [0.025, 0.975]))

    def test_what_the_estimator_keeps_will_do(self, one, data):
        kept, given = Map.from_estimator(one), Map.from_estimator(one, data[0])
        assert_array_equal(kept.density, given.density)
        assert kept.x is None

    def test_plot(self, one, data):
        X, Y = data
        display = Map.from_estimator(one, X, Y[:, 0])
        ax = display.plot().ax_
        assert len(ax.images) == 1
        assert len(ax.lines) == 1 + len(display.levels)
        assert [t.get_text() for t in ax.texts] == ["5%", "25%", "50%", "75%", "95%"]
        heights = np.array([t.xy[1] for t in ax.texts])
        assert np.all(np.diff(heights) > 0.039 * np.ptp(display.grid_y))
        assert len(display.plot(data=False).ax_.lines) == len(display.levels)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "y")

    def test_indicators_are_held_at_a_value_they_take(self, data):
        X, Y = data
        X = np.column_stack([X[:, 0], np.arange(150) % 2])
        model = km.ConditionalDensity(bandwidth=0.1, reg=1e-2).fit(X, Y[:, 0])
        assert Map.from_estimator(model).held["x1"] in (0.0, 1.0)


class TestContours:
    def test_densities_are_those_of_the_model(self, two):
        display = Contours.from_estimator(two, AT, n_grid=50)
        a, b = np.meshgrid(display.grid_1, display.grid_2, indexing="ij")
        p = two.pdf(np.column_stack([a.ravel(), b.ravel()]), AT, paired=False)
        assert_allclose(display.densities.reshape(2, -1), p, atol=2e-3 * p.max())

    def test_regions_hold_their_probability(self):
        """Of a Gaussian, {p ≥ c} with probability 1 − e^{−r²/2} is the disc of radius r."""
        one_d = np.linspace(-5, 5, 201)
        p = np.multiply.outer(stats.norm.pdf(one_d), stats.norm.pdf(one_d))
        levels = (0.5, 0.8, 0.95)
        found = km.display.densities.heights(p, levels)
        assert_allclose(found, (1 - np.array(levels)) / (2 * np.pi), rtol=0.01)

    def test_near_and_names(self, two, data):
        pd = pytest.importorskip("pandas")
        Y = pd.DataFrame(data[1], columns=["east", "north"])
        display = Contours.from_estimator(two, AT, Y, near=5, outputs=("north", "east"))
        assert display.y_names == ("north", "east")
        assert display.near[0].shape == (5, 2)
        assert set(display.near[0][:, 0]) <= set(Y.north)

    def test_plot(self, two, data):
        display = Contours.from_estimator(two, AT, data[1], n_grid=20)
        assert display.plot() is display
        assert [ax.get_title() for ax in display.axes_] == display.labels
        assert [ax.get_xlabel() for ax in display.axes_] == ["y0", "y0"]
        assert [ax.get_ylabel() for ax in display.axes_] == ["y1", ""]

    def test_plot_on_more_axes_than_needed(self, two):
        _, axes = plt.subplots(2, 2)
        display = Contours.from_estimator(two, np.vstack([AT, AT[:1]]), n_grid=20).plot(axes)
        assert len(display.axes_) == 3
        assert not axes[1, 1].axison
        assert axes[0, 1].get_xlabel() == "y0"


@pytest.mark.parametrize(
    ("display", "options", "words"),
    [
        (Ridges, {"X": AT, "y": [1.0, 2.0]}, "y"),
        (Ridges, {"X": AT, "output": 3}, "output is 3"),
        (Ridges, {"X": AT, "output": "price"}, "output is 'price'"),
        (Ridges, {"X": AT, "labels": ["a"]}, "labels"),
        (Map, {"column": 7}, "column is 7"),
        (Map, {"X": AT[:, :1]}, "X"),
        (Contours, {"X": AT}, "contours need two"),
    ],
    ids=["length", "output", "name", "labels", "column", "columns of X", "one column"],
)
def test_refusals(data, display, options, words):
    X, Y = data
    model = km.ConditionalDensity(bandwidth=0.1, reg=1e-2).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match=words):
        display.from_estimator(model, **options)


@pytest.mark.parametrize("draw", [Ridges, Map, Contours])
def test_other_estimators_are_refused(data, draw):
    model = km.ConditionalEmbedding(reg=1e-2).fit(*data)
    with pytest.raises(
        ValueError, match=r"^estimator is ConditionalEmbedding.* ConditionalDensity"
    ):
        draw.from_estimator(model, AT)


def test_a_rounded_column_is_drawn_on_its_values():
    """Its values are atoms: on 400 points each would be a spike, and all between them nothing."""
    rng = np.random.default_rng(3)
    x = rng.uniform(size=(150, 1))
    y = np.round(2 * x[:, 0] + 0.4 * rng.normal(size=150), 1)
    model = km.ConditionalDensity(tune_lengthscale=False).fit(x, y)
    assert model.atoms_ is not None
    display = km.display.ConditionalDensityDisplay.from_estimator(model, [[0.2], [0.8]], y)
    np.testing.assert_allclose(np.diff(display.grid), 0.1, rtol=1e-6)
    np.testing.assert_allclose(10 * display.grid, np.round(10 * display.grid), atol=1e-6)
    np.testing.assert_allclose(0.1 * display.densities.sum(axis=1), 1.0, atol=0.03)


def test_a_column_of_few_values_is_drawn():
    """Counts of 0 to 3 are lone points of the grid, and a line needs two: ridges were blank."""
    x = np.linspace(0, 1, 80)[:, None]
    y = np.random.default_rng(200010).binomial(3, 0.2 + 0.6 * x[:, 0]).astype(float)
    model = km.ConditionalDensity(tune_lengthscale=False).fit(x, y)
    display = Ridges.from_estimator(model, [[0.5]], y).plot()
    line = max(display.ax_.lines, key=lambda line: len(line.get_xdata()))
    seen, heights = line.get_xdata()[np.isfinite(line.get_ydata())], line.get_ydata()
    for value in range(4):
        assert (abs(seen - value) < 0.02).sum() >= 2
    assert np.nanmax(heights) > 0.5

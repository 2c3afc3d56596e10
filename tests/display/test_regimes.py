"""Displays of hidden Markov models: their numbers are the model's, drawn with the Agg backend."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.chains.order import Order

plt = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("short_searches_throughout")
Spectrum = km.display.SpectrumDisplay
Regimes = km.display.RegimeDisplay
Emission = km.display.EmissionDisplay
Images = km.display.EmissionImageDisplay
History = km.display.HistoryDisplay


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return km.datasets.make_hmm("separated", 300, random_state=40)


@pytest.fixture(scope="module", params=[True, False], ids=["refined", "moments"])
def model(request, data):
    return km.KernelHMM(2, refine=request.param, em=km.EM(n_init=2), random_state=0).fit(data.X)


@pytest.fixture(scope="module")
def plane(data):
    """Two columns, the second with little of the state in it."""
    rng = np.random.default_rng(41)
    X = np.hstack([data.X, 0.2 * data.states[:, None] + 0.3 * rng.normal(size=(300, 1))])
    return X, km.KernelHMM(2, em=km.EM(n_init=2), random_state=0).fit(X)


class TestSpectrum:
    def test_correlations_speak_for_one_state_more(self):
        found = {"correlations": np.array([0.5, 0.3, 0.1]), "threshold": 0.2}
        display = Spectrum.from_order(Order(3, "correlations", np.ones(2), **found))
        assert_array_equal(display.numbers, [2, 3, 4])
        assert_array_equal(display.values, [0.5, 0.3, 0.1])
        ax = display.plot().ax_
        above, chosen = ax.lines[1], ax.lines[2]
        assert_array_equal(above.get_xdata(), [4])
        assert_array_equal(chosen.get_xdata(), [2, 3])
        assert chosen.get_label() == "3 states"
        assert_array_equal(ax.lines[3].get_ydata(), [0.2, 0.2])

    @pytest.mark.parametrize("method", ["threshold", "ratio"])
    def test_singular_values_speak_for_as_many_states(self, data, method):
        order = km.estimate_order(data.X, method=method)
        display = Spectrum.from_order(order)
        assert_allclose(display.values, order.singular_values[: len(display.values)])
        assert display.numbers[0] == 1
        assert (display.order, display.threshold) == (int(order), order.threshold)
        assert display.plot().ax_.get_yscale() == "log"

    def test_held_out_likelihood_is_of_that_many(self):
        scores = {1: -1.2, 2: -1.0, 3: -1.1}
        display = Spectrum.from_order(Order(2, "likelihood", [1.0], scores=scores))
        assert_array_equal(display.plot().ax_.lines[2].get_xdata(), [2])
        assert_array_equal(display.values, [-1.2, -1.0, -1.1])

    @pytest.mark.slow
    def test_an_estimator_shows_what_it_looked_at(self, data, model):
        given = Spectrum.from_estimator(model)
        assert (given.order, given.name, given.threshold) == (2, "singular value", None)
        assert len(given.plot().ax_.lines) == 3
        chosen = km.KernelHMM(refine=False, random_state=0).fit(data.X)
        display = Spectrum.from_estimator(chosen)
        assert display.order == chosen.order_ == chosen.n_components_

    def test_one_state_is_one(self):
        ax = Spectrum.from_order(Order(1, "threshold", [1.0, 0.1])).plot().ax_
        assert ax.lines[2].get_label() == "1 state"


class TestRegimes:
    def test_probabilities_are_those_of_the_model(self, data, model):
        display = Regimes.from_estimator(model, data.X, lengths=[200, 100])
        assert_array_equal(display.probabilities, model.predict_proba(data.X, [200, 100]))
        assert [s.stop for s in display.sequences] == [200, 300]
        filtered = Regimes.from_estimator(model, data.X, smooth=False)
        assert_array_equal(filtered.probabilities, model.filter(data.X))
        assert_array_equal(filtered.series, data.X)

    def test_plot(self, data, model):
        display = Regimes.from_estimator(model, data.X, labels=["low", "high"])
        assert display.plot() is display
        above, below = display.axes_
        dots = [line for line in above.lines if line.get_marker() == "." and len(line.get_xdata())]
        assert sum(len(line.get_xdata()) for line in dots) == 300
        likely = display.probabilities.argmax(axis=1)
        assert_array_equal(dots[1].get_xdata(), np.flatnonzero(likely == 1))
        assert [t.get_text() for t in above.get_legend().get_texts()] == ["low", "high"]
        assert (above.get_ylabel(), below.get_ylabel()) == ("y", "probability")
        assert below.get_ylim() == (0, 1)

    def test_areas_are_as_high_as_the_probabilities(self, data, model):
        display = Regimes.from_estimator(model, data.X[:5])
        lower, upper = display.plot().axes_[1].collections
        first = lower.get_paths()[0].vertices[:, 1].max()
        assert first == pytest.approx(display.probabilities[:, 0].max())
        assert upper.get_paths()[0].vertices[:, 1].max() == pytest.approx(1.0)

    def test_sequences_do_not_touch(self, data, model):
        display = Regimes.from_estimator(model, data.X, lengths=[200, 100]).plot()
        assert len(display.axes_[1].collections) == 4
        assert [len(line.get_xdata()) for line in display.axes_[0].lines[:2]] == [200, 100]

    def test_missing_rows_have_probabilities_but_no_dot(self, data, model):
        X = data.X[:50].copy()
        X[10:20] = np.nan
        display = Regimes.from_estimator(model, X)
        assert np.isfinite(display.probabilities).all()
        assert np.isnan(display.series[10:20]).all()
        display.plot()

    def test_names_and_dates_come_from_tables(self, data):
        pd = pytest.importorskip("pandas")
        days = pd.date_range("2020-01-01", periods=300)
        frame = pd.DataFrame({"return": data.X[:, 0]}, index=days)
        fitted = km.KernelHMM(2, refine=False, random_state=0).fit(frame)
        display = Regimes.from_estimator(fitted, frame, times=frame.index).plot()
        assert display.axes_[0].get_ylabel() == "return"
        assert display.times.dtype.kind == "M"

    @pytest.mark.slow
    def test_a_panel_for_each_of_a_few_columns(self, plane):
        X, fitted = plane
        names = [ax.get_ylabel() for ax in Regimes.from_estimator(fitted, X).plot().axes_]
        assert names == ["y0", "y1", "probability"]

    def test_many_columns_leave_the_probabilities_alone(self):
        images = km.datasets.make_digit_hmm(2, 200, random_state=42)
        fitted = km.KernelHMM(2, refine=False, random_state=0).fit(images.X)
        assert len(Regimes.from_estimator(fitted, images.X).plot().axes_) == 1


class TestEmission:
    def test_densities_are_those_of_the_model(self, data, model):
        display = Emission.from_estimator(model, data.X, n_grid=100)
        assert_allclose(display.densities, model.density(display.grid[:, None]).T)
        shares = model.predict_proba(data.X).mean(axis=0)
        assert_allclose(display.mixture, shares @ display.densities)
        alone = Emission.from_estimator(model, n_grid=100)
        assert_allclose(alone.mixture, model.startprob_ @ alone.densities)

    def test_the_mixture_is_that_of_the_rows_shown(self, data, model):
        some = data.X[model.predict(data.X) == 0]
        assert_allclose(
            Emission.from_estimator(model, some).shares, model.predict_proba(some).mean(axis=0)
        )

    def test_a_column_of_several_is_its_marginal(self, plane):
        """Of the densities that states are told by, normal shares and all."""
        _, fitted = plane
        display = Emission.from_estimator(fitted, column=1, n_grid=50)
        first = np.linspace(-3, 4, 1500)
        joint = [
            fitted.density(np.column_stack([first, np.full(1500, y)])).T for y in display.grid[::10]
        ]
        integral = np.trapezoid(np.array(joint), first, axis=2)
        assert_allclose(display.densities[:, ::10].T, integral, atol=1e-6)

    def test_plot(self, data, model):
        ax = Emission.from_estimator(model, data.X, labels=["low", "high"]).plot().ax_
        shares = [f"{100 * p:.0f}%" for p in model.predict_proba(data.X).mean(axis=0)]
        texts = [t.get_text() for t in ax.get_legend().get_texts()]
        assert texts == [f"low ({shares[0]})", f"high ({shares[1]})", "all states"]
        assert len(ax.patches) > 0
        assert len(Emission.from_estimator(model).plot().ax_.patches) == 0


class TestImages:
    def test_images_are_means(self):
        digits = km.datasets.make_digit_hmm(2, 200, random_state=42)
        fitted = km.KernelHMM(2, refine=False, random_state=0).fit(digits.X)
        display = Images.from_estimator(fitted, (8, 8), labels=["two", "seven"]).plot()
        weights = fitted.emissions_.weights / fitted.emissions_.weights.sum(axis=1, keepdims=True)
        assert_allclose(display.images.reshape(2, 64), weights @ digits.X)
        assert [ax.get_title() for ax in display.axes_] == ["two", "seven"]
        one, other = (ax.images[0].get_clim() for ax in display.axes_)
        assert one == other


class TestHistory:
    @pytest.mark.slow
    def test_values_are_those_of_the_model(self, data):
        fitted = km.KernelHMM(2, em=km.EM(n_init=2), random_state=0).fit(data.X)
        display = History.from_estimator(fitted).plot()
        assert_array_equal(display.values, fitted.history_)
        assert display.ax_.get_legend().get_texts()[0].get_text() == "converged"
        short = km.KernelHMM(2, em=km.EM(n_init=1, max_iter=1), random_state=0).fit(data.X)
        text = History.from_estimator(short).plot().ax_.get_legend().get_texts()[0].get_text()
        assert text == "stopped at max_iter"


@pytest.mark.parametrize(
    ("display", "options", "words"),
    [
        (Images, {"shape": (3, 4)}, "shape is (3, 4)"),
        (Images, {"shape": (1,)}, "shape is (1,)"),
        (Emission, {"column": 2}, "column is 2"),
        (Emission, {"column": "x"}, "column is 'x'"),
        (Emission, {"labels": ["a"]}, "labels has 1 names; 2 are needed"),
        (Emission, {"n_grid": 0}, "n_grid"),
        (Regimes, {"X": np.ones((4, 1)), "times": [1, 2]}, "times has shape (2,)"),
        (Regimes, {"X": np.ones((4, 1)), "lengths": [3]}, "lengths"),
        (History, {}, "refine=False"),
    ],
    ids=["size", "side", "column", "name", "labels", "grid", "times", "lengths", "history"],
)
def test_refusals(data, display, options, words):
    model = km.KernelHMM(2, refine=False, random_state=0).fit(data.X)
    with pytest.raises(ValueError) as error:
        display.from_estimator(model, **options)
    assert words in str(error.value)


def test_too_few_axes(data, model):
    _, axes = plt.subplots()
    with pytest.raises(ValueError, match="ax has 1 axes; 2 are needed, one per column"):
        Regimes.from_estimator(model, data.X).plot(axes)


@pytest.mark.parametrize("many", [3, 10])
def test_a_long_legend_stands_above_the_densities(many):
    grid = np.linspace(-3, 3, 50)
    densities = np.exp(-0.5 * (grid - np.linspace(-2, 2, many)[:, None]) ** 2)
    names = [f"state {k}" for k in range(many)]
    ax = Emission(grid, densities, np.full(many, 1 / many), None, "y", names).plot().ax_
    ax.figure.draw_without_rendering()
    below = ax.get_legend().get_window_extent().y0
    assert (below >= ax.get_window_extent().y1) == (many > 5)

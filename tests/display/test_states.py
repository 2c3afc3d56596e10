"""Displays of state-space models: their numbers are the model's, drawn with the Agg backend."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.display.base import as_times

plt = pytest.importorskip("matplotlib.pyplot")
Forecast = km.display.ForecastDisplay
Transition = km.display.TransitionDisplay
Observation = km.display.ObservationDisplay
Trace = km.display.TraceDisplay


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return km.datasets.make_state_space("linear", 300, random_state=40)


@pytest.fixture(scope="module")
def model(data):
    return km.KernelStateSpace(em=km.EM(n_init=1, max_iter=20), random_state=0).fit(data.X)


@pytest.fixture(scope="module")
def states(data):
    """Without a line beside them."""
    return km.KernelStateSpace(em=km.EM(n_init=1, max_iter=20), backbone=None, random_state=0).fit(
        data.X
    )


@pytest.fixture(scope="module")
def moments(data):
    return km.KernelStateSpace(refine=False, em=km.EM(n_init=1, max_iter=20), random_state=0).fit(
        data.X
    )


@pytest.fixture(scope="module")
def plane(data):
    """Two columns, two latent dimensions."""
    X = np.hstack([data.X, np.tanh(data.states) + 0.1 * data.X[::-1]])
    return X, km.KernelStateSpace(
        2, em=km.EM(n_init=1, max_iter=5), latent=km.Normal(nodes=40), random_state=0
    ).fit(X)


class TestForecast:
    @pytest.mark.slow
    def test_rows_are_those_of_the_model(self, data, model):
        display = Forecast.from_estimator(model, data.X, level=0.8, lengths=[200, 100])
        assert_array_equal(display.mean, model.predict(data.X, [200, 100]))
        ends = model.predict_interval(data.X, 0.8, [200, 100])
        assert_array_equal([display.lower, display.upper], ends)
        assert_array_equal(display.series, data.X)
        assert [s.stop for s in display.sequences] == [200, 300]
        assert display.ahead.shape == (5, 0, 1)

    @pytest.mark.parametrize("lengths", [None, [200, 100]])
    def test_the_fan_is_the_forecast_after_the_last_sequence(self, data, model, lengths):
        display = Forecast.from_estimator(model, data.X, steps=4, level=0.8, lengths=lengths)
        ahead = model.forecast(data.X if lengths is None else data.X[200:], 4)
        low, inner_low, mean, inner_high, high = display.ahead
        assert_allclose([low, high], ahead.interval(0.8))
        assert_allclose([inner_low, inner_high], ahead.interval(0.5))
        assert_allclose(mean, ahead.mean())
        assert_array_equal(display.ahead_times, [300, 301, 302, 303])

    def test_times_go_on_by_their_median_distance(self, data, model):
        days = np.arange("2020-01-01", "2020-10-27", dtype="datetime64[D]")
        display = Forecast.from_estimator(model, data.X, steps=2, times=days)
        assert_array_equal(display.ahead_times, days[-1] + np.arange(1, 3))
        times = np.r_[0.0, np.arange(1, 300) / 2 + 7]
        assert Forecast.from_estimator(model, data.X, steps=1, times=times).ahead_times == 157.0
        alone = Forecast.from_estimator(model, data.X[:1], steps=2)
        assert_array_equal(alone.ahead_times, [1, 2])

    def test_dates_of_every_kind(self):
        pd = pytest.importorskip("pandas")
        hours = pd.date_range("2024-03-31", periods=2, freq="h", tz="Europe/Berlin")
        utc = ["2024-03-30T23", "2024-03-31T00"]
        assert_array_equal(as_times(hours, 2), np.array(utc, dtype="M8"))
        assert_array_equal(as_times(pd.Series(hours), 2), np.array(utc, dtype="M8"))
        periods = pd.period_range("2024-01-01 05:00", periods=2, freq="h")
        assert_array_equal(as_times(periods, 2), np.array(["2024-01-01T05", "2024-01-01T06"], "M8"))
        old = np.array(["1500-01-01", "1501-01-01"], dtype="M8[s]")
        assert_array_equal(as_times(old, 2), old)
        with pytest.raises(ValueError, match="times begins with .*'a'.*; numbers or dates"):
            as_times(["a", "b"], 2)

    def test_plot(self, data, model):
        display = Forecast.from_estimator(model, data.X, steps=5, lengths=[200, 100])
        assert display.plot() is display
        (ax,) = display.axes_
        assert ax.get_ylabel() == "y"
        texts = [t.get_text() for t in ax.get_legend().get_texts()]
        assert texts == ["observed", "95% interval", "forecast one row ahead", "what comes next"]
        assert len(ax.collections) == 4  # a band for each sequence, and two of the fan
        lines = [line for line in ax.lines if line.get_linestyle() == "-"]
        assert [len(line.get_xdata()) for line in lines] == [200, 100, 5]
        assert_array_equal(lines[1].get_ydata(), display.mean[200:, 0])

    def test_missing_rows_have_a_forecast_but_no_dot(self, data, model):
        X = data.X[:50].copy()
        X[10:20] = np.nan
        display = Forecast.from_estimator(model, X).plot()
        assert np.isfinite(display.mean).all()
        assert np.isnan(display.series[10:20]).all()

    @pytest.mark.slow
    def test_a_panel_per_column_with_its_name(self, plane):
        pd = pytest.importorskip("pandas")
        X, _ = plane
        frame = pd.DataFrame(X, columns=["price", "mood"])
        quick = {"em": km.EM(n_init=1, max_iter=2), "latent": km.Normal(nodes=9), "backbone": None}
        fitted = km.KernelStateSpace(**quick, bandwidth=0.5, random_state=0).fit(frame)
        display = Forecast.from_estimator(fitted, frame, steps=2).plot()
        assert [ax.get_ylabel() for ax in display.axes_] == ["price", "mood"]
        with pytest.raises(ValueError, match=r"ax has 1 axes; 2 are needed, one per column"):
            display.plot(plt.figure().subplots())

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"steps": -1}, "steps"),
            ({"level": 1.5}, "level"),
            ({"times": [1, 2]}, "times has shape"),
            ({"lengths": [3]}, "lengths sums to 3"),
        ],
        ids=["steps", "level", "times", "lengths"],
    )
    def test_refusals(self, data, model, options, words):
        with pytest.raises(ValueError, match=words):
            Forecast.from_estimator(model, data.X, **options)


class TestTransition:
    def test_means_at_the_nodes_are_those_of_the_chain(self, model):
        display = Transition.from_estimator(model, n_grid=50)
        x = model.nodes_[:, 0]
        assert_allclose(display.mean, np.interp(display.grid, x, model.transmat_ @ x))

    def test_rows_are_densities(self, model):
        """The grid ends where the state may go on: its middle third has all of its mass inside."""
        display = Transition.from_estimator(model)
        mass = np.trapezoid(display.density, display.grid, axis=1)
        assert (mass < 1.001).all()
        assert_allclose(mass[40:80], 1.0, atol=0.02)
        law = model.transition_at(display.grid[60:61])
        step = law.density(display.grid[:, None], model.latent_bandwidth_)
        assert_allclose(display.density[60], step[0])

    def test_plot(self, model):
        display = Transition.from_estimator(model)
        assert display.plot() is display
        ax = display.ax_
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("x now", "x one row later")
        assert_array_equal(ax.lines[1].get_ydata(), display.mean)
        assert ax.images[0].get_array().shape == (120, 120)

    def test_a_coordinate_of_several_against_a_sum_over_nodes(self, plane):
        """E[x'_1 | x_1 = c] by loops, with the same weights of nearness."""
        _, fitted = plane
        display = Transition.from_estimator(fitted, latent=1, n_grid=7)
        x, p = fitted.nodes_[:, 1], fitted.startprob_
        width = np.std(x) * len(x) ** -0.2
        for c, mean in zip(display.grid, display.mean, strict=True):
            near = [p[i] * np.exp(-((c - x[i]) ** 2) / (2 * width**2)) for i in range(len(x))]
            moved = [fitted.transmat_[i] @ x for i in range(len(x))]
            assert mean == pytest.approx(np.dot(near, moved) / np.sum(near))
        assert display.plot().ax_.get_xlabel() == "x1 now"

    def test_refusals(self, model):
        with pytest.raises(ValueError, match="latent is 1; a column number from 0 to 0"):
            Transition.from_estimator(model, latent=1)
        with pytest.raises(ValueError, match="n_grid is 1"):
            Transition.from_estimator(model, n_grid=1)


class TestObservation:
    def test_densities_are_those_that_judge_a_first_row(self, states):
        """log p(y_1) is Σ_i p_i f(y_1 | x_i): here with p on the two nodes beside each x."""
        display = Observation.from_estimator(states, n_grid=12)
        x, sure = states.nodes_[:, 0], copy(states)
        for k in (2, 7):
            i = np.searchsorted(x, display.grid_x[k])
            right = (display.grid_x[k] - x[i - 1]) / (x[i] - x[i - 1])
            sure.startprob_ = np.zeros(len(x))
            sure.startprob_[[i - 1, i]] = 1 - right, right
            for j in (3, 9, 15):
                alone = sure.log_predictive(display.grid_y[[[j]]])
                assert np.log(display.density[k, j]) == pytest.approx(alone[0])

    def test_beside_a_backbone_they_are_of_innovations(self, data, model, states):
        """The line says where the innovations are: nearer together than the rows."""
        assert model.backbone_ is not None
        laws, rows = (Observation.from_estimator(m) for m in (model, states))
        assert (laws.name, rows.name) == ("innovation of y", "y")
        _, course = model._course(data.X)
        off = (data.X - course.track.mean)[course.rows.seen]
        assert np.ptp(laws.grid_y) < np.ptp(rows.grid_y)
        inside = (laws.grid_y[0] < off) & (off < laws.grid_y[-1])
        assert inside.mean() > 0.95

    def test_rows_integrate_to_one(self, model):
        display = Observation.from_estimator(model)
        mass = np.trapezoid(display.density, display.grid_y, axis=1)
        assert_allclose(mass, 1.0, atol=0.02)

    def test_means_are_those_of_the_laws(self, model):
        display = Observation.from_estimator(model, n_grid=30)
        assert_allclose(display.mean, model.emission_at(display.grid_x).mean()[:, 0])

    def test_plot(self, model):
        display = Observation.from_estimator(model)
        assert display.plot() is display
        assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("x", "innovation of y")
        assert display.ax_.images[0].get_array().shape == (180, 120)

    def test_moments_alone(self, moments):
        display = Observation.from_estimator(moments).plot()
        assert np.isfinite(display.density).all()
        assert (display.density >= 0).all()

    @pytest.mark.parametrize("column", [0, "y1"])
    def test_columns_by_number_or_name(self, plane, column):
        _, fitted = plane
        display = Observation.from_estimator(fitted, column=column, latent=1)
        assert display.name == f"innovation of {'y0' if column == 0 else 'y1'}"
        assert display.latent_name == "x1"
        mass = np.trapezoid(display.density, display.grid_y, axis=1)
        assert_allclose(mass, 1.0, atol=0.05)

    def test_refusals(self, model):
        with pytest.raises(ValueError, match=r"column is 'price'.*or one of \['y'\]"):
            Observation.from_estimator(model, column="price")


class TestTrace:
    def test_values_are_those_of_the_model(self, model):
        display = Trace.from_estimator(model)
        assert_array_equal(display.terms.sum(axis=1)[-1], model.loss_history_[-1].sum())
        assert_array_equal(display.values, model.history_)
        assert display.plot() is display
        loss, climb = display.axes_
        assert loss.get_yscale() == "log"
        assert_allclose(loss.lines[0].get_ydata(), display.terms.sum(axis=1))
        assert_array_equal(climb.lines[0].get_ydata(), model.history_)

    def test_moments_alone_have_one_panel(self, moments):
        display = Trace.from_estimator(moments).plot()
        assert len(display.axes_) == 1
        with pytest.raises(ValueError, match="ax has 2 axes; 1 are needed"):
            display.plot(plt.figure().subplots(1, 2))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("converged", "words"), [(True, "converged"), (False, "stopped at max_iter")]
    )
    def test_the_end_is_named(self, model, converged, words):
        display = Trace(model.loss_history_, model.history_, converged).plot()
        assert display.axes_[1].get_legend().get_texts()[0].get_text() == words


@pytest.mark.parametrize("display", [Transition, Observation, Trace])
def test_models_must_be_fitted(display):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        display.from_estimator(km.KernelStateSpace())

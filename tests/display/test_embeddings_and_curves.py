"""Displays: the curves are the estimators' numbers, drawn with the Agg backend."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from sklearn.linear_model import RidgeCV

import kernelmean as km

plt = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("short_searches_throughout")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    Z, V = rng.normal(size=(150, 1)), rng.normal(size=(150, 1))
    X, C = Z + V, rng.uniform(size=(150, 2))
    y = np.sin(X[:, 0]) + V[:, 0] + C[:, 0]
    return km.KernelIV().fit(X, y, Z), km.KernelIV().fit(X, y, Z, C), X, y, C


def lines(ax) -> dict:
    return {line.get_label(): line for line in ax.get_lines()}


class TestStructuralCurve:
    @pytest.mark.slow
    def test_the_curve_is_predict(self, fitted):
        iv, _, X, y, _ = fitted
        display = km.display.StructuralCurveDisplay.from_estimator(iv, X, y)
        assert_allclose(display.structural, iv.predict(display.grid[:, None]))
        assert X.min() <= display.grid.min() < display.grid.max() <= X.max()

    def test_the_other_curve_is_kernel_ridge(self, fitted, monkeypatch):
        monkeypatch.setattr("kernelmean.core.minimise.minimize_scalar", minimize_scalar)  # in full
        _, _, X, y, _ = fitted
        iv = km.KernelIV(split=0.5).fit(X, y, X + 0.1)  # no trend: the ridge of every textbook
        display = km.display.StructuralCurveDisplay.from_estimator(iv, X, y)
        Phi, path = (iv.features_x_.transform(points) for points in (X, display.grid[:, None]))
        ridge = RidgeCV(np.logspace(-8, 4, 2000), fit_intercept=False).fit(Phi, y)  # leaves one out
        assert_allclose(display.plain, ridge.predict(path), atol=1e-3)

    def test_the_band_is_predict_interval(self, fitted):
        iv, _, X, y, _ = fitted
        display = km.display.StructuralCurveDisplay.from_estimator(iv, X, y, level=0.8)
        limits = iv.predict_interval(display.grid[:, None], level=0.8)
        assert_allclose(display.band, np.column_stack(limits))
        assert (display.band[:, 0] < display.structural).all()
        label = display.plot().ax_.collections[0].get_label()
        assert label == "80% band"

    def test_what_the_estimator_keeps_will_do(self, fitted):
        _, iv, X, y, C = fitted
        given = km.display.StructuralCurveDisplay.from_estimator(iv, X, y, C=C)
        kept = km.display.StructuralCurveDisplay.from_estimator(iv)
        for name in ("grid", "structural", "plain", "band"):
            assert_allclose(getattr(kept, name), getattr(given, name), rtol=1e-9)
        rows = [sorted(zip(some.x, some.y, strict=True)) for some in (kept, given)]
        assert rows[0] == rows[1]  # in an order of the fit's own

    def test_a_table_will_do_after_a_formula(self, fitted):
        pd = pytest.importorskip("pandas")
        pytest.importorskip("formulaic")
        _, _, X, y, C = fitted
        table = pd.DataFrame({"price": X[:, 0], "sales": np.exp(y), "mood": C[:, 0], "z": X[:, 0]})
        table["z"] += np.linspace(0, 1, len(table))
        iv = km.KernelIV.from_formula("log(sales) ~ mood + [price ~ z]", table, split=0.5)
        display = km.display.StructuralCurveDisplay.from_estimator(iv, table, column="mood")
        assert_allclose(display.y, y)
        assert_array_equal(display.x, table["mood"])
        ax = km.display.StructuralCurveDisplay.from_estimator(iv, column="mood").plot().ax_
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("mood", "log(sales)")

    def test_the_old_plot_of_the_estimator_is_the_display(self, fitted):
        iv, _, X, y, _ = fitted
        _, ax = plt.subplots()
        with pytest.warns(FutureWarning, match="StructuralCurveDisplay.from_estimator"):
            display = iv.plot(X, y, level=0.5, ax=ax)
        assert isinstance(display, km.display.StructuralCurveDisplay)
        assert (display.level, display.ax_) == (0.5, ax)

    def test_a_picture_of_many_points_shows_some(self, fitted):
        iv, _, X, y, _ = fitted
        X, y = np.repeat(X, 30, axis=0), np.repeat(y, 30)
        ax = km.display.StructuralCurveDisplay.from_estimator(iv, X, y).plot().ax_
        shown = lines(ax)["data"].get_xdata()
        assert 1000 < len(shown) <= 2000

    @pytest.mark.parametrize("column", [0, 2])
    def test_one_column_moves_and_the_others_stay_at_their_medians(self, fitted, column):
        _, iv, X, y, C = fitted
        display = km.display.StructuralCurveDisplay.from_estimator(iv, X, y, C=C, column=column)
        middle = np.quantile(np.hstack([X, C]), 0.5, axis=0, method="inverted_cdf")
        path = np.tile(middle, (len(display.grid), 1))
        path[:, column] = display.grid
        assert_allclose(display.structural, iv.predict(path))

    def test_plot_draws_on_new_axes_and_returns_itself(self, fitted):
        iv, _, X, y, _ = fitted
        display = km.display.StructuralCurveDisplay.from_estimator(iv, X, y)
        assert display.plot() is display
        drawn = [line.get_ydata() for line in display.ax_.get_lines()]
        assert any(np.array_equal(d, display.structural) for d in drawn)
        assert any(np.array_equal(d, display.plain) for d in drawn)
        assert display.ax_.get_legend() is not None

    def test_plot_draws_on_the_axes_given(self, fitted):
        iv, _, X, y, _ = fitted
        _, ax = plt.subplots()
        display = km.display.StructuralCurveDisplay.from_estimator(iv, X, y).plot(ax)
        assert display.ax_ is ax
        assert len(plt.get_fignums()) == 1

    def test_plot_without_data(self, fitted):
        iv, _, X, y, _ = fitted
        display = km.display.StructuralCurveDisplay.from_estimator(iv, X, y)
        with_data = len(display.plot().ax_.get_lines())
        assert len(display.plot(data=False).ax_.get_lines()) == with_data - 1

    @pytest.mark.slow
    @pytest.mark.usefixtures("short_searches")
    def test_axes_are_named_after_the_columns(self, fitted):
        pd = pytest.importorskip("pandas")
        _, _, X, y, C = fitted
        frame, exogenous = (
            pd.DataFrame(X, columns=["price"]),
            pd.DataFrame(C, columns=["time", "mood"]),
        )
        iv = km.KernelIV().fit(frame, pd.Series(y, name="sales"), X + 0.1, exogenous)
        ax = km.display.StructuralCurveDisplay.from_estimator(iv, frame, y, C=exogenous).plot().ax_
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("price", "sales")
        ax = (
            km.display.StructuralCurveDisplay.from_estimator(iv, frame, y, C=exogenous, column=2)
            .plot()
            .ax_
        )
        assert ax.get_xlabel() == "mood"

    def test_not_fitted_is_said(self, fitted):
        _, _, X, y, _ = fitted
        with pytest.raises(ValueError, match="fit"):
            km.display.StructuralCurveDisplay.from_estimator(km.KernelIV(), X, y)

    def test_lengths_that_differ_are_refused(self, fitted):
        iv, _, X, y, _ = fitted
        with pytest.raises(ValueError, match="y"):
            km.display.StructuralCurveDisplay.from_estimator(iv, X, y[:10])

    @pytest.mark.parametrize("column", [1, -2, "x", 0.5, None])
    def test_a_column_that_is_not_there_is_refused(self, fitted, column):
        iv, _, X, y, _ = fitted
        with pytest.raises(ValueError, match="column"):
            km.display.StructuralCurveDisplay.from_estimator(iv, X, y, column=column)


class TestEmbedding:
    def test_the_density_is_density(self):
        m = km.MeanEmbedding([0.0, 1.0, 3.0], [0.5, 0.75, -0.25], km.Gaussian(0.5))
        display = km.display.EmbeddingDisplay.from_embedding(m)
        assert_allclose(display.density, m.density(display.grid))
        assert display.grid.min() < 0
        assert display.grid.max() > 3

    def test_bandwidth(self):
        m = km.MeanEmbedding([0.0, 1.0, 3.0], kernel=km.Gaussian(0.5))
        display = km.display.EmbeddingDisplay.from_embedding(m, bandwidth=0.1)
        assert_allclose(display.density, m.density(display.grid, bandwidth=0.1))

    @pytest.mark.parametrize("points", [[0.0, 1.0, 3.0], [2.0, 2.0]])
    def test_plot(self, points):
        m = km.MeanEmbedding(points, kernel=km.Gaussian(0.5))
        display = km.display.EmbeddingDisplay.from_embedding(m)
        assert display.plot() is display
        assert_array_equal(display.ax_.get_lines()[0].get_ydata(), display.density)

    @pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
    def test_weights_of_zero_can_be_drawn(self):
        m = km.MeanEmbedding([0.0, 1.0], [0.0, 0.0], km.Gaussian(0.5))
        with np.errstate(all="raise"):
            km.display.EmbeddingDisplay.from_embedding(m).plot()

    def test_batches_and_planes_are_refused(self):
        batch = km.MeanEmbedding([0.0, 1.0], np.ones((2, 2)), km.Gaussian(0.5))
        plane = km.MeanEmbedding(np.eye(2), kernel=km.Gaussian(0.5))
        laws = km.ConditionalDensity(reg=1e-2, wide=0.1).fit(np.eye(5)[:, :1], np.arange(5.0))
        for m in (batch, plane, laws.at([[0.0], [1.0]])):
            with pytest.raises(ValueError, match="m"):
                km.display.EmbeddingDisplay.from_embedding(m)


class TestLeaveOneOut:
    def test_the_curve_is_loo_score(self, xy):
        c = km.ConditionalEmbedding().fit(*xy)
        display = km.display.LeaveOneOutDisplay.from_estimator(c, n_grid=7)
        assert_allclose(display.losses, [c.loo_score(r) for r in display.regs])
        assert (display.reg, display.loss) == (c.reg_, c.loo_score_)

    def test_the_mark_is_at_the_bottom(self, xy):
        c = km.ConditionalEmbedding().fit(*xy)
        display = km.display.LeaveOneOutDisplay.from_estimator(c)
        assert display.loss <= display.losses.min() * (1 + 1e-6)

    def test_plot(self, xy):
        display = km.display.LeaveOneOutDisplay.from_estimator(km.ConditionalEmbedding().fit(*xy))
        assert display.plot() is display
        assert display.ax_.get_xscale() == display.ax_.get_yscale() == "log"

    def test_not_fitted_is_said(self):
        with pytest.raises(ValueError, match="fit"):
            km.display.LeaveOneOutDisplay.from_estimator(km.ConditionalEmbedding())


@pytest.fixture(scope="module")
def tracked():
    """A fitted filter, observations with gaps and a spike, and the states."""
    train, test = (km.datasets.make_rotation(n, random_state=n) for n in (120, 40))
    X = test.X.copy()
    X[5:8] = np.nan
    X[20] = 1e6
    return km.KernelBayesFilter(inference="kbr").fit(train.X, train.Z), X, test.Z


@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
class TestTrack:
    @pytest.mark.parametrize("smooth", [False, True])
    def test_the_track_is_the_result(self, tracked, smooth):
        model, X, Z = tracked
        display = km.display.TrackDisplay.from_estimator(model, X, Z, smooth=smooth, level=0.8)
        result = model.smooth(X) if smooth else model.filter(X)
        lower, upper = result.interval(0.8)
        assert_array_equal(display.mean, result.mean())
        assert_array_equal(display.lower, lower)
        assert_array_equal(display.upper, upper)
        assert_array_equal(display.truth, Z)
        assert list(np.flatnonzero(display.missing)) == [5, 6, 7]
        assert list(np.flatnonzero(display.collapsed)) == [20]

    def test_plot(self, tracked):
        model, X, Z = tracked
        display = km.display.TrackDisplay.from_estimator(model, X, Z, observations=X)
        assert display.plot(label="filtered") is display
        assert len(display.axes_) == 2
        for j, ax in enumerate(display.axes_):
            found = lines(ax)
            assert_array_equal(found["filtered"].get_ydata(), display.mean[:, j])
            assert_array_equal(found["truth"].get_ydata(), Z[:, j])
            assert_array_equal(found["collapsed"].get_xdata(), [20])
            assert np.nanmax(found["observed"].get_ydata()) < 1e5  # the spike is left out
            shaded = [p for p in ax.patches if p.get_label() == "no news"]
            assert [p.get_x() for p in shaded] == [4.5, 19.5]
            assert [p.get_width() for p in shaded] == [3.0, 1.0]

    def test_plot_draws_on_the_axes_given(self, tracked):
        model, X, _ = tracked
        _, axes = plt.subplots(2)
        display = km.display.TrackDisplay.from_estimator(model, X).plot(axes)
        assert list(display.axes_) == list(axes)
        assert len(plt.get_fignums()) == 1
        with pytest.raises(ValueError, match="ax has 1 axes; 2 are needed, one per state"):
            display.plot(axes[0])

    def test_no_line_crosses_from_one_trajectory_to_the_next(self, tracked):
        model, X, Z = tracked
        display = km.display.TrackDisplay.from_estimator(model, X, Z, lengths=[30, 9, 1]).plot()
        means = [ln for ln in display.axes_[0].get_lines() if ln.get_label() == "mean"]
        assert [len(line.get_xdata()) for line in means] == [30, 9, 1]
        labels = [text.get_text() for text in display.axes_[0].get_legend().get_texts()]
        assert len(labels) == len(set(labels))

    def test_one_state_with_all_its_observations(self, tracked):
        _, X, Z = tracked
        seen, state = np.nan_to_num(X[:15]), Z[:15, 0]
        model = km.KernelBayesFilter(inference="kbr").fit(seen, state)
        display = km.display.TrackDisplay.from_estimator(model, seen, state, observations=seen)
        (ax,) = display.plot().axes_
        assert ax.get_ylabel() == "state"
        drawn = [ln.get_ydata() for ln in ax.get_lines() if ln.get_label() == "observed"]
        assert_array_equal(np.transpose(drawn), seen)

    def test_names_and_dates(self, tracked):
        pd = pytest.importorskip("pandas")
        _, X, Z = tracked
        frame = pd.DataFrame(Z[:15], columns=["east", "north"])
        model = km.KernelBayesFilter(inference="kbr").fit(np.nan_to_num(X[:15]), frame)
        days = pd.date_range("2026-01-01", periods=15)
        display = km.display.TrackDisplay.from_estimator(model, X[:15], times=days).plot()
        assert [ax.get_ylabel() for ax in display.axes_] == ["east", "north"]
        display.axes_[0].figure.canvas.draw()
        assert "2026" in display.axes_[1].xaxis.get_offset_text().get_text()
        objects = [day.date() for day in days]
        again = km.display.SpreadDisplay.from_estimator(model, X[:15], times=objects)
        assert_array_equal(again.times, display.times)

    def test_what_does_not_fit_is_refused(self, tracked):
        model, X, Z = tracked
        make = km.display.TrackDisplay.from_estimator
        for options, words in (
            ({"truth": Z[:9]}, "truth has 9 rows but the track has 40"),
            ({"truth": Z[:, 0]}, "truth has 1 column but the track has 2"),
            ({"observations": X[:, :1]}, "observations has 1 column but the track has 2"),
            ({"times": [1, 2]}, r"times has shape \(2,\); \(40,\) is needed"),
            ({"level": 1.0}, "level is 1.0"),
            ({"lengths": [30]}, "lengths sums to 30"),
        ):
            with pytest.raises(ValueError, match=words):
                make(model, X, **options)
        with pytest.raises(ValueError, match="fit"):
            make(km.KernelBayesFilter(), X)


@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
class TestSpread:
    def test_the_spread_is_the_width_of_the_interval(self, tracked):
        model, X, _ = tracked
        display = km.display.SpreadDisplay.from_estimator(model, X, level=0.5)
        lower, upper = model.filter(X).interval(0.5)
        assert_array_equal(display.width, upper - lower)
        low, high = km.MeanEmbedding(model.points_).interval(0.5)
        assert_allclose(display.reference, high - low)
        low, high = np.quantile(model.points_, [0.25, 0.75], axis=0)
        assert_allclose(display.reference, high - low, rtol=0.01)

    @pytest.mark.slow
    def test_of_nodes_the_states_learned_from_count(self):
        """Nodes go far beyond them; where nothing was seen, nothing is known: a share of one."""
        rng = np.random.default_rng(0)
        Z = np.convolve(rng.standard_normal(210), 0.8 ** np.arange(11), "valid")[:, None]
        X = Z + rng.standard_normal(Z.shape)
        model = km.KernelBayesFilter(inference="densities").fit(X, Z)
        display = km.display.SpreadDisplay.from_estimator(model, np.full((40, 1), np.nan))
        low, high = np.quantile(Z, [0.025, 0.975], axis=0)
        assert np.ptp(model.points_) > 2 * (high - low)
        assert_allclose(display.reference, high - low, rtol=0.15)
        assert_allclose(display.width[-1] / display.reference, 1.0, atol=0.05)

    def test_where_the_truth_is_outside(self, tracked):
        model, X, Z = tracked
        display = km.display.SpreadDisplay.from_estimator(model, X, Z, level=0.5)
        track = km.display.TrackDisplay.from_estimator(model, X, Z, level=0.5)
        assert_array_equal(display.missed, (track.lower > Z) | (track.upper < Z))
        display.plot()
        assert "truth outside" in display.ax_.get_legend_handles_labels()[1]

    def test_it_is_wider_where_nothing_is_observed(self, tracked):
        model, X, _ = tracked
        gone = X.copy()
        gone[5:20] = np.nan
        width = km.display.SpreadDisplay.from_estimator(model, gone).width.sum(axis=1)
        assert width[10:20].min() > 1.5 * np.median(width[21:])

    def test_two_results_on_one_panel(self, tracked):
        model, X, _ = tracked
        make = km.display.SpreadDisplay.from_estimator
        ax = make(model, X).plot(label="filtered").ax_
        display = make(model, X, smooth=True).plot(ax, label="smoothed", ls="--")
        assert display.ax_ is ax
        found = lines(ax)
        expected = display.width[:, 1] / display.reference[1]
        assert_array_equal(found["smoothed, state 1"].get_ydata(), expected)
        assert found["smoothed, state 1"].get_linestyle() == "--"
        assert "filtered, state 0" in found

    def test_a_state_that_never_moves(self, tracked):
        _, X, Z = tracked
        states = np.column_stack([Z[:15, 0], np.ones(15)])
        seen = np.nan_to_num(X[:15])
        model = km.KernelBayesFilter(inference="kbr").fit(seen, states)
        with np.errstate(all="raise"):
            km.display.SpreadDisplay.from_estimator(model, seen).plot()


def test_two_samples_without_a_row_of_both_show_no_outcomes():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(120, 1))
    X, y = Z + rng.normal(size=(120, 1)), Z[:, 0] + rng.normal(size=120)
    X[60:], y[:60] = np.nan, np.nan
    model = km.KernelIV(split="samples", tune_lengthscale=False).fit(X, y, Z)
    display = km.display.StructuralCurveDisplay.from_estimator(model)
    assert display.plain is None
    display.plot()
    assert [line.get_label() for line in display.ax_.lines] == ["structural (KernelIV)"]

"""Displays: the curves are the estimators' numbers, drawn with the Agg backend."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km

plt = pytest.importorskip("matplotlib.pyplot")


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
    def test_the_curve_is_predict(self, fitted):
        iv, _, X, y, _ = fitted
        display = km.display.StructuralCurveDisplay.from_estimator(iv, X, y)
        assert_allclose(display.structural, iv.predict(display.grid[:, None]))
        assert X.min() <= display.grid.min() < display.grid.max() <= X.max()

    def test_the_other_curve_is_kernel_ridge(self, fitted):
        iv, _, X, y, _ = fitted
        display = km.display.StructuralCurveDisplay.from_estimator(iv, X, y)
        plain = km.ConditionalEmbedding(iv.kernel_x_, "linear").fit(X, y)
        assert_allclose(display.plain, plain.predict(display.grid[:, None]), atol=1e-8)

    @pytest.mark.parametrize("column", [0, 2])
    def test_one_column_moves_and_the_others_stay_at_their_medians(self, fitted, column):
        _, iv, X, y, C = fitted
        display = km.display.StructuralCurveDisplay.from_estimator(iv, X, y, C=C, column=column)
        path = np.tile(np.median(np.hstack([X, C]), axis=0), (len(display.grid), 1))
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

    @pytest.mark.parametrize("column", [1, -2, "x", 0.5])
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
        for m in (batch, plane):
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


def test_importing_the_package_does_not_import_matplotlib():
    import subprocess
    import sys

    code = "import sys, kernelmean; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

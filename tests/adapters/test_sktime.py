"""State-space models as sktime's forecaster."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelmean as km

pytestmark = pytest.mark.filterwarnings("ignore")
MODEL = {"backbone": None, "bandwidth": 0.5, "random_state": 0, "em": km.EM(n_init=1, max_iter=3)}


@pytest.fixture
def series():
    pytest.importorskip("sktime")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    values = np.sin(np.arange(120) / 5) + 0.2 * rng.normal(size=120)
    return pd.Series(values, pd.period_range("2000-01", periods=120, freq="M"), name="level")


def test_forecasts_and_intervals_are_the_models(series):
    from kernelmean.adapters.sktime import StateSpaceForecaster

    model = StateSpaceForecaster(km.KernelStateSpace(**MODEL)).fit(series[:100])
    ours = km.KernelStateSpace(**MODEL).fit(series[:100].to_numpy()[:, None])
    ahead = ours.forecast(series[:100].to_numpy()[:, None], 3)
    told = model.predict(fh=[1, 3])
    assert list(told.index) == list(series.index[[100, 102]])
    assert_allclose(told, ahead.mean()[[0, 2], 0])
    lower, upper = ahead.interval(0.9)
    found = model.predict_interval(fh=[1, 3], coverage=0.9)
    assert_allclose(found, np.column_stack([lower[:, 0], upper[:, 0]])[[0, 2]], rtol=1e-6)
    assert model.predict_quantiles(fh=[2], alpha=[0.1, 0.9]).columns.names is not None


def test_new_rows_move_the_forecasts_with_and_without_a_fit(series):
    from kernelmean.adapters.sktime import StateSpaceForecaster

    model = StateSpaceForecaster(km.KernelStateSpace(**MODEL)).fit(series[:90])
    model.update(series[90:100], update_params=False)
    told = model.predict(fh=[1])
    rows = series[:100].to_numpy()[:, None]
    first = km.KernelStateSpace(**MODEL).fit(rows[:90])
    assert list(told.index) == [series.index[100]]
    assert_allclose(told, first.forecast(rows, 1).mean()[:, 0])
    again = km.KernelStateSpace(**MODEL).fit(rows)
    model = StateSpaceForecaster(km.KernelStateSpace(**MODEL)).fit(series[:90])
    told = model.update(series[90:100]).predict(fh=[1])
    assert_allclose(told, again.forecast(rows, 1).mean()[:, 0])


@pytest.mark.slow
def test_sktime_evaluates_it(series):
    from sktime.forecasting.model_evaluation import evaluate
    from sktime.split import ExpandingWindowSplitter

    from kernelmean.adapters.sktime import StateSpaceForecaster

    windows = ExpandingWindowSplitter(fh=[1, 2], initial_window=100, step_length=10)
    model = StateSpaceForecaster(km.KernelStateSpace(**MODEL))
    scores = evaluate(model, windows, series, error_score="raise")
    assert len(scores) == 2
    assert np.isfinite(scores.iloc[:, 0]).all()

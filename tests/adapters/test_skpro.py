"""Conditional densities as skpro's probabilistic regressor."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelmean as km

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def fitted():
    pytest.importorskip("skpro")
    pd = pytest.importorskip("pandas")
    from kernelmean.adapters.skpro import ConditionalDensityRegressor

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    y = pd.DataFrame({"y": np.sin(X["a"]) + 0.3 * rng.normal(size=100)})
    density = km.ConditionalDensity(bandwidth=0.3, reg=1e-2)
    return ConditionalDensityRegressor(density).fit(X, y), density.fit(X.to_numpy(), y["y"]), X, y


def test_intervals_quantiles_and_means_are_the_densitys(fitted):
    model, density, X, _ = fitted
    ours = np.column_stack(density.predict_interval(X.to_numpy(), 0.9))
    assert_allclose(model.predict_interval(X, coverage=0.9), ours)
    assert_allclose(model.predict(X)["y"], density.predict(X.to_numpy()))


def test_laws_are_skpros_objects(fitted):
    from skpro.metrics import CRPS

    model, density, X, y = fitted
    law = model.predict_proba(X)
    levels = (np.arange(200) + 0.5) / 200
    points = density.predict_quantile(X.to_numpy(), levels).reshape(100, -1)
    assert_allclose(law.mean()["y"], points.mean(axis=1))
    apart = np.abs(points[:, :, None] - points[:, None, :]).mean((1, 2)) / 2
    crps = np.abs(points - y.to_numpy()).mean(axis=1) - apart  # its definition
    assert CRPS()(y, law) == pytest.approx(crps.mean())


@pytest.mark.slow
def test_skpros_own_checks():
    pytest.importorskip("skpro")
    from skpro.utils import check_estimator

    from kernelmean.adapters.skpro import ConditionalDensityRegressor

    results = check_estimator(ConditionalDensityRegressor, raise_exceptions=False, verbose=False)
    failed = {name: told for name, told in results.items() if told != "PASSED"}
    assert not failed
    assert len(results) > 20

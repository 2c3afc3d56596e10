"""Density ratios as weights in skada's pipelines."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import LinearRegression

import kernelmean as km

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_ratio_reweights_the_source():
    skada = pytest.importorskip("skada")
    from kernelmean.adapters.skada import DensityRatioAdapter

    rng = np.random.default_rng(0)
    source, target = rng.normal(0, 1, (200, 1)), rng.normal(1, 0.5, (200, 1))
    X, domain = np.vstack([source, target]), np.repeat([1, -2], 200)
    y = X[:, 0] ** 2
    y[200:] = np.nan
    pipe = skada.make_da_pipeline(
        DensityRatioAdapter(km.DensityRatio(reg=1e-2)),
        LinearRegression().set_fit_request(sample_weight=True),
    ).fit(X, y, sample_domain=domain)
    weights = np.maximum(km.DensityRatio(reg=1e-2).fit(source, target).predict(source), 0)
    by_hand = LinearRegression().fit(source, source[:, 0] ** 2, weights)
    np.testing.assert_allclose(pipe.predict(target), by_hand.predict(target))
    adapter = DensityRatioAdapter(km.DensityRatio(reg=1e-2)).fit(X, sample_domain=domain)
    assert_array_equal(adapter.compute_weights(X, sample_domain=domain)[200:], 0.0)
    plain = LinearRegression().fit(source, source[:, 0] ** 2)
    error = [np.mean((m.predict(target) - target[:, 0] ** 2) ** 2) for m in (pipe, plain)]
    assert error[0] < 0.5 * error[1]

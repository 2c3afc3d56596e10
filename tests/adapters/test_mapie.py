"""Prefit quantiles in MAPIE."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.adapters.mapie import quantiles


@pytest.fixture
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 1))
    y = np.sin(2 * X[:, 0]) + (0.2 + 0.2 * np.abs(X[:, 0])) * rng.normal(size=300)
    return km.ConditionalDensity(bandwidth=0.1, reg=1e-2).fit(X[:150], y[:150]), X, y


def test_they_are_the_quantiles_of_the_density(fitted):
    density, X, _ = fitted
    low, high, middle = quantiles(density, 0.8)
    ends = density.predict_interval(X, 0.8)
    assert_array_equal([low.predict(X), high.predict(X)], ends)
    assert_array_equal(middle.predict(X), density.predict_quantile(X, 0.5))
    with pytest.raises(ValueError, match="confidence_level is 80"):
        quantiles(density, 80)


@pytest.mark.filterwarnings("ignore")
def test_mapie_moves_both_ends_by_the_conformity_of_its_own_rows(fitted):
    regression = pytest.importorskip("mapie.regression")
    density, X, y = fitted
    three = quantiles(density, 0.8)
    model = regression.ConformalizedQuantileRegressor(three, confidence_level=0.8, prefit=True)
    model.conformalize(X[150:], y[150:])
    _, found = model.predict_interval(X[150:], symmetric_correction=True)
    low, high = density.predict_interval(X[150:], 0.8)
    scores = np.maximum(low - y[150:], y[150:] - high)
    moved = np.sort(scores)[int(np.ceil(0.8 * 151)) - 1]  # the split-conformal quantile
    assert_allclose(found[:, :, 0], np.column_stack([low - moved, high + moved]), atol=0.02)

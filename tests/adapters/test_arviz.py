"""Draws of a posterior as ArviZ's data."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.adapters.arviz import to_arviz

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture
def law() -> km.MeanEmbedding:
    points = np.random.default_rng(0).normal([1.0, -2.0], [0.5, 2.0], size=(200, 2))
    return km.MeanEmbedding(points, kernel=km.Gaussian(1.0))


def test_arviz_summarises_the_draws(law):
    az = pytest.importorskip("arviz")
    data = to_arviz(law, ["rate", "size"], 500, random_state=0)
    drawn = law.sample(500, random_state=0)
    for j, name in enumerate(["rate", "size"]):
        assert_array_equal(data.posterior[name].values, drawn[None, :, j])
    table = az.summary(data, kind="stats")
    assert_allclose(table["mean"].astype(float), drawn.mean(0), atol=0.01)


def test_refusals(law):
    pytest.importorskip("arviz")
    batch = km.MeanEmbedding(law.points, np.full((3, 200), 1 / 200), law.kernel)
    with pytest.raises(ValueError, match=r"law is a batch of 3 distributions; take one, as law\[0"):
        to_arviz(batch)
    assert list(to_arviz(batch[0], draws=10).posterior.data_vars) == ["theta0", "theta1"]
    with pytest.raises(ValueError, match="names has 1 entries, but the law has 2 columns"):
        to_arviz(law, ["rate"])

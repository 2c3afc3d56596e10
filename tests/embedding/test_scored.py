"""CRPS and pinball losses of laws against closed forms and integrals of their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.metrics import mean_pinball_loss

import kernelmean as km

Y = np.array([-1.0, 0.2, 0.4, 3.0])


def test_a_normal_law():
    """Gneiting, Raftery (2007), eq. 21."""
    law = km.MeanEmbedding([[0.3]], kernel=km.Gaussian(0.7)).carrying(0.7)
    z = (Y - 0.3) / 0.7
    expected = 0.7 * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert_allclose(law.crps(Y)[:, 0], expected, rtol=1e-4)


def test_weighted_points():
    """E|X − y| − E|X − X'|/2, of an empirical law."""
    x = np.random.default_rng(0).normal(size=(300, 1))
    expected = np.abs(x - Y).mean(axis=0) - 0.5 * np.abs(x - x.T).mean()
    assert_allclose(km.MeanEmbedding(x).crps(Y)[:, 0], expected, rtol=1e-3)


def test_a_batch_by_the_integral():
    data = km.datasets.make_conditional_density("bimodal", 150, random_state=0)
    model = km.ConditionalDensity().fit(data.X, data.Y[:, 0])
    mesh = np.linspace(-40, 40, 100_001)
    off = model.cdf(mesh, data.X[:4], paired=False) - (mesh >= Y[:, None])
    expected = (off**2).sum(axis=1) * (mesh[1] - mesh[0])
    assert_allclose(model.at(data.X[:4]).crps(Y)[:, 0], expected, rtol=1e-3)


def test_pinball_losses_are_those_of_scikit_learn():
    law = km.MeanEmbedding(np.random.default_rng(1).normal(size=(50, 2))).carrying(0.3)
    rows = np.column_stack([Y, -Y])
    losses = law.pinball(rows, [0.1, 0.9])
    assert losses.shape == (4, 2, 2)
    for k, q in enumerate([0.1, 0.9]):
        predicted = np.broadcast_to(law.quantile(q), (4, 2))
        expected = mean_pinball_loss(rows, predicted, alpha=q, multioutput="raw_values")
        assert_allclose(losses[:, k].mean(axis=0), expected)
        assert_allclose(law.pinball(rows, q), losses[:, k])


def test_as_many_rows_as_laws():
    laws = km.MeanEmbedding(np.eye(3)[:, :1], np.eye(3))
    with pytest.raises(ValueError, match="laws"):
        laws.crps(Y)
    with pytest.raises(ValueError, match="columns"):
        laws.crps(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="between 0 and 1"):
        km.metrics.pinball(1.0, 1.0, 1.5)

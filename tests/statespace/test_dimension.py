"""The dimension of the latent states by rows held out, and where its fits begin."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelmean as km
from kernelmean.chains.rows import Rows
from kernelmean.statespace.pairing import variates


def oscillation(n: int, seed: int, noise: float) -> np.ndarray:
    """A state of two dimensions: AR(2) of period about twelve, seen with noise."""
    rng = np.random.default_rng(seed)
    e, x = rng.standard_normal(n + 50), np.zeros(n + 50)
    for t in range(2, n + 50):
        x[t] = 1.5 * x[t - 1] - 0.75 * x[t - 2] + e[t]
    return x[50:, None] + noise * rng.standard_normal((n, 1))


def test_variates_are_the_state_of_a_linear_model():
    """Of an AR(2) they are y_t and y_{t−1}, whatever the units; two sequences have no link."""
    n = 4000
    y = oscillation(n, 0, 0.0)
    cut = [slice(0, 2500), slice(2500, n)]
    z = variates(Rows.of(y, np.ones(n, bool), cut), 2)
    inner = np.r_[10:2490, 2510:3990]
    past = np.c_[np.ones(n), y, np.roll(y, 1)][inner]
    left = z[inner] - past @ np.linalg.lstsq(past, z[inner], rcond=None)[0]
    assert (left.std(axis=0) < 0.1 * z[inner].std(axis=0)).all()
    again = variates(Rows.of(1e3 * y + 7, np.ones(n, bool), cut), 2)
    assert_allclose(abs(again), abs(z), atol=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
def test_auto_takes_two_where_one_is_too_few():
    y = oscillation(300, 1, 1.0)
    quick = {"backbone": None, "latent": km.Normal(nodes=80), "em": km.EM(n_init=2, max_iter=15)}
    m = km.KernelStateSpace("auto", **quick).fit(y)
    assert m.nodes_.shape[1] == 2
    assert m.dimensions_[2] > m.dimensions_[1]
    assert "held out, dimension 1" in str(m.summary())
    same = km.KernelStateSpace(2, **quick).fit(y)
    assert_allclose(m.predict(y), same.predict(y))


@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
def test_auto_stays_at_one_where_more_is_no_better():
    X = km.datasets.make_state_space("linear", 300, random_state=2).X
    quick = {"backbone": None, "em": km.EM(n_init=2, max_iter=15)}
    m = km.KernelStateSpace("auto", **quick).fit(X)
    assert m.nodes_.shape[1] == 1
    assert set(m.dimensions_) == {1, 2}
    assert_allclose(m.predict(X), km.KernelStateSpace(1, **quick).fit(X).predict(X))


@pytest.mark.parametrize(
    "given",
    [
        {"refine": False},
        {"latent": lambda n, rng: rng.random((n, 1))},
        {"latent": km.Normal(transition=lambda x, rng: x / 2 + rng.standard_normal(x.shape))},
    ],
    ids=["moments", "sampler", "transition"],
)
def test_auto_is_refused_where_nothing_compares_dimensions(given):
    with pytest.raises(ValueError, match='n_latent is "auto"'):
        km.KernelStateSpace("auto", **given).fit(np.random.default_rng(0).random((30, 1)))

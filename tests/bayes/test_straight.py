"""Lines beside kernels: latents are told with them where these hold far out, and only there."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation
from scipy.special import ndtri

import kernelmean as km
from kernelmean.bayes.straight import room
from kernelmean.densities.bending import Bent


def long_tailed(n: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Latents that are a line in observations of which some are far from all others."""
    X = rng.standard_t(2, size=(n, 2))
    return X, X @ [[1.0, 0.5], [-0.5, 1.0]] + 0.2 * rng.normal(size=(n, 2))


def without_line(model) -> km.KernelBayes:
    """By the weights of the formula."""
    return model.set_params(reg=model.regularisers()[1])


def bent(model) -> bool | None:
    """Whether its line is on a bent scale; None without one."""
    line = model._pairs(None, None).line
    return line and isinstance(line.lift.__self__, Bent)


def test_the_mean_is_that_of_what_the_line_leaves_and_the_line(rng):
    X = rng.standard_t(2, size=(100, 1))
    Z = 2 * X + 0.1 * rng.normal(size=(100, 1))
    model = km.KernelBayes(ratio=lambda z: np.ones(len(z))).fit(X, Z)  # even shares
    new = np.array([[-0.3], [0.4]])
    assert not bent(model)
    w = model.weights(new)
    away = np.abs(X - X.mean())[:, 0]  # slopes are those of far pairs
    slope = np.polyfit(X[:, 0], Z, 1, w=away)[:1]
    found = w @ (Z - X @ slope) / w.sum(axis=1)[:, None] + new @ slope
    assert_allclose(model.predict(new), found, rtol=1e-6)
    assert_allclose(model.posterior(new).mean(), model.predict(new))


def test_far_out_it_goes_on(rng):
    X, Z = long_tailed(300, rng)
    new, truth = long_tailed(2000, rng)
    within = np.all(np.abs(new) < np.abs(X).max(axis=0), axis=1)
    far = within & (np.abs(new).max(axis=1) > 6)
    model = km.KernelBayes().fit(X, Z)
    error = np.mean((model.predict(new[far]) - truth[far]) ** 2)
    plain = without_line(km.KernelBayes().fit(X, Z)).predict(new[far])
    assert error < 0.1 * np.mean((plain - truth[far]) ** 2)


def test_beyond_all_pairs_it_goes_on(rng):
    """Also beyond the box of the latents."""
    X, Z = long_tailed(300, rng)
    new = 5 * X[np.abs(X).max(axis=1) > 8]
    model = km.KernelBayes().fit(X, Z)
    with pytest.warns(km.NumericalWarning) as said:
        laws = model.posterior(new)
    assert "but for a line" in str(said[0].message)
    assert laws.extrapolated.any()
    truth = new @ [[1.0, 0.5], [-0.5, 1.0]]
    assert_allclose(laws.mean(), truth, atol=0.03 * np.abs(truth).max())


def test_it_goes_as_far_as_the_tails_of_the_latents_are_long():
    u = np.linspace(0, 1, 1001)[1:-1, None]
    ends = np.hstack(
        [room(u), room(np.column_stack([ndtri(u[:, 0]), np.tan(np.pi * (u[:, 0] - 0.5))]))]
    )
    assert_allclose(ends.T, [[-0.097, 1.097], [-13.3, 13.3], [-129_450, 129_450]], rtol=0.03)


def test_on_a_bent_scale_it_goes_on_bent(rng):
    """Logarithms of observations: a tangent at the last pair would be off by as much as x is."""
    Z = rng.standard_t(2, size=(300, 1))
    X = np.sinh(Z) + 0.1 * rng.normal(size=(300, 1))
    model = km.KernelBayes().fit(X, Z)
    assert bent(model)
    new = 30 * np.abs(X).max(axis=0, keepdims=True)
    with pytest.warns(km.NumericalWarning):
        assert_allclose(model.predict(new), np.arcsinh(new), rtol=0.2)


def test_a_root_is_no_line(rng):
    """Slopes learned near the middle are far above what is farthest out, but on a bent scale."""
    Z = np.exp(2 * rng.normal(size=(300, 1)))
    X = (Z * rng.normal(size=(300, 3))) ** 2
    assert bent(km.KernelBayes().fit(X, Z)) in (None, True)


def test_humps_stay(rng):
    Z = rng.normal(size=(300, 1))
    X = Z**2 + 0.1 * rng.normal(size=(300, 1))
    assert km.KernelBayes().fit(X, Z)._pairs(None, None).line is None


def test_it_is_of_the_prior(rng):
    """Of two slopes, the one that holds under the prior."""
    Z = rng.uniform(-2, 2, size=(600, 1))
    X = np.where(Z > 0, Z, 3 * Z) + 0.1 * rng.normal(size=(600, 1))
    model = km.KernelBayes().fit(X, Z)
    prior = rng.uniform(0.2, 1.8, size=(300, 1))
    assert_allclose(model.predict([[0.6], [1.4]], prior), [[0.6], [1.4]], atol=0.08)


def test_few_values_stay(rng):
    Z = rng.integers(0, 2, size=(200, 1)).astype(float)
    law = km.KernelBayes().fit(Z + rng.normal(size=(200, 1)), Z).posterior([[0.5], [3.0]])
    assert set(np.unique(law.points)) == {0.0, 1.0}
    assert ((law.mean() >= 0) & (law.mean() <= 1)).all()


def test_angles_and_rotations_stay(rng):
    """Far out, too, where other latents are moved to where the regression says."""
    turn, far = rng.vonmises(0.0, 2.0, 120), np.array([[5.0, -4.0]])
    X = np.column_stack([turn, rng.normal(size=120)]) + 0.1 * rng.normal(size=(120, 2))
    A = Rotation.from_rotvec(turn[:, None] * [0.0, 0.0, 1.0]).as_matrix().reshape(-1, 9)
    hour = km.on_columns({0: km.Gaussian(), 1: km.Periodic(period=24)})
    Z = np.column_stack([X[:, 1], turn * 12 / np.pi % 24])
    where = km.KernelBayes(kernel_z=hour).fit(X, Z).posterior(far)
    assert 0 <= where.mode()[0, 1] < 24
    assert np.isin(where.quantile([0.1, 0.5, 0.9])[0, :, 1], Z[:, 1]).all()
    turned = km.KernelBayes(kernel_z=km.Frobenius(rotations=True)).fit(X, A).posterior(far).mode()
    assert_allclose(turned.reshape(3, 3) @ turned.reshape(3, 3).T, np.eye(3), atol=1e-9)


def test_units_do_not_matter(rng):
    X, Z = long_tailed(200, rng)
    plain = km.KernelBayes().fit(X, Z).predict(X[:5])
    other = km.KernelBayes().fit(X * [1e3, 1e-3], Z * [1e-2, 1e4]).predict(X[:5] * [1e3, 1e-3])
    assert_allclose(other / [1e-2, 1e4], plain, rtol=1e-3)


def test_more_columns_than_pairs_can_tell(rng):
    X = rng.normal(size=(40, 30))
    Z = X[:, :1] + rng.normal(size=(40, 1))
    assert km.KernelBayes().fit(X, Z)._pairs(None, None).line is None

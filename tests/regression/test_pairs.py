"""The score as a function of the bandwidth, from pairs of rows, against that in coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelmean as km
from kernelmean.densities.search import DensityScore, Target
from kernelmean.regression.pairs import BandwidthScore, Pairs
from kernelmean.regression.smoother import Smoother

KERNELS = {
    "gaussian": km.Gaussian((0.3, 0.5)),
    "laplace": km.Laplace((0.3, 0.5)),
    "matern": km.Matern(1.5, 0.4),
    "each column by itself": km.Laplace((0.3, 0.5), columnwise=True),
}


def smooth(n: int = 120, seed: int = 3) -> tuple[Smoother, np.ndarray]:
    """Weights of rows, and two columns: one with ties, one with heavy tails."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    Y = np.column_stack([X[:, 0].round(1), rng.standard_t(1, n)])
    Phi = km.Nystroem().fit_transform(X, km.Gaussian(0.7))
    return Smoother.of(Phi, intercept=True), Y


@pytest.mark.parametrize("factor", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("name", list(KERNELS))
def test_it_is_the_score_at_any_bandwidth(name, factor):
    smoother, Y = smooth()
    kernel = KERNELS[name]
    found = BandwidthScore.of_rows(Pairs(Y, kernel), kernel, smoother, 1e-3)(factor)
    target = Target.of(Y, kernel.scaled(factor), exact=True)
    expected = DensityScore(smoother, target)(1e-3)
    size = (target.wide**2).sum(axis=1).mean()
    assert_allclose(found, expected, atol=(1e-10 if kernel.columnwise else 1e-4) * size)


@pytest.mark.parametrize("kernel", [km.Gaussian(0.3), km.Laplace(0.2), km.Periodic(0.5)])
def test_of_points_with_weights_of_either_sign(kernel):
    rng = np.random.default_rng(5)
    x, w = rng.uniform(0, 2 * np.pi, size=(90, 1)), rng.uniform(-0.3, 1.0, 90)
    w, k = w / w.sum(), kernel.scaled(1.3)
    square = w @ k.self_convolved(1).density(x, x) @ w
    left_out = ((k.density(x, x) - np.diag(np.diag(k.density(x, x)))) @ w) / (1 - w)
    found = BandwidthScore.of_points(x, w, kernel)(1.3)
    assert_allclose(found, square - 2 * w @ left_out, rtol=1e-4)


def test_cells_hold_what_their_pairs_have():
    _, Y = smooth()
    A = np.random.default_rng(4).normal(size=(len(Y), len(Y)))
    A = A + A.T
    pairs = Pairs(Y, KERNELS["gaussian"])
    assert_allclose(pairs.sums(A).sum(), A.sum())
    apart = np.linalg.norm((Y[:, None] - Y[None]) / np.array([0.3, 0.5]), axis=2)
    middle = np.linalg.norm(pairs.differences / np.array([0.3, 0.5]), axis=1)
    assert_allclose(pairs.sums(A) @ middle, (A * apart).sum(), rtol=1e-9)

"""What returns say of their log variance: the bounds of docs/guide/filtering.md."""

from __future__ import annotations

import numpy as np
from filter_cases import volatility
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import chi2

PHI, TAU = 0.98, 0.2


def filtered(noise: float) -> float:
    """Variance of a prediction of z once the Kalman filter of z + noise is steady."""
    ahead = TAU**2 / (1 - PHI**2)
    for _ in range(1000):
        ahead = PHI**2 / (1 / ahead + 1 / noise) + TAU**2
    return ahead


def test_log_squares_have_two_fifths_of_the_information():
    """u = log χ²₁: variance π²/2, Fisher information on its location ½."""

    def density(u):
        return chi2.pdf(np.exp(u), 1) * np.exp(u)

    mean = quad(lambda u: u * density(u), -60, 6)[0]
    assert_allclose(quad(lambda u: (u - mean) ** 2 * density(u), -60, 6)[0], np.pi**2 / 2)
    slope = quad(lambda u: (0.5 - 0.5 * np.exp(u)) ** 2 * density(u), -60, 6)[0]
    assert_allclose(slope, 0.5)


def test_exact_filter_is_between_the_bound_and_the_best_line():
    n = 6000
    z, r = (part[:, 0] for part in volatility(n, PHI, TAU, 0))
    at = np.linspace(-4.5, 4.5, 120)
    K = np.exp(-0.5 * ((at - PHI * at[:, None]) / TAU) ** 2)
    K /= K.sum(axis=1, keepdims=True)
    w, means = np.full(120, 1 / 120), np.empty(n)
    for t in range(n):
        w = w @ K
        means[t] = w @ at
        w = w * np.exp(-0.5 * (r[t] ** 2 * np.exp(-at) + at))
        w /= w.sum()
    assert filtered(2.0) < np.mean((means - z) ** 2) < filtered(np.pi**2 / 2)

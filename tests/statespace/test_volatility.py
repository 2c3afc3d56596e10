"""What log r² can give: the formulas of docs/guide/volatility.md beside integrals and draws."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.integrate import quad, simpson
from scipy.stats import norm
from scipy.stats import t as student

ROOT = Path(__file__).parents[2]
TAILS = [np.inf, 30.0, 8.0, 5.0]


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return __import__("bench_volatility")
    finally:
        sys.path.pop(0)


def shock(df: float):
    """The law of ε, of variance one."""
    return norm() if np.isinf(df) else student(df, scale=np.sqrt(1 - 2 / df))


def mean_of(f, df: float) -> float:
    """E f(log ε²), the integral over log |ε| taken by Simpson's rule."""
    half = np.linspace(-30, 9, 20_001)
    density = 2 * shock(df).pdf(np.exp(half)) * np.exp(half)
    return float(simpson(f(2 * half) * density, x=half))


def log_density(u: np.ndarray, df: float) -> np.ndarray:
    return shock(df).logpdf(np.exp(u / 2)) + u / 2


# ---------------------------------------------------------------- noises


@pytest.mark.parametrize("df", TAILS)
def test_noises_are_what_the_integrals_say(bench, df):
    middle = mean_of(lambda u: u, df)
    assert bench.linear_noise(df) == pytest.approx(mean_of(lambda u: (u - middle) ** 2, df))
    assert bench.garch_noise(df) == pytest.approx(fourth(df) - 1)

    def squared_score(u):
        step = 1e-4
        return ((log_density(u + step, df) - log_density(u - step, df)) / (2 * step)) ** 2

    assert bench.least_noise(df) == pytest.approx(1 / mean_of(squared_score, df), rel=1e-5)


def fourth(df: float) -> float:
    return 2 * quad(lambda x: x**4 * shock(df).pdf(x), 0, np.inf, limit=200)[0]


def test_no_straight_line_is_below_the_least_and_garch_has_it_where_returns_are_normal(bench):
    assert bench.garch_noise(np.inf) == bench.least_noise(np.inf) == 2
    for df in (4.5, 5.79, 5.80, 12.0, np.inf):
        least, garch, line = bench.least_noise(df), bench.garch_noise(df), bench.linear_noise(df)
        assert least <= min(garch, line)
        assert (line < garch) == (df < 5.793)
    assert bench.garch_noise(4) == np.inf


# ---------------------------------------------------------------- what a filter leaves


@pytest.mark.parametrize(("phi", "tau", "noise"), [(1.0, 0.1, 2.0), (0.95, 0.35, 4.93)])
def test_the_steady_variance_is_that_of_the_recursion(bench, phi, tau, noise):
    variance = 1.0
    for _ in range(500):
        variance = phi**2 / (1 / variance + 1 / noise) + tau**2
    assert bench.steady(phi, tau, noise) == pytest.approx(variance)


def test_what_is_to_be_gained_is_most_for_a_random_walk(bench):
    most = 0.1 * (np.sqrt(5.0) - np.sqrt(3.0))
    gains = [bench.steady(p, 0.1, 5.0) - bench.steady(p, 0.1, 3.0) for p in (0.9, 0.97, 0.99, 1.0)]
    assert np.all(np.diff([*gains, most]) > 0)


@pytest.mark.parametrize("df", [np.inf, 8.0])
@pytest.mark.parametrize("kind", ["GARCH", "score", "line"])
def test_filters_of_small_steps_have_the_error_of_their_noise(bench, df, kind):
    """m' = φm + K g(log r² − m), many at once; K is the gain that the noise R asks for."""
    middle = mean_of(lambda u: u, df)
    apart = np.inf if np.isinf(df) else df - 2

    def score(u):
        if np.isinf(apart):
            return np.expm1(u) / 2
        return ((df + 1) / (1 + apart * np.exp(-u)) - 1) / 2

    g, slope, noise = {
        "GARCH": (np.expm1, 1.0, bench.garch_noise(df)),
        "score": (score, 1 / bench.least_noise(df), bench.least_noise(df)),
        "line": (lambda u: u - middle, 1.0, bench.linear_noise(df)),
    }[kind]
    phi, tau, rng = 0.999, 0.02, np.random.default_rng(0)
    spread = 1.0 if np.isinf(df) else np.sqrt(1 - 2 / df)
    left = bench.steady(phi, tau, noise)
    gain = left / (left + noise) * phi / slope
    e = np.zeros(3_000)
    for _ in range(300):
        shocks = rng.standard_normal(3_000) if np.isinf(df) else rng.standard_t(df, 3_000)
        u = np.log((spread * shocks) ** 2)
        e = phi * e - gain * g(u + e) + tau * rng.standard_normal(len(e))
    assert e.var() == pytest.approx(left, rel=0.08)


# ---------------------------------------------------------------- the filters


@pytest.mark.parametrize("df", [np.inf, 6.0])
def test_the_exact_filter_is_bayes_rule(bench, df):
    """Three rows: the law of (z₁, z₂, z₃) by Hermite's nodes, against nodes of z in turn."""
    law = bench.Volatility(mu=0.3, phi=0.9, tau=0.3, df=df)
    returns = np.array([0.4, -2.0, 1.1])
    x, w = np.polynomial.hermite_e.hermegauss(24)
    one, two, three = np.meshgrid(x, x, x, indexing="ij")
    z1 = law.spread * one
    z2 = law.phi * z1 + law.tau * two
    z3 = law.phi * z2 + law.tau * three + law.mu
    weights = w[:, None, None] * w[:, None] * w / w.sum() ** 3
    seen = weights.copy()
    for r, z in zip(returns, (z1 + law.mu, z2 + law.mu), strict=False):
        seen *= np.exp(-z / 2) * shock(df).pdf(r * np.exp(-z / 2))
    found = bench.exact(law, returns)
    assert found.mean[-1] == pytest.approx((seen * z3).sum() / seen.sum(), abs=1e-6)
    assert found.variance[-1] == pytest.approx((seen * np.exp(z3)).sum() / seen.sum(), rel=1e-6)
    last = seen * np.exp(-z3 / 2) * shock(df).pdf(returns[2] * np.exp(-z3 / 2))
    assert found.log_likelihood == pytest.approx(np.log(last.sum()), abs=1e-6)


@pytest.mark.parametrize("df", [np.inf, 6.0])
def test_the_linear_filter_is_the_best_linear_forecast(bench, df):
    law = bench.Volatility(mu=0.3, phi=0.9, tau=0.3, df=df)
    returns, _ = law.sample(12, np.random.default_rng(1))
    far = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
    cov = law.spread**2 * law.phi**far
    y = np.log(returns**2) - law.mu - mean_of(lambda u: u, df)
    past = cov[:11, :11] + bench.linear_noise(df) * np.eye(11)
    best = law.mu + cov[11, :11] @ np.linalg.solve(past, y[:11])
    assert bench.linear(law, returns)[-1] == pytest.approx(best)


# ---------------------------------------------------------------- QLIKE


@pytest.mark.slow
@pytest.mark.skipif(find_spec("arch") is None, reason="GARCH(1,1) is estimated by arch")
def test_qlike_is_half_of_the_variance_and_its_spread_is_the_gains(bench):
    df = 8.0
    law = bench.Volatility(phi=0.97, tau=0.15, df=df)
    found = bench.drawn(law, 20_000, 3)
    exact, garch, straight = found.above
    assert exact == pytest.approx(bench.steady(0.97, 0.15, bench.least_noise(df)) / 2, rel=0.06)
    assert straight == pytest.approx(bench.steady(0.97, 0.15, bench.linear_noise(df)) / 2, rel=0.06)
    assert exact < garch < straight
    gain = garch - exact
    assert found.spread == pytest.approx(np.sqrt(2 * gain * found.residual), rel=0.25)
    days = (2 * found.spread / gain) ** 2  # after which the mean is two of its standard errors
    assert bench.days_needed(gain, found.residual) == pytest.approx(days, rel=0.5)

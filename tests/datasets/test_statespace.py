"""State-space simulators: draws follow the laws of the thesis, and the exact filter is exact."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad

from kernelmean import datasets as ds
from kernelmean.datasets import statespace

DESIGNS = {
    "linear": {},
    "bimodal": {},
    "volatility": {},
    "volatility, returns": {"log_squared": False},
}
RARE = 1e-4  # level of each test of a law: there are some twenty
every_design = pytest.mark.parametrize("design", DESIGNS)
additive = pytest.mark.parametrize("design", ["linear", "bimodal"])


def draw(design, n, seed):
    parameters = DESIGNS[design]
    return ds.make_state_space(design.split(",")[0], n, random_state=seed, **parameters)


def kitagawa(x):
    return x / 2 + 25 * x / (1 + x**2)


# ------------------------------------------------------------ draws


@every_design
def test_shapes_seeds_and_the_global_generator(design):
    before = np.random.get_state()[1].copy()
    a, b, c = (draw(design, 50, seed) for seed in (40, 40, 41))
    assert a.X.shape == a.states.shape == (50, 1)
    assert_array_equal(a.X, b.X)
    assert_array_equal(a.states, b.states)
    assert not np.array_equal(a.X, c.X)
    assert_array_equal(np.random.get_state()[1], before)


def test_transitions_and_observations_follow_the_law():
    for design, f, sigma in (
        ("linear", lambda x: 0.95 * x, 0.6),
        ("bimodal", kitagawa, 10**0.5),
        ("volatility", lambda x: 0.95 * x, 1.0),
    ):
        data = draw(design, 5000, 42)
        shocks = (data.states[1:] - f(data.states[:-1]))[:, 0] / sigma
        assert stats.kstest(shocks, "norm").pvalue > RARE, design
        # nor do they depend on where the chain was
        assert stats.spearmanr(shocks**2, data.states[:-1, 0]).pvalue > RARE, design
    for design, sigma in (("linear", 0.6), ("bimodal", 1.0)):
        data = draw(design, 5000, 43)
        noise = (data.X - data.states)[:, 0] / sigma
        assert stats.kstest(noise, "norm").pvalue > RARE, design


def test_log_squares_are_those_of_the_returns():
    logs, returns = (draw(design, 5000, 44) for design in ("volatility", "volatility, returns"))
    assert_array_equal(logs.states, returns.states)
    assert_allclose(logs.X, np.log(returns.X**2), rtol=1e-12)
    standard = returns.X / np.sqrt(np.exp(returns.states) / 2)
    assert stats.kstest(standard[:, 0], "norm").pvalue > RARE


def test_the_first_state_has_the_stationary_law(rng):
    first = draw("linear", 1, 0).model.draw_first(20_000, rng)[:, 0]
    assert stats.kstest(first, stats.norm(0, 0.6 / (1 - 0.95**2) ** 0.5).cdf).pvalue > RARE
    model = draw("bimodal", 1, 0).model
    first = model.draw_first(10_000, rng)
    later = model.draw_next(model.draw_next(first, rng), rng)
    assert stats.ks_2samp(first[:, 0], later[:, 0]).pvalue > RARE
    # against a long run of the recursion from elsewhere
    x, shocks = 0.0, 10**0.5 * rng.standard_normal(60_000)
    path = np.array([x := kitagawa(x) + shock for shock in shocks])[100:]
    assert stats.ks_2samp(np.abs(first[:, 0]), np.abs(path[::10])).pvalue > RARE


# ------------------------------------------------------------ densities


def moment(model, x, power, ends):
    """∫ y^power g(y | x) dy, by Gauss and Legendre's nodes in each of 400 parts."""
    cuts, (u, w) = np.linspace(*ends, 401), np.polynomial.legendre.leggauss(20)
    half = np.diff(cuts)[:, None] / 2
    y = cuts[:-1, None] + half * (1 + u)
    g = np.exp(model.log_emission(y.reshape(-1, 1), x)[:, 0]).reshape(y.shape)
    return float(np.sum(half * w * y**power * g))


@pytest.mark.slow
@every_design
def test_densities_integrate_to_one_and_have_their_means(design):
    model = draw(design, 1, 0).model
    for x in (-3.0, 0.2, 6.0):
        at = np.array([[x]])
        mean, spread = model.mean_emission(at)[0, 0], 12 * np.exp(max(x, 0) / 2)
        ends = (mean - 60, mean + 12) if design == "volatility" else (mean - spread, mean + spread)
        assert moment(model, at, 0, ends) == pytest.approx(1, abs=1e-7)
        assert moment(model, at, 1, ends) == pytest.approx(mean, abs=1e-6)


@every_design
def test_draws_have_the_densities_that_the_model_states(design, rng):
    model = draw(design, 1, 0).model
    x = np.full((4000, 1), 1.3)
    y = model.draw_emission(x, rng)
    assert y.mean() == pytest.approx(model.mean_emission(x)[0, 0], abs=5 * y.std() / 4000**0.5)
    assert stats.kstest(y[:, 0], lambda q: model.emission.law(1.3).cdf(q)).pvalue > RARE
    after = model.draw_next(x, rng)[:, 0]
    grid = np.linspace(after.min(), after.max(), 4001)
    cdf = np.cumsum(model.transition_density(x[:1], grid)[0]) * (grid[1] - grid[0])
    assert stats.kstest(after, lambda q: np.interp(q, grid, cdf)).pvalue > RARE


def test_densities_are_pairwise():
    model = draw("bimodal", 1, 0).model
    x, after = np.array([[-1.0], [4.0]]), np.array([[0.0], [1.0], [9.0]])
    expected = stats.norm.pdf(after.T, kitagawa(x), 10**0.5)
    assert_allclose(model.transition_density(x, after), expected, rtol=1e-12)
    expected = stats.norm.logpdf(x, after.T, 1.0)
    assert_allclose(model.log_emission(x, after), expected, rtol=1e-12)


# ------------------------------------------------------------ the exact filter


def kalman(X, lengths, rho=0.95, q=0.36, r=0.36):
    """Means and variances of the forecast of each row, filtered means, log-likelihoods."""
    rows, firsts = [], np.cumsum([0, *lengths])
    for t, y in enumerate(X[:, 0]):
        m, v = (0.0, q / (1 - rho**2)) if t in firsts else (rho * m, rho**2 * v + q)  # noqa: F821
        forecast = (m, v + r)
        gain = 0.0 if np.isnan(y) else v / (v + r)
        step = 0.0 if np.isnan(y) else gain * (y - m)
        loglik = 0.0 if np.isnan(y) else stats.norm.logpdf(y, m, (v + r) ** 0.5)
        m, v = m + step, (1 - gain) * v
        rows.append((*forecast, m, loglik))
    return np.array(rows).T


def test_linear_equals_the_kalman_filter_with_gaps_and_sequences():
    data = draw("linear", 300, 45)
    X, lengths = data.X.copy(), [120, 1, 179]
    X[[0, 5, 6, 121, 299]] = np.nan
    mean, variance, filtered, loglik = kalman(X, lengths)
    model = data.model
    assert_allclose(model.predict(X, lengths)[:, 0], mean, atol=1e-9)
    assert_allclose(model.filter(X, lengths)[:, 0], filtered, atol=1e-9)
    assert_allclose(model.log_predictive(X, lengths), loglik, atol=1e-9)
    half = stats.norm.ppf(0.975) * variance**0.5
    expected = np.column_stack([mean - half, mean + half])
    assert_allclose(model.forecast_interval(X, 0.95, lengths), expected, atol=1e-8)


def test_linear_equals_statsmodels():
    sarimax = pytest.importorskip("statsmodels.tsa.statespace.sarimax")
    data = draw("linear", 400, 46)
    law = sarimax.SARIMAX(data.X[:, 0], order=(1, 0, 0), measurement_error=True)
    found = law.filter([0.95, 0.36, 0.36])
    assert_allclose(data.model.predict(data.X)[:, 0], found.fittedvalues, atol=1e-8)
    assert data.model.log_predictive(data.X).sum() == pytest.approx(found.llf, abs=1e-7)


def results(model, X):
    """The exact filter's, one row each."""
    return np.array([model.predict(X)[:, 0], model.filter(X)[:, 0], model.log_predictive(X)])


def particle_filter(design, Y, count, rng):
    """Forecasts, filtered means and log-likelihoods of a bootstrap filter, written plainly."""
    sigma = 10**0.5 if design == "bimodal" else 1.0
    x = np.zeros(count)
    for _ in range(200):  # to the stationary law, on both sides of 0
        x = step(design, x) + sigma * rng.standard_normal(count)
    rows = []
    for y in Y:
        mean, logs = observe(design, x, y)
        weights = np.exp(logs)
        rows.append((mean.mean(), weights @ x / weights.sum(), np.log(weights.mean())))
        x = rng.choice(x, size=count, p=weights / weights.sum())
        x = step(design, x) + sigma * rng.standard_normal(count)
    return np.array(rows).T


def step(design, x):
    return kitagawa(x) if design == "bimodal" else 0.95 * x


def observe(design, x, y):
    """Mean and log-density of y given every x."""
    if design == "bimodal":
        return x, stats.norm.logpdf(y, x, 1)
    scale = np.exp(x / 2) / 2**0.5
    if design == "volatility, returns":
        return np.zeros_like(x), stats.norm.logpdf(y, 0, scale)
    root = np.exp(y / 2)  # p(log v² = y) = p(v) dv/dy on both sides of 0
    return x - np.log(2) - 1.2703628454614782, stats.norm.logpdf(root, 0, scale) + np.log(root)


@pytest.mark.slow
@pytest.mark.parametrize("design", ["bimodal", "volatility", "volatility, returns"])
def test_the_filter_equals_many_particles(design, rng):
    data = draw(design, 25, 47)
    runs = np.array([particle_filter(design, data.X[:, 0], 4000, rng) for _ in range(8)])
    exact = results(data.model, data.X)
    error = runs.std(axis=0, ddof=1) / 8**0.5
    # 75 Student t numbers with 7 degrees of freedom: beyond 8 one time in 100
    assert np.all(np.abs(runs.mean(axis=0) - exact) <= 8 * error + 1e-12)


@pytest.mark.slow
@every_design
def test_more_and_wider_nodes_change_nothing(design, monkeypatch):
    data = draw(design, 15, 48)
    coarse = results(data.model, data.X)
    monkeypatch.setattr(statespace, "SPACING", statespace.SPACING / 2)
    monkeypatch.setattr(statespace, "DEVIATIONS", statespace.DEVIATIONS + 2)
    model = draw(design, 1, 48).model
    assert_allclose(results(model, data.X), coarse, atol=1e-8)


@additive
def test_the_stationary_law_is_one(design):
    chain = draw(design, 1, 0).model.chain
    assert_allclose(chain.transmat.sum(axis=1), 1, atol=1e-12)
    assert_allclose(chain.startprob @ chain.transmat, chain.startprob, atol=1e-13)
    assert chain.startprob.sum() == pytest.approx(1)


@pytest.mark.slow
@every_design
def test_intervals_cover_as_often_as_they_say(design):
    data = draw(design, 300, 49)
    low, high = data.model.forecast_interval(data.X, 0.8).T
    inside = ((data.X[:, 0] >= low) & (data.X[:, 0] <= high)).mean()
    assert abs(inside - 0.8) < 4 * (0.16 / 300) ** 0.5


def mass(model, prior, low, high):
    """P(low < y < high) where x follows `prior` on the nodes."""

    def density(y):
        return (np.exp(model.log_emission([[y]], model.nodes)) @ prior)[0]

    return quad(density, low, high, limit=300)[0]


def test_forecast_intervals_are_quantiles_of_the_predictive_density():
    data = draw("bimodal", 30, 50)
    interval = data.model.forecast_interval(data.X, 0.7)
    prior = data.model._predicted(data.X, None)
    for t in (3, 29):
        low, high = interval[t]
        assert mass(data.model, prior[t], -60, low) == pytest.approx(0.15, abs=1e-7)
        assert mass(data.model, prior[t], low, high) == pytest.approx(0.7, abs=1e-7)


def test_a_row_that_nothing_explains_leaves_finite_numbers():
    data = draw("linear", 20, 51)
    data.X[7] = 1e4
    assert np.isfinite(data.model.predict(data.X)).all()
    assert np.isfinite(data.model.log_predictive(data.X)).all()


# ------------------------------------------------------------ arguments


def test_other_parameters():
    data = ds.make_state_space(
        "linear", 20_000, persistence=-0.5, state_noise=2.0, noise=0.1, random_state=52
    )
    x = data.states[:, 0]
    assert x.var() == pytest.approx(4 / 0.75, rel=0.05)
    assert np.corrcoef(x[1:], x[:-1])[0, 1] == pytest.approx(-0.5, abs=0.03)
    assert (data.X - data.states).std() == pytest.approx(0.1, rel=0.05)
    white = ds.make_state_space("volatility", 10, persistence=0, random_state=53)
    assert_allclose(white.model.predict(white.X), -1.2703628454614782 - np.log(2), atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"design": "cubic"}, "design is 'cubic'"),
        ({"n": 0}, "n is 0"),
        ({"persistence": 1.0}, "persistence is 1.0; a number between -1 and 1"),
        ({"persistence": "a"}, "persistence is 'a'"),
        ({"noise": 0}, "noise is 0.0; a positive"),
        ({"state_noise": -1}, "state_noise is -1.0"),
        ({"log_squared": True}, "a parameter of \"linear\" is 'log_squared'"),
        ({"design": "bimodal", "persistence": 0.3}, "a parameter of \"bimodal\" is 'persistence'"),
        ({"design": "volatility", "log_squared": 2}, "log_squared is 2; True or False"),
        ({"random_state": "x"}, "random_state is 'x'"),
        ({"noise": 1e-4}, "the exact filter would take"),
    ],
    ids=range(11),
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        ds.make_state_space(**arguments)


def test_observations_are_checked():
    model = draw("linear", 1, 0).model
    with pytest.raises(ValueError, match="X has 2 columns but the model has 1"):
        model.predict(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="level is 2"):
        model.forecast_interval(np.zeros((3, 1)), 2.0)
    with pytest.raises(ValueError, match="lengths sums to 2"):
        model.filter(np.zeros((3, 1)), [2])

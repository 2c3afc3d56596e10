"""What state-space models are compared with: against least squares, `arch`, and exact filters."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from kernelmean import datasets as ds
from kernelmean.comparators import (
    AutoRegression,
    Garch,
    LaggedRidge,
    mse_log_variance,
    particle_predict,
    qlike,
)
from kernelmean.comparators import statespace as module


def series(n=200, seed=60, design="linear"):
    return ds.make_state_space(design, n, random_state=seed).X


def regressors(y, count):
    """Lags, the latest first, of all rows that have them."""
    return np.column_stack([y[count - k : len(y) - k] for k in range(1, count + 1)])


# ------------------------------------------------------------ regressions


@pytest.mark.parametrize("n_lags", [1, 3])
def test_autoregression_is_least_squares(n_lags):
    pytest.importorskip("statsmodels")
    X = 5 + 3 * series()
    y = X[:, 0]
    model = AutoRegression(n_lags).fit(X[:150])
    A = np.column_stack([np.ones(150 - n_lags), regressors(y[:150], n_lags)])
    expected = np.linalg.lstsq(A, y[n_lags:150], rcond=None)[0]
    assert_allclose([model.intercept_, *model.coef_], expected, rtol=1e-8)
    later = expected[0] + regressors(y, n_lags) @ expected[1:]
    assert_allclose(model.predict(X)[n_lags:, 0], later, rtol=1e-8)


def test_lags_before_the_first_row_are_the_training_mean():
    pytest.importorskip("statsmodels")
    X = 5 + series()
    model, mean = AutoRegression(2).fit(X[:100]), X[:100].mean()
    first = model.intercept_ + model.coef_.sum() * mean
    second = model.intercept_ + model.coef_ @ [X[0, 0], mean]
    assert_allclose(model.predict(X)[:2, 0], [first, second], rtol=1e-10)


def models():
    return [AutoRegression(2), LaggedRidge(2, n_splits=2)]


@pytest.mark.parametrize("model", models(), ids=["AutoRegression", "LaggedRidge"])
def test_forecasts_use_no_later_row_and_leave_their_input(model):
    pytest.importorskip("statsmodels")
    X = series()
    kept = X.copy()
    forecasts = clone(model).fit(X[:100]).predict(X)
    assert forecasts.shape == X.shape
    changed = X.copy()
    changed[150:] += 9
    again = clone(model).fit(X[:100]).predict(changed)
    assert_array_equal(again[:151], forecasts[:151])
    assert not np.allclose(again[151:], forecasts[151:])
    assert_array_equal(X, kept)


def test_lagged_ridge_is_kernel_ridge_on_lags():
    X = 4 + 2 * series()
    model = LaggedRidge(3, n_splits=3).fit(X[:150])
    mean, scale = X[:150].mean(), X[:150].std()
    z = (X[:, 0] - mean) / scale
    settings = model.search_.best_params_
    L, alpha, gamma = regressors(z, 3), settings["alpha"], settings["gamma"]
    K = rbf_kernel(L, L[:147], gamma)
    weights = np.linalg.solve(K[:147] + alpha * np.eye(147), z[3:150])
    assert_allclose(model.predict(X)[3:, 0], mean + scale * (K @ weights), rtol=1e-7)


@pytest.mark.slow
def test_lagged_ridge_chooses_lags_by_later_folds_over_the_same_rows(monkeypatch):
    monkeypatch.setattr(module, "LAGS", (1, 2))
    rng, y = np.random.default_rng(61), np.zeros(300)
    for t in range(2, 300):  # one lag says nothing
        y[t] = 0.9 * y[t - 2] + rng.standard_normal()
    model = LaggedRidge(n_splits=3).fit(y[:, None])
    assert model.n_lags_ == 2
    # the error that won, by hand
    settings, L, z = model.search_.best_params_, regressors(y, 2), y[2:]
    z, L = (z - y.mean()) / y.std(), (L - y.mean()) / y.std()
    errors = []
    for last in range(len(z) - 3 * (len(z) // 4), len(z), len(z) // 4):
        test = slice(last, last + len(z) // 4)
        K = rbf_kernel(L, L[:last], settings["gamma"])
        weights = np.linalg.solve(K[:last] + settings["alpha"] * np.eye(last), z[:last])
        errors.append(np.mean((z[test] - K[test] @ weights) ** 2))
    assert model.search_.best_score_ == pytest.approx(-np.mean(errors), rel=1e-7)


@pytest.mark.slow
def test_peers_are_ordered_as_they_should_be():
    pytest.importorskip("statsmodels")
    data = ds.make_state_space("bimodal", 700, random_state=62)
    exact, linear, ridge = (
        np.mean((data.X - forecasts)[500:] ** 2)
        for forecasts in (
            data.model.predict(data.X),
            AutoRegression().fit(data.X[:500]).predict(data.X),
            LaggedRidge(1, n_splits=3).fit(data.X[:500]).predict(data.X),
        )
    )
    assert exact < ridge < 0.8 * linear


@pytest.mark.parametrize(
    ("model", "X", "message"),
    [
        (AutoRegression(0), np.zeros((50, 1)), "n_lags is 0"),
        (AutoRegression(4), np.zeros((9, 1)), "X has 9 rows; at least 10 are needed for 4 lags"),
        (AutoRegression(), np.zeros((50, 2)), "X has 2 columns"),
        (LaggedRidge("all"), np.zeros((50, 1)), "n_lags is 'all'"),
        (LaggedRidge(2, n_splits=1), np.zeros((50, 1)), "n_splits is 1"),
        (LaggedRidge(), np.zeros((19, 1)), "X has 19 rows; at least 20 are needed for 8 lags"),
    ],
    ids=range(6),
)
def test_regressions_check_their_arguments(model, X, message):
    pytest.importorskip("statsmodels")
    with pytest.raises(ValueError, match=message):
        model.fit(X)


# ------------------------------------------------------------ volatility


def returns(n=1500, seed=63):
    """GARCH(1, 1) with ω = 0.02, α = 0.1, β = 0.85 and mean 0.3, by its recursion."""
    rng, r, variance = np.random.default_rng(seed), np.empty(n), 0.4
    for t in range(n):
        r[t] = 0.3 + variance**0.5 * rng.standard_normal()
        variance = 0.02 + 0.1 * (r[t] - 0.3) ** 2 + 0.85 * variance
    return r


def test_garch_estimates_are_those_of_arch():
    arch = pytest.importorskip("arch")
    r = returns()
    model = Garch().fit(r)
    fit = arch.arch_model(r, rescale=False).fit(disp="off")
    found = [model.mu_, model.omega_, model.alpha_, model.beta_]
    # two searches of one maximum: closer to each other than a fifth of a standard error
    assert_allclose(found, fit.params, atol=0.2 * fit.std_err.min())
    # arch has another σ₁, whose trace fades
    assert_allclose(
        model.forecast_variance(r)[300:], fit.conditional_volatility[300:] ** 2, rtol=0.01
    )


def test_garch_forecasts_follow_the_recursion_with_training_parameters():
    pytest.importorskip("arch")
    r = returns()
    model = Garch("zero").fit(r[:1000])
    assert model.mu_ == 0
    variance, expected = r[:1000].var(), []
    for value in r:
        expected.append(variance)
        variance = model.omega_ + model.alpha_ * value**2 + model.beta_ * variance
    assert_allclose(model.forecast_variance(r), expected, rtol=1e-12)
    assert_allclose(model.forecast_variance(r[:1]), r[:1000].var())


def test_garch_does_not_depend_on_the_unit():
    pytest.importorskip("arch")
    r = returns(800)
    small, large = Garch().fit(r / 100), Garch().fit(r * 100)
    assert_allclose(small.forecast_variance(r / 100) * 1e8, large.forecast_variance(r * 100))


def test_qlike_is_least_at_the_truth_and_agrees_with_its_other_form():
    rng = np.random.default_rng(64)
    variance = rng.gamma(2, size=20_000)
    squares = variance * rng.standard_normal(20_000) ** 2
    losses = {scale: qlike(scale * variance, squares) for scale in (0.8, 1.0, 1.25)}
    assert min(losses, key=losses.get) == 1.0
    ratio = squares / variance
    other = np.mean(ratio - np.log(ratio) - 1)
    assert losses[1.0] - other == pytest.approx(np.mean(np.log(squares)) + 1, rel=1e-10)
    assert qlike(2.0, squares) == pytest.approx(np.log(2) + squares.mean() / 2)


def test_mse_of_log_variance_is_least_at_the_truth():
    rng = np.random.default_rng(65)
    variance = rng.gamma(2, size=20_000)
    squares = variance * rng.standard_normal(20_000) ** 2
    losses = {scale: mse_log_variance(scale * variance, squares) for scale in (0.9, 1.0, 1.1)}
    assert min(losses, key=losses.get) == 1.0
    assert losses[1.0] == pytest.approx(np.pi**2 / 2, rel=0.05)  # var log χ²₁
    with_zero = mse_log_variance(np.append(variance, 1), np.append(squares, 0))
    assert with_zero == pytest.approx(losses[1.0])


@pytest.mark.parametrize("loss", [qlike, mse_log_variance])
def test_losses_check_their_arguments(loss):
    with pytest.raises(ValueError, match="variance contains 0.0"):
        loss([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="squared_return contains -1.0; a number of at least 0"):
        loss([1.0, 2.0], [1.0, -1.0])
    with pytest.raises(ValueError, match="variance has 1 row but squared_return has 2"):
        loss([1.0], [1.0, 1.0])


def test_no_positive_return_has_no_logarithm():
    with pytest.raises(ValueError, match="squared_return has no positive number"):
        mse_log_variance(1.0, [0.0, 0.0])


def test_garch_checks_its_arguments():
    pytest.importorskip("arch")
    with pytest.raises(ValueError, match="mean is 'AR'"):
        Garch("AR").fit(returns(50))
    with pytest.raises(ValueError, match="r has 5 rows; at least 10"):
        Garch().fit(returns(5))
    with pytest.raises(ValueError, match="r is constant"):
        Garch().fit(np.ones(50))


# ------------------------------------------------------------ particles


@pytest.mark.parametrize("design", ["linear", "bimodal", "volatility"])
def test_particles_agree_with_the_exact_filter(design):
    data = ds.make_state_space(design, 40, random_state=66)
    X, lengths = data.X.copy(), [25, 15]
    X[[3, 30]] = np.nan
    runs = [
        particle_predict(data.model, X, 1000, lengths=lengths, random_state=s) for s in range(8)
    ]
    error = np.std(runs, axis=0, ddof=1) / 8**0.5
    exact = data.model.predict(X, lengths)
    # 40 Student t numbers with 7 degrees of freedom: beyond 8 one time in 300
    assert np.all(np.abs(np.mean(runs, axis=0) - exact) <= 8 * error)


def test_particles_use_neither_the_global_state_nor_a_hidden_seed():
    data = ds.make_state_space("linear", 20, random_state=67)
    before = np.random.get_state()[1].copy()
    a, b, c = (particle_predict(data.model, data.X, 50, random_state=s) for s in (1, 1, 2))
    assert_array_equal(np.random.get_state()[1], before)
    assert_array_equal(a, b)
    assert not np.array_equal(a, c)

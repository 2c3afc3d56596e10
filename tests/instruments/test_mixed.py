"""Powers with products: what they are, that they are judged as they are fitted, and are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2
from sklearn.preprocessing import PolynomialFeatures

import kernelmean as km
from kernelmean.features.base import Bare
from kernelmean.instruments import second_stage
from kernelmean.instruments.basis import Basis, Polynomial, columns_of, joint
from kernelmean.instruments.bend import Plane, chance_of_plane, chance_of_products
from kernelmean.instruments.first_stage import embed
from kernelmean.instruments.groups import Group, Part


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 3))


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_products_are_those_of_scikit_learn(rows, degree):
    """Of two columns, all there are; of three, those that the first is in, none of all three."""
    u = (rows - rows.mean(0)) / rows.std(0)
    theirs = PolynomialFeatures(degree).fit(u)
    columns, powers = theirs.transform(u), theirs.powers_ > 0
    alone, first = powers.sum(1) < 2, powers[:, 0] & (powers.sum(1) == 2)
    both = replace(Polynomial.of(rows, degree + 1), mixed=(0,))
    assert both.width == (alone | first).sum()
    found = both(rows)
    matched = abs(found[:, :, None] - columns[:, None, alone | first]).max(0) < 1e-9
    assert (matched.sum(0) == 1).all()
    for j in range(3):
        step = np.where(np.arange(3) == j, 1e-6, 0.0)
        numeric = (both(rows + step) - both(rows - step)) / 2e-6
        assert_allclose(both.derivative(rows, j), numeric, atol=1e-7)


def test_all_that_the_first_is_in_may_bend(rows):
    both = replace(Polynomial.of(rows, 4), mixed=(0,))
    bends = [both.terms[k] for k in both.bends([0])]
    assert {frozenset(columns_of(term)) for term in bends} == {
        *map(frozenset, ([0], [0, 1], [0, 2]))
    }
    assert len(bends) == 8
    assert columns_of(()) == set()


def test_products_beside_a_line_are_written_in_one(rows):
    line = Polynomial.of(rows, 2, (0,))
    both = replace(Polynomial.of(rows, 4), mixed=(0,))
    whole = joint([line, both])
    for one in (line, both):
        into = np.transpose([whole.saying(term) for term in one.terms])
        assert_allclose(whole(rows) @ into, one(rows), atol=1e-12)


def test_rows_left_out_of_least_squares_are_refits(rows):
    """Stage 2 without the row, and, in what is projected, a stage 1 without it, too."""
    rng = np.random.default_rng(1)
    Z, n = rng.normal(size=(60, 2)), 60
    X = Z + 0.5 * rng.normal(size=(n, 2))
    y = X[:, 0] * X[:, 1] + rng.normal(size=n)
    bases = [
        Basis(replace(Polynomial.of(A, 4), mixed=(0, 1)), Bare().fit(A, "linear")) for A in (X, Z)
    ]
    group = Group(Part(X, Z, y), *bases)
    embed([group], 0.0, "loo")
    group.own = False
    equations = second_stage.Equations([group])
    stage, loss = equations.solved(bases[0].trends)
    projected, causal = loss.errors([1.0])
    Phi, Theta = (basis.numbers(A) for basis, A in zip(bases, (X, Z), strict=True))
    F = Theta @ np.linalg.lstsq(Theta, Phi, rcond=None)[0]
    ridge = np.linalg.inv(stage.inverse) - F.T @ F / n
    y = y - group.middle
    for i in range(n):
        others = np.arange(n) != i
        A = F[others].T @ F[others] / n + ridge
        b = np.linalg.solve(A, F[others].T @ y[others] / n)
        E = np.linalg.lstsq(Theta[others], Phi[others], rcond=None)[0]
        assert causal[0, i] == pytest.approx(y[i] - Phi[i] @ b, rel=1e-6, abs=1e-8)
        assert projected[0, i] == pytest.approx(y[i] - Theta[i] @ E @ b, rel=1e-6, abs=1e-8)


def test_what_another_h_leaves_is_the_noise_of_the_test():
    """By hand, in one direction: n c²/mean(R²ν²)."""
    z, v, w = np.random.default_rng(2).normal(size=(3, 300))
    x, one = z + v, np.ones(300)
    plane = Plane.of(np.column_stack([one, x]), np.column_stack([one, z]))
    y, noise, r = x + x**2 + v, v + w, z**2 - 1
    cross = plane.X.T @ plane.T / 300 + np.diag(plane.held)
    e = y - plane.X @ np.linalg.solve(cross.T, plane.T.T @ y / 300)
    rest = r - plane.T @ np.linalg.solve(cross, plane.X.T @ r / 300)
    p = chi2.sf((rest @ e) ** 2 / (rest**2 @ noise**2), 1)
    found = chance_of_plane(plane, r[:, None], y, np.array([1e-15]), noise)
    assert found == pytest.approx(p, rel=1e-6)
    assert found < chance_of_plane(plane, r[:, None], y, np.array([1e-15]))  # a bend is noise there
    told = plane, r[:, None], y, noise
    assert chance_of_products(*told, 0.3) == pytest.approx(20 * 0.3)
    assert chance_of_products(*told, 0.0) == pytest.approx(20 * p, rel=1e-6)


@pytest.mark.slow
def test_lines_are_contradicted_no_more_often_than_said():
    """By products of three columns where noise has long tails: 300 draws, p < .05 at most .08."""
    seen = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(150, 3))
        X = Z + 0.5 * rng.normal(size=(150, 3))
        y = X.sum(1) + rng.standard_t(3, size=150) * (0.5 + abs(Z[:, 0]))
        bases = [
            Basis(replace(Polynomial.of(A, 3), mixed=(0,)), Bare().fit(A, "linear")) for A in (X, Z)
        ]
        group = Group(Part(X, Z, y), *bases)
        embed([group], 0.0, "loo")
        group.own = False
        own = second_stage.Equations([group])
        loss = own.solved(bases[0].trends)[1]
        bends = bases[0].polynomial.bends([0])
        rest = np.delete(np.arange(bases[0].trends), bends)
        plane = Plane.of(own.Phi[:, rest], own.M[:, rest])
        told = plane, own.M[:, bends], own.y
        p = chance_of_products(*told, loss.errors([1.0])[1][0], 0.0) / 20
        seen.append(p < 0.05)
    assert np.mean(seen) <= 0.08


def beside(h, seed: int, n: int = 500) -> tuple:
    """x, y, z and a control; new rows, and what h is there."""
    rng = np.random.default_rng(seed)

    def some(n: int) -> tuple:
        z, c, e = rng.normal(size=(3, n))
        return 0.8 * z + 0.3 * c + 0.5 * e, z, c, e

    x, z, c, e = some(n)
    y = h(x, c) + 0.6 * e + 0.4 * rng.normal(size=n)
    new, _, d, _ = some(1000)
    new, d = np.clip(new, x.min(), x.max()), np.clip(d, c.min(), c.max())
    return (x[:, None], y, z[:, None], c[:, None]), (new[:, None], d[:, None]), h(new, d)


def least_squares(rows: tuple, new: tuple) -> np.ndarray:
    """Two-stage least squares in cubes and products, by scikit-learn's columns."""
    (x, y, z, c), cubes = rows, PolynomialFeatures(3)
    X, Z = (cubes.fit_transform(np.hstack([a, c])) for a in (x, z))
    F = Z @ np.linalg.lstsq(Z, X, rcond=None)[0]
    return cubes.transform(np.hstack(new)) @ np.linalg.lstsq(F, y, rcond=None)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "h", [lambda x, c: x * c, lambda x, c: 0.5 * x**2 * c, lambda x, c: 0.5 * x * c**2]
)
def test_products_are_no_worse_than_two_stage_least_squares_in_these(h):
    """By one kernel along both they were six to fifteen times worse."""
    own, theirs = [], []
    for seed in (3, 4):
        rows, new, truth = beside(h, seed)
        model = km.KernelIV().fit(*rows)
        own.append(np.mean((model.predict(*new) - truth) ** 2))
        theirs.append(np.mean((least_squares(rows, new) - truth) ** 2))
    assert sum(own) < 1.2 * sum(theirs)
    assert model.basis_x_.polynomial.mixed == (0,)
    assert "with products of x0" in str(model.summary())
    assert model.fit_.differs_along == ["c0"]
    band = model.predict_interval(rows[0], rows[3])
    true = h(rows[0][:, 0], rows[3][:, 0])
    assert np.mean((band.lower <= true) & (true <= band.upper)) > 0.95
    assert np.median(band.upper - band.lower) < 1.2 * true.std()  # 4 by kernels that are refuted


@pytest.mark.slow
def test_of_two_endogenous_columns_too_and_is_kept_in_a_file(tmp_path):
    rng = np.random.default_rng(5)
    Z, e = rng.normal(size=(2, 500, 2))
    X = 0.9 * Z + 0.45 * e
    h = 0.5 * X[:, 0] ** 2 * X[:, 1]
    y = h + 0.5 * (e[:, 0] - e[:, 1]) + 0.4 * rng.normal(size=500)
    model = km.KernelIV().fit(X, y, Z)
    assert np.mean((model.predict(X) - h) ** 2) < 0.1 * h.var()
    assert model.basis_x_.polynomial.mixed == (0, 1)
    model.save(tmp_path / "model.km")
    assert_allclose(km.load(tmp_path / "model.km").predict(X), model.predict(X), rtol=1e-12)


@pytest.mark.slow
def test_told_lines_and_treatments_of_two_values_have_no_products():
    (x, y, z, c), *_ = beside(lambda x, c: x * c, 6)
    line = km.KernelIV({0: "linear", "*": "gaussian"}).fit(x, y, z, c)
    two = km.KernelIV().fit((x > 0).astype(float), y, z, c)
    for model in (line, two):
        assert not model.basis_x_.polynomial.mixed

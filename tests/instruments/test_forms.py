"""Columns that enter by a kernel, in a straight line, or as categories."""

from __future__ import annotations

import iv_oracles as slow
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.instruments.basis import Polynomial, joint
from kernelmean.instruments.columns import Forms, plainer_forms
from kernelmean.instruments.inference import ridge_coefficients


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
    assert np.isnan(slopes[:, 2]).all()


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


def test_forms_of_the_instruments_alone():
    model = fitted("gaussian", table(150), kernel_z={"z": "linear"})
    assert_allclose(model.scales_z_[0], np.inf)
    assert np.isfinite(model.scales_x_[:2]).all()


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


def test_one_word_for_all_columns_says_what_the_star_does():
    t = table(80)
    given = t[["x"]], t["y"], t[["z"]], t[["w"]]
    lines = {"*": "linear"}
    expected = km.KernelIV(lines, lines).fit(*given).coef_
    for forms in (("linear", "linear"), ("linear",), (lines,)):
        assert_array_equal(km.KernelIV(*forms).fit(*given).coef_, expected)


def test_a_line_keeps_the_kernel_that_its_instruments_were_given():
    """b = (MᵀM/n + δ)⁻¹Mᵀy/n, rows of M = E[(1, x) | z] left out in turn, with n × n matrices."""
    rng = np.random.default_rng(3)
    Z = rng.uniform(-2, 2, (90, 1))
    X = Z**2 + 0.5 * rng.normal(size=(90, 1))
    y, lam, n = X[:, 0] + rng.normal(size=90), 1e-3, 90
    for kernel_z in (km.Gaussian(1.0), {0: km.Gaussian(1.0)}):
        model = km.KernelIV("linear", kernel_z, reg_stage1=lam, features=km.Exact()).fit(X, y, Z)
        K = model.basis_z_.numbers(Z) @ model.basis_z_.numbers(Z).T
        H, Phi = K @ np.linalg.inv(K + n * lam * np.eye(n)), model.basis_x_.numbers(X)
        h = np.diag(H)[:, None]
        M = (H @ Phi - h * Phi) / (1 - h)
        held = np.diag([0.0, 1.0]) / n
        b = np.linalg.solve(M.T @ M / n + held, M.T @ (y - y.mean()) / n)
        assert_allclose(model.predict(X), y.mean() + Phi @ b, rtol=1e-8)
        assert abs(model.average_derivative().value - 1) < 0.3  # of z alone nothing is learned
    tuned = km.KernelIV("linear", "matern").fit(X, y, Z)
    assert "Matern" in str(tuned.summary())
    assert np.isfinite(tuned.scales_z_).all()


def test_a_curve_keeps_to_the_categories_of_its_instrument():
    """Rows of M are the means of φ over the others of a category: M_i = (Σφ − φ_i)/(n_g − 1)."""
    rng = np.random.default_rng(4)
    Z = np.repeat(np.arange(6.0), 20)[:, None]
    X = Z + 0.5 * rng.normal(size=Z.shape)
    y, xi, n = np.sin(X[:, 0]) + 0.3 * rng.normal(size=120), 1e-3, 120
    forms = km.Gaussian(2.0), {0: "category"}
    model = km.KernelIV(*forms, reg_stage2=xi, trend=0).fit(X, y, Z)
    Phi = model.basis_x_.numbers(X)
    M = np.vstack([(g.sum(0) - g) / 19 for g in np.split(Phi, 6)])
    held = np.diag([0.0] + [xi] * (Phi.shape[1] - 1))
    b = np.linalg.solve(M.T @ M / n + held, M.T @ (y - y.mean()) / n)
    assert_allclose(model.predict(X), y.mean() + Phi @ b, rtol=1e-6)
    assert "6 categories" in str(model.summary())
    far = km.KernelIV(*forms, reg_stage2=xi, trend=0).fit(X, y, 1e6 * Z + 1e4)
    assert_allclose(far.predict(X), model.predict(X), rtol=1e-6)


@pytest.mark.usefixtures("short_searches")
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


# ------------------------------------------------------------------------ few values, unasked


def levels_beside(seed: int, n: int = 240, turned: bool = False) -> tuple:
    """sin(1.5x) and a shift for each of five values of a control, or with its sign turned."""
    rng = np.random.default_rng(seed)
    z, e, v = rng.normal(size=(3, n))
    level = rng.integers(0, 5, n)
    x = z + 0.6 * e + 0.3 * v
    shift = np.array([0.0, 1.5, -1.0, 1.2, -1.5])[level]
    bend = np.sin(1.5 * x) * np.where((level % 2 == 1) & turned, -1.0, 1.0)
    y = bend + (0.0 if turned else shift) + e
    return x[:, None], y, z[:, None], level[:, None].astype(float)


def test_few_values_are_categories_where_they_only_shift():
    X, y, Z, C = levels_beside(3)
    model = km.KernelIV().fit(X, y, Z, C)
    assert "5 categories" in str(model.summary())
    shifts = model.contrast(np.ones((5, 1)), np.ones((5, 1)), np.arange(5.0)[:, None]).value
    assert_allclose(shifts, 0.0, atol=1e-12)
    at_zero = model.predict(np.zeros((5, 1)), np.arange(5.0)[:, None])
    assert_allclose(at_zero - at_zero[0], [0.0, 1.5, -1.0, 1.2, -1.5], atol=0.8)
    some = np.zeros((2, 1)), np.array([[1.4], [9.0]])
    with pytest.warns(km.NumericalWarning, match="row 1 first"):
        between = model.predict(*some)
    with pytest.warns(km.NumericalWarning, match="row 1 first"):  # no line was asked for
        assert model.to_frame(*some)["extrapolated"].tolist() == [False, True]
    assert_allclose(between, at_zero[[1, 4]], rtol=1e-12)  # unseen values: the nearest
    assert_allclose(model.derivative(X[:3], C[:3])[:, 1], np.nan)
    assert np.isfinite(model.params["x0"])


def test_a_curve_beside_categories_is_told_by_its_kernel():
    z, u, w = np.random.default_rng(49).normal(size=(3, 40))
    x, C = 2 * z + u, (np.arange(40) % 3.0)[:, None]
    y = np.sin(2 * x) + (C[:, 0] == 1) + 0.3 * x + 0.5 * u + 0.3 * w
    model = km.KernelIV().fit(x[:, None], y, z[:, None], C)
    assert model.basis_x_.polynomial.categories  # of the line that it stands beside
    text = str(model.summary())
    assert "lengthscale of c0" in text
    assert "categories" not in text
    assert np.isfinite(model.params).all()


def test_an_endogenous_category_has_no_slope():
    z = np.random.default_rng(4).normal(size=60)
    X = (np.digitize(z, [-0.5, 0.5]) * 1.0)[:, None]
    model = km.KernelIV({"x0": "category"}).fit(X, X[:, 0] ** 2, z[:, None])
    assert np.isnan(model.average_derivative().value)
    assert "nan" not in str(model.summary())


def test_few_values_keep_their_kernel_where_they_turn_the_curve():
    model = km.KernelIV().fit(*levels_beside(4, turned=True))
    assert "categories" not in str(model.summary())


@pytest.mark.parametrize(
    ("X", "Z", "exogenous", "expected"),
    [
        ([50, 2, 5], [50, 2, 5], 2, [(["k", "linear", "category"], ["q", "linear", "category"])]),
        ([50, 2, 5], [50, 2], 0, [(["k", "linear", "k"], ["q", "q"])]),
        (  # too many values; and a line beside what bends
            [50, 11],
            [50, 11],
            1,
            [(["k", "linear"], ["q", "linear"]), (["linear", "k"], ["q", "k"])],
        ),
        (
            [50, 11, 5],
            [50, 11, 5],
            2,
            [
                (["k", "k", "category"], ["q", "k", "category"]),
                (["k", "linear", "category"], ["q", "linear", "category"]),
                (["linear", "k", "category"], ["q", "k", "category"]),
            ],
        ),
        ([2, 5], [50, 2], 0, [(["linear", "k"], ["q", "q"])]),
        ([2, 2], [50, 2], 1, []),  # nothing would bend
        ([50, 5], [5], 1, []),
    ],
)
def test_forms_of_columns_of_few_values(X, Z, exogenous, expected):
    def columns(counts):
        return np.column_stack([np.arange(100.0) % count for count in counts])

    own, each = len(X) - exogenous, (Forms(("k",) * len(X)), Forms(("q",) * len(Z)))
    found = plainer_forms(*each, columns(X), own, told=100)
    assert [tuple(list(form.each) for form in forms) for forms in found] == expected


@pytest.mark.parametrize(
    "forms",
    [
        [(2, (), True), (2, (), False)],
        [(4, (1,), True), (4, (0,), False)],
        [(4, (1,), False), (4, (0,), False)],
        [(1, (0, 1), True), (4, (0,), True), (2, (), False)],
    ],
)
def test_what_is_taken_can_be_said_beside_a_line(forms):
    points = np.column_stack([np.random.default_rng(8).normal(size=(30, 2)), np.arange(30.0) % 3])
    levels = (2, (0.0, 1.0, 2.0))
    several = [Polynomial.of(points, k, lines, (levels,) * some) for k, lines, some in forms]
    found = joint(several)
    for one in several:
        into = np.transpose([found.saying(term) for term in one.terms])
        assert_allclose(found(points) @ into, one(points), atol=1e-12)


@pytest.mark.parametrize("seed", [17, 90])
def test_a_line_goes_towards_categories(seed):
    z, u, w = np.random.default_rng(seed).normal(size=(3, 40))
    X, C = (z + u)[:, None], (np.arange(40) % 3.0)[:, None]
    model = km.KernelIV().fit(X, 2 * (z + u) - 2 * u + 0.5 * C[:, 0] + 0.3 * w, z[:, None], C)
    assert model.fit_.bent < 1.0
    assert "3 categories" in str(model.summary())
    assert model.average_derivative().value == pytest.approx(2.0, abs=0.8)


def test_instruments_of_few_values_want_evidence_for_more_than_a_line():
    rng = np.random.default_rng(5)
    z = rng.integers(0, 5, 600)
    e = rng.normal(size=600)
    x = z / 2 + 0.5 * e + 0.5 * rng.normal(size=600)
    line = km.KernelIV().fit(x[:, None], x + e, z[:, None])
    bent = km.KernelIV().fit(x[:, None], x**2 + e, z[:, None])
    assert (line.trend_, line.reg_stage2_ > 1e12) == (1, True)
    assert (bent.trend_, bent.reg_stage2_ > 1e12) != (1, True)


@pytest.mark.parametrize("forms", [{"*": "linear"}, {"x0": "linear"}])
@pytest.mark.parametrize("split", ["loo", 2, 5, 0.5])
def test_lines_have_a_first_stage_of_their_own(forms, split):
    rng = np.random.default_rng(0)
    Z, C, e = rng.normal(size=(4000, 2)), rng.normal(size=(4000, 1)), rng.normal(size=4000)
    X = (Z.sum(axis=1) + C[:, 0] + e + rng.normal(size=4000))[:, None]
    iv = km.KernelIV(forms, split=split).fit(X, 2 * X[:, 0] - C[:, 0] + e, Z, C)
    assert iv.average_derivative().value == pytest.approx(2.0, abs=0.15)  # 3 s.e. of halves


@pytest.mark.parametrize("seed", [0, 1])
def test_a_binary_regressor_beside_bent_controls_has_the_slope_of_least_squares(seed):
    rng = np.random.default_rng(seed)
    n = 500
    C, z, e = rng.normal(size=(n, 1)), rng.integers(0, 2, n) - 0.5, rng.normal(size=n)
    x = (1.2 * z + 0.5 * C[:, 0] + 0.7 * e + 0.7 * rng.normal(size=n) > 0).astype(float)
    y = x + np.sin(2 * C[:, 0]) + e
    W, Q = (np.column_stack([np.ones(n), v, C, np.sin(2 * C)]) for v in (x, z))
    line = np.linalg.solve(Q.T @ W, Q.T @ y)
    left = Q * (y - W @ line)[:, None]
    A = np.linalg.inv(Q.T @ W)
    error = (A @ left.T @ left @ A.T)[1, 1] ** 0.5
    told = km.KernelIV().fit(x[:, None], y, z[:, None], C).average_derivative()
    assert abs(told.value - line[1]) < error
    assert 0.8 * error < told.error < 1.8 * error  # the shape of the control has to be learned


def test_categories_of_more_values_than_instruments_keep_the_kernel_of_these():
    """A line in z told one of two shifts: 0.1 (error .01) where the truth is 1."""
    rng = np.random.default_rng(213000)
    z, v = rng.normal(size=(2, 400))
    x = 1.0 * (z + v > -0.5) + (z + v > 0.8)
    y = np.array([0.0, 1.0, 1.5])[x.astype(int)] + 0.7 * v + 0.7 * rng.normal(size=400)
    iv = km.KernelIV({"*": "category"}).fit(x[:, None], y, z[:, None])
    found = iv.contrast([[1.0], [2.0]], [[0.0], [0.0]])
    assert (np.abs(found.value - [1.0, 1.5]) < 2.5 * found.error).all()
    assert iv.kernel_z_ is not None
    two = np.column_stack([x == 1, x == 2]).astype(float)
    with pytest.warns(km.NumericalWarning, match="2 endogenous regressors.* and 1 instrument"):
        km.KernelIV("linear", "linear").fit(two, y, z[:, None])


def test_a_category_of_few_rows_does_not_depend_on_which_level_is_first():
    """Indicators were penalised as they are: 1.57, 1.96 or 1.95, where least squares has 2.61."""
    n, rng = 1000, np.random.default_rng(201003)
    level = np.r_[np.zeros(3, int), 1 + np.arange(n - 3) % 2]
    u, z = rng.standard_normal((2, n))
    x = z + 0.5 * u + 0.3 * rng.standard_normal(n)
    y = x + 3.0 * (level == 0) + 0.5 * u
    W = np.c_[np.ones(n), level == 0, level == 1]
    own, fitted = np.c_[x, W], np.c_[z, W]
    best = np.linalg.solve(fitted.T @ own, fitted.T @ y)[2]
    found = []
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        codes = np.array(order, float)
        forms = {"x0": "linear", "c0": "category"}
        m = km.KernelIV(forms, "linear").fit(x[:, None], y, z[:, None], codes[level][:, None])
        shift = m.predict(np.zeros((3, 1)), codes[:, None])
        found.append(shift[0] - shift[2])
    assert np.ptp(found) < 0.1
    assert min(found) > 0.9 * best


def test_nothing_depends_on_which_level_is_first():
    """Curves differed by .97, plain ridge by .27: the rare level was the one that others leave."""
    n, rng = 200, np.random.default_rng(380000)
    level = rng.choice(3, n, p=[0.05, 0.35, 0.6])
    z, u, e = rng.standard_normal((3, n))
    x = z + 0.5 * u + 0.3 * level
    y = np.sin(x) + 3.0 * (level == 0) + 0.1 * u + 0.6 * e
    found = []
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        c = np.array(order, float)[level]
        forms, regs = {"x0": "gaussian", "c0": "category"}, {"reg_stage1": 0.01, "reg_stage2": 0.01}
        m = km.KernelIV(forms, tune_lengthscale=False, trend=0, **regs)
        m.fit(x[:, None], y, z[:, None], c[:, None])
        points = np.column_stack([x, c])
        ridge = m.basis_x_.transform(points) @ ridge_coefficients(m.basis_x_, points, y)
        found.append([m.predict(points), ridge, np.full(n, m.endogeneity_test().p_value)])
    curve, ridge, p = np.ptp(found, axis=0).max(axis=1)
    assert curve < 1e-3
    assert ridge < 5e-3  # its λ is searched
    assert 0.01 < found[0][2][0] < 0.99
    assert p < 1e-3


def test_plain_ridge_of_a_line_beside_a_rare_level_is_least_squares():
    n, rng = 1000, np.random.default_rng(380001)
    level = np.r_[np.zeros(3), 1 + np.arange(n - 3) % 2]
    z, u, e = rng.standard_normal((3, n))
    x = z + u
    y = x + 3.0 * (level == 0) + u + 0.3 * e
    forms, points = {"x0": "linear", "c0": "category"}, np.column_stack([x, level])
    m = km.KernelIV(forms, "linear").fit(x[:, None], y, z[:, None], level[:, None])
    ridge = m.basis_x_.transform(points) @ ridge_coefficients(m.basis_x_, points, y)
    dummies = np.column_stack([x, level == 0, level == 1, level == 2])
    best = dummies @ np.linalg.lstsq(dummies, y, rcond=None)[0]
    assert_allclose(ridge, best, atol=0.2)  # of a shift of 3; by 1/n it was 1.1 off


def test_a_column_plays_one_part():
    """With z among the controls nothing moved x beside these: slopes of 1.7 for 2, surely."""
    rng = np.random.default_rng(0)
    z, c, v = rng.standard_normal((3, 60))
    x, y = z + c + v, z + v
    for X, Z, C, told in (
        (x, z, z, r"columns \['z0'\] of Z are columns of C, each; an instrument is needed"),
        (x, z, x, "column 'x0' of X is column 'c0' of C; a regressor is either"),
    ):
        with pytest.raises(ValueError, match=told):
            km.KernelIV().fit(X[:, None], y, Z[:, None], C[:, None])
    km.KernelIV().fit(x[:, None], y, np.c_[z, c], c[:, None])

"""Bands, slopes, contrasts and tests of a fitted KernelIV."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import f, f_oneway, norm

import kernelmean as km
from kernelmean.instruments.basis import Basis, Polynomial
from kernelmean.instruments.inference import endogeneity, robust_f
from kernelmean.instruments.second_stage import SecondStage

GRID = np.linspace(-1.5, 1.5, 7)[:, None]


def market(n=400, seed=40, *, strength=1.0, moves=1.0, slope=-2.0):
    """y = slope·p + strength·e, p = moves·z + e + 0.3u."""
    z, e, u = np.random.default_rng(seed).standard_normal((3, n))
    p = moves * z + e + 0.3 * u
    return p[:, None], slope * p + strength * e, z[:, None]


def with_exogenous(n=400, seed=40):
    z, e, u, c = np.random.default_rng(seed).standard_normal((4, n))
    p = z + 0.5 * c + e + 0.3 * u
    return p[:, None], np.sin(p) + c**2 + e, z[:, None], c[:, None]


@pytest.fixture(scope="module")
def fitted():
    X, y, Z, C = with_exogenous()
    return km.KernelIV(tune_lengthscale=False).fit(X, y, Z, C)


class TestSlopes:
    def test_derivatives_are_those_of_predictions(self, fitted):
        points, step = np.hstack([GRID, GRID[::-1]]), 1e-5
        found = fitted.derivative(points)
        for column in range(2):
            move = step * np.eye(2)[column]
            change = fitted.predict(points + move) - fitted.predict(points - move)
            np.testing.assert_allclose(found[:, column], change / (2 * step), rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(
                found[:, column], fitted.derivative(points, column=column)
            )

    def test_one_regressor_gives_a_vector(self):
        X, y, Z = market()
        assert km.KernelIV(tune_lengthscale=False).fit(X, y, Z).derivative(GRID).shape == (7,)

    def test_the_average_is_over_the_rows_asked_for(self, fitted):
        points = np.hstack([GRID, GRID])
        average = fitted.average_derivative(points, column=1)
        assert average.value == pytest.approx(fitted.derivative(points, column=1).mean())

    def test_the_average_is_over_the_training_rows_by_default(self, fitted):
        X, _, _, C = with_exogenous()
        slopes = fitted.derivative(X, C, column=0)
        assert fitted.average_derivative().value == pytest.approx(slopes.mean())

    def test_a_sample_of_slopes_adds_its_variance(self, fitted):
        X, _, _, C = with_exogenous()
        rows = fitted.basis_x_.derivative(np.hstack([X, C]), 0)
        mean = rows.mean(0)
        more = (rows @ fitted.coef_).var() / len(X)
        expected = mean @ fitted.covariance_ @ mean + more
        given = fitted.average_derivative(np.hstack([X, C]))
        assert given.error == pytest.approx(expected**0.5)
        expected = mean @ fitted._fit.mean @ mean + more  # the bias of h is averaged, too
        told = fitted.average_derivative()
        assert told.error == pytest.approx(expected**0.5)
        assert told.error < given.error
        assert told.value == pytest.approx(given.value)

    def test_about_a_line_it_is_that_of_least_squares(self):
        rng = np.random.default_rng(3)
        Z, e = rng.normal(size=(400, 1)), rng.normal(size=400)
        X = Z + 0.5 * e[:, None] + 0.5 * rng.normal(size=(400, 1))
        iv = km.KernelIV().fit(X, 2 * X[:, 0] + e, Z)
        lift, off = Z - Z.mean(), e - e.mean()
        plain = np.sqrt(np.sum((lift[:, 0] * off) ** 2)) / abs(lift[:, 0] @ X[:, 0])
        assert plain < iv.average_derivative().error < 1.4 * plain

    def test_of_two_values_a_contrast_is_a_slope(self):
        rng = np.random.default_rng(5)
        Z, e, C = rng.integers(0, 2, (300, 1)), rng.normal(size=300), rng.normal(size=(300, 1))
        X = (1.2 * Z - 0.6 + 0.6 * e[:, None] + rng.normal(size=(300, 1)) > 0).astype(float)
        iv = km.KernelIV().fit(X, X[:, 0] + C[:, 0] + e, Z.astype(float), C)
        one = iv.contrast(np.ones((1, 1)), np.zeros((1, 1)), C[:1])
        assert one.value[0] == pytest.approx(iv.average_derivative().value)
        assert one.error[0] == pytest.approx(iv.average_derivative().error, rel=1e-6)

    @pytest.mark.parametrize(
        ("values", "at", "below", "above"),
        [
            ([0, 1], [-1, 0, 0.5, 1, 2], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]),
            ([0, 1, 4], [-1, 0, 1, 2, 4, 5], [0, 0, 0, 1, 1, 1], [1, 1, 4, 4, 4, 4]),
        ],
    )
    def test_few_values_tell_slopes_between_neighbours(self, values, at, below, above):
        rng = np.random.default_rng(6)
        Z, e, C = rng.normal(size=(300, 1)), rng.normal(size=300), rng.normal(size=(300, 1))
        order = np.searchsorted([-0.5, 0.5], Z[:, 0] + e, "left") % len(values)
        x = np.array(values, float)[order]
        iv = km.KernelIV(km.Laplace(0.5)).fit(x[:, None], np.sin(3 * x) * C[:, 0] + e, Z, C)
        below, above = np.array(below, float), np.array(above, float)
        c = np.linspace(-1, 1, len(at))
        one, zero = (iv.predict(np.column_stack([end, c])) for end in (above, below))
        found = iv.derivative(np.column_stack([at, c]), column=0)
        assert_allclose(found, (one - zero) / (above - below), rtol=1e-9, atol=1e-12)

    def test_a_kernel_with_a_kink_has_none(self):
        X, y, Z = market()
        iv = km.KernelIV(kernel_x=km.Laplace(1.0)).fit(X, y, Z)
        with pytest.raises(ValueError, match="Laplace"):
            iv.derivative(GRID)


class TestContrasts:
    def test_values_are_differences(self, fitted):
        one, zero = np.hstack([GRID + 1, GRID]), np.hstack([GRID, GRID])
        contrast = fitted.contrast(one, zero)
        np.testing.assert_allclose(contrast.value, fitted.predict(one) - fitted.predict(zero))

    def test_errors_know_that_both_come_from_one_fit(self, fitted):
        points = np.hstack([GRID, GRID])
        np.testing.assert_allclose(fitted.contrast(points, points).error, 0.0, atol=1e-12)

    def test_limits_and_p_values_are_normal(self, fitted):
        one, zero = np.hstack([GRID + 1, GRID]), np.hstack([GRID, GRID])
        c = fitted.contrast(one, zero, level=0.8)
        np.testing.assert_allclose(c.high - c.value, norm.ppf(0.9) * c.error)
        np.testing.assert_allclose(c.p_value, 2 * norm.sf(np.abs(c.value / c.error)))


def three_values(n, seed):
    """Steps of 1 and .5 between three values, and the same instrument for both."""
    rng = np.random.default_rng(seed)
    z, u, e, v = rng.standard_normal((4, n))
    x = np.digitize(1.2 * z + 0.7 * u + 0.7 * v, [-0.7, 0.7])
    return x[:, None] * 1.0, np.array([0.0, 1.0, 1.5])[x] + 0.8 * u + 0.5 * e, z[:, None]


STEPS = np.array([[1.0], [2.0], [2.0]]), np.array([[0.0], [1.0], [0.0]])


class TestThreeValues:
    def test_contrasts_are_no_surer_than_those_of_categories(self):
        for seed in range(380990, 380994):
            data = three_values(400, seed)
            line, shifts = (km.KernelIV(k).fit(*data) for k in ("gaussian", {"x0": "category"}))
            ours, theirs = (m.contrast(*STEPS).error for m in (line, shifts))
            assert (ours > 0.93 * theirs).all()  # stage 1 is another by what it was searched for
            slopes = line.derivative_interval(np.array([[0.0], [2.0]]), simultaneous=False)
            assert_allclose(slopes.upper - slopes.lower, 2 * norm.ppf(0.975) * ours[:2], rtol=1e-6)

    @pytest.mark.slow
    def test_limits_hold(self):
        """They held in 77 to 87% of draws of the first two: a line stood, or half of the bend."""
        held = []
        for seed in range(380994, 381000):
            for part in range(6):
                found = km.KernelIV().fit(*three_values(400, [seed, part])).contrast(*STEPS)
                held.append((found.low <= [1, 0.5, 1.5]) & (found.high >= [1, 0.5, 1.5]))
        assert np.mean(held, axis=0).min() >= 0.92

    def test_columns_asked_to_be_lines_are_lines(self):
        data = three_values(400, 380990)
        line = km.KernelIV("linear", "linear").fit(*data).contrast(*STEPS)
        assert line.error[2] == pytest.approx(2 * line.error[0])


class TestBands:
    def test_pointwise_limits_are_those_of_the_covariance(self, fitted):
        points = np.hstack([GRID, GRID])
        rows = fitted.basis_x_.transform(points)
        error = np.sqrt(np.einsum("ij,jk,ik->i", rows, fitted.covariance_, rows))
        limits = fitted.predict_interval(points, level=0.9, simultaneous=False)
        np.testing.assert_allclose(np.mean(limits, axis=0), fitted.predict(points))
        np.testing.assert_allclose(
            limits.upper - limits.lower, 2 * norm.ppf(0.95) * error, rtol=1e-6
        )

    def test_the_factor_of_a_band_is_a_quantile_of_the_largest_deviation(self, fitted):
        """Against draws of the coefficients with another generator."""
        points = np.hstack([GRID, GRID[::-1]])
        rows = fitted.basis_x_.transform(points)
        draws = np.random.default_rng(41).multivariate_normal(
            np.zeros(len(fitted.coef_)), fitted.covariance_, size=20_000, method="eigh"
        )
        error = np.sqrt(np.einsum("ij,jk,ik->i", rows, fitted.covariance_, rows))
        expected = np.quantile(np.abs(draws @ rows.T / error).max(1), 0.95)
        lower, upper = fitted.predict_interval(points)
        factor = (upper - lower) / (2 * error)
        np.testing.assert_allclose(factor, expected, rtol=0.03)

    def test_one_point_has_the_pointwise_limits(self, fitted):
        point = np.zeros((1, 2))
        np.testing.assert_allclose(
            fitted.predict_interval(point),
            fitted.predict_interval(point, simultaneous=False),
            rtol=0.04,
        )

    def test_bias_spread_is_that_of_drawn_coefficients(self):
        """−ξA⁻¹b with b ~ N(0, τ²I) in the penalised coordinates, τ² = 2‖b̂‖²/df."""
        rng, reg = np.random.default_rng(40), 0.1
        rows = rng.standard_normal((50, 5))
        A, target = rows.T @ rows / 50, rng.standard_normal(5)
        stage = SecondStage(A, target, 2, 50)
        coef = stage.coefficients(reg)
        penalty = np.diag([0, 1 / 50, reg, reg, reg])
        inverse = np.linalg.inv(A + penalty)
        hat = np.linalg.eigvalsh(
            A[2:, 2:] - A[2:, :2] @ np.linalg.inv(A[:2, :2] + penalty[:2, :2]) @ A[:2, 2:]
        )
        spread = 2 * (coef[2:] @ coef[2:]) / max(np.sum(hat / (hat + reg)), 1)
        expected = spread * reg**2 * inverse[:, 2:] @ inverse[2:, :]
        np.testing.assert_allclose(stage.bias_spread(reg, coef), expected, rtol=1e-8)

    @pytest.mark.slow
    def test_simultaneous_bands_of_a_line_cover(self):
        """40 draws: a share below 80% has probability 1e-4 if the band covers 95%."""
        covered = []
        for seed in range(40, 80):
            X, y, Z = market(seed=seed)
            iv = km.KernelIV(tune_lengthscale=False).fit(X, y, Z)
            low, high = iv.predict_interval(GRID)
            covered.append(((low <= -2 * GRID[:, 0]) & (-2 * GRID[:, 0] <= high)).all())
        assert np.mean(covered) >= 0.8


class TestWeakInstruments:
    @pytest.mark.slow
    def test_it_fires_where_the_instrument_does_nothing(self):
        for seed in range(40, 50):
            X, y, Z = market(seed=seed, moves=0.0)
            strength = km.KernelIV(tune_lengthscale=False).fit(X, y, Z).first_stage()
            assert strength.weak, strength

    @pytest.mark.slow
    def test_it_is_silent_where_it_does_much(self):
        for seed in range(40, 50):
            X, y, Z = market(seed=seed)
            assert not km.KernelIV(tune_lengthscale=False).fit(X, y, Z).first_stage().weak

    @pytest.mark.slow
    def test_weak_instruments_are_why(self):
        """As F falls below ten, the estimate leans towards regression and spreads."""
        errors = {}
        for moves in (0.05, 1.0):
            fits = [
                km.KernelIV(tune_lengthscale=False).fit(*market(seed=s, moves=moves))
                for s in range(40, 50)
            ]
            slopes = np.array([iv.average_derivative().value for iv in fits])
            errors[moves] = (
                np.median(np.abs(slopes + 2)),
                np.median([iv.first_stage().f[0] for iv in fits]),
            )
        assert errors[0.05][1] < 10 < errors[1.0][1]
        assert errors[0.05][0] > 5 * errors[1.0][0]

    def test_a_discrete_instrument_has_the_f_of_an_analysis_of_variance(self):
        rng = np.random.default_rng(40)
        z = rng.integers(0, 3, 300).astype(float)
        p = z**2 + rng.standard_normal(300)
        iv = km.KernelIV("gaussian", km.Delta(), reg_stage1=1e-10, trend=0).fit(
            p[:, None], p + rng.standard_normal(300), z[:, None]
        )
        expected = f_oneway(*(p[z == k] for k in range(3))).statistic
        assert iv.first_stage().f[0] == pytest.approx(expected, rel=1e-3)

    @pytest.mark.parametrize("split", ["loo", 0.5])
    def test_that_of_a_line_is_the_robust_one_of_linearmodels(self, split):
        IV2SLS = pytest.importorskip("linearmodels.iv").IV2SLS
        rng = np.random.default_rng(1)
        Z, C, e = rng.normal(size=(300, 2)), rng.normal(size=(300, 1)), rng.normal(size=300)
        x = 0.2 * Z[:, 0] + C[:, 0] + (1 + abs(Z[:, 1])) * e
        y = x + e + rng.normal(size=300)
        theirs = IV2SLS(y, np.column_stack([np.ones(300), C]), x, Z).fit(cov_type="robust")
        wald = theirs.first_stage.diagnostics["f.stat"].iloc[0]
        ours = km.KernelIV(split=split).fit(x[:, None], y, Z, C).first_stage()
        assert ours.linear[0] == pytest.approx(wald / 2)
        assert f"of a line {wald / 2:.1f}" in str(ours)

    def test_a_line_is_counted_by_rank(self):
        rng = np.random.default_rng(1)
        Z, C, x = rng.normal(size=(80, 2)), rng.normal(size=(80, 1)), rng.normal(size=80)
        base = np.column_stack([np.ones(80), C])
        x += Z[:, 0]
        plain = robust_f(base, Z, x)
        twice = np.column_stack([Z, 1e6 + Z[:, :1], np.zeros(80), 2 * C])
        assert robust_f(base, twice, x) == pytest.approx(plain, rel=1e-6)
        assert robust_f(base, C, x) == 0.0  # the instrument repeats an exogenous column
        assert robust_f(base[:4], Z[:4], x[:4]) == 0.0  # as many rows as coefficients
        assert robust_f(base, Z, Z @ [1.0, 2.0]) > 1e6

    @pytest.mark.slow
    def test_a_line_that_is_strong_is_not_called_weak(self):
        """Curves that the instruments do not draw take degrees of freedom."""
        rng = np.random.default_rng(45)
        Z, e = rng.uniform(size=(120, 6)), rng.normal(size=120)
        x = 6 * Z[:, 0] + 2 * e
        iv = km.KernelIV(split=0.5, reg_stage1=1e-4).fit(x[:, None], x + e, Z)
        strength = iv.first_stage()
        assert strength.f[0] < 10 < strength.linear[0]
        assert not strength.weak
        assert replace(strength, linear=None).weak  # as of a file from before

    def test_what_c_explains_does_not_count(self):
        """The instrument is C with noise: strong by itself, nothing beyond C."""
        rng = np.random.default_rng(40)
        c, u, e = rng.standard_normal((3, 400))
        p, z = c + e, c + 0.3 * u
        alone = km.KernelIV(tune_lengthscale=False).fit(p[:, None], p + e, z[:, None])
        beyond = km.KernelIV(tune_lengthscale=False).fit(p[:, None], p + e, z[:, None], c[:, None])
        assert not alone.first_stage().weak
        assert beyond.first_stage().weak


class TestEndogeneity:
    @pytest.mark.slow
    def test_it_is_found(self):
        p = [
            km.KernelIV(tune_lengthscale=False).fit(*market(seed=s)).endogeneity_test().p_value
            for s in range(40, 50)
        ]
        assert max(p) < 0.01

    @pytest.mark.slow
    def test_exogenous_regressors_are_let_through(self):
        """60 draws at 5%: more than 9 rejections have probability 6e-4 at the nominal level."""
        rejected = 0
        for seed in range(40, 100):
            z, u, e = np.random.default_rng(seed).standard_normal((3, 200))
            p = (z + u)[:, None]
            iv = km.KernelIV(tune_lengthscale=False).fit(p, np.sin(p[:, 0]) + e, z[:, None])
            rejected += iv.endogeneity_test().p_value < 0.05
        assert rejected <= 9

    def test_the_distance_is_zero_without_residuals(self):
        rng = np.random.default_rng(40)
        X = rng.standard_normal((60, 2))
        basis = Basis(Polynomial.of(X, 1), km.Nystroem().fit(X, km.Linear()))
        Phi = basis.transform(X)
        found = endogeneity(basis, Phi, Phi + 0.1, np.ones(60), 0.1)
        assert found.distance == pytest.approx(0.0, abs=1e-9)


def test_everything_has_one_line_of_words(fitted):
    for found in (
        fitted.average_derivative(),
        fitted.first_stage(),
        fitted.endogeneity_test(),
        fitted.contrast(np.ones((1, 2)), np.zeros((1, 2))),
    ):
        assert 10 < len(str(found)) == len(str(found).splitlines()[0])


def test_bad_levels_are_refused(fitted):
    for level in (0.0, 1.0, "0.9", None, 1j):
        with pytest.raises(ValueError, match="level"):
            fitted.predict_interval(np.zeros((1, 2)), level=level)


@pytest.fixture(scope="module")
def tables():
    pd = pytest.importorskip("pandas")
    X, y, Z = market(60)
    C = np.arange(60.0) % 7
    days = pd.date_range("2020-01-01", periods=60)
    tables = (
        pd.DataFrame(X, columns=["price"], index=days),
        pd.Series(y, name="sold", index=days),
        pd.DataFrame(Z, index=days).add_prefix("wave"),
        pd.DataFrame({"weekday": C}, index=days),
    )
    return km.KernelIV(tune_lengthscale=False).fit(*tables), *tables


class TestNames:
    """Names of columns, and the index of rows, go in and come out."""

    def test_columns_are_asked_for_by_name(self, tables):
        iv, X, _, _, C = tables
        for number, name in enumerate(["price", "weekday"]):
            by_name, by_number = (iv.average_derivative(column=column) for column in (name, number))
            assert by_name == by_number
            assert by_name.name == f"average derivative in {name}"
            assert_allclose(iv.derivative(X, C, column=name), iv.derivative(X, C, column=number))
            assert_allclose(
                iv.derivative_interval(X, C, column=name),
                iv.derivative_interval(X, C, column=number),
            )

    @pytest.mark.parametrize("column", ["day", 2, -1, 0.5, True])
    def test_a_column_that_is_not_there_is_refused(self, tables, column):
        with pytest.raises(ValueError, match=r"column is .*0 to 1, or one of \['price', 'weekday'"):
            tables[0].average_derivative(column=column)

    def test_frames_have_the_index_of_the_rows_and_the_name_of_the_outcome(self, tables):
        iv, X, _, _, C = tables
        table = iv.to_frame(X, C, level=0.8)
        assert list(table.columns) == ["sold", "sold_lower", "sold_upper", "extrapolated"]
        assert table.index.equals(X.index)
        lower, upper = iv.predict_interval(X, C, level=0.8)
        numbers = table.drop(columns="extrapolated").to_numpy()
        assert_allclose(numbers, np.column_stack([iv.predict(X, C), lower, upper]))

    def test_rows_outside_the_data_are_flagged_and_said(self, tables):
        iv, X, _, _, C = tables
        assert not iv.to_frame(X, C)["extrapolated"].any()
        old = copy(iv)._adopt(replace(iv._fit, support=None))  # as of a file from before
        ends = X.iloc[[0, 0, 0]].copy()
        ends["price"] = [X["price"].max(), X["price"].max() + 1e-3, 10 * X["price"].max()]
        for model in (iv, old):
            with pytest.warns(km.NumericalWarning, match="X has 1 row.*row 2 first"):
                table = model.to_frame(ends, C.iloc[[0, 0, 0]])
            assert list(table["extrapolated"]) == [False, True, True]
            assert np.isfinite(table.drop(columns="extrapolated").to_numpy()).all()
            for ask in (model.predict, model.predict_interval):
                with pytest.warns(km.NumericalWarning, match="outside the training data"):
                    ask(ends, C.iloc[[0, 0, 0]])

    def test_a_line_that_was_asked_for_goes_on(self, tables):
        _, X, y, Z, C = tables
        line = km.KernelIV({"*": "linear"}).fit(X, y, Z, C)
        assert not line.to_frame(100 * X, C)["extrapolated"].any()

    def test_roles_are_told_once(self, tables):
        roles = tables[0].roles_
        assert (roles.y, roles.regressors) == ("sold", ["price", "weekday"])
        assert roles.instruments[-1] == "weekday"
        data = km.datasets.make_iv_demand(30, random_state=40)
        roles = km.KernelIV(split=0.5).fit(data.X, data.y, data.Z, data.C).roles_
        assert (roles.regressors, roles.instruments) == (["x0", "c0", "c1"], ["z0", "c0", "c1"])


# ------------------------------------------------------------------------- weak instruments
def line(strength: float, seed: int, n: int = 200):
    rng = np.random.default_rng(seed)
    Z, c, e = rng.normal(size=(n, 2)), rng.normal(size=(n, 1)), rng.normal(size=n)
    x = strength * Z[:, 0] + 0.5 * c[:, 0] + e + rng.normal(size=n)
    return x[:, None], x + c[:, 0] + 2 * e, Z, c


@pytest.mark.slow
@pytest.mark.parametrize(("strength", "shape"), [(1.0, 1), (0.02, 0), (0.12, 0)])
def test_anderson_rubin_is_the_set_of_f_tests_that_do_not_refuse(strength, shape):
    X, y, Z, C = line(strength, 80)
    iv = km.KernelIV({"*": "linear"}).fit(X, y, Z, C)
    found = iv.anderson_rubin(level=0.9)
    grid = np.linspace(-30, 30, 2401) + 1e-7
    inside = np.zeros(len(grid), dtype=bool)
    ones = np.column_stack([np.ones(len(y)), C])
    for j, theta in enumerate(grid):
        u = y - theta * X[:, 0]
        short, long = (
            np.sum((u - A @ np.linalg.lstsq(A, u, rcond=None)[0]) ** 2)
            for A in (ones, np.column_stack([ones, Z]))
        )
        F = (short - long) / 2 / (long / (len(y) - 4))
        inside[j] = f.sf(F, 2, len(y) - 4) >= 0.1
    told = np.zeros(len(grid), dtype=bool)
    for low, high in found.intervals:
        told |= (grid >= low) & (grid <= high)
    assert_array_equal(told, inside)
    assert np.isfinite(found.intervals).all() == bool(shape)
    assert str(found).startswith("90% [")


@pytest.mark.slow
def test_anderson_rubin_holds_its_level_however_weak():
    held = 0
    for seed in range(200):
        X, y, Z, C = line(0.05, 1000 + seed, 100)
        found = km.KernelIV({"*": "linear"}).fit(X, y, Z, C).anderson_rubin(level=0.8)
        held += any(low <= 1.0 <= high for low, high in found.intervals)
    assert 0.8 - 0.085 <= held / 200 <= 0.8 + 0.085  # three standard errors


def test_anderson_rubin_counts_what_instruments_and_controls_add():
    X, y, Z, C = line(0.3, 81, 60)
    Z = Z[:, :1]
    plain = km.KernelIV({"*": "linear"}).fit(X, y, Z, C).anderson_rubin().intervals
    for more, controls in [(1e9 * Z + 1, C), (C, C), (Z, np.hstack([C, 2 * C]))]:
        twice = km.KernelIV({"*": "linear"}).fit(X, y, np.hstack([Z, more]), controls)
        assert_allclose(twice.anderson_rubin().intervals, plain, rtol=1e-6)
    few = km.KernelIV({"*": "linear"}).fit(
        X[:5], y[:5], Z[:5], np.random.default_rng(0).normal(size=(5, 3))
    )
    assert few.anderson_rubin().intervals == ((-np.inf, np.inf),)  # no row is left to tell by


@pytest.mark.parametrize("slope", [2.0, 0.3, 0.0])
def test_anderson_rubin_of_a_line_without_noise_is_its_slope(slope):
    """Rounding decided whether every line was refused."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(40, 2))
        X = Z[:, :1] + rng.normal(size=(40, 1))
        iv = km.KernelIV({"*": "linear"}).fit(X, slope * X[:, 0] + 1.0, Z)
        assert_allclose(iv.anderson_rubin().intervals, [[slope, slope]], atol=1e-6)


def test_anderson_rubin_is_for_one_regressor():
    X, y, Z, _ = line(1.0, 80)
    iv = km.KernelIV({"*": "linear"}).fit(np.hstack([X, X**2]), y, np.hstack([Z, Z**2]))
    with pytest.raises(ValueError, match="one endogenous regressor; here are 2"):
        iv.anderson_rubin()
    half = np.arange(len(y)) % 2 == 0
    samples = np.where(half[:, None], np.nan, X), np.where(half, y, np.nan), Z
    with pytest.raises(ValueError, match="rows with X and y; in these samples none has both"):
        km.KernelIV({"*": "linear"}, split="samples").fit(*samples).anderson_rubin()


def test_params_and_conf_int():
    X, y, Z, C = line(1.0, 80)
    iv = km.KernelIV({"*": "linear"}).fit(X, y, Z, C)
    limits = iv.conf_int(0.9)
    assert list(iv.params.index) == list(limits.index) == ["x0", "c0"]
    for j, name in enumerate(limits.index):
        one = iv.average_derivative(column=j, level=0.9)
        assert_allclose([iv.params[name], *limits.loc[name]], [one.value, one.low, one.high])


def test_an_instrument_of_three_rows_is_told():
    rng = np.random.default_rng(0)
    (z, e), few = rng.normal(size=(2, 200)), np.zeros(200)
    few[:3] = 1.0
    x = 0.08 * z + e + 4.0 * few
    found = km.KernelIV().fit(x[:, None], x + e, np.column_stack([z, few]))
    assert found.first_stage().f[0] > 10
    assert 2.9 < found.first_stage().rows[0] < 5
    assert "carried by few rows, about" in str(found.first_stage())
    assert "carried by few rows, about" in str(found.summary())
    x = 2.0 * z + e
    strong = km.KernelIV().fit(x[:, None], x + e, z[:, None]).first_stage()
    assert strong.rows[0] == pytest.approx((z**2).sum() ** 2 / (z**4).sum(), rel=0.1)
    assert "carried" not in str(strong)


@pytest.mark.parametrize("seed", [116, 117])
def test_a_slope_along_two_values_is_their_difference(seed):
    """At 0 and 1 themselves a kernel's slopes are anything: 0.05 and an error of 6 were found."""
    rng = np.random.default_rng(seed)
    z, v, c = (rng.random(400) < 0.5) * 1.0, rng.normal(size=400), rng.normal(size=(400, 2))
    x = (z - 0.5 + 0.5 * c[:, 0] + v > 0) * 1.0
    y = x + c[:, 0] + 0.6 * v + 0.8 * rng.normal(size=400)
    iv = km.KernelIV().fit(x[:, None], y, z, c)
    one, zero = np.ones((400, 1)), np.zeros((400, 1))
    rise = iv.contrast(one, zero, c).value
    assert_allclose(iv.derivative(one, c, column=0), rise, rtol=1e-9, atol=1e-9)
    columns, given = (np.column_stack([np.ones(400), first, c]) for first in (x, z))
    plain = np.linalg.solve(given.T @ columns, given.T)  # two-stage least squares
    error = np.sqrt((plain[1] ** 2 * (y - columns @ (plain @ y)) ** 2).sum())
    found = iv.average_derivative()
    assert found.value == pytest.approx(rise.mean(), rel=1e-9)
    assert abs(found.value - plain[1] @ y) < error
    assert found.error < 2 * error


def test_a_judge_who_treats_all_is_no_proof_of_strong_instruments():
    """Its rows show no noise at all: the F of a line was the rounding, of either sign."""
    rng = np.random.default_rng(591200)
    judge, (u, v) = rng.integers(0, 20, 200), rng.normal(size=(2, 200))
    x = (np.linspace(-1.2, 1.2, 20)[judge] + 0.6 * u + 0.8 * v > 0).astype(float)
    x[judge == 19] = 1.0
    Z = (judge[:, None] == np.arange(1, 20)).astype(float)
    strength = km.KernelIV().fit(x[:, None], 0.5 * x + u, Z).first_stage()
    assert 0 < strength.linear[0] < 3 * strength.f[0]


def test_the_band_of_a_treatment_knows_that_it_cannot_bend():
    """It was four times as wide as limits of the slope, of which h has half at either value."""
    z, v, e = np.random.default_rng(594001).normal(size=(3, 400))
    x = (z + v > 0).astype(float)
    model = km.KernelIV().fit(x[:, None], x + 0.7 * v + 0.5 * e, z[:, None])
    lower, upper = model.predict_interval([[0.0], [1.0]])
    assert (upper - lower).max() < 4 * model.average_derivative().error


@pytest.mark.parametrize("copies", [1, 3])
def test_lines_without_noise_are_theirs_and_copies_share_them(copies):
    """δ was 1/n of the slope, 1.977 for 2 of 200 rows; of copies it has to stay what it is."""
    rng = np.random.default_rng(0)
    z, v = rng.standard_normal((2, 200))
    X = (z + v)[:, None] * np.arange(1, copies + 1)
    m = km.KernelIV().fit(X, 2 * X[:, 0], z[:, None] ** np.arange(1, max(copies, 2) + 1))
    assert_allclose(m.predict(X), 2 * X[:, 0], atol=1e-4)


def test_rows_in_clusters_do_not_refuse_a_line():
    """Tests of lines count rows: a shared shock of a village was ten surprises."""
    rng = np.random.default_rng(0)
    village = np.repeat(np.arange(40), 10)
    shared, storm = rng.normal(size=(2, 40))[:, village]
    x = storm + 0.5 * shared + 0.7 * rng.normal(size=400)
    y = x + shared + 0.5 * rng.normal(size=400)
    rows, told = (
        km.KernelIV().fit(x[:, None], y, storm[:, None], clusters=c) for c in (None, village)
    )
    assert rows.fit_.refused < 1e-5
    assert told.fit_.draft.straight(1)
    assert "refused" not in str(told.summary())

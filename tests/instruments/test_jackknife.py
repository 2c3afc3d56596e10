"""Jackknife kernel IV: leave-one-out in both stages against real refits, other ways of sharing the
rows, the moment test, standard errors, and what it does with little or odd data.
"""

from __future__ import annotations

import re
import warnings
from functools import cache

import iv_oracles as slow
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import kernelmean as km
from kernelmean.core import moments
from kernelmean.instruments import basis, first_stage, groups, second_stage
from kernelmean.instruments.bend import weighted_chi2

KX, KZ = km.Matern(1.5, 0.9), km.Matern(1.5, 1.1)
DEGREES = [None, 0, 1, 2]
REGS = [(1e-2, 1e-2), (1e-4, 1e-3), (1.0, 1e-5)]


def confounded(n: int = 40, seed: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two regressors that share noise with y, and three instruments on scales of their own.

    In the order that a fit puts its rows in, so that its coordinates can be made again.
    """
    rng = np.random.default_rng(seed)
    Z, V = rng.normal(size=(n, 3)) * [1.0, 2.0, 0.5], rng.normal(size=(n, 2))
    X = Z[:, :2] * [1.0, 0.4] + 0.5 * Z[:, 2:] + 0.6 * V
    y = np.sin(X[:, 0]) + X[:, 1] + V.sum(axis=1) + 0.1 * rng.normal(size=n)
    part = groups.Part(3.0 + X, Z, y + 5.0).unordered
    return part.X, part.y, part.Z


def curve(n: int, seed: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One regressor, one instrument."""
    rng = np.random.default_rng(seed)
    Z, V = rng.uniform(-2, 2, size=(n, 1)), rng.normal(size=(n, 1))
    X = Z + 0.5 * V
    return X, np.sin(2 * X[:, 0]) + 0.8 * V[:, 0] + 0.1 * rng.normal(size=n), Z


def market(n: int, seed: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Strong confounding: demand falls by 2 per unit of price, regression says 0.5."""
    rng = np.random.default_rng(seed)
    z, e, u = rng.normal(size=(3, n))
    price = z + e + 0.3 * u
    return price[:, None], -2 * price + 3 * e, z[:, None]


def full_rank(**parameters) -> km.KernelIV:
    return km.KernelIV(KX, KZ, **{"features": km.Exact(), **parameters})


def fitted_group(X, y, Z, degree: int | None) -> groups.Group:
    """All rows, in the coordinates of full rank."""
    powers = 0 if degree is None else degree + 1
    bases = [
        basis.Basis(basis.Polynomial.of(points, powers), km.Exact().fit(points, kernel))
        for points, kernel in ((X, KX), (Z, KZ))
    ]
    return groups.Group(groups.Part(X, Z, y), *bases)


# ---------------------------------------------------------------------- stage 1, by real refits
@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("lam", [1e-2, 1e-5, 1.0])
def test_embeddings_are_those_of_refits_without_the_row(lam, degree):
    X, y, Z = confounded()
    group, oracle = fitted_group(X, y, Z, degree), slow.Dense(KX, KZ, X, y, Z, lam, 1.0, degree)
    stage, reg, loss = first_stage.jackknife_stage([group], lam)
    ((Phi, Theta, _, _),) = group.blocks()
    M, p = stage.rows(Phi, Theta, own=True), oracle.trends
    assert reg == lam
    assert group.basis_x.trends == p
    assert_allclose(M[:, :p], oracle.M[:, :p], atol=1e-8)
    # coordinates differ by a rotation: inner products with the points' do not
    assert_allclose(M[:, p:] @ Phi[:, p:].T, oracle.M[:, p:] @ oracle.Phi[:, p:].T, atol=1e-8)
    assert loss == pytest.approx(oracle.loss1(), rel=1e-8)


@pytest.mark.parametrize("degree", DEGREES)
def test_lambda_minimises_the_loss_of_refits(degree):
    X, y, Z = confounded()
    iv = full_rank(reg_stage2=0.1, trend=degree).fit(X, y, Z)
    at = [
        slow.Dense(KX, KZ, X, y, Z, iv.reg_stage1_ * factor, 0.1, degree).loss1()
        for factor in (0.9, 1.0, 1.1)
    ]
    assert iv.loss_stage1_ == pytest.approx(at[1], rel=1e-8)
    assert at[1] == min(at)


# ---------------------------------------------------------------------- stage 2, by real refits
@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize(("lam", "xi"), REGS)
def test_fit_and_losses_equal_refits(lam, xi, degree):
    X, y, Z = confounded()
    oracle = slow.Dense(KX, KZ, X, y, Z, lam, xi, degree)
    iv = full_rank(reg_stage1=lam, reg_stage2=xi, trend=degree).fit(X, y, Z)
    new = X[::3] + 0.1
    assert_allclose(iv.predict(new), oracle.predict(new), rtol=1e-7, atol=1e-7)
    assert iv.loss_stage1_ == pytest.approx(oracle.loss1(), rel=1e-8)
    assert iv.loss_stage2_ == pytest.approx(oracle.loss2(), rel=1e-8)
    assert iv.coef_.shape == (iv.basis_x_.width,) == (oracle.trends + iv.features_x_.rank_,)
    assert iv.trend_ == degree
    assert (iv.n_stage1_, iv.n_stage2_) == (40, 40)


@pytest.mark.slow
@pytest.mark.parametrize("decimals", [1, 8])
def test_the_order_of_the_rows_does_not_matter(rng, decimals):
    X, y, Z = (np.round(part, decimals) for part in curve(450))
    other = rng.permutation(450)
    a, b = (km.KernelIV().fit(X[i], y[i], Z[i]) for i in (np.arange(450), other))
    assert_allclose(b.predict(X), a.predict(X), rtol=1e-9)
    assert (b.scales_x_, b.scales_z_) == (a.scales_x_, a.scales_z_)


def test_every_error_equals_a_refit():
    """Row by row, with penalties that are unequal: 0, 1/n on a slope, ξ."""
    X, y, Z = confounded()
    group, oracle = fitted_group(X, y, Z, 1), slow.Dense(KX, KZ, X, y, Z, 1e-3, 1e-3, 1)
    group.stage = first_stage.jackknife_stage([group], 1e-3)[0]
    loss = second_stage.Equations([group]).solved(3)[1]
    # a group holds outcomes as they are to be fitted: the caller has taken the mean out
    expected = slow.causal_errors(oracle.Phi, oracle.M, y, 1e-3, 1, 2)
    assert_allclose(loss.errors([1e-3])[1][0], expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("degree", DEGREES)
def test_coefficients_solve_the_penalised_normal_equations(degree):
    X, y, Z = confounded()
    iv = full_rank(reg_stage1=1e-2, reg_stage2=1e-2, trend=degree).fit(X, y, Z)
    group = fitted_group(X, y, Z, degree)
    first = first_stage.jackknife_stage([group], 1e-2)[0]
    ((Phi, Theta, _, _),) = group.blocks()
    M = first.rows(Phi, Theta, own=True)
    middle = slow.middle(y, degree)
    A = slow.left_hand_side(M, 1e-2, degree, 2, Phi)
    textbook = np.linalg.solve(A, M.T @ (y - middle) / 40)
    textbook[0] += middle
    assert_allclose(iv.coef_, textbook, rtol=1e-7, atol=1e-9)


# ------------------------------------------------------------------------------ other splits
def parts_of(X, y, Z, rows, reference, degree) -> tuple:
    """(Φ, Θ, y) of some rows; landmarks and standardisation from the reference rows."""
    phi, theta = slow.roots(KX, X[reference], X[rows])[1], slow.roots(KZ, Z[reference], Z[rows])[1]
    T, U = (slow.polynomial(degree, A[reference], A[rows]) for A in (X, Z))
    return np.hstack([T, phi]), np.hstack([U, theta]), y[rows]


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("folds", [2, 3, 7])
def test_folds_are_embedded_by_the_others(folds, degree):
    X, y, Z = confounded()
    lam, xi, n = 1e-2, 1e-3, 40
    iv = full_rank(reg_stage1=lam, reg_stage2=xi, split=folds, trend=degree).fit(X, y, Z)
    Phi, Theta, _ = parts_of(X, y, Z, np.arange(n), np.arange(n), degree)
    bounds = [round(n * a / folds) for a in range(folds + 1)]
    M, p = np.zeros_like(Phi), 0 if degree is None else 1 + 2 * degree
    for i, j in zip(bounds[:-1], bounds[1:], strict=True):
        rest = np.r_[0:i, j:n]
        M[i:j] = Theta[i:j] @ slow.stage1(Theta[rest], Phi[rest], lam, len(rest))
    middle = slow.middle(y, degree)
    b = slow.stage2(M, y - middle, xi, degree, 2, n, Phi)
    assert_allclose(iv.predict(X), Phi @ b + middle, rtol=1e-7, atol=1e-7)
    off = np.sum((Phi - M)[:, p:] ** 2, axis=1)
    assert iv.loss_stage1_ == pytest.approx(off.mean(), rel=1e-7)
    errors = slow.causal_errors(Phi, M, y - middle, xi, degree, 2)
    assert iv.loss_stage2_ == pytest.approx(np.mean(errors**2), rel=1e-7)
    assert (iv.n_stage1_, iv.n_stage2_) == (n, n)


@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("share", [0.5, 0.3])
def test_a_share_with_a_trend(share, degree):
    X, y, Z = confounded()
    lam, xi, n1 = 1e-2, 1e-3, round(share * 40)
    iv = full_rank(reg_stage1=lam, reg_stage2=xi, split=share, trend=degree).fit(X, y, Z)
    rows = np.arange(40)
    Phi1, Theta1, y1 = parts_of(X, y, Z, rows[:n1], rows[:n1], degree)
    Phi2, Theta2, y2 = parts_of(X, y, Z, rows[n1:], rows[:n1], degree)
    M = Theta2 @ slow.stage1(Theta1, Phi1, lam, n1)
    b = slow.stage2(M, y2 - y2.mean(), xi, degree, 2, 40 - n1)
    assert_allclose(iv.predict(X[n1:]), Phi2 @ b + y2.mean(), rtol=1e-7, atol=1e-7)
    assert iv.loss_stage2_ == pytest.approx(np.mean((y1 - y2.mean() - Phi1 @ b) ** 2), rel=1e-7)
    p = 1 + 2 * degree
    norms = KX.diag(X[n1:]) - 2 * np.sum((Phi2 * M)[:, p:], axis=1) + np.sum(M[:, p:] ** 2, axis=1)
    assert iv.loss_stage1_ == pytest.approx(norms.mean(), rel=1e-7)


@pytest.mark.parametrize("degree", [None, 1])
def test_the_held_out_loss_is_that_of_predictions(degree):
    X, y, Z = confounded()
    group = fitted_group(X, y, Z, degree)
    group.stage = first_stage.jackknife_stage([group], 1e-2)[0]
    second = second_stage.Equations([group]).solved(group.basis_x.trends)[0]
    loss = second_stage.held_out_loss(second, group)
    for xi in (1e-5, 1e-2, 1.0):
        direct = np.mean((y - group.basis_x.transform(X) @ second.coefficients(xi)) ** 2)
        assert loss(xi) == pytest.approx(direct, rel=1e-8)


def test_folds_shuffle_with_a_random_state():
    X, y, Z = curve(60)
    fit = lambda s: full_rank(split=3, random_state=s).fit(X, y, Z).predict(X)  # noqa: E731
    assert_array_equal(fit(1), fit(1))
    assert np.abs(fit(1) - fit(2)).max() > 1e-8
    assert np.abs(fit(1) - fit(None)).max() > 1e-8


# ------------------------------------------------------------------------------- two samples
class TestSamples:
    @staticmethod
    def gaps(n: int = 60) -> tuple:
        """The first third is complete, the second lacks y, the last lacks X."""
        X, y, Z = confounded(n)
        X[2 * n // 3 :], y[n // 3 : 2 * n // 3] = np.nan, np.nan
        return X, y, Z

    @pytest.mark.parametrize("trend", ["auto", None, 0, 1])
    def test_without_gaps_it_is_the_jackknife(self, trend):
        data = confounded()
        a, b = (full_rank(split=s, trend=trend).fit(*data) for s in ("samples", "loo"))
        assert_array_equal(a.predict(data[0]), b.predict(data[0]))
        assert_array_equal(a.covariance_, b.covariance_)
        assert (a.loss_stage2_, a.specification_p_) == (b.loss_stage2_, b.specification_p_)

    @pytest.mark.slow
    @pytest.mark.parametrize("gaps", [0, 50])
    def test_beside_exogenous_columns(self, gaps):
        """Stage 1 was asked for what exogenous columns tell of a stage 2 that knows none."""
        rng = np.random.default_rng(46)
        z, c, u, noise = rng.normal(size=(4, 300))
        x = 3 * z + 1.5 * c + 2 * u + noise
        truth = -x - 2 * np.maximum(x - 2, 0)
        X, y = x.copy(), truth + 2 * u + c + 0.5 * noise
        X[300 - gaps :], y[:gaps] = np.nan, np.nan
        iv = km.KernelIV(split="samples").fit(X[:, None], y, z[:, None], c[:, None])
        known = np.abs(x) < 5
        points = np.column_stack([x, np.zeros(300)])[known]
        error = np.mean((iv.predict(points) - truth[known]) ** 2)
        assert error < 0.02 * truth[known].var()
        if not gaps:
            loo = km.KernelIV().fit(X[:, None], y, z[:, None], c[:, None])
            assert_array_equal(iv.predict(points), loo.predict(points))

    @pytest.mark.parametrize("degree", DEGREES)
    def test_equals_refits(self, degree):
        X, y, Z = self.gaps()
        lam, xi = 1e-2, 1e-3
        iv = full_rank(reg_stage1=lam, reg_stage2=xi, split="samples", trend=degree).fit(X, y, Z)
        first, d = np.arange(40), 2
        Phi, Theta, _ = parts_of(X, y, Z, first, first, degree)
        theta2 = slow.roots(KZ, Z[first], Z[40:])[1]
        Theta2 = np.hstack([slow.polynomial(degree, Z[first], Z[40:]), theta2])
        M1 = slow.left_out_embeddings(Theta, Phi, lam)
        M = np.vstack([M1[:20], Theta2 @ slow.stage1(Theta, Phi, lam, 40)])
        outcome = np.concatenate([y[:20], y[40:]])
        middle = slow.middle(outcome, degree)
        outcome = outcome - middle
        b = slow.stage2(M, outcome, xi, degree, d, 40, Phi[:20])
        assert_allclose(iv.predict(X[first]), Phi @ b + middle, rtol=1e-7, atol=1e-7)
        p = 0 if degree is None else 1 + d * degree
        loss1 = np.mean(np.sum((Phi - M1)[:, p:] ** 2, axis=1))
        assert iv.loss_stage1_ == pytest.approx(loss1, rel=1e-7)
        every = np.vstack([Phi[:20], M[20:]])
        errors = slow.causal_errors(every, M, outcome, xi, degree, d, Phi[:20])
        assert iv.loss_stage2_ == pytest.approx(np.mean(errors[:20] ** 2), rel=1e-7)
        assert (iv.n_stage1_, iv.n_stage2_) == (40, 40)

    def test_order_of_the_rows_does_not_matter(self):
        X, y, Z = self.gaps()
        order = np.random.default_rng(40).permutation(60)
        a = full_rank(split="samples", trend=1).fit(X, y, Z)
        b = full_rank(split="samples", trend=1).fit(X[order], y[order], Z[order])
        assert_allclose(a.predict(X[:40]), b.predict(X[:40]), rtol=1e-5, atol=1e-6)

    def test_rows_without_an_outcome_have_no_part_in_stage_2(self):
        """Given stage 1, coefficients solve the normal equations of the rows with outcomes."""
        X, y, Z = self.gaps()
        regs = {"reg_stage1": 1e-2, "reg_stage2": 1e-2, "trend": 1}
        iv, keep = full_rank(split="samples", **regs).fit(X, y, Z), np.r_[0:20, 40:60]
        assert iv.n_stage2_ == len(keep)
        group = fitted_group(X[:40], y[:40], Z[:40], 1)
        first = first_stage.jackknife_stage([group], 1e-2)[0]
        Theta, Phi = group.basis_z.transform(Z), group.basis_x.transform(X[:40])
        M = np.vstack([first.rows(Phi, Theta[:40], True)[:20], first.rows(None, Theta[40:], False)])
        middle = y[keep].mean()
        b = slow.stage2(M, y[keep] - middle, 1e-2, 1, 2, 40, Phi[:20])
        assert_allclose(iv.predict(X[:40]), Phi @ b + middle, rtol=1e-6, atol=1e-6)

    def test_rows_without_regressors_have_no_part_in_stage_1(self):
        X, y, Z = self.gaps()
        fit = lambda rows: full_rank(split="samples", trend=1).fit(X[rows], y[rows], Z[rows])  # noqa: E731
        a, b = fit(np.arange(60)), fit(np.arange(40))
        assert a.reg_stage1_ == pytest.approx(b.reg_stage1_, rel=1e-9)
        assert a.loss_stage1_ == pytest.approx(b.loss_stage1_, rel=1e-9)
        assert a.n_stage1_ == b.n_stage1_ == 40
        assert np.abs(a.predict(X[:40]) - b.predict(X[:40])).max() > 1e-3

    def test_one_missing_regressor_of_two_is_a_missing_row(self):
        X, y, Z = self.gaps()
        other = X.copy()
        other[40:50, 0] = 7.0
        a, b = (full_rank(split="samples").fit(part, y, Z) for part in (X, other))
        assert_array_equal(a.predict(X[:40]), b.predict(X[:40]))

    @pytest.mark.parametrize("trend", ["auto", None, 0, 1])
    def test_two_disjoint_samples(self, trend):
        """No row is complete: X is known in one half, y in the other."""
        X, y, Z = curve(600)
        truth = np.sin(2 * X[100:300, 0])
        X[300:], y[:300] = np.nan, np.nan
        iv = km.KernelIV(split="samples", trend=trend).fit(X, y, Z)
        assert (iv.n_stage1_, iv.n_stage2_) == (300, 300)
        assert np.isfinite(iv.loss_stage2_)
        assert np.isnan(iv.specification_p_)
        assert np.mean((iv.predict(X[100:300]) - truth) ** 2) < 0.35 * truth.var()
        assert np.linalg.eigvalsh(iv.covariance_)[0] > -1e-9

    def test_what_rows_lack_is_not_read_where_none_is_complete(self):
        """The row that stands in for regressors is another one then."""
        X, y, Z = curve(60)
        X[30:], y[:30] = np.nan, np.nan
        a = km.KernelIV(split="samples").fit(X, y, Z)
        b = km.KernelIV(split="samples").fit(X[::-1], y[::-1], Z[::-1])
        assert_allclose(a.predict(X[:30]), b.predict(X[:30]), atol=1e-9)
        assert_allclose(a.predict_interval(X[:30]), b.predict_interval(X[:30]), rtol=1e-6)

    def test_by_name_the_lengthscales_are_searched_on_complete_rows(self):
        X, y, Z = curve(300)
        X[200:], y[100:200] = np.nan, np.nan
        a = km.KernelIV(split="samples", trend=1).fit(X, y, Z)
        assert (a.scales_x_ != 1).any()
        assert np.isfinite(a.predict(X[:200])).all()

    @pytest.mark.parametrize("split", ["loo", 0.5, 3])
    @pytest.mark.parametrize("name", ["X", "y"])
    def test_missing_numbers_are_refused_otherwise(self, split, name):
        data = dict(zip("XyZ", confounded(), strict=True))
        data[name][3] = np.nan
        with pytest.raises(ValueError, match=rf"\b{name}\b.*NaN"):
            full_rank(split=split).fit(**data)

    def test_missing_instruments_and_infinities_are_refused(self):
        for name, value in (("Z", np.nan), ("X", np.inf), ("y", np.inf), ("Z", np.inf)):
            data = dict(zip("XyZ", confounded(), strict=True))
            data[name][3] = value
            with pytest.raises(ValueError, match=rf"\b{name}\b"):
                full_rank(split="samples").fit(**data)

    @pytest.mark.parametrize("name", ["X", "y"])
    def test_nothing_known_is_refused(self, name):
        data = dict(zip("XyZ", confounded(), strict=True))
        data[name][:] = np.nan
        with pytest.raises(ValueError, match=rf"\b{name}\b is known in 0 rows; at least 4"):
            full_rank(split="samples").fit(**data)

    def test_exogenous_regressors_too(self):
        X, y, Z = self.gaps(90)
        C = np.random.default_rng(40).normal(size=(90, 1))
        iv = full_rank(split="samples", trend=1).fit(X, y, Z, C)
        assert np.isfinite(iv.predict(X[:60], C[:60])).all()

    def test_data_frames(self):
        pd = pytest.importorskip("pandas")
        X, y, Z = self.gaps()
        table = pd.DataFrame(np.column_stack([X, Z, y]), columns=["a", "b", "u", "v", "w", "out"])
        iv = full_rank(split="samples").fit(table[["a", "b"]], table["out"], table[["u", "v", "w"]])
        expected = full_rank(split="samples").fit(X, y, Z).predict(X[:40])
        assert_array_equal(iv.predict(table[["a", "b"]][:40]), expected)


# ------------------------------------------------------------- the test of E[y − h(X) | Z] = 0
SPECTRA = {
    "equal": np.ones(5),
    "falling": np.array([1.0, 0.5, 0.25, 0.1, 0.05]),
    "one": np.array([1.0, 0.01, 0.001]),
    "smooth kernel": 0.7 ** np.arange(30),
}


@pytest.mark.slow
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_weighted_chi2_against_draws(spectrum):
    weights = SPECTRA[spectrum]
    Q = np.linalg.qr(np.random.default_rng(40).normal(size=(len(weights),) * 2))[0]
    V = (Q * weights) @ Q.T
    statistics = np.array([0.5, 1.0, 2.0, 3.0]) * weights.sum()
    for statistic, exact in zip(statistics, slow.weighted_chi2_tail(statistics, V), strict=True):
        # two moments match; the third does not
        assert weighted_chi2(statistic, np.trace(V), (V * V).sum()) == pytest.approx(
            exact, abs=0.025
        )


def test_weighted_chi2_of_nothing():
    assert weighted_chi2(0.0, 0.0, 0.0) == 1.0
    assert weighted_chi2(0.0, 3.0, 3.0) == 1.0


def test_the_moment_statistic_by_a_loop():
    X, y, Z = confounded(60)
    group = fitted_group(X, y, Z, 1)
    coef = np.random.default_rng(40).normal(size=group.basis_x.width) / 10
    Theta, r = group.basis_z.transform(Z), y - group.basis_x.transform(X) @ coef
    A = Theta.T @ Theta / 60 + 0.01 * np.eye(Theta.shape[1])
    g, S = np.zeros(len(A)), np.zeros_like(A)
    for theta, residual in zip(Theta, r, strict=True):
        g += residual * theta
        S += residual**2 * np.outer(theta, theta) / 60
    statistic = g @ np.linalg.solve(A, g) / 60
    L = np.linalg.cholesky(A)
    V = np.linalg.solve(L, np.linalg.solve(L, S).T)
    expected = weighted_chi2(statistic, np.trace(V), (V * V).sum())
    first_stage.embed([group], 0.01, "loo")
    moments = second_stage.residual_sums([group], coef, 60, 60, None)[1]
    assert second_stage.moment_test(moments, 0.01) == pytest.approx(expected, rel=1e-6)


def test_moments_of_a_share_move_with_the_coefficients():
    """t_i of a row of stage 2: what its weight does to Σr_iθ_i, stage 2 solved anew."""
    X, y, Z = confounded(60)
    bases, lam, xi = [fitted_group(X, y, Z, 1).basis_x, fitted_group(X, y, Z, 1).basis_z], 0.01, 0.1
    halves = groups.share(0.5, None, groups.Part(X, Z, y))
    both = [groups.Group(half, *bases) for half in halves]
    first_stage.embed(both, lam, "share")
    (Phi, Theta, _, left), (Phi2, Theta2, _, M) = (half.few(30) for half in both)
    every, known, penalty = (
        np.vstack([Phi, Phi2]),
        np.vstack([Theta, Theta2]),
        xi * np.eye(M.shape[1]),
    )

    def fit(weights):
        return np.linalg.solve(M.T * weights @ M / 30 + penalty, M.T @ (weights * y[30:]) / 30)

    coef, A = fit(np.ones(30)), M.T @ M / 30 + penalty

    def moved(i, step):
        weights = np.ones(60)
        weights[i] += step
        return known.T @ (weights * (y - every @ fit(weights[30:])))

    t = [(moved(i, 1e-5) - moved(i, -1e-5)) / 2e-5 for i in range(30, 60)]
    for i in range(30):
        pull = -left[i] * ((every[i] - left[i]) @ coef) / 30
        r = y[i] - every[i] @ coef
        t.append(r * known[i] - known.T @ every @ np.linalg.solve(A, pull))
    found = second_stage.residual_sums(both, coef, 30, 30, np.linalg.inv(A))[1].sums["tt"]
    expected = np.transpose(t) @ np.array(t)
    assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("split", [0.5, 0.8])
def test_level_of_the_moment_test_of_a_share(split):
    """True lines were rejected in 43 to 73% of draws; more than 8 of 60 have probability .003."""
    p = []
    for seed in range(60):
        rng = np.random.default_rng([380, seed])
        z, u, e = rng.normal(size=(3, 300))
        x = z + u
        iv = km.KernelIV(split=split, trend=1).fit(x[:, None], 2 * x + u + 0.5 * e, z[:, None])
        p.append(iv.specification_p_)
    assert np.mean(np.array(p) < 0.05) <= 8 / 60
    assert np.mean(np.array(p) < 0.5) <= 0.7


@pytest.mark.slow
def test_level_of_the_moment_test():
    """A linear function fitted by a linear kernel: seldom rejected in 60 draws."""
    p = []
    for seed in range(60):
        rng = np.random.default_rng([40, seed])
        Z, V = rng.normal(size=(2, 200, 1))
        X, noise = Z + V, rng.normal(size=200)
        y = 1 + 2 * X[:, 0] + (1 + 0.5 * np.abs(Z[:, 0])) * (3 * V[:, 0] + noise)
        p.append(km.KernelIV("linear", km.Gaussian(1.0), trend=0).fit(X, y, Z).specification_p_)
    assert np.mean(np.array(p) < 0.05) <= 0.05
    assert np.mean(np.array(p) < 0.5) <= 0.5


@pytest.mark.slow
def test_power_of_the_moment_test():
    """The slope that heavy regularisation leaves contradicts the instrument."""
    for seed in (40, 41, 42):
        stiff = km.KernelIV(trend=0, reg_stage2=10.0).fit(*market(300, seed))
        assert stiff.specification_p_ < 1e-3


# ------------------------------------------------------------------------------- the trend
@pytest.mark.slow
@pytest.mark.parametrize("seed", [40, 41, 42])
@pytest.mark.parametrize("trend", ["auto", 0])
def test_the_slope_is_not_that_of_regression(seed, trend):
    """Prediction errors alone take the intercept's fit to −0.5, what regression says."""
    iv = km.KernelIV(trend=trend).fit(*market(1000, seed))
    slope = (iv.predict([[1.0]]) - iv.predict([[-1.0]]))[0] / 2
    assert slope == pytest.approx(-2.0, abs=0.2 if trend == "auto" else 0.5)
    assert iv.specification_p_ >= 0.05


def test_auto_is_an_intercept_on_few_rows_and_nothing_under_a_share():
    X, y, Z = confounded(29)
    assert full_rank().fit(X, y, Z).trend_ == 0
    assert full_rank(split=0.5).fit(X, y, Z).trend_ is None
    assert full_rank(split=0.5, trend=1).fit(X, y, Z).trend_ == 1


def test_fit_leaves_the_parameters_alone():
    X, y, Z = curve(60)
    iv = full_rank().fit(X, y, Z)
    assert iv.get_params(deep=False) == full_rank(features=iv.features).get_params(deep=False)
    assert iv.trend == "auto"
    assert not hasattr(clone(iv), "coef_")


def test_a_polynomial_is_found_exactly():
    """No noise, and regularisers that leave the kernel out: a parabola is a parabola."""
    rng = np.random.default_rng(40)
    Z = rng.uniform(-1, 1, size=(200, 2))
    X = Z + 1e-3 * rng.normal(size=Z.shape)
    truth = lambda X: 4 + 3 * X[:, 0] - 2 * X[:, 1] + X[:, 0] ** 2  # noqa: E731
    iv = km.KernelIV(KX, KZ, 1e-8, 1e6, trend=2).fit(X, truth(X), Z)
    assert_allclose(iv.predict(X), truth(X), atol=0.05)


def test_a_polynomial_and_its_derivative():
    X = np.random.default_rng(40).normal(size=(20, 3)) * [1.0, 1e3, 1e-3] + [0.0, 5e3, 1.0]
    X[:, 1] = np.round(X[:, 1])
    for powers in range(4):
        p = basis.Polynomial.of(X, powers)
        degree = None if powers == 0 else powers - 1
        assert_allclose(p(X), slow.polynomial(degree, X, X), rtol=1e-9, atol=1e-9)
        assert p.width == p(X).shape[1]
        for j, scale in enumerate((1.0, 1e3, 1e-3)):
            step = np.zeros(3)
            step[j] = 1e-5 * scale
            numeric = (p(X + step) - p(X - step)) / (2 * step[j])
            assert_allclose(p.derivative(X, j) * scale, numeric * scale, atol=1e-6)


@pytest.mark.parametrize("trend", [0, 1])
@pytest.mark.parametrize("split", ["loo", 4, "samples", 0.5])
@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_equivariance_in_the_outcome(split, shift, trend):
    X, y, Z = curve(80)
    for lam in (None, 0.1):
        fit = lambda v: full_rank(reg_stage1=lam, split=split, trend=trend).fit(X, v, Z)  # noqa: E731, B023
        a, b = fit(y), fit(shift - 4 * y)
        assert_allclose((shift - b.predict(X)) / 4, a.predict(X), atol=1e-3)
        assert b.specification_p_ == pytest.approx(a.specification_p_, abs=0.02)
        assert_allclose(b.covariance_, 16 * a.covariance_, rtol=0.02, atol=1e-3)


@pytest.mark.slow
def test_equivariance_of_a_search():
    X, y, Z = curve(150)
    a, b = (km.KernelIV().fit(X, v, Z) for v in (y, 1e3 - 4 * y))
    assert (a.trend_, a.n_stage2_) == (b.trend_, b.n_stage2_)
    assert_allclose((1e3 - b.predict(X)) / 4, a.predict(X), atol=1e-3)


@pytest.mark.parametrize("trend", [0, 1])
@pytest.mark.parametrize("split", ["loo", 4])
def test_units_and_origins_of_the_columns_do_not_matter(split, trend):
    X, y, Z = confounded(100)
    fit = lambda X, Z: km.KernelIV(  # noqa: E731
        split=split, trend=trend, tune_lengthscale=False
    ).fit(X, y, Z)
    expected, other = fit(X, Z).predict(X), X * [2.0, 1e3] + [8.0, -512.0]
    got = fit(other, Z * [0.1, 1.0, 64.0] + 16.0).predict(other)
    assert_allclose(got, expected, atol=1e-5 * expected.std())


@pytest.mark.slow
@pytest.mark.parametrize("trend", [0, 1])
def test_units_of_the_columns_do_not_matter_to_a_search(trend):
    """Powers of two leave roundings as they are; others end elsewhere in a flat valley."""
    X, y, Z = confounded(60)
    a = km.KernelIV(trend=trend).fit(X, y, Z)
    b = km.KernelIV(trend=trend).fit(X * [2.0, 1024.0], y, Z * [0.125, 1.0, 64.0])
    assert_allclose(b.predict(X * [2.0, 1024.0]), a.predict(X), rtol=1e-6)
    assert_allclose(b.scales_x_, a.scales_x_, rtol=1e-6)


# --------------------------------------------------------------------------- standard errors
def centred_coef(iv: km.KernelIV, y, degree: int | None) -> np.ndarray:
    """Coefficients before the mean outcome was added to the intercept."""
    b = iv.coef_.copy()
    b[0] -= slow.middle(y, degree)
    return b


@pytest.mark.parametrize("xi", [1e-2, 1e-4])
@pytest.mark.parametrize("degree", DEGREES)
def test_covariance_is_a_sum_over_rows_and_a_bias(degree, xi):
    X, y, Z = confounded()
    iv = full_rank(reg_stage1=1e-2, reg_stage2=xi, trend=degree).fit(X, y, Z)
    group = fitted_group(X, y, Z, degree)
    ((Phi, Theta, _, _),) = group.blocks()
    M = first_stage.jackknife_stage([group], 1e-2)[0].rows(Phi, Theta, own=True)
    A, b = slow.left_hand_side(M, xi, degree, 2, Phi), centred_coef(iv, y, degree)
    scores = [M[i] * (y[i] - Phi[i] @ iv.coef_) / 40 for i in range(40)]
    expected = slow.noise_covariance(A, scores)
    expected += slow.bias_covariance(A, b, xi, group.basis_x.trends)
    assert_allclose(iv.covariance_, expected, rtol=1e-5, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("degree", [None, 1])
def test_covariance_of_a_share_adds_both_stages(degree):
    X, y, Z = confounded()
    iv = full_rank(reg_stage1=1e-2, reg_stage2=1e-2, split=0.5, trend=degree).fit(X, y, Z)
    Phi, Theta = iv.basis_x_.transform(X), iv.basis_z_.transform(Z)
    b = centred_coef(iv, y[20:], degree)
    outcome = y[20:] - slow.middle(y[20:], degree)
    M2 = Theta[20:] @ slow.stage1(Theta[:20], Phi[:20], 1e-2, 20)
    M1 = slow.left_out_embeddings(Theta[:20], Phi[:20], 1e-2)
    A = slow.left_hand_side(M2, 1e-2, degree, 2)
    scores = [m * (v - m @ b) / 20 for m, v in zip(M2, outcome, strict=True)]
    scores += [-m * ((phi - m) @ b) / 20 for m, phi in zip(M1, Phi[:20], strict=True)]
    expected = slow.noise_covariance(A, scores)
    expected += slow.bias_covariance(A, b, 1e-2, iv.basis_x_.trends)
    assert_allclose(iv.covariance_, expected, rtol=1e-5, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("split", ["loo", 5])
@pytest.mark.parametrize("trend", [0, 1])
def test_linear_slope_and_error_are_those_of_2sls(split, trend):
    """Heteroscedastic noise, strong instruments, 5,000 rows."""
    IV2SLS = pytest.importorskip("linearmodels.iv").IV2SLS
    rng = np.random.default_rng(40)
    Z, V = rng.normal(size=(5000, 2)), rng.normal(size=(5000, 1))
    X = Z @ [[1.0], [0.5]] + V
    y = 1 + 2 * X[:, 0] + (1 + 0.5 * np.abs(Z[:, 0])) * (2 * V[:, 0] + rng.normal(size=5000))
    # a plane beside a kernel that is penalised away, or an intercept beside a linear kernel
    kernel, xi = (km.Gaussian(1.0), 1e6) if trend else (km.Linear(), 1e-12)
    iv = km.KernelIV(kernel, km.Linear(), 1e-12, xi, split=split, trend=trend).fit(X, y, Z)
    step = np.diff(iv.basis_x_.transform(np.array([[0.0], [1.0]])), axis=0)[0]
    theirs = IV2SLS(y, np.ones((5000, 1)), X, Z).fit(cov_type="robust")
    error = theirs.std_errors.iloc[-1]
    assert step @ iv.coef_ == pytest.approx(theirs.params.iloc[-1], abs=0.2 * error)
    assert np.sqrt(step @ iv.covariance_ @ step) == pytest.approx(error, rel=0.02)


@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("split", ["loo", 3, 0.5, "samples"])
def test_the_covariance_is_one(split):
    X, y, Z = confounded(80)
    C = km.KernelIV(split=split).fit(X, y, Z).covariance_
    assert_allclose(C, C.T, atol=1e-12 * np.abs(C).max())
    assert np.linalg.eigvalsh(C)[0] > -1e-9 * np.abs(C).max()


# ------------------------------------------------------------------------------- row blocks
@pytest.mark.slow
@pytest.mark.parametrize("split", ["loo", 3, 0.5, "samples"])
@pytest.mark.parametrize("trend", [None, 1])
def test_blocks_change_nothing(split, trend, monkeypatch):
    X, y, Z = confounded(60)
    if split == "samples":
        y[90:] = np.nan
    fit = lambda **regs: km.KernelIV(KX, KZ, **regs, split=split, trend=trend).fit(X, y, Z)  # noqa: E731
    whole = fit()
    regs = {"reg_stage1": whole.reg_stage1_, "reg_stage2": whole.reg_stage2_}
    monkeypatch.setattr(groups, "KEPT", 0)
    monkeypatch.setattr(moments, "BLOCK_FLOATS", 1)
    blocks = fit(**regs)
    assert_allclose(blocks.coef_, whole.coef_, rtol=1e-10, atol=1e-10 * np.abs(whole.coef_).max())
    assert_allclose(blocks.predict(X), whole.predict(X), rtol=1e-9, atol=1e-9)
    assert blocks.loss_stage1_ == pytest.approx(whole.loss_stage1_, rel=1e-9)
    assert blocks.loss_stage2_ == pytest.approx(whole.loss_stage2_, rel=1e-9)
    assert blocks.specification_p_ == pytest.approx(whole.specification_p_, rel=1e-6)
    scale = np.abs(whole.covariance_).max()
    assert_allclose(blocks.covariance_, whole.covariance_, atol=1e-8 * scale)
    assert fit().reg_stage2_ == pytest.approx(whole.reg_stage2_, rel=1e-3)


def test_blocks_are_kept_or_computed_again(monkeypatch):
    X, y, Z = confounded(300)
    group = fitted_group(X, y, Z, 0)
    first = lambda g: next(iter(g.blocks()))[0]  # noqa: E731
    assert len(list(group.blocks())) == 1
    assert first(group) is first(group)
    monkeypatch.setattr(groups, "KEPT", 0)
    monkeypatch.setattr(moments, "BLOCK_FLOATS", 1)
    again = fitted_group(X, y, Z, 0)
    assert len(list(again.blocks())) == 5
    assert first(again) is not first(again)
    for ours, theirs in zip(again.few(37)[:3], group.few(37)[:3], strict=True):
        assert_allclose(ours, theirs, atol=1e-12)


# ------------------------------------------------------------------------------- the search
@pytest.mark.usefixtures("short_searches")
@pytest.mark.slow
def test_lengthscales_are_searched_for_names_only():
    X, y, Z = confounded(50)
    named = km.KernelIV(trend=0).fit(X, y, Z)
    assert named.scales_x_.shape == (2,)
    assert named.scales_z_.shape == (3,)
    assert (named.scales_x_ != 1).all()
    assert (named.scales_z_ != 1).all()
    start = km.Gaussian(columnwise=True).resolve(X)
    assert_allclose(named.kernel_x_.lengthscale, start.lengthscale * named.scales_x_)
    for parameters in (
        {"tune_lengthscale": False},
        {"kernel_x": KX, "kernel_z": KZ},
        {"split": 0.5},
    ):
        iv = km.KernelIV(trend=0, **parameters).fit(X, y, Z)
        assert_array_equal(iv.scales_x_, np.ones(2))
        assert_array_equal(iv.scales_z_, np.ones(3))
    half = km.KernelIV(kernel_x=KX, trend=0).fit(X, y, Z)
    assert half.kernel_x_ == KX
    assert (half.scales_x_ == 1).all()
    assert (half.scales_z_ != 1).all()


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("split", ["loo", 0.5, 3])
def test_they_are_searched_when_asked_for(split):
    X, y, Z = confounded(60)
    iv = km.KernelIV(KX, KZ, split=split, trend=0, tune_lengthscale=True).fit(X, y, Z)
    assert (iv.scales_x_ != 1).all()
    assert (iv.scales_z_ != 1).all()
    assert_allclose(iv.kernel_x_.lengthscale, 0.9 * iv.scales_x_)


@pytest.mark.slow
def test_tuning_pays_on_demand():
    """Four draws; published KernelIV is at 3.7, the best published method at 3.1."""
    errors = {True: [], False: []}
    for seed in (40, 41, 42, 43):
        d = km.datasets.make_iv_demand(400, random_state=seed)
        for tune in errors:
            iv = km.KernelIV(tune_lengthscale=tune, trend=1).fit(d.X, d.y, d.Z, d.C)
            errors[tune].append(np.mean((iv.predict(d.grid) - d.truth(d.grid)) ** 2))
    assert np.mean(errors[True]) * 10 < np.mean(errors[False])
    assert (10 * np.array(errors[True]) < errors[False]).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [40, 41, 42])
def test_ten_columns_in_any_order(seed):
    """A linear function of three columns in ten: a product of ten median kernels sees nothing."""
    rng = np.random.default_rng(40)
    X = rng.normal(size=(100, 10))
    y = X[:, :3].sum(axis=1) + 0.3 * rng.normal(size=100)
    order = np.random.default_rng(seed).permutation(100)
    for trend in (0, "auto"):
        iv = km.KernelIV(trend=trend).fit(X[order], y[order], X[order])
        assert iv.score(X, y) > 0.8


@pytest.mark.usefixtures("short_searches")
@pytest.mark.slow
def test_the_callback_counts_rounds():
    X, y, Z = curve(60)
    for trend in (0, 1, "auto"):
        seen: list = []
        km.KernelIV(trend=trend, verbose=lambda *done, s=seen: s.append(done)).fit(X, y, Z)
        assert seen == [(1, 2), (2, 2)]
    seen = []
    full_rank(verbose=lambda *done: seen.append(done)).fit(X, y, Z)
    assert not seen


@pytest.mark.usefixtures("short_searches")
@pytest.mark.slow
def test_progress_is_shown_on_request_only(capsys):
    X, y, Z = curve(60)
    km.KernelIV(trend=0).fit(X, y, Z)
    assert capsys.readouterr() == ("", "")
    km.KernelIV(trend=0, verbose=True).fit(X, y, Z)
    shown = capsys.readouterr()
    assert not shown.out
    assert "Lengthscales" in shown.err


# ------------------------------------------------------------------------ repeats and files
@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("split", ["loo", 3, "samples"])
def test_fits_repeat_and_inputs_stay(split):
    X, y, Z = confounded(60)
    kept = [a.copy() for a in (X, y, Z)]
    state = np.random.get_state()[1].copy()
    fits = [km.KernelIV(split=split, random_state=1).fit(X, y, Z) for _ in range(2)]
    assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert_array_equal(fits[0].covariance_, fits[1].covariance_)
    for now, before in zip((X, y, Z), kept, strict=True):
        assert_array_equal(now, before)
    assert_array_equal(np.random.get_state()[1], state)


@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
def test_a_second_fit_forgets_the_first():
    X, y, Z = confounded(40)
    iv = km.KernelIV().fit(X, y, Z).fit(X[:, :1], y, Z[:, :1])
    fresh = km.KernelIV().fit(X[:, :1], y, Z[:, :1])
    assert_array_equal(iv.predict(X[:, :1]), fresh.predict(X[:, :1]))
    assert iv.n_features_in_ == 1
    assert iv.scales_x_.shape == (1,)


@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"trend": 2},
        {"split": 3, "random_state": 4},
        {"split": 0.5, "trend": 1},
        {"trend": None},
    ],
    ids=str,
)
def test_files_keep_a_fit(parameters, tmp_path):
    X, y, Z = confounded(60)
    iv = km.KernelIV(**parameters).fit(X, y, Z)
    iv.save(tmp_path / "iv.km")
    again = km.load(tmp_path / "iv.km")
    assert_array_equal(again.predict(X), iv.predict(X))
    assert again.get_params() == iv.get_params()
    for name in iv.state():
        if name.endswith("_") and not name.startswith(("_", "basis")):
            before, after = getattr(iv, name), getattr(again, name)
            pairs = (
                [(before, after)]
                if not isinstance(before, tuple)
                else zip(before, after, strict=True)
            )
            for a, b in pairs:
                assert_array_equal(b, a, err_msg=name)
    assert again.basis_x_.trends == iv.basis_x_.trends
    assert again.summary() == iv.summary()
    assert_array_equal(again.fit(X, y, Z).coef_, iv.coef_)


@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
def test_data_frames_of_a_searched_fit():
    pd = pytest.importorskip("pandas")
    X, y, Z = confounded(60)
    frame = pd.DataFrame(X, columns=["price", "size"])
    iv = km.KernelIV().fit(frame, pd.Series(y, name="sales"), pd.DataFrame(Z, columns=[*"uvw"]))
    # columns in another memory layout: other roundings
    assert_allclose(iv.predict(frame), km.KernelIV().fit(X, y, Z).predict(X), rtol=1e-5)
    assert list(iv.feature_names_in_) == ["price", "size"]
    assert iv.target_name_ == "sales"
    with pytest.raises(ValueError, match="(?i)feature names"):
        iv.predict(frame[["size", "price"]])


# ------------------------------------------------------------------------- little or odd data
def sound(X, y, Z, C=None, **parameters) -> km.KernelIV:
    """A fit without a warning, but of too few instruments, all of whose numbers are finite."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "2 endogenous regressors", km.NumericalWarning)
        iv = km.KernelIV(**parameters).fit(X, y, Z, C)
        predicted = iv.predict(X) if C is None else iv.predict(X, C)
    for numbers in (predicted, iv.coef_, iv.covariance_, [iv.loss_stage1_, iv.loss_stage2_]):
        assert np.isfinite(numbers).all()
    assert 0 <= iv.specification_p_ <= 1
    return iv


@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("split", ["loo", 2, 0.5, "samples"])
@pytest.mark.parametrize("n", [4, 5, 7, 12])
def test_few_rows(n, split):
    for trend in ("auto", 3):
        sound(*curve(n), split=split, trend=trend)
    for trend in (None, 1):
        sound(*curve(n), split=split, trend=trend, kernel_x=KX, kernel_z=KZ)


@cache
def odd() -> dict[str, tuple]:
    X, y, Z = curve(80)
    rng = np.random.default_rng(40)
    one, binary = np.ones_like(Z), (Z > 0).astype(float)
    wide = rng.normal(size=(30, 50))
    return {
        "more columns than rows": (wide, wide[:, 0], wide + rng.normal(size=wide.shape)),
        "instruments of nothing": (X, y, rng.normal(size=Z.shape)),
        "one binary instrument": (X, y, binary),
        "binary regressor": ((X > 0).astype(float), y, Z),
        "both binary": ((X > 0).astype(float), y, binary),
        "the same column twice": (np.hstack([X, 2 * X]), y, Z),
        "the same instrument twice": (X, y, np.hstack([Z, Z])),
        "its own instrument": (X, y, X),
        "its own outcome": (X, X[:, 0], X),
        "constant outcome": (X, np.full(80, 5.0), Z),
        "zero outcome": (X, np.zeros(80), Z),
        "outlying regressor": (np.where(np.arange(80)[:, None] == 3, 1e6, X), y, Z),
        "outlying outcome": (X, np.where(np.arange(80) == 3, 1e9, y), Z),
        "far from zero": (X + 1e6, y + 1e6, Z + 1e6),
        "32 bits": tuple(a.astype(np.float32) for a in (X, y, Z)),
        "integers": tuple(np.round(10 * a).astype(int) for a in (X, y, Z)),
        "lists": tuple(a.tolist() for a in (X, y, Z)),
        "an exogenous column": (X, y, Z, np.linspace(0, 1, 80)),
        "instrument beside a constant": (X, y, np.hstack([Z, one]), None, km.Gaussian(1.0)),
        "constant instrument": (X, y, one, None, km.Gaussian(1.0)),
        "regressor beside a constant": (np.hstack([X, one]), y, Z, None, km.Gaussian(1.0)),
    }


@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize(("split", "trend"), [("loo", "auto"), (3, 2), (0.5, 1)])
@pytest.mark.parametrize("case", odd())
def test_odd_data(case, split, trend):
    X, y, Z, C, kernel = (*odd()[case], None, None)[:5]
    kernels = {} if kernel is None else {"kernel_x": kernel, "kernel_z": kernel}
    sound(X, y, Z, C, split=split, trend=trend, **kernels)


@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize(("split", "trend"), [("loo", "auto"), (3, 2), (0.5, 1)])
def test_rows_that_are_there_four_times_count_once(split, trend):
    few = [a[:20] for a in curve(80)]
    asked = {"split": split, "trend": trend, "random_state": 0}
    with pytest.warns(km.NumericalWarning, match="60 of 80 rows are copies"):
        iv = km.KernelIV(**asked).fit(*(np.repeat(a, 4, axis=0) for a in few))
    assert_allclose(iv.predict(few[0]), sound(*few, **asked).predict(few[0]), rtol=1e-6)


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("split", ["loo", 3])
@pytest.mark.parametrize("value", [0.0, 5.0, 1e8])
@pytest.mark.parametrize("trend", ["auto", 1])
def test_a_constant_outcome_is_that_constant(trend, value, split):
    X, _, Z = curve(40)
    iv = sound(X, np.full(40, value), Z, split=split, trend=trend)
    assert_allclose(iv.predict(X), value, rtol=1e-9, atol=1e-9)
    assert iv.specification_p_ > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("unit", [2.0**27, 2.0**-27])
@pytest.mark.parametrize("which", ["X", "y", "Z"])
def test_units_of_measurement(which, unit):
    """Powers of two, which leave roundings as they are."""
    data = dict(zip("XyZ", curve(80), strict=True))
    expected = sound(*data.values(), trend=1).predict(data["X"])
    data[which] = unit * data[which]
    got = sound(*data.values(), trend=1).predict(data["X"]) / (unit if which == "y" else 1)
    assert_allclose(got, expected, atol=1e-3)


@pytest.mark.slow
def test_instruments_of_nothing_move_little():
    """No instrument, no slope: a plane that is not identified stays within the data's range."""
    for seed in (40, 41, 42):
        X, y, _ = curve(100, seed)
        noise = np.random.default_rng(seed).normal(size=(100, 1))
        predicted = sound(X, y, noise).predict(X)
        assert np.abs(predicted - y.mean()).max() < 5 * np.abs(y - y.mean()).max()


@pytest.mark.parametrize("kernel", ["gaussian", {"*": "linear"}])
@pytest.mark.parametrize("name", ["X", "Z"])
def test_a_constant_column_is_named(name, kernel):
    X, y, Z = confounded()
    data = {"X": X, "Z": Z}
    data[name] = np.hstack([data[name], np.ones((40, 1))])
    with pytest.raises(ValueError, match=rf"column '{name.lower()}\d' of {name} is constant"):
        km.KernelIV(kernel, kernel).fit(data["X"], y, data["Z"])


@pytest.mark.usefixtures("short_searches")
def test_a_constant_beside_the_controls_changes_nothing():
    """As `statsmodels.add_constant` leaves it, or an indicator in a fold that lacks its level."""
    X, y, Z = confounded(60)
    C = np.arange(60.0)[:, None] % 7
    with_one = np.hstack([np.ones((60, 1)), C])
    expected = km.KernelIV().fit(X, y, Z, C).predict(X, C)
    predicted = km.KernelIV().fit(X, y, Z, with_one).predict(X, with_one)
    assert_allclose(predicted, expected, rtol=1e-9)


# ------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("name", "bad", "words"),
    [
        ("split", "half", '"loo".*"samples"'),
        ("split", "LOO", '"loo".*"samples"'),
        ("split", 1, "split"),
        ("split", 0, "split"),
        ("split", -3, "split"),
        ("split", 21, "20 at most"),
        ("split", 1.5, "split"),
        ("split", np.nan, "split"),
        ("split", None, "split"),
        ("split", True, "split"),
        ("split", [2], "split"),
        ("trend", -1, "trend"),
        ("trend", 1.5, "trend"),
        ("trend", "plane", "trend.*auto"),
        ("trend", True, "trend"),
        ("trend", [1], "trend"),
        ("trend", np.nan, "trend"),
        ("tune_lengthscale", "always", "tune_lengthscale"),
        ("tune_lengthscale", 3.7, "tune_lengthscale"),
        ("tune_lengthscale", None, "tune_lengthscale"),
        ("features", 7, "features"),
        ("random_state", "seven", "random_state"),
    ],
)
def test_bad_parameters_are_refused_by_name(name, bad, words):
    with pytest.raises(ValueError, match=rf"(?s)\b{name}\b.*") as refusal:
        full_rank(**{name: bad}).fit(*confounded())
    assert re.search(words, str(refusal.value))


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("reg_stage1", -1.0),
        ("reg_stage2", np.nan),
        ("trend", "plane"),
        ("features", 7),
        ("kernel_x", "gausian"),
    ],
)
def test_bad_parameters_are_refused_before_the_search(name, bad):
    seen: list = []
    with pytest.raises(ValueError, match=name):
        km.KernelIV(**{name: bad}, verbose=lambda *done: seen.append(done)).fit(*curve(60))
    assert not seen


@pytest.mark.usefixtures("short_searches")
def test_numpy_numbers_are_numbers():
    X, y, Z = curve(40)
    for split, trend in ((np.int64(3), np.int64(1)), (np.float64(0.5), None), ("loo", np.int32(0))):
        sound(X, y, Z, split=split, trend=trend)

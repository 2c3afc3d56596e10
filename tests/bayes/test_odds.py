"""The odds of a logistic regression beside the kernels of a density ratio."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import kernelmean as km
from kernelmean.bayes import odds
from kernelmean.bayes.left_out import Beside, RatioLeftOut
from kernelmean.bayes.odds import Logistic, Odds, best_odds


def two_normal(n: int, l: int, d: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), 0.5 + rng.normal(size=(l, d))


# ------------------------------------------------------------------------------------- the odds
@pytest.mark.parametrize("squares", [False, True])
def test_they_are_scikit_learns(squares):
    """exp of its decision function, with as many rows of either sample taken for granted."""
    Z, U = two_normal(90, 60, d=3)
    rows, of_q = np.vstack([Z, U]), np.repeat([0, 1], [90, 60])
    terms = PolynomialFeatures(2 if squares else 1, include_bias=False)
    scale = StandardScaler().fit(rows)
    F = terms.fit_transform(scale.transform(rows))
    theirs = LogisticRegression(C=0.1, tol=1e-10).fit(F, of_q)
    new = np.random.default_rng(1).normal(size=(20, 3)) / 2
    logit = theirs.decision_function(terms.transform(scale.transform(new)))
    found = Logistic(0.1, squares).odds(Z, U)
    assert_allclose(found(new), np.minimum(np.exp(logit) * 90 / 60, found.most), rtol=1e-3)


def test_they_end_where_rows_of_the_denominator_do():
    Z, U = two_normal(200, 200)
    found = Logistic(1.0, False).odds(Z, U)
    assert found(np.array([[1e6]]))[0] == found(Z).max() == found.most
    assert found(np.array([[-1e6]]))[0] == 0.0


def test_constant_columns_tell_nothing():
    Z, U = two_normal(100, 80)
    still = Logistic(0.1, True).odds(np.c_[Z, np.ones(100)], np.c_[U, np.ones(80)])
    assert_allclose(still(np.c_[Z, np.ones(100)]), Logistic(0.1, True).odds(Z, U)(Z), rtol=1e-3)


def test_none_where_few_rows_carry_the_ratio():
    """N(4, 1/16) over N(0, 1): of 300 rows of p next to none are where q is."""
    rng = np.random.default_rng(0)
    Z, U = rng.normal(size=(300, 1)), 3 + rng.normal(size=(300, 1)) / 4
    assert best_odds(Z, U) is None
    assert best_odds(Z[:9], U) is None  # five rows for each of two coefficients
    assert km.DensityRatio().fit(Z, U).odds_ is None


def test_rows_left_out_have_no_part():
    """Those of one fold may be anything: the odds at the others' stay what they are without."""
    Z, U = two_normal(50, 50)
    way, fold = Logistic(0.1, False), np.argsort(np.argsort(np.vstack([Z, U])[:, 0])) % 5
    kept = way.left_out(*odds.stacked(Z, U))[fold == 2]
    rest = way.odds(Z[fold[:50] != 2], U[fold[50:] != 2])
    # standardised by all rows, which shrinks them a little differently
    expected = rest(np.vstack([Z, U])[fold == 2])
    assert_allclose(np.minimum(np.exp(kept), rest.most), expected, rtol=0.05)


@pytest.mark.slow
def test_copies_are_left_out_together(monkeypatch):
    """178 wines drawn six times each: with copies apart, squares of 13 columns seem to tell."""
    rng, wines = np.random.default_rng(0), load_wine().data
    likely = np.where(wines[:, 0] > 13, 1.0, 0.3)
    Z, U = wines[rng.choice(178, 1000)], wines[rng.choice(178, 1000, p=likely / likely.sum())]
    assert not best_odds(Z, U)[0].squares
    monkeypatch.setattr(odds, "FEW_VALUES", np.inf)
    assert best_odds(Z, U)[0].squares


def test_a_numerator_of_one_value():
    """All of its rows would be left out at once."""
    Z = np.random.default_rng(0).normal(size=(200, 1))
    ratio = km.DensityRatio().fit(Z, np.full((60, 1), 0.5))
    assert np.isfinite(ratio.predict(Z)).all()
    assert best_odds(Z, np.full((60, 1), 0.5)) is None or ratio.predict([[0.5]])[0] > 1


def test_few_values_are_no_copies():
    """Of three values each would be left out with all of its rows."""
    rng = np.random.default_rng(0)
    Z, U = (rng.choice(3, (300, 1), p=p) * 1.0 for p in ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]))
    _, at_z, _ = best_odds(Z, U)
    assert_allclose([at_z[Z[:, 0] == v].mean() for v in range(3)], [0.4, 1.0, 2.5], rtol=0.3)


# ------------------------------------------------------------------------- kernels beside them
@pytest.fixture
def beside():
    rng = np.random.default_rng(3)
    Phi, U = rng.normal(size=(40, 3)), 0.3 + rng.normal(size=(30, 3))
    at_z, at_u = rng.uniform(0.5, 2.0, 40), rng.uniform(0.5, 2.0, 30)
    return Phi, U, at_z, at_u


@pytest.mark.parametrize("reg", [1e-2, 1.0])
def test_the_score_equals_real_refits(beside, reg):
    Phi, U, at_z, at_u = beside

    def ratio(keep_z, keep_u) -> np.ndarray:
        """The kernels' part by rows that are kept, in sums that count all n rows of p."""
        A = Phi[keep_z].T @ Phi[keep_z] / 40
        left = U[keep_u].mean(axis=0) - at_z[keep_z] @ Phi[keep_z] / 40
        return np.linalg.solve(A + reg * np.eye(3), left)

    every_z, every_u = np.ones(40, bool), np.ones(30, bool)
    J = np.mean(
        [0.5 * (at_z[i] + Phi[i] @ ratio(np.arange(40) != i, every_u)) ** 2 for i in range(40)]
    ) - np.mean([at_u[j] + U[j] @ ratio(every_z, np.arange(30) != j) for j in range(30)])
    known = Beside(at_z, at_u, at_z @ Phi / 40, at_z @ at_z / 40)
    found = RatioLeftOut(Phi, Phi.T @ Phi / 40, U, np.full(30, 1 / 30), beside=known)
    assert found.score(reg) == pytest.approx(J, rel=1e-10)
    assert_allclose(found.coefficients(reg), ratio(every_z, every_u), rtol=1e-10)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_score_leaves_copies_out_together(beside, share):
    """The score of rows that are there several times, by refits without all that are the same."""
    rng, reg = np.random.default_rng(4), 0.1
    of_z, of_u = (np.repeat(np.arange(k), rng.integers(1, 4, k)) for k in (40, 30))
    Phi, U = beside[0][of_z], beside[1][of_u]
    n, l = len(Phi), len(U)

    def ratio(keep_z, keep_u) -> np.ndarray:
        A = (1 - share) * Phi[keep_z].T @ Phi[keep_z] / n + share * U[keep_u].T @ U[keep_u] / l
        return np.linalg.solve(A + reg * np.eye(3), U[keep_u].mean(axis=0))

    every_z, every_u = np.ones(n, bool), np.ones(l, bool)
    r_z = np.array([Phi[i] @ ratio(of_z != of_z[i], every_u) for i in range(n)])
    r_u = np.array([U[j] @ ratio(every_z, of_u != of_u[j]) for j in range(l)])
    J = np.mean(0.5 * (1 - share) * r_z**2) + np.mean(0.5 * share * r_u**2 - r_u)
    each = np.bincount(of_z)[of_z], np.bincount(of_u)[of_u]
    known = Phi, Phi.T @ Phi / n, U, np.full(l, 1 / l), share
    assert RatioLeftOut(*known, copies=each).score(reg) == pytest.approx(J, rel=1e-10)


def test_samples_copied_as_a_whole_are_the_samples():
    """What is chosen, and why, does not change; all rows counted as new ones made spikes."""
    Z, U = two_normal(60, 50, d=2)
    alpha = np.full(50, 1 / 50)
    once = RatioLeftOut(Z, Z.T @ Z / 60, U, alpha)
    Z4, U4 = np.repeat(Z, 4, axis=0), np.repeat(U, 4, axis=0)
    known = Z4, Z.T @ Z / 60, U4, np.repeat(alpha / 4, 4)
    many = RatioLeftOut(*known, copies=(np.full(240, 4), np.full(200, 4)))
    assert many.best() == pytest.approx(once.best(), rel=1e-6)
    gains = [found.gain(*map(found.careful_rows, (0.01, 1.0))) for found in (once, many)]
    assert_allclose(*gains, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2])
def test_copied_samples_are_no_spikes(d):
    """Error over that of a ratio of one, four draws: 1.5 and .6 if copies stay where one is out."""
    new = np.random.default_rng(5).normal(size=(500, d))
    true = np.exp(0.5 * new.sum(axis=1) - 0.125 * d)
    off = []
    for seed in (0, 1, 3, 4):
        Z, U = (np.repeat(A, 4, axis=0) for A in two_normal(100, 100, d, seed))
        ratio = km.DensityRatio().fit(Z, U).predict(new)
        off.append(np.mean((ratio / (1 + ratio) - true / (1 + true)) ** 2))
    assert np.mean(off) < 0.3 * np.mean((0.5 - true / (1 + true)) ** 2)


def test_the_ratio_minimises_the_squares_beside_them():
    """½E_p r² − E_q r + ½η‖c‖² has no slope along any coordinate."""
    Z, U = two_normal(300, 200, d=3)
    model = km.DensityRatio().fit(Z, U)
    assert model.odds_ is not None
    Phi, V = model.features_.transform(Z), model.features_.transform(U)
    r = model.odds_(Z) + Phi @ model.coef_
    slope = Phi.T @ r / 300 - V.mean(axis=0)
    assert_allclose(slope, -model.reg_ * model.coef_, atol=1e-10)
    assert_allclose(model.weights_, r / 300, atol=1e-12)
    assert_allclose(model.predict(Z), np.maximum(r, 0.0), atol=1e-12)


@pytest.mark.slow
def test_normal_laws_are_told_as_by_their_odds():
    """exp(z/2 − 1/8): kernels alone have several times the error."""
    errors = []
    for seed in range(6):
        Z, U = two_normal(600, 600, seed=seed)
        new = np.random.default_rng(100 + seed).normal(size=(2000, 1))
        truth = np.exp(0.5 * new[:, 0] - 0.125)
        models = km.DensityRatio().fit(Z, U), km.DensityRatio(km.Gaussian()).fit(Z, U)
        errors.append([np.mean((m.predict(new) - truth) ** 2) for m in models])
    with_odds, alone = np.mean(errors, axis=0)
    assert with_odds < 0.6 * alone


def test_equal_laws_have_ratio_one():
    rng = np.random.default_rng(0)
    model = km.DensityRatio().fit(rng.normal(size=(400, 2)), rng.normal(size=(400, 2)))
    assert np.abs(model.predict(rng.normal(size=(50, 2))) - 1.0).max() < 0.25


def test_two_humps_are_left_to_kernels():
    rng = np.random.default_rng(0)
    U = rng.choice([-2.0, 2.0], (300, 1)) + 0.3 * rng.normal(size=(300, 1))
    model = km.DensityRatio().fit(rng.uniform(-4, 4, (300, 1)), U)
    assert model.odds_ is None
    assert model.odds_gain_ < 0.05
    assert "kernels are alone" in model.summary()


@pytest.mark.parametrize("asked", [{"reg": 0.1}, {"relative": 0.2}, {"kernel": km.Gaussian(1.0)}])
def test_what_is_asked_for_stands_alone(asked):
    model = km.DensityRatio(**asked).fit(*two_normal(100, 100))
    assert model.odds_ is None
    assert np.isnan(model.odds_gain_)
    assert "logistic" not in model.summary()


def test_a_numerator_that_is_no_sample_has_none():
    Z, U = two_normal(100, 100)
    weights = np.random.default_rng(0).dirichlet(np.ones(100))
    m = km.MeanEmbedding(U, weights, "gaussian")
    assert km.DensityRatio().fit(Z, m).odds_ is None


def test_angles_have_none():
    rng = np.random.default_rng(0)
    p, q = rng.uniform(0, 2 * np.pi, (400, 1)), rng.vonmises(np.pi, 1.5, (300, 1)) % (2 * np.pi)
    ratio = km.DensityRatio("periodic").fit(p, q)
    assert_allclose(ratio.predict(p[:5] + 2 * np.pi), ratio.predict(p[:5]), rtol=1e-6)


def test_summary_says_so(tmp_path):
    model = km.DensityRatio().fit(*two_normal(300, 200, d=3))
    assert "of a logistic regression: they are the start" in model.summary()
    model.save(tmp_path / "ratio.km")
    back = km.load(tmp_path / "ratio.km")
    new = np.linspace(-3, 9, 21).reshape(7, 3)
    assert isinstance(back.odds_, Odds)
    assert_array_equal(back.predict(new), model.predict(new))
    assert back.summary() == model.summary()


def test_rows_elsewhere_give_the_same():
    Z, U = two_normal(400, 300, d=3)
    here, there = (km.DensityRatio().fit(A, U) for A in (Z, km.Rows(Z)))
    assert here.odds_ is not None
    assert_allclose(there.predict(Z[:20]), here.predict(Z[:20]), rtol=1e-9)

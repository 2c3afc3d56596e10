"""Density ratios: dense KuLSIF, real refits, finite sets and Gaussians with known ratios."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.bayes import left_out

KERNEL = km.Gaussian(0.7)


def gram(X, Y) -> np.ndarray:
    return oracles.gram(oracles.gaussian, X, Y, lengthscale=0.7)


def ratio(reg=0.1, **parameters) -> km.DensityRatio:
    return km.DensityRatio(**{"kernel": KERNEL, "reg": reg, "features": km.Exact(), **parameters})


@pytest.fixture
def samples(rng) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(25, 2)), 0.5 + rng.normal(size=(18, 2))


def test_hand_worked_coin():
    """p: one head in four tosses; q: two in three. r(head) = (2/3)/(1/4) = 8/3, r(tail) =
    (1/3)/(3/4) = 4/9.
    """
    r = km.DensityRatio("delta", reg=1e-12).fit([1, 0, 0, 0], [1, 1, 0])
    assert_allclose(r.predict([1, 0]), [8 / 3, 4 / 9], rtol=1e-8)
    assert_allclose(r.weights_, np.array([8 / 3, 4 / 9, 4 / 9, 4 / 9]) / 4, rtol=1e-8)
    assert r.weights_.sum() == pytest.approx(1.0)


def test_hand_worked_shrinkage():
    """On a finite set with the delta kernel r(a) = q(a) / (p(a) + eta)."""
    r = km.DensityRatio("delta", reg=0.25).fit([1, 0, 0, 0], [1, 1, 0])
    assert_allclose(
        r.predict([1, 0]), [(2 / 3) / (1 / 4 + 1 / 4), (1 / 3) / (3 / 4 + 1 / 4)], rtol=1e-9
    )


# ------------------------------------------------------------------------------------------- dense
@pytest.mark.parametrize("reg", [1e-3, 0.1, 2.0])
def test_weights_equal_the_dense_formula(samples, reg):
    Z, U = samples
    expected = oracles.kulsif_weights(gram(Z, Z), gram(Z, U).mean(axis=1), reg)
    assert_allclose(ratio(reg).fit(Z, U).weights_, expected, atol=1e-6)


@pytest.mark.parametrize("reg", [1e-2, 0.1, 2.0])
def test_predict_equals_kanamoris_solution_on_the_span_of_the_denominator(samples, reg, rng):
    """Their minimiser also has terms off the span of the k(z_i, .); at the z_i the two agree."""
    Z, U = samples
    theirs = oracles.kulsif(gram, Z, U, reg)
    assert_allclose(ratio(reg).fit(Z, U).predict(Z), np.maximum(theirs(Z), 0), atol=1e-6)


def test_predict_at_new_points(samples, rng):
    """r(t) = k_t' K^-1 r(z): the function on the span of the data that takes the dense values at
    its rows.
    """
    Z, U = samples
    T, kernel = (
        rng.normal(size=(9, 2)),
        km.Laplace(0.7),
    )  # Laplace: a Gram matrix that can be inverted
    beta = oracles.kulsif_weights(kernel(Z), kernel(Z, U).mean(axis=1), 0.1)
    expected = kernel(T, Z) @ np.linalg.solve(kernel(Z), len(Z) * beta)
    got = ratio(kernel=kernel).fit(Z, U).predict(T)
    assert_allclose(got, np.maximum(expected, 0), atol=1e-8)


def test_prediction_is_floored_and_weights_are_not(rng):
    Z, U = rng.normal(size=(200, 1)), 2.5 + 0.2 * rng.normal(size=(200, 1))
    r = ratio(1e-3).fit(Z, U)
    assert r.weights_.min() < 0
    assert r.predict(Z).min() == 0.0
    assert_allclose(r.predict(Z), np.maximum(len(Z) * r.weights_, 0), atol=1e-6)


# ------------------------------------------------------------------------------------ closed forms
def test_finite_set_true_ratio():
    rng = np.random.default_rng(0)
    p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.3, 0.2, 0.1])
    Z, U = rng.choice(4, p=p, size=400), rng.choice(4, p=q, size=300)
    counted = np.bincount(U, minlength=4) / 300 / (np.bincount(Z, minlength=4) / 400)
    r = km.DensityRatio("delta", reg=1e-10).fit(Z, U)
    assert_allclose(r.predict(np.arange(4.0)), counted, atol=1e-3)


def test_finite_set_with_the_true_numerator():
    """A MeanEmbedding as numerator, with the exact probabilities."""
    Z, q = np.repeat(np.arange(4), [10, 20, 30, 40]), np.array([0.4, 0.3, 0.2, 0.1])
    r = km.DensityRatio("delta", reg=1e-10).fit(Z, km.MeanEmbedding(np.arange(4), q, "delta"))
    assert_allclose(r.predict(np.arange(4.0)), q / [0.1, 0.2, 0.3, 0.4], atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.5, 1.0])
def test_two_gaussians(shift):
    """N(0,1) and N(s,1): r(z) = exp(s z - s^2/2)."""
    errors = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Z, U = rng.normal(size=(2000, 1)), shift + rng.normal(size=(2000, 1))
        r = km.DensityRatio().fit(Z, U)
        truth = np.exp(shift * Z[:, 0] - shift**2 / 2)
        errors.append(np.sqrt(np.mean((r.predict(Z) - truth) ** 2)))
        assert r.weights_.sum() == pytest.approx(1.0, abs=0.05)
    # Root mean squared error against a ratio whose own spread is sqrt(exp(s^2) - 1): 0, 0.53, 1.3.
    # The few
    # points beyond z = 3, where the ratio reaches 20, carry most of it: hence the median over the
    # seeds.
    assert np.median(errors) < 0.12 + 0.4 * np.sqrt(np.expm1(shift**2))


@pytest.mark.slow
def test_more_data_are_better():
    def error(n: int) -> float:
        out = []
        for seed in range(4):
            rng = np.random.default_rng(seed)
            Z, U = rng.normal(size=(n, 1)), 0.5 + rng.normal(size=(n, 1))
            r = km.DensityRatio().fit(Z, U).predict(Z)
            out.append(np.mean((r - np.exp(0.5 * Z[:, 0] - 0.125)) ** 2))
        return float(np.mean(out))

    assert error(2000) < error(150)


def test_scale_and_place_do_not_matter(samples):
    """The median lengthscale goes with the data."""
    Z, U = samples
    a = km.DensityRatio(reg=0.1).fit(Z, U).weights_
    b = km.DensityRatio(reg=0.1).fit(100 + 10 * Z, 100 + 10 * U).weights_
    # the default map stops at 1e-6 of the trace
    assert_allclose(a, b, atol=1e-6)


# ----------------------------------------------------------------------------------- leave-one-out
@pytest.mark.parametrize("reg", [1e-2, 0.1, 1.0])
def test_loo_score_equals_real_refits(samples, reg):
    """Coordinates know new points on the denominator's span only, so the numerator is drawn from
    its rows.
    """
    S = np.concatenate(samples)
    Z, U = np.concatenate([S, S]), S[25:]
    expected = oracles.kulsif_loo_by_refits(gram(Z, Z), gram(Z, U), gram(U, U), reg)
    assert ratio(reg).fit(Z, U).loo_score_ == pytest.approx(expected, rel=1e-6)


def test_loo_score_equals_real_refits_on_a_finite_set(rng):
    Z, U = rng.integers(4, size=40), rng.integers(4, size=30)
    D = km.Delta()
    expected = oracles.kulsif_loo_by_refits(D(Z), D(Z, U), D(U), 0.05)
    assert km.DensityRatio("delta", reg=0.05).fit(Z, U).loo_score_ == pytest.approx(
        expected, rel=1e-8
    )


@pytest.mark.parametrize("seed", range(3))
def test_reg_none_takes_the_minimiser(seed):
    rng = np.random.default_rng(seed)
    Z, U = rng.integers(6, size=40), rng.choice(6, p=np.array([1, 2, 3, 4, 5, 6]) / 21, size=25)
    D = km.Delta()
    grams = D(Z), D(Z, U), D(U)
    grid = 10 ** np.linspace(-4, 0, 41)
    losses = [oracles.kulsif_loo_by_refits(*grams, reg) for reg in grid]
    chosen = km.DensityRatio("delta").fit(Z, U).reg_
    assert oracles.kulsif_loo_by_refits(*grams, chosen) <= min(losses) + 1e-4 * abs(min(losses))


# --------------------------------------------------------------------------------------- numerator
def test_samples_are_an_embedding_with_equal_weights(samples):
    Z, U = samples
    a, b = ratio().fit(Z, U), ratio().fit(Z, km.MeanEmbedding(U, kernel=KERNEL))
    assert_allclose(a.weights_, b.weights_)
    assert a.loo_score_ == pytest.approx(b.loo_score_)


def test_signed_weights(samples, rng):
    Z, U = samples
    alpha = rng.normal(size=18)
    alpha /= alpha.sum()
    expected = oracles.kulsif_weights(gram(Z, Z), gram(Z, U) @ alpha, 0.1)
    r = ratio().fit(Z, km.MeanEmbedding(U, alpha, KERNEL))
    assert_allclose(r.weights_, expected, atol=1e-6)
    assert np.isfinite(r.loo_score_)


def test_signed_weights_with_reg_none_stay_finite(samples, rng):
    Z, U = samples
    alpha = rng.normal(size=18)
    r = km.DensityRatio().fit(Z, km.MeanEmbedding(U, alpha / alpha.sum(), KERNEL))
    assert np.isfinite(r.predict(Z)).all()
    assert r.reg_ > 0


def test_one_point_with_all_the_weight():
    r = km.DensityRatio(KERNEL).fit(np.linspace(-1, 1, 20), km.MeanEmbedding([0.0], kernel=KERNEL))
    assert np.isfinite(r.predict([0.0, 5.0])).all()


def test_a_batch_as_numerator_is_refused(samples):
    Z, U = samples
    with pytest.raises(ValueError, match="numerator"):
        ratio().fit(Z, km.MeanEmbedding(U, np.ones((2, 18)) / 18, KERNEL))


def test_the_same_sample_twice_has_ratio_one(samples):
    Z, _ = samples
    # reg biases towards zero by eta/(s + eta) in each direction
    assert_allclose(ratio(1e-8).fit(Z, Z).predict(Z), 1.0, atol=1e-2)


def test_fits_repeat_and_leave_the_input_alone(samples):
    Z, U = samples
    kept = Z.copy(), U.copy()
    a, b = (km.DensityRatio().fit(Z, U).weights_ for _ in range(2))
    assert_array_equal(a, b)
    assert_array_equal(Z, kept[0])
    assert_array_equal(U, kept[1])


def test_the_formula_of_weights(samples):
    Z, U = samples
    r = ratio().fit(Z, U)
    assert r.weights_.shape == (25,)
    assert_allclose(np.maximum(25 * r.weights_, 0), r.predict(Z), atol=1e-8)


@pytest.mark.parametrize("bad", [-1.0, np.nan, "x", True])
def test_bad_regularisers_are_refused(samples, bad):
    with pytest.raises(ValueError, match="reg"):
        ratio(bad).fit(*samples)


def test_columns_that_differ_are_refused(samples):
    with pytest.raises(ValueError, match="numerator"):
        ratio().fit(samples[0], samples[1][:, :1])


def test_data_frames(samples):
    pd = pytest.importorskip("pandas")
    Z, U = (pd.DataFrame(s, columns=["a", "b"]) for s in samples)
    kernel = km.on_columns({"a": KERNEL, "b": KERNEL})
    r = ratio(kernel=kernel).fit(Z, U)
    assert_allclose(r.weights_, ratio().fit(*samples).weights_, atol=1e-10)
    assert_allclose(r.predict(U), ratio().fit(*samples).predict(samples[1]), atol=1e-8)


# ---------------------------------------------------------------------------------- relative ratio
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_relative_ratio_on_a_finite_set(share):
    """q / (a q + (1 - a) p + eta), symbol by symbol with the delta kernel."""
    Z, U = np.repeat(np.arange(4), [10, 20, 30, 40]), np.repeat(np.arange(4), [4, 3, 2, 1])
    p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.3, 0.2, 0.1])
    for reg in (1e-10, 0.05):
        r = km.DensityRatio("delta", reg=reg, relative=share).fit(Z, U)
        expected = q / (share * q + (1 - share) * p + reg)
        assert_allclose(r.predict(np.arange(4.0)), expected, atol=1e-6)
        assert (r.predict(np.arange(4.0)) <= 1 / share).all()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_relative_loo_score_equals_real_refits(share, rng):
    """One-hot coordinates written out; each row in turn leaves A and m, the rest stays."""
    Z, U = np.eye(4)[rng.integers(4, size=20)], np.eye(4)[rng.integers(4, size=15)]
    n, ell, eta = 20, 15, 0.05
    A, m = (1 - share) * Z.T @ Z / n + share * U.T @ U / ell, U.mean(axis=0)

    def ratio_at(point, A, m):
        return point @ np.linalg.solve(A + eta * np.eye(4), m)

    of_z = [ratio_at(z, A - (1 - share) * np.outer(z, z) / n, m) for z in Z]
    of_u = [ratio_at(u, A - share * np.outer(u, u) / ell, (m - u / ell) / (1 - 1 / ell)) for u in U]
    expected = (
        (1 - share) / 2 * np.mean(np.square(of_z))
        + share / 2 * np.mean(np.square(of_u))
        - np.mean(of_u)
    )
    symbols = Z.argmax(axis=1), U.argmax(axis=1)
    r = km.DensityRatio("delta", reg=eta, relative=share).fit(*symbols)
    assert r.loo_score_ == pytest.approx(expected, rel=1e-8)


def test_a_relative_share_of_nothing_is_the_plain_ratio(samples):
    a, b = (km.DensityRatio(KERNEL, relative=s).fit(*samples) for s in (0.0, 1e-12))
    assert_allclose(a.weights_, b.weights_, atol=1e-6)
    assert a.reg_ == pytest.approx(b.reg_, rel=1e-3)


@pytest.mark.parametrize("bad", [-0.1, 1.0, 2.0, np.nan, "x", None])
def test_bad_shares_are_refused(samples, bad):
    with pytest.raises(ValueError, match="relative"):
        km.DensityRatio(relative=bad).fit(*samples)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_score_from_few_rows_is_the_score_where_these_stand_for_the_others(monkeypatch, share):
    """Every row is there twice, and one of each two is among those that are left out."""
    rng, twice = np.random.default_rng(8), np.repeat(np.arange(30), 2)
    Phi, U = rng.normal(size=(30, 5))[twice], 0.3 + rng.normal(size=(30, 5))[twice]
    alpha = np.full(60, 1 / 60)
    second = Phi.T @ Phi / 60
    whole = left_out.RatioLeftOut(Phi, second, U, alpha, share).score
    monkeypatch.setattr(left_out, "SCORE_ROWS", 30)
    few = left_out.RatioLeftOut(Phi, second, U, alpha, share).score
    assert_allclose([few(reg) for reg in (1e-4, 0.1, 5.0)], [whole(r) for r in (1e-4, 0.1, 5.0)])


def test_the_lengthscale_suits_the_ratio():
    """Two humps a twentieth as wide as the law they are over: the median is far too long."""
    errors = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        p = rng.normal(size=(150, 1))
        q = rng.choice([-1.0, 1.0], (150, 1)) + 0.15 * rng.normal(size=(150, 1))
        new = rng.normal(size=(1000, 1))[:, 0]
        humps = np.exp(-0.5 * ((new[:, None] - [-1, 1]) / 0.15) ** 2).mean(axis=1) / 0.15
        truth = humps / np.exp(-0.5 * new**2)
        found = km.DensityRatio().fit(p, q).predict(new)
        errors.append(np.mean((found - truth) ** 2) / np.mean(truth**2))
    assert np.mean(errors) < 0.2  # .5 at the median, and more


class TestNeverWild:
    """Of 20 draws of 100 rows the least score took η = 4e-7 in one, with ratios up to 200."""

    @pytest.mark.slow
    def test_a_shifted_normal(self):
        errors = []
        for seed in range(50_000, 50_020):
            rng = np.random.default_rng(seed)
            p, q = rng.normal(size=(100, 1)), rng.normal(0.7, 1, (100, 1))
            truth = np.exp(0.7 * p[:, 0] - 0.245)
            found = km.DensityRatio().fit(p, q).predict(p)
            errors.append(np.mean((found - truth) ** 2) / np.mean(truth**2))
        assert np.mean(errors) < 0.2
        assert max(errors) < 0.6

    def test_a_clear_gain_is_taken_all_the_same(self):
        """Two narrow humps under the median lengthscale ask for η far below 1/n."""
        rng = np.random.default_rng(52_000)
        p = rng.uniform(-4, 4, (200, 1))
        q = rng.choice([-2.0, 2.0], (200, 1)) + 0.3 * rng.normal(size=(200, 1))
        median = km.Gaussian().resolve(p)
        assert km.DensityRatio(median).fit(p, q).reg_ < 0.01 / 200
        chosen = km.DensityRatio().fit(p, q)
        assert chosen.kernel_.lengthscale < 0.6 * median.lengthscale
        assert chosen.reg_ > 0.01 / 200

    def test_no_row_makes_more_than_half_of_its_own_estimate_from_the_bound_on(self, samples):
        p, q = samples
        n = p.shape[0]
        ratio = km.DensityRatio(reg=1 / n).fit(p, q)
        Phi = ratio.features_.transform(p)
        A = Phi.T @ Phi / n + np.eye(Phi.shape[1]) / n
        assert np.einsum("ij,ji->i", Phi, np.linalg.solve(A, Phi.T)).max() / n <= 0.5

    def test_the_gain_and_its_error_are_those_of_the_rows(self):
        """Every row taken out of a fit of its own, and rows of q put among those of p."""
        rng = np.random.default_rng(3)
        Phi, U = rng.normal(size=(40, 3)), 0.5 + rng.normal(size=(30, 3))
        A, alpha = Phi.T @ Phi / 40, np.full(30, 1 / 30)

        def rows(reg):
            at_p = [
                f @ np.linalg.solve(A - np.outer(f, f) / 40 + reg * np.eye(3), U.mean(axis=0))
                for f in Phi
            ]
            at_q = [
                u @ np.linalg.solve(A + np.outer(u, u) / 40 + reg * np.eye(3), rest.mean(axis=0))
                for u, rest in ((U[j], np.delete(U, j, axis=0)) for j in range(30))
            ]
            return 0.5 * np.square(at_p), -np.array(at_q)

        (z1, u1), (z2, u2) = rows(1.0), rows(0.01)
        gain = (z1 - z2).mean() + (u1 - u2).mean()
        error = np.sqrt((z1 - z2).var() / 40 + (u1 - u2).var() / 30)
        by = left_out.RatioLeftOut(Phi, A, U, alpha, 0.0)
        found = by.gain(by.careful_rows(0.01), by.careful_rows(1.0))
        assert_allclose(found, (gain, error))

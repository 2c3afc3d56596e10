"""The relative density ratio q/(a q + (1 − a) p): dense formula, real leave-one-out, known laws."""

from __future__ import annotations

import bayes_oracles as dense
import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km

KERNEL = km.Gaussian(0.7)
SHARES = [0.0, 0.1, 0.5, 0.9]


def gram(X) -> np.ndarray:
    return oracles.gram(oracles.gaussian, X, lengthscale=0.7)


def fit(Z, U, share, reg=0.1, **parameters) -> km.DensityRatio:
    settings = {"kernel": KERNEL, "features": km.Exact(), **parameters}
    return km.DensityRatio(reg=reg, relative=share, **settings).fit(Z, U)


@pytest.fixture
def samples(rng) -> tuple[np.ndarray, np.ndarray]:
    """The numerator's points are some of the denominator's, so that full rank covers both."""
    Z = rng.normal(size=(25, 2))
    return Z, Z[::3]


@pytest.fixture
def alpha() -> np.ndarray:
    """One negative weight, small enough for the objective to stay convex."""
    return np.array([-0.04, *np.full(8, 0.13)])


# ----------------------------------------------------------------------------------------- dense
class TestDense:
    @pytest.mark.parametrize("share", SHARES)
    @pytest.mark.parametrize("reg", [1e-3, 0.1, 2.0])
    def test_samples(self, samples, share, reg):
        Z, U = samples
        r = dense.relative_ratio(gram(np.concatenate([Z, U])), 25, np.full(9, 1 / 9), reg, share)
        found = fit(Z, U, share, reg)
        assert_allclose(25 * found.weights_, r[:25], atol=1e-6)
        assert_allclose(found.predict(Z), np.maximum(r[:25], 0), atol=1e-6)
        assert_allclose(found.predict(U), np.maximum(r[25:], 0), atol=1e-6)

    @pytest.mark.parametrize("share", SHARES)
    def test_signed_embedding(self, samples, alpha, share):
        Z, U = samples
        r = dense.relative_ratio(gram(np.concatenate([Z, U])), 25, alpha, 0.1, share)
        found = fit(Z, km.MeanEmbedding(U, alpha, KERNEL), share)
        assert_allclose(25 * found.weights_, r[:25], atol=1e-6)

    @pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
    @pytest.mark.parametrize("reg", [0.1, None])
    def test_weights_too_negative_for_a_minimum_are_survived(self, samples, rng, reg):
        Z, U = samples
        alpha = 5 * rng.normal(size=9)
        prior = km.MeanEmbedding(U, alpha + (1 - alpha.sum()) / 9, KERNEL)
        assert np.isfinite(fit(Z, prior, 0.5, reg).predict(Z)).all()

    def test_without_a_share_it_is_kulsif(self, samples):
        Z, U = samples
        r = dense.relative_ratio(gram(np.concatenate([Z, U])), 25, np.full(9, 1 / 9), 0.1, 0.0)
        K = gram(Z)
        assert_allclose(r[:25] / 25, oracles.kulsif_weights(K, K[:, ::3].mean(axis=1), 0.1))

    @pytest.mark.parametrize("share", SHARES)
    def test_it_is_the_minimiser(self, rng, share):
        """Linear kernel: r(z) = b·z, and the objective's gradient in b is zero."""
        Z, U = rng.normal(size=(25, 3)), 0.5 + rng.normal(size=(18, 3))
        signed = fit(Z, U, share, kernel="linear").weights_ * 25
        b = np.linalg.lstsq(Z, signed, rcond=None)[0]
        second = (1 - share) * Z.T @ Z / 25 + share * U.T @ U / 18
        assert_allclose(second @ b + 0.1 * b, U.mean(axis=0), atol=1e-8)


# ------------------------------------------------------------------------------------ known laws
class TestKnownLaws:
    p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.3, 0.2, 0.1])

    @pytest.mark.parametrize("share", SHARES)
    def test_hand_worked_coin(self, share):
        """p: one head in four; q: two in three."""
        r = km.DensityRatio("delta", reg=1e-12, relative=share).fit([1, 0, 0, 0], [1, 1, 0])
        p, q = np.array([1 / 4, 3 / 4]), np.array([2 / 3, 1 / 3])
        assert_allclose(r.predict([1, 0]), q / (share * q + (1 - share) * p), rtol=1e-8)

    @pytest.mark.parametrize("share", SHARES)
    def test_finite_set_with_the_true_numerator(self, share):
        Z = np.repeat(np.arange(4), [10, 20, 30, 40])
        found = km.DensityRatio("delta", reg=1e-10, relative=share)
        found.fit(Z, km.MeanEmbedding(np.arange(4), self.q, "delta"))
        expected = self.q / (share * self.q + (1 - share) * self.p)
        assert_allclose(found.predict(np.arange(4.0)), expected, atol=1e-6)

    def test_more_draws_lead_to_the_true_ratio(self):
        expected = self.q / (0.3 * self.q + 0.7 * self.p)

        def error(n: int) -> float:
            found = []
            for seed in range(40, 44):
                rng = np.random.default_rng(seed)
                Z, U = rng.choice(4, n, p=self.p), rng.choice(4, n, p=self.q)
                r = km.DensityRatio("delta", relative=0.3).fit(Z, U).predict(np.arange(4.0))
                found.append(np.abs(r - expected).max())
            return float(np.mean(found))

        assert error(20_000) < error(200) / 3
        assert error(20_000) < 0.05

    @pytest.mark.parametrize("share", [0.1, 0.5])
    def test_two_gaussians(self, share):
        """N(0,1) and N(1,1), where the plain ratio exp(z − 1/2) has no bound."""
        errors = []
        for seed in range(40, 43):
            rng = np.random.default_rng(seed)
            Z, U = rng.normal(size=(2000, 1)), 1 + rng.normal(size=(2000, 1))
            plain = np.exp(Z[:, 0] - 0.5)
            truth = plain / (share * plain + 1 - share)
            r = km.DensityRatio(relative=share).fit(Z, U).predict(Z)
            errors.append(np.sqrt(np.mean((r - truth) ** 2)) / truth.std())
        assert np.mean(errors) < 0.2

    def test_it_is_tamer_than_the_plain_ratio_in_the_tail(self):
        rng = np.random.default_rng(40)
        Z, U = rng.normal(size=(2000, 1)), 1.5 + rng.normal(size=(2000, 1))
        plain, relative = (km.DensityRatio(relative=a).fit(Z, U).predict(Z) for a in (0.0, 0.2))
        assert relative.max() < plain.max() / 2
        assert relative.max() < 1.2 / 0.2  # bounded by 1/a, up to the estimate's error

    def test_the_same_sample_twice_has_ratio_one(self, samples):
        Z, _ = samples
        assert_allclose(fit(Z, Z, 0.5, 1e-8).predict(Z), 1.0, atol=1e-2)


# --------------------------------------------------------------------------------- leave-one-out
class TestLeaveOneOut:
    """The score by real refits on explicit features: a linear kernel's columns."""

    @pytest.mark.parametrize("share", SHARES)
    @pytest.mark.parametrize("reg", [1e-2, 0.1, 1.0])
    def test_samples(self, rng, share, reg):
        Z, U = rng.normal(size=(25, 3)), 0.5 + rng.normal(size=(18, 3))
        terms = dense.relative_loo_by_refits(Z, U, np.full(18, 1 / 18), reg, share)
        found = fit(Z, U, share, reg, kernel="linear").loo_score_
        assert found == pytest.approx(sum(t.sum() for t in terms), rel=1e-9)

    @pytest.mark.parametrize("share", SHARES)
    def test_gaussian_kernel(self, samples, share):
        """Features by the eigenvectors of the Gram matrix of all points."""
        Z, U = samples
        values, vectors = np.linalg.eigh(gram(np.concatenate([Z, U])))
        features = vectors * np.sqrt(np.maximum(values, 0))
        terms = dense.relative_loo_by_refits(
            features[:25], features[25:], np.full(9, 1 / 9), 0.1, share
        )
        expected = sum(t.sum() for t in terms)
        assert fit(Z, U, share).loo_score_ == pytest.approx(expected, rel=1e-6)

    def test_without_a_share_it_is_the_plain_score(self, samples):
        Z, U = samples
        K = gram(np.concatenate([Z, U]))
        expected = oracles.kulsif_loo_by_refits(K[:25, :25], K[:25, 25:], K[25:, 25:], 0.1)
        assert fit(Z, U, 0.0).loo_score_ == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("share", SHARES)
    def test_reg_none_takes_the_minimiser(self, rng, share):
        Z, U = rng.normal(size=(60, 3)), 0.4 + rng.normal(size=(40, 3))
        found = fit(Z, U, share, None, kernel="linear")

        def score(reg):
            terms = dense.relative_loo_by_refits(Z, U, np.full(40, 1 / 40), reg, share)
            return sum(t.sum() for t in terms)

        best = min(score(reg) for reg in 10 ** np.linspace(-8, 1, 91))
        assert score(found.reg_) <= best + 1e-6 * abs(best)
        assert found.loo_score_ == pytest.approx(score(found.reg_), rel=1e-9)

    @pytest.mark.parametrize("share", [0.0, 0.5])
    def test_a_known_numerator_is_not_shrunk_away(self, share):
        """A table's few points are no draws: left out one by one they would teach nothing."""
        p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
        Z = np.random.default_rng(0).choice(3, size=3000, p=p)
        found = km.DensityRatio("delta", relative=share)
        found.fit(Z, km.MeanEmbedding([0, 1, 2], q, "delta"))
        assert_allclose(found.predict([0, 1, 2]), q / (share * q + (1 - share) * p), rtol=0.15)


# --------------------------------------------------------------------------------------- manners
def test_fits_repeat_and_leave_the_input_alone(samples):
    Z, U = (a.copy() for a in samples)
    a, b = (km.DensityRatio(relative=0.3).fit(Z, U).weights_ for _ in range(2))
    assert_array_equal(a, b)
    assert_array_equal(Z, samples[0])
    assert_array_equal(U, samples[1])


def test_there_and_back(samples, tmp_path):
    found = fit(*samples, 0.3)
    found.save(tmp_path / "ratio.km")
    again = km.load(tmp_path / "ratio.km")
    assert again.relative == 0.3
    assert_array_equal(again.predict(samples[0]), found.predict(samples[0]))


@pytest.mark.parametrize("bad", [-0.1, 1.0, 1.5, np.nan, np.inf, "half", None, True, [0.1]])
def test_bad_shares_are_refused(samples, bad):
    with pytest.raises(ValueError, match=r"\brelative\b"):
        fit(*samples, bad)

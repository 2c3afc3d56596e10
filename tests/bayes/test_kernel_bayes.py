"""Kernel Bayes' rule: dense formulas, probability tables, real refits and Gaussian closed forms."""

from __future__ import annotations

import warnings

import bayes_oracles as dense
import numpy as np
import oracles
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import kernelmean as km
from kernelmean.core.moments import canonical_order
from kernelmean.core.solves import EigenGrid
from kernelmean.regression.leave_one_out import LeaveOneOut

RULES = ("importance", "squared")
SETTINGS = {"kernel_x": km.Gaussian(0.8), "kernel_z": km.Gaussian(0.6), "features": km.Exact()}
TABLE = dense.Table()


def gram_x(X, Y=None) -> np.ndarray:
    return oracles.gram(oracles.gaussian, X, Y, lengthscale=0.8)


def gram_z(Z, U=None) -> np.ndarray:
    return oracles.gram(oracles.gaussian, Z, U, lengthscale=0.6)


def shares(Z, eta: float, U=None, alpha=None) -> np.ndarray:
    """β for a prior on U with weights alpha; the training marginal when left out."""
    K = gram_z(Z, Z if U is None else U)
    g = K.mean(axis=1) if alpha is None else K @ alpha
    return oracles.kulsif_weights(gram_z(Z), g, eta)


def bayes(rule="importance", **parameters) -> km.KernelBayes:
    return km.KernelBayes(rule, **{**SETTINGS, "reg_prior": 0.05, "reg": 1e-2, **parameters})


@pytest.fixture
def new(rng) -> np.ndarray:
    return rng.normal(size=(9, 2))


@pytest.fixture
def prior_points(rng) -> np.ndarray:
    return 0.3 + rng.normal(size=(12, 2))


@pytest.fixture
def alpha(rng) -> np.ndarray:
    """Weights of both signs that sum to one."""
    w = rng.normal(size=12)
    return w + (1 - w.sum()) / 12


@pytest.fixture
def noisy() -> tuple[np.ndarray, np.ndarray]:
    """Two hundred pairs: z ~ N(0, 1), x = z + noise."""
    rng = np.random.default_rng(7)
    Z = rng.normal(size=(200, 1))
    return Z + 0.5 * rng.normal(size=Z.shape), Z


# ------------------------------------------------------------------------------ worked by hand
class TestHandWorked:
    """Latents 0, 0, 1, 1 seen as 0, 1, 1, 1; the prior says 1/4 and 3/4.

    r(0) = (1/4)/(1/2) = 1/2 and r(1) = 3/2, so the four pairs have shares 1/8, 1/8, 3/8, 3/8.
    Given x = 1: 1/8 : 3/8 + 3/8, so P(z = 0) = 1/7.
    """

    X, Z = np.array([[0], [1], [1], [1]]), np.array([[0], [0], [1], [1]])
    prior = km.MeanEmbedding([[0], [1]], [0.25, 0.75], "delta")

    def model(self, rule, reg) -> km.KernelBayes:
        return km.KernelBayes(rule, "delta", "delta", reg_prior=1e-12, reg=reg).fit(self.X, self.Z)

    @pytest.mark.parametrize("rule", RULES)
    def test_without_shrinkage(self, rule):
        W = self.model(rule, 1e-12).weights([[0], [1]], self.prior)
        assert_allclose(W, [[1, 0, 0, 0], [0, 1 / 7, 3 / 7, 3 / 7]], atol=1e-8)

    def test_importance_divides_by_the_mass_plus_lambda(self):
        W = self.model("importance", 0.5).weights([[1]], self.prior)
        assert_allclose(W, [np.array([0, 1, 3, 3]) / 8 / (7 / 8 + 0.5)], atol=1e-8)

    def test_squared_multiplies_by_the_mass_over_its_square_plus_delta(self):
        W = self.model("squared", 0.5).weights([[1]], self.prior)
        assert_allclose(W, [np.array([0, 1, 3, 3]) / 8 * (7 / 8) / (49 / 64 + 0.5)], atol=1e-8)


# ------------------------------------------------------------------------------ dense formulas
@pytest.mark.parametrize("rule", RULES)
class TestDense:
    """Issue 3: weights equal the dense formulas to 1e-6 at full rank, for all kinds of prior."""

    @pytest.mark.parametrize("reg", [1e-5, 1e-2, 1.0])
    @pytest.mark.parametrize("reg_prior", [1e-3, 0.2])
    def test_signed_embedding(self, xy, new, prior_points, alpha, rule, reg, reg_prior):
        X, Z = xy
        beta = shares(Z, reg_prior, prior_points, alpha)
        assert beta.min() < 0  # or the rules would not differ where they should
        expected = dense.bayes_weights(rule, gram_x(X), gram_x(X, new), beta, reg)
        prior = km.MeanEmbedding(prior_points, alpha, km.Gaussian(0.6))
        model = bayes(rule, reg=reg, reg_prior=reg_prior).fit(X, Z)
        assert_allclose(model.weights(new, prior), expected, atol=1e-6)
        assert_allclose(model.posterior(new, prior).weights, expected, atol=1e-6)

    @pytest.mark.parametrize("reg", [1e-5, 1e-2, 1.0])
    def test_samples(self, xy, new, prior_points, rule, reg):
        X, Z = xy
        beta = shares(Z, 0.05, prior_points)
        expected = dense.bayes_weights(rule, gram_x(X), gram_x(X, new), beta, reg)
        got = bayes(rule, reg=reg).fit(X, Z).weights(new, prior_points)
        assert_allclose(got, expected, atol=1e-6)

    @pytest.mark.parametrize("reg", [1e-5, 1e-2, 1.0])
    def test_training_marginal(self, xy, new, rule, reg):
        X, Z = xy
        expected = dense.bayes_weights(rule, gram_x(X), gram_x(X, new), shares(Z, 0.05), reg)
        model = bayes(rule, reg=reg).fit(X, Z)
        assert_allclose(model.weights(new), expected, atol=1e-6)
        assert_allclose(model.weights(new, Z), expected, atol=1e-6)

    def test_batches_are_one_by_one(self, xy, new, prior_points, rule):
        model = bayes(rule).fit(*xy)
        together = model.posterior(new, prior_points)
        assert len(together) == 9
        for i, x in enumerate(new):
            alone = model.posterior(x[None], prior_points)
            assert_allclose(together[i].weights, alone.weights[0], atol=1e-12)
            assert_allclose(model.predict(new, prior_points)[i], alone.mean()[0], atol=1e-10)

    def test_batches_are_one_by_one_when_the_regularisers_are_chosen(self, xy, new, rule):
        """The choice must not depend on what is asked."""
        model = km.KernelBayes(rule).fit(*xy)
        together = model.weights(new)
        assert_allclose(together[3:4], model.weights(new[3:4]), atol=1e-9)

    def test_nystroem_to_tolerance_is_close(self, xy, new, prior_points, rule):
        X, Z = xy
        expected = dense.bayes_weights(
            rule, gram_x(X), gram_x(X, new), shares(Z, 0.05, prior_points), 1e-2
        )
        model = bayes(rule, features=None).fit(X, Z)
        assert_allclose(model.weights(new, prior_points), expected, atol=1e-3)

    def test_random_fourier_features_are_their_own_kernel(self, xy, new, rule):
        X, Z = xy
        model = bayes(rule, features=km.RandomFourier(200, random_state=0)).fit(X, Z)
        P, T, Q = (
            model.features_x_.transform(X),
            model.features_x_.transform(new),
            model.features_z_.transform(Z),
        )
        beta = oracles.kulsif_weights(Q @ Q.T, (Q @ Q.T).mean(axis=1), 0.05)
        expected = dense.bayes_weights(rule, P @ P.T, P @ T.T, beta, 1e-2)
        assert_allclose(model.weights(new), expected, atol=1e-6)

    def test_bayes_rule_is_kernel_bayes(self, xy, new, prior_points, rule):
        X, Z = xy
        expected = bayes(rule).fit(X, Z).posterior(new, prior_points)
        settings = {**SETTINGS, "reg_prior": 0.05, "reg": 1e-2, "rule": rule}
        got = km.bayes_rule(X, Z, prior_points, new, **settings)
        assert_array_equal(got.weights, expected.weights)
        one = km.bayes_rule(X, Z, prior_points, new[0], **settings)
        assert one.batch is None
        assert_allclose(one.weights, expected.weights[0], atol=1e-12)


def test_importance_weighting_is_thresholding(xy, new, prior_points, alpha):
    """Xu 2022, Algorithm 1, and Song 2016, Proposition 2, are one estimator, and ours."""
    X, Z = xy
    beta = shares(Z, 1e-3, prior_points, alpha)
    prior = km.MeanEmbedding(prior_points, alpha, km.Gaussian(0.6))
    for reg in (1e-3, 0.1):
        arguments = gram_x(X), gram_x(X, new), beta, reg
        xu, song = dense.importance_weights(*arguments), dense.thresholding_weights(*arguments)
        assert_allclose(xu, song, atol=1e-9)
        got = bayes(reg_prior=1e-3, reg=reg).fit(X, Z).weights(new, prior)
        assert_allclose(got, song, atol=1e-6)
        assert_array_equal(got[:, beta < 0], 0.0)


def test_negative_shares_are_kept_by_the_squared_rule(xy, new, prior_points, alpha):
    X, Z = xy
    beta = shares(Z, 1e-3, prior_points, alpha)
    prior = km.MeanEmbedding(prior_points, alpha, km.Gaussian(0.6))
    W = bayes("squared", reg_prior=1e-3).fit(X, Z).weights(new, prior)
    assert np.abs(W[:, beta < 0]).max() > 1e-3


def test_any_kernels(xy, new):
    """A product of kernels on the observation, Laplace on the latent."""
    X, Z = xy
    kx, kz = km.on_columns({0: km.Matern(1.5, 0.7), 1: km.Gaussian(0.9)}), km.Laplace(0.8)
    beta = oracles.kulsif_weights(kz(Z), kz(Z).mean(axis=1), 0.05)
    expected = dense.importance_weights(kx(X), kx(X, new), beta, 1e-2)
    assert_allclose(bayes(kernel_x=kx, kernel_z=kz).fit(X, Z).weights(new), expected, atol=1e-6)


# --------------------------------------------------------------------------------- finite sets
def discrete(rule, X, Z, **parameters) -> np.ndarray:
    """P(z | x), rows the four observations, by kernel Bayes' rule with delta kernels."""
    settings = {"reg_prior": 1e-12, "reg": 1e-12 if rule == "importance" else 1e-20, **parameters}
    prior = km.MeanEmbedding([[0], [1], [2]], TABLE.prior, "delta")
    model = km.KernelBayes(rule, "delta", "delta", **settings).fit(X, Z)
    return model.posterior(np.arange(4.0)[:, None], prior)([[0.0], [1.0], [2.0]])


@pytest.mark.parametrize("rule", RULES)
class TestFiniteSets:
    def test_posterior_is_bayes_table(self, rule):
        """With the likelihood counted on the same pairs, as the regularisers vanish."""
        X, Z = TABLE.pairs(300, np.random.default_rng(0))
        expected = dense.posterior_table(dense.counted_likelihood(X, Z), TABLE.prior)
        assert_allclose(discrete(rule, X, Z), expected, atol=1e-6)

    def test_regularisers_that_shrink_lead_there(self, rule):
        X, Z = TABLE.pairs(300, np.random.default_rng(0))
        expected = dense.posterior_table(dense.counted_likelihood(X, Z), TABLE.prior)
        errors = [
            np.abs(discrete(rule, X, Z, reg=reg, reg_prior=reg) - expected).max()
            for reg in (1e-1, 1e-2, 1e-3, 1e-4)
        ]
        assert (np.diff(errors) < 0).all()
        assert errors[-1] < (5e-3 if rule == "importance" else 5e-2)

    def test_more_pairs_lead_to_the_true_table(self, rule):
        truth = dense.posterior_table(TABLE.p_x_given_z, TABLE.prior)
        errors = []
        for n in (100, 10_000):
            draws = [TABLE.pairs(n, np.random.default_rng(seed)) for seed in range(3)]
            errors.append(np.mean([np.abs(discrete(rule, *pair) - truth).max() for pair in draws]))
        assert errors[1] < errors[0] / 3
        # a frequency of 1/10 over 2,000 pairs is known to 0.007: a few times that in the table
        assert errors[1] < 0.04

    @pytest.mark.parametrize("draws", [0, 2000])
    def test_regularisers_chosen_from_the_data_are_near_the_table(self, rule, draws):
        """For the prior's own table, and for draws from it."""
        rng = np.random.default_rng(1)
        X, Z = TABLE.pairs(3000, rng)
        table = km.MeanEmbedding([[0], [1], [2]], TABLE.prior, "delta")
        prior = rng.choice(3, p=TABLE.prior, size=(draws, 1)) if draws else table
        model = km.KernelBayes(rule, "delta", "delta").fit(X, Z)
        got = model.posterior(np.arange(4.0)[:, None], prior).normalised()([[0.0], [1.0], [2.0]])
        expected = dense.posterior_table(dense.counted_likelihood(X, Z), TABLE.prior)
        assert_allclose(got, expected, atol=0.05)

    def test_the_training_marginal_as_prior_gives_the_conditional(self, rule):
        X, Z = TABLE.pairs(300, np.random.default_rng(0))
        settings = {"reg_prior": 1e-12, "reg": 1e-14}
        model = km.KernelBayes(rule, "delta", "delta", **settings).fit(X, Z)
        joint = oracles.joint_table(X[:, 0], Z[:, 0], 4, 3)
        got = model.posterior(np.arange(4.0)[:, None])([[0.0], [1.0], [2.0]])
        assert_allclose(got, oracles.conditional_table(joint), atol=1e-6)

    def test_only_the_likelihood_of_the_pairs_matters(self, rule):
        """Latents drawn in other proportions: the same posterior."""
        X, Z = TABLE.pairs(300, np.random.default_rng(0))
        twice = np.concatenate([np.arange(300), np.flatnonzero(Z[:, 0] == 1)])
        assert_allclose(discrete(rule, X[twice], Z[twice]), discrete(rule, X, Z), atol=1e-6)


# ------------------------------------------------------------------- a prior off the latents
class TestPriorElsewhere:
    @pytest.mark.parametrize("place", [10.0, 20.0, 100.0])
    @pytest.mark.parametrize("rule", RULES)
    def test_is_said_and_survived(self, noisy, rule, place):
        prior = place + np.random.default_rng(0).normal(size=(20, 1))
        with pytest.warns(km.NumericalWarning, match="prior"):
            posterior = km.KernelBayes(rule).fit(*noisy).posterior([[0.0], [2.0]], prior)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", km.NumericalWarning)
            answers = posterior.weights, posterior.mean(), *posterior.interval()
        assert all(np.isfinite(a).all() for a in answers)

    @pytest.mark.parametrize("selection", ["heldout", "balance"])
    @pytest.mark.parametrize("rule", RULES)
    def test_with_folds(self, noisy, rule, selection):
        model = km.KernelBayes(rule, selection=selection).fit(*noisy)
        with pytest.warns(km.NumericalWarning, match="prior"):
            posterior = model.posterior([[0.0]], [[100.0]])
        assert np.isfinite(posterior.weights).all()

    @pytest.mark.parametrize("selection", ["loo", "loo_min"])
    def test_with_leave_one_out(self, noisy, selection):
        model = km.KernelBayes(selection=selection).fit(*noisy)
        with pytest.warns(km.NumericalWarning, match="prior"):
            posterior = model.posterior([[0.0]], [[100.0]])
        assert np.isfinite(posterior.weights).all()

    def test_is_said_once(self, noisy):
        model = km.KernelBayes().fit(*noisy)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.posterior([[0.0]], [[100.0]])
        assert len(caught) == 1

    def test_a_ratio_of_nothing(self, noisy):
        X, Z = noisy
        with pytest.warns(km.NumericalWarning, match=r"prior|ratio"):
            posterior = km.KernelBayes(ratio=np.zeros(len(Z))).fit(X, Z).posterior([[0.0]])
        assert np.isfinite(posterior.mean()).all()

    def test_a_prior_inside_is_not_warned_about(self, noisy):
        """Half of the spread, a sixth of it, or one point: all within reach of the pairs."""
        rng = np.random.default_rng(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for prior in (0.5 + 0.5 * rng.normal(size=50), 0.15 * rng.normal(size=50), [0.3]):
                for rule in RULES:
                    km.KernelBayes(rule).fit(*noisy).posterior([[0.5]], prior).interval()

    def test_a_point_where_the_kernel_is_zero(self, xy):
        """A linear kernel says nothing about the origin, and nothing is divided by it."""
        model = km.KernelBayes(kernel_z="linear").fit(*xy)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            weights = model.weights(xy[0][:1], [[0.0, 0.0], [1.0, 1.0]])
        assert np.isfinite(weights).all()

    def test_a_prior_of_nothing(self, xy):
        prior = km.MeanEmbedding(xy[1], np.zeros(30), km.Gaussian(1.0))
        with pytest.warns(km.NumericalWarning, match="prior"):
            assert np.isfinite(km.KernelBayes().fit(*xy).weights(xy[0][:1], prior)).all()

    def test_only_the_points_and_weights_of_a_prior_count(self, xy, new, prior_points, alpha):
        """Its kernel is that of the latents."""
        model = bayes().fit(*xy)
        a, b = (
            model.weights(new, km.MeanEmbedding(prior_points, alpha, kernel))
            for kernel in (km.Gaussian(0.6), km.Linear())
        )
        assert_array_equal(a, b)

    @pytest.mark.parametrize("selection", ["heldout", "balance"])
    @pytest.mark.parametrize("rule", RULES)
    def test_all_of_its_latents_in_one_fold(self, rule, selection):
        """The prior's symbol occurs once among the pairs: four folds know nothing of it."""
        Z = np.repeat([0.0, 1.0], [20, 1])[:, None]
        X = np.tile([0.0, 1.0, 1.0], 7)[:, None]
        model = km.KernelBayes(rule, "delta", "delta", reg_prior=1e-9, selection=selection)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", km.NumericalWarning)
            weights = model.fit(X, Z).weights([[1.0]], [[1.0]])
        assert np.isfinite(weights).all()


# --------------------------------------------------------------------------------- other ratios
class TestRatio:
    def test_a_callable_and_its_values_are_one(self, xy, new):
        X, Z = xy

        def ratio(Z):
            return np.exp(Z[:, 0])

        expected = dense.importance_weights(gram_x(X), gram_x(X, new), ratio(Z) / 30, 1e-2)
        for given in (ratio, ratio(Z), list(ratio(Z)), pd.Series(ratio(Z)), ratio(Z)[:, None]):
            assert_allclose(bayes(ratio=given).fit(X, Z).weights(new), expected, atol=1e-6)

    @pytest.mark.parametrize("rule", RULES)
    def test_negative_values_are_floored_by_importance_only(self, xy, new, rule, rng):
        X, Z = xy
        r = 1 + rng.normal(size=30)
        expected = dense.bayes_weights(rule, gram_x(X), gram_x(X, new), r / 30, 1e-2)
        assert_allclose(bayes(rule, ratio=r).fit(X, Z).weights(new), expected, atol=1e-6)

    def test_the_plain_estimator_with_the_same_settings_changes_nothing(self, xy, new, alpha):
        plain = bayes().fit(*xy)
        same = bayes(ratio=km.DensityRatio(km.Gaussian(0.6), 0.05, km.Exact())).fit(*xy)
        prior = km.MeanEmbedding(xy[1][:12], alpha, km.Gaussian(0.6))
        assert_allclose(same.weights(new, prior), plain.weights(new, prior), atol=1e-9)
        assert same.regularisers() == (0.05, 1e-2)

    @pytest.mark.parametrize("share", [0.1, 0.5])
    @pytest.mark.parametrize("rule", RULES)
    def test_relative_ratio(self, xy, new, share, rule):
        """The prior's points are training latents, so that full rank covers both samples."""
        X, Z = xy
        U = Z[::3]
        K = gram_z(np.concatenate([Z, U]))
        r = dense.relative_ratio(K, 30, np.full(10, 0.1), 0.05, share)[:30]
        expected = dense.bayes_weights(rule, gram_x(X), gram_x(X, new), r / 30, 1e-2)
        ratio = km.DensityRatio(km.Gaussian(0.6), 0.05, km.Exact(), relative=share)
        assert_allclose(bayes(rule, ratio=ratio).fit(X, Z).weights(new, U), expected, atol=1e-6)

    def test_the_given_estimator_is_left_alone(self, xy, new):
        ratio = km.DensityRatio(relative=0.1)
        km.KernelBayes(ratio=ratio).fit(*xy).posterior(new)
        assert not hasattr(ratio, "weights_")

    def test_the_true_ratio_on_a_finite_set(self):
        X, Z = TABLE.pairs(300, np.random.default_rng(0))
        counted = np.bincount(Z[:, 0].astype(int)) / 300
        true = (TABLE.prior / counted)[Z[:, 0].astype(int)]
        model = km.KernelBayes("importance", "delta", "delta", reg=1e-12, ratio=true).fit(X, Z)
        got = model.posterior(np.arange(4.0)[:, None])([[0.0], [1.0], [2.0]])
        expected = dense.posterior_table(dense.counted_likelihood(X, Z), TABLE.prior)
        assert_allclose(got, expected, atol=1e-6)

    def test_the_regulariser_of_the_prior_plays_no_part(self, xy, new):
        r = np.ones(30)
        a, b = (bayes(ratio=r, reg_prior=eta).fit(*xy).weights(new) for eta in (1e-3, 1.0))
        assert_array_equal(a, b)


# ------------------------------------------------------------------ posterior regularisation
class TestSupervision:
    """Song 2016, Proposition 3: supervision rows are appended with their strength for a share."""

    @pytest.fixture
    def pairs(self, rng) -> tuple[np.ndarray, np.ndarray]:
        """Supervision among the training observations and beyond them."""
        return 2 * rng.normal(size=(4, 2)), rng.normal(size=(4, 2))

    @pytest.mark.parametrize("strength", [0.3, [0.1, 0.2, 0.3, 0.4], np.array([5.0, 0, 0, 1])])
    def test_equals_appended_rows(self, xy, new, prior_points, pairs, strength):
        X, Z = xy
        x_s, z_s = pairs
        rows = np.concatenate([X, x_s])
        beta = np.maximum(shares(Z, 0.05, prior_points), 0)
        beta = np.concatenate([beta, np.broadcast_to(strength, 4)])
        expected = dense.importance_weights(gram_x(rows), gram_x(rows, new), beta, 1e-2)
        got = bayes().fit(X, Z).posterior(new, prior_points, (x_s, z_s, strength))
        assert_allclose(got.weights, expected, atol=1e-6)
        assert_array_equal(got.points, np.concatenate([Z, z_s]))
        song = dense.thresholding_weights(gram_x(rows), gram_x(rows, new), beta, 1e-2)
        assert_allclose(got.weights, song, atol=1e-6)

    def test_where_there_are_no_observations(self, noisy):
        """There it is all that is known."""
        X, Z = noisy
        model = km.KernelBayes(reg=1e-3, reg_prior=1e-2).fit(X, Z)
        for x in (3.0, 6.0, 30.0):
            told = model.posterior([[x]], supervision=([[x]], [[-7.0]], 1.0))
            assert_allclose(told.mean(), [[-7.0]], atol=0.2)
            assert told.total()[0] == pytest.approx(1.0, abs=0.02)

    def test_point_masses_are_points(self, xy, new, pairs):
        x_s, z_s = pairs
        model = bayes().fit(*xy)
        masses = km.MeanEmbedding(z_s, np.eye(4), km.Gaussian(0.6))
        a = model.posterior(new, supervision=(x_s, z_s, 0.3))
        b = model.posterior(new, supervision=(x_s, masses, 0.3))
        assert_allclose(a.weights, b.weights, atol=1e-12)
        assert_allclose(a.mean(), b.mean(), atol=1e-12)

    def test_point_masses_are_points_when_the_regulariser_is_chosen(self, xy, new, pairs):
        x_s, z_s = pairs
        model = bayes(reg=None).fit(*xy)
        masses = km.MeanEmbedding(z_s, np.eye(4), km.Gaussian(0.6))
        a, b = (model.posterior(new, supervision=(x_s, t, 0.3)).weights for t in (z_s, masses))
        assert_allclose(a, b, atol=1e-9)

    def test_embeddings_spread_their_weight_over_their_points(self, xy, new, pairs, rng):
        """A target Σ a_j k(t_j, ·) is the same average of answers to the point targets."""
        X, Z = xy
        x_s, points = pairs[0][:2], rng.normal(size=(5, 2))
        A = rng.dirichlet(np.ones(5), size=2)
        model = bayes().fit(X, Z)
        got = model.posterior(new, supervision=(x_s, km.MeanEmbedding(points, A, "delta"), 0.3))
        rows = np.concatenate([X, x_s])
        beta = np.concatenate([np.maximum(shares(Z, 0.05), 0), [0.3, 0.3]])
        W = dense.importance_weights(gram_x(rows), gram_x(rows, new), beta, 1e-2)
        assert_allclose(got.weights, np.hstack([W[:, :30], W[:, 30:] @ A]), atol=1e-6)

    def test_a_single_embedding_is_one_target(self, xy, new, pairs):
        target = km.MeanEmbedding(pairs[1], kernel=km.Gaussian(0.6))
        got = bayes().fit(*xy).posterior(new, supervision=(pairs[0][:1], target, 0.3))
        assert got.weights.shape == (9, 34)

    def test_no_strength_is_no_supervision(self, xy, new, pairs):
        model = bayes().fit(*xy)
        with_it = model.posterior(new, supervision=(*pairs, 0.0))
        assert_allclose(with_it.weights[:, :30], model.weights(new), atol=1e-12)
        assert_array_equal(with_it.weights[:, 30:], 0.0)

    def test_no_strength_is_no_supervision_for_the_choice_of_the_regulariser(self, xy, new, pairs):
        model, nothing = bayes(reg=None, selection="loo_min").fit(*xy), (*pairs, 0.0)
        assert model.regularisers(supervision=nothing)[1] == pytest.approx(
            model.regularisers()[1], rel=1e-3
        )
        with_it = model.posterior(new, supervision=nothing).weights
        assert_allclose(with_it[:, :30], model.weights(new), atol=1e-3)

    def test_great_strength_wins(self, xy):
        """At the supervised observation the posterior is the target."""
        x_s = [[0.5, 0.5]]
        model = bayes(reg=1e-3).fit(*xy)
        got = model.predict(x_s, supervision=(x_s, [[5.0, -5.0]], 1e6))
        assert_allclose(got, [[5.0, -5.0]], atol=1e-3)

    def test_weights_and_predict_take_it_too(self, xy, new, pairs):
        model, supervision = bayes().fit(*xy), (*pairs, 0.3)
        posterior = model.posterior(new, supervision=supervision)
        assert_array_equal(model.weights(new, supervision=supervision), posterior.weights)
        assert_allclose(model.predict(new, supervision=supervision), posterior.mean())

    def test_all_selections(self, xy, new, pairs):
        for selection in ("loo", "loo_min", "heldout", "balance"):
            model = bayes(reg=None, selection=selection).fit(*xy)
            assert np.isfinite(model.predict(new, supervision=(*pairs, 0.3))).all()

    def test_the_squared_rule_refuses(self, xy, new, pairs):
        with pytest.raises(ValueError, match=r"supervision.*importance"):
            bayes("squared").fit(*xy).posterior(new, supervision=(*pairs, 0.3))

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("supervision", lambda x, z: 3),
            ("supervision", lambda x, z: (x, z)),
            ("supervision", lambda x, z: "abcd"),
            ("x_s", lambda x, z: (x[:, :1], z, 1.0)),
            ("x_s", lambda x, z: (np.full_like(x, np.nan), z, 1.0)),
            ("x_s", lambda x, z: (None, z, 1.0)),
            ("z_s", lambda x, z: (x, z[:, :1], 1.0)),
            ("z_s", lambda x, z: (x, z[:3], 1.0)),
            ("z_s", lambda x, z: (x, np.full_like(z, np.inf), 1.0)),
            ("z_s", lambda x, z: (x, None, 1.0)),
            ("z_s", lambda x, z: (x, km.MeanEmbedding(z, kernel="delta"), 1.0)),
            ("z_s", lambda x, z: (x, km.MeanEmbedding(z[:, :1], np.eye(4), "delta"), 1.0)),
            ("strength", lambda x, z: (x, z, -1.0)),
            ("strength", lambda x, z: (x, z, np.nan)),
            ("strength", lambda x, z: (x, z, None)),
            ("strength", lambda x, z: (x, z, "strong")),
            ("strength", lambda x, z: (x, z, [1.0, 2.0])),
            ("strength", lambda x, z: (x, z, np.ones((4, 2)))),
        ],
    )
    def test_nonsense_is_refused_by_name(self, xy, new, pairs, name, change):
        with pytest.raises(ValueError, match=rf"\b{name}\b"):
            bayes().fit(*xy).posterior(new, supervision=change(*pairs))


# ------------------------------------------------------------------ choosing the regularisers
class TestSelection:
    GRID = 10 ** np.linspace(-7, 1, 49)

    def problem(self, xy, prior_points):
        """Gram matrices, and shares with some below zero."""
        X, Z = xy
        beta = shares(Z, 0.01, prior_points)
        assert (beta < 0).any()
        return gram_x(X), gram_z(Z), beta

    def chosen(self, xy, prior_points, selection, rule="importance") -> float:
        model = bayes(rule, reg_prior=0.01, reg=None, selection=selection).fit(*xy)
        return model.regularisers(prior_points)[1]

    def test_loo_min_minimises_the_loss_of_real_refits(self, xy, prior_points):
        problem = self.problem(xy, prior_points)

        def loss(reg):
            return dense.weighted_loo_by_refits(*problem, reg).sum()

        best = min(loss(reg) for reg in self.GRID)
        chosen = self.chosen(xy, prior_points, "loo_min")
        assert loss(chosen) <= best * (1 + 1e-6)
        # a third of a decade either way is no better
        assert loss(chosen) <= min(loss(2 * chosen), loss(chosen / 2))

    def test_loo_is_the_largest_within_one_standard_error(self, xy, prior_points):
        problem = self.problem(xy, prior_points)
        least = self.chosen(xy, prior_points, "loo_min")
        chosen = self.chosen(xy, prior_points, "loo")
        terms = dense.weighted_loo_by_refits(*problem, least)
        bound = terms.sum() + np.sqrt(30) * terms.std()
        at = dense.weighted_loo_by_refits(*problem, chosen).sum()
        assert chosen > least
        assert at == pytest.approx(bound, rel=1e-2)
        assert at <= bound * (1 + 1e-3)
        assert dense.weighted_loo_by_refits(*problem, 1.1 * chosen).sum() > bound

    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("selection", ["heldout", "balance"])
    def test_folds_minimise_the_loss_of_real_refits(self, xy, prior_points, rule, selection):
        order = canonical_order(xy[0])  # every fifth row of which is a fold
        problem = self.problem([A[order] for A in xy], prior_points)
        loss = {"heldout": dense.heldout_loss, "balance": dense.balance_loss}[selection]
        grid = self.GRID if rule == "importance" else 10 ** np.linspace(-11, 2, 79)
        losses = [loss(rule, *problem, reg) for reg in grid]
        chosen = loss(rule, *problem, self.chosen(xy, prior_points, selection, rule))
        assert chosen <= min(losses) * (1 + 1e-3)

    @pytest.mark.parametrize("selection", ["loo", "heldout"])
    def test_a_table_twice_is_the_table_once(self, xy, new, selection):
        """Copies of a pair are left out together: in folds, of widths of laws, of their means."""
        rule = "importance" if selection == "loo" else "squared"
        once, twice = (
            km.KernelBayes(rule, selection=selection).fit(*(np.repeat(A, k, axis=0) for A in xy))
            for k in (1, 2)
        )
        assert_allclose(twice.predict(new), once.predict(new), atol=0.3)
        told = [model.posterior(new).bandwidth for model in (twice, once)]
        assert_allclose(*told, rtol=0.2)

    def test_balance_measures_the_average_posterior_against_the_prior(self):
        """On a finite set the average of P(z | x) over the observations is P(z): no loss at 0."""
        X, Z = (np.tile(a, (25, 1)) for a in ([[0.0], [0], [1], [1]], [[0.0], [1], [1], [1]]))
        # every fold of 100 rows holds the four kinds of pairs equally often
        order = np.argsort(np.arange(100) // 4 % 5, kind="stable").reshape(5, 20).T.ravel()
        K_x, K_z = (km.Delta()(A[order]) for A in (X, Z))
        losses = [
            dense.balance_loss("importance", K_x, K_z, np.full(100, 0.01), reg)
            for reg in (1e-9, 1e-2, 1.0)
        ]
        assert losses[0] == pytest.approx(0.0, abs=1e-12)
        assert losses[0] < losses[1] < losses[2]
        model = km.KernelBayes(
            kernel_x="delta", kernel_z="delta", ratio=np.ones(100), selection="balance"
        ).fit(X[order], Z[order])
        assert_allclose(model.posterior([[0.0]])([[0.0], [1.0]])[0], [0.5, 0.5], atol=1e-3)

    def test_auto(self, xy, prior_points):
        for rule, selection in (("importance", "loo"), ("squared", "heldout")):
            assert self.chosen(xy, prior_points, "auto", rule) == self.chosen(
                xy, prior_points, selection, rule
            )

    @pytest.mark.parametrize("rule", RULES)
    def test_what_is_given_is_used(self, xy, new, rule):
        model = km.KernelBayes(rule, reg=0.123, reg_prior=0.456).fit(*xy)
        assert model.regularisers() == (0.456, 0.123)

    @pytest.mark.parametrize("rule", RULES)
    def test_what_is_told_is_used(self, xy, new, prior_points, rule):
        kernel = km.Gaussian(0.6)
        model = km.KernelBayes(rule, kernel_z=kernel).fit(*xy)
        reg_prior, reg = model.regularisers(prior_points)
        fixed = km.KernelBayes(rule, kernel_z=kernel, reg_prior=reg_prior, reg=reg).fit(*xy)
        assert_allclose(
            model.weights(new, prior_points), fixed.weights(new, prior_points), atol=1e-12
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("rule", ["importance", "density"])
    def test_a_sampled_prior_has_a_ratio_that_chooses_for_itself(self, rule):
        """Latents and prior normal, seen with noise: kernels alone are farther from the exact."""
        rng = np.random.default_rng(3)
        Z, prior = rng.normal(size=(300, 2)), 0.5 * rng.normal(size=(200, 2)) + [0.8, 0.0]
        X, new = Z + 0.5 * rng.normal(size=Z.shape), rng.normal(0.5, 0.6, size=(50, 2))
        exact = (new / 0.25 + np.array([0.8, 0.0]) / 0.25) / 8.0
        model = km.KernelBayes(rule).fit(X, Z)
        alone = km.KernelBayes(rule, ratio=km.DensityRatio(model.kernel_z_)).fit(X, Z)
        found, by_kernels = model.predict(new, prior), alone.predict(new, prior)
        assert np.mean((found - exact) ** 2) < 0.7 * np.mean((by_kernels - exact) ** 2)
        given = km.KernelBayes(rule, ratio=km.DensityRatio()).fit(X, Z)
        assert_allclose(found, given.predict(new, prior), atol=1e-8)
        eta = km.DensityRatio().fit(Z, prior).reg_
        assert model.regularisers(prior)[0] == pytest.approx(eta, rel=1e-6)

    @pytest.mark.parametrize("rows", [1, 2])
    def test_a_prior_of_few_rows_chooses_nothing(self, rows):
        rng = np.random.default_rng(4)
        Z, prior = rng.normal(size=(200, 1)), rng.normal(0.8, 0.5, size=(rows, 1))
        X = Z + 0.5 * rng.normal(size=Z.shape)
        model = km.KernelBayes().fit(X, Z)
        alone = km.KernelBayes(ratio=km.DensityRatio(model.kernel_z_)).fit(X, Z)
        assert_allclose(model.predict(X[:9], prior), alone.predict(X[:9], prior), atol=1e-8)

    def test_a_learned_ratio_is_kept(self, xy, new, prior_points, tmp_path, monkeypatch):
        model = km.KernelBayes().fit(*xy)
        expected = model.weights(new, prior_points)
        model.save(tmp_path / "model")
        again = km.load(tmp_path / "model")
        assert_array_equal(again.weights(new, prior_points), expected)
        model.ratio = km.DensityRatio(relative=0.5)  # another is
        assert np.abs(model.weights(new, prior_points) - expected).max() > 1e-3
        model.ratio = None
        monkeypatch.setattr(km.DensityRatio, "fit", None)  # nothing is learned again
        for known in (model, again):
            assert_array_equal(known.weights(new, prior_points), expected)

    def test_a_given_ratio_has_no_regulariser_of_the_prior(self, xy):
        model = km.KernelBayes(ratio=np.ones(30), reg=0.1).fit(*xy)
        assert model.regularisers() == (None, 0.1)

    def test_the_given_regulariser_needs_no_search(self, xy, new):
        a, b = (bayes(reg=0.1, selection=s).fit(*xy).weights(new) for s in ("loo", "balance"))
        assert_array_equal(a, b)

    def test_each_prior_has_its_own(self, noisy):
        model = km.KernelBayes().fit(*noisy)
        priors = (None, [[1.5], [1.6]], np.linspace(-2, 2, 50))
        found = [model.regularisers(prior) for prior in priors]
        assert len({eta for eta, _ in found}) == len({reg for _, reg in found}) == 3

    def test_asking_changes_nothing(self, noisy):
        model = km.KernelBayes().fit(*noisy)
        before = dict(vars(model))
        model.posterior([[0.0]], [[0.5], [0.6], [0.7]])
        model.regularisers()
        assert vars(model) == before

    def test_reg_prior_minimises_the_score_of_real_refits(self, xy):
        X, Z = xy
        U = Z[:11] * [1.0, 0.5]  # a linear kernel: the columns are the features
        settings = {"kernel_x": km.Gaussian(0.8), "kernel_z": "linear", "features": km.Exact()}
        chosen = km.KernelBayes(**settings, reg=0.1).fit(X, Z).regularisers(U)[0]

        def score(eta):
            parts = dense.relative_loo_by_refits(Z, U, np.full(11, 1 / 11), eta, 0.0)
            return sum(part.sum() for part in parts)

        best = min(score(eta) for eta in 10 ** np.linspace(-8, 1, 181))
        assert score(chosen) <= best + 1e-6 * abs(best)
        assert chosen == pytest.approx(
            km.DensityRatio("linear", features=km.Exact()).fit(Z, U).reg_, rel=1e-6
        )

    def test_tuned_lengthscale_has_the_least_regression_losses(self):
        """Of Z's features and of Z left out, each scale with its own best regulariser."""
        rng = np.random.default_rng(5)
        X = rng.uniform(-2, 2, size=(40, 1))
        Z = np.sin(4 * X) + 0.05 * rng.normal(size=X.shape)
        model = bayes(
            kernel_x=km.Gaussian(2.0), reg_prior=None, reg=None, tune_lengthscale=True
        ).fit(X, Z)

        grams = gram_z(Z), np.outer(Z - Z.mean(), Z - Z.mean()) / Z.var()

        def losses(scale):
            K = km.Gaussian(2.0 * scale)(X)
            regs = 10 ** np.linspace(-6, -1, 9)
            return [min(oracles.loo_loss_by_refits(K, G, r) for r in regs) for G in grams]

        scale, tried = model.kernel_x_.lengthscale / 2.0, (0.12, 0.2, 0.35, 0.6, 1.0, 2.0)
        found, others = losses(scale), np.array([losses(s) for s in tried])
        assert 0.1 <= scale < 1.0
        assert found[0] < others[tried.index(1.0), 0]
        assert np.prod(found) < 1.05 * others.prod(axis=1).min()

    def test_a_tuned_lengthscale_keeps_the_safer_regulariser_where_priors_agree(self):
        rng = np.random.default_rng(5)
        X = rng.normal(size=(120, 2))
        Z = X[:, :1] * X[:, 1:] + 0.1 * rng.normal(size=(120, 1))
        tuned = km.KernelBayes(tune_lengthscale=True).fit(X, Z)
        by = {how: clone(tuned).set_params(selection=how).fit(X, Z) for how in ("loo", "loo_min")}
        own, least = (model.regularisers(None)[1] for model in by.values())
        assert tuned.regularisers(None)[1] == own > 1.5 * least
        other = 0.3 * rng.normal(size=(300, 1)) + 1.0
        own, least = (model.regularisers(other)[1] for model in by.values())
        assert own == least

    @pytest.mark.parametrize("spread", [1.0, 0.5**0.5])
    def test_a_narrower_prior_of_many_columns_is_seen(self, spread):
        """With 200 pairs no ratio is: shares are even, and yet λ has to be the safer one."""
        rng = np.random.default_rng(7)
        Z, prior = (s * rng.normal(size=(200, 30)) for s in (1.0, spread))
        X = Z + rng.normal(size=Z.shape)
        model = km.KernelBayes().fit(X, Z)
        Phi, d = model._fit.Phi, np.maximum(model._pairs(prior, None).beta, 0.0)
        loss = LeaveOneOut(Phi, model._fit.Q, EigenGrid.of((Phi.T * d) @ Phi), d)
        even, safer = (loss.best(one_se=True, paired=paired)[0] for paired in (True, False))
        assert even < 0.8 * safer
        expected = even if spread == 1.0 else safer
        assert model.regularisers(prior)[1] == pytest.approx(expected, rel=1e-6)

    @pytest.mark.slow
    def test_one_standard_error_is_safer_away_from_the_observations(self):
        """Narrow pairs, wide prior and observations: the heavier λ errs less, on average."""
        errors = {"loo": [], "loo_min": []}
        for seed in range(40, 47):
            rng = np.random.default_rng(seed)
            model = dense.GaussianModel.draw(2, rng)
            (X, Z), prior = model.pairs(150, rng), model.prior(150, rng)
            observed = rng.multivariate_normal(np.zeros(2), 2 * model.V[2:, 2:], size=200)
            truth = model.posterior(observed)[0]
            for selection, found in errors.items():
                rule = km.KernelBayes(selection=selection).fit(X, Z)
                found.append(np.mean((rule.predict(observed, prior) - truth) ** 2))
        assert np.median(errors["loo"]) < np.median(errors["loo_min"])

    @pytest.mark.slow
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("d", [1, 2])
    def test_chosen_regularisers_beat_those_of_the_paper(self, rule, d):
        """Xu 2022, section 6.1: η = λ = 0.2."""
        settings = {"chosen": {}, "the paper's": {"reg": 0.2, "reg_prior": 0.2}}
        errors = {name: [] for name in settings}
        for seed in range(40, 43):
            rng = np.random.default_rng(seed)
            model = dense.GaussianModel.draw(d, rng)
            (X, Z), prior = model.pairs(300, rng), model.prior(300, rng)
            observed = model.observe(model.prior(100, rng), rng)
            truth = model.posterior(observed)[0]
            for name, given in settings.items():
                mean = km.KernelBayes(rule, **given).fit(X, Z).predict(observed, prior)
                errors[name].append(np.mean((mean - truth) ** 2))
        assert np.mean(errors["chosen"]) < np.mean(errors["the paper's"]) / 1.5


# ------------------------------------------------------------------------------------- answers
class TestAnswers:
    def test_predict_is_normalised_and_expectation_is_not(self, xy, new):
        model = bayes(reg=0.5).fit(*xy)
        posterior = model.posterior(new)
        W = posterior.weights
        assert np.abs(W.sum(axis=1) - 1).max() > 0.05
        assert_allclose(posterior.expectation(lambda z: z), W @ xy[1])
        mean = W @ xy[1] / W.sum(axis=1, keepdims=True)
        assert_allclose(posterior.mean(), mean, rtol=1e-9)
        assert_allclose(model.predict(new), mean, rtol=1e-9)

    def test_shapes(self, xy, new):
        X, Z = xy
        assert bayes().fit(X, Z).predict(new).shape == (9, 2)
        assert bayes().fit(X, Z[:, :1]).predict(new).shape == (9, 1)
        assert bayes().fit(X, Z[:, 0]).predict(new).shape == (9,)
        assert bayes().fit(X, list(Z[:, 0])).predict(new).shape == (9,)

    def test_the_posterior_is_an_embedding_like_any_other(self, xy, new):
        posterior = km.KernelBayes().fit(*xy).posterior(new)
        assert posterior.cov().shape == (9, 2, 2)
        assert posterior[0].mode().shape == (2,)
        assert posterior.quantile([0.1, 0.9]).shape == (9, 2, 2)
        assert posterior[:2].sample(5, 0).shape == (2, 5, 2)
        assert posterior.density(new).shape == (9, 9)
        assert posterior.kernel == km.KernelBayes().fit(*xy).kernel_z_

    def test_a_posterior_is_the_next_prior(self):
        """Two conditionally independent looks at a finite latent are one joint look."""
        X, Z = TABLE.pairs(300, np.random.default_rng(0))
        settings = {"reg": 1e-12, "reg_prior": 1e-12}
        model = km.KernelBayes("importance", "delta", "delta", **settings).fit(X, Z)
        start = km.MeanEmbedding([[0], [1], [2]], TABLE.prior, "delta")
        first = model.posterior([[2.0]], start)[0]
        second = model.posterior([[0.0]], first)[0]
        likelihood = dense.counted_likelihood(X, Z)
        joint = TABLE.prior * likelihood[:, 2] * likelihood[:, 0]
        assert_allclose(second([[0.0], [1.0], [2.0]]), joint / joint.sum(), atol=1e-6)

    @pytest.mark.slow
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("d", [1, 2])
    def test_ninety_percent_intervals_hold_about_ninety_percent(self, rule, d):
        """Issue 3: between 85% and 95%, in exact posterior probability, n = 1,000."""
        held, means, spreads = [], [], []
        for seed in range(40, 43):
            rng = np.random.default_rng(seed)
            model = dense.GaussianModel.draw(d, rng)
            (X, Z), prior = model.pairs(1000, rng), model.prior(1000, rng)
            observed = model.observe(model.prior(100, rng), rng)
            posterior = km.KernelBayes(rule).fit(X, Z).posterior(observed, prior)
            held.append(model.mass(observed, *posterior.interval(0.9)).mean())
            mean, covariance = model.posterior(observed)
            means.append(np.mean((posterior.mean() - mean) ** 2) / np.trace(covariance) * d)
            spreads.append(posterior.cov().mean(axis=0) / np.diag(covariance))
        assert 0.85 <= np.mean(held) <= 0.95
        # means within a quarter of the posterior's spread, variances within a third
        assert np.mean(means) < 0.06
        assert_allclose(np.mean([np.diag(s) for s in spreads], axis=0), 1.0, atol=0.35)

    @pytest.mark.slow
    def test_more_pairs_are_better(self):
        def error(n) -> float:
            found = []
            for seed in range(40, 46):
                rng = np.random.default_rng(seed)
                model = dense.GaussianModel.draw(1, rng)
                (X, Z), prior = model.pairs(n, rng), model.prior(n, rng)
                observed = model.observe(model.prior(100, rng), rng)
                mean = km.KernelBayes().fit(X, Z).predict(observed, prior)
                found.append(np.mean((mean - model.posterior(observed)[0]) ** 2))
            return float(np.mean(found))

        assert error(1600) < error(100) / 4


# ------------------------------------------------------------------------- tables, files, tools
class TestTables:
    def frames(self, xy) -> tuple[pd.DataFrame, pd.DataFrame]:
        X, Z = xy
        return pd.DataFrame(X, columns=["east", "north"]), pd.DataFrame(Z, columns=["a", "b"])

    def test_frames_are_arrays(self, xy, new, prior_points):
        X, Z = self.frames(xy)
        model = bayes().fit(X, Z)
        got = model.predict(
            pd.DataFrame(new, columns=X.columns), pd.DataFrame(prior_points, columns=Z.columns)
        )
        assert_array_equal(got, bayes().fit(*xy).predict(new, prior_points))
        assert list(model.feature_names_in_) == ["east", "north"]
        assert model.n_features_in_ == 2

    def test_a_series_is_a_column(self, xy, new):
        X, Z = self.frames(xy)
        assert_array_equal(
            bayes().fit(X, Z["a"]).predict(pd.DataFrame(new, columns=X.columns)),
            bayes().fit(*xy[:1], xy[1][:, 0]).predict(new),
        )

    def test_kernels_by_column_name(self, xy, new):
        X, Z = self.frames(xy)
        named = km.on_columns({"east": km.Gaussian(0.8), "north": km.Gaussian(0.3)})
        numbered = km.on_columns({0: km.Gaussian(0.8), 1: km.Gaussian(0.3)})
        a = bayes(kernel_x=named).fit(X, Z).weights(pd.DataFrame(new, columns=X.columns))
        assert_array_equal(a, bayes(kernel_x=numbered).fit(*xy).weights(new))

    def test_other_names_are_refused(self, xy, new):
        X, Z = self.frames(xy)
        with pytest.raises(ValueError, match="feature names"):
            bayes().fit(X, Z).predict(pd.DataFrame(new, columns=["east", "west"]))

    def test_input_is_left_alone_and_not_looked_at_again(self, xy, new, prior_points):
        X, Z, prior = (a.copy() for a in (*xy, prior_points))
        model = bayes().fit(X, Z)
        before = model.predict(new, prior)
        for a, kept in ((X, xy[0]), (Z, xy[1]), (prior, prior_points)):
            assert_array_equal(a, kept)
            a[:] = 0.0
        assert_array_equal(model.predict(new, prior_points), before)

    def test_the_same_fit_twice(self, xy, new):
        a, b = (km.KernelBayes().fit(*xy).predict(new) for _ in range(2))
        assert_array_equal(a, b)

    def test_healthy_data_warn_of_nothing(self, xy, new, prior_points):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for rule in RULES:
                km.KernelBayes(rule).fit(*xy).posterior(new, prior_points).interval()


class TestFiles:
    @pytest.mark.parametrize(
        "model",
        [
            km.KernelBayes(),
            bayes("squared"),
            bayes(ratio=km.DensityRatio(relative=0.2)),
            bayes(ratio=np.linspace(0.5, 1.5, 30)),
            bayes(features=km.RandomFourier(20, random_state=1)),
        ],
        ids=["default", "squared", "relative ratio", "given ratio", "random Fourier"],
    )
    def test_there_and_back(self, xy, new, prior_points, tmp_path, model):
        model = clone(model).fit(*xy)
        before = model.predict(new, prior_points)
        model.save(tmp_path / "model.km")
        again = km.load(tmp_path / "model.km")
        assert type(again) is km.KernelBayes
        assert_array_equal(again.predict(new, prior_points), before)
        assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()

    def test_a_posterior_can_be_saved(self, xy, new, tmp_path):
        posterior = bayes().fit(*xy).posterior(new)
        posterior.save(tmp_path / "posterior.km")
        assert_array_equal(km.load(tmp_path / "posterior.km").weights, posterior.weights)

    def test_a_python_function_cannot(self, xy, tmp_path):
        model = bayes(ratio=lambda Z: np.ones(len(Z))).fit(*xy)
        with pytest.raises(ValueError, match="saved"):
            model.save(tmp_path / "model.km")
        assert not (tmp_path / "model.km").exists()


class PosteriorsOfY(km.KernelBayes):
    """KernelBayes with the y, its Z, that scikit-learn's checks name as they ask for a score."""

    def score(self, X, y):
        return super().score(X, y)


class TestScikitLearn:
    def test_clone_and_parameters(self):
        model = bayes(ratio=km.DensityRatio(relative=0.2), selection="loo_min")
        again = clone(model)
        assert again.get_params()["ratio__relative"] == 0.2
        assert again.set_params(ratio__relative=0.5, reg=None).ratio.relative == 0.5
        assert model.ratio.relative == 0.2
        with pytest.raises(ValueError, match="regg"):
            model.set_params(regg=1)

    def test_cloning_forgets_the_fit(self, xy, new):
        model = bayes().fit(*xy)
        model.posterior(new)
        assert not any(name.endswith("_") for name in vars(clone(model)))

    def test_init_does_nothing_but_store(self):
        km.KernelBayes("nonsense", reg=-1, ratio=3, selection="nonsense", features=7)

    def test_fit_does_not_change_parameters(self, xy):
        features = km.Nystroem(tol=1e-3)
        model = km.KernelBayes(features=features, tune_lengthscale=True).fit(*xy)
        assert model.features is features
        assert not hasattr(features, "rank_")
        assert model.reg is None
        assert model.kernel_x == "gaussian"

    def test_pipeline(self, xy, new):
        pipe = make_pipeline(StandardScaler(), bayes()).fit(100 * xy[0], xy[1])
        scaler = StandardScaler().fit(xy[0])
        expected = bayes().fit(scaler.transform(xy[0]), xy[1]).predict(scaler.transform(new))
        assert_allclose(pipe.predict(100 * new), expected, atol=1e-9)

    @parametrize_with_checks(
        [PosteriorsOfY(), PosteriorsOfY("squared", reg=0.1, features=km.Exact())],
        expected_failed_checks=lambda _: {
            "check_fit_score_takes_y": "the second argument of fit is Z, the latents, and not y",
            "check_regressors_train": "score is the mean log density, which is not in (0, 1)",
            "check_requires_y_none": "that the latents are missing is said of Z, not of y",
        },
    )
    @pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
    def test_scikit_learn_checks(self, estimator, check):
        check(estimator)


# ---------------------------------------------------------------------------------- bad input
BAD_SETTINGS = {
    "rule": ["importances", None, 3, ["squared"]],
    "selection": ["cv", None, 3, True],
    "reg": [-1.0, np.nan, np.inf, "small", True, [0.1]],
    "reg_prior": [-1.0, np.nan, np.inf, "small", True, [0.1]],
    "features": [3, "nystroem", km.Nystroem],
    "kernel_x": ["gauss", None, 3],
    "kernel_z": ["gauss", None, 3],
    "ratio": [
        3.0,
        "kulsif",
        np.ones(29),
        np.ones((30, 2)),
        np.full(30, np.nan),
        np.full(30, np.inf),
        lambda Z: Z,
        lambda Z: None,
        lambda Z: np.ones(3),
        lambda Z: np.full(len(Z), np.nan),
        lambda Z: 1.0,
    ],
}
GOOD = np.random.default_rng(7).normal(size=(30, 2))
BAD_ARRAYS = {
    "None": None,
    "text": "fig",
    "words": np.full((30, 2), "fig"),
    "a number": 3.0,
    "3-D": np.ones((30, 2, 2)),
    "no rows": np.empty((0, 2)),
    "NaN": np.where(GOOD > 1, np.nan, GOOD),
    "inf": np.where(GOOD > 1, np.inf, GOOD),
    "complex": GOOD + 1j,
    "ragged": [[1.0, 2.0], [3.0]],
    "huge": 1e200 * GOOD,
}


class TestBadInput:
    @pytest.mark.parametrize(
        ("name", "value"),
        [(name, value) for name, values in BAD_SETTINGS.items() for value in values],
        ids=lambda v: v if isinstance(v, str) else type(v).__name__,
    )
    def test_settings(self, xy, new, name, value):
        with pytest.raises(ValueError, match=rf"\b{name}\b"):
            km.KernelBayes(**{name: value}).fit(*xy).posterior(new)

    @pytest.mark.parametrize("selection", ["loo", "loo_min"])
    def test_leave_one_out_has_no_closed_form_for_the_squared_rule(self, xy, selection):
        with pytest.raises(ValueError, match=r"selection.*squared.*heldout"):
            km.KernelBayes("squared", selection=selection).fit(*xy)

    @pytest.mark.parametrize("bad", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
    @pytest.mark.parametrize("name", ["X", "Z"])
    def test_fit(self, xy, name, bad):
        X, Z = (bad if name == "X" else xy[0]), (bad if name == "Z" else xy[1])
        with pytest.raises(ValueError, match=rf"\b{name}\b"):
            km.KernelBayes().fit(X, Z)

    @pytest.mark.parametrize("bad", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
    def test_observations(self, xy, bad):
        model = bayes().fit(*xy)
        for verb in (model.posterior, model.weights, model.predict):
            with pytest.raises(ValueError, match=r"\bX\b"):
                verb(bad)

    @pytest.mark.parametrize("bad", [b for k, b in BAD_ARRAYS.items() if k != "None"])
    def test_prior(self, xy, new, bad):
        with pytest.raises(ValueError, match=r"\bprior\b"):
            bayes().fit(*xy).posterior(new, bad)

    def test_prior_of_another_kind(self, xy, new):
        batch = km.MeanEmbedding(xy[1], np.full((2, 30), 1 / 30), km.Gaussian(0.6))
        for bad in (batch, km.MeanEmbedding([0.0, 1.0]), GOOD[:, :1], np.ones((4, 3))):
            with pytest.raises(ValueError, match=r"\bprior\b"):
                bayes().fit(*xy).posterior(new, bad)

    def test_lengths_and_columns(self, xy, new):
        X, Z = xy
        with pytest.raises(ValueError, match=r"Z has 29 rows but X has 30"):
            km.KernelBayes().fit(X, Z[:29])
        with pytest.raises(ValueError, match="X"):
            km.KernelBayes().fit(X[:1], Z[:1])
        with pytest.raises(ValueError, match="X has 1 features"):
            bayes().fit(X, Z).posterior(new[:, :1])
        with pytest.raises(ValueError, match="X"):
            bayes().fit(X, Z).posterior(new[0])

    @pytest.mark.parametrize("name", ["X", "Z"])
    def test_constant_columns(self, xy, name):
        X, Z = (np.ones((30, 2)) if name == key else a for key, a in zip("XZ", xy, strict=True))
        with pytest.raises(ValueError, match=rf"\b{name}\b.*constant"):
            km.KernelBayes().fit(X, Z)

    def test_not_fitted_is_said(self, new):
        for verb in ("posterior", "weights", "predict"):
            with pytest.raises(ValueError, match="fit"):
                getattr(km.KernelBayes(), verb)(new)

    @pytest.mark.parametrize(
        "bad", [None, 3.0, "fig", [1.0, 2.0, 3.0], [np.nan, 1.0], np.ones((2, 2, 2))]
    )
    def test_bayes_rule(self, xy, bad):
        with pytest.raises(ValueError, match=r"\b[xX]\b"):
            km.bayes_rule(*xy, None, bad, reg=0.1)

    def test_bayes_rule_refuses_unknown_settings(self, xy):
        with pytest.raises(TypeError, match="regg"):
            km.bayes_rule(*xy, None, xy[0][0], regg=0.1)

    def test_two_rows_are_enough(self):
        model = km.KernelBayes().fit([[0.0], [1.0]], [[0.0], [1.0]])
        assert np.isfinite(model.predict([[0.2]])).all()

    def test_no_regulariser_at_all(self, xy, new):
        for rule in RULES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", km.NumericalWarning)
                got = km.KernelBayes(rule, reg=0.0, reg_prior=0.0).fit(*xy).weights(new)
            assert np.isfinite(got).all()


# ---------------------------------------------------------------------- the rule "density"
FIXED = {"kernel_x": km.Gaussian(0.8), "kernel_z": km.Gaussian(0.6), "reg": 1e-2}


@pytest.fixture
def pairs_1d(rng) -> tuple[np.ndarray, np.ndarray]:
    """z ~ N(0, 1), x = z + noise of standard deviation 1/2."""
    Z = rng.normal(size=(400, 1))
    return Z + 0.5 * rng.normal(size=(400, 1)), Z


def to_another_prior(z) -> np.ndarray:
    """N(.5, .36) over N(0, 1), up to a constant."""
    return np.exp(-0.5 * ((z[:, 0] - 0.5) / 0.6) ** 2 + 0.5 * z[:, 0] ** 2)


class TestDensityRule:
    def test_without_a_prior_it_is_the_conditional_density(self, pairs_1d):
        X, Z = pairs_1d
        law = km.KernelBayes("density", **FIXED).fit(X, Z).posterior(X[:3])
        expected = km.ConditionalDensity(km.Gaussian(0.8), reg=1e-2, tune_lengthscale=False)
        grid = np.linspace(-2, 2, 7)
        assert_allclose(law.density(grid), expected.fit(X, Z).pdf(grid, X[:3], paired=False))

    @pytest.mark.slow
    def test_modes_are_by_a_kernel_with_a_flatter_top(self, tmp_path):
        """z is one of two lines with noise: heights of modes over that of the exact top."""
        at, tops = np.linspace(-4, 4, 801), []
        for seed in (3, 4, 5):
            rng = np.random.default_rng(seed)
            x, first = rng.uniform(-2, 2, 650), rng.random(650) < 0.6
            Z = np.where(first, 1 + 0.5 * x, -1 + 0.2 * x) + np.where(first, 0.4, 0.3) * rng.normal(
                size=650
            )
            X, new = x[:600, None], x[600:, None]
            exact = 0.6 * norm.pdf(at, 1 + 0.5 * new, 0.4) + 0.4 * norm.pdf(at, 0.2 * new - 1, 0.3)
            model = km.KernelBayes("density").fit(X, Z[:600])
            law, plain = model.posterior(new), model.density_.at(new)
            modes = [one.mode()[:, 0] for one in (law, plain)]
            found = [[np.interp(z, at, p) for z, p in zip(m, exact, strict=True)] for m in modes]
            tops.append((found / exact.max(axis=1)).mean(axis=1))
        flat, usual = np.mean(tops, axis=0)
        assert flat > max(0.95, usual)
        top = law.density(at).max(axis=1)  # and they are the tops of what is said to be the density
        assert_allclose(np.diag(law.density(law.mode())), top, rtol=1e-3)
        assert law.embedding.bandwidth[0] == pytest.approx(1.9 * model.density_.bandwidth_[0])
        gain = law.log_density(at) - plain.log_density(at)
        assert np.abs((exact * gain).sum(axis=1).mean() * 0.01) < 0.01
        model.save(tmp_path / "model.km")
        again = km.load(tmp_path / "model.km").posterior(new)
        assert_allclose(again.density(at), law.density(at), rtol=1e-12)

    @pytest.mark.slow
    def test_rows_left_out_may_object_to_a_flatter_top(self):
        """Where z is even between two ends, a kernel that dips below zero makes both sharper."""
        rng = np.random.default_rng(9100)
        x = rng.uniform(-2, 2, (600, 1))
        model = km.KernelBayes("density").fit(x, x[:, 0] + rng.uniform(-1, 1, 600))
        law, plain = model.posterior(x[:5]), model.density_.at(x[:5])
        assert_allclose(law.density(x[:5]), plain.density(x[:5]))

    def test_another_rule_forgets_the_density(self, pairs_1d):
        X, Z = pairs_1d
        model = km.KernelBayes("density", **FIXED).fit(X, Z)
        model.set_params(rule="importance").fit(X, Z)
        assert model.density_ is None
        expected = km.KernelBayes("importance", **FIXED).fit(X, Z)
        assert_allclose(model.predict(X[:3]), expected.predict(X[:3]))

    @pytest.mark.slow
    def test_another_prior_weighs_the_points(self, pairs_1d):
        """Dense: weights of the conditional embedding times the KuLSIF ratio at the latents."""
        X, Z = (A[:120] for A in pairs_1d)
        U, new = Z[:30] / 2 + 0.5, np.array([[0.3], [1.0]])
        settings = {**FIXED, "features": km.Exact(), "reg_prior": 0.05}
        model = km.KernelBayes("density", **settings).fit(X, Z)
        ratio = np.maximum(shares(Z, 0.05, U), 0.0)
        K = np.linalg.solve(gram_x(X) + len(X) * 1e-2 * np.eye(len(X)), gram_x(X, new))
        W = (K / K.sum(axis=0)).T * ratio
        W /= W.sum(axis=1, keepdims=True)
        assert_allclose(model.posterior(new, U).weights, W, atol=1e-6)

    @pytest.mark.parametrize("kind", ["function", "array", "learned"])
    def test_kinds_of_ratio(self, pairs_1d, rng, kind):
        """Posterior means under N(.5, .36): exactly 1/(1/.36 + 4) (.5/.36 + 4x)."""
        X, Z = pairs_1d
        given = {"function": to_another_prior, "array": to_another_prior(Z)}
        model = km.KernelBayes("density", ratio=given.get(kind, km.DensityRatio()), **FIXED)
        new, prior = np.array([[0.0], [1.0]]), 0.5 + 0.6 * rng.normal(size=(400, 1))
        found = model.fit(X, Z).predict(new, prior if kind == "learned" else None)
        truth = (0.5 / 0.36 + 4 * new) / (1 / 0.36 + 4)
        assert_allclose(found, truth, atol=0.12)  # standard error about .38/√(100 in reach)

    @pytest.mark.slow
    def test_intervals_hold_under_another_prior(self):
        """z from N(.5, .36) and pairs from N(0, 1): 90% intervals, a location among the choices."""
        rng = np.random.default_rng(8)
        Z = rng.normal(size=(600, 1))
        model = km.KernelBayes("density", ratio=to_another_prior)
        model.fit(Z + 0.5 * rng.normal(size=(600, 1)), Z)
        truth = 0.5 + 0.6 * rng.normal(size=(500, 1))
        lower, upper = model.predict_interval(truth + 0.5 * rng.normal(size=(500, 1)), 0.9)
        assert 0.86 <= np.mean((lower <= truth) & (truth <= upper)) <= 0.94  # binomial: .013

    def test_a_prior_beyond_the_pairs_is_warned_about(self, pairs_1d):
        X, Z = pairs_1d
        model = km.KernelBayes("density", **FIXED).fit(X, Z)
        with pytest.warns(km.NumericalWarning, match="cover"):
            law = model.posterior(X[:2], np.full((20, 1), 30.0))
        assert np.isfinite(law.mean()).all()

    def test_a_posterior_where_the_prior_has_nothing_spoils_no_other(self, pairs_1d):
        """One observation that contradicts a uniform prior ended all of a batch."""
        X, Z = pairs_1d
        model = km.KernelBayes("density", ratio=lambda z: 1.0 * (abs(z[:, 0]) < 0.4)).fit(X, Z)
        new = np.array([[0.0], [0.3], [2.2]])
        with pytest.warns(km.NumericalWarning, match="1 of the posteriors"):
            law = model.posterior(new)
        assert_allclose(law.mean()[:2], model.predict(new[:2]), rtol=1e-9)
        assert_allclose(law.mean()[2], model.density_.predict(new[2:])[0], rtol=1e-9)

    def test_it_is_saved_with_its_density(self, pairs_1d, tmp_path):
        X, Z = pairs_1d
        model = km.KernelBayes("density", **FIXED).fit(X, Z)
        model.save(tmp_path / "model.km")
        again = km.load(tmp_path / "model.km")
        assert_allclose(again.predict(X[:5], Z[:50] + 0.2), model.predict(X[:5], Z[:50] + 0.2))
        assert "density" in str(again.summary())

    def test_no_supervision(self, pairs_1d):
        X, Z = pairs_1d
        model = km.KernelBayes("density", **FIXED).fit(X, Z)
        with pytest.raises(ValueError, match="supervision"):
            model.posterior(X[:2], supervision=(X[:2], Z[:2], 1.0))


def test_regularisers_are_sought_once_for_each_prior(monkeypatch, tmp_path):
    searches = []
    best = LeaveOneOut.best
    monkeypatch.setattr(LeaveOneOut, "best", lambda *given: searches.append(1) or best(*given))
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(60, 1))
    X = Z + 0.5 * rng.normal(size=(60, 1))
    model = km.KernelBayes().fit(X, Z)
    first = model.predict(X[:3])
    assert_array_equal(model.predict(X[:3]), first)
    assert len(searches) == 1
    prior = 0.3 + 0.2 * rng.normal(size=(40, 1))
    other = model.predict(X[:3], prior)
    assert_array_equal(model.predict(X[:3]), first)  # one and the other in turn
    assert_array_equal(model.predict(X[:3], prior), other)
    assert len(searches) == 2
    prior += 0.1  # the same array, another prior
    assert np.abs(model.predict(X[:3], prior) - other).max() > 1e-3
    model.set_params(selection="loo_min").predict(X[:3], prior)
    assert len(searches) == 4
    model.save(tmp_path / "model.km")
    again = km.load(tmp_path / "model.km")
    assert_array_equal(again.predict(X[:3], prior), model.predict(X[:3], prior))


@pytest.mark.parametrize("rule", ["importance", "squared"])
def test_far_from_the_pairs_posteriors_are_those_of_the_last_place_that_tells(rule):
    rng = np.random.default_rng(11)
    Z = 1e6 + rng.uniform(0, 1, (200, 1))
    X = np.hstack([Z - 1e6, rng.uniform(0, 1, (200, 1))])
    model = km.KernelBayes(rule).fit(X, Z)
    low, high = X.min(axis=0), X.max(axis=0)
    last = np.array([1.5, -0.5]) * high + np.array([-0.5, 1.5]) * low
    with pytest.warns(km.NumericalWarning, match="1 row.* nearest point"):
        law = model.posterior([[1e4, -1e4], [0.5, 0.5]])
    assert_array_equal(law.extrapolated, [True, False])
    near = law.std()[0], model.posterior(last[None]).std()[0]
    assert_allclose(*near, rtol=1e-9)
    assert 0.8 < law.mean()[0, 0] - 1e6 < 1.5


def lone_pair(rule: str) -> km.KernelBayes:
    """Of 200 pairs, one far from all others: between is nothing."""
    rng = np.random.default_rng(12)
    Z = rng.normal(size=(200, 1))
    X = np.clip(Z + 0.3 * rng.normal(size=(200, 1)), -2.0, 2.0)
    X[0], Z[0] = 80.0, 2.3
    return km.KernelBayes(rule, kernel_x=km.Gaussian(1.0)).fit(X, Z)


@pytest.mark.parametrize("rule", ["importance", "squared"])
class TestFewPairs:
    def test_where_no_kernel_reaches_posteriors_are_those_of_the_nearest_pairs(
        self, rule, tmp_path
    ):
        model = lone_pair(rule)
        with pytest.warns(km.NumericalWarning, match="1 row.* no kernel reaches"):
            law = model.posterior([[30.0], [0.5]])
        assert_array_equal(law.extrapolated, [True, False])
        w = law.weights[0]
        assert_allclose(w.sum(), 1.0, rtol=1e-12)
        assert 1.0 / (w**2).sum() > 10
        assert_allclose(law.mean()[0], w @ model.points_, rtol=1e-9)
        assert 1.3 < law.mean()[0, 0] < 2.3
        assert law.density([[1.5]])[0, 0] > 0.1
        model.save(tmp_path / "model.km")
        with pytest.warns(km.NumericalWarning, match="no kernel reaches"):
            again = km.load(tmp_path / "model.km").predict([[30.0]])
        assert_allclose(again, law.mean()[:1], rtol=1e-12)

    def test_at_an_observation_that_is_alone_the_law_is_not_of_one_pair(self, rule):
        law = lone_pair(rule).posterior([[80.0]])
        low, high = law.interval(0.9)
        assert high - low > 0.5
        assert 1.0 / (law.weights**2).sum() > 10
        assert_array_equal(law.extrapolated, [False])

    def test_laws_go_over_continuously(self, rule):
        grid, model = np.linspace(1.5, 8.0, 2_000), lone_pair(rule)
        mean = model.posterior(grid[:, None]).mean()[:, 0]
        assert np.ptp(mean) > 0.3
        assert np.abs(np.diff(mean)).max() < 0.005

    def test_where_laws_lie_is_told_by_the_regression_beside_half_a_pair(self, rule):
        model, at = lone_pair(rule), np.array([[5.0], [79.0], [80.0]])
        law, nearest = model.posterior(at), model.weights(at)
        w = model.set_params(reg=model.regularisers()[1]).weights(at)
        S, b = w.sum(axis=1, keepdims=True), 0.5 * (w**2).sum(axis=1, keepdims=True) + 0.05**2
        means = (S * (w @ model.points_) + b * (nearest @ model.points_)) / (S**2 + b)
        assert_allclose(law.mean(), means, rtol=1e-8)
        assert_allclose(model.set_params(reg=None).predict(at), means, rtol=1e-8)
        if rule == "importance":
            return  # there laws are of residuals
        moves = means - nearest @ model.points_
        for one, move, v in zip(law, moves, nearest, strict=True):
            around = km.MeanEmbedding(model.points_, v, model.kernel_z_).quantile([0.2, 0.7], 0)
            assert_allclose(one.quantile([0.2, 0.7]), around + move, atol=1e-8)

    def test_latents_of_few_values_stay_where_they_are(self, rule):
        rng = np.random.default_rng(12)
        Z = rng.integers(0, 2, (200, 1))
        X = Z + 0.5 * rng.normal(size=(200, 1))
        X[0] = 80.0
        model = km.KernelBayes(rule, kernel_x=km.Gaussian(1.0)).fit(X, Z)
        law = model.posterior([[79.0], [80.0]])
        assert_allclose(law.mean(), law.weights @ Z / law.weights.sum(axis=1)[:, None], rtol=1e-9)
        assert set(np.ravel(law.quantile([0.1, 0.5, 0.9], 0))) <= {0.0, 1.0}

    def test_weights_are_those_of_the_formula_where_reg_is_given(self, rule):
        model = lone_pair(rule).set_params(reg=1e-3)
        assert np.count_nonzero(np.abs(model.weights([[80.0]])) > 1e-9) == 1

    def test_enough_pairs_leave_laws_as_they_are(self, rule):
        model, at = lone_pair(rule), np.linspace(-1.5, 1.5, 20)[:, None]
        found = model.weights(at)
        reg = model.regularisers()[1]
        assert_array_equal(found, model.set_params(reg=reg).weights(at))

    def test_rows_elsewhere(self, rule):
        rng = np.random.default_rng(12)
        Z = rng.normal(size=(11_000, 1))
        X = np.clip(Z + 0.3 * rng.normal(size=(11_000, 1)), -2.0, 2.0)
        X[0] = 80.0
        model = km.KernelBayes(rule, kernel_x=km.Gaussian(1.0)).fit(km.Rows(X, 5000), Z)
        with pytest.warns(km.NumericalWarning, match="no kernel reaches"):
            law = model.posterior([[30.0]])
        with pytest.warns(km.NumericalWarning, match="no kernel reaches"):
            assert_allclose(model.predict([[30.0]]), law.weights @ model.points_, rtol=1e-9)
        if rule == "importance":
            targets = km.MeanEmbedding(Z[:3], np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]]))
            told = {"supervision": ([[0.0], [1.0]], targets, 0.1)}
            with pytest.warns(km.NumericalWarning, match="no kernel reaches"):
                assert_allclose(model.predict([[30.0]], **told), law.mean(), rtol=0.02)


class TestScore:
    @pytest.mark.parametrize("rule", ["importance", "squared", "density"])
    @pytest.mark.parametrize("d", [1, 2])
    def test_it_is_the_mean_log_density_of_the_latents(self, rule, d):
        rng = np.random.default_rng(0)
        Z = rng.normal(size=(300, d))
        X = Z + 0.4 * rng.normal(size=Z.shape)
        model = km.KernelBayes(rule).fit(X[:280], Z[:280])
        laws, new = model.posterior(X[280:]), Z[280:]
        each = [float(np.squeeze(laws[[b]].density(new[[b]]))) for b in range(20)]
        assert_allclose(model.score(X[280:], new), np.log(each).mean(), rtol=1e-6)

    def test_a_latent_far_from_all_others_counts_as_little_and_not_as_none(self):
        rng = np.random.default_rng(0)
        Z = 5.0 * rng.normal(size=100)
        model = km.KernelBayes().fit(Z[:, None] + rng.normal(size=(100, 1)), Z)
        assert_allclose(model.score([[0.0]], [1e4]), np.log(1e-6 / Z.std()))

    def test_grid_search(self):
        rng = np.random.default_rng(0)
        Z = rng.normal(size=120)
        X = Z[:, None] + 0.4 * rng.normal(size=(120, 1))
        search = GridSearchCV(km.KernelBayes(), {"reg": [1e-3, 100.0]}, cv=3).fit(X, Z)
        assert search.best_params_ == {"reg": 1e-3}

    def test_what_it_cannot_score_is_named(self):
        X = np.random.default_rng(0).normal(size=(30, 2))
        model = km.KernelBayes().fit(X, X)
        with pytest.raises(ValueError, match="Z has 3 rows"):
            model.score(X[:4], X[:3])
        with pytest.raises(ValueError, match="Z has 1 column"):
            model.score(X[:4], X[:4, 0])


@pytest.mark.parametrize("rule", ["importance", "density"])
def test_frames_of_latents_without_names_say_z(rule):
    Z = np.random.default_rng(0).normal(size=(20, 2))
    X = Z + 0.1
    frame = km.KernelBayes(rule).fit(X, Z).posterior(X[:3]).to_frame()
    assert [name for name in frame if "_" not in name][:2] == ["z0", "z1"]
    frame = km.KernelBayes(rule).fit(X, Z[:, 0]).posterior(X[:3], Z[:10, 0]).to_frame()
    assert "z_lower" in frame


class TestLongTails:
    """Kernels take distances of observations on a bent scale, where latents are nearer then."""

    def test_a_bent_scale_is_chosen_and_said(self):
        rng = np.random.default_rng(0)
        Z = rng.normal(size=(400, 1))
        X = np.hstack([np.exp(2.0 * Z + 0.3 * rng.normal(size=Z.shape)), rng.normal(size=Z.shape)])
        model = km.KernelBayes().fit(X, Z)
        straight = km.KernelBayes(kernel_x=km.Gaussian(tuple(X.std(axis=0)))).fit(X, Z)
        assert "Bent scale of X" in model.summary()
        assert model.kernel_x_.bend.bent.tolist() == [True, False]
        assert "Bent scale of X" not in straight.summary()
        z = rng.normal(size=(400, 1))
        x = np.hstack([np.exp(2.0 * z + 0.3 * rng.normal(size=z.shape)), rng.normal(size=z.shape)])
        errors = [np.mean((m.predict(x) - z) ** 2) for m in (model, straight)]
        assert errors[0] < 0.5 * errors[1]

    def test_columns_without_long_tails_are_as_they_were(self):
        rng = np.random.default_rng(0)
        Z = rng.normal(size=(300, 1))
        X = Z + 0.3 * rng.normal(size=(300, 1))
        assert not hasattr(km.KernelBayes().fit(X, Z).kernel_x_, "bend")

    def test_a_kernel_that_was_asked_for_is_taken(self):
        rng = np.random.default_rng(0)
        Z = rng.normal(size=(300, 1))
        model = km.KernelBayes(kernel_x=km.Gaussian(1.0)).fit(np.exp(3 * Z), Z)
        assert model.kernel_x_ == km.Gaussian(1.0)


class TestOddPairs:
    def test_a_prior_from_which_no_share_is_left(self, rng):
        Z = rng.normal(size=(40, 2))
        X = Z[:, :1] + 0.3 * rng.normal(size=(40, 1))
        model = km.KernelBayes(rule="squared", reg_prior=0.02).fit(X, Z)
        prior = np.column_stack([Z[:, 0], Z[:, 1] + 55.0])
        with pytest.warns(km.NumericalWarning, match="cover"):
            law = model.posterior(X[:3], prior)
        assert_allclose(law.weights, model.posterior(X[:3]).weights, atol=0.05)
        assert np.isfinite(law.sample(20, 0)).all()

    @pytest.mark.parametrize("rule", ["importance", "squared"])
    @pytest.mark.parametrize("value", [2004.539430369, 2e-8])
    def test_a_constant_column_is_drawn_as_it_is(self, rng, rule, value):
        """Rounding leaves the first a deviation of 1e-13; the second is not in units of one."""
        Z = np.column_stack([np.full(30, value), rng.normal(size=30)])
        X = Z[:, 1:] + 0.3 * rng.normal(size=(30, 1))
        law = km.KernelBayes(rule=rule).fit(X, Z).posterior(X[:3])
        assert np.isfinite(law.density(Z[:4])).all()
        assert_allclose(law.sample(50, 0)[..., 0], value, rtol=0.01)

    @pytest.mark.parametrize("rule", ["importance", "squared"])
    def test_a_category_that_no_pair_has(self, rule):
        X, Z = np.repeat([0.0, 1.0, 2.0], 20)[:, None], np.tile([0.0, 1.0], 30)[:, None]
        model = km.KernelBayes(rule, kernel_x="delta", kernel_z="delta", features=km.Exact())
        model = model.set_params(reg=1e-8).fit(X, Z)
        assert_allclose(model.posterior([[7.0]]).weights, 0.0)
        with pytest.warns(km.NumericalWarning, match="sum to zero"):
            found = model.predict([[0.0], [7.0]])
        assert_allclose(found[:, 0], [0.5, 0.0], atol=1e-6)

    def test_densities_at_rows_beyond_all_laws(self, rng):
        Z = rng.normal(size=(30, 2))
        model = km.KernelBayes(rule="density").fit(Z + 0.3 * rng.normal(size=(30, 2)), Z)
        assert_allclose(model.posterior(Z[:3]).density(Z[:2] + 1e6), 0.0, atol=1e-12)

    def test_constant_latents_are_named(self, rng):
        Z = np.column_stack([rng.normal(size=30), np.ones(30), rng.normal(size=30)])
        with pytest.raises(
            ValueError, match=r"^Z: columns \[1\] are constant; rule='density' needs"
        ):
            km.KernelBayes(rule="density").fit(Z[:, :1], Z)

    def test_the_density_far_from_all_pairs_is_that_of_the_last_place_near(self, rng):
        pd = pytest.importorskip("pandas")
        Z = rng.normal(size=(60, 1))
        X = pd.DataFrame(Z + 0.3 * rng.normal(size=(60, 1)), columns=["seen"])
        model = km.KernelBayes(rule="density").fit(X, Z)
        far = pd.DataFrame({"seen": [0.0, 1e3, 1e6]}, index=["a", "b", "c"])
        with pytest.warns(km.NumericalWarning, match="outside"):
            law = model.posterior(far)
        assert law.to_frame().index.tolist() == ["a", "b", "c"]
        assert law.extrapolated.tolist() == [False, True, True]
        assert_allclose(law.mean()[1], law.mean()[2])
        assert law.mean()[1, 0] < 2 * np.ptp(Z)
        with pytest.warns(km.NumericalWarning, match="outside"):
            same = model.posterior(far["seen"])
        assert_allclose(same.mean(), law.mean())
        assert same.to_frame().index.tolist() == ["a", "b", "c"]

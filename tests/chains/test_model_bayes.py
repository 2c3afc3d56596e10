"""Kernel Bayes' rule from a model: the printed recursion, its limits, tables of probabilities."""

from __future__ import annotations

import hmm_oracles as slow
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.chains.markov import Chain
from kernelmean.chains.model_bayes import ModelBayes

REGS = [1e-3, 0.1, 3.0, 100.0]
GAP = np.array([np.nan])


def on_points(K: int = 3, reg: float = 0.1, seed: int = 40) -> tuple[ModelBayes, np.ndarray]:
    """Laws that are weights on twelve points, and their Gram matrix by hand."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(12, 1))
    weights = rng.dirichlet(np.ones(12), size=K).T
    features = km.Exact().fit(points, km.Gaussian(0.7))
    rule = ModelBayes(features, features.transform(points).T @ weights, reg)
    k = np.exp(-((points - points.T) ** 2) / (2 * 0.7**2))
    return rule, weights.T @ k @ weights


def evaluations(y: np.ndarray, seed: int = 40) -> np.ndarray:
    """<mu_k, k(y, .)> of `on_points` by hand."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(12, 1))
    weights = rng.dirichlet(np.ones(12), size=3).T
    return np.exp(-((y - points.T) ** 2) / (2 * 0.7**2)) @ weights


def chain_of(K: int, seed: int = 0) -> Chain:
    model = slow.FiniteHMM.random(K, K, seed)
    return Chain(model.law, model.Q)


OBSERVED = np.random.default_rng(1).normal(size=(25, 1))


class TestThePrintedRule:
    def test_gram_and_evaluations(self):
        rule, N = on_points()
        assert_allclose(rule.gram, N, atol=1e-10)
        assert_allclose(rule.evaluations(OBSERVED), evaluations(OBSERVED), atol=1e-8)

    @pytest.mark.parametrize("reg", REGS)
    def test_one_update(self, reg):
        rule, N = on_points(reg=reg)
        priors = np.random.default_rng(2).dirichlet(np.ones(3), size=25)
        Ny = evaluations(OBSERVED)
        got = rule.weights(priors, rule.shares(Ny))
        want = [slow.kernel_bayes(N, n, p, reg) for n, p in zip(Ny, priors, strict=True)]
        assert_allclose(got, want, rtol=1e-6, atol=1e-8)

    @pytest.mark.parametrize("reg", REGS)
    def test_algorithm_2(self, reg):
        rule, N = on_points(reg=reg)
        chain = chain_of(3)
        got = rule.filtered(rule.shares(evaluations(OBSERVED)), chain, [slice(0, 25)])
        want = slow.kernel_bayes_filter(
            N, evaluations(OBSERVED), chain.startprob, chain.transmat, reg
        )
        assert_allclose(got, want, atol=1e-8)

    def test_several_sequences_and_missing_rows(self):
        rule, N = on_points()
        chain, Ny = chain_of(3), evaluations(OBSERVED)
        Ny[[0, 7, 8, 24]] = np.nan
        parts = [slice(0, 1), slice(1, 12), slice(12, 14), slice(14, 25)]
        got = rule.filtered(rule.shares(Ny), chain, parts)
        for part in parts:
            want = slow.kernel_bayes_filter(N, Ny[part], chain.startprob, chain.transmat, 0.1)
            assert_allclose(got[part], want, atol=1e-8)
        assert_allclose(got[0], chain.startprob)

    def test_a_long_sequence_in_blocks_is_the_plain_loop(self):
        """The recursion is not linear: what `sweep` does with blocks has to be right still."""
        rule, N = on_points(reg=0.02)
        y = np.random.default_rng(3).normal(size=(3_000, 1))
        slowly = Chain(np.full(3, 1 / 3), 0.998 * np.eye(3) + 0.002 / 3)
        got = rule.filtered(rule.shares(evaluations(y)), slowly, [slice(0, len(y))])
        want = slow.kernel_bayes_filter(N, evaluations(y), slowly.startprob, slowly.transmat, 0.02)
        assert_allclose(got, want, atol=1e-7)


class TestLimits:
    def test_without_a_regulariser_the_prior_does_not_matter(self):
        """Weights are N^-1 N(y), those that make up the observation best."""
        rule, N = on_points(reg=1e-12)
        shares = rule.shares(evaluations(OBSERVED))
        assert_allclose(shares, evaluations(OBSERVED) @ np.linalg.inv(N), atol=1e-8)
        for prior in ([0.2, 0.3, 0.5], [0.9, 0.05, 0.05]):
            assert_allclose(rule.weights(np.tile(prior, (25, 1)), shares), shares, atol=1e-6)

    def test_with_a_large_regulariser_it_is_bayes_rule(self):
        """With densities smoothed by the kernel: prior times N(y)."""
        rule, _ = on_points(reg=1e6)
        priors = np.random.default_rng(2).dirichlet(np.ones(3), size=25)
        want = priors * evaluations(OBSERVED)
        got = rule.posterior(priors, rule.shares(evaluations(OBSERVED)))
        assert_allclose(got, want / want.sum(axis=1, keepdims=True), atol=1e-5)

    @pytest.mark.parametrize("reg", [1e9, 1e14, 1e30])
    def test_however_large(self, reg):
        rule, _ = on_points(reg=reg)
        prior = np.array([[0.2, 0.3, 0.5]])
        want = prior * evaluations(OBSERVED)
        got = rule.posterior(np.repeat(prior, 25, axis=0), rule.shares(evaluations(OBSERVED)))
        assert_allclose(got, want / want.sum(axis=1, keepdims=True), atol=1e-6)

    def test_a_state_that_is_impossible_stays_so(self):
        rule, _ = on_points(reg=0.1)
        prior = np.tile([0.0, 0.4, 0.6], (25, 1))
        got = rule.posterior(prior, rule.shares(evaluations(OBSERVED)))
        assert_allclose(got[:, 0], 0.0, atol=1e-12)

    def test_a_certain_state_stays_certain(self):
        rule, _ = on_points(reg=0.1)
        prior = np.tile([0.0, 1.0, 0.0], (25, 1))
        got = rule.posterior(prior, rule.shares(evaluations(OBSERVED)))
        assert_allclose(got, prior, atol=1e-10)

    def test_what_is_far_from_all_laws_says_nothing(self):
        rule, _ = on_points()
        prior = np.array([[0.2, 0.3, 0.5]])
        far = np.array([[40.0]])
        assert_allclose(rule.posterior(prior, rule.shares(rule.evaluations(far))), prior)


def finite(K: int, V: int, reg: float, seed: int = 40) -> tuple[ModelBayes, slow.FiniteHMM]:
    """A probability table in the coordinates of a delta kernel."""
    model = slow.FiniteHMM.random(K, V, seed)
    values = np.arange(float(V))[:, None]
    features = km.Exact().fit(values, km.Delta())
    return ModelBayes(features, features.transform(values).T @ model.table.T, reg), model


class TestTables:
    @pytest.mark.parametrize("K", [1, 2, 4])
    def test_a_large_regulariser_gives_the_forward_algorithm(self, K):
        """All K^T paths: P(x_t | y_1, ..., y_t)."""
        rule, model = finite(K, 5, 1e6)
        y = model.draw(6, 41)[0]
        want = slow.filtered(model.law, model.Q, np.log(model.table.T[y]))
        shares = rule.shares(rule.evaluations(y[:, None].astype(float)))
        got = rule.filtered(shares, Chain(model.law, model.Q), [slice(0, 6)])
        assert_allclose(got, want, atol=1e-5)

    @pytest.mark.parametrize("reg", [1e-8, 0.1, 1e3])
    def test_laws_that_do_not_overlap_name_the_state(self, reg):
        """Each value is of one state: the posterior is certain, whatever the regulariser."""
        table = np.array([[0.4, 0.6, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
        values = np.arange(4.0)[:, None]
        features = km.Exact().fit(values, km.Delta())
        rule = ModelBayes(features, features.transform(values).T @ table.T, reg)
        prior = np.tile([0.2, 0.5, 0.3], (4, 1))
        got = rule.posterior(prior, rule.shares(rule.evaluations(values)))
        assert_allclose(got, [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], atol=1e-6)

    def test_shares_solve_the_table_in_least_squares(self):
        rule, model = finite(3, 5, 0.1)
        values = np.arange(5.0)[:, None]
        want = np.linalg.lstsq(model.table.T, np.eye(5), rcond=None)[0].T
        assert_allclose(rule.shares(rule.evaluations(values)), want, atol=1e-8)

    def test_two_laws_that_are_one_share_evenly(self):
        """N has no inverse: the pseudo-inverse, and no NaN."""
        table = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.1, 0.9]])
        values = np.arange(3.0)[:, None]
        features = km.Exact().fit(values, km.Delta())
        rule = ModelBayes(features, features.transform(values).T @ table.T, 0.1)
        prior = np.tile([0.3, 0.3, 0.4], (3, 1))
        got = rule.posterior(prior, rule.shares(rule.evaluations(values)))
        assert_allclose(got[:, 0], got[:, 1], atol=1e-10)
        assert_allclose(got.sum(axis=1), 1.0)


def test_missing_rows_leave_the_prior_and_the_input_alone():
    rule, _ = on_points()
    shares = rule.shares(evaluations(OBSERVED))
    shares[3] = np.nan
    before, prior = shares.copy(), np.tile([0.2, 0.3, 0.5], (25, 1))
    got = rule.posterior(prior, shares)
    assert_allclose(got[3], prior[3])
    assert_array_equal(shares, before)


def test_save_and_load(tmp_path):
    rule, _ = on_points()
    rule.save(tmp_path / "rule.km")
    again = km.load(tmp_path / "rule.km")
    assert_array_equal(again.evaluations(OBSERVED), rule.evaluations(OBSERVED))
    assert again.reg == rule.reg

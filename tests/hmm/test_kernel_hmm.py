"""KernelHMM: every verb against sums over paths, loops, and the law the data come from."""

from __future__ import annotations

import copy
import pickle
import re
from functools import cache

import hmm_oracles as slow
import numpy as np
import pandas as pd
import pytest
from chain_options import hidden
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import trapezoid
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import kernelmean as km
from kernelmean.chains import draft as drafts
from kernelmean.chains.draft import REGS, Draft, choose_bayes
from kernelmean.chains.markov import Chain
from kernelmean.comparators import matched_accuracy, tmse
from kernelmean.datasets import make_hmm
from kernelmean.hmm.learn import choose_reg, spectral

FAST = {"random_state": 0, "n_init": 2, "max_iter": 20, "bandwidth": 0.4}
SEARCH = {"bandwidth": None, "max_iter": 50}  # as users have it
Q = np.array([[0.9, 0.1], [0.2, 0.8]])
TRUTH = slow.FiniteHMM(Q, np.eye(2))
NAN = float("nan")
VERBS = ("filter", "predict_proba", "predict", "log_predictive")


def normal_data(n: int, seed: int, d: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Two states, three standard deviations apart in the first column."""
    _, states = TRUTH.draw(n, seed)
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[:, 0] += 3.0 * states
    return X, states


def learner(**parameters) -> km.KernelHMM:
    return km.KernelHMM(**hidden(**{"n_components": 2, **FAST, **parameters}))


@cache
def model(d: int = 1, inference: str = "kbr", refine: bool = True, n: int = 300, **parameters):
    """One fit that many tests look at, and leave alone."""
    X, _ = normal_data(n, 40, d)
    return learner(inference=inference, refine=refine, **parameters).fit(X)


@cache
def searched(**parameters) -> km.KernelHMM:
    """As users have it, on two thousand rows."""
    return learner(**SEARCH, **parameters).fit(normal_data(2_000, 43)[0])


def table(m: km.KernelHMM, Y: np.ndarray) -> np.ndarray:
    """log f_k(y); zero for missing rows."""
    gone = np.isnan(Y).any(axis=1)
    return np.where(gone[:, None], 0.0, np.log(m.density(np.where(gone[:, None], 0.0, Y))))


def by_hand(m: km.KernelHMM, Y: np.ndarray) -> np.ndarray:
    """Algorithm 2 from what a model fitted with a given `reg` shows."""
    laws = m.emissions_
    N = laws.weights @ m.kernel_(laws.points) @ laws.weights.T
    gone = np.isnan(Y).any(axis=1)
    evaluations = laws(np.where(gone[:, None], 0.0, Y)).T
    evaluations[gone] = np.nan
    return slow.kernel_bayes_filter(N, evaluations, m.startprob_, m.transmat_, m.reg_)


BOTH = pytest.mark.parametrize("inference", ["kbr", "forward"])
REFINED = pytest.mark.parametrize("refine", [True, False], ids=["em", "spectral"])


# ------------------------------------------------------------ what is learned


class TestWhatIsLearned:
    @pytest.mark.slow
    @pytest.mark.parametrize(("d", "inference"), [(1, "kbr"), (3, "forward")])
    def test_the_chain_and_the_states(self, d, inference):
        X, _ = normal_data(900, 41, d)
        m = learner(inference=inference, **SEARCH).fit(X)
        assert tmse(TRUTH.law, Q, m.startprob_, m.transmat_) < 0.02
        new, truth = normal_data(1_000, 42, d)
        for verb, least in (("filter", 0.92), ("predict_proba", 0.94)):
            found = getattr(m, verb)(new).argmax(axis=1)
            assert matched_accuracy(truth, found) > least
        assert m.converged_
        assert (np.diff(m.history_) > -1e-5).all()

    @pytest.mark.slow
    def test_new_observations_are_predicted_as_by_the_truth(self):
        """Mean log-density within 0.03 of the law that drew them."""
        X, _ = normal_data(2_000, 43)
        new, _ = normal_data(2_000, 44)
        m = learner(inference="forward", **SEARCH).fit(X)
        b = norm.logpdf(new - [0.0, 3.0])
        alpha, truth = TRUTH.law, []
        for row in np.exp(b):
            truth.append(np.log(alpha @ row))
            alpha = (alpha * row / (alpha @ row)) @ Q
        assert np.mean(truth) - m.score(new) / 2_000 < 0.03

    @REFINED
    @pytest.mark.parametrize("d", [1, 3])
    def test_attributes(self, d, refine):
        m = model(d, refine=refine)
        assert m.n_components_ == 2
        assert m.startprob_.shape == (2,)
        assert m.startprob_[0] >= m.startprob_[1]
        assert_allclose(m.startprob_ @ m.transmat_, m.startprob_, atol=1e-10)
        assert_allclose(m.transmat_.sum(axis=1), 1.0)
        assert_array_equal(m.get_stationary_distribution(), m.startprob_)
        m.get_stationary_distribution()[:] = 0.0  # is the caller's own
        assert m.startprob_.sum() > 0.99
        assert m.emissions_.batch == 2
        assert_allclose(m.emissions_.total(), 1.0, atol=1e-6 if refine else 0.2)
        assert (np.diff(m.singular_values_) <= 0).all()
        assert m.order_ is None
        assert 0 < m.reg_ < 1e3
        assert m.n_features_in_ == d
        assert isinstance(m.converged_, bool)

    def test_laws_and_the_probabilities_of_the_states(self):
        """The weights of the embeddings are P(state | all y), normalised."""
        m = model(inference="forward", n=1_000)
        X, _ = normal_data(1_000, 40)
        gamma = m.predict_proba(X)
        assert_allclose(m.emissions_.weights, (gamma / gamma.sum(axis=0)).T, atol=1e-3)
        assert_allclose(m.emissions_.mean()[:, 0], [0.0, 3.0], atol=0.3)

    @pytest.mark.slow
    @REFINED
    @pytest.mark.parametrize("scale", [2.0**-20, 2.0**30])
    def test_units_do_not_matter(self, scale, refine):
        """A power of two: the same floats but for their exponents."""
        X, _ = normal_data(300, 40)
        m = learner(refine=refine, **SEARCH).fit(scale * X)
        same = model(refine=refine, **SEARCH)
        assert_allclose(m.filter(scale * X), same.filter(X), atol=1e-9)
        assert_allclose(m.transmat_, same.transmat_, atol=1e-9)
        lost = 300 * np.log(scale)
        assert m.score(scale * X) + lost == pytest.approx(same.score(X), abs=1e-6)

    @pytest.mark.parametrize("shift", [1e3, 1e6])
    def test_the_origin_does_not_matter(self, shift):
        X, _ = normal_data(300, 40)
        m = learner().fit(X + shift)
        assert_allclose(m.filter(X + shift), model().filter(X), atol=1e-3)
        assert m.score(X + shift) == pytest.approx(model().score(X), abs=0.1)

    @pytest.mark.slow
    def test_a_column_that_does_not_vary_does_not_matter(self):
        X, states = normal_data(300, 40)
        wide = np.column_stack([X, np.full(300, 7.0)])
        m = learner(**SEARCH).fit(wide)
        alone = matched_accuracy(states, model(**SEARCH).predict(X))
        assert matched_accuracy(states, m.predict(wide)) > alone - 0.04

    def test_n_components_as_a_numpy_integer(self):
        X, _ = normal_data(100, 41)
        m = learner(n_components=np.int64(2)).fit(X)
        assert type(m.n_components_) is int

    def test_the_number_of_states_is_estimated(self):
        X, _ = normal_data(1_000, 41)
        m = learner(n_components=None).fit(X)
        assert m.n_components_ == 2
        assert m.order_ == 2
        assert m.order_.method == "correlations"
        assert_array_equal(m.order_.singular_values, m.singular_values_)


# ------------------------------------------------------------ states


Y6 = normal_data(6, 45)[0]
GAPPY = np.where(np.isin(np.arange(6), [0, 3])[:, None], np.nan, Y6)
SIX = pytest.mark.parametrize("Y", [Y6, GAPPY], ids=["whole", "gaps"])


class TestAgainstPaths:
    @SIX
    @REFINED
    def test_forward_inference(self, Y, refine):
        """The forward algorithm and smoothing, over all 2^6 paths."""
        m = model(inference="forward", refine=refine)
        logb, chain = table(m, Y), (m.startprob_, m.transmat_)
        paths = slow.Paths.of(*chain, logb)
        assert_allclose(m.filter(Y), slow.filtered(*chain, logb), atol=1e-8)
        assert_allclose(m.predict_proba(Y), paths.marginals, atol=1e-8)
        assert_array_equal(m.predict(Y), paths.marginals.argmax(axis=1))
        assert_allclose(m.log_predictive(Y), slow.log_predictive(*chain, logb), atol=1e-8)
        assert m.score(Y) == pytest.approx(np.log(paths.evidence), abs=1e-8)

    @SIX
    @BOTH
    def test_decoding(self, Y, inference):
        """By densities, whatever the inference."""
        m = model(inference=inference)
        paths = slow.Paths.of(m.startprob_, m.transmat_, table(m, Y))
        logprob, states = m.decode(Y)
        best, path = paths.best
        assert logprob == pytest.approx(best, abs=1e-8)
        assert_array_equal(states, path)
        logprob, states = m.decode(Y, algorithm="map")
        assert_array_equal(states, m.predict(Y))
        (here,) = np.flatnonzero((paths.states == states).all(axis=1))
        assert logprob == pytest.approx(np.log(paths.joint[here]), abs=1e-8)

    @SIX
    @pytest.mark.parametrize("d", [1, 3])
    def test_kernel_bayes_rule(self, Y, d):
        """Algorithm 2 with matrices made from `emissions_`."""
        m = model(d, reg=0.05, features=km.Exact())
        Y = np.column_stack([Y] * d)
        assert_allclose(m.filter(Y), by_hand(m, Y), atol=1e-6)

    def test_kernel_bayes_rule_without_em(self):
        m = model(refine=False, reg=0.05, features=km.Exact())
        assert_allclose(m.filter(Y6), by_hand(m, Y6), atol=1e-5)

    def test_log_predictive_of_kernel_bayes_rule(self):
        """log Σ_k p_k f_k(y), p the prediction from the filter's probabilities."""
        m = model()
        X, _ = normal_data(20, 46)
        prior = np.vstack([m.startprob_, m.filter(X)[:-1] @ m.transmat_])
        assert_allclose(m.log_predictive(X), np.log((prior * m.density(X)).sum(axis=1)), atol=1e-9)

    @BOTH
    def test_smoothing_by_hand(self, inference):
        """γ_t = α_t ∘ Q(γ_{t+1}/Qᵀα_t)."""
        m = model(inference=inference)
        X, _ = normal_data(50, 46)
        alpha = m.filter(X)
        gamma = alpha.copy()
        for t in range(48, -1, -1):
            gamma[t] = alpha[t] * (m.transmat_ @ (gamma[t + 1] / (alpha[t] @ m.transmat_)))
        assert_allclose(m.smooth(X), gamma, atol=1e-9)
        assert_array_equal(m.predict_proba(X), m.smooth(X))


class TestSequences:
    LENGTHS = (1, 2, 30, 7)

    @BOTH
    @pytest.mark.parametrize("verb", VERBS)
    def test_each_is_as_if_alone(self, verb, inference):
        m, X = model(inference=inference), normal_data(40, 47)[0]
        got = getattr(m, verb)(X, self.LENGTHS)
        parts = np.split(X, np.cumsum(self.LENGTHS)[:-1])
        assert_allclose(got, np.concatenate([getattr(m, verb)(part) for part in parts]), atol=1e-9)

    def test_scores_and_paths_add_up(self):
        m, X = model(), normal_data(40, 47)[0]
        parts = np.split(X, np.cumsum(self.LENGTHS)[:-1])
        assert m.score(X, self.LENGTHS) == pytest.approx(sum(m.score(part) for part in parts))
        logprob, states = m.decode(X, self.LENGTHS)
        alone = [m.decode(part) for part in parts]
        assert logprob == pytest.approx(sum(a for a, _ in alone))
        assert_array_equal(states, np.concatenate([b for _, b in alone]))
        total, gamma = m.score_samples(X, self.LENGTHS)
        assert total == m.score(X, self.LENGTHS)
        assert_array_equal(gamma, m.predict_proba(X, self.LENGTHS))

    def test_forecasts_follow_each_other(self):
        m, X = model(), normal_data(40, 47)[0]
        got = m.forecast(X, 3, self.LENGTHS)
        parts = np.split(X, np.cumsum(self.LENGTHS)[:-1])
        assert len(got) == 12
        assert_allclose(got.states, np.concatenate([m.forecast(p, 3).states for p in parts]))

    @pytest.mark.slow
    @REFINED
    def test_learning_from_several(self, refine):
        """No transition is counted from one to the next: states last, sequences do not."""
        rng = np.random.default_rng(48)
        states = np.repeat(rng.integers(0, 2, 250), 4)
        X = 4.0 * states[:, None] + rng.normal(size=(1_000, 1))
        assert np.trace(learner(refine=refine).fit(X, [4] * 250).transmat_) > 1.94
        assert np.trace(learner(refine=refine).fit(X).transmat_) < 1.85

    @pytest.mark.slow
    def test_many_short_sequences_are_all_searched(self, monkeypatch):
        """A search on 1,000 of 4,000 rows, whatever the number of sequences."""
        monkeypatch.setattr("kernelmean.hmm.learn.SEARCHED", 1_000)
        parts = [normal_data(4, 1_000 + s)[0] for s in range(1_000)]
        m = learner(**SEARCH).fit(np.concatenate(parts), [4] * 1_000)
        assert tmse(TRUTH.law, Q, m.startprob_, m.transmat_) < 0.01


class TestMissingRows:
    @BOTH
    def test_they_leave_the_prediction(self, inference):
        m, X = model(inference=inference), normal_data(30, 49)[0]
        X[[0, 7, 8, 9, 29]] = np.nan
        alpha = m.filter(X)
        assert_allclose(alpha[0], m.startprob_)
        for t in (7, 8, 9, 29):
            assert_allclose(alpha[t], alpha[t - 1] @ m.transmat_, atol=1e-12)
        assert_allclose(m.log_predictive(X)[[0, 7, 8, 9, 29]], 0.0, atol=1e-14)

    @BOTH
    def test_nothing_seen(self, inference):
        m, X = model(inference=inference), np.full((5, 1), np.nan)
        for verb in ("filter", "predict_proba"):
            assert_allclose(getattr(m, verb)(X), np.tile(m.startprob_, (5, 1)), atol=1e-9)
        assert m.score(X) == pytest.approx(0.0, abs=1e-13)
        best, path = slow.Paths.of(m.startprob_, m.transmat_, np.zeros((5, 2))).best
        logprob, states = m.decode(X)
        assert logprob == pytest.approx(best)
        assert_array_equal(states, path)

    @REFINED
    def test_learning_with_a_third_missing(self, refine):
        X, states = normal_data(1_000, 50)
        X[np.random.default_rng(0).random(1_000) < 0.3] = np.nan
        m = learner(refine=refine).fit(X)
        assert m.emissions_.points.shape[0] == np.isfinite(X).sum()
        assert matched_accuracy(states, m.predict(X)) > 0.85

    @REFINED
    def test_a_long_stretch_without_any(self, refine):
        X, states = normal_data(600, 51)
        X[100:400] = np.nan
        m = learner(refine=refine).fit(X)
        seen = np.isfinite(X[:, 0])
        assert matched_accuracy(states[seen], m.predict(X)[seen]) > 0.9
        assert_allclose(m.filter(X)[399], m.startprob_, atol=1e-6)


@BOTH
@REFINED
def test_one_row_at_a_time(inference, refine):
    """start, update, predict, update, ... is the filter, with gaps as well."""
    m, X = model(inference=inference, refine=refine), normal_data(25, 52)[0]
    X[[0, 6, 7]] = np.nan
    belief, alpha = m.start(), m.filter(X)
    for t, x in enumerate(X):
        if t:
            assert belief.predict() is belief
        assert belief.update(x) is belief
        assert_allclose(belief.probabilities, alpha[t], atol=1e-10)
    ahead = m.forecast(X, 1)
    belief.predict()
    assert_allclose(belief.probabilities, ahead.states[0], atol=1e-10)
    assert_allclose(belief.mean(), ahead.mean()[0], atol=1e-10)
    Y = np.linspace(-2, 5, 7)[:, None]
    assert_allclose(belief.embedding.density(Y, m.bandwidth_), ahead.density(Y)[0], atol=1e-10)


class TestBelief:
    def test_a_copy_stays_where_it_was(self):
        belief = model().start()
        kept = belief.copy()
        belief.update([0.0]).predict()
        assert_array_equal(kept.probabilities, model().startprob_)
        kept.probabilities[:] = 7.0
        assert_array_equal(kept.probabilities, model().startprob_)

    def test_a_prior(self):
        prior = np.array([0.2, 0.8])
        belief = model().start(prior)
        assert_array_equal(belief.probabilities, prior)
        belief.predict()
        assert_array_equal(prior, [0.2, 0.8])
        assert_array_equal(model().start([0, 1]).predict().probabilities, model().transmat_[1])

    @pytest.mark.parametrize(
        "prior", [[0.5, 0.6], [-0.1, 1.1], [1.0], [[0.5, 0.5]], [NAN, 1.0], 1.0, "even", []]
    )
    def test_what_is_no_prior(self, prior):
        with pytest.raises(ValueError, match="prior"):
            model().start(prior)

    def test_one_number_is_one_observation(self):
        assert_array_equal(
            model().start().update(0.3).probabilities, model().start().update([0.3]).probabilities
        )

    @pytest.mark.parametrize("x", [[0.1, 0.2], [[0.1]], np.inf, "a", None, []])
    def test_what_is_no_observation(self, x):
        with pytest.raises(ValueError, match="x "):
            model().start().update(x)

    def test_text(self):
        assert re.fullmatch(r"RegimeBelief\(\[0\.\d+, 0\.\d+\]\)", repr(model().start()))


# ------------------------------------------------------------ observations


GRID = np.linspace(-12, 15, 8_001)


class TestDensities:
    @pytest.mark.slow
    @REFINED
    @pytest.mark.parametrize("kernel", ["gaussian", "laplace", "matern"])
    def test_they_integrate_to_one(self, kernel, refine):
        m = model(kernel=kernel, refine=refine)
        assert_allclose(trapezoid(m.density(GRID[:, None]), GRID, axis=0), 1.0, atol=2e-3)

    @pytest.mark.slow
    def test_they_are_those_of_the_states(self):
        truth = norm.pdf(GRID[:, None] - [0.0, 3.0])
        off = np.abs(searched().density(GRID[:, None]) - truth)
        assert trapezoid(off, GRID, axis=0).max() < 0.15

    def test_a_given_bandwidth(self):
        """A loop over rows, weights from `emissions_`."""
        X, _ = normal_data(300, 40)
        m = model(bandwidth=0.3)
        assert m.bandwidth_ == pytest.approx(0.3)
        gamma = m.emissions_.weights.T * m.startprob_
        got, Y = m.density(GRID[3_000:5_000:400, None]), GRID[3_000:5_000:400]
        share = m.emissions_.weights @ norm.pdf((Y - X) / 0.3) / 0.3
        counts = 300 * gamma.sum(axis=0)  # about N_k, which weighs one normal observation
        assert_allclose(got, share.T, rtol=3 / counts.min(), atol=3 / counts.min())

    def test_far_from_everything(self):
        """Finite log-densities, and the filter stays where it was."""
        m = model(inference="forward")
        far = np.array([[1e4], [1e8], [1e15]])
        assert np.isfinite(m.log_predictive(far)).all()
        assert np.isfinite(m.filter(far)).all()
        kbr = model()
        assert_allclose(kbr.filter(far)[0], kbr.startprob_)
        assert np.isfinite(kbr.score(far))

    @REFINED
    @BOTH
    def test_an_outlier_among_the_rows(self, refine, inference):
        """One row far off: finite scores, and states as before.

        (The bandwidth of weights of any sign is at least a thousandth of the standard deviation.)
        """
        X, states = normal_data(400, 53)
        X[200] = 1e3 if not refine and inference == "forward" else 1e6
        m = learner(refine=refine, inference=inference, **SEARCH).fit(X)
        assert np.isfinite(m.log_predictive(X)).all()
        assert matched_accuracy(states, m.predict(X)) > 0.9


class TestForecast:
    def test_states_are_powers_of_the_chain(self):
        m, X = model(), normal_data(30, 54)[0]
        ahead, last = m.forecast(X, 4), m.filter(X)[-1]
        want = [last @ np.linalg.matrix_power(m.transmat_, h) for h in (1, 2, 3, 4)]
        assert_allclose(ahead.states, want, atol=1e-12)
        assert repr(ahead) == "RegimeForecast(4 steps, 2 states)"
        assert len(ahead) == 4

    @REFINED
    @pytest.mark.parametrize("d", [1, 3])
    def test_means_are_those_of_the_states(self, d, refine):
        m, X = model(d, refine=refine), normal_data(30, 54, d)[0]
        ahead = m.forecast(X, 2)
        got = ahead.states @ (m.emissions_.weights @ m.emissions_.points)
        weights = ahead.states @ m.emissions_.weights.sum(axis=1, keepdims=True)
        assert_allclose(ahead.mean(), got / weights, atol=1e-9)
        low, high = ahead.interval(0.5)
        assert low.shape == high.shape == (2, d)
        assert (low <= high).all()
        assert ahead.quantile(0.5).shape == (2, d)

    @REFINED
    def test_densities_integrate_to_one_and_agree_with_the_quantiles(self, refine):
        m, X = model(refine=refine), normal_data(30, 54)[0]
        ahead = m.forecast(X, 2)
        p = ahead.density(GRID[:, None])
        assert_allclose(trapezoid(p, GRID, axis=1), 1.0, atol=1e-4)
        for q in (0.1, 0.5, 0.9):
            end = ahead.quantile(q)[:, 0]
            mass = [
                trapezoid(np.where(e >= GRID, row, 0), GRID) for row, e in zip(p, end, strict=True)
            ]
            assert_allclose(mass, q, atol=5e-3)

    @pytest.mark.slow
    @pytest.mark.parametrize(("level", "kind"), [(0.5, "central"), (0.9, "shortest")])
    def test_intervals_cover(self, level, kind):
        """One step after each of 400 windows of 30 rows."""
        m = searched()
        new, _ = normal_data(400 * 31, 55)
        windows = new.reshape(400, 31)
        ahead = m.forecast(windows[:, :30].reshape(-1, 1), 1, [30] * 400)
        low, high = (end[:, 0] for end in ahead.interval(level, kind))
        covered = np.mean((low <= windows[:, 30]) & (windows[:, 30] <= high))
        assert covered == pytest.approx(level, abs=3 * (level * (1 - level) / 400) ** 0.5 + 0.01)

    def test_columns_in_another_order_are_refused(self):
        X = pd.DataFrame(mixed_data(60)[0], columns=["a", "b"])
        m = km.KernelHMM(2, refine=False, random_state=0).fit(X)
        for ask in (m.density, m.forecast(X, 1).density, m.start().crps):
            with pytest.raises(ValueError, match="the same order is needed"):
                ask(X[["b", "a"]])

    def test_shortest_intervals_beside_variates_are_those_of_the_density(self):
        X = mixed_data(200)[0]
        em = km.EM(n_init=1, max_iter=3, directions=1)
        ahead = km.KernelHMM(2, em=em, random_state=0).fit(X).forecast(X, 2)
        own = ahead.embedding.interval(0.8, "shortest", None)
        assert_array_equal(np.array(ahead.interval(0.8, "shortest")), np.array(own))

    def test_far_ahead_it_is_the_stationary_law(self):
        m, X = model(), normal_data(30, 54)[0]
        assert_allclose(m.forecast(X, 200).states[-1], m.startprob_, atol=1e-8)


class TestSample:
    def test_a_draw_is_like_the_model(self):
        m = model()
        X, states = m.sample(20_000, random_state=1)
        assert X.shape == (20_000, 1)
        assert states.shape == (20_000,)
        assert states.dtype.kind == "i"
        share = np.bincount(states, minlength=2) / 20_000
        assert_allclose(share, m.startprob_, atol=0.03)
        moved = np.zeros((2, 2))
        np.add.at(moved, (states[:-1], states[1:]), 1)
        assert_allclose(moved / moved.sum(axis=1, keepdims=True), m.transmat_, atol=0.02)
        for k in range(2):
            drawn = np.sort(X[states == k, 0])
            cdf = m.emissions_[k].cdf(drawn[::50, None], m.bandwidth_).ravel()
            level = np.searchsorted(drawn, drawn[::50]) / len(drawn)
            assert np.abs(cdf - level).max() < 2 / len(drawn) ** 0.5

    @REFINED
    @pytest.mark.parametrize("d", [1, 3])
    def test_what_is_drawn_can_be_scored(self, d, refine):
        m = model(d, refine=refine)
        X, states = m.sample(200, 3)
        assert np.isfinite(m.score(X))
        assert_array_equal(m.sample(200, 3)[0], X)
        assert_array_equal(m.sample(200, np.random.default_rng(3))[1], states)

    def test_the_models_own_state(self):
        m = model()
        assert_array_equal(m.sample(5)[0], m.sample(5, m.random_state)[0])
        assert m.sample()[0].shape == (1, 1)


# ------------------------------------------------------------ one state


class TestOneState:
    @BOTH
    @REFINED
    def test_every_verb(self, inference, refine):
        X, _ = normal_data(200, 56)
        m = learner(n_components=1, inference=inference, refine=refine).fit(X)
        assert_allclose(m.filter(X), 1.0)
        assert_allclose(m.predict_proba(X), 1.0)
        assert_array_equal(m.predict(X), 0)
        assert_array_equal(m.decode(X)[1], 0)
        assert_allclose(m.log_predictive(X), np.log(m.density(X)[:, 0]))
        assert m.decode(X)[0] == pytest.approx(m.score(X))
        assert_allclose(m.transmat_, [[1.0]])
        assert_allclose(m.forecast(X, 2).states, 1.0)
        assert_array_equal(m.sample(9)[1], 0)
        assert_array_equal(m.start().update(X[0]).predict().probabilities, [1.0])
        assert m.emissions_.mean()[0, 0] == pytest.approx(X.mean(), abs=0.3)


# ------------------------------------------------------------ kernels and features


def mixed_data(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """A number that depends on the state, and a letter that does."""
    X, states = normal_data(n, 57)
    letter = np.random.default_rng(1).random(n) < np.where(states, 0.8, 0.1)
    return np.column_stack([X, letter]), states


def bell(A, B):
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2))


KERNELS = {
    "laplace": km.Laplace(),
    "matern": km.Matern(1.5),
    "fixed": km.Gaussian(0.7),
    "columnwise": km.Gaussian(columnwise=True),
    "sum": km.Gaussian(0.7) + km.Linear(),
    "function": bell,
    "linear": km.Linear(offset=1.0),
    "mixed": km.on_columns({0: km.Gaussian(), 1: km.Delta()}),
}


class TestKernels:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_every_verb(self, kernel):
        X, states = mixed_data()
        m = learner(kernel=KERNELS[kernel]).fit(X)
        assert matched_accuracy(states, m.predict(X)) > 0.9
        for verb in VERBS:
            assert np.isfinite(getattr(m, verb)(X)).all()
        assert np.isfinite(m.density(X)).all()
        assert np.isfinite(m.decode(X)[0])
        assert np.isfinite(m.forecast(X, 2).mean()).all()
        assert np.isfinite(m.sample(9)[0]).all()
        assert np.isfinite(m.forecast(X, 2).quantile(0.5)).all()
        if kernel in ("sum", "function", "linear"):  # densities are of variates
            with pytest.raises(ValueError, match="no density"):
                m.forecast(X, 2).density(X[:5])
        else:
            assert np.isfinite(m.forecast(X, 2).density(X[:5])).all()

    @pytest.mark.parametrize("kernel", ["laplace", "matern", "fixed", "sum", "function", "mixed"])
    def test_filtering_without_em(self, kernel):
        X, states = mixed_data(1_000)
        m = learner(kernel=KERNELS[kernel], refine=False).fit(X)
        assert matched_accuracy(states, m.filter(X).argmax(axis=1)) > 0.85

    def test_a_table_for_each_state(self):
        """A delta kernel: no more than probabilities of values."""
        truth = slow.FiniteHMM(Q, np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]))
        values, states = truth.draw(3_000, 58)
        X = values[:, None].astype(float)
        m = learner(kernel="delta", bandwidth=None, inference="forward").fit(X)
        found = m.density([[0.0], [1.0], [2.0]])
        assert_allclose(found.sum(axis=0), 1.0)
        order = slow.matching(truth.table.T, found)
        assert_allclose(found[:, order], truth.table.T, atol=0.1)
        assert_allclose(m.transmat_[np.ix_(order, order)], Q, atol=0.1)
        alpha = slow.filtered(m.startprob_, m.transmat_, np.log(m.density(X[:6])))
        assert_allclose(m.filter(X[:6]), alpha, atol=1e-9)
        assert set(m.sample(200, 0)[0][:, 0]) <= {0.0, 1.0, 2.0}
        assert np.isfinite(m.density([[7.0]])).all()
        ahead = m.forecast(X, 2)
        assert_allclose(ahead.density([[0.0], [1.0], [2.0]]).sum(axis=1), 1.0, atol=1e-9)

    @pytest.mark.slow
    def test_kernel_bayes_rule_with_a_table(self):
        truth = slow.FiniteHMM(Q, np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]))
        values, states = truth.draw(2_000, 58)
        X = values[:, None].astype(float)
        m, exact = (
            learner(kernel="delta", bandwidth=None, inference=i).fit(X) for i in ("kbr", "forward")
        )
        ours = matched_accuracy(states, m.filter(X).argmax(axis=1))
        assert ours > matched_accuracy(states, exact.filter(X).argmax(axis=1)) - 0.02

    def test_a_matrix_of_kernel_values(self):
        """Rows are numbers of rows."""
        X, _ = normal_data(150, 59)
        numbers = np.arange(150.0)[:, None]
        gram = km.Gaussian(0.8)(X)
        m = learner(kernel=km.Precomputed(gram), refine=False, features=km.Exact()).fit(numbers)
        same = learner(kernel=km.Gaussian(0.8), refine=False, features=km.Exact()).fit(X)
        for verb in ("filter", "predict_proba", "predict"):
            assert_allclose(getattr(m, verb)(numbers), getattr(same, verb)(X), atol=1e-6)
        assert_allclose(
            m.start().update([3]).probabilities, same.start().update(X[3]).probabilities, atol=1e-6
        )

    @BOTH
    def test_a_matrix_of_kernel_values_and_em(self, inference):
        """Densities are those of canonical variates."""
        X, states = normal_data(300, 59)
        numbers = np.arange(300.0)[:, None]
        m = learner(kernel=km.Precomputed(km.Gaussian(0.8)(X)), inference=inference).fit(numbers)
        assert matched_accuracy(states, m.predict(numbers)) > 0.93
        assert np.isfinite(m.log_predictive(numbers)).all()
        assert set(m.sample(50, 0)[0][:, 0]) <= set(numbers[:, 0])

    @pytest.mark.parametrize(
        "features", [km.Exact(), km.Nystroem(tol=1e-8), km.RandomFourier(300)], ids=repr
    )
    def test_features(self, features):
        X, states = normal_data(300, 40)
        m = learner(features=features).fit(X)
        assert matched_accuracy(states, m.predict(X)) > 0.93
        assert not hasattr(features, "rank_")
        assert m.features_ is not features

    @pytest.mark.parametrize("refine", [True, False])
    def test_all_values_distinct_under_a_delta_kernel(self, refine):
        """Nothing ever comes again, so nothing can be learned: said so, or finite."""
        X, _ = normal_data(60, 60)
        try:
            m = learner(kernel="delta", bandwidth=None, refine=refine).fit(X)
        except ValueError as err:
            assert "n_components" in str(err)
        else:
            assert np.isfinite(m.filter(X)).all()


# ------------------------------------------------------------ the regulariser


class TestRegulariser:
    def draft(self) -> tuple[Draft, np.ndarray, np.ndarray]:
        X, _ = normal_data(120, 61)
        draft = Draft.of(X, np.ones(120, dtype=bool), None, km.Gaussian(1.0), km.Exact(), None)
        return draft, X, bell(X, X)

    def test_the_nearest_to_smoothed_probabilities(self, monkeypatch):
        """All λ by n x n matrices and loops."""
        monkeypatch.setattr(drafts, "SCALES", (1.0,))
        draft, X, k = self.draft()
        gamma = learner(inference="forward").fit(X).predict_proba(X)
        W = gamma / gamma.sum(axis=0)
        N, Ny = W.T @ k @ W, k @ W
        regs = REGS * np.trace(N) / 2
        filtered = [slow.kernel_bayes_filter(N, Ny, TRUTH.law, Q, reg) for reg in regs]
        rule = choose_bayes(draft, gamma, Chain(TRUTH.law, Q))
        best = int(np.argmin([((alpha - gamma) ** 2).sum() for alpha in filtered]))
        assert rule.reg == pytest.approx(regs[best], rel=1e-6)
        assert_allclose(rule.gram, N, atol=1e-6)

    def test_the_best_prediction_of_the_next_features(self):
        """‖φ(y_t) − O p_t‖² by n x n matrices."""
        draft, X, k = self.draft()
        fit = spectral(draft, 2)
        W = draft.weighted_rows(fit.embeddings).weights.T
        N, Ny, chain = W.T @ k @ W, k @ W, fit.chain
        regs, losses = REGS * np.trace(N) / 2, []
        for reg in regs:
            alpha = slow.kernel_bayes_filter(N, Ny, chain.startprob, chain.transmat, reg)
            p = np.vstack([chain.startprob, alpha[:-1] @ chain.transmat])
            losses.append((np.diag(k) - 2 * (Ny * p).sum(axis=1) + ((p @ N) * p).sum(axis=1)).sum())
        assert choose_reg(draft, fit).reg == pytest.approx(regs[int(np.argmin(losses))], rel=1e-6)

    @pytest.mark.parametrize("reg", [1e-300, 1e-4, 1e4, 1e300])
    def test_extreme_values_stay_probabilities(self, reg):
        X, states = normal_data(300, 40)
        m = model(reg=reg)
        assert m.reg_ == reg
        assert_allclose(m.filter(X).sum(axis=1), 1.0)
        assert matched_accuracy(states, m.filter(X).argmax(axis=1)) > 0.85


# ------------------------------------------------------------ input and output


class TestInput:
    @pytest.mark.slow
    @pytest.mark.usefixtures("short_searches")
    @pytest.mark.parametrize("kind", ["list", "float32", "frame", "Fortran", "read-only"])
    def test_kinds_of_arrays(self, kind):
        X, _ = normal_data(60, 62, 3)
        X = X.astype(np.float32).astype(float)
        given = {
            "list": X.tolist(),
            "float32": X.astype(np.float32),
            "frame": pd.DataFrame(X, columns=list("abc")),
            "Fortran": np.asfortranarray(X),
            "read-only": X.copy(),
        }[kind]
        if kind == "read-only":
            given.flags.writeable = False
        m, same = (learner(max_iter=4).fit(rows) for rows in (given, X))
        assert_array_equal(m.filter(given), same.filter(X))
        assert_array_equal(m.transmat_, same.transmat_)
        assert isinstance(m.filter(given), np.ndarray)

    def test_frames_name_their_columns(self):
        X = pd.DataFrame(normal_data(120, 62, 3)[0], columns=list("abc"))
        kernel = km.on_columns({"a": km.Gaussian(), ("b", "c"): km.Laplace()})
        m = learner(kernel=kernel).fit(X)
        assert list(m.feature_names_in_) == ["a", "b", "c"]
        assert_array_equal(m.filter(X), m.filter(X))
        with pytest.raises(ValueError, match="feature names"):
            m.filter(X[["b", "a", "c"]])

    @pytest.mark.slow
    def test_a_series_is_one_column(self):
        X, _ = normal_data(120, 62)
        m = learner().fit(pd.Series(X[:, 0], name="y"))
        assert m.n_features_in_ == 1
        assert_array_equal(m.filter(pd.Series(X[:, 0], name="y")), learner().fit(X).filter(X))

    @REFINED
    def test_nothing_given_is_changed(self, refine):
        X, _ = normal_data(120, 62)
        X[5] = np.nan
        lengths, before = [20, 100], X.copy()
        features, kernel = km.Nystroem(), km.Gaussian()
        m = learner(refine=refine, features=features, kernel=kernel)
        parameters = m.get_params(deep=False)
        m.fit(X, lengths)
        for verb in (*VERBS, "score", "decode", "score_samples"):
            getattr(m, verb)(X, lengths)
        m.forecast(X, 2, lengths).interval()
        assert_array_equal(X, before)
        assert lengths == [20, 100]
        assert m.get_params(deep=False) == parameters
        assert not hasattr(features, "rank_")
        X[:] = 0.0
        assert np.ptp(m.emissions_.points) > 1

    def test_returned_arrays_are_not_the_models(self):
        m = model()
        m.sample(3)[0][:] = 0
        with pytest.raises(ValueError, match="read-only"):
            m.emissions_.points[:] = 0

    def test_the_global_generator_is_left_alone(self):
        np.random.seed(0)
        state = np.random.get_state()[1].copy()
        X, _ = normal_data(100, 63)
        m = learner(random_state=None).fit(X)
        m.sample(3)
        assert_array_equal(np.random.get_state()[1], state)

    @pytest.mark.slow
    @REFINED
    def test_the_same_seed_gives_the_same_numbers(self, refine):
        X, _ = normal_data(200, 63)
        a, b = (learner(refine=refine, random_state=5).fit(X) for _ in range(2))
        assert_array_equal(a.filter(X), b.filter(X))
        assert_array_equal(a.transmat_, b.transmat_)
        c = learner(refine=refine, random_state=np.random.default_rng(5)).fit(X)
        assert_array_equal(a.transmat_, c.transmat_)

    @pytest.mark.slow
    def test_a_second_fit_forgets_the_first(self):
        m = learner(n_components=None).fit(normal_data(300, 40, 3)[0])
        X, _ = normal_data(150, 64)
        m.set_params(n_components=2, refine=False).fit(X)
        fresh = learner(refine=False).fit(X)
        assert m.order_ is None
        assert vars(m).keys() == vars(fresh).keys()
        assert_array_equal(m.filter(X), fresh.filter(X))

    @pytest.mark.slow
    def test_progress_is_shown_on_request(self, capsys):
        X, _ = normal_data(60, 65)
        learner().fit(X)
        assert capsys.readouterr().out == capsys.readouterr().err == ""
        seen = []
        learner(verbose=lambda *told: seen.append(told)).fit(X)
        assert seen


BAD = {
    "n_components": [0, -1, 2.0, "2", True, NAN, [2]],
    "inference": ["bayes", None, 1],
    "bandwidth": [0, -1.0, "wide", NAN, np.inf, (0.1, 0.2), ()],
    "reg": [0, -1, "small", NAN, np.inf, True],
    "n_init": [0, 1.5, "2"],  # None is the default
    "max_iter": [0, 1.5],
    "tol": [0, -1e-3, NAN, "x"],
    "random_state": ["x", 1.5, -1],
    "kernel": ["bell", None, 3],
    "features": ["exact", 3],
    "refine": ["yes", None, 2],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in BAD.items() for value in values],
    ids=lambda v: str(v),
)
@REFINED
def test_bad_parameters(name, value, refine):
    parameters = {"refine": refine, name: value}
    with pytest.raises(ValueError, match=name if name != "bandwidth" else "bandwidth|lengthscale"):
        learner(**parameters).fit(normal_data(60, 65)[0])


BAD_X = {
    "flat": (np.zeros(30), "X has 1 dimension"),
    "three axes": (np.zeros((3, 3, 3)), "X has 3 dimension"),
    "no rows": (np.zeros((0, 1)), "X is too short"),
    "no columns": (np.zeros((30, 0)), "X has no columns"),
    "one row": (np.zeros((1, 1)), "X"),
    "two rows": (np.array([[0.0], [1.0]]), "X is too short: found 2.*minimum of 3"),
    "infinite": (np.array([[0.0], [np.inf], [1.0]]), "X contains inf"),
    "nothing but NaN": (np.full((9, 1), NAN), "X has no row"),
    "one row seen": (np.where(np.arange(9) == 4, 1.0, NAN)[:, None], "X.*three"),
    "every other row": (np.where(np.arange(30) % 2, np.arange(30.0), NAN)[:, None], "X.*three"),
    "every third row": (np.where(np.arange(30) % 3, np.arange(30.0), NAN)[:, None], "X.*three"),
    "constant": (np.ones((30, 1)), "X is constant"),
    "text": (np.array([["a"], ["b"]]), "X holds text"),
    "None": (None, "X is None"),
}


@pytest.mark.parametrize("case", BAD_X)
@pytest.mark.parametrize("K", [1, 2, None])
def test_bad_observations(case, K):
    X, message = BAD_X[case]
    with pytest.raises(ValueError, match=message):
        learner(n_components=K).fit(X)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([30, 31], "lengths sums to 61 but X has 60"),
        ([], "lengths"),
        ([0, 60], "lengths"),
        ([-1, 61], "lengths"),
        ([30.5, 29.5], "lengths"),
        (60, "lengths"),
        ("60", "lengths"),
        ([1] * 60, "three"),
        ([2] * 30, "three"),
    ],
    ids=str,
)
def test_bad_lengths(lengths, message):
    with pytest.raises(ValueError, match=message):
        learner().fit(normal_data(60, 65)[0], lengths)


def test_bad_calls():
    m, X = model(), normal_data(20, 65)[0]
    for call, message in (
        (lambda: m.filter(np.hstack([X, X])), "2 features, but KernelHMM is expecting 1"),
        (lambda: m.filter(X[:0]), "X is too short"),
        (lambda: m.filter(X, [3, 4]), "lengths sums to 7"),
        (lambda: m.density(np.full((2, 1), NAN)), "Y contains NaN"),
        (lambda: m.density(np.hstack([X, X])), "Y has 2 columns"),
        (lambda: m.density(X[:, 0]), "Y has 1 dimension"),
        (lambda: m.decode(X, algorithm="best"), "algorithm is 'best'"),
        (lambda: m.forecast(X, 0), "steps is 0"),
        (lambda: m.forecast(X, 1.5), "steps is 1.5"),
        (lambda: m.forecast(X, 1).interval(1.5), "level is 1.5"),
        (lambda: m.forecast(X, 1).quantile(2), "q is 2"),
        (lambda: m.sample(0), "n_samples is 0"),
        (lambda: m.sample(2, "x"), "random_state is 'x'"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            call()


@pytest.mark.parametrize("verb", [*VERBS, "score", "score_samples", "decode", "density"])
def test_not_fitted(verb):
    with pytest.raises(NotFittedError):
        getattr(km.KernelHMM(2), verb)(np.zeros((3, 1)))


def test_not_fitted_without_data():
    for call in (
        km.KernelHMM(2).sample,
        km.KernelHMM(2).start,
        km.KernelHMM(2).get_stationary_distribution,
        lambda: km.KernelHMM(2).forecast(np.zeros((3, 1)), 1),
    ):
        with pytest.raises(NotFittedError):
            call()


def test_more_states_than_can_be_told_apart():
    with pytest.raises(ValueError, match="n_components is 200, but .* only"):
        learner(n_components=200).fit(normal_data(300, 40)[0])


# ------------------------------------------------------------ copies


class TestCopies:
    @pytest.mark.slow
    @REFINED
    @pytest.mark.parametrize(("K", "inference"), [(2, "forward"), (None, "kbr")])
    def test_save_and_load(self, K, refine, inference, tmp_path):
        X, _ = normal_data(200, 66)
        m = learner(n_components=K, refine=refine, inference=inference).fit(X)
        m.save(tmp_path / "hmm.km")
        again = km.load(tmp_path / "hmm.km")
        self.assert_same(again, m, X)

    @pytest.mark.slow
    @pytest.mark.usefixtures("short_searches")
    @pytest.mark.parametrize(
        "kernel", [km.Delta(), km.Laplace(), km.on_columns({0: km.Gaussian()})], ids=repr
    )
    def test_save_and_load_kernels(self, kernel, tmp_path):
        X = np.round(normal_data(200, 66)[0])
        m = learner(kernel=kernel, bandwidth=None, max_iter=4).fit(X)
        m.save(tmp_path / "hmm.km")
        self.assert_same(km.load(tmp_path / "hmm.km"), m, X)

    @pytest.mark.slow
    @pytest.mark.usefixtures("short_searches")
    @pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
    def test_copied_and_sent(self, how):
        """As joblib does."""
        X, _ = normal_data(200, 66)
        m = learner(n_components=None).fit(X)
        self.assert_same(how(m), m, X)

    def assert_same(self, again: km.KernelHMM, m: km.KernelHMM, X) -> None:
        assert repr(again) == repr(m)
        for verb in VERBS:
            assert_array_equal(getattr(again, verb)(X), getattr(m, verb)(X))
        assert again.decode(X)[0] == m.decode(X)[0]
        assert_array_equal(again.sample(9, 0)[0], m.sample(9, 0)[0])
        assert_array_equal(again.forecast(X, 2).density(X[:5]), m.forecast(X, 2).density(X[:5]))
        assert_array_equal(again.history_, m.history_)
        assert_array_equal(
            again.start().update(X[0]).probabilities, m.start().update(X[0]).probabilities
        )
        assert (again.n_components_, again.bandwidth_, again.reg_) == (
            m.n_components_, m.bandwidth_, m.reg_,
        )  # fmt: skip
        assert again.order_ == m.order_
        if m.order_ is not None:
            assert again.order_.method == m.order_.method
            assert_array_equal(again.order_.correlations, m.order_.correlations)

    def test_clones_are_not_fitted(self):
        assert not [v for v in vars(clone(model())) if v.endswith("_") or v.startswith("_")]


# ------------------------------------------------------------ what makes trouble


def trouble() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(67)
    X = make_hmm("separated", 80, random_state=67).X
    return {
        "three rows": X[:3],
        "four rows": X[:4],
        "five rows": X[:5],
        "ten rows": X[:10],
        "twenty rows": X[:20],
        "two values": (X > 0.5).astype(float),
        "one row unlike the others": np.concatenate([np.zeros((99, 1)), np.ones((1, 1))]),
        "rounded": np.round(X, 1),
        "each row five times": np.repeat(X[:16], 5, axis=0),
        "a constant column": np.column_stack([X, np.ones(80)]),
        "a column twice": np.column_stack([X, X]),
        "tiny": 1e-30 * X,
        "huge": 1e30 * X,
        "far away": X + 1e8,
        "one at 1e6": np.concatenate([X, [[1e6]], X[:10]]),
        "heavy tails": rng.standard_cauchy(size=(80, 1)),
        "white noise": rng.normal(size=(80, 1)),
        "in turns": np.tile([[0.0], [1.0]], (40, 1)),
        "in turns with noise": np.tile([[0.0], [1.0]], (40, 1)) + 0.01 * rng.normal(size=(80, 1)),
        "a cycle of three": np.tile([[0.0], [1.0], [5.0]], (27, 1)),
        "one change": np.repeat([[0.0], [4.0]], 40, axis=0) + 0.1 * rng.normal(size=(80, 1)),
        "mostly missing": np.where(rng.random((80, 1)) < 0.4, NAN, X),
        "a trend": np.arange(100.0)[:, None],
    }


TROUBLE = trouble()
FEW = [case for case in TROUBLE if len(TROUBLE[case]) <= 20]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "K", "refine"),
    [
        *[(case, K, refine) for case in TROUBLE for K, refine in ((2, True), (None, False))],
        *[(case, 6, True) for case in (*FEW, "white noise", "a cycle of three", "a column twice")],
    ],
    ids=str,
)
@pytest.mark.usefixtures("short_searches")
@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
def test_trouble(case, K, refine):
    """Probabilities, finite scores and draws, or a ValueError that names what is wrong.

    (As many states as are looked for at the most is a NumericalWarning.)
    """
    X = TROUBLE[case]
    em = km.EM(n_init=1, max_iter=4)
    m = km.KernelHMM(K, refine=refine, random_state=0, em=em)
    try:
        m.fit(X)
    except ValueError as err:
        assert re.match("n_components is|X ", str(err)), str(err)
        assert K is not None or not str(err).startswith("n_components is")
        return
    for rows in (m.filter(X), m.predict_proba(X), m.transmat_, m.forecast(X, 2).states):
        assert rows.min() >= 0
        assert_allclose(rows.sum(axis=1), 1.0)
    seen = X[np.isfinite(X).all(axis=1)]
    for numbers in (
        m.log_predictive(X), m.decode(X)[0], m.density(seen), m.emissions_.weights,
        m.forecast(X, 2).mean(), m.sample(5, 0)[0], m.start().update(seen[0]).probabilities,
    ):  # fmt: skip
        assert np.isfinite(numbers).all()


@cache
def calm_and_wild():
    rng = np.random.default_rng(0)
    states = (np.arange(400) // 25) % 2
    X = np.where(states, 2.0, 0.5)[:, None] * rng.standard_t(3, (400, 1))
    return X, km.KernelHMM(2, random_state=0).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["constant", "copy", "nearly a copy"])
def test_a_column_that_tells_nothing_beside_one_that_does(kind, tmp_path):
    """Densities of rows in a plane have no bandwidth: states were outliers and all others."""
    X, alone = calm_and_wild()
    off = 1e-9 * np.random.default_rng(1).standard_normal(X.shape)
    other = {"constant": np.full_like(X, 0.1), "copy": 3 * X + 1, "nearly a copy": X + off}
    both = np.hstack([X, other[kind]])
    model = km.KernelHMM(2, random_state=0).fit(both)
    assert np.mean(model.predict(both) == alone.predict(X)) > 0.98
    assert_allclose(model.transmat_, alone.transmat_, atol=0.02)
    model.save(tmp_path / "hmm.km")
    assert_array_equal(km.load(tmp_path / "hmm.km").filter(both), model.filter(both))
    lower, upper = model.forecast(both, 2).interval(0.9)
    assert np.isfinite(lower).all()
    assert (lower <= upper).all()


def test_laws_of_several_columns_are_integrated_once(monkeypatch):
    """Without EM weights have both signs, and what they leave is an integral."""
    from kernelmean.embedding import positive_part

    asked, real = [], positive_part.negative_mass

    def counted(*given):
        asked.append(given)
        return real(*given)

    monkeypatch.setattr(positive_part, "negative_mass", counted)
    rng = np.random.default_rng(71)
    X = rng.normal(size=(300, 2)) + 2.0 * (np.arange(300) // 10 % 2)[:, None]
    m = km.KernelHMM(2, refine=False, random_state=0).fit(X)
    asked.clear()
    first = m.log_predictive(X)
    m.decode(X)
    m.density(X)
    assert_allclose(m.log_predictive(X), first)
    assert len(asked) == 1


def test_a_state_that_is_never_left_says_so():
    X = make_hmm("separated", 200, random_state=0).X
    m = km.KernelHMM(2, refine=False, bandwidth=0.4, random_state=0).fit(X)
    m.transmat_ = np.eye(2)
    told = str(m.summary())
    assert "never left" in told
    assert "inf" not in told


@pytest.mark.parametrize("seed", [710000, 710001, 710004, 710011])
def test_moments_leave_every_state(seed):
    """On the edge of the simplex one state was for ever, and the other's share nothing."""
    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.random(60) < 0.05) % 2
    m = km.KernelHMM(2, refine=False, random_state=0)
    m.fit((3.0 * states + rng.normal(size=60))[:, None])
    least = 1 / 59
    assert m.transmat_.min() == pytest.approx(least / (1 + least))
    assert m.startprob_.min() > least
    assert_allclose(m.startprob_ @ m.transmat_, m.startprob_, atol=1e-12)
    assert "never left" not in str(m.summary())


def test_the_summary_says_how_normal_laws_did(rng):
    states = np.cumsum(rng.random(200) < 0.1) % 2
    X = (3.0 * states + rng.normal(size=200))[:, None]
    model = km.KernelHMM(2, random_state=0).fit(X)
    held = model.held_out_
    assert -3.0 < held["normal"] <= held["taken"] + 1e-9
    assert "log-likelihood of a row held out, normal laws" in str(model.summary())
    assert km.KernelHMM(2, random_state=0, refine=False).fit(X).held_out_ == {}


@pytest.mark.slow
def test_halves_that_climb_elsewhere_do_not_decide_alone():
    """Calm and wild rows that stay for twenty: once, two states that were never left were taken.

    Rows held out were likelier by .6 in all, from halves whose EM had ended elsewhere; by EM on all
    rows, each left out of its law, they were less likely by 16.
    """
    rng = np.random.default_rng(97007)
    states = [int(rng.integers(2))]
    for _ in range(2099):
        states.append(int(rng.choice(2, p=[[0.95, 0.05], [0.05, 0.95]][states[-1]])))
    X = rng.normal(size=(2100, 1)) * np.array([0.7, 2.0])[states][:, None]
    m = km.KernelHMM(2, random_state=0).fit(X[:100])
    assert matched_accuracy(states[100:], m.predict(X[100:])) > 0.85
    assert m.transmat_.diagonal().max() < 0.995

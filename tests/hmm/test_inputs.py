"""Inputs that drive the transitions: learned, asked about, refused."""

from copy import deepcopy
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

import kernelmean as km
from kernelmean.chains.estimator import renumber
from kernelmean.chains.markov import Chain, filtered

QUICK = {"em": km.EM(n_init=3), "random_state": 0}


def driven(n, slope, seed, base=-2.0, columns=1):
    """Two states 4 apart: each is left with probability 1/(1 + exp(−base − slope u))."""
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(n, columns))
    states = np.zeros(n, dtype=int)
    for t in range(1, n):
        leaves = rng.random() < 1 / (1 + np.exp(-base - slope * U[t, 0]))
        states[t] = 1 - states[t - 1] if leaves else states[t - 1]
    return 4.0 * states[:, None] + rng.normal(size=(n, 1)), U, states


@cache
def model(inference="kbr", **more):
    X, U, _ = driven(600, 2.0, 1)
    return km.KernelHMM(2, inference=inference, **QUICK, **more).fit(X, inputs=U)


def recursion(m, X, U, seams=(0,)):
    """α and log p(y_t | past), from the densities and the transitions, row by row."""
    f, Q = np.log(m.density(X)), m.transitions(U)
    alpha, loglik = np.zeros(f.shape), np.zeros(len(X))
    for t in range(len(X)):
        prior = m.startprob_ if t in seams else alpha[t - 1] @ Q[t]
        joint = np.log(prior) + f[t]
        loglik[t] = logsumexp(joint)
        alpha[t] = np.exp(joint - loglik[t])
    return alpha, loglik


class TestLearning:
    @pytest.mark.slow
    @pytest.mark.thorough
    def test_known_coefficients_are_found(self):
        X, U, states = driven(3_000, 2.0, 0)
        m = km.KernelHMM(2, random_state=0).fit(X, inputs=U)
        odds = np.diff(m.slopes_[..., 0], axis=1)[:, 0] / U.std()  # of state 1 over state 0
        assert_allclose(np.abs(odds), 2.0, atol=0.35)
        assert odds[0] > 0 > odds[1]
        new, more, truth = driven(1_500, 2.0, 7)
        plain = km.KernelHMM(2, random_state=0).fit(X)
        told, untold = m.score(new, inputs=more), plain.score(new)
        assert told - untold > 100
        at = np.linspace(-1.5, 1.5, 7)[:, None]
        leaves = 1 / (1 + np.exp(2 - 2 * at[:, 0]))
        for k in range(2):
            assert_allclose(m.transitions(at)[:, k, 1 - k], leaves, atol=0.07)

    def test_useless_inputs_cost_nothing(self):
        """Every answer is that of the fit without them, to the bit."""
        X, _, _ = driven(400, 0.0, 5)
        U = np.random.default_rng(3).normal(size=(400, 2))
        plain = km.KernelHMM(2, **QUICK).fit(X)
        m = km.KernelHMM(2, **QUICK).fit(X, inputs=U)
        assert m.slopes_.shape == (2, 2, 2)
        assert not m.slopes_.any()
        assert (m.filter(X, inputs=U) == plain.filter(X)).all()
        assert (m.predict_proba(X, inputs=U) == plain.predict_proba(X)).all()
        assert m.score(X, inputs=U) == plain.score(X)
        assert (m.transmat_ == plain.transmat_).all()
        assert "no use for rows held out" in str(m.summary())

    def test_units_do_not_matter(self):
        X, U, _ = driven(600, 2.0, 1)
        other = km.KernelHMM(2, **QUICK).fit(X, inputs=1e6 * U - 5.0)
        assert_allclose(other.slopes_, model().slopes_, atol=1e-5)

    def test_a_constant_input_says_nothing(self):
        X, U, _ = driven(600, 2.0, 1)
        m = km.KernelHMM(2, **QUICK).fit(X, inputs=np.c_[U, np.ones(600)])
        assert_allclose(m.slopes_[..., 1], 0.0, atol=1e-12)
        assert_allclose(m.slopes_[..., 0], model().slopes_[..., 0], atol=1e-3)

    def test_more_rows_than_are_searched(self, monkeypatch):
        """EM goes on with all rows, and their inputs."""
        monkeypatch.setattr("kernelmean.hmm.learn.SEARCHED", 500)
        X, U, _ = driven(1_500, 2.0, 2)
        m = km.KernelHMM(2, **QUICK).fit(X, inputs=U)
        assert m.emissions_.points.shape[0] == 1_500
        odds = np.diff(m.slopes_[..., 0], axis=1)[:, 0]
        assert odds[0] > 1.0
        assert odds[1] < -1.0

    @pytest.mark.parametrize("more", [{"bandwidth": 0.4}, {"kernel": km.Delta()}], ids=str)
    def test_where_no_bandwidth_is_sought(self, more):
        X, U, _ = driven(500, 2.5, 4)
        m = km.KernelHMM(2, **QUICK, **more).fit(np.round(X), inputs=U)
        odds = np.diff(m.slopes_[..., 0], axis=1)[:, 0]
        assert odds[0] > 0.8
        assert odds[1] < -0.8

    def test_the_summary_says_what_they_are_worth(self):
        told = str(model().summary())
        without, with_ = model().driven_.held_out
        assert with_ > without
        assert "u0: drive the transitions" in told
        assert f"{with_:.4g}" in told
        assert f"{without:.4g}" in told

    def test_statsmodels(self):
        """The same log-likelihood for the same normal laws and coefficients.

        Their first row is two of its own steps away from the probabilities that are given.
        """
        regression = pytest.importorskip("statsmodels.tsa.regime_switching.markov_regression")
        X, U, _ = driven(300, 2.0, 6)
        exog = np.c_[np.ones(300), U]
        theirs = regression.MarkovRegression(X[:, 0], k_regimes=2, exog_tvtp=exog)
        # P(0 → 0), P(1 → 0) by constant, then by input; means; variance
        params = np.array([2.0, -1.8, -1.5, 1.7, 0.0, 4.0, 1.0])
        theirs.initialize_known(np.array([0.3, 0.7]))
        stay, back = (1 / (1 + np.exp(-(params[k] + params[2 + k] * U[:, 0]))) for k in (0, 1))
        Q = np.stack([np.stack([stay, 1 - stay], 1), np.stack([back, 1 - back], 1)], axis=1)
        chain = Chain(np.array([0.3, 0.7]) @ Q[0] @ Q[0], np.roll(Q, -1, axis=0))
        logb = -0.5 * (X - np.array([0.0, 4.0])) ** 2 - 0.5 * np.log(2 * np.pi)
        ours = filtered(logb, chain, [slice(0, 300)])[1].sum()
        assert_allclose(ours, theirs.loglike(params), rtol=1e-9)


class TestAnswers:
    def test_filter_and_score_are_the_recursion(self):
        m, (X, U, _) = model("forward"), driven(120, 2.0, 9)
        alpha, loglik = recursion(m, X, U, seams=(0, 50))
        lengths = [50, 70]
        assert_allclose(m.filter(X, lengths, U), alpha, atol=1e-9)
        assert_allclose(m.log_predictive(X, lengths, U), loglik, atol=1e-9)
        assert m.score(X, lengths, U) == pytest.approx(loglik.sum())
        score, gamma = m.score_samples(X, lengths, U)
        assert score == pytest.approx(loglik.sum())
        assert_allclose(gamma[[49, 119]], alpha[[49, 119]], atol=1e-9)

    def test_transitions(self):
        m, (_, U, _) = model(), driven(50, 2.0, 9)
        Q = m.transitions(U)
        assert Q.shape == (50, 2, 2)
        assert_allclose(Q.sum(axis=2), 1.0)
        z = (U[:, 0] - driven(600, 2.0, 1)[1].mean()) / driven(600, 2.0, 1)[1].std()
        odds = np.log(Q[:, 0, 1] / Q[:, 0, 0])
        slope = np.polyfit(z, odds, 1)[0]
        assert slope == pytest.approx(m.slopes_[0, 1, 0] - m.slopes_[0, 0, 0])

    @pytest.mark.parametrize("inference", [(), ("forward",)], ids=["kbr", "forward"])
    def test_a_belief_is_the_filter(self, inference):
        m, (X, U, _) = model(*inference), driven(60, 2.0, 9)
        X[20:25] = np.nan
        belief, got = m.start(), []
        for t in range(60):
            if t:
                belief.predict(U[t])
            got.append(belief.update(X[t]).probabilities)
        assert_allclose(got, m.filter(X, inputs=U), atol=1e-8)

    def test_kernel_bayes_rule(self):
        m, (X, U, _) = model("kbr", reg=0.1), driven(60, 2.0, 9)
        assert m.reg_ == 0.1
        shares = m.rule_.shares(m.rule_.evaluations(X))
        found, Q = m.filter(X, inputs=U), m.transitions(U)
        for t in range(60):
            prior = m.startprob_ if t == 0 else found[t - 1] @ Q[t]
            assert_allclose(found[t], m.rule_.posterior(prior[None], shares[[t]])[0], atol=1e-9)

    def test_forecasts_go_on_with_the_inputs_ahead(self):
        m, (X, U, _) = model(), driven(90, 2.0, 9)
        more = np.array([[1.0], [-2.0], [0.5]])
        ahead = m.forecast(X, 3, inputs=U, inputs_ahead=more)
        state = m.filter(X, inputs=U)[-1]
        for h in range(3):
            state = state @ m.transitions(more[[h]])[0]
            assert_allclose(ahead.states[h], state, atol=1e-12)
        two = m.forecast(X, 3, [40, 50], U, np.vstack([-more, more]))
        assert_allclose(two.states[3:], m.forecast(X[40:], 3, None, U[40:], more).states)
        assert_allclose(two.states[:3], m.forecast(X[:40], 3, None, U[:40], -more).states)
        # rows that are missing are a forecast
        gaps = m.filter(np.vstack([X, np.full((3, 1), np.nan)]), inputs=np.vstack([U, more]))
        assert_allclose(gaps[-3:], ahead.states, atol=1e-9)

    def test_one_step(self):
        m, (X, U, _) = model("forward"), driven(40, 2.0, 9)
        prior = np.vstack([m.startprob_, np.zeros((39, 2))])
        alpha, Q = m.filter(X, inputs=U), m.transitions(U)
        for t in range(1, 40):
            prior[t] = alpha[t - 1] @ Q[t]
        assert_allclose(m.one_step(X, inputs=U), prior @ m.emissions_.mean(), atol=1e-9)

    @pytest.mark.parametrize("algorithm", ["viterbi", "map"])
    def test_paths(self, algorithm):
        m, (X, U, _) = model("forward"), driven(200, 2.0, 9)
        logprob, path = m.decode(X, algorithm=algorithm, inputs=U)
        Q, f = m.transitions(U), m.density(X)
        total = np.log(m.startprob_[path[0]] * f[0, path[0]])
        for t in range(1, 200):
            total += np.log(Q[t, path[t - 1], path[t]] * f[t, path[t]])
        assert logprob == pytest.approx(total)
        if algorithm == "map":
            assert (path == m.predict(X, inputs=U)).all()
        else:
            assert logprob >= m.decode(X, algorithm="map", inputs=U)[0]

    def test_samples_move_as_inputs_say(self):
        m = model()
        U = np.tile([[-3.0], [2.0]], (5_000, 1))
        X, states = m.sample(10_000, random_state=0, inputs=U)
        assert X.shape == (10_000, 1)
        Q, moved = m.transitions(U[:2]), states[1:] != states[:-1]
        for into in (0, 1):
            rows = np.arange(1, 10_000)[(np.arange(1, 10_000) % 2) == into]
            for k in (0, 1):
                here = rows[states[rows - 1] == k]
                assert moved[here - 1].mean() == pytest.approx(Q[into, k, 1 - k], abs=0.04)

    def test_renumbered(self):
        X, U, _ = driven(100, 2.0, 9)
        m = deepcopy(model())
        before, Q = m.filter(X, inputs=U), m.transitions(U)
        renumber(m, np.array([1, 0]))
        assert_allclose(m.filter(X, inputs=U), before[:, ::-1], atol=1e-9)
        assert_allclose(m.transitions(U), Q[:, ::-1, ::-1])

    def test_saved(self, tmp_path):
        m, (X, U, _) = model(), driven(100, 2.0, 9)
        m.save(tmp_path / "m.km")
        back = km.load(tmp_path / "m.km")
        assert (back.filter(X, inputs=U) == m.filter(X, inputs=U)).all()
        assert str(back.summary()) == str(m.summary())

    def test_pictures(self):
        m, (X, U, _) = model(), driven(100, 2.0, 9)
        display = km.display.RegimeDisplay.from_estimator(m, X, inputs=U)
        assert_allclose(display.probabilities, m.predict_proba(X, inputs=U))


class TestRefused:
    X, U, _ = driven(100, 1.0, 0)

    @pytest.mark.parametrize(
        ("inputs", "said"),
        [
            (U[:90], "inputs has 90 rows; 100 are needed"),
            (np.where(np.arange(100)[:, None] == 3, np.nan, U), "inputs contains NaN"),
            (pd.DataFrame(U, index=np.arange(5, 105)), "inputs has another index than X"),
        ],
    )
    def test_in_fit(self, inputs, said):
        X = pd.DataFrame(self.X) if isinstance(inputs, pd.DataFrame) else self.X
        with pytest.raises(ValueError, match=said):
            km.KernelHMM(2, **QUICK).fit(X, inputs=inputs)

    def test_without_em(self):
        with pytest.raises(ValueError, match="refine is False, and inputs are given"):
            km.KernelHMM(2, refine=False).fit(self.X, inputs=self.U)

    @pytest.mark.parametrize(
        "ask",
        [
            lambda m, X, U: m.filter(X, inputs=U),
            lambda m, X, U: m.predict_proba(X, inputs=U),
            lambda m, X, U: m.predict(X, inputs=U),
            lambda m, X, U: m.decode(X, inputs=U),
            lambda m, X, U: m.score(X, inputs=U),
            lambda m, X, U: m.score_samples(X, inputs=U),
            lambda m, X, U: m.log_predictive(X, inputs=U),
            lambda m, X, U: m.one_step(X, inputs=U),
            lambda m, X, U: m.forecast(X, 2, inputs=U, inputs_ahead=np.ones((2, 1))),
            lambda m, X, U: m.sample(100, inputs=U),
        ],
    )
    def test_in_answers(self, ask):
        for inputs, said in (
            (None, "inputs is None; the model was fitted with 1"),
            (self.U[:7], "inputs has 7 rows; 100 are needed"),
            (np.ones((100, 2)), "inputs has 2 columns"),
        ):
            with pytest.raises(ValueError, match=said):
                ask(model(), self.X, inputs)
        plain = km.KernelHMM(2, refine=False, random_state=0).fit(self.X)
        with pytest.raises(ValueError, match="inputs were given, and none in fitting"):
            ask(plain, self.X, self.U)

    def test_inputs_ahead(self):
        for ahead, said in (
            (None, "inputs_ahead is None"),
            (np.ones((3, 1)), "inputs_ahead has 3 rows; 2 are needed"),
        ):
            with pytest.raises(ValueError, match=said):
                model().forecast(self.X, 2, inputs=self.U, inputs_ahead=ahead)

    def test_a_belief_that_is_not_told(self):
        with pytest.raises(ValueError, match="inputs is None"):
            model().start().predict()
        with pytest.raises(ValueError, match="inputs is None"):
            model().transitions(None)
        with pytest.raises(ValueError, match="inputs has 2 columns"):
            model().start().predict([1.0, 2.0])

    def test_names(self):
        frame = pd.DataFrame(self.U, columns=["rate"])
        m = km.KernelHMM(2, **QUICK).fit(self.X, inputs=frame)
        assert m.input_names_ == ["rate"]
        assert "rate: " in str(m.summary())
        with pytest.raises(ValueError, match=r"inputs has the columns \['other'\]"):
            m.filter(self.X, inputs=frame.rename(columns={"rate": "other"}))

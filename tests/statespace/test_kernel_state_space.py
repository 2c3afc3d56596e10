"""KernelStateSpace: every verb against loops, integrals, known models, and what makes trouble."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import state_oracles as slow
from chain_options import latent
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import trapezoid
from scipy.stats import norm, spearmanr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import kernelmean as km
from kernelmean.datasets import make_hmm, make_state_space
from kernelmean.features.landmarks import Exact
from kernelmean.statespace import learn

pytestmark = pytest.mark.usefixtures("short_searches")
FAST = {"random_state": 0, "n_init": 2, "max_iter": 8, "bandwidth": 0.4, "n_nodes": 21}
SEARCH = {"bandwidth": None, "n_nodes": None, "max_iter": 60}  # as users have it
NAN = float("nan")
ARRAYS = ("predict", "log_predictive")
GRID = np.linspace(-40, 40, 8_001)


@cache
def data(n: int = 240, seed: int = 40, design: str = "linear"):
    found = make_state_space(design, n, random_state=seed)
    found.X.flags.writeable = False
    return found


def learner(**parameters) -> km.KernelStateSpace:
    return km.KernelStateSpace(**latent(**{**FAST, **parameters}))


@cache
def model(n: int = 200, **parameters) -> km.KernelStateSpace:
    """One fit that many tests look at, and leave alone."""
    return learner(**parameters).fit(data(n).X)


@cache
def wide() -> np.ndarray:
    """Eight columns, three of which follow the state."""
    x = data(200).states
    r = np.random.default_rng(1)
    Y = r.normal(size=(200, 8))
    Y[:, :3] += np.column_stack([x, np.abs(x), -x])
    return Y


def with_gaps(n: int = 60, seed: int = 45) -> np.ndarray:
    X = data(n, seed).X.copy()
    X[[0, 7, 8, 9, n - 1]] = NAN
    return X


def table(m: km.KernelStateSpace, Y: np.ndarray) -> np.ndarray:
    """f_j(y); one for missing rows."""
    gone = np.isnan(Y).any(axis=1)
    points = np.where(gone[:, None], 0.0, Y)
    logs = m.laws_.log_density(points if m.variates_ is None else m.variates_(points))
    return np.where(gone[:, None], 1.0, np.exp(logs))


def by_hand(m: km.KernelStateSpace, Y: np.ndarray) -> slow.Filter:
    return slow.Filter.of(m.startprob_, m.transmat_, table(m, Y))


def mse(X: np.ndarray, forecasts: np.ndarray) -> float:
    return float(np.mean((X - forecasts) ** 2))


INFERENCE = pytest.mark.parametrize("inference", ["nodes", "kbr", "particles"])
BOTH = pytest.mark.parametrize("inference", ["nodes", "kbr"])
REFINED = pytest.mark.parametrize("refine", [True, False], ids=["em", "moments"])
SETTINGS = {
    "default": {},
    "moments": {"refine": False},
    "kbr": {"inference": "kbr"},
    "uniform": {"latent": "uniform"},
    "plane": {"n_latent": 2, "n_nodes": 40},
    "space": {"n_latent": 3, "n_nodes": 40},
    "laplace": {"kernel": "laplace", "kernel_x": "laplace"},
}
EVERY = pytest.mark.parametrize("setting", SETTINGS)


# ------------------------------------------------------------ what is learned


@cache
def full(design: str) -> km.KernelStateSpace:
    """As users have it, on 500 of 700 rows."""
    return km.KernelStateSpace(random_state=0).fit(data(700, 41, design).X[:500])


DESIGNS = pytest.mark.parametrize("design", ["linear", "bimodal", "volatility"])


class TestWhatIsLearned:
    @pytest.mark.slow
    @DESIGNS
    @pytest.mark.thorough
    def test_forecasts_are_nearly_those_of_the_true_model(self, design):
        """200 rows after 500 of training, beside the exact filter of the law that drew them."""
        d, m = data(700, 41, design), full(design)
        new = slice(500, None)
        ours, best = (mse(d.X[new], f.predict(d.X)[new]) for f in (m, d.model))
        assert ours < {"linear": 1.1, "bimodal": 1.25, "volatility": 1.1}[design] * best
        gap = d.model.log_predictive(d.X)[new].mean() - m.log_predictive(d.X)[new].mean()
        assert gap < 0.1
        low, high = (end[new] for end in m.predict_interval(d.X))
        assert 0.83 < np.mean((low <= d.X[new]) & (d.X[new] <= high)) < 0.965

    @pytest.mark.slow
    @DESIGNS
    @pytest.mark.thorough
    def test_the_stationary_law_is_where_the_rows_are(self, design):
        """As near as 500 rows drawn from the model come; none is at the last nodes."""
        m = full(design)
        rows = m.smooth(data(700, 41, design).X[:500]).probabilities.mean(axis=0)
        law = np.cumsum(m.startprob_)
        draws = [m.sample(500, seed)[1] for seed in range(30)]
        drawn = [np.abs((x <= m.nodes_.T).mean(axis=0) - law).max() for x in draws]
        assert np.abs(np.cumsum(rows) - law).max() < max(drawn)
        assert m.startprob_[[0, 1, -2, -1]].sum() < 0.02

    @DESIGNS
    @pytest.mark.thorough
    def test_the_stationary_law_of_the_observations(self, design):
        """The interval of the first row is that of the data, from far-off forecasts too."""
        m, X = full(design), data(700, 41, design).X[:500]
        spread = np.ptp(np.quantile(X, [0.05, 0.95]))
        first = np.array(m.predict_interval(X[:1], 0.9))[:, 0, 0]
        assert_allclose(first, np.quantile(X, [0.05, 0.95]), atol=0.15 * spread)
        ahead = m.forecast(X, 400)
        assert_allclose(ahead.states[-1], m.startprob_, atol=1e-3)
        assert_allclose(ahead[[-1]].interval(0.9)[0][0], first[0], atol=0.02 * spread)

    @pytest.mark.thorough
    def test_the_state_is_found_up_to_a_function_of_it(self):
        d, m = data(700, 41), full("linear")
        found, truth = m.filter(d.X).mean()[:, 0], d.model.filter(d.X)[:, 0]
        assert abs(spearmanr(found, truth)[0]) > 0.97
        assert m.smooth(d.X).variance().mean() < m.filter(d.X).variance().mean()

    @pytest.mark.thorough
    def test_emissions_and_transitions(self):
        """E[y | z] goes one way, from one end of the data to the other; z lasts as x does."""
        m = full("linear")
        z = np.linspace(-1.5, 1.5, 7)[:, None]
        y, new = (law.mean()[:, 0] for law in (m.emission_at(z), m.transition_at(z)))
        assert (np.diff(y) * np.sign(y[-1] - y[0]) > 0).all()
        assert abs(y[-1] - y[0]) > 1.5 * data(700, 41).X[:500].std()
        assert np.polyfit(z[:, 0], new, 1)[0] == pytest.approx(0.95, abs=0.08)

    @pytest.mark.slow
    @pytest.mark.thorough
    def test_a_finite_chain(self):
        """Two states three deviations apart: log-densities near those of the truth."""
        Q = np.array([[0.9, 0.1], [0.2, 0.8]])
        r = np.random.default_rng(42)
        states = [0]
        for u in r.random(1_599):
            states.append(int(u < Q[states[-1], 1]))
        X = 3.0 * np.array(states)[:, None] + r.normal(size=(1_600, 1))
        m = km.KernelStateSpace(**latent(random_state=0, n_nodes=31, n_init=2)).fit(X[:800])
        truth = slow.Filter.of(np.array([2 / 3, 1 / 3]), Q, norm.pdf(X - [0.0, 3.0]))
        assert truth.loglik[800:].mean() - m.log_predictive(X)[800:].mean() < 0.06
        best = mse(X[800:], truth.prior[800:] @ [[0.0], [3.0]])
        assert mse(X[800:], m.predict(X)[800:]) < 1.05 * best

    @pytest.mark.thorough
    def test_refining_helps(self):
        d = data(700, 41, "bimodal")
        rough = km.KernelStateSpace(refine=False, random_state=0).fit(d.X[:500])
        assert mse(d.X[500:], full("bimodal").predict(d.X)[500:]) < mse(
            d.X[500:], rough.predict(d.X)[500:]
        )

    @pytest.mark.slow
    @EVERY
    def test_attributes(self, setting):
        m = model(**SETTINGS[setting])
        K, d = len(m.nodes_), m.n_latent
        assert m.nodes_.shape == (K, d)
        assert m.node_weights_.sum() == pytest.approx(1.0)
        assert m.transmat_.shape == (K, K)
        assert m.transmat_.min() >= 0
        assert_allclose(m.transmat_.sum(axis=1), 1.0)
        assert_allclose(m.startprob_ @ m.transmat_, m.startprob_, atol=1e-9)
        assert m.emissions_.batch == K
        assert_allclose(m.emissions_.total(), 1.0, atol=1e-9 if m.refine else 0.5)
        r_y, r_x = m.features_.rank_, m.features_x_.rank_
        assert (m.U_.shape, m.V_.shape) == ((r_y, r_x), (r_x, r_x))
        assert m.loss_history_.shape[1] == 3
        assert m.loss_ == pytest.approx(m.loss_history_[-1].sum())
        assert isinstance(m.converged_, bool)
        assert (m.reg_ is None) == (m.inference != "kbr")
        assert m.n_features_in_ == 1
        assert len(m.history_) > 0 or not m.refine
        assert m.latent_bandwidth_ > 0

    def test_weights_are_probabilities_of_the_nodes(self):
        """Of rows first, then of the points that stand for the guard: c rows over all nodes."""
        m, K = model(), 21
        weights = m.emissions_.weights
        rows, guard = weights[:, :200], weights[:, 200:]
        assert weights.min() >= 0
        own = guard.reshape(K, K, -1).sum(axis=2)
        assert_allclose(own, np.diag(np.diag(own)), atol=1e-12)
        counts = m.laws_.guard.counts
        assert counts.sum() == pytest.approx(200)
        assert_allclose(np.diag(own), (200 / K) / (counts + 200 / K), rtol=1e-6)
        gamma = (rows * (counts + 200 / K)[:, None]).T
        assert_allclose(gamma.sum(axis=1), 1.0, rtol=1e-6)
        assert_allclose(gamma, m.smooth(data(200).X).probabilities, atol=0.2)

    @pytest.mark.thorough
    def test_operators_embed_the_laws(self):
        m = full("linear")
        seen = m.startprob_ > 1e-3
        Psi = m.features_x_.transform(m.nodes_)
        target = m.transmat_ @ Psi
        off = (Psi @ m.V_.T - target)[seen]
        assert (off**2).sum() < 1e-3 * (target[seen] ** 2).sum()
        inner = np.abs(m.nodes_[:, 0]) < 1.5
        laws = m.emissions_.weights[:, :500] @ m.features_.transform(m.emissions_.points[:500])
        laws /= m.emissions_.weights[:, :500].sum(axis=1, keepdims=True)
        off = (Psi @ m.U_.T - laws)[inner]
        assert (off**2).sum() < 2e-2 * (laws[inner] ** 2).sum()


class TestInvariance:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("scale", "refine"), [(2.0**-20, False), (2.0**30, False), (2.0**30, True)]
    )
    def test_units_do_not_matter(self, scale, refine):
        """A power of two: the same floats but for their exponents."""
        X = data(200).X
        a = model(refine=refine, bandwidth=None)
        b = learner(refine=refine, bandwidth=None).fit(scale * X)
        assert_allclose(b.predict(scale * X) / scale, a.predict(X), atol=1e-8)
        for x, y in zip(b.predict_interval(scale * X), a.predict_interval(X), strict=True):
            assert_allclose(x / scale, y, atol=1e-7)
        assert b.score(scale * X) + 200 * np.log(scale) == pytest.approx(a.score(X), abs=1e-5)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("shift", "slope", "refine"), [(1e6, 1.0, True), (5.0, 3.3, True), (1e3, 2.0, False)]
    )
    def test_the_origin_does_not_matter(self, shift, slope, refine):
        X = data(200).X
        a = model(refine=refine, bandwidth=None)
        b = learner(refine=refine, bandwidth=None).fit(shift + slope * X)
        assert_allclose((b.predict(shift + slope * X) - shift) / slope, a.predict(X), atol=1e-6)
        ahead = (b.forecast(shift + slope * X, 3).mean() - shift) / slope
        assert_allclose(ahead, a.forecast(X, 3).mean(), atol=1e-6)

    @pytest.mark.slow
    def test_upside_down(self):
        """The nodes lie as they did, the other way round (ranks between two nodes may differ)."""
        X = data(200).X
        a, b = learner().fit(X), learner().fit(-X)
        assert_allclose(-b.predict(-X), a.predict(X), atol=0.02)
        low, high = a.predict_interval(X)
        assert_allclose(-b.predict_interval(-X)[1], low, atol=0.05)

    @pytest.mark.slow
    def test_order_of_columns(self):
        Y = wide()[:, :2]
        a, b = learner().fit(Y), learner().fit(Y[:, ::-1])
        assert_allclose(b.predict(Y[:, ::-1])[:, ::-1], a.predict(Y), atol=1e-4)
        assert a.score(Y) == pytest.approx(b.score(Y[:, ::-1]), abs=1e-3)

    @pytest.mark.slow
    def test_the_latent_law_is_a_matter_of_representation(self):
        """Forecasts hardly change with it; latent means do."""
        X = data(200).X

        def lopsided(n, rng):
            return rng.exponential(size=(n, 1))

        laws = ["normal", "uniform", lopsided]
        fits = [learner(latent=law, n_nodes=41, max_iter=30).fit(X) for law in laws]
        base = fits[0].predict(X)
        for m in fits[1:]:
            assert np.corrcoef(base[:, 0], m.predict(X)[:, 0])[0, 1] > 0.99
            assert mse(base, m.predict(X)) < 0.05 * X.var()
        means = [m.startprob_ @ m.nodes_[:, 0] for m in fits]
        assert_allclose(means, [0.0, 0.5, 1.0], atol=0.3)


# ------------------------------------------------------------ against loops


class TestAgainstLoops:
    @EVERY
    def test_filter_smoother_and_likelihood(self, setting):
        m, Y = model(**SETTINGS[setting]), with_gaps()
        if m.inference == "kbr":
            pytest.skip("kernel Bayes' rule filters without densities")
        want = by_hand(m, Y)
        assert_allclose(m.filter(Y).probabilities, want.alpha, atol=1e-9)
        assert_allclose(m.smooth(Y).probabilities, want.gamma, atol=1e-9)
        assert_allclose(m.log_predictive(Y), want.loglik, atol=1e-8)
        assert m.score(Y) == pytest.approx(want.loglik.sum(), abs=1e-7)
        mean = want.alpha @ m.nodes_
        assert_allclose(m.filter(Y).mean(), mean, atol=1e-8)
        spread = [a @ (m.nodes_ - mu) ** 2 for a, mu in zip(want.alpha, mean, strict=True)]
        assert_allclose(m.filter(Y).variance(), spread, atol=1e-7)

    @pytest.mark.parametrize("setting", ["default", "uniform", "plane"])
    def test_forecasts(self, setting):
        m, Y = model(**SETTINGS[setting]), with_gaps()
        means = m.emissions_.weights @ m.emissions_.points
        assert_allclose(m.predict(Y), by_hand(m, Y).prior @ means, atol=1e-7)

    def test_kernel_bayes_rule_from_its_own_filter(self):
        """Predictions are one step of the chain after the filter's probabilities."""
        m, Y = model(inference="kbr"), with_gaps()
        prior = np.vstack([m.startprob_, m.filter(Y).probabilities[:-1] @ m.transmat_])
        means = m.emissions_.weights @ m.emissions_.points
        assert_allclose(m.predict(Y), prior @ means, atol=1e-8)
        want = np.log((prior * table(m, Y)).sum(axis=1))
        assert_allclose(m.log_predictive(Y), want, atol=1e-8)

    def test_densities_at_the_nodes(self):
        """Normal kernels by loops on the weights; the guard's points stand for its density."""
        m = model()
        y = np.linspace(-5, 5, 11)[:, None]
        weights, points = m.emissions_.weights, m.emissions_.points
        near = weights[:, :200] @ norm.pdf(y.T, points[:200], 0.4)
        guard = np.exp(m.laws_.guard.log_density(y)) * weights[:, 200:].sum(axis=1)
        assert_allclose(table(m, y), near.T + guard, atol=1e-4)
        laws = m.emissions_.density(y, m.bandwidth_).T  # these points are smoothed as well
        assert_allclose(laws @ m.startprob_, table(m, y) @ m.startprob_, atol=0.01)


class TestLaws:
    """What is said about the next row is one law, whichever verb says it."""

    @pytest.mark.slow
    @pytest.mark.parametrize("setting", [s for s in SETTINGS if s != "laplace"])
    def test_log_predictive_integrates_to_one(self, setting):
        m, past = model(**SETTINGS[setting]), data(40, 46).X[:20]
        y = GRID[2_000:6_001:8]
        lengths = [21] * len(y)
        rows = np.concatenate([np.append(past, [[v]], axis=0) for v in y])
        p = np.exp(m.log_predictive(rows, lengths)[20::21])
        assert trapezoid(p, y) == pytest.approx(1.0, abs=2e-4)
        if not m.refine:
            return  # weights of any sign: densities are of their positive part
        mean = m.predict(np.append(past, past[:1], axis=0))[-1, 0]
        assert trapezoid(p * y, y) == pytest.approx(mean, abs=0.02)
        q = m.predict_quantile(np.append(past, past[:1], axis=0), [0.05, 0.5, 0.95])[-1, :, 0]
        mass = [trapezoid(np.where(y <= end, p, 0.0), y) for end in q]
        assert_allclose(mass, [0.05, 0.5, 0.95], atol=0.03)

    @EVERY
    def test_forecast_belief_and_prediction_agree(self, setting):
        m, past = model(**SETTINGS[setting]), data(40, 46).X[:20]
        new = np.append(past, past[:1], axis=0)
        ahead, belief = m.forecast(past, 1), m.start()
        for x in past:
            belief.update(x).predict()
        assert_allclose(belief.probabilities, ahead.states[0], atol=1e-7)
        assert_allclose(ahead.mean()[0], m.predict(new)[-1], atol=1e-6)
        assert_allclose(belief.mean(), m.predict(new)[-1], atol=1e-6)
        assert_allclose(ahead.quantile([0.1, 0.9])[0], m.predict_quantile(new, [0.1, 0.9])[-1],
                        atol=1e-6)  # fmt: skip
        assert_allclose(belief.latent, ahead.states[0] @ m.nodes_, atol=1e-6)

    @pytest.mark.slow
    @REFINED
    def test_densities_of_forecasts(self, refine):
        m = model(refine=refine)
        ahead = m.forecast(data(200).X, 3)
        p = ahead.density(GRID[:, None])
        assert p.min() >= 0
        assert_allclose(trapezoid(p, GRID, axis=1), 1.0, atol=1e-4)
        assert_allclose(trapezoid(p * GRID, GRID, axis=1), ahead.mean()[:, 0], atol=0.02)
        for q in (0.1, 0.5, 0.9):
            ends = ahead.quantile(q)[:, 0]
            mass = [
                trapezoid(np.where(e >= GRID, r, 0), GRID) for e, r in zip(ends, p, strict=True)
            ]
            assert_allclose(mass, q, atol=5e-3)

    def test_a_histogram_of_draws(self):
        """States moved by the chain, observations by the laws: the law four steps ahead."""
        m, past, r = model(), data(40, 46).X[:20], np.random.default_rng(3)
        law = m.recovered()
        p = m.filter(past).probabilities[-1]
        x = m.nodes_[r.choice(21, 4_000, p=p)]
        for _ in range(4):
            cumulated = np.cumsum(m.transmat_, axis=1)[np.searchsorted(m.nodes_[:, 0], x[:, 0])]
            step = (cumulated < r.random((4_000, 1))).sum(axis=1)
            x = m.nodes_[np.minimum(step, 20)]
        y = law.draw_emission(x, r)[:, 0]
        ahead = m.forecast(past, 4)
        levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
        below = [np.mean(y < e) for e in ahead.quantile(levels)[-1][:, 0]]
        assert_allclose(below, levels, atol=4 * 0.5 / 4_000**0.5)

    @pytest.mark.parametrize("setting", ["default", "uniform", "moments"])
    def test_a_long_draw_is_like_the_model(self, setting):
        m = model(**SETTINGS[setting])
        X, states = m.sample(8_000, 1)
        assert X.shape == states.shape == (8_000, 1)
        assert set(states[:, 0]) <= set(m.nodes_[:, 0])
        few = X[::10, 0]  # nearly independent
        ends = m.forecast(data(200).X, 300).quantile([0.1, 0.5, 0.9])[-1][:, 0]
        assert_allclose([np.mean(few < e) for e in ends], [0.1, 0.5, 0.9], atol=0.12)
        moved = np.corrcoef(states[:-1, 0], states[1:, 0])[0, 1]
        x, p = m.nodes_[:, 0], m.startprob_
        mean = p @ x
        want = (p * (x - mean)) @ m.transmat_ @ (x - mean) / (p @ (x - mean) ** 2)
        assert moved == pytest.approx(want, abs=0.1)


# ------------------------------------------------------------ inference


class TestInference:
    @pytest.mark.slow
    @pytest.mark.thorough
    def test_particles_are_nodes_with_noise(self):
        X = data(120, 46).X
        many = learner(inference="particles", n_particles=800).fit(data(200).X)
        exact = learner().fit(data(200).X)
        sd = X.std()
        assert mse(many.predict(X), exact.predict(X)) < (0.1 * sd) ** 2
        assert many.score(X) == pytest.approx(exact.score(X), abs=0.05 * 120)
        assert mse(many.filter(X).mean(), exact.filter(X).mean()) < 0.15**2
        for a, b in zip(many.predict_interval(X), exact.predict_interval(X), strict=True):
            assert mse(a, b) < (0.25 * sd) ** 2

    def test_kernel_bayes_rule_is_near(self):
        X = data(120, 46).X
        a, b = model(inference="kbr"), model()
        assert_array_equal(a.transmat_, b.transmat_)
        assert mse(a.predict(X), b.predict(X)) < (0.2 * X.std()) ** 2
        assert a.reg_ > 0
        given = learner(inference="kbr", reg=float(a.reg_)).fit(data(200).X)
        assert given.reg_ == a.reg_

    @pytest.mark.slow
    def test_probabilities_of_particles(self):
        for setting in ({}, {"n_latent": 2, "n_nodes": 30}):
            m = model(inference="particles", n_particles=60, **setting)
            found = m.filter(data(200).X[:30])
            assert found.probabilities.min() >= -1e-12
            assert_allclose(found.probabilities.sum(axis=1), 1.0)
            assert found.mean().shape == found.variance().shape == (30, m.n_latent)
            assert found.variance().min() >= 0

    @pytest.mark.slow
    def test_missing_rows_with_particles(self):
        m, Y = model(inference="particles", n_particles=200), with_gaps()
        assert_array_equal(m.log_predictive(Y)[np.isnan(Y[:, 0])], 0.0)
        assert np.isfinite(m.predict(Y)).all()
        assert mse(m.predict(Y), model().predict(Y)) < (0.25 * np.nanstd(Y)) ** 2

    @pytest.mark.slow
    def test_particles_repeat_with_the_seed(self):
        m, X = model(inference="particles", n_particles=60), data(200).X
        assert_array_equal(m.predict(X), m.predict(X))
        other = copy.deepcopy(m).set_params(random_state=1)
        assert not np.array_equal(other.predict(X), m.predict(X))

    def test_recovered_is_a_state_space(self):
        """Draws of the recovered model: stationary moments, and E[y | x] as `emission_at`."""
        m, r = model(), np.random.default_rng(4)
        law = m.recovered()
        x = law.draw_first(2_000, r)
        assert_allclose(x.mean(), m.startprob_ @ m.nodes_[:, 0], atol=0.1)
        here = np.array([[0.3]])
        new = law.draw_next(np.repeat(here, 2_000, axis=0), r)
        assert new.mean() == pytest.approx(m.transition_at(here).mean()[0, 0], abs=0.1)
        assert_allclose(law.mean_emission(here), m.emission_at(here).mean(), atol=1e-9)
        y = law.draw_emission(np.repeat(here, 2_000, axis=0), r)
        assert y.mean() == pytest.approx(m.emission_at(here).mean()[0, 0], abs=0.1)
        logs = law.log_emission(GRID[:, None], here)
        assert trapezoid(np.exp(logs[:, 0]), GRID) == pytest.approx(1.0, abs=1e-3)

    @pytest.mark.parametrize("setting", ["default", "plane"])
    def test_laws_between_nodes(self, setting):
        m = model(**SETTINGS[setting])
        inner = np.flatnonzero(m.startprob_ > 0.03)[:3]
        at = m.nodes_[inner]
        tol = 1e-9 if m.n_latent == 1 else 0.3
        assert_allclose(m.emission_at(at).mean(), m.emissions_.mean()[inner], atol=tol)
        assert_allclose(m.transition_at(at).mean(), (m.transmat_ @ m.nodes_)[inner], atol=tol)
        if m.n_latent == 1:
            half = (m.nodes_[10] + m.nodes_[11]) / 2
            both = m.emissions_.mean()[10:12].mean(axis=0)
            assert_allclose(m.emission_at(half[:, None]).mean()[0], both, atol=1e-9)
            far = m.emission_at([[-99.0], [99.0]]).mean()
            assert_allclose(far, m.emissions_.mean()[[0, -1]], atol=1e-9)


class TestKnownTransition:
    @staticmethod
    def move(x, rng):
        return 0.95 * x + 0.6 * rng.standard_normal(x.shape)

    @pytest.mark.slow
    def test_the_emission_is_learned(self):
        """x keeps its own units: E[y | x] = x up to the sign, which y cannot tell."""
        d = data(700, 41)
        m = km.KernelStateSpace(latent=km.Normal(transition=self.move), random_state=0).fit(
            d.X[:500]
        )
        assert m.startprob_ @ m.nodes_[:, 0] ** 2 == pytest.approx(0.36 / (1 - 0.95**2), rel=0.15)
        x = np.linspace(-2.5, 2.5, 9)[:, None]
        slope = np.polyfit(x[:, 0], m.emission_at(x).mean()[:, 0], 1)[0]
        assert abs(slope) == pytest.approx(1.0, abs=0.2)
        best = mse(d.X[500:], d.model.predict(d.X)[500:])
        assert mse(d.X[500:], m.predict(d.X)[500:]) < 1.15 * best
        found = np.sign(slope) * m.filter(d.X).mean()
        assert np.corrcoef(found[:, 0], d.model.filter(d.X)[:, 0])[0, 1] > 0.98
        assert_allclose(m.transition_at([[1.0]]).mean(), 0.95, atol=0.15)

    @pytest.mark.slow
    @pytest.mark.parametrize("refine", [True, False])
    def test_the_chain_is_that_of_the_simulator(self, refine):
        X = data(200).X
        a, b = (learner(transition=self.move, refine=refine).fit(X) for _ in range(2))
        assert_array_equal(a.transmat_, b.transmat_)
        x = a.nodes_[:, 0]
        inner = np.abs(x) < 2.5
        assert_allclose((a.transmat_ @ x)[inner], 0.95 * x[inner], atol=0.2)
        other = learner(transition=self.move, refine=refine).fit(data(200, 47).X)
        assert_array_equal(other.transmat_, a.transmat_)

    @pytest.mark.slow
    def test_flat_answers_and_answers_in_place(self):
        def in_place(x, rng):
            x *= 0.9
            x += rng.standard_normal(x.shape)
            return x

        def flat(x, rng):
            return 0.9 * x[:, 0] + rng.standard_normal(x.shape)[:, 0]

        a, b = (learner(transition=f).fit(data(200).X) for f in (in_place, flat))
        assert_array_equal(a.transmat_, b.transmat_)
        assert_array_equal(a.predict(data(200).X), b.predict(data(200).X))

    @pytest.mark.slow
    def test_two_dimensions(self):
        def turn(x, rng):
            R = np.array([[0.9, -0.3], [0.3, 0.9]])
            return x @ R.T + 0.3 * rng.standard_normal(x.shape)

        r = np.random.default_rng(43)
        x = np.zeros((400, 2))
        for t in range(1, 400):
            x[t] = turn(x[t - 1 : t], r)[0]
        Y = x[:, :1] + 0.2 * r.normal(size=(400, 1))
        m = learner(transition=turn, n_latent=2, n_nodes=80, max_iter=30).fit(Y[:300])
        free = mse(Y[300:], Y[:300].mean())
        assert mse(Y[300:], m.predict(Y)[300:]) < 0.5 * free

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "move",
        [
            lambda x, rng: 0 * x,
            lambda x, rng: x,
            lambda x, rng: 10 * x,
            lambda x, rng: np.sign(x) * rng.choice([-1, 1], x.shape),
            lambda x, rng: rng.integers(0, 3, x.shape),
        ],
        ids=["nowhere", "stays", "explodes", "two points", "three points"],
    )
    def test_odd_simulators(self, move):
        """A fit, or an error that names the argument."""
        try:
            m = learner(transition=move, n_init=1, max_iter=3).fit(data(200).X)
        except ValueError as err:
            assert re.search(r"\btransition\b", str(err)), str(err)
        else:
            assert np.isfinite(m.predict(data(200).X)).all()

    @pytest.mark.parametrize(
        "draw",
        [
            lambda n, rng: np.ones((n, 1)),
            lambda n, rng: rng.integers(0, 2, (n, 1)),
            lambda n, rng: rng.standard_cauchy((n, 1)),
            lambda n, rng: 1e9 + rng.normal(size=(n, 1)),
            lambda n, rng: 1e-9 * rng.normal(size=(n, 1)),
        ],
        ids=["one point", "two points", "heavy tails", "far", "small"],
    )
    def test_odd_latent_laws(self, draw):
        try:
            m = learner(latent=draw, n_init=1, max_iter=3).fit(data(200).X)
        except ValueError as err:
            assert re.search(r"\blatent\b", str(err)), str(err)
        else:
            assert np.isfinite(m.predict(data(200).X)).all()


# ------------------------------------------------------------ sequences and gaps


class TestSequences:
    LENGTHS = (1, 2, 30, 7)

    @pytest.mark.slow
    @BOTH
    def test_each_is_as_if_alone(self, inference):
        m, X = model(inference=inference), data(40, 47).X
        parts = np.split(X, np.cumsum(self.LENGTHS)[:-1])
        for verb in ARRAYS:
            alone = np.concatenate([getattr(m, verb)(part) for part in parts])
            assert_allclose(getattr(m, verb)(X, self.LENGTHS), alone, atol=1e-8)
        for verb in ("filter", "smooth"):
            alone = np.concatenate([getattr(m, verb)(part).probabilities for part in parts])
            got = getattr(m, verb)(X, self.LENGTHS)
            assert_allclose(got.probabilities, alone, atol=1e-8)
        low, _ = m.predict_interval(X, 0.8, self.LENGTHS)
        assert_allclose(low, np.concatenate([m.predict_interval(p, 0.8)[0] for p in parts]),
                        atol=1e-6)  # fmt: skip
        assert m.score(X, self.LENGTHS) == pytest.approx(sum(m.score(p) for p in parts))
        ahead = m.forecast(X, 3, self.LENGTHS)
        assert len(ahead) == 12
        assert_allclose(ahead.states, np.concatenate([m.forecast(p, 3).states for p in parts]),
                        atol=1e-8)  # fmt: skip

    @pytest.mark.slow
    @INFERENCE
    def test_first_rows_get_the_stationary_mean(self, inference):
        m, X = model(inference=inference, n_particles=400), data(40, 47).X
        first = m.predict(X, self.LENGTHS)[[0, 1, 3, 33]]
        noise = 0.5 if inference == "particles" else 1e-9
        assert_allclose(first, m.startprob_ @ m.emissions_.mean() + np.zeros((4, 1)), atol=noise)

    @pytest.mark.slow
    def test_learning_from_several(self):
        """No transition is counted from one to the next: levels last, sequences do not."""
        r = np.random.default_rng(48)
        levels = np.repeat(r.normal(size=150), 4)[:, None]
        X = 3.0 * levels + 0.3 * r.normal(size=(600, 1))

        def persistence(m):
            x, p = m.nodes_[:, 0], m.startprob_
            x = x - p @ x
            return (p * x) @ m.transmat_ @ x / (p @ x**2)

        apart = persistence(learner().fit(X, [4] * 150))
        together = persistence(learner().fit(X))
        assert apart > together + 0.1
        assert apart > 0.9

    def test_the_same_order_of_sequences_does_not_matter(self):
        X = data(200).X
        a = learner(refine=False).fit(X, [120, 80])
        b = learner(refine=False).fit(np.concatenate([X[120:], X[:120]]), [80, 120])
        assert_allclose(a.predict(X), b.predict(X), atol=0.02)


class TestMissingRows:
    @BOTH
    def test_they_only_predict(self, inference):
        m, Y = model(inference=inference), with_gaps()
        alpha = m.filter(Y).probabilities
        assert_allclose(alpha[0], m.startprob_, atol=1e-9)
        for t in (7, 8, 9, 59):
            assert_allclose(alpha[t], alpha[t - 1] @ m.transmat_, atol=1e-12)
        assert_allclose(m.log_predictive(Y)[np.isnan(Y[:, 0])], 0.0, atol=1e-12)
        assert np.isfinite(m.predict(Y)).all()
        assert np.isfinite(m.predict_interval(Y)).all()

    @INFERENCE
    def test_nothing_seen(self, inference):
        m = model(inference=inference, n_particles=400)
        Y = np.full((5, 1), NAN)
        noise = 0.5 if inference == "particles" else 1e-8
        want = np.tile(m.startprob_ @ m.emissions_.mean(), (5, 1))
        assert_allclose(m.predict(Y), want, atol=noise)
        assert m.score(Y) == pytest.approx(0.0, abs=1e-12)

    @pytest.mark.slow
    def test_one_column_of_several_tells_of_the_state(self):
        m, Y = learner().fit(wide()[:, :2]), wide()[:20, :2].copy()
        Y[4, 1], same = NAN, Y.copy()
        same[4] = NAN
        found, nothing = m.predict(Y), m.predict(same)
        assert_array_equal(found[:5], nothing[:5])
        assert abs(found[5] - nothing[5]).max() > 0.01
        there = m.chain_.marginal([0]).log_density(Y[4:5, :1])[0]
        p = m.filter(Y).probabilities[3] @ m.transmat_ * np.exp(there)
        assert_allclose(m.filter(Y).probabilities[4], p / p.sum(), atol=1e-9)

    @pytest.mark.slow
    @REFINED
    def test_learning_with_a_third_missing(self, refine):
        X = data(600, 49).X.copy()
        X[np.random.default_rng(0).random(600) < 0.3] = NAN
        m = learner(refine=refine, n_nodes=31, max_iter=20).fit(X[:500])
        seen = np.isfinite(X[500:, 0])
        truth = data(600, 49).model.predict(X)[500:][seen]
        new = X[500:][seen]
        assert mse(new, m.predict(X)[500:][seen]) < (1.25 if refine else 1.8) * mse(new, truth)
        assert np.isfinite(m.emissions_.points).all()

    @pytest.mark.slow
    @REFINED
    def test_a_long_stretch_without_any(self, refine):
        X = data(240).X.copy()
        X[50:150] = NAN
        m = learner(refine=refine).fit(X)
        assert_allclose(m.filter(X).probabilities[149], m.startprob_, atol=0.05)
        assert np.isfinite(m.predict(X)).all()

    @pytest.mark.slow
    def test_gaps_hold_no_values(self):
        """NaN in one column or in both, first rows or last: laws are learned from whole rows."""
        Y = wide()[:, :2].copy()
        Y[[0, 1, 50, 199], 0] = NAN
        same = Y.copy()
        same[[0, 1, 50, 199], 1] = [5e3, -7.0, NAN, 0.0]
        found, expected = (learner().fit(part).predict(wide()[:, :2]) for part in (Y, same))
        assert_allclose(found, expected, rtol=1e-12)  # distinct rows are looked up in another order


@pytest.mark.slow
@BOTH
@REFINED
def test_one_row_at_a_time(inference, refine):
    """start, update, predict, update, ... is the filter, with gaps as well."""
    m, Y = model(inference=inference, refine=refine), with_gaps(25)
    belief, found, forecasts = m.start(), m.filter(Y), m.predict(Y)
    for t, y in enumerate(Y):
        if t:
            assert belief.predict() is belief
        assert_allclose(belief.mean(), forecasts[t], atol=1e-7)
        assert belief.update(y) is belief
        assert_allclose(belief.probabilities, found.probabilities[t], atol=1e-8)
        assert_allclose(belief.latent, found.mean()[t], atol=1e-7)


class TestBelief:
    def test_a_copy_stays_where_it_was(self):
        belief = model().start()
        kept = belief.copy()
        assert type(kept) is type(belief)
        belief.update([0.0]).predict()
        assert_array_equal(kept.probabilities, model().startprob_)
        kept.probabilities[:] = 7.0
        assert_array_equal(kept.probabilities, model().startprob_)
        assert re.fullmatch(r"LatentBelief\(latent=\[-?\d\.\d+\]\)", repr(belief))

    def test_a_prior(self):
        prior = np.eye(21)[3]
        belief = model().start(prior)
        assert_array_equal(belief.latent, model().nodes_[3])
        assert_allclose(belief.predict().probabilities, model().transmat_[3])
        assert_array_equal(prior, np.eye(21)[3])

    @pytest.mark.parametrize("prior", [[0.5, 0.5], np.full(21, 0.1), 1.0, "even", [], np.eye(21)])
    def test_what_is_no_prior(self, prior):
        with pytest.raises(ValueError, match="prior"):
            model().start(prior)

    @pytest.mark.parametrize("x", [[0.1, 0.2], [[0.1]], np.inf, "a", None, []])
    def test_what_is_no_observation(self, x):
        with pytest.raises(ValueError, match="x "):
            model().start().update(x)


# ------------------------------------------------------------ shapes and kernels


class TestShapes:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("d", "n_latent", "refine"),
        [
            (1, 1, True), (1, 2, False), (1, 3, True), (2, 1, False), (2, 2, True), (2, 3, False),
            (8, 1, True), (8, 2, False),
        ],
    )  # fmt: skip
    def test_every_verb(self, d, n_latent, refine):
        Y = wide()[:, :d] if d > 1 else data(200).X
        bandwidth = None if d == 8 else 0.5
        quick = {"n_nodes": 25, "bandwidth": bandwidth, "refine": refine, "max_iter": 3}
        m = learner(n_latent=n_latent, **quick).fit(Y)
        few = Y[:12]
        assert (m.variates_ is None) == (d < 8)
        assert m.nodes_.shape == (25, n_latent)
        assert m.predict(few).shape == (12, d)
        low, high = m.predict_interval(few)
        assert low.shape == high.shape == (12, d)
        assert (low <= high).all()
        assert m.predict_quantile(few, 0.5).shape == (12, d)
        assert m.predict_quantile(few, [0.1, 0.5, 0.9]).shape == (12, 3, d)
        for found in (m.filter(few), m.smooth(few)):
            assert len(found) == 12
            assert found.mean().shape == found.variance().shape == (12, n_latent)
            ends = found.interval(0.5)
            assert ends[0].shape == (12, n_latent)
            assert found.embedding.batch == 12
            assert repr(found) == f"LatentResult(12 rows, {n_latent} latent)"
        ahead = m.forecast(few, 2)
        assert ahead.mean().shape == (2, d)
        assert ahead.interval()[0].shape == (2, d)
        assert repr(ahead) == "StateForecast(2 steps, 25 nodes)"
        X, states = m.sample(6, 0)
        assert (X.shape, states.shape) == ((6, d), (6, n_latent))
        assert m.log_predictive(few).shape == (12,)
        assert np.isfinite(m.score(few))
        x = m.nodes_[:3]
        assert m.emission_at(x).mean().shape == (3, d)
        assert m.transition_at(x).mean().shape == (3, n_latent)

    @pytest.mark.slow
    def test_several_columns_help(self):
        """Two noisy views of one state are better than one."""
        x = data(700, 47).states
        r = np.random.default_rng(2)
        Y = np.column_stack([x + r.normal(size=x.shape) for _ in range(2)])
        both, one = (learner(max_iter=20).fit(Y[:300, :d]).predict(Y[:, :d])[300:] for d in (2, 1))
        assert mse(Y[300:, :1], both[:, :1]) < 0.97 * mse(Y[300:, :1], one)

    @pytest.mark.slow
    def test_variates(self):
        Y = wide()
        m = learner(bandwidth=None).fit(Y)
        forced = learner(bandwidth=0.5, directions=2).fit(Y)
        assert forced.variates_(Y).shape == (200, 2)
        assert learner(bandwidth=0.7, directions=0).fit(Y[:, :4]).variates_ is None
        assert mse(Y[:, :3], m.predict(Y)[:, :3]) < Y[:, :3].var(axis=0).mean()
        y = m.recovered().draw_emission(m.nodes_[:5], np.random.default_rng(1))
        assert (y[:, None] == Y).all(axis=2).any(axis=1).all()  # rows, drawn by their weights

    @pytest.mark.slow
    def test_particles_need_densities_of_columns(self):
        m = learner(inference="particles", n_particles=20, bandwidth=None).fit(wide())
        assert m.variates_ is None
        assert np.isfinite(m.predict(wide()[:9])).all()
        with pytest.raises(ValueError, match="directions is 2.*directions=0"):
            learner(inference="particles", directions=2).fit(wide())

    @pytest.mark.slow
    @pytest.mark.thorough
    def test_a_state_of_two_numbers_is_better_followed_in_two_dimensions(self):
        """A rotation seen in one coordinate needs the speed as well."""
        r = np.random.default_rng(43)
        x = np.zeros((700, 2))
        R = 0.98 * np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
        for t in range(1, 700):
            x[t] = R @ x[t - 1] + 0.25 * r.normal(size=2)
        Y = x[:, :1] + 0.2 * r.normal(size=(700, 1))
        errors = [
            mse(Y[500:], learner(n_latent=d, n_nodes=m, max_iter=40).fit(Y[:500]).predict(Y)[500:])
            for d, m in ((1, 41), (2, 100))
        ]
        assert errors[1] < 0.8 * errors[0]


class TestKernels:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "parameters",
        [
            {"kernel": "laplace"},
            {"kernel": "matern"},
            {"kernel": km.Gaussian(0.5)},
            {"kernel": km.on_columns({0: km.Gaussian()})},
            {"kernel": "linear", "bandwidth": None},
            {"kernel": "linear", "bandwidth": None, "refine": False},
            {"kernel_x": "laplace"},
            {"kernel_x": "linear"},
            {"kernel_x": "delta"},
            {"kernel_x": km.Gaussian(0.3), "refine": False},
            {"features": km.RandomFourier(60)},
            {"features": Exact()},
            {"features": Exact(), "refine": False},
        ],
        ids=str,
    )
    def test_every_verb(self, parameters):
        X = data(200).X
        m = learner(**{"n_init": 1, "max_iter": 4, **parameters}).fit(X)
        assert np.isfinite(m.score(X))
        assert np.corrcoef(m.predict(X)[5:, 0], X[5:, 0])[0, 1] > 0.5
        assert np.isfinite(m.forecast(X, 2).interval()).all()
        assert np.isfinite(m.sample(5)[0]).all()
        assert_allclose(m.filter(X).probabilities.sum(axis=1), 1.0)

    @pytest.mark.slow
    @pytest.mark.parametrize("inference", ["nodes", "kbr"])
    @REFINED
    def test_values_without_distance(self, inference, refine):
        """A delta kernel: probabilities of the values, which sum to one.

        (The mass of the positive part of a law with negative weights is known to 1e-3.)
        """
        X = np.round(data(200).X)
        m = learner(kernel="delta", bandwidth=None, refine=refine, inference=inference).fit(X)
        values = np.unique(X)
        assert set(m.sample(60, 0)[0][:, 0]) <= set(values)
        past = X[:30]
        p = [np.exp(m.log_predictive(np.append(past, [[v]], axis=0))[-1]) for v in values]
        assert sum(p) == pytest.approx(1.0, abs=1e-6 if refine else 1e-3)
        if refine:
            assert mse(X, m.predict(X)) < 0.8 * X.var()

    @pytest.mark.slow
    def test_laws_of_values_and_of_the_next_one(self):
        """Embedded laws are the tables that filter."""
        X = np.round(data(200).X)
        m = learner(kernel="delta", bandwidth=None).fit(X)
        values, past = np.unique(X), X[:30]
        p = [np.exp(m.log_predictive(np.append(past, [[v]], axis=0))[-1]) for v in values]
        assert_allclose(m.forecast(past, 1).embedding(values[:, None])[0], p, atol=1e-6)

    @pytest.mark.slow
    def test_a_given_bandwidth(self):
        brief = {"n_init": 1, "max_iter": 2}
        for h in (0.4, [0.4], (0.4,)):
            assert_allclose(learner(bandwidth=h, **brief).fit(data(200).X).bandwidth_, 0.4)
        Y = wide()[:, :2]
        for h in (0.4, [0.4], (0.4, 0.7)):
            found = learner(bandwidth=h, **brief).fit(Y).bandwidth_
            assert_allclose(found, h if np.ndim(h) else 0.4)

    @pytest.mark.slow
    def test_guards(self):
        """A strong guard is a linear model with noise of one law, a weak one is the data."""
        X = data(200).X
        strong = learner(guard=1e9).fit(X)
        y = strong.emissions_.mean()[:, 0]
        x = strong.nodes_[:, 0]
        assert_allclose(y, np.polyval(np.polyfit(x, y, 1), x), atol=1e-4)
        weak = learner(guard=1e-6).fit(X)
        assert np.abs(weak.emissions_.mean()).max() <= np.abs(X).max()
        same = learner(guard=(200.0, 1000.0)).fit(X)
        assert_array_equal(same.predict(X), model().predict(X))
        assert_array_equal(
            learner(guard=(5.0,)).fit(X).predict(X), learner(guard=5).fit(X).predict(X)
        )


# ------------------------------------------------------------ input and output


class TestInput:
    @pytest.mark.slow
    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "kind", ["list", "float32", "frame", "Fortran", "read-only", "integers"]
    )
    def test_kinds_of_arrays(self, kind):
        X = np.round(4 * wide()[:80, :3])
        given = {
            "list": X.tolist(),
            "float32": X.astype(np.float32),
            "frame": pd.DataFrame(X, columns=list("abc")),
            "Fortran": np.asfortranarray(X),
            "read-only": X.copy(),
            "integers": X.astype(int),
        }[kind]
        if kind == "read-only":
            given.flags.writeable = False
        m, same = (learner(bandwidth=2.0, max_iter=2, n_init=1).fit(x) for x in (given, X))
        assert_array_equal(m.predict(given), same.predict(X))
        assert isinstance(m.predict(given), np.ndarray)
        assert m.predict(given).dtype == float

    @pytest.mark.slow
    def test_frames_name_their_columns(self):
        X = pd.DataFrame(wide()[:, :3], columns=list("abc"))
        kernel = km.on_columns({"a": km.Gaussian(), ("b", "c"): km.Laplace()})
        m = learner(kernel=kernel, bandwidth=None).fit(X)
        assert list(m.feature_names_in_) == ["a", "b", "c"]
        with pytest.raises(ValueError, match="feature names"):
            m.predict(X[["b", "a", "c"]])

    def test_a_series_is_one_column(self):
        X = data(200).X
        series = pd.Series(X[:, 0], name="y")
        m = learner().fit(series)
        assert_array_equal(m.predict(series), model().predict(X))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("refine", "inference"),
        [(True, "nodes"), (False, "nodes"), (True, "kbr"), (True, "particles")],
    )
    def test_nothing_given_is_changed(self, refine, inference):
        X = with_gaps(120)
        lengths, before = [20, 100], X.copy()
        features, kernel = km.Nystroem(), km.Gaussian()
        m = learner(refine=refine, features=features, kernel=kernel, inference=inference,
                    n_particles=20)  # fmt: skip
        parameters = m.get_params(deep=False)
        m.fit(X, lengths)
        for verb in (*ARRAYS, "filter", "smooth", "score", "predict_interval"):
            getattr(m, verb)(X, lengths=lengths)
        m.forecast(X, 2, lengths).interval()
        assert_array_equal(X, before)
        assert lengths == [20, 100]
        assert m.get_params(deep=False) == parameters
        assert not hasattr(features, "rank_")
        X[:] = 0.0
        assert np.ptp(m.emissions_.points) > 1

    def test_returned_arrays_are_not_the_models(self):
        m, X = model(), data(200).X
        before = m.predict(X)
        m.predict(X)[:] = 0
        m.sample(3)[0][:] = 0
        m.sample(3)[1][:] = 0
        m.filter(X).mean()[:] = 0
        m.start().probabilities[:] = 0
        assert_array_equal(m.predict(X), before)
        with pytest.raises(ValueError, match="read-only"):
            m.emissions_.points[:] = 0

    @pytest.mark.slow
    def test_the_global_generator_is_left_alone(self):
        np.random.seed(0)
        state = np.random.get_state()[1].copy()
        m = learner(random_state=None, inference="particles", n_particles=20).fit(data(200).X)
        m.sample(3)
        m.predict(data(200).X)
        assert_array_equal(np.random.get_state()[1], state)

    @pytest.mark.slow
    @REFINED
    def test_the_same_seed_gives_the_same_numbers(self, refine):
        def draws(n, rng):
            return rng.gamma(2.0, size=(n, 1))

        X = data(200).X
        seeds = 5, 5, np.random.default_rng(5)
        a, b, c = (learner(refine=refine, latent=draws, random_state=s).fit(X) for s in seeds)
        assert_array_equal(a.predict(X), b.predict(X))
        assert_array_equal(a.transmat_, c.transmat_)
        assert_array_equal(a.sample(5, 7)[0], b.sample(5, 7)[0])
        assert_array_equal(a.sample(5)[0], a.sample(5, 5)[0])

    @pytest.mark.slow
    def test_a_normal_law_needs_no_seed(self):
        X = data(200).X
        a, b = (learner(random_state=None).fit(X) for _ in range(2))
        assert_array_equal(a.predict(X), b.predict(X))

    @pytest.mark.slow
    def test_a_second_fit_forgets_the_first(self):
        X = data(200).X
        m = learner(inference="kbr", n_latent=2).fit(wide()[:, :3])
        m.set_params(n_latent=1, refine=False, inference="nodes").fit(X)
        fresh = learner(refine=False).fit(X)
        assert vars(m).keys() == vars(fresh).keys()
        assert_array_equal(m.predict(X), fresh.predict(X))

    def test_progress_is_shown_on_request(self, capsys):
        learner().fit(data(60).X)
        printed = capsys.readouterr()
        assert printed.out == printed.err == ""
        seen = []
        learner(verbose=lambda *told: seen.append(told)).fit(data(60).X)
        assert seen

    @pytest.mark.slow
    def test_rows_are_searched_in_stretches(self, monkeypatch):
        """All rows at the end, and the forecasts of a fit on all."""
        d = data(900, 50)
        whole = learner(max_iter=20).fit(d.X[:700])
        monkeypatch.setattr(learn, "SEARCHED", 500)
        m = learner(max_iter=20).fit(d.X[:700])
        assert m.emissions_.points.shape[0] >= 700
        ours, theirs = (mse(d.X[700:], f.predict(d.X)[700:]) for f in (m, whole))
        assert ours < 1.1 * theirs


BAD = {
    "n_latent": [0, -1, 1.5, "2", None, True],
    "latent": ["gauss", None, 3, ["normal"]],
    "penalty": [1, (1,), (1, 2, 3), (-1, 1), "ab", (NAN, 1), (1, np.inf)],
    "refine": ["yes", None, 2],
    "random_state": ["x", 1.5, -1],
    "kernel": ["bell", None, 3],
    "kernel_x": ["bell", None, 3],
    "transition": ["f", 3],
    "inference": ["forward", None, 1],
    "bandwidth": [0, -1.0, "wide", NAN, np.inf, (0.1, 0.2), ()],
    "guard": [0, -1, "a", (1, 2, 3), (0, 1), NAN, np.inf, (1, "a")],
    "n_nodes": [0, 2, 2.5, "9", True],
    "n_particles": [0, 1.5, "a", None],
    "reg": [0, -1, "small", NAN, np.inf, True],
    "features": ["exact", 3],
    "directions": [-1, 1.5, "all", None],
    "n_init": [0, 1.5, "2"],  # None is the default
    "max_iter": [0, 1.5],
    "tol": [0, -1e-3, NAN, "x"],
}
NAMED = {
    "bandwidth": "bandwidth|lengthscale",
    "kernel_x": "kernel",
    "n_nodes": "latent.nodes",
    "n_particles": "inference.n",
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in BAD.items() for value in values],
    ids=lambda v: str(v),
)
def test_bad_parameters(name, value):
    for refine in (True, False):
        parameters = {"max_iter": 3, "n_nodes": 9, "refine": refine, name: value}
        if name == "n_particles":
            parameters["inference"] = "particles"
        with pytest.raises(ValueError, match=NAMED.get(name, name)):
            learner(**parameters).fit(data(60).X)


BAD_X = {
    "flat": (np.zeros(30), "X has 1 dimension"),
    "three axes": (np.zeros((3, 3, 3)), "X has 3 dimension"),
    "no rows": (np.zeros((0, 1)), "X is too short"),
    "no columns": (np.zeros((30, 0)), "X has no columns"),
    "two rows": (np.array([[0.0], [1.0]]), "X is too short: found 2.*minimum of 3"),
    "infinite": (np.array([[0.0], [np.inf], [1.0]]), "X contains inf"),
    "nothing but NaN": (np.full((9, 1), NAN), "X has no row"),
    "one row seen": (np.where(np.arange(9) == 4, 1.0, NAN)[:, None], "X.*three"),
    "a few rows seen": (np.where(np.arange(30) % 6, NAN, np.arange(30.0))[:, None], "X.*three"),
    "constant": (np.ones((30, 1)), "X is constant"),
    "text": (np.array([["a"], ["b"]]), "X holds text"),
    "None": (None, "X is None"),
}


@pytest.mark.parametrize("case", BAD_X)
@REFINED
def test_bad_observations(case, refine):
    X, message = BAD_X[case]
    with pytest.raises(ValueError, match=message):
        learner(refine=refine).fit(X)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([30, 31], "lengths sums to 61 but X has 60"),
        ([], "lengths"),
        ([0, 60], "lengths"),
        ([30.5, 29.5], "lengths"),
        (60, "lengths"),
        ("60", "lengths"),
        ([2] * 30, "three"),
    ],
    ids=str,
)
def test_bad_lengths(lengths, message):
    with pytest.raises(ValueError, match=message):
        learner().fit(data(60).X, lengths)


def test_bad_calls():
    m, X = model(), data(20).X
    for call, message in (
        (lambda: m.predict(np.hstack([X, X])), "2 features, but KernelStateSpace is expecting 1"),
        (lambda: m.predict(X[:0]), "X is too short"),
        (lambda: m.predict(X[:, 0]), "X has 1 dimension"),
        (lambda: m.smooth(X, [3, 4]), "lengths sums to 7"),
        (lambda: m.predict_interval(X, 1.5), "level is 1.5"),
        (lambda: m.predict_interval(X, "most"), "level is 'most'"),
        (lambda: m.predict_quantile(X, 2), "q is 2"),
        (lambda: m.predict_quantile(X, [0.1, 2]), "q is [0.1, 2]"),
        (lambda: m.predict_quantile(X, None), "q is None"),
        (lambda: m.forecast(X, 0), "steps is 0"),
        (lambda: m.forecast(X, 1.5), "steps is 1.5"),
        (lambda: m.forecast(X, 1).interval(0), "level is 0"),
        (lambda: m.filter(X).interval(2), "level is 2"),
        (lambda: m.sample(0), "n_samples is 0"),
        (lambda: m.sample(2, "x"), "random_state is 'x'"),
        (lambda: m.emission_at([[1.0, 2.0]]), "x has 2 columns but the latent space has 1"),
        (lambda: m.emission_at([[NAN]]), "x contains NaN"),
        (lambda: m.transition_at([[np.inf]]), "x contains inf"),
        (lambda: m.transition_at("here"), "x "),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            call()


CALLS = {
    "predict": lambda m: m.predict(np.zeros((3, 1))),
    "predict_interval": lambda m: m.predict_interval(np.zeros((3, 1))),
    "predict_quantile": lambda m: m.predict_quantile(np.zeros((3, 1)), 0.5),
    "filter": lambda m: m.filter(np.zeros((3, 1))),
    "smooth": lambda m: m.smooth(np.zeros((3, 1))),
    "score": lambda m: m.score(np.zeros((3, 1))),
    "log_predictive": lambda m: m.log_predictive(np.zeros((3, 1))),
    "forecast": lambda m: m.forecast(np.zeros((3, 1)), 1),
    "sample": lambda m: m.sample(),
    "start": lambda m: m.start(),
    "emission_at": lambda m: m.emission_at([0.0]),
    "transition_at": lambda m: m.transition_at([0.0]),
    "recovered": lambda m: m.recovered(),
    "latent_bandwidth_": lambda m: m.latent_bandwidth_,
}


@pytest.mark.parametrize("verb", CALLS)
def test_not_fitted(verb):
    with pytest.raises(NotFittedError):
        CALLS[verb](km.KernelStateSpace())


# ------------------------------------------------------------ copies


def assert_same(again: km.KernelStateSpace, m: km.KernelStateSpace, X) -> None:
    assert repr(again) == repr(m)
    assert again.state().keys() == m.state().keys()
    for verb in ARRAYS:
        assert_array_equal(getattr(again, verb)(X), getattr(m, verb)(X))
    for verb in ("filter", "smooth"):
        assert_array_equal(getattr(again, verb)(X).mean(), getattr(m, verb)(X).mean())
    assert_array_equal(again.predict_interval(X)[0], m.predict_interval(X)[0])
    for a, b in zip(again.sample(9, 0), m.sample(9, 0), strict=True):
        assert_array_equal(a, b)
    assert_array_equal(again.forecast(X, 2).mean(), m.forecast(X, 2).mean())
    assert_array_equal(
        again.start().update(X[0]).predict().mean(), m.start().update(X[0]).predict().mean()
    )
    x = m.nodes_[:2]
    assert_array_equal(again.emission_at(x).mean(), m.emission_at(x).mean())
    for name in ("history_", "loss_history_", "U_", "V_", "nodes_", "startprob_"):
        assert_array_equal(getattr(again, name), getattr(m, name))
    assert (again.bandwidth_, again.reg_, again.loss_) == (m.bandwidth_, m.reg_, m.loss_)
    assert again.latent_bandwidth_ == m.latent_bandwidth_


class TestCopies:
    @pytest.mark.slow
    @EVERY
    def test_save_and_load(self, setting, tmp_path):
        m = model(**SETTINGS[setting])
        m.save(tmp_path / "states.km")
        assert_same(km.load(tmp_path / "states.km"), m, data(40, 46).X)

    @pytest.mark.slow
    def test_save_and_load_variates_and_particles(self, tmp_path):
        m = learner(bandwidth=None).fit(wide())
        m.save(tmp_path / "wide.km")
        assert_same(km.load(tmp_path / "wide.km"), m, wide()[:30])
        m = model(inference="particles", n_particles=30)
        m.save(tmp_path / "particles.km")
        assert_same(km.load(tmp_path / "particles.km"), m, data(40, 46).X)

    @pytest.mark.parametrize("name", ["latent", "transition"])
    def test_functions_are_not_saved(self, name, tmp_path):
        def law(n, rng):
            return rng.normal(size=(n, 1))

        def move(x, rng):
            return 0.5 * x + rng.normal(size=x.shape)

        m = learner(**{name: law if name == "latent" else move}).fit(data(60).X)
        with pytest.raises(ValueError, match="function cannot be saved"):
            m.save(tmp_path / "states.km")
        assert not (tmp_path / "states.km").exists()

    @pytest.mark.parametrize("how", ["copied", "sent"])
    def test_copied_and_sent(self, how):
        """As joblib does."""
        m = model(inference="kbr")
        again = copy.deepcopy(m) if how == "copied" else pickle.loads(pickle.dumps(m))
        assert_same(again, m, data(40, 46).X)

    def test_clones_are_not_fitted(self):
        assert not [v for v in vars(clone(model())) if v.endswith("_") or v.startswith("_")]


# ------------------------------------------------------------ tuning


class TestTune:
    X, X_val = data(400, 51).X[:240], data(400, 51).X[240:]

    @pytest.mark.slow
    def test_the_best_of_the_grid(self):
        """Every entry is the score of a fit that can be made by hand."""
        base = learner(bandwidth=None, max_iter=4, n_init=1, n_nodes=15)
        best = base.tune(self.X, self.X_val, widths=[0.5, 1], guards=[0.1, 1])
        assert len(best.tuning_) == 4
        scores = [entry["likelihood"] for entry in best.tuning_]
        seen = best.log_predictive(self.X_val).mean()
        assert max(scores) == pytest.approx(seen)
        plain = clone(base).fit(self.X)
        for entry in best.tuning_[::3]:
            h = entry["width"] * plain.bandwidth_
            guard = tuple(entry["guard"] * np.array(plain.guard_))
            same = clone(base).set_params(bandwidth=h, em=replace(base.em, guard=guard)).fit(self.X)
            want = same.log_predictive(self.X_val).mean()
            assert entry["likelihood"] == pytest.approx(want, abs=1e-3)
        assert not hasattr(base, "nodes_")
        assert base.bandwidth is None

    @pytest.mark.slow
    def test_by_squared_error(self):
        best = learner(max_iter=4).tune(self.X, self.X_val, widths=[1, 4], guards=[1], score="mse")
        scores = [entry["mse"] for entry in best.tuning_]
        assert min(scores) == pytest.approx(mse(self.X_val, best.predict(self.X_val)))

    @pytest.mark.slow
    def test_lengthscales_and_penalties_without_refining(self):
        best = learner(refine=False, max_iter=4, bandwidth=None).tune(
            self.X, self.X_val, penalties=[(1, 1), (0.1, 5)], widths=[1], guards=[1]
        )
        assert len(best.tuning_) == 8
        assert {entry["scale"] for entry in best.tuning_} == {0.125, 0.25, 0.5, 1.0}
        assert best.em.penalty in [(1, 1), (0.1, 5)]

    @pytest.mark.slow
    def test_several_columns_sequences_and_gaps(self):
        Y = wide()[:, :2].copy()
        Y[30] = NAN
        best = learner(max_iter=3, bandwidth=None).tune(
            Y[:150], Y[150:], [70, 80], [20, 30], widths=[1, 2], guards=[1]
        )
        assert best.predict(Y).shape == (200, 2)
        seen = ~np.isnan(Y[150:, 0])
        scores = [entry["likelihood"] for entry in best.tuning_]
        want = best.log_predictive(Y[150:], [20, 30])[seen].mean()
        assert max(scores) == pytest.approx(want)

    @pytest.mark.slow
    @pytest.mark.thorough  # processes search as users do
    def test_processes_and_progress(self):
        told = []
        grid = {"widths": [1, 2], "guards": [1]}
        base = learner(max_iter=3, n_init=1, n_nodes=9)
        X, X_val = self.X[:80], self.X_val[:40]
        one = base.tune(X, X_val, **grid, verbose=lambda *a: told.append(a))
        two = base.tune(X, X_val, **grid, n_jobs=2)
        assert told
        assert_allclose(one.predict(X), two.predict(X), atol=1e-9)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("score", "r2"), ("widths", []), ("guards", [-1]), ("scales", ["x"]),
            ("penalties", [1]), ("lengths", [3]), ("lengths_val", [3]),
        ],
    )  # fmt: skip
    def test_bad_calls(self, name, value):
        given = {"widths": [1], "guards": [1], name: value}
        with pytest.raises(
            ValueError, match=name.replace("_val", "").replace("penalties", "penalt(y|ies)")
        ):
            learner(max_iter=2, n_init=1, n_nodes=9).tune(self.X[:60], self.X_val[:20], **given)

    @pytest.mark.parametrize(
        "rows",
        [np.zeros((0, 1)), np.zeros((9, 2)), np.full((9, 1), NAN), None, np.full((9, 1), np.inf)],
        ids=["none", "two columns", "unseen", "nothing", "infinite"],
    )
    def test_bad_validation_rows(self, rows):
        with pytest.raises(ValueError, match=r"\bX_val\b|\bX has 2 features"):
            learner(max_iter=2, n_init=1, n_nodes=9).tune(self.X[:60], rows, widths=[1], guards=[1])


# ------------------------------------------------------------ what makes trouble


def trouble() -> dict[str, np.ndarray]:
    r = np.random.default_rng(67)
    X = make_state_space("linear", 60, random_state=67).X
    return {
        "three rows": X[:3],
        "four rows": X[:4],
        "five rows": X[:5],
        "ten rows": X[:10],
        "two values": (X > 0.5).astype(float),
        "one row unlike the others": np.concatenate([np.zeros((99, 1)), np.ones((1, 1))]),
        "rounded": np.round(X, 1),
        "each row five times": np.repeat(X[:12], 5, axis=0),
        "a constant column": np.column_stack([X, np.ones(60)]),
        "a column twice": np.column_stack([X, X]),
        "tiny": 1e-30 * X,
        "huge": 1e30 * X,
        "far away": X + 1e8,
        "one at 1e6": np.concatenate([X, [[1e6]], X[:10]]),
        "heavy tails": r.standard_cauchy(size=(60, 1)),
        "white noise": r.normal(size=(60, 1)),
        "in turns": np.tile([[0.0], [1.0]], (30, 1)),
        "in turns with noise": np.tile([[0.0], [1.0]], (30, 1)) + 0.01 * r.normal(size=(60, 1)),
        "a cycle of three": np.tile([[0.0], [1.0], [5.0]], (20, 1)),
        "one change": np.repeat([[0.0], [4.0]], 30, axis=0) + 0.1 * r.normal(size=(60, 1)),
        "mostly missing": np.where(r.random((60, 1)) < 0.4, NAN, X),
        "a trend": np.arange(100.0)[:, None],
        "a random walk": r.normal(size=(60, 1)).cumsum(axis=0),
        "many columns": r.normal(size=(60, 12)),
        "more columns than rows": r.normal(size=(20, 30)),
        "states of a chain": make_hmm("separated", 60, random_state=67).states[:, None] * 1.0,
    }


TROUBLE = trouble()
WAYS = {
    "default": {"bandwidth": None, "max_iter": 3, "n_init": 1},
    "moments": {"bandwidth": None, "refine": False},
    "kbr": {"bandwidth": None, "inference": "kbr", "max_iter": 3, "n_init": 1},
    "plane": {"bandwidth": None, "n_latent": 2, "max_iter": 3, "n_init": 1},
}


SOME = {
    "default": list(TROUBLE),
    "moments": ["ten rows", "two values", "one row unlike the others", "heavy tails", "huge"],
    "kbr": ["ten rows", "mostly missing"],
    "plane": ["two values", "a column twice", "mostly missing"],
}


@pytest.mark.slow
@pytest.mark.parametrize(("case", "way"), [(case, way) for way in WAYS for case in SOME[way]])
@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
def test_trouble(case, way):
    """Probabilities, finite scores, draws and forecasts."""
    X = TROUBLE[case]
    m = learner(**{"n_nodes": 12, **WAYS[way]}).fit(X)
    found = m.filter(X)
    for rows in (found.probabilities, m.smooth(X).probabilities, m.transmat_, m.startprob_[None]):
        assert rows.min() >= 0
        assert_allclose(rows.sum(axis=1), 1.0)
    seen = X[np.isfinite(X).all(axis=1)]
    for numbers in (
        m.log_predictive(X), m.predict(X), m.predict_quantile(X, [0.1, 0.9]), found.mean(),
        found.variance(), m.emissions_.weights, m.U_, m.V_, m.forecast(X, 2).mean(),
        m.forecast(X, 2).interval(), m.sample(5, 0)[0], m.start().update(seen[0]).probabilities,
        m.emission_at(m.nodes_[:2]).mean(), m.transition_at(m.nodes_[:2]).mean(), m.loss_,
    ):  # fmt: skip
        assert np.isfinite(numbers).all()
    low, high = m.predict_interval(X)
    assert (low <= high).all()
    near = (
        np.ptp(seen, axis=0) + 1e-9 * np.abs(seen).max()
    )  # forecasts stay near what has been seen
    assert (m.predict(X) >= seen.min(axis=0) - near).all()
    assert (m.predict(X) <= seen.max(axis=0) + near).all()


@pytest.mark.slow
@pytest.mark.parametrize("case", ["heavy tails", "two values", "ten rows"])
@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
def test_trouble_with_particles(case):
    X = TROUBLE[case]
    m = learner(inference="particles", n_particles=30, n_nodes=12, bandwidth=None, max_iter=3).fit(
        X
    )
    for numbers in (m.predict(X), m.predict_interval(X), m.filter(X).mean()):
        assert np.isfinite(numbers).all()
    assert not np.isnan(m.log_predictive(X)).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        {"n_nodes": 3},
        {"n_nodes": 3, "n_latent": 3},
        {"n_latent": 5, "n_nodes": 30},
        {"n_nodes": 150},
        {"n_particles": 1, "inference": "particles"},
        {"penalty": (0, 0), "refine": False},
        {"penalty": (1e9, 1e9), "refine": False},
        {"guard": (1e-9, 1e9)},
        {"guard": (1e9, 1e-9)},
        {"bandwidth": 1e-6},
        {"bandwidth": 1e6},
        {"tol": 10.0},
        {"max_iter": 1},
        {"max_iter": 500, "refine": False},
        {"inference": "kbr", "reg": 1e-12},
        {"inference": "kbr", "reg": 1e12},
        {"n_init": 1},
        {"n_init": 9},
    ],
    ids=str,
)
def test_extreme_parameters(parameters):
    X = data(60).X
    m = learner(**{"max_iter": 3, "n_nodes": 9, **parameters}).fit(X)
    assert np.isfinite(m.score(X))
    assert np.isfinite(m.forecast(X, 2).interval()).all()
    assert X.min() - 3 < m.predict(X).min() <= m.predict(X).max() < X.max() + 3


@pytest.mark.slow
@INFERENCE
def test_far_from_everything(inference):
    """Finite log-densities, and forecasts that recover."""
    m, X = model(inference=inference, n_particles=100), data(60, 46).X.copy()
    X[[10, 20]] = [[1e4], [-1e9]]
    assert np.isfinite(m.predict(X)).all()
    if inference != "particles":
        assert np.isfinite(m.log_predictive(X)).all()
    clean = data(60, 46).X
    assert_allclose(m.predict(X)[45:], m.predict(clean)[45:], atol=1.0)

"""The kernel Bayes filter where the answer is known: hidden Markov tables and the Kalman filter."""

from __future__ import annotations

from functools import cache

import filter_oracles as dense
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km

RULES = ("importance", "squared")


# ------------------------------------------------------------------------------- finite sets
TRUE = dense.Tables(
    np.array([0.5, 0.3, 0.2]),
    np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]]),
    np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.5, 0.3, 0.1], [0.1, 0.1, 0.3, 0.5]]),
)
SYMBOLS = [0, 1, 3, None, 2, 2, 1, None, None, 0, 3, 0]


def column(symbols) -> np.ndarray:
    return np.array([[np.nan if s is None else float(s)] for s in symbols])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lengths", [None, [150, 1, 249]])
class TestHiddenMarkov:
    """Delta kernels, λ → 0: every rule is the probability table, counted on the training data."""

    STATES = np.arange(3.0)[:, None]

    @pytest.fixture
    def counted(self, lengths):
        x, z = TRUE.simulate(400, np.random.default_rng(0))
        return x, z, dense.Tables.counted(x, z, 3, 4, lengths)

    @pytest.fixture
    def model(self, counted, rule, lengths):
        x, z, _ = counted
        tiny = {"reg_prior": 1e-10, "reg_transition": 1e-10, "reg_smoother": 1e-10}
        reg = 1e-10 if rule == "importance" else 1e-20
        model = km.KernelBayesFilter(rule, "delta", "delta", reg=reg, **tiny)
        return model.fit(x[:, None], z[:, None], lengths)

    def test_filter_is_the_forward_pass(self, model, counted):
        found = model.filter(column(SYMBOLS))
        assert_allclose(found.embedding(self.STATES), counted[2].forward(SYMBOLS), atol=1e-7)
        expected = counted[2].forward(SYMBOLS) @ self.STATES
        assert_allclose(found.mean(), expected, atol=1e-7)

    def test_smoother_is_forward_backward(self, model, counted):
        found = model.smooth(column(SYMBOLS)).embedding(self.STATES)
        assert_allclose(found, counted[2].forward_backward(SYMBOLS), atol=1e-6)

    def test_default_regulariser_of_the_smoother_asks_for_tables_too(self, counted, rule, lengths):
        x, z, tables = counted
        reg = 1e-10 if rule == "importance" else 1e-20
        model = km.KernelBayesFilter(
            rule, "delta", "delta", reg_prior=1e-10, reg=reg, reg_transition=1e-10
        ).fit(x[:, None], z[:, None], lengths)
        found = model.smooth(column(SYMBOLS)).embedding(self.STATES)
        assert_allclose(found, tables.forward_backward(SYMBOLS), atol=1e-6)

    def test_forecasts_are_powers_of_the_table(self, model, counted):
        states, observations = counted[2].forecast(SYMBOLS[:3], 6)
        found = model.forecast(column(SYMBOLS[:3]), 6)
        assert_allclose(found.embedding(self.STATES), states, atol=1e-7)
        assert_allclose(
            found.observations.embedding(np.arange(4.0)[:, None]), observations, atol=1e-7
        )

    def test_prior(self, model, counted):
        first = np.array([0.1, 0.2, 0.7])
        tables = dense.Tables(first, counted[2].step, counted[2].emit)
        prior = km.MeanEmbedding(self.STATES, first, "delta")
        found = model.filter(column(SYMBOLS), prior=prior).embedding(self.STATES)
        assert_allclose(found, tables.forward(SYMBOLS), atol=1e-7)

    def test_streaming(self, model, counted):
        belief = model.start()
        for t, (x, p) in enumerate(zip(SYMBOLS, counted[2].forward(SYMBOLS), strict=True)):
            belief = belief if t == 0 else belief.predict()
            assert_allclose(belief.update(column([x])[0]).embedding(self.STATES), p, atol=1e-7)

    def test_impossible_observations_collapse(self, model, counted):
        """A symbol that training never showed: the prediction stays."""
        symbols = [0, 1, 9, 2]
        with pytest.warns(km.NumericalWarning, match="1 of 4"):
            found = model.filter(column(symbols))
        assert_array_equal(found.collapsed, [False, False, True, False])
        expected = counted[2].forward([0, 1, None, 2])
        assert_allclose(found.embedding(self.STATES), expected, atol=1e-7)


@pytest.mark.parametrize("rule", RULES)
def test_more_data_lead_to_the_true_tables(rule):
    errors = []
    for n in (100, 10_000):
        x, z = TRUE.simulate(n, np.random.default_rng(1))
        model = km.KernelBayesFilter(rule, "delta", "delta", reg_prior=1e-9, reg_transition=1e-9)
        model.set_params(reg=1e-9 if rule == "importance" else 1e-18, reg_smoother=1e-9)
        found = model.fit(x[:, None], z[:, None]).smooth(column(SYMBOLS))
        expected = TRUE.forward_backward(SYMBOLS)
        errors.append(np.abs(found.embedding(np.arange(3.0)[:, None]) - expected).max())
    assert errors[1] < 0.06
    assert errors[1] < errors[0] / 2


def test_all_combinations_once_are_the_table_of_their_counts():
    """Deterministic training data: a cycle 0 → 1 → 2 → 0 seen without error."""
    z = np.tile([0, 1, 2], 30)
    tiny = dict.fromkeys(("reg_prior", "reg", "reg_transition", "reg_smoother"), 1e-10)
    model = km.KernelBayesFilter(kernel_x="delta", kernel_z="delta", **tiny)
    model.fit(z[:, None], z)
    X = column([None, None, 1, None, None])
    assert_allclose(model.predict(X)[2:], [1, 2, 0], atol=1e-7)
    assert_allclose(model.smooth(X).mean()[:, 0], [2, 0, 1, 2, 0], atol=1e-6)
    assert_allclose(model.forecast(X[:3], 4).mean()[:, 0], [2, 0, 1, 2], atol=1e-7)


def test_forward_backward_of_the_oracle_is_the_sum_over_all_paths():
    symbols = [0, 3, None, 1, 2]
    assert_allclose(TRUE.forward_backward(symbols), TRUE.by_enumeration(symbols), atol=1e-12)


# ------------------------------------------------------------------------------ linear-Gaussian
LAW = dense.Linear(
    0.95 * np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]]),
    0.1 * np.eye(2),
    np.array([[1.0, 0.3]]),
    np.array([[0.3]]),
)


@cache
def linear_data() -> tuple[np.ndarray, ...]:
    """X, Z to learn from, and X, Z to track: one noisy column of a damped rotation."""
    rng = np.random.default_rng(1000)
    return (*LAW.simulate(1500, rng), *LAW.simulate(500, rng))


@cache
def linear_filter(rule: str) -> km.KernelBayesFilter:
    return km.KernelBayesFilter(rule).fit(*linear_data()[:2])


@cache
def linear_means(rule: str) -> np.ndarray:
    """Filtered, of what is to be tracked."""
    return linear_filter(rule).filter(linear_data()[2]).mean()


class TestKalman:
    """On linear-Gaussian data the filter comes close to the Kalman filter that knows the law."""

    @pytest.mark.slow
    @pytest.mark.parametrize(("rule", "within"), [("importance", 1.05), ("squared", 1.10)])
    def test_filter(self, rule, within):
        """At most 5% (squared rule: 10%) above the least squared error possible."""
        _, _, X, Z = linear_data()
        best, *_ = LAW.kalman(X)
        found = linear_means(rule)
        assert np.mean((found - Z) ** 2) < within * np.mean((best - Z) ** 2)
        assert np.mean((found - best) ** 2) < 0.15 * np.mean((best - Z) ** 2)

    @pytest.mark.parametrize("rule", ["importance", "squared"])
    def test_smoothing_leaves_what_nothing_follows(self, rule):
        """With nothing but missing rows ahead the smoothed belief is the filtered one."""
        X = np.array(linear_data()[2][:60])
        X[40:] = np.nan
        model = linear_filter(rule)
        filtered, smoothed = model.filter(X), model.smooth(X)
        assert_allclose(smoothed.mean()[39:], filtered.mean()[39:], atol=1e-12)
        assert np.abs(smoothed.mean()[:39] - filtered.mean()[:39]).max() > 0.1
        assert_allclose(smoothed.embedding.mean(), smoothed.mean(), atol=1e-10)

    @pytest.mark.slow
    @pytest.mark.parametrize(("reg_smoother", "within"), [(0.01, 1.05), (None, 1.35)])
    def test_smoother(self, reg_smoother, within):
        """With a small λ as near as the filter; the default is made for harder cases than this."""
        X_new, Z_new = linear_data()[2:]
        model, filtered = linear_filter("importance"), linear_means("importance")
        if reg_smoother is not None:
            model = model.with_reg(model.reg_, reg_smoother)
            filtered = model.filter(X_new).mean()
        _, best, *_ = LAW.kalman(X_new)
        error = np.mean((model.smooth(X_new).mean() - Z_new) ** 2)
        assert error < within * np.mean((best - Z_new) ** 2)
        assert error < 0.9 * np.mean((filtered - Z_new) ** 2)

    @pytest.mark.slow
    def test_more_training_data_come_closer(self):
        X, Z, X_new, _ = linear_data()
        best = LAW.kalman(X_new)[0]
        few = km.KernelBayesFilter().fit(X[:150], Z[:150]).filter(X_new).mean()
        far = [np.mean((means - best) ** 2) for means in (few, linear_means("importance"))]
        assert far[1] < 0.5 * far[0]

    @pytest.mark.slow
    def test_gaps(self):
        X, Z, X_new, Z_new = linear_data()
        X_new = X_new.copy()
        X_new[np.random.default_rng(0).random(500) < 0.3] = np.nan
        model = linear_filter("importance")
        best, *_ = LAW.kalman(X_new)
        found = model.filter(X_new).mean()
        assert np.mean((found - Z_new) ** 2) < 1.15 * np.mean((best - Z_new) ** 2)

    def test_forecasts(self):
        X, Z, X_new, _ = linear_data()
        best = LAW.kalman(X_new[:100])[0][-1]
        found = linear_filter("importance").forecast(X_new[:100], 8)
        expected = [np.linalg.matrix_power(LAW.A, h) @ best for h in range(1, 9)]
        sd = np.sqrt(np.diag(LAW.stationary))
        assert (np.abs(found.mean() - expected) < 0.25 * sd).all()
        seen = np.array(expected) @ LAW.C.T
        assert (np.abs(found.observations.mean() - seen) < 0.4).all()

    def test_the_oracle_is_statsmodels(self):
        kalman_filter = pytest.importorskip("statsmodels.tsa.statespace.kalman_smoother")
        law, X = LAW, linear_data()[2][:50].copy()
        X[[3, 10]] = np.nan
        model = kalman_filter.KalmanSmoother(
            1, 2, design=law.C, obs_cov=law.R, transition=law.A, state_cov=law.Q,
            selection=np.eye(2),
        )  # fmt: skip
        model.bind(X.copy())
        model.initialize_known(np.zeros(2), law.stationary)
        expected = model.smooth()
        means, smooth, variance, spread = law.kalman(X)
        assert_allclose(means, expected.filtered_state.T, atol=1e-8)
        assert_allclose(smooth, expected.smoothed_state.T, atol=1e-8)
        diagonal = np.diagonal(expected.smoothed_state_cov, axis1=0, axis2=1)
        assert_allclose(spread, diagonal, atol=1e-8)

"""How many states: each rule by hand, its error rates, and what it refuses."""

from __future__ import annotations

import copy
import pickle
import sys

import hmm_oracles as slow
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.base import clone

import kernelmean as km
from kernelmean.chains import order
from kernelmean.chains.order import (
    BOTH_WAYS,
    METHODS,
    Order,
    Spectrum,
    knee,
    noise_bound,
)
from kernelmean.datasets import make_hmm

N, SCALE = 200, 0.8
FIXED = {"kernel": km.Gaussian(SCALE), "features": km.Exact()}


def states_of(K: int, n: int, seed: int, apart: float = 4.0) -> np.ndarray:
    """K normal laws on the line, of a chain that stays with probability 0.7 or so."""
    Q = 0.6 * np.eye(K) + 0.4 / K
    _, states = slow.FiniteHMM(Q, np.eye(K)).draw(n, seed)
    return apart * states[:, None] + np.random.default_rng(seed).normal(size=(n, 1))


X2 = states_of(2, N, 40)


def dense_singular_values(X: np.ndarray, count: int) -> np.ndarray:
    """Of C12 = Σ φ_t φ_{t+1}ᵀ/(n − 1): roots of the eigenvalues of K_1 K_2/(n − 1)²."""
    K = np.exp(-cdist(X, X, "sqeuclidean") / (2 * SCALE**2))
    values = np.linalg.eigvals(K[:-1, :-1] @ K[1:, 1:]).real / (len(X) - 1) ** 2
    return np.sort(np.maximum(values, 0.0))[::-1][:count] ** 0.5


class TestRulesByHand:
    def test_singular_values(self):
        got = km.estimate_order(X2, method="ratio", **FIXED).singular_values
        assert_allclose(got[:6], dense_singular_values(X2, 6), atol=1e-9)
        assert (np.diff(got) <= 0).all()

    @pytest.mark.parametrize("constant", [0.1, 0.3, 1.0])
    def test_threshold(self, constant):
        found = km.estimate_order(X2, method="threshold", constant=constant, **FIXED)
        bound = constant * np.sqrt(np.log(N - 1) / (N - 1))
        assert found.threshold == pytest.approx(bound)
        assert found == (dense_singular_values(X2, 10) > bound).sum()
        assert found.method == "threshold"

    def test_ratio(self):
        sigma = dense_singular_values(X2, 11)
        found = km.estimate_order(X2, method="ratio", **FIXED)
        assert found == 1 + np.argmax(sigma[:10] / sigma[1:])

    def test_elbow(self):
        """Kneedle on the same numbers."""
        kneed = pytest.importorskip("kneed")
        sigma = dense_singular_values(X2, 20)
        knee = kneed.KneeLocator(range(1, 21), sigma, curve="convex", direction="decreasing").knee
        assert km.estimate_order(X2, method="elbow", **FIXED) == knee

    def test_correlations(self):
        """Canonical correlations by QR, of coordinates that principal components chose."""
        found = km.estimate_order(X2, method="correlations", **FIXED)
        K = np.exp(-cdist(X2, X2, "sqeuclidean") / (2 * SCALE**2))
        centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        values, vectors = np.linalg.eigh(centred)
        scores = vectors[:, ::-1][:, : len(found.correlations)]
        before, after = (part - part.mean(axis=0) for part in (scores[:-1], scores[1:]))
        q1, q2 = np.linalg.qr(before)[0], np.linalg.qr(after)[0]
        want = np.linalg.svd(q1.T @ q2, compute_uv=False)
        assert_allclose(found.correlations, want, atol=0.02)
        assert found.correlations.max() <= 1.0 + 1e-6
        assert found == 2
        assert found.correlations[0] > found.threshold

    def test_the_bound_of_noise(self):
        """The 99.9% quantile: about one draw in a thousand is beyond it."""
        rng, n, beyond = np.random.default_rng(41), 500, 0
        for _ in range(2_000):
            G = rng.normal(size=(4, 4)) / n**0.5
            beyond += np.linalg.svd(G, compute_uv=False)[0] > noise_bound(4, n)
        assert beyond <= 12

    @pytest.mark.parametrize(("m", "share"), [(2, 0.01), (6, 0.005)])
    def test_the_bound_where_both_ways_are_averaged(self, m, share):
        rng, n = np.random.default_rng(42), 500
        G = rng.normal(size=(40_000, m, m)) / n**0.5
        largest = np.abs(np.linalg.eigvalsh((G + np.swapaxes(G, 1, 2)) / 2)).max(axis=1)
        beyond = (largest > noise_bound(m, n, BOTH_WAYS[m])).mean()
        assert beyond == pytest.approx(share, abs=0.2 * share)

    def test_columns_may_be_bent(self):
        """Ranks are what counts: the same correlations after any rising function."""
        one, other = km.estimate_order(X2), km.estimate_order(np.exp(2 * X2))
        assert_allclose(one.correlations, other.correlations, rtol=1e-10)
        assert one == other == 2

    def test_gaps_have_no_rank(self):
        X = X2.astype(float).copy()
        X[40:60] = np.nan
        found = km.estimate_order(X)
        apart = km.estimate_order(np.delete(X, np.s_[40:60], axis=0), [40, len(X) - 60])
        assert_allclose(found.correlations, apart.correlations, rtol=1e-6)


class TestErrorRates:
    @pytest.mark.parametrize("K", [1, 2, 3, 4])
    def test_states_far_apart(self, K):
        found = [int(km.estimate_order(states_of(K, 3_000, seed))) for seed in range(50, 54)]
        assert found == [K] * 4

    @pytest.mark.parametrize(
        ("design", "n", "K"),
        [("separated", 1_000, 2), ("unbounded", 2_000, 2), ("overlapping", 5_000, 3)],
    )
    def test_models_of_the_thesis(self, design, n, K):
        """Four draws of each; one in four may be off by one."""
        found = [
            int(km.estimate_order(make_hmm(design, n, random_state=s).X)) for s in range(60, 64)
        ]
        assert sum(k == K for k in found) >= 3
        assert all(abs(k - K) <= 1 for k in found)

    @pytest.mark.parametrize("law", ["normal", "uniform", "standard_t"])
    @pytest.mark.parametrize("n", [300, 3_000])
    def test_no_states_in_noise(self, law, n):
        """Twenty draws without memory; the rule's level is well under one percent."""
        found = []
        for seed in range(40, 60):
            rng = np.random.default_rng(seed)
            args = (5,) if law == "standard_t" else ()
            found.append(km.estimate_order(getattr(rng, law)(*args, size=(n, 1))))
        assert sum(k > 1 for k in found) <= 2

    def test_several_columns(self):
        X = states_of(3, 2_000, 55)
        noise = np.random.default_rng(0).normal(size=(2_000, 2))
        assert km.estimate_order(np.hstack([X, noise])) == 3

    def test_gaps_and_sequences(self):
        X = states_of(2, 3_000, 56)
        X[np.random.default_rng(0).random(3_000) < 0.2] = np.nan
        assert km.estimate_order(X) == 2
        assert km.estimate_order(X, [1_000, 2_000]) == 2

    def test_pairs_across_sequences_are_not_counted(self):
        """Sequences of three rows of one law each: neighbours agree within, not between."""
        rng = np.random.default_rng(57)
        X = 4.0 * np.repeat(rng.integers(0, 2, 300), 3)[:, None] + rng.normal(size=(900, 1))
        found = km.estimate_order(X, [3] * 300)
        assert found == 2
        assert found.correlations[0] > 0.75
        assert km.estimate_order(X).correlations[0] < 0.65


class TestLikelihood:
    @pytest.mark.slow
    def test_a_small_problem(self):
        X = states_of(2, 200, 58)
        found = km.estimate_order(X, method="likelihood", max_components=2, random_state=0)
        assert found == 2
        assert list(found.scores) == [1, 2]
        assert found.scores[2] > found.scores[1] + 0.05
        assert found.method == "likelihood"

    @pytest.mark.slow
    def test_scores_are_those_of_the_rest(self):
        """The first 70% of every sequence to learn from, the rest to judge."""
        X = states_of(2, 300, 59)
        found = km.estimate_order(X, [100, 200], method="likelihood", max_components=1)
        past = np.concatenate([X[:70], X[100:240]])
        future = np.concatenate([X[70:100], X[240:]])
        model = km.KernelHMM(1).fit(past, [70, 140])
        assert found.scores[1] == pytest.approx(model.score(future, [30, 60]) / 90, abs=1e-9)

    @pytest.mark.usefixtures("short_searches")
    def test_the_seed_counts(self):
        X = states_of(2, 60, 61)
        a, b = (
            km.estimate_order(X, method="likelihood", max_components=2, random_state=1)
            for _ in range(2)
        )
        assert a.scores == b.scores

    def test_frames_keep_their_names(self):
        X = pd.DataFrame(states_of(2, 120, 62), columns=["y"])
        kernel = km.on_columns({"y": km.Gaussian()})
        found = km.estimate_order(X, method="likelihood", kernel=kernel, max_components=1)
        assert found == 1

    def test_missing_rows_judge_nothing(self):
        X = states_of(2, 100, 59)
        X[80:90] = np.nan
        found = km.estimate_order(X, method="likelihood", max_components=1)
        model = km.KernelHMM(1).fit(X[:70])
        assert found.scores[1] == pytest.approx(model.score(X[70:]) / 20, abs=1e-9)
        X[70:] = np.nan
        with pytest.raises(ValueError, match="X has no row without NaN after the first 70%"):
            km.estimate_order(X, method="likelihood", max_components=1)

    def test_few_rows_tell_few_states_apart(self):
        found = km.estimate_order(states_of(2, 6, 0), method="likelihood", random_state=0)
        assert found in found.scores
        assert max(found.scores) <= 4

    @pytest.mark.parametrize("lengths", [[1] * 60, [2] * 30, [3] * 20])
    def test_sequences_too_short_to_be_cut(self, lengths):
        with pytest.raises(ValueError, match="three|X "):
            km.estimate_order(states_of(2, 60, 63), lengths, method="likelihood", max_components=2)


class TestOrder:
    def test_it_is_a_whole_number(self):
        found = km.estimate_order(X2)
        assert isinstance(found, int)
        assert isinstance(found, Order)
        assert [0, 1, 2, 3][found] == found
        assert range(found).stop == found
        assert found + 1 == 3
        assert repr(found) == "2"
        assert f"{found:02d}" == "02"
        assert (
            km.KernelHMM(found, random_state=0, em=km.EM(n_init=1), bandwidth=0.5)
            .fit(X2)
            .n_components_
            == 2
        )

    def test_what_it_remembers(self):
        found = km.estimate_order(X2)
        assert found.method == "correlations"
        assert isinstance(found.threshold, float)
        assert found.scores == {}
        other = km.estimate_order(X2, method="ratio")
        assert other.threshold is None
        assert other.correlations.shape == (0,)

    def test_one_state_has_correlations_as_well(self):
        found = km.estimate_order(np.random.default_rng(0).normal(size=(300, 1)))
        assert found == 1
        assert len(found.correlations) > 0
        assert found.correlations[0] <= found.threshold

    @pytest.mark.parametrize(
        "how", [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))]
    )
    @pytest.mark.parametrize("method", ["correlations", "threshold", "ratio"])
    def test_copies(self, how, method):
        found = km.estimate_order(X2, method=method)
        again = how(found)
        assert again == found
        assert type(again) is Order
        assert again.method == found.method
        assert again.threshold == found.threshold
        assert_array_equal(again.singular_values, found.singular_values)
        assert_array_equal(again.correlations, found.correlations)

    @pytest.mark.parametrize("method", METHODS)
    def test_limits(self, method):
        X = states_of(4, 400, 64)
        found = km.estimate_order(X, method=method, max_components=1)
        assert found == 1

    @pytest.mark.parametrize("method", ["correlations", "threshold", "ratio"])
    @pytest.mark.parametrize("n", [3, 4, 5, 8, 20])
    def test_few_rows(self, method, n):
        """A number of states that a model can be fitted with."""
        X = states_of(2, n, 65)
        found = km.estimate_order(X, method=method)
        assert 1 <= found <= n
        km.KernelHMM(found, refine=False).fit(X)

    def test_no_more_than_the_data_can_tell_apart(self):
        X = np.concatenate([np.zeros((99, 1)), np.ones((1, 1))])
        for method in ("correlations", "threshold", "ratio"):
            found = km.estimate_order(X, method=method, constant=1e-9)
            assert km.KernelHMM(found, refine=False).fit(X).n_components_ == found


def test_the_elbow_is_kneedles():
    """As the reference code has it, with many elbows, few, and none."""
    kneed, rng = pytest.importorskip("kneed"), np.random.default_rng(66)
    for n in range(3, 40):
        for shape in (0.1, 1.0, 5.0):
            values = np.sort(rng.gamma(shape, size=n))[::-1]
            how = {"curve": "convex", "direction": "decreasing"}
            assert knee(values) == (kneed.KneeLocator(range(1, n + 1), values, **how).knee or 1)


def test_values_without_an_elbow():
    assert [knee(np.ones(n)) for n in (1, 2, 5)] == [1, 1, 1]


def test_an_elbow_needs_no_other_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "kneed", None)
    assert km.estimate_order(X2, method="elbow") >= 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "guess"}, "method is 'guess'; it must be one of"),
        ({"method": None}, "method is None"),
        ({"max_components": 0}, "max_components is 0"),
        ({"max_components": 2.5}, "max_components is 2.5"),
        ({"method": "threshold", "constant": 0}, "constant is 0"),
        ({"method": "threshold", "constant": "big"}, "constant is 'big'"),
        ({"kernel": "bell"}, "kernel is 'bell'"),
        ({"lengths": [3, 4]}, "lengths sums to 7"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        km.estimate_order(X2, **parameters)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(9), "X has 1 dimension"),
        (np.zeros((2, 1)), "X is too short"),
        (np.full((9, 1), np.nan), "X has no row"),
        (np.where(np.arange(30) % 2, 1.0 * np.arange(30), np.nan)[:, None], "X.*three"),
        (np.ones((30, 1)), "X is constant"),
    ],
    ids=["flat", "short", "empty", "gaps", "constant"],
)
def test_bad_data(X, message, method):
    with pytest.raises(ValueError, match=message):
        km.estimate_order(X, method=method)


def test_the_data_are_left_alone():
    X = X2.copy()
    X[3] = np.nan
    before = X.copy()
    km.estimate_order(X)
    km.estimate_order(X, method="likelihood", max_components=1)
    assert_array_equal(X, before)


def test_the_limit_reaches_every_rule():
    spectrum = Spectrum(km.KernelHMM(**FIXED)._plan.draft(states_of(4, 500, 66)).moments, 2)
    assert spectrum.limit == 2
    for rule in (spectrum.by_ratio, spectrum.by_correlations, lambda: spectrum.by_threshold(1e-9)):
        assert rule() <= 2
    assert order.MAX_COMPONENTS == 10


@pytest.fixture(scope="module")
def fitted():
    X = km.datasets.make_hmm("separated", 200, random_state=0).X
    em = km.EM(n_init=1, max_iter=5)
    return X, km.KernelHMM("likelihood", em=em, random_state=0).fit(X)


class TestHeldOutScores:
    @pytest.mark.slow
    def test_table(self, fitted):
        X, model = fitted
        order = model.order_
        rows = {
            K: clone(model).set_params(n_components=K).fit(X[:140]).log_predictive(X[140:])
            for K in order.scores
        }
        best = max(rows, key=lambda K: rows[K].mean())
        loss = {K: rows[best] - values for K, values in rows.items()}
        frame = order.to_frame()
        assert_allclose(frame["score"], [values.mean() for values in rows.values()])
        assert_allclose(frame["behind"], [values.mean() for values in loss.values()], atol=1e-12)
        assert_allclose(frame["error"], [v.std() / 60**0.5 for v in loss.values()])
        assert model.n_components_ == order == (frame["behind"] <= 0.5 * frame["error"]).idxmax()

    def test_in_words(self, fitted):
        _, model = fitted
        assert f"log-likelihood of a row held out, {int(model.order_)} states" in str(
            model.summary()
        )
        assert model.order_.method == "likelihood"

    @pytest.mark.parametrize("method", ["correlations", "threshold", "ratio"])
    def test_any_method(self, method):
        X = km.datasets.make_hmm("separated", 300, random_state=0).X
        model = km.KernelHMM(method, refine=False, random_state=0).fit(X)
        assert model.n_components_ == km.estimate_order(X, method=method)

    def test_unknown_method(self):
        with pytest.raises(ValueError, match="n_components is 'bic'"):
            km.KernelHMM("bic").fit(np.arange(9.0)[:, None])


def test_monitor_as_in_hmmlearn():
    X = km.datasets.make_hmm("separated", 200, random_state=0).X
    em = km.EM(n_init=2, max_iter=7, tol=1e-3)
    model = km.KernelHMM(2, em=em, random_state=0).fit(X)
    monitor = model.monitor_
    assert monitor.history == model.history_.tolist()
    assert monitor.iter == len(monitor.history)
    assert (monitor.converged, monitor.tol, monitor.n_iter) == (model.converged_, 1e-3, 7)

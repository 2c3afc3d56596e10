"""The kernel Bayes filter against dense recursions: rules, priors, gaps, thinning, supervision."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import filter_oracles as dense
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.datasets import make_rotation

RULES = ("importance", "squared")
REGS = {"importance": 1e-2, "squared": 1e-4}
SETTINGS = {
    "kernel_x": km.Gaussian(0.8),
    "kernel_z": km.Gaussian(0.6),
    "features": km.Exact(),
    "reg_prior": 5e-3,
    "reg_transition": 1e-2,
    "reg_smoother": 0.1,
}
TRAIN, TEST = make_rotation(60, random_state=0), make_rotation(15, random_state=1)
LENGTHS = [[60], [20, 1, 30, 2, 7]]


def tracker(rule="importance", lengths=None, train=TRAIN, **parameters) -> km.KernelBayesFilter:
    model = km.KernelBayesFilter(rule, **{**SETTINGS, "reg": REGS[rule], **parameters})
    return model.fit(train.X, train.Z, lengths)


def oracle(rule="importance", lengths=None, train=TRAIN, **parameters) -> dense.DenseFilter:
    regs = {k: v for k, v in SETTINGS.items() if k.startswith("reg")} | {"reg": REGS[rule]}
    K_x, K_z = dense.gaussian(0.8), dense.gaussian(0.6)
    return dense.DenseFilter(
        train.X, train.Z, K_x, K_z, rule, lengths=lengths, **{**regs, **parameters}
    )


def with_gaps(X: np.ndarray) -> np.ndarray:
    """The fifth and sixth row are missing, the tenth in one of its columns."""
    X = X.copy()
    X[4:6] = np.nan
    X[9, 1] = np.nan
    return X


def weights(track: list[dense.Points]) -> np.ndarray:
    return np.array([m.w for m in track])


def means(track: list[dense.Points]) -> np.ndarray:
    return np.array([m.mean() for m in track])


@pytest.fixture
def prior_points() -> np.ndarray:
    return np.random.default_rng(3).normal([1.0, 0.0], 0.3, size=(9, 2))


@pytest.fixture
def alpha() -> np.ndarray:
    """Weights of both signs that sum to one."""
    w = np.random.default_rng(4).normal(size=9)
    return w + (1 - w.sum()) / 9


# ------------------------------------------------------------------------------ dense recursions
@pytest.mark.parametrize("rule", RULES)
class TestDense:
    """Issue 4: filtered weights equal the dense recursion to 1e-5 at full rank; here to 1e-8."""

    @pytest.mark.parametrize("lengths", LENGTHS)
    @pytest.mark.parametrize("factor", [1e-2, 1.0, 10.0])
    def test_filter(self, rule, lengths, factor):
        X, reg = with_gaps(TEST.X), factor * REGS[rule]
        expected = oracle(rule, lengths, reg=reg).filter(X)
        found = tracker(rule, lengths, reg=reg).filter(X)
        assert not found.collapsed.any()
        assert np.abs(weights(expected)).max() > 0.02  # there is something to compare
        # shares that a rule drops hold 1e-6 of the sum together, and 1/λ makes more of them
        atol = 1e-6 if factor < 1 else 1e-8
        assert_allclose(found.embedding.weights, weights(expected), atol=atol)
        assert_allclose(found.mean(), means(expected), atol=atol)

    @pytest.mark.parametrize("reg_prior", [1e-4, 0.3])
    @pytest.mark.parametrize("reg_transition", [1e-5, 0.3])
    def test_other_regularisers(self, rule, reg_prior, reg_transition):
        settings = {"reg_prior": reg_prior, "reg_transition": reg_transition}
        expected = oracle(rule, **settings).filter(TEST.X)
        found = tracker(rule, **settings).filter(TEST.X)
        assert not found.collapsed.any()
        assert_allclose(found.embedding.weights, weights(expected), atol=1e-6)

    @pytest.mark.parametrize("lengths", LENGTHS)
    def test_streaming(self, rule, lengths):
        X = with_gaps(TEST.X)
        expected = oracle(rule, lengths).filter(X)
        belief = tracker(rule, lengths).start()
        for t, x in enumerate(X):
            belief = belief.update(x) if t == 0 else belief.predict().update(x)
            assert_allclose(belief.embedding.weights, expected[t].w, atol=1e-8)
            assert_allclose(belief.mean(), expected[t].mean(), atol=1e-8)

    @pytest.mark.parametrize("lengths", LENGTHS)
    def test_predictions_of_a_stream(self, rule, lengths):
        model, slow = tracker(rule, lengths), oracle(rule, lengths)
        belief = model.start().update(TEST.X[0]).predict()
        expected = slow.predict(slow.filter(TEST.X[:1])[0])
        assert_allclose(belief.embedding.weights, expected.w, atol=1e-8)
        assert_allclose(belief.predict().embedding.weights, slow.predict(expected).w, atol=1e-8)

    @pytest.mark.parametrize("lengths", LENGTHS)
    def test_smoother(self, rule, lengths):
        X = with_gaps(TEST.X)
        expected = oracle(rule, lengths).smooth(X)
        found = tracker(rule, lengths).smooth(X)
        assert_allclose(found.embedding.weights, weights(expected), atol=1e-8)
        assert_allclose(found.mean(), means(expected), atol=1e-8)

    @pytest.mark.parametrize("lengths", LENGTHS)
    @pytest.mark.parametrize("rows", [1, 15])
    def test_forecast(self, rule, lengths, rows):
        states, observations = oracle(rule, lengths).forecast(TEST.X[:rows], 4)
        found = tracker(rule, lengths).forecast(TEST.X[:rows], 4)
        assert_allclose(found.embedding.weights, states, atol=1e-8)
        assert_allclose(found.observations.embedding.weights, observations, atol=1e-8)
        assert_array_equal(found.observations.embedding.points, TRAIN.X)
        normal = states / states.sum(axis=1, keepdims=True)
        assert_allclose(found.mean(), normal @ TRAIN.Z, atol=1e-8)

    def test_forecast_after_a_gap(self, rule):
        X = np.concatenate([TEST.X, np.full((2, 2), np.nan)])
        ahead = tracker(rule).forecast(TEST.X, 5).embedding.weights
        assert_allclose(tracker(rule).forecast(X, 3).embedding.weights, ahead[2:], atol=1e-12)
        filled = tracker(rule).filter(X).embedding.weights
        assert_allclose(filled[-2:], ahead[:2], atol=1e-12)

    @pytest.mark.parametrize("verb", ["filter", "smooth"])
    def test_prior_as_embedding(self, rule, verb, prior_points, alpha):
        expected = getattr(oracle(rule), verb)(TEST.X, dense.Points(prior_points, alpha))
        prior = km.MeanEmbedding(prior_points, alpha, km.Gaussian(0.6))
        found = getattr(tracker(rule), verb)(TEST.X, prior=prior)
        assert_allclose(found.embedding.weights, weights(expected), atol=1e-7)

    def test_prior_as_samples(self, rule, prior_points):
        equal = dense.Points(prior_points, np.full(9, 1 / 9))
        expected = oracle(rule).filter(TEST.X, equal)
        model = tracker(rule)
        found = model.filter(TEST.X, prior=prior_points)
        assert_allclose(found.embedding.weights, weights(expected), atol=1e-8)
        belief = model.start(prior_points).update(TEST.X[0])
        assert_allclose(belief.embedding.weights, expected[0].w, atol=1e-8)
        ahead = model.forecast(TEST.X, 3, prior=prior_points)
        states, _ = oracle(rule).forecast(TEST.X, 3, equal)
        assert_allclose(ahead.embedding.weights, states, atol=1e-8)

    def test_prior_with_the_first_rows_missing(self, rule, prior_points, alpha):
        """The first belief is the prior, on its own points; what follows is on training states."""
        X = TEST.X.copy()
        X[:2] = np.nan
        expected = oracle(rule).filter(X, dense.Points(prior_points, alpha))
        prior = km.MeanEmbedding(prior_points, alpha, km.Gaussian(0.6))
        found = tracker(rule).filter(X, prior=prior)
        n = tracker(rule).points_.shape[0]
        assert_allclose(found.embedding.weights[0, n:], alpha)
        assert_allclose(found.embedding.weights[1:, :n], weights(expected[1:]), atol=1e-8)

    def test_a_belief_is_the_next_prior(self, rule):
        """The prediction after five rows, as the prior of the rest."""
        model = tracker(rule)
        whole = model.filter(TEST.X).embedding.weights
        belief = model.start().update(TEST.X[0])
        for x in TEST.X[1:5]:
            belief.predict().update(x)
        rest = model.filter(TEST.X[5:], prior=belief.predict().embedding)
        assert_allclose(rest.embedding.weights, whole[5:], atol=1e-8)

    def test_any_kernels(self, rule):
        kx, kz = km.on_columns({0: km.Matern(1.5, 0.7), 1: km.Gaussian(0.9)}), km.Laplace(0.8)
        slow = dense.DenseFilter(TRAIN.X, TRAIN.Z, kx, kz, rule, 5e-3, REGS[rule], 1e-2, 0.1)
        model = tracker(rule, kernel_x=kx, kernel_z=kz)
        got = model.filter(TEST.X).embedding.weights
        assert_allclose(got, weights(slow.filter(TEST.X)), atol=1e-8)
        got = model.smooth(TEST.X).embedding.weights
        assert_allclose(got, weights(slow.smooth(TEST.X)), atol=1e-8)

    def test_nystroem_to_tolerance_is_close(self, rule):
        """To 1e-5 in what the beliefs say; weights themselves are not unique at low rank."""
        exact, short = tracker(rule), tracker(rule, features=km.Nystroem(tol=1e-10))
        for verb in ("filter", "smooth"):
            a, b = (getattr(m, verb)(with_gaps(TEST.X)) for m in (exact, short))
            assert_allclose(b.mean(), a.mean(), atol=1e-5)
            assert_allclose(b.embedding(TEST.Z), a.embedding(TEST.Z), atol=1e-5)
        a, b = (m.forecast(TEST.X, 3) for m in (exact, short))
        assert_allclose(b.mean(), a.mean(), atol=1e-5)
        assert_allclose(
            b.observations.embedding(TEST.X), a.observations.embedding(TEST.X), atol=1e-5
        )

    def test_random_fourier_features_are_their_own_kernel(self, rule):
        model = tracker(rule, features=km.RandomFourier(20))
        maps = model.features_x_.transform, model.features_z_.transform
        K_x, K_z = (lambda A, B, f=f: f(A) @ f(B).T for f in maps)
        slow = dense.DenseFilter(TRAIN.X, TRAIN.Z, K_x, K_z, rule, 5e-3, REGS[rule], 1e-2, 0.1)
        X = with_gaps(TEST.X)
        assert_allclose(model.filter(X).mean(), means(slow.filter(X)), atol=1e-6)
        assert_allclose(model.smooth(X).mean(), means(slow.smooth(X)), atol=1e-6)


def test_the_boundary_between_sequences_is_not_a_transition():
    """Dropping the pair at the boundary changes the weights, and only so do they agree."""
    whole, parts = (oracle("importance", lengths) for lengths in (None, [30, 30]))
    W, V = (weights(slow.filter(TEST.X)) for slow in (whole, parts))
    assert np.abs(W - V).max() > 1e-4
    assert_allclose(tracker(lengths=[30, 30]).filter(TEST.X).embedding.weights, V, atol=1e-8)


def test_sequences_in_another_order_are_the_same_training_data():
    """Rows change places, and the last of one no longer stands before the first of the other."""
    order = np.r_[20:60, :20]
    moved = type(TRAIN)(TRAIN.X[order], TRAIN.Z[order], None)
    a, b = tracker(lengths=[20, 40]), tracker(lengths=[40, 20], train=moved)
    assert_allclose(b.smooth(TEST.X).mean(), a.smooth(TEST.X).mean(), atol=1e-8)


@pytest.mark.parametrize("name", ["X", "Z"])
def test_gaps_are_where_trajectories_end(name):
    """The message says how to go on, and that works."""
    data = {"X": TRAIN.X.copy(), "Z": TRAIN.Z.copy()}
    data[name][[7, 30, 31]] = np.nan
    with pytest.raises(ValueError, match=f"{name} contains NaN .3 of 60 .* row 7.;.* out") as told:
        tracker(train=SimpleNamespace(**data), lengths=[20, 40])
    assert str(told.value).endswith("lengths=[7, 12, 10, 28]")
    whole = ~np.isnan(data[name]).any(axis=1)
    rows = SimpleNamespace(X=TRAIN.X[whole], Z=TRAIN.Z[whole])
    assert np.isfinite(tracker(train=rows, lengths=[7, 12, 10, 28]).filter(TEST.X).mean()).all()


def test_the_lengths_of_many_gaps_are_cut():
    X = TRAIN.X.copy()
    X[3::4] = np.nan
    with pytest.raises(ValueError, match=r"lengths=\[3, 3, 3, 3, 3, 3, 3, 3, \.\.\.\]"):
        tracker(train=SimpleNamespace(X=X, Z=TRAIN.Z))
    with pytest.raises(ValueError, match="X contains NaN"):
        tracker(train=SimpleNamespace(X=np.full_like(X, np.nan), Z=TRAIN.Z))


def test_transitions_alone_come_from_pairs():
    """A trajectory of a single row teaches what observations look like, and nothing on motion."""
    X, Z = (np.concatenate([a, a[:1] + 0.1]) for a in (TRAIN.X, TRAIN.Z))
    model = km.KernelBayesFilter(**SETTINGS, reg=1e-2).fit(X, Z, [60, 1])
    slow = dense.DenseFilter(
        X, Z, dense.gaussian(0.8), dense.gaussian(0.6), "importance", 5e-3, 1e-2, 1e-2, 0.1, [60, 1]
    )
    found = model.filter(TEST.X).embedding.weights
    assert_allclose(found, weights(slow.filter(TEST.X)), atol=1e-8)
    assert model.forecast(TEST.X, 1).embedding.weights[0, -1] == 0.0
    assert np.abs(found[:, -1]).max() > 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("verb", ["filter", "smooth"])
def test_trajectories_side_by_side_are_one_by_one(rule, verb):
    model, lengths = tracker(rule), [4, 1, 7, 3]
    X = with_gaps(TEST.X)
    together = getattr(model, verb)(X, lengths)
    stops = np.cumsum(lengths)
    alone = [getattr(model, verb)(X[b - a : b]) for a, b in zip(lengths, stops, strict=True)]
    assert_allclose(together.mean(), np.concatenate([r.mean() for r in alone]), atol=1e-10)
    got = np.concatenate([r.embedding.weights for r in alone])
    assert_allclose(together.embedding.weights, got, atol=1e-10)
    assert_array_equal(together.missing, np.isnan(X).any(axis=1))
    assert len(together) == 15


@pytest.mark.parametrize("rule", RULES)
def test_forecasts_of_several_trajectories_follow_each_other(rule):
    model = tracker(rule)
    together = model.forecast(TEST.X, 3, lengths=[5, 10])
    alone = [model.forecast(X, 3) for X in (TEST.X[:5], TEST.X[5:])]
    for law in (lambda f: f, lambda f: f.observations):
        expected = np.concatenate([law(f).embedding.weights for f in alone])
        assert_allclose(law(together).embedding.weights, expected, atol=1e-10)
    assert together.mean().shape == (6, 2)


# ------------------------------------------------------------------------------ the tensor
class TestTensor:
    """The squared rule with Σ q ⊗ φ ⊗ [φ, q, 1, z] precomputed, and without."""

    @pytest.fixture
    def pair(self, monkeypatch):
        settings = {"features": km.Nystroem(tol=1e-4)}
        with_it = tracker("squared", **settings)
        monkeypatch.setattr("kernelmean.filtering.steps.TENSOR_FLOATS", 0)
        return with_it, tracker("squared", **settings)

    def test_changes_nothing(self, pair):
        with_it, without = pair
        assert with_it.machine_.rule.tensor is not None
        assert without.machine_.rule.tensor is None
        for verb in ("filter", "smooth"):
            a, b = (getattr(m, verb)(with_gaps(TEST.X), [5, 10]) for m in pair)
            assert_allclose(b.mean(), a.mean(), atol=1e-8)
            assert_allclose(b.embedding.weights, a.embedding.weights, atol=1e-8)

    def test_is_left_out_where_it_does_not_pay(self):
        assert (
            tracker("squared").machine_.rule.tensor is None
        )  # at full rank it is larger than the data

    def test_blocks_of_rows_add_up(self, pair, monkeypatch):
        monkeypatch.setattr("kernelmean.filtering.steps.TENSOR_FLOATS", 2**26)
        monkeypatch.setattr("kernelmean.filtering.steps.block_rows", lambda width: 7)
        blocks = tracker("squared", features=km.Nystroem(tol=1e-4))
        assert_allclose(blocks.machine_.rule.tensor, pair[0].machine_.rule.tensor, atol=1e-12)


class TestNoRegulariser:
    """δ = 0 is the limit of small δ: the least-norm solution."""

    def test_squared(self):
        settings = {"features": km.Nystroem(tol=5e-2)}
        limit = tracker("squared", reg=0.0, **settings).filter(TEST.X)
        near = tracker("squared", reg=1e-22, **settings).filter(TEST.X)
        assert_allclose(limit.mean(), near.mean(), rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("rule", RULES)
    def test_everything_zero(self, rule):
        zero = dict.fromkeys(("reg", "reg_prior", "reg_transition", "reg_smoother"), 0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", km.NumericalWarning)
            for features in (km.Exact(), km.Nystroem()):
                model = tracker(rule, **zero, features=features)
                for verb in (model.filter, model.smooth):
                    assert np.isfinite(verb(with_gaps(TEST.X)).embedding.weights).all()


# ------------------------------------------------------------------------------ thinning
class TestThinning:
    DATA, NEW = make_rotation(600, random_state=2), make_rotation(60, random_state=3)

    def fitted(self, limit) -> km.KernelBayesFilter:
        model = tracker(train=self.DATA, features=None, kernel_z=km.Gaussian(0.4))
        model = km.KernelBayesFilter(**{**model.get_params(deep=False), "max_active": limit})
        return model.fit(self.DATA.X, self.DATA.Z)

    @pytest.mark.parametrize("limit", [600, 10_000])
    def test_no_thinning_where_all_fit(self, limit):
        full, same = self.fitted(None), self.fitted(limit)
        for verb in ("filter", "smooth"):
            a, b = (getattr(m, verb)(self.NEW.X) for m in (full, same))
            assert_array_equal(a.mean(), b.mean())
            assert_array_equal(a.embedding.weights, b.embedding.weights)

    @pytest.mark.parametrize("limit", [50, 100, 200])
    def test_at_most_so_many_rows_are_active(self, limit):
        W = self.fitted(limit).filter(self.NEW.X).embedding.weights
        assert (np.count_nonzero(W, axis=1) <= limit).all()
        assert np.count_nonzero(W, axis=1).max() > limit / 2

    def test_the_error_falls_with_the_limit(self):
        """Distance of the means from those of the full filter, whose error is 0.2."""
        full = self.fitted(None).filter(self.NEW.X).mean()
        far = [
            np.sqrt(np.mean((self.fitted(limit).filter(self.NEW.X).mean() - full) ** 2))
            for limit in (25, 100, 300)
        ]
        assert far[0] > far[1] > far[2]
        assert far[1] < 0.1
        assert far[2] < 0.03
        worse = np.mean((self.fitted(100).predict(self.NEW.X) - self.NEW.Z) ** 2)
        assert worse < 1.15 * np.mean((full - self.NEW.Z) ** 2)

    def test_without_bias(self):
        """Over many shares in random order, the sum and the averages are kept."""
        from kernelmean.filtering.steps import kept_shares

        rng = np.random.default_rng(0)
        beta, f = rng.gamma(0.5, size=400) - 0.1, rng.normal(size=400)
        positive = np.maximum(beta, 0)
        sums = []
        for _ in range(400):
            order = rng.permutation(400)
            thin = kept_shares(beta[order], 40)
            assert np.count_nonzero(thin) <= 40
            assert thin.sum() == pytest.approx(positive.sum(), rel=1e-5)
            sums.append(thin @ f[order])
        error = np.mean(sums) - positive @ f
        assert abs(error) < 4 * np.std(sums) / 20

    def test_without_a_limit_next_to_nothing_is_dropped(self):
        from kernelmean.filtering.steps import kept_shares

        beta = np.concatenate([np.random.default_rng(0).normal(size=300), [1e-12, 1e-15]])
        kept, positive = kept_shares(beta), np.maximum(beta, 0)
        assert positive.sum() - kept.sum() <= 1e-6 * positive.sum()
        assert kept[-1] == 0
        assert_array_equal(kept[:300][beta[:300] > 1e-5], beta[:300][beta[:300] > 1e-5])


# ------------------------------------------------------------------ posterior regularisation
class TestSupervision:
    """Song 2016, eq. (14) to (16): supervised pairs below the training pairs at their step."""

    @pytest.fixture
    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One pair per row: observations beyond the training data, states too, and strengths."""
        rng = np.random.default_rng(5)
        strength = rng.uniform(0, 0.3, size=15)
        strength[3] = 0.0
        return TEST.X + rng.normal(size=(15, 2)), 1.3 * TEST.Z, strength

    @staticmethod
    def one_by_one(x_s, z_s, strength):
        each = np.broadcast_to(strength, len(x_s))
        return lambda t, x, m, last: (x_s[t : t + 1], z_s[t : t + 1], each[t])

    @staticmethod
    def own(track) -> np.ndarray:
        """Weights on the training states."""
        return np.array([m.w[:60] for m in track])

    @pytest.mark.parametrize("strength", ["each", 0.05, 5.0])
    @pytest.mark.parametrize("verb", ["filter", "smooth"])
    def test_arrays(self, pairs, strength, verb):
        x_s, z_s, each = pairs
        mu = each if strength == "each" else strength
        X = with_gaps(TEST.X)
        expected = getattr(oracle(), verb)(X, supervise=self.one_by_one(x_s, z_s, mu))
        found = getattr(tracker(), verb)(X, supervision=(x_s, z_s, mu))
        assert_allclose(found.embedding.weights[:, :60], self.own(expected), atol=1e-7)
        assert_allclose(found.mean(), means(expected), atol=1e-7)
        assert_allclose(found.embedding.mean(), means(expected), atol=1e-7)

    def test_weights_of_the_supervised_states(self, pairs):
        """Each step has weight on its own pair and on no other."""
        expected = oracle().filter(TEST.X, supervise=self.one_by_one(*pairs))
        found = tracker().filter(TEST.X, supervision=pairs).embedding
        assert_array_equal(found.points, np.concatenate([TRAIN.Z, pairs[1]]))
        extra = found.weights[:, 60:]
        assert_allclose(np.diag(extra), [m.w[60] for m in expected], atol=1e-8)
        assert_array_equal(extra - np.diag(np.diag(extra)), 0.0)

    def test_what_was_told_may_be_written_over(self, pairs):
        """Laws are formed when they are asked for."""
        kept, given = tracker(), [np.array(part) for part in pairs]
        found = kept.filter(TEST.X, supervision=tuple(given))
        for part in given:
            part[...] = 9.0
        expected = kept.filter(TEST.X, supervision=pairs)
        assert_array_equal(found.interval(0.9), expected.interval(0.9))

    def test_the_next_prediction_starts_from_the_supervised_state_too(self, pairs):
        x_s, z_s, _ = pairs
        model = tracker()
        told = model.start().update(TEST.X[0], (x_s[:1], z_s[:1], 50.0)).predict()
        slow = oracle()
        first = slow.update(slow.start(), TEST.X[0], (x_s[:1], z_s[:1], 50.0))
        assert_allclose(told.embedding.weights, slow.predict(first).w, atol=1e-8)

    def test_a_callback_that_follows_the_filter(self):
        """As Song et al. do: last estimate turned by the known angle, seen from there."""
        R = np.array([[np.cos(0.3), np.sin(0.3)], [-np.sin(0.3), np.cos(0.3)]])
        calls = []

        def clock(t, x, belief):
            calls.append(t)
            if belief.previous is None:
                return None
            guess = belief.previous[None] @ R
            return guess, guess, 0.2

        def slow_clock(t, x, m, last):
            if last is None:
                return None
            guess = last.mean()[None] @ R
            return guess, guess, 0.2

        expected = oracle().filter(TEST.X, supervise=slow_clock)
        found = tracker().filter(TEST.X, supervision=clock)
        assert_allclose(found.mean(), means(expected), atol=1e-7)
        assert calls == list(range(15))

    def test_a_callback_with_several_pairs(self, pairs):
        x_s, z_s, strength = pairs

        def three(t, x, m, last=None):
            return None if t % 2 else (x_s[t : t + 3], z_s[t : t + 3], strength[t : t + 3])

        expected = oracle().filter(TEST.X, supervise=three)
        found = tracker().filter(TEST.X, supervision=lambda t, x, b: three(t, x, b))
        assert_allclose(found.mean(), means(expected), atol=1e-7)
        assert_allclose(found.embedding.weights[:, :60], self.own(expected), atol=1e-7)
        assert_allclose(found.embedding.mean(), found.mean(), atol=1e-9)

    def test_what_a_callback_is_told(self):
        """Rows of X are counted, and the belief is the prediction."""
        told = []

        def listen(t, x, belief):
            told.append((t, x, belief.mean(), belief.embedding.weights, belief.previous))

        X = with_gaps(TEST.X)
        model = tracker()
        result = model.filter(X, [7, 8], supervision=listen)
        assert_array_equal(sorted(t for t, *_ in told), np.flatnonzero(~result.missing))
        slow, plain = oracle(), oracle().filter(X[:7])
        for t, x, mean, W, previous in told:
            assert_array_equal(x, X[t])
            if 0 < t < 7:
                prediction = slow.predict(plain[t - 1])
                assert_allclose(mean, prediction.mean(), atol=1e-8)
                assert_allclose(W, prediction.w, atol=1e-8)
                assert_allclose(previous, plain[t - 1].mean(), atol=1e-8)
            elif t == 7:
                assert previous is None
        assert_array_equal(result.mean(), model.filter(X, [7, 8]).mean())

    def test_a_callback_cannot_change_the_track(self):
        """It may play with the belief that it is given."""

        def meddle(t, x, belief):
            belief.predict().update([0.3, 0.3])

        model = tracker()
        assert_array_equal(
            model.filter(TEST.X, supervision=meddle).mean(), model.filter(TEST.X).mean()
        )

    def test_arrays_are_a_callback(self, pairs):
        x_s, z_s, strength = pairs
        model = tracker()
        a = model.filter(TEST.X, [5, 10], supervision=pairs)
        b = model.filter(
            TEST.X,
            [5, 10],
            supervision=lambda t, x, _: (x_s[t : t + 1], z_s[t : t + 1], strength[t]),
        )
        assert_allclose(a.mean(), b.mean(), atol=1e-12)

    def test_no_strength_is_no_supervision(self, pairs):
        model = tracker()
        nothing = model.filter(TEST.X, supervision=(*pairs[:2], 0.0))
        assert_allclose(nothing.mean(), model.filter(TEST.X).mean(), atol=1e-7)
        assert_array_equal(nothing.embedding.weights[:, 60:], 0.0)

    def test_great_strength_wins(self):
        """Told at the very observations, far beyond the training states."""
        z_s = np.column_stack([np.full(15, 5.0), np.full(15, -5.0)])
        found = tracker().filter(TEST.X, supervision=(TEST.X, z_s, 1e6))
        assert_allclose(found.mean(), z_s, atol=0.05)

    def test_streaming(self, pairs):
        x_s, z_s, strength = pairs
        model = tracker()
        expected = model.filter(TEST.X, supervision=pairs)
        belief = model.start()
        for t, x in enumerate(TEST.X):
            belief = belief if t == 0 else belief.predict()
            belief.update(x, (x_s[t : t + 1], z_s[t : t + 1], strength[t]))
            assert_allclose(belief.mean(), expected.mean()[t], atol=1e-10)

    def test_random_fourier_features(self, pairs):
        model = tracker(features=km.RandomFourier(20))
        maps = model.features_x_.transform, model.features_z_.transform
        K_x, K_z = (lambda A, B, f=f: f(A) @ f(B).T for f in maps)
        slow = dense.DenseFilter(TRAIN.X, TRAIN.Z, K_x, K_z, "importance", 5e-3, 1e-2, 1e-2, 0.1)
        expected = slow.filter(TEST.X, supervise=self.one_by_one(*pairs))
        found = model.filter(TEST.X, supervision=pairs)
        assert_allclose(found.mean(), means(expected), atol=1e-5)

    def test_where_training_never_was(self):
        """A spike that supervision explains is no collapse."""
        X = TEST.X.copy()
        X[7] = 30.0
        z_s = np.tile([[3.0, 3.0]], (15, 1))
        strength = np.where(np.arange(15) == 7, 1.0, 0.0)
        found = tracker().filter(X, supervision=(X, z_s, strength))
        assert not found.collapsed.any()
        assert_allclose(found.mean()[7], [3.0, 3.0], atol=0.1)

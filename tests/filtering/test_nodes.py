"""The filter on densities: a hidden Markov chain on the training states."""

from __future__ import annotations

import filter_oracles as dense
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.filtering.laws import StateLaw
from kernelmean.filtering.nodes import chain_of


def data() -> tuple[np.ndarray, ...]:
    train = km.datasets.make_rotation(120, random_state=0)
    test = km.datasets.make_rotation(40, random_state=1)
    return train.X, train.Z, test.X, test.Z


@pytest.fixture(scope="module")
def model() -> km.KernelBayesFilter:
    X, Z, *_ = data()
    return km.KernelBayesFilter(inference="densities").fit(X, Z)


def with_gaps(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X[5:8] = np.nan
    return X


def test_transitions_are_ratios_of_densities_in_rows():
    p = np.random.default_rng(0).random((6, 6))
    expected = p / p.sum(axis=0)
    expected /= expected.sum(axis=1, keepdims=True)
    assert_allclose(chain_of(np.log(p)), expected, atol=1e-14)
    assert_allclose(chain_of(np.log(p) - 5000.0), expected, atol=1e-11)


@pytest.fixture(scope="module")
def tables(model) -> dense.Tables:
    """Those of the filter, an observation being a row of the test sequence."""
    emit = np.exp(model.machine_.log_densities(data()[2]))
    n = len(model.machine_.points)
    return dense.Tables(np.full(n, 1 / n), model.machine_.transition, emit)


class TestTables:
    """Against the forward and backward pass of a hidden Markov model with the same tables."""

    def symbols(self):
        return [None if 5 <= t < 8 else t for t in range(40)]

    @pytest.mark.slow
    def test_filter(self, model, tables):
        found = model.filter(with_gaps(data()[2]))
        expected = tables.forward(self.symbols())
        assert_allclose(found.embedding.weights, expected, atol=1e-12)
        assert_allclose(found.mean(), expected @ model.points_, atol=1e-12)
        assert_array_equal(np.flatnonzero(found.missing), [5, 6, 7])

    def test_smoother(self, model, tables):
        found = model.smooth(with_gaps(data()[2]))
        expected = tables.forward_backward(self.symbols())
        assert_allclose(found.embedding.weights, expected, atol=1e-12)

    def test_forecast(self, model, tables):
        ahead = model.forecast(data()[2][:3], 2)
        states, _ = tables.forecast([0, 1, 2], 2)
        assert_allclose(ahead.embedding.weights, states, atol=1e-12)
        assert_allclose(ahead.observations.mean(), states @ model.points_x_, atol=1e-12)

    def test_sequences_start_anew(self, model, tables):
        found = model.filter(data()[2], lengths=[15, 25]).mean()
        second = tables.forward(list(range(15, 40))) @ model.points_
        assert_allclose(found[15:], second, atol=1e-12)

    def test_streaming(self, model, tables):
        belief, X = model.start(), data()[2]
        for t, p in enumerate(tables.forward([0, None, 2])):
            belief = belief if t == 0 else belief.predict()
            belief.update([np.nan, np.nan] if t == 1 else X[t])
            assert_allclose(belief.mean(), p @ model.points_, atol=1e-12)

    def test_prior(self, model, tables):
        """A prior on one training state stays near it."""
        prior = np.repeat(model.points_[[7]], 5, axis=0)
        start = model.start(prior).mean()
        assert np.abs(start - model.points_[7]).max() < 0.3
        assert_allclose(model.start(model.machine_.everywhere()).mean(), model.points_.mean(axis=0))


def test_nothing_seen_later_moves_nothing(model):
    X = data()[2].copy()
    X[25:] = np.nan
    filtered, smoothed = model.filter(X).mean(), model.smooth(X).mean()
    assert_allclose(smoothed[24:], filtered[24:], atol=1e-12)


def test_absurd_rows_collapse(model):
    X, gap = data()[2].copy(), data()[2].copy()
    X[10], gap[10] = 1e6, np.nan
    with pytest.warns(km.NumericalWarning, match="1 of 40"):
        found = model.filter(X)
    assert_array_equal(np.flatnonzero(found.collapsed), [10])
    assert_allclose(found.mean(), model.filter(gap).mean(), atol=1e-12)


def test_save_and_load(model, tmp_path):
    model.save(tmp_path / "filter.km")
    again = km.load(tmp_path / "filter.km")
    X = data()[2]
    assert_allclose(again.smooth(X).mean(), model.smooth(X).mean(), atol=1e-12)


def test_names_and_dates(model):
    X, Z, new, _ = data()
    dates = pd.date_range("2020-01-01", periods=len(new))
    frame = model.filter(pd.DataFrame(new, index=dates)).to_frame()
    assert frame.index.equals(dates)
    assert "two conditional densities" in str(model.summary())


@pytest.mark.slow
def test_fewer_nodes():
    X, Z, new, truth = data()
    few = km.KernelBayesFilter(inference="densities", max_active=40).fit(X, Z)
    assert few.machine_.transition.shape == (40, 40)
    assert np.mean((few.predict(new) - truth) ** 2) < 0.3 * truth.var()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m, X, Z: m.tune(X, Z), "tune needs inference='kbr'"),
        (lambda m, X, Z: m.with_reg(0.1), "with_reg needs inference='kbr'"),
        (lambda m, X, Z: m.filter(X, supervision=(X, Z, 1.0)), "supervision needs inference='kbr'"),
        (lambda m, X, Z: m.set_params(inference="mcmc").fit(X, Z), "inference is 'mcmc'"),
    ],
)
def test_refused(model, ask, message):
    from sklearn.base import clone

    X, Z, *_ = data()
    target = clone(model) if "mcmc" in message else model
    with pytest.raises(ValueError, match=message):
        ask(target, X, Z)


@pytest.mark.slow
def test_nearer_to_kalman_than_the_kernel_rule():
    """A damped rotation of which one noisy column is seen: less error, filtered and smoothed."""
    turn = np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
    law = dense.Linear(0.95 * turn, 0.1 * np.eye(2), np.array([[1.0, 0.3]]), np.array([[0.3]]))
    rng = np.random.default_rng(7)
    (X, Z), (new, truth) = law.simulate(300, rng), law.simulate(300, rng)
    filtered, smoothed, *_ = law.kalman(new)
    models = [km.KernelBayesFilter(inference=i).fit(X, Z) for i in ("densities", "kbr")]
    for verb, best in (("filter", filtered), ("smooth", smoothed)):
        excess = [
            np.mean((getattr(model, verb)(new).mean() - truth) ** 2) - np.mean((best - truth) ** 2)
            for model in models
        ]
        assert 0 < excess[0] < 0.7 * excess[1]


# ------------------------------------------------------------ laws whose width varies


def fan(n: int, seed: int, varies: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """y = sin z + s(z) ε, s = e^z or 1."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1.5, 1.5, (n, 1))
    return Z, np.sin(Z) + (np.exp(Z) if varies else 1.0) * rng.standard_normal((n, 1))


@pytest.fixture(scope="module")
def law() -> StateLaw:
    return StateLaw.of(*fan(400, 0))


@pytest.mark.slow
def test_width_is_learned_where_it_varies(law):
    Z = np.array([[-1.0], [0.0], [1.0]])
    middle, log_size = law.standard(Z)
    assert_allclose(middle[:2], np.sin(Z[:2]), atol=0.4)  # beyond, the noise is e^z
    assert_allclose(log_size - log_size[1], Z, atol=0.3)
    assert StateLaw.of(*fan(200, 1, varies=False)).standard is None


def test_law_of_standardised_values_is_a_density(law):
    Z = np.array([[-1.0], [1.0]])
    y = np.linspace(-30.0, 30.0, 6001)[:, None]
    p = np.exp(law.at(Z).log_density(y))
    assert_allclose(p.sum(axis=1) * 0.01, 1.0, atol=5e-3)
    spread = np.sqrt((p * (y[:, 0] - (p @ y) * 0.01) ** 2).sum(axis=1) * 0.01)
    assert_allclose(spread, np.exp(Z[:, 0]), rtol=0.25)


def test_pairs_draws_and_tables_are_of_one_law(law):
    Z, Y = fan(300, 2)
    laws = law.at(Z)
    assert_allclose(laws.log_density_of_pairs(Y), np.diag(laws.log_density(Y)), atol=2e-3)
    scaled = (laws.sample(np.random.default_rng(0)) - np.sin(Z)) / np.exp(Z)
    assert abs(scaled.mean()) < 0.2
    assert 0.8 < scaled.std() < 1.25


@pytest.mark.slow
def test_nearer_to_the_truth_than_one_bandwidth(law):
    Z, Y = fan(500, 3)
    truth = -0.5 * (((Y - np.sin(Z)) / np.exp(Z)) ** 2 + np.log(2 * np.pi)) - Z
    plain = km.ConditionalDensity().fit(*fan(400, 0)).score(Z, Y)
    ours = law.at(Z).log_density_of_pairs(Y).mean()
    assert truth.mean() - ours < 0.7 * (truth.mean() - plain)


def test_densities_of_rows_of_its_own(model):
    """Rows out of reach of every point count as nothing, which they are."""
    laws = model.machine_.observing.laws(model.points_[:4])
    Y = np.concatenate([data()[2][:6], [[50.0, 0.0]]])
    found = laws.log_density_each(np.broadcast_to(Y, (4, 7, 2)))
    m = laws.embedding.normalised()
    K = np.stack([m.kernel.density(m.points, Y - shift) for shift in laws.shift])
    q = np.maximum(np.einsum("bn,bnk->bk", m.weights, K), 0.0) / laws.whole()[:, None]
    assert_allclose(found, laws.wide.log_mixed(q, Y - laws.shift[:, None]), atol=1e-9)


@pytest.mark.slow
def test_volatility_is_saved_with_its_width(tmp_path):
    rng = np.random.default_rng(0)
    Z = np.zeros((150, 1))
    for t in range(1, 150):
        Z[t] = 0.9 * Z[t - 1] + 0.5 * rng.standard_normal()
    X = np.exp(Z / 2) * rng.standard_normal((150, 1))
    model = km.KernelBayesFilter(inference="densities").fit(X, Z)
    assert model.machine_.standard is not None
    model.save(tmp_path / "filter.km")
    again = km.load(tmp_path / "filter.km")
    assert_allclose(again.filter(X[:9]).mean(), model.filter(X[:9]).mean(), atol=1e-12)

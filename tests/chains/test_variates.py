"""Canonical variates: uncorrelated, of variance one, and those that neighbours know most about."""

from __future__ import annotations

import numpy as np
import pytest
from chain_options import hidden
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import subspace_angles

import kernelmean as km
from kernelmean.chains.draft import Draft
from kernelmean.chains.variates import Variates
from kernelmean.comparators import matched_accuracy


def rows(n: int = 400, seed: int = 40) -> np.ndarray:
    """Two columns that last, (AR(1) with 0.9 and 0.5), hidden in a rotation with noise."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n, 5))
    for t in range(1, n):
        noise[t, :2] = [0.9, 0.5] * noise[t - 1, :2] + [0.44, 0.87] * noise[t, :2]
    return noise @ np.linalg.qr(rng.normal(size=(5, 5)))[0]


def variates(X: np.ndarray, count: int) -> Variates:
    ones = np.ones(len(X), dtype=bool)
    draft = Draft.of(X, ones, None, km.Linear(), None, None)
    return Variates.of(draft.coordinates.features, draft.moments, count)


def test_uncorrelated_of_mean_zero_and_variance_one():
    X = rows()
    S = variates(X, 3)(X)
    assert S.shape == (400, 3)
    assert_allclose(S.mean(axis=0), 0.0, atol=1e-10)
    assert_allclose(S.T @ S / 400, np.eye(3), atol=1e-8)


def test_they_are_the_singular_vectors_of_whitened_rows():
    """With a linear kernel, by hand: past and future of every row."""
    X = rows()
    centred = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / 400)
    white = centred @ vectors / values**0.5
    before, after = white[:-1] - white[:-1].mean(axis=0), white[1:] - white[1:].mean(axis=0)
    M = before.T @ after / 399
    U = np.linalg.svd(np.hstack([M, M.T]))[0][:, :2]
    assert subspace_angles(white @ U, variates(X, 2)(X)).max() < 1e-6


def test_what_lasts_is_found_first():
    X = rows(3_000)
    S = variates(X, 5)(X)
    along = [np.corrcoef(s[:-1], s[1:])[0, 1] for s in S.T]
    assert along[0] == pytest.approx(0.9, abs=0.05)
    assert along[1] == pytest.approx(0.5, abs=0.08)
    assert np.abs(along[2:]).max() < 0.1


def test_no_more_than_there_are():
    X = rows()
    assert variates(X, 50)(X).shape == (400, 5)


DATA = km.datasets.make_hmm("separated", 300, random_state=40)
QUICK = {"n_components": 2, "random_state": 0, "n_init": 1, "max_iter": 10}


class TestInTheModel:
    def wide(self, noisy: int = 4) -> np.ndarray:
        noise = np.random.default_rng(0).normal(size=(300, noisy))
        return np.hstack([6 * DATA.X, noise])

    @pytest.mark.slow
    @pytest.mark.usefixtures("short_searches")
    def test_many_columns_have_densities_of_variates(self):
        X = self.wide(24)
        m = km.KernelHMM(**hidden(**QUICK)).fit(X)
        assert isinstance(m.variates_, Variates)
        assert m.variates_(X).shape[1] >= 3
        assert np.isfinite(m.score(X))
        same = km.KernelHMM(**hidden(**QUICK, directions=m.variates_(X).shape[1])).fit(X)
        assert_array_equal(same.filter(X), m.filter(X))

    @pytest.mark.slow
    @pytest.mark.thorough
    def test_some_columns_have_those_by_which_the_past_tells_more(self):
        """Calm and wild rows in one of five columns; two rings in two of five."""
        rng = np.random.default_rng(3)
        states = np.cumsum(rng.random(400) < 0.03) % 2
        X = rng.normal(size=(400, 5))
        X[:, 0] *= np.array([0.5, 2.0])[states]
        m = km.KernelHMM(2, random_state=0).fit(X)
        assert m.variates_ is None
        assert matched_accuracy(states, m.predict(X)) > 0.95
        angle, X = rng.uniform(0, 2 * np.pi, 400), 0.5 * rng.normal(size=(400, 5))
        X[:, :2] += np.array([1.0, 2.5])[states, None] * np.c_[np.cos(angle), np.sin(angle)]
        m = km.KernelHMM(2, random_state=0).fit(X)
        assert isinstance(m.variates_, Variates)
        assert matched_accuracy(states, m.predict(X)) > 0.95

    def test_few_columns_have_their_own(self):
        assert km.KernelHMM(**hidden(**QUICK, bandwidth=0.1)).fit(DATA.X).variates_ is None
        m = km.KernelHMM(**hidden(**QUICK, bandwidth=0.3, directions=0)).fit(self.wide())
        assert m.variates_ is None

    def test_draws_are_rows(self):
        """Where densities are of variates there is nothing to smooth rows with."""
        X = self.wide()
        m = km.KernelHMM(**hidden(**QUICK, bandwidth=0.3, directions=2)).fit(X)
        drawn = {tuple(x) for x in m.sample(30, 0)[0]}
        assert drawn <= {tuple(x) for x in X}

    def test_save_and_load(self, tmp_path):
        X = self.wide()
        m = km.KernelHMM(**hidden(**QUICK, bandwidth=0.3, directions=2)).fit(X)
        m.save(tmp_path / "m.km")
        again = km.load(tmp_path / "m.km")
        assert_array_equal(again.log_predictive(X), m.log_predictive(X))
        assert_array_equal(again.variates_(X), m.variates_(X))

    @pytest.mark.parametrize("directions", [-1, 1.5, "all", None, True])
    def test_bad_directions(self, directions):
        with pytest.raises(ValueError, match="directions"):
            km.KernelHMM(**hidden(**QUICK, directions=directions)).fit(DATA.X)

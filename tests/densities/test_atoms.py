"""Values of y that repeat: cells of smooth laws, and what is asked of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import poisson

import kernelmean as km
from kernelmean.densities.atoms import Atoms

INF = np.inf
# column 1 has a smooth part on either side of 2
BY_HAND = Atoms(
    np.array([0, 0, 1]), np.array([0.0, 1.0, 2.0]), np.array([0.6, 0.4, 0.5]),
    np.array([-INF, 0.3, 1.9]), np.array([0.3, INF, 2.2]),
)  # fmt: skip


def counts(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 1))
    return X, rng.poisson(np.exp(X[:, 0])).astype(float)


@pytest.fixture(scope="module")
def model():
    return km.ConditionalDensity().fit(*counts(400, 0))


class TestCells:
    Y = np.array([[-3.0, 1.8], [0.2, 1.9], [0.4, 2.0], [9.0, 2.1], [1.0, 2.3]])

    def test_what_is_in_a_cell_is_at_its_atom(self):
        expected = [[0, 1.8], [0, 2], [1, 2], [1, 2], [1, 2.3]]
        assert_array_equal(BY_HAND.snapped(self.Y), expected)

    def test_distribution_functions_step_at_atoms(self):
        expected = [[-INF, 1.8], [0.3, 1.9], [0.3, 2.2], [INF, 2.2], [INF, 2.3]]
        assert_array_equal(BY_HAND.edges(self.Y), expected)

    def test_order_is_kept(self):
        y = np.tile(np.linspace(-1, 3, 401)[:, None], 2)
        assert (np.diff(BY_HAND.snapped(y), axis=0) >= 0).all()
        assert (np.diff(np.clip(BY_HAND.edges(y), -9, 9), axis=0) >= 0).all()

    def test_what_is_between_cells_is_between_atoms(self):
        """Of 0, 5 and 9, with 2 to 4 seen between the first two, 8 and 10 about the last."""
        found = Atoms(
            np.zeros(3, int), np.array([0.0, 5.0, 9.0]), np.full(3, 0.2), np.array([-INF, 4, 8.8]),
            np.array([3.0, 5.5, 10.5]), np.array([0.0, 4.0, 8.0]), np.array([2.0, 8.0, 10.0]),
        )  # fmt: skip
        y = np.array([[-1.0], [2.9], [3.0], [3.5], [3.9], [5.0], [5.6], [8.7], [9.0], [10.6], [12]])
        expected = [0, 0, 2, 3, 3.8, 5, 5.6, 8.7, 9, 10.2, 12]
        assert_allclose(found.snapped(y)[:, 0], expected)
        y = np.array([[-1.0], [0.0], [1.0], [2.0], [3.0], [4.5], [5.0], [7.0], [9.0], [10.2], [12]])
        expected = [-INF, 3, 3, 3, 3.5, 4, 5.5, 7, 10.5, 10.6, 12]
        assert_allclose(found.edges(y)[:, 0], expected)

    def test_a_cell_far_from_its_atom_moves_nothing_else(self):
        """−999 for what is not known: outliers, of which smooth laws have less than they are."""
        cell = np.array([-INF]), np.array([0.1]), np.array([-999.0]), np.array([-0.1])
        found = Atoms(np.zeros(1, int), np.array([-999.0]), np.array([0.02]), *cell)
        y = np.array([[-5.0], [0.05], [0.2], [0.3], [7.0]])
        assert_allclose(found.snapped(y)[:, 0], [-999, -999, 0.1, 0.3, 7])

    def test_what_is_an_atom(self):
        y = np.r_[np.zeros(50), np.ones(4), np.arange(2.0, 48.0)]
        found = Atoms.found(np.stack([y, np.arange(100.0)], axis=1))
        assert_array_equal(found.columns, [0])
        assert_allclose([found.values[0], found.low[0], found.high[0]], [0.0, 0.0, 0.5])
        assert Atoms.found(np.arange(100.0)[:, None]) is None


class TestCounts:
    def probabilities(self, model, X):
        F = model.cdf(np.arange(0.0, 9.0), X, paired=False)
        return np.diff(F, axis=1, prepend=0.0)

    def test_as_frequent_as_in_the_data(self, model):
        X, y = counts(400, 0)
        share = [(y == v).mean() for v in range(9)]
        assert_allclose(self.probabilities(model, X).mean(axis=0), share, atol=0.012)

    def test_probabilities_are_those_of_the_law(self, model):
        X, y = counts(2000, 1)
        at = np.arange(2000), np.minimum(y, 8).astype(int)
        exact = poisson.logpmf(y, np.exp(X[:, 0])).mean()
        ours = np.log(np.maximum(self.probabilities(model, X)[at], 1e-3)).mean()
        marginal = np.log([np.mean(y == v) for v in y]).mean()
        assert ours > 0.5 * (exact + marginal)

    def test_answers_are_counts(self, model):
        X, y = counts(500, 2)
        quantiles = model.predict_quantile(X, [0.1, 0.5, 0.9])
        interval = model.predict_interval(X, 0.9)
        draws = model.sample(X, 1, random_state=0)
        for values in (quantiles, interval.lower, interval.upper, model.mode(X)):
            common = values[values <= model.atoms_.values[-1]]
            assert_array_equal(common, np.round(common))
        assert (draws == np.round(draws)).mean() > 0.95
        assert np.mean((interval.lower <= y) & (y <= interval.upper)) > 0.88
        assert np.mean(y <= quantiles[:, 1]) >= 0.48
        assert np.mean(y < quantiles[:, 1]) <= 0.52

    def test_pairs_and_tables_agree(self, model):
        X = np.linspace(-0.9, 0.9, 5)[:, None]
        y = np.array([-1.0, 0.0, 0.2, 1.0, 30.0])
        assert_allclose(model.cdf(y, X), np.diag(model.cdf(y, X, paired=False)), atol=1e-9)
        assert model.cdf(y, X)[0] == 0.0

    def test_saved_and_said(self, model, tmp_path):
        model.save(tmp_path / "m")
        again = km.load(tmp_path / "m")
        assert_array_equal(again.cdf([1.0], [[0.3]]), model.cdf([1.0], [[0.3]]))
        assert "repeated values of y" in str(model.summary())


def test_what_is_seen_between_atoms_can_be(rng):
    """Ages, three in five to the next five: half of the others had no probability at all."""
    X = rng.uniform(-2, 2, (900, 1))
    y = 40 + 8 * X[:, 0] + 8 * rng.standard_normal(900)
    y = np.where(rng.random(900) < 0.6, 5 * np.round(y / 5), np.round(y))
    model = km.ConditionalDensity().fit(X[:300], y[:300])
    above, below = (model.cdf(y[300:] + half, X[300:]) for half in (0.5, -0.5))
    heaped = y[300:] % 5 == 0
    odds = (above - below)[~heaped & np.isin(y[300:], y[:300])]
    assert odds.min() > 1e-6
    assert (above - below)[heaped].mean() > 3 * odds.mean()
    draws = model.sample(X[300:], 1, random_state=0).ravel()
    assert abs((draws % 5 == 0).mean() - heaped.mean()) < 0.15


def test_what_is_near_a_bound_where_outcomes_end_can_be(rng):
    """Outcomes cut at 1.5: those just below had no density at all, and no draws."""
    X = rng.uniform(-2, 2, (900, 1))
    y = np.minimum(X[:, 0] + rng.standard_normal(900), 1.5)
    model = km.ConditionalDensity().fit(X[:300], y[:300])
    near = (y[300:] > 1.2) & (y[300:] < 1.48)
    above, below = (model.cdf(y[300:] + by, X[300:])[near] for by in (0.02, -0.02))
    assert (above - below).min() > 1e-4
    draws = model.sample(X[300:], 1, random_state=0).ravel()
    assert abs(((draws > 1.2) & (draws < 1.48)).mean() - near.mean()) < 0.03


def test_none_where_values_differ_or_a_bandwidth_is_given(model):
    X, y = counts(60, 3)
    assert km.ConditionalDensity(bandwidth=0.5, reg=1e-2).fit(X, y).atoms_ is None
    smooth = np.random.default_rng(0).normal(size=60)
    assert km.ConditionalDensity().fit(X, smooth).atoms_ is None


def test_ties_by_rounding_are_no_atoms_but_zeros_beside_them_are(rng):
    y = np.round(rng.normal(150, 75, 440))  # some values are there six times and more
    assert np.unique(y, return_counts=True)[1].max() >= 5
    assert Atoms.found(y[:, None]) is None
    y[:60] = 0.0
    assert_array_equal(Atoms.found(y[:, None]).values, [0.0])


def test_cells_of_atoms_near_each_other_do_not_overlap(rng):
    """Smooth laws cannot tell thousandths apart: a distribution function would go down there."""
    X, n = rng.normal(size=(120, 1)), 120
    near = rng.integers(0, 3, n) * 1e-3
    y = np.where(rng.random(n) < 0.5, near, np.round(rng.normal(size=n), 6))
    m = km.ConditionalDensity().fit(X, y)
    assert_array_equal(m.atoms_.values, [0.0, 0.001, 0.002])
    assert (m.atoms_.high[:-1] <= m.atoms_.low[1:]).all()
    below = m.cdf(np.linspace(-0.001, 0.003, 41), X[:5], paired=False)
    assert (np.diff(below, axis=1) >= 0).all()

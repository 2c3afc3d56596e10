"""Values that have no place in their series."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.core.checks import NumericalWarning
from kernelmean.core.sequences import parted
from kernelmean.core.wild import usual_spread, without_wild


def walk(n: int, seed: int, d: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.cumsum(0.3 * rng.normal(size=(n, d)), axis=0) + 0.5 * rng.normal(size=(n, d))


def believed(Y: np.ndarray, seen: np.ndarray | None = None, lengths=None) -> np.ndarray:
    stops = np.cumsum(lengths or [len(Y)])
    starts = stops - (lengths or [len(Y)])
    sequences = [slice(a, b) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
    return without_wild(Y, np.ones(len(Y), dtype=bool) if seen is None else seen, sequences)


@pytest.mark.parametrize("at", [0, 1, 77, 198, 199])
@pytest.mark.parametrize("size", [60.0, -1e8])
def test_one_value_wherever_it_is(at, size):
    Y = walk(200, 1, 2)
    Y[at, 1] += size
    with pytest.warns(NumericalWarning, match=rf"in 1 of 200 rows \(row {at}: .* if missing"):
        assert_array_equal(np.flatnonzero(~believed(Y)), [at])


def test_two_in_a_row_and_gaps():
    Y, seen = walk(300, 2), np.ones(300, dtype=bool)
    Y[[100, 101]], Y[50] = 90.0, 1e9
    seen[[50, 99, 102]] = False
    with pytest.warns(NumericalWarning, match="in 2 of 297 rows"):
        assert_array_equal(np.flatnonzero(seen & ~believed(Y, seen)), [100, 101])


@pytest.mark.parametrize(
    "Y",
    [
        np.r_[walk(100, 3), walk(100, 4) + 1e4],  # a step
        np.arange(200.0)[:, None] ** 2,
        np.exp(np.arange(200.0) / 20)[:, None],
        np.where(np.arange(200) % 12 == 0, 1e3, 0.0)[:, None] + walk(200, 5),  # a season
        np.random.default_rng(6).standard_t(2, (200, 1)),
        np.eye(200)[:, [7]],  # nothing else happens
        np.ones((200, 1)),
        np.r_[walk(15, 7), [[1e6]]],  # too few to tell
    ],
    ids=["step", "square", "growth", "season", "t", "pulse", "constant", "few"],
)
def test_what_belongs_to_the_series(Y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert believed(Y).all()


def test_sequences_are_by_themselves():
    """One begins where the one before does not end."""
    Y = np.r_[walk(60, 8), walk(3, 9) + 1e3, walk(60, 10)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert believed(Y, lengths=[60, 3, 60]).all()
        assert believed(walk(3000, 9), lengths=[1] * 2950 + [2] * 25).all()


@pytest.mark.slow
def test_learned_as_if_missing():
    """A fit is that with NaN in its place, and forecasts are as good as without it."""
    Y = walk(250, 11)
    spoilt, missing = Y.copy(), Y.copy()
    spoilt[90], missing[90] = 1e6, np.nan
    em = km.EM(n_init=1, max_iter=5)
    with pytest.warns(NumericalWarning, match="further than 30 usual changes"):
        found = km.KernelStateSpace(em=em, random_state=0).fit(spoilt[:200])
    told = km.KernelStateSpace(em=em, random_state=0).fit(missing[:200])
    means = [np.ravel(model.predict(Y))[200:] for model in (found, told)]
    assert_allclose(*means, rtol=1e-9)
    assert np.mean((means[0] - Y[200:, 0]) ** 2) < np.mean(np.diff(Y[199:, 0]) ** 2)


def test_sequences_end_at_rows_left_out():
    seen = np.ones(12, dtype=bool)
    seen[[0, 4, 5, 11]] = False
    parts = parted(seen, [slice(0, 7), slice(7, 11), slice(11, 12)])
    assert parts == [slice(0, 3), slice(3, 4), slice(4, 8)]
    assert parted(np.ones(3, dtype=bool), [slice(0, 3)]) == [slice(0, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("inference", [None, "kbr"])
def test_a_filter_learns_without_wild_states(inference):
    Z = walk(120, 12)
    X, spoilt = Z + 0.1 * walk(120, 13), Z.copy()
    spoilt[40] = 1e6
    model = km.KernelBayesFilter(inference=inference)
    with pytest.warns(NumericalWarning, match=r"Z has values .* \(row 40: \[1000000.0\]\)"):
        found = model.fit(X, spoilt).filter(X[:20]).mean()
    rest = np.delete(np.arange(120), 40)
    told = model.fit(X[rest], Z[rest], lengths=[40, 79]).filter(X[:20]).mean()
    assert_allclose(found, told, rtol=1e-12)


def test_the_spread_of_a_column_without_its_wild_rows(rng):
    X = rng.normal(size=(300, 3))
    assert_array_equal(usual_spread(X), X.std(axis=0))
    X[:3, 0] = 1000.0
    X[5:9, 1] = 1000.0  # four are more than a few, and belong to it
    expected = [X[3:, 0].std(), X[:, 1].std(), X[:, 2].std()]
    assert_allclose(usual_spread(X), expected, rtol=1e-12)
    assert_allclose(usual_spread(1e9 - 7.0 * X), 7.0 * usual_spread(X), rtol=1e-6)


def test_rare_values_and_long_tails_are_not_wild(rng):
    rare = np.arange(300) < 2.0
    X = np.stack([rare, rng.exponential(size=300), rng.standard_t(2, 300)], axis=1)
    assert_array_equal(usual_spread(X), X.std(axis=0))
    assert_array_equal(usual_spread(X[:9] * 0.0), np.zeros(3))


def test_wild_rows_of_x_do_not_hide_a_column(rng):
    """With three of 300 rows at 1000 laws, and a ratio, knew nothing of that column."""
    X = rng.normal(size=(300, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=300)
    new = X[3:]
    expected = km.ConditionalEmbedding().fit(X[3:], y[3:]).predict(new)
    X[:3, 0] = 1000.0
    found = km.ConditionalEmbedding().fit(X, y).predict(new)
    assert np.mean((found - expected) ** 2) < 0.05 * expected.var()
    U = new + np.array([0.5, 0.0])
    ratio = km.DensityRatio().fit(X, U).predict(new)
    true = np.exp(0.5 * new[:, 0] - 0.125)
    assert np.corrcoef(np.log(true), ratio / (1 + ratio))[0, 1] > 0.8

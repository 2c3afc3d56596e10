"""moments: sums over blocks of rows, however the rows arrive."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelmean.core.checks import NumericalWarning
from kernelmean.core.moments import (
    Moments,
    accumulate,
    block_rows,
    canonical_order,
    copies,
    how_often,
    once,
    row_blocks,
)


@pytest.fixture
def features(rng) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(103, 4)), rng.normal(size=(103, 2))


def as_dict(x, y) -> dict:
    return {"x": x, "y": y}


NAMES = ("x", "y", "xx", "yx")


def whole(x, y) -> dict:
    return {"x": x.mean(0), "y": y.mean(0), "xx": x.T @ x / len(x), "yx": y.T @ x / len(x)}


@pytest.mark.parametrize("rows", [1, 7, 50, 103, 1000])
def test_blocks_add_up_to_the_whole(features, rows):
    moments = accumulate(row_blocks(*features, rows=rows), NAMES, as_dict)
    assert moments.n == 103
    for name, expected in whole(*features).items():
        assert_allclose(moments.mean(name), expected, rtol=1e-10)


def test_merging_machines_is_adding_rows(features):
    x, y = features
    halves = []
    for part in (slice(0, 40), slice(40, None)):
        moments = Moments(*NAMES)
        moments.add(x=x[part], y=y[part])
        halves.append(moments)
    both = halves[0].merge(halves[1])
    assert both.n == 103
    for name, expected in whole(x, y).items():
        assert_allclose(both.mean(name), expected, rtol=1e-10)
    assert halves[0].n == 40  # merging leaves its parts alone


def test_memory_maps(features, tmp_path):
    x, y = features
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    moments = accumulate(row_blocks(mapped, y, rows=10), NAMES, as_dict)
    assert_allclose(moments.mean("yx"), y.T @ x / 103, rtol=1e-10)


def test_an_iterator_of_chunks_is_read_once(features):
    x, y = features
    chunks = ((x[i : i + 20], y[i : i + 20]) for i in range(0, 103, 20))
    assert_allclose(accumulate(chunks, NAMES, as_dict).mean("xx"), x.T @ x / 103, rtol=1e-10)


def test_adding_does_not_change_what_was_added(features):
    x, y = (a.copy() for a in features)
    moments = Moments("x", "xx")
    moments.add(x=x)
    moments.add(x=x)
    assert_allclose(x, features[0], rtol=0)


def test_a_function_maps_rows_to_features(features):
    x, _ = features
    moments = accumulate(row_blocks(x, rows=11), ("x",), lambda b: {"x": b**2})
    assert_allclose(moments.mean("x"), (x**2).mean(0), rtol=1e-10)


def test_hand_worked():
    moments = Moments("x", "xx", "yx")
    moments.add(x=np.array([[1.0, 2.0]]), y=np.array([[3.0]]))
    moments.add(x=np.array([[0.0, 4.0]]), y=np.array([[1.0]]))
    assert_allclose(moments.mean("x"), [0.5, 3.0])
    assert_allclose(moments.mean("xx"), [[0.5, 1.0], [1.0, 10.0]])
    assert_allclose(moments.mean("yx"), [[1.5, 5.0]])


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="(?i)empty|block"):
        accumulate([], NAMES, as_dict)


def test_lengths_that_differ_are_refused(features):
    x, y = features
    with pytest.raises(ValueError, match="rows"):
        list(row_blocks(x, y[:50], rows=10))
    with pytest.raises(ValueError, match="rows"):
        Moments("x", "y").add(x=x, y=y[:50])


def test_different_moments_do_not_merge():
    with pytest.raises(ValueError, match="merge"):
        Moments("x").merge(Moments("y"))


@pytest.mark.parametrize("width", [1, 500, 10**7])
def test_blocks_fit_in_memory(width):
    assert block_rows(width) >= 1
    assert block_rows(width) * width * 8 <= 2**27 or width > 10**5


def test_copies_of_rows_are_counted(rng):
    X, y = rng.normal(size=(30, 2)), rng.normal(size=(30, 1))
    times = np.repeat(np.arange(30), rng.integers(1, 4, 30))
    found = how_often(X[times], y[times])
    assert found is not None
    assert found.tolist() == np.bincount(times)[times].tolist()
    assert how_often(X, y) is None


def test_a_table_may_be_copied_many_times(rng):
    x, y = rng.normal(size=(2, 10, 1))
    x, y = np.tile(x, (12, 1)), np.tile(y, (12, 1))
    assert how_often(x, y).tolist() == [12] * 120
    assert how_often(np.repeat([[0.0], [1.0]], 60, 0), np.repeat([[2.0], [3.0]], 60, 0)) is None
    with pytest.warns(NumericalWarning, match="110 of 120 rows are copies of others"):
        rows = once(x, y[:, 0], whole=True)
    assert [part.shape for part in rows] == [(10, 1), (10,)]
    some = once(x[:50].repeat(2, 0)[5:], y[:50].repeat(2, 0)[5:], whole=True)
    assert len(some[0]) == 95


def test_copies_in_one_table(rng):
    """Of one column, which may be rounded, only where all values are there equally often."""
    X, times = rng.normal(size=(30, 2)), rng.permutation(np.repeat(np.arange(30), 4))
    assert_array_equal(copies(X[times]), np.full(120, 4))
    assert_array_equal(copies(X[times, :1]), np.full(120, 4))
    assert_array_equal(copies(X[times[:90]]), np.bincount(times[:90])[times[:90]])
    assert copies(X[times[:90], :1]) is None
    assert copies(X) is None


def test_rows_that_are_the_same_by_chance_are_no_copies(rng):
    """Categories beside counts: most rows are there several times, x says something of y."""
    x = rng.integers(0, 8, (400, 1))
    y = rng.poisson(0.5 + 0.3 * x)
    assert how_often(x, y) is None
    assert how_often(x, np.ones((400, 1))) is None


@pytest.mark.parametrize("values", [4, 10])
def test_who_is_well_is_no_copy_of_others_who_are(rng, values):
    """As visits to doctors: the same zeros in most rows, and no two of the others alike."""
    ill = rng.uniform(size=(600, 1)) < 0.4
    X = np.where(ill, rng.integers(0, values, (600, 4)), 0.0)
    y = np.where(ill, rng.poisson(2.0, (600, 1)), 0.0)
    assert how_often(X, y) is None
    some = rng.permutation(600)[:300]
    assert how_often(X[np.r_[some, some]], y[np.r_[some, some]]) is not None


@pytest.mark.parametrize("values", [2, 4, 1000])
def test_rows_in_canonical_order_are_the_same_whatever_order_they_came_in(rng, values):
    rows = rng.integers(0, values, (300, 3)) / 2.0
    shuffled = rows[rng.permutation(300)]
    one, other = rows[canonical_order(rows)], shuffled[canonical_order(shuffled)]
    assert np.array_equal(one, other)
    z = (one - one.mean(0)) / one.std(0)
    assert (np.diff((z**2).sum(axis=1)) > -1e-8).all()

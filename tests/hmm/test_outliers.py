"""Gross outliers: no state is spent on them, and nothing else is taken for one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import kernelmean as km
from kernelmean.chains.rows import Rows
from kernelmean.comparators import matched_accuracy
from kernelmean.hmm.learn import usual


def near_levels(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two normal levels in two columns, 1.2 apart in each, that stay for 33 rows on average."""
    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.random(n) < 0.03) % 2
    return 1.2 * states[:, None] + rng.normal(size=(n, 2)), states


def with_outliers(X: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Some rows moved by 10 to 20 standard deviations in one column; which they are."""
    rng, X = np.random.default_rng(seed), X.copy()
    at = np.sort(rng.choice(len(X), round(share * len(X)), replace=False))
    size = rng.choice([-1, 1], len(at)) * rng.uniform(10, 20, len(at))
    X[at, rng.integers(X.shape[1], size=len(at))] += size * X.std()
    return X, at


def missing(X: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
    """Rows that are taken for outliers."""
    seen = np.ones(len(X), dtype=bool) if seen is None else seen
    rows = Rows.of(X, seen, [slice(0, len(X))])
    found = usual(rows)
    assert_array_equal(found.points, X)
    assert_array_equal(found.used, found.seen)
    return np.flatnonzero(seen & ~found.seen)


@pytest.mark.parametrize("share", [0.01, 0.03])
@pytest.mark.parametrize("seed", range(710200, 710205))
def test_outliers_are_found(share, seed):
    X, at = with_outliers(near_levels(300, seed)[0], share, seed)
    assert_array_equal(missing(X), at)
    seen = np.ones(300, dtype=bool)
    seen[at[0]] = False
    assert_array_equal(missing(X, seen), at[1:])


def rare(rng: np.random.Generator) -> np.ndarray:
    """A state of six rows in three hundred, far away."""
    X = rng.normal(size=(300, 1))
    X[200:206] += 15
    return X


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(size=(300, 2)),
        lambda rng: np.where(np.arange(300) < 220, 1.0, 3.0)[:, None] * rng.normal(size=(300, 1)),
        lambda rng: rng.standard_t(3, (300, 1)),
        lambda rng: rng.lognormal(size=(300, 1)),
        lambda rng: rng.negative_binomial(1.5, 0.1, (300, 1)).astype(float),
        lambda rng: (rng.random((300, 1)) < 0.02).astype(float),
        lambda rng: np.r_[rng.normal(size=(299, 1)), [[30.0]]],
        rare,
    ],
    ids=["normal", "calm and wild", "t", "lognormal", "counts", "rare ones", "one", "a rare state"],
)
def test_nothing_else_is(draw):
    found = [len(missing(draw(np.random.default_rng(seed)))) for seed in range(710300, 710320)]
    assert np.count_nonzero(found) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [710400, 710401, 710402])
def test_no_state_is_spent_on_them(seed):
    clean, states = near_levels(1_500, seed)
    X = with_outliers(clean[:1_000], 0.01, seed)[0]
    m = km.KernelHMM(2, random_state=0).fit(X)
    assert matched_accuracy(states[1_000:], m.predict(clean[1_000:])) > 0.9

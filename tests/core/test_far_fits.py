"""Fits to rows that are elsewhere, beyond what is looked at in memory."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import kernelmean as km

da = pytest.importorskip("dask.array", reason="needs the extra `dask`")


def normal(n: int, d: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def uneven(A: np.ndarray, seed: int = 0) -> list[np.ndarray]:
    """Blocks of one row, of two, of many."""
    cuts = np.sort(np.random.default_rng(seed).choice(np.arange(5, len(A)), 9, replace=False))
    return np.split(A, [1, 2, 4, 5, *cuts[1:]])


# ------------------------------------------------------------------------- hidden Markov models
@pytest.mark.parametrize("lengths", [None, [3, 200, 1, 2, 394]])
@pytest.mark.parametrize("limit", [10_000, 120])
def test_moments_of_neighbours_go_on_from_block_to_block(lengths, limit, monkeypatch):
    for module in ("chains.draft", "hmm.kernel_hmm"):
        monkeypatch.setattr(f"kernelmean.{module}.POINTS", limit)
    monkeypatch.setattr("kernelmean.hmm.kernel_hmm.PIECES", 4)
    Y = km.datasets.make_hmm("separated", 600, random_state=0).X
    features = km.RandomFourier(20, random_state=0)
    model = km.KernelHMM(2, km.Gaussian(0.3), False, features=features, random_state=0)
    whole = model.draft(Y, lengths)
    for rows in (km.Rows(uneven(Y)), da.from_array(Y, chunks=(97, 1))):
        drafted = model.begun(rows, lengths)
        assert len(drafted.rows.points) <= limit
        assert drafted.moments.n_triples == whole.moments.n_triples
        for name in ("mean", "second", "pairs", "skips", "earlier", "later"):
            ours, theirs = (getattr(d.moments, name) for d in (drafted, whole))
            assert_allclose(ours, theirs, atol=1e-14, err_msg=name)
        left, right = normal(2 * 20, 3).reshape(2, 20, 3)
        T, expected = (d.moments.third(d.coordinates, left, right) for d in (drafted, whole))
        assert_allclose(T, expected, atol=1e-12)
    there = clone(model).set_params(features=features).fit(km.Rows(uneven(Y)), lengths)
    assert_allclose(there.transmat_, model.fit(Y, lengths).transmat_, atol=1e-8)


def test_em_along_rows_elsewhere_is_refused():
    with pytest.raises(ValueError, match="refine is True, but EM goes along all rows"):
        km.KernelHMM(2).fit(km.Rows(normal(50), step=20))

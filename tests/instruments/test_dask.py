"""KernelIV on Dask: the same fit as in memory, with rows that stay where they are."""

import pickle

import numpy as np
import pandas as pd
import pytest
from iv_oracles import assert_same
from numpy.testing import assert_allclose
from sklearn.exceptions import DataConversionWarning

import kernelmean as km
from kernelmean.core.minimise import SEARCH_ROWS

dask = pytest.importorskip("dask", reason="needs the extra `dask`")
da = pytest.importorskip("dask.array", reason="needs the extra `dask`")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra `dask`")
distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")

from kernelmean.core.dask import DaskRows
from kernelmean.instruments import groups

MANY = 12_000  # more than the search looks at: some rows are seen by the workers only
UNEVEN = (1, 4999, 3000, 0, 3990, 10)


@pytest.fixture(autouse=True)
def two_threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


def chunked(A, chunks):
    return da.from_array(A, chunks=(chunks, *A.shape[1:]))


# ---------------------------------------------------------------- the same as in memory
QUICK = {"trend": 1, "tune_lengthscale": False}


@pytest.fixture(scope="module")
def sigmoid():
    """Many rows, and a fit in memory."""
    data = km.datasets.make_iv_sigmoid(MANY, random_state=43)
    return data, km.KernelIV(**QUICK).fit(data.X, data.y, data.Z)


@pytest.mark.slow
def test_equals_the_fit_in_memory():
    data = km.datasets.make_iv_sigmoid(MANY, random_state=44)
    theirs = km.KernelIV().fit(data.X, data.y, data.Z)
    ours = km.KernelIV().fit(*(chunked(A, UNEVEN) for A in (data.X, data.y, data.Z)))
    assert_same(ours, theirs)
    assert_allclose(ours.predict(data.grid), theirs.predict(data.grid), atol=1e-8)
    limits, expected = (iv.predict_interval(data.grid) for iv in (ours, theirs))
    assert_allclose(limits, expected, atol=1e-6)


def test_equals_the_fit_in_memory_where_little_is_regularised():
    # λ on its floor, 1e-10 of the trace, magnifies the rounding of the sums, 1e-16
    data = km.datasets.make_iv_sigmoid(MANY, random_state=41)
    rows = data.X, data.y, data.Z
    theirs = km.KernelIV(**QUICK, reg_stage1=1e-10).fit(*rows)
    ours = km.KernelIV(**QUICK, reg_stage1=1e-10).fit(*(chunked(A, 5000) for A in rows))
    assert_same(ours, theirs, tol=1e-6)
    assert_allclose(ours.predict(data.grid), theirs.predict(data.grid), atol=1e-7)


@pytest.mark.parametrize(
    ("x", "y", "z"), [(3000, 3000, 3000), (UNEVEN, UNEVEN, UNEVEN), (UNEVEN, MANY, 777)]
)
def test_chunks_do_not_matter(sigmoid, x, y, z):
    data, theirs = sigmoid
    ours = km.KernelIV(**QUICK).fit(chunked(data.X, x), chunked(data.y, y), chunked(data.Z, z))
    assert_same(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"tune_lengthscale": False},
        {"trend": 0, "kernel_x": "matern", "tune_lengthscale": False},
        {"trend": None, "features": km.RandomFourier(60), "tune_lengthscale": False},
        {"reg_stage1": 1e-4, "reg_stage2": 1e-3, "trend": 1, "tune_lengthscale": False},
    ],
)
def test_equals_the_fit_in_memory_with_exogenous_columns(settings):
    data = km.datasets.make_iv_demand(300, random_state=42)
    theirs = km.KernelIV(**settings).fit(data.X, data.y, data.Z, data.C)
    rows = (chunked(A, c) for A, c in [(data.X, 125), (data.y, 50), (data.Z, 300), (data.C, 7)])
    ours = km.KernelIV(**settings).fit(*rows)
    assert_same(ours, theirs)
    both = chunked(np.hstack([data.X, data.C]), 130)
    assert_allclose(ours.predict(both).compute(), theirs.predict(data.X, data.C), atol=1e-5)


def test_arrays_in_memory_join_those_of_dask(sigmoid):
    data, theirs = sigmoid
    ours = km.KernelIV(**QUICK).fit(data.X.tolist(), chunked(data.y, 5000), pd.DataFrame(data.Z))
    assert_same(ours, theirs)


def test_unknown_chunk_sizes_are_counted(sigmoid):
    data, theirs = sigmoid
    X, y, Z = (chunked(A, 5000) for A in (data.X, data.y, data.Z))
    keep = y > -np.inf
    unknown = X[keep], y[keep], Z[keep]
    assert all(np.isnan(part.shape[0]) for part in unknown)
    assert_same(km.KernelIV(**QUICK).fit(*unknown), theirs)
    assert all(np.isnan(part.shape[0]) for part in unknown)  # the user's arrays stay as they are


@pytest.mark.slow
def test_rows_of_a_table():
    data = km.datasets.make_iv_demand(300, random_state=43)
    table = pd.DataFrame(
        {
            "price": data.X[:, 0],
            "wave": data.Z[:, 0],
            "time": data.C[:, 0],
            "group": data.C[:, 1].astype(int),
            "sales": data.y,
        }
    )
    lazy = dd.from_pandas(table, npartitions=4)
    iv = km.KernelIV(tune_lengthscale=False)
    theirs = iv.fit(table[["price"]], table["sales"], table[["wave"]], table[["time", "group"]])
    theirs = pickle.loads(pickle.dumps(theirs))
    ours = iv.fit(lazy[["price"]], lazy["sales"], lazy[["wave"]], lazy[["time", "group"]])
    assert_same(ours, theirs)
    assert ours.target_name_ == "sales"
    assert list(ours.feature_names_in_) == ["price"]
    expected = theirs.predict(table[["price"]], table[["time", "group"]])
    for found in (
        ours.predict(lazy[["price"]], lazy[["time", "group"]]),
        ours.predict(lazy),  # columns by name
    ):
        assert_allclose(found.compute(), expected, rtol=1e-8, atol=1e-6)


def test_an_outcome_column_is_flattened(sigmoid):
    data, theirs = sigmoid
    with pytest.warns(DataConversionWarning):
        ours = km.KernelIV(**QUICK).fit(
            chunked(data.X, 5000), chunked(data.y[:, None], 4000), chunked(data.Z, 5000)
        )
    assert_same(ours, theirs)


# ---------------------------------------------------------------- rows stay where they are
@pytest.mark.slow
def test_no_block_comes_here(monkeypatch):
    monkeypatch.setattr("kernelmean.instruments.kernel_iv.LOOKED_AT", SEARCH_ROWS)
    n, rows = 60_000, 30_000
    data = km.datasets.make_iv_sigmoid(n, random_state=44)
    sizes = []

    def watched(graph, keys, **kwargs):
        results = dask.threaded.get(graph, keys, **kwargs)
        sizes.append([len(pickle.dumps(r)) for r in dask.core.flatten([results])])
        return results

    with dask.config.set(scheduler=watched):
        km.KernelIV(tune_lengthscale=False).fit(
            *(chunked(A, rows) for A in (data.X, data.y, data.Z))
        )
    few, *sums = sizes
    block = rows * 3 * 8
    assert sum(few) < 1.1 * SEARCH_ROWS * 3 * 8
    assert max(map(max, sums)) < block / 20


def test_what_travels_to_the_blocks_holds_no_rows(monkeypatch):
    sizes, plain = [], DaskRows._layer

    def noted(self, *given, **own):
        sizes.append(len(distributed.protocol.pickle.dumps(given)))
        return plain(self, *given, **own)

    monkeypatch.setattr(DaskRows, "_layer", noted)
    monkeypatch.setattr(groups, "LOOKED_AT", 5000)
    data = km.datasets.make_iv_sigmoid(MANY, random_state=44)
    km.KernelIV(**QUICK).fit(*(chunked(A, 5000) for A in (data.X, data.y, data.Z)))
    assert len(sizes) == 3
    assert max(sizes) < MANY * 8 / 2  # half a column


# ---------------------------------------------------------------- the door
@pytest.mark.parametrize("name", ["X", "y", "Z", "C"])
@pytest.mark.parametrize(("bad", "what"), [(np.nan, "NaN"), (np.inf, "inf")])
def test_bad_numbers_are_found_in_their_block(name, bad, what):
    data = km.datasets.make_iv_sigmoid(MANY, random_state=45)
    rows = {"X": data.X, "y": data.y, "Z": data.Z, "C": data.Z**2}
    unseen = np.setdiff1d(np.arange(MANY), np.linspace(0, MANY - 1, SEARCH_ROWS).astype(int))[70]
    rows[name] = rows[name].copy()
    rows[name][unseen] = bad
    with pytest.raises(ValueError, match=rf"{name} contains {what} \(1 value"):
        km.KernelIV(trend=0, tune_lengthscale=False).fit(
            **{key: chunked(A, 5000) for key, A in rows.items()}
        )


@pytest.mark.parametrize("split", [0.5, 3, "samples"])
def test_other_splits_are_refused(split):
    X = da.ones((20, 1), chunks=10)
    with pytest.raises(ValueError, match=r"split is .*Dask.*\"loo\" only"):
        km.KernelIV(split=split).fit(X, X[:, 0], X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": lambda A: A[:-1]}, "y has 40 rows but X has 39"),
        ({"Z": lambda A: A[:-1]}, "Z has 39 rows but X has 40"),
        ({"X": lambda A: A[:, 0]}, "X has 1 dimension"),
        ({"Z": lambda A: A[:, None]}, "Z has 3 dimension"),
        ({"y": lambda A: A.sum()}, "y has 0 dimensions"),
        ({"y": lambda A: None}, "y is missing"),
        ({"Z": lambda A: None}, "Z is None"),
        ({"X": lambda A: None}, "X is None"),
        ({"X": lambda A: A[:, :0]}, "X has no columns"),
        ({"X": lambda A: A.astype(complex)}, "X is complex"),
        ({"X": lambda A: A.astype(str)}, "X holds text"),
        ({"X": lambda A: 0 * A}, "column 0 of kernel_x's .* is constant|constant"),
        (dict.fromkeys("XyZ", lambda A: A[:3]), "X is too short: found 3"),
        (dict.fromkeys("XyZ", lambda A: A[:0]), "X is too short: found 0"),
    ],
)
def test_malformed_input_is_refused_at_the_door(change, message):
    A = da.random.default_rng(0).normal(size=(40, 1), chunks=15)
    rows = {"X": A, "y": A[:, 0], "Z": A + 1}
    rows.update({name: edit(rows[name]) for name, edit in change.items()})
    with pytest.raises(ValueError, match=message):
        km.KernelIV().fit(**rows)


# ---------------------------------------------------------------- predictions
def test_predictions_are_computed_later(sigmoid):
    data, iv = sigmoid
    read = []

    def note(block):
        read.append(len(block))
        return block

    X = chunked(data.X, UNEVEN).map_blocks(note, dtype=float, meta=np.empty((0, 0)))
    found = iv.predict(X)
    assert not read
    assert isinstance(found, da.Array)
    assert found.shape == (MANY,)
    assert_allclose(found.compute(), iv.predict(data.X), rtol=1e-12)
    assert sum(read) == MANY


def test_predictions_need_no_count_of_rows(sigmoid):
    data, iv = sigmoid
    X = chunked(data.X, 5000)
    few = data.X[:, 0] >= np.sort(data.X[:5000, 0])[-3]
    few[5000:10_000] = False  # a block without any
    some = X[da.from_array(few, chunks=5000)]
    assert_allclose(iv.predict(some).compute(), iv.predict(data.X[few]), rtol=1e-12)


def test_predictions_say_now_which_columns_are_wrong(sigmoid):
    data, iv = sigmoid
    with pytest.raises(ValueError, match="X has 2 features"):
        iv.predict(da.ones((5, 2)))
    lazy = iv.predict(chunked(np.full((6, 1), np.nan), 3))
    with pytest.raises(ValueError, match="X contains NaN"):
        lazy.compute()


def test_what_needs_rows_in_memory_says_so():
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(40, 4)), columns=["x", "y", "z", "c"])
    far, sides = dd.from_pandas(table, npartitions=2), [["x"], "y", ["z"], ["c"]]
    iv = km.KernelIV(**QUICK).fit(*(table[side] for side in sides))
    asked = far[["x", "c"]]
    for ask in (iv.derivative_interval, iv.average_derivative, lambda X: iv.contrast(X, X)):
        with pytest.raises(ValueError, match=r"X1? is a DataFrame of Dask.*X1?\.compute\(\)"):
            ask(asked)
    with pytest.raises(ValueError, match=r"data is a DataFrame of Dask.*data\.compute\(\)"):
        km.KernelIV.from_formula("y ~ c + [x ~ z]", far)

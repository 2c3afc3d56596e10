"""Rows anywhere: the same numbers wherever rows are, or a refusal in one sentence."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from iv_oracles import assert_same
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.core.arrays import to_numpy
from kernelmean.core.elsewhere import aligned
from kernelmean.core.moments import Moments

pytestmark = pytest.mark.usefixtures("short_searches")

da = pytest.importorskip("dask.array", reason="needs the extra `dask`")
dask, dd = (pytest.importorskip(f"dask{part}") for part in ("", ".dataframe"))
pd, strict = pytest.importorskip("pandas"), pytest.importorskip("array_api_strict")
distributed = pytest.importorskip("distributed")

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "rows.md"
N = 40


def normal(n: int = N, d: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.fixture(autouse=True)
def two_threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


# ---------------------------------------------------------------------------------- the noun
def parquet(folder: Path, table, files: int = 3) -> Path:
    """A folder of Parquet files with several groups of rows."""
    folder.mkdir(exist_ok=True)
    for i, rows in enumerate(np.array_split(np.arange(len(table)), files)):
        path = folder / f"part-{i}.parquet"
        table.iloc[rows].to_parquet(path, row_group_size=max(1, len(rows) // 2))
    return folder


class Again:
    """Chunks that can be gone through again."""

    def __init__(self, A: np.ndarray, step: int):
        self.A, self.step, self.passes = A, step, 0

    def __iter__(self):
        self.passes += 1
        return (self.A[i : i + self.step] for i in range(0, len(self.A), self.step))


@pytest.fixture
def table(tmp_path) -> dict[str, Any]:
    """The same rows of four columns, by where they are."""
    A = normal(100, 4)
    frame = pd.DataFrame(A, columns=list("abcd"))
    np.save(tmp_path / "rows.npy", A)
    return {
        "array": km.Rows(A, step=30),
        "one block": km.Rows(A),
        "memory map": km.Rows(np.load(tmp_path / "rows.npy", mmap_mode="r"), step=7),
        "frame": km.Rows(frame, step=11),
        "chunks": km.Rows(Again(A, 13)),
        "list": km.Rows([A[:1], A[1:1], A[1:60], A[60:]]),
        "frames": km.Rows([frame[:50], frame[50:]]),
        "parquet": km.Rows(parquet(tmp_path / "folder", frame)),
        "glob": km.Rows(str(tmp_path / "folder" / "*.parquet")),
    }


@pytest.mark.slow
def test_few_rows_are_the_same_whatever_the_blocks(table):
    A = normal(100, 4)
    for limit in (1, 9, 60, 100, 1000):
        expected = A[np.linspace(0, 99, min(limit, 100)).astype(int)]
        for where, rows in table.items():
            assert_array_equal(np.asarray(rows.few(limit)), expected, err_msg=where)
        _, few = aligned(X=da.from_array(A, chunks=(17, 4)), y=A).few(limit)
        assert_array_equal(few, expected)


def test_columns_blocks_and_counts(table):
    A = normal(100, 4)
    for where, rows in table.items():
        assert rows.n == 100
        named = where in ("frame", "frames", "parquet", "glob")
        some, one = (rows[["b", "d"]], rows["c"]) if named else (rows[:, 1::2], rows[:, 2])
        assert_array_equal(np.concatenate(list(some)), A[:, 1::2], err_msg=where)
        assert_array_equal(np.concatenate(list(one)), A[:, 2], err_msg=where)
        assert [len(block) for block in rows] == list(rows.sizes)


def squares(block) -> Moments:
    moments = Moments("x", "xx")
    moments.add(x=np.asarray(block))
    return moments


def test_sums_are_those_of_all_rows_and_the_same_bits_wherever_blocks_are(tmp_path):
    A = normal(1000, 3)
    cuts = [0, 10, 10, 400, *range(410, 1000, 10), 1000]
    blocks = [A[i:j] for i, j in zip(cuts, cuts[1:], strict=False)]
    here = km.Rows(blocks).reduce(squares)
    assert here.n == 1000
    assert_allclose(here.mean("xx"), A.T @ A / 1000, rtol=1e-12)
    lazy = da.concatenate([da.from_array(b, chunks=-1) for b in blocks if len(b)])
    there = aligned(X=lazy).reduce(lambda block: squares(*block))
    for name in ("x", "xx"):
        assert_array_equal(here.sums[name], there.sums[name])
    # machines that share nothing: sums are pickled, sent, and merged
    halves = [km.Rows(part).reduce(squares) for part in (blocks[:20], blocks[20:])]
    one, other = (pickle.loads(pickle.dumps(half)) for half in halves)
    assert_allclose(one.merge(other).sums["xx"], here.sums["xx"], rtol=1e-12)


def test_blocks_come_in_order_and_are_read_when_needed():
    chunks = Again(normal(), 7)
    rows = km.Rows(chunks)
    doubled = rows.answers(np.multiply, 2.0)
    assert chunks.passes == 0
    assert_array_equal(np.concatenate(list(doubled)), 2 * normal())
    assert rows.map(len).__next__() == 7
    assert rows.reduce(lambda block: block.sum(0), merge=add).shape == (2,)


class Columns(list):
    """A table as Polars has it: what is iterated over is its columns."""

    iter_rows = None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ((a for a in [normal()]), "source is a generator, which can be read once only"),
        (da.ones((3, 1)), "estimators take Dask arrays and DataFrames as they are"),
        (3.0, "source is a float; an array, a DataFrame of pandas, a path or an iterable"),
        ({"a": normal()[:, 0], "b": normal()[:, 1]}, "source is a dict; an array"),
        (Columns(normal().T), "source is a Columns; an array"),
        ("nowhere/*.parquet", "no Parquet file"),
    ],
)
def test_sources_that_cannot_be_read_again_are_refused(source, message):
    with pytest.raises((ValueError, TypeError), match=message):
        km.Rows(source)


def test_tables_must_fit_together():
    A = normal()
    rows = km.Rows(A, step=10)
    with pytest.raises(ValueError, match="y has 39 rows but X has 40"):
        km.ConditionalEmbedding().fit(rows, A[1:, 0])
    with pytest.raises(ValueError, match="y has blocks of other sizes than X"):
        km.ConditionalEmbedding().fit(rows, km.Rows(A[:, 0], step=11))
    with pytest.raises(ValueError, match="X is a Rows, but others are of Dask"):
        km.ConditionalEmbedding().fit(rows, da.from_array(A[:, 0]))
    with pytest.raises(TypeError, match=r"columns are rows\[:, 0\]"):
        list(rows[0])


def test_a_bad_block_is_named_by_its_number(monkeypatch):
    for module in ("regression.conditional", "features.base"):
        monkeypatch.setattr(f"kernelmean.{module}.SEARCH_ROWS", 10)  # few see little
    y = normal(1000, 1)[:, 0]
    for row, block in [(705, 7), (0, 0)]:  # the first row is among the few
        X = normal(1000)
        X[row, 1] = np.nan
        for rows, target in [
            (km.Rows(X, step=100), km.Rows(y, step=100)),
            (da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)),
        ]:
            with pytest.raises(ValueError, match=rf"X contains NaN .*\(in block {block}\)"):
                km.ConditionalEmbedding().fit(rows, target)
    X = normal(1000)
    wide = km.Rows([X[:300], X[300:600, :1], X[600:]])
    with pytest.raises(ValueError, match=r"columns .*\(in block 1\)|different shapes"):
        km.Nystroem().fit(wide, km.Gaussian(1.0))


# ---------------------------------------------------------------------------------- landmarks
@pytest.mark.slow
def test_landmarks_of_all_rows_find_what_a_sample_misses():
    X = normal(3000)
    X[1234] = [30.0, 30.0]  # alone
    X[2001:2010] += 100.0
    k, rows = km.Gaussian(1.0), km.Rows(X, step=500)
    with pytest.warns(km.NumericalWarning, match="of the Gram matrix of all rows lost"):
        sample = km.Nystroem(sample=100).fit(rows, k)
    every = km.Nystroem(sample=None).fit(rows, k)
    for fitted in (sample, every):  # what is lost is lost of all rows
        Phi = np.concatenate(list(fitted.transform(rows)))
        assert fitted.lost_trace_ == pytest.approx(1 - (Phi**2).sum() / 3000, rel=1e-6)
    assert sample.lost_trace_ > 10 / 3000
    assert every.lost_trace_ < 1e-6
    assert every.rank_ < 1.5 * km.Nystroem().fit(X, k).rank_
    assert np.abs(every.transform(X) @ every.transform(X[:50]).T - k(X, X[:50])).max() < 1e-3


def test_landmarks_of_a_sample_are_those_in_memory():
    X, k = normal(300), km.Gaussian(1.0)
    ours, theirs = km.Nystroem().fit(km.Rows(X, step=70), k), km.Nystroem().fit(X, k)
    assert_array_equal(ours.indices_, theirs.indices_)
    assert_array_equal(ours.landmarks_, X[ours.indices_])


# ------------------------------------------------------------- sums of all, choices on a few
def test_choices_are_made_on_a_few_rows_and_sums_are_of_all(monkeypatch):
    monkeypatch.setattr("kernelmean.regression.conditional.SEARCH_ROWS", 60)
    X = normal(1000)
    y = np.c_[X[:, 0] ** 2, X[:, 1]] + 0.1 * normal(1000, 2, 1)
    given = {"reg": 1e-3, "features": km.RandomFourier(40)} | dict.fromkeys(
        ["kernel_x", "kernel_y"], km.Gaussian(1.0)
    )
    theirs = km.ConditionalEmbedding(**given).fit(X, y)
    ours = km.ConditionalEmbedding(**given).fit(km.Rows(X, step=99), km.Rows(y, step=99))
    assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-10)
    assert_allclose(ours.operator_, theirs.operator_, atol=1e-10)
    assert ours.points_.shape == (60, 2)  # that laws stand on
    assert ours.at(X[:5]).mean().shape == (5, 2)
    # the loss looks at sixty of a thousand rows, each left out of the operator of all
    Phi = ours.features_x_.transform(X)
    H = Phi @ np.linalg.solve(Phi.T @ Phi / 1000 + 1e-3 * np.eye(40), Phi.T) / 1000
    Psi = ours.features_y_.transform(y)
    left_out = ((Psi - H @ Psi) ** 2).sum(1) / (1 - H.diagonal()) ** 2
    few = np.linspace(0, 999, 60).astype(int)
    assert ours.loo_score_ == pytest.approx(left_out[few].mean(), rel=1e-9)


def test_the_ratio_of_all_rows(monkeypatch):
    monkeypatch.setattr("kernelmean.bayes.density_ratio.SEARCH_ROWS", 60)
    X, Y = normal(1000), normal(50, seed=1) + 0.3
    given = {"reg": 1e-2, "kernel": km.Gaussian(1.0), "features": km.RandomFourier(40)}
    theirs = km.DensityRatio(**given).fit(X, Y)
    ours = km.DensityRatio(**given).fit(km.Rows(X, step=99), Y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-12)
    assert ours.weights_.shape == (60,)


@pytest.mark.slow
def test_least_squares_on_dask_leaves_no_row_out():
    """With two-stage least squares no row is left out of its first stage."""
    X = normal(200)
    Z = X + 0.5 * normal(200, seed=1)
    y = X[:, 0] + 0.3 * normal(200, 1, 2)[:, 0]
    straight = {"*": "linear"}
    theirs = km.KernelIV(straight).fit(X, y, Z)
    assert not theirs.basis_z_.features.rank_  # least squares
    ours = km.KernelIV(straight).fit(*(km.Rows(A, step=60) for A in (X, y, Z)))
    assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-9)


# ---------------------------------------------------------------- every estimator, every kind
class OfADevice:
    """An array that does not come here by itself, as CuPy's."""

    def __init__(self, A: np.ndarray):
        self.A, self.shape, self.ndim, self.dtype = A, A.shape, A.ndim, A.dtype

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Use `.get()`")

    def __len__(self) -> int:
        return len(self.A)


def framed(A: np.ndarray):
    names = [f"c{i}" for i in range(A.shape[-1])]
    return pd.DataFrame(A, columns=names) if A.ndim == 2 else pd.Series(A, name="y")


def mapped_in_memory(A: np.ndarray, folder: Path):
    path = folder / f"{abs(hash(A.tobytes()))}.npy"
    np.save(path, A)
    return np.load(path, mmap_mode="r")


def from_parquet(A: np.ndarray, folder: Path) -> km.Rows:
    one = A.ndim == 1
    frame = framed(A).to_frame() if one else framed(A)
    rows = km.Rows(parquet(folder / f"p{abs(hash(A.tobytes()))}", frame))
    return rows["y"] if one else rows


SINGLE = "float32 told"
KINDS: dict[str, Callable] = {
    "memory map": mapped_in_memory,
    "chunks": lambda A, _: km.Rows(Again(A, 15)),
    "Parquet": from_parquet,
    "Dask array": lambda A, _: da.from_array(A, chunks=(15, *A.shape[1:])),
    "Dask frame": lambda A, _: dd.from_pandas(framed(A), npartitions=3),
    "float32": lambda A, _: A.astype(np.float32),
    SINGLE: lambda A, _: km.Rows(A.astype(np.float32), step=15, dtype="float32"),
    "pandas Float64": lambda A, _: framed(A).astype("Float64"),
    "other device": lambda A, _: strict.asarray(A, device=strict.Device("device1")),
}
ELSEWHERE: dict[str, Callable] = {  # if it is there
    "Torch": lambda A, _: pytest.importorskip("torch").asarray(A),
    "Torch, CUDA": lambda A, _: pytest.importorskip("torch").asarray(A, device="cuda"),
    "CuPy": lambda A, _: pytest.importorskip("cupy").asarray(A),
}
NEVER = {  # refused everywhere, always
    "generator": lambda A, _: (A[i : i + 10] for i in range(0, N, 10)),
    "list of blocks": lambda A, _: [A[i : i + 15] for i in range(0, N, 15)],
    "array of a device": lambda A, _: OfADevice(A),
}
TABLES = normal(), normal() + 0.5 * normal(seed=1), normal()[:, 0] + 0.3 * normal(seed=2)[:, 0]
X, Z, Y = (A.astype(np.float32).astype(float) for A in TABLES)  # the numbers of both kinds
GAUSS = km.Gaussian(1.0)
QUICK = km.EM(n_init=1, max_iter=1)


def unfitted(name: str, tables: tuple = (X, Y), **parameters) -> tuple:
    return getattr(km, name)(**parameters), tables


ESTIMATORS: dict[str, Callable[[], tuple]] = {
    "Nystroem": lambda: unfitted("Nystroem", (X,)),
    "RandomFourier": lambda: unfitted("RandomFourier", (X,), n_features=30),
    "Exact": lambda: unfitted("Exact", (X,)),
    "ConditionalEmbedding": lambda: unfitted("ConditionalEmbedding"),
    "DensityRatio": lambda: unfitted("DensityRatio", (X, np.ascontiguousarray(Z[:15]))),
    "KernelIV": lambda: unfitted("KernelIV", (X, Y, Z), tune_lengthscale=False),
    "ConditionalDensity": lambda: unfitted("ConditionalDensity", reg=0.1, bandwidth=0.5),
    "EmbeddedDensity": lambda: unfitted("EmbeddedDensity", (X,)),
    "KernelBayes": lambda: unfitted("KernelBayes", (X, Z)),
    "KernelHMM": lambda: unfitted(
        "KernelHMM", (X,), n_components=2, refine=False, random_state=0, em=QUICK
    ),
    "KernelStateSpace": lambda: unfitted(
        "KernelStateSpace", (X,), backbone=None, em=QUICK, latent=km.Normal(1, nodes=5)
    ),
    "KernelBayesFilter": lambda: unfitted("KernelBayesFilter", (X, Z), reg=0.05),
}
ANSWERS = {"EmbeddedDensity": "pdf", "KernelHMM": "filter"} | dict.fromkeys(
    ["Nystroem", "RandomFourier", "Exact"], "transform"
)
NO_INTERVALS = {*ANSWERS, "DensityRatio", "KernelBayesFilter"}


def fitted(name: str, tell: Callable):
    model, tables = ESTIMATORS[name]()
    if name == "DensityRatio":  # its numerator is in memory, in the library of the denominator
        rows, numerator = tell(tables[0]), tables[1]
        here = not hasattr(rows, "device") or isinstance(rows, np.ndarray | da.Array)
        return model.fit(rows, numerator if here else tell(numerator))
    more = {"kernel": GAUSS} if isinstance(model, km.FeatureMap) else {}
    return model.fit(*(tell(table) for table in tables), **more)


@cache
def in_memory(name: str):
    return fitted(name, lambda A: A)


@cache
def on_device(name: str, kind: str):
    return fitted(name, lambda A: ({**KINDS, **ELSEWHERE})[kind](A, None))


@cache
def loaded(name: str):
    with tempfile.TemporaryDirectory() as folder:
        in_memory(name).save(Path(folder) / "model.km")
        return km.load(Path(folder) / "model.km")


def predicted(name: str, model, rows, verb: str) -> np.ndarray:
    if verb == "interval":
        options = {"simultaneous": False} if name == "KernelIV" else {}
        return numbers(model.predict_interval(rows, **options))
    return numbers(getattr(model, ANSWERS.get(name, "predict"))(rows))


def numbers(answer) -> np.ndarray:
    """Here, of whatever kind."""
    if isinstance(answer, km.Rows):
        blocks = list(answer)
        of_two = isinstance(blocks[0], tuple)
        return np.concatenate([numbers(block) for block in blocks], axis=1 if of_two else 0)
    if isinstance(answer, tuple):
        return np.stack([numbers(part) for part in answer])
    return np.asarray(answer.compute() if hasattr(answer, "compute") else to_numpy(answer))


@cache
def in_memory_predicted(name: str, verb: str) -> np.ndarray:
    return predicted(name, in_memory(name), X, verb)


VERBS = ("fit", "predict", "interval")


def outcome(name: str, kind: str, verb: str, folder: Path) -> str:
    """ "yes" where the numbers are those in memory, "no" where it is refused in a sentence.

    Models that answer were saved and loaded; models that are fitted are so afterwards.
    """

    def tell(A: np.ndarray):
        return ({**KINDS, **NEVER, **ELSEWHERE})[kind](A, folder)

    device = kind == "other device" or kind in ELSEWHERE
    try:
        if device:
            model = on_device(name, kind)
        else:
            model = fitted(name, tell) if verb == "fit" else loaded(name)
        asked = tell(X) if device or verb != "fit" else X
        found = [predicted(name, model, asked, verb)]
    except (ValueError, TypeError) as err:
        assert re.search(r"\b(is|are|has|have|holds)\b", str(err)), err
        return "no"
    if verb == "fit":  # the same after it was saved, where arrays are NumPy's
        model.save(folder / "model.km")
        found.append(predicted(name, km.load(folder / "model.km"), X, verb))
    expected = in_memory_predicted(name, verb)
    # pivots of landmarks are the same, their factor amplifies rounding
    tol = 1e-6 if name in ("Nystroem", "Exact") else 1e-8
    if kind == SINGLE and verb != "fit":
        assert found[0].dtype == np.float32
        tol = 1e-5
    for numbers in found:
        assert_allclose(numbers, expected, rtol=tol, atol=tol * np.abs(expected).max())
    return "yes"


def line(name: str, verb: str, folder: Path) -> str:
    cells = (outcome(name, kind, verb, folder) for kind in KINDS)
    return "| " + " | ".join([f"`{name}` {verb}", *cells]) + " |"


CELLS = [(n, v) for n in ESTIMATORS for v in VERBS if v != "interval" or n not in NO_INTERVALS]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X .*feature names")
@pytest.mark.parametrize(("name", "verb"), CELLS)
def test_where_an_estimator_runs_is_what_the_guide_says(name, verb, tmp_path):
    """No silent number: the same to 1e-8, or refused. `pytest -rA` shows lines to paste."""
    found = line(name, verb, tmp_path)
    print(found)
    assert any(told.startswith(found) for told in PAGE.read_text(encoding="utf-8").splitlines())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X .*feature names")
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_torch_and_a_gpu_are_as_the_other_device(kind, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    if kind != "Torch" and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    assert {outcome(name, kind, verb, tmp_path) for name, verb in CELLS} == {"yes"}


@pytest.mark.parametrize("kind", NEVER)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_can_be_read_once_or_not_at_all_is_refused(name, kind, tmp_path):
    for verb in ("fit", "predict"):
        assert outcome(name, kind, verb, tmp_path) == "no"


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32")])
def test_answers_stay_single_where_told(dtype):
    """Lazily, block by block, of whatever kind: arrays, intervals, tables with names."""
    rows = km.Rows(X.astype(np.float32), step=15, dtype=dtype)
    model, table = in_memory("ConditionalEmbedding"), km.Nystroem().fit(X, GAUSS)
    for block in model.predict(rows):
        assert block.dtype == np.float32
    for block in table.set_output(transform="pandas").transform(rows):
        assert set(block.dtypes) == {np.dtype("float32")}
    for ends in model.predict_interval(rows):
        assert ends.lower.dtype == ends.upper.dtype == np.float32
    (one,) = model.predict(km.Rows(X))
    assert one.dtype == np.float64


def test_choices_are_those_of_the_rows_as_they_are_kept():
    """Numbers that float32 would round: a search may end elsewhere for a difference of 1e-8."""
    A, y = TABLES[0] + 1e6, TABLES[2]  # six of seven digits are those of the offset
    single = km.Rows(A, step=15, dtype="float32")
    ours = km.ConditionalDensity(reg=0.1, bandwidth=0.5).fit(single, y)
    theirs = km.ConditionalDensity(reg=0.1, bandwidth=0.5).fit(A, y)
    assert_allclose(ours.predict(A), theirs.predict(A), rtol=1e-8)
    assert_allclose(numbers(ours.predict(single)), theirs.predict(A), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "single precision", float, 32, None])
def test_other_precisions_are_refused(dtype):
    with pytest.raises(ValueError, match=r"dtype is '.*'; it must be one of \['float32', 'float64"):
        km.Rows(X, dtype=dtype)


FUNCTIONS: dict[str, Callable] = {
    "a kernel": lambda b: GAUSS(b),
    "median_lengthscale": km.median_lengthscale,
    "MeanEmbedding": lambda b: km.MeanEmbedding(b),
    "weights": lambda b: km.MeanEmbedding(X, b, kernel=GAUSS),
    "a law at points": lambda b: km.MeanEmbedding(X, kernel=GAUSS).density(b),
    "apply": lambda b: in_memory("ConditionalEmbedding").apply(b),
    "a prior": lambda b: in_memory("KernelBayes").predict(X, prior=b),
    "a numerator": lambda b: km.DensityRatio().fit(X, b),
    "bayes_rule": lambda b: km.bayes_rule(X, Z, b, X[0]),
    "estimate_order": lambda b: km.estimate_order(b),
    "smooth": lambda b: in_memory("KernelBayesFilter").smooth(b),
    "decode": lambda b: in_memory("KernelHMM").decode(b),
    "at": lambda b: in_memory("ConditionalDensity").at(b),
    "score": lambda b: in_memory("ConditionalDensity").score(b, Y),
    "a band of all rows": lambda b: in_memory("KernelIV").predict_interval(b),
    "a metric": lambda b: km.metrics.qlike(b, np.ones(N)),
    "a comparator": lambda b: km.comparators.KernelReg().fit(b, Y, Z),
}


@pytest.mark.parametrize("kind", ["Dask array", "Dask frame", "chunks", *NEVER])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_refuse_rows_that_are_elsewhere(name, kind, tmp_path):
    given = ({**KINDS, **NEVER})[kind](X, tmp_path)
    with pytest.raises((ValueError, TypeError), match=r"\b(is|are|has|have|holds)\b"):
        FUNCTIONS[name](given)


FRESH = """
import dask.array as da
from kernelmean.core.elsewhere import aligned
rows = aligned(X=da.ones((40, 2), chunks=10))
assert rows.reduce(lambda block: block[0].sum(), merge=lambda a, b: a + b) == 80
assert rows.few(4)[0].shape == (4, 2)
"""


@pytest.mark.slow
def test_a_first_sum_leaves_dasks_settings_in_place():
    """In a fresh process, where the sum imports `distributed`."""
    subprocess.run([sys.executable, "-c", FRESH], check=True)


# ---------------------------------------------------------------------------------- a cluster
WORKERS = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(**WORKERS) as workers, distributed.Client(workers) as client:
        yield client


@pytest.mark.slow
def test_two_processes_answer_as_one(tmp_path, cluster):
    """The last column of the guide's table, all on one cluster."""
    told = PAGE.read_text(encoding="utf-8").splitlines()
    with dask.config.set(scheduler="distributed"):
        for name, verb in CELLS:
            found = outcome(name, "Dask array", verb, tmp_path)
            (row,) = (text for text in told if text.startswith(f"| `{name}` {verb} |"))
            assert row.endswith(f" {found} |"), row


@pytest.mark.slow
def test_instrumental_variables_on_a_cluster(cluster):
    data = km.datasets.make_iv_sigmoid(12_000, random_state=43)  # more than the search looks at
    quick = {"trend": 1, "tune_lengthscale": False}
    theirs = km.KernelIV(**quick).fit(data.X, data.y, data.Z)
    with dask.config.set(scheduler="distributed"):
        A, y, B = (da.from_array(a, chunks=(3000, *a.shape[1:])) for a in (data.X, data.y, data.Z))
        ours = km.KernelIV(**quick).fit(A, y, B)
        assert_same(ours, theirs)
        assert_allclose(ours.predict(A).compute(), theirs.predict(data.X), atol=1e-8)
        with pytest.raises(ValueError, match="X contains NaN"):
            km.KernelIV(**quick).fit(da.concatenate([A[:-1], A[-1:] * np.nan]), y, B)


def slowly(block: np.ndarray, folder: str) -> np.ndarray:
    """The block, after a sign that its worker is at work."""
    Path(folder, str(os.getpid())).touch()
    time.sleep(0.05)
    return block


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_changes_nothing(tmp_path, cluster):
    n = 1200
    A, y = normal(n), normal(n, 1)[:, 0]
    lazy = da.from_array(A, chunks=(100, 2)).map_blocks(
        slowly, str(tmp_path), dtype=float, meta=np.empty((0, 2))
    )
    rows = lazy, da.from_array(y, chunks=100)
    model = km.ConditionalEmbedding(features=km.RandomFourier(50))
    with dask.config.set(scheduler="synchronous"):
        whole = model.fit(da.from_array(A, chunks=(100, 2)), rows[1]).coef_.copy()
    assert not list(tmp_path.iterdir())

    def kill() -> None:
        while not list(tmp_path.iterdir()):
            time.sleep(0.02)
        time.sleep(0.5)
        os.kill(int(next(tmp_path.iterdir()).name), signal.SIGKILL)

    with dask.config.set(scheduler="distributed"):
        killer = threading.Thread(target=kill)
        killer.start()
        again = model.fit(*rows).coef_
        killer.join()
    assert_array_equal(again, whole)

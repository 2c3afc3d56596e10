"""DataFrames of Spark, in local mode: what is fitted to them is what is fitted in memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import kernelmean as km
from kernelmean.core.moments import Moments
from kernelmean.core.rows import Rows

pytest.importorskip("pyspark", reason="needs the extra `spark` and Java: pip install pyspark")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets that Spark leaves open
]
N, BLOCKS = 300, 11  # more than eight blocks: values are merged twice
RNG = np.random.default_rng(0)
Z, NOISE = RNG.normal(size=(N, 2)), RNG.normal(size=N)
TABLE = pd.DataFrame({"z1": Z[:, 0], "z2": Z[:, 1], "x": Z[:, 0] + 0.5 * NOISE})
TABLE["y"] = np.sin(TABLE["x"]) + 0.7 * NOISE


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    told = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.log.level": "OFF"}
    try:
        session = SparkSession.builder.master("local[2]").config(map=told).getOrCreate()
    except Exception as err:  # noqa: BLE001
        pytest.skip(f"Spark does not start, as without Java: {err}")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def frame(spark):
    made = spark.createDataFrame(list(TABLE.itertuples(index=False)), list(TABLE.columns))
    return made.repartition(BLOCKS).persist()


@pytest.fixture(scope="module")
def rows(frame) -> km.Rows:
    return km.Rows(frame)


@pytest.fixture(scope="module")
def here(rows) -> pd.DataFrame:
    """The same rows in the order of the partitions."""
    return rows.few(10 * N)


def numbers(answer) -> np.ndarray:
    if isinstance(answer, Rows):
        axis = int(isinstance(next(iter(answer)), tuple))
        return np.concatenate([np.asarray(block) for block in answer], axis=axis)
    return np.asarray(answer)


def test_few_rows_counts_and_sums(rows, here):
    assert len(rows.sizes) == BLOCKS
    assert rows.n == sum(rows.sizes) == N
    assert_allclose(here.sort_values("x"), TABLE.sort_values("x"), rtol=1e-15)
    assert_allclose(rows.few(7), here.iloc[np.linspace(0, N - 1, 7).astype(int)])
    pair = rows[["z1", "z2"]]
    sums = [pair.partial("x", "xx", x=None).sums["xx"] for _ in range(2)]
    assert_allclose(sums[0], Z.T @ Z, rtol=1e-13)
    assert np.array_equal(*sums)  # to the bit: values are merged in the order of the blocks
    expected = km.Rows(np.split(np.asarray(here[["z1", "z2"]]), np.cumsum(rows.sizes)[:-1]))
    assert np.array_equal(sums[0], expected.partial("x", "xx", x=None).sums["xx"])


MODELS: dict[str, Any] = {
    "KernelIV": (km.KernelIV(tune_lengthscale=False), [["x"], "y", ["z1", "z2"]]),
    "ConditionalEmbedding": (km.ConditionalEmbedding(), [["z1", "z2"], "x"]),
    "ConditionalDensity": (km.ConditionalDensity(reg=0.1, bandwidth=0.5), [["z1", "z2"], "y"]),
    "KernelBayes": (km.KernelBayes(), [["x"], ["y"]]),
}


@pytest.mark.parametrize("name", MODELS)
def test_fits_and_answers_are_those_in_memory(name, rows, here):
    model, columns = MODELS[name]
    theirs = model.fit(*(here[c] for c in columns)).predict(here[columns[0]])
    there = model.fit(*(rows[c] for c in columns))
    assert_allclose(there.predict(here[columns[0]]), theirs, rtol=1e-8, atol=1e-9)
    answer = there.predict(rows[columns[0]])
    assert isinstance(answer, Rows)
    assert [len(block) for block in answer] == list(rows.sizes)
    assert_allclose(numbers(answer), theirs, rtol=1e-8, atol=1e-9)
    options = {"simultaneous": False} if name == "KernelIV" else {}
    found, expected = (there.predict_interval(t[columns[0]], **options) for t in (rows, here))
    assert_allclose(numbers(found), numbers(expected), rtol=1e-8, atol=1e-9)


def test_a_density_a_ratio_and_landmarks(rows, here, monkeypatch):
    """Choices on a few rows, sums of all."""
    for module in ("bayes.density_ratio", "densities.embedded_density", "densities.cells"):
        monkeypatch.setattr(f"kernelmean.{module}.SEARCH_ROWS", 100)
    at, blocks = pd.DataFrame({"x": np.linspace(-2, 2, 9)}), km.Rows(here, step=70)
    pair = TABLE[["z1", "z2"]]
    answers: list[Callable] = [
        lambda r: km.EmbeddedDensity().fit(r[["x"]]).pdf(at),
        lambda r: km.DensityRatio().fit(r[["z1", "z2"]], pair[:20] + 0.2).predict(pair),
        lambda r: km.Nystroem(tol=1e-2).fit(r[["z1", "z2"]], km.Gaussian(1.0)).lost_trace_,
    ]
    for answer in answers:
        assert_allclose(answer(rows), answer(blocks), rtol=1e-8)


def test_a_model_predicts_in_the_workers(frame, here):
    """The guide's way to answers beside the rows they are about."""
    model = km.ConditionalEmbedding().fit(here[["z1", "z2"]], here["x"])

    def predicted(frames):
        for part in frames:
            yield part.assign(mean=model.predict(part[["z1", "z2"]]))

    found = frame.mapInPandas(predicted, "z1 double, z2 double, x double, y double, mean double")
    found = pd.DataFrame([row.asDict() for row in found.collect()])
    assert_allclose(found["mean"], model.predict(found[["z1", "z2"]]), atol=1e-12)


@pytest.mark.parametrize(
    ("model", "columns", "said"),
    [
        (
            km.KernelHMM(2, refine=False),
            [["x"]],
            "X is of a DataFrame of Spark, whose rows",
        ),
        (km.KernelHMM(2), [["x"]], "refine is True, but EM goes along all rows"),
        (km.KernelStateSpace(), [["x"]], "X is a Rows, but here rows are needed in memory"),
        (km.KernelBayesFilter(), [["x"], ["y"]], "X is a Rows, but here rows are needed in memory"),
        (km.Exact(), [["x"]], "Exact is of all rows at once, in memory"),
    ],
    ids=["spectral", "EM", "state space", "filter", "Exact"],
)
def test_what_cannot_be_summed_is_refused_before_any_work(model, columns, said, frame, monkeypatch):
    monkeypatch.setattr("kernelmean.core.spark.SparkTable.filled", property(lambda t: 1 / 0))
    given = [km.Rows(frame)[c] for c in columns]
    more = {"kernel": km.Gaussian(1.0)} if isinstance(model, km.Exact) else {}
    with pytest.raises(ValueError, match=said):
        model.fit(*given, **more)


def test_tables_are_columns_of_one_frame(frame, rows):
    said = "X or y is of a DataFrame of Spark, whose rows have no order to join others by"
    for y in (TABLE["y"], km.Rows(TABLE["y"]), km.Rows(frame.select("y"))["y"]):
        with pytest.raises(ValueError, match=said):
            km.ConditionalEmbedding().fit(rows[["x"]], y)
    with pytest.raises(ValueError, match=r"X is a DataFrame of Spark, .* columns of km.Rows\(X\)"):
        km.ConditionalEmbedding().fit(frame, frame)


def test_what_is_wrong_with_a_block_is_a_sentence(spark, rows):
    with pytest.raises(ValueError, match=r"rows\[\['nope'\]\] is asked for"):
        km.ConditionalEmbedding().fit(rows[["nope"]], rows["y"])
    gaps = [(float(i), float("nan") if i == 31 else 0.0) for i in range(40)]
    bad = km.Rows(spark.createDataFrame(gaps, ["x", "y"]).coalesce(1).repartitionByRange(4, "x"))
    with pytest.raises(ValueError, match=r"y contains NaN .* \(in block 3\)"):
        km.ConditionalEmbedding().fit(bad[["x"]], bad["y"])


def test_rows_that_change_between_passes_are_seen(spark):
    from pyspark.sql.functions import rand

    rows = km.Rows(spark.range(100).where(rand() < 0.5).selectExpr("cast(id as double) x"))
    object.__setattr__(rows._tables[0].source, "filled", {0: 7, 1: 99})
    with pytest.raises(ValueError, match="with 7 rows in block 0 when they were counted"):
        rows.partial("x", x=None)


def test_values_are_merged_in_eights_whatever_the_number_of_blocks(spark):
    for blocks in (1, 8, 9, 70):
        rows = km.Rows(spark.range(0, 700, 1, blocks).selectExpr("cast(id as double) x"))
        found = rows.reduce(lambda block: Moments("x").add(x=np.asarray(block)))
        assert (found.n, found.sums["x"].tolist()) == (700, [700 * 699 / 2])

"""Whatever a file, a table, a formula or a stream holds: a `ValueError` in words, or an answer.

`make fuzz` looks at the few examples that fit in the suite; `make fuzz EXAMPLES=100000` takes about
an hour. What hypothesis found once stays in `.hypothesis/`, and is tried first from then on.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from filter_cases import DENSE
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import kernelmean as km

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
thorough = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 60,  # the suite tries the same examples each time
    suppress_health_check=list(HealthCheck),
)


@functools.cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="kernelmean-fuzz-"))


@functools.cache
def saved(kind: str) -> bytes:
    path = folder() / f"{kind}.km"
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    things = {
        "kernel": km.on_columns({0: km.Gaussian(0.8), 1: km.Delta()}),
        "embedding": km.MeanEmbedding(X, kernel=km.Gaussian(0.7)),
        "conditional": km.ConditionalEmbedding(reg=0.1).fit(X, X[:, 0]),
    }
    things[kind].save(path)
    return path.read_bytes()


def load(content: bytes) -> None:
    path = folder() / "odd.km"
    path.write_bytes(content)
    try:
        km.load(path)
    except ValueError as err:
        assert "odd.km" in str(err)


# ------------------------------------------------------------------------------ files
@thorough
@given(st.binary(max_size=2_000))
def test_files_of_any_bytes(content):
    load(content)
    load(b"PK\x03\x04" + content)


@thorough
@given(
    st.sampled_from(["kernel", "embedding", "conditional"]),
    st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=9), st.integers(0, 9)), max_size=6),
)
def test_files_with_bytes_changed_put_in_and_taken_out(kind, changes):
    content = bytearray(saved(kind))
    for where, put, gone in changes:
        at = int(where * len(content))
        content[at : at + gone] = put
    load(bytes(content))


names = st.sampled_from(
    ["Gaussian", "Nystroem", "MeanEmbedding", "Sum", "Labels", "kernels.Gaussian", "Saveable", "os"]
)
leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(0, 9)
trees = st.recursive(
    leaves
    | st.builds(lambda i: {"array": i}, leaves)
    | st.builds(lambda x: {"float": x}, leaves)
    | st.builds(lambda x: {"names": x}, leaves),
    lambda inner: (
        st.builds(lambda xs: {"list": xs}, st.lists(inner, max_size=3))
        | st.builds(lambda xs: {"tuple": xs}, st.lists(inner, max_size=3))
        | st.builds(lambda xs: {"dict": xs}, st.lists(st.tuples(inner, inner), max_size=3))
        | st.builds(lambda n, s: {"class": n, "state": s}, names | leaves, inner)
        | st.builds(lambda n, s: {"sklearn": n, "state": s}, st.just("RBF") | leaves, inner)
    ),
    max_leaves=8,
)
headers = st.text(max_size=40) | st.builds(
    "{{'descr': '{}', 'fortran_order': {}, 'shape': {}}}".format,
    st.sampled_from(["<f8", "|O", "<U3", "|V0", "|S0", "<M8[s]", "f8,i4"]) | st.text(max_size=4),
    st.booleans(),
    st.lists(st.integers(-2, 10**30), max_size=3).map(tuple),
)


def npy(header: str, data: bytes) -> bytes:
    text = header.encode("utf-8", "replace")
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.slow
@thorough
@given(trees, st.lists(st.builds(npy, headers, st.binary(max_size=32)), max_size=3))
def test_files_signed_as_ours_that_hold_anything(tree, blobs):
    from kernelmean.core.saving import _digest

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        digest = _digest(tree, blobs)
        header = {"format": "kernelmean", "version": 2, "sha256": digest, "object": tree}
        archive.writestr("header.json", json.dumps(header))
        for i, blob in enumerate(blobs):
            archive.writestr(f"{i}.npy", blob)
    load(buffer.getvalue())


# ------------------------------------------------------------------------------ tables
cells = st.sampled_from(
    ["1", "-2.5", "1,5", "", "NA", "inf", "1e400", "=1+1", "a", '"', "'", "²", "\x00", "2020-01-02"]
) | st.text(max_size=6)
rows = st.lists(st.lists(cells, min_size=1, max_size=4), min_size=1, max_size=6)


@pytest.mark.slow
@thorough
@example([["0\x1e0"], ["1"]], ",", ",", ".")
@given(rows, st.sampled_from(",;\t|"), st.sampled_from(",;\t|a"), st.sampled_from(".,x"))
def test_tables_of_anything(lines, written, sep, decimal):
    pytest.importorskip("pandas")
    from kernelmean.app.errors import UserError
    from kernelmean.app.tables import read_table, to_csv

    path = folder() / "odd.csv"
    path.write_bytes("\n".join(written.join(line) for line in lines).encode("utf-8", "replace"))
    try:
        table = read_table(path, sep, decimal)
        frame = table.numbers({"--x": list(table.frame)}, drop_missing=True)
    except UserError as err:
        assert str(err)
    else:
        assert np.isfinite(frame.to_numpy()).all()
        assert len(list(csv.reader(io.StringIO(to_csv(frame), newline="")))) == 1 + len(frame)


@thorough
@given(st.binary(max_size=400), st.sampled_from(["t.csv", "t.parquet", "t.csv.gz", "t.zip"]))
def test_tables_of_any_bytes(content, name):
    pytest.importorskip("pandas")
    from kernelmean.app.errors import UserError
    from kernelmean.app.tables import read_table

    (folder() / name).write_bytes(content)
    try:
        read_table(folder() / name)
    except UserError as err:
        assert name in str(err)


# ------------------------------------------------------------------------------ formulas
words = st.sampled_from(
    [*"yxzc019~+-*/:^()[]{}|.,` ", "**", "np.", "log(", "C(", "poly(", "%in%", "99"]
)


functions = st.sampled_from(["", "I", "C", "log", "poly", "bs", "cr", "np.sqrt", "np.clip", "-"])
operators = st.sampled_from([*"+-*/:^,", "**", "%in%", "=", "<"])
formulas = st.recursive(
    st.sampled_from([*"yxzc01", "99", "1e9", "df=4", "'a'", "[0.5]", "`x`", "contr.sum"]),
    lambda inner: (
        st.builds("{}{}{}".format, inner, operators, inner)
        | st.builds("{}({})".format, functions, inner)
    ),
    max_leaves=8,
)


@functools.cache
def small_table():
    import pandas as pd

    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(6, 4)), columns=[*"yxzc"])


@pytest.mark.slow
@thorough
@given(st.lists(words, max_size=25).map("".join) | st.text(max_size=30) | formulas)
@example("(]")
@example("log(``)")
@example("C(x,0)")
@example("0%in%(0)")
def test_formulas_of_anything(text):
    pytest.importorskip("formulaic")
    from kernelmean.instruments.formula import read_formula

    for formula in (text, f"y ~ {text} + [x ~ z]"):
        try:
            *_, X, _, _ = read_formula(formula, small_table())
        except ValueError as err:
            assert str(err)
        else:
            assert np.isfinite(X.to_numpy()).all()


# ------------------------------------------------------------------------------ streams
@functools.cache
def tracker(inference: str) -> km.KernelBayesFilter:
    train = km.datasets.make_rotation(60, random_state=0)
    options = DENSE if inference == "densities" else {"inference": inference}
    return km.KernelBayesFilter(**options).fit(train.X, train.Z)


numbers = st.floats(width=64) | st.sampled_from([0.0, np.nan, np.inf, 1e300, -1e300, 5e-324])


@pytest.mark.slow
@thorough
@given(
    st.sampled_from(["kbr", "densities"]),
    st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=1, max_size=5),
)
def test_streams_of_anything(inference, observations):
    """What a sensor may send: the row is refused in words, or what is known stays finite."""
    belief = tracker(inference).start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", km.NumericalWarning)
        for x in observations:
            try:
                belief = belief.update(x)
            except ValueError as err:
                assert str(err)
            assert np.isfinite(belief.mean()).all()
            belief = belief.predict()
            assert np.isfinite(belief.mean()).all()
            assert np.isfinite(belief.std()).all()

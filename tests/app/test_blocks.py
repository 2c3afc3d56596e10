"""Files that are read block by block: the answers of the file as a whole, or a refusal."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

import kernelmean as km
from kernelmean.app.commands.iv import Analysis
from kernelmean.app.files import write_all, write_parts
from kernelmean.app.tables import answered

IV = ("iv", "market.csv", "--y", "quantity", "--x", "price", "--z", "storm", "--no-tune")


def parts(folder: str) -> pd.DataFrame:
    return pd.read_parquet(folder).set_index("row")


@pytest.fixture
def files(market, csv, tmp_path) -> pd.DataFrame:
    """The market as one file, and as a folder of Parquet."""
    (tmp_path / "days").mkdir()
    for i in (0, 67, 134):
        market[i : i + 67].to_parquet(tmp_path / "days" / f"{i:03}.parquet")
    return market


@pytest.mark.slow
@pytest.mark.parametrize("source", ["market.csv", "days", "days/*.parquet"])
def test_iv_of_a_file_in_blocks(run, files, source):
    assert run(*IV).exit_code == 0
    told = run("iv", source, *IV[2:], "--chunksize", 60, "--out", "blocks", "--verbose")
    assert told.exit_code == 0, told.output
    assert sorted(os.listdir("blocks")) == ["model.km", "predictions", "report.html"]
    whole = pd.read_csv("kernelmean-iv/predictions.csv", index_col="row")
    found = parts("blocks/predictions")
    pd.testing.assert_frame_equal(found, whole, check_index_type=False, rtol=1e-6)
    blocks = 4 if source == "market.csv" else 6  # of three files, 67, 67 and 66 rows
    assert (
        sorted(os.listdir("blocks/predictions"))[-1] == f"part-{blocks:05}-of-{blocks:05}.parquet"
    )
    assert "pass 1: 200 rows" in told.stderr
    assert "a second" in told.stderr


@pytest.mark.slow
def test_few_rows_stand_for_many(run, files, monkeypatch):
    monkeypatch.setattr("kernelmean.app.command.SEARCH_ROWS", 100)
    told = run(*IV, "--chunksize", 60, "--at", "days", "--quiet")
    page = Path("kernelmean-iv/report.html").read_text(encoding="utf-8")
    assert "are of 100 of the 200 rows; the model is of all" in page
    assert "· 200 rows" in page
    assert len(parts("kernelmean-iv/predictions")) == 200
    assert told.stderr == ""


@pytest.mark.slow
def test_answers_of_a_run_before_are_taken_away(tmp_path):
    rows = km.Rows(pd.DataFrame({"x": [1.0, 2.0]}, index=[1, 2]), step=1)
    for asked in (rows, rows.few(2), rows):
        found = answered("told", asked, lambda block: block)
        write_all(tmp_path, {k: c for k, c in found.items() if not isinstance(c, km.Rows)})
        if asked is rows:
            write_parts(tmp_path / "told", found["told"])
        csv, kept = tmp_path / "told.csv", list((tmp_path / "told").glob("part*"))
        assert (csv.exists(), len(kept)) == ((False, 2) if asked is rows else (True, 0))


@pytest.mark.parametrize(
    "words",
    [
        ("density", "--y", "quantity", "--x", "price", "--bandwidth", 1, "--no-tune"),
        ("posterior", "--latent", "quantity", "--observed", "price", "--rule", "importance"),
    ],
    ids=lambda words: words[0],
)
def test_answers_about_new_rows_in_blocks(run, files, words):
    asked = (words[0], "market.csv", "--at", "days", *words[1:])
    for more in ([], ["--chunksize", 70, "--out", "blocks"]):
        result = run(*asked, *more)
        assert result.exit_code == 0, result.output
    whole = pd.read_csv(f"kernelmean-{words[0]}/{words[0]}.csv", index_col="row")
    found = parts(f"blocks/{words[0]}")
    pd.testing.assert_frame_equal(found, whole, check_index_type=False, rtol=1e-4)


@pytest.mark.slow
def test_a_density_whose_rows_were_gathered_in_cells(run, files, monkeypatch):
    """Pictures show the rows that are looked at, of which there are more than cells."""
    monkeypatch.setattr("kernelmean.densities.cells.SEARCH_ROWS", 100)
    asked = ("density", "market.csv", "--y", "quantity", "--x", "price", "--bandwidth", 3)
    told = run(*asked, "--no-tune", "--chunksize", 70)
    assert told.exit_code == 0, told.output
    assert sorted(os.listdir("kernelmean-density")) == ["density.csv", "model.km", "report.html"]


@pytest.mark.slow
def test_regimes_of_the_last_rows(run, files, monkeypatch):
    asked = ("hmm", "market.csv", "--columns", "price", "--states", 2, "--no-refine")
    for more in ([], ["--chunksize", 70, "--out", "blocks"]):
        result = run(*asked, *more)
        assert result.exit_code == 0, result.output
    whole, found = (
        pd.read_csv(f"{folder}/states.csv", index_col="row")
        for folder in ("kernelmean-hmm", "blocks")
    )
    pd.testing.assert_frame_equal(found, whole, rtol=1e-5)
    monkeypatch.setattr("kernelmean.app.commands.hmm.SEARCH_ROWS", 90)
    run(*asked, "--chunksize", 70, "--out", "last")
    assert list(pd.read_csv("last/states.csv")["row"]) == list(range(111, 201))


@pytest.mark.parametrize(
    "words",
    [
        ("iv", "f.csv", "--formula", "y ~ 1 + [x ~ z]"),
        ("iv", "f.csv", "--y", "y", "--x", "x", "--z", "z", "--split", "0.5"),
        ("hmm", "f.csv", "--columns", "y"),
        ("hmm", "f.csv", "--columns", "y", "--no-refine", "--time", "x"),
        ("ssm", "f.csv", "--columns", "y"),
        ("filter", "f.csv", "f.csv", "--state", "y", "--observe", "x"),
    ],
)
def test_what_needs_all_rows_at_once(refused, words):
    """Before the file is looked for: there is none."""
    assert "--chunksize reads files block by block, but " in refused(*words, "--chunksize", 10)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("storm", "column 'price' of market.csv (rows 121 to 180) holds text: 'storm' in row 151"),
        ("inf", "market.csv (rows 121 to 180) has infinite values: 'price' 1"),
        ("", "market.csv (rows 121 to 180) has missing values: 'price' 1; add --drop-missing"),
    ],
)
def test_what_is_wrong_is_said_with_its_row(refused, files, value, said):
    files.astype({"price": object}).assign(
        price=lambda m: m["price"].where(m.index != 150, value)
    ).to_csv("market.csv", index=False)
    assert said in refused(*IV, "--chunksize", 60)


@pytest.mark.slow
def test_rows_left_out_of_blocks(run, files):
    files.assign(price=files["price"].where(files.index % 60 != 7)).to_csv("market.csv")
    assert run(*IV, "--chunksize", 60, "--drop-missing").exit_code == 0
    numbers = parts("kernelmean-iv/predictions").index
    assert list(numbers) == [i + 1 for i in range(200) if i % 60 != 7]


@pytest.mark.slow
def test_what_is_finished_stays_when_interrupted(run, files, monkeypatch):
    own = Analysis.predictions

    def predictions(self, rows: pd.DataFrame) -> pd.DataFrame:
        if rows.index[0] > 100:
            raise KeyboardInterrupt
        return own(self, rows)

    run(*IV, "--chunksize", 20)
    with monkeypatch.context() as patch:
        patch.setattr(Analysis, "predictions", predictions)
        result = run(*IV, "--chunksize", 50)
    assert result.exit_code == 130
    assert "error: interrupted; 2 of 4 parts are in kernelmean-iv/predictions" in result.stderr
    assert len(parts("kernelmean-iv/predictions")) == 100
    assert sorted(os.listdir("kernelmean-iv/predictions")) == [
        "part-00001-of-00004.parquet",
        "part-00002-of-00004.parquet",
    ]
    assert sorted(os.listdir("kernelmean-iv")) == ["model.km", "predictions", "report.html"]

"""Bad tables are refused in one clear line; good ones are read as they stand."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from kernelmean.app.errors import UserError
from kernelmean.app.tables import read_table, split_names, to_csv
from kernelmean.app.words import some_of

GOOD = "y,x,z\n1,2,3\n4,5,6\n"


def read(tmp_path, content, name="t.csv", **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, **options)


def numbers(table, names="y,x,z", drop_missing=False):
    return table.numbers({"--x": names.split(",")}, drop_missing)


@pytest.mark.slow
def test_periods_of_parquet_are_no_numbers(tmp_path):
    code = (
        "import pandas as pd; pd.DataFrame({'m': pd.period_range('2001-01', periods=3, freq='M')})"
    )
    written = [sys.executable, "-c", f"{code}.to_parquet({str(tmp_path / 't.parquet')!r})"]
    subprocess.run(written, check=True)
    reading = "import sys; from pathlib import Path; from kernelmean.app.tables import read_table"
    shown = f"{reading}; print(read_table(Path(sys.argv[1])).frame.m.dtype)"
    told = subprocess.check_output([sys.executable, "-c", shown, str(tmp_path / "t.parquet")])
    assert told.strip() == b"period[M]"


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
        " y , x, z\n1, 2,3\n 4,5, 6\n",
        '"y","x","z"\n"1","2","3"\n4,5,6',
        'y, "x", z\n1, "2", 3\n4, 5, 6\n',
    ],
)
def test_csv_as_people_write_it(tmp_path, content):
    got = numbers(read(tmp_path, content))
    np.testing.assert_array_equal(got, [[1, 2, 3], [4, 5, 6]])
    assert list(got.index) == [1, 2]


def test_other_separators_and_decimal_commas(tmp_path):
    table = read(tmp_path, "y;x;z\n1,5;2;3\n", sep=";", decimal=",")
    np.testing.assert_array_equal(numbers(table), [[1.5, 2, 3]])


def test_names_that_hold_another_separator(tmp_path):
    table = read(tmp_path, "y, kg\tx\tz\n1\t2,5\t3\n")
    with pytest.raises(UserError, match="no column 'x'.*tabs: add --sep"):
        table.numbers({"--x": ["x"]}, False)


def test_compressed_csv_and_parquet(tmp_path):
    np.testing.assert_array_equal(
        numbers(read(tmp_path, gzip.compress(GOOD.encode()), "t.csv.gz")), [[1, 2, 3], [4, 5, 6]]
    )
    frame = pd.DataFrame({"y": [1, None], "x": [True, False], "z": [0.5, 1.5]})
    frame.astype({"y": "Int64"}).to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    kept = numbers(table, drop_missing=True)
    np.testing.assert_array_equal(kept, [[1, 1, 0.5]])
    assert [text[:28] for text in some_of(kept, kept)] == ["Left out are 1 of 2 rows, wh"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("y,x,z\n", "0 rows"),
        ("\n\n  \n", "cannot be read"),
        ("y;x;z\n1;2;3\n", "semicolons: add --sep ';'"),
        ("y\tx\n1\t2\n", r"tabs: add --sep \$'\\t'"),
        ("y,x\n1,2,3\n", "more fields than the 2"),
        ("y, kg;x;z\n1,5;2;3,25\n", "of its header.*semicolons: add --sep ';'"),
        ("y,x\n1,2\n1,2,3\n", "line 3"),
        ("# a title\ny,x\n1,2\n", "in its first line names of columns are needed"),
        ("Größe,x\n1,2\n".encode("latin-1"), "not text in UTF-8"),
        (b"\xff\xfe\x00\x00PK\x03", "not text"),
    ],
)
def test_files_that_are_no_table(tmp_path, content, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, content)


def test_unreadable_parquet_folder_and_no_file(tmp_path):
    with pytest.raises(UserError, match="not a readable Parquet file"):
        read(tmp_path, "y,x\n1,2\n", "t.parquet")
    (tmp_path / "empty").mkdir()
    for nothing in (tmp_path / "empty", tmp_path / "*.pq"):
        with pytest.raises(UserError, match="has no Parquet files"):
            read_table(nothing)
    with pytest.raises(UserError, match="not a readable Parquet file"):
        read_table(tmp_path)
    with pytest.raises(UserError, match=r"there is no file .*; did you mean 't.parquet'"):
        read_table(tmp_path / "t.parqet")


def test_whole_numbers_beyond_64_bits_are_numbers(tmp_path):
    frame = numbers(read(tmp_path, "y,x,z\n1,92233720368547758080,-3\n2,7,1\n"))
    np.testing.assert_array_equal(frame["x"], [2.0**63 * 10, 7.0])


def test_addresses_are_not_read():
    with pytest.raises(UserError, match="is an address; download the file"):
        read_table(Path("https://example.invalid/data.csv"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name are those of POSIX")
def test_what_can_be_read_only_once_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, words in ((tmp_path / "pipe", "pipe can be"), (Path("-"), "^- can be")):
        with pytest.raises(UserError, match=f"{words} read only once"):
            read_table(path)


def test_an_index_is_a_column_of_the_file(tmp_path):
    days = pd.date_range("2020-01-01", periods=3, name="day")
    pd.DataFrame({"y": [1.0, 2.0, 3.0]}, index=days).to_parquet(tmp_path / "dated.parquet")
    assert set(read_table(tmp_path / "dated.parquet").frame) == {"day", "y"}


def test_a_folder_or_a_pattern_of_parquet_files_is_one_table(tmp_path):
    whole = pd.DataFrame({"y": range(7), "x": 0.5})
    for i in range(3):
        whole[3 * i : 3 * i + 3].to_parquet(tmp_path / f"{i}.parquet")
    for path in (tmp_path, tmp_path / "*.parquet"):
        table = read_table(path)
        assert table.frame["y"].tolist() == list(range(7))
        assert table.frame.index.tolist() == list(range(1, 8))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("y,x,z\n1,a,3\n", "'x' of .* holds text: 'a' in row 1; write its categories as columns"),
        ("y,x,z\n1,2,3\n1,?,3\n2,2,2\n", r"'\?' in row 2 \(such rows: 1\); leave the field empty"),
        ('y,x,z\n1,"2,5",3\n', "decimal commas add --decimal ','"),
        ('y,x,z\n1,"1,234,567",3\n', "if its commas set thousands apart, take them out"),
        ('y,x,z\n1,"1,234",3\n', "decimal commas add --decimal ','; if its commas set thousands"),
        ("y,x,z\n1,2020-01-02,3\n", "holds text: '2020-01-02' in row 1; dates are no numbers"),
        ('y,x,z\n1,"1.234,5",3\n', "if its dots set thousands apart, take them out and add --dec"),
        ("y,x,z\n1,2020-01,3\n", "holds text: '2020-01' in row 1; dates are no numbers"),
        ("y,x,z\n1,€ -3.9,3\n2,€ 8,1\n", "take currency signs, percent"),
        ("y,x,z\n1,−.5,3\n2,8,1\n", "'−.5' in row 1; take currency signs"),
        ("y,x,z\n1,(0.5),3\n2,8,1\n", r"'\(0.5\)' in row 1; take .* brackets"),
        ("y,x,z\n1,,3\n4,,5\n", "column 'x' is empty"),
        ("y,x,z\n1,12 345,3\n2,678,1\n", "take currency signs, percent signs, commas, brackets"),
        ('y,x,z\n1,"$1,085",3\n2,$85,1\n', r"'\$1,085' in row 1; take currency signs, percent"),
        ("y,x,z\n1,12.00 EUR,3\n2,8,1\n", "'12.00 EUR' in row 1; take .* words like EUR.*1234.5"),
        ("y,x,z\n1,EUR 12,3\n2,EUR 8,1\n", "'EUR 12' in row 1; take currency"),
        ("y,x,z\n1,3a,3\n2,3b,1\n", "'3a' in row 1; write its categories"),
        ("y,x,z\n1,,3\n4,5,\n7,8,9\n", "'x' 1, 'z' 1; add --drop-missing to leave out 2 of 3 rows"),
        ("y,x,z\n1,inf,3\n", "infinite values: 'x' 1"),
        ("y,x,x,z\n1,2,3,4\n", "more than one column named 'x'"),
        ("y,X,z\n1,2,3\n", r"no column 'x' \(asked for by --x\); did you mean 'X'\?"),
        ("y,price,z\n1,2,3\n", "no column 'x' .*; it has 'y', 'price' and 'z'"),
        ("1,2.5,3\n4,5,6\n", "no column 'y' .*; its first row has numbers, where names of columns"),
        ("sep=,\ny,x,z\n1,2,3\n", "begins with 'sep=,', .* take that line out, and add --sep ','"),
        ("sep=;\ny;x;z\n1;2;3\n", "begins with 'sep=;', .* take that line out, and add --sep ';'"),
        ('y,"x,1",z\n1,2,3\n', "'x,1'\\?; a name with a comma stands in double quotes"),
    ],
)
def test_columns_that_cannot_be_used(tmp_path, content, message):
    with pytest.raises(UserError, match=message):
        numbers(read(tmp_path, content))


def test_the_hint_at_decimals_is_right_both_ways(tmp_path):
    table = read(tmp_path, "y;x;z\n1;2.5;3\n", sep=";", decimal=",")
    with pytest.raises(UserError, match="'2.5' in row 1; if these are decimal points leave --dec"):
        numbers(table)


def test_a_label_is_kept_as_it_is_written(tmp_path):
    """Postcodes are no numbers."""
    table = read(tmp_path, "plz,y\n01067,1\n01067,2\n10115,\n,4\n", label="plz")
    assert table.frame["plz"].tolist()[:3] == ["01067", "01067", "10115"]
    assert table.frame.isna().sum().tolist() == [1, 1]
    assert table.frame["y"].dtype == float


def test_booleans_beside_a_gap_and_decimals_are_numbers(tmp_path):
    """Money in a database, and what pandas makes of True and False where one is missing."""
    frame = pd.DataFrame(
        {"money": [Decimal("1.50"), None, Decimal("2")], "paid": [True, False, None]}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    found = table.numbers_with_gaps({"--x": ["money", "paid"]})
    assert_array_equal(found, [[1.5, 1.0], [np.nan, 0.0], [2.0, np.nan]])
    table = read(tmp_path, "y,x\n1,True\n2,\n3,False\n")
    assert numbers(table, "y,x", drop_missing=True)["x"].tolist() == [1.0, 0.0]


def test_tables_are_written_so_that_a_spreadsheet_runs_nothing():
    index = pd.RangeIndex(1, 3)
    odd = ["=1+1", "+a", "-b", "@c", "\td", "plain"]
    frame = pd.DataFrame({name: [1.5, -2.0] for name in odd}, index=index)
    frame = frame.assign(row=7, text=["=HYPERLINK(0)", "fine"], day=pd.Timestamp("2020-01-02"))
    text = to_csv(frame)
    again = pd.read_csv(io.StringIO(text))
    assert list(again) == ["row_", *(f"'{c}" for c in odd[:-1]), "plain", "row", "text", "day"]
    assert list(again["row_"]) == [1, 2]
    assert list(again["text"]) == ["'=HYPERLINK(0)", "fine"]
    assert list(again["plain"]) == [1.5, -2.0]  # a number stays a number
    assert list(pd.read_csv(io.StringIO(to_csv(frame, rows=False))))[-1] == "day"


def test_repeated_names_elsewhere_do_no_harm(tmp_path):
    assert numbers(read(tmp_path, "y,q,q,x,z\n1,a,b,2,3\n")).shape == (1, 3)


def test_rows_with_missing_values_are_dropped_on_request(tmp_path):
    table = read(tmp_path, "y,x,z\n1,,3\n4,5,NA\n7,8,9\n")
    kept = numbers(table, drop_missing=True)
    assert list(kept.index) == [3]
    assert numbers(table, "y").shape == (3, 1)


def test_a_column_has_one_part_to_play(tmp_path):
    with pytest.raises(UserError, match="'x' is given to --x and to --z"):
        read(tmp_path, GOOD).numbers({"--x": ["x"], "--z": ["x"]}, False)


def test_names():
    assert split_names("a, b,c d", "--x") == ["a", "b", "c d"]
    assert split_names('"a\nb",c', "--x") == ["a\nb", "c"]
    with pytest.raises(UserError, match="names separated by commas are needed"):
        split_names("a\nb", "--x")
    with pytest.raises(UserError, match="--x is 'a,,b'"):
        split_names("a,,b", "--x")


def test_columns_without_a_value_are_the_same_in_parquet(tmp_path, refused):
    """pandas has no type for them there, or that of dates; in CSV they are numbers."""
    frame = pd.DataFrame({"x": range(30), "never": [None] * 30, "day": pd.Series([pd.NaT] * 30)})
    frame.to_parquet(tmp_path / "data.parquet")
    found = read_table(tmp_path / "data.parquet").numbers_with_gaps({"--x": ["never", "day"]})
    assert found.isna().all(axis=None)
    line = refused("density", "data.parquet", "--y", "never", "--x", "x")
    assert "column 'never' is empty" in line


@pytest.mark.parametrize("name", ["--columns", "--seed"])
def test_an_option_given_twice(refused, name):
    """The parser would take the last without a word; switches may be repeated."""
    Path("t.csv").write_text("1,2\n" * 20)
    told = refused("ssm", "t.csv", "--quiet", "--quiet", "--columns", "1", name, "1", name, "2")
    assert told.startswith(f"error: {name} is given {2 + (name == '--columns')} times; once is nee")
    assert told.rstrip().endswith(", with all names by commas") == (name == "--columns")

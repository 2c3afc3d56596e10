"""The order of time in the rows of a file."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from kernelmean.app import terminal
from kernelmean.app.commands import hmm, ssm
from kernelmean.app.dates import form_of, read_dates, written
from kernelmean.app.errors import UserError
from kernelmean.app.report import Grid
from kernelmean.app.series import Rows, code, forecast_grid, read_times, times_ahead
from kernelmean.app.tables import Table
from kernelmean.app.words import reading, some_of

DAYS = ["2020-01-30", "2020-01-31", "2020-02-01", "2020-02-02"]


def rows(times, name: str = "day", sequence: str | None = None) -> Rows:
    frame = pd.DataFrame({name: times, "level": np.arange(4.0), "site": list("aabb")})
    table = Table(Path("walk.csv"), frame.set_axis(range(1, 5)), frozenset())
    return Rows.of(table.frame[["level"]], table, sequence)


SHUFFLED = [DAYS[1], DAYS[0], DAYS[3], DAYS[2]]


@pytest.mark.parametrize(
    ("times", "name"),
    [
        (SHUFFLED, "day"),
        (["30.01.2020", "31.01.2020", "02.02.2020", "01.02.2020"], "Datum"),
        ([f"{day}T00:00:00+01:00" for day in SHUFFLED], "when"),
        (pd.to_datetime(SHUFFLED), "when"),
        ([2003, 2001, 2002, 2000], "Year"),
    ],
)
def test_a_file_whose_dates_go_back_is_spoken_of(times, name):
    """Its rows are taken in their order: shuffled, nothing can be forecast."""
    (said,) = rows(times, name).partial(["level"])
    assert f"column {name!r} of walk.csv goes back in row" in said


@pytest.mark.parametrize(
    ("times", "name"),
    [
        (DAYS[::-1], "day"),
        (["04.02.2020", "03.02.2020", "02.02.2020", "30.01.2020"], "Datum"),
        ([f"{day}T00:00:00+01:00" for day in DAYS[::-1]], "when"),
        (pd.to_datetime(DAYS[::-1]), "when"),
        ([2003, 2002, 2001, 2000], "Year"),
    ],
)
def test_a_file_with_the_newest_rows_first_is_refused(times, name):
    with pytest.raises(UserError, match=rf"column {name!r} of walk.csv runs backwards, from"):
        rows(times, name)


@pytest.mark.parametrize(
    ("times", "name", "sequence"),
    [
        (DAYS, "day", None),
        ([DAYS[0], DAYS[0], DAYS[1], DAYS[1]], "day", None),
        ([*DAYS[2:], *DAYS[:2]], "day", "site"),  # each site has days of its own
        ([4, 3, 2, 1], "count", None),
        (["b", "a", "d", "c"], "label", None),
        (["10-year", "2-year", "5-year", "1-year"], "bond", None),
    ],
)
def test_and_others_are_not(times, name, sequence):
    assert rows(times, name, sequence).partial(["level"]) == []


def test_dates_with_dots_begin_with_the_day():
    months = ["01.01.2020", "01.02.2020", "01.03.2020", "01.04.2020"]
    frame = pd.DataFrame({"month": months, "level": 0.0}, index=range(1, 5))
    table = Table(Path("walk.csv"), frame, frozenset())
    times = read_times(table, "month", Rows(frame[["level"]], [4], []))
    assert list(pd.DatetimeIndex(times).month) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("form", "step", "last"),
    [
        ("%d/%m/%Y", "D", "2020-03-30"),
        ("%m/%d/%Y", "D", "2020-03-30"),
        ("%m/%d/%y", "D", "2020-03-30"),
        ("%d-%m-%Y", "D", "2020-03-30"),
        ("%d.%m.%Y", "D", "2020-03-30"),
        ("%d.%m.%y", "MS", "2027-06-01"),
        ("%d/%m/%Y", "MS", "2027-06-01"),  # 01/02/2020: no day is beyond the twelfth
        ("%b-%y", "MS", "2027-06-01"),
        ("%b %Y", "MS", "2027-06-01"),
        ("%Y-%m", "MS", "2027-06-01"),
        ("%G-W%V", "W-MON", "2021-09-20"),
        ("%Y%m%d", "D", "2020-03-30"),
        ("%Y%m", "MS", "2027-06-01"),
        ("%Y-%m-%dT%H:%M:%SZ", "D", "2020-03-30"),
        ("%d %B %Y", "D", "2020-03-30"),
    ],
)
def test_dates_as_people_write_them(form, step, last):
    days = pd.date_range("2020-01-01", periods=90, freq=step)
    texts = pd.Series(days.strftime(form))
    read = read_dates(pd.to_numeric(texts) if form in ("%Y%m%d", "%Y%m") else texts)
    assert list(read) == list(days)
    assert str(read.iloc[-1].date()) == last


@pytest.mark.parametrize(
    ("form", "step", "after"),
    [
        ("%YQ%q", "QS", ["2004Q1", "2004Q2"]),
        ("%Yq%q", "QS", ["2004q1", "2004q2"]),
        ("Q%q %Y", "QS", ["Q1 2004", "Q2 2004"]),
        ("%b %Y", "MS", ["May 2001", "Jun 2001"]),
        ("%b-%y", "MS", ["May-01", "Jun-01"]),
        ("%G-W%V", "W-MON", ["2000-W17", "2000-W18"]),
        ("%Y%m", "MS", ["200105", "200106"]),
        ("%d.%m.%Y", "D", ["17.01.2000", "18.01.2000"]),
    ],
)
def test_dates_that_follow_are_written_as_in_the_file(form, step, after):
    days = pd.date_range("2000-01-01", periods=16, freq=step)
    texts = pd.Series(written(days.to_numpy(), form))
    texts = pd.to_numeric(texts) if form == "%Y%m" else texts
    times = read_dates(texts).to_numpy()
    assert form_of(texts, times) == form
    assert list(written(times_ahead(times, 2), form)) == after


def test_dates_in_no_form_of_their_own():
    hours = pd.Series(["2020-01-01 10:00", "2020-01-01 11:00"])
    assert form_of(hours, read_dates(hours).to_numpy()) is None
    assert form_of(pd.Series([2001, 2002]), np.array([2001, 2002])) is None
    one = np.array(["NaT", "2020-01-01"], dtype="datetime64[ns]")
    assert pd.isna(written(one, "%YQ%q")).tolist() == [True, False]


def test_quarters_and_what_is_no_date():
    for form in ("Q{1} {0}", "{0}Q{1}", "{0}-Q{1}"):
        quarters = pd.Series([form.format(2000 + i // 4, i % 4 + 1) for i in range(9)])
        assert list(read_dates(quarters)) == list(pd.date_range("2000-01-01", periods=9, freq="QS"))
    assert read_dates(pd.Series(["soon", "2020-01-01"])).isna().tolist() == [True, False]
    for text in ("10:30", "9:05 PM", "10:30:05+02:00", "21-Feb", "3/4", "1st", "5a"):
        assert read_dates(pd.Series([text])).isna().all()  # pandas has today, or the year 1
    assert list(read_dates(pd.Series(["2020-01-01 10:30+02"]))) == [
        pd.Timestamp("2020-01-01 10:30")
    ]
    for numbers in ([100001, 100013], [1.5, 2.5], [1, 200], [20200101, 20200199], [np.nan, 5.0]):
        assert read_dates(pd.Series(numbers)).equals(pd.Series(numbers))


@pytest.mark.parametrize(
    ("times", "ahead"),
    [
        (["2020-01-31", "2020-02-29", "2020-03-31"], ["2020-04-30", "2020-05-31"]),
        (["2019-07-01", "2019-10-01", "2020-01-01"], ["2020-04-01", "2020-07-01"]),
        (["2020-01-02", "2020-01-03", "2020-01-06"], ["2020-01-07", "2020-01-08"]),
        # the first of May is a holiday, and the last day here is a Friday
        (["2020-04-29", "2020-04-30", *(f"2020-05-0{k}" for k in range(4, 9))],
         ["2020-05-11", "2020-05-12"]),
        (["2020-01-01", "2020-01-08", "2020-01-15", "2020-01-25"], ["2020-02-01", "2020-02-08"]),
        (["2020-01-01T10:00", "2020-01-01T10:30"], ["2020-01-01T11:00", "2020-01-01T11:30"]),
        (["2020-01-01"], ["NaT", "NaT"]),
        (["2020-01-15", "2020-02-15", "2020-03-15"], ["2020-04-15", "2020-05-15"]),
        # a month is missing
        (["2020-01-01", "2020-02-01", "2020-04-01", "2020-05-01"], ["2020-06-01", "2020-07-01"]),
        (["2020-01-31", "2020-02-29", "2020-04-30", "2020-05-31"], ["2020-06-30", "2020-07-31"]),
        (["2019-06-30", "2019-12-31", "2020-03-31", "2020-06-30"], ["2020-09-30", "2020-12-31"]),
        (["1996-06-05", "1998-06-05", "2000-06-05"], ["2002-06-05", "2004-06-05"]),
    ],
)  # fmt: skip
def test_dates_go_on_as_they_came(times, ahead):
    found = times_ahead(np.array(times, dtype="datetime64[ns]"), 2)
    np.testing.assert_array_equal(found, np.array(ahead, dtype="datetime64[ns]"))


def test_hours_through_the_end_of_winter_go_on():
    """Local time leaps an hour; two offsets stand in one column."""
    hours = pd.date_range("2024-03-31", periods=4, freq="h", tz="Europe/Berlin").astype(str)
    frame = pd.DataFrame({"hour": hours, "level": 0.0}, index=range(1, 5))
    table = Table(Path("walk.csv"), frame, frozenset())
    assert {text[-6:] for text in hours} == {"+01:00", "+02:00"}
    assert Rows.of(frame[["level"]], table, None).partial(["level"]) == []
    read = read_times(table, "hour", Rows(frame[["level"]], [4], []))
    assert str(times_ahead(read, 1)[0])[:13] == "2024-03-31T03"


def test_weeks_of_parquet_are_their_first_days():
    weeks = pd.Series(pd.period_range("1950-03-01", periods=3, freq="W"))
    assert [str(day)[:10] for day in read_dates(weeks)] == [
        "1950-02-27",
        "1950-03-06",
        "1950-03-13",
    ]


@pytest.mark.parametrize("summer", ["+02:00", "+03:00"])
def test_of_one_zone_local_times_go_on(summer):
    """In UTC the ends of months would be the evenings before, which are none."""
    months = ["2011-01-31T00:00+02:00", "2011-02-28T00:00+02:00", f"2011-03-31T00:00{summer}"]
    frame = pd.DataFrame({"month": months}, index=range(1, 4))
    read = read_times(Table(Path("walk.csv"), frame, frozenset()), "month", Rows(frame, [3], []))
    assert str(times_ahead(read, 1)[0])[:10] == "2011-04-30"


@pytest.mark.parametrize(("site", "pieces"), [("aaaaaa", "3"), ("aaabbb", None)])
def test_a_series_cut_where_rows_were_left_out_is_pointed_out(site, pieces, monkeypatch):
    """What comes next is told of each piece, which looks like a forecast of the file."""
    monkeypatch.setattr("kernelmean.app.tables.SMALLEST", 2)
    monkeypatch.setattr("kernelmean.app.series.FEW", 2)
    level = [1.0, np.nan, 2.0, np.nan, 3.0, 4.0] if pieces else np.arange(6.0)
    frame = pd.DataFrame({"level": level, "site": [*site]}, index=range(1, 7))
    settings = ssm.Settings(columns=["level"], sequence="site", drop_missing=True)
    said = settings.read(Table(Path("walk.csv"), frame, frozenset())).said
    assert len(said) == 2 * (pieces is not None)
    assert all(f"there are {pieces}," in text for text in said[1:])


@pytest.mark.parametrize(("sequence", "count"), [(None, 1), ("firm", 0)])
def test_times_that_stand_still_are_pointed_out(sequence, count):
    """Two firms year by year, whose rows were taken for one series; or a year beside quarters."""
    year = np.repeat([1990, 1991, 1992], 2) if sequence is None else [1990, 1991, 1992] * 2
    frame = pd.DataFrame({"y": 0.0, "firm": [*"aaabbb"], "year": year}, index=range(1, 7))
    table = Table(Path("walk.csv"), frame, frozenset())
    said = Rows.of(frame[["y"]], table, sequence, "year").partial(["y"])
    assert len(said) == count
    assert all("--sequence" in text for text in said)


@pytest.mark.parametrize(
    ("freq", "gone", "told"),
    [
        ("MS", [], None),  # 28 to 31 days
        ("MS", [20, 21, 60], (20, 2)),
        ("B", [], None),  # a weekend is no gap
        ("D", [39], None),  # the last
        ("QS", [1], (1, 1)),
    ],
)
def test_rows_that_are_absent_are_pointed_out(freq, gone, told):
    """Seasons are counted by rows, and were a month off from there on, without a word."""
    days = pd.date_range("2015-01-01", periods=100 if freq == "MS" else 40, freq=freq)
    frame = pd.DataFrame({"y": 0.0, "day": days.astype(str)}).drop(gone)
    frame.index = range(1, len(frame) + 1)
    table = Table(Path("walk.csv"), frame, frozenset())
    (*said,) = Rows.of(frame[["y"]], table, None, "day").said
    assert len(said) == (told is not None)
    assert all(f"After row {told[0]} 'day'" in text for text in said)
    assert all(f"({told[1]} such places)" in text for text in said)


@pytest.mark.parametrize("time", ["day", None])
@pytest.mark.parametrize(("twice", "told"), [([], None), ([3, 7], (5, "2015-01-04", 2))])
def test_dates_that_are_there_twice_are_pointed_out(time, twice, told):
    """Each is a step of time, so that all rows after it were one off, without a word."""
    days = pd.date_range("2015-01-01", periods=12, freq="D").astype(str)
    days = days.repeat(1 + np.isin(np.arange(12), twice))
    frame = pd.DataFrame({"y": 0.0, "day": days}, index=range(1, len(days) + 1))
    (*said,) = Rows.of(frame[["y"]], Table(Path("walk.csv"), frame, frozenset()), None, time).said
    assert len(said) == (told is not None)
    assert all(f"Row {told[0]} has the 'day' of the row above, {told[1]}" in text for text in said)
    assert all(f"({told[2]} such rows)" in text for text in said)


@pytest.mark.parametrize("command", [ssm, hmm])
@pytest.mark.parametrize("n", [20, 49, 50])
def test_that_rows_are_few_is_said(command, n):
    frame = pd.DataFrame({"level": np.arange(n + 1.0)}, index=range(1, n + 2))
    frame.loc[3, "level"] = np.nan
    said = command.Settings(["level"]).read(Table(Path("walk.csv"), frame, frozenset())).said
    assert [text for text in said if f"There are {n} rows without gaps" in text] == said
    assert len(said) == (n < 50)


def test_years_with_a_decimal_point_are_years():
    frame = pd.DataFrame({"year": [1990.0, 1991.0, 1992.0, 1993.0]}, index=range(1, 5))
    read = read_times(Table(Path("walk.csv"), frame, frozenset()), "year", Rows(frame, [4], []))
    assert [str(year) for year in times_ahead(read, 2)] == ["1994", "1995"]


def test_numbers_go_on_as_they_came():
    assert list(times_ahead(np.array([1990, 2000, 2010]), 2)) == [2020, 2030]


def test_what_comes_after_each_sequence_has_its_times():
    frame = pd.DataFrame({"level": np.arange(4.0)})
    days = pd.to_datetime(DAYS).to_numpy()
    many = Rows(frame, [2, 2], ["a", "b"], days, ("site", "day"))
    table = many.by_step({f"level_{end}": np.zeros(4) for end in ("mean", "lower", "upper")}, 2)
    assert list(table.columns[:3]) == ["site", "day", "step"]
    assert list(table["day"].astype(str)) == [
        "2020-02-01",
        "2020-02-02",
        "2020-02-03",
        "2020-02-04",
    ]
    grid = forecast_grid(table, 0.9, ["level"])
    assert grid.header[:3] == ["site", "day", "step"]
    assert grid.caption == "After the end of each sequence"
    assert list(grid.rows[0][:3]) == ["a", "2020-02-01", "1"]
    # a column of times that is called as another one is
    assert "step_" in Rows(frame, [4], [], days, (None, "step")).by_step({}, 2)


@pytest.mark.parametrize("command", [ssm, hmm])
@pytest.mark.parametrize("inputs", [None, ["rain"]])
def test_the_code_on_the_page_keeps_sequences_apart(command, inputs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"level": 1.0, "rain": 0.0, "site": list("bbbaa")}).to_csv("d.csv", index=False)
    settings = command.Settings(["level"], inputs=inputs, sequence="site")
    text = code(command.SAY, settings, "d.csv", imports="", level=0.9)
    reads = [line for line in text.splitlines() if " = " in line and "model" not in line]
    names: dict = {"pd": pd}
    exec("\n".join(reads), names)
    assert names["lengths"].tolist() == [3, 2]
    assert "(rows, lengths" in text
    assert len(names.get("ahead", names["rows"])) == 5  # of both sequences


def test_the_code_on_the_page_reads_the_file_as_the_command_did(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"level": [1.5, 2.5]}).to_csv("d.csv", index=False, sep=";", decimal=",")
    text = code(ssm.SAY, ssm.Settings(columns=["level"], sep=";", decimal=","), "d.csv", level=0.9)
    line = next(line for line in text.splitlines() if line.startswith("rows = "))
    assert eval(line.removeprefix("rows = "), {"pd": pd})["level"].tolist() == [1.5, 2.5]
    assert reading("d.parquet", "level", ";", ",") == "pd.read_parquet('d.parquet')['level']"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([3.0, 5.0, -999.0, 9.0, -999.0], "a is −999 in 2 of its rows (the first is row 3)"),
        ([3.0, np.nan, 5.0, 9999.0], "a is 9999 in 1 of its rows (the first is row 4)"),
        ([20.0, 99.0, 60.0, 35.0], None),  # years of age
        ([0.0, 0.0, 99.0], None),  # two values, either of which may be as it should
        ([3.0, 5.0, -1000.0, 9.0], None),
        ([99.0, 99.0], None),
        ([np.nan, np.nan], None),
    ],
)
def test_codes_of_missing_values_are_pointed_out(values, told):
    frame = pd.DataFrame({"a": values}, index=range(1, len(values) + 1))
    said = some_of(frame, frame)
    assert len(said) == (told is not None)
    assert all(text.startswith(str(told)) for text in said)


def test_a_narrow_terminal_cuts_no_number(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(terminal, "out", Console(width=60, file=text))
    terminal.show_block(Grid(["volume"] * 9, [["1,021,305"] * 9]), False)
    assert sum(c.isdigit() for c in text.getvalue()) == 9 * 7

"""The order of time in the rows of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernelmean.app.series import Rows, read_times
from kernelmean.app.tables import Table

DAYS = ["2020-01-30", "2020-01-31", "2020-02-01", "2020-02-02"]


def rows(times, name: str = "day", sequence: str | None = None) -> Rows:
    frame = pd.DataFrame({name: times, "level": np.arange(4.0), "site": list("aabb")})
    table = Table(Path("walk.csv"), frame.set_axis(range(1, 5)), frozenset())
    return Rows.of(table.frame[["level"]], table, sequence)


@pytest.mark.parametrize(
    ("times", "name"),
    [
        (DAYS[::-1], "day"),
        (["30.01.2020", "31.01.2020", "02.02.2020", "01.02.2020"], "Datum"),
        ([f"{day}T00:00:00+01:00" for day in DAYS[::-1]], "when"),
        (pd.to_datetime(DAYS[::-1]), "when"),
        ([2003, 2002, 2001, 2000], "Year"),
    ],
)
def test_a_file_whose_dates_go_back_is_spoken_of(times, name):
    """Its rows are taken in their order: shuffled, or the newest first, nothing can be forecast."""
    (said,) = rows(times, name).partial(["level"])
    assert f"column {name!r} of walk.csv goes back in row" in said


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

"""Tables that run backwards are refused by whatever learns from the order of rows."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

import kernelmean as km
from kernelmean.core import Labels
from kernelmean.core.sequences import check_forward

DAYS = pd.date_range("2020-01-01", periods=6)
WHOLE = [slice(0, 6)]
INDEXES = {
    "dates": DAYS,
    "dates of a place": DAYS.tz_localize("Europe/Berlin"),
    "periods": pd.period_range("2020-01", periods=6, freq="M"),
    "spans": pd.to_timedelta(np.arange(6), "h"),
    "numbers": pd.Index(np.arange(2000, 2006)),
    "rows": pd.RangeIndex(6),
}


def table(index) -> pd.DataFrame:
    return pd.DataFrame({"y": np.zeros(len(index))}, index=index)


@pytest.mark.parametrize("name", INDEXES)
def test_the_newest_first(name):
    index = INDEXES[name]
    check_forward(table(index), WHOLE)
    with pytest.raises(ValueError, match="the index of X goes back, from") as caught:
        check_forward(table(index[::-1]), WHOLE)
    assert f"{index[-1]} to {index[-2]}" in str(caught.value)
    check_forward(table(index[[3, 4, 5, 0, 1, 2]]), [slice(0, 3), slice(3, 6)])


def kept_otherwise() -> list[pd.Index]:
    """Days as `.dt.date` has them, and as Parquet files read by Arrow."""
    found = [pd.Index(DAYS.date), pd.Index([*DAYS], dtype=object)]
    if find_spec("pyarrow"):
        found += [DAYS.astype(f"{kind}[pyarrow]") for kind in ("timestamp[ns]", "date32[day]")]
    return found


@pytest.mark.parametrize("index", kept_otherwise(), ids=lambda index: str(index.dtype))
def test_dates_of_python_and_of_arrow_are_dates(index):
    check_forward(table(index), WHOLE)
    with pytest.raises(ValueError, match="goes back, from 2020-01-06 00:00:00 to 2020-01-05"):
        check_forward(table(index[::-1]), WHOLE)
    later = Labels.of(table(index)).ahead(2).index
    assert [*map(str, later)] == ["2020-01-07 00:00:00", "2020-01-08 00:00:00"]


def test_shuffled_dates_and_numbers():
    with pytest.raises(ValueError, match="from 2020-01-03 00:00:00 to 2020-01-02 00:00:00"):
        check_forward(table(DAYS[[0, 2, 1, 3, 4, 5]]), WHOLE)
    check_forward(table([4, 2, 3, 1, 0, 5]), WHOLE)  # may be numbers of rows


@pytest.mark.parametrize(
    "index",
    [DAYS[[0, 0, 1, 1, 2, 2]], list("fedcba"), [7] * 6, pd.DatetimeIndex([*DAYS[:5], pd.NaT])],
)
def test_others_are_taken(index):
    check_forward(table(index), WHOLE)
    check_forward(table(index).to_numpy(), WHOLE)
    check_forward(table(index)["y"], WHOLE)


@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
def test_every_estimator_of_series_refuses_them():
    y = np.sin(np.arange(60.0))
    ahead = pd.DataFrame({"y": y}, index=pd.date_range("2020-01-01", periods=60))
    few = km.EM(n_init=1, max_iter=2)
    models = [km.KernelStateSpace(em=few), km.KernelHMM(2, em=few)]
    for model in models:
        with pytest.raises(ValueError, match="the index of X goes back"):
            model.fit(ahead[::-1])
        model.fit(ahead)
        with pytest.raises(ValueError, match="the index of X goes back"):
            model.forecast(ahead[::-1], 2)
    kbf = km.KernelBayesFilter(inference="kbr")
    with pytest.raises(ValueError, match="the index of X goes back"):
        kbf.fit(ahead[::-1], y)
    with pytest.raises(ValueError, match="the index of Z goes back"):
        kbf.fit(y[:, None], ahead[::-1])
    with pytest.raises(ValueError, match="the index of X goes back"):
        kbf.fit(ahead, y).filter(ahead[::-1])

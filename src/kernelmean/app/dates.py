"""Dates as people write them."""

from typing import Any

import numpy as np
import pandas as pd

DIGITS = {8: "%Y%m%d", 6: "%Y%m"}  # dates that are written as whole numbers
FORMS = {r"\d{4}-W\d\d": "%G-W%V-%u", r"[A-Za-z]{3}-\d\d": "%b-%y"}  # what pandas misreads
QUARTER = r"(?i)^(?:Q([1-4])[ -]?(\d{4})|(\d{4})[ -]?Q([1-4]))$"
DOTTED = r"\d{1,2}\.\d{1,2}\.\d\d"
ZONE = r":\d\d(?:\.\d+)?([+-]\d\d(?::?\d\d)?)$"
CLOCK = r"[T ](.*)[+-][\d:]+$"  # the hour before the zone
HOUR = r"\d\d?:\d\d[\d:.,]*(?: ?[AaPp][Mm]|Z|[+-][\d:]+)?"  # of no day; pandas takes today
NUMBERS = r"\d{1,2}[/-]\d{1,2}[/-]\d{2,4}"  # in either order of day and month
WRITTEN = (  # forms that are kept in tables of results; others are written as 2024-02-01
    *("%YQ%q", "%Y-Q%q", "%Y Q%q", "%Yq%q", "Q%q %Y", "Q%q-%Y", "%G-W%V", "%b-%y", "%b %Y"),
    *("%B %Y", "%Y-%m", "%Y/%m", "%m/%Y", "%Y%m", "%Y%m%d"),
    *("%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y"),
)


def read_dates(column: pd.Series) -> pd.Series:
    """Numbers as they are, dates from text, NaT where there is none; of several zones, in UTC.

    Local times of one and the same hour stay local: midnight in Berlin is no day of UTC.

    1.2.2024 is in February; 1/2/2024 is, where rows are then further apart by the same; 20240201
    and 202402 are dates too, where all of a column may be.
    """
    if pd.api.types.is_numeric_dtype(column):
        return _of_digits(column)
    if isinstance(column.dtype, pd.PeriodDtype):
        return column.dt.to_timestamp()
    text = column.astype(str)
    zones, hours = text.str.extract(ZONE)[0], text.str.extract(CLOCK)[0]
    if zones.nunique() == 1 or (zones.notna().all() and hours.nunique() == 1):
        local = text.str.replace(r"[+-][\d:]+$", "", regex=True)  # ends of months stay such
        text = text.where(zones.isna(), local)
    if text.str.match(QUARTER).all():
        quarters = pd.PeriodIndex(text.str.replace(QUARTER, r"\2\3Q\1\4", regex=True), freq="Q")
        return pd.Series(quarters.to_timestamp(), column.index)
    for pattern, form in FORMS.items():
        if text.str.fullmatch(pattern).all():
            return pd.to_datetime(text + "-1" * form.endswith("u"), format=form, errors="coerce")
    if text.str.match(DOTTED).any():
        return _read(text, day_first=True)
    found = _read(text)
    if text.str.match(NUMBERS).any():
        return min(found, _read(text, day_first=True), key=_unevenness)
    return found


def form_of(column: pd.Series, dates: np.ndarray) -> str | None:
    """The form in which the dates that were read give back what is written; None of numbers."""
    if dates.dtype.kind != "M":
        return None
    digits = pd.api.types.is_numeric_dtype(column)
    text = column.map("{:.0f}".format) if digits else column.astype(str)
    return next((form for form in WRITTEN if (written(dates, form) == text).all()), None)


def written(dates: np.ndarray, form: str) -> np.ndarray:
    """Dates as text; NaN where there is none."""
    days: Any = pd.DatetimeIndex(dates)  # which know no quarters, as periods know no weeks
    return (days.to_period("D") if "%q" in form else days).strftime(form).to_numpy()


def _of_digits(column: pd.Series) -> pd.Series:
    """Whole numbers of eight or six digits as dates, where every one is such a date."""
    known = column.dropna()
    digits = {len(f"{v:.0f}") for v in known} if (known % 1 == 0).all() else set()
    form = DIGITS.get(digits.pop()) if len(digits) == 1 else None
    if form is None:
        return column
    dates = pd.to_datetime(known.map("{:.0f}".format), format=form, errors="coerce")
    plausible = dates.notna().all() and dates.dt.year.between(1700, 2200).all()
    return dates.reindex(column.index) if plausible else column


def _read(text: pd.Series, day_first: bool = False) -> pd.Series:
    """Dates; of what has no year, or no day, there is none."""
    read = pd.to_datetime(text, errors="coerce", format="mixed", dayfirst=day_first, utc=True)
    return read.where((read.dt.year > 1) & ~text.str.fullmatch(HOUR)).dt.tz_localize(None)


def _unevenness(times: pd.Series) -> float:
    """How much the distances of rows differ."""
    gaps = np.diff(times.dropna().to_numpy()).astype(float)
    return float(gaps.std()) if len(gaps) else 0.0

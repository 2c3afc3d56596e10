"""Numbers, names and kernels in the words of a report."""

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from importlib.resources import files
from operator import getitem
from typing import Any

import numpy as np

from ..core import Rows
from ..core.checks import counted
from ..core.summary import CATEGORY, in_short

MODEL = "model.km"
SHOWN = 12  # rows in a table
LEFT_OUT = "left out"  # rows with a missing value, among what is noted at a table
CODE = re.compile(r"-?99+\.0")  # of missing values, where it is far off
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Texts:
    """The sentences of a report, from `texts/NAME.toml`; `{words}` in them are filled in."""

    name: str

    @cached_property
    def content(self) -> dict[str, Any]:
        """Sentences by name."""
        source = files("kernelmean.app") / "texts" / f"{self.name}.toml"
        return tomllib.loads(source.read_text(encoding="utf-8"))

    def __call__(self, *keys: str, **known: Any) -> str:
        """One of them, of a table where there are more keys, filled in."""
        text: Any = reduce(getitem, keys, self.content)
        return " ".join(text.split()).format_map(known)

    def code(self, key: str, imports: str = "", **known: Any) -> str:
        """Lines that begin with loading the model."""
        head = f"{imports}import pandas as pd, kernelmean as km\n\nmodel = km.load({MODEL!r})\n"
        return head + self.content[key].strip().format_map(known)

    def all(self, key: str, **known: Any) -> list[str]:
        """A list of them."""
        return [" ".join(text.split()).format_map(known) for text in self.content[key]]

    def those(self, found: Mapping[str, Any], **known: Any) -> list[str]:
        """Those that are found to hold."""
        return [self(key, **known) for key, holds in found.items() if holds]

    def facts(self, values: Mapping[str, Any], **known: Any) -> list[tuple[str, str, str]]:
        """Name, value and meaning; without those whose value is None."""
        told = ((name, value) for name, value in values.items() if value is not None)
        return [(name, value, self("facts", name, **known)) for name, value in told]


def number(value: Any, digits: int = 3) -> str:
    """A number for reading: `digits` significant digits, thousands apart.

    >>> number(1234.5678), number(0.00012345), number(-0.5), number(12)
    ('1,235', '1.23 × 10⁻⁴', '−0.500', '12')
    """
    if isinstance(value, int):
        return minus(f"{value:,}")
    value = float(value)
    if value == 0 or not math.isfinite(value):
        return minus(f"{value:z.0f}")
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    exponent = int(power)
    if not -4 < exponent < 9:
        return minus(f"{mantissa} × 10{str(exponent).translate(SUPERSCRIPTS)}")
    return minus(f"{value:,.{max(0, digits - 1 - exponent)}f}")


def amount(every: Any, noun: str = "row") -> str:
    """How many rows a table has, or those that are read in blocks."""
    return counted(every.n if isinstance(every, Rows) else len(every), noun)


def some_of(rows: Any, every: Any) -> list[str]:
    """What to say where some rows are looked at, and all, or all without a gap, learned from."""
    looked = f"Pictures, shares and tests are of {len(rows):,} of the {amount(every)}"
    fewer = isinstance(every, Rows) and len(rows) < every.n
    told = [f"{looked}; the model is of all of them."] if fewer else left_out(every)
    return [*told, *codes(rows)]


def left_out(rows: Any) -> list[str]:
    """What to say of a table that lacks rows of its file."""
    gone = getattr(rows, "attrs", {}).get(LEFT_OUT, 0)
    missing = "which have a missing value (--drop-missing)"
    return [f"Left out are {gone:,} of {gone + len(rows):,} rows, {missing}."] if gone else []


def codes(rows: Any) -> Iterator[str]:
    """What to say of numbers like -999, further from all others than these are from each other."""
    for name, column in rows.items():
        for end in (column.min(), column.max()):
            here, others = column[column == end], column[column != end]
            apart = abs(others - end).min() > others.max() - others.min() > 0
            if apart and CODE.fullmatch(str(float(end))):
                known = {"end": given(end), "count": len(here), "row": here.index[0]}
                yield Texts("shared")("code", name=name, **known)


def edges(known: Any, table: Any) -> list[str]:
    """What to say of columns that are nowhere below zero, where their intervals in a table are."""
    found = [c for c in known if known[c].min() >= 0 and (table[f"{c}_lower"] < 0).any()]
    said = f"No row has {names(found)} below zero, yet intervals reach there: they know no edge"
    return [f"{said}. Logarithms of positive numbers, logits of shares have none."] if found else []


def minus(text: str) -> str:
    """A minus sign in place of each hyphen."""
    return text.replace("-", "−")


def numbers(values: Iterable[float], digits: int = 3) -> list[str]:
    """Several numbers with as many decimals as their spread calls for, so that they align.

    >>> numbers([8.1, 8.25, 7.9]), numbers([-0.001, 5.0]), numbers([2e-6, 3e-6])
    (['8.100', '8.250', '7.900'], ['0.00', '5.00'], ['2.000 × 10⁻⁶', '3.000 × 10⁻⁶'])
    """
    values = [float(v) for v in values]
    finite = [v for v in values if math.isfinite(v)]
    largest = max(map(abs, finite))
    spread = (max(finite) - min(finite)) or largest or 1.0
    decimals = digits - 1 - math.floor(math.log10(spread))
    if decimals > 8 or spread >= 1e9 or 0 < largest < 1e-3:
        return [number(v, digits + 1) for v in values]
    return [minus(f"{v:z,.{max(0, decimals)}f}") for v in values]


def cells(table: Any) -> np.ndarray:
    """A table of numbers that align with each other, as texts."""
    table = np.asarray(table, dtype=float)
    return np.reshape(np.array(numbers(table.ravel()), dtype=object), table.shape)


def signed(value: float) -> str:
    """A change, with its sign."""
    return number(value) if value <= 0 else f"+{number(value)}"


def percent(share: float) -> str:
    """'90%'; what is nearly all, or nearly nothing, is not said to be.

    >>> percent(0.9), percent(0.999), percent(1.0), percent(0.001)
    ('90%', '> 99%', '100%', '< 1%')
    """
    if 0 < share < 0.005:
        return "< 1%"
    return "> 99%" if 0.995 <= share < 1 else f"{100 * share:.0f}%"


def level_words(level: float) -> str:
    """'97.5%': a level as it was given."""
    return f"{100 * level:g}%"


def p_words(p: float) -> str:
    """A p-value: nobody needs its exponent."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _shortened(told: list[str]) -> list[str]:
    """The first of many, and how many more there are."""
    more = len(told) - SHOWN
    return [*told[:SHOWN], f"{more:,} more"] if more > 0 else told


def names(columns: Sequence[Any], code: bool = False) -> str:
    """'a, b and c', set as code where asked for; of many not all.

    >>> names("ab", code=True), names("abcdefghijklmnop")
    ('`a` and `b`', 'a, b, c, d, e, f, g, h, i, j, k, l and 4 more')
    """
    told = dict.fromkeys(in_short([*map(str, columns)]).values())
    *first, last = _shortened([f"`{c}`" if code else c for c in told] or [""])
    return f"{', '.join(first)} and {last}" if first else last


def given(value: float) -> str:
    """A value that a column has, which is not rounded to look like an estimate.

    >>> given(39.0), given(33.773), given(-30_000.0), given(2e-5)
    ('39', '33.77', '−30,000', '2.000 × 10⁻⁵')
    """
    text = f"{value:.4g}"
    return number(value, 4) if "e" in text else minus(text)


def values_words(values: Any) -> str:
    """'a = 1; b = 2.5', of a mapping or a row of a table; of the columns of a category, which.

    >>> values_words({"x": 2.5, "C(a)[T.u]": 0.0, "C(a)[T.v]": 1.0, "C(b)[T.v]": 0.0})
    'x = 2.5; C(a) = v; C(b) = its first value'
    """
    told: dict[str, str] = {}
    for name, value in values.items():
        if (column := CATEGORY.fullmatch(str(name))) and value in (0, 1):
            category, level = column.groups()
            told[category] = level if value else told.get(category, "its first value")
        else:
            told[name] = given(value)
    return "; ".join(_shortened([f"{name} = {text}" for name, text in told.items()]))


def of_file(sentences: Iterable[str], index: Any) -> list[str]:
    """Sentences of the library on some rows, which it counts from 0, with those of a file."""
    own = partial(re.sub, r"\brow (\d+)", lambda m: f"row {index[int(m[1])]}")
    return [*map(own, sentences)]


def first_of(table: Any) -> str:
    """' (the first 12 of 40 rows)', where a table is cut."""
    return f" (the first {SHOWN} of {len(table):,} rows)" if len(table) > SHOWN else ""


def distinct(table: Any, first: Any) -> Any:
    """The rows of a table, or numbers of a series, that differ; of the same ones `first` stays."""
    order = sorted(table.index, key=lambda label: label != first)
    return table.loc[table.index.isin(table.loc[order].drop_duplicates().index)]


def reading(source: str, columns: Sequence[str] | str, sep: str, decimal: str) -> str:
    """Code that reads columns of a file, or one of them, with the marks of a CSV file."""
    parquet = source.endswith((".parquet", ".pq"))
    marks = "" if sep == "," else f", sep={sep!r}"
    marks += "" if decimal == "." else f", decimal={decimal!r}"
    reader, marks = ("read_parquet", "") if parquet else ("read_csv", marks)
    asked = columns if isinstance(columns, str) else list(columns)
    return f"pd.{reader}({source!r}{marks})[{asked!r}]"


def some_rows(columns: Sequence[str]) -> str:
    """Code of a table to be filled in."""
    return f"pd.DataFrame({{{', '.join(f'{c!r}: [...]' for c in columns)}}})"

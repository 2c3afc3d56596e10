"""A fitted model in words and numbers: text on a terminal, a table in a notebook."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Self

import numpy as np

from .labels import pandas

SHOWN = 6  # columns of one category that are each told by name
VALUE = r"\[T\.([^]]*)\]"  # that a column of one stands for
CATEGORY = re.compile(rf"([^[]+){VALUE}")  # such a column


@dataclass(frozen=True)
class Line:
    """A quantity by name: its value, and how it reads."""

    name: str
    value: Any
    text: str

    @classmethod
    def of(cls, name: str, value: Any, note: str = "") -> Self:
        """A number to four digits, or several, and a word on it."""
        return cls(name, value, numbers(value) + note)

    @classmethod
    def chosen(cls, name: str, value: float, given: Any) -> Self:
        """A parameter, and whether it was given or chosen by the fit."""
        return cls.of(name, value, " (chosen)" if given is None else " (given)")

    @classmethod
    def listed(cls, name: str, names: Sequence[str]) -> Self:
        """Names, one after the other."""
        shown = dict.fromkeys(in_short(names).values())
        return cls(name, ", ".join(names) or "none", ", ".join(shown) or "none")


def in_short(names: Sequence[str]) -> dict[str, str]:
    """How each name is told: columns of a category, "C(a)[T.1]", as one where they are many.

    >>> set(in_short([f"C(a)[T.{j}]" for j in range(1, 60)]).values())
    {'C(a) (60 values)'}
    """
    of = {name: re.sub(VALUE, "", name) for name in names}
    count = Counter(of.values())
    return {k: f"{v} ({count[v] + 1} values)" if count[v] > SHOWN else k for k, v in of.items()}


def numbers(values: Any) -> str:
    """One number, or several, to four digits."""
    return ", ".join(f"{value:.4g}" for value in np.atleast_1d(values))


def kernel_lines(kernel: Any, names: Sequence[str]) -> list[Line]:
    """The kernel, and its lengthscale along each column; of `on_columns`, each with its own."""
    if parts := getattr(kernel, "parts", ()):
        own = [[names[j] for j in columns] for columns, _ in parts]
        told = [kernel_lines(k, some) for (_, k), some in zip(parts, own, strict=True)]
        whose = (f"{k[0].text} of {', '.join(some)}" for k, some in zip(told, own, strict=True))
        return [Line("kernel", kernel, "; ".join(whose)), *(line for k in told for line in k[1:])]
    scale = getattr(kernel, "lengthscale", None)
    if scale is None:
        return [Line("kernel", kernel, repr(kernel))]
    scales: dict[str, list[float]] = {}  # columns of a category, where they are many, on one line
    each, short = np.broadcast_to(np.asarray(scale, dtype=float), len(names)), in_short(names)
    for name, one in zip(names, each, strict=True):
        scales.setdefault(short[name], []).append(float(one))
    along = [_lengthscales(*told) for told in scales.items()]
    inner = getattr(kernel, "kernel", kernel)  # of one on bent scales
    return [Line("kernel", kernel, type(inner).__name__), *along]


def _lengthscales(name: str, scales: list[float]) -> Line:
    name, least, most = f"lengthscale of {name}", min(scales), max(scales)
    one = len(scales) == 1
    return Line.of(name, least) if one else Line(name, scales, f"{least:.4g} to {most:.4g}")


@dataclass(frozen=True)
class Block:
    """Lines under a heading."""

    name: str
    lines: Sequence[Line]


class Summary(str):
    """The text of a summary, which also shows as HTML and as a table.

    Attributes
    ----------
    heading : str
    blocks : list of Block
        Headings, each with named values.
    """

    heading: str
    blocks: list[Block]

    def __new__(cls, title: str, blocks: Sequence[Block]) -> Self:
        """From a title and blocks of lines."""
        width = max(len(line.name) for block in blocks for line in block.lines)
        rows = [title, "=" * len(title)]
        for block in blocks:
            rows += ["", block.name, "-" * len(block.name)]
            rows += [f"{line.name:<{width}}  {line.text}" for line in block.lines]
        text = super().__new__(cls, "\n".join(rows))
        text.heading, text.blocks = title, list(blocks)
        return text

    def __getnewargs__(self) -> tuple[Any, ...]:
        """What a copy is made of."""
        return self.heading, self.blocks

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        left, rows = 'style="text-align:left"', ""
        for block in self.blocks:
            rows += f'<tr><th colspan="2" {left}>{escape(block.name)}</th></tr>'
            for line in block.lines:
                cells = (f"<td {left}>{escape(text)}</td>" for text in (line.name, line.text))
                rows += f"<tr>{''.join(cells)}</tr>"
        return f"<table><caption>{escape(self.heading)}</caption>{rows}</table>"

    @property
    def table(self) -> Any:
        """The values as a DataFrame with one column, indexed by heading and name."""
        pd = pandas()
        rows = [(b.name, line.name, line.value) for b in self.blocks for line in b.lines]
        index = pd.MultiIndex.from_tuples([row[:2] for row in rows], names=["section", "quantity"])
        return pd.DataFrame({"value": [row[2] for row in rows]}, index=index, dtype=object)

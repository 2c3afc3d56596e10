"""HTML pages that need nothing but themselves: text, tables, numbers and figures."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .. import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

STYLE: Any = {
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.labelcolor": "#222222",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "svg.fonttype": "path",
    "svg.hashsalt": "kernelmean",  # the same figure is the same file
}


@dataclass(frozen=True)
class Prose:
    """A paragraph. `[text]` in backquotes is set as code."""

    text: str
    kind: str = "prose"


@dataclass(frozen=True)
class Note:
    """A paragraph that stands out: what the reader must not overlook."""

    text: str
    kind: str = "note"


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]
    kind: str = "bullets"


@dataclass(frozen=True)
class Code:
    """Lines to type."""

    text: str
    kind: str = "code"


@dataclass(frozen=True)
class Grid:
    """A table of numbers.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of sequences of str
    caption : str
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    kind: str = "grid"


@dataclass(frozen=True)
class Numbers:
    """Named numbers, each with a sentence on what it means.

    Parameters
    ----------
    rows : sequence of (name, value, meaning)
    """

    rows: Sequence[tuple[str, str, str]]
    kind: str = "numbers"


@dataclass(frozen=True)
class Figure:
    """A drawing with a caption.

    Parameters
    ----------
    drawing : matplotlib Figure
    caption : str
    name : str
        Of the PNG file, without its ending.
    """

    drawing: Drawing
    caption: str
    name: str
    kind: str = "figure"

    @property
    def source(self) -> str:
        """The drawing as an address that holds it."""
        return f"data:image/svg+xml;base64,{base64.b64encode(_saved(self.drawing, 'svg')).decode()}"

    def png(self) -> bytes:
        """The drawing as a PNG file."""
        return _saved(self.drawing, "png")


Block = Prose | Note | Bullets | Code | Grid | Numbers | Figure


@dataclass(frozen=True)
class Section:
    """A heading with blocks beneath it."""

    title: str
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        """The name by which a link finds the section."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


@dataclass(frozen=True)
class Page:
    """A whole page.

    Parameters
    ----------
    title, subtitle : str
    lead : sequence of blocks
        What stands before the first section.
    sections : sequence of Section
    contents : bool
        Whether a list of the sections opens the page.
    """

    title: str
    subtitle: str
    lead: Sequence[Block] = ()
    sections: Sequence[Section] = field(default_factory=tuple)
    contents: bool = False

    def html(self) -> str:
        """The page as one string, with no reference to anything outside it."""
        import jinja2

        environment = jinja2.Environment(
            loader=jinja2.PackageLoader("kernelmean.app"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
        )
        environment.filters["inline"] = _inline
        now = datetime.now(UTC).strftime("%d %B %Y")
        template = environment.get_template("page.html")
        return template.render(page=self, version=__version__, date=now)

    def figures(self) -> list[Figure]:
        """Every figure of the page, in order."""
        blocks = [*self.lead, *(b for section in self.sections for b in section.blocks)]
        return [b for b in blocks if isinstance(b, Figure)]


SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: Any, digits: int = 3) -> str:
    """A number for reading: `digits` significant digits, thousands apart.

    >>> number(1234.5678), number(0.00012345), number(-0.5), number(12)
    ('1,235', '1.23 × 10⁻⁴', '−0.500', '12')
    """
    if isinstance(value, int):
        return _minus(f"{value:,}")
    if value == 0 or not math.isfinite(value):
        return _minus(f"{value:.0f}")
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    exponent = int(power)
    if not -4 < exponent < 9:
        return _minus(f"{mantissa} × 10{str(exponent).translate(SUPERSCRIPTS)}")
    return _minus(f"{value:,.{max(0, digits - 1 - exponent)}f}")


def _minus(text: str) -> str:
    return text.replace("-", "−")


def numbers(values: Iterable[float], digits: int = 3) -> list[str]:
    """Several numbers with as many decimals as their spread calls for, so that they align.

    >>> numbers([8.1, 8.25, 7.9])
    ['8.100', '8.250', '7.900']
    """
    values = [float(v) for v in values]
    finite = [v for v in values if math.isfinite(v)]
    spread = (max(finite) - min(finite)) or abs(finite[0]) or 1.0
    decimals = digits - 1 - math.floor(math.log10(spread))
    if decimals > 8 or spread >= 1e9:
        return [number(v, digits + 1) for v in values]
    return [_minus(f"{v:,.{max(0, decimals)}f}") for v in values]


def canvas(width: float = 6.8, height: float = 3.9) -> tuple[Any, Any]:
    """A drawing of one panel, and its axes; nothing global is touched."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawing

    with mpl.rc_context(STYLE):
        drawing = Drawing(figsize=(width, height), layout="constrained")
        return drawing, drawing.subplots()


def _saved(drawing: Drawing, form: str) -> bytes:
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata = {"Date": None} if form == "svg" else {}
    with mpl.rc_context(STYLE):
        drawing.savefig(buffer, format=form, dpi=200, metadata=metadata)
    return buffer.getvalue()


def _inline(text: str) -> Any:
    """Escape `text`, then set what stands between backquotes as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))

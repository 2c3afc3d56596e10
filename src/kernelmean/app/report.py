"""What a command found: blocks, which the terminal and the page show alike."""

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self

from ..core import Line, Rows, Summary, checks
from .files import Content
from .words import Texts

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
    "text.parse_math": False,  # columns are called what they are called, dollars and all
}

Fact = tuple[str, str, str]  # name, value, meaning


@dataclass(frozen=True)
class Prose:
    """A paragraph. `[text]` in backquotes is set as code."""

    text: str


class Note(Prose):
    """A paragraph that stands out: what the reader must not overlook."""


class Code(Prose):
    """Lines to type."""


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]


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

    @classmethod
    def of(cls, columns: Sequence[tuple[str, Any]], caption: str) -> Self:
        """From columns, each with its heading; a heading may repeat."""
        header, texts = zip(*columns, strict=True)
        return cls(list(header), list(zip(*texts, strict=True)), caption)


@dataclass(frozen=True)
class Numbers:
    """Named numbers, each with a sentence on what it means.

    Parameters
    ----------
    rows : sequence of (name, value, meaning)
    caption : str
    """

    rows: Sequence[Fact]
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """Something that draws.

    Parameters
    ----------
    name : str
        Of the PNG file, without its ending.
    caption : str
    plot : callable
        Takes the axes: one, or an array of them where `shape` is given.
    height, width : float
        In inches.
    shape : (rows, columns), optional
        Of panels; those that nothing is drawn on are left out.
    shared : str
        Axes that the panels have in common: "", "x" or "xy".
    """

    name: str
    caption: str
    plot: Callable[[Any], Any]
    height: float = 3.9
    width: float = 6.8
    shape: tuple[int, int] | None = None
    shared: str = ""

    @cached_property
    def drawing(self) -> Any:
        """The drawing; nothing global is touched."""
        import matplotlib as mpl
        from matplotlib.figure import Figure as Drawing

        with mpl.rc_context(STYLE):
            drawing = Drawing((self.width, self.height), dpi=200, layout="constrained")
            down, across = self.shape or (1, 1)
            x, y = "x" in self.shared, "y" in self.shared
            panels = drawing.subplots(down, across, squeeze=False, sharex=x, sharey=y)
            self.plot(panels.ravel() if self.shape else panels[0, 0])
            for axes in panels.flat:
                if not axes.has_data():
                    axes.set_axis_off()
                _plain_logarithms(axes)
        return drawing

    @cached_property
    def svg(self) -> bytes:
        """The content of an SVG file; letters that the font lacks are of the reader's fonts."""
        try:
            return self._printed("error")
        except UserWarning:
            return self._printed("ignore", **{"svg.fonttype": "none"})

    def _printed(self, unknown: Literal["error", "ignore"], **style: Any) -> bytes:
        """The same, as outlines unless told; what to do with warnings of letters."""
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        buffer = io.BytesIO()
        with mpl.rc_context(STYLE | style), warnings.catch_warnings():
            warnings.filterwarnings(unknown, "Glyph .* missing from")
            # `savefig` draws once more before, to lay out what this does
            FigureCanvasSVG(self.drawing).print_svg(buffer, metadata={"Date": None})
        return buffer.getvalue()


def _plain_logarithms(axes: Any) -> None:
    """Powers of ten without mathematics: nothing else on the axes is to be parsed as such."""
    from matplotlib.ticker import LogFormatter, LogFormatterMathtext

    for axis in (axes.xaxis, axes.yaxis):
        if isinstance(axis.get_major_formatter(), LogFormatterMathtext):
            axis.set_major_formatter(LogFormatter())
            axis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))


Block = Prose | Note | Bullets | Code | Grid | Numbers | Figure


@dataclass(frozen=True)
class Section:
    """A heading with blocks beneath it; `folded` away where it is not the answer."""

    title: str
    blocks: Sequence[Block]
    folded: bool = False


def anchor(text: str) -> str:
    """Letters and digits only: for links, and names of files."""
    return re.sub(r"[^\w]+", "-", text.lower()).strip("-")


@dataclass(frozen=True)
class Report:
    """The answer of a command.

    Parameters
    ----------
    title, subtitle : str
    lead : sequence of blocks
        What stands before the first section: the answer in a sentence.
    sections : sequence of Section
    files : mapping
        From a name to its text or bytes, to a function of the path to write to, to a `Rows` of
        tables, for a folder of as many files, or to None: one of a run before, or those of a
        pattern, are taken away.
    page : str
        The file of the page; none where it is empty.
    contents : bool
        Whether a list of the sections opens the page.
    after : callable, optional
        What is left to do when all is written and said; takes the folder.
    """

    title: str
    subtitle: str = ""
    lead: Sequence[Block] = ()
    sections: Sequence[Section] = field(default_factory=tuple)
    files: Mapping[str, Content | Rows] = field(default_factory=dict)
    page: str = "report.html"
    contents: bool = False
    after: Callable[[Path], Any] | None = None

    @property
    def parts(self) -> dict[str, Rows]:
        """What is written block by block, after all else."""
        return {name: c for name, c in self.files.items() if isinstance(c, Rows)}

    def figures(self) -> list[Figure]:
        """Every figure, in order."""
        every = chain(self.lead, *(section.blocks for section in self.sections))
        return [block for block in every if isinstance(block, Figure)]


def account(
    say: Texts, summary: Callable[[], Summary], own: Sequence[Fact] = (), **known: str
) -> list[Numbers]:
    """Facts of a command's own, and what the model's summary says, with the meaning of each line.

    Meanings stand among the `facts` of the texts, by how the name of a line begins.
    """
    texts = [*say.content.get("facts", {}).items(), *Texts("shared").content["facts"].items()]

    def told(line: Line) -> Fact:
        meaning = next((text for start, text in texts if line.name.startswith(start)), "")
        text = re.sub(r"(?<![\w-])-(?=\d|inf\b)", "−", line.text)
        return line.name, text, " ".join(meaning.split()).format_map(known)

    with checks.hushed():
        blocks = summary().blocks
    said = [Numbers([told(line) for line in block.lines], block.name) for block in blocks]
    return [Numbers(own), *said] if own else said


def analysis(
    say: Texts,
    title: str,
    subtitle: str,
    lead: Sequence[str],
    notes: Sequence[str],
    shown: Mapping[str, Sequence[Block]],
    fit: Sequence[Block],
    code: Sequence[str],
    files: Mapping[str, Any],
    known: Sequence[str] | None = None,
) -> Report:
    """The shape that all analyses share: the answer, what to be wary of, then what is folded away.

    Parameters
    ----------
    say : Texts
        Its `about` and `caveats` are shown, unless `known` stands in place of the latter.
    title, subtitle : str
    lead, notes : sequences of str
        The answer in sentences; what the reader must not overlook.
    shown : mapping
        Blocks by the title of their section; empty ones are left out.
    fit : sequence of blocks
        Regularisers, losses and the like.
    code : sequence of str
        How to go on in Python.
    files : mapping
        As for `Report`.
    known : sequence of str, optional
    """
    said = [*(Prose(text) for text in lead if text), *(Note(text) for text in notes)]
    caveats = Bullets(say.all("caveats") if known is None else known)
    sections = [
        *(Section(title, blocks) for title, blocks in shown.items() if blocks),
        Section("Before you rely on it", [caveats]),
        Section("The fit in numbers", fit, folded=True),
        Section("Using the model", [Prose(say("about")), *map(Code, code)], folded=True),
    ]
    return Report(title, subtitle, said, sections, files)

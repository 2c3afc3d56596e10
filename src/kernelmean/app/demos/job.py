"""A job of the demo: a question, tables, and the command that answers it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pandas as pd

from ..command import Command
from ..report import Block, Code, Grid, Note, Numbers, Prose, Report, Section
from ..words import Texts

Tables = Mapping[str, pd.DataFrame]
COMMANDS = f"{__name__.rpartition('.')[0].rpartition('.')[0]}.commands"


@dataclass(frozen=True)
class Job:
    """A question about real data.

    Parameters
    ----------
    name : str
        Of its texts: `question`, `source` and, where there is one, `note`.
    title : str
    tables : callable
        Makes the tables, by the name of their file.
    line : str
        What is typed after `kernelmean`, in the folder of the tables.
    shown : sequence of str
        Names of the figures, and titles of the sections whose tables are shown.
    beside : callable, optional
        Of the tables: blocks on how others do.
    """

    name: str
    title: str
    tables: Callable[[], Tables]
    line: str
    shown: Sequence[str]
    beside: Callable[[Tables], list[Block]] | None = None

    def section(self, folder: Path, quick: bool) -> Section:
        """Write the tables, do what the line says, and show the answer."""
        tables, say = self.tables(), Texts(self.name)
        for name, table in tables.items():
            table.to_csv(folder / name, index=False)
        command, *words = shlex.split(self.line)
        report = command_called(command).answer([_placed(w, tables, folder) for w in words])
        blocks = [Prose(say("question")), *report.lead, *self._chosen(report)]
        if self.beside is not None and not quick:
            blocks += self.beside(tables)
        if "note" in say.content:
            blocks.append(Note(say("note")))
        return Section(self.title, [*blocks, Code(f"kernelmean {self.line}"), Prose(say("source"))])

    def _chosen(self, report: Report) -> list[Block]:
        """Figures by name, tables by section, in the order of `shown`."""
        found: dict[str, list[Block]] = {figure.name: [figure] for figure in report.figures()}
        for section in report.sections:
            found[section.title] = [b for b in section.blocks if isinstance(b, Grid | Numbers)]
        return [block for name in self.shown for block in found[name]]


def command_called(name: str) -> Command:
    """A command of the console."""
    return import_module(f"{COMMANDS}.{name}").COMMAND


def _placed(word: str, tables: Tables, folder: Path) -> str:
    return str(folder / word) if word in tables else word

"""A job of the demo: a question, tables, and the command that answers it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pandas as pd

from ..report import Block, Code, Grid, Note, Numbers, Prose, Report, Section
from ..words import Texts

Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Job:
    """A question about real data.

    Its title, its line (what is typed after `kernelmean`, in the folder of the tables) and what is
    shown (names of figures, and titles of sections for their tables) are in its texts, beside
    `question`, `source` and, where there is one, `note`.

    Parameters
    ----------
    title, line : str
    say : Texts
    tables : callable
        Makes the tables, by the name of their file.
    beside : callable, optional
        Of the tables: blocks on how others do.
    """

    title: str
    line: str
    say: Texts
    tables: Callable[[], Tables]
    beside: Callable[[Tables], list[Block]] | None

    @classmethod
    def of(cls, name: str) -> Job:
        """By the name of its texts, and of the module that makes its tables."""
        say, module = Texts(name), import_module(f".{name}", __package__)
        beside = getattr(module, "beside", None)
        return cls(say("title"), say("line"), say, module.tables, beside)

    def section(self, folder: Path, quick: bool, quiet: bool) -> Section:
        """Write the tables, do what the line says, and show the answer."""
        tables, say = self.tables(), self.say
        for name, table in tables.items():
            table.to_csv(folder / name, index=False)
        command, *words = shlex.split(self.line)
        answer = import_module(f"..commands.{command}", __package__).COMMAND.answer
        words = [str(folder / word) if word in tables else word for word in words]
        report = answer([*words, "--quiet"] if quiet else words)
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
        return [block for name in self.say.content["shown"] for block in found[name]]

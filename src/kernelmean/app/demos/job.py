"""A job of the demo: a question, tables, and the command that answers it."""

import shlex
from importlib import import_module
from pathlib import Path

from ..report import Block, Code, Grid, Note, Numbers, Prose, Report, Section
from ..words import Texts
from .tables import JOBS


class Job:
    """A question about real data, by the name of its texts and tables.

    Its title, its line (what is typed after `kernelmean`, in the folder of the tables) and what is
    shown (names of figures, and titles of sections for their tables) are in its texts, beside
    `question`, `source` and, where there is one, `note`.
    """

    def __init__(self, name: str):
        self.say = Texts(name)
        self.title, self.line = self.say("title"), self.say("line")
        self.tables, self.beside = JOBS[name]

    def section(self, folder: Path, quick: bool, quiet: bool, more: list[str]) -> Section:
        """Write the tables, do what the line says, with `more` options, and show the answer."""
        tables, say, line = self.tables(), self.say, " ".join([self.line, *more])
        for name, table in tables.items():
            table.to_csv(folder / name, index=False)
        command, *words = shlex.split(line)
        answer = import_module(f"..commands.{command}", __package__).COMMAND.answer
        words = [str(folder / word) if word in tables else word for word in words]
        report = answer([*words, "--quiet"] if quiet else words)
        blocks = [Prose(say("question")), *report.lead, *self._chosen(report)]
        if self.beside is not None and not quick:
            blocks += self.beside(tables, say)
        if "note" in say.content:
            blocks.append(Note(say("note")))
        return Section(self.title, [*blocks, Code(f"kernelmean {line}"), Prose(say("source"))])

    def _chosen(self, report: Report) -> list[Block]:
        """Figures by name, tables by section, in the order of `shown`."""
        found: dict[str, list[Block]] = {figure.name: [figure] for figure in report.figures()}
        for section in report.sections:
            found[section.title] = [b for b in section.blocks if isinstance(b, Grid | Numbers)]
        return [block for name in self.say.content["shown"] for block in found[name]]

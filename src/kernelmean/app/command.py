"""What a command is: options, and a function of them that returns a report."""

import inspect
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from rich.markup import escape

from ..core import Rows, checks
from ..core.minimise import SEARCH_ROWS
from ..core.threads import one_thread
from ..kernels import TUNED
from . import terminal
from .errors import UserError, refusals
from .files import check_folder, write_all, write_parts
from .page import html
from .report import Code, Report, Section
from .tables import Blocks, Table, read_blocks, read_table, split_names
from .words import Texts

HERE = Path()  # stands for the folder of the command's own name
SAY = Texts("shared")

KernelName = StrEnum("KernelName", [*TUNED, "linear"])  # type: ignore[misc]
GAUSSIAN = KernelName("gaussian")
Data = Annotated[Path, typer.Argument(help=SAY("options", "DATA"), show_default=False)]


class Names(list[str]):
    """Columns by name."""


def columns(name: str, help_: str) -> Any:
    """An option that names columns."""
    read = partial(split_names, option=name)
    help_ += ", by commas." if "(s)" in help_ else "."
    return typer.Option(name, help=help_, parser=read, metavar="NAMES", show_default=False)


def option(say: Texts, *names: str, **more: Any) -> Any:
    """An option by its names (`--a`, or `--a/--no-a`), whose help is in the texts."""
    help_ = say("options", names[0].partition("/")[0], kernels=", ".join(KernelName))
    return typer.Option(*names, help=escape(help_), **more)


def typed(say: Texts, name: str, read: Callable[[str], Any], word: str = "TEXT") -> Any:
    """An option of which `read` makes a value.

    What it cannot make a value of (ValueError, KeyError) is refused by what is `needed`.
    """

    def parser(text: str) -> Any:
        try:
            return read(str(text))  # a default may be a number
        except (ValueError, KeyError) as err:
            needed = say("needed", name, kernels=", ".join(KernelName))
            raise UserError(f"{name} is {text!r}; {needed} needed") from err

    return option(say, name, parser=parser, metavar=word)


def folder(text: str) -> Path:
    """`--out`: an empty name is rather a variable of the shell that is not set."""
    if not text.strip():
        raise ValueError
    return Path(text)


OUT = typed(SAY, "--out", folder, "PATH")


@dataclass(frozen=True, kw_only=True)
class Talk:
    """The options that every command has."""

    say: ClassVar[Texts] = SAY  # `arguments`: what the library's are called here

    quiet: Annotated[bool, option(SAY, "--quiet")] = False
    verbose: Annotated[bool, option(SAY, "--verbose")] = False

    def stage(self, what: str, bars: bool = False) -> AbstractContextManager[None]:
        """Tell what is being done; `bars` where the work has progress bars of its own."""
        return terminal.stage(what, self.quiet, self.verbose, bars)

    def refusals(self) -> AbstractContextManager[None]:
        """What the library refuses, in the words of the command line."""
        return refusals(self.say.content.get("arguments", {}))


@dataclass(frozen=True, kw_only=True)
class Answering(Talk):
    """The options of commands that learn something, and write what they found."""

    out: Annotated[Path, OUT] = HERE
    seed: Annotated[int, option(SAY, "--seed", min=0, max=2**32 - 1)] = 0
    level: Annotated[float, option(SAY, "--level", min=0.01, max=0.99, metavar="SHARE")] = 0.95


@dataclass(frozen=True, kw_only=True)
class Shared(Answering):
    """The options that commands on tables have in common."""

    drop_missing: Annotated[bool, option(SAY, "--drop-missing")] = False
    sep: Annotated[str, option(SAY, "--sep")] = ","
    decimal: Annotated[str, option(SAY, "--decimal")] = "."
    chunksize: Annotated[int | None, option(SAY, "--chunksize", min=1)] = None

    @property
    def told(self) -> bool:
        """Whether a fit shows its progress; of a file in blocks, that of reading is shown."""
        return not (self.quiet or self.chunksize) and (self.verbose or terminal.err.is_terminal)

    def refuse(self, clashes: Mapping[str, bool], **known: Any) -> None:
        """Options that do not go together, by the name of what is then said."""
        for name, clash in clashes.items():
            if clash:
                raise UserError(self.say("clashes", name, **known))

    def refuse_blocks(self, given: bool = True) -> None:
        """What does not go block by block, where blocks are asked for."""
        if given and self.chunksize is not None:
            why = self.say("at_once")
            raise UserError(f"--chunksize reads files block by block, but {why}")

    def table(self, path: Path) -> Table:
        """The content of a file, names of sequences as they are written."""
        self.refuse_blocks()
        return read_table(path, self.sep, self.decimal, getattr(self, "sequence", None))

    def numbers(
        self, path: Path, roles: Mapping[str, Sequence[str]], first: bool = False
    ) -> tuple[Any, Any]:
        """Rows to look at, and all: those of a file read in blocks stay there.

        Looked at are evenly spaced ones, or the `first`.
        """
        if self.chunksize is None:
            frame = self.table(path).numbers(roles, self.drop_missing)
            return frame, frame
        every = self.blocks(path, roles)
        some = next(iter(every)).head(SEARCH_ROWS) if first else every.few(SEARCH_ROWS)
        return some, every

    def blocks(self, path: Path, roles: Mapping[str, Sequence[str]]) -> Rows:
        """Columns of a file, which is read block by block."""
        names = [name for columns in roles.values() for name in columns]
        read = partial(read_blocks, path, self.sep, self.decimal, self.chunksize, names)
        take = partial(Table.numbers, roles=roles, drop_missing=self.drop_missing)
        return Rows(Blocks(read, take, terminal.Pace(path.name, self.quiet, self.verbose)))


@dataclass(frozen=True)
class Command:
    """A command of the console.

    Parameters
    ----------
    name : str
    options : dataclass
        `Talk` or what descends from it: its fields are the options.
    run : callable
        Takes the options, and files by name; returns a `Report`. Its docstring is the help.
    """

    name: str
    options: type[Talk]
    run: Callable[..., Report]

    def parameters(self) -> list[inspect.Parameter]:
        """Files, own options, shared options."""
        told = (inspect.signature(part, eval_str=True) for part in (self.run, self.options))
        (_, *files), options = (list(signature.parameters.values()) for signature in told)
        here, every = Path(f"kernelmean-{self.name}"), [*files, *options]
        return [
            p.replace(kind=p.KEYWORD_ONLY, default=here if p.default is HERE else p.default)
            for p in every
        ]

    def register(self, app: typer.Typer, do: Callable[..., Any] | None = None) -> None:
        """Add the command to a console application; what it does, unless told, is all of it."""

        def call(**given: Any) -> Any:
            with checks.hushed(), one_thread():  # what a reader has to know is noted
                return (do or self)(**given)

        parameters = self.parameters()
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(self.name, help=inspect.getdoc(self.run))(call)

    def answer(self, words: list[str]) -> Report:
        """What the command finds when these words are typed after it; nothing is written."""
        app = typer.Typer(add_completion=False)
        self.register(app, lambda **given: self.run(self._options(given), **given))
        report = typer.main.get_command(app)(words, standalone_mode=False)
        if not isinstance(report, Report):  # typer makes a number of Ctrl-C
            raise KeyboardInterrupt
        return report

    def _options(self, given: dict[str, Any]) -> Talk:
        """The options, taken out of all that is given."""
        return self.options(**{f.name: given.pop(f.name) for f in fields(self.options)})

    def __call__(self, **given: Any) -> None:
        """Do the work, write its files, show it."""
        options = self._options(given)
        folder: Any = getattr(options, "out", None)
        if folder is not None:
            check_folder(folder)
        with options.refusals():
            report = self.run(options, **given)
        paths = [] if folder is None else write(report, folder, options)
        if not options.quiet:
            terminal.show(report, options.verbose)
        terminal.show_files(paths)
        for name, rows in report.parts.items():
            with options.stage(f"Asking about every row: {name}", bars=True), options.refusals():
                parts = write_parts(folder / name, rows)
            terminal.show_files([parts])
        if report.after is not None:
            report.after(folder)


def write(report: Report, folder: Path, options: Talk) -> list[Path]:
    """The files of a report, and its page."""
    with options.stage("Drawing the report"), options.refusals():
        typed = shlex.join(["kernelmean", *sys.argv[1:]])
        made = Section("The command that made this page", [Code(typed)], folded=True)
        files: dict[str, Any] = {report.page: html(report, made), **report.files}
        return write_all(folder, {k: c for k, c in files.items() if k not in report.parts})

"""The blocks of a report on a terminal. Texts are never parsed as markup."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import NoReturn

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ..core.stages import without_lines
from .report import Block, Bullets, Code, Grid, Note, Numbers, Prose, Report

out = Console()
err = Console(stderr=True)


def fail(message: str, code: int = 2) -> NoReturn:
    """One line on stderr, then the exit code."""
    print(f"error: {' '.join(map(str.strip, message.splitlines()))}", file=sys.stderr)
    sys.exit(code)


@contextmanager
def stage(what: str, silent: bool, verbose: bool, bars: bool = False) -> Iterator[None]:
    """Tell what is being done, and with `verbose` how long it and its stages took.

    `bars` are moved by the work itself.
    """
    if silent:
        yield
        return
    start = perf_counter()
    if err.is_terminal and bars:
        err.print(Text(f"{what} …"))
    with (
        err.status(Text(f"{what} …")) if err.is_terminal and not bars else nullcontext(),
        nullcontext() if verbose else without_lines(),
    ):
        yield
    if verbose:
        err.print(Text(f"{what}: {perf_counter() - start:.1f} s"))


class Pace:
    """Rows a second, and the time left, of each pass over a file: a line that is written over."""

    def __init__(self, what: str, silent: bool, verbose: bool):
        self.what, self.silent, self.verbose = what, silent, verbose
        self.passes, self.start = 0, 0.0

    def __call__(self, done: int, total: int | None) -> None:
        """So many rows of all were read."""
        if not done:
            self.passes, self.start = self.passes + 1, perf_counter()
        rate = done / max(perf_counter() - self.start, 1e-9)
        text = f"{self.what}, pass {self.passes}: {done:,} rows, {rate:,.0f} a second"
        if done and done == total and self.verbose:
            err.print(Text(text), soft_wrap=True)
        elif err.is_terminal and not self.silent:
            left = f", {(total - done) / rate:,.0f} s left" if done and total else ""
            err.print(Text(text + left), end="\x1b[K\r", soft_wrap=True)


def show(report: Report, verbose: bool) -> None:
    """Titles, numbers, tables and notes; sentences that explain them where asked for."""
    out.print(Text(report.title, "bold"))
    if report.subtitle:
        out.print(Text(report.subtitle, "dim"))
    out.print()
    for block in report.lead:
        show_block(block, True)
    for section in report.sections:
        if verbose or any(isinstance(block, Numbers | Grid | Note) for block in section.blocks):
            out.print(Text(section.title, "bold"))
            for block in section.blocks:
                show_block(block, verbose)


def show_block(block: Block, verbose: bool) -> None:
    """A block, as far as a terminal can show it."""
    if isinstance(block, Numbers | Grid):
        if block.caption:
            out.print(Text(block.caption, "dim"))
        out.print(_table(block, verbose), "")
    elif isinstance(block, Note):
        out.print(Text.assemble(("Note: ", "yellow"), block.text), end="\n\n")
    elif verbose and isinstance(block, Bullets):
        out.print(Text("\n".join(f"• {item}" for item in block.items)), end="\n\n")
    elif verbose and isinstance(block, Prose | Code):
        out.print(Text(block.text), end="\n\n")


def _table(block: Numbers | Grid, verbose: bool) -> Table:
    """Numbers without their meaning, unless that is asked for; of a grid all."""
    if isinstance(block, Grid):
        columns = [Column(Text(name), justify="right", overflow="fold") for name in block.header]
    else:
        columns = [Column(style="cyan", no_wrap=not verbose)]
        columns += [Column(overflow="fold") for _ in range(1 + verbose)]
    table = Table(*columns, box=None, pad_edge=False, show_header=isinstance(block, Grid))
    for row in block.rows:
        table.add_row(*map(Text, row[: len(columns)]))
    return table


def show_files(paths: Sequence[Path]) -> None:
    """Where the results are."""
    for path in paths:
        out.print(Text(f"written: {path}"), soft_wrap=True)

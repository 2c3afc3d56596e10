"""`kernelmean demo`: jobs on real data, as one page."""

from __future__ import annotations

import os
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..command import Command, Writing
from ..demos import JOBS
from ..demos.job import Job
from ..errors import UserError
from ..files import write_all
from ..page import html
from ..report import Block, Code, Prose, Report, Section
from ..terminal import out

INDEX = "index.html"


@dataclass(frozen=True)
class Settings(Writing):
    """How much to do, and how to show it."""

    open: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page, where there is a display.")
    ] = True
    quick: Annotated[bool, typer.Option("--quick", help="Without the rivals.")] = False


def jobs() -> list[Job]:
    """In the order of the page."""
    return [Job.of(name) for name in JOBS]


def run(settings: Settings) -> Report:
    """Run the library on real data, and show what it found on one page."""
    todo, sections = jobs(), []
    write_all(settings.out, {})
    for position, job in enumerate(todo, start=1):
        with settings.stage(f"{position}/{len(todo)} {job.title}", bars=True):
            try:
                sections.append(job.section(settings.out, settings.quick, settings.quiet))
            except ImportError as err:
                raise UserError(str(err)) from err
            if position < len(todo):  # the page can be read while the rest is at work
                write_all(settings.out, {INDEX: html(page(sections, len(todo), settings))})
    return page(sections, len(todo), settings)


def page(sections: list[Section], count: int, settings: Settings) -> Report:
    """What is there so far."""
    rest = "" if len(sections) == count else f" ({len(sections)} of {count}; reload for the rest)"
    lead: list[Block] = [
        Prose(
            "Each section is a question, the command that answers it, and how others do on the "
            "same rows. The tables lie beside this page; yours go through the same commands:"
        ),
        Code(f"cd {settings.out}\nkernelmean --help"),
    ]
    return Report(
        "kernelmean on real data",
        f"What the library does, on data you can look up{rest}",
        lead,
        list(sections),
        page=INDEX,
        contents=True,
        after=show if settings.open else None,
    )


def show(folder: Path) -> None:
    """Open the page in a browser, or say that there is none; never fail."""
    if not (has_display() and _opens((folder / INDEX).absolute().as_uri())):
        out.print("There is no display here; open the page in any browser.")


def _opens(address: str) -> bool:
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return False


def has_display() -> bool:
    """Whether a browser window could be seen."""
    if sys.platform in {"win32", "darwin"}:
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


COMMAND = Command("demo", Settings, run)

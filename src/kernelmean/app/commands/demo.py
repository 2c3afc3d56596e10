"""`kernelmean demo`: jobs on real data, as one page."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from .. import demos
from ..command import Command, Writing
from ..errors import UserError
from ..page import picture
from ..report import Code, Figure, Prose, Report, Section
from ..terminal import out

INDEX = "index.html"


@dataclass(frozen=True)
class Settings(Writing):
    """How much to do, and how to show it."""

    open: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page, where there is a display.")
    ] = True
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions.")] = False


def jobs() -> list[tuple[str, Callable[[bool], Section]]]:
    """Title and function of each job; the function takes `quick`."""
    found = (import_module(f"{demos.__name__}.{name}") for name in demos.JOBS)
    return [(module.TITLE, module.run) for module in found]


def run(settings: Settings) -> Report:
    """Run the library on real data, and show what it found on one page."""
    todo, sections = jobs(), []
    for position, (title, job) in enumerate(todo, start=1):
        with settings.stage(f"{position}/{len(todo)} {title}", bars=True):
            try:
                sections.append(job(settings.quick))
            except ImportError as err:
                raise UserError(str(err)) from err
    lead = Prose(
        "Each section is a question, real data to answer it with, and an honest account of how far "
        "the answer can be trusted. Your own tables go through the same code: most sections end "
        "with the command that does the like from a file."
    )
    blocks = [b for section in sections for b in section.blocks]
    files: dict[str, str | bytes] = {}
    for block in blocks:
        if isinstance(block, Figure):
            files[f"{block.name}.png"] = picture(block, "png")
        elif isinstance(block, Code):
            files |= block.files
    return Report(
        "kernelmean on real data",
        "What the library does, on data you can look up",
        [lead],
        sections,
        files,
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

"""`kernelmean demo`: jobs on real data, as one page."""

import os
import sys
import webbrowser
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated

from ..command import Answering, Command, option
from ..demos.job import JOBS, Job
from ..errors import UserError
from ..files import write_all
from ..page import html
from ..report import Code, Prose, Report, Section
from ..terminal import out
from ..words import Texts

INDEX = "index.html"
SAY = Texts("demo")


@dataclass(frozen=True)
class Settings(Answering):
    """How much to do, and how to show it."""

    open: Annotated[bool, option(SAY, "--open/--no-open")] = True
    quick: Annotated[bool, option(SAY, "--quick")] = False

    def given(self) -> list[str]:
        """What the commands behind the sections are told as well."""
        seed = ["--seed", str(self.seed)] if self.seed else []
        return seed + (["--level", f"{self.level}"] if self.level != Answering.level else [])


def jobs() -> list[Job]:
    """In the order of the page."""
    return [Job(name) for name in JOBS]


def run(settings: Settings) -> Report:
    """Run the library on real data, and show what it found on one page."""
    todo, given, sections = jobs(), settings.given(), []
    write_all(settings.out, {})
    for position, job in enumerate(todo, start=1):
        with settings.stage(f"{position}/{len(todo)} {job.title}", bars=True):
            try:
                sections.append(job.section(settings.out, settings.quick, settings.quiet, given))
            except ImportError as err:
                raise UserError(str(err)) from err
            if position < len(todo):  # the page can be read while the rest is at work
                write_all(settings.out, {INDEX: html(page(sections, len(todo), settings))})
    return page(sections, len(todo), settings)


def page(sections: list[Section], count: int, settings: Settings) -> Report:
    """What is there so far."""
    rest = "" if len(sections) == count else f" ({len(sections)} of {count}; reload for the rest)"
    title, subtitle = SAY("title"), SAY("subtitle", rest=rest)
    after = show if settings.open else None
    lead = [Prose(SAY("lead")), Code(f"cd {quote(str(settings.out))}\nkernelmean --help")]
    return Report(title, subtitle, lead, [*sections], page=INDEX, contents=True, after=after)


def show(folder: Path) -> None:
    """Open the page in a browser, or say that there is none; never fail."""
    with suppress(webbrowser.Error, OSError):
        if has_display() and webbrowser.open((folder / INDEX).absolute().as_uri()):
            return
    out.print("There is no display here; open the page in any browser.")


def has_display() -> bool:
    """Whether a browser window could be seen."""
    if sys.platform in {"win32", "darwin"}:
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


COMMAND = Command("demo", Settings, run)

"""`kernelmean demo`: the jobs that exist, on real data, as one page."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

from .demos import JOBS
from .demos.job import Job, Result
from .errors import UserError
from .files import write_bytes, write_text
from .page import Page, Prose

INDEX = "index.html"


def results(quick: bool) -> Iterator[tuple[Job, Result, float]]:
    """Run each job: the job, what it found, and the seconds it took."""
    for job in JOBS:
        start = perf_counter()
        try:
            result = job.run(quick)
        except ImportError as err:
            raise UserError(str(err)) from err
        yield job, result, perf_counter() - start


def page(found: Iterable[Result]) -> Page:
    """The page of all jobs."""
    sections = [result.section for result in found]
    lead = Prose(
        "Each section below is a question, real data to answer it with, and an honest account of "
        "how far the answer can be trusted. Your own tables go through the same code with "
        "`kernelmean iv`, `kernelmean density`, `kernelmean posterior`, `kernelmean filter`, "
        "`kernelmean hmm` and `kernelmean ssm`."
    )
    return Page(
        title="kernelmean on real data",
        subtitle="What the library does, on data you can look up",
        lead=[lead],
        sections=sections,
        contents=True,
    )


def outputs(page: Page) -> dict[str, Callable[[Path], None]]:
    """The files of the demo, as functions of the path to write to."""
    html = page.html()
    figures = {
        f"{figure.name}.png": partial(write_bytes, content=figure.png())
        for figure in page.figures()
    }
    return {**figures, INDEX: partial(write_text, text=html)}


def has_display() -> bool:
    """Whether a browser window could be seen."""
    if sys.platform in {"win32", "darwin"}:
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def show(path: Path) -> bool:
    """Open the page in a browser, if there is a display and a browser; never fail."""
    if not has_display():
        return False
    try:
        return webbrowser.open(path.absolute().as_uri())
    except (webbrowser.Error, OSError):
        return False

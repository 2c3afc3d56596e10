"""The jobs of `kernelmean demo`: one file each, with a `TITLE` and a `run(quick)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..report import Block, Code, Prose
from ..tables import to_csv

JOBS = ("fish", "schooling", "engel", "influenza", "approval", "sp500", "volatility")


def yours(command: str, tables: Mapping[str, Any]) -> list[Block]:
    """The command that does the like from tables in files, which are written beside the page."""
    files = {name: to_csv(frame, rows=False) for name, frame in tables.items()}
    return [Prose("For tables of your own; the ones of this section are beside this page:"),
            Code(f"kernelmean {command}", files)]  # fmt: skip

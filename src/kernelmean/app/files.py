"""Writing results: every file appears complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import UserError

Content = str | bytes | Callable[[Path], Any]  # or a function of the path to write to


def write(path: Path, content: Content) -> None:
    """Write to a temporary name beside `path`, then rename it."""
    if callable(content):
        content(path)
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def check_folder(folder: Path) -> None:
    """Fail before the work where its results could not be written."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out is {folder}, which is a file; a folder is needed")
    existing = next(p for p in [folder, *folder.absolute().parents] if p.exists())
    if not os.access(existing, os.W_OK):
        raise UserError(f"cannot write to {folder}: {existing} is read-only")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Make `folder` if need be; trouble of the disk becomes one clear line."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as err:
        raise UserError(f"cannot write to {folder}: {err.strerror or err}") from err


def write_all(folder: Path, contents: Mapping[str, Content]) -> list[Path]:
    """Write several files of a folder, each in one step; their paths."""
    with writing(folder):
        for name, content in contents.items():
            write(folder / name, content)
    return [folder / name for name in contents]

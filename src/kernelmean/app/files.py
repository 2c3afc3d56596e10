"""Writing results: all of them appear, complete, or none does."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..core import Rows
from .errors import Interrupted, UserError
from .tables import PARTS, ROW, free_name

Content = str | bytes | Callable[[Path], Any] | None  # a function of the path; None: no such file


def check_folder(folder: Path) -> None:
    """Fail before the work where its results could not be written."""
    try:
        existing = next(p for p in [folder, *folder.absolute().parents] if p.exists())
    except OSError as err:  # a name of 300 characters
        raise UserError(f"--out cannot be a folder: {err.strerror}: {folder}") from err
    if not existing.is_dir():
        below = "" if existing == folder else "below "
        raise UserError(f"--out is {below}{existing}, which is a file; a folder is needed")
    try:
        TemporaryDirectory(dir=existing, prefix=".").cleanup()  # root may write, it says, to /proc
    except OSError as err:
        raise UserError(f"cannot write to {folder}: {existing}: {err.strerror}") from err


@contextmanager
def making(folder: Path) -> Iterator[None]:
    """Make `folder` if need be, and take it away again if nothing comes of it."""
    made = [p for p in [folder, *folder.parents] if not p.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException as err:
        with suppress(OSError):
            for path in made:
                path.rmdir()
        if isinstance(err, OSError):
            raise UserError(f"cannot write to {folder}: {err.strerror or err}") from err
        raise


def write_all(folder: Path, contents: Mapping[str, Content]) -> list[Path]:
    """Write files into a folder of their own, and move them to `folder` when all are there.

    One that a run before left, and this one has nothing for, is taken away.
    """
    some = {name: content for name, content in contents.items() if content is not None}
    with making(folder), TemporaryDirectory(dir=folder, prefix=".") as halves:
        for name, content in some.items():
            half = Path(halves, name)
            if callable(content):
                content(half)
            else:
                if isinstance(content, str):  # where the name of a file is no UTF-8
                    content = content.encode(errors="replace")
                half.write_bytes(content)
        for name in some:
            Path(halves, name).replace(folder / name)
        for name in contents.keys() - some.keys():
            _clear(folder, name)
    return [folder / name for name in some]


def write_parts(folder: Path, rows: Rows) -> Path:
    """A folder of Parquet files, a block each, whole when they appear: what is finished stays."""
    count, done = len(rows.sizes), 0
    with making(folder):
        _clear(folder, PARTS)
        try:
            for block in rows:
                named = block.reset_index(names=free_name(ROW, block))
                name = f"part-{done + 1:05}-of-{count:05}.parquet"
                write_all(folder, {name: partial(named.to_parquet, index=False)})
                done += 1
        except KeyboardInterrupt as err:
            raise Interrupted(f"interrupted; {done} of {count} parts are in {folder}") from err
    return folder


def _clear(folder: Path, pattern: str) -> None:
    """Take away what a run before wrote."""
    for old in folder.glob(pattern):
        old.unlink()

"""Reading a CSV or Parquet file, and taking columns of numbers from it."""

import csv
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..core import Rows, checks
from ..core.rows import parquet_files
from .errors import UserError, did_you_mean
from .words import LEFT_OUT, Texts, names

SEPARATORS = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "bars"}
FORMULAS = tuple("=+-@\t\r")  # what a spreadsheet evaluates begins with one of these
COMPRESSED = {".gz", ".bz2", ".zip", ".xz", ".zst"}
PARQUET = {".parquet", ".pq"}
GROUPED = r"\s*[-+]?\d{1,3}(,\d{3})*(,\d{3}|\.\d*)\s*"  # 1,234.5 is no decimal comma
MARKED = r"\s*[-+−(]?\s*[$€£¥]?\s*[-+−]?[\d,'’\s]*[.,]?\d+\s*[%$€£¥*)]?\s*"  # 1 234 €, or 12%
WORDED = r"\s*(?P<before>[A-Z]{3})?\s*(?P<number>[-+]?\d[\d,.'’ ]*?)\s*(?P<after>[^\W\d_]+)?\s*"
DATE = r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{4}-\d\d\b"  # how a field that holds one begins
LONG = r"[-+]?\d+"  # a whole number, which pandas takes for text if it is beyond 64 bits
PLAIN = {"boolean", "decimal"}  # numbers for which pandas has no type: True beside a gap, money
MARKS = 3  # different words for a missing value
SMALLEST = 20  # rows to learn from
PARTS = "part-*.parquet"  # of answers about rows that are read in blocks
ROW = "row"  # the index of a table: which row of the file, from 1, the header not counted
SAY = Texts("tables")


@dataclass(frozen=True)
class Table:
    """The content of a file, or of a block of its rows.

    Attributes
    ----------
    path : Path or str
        What it is called.
    frame : DataFrame
        Indexed by the number of the row in the file, from 1.
    ambiguous : frozenset of str
        Names that stand over more than one column.
    """

    path: Path | str
    frame: pd.DataFrame
    ambiguous: frozenset[str]

    def numbers(self, roles: Mapping[str, Sequence[str]], drop_missing: bool) -> pd.DataFrame:
        """The columns asked for, as finite floats.

        Parameters
        ----------
        roles : mapping
            From an option ("--x") to the columns given to it.
        drop_missing : bool
            Leave out rows with a missing value, instead of refusing the file.
        """
        return complete(self.numbers_with_gaps(roles), self.path, drop_missing)

    def numbers_with_gaps(self, roles: Mapping[str, Sequence[str]]) -> pd.DataFrame:
        """The columns asked for, as floats, NaN where a value is missing."""
        columns = {name: _as_floats(self.frame[name], self.path) for name in self.asked_for(roles)}
        chosen = pd.DataFrame(columns, index=self.frame.index)
        infinite = np.isinf(chosen).sum()
        if infinite.any():
            raise UserError(SAY("infinite", path=self.path, counts=_counts(infinite)))
        return chosen

    def asked_for(self, roles: Mapping[str, Sequence[str]]) -> list[str]:
        """The columns given to all options; each must exist, and have one part to play."""
        option_of: dict[str, str] = {}
        for option, asked in roles.items():
            for name in asked:
                self._check_name(name, option)
                if name in option_of:
                    again = "again" if option_of[name] == option else f"to {option}"
                    raise UserError(SAY("twice", name=name, first=option_of[name], again=again))
                option_of[name] = option
        return list(option_of)

    def _check_name(self, name: str, option: str) -> None:
        if name in self.ambiguous:
            raise UserError(f"{self.path} has more than one column named {name!r}; rename one")
        if name not in self.frame.columns:
            known = [str(c) for c in self.frame.columns]
            hint = did_you_mean(name, known) or f"; it has {names([*map(repr, known)])}"
            hint += _written_with("".join(known), ",")
            if _are_numbers(pd.Series(known)):
                hint = "; its first row has numbers, where names of columns are needed"
            elif any("," in k and name in k for k in known):
                hint += "; a name with a comma stands in double quotes: --x '\"a,b\"'"
            raise UserError(f"{self.path} has no column {name!r} (asked for by {option}){hint}")


def read_table(path: Path, sep: str = ",", decimal: str = ".", label: str | None = None) -> Table:
    """Read a CSV or Parquet file, or say in one line why not.

    Parameters
    ----------
    path : Path
        ``.parquet`` and ``.pq`` are Parquet, as are the files of a folder and those of a pattern
        (``data/*.parquet``), which are one table; anything else is CSV (compressed files too).
    sep, decimal : str
        The separator and the decimal mark of a CSV file.
    label : str, optional
        A column that is kept as it is written: 007 is no number.
    """
    tables = list(read_blocks(path, sep, decimal, label=label))
    frame = tables[0].frame if len(tables) == 1 else pd.concat([t.frame for t in tables])
    return Table(path, frame, tables[0].ambiguous)


def read_blocks(
    path: Path,
    sep: str,
    decimal: str,
    size: int | None = None,
    columns: Iterable[str] = (),
    label: str | None = None,
) -> Generator[Table]:
    """The blocks of `size` rows of a file, as it is read; without a size they are whole files.

    Of Parquet only `columns` are read, if any are told.
    """
    several = path.is_dir() or "*" in path.name
    if not several:
        _check_file(path)
    done = 0
    try:
        if several or path.suffix.lower() in PARQUET:
            frames = _parquet_blocks(path, several, size, {*columns})
        else:
            frames = _csv_blocks(path, sep, decimal, size, label)
        for frame in frames:
            if frame.empty:
                continue
            header = [str(c).strip() for c in frame.columns]
            twice = frozenset(c for c, k in Counter(header).items() if k > 1)
            numbers = pd.RangeIndex(done + 1, done + len(frame) + 1, name=ROW)
            where = f"{path} (rows {done + 1:,} to {done + len(frame):,})" if size else path
            done += len(frame)
            yield Table(where, frame.set_axis(header, axis=1).set_axis(numbers), twice)
        if not done:
            raise UserError(f"{path} has 0 rows below its header; CSV or Parquet is needed")
    except OSError as err:
        raise UserError(f"cannot read {path}: {err.strerror or err}") from err


@dataclass
class Blocks:
    """Columns of numbers of a file that stays where it is, read again at every pass.

    Parameters
    ----------
    read : callable
        Gives the blocks, as `read_blocks` does.
    take : callable
        The columns of a block.
    tell : callable
        `tell(done, total)` after each block.
    total : int or None
        Rows, once all were counted.
    """

    read: Callable[[], Generator[Table]]
    take: Callable[[Table], pd.DataFrame]
    tell: Callable[[int, int | None], None]
    total: int | None = None

    def __iter__(self) -> Generator[pd.DataFrame]:
        done = 0
        self.tell(done, self.total)
        with closing(self.read()) as tables:
            for table in tables:
                yield self.take(table)
                done += len(table.frame)
                self.tell(done, self.total)
        if self.total is None:
            self.total = done
            self.tell(done, done)


def split_names(text: str, option: str) -> list[str]:
    """'a, b' as ['a', 'b']; a name with a comma stands in double quotes, as in a CSV file."""
    rows = [*csv.reader(text.splitlines(keepends=True), skipinitialspace=True)]
    names = [part.strip() for row in rows for part in row]
    if len(rows) != 1 or not all(names):
        raise UserError(f"{option} is {text!r}; column names separated by commas are needed")
    return names


# ---------------------------------------------------------------- files


def _check_file(path: Path) -> None:
    if not path.exists() and str(path) != "-":  # as other programs call what is piped in
        if ":/" in str(path)[2:]:
            raise UserError(f"{path} is an address; download the file, and give that")
        near = [p.name for p in path.parent.glob("*")] if path.parent.is_dir() else []
        raise UserError(f"there is no file {path}{did_you_mean(path.name, near)}")
    if not path.is_file():
        raise UserError(f"{path} can be read only once, and that will not do; save it as a file")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty")


def _parquet_blocks(
    path: Path, several: bool, size: int | None, columns: set[str]
) -> Generator[pd.DataFrame]:
    import pyarrow

    files: Sequence[Any] = parquet_files(str(path)) if several else [path]
    if not files:
        raise UserError(f"{path} has no Parquet files; they, or a CSV file, are needed")
    try:
        for file in files:
            yield from _batches(file, size, columns)
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, KeyError) as err:
        raise UserError(f"{path} is not a readable Parquet file: {err}") from err


def _batches(path: Any, size: int | None, columns: set[str]) -> Generator[pd.DataFrame]:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    pyarrow.array(pd.period_range("2000", periods=1, freq="D"))  # or periods are read as numbers
    with ParquetFile(path) as file:
        names = file.schema_arrow.names
        known = [name for name in names if name.strip() in columns]
        few = known if {name.strip() for name in known} == columns else names
        batches = [file.read()] if size is None else file.iter_batches(size, columns=few)
        yield from (batch.to_pandas(ignore_metadata=True) for batch in batches)  # the index too


def _csv_blocks(
    path: Path, sep: str, decimal: str, size: int | None, label: str | None
) -> Generator[pd.DataFrame]:
    """As pandas reads them; what it finds wrong is said in one line."""
    if len(sep) != 1:
        raise UserError(f"--sep is {sep!r}; a single character is needed ($'\\t' for a tab)")
    # the header is read as a row of its own: pandas would rename a repeated name in silence
    read = partial(pd.read_csv, path, sep=sep, skipinitialspace=True)
    try:
        header = [str(v) for v in read(header=None, nrows=1, dtype=str, na_filter=False).iloc[0]]
        if (line := sep.join(header)).startswith("sep="):
            raise UserError(SAY("excel", path=path, line=line, hint=_typed(line[4:5] or sep)))
        told = {"decimal": decimal, "dtype": {label: str} if label else None, "low_memory": False}
        with read(iterator=True, chunksize=size, **told) as frames:
            for frame in frames:
                yield _with_header(frame, header, path, sep)
    except pd.errors.ParserError as err:
        reason = str(err).strip().rpartition("error: ")[2]
        hint = _other_sep(path, sep) or SAY.content["hints"]["header"]
        raise UserError(f"{path} is not a regular CSV file: {reason}{hint}") from err
    except UnicodeDecodeError as err:
        raise UserError(f"{path} is not text in UTF-8; save it as CSV (UTF-8) or Parquet") from err
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as err:
        raise UserError(f"{path} cannot be read as CSV: {err}") from err


def _with_header(frame: pd.DataFrame, header: list[str], path: Path, sep: str) -> pd.DataFrame:
    if len(header) == 1 and (hint := _other_sep(path, sep)):
        raise UserError(f"{path} has a single column{hint}")
    if not isinstance(frame.index, pd.RangeIndex):  # pandas makes surplus fields an index
        hint = _other_sep(path, sep) or SAY.content["hints"]["header"]
        raise UserError(SAY("surplus", path=path, count=len(header), first=header[0], hint=hint))
    return frame.set_axis(header, axis=1)


def _other_sep(path: Path, sep: str) -> str:
    """A hint at --sep, when the first line is written with another separator."""
    if path.suffix.lower() in COMPRESSED:
        return ""
    with path.open(encoding="utf-8", errors="replace") as file:
        return _written_with(file.readline(), sep)


def _written_with(header: str, sep: str) -> str:
    """The hint: where another separator is there more often than this one."""
    most = max(SEPARATORS, key=header.count)
    if header.count(most) <= header.count(sep):
        return ""
    return f"; its header is written with {SEPARATORS[most]}: add --sep {_typed(most)}"


def _typed(sep: str) -> str:
    """A separator as it is typed."""
    return "$'\\t'" if sep == "\t" else f"'{sep}'"


def free_name(name: str, frame: pd.DataFrame) -> str:
    """`name`, or that with underscores where a column has it."""
    while name in frame.columns:
        name += "_"
    return name


def to_csv(frame: pd.DataFrame, rows: bool = True) -> str:
    """A table as a CSV file, with the numbers of its rows.

    Names and texts that a spreadsheet would take for formulas are quoted by an apostrophe, which
    makes it show them as they are.
    """
    texts = {
        c: frame[c].map(_harmless) for c in frame.select_dtypes(exclude=["number", "datetime"])
    }
    label = _harmless(free_name(ROW, frame)) if rows else None
    safe = frame.assign(**texts).set_axis([_harmless(c) for c in frame], axis=1)
    return safe.to_csv(index=rows, index_label=label)


def answered(name: str, rows: Any, answer: Callable, known: Any = None) -> dict[str, Any]:
    """NAME.csv with what is answered, or known; a folder of it where rows are read in blocks."""
    if isinstance(rows, Rows):
        return {name: rows.answers(answer), f"{name}.csv": None}
    own = to_csv(answer(rows) if known is None else known)
    return {f"{name}.csv": own, f"{name}/{PARTS}": None}


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value


# ---------------------------------------------------------------- columns


def _as_floats(column: pd.Series, path: Path | str) -> np.ndarray:
    if not pd.api.types.is_numeric_dtype(column):  # those of bool are
        known = column.dropna()
        plain = pd.api.types.infer_dtype(known) in PLAIN
        if not (plain or known.astype(str).str.fullmatch(LONG).all()):
            raise UserError(_text_message(known, path))
        column = known.astype(object).astype(float).reindex(column.index)
    return column.to_numpy(dtype=float, na_value=np.nan)


def _text_message(present: pd.Series, path: Path | str) -> str:
    odd = present[pd.to_numeric(present.astype(str), errors="coerce").isna()]
    first = odd if len(odd) else present
    where = f"{str(first.iloc[0])!r} in row {first.index[0]}"
    return f"column {present.name!r} of {path} holds text: {where}{_text_hint(present, odd)}"


def _text_hint(present: pd.Series, odd: pd.Series) -> str:
    """The likeliest reason, and what to do; commas may be decimal or set thousands apart."""
    texts = present.astype(str)
    dotless = texts.str.replace(".", "", regex=False)
    reasons = {
        "points": odd.empty,
        "decimal": _are_numbers(texts.str.replace(",", ".", regex=False)),
        "thousands": texts.str.fullmatch(GROUPED).all(),
        "dates": texts.str.match(DATE).all(),
        "dots": _are_numbers(dotless.str.replace(",", ".", regex=False)),
        "units": texts.str.fullmatch(MARKED).all() or _have_one_unit(odd.astype(str)),
        "missing": len(odd) <= 0.5 * len(present) and odd.nunique() <= MARKS,
        "categories": True,
    }
    found = [reason for reason, holds in reasons.items() if holds]
    likely = found[:2] if found[:2] == ["decimal", "thousands"] else found[:1]
    return "".join(SAY.content["hints"][reason].format(n=len(odd)) for reason in likely)


def _have_one_unit(texts: pd.Series) -> bool:
    """Whether all are numbers with the same word before or after them: no codes, as A1 and A2."""
    found = texts.str.extract(f"^{WORDED}$")
    words = {word for word in found[["before", "after"]].to_numpy().ravel() if word == word}
    return len(words) == 1 and bool(found["number"].notna().all())


def _are_numbers(texts: pd.Series) -> bool:
    return bool(pd.to_numeric(texts, errors="coerce").notna().all())


def complete(
    frame: pd.DataFrame, path: Path | str, drop_missing: bool, columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """The rows without a missing value, in `columns` if told; others are an error, or dropped."""
    gone = (frame if columns is None else frame[list(columns)]).isna()
    rows, n = int(gone.any(axis=1).sum()), len(frame)
    if rows and not drop_missing:
        refuse_empty(frame[gone.columns])
        raise UserError(SAY("gaps", path=path, counts=_counts(gone.sum()), rows=rows, n=n))
    kept = frame[~gone.any(axis=1)]
    kept.attrs[LEFT_OUT] = rows
    return kept


def check_enough(count: int, what: str = "rows") -> None:
    """Refuse what no estimate can come of."""
    if count < SMALLEST:
        raise UserError(f"too few {what}, {count}; at least {SMALLEST} are needed")


def check_sample(frame: pd.DataFrame, what: str = "rows", count: int | None = None) -> None:
    """Refuse few rows, or so few that `count`, and a column that is the same in every row."""
    check_enough(len(frame) if count is None else count, what)
    for name, column in frame.items():
        if column.nunique() == 1:
            raise UserError(SAY("constant", name=name, value=column.mean()))
        if column.abs().max() > checks.LARGEST:
            raise UserError(f"column {name!r} has values beyond {checks.LARGEST:g}; rescale it")


def refuse_empty(frame: pd.DataFrame) -> None:
    """Refuse a column without any value."""
    for name, column in frame.items():
        if column.isna().all():
            raise UserError(f"column {name!r} is empty")


def _counts(per_column: pd.Series) -> str:
    return ", ".join(f"{name!r} {count}" for name, count in per_column.items() if count)

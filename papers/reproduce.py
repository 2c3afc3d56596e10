"""`python -m papers`: rerun the papers' experiments, with the published numbers beside ours.

An experiment is a pure function ``run(seed, **settings)`` in a script under ``papers/<paper>/``.
It is called for every seed and every element of a grid of settings; each call's rows are kept in
a small JSON file, so an interrupted run resumes where it stopped.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import importlib
import importlib.util
import io
import json
import os
import platform
import signal
import sys
import time
import types
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table

import kernelmean as km

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Row = dict[str, Any]
Settings = dict[str, Any]

HERE = Path(__file__).resolve().parent
INTERRUPTED = 130  # the shell's exit code after Ctrl-C

console = Console()
errors = Console(stderr=True)
app = typer.Typer(add_completion=False, rich_markup_mode=None)


# ---------------------------------------------------------------- the registry
@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper, as something that can be run again.

    Parameters
    ----------
    name : str
        What the user types, for example ``"singh2019-figure10"``.
    paper, item, title : str
        The reference, the table or figure in it, and one sentence on what it shows.
    run : callable
        ``run(seed, **settings)`` returns a dict of numbers (and short labels), or a list of them.
        It lives at the top level of a module under ``papers/`` and depends on nothing else:
        experiments with the same `run`, settings and `version` share their results.
    summary : callable
        Takes a DataFrame of the rows (with the columns seed and the settings), returns a DataFrame
        with the published number beside ours wherever one is known.
    figure : callable
        Takes the same rows, returns a matplotlib Figure.
    grid, quick : sequence of dict
        The settings; those of ``--quick``.
    runs : int
        Seeds per element of the grid, by default.
    first_seed : int
        Run i has the seed ``first_seed + i``.
    seconds : float
        Time of one seed over the whole grid on one core, for ``--list``.
    quick_runs : int
        Seeds under ``--quick``.
    version : int
        Raised when the code of `run` changes its numbers: older results are then run again.
    deterministic : bool
        No randomness: one run, whatever ``--runs`` says.
    notes : str
        What the reader of the table has to know.
    """

    name: str
    paper: str
    item: str
    title: str
    run: Callable[..., Row | list[Row]]
    summary: Callable[[DataFrame], DataFrame]
    figure: Callable[[DataFrame], Figure]
    grid: Sequence[Settings]
    quick: Sequence[Settings]
    runs: int
    first_seed: int
    seconds: float
    quick_runs: int = 2
    version: int = 1
    deterministic: bool = False
    notes: str = ""

    def seeds(self, quick: bool, runs: int | None) -> list[int]:
        """The seeds of a run of `runs` repetitions (None: the default number)."""
        default = self.quick_runs if quick else self.runs
        count = 1 if self.deterministic else runs or default
        return [self.first_seed + i for i in range(count)]


def find_papers(given: Path | None) -> Path:
    """The folder of experiments: the one given, or the repository's."""
    folder = given or HERE
    if not experiment_files(folder):
        fail(f"no experiments found in {folder}; give a folder of papers with --papers PATH")
    return folder.resolve()


def experiment_files(papers: Path) -> list[Path]:
    """Scripts that declare experiments; any other script is left unread by Python."""
    return [f for f in sorted(papers.glob("*/*.py")) if "EXPERIMENTS" in f.read_text("utf-8")]


def import_from(papers: Path, module: str) -> types.ModuleType:
    """Import ``module``, "paper.script", as part of this package, where it stands beside this file.

    Another folder is a package named after its path: two such folders are kept apart, and
    `sys.path` is left as it is.
    """
    if papers == HERE:
        return importlib.import_module(f"{__package__}.{module}")
    package = f"kernelmean_papers_{hashlib.sha256(bytes(papers)).hexdigest()[:8]}"
    if package not in sys.modules:
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [str(papers)]
    return importlib.import_module(f"{package}.{module}")


@lru_cache
def load_registry(papers: Path) -> dict[str, Experiment]:
    """All experiments under `papers`, by name."""
    found: dict[str, Experiment] = {}
    for file in experiment_files(papers):
        for experiment in import_from(papers, f"{file.parent.name}.{file.stem}").EXPERIMENTS:
            if experiment.name in found:
                raise ValueError(f"two experiments are named {experiment.name!r}; see {file}")
            found[experiment.name] = experiment
    return found


# ---------------------------------------------------------------- results kept on disk
@dataclass(frozen=True)
class Task:
    """One call of an experiment's `run`, and where its rows are kept."""

    papers: Path
    cache: Path
    experiment: str
    settings: Settings
    seed: int

    @property
    def function(self) -> str:
        """`run` as paper.script.name: what, besides its arguments, determines the rows."""
        run = load_registry(self.papers)[self.experiment].run
        return f"{run.__module__.split('.', 1)[1]}.{run.__qualname__}"

    @property
    def key(self) -> Row:
        """Everything that has to be the same for a stored result to be used again."""
        return {
            "function": self.function,
            "version": load_registry(self.papers)[self.experiment].version,
            "kernelmean": km.__version__,
            "settings": json.loads(json.dumps(self.settings)),
            "seed": self.seed,
        }

    @property
    def file(self) -> Path:
        """Where the rows are kept."""
        return self.cache / self.function / f"{digest(self.key)[:32]}.json"

    def read(self) -> list[Row] | None:
        """The stored rows; None where there are none, or the file is damaged or of another key."""
        try:
            stored = json.loads(self.file.read_text("utf-8"))
            rows, right = stored["rows"], stored["key"] == self.key
            return rows if right and stored["sha256"] == digest(rows) else None
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def run(self) -> None:
        """Call the experiment with one thread, store what it returns."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            start = time.perf_counter()
            result = load_registry(self.papers)[self.experiment].run(self.seed, **self.settings)
            seconds = time.perf_counter() - start
        rows = plain(result if isinstance(result, list) else [result])
        stored = {"key": self.key, "seconds": seconds, "sha256": digest(rows), "rows": rows}
        write(self.file, json.dumps(stored, indent=1).encode())

    def labelled(self) -> list[Row]:
        """The stored rows with their seed and settings."""
        return [{"seed": self.seed, **self.settings, **row} for row in self.read() or []]


def plain(rows: list[Row]) -> list[Row]:
    """NumPy scalars as Python's own."""
    return json.loads(json.dumps(rows, default=lambda scalar: scalar.item()))


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def write(file: Path, content: bytes) -> None:
    """Write under a temporary name, then rename: a file is there whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


# ---------------------------------------------------------------- running
def run_all(tasks: list[Task], jobs: int, title: str) -> None:
    """Run the tasks in `jobs` processes under a progress bar; each stores its own rows."""
    import joblib

    run = joblib.delayed(Task.run if jobs == 1 else run_in_worker)
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    with progress_bar() as bar, closing(parallel(run(t) for t in tasks)) as done:
        bar_id = bar.add_task(title, total=len(tasks))
        for _ in done:
            bar.advance(bar_id)


def run_in_worker(task: Task) -> None:
    """Run in a process that leaves Ctrl-C to its parent, which then ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    task.run()


def progress_bar() -> Progress:
    """The bar: what, how many of how many, how long still."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=errors,
    )


@dataclass(frozen=True)
class Result:
    """What one experiment gave, ready to be shown."""

    experiment: Experiment
    rows: DataFrame
    table: DataFrame
    figure: bytes
    runs: int
    command: str


def reproduce_one(
    experiment: Experiment,
    papers: Path,
    out: Path,
    quick: bool,
    runs: int | None,
    jobs: int,
    fresh: bool,
) -> Result:
    """Run what is not stored yet, then summarise everything."""
    import pandas as pd

    seeds = experiment.seeds(quick, runs)
    grid = experiment.quick if quick else experiment.grid
    tasks = [Task(papers, out / "cache", experiment.name, s, seed) for seed in seeds for s in grid]
    missing = [t for t in tasks if fresh or t.read() is None]
    if missing:
        run_all(missing, jobs, experiment.name)
    say(f"{experiment.name}: {len(missing)} run, {len(tasks) - len(missing)} kept")
    rows = pd.DataFrame([row for t in tasks for row in t.labelled()])
    return Result(
        experiment=experiment,
        rows=rows,
        table=experiment.summary(rows),
        figure=png(experiment.figure(rows)),
        runs=len(seeds),
        command=command_line(experiment.name, quick, runs),
    )


def command_line(name: str, quick: bool, runs: int | None) -> str:
    """The command that gives the same numbers again."""
    options = ["--quick"] * quick + [f"--runs {runs}"] * (runs is not None)
    return " ".join(["python -m papers", name, *options])


def png(figure: Figure) -> bytes:
    """The figure as a PNG picture."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, bbox_inches="tight")
    return buffer.getvalue()


# ---------------------------------------------------------------- showing
def digits(value: object) -> str:
    """Five significant digits for a number, nothing for a missing one."""
    if isinstance(value, float):
        return "" if value != value else f"{value:.5g}"
    return str(value)


def show(result: Result) -> None:
    """Print the table: the columns that fit, from the left; the page has them all."""
    cells = result.table.map(digits)
    widths = [max(map(len, [str(name), *cells[name]])) + 3 for name in cells]
    fitting = [
        name for name, end in zip(cells, accumulate(widths), strict=True) if end < console.width
    ]
    table = Table(title=escape(f"{result.experiment.name}: {result.experiment.title}"))
    for name in fitting:
        numeric = result.table[name].dtype.kind in "if"
        table.add_column(escape(str(name)), justify="right" if numeric else "left", no_wrap=True)
    for row in cells[fitting].itertuples(index=False):
        table.add_row(*map(escape, row))
    console.print(table)


def save(results: list[Result], out: Path) -> Path:
    """Write rows, table and figure of each experiment, and one page with all of them."""
    for r in results:
        folder = out / r.experiment.name
        write(folder / "rows.csv", csv(r.rows))
        write(folder / "summary.csv", csv(r.table))
        write(folder / "figure.png", r.figure)
    index = out / "index.html"
    write(index, page(results).encode())
    return index


def csv(frame: DataFrame) -> bytes:
    """The frame as CSV text."""
    return frame.to_csv(index=False).encode()


def page(results: list[Result]) -> str:
    """One self-contained HTML page: pictures and rows are inside it."""
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string(PAGE)
    return template.render(
        results=results,
        table=lambda frame: frame.to_html(index=False, border=0, float_format=digits, na_rep=""),
        base64=lambda content: base64.b64encode(content).decode(),
        csv=csv,
        versions=versions(),
        date=time.strftime("%d %B %Y, %H:%M"),
    )


def versions() -> str:
    """Where the numbers were computed."""
    packages = ", ".join(f"{p} {version(p)}" for p in ("numpy", "scipy", "scikit-learn"))
    return f"kernelmean {km.__version__}, Python {platform.python_version()}, {packages}, " + (
        f"{platform.system()} {platform.machine()}"
    )


def show_list(registry: dict[str, Experiment]) -> None:
    """Print the experiments there are."""
    table = Table(Column("name", no_wrap=True), "paper", "what", "runs", "time, one job")
    for e in registry.values():
        runs = 1 if e.deterministic else e.runs
        table.add_row(e.name, e.paper, e.item, str(runs), duration(runs * e.seconds))
    console.print(table)


def duration(seconds: float) -> str:
    """A time in its natural unit.

    >>> duration(0.2), duration(90), duration(9000)
    ('1 s', '1.5 min', '2.5 h')
    """
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.2g} min" if seconds < 3600 else f"{seconds / 3600:.2g} h"


# ---------------------------------------------------------------- the command
def say(message: str) -> None:
    """One line on stderr."""
    errors.print(message, markup=False, highlight=False, soft_wrap=True)


def fail(message: str) -> NoReturn:
    """One line on stderr, exit code 2."""
    say(f"python -m papers: {message}")
    raise typer.Exit(2)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Experiments, as --list names them.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the experiments and stop.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Run every experiment.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small samples, few runs.")] = False,
    runs: Annotated[int | None, typer.Option(min=1, help="Runs, instead of the paper's.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, of one thread each.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("kernelmean-reproduce"),
    papers: Annotated[Path | None, typer.Option(help="Folder of the experiments.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ignore results kept in --out.")] = False,
) -> None:
    """Rerun the papers' experiments; write tables, figures and one HTML page.

    Every finished run is kept in the output folder: after an interruption the same command does
    the rest. Results of another version of kernelmean are not used.
    """
    folder = find_papers(papers)
    need("pandas", "joblib", "matplotlib", "jinja2")
    registry = load_registry(folder)
    if list_:
        show_list(registry)
        return
    experiments = chosen(registry, names or [], all_)
    make_folder(out)
    results: list[Result] = []
    for experiment in experiments:
        try:
            results.append(reproduce_one(experiment, folder, out, quick, runs, jobs, fresh))
        except KeyboardInterrupt:
            say(f"interrupted; what is done is kept in {out}, the same command resumes")
            raise typer.Exit(INTERRUPTED) from None
        show(results[-1])
    console.print(f"written: {save(results, out)}", soft_wrap=True)


def make_folder(out: Path) -> None:
    """Fail before the work where its results could not be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot write to {out}: {error.strerror}")


def need(*packages: str) -> None:
    """Fail where a package of the extra is not installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            fail(f"{package} is not installed: pip install 'kernelmean[papers]'")


def chosen(registry: dict[str, Experiment], names: list[str], all_: bool) -> list[Experiment]:
    """The experiments asked for, in the order asked for."""
    if all_ == bool(names):
        fail("give the names of experiments, or --all; --list shows what there is")
    for name in set(names) - set(registry):
        close = difflib.get_close_matches(name, registry, n=1, cutoff=0.3)
        hint = f"; did you mean {close[0]}?" if close else ""
        fail(f"no experiment is named {name!r}{hint} (--list shows all)")
    return [registry[name] for name in dict.fromkeys(names or registry)]


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>kernelmean: published experiments, repeated</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #1c1c1c; max-width: 76rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.3rem; margin-top: 3rem; }
code { background: #f1f1f1; padding: .15em .4em; border-radius: 3px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3em .6em; text-align: right; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; vertical-align: bottom; }
img { max-width: 100%; height: auto; }
.small { color: #555; font-size: .85rem; }
</style>
</head>
<body>
<h1>Published experiments, repeated</h1>
<p class="small">{{ date }} · {{ versions }}</p>
<ul>
{% for r in results %}<li><a href="#{{ r.experiment.name }}">{{ r.experiment.paper }},
{{ r.experiment.item }}</a>: {{ r.experiment.title }}</li>
{% endfor %}</ul>
{% for r in results %}
<h2 id="{{ r.experiment.name }}">{{ r.experiment.paper }}, {{ r.experiment.item }}</h2>
<p>{{ r.experiment.title }} {{ r.experiment.notes }}</p>
<div class="wide">{{ table(r.table) | safe }}</div>
<p><img alt="{{ r.experiment.item }} of {{ r.experiment.paper }}, repeated"
 src="data:image/png;base64,{{ base64(r.figure) }}"></p>
<p class="small">{{ r.runs }} run{{ "" if r.runs == 1 else "s" }}, seeds from
{{ r.experiment.first_seed }}. <a download="{{ r.experiment.name }}.csv"
 href="data:text/csv;base64,{{ base64(csv(r.rows)) }}">All rows (CSV)</a>.
Again: <code>{{ r.command }}</code></p>
{% endfor %}
</body>
</html>
"""

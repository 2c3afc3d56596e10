"""The commands and their options. What they do stands in the files beside this one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from .. import __version__
from .errors import UserError

UsageError: Any = typer.BadParameter.__bases__[0]  # what the parser raises on any bad option


class Commands(TyperGroup):
    """Commands whose every mistake is one line on stderr and exit code 2."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except UserError as err:
            fail(str(err))
        except UsageError as err:
            fail(err.format_message())
        except (KeyboardInterrupt, typer.Abort):
            fail("interrupted", code=130)
        sys.exit(code if isinstance(code, int) else 0)


def fail(message: str, code: int = 2) -> NoReturn:
    """One line on stderr, then the exit code."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    help="Compute with probability distributions through kernel mean embeddings.",
)
out = Console()
err = Console(stderr=True)


def _say_version(asked: bool) -> None:
    if asked:
        print(f"kernelmean {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Compute with probability distributions through kernel mean embeddings."""
    if context.invoked_subcommand is None:
        print(context.get_help())


class KernelName(StrEnum):
    """Kernels by name."""

    gaussian = "gaussian"
    laplace = "laplace"
    matern = "matern"
    linear = "linear"


Data = Annotated[Path, typer.Argument(help="A CSV or Parquet file.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", help="Folder for the results.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with a missing value.")
]
Separator = Annotated[str, typer.Option(help="Separator of a CSV file.")]
Decimal = Annotated[str, typer.Option(help="Decimal mark of a CSV file.")]


@app.command()
def iv(
    data: Data,
    y: Annotated[str | None, typer.Option(help="Outcome.")] = None,
    x: Annotated[str | None, typer.Option(help="Endogenous column(s), by commas.")] = None,
    z: Annotated[str | None, typer.Option(help="Instrument(s), by commas.")] = None,
    c: Annotated[str | None, typer.Option(help="Exogenous column(s), by commas.")] = None,
    formula: Annotated[
        str | None,
        typer.Option(help="In place of these: 'y ~ c1 + C(c2) + [np.log(x) ~ z1 + z2]'."),
    ] = None,
    folder: Out = Path("kernelmean-iv"),
    at: Annotated[
        Path | None, typer.Option(help="Predict for the rows of this file, not those of DATA.")
    ] = None,
    kernel: Annotated[
        KernelName, typer.Option(help="Kernel of both stages.")
    ] = KernelName.gaussian,
    split: Annotated[
        str,
        typer.Option(
            help="loo: all rows in both stages; a share of stage 1, as 0.5; a number of folds; "
            "samples: two samples in one table, by what is missing."
        ),
    ] = "loo",
    trend: Annotated[
        str, typer.Option(help="Degree of a polynomial beside the kernel; auto or none.")
    ] = "auto",
    tune: Annotated[
        bool | None,
        typer.Option(
            "--tune/--no-tune",
            help="Search a lengthscale for each column; when left out, unless --split is a share.",
        ),
    ] = None,
    seed: Seed = 0,
    drop_missing: DropMissing = False,
    sep: Separator = ",",
    decimal: Decimal = ".",
) -> None:
    """The effect of X on Y when something unseen drives both, by way of instruments Z.

    Writes predictions.csv, model.km and report.html into the folder --out.
    """
    from .files import check_folder, write_all
    from .iv import Analysis, Data, Settings, columns_asked, read_split, read_trend
    from .ivreport import outputs, report
    from .tables import read_table

    check_folder(folder)
    settings = Settings(kernel.value, read_split(split), read_trend(trend), tune, seed)
    columns = columns_asked(y, x, z, c, formula)
    table, gaps = read_table(data, sep, decimal), settings.split == "samples"
    if columns is None:
        used = Data.by_formula(table, str(formula), gaps, drop_missing)
    else:
        used = Data.read(table, columns, gaps, drop_missing)
    rows = used.own(table) if at is None else used.rows(read_table(at, sep, decimal), drop_missing)
    with working("Fitting both stages"):
        analysis = Analysis.of(used, settings)
    with working("Measuring the first stage"):
        analysis.first_stages  # noqa: B018  (computed once, here)
    with working("Writing the report"):
        page = report(analysis, data.name, ["kernelmean", *sys.argv[1:]])
        paths = write_all(folder, outputs(analysis, rows, page))
    tell_iv(analysis)
    tell_files(paths)


def tell_iv(analysis: Any) -> None:
    """The numbers of `kernelmean iv`, on the terminal."""
    from .ivreport import curve_table, effects, facts, headline, strength, tests, warnings_of

    found = [*facts(analysis), *strength(analysis), *tests(analysis)]
    title = f"Kernel instrumental-variable regression of {analysis.columns.y}"
    tell_pairs(title, [(name, value) for name, value, _ in found])
    for column in analysis.columns.x:
        grid = curve_table(analysis, column)
        tell_grid(grid.caption, grid.header, grid.rows)
        out.print(f"{escape(headline(analysis, column))}\n")
    average = effects(analysis)
    if average is not None:
        tell_grid(average.caption, average.header, average.rows)
    for warning in warnings_of(analysis):
        out.print(f"[yellow]Note:[/] {escape(warning)}\n")


class RuleName(StrEnum):
    """The two forms of kernel Bayes' rule."""

    importance = "importance"
    squared = "squared"


@app.command()
def posterior(
    pairs: Annotated[
        Path, typer.Argument(help="A CSV or Parquet file of examples.", show_default=False)
    ],
    latent: Annotated[str, typer.Option(help="Column(s) to infer, by commas.", show_default=False)],
    observed: Annotated[str, typer.Option(help="Column(s) observed.", show_default=False)],
    at: Annotated[
        Path, typer.Option(help="A file of new rows of the observed columns.", show_default=False)
    ],
    prior: Annotated[
        Path | None, typer.Option(help="A file of prior samples of the latent columns.")
    ] = None,
    folder: Out = Path("kernelmean-posterior"),
    level: Annotated[float, typer.Option(min=0.01, max=0.99, help="Level of the intervals.")] = 0.9,
    rule: Annotated[RuleName, typer.Option(help="Form of the rule.")] = RuleName.importance,
    drop_missing: DropMissing = False,
    sep: Separator = ",",
    decimal: Decimal = ".",
) -> None:
    """What is known of LATENT once OBSERVED is seen, learned from examples of both.

    Writes posterior.csv, model.km and report.html into the folder --out.
    """
    from .files import check_folder, write_all
    from .posterior import Posteriors
    from .posteriorreport import outputs, report
    from .tables import read_table, split_names

    check_folder(folder)
    wanted = {"--latent": split_names(latent, "--latent")}
    seen = {"--observed": split_names(observed, "--observed")}
    frame = read_table(pairs, sep, decimal).numbers({**wanted, **seen}, drop_missing)
    rows = read_table(at, sep, decimal).numbers(seen, drop_missing)
    samples = None
    if prior is not None:
        samples = read_table(prior, sep, decimal).numbers(wanted, drop_missing)
    with working("Conditioning"):
        found = Posteriors.of(
            frame,
            wanted["--latent"],
            seen["--observed"],
            rows,
            samples,
            rule=rule.value,
            level=level,
        )
    with working("Writing the report"):
        page = report(found, pairs.name, ["kernelmean", *sys.argv[1:]])
        paths = write_all(folder, outputs(found, page))
    tell_posterior(found)
    tell_files(paths)


def tell_posterior(found: Any) -> None:
    """The numbers of `kernelmean posterior`, on the terminal."""
    from .posteriorreport import answers, facts

    title = f"Kernel Bayes' rule: {', '.join(found.latent)} given {', '.join(found.observed)}"
    tell_pairs(title, [(name, value) for name, value, _ in facts(found)])
    grid = answers(found)
    tell_grid(grid.caption, grid.header, grid.rows)
    for note in found.notes:
        out.print(f"[yellow]Note:[/] {escape(note)}\n")


@app.command()
def density(
    data: Data,
    y: Annotated[str, typer.Option(help="Column(s) to describe, by commas.", show_default=False)],
    x: Annotated[str, typer.Option(help="Column(s) known, by commas.", show_default=False)],
    at: Annotated[
        Path | None,
        typer.Option(help="A file of rows of X; when left out, a few that stand for DATA."),
    ] = None,
    folder: Out = Path("kernelmean-density"),
    level: Annotated[float, typer.Option(min=0.01, max=0.99, help="Level of the intervals.")] = 0.9,
    kernel: Annotated[KernelName, typer.Option(help="Kernel on X.")] = KernelName.gaussian,
    bandwidth: Annotated[
        str | None,
        typer.Option(
            help="How smooth the density is, in units of Y: a number, or one per column, by "
            "commas. Chosen from the data when left out."
        ),
    ] = None,
    drop_missing: DropMissing = False,
    sep: Separator = ",",
    decimal: Decimal = ".",
) -> None:
    """The whole distribution of Y given X: densities, quantiles and intervals.

    Writes density.csv, model.km and report.html into the folder --out.
    """
    from .density import Densities, Settings, read_bandwidth
    from .densityreport import outputs, report
    from .files import check_folder, write_all
    from .tables import read_table, split_names

    check_folder(folder)
    settings = Settings(kernel.value, read_bandwidth(bandwidth), level)
    wanted, known = {"--y": split_names(y, "--y")}, {"--x": split_names(x, "--x")}
    frame = read_table(data, sep, decimal).numbers({**wanted, **known}, drop_missing)
    rows = None if at is None else read_table(at, sep, decimal).numbers(known, drop_missing)
    found = Densities.of(frame, wanted["--y"], known["--x"], rows, settings, verbose=True)
    with working("Writing the report"):
        page = report(found, data.name, ["kernelmean", *sys.argv[1:]])
        paths = write_all(folder, outputs(found, page))
    tell_density(found)
    tell_files(paths)


def tell_density(found: Any) -> None:
    """The numbers of `kernelmean density`, on the terminal."""
    from .densityreport import answers, facts, headline, names

    title = f"Conditional density: {names(found.y)} given {names(found.x)}"
    tell_pairs(title, [(name, value) for name, value, _ in facts(found)])
    for name in found.y:
        grid = answers(found, name)
        tell_grid(grid.caption, grid.header, grid.rows)
        out.print(f"{escape(headline(found, name))}\n")
    for note in found.notes:
        out.print(f"[yellow]Note:[/] {escape(note)}\n")


@app.command("filter")
def filter_(
    train: Annotated[
        Path,
        typer.Argument(help="A CSV or Parquet file with states in sight.", show_default=False),
    ],
    test: Annotated[
        Path, typer.Argument(help="A file of observations to follow.", show_default=False)
    ],
    state: Annotated[str, typer.Option(help="Column(s) to follow, by commas.", show_default=False)],
    observe: Annotated[str, typer.Option(help="Column(s) observed.", show_default=False)],
    sequence: Annotated[
        str | None, typer.Option(help="Column that tells trajectories apart, in both files.")
    ] = None,
    smooth: Annotated[bool, typer.Option("--smooth", help="Use later observations too.")] = False,
    forecast: Annotated[
        int, typer.Option(min=0, max=100_000, help="Steps to forecast after the last row.")
    ] = 0,
    folder: Out = Path("kernelmean-filter"),
    level: Annotated[float, typer.Option(min=0.01, max=0.99, help="Level of the intervals.")] = 0.9,
    rule: Annotated[RuleName, typer.Option(help="Form of the rule.")] = RuleName.importance,
    tune: Annotated[
        bool | None,
        typer.Option(
            "--tune/--no-tune",
            help="Search for settings by tracking; when left out, up to 1,000 rows of TRAIN.",
        ),
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows of TRAIN with a missing value.")
    ] = False,
    sep: Separator = ",",
    decimal: Decimal = ".",
) -> None:
    """Follow hidden states through observations, learned from examples in order of time.

    An empty field in TEST is a missing observation.

    Errors are shown where TEST has the states too.

    Writes track.csv, forecast.csv, model.km and report.html into the folder --out.
    """
    from .files import check_folder, write_all
    from .filter import Settings, Tracks, learn
    from .filterreport import outputs, report
    from .tables import read_table, split_names

    check_folder(folder)
    settings = Settings(
        split_names(state, "--state"),
        split_names(observe, "--observe"),
        sequence,
        rule.value,
        smooth,
        forecast,
        level,
        tune,
    )
    tables = read_table(train, sep, decimal), read_table(test, sep, decimal)
    past, now = settings.read(*tables, drop_missing)
    model = learn(settings, past)
    with working("Tracking"):
        found = Tracks.of(settings, past, now, model)
    with working("Writing the report"):
        page = report(found, test.name, ["kernelmean", *sys.argv[1:]])
        paths = write_all(folder, outputs(found, page))
    tell_filter(found)
    tell_files(paths)


def tell_filter(found: Any) -> None:
    """The numbers of `kernelmean filter`, on the terminal."""
    from .filterreport import answers, errors, facts, forecast, notes

    s = found.settings
    title = f"Kernel Bayes filter: {', '.join(s.states)} followed through {', '.join(s.observed)}"
    tell_pairs(title, [(name, value) for name, value, _ in facts(found)])
    grids = [answers(found)]
    grids += [errors(found)] if found.errors is not None else []
    grids += [forecast(found)] if found.ahead is not None else []
    for grid in grids:
        tell_grid(grid.caption, grid.header, grid.rows)
    for note in notes(found):
        out.print(f"[yellow]Note:[/] {escape(note)}\n")


class InferenceName(StrEnum):
    """How an observation changes the probabilities of hidden states."""

    kbr = "kbr"
    forward = "forward"


@app.command()
def hmm(
    data: Data,
    columns: Annotated[
        str, typer.Option(help="Column(s) observed, by commas.", show_default=False)
    ],
    states: Annotated[
        str,
        typer.Option(
            help="Number of hidden states; auto estimates it, as do the rules correlations (which "
            "is auto), threshold, elbow, ratio, and likelihood (slow)."
        ),
    ] = "auto",
    sequence: Annotated[str | None, typer.Option(help="Column that tells sequences apart.")] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of dates or numbers that names the rows.")
    ] = None,
    forecast: Annotated[
        int,
        typer.Option(
            "--forecast", "--horizon", min=0, max=100_000, help="Rows to forecast after the last."
        ),
    ] = 0,
    folder: Out = Path("kernelmean-hmm"),
    level: Annotated[float, typer.Option(min=0.01, max=0.99, help="Level of the intervals.")] = 0.9,
    inference: Annotated[
        InferenceName, typer.Option(help="Kernel Bayes' rule, or Bayes' rule with densities.")
    ] = InferenceName.kbr,
    refine: Annotated[
        bool, typer.Option("--refine/--no-refine", help="Whether EM follows the moments.")
    ] = True,
    seed: Seed = 0,
    sep: Separator = ",",
    decimal: Decimal = ".",
) -> None:
    """Hidden regimes of a series: their number, laws and order, and what comes next.

    Rows are in the order of time. An empty field is a missing observation.

    Writes states.csv, forecast.csv, model.km and report.html into the folder --out.
    """
    from .files import check_folder, write_all
    from .hmm import Regimes, Settings, read_states
    from .hmmreport import outputs, report
    from .tables import read_table, split_names

    check_folder(folder)
    settings = Settings(
        split_names(columns, "--columns"),
        read_states(states),
        sequence,
        time,
        inference.value,
        refine,
        forecast,
        level,
        seed,
    )
    series = settings.read(read_table(data, sep, decimal))
    found = Regimes.of(settings, series, verbose=True)
    with working("Writing the report"):
        page = report(found, data.name, ["kernelmean", *sys.argv[1:]])
        paths = write_all(folder, outputs(found, page))
    tell_hmm(found)
    tell_files(paths)


def tell_hmm(found: Any) -> None:
    """The numbers of `kernelmean hmm`, on the terminal."""
    from .densityreport import names
    from .hmmreport import chain, count_words, facts, forecast, headline, orders, states

    title = f"Hidden Markov model: {names(found.settings.columns)}, {count_words(found)}"
    tell_pairs(title, [(name, value) for name, value, _ in facts(found)])
    tell_pairs("How many states", [(name, value) for name, value, _ in orders(found)])
    grids = [states(found), chain(found)]
    grids += [forecast(found)] if found.ahead is not None else []
    for grid in grids:
        tell_grid(grid.caption, grid.header, grid.rows)
    out.print(f"{escape(headline(found))}\n")
    for note in found.notes:
        out.print(f"[yellow]Note:[/] {escape(note)}\n")


class LatentInferenceName(StrEnum):
    """How an observation changes the law of a latent state."""

    nodes = "nodes"
    particles = "particles"
    kbr = "kbr"


@app.command()
def ssm(
    data: Data,
    columns: Annotated[
        str, typer.Option(help="Column(s) observed, by commas.", show_default=False)
    ],
    sequence: Annotated[str | None, typer.Option(help="Column that tells sequences apart.")] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of dates or numbers that names the rows.")
    ] = None,
    forecast: Annotated[
        int,
        typer.Option(
            "--forecast", "--horizon", min=0, max=100_000, help="Rows to forecast after the last."
        ),
    ] = 0,
    folder: Out = Path("kernelmean-ssm"),
    level: Annotated[float, typer.Option(min=0.01, max=0.99, help="Level of the intervals.")] = 0.9,
    latent_dim: Annotated[
        int, typer.Option(min=1, max=10, help="Dimension of the latent state.")
    ] = 1,
    log_squares: Annotated[
        bool,
        typer.Option(
            "--log-squares",
            help="Model log y² in place of y, as for the volatility of returns y; zeros are "
            "missing.",
        ),
    ] = False,
    tune: Annotated[
        bool,
        typer.Option("--tune/--no-tune", help="Search for settings by rows held back (slow)."),
    ] = False,
    inference: Annotated[
        LatentInferenceName,
        typer.Option(help="Bayes' rule on nodes or with particles, or kernel Bayes' rule."),
    ] = LatentInferenceName.nodes,
    refine: Annotated[
        bool, typer.Option("--refine/--no-refine", help="Whether EM follows the moments.")
    ] = True,
    seed: Seed = 0,
    sep: Separator = ",",
    decimal: Decimal = ".",
) -> None:
    """Forecasts of a series by a state-space model without families of distributions.

    Rows are in the order of time. An empty field is a missing observation.

    Writes track.csv, forecast.csv, model.km and report.html into the folder --out.
    """
    from .files import check_folder, write_all
    from .ssm import Forecasts, Settings
    from .ssmreport import outputs, report
    from .tables import read_table, split_names

    check_folder(folder)
    settings = Settings(
        split_names(columns, "--columns"),
        sequence,
        time,
        latent_dim,
        inference.value,
        refine,
        log_squares,
        tune,
        forecast,
        level,
        seed,
    )
    series = settings.read(read_table(data, sep, decimal))
    found = Forecasts.of(settings, series, verbose=True)
    with working("Writing the report"):
        page = report(found, data.name, ["kernelmean", *sys.argv[1:]])
        paths = write_all(folder, outputs(found, page))
    tell_ssm(found)
    tell_files(paths)


def tell_ssm(found: Any) -> None:
    """The numbers of `kernelmean ssm`, on the terminal."""
    from .densityreport import names
    from .ssmreport import accuracy, facts, forecast

    title = f"State-space model: {names(found.settings.names)}"
    tell_pairs(title, [(name, value) for name, value, _ in facts(found)])
    grids = [] if found.trial is None else [accuracy(found.trial, found.settings.level)]
    grids += [forecast(found)] if found.ahead is not None else []
    for grid in grids:
        tell_grid(grid.caption, grid.header, grid.rows)
    for note in found.notes:
        out.print(f"[yellow]Note:[/] {escape(note)}\n")


@app.command()
def demo(
    folder: Out = Path("kernelmean-demo"),
    open_: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page, where there is a display.")
    ] = True,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions.")] = False,
) -> None:
    """Run the library on real data, and show what it found on one page."""
    from .demo import INDEX, JOBS, outputs, page, results, show
    from .files import check_folder, write_all

    check_folder(folder)
    found = []
    running = results(quick)
    for position, job in enumerate(JOBS, start=1):
        err.print(f"[bold]{position}/{len(JOBS)}[/] {escape(job.title)}")
        _, result, seconds = next(running)
        tell_pairs(f"{job.title} ({seconds:.1f} s)", result.lines)
        found.append(result)
    write_all(folder, outputs(page(found)))
    tell_files([folder / INDEX])
    if open_ and not show(folder / INDEX):
        out.print("There is no display here; open the page in any browser.")


@app.command()
def info() -> None:
    """Versions, linear algebra, cores and memory, and what would make it faster."""
    from ..app import info as about

    found, libraries, cores = about.extras(), about.blas(), about.cores()
    tell_pairs("Versions", about.versions().items())
    packages = (pair for extra in found.values() for pair in extra.items())
    tell_pairs(
        "Optional packages", [(name, present or "not installed") for name, present in packages]
    )
    tell_pairs("Machine", about.machine(libraries, cores))
    hints = about.advice(libraries, cores, about.instructions(), found)
    for hint in hints or ["Nothing to improve."]:
        out.print(f"[bold]Advice:[/] {escape(hint)}")


@app.command(hidden=True, context_settings={"ignore_unknown_options": True})
def reproduce(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Moved, with the experiments, out of the package."""
    raise UserError("kernelmean reproduce is now python -m papers, from a clone of the repository")


# ---------------------------------------------------------------- the terminal


def working(what: str) -> AbstractContextManager:
    """A spinner on a terminal while something runs."""
    return err.status(f"{what} …")


def tell_pairs(title: str, pairs: Any) -> None:
    """Names and values in two columns."""
    out.print(f"[bold]{escape(title)}[/]")
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(escape(str(name)), escape(str(value)))
    out.print(table)
    out.print()


def tell_grid(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of numbers."""
    out.print(f"[bold]{escape(title)}[/]")
    table = Table(box=None, pad_edge=False)
    for name in header:
        table.add_column(escape(name), justify="right")
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)
    out.print()


def tell_files(paths: Sequence[Path]) -> None:
    """Where the results are."""
    for path in paths:
        out.print(f"written: {path}", markup=False, highlight=False, soft_wrap=True)

"""Columns may be called anything: names are drawn, escaped and written as they are."""

from __future__ import annotations

import csv
import html
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pandas as pd
import pytest

import kernelmean as km
from kernelmean.app import commands
from kernelmean.app.command import Shared
from kernelmean.app.report import Figure

ONE, TWO, THREE = "rev_$k_of_$m", "=a<b>^2 & [red]x[/]", 'he said "{0}", 5%'


def quoted(*names: str) -> str:
    """Names for an option: as in a CSV file."""
    return ",".join('"' + name.replace('"', '""') + '"' for name in names)


@pytest.fixture
def table(tmp_path, monkeypatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    z, noise = rng.normal(size=(2, 60))
    x = z + 0.3 * rng.normal(size=60)
    frame = pd.DataFrame({ONE: x + noise, TWO: x, THREE: z})
    frame.to_csv("data.csv", index=False)
    return frame


COMMANDS = {
    "iv": ("--y", quoted(ONE), "--x", quoted(TWO), "--z", quoted(THREE), "--split", "0.5"),
    "density": ("--y", quoted(ONE), "--x", quoted(TWO, THREE), "--bandwidth", "1", "--no-tune"),
    "posterior": ("--latent", quoted(ONE, TWO), "--observed", quoted(THREE), "--at", "data.csv"),
    "filter": ("--state", quoted(ONE, TWO), "--observe", quoted(THREE), "--no-tune"),
    "hmm": ("--columns", quoted(ONE, TWO), "--states", "2", "--no-refine", "--forecast", "2"),
    "ssm": ("--columns", quoted(ONE), "--no-refine", "--log-squares", "--forecast", "2"),
}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_any_name_will_do(run, table, command):
    files = ["data.csv", "data.csv"] if command == "filter" else ["data.csv"]
    result = run(command, *files, *COMMANDS[command])
    assert result.exit_code == 0, result.output
    assert ONE in result.stdout
    folder = Path(f"kernelmean-{command}")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<b>^2" not in page
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    assert ONE in text
    if command != "ssm":
        assert TWO in text
    made = []
    for file in folder.glob("*.csv"):
        header = next(csv.reader(file.read_text(encoding="utf-8").splitlines()))
        assert list(pd.read_csv(file).columns) == header
        made += header
    assert any(ONE in name for name in made)
    for file in folder.glob("*.km"):
        km.load(file)


def test_commands_on_tables_are_all_above():
    found = [
        import_module(f"{commands.__name__}.{m.name}") for m in iter_modules(commands.__path__)
    ]
    on_tables = {m.COMMAND.name for m in found if issubclass(m.COMMAND.options, Shared)}
    assert on_tables == set(COMMANDS)


def test_dollars_are_not_mathematics():
    figure = Figure("f", "", lambda axes: axes.set(xlabel=ONE, ylabel=r"$\frac{$", title="a$^$b"))
    drawing = figure.drawing
    drawing.canvas.draw()
    assert drawing.axes[0].get_xlabel() == ONE
    assert not drawing.axes[0].xaxis.label.get_parse_math()


def test_displays_draw_dollars_on_pages_as_they_are():
    """A backslash before a dollar is for those who draw with mathematics."""
    grid = np.linspace(0, 1, 5)
    shown = km.display.StructuralCurveDisplay(grid, grid, None, None, grid, grid, ONE, TWO)
    assert Figure("f", "", shown.plot).drawing.axes[0].get_xlabel() == ONE


def test_powers_of_ten_need_no_mathematics():
    figure = Figure("f", "", lambda axes: axes.semilogy([1, 2, 3], [1e-3, 1.0, 1e3]))
    figure.drawing.canvas.draw()
    said = [label.get_text() for label in figure.drawing.axes[0].get_yticklabels()]
    assert any(said)
    assert not any("$" in text for text in said)


@pytest.mark.thorough
def test_letters_that_the_font_lacks_are_left_to_the_reader_and_no_warning():
    def plot(axes) -> None:
        axes.plot([0, 1])
        axes.set_xlabel("价格")

    found = Figure("price", "", plot).svg
    assert "价格".encode() in found
    assert b"<text" not in Figure("plain", "", lambda axes: axes.plot([0, 1])).svg

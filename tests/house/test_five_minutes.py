"""The five-minute path of each kind of user runs as it stands, and says what it should."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "five_minutes"
SAYS = {
    "card": r"values of the instruments +2: h is taken for a line in educ",
    "posterior": r"P\(skewed to the right\) = (0\.9|1\.0)",
    "regimes": r"state 1: \d+ weeks, standard deviation [34]\.\d%",
    "sunspots": r"held out: root mean square 1\d\.\d",
    "wages": r"typical: median 4\.\d\d, four of five from",
}


def test_every_script_is_run():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SAYS)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_it_runs_and_says(name, capsys):
    for package in re.findall(r"^(?:from|import) (arch|statsmodels)", text(name), re.M):
        pytest.importorskip(package)
    runpy.run_path(str(FOLDER / f"{name}.py"))
    assert re.search(SAYS[name], capsys.readouterr().out)


def text(name: str) -> str:
    return (FOLDER / f"{name}.py").read_text()

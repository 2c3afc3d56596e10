"""The pages in a real browser: headless Chromium renders them, offline, without an error."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kernelmean as km

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium or chromium-browser on PATH"),
]

QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
)


def chromium(page: Path, profile: Path, *options: str) -> subprocess.CompletedProcess:
    command = [CHROMIUM, *QUIET, f"--user-data-dir={profile}", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def seen(page: Path, profile: Path) -> str:
    """The text of the rendered page."""
    dom = chromium(page, profile, "--dump-dom").stdout
    body = re.sub(r"<(style|head)\b.*?</\1>", " ", dom, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def painted(page: Path, profile: Path, target: Path, width: int = 900) -> int:
    """Take a screenshot; how many different greys it holds."""
    from matplotlib.image import imread

    chromium(page, profile, f"--window-size={width},2400", f"--screenshot={target}")
    picture = imread(target)
    assert picture.shape[:2] == (2400, width)
    return len({round(float(v), 2) for v in picture[::3, ::3, 0].ravel()})


def test_report(run, csv, tmp_path):
    run("iv", csv, "--y", "quantity", "--x", "price", "--z", "storm", "--c", "season")
    page = tmp_path / "kernelmean-iv" / "report.html"
    text = seen(page, tmp_path / "profile")
    assert text.startswith("The effect of price on quantity")
    for words in (
        "Moving price from",
        "The structural curve",
        "Plain ridge",
        "Before you rely on it",
    ):
        assert words in text
    assert not re.search(r"\bNone\b|\bnan\b|array\(|Timestamp|<bound|\{\{", text)
    assert painted(page, tmp_path / "profile", tmp_path / "report.png") > 20


def test_tracks(run, tmp_path):
    for seed, name in enumerate(("train.csv", "test.csv")):
        made = km.datasets.make_rotation(60, random_state=seed)
        frame = pd.DataFrame(np.hstack([made.X, made.Z]), columns=["east", "north", "u", "v"])
        frame.to_csv(tmp_path / name, index=False)
    options = ("--state", "u,v", "--observe", "east,north", "--no-tune", "--forecast", "2")
    run("filter", "train.csv", "test.csv", *options)
    page = tmp_path / "kernelmean-filter" / "report.html"
    text = seen(page, tmp_path / "profile")
    for words in ("The track", "How far from the truth", "What comes next", "Using the model"):
        assert words in text
    assert not re.search(r"\bNone\b|\bnan\b|array\(|Timestamp|<bound|\{\{", text)
    assert painted(page, tmp_path / "profile", tmp_path / "report.png") > 20


def test_regimes(run, tmp_path):
    made = km.datasets.make_hmm("separated", 300, random_state=41)
    pd.DataFrame(made.X, columns=["level"]).to_csv(tmp_path / "data.csv")
    run("hmm", "data.csv", "--columns", "level", "--states", "2", "--no-refine", "--forecast", "2")
    page = tmp_path / "kernelmean-hmm" / "report.html"
    text = seen(page, tmp_path / "profile")
    for words in ("hidden states", "The states over time", "How many states", "What comes next"):
        assert words in text
    assert not re.search(r"\bNone\b|\bnan\b|array\(|Timestamp|<bound|\{\{", text)
    assert painted(page, tmp_path / "profile", tmp_path / "report.png") > 20


def test_demo(demo_run, tmp_path):
    page = demo_run[0] / "index.html"
    text = seen(page, tmp_path / "profile")
    last = "what a year at school does to wages"
    for words in ("kernelmean on real data", "whom does it make richer", last):
        assert words in text
    assert painted(page, tmp_path / "profile", tmp_path / "demo.png") > 20


def test_pages_fit_a_telephone(run, csv, tmp_path):
    run("iv", csv, "--y", "quantity", "--x", "price", "--z", "storm")
    page = tmp_path / "kernelmean-iv" / "report.html"
    text = page.read_text().replace(
        "</body>",
        "<script>document.title = document.documentElement.scrollWidth <= innerWidth"
        " ? 'fits' : 'too wide'</script></body>",
    )
    page.write_text(text)
    dom = chromium(page, tmp_path / "profile", "--window-size=500,900", "--dump-dom").stdout
    assert "<title>fits</title>" in dom

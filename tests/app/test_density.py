"""`kernelmean density`: results, files, notes and refusals; and Engel's households in the demo."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import kernelmean as km
from kernelmean.app.command import KernelName
from kernelmean.app.commands.density import (
    Densities,
    Settings,
    answers,
    fitting,
    headline,
    middle,
    report,
    representative,
)
from kernelmean.app.report import Code
from kernelmean.app.words import SHOWN

SETTINGS = Settings(["size"], ["age", "dose"])
ASKED = ("--y", "size", "--x", "age,dose")


@pytest.fixture
def table(tmp_path, monkeypatch) -> pd.DataFrame:
    """Sizes that spread more the larger the dose."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(41)
    age, dose = rng.uniform(0, 10, 120), rng.uniform(1, 2, 120)
    size, weight = (20 + age + dose * rng.normal(size=120) for _ in range(2))
    frame = pd.DataFrame({"age": age, "dose": dose, "size": size, "weight": weight})
    frame.to_csv("data.csv", index=False)
    return frame


@pytest.fixture
def quick(monkeypatch):
    """Fit without a search: what the page says does not depend on how good the fit is."""

    def model(self):
        return km.ConditionalDensity(bandwidth=self.bandwidth or 0.5, reg=1e-2, intercept=True)

    monkeypatch.setattr(Settings, "model", model)


@pytest.mark.thorough
@pytest.mark.slow
def test_files_and_summary(run, table):
    result = run("density", "data.csv", *ASKED, "--out", "results")
    assert result.exit_code == 0, result.output
    assert sorted(os.listdir("results")) == ["density.csv", "model.km", "report.html"]
    for words in (
        "bandwidth of size",
        "leave-one-out score",
        "95% interval",
        "Mode",
        "medians",
        "written",
    ):
        assert words in result.stdout
    page = Path("results/report.html").read_text(encoding="utf-8")
    assert "size given age and dose" in page
    assert page.count("<figure") == 3
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.slow
def test_a_table_that_holds_every_row_twice(run, table):
    pd.concat([table, table]).to_csv("twice.csv", index=False)
    result = run("density", "twice.csv", "--y", "size", "--x", "dose", "--out", "results")
    assert result.exit_code == 0, result.output
    assert "120 of 240 rows are copies of others; each row counts once." in result.stdout


@pytest.mark.slow
def test_numbers_are_those_of_the_model(run, quick, table):
    pd.DataFrame({"age": [2.0, 8.0], "dose": [1.5, 1.2]}).to_csv("at.csv", index=False)
    assert run("density", "data.csv", *ASKED, "--at", "at.csv", "--level", "0.8").exit_code == 0
    found = pd.read_csv("kernelmean-density/density.csv", index_col="row")
    model, X = km.load("kernelmean-density/model.km"), pd.read_csv("at.csv")
    np.testing.assert_allclose(found[["age", "dose"]], X)
    np.testing.assert_allclose(found.size_mean, model.predict(X))
    np.testing.assert_allclose(found.size_median, model.predict_quantile(X, 0.5))
    np.testing.assert_allclose(found.size_mode, model.mode(X))
    for prefix, kind in (("", "central"), ("shortest_", "shortest")):
        ends = found[[f"size_{prefix}lower", f"size_{prefix}upper"]].to_numpy()
        np.testing.assert_allclose(ends.T, model.predict_interval(X, 0.8, kind))


@pytest.mark.slow
def test_several_columns(run, quick, table):
    result = run("density", "data.csv", "--y", "size,weight", "--x", "age", "--bandwidth", "0.5,1")
    assert result.exit_code == 0, result.output
    found = pd.read_csv("kernelmean-density/density.csv", index_col="row")
    assert {"size_upper", "weight_shortest_lower"} < set(found.columns)
    assert not any("mode" in name for name in found)
    model = km.load("kernelmean-density/model.km")
    lower, upper = model.predict_interval(found[["age"]], 0.95)
    np.testing.assert_allclose(found[["size_lower", "weight_lower"]], lower)
    np.testing.assert_allclose(found[["size_upper", "weight_upper"]], upper)
    page = Path("kernelmean-density/report.html").read_text(encoding="utf-8")
    assert "size and weight together" in page
    assert page.count("<figure") == 5


@pytest.mark.parametrize(
    "asked",
    [{}, {"kernel": KernelName.laplace, "tune": False}, {"bandwidth": (0.5, 2.0)}, {"tune": True}],
)
def test_the_code_on_the_page_fits_what_was_fitted(asked):
    """A kernel by name was printed as <KernelName.laplace: 'laplace'>, and --no-tune left out."""
    settings = Settings(["size"], ["age"], **asked)
    text = fitting(SimpleNamespace(settings=settings, x=["age"], y=["size"]), "data.csv")
    (made,) = (line for line in text.splitlines() if line.startswith("model = "))
    model = eval(made.removeprefix("model = ").rpartition(".fit(")[0], {"km": km})
    assert model.get_params() == settings.model().set_params(verbose=False).get_params()


@pytest.mark.slow
def test_the_code_on_the_page_runs(run, quick, table):
    run("density", "data.csv", *ASKED)
    shown = report(Densities(table, SETTINGS), "data.csv")
    blocks = {b.text for b in shown.sections[-1].blocks if isinstance(b, Code)}
    load, fit = sorted(blocks, key=len)
    rows = load.replace("'age': [...], 'dose': [...]", "'age': [1.0], 'dose': [1.5]")
    exec(rows.replace("model.km", "kernelmean-density/model.km"), {})
    names: dict = {}
    exec(fit, names)
    assert names["model"].points_.shape == (120, 1)


def test_representative_rows_are_rows_of_the_data():
    rng = np.random.default_rng(42)
    x = pd.DataFrame({"a": rng.normal(size=60), "b": rng.integers(0, 2, 60), "c": [1.0, 2.0] * 30})
    rows, labels = representative(x)
    assert rows.index[middle(rows)] == "medians"
    assert all(set(rows[c]) <= set(x[c]) for c in x)
    assert not rows.duplicated().any()
    assert labels[:3] == [
        "medians",
        *(f"a = {v:.4g}".replace("-", "−") for v in rows.a[1:3]),
    ]
    single, _ = representative(x[["a"]])
    assert list(single.index) == ["10%", "25%", "50%", "75%", "90%"]
    assert single.index[middle(single)] == "50%"
    assert "50%" in representative(x[["c"]])[0].index


def test_long_tables_are_cut_on_the_page_only(quick, table):
    at = pd.DataFrame({"age": np.linspace(1, 9, SHOWN + 5), "dose": 1.5})
    found = Densities(table, SETTINGS, at)
    assert len(answers(found, "size").rows) == SHOWN
    assert len(found.table) == SHOWN + 5
    assert headline(found, "size").startswith("In row 0, half of size")


def test_a_column_of_few_values_gets_ridges(quick, table):
    few = table.assign(dose=table.dose.round())
    figures = report(Densities(few, SETTINGS), "data.csv").figures()
    ridges = next(f for f in figures if f.name == "along-dose-size").drawing.axes[0]
    assert [t.get_text() for t in ridges.get_yticklabels()] == ["dose = 1", "dose = 2"]


class TestNotes:
    def said(self, table, settings=None, at=None) -> str:
        return " ".join(Densities(table, settings or SETTINGS, at).notes)

    def test_nothing_to_say(self, quick, table):
        assert self.said(table) == ""

    def test_spikes(self, quick, table):
        rounded = table.assign(size=table["size"].round())
        said = self.said(rounded, settings=replace(SETTINGS, bandwidth=(0.01,)))
        assert "size repeats itself" in said
        assert "--bandwidth, such as" in said

    def test_edge_at_zero(self, quick, table):
        low = table.assign(size=table["size"] - table["size"].min() + 1e-3)
        assert "The logarithm of size has no such edge" in self.said(low)
        assert "logarithm" not in self.said(low.assign(size=low["size"] - low["size"].min()))

    def test_zeros_are_not_below_zero(self, table):
        """A third of the rows is 0, and none below: nor is any of the density but its tail."""
        some = table.assign(size=np.where(np.arange(120) % 3, table["size"], 0.0))
        assert "below zero" not in self.said(some)

    @pytest.mark.parametrize("given", [None, (0.5,)], ids=["atoms", "a bandwidth"])
    def test_values_that_pile_up(self, table, given):
        """Two rows in five are 0: intervals end there exactly where zeros are an atom."""
        some = table.assign(size=np.where(np.arange(120) % 5 < 3, table["size"] / 20, 0.0))
        a = Densities(some, replace(SETTINGS, bandwidth=given))
        kept = bool((a.table["size_lower"] == 0).any())
        assert kept == (given is None)
        page = str(report(a, "data.csv").sections)
        assert ("Values of size that pile up" in page) == kept
        assert ("probability piled up at single values" in page) == (not kept)

    def test_rows_beyond_the_data(self, quick, table):
        at = pd.DataFrame({"age": [5.0, 50.0], "dose": [1.5, 1.5]}, index=[1, 2])
        assert "X has 1 row(s) outside the training data, row 2 first" in self.said(table, at=at)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--y", "sise", "--x", "age"), "did you mean 'size' or 'dose'?"),
        (("--y", "size", "--x", "size,age"), "--y and to --x"),
        (("--y", "size", "--x", "age,kind"), "holds text"),
        (("--y", "size", "--x", "age,flat"), "column 'flat' is 3 in every row"),
        (
            ("--y", "size", "--x", "age,size_mean"),
            "column 'size_mean' of --x is called as an answer",
        ),
        (("--y", "flat", "--x", "age"), "column 'flat' is 3 in every row"),
        (("--y", "size", "--x", "age,gaps"), "--drop-missing"),
        (("--y", "size", "--x", "gaps", "--drop-missing"), "too few rows, 6"),
        (("--y", "size", "--x", "age", "--at", "few.csv"), "no column 'age'"),
        (("--y", "size", "--x", "age", "--bandwidth", "wide"), "--bandwidth is 'wide'"),
        (("--y", "size", "--x", "age", "--bandwidth", "-1"), "--bandwidth is '-1'"),
        (("--y", "size", "--x", "age", "--bandwidth", "1,2"), "--bandwidth has 2 numbers"),
        (("--y", "size", "--x", "age", "--level", "90"), "--level"),
        (("--y", "size"), "--x"),
    ],
)
def test_refusals_are_one_line_and_write_nothing(refused, table, arguments, words):
    gaps = np.where(np.arange(120) < 6, table.age, np.nan)
    more = {"kind": "red", "flat": 3, "gaps": gaps, "size_mean": table.dose}
    table.assign(**more).to_csv("data.csv", index=False)
    table[["dose"]].to_csv("few.csv", index=False)
    assert words in refused("density", "data.csv", *arguments)

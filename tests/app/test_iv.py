"""`kernelmean iv`: results, files, refusals."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kernelmean as km
from kernelmean.app import files, main
from kernelmean.app.commands.iv import (
    COMMAND,
    TRENDS,
    Analysis,
    Settings,
    Used,
    curve_figure,
    curve_table,
    headline,
    parts,
    read_kernel,
    read_split,
    report,
    warnings_of,
)
from kernelmean.app.errors import UserError
from kernelmean.app.page import html
from kernelmean.app.words import number, numbers, p_words
from kernelmean.display import StructuralCurveDisplay
from kernelmean.instruments.columns import Roles

MARKET = ("--y", "quantity", "--x", "price", "--z", "storm", "--c", "season")


COLUMNS = Roles("quantity", ("price",), ("storm",), ("season",), "xzc")
HALVES = {"split": 0.5}  # the paper's procedure, and fast


def fitted(frame, columns=COLUMNS, **settings) -> Analysis:
    numbers = frame.drop(columns="weekday", errors="ignore")
    data = Used(numbers, numbers, columns)
    return Analysis(data, Settings(**settings))


@pytest.fixture(scope="module")
def analysis(market):
    return fitted(market)


@pytest.mark.thorough
def test_files_and_summary(run, csv, market):
    result = run("iv", csv, *MARKET, "--out", "results")
    assert result.exit_code == 0, result.output
    assert sorted(os.listdir("results")) == ["model.km", "predictions.csv", "report.html"]
    for words in (
        "reg_stage1 (λ)",
        "200 / 200",
        "First-stage F",
        "Would regression have done? p-value",
        "< 0.001",
        "Average slope",
        "90%",
        "written",
    ):
        assert words in result.stdout
    assert "Average derivatives" not in result.stdout  # the slopes are told once
    assert "\n\nThe structural curve\n" in result.stdout  # a line between paragraph and heading
    assert "what the exogenous columns leave of" in Path("results/report.html").read_text()
    table = pd.read_csv("results/predictions.csv")
    assert list(table) == [
        "row",
        "quantity",
        "price",
        "storm",
        "season",
        "prediction",
        "prediction_lower",
        "prediction_upper",
        "plain_ridge",
        "extrapolated",
    ]
    assert not table["extrapolated"].any()
    assert (table["prediction_lower"] < table["prediction"]).all()
    assert (table["prediction"] < table["prediction_upper"]).all()
    np.testing.assert_array_equal(table["row"], np.arange(1, 201))


def test_the_effect_is_nearer_the_truth_than_plain_regression(analysis):
    # demand has slope −2, and taste moves price and quantity together
    low, high = analysis.frame["price"].quantile([0.2, 0.8])
    ends = analysis.partial("price", [low, high])
    slopes = (ends.iloc[1] - ends.iloc[0]) / (high - low)
    assert abs(slopes["prediction"] + 2) < 0.6 * abs(slopes["plain_ridge"] + 2)
    assert analysis.effects["price"].high < slopes["plain_ridge"]
    assert analysis.endogeneity.p_value < 0.01
    assert analysis.model.specification_p_ > 0.05


def test_saved_model_predicts_as_the_page_says(run, csv):
    run("iv", csv, *MARKET)
    assert "model.predict(rows)\n" in Path("kernelmean-iv/report.html").read_text()
    table = pd.read_csv("kernelmean-iv/predictions.csv")
    model = km.load("kernelmean-iv/model.km")
    new = table[["price", "season"]]
    np.testing.assert_allclose(model.predict(new), table["prediction"], rtol=1e-9)
    low, high = model.predict_interval(new, simultaneous=False)
    np.testing.assert_allclose(low, table["prediction_lower"], rtol=1e-9)
    np.testing.assert_allclose(high, table["prediction_upper"], rtol=1e-9)


@pytest.mark.parametrize("options", [("--split", 0.5), ("--trend", "none", "--no-tune")])
def test_so_it_does_of_halves_and_without_an_intercept(run, csv, options):
    run("iv", csv, *MARKET, *options)
    assert "model.predict(rows)\n" in Path("kernelmean-iv/report.html").read_text()
    table = pd.read_csv("kernelmean-iv/predictions.csv")
    model = km.load("kernelmean-iv/model.km")
    got = model.predict(table[["price", "season"]])
    np.testing.assert_allclose(got, table["prediction"], rtol=1e-9)


def test_plain_ridge_is_the_displays(market):
    halves = fitted(market, **HALVES)
    y, X, _, C = parts(halves.frame, halves.columns)
    theirs = StructuralCurveDisplay.from_estimator(halves.model, X, y, C=C)
    got = halves.partial("price", theirs.grid)["plain_ridge"]
    np.testing.assert_allclose(got, theirs.plain)


@pytest.mark.slow
def test_at_new_rows_in_any_order(run, csv, tmp_path, market):
    new = market[["season", "price", "weekday"]].iloc[[5, 3]]
    new.to_csv(tmp_path / "new.csv", index=False)
    result = run("iv", csv, *MARKET, "--at", "new.csv")
    assert result.exit_code == 0, result.output
    at = pd.read_csv("kernelmean-iv/predictions.csv")
    run("iv", csv, *MARKET, "--out", "all")
    everywhere = pd.read_csv("all/predictions.csv")
    limits = ["prediction_lower", "prediction_upper"]
    answers = ["prediction", *limits, "plain_ridge", "extrapolated"]
    assert list(at) == ["row", "price", "season", *answers]
    np.testing.assert_allclose(at["prediction"], everywhere["prediction"].iloc[[5, 3]])


@pytest.mark.slow
def test_a_seed_matters_only_where_rows_are_divided(run, csv):
    for folder, *options in (
        ("a", "--seed", 1, "--split", 0.5),
        ("b", "--seed", 1, "--split", 0.5),
        ("c", "--seed", 2, "--split", 0.5),
        ("d", "--seed", 1),
        ("e", "--seed", 2),
    ):
        run("iv", csv, *MARKET, "--out", folder, *options)
    a, b, c, d, e = (Path(folder, "predictions.csv").read_text() for folder in "abcde")
    assert a == b != c
    assert d == e
    assert "divided at random" in Path("a/report.html").read_text()
    assert "divided at random" not in Path("d/report.html").read_text()


@pytest.mark.parametrize("kernel", ["laplace", "matern", "linear"])
def test_other_kernels(run, csv, kernel):
    result = run("iv", csv, *MARKET, "--kernel", kernel, "--split", 0.3)
    assert result.exit_code == 0, result.output
    said = "none: two-stage" if kernel == "linear" else kernel.capitalize()
    assert said in result.stdout
    assert "60 / 140" in result.stdout
    assert ("Average slope" in result.stdout) == (kernel != "laplace")  # it has no derivative


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--split", "4", "--trend", "0"], "200 / 200"),
        (["--trend", "2", "--no-tune"], "polynomial of degree 2"),
        (["--trend", "none", "--no-tune"], "none"),
        (["--trend", "0", "--no-tune"], "polynomial of degree 0"),
    ],
)
def test_other_settings(run, csv, options, words):
    result = run("iv", csv, *MARKET, *options)
    assert result.exit_code == 0, result.output
    assert words in result.stdout
    tuned = "--no-tune" not in options
    page = Path("kernelmean-iv/report.html").read_text()
    assert ("searched from the median distance" in page) == tuned


def test_settings_in_words():
    assert [read_split(t) for t in ("loo", "samples", "0.25", "5")] == ["loo", "samples", 0.25, 5]
    assert [TRENDS[t] for t in ("auto", "none", "0", "2")] == ["auto", None, 0, 2]
    assert read_kernel("matern") == "matern"
    assert read_kernel("linear") == "linear"
    assert read_kernel('"a,b"=category, *=linear') == {"a,b": "category", "*": "linear"}
    assert Settings().model().trend == "auto"
    assert Settings(split=0.5, kernel={"season": "linear"}).model().trend == 0
    assert Settings(split=0.5).model().trend == 0
    assert Settings(split=0.5, trend=1).model().trend == 1
    assert Settings(split=0.5, trend=None).model().trend is None


class TestTextCategories:
    """`--kernel weekday=category`, where the column holds text."""

    asked = (*MARKET[:-1], "season,the day", "--kernel", "the day=category,price=matern")

    @pytest.fixture
    def days(self, market, tmp_path) -> pd.DataFrame:
        frame = market.rename(columns={"weekday": "the day"})
        frame["quantity"] += 5 * (frame["the day"] == "Tue")
        frame.to_csv(tmp_path / "days.csv", index=False)
        return frame

    def test_as_numbers(self, run, days):
        result = run("iv", "days.csv", *self.asked, "--no-tune")
        assert result.exit_code == 0, result.output
        model = km.load("kernelmean-iv/model.km")
        forms = {"tue": "category", "price": "matern"}
        C = days[["season"]].assign(tue=1.0 * (days["the day"] == "Tue"))
        sides = days[["price"]], days["quantity"], days[["storm"]]
        numbers = km.KernelIV(forms, trend="auto", tune_lengthscale=False).fit(*sides, C)
        told = pd.read_csv("kernelmean-iv/predictions.csv")
        expected = numbers.predict(days[["price"]], C)
        np.testing.assert_allclose(told["prediction"], expected, rtol=1e-6)
        assert told["the day"].tolist() == days["the day"].tolist()
        np.testing.assert_allclose(model.predict(days), expected, rtol=1e-6)  # texts go in

    def test_refusals(self, refused, days):
        days.assign(**{"the day": [f"day {i}" for i in range(200)]}).to_csv("days.csv")
        words = "column 'the day' is to be a category, but takes 200 different values in 200 rows"
        assert words in refused("iv", "days.csv", *self.asked)
        assert "--kernel 'NAME=category'" in refused("iv", "days.csv", *self.asked[:8])
        days.drop(columns="price").to_csv("at.csv")
        days.assign(season=np.nan).to_csv("days.csv")
        asked = ("iv", "days.csv", *self.asked)
        assert "column 'season' is empty" in refused(*asked, "--drop-missing")
        days.to_csv("days.csv")
        assert "'price' (asked for by --x and --c)" in refused(*asked, "--at", "at.csv")

    def test_a_number_that_is_no_category_is_refused(self, run, refused, market, tmp_path):
        days = market.assign(weekday=market["weekday"].factorize()[0])
        days.to_csv(tmp_path / "days.csv", index=False)
        days.head(3).assign(weekday=9).to_csv(tmp_path / "at.csv", index=False)
        asked = (*MARKET[:-1], "weekday", "--kernel", "weekday=category", "--no-tune")
        words = "column 'weekday' has 9, a category that the model was not fitted on"
        assert words in refused("iv", "days.csv", *asked, "--at", "at.csv")
        blocks = run("iv", "days.csv", *asked, "--at", "at.csv", "--chunksize", "100")
        assert (blocks.exit_code, words in blocks.stderr) == (2, True)


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="a folder that root cannot write")
def test_a_folder_that_cannot_be_written_is_known_before_the_fit(refused, csv, monkeypatch):
    monkeypatch.setattr(Settings, "rows", None)
    assert "cannot write to /proc/x: /proc" in refused("iv", csv, *MARKET, "--out", "/proc/x")


def test_rows_in_clusters(run, refused, market, tmp_path):
    towns = market.assign(**{"the town": [f"town {i % 40}" for i in range(200)], "one": 1})
    towns.to_csv(tmp_path / "towns.csv", index=False)
    asked = ("iv", "towns.csv", *MARKET, "--kernel", "linear", "--clusters")
    result = run(*asked, "the town")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "clusters 40, within which noise may go together" in said
    page = Path("kernelmean-iv/report.html").read_text(encoding="utf-8")
    assert "within the 40 values of <code>the town</code>" in page
    assert "robust to unequal variances and noise that goes together in clusters, as other" in page
    assert km.load("kernelmean-iv/model.km").fit_.clusters.n == 40
    (tmp_path / "kernelmean-iv" / "report.html").unlink()
    assert "--clusters are all the same; at least two are needed" in refused(*asked, "one")
    assert "no column 'two' (asked for by --clusters)" in refused(*asked, "two")
    assert "--clusters is the town, one; a single column" in refused(*asked, "the town,one")
    towns.loc[3, "the town"] = None
    towns.to_csv(tmp_path / "towns.csv", index=False)
    words = "--clusters has no label in 1 of 200 rows; each needs one"
    assert words in refused(*asked, "the town")


def test_two_samples_in_one_table(run, market, tmp_path):
    gaps = market.drop(columns="weekday").astype(float)
    gaps.loc[:119, "quantity"] = np.nan
    gaps.loc[80:, "price"] = np.nan
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    result = run("iv", "gaps.csv", *MARKET, "--split", "samples")
    assert result.exit_code == 0, result.output
    assert "80 / 80" in result.stdout
    assert "no plain regression" in " ".join(result.stdout.split())
    table = pd.read_csv("kernelmean-iv/predictions.csv")
    assert "plain_ridge" not in table
    np.testing.assert_array_equal(table["prediction"].isna(), table["price"].isna())
    assert not re.search(r"\bnan\b", Path("kernelmean-iv/report.html").read_text())


def test_a_line_that_nothing_clearly_beats_is_said_to_be_one():
    z, u, w = np.random.default_rng(1).normal(size=(3, 40))
    season = np.arange(40) % 3.0
    y = 2 * z + 0.5 * season + 0.3 * w
    data = {"price": z + u, "quantity": y, "storm": z, "season": season}
    found, asked = (fitted(pd.DataFrame(data), kernel=k) for k in ("gaussian", {"*": "linear"}))
    assert found.model.fit_.draft.straight(1)
    assert (
        "by two-stage least squares, as nothing that bends is clearly better"
        in curve_figure(found, "price").caption
    )
    assert "clearly better" not in curve_figure(asked, "price").caption  # nothing else was tried


@pytest.mark.slow
@pytest.mark.thorough
def test_a_line_beside_curves_of_controls_is_said_to_be_one():
    rng = np.random.default_rng(2)
    c, (z, v, w) = rng.uniform(-2, 2, 400), rng.normal(size=(3, 400))
    x = 0.6 * z + 0.5 * np.sin(1.5 * c) + 0.7 * v
    y = x + 2 * np.sin(2 * c) + 0.84 * v + 0.5 * w
    data = pd.DataFrame({"price": x, "quantity": y, "storm": z, "season": c})
    caption = curve_figure(fitted(data), "price").caption
    assert "beside curves of `season`, as nothing that bends is clearly better" in caption


def test_linear_kernel_gives_a_straight_line(market):
    fit = fitted(market, kernel={"*": "linear"})
    low, middle, high = fit.partial("price", [-1.0, 0.0, 1.0])["prediction"]
    assert (high - low) / 2 == pytest.approx(-2, abs=0.3)
    assert middle == pytest.approx((low + high) / 2)
    assert fit.notes == []


@pytest.mark.parametrize("change", [lambda x: x + 100, lambda x: 100 * x])
def test_straight_lines_do_not_mind_units(market, change):
    lines = [
        fitted(m, kernel={"*": "linear"})
        for m in (market, market.assign(price=change(market["price"])))
    ]
    ends = market["price"].quantile([0.1, 0.9])
    one, two = (f.partial("price", g) for f, g in zip(lines, (ends, change(ends)), strict=True))
    np.testing.assert_allclose(one, two, rtol=1e-6)


def test_a_treatment_that_is_a_category_has_no_slope(market):
    levels = market.assign(price=(market["price"] > 0) + 1.0 * (market["price"] > 2))
    analysis = fitted(levels, kernel={"price": "category"})
    assert analysis.effects == {}
    assert report(analysis, "market.csv").sections  # it ended in an error of max()


def test_forms_of_columns(run, csv, market):
    forms = ["--kernel", "season=linear,*=matern"]
    result = run("iv", csv, *MARKET, *forms)
    assert result.exit_code == 0, result.output
    assert "season a straight line" in " ".join(result.stdout.split())
    api = km.KernelIV(kernel_x={"season": "linear", "*": "matern"}, random_state=0)
    columns = (market[["price"]], market["quantity"], market[["storm"]], market[["season"]])
    table = pd.read_csv("kernelmean-iv/predictions.csv")
    expected = api.fit(*columns).predict(columns[0], columns[3])
    np.testing.assert_allclose(table["prediction"], expected, rtol=1e-9)


# ---------------------------------------------------------------- formulas


@pytest.mark.slow
def test_a_formula_in_place_of_columns(run, csv):
    pytest.importorskip("formulaic")
    run("iv", csv, *MARKET, "--out", "columns")
    result = run("iv", csv, "--formula", "quantity ~ season + [price ~ storm]", "--out", "formula")
    assert result.exit_code == 0, result.output
    one, two = (pd.read_csv(f"{folder}/predictions.csv") for folder in ("columns", "formula"))
    np.testing.assert_allclose(one["prediction"], two["prediction"])


def test_a_formula_with_categories(run, csv, market, tmp_path):
    pytest.importorskip("formulaic")
    market[["season", "price", "weekday"]].iloc[[5, 3]].to_csv(tmp_path / "new.csv", index=False)
    formula = "quantity ~ season + C(weekday) + [price ~ storm]"
    result = run("iv", csv, "--formula", formula, "--at", "new.csv", "--split", 0.5)
    assert result.exit_code == 0, result.output
    table = pd.read_csv("kernelmean-iv/predictions.csv")
    assert list(table["weekday"]) == ["Tue", "Tue"]
    model = km.load("kernelmean-iv/model.km")
    np.testing.assert_allclose(model.predict(table), table["prediction"], rtol=1e-9)
    page = Path("kernelmean-iv/report.html").read_text()
    assert "C(weekday)[T.Tue]" in page
    assert "&#39;weekday&#39;: [...]" in page


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--formula", "quantity ~ [price ~ storm]", "--y", "quantity"], "in place of --y"),
        (["--formula", "quantity ~ price"], "without an outcome or a bracket"),
        (["--formula", "quantity ~ [prise ~ storm]"], "did you mean 'price'?"),
        (["--formula", "quantity ~ weekday + [price ~ storm]"], "write C(weekday)"),
    ],
)
def test_bad_formulas(refused, csv, args, message):
    pytest.importorskip("formulaic")
    assert message in refused("iv", csv, *args)


FOREVER = (
    *("9**9**9", "I(9**9**9)", "poly(price, 10**6)", "(price + season + storm)**200"),
    *("(price + season)**99**1", "C(season):C(storm):C(weekday)"),
)
EACH = """
import sys
from kernelmean.app import main
data, *parts = sys.argv[1:]
for part in parts:
    formula = f"quantity ~ {part} + [price ~ storm]"
    sys.argv = ["kernelmean", "iv", data, "--out", "none", "--formula", formula]
    try:
        main()
    except SystemExit as end:
        print(end.code)
"""


@pytest.mark.slow
def test_formulas_that_would_be_computed_forever(csv):
    """In a process of their own, so that what hangs is killed."""
    pytest.importorskip("formulaic")
    done = subprocess.run(
        [sys.executable, "-c", EACH, csv, *FOREVER],
        cwd=csv.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "2\n" * len(FOREVER), done.stderr
    told = done.stderr.splitlines()
    assert len(told) == len(FOREVER)
    assert all(line.startswith("error: ") for line in told)
    assert os.listdir(csv.parent) == ["market.csv"]


def test_missing_values_and_formulas(run, refused, market, tmp_path):
    pytest.importorskip("formulaic")
    gaps = market.assign(price=market["price"].where(market["price"] > 0))
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    formula = ("--formula", "quantity ~ season + [price ~ storm]")
    assert "--drop-missing" in refused("iv", "gaps.csv", *formula)
    result = run("iv", "gaps.csv", *formula, "--drop-missing", "--split", 0.5)
    assert result.exit_code == 0, result.output
    assert f"Left out are {sum(market['price'] <= 0)} of 200 rows" in result.stdout
    rows = pd.read_csv("kernelmean-iv/predictions.csv")["row"]
    np.testing.assert_array_equal(rows, np.flatnonzero(market["price"] > 0) + 1)


# ---------------------------------------------------------------- what the page says


def test_copies_are_pointed_out(market):
    once, twice = fitted(market, **HALVES), fitted(pd.concat([market] * 3), **HALVES)
    assert "copies" not in " ".join(warnings_of(once))
    assert "400 of 600 rows are copies of others" in " ".join(warnings_of(twice))


@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
def test_rows_are_outside_where_the_model_says_so(market):
    """Not in columns that were asked to be lines."""
    fit = fitted(market, kernel={"price": "linear", "*": "gaussian"})
    new = market[["price", "season"]].head(4).astype(float)
    new.loc[new.index[1], "price"], new.loc[new.index[2], "season"] = 1e6, 1e6
    found = fit.predictions(new)["extrapolated"].tolist()
    assert found == fit.model.to_frame(new)["extrapolated"].tolist() == [False, False, True, False]


def test_of_equal_quantiles_the_median_stays(market):
    few = fitted(market.assign(price=market.price.round(-1)), **HALVES)
    assert "50%" in [row[0] for row in curve_table(few, "price").rows]


def test_quantiles_are_values_of_the_column(market):
    """Of a treatment that half of the rows have the median was 0.5."""
    half = market.assign(price=(market.price > market.price.median()).astype(float))
    told = [float(row[1]) for row in curve_table(fitted(half, **HALVES), "price").rows]
    assert len(half) % 2 == 0
    assert set(told) == {0.0, 1.0}


def test_help_shows_brackets_and_every_kernel(run):
    said = " ".join(run("iv", "--help").stdout.replace("│", " ").split())
    assert "C(c2) + [np.log(x) ~ z1 + z2]'" in said
    assert "periodic" in said


def test_the_robust_slope_is_of_the_level_asked_for(run, market):
    weak = market.assign(storm=np.random.default_rng(1).normal(size=len(market)))
    weak.to_csv("weak.csv", index=False)
    shown = run("iv", "weak.csv", *MARKET, "--split", "0.5", "--level", "0.8")
    told = str(km.load("kernelmean-iv/model.km").anderson_rubin(level=0.8)).replace("-", "−")
    page = Path("kernelmean-iv/report.html").read_text()
    assert told.startswith("80% ")
    assert told in shown.stdout
    assert told in page
    assert "95% [" not in page
    assert "model.summary(level=0.8)" in page


def test_weak_instruments_are_pointed_out(market):
    rng = np.random.default_rng(5)
    weak = fitted(market.assign(storm=rng.normal(size=len(market))), **HALVES)
    assert "instruments are weak for price" in " ".join(warnings_of(weak))


def test_contradicted_curves_are_pointed_out(market):
    fit = fitted(market, **HALVES)
    for p, said in ((0.5, False), (0.01, True)):
        fit.model.specification_p_ = p
        assert ("contradict the curve (p-value" in " ".join(warnings_of(fit))) == said


def test_headline_and_table_agree_with_the_curve(analysis):
    words = headline(analysis, "price")
    effect = analysis.effects["price"]
    assert number(effect.value) in words
    assert number(effect.low) in words
    grid = curve_table(analysis, "price")
    assert list(grid.header)[2:5] == ["Structural", "From", "To"]
    cells = np.array([[float(c.replace("−", "-")) for c in row[2:]] for row in grid.rows])
    assert (cells[:, 1] < cells[:, 0]).all()
    assert (cells[:, 0] < cells[:, 2]).all()
    np.testing.assert_allclose(cells[:, 0] - cells[:, 3], cells[:, 4], atol=0.2)


@pytest.mark.slow
def test_several_endogenous_columns_give_a_curve_each(run, csv):
    result = run("iv", csv, "--y", "quantity", "--x", "price,season", "--z", "storm")
    assert result.exit_code == 0, result.output
    page = Path("kernelmean-iv/report.html").read_text()
    assert 'id="figure-curve-price"' in page
    assert 'id="figure-curve-season"' in page
    assert "instruments are weak for season" in page
    assert "fewer instruments than endogenous columns: what price and season do" in page


def test_few_values_of_the_instrument_are_pointed_out(run, market, tmp_path):
    market.assign(near=(market["storm"] > 0).astype(int)).to_csv("t.csv", index=False)
    market.assign(near=(market["storm"] > 0).astype(int)).to_csv(tmp_path / "t.csv", index=False)
    result = run("iv", "t.csv", "--y", "quantity", "--x", "price", "--z", "near")
    assert "only 2 different values" in result.stdout
    Path("t.csv").unlink()


def test_page_refers_to_nothing_outside_itself(analysis):
    page = html(report(analysis, "market.csv"))
    outside = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!data:|#)([^"')>\s]+)""", page)
    assert outside == []
    assert "<script" not in page
    for caveat in ("cannot be tested", "Weak instruments", "Nothing is known beyond the data"):
        assert caveat in page


def test_column_names_are_escaped(market, run, tmp_path):
    odd = "<b>price</b> & [co]"
    market.rename(columns={"price": odd}).to_csv(tmp_path / "odd.csv", index=False)
    result = run("iv", "odd.csv", "--y", "quantity", "--x", odd, "--z", "storm")
    assert result.exit_code == 0, result.output
    assert odd in result.stdout
    assert "<b>" not in Path("kernelmean-iv/report.html").read_text()


def test_predictions_never_hide_a_column_of_the_same_name(market):
    frame = market[["quantity", "storm"]].assign(prediction=market["price"])
    fit = fitted(frame, Roles("quantity", ("prediction",), ("storm",), (), "xzc"), **HALVES)
    answers = ["prediction_upper", "plain_ridge", "extrapolated"]
    assert list(fit.predictions(frame))[-3:] == answers
    assert "prediction_" in fit.predictions(frame)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--y", "quantity", "--x", "price"], "Missing option '--z'"),
        ([*MARKET, "--split", "1.5"], "--split"),
        ([*MARKET, "--split", "1"], "--split"),
        ([*MARKET, "--split", "half"], "--split is 'half'"),
        ([*MARKET, "--split", "²"], "--split is '²'"),
        ([*MARKET, "--split", "9" * 30], "200 rows allow 100 at most"),
        ([*MARKET, "--trend", "-1"], "--trend is '-1'"),
        ([*MARKET, "--trend", "²"], "--trend is '²'"),
        ([*MARKET, "--trend", "1000"], "a degree from 0 to 10"),
        ([*MARKET, "--trend", "none", "--kernel", "*=linear"], "--trend is none, but columns"),
        ([*MARKET, "--seed", "9" * 30], "--seed"),
        ([*MARKET, "--level", "95"], "'--level'"),
        ([*MARKET, "--out", "a" * 300], "File name too long"),
        ([*MARKET, "--out", " "], "--out is ' '; a folder ('.' for this one) is needed"),
        ([*MARKET, "--at", "a" * 300], "File name too long"),
        ([*MARKET, "--kernel", "gausian"], "gausian"),
        ([*MARKET, "--kernel", "season=linaer"], "linaer"),
        ([*MARKET, "--kernel", "saison=linear"], "saison"),
        ([*MARKET, "--nonsense"], "--nonsense"),
        (["--y", "quantity", "--x", "prise", "--z", "storm"], "did you mean 'price'?"),
        (["--y", "quantity", "--x", "weekday", "--z", "storm"], "'weekday' of"),
        (["--y", "quantity", "--x", "price", "--z", "price"], "given to --x and to --z"),
        (["--y", "quantity", "--x", "price,", "--z", "storm"], "separated by commas"),
        ([*MARKET, "--out", "market.csv"], "is a file"),
        ([*MARKET, "--at", "none.csv"], "there is no file none.csv"),
    ],
)
def test_bad_options(refused, csv, args, message):
    assert message in refused("iv", csv, *args)


def test_bad_files(refused, market, tmp_path):
    assert "there is no file" in refused("iv", "none.csv", *MARKET)
    market.head(10).to_csv(tmp_path / "short.csv", index=False)
    assert "at least 20" in refused("iv", "short.csv", *MARKET)
    market.assign(storm=3.5).to_csv(tmp_path / "flat.csv", index=False)
    assert "column 'storm' is 3.5 in every row" in refused("iv", "flat.csv", *MARKET)
    market.assign(price=market["price"] * 1e200).to_csv(tmp_path / "huge.csv", index=False)
    assert "rescale" in refused("iv", "huge.csv", *MARKET)
    market.assign(price=market["price"].where(market["price"] > 0)).to_csv(
        tmp_path / "gaps.csv", index=False
    )
    assert "--drop-missing" in refused("iv", "gaps.csv", *MARKET)


@pytest.mark.slow
def test_missing_values_dropped_on_request(run, market, tmp_path):
    gaps = market.assign(price=market["price"].where(market["price"] > 0))
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    result = run("iv", "gaps.csv", *MARKET, "--drop-missing")
    assert result.exit_code == 0, result.output
    assert f"Left out are {sum(market['price'] <= 0)} of 200 rows" in result.stdout
    rows = pd.read_csv("kernelmean-iv/predictions.csv")["row"]
    np.testing.assert_array_equal(rows, np.flatnonzero(market["price"] > 0) + 1)


def test_rows_to_predict_for_that_are_too_large(refused, csv, market, tmp_path):
    market.head(3).assign(price=[1e300, -1e300, 1e308]).to_csv(tmp_path / "at.csv", index=False)
    assert "rescale" in refused("iv", csv, *MARKET, "--split", 0.5, "--at", "at.csv")


def test_a_column_called_row(run, csv, market, tmp_path):
    market.rename(columns={"price": "row"}).to_csv(tmp_path / "row.csv", index=False)
    args = ("--y", "quantity", "--x", "row", "--z", "storm", "--split", 0.5)
    result = run("iv", "row.csv", *args)
    assert result.exit_code == 0, result.output
    table = pd.read_csv("kernelmean-iv/predictions.csv")
    np.testing.assert_array_equal(table["row_"], np.arange(1, 201))
    np.testing.assert_allclose(table["row"], market["price"])


def full(self, content):
    with self.open("wb") as file:
        file.write(content[:3])
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_what_was_there(monkeypatch, tmp_path):
    (tmp_path / "old.txt").write_text("old")
    monkeypatch.setattr(Path, "write_bytes", full)
    contents = {"new.km": km.Gaussian(1.0).save, "old.txt": "new text"}
    with pytest.raises(UserError, match="No space left on device"):
        files.write_all(tmp_path, contents)
    assert [p.name for p in tmp_path.iterdir()] == ["old.txt"]
    assert (tmp_path / "old.txt").read_text() == "old"
    with pytest.raises(UserError, match="No space left on device"):
        files.write_all(tmp_path / "deep" / "er", contents)
    assert [p.name for p in tmp_path.iterdir()] == ["old.txt"]


def test_the_name_of_a_file_need_not_be_utf8(tmp_path):
    """What Python makes of bytes that no encoding explains ended the work at its very end."""
    files.write_all(tmp_path, {"page.html": "größe of gr\udcf6sse.csv"})
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == "größe of gr?sse.csv"


def test_a_file_of_a_run_before_is_taken_away(tmp_path):
    files.write_all(tmp_path, {"forecast.csv": "step\n1\n", "track.csv": "old"})
    (tmp_path / "mine.txt").write_text("mine")
    written = files.write_all(tmp_path, {"forecast.csv": None, "track.csv": "new"})
    assert written == [tmp_path / "track.csv"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.txt", "track.csv"]
    files.write_all(tmp_path, {"forecast.csv": None})  # none is there


def test_interrupted_while_importing(imported_anew, capsys):
    """Importing the command takes seconds; Ctrl-C there is one line as well."""

    def interrupted(name):
        if name == "typer":
            raise KeyboardInterrupt

    imported_anew(interrupted)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130
    assert capsys.readouterr() == ("", "error: interrupted\n")


def test_interrupted(run, csv, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Analysis, "__init__", interrupt)
    result = run("iv", csv, *MARKET)
    assert result.exit_code == 130
    assert result.stderr == "error: interrupted\n"
    assert os.listdir() == ["market.csv"]
    with pytest.raises(KeyboardInterrupt):  # as by the demo
        COMMAND.answer([str(csv), *MARKET])


def test_curve_is_the_displays(analysis):
    y, X, _, C = parts(analysis.frame, analysis.columns)
    ours = analysis.display("price")
    theirs = StructuralCurveDisplay.from_estimator(analysis.model, X, y, C=C)
    for name in ("grid", "structural", "plain", "band"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name))


@pytest.mark.slow
def test_as_a_program(market, tmp_path):
    csv = tmp_path / "market.csv"
    market[:60].to_csv(csv, index=False)
    command = [sys.executable, "-m", "kernelmean", "iv", str(csv)]
    good = subprocess.run(
        [*command, *MARKET, "--no-tune", "--out", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert good.returncode == 0, good.stderr
    assert (tmp_path / "out" / "report.html").exists()


def test_a_stream_that_has_no_minus_sign_is_written_to(monkeypatch):
    """What Windows pipes, and old terminals, have no more signs than their code page."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "argv", ["kernelmean", "--version"])
    with pytest.raises(SystemExit):
        main()
    print("\N{MINUS SIGN}1.5 × 10\N{SUPERSCRIPT SIX}", flush=True)
    assert stream.buffer.getvalue().decode("cp1252").splitlines()[-1] == "-1.5 × 10?"


def test_a_missing_option_is_one_line(csv, capsys, monkeypatch):
    """What the program does, in this process."""
    monkeypatch.setattr(sys, "argv", ["kernelmean", "iv", str(csv), "--y", "q"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert capsys.readouterr() == ("", "error: Missing option '--x'.\n")


# ---------------------------------------------------------------- pieces


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (5, "5"),
        (1.0, "1.00"),
        (999.6, "1,000"),
        (123456.7, "123,457"),
        (1e12, "1.00 × 10¹²"),
        (-2.5e-5, "−2.50 × 10⁻⁵"),
        (0.012345, "0.0123"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_for_reading(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("p", "text"), [(0.0, "< 0.001"), (9e-4, "< 0.001"), (0.0234, "0.023")])
def test_p_values_for_reading(p, text):
    assert p_words(p) == text


def test_numbers_that_align():
    assert numbers([1200.0, 3.0]) == ["1,200", "3"]
    assert numbers([0.5, 0.5]) == ["0.500", "0.500"]
    assert numbers([0.0, -0.001]) == ["0.00000", "−0.00100"]

"""`kernelmean filter`: results, files, refusals."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kernelmean as km
from kernelmean.app.commands.filter import (
    LONGEST,
    RuleName,
    Settings,
    Tracks,
    answers,
    errors,
    facts,
    figures,
    learn,
    notes,
    report,
    to_tune,
)
from kernelmean.app.page import html
from kernelmean.app.series import Rows, average, rmse
from kernelmean.app.tables import read_table
from kernelmean.app.words import SHOWN, left_out

OPTIONS = ("--state", "u,v", "--observe", "east,north", "--no-tune")


def trajectory(n: int, seed: int) -> pd.DataFrame:
    """A point that goes round, seen with noise."""
    made = km.datasets.make_rotation(n, random_state=seed)
    return pd.DataFrame(np.hstack([made.X, made.Z]), columns=["east", "north", "u", "v"])


@pytest.fixture
def tables(tmp_path, monkeypatch) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test files, the latter with gaps, a spike, and states."""
    monkeypatch.chdir(tmp_path)
    train, test = trajectory(150, 1000), trajectory(40, 1001)
    test.loc[10:12, ["east", "north"]] = np.nan
    test.loc[15, "east"] = np.nan
    test.loc[20, ["east", "north"]] = 1e6
    train.to_csv("train.csv", index=False)
    test.to_csv("test.csv", index=False)
    test[["east", "north"]].to_csv("blind.csv", index=False)
    return train, test


@pytest.fixture
def trips(tables) -> None:
    """Several trajectories in each file, told apart by name."""
    for file, lengths in (("many.csv", (50, 60, 40)), ("few.csv", (12, 1))):
        parts = [trajectory(n, 1000 + n).assign(trip=f"t{i}") for i, n in enumerate(lengths)]
        pd.concat(parts).to_csv(file, index=False)


@pytest.mark.slow
@pytest.mark.thorough
def test_files_and_summary(run, tables):
    result = run("filter", "train.csv", "test.csv", *OPTIONS, "--smooth", "--forecast", "3")
    assert result.exit_code == 0, result.output
    made = ["forecast.csv", "model.km", "report.html", "track.csv"]
    assert sorted(os.listdir("kernelmean-filter")) == made
    for words in (
        "u and v, followed through east and north",
        "the last 12 rows",
        "Errors where the state is known",
        "After the end of the file",
        "1 of 40 observations are unlike any seen in training",
        "1 of 40 rows have some of the observed columns",
        "written: kernelmean-filter/track.csv",
    ):
        assert words in result.stdout
    page = Path("kernelmean-filter/report.html").read_text(encoding="utf-8")
    for words in ("u and v, followed through east and north", "What comes next", "km.load"):
        assert words in page
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
def test_numbers_are_those_of_the_model(run, tables):
    run(
        "filter", "train.csv", "test.csv", *OPTIONS, "--smooth", "--forecast", "3", "--level", "0.8"
    )
    model, rows = km.load("kernelmean-filter/model.km"), pd.read_csv("blind.csv")
    track = pd.read_csv("kernelmean-filter/track.csv", index_col="row")
    filtered, smoothed = model.filter(rows), model.smooth(rows)
    ahead = model.forecast(rows, 3)
    np.testing.assert_allclose(track[["u_mean", "v_mean"]], filtered.mean(), atol=1e-10)
    names = ["u_smoothed_mean", "v_smoothed_mean"]
    np.testing.assert_allclose(track[names], smoothed.mean(), atol=1e-10)
    lower, upper = filtered.interval(0.8)
    np.testing.assert_allclose(track[["u_lower", "v_lower"]], lower, atol=1e-10)
    np.testing.assert_allclose(track[["u_upper", "v_upper"]], upper, atol=1e-10)
    assert list(track.index[track["collapsed"]]) == [21]
    assert list(track.index[track["missing"]]) == [11, 12, 13, 16]
    forecast = pd.read_csv("kernelmean-filter/forecast.csv")
    np.testing.assert_allclose(forecast[["u_mean", "v_mean"]], ahead.mean(), atol=1e-10)
    names = ["east_mean", "north_mean"]
    np.testing.assert_allclose(forecast[names], ahead.observations.mean(), atol=1e-10)


@pytest.mark.slow
def test_without_states_there_are_no_errors_and_without_a_horizon_no_forecast(run, tables):
    result = run("filter", "train.csv", "blind.csv", *OPTIONS, "--rule", "squared", "--out", "here")
    assert result.exit_code == 0, result.output
    assert sorted(os.listdir("here")) == ["model.km", "report.html", "track.csv"]
    assert "RMSE" not in result.stdout
    assert "RMSE" not in Path("here/report.html").read_text(encoding="utf-8")
    assert km.load("here/model.km").rule == "squared"


@pytest.mark.slow
def test_trajectories_do_not_touch_each_other(run, trips):
    options = (*OPTIONS, "--sequence", "trip", "--forecast", "2")
    result = run("filter", "many.csv", "few.csv", *options)
    assert result.exit_code == 0, result.output
    assert "150 in 3 trajectories" in result.stdout
    track = pd.read_csv("kernelmean-filter/track.csv", index_col="row")
    assert list(track["trip"]) == ["t0"] * 12 + ["t1"]
    model = km.load("kernelmean-filter/model.km")
    alone = pd.read_csv("few.csv")[["east", "north"]].iloc[12:]
    np.testing.assert_allclose(track[["u_mean", "v_mean"]].iloc[12:], model.predict(alone))
    forecast = pd.read_csv("kernelmean-filter/forecast.csv")
    assert list(forecast["trip"] + forecast["step"].astype(str)) == ["t01", "t02", "t11", "t12"]
    np.testing.assert_allclose(forecast[["u_mean", "v_mean"]][2:], model.forecast(alone, 2).mean())
    page = Path("kernelmean-filter/report.html").read_text(encoding="utf-8")
    assert "trip t0." in page
    assert "trip t1." in page


@pytest.mark.slow
def test_dates_name_the_rows_and_those_that_follow(run, tables):
    """They are needed in the file that is followed; in the other their order is checked."""
    days = pd.date_range("2026-01-01", periods=40).strftime("%Y-%m-%d")
    tables[1].assign(day=days).to_csv("dated.csv", index=False)
    options = (*OPTIONS, "--time", "day", "--forecast", "2")
    result = run("filter", "train.csv", "dated.csv", *options)
    assert result.exit_code == 0, result.output
    assert "2026-02-09" in result.stdout
    assert list(pd.read_csv("kernelmean-filter/track.csv")["day"]) == list(days)
    ahead = pd.read_csv("kernelmean-filter/forecast.csv")
    assert list(ahead["day"]) == ["2026-02-10", "2026-02-11"]


def test_dates_are_in_order(refused, tables):
    options = (*OPTIONS, "--time", "day")
    assert "test.csv has no column 'day'" in refused("filter", "train.csv", "test.csv", *options)
    for train, test in ((1, -1), (-1, 1)):
        for table, name, way in zip(tables, ("past.csv", "now.csv"), (train, test), strict=True):
            table.assign(day=np.arange(len(table))[::way]).to_csv(name, index=False)
        assert "goes back in row 2" in refused("filter", "past.csv", "now.csv", *options)


def test_rows_left_out_end_a_trajectory(tables):
    train, _ = tables
    train.loc[[40, 41, 90], "u"] = np.nan
    train.to_csv("gaps.csv", index=False)
    settings = Settings(["u"], ["east", "north"], drop_missing=True)
    past, _ = settings.read(read_table(Path("gaps.csv")), read_table(Path("test.csv")))
    assert past.lengths == [40, 48, 59]
    assert sum(past.lengths) == len(past.frame)
    assert len(left_out(past.frame)) == 1


@pytest.mark.slow
def test_tuning_shows_progress_and_can_be_left_out(run, tables, monkeypatch):
    monkeypatch.setattr("kernelmean.filtering.tune.SCALES", ((), ()))
    asked = ("filter", "train.csv", "test.csv", *OPTIONS[:-1], "--rule", "importance")
    result = run(*asked, "--verbose")
    assert result.exit_code == 0, result.output
    assert "best of" in result.stdout
    assert "tuning" in result.stderr
    assert run(*asked).stderr == ""  # which is no terminal
    assert "defaults" in run("filter", "train.csv", "test.csv", *OPTIONS).stdout


@pytest.mark.parametrize(
    ("tune", "lengths", "expected"),
    [
        (None, [900], True),
        (None, [1001], False),
        (True, [1001], True),
        (False, [30], False),
        (None, [9] * 10, False),
    ],
)
def test_small_files_are_tuned(tune, lengths, expected):
    rows = Rows(pd.DataFrame({"a": np.zeros(sum(lengths))}), lengths, [])
    assert to_tune(Settings(["a"], ["b"], tune=tune), rows) is expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--state", "u,v", "--observe", "est,north"), "did you mean 'east'?"),
        (
            ("--state", "w", "--observe", "east"),
            "train.csv has no column 'w' (asked for by --state",
        ),
        (("--state", "u,east", "--observe", "east,north"), "--state and to --observe"),
        (("--state", "u", "--observe", "east", "--sequence", "u"), "--state and to --sequence"),
        (("--state", "u", "--observe", "east", "--sequence", "trip"), "no column 'trip'"),
        (("--state", "u,", "--observe", "east"), "--state"),
        (("--state", "u"), "--observe"),
        ((*OPTIONS, "--forecast", "-1"), "--forecast"),
        ((*OPTIONS, "--level", "1"), "--level"),
        ((*OPTIONS, "--rule", "cubed"), "cubed"),
        ((*OPTIONS, "--out", "train.csv"), "which is a file"),
    ],
)
def test_refusals(refused, tables, arguments, words):
    assert words in refused("filter", "train.csv", "test.csv", *arguments)


def spoilt(train: pd.DataFrame, what: str) -> pd.DataFrame:
    if what == "text":
        return train.assign(u=[f"{v:.2f} m" for v in train["u"]])
    if what == "gap":
        return train.assign(u=train["u"].where(train.index != 7))
    if what == "infinite":
        return train.assign(east=train["east"].where(train.index != 7, np.inf))
    if what == "constant":
        return train.assign(u=3.0)
    return train.head(19)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("text", "column 'u' of bad.csv holds text"),
        ("gap", "missing values: 'u' 1; add --drop-missing to leave out 1 of 150 rows"),
        ("infinite", "bad.csv has infinite values: 'east' 1"),
        ("constant", "column 'u' is 3 in every row; leave it out"),
        ("few", "too few rows to learn from, 19"),
    ],
)
def test_training_files_that_cannot_be_used(refused, tables, what, words):
    spoilt(tables[0], what).to_csv("bad.csv", index=False)
    assert words in refused("filter", "bad.csv", "test.csv", *OPTIONS)


def test_test_files_that_cannot_be_used(refused, tables):
    assert "no file tset.csv; did you mean" in refused("filter", "train.csv", "tset.csv", *OPTIONS)
    tables[1].assign(east="?").to_csv("bad.csv", index=False)
    assert "holds text: '?' in row 1" in refused("filter", "train.csv", "bad.csv", *OPTIONS)
    tables[1][["north"]].assign(other=1).to_csv("bad.csv", index=False)
    assert "bad.csv has no column 'east'" in refused("filter", "train.csv", "bad.csv", *OPTIONS)


def test_trajectories_must_be_together(refused, trips):
    pd.concat([pd.read_csv("few.csv")] * 2).to_csv("mixed.csv", index=False)
    line = refused("filter", "many.csv", "mixed.csv", *OPTIONS, "--sequence", "trip")
    assert "the rows of trip t0 in mixed.csv are not together: they begin again in row 14" in line
    pd.read_csv("few.csv").replace({"trip": {"t1": None}}).to_csv("mixed.csv", index=False)
    line = refused("filter", "many.csv", "mixed.csv", *OPTIONS, "--sequence", "trip")
    assert "is empty in row 13" in line


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:1 of 40 observations")  # the spike
def test_with_nothing_said_the_filter_is_that_of_the_library(tables):
    past = Rows(tables[0], [150], [])
    settings = Settings(["u", "v"], ["east", "north"])
    model = learn(settings, past)
    plain = km.KernelBayesFilter().fit(tables[0][["east", "north"]], tables[0][["u", "v"]])
    assert model.inference is None
    assert type(model.machine_) is type(plain.machine_)
    seen = tables[1][["east", "north"]]
    a = Tracks(settings, past, Rows(tables[1], [40], []), model)
    assert a.by_densities
    assert model.tuning_ == []
    np.testing.assert_array_equal(a.filtered.mean(), plain.filter(seen).mean())
    told = dict(fact[:2] for fact in facts(a))
    assert told["Settings"] == "defaults"
    assert learn(replace(settings, rule=RuleName.squared, tune=False), past).inference == "kbr"


def test_densities_have_neither_a_rule_nor_a_search(refused, tables):
    for more in (("--tune",), ("--no-tune", "--rule", "squared")):
        line = refused("filter", "train.csv", "test.csv", *OPTIONS[:-1], "--densities", *more)
        assert "choose everything themselves" in line


def test_short_trajectories_cannot_be_tuned_on(refused, tables):
    tables[0].assign(trip=np.arange(150) // 5).to_csv("short.csv", index=False)
    tables[1].assign(trip=0).to_csv("one.csv", index=False)
    options = (*OPTIONS[:-1], "--sequence", "trip", "--tune")
    assert "the longest has 5 rows" in refused("filter", "short.csv", "one.csv", *options)


# ---------------------------------------------------------------- in numbers and words


def tracks(states: list[str], past: pd.DataFrame, now: pd.DataFrame, **options) -> Tracks:
    settings = Settings(states, ["east", "north"], tune=False, **options)
    train, test = (Rows(frame, [len(frame)], []) for frame in (past, now))
    return Tracks(settings, train, test, learn(settings, train))


def test_errors_by_hand():
    found, truth = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, np.nan], [1.0, np.nan]])
    np.testing.assert_allclose(rmse(found, truth), [np.sqrt(2.0), np.nan])
    np.testing.assert_allclose(average(truth), [1.0, np.nan])


def test_errors_beside_a_straight_line(tables):
    from sklearn.linear_model import LinearRegression

    train, test = tables[0], trajectory(30, 1002)
    test["v"] = np.nan  # a state of which nothing is known has no error
    a = tracks(["u", "v"], train, test, smooth=True)
    assert list(a.errors.index) == ["u"]
    line = LinearRegression().fit(train[["east", "north"]], train["u"])
    gap = line.predict(test[["east", "north"]]) - test["u"]
    assert a.errors.loc["u", "line"] == pytest.approx(np.sqrt(np.mean(gap**2)))
    assert a.errors.loc["u", "mean"] == pytest.approx(
        np.sqrt(np.mean((train["u"].mean() - test["u"]) ** 2))
    )
    lower, upper = a.filtered.interval(0.95)
    inside = (lower[:, 0] <= test["u"]) & (test["u"] <= upper[:, 0])
    assert a.errors.loc["u", "filtered inside"] == pytest.approx(inside.mean())
    grid, _ = errors(a)
    assert len(grid.header) == len(grid.rows[0]) == 7


@pytest.mark.slow
def test_notes_say_what_is_wrong(tables):
    test = trajectory(30, 1002)
    first = tracks(["u"], tables[0], test)

    def told(**columns) -> str:
        now = Rows(test.assign(**columns), [30], [])
        return " ".join(notes(Tracks(first.settings, first.train, now, first.model)))

    assert "prediction throughout" in told(east=np.nan)
    wide = 1.02 * test["east"].where(test.index % 2 == 0, 2.0)
    assert "leave the range of the training file" in told(east=wide)
    moved = told(u=test["u"] + 3.0)
    assert "hold 0% of the states known: they are too narrow" in moved
    assert "cannot follow" not in moved
    first.model.held_out_ = {"densities": 1.1, "ridge": 1.0, "mean": 1.0}
    assert "it cannot follow these states" in told()
    exact = trajectory(60, 1003).assign(u=lambda t: t["east"])  # no memory is needed
    said = " ".join(notes(tracks(["u"], exact, exact)))
    assert "straight lines" in said
    assert "TEST holds the rows of TRAIN" in said
    assert "TEST holds the rows of TRAIN" not in told()


@pytest.mark.slow
def test_long_tracks_are_cut(tables):
    test = trajectory(LONGEST + 50, 1004)
    a = tracks(["u"], tables[0], test)
    (figure,) = figures(a)
    assert figure.caption.startswith(f"The last {LONGEST} rows. ")
    drawn = max(figure.drawing.axes[0].get_lines(), key=lambda line: len(line.get_xdata()))
    assert len(drawn.get_xdata()) == LONGEST
    assert len(answers(a).rows) == SHOWN


def test_one_row_and_one_step(tables):
    a = tracks(["u"], tables[0], trajectory(1, 1005), smooth=True, forecast=1)
    page = report(a, "one.csv")
    assert len(page.figures()) == 2
    assert "nan" not in html(page)

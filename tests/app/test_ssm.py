"""`kernelmean ssm`: results, files, notes and refusals; and the volatility job of the demo."""

from __future__ import annotations

import os
import warnings
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from copies import altered

import kernelmean as km
from kernelmean.app.commands import ssm
from kernelmean.app.commands.ssm import (
    SAY,
    Forecasts,
    Settings,
    Trial,
    drawn,
    ends,
    expected,
    facts,
    headline,
    parts,
    report,
    rivals,
)
from kernelmean.app.errors import noted
from kernelmean.app.page import html
from kernelmean.app.report import Code, account
from kernelmean.app.series import Rows

ASKED = ("--columns", "level")


def levels(n: int, seed: int) -> pd.DataFrame:
    """A level that wanders, seen with noise, and days."""
    data = km.datasets.make_state_space("linear", n, random_state=seed)
    days = pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d")
    other = np.tanh(data.states[:, 0]) + 0.1 * data.X[::-1, 0]
    return pd.DataFrame({"day": days, "level": data.X[:, 0], "other": other})


def gappy() -> pd.DataFrame:
    frame = levels(200, 41)
    frame.loc[20:24, "level"] = np.nan
    return frame


@pytest.fixture
def table(tmp_path, monkeypatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    frame = gappy()
    frame.to_csv("data.csv", index=False)
    return frame


@pytest.fixture(autouse=True, scope="module")
def quick():
    """One start and a few steps: what the page says does not depend on how good the fit is."""
    small = {"em": km.EM(n_init=1, max_iter=3), "latent": km.Normal(nodes=15)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Settings, "model", lambda *a: model(*a).set_params(**small))
        yield


model = Settings.model


@pytest.fixture(scope="module")
def plain(quick) -> Forecasts:
    """The answers about one column."""
    return found(gappy()[["level"]])


def found(frame: pd.DataFrame, lengths=None, names=(), **settings) -> Forecasts:
    """The answers about a table, without a file."""
    rows = Rows(frame, lengths or [len(frame)], list(names))
    return Forecasts(Settings(list(frame), **settings), rows)


def test_nothing_of_a_count_is_told_below_zero(quick):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"count": rng.poisson(1.5, 40), "change": rng.standard_normal(40)})
    frame.loc[7, "count"] = np.nan
    a = found(frame, forecast=3)
    lower = a.model.predict_interval(frame).lower
    assert (lower[:, 0] < 0).any()
    np.testing.assert_array_equal(a.lower, np.maximum(lower, [0, -np.inf]))
    assert (a.forecasts[["count_lower", "count_mean"]] >= 0).all(axis=None)
    assert (a.forecasts["change_lower"] < 0).all()
    assert [note for note in a.notes if note.startswith("count: whole numbers")]
    assert drawn(a)


@pytest.mark.slow
@pytest.mark.slow
def test_a_season_that_only_all_rows_hold_twice():
    """120 weeks were refused as 96, those that would have been judged from."""
    weeks = np.arange(120)
    noise = np.random.default_rng(47).normal(size=120)
    frame = pd.DataFrame({"y": 10 * np.sin(2 * np.pi * weeks / 52) + noise})
    a = found(frame, season=52)
    assert a.trial is None
    assert "52 rows" in str(a.model.summary())
    with pytest.raises(ValueError, match="too few rows, 100, for"):
        found(frame[:100], season=52)


@pytest.mark.slow
def test_notes_count_the_rows_of_the_file_once():
    """The library counts from 0, and the fit without the rows held out had the same to say."""
    frame = levels(120, 41)[["level"]].set_axis(range(1, 121))
    frame.loc[60, "level"] = -999.0
    said = [note for note in found(frame).notes if "usual changes" in note]
    assert len(said) == 1
    assert "in 1 of 120 rows (row 60: [-999.0])" in said[0]


@pytest.mark.thorough
@pytest.mark.slow
def test_files_and_summary(run, table):
    result = run("ssm", "data.csv", *ASKED, "--time", "day", "--horizon", "3", "--out", "here")
    assert result.exit_code == 0, result.output
    made = ["forecast.csv", "model.km", "report.html", "track.csv"]
    assert sorted(os.listdir("here")) == made
    for words in (
        "State-space model",
        "Root mean squared errors over",
        "no change",
        "in 95% interval",
        "After the end of the file",
        "written: here/track.csv",
    ):
        assert words in result.stdout
    page = Path("here/report.html").read_text(encoding="utf-8")
    for words in ("level, one row ahead", "What comes next", "How good", "What was learned"):
        assert words in page
    assert page.count("<figure") == 3
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.slow
def test_numbers_are_those_of_the_model(run, table):
    run("ssm", "data.csv", *ASKED, "--time", "day", "--forecast", "3", "--level", "0.8")
    fitted = km.load("kernelmean-ssm/model.km")
    X = pd.read_csv("data.csv")[["level"]]
    track = pd.read_csv("kernelmean-ssm/track.csv", index_col="row")
    assert list(track["day"]) == list(table["day"])
    np.testing.assert_allclose(track[["level_mean"]], fitted.predict(X))
    ends = np.stack(fitted.predict_interval(X, 0.8))[..., 0]
    np.testing.assert_allclose(track[["level_lower", "level_upper"]].T, ends)
    np.testing.assert_allclose(track[["filtered_0"]], fitted.filter(X).mean())
    np.testing.assert_allclose(track[["smoothed_0"]], fitted.smooth(X).mean())
    assert list(track.index[track["missing"]]) == [21, 22, 23, 24, 25]
    assert track["log_predictive"].isna().equals(track["missing"])
    assert track["log_predictive"].sum() == pytest.approx(fitted.score(X))
    ahead, forecast = fitted.forecast(X, 3), pd.read_csv("kernelmean-ssm/forecast.csv")
    assert list(forecast["step"]) == [1, 2, 3]
    np.testing.assert_allclose(forecast[["level_mean"]], ahead.mean())
    ends = np.stack(ahead.interval(0.8))[..., 0]
    np.testing.assert_allclose(forecast[["level_lower", "level_upper"]].T, ends)


def test_rows_in_part_are_judged_by_what_they_have(run, table):
    result = run("ssm", "data.csv", "--columns", "level,other")
    track = pd.read_csv("kernelmean-ssm/track.csv", index_col="row")
    assert track["missing"].sum() == 5
    assert not track["log_predictive"].isna().any()
    assert "5 of 200 rows have some of the columns and not others; what is there" in result.stdout


@pytest.mark.slow
def test_sequences_do_not_touch_each_other(run, table):
    parts = [levels(n, n).assign(site=f"s{i}") for i, n in enumerate((40, 30, 1))]
    pd.concat(parts).to_csv("many.csv", index=False)
    options = ("--sequence", "site", "--time", "day", "--forecast", "2")
    result = run("ssm", "many.csv", "--columns", "level,other", *options)
    assert result.exit_code == 0, result.output
    assert "71 in 3 sequences" in result.stdout
    track = pd.read_csv("kernelmean-ssm/track.csv", index_col="row")
    assert list(track["site"]) == ["s0"] * 40 + ["s1"] * 30 + ["s2"]
    fitted = km.load("kernelmean-ssm/model.km")
    alone = parts[1][["level", "other"]]
    names = ["level_mean", "other_mean"]
    np.testing.assert_allclose(track[names][40:70], fitted.predict(alone))
    forecast = pd.read_csv("kernelmean-ssm/forecast.csv")
    assert list(forecast["site"] + forecast["step"].astype(str)) == [
        "s01", "s02", "s11", "s12", "s21", "s22",
    ]  # fmt: skip
    np.testing.assert_allclose(forecast[names][2:4], fitted.forecast(alone, 2).mean())
    page = Path("kernelmean-ssm/report.html").read_text(encoding="utf-8")
    assert "site s0." in page
    assert page.count("<figure") == 5  # three sequences, the laws, the trace


@pytest.mark.slow
def test_what_is_asked_of_the_line():
    named = {"trend": ssm.TrendName.drift, "transform": ssm.TransformName.none}
    asked = Settings(columns=["level"], latent_dim="auto", **named)
    built = asked.model()
    assert built.n_latent == "auto"
    assert built.backbone == km.Backbone(trend="drift", transform=None)
    assert Settings(columns=["level"]).model().backbone == "auto"


@pytest.mark.parametrize("inference", [pytest.param("particles", marks=pytest.mark.slow), "kbr"])
def test_options_reach_the_model(run, table, inference):
    options = ("--inference", inference, "--seed", "3", "--latent-dim", "1")
    result = run("ssm", "data.csv", *ASKED, *options)
    assert result.exit_code == 0, result.output
    fitted = km.load("kernelmean-ssm/model.km")
    assert (fitted.inference, fitted.random_state, fitted.n_latent) == (inference, 3, 1)
    assert sorted(os.listdir("kernelmean-ssm")) == ["model.km", "report.html", "track.csv"]
    assert {"particles": "Particles(", "kbr": "kernel Bayes' rule"}[inference] in result.stdout


@pytest.mark.slow
def test_moments_alone_in_two_latent_dimensions(run, table):
    result = run("ssm", "data.csv", *ASKED, "--no-refine", "--latent-dim", "2", "--level", "0.5")
    assert result.exit_code == 0, result.output
    fitted = km.load("kernelmean-ssm/model.km")
    assert not fitted.refine
    assert fitted.nodes_.shape[1] == 2
    track = pd.read_csv("kernelmean-ssm/track.csv")
    assert {"filtered_0", "filtered_1", "smoothed_1"} <= set(track)


@pytest.mark.slow
@pytest.mark.parametrize("log_squares", [False, True])
def test_the_code_on_the_page_runs(run, table, log_squares):
    flag = ["--log-squares"] if log_squares else []
    run("ssm", "data.csv", *ASKED, *flag)
    settings = Settings(["level"], log_squares=log_squares)
    rows = settings.read(km.app.tables.read_table(Path("data.csv")))
    page = report(Forecasts(settings, rows), "data.csv")
    (code,) = [b.text for b in page.sections[-1].blocks if isinstance(b, Code)]
    names: dict = {}
    exec(code.replace("model.km", "kernelmean-ssm/model.km"), names)
    assert names["belief"].mean().shape == (1,)


class TestLogSquares:
    @pytest.mark.slow
    def test_zeros_are_missing_and_volatility_is_that_of_the_squares(self, run, table):
        frame = table.assign(level=table["level"].where(table.index != 7, 0.0))
        frame.to_csv("data.csv", index=False)
        result = run("ssm", "data.csv", *ASKED, "--log-squares", "--forecast", "2")
        assert result.exit_code == 0, result.output
        assert "volatility of level" in result.stdout
        track = pd.read_csv("kernelmean-ssm/track.csv", index_col="row")
        assert list(track.index[track["missing"]]) == [8, 21, 22, 23, 24, 25]
        fitted = km.load("kernelmean-ssm/model.km")
        X = np.log(frame[["level"]].where(frame[["level"]] != 0) ** 2)
        X.columns = ["log level²"]
        np.testing.assert_allclose(track[["log level²_mean"]], fitted.predict(X))
        law = fitted.start()  # one row at a time
        for t in range(12):
            assert track["level_volatility"].iloc[t] ** 2 == pytest.approx(
                float(law.embedding.expectation(np.exp)[0])
            )
            law.update(X.iloc[t]).predict()
        ahead = pd.read_csv("kernelmean-ssm/forecast.csv")
        squares = fitted.forecast(X, 2).embedding.expectation(np.exp)
        np.testing.assert_allclose(ahead[["level_volatility"]] ** 2, squares)

    def test_a_column_of_zeros(self, refused, table):
        table.assign(level=0.0).to_csv("data.csv", index=False)
        assert "too few rows without gaps, 0" in refused("ssm", "data.csv", *ASKED, "--log-squares")


class TestTrial:
    def test_the_end_of_each_sequence_is_held_out(self):
        assert parts([10, 4, 23]) == ([8, 4, 19], [2, 4])
        expected = [0] * 8 + [1] * 2 + [0] * 4 + [0] * 19 + [1] * 4
        np.testing.assert_array_equal(ends([10, 4, 23]), expected)
        # of a season, where one ends: a line counts its rows from where a sequence begins
        assert parts([100, 10], season=12) == ([72, 8], [28, 2])

    @pytest.mark.slow
    def test_forecasts_are_of_a_model_that_has_not_seen_the_rows(self, plain):
        trial, X = plain.trial, gappy()[["level"]]
        assert trial is not None
        past = Settings.model(plain.settings).fit(X[:160])
        np.testing.assert_allclose(trial.forecasts["state space"], past.predict(X)[160:])
        assert (trial.n, len(trial.truth)) == (40, 40)
        np.testing.assert_array_equal(trial.truth, X[160:])

    def test_rivals_by_loops(self):
        """AR(1) by the slope over pairs of rows that follow each other."""
        frame, lengths = gappy()[["level"]], [90, 110]
        past = ~ends(lengths)
        found = rivals(frame, lengths, past)
        y = frame["level"].to_numpy()
        follow = [t for t in range(1, 200) if t != 90 and past[t]]
        pairs = [(y[t - 1], y[t]) for t in follow if np.isfinite(y[t - 1] + y[t])]
        x, z = np.array(pairs).T
        slope = np.cov(x, z, bias=True)[0, 1] / x.var()
        line = z.mean() + slope * (y[149] - x.mean())
        assert found["AR(1)"][150, 0] == pytest.approx(line)
        assert found["no change"][150, 0] == y[149]
        assert found["mean"][150, 0] == pytest.approx(np.nanmean(y[past]))
        assert np.isnan(found["AR(1)"][[0, 90, 21], 0]).all()

    @pytest.mark.slow
    def test_only_rows_that_follow_a_whole_one_are_judged(self, table):
        frame = table[["level"]].copy()
        frame.loc[[170, 180], "level"] = np.nan
        a = found(frame)
        assert a.trial is not None
        assert (a.trial.n, len(a.trial.truth)) == (38, 36)

    def test_errors_and_gains_by_hand(self):
        truth = pd.DataFrame({"y": [0.0, 0.0, 0.0, 0.0]})
        forecasts = {
            "state space": np.array([[1.0], [1.0], [-1.0], [-1.0]]),
            "AR(1)": np.array([[2.0], [2.0], [2.0], [0.0]]),
            "no change": np.full((4, 1), 3.0),
            "mean": np.full((4, 1), 4.0),
        }
        trial = Trial(None, 4, truth, forecasts, -np.ones((4, 1)), np.array([[1.0]] * 3 + [[-1]]))
        row = trial.errors.loc["y"]
        assert row["state space"] == 1.0
        assert row["AR(1)"] == pytest.approx(3**0.5)
        assert row["inside"] == 0.75
        gain, error = trial.gain("AR(1)")
        assert gain == 2.0
        assert error == pytest.approx(np.std([3, 3, 3, -1]) / 2)
        assert trial.rival == "AR(1)"

    @pytest.mark.slow
    def test_too_few_rows(self, table):
        a = found(table[["level"]].dropna()[:60])
        assert a.trial is None
        assert "too few rows without gaps to hold some out at the end" in " ".join(a.notes)
        assert headline(a) == ""
        page = html(report(a, "data.csv"))
        assert "How good the forecasts are" not in page
        assert "Rows held out" not in [name for name, _, _ in facts(a)]

    @pytest.mark.slow
    def test_tuning_looks_at_earlier_rows_only(self, table, monkeypatch):
        seen = []

        def tune(self, X, X_val, lengths, lengths_val, *, verbose):
            seen.append((len(X), len(X_val), lengths, lengths_val))
            tuned = km.KernelStateSpace(em=km.EM(guard=7.0, n_init=1, max_iter=2)).fit(X, lengths)
            tuned.tuning_ = [{"guard": 7.0, "likelihood": -1.0}]
            return tuned

        monkeypatch.setattr(km.KernelStateSpace, "tune", tune)
        a = found(table[["level"]], lengths=[100, 100], names=["a", "b"], tune=True)
        assert seen == [(128, 32, [64, 64], [16, 16])]
        assert a.model.em.guard == 7.0
        assert ("Settings", "best of 1") in [pair[:2] for pair in facts(a)]


def test_lines_of_the_fit_are_explained(plain):
    told = {block.caption: block.rows for block in account(SAY, plain.model.summary)}
    lines = [*told["Latent states"], *told.get("Backbone", [])]
    assert [name for name, _, meaning in lines if not meaning] == []


def test_the_guard_is_named_where_there_is_one(plain):
    said = {name: value for name, value, _ in facts(plain)}
    assert said["Guard"] == f"{plain.model.guard_[0]:,.0f} rows"
    alone = altered(plain, settings=replace(plain.settings, refine=False))
    assert "Guard" not in [name for name, _, _ in facts(alone)]


@pytest.mark.slow
def test_expected_of_the_identity_is_the_forecast(table):
    a = found(table[["level"]], lengths=[120, 80], names=["a", "b"], log_squares=True)
    same = expected(a.model, lambda Y: Y, a.rows.frame, [120, 80])
    np.testing.assert_allclose(same, a.mean)


class TestNotes:
    def said(self, a: Forecasts, **changes) -> str:
        settled = copy(a.model)
        settled.converged_ = True
        assert a.trial is not None
        trial = replace(a.trial, **changes)
        return " ".join(altered(a, model=settled, caught=[], trial=trial).notes)

    def rivals(self, off: float) -> dict[str, np.ndarray]:
        """The state space off by one, the others by more or less, one way and the other."""
        truth = gappy()[["level"]][160:].to_numpy()
        sign = np.where(np.arange(40) % 2, 1.0, -1.0)[:, None]
        return {"state space": truth + sign, **dict.fromkeys(ssm.RIVALS, truth + off * sign)}

    def test_nothing_to_say(self, plain):
        wide = {"lower": np.full((40, 1), -9.0), "upper": np.full((40, 1), 9.0)}
        wide["lower"][:4] = 8.0
        assert self.said(plain, forecasts=self.rivals(3.0), **wide) == ""

    def test_a_rival_is_better(self, plain):
        said = self.said(plain, forecasts=self.rivals(0.5))
        assert "For level, a straight line through the row before is as good or better" in said

    def test_better_by_no_more_than_noise(self, plain):
        forecasts = self.rivals(3.0)
        sign = self.rivals(1.0)["mean"] - self.rivals(0.0)["mean"]
        noise = 0.2 * np.random.default_rng(0).normal(size=(40, 1))
        noise -= sign * (sign * noise).mean()
        forecasts["AR(1)"] = forecasts["state space"] + noise
        words = "by no more than the noise of 40 held-out rows"
        assert words in self.said(plain, forecasts=forecasts)

    def test_intervals_that_do_not_hold(self, plain):
        narrow = {"lower": np.zeros((40, 1)), "upper": np.zeros((40, 1))}
        assert "hold 0% of the held-out rows" in self.said(plain, **narrow)

    @pytest.mark.slow
    def test_partial_rows_trouble_and_an_unfinished_fit(self, table):
        a = found(table[["level", "other"]])
        a.model.converged_ = False
        with noted() as caught:
            warnings.warn("something went wrong", km.NumericalWarning, stacklevel=1)
            warnings.warn("something went wrong", km.NumericalWarning, stacklevel=1)
        said = " ".join(altered(a, caught=caught).notes)
        assert said.count("something went wrong") == 1
        assert "stopped before it had settled" in said
        assert "5 of 200 rows have some of the columns" in said


@pytest.mark.slow
def test_long_series_are_cut_in_pictures_only(table, monkeypatch):
    monkeypatch.setattr(ssm, "LONGEST", 50)
    a = found(table[["level"]], forecast=3)
    (figure,) = drawn(a)
    assert figure.caption.startswith("The last 50 rows. ")
    assert max(len(line.get_xdata()) for line in figure.drawing.axes[0].lines) == 50
    assert len(a.table) == 200


@pytest.mark.slow
def test_many_columns_are_not_all_drawn(table, monkeypatch):
    monkeypatch.setattr(ssm, "COLUMNS", 1)
    a = found(table[["level", "other"]].dropna(), forecast=2)
    (figure,) = drawn(a)
    assert [axes.get_ylabel() for axes in figure.drawing.axes] == ["level"]
    assert ssm.forecast(a).header == ["step", "level", "95% interval"]
    assert "other" not in headline(a)


class TestInputs:
    """`--inputs`: columns known beforehand, and `--paths`."""

    @pytest.fixture
    def driven(self, tmp_path, monkeypatch) -> pd.DataFrame:
        monkeypatch.chdir(tmp_path)
        frame = pd.concat([levels(100, 41), levels(80, 42)], ignore_index=True)
        frame["site"] = np.repeat(["a", "b"], [100, 80])
        frame["sun"] = np.random.default_rng(0).normal(size=180)
        frame["level"] += 2 * frame["sun"]
        frame["day"] = frame["day"].mask(frame.index == 99, "2020-04-20")  # after a gap
        frame["day"] = frame["day"].mask(frame.index == 179, "2020-04-01")
        frame.loc[[99, 178, 179], "level"] = np.nan
        frame.to_csv("data.csv", index=False)
        return frame

    known = (*ASKED, "--inputs", "sun", "--sequence", "site", "--time", "day")

    def test_rows_to_come(self, run, driven):
        words = *self.known, "--forecast", "1", "--paths", "400", "--seed", "3"
        result = run("ssm", "data.csv", *words)
        assert result.exit_code == 0, result.output
        past = np.r_[:99, 100:178]
        X, U = driven[["level"]].loc[past], driven[["sun"]].loc[past]
        model = km.load("kernelmean-ssm/model.km")
        later = driven[["sun"]].loc[[99, 178]]
        ahead = model.forecast(X, 1, [99, 78], inputs=U, inputs_ahead=later)
        table = pd.read_csv("kernelmean-ssm/forecast.csv")
        np.testing.assert_allclose(table["level_mean"], ahead.mean()[:, 0])
        assert table["day"].tolist() == ["2020-04-20", driven["day"][178]]
        assert len(pd.read_csv("kernelmean-ssm/track.csv")) == 177
        paths = pd.read_csv("kernelmean-ssm/paths.csv")
        assert list(paths) == ["path", "site", "day", "step", "level_drawn"]
        drawn = paths.groupby("site")["level_drawn"]
        np.testing.assert_array_equal(drawn.count(), 400)
        error = 5 * ahead.std()[:, 0] / 400**0.5
        assert (abs(drawn.mean().to_numpy() - table["level_mean"]) < error).all()
        page = Path("kernelmean-ssm/report.html").read_text()
        assert "inputs_ahead=ahead" in page

    def test_without_a_forecast_they_are_missing_rows(self, run, driven):
        result = run("ssm", "data.csv", *self.known)
        assert result.exit_code == 0, result.output
        track, model = pd.read_csv("kernelmean-ssm/track.csv"), km.load("kernelmean-ssm/model.km")
        told = model.predict(driven[["level"]], [100, 80], driven[["sun"]])
        np.testing.assert_allclose(track["level_mean"], told[:, 0])
        assert track["missing"].sum() == 3
        assert not Path("kernelmean-ssm/paths.csv").exists()

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--forecast", "2"), "append the rows to come to each sequence"),
            (("--forecast", "2"), "there are 1"),
            (("--tune",), "--inputs are given, and --tune"),
            (("--no-refine",), "--inputs is given, and --no-refine"),
            (("--log-squares",), "--inputs is given, and --log-squares"),
            (("--paths", "5"), "--paths are given, and no --forecast"),
        ],
    )
    def test_refusals(self, refused, driven, arguments, words):
        assert words in refused("ssm", "data.csv", *self.known, *arguments)

    def test_gaps_in_inputs(self, refused, run, driven):
        driven.assign(sun=driven["sun"].where(driven.index != 5)).to_csv("data.csv", index=False)
        assert "data.csv has missing values: 'sun' 1" in refused("ssm", "data.csv", *self.known)
        result = run("ssm", "data.csv", *self.known, "--drop-missing")
        assert result.exit_code == 0, result.output
        assert len(pd.read_csv("kernelmean-ssm/track.csv")) == 176
        said = refused("ssm", "data.csv", *self.known, "--drop-missing", "--forecast", 2)
        assert "--drop-missing would leave out the rows to come" in said


def spoilt(frame: pd.DataFrame, what: str) -> pd.DataFrame:
    if what == "text":
        return frame.assign(level="high")
    if what == "infinite":
        return frame.assign(level=frame["level"].where(frame.index != 7, np.inf))
    if what == "constant":
        return frame.assign(level=3.0)
    if what == "few":
        return frame[frame["level"].notna()].head(18)
    return frame.iloc[::-1]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("text", "column 'level' of bad.csv holds text"),
        ("infinite", "bad.csv has infinite values: 'level' 1"),
        ("constant", "column 'level' is 3 in every row"),
        ("few", "too few rows without gaps, 18; at least 20 are needed"),
        ("backwards", "(asked for by --time) goes back in row 2; sort the file by time"),
    ],
)
def test_files_that_cannot_be_used(refused, table, what, words):
    spoilt(table, what).to_csv("bad.csv", index=False)
    assert words in refused("ssm", "bad.csv", *ASKED, "--time", "day")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--columns", "levle"), "did you mean 'level'?"),
        ((), "--columns"),
        (("--columns", "level", "--time", "level"), "--columns and to --time"),
        (("--columns", "level", "--sequence", "site"), "no column 'site'"),
        ((*ASKED, "--forecast", "-1"), "--forecast"),
        ((*ASKED, "--level", "1"), "--level"),
        ((*ASKED, "--latent-dim", "0"), "--latent-dim"),
        ((*ASKED, "--inference", "exact"), "exact"),
        ((*ASKED, "--out", "data.csv"), "which is a file"),
        ((*ASKED, "--season", "12", "--no-refine"), "--season is given, and --no-refine"),
        ((*ASKED, "--season", "500"), "too few rows, 195, for --season 500: the first half"),
        ((*ASKED, "--season", "12", "--log-squares"), "--season is given, and --log-squares"),
        ((*ASKED, "--trend", "c", "--transform", "log", "--no-refine"), "--trend, --transform is"),
        ((*ASKED, "--latent-dim", "11"), "from 1 to 10, or auto"),
        ((*ASKED, "--out", "data.csv/deeper"), "--out is below"),
    ],
)
def test_refusals(refused, table, arguments, words):
    assert words in refused("ssm", "data.csv", *arguments)

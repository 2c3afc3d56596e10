"""`kernelmean hmm`: results, files, notes and refusals; and the S&P 500 job of the demo."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from copies import altered

import kernelmean as km
from kernelmean.app.commands import hmm
from kernelmean.app.commands.hmm import (
    Regimes,
    Settings,
    facts,
    headline,
    read_states,
    regimes,
    report,
    states,
)
from kernelmean.app.page import html
from kernelmean.app.report import Code
from kernelmean.app.series import Rows

ASKED = ("--columns", "level", "--states", "2")


def levels(n: int, seed: int) -> pd.DataFrame:
    """A level that stays low or high, and days."""
    rng = np.random.default_rng(seed)
    high = np.cumsum(rng.random(n) < 0.1) % 2
    level = 3.0 * high + rng.normal(size=n)
    days = pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d")
    return pd.DataFrame({"day": days, "level": level, "other": level + rng.normal(size=n)})


@pytest.fixture
def table(tmp_path, monkeypatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    frame = levels(200, 41)
    frame.loc[20:24, "level"] = np.nan
    frame.to_csv("data.csv", index=False)
    return frame


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Fewer starts of EM: what the page says does not depend on how good the fit is."""
    monkeypatch.setattr(Settings, "model", lambda *a: model(*a).set_params(em=km.EM(n_init=2)))


model = Settings.model


def found(frame: pd.DataFrame, lengths=None, names=(), **settings) -> Regimes:
    """The answers about a table, without a file."""
    rows = Rows(frame, lengths or [len(frame)], list(names))
    return Regimes(Settings(list(frame), **{"states": 2, **settings}), rows)


@pytest.mark.thorough
@pytest.mark.slow
def test_files_and_summary(run, table):
    result = run(
        "hmm", "data.csv", *ASKED, "--time", "day", "--forecast", "3", "--out", "here", "--verbose"
    )
    assert result.exit_code == 0, result.output
    made = ["forecast.csv", "model.km", "report.html", "states.csv"]
    assert sorted(os.listdir("here")) == made
    for words in (
        "level: 2 hidden states",
        "The states, from the most to the least frequent",
        "By elbow",
        "to state 1",
        "After the end of the file",
        "The file ends in state",
        "written: here/states.csv",
    ):
        assert words in result.stdout
    assert "starting points" in result.stderr
    page = Path("here/report.html").read_text(encoding="utf-8")
    for words in ("level: 2 hidden states", "What comes next", "How many states", "km.load"):
        assert words in page
    climbed = len(km.load("here/model.km").history_) > 1  # from where the best start came
    assert page.count("<figure") == 4 + climbed
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.slow
def test_numbers_are_those_of_the_model(run, table):
    run("hmm", "data.csv", *ASKED, "--time", "day", "--forecast", "3", "--level", "0.8")
    fitted = km.load("kernelmean-hmm/model.km")
    X = pd.read_csv("data.csv")[["level"]]
    states = pd.read_csv("kernelmean-hmm/states.csv", index_col="row")
    assert list(states["day"]) == list(table["day"])
    smoothed = fitted.predict_proba(X)
    np.testing.assert_allclose(states[["probability_0", "probability_1"]], smoothed)
    np.testing.assert_allclose(states[["filtered_0", "filtered_1"]], fitted.filter(X))
    np.testing.assert_array_equal(states["state"], smoothed.argmax(axis=1))
    np.testing.assert_array_equal(states["path"], fitted.decode(X)[1])
    assert list(states.index[states["missing"]]) == [21, 22, 23, 24, 25]
    log_predictive = states["log_predictive"]
    assert log_predictive.isna().equals(states["missing"])
    assert log_predictive.sum() == pytest.approx(fitted.score(X))
    ahead, forecast = fitted.forecast(X, 3), pd.read_csv("kernelmean-hmm/forecast.csv")
    np.testing.assert_allclose(forecast[["probability_0", "probability_1"]], ahead.states)
    np.testing.assert_allclose(forecast[["level_mean"]], ahead.mean())
    ends = np.stack(ahead.interval(0.8))[..., 0]
    np.testing.assert_allclose(forecast[["level_lower", "level_upper"]].T, ends)


@pytest.mark.slow
def test_sequences_do_not_touch_each_other(run, table):
    parts = [levels(n, n).assign(site=f"s{i}") for i, n in enumerate((80, 60, 1))]
    pd.concat(parts).to_csv("many.csv", index=False)
    options = ("--sequence", "site", "--time", "day", "--forecast", "2", "--no-refine")
    result = run("hmm", "many.csv", "--columns", "level,other", "--states", "2", *options)
    assert result.exit_code == 0, result.output
    assert "141 in 3 sequences" in result.stdout
    states = pd.read_csv("kernelmean-hmm/states.csv", index_col="row")
    assert list(states["site"]) == ["s0"] * 80 + ["s1"] * 60 + ["s2"]
    fitted = km.load("kernelmean-hmm/model.km")
    assert not fitted.refine
    alone = parts[1][["level", "other"]]
    np.testing.assert_allclose(states[["filtered_0", "filtered_1"]][80:140], fitted.filter(alone))
    forecast = pd.read_csv("kernelmean-hmm/forecast.csv")
    assert list(forecast["site"] + forecast["step"].astype(str)) == [
        "s01", "s02", "s11", "s12", "s21", "s22",
    ]  # fmt: skip
    names = ["level_mean", "other_mean"]
    np.testing.assert_allclose(forecast[names][2:4], fitted.forecast(alone, 2).mean())
    page = Path("kernelmean-hmm/report.html").read_text(encoding="utf-8")
    assert "site s0." in page
    assert page.count("<figure") == 9  # states and forecast of each, two densities, the spectrum


@pytest.mark.slow
def test_options_reach_the_model(run, table):
    result = run("hmm", "data.csv", *ASKED, "--inference", "forward", "--seed", "3")
    assert result.exit_code == 0, result.output
    fitted = km.load("kernelmean-hmm/model.km")
    assert (fitted.inference, fitted.random_state, fitted.n_components) == ("forward", 3, 2)
    assert sorted(os.listdir("kernelmean-hmm")) == ["model.km", "report.html", "states.csv"]
    assert "filter by densities" in " ".join(result.stdout.split())


@pytest.mark.slow
def test_the_code_on_the_page_runs(run, table):
    run("hmm", "data.csv", *ASKED)
    page = report(found(table[["level"]]), "data.csv")
    (code,) = [b.text for b in page.sections[-1].blocks if isinstance(b, Code)]
    names: dict = {}
    exec(code.replace("model.km", "kernelmean-hmm/model.km"), names)
    assert names["belief"].probabilities.shape == (2,)


class TestNumberOfStates:
    @pytest.mark.slow
    def test_auto_is_by_correlations(self, run, table):
        result = run("hmm", "data.csv", "--columns", "level", "--no-refine")
        assert result.exit_code == 0, result.output
        order = km.estimate_order(table[["level"]])
        assert km.load("kernelmean-hmm/model.km").n_components_ == order
        assert "Chosen by correlations" in Path("kernelmean-hmm/report.html").read_text()

    @pytest.mark.parametrize("rule", ["threshold", "ratio"])
    def test_rules_by_name(self, table, rule):
        a = found(table[["level"]], states=rule, refine=False)
        assert a.order == km.estimate_order(table[["level"]], method=rule) == a.n_states
        assert a.model.order_ == a.order  # so the summary says by which rule
        assert all(a.orders[r] == km.estimate_order(table[["level"]], method=r) for r in a.orders)

    def test_likelihood(self, table, monkeypatch):
        from kernelmean.chains.order import Order

        asked = {}

        def judge(X, lengths, **options):
            asked.update(options)
            return Order(1, "likelihood", np.ones(1), scores={1: -1.0, 2: -1.1})

        monkeypatch.setattr(hmm, "estimate_order", judge)
        a = found(table[["level"]], states="likelihood", seed=7)
        assert (a.n_states, asked) == (1, {"method": "likelihood", "random_state": 7})
        page = html(report(a, "data.csv"))
        assert "1 hidden state<" in page
        assert "By likelihood" in page

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("auto", "correlations"), ("elbow", "elbow"), ("3", 3), ("likelihood", "likelihood")],
    )
    def test_words(self, text, expected):
        assert read_states(text) == expected


def test_durations_and_entries_by_hand(table):
    a = found(table[["level"]])
    fixed = altered(a, path=np.array([0, 0, 1, 1, 0] * 40))
    np.testing.assert_array_equal(fixed.entries, [41, 40])
    rows = Rows(a.rows.frame, [3, 197], ["a", "b"])
    split = altered(fixed, rows=rows, path=np.repeat([0, 1], [100, 100]))
    np.testing.assert_array_equal(split.entries, [2, 1])
    np.testing.assert_allclose(a.stays * (1 - np.diag(a.model.transmat_)), 1.0)


def test_shares_are_of_the_rows_where_a_state_that_came_late_stays():
    """Of Nile's kind: what is never left again would hold for ever, but held in 60 of 200 rows."""
    noise = np.random.default_rng(5).normal(size=200)
    a = found(pd.DataFrame({"level": np.repeat([0.0, 5.0], [140, 60]) + noise}))
    late = a.filtered[-1].argmax()
    assert a.shares[late] == pytest.approx(0.3, abs=0.02)
    assert a.model.startprob_[late] > 0.4
    assert f"State {late} holds in 30% of the rows" in headline(a)
    assert states(a).rows[late][1] == f"{100 * a.shares[late]:.1f}%"


def test_intervals_of_states_are_in_the_units_of_the_columns():
    """Of densities of variates: their bandwidths are no columns'."""
    rng, high = np.random.default_rng(3), np.arange(90) // 15 % 2
    frame = pd.DataFrame(high[:, None] + rng.standard_t(3, (90, 6)), columns=list("abcdef")) / 1e3
    a = found(frame)
    assert a.model.variates_ is not None
    low, upper = states(a).rows[0][6].split(" to ")
    assert float(low.replace("\N{MINUS SIGN}", "-")) > 3 * frame["a"].quantile(0.025)
    assert float(upper) < 3 * frame["a"].quantile(0.975)


def test_the_past_tells_what_a_likelihood_without_memory_lacks(table):
    a = found(table[["level"]].dropna(), lengths=[20, 175])
    X = a.rows.frame
    alone = sum(a.model.score(X.iloc[[i]]) for i in range(len(X)))
    assert a.gains.sum() == pytest.approx(a.model.score(X, [20, 175]) - alone)


class TestNotes:
    def said(self, frame, **settings) -> str:
        return " ".join(found(frame, **settings).notes)

    def test_nothing_to_say(self):
        assert self.said(levels(400, 43)[["level"]]) == ""

    def test_too_many_states(self, table):
        a = found(table[["level"]])
        order = km.estimate_order(table[["level"]])
        most = type(order)(10, "correlations", order.singular_values)
        assert "the most that it looks for" in " ".join(altered(a, order=most).notes)

    def test_no_memory(self, table):
        shuffled = table[["level"]].dropna().sample(frac=1, random_state=1)
        said = self.said(shuffled, states=1)
        assert "The past tells this model nothing" in said
        assert "There is no sign of states" in said

    def test_one_state_that_was_asked_for_is_no_sign_that_there_are_none(self, table):
        """Two regimes are seen by every rule, and "no sign of states that persist" was said."""
        a = found(table[["level"]], states=1)
        said = " ".join(a.notes)
        assert "The past tells this model nothing" in said
        assert "no sign of states" not in said
        assert not a.gains.any()  # and not 3.7 × 10⁻¹⁹ ± 3.7 × 10⁻¹⁹

    def test_few_rows_and_few_entries(self, table):
        frame = levels(100, 44)[["level"]]
        frame["level"] = np.random.default_rng(45).normal(size=100)
        frame.loc[60:80, "level"] += 20.0
        said = self.said(frame)
        assert "state 1 (21): what such a state emits is hardly known" in said
        assert "state 1 (1): how long it lasts" in said

    def test_partial_rows(self, table):
        assert "5 of 200 rows have some of the columns" in self.said(
            table[["level", "other"]], refine=False
        )

    def test_unfinished(self, table):
        a = found(table[["level"]])
        a.model.converged_ = False
        assert "EM stopped" in " ".join(altered(a).notes)


def test_long_series_are_cut_in_pictures_only(table, monkeypatch):
    monkeypatch.setattr(hmm, "LONGEST", 50)
    a = found(table[["level"]], refine=False)
    (figure,) = regimes(a)
    assert figure.caption.startswith("The last 50 rows. ")
    assert max(len(line.get_xdata()) for line in figure.drawing.axes[0].lines) == 50
    assert len(a.table) == 200


def test_many_states_are_not_listed_in_words(table):
    a = found(table[["level"]], states=6, refine=False)
    assert "State 3" in headline(a)
    assert "State 4" not in headline(a)
    assert len(hmm.states(a).rows) == 6
    assert ("States", "6", "Given.") in facts(a)


def spoilt(frame: pd.DataFrame, what: str) -> pd.DataFrame:
    if what == "text":
        return frame.assign(level="high")
    if what == "infinite":
        return frame.assign(level=frame["level"].where(frame.index != 7, np.inf))
    if what == "constant":
        return frame.assign(level=3.0)
    if what == "few":
        return frame[frame["level"].notna()].head(18)
    if what == "no day":
        return frame.assign(day=frame["day"].where(frame.index != 7, "someday"))
    return frame.iloc[::-1]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("text", "column 'level' of bad.csv holds text"),
        ("infinite", "bad.csv has infinite values: 'level' 1"),
        ("constant", "column 'level' is 3 in every row"),
        ("few", "too few rows without gaps, 18; at least 20 are needed"),
        ("no day", "(asked for by --time) is 'someday' in row 8; a number or a date is needed"),
        ("backwards", "(asked for by --time) goes back in row 2; sort the file by time"),
    ],
)
def test_files_that_cannot_be_used(refused, table, what, words):
    spoilt(table, what).to_csv("bad.csv", index=False)
    assert words in refused("hmm", "bad.csv", *ASKED, "--time", "day")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--columns", "levle"), "did you mean 'level'?"),
        ((), "--columns"),
        (("--columns", "level", "--states", "many"), "--states is 'many'"),
        (("--columns", "level", "--states", "0"), "--states is '0'"),
        (("--columns", "level", "--states", "-2"), "--states is '-2'"),
        (("--columns", "level", "--states", "2.5"), "--states is '2.5'"),
        (("--columns", "level", "--states", "150"), "error: --states is 150, but observations"),
        (("--columns", "level", "--time", "level"), "--columns and to --time"),
        (("--columns", "level", "--sequence", "site"), "no column 'site'"),
        ((*ASKED, "--forecast", "-1"), "--forecast"),
        ((*ASKED, "--level", "1"), "--level"),
        ((*ASKED, "--inference", "exact"), "exact"),
        ((*ASKED, "--out", "data.csv"), "which is a file"),
    ],
)
def test_refusals(refused, table, arguments, words):
    assert words in refused("hmm", "data.csv", *arguments)


def test_numbers_may_name_the_rows(run, table):
    table.assign(day=np.arange(200) / 4).to_csv("data.csv", index=False)
    assert run("hmm", "data.csv", *ASKED, "--time", "day", "--no-refine").exit_code == 0
    states = pd.read_csv("kernelmean-hmm/states.csv")
    np.testing.assert_allclose(states["day"], np.arange(200) / 4)


class TestInputs:
    """`--inputs`: columns that drive the transitions."""

    @pytest.fixture
    def driven(self, tmp_path, monkeypatch) -> pd.DataFrame:
        monkeypatch.chdir(tmp_path)
        rng = np.random.default_rng(0)
        rate, other, state = rng.normal(size=300), rng.normal(size=300), np.zeros(300)
        for t in range(1, 300):
            leaves = rng.random() < 1 / (1 + np.exp(2 - 3 * rate[t]))
            state[t] = 1 - state[t - 1] if leaves else state[t - 1]
        level = 4 * state + rng.normal(size=300)
        frame = pd.DataFrame({"level": level, "rate": rate, "other": other})
        frame.loc[[7, 299], "level"] = np.nan
        frame.to_csv("data.csv", index=False)
        return frame

    def test_report_and_files(self, run, driven):
        result = run("hmm", "data.csv", *ASKED, "--inputs", "rate,other")
        assert result.exit_code == 0, result.output
        said = " ".join(result.stdout.split())
        assert "The same where an input is low and high" in said
        assert "rate at" in said
        assert "inputs rate, other: drive the transitions" in said
        fitted = km.load("kernelmean-hmm/model.km")
        U, X = driven[["rate", "other"]], driven[["level"]]
        states = pd.read_csv("kernelmean-hmm/states.csv")
        np.testing.assert_allclose(
            states["filtered_0"], fitted.filter(X, inputs=U)[:, 0], atol=1e-6
        )
        # the last row is missing: a forecast, which its inputs drive
        before = fitted.filter(X[:299], inputs=U[:299])[-1]
        ahead = before @ fitted.transitions(U[-1:])[0]
        np.testing.assert_allclose(states["filtered_0"].iloc[-1], ahead[0], atol=1e-6)
        page = Path("kernelmean-hmm/report.html").read_text()
        assert "model.transitions(inputs.iloc[-1:])" in page

    def test_rows_to_come(self, run, driven):
        """Their inputs stand at the end of the file, and nothing else."""
        result = run("hmm", "data.csv", *ASKED, "--inputs", "rate,other", "--forecast", "1")
        assert result.exit_code == 0, result.output
        fitted = km.load("kernelmean-hmm/model.km")
        U, X = driven[["rate", "other"]], driven[["level"]]
        ahead = fitted.forecast(X[:299], 1, inputs=U[:299], inputs_ahead=U[299:])
        table = pd.read_csv("kernelmean-hmm/forecast.csv")
        np.testing.assert_allclose(table["level_mean"], ahead.mean()[:, 0])
        assert len(pd.read_csv("kernelmean-hmm/states.csv")) == 299

    def test_of_no_use(self, run, driven):
        result = run("hmm", "data.csv", *ASKED, "--inputs", "other")
        assert result.exit_code == 0, result.output
        assert "inputs other: no use for rows held out" in " ".join(result.stdout.split())
        assert "where an input is low and high" not in result.stdout

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--inputs", "level"), "column 'level' is given to --columns and to --inputs"),
            (("--inputs", "rat"), "did you mean 'rate'?"),
            (("--inputs", "gappy"), "data.csv has missing values: 'gappy' 1"),
            (("--inputs", "rate", "--forecast", "2"), "append the rows to come to each sequence"),
            (("--inputs", "rate", "--no-refine"), "they are learned from by EM"),
            (("--inputs", "rate", "--chunksize", "50"), "--chunksize reads files block by block"),
        ],
    )
    def test_refusals(self, refused, driven, arguments, words):
        gappy = driven["rate"].where(driven.index != 5)
        driven.assign(gappy=gappy).to_csv("data.csv", index=False)
        assert words in refused("hmm", "data.csv", *ASKED, *arguments)

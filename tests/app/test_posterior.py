"""`kernelmean posterior`: results, files, refusals; and the influenza job of the demo."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kernelmean as km
from kernelmean.app.commands.posterior import (
    Posteriors,
    RuleName,
    Settings,
    answers,
    headline,
    report,
)
from kernelmean.app.words import SHOWN, numbers

OPTIONS = ("--latent", "a,b", "--observed", "c,d", "--at", "new.csv")


@pytest.fixture
def tables(tmp_path, monkeypatch) -> pd.DataFrame:
    """Gaussian latents with unit variance, each seen with noise of variance 1/4."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(11)
    latent = rng.normal(size=(400, 2))
    frame = pd.DataFrame(
        np.hstack([latent, latent + 0.5 * rng.normal(size=(400, 2))]), columns=list("abcd")
    )
    frame.to_csv("pairs.csv", index=False)
    pd.DataFrame({"c": [0.0, 1.0], "d": [0.5, -1.0]}).to_csv("new.csv", index=False)
    prior = pd.DataFrame(rng.normal(0, 0.5, size=(300, 2)), columns=["a", "b"])
    prior.to_csv("prior.csv", index=False)
    return frame


@pytest.mark.slow
@pytest.mark.thorough
def test_files_and_summary(run, tables):
    result = run("posterior", "pairs.csv", *OPTIONS, "--prior", "prior.csv", "--out", "results")
    assert result.exit_code == 0, result.output
    assert sorted(os.listdir("results")) == ["model.km", "posterior.csv", "report.html"]
    for words in ("300 samples", "95% interval", "Regulariser of the posterior", "written"):
        assert words in result.stdout
    page = Path("results/report.html").read_text(encoding="utf-8")
    assert "a and b given c and d" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.fixture
def written(once, run, tables, monkeypatch) -> pd.DataFrame:
    """What one run wrote, for the tests that read it; in its folder."""

    def make() -> Path:
        run("posterior", "pairs.csv", *OPTIONS, "--prior", "prior.csv", "--out", "results")
        return Path.cwd()

    monkeypatch.chdir(once("posterior", make))
    return pd.read_csv("results/posterior.csv", index_col="row")


@pytest.mark.slow
def test_numbers_are_those_of_the_model(written):
    table, model = written, km.load("results/model.km")
    posterior = model.posterior(pd.read_csv("new.csv"), prior=pd.read_csv("prior.csv").to_numpy())
    np.testing.assert_allclose(table[["a_mean", "b_mean"]], posterior.mean(), atol=1e-10)
    lower, upper = posterior.interval(0.95)
    np.testing.assert_allclose(table[["a_lower", "b_lower"]], lower, atol=1e-10)
    np.testing.assert_allclose(table[["a_upper", "b_upper"]], upper, atol=1e-10)


@pytest.mark.slow
def test_the_posterior_is_near_the_closed_form(written):
    table = written
    # prior and noise have variance 1/4 each: the mean is half the observation
    truth = 0.5 * pd.read_csv("new.csv").to_numpy()
    np.testing.assert_allclose(table[["a_mean", "b_mean"]], truth, atol=0.2)
    assert np.all((table[["a_sd", "b_sd"]] > 0.2) & (table[["a_sd", "b_sd"]] < 0.55))


def test_densities_on_the_page_integrate_to_one(tables):
    rows = pd.read_csv("new.csv")
    settings = Settings(["a", "b"], ["c", "d"], RuleName.squared, level=0.5)
    found = Posteriors(settings, tables, rows)
    for name in ("a", "b"):
        grid, after, before = found.marginal(1, name)
        assert after.min() >= 0
        for density in (after, before):
            assert np.trapezoid(density, grid) == pytest.approx(1, abs=1e-6)
    assert "50% interval" in answers(found).header
    assert len(report(found, "pairs.csv").figures()) == 2
    said, seen = headline(found, "b"), found.table.iloc[0]
    low, high = tables["b"].quantile([0.25, 0.75])
    for part in (
        "probability of 50%",
        *numbers([*seen[["b_mean", "b_lower", "b_upper"]], low, high]),
    ):
        assert part in said


def test_few_values_are_told(tables):
    pairs = tables.assign(a=(tables["a"] > 0).astype(float))
    found = Posteriors(Settings(["a", "b"], ["c", "d"]), pairs, pairs[["c", "d"]][:20])
    (note,) = found.few
    assert "`a` has only 2 values" in note
    lead = " ".join(block.text for block in report(found, "").lead)
    assert "No row has a below zero, yet intervals reach there" in lead


@pytest.mark.parametrize("rule", [RuleName.importance, RuleName.squared])
def test_means_stay_among_the_latents(tables, rule):
    """Those of weights of both signs may not: of an indicator they would be below 0, or above 1."""
    pairs = tables.assign(a=(tables["a"] > 0).astype(float))
    found = Posteriors(Settings(["a"], ["c", "d"], rule), pairs, pairs[["c", "d"]][:150])
    law = found.embedding.normalised()
    plain = law.apply_weights(law.points)
    assert plain.min() < 0 or plain.max() > 1
    np.testing.assert_allclose(law.mean(), plain.clip(0, 1))
    np.testing.assert_allclose(found.table[["a_mean"]], law.mean())
    np.testing.assert_allclose(found.model.predict(found.rows[["c", "d"]]), law.mean())


@pytest.mark.slow
def test_long_tables_are_cut_on_the_page_only(tables):
    rows = pd.DataFrame(np.zeros((SHOWN + 5, 2)), columns=["c", "d"])
    found = Posteriors(Settings(["a"], ["c", "d"]), tables, rows)
    assert len(answers(found).rows) == SHOWN
    assert len(found.table) == SHOWN + 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--latent", "a,x", "--observed", "c", "--at", "new.csv"), "no column 'x'"),
        (("--latent", "a", "--observed", "a", "--at", "new.csv"), "--latent and to --observed"),
        (("--latent", "a", "--observed", "c,d", "--at", "missing.csv"), "no file missing.csv"),
        (("--latent", "a", "--observed", "b,c", "--at", "new.csv"), "no column 'b'"),
        ((*OPTIONS, "--prior", "new.csv"), "no column 'a'"),
        (("--latent", "a", "--observed", "flat", "--at", "new.csv"), "column 'flat' is 2 in every"),
        ((*OPTIONS, "--rule", "cubed"), "cubed"),
        ((*OPTIONS, "--level", "2"), "--level"),
    ],
)
def test_refusals_are_one_line_and_write_nothing(run, tables, arguments, words):
    tables.assign(flat=2.0).to_csv("pairs.csv", index=False)
    pd.read_csv("new.csv").assign(flat=2.0).to_csv("new.csv", index=False)
    result = run("posterior", "pairs.csv", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not os.path.exists("kernelmean-posterior")


def test_too_few_pairs(run, tables):
    tables.head(5).to_csv("few.csv", index=False)
    result = run("posterior", "few.csv", *OPTIONS)
    assert result.exit_code == 2
    assert "too few pairs, 5" in result.stderr
    result = run("posterior", "pairs.csv", *OPTIONS, "--prior", "few.csv")
    assert "too few samples of the prior, 5" in result.stderr


@pytest.mark.slow
def test_a_prior_far_from_the_pairs_is_said(run, tables):
    far = pd.DataFrame({"a": np.linspace(50, 51, 40), "b": np.linspace(50, 51, 40)})
    far.to_csv("far.csv", index=False)
    result = run("posterior", "pairs.csv", *OPTIONS, "--prior", "far.csv")
    assert result.exit_code == 0, result.output
    assert "not to be trusted" in " ".join(result.stdout.split())

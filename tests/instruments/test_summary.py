"""The summary: a text, a table, HTML; its numbers are the estimator's."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import kernelmean as km
from kernelmean.core.summary import Block, Line, Summary

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def market():
    rng = np.random.default_rng(44)
    wave, wind, taste, season = rng.normal(size=(4, 90))
    price = wave + 0.5 * wind + taste
    quantity = season - 2 * price + 2 * taste
    return pd.DataFrame(
        {"quantity": quantity, "price": price, "wave": wave, "wind": wind, "season": season}
    )


@pytest.fixture(scope="module")
def named(market):
    parts = market[["price"]], market["quantity"], market[["wave", "wind"]], market[["season"]]
    return km.KernelIV(trend=1).fit(*parts)


def test_sections_and_names(named):
    summary = named.summary()
    assert isinstance(summary, str)
    assert [block.name for block in summary.blocks] == [
        "Data and stages",
        "Kernel on the regressors",
        "Kernel on the instruments",
        "Fit",
        "Average derivatives",
        "Instruments",
    ]
    for words in (
        "regression of quantity",
        "lengthscale of price",
        "lengthscale of wind",
        "90 / 90",
        "polynomial of degree 1",
        "(chosen)",
        "endogeneity",
    ):
        assert words in summary


def test_values_are_the_estimators(named):
    table = named.summary().table["value"]
    scales = table["Kernel on the regressors"]
    lengths = np.broadcast_to(named.kernel_x_.lengthscale, 2)
    assert [scales["lengthscale of price"], scales["lengthscale of season"]] == list(lengths)
    assert table["Fit"]["reg_stage1 (λ)"] == named.reg_stage1_
    assert table["Fit"]["specification, p-value"] == named.specification_p_
    assert table["Average derivatives"]["price"] == named.average_derivative().value
    strength = pytest.approx(named.first_stage().f[0], rel=1e-9)  # threads round
    assert table["Instruments"]["strength for price"] == strength
    assert table["Instruments"]["linear F for price"] == named.first_stage().linear[0]
    assert table["Instruments"]["endogeneity, p-value"] == named.endogeneity_test().p_value


def test_numbers_given_are_marked():
    data = km.datasets.make_iv_sigmoid(60, random_state=40)
    iv = km.KernelIV(reg_stage1=0.5, trend=0, tune_lengthscale=False).fit(data.X, data.y, data.Z)
    summary = iv.summary()
    assert "0.5 (given)" in summary
    assert summary.table.loc[("Data and stages", "instruments"), "value"] == "z0"


def test_arrays_have_numbered_names(market):
    X, y = market[["price"]].to_numpy(), market["quantity"].to_numpy()
    Z, C = market[["wave", "wind"]].to_numpy(), market[["season"]].to_numpy()
    summary = km.KernelIV(split=0.5).fit(X, y, Z, C).summary()
    for words in ("lengthscale of x0", "lengthscale of c0", "lengthscale of z1"):
        assert words in summary


def test_a_kernel_without_lengthscale_or_derivative(market):
    iv = km.KernelIV(km.Linear(), "laplace", trend=None)
    iv.fit(market[["price"]], market["quantity"], market[["wave"]])
    kernel = iv.summary().table.loc[("Kernel on the regressors", "kernel"), "value"]
    assert isinstance(kernel, km.Linear)
    iv = km.KernelIV("laplace", split=0.5)
    iv.fit(market[["price"]], market["quantity"], market[["wave"]])
    assert "Average derivatives" not in iv.summary()


def test_weak_instruments_are_named(market):
    rng = np.random.default_rng(45)
    parts = market[["price"]], market["quantity"], rng.normal(size=(90, 1))
    assert "yes: F below 10" in km.KernelIV(split=0.5).fit(*parts).summary()


def test_limits_are_of_the_level_asked_for(market):
    noise = np.random.default_rng(46).normal(size=(90, 1))
    weak = market[["wave"]] + 2 * noise
    iv = km.KernelIV(split=0.5).fit(market[["price"]], market["quantity"], weak)
    told = iv.summary(level=0.8).table["value"]["Instruments"]["slope of a line, robust"]
    assert told == iv.anderson_rubin(level=0.8).intervals != iv.anderson_rubin().intervals
    assert iv.summary(level=0.8).count("80% [") == 2  # and of the average derivative
    assert iv.summary().count("95% [") == 2
    with pytest.raises(ValueError, match="level"):
        iv.summary(level=95)


def test_two_samples_have_no_test_of_endogeneity(market):
    X, y = market[["price"]].astype(float), market["quantity"].copy()
    X.iloc[:45], y.iloc[45:] = np.nan, np.nan
    iv = km.KernelIV(split="samples", trend=0, tune_lengthscale=False)
    summary = iv.fit(X, y, market[["wave"]]).summary()
    assert "45 / 45" in summary
    assert "endogeneity" not in summary


def test_html_is_escaped():
    summary = Summary("a < b", [Block("x & y", [Line("<i>", 1, "<1>")])])
    html = summary._repr_html_()
    assert "a &lt; b" in html
    assert "x &amp; y" in html
    assert "<i>" not in html
    assert repr(summary) == str(summary) == "a < b\n=====\n\nx & y\n-----\n<i>  <1>"


@pytest.mark.slow
def test_it_says_what_a_straight_line_would_do():
    rng = np.random.default_rng(44)
    Z, V = rng.uniform(-2, 2, size=(300, 1)), rng.normal(size=(300, 1))
    X = Z + 0.3 * V
    bent = km.KernelIV().fit(X, X[:, 0] ** 2 + V[:, 0], Z)
    line = km.KernelIV().fit(X[:80], X[:80, 0] + V[:80, 0], Z[:80])
    assert "better than 2SLS by" in bent.summary()
    gain, error = bent._fit.gain
    assert gain > 5 * error > 0
    assert "2SLS" in line.summary()
    assert "better than 2SLS by" not in line.summary()
    assert "straight line" not in km.KernelIV(trend=1).fit(X, V[:, 0], Z).summary()


@pytest.mark.slow
def test_a_line_in_a_bent_first_stage_gains_nothing_and_one_that_is_refused_is_told_so():
    """What instruments tell better of x is no merit of a bend; what a test says stands beside."""
    rng = np.random.default_rng(1)
    z, v, e = rng.standard_normal((3, 300))
    x = 2 * np.tanh(2 * z) + v
    straight, bent = (
        km.KernelIV().fit(x[:, None], f + v + 0.3 * e, z[:, None])
        for f in (2 * x, np.sin(2 * x) + x)
    )
    assert straight.fit_.gain == (0.0, 0.0)  # it is a line in that stage 1
    assert "2SLS would do as well: there is no gain" in straight.summary()
    assert bent.fit_.refused < 1e-5
    assert f"refused by a test (p = {bent.fit_.refused:.1g})" in bent.summary()


def test_least_squares_are_called_so():
    rng = np.random.default_rng(44)
    z, e = rng.integers(0, 2, 4000).astype(float), rng.normal(size=4000)
    x = z + e
    iv = km.KernelIV().fit(x[:, None], 2 * x + e, z[:, None])
    assert "none: two-stage least squares" in iv.summary()
    slope = np.cov(z, 2 * x + e)[0, 1] / np.cov(z, x)[0, 1]
    assert iv.average_derivative().value == pytest.approx(slope, rel=0.02)
    assert iv.predict([[1.0]]) - iv.predict([[0.0]]) == pytest.approx(slope, rel=0.02)


def test_copies_are_summaries(named):
    summary = named.summary()
    for again in (copy.deepcopy(summary), pickle.loads(pickle.dumps(summary))):
        assert again == summary
        assert again.table.equals(summary.table)

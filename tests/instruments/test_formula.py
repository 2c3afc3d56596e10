"""Formulas: the columns are formulaic's, the model takes raw tables, files hold data only."""

from __future__ import annotations

import json
import re
import time
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.instruments.formula import Design, parse, read_formula

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

RICH = (
    "np.log(sales) ~ season + C(region) + bs(season, df=4) + center(season):C(region)"
    " + [price + np.sqrt(ads) ~ wave + poly(wind, 2) + `tax rate` + C(port, contr.sum)]"
)


@pytest.fixture(scope="module")
def market():
    rng = np.random.default_rng(40)
    n = 80
    taste, wave, wind = rng.normal(size=(3, n))
    season = rng.uniform(-1, 1, n)
    price = wave + 0.5 * wind + taste + 0.3 * rng.normal(size=n)
    return pd.DataFrame(
        {
            "sales": np.exp(3 - price + season + taste + 0.1 * rng.normal(size=n)),
            "price": price,
            "ads": rng.uniform(1, 2, n),
            "wave": wave,
            "wind": wind,
            "tax rate": rng.normal(size=n),
            "season": season,
            "region": rng.choice(["north", "south", "east"], n),
            "port": rng.choice([1, 2, 3], n),
            "one": 1.0,
        },
        index=np.arange(n)[::-1] + 7,
    )


@pytest.fixture(scope="module")
def fitted(market):
    formula = "np.log(sales) ~ season + C(region) + [price ~ wave + wind]"
    return km.KernelIV.from_formula(formula, market, split=0.5)


# ---------------------------------------------------------------- columns


def test_parts_of_a_formula(market):
    design, y, X, Z, C = read_formula("sales ~ season + [price ~ wave + wind]", market)
    assert (y.name, list(X), list(Z), list(C)) == ("sales", ["price"], ["wave", "wind"], ["season"])
    for part, columns in [(X, ["price"]), (Z, ["wave", "wind"]), (C, ["season"])]:
        assert_array_equal(part.to_numpy(), market[columns].to_numpy())
    assert design.X.names == ["price"]


def test_columns_are_those_of_linearmodels(market):
    utility = pytest.importorskip("linearmodels.iv._utility")
    formula = "sales ~ 1 + season + C(region) + [price + np.sqrt(ads) ~ wave + poly(wind, 2)]"
    theirs = utility.IVFormulaParser(formula, market, context={"np": np})
    _, y, X, Z, C = read_formula(formula, market)
    assert_array_equal(y, theirs.dependent.iloc[:, 0])
    assert_allclose(X, theirs.endog)
    assert_allclose(Z, theirs.instruments)
    assert_allclose(C, theirs.exog.iloc[:, 1:])  # less the constant


def test_fitting_by_formula_is_fitting_the_columns(market):
    by_formula = km.KernelIV.from_formula("sales ~ season + [price ~ wave]", market, split=0.5)
    by_columns = km.KernelIV(split=0.5).fit(
        market[["price"]], market["sales"], market[["wave"]], market[["season"]]
    )
    expected = by_columns.predict(market[["price"]], market[["season"]])
    assert_allclose(by_formula.predict(market), expected)
    assert by_formula.target_name_ == "sales"
    assert list(by_formula.feature_names_in_) == ["price"]


def test_the_bracket_may_stand_anywhere(market):
    _, *first = read_formula("sales ~ season + C(port) + [price ~ wave]", market)
    _, *second = read_formula("sales ~ [price ~ wave] + season + C(port)", market)
    for a, b in zip(first, second, strict=True):
        assert_array_equal(a, b)


def test_new_rows_use_what_was_learned(market):
    design, _, X, _, C = read_formula(RICH, market)
    for rows in (slice(3, 4), slice(10, 30)):  # few rows: other means, knots and categories
        few = market.iloc[rows].drop(columns=["sales", "wave"])
        got_X, got_C = design.regressors(few[few.columns[::-1]])
        assert_allclose(got_X, X.iloc[rows])
        assert_allclose(got_C, C.iloc[rows], atol=1e-12)
        assert list(got_X) == list(X)
        assert list(got_C) == list(C)
        assert_array_equal(got_X.index, few.index)


def test_constants_are_left_out(market):
    empty = market.assign(region=pd.Categorical(market["region"], ["north", "south", "east", "w"]))
    _, _, X, Z, C = read_formula("sales ~ 1 + one + C(region) + [1 + price ~ 1 + wave]", empty)
    assert (list(X), list(Z)) == (["price"], ["wave"])
    assert list(C) == ["C(region)[T.south]", "C(region)[T.east]"]
    assert read_formula("sales ~ one + [price ~ wave]", market)[-1] is None


def test_columns_called_categorical_need_no_c(market):
    kind = market.assign(region=market["region"].astype("category"))
    _, *_, with_type = read_formula("sales ~ region + [price ~ wave]", kind)
    _, *_, with_c = read_formula("sales ~ C(region) + [price ~ wave]", market)
    assert_array_equal(with_type, with_c)


def test_categories_that_no_row_has_are_not_known(market):
    """Not even where the type of the column lists them, first or last."""
    kind = pd.Categorical(market["region"], ["a", *market["region"].unique(), "z"])
    iv = km.KernelIV.from_formula(
        "sales ~ region + [price ~ wave]", market.assign(region=kind), trend=1, split=0.5
    )
    assert len(iv.roles_.c) == market["region"].nunique() - 1
    for name in ("a", "z"):
        new = market.assign(region=pd.Categorical([name] * len(market), kind.categories))
        with pytest.raises(ValueError, match=f"not fitted on: .*{name}"):
            iv.predict(new)


# ---------------------------------------------------------------- the fitted model


def test_tables_with_other_columns_in_any_order(fitted, market):
    few = market[["region", "one", "price", "season"]].head(5)
    assert_allclose(fitted.predict(few), fitted.predict(market)[:5])
    y = fitted.design_.outcome(market)
    assert_array_equal(y, np.log(market["sales"]))
    assert fitted.score(market, y) == pytest.approx(
        1 - ((y - fitted.predict(market)) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    )


def test_arrays_hold_the_columns_of_the_design(fitted, market):
    X, C = fitted.design_.regressors(market)
    with pytest.warns(UserWarning, match="feature names"):  # as for any model of named columns
        got = fitted.predict(X.to_numpy(), C.to_numpy())
    assert_allclose(got, fitted.predict(market))
    assert_allclose(fitted.predict(np.hstack([X, C])), fitted.predict(market))


def test_fitting_again_forgets_the_formula(market):
    iv = km.KernelIV.from_formula("sales ~ [price ~ wave]", market, split=0.5)
    iv.fit(market[["ads"]], market["sales"], market[["wave"]])
    assert iv.design_ is None
    assert iv.predict(market[["ads"]]).shape == (80,)


def test_an_instance_is_no_place_to_ask(market, fitted):
    asked = "sales ~ [price ~ wave]", market
    for model in (km.KernelIV(trend=1), fitted):
        with pytest.raises(ValueError, match=r"of KernelIV\(.*KernelIV\.from_formula\("):
            model.from_formula(*asked)
    assert km.KernelIV.from_formula(*asked, trend=1).trend == 1


def test_parameters_are_the_estimators(market):
    iv = km.KernelIV.from_formula("sales ~ [price ~ wave]", market, kernel_x="matern", trend=0)
    assert (iv.kernel_x, iv.trend_) == ("matern", 0)
    with pytest.raises(TypeError, match="kernel"):
        km.KernelIV.from_formula("sales ~ [price ~ wave]", market, kernel="matern")


def test_two_samples_in_one_table(market):
    first, second = market.assign(sales=np.nan).head(40), market.assign(price=np.nan).tail(40)
    table = pd.concat([first, second])
    iv = km.KernelIV.from_formula("sales ~ season + [price ~ wave]", table, split="samples")
    assert (iv.n_stage1_, iv.n_stage2_) == (40, 40)
    with pytest.warns(km.NumericalWarning, match="1 row.* outside"):  # of those with prices
        assert np.isfinite(iv.predict(market)).all()
    gap = table.assign(season=table["season"].where(table.index != 8))
    with pytest.raises(ValueError, match=r"missing values, by column: \{'season': 1\}"):
        km.KernelIV.from_formula("sales ~ season + [price ~ wave]", gap, split="samples")


def test_missing_categories_are_missing_rows(market):
    gap = market.assign(port=market["port"].where(market["wind"] > 0))
    with pytest.raises(ValueError, match="'port'"):
        read_formula("sales ~ [C(port) ~ wave]", gap)
    _, _, X, _, _ = read_formula("sales ~ [C(port) ~ wave]", gap, gaps=True)
    assert_array_equal(X.isna().all(axis=1), market["wind"] <= 0)


# ---------------------------------------------------------------- files


def test_saved_and_loaded(market, tmp_path):
    iv = km.KernelIV.from_formula(RICH, market, split=0.5)
    iv.save(tmp_path / "model.km")
    again = km.load(tmp_path / "model.km")
    few = market.drop(columns=["sales", "wave", "wind"]).iloc[5:9]
    assert_array_equal(again.predict(few), iv.predict(few))
    assert again.summary() == iv.summary()
    assert isinstance(again.design_, Design)


def test_a_file_cannot_bring_code(market, tmp_path, monkeypatch):
    iv = km.KernelIV.from_formula("sales ~ np.exp(season) + [price ~ wave]", market, split=0.5)
    evil = Design(
        iv.design_.formula.replace("np.exp(season)", "I(open('stolen', 'w'))"),
        iv.design_.y,
        iv.design_.X,
        iv.design_.C,
    )
    iv.design_ = evil
    iv.save(tmp_path / "model.km")
    with zipfile.ZipFile(tmp_path / "model.km") as archive:
        assert "stolen" in json.dumps(json.loads(archive.read("header.json")))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="functions that may stand in it"):
        km.load(tmp_path / "model.km").predict(market)
    assert not (tmp_path / "stolen").exists()


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        (3, "formula is 3; a string"),
        ("sales ~ price", "without an outcome or a bracket"),
        ("~ [price ~ wave]", "without an outcome or a bracket"),
        ("sales ~ season + [price ~ wave", "cannot be read"),
        ("sales ~ season + price ~ wave]", "cannot be read"),
        ("sales ~ season + [price ~ wave] + (]", "cannot be read"),
        ("sales ~ [price ~ wave] + [ads ~ wind]", "2 brackets"),
        ("sales + ads ~ [price ~ wave]", "2 outcomes"),
        ("sales ~ season * [price ~ wave]", "bracket can only be added"),
        ("sales ~ 0 + season + [price ~ wave]", "intercept is the model's own"),
        ("sales ~ season - 1 + [price ~ wave]", "intercept is the model's own"),
        ("sales ~ [price ~ wave - 1]", "intercept is the model's own"),
        ("sales ~ season + [price ~ season]", r"\['season'\] stands in it more than once"),
        ("sales ~ [price ~ price]", "more than once"),
        ("sales ~ price_hat + [price ~ wave]", "bracket can only be added"),
        ("sales ~ lag(season) + [price ~ wave]", r"'lag\(season\)' in the formula"),
        ("sales ~ season.shift(1) + [price ~ wave]", "functions that may stand"),
        ("sales ~ [np.mean(price) ~ wave]", "functions that may stand"),
        ("sales ~ [np.load('x') ~ wave]", "functions that may stand"),
        ("sales ~ [I([p for p in price]) ~ wave]", "functions that may stand"),
        ("sales ~ [cost ~ wave + swell]", r"lacks the columns \['cost', 'swell'\]"),
        ("sales ~ region + [price ~ wave]", r"'region' has dtype .*write C\(region\)"),
        ("sales ~ np.log(season) + [price ~ wave]", r"NaN or inf, by column: \{'np.log\(season\)'"),
        ("sales ~ [one ~ wave]", "every column of the regressors is constant"),
        ("one ~ [price ~ wave]", "every column of the outcome is constant"),
        ("sales ~ [price ~ one]", "every column of the instruments is constant"),
        ("C(region) ~ [price ~ wave]", "one is needed"),
        ("sales ~ bs(season, df=1) + [price ~ wave]", "cannot be evaluated"),
    ],
)
def test_bad_formulas(market, formula, message):
    with pytest.raises(ValueError, match=message):
        km.KernelIV.from_formula(formula, market)


def test_missing_values_are_named(market):
    gaps = market.assign(wave=market["wave"].where(market["wave"] < 1), wind=np.nan)
    count = int((market["wave"] >= 1).sum())
    with pytest.raises(ValueError, match=rf"by column: \{{'wave': {count}\}}; remove those rows"):
        km.KernelIV.from_formula("sales ~ [price ~ wave]", gaps)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="season"), r"lacks the columns \['season'\]"),
        (lambda t: t.assign(region="west"), r"not fitted on: \{'west'\}"),
        (lambda t: t.assign(season=np.nan), "missing values"),
        (lambda t: t.assign(season="late"), "'season' has dtype"),
        (lambda t: pd.concat([t, t["price"]], axis=1), "several columns of the same name"),
    ],
)
def test_bad_new_tables(fitted, market, change, message):
    with pytest.raises(ValueError, match=message):
        fitted.predict(change(market))


def test_controls_come_with_the_table(fitted, market):
    with pytest.raises(ValueError, match="one table with all of its columns"):
        fitted.predict(market, market[["season"]])
    with pytest.raises(ValueError, match="data is a dict; a DataFrame"):
        read_formula("sales ~ [price ~ wave]", {"sales": [1.0]})


def test_outside_the_knots_of_a_spline(market):
    design, *_ = read_formula("sales ~ bs(season, df=4) + [price ~ wave]", market)
    with pytest.raises(ValueError, match="extrapolation"):
        design.regressors(market.assign(season=5.0))


def test_without_formulaic(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "formulaic", None)
    with pytest.raises(ImportError, match=r'pip install "kernelmean\[iv\]"'):
        parse("y ~ [x ~ z]")


# ------------------------------------------------------------------------------ what does not end


@pytest.mark.parametrize(
    "part",
    [
        "(a + b + c)**200",
        "(a + b + c)**99**1",
        "*".join("abcdefghijkl"),
        "(" + " + ".join(f"v{i}" for i in range(60)) + ")**9",
        " + ".join(f"v{i}" for i in range(5_000)),
    ],
    ids=["power", "power of a power", "product", "wide", "long"],
)
def test_formulas_that_would_be_multiplied_out_forever_are_refused(part):
    with pytest.raises(ValueError, match=r"cannot be read \((more than|maximum recursion)"):
        parse(f"y ~ {part} + [x ~ z]")


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [
        "I(9**9**9)",
        "I(a + 2**10**9)",
        "I(1 << 99)",
        "I('a' * 1000000000)",
        "I([0] * 1000000000)",
        "np.power(9, 99999999999999999999)",
        "poly(a, 10**6)",
        "poly(a, 1000000)",
        "poly(a, degree=1000 * 1000)",
        "bs(a, df=1000000)",
        "cr(a, df=101)",
        "I(" + "a + " * 2_000 + "a)",
    ],
)
def test_expressions_that_would_be_computed_forever_are_refused(part):
    with pytest.raises(ValueError, match="may take forever|cannot be read"):
        parse(f"y ~ {part} + [x ~ z]")


@pytest.mark.parametrize(
    "part",
    [
        "(a + b + c)**3",
        "a*b*c",
        "poly(a, 3)",
        "bs(a, df=6, lower_bound=-1000000)",
        "bs(a, knots=[0.0, 1.0], degree=2)",
        "I(a**2)",
        "I(a**2 * 10000)",
        "np.clip(a, 0, 1)",
        "C(a, contr.sum)",
    ],
)
def test_formulas_as_people_write_them_are_read(part):
    assert parse(f"y ~ {part} + [x ~ z]")["C"]


@pytest.mark.parametrize(
    "part",
    [
        "C(ads):C(season):C(wind)",
        "C(ads * season):C(wind)",
        "C(region):C(ads):C(wind)",
        "poly(season, 99):bs(wind, df=99)",
        f"bs(season, knots={list(range(60))}):bs(wind, df=99)",
    ],
)
def test_more_columns_than_fit_are_refused_before_they_are_made(market, part):
    begun = time.process_time()
    with pytest.raises(ValueError, match=r"columns of these 80 rows; at most 5,000"):
        read_formula(f"sales ~ {part} + [price ~ wave]", market)
    assert time.process_time() - begun < 5


def test_columns_of_categories_are_counted_as_they_are_made(market):
    """3 ports × 3 columns of a spline, and 2 of the 3 regions."""
    part = "C(port):bs(season, knots=[0.0], degree=2) + region"
    table = market.assign(region=market["region"].astype("category"))
    *_, C = read_formula(f"sales ~ {part} + [price ~ wave]", table)
    assert C.shape[1] == 3 * 3 + 2


def test_a_category_of_many_values_is_told_in_short(market):
    table = market.assign(shop=[f"shop {i % 9}" for i in range(len(market))])
    formula = "sales ~ C(shop) + [price ~ wave]"
    iv = km.KernelIV.from_formula(formula, table, kernel_x="linear", kernel_z="linear")
    told = iv.summary().table["value"]
    assert len(told["Data and stages"]["exogenous regressors"].split(", ")) == 8
    lines = [re.split("  +", line) for line in iv.summary().splitlines() if "shop" in line]
    assert lines[:2] == [
        ["formula", "sales ~ C(shop) + [price ~ wave]"],
        ["exogenous regressors", "C(shop) (9 values)"],
    ]
    assert lines[2:] == [["C(shop) (9 values)", "columns of 0 and 1"]] * 2

"""Experiments of Spiteri 2023, chapter 2: each in small, and what cannot fail by luck."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from scipy import stats

import kernelmean as km
from papers import reproduce

PAPERS = Path(__file__).parents[2] / "papers"
methods, errors, trials, curves, triangle, table21, figure23, figure28, figure29 = (
    reproduce.import_from(PAPERS, f"spiteri2023.{script}")
    for script in (
        "methods",
        "errors",
        "trials",
        "curves",
        "triangle",
        "table21",
        "figure23",
        "figure28",
        "figure29",
    )
)
SMALL = {
    "spiteri2023-figure22": [{"n": 60, "side": 12}],
    "spiteri2023-figure23": [{"n": 60}],
    "spiteri2023-figure24": [{"n": 60}],
    "spiteri2023-figure25": [{"model": "bimodal", "n": 60}],
    "spiteri2023-figure26": [{"model": "dirichlet", "d": 4, "n": 60}],
    "spiteri2023-figure27": [{"model": "dirichlet", "d": 10, "n": 60}],
    "spiteri2023-figure28": [{"model": "beta", "n": 60, "rows": 4}],
    "spiteri2023-figure29": [{"model": "linear", "d": 2, "sigma": 0.3, "n": 60, "rows": 4}],
    "spiteri2023-table21": [
        {"model": "bimodal", "n": 60, "rows": 4},
        {"model": "cauchy", "gamma": 0.5, "n": 60, "rows": 4},
    ],
    "spiteri2023-table22": [{"model": "linear", "d": 2, "sigma": 0.3, "n": 60, "rows": 4}],
}
SEEDS = (40, 41)


def registry() -> dict:
    every = reproduce.load_registry(PAPERS)
    chapter = ("spiteri2023-figure2", "spiteri2023-table2")
    return {name: every[name] for name in every if name.startswith(chapter)}


@cache
def rows_of(name: str) -> pd.DataFrame:
    return pd.concat([run_small(name, seed) for seed in SEEDS], ignore_index=True)


def run_small(name: str, seed: int) -> pd.DataFrame:
    run = registry()[name].run
    return pd.DataFrame(
        {"seed": seed, **setting, **row}
        for setting in SMALL[name]
        for row in reproduce.plain(run(seed, **setting))
    )


# ---------------------------------------------------------------- every experiment in small
def test_every_experiment_is_tested():
    assert set(registry()) == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("seeds", [SEEDS[:1], SEEDS])
def test_every_experiment_gives_a_table_and_a_picture(name, seeds):
    experiment, rows = registry()[name], rows_of(name)
    rows = rows[rows.seed.isin(seeds)]
    table = experiment.summary(rows)
    assert any("published" in column for column in table)
    measured = table[[c for c in table if c in {"MAD", "MSE", "mean", "default", "KCDE", "CDO"}]]
    assert measured.size
    assert np.isfinite(measured.to_numpy()).all()
    assert (measured >= 0).all(axis=None)
    assert len(reproduce.png(experiment.figure(rows))) > 5000


@pytest.mark.parametrize("name", ["spiteri2023-figure23", "spiteri2023-table21"])
def test_a_seed_gives_the_same_numbers_again(name):
    kept = rows_of(name)
    assert_frame_equal(kept[kept.seed == SEEDS[0]].reset_index(drop=True), run_small(name, 40))


@pytest.mark.parametrize("name", SMALL)
def test_seeds_are_held_out(name):
    assert registry()[name].first_seed == 31000
    assert not {*range(2000)} & set(registry()[name].seeds(False, 300))


def test_the_table_and_the_figure_of_dimensions_share_their_runs():
    figure, table = (registry()[f"spiteri2023-{name}"] for name in ("figure29", "table22"))
    assert figure.grid == table.grid
    assert (figure.run, figure.version) == (table.run, table.version)
    dimensions = [setting["d"] for setting in figure.grid if setting["sigma"] == figure29.SIGMA]
    assert tuple(dimensions) == figure29.DIMENSIONS
    assert {setting["sigma"] for setting in figure.grid} == {0.3, 1.0}


def test_a_panel_for_each_spread_of_x():
    rows = pd.concat([rows_of("spiteri2023-figure29").assign(sigma=s) for s in (0.3, 1.0)])
    assert [ax.get_title() for ax in figure29.figure(rows).axes] == [
        "linear, σ = 0.3",
        "linear, σ = 1",
    ]
    assert trials.summary(rows)["design"].unique().tolist() == ["Linear, σ = 0.3", "Linear, σ = 1"]


# ---------------------------------------------------------------- the thesis's estimator
def refitted_score(X, Y, lengthscale: float, bandwidth: float, reg: float) -> float:
    """Eq. (2.11), refitting without every row; nλ stays that of all rows."""
    n, total = len(X), 0.0
    for i in range(n):
        rest = np.delete(np.arange(n), i)
        K = stats.norm.pdf((X[rest, None, 0] - X[rest, 0]) / lengthscale) * np.sqrt(2 * np.pi)
        k = stats.norm.pdf((X[rest, 0] - X[i, 0]) / lengthscale) * np.sqrt(2 * np.pi)
        w = np.linalg.solve(K + n * reg * np.eye(n - 1), k)
        wide = stats.norm.pdf(Y[rest, None, 0], Y[rest, 0], np.sqrt(2) * bandwidth)
        narrow = stats.norm.pdf(Y[rest, 0], Y[i, 0], bandwidth)
        total += w @ wide @ w - 2 * w @ narrow
    return total / n


def sample(n: int = 40, seed: int = 43) -> tuple:
    data = errors.draw(seed, "bimodal", n)
    return data.X, data.Y


def test_the_thesis_estimator_minimises_the_score_of_refits():
    X, Y = sample()
    model = methods.kmde(X, Y)
    lengthscale, bandwidth = float(model.kernel_x_.lengthscale), float(model.bandwidth_[0])
    found = refitted_score(X, Y, lengthscale, bandwidth, 0.001)
    assert model.loo_score_ == pytest.approx(found, abs=1e-5)
    for factor in (0.1, 0.4, 0.8, 1.25, 2.5, 10.0):
        assert found <= refitted_score(X, Y, lengthscale * factor, bandwidth, 0.001) + 1e-4
        assert found <= refitted_score(X, Y, lengthscale, bandwidth * factor, 0.001) + 1e-4


def test_the_illustration_minimises_over_the_bandwidth_alone():
    X, Y = sample()
    model = methods.kmde_median(X, Y, 0.1)
    distances = np.abs(X - X.T)[np.triu_indices(len(X), 1)]
    assert float(model.kernel_x_.lengthscale) == pytest.approx(np.median(distances))
    assert model.reg_ == 0.1
    lengthscale, bandwidth = float(model.kernel_x_.lengthscale), float(model.bandwidth_[0])
    scores = [
        refitted_score(X, Y, lengthscale, bandwidth * f, 0.1) for f in (0.2, 0.8, 1.0, 1.25, 5)
    ]
    assert np.argmin(scores) == 2


@pytest.mark.parametrize("fit", [methods.kmde, methods.kmde_median, methods.kmde_medians])
def test_the_thesis_estimator_is_the_plain_embedding(fit):
    """q(y|x) = Σ w_i(x) N(y; y_i, γ²) with w(x) = (K + nλI)⁻¹l(x), its positive part normalised."""
    X, Y = sample()
    model, at = fit(X, Y), np.array([[0.2], [0.9]])
    assert not model.intercept_
    assert model.location_ is None
    ell, gamma = float(model.kernel_x_.lengthscale), float(model.bandwidth_[0])
    W = np.linalg.solve(
        np.exp(-((X - X.T) ** 2) / (2 * ell**2)) + len(X) * model.reg_ * np.eye(len(X)),
        np.exp(-((X - at.T) ** 2) / (2 * ell**2)),
    ).T
    y = np.linspace(-30, 30, 8001)
    q = np.maximum(W @ stats.norm.pdf(y, Y, gamma), 0)
    expected = q / np.trapezoid(q, y, axis=1)[:, None]
    np.testing.assert_allclose(model.pdf(y, at, paired=False), expected, atol=2e-4)


# ---------------------------------------------------------------- errors
def test_errors_are_the_largest_and_the_mean_squared_difference():
    both = errors.errors(np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([[1.0, 5.0], [1.0, -2.0]]))
    assert both["mad"].tolist() == [3, 2]
    assert both["mse"].tolist() == [4.5, 2.5]


def test_points_cover_the_range_of_the_observed_y():
    Y = np.array([[1.0, -1.0], [3.0, 0.0], [2.0, 5.0]])
    points = errors.grid(Y, side=5)
    assert points.shape == (25, 2)
    np.testing.assert_allclose(points.min(0), [1, -1])
    np.testing.assert_allclose(points.max(0), [3, 5])
    assert len(np.unique(points, axis=0)) == 25
    line = errors.grid(Y[:, :1])
    assert line.shape == (1000, 1)
    assert np.ptp(np.diff(line[:, 0])) < 1e-12


def test_x_are_observed_ones_without_repetition():
    X = np.arange(100.0)[:, None]
    at = errors.observed(X, 50, 7)
    assert len(np.unique(at)) == 50
    assert set(at.ravel()) <= set(X.ravel())


class Truth:
    """Knows the density; its values are raised by a half."""

    def __init__(self, data, excess: float = 0.5):
        self.pdf = lambda Y, X, paired: data.density(Y, X, paired) + excess


@pytest.mark.parametrize("measure", [errors.on_range, errors.near_x])
def test_both_measures_find_the_error_that_was_put_in(measure):
    data = errors.draw(44, "cauchy", 30, gamma=0.5)
    both = measure(Truth(data), data, data.X[:3])
    np.testing.assert_allclose(both["mad"], 0.5)
    np.testing.assert_allclose(both["mse"], 0.25)
    assert len(both["mad"]) == 3


def test_near_x_sees_a_peak_that_the_range_steps_over():
    data = errors.draw(44, "cauchy", 1000, gamma=2.5)
    at = np.array([[0.0]])
    nothing = type("Nothing", (), {"pdf": lambda self, Y, X, paired: np.zeros((len(X), len(Y)))})()
    assert errors.near_x(nothing, data, at)["mad"][0] == pytest.approx(stats.norm.pdf(0), abs=1e-4)
    step = np.diff(errors.grid(data.Y)[:2, 0])[0]
    assert step > 1


def test_within_a_draw_the_test_is_the_two_sample_test_over_x(monkeypatch):
    points = pd.DataFrame(trials.of_points(40, "bimodal", 60, rows=6))
    rows = pd.DataFrame(trials.run(40, "bimodal", 60, rows=6)).set_index("method")
    ours, theirs = (points[points.method == m].mad.to_numpy() for m in ("default", "KCDE"))
    pooled = (ours.var(ddof=1) + theirs.var(ddof=1)) / 2
    t = (ours.mean() - theirs.mean()) / np.sqrt(pooled * 2 / 6)
    assert rows.loc["default", "draw t"] == pytest.approx(t)
    assert rows.loc["default", "draw p"] == pytest.approx(2 * stats.t.sf(abs(t), 10))
    assert rows.loc["default", "mad"] == pytest.approx(ours.mean())
    assert rows.loc["KCDE", "draw p"] == pytest.approx(1)


# ---------------------------------------------------------------- tables
def drawn(model: str, **setting) -> pd.DataFrame:
    """Ten draws in which the default is lower by 0.1 ± 0.01, and the thesis's higher."""
    rng = np.random.default_rng(0)
    theirs = rng.uniform(0.5, 0.8, 10)
    shifts = {"default": -0.1, "thesis": 0.1, "KCDE": 0.0}
    return pd.DataFrame(
        {
            "seed": seed, "model": model, "d_x": 1, "d_y": 1, "grid": "range", **setting,
            "method": method, "mad": mad + shift + 0.01 * rng.standard_normal() * (shift != 0),
            "mse": mad**2, "draw t": np.sign(shift), "draw p": 0.01 if seed < 4 else 0.9,
        }
        for seed, mad in enumerate(theirs)
        for method, shift in shifts.items()
    )  # fmt: skip


def test_the_table_says_who_is_lower_and_how_surely():
    rows = drawn("beta")
    table = trials.summary(rows).set_index("method")
    mad = rows.pivot_table(index="seed", columns="method", values="mad")
    off = mad["default"] - mad["KCDE"]
    assert table.loc["default", "paired t"] == pytest.approx(
        off.mean() / off.std() * np.sqrt(10), rel=1e-9
    )
    assert table["lower"].to_dict() == {"default": "default", "thesis": "KCDE"}
    assert table["draws for ours"].to_dict() == {"default": 0.4, "thesis": 0}
    assert table["draws for KCDE"].to_dict() == {"default": 0, "thesis": 0.4}
    assert table["published preferred"].tolist() == ["KMDE", "KMDE"]
    assert table["published p"].tolist() == ["< 0.001"] * 2


def test_draws_that_are_not_significant_stay_in_the_table():
    rows = drawn("linear", d_x=3).assign(**{"draw p": 0.5})
    table = trials.summary(rows)
    assert len(table) == 2
    assert (table["draws for ours"] == 0).all()
    assert set(table["published p"]) == {"not significant"}


def test_designs_of_different_scale_are_kept_apart():
    rows = pd.concat([drawn("cauchy", gamma=g) for g in (0.5, 2.5)] + [drawn("beta")])
    table = trials.summary(rows)
    assert table["design"].tolist() == [
        name for name in ("Cauchy, γ = 0.5", "Cauchy, γ = 2.5", "Beta") for _ in range(2)
    ]
    assert table["published p"].tolist() == ["0.017", "0.017", "0.007", "0.007"] + ["< 0.001"] * 2


def test_the_designs_are_the_nineteen_of_the_thesis():
    keys = ["model", "d", "gamma"]
    printed = trials.PUBLISHED[trials.PUBLISHED.model != "linear"]
    ours = [
        (s["model"], errors.draw(40, n=5, **s).X.shape[1], f"{s['gamma']}" if "gamma" in s else "")
        for s in table21.DESIGNS
    ]
    assert ours == [tuple(row) for row in printed[keys].to_numpy().tolist()]
    assert len(ours) == 19
    assert (printed.preferred == "KMDE").sum() == 17


def test_every_dimension_has_what_the_thesis_says_of_it():
    printed = trials.PUBLISHED[trials.PUBLISHED.model == "linear"]
    assert tuple(printed.d) == figure29.DIMENSIONS


def test_cauchy_is_measured_twice():
    table = trials.summary(rows_of("spiteri2023-table21"))
    assert table["design"].unique().tolist() == [
        "Bimodal",
        "Cauchy, γ = 0.5",
        "Cauchy, γ = 0.5, near x",
    ]


def test_cdo_is_what_the_triangle_is_compared_with():
    table = figure23.summary(rows_of("spiteri2023-figure23"))
    assert set(table.x) == {-1, -0.3, 0.3, 1}
    assert set(table.method) == set(methods.TRIANGLE_METHODS)
    assert table[table.method == "CDO"]["paired t"].isna().all()
    assert (table[table.method == "CDO"]["draws below CDO"] == 0).all()


def test_shares_count_the_draws_that_the_test_finds_lower():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "seed": seed,
            "method": method,
            "mad": level + 0.01 * rng.standard_normal(),
            "mse": 1.0,
        }
        for seed, levels in enumerate([(1, 1, 2), (3, 1, 2), (1, 3, 2)])
        for method, level in zip(methods.METHODS, levels, strict=True)
        for _ in range(20)
    )
    shares = [figure28.share_below(rows, m, "mad") for m in methods.METHODS]
    assert shares == pytest.approx([2 / 3, 2 / 3, 0])


def test_curves_are_densities_of_the_design():
    rows = rows_of("spiteri2023-figure25")
    one = rows[(rows.seed == 40) & (rows.panel == 3)]
    data = errors.draw(40, "bimodal", 60)
    x = curves.chosen(data.X, 40)[3]
    np.testing.assert_allclose(one.truth, data.density(one.y.to_numpy(), [x], False)[0], atol=1e-5)
    areas = np.trapezoid(one[list(methods.METHODS)], one.y, axis=0)
    assert (areas < 1.001).all()
    assert (areas > 0.8).all()  # the range of y cuts tails off


def test_the_triangle_is_shown_at_the_x_of_the_thesis():
    rows = rows_of("spiteri2023-figure22")
    assert rows.x.unique().tolist() == [-1, -0.3, 0.3, 1]
    some = rows[(rows.seed == 40) & (rows.x == 0.3)].iloc[[20, 70]]
    truth = km.datasets.make_triangle(5).density(some[["y", "z"]].to_numpy(), [[0.3]], False)[0]
    np.testing.assert_allclose(some.truth, truth, atol=1e-5)

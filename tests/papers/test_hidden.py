"""Experiments of Spiteri 2023, chapter 3: each in small, and what cannot fail by luck."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import confusion_matrix

import kernelmean as km
from kernelmean.kernels import median_lengthscale
from papers import reproduce

pytest.importorskip("hmmlearn")

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "papers"
hidden, weights, figure31, figure32, figure34, figure38, figure39, table31 = (
    reproduce.import_from(PAPERS, f"spiteri2023.{script}")
    for script in (
        "hidden",
        "weights",
        "figure31",
        "figure32",
        "figure34",
        "figure38",
        "figure39",
        "table31",
    )
)
MODELS = [{"design": "separated", "n": 120}]
DIGITS = [{"K": 2, "n": 60}]
SMALL = {
    "spiteri2023-figure31": [{"n": 120}],
    "spiteri2023-filtering": MODELS,
    "spiteri2023-figure32": MODELS,
    "spiteri2023-figure33": MODELS,
    "spiteri2023-large": MODELS,
    "spiteri2023-figure34": MODELS,
    "spiteri2023-figure35": MODELS,
    "spiteri2023-figure36": DIGITS,
    "spiteri2023-figure38": DIGITS,
    "spiteri2023-figure39": DIGITS,
    "spiteri2023-digits": [{"K": 2, "n": 60, "images": "shared"}],
    "spiteri2023-table31": [{"K": 2, "n": 60, "images": "shared"}],
}
SEEDS = (40, 41)
MEASURED = {
    *("TMSE", "accuracy", "MAD", "correlations", "C = 0.3", "neighbours", "images"),
    "root mean squared difference",
}


def registry() -> dict:
    every = reproduce.load_registry(PAPERS)
    return {
        name: e
        for name, e in every.items()
        if e.item.split()[1].startswith("3.") and "Spiteri" in e.paper
    }


@cache
def rows_of_run(run, settings: tuple, seed: int) -> list[dict]:
    return reproduce.plain(run(seed, **dict(settings)))


def run_small(name: str, seed: int) -> pd.DataFrame:
    run = registry()[name].run
    return pd.DataFrame(
        {"seed": seed, **setting, **row}
        for setting in SMALL[name]
        for row in rows_of_run(run, tuple(setting.items()), seed)
    )


def rows_of(name: str, seeds=SEEDS) -> pd.DataFrame:
    return pd.concat([run_small(name, seed) for seed in seeds], ignore_index=True)


# ---------------------------------------------------------------- every experiment in small
def test_every_experiment_is_tested():
    assert set(registry()) == set(SMALL)


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        *((name, SEEDS[:1]) for name in SMALL),
        *((f"spiteri2023-{name}", SEEDS) for name in ("filtering", "figure35")),
    ],
)
def test_every_experiment_gives_a_table_and_a_picture(name, seeds):
    experiment, rows = registry()[name], rows_of(name, seeds)
    table = experiment.summary(rows)
    assert any("published" in column for column in table)
    measured = table[[column for column in table.select_dtypes("number") if column in MEASURED]]
    assert measured.size
    assert np.isfinite(measured.to_numpy()).all()
    assert (measured >= 0).all(axis=None)
    assert len(reproduce.png(experiment.figure(rows))) > 5000


def test_a_seed_gives_the_same_numbers_again():
    experiment, setting = registry()["spiteri2023-figure31"], {"n": 120}
    again = pd.DataFrame(reproduce.plain(experiment.run(40, **setting)))
    first = pd.DataFrame(rows_of_run(experiment.run, tuple(setting.items()), 40))
    assert_frame_equal(first, again)


@pytest.mark.parametrize("name", SMALL)
def test_seeds_are_held_out(name):
    assert registry()[name].first_seed == 33000
    assert not {*range(2000)} & set(registry()[name].seeds(False, 300))


@pytest.mark.parametrize(
    "names",
    [
        ("filtering", "figure32", "figure33", "large"),
        ("figure34", "figure35"),
        ("digits", "table31"),
        ("figure36", "figure38", "figure39"),
    ],
)
def test_figures_of_the_same_models_share_their_runs(names):
    experiments = [registry()[f"spiteri2023-{name}"] for name in names]
    assert len({(e.run, e.version) for e in experiments}) == 1
    assert all(setting in experiments[1].grid for setting in experiments[0].grid)


def test_grids_are_those_of_the_thesis_and_begin_with_the_goals():
    grid = registry()["spiteri2023-figure33"].grid
    assert {s["n"] for s in grid} == {500, 1000, 2000, 5000, 10_000, 20_000}
    assert [s["n"] for s in grid[:6]] == [5000] * 3 + [20_000] * 3
    assert [s["n"] for s in table31.GRID if s["images"] == "shared" and s["K"] == 4] == [
        5000,
        10_000,
        20_000,
    ]


# ---------------------------------------------------------------- models 12 to 14
def test_all_methods_are_measured_by_the_same_rows():
    rows = run_small("spiteri2023-figure33", 40)
    assert set(rows.method) == set(hidden.METHODS)
    assert rows[rows.method == hidden.PROJECTION].basis.tolist() == list(range(5, 21))
    chains = rows.set_index("method").tmse
    assert chains["default"] == chains["default, forward"]
    assert chains["spectral"] == chains["spectral, forward"]
    assert chains[hidden.TRUE] == 0


def test_large_samples_go_without_hmmlearn(monkeypatch):
    monkeypatch.setattr(hidden, "HMMLEARN", 50)
    data, _ = hidden.draw(40, "separated", 60)
    assert "GaussianHMM" not in {method for method, *_ in hidden.fitted(data, 40)}


def test_test_rows_are_the_same_for_every_n():
    one, two = (hidden.draw(40, "unbounded", n)[1] for n in (100, 200))
    np.testing.assert_array_equal(one.X, two.X)
    assert len(one.X) == 1000


def test_accuracy_is_the_best_over_permutations():
    rng = np.random.default_rng(40)
    states, named = rng.integers(3, size=(2, 500))
    table = confusion_matrix(states, named)
    best = table[linear_sum_assignment(-table)].sum() / 500
    assert hidden.accuracy(np.eye(3)[named], states) == pytest.approx(best, abs=1e-12)


def made_up(**values) -> pd.DataFrame:
    """Two runs of a model, two numbers of cosines; `values` by method."""
    return pd.DataFrame(
        {
            "seed": seed,
            "design": "separated",
            "n": 100,
            "method": m,
            "basis": b,
            "accuracy": a[seed],
            "tmse": 1 - a[seed],
        }
        for (m, b), a in values["rows"].items()
        for seed in (0, 1)
    )


def test_of_the_projection_the_number_of_cosines_with_the_best_mean_is_kept():
    rows = made_up(
        rows={
            ("true filter", 0): (0.9, 0.9),
            ("default", 0): (0.8, 0.86),
            ("GaussianHMM", 0): (0.7, 0.8),
            ("ProjHMM", 5): (0.9, 0.1),
            ("ProjHMM", 6): (0.6, 0.5),
        }
    )
    table = figure32.summary33(rows).set_index("method")
    assert table.loc["ProjHMM, M = 6", "accuracy"] == pytest.approx(0.55)
    assert table.loc["default", "below true filter"] == pytest.approx(0.07)
    assert table.loc["default", "standard error"] == pytest.approx(0.03)
    short = figure32.summary_short(rows).iloc[0]
    assert short["t against GaussianHMM"] == pytest.approx(0.08 / 0.02)
    assert short["accuracy of ProjHMM"] == pytest.approx(0.55)
    assert np.isnan(short["accuracy of spectral"])


# ---------------------------------------------------------------- densities
def test_columns_are_put_in_the_order_of_the_truth():
    truth = np.random.default_rng(40).random((50, 3))
    np.testing.assert_array_equal(figure31.aligned(truth[:, [2, 0, 1]], truth), truth)


def test_densities_over_the_unit_interval():
    rows = run_small("spiteri2023-figure31", 40)
    for _, part in rows.groupby("state"):
        for column in ("truth", *figure31.SHOWN):
            assert part[column].mean() == pytest.approx(1.0, abs=0.12)  # some of it lies beyond


# ---------------------------------------------------------------- orders
def test_shares_of_runs_that_are_right():
    rows = pd.DataFrame(
        [
            {"seed": seed, "design": "overlapping", "n": 50, "rule": "elbow", "order": order}
            for seed, order in enumerate([3, 2, 3, 4])
        ]
    )
    assert figure34.shares(rows, ["elbow"]).loc[("overlapping", 50), "elbow"] == 0.5


def test_fewer_states_pass_a_higher_threshold():
    rows = run_small("spiteri2023-figure34", 40)
    for _, part in rows.groupby(["design", "n"]):
        orders = part.set_index("rule").order[list(figure34.THRESHOLDS)]
        assert orders.is_monotonic_decreasing


# ---------------------------------------------------------------- digits
def test_images_apart_are_apart_and_published_numbers_stand_where_they_belong():
    given = table31.draw(40, 3, 500, "apart")
    assert not {*given.train.images} & {*given.test.images}
    assert not {*given.validation.images} & {*given.test.images}
    assert not np.array_equal(given.train.X[:100], table31.draw(41, 3, 100, "apart").train.X)
    assert table31.published("shared", 4, 20_000, "spectral, by labels") == 0.786
    assert table31.published("shared", 4, 20_000, "spectral, by prediction") == 0.477
    assert np.isnan(table31.published("apart", 4, 20_000, "spectral, by labels"))
    assert np.isnan(table31.published("shared", 4, 20_000, "default"))


def test_prediction_error_by_a_loop():
    data = km.datasets.make_digit_hmm(2, 200, random_state=40)
    model = km.KernelHMM(2, refine=False, random_state=0).fit(data.X)
    alpha, means = np.asarray(model.filter(data.X)), np.asarray(model.emissions_.mean())
    off = [
        data.X[t + 1]
        - sum(alpha[t, i] * model.transmat_[i, k] * means[k] for i in (0, 1) for k in (0, 1))
        for t in range(199)
    ]
    assert table31.prediction_error(model, data.X) == pytest.approx(np.mean(np.square(off)))


def test_labels_choose_at_least_as_well_on_the_rows_they_label():
    given = table31.draw(42, 2, 100)
    given = table31.Draw(given.train, given.validation, given.validation)
    by = {row["method"]: row["accuracy"] for row in table31.selected(given, 42)}
    names = table31.SELECTIONS
    assert by[names["validation"]] >= by[names["none"]]


# ---------------------------------------------------------------- weights of images
def test_paper_weights_are_those_of_algorithm_1_with_kernel_matrices():
    """W D Θ L is Φ₁-measurable: the weight of y_{t+2} is a function of y_t."""
    K, data = 2, km.datasets.make_digit_hmm(2, 300, random_state=40)
    features = km.Nystroem(max_rank=300, tol=1e-13)
    model = km.KernelHMM(K, refine=False, features=features, random_state=0).fit(data.X)
    X, n = data.X, 298
    G = np.asarray(km.Gaussian(median_lengthscale(X))(X, X))
    values, W = np.linalg.eig(G[:n, :n] @ G[2:, 2:])
    W = W.real[:, np.argsort(-values.real)[:K]]
    ours = weights.paper_weights(model, X)[:n] / n
    inside = W @ np.linalg.lstsq(W, ours, rcond=None)[0]
    np.testing.assert_allclose(ours, inside, atol=2e-4 * np.abs(ours).max())
    # and they make up the same laws, at points far from the data too
    laws = np.asarray(model.emissions_(X)).T
    np.testing.assert_allclose(G[:, 2:] @ ours, laws, atol=2e-3 * np.abs(laws).max())


def test_states_are_named_by_the_digit_seen_in_them():
    data = km.datasets.make_digit_hmm(3, 5000, random_state=40)
    model = km.KernelHMM(3, refine=False, random_state=0).fit(data.X)
    order = weights.matched(model, data)
    named = np.asarray(model.predict(data.X))
    assert np.mean(order[data.states] == named) > 0.9


def test_three_digits_make_pictures_too():
    rng = np.random.default_rng(40)
    images = [
        i for digit in (2, 4, 7) for i in np.flatnonzero(weights.labels_of(range(300)) == digit)
    ]
    rows = pd.concat(
        pd.DataFrame({"seed": 40, "K": 3, "method": method, "what": "image", "image": images})
        for method in weights.METHODS
    )
    rows[["w2", "w4", "w7"]] = rng.random((len(rows), 3))
    for script in (figure38, figure39):
        assert len(script.summary(rows.assign(value=np.nan)))
        assert len(reproduce.png(script.figure(rows))) > 5000


def test_images_between_digits_are_unsure():
    images = {digit: np.flatnonzero(weights.labels_of(range(1797)) == digit) for digit in (2, 4, 7)}
    rng = np.random.default_rng(40)
    centres = {2: (1.0, 0, 0), 4: (0, 1.0, 0), 7: (0, 0, 1.0)}
    table = pd.concat(
        pd.DataFrame(
            np.array(centres[d]) + 0.01 * rng.standard_normal((10, 3)), index=images[d][:10]
        )
        for d in (2, 4, 7)
    )
    assert len(figure39.unsure(table)) == 0
    lost = pd.DataFrame(
        10 + 0.01 * rng.standard_normal((3, 3)), index=[images[d][20] for d in (2, 4, 7)]
    )
    assert set(figure39.unsure(pd.concat([table, lost]))) == set(lost.index)


# ---------------------------------------------------------------- the benchmark
def test_the_benchmark_knows_algorithm_1(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    bench = __import__("bench_hmm")
    data, test = bench.draw("separated", 1500)
    ours, theirs = bench.spectral(data, test), bench.dense(data, test)
    assert theirs.tmse == pytest.approx(ours.tmse, abs=0.02)
    assert ours.accuracy > 0.7
    sys.modules.pop("bench_hmm")

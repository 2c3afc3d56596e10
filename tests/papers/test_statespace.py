"""Experiments of Spiteri 2023, chapter 4: each in small, and what cannot fail by luck."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal
from scipy.integrate import cumulative_trapezoid, quad
from scipy.stats import norm

import kernelmean as km
from kernelmean.comparators import LaggedRidge
from kernelmean.embedding.embedding import MeanEmbedding
from kernelmean.statespace.particles import bootstrap
from kernelmean.statespace.recovered import RecoveredModel
from papers import reproduce

pytest.importorskip("statsmodels")

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "papers"
algorithm3, dynamics, figure41, figure42, figure44 = (
    reproduce.import_from(PAPERS, f"spiteri2023.{script}")
    for script in ("algorithm3", "dynamics", "figure41", "figure42", "figure44")
)
SMALL = {
    "spiteri2023-forecasts": [{"design": "linear", "n": 60}],
    "spiteri2023-figure41": [{"design": "linear", "n": 80}],
    "spiteri2023-figure42": [{"design": "linear", "n": 60, "steps": 200}],
    "spiteri2023-figure44": [{"design": "linear", "n": 80}],
}
SEEDS = (40, 41)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Few particles, iterations, starts and candidates, short later sequences."""
    small = partial(km.KernelStateSpace, em=km.EM(n_init=1, max_iter=3))
    monkeypatch.setattr(km, "KernelStateSpace", small)
    monkeypatch.setattr(dynamics, "TEST", 40)
    monkeypatch.setattr(dynamics, "PARTICLES", 40)
    monkeypatch.setattr(dynamics, "LaggedRidge", partial(LaggedRidge, 1, 2))
    monkeypatch.setattr(dynamics, "find_spec", str.isdigit)  # nothing is installed
    monkeypatch.setattr(figure42, "VALIDATION", 50)
    monkeypatch.setattr(figure42, "TEST", 50)
    monkeypatch.setattr(figure42, "ITERATIONS", (1, 5, 20))
    monkeypatch.setattr(algorithm3, "ITERATIONS", (5, 20))


def registry() -> dict:
    every = reproduce.load_registry(PAPERS)
    return {
        name: e
        for name, e in every.items()
        if e.item.split()[1].startswith("4.") and "Spiteri" in e.paper
    }


@cache
def rows_of_run(run, settings: tuple, seed: int) -> list[dict]:
    return reproduce.plain(run(seed, **dict(settings)))


def rows_of(name: str, seeds=SEEDS[:1]) -> pd.DataFrame:
    run = registry()[name].run
    return pd.DataFrame(
        {"seed": seed, **setting, **row}
        for seed in seeds
        for setting in SMALL[name]
        for row in rows_of_run(run, tuple(setting.items()), seed)
    )


# ---------------------------------------------------------------- every experiment in small
def test_every_experiment_is_tested():
    assert set(registry()) == set(SMALL)


@pytest.mark.parametrize(
    ("name", "seeds"), [*((name, SEEDS[:1]) for name in SMALL), ("spiteri2023-forecasts", SEEDS)]
)
def test_every_experiment_gives_a_table_and_a_picture(name, seeds):
    experiment, rows = registry()[name], rows_of(name, seeds)
    table = experiment.summary(rows)
    assert "published" in table
    measured = table[[c for c in table if c.startswith(("MSE", "ratio", "distance"))]]
    assert measured.size
    assert np.isfinite(measured.to_numpy()).all()
    assert (measured >= 0).all(axis=None)
    assert len(reproduce.png(experiment.figure(rows))) > 5000


def test_a_seed_gives_the_same_numbers_again():
    experiment, setting = registry()["spiteri2023-figure41"], {"design": "linear", "n": 80}
    again = pd.DataFrame(reproduce.plain(experiment.run(40, **setting)))
    first = pd.DataFrame(rows_of_run(experiment.run, tuple(setting.items()), 40))
    assert_frame_equal(first, again)


@pytest.mark.parametrize("name", SMALL)
def test_seeds_are_held_out_and_of_one_chapter(name):
    assert registry()[name].first_seed == 34000
    assert not {*range(2000)} & set(registry()[name].seeds(False, 300))


def test_the_table_is_of_the_thesis_models_and_ten_runs():
    experiment = registry()["spiteri2023-forecasts"]
    assert {s["design"] for s in experiment.grid} == {"linear", "bimodal", "volatility"}
    assert {s["n"] for s in experiment.grid} == {1000}
    assert len(experiment.seeds(False, None)) == 10


# ---------------------------------------------------------------- forecasts
def test_all_methods_are_judged_by_the_same_rows():
    rows = rows_of("spiteri2023-forecasts").set_index("method")
    assert set(dynamics.METHODS) - set(rows.index) == {dynamics.PACKAGE}
    assert rows.gap[dynamics.TRUE] == 0
    assert rows.seconds[dynamics.DEFAULT] == rows.seconds["default, kbr"]  # one fit
    assert np.isnan(rows.seconds[dynamics.TRUE])


def test_the_package_of_particles_where_it_is_installed(monkeypatch):
    def known(law, X, seed):
        return dynamics.Forecasts(X + seed)

    monkeypatch.setattr(dynamics, "find_spec", "particles".startswith)
    monkeypatch.setattr(dynamics, "by_package", known)
    data = dynamics.draw(40, "linear", 50, 10)
    found = dict(islice(dynamics.forecasts(data, 50, 7), 3))
    assert_allclose(found[dynamics.PACKAGE].mean, data.X + 7 + 10**6)


@pytest.mark.slow
def test_the_package_of_particles_agrees_with_ours():
    pytest.importorskip("particles")
    data = dynamics.draw(41, "linear", 30, 10)
    runs = {
        by: np.array([by(data.model, data.X, seed).mean for seed in range(12)])
        for by in (dynamics.by_package, dynamics.by_particles)
    }
    (one, other), n = runs.values(), 12
    error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / (n - 1))
    assert np.all(abs(one.mean(axis=0) - other.mean(axis=0)) <= 6 * error)


def test_later_rows_are_forecast_from_all_rows_before_them():
    """Nothing is learned from them, and a forecast does not see its own row."""
    data = dynamics.draw(40, "linear", 60, 10)
    changed = replace(data, X=np.r_[data.X[:69], data.X[69:] + 50])
    for one, other in zip(*(dynamics.forecasts(d, 60, 40) for d in (data, changed)), strict=True):
        assert one[0] == other[0]
        assert_allclose(one[1].mean, other[1].mean, rtol=1e-10, err_msg=one[0])


def test_errors_of_a_forecast_by_hand():
    y, n = np.array([[1.0], [2.0], [4.0]]), 1
    ends = (np.zeros((4, 1)), np.full((4, 1), 2.0))
    logs = np.array([9.0, -1.0, -2.0, -3.0])
    found = dynamics.Forecasts(np.array([[9.0], [1.0], [1.0], [1.0]]), logs, ends)
    said = dynamics.errors(y, n, np.zeros(3), found)
    assert said == {"mse": (0 + 1 + 9) / 3, "coverage": 2 / 3, "gap": 2.0}


def made_up() -> pd.DataFrame:
    errors = {
        dynamics.TRUE: (1.0, 2.0, 1.0),
        dynamics.DEFAULT: (1.1, 2.4, 1.3),
        "AR(1)": (1.2, 2.2, 2.0),
    }
    return pd.DataFrame(
        {"seed": seed, "design": "linear", "n": 100, "method": method, "mse": mse}
        for method, values in errors.items()
        for seed, mse in enumerate(values)
    )


def test_ratios_are_of_runs_and_differences_are_paired():
    table = figure41.summary(made_up()).set_index("method")
    assert table.loc["default", "ratio to exact"] == pytest.approx((1.1 + 1.2 + 1.3) / 3)
    assert table.loc["default", "worst ratio"] == pytest.approx(1.3)
    assert table.loc["default", "standard error"] == pytest.approx(0.1 / 3**0.5)
    off = np.array([-0.1, 0.2, -0.7])
    assert table.loc["AR(1)", "t of the default"] == pytest.approx(
        off.mean() / off.std(ddof=1) * 3**0.5
    )
    assert np.isnan(table.loc["default", "in 90% interval"])


# ---------------------------------------------------------------- Algorithm 3
def problem(n: int = 80, seed: int = 40):
    return algorithm3.Problem.of(dynamics.draw(seed, "linear", n, 0).X, seed)


def test_latent_points_have_the_ranks_of_the_observations():
    given = problem()
    np.testing.assert_array_equal(np.argsort(given.Y[:, 0]), np.argsort(given.X[:, 0]))


def test_coordinates_have_the_loss_of_the_matrices_all_the_way():
    given = problem()
    assert_allclose(
        given.moments.terms(*given.start()), given.dense.terms(*given.dense.start()), rtol=1e-5
    )
    losses = []
    for _, laws in given.descend((3, 10, 40)):
        losses.append(given.dense.loss(laws.W, laws.Wt))
        Phi, Psi = given.coordinates
        operators = Phi.T @ laws.W @ Psi, Psi.T @ laws.Wt @ Psi
        assert_allclose(given.moments.loss(*operators), losses[-1], atol=1e-6)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.02 * losses[0]


def test_densities_are_positive_parts_of_the_embedded_laws():
    given = problem()
    *_, (_, laws) = given.descend((10,))
    x = np.array([-0.5, 0.8])
    weights = laws.W @ np.asarray(given.kernels[1](given.X, x[:, None]))
    width = algorithm3.WIDTH * given.kernels[0].lengthscale

    def height(y: float, column: int) -> float:
        return max(float(norm.pdf(y, given.Y[:, 0], width) @ weights[:, column]), 0.0)

    ends, y = (given.Y.min() - 4 * width, given.Y.max() + 4 * width), np.array([-1.0, 0.3])
    for column in (0, 1):
        mass = quad(height, *ends, args=(column,), limit=400)[0]
        ours = laws.emission(y, x)[:, column]
        assert_allclose(ours, [height(v, column) / mass for v in y], rtol=1e-3)
    f = laws.transition(x, algorithm3.NODES)
    assert_allclose(f.sum(axis=1) * (algorithm3.NODES[1] - algorithm3.NODES[0]), 1)


def test_the_filter_on_nodes_is_that_of_particles():
    """The thesis's: 500 particles, of the same densities."""
    given = problem(150)
    X, laws = given.Y, given.laws(*given.dense.start())
    model = RecoveredModel(
        MeanEmbedding(given.X, kernel=given.kernels[1]),
        lambda x: MeanEmbedding(given.X, (laws.Wt @ laws._at(x)).T, kernel=given.kernels[1]),
        lambda x: MeanEmbedding(given.Y, (laws.W @ laws._at(x)).T, kernel=given.kernels[0]),
        tuple(algorithm3.WIDTH * k.lengthscale for k in reversed(given.kernels)),
    )
    seen, whole, rng = np.ones(60, dtype=bool), [slice(0, 60)], np.random.default_rng(40)
    found = bootstrap(model, X[:60], seen, whole, 500, rng)
    ours, loglik = laws.predict(X[:60])
    assert np.corrcoef(ours[5:, 0], found.mean[5:, 0])[0, 1] > 0.95
    assert loglik[5:].mean() == pytest.approx(found.loglik[5:].mean(), abs=0.1)


def test_the_settings_chosen_are_the_best_on_later_training_rows():
    X = dynamics.draw(40, "linear", 100, 0).X
    best = algorithm3.tuned(X, 40)
    assert len(best.problem.Y) == 80

    def error(laws):
        return np.mean((laws.predict(X)[0] - X)[80:] ** 2)

    for penalty in algorithm3.PENALTIES:
        given = replace(algorithm3.Problem.of(X[:80], 40), penalty=penalty)
        for count, laws in given.descend((5, 20)):
            assert count == 0 or error(best) <= error(laws) + 1e-12


# ---------------------------------------------------------------- optimisation
def test_traces_begin_at_the_same_place_and_lower_the_loss():
    rows = rows_of("spiteri2023-figure42")
    starts = rows[(rows.step == 0) & (rows.method != figure42.EM)]
    assert starts.loss.nunique() == 1
    assert starts[list(figure42.PARTS)].drop_duplicates().shape[0] == 1
    for _, part in rows[rows.method != figure42.EM].groupby("method"):
        assert part.loss.iloc[-1] < 0.5 * part.loss.iloc[0]
        assert_allclose(part.loss, part[["moments", "emission", "stationarity"]].sum(axis=1))


def test_either_matrix_in_turn():
    given = problem(30)
    trace = dict(figure42.by_adam(given, 600))
    assert list(trace) == list(range(0, 601, 100))
    np.testing.assert_array_equal(trace[500].Wt, trace[0].Wt)
    np.testing.assert_array_equal(trace[600].W, trace[500].W)
    assert not np.array_equal(trace[600].Wt, trace[500].Wt)


# ---------------------------------------------------------------- representations
@pytest.mark.parametrize("design", ["linear", "bimodal"])
def test_the_true_law_in_states_that_are_standard_normal(design):
    """Its transition leaves N(0, 1) as it is, which the map of a wrong law would not."""
    law = dynamics.draw(40, design, 2, 0).model
    z, some = np.linspace(-5, 5, 10_001), np.array([-2.0, -0.5, 0.01, 1.0])
    (x, slope), (there, steep) = (figure44.in_own_units(law, at) for at in (z, some))
    assert_allclose(cumulative_trapezoid(slope, z), x[1:] - x[0], atol=1e-3)
    f = law.transition_density(x, there) * steep
    assert_allclose(norm.pdf(z) @ f * (z[1] - z[0]), norm.pdf(some), atol=1e-5)


def test_densities_integrate_to_one_over_the_pictures():
    """Of y at x = 0 only: elsewhere some of it may lie beyond what was observed."""
    rows = rows_of("spiteri2023-figure44")
    for (kind, law, x), part in rows[~rows.whole].groupby(["kind", "law", "x"]):
        mass = np.trapezoid(part.density, part["at"])
        if kind == "transition" or x == 0:
            assert mass == pytest.approx(1, abs=0.03), (kind, law, x)


def test_distance_is_zero_of_the_same_law_and_one_of_laws_apart():
    def made(law, place):
        grid = np.arange(10.0)
        return [
            {"law": law, "whole": True, "x": x, "at": at, "density": float(at == place)}
            for x in (-1.0, 1.0)
            for at in grid
        ]

    rows = pd.DataFrame(made(figure44.TRUTH, 3) + made("default", 3) + made("thesis", 4))
    assert figure44.distance(rows, "default") == 0
    assert figure44.distance(rows, "thesis") == pytest.approx(1)


# ---------------------------------------------------------------- the benchmark
def test_the_benchmark_brings_both_minimisers_to_the_same_loss(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.delitem(__import__("sys").modules, "bench_statespace", raising=False)
    bench = __import__("bench_statespace")
    theirs = bench.by_adam(*bench.problem_of(40), 1, 50)
    ours = bench.by_lbfgs(*bench.enough(40, theirs.loss))
    assert ours.loss <= theirs.loss + 1e-12
    assert theirs.loss < bench.problem_of(40)[0].dense.loss(*bench.problem_of(40)[0].dense.start())

"""Filtering experiments of Fukumizu 2013, Song 2016 and Xu 2022, and the filters they know."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import kernelmean as km
from kernelmean.datasets import StateSpace, make_hidden_angle, make_rotation
from papers import reproduce

pytest.importorskip("filterpy")

PAPERS = Path(__file__).parents[2] / "papers"
filters, tracking, figure4, figure2, figure1, dense = (
    reproduce.import_from(PAPERS, script)
    for script in (
        "filters",
        "tracking",
        "fukumizu2013.figure4",
        "xu2022.figure2",
        "song2016.figure1",
        "song2016.dense",
    )
)
SMALL = {
    "fukumizu2013-figure4": [{"dynamics": "rotation", "n": 30, "tests": 6, "particles": 50}],
    "xu2022-figure2": [
        {"dynamics": "oscillation", "design": "xu", "n": 20, "tests": 6, "particles": 50}
    ],
    "song2016-figure1": [{"n": 30, "tests": 6, "particles": 50}],
    "song2016-times": [{"n": 30, "tests": 6, "dense_steps": 3}],
}
TUNED_ON = {*range(1000, 1008), *range(3000, 3008)}  # seeds by which defaults were chosen


@cache
def rows_of(name: str) -> pd.DataFrame:
    return pd.concat([run_small(name, seed) for seed in (1, 2)])


def run_small(name: str, seed: int) -> pd.DataFrame:
    run = reproduce.load_registry(PAPERS)[name].run
    return pd.DataFrame(
        {"seed": seed, **setting, **row} for setting in SMALL[name] for row in run(seed, **setting)
    )


def linear_model() -> tuple[StateSpace, np.ndarray, np.ndarray]:
    """A damped rotation seen in three noisy columns, and the two matrices."""
    A = 0.95 * np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    C = np.array([[1.0, 0.3], [-0.2, 1.0], [0.5, 0.5]])

    def first(count: int, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal((count, 2))

    return StateSpace(lambda Z: Z @ A.T, lambda Z: Z @ C.T, first, 0.3, 0.5), A, C


def kalman(X, A, C, mean, cov) -> np.ndarray:
    """The filtered means of statsmodels' Kalman filter, for `linear_model`."""
    from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

    d, p = A.shape[0], C.shape[0]
    model = KalmanFilter(
        k_endog=p,
        k_states=d,
        design=C,
        obs_cov=0.5**2 * np.eye(p),
        transition=A,
        selection=np.eye(d),
        state_cov=0.3**2 * np.eye(d),
    )
    model.bind(X.copy())
    model.initialize_known(mean, cov)
    return model.filter().filtered_state.T


# ---------------------------------------------------------------- filters given the law
@pytest.mark.parametrize("spread", [None, 1e-3, 1.0])
def test_in_a_linear_model_every_kalman_filter_is_the_kalman_filter(spread):
    model, A, C = linear_model()
    X = model.sample(60, random_state=0).X
    start = np.array([0.3, -0.2]), np.array([[1.0, 0.2], [0.2, 0.7]])
    expected = kalman(X, A, C, *start)
    extended = filters.extended_kalman(model, X, *start)
    unscented = filters.unscented_kalman(model, X, *start, spread=spread)
    np.testing.assert_allclose(extended, expected, atol=1e-8)
    np.testing.assert_allclose(unscented, expected, atol=1e-6 if spread == 1e-3 else 1e-9)


def test_particles_approach_the_kalman_filter():
    model, A, C = linear_model()
    X, rng = model.sample(40, random_state=0).X, np.random.default_rng(1)
    expected = kalman(X, A, C, np.zeros(2), A @ A.T + 0.3**2 * np.eye(2))
    errors = [
        np.sqrt(np.mean((filters.particle_means(model, X, rng, count) - expected) ** 2))
        for count in (500, 50_000)
    ]
    assert errors[1] < 0.005
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.5)


def test_particles_approach_the_sums_over_a_grid_of_angles():
    data, grid = make_hidden_angle(30, random_state=5), 2 * np.pi * np.arange(500) / 500
    turns = grid[:, None] - grid - 0.4 + 2 * np.pi * np.arange(-2, 3)[:, None, None]
    step = np.exp(-(turns**2) / (2 * 0.2**2)).sum(axis=0)
    seen = data.model.emission(grid[:, None])
    p, expected = np.ones(500), []
    for x in data.X:
        p = (step @ p) * np.exp(-np.sum((seen - x) ** 2, axis=1) / (2 * 0.2**2))
        p = p / p.sum()
        expected.append(p @ np.exp(1j * grid))
    Z, w = filters.particle_filter(data.model, data.X, np.random.default_rng(0), 50_000)
    np.testing.assert_allclose(np.sum(w * np.exp(1j * Z[..., 0]), axis=1), expected, atol=0.02)


def test_an_outlier_leaves_weights_that_sum_to_one():
    model = make_rotation(1).model
    X = np.array([[1.0, 0.0], [1e6, -1e6], [0.0, 1.0]])
    _, weights = filters.particle_filter(model, X, np.random.default_rng(0), 100)
    np.testing.assert_allclose(weights.sum(axis=1), 1)


def test_resampling_is_systematic():
    weights = np.random.default_rng(0).dirichlet(np.ones(50))
    counts = np.bincount(filters.resample(weights, np.random.default_rng(1)), minlength=50)
    assert np.all(np.abs(counts - 50 * weights) < 1)
    assert filters.resample(np.array([0.0, 1.0]), np.random.default_rng(0)).tolist() == [1, 1]


def test_jacobian_of_the_rotation():
    z = np.array([0.6, 0.8])  # the derivative of a rotated direction is across it
    across = np.array([-np.sin(np.arctan2(0.8, 0.6) + 0.3), np.cos(np.arctan2(0.8, 0.6) + 0.3)])
    expected = np.outer(across, [-0.8, 0.6])
    found = filters.jacobian(make_rotation(1).model.transition, z)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_first_moments_of_the_rotation():
    mean, cov = filters.first_moments(make_rotation(1).model, 100_000)
    np.testing.assert_allclose(mean, 0, atol=0.01)
    np.testing.assert_allclose(cov, (0.5 + 0.2**2) * np.eye(2), atol=0.01)


def test_the_true_law_is_hard_to_beat():
    data = make_rotation(300, "oscillation", random_state=1)
    errors = {
        name: tracking.squared_error(states, data.Z)
        for name, states, *_ in tracking.known_law(data, 0, 2000)
    }
    assert errors[tracking.TRUTH] < errors["UKF"] < errors["EKF"]
    assert errors["EKF"] < tracking.squared_error(data.X, data.Z)


# ---------------------------------------------------------------- choice on held-out steps
def test_the_candidate_that_tracks_the_tail_best_is_chosen():
    data = make_rotation(80, random_state=0)
    good, bad = (km.KernelBayesFilter(reg=reg) for reg in (1e-2, 1e6))
    assert tracking.best_on_tail([bad, good], data.X, data.Z, 40).reg == 1e-2
    chosen = tracking.best_on_tail([bad, good], data.X, data.Z, 40, steps=10)
    assert len(chosen.points_) == 80


def test_errors_on_the_circle_by_hand():
    found, theta = np.array([0.1, 3.0, -3.0]), np.array([2 * np.pi - 0.1, 3.5, 3.0])
    expected = [0.2**2, 0.5**2, (2 * np.pi - 6) ** 2]
    np.testing.assert_allclose(figure1.angle_errors(found, theta), expected)


def test_the_clock_of_song():
    data = make_hidden_angle(5, random_state=0)
    X, Z, strength = figure1.clock(data, 0.1)
    np.testing.assert_allclose(figure1.angle_errors(figure1.angle(Z), data.theta)[0], 0, atol=1e-20)
    np.testing.assert_allclose(np.diff(np.unwrap(figure1.angle(Z))), 0.4)
    np.testing.assert_allclose(X, data.model.emission(figure1.angle(Z)[:, None]), atol=1e-12)
    assert strength.tolist() == [0, 0.1, 0.1, 0.1, 0.1]


@pytest.mark.parametrize("rule", ["squared", "importance", "supervised"])
def test_filters_are_those_of_the_dense_appendix(rule):
    train, _, test = figure1.sequences(3, 40, 8)
    Z = figure1.on_circle(train.theta)
    settings = {
        **tracking.scaled_kernels(1.0, train.X, Z),
        "reg_prior": 1e-3,
        "reg": 1e-2,
        "reg_transition": 1e-3,
    }
    squared = rule == "squared"
    supervision = figure1.clock(test, 0.05) if rule == "supervised" else None
    slow = dense.DenseFilter(
        train.X, Z, rule=dense.squared if squared else dense.thresholded, **settings
    )
    fast = km.KernelBayesFilter(
        rule="squared" if squared else "importance", features=km.Exact(), **settings
    )
    found = fast.fit(train.X, Z).filter(test.X, supervision=supervision).mean()
    np.testing.assert_allclose(found, slow.track(test.X, supervision), atol=1e-5)


# ---------------------------------------------------------------- every experiment in small
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("seeds", [(1,), (1, 2)])
def test_every_experiment_gives_a_table_and_a_picture(name, seeds):
    experiment, rows = reproduce.load_registry(PAPERS)[name], rows_of(name)
    rows = rows[rows.seed.isin(seeds)]
    table = experiment.summary(rows)
    assert any("published" in column for column in table)
    measured = rows["mse" if "mse" in rows else "seconds"]
    assert np.isfinite(measured).all()
    assert (measured >= 0).all()
    assert (table.runs == len(seeds)).all()
    assert set(table.method) == set(rows.method)
    assert len(reproduce.png(experiment.figure(rows))) > 5000


@pytest.mark.parametrize("name", [name for name in SMALL if name != "song2016-times"])
def test_a_seed_gives_the_same_numbers_again(name):
    kept = rows_of(name)
    first, second = kept[kept.seed == 2], run_small(name, 2)
    assert_frame_equal(*(f.drop(columns="seconds") for f in (first, second)))


@pytest.mark.parametrize("name", SMALL)
def test_no_seed_is_one_that_defaults_were_chosen_by(name):
    assert not TUNED_ON & set(reproduce.load_registry(PAPERS)[name].seeds(False, 300))


def test_errors_are_compared_with_the_particle_filter_and_the_authors_code():
    table = figure2.summary(rows_of("xu2022-figure2")).set_index(["n", "method"])
    case = table.loc[20]
    expected = case.mse["IW"] / case.mse[tracking.TRUTH]
    assert case["mse / particle filter"]["IW"] == pytest.approx(expected)
    assert case["mse / IW"]["IW"] == 1
    covers = case["90% interval covers"]
    assert np.isnan(covers["EKF"])
    assert 0 <= covers["IW"] <= 1
    authors = {"dynamics": "rotation", "design": "xu", "n": 300}
    assert figure2.published(authors, "IW") == "0.057 (authors' code)"
    assert figure2.published(authors, "EKF") == ""

"""Filtering by pictures, Figures 5 and 6 of Xu 2022; the networks where PyTorch is installed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from papers import reproduce
from papers.xu2022.film import RUN_IN, Design, Film

PAPERS = Path(__file__).parents[2] / "papers"
images, figure5, figure6, scenes = (
    reproduce.import_from(PAPERS, script)
    for script in ("xu2022.images", "xu2022.figure5", "xu2022.figure6", "scenes")
)
FIGURES = {"xu2022-figure5": figure5, "xu2022-figure6": figure6}
BY_KERNELS = [method for method in images.STYLES if method not in images.NEED_TORCH]
TUNED_ON = {*range(1000, 1008), *range(3000, 3008)}  # seeds by which settings were chosen


@cache
def small_rows(name: str, seeds: tuple[int, ...] = (1, 2)) -> pd.DataFrame:
    settings = [{"n": n, "tests": 10, "method": m} for n in (24, 30) for m in BY_KERNELS]
    run = FIGURES[name].run
    return pd.DataFrame({"seed": seed, **s, **run(seed, **s)} for seed in seeds for s in settings)


@pytest.fixture(scope="module")
def film():
    return Film.of(figure6.DESIGN, 60, [1, 0])


# ---------------------------------------------------------------- films
@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_shows_the_noisy_state_and_has_noise_of_its_own(name):
    design = FIGURES[name].DESIGN
    film = Film.of(design, 12, [3, 0])
    noise = film.X - design.views(film.walk.X).reshape(12, -1)
    assert noise.std() == pytest.approx(0.1, rel=0.02)
    assert abs(noise.mean()) < 1e-3
    assert_allclose(film.Z, design.states(film.walk.Z))
    assert film.X.shape == (12, np.prod(film.shape))


def test_noise_and_moves_are_the_papers():
    maze = figure5.walk(20_000, [1, 0])
    steps, shown = np.diff(maze.Z[:, 0]), (maze.X - maze.Z)[:, 0]
    assert steps.mean() == pytest.approx(0.4, abs=0.01)
    assert [steps.std(), shown.std()] == pytest.approx([0.2, 0.2], rel=0.03)
    sprite = figure6.walk(20_000, [1, 0])
    moved = sprite.Z[1:] - sprite.model.transition(sprite.Z[:-1])
    assert moved.std() == pytest.approx(0.2, rel=0.03)
    assert (sprite.X - sprite.Z).std() == pytest.approx(0.05, rel=0.03)


def test_channels_come_first():
    theta = np.array([[0.3], [2.0]])
    assert_array_equal(figure5.views(theta)[1, 2], scenes.first_person(theta[:, 0])[1, :, :, 2])
    assert figure6.views(np.zeros((2, 2))).shape == (2, 1, 64, 64)


def test_the_test_film_is_longer_by_the_run_in_and_independent_of_the_length_of_training():
    short, long = (images.films(figure6.DESIGN, 5, n, 7) for n in (15, 20))
    assert_array_equal(short[1].X, long[1].X)
    assert len(short[1].X) == 7 + RUN_IN
    assert len(long[0].X) == 20


# ---------------------------------------------------------------- methods
def test_the_particle_filter_that_knows_what_is_shown_is_the_kalman_filter_of_the_angle():
    film = Film.of(figure5.DESIGN, 60, [4, 1])
    mean, var, expected = film.walk.X[0, 0], 0.04, []
    for x in film.walk.X[1:, 0]:  # from the second on, whatever the law of the first
        mean, var = mean + 0.4, var + 0.04
        gain = var / (var + 0.04)
        mean, var = mean + gain * (x - mean), (1 - gain) * var
        expected.append(np.exp(-var / 2) * np.array([np.cos(mean), np.sin(mean)]))
    found = images.read(figure5.DESIGN, film, 0)
    assert_allclose(found[10:], expected[9:], atol=0.03)


def test_candidates_are_every_scale_and_regulariser(film):
    models = list(images.candidates(film, "squared", [1e-4, 1e-2]))
    assert len(models) == 2 * len(images.SCALES)
    median = km.Gaussian().resolve(film.X).lengthscale
    assert [m.kernel_x.lengthscale / median for m in models[::2]] == pytest.approx(images.SCALES)
    assert {m.reg for m in models} == {1e-4, 1e-2}
    assert all(m.reg_prior == m.reg_transition for m in models)


@pytest.mark.parametrize(("method", "power"), [("Original", 2), ("IW", 1)])
def test_settings_are_those_of_least_error_on_the_tail(film, method, power):
    found = images.tuned(method, film)
    assert found.rule == {1: "importance", 2: "squared"}[power]
    errors = {}
    for model in images.candidates(film, found.rule, [reg**power for reg in images.REGS]):
        fitted = model.fit(film.X[:-30], film.Z[:-30])
        key = fitted.kernel_z.lengthscale, fitted.reg
        error = images.filtered(fitted, Film(film.X[-30:], film.Z[-30:], film.shape, None))
        errors[key] = np.mean((error - film.Z[-30:]) ** 2)
    assert min(errors, key=errors.get) == (found.kernel_z.lengthscale, found.reg)
    assert len(found.points_) == 60


def test_the_run_in_does_not_count(monkeypatch):
    def wrong_at_first(design, test, seed):
        return np.where(np.arange(len(test.Z))[:, None] < RUN_IN, np.nan, test.Z + 1)

    monkeypatch.setattr(images, "read", wrong_at_first)
    found = images.measured(figure6.DESIGN, images.READ, 1, 12, 5, 0)
    assert found["mse"] == pytest.approx(2)


# ---------------------------------------------------------------- table and figure
@pytest.mark.parametrize("name", FIGURES)
def test_table_and_figure_say_what_was_left_out(name):
    table = FIGURES[name].summary(small_rows(name)).set_index(["n", "method"])
    assert len(table) == 2 * len(images.STYLES)
    for n in (24, 30):
        assert table.loc[n, "LSTM: left out, needs PyTorch"].runs == 0
        assert table.loc[n, "IW (NN): left out, needs PyTorch"].published
        assert (table.loc[n].loc[BY_KERNELS, "runs"] == 2).all()
        assert np.isfinite(table.loc[n].loc[BY_KERNELS, "mse"]).all()
        best = table.loc[n].mse.idxmin()
        assert best == images.READ  # which knows most
    picture = FIGURES[name].figure(small_rows(name))
    labels = [text.get_text() for text in picture.legends[0].get_texts()]
    assert "LSTM: left out, needs PyTorch" in labels
    assert set(BY_KERNELS) <= set(labels)
    assert len(reproduce.png(picture)) > 5000


def test_one_run_has_a_table_and_a_figure_too():
    rows = small_rows("xu2022-figure6").query("seed == 1")
    assert (figure6.summary(rows).runs <= 1).all()
    assert len(reproduce.png(figure6.figure(rows))) > 5000


def test_signed_rank_tests_are_one_sided():
    errors = {"IW": 1.0, "Original": 2.0}
    rows = pd.DataFrame(
        {"seed": seed, "n": 9, "method": m, "mse": e + 0.01 * seed, "seconds": 1.0}
        for seed in range(5)
        for m, e in errors.items()
    )
    table = images.summary(rows, {}).set_index("method")
    assert table["p (IW lower)"]["Original"] == pytest.approx(1 / 32)
    assert table["p (Original lower)"]["IW"] == 1
    assert table["p (IW lower)"].isna()["IW"]


@pytest.mark.parametrize("torch", [True, False])
def test_networks_are_in_the_grid_where_pytorch_is(torch, monkeypatch):
    monkeypatch.setattr(images, "TORCH", torch)
    grid = images.grid((5, 9), 3, {"IW (NN)": 2, "LSTM": 4})
    methods = [element["method"] for element in grid if element["n"] == 9]
    assert methods == (list(images.STYLES) if torch else BY_KERNELS)
    epochs = {element["method"]: element.get("epochs") for element in grid}
    assert epochs["IW"] is None
    assert epochs.get("LSTM") == (4 if torch else None)


@pytest.mark.parametrize("name", FIGURES)
def test_a_seed_gives_the_same_numbers_again(name):
    again = small_rows.__wrapped__(name, (2,))
    kept = small_rows(name).query("seed == 2")
    assert_array_equal(again.mse, kept.mse)


@pytest.mark.parametrize("name", FIGURES)
def test_no_seed_is_one_that_settings_were_chosen_by(name):
    experiment = reproduce.load_registry(PAPERS)[name]
    assert not TUNED_ON & {*experiment.seeds(False, 300), *experiment.seeds(True, None)}


# ---------------------------------------------------------------- networks
@pytest.fixture
def networks():
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    module = reproduce.import_from(PAPERS, "xu2022.networks")
    with module.one_thread():
        yield module


@pytest.fixture
def tiny():
    """Films of 6 × 6 pixels, bright on the side where the point is."""
    side = np.linspace(-1, 1, 6)

    def views(positions):
        x, y = positions[:, :1, None] * side, positions[:, 1:, None] * side[:, None]
        return 1 / (1 + np.exp(-3 * (x + y)))[:, None]

    design = Design(figure6.walk, figure6.itself, views)
    return images.films(design, 1, 120, 20)


def test_an_lstm_looks_at_eleven_pictures(networks):
    import torch

    tracker = networks.Tracker((1, 6, 6), 2)
    pictures = torch.rand(14, 1, 6, 6)
    together = tracker(pictures).detach()
    assert together.shape == (4, 2)
    for i in range(4):
        alone = tracker(pictures[i : i + 11]).detach()
        assert_allclose(together[i : i + 1], alone, atol=1e-6)


@pytest.mark.parametrize("n", [40, 138, 500])
def test_every_state_is_learned_from_once_in_an_epoch(networks, n):
    rows = [
        np.arange(part.start + RUN_IN, part.stop)
        for part in networks.stretches(n, np.random.default_rng(0))
    ]
    assert_array_equal(np.sort(np.concatenate(rows)), np.arange(RUN_IN, n))
    assert max(map(len, rows)) < 2 * networks.BATCH


def test_an_lstm_learns_and_leaves_torchs_generator_alone(networks, tiny):
    import torch

    train, test = tiny
    before = torch.get_rng_state()
    states = networks.lstm(train, test, epochs=40, patience=10, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.isnan(states[:RUN_IN]).all()
    found, truth = states[RUN_IN:], test.Z[RUN_IN:]
    assert np.mean((found - truth) ** 2) < 0.7 * np.var(truth)
    again = networks.lstm(train, test, epochs=40, patience=10, seed=0)
    assert_array_equal(again, states)


def test_the_epoch_of_least_error_on_the_end_is_kept(networks, tiny):
    import torch

    train, _ = tiny
    pictures = networks.standardised(train.X, train)
    assert_allclose([float(pictures.mean()), float(pictures.std())], [0, 1], atol=1e-3)
    states, end = torch.tensor(train.Z).float(), slice(108 - RUN_IN, None)
    errors = []
    for epochs in (1, 3, 9):
        torch.manual_seed(0)
        with torch.no_grad():
            start = networks.Tracker(train.shape, 2)
            best = networks.trained(start, pictures, states, epochs, 99, seed=0)
            errors.append(float(networks.loss(best, pictures[end], states[end])))
    assert errors == sorted(errors, reverse=True)


def test_features_are_learned_before_the_tail_and_then_from_everything(networks, tiny, monkeypatch):
    train, test = tiny
    seen, fit_pairs = [], km.Neural.fit_pairs

    def spy(self, X, *rest, **options):
        seen.append(len(X))
        return fit_pairs(self, X, *rest, **options)

    monkeypatch.setattr(km.Neural, "fit_pairs", spy)
    model = images.with_learned_features(train, epochs=2, seed=0)
    assert seen == [120 - train.tail, 120]
    assert len(model.points_) == 120
    assert np.isfinite(images.filtered(model, test)).all()


@pytest.mark.parametrize("method", images.NEED_TORCH)
def test_networks_run_through_the_experiment(networks, method):
    found = [figure6.run(1, n=24, tests=4, method=method, epochs=1) for _ in range(2)]
    assert np.isfinite(found[0]["mse"])
    assert found[0]["mse"] == found[1]["mse"]

"""The kernel Bayes filter with learned features of the observations (needs PyTorch)."""

from __future__ import annotations

import warnings

import filter_oracles
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import kernelmean as km

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

SIDE = 8
SHAPE = (1, SIDE, SIDE)
QUICK = {"image_shape": SHAPE, "n_features": 8, "n_targets": 40, "device": "cpu"}
QUICK["training"] = km.Training(max_epochs=15)
BRIEF = {**QUICK, "training": km.Training(max_epochs=2)}
REGS = {"reg_prior": 1e-3, "reg": 1e-2, "reg_transition": 1e-3}
RULES = ["importance", "squared"]


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def film(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy pictures of a bump that goes round a circle, whose place is the state."""
    Z = km.datasets.make_rotation(n, state_noise=0.1, random_state=seed).Z
    grid = np.linspace(-1.6, 1.6, SIDE)
    down, across = (np.exp(-((grid - Z[:, [j]]) ** 2) / 0.3) for j in (0, 1))
    pictures = (down[:, :, None] * across[:, None, :]).reshape(n, -1)
    return pictures + 0.1 * np.random.default_rng(seed).standard_normal(pictures.shape), Z


@pytest.fixture(scope="module")
def train() -> tuple[np.ndarray, np.ndarray]:
    return film(150, 1)


@pytest.fixture(scope="module")
def test() -> tuple[np.ndarray, np.ndarray]:
    return film(40, 2)


@pytest.fixture(scope="module")
def trained(train) -> km.Neural:
    return km.Neural(**QUICK).fit_pairs(*train)


@pytest.fixture(scope="module")
def model(train) -> km.KernelBayesFilter:
    return km.KernelBayesFilter(features=km.Neural(**QUICK)).fit(*train)


# ---------------------------------------------------------------- learning
def test_the_network_learns_from_the_pairs_once(model, train):
    X, _ = train
    again = km.Neural(**QUICK).fit_pairs(*train, model.kernel_z_)
    assert_array_equal(model.features_x_.transform(X), again.transform(X))
    assert not model.features.trained
    assert isinstance(model.features_z_, km.Nystroem)
    assert_array_equal(model.kernel_x_(X[:9]), model.features_x_.kernel_(X[:9]))


def test_it_tracks_what_the_pictures_show(model, test):
    assert model.score(*test) > 0.95


def test_a_trained_map_is_used_as_it_is(trained, train):
    model = km.KernelBayesFilter(features=trained).fit(*train)
    assert model.features_x_ is trained
    assert clone(model).features is trained


@pytest.mark.parametrize("rule", RULES)
def test_weights_are_those_of_the_dense_recursion(rule, trained, train, test):
    (X, Z), (X_test, _) = train, test
    settings = {"rule": rule, **REGS, "reg_smoother": 0.1}
    model = km.KernelBayesFilter(kernel_z=km.Gaussian(0.7), features=trained, **settings).fit(X, Z)
    dense = filter_oracles.DenseFilter(
        X,
        Z,
        lambda A, B: trained.transform(A) @ trained.transform(B).T,
        filter_oracles.gaussian(0.7),
        **settings,
    )
    for found, expected in (
        (model.filter(X_test[:12]), dense.filter(X_test[:12])),
        (model.smooth(X_test[:12]), dense.smooth(X_test[:12])),
    ):
        assert_allclose(found.mean(), [m.mean() for m in expected], atol=1e-4)
        w = [m.on(Z, dense.K_z) for m in expected]
        assert_allclose(found.embedding(Z), w, atol=1e-4)


# ---------------------------------------------------------------- tracking
@pytest.mark.parametrize("rule", RULES)
def test_streaming_and_batches_are_the_same(rule, trained, train, test):
    model = km.KernelBayesFilter(rule=rule, features=trained, **REGS).fit(*train)
    X = test[0][:20].copy()
    X[3, 5] = np.nan
    whole = model.filter(X)
    assert_array_equal(np.flatnonzero(whole.missing), [3])
    belief = model.start().update(X[0])
    means = [belief.predict().update(x).mean() for x in X[1:]]
    assert_allclose(whole.mean()[1:], means, atol=1e-5)
    both = model.filter(np.vstack([X, X[:7]]), lengths=[20, 7]).mean()
    assert_allclose(both, np.vstack([whole.mean(), whole.mean()[:7]]), atol=1e-5)


def test_the_dynamics_carry_the_state_through_a_dark_stretch(model, test):
    X, Z = test[0].copy(), test[1]
    X[10:13] = np.nan
    result = model.filter(X)
    assert result.missing.sum() == 3
    assert ((result.mean() - Z)[10:13] ** 2).sum(axis=1).max() < 0.5


def test_smoothing_intervals_and_forecasts(model, test):
    X, Z = test
    filtered, smoothed = model.filter(X), model.smooth(X)
    assert ((smoothed.mean() - Z) ** 2).mean() < 1.5 * ((filtered.mean() - Z) ** 2).mean()
    low, high = filtered.interval(0.9)
    assert 0.7 < ((low <= Z) & (high >= Z)).mean() <= 1
    ahead = model.forecast(X[:30], 3)
    assert ((ahead.mean() - Z[30:33]) ** 2).sum(axis=1).max() < 0.5
    picture = ahead.observations.mean()[0]  # of a bump where the state will be
    assert np.corrcoef(picture, X[30])[0, 1] > 0.7


def test_pictures_unlike_any_seen_do_no_lasting_harm(model, test):
    X, Z = test[0].copy(), test[1]
    X[8], X[9] = 1e6, -1e6 * X[9]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", km.NumericalWarning)  # or not: a network may believe them
        mean = model.filter(X).mean()
    assert np.isfinite(mean).all()
    assert ((mean - Z)[20:] ** 2).sum(axis=1).mean() < 0.1


def test_supervision_pulls_the_state(trained, train, test):
    model = km.KernelBayesFilter(features=trained, **REGS).fit(*train)
    X, wanted = test[0][:5], np.array([0.3, -0.2])
    pulled = model.filter(X, supervision=(X, np.tile(wanted, (5, 1)), 1e3)).mean()
    free = model.filter(X).mean()
    assert (
        np.linalg.norm(pulled - wanted, axis=1) < 0.2 * np.linalg.norm(free - wanted, axis=1)
    ).all()


# ---------------------------------------------------------------- choice, and keeping
def test_tuning_leaves_the_pictures_kernel_alone(trained, train, test):
    tuned = km.KernelBayesFilter(features=trained).tune(*train)
    assert {row["scale_x"] for row in tuned.tuning_} == {1.0}
    assert len({row["scale_z"] for row in tuned.tuning_}) > 4
    assert tuned.features_x_ is trained
    assert tuned.score(*test) > 0.95


def test_tuning_trains_anew_on_every_part(train, test):
    model = km.KernelBayesFilter(features=km.Neural(**BRIEF), reg=0.1, reg_smoother=0.3)
    tuned = model.tune(*train)
    best = min(tuned.tuning_, key=lambda row: row["error"])
    again = km.Neural(**BRIEF).fit_pairs(*train, tuned.kernel_z_)
    assert_array_equal(tuned.features_x_.transform(test[0]), again.transform(test[0]))
    assert np.isfinite(best["error"])


@pytest.mark.parametrize("rule", RULES)
def test_it_is_saved_and_loaded(rule, train, test, tmp_path):
    model = km.KernelBayesFilter(rule=rule, features=km.Neural(**BRIEF)).fit(*train)
    model.save(tmp_path / "filter.km")
    loaded = km.load(tmp_path / "filter.km")
    assert_allclose(loaded.filter(test[0]).mean(), model.filter(test[0]).mean(), rtol=1e-10)
    assert_allclose(loaded.smooth(test[0]).mean(), model.smooth(test[0]).mean(), rtol=1e-10)
    assert loaded.features.training.max_epochs == 2


def test_settings_of_the_network_are_reached_through_the_filter():
    training = km.Training(max_epochs=3)
    model = km.KernelBayesFilter(features=km.Neural()).set_params(features__training=training)
    assert clone(model).features.training == training

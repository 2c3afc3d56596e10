"""Learned features: the loss against the paper's formula, training, and kernel Bayes' rule."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import kernelmean as km

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from kernelmean.core.saving import _rebuild
from kernelmean.features.neural import (
    Neural,
    _Pairs,
    _standards,
    convolutions,
    joint_loss,
)
from kernelmean.features.training import seeded

SIDE = 10
QUICK = {"n_features": 8, "n_targets": 40, "training": km.Training(max_epochs=3), "device": "cpu"}


@pytest.fixture(autouse=True)
def _one_thread():
    """One thread: the suite runs on shared cores, and small products gain nothing from more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def bumps(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images of a bump of unknown brightness, whose place is the latent."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1, 1, (n, 2))
    grid = np.linspace(-1.3, 1.3, SIDE)
    down = np.exp(-((grid - Z[:, :1]) ** 2) / 0.08)
    across = np.exp(-((grid - Z[:, 1:]) ** 2) / 0.08)
    images = rng.uniform(0.5, 1.5, (n, 1, 1)) * down[:, :, None] * across[:, None, :]
    return (images + 0.15 * rng.normal(size=images.shape)).reshape(n, -1), Z


@pytest.fixture(scope="module")
def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Eight noisy curves of a latent on the line."""
    rng = np.random.default_rng(1)
    Z = rng.uniform(-1, 1, (120, 1))
    return np.sin(3 * Z * np.arange(1, 9)) + 0.1 * rng.normal(size=(120, 8)), Z


@pytest.fixture(scope="module")
def trained(pairs) -> Neural:
    return Neural(**QUICK).fit_pairs(*pairs)


def refuse(match: str, settings: dict, *args, **kwargs) -> None:
    with pytest.raises(ValueError, match=match):
        Neural(**{**QUICK, **settings}).fit_pairs(*args, **kwargs)


# ----------------------------------------------------------------------------------------- the loss
@pytest.fixture(params=["equal shares", "importance weights"])
def dense(request, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, targets and shares of 30 rows; some importance weights are zero."""
    d = np.full(30, 1 / 30)
    if request.param == "importance weights":
        d = np.maximum(rng.normal(0.5, 1, 30), 0)
        d /= d.sum()
    return rng.normal(size=(30, 4)), rng.normal(size=(30, 7)), d


def tensors(*arrays: np.ndarray) -> list:
    return [torch.tensor(a, dtype=torch.float64) for a in arrays]


@pytest.mark.parametrize("reg", [1e-4, 0.3])
def test_loss_is_the_papers_dense_trace(dense, reg):
    """tr(G_Z (D − DΨᵀ(ΨDΨᵀ + λI)⁻¹ΨD)), the features Ψ as columns (Xu 2022 §3.3)."""
    Psi, Phi, d = dense
    G, D, P = Phi @ Phi.T, np.diag(d), Psi.T
    inner = D @ P.T @ np.linalg.inv(P @ D @ P.T + reg * np.eye(4)) @ P @ D
    expected = np.trace(G @ (D - inner))
    assert_allclose(float(joint_loss(*tensors(*dense), reg)), expected, rtol=1e-10)


def test_loss_is_the_least_over_linear_maps(dense, rng):
    Psi, Phi, d = dense
    E = np.linalg.solve(Psi.T @ (d[:, None] * Psi) + 0.1 * np.eye(4), Psi.T @ (d[:, None] * Phi))

    def objective(E):
        return d @ ((Phi - Psi @ E) ** 2).sum(1) + 0.1 * (E**2).sum()

    least = float(joint_loss(*tensors(*dense), 0.1))
    assert_allclose(objective(E), least, rtol=1e-10)
    assert objective(E + 1e-3 * rng.normal(size=E.shape)) > least


def test_gradient_by_finite_differences(dense):
    Psi, Phi, d = tensors(*dense)
    Psi.requires_grad_()
    assert torch.autograd.gradcheck(lambda P: joint_loss(P, Phi, d, 0.05), (Psi,))
    # and once by hand, without torch's own machinery
    joint_loss(Psi, Phi, d, 0.05).backward()
    step = torch.zeros_like(Psi)
    step[3, 2] = 1e-6
    with torch.no_grad():
        up, down = (joint_loss(Psi + sign * step, Phi, d, 0.05) for sign in (1, -1))
    assert_allclose(float(up - down) / 2e-6, float(Psi.grad[3, 2]), rtol=1e-5, atol=1e-10)


def problem(pairs, **settings) -> tuple:
    """The training problem of `pairs`, unequal weights, and an untrained network."""
    X, Z = pairs
    features = Neural(**{**QUICK, **settings})
    features.n_features_in_ = X.shape[1]
    features.centre_, features.width_ = _standards(X, None)
    targets = km.RandomFourier(40).fit_transform(Z, km.Gaussian(0.5))
    weights = np.linspace(0.5, 2, len(X))
    with seeded(0, torch.device("cpu")):
        network = features._build(8)
    return _Pairs(features, X, targets, weights, torch.device("cpu")), network


def test_batch_loss_does_not_depend_on_the_scale_of_the_features(pairs):
    """λ is in units of their mean square, or the network could escape it by growing."""
    given, network = problem(pairs)
    with torch.no_grad():
        before = float(given.loss(network, np.arange(50)))
        network[-1].weight *= 100
        network[-1].bias *= 100
        assert_allclose(float(given.loss(network, np.arange(50))), before, rtol=1e-5)


def test_batch_loss_descends_along_its_gradient(pairs):
    """The slope in one direction of the network's weights, by finite differences."""
    given, network = problem(pairs)
    parameters = list(network.parameters())
    slopes = torch.autograd.grad(given.loss(network, np.arange(50)), parameters)
    size = float(sum((g**2).sum() for g in slopes))
    losses = []
    for step in (1e-3, -1e-3):
        with torch.no_grad():
            for w, g in zip(parameters, slopes, strict=True):
                w += step * g
            losses.append(float(given.loss(network, np.arange(50))))
            for w, g in zip(parameters, slopes, strict=True):
                w -= step * g
    assert_allclose((losses[0] - losses[1]) / 2e-3, size, rtol=0.02)


def test_held_out_loss_is_a_ridge_regression_on_the_other_rows(pairs, monkeypatch):
    monkeypatch.setattr("kernelmean.features.neural.BLOCK", 17)  # the moments are sums over blocks
    given, network = problem(pairs, reg=0.02)
    train, held_out = np.arange(90), np.arange(90, 120)
    with torch.no_grad():
        Psi = network(given.features._inputs(given.X, "cpu")).double().numpy()
    T, w = given.targets.numpy().astype(float), given.weights.numpy()
    d = w[train] / w[train].sum()
    A = Psi[train].T @ (d[:, None] * Psi[train])
    E = np.linalg.solve(A + 0.02 * np.trace(A) * np.eye(8), Psi[train].T @ (d[:, None] * T[train]))
    squares = ((T[held_out] - Psi[held_out] @ E) ** 2).sum(1)
    loss, scale = given.held_out_loss(network, train, held_out)
    assert_allclose(loss, np.average(squares, weights=w[held_out]), rtol=1e-5)
    assert_allclose(scale, np.sqrt(np.trace(A)), rtol=1e-5)


# ----------------------------------------------------------------------------------------- training
def test_training_lowers_the_held_out_loss(trained):
    assert trained.loss_ < 0.6 * trained.losses_[0]
    assert trained.losses_.shape == (4,)


def test_the_best_epoch_is_kept(pairs):
    """Latents that are noise: the held-out loss soon rises, and training stops."""
    X, Z = pairs[0], np.random.default_rng(0).normal(size=(120, 1))
    training = km.Training(batch_size=32, patience=5, max_epochs=60)
    psi = Neural(**{**QUICK, "training": training}).fit_pairs(X, Z)
    assert psi.loss_ == psi.losses_.min()
    assert psi.best_epoch_ == psi.losses_.argmin()
    assert len(psi.losses_) - 1 == psi.best_epoch_ + 5 < 60
    # training anew for that many epochs ends with the same weights
    training = replace(training, max_epochs=max(psi.best_epoch_, 1))
    again = Neural(**{**QUICK, "training": training}).fit_pairs(X, Z)
    assert psi.best_epoch_ > 0
    for name, w in psi.weights_.items():
        assert_array_equal(again.weights_[name], w)


def test_a_seed_gives_the_same_features(pairs, trained):
    X, Z = pairs
    assert_array_equal(Neural(**QUICK).fit_pairs(X, Z).transform(X), trained.transform(X))
    other = Neural(**QUICK, random_state=1).fit_pairs(X, Z)
    assert not np.allclose(other.transform(X), trained.transform(X))


def test_no_global_random_state_is_touched(pairs):
    before, legacy = torch.get_rng_state(), np.random.get_state()[1].copy()
    Neural(**QUICK).fit_pairs(*pairs).transform(pairs[0])
    assert torch.equal(torch.get_rng_state(), before)
    assert_array_equal(np.random.get_state()[1], legacy)


def test_pairs_of_zero_weight_play_no_part(pairs):
    X, Z = (a.copy() for a in pairs)
    weights = np.r_[np.linspace(1, 2, 80), np.zeros(40)]
    psi = Neural(**QUICK).fit_pairs(X, Z, km.Gaussian(0.5), weights)
    X[80:], Z[80:] = 1e3, -50.0
    same = Neural(**QUICK).fit_pairs(X, Z, km.Gaussian(0.5), weights)
    doubled = Neural(**QUICK).fit_pairs(X, Z, km.Gaussian(0.5), 2 * weights)
    assert_array_equal(same.transform(X[:80]), psi.transform(X[:80]))
    assert_allclose(doubled.loss_, psi.loss_, rtol=1e-6)


def test_a_loss_that_is_not_finite_keeps_the_last_good_weights(pairs):
    with pytest.warns(km.NumericalWarning, match="smaller learning_rate"):
        psi = Neural(
            **{**QUICK, "training": km.Training(max_epochs=3, learning_rate=1e30)}
        ).fit_pairs(*pairs)
    assert np.isfinite(psi.transform(pairs[0])).all()


def test_an_interruption_keeps_what_was_learned(pairs):
    def stop(done: int, total: int | None) -> None:
        if done == 2:
            raise KeyboardInterrupt

    psi = Neural(**{**QUICK, "training": km.Training(max_epochs=50)}, verbose=stop)
    with pytest.raises(KeyboardInterrupt):
        psi.fit_pairs(*pairs)
    assert len(psi.losses_) == 3
    assert psi.transform(pairs[0]).shape == (120, 8)


class Zeros(torch.nn.Linear):
    def forward(self, x):
        return 0 * super().forward(x)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"network": 3}, "network is or returns 3"),
        ({"network": torch.nn.Flatten(0)}, "network returned shape"),
        ({"network": Zeros(8, 4)}, "only zeros before any training"),
    ],
)
def test_a_refused_training_keeps_the_one_before(settings, match, pairs):
    X, Z = pairs
    psi = Neural(**QUICK).fit_pairs(X, Z)
    before = psi.transform(X)
    with pytest.raises(ValueError, match=match):
        psi.set_params(**settings).fit_pairs(X + 1.0, Z)
    assert_array_equal(psi.set_params(network=None).transform(X), before)


def test_progress_is_counted_in_epochs(pairs):
    seen = []
    Neural(**QUICK, verbose=lambda done, total: seen.append((done, total))).fit_pairs(*pairs)
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda(pairs, trained):
    X, Z = pairs
    before = torch.cuda.get_rng_state()
    psi = Neural(**{**QUICK, "device": "cuda"}).fit_pairs(X, Z)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert psi.loss_ < 0.6 * psi.losses_[0]
    on_gpu = psi.transform(X)
    psi.device = "cpu"
    assert_allclose(psi.transform(X), on_gpu, atol=1e-3)


# ---------------------------------------------------------------------------------- the trained map
def test_a_trained_map_is_a_feature_map(pairs, trained):
    X, _ = pairs
    Psi = trained.transform(X)
    assert Psi.shape == (120, 8) == (120, trained.rank_)
    assert Psi.dtype == np.float64
    assert_array_equal(trained.fit_transform(X, "gaussian"), Psi)
    assert trained.fit(X, "gaussian") is trained
    assert_allclose(trained.transform(X[5:6]), Psi[5:6], rtol=1e-5, atol=1e-6)


def test_kernel_is_the_inner_product_of_features(pairs, trained):
    X, _ = pairs
    k, Psi = trained.kernel_, trained.transform(X)
    few = trained.transform(X[:7])  # single precision: not Psi[:7] to the last digit
    assert_allclose(k(X, X[:7]), Psi @ few.T, rtol=1e-10, atol=1e-12)
    assert_allclose(k.diag(X), (Psi**2).sum(1), rtol=1e-10)
    assert k.resolve(X) is k
    assert 0.8 < k.diag(X).mean() < 1.2  # exactly one on the rows trained on


def test_blocks_give_the_same_features(pairs, trained, monkeypatch):
    whole = trained.transform(pairs[0])
    monkeypatch.setattr("kernelmean.features.neural.BLOCK", 13)
    assert_allclose(trained.transform(pairs[0]), whole, rtol=1e-5, atol=1e-6)


def test_tensors_and_tables_are_welcome(pairs, trained):
    pandas = pytest.importorskip("pandas")
    X, Z = pairs
    out = trained.transform(torch.tensor(X))
    assert isinstance(out, torch.Tensor)
    assert_array_equal(out.numpy(), trained.transform(X))
    psi = Neural(**QUICK).fit_pairs(pandas.DataFrame(X), pandas.Series(Z[:, 0]))
    assert_array_equal(psi.transform(pandas.DataFrame(X)), trained.transform(X))


def test_input_is_standardised_and_left_alone(pairs, trained):
    X, Z = pairs
    X, copy = X.copy(), X.copy()
    shifted = Neural(**QUICK).fit_pairs(1e3 + 1e4 * X, Z)
    assert_allclose(shifted.transform(1e3 + 1e4 * X), trained.transform(X), rtol=1e-2, atol=1e-3)
    assert_array_equal(X, copy)


def test_a_constant_column_does_no_harm(pairs):
    X, Z = pairs
    psi = Neural(**QUICK).fit_pairs(np.column_stack([X, np.full(120, 0.1)]), Z)
    assert np.isfinite(psi.transform(np.column_stack([X, np.full(120, 0.1)]))).all()


@pytest.mark.parametrize("kernel_z", ["delta", "linear", km.Gaussian() + km.Linear()], ids=repr)
def test_kernels_without_a_spectrum(pairs, kernel_z):
    X, Z = pairs
    psi = Neural(**QUICK).fit_pairs(X, np.round(2 * Z), kernel_z)
    assert psi.loss_ < psi.losses_[0]


def test_own_modules_and_callables(pairs):
    X, Z = pairs
    module = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.2), torch.nn.ReLU()
    )
    before = {k: v.clone() for k, v in module.state_dict().items()}
    psi = Neural(module, **QUICK).fit_pairs(X, Z)
    assert psi.rank_ == 16  # the module decides, not n_features
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert_array_equal(psi.transform(X), psi.transform(X))  # no dropout now
    made = [Neural(lambda: torch.nn.Linear(8, 5), **QUICK).fit_pairs(X, Z) for _ in range(2)]
    assert_array_equal(made[0].transform(X), made[1].transform(X))


def test_image_rows_reach_the_network_as_images(rng):
    X, Z = rng.normal(size=(40, 2 * 5 * 7)), rng.normal(size=40)
    X[:, 35:] *= 9
    shapes = []

    class Watch(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = convolutions((2, 5, 7), 6)

        def forward(self, x):
            shapes.append(tuple(x.shape[1:]))
            return self.inner(x)

    Neural(Watch, **QUICK, image_shape=(2, 5, 7)).fit_pairs(X, Z)
    assert set(shapes) == {(2, 5, 7)}
    centre, width = _standards(X, (2, 5, 7))
    assert len(set(width)) == 2  # one per channel
    assert_allclose(width[[0, -1]], [1, 9], rtol=0.05)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 9), (1, 8, 8)])
def test_default_convolutions_take_any_size(shape):
    assert convolutions(shape, 6)(torch.zeros(2, *shape)).shape == (2, 6)


# ------------------------------------------------------------------------------- saving and cloning
@pytest.mark.parametrize("settings", [{}, {"image_shape": (2, 2, 2)}], ids=["vectors", "images"])
def test_save_and_load(pairs, tmp_path, settings):
    X, Z = pairs
    psi = Neural(**QUICK, **settings).fit_pairs(X, Z)
    psi.save(tmp_path / "psi.km")
    again = km.load(tmp_path / "psi.km")
    assert_array_equal(again.transform(X), psi.transform(X))
    assert_array_equal(again.kernel_(X), psi.kernel_(X))
    assert again.loss_ == psi.loss_


def test_own_modules_are_not_saved(pairs, tmp_path):
    psi = Neural(torch.nn.Linear(8, 4), **QUICK).fit_pairs(*pairs)
    with pytest.raises(ValueError, match="a Linear cannot be saved"):
        psi.save(tmp_path / "psi.km")


def test_cloning_keeps_training_and_copies_settings(trained):
    assert clone(trained) is trained
    module = torch.nn.Linear(8, 4)
    copy = clone(Neural(module, training=km.Training(max_epochs=7)))
    assert copy.training.max_epochs == 7
    assert not copy.trained
    assert copy.network is not module


# ----------------------------------------------------------------------------------------- refusals
def test_untrained_maps_say_what_they_need(pairs):
    X, Z = pairs
    with pytest.raises(ValueError, match=r"fit_pairs\(X, Z\).*KernelBayes"):
        Neural().fit(X, "gaussian")
    with pytest.raises(ValueError, match="learn from pairs"):
        km.DensityRatio(features=Neural()).fit(X, X + 1)
    with pytest.raises(NotFittedError):
        Neural().transform(X)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"reg": 0}, "reg is 0"),
        ({"training": km.Training(max_epochs=0)}, r"training\.max_epochs is 0"),
        ({"training": 200}, "training is 200; a Training is needed"),
        ({"n_features": 2.5}, "n_features is 2.5"),
        ({"n_targets": 7}, "n_targets is 7; an even number"),
        (
            {"training": km.Training(validation_fraction=1)},
            "validation_fraction is 1; a number betw",
        ),
        ({"training": km.Training(learning_rate=-1)}, "learning_rate is -1"),
        ({"device": "abacus"}, "device is 'abacus'"),
        ({"network": 3}, "network is or returns 3"),
        ({"network": lambda: None}, "network is or returns None"),
        ({"network": torch.nn.Flatten(0)}, r"network returned shape \(16,\)"),
        ({"image_shape": (8, 8)}, r"image_shape is \(8, 8\); \(channels"),
        ({"image_shape": (1, 3, 3)}, "9 numbers, but X has 8 columns"),
        ({"image_shape": (1, 2, 4.0)}, "image_shape is 4.0; a whole number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_settings(pairs, settings, match):
    refuse(match, settings, *pairs)


def test_bad_pairs(pairs):
    X, Z = pairs
    refuse("Z has 119 rows but X has 120", {}, X, Z[1:])
    refuse("X is too short", {}, X[:9], Z[:9])
    refuse("X contains NaN", {}, np.where(X > 1, np.nan, X), Z)
    refuse("1 negative", {}, X, Z, weights=np.r_[-1.0, np.ones(119)])
    refuse("9 positive", {}, X, Z, weights=np.r_[np.ones(9), np.zeros(111)])
    refuse("weights has 3 rows", {}, X, Z, weights=np.ones(3))


def test_a_network_that_is_broken_from_the_start(pairs):
    refuse("NaN, inf or only zeros before any training", {"network": Zeros(8, 4)}, *pairs)


def test_a_failed_training_leaves_no_half_trained_map(pairs):
    psi = Neural(**QUICK, network=torch.nn.Flatten(0))
    with pytest.raises(ValueError, match="network returned shape"):
        psi.fit_pairs(*pairs)
    assert not psi.trained
    assert not [name for name in vars(psi) if name.endswith("_")]


def test_new_points_need_the_same_columns(trained):
    with pytest.raises(ValueError, match="X has 3 features, but Neural is expecting 8"):
        trained.transform(np.zeros((2, 3)))


WITHOUT_TORCH = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hide())
import kernelmean as km
km.KernelBayes().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0])
try:
    km.Neural
except ImportError as err:
    print(err)
try:
    km.load(sys.argv[1])
except ValueError as err:
    print(err)
"""


def test_without_torch_the_rest_works_and_errors_name_the_remedy(trained, tmp_path):
    trained.save(tmp_path / "psi.km")
    command = [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path / "psi.km")]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("pip install 'torch>=2.3'") == 2
    assert run.stdout.count("kernelmean[nn]") == 2


# ------------------------------------------------------------------------------- kernel Bayes' rule
def mse(model: km.KernelBayes, X: np.ndarray, Z: np.ndarray) -> float:
    return float(((model.predict(X) - Z) ** 2).sum(1).mean())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_learned_features_beat_gaussian_ones_on_images(seed):
    """Measured squared errors (the prior's is 2/3), seeds 0, 1, 2: Gaussian 0.154, 0.183, 0.173;
    learned 0.042, 0.061, 0.050.
    """
    X, Z = bumps(500, seed)
    X_new, Z_new = bumps(400, 100 + seed)
    plain = mse(km.KernelBayes().fit(X, Z), X_new, Z_new)
    training = km.Training(max_epochs=12)
    psi = Neural(n_features=32, image_shape=(1, SIDE, SIDE), training=training, device="cpu")
    learned = mse(km.KernelBayes(features=psi).fit(X, Z), X_new, Z_new)
    assert learned < 0.5 * plain


@pytest.mark.parametrize("rule", ["importance", "squared"])
def test_kernel_bayes_trains_a_copy(pairs, rule):
    X, Z = pairs
    psi = Neural(**QUICK)
    model = km.KernelBayes(rule=rule, features=psi).fit(X, Z)
    assert not psi.trained
    assert model.features_x_.trained
    assert isinstance(model.features_z_, km.Nystroem)
    assert_array_equal(model.kernel_x_(X), model.features_x_.kernel_(X))
    prior = km.MeanEmbedding(Z[:40], kernel=model.kernel_z_)
    assert np.isfinite(model.predict(X[:5], prior)).all()


def test_kernel_bayes_uses_a_trained_map_as_it_is(pairs, trained):
    X, Z = pairs
    ratio = np.linspace(0.5, 1.5, 120)
    model = km.KernelBayes(features=trained, reg=1e-3, ratio=ratio).fit(X, Z)
    assert model.features_x_ is trained
    # the weights of the paper's §3.3 with the learned features
    Psi, psi, D = trained.transform(X), trained.transform(X[:4]), np.diag(ratio / 120)
    w = D @ Psi @ np.linalg.solve(Psi.T @ D @ Psi + 1e-3 * np.eye(8), psi.T)
    assert_allclose(model.weights(X[:4]), w.T, atol=1e-10)


def test_supervision_reaches_learned_features(pairs, trained):
    X, Z = pairs
    model = km.KernelBayes(features=trained, reg=1e-3).fit(X, Z)
    pulled = model.predict(X[:1], supervision=(X[:1], [[5.0]], 10.0))
    assert abs(pulled[0, 0] - 5) < abs(model.predict(X[:1])[0, 0] - 5) / 4


def test_kernel_bayes_with_learned_features_is_saved(pairs, tmp_path):
    X, Z = pairs
    model = km.KernelBayes(features=Neural(**QUICK)).fit(X, Z)
    model.save(tmp_path / "model.km")
    assert_allclose(km.load(tmp_path / "model.km").predict(X), model.predict(X), rtol=1e-12)


def test_lengthscales_are_not_tuned_for_learned_features(pairs):
    with pytest.raises(ValueError, match="tune_lengthscale is True, but learned features"):
        km.KernelBayes(features=Neural(**QUICK), tune_lengthscale=True).fit(*pairs)


def test_settings_are_reached_through_the_estimator():
    training = km.Training(max_epochs=3)
    model = km.KernelBayes(features=Neural()).set_params(features__training=training)
    assert clone(model).features.training == training


# ------------------------------------------------------------------- the keywords of version 1
OLD = {"epochs": 3, "batch_size": 64, "learning_rate": 1e-3, "weight_decay": 0.5}
OLD |= {"validation_fraction": 0.2, "patience": 7}
NEW = km.Training(3, 64, 1e-3, 0.5, 0.2, 7)


def test_old_keywords_work_and_say_what_to_give():
    with pytest.warns(
        FutureWarning, match=r"epochs=.* moved: give training=Training\(max_epochs=3"
    ):
        psi = Neural(**OLD)
    assert psi.training == NEW
    assert len(psi.get_params(deep=False)) == 9
    with pytest.warns(FutureWarning, match=r"give training=Training\(max_epochs=9\)"):
        model = km.KernelBayes(features=Neural()).set_params(features__epochs=9)
    assert model.features.training == km.Training(max_epochs=9)


def test_files_of_version_1_have_the_old_keywords(pairs, trained):
    old = {k: v for k, v in vars(trained).items() if k != "training"} | OLD
    loaded = _rebuild("neural.Neural", old)
    assert loaded.training == NEW
    assert_array_equal(loaded.transform(pairs[0]), trained.transform(pairs[0]))

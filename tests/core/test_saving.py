"""Saving and loading: the same numbers back, no pickle, and refusals for everything else."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import tracemalloc
import zipfile
from importlib.util import find_spec

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import kernels as sk
from sklearn.metrics import pairwise

import kernelmean as km

pytestmark = pytest.mark.usefixtures("short_searches")


@pytest.fixture
def data(xy) -> tuple[np.ndarray, ...]:
    X, Y = xy
    return X, Y, X + 0.5 * np.random.default_rng(3).normal(size=X.shape)


def round_trip(thing, tmp_path):
    path = tmp_path / "thing.km"
    thing.save(path)
    return km.load(path)


KERNELS = [
    km.Gaussian(),
    km.Gaussian(0.5),
    km.Gaussian((0.5, 1.5), columnwise=True),
    km.Laplace(0.5),
    km.Matern(0.8, 0.5),
    km.Matern(2.5, (0.5, 1.5)),
    km.Linear(offset=2.0),
    km.Delta(),
    km.Frobenius(),
    km.Frobenius(rotations=True),
    km.Periodic(0.7, period=24.0),
    km.Rotation(),
    (km.Gaussian(0.5) + km.Linear()) * km.Laplace(2.0),
    km.on_columns({0: km.Gaussian(0.8), 1: km.Delta()}),
    km.on_columns({"a": km.Gaussian(0.8), ("b", "c"): "linear"}),
]


# -------------------------------------------------------------------------------------- round trips
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels(kernel, tmp_path):
    again = round_trip(kernel, tmp_path)
    assert again == kernel
    assert type(again) is type(kernel)
    assert hash(again) == hash(kernel)


@pytest.mark.parametrize(
    "theirs",
    [
        sk.RationalQuadratic(),
        2.0 * sk.RBF(0.7) + sk.DotProduct(1.0),
        sk.RBF([0.5, 1.5]),
        sk.Exponentiation(sk.RBF(), 2),
    ],
    ids=str,
)
def test_scikit_learn_kernels(theirs, tmp_path, xy):
    kernel = km.as_kernel(theirs)
    assert_array_equal(round_trip(kernel, tmp_path)(xy[0]), kernel(xy[0]))


def test_precomputed(tmp_path, rng):
    A = rng.normal(size=(6, 6))
    kernel = km.Precomputed(A @ A.T)
    assert_array_equal(round_trip(kernel, tmp_path)([0, 3]), kernel([0, 3]))


@pytest.mark.parametrize(
    "make", [km.Nystroem(tol=1e-3), km.Exact(), km.RandomFourier(20)], ids=repr
)
def test_feature_maps(make, tmp_path, xy):
    X, new = xy
    make.fit(X, km.Gaussian(1.0))
    again = round_trip(make, tmp_path)
    assert_array_equal(again.transform(new), make.transform(new))
    assert again.get_params() == make.get_params()
    assert again.rank_ == make.rank_


def test_unfitted_things_are_saved_unfitted(tmp_path):
    for thing in (
        km.Nystroem(tol=1e-3),
        km.ConditionalEmbedding(reg=0.1),
        km.KernelIV(split=0.3),
        km.ConditionalDensity(reg=0.1, location=False),
        km.EmbeddedDensity(bandwidth=0.3),
    ):
        again = round_trip(thing, tmp_path)
        assert again.get_params() == thing.get_params()
        assert not [a for a in vars(again) if a.endswith("_") and not a.startswith("_")]


@pytest.mark.parametrize("batch", [False, True])
def test_mean_embeddings(batch, tmp_path, xy, rng):
    X, new = xy
    m = km.MeanEmbedding(X, rng.normal(size=(3, 30) if batch else 30), km.Gaussian(0.7))
    again = round_trip(m, tmp_path)
    assert_array_equal(again(new), m(new))
    assert_array_equal(again.mean(), m.mean())
    assert_array_equal(again.weights, m.weights)
    assert again.kernel == m.kernel
    assert again.batch == m.batch


@pytest.mark.slow
def test_conditional_embeddings_and_what_comes_out_of_them(tmp_path, xy):
    X, Y = xy
    c = km.ConditionalEmbedding(tune_lengthscale=True).fit(X, Y)
    again = round_trip(c, tmp_path)
    assert_array_equal(again.predict(X), c.predict(X))
    assert_array_equal(again.weights(X), c.weights(X))
    assert again.loo_score(0.1) == c.loo_score(0.1)
    assert (again.reg_, again.loo_score_) == (c.reg_, c.loo_score_)
    m = c.at(X)
    assert_array_equal(round_trip(m, tmp_path)(Y), m(Y))
    joint = km.product_rule(c, km.MeanEmbedding(X, kernel=c.kernel_x_))
    assert_array_equal(round_trip(joint, tmp_path)(np.hstack([X, Y])), joint(np.hstack([X, Y])))
    assert_array_equal(
        again.apply(km.MeanEmbedding(X, kernel=c.kernel_x_)).weights,
        c.apply(km.MeanEmbedding(X, kernel=c.kernel_x_)).weights,
    )


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"location": True},
        {"location": False, "kernel_y": "laplace"},
        {"kernel_x": km.on_columns({0: km.Gaussian(0.8), 1: "laplace"}), "reg": 0.1},
        {"features": km.Exact(), "bandwidth": 0.4},
    ],
    ids=["default", "location", "laplace", "columns", "exact"],
)
def test_conditional_densities(parameters, columns, tmp_path, xy):
    X, Y = xy[0], xy[1][:, :columns]
    model = km.ConditionalDensity(**parameters).fit(X, Y[:, 0] if columns == 1 else Y)
    again = round_trip(model, tmp_path)
    assert (again.reg_, again.loo_score_, again.intercept_) == (
        model.reg_,
        model.loo_score_,
        model.intercept_,
    )
    assert again.kernel_x_ == model.kernel_x_
    assert again.kernel_y_ == model.kernel_y_
    assert (again.location_ is None) == (model.location_ is None)
    for name in ("bandwidth_", "scales_", "points_", "points_x_"):
        assert_array_equal(getattr(again, name), getattr(model, name))
    for ask in (
        lambda m: m.pdf(Y, X),
        lambda m: m.pdf(Y[:4], X, paired=False),
        lambda m: m.cdf(Y, X),
        lambda m: m.weights(X),
        lambda m: m.predict(X),
        lambda m: m.predict_quantile(X, [0.1, 0.5]),
        lambda m: m.sample(X, 3, random_state=0),
        lambda m: m.loo_score(bandwidth=0.5, reg=0.2),
        lambda m: m.score(X, Y),
    ):
        assert_array_equal(ask(again), ask(model))
    if "kernel_x" not in parameters:
        assert again.loo_score(lengthscale=0.7) == model.loo_score(lengthscale=0.7)
    assert_array_equal(pickle.loads(pickle.dumps(model)).pdf(Y, X), model.pdf(Y, X))


def test_conditional_densities_with_column_names(tmp_path, xy):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(xy[0], columns=["a", "b"])
    model = km.ConditionalDensity(reg=0.1).fit(frame, pd.Series(xy[1][:, 0], name="y"))
    again = round_trip(model, tmp_path)
    assert again.target_names_ == ["y"]
    assert_array_equal(again.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[["b", "a"]])


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_embedded_densities(kernel, tmp_path, xy, rng):
    X, new = xy
    model = km.EmbeddedDensity(kernel).fit(X, sample_weight=rng.normal(1, 1, size=30))
    again = round_trip(model, tmp_path)
    assert_array_equal(again.bandwidth_, model.bandwidth_)
    assert again.loo_score_ == model.loo_score_
    assert_array_equal(again.pdf(new), model.pdf(new))
    assert_array_equal(again.score_samples(new), model.score_samples(new))
    assert_array_equal(again.sample(5, random_state=0), model.sample(5, random_state=0))
    assert again.loo_score(0.3) == model.loo_score(0.3)


def test_compositions(tmp_path, xy):
    X, Y = xy
    both = km.ConditionalEmbedding(reg=0.1).fit(Y, X) @ km.ConditionalEmbedding(reg=0.1).fit(X, Y)
    assert_array_equal(round_trip(both, tmp_path).predict(X), both.predict(X))


def test_density_ratios(tmp_path, xy):
    X, U = xy
    r = km.DensityRatio().fit(X, U)
    again = round_trip(r, tmp_path)
    assert_array_equal(again.predict(U), r.predict(U))
    assert_array_equal(again.weights_, r.weights_)


@pytest.mark.parametrize("features", [None, km.Exact(), km.RandomFourier(50)], ids=repr)
def test_kernel_iv(features, tmp_path, data):
    X, Y, Z = data
    iv = km.KernelIV(features=features).fit(X, Y[:, 0], Z, C=Y[:, 1])
    again = round_trip(iv, tmp_path)
    assert_array_equal(again.predict(X, Y[:, 1]), iv.predict(X, Y[:, 1]))
    assert again.summary() == iv.summary()


def assert_same(a, b) -> None:
    """To rounding: arrays come back contiguous, and sums over them in another order."""
    assert_allclose(a, b, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["importance", "squared"])
@pytest.mark.parametrize(
    "features", [None, km.Nystroem(tol=1e-3), km.Exact(), km.RandomFourier(20)], ids=repr
)
def test_kernel_bayes_filters(rule, features, tmp_path):
    train, test = (km.datasets.make_rotation(n, random_state=n) for n in (80, 20))
    model = km.KernelBayesFilter(rule, features=features, max_active=60)
    model.fit(train.X, train.Z, [30, 50])
    again, X = round_trip(model, tmp_path), test.X.copy()
    X[3] = np.nan
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    for verb in ("filter", "smooth"):
        a, b = (getattr(m, verb)(X, [5, 15]) for m in (again, model))
        assert_same(a.mean(), b.mean())
        assert_same(a.embedding.weights, b.embedding.weights)
    ahead = [m.forecast(X, 3) for m in (again, model)]
    assert_same(*(f.embedding.weights for f in ahead))
    assert_same(*(f.observations.embedding.weights for f in ahead))
    stream = [m.start(test.Z[:2]).update(X[0]).predict().mean() for m in (again, model)]
    assert_same(*stream)
    assert again.score(test.X, test.Z) == pytest.approx(model.score(test.X, test.Z))
    refitted = again.fit(train.X, train.Z, [30, 50]).predict(test.X)
    assert_same(refitted, model.predict(test.X))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["importance", "squared"])
def test_tuned_filters(rule, tmp_path):
    data = km.datasets.make_rotation(50, random_state=0)
    model = km.KernelBayesFilter(rule, reg=1e-2, features=km.Nystroem(tol=1e-2))
    model = model.tune(data.X, data.Z[:, 0], validation=0.3)
    again = round_trip(model, tmp_path)
    assert again.tuning_ == model.tuning_
    assert again.kernel_x == model.kernel_x
    assert again.predict(data.X).shape == (50,)
    assert_same(again.smooth(data.X).mean(), model.smooth(data.X).mean())


def test_filters_on_manifolds_and_by_name(tmp_path):
    pd = pytest.importorskip("pandas")
    data = km.datasets.make_hidden_angle(60, random_state=0)
    X = pd.DataFrame(data.X, columns=["a", "b"])
    kernel = km.on_columns({"a": km.Gaussian(0.5), "b": "laplace"})
    model = km.KernelBayesFilter(kernel_x=kernel, kernel_z="periodic").fit(X, data.theta)
    again = round_trip(model, tmp_path)
    assert_same(again.predict(X, point="mode"), model.predict(X, point="mode"))
    with pytest.raises(ValueError, match="(?i)name"):
        again.predict(X.rename(columns={"a": "z"}))
    track = round_trip(model.filter(X).embedding, tmp_path)
    assert_same(track.mean(), model.filter(X).mean())


def test_unfitted_filters_and_filters_with_functions(tmp_path, xy):
    model = km.KernelBayesFilter("squared", reg=0.1, features=km.Nystroem(tol=1e-3))
    again = round_trip(model, tmp_path)
    assert repr(again) == repr(model)
    with pytest.raises(ValueError, match="fit"):
        again.filter(xy[0])
    with pytest.raises(ValueError, match="(?i)function|callable|code"):
        km.KernelBayesFilter(kernel_x=lambda A, B: A @ B.T).fit(*xy).save(tmp_path / "c.km")


def test_filters_survive_pickle(xy):
    for rule in ("importance", "squared"):
        model = km.KernelBayesFilter(rule).fit(*xy)
        again = pickle.loads(pickle.dumps(model))
        assert_same(again.smooth(xy[0]).mean(), model.smooth(xy[0]).mean())


def test_data_frame_names_come_back(tmp_path, data):
    pd = pytest.importorskip("pandas")
    X, Y, Z = data
    frame, C = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame({"c": Y[:, 1]})
    iv = km.KernelIV().fit(frame, pd.Series(Y[:, 0], name="sales"), Z, C)
    again = round_trip(iv, tmp_path)
    assert_array_equal(again.feature_names_in_, ["a", "b"])
    assert again.target_name_ == "sales"
    joined = pd.concat([C, frame], axis=1)
    assert_array_equal(again.predict(joined), iv.predict(joined))
    with pytest.raises(ValueError, match="(?i)name|column|lacks"):
        again.predict(joined.rename(columns={"a": "z"}))


def test_a_loaded_estimator_can_be_cloned_fitted_and_saved_again(tmp_path, xy):
    from sklearn.base import clone

    X, Y = xy
    c = round_trip(km.ConditionalEmbedding(km.Gaussian(0.5), reg=0.1).fit(X, Y), tmp_path)
    assert_array_equal(clone(c).fit(X, Y).predict(X), c.predict(X))
    assert_array_equal(round_trip(c, tmp_path).predict(X), c.predict(X))


def test_the_path_may_be_a_string_and_is_overwritten(tmp_path):
    path = os.fspath(tmp_path / "k.km")
    km.Gaussian(1.0).save(path)
    km.Gaussian(2.0).save(path)
    assert km.load(path) == km.Gaussian(2.0)
    assert os.listdir(tmp_path) == ["k.km"]  # nothing half-written is left


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder: .*nowhere'"):
        km.Gaussian().save(tmp_path / "nowhere" / "kernel.km")


def test_the_library_that_reads_is_not_the_one_that_was_pickled(tmp_path, xy):
    """The file is a zip of npy arrays and JSON; no member holds a pickle."""
    path = tmp_path / "c.km"
    km.ConditionalEmbedding().fit(*xy).save(path)
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            blob = archive.read(member)
            if member.endswith(".npy"):
                assert b"'|O'" not in blob[:128]
            else:
                json.loads(blob)


def test_estimators_also_survive_pickle(xy):
    """scikit-learn's own requirement (joblib sends estimators to other processes)."""
    X, Y = xy
    c = km.ConditionalEmbedding().fit(X, Y)
    assert_array_equal(pickle.loads(pickle.dumps(c)).predict(X), c.predict(X))


# --------------------------------------------------------------------------------------- refusals
@pytest.fixture
def saved(tmp_path, xy):
    path = tmp_path / "c.km"
    km.ConditionalEmbedding().fit(*xy).save(path)
    return path


def header_of(path) -> tuple[dict, dict]:
    with zipfile.ZipFile(path) as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    name = next(n for n in members if n.endswith(".json"))
    return {"name": name, "header": json.loads(members[name])}, members


def rewrite(path, members: dict) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, blob in members.items():
            archive.writestr(name, blob)


def forge(path, tree, blobs=()) -> None:
    """A file with a digest that is right, as anybody can write one."""
    digest = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for blob in blobs:
        digest.update(blob)
    header = {"format": "kernelmean", "version": 2, "sha256": digest.hexdigest(), "object": tree}
    arrays = {f"{i}.npy": blob for i, blob in enumerate(blobs)}
    rewrite(path, {"header.json": json.dumps(header), **arrays})


def test_every_tampered_byte_is_caught_or_harmless(saved, xy):
    """Flip one byte at a time, anywhere: an error, or (in zip padding such as dates) exactly the
    same object.
    """
    original, expected = saved.read_bytes(), km.load(saved).predict(xy[0])
    refused = 0
    for position in np.linspace(0, len(original) - 1, 150).astype(int):
        damaged = bytearray(original)
        damaged[position] ^= 0x10
        saved.write_bytes(damaged)
        try:
            assert_array_equal(km.load(saved).predict(xy[0]), expected)
        except ValueError:
            refused += 1
    assert refused > 120


def test_a_tampered_array_is_refused(saved):
    """A valid zip whose array was changed: only the digest can tell."""
    _, members = header_of(saved)
    name = next(n for n in members if n.endswith(".npy"))
    members[name] = members[name][:-8] + b"\0" * 8
    rewrite(saved, members)
    with pytest.raises(ValueError, match="(?i)alter|digest|damage"):
        km.load(saved)


def test_a_tampered_parameter_is_refused(tmp_path):
    path = tmp_path / "k.km"
    km.Gaussian(0.5).save(path)
    info, members = header_of(path)
    members[info["name"]] = members[info["name"]].replace(b"0.5", b"0.7")
    rewrite(path, members)
    with pytest.raises(ValueError, match="(?i)alter|digest|damage"):
        km.load(path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(saved, share):
    blob = saved.read_bytes()
    saved.write_bytes(blob[: int(share * len(blob))])
    with pytest.raises(ValueError, match="c.km"):
        km.load(saved)


def test_a_missing_member_is_refused(saved):
    _, members = header_of(saved)
    members.pop(next(n for n in members if n.endswith(".npy")))
    rewrite(saved, members)
    with pytest.raises(ValueError):
        km.load(saved)


def foreign_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")


def foreign_npz(path):
    with open(path, "wb") as file:
        np.savez(file, a=np.ones(3))


def foreign_json_header(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps([1, 2]))


def plain_text(path):
    path.write_text("not a model")


def a_pickle(path):
    path.write_bytes(pickle.dumps({"a": 1}))


def not_even_json(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", b"\xff\xfe{")


@pytest.mark.parametrize(
    "write", [foreign_zip, foreign_npz, foreign_json_header, plain_text, a_pickle, not_even_json]
)
def test_foreign_files_are_refused_by_name(write, tmp_path):
    path = tmp_path / "foreign.km"
    write(path)
    with pytest.raises(ValueError, match="(?i)foreign.km|kernelmean"):
        km.load(path)


def test_a_newer_version_is_refused_and_named(saved):
    info, members = header_of(saved)
    key = next(k for k in info["header"] if "version" in k.lower())
    info["header"][key] = 999
    members[info["name"]] = json.dumps(info["header"]).encode()
    rewrite(saved, members)
    with pytest.raises(ValueError, match="999"):
        km.load(saved)


def test_a_missing_file_is_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        km.load(tmp_path / "nowhere.km")


@pytest.mark.parametrize("bad", [None, 3, ["a"]])
def test_what_is_no_path_is_refused(bad):
    with pytest.raises((ValueError, TypeError)):
        km.load(bad)


def test_a_directory_is_refused(tmp_path):
    with pytest.raises((ValueError, OSError)):
        km.load(tmp_path)


class Bomb:
    """Unpickling this leaves a mark."""

    def __reduce__(self):
        return (os.mkdir, (os.environ["KM_BOMB"],))


def test_an_array_of_objects_is_never_unpickled(saved, tmp_path, monkeypatch):
    """Replace every array by one that holds a pickle; even with a matching digest it must not be
    run.
    """
    mark = tmp_path / "exploded"
    monkeypatch.setenv("KM_BOMB", str(mark))
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
    info, members = header_of(saved)
    forge(saved, info["header"]["object"], [buffer.getvalue()] * (len(members) - 1))
    with pytest.raises(ValueError):
        km.load(saved)
    assert not mark.exists()


@pytest.mark.parametrize(
    "cls",
    [
        "os.system",
        "subprocess.Popen",
        "kernels.math",
        "persistence.load",
        "kernels.as_kernel",
        "app.main",
        "moments.Moments",
        "_validation.NumericalWarning",
        "persistence.Path",
        "persistence.Saveable.save",
        "..os.system",
        "nowhere.Thing",
        "",
    ],
)
def test_a_file_cannot_name_any_class(cls, tmp_path):
    """Only classes of this package that say they can be saved are built, digest or no digest."""
    path = tmp_path / "k.km"
    km.Gaussian(0.5).save(path)
    forge(path, {**header_of(path)[0]["header"]["object"], "class": cls})
    with pytest.raises(ValueError):
        km.load(path)


def deep(kind: str, levels: int = 100_000) -> str:
    """JSON text too deep for any recursion."""
    return f'{{"{kind}": [' * levels + "]}" * levels


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"array": 0},
        {"array": 10**30},
        {"array": "0"},
        {"float": "one"},
        {"list": 3},
        {"dict": [[{"list": []}, 1]]},
        {"dict": [1]},
        {"class": "Gaussian", "state": 3},
        {"class": ["Gaussian"], "state": {"dict": []}},
        {"class": "Gaussian"},
        {"sklearn": "RBF", "state": {"dict": [["nope", 1]]}},
        {"sklearn": "Kernel", "state": {"dict": []}},
        {"sklearn": "kernel_metrics", "state": {"dict": []}},
        {"strange": 1},
    ],
    ids=repr,
)
def test_headers_that_make_no_sense_are_value_errors(tree, tmp_path):
    path = tmp_path / "odd.km"
    forge(path, tree)
    with pytest.raises(ValueError, match=r"odd\.km is not a kernelmean file"):
        km.load(path)


@pytest.mark.parametrize("header", [deep("list"), "[" * 100_000, "1" * 100_000, '"\\ud800"', ""])
def test_headers_that_break_parsers_are_value_errors(header, tmp_path):
    path = tmp_path / "odd.km"
    rewrite(path, {"header.json": header})
    with pytest.raises(ValueError, match=r"odd\.km"):
        km.load(path)


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header.encode() + data


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\x93NUMPY",
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}", bytes(8)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}", bytes(8)),
        npy("{'descr': '|V2000000000', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        npy("{'descr': 'nothing', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        npy("(" * 9000, bytes(8)),
        npy("[" * 9000 + "]" * 9000, bytes(8)),
        npy("'" * 3, bytes(8)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", bytes(8), b"\x09\x00"),
    ],
)
def test_arrays_that_are_not_what_they_say_are_value_errors(blob, tmp_path):
    path = tmp_path / "odd.km"
    forge(path, {"array": 0}, [blob])
    with pytest.raises(ValueError, match=r"odd\.km"):
        km.load(path)


@pytest.mark.slow
def test_a_small_file_is_not_unpacked_into_a_large_one(tmp_path):
    path = tmp_path / "bomb.km"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", " " * 100_000_000)
    assert path.stat().st_size < 200_000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="compressed or overlap"):
            km.load(path)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_members_that_overlap_are_refused(tmp_path):
    path = tmp_path / "many.km"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", " " * 100_000)
        archive.filelist *= 1_000
    with pytest.raises(ValueError, match="compressed or overlap"):
        km.load(path)


@pytest.mark.parametrize(("offset", "byte"), [(6, 1), (8, 99)], ids=["locked", "unknown method"])
def test_members_that_cannot_be_read_are_value_errors(saved, offset, byte):
    """zipfile raises RuntimeError of the one and NotImplementedError of the other."""
    blob = bytearray(saved.read_bytes())
    directory = blob.index(b"PK\x01\x02")
    blob[offset] = blob[directory + offset + 2] = byte
    saved.write_bytes(blob)
    with pytest.raises(ValueError, match=r"c\.km"):
        km.load(saved)


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_a_file_of_a_package_that_is_missing_says_which(tmp_path):
    forge(tmp_path / "net.km", {"class": "Neural", "state": {"dict": []}})
    with pytest.raises(ValueError, match="needs torch"):
        km.load(tmp_path / "net.km")


def cubic(A, B):
    return pairwise.polynomial_kernel(A, B, degree=3)


@pytest.mark.parametrize("named", [True, False])
def test_a_function_as_kernel_cannot_be_saved_and_the_message_says_why(named, tmp_path, xy):
    function = cubic if named else (lambda A, B: A @ B.T)
    c = km.ConditionalEmbedding(kernel_x=function).fit(*xy)
    with pytest.raises(ValueError, match="(?i)function|callable|code"):
        c.save(tmp_path / "c.km")
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_a_folder_that_does_not_exist_is_said(tmp_path):
    with pytest.raises((OSError, ValueError)):
        km.Gaussian(1.0).save(tmp_path / "no" / "where.km")

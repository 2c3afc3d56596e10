"""Writes the files of this folder: one object of each kind, saved, and what it answers.

Run on commit 9dbf440, before any module was moved, by

    PYTHONPATH=src OMP_NUM_THREADS=1 python tests/data/version1/make.py

and kept as the record of how the files were made. They are what users of version 0.1 have on their
disks: do not make them again with later code, which may write another format.
`tests/test_version1_files.py` loads each and compares its answers with `answers.npz`.
Missing: `Neural`, which needs PyTorch, and what holds a Python function, which is never saved.
Prints the classes that are in no file: bases, and steps of a computation that nothing keeps.
"""

from __future__ import annotations

import json
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sk

import kernelmean as km

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from version1_questions import PLANE, QUESTIONS, answers, value

RANK = km.Nystroem(tol=2e-2)

rng = np.random.default_rng(7)
X = rng.normal(size=(30, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.2 * rng.normal(size=(30, 2))
x, y = X[:, :1], Y[:, 0]
angles = rng.uniform(0, 2 * np.pi, (30, 1))
iv_data = km.datasets.make_iv_sigmoid(60, random_state=0)
IV = iv_data.X, iv_data.y, iv_data.Z
ring = km.datasets.make_rotation(40, random_state=0)
regimes = km.datasets.make_hmm("separated", 60, random_state=0)
wide = regimes.states[:, None] @ np.ones((1, 5)) + 0.3 * rng.normal(size=(60, 5))
path = km.datasets.make_state_space("linear", 40, random_state=0)


def kernels() -> dict[str, Any]:
    A = rng.normal(size=(6, 6))
    return {
        "gaussian": km.Gaussian(0.8),
        "gaussian_unresolved": km.Gaussian(),
        "gaussian_columns": km.Gaussian(columnwise=True).resolve(X),
        "gaussian_tuple": km.Gaussian((0.5, 1.5), columnwise=True),
        "gaussian4": km.Gaussian4(0.9),
        "laplace": km.Laplace(0.5),
        "matern": km.Matern(2.5, (0.5, 1.5)),
        "matern_08": km.Matern(0.8, 0.5),
        "periodic": km.Periodic(0.7, period=6.0),
        "rotation": km.Rotation(0.9),
        "linear": km.Linear(offset=2.0),
        "delta": km.Delta(),
        "frobenius": km.Frobenius(),
        "frobenius_rotations": km.Frobenius(rotations=True),
        "precomputed": km.Precomputed(A @ A.T),
        "sum": km.Gaussian(0.5) + km.Linear(),
        "product": km.Gaussian(0.5) * km.Laplace(2.0),
        "nested": (km.Gaussian(0.5) + km.Linear()) * km.Laplace(2.0),
        "on_columns": km.on_columns({0: km.Gaussian(0.8), 1: km.Laplace(0.4)}),
        "sklearn": km.as_kernel(sk.RationalQuadratic()),
        "sklearn_sum": km.as_kernel(2.0 * sk.RBF([0.5, 1.5]) + sk.DotProduct(1.0)),
    }


def features() -> dict[str, Any]:
    return {
        "nystroem": km.Nystroem(tol=1e-3).fit(X, km.Gaussian(1.0)),
        "exact": km.Exact().fit(X, km.Laplace(1.0)),
        "fourier": km.RandomFourier(20).fit(X, km.Gaussian(1.0)),
        "fourier_matern": km.RandomFourier(20, random_state=3).fit(X, km.Matern(1.5, 0.7)),
        "unfitted": km.Nystroem(tol=1e-3),
    }


def embeddings() -> Iterator[tuple[str, Any]]:
    yield "embedding", km.MeanEmbedding(X, rng.normal(1, 0.5, size=30), km.Gaussian(0.7))
    shares = rng.dirichlet(np.ones(30), size=3)
    yield "embedding_batch", km.MeanEmbedding(x, shares, km.Laplace(0.7))
    yield "embedding_periodic", km.MeanEmbedding(angles, kernel=km.Periodic(0.7))
    yield "embedding_gaussian4", km.MeanEmbedding(x, kernel=km.Gaussian4(0.7))
    c = km.ConditionalEmbedding(reg=0.1, features=RANK).fit(X, y)
    yield "embedding_joint", km.product_rule(c, km.MeanEmbedding(X, kernel=c.kernel_x_))


def conditionals() -> Iterator[tuple[str, Any]]:
    import pandas as pd

    yield "conditional", km.ConditionalEmbedding().fit(X, Y)
    yield "conditional_tuned", km.ConditionalEmbedding(tune_lengthscale=True).fit(X, Y)
    yield "conditional_exact", km.ConditionalEmbedding("laplace", features=km.Exact()).fit(X, Y)
    kernel = km.on_columns({"a": km.Gaussian(0.8), "b": "laplace"})
    frame = pd.DataFrame(X, columns=["a", "b"])
    yield "conditional_frame", km.ConditionalEmbedding(kernel).fit(frame, Y)
    back = km.ConditionalEmbedding(reg=0.1).fit(Y, X)
    yield "composition", back @ km.ConditionalEmbedding(reg=0.1).fit(X, Y)
    yield "ratio", km.DensityRatio().fit(X, Y)
    yield "ratio_relative", km.DensityRatio(relative=0.2, features=RANK).fit(X, Y)
    yield "bayes_importance", km.KernelBayes().fit(X, Y)
    yield "bayes_squared", km.KernelBayes("squared", features=RANK).fit(X, Y)


def filters() -> Iterator[tuple[str, Any]]:
    track = km.KernelBayesFilter(features=RANK).fit(ring.X, ring.Z, [15, 25])
    yield "filter_importance", track
    yield "filter_squared", km.KernelBayesFilter("squared", features=RANK).fit(ring.X, ring.Z)
    yield "filter_exact", km.KernelBayesFilter(features=km.Exact()).fit(ring.X[:20], ring.Z[:20])
    tuned = km.KernelBayesFilter(reg=1e-2, features=km.Nystroem(tol=1e-2))
    yield "filter_tuned", tuned.tune(ring.X, ring.Z, validation=0.3)
    yield "filter_track", value(track.filter(PLANE).embeddings)


def densities() -> Iterator[tuple[str, Any]]:
    yield "density", km.ConditionalDensity().fit(x, y)
    yield "density_location", km.ConditionalDensity(location=True, features=RANK).fit(x, y)
    plain = km.ConditionalDensity(location=False, kernel_y="laplace", features=RANK)
    yield "density_no_location", plain.fit(x, y)
    yield "density_gaussian4", km.ConditionalDensity(kernel_y=km.Gaussian4()).fit(x, y)
    yield "density_two_columns", km.ConditionalDensity(features=RANK).fit(x, Y)
    yield "embedded_density", km.EmbeddedDensity().fit(X)
    weights = rng.normal(1, 1, size=30)
    yield "embedded_density_line", km.EmbeddedDensity("laplace").fit(x, sample_weight=weights)
    yield "embedded_density_gaussian4", km.EmbeddedDensity(km.Gaussian4()).fit(x)
    yield "embedded_density_periodic", km.EmbeddedDensity(km.Periodic()).fit(angles)


def hidden() -> Iterator[tuple[str, Any]]:
    few = {"random_state": 0, "n_init": 2, "max_iter": 30, "features": RANK}
    yield "hmm", km.KernelHMM(2, **few).fit(regimes.X)
    yield "hmm_spectral", km.KernelHMM(2, refine=False, **few).fit(regimes.X)
    yield "hmm_forward", km.KernelHMM(2, inference="forward", **few).fit(regimes.X, [20, 40])
    both = {"refine": False, "inference": "forward"} | few
    yield "hmm_spectral_forward", km.KernelHMM(2, **both).fit(regimes.X)
    yield "hmm_variates", km.KernelHMM(2, **few).fit(wide)
    yield "hmm_discrete", km.KernelHMM(2, km.Delta(), **few).fit(np.round(2 * regimes.X))


def state_spaces() -> Iterator[tuple[str, Any]]:
    few = {"random_state": 0, "n_init": 1, "max_iter": 5, "n_nodes": 9, "features": RANK}
    yield "state_space", km.KernelStateSpace(**few).fit(path.X)
    yield "state_space_kbr", km.KernelStateSpace(inference="kbr", **few).fit(path.X)
    few["n_particles"] = 20
    yield "state_space_particles", km.KernelStateSpace(inference="particles", **few).fit(path.X)
    yield "state_space_moments", km.KernelStateSpace(refine=False, **few).fit(path.X)
    two = np.hstack([path.X, np.roll(path.X, 1)])
    yield "state_space_uniform", km.KernelStateSpace(2, "uniform", **few | {"n_nodes": 12}).fit(two)


def instruments() -> Iterator[tuple[str, Any]]:
    import dask.array as da
    import pandas as pd

    few = {"features": RANK}
    plain = km.KernelIV(**few).fit(*IV)
    yield "iv", plain
    yield "iv_split", km.KernelIV(split=0.5, random_state=0, **few).fit(*IV)
    yield "iv_folds", km.KernelIV(split=4, random_state=0, **few).fit(*IV)
    yield "iv_trend", km.KernelIV(trend=1, **few).fit(*IV)
    C = rng.normal(size=(60, 1))
    yield "iv_exogenous", km.KernelIV(**few).fit(*IV, C=C)
    yield "iv_fourier", km.KernelIV(features=km.RandomFourier(20)).fit(*IV)
    columns = {"q": IV[1], "p": IV[0][:, 0], "z": IV[2][:, 0], "g": ["a", "b"] * 30}
    table = pd.DataFrame(columns)
    yield "iv_formula", km.KernelIV.from_formula("q ~ C(g) + [p ~ z]", table, **few)
    yield "iv_dask", km.KernelIV(**few).fit(*(da.from_array(a, chunks=20) for a in IV))
    data = {"Y": IV[1], "T": IV[0], "Z": IV[2]}
    yield "iv_effect", km.econml.KernelIVEffect(**few).fit(**data, W=C)
    yield "iv_effect_features", km.econml.KernelIVEffect(**few).fit(**data, X=C)
    yield "estimate", plain.average_derivative()
    yield "strength", plain.first_stage()
    yield "endogeneity", plain.endogeneity_test()


def everything() -> Iterator[tuple[str, Any]]:
    yield from ((f"kernel_{name}", kernel) for name, kernel in kernels().items())
    yield from ((f"features_{name}", thing) for name, thing in features().items())
    for part in (embeddings, conditionals, filters, densities, hidden, state_spaces, instruments):
        yield from part()


def classes_in(tree: Any) -> Iterator[str]:
    """Every name under "class" in a header."""
    if isinstance(tree, dict):
        if isinstance(tree.get("class"), str):
            yield tree["class"]
        for part in tree.values():
            yield from classes_in(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from classes_in(part)


def saveable() -> set[str]:
    """Names of all classes that can be saved, as headers write them."""

    def below(cls: type) -> Iterator[type]:
        for sub in cls.__subclasses__():
            yield sub
            yield from below(sub)

    (base,) = [c for c in km.MeanEmbedding.__mro__ if c.__name__ == "Saveable"]
    return {f"{c.__module__.removeprefix('kernelmean.')}.{c.__qualname__}" for c in below(base)}


def main() -> None:
    told: dict[str, np.ndarray] = {}
    found: set[str] = set()
    names = []
    clock = time.perf_counter()
    for name, thing in everything():
        names.append(name)
        told |= {f"{name}/{key}": a for key, a in answers(name, thing).items()}
        thing.save(HERE / f"{name}.km")
        with zipfile.ZipFile(HERE / f"{name}.km") as archive:
            found |= set(classes_in(json.loads(archive.read("header.json"))))
        size = (HERE / f"{name}.km").stat().st_size
        print(f"{name}: {size} bytes, {time.perf_counter() - clock:.2f} s")
        clock = time.perf_counter()
    assert sorted(names) == sorted(QUESTIONS)
    np.savez_compressed(HERE / "answers.npz", **told)
    print("in no file:", *sorted(saveable() - found), sep="\n  ")


if __name__ == "__main__":
    main()

"""Options as objects, keywords of the version before, and what every law of a chain answers."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import kernelmean as km

EM = km.EM(n_init=1, max_iter=3)


@cache
def table() -> pd.DataFrame:
    X = km.datasets.make_state_space("linear", 80, random_state=0).X
    days = pd.date_range("2024-01-01", periods=80, freq="D")
    return pd.DataFrame({"level": X[:, 0], "twice": 2 * X[:, 0] + np.sin(X[:, 0])}, index=days)


@cache
def hidden() -> km.KernelHMM:
    return km.KernelHMM(2, em=EM, bandwidth=0.5, random_state=0).fit(table())


@cache
def latent() -> km.KernelStateSpace:
    law = km.Normal(nodes=9)
    return km.KernelStateSpace(latent=law, em=EM, bandwidth=0.5, random_state=0).fit(table())


OLD = {
    "hmm": (
        lambda **old: km.KernelHMM(2, **old),
        {"n_init": 2, "max_iter": 9, "tol": 0.1, "directions": 3},
        {"em": km.EM(n_init=2, max_iter=9, tol=0.1, directions=3)},
    ),
    "em": (
        km.KernelStateSpace,
        {"n_init": 2, "guard": 3.0, "penalty": (1, 2)},
        {"em": km.EM(n_init=2, guard=3.0, penalty=(1, 2))},
    ),
    "latent": (
        lambda **old: km.KernelStateSpace(2, "uniform", **old),
        {"n_nodes": 15, "kernel_x": "laplace", "transition": np.sin},
        {"latent": km.Uniform(nodes=15, kernel="laplace", transition=np.sin)},
    ),
    "particles": (
        lambda **old: km.KernelStateSpace(inference="particles", **old),
        {"n_particles": 20},
        {"inference": km.Particles(20)},
    ),
    "kbr": (
        lambda **old: km.KernelStateSpace(inference="kbr", **old),
        {"reg": 0.1},
        {"inference": km.KernelRule(0.1)},
    ),
}


class TestOldKeywords:
    @pytest.mark.parametrize("case", OLD)
    def test_they_make_the_options(self, case):
        make, old, new = OLD[case]
        with pytest.warns(
            FutureWarning, match=f"{next(iter(old))}=.* moved: give {next(iter(new))}="
        ):
            model = make(**old)
        assert {name: getattr(model, name) for name in new} == new
        assert clone(model).get_params(deep=False) == model.get_params(deep=False)

    def test_they_can_be_set(self):
        model = km.KernelHMM(2, em=km.EM(tol=0.1))
        with pytest.warns(FutureWarning, match="max_iter= moved: give em=EM"):
            assert model.set_params(max_iter=5, n_components=3) is model
        assert (model.em, model.n_components) == (km.EM(tol=0.1, max_iter=5), 3)

    def test_at_most_ten_parameters(self):
        assert (
            max(len(m.get_params(deep=False)) for m in (km.KernelHMM(), km.KernelStateSpace()))
            <= 10
        )

    @pytest.mark.parametrize("name", ["embeddings", "observations", "observation"])
    def test_attributes(self, name):
        law = {
            "embeddings": lambda: latent().filter(table()),
            "observations": lambda: latent().forecast(table(), 2),
            "observation": lambda: latent().start(),
        }[name]()
        with pytest.warns(FutureWarning, match=f"{name} is now embedding"):
            old = getattr(law, name)
        assert_array_equal(old.weights, law.embedding.weights)


def test_bad_options_are_named():
    for model, message in (
        (km.KernelHMM(2, em=3), "em is 3; a EM is needed"),
        (km.KernelHMM(2, em=km.EM(guard=1.0)), "em.guard is not an option of this estimator"),
        (km.KernelStateSpace(latent=km.Normal(d=0)), "latent.d is 0"),
        (km.KernelStateSpace(inference=km.Particles(0)), "inference.n is 0"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            model.fit(table())


LAWS = {
    "regimes ahead": (lambda: hidden().forecast(table(), 3), 3, ["level", "twice"]),
    "states ahead": (lambda: latent().forecast(table(), 3), 3, ["level", "twice"]),
    "regime": (lambda: hidden().start(), None, ["level", "twice"]),
    "state": (lambda: latent().start(), None, ["level", "twice"]),
    "latent": (lambda: latent().filter(table()), 80, ["x"]),
}


@pytest.mark.parametrize("case", LAWS)
def test_every_law_answers_the_same(case):
    make, m, columns = LAWS[case]
    law, d = make(), len(columns)
    rows = () if m is None else (m,)
    assert law.mean().shape == law.std().shape == (*rows, d)
    assert law.cov().shape == (*rows, d, d)
    lower, upper = law.interval()
    assert lower.shape == upper.shape == (*rows, d)
    assert (lower <= upper).all()
    assert law.quantile([0.1, 0.5]).shape == (*rows, 2, d)
    Y = np.zeros((4, d))
    assert law.density(Y).shape == (*rows, 4)
    assert_allclose(np.exp(law.log_density(Y)), law.density(Y), atol=1e-12)
    assert np.shape(law.probability(lambda y: y[:, 0] > 0)) == rows
    assert law.sample(5, 0).shape == (*rows, 5, d)
    assert law.mode().shape == (*rows, d)
    frame = law.to_frame()
    assert list(frame.columns[::4]) == columns
    assert len(frame) == (1 if m is None else m)
    if case.endswith("ahead"):
        assert frame.index[0] == pd.Timestamp("2024-03-21")
    if case == "latent":
        assert (frame.index == table().index).all()


@pytest.mark.parametrize("make", [hidden, latent])
def test_summary(make):
    told = make().summary()
    assert "level, twice" in told
    assert "iterations of EM" in told
    assert len(told.table) > 8


@pytest.mark.parametrize("make", [hidden, latent])
def test_arrays_of_another_library_are_refused(make):
    strict = pytest.importorskip("array_api_strict")
    X = strict.asarray(table().to_numpy())
    with pytest.raises(ValueError, match="X is of array_api_strict"):
        make().filter(X)
    with pytest.raises(ValueError, match="x is of array_api_strict"):
        make().start().update(X[0, :])

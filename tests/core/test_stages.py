"""Where the time of a fit goes."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import kernelmean as km
from kernelmean.core.stages import evaluated, stage, timed, without_lines
from kernelmean.core.threads import side_by_side


class Model:
    def __init__(self, verbose=False, task=None):
        self.verbose, self.task = verbose, task

    @timed
    def fit(self):
        with stage("first"):
            self.task() if self.task else None
        with stage("second"):
            list(map(evaluated, [3.0, 1.0, 2.0]))
        return self


def test_seconds_by_stage():
    times = Model(task=lambda: time.sleep(0.02)).fit().fit_time_
    assert list(times) == ["first", "second", "total"]
    assert 0.02 <= times["first"] <= times["first"] + times["second"] <= times["total"]


def test_lines_name_stage_evaluations_and_loss(capsys):
    Model(verbose=True).fit()
    said = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"Model: first, \d+\.\d\d s", said[0])
    assert said[1].startswith("Model: second, 3 evaluations, least loss 1, ")
    assert said[2].startswith("Model: total, ")


@pytest.mark.parametrize("verbose", [False, lambda done, total: None])
def test_otherwise_silent(verbose, capsys):
    Model(verbose).fit()
    assert not any(capsys.readouterr())


def test_lines_can_be_left_out(capsys):
    with without_lines():
        assert list(Model(verbose=True).fit().fit_time_) == ["first", "second", "total"]
    assert capsys.readouterr().err == ""


def test_losses_count_where_they_are_evaluated(capsys):
    """Also in threads, and in stages that run at the same time."""

    def search(k: int):
        with stage(f"search {k}"):
            side_by_side(evaluated, [float(k)] * k, 2)

    Model(verbose=True, task=lambda: side_by_side(search, [2, 3], 2)).fit()
    said = capsys.readouterr().err
    for k in (2, 3):
        assert f"search {k}, {k} evaluations, least loss {k}, " in said


def test_a_fit_inside_a_fit_is_timed_apart():
    inner = Model()
    assert "second" in Model(task=inner.fit).fit().fit_time_
    assert list(inner.fit_time_) == ["first", "second", "total"]


def test_what_fails_leaves_nothing():
    def fail():
        raise RuntimeError("no")

    model = Model(task=fail)
    with pytest.raises(RuntimeError, match="no"):
        model.fit()
    assert not hasattr(model, "fit_time_")
    assert evaluated(1.0) == 1.0  # no fit is under way


def test_an_estimator_has_it_and_files_do_not(tmp_path):
    X = np.linspace(0, 1, 30)[:, None]
    model = km.ConditionalEmbedding().fit(X, X[:, 0])
    assert model.fit_time_["total"] > 0
    model.save(tmp_path / "m.km")
    assert not hasattr(km.load(tmp_path / "m.km"), "fit_time_")


@pytest.mark.parametrize(
    "model",
    [
        km.ConditionalEmbedding(),
        km.ConditionalDensity(reg=0.1),
        km.EmbeddedDensity(),
        km.KernelBayes(),
        km.KernelBayes("density", reg=0.1),
        km.DensityRatio(),
        km.KernelIV(tune_lengthscale=False),
        km.KernelBayesFilter(inference="kbr"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_that_fails_late_leaves_the_estimator_as_it_was(model, rng):
    """Of rows that are refused after the first steps, for they have no lengthscale."""
    X, Z = rng.normal(size=(60, 2)), rng.normal(size=(60, 4))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    two = {km.DensityRatio: (X, X + 0.3), km.KernelIV: (X, y, Z)}.get(type(model), (X, y))
    flat = [np.ones((60, 4)), *two[1:]]
    if isinstance(model, km.DensityRatio):
        flat[1] = flat[0]
    with pytest.raises(ValueError, match="constant"):
        model.fit(*flat)
    assert not [name for name in vars(model) if name.endswith("_")]
    ask = getattr(model.fit(*two), "pdf" if isinstance(model, km.EmbeddedDensity) else "predict")
    before = ask(two[0])
    with pytest.raises(ValueError, match="constant"):
        model.fit(*flat)
    np.testing.assert_array_equal(ask(two[0]), before)


@pytest.mark.slow
def test_every_estimator_tells_its_stages(rng, capsys):
    X = rng.normal(size=(40, 1))
    Z = X + 0.3 * rng.normal(size=(40, 1))
    kinds = km.ConditionalEmbedding, km.DensityRatio, km.EmbeddedDensity, km.KernelBayes
    for kind in kinds:
        kind(verbose=True).fit(X, Z)
        assert f"{kind.__name__}: total" in capsys.readouterr().err
        kind().fit(X, Z)
        assert not capsys.readouterr().err
    model = km.KernelBayesFilter(inference="kbr")  # ten parameters already
    model.fit(X, Z, verbose=True)
    assert "KernelBayesFilter: states, " in capsys.readouterr().err
    with pytest.raises(ValueError, match="verbose is 'x'; True or False is needed"):
        model.fit(X, Z, verbose="x")

"""Files that version 0.1 saved (format version 1) load, and answer what they answered then.

The files and `answers.npz` were written on commit 9dbf440 by `data/version1/make.py`, and stay as
they are whatever moves in the package; `version1_questions.py` says what each object is asked.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, clone
from version1_questions import NEEDS, QUESTIONS, answers

import kernelmean as km
from conftest import DATA
from kernelmean.bayes import left_out, prior
from kernelmean.core.minimise import DECADES
from kernelmean.features import landmarks

FOLDER = DATA / "version1"
# question: stem of files; MATH §13.1 took the old smoother's place, and quantiles of two columns
# no longer smooth the guard (the intervals are inside the old ones, below)
CHANGED = {"smooth": "filter_"} | dict.fromkeys(("low", "high", "quantile"), "state_space_uniform")
# Arrays come back contiguous, so sums over them may round otherwise; under SciPy 1.18 a distance
# between two curves that are nearly one differs by 3.4e-10 of itself.
CLOSE = 1e-9
GRID = 3e-6  # of what is read off a grid of an eighth of the bandwidth, which has other nodes now
STRONG = {"iv_exogenous", "iv_formula"}  # F of a line, which counts today, is above 10
DRAWN = {"interval", "derivative_interval"}  # of iv_*: as wide as 2,000 draws say, others now
NOISE = 0.08  # of their 95% quantile: 2% one standard error, of each of two
OFF_A_GRID = {"pdf", "cdf", "quantile", "sample", "low", "high"}


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, np.ndarray]]:
    """Answers by file and question."""
    told: dict[str, dict[str, np.ndarray]] = {}
    with np.load(FOLDER / "answers.npz") as archive:
        for key in archive.files:
            name, question = key.split("/")
            told.setdefault(name, {})[question] = archive[key]
    return told


def test_every_file_is_asked(recorded):
    assert {path.stem for path in FOLDER.glob("*.km")} == set(QUESTIONS) == set(recorded)


@pytest.mark.parametrize("name", QUESTIONS)
def test_parameters_that_came_later_are_what_they_were_then(name):
    for package in NEEDS.get(name, []):
        pytest.importorskip(package)
    model = km.load(FOLDER / f"{name}.km")
    if isinstance(model, BaseEstimator):
        assert type(model).__name__ in repr(model)
        assert clone(model).get_params().keys() == model.get_params().keys()


@pytest.fixture
def regularisers_as_then(monkeypatch):
    """What Bayes' rule chooses when asked: the η that scores best, by kernels; λ by one error.

    And landmarks were drawn of few rows, too.
    """

    least = left_out.RatioLeftOut.least
    monkeypatch.setattr(left_out.RatioLeftOut, "best", lambda found: least(found, DECADES[0]))
    monkeypatch.setattr(prior, "is_tuned", lambda kernel: False)
    monkeypatch.setattr(prior, "EVEN", np.inf)
    monkeypatch.setattr(landmarks, "FEW", 0)


def test_intervals_of_several_columns_are_narrower(recorded):
    name = "state_space_uniform"
    told = answers(name, km.load(FOLDER / f"{name}.km"))
    assert (told["low"] > recorded[name]["low"]).all()
    assert (told["high"] < recorded[name]["high"]).all()


@pytest.mark.usefixtures("regularisers_as_then")
@pytest.mark.parametrize("name", QUESTIONS)
def test_files_answer_as_they_did(name, recorded):
    for package in NEEDS.get(name, []):
        pytest.importorskip(package)
    told = answers(name, km.load(FOLDER / f"{name}.km"))
    assert told.keys() == recorded[name].keys()
    for question, expected in recorded[name].items():
        if question in CHANGED and name.startswith(CHANGED[question]):
            assert told[question].shape == expected.shape
            assert np.isfinite(told[question]).all()
            continue
        if expected.dtype.kind in "US":
            lines = told[question].item().splitlines()  # more may be said today
            lost = [line for line in expected.item().splitlines() if line not in lines]
            assert [line.split("  ")[0] for line in lost] == ["weak instruments"] * (name in STRONG)
            continue
        if question in DRAWN and name.startswith("iv"):
            told_width, width = (np.diff(band, axis=-1) for band in (told[question], expected))
            assert_allclose(told_width, width, rtol=NOISE, err_msg=question)
            told[question], expected = (band.mean(-1) for band in (told[question], expected))
        finite = np.abs(expected[np.isfinite(expected)])
        size = finite.max(initial=0.0)
        close = GRID if question in OFF_A_GRID else CLOSE
        assert_allclose(told[question], expected, rtol=close, atol=close * size, err_msg=question)

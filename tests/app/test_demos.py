"""The tables of the demo, and the methods beside ours, against their own recursions."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import kernelmean as km
from kernelmean.app.demos import tables


def test_sp500():
    pytest.importorskip("arch")
    (frame,) = tables.sp500().values()
    assert frame.shape == (5030, 2)
    assert [str(day.date()) for day in frame["day"].iloc[[0, -1]]] == ["1999-01-05", "2018-12-31"]
    worst = frame.loc[frame["return"].idxmin()]
    assert worst["return"] == pytest.approx(-9.47, abs=0.005)
    assert worst["day"] == pd.Timestamp("2008-10-15")


def test_sunspots_and_the_pacific():
    pytest.importorskip("statsmodels")
    (years,) = tables.sunspots().values()
    assert years["year"].tolist() == list(range(1700, 2009))
    (months,) = tables.pacific().values()
    assert len(months) == 61 * 12 - 6
    np.testing.assert_array_equal(months["in_half_a_year"][:-6], months["now"][6:])
    np.testing.assert_allclose(months["winter"] ** 2 + months["spring"] ** 2, 1, atol=1e-5)


def test_without_its_data_a_job_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arch.data.sp500", None)
    with pytest.raises(ImportError, match=r'pip install "kernelmean\[app\]"'):
        tables.sp500()


def test_two_stage_least_squares_of_one_instrument_is_a_ratio():
    pytest.importorskip("linearmodels")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["y", "x", "z"])
    ratio = np.cov(frame["z"], frame["y"])[0, 1] / np.cov(frame["z"], frame["x"])[0, 1]
    said = tables.effect(frame, "x", "z", [])
    assert float(said.split()[0].replace("−", "-")) == pytest.approx(ratio, abs=0.05)


def test_pinball_loss_by_hand():
    Q = np.array([[0.0, 1.0, 2.0, 3.0, 4.0]])
    loss = (0.05 * 2.5 + 0.25 * 1.5 + 0.5 * 0.5 + 0.25 * 0.5 + 0.05 * 1.5) / 5
    assert tables.judged(Q, np.array([2.5])) == [f"{loss:.3f}", "100%", "4.0 °C"]


@pytest.mark.slow
def test_influenza_against_rejection(monkeypatch):
    """Accepting the nearest of many simulations is slow and simple, and cannot share a mistake."""
    table, school = tables.influenza().values()
    latent, seen = ["infected_by_each", "days_ill"], tables.SEEN
    model = km.KernelBayes("density").fit(table[seen], table[latent])
    mean = model.posterior(school[seen]).mean()[0]
    monkeypatch.setattr(tables, "SIMULATIONS", 20_000)
    many, _ = tables.influenza().values()
    gap = (((many[seen] - school[seen].to_numpy()) / many[seen].std()) ** 2).sum(axis=1)
    kept = many.iloc[np.argsort(gap.to_numpy())[:100]]
    np.testing.assert_allclose(mean, kept[latent].mean(), rtol=0.12)

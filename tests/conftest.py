"""Shared data and the one rule for all tests: nothing random without a seed, nothing drawn on a
screen.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from kernelmean.chains.em import Effort
from kernelmean.core.minimise import descend

DATA = Path(__file__).parent / "data"
BRIEF = Effort(short=(2,), half_iter=2, more=1)


def pytest_terminal_summary(terminalreporter) -> None:
    """Say which tests took over a second and are not marked `slow`. No test fails by a clock."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, ())]
    late = {
        r.nodeid: r.duration
        for r in reports
        if r.when == "call" and r.duration > 1 and "slow" not in r.keywords
    }
    late = {test: t for test, t in late.items() if test.startswith("tests/")}
    if late:
        terminalreporter.section("over a second and not marked slow")
    for test, seconds in sorted(late.items(), key=lambda pair: -pair[1]):
        terminalreporter.write_line(f"{seconds:6.1f} s  {test}")


@pytest.fixture(scope="session")
def once() -> Callable:
    """`once(key, make)`: what `make()` answers, made once for all tests, which leave it alone."""
    made: dict = {}

    def get(key, make):
        if key not in made:
            made[key] = make()
        return made[key]

    return get


@pytest.fixture
def short_searches(request, monkeypatch) -> None:
    """Searches for lengthscales, rotations and bandwidths of EM stop after a few steps of a round.

    Those for regularisers too, in the best cell of the grid. For tests whose assertions do not
    depend on how good the lengthscales are: refusals, copies, repetitions, odd data.
    """
    if "thorough" not in request.keywords:
        shorten(monkeypatch)


@pytest.fixture(scope="module")
def short_searches_throughout():
    """The same for a whole file, with its fixtures."""
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        yield


def briefly(loss, start, bounds, steps, tol=1e-7):
    """Three steps of L-BFGS."""
    return descend(loss, start, bounds, min(steps, 3), tol)


def coarsely(loss, bounds, method, options):
    """Four steps of Brent's method."""
    return minimize_scalar(loss, bounds=bounds, method=method, options=options | {"maxiter": 4})


def shorten(monkeypatch) -> None:
    monkeypatch.setattr("kernelmean.core.minimise.minimize_scalar", coarsely)
    monkeypatch.setattr("kernelmean.instruments.search.ROWS", (400,))
    monkeypatch.setattr("kernelmean.densities.search.ROUNDS", 1)
    monkeypatch.setattr("kernelmean.bayes.odds.PENALTIES", (0.1,))
    for search in ("instruments.search", "densities.search", "densities.location"):
        monkeypatch.setattr(f"kernelmean.{search}.descend", briefly)
    monkeypatch.setattr("kernelmean.filtering.fit.SMOOTHED", 10)
    monkeypatch.setattr("kernelmean.filtering.tune.SCALES", ((2.0,), ()))
    monkeypatch.setattr("kernelmean.filtering.tune.REGS", ((10.0,), ()))
    monkeypatch.setattr("kernelmean.statespace.learn.EFFORT", BRIEF)
    monkeypatch.setattr("kernelmean.statespace.learn.STRONGER", (10.0,))
    monkeypatch.setattr("kernelmean.chains.em.NARROWEST", 0.25)
    monkeypatch.setattr("kernelmean.chains.em.WIDEST", 1.0)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240601)


@pytest.fixture(scope="session")
def sigmoid_draw() -> dict[str, np.ndarray]:
    """Singh 2019, sigmoid design: the authors' reference draw (columns x, y, z)."""
    table = np.genfromtxt(DATA / "kiv_sigmoid_n1000.csv", delimiter=",", names=True)
    return {"X": table["x"][:, None], "y": table["y"], "Z": table["z"][:, None]}


@pytest.fixture(scope="session")
def demand_draw() -> dict[str, np.ndarray]:
    """Singh 2019, demand design: the authors' reference draw (columns p, t, s, y, c)."""
    table = np.genfromtxt(DATA / "kiv_demand_rho0.5_n1000.csv", delimiter=",", names=True)
    exogenous = np.column_stack([table["t"], table["s"]])
    return {"P": table["p"][:, None], "y": table["y"], "I": table["c"][:, None], "C": exogenous}


@pytest.fixture
def xy() -> tuple[np.ndarray, np.ndarray]:
    """Thirty pairs, two columns each: y is a noisy curve in x."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.2 * rng.normal(size=(30, 2))
    return X, Y

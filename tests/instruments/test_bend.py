"""The test against a plane: by dense densities, its size, and what it does not need."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from kernelmean.instruments.basis import Polynomial
from kernelmean.instruments.bend import Plane, chance_of_plane, chance_of_squares

N = 400


def columns(seed: int, spread: float = 0.0) -> tuple:
    """A line and two powers of x beyond it, embeddings of both, and noise that goes with x.

    Its standard deviation grows with z.
    """
    z, v, w = np.random.default_rng(seed).normal(size=(3, N))
    x, e = z + v, (0.6 * v + 0.8 * w) * np.exp(spread * z)
    one = np.ones(N)
    plane = np.column_stack([one, x]), np.column_stack([one, z])
    return Plane.of(*plane), np.column_stack([z**2 + 1, z**3 + 3 * z]), x, e


@pytest.mark.parametrize("held", [1.0 / N, 0.3])
def test_chance_is_that_of_dense_chi_squares(held):
    """The slope with a prior of variance σ², or held as curves beside a line are, by ξ."""
    plane, R, x, e = columns(0, 0.5)
    y, regs = 1.0 + 2.0 * x + e, np.array([1e-3, 0.3])
    X, T = plane.X, plane.T
    found = chance_of_plane(Plane(X, T, np.array([0.0, held])), R, y, regs)
    cross = X.T @ T / N + np.diag([0.0, held])
    rest = y - X @ np.linalg.solve(cross.T, T.T @ y / N)
    R = R - T @ np.linalg.solve(cross, X.T @ R / N)
    c, omega = R.T @ rest / N, sum(np.outer(r, r) * u**2 for r, u in zip(R, rest, strict=True)) / N
    size = np.sqrt(omega.diagonal())
    noise = np.outer(size, size) * (N * omega / np.outer(size, size) + 2 * np.eye(2)) / (N + 2)
    chances = []
    for xi in regs:
        prior = np.diag(np.mean(rest**2) * np.mean(R**2, axis=0) ** 2 / xi)
        pull = np.linalg.inv(noise) - np.linalg.inv(noise + prior)  # cᵀ(pull)c is Σwz/n
        told, mean = N * c @ pull @ c, np.trace(pull @ noise)
        half = np.trace(pull @ noise @ pull @ noise)
        chances.append(chi2.sf(told * mean / half, mean**2 / half))
    assert found == pytest.approx(min(chances), rel=1e-8)


@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_a_line_is_contradicted_as_often_as_said(spread):
    """Also where the noise is larger at large z: 400 draws, four standard errors."""
    found = []
    for seed in range(400):
        plane, R, x, e = columns(seed, spread)
        found.append(chance_of_plane(plane, R, x + e, np.array([1e-3])) < 0.05)
    assert np.mean(found) == pytest.approx(0.05, abs=4 * (0.05 * 0.95 / 400) ** 0.5)


def test_a_bend_is_seen():
    plane, R, x, e = columns(0)
    line, bent = (chance_of_plane(plane, R, y, np.array([0.1])) for y in (x + e, 3 * x**2 + e))
    assert bent < 0.01 < 0.1 < line


def test_what_instruments_do_not_move_says_nothing():
    plane, R, x, e = columns(0)
    assert chance_of_plane(plane, 0.0 * R, x + e, np.array([0.1])) == 1.0
    assert chance_of_plane(plane, R, 0.0 * x, np.array([0.1])) == 1.0


def test_squares_are_tested_alone_beside_all_else():
    """By hand: c²/Ω of the one direction, χ² of one degree; a parabola in c is no bend of x."""
    z, v, w, c = np.random.default_rng(3).normal(size=(4, N))
    x, one = z + v, np.ones(N)
    Phi = np.column_stack([one, x, c, x**2 - 1, c**2 - 1])
    M = np.column_stack([one, z, c, z**2, c**2 - 1])
    y = x + 3 * c**2 + 0.6 * v + 0.8 * w
    rest = [0, 1, 2, 4]
    cross = Phi[:, rest].T @ M[:, rest] / N + np.diag([0, 1, 1, 1]) / N
    e = y - Phi[:, rest] @ np.linalg.solve(cross.T, M[:, rest].T @ y / N)
    r = M[:, 3] - M[:, rest] @ np.linalg.solve(cross, Phi[:, rest].T @ M[:, 3] / N)
    p = chi2.sf((r @ e) ** 2 / (r**2 @ e**2), 1)
    whole = Plane.of(Phi[:, rest], M[:, rest])
    aside = Plane.of(Phi[:, :3], M[:, :3]).beside((Phi[:, 4:], np.array([1 / N])))
    for plane in (whole, aside):
        assert chance_of_squares(plane, M[:, [3]], y) == pytest.approx(50 * p**2, rel=1e-8)
    assert p > 0.01
    assert chance_of_squares(whole, M[:, [3]], y + x**2) < 1e-4
    assert chance_of_squares(whole, M[:, []], y) == 1.0


def test_squares_of_some_columns():
    rows = np.random.default_rng(0).normal(size=(50, 3))
    plain = Polynomial.of(rows, 1)
    assert plain.with_degree(2).bends([0]) == [4]
    assert plain.with_lines([0]).with_degree(2).bends([0]) == []
    two = Polynomial.of(np.column_stack([rows[:, 0] > 0, rows[:, 1]]).astype(float), 1)
    assert two.with_degree(2).bends([0, 1]) == [4]
    assert plain.with_degree(3).bends([0]) == plain.with_degree(1).bends([0]) == []

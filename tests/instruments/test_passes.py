"""Rows that are not all looked at: the second pass makes the sums those of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelmean as km
from kernelmean.core import solves
from kernelmean.instruments import first_stage, groups, second_stage
from kernelmean.instruments.basis import Basis, Polynomial

REGS = {"reg_stage1": 1e-3, "reg_stage2": 1e-4, "trend": 1, "tune_lengthscale": False}


def fitted(rows: int, monkeypatch, split="loo", n: int = 900, **more):
    """On rows in the order that a fit puts them in: then landmarks are the same for any `rows`."""
    monkeypatch.setattr(groups, "LOOKED_AT", n)
    data = km.datasets.make_iv_sigmoid(n, random_state=7)
    known = 700 if split == "samples" else n
    ends = [(0, known), (known, n)] if known < n else [(0, n)]
    parts = [
        groups.Part(data.X[i:j], data.Z[i:j], data.y[i:j] if i == 0 else 0 * data.y[i:j]).unordered
        for i, j in ends
    ]
    X, Z, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "Z", "y"))
    y[known:] = np.nan
    monkeypatch.setattr(groups, "LOOKED_AT", rows)
    monkeypatch.setattr(groups, "KEPT", 0)
    return km.KernelIV(**REGS, split=split, **more).fit(X, y, Z), data


@pytest.mark.parametrize("split", ["loo", 3, 0.5, "samples"])
def test_coefficients_are_of_all_rows(split, monkeypatch):
    some, data = fitted(300, monkeypatch, split)
    every, _ = fitted(10**6, monkeypatch, split)
    assert_allclose(some.coef_, every.coef_, rtol=1e-9, atol=1e-9 * np.abs(every.coef_).max())
    # Ω and V are corrected by what was looked at
    width = lambda m: np.ptp(m.predict_interval(data.X[::90], simultaneous=False), axis=0)  # noqa: E731
    assert_allclose(width(some), width(every), rtol=0.02)
    assert some.specification_p_ == pytest.approx(every.specification_p_, abs=0.03)


def test_far_rows_take_the_same_passes(monkeypatch):
    here, data = fitted(60, monkeypatch)
    passes, slices = [], [slice(i, i + 100) for i in range(0, 900, 100)]

    class Counted:
        def __iter__(self):
            passes.append(1)
            return ((data.X[some], data.y[some], data.Z[some]) for some in slices)

    rows = km.Rows(Counted())
    assert rows.n == 900
    passes.clear()
    far = km.KernelIV(**REGS).fit(rows[0], rows[1], rows[2])
    assert len(passes) == 3  # the rows looked at, products, and what is none
    # the same coordinates: landmarks are of the rows that came here
    monkeypatch.setattr(groups, "LOOKED_AT", 10**6)
    again = km.KernelIV(**REGS).fit(rows[0], rows[1], rows[2])
    assert_allclose(far.predict(data.X), here.predict(data.X), atol=2e-3)
    assert_allclose(far.predict(data.X), again.predict(data.X), atol=2e-3)


def test_sums_of_the_second_pass_by_a_loop(monkeypatch):
    monkeypatch.setattr(groups, "LOOKED_AT", 20)
    monkeypatch.setattr(groups, "KEPT", 0)
    rng = np.random.default_rng(0)
    X, y, Z = rng.normal(size=(80, 1)), rng.normal(size=80), rng.normal(size=(80, 2))
    bases = [Basis(Polynomial.of(A, 2), km.Nystroem(1e-3).fit(A, km.Gaussian(1.5))) for A in (X, Z)]
    group, coef = groups.Group(groups.Part(X, Z, y), *bases), rng.normal(size=bases[0].width)
    first_stage.embed([group], 0.01, "loo")
    second_stage.see_through(group, coef, 80, 80, ["oo", "rr"])
    Phi, Theta = bases[0].transform(X), bases[1].transform(Z)
    A = np.linalg.inv(Theta.T @ Theta / 80 + 0.01 * np.eye(Theta.shape[1])) / 80
    MM, My, omega = 0.0, 0.0, 0.0
    for phi, theta, value in zip(Phi, Theta, y, strict=True):
        h, F = theta @ A @ theta, Phi.T @ Theta @ A @ theta
        M = (F - h * phi) / (1 - h)
        MM, My = MM + np.outer(M, M), My + M * value
        omega = omega + np.outer(M, M) * ((value - phi @ coef) / 80) ** 2
    moments = second_stage.embedded_moments(group)
    assert_allclose(moments.sums["mm"], MM, atol=1e-10)
    assert_allclose(moments.sums["my"][:, 0], My, atol=1e-10)
    found, told = second_stage.residual_sums([group], coef, 80, 80, None)
    assert_allclose(found, omega, atol=1e-13)
    assert_allclose(told.sums["r"], Theta.T @ (y - Phi @ coef), atol=1e-10)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("r", [6, 300])
def test_products_of_triangles(lower, r):
    rng = np.random.default_rng(1)
    K, A = rng.normal(size=(30, r)), rng.normal(size=(r + 3, r))
    R = solves.triangle(A)
    assert_allclose(R.T @ R, A.T @ A, atol=1e-12 * r)
    assert not np.tril(R, -1).any()
    T = R.T if lower else R
    kept = K.copy()
    assert_allclose(solves.times_transposed(K, T, lower), K @ T.T, atol=1e-12 * r)
    assert (kept == K).all()

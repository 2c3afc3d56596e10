"""What the judges say, against refits and dense Gaussian densities; and what they then take."""

from __future__ import annotations

import iv_oracles as slow
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.instruments import judges, second_stage

KX, KZ = km.Matern(1.5, 0.9), km.Matern(1.5, 1.1)
N = 30


def confounded(seed: int = 41) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    Z, V = rng.normal(size=(2, N, 1))
    X = Z + 0.6 * V
    return X, np.sin(2 * X[:, 0]) + V[:, 0] + 0.1 * rng.normal(size=N), Z


def dense(xi: float, degree: int | None) -> tuple[slow.Dense, np.ndarray]:
    X, y, Z = confounded()
    oracle = slow.Dense(KX, KZ, X, y, Z, 1e-2, xi, degree)
    return oracle, oracle.y


def evidence(oracle: slow.Dense, y: np.ndarray, xi: float) -> float:
    """log of the density of y with the constant integrated out, slopes of variance σ², best σ²."""
    p = oracle.trends
    flat, slopes, M = oracle.M[:, : min(p, 1)], oracle.M[:, min(p, 1) : p], oracle.M[:, p:]
    S = np.eye(N) + M @ M.T / (N * xi) + slopes @ slopes.T
    inverse = np.linalg.inv(S)
    if p:
        inner = flat.T @ inverse @ flat
        inverse = inverse - inverse @ flat @ np.linalg.solve(inner, flat.T @ inverse)
    q = y @ inverse @ y / N
    value = np.linalg.slogdet(S)[1] + (np.linalg.slogdet(inner)[1] if p else 0.0)
    return -0.5 * ((N - min(p, 1)) * np.log(q) + value)


def projected(oracle: slow.Dense, y: np.ndarray, xi: float) -> np.ndarray:
    """Each row's error of E[h(X) | z] where the row was left out of stage 2."""
    errors = []
    for i in range(N):
        others = np.arange(N) != i
        b = slow.stage2(oracle.M[others], y[others], xi, oracle.degree, 1, N)
        errors.append(y[i] - oracle.M[i] @ b)
    return np.array(errors)


def stage_of(oracle: slow.Dense, y: np.ndarray) -> second_stage.SecondStage:
    M = oracle.M
    return second_stage.SecondStage.of(M.T @ M / N, M.T @ y / N, oracle.trends, N, y @ y / N)


@pytest.mark.parametrize("degree", [None, 0, 1])
def test_evidence_is_a_gaussian_density(degree):
    oracle, y = dense(1.0, degree)
    stage = stage_of(oracle, y)
    regs = [1e-4, 1e-2, 1.0]
    got = np.array([stage.evidence(reg) for reg in regs])
    expected = np.array([evidence(oracle, y, reg) for reg in regs])
    assert_allclose(got - got[0], expected - expected[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("degree", [None, 0, 1])
def test_losses_are_those_of_refits(degree):
    oracle, y = dense(1.0, degree)
    loss = second_stage.CausalLeaveOneOut.of(stage_of(oracle, y), oracle.Phi, oracle.M, y, N)
    regs = [1e-3, 1e-1]
    found = loss.judged(regs)
    for i, xi in enumerate(regs):
        assert_allclose(found.projected[i], projected(oracle, y, xi) ** 2, rtol=1e-6)
        refits = slow.causal_errors(oracle.Phi, oracle.M, y, xi, degree, 1)
        assert found.causal[i] == pytest.approx(np.mean(refits**2), rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("degree", [0, 1])
def test_the_fit_has_the_regulariser_that_the_rule_takes(degree):
    """Three judges by refits and dense matrices."""
    X, y, Z = confounded()
    settings = {"reg_stage1": 1e-2, "trend": degree, "features": km.Exact()}
    iv = km.KernelIV(KX, KZ, **settings).fit(X, y, Z)
    own = dense(1.0, degree)[0].M[:, 1 if degree == 0 else 2 :]
    regs = second_stage.XI * np.sum(own**2) / N
    causal, errors, likely = [], [], []
    for xi in regs:
        oracle, target = dense(xi, degree)
        causal.append(oracle.loss2())
        errors.append(projected(oracle, target, xi) ** 2)
        likely.append(evidence(oracle, target, xi))
    left = [i for i in range(len(regs)) if causal[i] <= 2 * min(causal)]
    least = min(left, key=lambda i: errors[i].mean())

    def clearly_above(i: int) -> bool:
        gap = errors[i] - errors[least]
        return i != least and gap.mean() > 2.5 * gap.std() / N**0.5

    left = [i for i in left if not clearly_above(i)]
    left = [i for i in left if likely[i] >= max(likely[j] for j in left) - 3]
    assert iv.reg_stage2_ == pytest.approx(regs[min(left, key=lambda i: causal[i])], rel=1e-6)


def test_no_judge_decides_alone():
    """Wild, clearly wrong on the instruments' side, unlikely, pulled: what is left is taken."""
    rng = np.random.default_rng(40)
    fair = rng.exponential(size=200)
    noise = rng.normal(size=(2, 200))
    noise += 0.01 - noise.mean(1, keepdims=True)
    rows = np.array([fair, fair + 0.5 + 0.1 * rng.random(200), fair, *(fair + noise)])
    causal = np.array([9.0, 1.0, 1.1, 1.3, 1.2])
    likely = np.array([0.0, 5.0, -9.0, -0.5, -1.0])
    verdict = judges.Judged(causal, rows, likely)
    # the first explodes, the instruments contradict the second, the prior the third
    assert_array_equal(verdict.admissible(), [3, 4])
    assert verdict.best() == 4


def test_together_keeps_the_order():
    rng = np.random.default_rng(40)
    parts = [judges.Judged(rng.random(k), rng.random((k, 7)), rng.random(k)) for k in (2, 3)]
    whole = judges.Judged.together(parts)
    assert_array_equal(whole.causal[2:], parts[1].causal)
    assert whole.projected.shape == (5, 7)
    assert_array_equal(whole.evidence[:2], parts[0].evidence)

"""What the judges say, against refits and dense Gaussian densities; and what they then take."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace

import iv_oracles as slow
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.comparators import TwoStageLeastSquares
from kernelmean.features.base import Bare
from kernelmean.instruments import judges, second_stage
from kernelmean.instruments.basis import Basis, Polynomial, joint
from kernelmean.instruments.choice import Choice, Tried, rows_of
from kernelmean.instruments.first_stage import embed
from kernelmean.instruments.groups import Group, Part

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


def controls(oracle: slow.Dense) -> np.ndarray:
    slopes = slice(1, max(oracle.trends, 1))
    v, u = (oracle.Phi - oracle.M)[:, slopes], oracle.M[:, slopes]
    return np.hstack([v, v * u / (1 + abs(u)), v * u**2 / (1 + u**2)])


def controlled(oracle: slow.Dense, errors: np.ndarray) -> np.ndarray:
    """Errors less their ridge regression, from the other rows, on x − E[x | z] in rows left out.

    Its slope goes with u = E[x | z]: by u/(1 + |u|), and by u²/(1 + u²).
    """
    V, left = controls(oracle), []
    for i in range(N):
        others = np.arange(N) != i
        A = V[others].T @ V[others] / N + 1e-3 * np.eye(V.shape[1])
        left.append(errors[i] - V[i] @ np.linalg.solve(A, V[others].T @ errors[others] / N))
    return np.array(left)


def stage_of(oracle: slow.Dense, y: np.ndarray) -> second_stage.SecondStage:
    M = oracle.M
    return second_stage.SecondStage(M.T @ M / N, M.T @ y / N, oracle.trends, N, y @ y / N)


@pytest.mark.parametrize("degree", [None, 0, 1])
def test_evidence_is_a_gaussian_density(degree):
    oracle, y = dense(1.0, degree)
    stage = stage_of(oracle, y)
    regs = np.array([1e-4, 1e-2, 1.0])
    got = stage.evidence(regs)
    expected = np.array([evidence(oracle, y, reg) for reg in regs])
    assert_allclose(got - got[0], expected - expected[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("degree", [None, 0, 1])
def test_losses_are_those_of_refits(degree):
    oracle, y = dense(1.0, degree)
    stage, V = stage_of(oracle, y), controls(oracle)
    loss = second_stage.CausalLeaveOneOut(stage, oracle.Phi, oracle.M, y, V)
    regs = [1e-3, 1e-1]
    found = loss.judged(regs)
    for i, xi in enumerate(regs):
        assert_allclose(found.projected[i], projected(oracle, y, xi) ** 2, rtol=1e-6)
        refits = slow.causal_errors(oracle.Phi, oracle.M, y, xi, degree, 1)
        assert found.causal[i] == pytest.approx(np.mean(refits**2), rel=1e-7)
        clean = np.mean(controlled(oracle, refits) ** 2)
        assert found.controlled[i] == pytest.approx(clean, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("degree", [0, 1])
def test_the_fit_has_the_regulariser_that_the_rule_takes(degree):
    """Three judges by refits and dense matrices."""
    X, y, Z = confounded()
    settings = {"reg_stage1": 1e-2, "trend": degree, "features": km.Exact()}
    iv = km.KernelIV(KX, KZ, **settings).fit(X, y, Z)
    own = dense(1.0, degree)[0].M[:, 1 if degree == 0 else 2 :]
    regs = second_stage.XI * np.sum(own**2) / N
    causal, likely, clean = [], [], []
    for xi in regs:
        oracle, target = dense(xi, degree)
        refits = slow.causal_errors(oracle.Phi, oracle.M, target, xi, degree, 1)
        causal.append(np.mean(refits**2))
        likely.append(evidence(oracle, target, xi))
        clean.append(np.mean(controlled(oracle, refits) ** 2))
    left = [i for i in range(len(regs)) if causal[i] <= 2 * min(causal)]
    left = [i for i in left if likely[i] >= max(likely[j] for j in left) - 3]
    best = min(left, key=lambda i: causal[i] ** 2 * clean[i])
    assert iv.reg_stage2_ == pytest.approx(regs[best], rel=1e-6)


def verdict(causal, controlled, likely, bare=False) -> judges.Judged:
    given = map(np.array, (causal, controlled))
    bare = np.broadcast_to(bare, len(causal))
    return judges.Judged(*given, np.ones((len(causal), 9)), np.array(likely), bare)


def test_no_judge_decides_alone():
    """Wild, unlikely, pulled, not: the last is taken."""
    causal, likely = [9.0, 1.1, 1.3, 1.2], [0.0, -9.0, -0.5, -1.0]
    # the first explodes, the prior contradicts the second
    assert_array_equal(verdict(causal, [1.0] * 4, likely).admissible(), [2, 3])
    assert verdict(causal, [1.0] * 4, likely).best() == 3
    # a third judge sees through the one that is pulled: (1.3/1.2)² is 1.174
    assert verdict(causal, [1.0, 1.0, 1.0, 1.18], likely).best() == 2
    assert verdict(causal, [1.0, 1.0, 1.0, 1.17], likely).best() == 3


@pytest.mark.parametrize(
    ("chance", "lead", "off", "share"),
    [
        (0.1, 0.0, 0.01, 0.7 / 3.0),
        (0.01, 0.0, 0.01, 1.7 / 3.0),
        (1e-7, 0.0, 0.01, 6.7 / 3.0),
        (0.01, 0.0, -0.01, None),
        (2e-5, 0.0, -0.01, None),
        (1e-6, 0.0, -0.01, 5.7 / 3.0),
        (1e-6, -13.0, -0.01, None),
        (0.6, 0.0, 0.5, None),
        (0.01, -5.0, 0.5, 1.7 / 3.0),
        (0.01, -13.0, 0.5, None),
    ],
)
def test_a_line_goes_a_share_towards_what_bends(chance, lead, off, share):
    """(−log₁₀ p − .3)/3; not to what is unlikely, or of larger controlled loss, unless surely.

    None where the line, which is the second, is taken as it is.
    """
    told = verdict([1.0, 1.2], [1.0, 1.0 + off], [lead, 0.0], [False, True])
    found, bent = told.beside(1, chance, np.array([True, False]))
    assert found == (1 if share is None else 0)
    assert bent == pytest.approx(1.0 if share is None else share, abs=1e-12)


def test_a_line_goes_only_to_what_bends():
    told = verdict([1.0, 1.2, 1.0], [0.9, 1.1, 1.0], [0.0, 0.0, 0.0], [False, False, False])
    assert told.beside(1, 1e-7, np.array([False, False, True]))[0] == 2


def test_finer_landmarks_are_not_kept_where_they_miss_rows_left_out():
    """What bends was judged with ξ = 10⁻¹⁰ of its size: one more coordinate of h was free there.

    The error was 15.9 times that of two-stage least squares.
    """
    data = km.datasets.make_iv_linear(300, random_state=np.random.default_rng(842165))
    x, e = data.X[:, 0], data.y - data.truth(data.X)
    models = km.KernelIV(), TwoStageLeastSquares()
    ours, theirs = (model.fit(data.X, x + e, data.Z).predict(data.X) - x for model in models)
    assert np.mean(ours**2) < 1.5 * np.mean(theirs**2)


@pytest.mark.parametrize(
    ("lead", "loss", "sure", "taken"),
    [(0.1, 0.9, True, 1), (-0.1, 0.9, True, 0), (9.0, 1.1, True, 0), (9.0, 0.9, False, 0)],
)
def test_of_lines_least_squares_unless_a_kernel_is_surely_better(lead, loss, sure, taken):
    """By more evidence, and a projected loss that is no larger, whatever the causal losses."""
    told = verdict([1.0, 9.0], [1.0, 9.0], [0.0, lead], [True, False])
    told = replace(told, projected=np.array([[1.0, 1.0], [loss, loss]]))
    assert told.likeliest(np.array([0, 1]), sure) == taken


@pytest.mark.slow
@pytest.mark.thorough
def test_many_straight_columns_are_two_stage_least_squares():
    """The evidence of the kernels that were searched for is 20 to 26 units above the line's."""
    rng = np.random.default_rng(50)
    Z, e = rng.normal(size=(300, 10)), rng.normal(size=300)
    X = 0.8 * Z + 0.5 * e[:, None] + 0.3 * rng.normal(size=(300, 10))
    truth = X @ (1 / np.arange(1, 11))
    ours = km.KernelIV().fit(X, truth + e, Z).predict(X)
    plain = TwoStageLeastSquares().fit(X, truth + e, Z).predict(X)
    assert np.mean((ours - truth) ** 2) <= 1.2 * np.mean((plain - truth) ** 2)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:X has .* outside the training data")
@pytest.mark.parametrize(("n", "controls"), [(8, 2), (12, 3), (20, 4)])
def test_few_rows_of_several_columns_are_no_worse_than_two_stage_least_squares(n, controls):
    """With fewer than ten rows a column a kernel was taken untried, and y left by 200 ranges."""
    ours, theirs = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Z, C = rng.normal(size=(n, 1)), rng.normal(size=(n, controls))
        V = rng.normal(size=(n, 1))
        X = 1.5 * Z + V
        y = X[:, 0] + 0.5 * C.sum(1) + V[:, 0]
        new, beside = rng.normal(size=(200, 1)), rng.normal(size=(200, controls))
        truth = new[:, 0] + 0.5 * beside.sum(1)
        for model, errors in ((km.KernelIV(), ours), (TwoStageLeastSquares(), theirs)):
            errors.append(((model.fit(X, y, Z, C).predict(new, beside) - truth) ** 2).mean())
    assert np.median(ours) < 1.3 * np.median(theirs)
    assert max(ours) < 2 * max(theirs)


def test_a_kernel_of_which_instruments_tell_nothing_is_not_tried():
    """Embeddings are then the mean less the row that was left out: a perfect false instrument."""
    rng = np.random.default_rng(10)
    X, Z, C = rng.normal(size=(20, 1)), rng.normal(size=(20, 1)), rng.normal(size=(20, 4))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=20)
    model = km.KernelIV().fit(X, y, Z, C)
    assert model.basis_z_.features.rank_ == 0
    assert np.ptp(model.predict(X, C)) < 2 * np.ptp(y)


def test_many_straight_controls_leave_the_bend_to_the_regressor():
    """Two-stage least squares have .38 of the variance here, eleven scales of a kernel .09."""
    rng = np.random.default_rng(600)
    C, Z, e = rng.normal(size=(300, 10)), rng.normal(size=(300, 1)), rng.normal(size=300)
    X = Z + 0.5 * e[:, None] + 0.3 * rng.normal(size=(300, 1))
    truth = np.sin(2 * X[:, 0]) + C @ rng.normal(size=10) / 3
    model = km.KernelIV().fit(X, truth + 0.7 * e + 0.3 * rng.normal(size=300), Z, C)
    assert np.mean((model.predict(X, C) - truth) ** 2) < 0.07 * truth.var()


def test_together_keeps_the_order():
    rng = np.random.default_rng(40)

    def some(k: int) -> judges.Judged:
        bare = np.zeros(k, dtype=bool)
        return judges.Judged(*rng.random((2, k)), rng.random((k, 7)), rng.random(k), bare)

    parts = [some(2), some(3)]
    whole = judges.Judged.together(parts)
    assert_array_equal(whole.causal[2:], parts[1].causal)
    assert np.shape(whole.projected) == (5, 7)
    assert_array_equal(whole.evidence[:2], parts[0].evidence)


def test_weak_instruments_leave_a_line_with_fullers_constant():
    """The k-class of k = 1 − 1/(n − q), and 1/n of a standardised slope; F is 2.3."""
    rng = np.random.default_rng(601)
    Z, e = rng.normal(size=(300, 1)), rng.normal(size=300)
    X = 0.1 * Z + e[:, None] + 0.5 * rng.normal(size=(300, 1))
    model = km.KernelIV().fit(X, X[:, 0] + e, Z)
    u, w = ((A[:, 0] - A.mean()) / A.std() for A in (X, Z))
    y = X[:, 0] + e - (X[:, 0] + e).mean()
    fitted = w * (w @ u / 300)
    left, k = u - fitted, 1 / 298
    slope = (fitted + k * left) @ y / (fitted @ fitted + k * left @ left + 1)
    assert_allclose(np.ptp(model.predict(X)), slope * np.ptp(u), rtol=1e-6)
    assert "Fuller" in str(model.summary())


@pytest.mark.usefixtures("short_searches")
def test_what_controls_tell_of_a_regressor_is_no_strength_of_instruments():
    """R² of X on (Z, C) is .8, F of Z beside C about 3."""
    rng = np.random.default_rng(601)
    Z, C, e = rng.normal(size=(300, 1)), rng.normal(size=(300, 1)), rng.normal(size=300)
    X = 0.1 * Z + 2 * C + e[:, None]
    assert km.KernelIV().fit(X, X[:, 0] + C[:, 0] + e, Z, C)._fit.draft.weak


@pytest.mark.slow
@pytest.mark.thorough
def test_a_million_rows_have_no_wave():
    """With the instruments' lengthscale of a thousand rows the error is .53."""
    data = km.datasets.make_iv_sigmoid(1_000_000, random_state=9104)
    h = km.KernelIV().fit(data.X, data.y, data.Z).predict(data.grid)
    assert np.mean((h - data.truth(data.grid)) ** 2) < 0.02


def test_a_line_beside_controls_that_bend_is_two_stage_least_squares_with_their_squares():
    """The slope, and its error, are those of least squares; a kernel would draw it to zero."""
    rng = np.random.default_rng(2)
    z, (c, v, u) = rng.integers(0, 2, 600).astype(float), rng.normal(size=(3, 600))
    x = 0.8 * z + 0.5 * c - 0.4 * c**2 + v
    y = 0.5 * x + c - 0.7 * c**2 - 0.6 * v + 0.5 * u
    found = km.KernelIV().fit(x[:, None], y, z[:, None], c[:, None]).average_derivative(column=0)
    W = np.column_stack([np.ones(600), c, c**2])
    A, Z = np.column_stack([W, x]), np.column_stack([W, z])
    slope = np.linalg.solve(Z.T @ A, Z.T @ y)
    scores = Z * (y - A @ slope)[:, None]
    error = np.linalg.solve(Z.T @ A, np.linalg.solve(Z.T @ A, scores.T @ scores).T)[-1, -1] ** 0.5
    assert_allclose(found.value, slope[-1], rtol=0.005)
    assert_allclose(found.error, error, rtol=0.03)


def test_strong_instruments_need_no_constant():
    rng = np.random.default_rng(601)
    Z, e = rng.normal(size=(300, 1)), rng.normal(size=300)
    X = Z + 0.5 * e[:, None]
    assert not km.KernelIV().fit(X, X[:, 0] + e, Z)._fit.draft.weak


@pytest.mark.parametrize(
    ("bare", "line", "balanced", "two", "own", "band", "mean"),
    [
        (False, False, True, False, (5.0, 0.25), (5.0, 0.25), (2.0, 0.25)),
        (True, True, True, False, (1.0, 1.5), (1.0, 10.0), (1.0, 0.25)),
        (False, True, True, False, (5.0, 0.25), (5.0, 10.0), (2.0, 0.25)),
        (False, False, False, False, (1.0, 1.5), (1.0, 1.5), (1.0, 1.5)),
        (True, True, True, True, (1.0, 1.5), (1.0, 3.0), (1.0, 0.25)),
        (True, False, True, False, (1.0, 1.5), (1.0, 1.5), (1.0, 0.25)),  # products
        (False, True, True, True, (5.0, 0.25), (5.0, 3.0), (2.0, 0.25)),
    ],
)
def test_a_band_is_of_noise_and_of_the_candidates_about_what_is_taken(
    bare, line, balanced, two, own, band, mean
):
    """V + B at the points is aV + bD, D = Σ w (h − taken)(h − taken)ᵀ by dense solves."""
    oracle, y = dense(1.0, 1)
    rng, width = np.random.default_rng(40), oracle.Phi.shape[1]
    regs, weights = np.array([1e-3, 0.1, 1.0]), np.array([0.3, 0.7, 1e-4])
    coef = rng.normal(size=width)
    basis = SimpleNamespace(numbers=lambda points: oracle.Phi)
    draft = SimpleNamespace(bases=[basis], bare=bare, straight=lambda columns: line)
    tried = Tried(draft, np.inf, stage_of(oracle, y), regs, None)
    apart = (tried.values(oracle.X) - (oracle.Phi @ coef)[:, None]) * weights**0.5
    D = np.zeros((N, N))
    for reg, weight in zip(regs, weights, strict=True):
        penalty = np.diag(np.r_[0.0, 1 / N, np.full(width - 2, reg)])
        off = oracle.Phi @ (
            np.linalg.solve(oracle.M.T @ oracle.M / N + penalty, oracle.M.T @ y / N) - coef
        )
        D += weight * np.outer(off, off)
    assert_allclose(apart @ apart.T, D, atol=1e-8)
    known = {"gain": None, "refused": 1.0, "free": True, "two": two, "sure": bare and not line}
    choice = SimpleNamespace(points=oracle.X, apart=apart, **known)
    known = {"roles": SimpleNamespace(x=["x"]), "covariance": np.eye(width)}
    fit = SimpleNamespace(basis=basis, draft=draft, coef=coef, **known)
    told = Choice.widened(choice, fit, balanced)
    for name, (a, b) in {"covariance": own, "band": band, "mean": mean}.items():
        expected = a * oracle.Phi @ oracle.Phi.T + b * D
        at = oracle.Phi @ told[name] @ oracle.Phi.T
        assert_allclose(at, expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("forms", ["gaussian", {"*": "gaussian"}])
def test_two_values_of_an_instrument_tell_a_line(forms):
    """The slope is that of least squares with the square of the control, to a standard error."""
    rng = np.random.default_rng(6)
    z, (c, v, u) = rng.integers(0, 2, 800).astype(float), rng.normal(size=(3, 800))
    x = 0.6 * z + np.cos(c) + v
    y = 0.5 * x + c**2 + 0.6 * v + 0.5 * u
    iv = km.KernelIV(forms).fit(x[:, None], y, z[:, None], c[:, None])
    slopes = iv.derivative(np.column_stack([x, c]), column=0)
    assert np.ptp(slopes) < 1e-8
    said = "h is taken for a line in x0, of one slope whatever the exogenous are"
    assert said in str(iv.summary())
    W, Q = (np.column_stack([np.ones(800), a, c, c**2]) for a in (x, z))
    least = np.linalg.solve(Q.T @ W, Q.T @ y)[1]
    assert abs(slopes[0] - least) < iv.average_derivative().error


def test_a_doubtful_curve_is_as_far_from_the_line_as_told():
    """h is (1 − w) line + w curve in coordinates that have both, its limits at least theirs."""
    rng = np.random.default_rng(50004)
    z, v, u = rng.normal(size=(3, 300))
    X, Z = (z + v)[:, None], z[:, None]
    y = X[:, 0] + 0.4 * np.cos(1.5 * X[:, 0]) + 0.6 * v + 0.8 * u
    line = km.KernelIV(trend=1, tune_lengthscale=False).fit(X, y, Z)._fit
    curve = km.KernelIV(trend=None, tune_lengthscale=False).fit(X, y, Z)._fit
    polynomial = joint([curve.basis.polynomial, line.basis.polynomial])
    wide = [one.written(polynomial, curve.basis.features) for one in (line, curve)]
    for one, same in zip((line, curve), wide, strict=True):
        assert_allclose(same(X), one(X), atol=1e-10)
    wide = [replace(one, band=one.covariance, mean=one.covariance) for one in wide]
    mixed = wide[0].towards(wide[1], 0.3)
    assert_allclose(mixed(X), 0.7 * line(X) + 0.3 * curve(X), atol=1e-10)
    Phi, told = mixed.basis.transform(X), [line.basis.transform(X), curve.basis.transform(X)]
    errors = [
        ((rows @ V) * rows).sum(1) ** 0.5
        for rows, V in zip(
            (Phi, *told), (mixed.band, line.covariance, curve.covariance), strict=True
        )
    ]
    assert np.all(errors[0] >= (0.7 * errors[1] + 0.3 * errors[2]) * (1 - 1e-8))


def test_what_is_between_says_so():
    rng = np.random.default_rng(50004)
    z, v, u = rng.normal(size=(3, 300))
    x = z + v
    y = x + 0.2 * np.cos(1.5 * x) + 0.6 * v + 0.8 * u
    iv = km.KernelIV().fit(x[:, None], y, z[:, None])
    assert 0 < iv._fit.bent < 1
    assert "of the way from two-stage least squares" in str(iv.summary())


def test_rows_that_carry_a_sum():
    """All of them where terms are alike, a third where normal, one where one is."""
    rng = np.random.default_rng(0)
    terms = np.column_stack([np.full(9_000, -2.0), rng.normal(size=9_000), np.arange(9_000) == 0])
    assert rows_of(terms) == pytest.approx([9_000, 3_000, 1], rel=0.05)
    assert rows_of(0.0 * terms).tolist() == [0, 0, 0]


def cubes() -> tuple[second_stage.SecondStage, np.ndarray, np.ndarray, np.ndarray]:
    """Stage 2 of powers alone, rows in coordinates, what of these is explained, and outcomes."""
    X, y, Z = confounded()
    basis = Basis(Polynomial.of(X, 4), Bare().fit(X, "linear"))
    Phi, M = basis.numbers(X), basis.numbers(Z)
    moments = M.T @ M / N, M.T @ y / N
    held = basis.held(Phi)
    return second_stage.SecondStage(*moments, 4, N, y @ y / N, held), Phi, M, y


def test_powers_are_held_by_the_size_of_their_curve():
    stage, Phi, M, y = cubes()
    curve = (Phi - Phi.mean(0)) / N**0.5 / 1.1**0.5  # of which squares are a variance
    own = np.eye(4)[1:] * (0.1 / 1.1) ** 0.5
    rows, target = np.vstack([M, curve, own]), np.append(y, np.zeros(N + 3))
    b = np.linalg.lstsq(rows, target, rcond=None)[0]
    assert_allclose(stage.coefficients(1.0), b, rtol=1e-8)


def test_evidence_of_powers_is_a_gaussian_density():
    stage, Phi, M, y = cubes()
    prior = (np.cov(Phi[:, 1:].T, bias=True) + 0.1 * np.eye(3)) / 1.1
    S = np.eye(N) + M[:, 1:] @ np.linalg.solve(prior, M[:, 1:].T)
    inverse, one = np.linalg.inv(S), np.ones(N)
    flat = one @ inverse @ one
    q = (y @ inverse @ y - (one @ inverse @ y) ** 2 / flat) / N
    value = np.linalg.slogdet(S)[1] + np.log(flat)
    assert stage.evidence(np.ones(1))[0] == pytest.approx(-0.5 * ((N - 1) * np.log(q) + value))


def test_least_squares_is_judged_as_it_is_fitted_by_rows_left_out():
    X, y, Z = confounded()
    bases = [Basis(Polynomial.of(A, 4), Bare().fit(A, "linear")) for A in (X, Z)]
    group = Group(Part(X, Z, y), *bases)
    embed([group], 0.0, "loo")
    group.own = False
    equations = second_stage.Equations([group])
    Phi, Theta = (basis.numbers(A) for basis, A in zip(bases, (X, Z), strict=True))
    hat = Theta @ np.linalg.solve(Theta.T @ Theta, Theta.T)
    assert_allclose(equations.second, Phi.T @ hat @ Phi / N, atol=1e-9)
    assert_allclose(equations.M, slow.left_out_embeddings(Theta, Phi, 1e-14), atol=1e-6)


def test_a_slope_far_above_the_noise_is_not_held():
    """1/n of a slope would be many times its error, and the instruments seem to contradict it."""
    z, v, e = np.random.default_rng(571003).normal(size=(3, 200))
    x = z + v
    model = km.KernelIV("linear", "linear").fit(x[:, None], 2 * x + 0.01 * (v + e), z[:, None])
    slope = model.average_derivative()
    assert abs(slope.value - 2) < 0.003
    assert slope.low < 2 < slope.high
    assert model.specification_p_ > 0.05


@pytest.mark.slow
def test_a_line_beside_a_linear_control_has_no_cube_of_it():
    """Evidence was half a unit for a cube, whose error was 22 times that of 2SLS."""
    rng = np.random.default_rng(628106)
    z, c, e = rng.normal(size=200), rng.normal(size=(200, 1)), rng.normal(size=200)
    x = 0.8 * z + 0.3 * c[:, 0] + 0.5 * e
    y = x + 0.5 * c[:, 0] + 0.6 * e + 0.4 * rng.normal(size=200)
    model = km.KernelIV().fit(x[:, None], y, z[:, None], c)
    far = np.array([[-2.5, -2.5], [2.5, 2.5]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", km.NumericalWarning)
        slopes = np.diff(model.predict(far)) / 5.0
    assert slopes == pytest.approx([1.5], abs=0.15)
    bent = km.KernelIV().fit(x[:, None], y + c[:, 0] ** 2, z[:, None], c)
    assert bent.predict(x[:, None], c) == pytest.approx(x + 0.5 * c[:, 0] + c[:, 0] ** 2, abs=0.6)

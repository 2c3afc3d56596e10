"""Emission laws that are embeddings, and EM with them: loops over rows, hmmlearn, all paths."""

from __future__ import annotations

from dataclasses import replace

import hmm_oracles as slow
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import trapezoid
from scipy.special import gamma as gamma_function
from scipy.stats import kstest, multivariate_normal, multivariate_t, t

import kernelmean as km
from kernelmean.chains import em, emission, moments
from kernelmean.chains.draft import Draft, space_of
from kernelmean.chains.em import (
    PSEUDO,
    Climb,
    Refinement,
    Rows,
    begin,
    expectation,
    forecast,
    known,
    lasting,
    maximised,
    random_starts,
)
from kernelmean.chains.emission import (
    Guard,
    Shrunken,
    SignedEmissions,
    Smoothing,
    can_smooth,
    rule_of_thumb,
    smoothing_kernel,
)
from kernelmean.chains.markov import Chain

hmmlearn = pytest.importorskip("hmmlearn.hmm")


@pytest.fixture(autouse=True)
def _all_digits(monkeypatch):
    """Coordinates that lose nothing: what is tested is not the landmarks."""
    monkeypatch.setattr(emission, "LOST", 1e-15)


# ------------------------------------------------------------ densities


def normal_density(h: float) -> slow.Gram:
    def density(A, B):
        squares = ((A[:, None] - B[None]) ** 2).sum(axis=2)
        return np.exp(-squares / (2 * h**2)) / (2 * np.pi * h**2) ** (A.shape[1] / 2)

    return density


def laplace_density(h: float) -> slow.Gram:
    """exp(-|x - y|/h) over its integral, |S^{d-1}| (d-1)! h^d."""

    def density(A, B):
        d = A.shape[1]
        sphere = 2 * np.pi ** (d / 2) / gamma_function(d / 2)
        distance = ((A[:, None] - B[None]) ** 2).sum(axis=2) ** 0.5
        return np.exp(-distance / h) / (sphere * gamma_function(d) * h**d)

    return density


KERNELS = {
    "gaussian": (km.Gaussian(0.4), normal_density(0.4)),
    "laplace": (km.Laplace(0.4), laplace_density(0.4)),
}


def rows_of(d: int, repeats: bool) -> np.ndarray:
    """24 rows in 2 clusters; with one value three times and another twice."""
    rng = np.random.default_rng(40)
    X = rng.normal(size=(24, d)) + 2.0 * (np.arange(24) % 3 == 0)[:, None]
    if repeats:
        X[[5, 9]] = X[2]
        X[20] = X[13]
    return X


def shares_of(n: int, K: int, seed: int = 41) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(K), size=n)


@pytest.fixture(params=[256, 8], ids=["landmarks", "kernel"])
def sums(request, monkeypatch):
    """Of several columns from so many rows on, densities are sums of the kernel itself."""
    monkeypatch.setattr(moments, "SAMPLE", request.param)


@pytest.mark.usefixtures("sums")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("repeats", [False, True], ids=["distinct", "repeated"])
class TestDensities:
    def test_at_new_points(self, kernel, d, repeats):
        X, gamma, (k, density) = rows_of(d, repeats), shares_of(24, 2), KERNELS[kernel]
        Y = np.random.default_rng(42).normal(scale=2.0, size=(9, d))
        got = Smoothing(X, k).emissions(gamma).log_density(Y)
        assert_allclose(np.exp(got), slow.emission_densities(Y, X, gamma, density), rtol=1e-7)

    def test_of_the_rows_themselves_without_them(self, kernel, d, repeats, monkeypatch):
        """A row, and those equal to it, bring nothing to their own density."""
        monkeypatch.setattr(emission, "ATOM", 1.1)
        X, gamma, (k, density) = rows_of(d, repeats), shares_of(24, 2), KERNELS[kernel]
        same = (X[:, None] == X[None]).all(axis=2)
        want = slow.emission_densities(X, X, gamma, density, left_out=same)
        assert_allclose(np.exp(Smoothing(X, k).log_densities(gamma)), want, rtol=1e-6)

    def test_an_atom_keeps_the_other_rows_of_its_value(self, kernel, d, repeats):
        """From one percent of the rows on (here: two rows) only the row itself is left out."""
        X, gamma, (k, density) = rows_of(d, repeats), shares_of(24, 2), KERNELS[kernel]
        same = np.eye(24, dtype=bool)
        want = slow.emission_densities(X, X, gamma, density, left_out=same)
        assert_allclose(np.exp(Smoothing(X, k).log_densities(gamma)), want, rtol=1e-6)

    def test_fractions_of_rows_count_as_such(self, kernel, d, repeats):
        """Weights that are zero for a state leave its law to the others."""
        X, gamma, (k, density) = rows_of(d, repeats), shares_of(24, 2), KERNELS[kernel]
        gamma = gamma * (np.arange(24) < 12)[:, None]
        Y = np.random.default_rng(42).normal(size=(5, d))
        got = Smoothing(X, k).emissions(gamma).log_density(Y)
        want = slow.emission_densities(Y, X[:12], gamma[:12], density)
        assert_allclose(np.exp(got), want, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [km.Gaussian(0.05), km.Gaussian(0.4), km.Matern(1.5, 0.3)])
def test_densities_on_the_line_integrate_to_one(kernel):
    X, gamma = rows_of(1, True), shares_of(24, 3)
    laws = Smoothing(X, kernel).emissions(gamma)
    y = np.linspace(-15, 15, 30_001)
    total = trapezoid(np.exp(laws.log_density(y[:, None])), y, axis=0)
    for k in range(3):
        assert total[k] == pytest.approx(1.0, abs=1e-6)


def test_densities_in_the_plane_integrate_to_one():
    X, gamma = rows_of(2, False), shares_of(24, 2)
    laws = Smoothing(X, km.Gaussian(0.8)).emissions(gamma)
    u, w = np.polynomial.legendre.leggauss(200)
    nodes = np.stack(np.meshgrid(9 * u, 9 * u), axis=-1).reshape(-1, 2)
    p = np.exp(laws.log_density(nodes)[:, 1]).reshape(200, 200)
    assert 81 * w @ p @ w == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("h", "own"), [(0.1, True), (1.0, False)])
def test_rows_far_apart_are_their_own_landmarks(h, own):
    X = np.random.default_rng(5).normal(size=(300, 2))
    smoothing = Smoothing(X, km.Gaussian(h))
    assert isinstance(smoothing.coordinates, moments.OwnCoordinates) is own
    assert (smoothing.coordinates.features.rank_ == 300) is own


def test_a_delta_kernel_makes_a_table_that_sums_to_one():
    """(N_kv + 1/V)/(N_k + 1)."""
    y = np.array([0, 1, 1, 3, 0, 3, 3, 7.0])[:, None]
    gamma = shares_of(8, 2)
    values = np.array([[0.0], [1], [3], [7]])
    table = np.exp(Smoothing(y, km.Delta()).emissions(gamma).log_density(values))
    assert_allclose(table.sum(axis=0), 1.0)
    counts = np.array([gamma[y[:, 0] == v].sum(axis=0) for v in (0, 1, 3, 7)])
    assert_allclose(table, (counts + 0.25) / (gamma.sum(axis=0) + 1), rtol=1e-10)


def test_laws_of_any_sign_integrate_to_one():
    rng = np.random.default_rng(43)
    points = rng.normal(size=(30, 1))
    weights = rng.normal(size=(2, 30)) + 0.3
    m = km.MeanEmbedding(points, weights, km.Gaussian(0.5))
    laws = SignedEmissions.of(m, 0.3, np.array([12.0, 18.0]))
    y = np.linspace(-12, 12, 20_001)
    total = trapezoid(np.exp(laws.log_density(y[:, None])), y, axis=0)
    assert_allclose(total, 1.0, atol=1e-4)


class TestGuard:
    def test_far_away_it_is_all_there_is(self):
        """One observation's worth of a normal density, finite as a logarithm."""
        X, gamma = rows_of(1, False), shares_of(24, 2)
        laws = Smoothing(X, km.Gaussian(0.1)).emissions(gamma)
        far = np.array([[1e3], [1e6], [1e15]])
        share = gamma / gamma.sum(axis=0)
        mean = (share * X).sum(axis=0)
        var = (share * (X - mean) ** 2).sum(axis=0)
        want = -0.5 * ((far - mean) ** 2 / var + np.log(2 * np.pi * var))
        assert_allclose(laws.log_density(far), want - np.log(gamma.sum(axis=0) + 1), rtol=1e-10)

    @pytest.mark.parametrize("shift", [1e3, 1e6, 1e8])
    def test_a_shift_of_the_data_shifts_it(self, shift):
        X, gamma = rows_of(2, False), shares_of(24, 2)
        spread = X.var(axis=0)
        here = Guard.of(X, gamma, spread, False)
        there = Guard.of(X + shift, gamma, (X + shift).var(axis=0), False)
        assert_allclose(there.means - shift, here.means, atol=1e-15 * shift)
        assert_allclose(there.variances, here.variances, rtol=1e-13 * shift)

    def test_a_state_of_one_row_keeps_some_width(self):
        X = rows_of(1, False)
        gamma = np.zeros((24, 2))
        gamma[:, 0], gamma[3] = 1.0, [0.0, 1.0]
        guard = Guard.of(X, gamma, X.var(axis=0), False)
        assert guard.variances[1, 0] == pytest.approx(1e-3 * X.var())

    def test_a_state_of_no_rows_has_a_finite_law(self):
        X = rows_of(1, False)
        gamma = np.tile([1.0, 0.0], (24, 1))
        smoothing = Smoothing(X, km.Gaussian(0.3))
        for logs in (smoothing.log_densities(gamma), smoothing.emissions(gamma).log_density(X)):
            assert np.isfinite(logs).all()

    def test_a_column_that_does_not_vary_says_nothing(self):
        X = np.column_stack([rows_of(1, False)[:, 0], np.full(24, 3.0)])
        gamma = shares_of(24, 2)
        one = Guard.of(X[:, :1], gamma, X[:, :1].var(axis=0), False)
        both = Guard.of(X, gamma, X.var(axis=0), False)
        assert_allclose(both.log_density(X), one.log_density(X[:, :1]))


def test_silverman_for_normal_data():
    """In many columns, where the median distance is near √(2d): (4/((d + 2)n))^(1/(d + 4))."""
    X = np.random.default_rng(44).normal(size=(5_000, 20))
    h = rule_of_thumb(500, 20) * km.median_lengthscale(X)
    assert h == pytest.approx((4 / (22 * 500)) ** (1 / 24), rel=0.03)


def test_the_smoothing_kernel_has_a_density():
    X = rows_of(1, False)
    median = km.median_lengthscale(X)
    assert smoothing_kernel(km.Gaussian(0.1), X) == km.Gaussian(median)
    assert smoothing_kernel(km.Laplace(7.0), X) == km.Laplace(median)
    assert smoothing_kernel(km.Delta(), X) == km.Delta()


@pytest.mark.parametrize("kernel", [km.Linear(), km.Precomputed(np.eye(24))], ids=repr)
def test_a_kernel_that_has_none_leaves_densities_to_variates(kernel):
    """These are smoothed with a Gaussian kernel, whatever embeds the rows."""
    X = np.arange(24.0)[:, None]
    assert not can_smooth(kernel, X)
    assert can_smooth(km.Gaussian(0.1), X)
    draft = Draft.of(X, np.ones(24, dtype=bool), None, kernel, None, None)
    assert space_of(draft, "auto") is not None


# ------------------------------------------------------------ EM


MODEL = slow.FiniteHMM.random(3, 4, 45)


def whole(X: np.ndarray, lengths=None) -> Rows:
    stops = np.cumsum(lengths or [len(X)])
    sequences = [slice(int(b - a), int(b)) for a, b in zip(lengths or [len(X)], stops, strict=True)]
    return Rows.of(X, np.ones(len(X), dtype=bool), sequences)


def climb(smoothing, rows: Rows, gamma, chain: Chain, max_iter: int, tol: float) -> Climb:
    search = Refinement(rows, smoothing.kernel, None, max_iter, tol, False)
    return search.climb(smoothing, gamma, chain, max_iter)


class TestAgainstHmmlearn:
    """A delta kernel is a table per state: the EM of Baum and Welch, with two priors.

    One observation spread over the values and 1e-3 of every transition are Dirichlet priors to
    hmmlearn; the start law is the stationary one in both.
    """

    @pytest.mark.parametrize("lengths", [None, [60, 1, 2, 137]], ids=["one", "several"])
    def test_ten_steps(self, lengths):
        y, _ = MODEL.draw(200, 46)
        X, V = y[:, None].astype(float), 4
        gamma, chain = shares_of(200, 3), Chain(MODEL.law, MODEL.Q)
        ours = climb(Smoothing(X, km.Delta()), whole(X, lengths), gamma, chain, 11, 1e-300)

        theirs = hmmlearn.CategoricalHMM(
            3, n_iter=1, tol=-np.inf, init_params="", params="te", n_features=V,
            emissionprob_prior=1 + 1 / V, transmat_prior=1 + PSEUDO,
        )  # fmt: skip
        counts = np.array([gamma[y == v].sum(axis=0) for v in range(V)]).T + 1 / V
        theirs.emissionprob_ = counts / counts.sum(axis=1, keepdims=True)
        theirs.transmat_, theirs.startprob_ = chain.transmat, chain.startprob
        history = []
        for _ in range(10):
            history.append(theirs.score(y[:, None], lengths) / 200)
            theirs.fit(y[:, None], lengths)
            theirs.startprob_ = slow.stationary(theirs.transmat_)
        history.append(theirs.score(y[:, None], lengths) / 200)

        assert_allclose(ours.history, history, rtol=1e-10)
        assert_allclose(ours.chain.transmat, theirs.transmat_, atol=1e-9)
        table = Smoothing(X, km.Delta()).emissions(ours.gamma).log_density(np.arange(4.0)[:, None])
        assert_allclose(np.exp(table).T, theirs.emissionprob_, atol=1e-9)

    def test_one_step_for_very_many_rows(self, monkeypatch):
        """From laws and a chain that some rows gave: what is expected of all, and a new chain."""
        monkeypatch.setattr(em, "MANY", 100)
        y, _ = MODEL.draw(200, 46)
        X, chain = y[:, None].astype(float), Chain(MODEL.law, MODEL.Q)
        gamma, few = shares_of(80, 3), Smoothing(X[:80], km.Delta())
        laws, found = few.emissions(gamma), Climb(gamma, chain, np.empty(0), [], True, gamma)
        search = Refinement(whole(X), km.Delta(), None, 11, 1e-300, False)
        ours = search.carried_on(laws, found, Smoothing(X, km.Delta()))

        theirs = hmmlearn.CategoricalHMM(
            3, n_iter=1, tol=-np.inf, init_params="", params="t", transmat_prior=1 + PSEUDO
        )
        theirs.n_features, theirs.startprob_, theirs.transmat_ = 4, chain.startprob, chain.transmat
        theirs.emissionprob_ = np.exp(laws.log_density(np.arange(4.0)[:, None])).T
        assert_allclose(ours.loglik.sum(), theirs.score(y[:, None]), rtol=1e-10)
        assert_allclose(ours.gamma, theirs.predict_proba(y[:, None]), atol=1e-9)
        theirs.fit(y[:, None])
        assert_allclose(ours.chain.transmat, theirs.transmat_, atol=1e-9)


class TestAgainstPaths:
    Y = np.array([0, 2, 1, -1, 3, 0, -1, 1])

    def test_three_steps_with_missing_rows(self):
        """All 3^8 paths; rows of -1 are missing."""
        X = np.where(self.Y < 0, 0, self.Y)[:, None].astype(float)
        seen = self.Y >= 0
        rows = Rows.of(X, seen, [slice(0, 8)])
        gamma, chain = shares_of(8, 3), Chain(MODEL.law, MODEL.Q)
        ours = climb(Smoothing(X[seen], km.Delta()), rows, gamma, chain, 4, 1e-300)

        p, Q = chain.startprob, chain.transmat
        table = np.array([gamma[v == self.Y].sum(axis=0) for v in range(4)]).T + 0.25
        table, logs = table / table.sum(axis=1, keepdims=True), []
        for _ in range(4):
            last = p, Q
            Q, table, log = slow.baum_welch_step(*last, table, self.Y, PSEUDO, 0.25)
            p = slow.stationary(Q)
            logs.append(log)
        assert_allclose(np.array(ours.history) * seen.sum(), logs, rtol=1e-9)
        assert_allclose(ours.chain.transmat, last[1], atol=1e-9)

    def test_the_expectation_step(self):
        X = np.random.default_rng(47).normal(size=(7, 1))
        gamma, chain = (
            shares_of(7, 2),
            Chain(np.array([0.3, 0.7]), np.array([[0.8, 0.2], [0.1, 0.9]])),
        )
        smoothing = Smoothing(X, km.Gaussian(0.6))
        same = np.eye(7, dtype=bool)
        b = slow.emission_densities(X, X, gamma, normal_density(0.6), left_out=same)
        alpha, loglik, _ = expectation(smoothing, whole(X), gamma, chain)
        p, Q = chain.startprob, chain.transmat
        assert_allclose(alpha, slow.filtered(p, Q, np.log(b)), atol=1e-8)
        assert_allclose(loglik, slow.log_predictive(p, Q, np.log(b)), atol=1e-8)
        paths = slow.Paths.of(p, Q, np.log(b))
        assert_allclose(begin(np.log(b), chain, [slice(0, 7)]), paths.marginals, atol=1e-10)
        new = maximised(alpha, paths.marginals, chain, [slice(0, 7)])
        counts = paths.moves + PSEUDO
        assert_allclose(new.transmat, counts / counts.sum(axis=1, keepdims=True), atol=1e-7)
        assert_allclose(new.startprob, slow.stationary(new.transmat), atol=1e-10)


def two_clusters(n: int, seed: int, apart: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    Q = np.array([[0.9, 0.1], [0.2, 0.8]])
    _, states = slow.FiniteHMM(Q, np.eye(2)).draw(n, seed)
    return apart * states[:, None] + np.random.default_rng(seed).normal(size=(n, 1)), states


class TestClimb:
    @pytest.mark.parametrize("seed", [40, 41, 42])
    @pytest.mark.parametrize("h", [0.1, 0.5])
    def test_the_log_likelihood_never_falls(self, seed, h):
        X, _ = two_clusters(200, seed)
        end = climb(
            Smoothing(X, km.Gaussian(h)),
            whole(X),
            shares_of(200, 2, seed),
            lasting(2, 1),
            60,
            1e-9,
        )
        assert (np.diff(end.history) > 0).all()
        assert end.value == end.history[-1]
        assert end.value == pytest.approx(end.loglik.mean())

    def test_where_it_ends_is_where_its_log_likelihood_is(self):
        """gamma and chain belong to the last entry of the history."""
        X, _ = two_clusters(150, 43)
        smoothing = Smoothing(X, km.Gaussian(0.5))
        end = climb(smoothing, whole(X), shares_of(150, 2), lasting(2, 1), 40, 1e-6)
        _, loglik, _ = expectation(smoothing, whole(X), end.gamma, end.chain)
        assert_allclose(loglik, end.loglik)

    def test_states_are_found_from_a_random_start(self):
        X, states = two_clusters(600, 44)
        smoothing, rows = Smoothing(X, km.Gaussian(0.5)), whole(X)
        logb, _ = next(random_starts(X, 2, 1, np.random.default_rng(0)))
        start = begin(logb, lasting(2, 1), rows.sequences)
        end = climb(smoothing, rows, start, lasting(2, 1), 100, 1e-6)
        assert km.comparators.matched_accuracy(states, end.gamma.argmax(axis=1)) > 0.93
        assert end.converged

    def test_few_iterations_do_not_converge(self):
        X, states = two_clusters(150, 43)
        gamma = 0.5 + 0.1 * np.column_stack([states, -states])
        end = climb(Smoothing(X, km.Gaussian(0.5)), whole(X), gamma, lasting(2, 1), 3, 1e-12)
        assert len(end.history) == 3
        assert not end.converged

    def test_one_state(self):
        X, _ = two_clusters(50, 45)
        smoothing = Smoothing(X, km.Gaussian(0.5))
        end = climb(smoothing, whole(X), np.ones((50, 1)), lasting(1, 1), 20, 1e-6)
        assert end.converged
        same = np.eye(50, dtype=bool)
        want = slow.emission_densities(X, X, np.ones((50, 1)), normal_density(0.5), left_out=same)
        assert_allclose(end.loglik, np.log(want[:, 0]), atol=1e-8)

    def test_rows_that_are_not_used_are_as_if_missing(self):
        """Same climb, whether the rows are there and not used, or not there."""
        X, _ = two_clusters(120, 46)
        used = np.arange(120) % 7 > 1
        gamma, whole_of_it = shares_of(120, 2), whole(X)
        a = climb(
            Smoothing(X, km.Gaussian(0.5)),
            replace(whole_of_it, used=used),
            gamma,
            lasting(2, 1),
            8,
            1e-9,
        )
        b = climb(
            Smoothing(X[used], km.Gaussian(0.5)), replace(whole_of_it, seen=used, used=used),
            gamma, lasting(2, 1), 8, 1e-9,
        )  # fmt: skip
        assert_allclose(a.history, b.history, atol=1e-9)
        assert_allclose(a.chain.transmat, b.chain.transmat, atol=1e-8)
        assert_allclose(a.gamma, b.gamma, atol=1e-7)

    def test_rows_are_judged_by_the_others_alone(self):
        """What is held out has no part in its log-likelihood: by loops."""
        X, _ = two_clusters(40, 47)
        used = np.arange(40) < 25
        rows = replace(whole(X), used=used)
        smoothing = Smoothing(X, km.Gaussian(0.5))
        end = climb(smoothing, rows, shares_of(40, 2), lasting(2, 1), 1, 1e-9)
        left_out = np.eye(40, dtype=bool) | ~used[None]
        gamma = np.where(used[:, None], end.gamma, 0.0)
        b = slow.emission_densities(X, X, gamma, normal_density(0.5), left_out=left_out)
        loglik, mean = known(rows, end)[1], forecast(rows, end)
        means = [gamma[:, k] @ X / gamma[:, k].sum() for k in range(2)]
        prior, want, forecasts = end.chain.startprob, [], []
        for row in b:
            want.append(np.log(prior @ row))
            forecasts.append(prior @ means)
            prior = (prior * row / (prior @ row)) @ end.chain.transmat
        assert_allclose(loglik, want, atol=1e-7)
        assert_allclose(mean, forecasts, atol=1e-7)

    def test_missing_rows_at_both_ends_and_all_through(self):
        X, states = two_clusters(300, 48, apart=4.0)
        seen = np.random.default_rng(0).random(300) < 0.6
        seen[:10] = seen[-10:] = False
        rows = Rows.of(X, seen, [slice(0, 150), slice(150, 300)])
        smoothing = Smoothing(rows.there, km.Gaussian(0.5))
        logb, _ = next(random_starts(X, 2, 1, np.random.default_rng(0)))
        start = begin(np.where(seen[:, None], logb, 0.0), lasting(2, 1), rows.sequences)
        end = climb(smoothing, rows, start, lasting(2, 1), 100, 1e-6)
        assert np.isfinite(end.gamma).all()
        assert len(end.loglik) == seen.sum()
        found = end.gamma.argmax(axis=1)
        assert km.comparators.matched_accuracy(states[seen], found[seen]) > 0.9


# ------------------------------------------------------------ rows


class TestRows:
    @pytest.mark.parametrize("n", [2, 3, 5, 10, 20, 39, 40, 1000])
    def test_both_halves_have_rows(self, n):
        one, other = whole(np.arange(float(n))[:, None]).halves(20)
        assert one.any()
        assert other.any()
        assert_array_equal(one ^ other, True)
        assert abs(int(one.sum()) - int(other.sum())) <= max(1, n // 10)

    def test_halves_of_rows_with_gaps(self):
        """Missing wherever one half would be."""
        odd = (np.arange(200) * 20 // 200) % 2 == 1
        rows = Rows.of(np.zeros((200, 1)), ~odd, [slice(0, 200)])
        one, other = rows.halves(20)
        assert one.any()
        assert other.any()
        assert_array_equal(one | other, rows.seen)

    def test_few_rows_stay_whole(self):
        rows = whole(np.zeros((50, 1)), [20, 30])
        numbers, same = rows.stretches(50, 20)
        assert same is rows
        assert_array_equal(numbers, np.arange(50))

    @pytest.mark.parametrize(
        "lengths", [[1000], [1, 2, 997], [400, 600], [50] * 20, [4] * 250, [1] * 1000]
    )
    def test_stretches_are_pieces_of_sequences_from_all_over(self, lengths):
        X = np.arange(1000.0)[:, None]
        numbers, few = whole(X, lengths).stretches(200, 20)
        assert_array_equal(few.points[:, 0], numbers)
        assert len(numbers) <= 200 + 20
        assert len(numbers) >= 0.7 * 200
        assert (np.diff(numbers) > 0).all()
        assert numbers[0] < 60
        assert numbers[-1] > 930
        owner = np.repeat(np.arange(len(lengths)), lengths)[numbers]
        for part in few.sequences:
            assert len(set(owner[part])) == 1
            assert_array_equal(np.diff(numbers[part]), 1)
        assert sum(s.stop - s.start for s in few.sequences) == len(numbers)


class TestShrunken:
    """Laws shrunk towards normal ones."""

    def test_density_is_scipys_with_correlations_shrunk(self):
        rng = np.random.default_rng(0)
        points, weights = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3)), rng.random((40, 2))
        guard = Shrunken(0.9)(points, weights, points.var(axis=0), False)
        covs = [np.cov(points.T, aweights=w, ddof=0) for w in weights.T]
        size = [np.sqrt(np.diag(cov)) for cov in covs]
        counts = weights.sum(axis=0)
        each = [cov / np.outer(s, s) for cov, s in zip(covs, size, strict=True)]
        common = np.tensordot(counts, each, axes=1) / (counts.sum() + 3e-3)
        np.fill_diagonal(common, 1.0)
        for k in range(2):
            mean, kept = weights[:, k] @ points / counts[k], counts[k] / (counts[k] + 3)
            shrunk = (kept * each[k] + (1 - kept) * common) * np.outer(size[k], size[k])
            expected = multivariate_normal(mean, shrunk).logpdf(points)
            assert_allclose(guard.log_density(points)[:, k], expected, atol=1e-10)
            assert_allclose(guard.strength[k], 9 * weights[:, k].sum())
        back = guard.reordered(np.array([1, 0])).log_density(points)
        assert_array_equal(back, guard.log_density(points)[:, ::-1])

    def test_laws_of_t_are_the_likeliest(self):
        """Location and scale as scipy finds them, of the rows of one state."""
        rng = np.random.default_rng(1)
        points = 3.0 + 2.0 * rng.standard_t(4, size=(400, 1))
        guard = Shrunken(0.9, 4.0)(points, np.ones((400, 1)), points.var(axis=0), False)
        _, mean, scale = t.fit(points[:, 0], f0=4)
        assert_allclose(guard.means[0, 0], mean, atol=0.01)
        expected = t(4, guard.means[0, 0], 1 / guard.whitening[0, 0, 0])
        assert_allclose(1 / guard.whitening[0, 0, 0], scale, rtol=0.02)
        assert_allclose(guard.log_density(points)[:, 0], expected.logpdf(points[:, 0]), atol=1e-10)
        drawn = guard.draws(0, 20_000, rng)[:, 0]
        assert kstest(drawn, expected.cdf).pvalue > 0.01

    def test_laws_of_t_in_several_columns(self):
        rng = np.random.default_rng(2)
        points, weights = rng.normal(size=(40, 3)), rng.random((40, 2))
        guard = Shrunken(0.9, 4.0)(points, weights, points.var(axis=0), False)
        for k, W in enumerate(guard.whitening):
            law = multivariate_t(guard.means[k], np.linalg.inv(W.T @ W), 4)
            assert_allclose(guard.log_density(points)[:, k], law.logpdf(points), atol=1e-10)
            some = multivariate_t(guard.means[k, 1:], np.linalg.inv(W.T @ W)[1:, 1:], 4)
            found = guard.marginal([1, 2]).log_density(points[:, 1:])[:, k]
            assert_allclose(found, some.logpdf(points[:, 1:]), atol=1e-10)

    @pytest.mark.slow
    def test_calm_and_wild_days_with_heavy_tails(self):
        """A tenth more of the states right than by normal laws, and likelier new rows."""
        rng = np.random.default_rng(3)
        states = np.cumsum(rng.random(2000) < 0.05) % 2
        X = np.array([0.6, 1.6])[states, None] * rng.standard_t(3, size=(2000, 1))
        model = km.KernelHMM(2, random_state=0).fit(X[:1000])
        rival = hmmlearn.GaussianHMM(2, "full", n_iter=200, random_state=0).fit(X[:1000])
        assert model.laws_.guard.degrees == 4.0
        assert model.score(X[1000:]) > rival.score(X[1000:]) + 30
        right = [
            km.comparators.matched_accuracy(states[1000:], m.predict_proba(X[1000:]).argmax(axis=1))
            for m in (model, rival)
        ]
        assert right[0] > right[1] + 0.1

    @pytest.mark.slow
    @pytest.mark.parametrize("correlations", [(0.6, -0.6), (0.99, 0.99)])
    def test_normal_truth_costs_nothing_against_hmmlearn(self, correlations):
        """Held-out log-likelihood of a row within .02; a row's state as often right."""
        P, means = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.0, 0.0], [2.0, 1.0]])
        truth = hmmlearn.GaussianHMM(2, "full", init_params="", random_state=0)
        truth.startprob_, truth.transmat_, truth.means_ = np.array([2, 1]) / 3, P, means
        truth.covars_ = np.array([[[1, r], [r, 1]] for r in correlations])
        X, _ = truth.sample(400, random_state=1)
        new, states = truth.sample(1000, random_state=2)
        model = km.KernelHMM(2, random_state=0).fit(X)
        rival = hmmlearn.GaussianHMM(2, "full", n_iter=200, random_state=0).fit(X)
        assert model.rule_ is None
        assert model.score(new) > rival.score(new) - 0.02 * len(new)
        right = [
            km.comparators.matched_accuracy(states, m.predict_proba(new).argmax(axis=1))
            for m in (model, rival)
        ]
        assert right[0] > right[1] - 0.005

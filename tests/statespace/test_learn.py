"""Pairings, operators on nodes, moments and one step of EM: by loops, least squares, all paths."""

from __future__ import annotations

import hmm_oracles
import numpy as np
import pytest
import state_oracles as slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import kernelmean as km
from kernelmean.chains.draft import Draft
from kernelmean.chains.em import Climb, Refinement, expectation
from kernelmean.chains.emission import Smoothing
from kernelmean.chains.markov import Chain, smoothed, stationary
from kernelmean.chains.rows import Rows
from kernelmean.core.sequences import check_sequences
from kernelmean.kernels import Gaussian
from kernelmean.statespace import latent as spaces
from kernelmean.statespace import learn, pairing
from kernelmean.statespace.guard import FAR, SHAPE_WIDTH, WIDE, LinearGuard
from kernelmean.statespace.latent import Latent, Space
from kernelmean.statespace.learn import Learner, Plan
from kernelmean.statespace.moves import BEND, NEAR, REGS, SOME, SmoothMoves
from kernelmean.statespace.operators import fit_moments
from kernelmean.statespace.pairing import WINDOWS, Pairing

NAN = float("nan")


def data(n: int = 200, seed: int = 40) -> np.ndarray:
    return km.datasets.make_state_space("linear", n, random_state=seed).X


def rows_of(Y: np.ndarray, lengths=None) -> Rows:
    seen = ~np.isnan(Y).any(axis=1)
    filled = np.where(seen[:, None], Y, Y[np.argmax(seen)])
    return Rows.of(filled, seen, check_sequences(lengths, len(Y)))


def draft_of(Y: np.ndarray, lengths=None) -> Draft:
    rows = rows_of(Y, lengths)
    return Draft.of(rows.points, rows.seen, lengths, "gaussian", None, None)


def normal(d: int = 1, m: int | None = None) -> Latent:
    return Latent.of("normal", d, m, np.random.default_rng(0))


def space(d: int = 1, m: int = 21, lengthscale: float = 0.7) -> Space:
    return Space(normal(d, m), Gaussian(lengthscale))


def drifting(law: Latent) -> Chain:
    """x' = .8 x + .6 e on the nodes of the line."""
    x = law.nodes[:, 0]
    Q = norm.pdf(x, 0.8 * x[:, None], 0.6)
    Q /= Q.sum(axis=1, keepdims=True)
    return Chain(stationary(Q), Q)


def learner(
    draft: Draft, latent: Latent, chain=None, bandwidth=0.5, n_init=4, max_iter=8
) -> Learner:
    em = km.EM(n_init, max_iter, 1e-4, directions=0, guard=(20.0, 100.0), penalty=(1, 1))
    plan = Plan("gaussian", None, em, True, bandwidth, None, False, [], None, None)
    return Learner(plan, draft, Space(latent, Gaussian(0.7)), chain)


def climb(smoothing: Smoothing, rows: Rows, gamma, chain: Chain, steps: int, moves) -> Climb:
    """Of so many steps, however little they gain."""
    em = Refinement(rows, smoothing.kernel, None, steps, 1e-300, False, maximise=moves)
    return em.climb(smoothing, gamma, chain, steps)


# ------------------------------------------------------------ operators on the nodes


class TestSpace:
    def test_second_moment(self):
        s = space()
        want = sum(w * np.outer(p, p) for w, p in zip(s.latent.weights, s.Psi, strict=True))
        assert_allclose(s.second, want, atol=1e-12)

    @pytest.mark.parametrize("d", [1, 2])
    def test_operator_is_least_squares(self, d):
        """Least squares on the nodes stacked on the ridge."""
        s, r = space(d), np.random.default_rng(1)
        laws, mass = r.normal(size=(4, 21)), r.random(21)
        ridge = spaces.RIDGE * np.trace((mass[:, None] * s.Psi).T @ s.Psi)
        A = np.concatenate(
            [np.sqrt(mass)[:, None] * s.Psi, np.sqrt(ridge) * np.eye(s.Psi.shape[1])]
        )
        b = np.concatenate([np.sqrt(mass)[:, None] * laws.T, np.zeros((s.Psi.shape[1], 4))])
        want = np.linalg.lstsq(A, b, rcond=None)[0].T
        assert_allclose(s.operator(laws, mass), want, atol=1e-6 * np.abs(want).max())

    def test_operator_of_smooth_laws_gives_them_back(self):
        s = space()
        x = s.latent.nodes[:, 0]
        laws = np.stack([np.sin(x), np.exp(-(x**2))])
        U = s.operator(laws, s.latent.weights)
        inner = np.abs(x) < 2.5
        assert_allclose((U @ s.Psi.T)[:, inner], laws[:, inner], atol=0.02)

    @pytest.mark.parametrize("d", [1, 2])
    def test_interpolation_takes_the_values_at_the_nodes_along(self, d):
        s, r = space(d, 40), np.random.default_rng(2)
        theta = s.Psi.T @ r.normal(size=40) / 40  # a function of the RKHS
        x = 0.8 * r.normal(size=(15, d))
        want = s.features.transform(x) @ theta
        assert_allclose(s.interpolation(x) @ (s.Psi @ theta), want, atol=0.02 * np.abs(want).max())

    def test_chain_of_the_operator_of_a_chain(self):
        """V ψ_i = Σ_j P_ij ψ_j: conditional means come back."""
        s = space(m=41)
        chain, x = drifting(s.latent), s.latent.nodes[:, 0]
        V = s.operator(s.Psi.T @ chain.transmat.T, s.latent.weights)
        got = s.chain_of(V)
        inner = np.abs(x) < 1.5
        assert_allclose(got.transmat.sum(axis=1), 1.0)
        assert got.transmat.min() >= 0
        assert_allclose(got.startprob @ got.transmat, got.startprob, atol=1e-9)
        assert_allclose((got.transmat @ x)[inner], 0.8 * x[inner], atol=0.12)


# ------------------------------------------------------------ pairings


class TestPairing:
    moves = SmoothMoves(normal(1, 41), 1.0)

    def test_by_rank(self):
        """Monotone in y; each row's law a bump at its quantile of π*."""
        Y = np.random.default_rng(3).gumbel(size=(400, 1))
        found = Pairing(rows_of(Y), self.moves, 0.0)
        gamma = found.gamma
        assert_allclose(gamma.sum(axis=1), 1.0)
        x = gamma @ self.moves.latent.nodes[:, 0]
        assert (np.diff(x[np.argsort(Y[:, 0])]) >= -1e-12).all()
        want = norm.ppf((np.argsort(np.argsort(Y[:, 0])) + 0.5) / 400)
        assert_allclose(x, want, atol=0.25)
        assert_allclose(found.chain.transmat.sum(axis=1), 1.0)

    def test_the_other_way_round(self):
        Y = data(300)
        up, down = (Pairing(rows_of(Y), self.moves, 0.0, sign) for sign in (1.0, -1.0))
        x = self.moves.latent.nodes[:, 0]
        node = x[1] - x[0]  # ranks between two nodes may go to either
        assert_allclose(down.gamma @ x, -up.gamma @ x, atol=1.01 * node)
        assert np.mean(np.abs(down.gamma @ x + up.gamma @ x) < 1e-9) > 0.9

    def test_a_chain_of_neighbours(self):
        """y itself follows an autoregression: its slope is found."""
        X = data(4_000)
        chain = Pairing(rows_of(X), self.moves, 0.0).chain
        x = self.moves.latent.nodes[:, 0]
        inner = np.abs(x) < 1.5
        slope = np.polyfit(x[inner], (chain.transmat @ x)[inner], 1)[0]
        want = np.corrcoef(X[:-1, 0], X[1:, 0])[0, 1]
        assert slope == pytest.approx(want, abs=0.12)  # blurring lowers it

    def test_no_pair_of_rows_crosses_sequences(self):
        Y = np.tile([[0.0], [0.1], [5.0], [5.1]], (100, 1)) + 1e-3 * np.arange(400)[:, None]
        apart = Pairing(rows_of(Y, [2] * 200), SmoothMoves(normal(1, 21), 1e-9), 0.0)
        x = normal(1, 21).nodes[:, 0]
        mean = apart.chain.transmat @ x
        assert mean[5] < -0.3  # low rows follow low ones only
        assert mean[-6] > 0.3


class TestSignals:
    @staticmethod
    def smoothed(y: np.ndarray, width: float) -> np.ndarray:
        """Normal weights over the rows, the last row repeated beyond either end."""
        n, reach = len(y), int(4 * width + 0.5)
        k = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
        k /= k.sum()
        return np.array(
            [
                sum(k[reach + s] * y[np.clip(t + s, 0, n - 1)] for s in range(-reach, reach + 1))
                for t in range(n)
            ]
        )

    @pytest.mark.parametrize("window", WINDOWS[1:])
    def test_averages_stay_within_sequences(self, window):
        Y = np.random.default_rng(4).normal(size=(90, 2))
        Y /= Y.std(axis=0)
        got = pairing._signals(rows_of(Y * [1e-6, 1e6], [30, 60]), window, 1)
        want = np.concatenate([self.smoothed(part, window) for part in (Y[:30], Y[30:])])
        assert_allclose(got, want, atol=1e-10)

    def test_missing_rows_repeat_the_last(self):
        Y = np.arange(8.0)[:, None]
        Y[[0, 3, 4]] = NAN
        got = pairing._signals(rows_of(Y), 0.0, 1)[:, 0]
        assert_array_equal(got, [1, 1, 2, 2, 2, 5, 6, 7])

    @pytest.mark.parametrize("d", [1, 2, 3, 4])
    def test_more_dimensions_take_wider_windows(self, d):
        Y = data(60)
        got = pairing._signals(rows_of(Y), 0.0, d)
        assert got.shape == (60, d)
        assert_array_equal(got[:, 0], Y[:, 0])
        assert (np.diff(got.std(axis=0)) < 0).all()


# ------------------------------------------------------------ moments


class TestMoments:
    @pytest.mark.parametrize("penalty", [(1.0, 1.0), (0.3, 2.0)])
    def test_loss_by_hand(self, penalty):
        draft, s = draft_of(data()), space()
        start = Pairing(draft.rows, SmoothMoves(s.latent, 2.0), 0.0)
        fit = fit_moments(draft, s, start, penalty, 5, False)
        Phi = draft.coordinates.features.transform(draft.rows.points)
        n, w, U, V = len(Phi), s.latent.weights, fit.U, fit.V
        C12, C13 = Phi[:-1].T @ Phi[1:] / (n - 1), Phi[:-2].T @ Phi[2:] / (n - 2)
        CX = sum(w[j] * np.outer(s.Psi[j], s.Psi[j]) for j in range(len(w)))
        mu = w @ s.Psi
        want = (
            ((C12 - U @ CX @ V.T @ U.T) ** 2).sum()
            + ((C13 - U @ CX @ V.T @ V.T @ U.T) ** 2).sum()
            + penalty[0] * ((Phi.mean(axis=0) - U @ mu) ** 2).sum()
            + penalty[1] * ((mu - V @ mu) ** 2).sum()
        )
        assert fit.loss == pytest.approx(want, rel=1e-8)
        losses = [sum(terms) for terms in fit.history]
        assert losses[-1] == pytest.approx(fit.loss)
        assert (np.diff(losses) <= 0).all()

    def test_a_known_transition_stays(self):
        draft, s = draft_of(data()), space()
        chain = drifting(s.latent)
        start = Pairing(draft.rows, SmoothMoves(s.latent, 2.0), 0.0)
        start.chain = chain
        fit = fit_moments(draft, s, start, (1, 1), 5, True)
        assert_allclose(fit.V, s.operator(s.Psi.T @ chain.transmat.T, s.latent.weights))

    def test_missing_rows_do_not_count(self):
        """Whatever stands in them."""
        Y = data()
        Y[::9] = NAN
        s, fits = space(), []
        for filling in (0.0, 50.0):
            seen = ~np.isnan(Y[:, 0])
            points = np.where(seen[:, None], Y, filling)
            draft = Draft.of(points, seen, None, Gaussian(1.0), None, None)
            start = Pairing(draft.rows, SmoothMoves(s.latent, 2.0), 0.0)
            fits.append(fit_moments(draft, s, start, (1, 1), 3, False))
        assert fits[0].loss == pytest.approx(fits[1].loss, rel=1e-9)


# ------------------------------------------------------------ EM


class TestEM:
    WIDTHS, NOISE = slow.Widths(BEND, NEAR, SOME, REGS), (SHAPE_WIDTH, FAR, WIDE)

    @pytest.mark.parametrize("seed", [40, 41])
    def test_three_steps_on_three_nodes_over_all_paths(self, seed):
        """Plain loops; only the law of the noise is tabulated here, and a kernel estimate there."""
        r, latent, h, c = np.random.default_rng(seed), normal(1, 3), 0.7, (2.0, 1.5)
        z, Y = latent.standard, r.normal(size=(7, 1)).cumsum(axis=0)
        gamma, Q = r.dirichlet(np.ones(3), size=7), r.dirichlet(np.ones(3), size=3)
        smoothing = Smoothing(Y, Gaussian(h), LinearGuard(z, c[0]))
        rows, moves = rows_of(Y), SmoothMoves(latent, c[1])
        chain = Chain(stationary(Q), Q)
        g, p = gamma.copy(), hmm_oracles.stationary(Q)
        for _ in range(3):
            alpha, loglik, _ = expectation(smoothing, rows, gamma, chain)
            new = smoothed(alpha, chain, rows.sequences)
            chain, gamma = moves(alpha, new, chain, rows.sequences), new
            g, p, Q, total = slow.em_step(Y, z, g, p, Q, h, c, self.WIDTHS, self.NOISE)
            assert loglik.sum() == pytest.approx(total, abs=0.01)
            assert_allclose(gamma, g, atol=3e-3)
            assert_allclose(chain.transmat, Q, atol=3e-3)
            assert_allclose(chain.startprob, p, atol=3e-3)

    def test_climbing_is_these_steps(self):
        latent, Y = normal(1, 5), data(60)
        smoothing = Smoothing(Y, Gaussian(0.5), LinearGuard(latent.standard, 4.0))
        rows, moves = rows_of(Y), SmoothMoves(latent, 10.0)
        gamma = np.random.default_rng(5).dirichlet(np.ones(5), size=60)
        chain = drifting(latent)
        found = climb(smoothing, rows, gamma, chain, 2, moves)
        alpha, first, _ = expectation(smoothing, rows, gamma, chain)
        new = smoothed(alpha, chain, rows.sequences)
        chain = moves(alpha, new, chain, rows.sequences)
        _, second, _ = expectation(smoothing, rows, new, chain)
        assert second.mean() > first.mean()
        assert_allclose(found.history, [first.mean(), second.mean()])
        assert_array_equal(found.gamma, new)

    def test_missing_rows_add_nothing_to_the_laws(self):
        """What stands in them is not looked at."""
        Y, latent = data(80), normal(1, 7)
        Y[10:20] = NAN
        found = []
        for filling in (0.0, 99.0):
            rows = rows_of(Y)
            points = np.where(rows.seen[:, None], rows.points, filling)
            rows = Rows.of(points, rows.seen, rows.sequences)
            smoothing = Smoothing(rows.there, Gaussian(0.5), LinearGuard(latent.standard, 4.0))
            start = np.full((80, 7), 1 / 7)
            moves = SmoothMoves(latent, 10.0)
            found.append(climb(smoothing, rows, start, drifting(latent), 4, moves))
        assert_array_equal(found[0].gamma, found[1].gamma)


class TestLearner:
    @pytest.mark.parametrize("n_init", [1, 2, 4, 9])
    def test_numbers_of_pairings(self, n_init):
        draft, latent = draft_of(data()), normal(1, 11)
        many = min(n_init, len(WINDOWS))
        assert len(list(learner(draft, latent, n_init=n_init).pairings(draft.rows))) == many
        chain = drifting(latent)
        known = list(learner(draft, latent, chain, n_init=n_init).pairings(draft.rows))
        assert len(known) == 2 * many
        assert all(p.chain is chain for p in known)

    def test_refined_laws_are_better_than_any_start(self):
        draft, latent = draft_of(data(300, 41)), normal(1, 21)
        one = learner(draft, latent)
        found, smoothing = one.settled()
        before = [
            expectation(smoothing, draft.rows, p.gamma, p.chain)[1].mean()
            for p in one.pairings(draft.rows)
        ]
        assert found.value > max(before) + 0.01
        assert_allclose(found.gamma.sum(axis=1), 1.0)
        assert smoothing.kernel.lengthscale == pytest.approx(0.5)

    def test_a_known_chain_stays(self):
        draft, latent = draft_of(data()), normal(1, 11)
        chain = drifting(latent)
        one = learner(draft, latent, chain=chain)
        found, _ = one.settled()
        assert_array_equal(found.chain.transmat, chain.transmat)

    @pytest.mark.slow
    @pytest.mark.parametrize("bandwidth", [0.5, None])
    def test_a_search_on_some_rows_ends_on_all(self, bandwidth, monkeypatch):
        monkeypatch.setattr(learn, "SEARCHED", 400)
        draft, latent = draft_of(data(700, 42)), normal(1, 15)
        one = learner(draft, latent, None, bandwidth, 1, 6)
        found, smoothing = one.settled()
        assert found.gamma.shape == (700, 15)
        assert_allclose(found.gamma.sum(axis=1), 1.0)
        assert len(np.arange(700)[smoothing.row]) == 700
        assert 0.05 < smoothing.kernel.lengthscale < 2


def test_progress_says_what_the_states_are_of(monkeypatch):
    """Several searches look alike but for their names."""
    said = []

    def noted(starts, description, verbose):
        said.append(description)
        return iter(starts)

    monkeypatch.setattr("kernelmean.chains.em.track", noted)
    X = np.random.default_rng(3).normal(size=(80, 1)).cumsum(axis=0)
    km.KernelStateSpace(n_latent=1, random_state=0).fit(X)
    said = [task for task in said if "dimension 1" in task]
    assert len(said) == 2
    assert "of the series" in said[0]
    assert "beside the backbone" in said[1]

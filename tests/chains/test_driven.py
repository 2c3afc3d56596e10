"""Chains that inputs drive, against plain loops, all paths and a general optimiser."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from kernelmean.chains.driven import Along, Driven, DrivenChain
from kernelmean.chains.em import PSEUDO
from kernelmean.chains.markov import (
    Chain,
    draw,
    filtered,
    log_probability,
    pairs,
    predicted,
    smoothed,
    stationary,
    transitions,
    viterbi,
)
from kernelmean.chains.model_bayes import ModelBayes

SEAM = [slice(0, 40), slice(40, 41), slice(41, 150)]


def driven_chain(K, p, seed, size=1.0):
    """Random coefficients, whose rows for a state sum to zero."""
    rng = np.random.default_rng(seed)
    coefficients = size * rng.normal(size=(K, K, 1 + p))
    coefficients -= coefficients.mean(axis=1, keepdims=True)
    Q = rng.dirichlet(np.ones(K), size=K)
    return DrivenChain(stationary(Q), Q, coefficients, rng.normal(size=p), 0.5 + rng.random(p))


def moves_by_hand(chain, inputs):
    """Q of the step into each row, entry by entry."""
    K = len(chain.startprob)
    Q = np.zeros((len(inputs), K, K))
    for t, u in enumerate(inputs):
        z = (u - chain.centre) / chain.scale
        for i in range(K):
            for j in range(K):
                a, *b = chain.coefficients[i, j]
                Q[t, i, j] = np.exp(a + np.dot(b, z))
            Q[t, i] /= Q[t, i].sum()
    return Q


def forward_backward(logb, start, Q, sequences):
    """α, log p(y_t | past), γ, ξ (of the step into a row) and predictions: loops, in logarithms."""
    n, K = logb.shape
    total_of = np.logaddexp.reduce
    alpha, loglik, gamma, prior = (np.zeros(s) for s in ((n, K), n, (n, K), (n, K)))
    xi = np.zeros((n, K, K))
    with np.errstate(divide="ignore"):
        logQ, log_start = np.log(Q), np.log(start)
    for s in sequences:
        forward = np.zeros((s.stop, K))
        before = 0.0
        for t in range(s.start, s.stop):
            if t == s.start:
                forward[t] = log_start
            else:
                forward[t] = total_of(forward[t - 1][:, None] + logQ[t], axis=0)
            prior[t] = np.exp(forward[t] - total_of(forward[t]))
            forward[t] = forward[t] + logb[t]
            total = total_of(forward[t])
            alpha[t], loglik[t], before = np.exp(forward[t] - total), total - before, total
        back = np.zeros(K)
        for t in range(s.stop - 1, s.start - 1, -1):
            gamma[t] = np.exp(forward[t] + back - before)
            if t > s.start:
                told = logb[t] + back
                xi[t] = np.exp(forward[t - 1][:, None] + logQ[t] + told - before)
                back = total_of(logQ[t] + told, axis=1)
    return alpha, loglik, gamma, xi, prior


def series(n, K, p, seed, sharp=2.0):
    """A chain, its inputs, and log-densities of n rows."""
    rng = np.random.default_rng(seed)
    chain, inputs = driven_chain(K, p, seed), rng.normal(size=(n, p))
    return chain, inputs, sharp * rng.normal(size=(n, K))


class TestRecursions:
    # as a banded system, as products side by side, and row by row where products underflow
    @pytest.mark.parametrize(("K", "sharp"), [(2, 2.0), (3, 2.0), (8, 2.0), (3, 400.0), (8, 400.0)])
    @pytest.mark.parametrize("sequences", [[slice(0, 150)], SEAM], ids=["one", "three"])
    def test_forward_and_backward(self, K, sharp, sequences):
        chain, inputs, logb = series(150, K, 2, 10 * K, sharp)
        logb[60:64] = 0.0  # missing
        along = chain.along(inputs)
        wanted = forward_backward(logb, chain.startprob, moves_by_hand(chain, inputs), sequences)
        alpha, loglik = filtered(logb, along, sequences)
        gamma = smoothed(alpha, along, sequences)
        found = alpha, loglik, gamma, pairs(alpha, gamma, along, sequences)
        assert_allclose(found[0], wanted[0], atol=1e-9)
        assert_allclose(found[1], wanted[1], rtol=1e-9, atol=1e-9)
        assert_allclose(found[2], wanted[2], atol=1e-8)
        assert_allclose(found[3], wanted[3][1:], atol=1e-8)
        assert_allclose(predicted(alpha, along, sequences), wanted[4], atol=1e-9)

    @pytest.mark.parametrize("K", [2, 3])
    def test_long_series(self, K):
        """Many stretches of a banded system, many blocks side by side."""
        chain, inputs, logb = series(1_200, K, 1, K)
        wanted = forward_backward(
            logb, chain.startprob, moves_by_hand(chain, inputs), [slice(0, 1_200)]
        )
        alpha, loglik = filtered(logb, chain.along(inputs), [slice(0, 1_200)])
        assert_allclose(alpha, wanted[0], atol=1e-9)
        assert_allclose(loglik, wanted[1], atol=1e-8)
        assert_allclose(
            smoothed(alpha, chain.along(inputs), [slice(0, 1_200)]), wanted[2], atol=1e-8
        )

    def test_best_path_is_the_best_of_all(self):
        chain, inputs, logb = series(7, 3, 1, 5)
        Q = np.log(moves_by_hand(chain, inputs))
        best, score = None, -np.inf
        for path in product(range(3), repeat=7):
            total = np.log(chain.startprob[path[0]]) + logb[0, path[0]]
            for t in range(1, 7):
                total += Q[t, path[t - 1], path[t]] + logb[t, path[t]]
            if total > score:
                best, score = path, total
        logprob, states = viterbi(logb, chain.along(inputs), [slice(0, 7)])
        assert states.tolist() == list(best)
        assert_allclose(logprob, [score], rtol=1e-12)
        again = log_probability(states, logb, chain.along(inputs), [slice(0, 7)])
        assert_allclose(again, logprob, rtol=1e-12)

    def test_draws_move_as_their_row_says(self):
        chain = driven_chain(3, 1, 0)
        inputs = np.tile([[-1.0], [2.0]], (30_000, 1))
        states = draw(chain.along(inputs), 60_000, np.random.default_rng(1))
        Q = moves_by_hand(chain, inputs[:2])
        for first, want in ((1, Q[1]), (2, Q[0])):  # steps into odd rows, and into even ones
            counts = np.zeros((3, 3))
            np.add.at(counts, (states[first - 1 : -1 : 2], states[first::2]), 1)
            assert_allclose(counts / counts.sum(axis=1, keepdims=True), want, atol=0.02)

    def test_kernel_bayes_rule(self):
        """The filter of embedded laws, row by row."""
        chain, inputs, _ = series(120, 3, 1, 8)
        rng = np.random.default_rng(9)
        O = rng.random((5, 3))
        rule = ModelBayes(None, O, 0.1)
        shares = rng.dirichlet(np.ones(3), size=120)
        shares[50:53] = np.nan
        found = rule.filtered(shares, chain.along(inputs), [*SEAM[:2], slice(41, 120)])
        Q, N = moves_by_hand(chain, inputs), O.T @ O
        for t, row in enumerate(shares):
            prior = chain.startprob if t in (0, 40, 41) else found[t - 1] @ Q[t]
            want = prior
            if not np.isnan(row).any():
                joint = np.diag(prior) @ N
                want = np.maximum(joint @ np.linalg.solve(joint + 0.1 * np.eye(3), row), 0.0)
                want = want / want.sum()
            assert_allclose(found[t], want, atol=1e-9)


class TestChain:
    def test_without_slopes_it_is_a_chain(self):
        """To the bit, and with one matrix for all rows."""
        K, rng = 3, np.random.default_rng(3)
        plain = Chain(np.full(K, 1 / K), rng.dirichlet(np.ones(K), size=K))
        chain = DrivenChain.of(plain, np.zeros(2), np.ones(2))
        along = chain.along(rng.normal(size=(50, 2)))
        assert along.transmat.shape == (K, K)
        logb = rng.normal(size=(50, K))
        for ours, theirs in zip(
            filtered(logb, along, SEAM[:1]), filtered(logb, plain, SEAM[:1]), strict=True
        ):
            assert (ours == theirs).all()
        assert_allclose(moves_by_hand(chain, np.ones((1, 2)))[0], plain.transmat, rtol=1e-12)

    def test_renumbered(self):
        chain, inputs, _ = series(5, 3, 2, 4)
        order = np.array([2, 0, 1])
        got = chain.reordered(order).into(inputs)
        assert_allclose(got, chain.into(inputs)[:, order][:, :, order], rtol=1e-12)


class TestStep:
    def joint(self, n=200, K=3, p=2):
        """A chain, and what EM's first half says of a series."""
        chain, inputs, logb = series(n, K, p, 12)
        sequences = [slice(0, 90), slice(90, n)]
        along = chain.along(inputs)
        alpha, _ = filtered(logb, along, sequences)
        gamma = smoothed(alpha, along, sequences)
        return chain, inputs, (alpha, gamma, along, sequences)

    @pytest.mark.parametrize("ridge", [0.5, 20.0])
    def test_it_is_the_maximiser(self, ridge):
        chain, inputs, told = self.joint()
        Q = moves_by_hand(chain, inputs)
        xi = forward_backward(series(200, 3, 2, 12)[2], chain.startprob, Q, told[3])[3]
        z = (inputs - chain.centre) / chain.scale
        X = np.c_[np.ones(200), z]

        def loss(flat):
            theta = flat.reshape(3, 3, 3)
            logits = np.einsum("tp,ijp->tij", X, theta)
            logs = logits - logsumexp(logits, axis=2, keepdims=True)
            still = theta[..., 0] - logsumexp(theta[..., 0], axis=1, keepdims=True)
            total = (xi * logs).sum() + PSEUDO * still.sum()
            return ridge / 2 * (theta[..., 1:] ** 2).sum() - total

        def slope(flat):
            theta = flat.reshape(3, 3, 3)
            law = softmax(np.einsum("tp,ijp->tij", X, theta), axis=2)
            up = np.einsum("tij,tp->ijp", xi.sum(axis=2, keepdims=True) * law - xi, X)
            up[..., 0] += PSEUDO * (3 * softmax(theta[..., 0], axis=1) - 1)
            up[..., 1:] += ridge * theta[..., 1:]
            return up.ravel()

        best = minimize(loss, np.zeros(27), jac=slope, method="BFGS", options={"gtol": 1e-6})
        step, new = Driven(ridge), chain
        for _ in range(10):  # a few steps of Newton each
            new = step(
                told[0], told[1], Along(chain.startprob, told[2].transmat, new, inputs), told[3]
            )
        assert loss(new.coefficients.ravel()) <= best.fun + 1e-6
        theta = best.x.reshape(3, 3, 3)
        assert_allclose(new.slopes, theta[..., 1:], atol=2e-3)

    def test_one_step_leads_up(self):
        chain, inputs, told = self.joint()
        far = DrivenChain.of(chain, chain.centre, chain.scale)
        xi = pairs(*told)
        before, after = far.into(inputs), None
        new = Driven(1.0)(
            told[0], told[1], Along(chain.startprob, told[2].transmat, far, inputs), told[3]
        )
        after = new.into(inputs)
        gain = (xi * (np.log(after[1:]) - np.log(before[1:]))).sum()
        assert gain > (new.slopes**2).sum() / 2

    def test_an_infinite_penalty_is_the_usual_step(self):
        chain, inputs, told = self.joint()
        new = Driven(np.inf)(*told)
        counts = pairs(*told).sum(axis=0) + PSEUDO
        assert not new.slopes.any()
        assert_allclose(new.transmat, counts / counts.sum(axis=1, keepdims=True), rtol=1e-9)
        assert_allclose(new.startprob @ new.transmat, new.startprob, atol=1e-12)

    def test_a_state_that_nothing_is_in(self):
        """No weight: its row is uniform at mean inputs, and nothing explodes."""
        chain, inputs, (alpha, gamma, along, sequences) = self.joint()
        alpha, gamma = alpha.copy(), gamma.copy()
        alpha[:, 2] = gamma[:, 2] = 0.0
        new = Driven(1.0)(alpha, gamma, along, sequences)
        assert np.isfinite(new.coefficients).all()
        assert_allclose(new.slopes[2], 0.0, atol=1e-3)

    def test_states_that_inputs_tell_for_sure(self):
        """Separable: the penalty holds slopes."""
        rng = np.random.default_rng(2)
        inputs = np.sign(rng.normal(size=(300, 1)))
        states = (inputs[:, 0] > 0).astype(int)
        known = np.eye(2)[states]
        chain = DrivenChain.of(
            Chain(np.full(2, 0.5), np.full((2, 2), 0.5)), np.zeros(1), np.ones(1)
        )
        for _ in range(20):
            chain = Driven(1.0)(known, known, chain.along(inputs), [slice(0, 300)])
        assert np.isfinite(chain.coefficients).all()
        assert chain.into(np.array([[1.0], [-1.0]]))[:, :, 1] == pytest.approx(
            np.array([[1.0, 1.0], [0.0, 0.0]]), abs=0.1
        )


def test_pairs_sum_to_transitions():
    rng = np.random.default_rng(0)
    Q = rng.dirichlet(np.ones(3), size=3)
    chain, logb = Chain(stationary(Q), Q), rng.normal(size=(150, 3))
    alpha, _ = filtered(logb, chain, SEAM)
    gamma = smoothed(alpha, chain, SEAM)
    joint = pairs(alpha, gamma, chain, SEAM)
    assert_allclose(joint.sum(axis=0), transitions(alpha, gamma, chain, SEAM), rtol=1e-10)
    assert_allclose(joint.sum(), 150 - 3, rtol=1e-10)

"""Recursions over a finite chain, against all paths, plain loops and hmmlearn."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from kernelmean.chains.markov import (
    Chain,
    before,
    draw,
    filtered,
    nearest_simplex,
    nearest_stochastic,
    predicted,
    smoothed,
    stationary,
    sweep,
    transitions,
    viterbi,
)
from kernelmean.core.sequences import check_sequences


def random_chain(rng, K, zeros=0.0):
    """Random laws, some of whose entries are zero (but one of each row)."""
    laws = rng.dirichlet(np.ones(K), size=K + 1)
    kept = rng.random(laws.shape) >= zeros
    kept[np.arange(K + 1), rng.integers(K, size=K + 1)] = True
    laws = (laws + 1e-3) * kept
    laws /= laws.sum(axis=1, keepdims=True)
    return Chain(laws[0], laws[1:])


def sticky(stay, K=3):
    Q = np.full((K, K), (1 - stay) / (K - 1))
    np.fill_diagonal(Q, stay)
    return Chain(np.full(K, 1 / K), Q)


def turning(slip, K=3):
    """0 → 1 → 2 → 0, but for a few slips."""
    return Chain(np.full(K, 1 / K), (1 - slip) * np.roll(np.eye(K), 1, axis=1) + slip / K)


def left_right(move):
    Q = np.array([[1 - move, move, 0], [0, 1 - move, move], [0, 0, 1]])
    return Chain(np.array([1.0, 0, 0]), Q)


def gaussian(states, sd, rng, K=3):
    """Log-densities (up to a constant) of noisy states."""
    y = states + sd * rng.standard_normal(len(states))
    return -((y[:, None] - np.arange(K)) ** 2) / (2 * sd**2)


def whole(rows):
    return [slice(0, len(rows))]


# ------------------------------------------------------------ oracles


def all_paths(logb, chain):
    """Every path of one sequence, and log p(path, y)."""
    paths = np.array(list(product(range(logb.shape[1]), repeat=len(logb))))
    with np.errstate(divide="ignore"):
        start, moves = np.log(chain.startprob), np.log(chain.transmat)
    logs = start[paths[:, 0]] + logb[np.arange(len(logb)), paths].sum(axis=1)
    return paths, logs + moves[paths[:, :-1], paths[:, 1:]].sum(axis=1)


def by_enumeration(logb, chain):
    """Filter, log p(y_1..n), smoother and expected transitions of one sequence."""
    n, K = logb.shape
    alpha = np.empty((n, K))
    for t in range(n):
        paths, logs = all_paths(logb[: t + 1], chain)
        law = np.exp(logs - logsumexp(logs))
        alpha[t] = [law[paths[:, t] == k].sum() for k in range(K)]
    gamma = np.array([[law[paths[:, t] == k].sum() for k in range(K)] for t in range(n)])
    pairs = np.zeros((K, K))
    for path, p in zip(paths, law, strict=True):
        np.add.at(pairs, (path[:-1], path[1:]), p)
    return alpha, logsumexp(logs), gamma, pairs


def plain_filter(logb, chain):
    alpha, loglik, prior = np.empty(logb.shape), np.empty(len(logb)), chain.startprob
    for t, row in enumerate(logb):
        joint = prior * np.exp(row - row.max())
        loglik[t] = np.log(joint.sum()) + row.max()
        alpha[t] = joint / joint.sum()
        prior = alpha[t] @ chain.transmat
    return alpha, loglik


def plain_smoother(logb, chain):
    """α times β, the latter from the observations to come."""
    gamma, beta = plain_filter(logb, chain)[0], np.ones(logb.shape[1])
    for t in range(len(logb) - 1, -1, -1):
        gamma[t] *= beta
        gamma[t] /= gamma[t].sum()
        beta = chain.transmat @ (np.exp(logb[t] - logb[t].max()) * beta)
        beta /= beta.sum()
    return gamma


def plain_viterbi(logb, chain):
    with np.errstate(divide="ignore"):
        score, moves = np.log(chain.startprob) + logb[0], np.log(chain.transmat)
    back = []
    for row in logb[1:]:
        through = score[:, None] + moves
        back.append(np.argmax(through, axis=0))
        score = np.max(through, axis=0) + row
    states = [int(np.argmax(score))]
    for arg in reversed(back):
        states.append(int(arg[states[-1]]))
    return score.max(), np.array(states[::-1])


# ------------------------------------------------------------ all paths


@pytest.mark.parametrize("zeros", [0.0, 0.5])
@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("seed", range(40, 45))
def test_forward_and_backward_are_sums_over_all_paths(seed, K, zeros):
    rng = np.random.default_rng(seed)
    chain, logb = random_chain(rng, K, zeros), 2 * rng.standard_normal((5, K))
    alpha, total, gamma, pairs = by_enumeration(logb, chain)
    found, loglik = filtered(logb, chain, whole(logb))
    np.testing.assert_allclose(found, alpha, atol=1e-13)
    assert loglik.sum() == pytest.approx(total, abs=1e-12)
    found_gamma = smoothed(found, chain, whole(logb))
    np.testing.assert_allclose(found_gamma, gamma, atol=1e-13)
    np.testing.assert_allclose(
        transitions(found, found_gamma, chain, whole(logb)), pairs, atol=1e-12
    )


@pytest.mark.parametrize("zeros", [0.0, 0.5])
@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("seed", range(45, 50))
def test_the_best_path_is_the_best_of_all(seed, K, zeros):
    rng = np.random.default_rng(seed)
    chain, logb = random_chain(rng, K, zeros), 2 * rng.standard_normal((6, K))
    paths, logs = all_paths(logb, chain)
    logprob, states = viterbi(logb, chain, whole(logb))
    np.testing.assert_array_equal(states, paths[np.argmax(logs)])
    np.testing.assert_allclose(logprob, [logs.max()], atol=1e-12)


@pytest.mark.parametrize("K", [1, 3, 7])
@pytest.mark.parametrize("seed", range(50, 53))
def test_evidence_that_underflows(seed, K):
    rng = np.random.default_rng(seed)
    chain, logb = random_chain(rng, K), 1000 * rng.standard_normal((5, K))
    alpha, total, gamma, pairs = by_enumeration(logb, chain)
    found, loglik = filtered(logb, chain, whole(logb))
    found_gamma = smoothed(found, chain, whole(logb))
    np.testing.assert_allclose(found, alpha, atol=1e-12)
    np.testing.assert_allclose(found_gamma, gamma, atol=1e-12)
    assert loglik.sum() == pytest.approx(total, rel=1e-14)
    np.testing.assert_allclose(
        transitions(found, found_gamma, chain, whole(logb)), pairs, atol=1e-12
    )


def test_evidence_against_every_state_that_can_be_reached():
    """State 2 is favoured by e^1000, but only 0 and 1 follow the first row."""
    chain = Chain(np.array([1.0, 0, 0]), np.array([[0.7, 0.3, 0], [0, 0, 1], [1, 0, 0]]))
    logb = np.array([[0.0, 0, 0], [-1001.0, -1000.0, 0]])
    alpha, total, gamma, _ = by_enumeration(logb, chain)
    found, loglik = filtered(logb, chain, whole(logb))
    np.testing.assert_allclose(found, alpha, atol=1e-13)
    np.testing.assert_allclose(smoothed(found, chain, whole(logb)), gamma, atol=1e-13)
    assert loglik.sum() == pytest.approx(total, rel=1e-14)


def test_a_move_that_next_to_never_happens_has_happened():
    chain = Chain(np.array([1.0, 0]), np.array([[1.0, 1e-310], [0.0, 1.0]]))
    logb = np.array([[0.0, 0], [0, 0], [-2000, 0], [0, 0]])
    _, total, gamma, _ = by_enumeration(logb, chain)
    alpha, loglik = filtered(logb, chain, whole(logb))
    found = smoothed(alpha, chain, whole(logb))
    np.testing.assert_allclose(found, gamma, atol=1e-12)
    assert loglik.sum() == pytest.approx(total, rel=1e-12)
    assert np.all(np.isfinite(transitions(alpha, found, chain, whole(logb))))


def test_beliefs_that_contradict_the_chain_stay():
    chain, alpha = Chain(np.array([1.0, 0]), np.eye(2)), np.eye(2)
    np.testing.assert_array_equal(smoothed(alpha, chain, whole(alpha)), alpha)


# ------------------------------------------------------------ rows that say nothing


@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_an_impossible_row_says_nothing(value):
    rng = np.random.default_rng(53)
    chain, logb = random_chain(rng, 3), rng.standard_normal((5, 3))
    silent, missing = logb.copy(), logb.copy()
    silent[[0, 2, 4]], missing[[0, 2, 4]] = value, 0.0
    alpha, _, gamma, pairs = by_enumeration(missing, chain)
    found, loglik = filtered(silent, chain, whole(logb))
    found_gamma = smoothed(found, chain, whole(logb))
    np.testing.assert_allclose(found, alpha, atol=1e-13)
    np.testing.assert_allclose(found_gamma, gamma, atol=1e-13)
    np.testing.assert_allclose(
        transitions(found, found_gamma, chain, whole(logb)), pairs, atol=1e-12
    )
    np.testing.assert_array_equal(np.isneginf(loglik), [True, False, True, False, True])
    logprob, states = viterbi(silent, chain, whole(logb))
    paths, logs = all_paths(missing, chain)
    np.testing.assert_array_equal(states, paths[np.argmax(logs)])
    assert np.isneginf(logprob[0])


def test_a_row_that_no_reachable_state_explains_says_nothing():
    chain = Chain(np.array([1.0, 0, 0]), np.roll(np.eye(3), 1, axis=1))
    logb = np.array([[0.0, -1, -2], [0, -np.inf, 0], [-1, -1, -1]])
    alpha, loglik = filtered(logb, chain, whole(logb))
    np.testing.assert_array_equal(alpha, np.eye(3))
    np.testing.assert_array_equal(smoothed(alpha, chain, whole(logb)), np.eye(3))
    np.testing.assert_allclose(loglik, [0, -np.inf, -1])
    logprob, states = viterbi(logb, chain, whole(logb))
    np.testing.assert_array_equal(states, [0, 1, 2])
    assert np.isneginf(logprob[0])


def test_without_news_the_chain_takes_its_course():
    chain = random_chain(np.random.default_rng(54), 3)
    alpha, loglik = filtered(np.zeros((500, 3)), chain, [slice(0, 500)])
    expected = [chain.startprob @ np.linalg.matrix_power(chain.transmat, t) for t in (0, 1, 7, 499)]
    np.testing.assert_allclose(alpha[[0, 1, 7, 499]], expected, atol=1e-13)
    np.testing.assert_allclose(loglik, 0, atol=1e-13)
    np.testing.assert_allclose(smoothed(alpha, chain, [slice(0, 500)]), alpha, atol=1e-13)


# ------------------------------------------------------------ plain loops

LONG = {
    "mixing": (sticky(0.8), 1.0),
    "sticky": (sticky(0.999), 1.0),
    "sticky, little news": (sticky(0.999), 10.0),
    "turning": (turning(1e-6), 1.0),
    "turning, little news": (turning(1e-6), 30.0),
    "turning for ever": (turning(0.0), 5.0),
    "identity": (Chain(np.full(3, 1 / 3), np.eye(3)), 20.0),
    "left to right": (left_right(0.001), 1.0),
    "two of two periods": (
        Chain(np.full(3, 1 / 3), np.array([[0, 0.4, 0.6]] + 2 * [[1, 0, 0]])),
        1,
    ),
    "one state": (Chain(np.ones(1), np.ones((1, 1))), 1.0),
}


@pytest.mark.parametrize("name", LONG)
def test_long_sequences_equal_plain_loops(name):
    chain, sd = LONG[name]
    rng = np.random.default_rng(55)
    logb = gaussian(draw(chain, 1000, rng), sd, rng, len(chain.startprob))
    alpha, loglik = filtered(logb, chain, whole(logb))
    expected, expected_loglik = plain_filter(logb, chain)
    np.testing.assert_allclose(alpha, expected, atol=1e-11)
    np.testing.assert_allclose(loglik, expected_loglik, atol=1e-11)
    gamma = smoothed(alpha, chain, whole(logb))
    np.testing.assert_allclose(gamma, plain_smoother(logb, chain), atol=1e-11)
    logprob, states = viterbi(logb, chain, whole(logb))
    best, path = plain_viterbi(logb, chain)
    np.testing.assert_array_equal(states, path)
    assert logprob[0] == pytest.approx(best, rel=1e-12)


def test_a_tiny_probability_that_is_all_that_matters_later():
    """3,000 rows speak for state 0 and 3,000 for state 1, in a chain that never moves."""
    chain, quiet = Chain(np.array([0.5, 0.5]), np.eye(2)), 0.05
    logb = np.array([[quiet, 0.0]] * 3000 + [[0.0, quiet]] * 3000)
    alpha, _ = filtered(logb, chain, whole(logb))
    np.testing.assert_allclose(alpha[2999], [1, np.exp(-3000 * quiet)], rtol=1e-9)
    np.testing.assert_allclose(alpha[-1], [0.5, 0.5], rtol=1e-9)
    np.testing.assert_allclose(smoothed(alpha, chain, whole(logb)), 0.5, rtol=1e-9)


# ------------------------------------------------------------ several sequences

LENGTHS = [1, 700, 1, 1, 64, 65, 300, 800, 67, 1]  # 2,000 rows


def test_sequences_do_not_hear_each_other():
    rng = np.random.default_rng(56)
    chain, sequences = random_chain(rng, 4, 0.3), check_sequences(LENGTHS, 2000)
    logb = rng.standard_normal((2000, 4))
    alpha, loglik = filtered(logb, chain, sequences)
    gamma = smoothed(alpha, chain, sequences)
    logprob, states = viterbi(logb, chain, sequences)
    pairs = np.zeros((4, 4))
    for i, s in enumerate(sequences):
        alone = whole(logb[s])
        alpha_s, loglik_s = filtered(logb[s], chain, alone)
        gamma_s = smoothed(alpha_s, chain, alone)
        logprob_s, states_s = viterbi(logb[s], chain, alone)
        pairs += transitions(alpha_s, gamma_s, chain, alone)
        for found, expected in [(alpha, alpha_s), (gamma, gamma_s), (loglik, loglik_s)]:
            np.testing.assert_allclose(found[s], expected, atol=1e-11)
        np.testing.assert_array_equal(states[s], states_s)
        assert logprob[i] == pytest.approx(logprob_s[0], rel=1e-12)
    np.testing.assert_allclose(transitions(alpha, gamma, chain, sequences), pairs, atol=1e-9)
    assert pairs.sum() == pytest.approx(2000 - len(LENGTHS))


def test_predictions_carry_the_filter_one_step_on():
    rng = np.random.default_rng(57)
    chain, alpha = random_chain(rng, 3), rng.dirichlet(np.ones(3), size=5)
    found = predicted(alpha, chain, check_sequences([2, 3], 5))
    for row, last in enumerate([None, 0, None, 2, 3]):
        expected = chain.startprob if last is None else chain.transmat.T @ alpha[last]
        np.testing.assert_allclose(found[row], expected, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [[2000], LENGTHS, [1] * 2000], ids=["one", "some", "rows"])
def test_the_same_as_hmmlearn(lengths):
    hmm = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(58)
    chain, sequences = random_chain(rng, 3, 0.3), check_sequences(lengths, 2000)
    model = hmm.GaussianHMM(3)
    model.startprob_, model.transmat_ = chain.startprob, chain.transmat
    model.means_, model.covars_ = np.arange(3.0)[:, None], np.ones((3, 1))
    states = np.concatenate([draw(chain, s.stop - s.start, rng) for s in sequences])
    y = states + rng.standard_normal(2000)
    logb = -((y[:, None] - np.arange(3)) ** 2) / 2 - np.log(2 * np.pi) / 2
    alpha, loglik = filtered(logb, chain, sequences)
    total, gamma = model.score_samples(y[:, None], lengths)
    assert loglik.sum() == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(smoothed(alpha, chain, sequences), gamma, atol=1e-11)
    best, path = model.decode(y[:, None], lengths)
    logprob, decoded = viterbi(logb, chain, sequences)
    assert logprob.sum() == pytest.approx(best, rel=1e-12)
    np.testing.assert_array_equal(decoded, path)


# ------------------------------------------------------------ laws


def test_names_of_states_do_not_matter():
    rng = np.random.default_rng(59)
    chain, order = random_chain(rng, 4, 0.3), np.array([2, 0, 3, 1])
    renamed = Chain(chain.startprob[order], chain.transmat[np.ix_(order, order)])
    logb = rng.standard_normal((1000, 4))
    alpha, loglik = filtered(logb, chain, whole(logb))
    alpha_r, loglik_r = filtered(logb[:, order], renamed, whole(logb))
    np.testing.assert_allclose(alpha_r, alpha[:, order], atol=1e-12)
    np.testing.assert_allclose(loglik_r, loglik, atol=1e-12)
    gamma, gamma_r = smoothed(alpha, chain, whole(logb)), smoothed(alpha_r, renamed, whole(logb))
    np.testing.assert_allclose(gamma_r, gamma[:, order], atol=1e-12)
    states, states_r = (
        viterbi(b, c, whole(b))[1] for b, c in [(logb, chain), (logb[:, order], renamed)]
    )
    np.testing.assert_array_equal(order[states_r], states)


def test_inputs_are_left_alone():
    rng = np.random.default_rng(60)
    chain, logb = random_chain(rng, 3), rng.standard_normal((200, 3))
    logb[5] = -np.inf
    arrays = [logb, chain.startprob, chain.transmat]
    copies = [a.copy() for a in arrays]
    alpha, _ = filtered(logb, chain, whole(logb))
    arrays.append(alpha)
    copies.append(alpha.copy())
    gamma = smoothed(alpha, chain, whole(logb))
    transitions(alpha, gamma, chain, whole(logb))
    viterbi(logb, chain, whole(logb))
    draw(chain, 100, rng)
    nearest_stochastic(chain.transmat)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


# ------------------------------------------------------------ the engine


def plain_sweep(step, inputs, first, sequences):
    states = np.empty((len(inputs), len(first)))
    for s in sequences:
        state = first[None]
        for t in range(s.start, s.stop):
            state = step(state, inputs[t : t + 1])
            states[t] = state[0]
    return states


def forgets(s, u):
    return np.tanh(0.7 * s[:, ::-1] + u)


def remembers(s, u):
    return s + u


def is_chaotic(s, u):
    return 3.9 * s * (1 - s) + 0 * u


def goes_bad(s, u):
    return np.where(u > 2, np.nan, s + u)


@pytest.mark.parametrize("step", [forgets, remembers, is_chaotic, goes_bad])
@pytest.mark.parametrize("lengths", [[2000], LENGTHS], ids=["one", "several"])
def test_a_sweep_is_the_plain_recursion(step, lengths):
    u = np.random.default_rng(61).standard_normal((2000, 2))
    first, sequences = np.array([0.3, 0.4]), check_sequences(lengths, 2000)
    found, expected = (way(step, u, first, sequences) for way in (sweep, plain_sweep))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


def test_inputs_of_a_sweep_have_any_shape():
    rng = np.random.default_rng(62)
    turns = np.linalg.qr(rng.standard_normal((300, 3, 3)))[0]
    first = np.array([1.0, 2.0, 3.0])

    def turn(s, u):
        return 0.9 * np.einsum("bij,bj->bi", u, s) + 1

    found = sweep(turn, turns, first, [slice(0, 300)])
    np.testing.assert_allclose(found, plain_sweep(turn, turns, first, [slice(0, 300)]), atol=1e-11)


def test_what_counts_as_the_same_state_can_be_said():
    u = np.random.default_rng(63).standard_normal((2000, 2))
    rounds = []

    def never(a, b):
        rounds.append(len(a))
        return np.zeros(len(a), dtype=bool)

    found = sweep(forgets, u, np.zeros(2), [slice(0, 2000)], same=never)
    np.testing.assert_array_equal(found, plain_sweep(forgets, u, np.zeros(2), [slice(0, 2000)]))
    assert rounds


@pytest.mark.parametrize("backward", [False, True])
def test_before_shifts_within_sequences(backward):
    states = np.arange(5.0)[:, None]
    found = before(states, np.array([9.0]), check_sequences([2, 1, 2], 5), backward=backward)
    expected = [1, 9, 9, 4, 9] if backward else [9, 0, 9, 9, 3]
    np.testing.assert_array_equal(found[:, 0], expected)


# ------------------------------------------------------------ drawing


@pytest.mark.parametrize("name", LONG)
def test_draws_follow_the_distribution_functions(name):
    chain = LONG[name][0]
    states = draw(chain, 3000, np.random.default_rng(64))
    law = chain.startprob
    for state, u in zip(states, np.random.default_rng(64).random(3000), strict=True):
        levels = np.cumsum(law)
        assert (levels[state - 1] if state else 0) <= u + 1e-15
        assert u < levels[state] + 1e-15
        law = chain.transmat[state]


@pytest.mark.parametrize("u", [0.0, np.nextafter(1, 0)])
def test_what_is_impossible_is_never_drawn(u):
    class Extreme:
        def random(self, n):
            return np.full(n, u)

    law = np.array([0.0, 0.1, 0.0, 0.3, 0.6, 0.0])
    states = draw(Chain(law, np.tile(law, (6, 1))), 3, Extreme())
    np.testing.assert_array_equal(states, 1 if u == 0 else 4)


def test_frequencies_of_draws():
    rng = np.random.default_rng(65)
    chain = random_chain(rng, 3, 0.3)
    states = draw(chain, 200_000, rng)
    counts = np.zeros((3, 3))
    np.add.at(counts, (states[:-1], states[1:]), 1)
    rows = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    error = np.sqrt(chain.transmat * (1 - chain.transmat) / rows)
    assert np.all(np.abs(counts / rows - chain.transmat) <= 4.5 * error)
    starts = [draw(chain, 1, rng)[0] for _ in range(2000)]
    error = np.sqrt(chain.startprob * (1 - chain.startprob) / 2000)
    assert np.all(np.abs(np.bincount(starts, minlength=3) / 2000 - chain.startprob) <= 4.5 * error)


# ------------------------------------------------------------ stationary laws

CHAINS = {
    "mixing": sticky(0.8).transmat,
    "period 3": turning(0.0).transmat,
    "identity": np.eye(4),
    "absorbing": left_right(0.1).transmat,
    "one state": np.ones((1, 1)),
    "two classes and a way in": np.array(
        [
            [0.5, 0.5, 0.0, 0.0, 0.0],
            [0.3, 0.7, 0.0, 0.0, 0.0],
            [0.1, 0.0, 0.8, 0.1, 0.0],
            [0.0, 0.0, 0.0, 0.0, 1.0],
            [0.0, 0.0, 0.0, 0.5, 0.5],
        ]
    ),
    "nearly apart": np.array([[1 - 1e-9, 1e-9], [2e-9, 1 - 2e-9]]),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_stationary_law_stays(name):
    Q = CHAINS[name]
    law = stationary(Q)
    assert np.all(law >= 0)
    assert law.sum() == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(law @ Q, law, atol=1e-14)


def test_stationary_laws_that_are_known():
    np.testing.assert_allclose(stationary(CHAINS["nearly apart"]), [2 / 3, 1 / 3], atol=1e-6)
    np.testing.assert_allclose(stationary(CHAINS["absorbing"]), [0, 0, 1], atol=1e-14)
    np.testing.assert_allclose(stationary(CHAINS["identity"]), 0.25, atol=1e-14)
    assert stationary(CHAINS["two classes and a way in"])[2] == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("seed", range(66, 70))
def test_the_stationary_law_is_where_a_chain_goes(seed):
    Q = random_chain(np.random.default_rng(seed), 5).transmat
    limit = np.linalg.matrix_power(Q, 4096)
    np.testing.assert_allclose(limit, np.tile(stationary(Q), (5, 1)), atol=1e-11)


# ------------------------------------------------------------ the simplex


@pytest.mark.parametrize("scale", [1e-8, 0.3, 3.0, 1e8])
@pytest.mark.parametrize("K", [1, 2, 7])
def test_the_nearest_law_meets_the_conditions_of_optimality(K, scale):
    """p is nearest to v if v - p is the same where p > 0, and no larger where p = 0."""
    v = scale * np.random.default_rng(70).standard_normal((200, K))
    p = nearest_simplex(v)
    assert np.all(p >= 0)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    gap, tolerance = v - p, 1e-12 + 1e-15 * scale
    level = np.max(gap, axis=1, keepdims=True)
    assert np.all(np.where(p > 0, np.abs(gap - level), 0) <= tolerance)


def test_the_nearest_law_is_that_of_an_optimiser():
    v = np.random.default_rng(71).standard_normal(4)
    found = minimize(
        lambda p: np.sum((p - v) ** 2),
        np.full(4, 0.25),
        bounds=4 * [(0, 1)],
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(nearest_simplex(v[None])[0], found.x, atol=1e-6)


def test_laws_are_their_own_nearest():
    laws = np.random.default_rng(72).dirichlet(np.full(5, 0.3), size=50)
    np.testing.assert_allclose(nearest_simplex(laws), laws, atol=1e-15)


def test_a_row_that_is_not_finite_becomes_uniform():
    Q = np.array([[0.2, np.nan, 0.1], [np.inf, 0, 0], [1e300, -1e300, 0]])
    third = np.full(3, 1 / 3)
    np.testing.assert_allclose(nearest_stochastic(Q), [third, third, [1, 0, 0]])
    np.testing.assert_allclose(nearest_stochastic(np.full((2, 2), np.nan)), 0.5)

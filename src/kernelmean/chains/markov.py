"""Recursions over a finite Markov chain: filtering, smoothing, decoding, drawing, stationary laws.

A linear recursion of few states is a banded system, which BLAS solves; one of many goes row by row,
two calls each (`_linear`). Others that forget their start are run in about √n blocks side by side
(`sweep`), and one over maps of states is composed in pairs (`_follow`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.linalg.blas import dtbsv

from ..core import arrays
from ..core.sequences import firsts

SHORTEST = 32  # rows of the shortest block: one that has no time to forget has to be run twice
LOOK = 16  # steps after which a recursion row by row is normalised
NEAR = 1e-12  # relative difference between states that are the same state
WEAK = 1e-200  # evidence below which a product of probabilities may have lost some of them
LARGE = 1e300  # largest ratio of probabilities: beyond it, their sums overflow
FEW = 16  # states up to which a banded system is quicker than a row at a time
NATS = 250.0  # by which the size of a linear recursion can grow until it is normalised
HUGE = 1e120  # size from which on it may have lost something


@dataclass(frozen=True)
class Chain:
    """P(X_1 = i) = π_i and P(X_{t+1} = j | X_t = i) = Q_ij.

    Parameters
    ----------
    startprob : array of shape (K,)
        π, which sums to one.
    transmat : array of shape (K, K), or (n, K, K)
        Q, whose rows sum to one; or, where it changes, that of the step out of each of n rows.
    """

    startprob: np.ndarray
    transmat: np.ndarray

    @property
    def n_inputs(self) -> int:
        """Inputs that drive the transitions."""
        return 0

    def along(self, inputs: np.ndarray | None) -> Chain:
        """The chain along rows with these inputs, which say nothing here."""
        return self

    def into(self, inputs: np.ndarray | None) -> np.ndarray:
        """Q of the step into rows with these inputs."""
        return self.transmat

    def reordered(self, order: np.ndarray) -> Self:
        """State k becomes what state order[k] was."""
        start, moves = self.startprob[order], self.transmat[np.ix_(order, order)]
        return replace(self, startprob=start, transmat=moves)

    @classmethod
    def counted(cls, counts: np.ndarray) -> Chain:
        """With transitions in proportion to these of each state; started in its stationary law."""
        transmat = counts / counts.sum(axis=1, keepdims=True)
        return Chain(stationary(transmat), transmat)


# ------------------------------------------------------------ the engine


def _same_row(a, b) -> np.ndarray:
    """Equal up to 1e-12 of the row's largest entry."""
    return np.max(np.abs(a - b), axis=1) <= NEAR * np.max(np.abs(b), axis=1)


def sweep(step: Callable, inputs, first, sequences, *, same: Callable = _same_row) -> np.ndarray:
    """s_t = step(s_{t-1}, u_t) for all rows t, with s_{t-1} = `first` where a sequence begins.

    The rows are cut into about √n blocks, which are run side by side, each from the guess that
    its start is `first`. A block whose start turns out not to be the end of the block before it
    is run again from there, until every start is right. So the result is that of the plain
    recursion; how soon it comes depends on how fast the recursion forgets: usually in a second
    round; at worst, if it never does, in as many rounds as there are blocks, which takes a few
    times as long as the plain recursion.

    Parameters
    ----------
    step : callable
        Maps states (B, m) and inputs (B, ...) of B rows to their next states (B, m), each row on
        its own, for any B.
    inputs : array of shape (n, ...)
        u.
    first : array of shape (m,)
        State before the first row of each sequence, and the guess elsewhere.
    sequences : list of slice
        Rows of each sequence, in order (see `filtering.check_sequences`).
    same : callable, optional
        Maps two arrays of states (B, m) to (B,): whether they are the same up to rounding.

    Returns
    -------
    array of shape (n, m)
        s; `before` shifts it to the state that each row was met in.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.chains.markov import sweep
    >>> halve = lambda s, u: s / 2 + u
    >>> sweep(halve, np.ones((5, 1)), np.zeros(1), [slice(0, 3), slice(3, 5)])[:, 0]
    array([1.  , 1.5 , 1.75, 1.  , 1.5 ])
    """
    first = np.asarray(first, dtype=float)
    n = len(inputs)
    begins, inputs = _side_by_side(firsts(sequences, n)), _side_by_side(np.asarray(inputs))
    (length, blocks), anew = begins.shape, np.asarray(begins.any(axis=1))
    states = np.empty((length, blocks, first.size))
    starts, stale = np.tile(first, (blocks, 1)), np.arange(blocks)
    for _ in range(blocks):  # one more block is right for good after each round
        state, some = starts[stale], stale if len(stale) < blocks else slice(None)  # not copied
        for t in range(length):
            if anew[t]:
                state = np.where(begins[t, some][:, None], first, state)
            states[t, some] = state = step(state, inputs[t, some])
        ends = np.vstack([first, states[-1, :-1]])
        stale = np.flatnonzero(~same(starts, ends))
        if not stale.size:
            break
        starts[stale] = ends[stale]
    return states.swapaxes(0, 1).reshape(-1, first.size)[:n]


def _side_by_side(rows: np.ndarray) -> np.ndarray:
    """Rows (n, ...) as (length, blocks, ...), the last block filled up with the last row."""
    n = len(rows)
    length = min(n, max(SHORTEST, round(n**0.5)))
    blocks = -(-n // length)
    rows = rows[np.minimum(np.arange(blocks * length), n - 1)]
    return np.ascontiguousarray(rows.reshape(blocks, length, *rows.shape[1:]).swapaxes(0, 1))


def before(states, first, sequences, *, backward: bool = False) -> np.ndarray:
    """s_{t-1} of a `sweep` for all rows t: `first` where a sequence begins (s_{t+1}, backward)."""
    shifted, (early, late) = np.empty_like(states), (slice(-1), slice(1, None))
    to, of = (early, late) if backward else (late, early)
    shifted[to] = states[of]
    shifted[firsts(sequences, len(states), backward)] = first
    return shifted


def moved(states, moves) -> np.ndarray:
    """s_t Q of states (n, K), Q the same for all or that of each row."""
    return states @ moves if moves.ndim == 2 else (states[:, None] @ moves)[:, 0]


def carried(
    weigh: Callable,
    rows,
    moves,
    first,
    sequences,
    same: Callable = _same_row,
    product: Callable = moved,
) -> np.ndarray:
    """The states that rows are met with: weigh(s_t, u_t) Q_t is the one at the next row.

    `first` where a sequence begins. Q is the same for all, or that of each row, which `sweep` has
    behind the numbers of the row, (n, m).
    """
    (n, m), still = rows.shape, moves.ndim == 2

    def step(states, row):
        own = moves if still else row[:, m:].reshape(-1, *moves.shape[1:])
        return product(weigh(states, row[:, :m]), own)

    behind = rows if still else np.hstack([rows, moves.reshape(n, -1)])
    return before(sweep(step, behind, first, sequences, same=same), first, sequences)


def _into(moves) -> np.ndarray:
    """Of the step into each row, from those out of it."""
    return moves if moves.ndim == 2 else np.roll(moves, 1, axis=0)


def _at(moves, t: int | slice) -> np.ndarray:
    """Of the step out of row t."""
    return moves if moves.ndim == 2 else moves[t]


def _same_entries(a, b) -> np.ndarray:
    """Each entry equal up to 1e-12 of itself: a tiny probability may be all that matters later."""
    return np.all(np.abs(a - b) <= NEAR * np.abs(b), axis=1)


def _same_logs(a, b) -> np.ndarray:
    """Logarithms, some of them -inf, equal up to 1e-12 of themselves or of one."""
    return np.isclose(a, b, NEAR, NEAR).all(axis=1)


def _linear(u, moves, first, begins) -> np.ndarray:
    """x_t = (x_{t-1}Q) ∘ u_t up to its size, Q into each row; `first` ∘ u_t where one begins.

    All terms are positive, so nothing cancels.
    """
    if u.shape[1] == 1:
        return np.ones_like(u)
    return (_banded if u.shape[1] <= FEW else _stepped)(u, moves, first, begins)


def _of_one(x) -> np.ndarray | None:
    """Rows that sum to one; None if the size of some has left its range."""
    size = x @ np.ones((x.shape[1], 1))
    return x / size if size.min() > 1 / HUGE and size.max() < HUGE else None


def _messages(u, transmat, sequences) -> np.ndarray:
    """x_t ∝ Q(u_{t+1} ∘ x_{t+1}), the same for all states where a sequence ends.

    u ∘ x goes forward along the rows turned round.
    """
    uniform, back = np.full(u.shape[1], 1 / u.shape[1]), transmat.swapaxes(-1, -2)
    turned, begins = _at(back, slice(None, None, -1)), firsts(sequences, len(u), True)
    given = u[::-1], turned, uniform, begins[::-1]
    x = _of_one(_linear(*given)[::-1])
    x = _stepped(*given, 1)[::-1] if x is None else x
    return _normalised(before(moved(x, _into(back)), uniform, sequences, backward=True), uniform)


def _banded(u, moves, first, begins) -> np.ndarray:
    """x up to its size, by Q into each row: in stretches triangular systems of bandwidth 2K − 1."""
    n, K = u.shape
    x = np.where(begins[:, None], first * u, 0.0)
    u = np.where(begins[:, None], 0.0, u)
    bands = np.zeros((n, K, 2 * K))
    for i in range(K):  # below the diagonal of column (t, i), the rows (t+1, j)
        own = -_at(moves, slice(1, n))[..., i, :]
        np.multiply(own, u[1:], out=bands[:-1, i, K - i : 2 * K - i])
    length = int(NATS / np.log(K))
    for start in range(0, n, length):
        rows = slice(start, start + length)
        if start:
            last = x[start - 1] / max(x[start - 1].sum(), 1 / HUGE)
            x[start] += (last @ _at(moves, start)) * u[start]
        band, right = bands[rows].reshape(-1, 2 * K).T, x[rows].ravel()
        x[rows] = dtbsv(2 * K - 1, band, right, lower=1, diag=1).reshape(-1, K)
    return x


def _stepped(u, moves, first, begins, look: int = LOOK) -> np.ndarray:
    """The same row by row, normalised at every so many; `first` where it came to nothing."""
    x, last = np.empty(u.shape), first
    every = [np.ascontiguousarray(moves)] * len(u) if moves.ndim == 2 else moves
    for t, (told, now, Q, anew) in enumerate(zip(u, x, every, begins.tolist(), strict=True)):
        if anew:
            np.multiply(first, told, out=now)
        else:
            np.dot(last, Q, out=now)
            now *= told
        if t % look == 0:
            now[:] = now / total if (total := now.sum()) > 0 else first
        last = now
    return x


# ------------------------------------------------------------ filtering and smoothing


def filtered(logb, chain: Chain, sequences) -> tuple[np.ndarray, np.ndarray]:
    """α_t ∝ b_t ∘ (Qᵀα_{t-1}), α_1 ∝ b_1 ∘ π: the forward algorithm, normalised at each row.

    A row that no state explains (-inf in all states that the chain can be in) says nothing about
    the state: α_t is the prediction, and its log-likelihood is -inf.

    Parameters
    ----------
    logb : array of shape (n, K)
        log p(y_t | x_t = k), up to -inf. A row of zeros is a missing observation.
    chain : Chain
    sequences : list of slice
        Rows of each sequence.

    Returns
    -------
    alpha : array of shape (n, K)
        P(x_t = k | y_1, ..., y_t).
    loglik : array of shape (n,)
        log p(y_t | y_1, ..., y_{t-1}).

    Notes
    -----
    Probabilities below 1e-308 are zero here: evidence of more than 700 nats against a state rules
    it out. Later rows can tell only if `transmat` has zeros; then bound `logb` from below.

    References
    ----------
    Rabiner (1989), section III.A.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.chains.markov import Chain, filtered
    >>> chain = Chain(np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> alpha, loglik = filtered(np.log([[0.8, 0.2], [0.1, 0.6]]), chain, [slice(0, 2)])
    >>> alpha.round(3)
    array([[0.8  , 0.2  ], [0.345, 0.655]])
    >>> np.exp(loglik).round(2)  # 0.5 · 0.8 + 0.5 · 0.2, and 0.76 · 0.1 + 0.24 · 0.6
    array([0.5 , 0.22])
    """
    logb, top = relative_logs(logb)
    u = np.exp(logb)
    u /= u @ np.ones((u.shape[1], 1)) / u.shape[1]
    own = chain.transmat, chain.startprob, sequences
    begins = firsts(sequences, len(u))
    states = _of_one(_linear(u, _into(chain.transmat), chain.startprob, begins))
    if states is not None:
        priors = predicted(states, chain, sequences)
    else:  # something may be lost
        priors = carried(lambda p, b: _posterior(p, b)[0], logb, *own, _same_entries)
    alpha, evidence = _posterior(priors, logb)
    return alpha, evidence + top


def relative_logs(logb) -> tuple[np.ndarray, np.ndarray]:
    """Each row less its maximum, and the maxima; a row without a finite one says nothing."""
    top = np.max(np.ascontiguousarray(logb.T), axis=0)
    finite = np.isfinite(top)
    logb = np.where(finite[:, None], logb, 0.0) - np.where(finite, top, 0.0)[:, None]
    return logb, np.where(finite, top, -np.inf)


def _posterior(prior, logb) -> tuple[np.ndarray, np.ndarray]:
    """Rows of prior·b/Σ prior·b, and the logarithm of the sum."""
    joint = prior * np.exp(logb)
    total = joint @ np.ones(joint.shape[1])
    weak = total <= WEAK
    total[weak] = 1.0
    alpha, evidence = joint / total[:, None], np.log(total)
    alpha[weak], evidence[weak] = posterior_in_logs(prior[weak], logb[weak])
    return alpha, evidence


def posterior_in_logs(prior, logb) -> tuple[np.ndarray, np.ndarray]:
    """`_posterior` where its products underflow; where it is 0/0, the prior."""
    joint = arrays.logs(prior) + logb
    top = np.max(joint, axis=1)
    possible = np.isfinite(top)
    joint = np.where(possible[:, None], np.exp(joint - np.where(possible, top, 0)[:, None]), prior)
    total = np.sum(joint, axis=1)
    return joint / total[:, None], np.where(possible, np.log(total) + top, -np.inf)


def predicted(alpha, chain: Chain, sequences) -> np.ndarray:
    """P(x_t | y_1, ..., y_{t-1}) = Qᵀα_{t-1}; π in the first row of each sequence.

    Parameters
    ----------
    alpha : array of shape (n, K)
        From `filtered`.
    chain : Chain
    sequences : list of slice

    Returns
    -------
    array of shape (n, K)

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.chains.markov import Chain, predicted
    >>> chain = Chain(np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> predicted(np.array([[1.0, 0.0], [0.0, 1.0]]), chain, [slice(0, 2)])
    array([[0.5, 0.5], [0.9, 0.1]])
    """
    return before(moved(alpha, chain.transmat), chain.startprob, sequences)


def smoothed(alpha, chain: Chain, sequences) -> np.ndarray:
    """γ_t = α_t ∘ Q(γ_{t+1}/Qᵀα_t), γ_T = α_T: probabilities given the whole sequence.

    What goes back is the message Q(γ_{t+1}/Qᵀα_t), up to a factor: its size cannot drift.

    Parameters
    ----------
    alpha : array of shape (n, K)
        From `filtered`.
    chain : Chain
    sequences : list of slice

    Returns
    -------
    gamma : array of shape (n, K)
        P(x_t = k | all y of the sequence).

    References
    ----------
    Rabiner (1989), section III.A (in the form that needs no second pass over the observations).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.chains.markov import Chain, filtered, smoothed
    >>> chain = Chain(np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> whole = [slice(0, 2)]
    >>> alpha, _ = filtered(np.log([[0.8, 0.2], [0.1, 0.6]]), chain, whole)
    >>> smoothed(alpha, chain, whole).round(3)
    array([[0.545, 0.455], [0.345, 0.655]])
    """
    news = _ratio(alpha, predicted(alpha, chain, sequences))
    return _normalised(alpha * _messages(news, chain.transmat, sequences), alpha)


def transitions(alpha, gamma, chain: Chain, sequences) -> np.ndarray:
    """Σ_t P(x_t = i, x_{t+1} = j | all y) = Q_ij Σ_t α_t,i γ_{t+1,j}/(Qᵀα_t)_j.

    Parameters
    ----------
    alpha, gamma : arrays of shape (n, K)
        From `filtered` and `smoothed`.
    chain : Chain
    sequences : list of slice
        No transition is counted from one to the next.

    Returns
    -------
    array of shape (K, K)
        Expected numbers of transitions; they sum to n less the number of sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.chains.markov import Chain, transitions
    >>> chain = Chain(np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> known = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> transitions(known, known, chain, [slice(0, 3)])
    array([[1., 1.], [0., 0.]])
    """
    if chain.transmat.ndim == 3:
        return pairs(alpha, gamma, chain, sequences).sum(axis=0)
    return chain.transmat * (alpha[:-1].T @ _following(alpha, gamma, chain, sequences))


def pairs(alpha, gamma, chain: Chain, sequences) -> np.ndarray:
    """P(x_t = i, x_{t+1} = j | all y) = α_t,i Q_ij γ_{t+1,j}/(Qᵀα_t)_j, (n − 1, K, K).

    Zero from one sequence to the next. `transitions` is their sum.
    """
    news = _following(alpha, gamma, chain, sequences)
    moves = _at(chain.transmat, slice(len(news)))
    return alpha[:-1, :, None] * moves * news[:, None, :]


def _following(alpha, gamma, chain: Chain, sequences) -> np.ndarray:
    """γ_{t+1}/Qᵀα_t, 0 where a sequence ends."""
    news = _ratio(gamma, predicted(alpha, chain, sequences))
    news[firsts(sequences, len(news))] = 0.0
    return news[1:]


def _ratio(a, b) -> np.ndarray:
    """a/b with 0/0 = 0, and never so large that its sums overflow."""
    with np.errstate(over="ignore"):
        ratio = np.divide(a, b, out=np.zeros_like(a), where=b > 0)
    return np.minimum(ratio, LARGE)


def _normalised(rows, otherwise) -> np.ndarray:
    """Rows that sum to one; `otherwise` where they came to nothing."""
    total = rows @ np.ones(rows.shape[1])
    lost = (total == 0)[:, None]
    return np.where(lost, otherwise, rows / np.where(lost, 1.0, total[:, None]))


# ------------------------------------------------------------ the best path


def viterbi(logb, chain: Chain, sequences) -> tuple[np.ndarray, np.ndarray]:
    """argmax_x log π(x_1) + Σ log Q(x_{t-1}, x_t) + Σ logb_t(x_t): the most probable path.

    The best score of a path that ends in j is δ_t(j) = max_i(δ_{t-1}(i) + log Q_ij) + logb_t(j),
    here relative to the best of all j. A row that no state explains is left out of the choice.

    Parameters
    ----------
    logb : array of shape (n, K)
    chain : Chain
    sequences : list of slice

    Returns
    -------
    logprob : array, one number per sequence
        log p(path, y); -inf if some row is impossible.
    states : int array of shape (n,)

    References
    ----------
    Viterbi (1967); Rabiner (1989), section III.B.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.chains.markov import Chain, viterbi
    >>> chain = Chain(np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> logprob, states = viterbi(np.log([[0.8, 0.2], [0.4, 0.6]]), chain, [slice(0, 2)])
    >>> states, np.exp(logprob).round(3)  # 0.5 · 0.8 · 0.9 · 0.4
    (array([0, 0]), array([0.144]))
    """
    relative, top = relative_logs(logb)
    log_start, log_moves = arrays.logs(chain.startprob), arrays.logs(chain.transmat)
    priors = carried(_scores, relative, log_moves, log_start, sequences, _same_logs, _max_plus)
    scores = _scores(priors, relative)
    ends = firsts(sequences, len(scores), backward=True)
    back = _best_before(scores, log_moves)
    back[ends] = np.argmax(scores[ends], axis=1)[:, None]
    states = _follow(back[::-1])[::-1].copy()  # Torch takes no negative strides
    logb = relative + top[:, None]
    return log_probability(states, logb, chain, sequences), states


def log_probability(states, logb, chain: Chain, sequences) -> np.ndarray:
    """log p(path, y) of each sequence, for a path of states and log-emissions (n, K)."""
    log_start, log_moves = arrays.logs(chain.startprob), arrays.logs(chain.transmat)
    rows = np.arange(len(states))
    moves = log_moves if log_moves.ndim == 3 else log_moves[None]
    gains = moves[(rows - 1) % len(moves), np.roll(states, 1), states] + logb[rows, states]
    starts = [s.start for s in sequences]
    first = states[starts]
    gains[starts] = log_start[first] + logb[starts, first]
    return np.add.reduceat(gains, starts)


def _scores(prior, logb) -> np.ndarray:
    """Prior plus log-emission, the best being 0; the prior alone where nothing is possible."""
    scores = prior + logb
    lost = np.isneginf(np.max(scores, axis=1, keepdims=True))
    scores = np.where(lost, prior, scores)
    return scores - np.max(scores, axis=1, keepdims=True)


def _max_plus(scores, log_moves) -> np.ndarray:
    """max_i(scores_i + log Q_ij)."""
    return np.max(scores[:, :, None] + log_moves, axis=1)


def _best_before(scores, log_moves) -> np.ndarray:
    """argmax_i(scores_i + log Q_ij), one i at a time: (n, K, K) may not fit into memory."""
    best = scores[:, :1] + log_moves[..., 0, :]
    arg = np.zeros(scores.shape, dtype=np.intp)
    for i in range(1, scores.shape[1]):
        challenger = scores[:, i : i + 1] + log_moves[..., i, :]
        arg[challenger > best] = i
        best = np.maximum(best, challenger)
    return arg


def _follow(maps) -> np.ndarray:
    """x_t = maps_t(x_{t-1}) where maps_0 is constant: maps are composed in pairs, pairs of pairs...

    until all are constant, which takes log₂ n rounds at most, and fewer if paths meet.
    """
    reach = 1
    while np.any(maps != maps[:, :1]):
        longer = np.take_along_axis(maps[reach:], maps[:-reach], axis=1)
        maps = np.concatenate([maps[:reach], longer])
        reach *= 2
    return maps[:, 0]


# ------------------------------------------------------------ drawing, and laws


def draw(chain: Chain, n: int, rng: np.random.Generator) -> np.ndarray:
    """x_1 ~ π, x_{t+1} ~ Q(x_t, ·): one path of `n` states.

    Parameters
    ----------
    chain : Chain
    n : int
    rng : numpy Generator

    Returns
    -------
    int array of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.chains.markov import Chain, draw
    >>> chain = Chain(np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> draw(chain, 5, np.random.default_rng(0))
    array([0, 1, 0, 1, 0])
    """
    uniform = rng.random(n)
    laws = np.moveaxis(_into(chain.transmat), -2, 0)
    moves = np.column_stack([_inverse(law, uniform) for law in laws])
    moves[0] = _inverse(chain.startprob, uniform[:1])
    return _follow(moves)


def one_of(laws, rng: np.random.Generator) -> np.ndarray:
    """A state drawn from each row of probabilities, (n,)."""
    return _inverse(laws, rng.random(len(laws)))


def _inverse(law, uniform) -> np.ndarray:
    """The state at each level of a law's distribution function, never one of probability 0."""
    levels = np.cumsum(law, axis=-1)
    levels = levels[..., :-1] / levels[..., -1:]
    if levels.ndim == 1:
        return np.searchsorted(levels, uniform, side="right")
    return (levels <= uniform[:, None]).sum(axis=1)


def stationary(transmat) -> np.ndarray:
    """π = πQ, Σπ = 1: a stationary law; of several, the one of least norm.

    That one is a law too: where the chain has several closed classes, it mixes their laws, whose
    supports are disjoint, with positive weights.

    Parameters
    ----------
    transmat : array of shape (K, K)

    Returns
    -------
    array of shape (K,)

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.chains.markov import stationary
    >>> stationary(np.array([[0.9, 0.1], [0.2, 0.8]])).round(4)
    array([0.6667, 0.3333])
    """
    K = len(transmat)
    back = np.transpose(transmat) - np.eye(K)
    if np.min(transmat) > 0:  # there is one only
        law = np.linalg.solve(back - 1.0, np.full(K, -1.0))
    else:
        equations = np.vstack([back, np.ones((1, K))])
        law = np.linalg.lstsq(equations, np.append(np.zeros(K), 1.0), rcond=None)[0]
    law = np.maximum(law, 0.0)
    return law / np.sum(law)


def nearest_simplex(rows) -> np.ndarray:
    """argmin ‖p - row‖ over laws p, which is max(row - θ, 0) with θ such that it sums to one.

    Parameters
    ----------
    rows : array of shape (m, K)

    Returns
    -------
    array of shape (m, K)

    References
    ----------
    Held, Wolfe, Crowder (1974), section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.chains.markov import nearest_simplex
    >>> nearest_simplex(np.array([[0.6, 0.6], [2.0, -1.0]]))
    array([[0.5, 0.5], [1. , 0. ]])
    """
    rows = rows - np.max(rows, axis=1, keepdims=True)  # the same p; large numbers stay exact
    falling = -np.sort(-rows, axis=1)
    excess = np.cumsum(falling, axis=1) - 1
    counts = np.arange(1, rows.shape[1] + 1)
    kept = np.sum(counts * falling > excess, axis=1, keepdims=True)
    return np.maximum(rows - np.take_along_axis(excess, kept - 1, axis=1) / kept, 0.0)


def nearest_stochastic(transmat) -> np.ndarray:
    """The nearest transition matrix: `nearest_simplex` of each row; uniform where not finite.

    Parameters
    ----------
    transmat : array of shape (K, K)

    Returns
    -------
    array of shape (K, K)

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.chains.markov import nearest_stochastic
    >>> nearest_stochastic(np.array([[1.1, -0.1], [np.nan, 0.3]]))
    array([[1. , 0. ], [0.5, 0.5]])
    """
    transmat = np.asarray(transmat, dtype=float)
    nearest = np.full(transmat.shape, 1 / transmat.shape[1])
    finite = np.all(np.isfinite(transmat), axis=1)
    nearest[finite] = nearest_simplex(transmat[finite])
    return nearest

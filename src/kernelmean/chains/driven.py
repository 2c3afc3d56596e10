"""Chains whose transitions are driven by known inputs: a multinomial logit for each state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import log_softmax, softmax

from ..core import Saveable, arrays
from ..core.minimise import descend
from .em import PSEUDO, Climb, Refinement, maximised
from .markov import Chain, pairs

RIDGES = (30.0, 5.0, 1.0)  # on slopes, one after the other
WORTH = 3.0  # least gain in the log-likelihood of rows held out
STEPS = 10  # of L-BFGS in an iteration of EM


@dataclass(frozen=True)
class DrivenChain(Chain, Saveable):
    """P(x_t = j | x_{t-1} = i, u_t) ∝ exp(a_ij + b_ijᵀz_t), z_t = (u_t − centre)/scale.

    The inputs u_t of a row drive the step into it; those of the first row of a sequence drive none.

    Attributes
    ----------
    startprob : array of shape (K,)
    transmat : array of shape (K, K)
        Shares of the transitions on the whole, whatever the inputs; π is its stationary law.
    coefficients : array of shape (K, K, 1 + p)
        a, then b; the b of a state sum to zero over j.
    centre, scale : arrays of shape (p,)
        Means and standard deviations of the inputs.
    held_out : tuple of float
        Mean log-likelihood of a row held out without inputs and with them.
    """

    coefficients: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    held_out: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, chain: Chain, centre: np.ndarray, scale: np.ndarray, *more) -> DrivenChain:
        """The chain with inputs that say nothing yet."""
        logs = np.log(np.maximum(chain.transmat, np.finfo(float).tiny))
        a = logs - logs.mean(axis=1, keepdims=True)
        b = np.zeros((*a.shape, len(centre)))
        coefficients = np.concatenate([a[..., None], b], axis=2)
        return cls(chain.startprob, chain.transmat, coefficients, centre, scale, *more)

    @property
    def n_inputs(self) -> int:
        """Inputs that drive the transitions."""
        return len(self.centre)

    @property
    def slopes(self) -> np.ndarray:
        """b, (K, K, p)."""
        return self.coefficients[..., 1:]

    def design(self, inputs: np.ndarray) -> np.ndarray:
        """1 and z of every row, (n, 1 + p)."""
        return np.c_[np.ones(len(inputs)), (inputs - self.centre) / self.scale]

    def into(self, inputs: np.ndarray | None) -> np.ndarray:
        """Q of the steps into rows with these inputs, (n, K, K)."""
        assert inputs is not None
        if not self.slopes.any():
            return np.broadcast_to(self.transmat, (len(inputs), *self.transmat.shape))
        return softmax(np.tensordot(self.design(inputs), self.coefficients, (1, 2)), axis=-1)

    def along(self, inputs: np.ndarray | None) -> Chain:
        """The chain along rows with these inputs: Q of the step out of each row."""
        assert inputs is not None
        still = not self.slopes.any()
        moves = self.transmat if still else np.roll(self.into(inputs), -1, axis=0)
        return Along(self.startprob, moves, self, inputs)

    def reordered(self, order: np.ndarray) -> Self:
        """State k becomes what state order[k] was."""
        some = self.coefficients[np.ix_(order, order)]
        return replace(super().reordered(order), coefficients=some)


@dataclass(frozen=True)
class Along(Chain):
    """A driven chain along some rows."""

    of: DrivenChain
    inputs: np.ndarray


@dataclass(frozen=True)
class Driven:
    """EM's step for a driven chain: max Σ_t Σ_ij ξ_tij log Q_ij(u_{t+1}) − λ/2 Σ b².

    ξ_tij = P(x_t = i, x_{t+1} = j | all y). A few steps of L-BFGS for each i, from where the chain
    is. Besides, `PSEUDO` transitions of each kind are taken as seen at mean inputs.
    """

    ridge: float

    def __call__(self, alpha, gamma, chain: Along, sequences) -> DrivenChain:
        old, whole = chain.of, maximised(alpha, gamma, chain, sequences)
        new = DrivenChain.of(whole, old.centre, old.scale, old.held_out)
        if np.isinf(self.ridge):
            return new
        joint = pairs(alpha, gamma, chain, sequences)
        joint = np.concatenate([joint, np.full_like(joint[:1], PSEUDO)])
        X = np.vstack([old.design(chain.inputs)[1:], np.eye(1, 1 + old.n_inputs)])
        states = zip(old.coefficients, np.moveaxis(joint, 1, 0), strict=True)
        found = np.stack([climbed(start, X, N, self.ridge) for start, N in states])
        return replace(new, coefficients=found)


def climbed(theta: np.ndarray, X: np.ndarray, N: np.ndarray, ridge: float) -> np.ndarray:
    """A few steps up from θ on Σ_t Σ_j N_tj log softmax_j(θ x_t) − λ/2 Σ b², θ = (a, b).

    Rows 1, z of X, (n, 1 + p), and weights N of what came out, (n, K).
    """
    total, penalty = N.sum(axis=1, keepdims=True), np.r_[0.0, np.full(X.shape[1] - 1, ridge)]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        at = flat.reshape(theta.shape)
        logs = log_softmax(X @ at.T, axis=1)
        slope = (total * np.exp(logs) - N).T @ X + penalty * at
        return (penalty * at**2).sum() / 2 - (N * logs).sum(), slope.ravel()

    return descend(loss, theta.ravel(), None, STEPS, 1e-12).reshape(theta.shape)


# ------------------------------------------------------------ whether inputs help


def driven(search: Refinement, factor: float, found: Climb, inputs: np.ndarray) -> tuple:
    """The search and the climb, inputs driving the chain as far as rows held out gain by it.

    An infinite penalty is a chain without inputs.
    """
    chain = DrivenChain.of(found.chain, inputs.mean(axis=0), arrays.units(inputs))
    plain = replace(search, maximise=Driven(np.inf))
    found = replace(found, chain=chain)
    held = without = plain.held_out(factor, found, plain.held_out(factor, found))
    tried: list[tuple[float, Refinement]] = []
    for ridge in RIDGES:
        other = replace(search, maximise=Driven(ridge))
        held = other.held_out(factor, found, held)
        tried.append((held.total, other))
    told, best = max(tried, key=lambda pair: pair[0])
    n = int(search.rows.seen.sum())
    chain = replace(chain, held_out=(without.total / n, told / n))
    if told <= without.total + WORTH:
        return plain, replace(found, chain=chain)
    return best, best.resumed(best.smoothing(factor), replace(found, chain=chain))

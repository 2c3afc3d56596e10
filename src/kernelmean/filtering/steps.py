"""The steps of the kernel Bayes filter in coordinates: predict, update, smooth (MATH §6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core import Array, Saveable, arrays, solves
from ..core.moments import block_rows

DROPPED = 1e-6  # share of Σβ⁺ that rows with next to no weight may hold together
COLLAPSE = 1e-3  # least Σw of an update that is believed
FADED = 0.1  # mass of a prediction below which it is scaled back to one
TENSOR_FLOATS = 2**26  # largest tensor of the squared rule, 512 MiB


class Transition(Saveable):
    """V = Q₊ᵀQ₋(Q₋ᵀQ₋ + Nλ'I)⁻¹ over N consecutive pairs; a belief m becomes Vm.

    On points, Vm has the weights Q₋(Q₋ᵀQ₋ + Nλ'I)⁻¹m on the later state of each pair.

    Attributes
    ----------
    before : array of shape (n, r)
        A row for every training state: that of its predecessor, or zeros where there is none.
    gain, operator : arrays of shape (r, r)
        (Q₋ᵀQ₋ + Nλ'I)⁻¹, and V.
    outlook : array of shape (r, 1 + d)
        m ↦ Σ_i w_i [1, z_i], by the read-out rows [q(z_i), 1, z_i].
    """

    def __init__(self, before, readout, pairs: int, reg: float):
        r = before.shape[1]
        self.before, self.gain = before, inverse(before.T @ before / pairs, reg) / pairs
        forward = self.gain @ (before.T @ readout)
        # each in memory of its own, as in a file: a loaded filter then rounds as this one does
        self.operator = arrays.row_major(forward[:, :r].T)
        self.outlook = arrays.row_major(forward[:, r:])

    def weights(self, m) -> Array:
        """Weights of Vm on the training states, (n,)."""
        return self.before @ (self.gain @ m)


class Shares(Saveable):
    """β = Q(QᵀQ/n + ηI)⁻¹m/n: the share of each row of Q, (n, r), in a belief m, near one in sum.

    `gain` is (QᵀQ/n + ηI)⁻¹/n. Where rows of Q may be zeros, n is the number of the others.
    """

    def __init__(self, Q, reg: float, n: int):
        self.Q, self.gain = Q, inverse(Q.T @ Q / n, reg) / n

    def __call__(self, m) -> Array:
        """β, (n,)."""
        return self.Q @ (self.gain @ m)


def inverse(second, reg: float) -> Array:
    """(A + λI)⁻¹, symmetric: small, and applied at every step."""
    eye = arrays.like(np.eye(second.shape[0]), second)
    half = solves.ridge(second, reg).half(eye)
    return half.T @ half


def kept_shares(beta, limit: int | None = None) -> Array:
    """max(β, 0), with zeros for rows that do not matter.

    Rows below a floor, which hold less than `DROPPED` of the sum together, are dropped. With a
    `limit`, at most so many rows stay: systematic sampling in proportion to β, the rows taken
    sharing the sum equally.
    """
    xp = arrays.namespace(beta)
    positive = arrays.at_least(beta, 0.0)
    total = xp.sum(positive)
    kept = xp.where(positive > DROPPED * total / beta.shape[0], positive, 0.0)
    if limit is None or int(xp.sum(xp.astype(kept > 0, xp.int64))) <= limit:
        return kept
    # the number of the points (j + 1/2) total/limit, j = 0, 1, ..., that fall in each row's share
    steps = xp.floor(xp.cumulative_sum(kept) * (limit / total) + 0.5)
    counts = xp.concat([steps[:1], steps[1:] - steps[:-1]])
    return counts * (total / limit)


def active(d, *parts) -> tuple[Array, ...]:
    """d and the rows of `parts` where d > 0, unless passing over all is quicker than picking."""
    rows = np.flatnonzero(arrays.to_numpy(d))
    if 4 * len(rows) > d.shape[0]:
        return d, *parts
    return tuple(arrays.take(A, rows, axis=0) for A in (d, *parts))


def weighted(Phi, d) -> Array:
    """ΦᵀDΦ, as the product of one matrix with itself, which takes half of the time."""
    half = d[:, None] ** 0.5 * Phi
    return half.T @ half


@dataclass(frozen=True)
class Importance(Saveable):
    """w = DΦ(ΦᵀDΦ + λI)⁻¹φ(x), D = diag(max(β, 0)), touching rows with a share only."""

    Phi: Array  # (n, r_x)
    shares: Shares
    readout: Array  # rows [q(z_i), 1, z_i]
    reg: float
    limit: int | None = None

    def __call__(self, m, coordinates) -> list[tuple[Array, Array]]:
        """u (r_x,) and Σ_i w_i [q(z_i), 1, z_i], for each of some beliefs m (r_z,)."""
        told = []
        for b in range(len(m)):
            d, Phi, readout = active(self.kept(m[b]), self.Phi, self.readout)
            u = solves.ridge(weighted(Phi, d), self.reg).solve(coordinates[b, :])
            told.append((u, (d * (Phi @ u)) @ readout))
        return told

    def weights(self, m, u) -> Array:
        """The weights on all rows that `u` stands for, (n,)."""
        return self.kept(m) * (self.Phi @ u)

    def kept(self, m) -> Array:
        """The diagonal of D for one belief, (n,)."""
        return kept_shares(self.shares(m), self.limit)


class Covariances:
    """The training rows in a belief m: shares that sum to one, mean and covariance of φ."""

    def __init__(self, rule: Importance, m):
        d = rule.kept(m)
        total = float(arrays.namespace(d).sum(d))
        self.rule, self.shares = rule, d / total if total > 0 else d

    @cached_property
    def mean(self) -> Array:
        """μ."""
        return self.shares @ self.rule.Phi

    @cached_property
    def cov(self) -> Array:
        """C."""
        d, Phi = active(self.shares, self.rule.Phi)
        return weighted(Phi, d) - self.mean[:, None] * self.mean[None, :]

    def carried(self, change, reg: float) -> tuple[Array, Array]:
        """What a change of the expected φ says of the states: u and Σ_i v_i [q(z_i), 1, z_i].

        v_i = d_i (φ_i − μ)ᵀu, u = (C + λI)⁻¹ change: the covariances of a Rauch–Tung–Striebel
        smoother (MATH §13.1). No change, or no share, moves nothing.
        """
        u = solves.ridge(self.cov, reg).solve(change)
        return u, self.weights(u) @ self.rule.readout

    def weights(self, u) -> Array:
        """The v that `u` stands for, (n,)."""
        return self.shares * (self.rule.Phi @ u - self.mean @ u)


@dataclass(frozen=True)
class Squared(Saveable):
    """w = diag(β)Φ(C² + δI)⁻¹Cφ(x), C = Φᵀdiag(β)Φ.

    With `tensor` Σ_i q(z_i) ⊗ φ(x_i) ⊗ [φ(x_i), q(z_i), 1, z_i], β enters through its
    coefficients alone and a step costs the same for any number of rows.
    """

    Phi: Array
    shares: Shares
    readout: Array
    reg: float
    tensor: Array | None = None  # (r_z, r_x · k)

    @classmethod
    def of(cls, Phi, shares: Shares, readout, reg: float) -> Squared:
        n, width = Phi.shape[0], Phi.shape[1] * (Phi.shape[1] + readout.shape[1])
        r = shares.Q.shape[1]
        worth = r < n and r * width <= TENSOR_FLOATS
        tensor = _tensor(shares.Q, Phi, readout) if worth else None
        return cls(Phi, shares, readout, reg, tensor)

    def __call__(self, m, coordinates) -> list[tuple[Array, Array]]:
        """u (r_x,) and Σ_i w_i [q(z_i), 1, z_i], for each of some beliefs m (r_z,)."""
        r = self.Phi.shape[1]
        products = self._products(arrays.namespace(coordinates).stack(m) @ self.shares.gain)
        C, read = products[:, :, :r], products[:, :, r:]
        u = _squared_solve(C, coordinates, self.reg)
        return [(u[b, :], u[b, :] @ read[b, :, :]) for b in range(u.shape[0])]

    def _products(self, c) -> Array:
        """Φᵀdiag(β)[Φ, readout], (batch, r_x, k)."""
        xp, r = arrays.namespace(c), self.Phi.shape[1]
        if self.tensor is not None:
            return xp.reshape(c @ self.tensor, (c.shape[0], r, -1))
        right = xp.concat([self.Phi, self.readout], axis=1)
        beta = self.shares.Q @ c.T
        return xp.stack([(beta[:, b, None] * self.Phi).T @ right for b in range(c.shape[0])])

    def weights(self, m, u) -> Array:
        """The weights on all rows that `u` stands for, (n,)."""
        return self.shares(m) * (self.Phi @ u)


def _tensor(Q, Phi, readout) -> Array:
    """Σ_i q_i ⊗ φ_i ⊗ [φ_i, R_i] as a matrix (r_z, r_x · k), over blocks of rows."""
    xp = arrays.namespace(Q)
    right = xp.concat([Phi, readout], axis=1)
    width = Phi.shape[1] * right.shape[1]
    total = 0.0
    for part in arrays.slices(Q.shape[0], block_rows(width)):
        products = Phi[part, :, None] * right[part, None, :]
        total = total + Q[part, :].T @ xp.reshape(products, (-1, width))
    return total


def _squared_solve(C, coordinates, reg: float) -> Array:
    """(C² + δI)⁻¹Cφ = Re (C + i√δ I)⁻¹φ: one solve with a matrix as well conditioned as C."""
    xp = arrays.namespace(C)
    if reg == 0:
        values, vectors = xp.linalg.eigh(C)
        rotated = xp.matmul(coordinates[:, None, :], vectors)
        shrunk = rotated * solves.squared_filter(values, reg)[:, None, :]
        return xp.matmul(shrunk, xp.matrix_transpose(vectors))[:, 0, :]
    shift = arrays.like(1j * reg**0.5 * np.eye(C.shape[-1]), C)
    right = xp.astype(coordinates, xp.complex128)[:, :, None]
    return xp.real(xp.linalg.solve(xp.astype(C, xp.complex128) + shift, right))[:, :, 0]

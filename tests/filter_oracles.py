"""The kernel Bayes filter the slow way: n×n Gram matrices, hidden Markov tables, Kalman's filter.

Nothing here imports kernelmean. A belief is a list of points with a weight each; a step solves the
n×n systems that the papers print, with the corrections of the errata page (shares without a factor
n, successors k(y_i, y_{j+1}) in the transfer matrix).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import bayes_oracles
import numpy as np
from scipy.spatial.distance import cdist

Array = np.ndarray
Gram = Callable[[Array, Array], Array]


# ------------------------------------------------------------------------------- Gram matrices
def gaussian(lengthscale: float) -> Gram:
    """exp(−‖x − y‖²/(2ℓ²)) for all pairs."""
    return lambda A, B: np.exp(-cdist(A, B, "sqeuclidean") / (2 * lengthscale**2))


@dataclass(frozen=True)
class Points:
    """A belief Σ_j w_j k(u_j, ·)."""

    u: Array
    w: Array

    def on(self, Z: Array, K_z: Gram) -> Array:
        """Its values at the rows of Z."""
        return K_z(Z, self.u) @ self.w

    def mean(self) -> Array:
        return self.w @ self.u / self.w.sum()


@dataclass(frozen=True)
class DenseFilter:
    """Fukumizu 2013, eq. (18) and (19); Song 2016, eq. (13) to (16); Xu 2022, Algorithm 2.

    With several training sequences, the pair (last row of one, first row of the next) is dropped.
    """

    X: Array
    Z: Array
    K_x: Gram
    K_z: Gram
    rule: str
    reg_prior: float
    reg: float
    reg_transition: float
    reg_smoother: float = 0.2
    lengths: Sequence[int] | None = None

    @cached_property
    def earlier(self) -> Array:
        """Rows that have a successor."""
        rows, first = [], 0
        for count in self.lengths or [len(self.Z)]:
            rows += list(range(first, first + count - 1))
            first += count
        return np.array(rows)

    @cached_property
    def G(self) -> Array:
        return self.K_z(self.Z, self.Z)

    @cached_property
    def G_x(self) -> Array:
        return self.K_x(self.X, self.X)

    def start(self, prior: Points | None = None) -> Points:
        n = len(self.Z)
        return Points(self.Z, np.full(n, 1 / n)) if prior is None else prior

    def predict(self, m: Points) -> Points:
        """(G_- + Nλ'I)⁻¹ m(z_-), as weights on the successors."""
        before, N = self.Z[self.earlier], len(self.earlier)
        G = self.K_z(before, before) + N * self.reg_transition * np.eye(N)
        w = np.zeros(len(self.Z))
        w[self.earlier + 1] = np.linalg.solve(G, m.on(before, self.K_z))
        return Points(self.Z, w)

    def shares(self, m: Points) -> Array:
        """β = (G + nηI)⁻¹ m(z)."""
        n = len(self.Z)
        return np.linalg.solve(self.G + n * self.reg_prior * np.eye(n), m.on(self.Z, self.K_z))

    def update(self, m: Points, x: Array, supervision=None) -> Points:
        """Any rule at one observation; supervision (x_s, z_s, strength) by Song's eq. (14)-(16)."""
        beta = self.shares(m)
        if supervision is not None:
            return self._supervised(beta, x, *supervision)
        k = self.K_x(self.X, x[None])
        return Points(
            self.Z, bayes_oracles.bayes_weights(self.rule, self.G_x, k, beta, self.reg)[0]
        )

    def _supervised(self, beta: Array, x: Array, x_s: Array, z_s: Array, strength) -> Points:
        """γ = (K' + δΛ†)⁻¹ K'_{:x}, Λ† = diag(1/β⁺, 1/μ); the rows with β ≤ 0 are discarded."""
        rows = np.concatenate([self.X, x_s])
        share = np.concatenate([np.maximum(beta, 0), np.broadcast_to(strength, len(x_s))])
        keep = share > 0
        K = self.K_x(rows[keep], rows[keep]) + self.reg * np.diag(1 / share[keep])
        w = np.zeros(len(rows))
        w[keep] = np.linalg.solve(K, self.K_x(rows[keep], x[None]))[:, 0]
        return Points(np.concatenate([self.Z, z_s]), w)

    def filter(self, X: Array, prior: Points | None = None, supervise=None) -> list[Points]:
        """One sequence; NaN keeps the prediction; `supervise(t, x, prediction, last)`."""
        track: list[Points] = []
        for t, x in enumerate(X):
            last = track[-1] if track else None
            m = self.start(prior) if last is None else self.predict(last)
            given = None if supervise is None else supervise(t, x, m, last)
            track.append(m if np.isnan(x).any() else self.update(m, x, given))
        return track

    def smooth(self, X: Array, prior: Points | None = None, supervise=None) -> list[Points]:
        """Back from the last, by the covariances of the training transitions (MATH §13.1).

        Rows are the pairs (z_i, z_{i+1}), shares d those of the filtered belief on the earlier
        ones, and news f is the smoothed belief at the next step less the prediction, at z_{i+1}:
        v = D^½ (D^½ H K H' D^½ + λI)⁻¹ D^½ H f, H f = f − d·f, is added to the filtered weights.
        """
        track = self.filter(X, prior, supervise)
        before, after = self.Z[self.earlier], self.Z[self.earlier + 1]
        N = len(before)
        G, G_after = self.K_z(before, before), self.K_z(after, after)
        for t in range(len(X) - 2, -1, -1):
            m, ahead = track[t], self.predict(track[t])
            share = np.linalg.solve(
                G + N * self.reg_prior * np.eye(N), m.on(before, self.K_z)
            ).clip(0)
            d = share / share.sum()
            H, root = np.eye(N) - d, np.sqrt(d)
            news = track[t + 1].on(after, self.K_z) / track[t + 1].w.sum()
            news = news - ahead.on(after, self.K_z) / ahead.w.sum()
            K = root[:, None] * (H @ G_after @ H.T) * root + self.reg_smoother * np.eye(N)
            moved = np.zeros(len(m.w))  # training states come first, supervised ones after them
            moved[self.earlier] = root * np.linalg.solve(K, root * (H @ news))
            track[t] = Points(m.u, m.w + m.w.sum() * moved)
        return track

    def forecast(self, X: Array, steps: int, prior: Points | None = None) -> tuple[Array, Array]:
        """Weights on the training states, and on the training observations, after the last row."""
        m, states, observations = self.filter(X, prior)[-1], [], []
        for _ in range(steps):
            m = self.predict(m)
            states.append(m.w)
            observations.append(self.shares(m))
        return np.array(states), np.array(observations)


# ---------------------------------------------------------------------- hidden Markov models
@dataclass(frozen=True)
class Tables:
    """P(z_1), P(z' | z) in rows, P(x | z) in rows; an observation is a column number or None."""

    first: Array
    step: Array
    emit: Array

    @classmethod
    def counted(cls, x: Array, z: Array, states: int, symbols: int, lengths=None) -> Tables:
        """By counting, in one sequence or several; the first law is that of all states."""
        step, emit = np.zeros((states, states)), np.zeros((states, symbols))
        np.add.at(emit, (z, x), 1)
        first = 0
        for count in lengths or [len(z)]:
            part = z[first : first + count]
            np.add.at(step, (part[:-1], part[1:]), 1)
            first += count
        law = np.bincount(z, minlength=states) / len(z)
        return cls(law, *(A / A.sum(axis=1, keepdims=True) for A in (step, emit)))

    def simulate(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        z = [rng.choice(len(self.first), p=self.first)]
        for _ in range(n - 1):
            z.append(rng.choice(len(self.first), p=self.step[z[-1]]))
        x = [rng.choice(self.emit.shape[1], p=self.emit[value]) for value in z]
        return np.array(x), np.array(z)

    def forward(self, xs) -> Array:
        """P(z_t | x_1, ..., x_t), one row per step."""
        rows, p = [], self.first
        for t, x in enumerate(xs):
            p = p if t == 0 else p @ self.step
            p = p if x is None else p * self.emit[:, x]
            p = p / p.sum()
            rows.append(p)
        return np.array(rows)

    def forward_backward(self, xs) -> Array:
        """P(z_t | x_1, ..., x_T) as α_t β_t / Σ α_t β_t."""
        alpha, beta = self.forward(xs), np.ones((len(xs), len(self.first)))
        for t in range(len(xs) - 2, -1, -1):
            x = xs[t + 1]
            seen = beta[t + 1] if x is None else self.emit[:, x] * beta[t + 1]
            beta[t] = self.step @ seen
            beta[t] /= beta[t].sum()
        both = alpha * beta
        return both / both.sum(axis=1, keepdims=True)

    def by_enumeration(self, xs) -> Array:
        """The same by summing over all paths: for checking the checks."""
        S, T = len(self.first), len(xs)
        total = np.zeros((T, S))
        for path in np.ndindex(*([S] * T)):
            p = self.first[path[0]] * np.prod(
                [self.step[a, b] for a, b in zip(path[:-1], path[1:], strict=True)]
            )
            p *= np.prod([self.emit[z, x] for z, x in zip(path, xs, strict=True) if x is not None])
            total[np.arange(T), list(path)] += p
        return total / total.sum(axis=1, keepdims=True)

    def forecast(self, xs, steps: int) -> tuple[Array, Array]:
        """Laws of the next states and observations: powers of the transition table."""
        p = self.forward(xs)[-1]
        states = np.array([p @ np.linalg.matrix_power(self.step, h) for h in range(1, steps + 1)])
        return states, states @ self.emit


# ----------------------------------------------------------------------------- linear-Gaussian
@dataclass(frozen=True)
class Linear:
    """z_{t+1} = A z_t + N(0, Q), x_t = C z_t + N(0, R), z_1 from the stationary law."""

    A: Array
    Q: Array
    C: Array
    R: Array

    @cached_property
    def stationary(self) -> Array:
        P = self.Q
        for _ in range(2000):
            P = self.A @ P @ self.A.T + self.Q
        return P

    def simulate(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        d, p = len(self.A), len(self.C)
        Z = np.empty((n, d))
        Z[0] = rng.multivariate_normal(np.zeros(d), self.stationary)
        for t in range(1, n):
            Z[t] = self.A @ Z[t - 1] + rng.multivariate_normal(np.zeros(d), self.Q)
        return Z @ self.C.T + rng.multivariate_normal(np.zeros(p), self.R, size=n), Z

    def kalman(self, X: Array) -> tuple[Array, Array, Array, Array]:
        """Filtered and smoothed means, (n, d) each, and the filtered and smoothed variances."""
        d = len(self.A)
        m, P, means, covs, ahead = np.zeros(d), self.stationary, [], [], []
        for t, x in enumerate(X):
            if t > 0:
                m, P = self.A @ m, self.A @ P @ self.A.T + self.Q
            ahead.append(P)
            if not np.isnan(x).any():
                K = P @ self.C.T @ np.linalg.inv(self.C @ P @ self.C.T + self.R)
                m, P = m + K @ (x - self.C @ m), P - K @ self.C @ P
            means.append(m)
            covs.append(P)
        smooth, spread = list(means), list(covs)
        for t in range(len(X) - 2, -1, -1):  # Rauch, Tung, Striebel
            J = covs[t] @ self.A.T @ np.linalg.inv(ahead[t + 1])
            smooth[t] = means[t] + J @ (smooth[t + 1] - self.A @ means[t])
            spread[t] = covs[t] + J @ (spread[t + 1] - ahead[t + 1]) @ J.T
        variances = [np.array([np.diag(P) for P in part]) for part in (covs, spread)]
        return np.array(means), np.array(smooth), *variances


# --------------------------------------------------------------------------------- broken sensors
def spoil(X: Array, rng: np.random.Generator, count: int = 4) -> tuple[Array, int]:
    """A copy of X with `count` faults drawn at random, and the number of its rows they reach.

    Gaps (NaN in one column or all), spikes of 1e6, repeated stretches, constant stretches.
    """
    X, reach = X.copy(), 0
    for _ in range(count):
        i = int(rng.integers(len(X)))
        j = min(len(X), i + int(rng.integers(1, 9)))
        kind = rng.integers(5)
        if kind == 0:
            X[i:j] = np.nan
        elif kind == 1:
            X[i, rng.integers(X.shape[1])] = np.nan
            j = i + 1
        elif kind == 2:
            X[i] = 1e6 * rng.choice([-1.0, 1.0], size=X.shape[1])
            j = i + 1
        elif kind == 3:
            X[i:j] = X[i]  # the sensor hangs
        else:
            X[i:j] = rng.normal()  # or says one thing, right or wrong
        reach = max(reach, j)
    return X, reach

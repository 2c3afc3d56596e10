"""Slow, obvious, dense textbook formulas: what the fast code has to agree with.

Nothing here imports kernelmean. Every formula is written as the papers (or MATH.md) print it,
with loops and full matrices, so that a mistake made in the package is not made here again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import integrate, optimize, special

Array = np.ndarray
Kernel = Callable[[Array, Array], float]


# ------------------------------------------------------------ kernels, one pair of points at a time
def gaussian(x: Array, y: Array, lengthscale: float = 1.0) -> float:
    """exp(-||x-y||^2 / (2 l^2)); l may be one number per column."""
    return math.exp(-sum(((a - b) / s) ** 2 for a, b, s in _columns(x, y, lengthscale)) / 2)


def laplace(x: Array, y: Array, lengthscale: float = 1.0) -> float:
    """exp(-||x-y||_2 / l), thesis definition 1.2."""
    return math.exp(-math.sqrt(sum(((a - b) / s) ** 2 for a, b, s in _columns(x, y, lengthscale))))


def laplace_columnwise(x: Array, y: Array, lengthscale: float = 1.0) -> float:
    """prod_j exp(-|x_j-y_j| / l_j)."""
    return math.exp(-sum(abs(a - b) / s for a, b, s in _columns(x, y, lengthscale)))


def matern(x: Array, y: Array, lengthscale: float = 1.0, nu: float = 1.5) -> float:
    """2^(1-nu)/Gamma(nu) (sqrt(2 nu) r)^nu K_nu(sqrt(2 nu) r), r = ||(x-y)/l||."""
    r = math.sqrt(sum(((a - b) / s) ** 2 for a, b, s in _columns(x, y, lengthscale)))
    t = math.sqrt(2 * nu) * r
    if t == 0:
        return 1.0
    return float(2 ** (1 - nu) / special.gamma(nu) * t**nu * special.kv(nu, t))


def matern_columnwise(x: Array, y: Array, lengthscale: float = 1.0, nu: float = 1.5) -> float:
    """Product over columns of one-dimensional Matern kernels."""
    parts = [matern(np.array([a]), np.array([b]), s, nu) for a, b, s in _columns(x, y, lengthscale)]
    return math.prod(parts)


def linear(x: Array, y: Array, offset: float = 0.0) -> float:
    """x'y + offset."""
    return sum(float(a) * float(b) for a, b in zip(x, y, strict=True)) + offset


def delta(x: Array, y: Array) -> float:
    """1 if the rows are equal, else 0."""
    return float(all(a == b for a, b in zip(x, y, strict=True)))


def _columns(x: Array, y: Array, lengthscale: float | Array) -> list[tuple[float, float, float]]:
    scales = lengthscale if np.ndim(lengthscale) else [lengthscale] * len(x)
    return [(float(a), float(b), float(s)) for a, b, s in zip(x, y, scales, strict=True)]


def gram(kernel: Kernel, X: Array, Y: Array | None = None, **parameters: object) -> Array:
    """K[i, j] = kernel(X[i], Y[j]) by a double loop."""
    X, Y = rows(X).tolist(), rows(X if Y is None else Y).tolist()  # of plain numbers: a loop's
    return np.array([[kernel(x, y, **parameters) for y in Y] for x in X])


def rows(X: Array) -> Array:
    """A single column for 1-D input."""
    X = np.asarray(X, float)
    return X[:, None] if X.ndim == 1 else X


def median_lengthscale(X: Array) -> float:
    """Median over the pairs i < j of ||x_i - x_j||."""
    X = rows(X)
    n = len(X)
    return float(
        np.median([np.linalg.norm(X[i] - X[j]) for i in range(n) for j in range(i + 1, n)])
    )


# ------------------------------------------------------------- conditional mean embeddings (MATH 3)
def cme_weights(K: Array, k: Array, lam: float) -> Array:
    """(K + n lam I)^-1 k, one row of weights for each column of k."""
    n = len(K)
    return np.linalg.solve(K + n * lam * np.eye(n), k).T


def loo_weights_by_refits(K: Array, lam: float) -> Array:
    """Row i: the weights at x_i of the embedding fitted without row i (n lam held fixed), by n
    real refits.
    """
    n = len(K)
    W = np.zeros((n, n))
    for i in range(n):
        keep = np.arange(n) != i
        W[i, keep] = np.linalg.solve(K[np.ix_(keep, keep)] + n * lam * np.eye(n - 1), K[keep, i])
    return W


def loo_loss_by_refits(K: Array, L: Array, lam: float) -> float:
    """(1/n) sum_i ||l(y_i, .) - sum_j w^{-i}_j l(y_j, .)||^2 by n real refits; L is the Gram
    matrix of the y.
    """
    W = loo_weights_by_refits(K, lam)
    return float(np.mean(np.diag(L) - 2 * np.sum(W * L, axis=1) + np.sum((W @ L) * W, axis=1)))


# ---------------------------------------------------------------- density ratio (MATH 4)
def kulsif_weights(K: Array, g: Array, eta: float) -> Array:
    """beta = (K + n eta I)^-1 g, g_i = m(z_i): normalised ratio weights at the denominator rows."""
    n = len(K)
    return np.linalg.solve(K + n * eta * np.eye(n), g)


def kulsif(
    kernel: Callable[[Array, Array], Array], Z: Array, U: Array, eta: float
) -> Callable[[Array], Array]:
    """The minimiser of (1/2n) sum r(z)^2 - (1/l) sum r(u) + (eta/2)||r||^2 (Kanamori 2012, Theorem
    1).
    """
    n, ell = len(Z), len(U)
    A = np.linalg.solve(kernel(Z, Z) / n + eta * np.eye(n), kernel(Z, U).mean(axis=1))

    def ratio(T: Array) -> Array:
        return (kernel(T, U) @ np.full(ell, 1 / ell) - kernel(T, Z) @ A / n) / eta

    return ratio


def kulsif_loo_by_refits(K_zz: Array, K_zu: Array, K_uu: Array, eta: float) -> float:
    """MATH 4's criterion with the left-out terms found by real refits, unequal sample sizes
    allowed.

    First sum: denominator row i left out, numerator kept whole, n eta and 1/n held fixed.
    Second sum: numerator row j left out, the others re-weighted to 1/(l-1), denominator kept whole.
    """
    n, ell = K_zu.shape
    K = np.block([[K_zz, K_zu], [K_zu.T, K_uu]])
    first = [
        _ratio_at(K, i, np.delete(np.arange(n), i), n + np.arange(ell), n, eta) for i in range(n)
    ]
    second = [
        _ratio_at(K, n + j, np.arange(n), n + np.delete(np.arange(ell), j), n, eta)
        for j in range(ell)
    ]
    return float(np.mean(np.square(first)) / 2 - np.mean(second))


def _ratio_at(K: Array, at: int, den: Array, num: Array, n: int, eta: float) -> float:
    """r(point) = (m(point) - k_z' (K_zz + n eta)^-1 m(z)) / eta over the chosen denominator and
    numerator rows.
    """
    m_z = K[np.ix_(den, num)].mean(axis=1)
    a = np.linalg.solve(K[np.ix_(den, den)] + n * eta * np.eye(len(den)), m_z)
    return float((K[at, num].mean() - K[at, den] @ a) / eta)


# ---------------------------------------------------------------- embeddings (MATH 2)
def weighted_mean(w: Array, X: Array) -> Array:
    """sum_i w_i x_i / sum_i w_i."""
    return sum(wi * xi for wi, xi in zip(w, rows(X), strict=True)) / sum(w)


def weighted_covariance(w: Array, X: Array) -> Array:
    """sum_i w_i (x_i - m)(x_i - m)' / sum_i w_i, negative eigenvalues set to zero, in standard
    deviations of the points.
    """
    X, m = rows(X), weighted_mean(w, X)
    unit = np.diag(X.std(axis=0))
    U = (X - m) @ np.linalg.inv(unit)
    C = sum(wi * np.outer(ui, ui) for wi, ui in zip(w, U, strict=True)) / sum(w)
    values, vectors = np.linalg.eigh((C + C.T) / 2)
    return unit @ vectors @ np.diag(np.maximum(values, 0)) @ vectors.T @ unit


def herd_on_candidates(K: Array, w: Array, n: int) -> list[int]:
    """x_{t+1} = argmax_c mu(c) - (1/(t+1)) sum_s k(x_s, c), c over the rows of K, mu = sum_i w_i
    k(x_i, .).
    """
    chosen: list[int] = []
    for t in range(n):
        objective = [
            sum(w[i] * K[i, c] for i in range(len(w))) - sum(K[s, c] for s in chosen) / (t + 1)
            for c in range(len(K))
        ]
        chosen.append(int(np.argmax(objective)))
    return chosen


# ----------------------------------------------------------- kernel instrumental variables (MATH 7)
def kiv_dense(
    K_xx: Array,
    K_zz: Array,
    K_z_z2: Array,
    y2: Array,
    n_lam: float,
    m_xi: float,
    jitter: float = 0.0,
) -> Array:
    """Singh 2019 Algorithm 1: alpha = (W W' + m xi K_XX)^-1 W y~, W = K_XX (K_ZZ + n lam I)^-1
    K_ZZ~.
    """
    n = len(K_xx)
    W = K_xx @ np.linalg.solve(K_zz + n_lam * np.eye(n), K_z_z2)
    left = W @ W.T + m_xi * K_xx + jitter * np.eye(n)
    # K_XX is numerically singular: the least-norm solution gives the same function h = alpha' K_Xx.
    return np.linalg.lstsq(left, W @ y2, rcond=None)[0]


def kiv_dense_coordinates(
    K_xx: Array, K_zz: Array, K_z_z2: Array, y2: Array, n_lam: float, m_xi: float
) -> Array:
    """The same alpha through the square root of K_XX, which halves the digits lost to its condition
    number.

    With K = V S V' and alpha = V S^-1/2 c:  c = (A A' + m xi I)^-1 A y~,
    A = S^1/2 V' (K_ZZ + n lam I)^-1 K_ZZ~.
    """
    s, V = np.linalg.eigh(K_xx)
    keep = s > 1e-13 * s.max()
    s, V = s[keep], V[:, keep]
    A = np.sqrt(s)[:, None] * (V.T @ np.linalg.solve(K_zz + n_lam * np.eye(len(K_zz)), K_z_z2))
    c = np.linalg.solve(A @ A.T + m_xi * np.eye(len(s)), A @ y2)
    return V @ (c / np.sqrt(s))


def kiv_stage1_loss(
    K_xx: Array, K_x_x2: Array, k_x2_diag: Array, K_zz: Array, K_z_z2: Array, n_lam: float
) -> float:
    """Algorithm 2: (1/m) tr[K_X~X~ - 2 K_X~X G + G' K_XX G], G = (K_ZZ + n lam I)^-1 K_ZZ~."""
    G = np.linalg.solve(K_zz + n_lam * np.eye(len(K_zz)), K_z_z2)
    m = K_z_z2.shape[1]
    return float((k_x2_diag.sum() - 2 * np.sum(K_x_x2 * G) + np.sum((K_xx @ G) * G)) / m)


def kiv_stage2_loss(K_xx: Array, y1: Array, alpha: Array) -> float:
    """Algorithm 2: (1/n) sum_i (y_i - h(x_i))^2 over the stage-1 rows."""
    return float(np.mean((y1 - K_xx @ alpha) ** 2))


def minimise_log(loss: Callable[[float], float], start: float) -> float:
    """The minimum Nelder-Mead finds from `start` on the log scale, as the authors' code does (from
    0.05).
    """
    best = optimize.minimize(
        lambda g: loss(math.exp(g[0])),
        [math.log(start)],
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-14},
    )
    return math.exp(best.x[0])


def split_sample_2sls(X: Array, y: Array, Z: Array, n1: int, intercept: bool) -> Array:
    """OLS of X on Z over the first n1 rows; OLS of y on the fitted values over the others."""
    if intercept:
        X, Z = (np.column_stack([np.ones(len(y)), M]) for M in (X, Z))
    first = np.linalg.lstsq(Z[:n1], X[:n1], rcond=None)[0]
    return np.linalg.lstsq(Z[n1:] @ first, y[n1:], rcond=None)[0]


# -------------------------------------------------------- finite sets: probability tables (MATH 11)
def joint_table(x: Array, y: Array, nx: int, ny: int) -> Array:
    """P(X=a, Y=b) by counting."""
    table = np.zeros((nx, ny))
    for a, b in zip(x, y, strict=True):
        table[int(a), int(b)] += 1 / len(x)
    return table


def conditional_table(joint: Array) -> Array:
    """P(Y=b | X=a) = P(a, b) / sum_b P(a, b)."""
    return joint / joint.sum(axis=1, keepdims=True)


def bayes_table(likelihood: Array, prior: Array, observation: int) -> Array:
    """P(z | x) proportional to P(x | z) prior(z)."""
    posterior = likelihood[:, observation] * prior
    return posterior / posterior.sum()


def hmm_forward(start: Array, transition: Array, emission: Array, observations: Array) -> Array:
    """Filtered state probabilities, one row per observation; rows of `transition` and `emission`
    sum to one.
    """
    belief, out = np.asarray(start, float), []
    for t, x in enumerate(observations):
        belief = belief if t == 0 else belief @ transition
        belief = belief * emission[:, int(x)]
        belief = belief / belief.sum()
        out.append(belief)
    return np.array(out)


# ---------------------------------------------------------------- quadrature
def integral_radial(f: Callable[[float], float], d: int, scale: float = 1.0) -> float:
    """int over R^d of f(||u||) du = surface(d) int_0^inf r^(d-1) f(r) dr."""
    surface = 2 * math.pi ** (d / 2) / math.gamma(d / 2)
    pieces = [0, *(scale * np.array([0.1, 0.5, 1, 2, 4, 8, 16, 64, 400, 4000]))]
    total = sum(
        integrate.quad(lambda r: r ** (d - 1) * f(r), a, b, limit=200, epsabs=1e-12)[0]
        for a, b in zip(pieces, pieces[1:], strict=False)
    )
    return surface * total


def integral_box(f: Callable[[Array], Array], half_width: float, d: int, n: int = 64) -> float:
    """int over [-h, h]^d, each axis cut at zero (kinks live there) into Gauss-Legendre panels."""
    panels = half_width * np.array([-1, -0.5, -0.25, -0.1, 0, 0.1, 0.25, 0.5, 1])
    t, w = np.polynomial.legendre.leggauss(n)
    nodes = np.concatenate(
        [(b - a) / 2 * t + (a + b) / 2 for a, b in zip(panels, panels[1:], strict=False)]
    )
    weights = np.concatenate([(b - a) / 2 * w for a, b in zip(panels, panels[1:], strict=False)])
    grids = np.meshgrid(*[nodes] * d, indexing="ij")
    W = math.prod(np.meshgrid(*[weights] * d, indexing="ij"))
    values = f(np.stack([g.ravel() for g in grids], axis=1))
    return float(values @ np.ravel(W))

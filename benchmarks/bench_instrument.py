"""KernelIV beside the paper's procedure, n x n matrices with nothing to choose, 2SLS and sieves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from _harness import Measured, Table, arguments, measure, ratio

import kernelmean as km

DESIGNS = {"sigmoid": km.datasets.make_iv_sigmoid, "demand": km.datasets.make_iv_demand}
HEAVY = 1e6  # weight of the constant, which is not penalised, in an n x n matrix


@dataclass(frozen=True)
class Fit:
    """What a job says of itself."""

    mse: float
    note: str = ""
    model: tuple = ()  # kernels, trends, λ and ξ


# ---------------------------------------------------------------- the jobs
def draw(design: str, n: int, *chosen) -> tuple:
    return DESIGNS[design](n, random_state=0), *chosen


def ours(data) -> Fit:
    return _fit(data)


def median(data) -> Fit:
    return _fit(data, tune_lengthscale=False)


def halves(data) -> Fit:
    return _fit(data, split=0.5)


def _fit(data, **settings) -> Fit:
    iv = km.KernelIV(**settings).fit(data.X, data.y, data.Z, data.C)
    bases = (iv.kernel_x_, iv.basis_x_.polynomial), (iv.kernel_z_, iv.basis_z_.polynomial)
    note = (
        f"ranks {iv.features_x_.rank_}, {iv.features_z_.rank_}; causal loss {iv.loss_stage2_:.4g}"
    )
    return Fit(_error(data, iv.predict(data.grid)), note, (*bases, iv.reg_stage1_, iv.reg_stage2_))


def in_blocks(data) -> Fit:
    """The default on ten chunks of Dask, one after the other."""
    import dask
    import dask.array as da

    rows = -(-len(data.y) // 10)
    parts = (data.X, data.y, data.Z)
    chunks = [da.from_array(A, chunks=(rows, *A.shape[1:])) for A in parts]
    with dask.config.set(scheduler="synchronous"):
        return Fit(_error(data, km.KernelIV().fit(*chunks).predict(data.grid)))


def dense_jackknife(data, basis_x, basis_z, reg1: float, reg2: float) -> Fit:
    """H = K_Z(K_Z + nλI)⁻¹, J = (H − diag h)/(1 − h), G = JKJᵀ, h(x) = k(x)ᵀJᵀ(G + nξI)⁻¹y."""
    X, Z = _joined(data)
    n, middle = len(X), data.y.mean()
    free = HEAVY, n * reg2  # the constant is not penalised, slopes are by 1/n
    K, K_z, y = _gram(basis_x, X, X, *free), _gram(basis_z, Z, Z), data.y - middle
    J = np.linalg.solve(_add(K_z.copy(), n * reg1), K_z)
    hat = J.diagonal().copy()
    J = _add(J, -hat) / (1 - hat)[:, None]
    KJ = K @ J.T
    P = np.linalg.inv(_add(J @ KJ, n * reg2))
    # what the causal loss takes: b without row i is b − Jᵀp_i (Py)_i/P_ii
    S = np.einsum("ij,ji->i", KJ, P)
    left_out = y - KJ @ (P @ y) + S * (P @ y) / P.diagonal()
    h = middle + _gram(basis_x, data.grid, X, *free) @ (J.T @ (P @ y))
    return Fit(_error(data, h), f"causal loss {np.mean(left_out**2):.4g}")


def _gram(basis, A, B, constant: float = 1.0, slopes: float = 1.0) -> np.ndarray:
    """k + Σ_j w_j t_j t_j', t the trend, w its weights."""
    kernel, trend = basis
    weights = np.full(trend.width, slopes)
    weights[:1] = constant
    return kernel(A, B) + (trend(A) * weights) @ trend(B).T


def dense_halves(data, basis_x, basis_z, reg1: float, reg2: float) -> Fit:
    """Algorithm 1 (Singh 2019): W = K_XX(K_ZZ + nλI)⁻¹K_ZZ̃, α = (WWᵀ + mξK_XX)⁻¹Wỹ."""
    (X, Z), n = _joined(data), len(data.y) // 2
    kernel_x, kernel_z = basis_x[0], basis_z[0]
    K, K_zz = kernel_x(X[:n]), kernel_z(Z[:n])
    W = K @ np.linalg.solve(_add(K_zz, n * reg1), kernel_z(Z[:n], Z[n:]))
    # K_XX is singular to rounding: a little on the diagonal keeps the solve alive
    left = _add(W @ W.T + (len(X) - n) * reg2 * K, 1e-10 * n)
    alpha = np.linalg.solve(left, W @ data.y[n:])
    return Fit(_error(data, kernel_x(data.grid, X[:n]) @ alpha))


def cubic(data) -> Fit:
    """Two-stage least squares by linearmodels on powers of the columns up to the third."""
    from kernelmean.comparators import TwoStageLeastSquares

    C = None if data.C is None else _powers(data.C, data.C)
    line = TwoStageLeastSquares().fit(_powers(data.X, data.X), data.y, _powers(data.Z, data.Z), C)
    d = data.X.shape[1]
    own, rest = data.grid[:, :d], data.grid[:, d:]
    new = None if data.C is None else _powers(rest, data.C)
    return Fit(_error(data, line.predict(_powers(own, data.X), new)))


def _powers(A, rows) -> np.ndarray:
    u = (A - rows.mean(0)) / rows.std(0)
    return np.hstack([u, u**2, u**3])


def sieve(data) -> Fit:
    from kernelmean.comparators import SieveIV

    fitted = SieveIV(ridge=True).fit(data.X, data.y, data.Z, data.C)
    return Fit(_error(data, fitted.predict(data.grid)))


def _joined(data) -> tuple:
    return tuple(P if data.C is None else np.hstack([P, data.C]) for P in (data.X, data.Z))


def _add(A: np.ndarray, value) -> np.ndarray:
    A[np.diag_indices(len(A))] += value
    return A


def _error(data, prediction) -> float:
    return float(np.mean((prediction - data.truth(data.grid)) ** 2))


# ---------------------------------------------------------------- the table
def compare(design: str, sizes: list[int], dense_up_to: int, repeats: int = 3) -> None:
    table = Table(
        f"{design} design: n rows, fit and predict the paper's grid; one seed",
        *["       n", "                       method", "seconds", "over ours", " peak MB"],
        *["     MSE", "                      said of it"],
    )
    for n in sizes:
        runs: dict[str, Measured] = {}
        for name, job, tuned in _jobs(design, n, dense_up_to):
            chosen = runs[tuned].result.model if tuned else ()
            runs[name] = run = measure(job, design, n, *chosen, setup=draw, repeats=repeats)
            over_ours = ratio(run.seconds, runs["KernelIV()"].seconds)
            fit = run.result
            table.row(n, name, run.seconds, over_ours, run.peak_mb, fit.mse, fit.note)


def _jobs(design: str, n: int, dense_up_to: int) -> Iterator[tuple]:
    """Names, jobs, and the name of the fit whose kernels, λ and ξ they are handed."""
    yield "KernelIV()", ours, None
    yield "tune_lengthscale=False", median, None
    yield "split=0.5, the paper's", halves, None
    if n <= dense_up_to:
        yield "n x n jackknife, one solve", dense_jackknife, "KernelIV()"
        yield "n x n Algorithm 1, one solve", dense_halves, "split=0.5, the paper's"
    if design == "sigmoid" and n >= 100_000 and find_spec("dask"):
        yield "KernelIV() on Dask", in_blocks, None
    if find_spec("linearmodels"):
        yield "2SLS, cubic (linearmodels)", cubic, None
    yield "SieveIV(ridge=True)", sieve, None


if __name__ == "__main__":
    if arguments(__doc__).quick:
        compare("sigmoid", [1_000], dense_up_to=1_000, repeats=2)
        compare("demand", [500], dense_up_to=0, repeats=1)
    else:
        compare("sigmoid", [1_000, 5_000, 20_000, 100_000, 1_000_000], dense_up_to=5_000)
        compare("demand", [1_000, 5_000, 20_000], dense_up_to=1_000, repeats=1)

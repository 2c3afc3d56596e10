"""KernelIV with both regularisers tuned, against one dense solve of Algorithm 1 with none tuned."""

from __future__ import annotations

import numpy as np
from _harness import Table, arguments, measure, ratio

import kernelmean as km

DESIGNS = {"sigmoid": km.datasets.make_iv_sigmoid, "demand": km.datasets.make_iv_demand}


# ---------------------------------------------------------------- the jobs: (MSE, λ, ξ, ranks)
def draw(design: str, n: int) -> tuple:
    return (DESIGNS[design](n, random_state=0),)


def draw_and_regs(design: str, n: int, reg1: float, reg2: float) -> tuple:
    return *draw(design, n), reg1, reg2


def ours(data) -> tuple:
    iv = km.KernelIV().fit(data.X, data.y, data.Z, data.C)
    ranks = f"{iv.features_x_.rank_}, {iv.features_z_.rank_}"
    return error(data, iv.predict(data.grid)), iv.reg_stage1_, iv.reg_stage2_, ranks


def dense_once(data, reg1: float, reg2: float) -> tuple:
    """Algorithm 1 (Singh 2019): W = K_XX(K_ZZ + nλI)⁻¹K_ZZ̃, α = (WWᵀ + mξK_XX)⁻¹Wỹ."""
    X, Z = (P if data.C is None else np.hstack([P, data.C]) for P in (data.X, data.Z))
    kernel_x, kernel_z = (km.Gaussian(columnwise=True).resolve(P) for P in (X, Z))
    n = len(X) // 2
    K, K_zz = kernel_x(X[:n]), kernel_z(Z[:n])
    W = K @ np.linalg.solve(_add(K_zz, n * reg1), kernel_z(Z[:n], Z[n:]))
    # K_XX is singular to rounding: a little on the diagonal keeps the solve alive
    left = _add(W @ W.T + (len(X) - n) * reg2 * K, 1e-10 * n)
    alpha = np.linalg.solve(left, W @ data.y[n:])
    return error(data, kernel_x(data.grid, X[:n]) @ alpha), reg1, reg2, None


def _add(A: np.ndarray, value: float) -> np.ndarray:
    A[np.diag_indices(len(A))] += value
    return A


def error(data, prediction) -> float:
    return float(np.mean((prediction - data.truth(data.grid)) ** 2))


# ---------------------------------------------------------------- the tables
def speed(design: str, sizes: list[int], dense_up_to: int) -> None:
    table = Table(
        f"{design} design: n rows over both stages, fit and predict the paper's grid",
        *["n", "ours s", "peak MB", "ranks x, z", "MSE", "lambda", "xi"],
        *["dense s", "over ours", "its MB", "its MSE"],
    )
    for n in sizes:
        fit = measure(ours, design, n, setup=draw)
        mse, reg1, reg2, ranks = fit.result
        cells = [n, fit.seconds, fit.peak_mb, ranks, mse, reg1, reg2]
        table.row(*cells, *(_dense(design, n, fit) if n <= dense_up_to else [None] * 4))


def _dense(design: str, n: int, fit) -> list:
    """One solve with the regularisers that KernelIV has found."""
    _, reg1, reg2, _ = fit.result
    dense = measure(dense_once, design, n, reg1, reg2, setup=draw_and_regs)
    over_ours = ratio(dense.seconds, fit.seconds)
    return [dense.seconds, over_ours, dense.peak_mb, dense.result[0]]


if __name__ == "__main__":
    if arguments(__doc__).quick:
        speed("sigmoid", [1_000, 5_000], dense_up_to=1_000)
        speed("demand", [1_000], dense_up_to=0)
    else:
        speed("sigmoid", [1_000, 2_000, 5_000, 20_000, 100_000, 1_000_000], dense_up_to=5_000)
        speed("demand", [5_000, 20_000], dense_up_to=5_000)

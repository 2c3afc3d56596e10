"""KernelIV beside the paper's procedure, n x n matrices with nothing to choose, 2SLS and sieves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product

import numpy as np
from _harness import Measured, Table, arguments, measure, ratio, rmse
from scipy.stats import norm

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
    return Fit(_error(data, cubic_curve(data)))


def cubic_curve(data) -> np.ndarray:
    """Two-stage least squares by linearmodels on powers of the columns up to the third."""
    from kernelmean.comparators import TwoStageLeastSquares

    C = None if data.C is None else _powers(data.C, data.C)
    line = TwoStageLeastSquares().fit(_powers(data.X, data.X), data.y, _powers(data.Z, data.Z), C)
    d = data.X.shape[1]
    own, rest = data.grid[:, :d], data.grid[:, d:]
    new = None if data.C is None else _powers(rest, data.C)
    return line.predict(_powers(own, data.X), new)


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


# ---------------------------------------------------------------- others' designs
CURVES = {
    "abs": np.abs,
    "linear": lambda x: x,
    "sin": np.sin,
    "step": lambda x: np.where(x < 0, 1.0, 2.5),
    "poly": lambda x: 0.9 * x**2 - 1.5 * x,
    "sigmoid": lambda x: 2 / (1 + np.exp(-2 * x)),
}
STRENGTH = 0.6  # of AdversarialGMM's instrument


def others(design: str, curve: str, n: int, seed: int) -> tuple:
    """X, y, Z and test points of AGMMZoo or AdversarialGMM (github.com/vsyrgkanis): x ~ its law."""
    rng = np.random.default_rng(seed)

    def rows(n: int) -> tuple:
        e, small, noise = rng.normal(size=(3, n))
        if design == "zoo":
            Z = rng.uniform(-3, 3, (n, 2))
            x = Z[:, 0] + e + 0.1 * small
        else:
            Z = rng.normal(size=(n, 1))
            x = STRENGTH * Z[:, 0] + (1 - STRENGTH) * e + 0.1 * small
        return x[:, None], CURVES[curve](x) + 2 * e + 0.1 * noise, Z

    return *rows(n), rows(2000)[0]


def minimax(X, y, Z, points) -> np.ndarray:
    """RKHSIV (Dikkala, Lewis, Mackey, Syrgkanis 2020), cross-validated: h at the points.

    h = φᵀ(ΦᵀMΦ + αI)⁻¹ΦᵀMy, M = Θ(ΘᵀΘ/(nδ²) + I)⁻¹Θᵀ, δ = 5n^{-.4}, kernels of standardised
    columns, exp(−.1 r²) for h and with the median distance for M; α, a multiple of δ⁴, is that of
    least (y − h)ᵀM(y − h) on rows left out.
    """
    middle, spread = X.mean(0), X.std(0)
    X, points, Z = (X - middle) / spread, (points - middle) / spread, (Z - Z.mean(0)) / Z.std(0)
    few = Z[:500]
    median = np.median(((few[:, None] - few) ** 2).sum(2)[np.tril_indices(len(few), -1)])
    (Theta,), (Phi, at) = _coordinates(np.sqrt(median / 2), Z), _coordinates(np.sqrt(5), X, points)
    fold, losses = np.random.default_rng(0).permutation(len(y)) % 5, np.zeros(len(MULTIPLES))
    for k in range(5):
        some, rest = fold != k, fold == k
        left = y[rest, None] - Phi[rest] @ _minimax_path(Phi[some], y[some], Theta[some])
        losses += (left * _moments(Theta[rest], left)).sum(0) / len(left) ** 2
    return at @ _minimax_path(Phi, y, Theta)[:, losses.argmin()]


MULTIPLES = np.geomspace(0.1, 1e5, 13)  # of δ⁴


def _minimax_path(Phi, y, Theta) -> np.ndarray:
    A, c = (Phi.T @ _moments(Theta, B) for B in (Phi, y[:, None]))
    s, V = np.linalg.eigh(A)
    alphas = MULTIPLES * (5 * len(y) ** -0.4) ** 4
    return V @ (V.T @ c / (np.maximum(s, 0)[:, None] + alphas))


def _moments(Theta, B) -> np.ndarray:
    """M B."""
    n = len(Theta)
    inner = Theta.T @ Theta / (n * (5 * n**-0.4) ** 2)
    return Theta @ np.linalg.solve(_add(inner, 1.0), Theta.T @ B)


def _coordinates(width: float, P, *more) -> list:
    features = km.Nystroem(tol=1e-9, max_rank=300).fit(P, km.Gaussian(width))
    return [features.transform(rows) for rows in (P, *more)]


def ridge(X, y, Z, points) -> np.ndarray:
    from kernelmean.comparators import KernelReg

    return KernelReg().fit(X, y).predict(points)


def cubes(X, y, Z, points) -> np.ndarray:
    from kernelmean.comparators import TwoStageLeastSquares

    line = TwoStageLeastSquares().fit(_powers(X, X), y, _powers(Z, Z))
    return line.predict(_powers(points, X))


PEERS = {
    "KernelIV()": lambda X, y, Z, points: km.KernelIV().fit(X, y, Z).predict(points),
    "RKHSIV": minimax,
    "2SLS, cubic": cubes,
    "halves": lambda X, y, Z, points: km.KernelIV(split=0.5).fit(X, y, Z).predict(points),
    "ridge": ridge,
}


def peers(sizes: list[int], draws: int, first: int = 5000) -> None:
    """Mean squared error over draws, in every cell; outcomes have variance about 5."""
    for design in ("zoo", "agmm"):
        for n in sizes:
            table = Table(
                f"{design}, n = {n}: mean squared error at points from the law of x; {draws} draws",
                *["  curve", *(f"{name:>11}" for name in PEERS), "ours / best"],
            )
            for curve, h in CURVES.items():
                errors = np.zeros((draws, len(PEERS)))
                for i in range(draws):
                    X, y, Z, points = others(design, curve, n, first + i)
                    truth = h(points[:, 0])
                    for j, fit in enumerate(PEERS.values()):
                        errors[i, j] = np.mean((fit(X, y, Z, points) - truth) ** 2)
                mean = errors.mean(0)
                table.row(curve, *mean, mean[0] / mean[1:].min())


# ---------------------------------------------------------------- bands
def zoo(curve: str) -> Callable:
    return lambda n, seed: (*others("zoo", curve, n, seed)[:3], CURVES[curve])


def newey_powell(n: int, seed: int) -> tuple:
    covariance = [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]
    e, v, z = np.random.default_rng(seed).multivariate_normal(np.zeros(3), covariance, n).T
    x = z + v

    def h(x):
        return np.log(np.abs(x - 1) + 1) * np.sign(x - 1)

    return x[:, None], h(x) + e, z[:, None], h


def chetverikov_wilhelm(h: Callable) -> Callable:
    def rows(n: int, seed: int) -> tuple:
        z, e, noise = np.random.default_rng(seed).normal(size=(3, n))
        x = norm.cdf(0.3 * z + np.sqrt(1 - 0.3**2) * e)
        y = h(x) + 0.5 * (0.3 * e + np.sqrt(1 - 0.3**2) * noise)
        return x[:, None], y, norm.cdf(z)[:, None], h

    return rows


def ours_own(make: Callable) -> Callable:
    def rows(n: int, seed: int) -> tuple:
        data = make(n, random_state=seed)
        return data.X, data.y, data.Z, lambda x: data.truth(x[:, None])

    return rows


BANDS = {
    **{f"zoo, {curve}": zoo(curve) for curve in ("sin", "abs", "step", "linear")},
    "Newey-Powell": newey_powell,
    "Chetverikov-Wilhelm 1": chetverikov_wilhelm(lambda x: x**2 + 0.2 * x),
    "Chetverikov-Wilhelm 2": chetverikov_wilhelm(lambda x: 2 * np.maximum(x - 0.5, 0) ** 2 + x / 2),
    "Singh, sigmoid": ours_own(km.datasets.make_iv_sigmoid),
    "Singh, linear": ours_own(km.datasets.make_iv_linear),
}


def bands(draws: int, first: int = 5000, n: int = 1000) -> None:
    """How often 95% bands hold all of h over the middle 95% of x, and how wide they are."""
    columns = f"{'design':>21}", "hold", "half width", "std of h", "error"
    table = Table(f"95% bands, n = {n}, {draws} draws", *columns)
    for name, design in BANDS.items():
        found = []
        for seed in range(first, first + draws):
            X, y, Z, h = design(n, seed)
            model, x = km.KernelIV().fit(X, y, Z), np.linspace(*np.quantile(X, [0.025, 0.975]), 200)
            (low, high), truth = model.predict_interval(x[:, None]), h(x)
            holds, wide = np.all((low <= truth) & (truth <= high)), (high - low).mean() / 2
            error = np.mean((model.predict(x[:, None]) - truth) ** 2)
            found.append([holds, wide, truth.std(), error])
        table.row(name, *map(float, np.mean(found, axis=0)))


# ---------------------------------------------------------------- straight lines
def heavy(n: int, rng) -> tuple:
    Z, v = rng.normal(size=(n, 1)), rng.standard_t(3, n)
    return Z + 0.5 * v[:, None] + 0.3 * rng.normal(size=(n, 1)), Z, v + 0.5 * rng.standard_t(3, n)


def binary(n: int, rng) -> tuple:
    Z, e = rng.integers(0, 2, (n, 1)).astype(float), rng.normal(size=n)
    return Z + 0.5 * e[:, None] + 0.5 * rng.normal(size=(n, 1)), Z, e


def agmm(n: int, rng) -> tuple:
    Z, e = rng.normal(size=(n, 1)), rng.normal(size=n)
    x = STRENGTH * Z[:, 0] + (1 - STRENGTH) * e + 0.1 * rng.normal(size=n)
    return x[:, None], Z, 2 * e


def singh(n: int, rng) -> tuple:
    data = km.datasets.make_iv_linear(n, random_state=rng)
    return data.X, data.Z, data.y - data.truth(data.X)


def straight(sizes: list[int], draws: int, first: int = 5000) -> None:
    """Mean squared error at the rows where h(x) = x, over that of two-stage least squares.

    Of 95% limits of the average slope: how often they hold 1, and how wide they are beside those
    of least squares with robust errors.
    """
    from linearmodels.iv import IV2SLS

    columns = "design", "ours", "2SLS", "ratio", "limits hold", "their width"
    for n in sizes:
        table = Table(f"h(x) = x, n = {n}, {draws} draws", *columns)
        for design in (heavy, binary, agmm, singh):
            found = np.zeros((draws, 4))
            for i in range(draws):
                X, Z, e = design(n, np.random.default_rng(first + i))
                x, model = X[:, 0], km.KernelIV().fit(X, X[:, 0] + e, Z)
                told = model.average_derivative()
                two = IV2SLS(x + e, np.ones((n, 1)), X, Z).fit()
                off = model.predict(X) - x, two.fitted_values.to_numpy()[:, 0] - x
                errors = (np.mean(part**2) for part in off)
                width = told.error / two.std_errors.iloc[1]
                found[i] = *errors, told.low <= 1 <= told.high, width
            ours, line, holds, _ = map(float, found.mean(0))
            width = float(np.median(found[:, 3]))
            table.row(design.__name__, ours, line, ours / line, holds, width)


# ---------------------------------------------------------------- a slope beside bent controls
def card(times: float, rng) -> tuple:
    """Card's table with a slope of .13, experience bent and residuals of real rows drawn together.

    The college near by moves education as much as there, or `times` as much.
    """
    from linearmodels.datasets import card as table

    rows = table.load()
    C = rows[["exper", "black", "south", "smsa"]].to_numpy(float)
    z, x, y = (rows[name].to_numpy(float) for name in ("nearc4", "educ", "lwage"))
    W = np.column_stack([np.ones(len(C)), C, C[:, 0] ** 2])
    (*b, slope), _, *_ = np.linalg.lstsq(np.column_stack([W, z]), x, rcond=None)
    moved = W @ b + slope * z
    e = np.column_stack([x - moved, y - 0.13 * x])
    mean = W @ np.linalg.lstsq(W, e[:, 1], rcond=None)[0]
    v, u = np.column_stack([e[:, 0], e[:, 1] - mean])[rng.integers(0, len(x), len(x))].T
    x = moved + (times - 1) * slope * z + v
    return x[:, None], 0.13 * x + mean + u, z[:, None], C


def treated(instrument: str, controls: int, rng) -> tuple:
    """A binary x of slope 1, a `binary` or `normal` instrument, and controls that bend y."""
    C = rng.normal(size=(500, controls))
    z = rng.integers(0, 2, 500).astype(float) if instrument == "binary" else rng.normal(size=500)
    e = rng.normal(size=500)
    x = 1.2 * (z - z.mean()) + 0.5 * C[:, 0] + 0.7 * e + 0.7 * rng.normal(size=500) >= 0
    bent = np.sin(2 * C[:, 0]) + (0.5 * C[:, 1] ** 2 if controls > 1 else 0)
    y = x + bent + e + 0.3 * rng.normal(size=500)
    return x[:, None].astype(float), y, z[:, None], C


def slope(X, y, Z, C, more, truth: float) -> list[float]:
    """Average derivative, that of least squares, whether limits hold and weakness is told."""
    from kernelmean.comparators import TwoStageLeastSquares

    model = km.KernelIV().fit(X, y, Z, C)
    told = model.average_derivative(column=0)
    two = TwoStageLeastSquares().fit(np.hstack([X, more]), y, np.hstack([Z, more]))
    unit = np.zeros((2, 1 + more.shape[1]))
    unit[1, 0] = 1.0
    line = np.diff(two.predict(unit))[0]
    weak = "yes: F below 10" in str(model.summary())
    return [told.value, line, told.low <= truth <= told.high, weak]


def told(table: Table, cell, found, truth: float) -> None:
    own, line, holds, weak = np.array(found, dtype=float).T
    errors = rmse(own, truth), rmse(line, truth)
    row = float(own.mean()), errors[0], float(line.mean()), errors[1]
    table.row(cell, *row, float(holds.mean()), float(weak.mean()))


SLOPES = "ours", "error", "2SLS", "error", "limits hold", "weak told"


def slopes(draws: int, first: int = 5000) -> None:
    """Average derivatives beside the slope of two-stage least squares with experience squared."""
    title = f"slope of education, truth .13, {draws} draws: mean and error"
    table = Table(title, "instrument x", *SLOPES)
    for times in (1.0, 2.0, 4.0):
        found = []
        for seed in range(first, first + draws):
            X, y, Z, C = card(times, np.random.default_rng(seed))
            found.append(slope(X, y, Z, C, np.column_stack([C, C[:, 0] ** 2]), 0.13))
        told(table, times, found, 0.13)


def treatments(draws: int, first: int = 5000) -> None:
    """The same of a binary regressor; least squares with the controls as they are."""
    title = f"slope of a binary x, truth 1, n = 500, {draws} draws: mean and error"
    table = Table(title, f"{'instrument, controls':>22}", *SLOPES)
    for instrument in ("binary", "normal"):
        for controls in (1, 2, 3):
            found = []
            for seed in range(first, first + draws):
                X, y, Z, C = treated(instrument, controls, np.random.default_rng(seed))
                found.append(slope(X, y, Z, C, C, 1.0))
            told(table, f"{instrument}, {controls}", found, 1.0)


# ---------------------------------------------------------------- effects that differ
def taking(z, pull, rng) -> np.ndarray:
    """Whether a treatment is taken: those who are offered it, or gain by what is not seen."""
    return (z + pull + 0.5 * rng.normal(size=len(z)) > 0).astype(float)


def trial(design: str, s: float, n: int, seed: int) -> tuple:
    """X, y, Z, C and the effect of X, 1 + s times something of C, as a function of C."""
    rng = np.random.default_rng(seed)
    C, u, z = rng.normal(size=(n, 1)), rng.normal(size=n), (rng.random(n) < 0.5).astype(float)
    e, what = 0.7 * u + 0.7 * rng.normal(size=n), lambda C: C[:, 0]
    if design == "three":
        C = np.column_stack([rng.normal(size=(n, 2)), rng.random(n) < 0.4])
        x, base = taking(1.6 * z - 0.8, 0.5 * C[:, 0] + 0.8 * u, rng), C @ [1, 0.5, -1.0]
        what = lambda C: 2 * C[:, 2] - 0.8  # noqa: E731
    elif design == "dose":
        x, base = z + 0.7 * u + 0.5 * rng.normal(size=n), 0.5 * C[:, 0]
    elif design == "skew":
        C = rng.exponential(size=(n, 1)) - 1
        z = (rng.random(n) < 1 / (1 + np.exp(-C[:, 0]))).astype(float)
        x, base = taking(1.6 * z - 0.8, 0.8 * u, rng), C[:, 0]
    elif design == "two instruments":
        z = (rng.random((n, 2)) < 0.5).astype(float)
        x, base = taking(1.2 * z.sum(1) - 1.2, 0.8 * u, rng), C[:, 0]
    elif design == "normal instrument":
        z = rng.normal(size=n)
        x, base = taking(z, 0.8 * u, rng), C[:, 0]
    else:
        x, base = taking(1.6 * z - 0.8, 0.8 * u, rng), C[:, 0]
        base = np.sin(2 * base) if design == "sine" else base
        what = (lambda C: C[:, 0] ** 2 - 1) if design == "bent effect" else what

    def effect(C):
        return 1 + s * what(C)

    return x[:, None], effect(C) * x + base + e, z.reshape(n, -1), C, effect


EFFECTS = {"line": 0.5, "sine": 0.5, "three": 0.5, "dose": 0.3, "skew": 0.5, "bent effect": 0.3}
EFFECTS |= {"two instruments": 0.5, "normal instrument": 0.5}


def effects(draws: int, first: int = 5000) -> None:
    """Effects at the rows beside the slope of two-stage least squares; limits at three quantiles.

    `differ` is the share of fits whose slopes go with C; the first rows of each design have s = 0.
    """
    from kernelmean.comparators import TwoStageLeastSquares

    columns = "ours", "2SLS", "low", "middle", "high", "mean", "differ"
    table = Table(
        f"errors of effects, {draws} draws; what 95% limits hold", *("design", "s", "n"), *columns
    )
    for design, strength in EFFECTS.items():
        for s, n in product((0.0, strength), (100, 400, 1000)):
            found = []
            for seed in range(first, first + draws):
                X, y, Z, C, effect = trial(design, s, n, seed)
                model = km.KernelIV().fit(X, y, Z, C)
                one, zero = np.ones((n, 1)), np.zeros((n, 1))
                own = model.contrast(one, zero, C).value
                two = TwoStageLeastSquares().fit(np.hstack([X, C]), y, np.hstack([Z, C]))
                line = np.diff(two.predict(np.eye(2, 1 + C.shape[1], -1)))[0]
                at = np.quantile(C, [0.16, 0.5, 0.84], axis=0)
                limits, truth = model.contrast(one[:3], zero[:3], at), effect(at)
                mean = model.average_derivative(column=0)
                holds = (limits.low <= truth) & (truth <= limits.high)
                off = np.mean((own - effect(C)) ** 2), np.mean((line - effect(C)) ** 2)
                all_of_it = mean.low <= effect(C).mean() <= mean.high
                differ = bool(model.basis_x_.polynomial.crossed)
                found.append([*off, *holds, all_of_it, differ])
            table.row(design, s, n, *map(float, np.mean(found, axis=0)))


# ---------------------------------------------------------------- beside curves of a control
ALONG = {
    "x": lambda x: x,
    "2 tanh x": lambda x: 2 * np.tanh(x),
    "1.5 sin 1.5x": lambda x: 1.5 * np.sin(1.5 * x),
    "x²/2": lambda x: x**2 / 2,
    "|x|": np.abs,
}
OF_A_CONTROL = {
    "2 sin 2c": lambda c: 2 * np.sin(2 * c),
    "2|c|": lambda c: 2 * np.abs(c),
    "a step": lambda c: 2.0 * (c > 0.3),
    ".8c": lambda c: 0.8 * c,
}


def adding(h: Callable, f: Callable, strength: float, n: int, rng) -> tuple:
    """x, y, z, c of y = h(x) + f(c) + e, where x goes with sin 1.5c and, strongly, with e."""
    c, (z, v, w) = rng.uniform(-2, 2, n), rng.normal(size=(3, n))
    x = strength * z + 0.5 * np.sin(1.5 * c) + 0.7 * v
    return x, h(x) + f(c) + 0.84 * v + 0.5 * w, z, c


def beside(draws: int, first: int = 5000, n: int = 400) -> None:
    """Squared error of h + f at new rows, and of mean slopes; of lines by 2SLS that know f.

    Instruments have F of about 50 and 300.
    """
    names = "curve", "slope", "2SLS, f known", "limits hold", "band holds"
    table = Table(f"errors of y = h(x) + f(c), n = {n}, {draws} draws", *("h", "f", "z"), *names)
    for (h_name, h), (f_name, f), strength in product(
        ALONG.items(), OF_A_CONTROL.items(), (0.25, 0.6)
    ):
        found = []
        for seed in range(first, first + draws):
            rng = np.random.default_rng(seed)
            x, y, z, c = adding(h, f, strength, n, rng)
            other, _, _, beside = adding(h, f, strength, 500, rng)
            model = km.KernelIV().fit(x[:, None], y, z[:, None], c[:, None])
            at = other[:, None], beside[:, None]
            value, truth = model.predict(*at), h(other) + f(beside)
            slope = np.mean(h(x + 1e-4) - h(x - 1e-4)) / 2e-4
            told = model.average_derivative(column=0)
            known = np.column_stack([np.ones(n), f(c), np.sin(1.5 * c)])
            W, Q = np.column_stack([x, known]), np.column_stack([z, known])
            line = np.linalg.solve(Q.T @ W, Q.T @ y)[0] if h_name == "x" else np.nan
            limits = model.predict_interval(*(side[:100] for side in at))
            holds = np.all((limits.lower <= truth[:100]) & (truth[:100] <= limits.upper))
            off = (told.value - slope) ** 2, (line - slope) ** 2
            within = told.low <= slope <= told.high
            found.append([np.mean((value - truth) ** 2), *off, within, holds])
        curve, own, two, *rest = np.mean(found, axis=0).tolist()
        table.row(h_name, f_name, strength, curve, own**0.5, two**0.5, *rest)


# ---------------------------------------------------------------- clusters
SHARED = ("within", "level", "mixed", "control", "assigned")  # what villages share beside noise
SIZES = (15, 20), (40, 10), (100, 5), (30, 60)  # villages, and rows of each


def villages(design: str, h: Callable, G: int, size: int, seed: int) -> tuple:
    """x, y, z, c, labels and h + c/2: noise and confounding have parts of villages."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(G), size)
    a, b, c = rng.normal(size=(3, G))[:, label]
    own, u, e = rng.normal(size=(3, G * size))
    z = {"within": own, "control": 0.7 * own + 0.5 * b, "level": b, "assigned": np.sign(b)}
    z = z.get(design, 0.7 * (own + b))
    c = c if design == "control" else 0.0 * c
    x = z + 0.5 * c + 0.7 * u + 0.5 * a
    truth = h(x) + 0.5 * c
    C = c[:, None] if design == "control" else None
    return x[:, None], truth + a + 0.7 * u + 0.5 * e, z[:, None], C, label, truth


def clusters(draws: int, first: int = 5000) -> None:
    """Error of curves by the default over two-stage least squares', without and with clusters.

    What 95% limits hold: of the mean slope, and of the curve at 20 rows at once.
    """
    from kernelmean.comparators import TwoStageLeastSquares

    columns = "error", "slope", "band", "error_c", "slope_c", "band_c"
    table = Table(f"noise of villages, {draws} draws", "design", "curve", "villages", *columns)
    curves = {"line": (lambda x: x, np.ones_like), "abs": (np.abs, np.sign)}
    for design, curve, (G, size) in product(SHARED, curves, SIZES):
        found = []
        for seed in range(first, first + draws):
            h, slope = curves[curve]
            X, y, Z, C, label, truth = villages(design, h, G, size, seed)
            both = [A if C is None else np.hstack([A, C]) for A in (X, Z)]
            line = TwoStageLeastSquares().fit(both[0], y, both[1]).predict(both[0])
            row = [np.var(line - truth)]
            for labels in (None, label):
                model = km.KernelIV().fit(X, y, Z, C, labels)
                mean = model.average_derivative(column=0)
                at = np.argsort(X[:, 0])[np.linspace(0.05 * len(y), 0.95 * len(y), 20).astype(int)]
                band = model.predict_interval(X[at], None if C is None else C[at])
                holds = (band.lower <= truth[at]) & (truth[at] <= band.upper)
                row += [np.var(model.predict(X, C) - truth)]
                row += [mean.low <= slope(X[:, 0]).mean() <= mean.high, holds.all()]
            found.append(row)
        line, *ours = map(float, np.mean(found, axis=0))
        ours[0], ours[3] = ours[0] / line, ours[3] / line
        table.row(design, curve, f"{G} x {size}", *ours)


# ---------------------------------------------------------------- few rows
FEW_COLUMNS = "ours", "2SLS", "ratio", "mean", "mean"
FEW = (12, 0), (12, 3), (20, 4), (30, 4), (45, 5), (18, 1), (25, 2)  # rows and controls


def few_rows(draws: int, first: int = 5000) -> None:
    """Squared errors of curves beside those of two-stage least squares: medians and means."""
    from kernelmean.comparators import TwoStageLeastSquares

    title = f"few rows, {draws} draws: squared errors"
    table = Table(
        title, f"{'rows, controls, truth, z':>26}", "ours", "2SLS", "ratio", *["mean"] * 2
    )
    for n, controls in FEW:
        for curve, h in (("line", lambda x: x), ("sine", lambda x: 1.5 * np.sin(1.5 * x))):
            for strength in (1.5, 0.4):
                found = []
                for seed in range(first, first + draws):
                    rng = np.random.default_rng(seed)
                    z, e, C = rng.normal(size=n), rng.normal(size=n), rng.normal(size=(n, controls))
                    x = strength * z + e + 0.3 * rng.normal(size=n)
                    y = h(x) + 0.5 * C.sum(1) + e + 0.3 * rng.normal(size=n)
                    new = x.std() * rng.normal(size=(300, 1)), rng.normal(size=(300, controls))
                    truth = h(new[0][:, 0]) + 0.5 * new[1].sum(1)
                    rows = [x[:, None], y, z[:, None], C]
                    if not controls:
                        rows[3], new = None, (new[0], None)
                    models = km.KernelIV(), TwoStageLeastSquares()
                    fits = [model.fit(*rows).predict(*new) for model in models]
                    found.append([((fit - truth) ** 2).mean() for fit in fits])
                ours, line = map(float, np.median(found, axis=0))
                cell = f"{n}, {controls}, {curve}, {strength}"
                table.row(cell, ours, line, ours / line, *map(float, np.mean(found, axis=0)))


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
        peers([300], draws=2)
        straight([300], draws=2)
        bands(draws=1)
        slopes(draws=1)
        few_rows(draws=1)
        effects(draws=1)
        beside(draws=1)
        clusters(draws=1)
    else:
        peers([300, 2000], draws=20)
        straight([300, 2000], draws=20)
        bands(draws=40)
        slopes(draws=20)
        effects(draws=20)
        beside(draws=20)
        clusters(draws=20)
        compare("sigmoid", [1_000, 5_000, 20_000, 100_000, 1_000_000], dense_up_to=5_000)
        compare("demand", [1_000, 5_000, 20_000], dense_up_to=1_000, repeats=1)

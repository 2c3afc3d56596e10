"""ConditionalEmbedding, tuned by leave-one-out, against dense formulas and KernelRidge."""

from __future__ import annotations

import numpy as np
import statsmodels.api as sm
from _harness import Measured, Table, arguments, measure, ratio, rmse
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelmean as km
from kernelmean.core.minimise import DECADES, minimise_log10

NOISE = 0.3


# ---------------------------------------------------------------- the data
def truth(X) -> np.ndarray:
    """E[Y | x] = sin(3 x_1) x_2."""
    return np.sin(3 * X[:, 0]) * X[:, 1]


def pairs(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    return X, truth(X) + NOISE * rng.standard_normal(n)


def new_rows() -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, (1000, 2))


def pairs_and_reg(n: int, reg: float) -> tuple:
    return *pairs(n), reg


# ---------------------------------------------------------------- the jobs: (prediction, reg)
def ours(X, y) -> tuple[np.ndarray, float]:
    c = km.ConditionalEmbedding().fit(X, y)
    return c.predict(new_rows()), c.reg_


def to_rounding(X, y) -> tuple[np.ndarray, float]:
    """Coordinates so accurate that only the λ found tells them from dense formulas."""
    c = km.ConditionalEmbedding(features=km.Nystroem(tol=1e-10)).fit(X, y)
    return c.predict(new_rows()), c.reg_


def dense_tuned(X, y) -> tuple[np.ndarray, float]:
    """The same leave-one-out loss over n x n matrices: one eigendecomposition, n³ for every λ."""
    kernel, n = km.Gaussian().resolve(X), len(X)
    L = km.Gaussian().resolve(y)(y)
    s, Q = np.linalg.eigh(kernel(X))
    s = np.clip(s, 0, None)
    QtL = Q.T @ L
    M, diagonal = QtL @ Q, L.diagonal()

    def loss(reg: float) -> float:
        d = s / (s + reg)
        H = Q * d
        squared = diagonal - 2 * np.sum(H * QtL.T, axis=1) + np.sum((H @ M) * H, axis=1)
        return float(np.mean(squared / np.clip(1 - np.sum(H * Q, axis=1), 1e-10, None) ** 2))

    ridge, _ = minimise_log10(lambda r: loss(r * n), *DECADES)
    weights = Q @ (Q.T @ y / (s + ridge * n))
    return kernel(new_rows(), X) @ weights, ridge


def dense_once(X, y, reg: float) -> tuple[np.ndarray, float]:
    """(K + nλI)⁻¹y at a λ that somebody else has found."""
    kernel, n = km.Gaussian().resolve(X), len(X)
    K = kernel(X)
    K[np.diag_indices(n)] += n * reg
    return kernel(new_rows(), X) @ np.linalg.solve(K, y), reg


def kernel_ridge(X, y, reg: float) -> tuple[np.ndarray, float]:
    gamma = 0.5 / km.Gaussian().resolve(X).lengthscale ** 2
    model = KernelRidge(alpha=len(X) * reg, kernel="rbf", gamma=gamma).fit(X, y)
    return model.predict(new_rows()), reg


# ---------------------------------------------------------------- the table
def speed(sizes: list[int], tuned_up_to: int, dense_up_to: int) -> None:
    table = Table(
        "Fit n rows and predict 1,000; dense methods without tuning are given the reg of the first",
        *["n", "method                     ", "seconds", "over ours", "peak MB", "reg"],
        *["error", "max diff"],
    )
    for n in sizes:
        first = measure(ours, n, setup=pairs)
        fits = {"ConditionalEmbedding, tuned": first}
        if n <= tuned_up_to:
            fits["the same, tol=1e-10"] = measure(to_rounding, n, setup=pairs)
            fits["dense, tuned"] = measure(dense_tuned, n, setup=pairs)
        if n <= dense_up_to:
            given = n, first.result[1]
            fits["dense, one solve"] = measure(dense_once, *given, setup=pairs_and_reg)
            fits["KernelRidge, one solve"] = measure(kernel_ridge, *given, setup=pairs_and_reg)
        for method, fit in fits.items():
            table.row(n, method, *_cells(fit, first))


def _cells(fit: Measured, first: Measured) -> list:
    prediction, reg = fit.result
    difference = float(np.max(np.abs(prediction - first.result[0])))
    slower = ratio(fit.seconds, first.seconds)
    return [fit.seconds, slower, fit.peak_mb, reg, rmse(prediction, truth(new_rows())), difference]


# ---------------------------------------------------------------- means and laws
def designs(seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    line, three, two = (rng.standard_normal((900, d)) for d in (5, 3, 2))
    sine, spread = rng.uniform(-3, 3, 900), rng.uniform(-1, 1, 900)
    e = rng.standard_normal(900)
    return {
        "Friedman 1": make_friedman1(900, noise=1.0, random_state=seed),
        "Friedman 2": make_friedman2(900, noise=50.0, random_state=seed),
        "Friedman 3": make_friedman3(900, noise=0.1, random_state=seed),
        "diabetes": load_diabetes(return_X_y=True),
        "a sine": (sine[:, None], np.sin(2 * sine) + 0.1 * e),
        "a line in five columns": (line, line @ np.arange(1, 6) + e),
        "three columns": (three, np.sin(three[:, 0]) + three[:, 1] * three[:, 2] + 0.1 * e),
        "noise that grows": (spread[:, None], spread + (0.2 + spread**2) * e),
        "two humps": (two, rng.choice([-1, 1], 900) * (1 + two[:, 0]) + 0.1 * e),
    }


def tables(seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of statsmodels, and one drawn with two columns of y."""
    engel, ccard, star, copper, health, cancer = (
        getattr(sm.datasets, name).load_pandas().data.astype(float)
        for name in ("engel", "ccard", "star98", "copper", "randhie", "cancer")
    )
    rng = np.random.default_rng(seed)
    X, e = rng.uniform(-2, 2, (900, 2)), rng.standard_normal((900, 2))
    return {
        "engel": (engel[["income"]].values, engel["foodexp"].values),
        "ccard": (ccard.drop(columns="AVGEXP").values, ccard["AVGEXP"].values),
        "star98": (star.values[:, 2:12], (star.NABOVE / (star.NABOVE + star.NBELOW)).values),
        "copper": (copper.values[:, 1:], copper.values[:, 0]),
        "randhie": (health.drop(columns="mdvis").values[:900], health["mdvis"].values[:900]),
        "cancer": (cancer[["population"]].values, cancer["cancer"].values),
        "two columns": (X, np.column_stack([X[:, 0], np.sin(3 * X[:, 1])]) + e * [0.1, 0.3]),
    }


def chosen_ridge() -> GridSearchCV:
    model = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf"))
    grid = {"alpha": [1e-3, 1e-2, 0.1, 1], "gamma": [0.01, 0.03, 0.1, 0.3, 1]}
    return GridSearchCV(model, {f"kernelridge__{k}": v for k, v in grid.items()}, cv=5)


def means_and_laws(seeds, designs=designs) -> None:
    """Squared error of means over that of a kernel ridge, CRPS over that of ConditionalDensity.

    300 rows are learned from, or two thirds where there are fewer.
    """
    ways = {
        "default": km.ConditionalEmbedding(),
        "tuned": km.ConditionalEmbedding(tune_lengthscale=True),
        "for means": km.ConditionalEmbedding(kernel_y="linear", tune_lengthscale=True),
        "Bayes": km.KernelBayes(),
        "Bayes, tuned": km.KernelBayes(tune_lengthscale=True),
    }
    laws = [name for name in ways if name != "for means"]
    columns = [*ways, *(f"CRPS {name}" for name in laws)]
    table = Table("300 rows", f"{'design':>22}", *columns)
    every = []
    for name in designs(0):
        ratios = []
        for seed in seeds:
            X, y = designs(seed)[name]
            rows = np.random.default_rng(seed).permutation(len(y))
            some, new = np.split(rows, [min(300, 2 * len(y) // 3)])
            y = (y - y[some].mean(axis=0)) / y[some].std(axis=0)

            def off(model, X=X, y=y, some=some, new=new) -> float:
                found = model.fit(X[some], y[some]).predict(X[new])
                return float(np.mean((y[new] - found.reshape(y[new].shape)) ** 2))

            ridge, errors = off(chosen_ridge()), [off(model) for model in ways.values()]
            density = km.ConditionalDensity().fit(X[some], y[some]).at(X[new]).crps(y[new]).mean()
            at = {k: ways[k].posterior if "Bayes" in k else ways[k].at for k in laws}
            scores = [at[k](X[new]).crps(y[new]).mean() for k in laws]
            ratios.append([*(e / ridge for e in errors), *(s / density for s in scores)])
        every.append(np.exp(np.mean(np.log(ratios), axis=0)))
        table.row(name, *every[-1])
    table.row("all", *np.exp(np.mean(np.log(every), axis=0)))


if __name__ == "__main__":
    if arguments(__doc__).quick:
        speed([500], tuned_up_to=500, dense_up_to=500)
    else:
        speed([500, 1_000, 2_000, 5_000, 20_000, 100_000], tuned_up_to=2_000, dense_up_to=5_000)

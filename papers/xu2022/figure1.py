"""Figure 1: the original rule against importance weighting, by dimension."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km

from ..fukumizu2013 import kde
from ..fukumizu2013.gaussian import GaussianModel, identity, squared_error
from ..fukumizu2013.tables import BEST, lower, with_best_bandwidth
from ..reproduce import Experiment

DIMENSIONS = (2, 4, 8, 16, 32, 64)
REG = 0.2  # η = λ, of section 6.1
BANDWIDTHS = np.geomspace(0.25, 16, 13)  # of KDE, which the paper does not run here
METHODS = {
    "Original": "#0072B2",
    "IW": "#D55E00",
    "IW-TrueRatio": "#E69F00",
    "KDE+IW, least-squares CV": "#999999",
    BEST: "#000000",
    "default, not normalised": "#56B4E9",
    "default": "#009E73",
}
# mean squared errors of a dense implementation, written by others for the project's issue 3
DENSE = {
    "IW": dict(zip(DIMENSIONS, (0.038, 0.106, 0.31, 0.72, 1.68, 3.4), strict=True)),
    "Original": dict(zip(DIMENSIONS, (0.063, 0.18, 0.45, 0.89, 1.80, 3.5), strict=True)),
}
PUBLISHED = {
    "Original": "above IW",
    "IW": "lowest",
    "IW-TrueRatio": "above IW",
}


def run(seed: int, d: int, n: int, tests: int) -> list[dict]:
    """Squared error of the posterior mean of every method on the same sample."""
    rng = np.random.default_rng(seed)
    model = GaussianModel.draw(d, rng, share=1 / (2 * d))
    (X, Z), prior = model.pairs(n, rng), model.prior(n, rng)
    observed = model.observations(tests, rng)
    truth = model.posterior_mean(observed)
    return [
        {"method": method, "bandwidth": h, "mse": squared_error(estimate, truth)}
        for method, h, estimate in estimates(model, X, Z, prior, observed)
    ]


def estimates(model, X, Z, prior, observed) -> Iterator[tuple[str, float, np.ndarray]]:
    """Name, bandwidth of KDE, and posterior means at the rows of `observed`."""
    medians = {"kernel_x": km.Gaussian(), "kernel_z": km.Gaussian()}  # of one distance, as theirs
    fixed = {"reg_prior": REG, "reg": REG, **medians}
    rules = {
        "Original": km.KernelBayes(rule="squared", **fixed),
        "IW": km.KernelBayes(**fixed),
        "IW-TrueRatio": km.KernelBayes(ratio=model.ratio, **fixed),
        "default, not normalised": km.KernelBayes(),
    }
    for name, rule in rules.items():
        posterior = rule.fit(X, Z).posterior(observed, prior)
        yield name, np.nan, posterior.expectation(identity)
    yield "default", np.nan, posterior.mean()
    chosen = kde.choose_bandwidth(np.hstack([X, Z]), BANDWIDTHS)
    for h in BANDWIDTHS:
        mean = kde.posterior_mean(X, Z, prior, observed, h)
        yield "KDE+IW", float(h), mean
        if h == chosen:
            yield "KDE+IW, least-squares CV", float(h), mean


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean error, what is known of it, and Wilcoxon's signed-rank test over the runs."""
    kept = with_best_bandwidth(rows)
    errors = kept.pivot_table(index="seed", columns=["d", "n", "method"], values="mse")
    cases = list(rows.groupby(["d", "n"]).groups)
    return pd.DataFrame([describe(errors[c], *c, method) for c in cases for method in METHODS])


def describe(errors: pd.DataFrame, d: int, n: int, method: str) -> dict:
    ours, dense = errors[method], DENSE.get(method, {}).get(d, np.nan) if n == 200 else np.nan
    return {
        "d": d,
        "n": n,
        "method": method,
        "runs": len(ours),
        "mse": ours.mean(),
        "standard error": ours.sem(),
        "dense run": dense,
        "relative difference": ours.mean() / dense - 1,
        "mse / IW": ours.mean() / errors["IW"].mean(),
        "p (IW lower)": lower(errors["IW"], ours),
        "p (default lower)": lower(errors["default"], ours),
        "p (default, not normalised, lower)": lower(errors["default, not normalised"], ours),
        "published": PUBLISHED.get(method, ""),
    }


def figure(rows: pd.DataFrame) -> Figure:
    """Error by dimension, with the standard errors, and relative to IW."""
    picture = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = picture.subplots(1, 2)
    table = summary(rows)
    for method, colour in METHODS.items():
        part = table[table.method == method]
        style = {"color": colour, "marker": "o", "markersize": 4}
        left.errorbar(part.d, part.mse, yerr=part["standard error"], label=method, **style)
        right.plot(part.d, part["mse / IW"], **style)
    left.plot([], [], "k+", label="dense run of issue 3")
    for known in DENSE.values():
        left.plot(list(known), list(known.values()), "k+", markersize=9, zorder=5)
    left.set(ylabel="mean squared error of the posterior mean", yscale="log")
    right.set(ylabel="relative to IW")
    for ax in (left, right):
        ax.set(xlabel="dimension", xscale="log")
        ax.set_xticks(sorted(set(rows.d)), sorted(set(rows.d)))
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    picture.legend(loc="outside right upper", frameon=False)
    return picture


EXPERIMENTS = [
    Experiment(
        name="xu2022-figure1",
        paper="Xu, Chen, Doucet, Gretton (2022)",
        item="Figure 1",
        title="Error of the posterior mean by dimension: original and importance-weighted rule.",
        run=run,
        summary=summary,
        figure=figure,
        grid=[{"d": d, "n": 200, "tests": 1000} for d in DIMENSIONS],
        quick=[{"d": d, "n": 50, "tests": 100} for d in (2, 8)],
        runs=30,
        first_seed=20220,
        seconds=3,
        version=4,  # a sampled prior has a DensityRatio of its own
        notes=(
            "η = λ = 0.2, median lengthscales, 200 pairs, 200 draws of the prior, 1,000 points "
            "x ~ N(0, V_XX); expectations not normalised, except by the default. The error is the "
            "squared Euclidean norm, averaged over the points. The paper shows a figure without "
            "numbers; 'dense run' is another implementation of it."
        ),
    )
]

"""Not in the paper: KBR where Bayes' rule can be done by hand, on tables and on the line."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import kernelmean as km

from ..reproduce import Experiment
from .gaussian import GaussianModel
from .settings import FIRST_SEED, PAPER

LATENTS, OBSERVATIONS = 4, 5
REG = 1e-10  # λ → 0
SIZES = (100, 1000, 10000)
PUBLISHED = {"of the table": "0 as λ → 0", "of the truth": "to 0 as n grows"}


def run(seed: int, model: str, n: int) -> list[dict]:
    """Errors of the posterior with n pairs."""
    rng = np.random.default_rng(seed)
    return table_errors(n, rng) if model == "table" else line_errors(n, rng)


def table_errors(n: int, rng: np.random.Generator) -> list[dict]:
    """Largest error of P(z | x) over a table, against its estimate by counting and the truth."""
    likelihood = rng.dirichlet(np.ones(OBSERVATIONS), LATENTS)
    prior = rng.dirichlet(np.ones(LATENTS))
    Z = rng.permutation(np.arange(n) % LATENTS)
    X = (rng.uniform(size=(n, 1)) > likelihood.cumsum(axis=1)[Z, :-1]).sum(axis=1)
    counts = np.zeros((LATENTS, OBSERVATIONS))
    np.add.at(counts, (Z, X), 1)
    counted = bayes_table(counts / counts.sum(axis=1, keepdims=True), prior)
    rows = []
    for rule in ("importance", "squared"):
        found = kernel_table(X, Z, prior, rule)
        rows += [
            {"rule": rule, "what": "probability, of the table", "error": worst(found - counted)},
            {
                "rule": rule,
                "what": "probability, of the truth",
                "error": worst(found - bayes_table(likelihood, prior)),
            },
        ]
    return rows


def kernel_table(X, Z, prior, rule: str) -> np.ndarray:
    """P(z | x), one row for each x that occurs, by kernel Bayes' rule with delta kernels."""
    model = km.KernelBayes(rule, "delta", "delta", reg_prior=REG, reg=REG).fit(X[:, None], Z)
    states = np.arange(LATENTS, dtype=float)[:, None]
    embedding = km.MeanEmbedding(states, prior, "delta")
    return model.posterior(np.arange(OBSERVATIONS)[:, None], embedding)(states)


def bayes_table(likelihood, prior) -> np.ndarray:
    """Bayes' rule: rows x, columns z; zero where x has no probability."""
    joint = (prior[:, None] * likelihood).T
    total = joint.sum(axis=1, keepdims=True)
    return joint / np.where(total > 0, total, 1)


def worst(error: np.ndarray) -> float:
    return float(np.abs(error).max())


def line_errors(n: int, rng: np.random.Generator) -> list[dict]:
    """Error of the posterior's mean and standard deviation in one dimension, of the default."""
    model = GaussianModel.draw(1, rng, share=0.5)
    (X, Z), prior = model.pairs(n, rng), model.prior(n, rng)
    observed = np.sqrt(model.blocks[2]) * np.linspace(-1.5, 1.5, 31)[:, None] + 1
    posterior = km.KernelBayes().fit(X, Z).posterior(observed, prior)
    scale = float(np.sqrt(model.posterior[1][0, 0]))
    off = posterior.mean() - model.posterior_mean(observed)
    spread = np.sqrt(posterior.cov()[:, 0, 0]) - scale
    return [
        {
            "rule": "default",
            "what": "mean, in posterior sd, of the truth",
            "error": rms(off / scale),
        },
        {"rule": "default", "what": "sd, relative, of the truth", "error": rms(spread / scale)},
    ]


def rms(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(error**2)))


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over the runs."""
    groups = rows.groupby(["model", "what", "rule", "n"], sort=False).error
    table = groups.agg(runs="size", error="mean", worst="max").reset_index()
    table = table.sort_values(["model", "what", "rule", "n"])
    expected = [text for what in table.what for key, text in PUBLISHED.items() if key in what]
    return table.assign(published=expected)


def figure(rows: pd.DataFrame) -> Figure:
    """Errors against the number of pairs."""
    picture = Figure(figsize=(9, 4), layout="constrained")
    ax = picture.subplots()
    for (what, rule), part in rows.groupby(["what", "rule"], sort=False):
        means = part.groupby("n").error.mean()
        dash = "--" if rule == "squared" else "-"  # it covers the other rule
        ax.plot(means.index, means, f"o{dash}", markersize=4, label=f"{what} ({rule})")
    sizes = np.array(sorted(set(rows.n)))
    ax.plot(sizes, 3 / np.sqrt(sizes), "k:", label="slope −1/2")
    ax.set(xscale="log", yscale="log", xlabel="pairs", ylabel="error, mean of the runs")
    ax.grid(alpha=0.3)
    picture.legend(loc="outside right upper", frameon=False)
    return picture


EXPERIMENTS = [
    Experiment(
        name="fukumizu2013-sanity",
        paper=PAPER,
        item="sanity checks",
        title="KBR where Bayes' rule can be done by hand: tables, and a Gaussian on the line.",
        run=run,
        summary=summary,
        figure=figure,
        grid=[{"model": m, "n": n} for m in ("table", "line") for n in SIZES],
        quick=[{"model": m, "n": 200} for m in ("table", "line")],
        runs=20,
        first_seed=FIRST_SEED,
        seconds=1,
        version=3,  # a sampled prior has a DensityRatio of its own
        notes=(
            f"Tables of {LATENTS} latents and {OBSERVATIONS} observations with delta kernels and "
            f"η = λ = δ = {REG:g}: the largest error against Bayes' rule with likelihoods by "
            "counting, and with the true ones. On the line KernelBayes() with no settings: the "
            "root mean square over observations within 1.5 standard deviations."
        ),
    )
]

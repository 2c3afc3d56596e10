"""Influenza in a boarding school, 1978: the rates of an epidemic from fourteen numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ...bayes.simulate import simulate_posterior
from ...datasets import Outbreak, load_influenza, simulate_sir
from ...display import CURVE, DATA, PLAIN
from ...embedding.embedding import MeanEmbedding
from ...features.landmarks import Nystroem
from ...regression.conditional import ConditionalEmbedding
from ..report import Block, Figure, Note, Numbers, Prose, Section
from ..words import Texts, percent
from . import yours

TITLE = "Influenza: the rates of an epidemic"
SIMULATIONS, FEW = 4000, 1000
EXAMPLES = 500  # in the file beside the page
RATES = ["infection", "recovery"]
DAYS = [f"day{i}" for i in range(1, 15)]
LEVEL = 0.9
SAY = Texts("influenza")


def prior(n: int, rng: np.random.Generator) -> np.ndarray:
    """Rates believed possible: log-normal, with medians 1.8 and 0.5 and a factor of 2.7 around."""
    return np.array([1.8, 0.5]) * np.exp(0.5 * rng.standard_normal((n, 2)))


def run(quick: bool) -> Section:
    """Simulate epidemics and condition them on the one observed."""
    outbreak = load_influenza()
    rates = infer(outbreak, FEW if quick else SIMULATIONS)
    every = with_derived(rates)
    ends = zip(every.mean(), *every.interval(LEVEL), strict=True)
    told = [f"{mean:.2f} ({low:.2f} to {high:.2f})" for mean, low, high in ends]
    values = dict(zip(SAY.content["facts"], told, strict=True))
    blocks: list[Block] = [
        Prose(SAY("question")),
        Figure("influenza-outbreak", SAY("outbreak"), outbreak_plot(outbreak, rates), 3.4),
        Numbers(SAY.facts(values)),
        Figure("influenza-reproduction", SAY("reproduction"), marginal_plot(rates), 3.4),
        Note(SAY("means", level=percent(LEVEL))),
        Prose(f"{outbreak.description} {outbreak.source}"),
        *yours(
            f"posterior epidemics.csv --latent {','.join(RATES)} --observed {','.join(DAYS)} "
            f"--at outbreak.csv --level {LEVEL}",
            {"epidemics.csv": examples(outbreak), "outbreak.csv": seen([outbreak.in_bed])},
        ),
    ]
    return Section(TITLE, blocks)


def seen(counts: Any) -> pd.DataFrame:
    """Boys in bed on each day, on the scale of square roots."""
    return pd.DataFrame(np.sqrt(counts), columns=DAYS)


def examples(outbreak: Outbreak) -> pd.DataFrame:
    """Rates from the prior, each with an epidemic: what a table of one's own would hold."""
    rng = np.random.default_rng(0)
    rates = prior(EXAMPLES, rng)
    epidemics = simulate_sir(rates, rng, outbreak.population)
    return pd.DataFrame(rates, columns=RATES).join(seen(epidemics))


def infer(outbreak: Outbreak, n: int) -> MeanEmbedding:
    """Posterior of (β, γ): counts are compared on the scale of their square roots."""
    model = ConditionalEmbedding(
        "gaussian", "gaussian", features=Nystroem(tol=2e-2), tune_lengthscale=True
    )
    return simulate_posterior(
        prior,
        lambda theta, rng: np.sqrt(simulate_sir(theta, rng, outbreak.population)),
        np.sqrt(outbreak.in_bed),
        n,
        model=model,
        batch_size=500,
        random_state=0,
    )


def with_derived(rates: MeanEmbedding) -> MeanEmbedding:
    """The same distribution of (β, γ, β/γ, 1/γ)."""
    beta, gamma = rates.points.T
    points = np.column_stack([beta, gamma, beta / gamma, 1 / gamma])
    return MeanEmbedding(points, rates.weights)


def outbreak_plot(outbreak: Outbreak, rates: MeanEmbedding) -> Any:
    """The outbreak, and epidemics simulated from the posterior."""
    rng, days = np.random.default_rng(1), np.arange(1, 15)
    epidemics = simulate_sir(np.repeat(rates.herd(100), 3, axis=0), rng, outbreak.population)
    low, middle, high = np.quantile(epidemics, [0.05, 0.5, 0.95], axis=0)

    def plot(axes: Any) -> None:
        axes.fill_between(days, low, high, color=CURVE, alpha=0.15, lw=0)
        axes.plot(days, middle, color=CURVE, lw=2, label="simulated from the posterior")
        axes.plot(days, outbreak.in_bed, "o", color="#222222", ms=4, label="observed")
        axes.set(xlabel="day", ylabel="boys in bed")
        axes.legend(frameon=False)

    return plot


def marginal_plot(rates: MeanEmbedding) -> Any:
    """Prior and posterior of β/γ."""
    points = rates.points[:, 0] / rates.points[:, 1]
    before, after = (MeanEmbedding(points, w) for w in (None, rates.weights))
    grid = np.linspace(0, 10, 400)

    def plot(axes: Any) -> None:
        axes.plot(grid, after.density(grid), color=CURVE, lw=2, label="posterior")
        axes.plot(grid, before.density(grid), "--", color=PLAIN, lw=1.5, label="prior")
        axes.axvline(1, color=DATA, lw=0.8)
        axes.set(xlabel="people infected by each case, β/γ", yticks=[], xlim=(0, 10))
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)

    return plot

"""Influenza in a boarding school, 1978: the rates of an epidemic from fourteen numbers."""

from __future__ import annotations

import numpy as np

from ...bayes.simulate import simulate_posterior
from ...datasets import Outbreak, load_influenza, simulate_sir
from ...display import CURVE, DATA, PLAIN
from ...embedding.embedding import MeanEmbedding
from ...features.landmarks import Nystroem
from ...regression.conditional import ConditionalEmbedding
from ..page import Figure, Note, Numbers, Prose, Section, canvas
from .job import Job, Result

SIMULATIONS, FEW = 4000, 1000
LEVEL = 0.9
NAMES = ("Transmission rate β, per day", "Recovery rate γ, per day")
DERIVED = ("People infected by each case, β/γ", "Days ill, 1/γ")


def prior(n: int, rng: np.random.Generator) -> np.ndarray:
    """Rates believed possible: log-normal, with medians 1.8 and 0.5 and a factor of 2.7 around."""
    return np.array([1.8, 0.5]) * np.exp(0.5 * rng.standard_normal((n, 2)))


def run(quick: bool) -> Result:
    """Simulate epidemics and condition them on the one observed."""
    outbreak = load_influenza()
    rates = infer(outbreak, FEW if quick else SIMULATIONS)
    lines = _lines(rates)
    return Result([(name, value) for name, value, _ in lines], _section(outbreak, rates, lines))


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


def _lines(rates: MeanEmbedding) -> list[tuple[str, str, str]]:
    meanings = (
        "How many others a sick boy infects in a day while all around him are susceptible.",
        "The rate at which sick boys leave their beds.",
        "The basic reproduction number: above one an outbreak grows.",
        "Average time in bed.",
    )
    every = with_derived(rates)
    mean, (low, high) = every.mean(), every.interval(LEVEL)
    values = [f"{m:.2f} ({a:.2f} to {b:.2f})" for m, a, b in zip(mean, low, high, strict=True)]
    return list(zip((*NAMES, *DERIVED), values, meanings, strict=True))


def _section(outbreak: Outbreak, rates: MeanEmbedding, lines: list) -> Section:
    return Section(
        "Influenza: the rates of an epidemic",
        [
            Prose(
                "How contagious was the influenza that swept through a boarding school in 1978? "
                "An epidemic is easy to simulate but has no likelihood that one could write down: "
                "who infected whom was never seen. So simulate many epidemics with rates drawn "
                "from the prior, and ask which rates go with outbreaks that look like this one."
            ),
            _outbreak_figure(outbreak, rates),
            Numbers(lines),
            _marginal_figure(rates),
            Note(
                f"Means, with central {100 * LEVEL:.0f}% intervals. Everybody is taken to meet "
                "everybody, and boys to be put to bed as soon as they are contagious; neither is "
                "quite true, and the intervals know nothing of it."
            ),
            Prose(f"{outbreak.description} {outbreak.source}"),
        ],
    )


def _outbreak_figure(outbreak: Outbreak, rates: MeanEmbedding) -> Figure:
    rng = np.random.default_rng(1)
    epidemics = simulate_sir(np.repeat(rates.herd(100), 3, axis=0), rng, outbreak.population)
    days = np.arange(1, 15)
    low, middle, high = np.quantile(epidemics, [0.05, 0.5, 0.95], axis=0)
    drawing, axes = canvas(height=3.4)
    axes.fill_between(days, low, high, color=CURVE, alpha=0.15, lw=0)
    axes.plot(days, middle, color=CURVE, lw=2, label="simulated from the posterior")
    axes.plot(days, outbreak.in_bed, "o", color="#222222", ms=4, label="observed")
    axes.set(xlabel="day", ylabel="boys in bed")
    axes.legend(frameon=False)
    caption = (
        "The outbreak, and epidemics with a hundred rates that stand for the posterior (chosen by "
        "kernel herding), each simulated three times: their median and middle 90%."
    )
    return Figure(drawing, caption, "influenza-outbreak")


def _marginal_figure(rates: MeanEmbedding) -> Figure:
    drawing, axes = canvas(height=3.4)
    points = rates.points[:, 0] / rates.points[:, 1]
    before, after = (MeanEmbedding(points, w) for w in (None, rates.weights))
    grid = np.linspace(0, 10, 400)
    axes.plot(grid, after.density(grid), color=CURVE, lw=2, label="posterior")
    axes.plot(grid, before.density(grid), "--", color=PLAIN, lw=1.5, label="prior")
    axes.axvline(1, color=DATA, lw=0.8)
    axes.set(xlabel="people infected by each case, β/γ", yticks=[], xlim=(0, 10))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    caption = "The basic reproduction number before and after the fourteen counts are seen."
    return Figure(drawing, caption, "influenza-reproduction")


JOB = Job("Influenza: the rates of an epidemic", run)

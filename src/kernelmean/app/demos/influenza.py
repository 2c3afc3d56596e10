"""Influenza in a boarding school, 1978: the rates of an epidemic from fourteen numbers."""

import numpy as np
import pandas as pd

from ...datasets import load_influenza, simulate_sir
from .job import Tables

SIMULATIONS = 1000
SEEN = ["peak", "middle_day", "spread", "boy_days"]


def tables() -> Tables:
    """Simulated epidemics with their rates, and the one that was observed."""
    outbreak, rng = load_influenza(), np.random.default_rng(0)
    beta, gamma = (np.array([1.8, 0.5]) * np.exp(0.5 * rng.standard_normal((SIMULATIONS, 2)))).T
    counts = simulate_sir(np.column_stack([beta, gamma]), rng, outbreak.population)
    rates = pd.DataFrame({"infected_by_each": beta / gamma, "days_ill": 1 / gamma})
    return {
        "epidemics.csv": rates.join(outline(counts)),
        "school.csv": outline(outbreak.in_bed[None, :]),
    }


def outline(counts: np.ndarray) -> pd.DataFrame:
    """An epidemic in four numbers; counts on the scale of their square roots."""
    day = np.arange(1, counts.shape[1] + 1)
    total = np.maximum(counts.sum(axis=1), 1)
    middle = counts @ day / total
    spread = np.sqrt(np.maximum(counts @ day**2 / total - middle**2, 0))
    numbers = [np.sqrt(counts.max(axis=1)), middle, spread, np.sqrt(counts.sum(axis=1))]
    return pd.DataFrame(np.column_stack(numbers), columns=SEEN).round(6)

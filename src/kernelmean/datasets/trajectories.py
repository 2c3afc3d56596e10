"""State spaces whose law is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.checks import as_vector, check_choice, check_count, check_positive, generator
from .tables import Dataset

__all__ = ["DYNAMICS", "StateSpace", "Trajectory", "make_hidden_angle", "make_rotation"]


@dataclass(frozen=True, repr=False)
class StateSpace(Dataset):
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


@dataclass(frozen=True, repr=False)
class Trajectory(Dataset):
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
        lambda Z: Z,
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

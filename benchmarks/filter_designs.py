"""State spaces to follow, and a particle filter that knows them: what nobody beats by much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelmean.datasets import make_rotation

Move = Callable[[np.ndarray, np.random.Generator], np.ndarray]
PARTICLES = 4_000


@dataclass(frozen=True)
class Design:
    """How states move, what is seen of them, how likely that is, and where they begin."""

    move: Move  # (m, d_z) and a generator → (m, d_z)
    see: Move
    log_density: Callable[[np.ndarray, np.ndarray], np.ndarray]  # x (d_x,), states → (m,)
    first: Callable[[int, np.random.Generator], np.ndarray]

    def sample(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Observations and states of n steps."""
        rng = np.random.default_rng(seed)
        z = self.first(1, rng)
        Z = np.concatenate([z := self.move(z, rng) for _ in range(n)])
        return self.see(Z, rng), Z

    def particles(self, X: np.ndarray, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Means and widths of central intervals of a bootstrap filter."""
        rng = np.random.default_rng(0)
        Z, told = self.first(PARTICLES, rng), []
        for x in X:
            Z = self.move(Z, rng)
            log_w = self.log_density(x, Z)
            w = np.exp(log_w - log_w.max())
            w /= w.sum()
            mean = w @ Z
            at = (np.arange(PARTICLES) + rng.random()) / PARTICLES
            Z = Z[np.minimum(np.searchsorted(np.cumsum(w), at), PARTICLES - 1)]
            ends = np.quantile(Z, [(1 - level) / 2, (1 + level) / 2], axis=0)
            told.append((mean, ends[1] - ends[0]))
        means, widths = zip(*told, strict=True)
        return np.array(means), np.array(widths)


def normal(move: Callable, see: Callable, noise_z: Any, noise_x: Any, first: Any) -> Design:
    """z' = f(z) + noise, x = g(z) + noise; from a point with a little noise."""
    sizes = np.atleast_1d(noise_x)

    def moved(Z, rng):
        Z = move(Z)
        return Z + noise_z * rng.standard_normal(Z.shape)

    def seen(Z, rng):
        X = see(Z)
        return X + sizes * rng.standard_normal(X.shape)

    def log_density(x, Z):
        return -0.5 * (((x - see(Z)) / sizes) ** 2).sum(axis=1)

    def begun(count, rng):
        at = np.atleast_1d(first).astype(float)
        return at + 0.1 * rng.standard_normal((count, len(at)))

    return Design(moved, seen, log_density, begun)


def rotating(design: str) -> Design:
    model = make_rotation(2, "oscillation", design, random_state=0).model
    there = normal(model.transition, model.emission, model.state_noise, model.noise, [1.0, 0.0])
    return Design(there.move, there.see, there.log_density, model.first)


def swing(Z: np.ndarray, friction: float = 0.0, step: float = 0.1) -> np.ndarray:
    faster = (1 - friction) * Z[:, 1] - 9.8 * step * np.sin(Z[:, 0])
    return np.column_stack([Z[:, 0] + step * faster, faster])


def sine(Z: np.ndarray) -> np.ndarray:
    return np.sin(Z[:, :1])


def lorenz(Z: np.ndarray, step: float = 0.02) -> np.ndarray:
    x, y, z = Z.T
    return Z + step * np.column_stack([10 * (y - x), x * (28 - z) - y, x * y - 8 * z / 3])


def teeth(Z: np.ndarray) -> np.ndarray:
    """One step down a potential of teeth on a wide bowl."""
    return Z - 0.3 * np.sign(np.sin(4 * Z)) * 0.5 - 0.05 * Z


def flown(Z: np.ndarray) -> np.ndarray:
    """Places and velocities; the whole is drawn to the middle, so that it stays in sight."""
    return np.column_stack([Z[:, :2] + Z[:, 2:], 0.9 * Z[:, 2:] - 0.02 * Z[:, :2]])


def bearings(Z: np.ndarray) -> np.ndarray:
    """Angles at which two posts see a place."""
    posts = ((-6.0, -6.0), (6.0, -6.0))
    return np.column_stack([np.arctan2(Z[:, 0] - a, Z[:, 1] - b) for a, b in posts])


def same(Z: np.ndarray) -> np.ndarray:
    return Z


def volatility() -> Design:
    plain = normal(lambda Z: 0.95 * Z, same, 0.3, 1.0, 0.0)
    return Design(
        plain.move,
        lambda Z, rng: np.exp(Z / 2) * rng.standard_normal(Z.shape),
        lambda x, Z: -0.5 * (Z[:, 0] + x[0] ** 2 * np.exp(-Z[:, 0])),
        plain.first,
    )


SPEED = [0.02, 0.02, 0.2, 0.2]
DESIGNS: dict[str, Design] = {
    "fukumizu": rotating("fukumizu"),
    "xu": rotating("xu"),
    "pendulum": normal(swing, sine, [0.01, 0.05], 0.3, [1.5, 0.0]),
    "damped": normal(lambda Z: swing(Z, 0.05), sine, [0.01, 0.4], 0.3, [1.0, 0.0]),
    "lorenz": normal(lorenz, lambda Z: Z[:, :1], 0.3, 1.0, [1.0, 1.0, 25.0]),
    "saw": normal(teeth, np.tanh, 0.3, 0.3, 0.0),
    "volatility": volatility(),
    "quadratic": normal(lambda Z: 0.9 * Z, lambda Z: Z**2 / 2 + Z / 4, 0.5, 0.3, 0.0),
    "level": normal(same, same, 0.1, 0.5, 0.0),
    "bearings": normal(flown, bearings, SPEED, 0.05, [0.0, 0.0, 0.0, 0.0]),
    "fine": normal(lambda Z: 0.8 * Z, same, 0.6, 0.05, [0.0, 0.0]),
    "fine10": normal(lambda Z: 0.8 * Z, same, 0.6, 0.1, [0.0, 0.0]),
    "linear": normal(lambda Z: 0.8 * Z, same, 0.6, 0.5, [0.0, 0.0]),
}

"""Films: pictures of a walk, and the states behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelmean.datasets import Trajectory

RUN_IN = 10  # steps before the first that counts: what the LSTM sees of the past
PIXEL_NOISE = 0.1  # standard deviation: N(0, 0.01) has the variance 0.01
TAIL = 100  # steps of validation, and at most half of the training film


@dataclass(frozen=True)
class Design:
    """A walk, whose observations say what a picture shows, and the states to be tracked."""

    walk: Callable[[int, list[int]], Trajectory]  # of the length n, from a seed
    states: Callable[[np.ndarray], np.ndarray]  # (..., d) of the walk to (..., 2)
    views: Callable[[np.ndarray], np.ndarray]  # (n, d) of the walk to (n, channels, height, width)


@dataclass(frozen=True)
class Film:
    """Pictures, flattened (n, pixels), the states behind them, and the shape of a picture."""

    X: np.ndarray
    Z: np.ndarray
    shape: tuple[int, int, int]  # channels, height, width
    walk: Trajectory

    @classmethod
    def of(cls, design: Design, n: int, seed: list[int]) -> Film:
        walk = design.walk(n, seed)
        views = design.views(walk.X).astype(float)
        views += PIXEL_NOISE * np.random.default_rng([*seed, 1]).standard_normal(views.shape)
        return cls(views.reshape(n, -1), design.states(walk.Z), views.shape[1:], walk)

    @property
    def tail(self) -> int:
        return min(TAIL, len(self.X) // 2)

"""Figure 5: where somebody in a maze looks to, from what they see."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kernelmean.datasets import StateSpace, Trajectory

from .. import scenes
from ..reproduce import Experiment
from . import images
from .film import Design

TURN, NOISE = 0.4, 0.2  # ω, and σ_θ = σ_X
# the paper's figure has no numbers
PUBLISHED = {
    "Original": "above IW at every n",
    "IW": "below Original at every n",
    "IW (NN)": "lowest",
    "LSTM": "like IW",
}


def run(seed: int, n: int, tests: int, method: str, epochs: int = 0) -> dict[str, float]:
    """Squared error of (cos θ, sin θ) on a film of its own, learned from n pictures."""
    return images.measured(DESIGN, method, seed, n, tests, epochs)


def walk(n: int, seed: list[int]) -> Trajectory:
    """Directions θ_{t+1} = θ_t + 0.4 + N(0, 0.2²); X is the direction that the picture shows."""
    return StateSpace(
        lambda theta: theta + TURN,
        lambda theta: theta,
        lambda count, rng: rng.uniform(0, 2 * np.pi, (count, 1)),
        state_noise=NOISE,
        noise=NOISE,
    ).sample(n, random_state=seed)


def on_circle(theta: np.ndarray) -> np.ndarray:
    return np.concatenate([np.cos(theta), np.sin(theta)], axis=-1)


def views(theta: np.ndarray) -> np.ndarray:
    return np.moveaxis(scenes.first_person(theta[:, 0]), 3, 1)


DESIGN = Design(walk, on_circle, views)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    return images.summary(rows, PUBLISHED)


def figure(rows: pd.DataFrame) -> Figure:
    return images.figure(rows, DESIGN)


EXPERIMENTS = [
    Experiment(
        name="xu2022-figure5",
        paper="Xu, Chen, Doucet, Gretton (2022)",
        item="Figure 5",
        title="A direction in a maze from pictures of 36 × 48 pixels in colour.",
        run=run,
        summary=summary,
        figure=figure,
        grid=images.grid(images.SIZES, images.TESTS, images.EPOCHS),
        quick=images.grid((60,), 30, dict.fromkeys(images.EPOCHS, 4)),
        runs=images.RUNS,
        first_seed=images.FIRST_SEED,
        seconds=600,
        quick_runs=1,
        notes=images.NOTES + " The maze is our own: DeepMind Lab's is not to be had here.",
    )
]

"""Figure 6: a point on a wavy circle, from pictures of a sprite that is near it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kernelmean.datasets import Trajectory, make_rotation

from .. import scenes
from ..reproduce import Experiment
from . import images
from .film import Design

# the paper's figure has no numbers
PUBLISHED = {
    "Original": "above IW and IW (NN)",
    "IW": "below Original",
    "IW (NN)": "below Original",
    "LSTM": "highest",
}


def run(seed: int, n: int, tests: int, method: str, epochs: int = 0) -> dict[str, float]:
    """Squared error of the point on a film of its own, learned from n pictures."""
    return images.measured(DESIGN, method, seed, n, tests, epochs)


def walk(n: int, seed: list[int]) -> Trajectory:
    """The oscillation of eq. (5) with σ_Z = 0.2; X, with σ_X = 0.05, is where the sprite is."""
    return make_rotation(n, "oscillation", "xu", state_noise=0.2, noise=0.05, random_state=seed)


def itself(Z: np.ndarray) -> np.ndarray:
    return Z


def views(positions: np.ndarray) -> np.ndarray:
    return scenes.sprite(positions)[:, None]


DESIGN = Design(walk, itself, views)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    return images.summary(rows, PUBLISHED)


def figure(rows: pd.DataFrame) -> Figure:
    return images.figure(rows, DESIGN)


EXPERIMENTS = [
    Experiment(
        name="xu2022-figure6",
        paper="Xu, Chen, Doucet, Gretton (2022)",
        item="Figure 6",
        title="A point on a wavy circle from pictures of a sprite, 64 × 64 pixels.",
        run=run,
        summary=summary,
        figure=figure,
        grid=images.grid(images.SIZES, images.TESTS, images.EPOCHS),
        quick=images.grid((60,), 30, dict.fromkeys(images.EPOCHS, 4)),
        runs=images.RUNS,
        first_seed=images.FIRST_SEED,
        seconds=600,
        quick_runs=1,
        notes=images.NOTES + " The sprite is a heart drawn by our code, not one of dSprites.",
    )
]

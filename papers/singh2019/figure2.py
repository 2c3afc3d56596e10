"""Figure 2: the sigmoid design."""

from __future__ import annotations

from ..reproduce import Experiment
from .experiments import of_trials

EXPERIMENTS = [
    Experiment(
        name="singh2019-figure2",
        item="Figure 2",
        title="Error of the six algorithms on the sigmoid design.",
        seconds=50,
        **of_trials(["sigmoid"]),
    )
]

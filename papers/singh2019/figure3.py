"""Figure 3: the demand design, for every degree of confounding."""

from __future__ import annotations

from ..reproduce import Experiment
from .experiments import of_trials

EXPERIMENTS = [
    Experiment(
        name="singh2019-figure3",
        item="Figure 3",
        title="Error of the six algorithms on the demand design.",
        seconds=600,
        **of_trials(["demand"]),
    )
]

"""Figure 10: the linear and the sigmoid design (whose trials are those of Figure 2)."""

from __future__ import annotations

from ..reproduce import Experiment
from .experiments import of_trials

EXPERIMENTS = [
    Experiment(
        name="singh2019-figure10",
        item="Figure 10",
        title="Error of the six algorithms on the linear and sigmoid designs.",
        seconds=100,
        **of_trials(["linear", "sigmoid"]),
    )
]

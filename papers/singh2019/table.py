"""All trials in one table, and the fast and the slow algorithms by themselves."""

from __future__ import annotations

from ..reproduce import Experiment
from . import trials
from .comparators import FAST, SLOW
from .experiments import of_trials

EXPERIMENTS = [
    Experiment(
        name="singh2019-table",
        item="Figures 2, 3 and 10",
        title="Error of the six algorithms on the three designs.",
        seconds=700,
        **of_trials(list(trials.DESIGNS)),
    ),
    Experiment(
        name="singh2019-fast",
        item="Figures 2, 3 and 10",
        title="The part of the trials that takes seconds: split kernels and sieves.",
        seconds=55,
        **of_trials(list(trials.DESIGNS), FAST),
    ),
    Experiment(
        name="singh2019-slow",
        item="Figures 2, 3 and 10",
        title="The part of the trials that takes long: smoothing, networks, leave-one-out.",
        seconds=640,
        **of_trials(list(trials.DESIGNS), SLOW)
        | {"quick": trials.settings(["sigmoid"], (1000,), SLOW)},
    ),
]

"""What the experiments made of the trials have in common."""

from __future__ import annotations

from collections.abc import Sequence

from . import boxes, trials
from .comparators import FAST, METHODS

NOTES = (
    "Means, standard deviations and quartiles are of log10 MSE over trials. SmoothIV runs at 1,000 "
    "only, as in the paper, and DeepIV where PyTorch is installed. KernelIV (loo) and SmoothIV "
    "(lines) are not in the paper."
)


def of_trials(designs: Sequence[str], methods: Sequence[str] = tuple(METHODS)) -> dict:
    """Arguments of `Experiment`; a quick run takes the fast methods on small samples."""
    return {
        "paper": trials.PAPER,
        "run": trials.run,
        "summary": trials.summary,
        "figure": boxes.figure,
        "grid": trials.settings(designs, methods=methods),
        "quick": trials.settings(designs, (1000,), FAST, (0.5,)),
        "runs": trials.RUNS,
        "first_seed": trials.FIRST_SEED,
        "version": 2,
        "notes": NOTES,
    }

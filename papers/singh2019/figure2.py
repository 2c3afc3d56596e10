"""Figure 2: the sigmoid design."""

from __future__ import annotations

from kernelmean.app.reproduce import Experiment

from . import trials

EXPERIMENTS = [
    Experiment(
        name="singh2019-figure2",
        paper=trials.PAPER,
        item="Figure 2",
        title="Error of KernelIV and KernelReg on the sigmoid design.",
        run=trials.run,
        summary=trials.summary,
        figure=trials.figure,
        grid=trials.settings(["sigmoid"]),
        quick=trials.settings(["sigmoid"], (1000,)),
        runs=trials.RUNS,
        first_seed=trials.FIRST_SEED,
        seconds=0.35,
        notes="Means, standard deviations and quartiles are of log10 MSE over trials.",
    )
]

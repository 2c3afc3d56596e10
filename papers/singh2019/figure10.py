"""Figure 10: the linear and the sigmoid design (whose trials are those of Figure 2)."""

from __future__ import annotations

from kernelmean.app.reproduce import Experiment

from . import trials

EXPERIMENTS = [
    Experiment(
        name="singh2019-figure10",
        paper=trials.PAPER,
        item="Figure 10",
        title="Error of KernelIV and KernelReg on the linear and sigmoid designs.",
        run=trials.run,
        summary=trials.summary,
        figure=trials.figure,
        grid=trials.settings(["linear", "sigmoid"]),
        quick=trials.settings(["linear", "sigmoid"], (1000,)),
        runs=trials.RUNS,
        first_seed=trials.FIRST_SEED,
        seconds=0.7,
        notes="Means, standard deviations and quartiles are of log10 MSE over trials.",
    )
]

"""Search for a filter's settings, by tracking rows held out."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..core import checks
from ..core.progress import Verbose, in_processes
from ..densities.standard import clearly
from ..features.choose import learns_from_pairs
from ..features.landmarks import Nystroem
from ..kernels import Kernel
from .fit import Plan, observed_kernel, state_kernel
from .held_out import Split, splits, warn_if_as_near
from .inputs import record
from .machine import Machine

SCALES = (0.5, 2.0), (0.71, 1.41)  # factors of a lengthscale in the first round, in the second,
REGS = (0.1, 10.0), (0.32, 3.2)  # and of λ
# until the rest is chosen, where nothing else is given
MEANWHILE = {"reg_smoother": 0.1, "features": Nystroem(tol=1e-4, max_rank=300)}
PARTS = "errors"  # of a candidate, each part's own


def tune(model, X, Z, lengths, validation, objective: str, n_jobs, verbose: Verbose) -> Any:
    """A filter like `model` with the best settings; see `KernelBayesFilter.tune`."""
    points_x, points_z, sequences = record(X, Z, lengths)
    parts = splits(points_x, points_z, sequences, validation)
    kernel_x = observed_kernel(model.kernel_x, points_x, points_z, checks.column_names(X))
    kernel_z = state_kernel(model.kernel_z, points_z, checks.column_names(Z))
    checks.check_choice(objective, "objective", ("filter", "smooth"))
    params = model.get_params(deep=False)
    if model.inference != "kbr" and Plan(**params).compares(points_x, points_z):
        plain = clone(model).fit(X, Z, lengths)
        if not isinstance(plain.machine_, Machine):  # densities have nothing to tune
            plain.tuning_ = []
            return plain
    filled = {name: value for name, value in MEANWHILE.items() if params[name] is None}
    known = {"kernel_x": kernel_x, "kernel_z": kernel_z, "inference": "kbr"}
    plan = Plan(**params | filled | known)
    search = _Search(plan, {"x": kernel_x, "z": kernel_z}, parts, objective, n_jobs)
    with checks.hushed():
        machine: Any = plan.learned(points_x, points_z, sequences)
    tried, best, begun = search.found(machine.rule.reg, verbose)
    rivals = [{name: part.error(m) for name, m in part.simple().items()} for part in parts]
    held = {"tuned": best["error"], "untuned": begun["error"]}
    held |= {name: float(np.mean([each[name] for each in rivals])) for name in rivals[0]}
    settings = search.kernels_at(best) | {"inference": "kbr", "reg": best["reg"]}
    chosen = clone(model).set_params(**settings)._learned(X, Z, lengths, judged=False)
    chosen.reg_smoother = chosen.reg_smoother_
    warn_if_as_near(held)
    chosen.tuning_, chosen.held_out_ = tried, held
    return chosen


@dataclass(frozen=True)
class _Search:
    """Errors of tracking the parts held out, by scales of the kernels and regulariser."""

    plan: Plan
    kernels: dict[str, Kernel]
    parts: list[Split]
    objective: str
    n_jobs: int | None

    def found(self, reg: float, verbose: Verbose) -> tuple[list[dict], dict, dict]:
        """All candidates tried, the best, and what all began with, at the λ given.

        One lengthscale after the other and λ go to where the error is least: by large steps, and
        then by small ones.
        """
        tried = [self.candidate({"scale_x": 1.0, "scale_z": 1.0, "reg": reg})]
        best = begun = tried[0]
        for k in range(2):
            for name in ("scale_x", "scale_z", "reg"):
                tasks = [(best | {name: best[name] * f},) for f in self._factors(name, k)]
                title = f"tuning, round {k + 1} of 2"
                tried += in_processes(self.candidate, tasks, self.n_jobs, title, verbose)
                best = min(tried, key=lambda row: row["error"])
        gain = np.subtract(begun[PARTS], best[PARTS])
        best = best if len(gain) < 2 or clearly(gain) else begun
        return [{k: v for k, v in row.items() if k != PARTS} for row in tried], best, begun

    def _factors(self, name: str, k: int) -> tuple[float, ...]:
        """Of a setting in round k; none where nothing can change, or it is given."""
        if name == "reg":
            power = 1 if self.plan.rule == "importance" else 2
            return () if self.plan.reg is not None else tuple(f**power for f in REGS[k])
        kernel = self.kernels[name[-1]]
        unused = name == "scale_x" and learns_from_pairs(self.plan.features)
        return () if unused or kernel.scaled(2.0) == kernel else SCALES[k]

    def candidate(self, settings: dict) -> dict:
        """These settings with their error."""
        known: dict[str, Any] = self.kernels_at(settings)
        plan = replace(self.plan, reg=settings["reg"], **known)
        errors = [part.error(part.means_by(plan, self.objective)) for part in self.parts]
        return settings | {"error": float(np.mean(errors)), PARTS: errors}

    def kernels_at(self, settings: dict) -> dict[str, Kernel]:
        """Those of the settings."""
        return {f"kernel_{c}": self.kernels[c].scaled(settings[f"scale_{c}"]) for c in "xz"}

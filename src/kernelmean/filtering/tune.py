"""Search for a filter's settings, by tracking rows held out."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..core import checks
from ..core.progress import Verbose, in_processes
from ..core.threads import one_thread
from ..densities.standard import clearly
from ..features.choose import learns_from_pairs
from ..features.landmarks import Nystroem
from ..kernels import Kernel
from .fit import Dynamics, Plan, best_smoother, observed_kernel, state_kernel
from .held_out import Split, splits, warn_if_as_near
from .inputs import record
from .machine import Machine

SCALES = (0.5, 1.0, 2.0)  # factors of the lengthscales in the first round,
FINE = (0.71, 1.0, 1.41)  # and around the best of them in the second
THINNED = 2  # of so many parts one is tracked in the first round,
REGS = (-3.5, -2.5, -1.5)  # log10 λ of the update (δ = λ²) in the first round,
FINE_REGS = (-0.5, 0.0, 0.5)  # and what is added to it in the second
# until the rest is chosen, where nothing else is given
MEANWHILE = {"reg_smoother": 0.1, "features": Nystroem(tol=1e-4, max_rank=300)}
OBJECTIVES = ("filter", "smooth")
PARTS = "errors"  # of a candidate, each part's own


def tune(model, X, Z, lengths, validation, objective: str, n_jobs, verbose: Verbose) -> Any:
    """A filter like `model` with the best settings: a coarse round over the grid, then a fine one.

    See `KernelBayesFilter.tune`.
    """
    points_x, points_z, sequences = record(X, Z, lengths)
    parts = splits(points_x, points_z, sequences, validation)
    kernel_x = observed_kernel(model.kernel_x, points_x, points_z, checks.column_names(X))
    kernel_z = state_kernel(model.kernel_z, points_z, checks.column_names(Z))
    checks.check_choice(objective, "objective", OBJECTIVES)
    params = model.get_params(deep=False)
    if model.inference is None and Plan(**params).compares(points_x, points_z):
        plain = clone(model).fit(X, Z, lengths)
        if not isinstance(plain.machine_, Machine):  # densities have nothing to tune
            plain.tuning_ = []
            return plain
    filled = {name: value for name, value in MEANWHILE.items() if params[name] is None}
    search = _Search(Plan(**params | filled), kernel_x, kernel_z, parts, objective, n_jobs)
    untuned = {"kernel_x": kernel_x, "kernel_z": kernel_z, "inference": "kbr", "reg_smoother": 0.1}
    with checks.hushed():
        machine: Any = Plan(**params | untuned).learned(points_x, points_z, sequences)
    tried, best, begun = search.coarse_to_fine(machine.rule.reg, verbose)
    mean = float(np.mean([part.error(part.mean) for part in parts]))
    held = {"tuned": best["error"], "untuned": begun["error"], "mean": mean}
    if model.inference == "auto" and search.plan.compares(points_x, points_z):
        held["densities"] = search.by_densities()
    if held.get("densities", np.inf) < held["tuned"]:
        chosen = clone(model).set_params(inference="densities").fit(X, Z, lengths)
    else:
        settings = {
            "kernel_x": kernel_x.scaled(best["scale_x"]),
            "kernel_z": kernel_z.scaled(best["scale_z"]),
            "reg": best["reg"],
        }
        if model.reg_smoother is None:
            settings["reg_smoother"] = search.best_smoother(best)
        chosen = clone(model).set_params(inference="kbr", **settings).fit(X, Z, lengths)
    warn_if_as_near(held)
    chosen.tuning_, chosen.held_out_ = tried, held
    return chosen


@dataclass(frozen=True)
class _Search:
    """Errors of tracking the parts held out, by scales of the kernels and regulariser."""

    plan: Plan
    kernel_x: Kernel
    kernel_z: Kernel
    parts: list[Split]
    objective: str
    n_jobs: int | None
    drafts: dict = field(default_factory=dict)

    def coarse_to_fine(self, reg: float, verbose: Verbose) -> tuple[list[dict], dict, dict]:
        """All candidates tried, the best, and what all began with, at the λ given.

        First the grid, tracking the beginnings of every other of the parts; then around the best
        of it λ, and one lengthscale after the other, tracking all.
        """
        short = [part.begun() for part in self.parts[::THINNED]]
        few = replace(self, parts=short, drafts={})
        regs = self._regs(1.0, REGS)
        x = [(scale, regs) for scale in self._steps(self.kernel_x, SCALES)]
        grid = [(scale, x) for scale in self._steps(self.kernel_z, SCALES)]
        coarse = few.tried(grid, "tuning, round 1 of 2", verbose)
        best = min(coarse, key=lambda row: row["error"])
        around = self._regs(best["reg"], FINE_REGS)
        begun = self.candidates(1.0, [(1.0, [reg])])
        fine = begun + self.candidates(best["scale_z"], [(best["scale_x"], around)])
        for name, kernel in (("scale_x", self.kernel_x), ("scale_z", self.kernel_z)):
            best = min(fine, key=lambda row: row["error"])
            others = [best | {name: best[name] * f} for f in self._steps(kernel, FINE) if f != 1.0]
            beside = [(row["scale_z"], [(row["scale_x"], [row["reg"]])]) for row in others]
            fine += self.tried(beside, "tuning, round 2 of 2", verbose)
        best = min(fine, key=lambda row: row["error"])
        gain = np.subtract(begun[0][PARTS], best[PARTS])
        best = best if len(gain) < 2 or clearly(gain) else begun[0]
        for row in coarse + fine:
            row.pop(PARTS, None)
        return coarse + fine, best, begun[0]

    def tried(self, grid: list[tuple], title: str, verbose: Verbose) -> list[dict]:
        """Candidates at scales of the states' kernel, each with its own of the other and λ."""
        found = in_processes(self.candidates, grid, self.n_jobs, title, verbose)
        return [row for rows in found for row in rows]

    def _steps(self, kernel: Kernel, factors: tuple[float, ...]) -> tuple[float, ...]:
        """The factors, or one alone where there is no lengthscale for them to change."""
        unused = kernel is self.kernel_x and learns_from_pairs(self.plan.features)
        return (1.0,) if unused or kernel.scaled(2.0) == kernel else factors

    def _regs(self, best: float, powers: tuple[float, ...]) -> list[float]:
        if self.plan.reg is not None:
            return [self.plan.reg]
        power = 1 if self.plan.rule == "importance" else 2
        return [best * 10.0 ** (power * u) for u in powers]

    def candidates(self, scale_z: float, grid: list[tuple[float, list[float]]]) -> list[dict]:
        """The errors at a scale of the states' kernel, scales of the other, and regularisers."""
        rows = []
        with one_thread(), checks.hushed():  # troubles are seen in the error
            for scale_x, regs in grid:
                scales = {"scale_x": scale_x, "scale_z": scale_z}
                made = self._machines(scale_x, scale_z, regs[0])
                for reg in regs:
                    parts = [p.error(p.means(m.updating(reg), self.objective)) for m, p in made]
                    told = {"reg": reg, "error": float(np.mean(parts)), PARTS: parts}
                    rows.append(scales | told)
        return rows

    def by_densities(self) -> float:
        """Their error."""
        kernels: dict[str, Any] = {"kernel_x": self.kernel_x, "kernel_z": self.kernel_z}
        plan = replace(self.plan, inference="densities", **kernels)
        errors = [part.error(part.means_by(plan, self.objective)) for part in self.parts]
        return float(np.mean(errors))

    def best_smoother(self, best: dict) -> float:
        """The backward pass's regulariser, at the settings found for the filter."""
        with one_thread(), checks.hushed():
            made = self._machines(best["scale_x"], best["scale_z"], best["reg"])[::THINNED]
            return best_smoother([(m, p.held.X, p.held.slices, p.error) for m, p in made])

    def _machines(self, scale_x: float, scale_z: float, reg: float) -> list[tuple]:
        """Filters learned from the rest of the record, each with the part that it is to track."""
        plan = replace(self.plan, kernel_x=self.kernel_x.scaled(scale_x), reg=reg)
        pairs = zip(self._drafts(scale_z), self.parts, strict=True)
        return [(plan.finish(d, p.learn.X, p.learn.slices, None), p) for d, p in pairs]

    def _drafts(self, scale_z: float) -> list[Dynamics]:
        """Dynamics of all parts; η and λ' are chosen on the first, most of which is in all."""
        if scale_z not in self.drafts:
            plan, drafts = replace(self.plan, kernel_z=self.kernel_z.scaled(scale_z)), []
            for part in self.parts:
                drafts.append(Dynamics(plan, part.learn.Z, part.learn.slices, None))
                regs = drafts[0].reg_prior, drafts[0].reg_transition
                plan = replace(plan, reg_prior=regs[0], reg_transition=regs[1])
            self.drafts[scale_z] = drafts
        return self.drafts[scale_z]

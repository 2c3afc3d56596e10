"""Search for a filter's settings, by tracking rows held out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ..core import arrays, checks
from ..core.checks import Array
from ..core.progress import Verbose, track
from ..core.sequences import check_sequences
from ..core.threads import one_thread
from ..densities.standard import clearly
from ..features.choose import learns_from_pairs
from ..features.landmarks import Nystroem
from ..kernels import Kernel
from .fit import (
    Dynamics,
    Plan,
    best_smoother,
    observed_kernel,
    state_kernel,
    tracking_error,
)
from .machine import Recursion

SCALES = (0.5, 1.0, 2.0)  # factors of the lengthscales in the first round,
FINE = (0.71, 1.0, 1.41)  # and around the best of them in the second
THINNED = 2  # of so many parts one is tracked in the first round,
ENOUGH = 50  # and of a stretch so many rows, or half of it
REGS = (-3.5, -2.5, -1.5)  # log10 λ of the update (δ = λ²) in the first round,
FINE_REGS = (-0.5, 0.0, 0.5)  # and what is added to it in the second
# until the rest is chosen, where nothing else is given
MEANWHILE = {"reg_smoother": 0.1, "features": Nystroem(tol=1e-4, max_rank=300)}
OBJECTIVES = ("filter", "smooth")
FOLDS, FEWEST = 5, 50  # stretches by which a way of inference is chosen, of sequences so long
WIDE = 100  # columns observed, beyond which densities take too long
NO_NEARER = 0.98  # share of the error of the mean, above which what is observed tells nothing
PARTS = "errors"  # of a candidate, each part's own
TRACKED = 1_000  # rows at most that a candidate has to track


@dataclass(frozen=True)
class Stretches:
    """Some stretches of the sequences, below each other."""

    X: Array
    Z: Array
    lengths: list[int]

    @classmethod
    def of(cls, X, Z, stretches: list[tuple[int, int]]) -> Stretches:
        """Of the stretches that are not empty."""
        parts = [np.arange(*ends) for ends in stretches if ends[0] < ends[1]]
        rows = np.concatenate([np.arange(0), *parts])
        X, Z = (arrays.take(A, rows, axis=0) for A in (X, Z))
        return cls(X, Z, [len(part) for part in parts])

    @property
    def slices(self) -> list[slice]:
        """The rows of each."""
        return check_sequences(self.lengths, self.X.shape[0])

    def begun(self) -> Stretches:
        """The beginnings, long enough for a first look."""
        some = [max(n // 2, min(n, ENOUGH)) for n in self.lengths]
        ends = [(s.start, s.start + n) for s, n in zip(self.slices, some, strict=True)]
        return Stretches.of(self.X, self.Z, ends)


@dataclass(frozen=True)
class Split:
    """Rows to learn from, and stretches to track."""

    learn: Stretches
    held: Stretches

    @classmethod
    def of(cls, X, Z, sequences: list[slice], held: list[tuple[int, int]]) -> Split:
        """`held` are the stretches, one in each sequence."""
        pairs = zip(sequences, held, strict=True)
        kept = [ends for s, (a, b) in pairs for ends in ((s.start, a), (b, s.stop))]
        return cls(Stretches.of(X, Z, kept), Stretches.of(X, Z, held))

    def error(self, means) -> float:
        """Mean squared error of these means of the stretches, in units of the states' variances."""
        return tracking_error(means, arrays.to_numpy(self.held.Z), arrays.to_numpy(self.learn.Z))

    def error_by(self, machine: Recursion, objective: str) -> float:
        """That of the stretches, filtered or smoothed."""
        steps = machine.track(self.held.X, self.held.slices)
        if objective == "smooth":
            steps = machine.backward(steps, self.held.slices)
        return self.error([arrays.to_numpy(step.mean) for step in steps])


def splits(X, Z, sequences: list[slice], validation) -> list[Split]:
    """The tail of every sequence held out, or each of several stretches in turn."""
    count = len(sequences)
    if isinstance(validation, int | np.integer) and not isinstance(validation, bool):
        folds = checks.check_count(validation, "validation", minimum=2)
        longest = max(1, TRACKED // (folds * count))
        held = [[_fold(s, k, folds, longest) for s in sequences] for k in range(folds)]
    else:
        share = checks.check_level(validation, "validation")
        held = [[_tail(s, share, max(1, TRACKED // count)) for s in sequences]]
    made = [Split.of(X, Z, sequences, h) for h in held]
    if any(not s.held.lengths or max(s.learn.lengths) < 2 for s in made):
        raise ValueError(
            f"validation is {validation}, which leaves nothing to learn from or nothing to track; "
            f"the sequences have {[s.stop - s.start for s in sequences]} rows"
        )
    return made


def _fold(s: slice, k: int, folds: int, longest: int) -> tuple[int, int]:
    """Fold k of a sequence, or as much of its beginning as is to be tracked."""
    n = s.stop - s.start
    start, stop = s.start + k * n // folds, s.start + (k + 1) * n // folds
    return start, min(stop, start + longest)


def _tail(s: slice, share: float, longest: int) -> tuple[int, int]:
    return s.stop - min(int(share * (s.stop - s.start)), longest), s.stop


def tune(model, X, Z, lengths, validation, objective: str, n_jobs, verbose: Verbose) -> Any:
    """A filter like `model` with the best settings: a coarse round over the grid, then a fine one.

    See `KernelBayesFilter.tune`.
    """
    points_x = checks.as_points(X, "X", min_rows=2, one_d=False)
    points_z = checks.as_points(Z, "Z")
    checks.check_lengths(points_x.shape[0], points_z.shape[0], "X", "Z")
    sequences = check_sequences(lengths, points_x.shape[0])
    parts = splits(points_x, points_z, sequences, validation)
    kernel_x = observed_kernel(model.kernel_x, points_x, points_z, checks.column_names(X))
    kernel_z = state_kernel(model.kernel_z, points_z, checks.column_names(Z))
    checks.check_choice(objective, "objective", OBJECTIVES)
    params = model.get_params(deep=False)
    filled = {name: value for name, value in MEANWHILE.items() if params[name] is None}
    search = _Search(Plan(**params | filled), kernel_x, kernel_z, parts, objective, n_jobs)
    with checks.hushed():
        chosen = clone(model).set_params(inference="kbr").fit(X, Z, lengths)
    tried, best, begun = search.coarse_to_fine(chosen.reg_, verbose)
    held = {"tuned": best["error"], "untuned": begun["error"], "mean": error_of_mean(parts)}
    if model.inference == "auto":
        held |= search.by_densities()
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
        chosen.set_params(**settings).fit(X, Z, lengths)
    warn_if_as_near(held)
    chosen.tuning_, chosen.held_out_ = tried, held
    return chosen


def by_either_inference(plan: Plan, X, Z, sequences: list[slice], names) -> dict[str, float]:
    """Errors of "kbr", "densities" and the mean on stretches held out; of none in short records."""
    if min(s.stop - s.start for s in sequences) < FEWEST:
        return {}
    parts = splits(X, Z, sequences, FOLDS)[::THINNED]
    kernels = (
        observed_kernel(plan.kernel_x, X, Z, names[0]),
        state_kernel(plan.kernel_z, Z, names[1]),
    )
    search = _Search(plan, *kernels, parts, "filter", None)
    held = {"kbr": search.as_planned("kbr"), **search.by_densities(), "mean": error_of_mean(parts)}
    warn_if_as_near(held)
    return held


def error_of_mean(parts: list[Split]) -> float:
    """That of the mean of the states, whatever is observed."""
    means = (np.zeros(p.held.Z.shape) + arrays.to_numpy(p.learn.Z).mean(axis=0) for p in parts)
    return float(np.mean([p.error(m) for p, m in zip(parts, means, strict=True)]))


def warn_if_as_near(held: dict[str, float]) -> None:
    """Tell of a filter that is out of its depth."""
    own = min(error for name, error in held.items() if name != "mean")
    if own > NO_NEARER * held["mean"]:
        checks.warn_numerical(
            f"on rows held out the filter is off by {own:.2g} of the states' variance, and their "
            f"mean, whatever is observed, by {held['mean']:.2g}: it cannot follow these states"
        )


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
        short = [replace(part, held=part.held.begun()) for part in self.parts[::THINNED]]
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
        jobs = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(self.candidates)(*point) for point in grid
        )
        found = track(jobs, total=len(grid), description=title, verbose=verbose)
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
                    parts = [p.error_by(m.updating(reg), self.objective) for m, p in made]
                    rows.append(
                        {**scales, "reg": reg, "error": float(np.mean(parts)), PARTS: parts}
                    )
        return rows

    def by_densities(self) -> dict[str, float]:
        """Their error, where they can be learned in reasonable time."""
        if self.parts[0].learn.X.shape[1] > WIDE:
            return {}
        try:
            return {"densities": self.as_planned("densities")}
        except ValueError:  # a column is constant in a part, or arrays are not NumPy's
            return {}

    def as_planned(self, inference: str) -> float:
        """The error of filters that choose all of their settings on the rest of the record."""
        plan = replace(self.plan, kernel_x=self.kernel_x, kernel_z=self.kernel_z)
        plan, errors = replace(plan, inference=inference), []
        with one_thread(), checks.hushed():
            for part in self.parts:
                machine = plan.learned(part.learn.X, part.learn.Z, part.learn.slices)
                errors.append(part.error_by(machine, self.objective))
        return float(np.mean(errors))

    def best_smoother(self, best: dict) -> float:
        """The backward pass's regulariser, at the settings found for the filter."""
        with one_thread(), checks.hushed():
            made = self._machines(best["scale_x"], best["scale_z"], best["reg"])[::THINNED]
            return best_smoother([(m, p.held.X, p.held.slices, p.error) for m, p in made])

    def _machines(self, scale_x: float, scale_z: float, reg: float) -> list[tuple]:
        """Filters learned from the rest of the record, each with the part that it is to track."""
        plan = replace(self.plan, kernel_x=self.kernel_x.scaled(scale_x), reg=reg)
        drafts = self._drafts(scale_z)
        return [
            (plan.finish(draft, part.learn.X, part.learn.slices, None), part)
            for draft, part in zip(drafts, self.parts, strict=True)
        ]

    def _drafts(self, scale_z: float) -> list[Dynamics]:
        """Dynamics of all parts; η and λ' are chosen on the first, most of which is in all."""
        if scale_z not in self.drafts:
            plan, drafts = replace(self.plan, kernel_z=self.kernel_z.scaled(scale_z)), []
            for part in self.parts:
                drafts.append(plan.draft(part.learn.Z, part.learn.slices, None))
                regs = drafts[0].reg_prior, drafts[0].reg_transition
                plan = replace(plan, reg_prior=regs[0], reg_transition=regs[1])
            self.drafts[scale_z] = drafts
        return self.drafts[scale_z]

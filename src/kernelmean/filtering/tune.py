"""Search for a filter's settings, by tracking rows held out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ..core import arrays
from ..core.checks import (
    Array,
    NumericalWarning,
    as_points,
    check_choice,
    check_count,
    check_lengths,
    check_level,
    column_names,
)
from ..core.progress import Verbose, track
from ..core.sequences import check_sequences
from ..core.threads import one_thread
from ..features.choose import learns_from_pairs
from ..features.landmarks import Nystroem
from ..kernels import Kernel, fitted_kernel
from .settings import SMOOTHERS, spreads, state_kernel

SCALES = (0.5, 1.0, 2.0)  # factors of the lengthscales in the first round,
FINE = (0.71, 1.0, 1.41)  # and around the best of them in the second
THINNED = 3  # of so many parts one is tracked in the first round
REGS = (-3.5, -2.5, -1.5)  # log10 λ of the update (δ = λ²) in the first round,
FINE_REGS = (-0.5, 0.0, 0.5)  # and what is added to it in the second
SMOOTHING = 0.1  # λ of the backward pass until the rest is chosen
OBJECTIVES = ("filter", "smooth")
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

    def error(self, track) -> float:
        """Mean squared error of tracking the stretches, in units of the states' variances."""
        found = track(self.held.X, self.held.lengths).mean()
        size, varies = spreads(arrays.to_numpy(self.learn.Z))
        off = arrays.to_numpy(found) - arrays.to_numpy(self.held.Z)
        error = float(np.mean((off[:, varies] / size[varies]) ** 2)) if varies.any() else 0.0
        return error if np.isfinite(error) else np.inf


def splits(X, Z, sequences: list[slice], validation) -> list[Split]:
    """The tail of every sequence held out, or each of several stretches in turn."""
    count = len(sequences)
    if isinstance(validation, int | np.integer) and not isinstance(validation, bool):
        folds = check_count(validation, "validation", minimum=2)
        longest = max(1, TRACKED // (folds * count))
        held = [[_fold(s, k, folds, longest) for s in sequences] for k in range(folds)]
    else:
        share = check_level(validation, "validation")
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

    See `KernelBayesFilter.tune`. Of the model it needs the parameters of that class, `fit`,
    `with_reg`, and the verb that is the objective.
    """
    points_x = as_points(X, "X", min_rows=2, one_d=False)
    points_z = as_points(Z, "Z")
    check_lengths(points_x.shape[0], points_z.shape[0], "X", "Z")
    parts = splits(points_x, points_z, check_sequences(lengths, points_x.shape[0]), validation)
    kernel_x = fitted_kernel(model.kernel_x, points_x, names=column_names(X), name="kernel_x")
    kernel_z = state_kernel(model.kernel_z, points_z, column_names(Z))
    check_choice(objective, "objective", OBJECTIVES)
    search = _Search(model, kernel_x, kernel_z, parts, objective, n_jobs)
    tried, best = search.coarse_to_fine(verbose)
    settings = {
        "kernel_x": kernel_x.scaled(best["scale_x"]),
        "kernel_z": kernel_z.scaled(best["scale_z"]),
        "reg": best["reg"],
    }
    if model.reg_smoother is None:
        settings["reg_smoother"] = search.best_smoother(best)
    chosen = clone(model).set_params(**settings).fit(X, Z, lengths)
    chosen.tuning_ = tried
    return chosen


@dataclass(frozen=True)
class _Search:
    """Errors of tracking the parts held out, by scales of the kernels and regulariser."""

    model: Any
    kernel_x: Kernel
    kernel_z: Kernel
    parts: list[Split]
    objective: str
    n_jobs: int | None

    def coarse_to_fine(self, verbose: Verbose) -> tuple[list[dict], dict]:
        """All candidates tried, and the best.

        First the grid, tracking every third of the parts; then around the best of it λ, and one
        lengthscale after the other, tracking all.
        """
        few = replace(self, parts=self.parts[::THINNED])
        scales = product(self._steps(self.kernel_x, SCALES), self._steps(self.kernel_z, SCALES))
        grid = [(*pair, self._regs(1.0, REGS)) for pair in scales]
        coarse = few.tried(grid, "tuning, round 1 of 2", verbose)
        best = min(coarse, key=lambda row: row["error"])
        fine = self.candidates(best["scale_x"], best["scale_z"], self._regs(best["reg"], FINE_REGS))
        for name, kernel in (("scale_x", self.kernel_x), ("scale_z", self.kernel_z)):
            best = min(fine, key=lambda row: row["error"])
            others = [best | {name: best[name] * f} for f in self._steps(kernel, FINE) if f != 1.0]
            beside = [(row["scale_x"], row["scale_z"], [row["reg"]]) for row in others]
            fine += self.tried(beside, "tuning, round 2 of 2", verbose)
        return coarse + fine, min(fine, key=lambda row: row["error"])

    def tried(self, grid: list[tuple], title: str, verbose: Verbose) -> list[dict]:
        """Candidates at pairs of scales, each with its regularisers."""
        jobs = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(self.candidates)(*point) for point in grid
        )
        found = track(jobs, total=len(grid), description=title, verbose=verbose)
        return [row for rows in found for row in rows]

    def _steps(self, kernel: Kernel, factors: tuple[float, ...]) -> tuple[float, ...]:
        """The factors, or one alone where there is no lengthscale for them to change."""
        unused = kernel is self.kernel_x and learns_from_pairs(self.model.features)
        return (1.0,) if unused or kernel.scaled(2.0) == kernel else factors

    def candidates(self, scale_x: float, scale_z: float, regs: list[float]) -> list[dict]:
        """The error of every regulariser at a pair of scales."""
        errors = self._errors(scale_x, scale_z, self.objective, [(reg, None) for reg in regs])
        both = {"scale_x": scale_x, "scale_z": scale_z}
        return [{**both, "reg": r, "error": e} for r, e in zip(regs, errors, strict=True)]

    def best_smoother(self, best: dict) -> float:
        """The backward pass's regulariser, at the settings found for the filter."""
        pairs = [(best["reg"], reg) for reg in SMOOTHERS]
        few = replace(self, parts=self.parts[::THINNED])
        errors = few._errors(best["scale_x"], best["scale_z"], "smooth", pairs)
        return SMOOTHERS[int(np.argmin(errors))]

    def _errors(self, scale_x: float, scale_z: float, verb: str, regs: list[tuple]) -> list[float]:
        """Of pairs of regularisers, of the update and the backward pass."""
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)  # troubles are seen in the error
            fitted = [(self._fit(p.learn, scale_x, scale_z, regs[0][0]), p) for p in self.parts]
            return [
                float(np.mean([p.error(getattr(m.with_reg(*pair), verb)) for m, p in fitted]))
                for pair in regs
            ]

    def _fit(self, rows: Stretches, scale_x: float, scale_z: float, reg: float) -> Any:
        features = self.model.features
        candidate = clone(self.model).set_params(
            kernel_x=self.kernel_x.scaled(scale_x),
            kernel_z=self.kernel_z.scaled(scale_z),
            features=Nystroem(tol=1e-4, max_rank=300) if features is None else features,
            reg=reg,
            reg_smoother=SMOOTHING if self.model.reg_smoother is None else self.model.reg_smoother,
        )
        return candidate.fit(rows.X, rows.Z, rows.lengths)

    def _regs(self, best: float, powers: tuple[float, ...]) -> list[float]:
        if self.model.reg is not None:
            return [self.model.reg]
        power = 1 if self.model.rule == "importance" else 2
        return [best * 10.0 ** (power * u) for u in powers]

"""Settings of the kernel Bayes filter: leave-one-out criteria at fit, and search by tracking."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
    check_positive,
    column_names,
)
from ..core.progress import Verbose, track
from ..core.threads import one_thread
from ..features.choose import learns_from_pairs
from ..features.landmarks import Nystroem
from ..kernels import Kernel, fitted_kernel
from .settings import state_kernel

if TYPE_CHECKING:
    from .kernel_bayes_filter import KernelBayesFilter

SCALES = (0.5, 1.0, 2.0)  # factors of the lengthscales in the first round,
FINE = (0.71, 1.0, 1.41)  # and around the best of them in the second
REGS = (-3.5, -2.5, -1.5)  # log10 λ of the update (δ = λ²) in the first round,
FINE_REGS = (-0.5, 0.0, 0.5)  # and what is added to it in the second
SMOOTHERS = (0.03, 0.1, 0.3, 1.0, 3.0)  # λ of the backward pass
OBJECTIVES = ("filter", "smooth")
TRACKED = 1_000  # rows at most that a candidate has to track


# ---------------------------------------------------------------- search, by tracking
@dataclass(frozen=True)
class Split:
    """Rows to learn from, with the lengths of their sequences, and stretches to track."""

    X: Array
    Z: Array
    lengths: list[int]
    stretches: list[tuple[Array, Array]]

    @classmethod
    def of(cls, X, Z, sequences: list[slice], held: list[slice]) -> Split:
        """`held` are the stretches, one in each sequence that has one."""
        kept: list[np.ndarray] = []
        for s, h in zip(sequences, held, strict=True):
            kept += [np.arange(s.start, h.start), np.arange(h.stop, s.stop)]
        kept = [rows for rows in kept if len(rows)]
        rows = np.concatenate(kept)
        stretches = [(X[h, :], Z[h, :]) for h in held if h.stop > h.start]
        lengths = [len(part) for part in kept]
        return cls(arrays.take(X, rows, axis=0), arrays.take(Z, rows, axis=0), lengths, stretches)

    def error(self, track) -> float:
        """Mean squared error of tracking the stretches, in units of the states' variances."""
        xp = arrays.namespace(self.X)
        X = xp.concat([x for x, _ in self.stretches], axis=0)
        Z = np.concatenate([arrays.to_numpy(z) for _, z in self.stretches])
        found = track(X, [x.shape[0] for x, _ in self.stretches]).mean
        known = arrays.to_numpy(self.Z)
        varies = known.std(axis=0) > 1e-8 * np.abs(known).max(axis=0)  # not rounding dust
        off = (arrays.to_numpy(found) - Z)[:, varies] / known.std(axis=0)[varies]
        error = float(np.mean(off**2)) if varies.any() else 0.0
        return error if np.isfinite(error) else np.inf


def splits(X, Z, sequences: list[slice], validation) -> list[Split]:
    """The tail of every sequence held out, or each of several stretches in turn."""
    if isinstance(validation, (int, np.integer)) and not isinstance(validation, bool):
        folds = check_count(validation, "validation", minimum=2)
        longest = max(1, TRACKED // (folds * len(sequences)))
        held = [[_part(s, k, folds, longest) for s in sequences] for k in range(folds)]
    else:
        share = check_positive(validation, "validation")
        if share >= 1:
            raise ValueError(
                f"validation is {validation}; a number of folds, or a share in (0, 1), is needed"
            )
        held = [[_tail(s, share, TRACKED // len(sequences)) for s in sequences]]
    made = [Split.of(X, Z, sequences, h) for h in held]
    if any(not s.stretches or max(s.lengths) < 2 for s in made):
        raise ValueError(
            f"validation is {validation}, which leaves nothing to learn from or nothing to track; "
            f"the sequences have {[s.stop - s.start for s in sequences]} rows"
        )
    return made


def _part(s: slice, k: int, folds: int, longest: int) -> slice:
    """Fold k of a sequence, or as much of its beginning as is to be tracked."""
    n = s.stop - s.start
    start, stop = s.start + k * n // folds, s.start + (k + 1) * n // folds
    return slice(start, min(stop, start + longest))


def _tail(s: slice, share: float, longest: int) -> slice:
    return slice(s.stop - min(int(share * (s.stop - s.start)), max(1, longest)), s.stop)


def tune(
    model: KernelBayesFilter, X, Z, lengths, validation, objective, n_jobs, verbose: Verbose
) -> KernelBayesFilter:
    """See `KernelBayesFilter.tune`: a coarse round over the grid, a fine one around its best."""
    from ..core.sequences import check_sequences

    points_x = as_points(X, "X", min_rows=2, one_d=False)
    points_z = as_points(Z, "Z")
    check_lengths(points_x.shape[0], points_z.shape[0], "X", "Z")
    parts = splits(points_x, points_z, check_sequences(lengths, points_x.shape[0]), validation)
    kernel_x = fitted_kernel(model.kernel_x, points_x, names=column_names(X), name="kernel_x")
    kernel_z = state_kernel(model.kernel_z, points_z, column_names(Z))
    search = _Search(
        model, kernel_x, kernel_z, parts, check_choice(objective, "objective", OBJECTIVES), n_jobs
    )
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

    model: KernelBayesFilter
    kernel_x: Kernel
    kernel_z: Kernel
    parts: list[Split]
    objective: str
    n_jobs: int | None

    def coarse_to_fine(self, verbose: Verbose) -> tuple[list[dict], dict]:
        """All candidates tried in two rounds, and the best."""
        tried: list[dict[str, Any]] = []
        best = {"scale_x": 1.0, "scale_z": 1.0, "reg": 1.0}
        for number, (scales, regs) in enumerate(((SCALES, REGS), (FINE, FINE_REGS)), start=1):
            scales_x = [best["scale_x"] * f for f in self._steps(self.kernel_x, scales)]
            scales_z = [best["scale_z"] * f for f in self._steps(self.kernel_z, scales)]
            grid = self._regs(best["reg"], regs)
            pairs = [(a, b, grid) for a in scales_x for b in scales_z]
            jobs = Parallel(n_jobs=self.n_jobs, return_as="generator")(
                delayed(self.errors)(*pair) for pair in pairs
            )
            title = f"tuning, round {number} of 2"
            for rows in track(jobs, total=len(pairs), description=title, verbose=verbose):
                tried += rows
            best = min(tried, key=lambda row: row["error"])
        return tried, best

    def _steps(self, kernel: Kernel, factors: tuple[float, ...]) -> tuple[float, ...]:
        """The factors, or one alone where there is no lengthscale for them to change."""
        unused = kernel is self.kernel_x and learns_from_pairs(self.model.features)
        return (1.0,) if unused or kernel.scaled(2.0) == kernel else factors

    def errors(self, scale_x: float, scale_z: float, regs: list[float]) -> list[dict]:
        """The error of every regulariser at a pair of scales."""
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)  # troubles are seen in the error
            fitted = [self._fit(part, scale_x, scale_z, regs[0]) for part in self.parts]
            rows = []
            for reg in regs:
                pairs = zip(fitted, self.parts, strict=True)
                tracks = [(getattr(_with_reg(m, reg), self.objective), part) for m, part in pairs]
                error = float(np.mean([part.error(track) for track, part in tracks]))
                rows.append({"scale_x": scale_x, "scale_z": scale_z, "reg": reg, "error": error})
            return rows

    def best_smoother(self, best: dict) -> float:
        """The backward pass's regulariser, at the settings found for the filter."""
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            settings = best["scale_x"], best["scale_z"], best["reg"]
            fitted = [self._fit(part, *settings) for part in self.parts]
            errors = []
            for reg in SMOOTHERS:
                pairs = zip(fitted, self.parts, strict=True)
                smoothers = [(_with_reg(m, best["reg"], reg).smooth, part) for m, part in pairs]
                errors.append(np.mean([part.error(smooth) for smooth, part in smoothers]))
        return SMOOTHERS[int(np.argmin(errors))]

    def _fit(self, part: Split, scale_x: float, scale_z: float, reg: float) -> KernelBayesFilter:
        features = self.model.features
        candidate = clone(self.model).set_params(
            kernel_x=self.kernel_x.scaled(scale_x),
            kernel_z=self.kernel_z.scaled(scale_z),
            features=Nystroem(tol=1e-4, max_rank=300) if features is None else features,
            reg=reg,
        )
        return candidate.fit(part.X, part.Z, part.lengths)

    def _regs(self, best: float, powers: tuple[float, ...]) -> list[float]:
        if self.model.reg is not None:
            return [self.model.reg]
        power = 1 if self.model.rule == "importance" else 2
        return [best * 10.0 ** (power * u) for u in powers]


def _with_reg(
    model: KernelBayesFilter, reg: float, smoother: float | None = None
) -> KernelBayesFilter:
    """The same fit with other regularisers of the update and of the backward pass."""
    other = copy.copy(model)
    other.reg_, other._rule = reg, replace(model._rule, reg=reg)
    if smoother is not None:
        other._smoother = replace(model._smoother, reg=smoother)
    return other

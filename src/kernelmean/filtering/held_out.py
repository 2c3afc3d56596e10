"""What rows held out say of filters: how far off they are, and how far each is to be trusted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import arrays, checks
from ..core.checks import Array
from ..core.minimise import mean_and_error
from ..core.sequences import check_sequences
from ..core.threads import one_thread
from ..features.choose import learns_from_pairs
from .fit import Plan, tracking_error
from .machine import Machine, Recursion
from .nodes import NODES

ENOUGH = 50  # rows of a stretch that a first look tracks, or half of it
TRACKED = 1_000  # rows at most that a candidate has to track
JUDGED = 1_000  # and by which filters are judged, each half by what was learned from the other
FEW, FOLDS = 100, 3  # rows, up to which there are so many parts in place of halves
FEWEST = 12  # rows of the longest sequence, below which nothing can be judged
AHEAD = 2.0  # standard errors, by which kernel Bayes' rule has to be nearer than densities
PLANE = 2  # states, up to which half of the usual nodes are enough: more take narrow laws
BLOCK = 10  # rows whose errors are taken together, since neighbours share theirs
NO_NEARER = 0.98  # share of the error of the mean, above which what is observed tells nothing


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

    @property
    def mean(self) -> np.ndarray:
        """The mean of the states learned from, for every row held out."""
        learned = arrays.to_numpy(self.learn.Z).mean(axis=0)
        return np.broadcast_to(learned, tuple(self.held.Z.shape))

    def means(self, machine: Recursion, objective: str = "filter") -> np.ndarray:
        """Of the stretches, filtered or smoothed."""
        steps = machine.track(self.held.X, self.held.slices)
        if objective == "smooth":
            steps = machine.backward(steps, self.held.slices)
        return np.array([arrays.to_numpy(step.mean) for step in steps])

    def means_by(self, plan: Plan, objective: str = "filter") -> np.ndarray:
        """Those of a filter that learns from the rest of the record; NaN where none can be."""
        with one_thread(), checks.hushed():  # troubles are seen in the error
            try:
                machine = plan.learned(self.learn.X, self.learn.Z, self.learn.slices)
            except ValueError:  # a column is constant here
                return np.full(tuple(self.held.Z.shape), np.nan)
            return self.means(machine, objective)

    def begun(self) -> Split:
        """With the beginnings of the stretches, long enough for a first look."""
        some = [max(n // 2, min(n, ENOUGH)) for n in self.held.lengths]
        ends = [(s.start, s.start + n) for s, n in zip(self.held.slices, some, strict=True)]
        return replace(self, held=Stretches.of(self.held.X, self.held.Z, ends))

    def error(self, means) -> float:
        """Mean squared error of these means of the stretches, in units of the states' variances."""
        return tracking_error(means, arrays.to_numpy(self.held.Z), arrays.to_numpy(self.learn.Z))


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


def warn_if_as_near(held: dict[str, float]) -> None:
    """Tell of a filter that is out of its depth."""
    own = min((error for name, error in held.items() if name != "mean"), default=0.0)
    if held and own > NO_NEARER * held["mean"]:
        checks.warn_numerical(
            f"on rows held out the filter is off by {own:.2g} of the states' variance, and their "
            f"mean, whatever is observed, by {held['mean']:.2g}: it cannot follow these states"
        )


@dataclass(frozen=True)
class Candidate:
    """Rows of one filter's means off the mean of the states, and of the states, in its units."""

    told: np.ndarray
    truth: np.ndarray

    @classmethod
    def of(cls, plan: Plan, parts: list[Split]) -> Candidate:
        """Of a filter that learns from the rest of each part."""
        told, truth = [], []
        size = np.concatenate([arrays.to_numpy(part.held.Z) for part in parts]).std(axis=0)
        size = np.where(size > 0, size, np.inf)
        for part in parts:
            told.append((part.means_by(plan) - part.mean) / size)
            truth.append((arrays.to_numpy(part.held.Z) - part.mean) / size)
        return cls(np.concatenate(told), np.concatenate(truth))

    @property
    def off(self) -> np.ndarray:
        """Squared errors of blocks of rows."""
        rows = ((self.told - self.truth) ** 2).mean(axis=1)
        return np.add.reduceat(rows, np.arange(0, len(rows), BLOCK))

    @property
    def error(self) -> float:
        """Mean squared error of a row."""
        error = float(((self.told - self.truth) ** 2).mean())
        return error if np.isfinite(error) else np.inf

    @property
    def trust(self) -> float:
        """One where it is nearer than the mean of the states, or the share that is nearest.

        It is as near as that mean where a half is nearest.
        """
        share = float((self.told * self.truth).sum() / max(float((self.told**2).sum()), 1e-300))
        return 1.0 if share > 0.5 else max(0.0, float(np.nan_to_num(share)))


def learned(
    plan: Plan, X, Z, sequences: list[slice], names
) -> tuple[Recursion, Machine | None, dict[str, float]]:
    """The fit by the way asked for, or found; that by kernel Bayes' rule; the errors compared.

    Each part of the first rows is tracked by filters that learn from the others, with the choices
    that the rule made on all.
    """
    found: Any = plan.learned(X, Z, sequences, names)
    parts = parted(X, Z, sequences) if plan.judges else []
    if not parts or learns_from_pairs(plan.features):
        return found, None, {}
    rule, known = found, plan.settled(found)
    if plan.inference is None:  # a filter that was not asked to take its time
        known = replace(known, max_active=plan.max_active or NODES // 2)
        plan = replace(plan, max_active=known.max_active) if Z.shape[1] <= PLANE else plan
    tried = {w: Candidate.of(replace(known, inference=w), parts) for w in plan.ways(X, Z)}
    errors, best = {way: candidate.error for way, candidate in tried.items()}, tried["kbr"]
    if np.isfinite(errors.get("densities", np.inf)):
        gain, error = mean_and_error(tried["densities"].off - best.off)
        if gain <= AHEAD * error:
            best = tried["densities"]
            found = replace(plan, inference="densities").learned(X, Z, sequences, names)
    errors["mean"] = float((best.truth**2).mean())
    return replace(found, trust=best.trust), rule, errors


def parted(X, Z, sequences: list[slice]) -> list[Split]:
    """Halves of the first rows, thirds where they are few, nothing where they are fewest."""
    first = [slice(s.start, min(s.stop, JUDGED)) for s in sequences if s.start < JUDGED]
    if max(s.stop - s.start for s in first) < FEWEST:
        return []
    return splits(X, Z, first, FOLDS if Z.shape[0] <= FEW else 2)

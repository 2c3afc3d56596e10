"""What rows held out say of filters: how far off they are, and which is taken unasked."""

from dataclasses import replace
from typing import Any

import numpy as np

from ..core import arrays, checks, solves
from ..core.minimise import mean_and_error
from ..core.sequences import check_sequences
from ..core.threads import one_thread
from ..features.choose import learns_from_pairs
from ..regression.leave_one_out import LeaveOneOut
from .fit import Dynamics, Plan, squares, tracking_error
from .machine import Machine, Recursion

TRACKED = 1_000  # rows at most that a candidate has to track, and that ways are compared on
FEW, FOLDS = 100, 3  # rows, up to which so many parts are held out in turn
FEWEST = 12  # rows of the longest sequence, below which nothing can be judged
AHEAD = 2.0  # standard errors, by which kernel Bayes' rule has to be nearer than densities
BLOCK = 10  # rows whose errors are taken together, since neighbours share theirs
KEPT = 3  # scales of the states: what they alone tell
LAGS = 5  # observations that the rival sees, where they have
NARROW = 100  # columns at most
SIMPLE = "ridge", "mean"
NO_NEARER = 0.98  # share of the error of the mean, above which what is observed tells nothing


class Stretches:
    """Some stretches of the sequences, below each other, but for those that are empty."""

    def __init__(self, X, Z, stretches: list[tuple[int, int]]):
        parts = [np.arange(*ends) for ends in stretches if ends[0] < ends[1]]
        rows = np.concatenate([np.arange(0), *parts])
        self.X, self.Z = (arrays.take(A, rows, axis=0) for A in (X, Z))
        self.lengths = [len(part) for part in parts]
        self.slices = check_sequences(self.lengths or None, len(rows))

    @property
    def lagged(self) -> np.ndarray:
        """Each observation beside those before it, the first of a stretch standing for earlier."""
        rows, first = np.arange(self.X.shape[0]), [s.start for s in self.slices]
        back = rows[:, None] - np.arange(LAGS)
        back = np.maximum(back, np.repeat(first, self.lengths)[:, None])
        return arrays.to_numpy(self.X)[back].reshape(len(rows), -1)


class Split:
    """Rows to learn from, and stretches to track: those `held`, one in each sequence."""

    def __init__(self, X, Z, sequences: list[slice], held: list[tuple[int, int]]):
        pairs = zip(sequences, held, strict=True)
        kept = [ends for s, (a, b) in pairs for ends in ((s.start, a), (b, s.stop))]
        self.learn, self.held = Stretches(X, Z, kept), Stretches(X, Z, held)
        self._kept: list[tuple[Plan, Dynamics]] = []

    def simple(self) -> dict[str, np.ndarray]:
        """What anyone would try first, for every row held out.

        The mean of the states learned from, and a ridge regression of states on five observations.
        """
        Z = arrays.to_numpy(self.learn.Z)
        mean = Z.mean(axis=0)
        told = {"mean": np.broadcast_to(mean, tuple(self.held.Z.shape))}
        if self.learn.X.shape[1] > NARROW:
            return told
        P, held = self.learn.lagged, self.held.lagged
        middle, unit = P.mean(axis=0), arrays.units(P)
        P, held = ((A - middle) / unit for A in (P, held))
        second = P.T @ P / len(P)
        reg, _ = LeaveOneOut(P, Z - mean, solves.EigenGrid.of(second), free=1.0).best()
        slopes = solves.ridge(second, reg).solve(P.T @ (Z - mean) / len(P))
        return {"ridge": mean + held @ slopes} | told

    def means_by(self, plan: Plan, objective: str = "filter") -> np.ndarray:
        """Means of a filter that learns from the rest of the record; NaN where none can be."""
        with one_thread(), checks.hushed():  # troubles are seen in the error
            try:
                machine = self._learned(plan)
            except ValueError:  # a column is constant here
                return np.full(tuple(self.held.Z.shape), np.nan)
            steps = machine.track(self.held.X, self.held.slices)
            if objective == "smooth":
                steps = machine.backward(steps, self.held.slices)
            return np.array([arrays.to_numpy(step.mean) for step in steps])

    def _learned(self, plan: Plan) -> Recursion:
        """What the states alone tell is kept: candidates of a search share it."""
        X, Z, sequences = self.learn.X, self.learn.Z, self.learn.slices
        if plan.inference == "densities":
            return plan.learned(X, Z, sequences)
        of_states = replace(plan, kernel_x=None, reg=None)
        kept = [pair for pair in self._kept if pair[0] == of_states]
        if not kept:
            kept = [(of_states, Dynamics(plan, Z, sequences))]
            self._kept = [*kept, *self._kept][:KEPT]
        return plan.finish(kept[0][1], X, sequences)

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
        ns = [(s.stop, s.stop - s.start) for s in sequences]
        held = [[(stop - min(int(share * n), max(1, TRACKED // count)), stop) for stop, n in ns]]
    made = [Split(X, Z, sequences, h) for h in held]
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


def warn_if_as_near(held: dict[str, float]) -> None:
    """Tell of a filter that is out of its depth."""
    own = min((error for name, error in held.items() if name not in SIMPLE), default=0.0)
    if held and own > NO_NEARER * held["mean"]:
        checks.warn_numerical(
            f"on rows held out the filter is off by {own:.2g} of the states' variance, and their "
            f"mean, whatever is observed, by {held['mean']:.2g}: it cannot follow these states"
        )


def learned(
    plan: Plan, X, Z, sequences: list[slice], names, judged: bool = True
) -> tuple[Recursion, Machine | None, dict[str, float]]:
    """The fit by the way asked for, or found; that by kernel Bayes' rule; the errors compared.

    Densities, unless the rule, with the choices that it made on all rows, is clearly nearer. Who
    gives λ of the rule asks for that rule, and is told no more.
    """
    by_name = plan.inference == "densities"
    found: Any = None if by_name else plan.learned(X, Z, sequences, names)
    judged = judged and (plan.reg is None or plan.inference == "auto")
    judged = judged and not learns_from_pairs(plan.features)
    parts = parted(X, Z, sequences) if judged else []
    laws = plan.laws(X, Z, sequences) if by_name or (parts and plan.compares(X, Z)) else None
    ways = {} if by_name else {"kbr": plan.settled(found)}
    if laws is not None:
        ways["densities"] = replace(plan, inference="densities", like=laws)
    rows = compared(ways, parts) if parts else {}
    errors = {way: float(np.nan_to_num(off.mean(), nan=np.inf)) for way, off in rows.items()}
    if laws is None:
        return found, None, errors
    if not by_name:
        off = rows["densities"] - rows["kbr"]
        gain, error = mean_and_error(np.add.reduceat(off, np.arange(0, len(off), BLOCK)))
        if not gain <= AHEAD * error:
            return found, found, errors
    return plan.nodes(laws, X, Z, names), found, errors


def compared(ways: dict[str, Plan], parts: list[Split]) -> dict[str, np.ndarray]:
    """Squared errors of rows, in units of the states' variances, by ways and by what is simple."""
    truth = np.concatenate([arrays.to_numpy(part.held.Z) for part in parts])
    told = [{w: part.means_by(plan) for w, plan in ways.items()} | part.simple() for part in parts]
    return {way: squares(np.concatenate([m[way] for m in told]), truth, truth) for way in told[0]}


def parted(X, Z, sequences: list[slice]) -> list[Split]:
    """Halves of the first rows are held out in turn, thirds where they are few.

    Where they are fewest nothing is.
    """
    first = [slice(s.start, min(s.stop, TRACKED)) for s in sequences if s.start < TRACKED]
    if max(s.stop - s.start for s in first) < FEWEST:
        return []
    return splits(X, Z, first, FOLDS if Z.shape[0] <= FEW else 2)

"""How a filter is fitted: dynamics from the states, then the update; and what it chooses.

`KernelBayesFilter.fit`, in its order: `Dynamics` learns from the states alone how they move
(λ' by leave-one-out), what share each has in a belief (η), and the way back; `Plan.finish` learns
the update from pairs (λ by leave-one-out under typical beliefs) and the smoother's λ by smoothing
a stretch. Both end in a `machine.Machine`, whose steps are those of `steps`. By densities
`Plan.nodes` makes a machine of two learned laws instead, on nodes or particles. `filter`, `smooth`
and `forecast` run each (`machine.Recursion`), and results hold it with the steps it made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..core import arrays, solves
from ..core.minimise import DECADES, SEARCH_ROWS, heaviest_within, minimise_log10, standard_error
from ..core.moments import evenly
from ..core.sequences import consecutive, spread
from ..core.stages import stage
from ..features.choose import as_target_map, fit_pairs, learns_from_pairs
from ..kernels import Kernel, fitted_kernel
from ..regression.leave_one_out import LeaveOneOut
from .laws import Laws, moves_smoothly
from .machine import Machine, Recursion, readout
from .nodes import NodeMachine
from .particles import machine_of
from .steps import Importance, Shares, Squared, Transition, kept_shares

EXACT = 1e-6  # λ below which the backward pass has it too
SMOOTHERS = (0.01, 0.03, 0.1, 0.2, 0.5)  # λ of the backward pass
SMOOTHED = 100  # training rows on which it is chosen
IN_FULL = 0.5  # share of a column of X that states explain, from which on it counts in full,
LEAST = 0.1  # and what it counts for at least
MANY = 5_000  # rows, beyond which densities take too long to be tried unasked,
NARROW, WIDE = 10, 100  # and columns in all, beyond which they do: unasked, asked
TYPICAL = 10  # beliefs that stand for those a filter meets


class Dynamics:
    """What the states alone tell: how they move, and how one step back is seen from the next.

    V, the shares, and the backward rule, over consecutive states; `typical` are beliefs like those
    that the filter will meet.
    """

    @stage("states")
    def __init__(self, plan: Plan, points, sequences: list[slice], names=None):
        self.points, self.kernel = points, state_kernel(plan.kernel_z, points, names)
        self.features = as_target_map(plan.features)
        Q = arrays.row_major(self.features.fit_transform(points, self.kernel))
        earlier, later = consecutive(sequences)
        before, after = (arrays.take(Q, rows, axis=0) for rows in (earlier, later))
        given, prior = plan.reg_transition, plan.reg_prior
        reg = float(choose_transition_reg(before, after) if given is None else given)
        read, n = readout(Q, points), len(earlier)
        self.transition = Transition(spread(before, later, Q), read, n, reg)
        some = arrays.take(Q, evenly(Q.shape[0], TYPICAL), axis=0)
        self.typical = some @ self.transition.operator.T
        eta = float(choose_prior_reg(Q, self.typical) if prior is None else prior)
        self.reg_prior, self.reg_transition = eta, reg
        self.shares = Shares(Q, eta, Q.shape[0])
        # the importance rule over transitions: later states are what earlier ones are seen by
        back = Shares(spread(before, earlier, Q), eta, n)
        self.smoother = Importance(spread(after, earlier, Q), back, read, 1.0, plan.max_active)


@dataclass(frozen=True)
class Plan:
    """What is asked for: the parameters of `KernelBayesFilter`."""

    inference: str | None
    rule: str
    kernel_x: Any
    kernel_z: Any
    reg_prior: float | None
    reg: float | None
    reg_transition: float | None
    features: Any
    reg_smoother: float | None
    max_active: int | None
    like: Laws | None = None  # whose choices densities take, on so few nodes as they are judged by

    def learned(self, points_x, points, sequences: list[slice], names=(None, None)) -> Recursion:
        """The whole fit; `names` are those of the columns of X and Z."""
        if self.inference == "densities":
            return self.nodes(self.laws(points_x, points, sequences), points_x, points, names)
        dynamics = Dynamics(self, points, sequences, names[1])
        return self.finish(dynamics, points_x, sequences, names[0])

    def compares(self, points_x, points) -> bool:
        """Whether densities are to be compared with the rule on these data."""
        wide = points_x.shape[1] + points.shape[1]
        if self.inference == "auto":
            tried = wide <= WIDE and not learns_from_pairs(self.features)
        else:  # states that vary smoothly, and nothing given that only the rule has
            usual = Plan(None, "importance", "gaussian", *[None] * 7)
            small = points.shape[0] <= MANY and wide <= NARROW
            tried = small and replace(self, max_active=None) == usual
            tried = tried and all(moves_smoothly(z) for z in arrays.to_numpy(points).T)
        return tried and cannot_vary(points_x, points) is None

    def settled(self, machine: Machine) -> Plan:
        """By kernel Bayes' rule, with the choices of a fit by it."""
        same = ("kernel_x", "kernel_z", "reg_prior", "reg_transition")
        found = {name: getattr(machine, name) for name in same}
        found |= {"reg": machine.rule.reg, "reg_smoother": machine.smoother.reg}
        return replace(self, inference="kbr", **found)

    @stage("densities")
    def laws(self, points_x, points, sequences: list[slice]) -> Laws:
        """What densities are learned of, in place of the kernel rule."""
        if why := cannot_vary(points_x, points):
            raise ValueError(why)
        steps = consecutive(sequences)
        if len(steps[0]) < 2:
            raise ValueError(
                f"Z has {len(steps[0])} transition from one row to the next; inference='densities' "
                "needs two"
            )
        return Laws(points_x, points, steps, self.like)

    @stage("nodes")
    def nodes(self, laws: Laws, points_x, points, names) -> NodeMachine:
        """A machine of these laws; `names` are those of X and Z."""
        kernel_x = observed_kernel(self.kernel_x, points_x, points, names[0])
        kernel_z = state_kernel(self.kernel_z, points, names[1])
        found = machine_of(laws, kernel_x, kernel_z, self.max_active, self.like is not None)
        return found.counting(laws) if laws.lasting else found

    @stage("observations and regularisers")
    def finish(self, draft: Dynamics, points_x, sequences: list[slice], names=None) -> Machine:
        """With the rule of the update, learned from observations and states."""
        kernel = observed_kernel(self.kernel_x, points_x, draft.points, names)
        features, Phi = fit_pairs(self.features, points_x, kernel, draft.points, draft.kernel)
        Phi, shares, read = arrays.row_major(Phi), draft.shares, draft.smoother.readout
        if (reg := self.reg) is None:
            reg = choose_reg(Phi, shares, draft.typical, self.rule)
        rule: Importance | Squared
        if self.rule == "importance":
            rule = Importance(Phi, shares, read, float(reg), self.max_active)
        else:
            rule = Squared.of(Phi, shares, read, float(reg))
        machine = Machine(
            draft.transition, rule, draft.smoother, points_x, draft.points, features.kernel_,
            draft.kernel, features, draft.features, draft.reg_prior, draft.reg_transition,
        )  # fmt: skip
        return machine.with_regs(machine.rule.reg, self._smoothing(machine, sequences))

    def _smoothing(self, machine: Machine, sequences: list[slice]) -> float:
        if self.reg_smoother is not None:
            return float(self.reg_smoother)
        reg = 1.0 if self.reg is None else self.reg
        reg = reg if self.rule == "importance" else reg**0.5  # δ = λ²
        return reg if reg < EXACT else choose_smoother_reg(machine, sequences)


def cannot_vary(points_x, points) -> str | None:
    """Why densities cannot be learned from these arrays, if so."""
    for array, name in ((points_x, "X"), (points, "Z")):
        if not isinstance(array, np.ndarray):
            return f"{name} is {type(array).__name__}; inference='densities' needs NumPy arrays"
    for j in np.flatnonzero(arrays.still(points)):
        return f"column {j} of Z is constant; densities need it to vary"
    if arrays.still(points_x).all():
        return "X is constant; densities need it to vary"
    return None


def state_kernel(kernel, points, names) -> Kernel:
    """The kernel of the states; None is Gaussian at half the median distance."""
    asked = "gaussian" if kernel is None else kernel
    fitted = fitted_kernel(asked, points, names=names, name="kernel_z", in_units=True, argument="Z")
    return fitted.scaled(0.5) if kernel is None else fitted


def observed_kernel(kernel, points_x, points, names) -> Kernel:
    """That of the observations; by name, columns count by what the states explain of them.

    Pixels that show the background count less than those that the states move.
    """
    wider: bool | np.ndarray = False
    if isinstance(kernel, str):
        wider = np.clip(explained(points_x, points) / IN_FULL, LEAST, 1.0) ** -0.5
    return fitted_kernel(kernel, points_x, names=names, name="kernel_x", in_units=wider)


def explained(points_x, points) -> np.ndarray:
    """Share of the variance of each column that states explain, (d_x,).

    The rest is half the squared difference between rows whose states are nearest to each other.
    """
    some = evenly(points.shape[0], SEARCH_ROWS)
    X, Z = (arrays.to_numpy(arrays.take(A, some, axis=0)) for A in (points_x, points))
    U = (Z / arrays.units(Z)).round(9)  # so that other units tie as these do
    near = cKDTree(U).query(U, 2)[1]
    other = np.where(near[:, 0] == np.arange(len(U)), near[:, 1], near[:, 0])
    left = 0.5 * ((X - X[other]) ** 2).mean(axis=0)
    return 1.0 - left / arrays.units(X) ** 2


def choose_transition_reg(before, after) -> float:
    """λ' with the least leave-one-out loss of predicting the next state."""
    grid = solves.EigenGrid.of(before.T @ before / before.shape[0])
    return LeaveOneOut(before, after, grid).best()[0]


def choose_prior_reg(Q, beliefs) -> float:
    """η that minimises KuLSIF's leave-one-out criterion, averaged over known numerators.

    J(η) = mean_k [(1/2n) Σ_i (r_k(z_i)/(1 − h_i))² − ⟨r_k, m_k⟩], r_k = (QᵀQ/n + ηI)⁻¹m_k,
    h_i = q_iᵀ(QᵀQ/n + ηI)⁻¹q_i/n (MATH §4; the numerators are beliefs, not samples).
    """
    xp, n = arrays.namespace(Q), Q.shape[0]
    grid = solves.EigenGrid.of(Q.T @ Q / n)
    few = evenly(n, SEARCH_ROWS)
    P, M = arrays.take(Q, few, axis=0) @ grid.vectors, beliefs @ grid.vectors
    P2, M2 = P * P, xp.sum(M * M, axis=0) / M.shape[0]

    def score(reg: float) -> float:
        shrink = grid.shrink(reg)
        left = arrays.at_least(1.0 - (P2 @ shrink) / n, 1e-10)
        ratios = (P @ (shrink[:, None] * M.T)) / left[:, None]
        return float(0.5 * xp.mean(ratios * ratios) - xp.sum(shrink * M2))

    return minimise_log10(score, *DECADES, size=float(xp.sum(grid.values)))[0]


def choose_reg(Phi, shares: Shares, beliefs, rule: str) -> float:
    """λ of kernel Bayes' rule by its leave-one-out risk over the given priors.

    The largest within one standard error of the least. The squared rule takes δ = λ²: both
    filters, 1/(c + λ) and c/(c² + δ), then bend at c = λ.
    """
    losses = list(_losses(Phi, shares, beliefs))
    if not losses:
        return 1e-2

    def total(reg: float) -> float:
        return sum(loss(reg) / seen for loss, seen in losses)

    reg, least = minimise_log10(total, *DECADES)
    slack = sum(standard_error(loss.rows(reg)) ** 2 / seen for loss, seen in losses) ** 0.5
    reg = heaviest_within(total, reg, least + slack, DECADES[1])
    return reg if rule == "importance" else reg**2


def _losses(Phi, shares: Shares, beliefs) -> Iterator[tuple[LeaveOneOut, float]]:
    """The loss under each belief, over a sample of its rows, and the share of rows in it."""
    xp = arrays.namespace(Phi)
    for k in range(beliefs.shape[0]):
        d = kept_shares(shares(beliefs[k, :]))
        rows = np.flatnonzero(arrays.to_numpy(d) > 0)
        if len(rows) > 1:
            share = arrays.take(d, rows, axis=0) / xp.sum(d)
            P, Q = (arrays.take(A, rows, axis=0) for A in (Phi, shares.Q))
            grid = solves.EigenGrid.of(P.T @ (share[:, None] * P))
            loss = LeaveOneOut(P, Q, grid, share)
            few = loss.thinned(SEARCH_ROWS // TYPICAL)
            yield few, few.P.shape[0] / len(rows)


def squares(means, Z: np.ndarray, learned: np.ndarray) -> np.ndarray:
    """Squared errors of means, a row each, in units of the variances of the states learned from.

    States that vary by no more than rounding dust do not count.
    """
    size = learned.std(axis=0)
    varies = size > 1e-12 * np.abs(learned).max(axis=0)
    off = (np.asarray(means) - Z)[:, varies] / size[varies]
    return (off**2).sum(axis=1) / max(1, varies.sum())


def tracking_error(means, Z: np.ndarray, learned: np.ndarray) -> float:
    """Their mean; what is not finite is infinite."""
    return float(np.nan_to_num(squares(means, Z, learned).mean(), nan=np.inf))


def choose_smoother_reg(machine: Machine, sequences: list[slice]) -> float:
    """λ of the backward pass with the least error in smoothing a stretch of the training record.

    The longest sequence's first rows, in units of each state's variance. They were learned from,
    which flatters the filter and the smoother alike; the λ found is that of fresh rows within a
    step of the grid.
    """
    longest = max(sequences, key=lambda s: s.stop - s.start)
    rows = slice(longest.start, min(longest.stop, longest.start + SMOOTHED))
    Z, X = arrays.to_numpy(machine.points), machine.points_x[rows, :]
    steps = machine.track(X, [slice(0, X.shape[0])])
    tracks = {reg: list(steps) for reg in SMOOTHERS}
    for i in range(len(steps) - 2, -1, -1):
        revised = machine.back(steps[i])
        for reg, track in tracks.items():
            track[i] = revised(track[i + 1], reg)

    def error(reg: float) -> float:
        means = [arrays.to_numpy(step.mean) for step in tracks[reg]]
        return tracking_error(means, Z[rows], Z)

    return min(SMOOTHERS, key=error)

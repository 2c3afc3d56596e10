"""How a filter is fitted: dynamics learned from the states, then the update from both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import arrays
from ..core.checks import Array
from ..core.sequences import consecutive, spread
from ..core.stages import stage
from ..features.base import FeatureMap
from ..features.choose import as_target_map, fit_pairs
from ..kernels import Kernel, fitted_kernel
from . import settings
from .machine import Machine, readout
from .nodes import NodeMachine
from .steps import Importance, Shares, Squared, Transition

EXACT = 1e-6  # λ below which the backward pass has it too


@dataclass(frozen=True)
class Dynamics:
    """What the states alone tell: how they move, and how one step back is seen from the next."""

    points: Array
    kernel: Kernel
    features: FeatureMap
    transition: Transition
    shares: Shares
    typical: Array  # beliefs like those that the filter will meet
    smoother: Importance
    reg_prior: float
    reg_transition: float


@dataclass(frozen=True)
class Plan:
    """What is asked for: the parameters of `KernelBayesFilter`."""

    inference: str
    rule: str
    kernel_x: Any
    kernel_z: Any
    reg_prior: float | None
    reg: float | None
    reg_transition: float | None
    features: Any
    reg_smoother: float | None
    max_active: int | None

    @stage("densities")
    def nodes(self, points_x, points, sequences: list[slice], names) -> NodeMachine:
        """With densities in place of the kernel rule; `names` are those of X and Z."""
        for array, name in ((points_x, "X"), (points, "Z")):
            if not isinstance(array, np.ndarray):
                raise ValueError(
                    f"{name} is {type(array).__name__}; inference='densities' needs NumPy arrays"
                )
            for j in np.flatnonzero(array.max(axis=0) == array.min(axis=0)):
                raise ValueError(f"column {j} of {name} is constant; densities need it to vary")
        kernel_x = fitted_kernel(self.kernel_x, points_x, names=names[0], name="kernel_x")
        kernel_z = settings.state_kernel(self.kernel_z, points, names[1])
        pairs = consecutive(sequences)
        return NodeMachine.of(points_x, points, pairs, kernel_x, kernel_z, self.max_active)

    @stage("states")
    def draft(self, points, sequences: list[slice], names) -> Dynamics:
        """V, the shares, and the backward rule, over consecutive states."""
        kernel = settings.state_kernel(self.kernel_z, points, names)
        features = as_target_map(self.features)
        Q = arrays.row_major(features.fit_transform(points, kernel))
        earlier, later = consecutive(sequences)
        before, after = (arrays.take(Q, rows, axis=0) for rows in (earlier, later))
        reg = _given_or(self.reg_transition, lambda: settings.choose_transition_reg(before, after))
        read = readout(Q, points)
        transition = Transition.of(spread(before, later, Q), read, len(earlier), reg)
        typical = settings.typical_beliefs(Q, transition.operator)
        reg_prior = _given_or(self.reg_prior, lambda: settings.choose_prior_reg(Q, typical))
        # the importance rule over transitions: later states are what earlier ones are seen by
        back = Shares.of(spread(before, earlier, Q), reg_prior, len(earlier))
        smoother = Importance(spread(after, earlier, Q), back, read, 1.0, self.max_active)
        shares = Shares.of(Q, reg_prior)
        return Dynamics(
            points, kernel, features, transition, shares, typical, smoother, reg_prior, reg
        )

    @stage("observations and regularisers")
    def finish(self, draft: Dynamics, points_x, sequences: list[slice], names) -> Machine:
        """With the rule of the update, learned from observations and states."""
        kernel = fitted_kernel(self.kernel_x, points_x, names=names, name="kernel_x")
        features, Phi = fit_pairs(self.features, points_x, kernel, draft.points, draft.kernel)
        Phi, shares, read = arrays.row_major(Phi), draft.shares, draft.smoother.readout
        reg = _given_or(
            self.reg,
            lambda: settings.choose_reg(Phi, shares.Q, shares, draft.typical, self.rule),
        )
        rule: Importance | Squared
        if self.rule == "importance":
            rule = Importance(Phi, shares, read, reg, self.max_active)
        else:
            rule = Squared.of(Phi, shares, read, reg)
        machine = Machine(
            draft.transition, rule, draft.smoother, points_x, draft.points, features.kernel_,
            draft.kernel, features, draft.features, draft.reg_prior, draft.reg_transition,
        )  # fmt: skip
        return machine.smoothing(self._smoothing(machine, sequences))

    def _smoothing(self, machine: Machine, sequences: list[slice]) -> float:
        if self.reg_smoother is not None:
            return float(self.reg_smoother)
        reg = 1.0 if self.reg is None else self.reg
        reg = reg if self.rule == "importance" else reg**0.5  # δ = λ²
        return reg if reg < EXACT else settings.choose_smoother_reg(machine, sequences)


def _given_or(value: float | None, choose: Callable[[], float]) -> float:
    return choose() if value is None else float(value)

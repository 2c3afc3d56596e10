"""What a filter chooses from its training sequences: kernels, regularisers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core import arrays, solves
from ..core.checks import Array
from ..core.minimise import DECADES, SEARCH_ROWS, heaviest_within, minimise_log10, standard_error
from ..core.moments import evenly
from ..kernels import Kernel, fitted_kernel
from ..regression.leave_one_out import LeaveOneOut
from .machine import Machine, Step
from .steps import Shares, kept_shares

SMOOTHERS = (0.01, 0.03, 0.1, 0.2, 0.5)  # λ of the backward pass
SMOOTHED = 100  # training rows on which it is chosen
TYPICAL = 10  # beliefs that stand for those a filter meets


def state_kernel(kernel, points, names) -> Kernel:
    """The kernel of the states; None is Gaussian at half the median distance."""
    asked = "gaussian" if kernel is None else kernel
    fitted = fitted_kernel(asked, points, names=names, name="kernel_z", argument="Z")
    return fitted.scaled(0.5) if kernel is None else fitted


def typical_beliefs(Q, operator) -> Array:
    """Predictions from a few training states, evenly spaced in time: rows V q(z_i)."""
    rows = evenly(Q.shape[0], TYPICAL)
    return arrays.take(Q, rows, axis=0) @ operator.T


def choose_transition_reg(before, after) -> float:
    """λ' with the least leave-one-out loss of predicting the next state."""
    grid = solves.EigenGrid.of(before.T @ before / before.shape[0])
    return LeaveOneOut.of(before, after, grid).best()[0]


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

    size = float(xp.sum(grid.values))
    return minimise_log10(lambda reg: score(reg * size), *DECADES)[0] * size


def choose_reg(Phi, Psi, shares: Shares, beliefs, rule: str) -> float:
    """λ of kernel Bayes' rule by its leave-one-out risk over the given priors.

    The largest within one standard error of the least. The squared rule takes δ = λ²: both
    filters, 1/(c + λ) and c/(c² + δ), then bend at c = λ.
    """
    losses = list(_losses(Phi, Psi, shares, beliefs))
    if not losses:
        return 1e-2

    def total(reg: float) -> float:
        return sum(loss(reg) / seen for loss, seen in losses)

    reg, least = minimise_log10(total, *DECADES)
    slack = sum(standard_error(loss.rows(reg)) ** 2 / seen for loss, seen in losses) ** 0.5
    reg = heaviest_within(total, reg, least + slack, DECADES[1])
    return reg if rule == "importance" else reg**2


def _losses(Phi, Psi, shares: Shares, beliefs) -> Iterator[tuple[LeaveOneOut, float]]:
    """The loss under each belief, over a sample of its rows, and the share of rows in it."""
    xp = arrays.namespace(Phi)
    for k in range(beliefs.shape[0]):
        d = kept_shares(shares.Q @ (shares.gain @ beliefs[k, :]))
        rows = np.flatnonzero(arrays.to_numpy(d) > 0)
        if len(rows) > 1:
            share = arrays.take(d, rows, axis=0) / xp.sum(d)
            P = arrays.take(Phi, rows, axis=0)
            grid = solves.EigenGrid.of(P.T @ (share[:, None] * P))
            loss = LeaveOneOut.of(P, arrays.take(Psi, rows, axis=0), grid, share)
            few = loss.thinned(SEARCH_ROWS // TYPICAL)
            yield few, few.P.shape[0] / len(rows)


def tracking_error(means, Z: np.ndarray, learned: np.ndarray) -> float:
    """Mean squared error of means, in units of the variances of the states learned from.

    States that vary by no more than rounding dust do not count.
    """
    size = learned.std(axis=0)
    varies = size > 1e-8 * np.abs(learned).max(axis=0)
    off = (np.asarray(means) - Z)[:, varies] / size[varies]
    return float(np.mean(off**2)) if varies.any() else 0.0


def smoothed_means(machine: Machine, steps: list[Step], sequences: list[slice]) -> list[list]:
    """Smoothed means of filtered steps, by each of the λ of `SMOOTHERS`."""
    tracks = {reg: list(steps) for reg in SMOOTHERS}
    for s in sequences:
        for i in range(s.stop - 2, s.start - 1, -1):
            revised = machine.back(steps[i])
            for reg, track in tracks.items():
                track[i] = revised(track[i + 1], reg)
    return [[arrays.to_numpy(step.mean) for step in track] for track in tracks.values()]


def choose_smoother_reg(machine: Machine, sequences: list[slice]) -> float:
    """λ of the backward pass with the least error in smoothing a stretch of the training record.

    The longest sequence's first rows, in units of each state's variance. They were learned from,
    which flatters the filter and the smoother alike; the λ found is that of fresh rows within a
    step of the grid.
    """
    longest = max(sequences, key=lambda s: s.stop - s.start)
    rows = slice(longest.start, min(longest.stop, longest.start + SMOOTHED))
    Z, X = arrays.to_numpy(machine.points), machine.points_x[rows, :]
    whole = [slice(0, X.shape[0])]
    steps = machine.track(X, whole)
    errors = [tracking_error(m, Z[rows], Z) for m in smoothed_means(machine, steps, whole)]
    return SMOOTHERS[int(np.argmin(np.nan_to_num(errors, nan=np.inf)))]

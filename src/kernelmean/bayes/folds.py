"""The regulariser of kernel Bayes' rule: by pairs left out, one by one or in folds."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import Array, arrays, solves
from ..core.minimise import DECADES, minimise_log10
from ..core.moments import numbered
from ..regression.leave_one_out import LeaveOneOut
from .prior import as_they_came

FOLDS = 5


def choose_reg(rows: Any) -> float:
    """λ or δ of `WeightedPairs`, as their `asked.selection` says."""
    asked, Phi, d, every = rows.asked, rows.Phi, rows.shares, rows.every
    how = asked.selection
    if how == "auto":
        how = "loo" if asked.rule == "importance" else "heldout"
    copies = rows.fit.copies if rows.pairs is None else None
    if not how.startswith("loo"):
        known = Phi, rows.beta, rows.Psi, asked.rule
        return choose_by_folds(*known, balance=how == "balance", copies=copies)
    n, C, grid = None, None, solves.EigenGrid.of(rows.second)
    even = as_they_came(rows.ratio.prior, rows.fit, d)
    if every is not None:
        n, d, C = every.n, d * (Phi.shape[0] / every.n), grid.vectors.T @ every.cross
    # a lengthscale tuned to the data leaves no slack for a heavier regulariser where priors differ
    one_se = how == "loo" and (even or not asked.tune_lengthscale)
    return LeaveOneOut(Phi, rows.Psi, grid, d, n=n, C=C, copies=copies).best(one_se, even)[0]


def choose_by_folds(Phi, beta, Psi, rule: str, balance: bool, copies=None) -> float:
    """Regulariser of kernel Bayes' rule by K-fold validation on the training pairs.

    Held-out risk Σ_a Σ_{i∈a} β⁺_i ‖ψ_i − μ^{(−a)}(x_i)‖², the posterior learned without fold a; or
    (`balance`) Fukumizu 2013 §4.2, Σ_a ‖avg_{i∈a} μ^{(−a)}(x_i) − avg_{i∈a} ψ_i‖², averages
    weighted by the shares of the rows under the prior. Copies of a row are in one fold.
    """
    xp = arrays.namespace(Phi)
    size = float(xp.abs(beta) @ xp.sum(Phi * Phi, axis=-1))
    power = 1 if rule == "importance" else 2  # δ is on the scale of C²
    fold = (np.arange(Phi.shape[0]) if copies is None else numbered(copies)) % FOLDS
    folds = [_left_out(Phi, beta, Psi, rule, fold == a) for a in range(FOLDS)]

    def loss(reg: float) -> float:
        return sum(_loss(d, off(reg), balance) for d, off in folds)

    low, high = (bound * power for bound in DECADES)
    return minimise_log10(loss, low, high, size=size**power)[0]


def _left_out(Phi, beta, Psi, rule: str, out) -> tuple[Array, Callable[[float], Array]]:
    """Shares of the rows of a fold, and ψ_i − μ^{(−a)}(x_i) for every regulariser."""
    xp = arrays.namespace(Phi)
    rows, rest = np.flatnonzero(out), np.flatnonzero(~out)
    d = xp.clip(beta, 0.0, None)
    share = arrays.take(d if rule == "importance" else beta, rest, axis=0)
    kept_mass = float(xp.sum(xp.clip(share, 0.0, None)))
    share = share * (float(xp.sum(d)) / kept_mass if kept_mass > 0 else 1.0)
    kept, Psi_kept = arrays.take(Phi, rest, axis=0), arrays.take(Psi, rest, axis=0)
    right = share[:, None] * kept
    squared, second = rule == "squared", kept.T @ right
    values, vectors = xp.linalg.eigh(second) if squared else solves.eigh(second)  # for every one
    P, own = arrays.take(Phi, rows, axis=0) @ vectors, arrays.take(Psi, rows, axis=0)
    target = vectors.T @ (right.T @ Psi_kept)

    def off(reg: float) -> Array:
        shrink = solves.squared_filter(values, reg) if squared else 1.0 / (values + reg)
        return own - (P * shrink) @ target

    return arrays.take(d, rows, axis=0), off


def _loss(d, off, balance: bool) -> float:
    xp = arrays.namespace(d)
    if balance:
        mass = float(xp.sum(d))
        return float(xp.sum((d @ off) ** 2)) / mass**2 if mass > 0 else 0.0
    return float(d @ xp.sum(off * off, axis=-1))

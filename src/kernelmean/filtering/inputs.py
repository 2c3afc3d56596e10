"""What users hand to a fitted filter, checked: observations, priors, supervision."""

from collections.abc import Sequence

import numpy as np

from ..bayes.supervision import each_strength, unpack_supervision
from ..core import Array, arrays, checks
from ..core.sequences import check_forward, check_sequences, parted
from ..core.wild import without_wild
from ..embedding.embedding import MeanEmbedding, as_one_embedding
from ..embedding.law import Law
from .machine import Machine, Recursion, Step
from .steps import Squared

TOLD = 8  # lengths of trajectories


def record(X, Z, lengths) -> tuple[Array, Array, list[slice]]:
    """Observations and states to learn from, and the sequences that they form.

    Rows whose states are wildly off those around them are left out, and sequences end there.
    """
    points_x = checks.as_points(X, "X", min_rows=2, one_d=False, gaps=True)
    points_z = checks.as_points(Z, "Z", n=points_x.shape[0], gaps=True)
    checks.check_library(points_z, points_x, "Z")
    sequences = check_sequences(lengths, points_x.shape[0])
    check_forward(X, sequences)
    check_forward(Z, sequences, "Z")
    _check_whole(points_x, points_z, sequences)
    seen = without_wild(points_z, np.ones(points_z.shape[0], dtype=bool), sequences, "Z")
    if not seen.all():
        kept, sequences = np.flatnonzero(seen), parted(seen, sequences)
        points_x, points_z = (arrays.take(A, kept, axis=0) for A in (points_x, points_z))
    return checks.frozen(points_x), checks.frozen(points_z), sequences


def _check_whole(points_x, points_z, sequences: list[slice]) -> None:
    """Refuse gaps: where one is, a trajectory ends."""
    gaps = [np.isnan(arrays.to_numpy(A)).any(axis=1) for A in (points_x, points_z)]
    gone = gaps[0] | gaps[1]
    if not gone.any():
        return
    if gone.all():
        raise ValueError("X contains NaN, or Z does, in every row; observations are needed")
    lengths = [str(s.stop - s.start) for s in parted(~gone, sequences)]
    some = ", ".join([*lengths[:TOLD], *["..."][: len(lengths) - TOLD]])
    raise ValueError(
        f"{'X' if gaps[0].any() else 'Z'} contains NaN ({gone.sum()} of {len(gone)} rows, first in "
        f"row {gone.argmax()}); transitions are learned from neighbours, and what is put into a "
        "gap would be one that never was: leave these rows out of X and Z, and let trajectories "
        f"end there, lengths=[{some}]"
    )


def belief(machine: Recursion, prior, names=None) -> MeanEmbedding:
    """Before the first observation; None is the law of the training states."""
    if prior is None:
        return machine.everywhere()
    if isinstance(prior, Law):
        raise ValueError(f"prior is a {type(prior).__name__}; its `embedding` is needed")
    d, where = machine.points.shape[1], "the training states"
    m = as_one_embedding(prior, machine.kernel_z, "prior", d, where, names)
    checks.check_library(m.points, machine.points, "prior")
    if float(m.total()) <= 0:
        raise ValueError(f"prior has weights that sum to {float(m.total()):g}; one is needed")
    return m


def check_supervised(machine: Recursion) -> None:
    """Only one of the rules can be supervised."""
    if not isinstance(machine, Machine):
        raise ValueError("supervision needs inference='kbr'; this one has 'densities'")
    if isinstance(machine.rule, Squared):
        raise ValueError("supervision needs rule='importance'; this one has 'squared'")


def pairs(
    machine: Recursion, supervision, names_x=None, names_z=None
) -> tuple[Array, Array, Array]:
    """Observations, states, strengths."""
    check_supervised(machine)
    x_s, z_s, strength = unpack_supervision(supervision)
    x_s = checks.as_rows(x_s, machine.points_x.shape[1], "x_s", "X", names_x)
    z_s = checks.as_rows(z_s, machine.points.shape[1], "z_s", "the training states", names_z)
    checks.check_library(x_s, machine.points_x, "x_s")
    checks.check_library(z_s, machine.points, "z_s")
    checks.check_lengths(x_s.shape[0], z_s.shape[0], "x_s", "z_s")
    return x_s, checks.frozen(z_s), arrays.like(each_strength(strength, x_s.shape[0]), x_s)


def warn_of_collapse(steps: Sequence[Step]) -> None:
    """Once, of the observations that changed nothing although they should."""
    if collapsed := sum(step.collapsed for step in steps):
        checks.warn_numerical(
            f"{collapsed} of {len(steps)} observations are unlike any seen in training (or reg "
            "is too large); the prediction was kept there (see `collapsed`)",
        )

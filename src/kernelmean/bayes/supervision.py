"""Pairs that supervise a posterior (Song et al. 2016), unpacked and checked."""

import numpy as np

from ..core import Array, arrays, checks
from ..embedding.embedding import MeanEmbedding


def unpack_supervision(supervision, rule: str = "importance") -> tuple:
    """Observations, targets and strength, or an error that says what was expected."""
    if rule != "importance":
        raise ValueError(f"supervision needs rule='importance'; this one has {rule!r}")
    try:
        x_s, z_s, strength = supervision
    except (TypeError, ValueError) as err:
        raise ValueError(
            "supervision must be a tuple (x_s, z_s, strength): observations, targets, weight"
        ) from err
    return x_s, z_s, strength


def targets(z_s, s: int) -> tuple[Array, Array]:
    """Points of the supervision's targets, and the weights of each target on them."""
    if isinstance(z_s, MeanEmbedding):
        points, A = z_s.points, z_s.weights if z_s.batch is not None else z_s.weights[None, :]
    else:
        points = checks.as_points(z_s, "z_s")
        A = arrays.like(np.eye(points.shape[0]), points)
    checks.check_lengths(s, A.shape[0], "x_s", "z_s")
    return points, A


def each_strength(strength, s: int) -> np.ndarray:
    """One checked strength per row of the supervision."""
    values = arrays.to_numpy(checks.as_floats(strength, "strength"))
    return np.broadcast_to(checks.as_each(values, s, "strength", zero=True), s).copy()

"""Bandwidths before a search: rules of thumb and ties."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import Line, arrays, checks
from ..core.moments import normal_bandwidth
from ..embedding.embedding import MeanEmbedding
from ..kernels import Gaussian, as_kernel

FIRST = (-1.3, 0.5)  # of log10 of the bandwidth, relative to Silverman's, at first


def silverman(Y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Bandwidths (d,) of Silverman's rule; the spread is robust to heavy tails.

    Rows may have weights (n,), none below zero.
    """
    n: float = len(Y)
    how: dict[str, Any] = {}
    if weights is not None:
        Y, weights = Y[weights > 0], weights[weights > 0]
        n, how = weights.sum() ** 2 / (weights**2).sum(), {"method": "inverted_cdf"}
    low, high = np.quantile(Y, [0.159, 0.841], axis=0, weights=weights, **how)
    off = Y - np.average(Y, axis=0, weights=weights)
    deviation = np.average(off**2, axis=0, weights=weights) ** 0.5
    deviation = np.where(arrays.still(Y), 0.0, deviation)
    spread = np.where(high > low, np.minimum(deviation, 0.5 * (high - low)), deviation)
    return normal_bandwidth(n, Y.shape[1]) * np.where(spread < checks.SMALLEST, 0.0, spread)


def spread_ties(Y: np.ndarray) -> np.ndarray:
    """Y with equal values of a column drawn apart, as far as a smooth density would have them.

    The score rewards a bandwidth of zero where values repeat, for then there is no density. m of n
    values at v are spread, in random order, evenly over the width m/(n p̂(v)) that holds them
    under Silverman's p̂, or over their share of the gaps to their neighbours if that is wider.
    Columns without ties stay as they are. Draws go by what the columns hold, not by their order.
    """
    rng, spread = np.random.default_rng(0), Y.copy()
    ties = [np.unique(column, return_inverse=True, return_counts=True) for column in Y.T]
    columns = list(zip(spread.T, silverman(Y), ties, strict=True))
    columns.sort(key=lambda c: (c[2][1].tobytes(), c[0].tobytes()))
    for column, bandwidth, (values, which, count) in columns:
        if 1 < len(values) < len(Y) and bandwidth > 0:
            width = np.where(count > 1, _widths(values, count, float(bandwidth)), 0.0)
            order = np.lexsort((rng.random(len(Y)), which))
            place = np.arange(len(Y)) - np.repeat(np.cumsum(count) - count, count)
            share = (place + 0.5) / np.repeat(count, count) - 0.5
            column[order] += np.repeat(width, count) * share
    return spread


def _widths(values: np.ndarray, count: np.ndarray, bandwidth: float) -> np.ndarray:
    """The width over which the ties at each value are spread."""
    gaps = np.diff(values)
    around = 0.5 * (np.append(gaps[:1], gaps) + np.append(gaps, gaps[-1:]))
    pilot = MeanEmbedding(values, count / count.sum(), Gaussian(bandwidth))
    smooth = count / (count.sum() * pilot.density(values[:, None], bandwidth))
    return np.maximum(smooth, around)


def bandwidth_lines(bandwidth: np.ndarray, names: Sequence[str], given) -> list[Line]:
    """For summaries: the bandwidth along each column."""
    pairs = zip(names, bandwidth.tolist(), strict=True)
    return [Line.chosen(f"bandwidth of {name}", width, given) for name, width in pairs]


def with_bandwidth(kernel, bandwidth, Y: np.ndarray, name: str, weights=None) -> Any:
    """A smoothing kernel at the bandwidth given, or at that of Silverman's rule for weighted rows.

    Raises
    ------
    ValueError
        If the kernel has no density, the bandwidth not as many entries as there are columns, or a
        column no spread.
    """
    kernel = as_kernel(kernel, name=name)
    if bandwidth is None:
        bandwidth = tuple(silverman(Y, weights).tolist())
        flat = [j for j, width in enumerate(bandwidth) if width <= 0]
        if flat:
            of = {"kernel_y": "y", "kernel_z": "Z"}.get(name, "X")
            raise ValueError(f"{of}: columns {flat} are constant; drop them, or give a bandwidth")
    if not hasattr(kernel, "lengthscale"):
        raise ValueError(
            f"{name} is {kernel!r}; a Gaussian, Laplace or Matern kernel (in EmbeddedDensity also "
            "Periodic) is needed, for its integral must be finite and its width set by a bandwidth"
        )
    kernel = kernel.smoothing(bandwidth)
    given = np.shape(kernel.lengthscale)
    if given not in [(), (Y.shape[1],)]:
        raise ValueError(f"bandwidth has {given[0]} entries but there are {Y.shape[1]} columns")
    kernel.log_normaliser(Y.shape[1])  # refuses what has no density
    return kernel

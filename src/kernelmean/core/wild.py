"""Values that have no place in their series, or column: neither decides what is usual there."""

import numpy as np
from scipy.ndimage import median_filter

from . import Array, arrays, checks

AROUND = 5  # rows whose median a value is compared with, itself among them
WILD = 30.0  # changes from row to row, or deviations, that it may be away
FEW, SHARE = 3, 0.01  # rows at most, or that share of all: more belong to the series
FEWEST = 20  # changes by which they can be told


def without_wild(
    points: Array, seen: np.ndarray, sequences: list[slice], name: str = "X"
) -> np.ndarray:
    """The rows seen but for a few with |y_t − median(y_{t−2}, ..., y_{t+2})| > 30 usual changes.

    A usual change is the mean of |y_t − y_{t−1}|, the largest left out. One such value would decide
    what is learned, most of all of a line. A step is none: the median goes with it.
    """
    Y, few = arrays.to_numpy(points), max(FEW, int(SHARE * seen.sum()))
    off, changes = np.zeros(Y.shape), []
    for s in sequences:
        there = np.flatnonzero(seen[s]) + s.start
        off[there] = np.abs(Y[there] - median_filter(Y[there], (AROUND, 1), mode="mirror"))
        changes.append(np.abs(np.diff(Y[there], axis=0)))
    known = np.sort(np.concatenate(changes), axis=0)
    if len(known) < max(FEWEST, 3 * few):  # many sequences of a row or two have few
        return seen
    usual = known[: -2 * few].mean(axis=0)
    wild = ((off > WILD * usual) & (usual > 0)).any(axis=1)
    if not 0 < wild.sum() <= few:
        return seen
    t = int(np.argmax(wild))
    checks.warn_numerical(
        f"{name} has values that are further than {WILD:g} usual changes from those around them, "
        f"in {wild.sum()} of {seen.sum()} rows (row {t}: {Y[t].tolist()}); they are learned from "
        "as if missing"
    )
    return seen & ~wild


def usual_spread(X: Array) -> Array:
    """Standard deviations of the columns (d,); where a few rows are wild, those of the others.

    Wild are rows further from the median than 30 deviations of all but the farthest few.
    """
    Y, spread = arrays.to_numpy(X), arrays.namespace(X).std(X, axis=0)
    few = max(FEW, int(SHARE * len(Y)))
    if len(Y) < FEWEST:
        return spread
    off = np.abs(Y - np.median(Y, axis=0))
    usual = Y.std(axis=0, where=off <= np.sort(off, axis=0)[-few - 1])
    wild = (off > WILD * usual) & (usual > 0)
    wild &= wild.sum(axis=0) <= few
    return arrays.like(Y.std(axis=0, where=~wild), X) if wild.any() else spread

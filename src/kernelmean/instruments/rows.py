"""Which rows serve which stage of an instrumental-variable regression.

Rows come in parts. A part knows whether its rows taught the first stage (then their embeddings
leave the row itself out) and whether they have a share in the second. The ways of sharing rows
differ in nothing else:

- the jackknife: one part, in both stages;
- a share: one part in stage 1, another in stage 2;
- K folds: K parts, each with a first stage learned from the others;
- two samples: rows in both stages, in the first only and in the second only, by what they lack.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from numbers import Integral

import numpy as np

from ..core import arrays
from ..core.checks import Array, check_count, check_positive, generator
from ..core.rows import put_together
from .groups import Part


def kind_of(split) -> str:
    """The way of sharing rows: "loo", "samples", "folds" or "share"."""
    if isinstance(split, str):
        if split not in ("loo", "samples"):
            raise ValueError(
                f'split is {split!r}; "loo", "samples", a share of the rows in (0, 1) or a number '
                "of folds is needed"
            )
        return split
    if isinstance(split, Integral) and not isinstance(split, bool):
        return "folds"
    return "share"


def share(split, random_state, X, Z, y) -> list[Part]:
    """The rows in groups that play the same part."""
    kind = kind_of(split)
    rng = None if random_state is None else generator(random_state)
    if kind == "loo":
        return [Part(X, Z, y)]
    if kind == "samples":
        return _samples(X, Z, y)
    n = y.shape[0]
    bounds = _folds(split, n) if kind == "folds" else _halves(split, n)
    order = np.arange(n) if rng is None else rng.permutation(n)
    pieces = [order[i:j] for i, j in itertools.pairwise(bounds)]
    parts = [Part(*(arrays.take(a, piece, axis=0) for a in (X, Z, y))) for piece in pieces]
    if kind == "folds":
        return [replace(part, own=False) for part in parts]
    first, second = parts
    return [replace(first, outcome=False), replace(second, own=False, teaches=False)]


def _folds(split, n: int) -> list[int]:
    folds = check_count(split, "split", minimum=2)
    if folds > n // 2:
        raise ValueError(f"split is {folds} folds, but {n} rows allow {n // 2} at most")
    return [round(n * a / folds) for a in range(folds + 1)]


def _halves(split, n: int) -> list[int]:
    portion = check_positive(split, "split")
    first = round(portion * n)
    if min(first, n - first) < 2:
        raise ValueError(
            f"split is {portion}, which leaves {first} and {n - first} of {n} rows to the two "
            "stages; each needs at least 2 (a share between 0 and 1)"
        )
    return [0, first, n]


def _samples(X, Z, y) -> list[Part]:
    """Rows in both stages, in the first only, and in the second only, by what they lack."""
    xp = arrays.namespace(X)
    lacks_x, lacks_y = xp.any(xp.isnan(X), axis=1), xp.isnan(y)
    known_x, known_y = ~arrays.to_numpy(lacks_x), ~arrays.to_numpy(lacks_y)
    for name, known in [("X", known_x), ("y", known_y)]:
        if known.sum() < 4:
            raise ValueError(f"{name} is known in {known.sum()} rows; at least 4 are needed")
    # what a row lacks is never read: any number will do
    X = xp.where(lacks_x[:, None], arrays.take(X, [int(known_x.argmax())], axis=0), X)
    y = xp.where(lacks_y, xp.zeros_like(y), y)
    parts = []
    for a, b in [(True, True), (True, False), (False, True)]:
        rows = np.flatnonzero((known_x == a) & (known_y == b))
        if len(rows):
            part = Part(*(arrays.take(column, rows, axis=0) for column in (X, Z, y)))
            parts.append(replace(part, own=a, teaches=a, outcome=b))
    return parts


def together(parts: list[Part], name: str) -> Array:
    """One array of all the parts' rows."""
    return put_together([getattr(part, name) for part in parts])


def complete(parts: list, kind: str) -> list:
    """Parts or groups whose rows have regressors and outcomes: all, but for two samples."""
    return [part for part in parts if kind != "samples" or (part.teaches and part.outcome)]


def thinned_parts(parts: list[Part], limit: int) -> list[Part]:
    """The same parts with evenly spaced rows only, at most `limit` in all."""
    n = sum(part.n for part in parts)
    if n <= limit:
        return parts
    return [part.thinned(max(2, limit * part.n // n)) for part in parts]
